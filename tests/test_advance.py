"""The base after a run: an applied edit is no longer an edit, and setting it back is one."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from shop import base_of, plan_of, sheet_of, sheet_saying
from test_compare import CATS, PETS, REX, TOM, applied

from petsync.models import Category, Pet, Tag
from petsync.plan.base import advance_base
from petsync.plan.fields import COLUMNS_OF, differing_columns
from petsync.plan.plan import Plan
from petsync.plan.report import Report, Result
from petsync.table.base import Base
from petsync.table.columns import CLEARED
from petsync.table.frame import pets_from_frame
from petsync.table.sheet import Sheet

pytestmark = pytest.mark.slow

SOLD = replace(REX, status="sold")
TAGS = [Tag(n, f"tag {n}") for n in range(4)]


def _own(pet: Pet) -> Pet:
    """Return the pet with a name and photos that no pet of another id has."""
    photos = tuple(f"{pet.id}/{url}" for url in pet.photo_urls)
    return replace(pet, name=f"{pet.name} {pet.id}", photo_urls=photos)


catalogues = st.lists(
    st.builds(
        Pet,
        id=st.integers(1, 5),
        name=st.sampled_from(["Rex", "Tom", "Mia"]),
        status=st.sampled_from(["available", "pending", "sold"]),
        category=st.sampled_from([Category(1, "Dogs"), CATS]),
        tags=st.lists(st.sampled_from(TAGS), unique=True, max_size=3).map(tuple),
        photo_urls=st.lists(st.sampled_from(["u", "v"]), unique=True).map(tuple),
    ),
    max_size=5,
    unique_by=lambda pet: pet.id,
).map(lambda pets: sorted(map(_own, pets), key=lambda pet: pet.id or 0))


def report_on(plan: Plan, *, failed: Collection[int] = (), first_id: int = 100) -> Report:
    """Return a report in which the changes with these numbers failed and all others
    were applied.
    """
    results = [
        Result(
            number=number,
            kind=change.kind,
            row=change.row,
            source=change.source,
            pet_id=change.pet_id,
            outcome="failed" if number in failed else "applied",
            assigned_id=first_id + number if change.pet_id is None else None,
        )
        for number, change in enumerate(plan.changes)
    ]
    conflicts = [
        Result(
            number=len(results) + n,
            kind="none",
            row=conflict.row,
            source=conflict.source,
            pet_id=conflict.pet_id,
            outcome="conflict",
        )
        for n, conflict in enumerate(plan.conflicts)
    ]
    return Report(run_id="r", plan=plan, started="", seconds=0.0, results=(*results, *conflicts))


def after(sheet: Sheet, report: Report) -> Base:
    """Return the advanced base of a sheet that has one."""
    base = advance_base(sheet, report)
    assert base is not None
    return base


def test_a_category_that_was_cleared_is_none() -> None:
    """The base has no category without a name: a new category in the store is no
    conflict with it.
    """
    dogs = replace(REX, category=Category(1, "Dogs"))
    row = {"id": 1, "category": "", "category_id": 1}
    base = after(
        sheet := sheet_saying(row, base=base_of([dogs])), report_on(plan_of([dogs], sheet))
    )
    assert pets_from_frame(base.frame)[0].category is None
    plan = plan_of([replace(REX, category=CATS)], sheet_saying(row, base=base))
    assert (plan.changes, plan.conflicts) == ((), ())
    numbered = sheet_saying(row | {"category": "Dogs"}, base=base)
    plan = plan_of([replace(REX, category=None)], numbered)
    assert plan.changes[0].after == replace(REX, category=Category(1, "Dogs"))


@pytest.mark.parametrize("was", [None, Category(1, "Dogs")])
def test_a_category_that_was_given_by_its_number_has_its_name(was: Category | None) -> None:
    """A category that a row gave by its id alone has its name in the base, so the next id is an
    edit and no conflict.
    """
    pet = replace(REX, category=was)
    others = [replace(TOM, category=CATS), Pet(id=3, name="Ara", category=Category(9, "Birds"))]
    sheet = sheet_saying({"id": 1, "category_id": 2}, base=base_of([pet, *others]))
    plan = plan_of([pet, *others], sheet)
    base = after(sheet, report_on(plan))
    assert pets_from_frame(base.frame)[0].category == CATS
    again = plan_of(
        applied(plan, [pet, *others]), sheet_saying({"id": 1, "category_id": 9}, base=base)
    )
    (change,) = again.changes
    assert (change.after and change.after.category, again.conflicts) == (Category(9, "Birds"), ())


SHOP = [
    replace(REX, category=Category(1, "Dogs")),
    replace(TOM, category=CATS),
    Pet(id=3, name="Ara", status="sold", category=Category(9, "Birds")),
]


@pytest.mark.parametrize(
    "cells",
    [
        {"category": "Cats", "category_id": 1},
        {"category": "Cats"},
        {"category": "Dogs", "category_id": 2},
        {"category_id": 2},
    ],
)
def test_a_category_that_the_store_got_too_is_the_store_s(cells: dict[str, object]) -> None:
    """A row that gave its pet the category that the store has now, by its name or by its id alone,
    agrees with the store: its next category is an edit and no conflict.
    """
    now = [replace(SHOP[0], category=CATS), *SHOP[1:]]
    sheet = sheet_saying({"id": 1, **cells}, base=base_of(SHOP))
    plan = plan_of(now, sheet)
    assert (plan.changes, plan.conflicts) == ((), ())
    base = after(sheet, report_on(plan))
    assert pets_from_frame(base.frame)[0].category == CATS
    unedited = plan_of(now, sheet_saying({"id": 1, **cells}, base=base))
    assert (unedited.changes, unedited.conflicts) == ((), ())
    again = plan_of(now, sheet_saying({"id": 1, **cells, "category": "Birds"}, base=base))
    assert [each.after and each.after.category for each in again.changes] == [Category(9, "Birds")]
    assert again.conflicts == ()


@pytest.mark.parametrize("also", [{}, {"status": "pending"}])
@pytest.mark.parametrize(
    ("cells", "back"),
    [
        ({"category": "Birds"}, {"category_id": 1}),
        ({"category_id": 9}, {"category": "Dogs"}),
        ({"category": "Birds", "category_id": 1}, {}),
        ({"category": "Dogs", "category_id": 9}, {}),
        ({"category": ""}, {"category_id": 1}),
    ],
)
def test_a_category_s_cell_that_comes_back_is_no_edit(
    cells: dict[str, object], back: dict[str, object], also: dict[str, object]
) -> None:
    """A category cell that returns with its column, or has its earlier value, is not an edit: the
    category that was sent stays, also after another run and after a change in the store.
    """
    row = {"id": 1, **cells}
    sheet = sheet_saying(row, base=base_of(SHOP))
    plan = plan_of(SHOP, sheet)
    for column in {"category", "category_id"} - {*cells}:
        (note,) = (note for note in plan.notes if "lacks" in note)
        assert f" also changes {column}." in f"{note}.".replace(";", ".")
        kept = note.partition("the plan keeps the store's ")[2].partition(".")[0].partition(";")[0]
        assert column not in kept.split(", ")
    base, store = after(sheet, report_on(plan)), applied(plan, SHOP)
    sent = store[0].category
    assert sent == (Category(9, "Birds") if cells.get("category") != "" else None)
    if also:
        sheet = sheet_saying(row | also, base=base)
        plan = plan_of(store, sheet)
        assert [change.fields for change in plan.changes] == [("status",)]
        base, store = after(sheet, report_on(plan)), applied(plan, store)
    whole = row | also | back
    again = plan_of(store, sheet_saying(whole, base=base))
    assert (again.changes, again.conflicts) == ((), ())
    moved = [replace(store[0], category=CATS), *store[1:]]
    again = plan_of(moved, sheet_saying(whole, base=base))
    assert (again.changes, again.conflicts) == ((), ())
    again = plan_of(
        store, sheet_saying({"category_id": 1} | whole | {"category": "Cats"}, base=base)
    )
    assert (len(again.updates), again.conflicts) == (1, ())
    assert again.updates[0].after.category == CATS


def test_an_added_row_with_a_name_and_another_number_keeps_its_category() -> None:
    """In an added row, the category's name counts: another category's id is not an edit once the
    row has its pet's id.
    """
    row = {"name": "New", "status": "sold", "category": "Cats", "category_id": 1}
    sheet = sheet_saying({"id": 1, "name": "Rex"}, row, base=base_of(SHOP))
    plan = plan_of(SHOP, sheet)
    base, store = after(sheet, report_on(plan)), applied(plan, SHOP)
    store = [replace(pet, id=pet.id or 100) for pet in store]
    again = plan_of(store, sheet_saying({"id": 1, "name": "Rex"}, {"id": 100} | row, base=base))
    assert (again.changes, again.conflicts) == ((), ())


def test_what_the_store_changed_beside_a_missing_column_is_not_reverted() -> None:
    """If a row sends another field while its category id is missing, the store's category is not
    reverted.
    """
    store = [replace(SHOP[0], category=CATS), *SHOP[1:]]
    row = {"id": 1, "category": "Dogs", "status": "pending"}
    sheet = sheet_saying(row, base=base_of(SHOP))
    plan = plan_of(store, sheet)
    base = after(sheet, report_on(plan))
    again = plan_of(applied(plan, store), sheet_saying(row | {"category_id": 1}, base=base))
    assert (again.changes, again.conflicts) == ((), ())


@given(catalogues, catalogues)
def test_a_sheet_that_was_applied_is_in_sync(old: list[Pet], wanted: list[Pet]) -> None:
    """With the new base, an applied sheet has no edits, and nothing is left to send."""
    sheet = sheet_of(wanted, base=base_of(old))
    plan = plan_of(old, sheet, delete_missing=True)
    base = after(sheet, report_on(plan))
    again = plan_of(applied(plan, old), sheet_of(wanted, base=base), delete_missing=True)
    assert again.in_sync
    assert again.older == ()


@given(catalogues, catalogues)
def test_what_is_set_back_is_an_edit(old: list[Pet], wanted: list[Pet]) -> None:
    """A person who types the exported values again after a run makes an edit."""
    sheet = sheet_of(wanted, base=base_of(old))
    plan = plan_of(old, sheet, delete_missing=True)
    base, store = after(sheet, report_on(plan)), applied(plan, old)
    back = plan_of(store, sheet_of(old, base=base), delete_missing=True)
    assert back.conflicts == ()
    restored = applied(back, store)
    assert [pet.id for pet in restored] == [pet.id for pet in old]
    for one, other in zip(restored, old, strict=True):
        assert differing_columns(one, other) == ()


def test_what_failed_is_still_an_edit() -> None:
    """A failed change is still an edit: the base of its row stays as exported."""
    sheet = sheet_saying(
        {"id": 1, "status": "sold"}, {"id": 2, "status": "pending"}, base=base_of(PETS)
    )
    plan = plan_of(PETS, sheet)
    base = after(sheet, report_on(plan, failed={0}))
    assert [pet.status for pet in pets_from_frame(base.frame)] == ["available", "pending"]


def test_what_the_store_agreed_with_already_is_settled_too() -> None:
    """An edit that someone else made in the store first is no longer an edit."""
    sheet = sheet_saying({"id": 1, "status": "sold"}, base=base_of(PETS))
    plan = plan_of([SOLD, TOM], sheet)
    assert plan.changes == ()
    assert pets_from_frame(after(sheet, report_on(plan)).frame)[0].status == "sold"


def test_a_conflict_and_an_outdated_row_keep_their_base() -> None:
    """A conflict and an outdated row keep their base, because neither was decided."""
    sheet = sheet_saying(
        {"id": 1, "status": "pending"}, {"id": 2, "status": "sold"}, base=base_of(PETS)
    )
    plan = plan_of([SOLD, replace(TOM, status="available")], sheet)
    assert (len(plan.conflicts), plan.older) == (1, (3,))
    base = after(sheet, report_on(plan))
    assert [pet.status for pet in pets_from_frame(base.frame)] == ["available", "sold"]


def test_new_pets_come_in_and_deleted_ones_go() -> None:
    """The base gains a new pet with its assigned id and loses a deleted pet."""
    sheet = sheet_saying(
        {"id": 1, "action": "delete"}, {"name": "New", "status": "sold"}, base=base_of(PETS)
    )
    base = after(sheet, report_on(plan_of(PETS, sheet)))
    assert [(pet.id, pet.name) for pet in pets_from_frame(base.frame)] == [(2, "Tom"), (100, "New")]


def test_a_value_that_the_store_had_already_can_be_set_back() -> None:
    """A change that another user made before the run is no longer an edit, and neither is the
    delete of a pet that was already gone; setting the cell back is an edit.
    """
    sheet = sheet_saying(
        {"id": 1, "status": "sold"}, {"id": 2, "action": "delete"}, base=base_of(PETS)
    )
    report = report_on(plan_of(PETS, sheet))
    found = {"update": "already-so", "delete": "already-gone"}
    results = (replace(r, outcome="unchanged", cause=found[r.kind]) for r in report.results)
    base = after(sheet, replace(report, results=tuple(results)))
    assert pets_from_frame(base.frame) == [SOLD]
    (change,) = plan_of([SOLD], sheet_saying({"id": 1, "status": "available"}, base=base)).changes
    assert change.after == REX


def test_the_store_s_part_of_a_merge_is_not_taken_for_the_row_s() -> None:
    """Tags that only the store has are not in the sheet, so their absence from the row
    is not an edit.
    """
    theirs = replace(TOM, tags=(*TOM.tags, replace(TOM.tags[0], id=8, name="theirs")))
    row = {"id": 2, "tags": [TOM.tags[0]], "category": "Cats", "category_id": 2}
    sheet = sheet_saying(row, base=base_of(PETS))
    plan = plan_of([REX, theirs], sheet)
    base = after(sheet, report_on(plan))
    again = plan_of(applied(plan, [REX, theirs]), sheet_saying(row, base=base))
    assert again.changes == ()
    assert pets_from_frame(base.frame)[1].category == CATS


def test_a_sheet_without_a_base_gets_none() -> None:
    """A sheet that was not exported gets no base from a run."""
    sheet = sheet_saying({"id": 1, "status": "sold"})
    assert advance_base(sheet, report_on(plan_of(PETS, sheet))) is None


def test_a_recognised_row_is_its_pet_s() -> None:
    """A later change in the store is not an edit of the row that was recognised as its pet."""
    rows = [{"name": "Rex", "status": "available"}, {"name": "Tom", "status": "sold"}]
    sheet = sheet_saying(*rows, base=base_of([REX]))
    plan = plan_of(PETS, sheet)
    assert plan.recognised == {2: 1, 3: 2}
    base = after(sheet, report_on(plan))
    with_ids = sheet_saying(*({"id": n, **row} for n, row in enumerate(rows, 1)), base=base)
    later = plan_of([SOLD, replace(TOM, status="available")], with_ids)
    assert (later.changes, later.conflicts, later.older) == ((), (), (2, 3))


COLUMNS_SO_FAR = frozenset({"id", *COLUMNS_OF["category"], "name", "status", "tags", "photo_urls"})


@pytest.mark.parametrize(
    ("sheets", "cells"),
    [
        ({"tags": (Tag(2, "old"),)}, {"tags": [Tag(2, "old")]}),
        ({"photo_urls": ("a",)}, {"photo_urls": ["a"]}),
        ({"name": "Old"}, {"name": "Old"}),
        ({"category": None}, {"category": CLEARED}),
    ],
)
@pytest.mark.parametrize("is_back", [True, False])
def test_a_value_that_comes_back_after_a_run_is_no_edit(
    sheets: dict[str, Any], cells: dict[str, Any], is_back: bool
) -> None:
    """The last values of a column that was missing from the sheet stay no edit after a run of
    another column, whether they are back before the run or after it.
    """
    (column,) = sheets
    columns = {"category", "category_id"} if column == "category" else {column}
    base = dataclasses.replace(
        base_of([REX]),
        missing=frozenset(columns),
        columns=COLUMNS_SO_FAR,
        sheet_pets={1: replace(REX, **sheets)},
    )
    row = {"id": 1, "name": REX.name, "status": "sold"}
    first = sheet_saying({**row, **cells} if is_back else {**row, column: None}, base=base)
    plan = plan_of([REX], first)
    assert [change.fields for change in plan.changes] == [("status",)]
    after = dataclasses.replace(
        sheet_saying({**row, **cells}), base=advance_base(first, report_on(plan))
    )
    assert plan_of(applied(plan, [REX]), after).changes == ()


def test_a_category_that_the_sheet_never_had_is_an_edit_when_it_is_typed() -> None:
    """If the sheet had no category, a typed one is an edit, also after a run of another column."""
    base = dataclasses.replace(base_of([REX]), sheet_pets={1: replace(REX, category=None)})
    row = {"id": 1, "status": "sold", "category": None, "category_id": None}
    first = sheet_saying(row, base=base)
    plan = plan_of([REX], first)
    typed = sheet_saying({**row, "category": "Dogs"}, base=advance_base(first, report_on(plan)))
    (now,) = applied(plan, [REX])
    (conflict,) = plan_of([replace(now, category=CATS)], typed).conflicts
    assert conflict.rule == "both-changed"
