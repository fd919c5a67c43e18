"""Corners of a plan that random catalogues seldom reach."""

from __future__ import annotations

import msgspec
from shop import base_of, plan_of, sheet_saying

from petsync.model import Category, Pet, Tag

REX = Pet(id=1, name="Rex", status="sold")


def with_(**fields: object) -> Pet:
    """Rex with other fields."""
    return msgspec.structs.replace(REX, **fields)


def test_a_tag_without_an_id_is_taken_away_though_the_store_gave_it_one() -> None:
    """The export had a tag by its name alone; the service has numbered it since."""
    exported, now = with_(tags=(Tag(None, "x"),)), with_(tags=(Tag(1, "x"), Tag(2, "y")))
    sheet = sheet_saying({"id": 1, "tags": []}, base=base_of([exported]))
    (change,) = plan_of([now], sheet).changes
    assert change.after == with_(tags=(Tag(2, "y"),))


def test_a_category_without_a_name_can_be_cleared() -> None:
    """Though its id still stands in the cell beside."""
    sheet = sheet_saying({"id": 1, "category": "", "category_id": 7})
    (change,) = plan_of([with_(category=Category(7, None))], sheet).changes
    assert change.after == REX
    assert plan_of([REX], sheet).in_sync


def test_a_conflict_names_its_pet() -> None:
    """As the store calls it, or else as the row does."""
    sheet = sheet_saying({"id": 1, "action": "add", "name": "Max"}, {"id": 9, "name": "Zoe"})
    named = [(each.rule, each.name) for each in plan_of([REX], sheet).conflicts]
    assert named == [("exists", "Rex"), ("no-status", "Zoe")]
