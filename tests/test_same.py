"""One definition of "the same": the form in which a service returns a pet is not a change for any
part of petsync, and a real change is one for all parts.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from shop import MemoryTarget, base_of, decided_of, plan_of, sheet_of, snapshot_of
from times import times

import petsync as ps
from petsync.apply.engine import Precheck, UnsentError, describe_mismatch, match_unknown_adds
from petsync.apply.undo import build_undo_plan
from petsync.models import Category, Pet, Tag
from petsync.plan.base import compare_rows, find_changed_units, with_newer_cells
from petsync.plan.change import Add, Delete, Update
from petsync.plan.fields import content, differing_columns, equal, is_as_expected, same_tags
from petsync.plan.guard import Guard
from petsync.plan.intake import build_inbound
from petsync.plan.plan import describe_drift, refuse_changed_sentinels
from petsync.plan.report import Entry, PastRun, Result, RunResults, result_of
from petsync.sandbox import Sandbox
from petsync.table.columns import COLUMNS, Column
from petsync.table.frame import pets_from_frame

pytestmark = pytest.mark.slow

FIELDS = tuple(column for column in COLUMNS if column != "id")
NAMES = ("calm", "friendly", "größe", "Ångström")
numbers = st.none() | st.integers(0, 3)
tags = st.builds(Tag, numbers, st.sampled_from(NAMES))
sent_pets = st.builds(
    Pet,
    id=st.just(7),
    name=st.sampled_from(["Rex", "Zoë"]),
    status=st.sampled_from(["available", "sold"]),
    category=st.none() | st.builds(Category, numbers, st.sampled_from(["Dogs", "Vögel"])),
    tags=st.lists(tags, max_size=4).map(tuple),
    photo_urls=st.lists(st.sampled_from(["/1.png", "/ö.png", "/3.png"]), max_size=3).map(tuple),
)


@st.composite
def returned_pets(draw: st.DrawFn, sent: Pet) -> Pet:
    """Draw the pet as a service may return it: tags in another order, new ids or 0 where none was
    sent, text in another Unicode form.
    """
    text = draw(st.sampled_from([lambda t: t, lambda t: unicodedata.normalize("NFD", t)]))
    spaced: Callable[[str], str] = draw(st.sampled_from([lambda t: t, lambda t: f" {t} "]))
    assign = draw(st.sampled_from([lambda _: None, lambda _: 0, lambda n: 100 + n]))

    def number(given: int | None, place: int) -> int | None:
        return given or assign(place)

    found = {
        (number(tag.id, NAMES.index(tag.name or "")), tag.name): text(tag.name or "")
        for tag in sent.tags
    }
    shuffled = draw(st.permutations([Tag(n, name) for (n, _), name in found.items()]))
    group = sent.category
    return replace(
        sent,
        name=spaced(text(sent.name or "")),
        status=(sent.status or "").upper(),
        category=None if group is None else Category(number(group.id, 9), text(group.name or "")),
        tags=tuple(shuffled),
        photo_urls=tuple(text(url) for url in dict.fromkeys(sent.photo_urls)),
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Pet, Pet]:
    """Draw a pet that was sent, and the same pet as the service returns it."""
    sent = draw(sent_pets)
    return sent, draw(returned_pets(sent))


CHANGED: dict[Column, Any] = {
    "name": "Max",
    "status": "pending",
    "category": Category(55, "Cats"),
    "tags": (Tag(66, "loud"),),
    "photo_urls": ("/other.png",),
}


def _of_plan(sent: Pet, found: Pet) -> set[Column]:
    """Return the fields that a plan changes for a sheet of the sent pet."""
    plan = plan_of([found], sheet_of([sent]), two_way=True)
    return {field for change in plan.changes for field in change.fields}


def _of_plan_by_base(sent: Pet, found: Pet) -> set[Column]:
    """Return the fields whose change holds back a delete, with the sent pet as the base."""
    plan = plan_of([found], sheet_of([sent], action="delete", base=base_of([sent])))
    return {c for each in plan.conflicts for c in FIELDS if f"changed its {c}" in each.problem} | {
        c for each in plan.conflicts for c in FIELDS if f", {c}" in each.problem
    }


def _of_matching(sent: Pet, found: Pet) -> set[Column]:
    """Return the changes and conflicts of a row without an id that matches its pet."""
    plan = plan_of([found], sheet_of([replace(sent, id=None)]))
    kinds = {change.kind for change in plan.changes}
    return kinds | {conflict.rule for conflict in plan.conflicts}  # type: ignore[return-value]


def _of_verify(sent: Pet, found: Pet) -> set[Column]:
    message = describe_mismatch(found, sent)
    return set() if message is None else set(message.removeprefix("differs in ").split(", "))  # type: ignore[arg-type]


def _of_sentinel(sent: Pet, found: Pet) -> set[Column]:
    message = describe_drift(sent, found)
    assert bool(message) == any(True for _ in refuse_changed_sentinels((found,), base_of([sent])))
    return {c for c in FIELDS if f" {c}" in message.replace(",", "")}


def _of_precheck(sent: Pet, found: Pet) -> set[Column]:
    """Return the fields that hold back a delete of the sent pet."""
    change = Delete(row=2, source="Pets!B2", before=sent)
    return _held(change, found)


def _of_update_check(sent: Pet, found: Pet) -> set[Column]:
    """Return the fields that hold back an update of every field of the sent pet."""
    wish = replace(sent, name="?", status="?", category=None, tags=(Tag(1, "?"),), photo_urls=())
    return _held(Update(row=2, source="", before=sent, after=wish, fields=FIELDS), found)


def _of_add_check(sent: Pet, found: Pet) -> set[Column]:
    """Return the name if an add with an id finds a pet that differs from the sent one."""
    with pytest.raises(UnsentError) as held:
        asyncio.run(Precheck(MemoryTarget([found])).prepare(Add(row=2, source="", after=sent)))
    return set() if held.value.cause == "already-so" else {"name"}


def _held(change: Update | Delete, found: Pet) -> set[Column]:
    try:
        asyncio.run(Precheck(MemoryTarget([found])).prepare(change))
    except UnsentError as held:
        message = held.message.removeprefix("changed in the store since the plan: ")
        return set(message.split(", "))  # type: ignore[arg-type]
    return set()


def _of_undo(sent: Pet, found: Pet) -> set[Column]:
    """Return the fields whose change holds back the undo of an add."""
    entry = Entry(number=0, kind="add", row=2, pet_id=7, after=sent, outcome="applied")
    past = PastRun(run_id="r", store="http://s", source="a.xlsx", started="", state="done")
    plan = build_undo_plan(
        past,
        [entry],
        {7: found},
        store="http://s",
        profile="standard",
        pets=100,
        created="",
        guard=Guard(),
    )
    return {c for each in plan.conflicts for c in FIELDS if f"{c} is " in each.problem}


def _of_resume(sent: Pet, found: Pet) -> set[Column]:
    """Return the name if an add without a response does not recognise its pet."""
    change = Add(row=2, source="", after=replace(sent, id=None))
    unknown: Result = result_of(0, change, "unknown", "no-answer", "")
    results = RunResults([change], {0: unknown})
    return set() if match_unknown_adds([0], [change], results, (), [found]) == {0: 7} else {"name"}


def _of_reconcile(sent: Pet, found: Pet) -> set[Column]:
    """Return the fields in which sheet and store differ, and those that the sheet takes."""
    sheet, snapshot = sheet_of([sent]), snapshot_of([found])
    decided = decided_of([found], sheet, two_way=True)
    taken = build_inbound(sheet, snapshot, None, decided, lead="store", created=_now())
    # Beside a category's name, a blank id is filled, because a blank cell differs from nothing.
    blank = {"category_id"} if sent.category and not sent.category.id else set()
    fields = {field for edit in taken.edits for field in edit.fields} - blank
    return fields | set(compare_rows(sheet, snapshot, {}).columns(2))


def _now() -> str:
    return datetime(2026, 11, 22, tzinfo=UTC).isoformat()


CALLERS: tuple[Callable[[Pet, Pet], set[Column]], ...] = (
    _of_plan,
    _of_plan_by_base,
    _of_matching,
    _of_verify,
    _of_sentinel,
    _of_precheck,
    _of_update_check,
    _of_add_check,
    _of_undo,
    _of_resume,
    _of_reconcile,
)


@pytest.mark.parametrize("caller", CALLERS)
@settings(max_examples=times(25))
@given(pair=pairs())
def test_what_a_service_returns_is_the_same_for_every_part(
    caller: Callable[[Pet, Pet], set[Column]], pair: tuple[Pet, Pet]
) -> None:
    """No part of petsync takes the returned form of a pet for a change."""
    sent, found = pair
    assert differing_columns(sent, found) == ()
    assert caller(sent, found) == set()


@pytest.mark.parametrize("caller", CALLERS)
@settings(max_examples=times(25))
@given(pair=pairs(), field=st.sampled_from([*CHANGED]))
def test_a_change_is_one_for_every_part(
    caller: Callable[[Pet, Pet], set[Column]], pair: tuple[Pet, Pet], field: Column
) -> None:
    """Every part of petsync detects a change of any field, in whatever form the other fields are
    returned.
    """
    sent, found = pair
    # A sheet without a category does not set one.
    assume(sent.category is not None)
    changed = replace(found, **{field: CHANGED[field]})
    assert field in differing_columns(sent, changed)
    assert caller(sent, changed)


@given(pairs(), sent_pets)
def test_the_same_has_the_same_content(pair: tuple[Pet, Pet], other: Pet) -> None:
    """Two forms of the same pet have the same content, so each is found by the other's content."""
    sent, found = pair
    assert content(sent) == content(found)
    if not differing_columns(sent, other):
        assert content(sent) == content(other)
    for column in FIELDS:
        assert is_as_expected(sent, other, column) or not equal(sent, other, column)


def test_categories_without_names_are_told_apart_by_their_ids() -> None:
    """Pets whose categories have only ids have the same content only if the ids are the same."""
    one, same, other = (Pet(name="Rex", category=Category(n, None)) for n in (7, 7, 8))
    assert content(one) == content(same)
    assert content(one) != content(other)
    assert content(Pet(name="Rex")) == content(Pet(name="Rex", category=Category(0, None)))


CALM, LOUD = Tag(None, "calm"), Tag(None, "loud")


@pytest.mark.parametrize(
    ("expected", "found", "agree"),
    [
        ([CALM], [Tag(0, "calm")], True),
        ([Tag(0, "calm")], [CALM], True),
        ([CALM], [Tag(5, "calm")], True),
        ([Tag(5, "calm")], [CALM], False),
        ([Tag(5, "calm")], [Tag(6, "calm")], False),
        ([CALM, Tag(1, "calm")], [Tag(1, "calm"), Tag(0, "calm")], True),
        ([CALM, Tag(1, "calm")], [Tag(1, "calm"), Tag(2, "calm")], True),
        ([CALM, Tag(1, "calm")], [Tag(1, "calm")], True),
        ([CALM, Tag(1, "calm")], [Tag(2, "calm")], False),
        ([CALM], [Tag(1, "calm"), Tag(2, "calm")], False),
        ([CALM, Tag(2, "calm")], [Tag(2, "calm"), Tag(1, "calm"), Tag(3, "calm")], False),
        ([Tag(5, None)], [Tag(5, "calm")], True),
        ([CALM, LOUD], [Tag(2, "loud"), Tag(1, "calm")], True),
        ([CALM], [Tag(1, "calm"), Tag(2, "loud")], False),
        ([CALM], [], False),
        ([], [CALM], False),
        ([Tag(0, "")], [], True),
        ([], [Tag(0, None)], True),
    ],
)
def test_tags_are_the_same(expected: list[Tag], found: list[Tag], agree: bool) -> None:
    """Tags are compared as sets, with any id where none was sent, and one tag never stands for two
    that are named.
    """
    assert same_tags(expected, found) is agree
    assert same_tags(expected[::-1], found[::-1]) is agree


DOGS, CATS = Category(1, "Dogs"), Category(None, "Cats")


@pytest.mark.parametrize(
    ("expected", "found", "agree"),
    [
        (CATS, Category(0, "Cats"), "both"),
        (Category(0, "Cats"), CATS, "both"),
        (CATS, Category(5, "Cats"), "as sent"),
        (Category(5, "Cats"), CATS, ""),
        (Category(0, None), None, "both"),
        (None, Category(0, ""), "both"),
        (None, Category(5, None), ""),
        (DOGS, Category(2, "Dogs"), ""),
        (DOGS, None, ""),
        (None, DOGS, ""),
    ],
)
def test_categories_are_the_same(
    expected: Category | None, found: Category | None, agree: str
) -> None:
    """Categories are the same with any id where none was sent, and 0 is not an id; of two returned
    pets, both or neither have an id.
    """
    pet = Pet(id=7, name="Rex", status="available")
    one, other = replace(pet, category=expected), replace(pet, category=found)
    assert (differing_columns(one, other) == ()) is bool(agree)
    assert all(equal(one, other, column) for column in FIELDS) is (agree == "both")


@pytest.mark.parametrize("fault", ["", "html", "drop_after"])
def test_ids_that_a_service_makes_up_are_no_changes(tmp_path: Path, fault: str) -> None:
    """Ids that a service assigns to tags and categories are not changes for apply, verify, resume,
    a second plan and undo.

    The original server stores a tag or category without an id with the id 0. Nothing is a conflict,
    no delete is held back, and the undo leaves nothing of the run, also if responses were lost.
    """
    pets = [
        Pet(id=n, name=f"Pet {n}", status="available", category=DOGS, tags=(Tag(n, "calm"),))
        for n in range(1, 13)
    ]
    rows: list[dict[str, Any]] = [
        {"id": 1, "tags": ["calm", "new"], "category": "Birds"},
        {"id": 2, "tags": ["new"]},
        {"id": 3, "action": "delete"},
        {"name": "Neu", "status": "sold", "tags": ["new", "newer"], "category": "Fish"},
    ]
    sheet = pd.DataFrame(rows).astype(object)
    with (
        Sandbox(profile="live", pets=pets, auth=False) as box,
        ps.connect(box.url, environ={}, profile="live", state=tmp_path) as store,
    ):
        plan = store.plan(sheet)
        box.set_faults(f"{fault}=1,only=addPet+updatePet" if fault else None)
        report = store.apply(plan, verify=True, settle=0.2, progress=False)
        box.set_faults(None)
        if report.exit_code:
            report = store.resume(report.run_id, settle=0.2, progress=False)
        assert [each.outcome for each in report.results] == ["applied"] * 4
        assert Tag(0, "new") in {tag for pet in box.pets() for tag in pet.tags}
        assert Category(0, "Birds") in {pet.category for pet in box.pets()}
        assert store.plan(sheet).in_sync
        undo = store.undo(report.run_id)
        assert (len(undo.changes), undo.conflicts) == (4, ())
        assert store.apply(undo, verify=True, progress=False).exit_code == 0
        assert sorted(box.pets(), key=lambda pet: pet.id or 0) == pets


def test_a_value_that_one_base_lacks_is_a_difference() -> None:
    """Two bases differ in a value that only one of them has, whichever of them is older."""
    less, more = Pet(id=7, name="Rex"), Pet(id=7, name="Rex", category=Category(1, "Dogs"))
    for older, newer in ((less, more), (more, less)):
        assert find_changed_units(base_of([older]), base_of([newer])) == {7: ("category",)}


def test_a_value_that_is_only_in_the_newer_base_is_taken_from_it() -> None:
    """A cell with the value of the newer base, in an older copy of the sheet, is as new as this
    base.
    """
    less, more = Pet(id=7, name="Rex"), Pet(id=7, name="Rex", category=Category(1, "Dogs"))
    base = with_newer_cells(base_of([less]), base_of([more]), sheet_of([more]))
    assert pets_from_frame(base.frame) == [more]


def test_undo_of_tags_with_one_name() -> None:
    """A run that left `calm` and `1:calm` can be undone, because the pet is unchanged since."""
    left = Pet(id=7, name="Rex", status="available", tags=(CALM, Tag(1, "calm")))
    now = replace(left, tags=(Tag(0, "calm"), Tag(1, "calm")))
    assert _of_undo(left, now) == set()


def test_undo_of_an_id_alone() -> None:
    """A run that only gave a tag an id can be undone, although the tag without the id counts as the
    same.
    """
    was = Pet(id=7, name="Rex", status="available", tags=(Tag(0, "calm"),))
    left = replace(was, tags=(Tag(5, "calm"),))
    entry = Entry(
        number=0,
        kind="update",
        row=2,
        pet_id=7,
        fields=("tags",),
        before=was,
        after=left,
        outcome="applied",
    )
    past = PastRun(run_id="r", store="http://s", source="a.xlsx", started="", state="done")
    more: dict[str, Any] = {"store": "http://s", "profile": "live", "pets": 9, "created": ""}
    plan = build_undo_plan(past, [entry], {7: left}, guard=Guard(), **more)
    assert [change.after for change in plan.changes] == [was]


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@pytest.mark.parametrize("two_way", [False, True])
def test_a_category_with_an_empty_name(tmp_path: Path, suffix: str, two_way: bool) -> None:
    """A category with an empty name is in sync with its export, table and frame; [clear] removes it
    once, in the results too, and an undo restores it.
    """
    rex = Pet(id=1, name="Rex", status="sold", category=Category(7, ""))
    tom = replace(rex, id=2, name="Tom", category=Category(1, "Dogs"))
    path = tmp_path / f"pets{suffix}"
    with Sandbox(auth=False, pets=[rex, tom]) as box, ps.connect(box.url, state=tmp_path) as store:
        frame = store.snapshot().frame
        assert store.plan(frame).in_sync
        assert store.plan(frame[["id", "category"]]).in_sync
        ps.write_sheet(store.snapshot(), path)
        plan = store.plan(path, two_way=two_way)
        assert (plan.in_sync, plan.unchanged) == (True, 2)
        cell = f"Pets!{plan.places['category']}2" if suffix == ".xlsx" else "line 2, column 4"
        sheet = store.read(path, corrections={cell: "[clear]"})
        plan = store.plan(sheet, two_way=two_way)
        assert [(each.pet_id, each.fields) for each in plan.updates] == [(1, ("category_id",))]
        report = store.apply(plan, verify=True, progress=False)
        assert [result.outcome for result in report.results] == ["applied"]
        assert [pet.category for pet in box.pets()] == [None, Category(1, "Dogs")]
        assert store.plan(sheet, two_way=two_way).in_sync
        ps.write_results(sheet, report, tmp_path / f"results{suffix}")
        assert store.plan(tmp_path / f"results{suffix}", two_way=two_way).in_sync
        store.apply(store.undo(report.run_id), progress=False)
        assert [*box.pets()] == [rex, tom]
        assert store.plan(frame).in_sync
