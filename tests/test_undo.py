"""Undo: each pet that a run changed gets its earlier values back, and no later change is lost."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from shop import MemoryTarget, lost
from times import times
from undoing import World, plan_with, plans, renamed, stores

from petsync.models import Pet, Tag
from petsync.plan.change import Update
from petsync.plan.plan import Plan

pytestmark = pytest.mark.slow

SHORT = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
brief = settings(max_examples=times(25), phases=SHORT)


def world(pets: list[Pet]) -> World:
    """Return a store of these pets without runs."""
    return World(MemoryTarget(pets))


def list_conflict_ids(plan: Plan) -> set[int | None]:
    """Return the ids of the pets that a plan lists as conflicts."""
    return {conflict.pet_id for conflict in plan.conflicts}


@brief
@given(data=st.data(), pets=stores())
def test_undo_gives_everything_back(data: st.DataObject, pets: list[Pet]) -> None:
    """After any plan and its undo, every pet has all of its earlier values, ids included."""
    it = world(pets)
    before = it.pets
    it.apply(data.draw(plans(pets)))
    undo = it.undo("run-1")
    assert not undo.conflicts
    report = it.apply(undo)
    assert it.pets == before
    assert report.exit_code == 0
    assert it.undo("run-1").changes == ()


@brief
@given(data=st.data(), pets=stores())
def test_undo_of_an_undo_does_it_again(data: st.DataObject, pets: list[Pet]) -> None:
    """After the undo of an undo, every pet is as the first run left it, ids included."""
    it = world(pets)
    it.apply(data.draw(plans(pets)))
    after = it.pets
    it.apply(it.undo("run-1"))
    again = it.undo("run-2")
    it.apply(again)
    assert it.pets == after
    assert again.undoes == "run-2"
    assert any("run-1" in note for note in again.notes)


@brief
@given(data=st.data(), pets=stores())
def test_what_was_changed_since_is_kept(data: st.DataObject, pets: list[Pet]) -> None:
    """A pet that was changed, deleted or added again since the run stays unchanged and is listed as
    a conflict; all others get their earlier values back.
    """
    it = world(pets)
    before = it.pets
    it.apply(data.draw(plans(pets)))
    left = it.pets
    known = sorted({*before, *left}, key=lambda number: number or 0)
    meddled = data.draw(st.sets(st.sampled_from(known))) if known else set()
    for number in meddled:
        now = it.target.pets.pop(number, None)
        if now is None or data.draw(st.booleans()):
            it.target.pets[number] = renamed(now or before[number], f"meddled with {number}")
    mine = it.pets
    undo = it.undo("run-1")
    it.apply(undo)
    touched = {number for number in known if before.get(number) != left.get(number)}
    gone_again = {n for n in meddled if n not in before and n not in mine}
    assert list_conflict_ids(undo) == (meddled & touched) - gone_again
    for number in {*known, *it.pets}:
        expected = mine if number in meddled else before
        assert it.pets.get(number) == expected.get(number)


@brief
@given(data=st.data(), pets=stores())
def test_a_part_of_an_undo(data: st.DataObject, pets: list[Pet]) -> None:
    """The selected pets get their earlier values back, the others stay as the run left them, and a
    later undo restores these.
    """
    it = world(pets)
    before = it.pets
    it.apply(data.draw(plans(pets)))
    left = it.pets
    whole = it.undo("run-1")
    ids = [change.pet_id for change in whole.changes if change.pet_id is not None]
    some = data.draw(st.sets(st.sampled_from(ids))) if ids else set()
    part = whole.select(ids=some)
    assert part.undoes == "run-1"
    it.apply(part)
    for number in {*before, *left}:
        expected = before if number in some else left
        assert it.pets.get(number) == expected.get(number)
    it.apply(it.undo("run-1"))
    assert it.pets == before


_RED, _BLUE = {"color": None}, {"color": 2}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([Tag(1, None, extra=_RED)], [Tag(None, "0"), Tag(1, "0")]),
        ([Tag(1, None), Tag(-1, None)], [Tag(1, "0", extra=_RED)]),
        ([Tag(None, "0", extra=_RED)], [Tag(1, "0", extra=_BLUE)]),
        ([Tag(2, None), Tag(2, None)], [Tag(2, None), Tag(2, "0", extra=_RED)]),
    ],
)
def test_the_unknown_fields_of_a_tag_come_back(old: list[Tag], new: list[Tag]) -> None:
    """Undo restores tags that the run replaced by ones with the same id or name: with the unknown
    fields that they had, or with none.
    """
    pet = Pet(id=42, status="sold", tags=tuple(old))
    it = world([pet])
    after = msgspec.structs.replace(pet, tags=tuple(new))
    it.apply(plan_with([Update(row=2, source="A2", fields=("tags",), before=pet, after=after)]))
    assert it.pets == {42: after}
    it.apply(it.undo("run-1"))
    assert it.pets == {42: pet}


@brief
@given(data=st.data(), pets=stores())
def test_after_any_failure_the_rest_goes_back(data: st.DataObject, pets: list[Pet]) -> None:
    """After a run with lost requests, undo restores every pet that is not a conflict."""
    it = world(pets)
    before = it.pets
    for operation in ("add", "replace", "update_with_form", "delete", "get"):
        it.target.failures[operation] = [lost() for _ in range(data.draw(st.integers(0, 2)))]
    it.target.commits = data.draw(st.booleans())
    it.apply(data.draw(plans(pets)))
    it.target.failures.clear()
    undo = it.undo("run-1")
    it.apply(undo)
    for number in {*before, *it.pets} - list_conflict_ids(undo):
        assert it.pets.get(number) == before.get(number)
    assert {conflict.rule for conflict in undo.conflicts} <= {"not-settled"}


@brief
@given(data=st.data(), pets=stores())
def test_an_undo_is_a_plan_as_every_other(data: st.DataObject, pets: list[Pet]) -> None:
    """An undo plan counts each row once, is ordered, is the same each time, and can be saved."""
    it = world(pets)
    report = it.apply(data.draw(plans(pets)))
    undo = it.undo("run-1")
    assert undo == it.undo("run-1")
    assert undo.rows == len(undo.changes) + len(undo.conflicts) + undo.unchanged
    assert undo.rows == report.counts["applied"]
    order = [("add", "update", "delete").index(change.kind) for change in undo.changes]
    assert order == sorted(order)
    assert Plan.from_json(undo.to_json()) == undo
    rows = {change.row: change.source for change in undo.changes}
    assert all(source == f"Pets!A{row}" for row, source in rows.items())
