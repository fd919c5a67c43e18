"""Three-way comparison: changes of the sheet and of the store since the export."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace
from shop import base_of, plan_of, sheet_of, sheet_saying
from test_compare import CATS, DOGS, OLD, PETS, REX, SHY, TOM, applied, shop_pets

from petsync.errors import PlanError
from petsync.models import Pet, Tag
from petsync.plan.change import Delete, Update
from petsync.plan.fields import differing_columns

pytestmark = pytest.mark.slow

SOLD = replace(REX, status="sold")
PENDING = replace(REX, status="pending")
BASE = base_of(PETS)
SAID: dict[str, Any] = {"id": 1, "name": "Rex", "status": "available"}


@given(shop_pets, shop_pets)
def test_an_unedited_sheet_changes_nothing(old: list[Pet], now: list[Pet]) -> None:
    """An unedited export changes nothing, whatever changed in the store, even with
    delete_missing.
    """
    plan = plan_of(now, sheet_of(old, base=base_of(old)), delete_missing=True)
    assert (plan.changes, plan.conflicts) == ((), ())
    assert plan.unchanged == len(old)


@given(shop_pets, shop_pets)
def test_with_an_unchanged_store_two_ways_and_three_are_one(
    old: list[Pet], wanted: list[Pet]
) -> None:
    """With an unchanged store, two-way and three-way plans give the same pets."""
    old = [replace(pet, category=None) for pet in old]
    wanted = [replace(pet, category=None) for pet in wanted]
    sheet = sheet_of(wanted, base=base_of(old))
    three = applied(plan_of(old, sheet, delete_missing=True), old)
    two = applied(plan_of(old, sheet, delete_missing=True, two_way=True), old)
    assert [pet.id for pet in three] == [pet.id for pet in two]
    for one, other in zip(three, two, strict=True):
        assert differing_columns(one, other) == ()


@given(shop_pets, shop_pets, shop_pets)
def test_every_row_is_accounted_for(old: list[Pet], now: list[Pet], wanted: list[Pet]) -> None:
    """Each row is a change, a conflict or unchanged; a pet outside the base is never deleted."""
    plan = plan_of(now, sheet_of(wanted, base=base_of(old)), delete_missing=True)
    result = {each.row for each in (*plan.changes, *plan.conflicts)} - {None}
    assert plan.rows == len(result) + plan.unchanged
    exported = {pet.id for pet in old}
    assert {change.before.id for change in plan.deletes} <= exported


@pytest.mark.parametrize(
    ("row", "now", "becomes"),
    [
        (SAID, REX, None),
        (SAID, SOLD, None),
        (SAID | {"status": "sold"}, REX, SOLD),
        (SAID | {"status": "sold"}, SOLD, None),
        (SAID | {"status": "sold"}, replace(REX, name="Max"), replace(SOLD, name="Max")),
        (SAID | {"status": "sold"}, PENDING, "conflict"),
        (SAID, None, None),
        (SAID | {"status": "sold"}, None, "conflict"),
        (SAID | {"action": "delete"}, REX, "delete"),
        (SAID | {"action": "delete"}, SOLD, "conflict"),
        (SAID | {"action": "delete"}, None, None),
    ],
    ids=[
        "same, same",
        "same, changed",
        "changed, same",
        "changed, changed to the same",
        "changed, another field changed",
        "changed, changed otherwise",
        "same, gone",
        "changed, gone",
        "to go, same",
        "to go, changed",
        "to go, gone",
    ],
)
def test_a_row_against_the_base_and_the_store(row: Any, now: Pet | None, becomes: Any) -> None:
    """A row's result depends on what the sheet and the store each changed since the base."""
    plan = plan_of([*([now] if now else []), TOM], sheet_saying(row, base=BASE))
    if becomes == "conflict":
        assert plan.changes == ()
        assert [conflict.row for conflict in plan.conflicts] == [2]
        return
    assert plan.conflicts == ()
    if becomes is None:
        assert (plan.changes, plan.unchanged) == ((), 1)
        return
    (change,) = plan.changes
    if becomes == "delete":
        assert isinstance(change, Delete)
    else:
        assert isinstance(change, Update)
        assert change.after == becomes


def test_a_conflict_names_both_values_and_the_way_out() -> None:
    """A conflict shows the sheet's value and the store's value, and suggests a decision."""
    sheet = sheet_saying(SAID | {"status": "sold"}, base=BASE)
    (conflict,) = plan_of([PENDING, TOM], sheet).conflicts
    assert "status (sheet: 'sold', store: 'pending')" in conflict.problem
    assert "store's value" in conflict.suggestion


@pytest.mark.parametrize(
    ("now", "deleted", "in_conflict"),
    [(REX, [1], []), (SOLD, [], [1]), (None, [], [])],
    ids=["same", "changed", "gone"],
)
def test_a_row_that_was_taken_out(
    now: Pet | None, deleted: list[int], in_conflict: list[int]
) -> None:
    """A removed row's pet is deleted only with delete_missing and if unchanged in the store."""
    pets = [*([now] if now else []), TOM]
    sheet = sheet_saying({"id": 2}, base=BASE)
    plan = plan_of(pets, sheet, delete_missing=True)
    assert [change.before.id for change in plan.deletes] == deleted
    assert [conflict.pet_id for conflict in plan.conflicts] == in_conflict
    assert plan_of(pets, sheet).changes == ()


def test_a_pet_that_came_after_the_export_is_not_missing() -> None:
    """A pet that was added to the store after the export is not deleted as missing."""
    new = Pet(id=9, name="New", status="sold")
    plan = plan_of([*PETS, new], sheet_of(PETS, base=BASE), delete_missing=True)
    assert plan.changes == ()
    assert any("1 pet of the store was not in the export" in note for note in plan.notes)


def test_a_pet_that_is_gone_is_added_again_only_on_demand() -> None:
    """A row with the action `add` adds a deleted pet again, with all fields of the row."""
    sheet = sheet_saying(SAID | {"action": "add"}, base=BASE)
    (change,) = plan_of([TOM], sheet).adds
    assert (change.after.name, change.after.status) == ("Rex", "available")


def test_tags_of_both_sides_are_merged() -> None:
    """Tags that the sheet and the store each added or removed are merged without a conflict."""
    new, theirs = Tag(7, "new"), Tag(8, "theirs")
    now = replace(TOM, tags=(OLD, SHY, theirs))
    sheet = sheet_saying({"id": 2, "tags": [SHY, new]}, base=BASE)
    (change,) = plan_of([REX, now], sheet).updates
    assert set(change.after.tags) == {SHY, theirs, new}


def test_the_half_of_a_category_that_was_edited_is_meant() -> None:
    """Of a category's name and id, the edited one counts; the unedited one is not a
    contradiction.
    """
    for edited in ({"category_id": 2}, {"category": "Cats"}):
        row = {"id": 1, "category": "Dogs", "category_id": 1} | edited
        (change,) = plan_of(PETS, sheet_saying(row, base=BASE)).updates
        assert change.after.category == CATS
    now = replace(REX, category=CATS)
    row = {"id": 1, "category": "Birds", "category_id": 1}
    plan = plan_of([now, TOM], sheet_saying(row, base=base_of([replace(REX, category=DOGS)])))
    assert [conflict.row for conflict in plan.conflicts] == [2]


@pytest.mark.parametrize(
    "sheet",
    [
        sheet_of(PETS, base_refused="its digest does not fit."),
        sheet_of(PETS, base=base_of(PETS, url="http://127.0.0.1:2/v2")),
    ],
    ids=["damaged", "of another store"],
)
def test_a_base_that_cannot_be_used_stops_the_plan_by_default(sheet: Any) -> None:
    """A base that cannot be used stops the plan; only two_way=True compares without a base."""
    with pytest.raises(PlanError, match=r"test\.xlsx") as caught:
        plan_of(PETS, sheet)
    assert "--two-way" in caught.value.cure
    assert plan_of(PETS, sheet, two_way=True).in_sync


def test_rows_that_are_older_than_the_store_are_not_called_in_agreement() -> None:
    """Unedited rows that are older than the store are counted and reported in a note."""
    plan = plan_of([SOLD, TOM], sheet_of(PETS, base=BASE))
    assert (plan.unchanged, plan.older) == (2, (2,))
    assert any("the store has newer ones" in note for note in plan.notes)
    edited = sheet_saying(SAID | {"name": "Max", "status": "available"}, base=BASE)
    assert plan_of([replace(SOLD, name="Max"), TOM], edited).older == (2,)


def test_a_plan_says_by_which_export_it_was_made() -> None:
    """A plan records the time of the export that it uses as its base."""
    sheet = sheet_of(PETS, base=BASE)
    assert plan_of(PETS, sheet).base == BASE.taken_at
    assert plan_of(PETS, sheet, two_way=True).base == ""


def test_a_long_value_is_shown_from_where_it_differs() -> None:
    """A conflict shows long values from where they differ."""
    old = replace(REX, name="Rex " * 40)
    now = replace(old, name="Rex " * 40 + "of the store")
    row = {"id": 1, "name": "Rex " * 40 + "of the sheet"}
    (conflict,) = plan_of([now, TOM], sheet_saying(row, base=base_of([old, TOM]))).conflicts
    assert "of the sheet" in conflict.problem
    assert "of the store" in conflict.problem


def test_a_row_that_lost_its_id_is_pointed_out() -> None:
    """A row without an id is a conflict, and no add, if its exported pet is in no other row."""
    row = {"name": "Rex", "status": "sold", "photo_urls": ["u"]}
    plan = plan_of(PETS, sheet_saying({"id": 2}, row, base=BASE))
    assert not plan.changes
    (conflict,) = plan.conflicts
    assert (conflict.rule, conflict.row) == ("lost-id", 3)


@pytest.mark.parametrize(
    "row",
    [
        {"name": "Rexy", "status": "available", "category": "Dogs"},
        {"name": "Rex II", "status": "available", "tags": [Tag(1, "shy")]},
        {"name": "Otto", "status": "available", "category": "Dogs", "tags": [Tag(1, "shy")]},
    ],
)
@pytest.mark.parametrize("delete_missing", [False, True])
def test_a_renamed_row_that_lost_its_id_is_pointed_out(
    row: dict[str, Any], *, delete_missing: bool
) -> None:
    """A renamed row without an id is a conflict if its other cells match a missing pet, and the
    row is in the place of that pet's row.
    """
    old = [REX, replace(TOM, id=9)]
    base = base_of([replace(pet, category=DOGS, tags=(Tag(1, "shy"),)) for pet in old])
    pets = [replace(pet, category=DOGS, tags=(Tag(1, "shy"),)) for pet in old]
    sheet = sheet_saying(row, {"id": 9}, base=base)
    plan = plan_of(pets, sheet, delete_missing=delete_missing)
    assert not plan.changes
    assert {each.rule for each in plan.conflicts} == {"lost-id"}
    another = {**row, "status": "sold", "category": "Cats", "tags": [Tag(2, "old")]}
    assert plan_of(pets, sheet_saying(another, {"id": 9}, base=base)).adds


def test_a_lost_column_is_pointed_out() -> None:
    """A note lists the exported columns that the sheet lacks."""
    plan = plan_of(PETS, sheet_saying({"id": 1, "status": "sold"}, base=BASE))
    assert any(note.startswith("The sheet lacks the columns name, category") for note in plan.notes)


@pytest.mark.parametrize(("old", "new"), [("007", "7"), ("000", "0"), ("True", "TRUE")])
def test_what_a_program_does_to_a_name_is_pointed_out(old: str, new: str) -> None:
    """A note reports names that a spreadsheet program may have converted, such as 007 to 7."""
    bond = replace(REX, name=old)
    sheet = sheet_saying({"id": 1, "name": new}, base=base_of([bond, TOM]))
    plan = plan_of([bond, TOM], sheet)
    assert any(f"{old!r} became {new!r}" in note for note in plan.notes)


@pytest.mark.parametrize("two_way", [False, True])
def test_a_category_that_the_store_lacks_is_pointed_out(two_way: bool) -> None:
    """A category that the store lacks is reported in a note with a similar existing name."""
    sheet = sheet_saying({"id": 1, "category": "Cat"}, base=BASE)
    notes = plan_of(PETS, sheet, two_way=two_way).notes
    assert any("no category 'Cat' yet" in note and "'Cats' if you mean" in note for note in notes)


def test_pets_outside_the_export_are_not_reported_to_be_missing() -> None:
    """Pets that were not in the export are not reported as missing rows."""
    plan = plan_of(PETS, sheet_saying({"id": 1}, base=base_of([REX])))
    assert not any("would delete" in note for note in plan.notes)
    assert any("1 pet of the store was not in the export" in note for note in plan.notes)


def test_a_row_whose_id_was_typed_over_with_zero_lost_it() -> None:
    """A row with the id 0 is treated as a row that lost its id."""
    row = {"id": 0, "name": "Rex", "status": "sold", "photo_urls": ["u"]}
    plan = plan_of(PETS, sheet_saying({"id": 2}, row, base=BASE))
    assert not plan.changes
    (conflict,) = plan.conflicts
    assert (conflict.rule, conflict.row, conflict.pet_id) == ("lost-id", 3, 1)
    assert "has the id 0" in conflict.problem
