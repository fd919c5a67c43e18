"""The draft of a plan: ticks, choices and overrides of the guard before it is sent."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from shop import base_of, error_at, plan_of, sheet_of, sheet_saying
from times import times
from triples import Triple, triple_of

from petsync.models import Pet
from petsync.plan.guard import Guard, Limit
from petsync.plan.plan import Plan
from petsync.widgets.review_view import Draft, Finder

pytestmark = pytest.mark.slow

CROWDS = st.builds(
    triple_of, st.integers(5, 15), st.randoms(use_true_random=False), based=st.just(True)
)
PETS = [Pet(id=n, name=f"P{n}", status="available") for n in range(1, 101)]


def scribbled(plan: Plan, chance: Random) -> Draft:
    """Return a draft with random ticks and choices."""
    draft = Draft(plan)
    pairs = [(conflict, clash) for conflict in plan.conflicts for clash in conflict.clashes]
    for _ in range(chance.randrange(12)):
        if plan.changes and chance.randrange(2):
            draft.tick([chance.randrange(len(plan.changes))], bool(chance.randrange(2)))
        elif pairs:
            draft.choose(*chance.choice(pairs), chance.choice(["store", "sheet"]))
    return draft


@settings(max_examples=times(30), deadline=None)
@given(CROWDS, st.sampled_from(["store", "sheet"]), st.randoms(use_true_random=False))
def test_what_is_counted_is_what_is_made(triple: Triple, wins: Any, chance: Random) -> None:
    """The counts, the winners and the refusals that a draft shows are those of the plan that it
    builds.
    """
    plan = triple.plan(on_conflict=wins).with_guard(Guard())
    draft = scribbled(plan, chance)
    made, tally = draft.build_plan(), draft.tally()
    counts = (tally.add, tally.update, tally.delete)
    assert counts == (len(made.adds), len(made.updates), len(made.deletes))
    assert draft.refusals() == made.verdict.refusals
    winners = {(c.pet_id, e.column): c.winner for c in made.conflicts for e in c.clashes}
    shown = {(c.pet_id, e.column): draft.winner(c, e) for c in plan.conflicts for e in c.clashes}
    assert winners == shown


def test_nothing_done_is_the_very_plan() -> None:
    """A draft without changes, or with all changes reverted, builds the original plan."""
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "A"}, {"id": 2, "name": "B"}))
    draft = Draft(plan)
    assert draft.build_plan() is plan
    draft.tick([0, 1], on=False)
    assert draft.build_plan().changes == ()
    draft.tick(np.array([0, 1]), on=True)
    assert draft.build_plan() is plan


def over(guard: Guard, names: int, **more: Any) -> Draft:
    """Return a draft that renames this many pets under a guard."""
    pets = [replace(pet, name=f"N{pet.id}") for pet in PETS[:names]]
    return Draft(plan_of(PETS, sheet_of(pets), guard=guard, **more))


def test_only_the_reviewed_amount_passes() -> None:
    """An override allows the number of changes at that time: more changes are refused again, fewer
    need no override.
    """
    draft = over(Guard(), 40)
    (refusal,) = draft.refusals()
    draft.tick(range(35, 40), on=False)
    draft.allow(draft.refusals()[0], on=True)
    assert draft.is_ok
    made = draft.build_plan()
    assert made.guard.max_update == Limit(35, is_share=False)
    made.require_ok()
    draft.tick([35], on=True)
    assert not draft.is_ok
    assert not draft.allows(draft.refusals()[0])
    draft.tick(range(30, 40), on=False)
    assert draft.refusals() == ()
    assert draft.build_plan().guard == Guard()
    draft.tick(range(40), on=True)
    draft.allow(refusal, on=True)
    draft.allow(refusal, on=False)
    assert not draft.build_plan().verdict.ok


def test_every_pet_may_be_deleted_only_with_both_ticks() -> None:
    """Deleting all pets exceeds two limits, and each must be overridden."""
    rows = [{"id": pet.id, "action": "delete"} for pet in PETS[:3]]
    draft = Draft(plan_of(PETS[:3], sheet_saying(*rows), guard=Guard()))
    for refusal in draft.refusals():
        assert not draft.is_ok
        draft.allow(refusal, on=True)
    assert draft.is_ok
    made = draft.build_plan()
    made.require_ok()
    assert made.guard.allow_empty


def test_nothing_lets_a_sentinel_pass() -> None:
    """A change of a sentinel cannot be overridden; it must be unticked."""
    draft = over(Guard(sentinels=(1,)), 2)
    (refusal,) = draft.refusals()
    draft.allow(refusal, on=True)
    assert not draft.is_ok
    assert not draft.build_plan().verdict.ok
    draft.tick([0], on=False)
    assert draft.is_ok
    draft.build_plan().require_ok()


def test_a_field_that_was_left_out_can_be_asked_for() -> None:
    """If the sheet has won a conflict, unticking gives the field to the store; choosing the sheet
    again sends only this field.
    """
    rex = Pet(id=1, name="Rex", status="available")
    values = {"id": 1, "name": "Bello", "status": "sold"}
    sheet = sheet_saying(values, base=base_of([rex]))
    plan = plan_of([replace(rex, name="Max")], sheet, on_conflict="sheet")
    draft = Draft(plan)
    ((conflict, clash),) = [(c, e) for c in plan.conflicts for e in c.clashes]
    assert draft.winner(conflict, clash) == "sheet"
    draft.tick([0], on=False)
    assert draft.winner(conflict, clash) == "store"
    assert draft.tally().sent == 0
    draft.choose(conflict, clash, "sheet")
    assert [change.fields for change in draft.build_plan().changes] == [("name",)]
    assert draft.tally().sent == 1


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [0, 1, 2, 3]),
        ({"action": "add"}, [0]),
        ({"field": "status"}, [0, 2]),
        ({"action": "update", "field": "category"}, [1]),
        ({"sent": "out"}, [3]),
        ({"sent": "in", "action": "delete"}, []),
        ({"text": "  FISH "}, [1]),
        ({"text": "straße"}, [1]),
        ({"text": "7"}, [2]),
        ({"text": "shy"}, [3]),
        ({"text": "no such thing"}, []),
    ],
)
def test_changes_are_found(asked: dict[str, str], found: list[int]) -> None:
    """Changes are found by action, field, tick and text in any combination; the case of text does
    not matter.
    """
    pets = [Pet(id=n, name=f"P{n}", status="available") for n in (5, 7)]
    shy = Pet(id=9, name="Gone", status="sold", tags=())
    shy = replace(shy, name="Shy one")
    sheet = sheet_saying(
        {"name": "New", "status": "sold"},
        {"id": 5, "name": "STRASSE", "category": "Fish"},
        {"id": 7, "status": "pending"},
        {"id": 9, "action": "delete"},
    )
    draft = Draft(plan_of([*pets, shy], sheet))
    draft.tick([3], on=False)
    filters = {"action": "", "field": "", "sent": "", **asked}
    text = filters.pop("text", "")
    finder = Finder(draft)
    assert finder.search(finder.numbers(**filters), text) == found


def test_a_sheet_in_which_every_row_has_an_error_is_refused_here_too() -> None:
    """If every row has an error, the form refuses the deletes of missing pets as the plan does."""
    sheet = dataclasses.replace(sheet_of([]), problems=(error_at(2),), blocked=(2,))
    plan = plan_of(PETS, sheet, delete_missing=True, guard=Guard(max_delete=Limit(1.0)))
    draft = Draft(plan)
    assert plan.deletes
    assert draft.refusals() == plan.verdict.refusals
    assert "empty" in [each.limit for each in draft.refusals()]
