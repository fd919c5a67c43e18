"""Corners of a plan that random catalogues seldom reach."""

from __future__ import annotations

import msgspec
from shop import base_of, error_at, plan_of, sheet_saying

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


def test_another_pet_that_is_just_so_is_pointed_out() -> None:
    """A row that was copied, and its id cleared, adds the pet once more."""
    plan = plan_of([REX], sheet_saying({"id": 1}, {"name": "Rex", "status": "sold"}))
    assert len(plan.adds) == 1
    assert any("a pet that is just so" in note for note in plan.notes)


def test_each_field_stands_at_its_own_cell() -> None:
    """In the table of changes, and under the name that the pet has now."""
    plan = plan_of([REX], sheet_saying({"id": 1, "name": "Max", "status": "pending"}))
    frame = plan.to_frame()
    assert frame["source"].tolist() == ["Pets!B2", "Pets!C2"]
    assert frame["name"].tolist() == ["Rex", "Rex"]


def test_ids_that_are_in_no_change_are_said() -> None:
    """A part of a plan does not pass over them in silence."""
    plan = plan_of([REX], sheet_saying({"id": 1, "name": "Max"}))
    assert plan.select(ids=[1]).notes == plan.notes
    assert plan.select(ids=[1, 5]).notes[-1] == "Selected, and in no change of the plan: 5."


def test_a_blocked_row_names_its_pet() -> None:
    """By the id that it gives, and the store's name for it."""
    sheet = sheet_saying(
        blocked=(3,), blocked_ids=frozenset({1}), blocked_pets={3: 1}, problems=(error_at(3),)
    )
    (blocked,) = plan_of([REX], sheet).blocked
    assert (blocked.pet_id, blocked.name) == (1, "Rex")


def test_plans_can_be_members_of_a_set() -> None:
    """Equal plans hash alike."""
    sheet = sheet_saying({"id": 1, "name": "Max"})
    assert len({plan_of([REX], sheet), plan_of([REX], sheet)}) == 1
