"""`Plan.resolve`: a person's choices in conflicts; and parts of a plan by number."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from shop import NO_LIMITS, base_of, plan_of, sheet_saying
from test_plan_laws import always, brief
from triples import Triple, triple_of

from petsync.errors import PlanError
from petsync.models import Category, Pet
from petsync.plan.change import Clash
from petsync.plan.guard import Guard, Limit
from petsync.plan.plan import Plan

pytestmark = pytest.mark.slow

REX = Pet(id=1, name="Rex", status="available", category=Category(1, "Dogs"))
EXPORTED = {"id": 1, "name": "Rex", "status": "available", "category": "Dogs", "category_id": 1}


CROWDS = st.builds(
    triple_of, st.integers(12, 20), st.randoms(use_true_random=False), based=st.just(True)
)
"""Triples with enough pets that some clash."""


def clashing(now: Pet, **cells: Any) -> Plan:
    """Return the plan for Rex in this store state, with these edits of an exported sheet."""
    sheet = sheet_saying({**EXPORTED, **cells}, base=base_of([REX]))
    return plan_of([now], sheet)


def clashes(plan: Plan) -> dict[tuple[int, str], Clash]:
    """Return all clashes by pet and column."""
    return {(c.pet_id or 0, each.column): each for c in plan.conflicts for each in c.clashes}


def to(side: Any, plan: Plan) -> dict[tuple[int, str], Any]:
    """Return the choice of one side for every clash."""
    return dict.fromkeys(clashes(plan), side)


@always
def test_all_to_the_sheet_is_the_plan_in_which_the_sheet_wins(triple: Triple) -> None:
    """A plan whose clashes are all resolved for the sheet equals a plan in which the sheet wins."""
    plan = triple.plan(on_conflict="store")
    if any(clash.refused for clash in clashes(plan).values()):
        with pytest.raises(PlanError, match="the sheet cannot win"):
            plan.resolve(to("sheet", plan))
        return
    expected = triple.plan(on_conflict="sheet")
    assert plan.resolve(to("sheet", plan)) == (expected if clashes(plan) else plan)


@always
def test_all_to_the_store_is_the_plan_in_which_the_store_wins(triple: Triple) -> None:
    """A plan whose clashes are all resolved for the store equals a plan in which the store wins."""
    sheet, store = triple.plan(on_conflict="sheet"), triple.plan(on_conflict="store")
    if any(clash.refused for clash in clashes(store).values()) or not clashes(sheet):
        assert {*clashes(sheet)} <= {*clashes(store)}
        return
    assert sheet.resolve(to("store", sheet)) == store


@brief
@given(CROWDS, st.randoms(use_true_random=False), st.data())
def test_each_choice_counts_and_the_order_does_not(
    triple: Triple, chance: Random, data: st.DataObject
) -> None:
    """Choices that are made one by one, in any order and with revisions, give the same plan as all
    at once; each decided field has its winner's value, and all else stays.
    """
    plan = triple.plan(on_conflict="store")
    keys = [key for key, clash in clashes(plan).items() if not clash.refused]
    assume(keys)
    picked = data.draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))
    choices: dict[tuple[int, str], Any] = {key: chance.choice(["store", "sheet"]) for key in picked}
    at_once = plan.resolve(choices)
    one_by_one = plan.resolve(to("store", plan))
    wavering = chance.sample(keys, len(keys))
    for key in wavering:
        one_by_one = one_by_one.resolve({key: "sheet"})
    for key in chance.sample(keys, len(keys)):
        one_by_one = one_by_one.resolve({key: choices.get(key, "store")})
    assert one_by_one == at_once
    winners = {(c.pet_id, e.column): c.winner for c in at_once.conflicts for e in c.clashes}
    assert winners == {**to("store", plan), **choices}
    before = {update.row: update for update in plan.updates}
    for conflict in plan.conflicts:
        made = next((u for u in at_once.updates if u.row == conflict.row), None)
        for clash in conflict.clashes:
            won = choices.get((conflict.pet_id or 0, clash.column)) == "sheet"
            now = conflict.before if made is None else made.after
            side = conflict.after if won else conflict.before
            assert getattr(now, clash.column) == getattr(side, clash.column)
    untouched = {row for row in before if row not in {c.row for c in plan.conflicts}}
    assert [u for u in at_once.updates if u.row in untouched] == [
        u for u in plan.updates if u.row in untouched
    ]


def test_nothing_chosen_is_the_very_plan() -> None:
    """Without a choice the result is the same plan object."""
    plan = clashing(replace(REX, name="Max"), name="Bello")
    assert plan.resolve({}) is plan


def test_one_field_of_two_is_sent() -> None:
    """Of two clashes in a row one is resolved for the sheet and sent, the other stays the store's,
    and both stay listed with their own text.
    """
    now = replace(REX, name="Max", status="sold")
    plan = clashing(now, name="Bello", status="pending")
    made = plan.resolve({(1, "name"): "sheet"})
    (update,) = made.updates
    assert (update.fields, update.after) == (("name",), replace(now, name="Bello"))
    assert update.source == "Pets!B2"
    sheet, store = made.conflicts
    assert [c.column for c in sheet.clashes] == ["name"]
    assert [c.column for c in store.clashes] == ["status"]
    assert (sheet.is_open, store.is_open) == (False, True)
    assert sheet.suggestion == "The sheet's value is sent."
    assert "status" not in sheet.problem
    assert made.fingerprint != plan.fingerprint


def test_other_edits_of_the_row_stay() -> None:
    """The other edits of a row are kept, whichever side wins its clash."""
    plan = clashing(replace(REX, name="Max"), name="Bello", status="sold")
    for side, fields in (("sheet", ("name", "status")), ("store", ("status",))):
        (update,) = plan.resolve({(1, "name"): side}).updates
        assert update.fields == fields


def test_a_category_is_named_by_either_column() -> None:
    """A clash of a category is resolved by the name of either of its columns."""
    plan = clashing(replace(REX, category=Category(2, "Cats")), category="Fish", category_id=None)
    made = plan.resolve({(1, "category_id"): "sheet"})
    assert made == plan.resolve({(1, "category"): "sheet"})
    assert made.updates[0].after.category == Category(None, "Fish")
    assert any("no category 'Fish' yet" in note for note in made.notes)
    assert made.resolve({(1, "category"): "store"}) == plan


def test_a_part_that_was_left_out_stays_out() -> None:
    """A clash that is resolved in a part of a plan does not bring back changes that were left
    out.
    """
    plan = clashing(replace(REX, name="Max"), name="Bello", status="sold")
    part = plan.select(actions="add")
    (update,) = part.resolve({(1, "name"): "sheet"}).updates
    assert update.fields == ("name",)


def test_the_guard_judges_again() -> None:
    """A choice that makes the plan exceed a limit is refused by its guard."""
    guard = Guard(max_update=Limit(0, is_share=False))
    sheet = sheet_saying({**EXPORTED, "name": "Bello"}, base=base_of([REX]))
    plan = plan_of([replace(REX, name="Max")], sheet, guard=guard)
    assert plan.verdict.ok
    assert not plan.resolve({(1, "name"): "sheet"}).verdict.ok


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({(2, "name"): "sheet"}, "pet 2 has no conflict in 'name'"),
        ({(1, "status"): "sheet"}, "pet 1 has no conflict in 'status'"),
        ({(1, "name"): "mine"}, "'mine' cannot win"),
        ("sheet", "'sheet', not a dict of fields and sides"),
        ({1: "sheet"}, "not a dict of fields and sides"),
    ],
)
def test_what_cannot_be_resolved_is_refused(choices: Any, message: str) -> None:
    """A choice for an unknown clash, or with an unknown winner, is refused by name."""
    plan = clashing(replace(REX, name="Max"), name="Bello")
    with pytest.raises(PlanError, match=message):
        plan.resolve(choices)


def test_a_status_is_not_taken_from_a_pet() -> None:
    """The sheet cannot win a clash that clears the status, because no query would find the pet."""
    plan = clashing(replace(REX, status="sold"), status="")
    with pytest.raises(PlanError, match="would have no status"):
        plan.resolve({(1, "status"): "sheet"})
    assert plan.resolve({(1, "status"): "store"}) == plan


@pytest.mark.parametrize(
    ("now", "cells", "problem"),
    [
        ({"name": "Zoé"}, {"name": "Zo?"}, "has 'Zo?' in name, and the store has 'Zoé'"),
        (
            {"category": Category(3, "Birds")},
            {"category": "BIRDS", "category_id": None},
            "names the category 'BIRDS', and the store has 'Birds'",
        ),
    ],
)
def test_a_probable_mistake_wins_no_clash(
    now: dict[str, Any], cells: dict[str, Any], problem: str
) -> None:
    """The sheet cannot win a clash with a text that would hold back the row if the sheet won all
    clashes, and the plan says why.
    """
    plan = clashing(replace(REX, **now), **cells)
    ((key, clash),) = clashes(plan).items()
    assert clash.refused.startswith(f"the row {problem}")
    with pytest.raises(PlanError, match=re.escape(problem)):
        plan.resolve({key: "sheet"})
    assert plan.resolve({key: "store"}) == plan


def test_a_resolved_plan_is_saved_and_read() -> None:
    """A resolved plan is read back equal from a file, and a plan from a file can be resolved."""
    plan = clashing(replace(REX, name="Max"), name="Bello")
    made = plan.resolve({(1, "name"): "sheet"})
    assert Plan.from_json(made.to_json()) == made
    assert Plan.from_json(plan.to_json()).resolve({(1, "name"): "sheet"}) == made


def test_another_guard_judges_the_same_plan() -> None:
    """Under a guard with higher limits the plan has the same changes, and the sentinels stay."""
    guard = Guard(max_update=Limit(0, is_share=False), sentinels=(2,))
    plan = plan_of([REX, Pet(id=2, name="S")], sheet_saying({"id": 1, "name": "B"}), guard=guard)
    wider = plan.with_guard(NO_LIMITS)
    assert (plan.verdict.ok, wider.verdict.ok) == (False, True)
    assert wider.guard.sentinels == (2,)
    assert wider.changes == plan.changes


@always
def test_parts_by_number_make_up_the_whole(triple: Triple) -> None:
    """Two parts by number together have each change exactly once, adds without an id included."""
    plan = triple.plan()
    even, odd = (plan.select(numbers=range(n, len(plan.changes), 2)) for n in (0, 1))
    assert {*even.changes} | {*odd.changes} == {*plan.changes}
    assert len(even.changes) + len(odd.changes) == len(plan.changes)
    assert plan.select(numbers=range(len(plan.changes))).changes == plan.changes
