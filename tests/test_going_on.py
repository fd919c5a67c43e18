"""Later edits of an applied sheet: the same cells are edited again, or set back."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from openpyxl import load_workbook
from pairwise import pairwise

import petsync as ps
from petsync.models import Category, Pet, Tag
from petsync.plan.base import SentRun, continue_base
from petsync.plan.change import Update
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.store.runs import Outputs

pytestmark = pytest.mark.slow

BASE, FIRST, SECOND, THEIRS = range(4)
TEXTS: Mapping[str, tuple[str, str, str, str]] = {
    "name": ("Bella", "First", "Second", "Theirs"),
    "status": ("available", "pending", "sold", "sold"),
    "category": ("Dogs", "Cats", "Birds", "Rabbits"),
}
CATEGORIES = {"Dogs": 1, "Cats": 2, "Birds": 4, "Rabbits": 3}
LISTS = ({"a"}, {"a", "b"}, {"a", "b", "c"}, {"d"})
"""The items of a list: as exported, after the first and second day, and another
client's addition.
"""
DAYS = {"left alone": FIRST, "edited again": SECOND, "set back": BASE}


class Case(NamedTuple):
    """The edited column, the second day's edit of it, and another client's change."""

    column: str
    day: str
    others: str


CASES = {
    n: Case(*each)
    for n, each in enumerate(
        product(
            (*TEXTS, "tags", "photo_urls"), DAYS, ("nothing", "the same field", "another field")
        ),
        1001,
    )
}


def pet_with(pet: Pet, column: str, value: Any) -> Pet:
    """Return the pet with a value of the cases."""
    if column == "category":
        return replace(pet, category=Category(CATEGORIES[value], value))
    if column == "tags":
        return replace(pet, tags=tuple(Tag(ord(each), each) for each in sorted(value)))
    if column == "photo_urls":
        return replace(
            pet, photo_urls=tuple(f"https://x.example/{pet.id}-{each}" for each in sorted(value))
        )
    return replace(pet, **{column: f"{value} {pet.id}" if column == "name" else value})


def value_of(pet: Pet, column: str) -> Any:
    """Return the pet's value in the form of the cases."""
    if column == "category":
        return None if pet.category is None else pet.category.name
    if column == "tags":
        return {tag.name for tag in pet.tags}
    if column == "photo_urls":
        return {url[-1] for url in pet.photo_urls}
    text = str(getattr(pet, column))
    return text.removesuffix(f" {pet.id}")


def values(column: str) -> tuple[Any, ...]:
    """Return the values of a column: exported, first day, second day, and another client's."""
    return TEXTS.get(column, LISTS)


def exported(pet_id: int) -> Pet:
    """Return a pet as it is exported."""
    pet = Pet(id=pet_id)
    for column in (*TEXTS, "tags", "photo_urls"):
        pet = pet_with(pet, column, values(column)[BASE])
    return pet


SHOP = [
    *map(exported, CASES),
    *(
        Pet(id=n, name=f"Other {n}", status="sold", category=Category(number, name))
        for n, (name, number) in enumerate(CATEGORIES.items(), 1)
    ),
]


def expected(case: Case, *, writes: bool, is_undone: bool) -> Any:
    """Return the store's value after the second day by the rules of the three-way merge."""
    all_values = values(case.column)
    base = all_values[BASE if is_undone and not writes else FIRST]
    store = all_values[BASE if is_undone else FIRST]
    restored, cell = store, all_values[DAYS[case.day]]
    is_list = isinstance(cell, set)
    if case.others == "the same field":
        store = store | all_values[THEIRS] if is_list else all_values[THEIRS]
    if is_list:
        return (store | (cell - base)) - (base - cell)
    # After an undo, only a cell with a third value is an edit, if the store has the restored value.
    return cell if store == base or (store == restored and cell != base) else store


def cell_text(pet_id: int, column: str, value: Any) -> str:
    """Return a value as a person types it."""
    if column == "tags":
        return "; ".join(sorted(value))
    if column == "photo_urls":
        return " | ".join(f"https://x.example/{pet_id}-{each}" for each in sorted(value))
    return f"{value} {pet_id}" if column == "name" else str(value)


def typed(pet_id: int, case: Case, day: int) -> dict[str, str]:
    """Return the cells that a person types for a case on a day."""
    return {case.column: cell_text(pet_id, case.column, values(case.column)[day])}


def write(path: Path, cells: Mapping[int, Mapping[str, str]]) -> None:
    """Type these texts into the rows of these pets, and save the file."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = csv.reader(file)
        for row in rows:
            for column, text in cells.get(int(row[header.index("id")]), {}).items():
                row[header.index(column)] = text
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return
    book = load_workbook(path)
    tab = book.worksheets[0]
    places = {str(cell.value): cell.column for cell in tab[1]}
    for number in range(2, tab.max_row + 1):
        pet_id = tab.cell(number, places["id"]).value
        for column, text in cells.get(int(pet_id or 0), {}).items():
            tab.cell(number, places[column]).value = text
    book.save(path)


def append(path: Path, cells: Mapping[str, str], *, row: int = len(SHOP) + 2) -> None:
    """Type a row below all others, in a workbook in this row."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *_ = csv.reader(file)
        with path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file).writerow([cells.get(column, "") for column in header])
        return
    book = load_workbook(path)
    tab = book.worksheets[0]
    places = {str(cell.value): cell.column for cell in tab[1]}
    for column, text in cells.items():
        tab.cell(row, places[column]).value = text
    book.save(path)


class Desk(NamedTuple):
    """A store, and a person's folder of sheets."""

    box: Sandbox
    store: ps.Store
    folder: Path

    def export(self, name: str = "sheet.xlsx") -> Path:
        """Return a new export."""
        path = self.folder / name
        ps.write_sheet(self.store.snapshot(), path)
        return path

    def plan(self, path: Path, **options: Any) -> Plan:
        """Return the plan of the sheet, without limits."""
        guard = ps.Guard(max_update=ps.Limit(1.0), max_delete=ps.Limit(1.0))
        return self.store.plan(path, guard=guard, **options)

    def apply(self, path: Path, **options: Any) -> ps.types.Report:
        """Apply the sheet and return the report."""
        return self.store.apply(self.plan(path, **options), progress=False)

    def pet(self, pet_id: int) -> Pet:
        """Return the pet in the store."""
        (pet,) = (pet for pet in self.box.pets() if pet.id == pet_id)
        return pet


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def desk(_open_box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Yield a store with a pet for each case, and an empty folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    _open_box.reset(SHOP)
    with ps.connect(_open_box.url, state=tmp_path / "state") as store:
        yield Desk(_open_box, store, tmp_path)


def test_the_cases_are_all_of_the_product() -> None:
    """Each combination of field, second day and other change has a separate pet."""
    assert len({*CASES.values()}) == len(CASES) == 5 * 3 * 3


@pytest.mark.parametrize(
    ("suffix", "writes", "is_undone"), pairwise(("xlsx", "csv"), (False, True), (False, True))
)
def test_the_second_day_in_the_same_sheet(
    desk: Desk, suffix: str, writes: bool, is_undone: bool
) -> None:
    """Each cell is compared with the value that the first day sent, or with the export if that was
    undone; a clash is a conflict, and no change is lost without one.
    """
    path = desk.export(f"sheet.{suffix}")
    write(path, {n: typed(n, case, FIRST) for n, case in CASES.items()})
    report = desk.apply(path)
    assert report.counts["applied"] == len(CASES)
    if writes:
        ps.write_back(desk.store.read(path), report, only_ids=True)
    if is_undone:
        guard = ps.Guard(max_update=ps.Limit(1.0))
        desk.store.apply(desk.store.undo(report.run_id, guard=guard), progress=False)
    for n, case in CASES.items():
        pet = desk.pet(n)
        if case.others == "the same field":
            added = values(case.column)[THEIRS]
            old = value_of(pet, case.column)
            desk.box.put(pet_with(pet, case.column, old | added if isinstance(old, set) else added))
        elif case.others == "another field":
            other = "status" if case.column == "name" else "name"
            desk.box.put(pet_with(pet, other, values(other)[THEIRS]))
    write(path, {n: typed(n, case, DAYS[case.day]) for n, case in CASES.items()})
    before = {n: value_of(desk.pet(n), case.column) for n, case in CASES.items()}
    done = desk.apply(path)
    wanted = {n: expected(c, writes=writes, is_undone=is_undone) for n, c in CASES.items()}
    assert {n: value_of(desk.pet(n), case.column) for n, case in CASES.items()} == wanted
    for n, case in CASES.items():
        if case.others == "another field":
            other = "status" if case.column == "name" else "name"
            assert value_of(desk.pet(n), other) == values(other)[THEIRS]
    # An edit that is not in the store is a conflict.
    base = BASE if is_undone and not writes else FIRST
    lost = {
        n
        for n, case in CASES.items()
        if DAYS[case.day] != base and not isinstance(wanted[n], set)
        if wanted[n] != values(case.column)[DAYS[case.day]]
    }
    assert {each.pet_id for each in done.plan.conflicts} == lost
    assert before != wanted


def set_back_alone(desk: Desk) -> Path:
    """Return a sheet whose only edit was applied and set back."""
    path = desk.export()
    write(path, {1001: {"name": "First"}})
    desk.apply(path)
    write(path, {1001: {"name": "Bella 1001"}})
    return path


def test_the_only_cell_that_was_sent_is_edited_again(desk: Desk) -> None:
    """Another edit of the only cell that was sent is a plain edit, day after day."""
    path = desk.export()
    for name in ("First", "Second", "Third"):
        write(path, {1001: {"name": name}})
        assert desk.apply(path).counts["conflict"] == 0
        assert desk.pet(1001).name == name


def test_all_that_was_sent_is_set_back(desk: Desk) -> None:
    """If all sent cells are set back, as in an older copy, a conflict names both values."""
    path = set_back_alone(desk)
    (conflict,) = desk.plan(path).conflicts
    assert "sheet: 'Bella 1001', store: 'First'" in conflict.problem
    assert "may be the older one" in conflict.problem
    assert desk.apply(path, on_conflict="sheet").counts["applied"] == 1
    assert desk.pet(1001).name == "Bella 1001"
    assert desk.plan(path).in_sync


def test_the_results_of_a_doubtful_row_are_doubtful_too(desk: Desk) -> None:
    """A results file, or ids written into the sheet, keep the conflict of a cell that
    was set back.
    """
    path = set_back_alone(desk)
    report, results = desk.apply(path), desk.folder / "results.xlsx"
    outputs = Outputs(desk.store.aio.history)
    outputs.write_results(desk.store.read(path), report, results)
    outputs.write_into_sheet(desk.store.read(path), report, "ids")
    for file in (results, path):
        assert [each.pet_id for each in desk.plan(file).conflicts] == [1001]
    desk.apply(path, on_conflict="sheet")
    assert desk.plan(path).in_sync


def test_a_copy_of_before_the_first_day(desk: Desk) -> None:
    """A copy from before the first day sends nothing if unedited; its edits clash with the sent
    values.
    """
    path = desk.export()
    copy = desk.folder / "copy.xlsx"
    shutil.copy(path, copy)
    write(path, {1001: {"name": "First"}, 1002: {"name": "Also"}})
    desk.apply(path)
    plan = desk.plan(copy)
    assert (plan.changes, plan.conflicts, len(plan.older)) == ((), (), 2)
    write(copy, {1001: {"name": "Second"}, 1003: {"name": "Third"}})
    plan = desk.plan(copy)
    assert [each.pet_id for each in plan.conflicts] == [1001]
    assert [each.pet_id for each in plan.changes] == [1003]


def test_a_copy_of_after_the_first_day_that_is_set_back(desk: Desk) -> None:
    """In a copy with other edits of the run, a cell that is set back is a conflict; what the store
    has set back since stays.
    """
    path, before = desk.export(), desk.pet(1002)
    write(path, {1001: {"name": "First"}, 1002: {"name": "Also"}})
    desk.apply(path)
    copy = desk.folder / "copy.xlsx"
    shutil.copy(path, copy)
    desk.store.api.update_pet(before)
    plan = desk.plan(copy)
    assert (plan.changes, plan.conflicts, len(plan.older)) == ((), (), 1)
    write(copy, {1001: {"name": "Bella 1001"}})
    plan = desk.plan(copy)
    assert (plan.changes, [each.pet_id for each in plan.conflicts]) == ((), [1001])


@pytest.mark.parametrize("is_put_back", [False, True], ids=["copy", "older copy put back"])
@pytest.mark.parametrize("edit", [{"name": "Theirs"}, {"tags": "b"}, {"status": "sold"}])
def test_a_copy_deletes_no_pet_that_another_copy_changed(
    desk: Desk, edit: Mapping[str, str], is_put_back: bool
) -> None:
    """A row to delete in a copy does not delete a pet that another copy changed, because it may be
    older.
    """
    path, copy = desk.export(), desk.folder / "copy.xlsx"
    shared = {1001: {"name": "First"}, 1002: {"name": "Also"}}
    if not is_put_back:
        write(path, shared)
    write(path, {1003: {"action": "delete"}})
    shutil.copy(path, copy)
    write(path, {1003: {"action": "", **edit}, **shared})
    desk.apply(path)
    left = desk.pet(1003)
    if is_put_back:
        shutil.copy(copy, path)
    plan = desk.plan(path if is_put_back else copy)
    assert plan.deletes == ()
    assert ("delete-changed", 1003) in [(each.rule, each.pet_id) for each in plan.conflicts]
    assert desk.pet(1003) == left
    fresh = desk.export("fresh.xlsx")
    write(fresh, {1003: {"action": "delete"}})
    assert [each.before.id for each in desk.plan(fresh).deletes] == [1003]


@pytest.mark.parametrize("edits", [1, 3])
def test_a_conflict_of_an_older_copy_stays_after_other_edits_were_sent(
    desk: Desk, edits: int
) -> None:
    """Edits that are made in an older copy, and sent, do not show that its old values are new: they
    stay in conflict until they are edited.
    """
    path, copy = desk.export(), desk.folder / "copy.xlsx"
    shutil.copy(path, copy)
    write(path, {1001: {"name": "First"}, 1002: {"name": "Also"}})
    desk.apply(path)
    shutil.copy(copy, path)
    for day in range(3):
        for n in range(edits):
            write(path, {1010 + 5 * day + n: {"name": f"Edit {day} {n}"}})
        desk.apply(path)
        assert (desk.pet(1001).name, desk.pet(1002).name) == ("First", "Also")
        plan = desk.plan(path)
        assert (plan.changes, {each.pet_id for each in plan.conflicts}) == ((), {1001, 1002})
    write(path, {1001: {"name": "Newer"}, 1002: {"name": "Also"}})
    plan = desk.plan(path)
    assert [each.pet_id for each in plan.updates] == [1001]
    assert not plan.conflicts


def test_an_older_copy_under_the_name_of_the_sheet_takes_nothing_back(desk: Desk) -> None:
    """An older copy that replaces the sheet reverts nothing: its old values are conflicts."""
    path = desk.export()
    copy = desk.folder / "copy.xlsx"
    shutil.copy(path, copy)
    write(path, {1001: {"name": "First"}, 1002: {"name": "Also"}})
    desk.apply(path)
    write(path, {1004: {"name": "More"}})
    desk.apply(path)
    write(copy, {1001: {"name": "Second"}, 1003: {"name": "Third"}})
    shutil.copy(copy, path)
    plan = desk.plan(path)
    assert [each.pet_id for each in plan.changes] == [1003]
    assert {each.pet_id for each in plan.conflicts} == {1001, 1002, 1004}


def test_a_backup_of_between_two_days_takes_nothing_back(desk: Desk) -> None:
    """A backup from between two days reverts nothing of the second day."""
    path = desk.export()
    write(path, {1001: {"name": "First"}, 1002: {"name": "Also"}})
    desk.apply(path)
    copy = desk.folder / "copy.xlsx"
    shutil.copy(path, copy)
    write(path, {1001: {"name": "Second"}, 1003: {"name": "Third"}})
    desk.apply(path)
    shutil.copy(copy, path)
    plan = desk.plan(path)
    assert plan.changes == ()
    assert {each.pet_id for each in plan.conflicts} == {1001, 1003}


def test_a_pet_that_the_sheet_changed_is_deleted_by_it(desk: Desk) -> None:
    """A pet that the sheet changed can be deleted by its action, and by its missing row if other
    rows prove the sheet's age.
    """
    path = desk.export()
    write(path, {1001: {"name": "First"}, 1002: {"name": "Also"}, 1003: {"name": "Third"}})
    desk.apply(path)
    write(path, {1001: {"action": "delete"}})
    book = load_workbook(path)
    book.worksheets[0].delete_rows(
        next(n for n in range(2, 99) if book.worksheets[0].cell(n, 1).value == "1002")
    )
    book.save(path)
    plan = desk.plan(path, delete_missing=True)
    assert plan.conflicts == ()
    assert {each.pet_id for each in plan.deletes} == {1001, 1002}


def test_an_undo_that_was_undone_counts_again(desk: Desk) -> None:
    """After an undo of an undo, the run's values count as sent again."""
    path = desk.export()
    write(path, {1001: {"name": "First"}})
    run = desk.apply(path).run_id
    undo = desk.store.apply(desk.store.undo(run), progress=False).run_id
    assert len(desk.plan(path).changes) == 1
    desk.store.apply(desk.store.undo(undo), progress=False)
    write(path, {1001: {"name": "Second"}})
    assert desk.apply(path).counts["applied"] == 1


def test_the_sheet_s_own_new_pet_is_not_set_back(desk: Desk) -> None:
    """The store's later change of a pet that the sheet added with an id is not reverted."""
    path = desk.export()
    append(path, {"id": "2001", "name": "New", "status": "sold", "category": "Cats"})
    assert desk.apply(path).counts["applied"] == 1
    desk.box.put(replace(desk.pet(2001), name="Theirs"))
    plan = desk.plan(path)
    assert (plan.changes, plan.conflicts, len(plan.older)) == ((), (), 1)
    write(path, {2001: {"status": "pending"}})
    desk.apply(path)
    assert (desk.pet(2001).name, desk.pet(2001).status) == ("Theirs", "pending")


def test_what_the_store_had_already_counts_as_sent(desk: Desk) -> None:
    """Changes that somebody else made between plan and run count as the sheet's: the cells can be
    edited again and set back, and a later change of the new pet is not reverted.
    """
    path = desk.export()
    write(path, {1001: {"name": "First"}, 1002: {"name": "Also"}, 1003: {"name": "Third"}})
    append(path, {"id": "2001", "name": "New", "status": "sold", "category": "Cats"})
    plan = desk.plan(path)
    for change in plan.changes:
        assert change.after is not None
        desk.box.put(change.after)
    assert desk.store.apply(plan, progress=False).counts["applied"] == 0
    assert desk.plan(path).in_sync
    desk.box.put(replace(desk.pet(2001), name="Theirs"))
    write(path, {1001: {"name": "Second"}, 1002: {"name": "Bella 1002"}})
    plan = desk.plan(path)
    assert (plan.conflicts, len(plan.older)) == ((), 1)
    assert [(each.pet_id, each.after and each.after.name) for each in plan.changes] == [
        (1001, "Second"),
        (1002, "Bella 1002"),
    ]


def test_an_update_whose_end_nobody_saw_is_never_set_back_silently(desk: Desk) -> None:
    """If an update's outcome is unknown but the store has its value, a different cell clashes."""
    path = desk.export()
    sheet = desk.store.read(path)
    assert sheet.base is not None
    old, new = exported(1001), replace(exported(1001), name="First")
    update = Update(row=2, source="", fields=("name",), before=old, after=new)
    run = SentRun("r", str(path), sheet.tab, (), (update,))
    desk.box.put(new)
    moved = continue_base(sheet, sheet.base, [run], [], desk.store.snapshot().frame)
    assert moved.unsure_units == {1001: ("name",)}
    desk.box.put(old)
    moved = continue_base(sheet, sheet.base, [run], [], desk.store.snapshot().frame)
    assert moved.unsure_units == {}
    assert moved.sheet_rows.equals(sheet.base.sheet_rows)


NEWBY = {"name": "Newby", "status": "available", "category": "Dogs", "tags": "calm"}


@pytest.mark.parametrize(
    ("row", "meaning"),
    [
        ({"name": "Ivy", "status": "available"}, "another pet"),
        (NEWBY, "the pet"),
        (NEWBY | {"tags": "calm; young"}, "a question"),
        (NEWBY | {"category": "Cats", "tags": "young"}, "a question"),
    ],
)
@pytest.mark.parametrize("others", [0, 1], ids=["in its place", "elsewhere"])
def test_rows_of_a_newer_export_without_a_pet(
    tmp_path: Path, row: Mapping[str, str], meaning: str, others: int
) -> None:
    """An export of the available pets replaces the sheet from which a pet was added that is sold by
    now: a new row in its place adds a pet, its own row is that pet, and its edited row is a
    question.
    """
    with Sandbox(auth=False) as box, ps.connect(box.url, state=tmp_path / "state") as store:
        box.reset([Pet(id=n, name=f"Pet {n}", status="available") for n in (1, 2, 3)])
        path = tmp_path / "pets.xlsx"
        ps.write_sheet(store.snapshot(), path)
        append(path, NEWBY, row=5)
        assert store.apply(store.plan(path), progress=False).exit_code == 0
        (new,) = (pet for pet in box.pets() if pet.name == "Newby")
        box.put(replace(new, status="sold"))
        for n in range(others):
            box.put(Pet(id=9 + n, name=f"Other {n}", status="available"))
        later = store.snapshot(statuses=["available"])
        ps.write_sheet(later, path, force=True)
        append(path, row, row=5 + others)
        plan = store.plan(path)
        assert [each.kind for each in plan.changes] == ["add"] * (meaning == "another pet")
        assert [each.pet_id for each in plan.conflicts] == [new.id] * (meaning == "a question")
        assert plan.recognised == ({5 + others: new.id} if meaning == "the pet" else {})


ROWS = {
    "a tag moves to a new row": (
        ["Kit,available,Cats,y", "Bo,available,Dogs,"],
        ["Kit,available,Cats,x", "Kit,available,Cats,red; y", "Bo,available,Dogs,"],
        {2: 2, 3: 2},
    ),
    "a copy replaces a row": (
        ["Bo,available,Cats,green", "Luna,available,Cats,"],
        ["Bo,available,Cats,green", "Bo,available,Cats,green"],
        {3: 3},
    ),
    "a corrected name, and a new row with the old one": (
        ["Luna,available,Dogs,x", "Kit,sold,Cats,", "Bo,sold,Dogs,"],
        ["Luna,available,Dogs,x", "Kita,sold,Cats,", "Bo,sold,Dogs,", "Kit,available,Cats,blue"],
        {3: 3, 5: 3},
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_new_row_never_takes_the_pet_of_another_row(tmp_path: Path, case: str) -> None:
    """Rows without ids of which two may be one pet are questions: none is added, and no pet is
    overwritten.
    """
    before, after, questions = ROWS[case]
    with Sandbox(auth=False) as box, ps.connect(box.url, state=tmp_path / "state") as store:
        box.reset([Pet(id=1, name="Pet 1", status="sold")])
        path = tmp_path / "pets.csv"
        path.write_text("\n".join(["name,status,category,tags", *before, ""]))
        assert store.apply(store.plan(path), progress=False).exit_code == 0
        path.write_text("\n".join(["name,status,category,tags", *after, ""]))
        plan = store.plan(path)
        assert plan.changes == ()
        assert {each.row: each.pet_id for each in plan.conflicts} == questions


@pytest.mark.parametrize("writes", [False, True], ids=["", "write-ids"])
@pytest.mark.parametrize("suffix", ["xlsx", "csv"])
def test_after_an_undo_all_kinds_of_changes_have_one_rule(
    desk: Desk, suffix: str, writes: bool
) -> None:
    """After an undo, the sheet makes all changes again except the delete, or none of them if the
    run wrote into the sheet.
    """
    path = desk.export(f"sheet.{suffix}")
    write(path, {1001: {"name": "First"}, 1002: {"action": "delete"}})
    append(path, {"name": "Nova", "status": "sold", "category": "Dogs"})
    report = desk.apply(path)
    assert report.counts["applied"] == 3
    if writes:
        ps.write_back(desk.store.read(path), report, only_ids=True)
    undo = desk.store.apply(desk.store.undo(report.run_id), progress=False)
    plan = desk.plan(path)
    assert plan.conflicts == ()
    assert [each.kind for each in plan.changes] == ([] if writes else ["add", "update"])
    if writes:
        assert {*plan.undone.values()} == {report.run_id}
        assert len(plan.undone) == 3
        desk.box.put(replace(desk.pet(1002), name="Theirs"))
        assert desk.plan(path).changes == ()
        desk.box.put(replace(desk.pet(1002), name="Bella 1002"))
        desk.store.apply(desk.store.undo(undo.run_id), progress=False)
        assert desk.plan(path).in_sync


@pytest.mark.parametrize("suffix", ["xlsx", "csv"])
def test_a_file_that_was_renamed_goes_on(desk: Desk, suffix: str) -> None:
    """A renamed file keeps the values that its runs sent; if all of them are set back, they clash
    as in an older copy.
    """
    path, new = desk.export(f"sheet.{suffix}"), desk.folder / f"november.{suffix}"
    copy = desk.folder / f"copy.{suffix}"
    shutil.copy(path, copy)
    edits = {1001: {"name": "First"}, 1002: {"name": "Also"}}
    write(path, edits)
    desk.apply(path)
    for each in desk.folder.glob(f"{path.name}*"):
        shutil.copy(each, desk.folder / each.name.replace(path.name, copy.name))
        each.rename(desk.folder / each.name.replace(path.name, new.name))
    write(new, {1001: {"name": "Second"}})
    assert desk.apply(new).counts["applied"] == 1
    write(new, {1001: {"name": "Third"}})
    assert [each.pet_id for each in desk.plan(new).changes] == [1001]
    write(copy, {1001: {"name": "Bella 1001"}, 1002: {"name": "Older"}})
    plan = desk.plan(copy)
    assert (plan.changes, [each.pet_id for each in plan.conflicts]) == ((), [1002])


def _undo(desk: Desk, run: str = "") -> str:
    plan = desk.store.undo(run) if run else desk.store.undo()
    return desk.store.apply(plan, progress=False).run_id


def _apply_into(desk: Desk, path: Path, name: str) -> str:
    """Apply another name of pet 1001, write the results into the sheet, and return the run."""
    write(path, {1001: {"name": name}})
    sheet = desk.store.read(path)
    report = desk.store.apply(desk.plan(path), progress=False)
    ps.write_back(sheet, report)
    return report.run_id


def test_a_third_value_after_undos_is_an_edit_with_a_note(desk: Desk) -> None:
    """After one undo or several, a third value is a plain edit, and a note names the undo; it is a
    conflict if somebody else changed the store since, or in another field.
    """
    path = desk.export()
    runs = [_apply_into(desk, path, "First"), _apply_into(desk, path, "Second")]
    undos = [_undo(desk, run) for run in reversed(runs)]
    write(path, {1001: {"name": "Third"}})
    plan = desk.plan(path)
    assert (len(plan.changes), plan.conflicts) == (1, ())
    assert any(f"the undo {undos[-1]} of run {runs[0]} restored" in each for each in plan.notes)
    (explanation,) = desk.store.why(path, 1001)
    assert {each.rule for each in explanation.fields if each.column == "name"} == {"undone"}
    desk.box.put(replace(desk.pet(1001), status="sold"))
    write(path, {1001: {"status": "pending"}})
    (conflict,) = desk.plan(path).conflicts
    assert [clash.column for clash in conflict.clashes] == ["status"]
    desk.box.put(replace(desk.pet(1001), name="Theirs"))
    (conflict,) = desk.plan(path).conflicts
    assert {clash.column for clash in conflict.clashes} == {"name", "status"}


def test_an_undo_of_another_sheet_s_run_is_a_change_of_the_store(desk: Desk) -> None:
    """An export from between a run and its undo does not know the undo: another edit of the cell is
    a conflict.
    """
    path = desk.export()
    run = _apply_into(desk, path, "First")
    second = int(time.time())
    while int(time.time()) == second:  # the second of an export identifies it
        time.sleep(0.05)
    other = desk.export("other.xlsx")
    _undo(desk, run)
    write(other, {1001: {"name": "Second"}})
    (conflict,) = desk.plan(other).conflicts
    assert [clash.column for clash in conflict.clashes] == ["name"]


@pytest.mark.parametrize("asked", [True, False])
def test_a_pet_can_be_deleted_after_an_undo(desk: Desk, asked: bool) -> None:
    """A row of a pet that an undo restored can ask for its delete, by its action or by its absence:
    the restored values are no change of the store.
    """
    path = desk.export()
    _undo(desk, _apply_into(desk, path, "First"))
    if asked:
        write(path, {1001: {"action": "delete"}})
    else:
        book = load_workbook(path)
        tab = book.worksheets[0]
        (at,) = (row for row in range(2, tab.max_row + 1) if str(tab.cell(row, 1).value) == "1001")
        tab.delete_rows(at)
        book.save(path)
    plan = desk.plan(path, delete_missing=not asked)
    assert ([each.pet_id for each in plan.deletes], plan.conflicts) == ([1001], ())
    assert len([each for each in plan.notes if "restored values" in each]) == asked
