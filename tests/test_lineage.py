"""Rows without an id: the journal knows which row of which sheet became which pet."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pandas as pd
import pytest
from openpyxl import Workbook, load_workbook
from openpyxl.worksheet.worksheet import Worksheet
from pairwise import each_choice, pairwise
from scenarios import Scenario

import petsync as ps
from petsync.apply.journal.rows import _RUN_COLUMNS
from petsync.apply.journal.schema import row_checksum
from petsync.errors import InterruptedRunError, PetsyncError
from petsync.models import Category, Pet
from petsync.plan.change import Conflict
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.sandbox.http import STANDARD
from petsync.store.runs import Outputs

pytestmark = pytest.mark.slow

Row = dict[str, Any]
SHOP = [
    Pet(id=n, name=f"Pet {n}", status="available", category=Category(1, "Dogs"))
    for n in range(1, 7)
]
REX: Row = {"name": "Rex", "status": "available", "category": "Dogs", "tags": "calm; big"}
LUNA: Row = {"name": "Luna", "status": "sold", "category": "Cats"}
_SAVED: dict[bytes, Workbook] = {}
"""The workbook that was saved last, by its file, because openpyxl needs long to open it again."""


@dataclass
class Desk:
    """A store, and a person's sheet for it."""

    box: Sandbox
    store: ps.Store
    path: Path

    def names(self) -> list[str]:
        """Return the names of the store's pets."""
        return sorted(pet.name or "" for pet in self.box.pets())

    def pet(self, name: str) -> Pet:
        """Return the only pet with this name."""
        (pet,) = (pet for pet in self.box.pets() if pet.name == name)
        return pet

    def csv(self, *rows: Row) -> None:
        """Write the sheet."""
        columns = ["id", "name", "status", "category", "tags", "photo_urls", "action"]
        pd.DataFrame(rows, columns=columns, dtype=object).to_csv(self.path, index=False)

    def export(self) -> None:
        """Export the store to the workbook."""
        ps.write_sheet(self.store.snapshot(), self.path)

    def edit(self, change: Callable[[Worksheet], object]) -> None:
        """Change the workbook, and save it as another program does."""
        saved = self.path.read_bytes()
        book = _SAVED.pop(saved, None) or load_workbook(self.path)
        change(book.worksheets[0])
        book.save(self.path)
        _SAVED.clear()
        _SAVED[self.path.read_bytes()] = book

    def write(self, row: int, cells: Row) -> None:
        """Type into a row of the workbook."""
        columns = {"id": 1, "name": 2, "status": 3, "category": 4, "tags": 6, "action": 8}
        self.edit(
            lambda sheet: [
                sheet.cell(row, columns[name]).__setattr__("value", value)
                for name, value in cells.items()
            ]
        )

    def plan(self, path: Path | None = None) -> Plan:
        """Return the plan of the sheet."""
        return self.store.plan(path or self.path)

    def apply(self) -> ps.types.Report:
        """Apply the sheet and return the report."""
        return self.store.apply(self.plan(), progress=False)


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def desk(_open_box: Sandbox, tmp_path: Path) -> Iterator[Desk]:
    """Yield a store of six pets, and the name of a CSV file that does not exist yet."""
    _open_box.set_faults(None)
    _open_box.reset(SHOP)
    with ps.connect(_open_box.url, state=tmp_path / "state") as store:
        yield Desk(_open_box, store, tmp_path / "pets.csv")


@pytest.fixture
def book(desk: Desk) -> Desk:
    """Return a desk with an exported workbook, in which Rex was added in row 8."""
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, REX)
    desk.apply()
    return desk


@pytest.fixture
def list_(desk: Desk) -> Desk:
    """Return a desk with a CSV of two new pets without an id, which were added."""
    desk.csv(REX, LUNA)
    desk.apply()
    return desk


def come_since(desk: Desk, *pets: Pet) -> None:
    """Reset the store to the six pets and these, as if another client added them."""
    desk.box.reset([*SHOP, *pets])


def typed(desk: Desk, *rows: Row) -> Plan:
    """Return the plan of an exported workbook with these new rows below, typed before pets came."""
    desk.path = desk.path.with_suffix(".xlsx")
    desk.box.reset(SHOP)
    desk.export()
    for number, row in enumerate(rows, 8):
        desk.write(number, row)
    return desk.plan()


def only_conflict(plan: Plan) -> Conflict:
    """Return the only conflict of a plan that sends nothing."""
    assert not plan.changes
    (conflict,) = plan.conflicts
    return conflict


EDITS: dict[str, Callable[[Worksheet], object]] = {
    "its status": lambda sheet: sheet.cell(8, 3).__setattr__("value", "sold"),
    "its name": lambda sheet: sheet.cell(8, 2).__setattr__("value", "Maximilian"),
    "a row above": lambda sheet: (sheet.insert_rows(3), _set(sheet, 9, 3, "sold")),
    "a row gone": lambda sheet: (sheet.delete_rows(4), _set(sheet, 7, 2, "Rexy")),
}


def _set(sheet: Worksheet, row: int, column: int, value: object) -> None:
    sheet.cell(row, column).value = value


@pytest.mark.parametrize("edit", EDITS)
def test_a_row_that_was_added_is_its_pet_s_whatever_is_edited(book: Desk, edit: str) -> None:
    """A row that added a pet stays that pet's after edits of its cells and of the rows
    around it.
    """
    rex = book.pet("Rex")
    book.edit(EDITS[edit])
    plan = book.plan()
    (update,) = plan.changes
    assert update.pet_id == rex.id
    assert any(f"pet {rex.id} (added on 20" in note for note in plan.notes)
    (why,) = book.store.why(book.path, rex.id or 0)
    assert " the pet of this row on " in why.sentence
    before = len(book.box.pets())
    book.apply()
    assert len(book.box.pets()) == before
    assert book.plan().in_sync


def test_a_row_that_was_added_takes_no_other_pet(desk: Desk) -> None:
    """A row whose pet a run added leaves a pet with the same values to a later row."""
    first: Row = {"id": 1, "name": "Pet 1", "status": "available"}
    whole: Row = {"name": "Rex", "status": "available", "tags": "calm"}
    desk.csv(first, whole)
    desk.apply()
    rex = desk.pet("Rex")
    come_since(desk, rex, msgspec.structs.replace(rex, id=50))
    desk.csv(first, whole, {"name": "Rex", "status": "available"})
    plan = desk.plan()
    assert plan.in_sync
    assert plan.recognised == {3: rex.id, 4: 50}


def test_rows_that_were_sorted_and_edited(book: Desk) -> None:
    """A row that added a pet is recognised in a sorted sheet by its unique name."""
    rex = book.pet("Rex")

    def sort(sheet: Worksheet) -> None:
        rows = [[cell.value for cell in row[:8]] for row in sheet["A2:H8"]]
        for at, values in enumerate(reversed(rows), 2):
            for column, value in enumerate(values, 1):
                sheet.cell(at, column).value = value
        sheet["C2"] = "pending"

    book.edit(sort)
    (update,) = book.plan().changes
    assert (update.pet_id, update.fields) == (rex.id, ("status",))


def test_what_the_store_changed_since_stays(book: Desk) -> None:
    """A row that added a pet has its values then as a base, so a later change in the
    store stays, also if the user typed the pet's id into the row, and in a copy.
    """
    rex = book.pet("Rex")
    book.store.api.update_pet(msgspec.structs.replace(rex, status="sold"))
    for cells in ({}, {"id": str(rex.id)}):
        book.write(8, cells)
        plan = book.plan()
        assert not plan.changes
        assert plan.older == (8,)
    book.write(8, {"tags": "calm"})
    for path in (book.path, Path(shutil.copy(book.path, book.path.with_name("copy.xlsx")))):
        (update,) = book.plan(path).changes
        assert update.fields == ("tags",)


def test_what_the_store_changed_of_a_recognised_pet_stays(desk: Desk) -> None:
    """A row that was recognised has its values then as a base, also if the user typed the pet's
    id into it.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    tags = tuple(ps.Tag(n, name) for n, name in enumerate(("calm", "big"), 1))
    rex = Pet(id=50, name="Rex", status="available", category=SHOP[0].category, tags=tags)
    come_since(desk, rex)
    desk.write(8, REX)
    desk.write(2, {"status": "sold"})
    assert desk.apply().counts["applied"] == 1
    desk.store.api.update_pet(msgspec.structs.replace(rex, status="sold"))
    for cells in ({}, {"id": "50"}):
        desk.write(8, cells)
        assert not desk.plan().changes
    desk.write(8, {"tags": "calm"})
    (update,) = desk.plan().changes
    assert (update.pet_id, update.fields) == (50, ("tags",))


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_copy_and_a_renamed_file(book: Desk, is_copy: bool) -> None:
    """A copy and a renamed file are recognised by the metadata of their export."""
    rex = book.pet("Rex")
    book.write(8, {"status": "sold"})
    other = book.path.with_name("other.xlsx")
    (shutil.copy if is_copy else shutil.move)(book.path, other)
    (update,) = book.plan(other).changes
    assert update.pet_id == rex.id


def test_the_number_beside_the_name_in_a_new_row_stays_no_edit(desk: Desk) -> None:
    """In an added row, the category id that lost to the name is not an edit; only later
    edits are sent.
    """
    dogs, cats = desk.box.pets()[0].category, Category(2, "Cats")
    desk.box.put(msgspec.structs.replace(desk.box.pets()[0], category=cats))
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, {**REX, "category": "Cats"})
    desk.edit(lambda sheet: _set(sheet, 8, 5, 1))
    for tags in ("calm", "calm; young", "young"):
        desk.write(8, {"tags": tags})
        desk.apply()
        assert desk.pet("Rex").category == cats
        assert not desk.plan().changes
    desk.write(8, {"category": "Dogs"})
    desk.apply()
    assert desk.pet("Rex").category == dogs
    desk.edit(lambda sheet: _set(sheet, 8, 5, 2))
    desk.apply()
    assert desk.pet("Rex").category == cats


@pytest.mark.parametrize("edit", [{}, {"status": "sold"}])
def test_a_copy_of_a_copy_knows_each_pet_once(book: Desk, edit: Row) -> None:
    """In a copy of an applied copy, each added row is one pet, and a new row above is an add."""
    for name in ("tuesday.xlsx", "wednesday.xlsx"):
        book.path = Path(shutil.copy(book.path, book.path.with_name(name)))
        book.write(8, edit)
        book.apply()
    book.path = Path(shutil.copy(book.path, book.path.with_name("thursday.xlsx")))
    book.edit(lambda sheet: sheet.insert_rows(3))
    book.write(3, {**REX, "name": "Other", "tags": "old"})
    plan = book.plan()
    assert not plan.conflicts
    assert [each.after.name for each in plan.adds] == ["Other"]


def test_a_copy_of_a_list_is_known_by_its_rows(list_: Desk) -> None:
    """A list is a copy if it has half of the rows of an earlier run."""
    other = list_.path.with_name("other.csv")
    list_.path = other
    list_.csv(REX, LUNA, {**LUNA, "name": "Ivy"})
    assert [each.after.name for each in list_.plan().adds] == ["Ivy"]
    bird = {"name": "Bird", "status": "sold"}
    list_.path = list_.path.with_name("pets.csv")
    list_.csv(REX, LUNA, bird)
    list_.apply()
    list_.path = other
    list_.csv(REX, LUNA, {**bird, "status": "pending"})
    (update,) = list_.plan().changes
    assert update.pet_id == list_.pet("Bird").id


@pytest.mark.parametrize("is_newer", [True, False])
@pytest.mark.parametrize("edit", [{"name": "Maximilian"}, {"status": "sold"}])
def test_an_unchanged_row_in_another_export_adds_no_second_pet(
    list_: Desk, is_newer: bool, edit: Row
) -> None:
    """A row that was added and is pasted into another export is in conflict if the store has other
    values now, also if the export has the pet.
    """
    rex = list_.pet("Rex")
    others = [pet for pet in list_.box.pets() if pet.id != rex.id]
    list_.path = list_.path.with_name("other.xlsx")
    if not is_newer:
        list_.box.reset(SHOP)
        list_.export()
    list_.box.reset([*others, msgspec.structs.replace(rex, **edit)])
    if is_newer:
        list_.export()
    list_.write(12, REX)
    conflict = only_conflict(list_.plan())
    assert (conflict.rule, conflict.pet_id) == (
        "added-claimed" if is_newer else "added-before",
        rex.id,
    )


def test_a_list_that_has_the_id_of_a_pet_it_added_is_no_new_one(desk: Desk) -> None:
    """In a list with the id of a pet that it added, an edited row is a conflict, because it may be
    another added pet.
    """
    first, last = ({"id": number} for number in (1, 2))
    desk.csv(first, REX, LUNA, last)
    desk.apply()
    rex, luna = desk.pet("Rex"), desk.pet("Luna")
    edited = {"name": "Bo", "status": "sold", "tags": "calm; small", "category": "Birds"}
    desk.csv({**LUNA, "id": luna.id}, edited)
    conflict = only_conflict(desk.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-before", rex.id)


KITS = [
    {"name": f"Kit {n}", "status": "available", "category": "Dogs" if n < 6 else "Cats"}
    for n in range(1, 9)
]
LATER: dict[str, Callable[[list[Row]], list[Row]]] = {
    "two sold": lambda rows: [{**row, "status": "sold"} for row in rows[:2]] + rows[2:],
    "all sold": lambda rows: [{**row, "status": "sold"} for row in rows],
    "one renamed": lambda rows: [*rows[:5], {**rows[5], "name": "Zora"}, *rows[6:]],
    "sorted": lambda rows: [{**rows[3], "tags": "calm"}, *rows[4:], *rows[:3]],
}


@each_choice
@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("is_frame", [True, False])
def test_a_list_pasted_into_a_new_export_adds_no_pet_again(
    desk: Desk, later: str, is_frame: bool
) -> None:
    """The rows of a list that was added, pasted into an export that has their pets, are conflicts
    even if they were edited. Another pet with a name of the list is added.
    """
    desk.path = desk.path.with_suffix(".xlsx")

    def plan(rows: list[Row]) -> Plan:
        if is_frame:
            pets = desk.store.pets()
            table = pd.concat([pets, pd.DataFrame(rows)], ignore_index=True)
            table.attrs = pets.attrs
            return desk.store.plan(table)
        desk.path.unlink(missing_ok=True)
        desk.export()
        for number, row in enumerate(rows, len(desk.box.pets()) + 2):
            desk.write(number, row)
        return desk.plan()

    desk.store.apply(plan(KITS), progress=False)
    rows = LATER[later](KITS)
    found = plan([*rows, {"name": "Rex", "status": "sold"}])
    assert [each.after.name for each in found.adds] == ["Rex"]
    assert {each.rule for each in found.conflicts} <= {"added-claimed", "added-before"}
    assert len(found.conflicts) == len(rows)
    (add,) = plan([{"name": "Kit 3", "status": "sold", "category": "Birds"}]).changes
    assert add.kind == "add"


def test_a_row_that_a_run_left_in_conflict_is_not_said_to_be_recognised(desk: Desk) -> None:
    """If a run of other rows left a row without its id in conflict, the next plan says so, and not
    that the run recognised the row, or that its pet has the row's name.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(4, {"id": None, "name": "Rex"})
    desk.write(6, {"status": "sold"})
    assert [each.rule for each in desk.plan().conflicts] == ["lost-id"]
    assert desk.apply().counts["applied"] == 1
    (conflict,) = desk.plan().conflicts
    assert (conflict.row, conflict.pet_id) == (4, 3)
    assert "may be the row of pet 3: a run on 20" in conflict.problem
    assert conflict.problem.endswith("left it in conflict")


def test_a_row_that_resembles_two_pets_names_both_after_a_run(desk: Desk) -> None:
    """A row without an id that may be the row of two pets in no row names both, also in the plans
    after a run of other rows, and after its own status was edited.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.box.reset([*SHOP, *(Pet(id=n, name="Tom", status="sold") for n in (15, 16))])
    desk.export()
    desk.edit(lambda sheet: sheet.delete_rows(9))
    desk.write(8, {"id": None, "status": "pending"})
    desk.write(6, {"status": "sold"})
    (conflict,) = desk.plan().conflicts
    assert "resembles pets 15 (Tom), 16 (Tom), which are in no row" in conflict.problem
    assert desk.apply().counts["applied"] == 1
    for status in ("pending", "available"):
        desk.write(8, {"status": status})
        (conflict,) = desk.plan().conflicts
        assert re.search(r"one of the pets (15, 16|16, 15): a run on 20", conflict.problem)
        desk.apply()
    plan = desk.store.plan(desk.path, delete_missing=True, max_delete="90%")
    assert not plan.deletes
    desk.write(8, {"id": "16"})
    assert [each.pet_id for each in desk.plan().changes] == [16]


def test_a_new_litter_with_the_names_of_the_last_one_is_added(desk: Desk) -> None:
    """In a workbook into which petsync wrote the ids of the last litter, rows with the same names
    and another status are new pets; if some of them have the same values, all are conflicts.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    for number, row in enumerate(KITS[:4], 8):
        desk.write(number, {**row, "status": "sold"})
    sheet = desk.store.read(desk.path)
    ps.write_back(sheet, desk.store.apply(desk.store.plan(sheet), progress=False), only_ids=True)
    for number, row in enumerate(KITS[:4], 12):
        desk.write(number, row)
    plan = desk.plan()
    assert [each.after.name for each in plan.adds] == [row["name"] for row in KITS[:4]]
    assert not plan.conflicts
    for number in (12, 13):
        desk.write(number, {"status": "sold"})
    plan = desk.plan()
    assert not plan.changes
    assert [each.rule for each in plan.conflicts] == ["added-claimed"] * 4
    edited = ["with other values now" in each.problem for each in plan.conflicts]
    assert edited == [False, False, True, True]
    assert any("4 rows may be rows that were added before" in note for note in plan.notes)
    # A new row does not take the place of a pet whose row was removed.
    desk.edit(lambda sheet: (sheet.delete_rows(12, 4), sheet.delete_rows(8)))
    desk.write(11, {**KITS[0], "status": "sold", "tags": "calm"})
    assert not desk.plan().changes
    assert only_conflict(desk.plan()).rule == "added-before"


def test_a_litter_is_added_each_time_that_it_asks_for_another(desk: Desk) -> None:
    """Rows with `add-another` are new pets each time, in a workbook into which petsync wrote the
    ids of the last ones; in another export, if the actions of the last ones are `ignore`.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    for count in range(1, 4):
        desk.write(7 + count, {**REX, "action": "add-another"})
        sheet = desk.store.read(desk.path)
        report = desk.store.apply(desk.store.plan(sheet), progress=False)
        ps.write_back(sheet, report, only_ids=True)
        assert desk.names().count("Rex") == count
    desk.path = desk.path.with_name("other.xlsx")
    desk.export()
    desk.write(11, {**REX, "action": "add-another"})
    conflict = only_conflict(desk.plan())
    assert conflict.rule == "added-claimed"
    assert "`ignore`" in conflict.suggestion
    for row in (8, 9, 10):
        desk.write(row, {"action": "ignore"})
    assert [each.kind for each in desk.plan().changes] == ["add"]


@pytest.mark.parametrize("is_frame", [True, False])
def test_a_renamed_row_between_edited_rows_of_a_list_is_in_doubt(
    desk: Desk, is_frame: bool
) -> None:
    """In a copy of a list whose rows were edited, a renamed row is in conflict as its neighbours
    are: it may be the pet that was added in its place.
    """
    rows = [{**row, "status": "sold"} for row in KITS[:2]] + [{**KITS[2], "name": "Zora"}]
    if is_frame:
        desk.store.apply(desk.store.plan(pd.DataFrame(KITS[:3])), progress=False)
        plan = desk.store.plan(pd.DataFrame(rows))
    else:
        desk.csv(*KITS[:3])
        desk.apply()
        desk.path = desk.path.with_name("copy.csv")
        desk.csv(*rows)
        plan = desk.plan()
    assert not plan.changes
    assert [each.pet_id for each in plan.conflicts] == [desk.pet(f"Kit {n}").id for n in (1, 2, 3)]


@pytest.mark.parametrize("order", [range(8), [2, 3, 4, 0, 1, 5, 6, 7]])
def test_a_row_of_a_dataframe_renames_no_pet_by_its_place(desk: Desk, order: list[int]) -> None:
    """A renamed row of a DataFrame is in doubt, because nothing shows if its rows are in the order
    of the DataFrame that was applied.
    """
    for table in (pd.DataFrame(KITS), pd.DataFrame([KITS[n] for n in order])):
        desk.store.apply(desk.store.plan(table), progress=False)
    rows = pd.DataFrame([*KITS[:2], {**KITS[2], "name": "Zora"}, *KITS[3:]])
    conflict = only_conflict(desk.store.plan(rows))
    assert conflict.row == 2
    rows.loc[3, "name"] = "Bo"
    plan = desk.store.plan(rows)
    assert not plan.changes
    assert [each.row for each in plan.conflicts] == [2, 3]


@pytest.mark.parametrize("how", ["round", "write-back", "only ids"])
def test_a_new_row_in_the_place_of_a_row_with_an_id_renames_no_pet(desk: Desk, how: str) -> None:
    """If petsync wrote the id of an added pet into the sheet, a row without an id in its place is
    in conflict if its name is another one, because the pet's row may have been removed.
    """
    scenario = Scenario(desk.box, desk.path.parent, {"mode": "two-way"})
    desk.path = scenario.sheet.with_suffix(".xlsx")
    desk.export()
    desk.write(8, {**REX, "tags": None})
    if how == "round":
        assert scenario.run(sheet=desk.path).round.status == "done"
    else:
        sheet = desk.store.read(desk.path)
        report = desk.store.apply(desk.store.plan(sheet), progress=False)
        ps.write_back(sheet, report, only_ids=how == "only ids")
    rex = desk.pet("Rex")
    desk.edit(lambda sheet: (_set(sheet, 8, 1, None), _set(sheet, 8, 3, "sold")))
    (update,) = desk.plan().changes
    assert (update.pet_id, update.fields) == (rex.id, ("status",))
    desk.write(8, {"name": "Luna", "status": "available"})
    conflict = only_conflict(desk.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-before", rex.id)


def test_a_row_that_was_written_over_is_a_conflict(book: Desk) -> None:
    """An added row whose every value changed is a conflict, because it may be another pet;
    `add-another` adds it.
    """
    rex = book.pet("Rex")
    book.write(8, {**LUNA, "tags": None})
    conflict = only_conflict(book.plan())
    assert conflict.rule == "added-before"
    assert "added on 20" in conflict.problem
    assert f"as {rex.id}" in conflict.problem
    assert not [note for note in book.plan().notes if "not in the export" in note]
    book.write(8, {"action": "add-another"})
    (add,) = book.plan().changes
    assert add.kind == "add"
    book.apply()
    assert book.plan().in_sync


def test_a_new_row_below_is_an_add(book: Desk) -> None:
    """A new row below an edited one is an add."""
    rex = book.pet("Rex")
    book.write(8, {"name": "Rexy"})
    book.write(9, LUNA)
    add, update = book.plan().changes
    assert (add.kind, update.pet_id) == ("add", rex.id)


NEWBY: Row = {"name": "Newby", "status": "available", "category": "Dogs"}


def _rows(sheet: Worksheet) -> list[list[Any]]:
    return [[cell.value for cell in row[:8]] for row in sheet.iter_rows(min_row=2)]


def _write(sheet: Worksheet, rows: list[list[Any]]) -> None:
    for at, values in enumerate(rows, 2):
        for column, value in enumerate(values, 1):
            sheet.cell(at, column).value = value


def _sort(sheet: Worksheet) -> None:
    _write(sheet, sorted(_rows(sheet), key=lambda row: str(row[1])))


def _move_up(sheet: Worksheet) -> None:
    *rows, last = _rows(sheet)
    _write(sheet, [last, *rows])


def _name_tab(sheet: Worksheet) -> None:
    sheet.title = "Sheet9"


def _stay(_: Worksheet) -> None:
    pass


@pytest.fixture
def newby(desk: Desk) -> Desk:
    """Return a desk with an exported workbook, in which Newby was added in row 8."""
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, NEWBY)
    desk.apply()
    return desk


def as_csv(path: Path) -> Path:
    """Save the rows of a workbook as CSV and return its path."""
    rows = load_workbook(path).worksheets[0].iter_rows(values_only=True)
    header, *values = [row[:8] for row in rows]
    frame = pd.DataFrame(values, columns=header, dtype=object)
    frame.to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


@pytest.mark.parametrize(
    ("name", "saved", "move"),
    pairwise(
        ("Newby II", "Maximilian"),
        ("same", "copy", "csv"),
        (_sort, _move_up, _name_tab, _stay),
    ),
)
def test_a_row_that_was_renamed_adds_no_second_pet(
    newby: Desk, name: str, saved: str, move: Callable[[Worksheet], None]
) -> None:
    """A renamed row is its pet's or a conflict, and never an add, in any place and in a copied or
    converted file.
    """
    pet = newby.pet("Newby")
    newby.write(8, {"name": name})
    newby.edit(move)
    path = newby.path
    if saved == "copy":
        path = Path(shutil.move(path, path.with_name("other.xlsx")))
    if saved == "csv":
        path = as_csv(path)
    plan = newby.plan(path)
    assert not plan.adds
    assert pet.id in {*(each.pet_id for each in plan.updates), *(c.pet_id for c in plan.conflicts)}
    if move is not _stay:
        assert "added on 20" in " ".join([*plan.notes, *(c.problem for c in plan.conflicts)])
    assert newby.store.apply(plan, progress=False).counts.get("failed", 0) == 0
    assert len(newby.box.pets()) == len(SHOP) + 1


def test_the_way_out_of_a_row_that_was_renamed_and_moved(newby: Desk) -> None:
    """A row that was renamed and moved is a conflict until it has its pet's id or `add-another`."""
    pet = newby.pet("Newby")
    newby.write(8, {"name": "Newby II"})
    newby.edit(_move_up)
    conflict = only_conflict(newby.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-before", pet.id)
    assert "add-another" in conflict.suggestion
    newby.write(2, {"action": "add-another"})
    (add,) = newby.plan().changes
    assert add.kind == "add"
    newby.write(2, {"action": None, "id": str(pet.id)})
    (update,) = newby.plan().changes
    assert (update.pet_id, update.fields) == (pet.id, ("name",))


def test_a_new_row_instead_of_another_in_a_sorted_list_is_noted(desk: Desk) -> None:
    """If a row of the last run is gone, and one new row has nothing in common with it, the plan
    notes that the new row may be its pet with other values. An ordinary add has no such note.
    """
    rows = [
        {"name": f"Pet {n:02}", "status": ("sold", "available")[n % 2], "category": "Dogs"}
        for n in (4, 9, 2, 7, 5, 1, 8, 3, 6)
    ]
    desk.csv(*rows)
    desk.apply()
    pet = desk.pet("Pet 07")
    new = {"name": "Gustl", "status": "available", "category": "Cats"}
    kept = sorted((row for row in rows if row["name"] != "Pet 07"), key=lambda row: row["name"])
    said = f"the rows of as many pets have gone since the last run: {pet.id} ('Pet 07')"
    desk.csv(new, *kept)
    plan = desk.plan()
    (note,) = (note for note in plan.notes if said in note)
    assert note.startswith("line 2, column 1 (Gustl): ")
    (add,) = plan.changes
    assert (add.kind, add.row) == ("add", 2)
    desk.csv({**new, "id": str(pet.id)}, *kept)
    (update,) = desk.plan().changes
    assert (update.kind, update.pet_id) == ("update", pet.id)
    ordinary = (
        [new, *rows],
        [new, {**new, "name": "Otto"}, *kept],
        [{**new, "action": "add-another"}, *kept],
    )
    for each in ordinary:
        desk.csv(*each)
        assert desk.plan().adds
        assert not any("have gone since the last run" in note for note in desk.plan().notes)
    desk.csv(*kept[:-1], {**kept[-1], "category": "Cats"})
    desk.apply()
    desk.csv(new, *kept)
    assert not any("have gone since the last run" in note for note in desk.plan().notes)


@pytest.mark.parametrize("gone", [True, False], ids=["one row is gone", "both are there"])
def test_several_rows_that_were_renamed_in_a_copy(newby: Desk, gone: bool) -> None:
    """Several renamed rows in a copy are each a conflict, because each may be any of
    the added pets.
    """
    newby.write(9, {**NEWBY, "name": "Bbb"})
    newby.apply()
    newby.write(8, {"name": "Bbb X"})
    newby.write(9, {"name": "Newby X"})
    if gone:
        newby.edit(lambda sheet: sheet.delete_rows(8))
    other = Path(shutil.move(newby.path, newby.path.with_name("other.xlsx")))
    plan = newby.plan(other)
    assert not plan.changes
    assert {each.rule for each in plan.conflicts} == {"added-before"}
    assert len(plan.conflicts) == 2 - gone


def test_a_new_row_in_a_copy_whose_other_rows_are_there_is_an_add(newby: Desk) -> None:
    """A new row is an add if every added pet has its row or is deleted."""
    newby.write(9, {**NEWBY, "name": "Bbb"})
    newby.edit(_move_up)
    other = Path(shutil.copy(newby.path, newby.path.with_name("other.xlsx")))
    (add,) = newby.plan(other).changes
    assert add.kind == "add"
    newby.store.api.delete_pet(newby.pet("Newby").id or 0)
    newby.edit(lambda sheet: sheet.delete_rows(9))
    plan = newby.plan()
    assert [each.kind for each in plan.changes] == ["add"]
    assert not plan.conflicts


def test_a_row_that_is_clearly_another_one_is_an_add(newby: Desk) -> None:
    """A row without any value of a removed or ignored row is an add; one that shares enough is a
    conflict.
    """
    newby.edit(lambda sheet: sheet.delete_rows(8))
    newby.edit(lambda sheet: sheet.insert_rows(4))
    newby.write(4, LUNA)
    (add,) = newby.plan().changes
    assert add.kind == "add"
    newby.write(4, {"category": "Dogs"})
    (add,) = newby.plan().changes
    assert add.kind == "add"
    newby.write(4, {"status": "available"})
    assert only_conflict(newby.plan()).rule == "added-before"
    newby.write(9, {**NEWBY, "action": "ignore"})
    (add,) = newby.plan().changes
    assert add.kind == "add"


@pytest.fixture
def pair(newby: Desk) -> Desk:
    """Return a desk with an exported workbook, in which Newby was added in row 8, and
    Bbb in row 9.
    """
    newby.write(9, {**NEWBY, "name": "Bbb"})
    newby.apply()
    return newby


@pytest.mark.parametrize(
    "other", [{"status": "sold"}, {"tags": "shy"}, {"category": "Cats"}, {"category": None}]
)
def test_a_new_row_of_a_deleted_row_s_category_is_an_add(pair: Desk, other: Row) -> None:
    """A category or status in common with a removed row does not make a new row that row."""
    pair.edit(lambda sheet: sheet.delete_rows(8))
    pair.write(9, {**NEWBY, "name": "Zoe", **other})
    pair.write(10, {**NEWBY, "name": "Ada", **other})
    plan = pair.plan()
    assert not plan.conflicts
    assert [add.after.name for add in plan.adds] == ["Zoe", "Ada"]


def test_a_deleted_row_is_asked_about_once(pair: Desk) -> None:
    """A row with all values but the name of a removed row is a conflict; after `add-another`, later
    rows are adds.
    """
    pair.edit(lambda sheet: sheet.delete_rows(8))
    pair.write(9, {**NEWBY, "name": "Zoe"})
    assert only_conflict(pair.plan()).pet_id == pair.pet("Newby").id
    pair.write(9, {"action": "add-another"})
    pair.apply()
    assert pair.plan().in_sync
    pair.write(10, {**NEWBY, "name": "Ada"})
    assert [add.after.name for add in pair.plan().adds] == ["Ada"]
    pair.write(10, {"name": "Newby"})
    assert pair.plan().in_sync


def test_a_new_row_where_a_deleted_one_stood_is_an_add(pair: Desk) -> None:
    """After a run of the sheet without a row, a new row in its place is an add, and the old row put
    back is its pet's.
    """
    pair.edit(lambda sheet: sheet.delete_rows(9))
    pair.write(8, {"status": "pending"})
    pair.apply()
    pair.write(9, {**NEWBY, "name": "Zoe"})
    (add,) = pair.plan().changes
    assert add.kind == "add"
    pair.write(9, {"name": "Bbb"})
    assert pair.plan().in_sync


@pytest.mark.parametrize("other", ["held", "ignored"])
def test_a_row_that_may_be_an_added_one_stays_in_doubt(pair: Desk, other: str) -> None:
    """A run that skips a row in conflict or an ignored row does not decide it: the
    conflict stays.
    """
    pair.write(8, {"name": "Zoe"})
    pair.edit(_move_up)
    pair.edit(lambda sheet: _write(sheet, [_rows(sheet)[-1], *_rows(sheet)[:-1]]))
    pair.write(2, {"action": "ignore" if other == "ignored" else None})
    pair.write(3, {"status": "pending"})
    pair.apply()
    pair.write(2, {"action": None})
    assert only_conflict(pair.plan()).pet_id == pair.pet("Newby").id


def test_a_renamed_row_in_conflict_keeps_its_pet_if_another_row_gets_its_old_name(
    desk: Desk,
) -> None:
    """If a row was renamed and is in conflict, and then another row gets its old name, the plan
    asks about both: no pet is added again, and none gets the values of another.
    """
    mia: Row = {"name": "Mia", "status": "sold", "tags": "b", "photo_urls": "https://a/0"}
    tom: Row = {"name": "Tom", "status": "sold", "tags": "b", "photo_urls": "https://a/1"}
    new: Row = {"name": "Mia", "status": "sold", "tags": "a", "photo_urls": "https://a/2"}
    desk.csv(mia)
    desk.apply()
    desk.csv(tom, mia)
    desk.apply()
    pets = {desk.pet("Mia").id, desk.pet("Tom").id}
    mia, tom = {**mia, "status": "pending"}, {**tom, "name": "Bo"}
    desk.csv(new, tom, mia)
    desk.apply()
    tom["tags"], new["status"] = "c", "pending"
    desk.csv(tom, new, mia)
    desk.apply()
    desk.csv(new, {**mia, "name": "Tom"}, tom)
    plan = desk.plan()
    assert not plan.changes
    assert [each.row for each in plan.conflicts] == [3, 4]
    assert {each.pet_id for each in plan.conflicts} <= pets


@pytest.mark.parametrize("way", ["id", "add-another", "removed"])
def test_rows_that_may_be_one_pet_stay_in_doubt_after_a_run(desk: Desk, way: str) -> None:
    """A run between two plans does not decide which of two rows is the pet's: the renamed one in
    its place, or another one with its name. The user decides, for one of them.
    """
    rex, simba = {**REX, "category": None}, {**LUNA, "name": "Simba"}
    ida: Row = {"name": "Ida", "status": "pending"}
    desk.csv(rex, simba, ida)
    desk.apply()
    mia: Row = {"name": "Mia", "status": "sold", "tags": "shy"}
    desk.csv(mia, rex, simba, ida)
    desk.apply()
    renamed, named = {**ida, "name": "Lu"}, {**ida, "status": "available"}
    rows = [mia, named, rex, {**LUNA, "name": "Tom", "tags": "old"}, simba, renamed]
    for _ in range(3):
        desk.csv(*rows)
        plan = desk.plan()
        assert [(each.row, each.pet_id) for each in plan.conflicts] == [
            (3, desk.pet("Ida").id),
            (7, desk.pet("Ida").id),
        ]
        assert {change.row for change in plan.changes} <= {5}
        desk.apply()
    if way == "removed":
        rows.remove(renamed)
    else:
        renamed["id" if way == "id" else "action"] = (
            str(desk.pet("Ida").id) if way == "id" else "add-another"
        )
    desk.csv(*rows)
    plan = desk.plan()
    assert {(change.row, change.kind) for change in plan.changes} == {
        "id": {(7, "update"), (3, "add")},
        "add-another": {(7, "add"), (3, "update")},
        "removed": {(3, "update")},
    }[way]


def test_rows_of_one_name_stay_in_doubt_after_a_run(desk: Desk) -> None:
    """A run between two plans gives no pet to a row that the plan asked about and nobody edited."""
    one: Row = {"name": "Nala", "status": "pending", "category": "Dogs", "tags": "calm; shy"}
    two = {**one, "category": "Cats", "tags": None}
    bo: Row = {"name": "Bo", "status": "available", "category": "Cats"}
    desk.csv({**bo, "name": "Zoe", "category": "Dogs"}, one, {**REX, "name": "Tom 3"}, bo, two)
    desk.apply()
    rows = [bo, {**one, "tags": "shy"}, {**two, "status": "available"}]
    rows += [{**REX, "name": "Tom 3"}, {**bo, "name": "Zoe", "category": "Dogs"}]
    desk.csv(*rows)
    for _ in range(3):
        plan = desk.plan()
        assert ([each.row for each in plan.conflicts], plan.changes) == ([3, 4], ())
        desk.apply()


def test_a_row_that_is_edited_in_its_place_in_a_copy(newby: Desk) -> None:
    """In a copy, a renamed row with further values in its old place is a conflict."""
    newby.write(8, {"name": "Maximilian", "tags": "calm"})
    newby.edit(_name_tab)
    path = Path(shutil.move(newby.path, newby.path.with_name("other.xlsx")))
    assert only_conflict(newby.plan(path)).pet_id == newby.pet("Newby").id


def test_an_export_in_the_place_of_an_older_one_has_none_of_its_rows(newby: Desk) -> None:
    """In a new export under the same file name, a missing pet was not queried, so a new
    row is an add.
    """
    newby.store.api.update_pet(msgspec.structs.replace(newby.pet("Newby"), status="sold"))
    snapshot = newby.store.snapshot(statuses=["available"])
    # The time of an export has a resolution of seconds.
    later = replace(snapshot, taken_at=snapshot.taken_at + timedelta(seconds=2))
    ps.write_sheet(later, newby.path, force=True)
    newby.edit(lambda sheet: sheet.insert_rows(4))
    newby.write(4, {**NEWBY, "name": "Ivy"})
    (add,) = newby.plan().changes
    assert add.kind == "add"


def test_a_list_that_was_renamed_and_sorted(list_: Desk) -> None:
    """In a list, a row with the category of a missing row may be that row; one without
    is an add.
    """
    list_.csv({**LUNA, "name": "Moon"}, REX)
    conflict = only_conflict(list_.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-before", list_.pet("Luna").id)
    list_.csv({"name": "Moon", "status": "sold", "category": "Birds"}, REX)
    (add,) = list_.plan().changes
    assert add.kind == "add"


@pytest.mark.parametrize("more", [[], ["https://shop.example/2.jpg"]])
def test_a_photo_in_another_unicode_form_shows_a_renamed_row(desk: Desk, more: list[str]) -> None:
    """In a list, a renamed row with a photo of a missing row may be that row, although the photo's
    address is in another Unicode form.
    """
    url = "https://shop.example/Zo\u00eb.jpg"
    luna = {**LUNA, "photo_urls": url}
    pd.DataFrame([REX, luna]).to_csv(desk.path, index=False)
    desk.apply()
    photos = "\n".join([unicodedata.normalize("NFD", url), *more])
    moon = {"name": "Moon", "status": "sold", "category": "Birds", "photo_urls": photos}
    pd.DataFrame([moon, REX]).to_csv(desk.path, index=False)
    conflict = only_conflict(desk.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-before", desk.pet("Luna").id)


def test_a_pet_that_is_gone_is_a_conflict(book: Desk) -> None:
    """A row whose added pet was deleted is a conflict and does not add the pet again."""
    rex = book.pet("Rex")
    book.store.api.delete_pet(rex.id or 0)
    conflict = only_conflict(book.plan())
    assert conflict.rule == "added-gone"
    assert f"as {rex.id}" in conflict.problem


@pytest.mark.parametrize("action", ["", "add", "add-another"])
def test_a_pet_that_is_gone_is_added_again_with_its_id(desk: Desk, action: str) -> None:
    """A deleted pet is added again with its id, as the conflict suggests, after any earlier action
    of its row.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, {**REX, "action": action})
    desk.apply()
    rex = desk.pet("Rex")
    desk.store.api.delete_pet(rex.id or 0)
    conflict = only_conflict(desk.plan())
    assert f"write {rex.id} into its id cell" in conflict.suggestion
    desk.write(8, {"id": str(rex.id), "action": "add"})
    (add,) = desk.plan().changes
    assert add.kind == "add"
    desk.apply()
    assert desk.pet("Rex").id == rex.id
    assert not desk.plan().changes
    assert not desk.plan().conflicts


@each_choice
@pytest.mark.parametrize("move", [_stay, _sort, _move_up])
@pytest.mark.parametrize("edit", [{}, {"status": "sold"}, {"name": "Rexy"}, {"tags": "shy"}])
def test_add_another_in_the_row_of_a_known_pet_adds_one_more_once(
    book: Desk, edit: Row, move: Callable[[Worksheet], None]
) -> None:
    """`add-another` that is written into a row after its run adds one pet more, and none again
    after edits and moves.
    """
    rex = book.pet("Rex")
    book.write(8, {"action": "add-another"})
    (add,) = book.plan().changes
    assert add.kind == "add"
    book.apply()
    assert book.plan().in_sync
    book.write(8, edit)
    book.edit(move)
    plan = book.plan()
    assert not plan.adds
    assert rex.id not in {each.pet_id for each in plan.changes}
    book.apply()
    assert len(book.box.pets()) == len(SHOP) + 2


@pytest.mark.parametrize("way", ["remove the row", "remove the other", "other id", "add-another"])
def test_the_ways_out_of_a_row_whose_pet_another_row_names(book: Desk, way: str) -> None:
    """One of two rows of a pet can be removed, get another id, or add another pet."""
    rex = book.pet("Rex")
    book.write(9, {**REX, "id": str(rex.id)})
    assert only_conflict(book.plan()).rule == "added-claimed"
    if way == "add-another":
        book.write(8, {"action": "add-another"})
    elif way == "other id":
        book.write(9, {"id": "999"})
    else:
        book.edit(lambda sheet: sheet.delete_rows(8 if way == "remove the row" else 9))
    plan = book.plan()
    assert not plan.conflicts
    adds = way in ("other id", "add-another")
    assert [each.kind for each in plan.changes] == ["add"] * adds
    book.apply()
    assert book.names().count("Rex") == 1 + adds
    assert book.plan().in_sync


def test_a_pet_that_another_row_names_is_a_conflict(book: Desk) -> None:
    """A row whose added pet is named by id in another row is a conflict."""
    rex = book.pet("Rex")
    book.write(9, {**REX, "id": str(rex.id)})
    conflict = only_conflict(book.plan())
    assert conflict.rule == "added-claimed"


def test_ids_in_another_row_s_place_are_no_conflict(book: Desk) -> None:
    """A new row below an added row that has its id is an add."""
    rex = book.pet("Rex")
    book.write(8, {"id": str(rex.id)})
    book.write(9, LUNA)
    (add,) = book.plan().changes
    assert add.kind == "add"


def test_an_undone_add_is_no_identity(book: Desk) -> None:
    """A row whose add was undone adds its pet again; if the undo is undone, the row is
    recognised.
    """
    (run,) = book.store.runs()["id"]
    undone = book.store.apply(book.store.undo(run), progress=False)
    (add,) = book.plan().changes
    assert add.kind == "add"
    book.store.apply(book.store.undo(undone.run_id), progress=False)
    book.write(8, {"status": "sold"})
    (update,) = book.plan().changes
    assert update.kind == "update"


def collect_explanations(desk: Desk) -> tuple[str, str, str]:
    """Return the parts of plan, summary and results that explain a row by an undo."""
    plan, sheet = desk.plan(), desk.store.read(desk.path)
    listing = " ".join(repr(plan).split())
    summary = " ".join(repr(plan.summary()).split())
    results = desk.path.with_name("results.xlsx")
    ps.write_results(sheet, desk.store.apply(plan, progress=False), results)
    messages = desk.store.read(results).others["message"].dropna()
    (message,) = [each for each in messages if "undo of run" in each]
    assert not [
        text for text in (listing, summary) if "older than" in text or "no longer in" in text
    ]
    counts = re.findall(r"1 (?:restored|removed) by an undo", listing)
    rows = re.findall(r"(?:restored|removed) 1", summary)
    done = re.findall(r"restored the pet|removed the pet", message)
    return (*counts, *rows, *done)


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_row_whose_add_was_undone_says_so(desk: Desk, is_edited: bool) -> None:
    """A row with the id of a pet whose add was undone is reported with the run, and `add` adds the
    pet again.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, REX)
    report = desk.apply()
    ps.write_back(desk.store.read(desk.path), report, only_ids=True)
    desk.store.apply(desk.store.undo(report.run_id), progress=False)
    if is_edited:
        desk.write(8, {"status": "sold"})
    plan = desk.plan()
    assert not plan.changes
    text = " ".join([*plan.notes, *(f"{c.problem} {c.suggestion}" for c in plan.conflicts)])
    assert f"the undo of run {report.run_id} removed" in text
    assert "as they were exported" not in text
    assert "since the export" not in text
    if not is_edited:
        expected = ("1 removed by an undo", "removed 1", "removed the pet")
        assert collect_explanations(desk) == expected
    assert "Write `add` in the action column to add" in text
    desk.write(8, {"action": "add"})
    desk.apply()
    assert desk.names().count("Rex") == 1


def test_a_row_whose_change_was_undone_says_so(desk: Desk) -> None:
    """A row with the values of an undone run is reported with the undo, and is not sent."""
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(2, {"name": "Renamed"})
    report = desk.apply()
    desk.path.unlink()
    desk.export()
    undo = desk.store.apply(desk.store.undo(report.run_id), progress=False)
    plan = desk.plan()
    assert not plan.changes
    (note,) = [each for each in plan.notes if "Pets!A2" in each]
    assert f"the undo of run {report.run_id}" in note
    assert f'store.undo("{undo.run_id}")' in note
    assert "newer" not in note
    assert collect_explanations(desk) == ("1 restored by an undo", "restored 1", "restored the pet")

    desk.store.apply(desk.store.undo(undo.run_id), progress=False)
    assert desk.plan().in_sync
    assert desk.names().count("Renamed") == 1


def test_a_row_that_others_changed_after_an_undo_names_no_undo(desk: Desk) -> None:
    """If the pet changed after an undo, the note names a newer value and not the undo."""
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(2, {"name": "Renamed"})
    report = desk.apply()
    pet_id = desk.pet("Renamed").id
    assert pet_id is not None
    desk.path.unlink()
    desk.export()
    desk.store.apply(desk.store.undo(report.run_id), progress=False)
    desk.store.apply(desk.store.edit(pet_id, name="Other"), progress=False)
    (note,) = [each for each in desk.plan().notes if "Pets!A2" in each]
    assert "newer ones" in note
    assert "undo" not in note


def test_another_store_knows_nothing_of_it(book: Desk, tmp_path: Path) -> None:
    """In another store, an added row is an add."""
    with (
        Sandbox(pets=SHOP, auth=False) as other,
        ps.connect(other.url, state=tmp_path / "state") as store,
    ):
        (add,) = store.plan(book.path, two_way=True).adds
    assert add.after.name == "Rex"


def test_a_list_that_is_edited(list_: Desk) -> None:
    """In a list without ids, edited and sorted rows update the pets that they added."""
    rex, luna = list_.pet("Rex"), list_.pet("Luna")
    list_.csv({**LUNA, "status": "pending"}, {**REX, "status": "sold"})
    assert {each.pet_id for each in list_.plan().updates} == {rex.id, luna.id}
    assert not list_.plan().adds


def test_a_list_of_other_pets_under_the_same_name(list_: Desk) -> None:
    """Rows with nothing in common with earlier ones in the same file are adds, with a note."""
    list_.csv({"name": "Fin", "status": "sold"}, {"name": "Ada", "status": "available"})
    plan = list_.plan()
    assert [each.after.name for each in plan.adds] == ["Fin", "Ada"]
    assert any("nothing in common" in note for note in plan.notes)


def test_two_rows_that_say_the_same(desk: Desk) -> None:
    """Two equal rows have a pet each, as `add-another` asks; if one of them is removed, nothing is
    added or changed.
    """
    desk.csv(REX, {**REX, "action": "add-another"})
    desk.apply()
    assert desk.names().count("Rex") == 2
    desk.csv(REX, {**REX, "status": "sold"})
    plan = desk.plan()
    assert [each.kind for each in plan.changes] == ["update"]
    desk.apply()
    desk.csv(REX)
    assert not desk.plan().changes


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_a_repeated_row_adds_no_second_pet(desk: Desk, suffix: str) -> None:
    """The second of two equal rows is a conflict, also once the first has its pet, and once that
    pet has changed in the store.
    """
    desk.path = desk.path.with_suffix(suffix)
    if suffix == ".csv":
        desk.csv(REX, REX)
    else:
        desk.export()
        desk.write(8, REX)
        desk.write(9, REX)
    for _ in range(2):
        desk.apply()
        assert desk.names().count("Rex") == 1
        assert len(desk.plan().conflicts) == 1
    desk.store.api.update_pet_with_form(desk.pet("Rex").id or 0, name="Rex", status="pending")
    plan = desk.plan()
    assert (len(plan.adds), len(plan.conflicts)) == (0, 1)


@pytest.mark.parametrize("action", ["add", "add-another"])
@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_a_row_that_adds_adds_once(desk: Desk, action: str, suffix: str) -> None:
    """A row with `add` that is applied three times has one pet, and merges after it has the id."""
    desk.path = desk.path.with_suffix(suffix)
    if suffix == ".csv":
        desk.csv({**REX, "action": action})
    else:
        desk.export()
        desk.write(8, {**REX, "action": action})
    for _ in range(3):
        report = desk.apply()
    assert desk.names().count("Rex") == 1
    ps.write_back(desk.store.read(desk.path), report, only_ids=True)
    row = desk.store.read(desk.path).rows.iloc[-1]
    assert (row["id"], row["action"]) == (desk.pet("Rex").id, "merge")


def test_add_is_refused_where_its_twin_is(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a user without the journal, `add` conflicts with an equal pet; `add-another` adds one
    more, once.
    """
    desk.csv({**REX, "action": "add"})
    desk.apply()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user's"))
    with ps.connect(desk.box.url, state=tmp_path / "elsewhere") as stranger:
        conflict = only_conflict(stranger.plan(desk.path))
        assert (conflict.rule, conflict.pet_id) == ("twin", desk.pet("Rex").id)
        desk.csv({**REX, "action": "add-another"})
        for _ in range(2):
            stranger.apply(stranger.plan(desk.path), progress=False)
    assert desk.names().count("Rex") == 2


def test_an_add_whose_end_nobody_saw_is_not_sent_again(desk: Desk) -> None:
    """A row whose add has an unknown outcome, edited or not, is a conflict until a
    resume settles it.
    """
    desk.csv(REX)
    plan = desk.plan()
    desk.box.set_faults("drop_after=1,only=addPet")
    with pytest.raises(InterruptedRunError):
        # The answer is lost, and so are all later ones.
        desk.store.apply(plan, on_progress=lambda _: desk.box.set_faults("drop_after=1"))
    desk.box.set_faults(None)
    desk.csv({**REX, "status": "sold"})
    conflict = only_conflict(desk.plan())
    assert conflict.rule == "added-unknown"
    (run,) = desk.store.runs()["id"]
    assert f"petsync resume {run}" in conflict.suggestion
    desk.store.resume(run, progress=False)
    (update,) = desk.plan().changes
    assert update.kind == "update"
    assert desk.names().count("Rex") == 1


EDITED: tuple[dict[str, Any], ...] = (
    {"status": "sold"},
    {"tags": (ps.Tag(None, "old"),)},
    {"name": "Hasso"},
)


def _lose_add(desk: Desk, fault: str = "drop_after") -> str:
    """Apply the sheet, which adds Rex, so that no answer arrives and the run stops; return the
    run's id.
    """
    desk.csv(REX)
    plan = desk.plan()
    desk.box.set_faults(f"{fault}=1,only=addPet")
    with pytest.raises(InterruptedRunError):
        desk.store.apply(plan, on_progress=lambda _: desk.box.set_faults("drop_after=1"))
    desk.box.set_faults(None)
    return str(desk.store.runs()["id"].iloc[0])


@each_choice
@pytest.mark.parametrize("answer", ["id", "add-another"])
@pytest.mark.parametrize("edited", EDITED)
def test_a_lost_add_whose_pet_was_edited_is_not_sent_again(
    desk: Desk, edited: dict[str, Any], answer: str
) -> None:
    """If the pet of a lost add was edited before petsync looks, it is not added again, and a person
    must decide whether it is the row's.
    """
    run = _lose_add(desk)
    rex = desk.pet("Rex")
    desk.box.put(msgspec.structs.replace(rex, **edited))
    for _ in range(2):
        (result,) = desk.store.resume(run, progress=False, settle=0).results
        assert (result.outcome, result.cause) == ("unknown", "may-be-there")
        assert f"pet {rex.id} (" in result.message
    assert len(desk.box.pets()) == len(SHOP) + 1
    conflict = only_conflict(desk.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-before", rex.id)
    assert f"may belong to pet {rex.id} ({rex.name!r}), which was edited since" in conflict.problem
    assert "add-another" in conflict.suggestion
    if answer == "id":
        desk.csv({**REX, "id": rex.id})
        (update,) = desk.plan().changes
        assert (update.kind, update.pet_id) == ("update", rex.id)
    else:
        desk.csv({**REX, "action": answer})
        (add,) = desk.plan().changes
        assert add.kind == "add"
    for _ in range(3):
        desk.apply()
        assert len(desk.box.pets()) == len(SHOP) + 1 + (answer != "id")
    assert desk.plan().in_sync


def test_a_lost_add_whose_pet_was_edited_and_deleted_waits_for_the_resume(desk: Desk) -> None:
    """If the edited pet of a lost add was deleted, the row waits for a resume, which
    adds it once.
    """
    run = _lose_add(desk)
    rex = desk.pet("Rex")
    desk.box.put(msgspec.structs.replace(rex, status="sold"))
    desk.store.resume(run, progress=False, settle=0)
    assert f"may belong to pet {rex.id}" in only_conflict(desk.plan()).problem
    assert rex.id is not None
    desk.box.remove(rex.id)
    assert f"petsync resume {run}" in only_conflict(desk.plan()).suggestion
    desk.store.resume(run, progress=False, settle=0)
    assert desk.names().count("Rex") == 1
    assert desk.plan().in_sync


@pytest.mark.parametrize("other", [{"name": "Rex 2"}, {"name": "Ada", "tags": ()}])
def test_an_add_that_never_arrived_is_sent_once_more_beside_other_new_pets(
    desk: Desk, other: dict[str, Any]
) -> None:
    """A lost add that did not arrive is sent again, although other new pets exist."""
    run = _lose_add(desk, "drop_before")
    pet = Pet(id=900, name="", status="available", tags=(ps.Tag(1, "calm"), ps.Tag(2, "big")))
    desk.box.put(msgspec.structs.replace(pet, category=Category(1, "Dogs"), **other))
    desk.store.resume(run, progress=False, settle=0)
    assert desk.names().count("Rex") == 1
    assert desk.plan().in_sync


@pytest.mark.parametrize(
    ("is_copy", "column", "value"),
    [(False, 2, "Maximilian"), (True, 3, "sold")],
    ids=["renamed", "in a copy"],
)
def test_another_state_folder_knows_the_rows_too(
    book: Desk, tmp_path: Path, is_copy: bool, column: int, value: str
) -> None:
    """With another state folder, an added row is still its pet's, edited or in a copy."""
    rex = book.pet("Rex")
    book.edit(lambda sheet: _set(sheet, 8, column, value))
    path = book.path
    if is_copy:
        path = Path(shutil.copy(path, tmp_path / "copy.xlsx"))
    with ps.connect(book.box.url, state=tmp_path / "elsewhere") as other:
        (update,) = other.plan(path).changes
        assert (update.kind, update.pet_id) == ("update", rex.id)
        assert other.apply(other.plan(path), progress=False).exit_code == 0
    assert len(book.box.pets()) == len(SHOP) + 1
    assert book.plan().in_sync


def test_an_add_of_another_state_folder_whose_end_nobody_saw(desk: Desk, tmp_path: Path) -> None:
    """A row whose add in another state folder has an unknown outcome is a conflict that names that
    folder.
    """
    desk.csv(REX)
    desk.box.set_faults("drop_after=1,only=addPet")
    plan = desk.plan()
    with pytest.raises(InterruptedRunError):
        desk.store.apply(plan, on_progress=lambda _: desk.box.set_faults("drop_after=1"))
    desk.box.set_faults(None)
    desk.csv({**REX, "status": "sold"})
    with ps.connect(desk.box.url, state=tmp_path / "elsewhere") as other:
        conflict = only_conflict(other.plan(desk.path))
    assert conflict.rule == "added-unknown"
    assert f"--state {tmp_path / 'state'}`" in conflict.suggestion


@pytest.mark.parametrize("folder", ["state", "elsewhere"])
def test_a_plan_adds_no_row_that_may_have_been_added_since(
    desk: Desk, tmp_path: Path, folder: str
) -> None:
    """If the outcome of a row's add is unknown, an older plan of the edited row does not add it,
    and names the way out.
    """
    desk.csv({**REX, "name": "Rexy", "tags": ""})
    older = desk.plan()
    desk.csv(REX)
    plan = desk.plan()
    desk.box.set_faults("drop_after=1,only=addPet")
    with pytest.raises(InterruptedRunError) as stop:
        desk.store.apply(plan, on_progress=lambda _: desk.box.set_faults("drop_after=1"))
    desk.box.set_faults(None)
    with ps.connect(desk.box.url, state=tmp_path / folder) as other:
        report = other.apply(older, progress=False)
    assert desk.names().count("Rexy") == 0
    (result,) = report.results
    assert result.outcome == "conflict"
    where = f" --state {tmp_path / 'state'}" if folder == "elsewhere" else ""
    assert f"`petsync resume {stop.value.report.run_id}{where}` determines it" in result.message


def stopped(desk: Desk, plan: Plan) -> None:
    """Apply the plan, and stop the run after its first change."""

    def stop(_: object) -> None:
        raise RuntimeError("stopped by the test")

    with pytest.raises(InterruptedRunError):
        desk.store.apply(plan, concurrency=1, on_progress=stop)


def test_a_resume_sends_no_row_that_another_folder_s_run_came_to(
    desk: Desk, tmp_path: Path
) -> None:
    """A resume does not send rows that a run from another state folder added in the meantime, even
    if they were edited.
    """
    rows = [{**REX, "name": f"Rex the {n}."} for n in range(20)]
    desk.csv(*rows)
    plan = desk.plan()
    stopped(desk, plan)
    assert len(desk.box.pets()) == len(SHOP) + 1
    desk.csv(*({**row, "status": "sold"} for row in rows))
    with ps.connect(desk.box.url, state=tmp_path / "elsewhere") as other:
        other.apply(other.plan(desk.path), progress=False)
    desk.store.resume(progress=False)
    assert len(desk.box.pets()) == len(SHOP) + len(rows)


@pytest.mark.parametrize("is_newer", [True, False])
def test_a_resume_names_the_newest_run_in_any_folder(
    desk: Desk, tmp_path: Path, is_newer: bool
) -> None:
    """A resume leaves its rows to the newest later run of the sheet, in its own state folder or in
    another one.
    """
    rows = [{**REX, "name": f"Rex the {n}."} for n in range(6)]
    desk.csv(*rows)
    stopped(desk, desk.plan())
    first = desk.store.runs()["id"].iloc[0]
    with ps.connect(desk.box.url, state=tmp_path / "elsewhere") as other:
        there = Desk(desk.box, other, desk.path)
        for each in (desk, there) if is_newer else (there, desk):
            stopped(each, each.plan())
            newest = each.store.runs()["id"].iloc[0]
    report = desk.store.resume(first, progress=False)
    assert len(desk.box.pets()) == len(SHOP) + 3
    messages = [each.message for each in report.results if "of the same sheet" in each.message]
    assert len(messages) == 3
    assert all(text.startswith(f"run {newest} of the same sheet") for text in messages)


@pytest.mark.parametrize("name", ["Zoe", "Rexy"])
def test_a_row_in_the_place_of_one_that_got_its_id_is_a_conflict(desk: Desk, name: str) -> None:
    """After `--write-ids`, a row without the id in the same place is a conflict, or its pet's if
    the name is similar.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, REX)
    sheet = desk.store.read(desk.path)
    plan = desk.store.plan(sheet)
    runs = desk.store.aio.history
    report = desk.store.apply(plan, progress=False)
    Outputs(runs).write_into_sheet(sheet, report, "ids")
    rex = desk.pet("Rex")
    desk.write(8, {"id": None, "name": name})
    plan = desk.plan()
    if name == "Rexy":
        assert [(each.pet_id, each.fields) for each in plan.updates] == [(rex.id, ("name",))]
    else:
        assert only_conflict(plan).pet_id == rex.id


@pytest.mark.parametrize("how", ["copied", "renamed", "from another folder"])
def test_a_resume_sends_no_row_that_a_copy_s_run_came_to(
    desk: Desk, tmp_path: Path, how: str
) -> None:
    """A resume does not send rows that a run of a copy, edited or renamed, added in the
    meantime.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    for row in range(8, 12):
        desk.write(row, {**REX, "name": f"Rex the {row}.", "tags": f"t{row}"})
    plan = desk.plan()
    stopped(desk, plan)
    assert len(desk.box.pets()) == len(SHOP) + 1
    old = desk.path
    if how != "from another folder":
        desk.path = Path(shutil.copy(old, tmp_path / "copy.xlsx"))
    if how == "renamed":
        old.unlink()
    desk.write(10, {"name": "Tyra"})
    desk.write(11, {"name": "Vier", "tags": "quatre"})
    state = tmp_path / ("elsewhere" if how == "from another folder" else "state")
    with ps.connect(desk.box.url, state=state) as other:
        other.apply(other.plan(desk.path), progress=False)
    desk.store.resume(progress=False)
    assert len(desk.box.pets()) == len(SHOP) + 4


@each_choice
@pytest.mark.parametrize("how", ["resume", "plan.json", "plan.parquet"])
@pytest.mark.parametrize(
    "edit", [{}, {"status": "sold"}, {"tags": "calm"}, {"photo_urls": "http://p/2.jpg"}]
)
def test_an_edited_copy_of_a_list_adds_no_pet_twice(
    desk: Desk, tmp_path: Path, edit: Row, how: str
) -> None:
    """A plan or a resume does not send an add if a pet with its name has come since the plan, as
    from an edited copy of the list. Namesakes that the plan knew, and the action `add-another`, do
    not count.
    """
    luna = Pet(id=7, name="Luna", status="pending")
    come_since(desk, luna)
    rex, tom = {**REX, "photo_urls": "http://p/1.jpg"}, {**LUNA, "name": "Tom"}
    desk.csv(rex, LUNA, {**tom, "action": "add-another"})
    path = tmp_path / (how if how != "resume" else "plan.json")
    desk.plan().save(path)
    if how == "resume":
        desk.box.set_faults("503=1,only=addPet")
        failed = desk.store.apply(Plan.load(path), progress=False)
        assert failed.counts["failed"] == 3
        desk.box.set_faults(None)
    first = desk.store.runs()["id"].iloc[0] if how == "resume" else ""
    desk.path = tmp_path / "copy.csv"
    desk.csv({**rex, **edit}, {**tom, "status": "pending"})
    assert desk.apply().counts["applied"] == 2
    if first:
        report = desk.store.resume(first, progress=False)
    else:
        report = desk.store.apply(Plan.load(path), progress=False)
    unedited = "applied" if first else "unchanged"  # The failed add may have added the pet.
    outcomes = ["conflict" if edit else unedited, "applied", "applied"]
    assert [each.outcome for each in report.results] == outcomes
    assert desk.names().count("Rex") == 1
    assert desk.names().count("Luna") == desk.names().count("Tom") == 2
    if edit:
        assert report.results[0].cause == "came-meanwhile"
        assert f"pet {desk.pet('Rex').id} with this name was added" in report.results[0].message


@pytest.mark.parametrize("is_late", [False, True])
def test_rows_of_another_worksheet_are_new_pets(desk: Desk, *, is_late: bool) -> None:
    """Rows of another worksheet are new pets, except for a row that was moved there, which is a
    conflict.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    book = Workbook()
    january, february = book.worksheets[0], book.create_sheet("February")
    january.title = "January"
    for sheet in (january, february):
        sheet.append([*REX])
    january.append([*REX.values()])
    if not is_late:
        february.append(["Otto", *[*REX.values()][1:]])
    book.save(desk.path)
    desk.store.apply(desk.store.plan(desk.store.read(desk.path, tab="January")), progress=False)
    if is_late:
        february.append(["Otto", *[*REX.values()][1:]])
    february.append(["Rex", "sold", *[*REX.values()][2:]])
    book.save(desk.path)
    plan = desk.store.plan(desk.store.read(desk.path, tab="February"))
    assert [each.after.name for each in plan.adds] == ["Otto"]
    assert [each.pet_id for each in plan.conflicts] == [desk.pet("Rex").id]


@pytest.mark.parametrize("new", [[REX], [REX, LUNA], [REX, LUNA, NEWBY]])
def test_renamed_rows_of_a_renamed_file_are_not_added_again(desk: Desk, new: list[Row]) -> None:
    """In a renamed file, rows that were only renamed are conflicts, and a row below
    them is an add.
    """
    desk.csv(*new)
    desk.apply()
    desk.path = desk.path.rename(desk.path.with_name("later.csv"))
    other = {"name": "Ottokar", "status": "pending", "category": "Birds"}
    desk.csv(*({**row, "name": f"{row['name']} II"} for row in new), other)
    plan = desk.plan()
    assert [each.after.name for each in plan.adds] == ["Ottokar"]
    assert [each.pet_id for each in plan.conflicts] == [desk.pet(str(r["name"])).id for r in new]


@pytest.mark.parametrize(
    "cells", [{"name": "Otto"}, {"name": "Regina R."}, {"name": "Ada 2"}, {"name": "Ada"}]
)
def test_an_undone_row_with_an_id_takes_no_pet_of_another_client(desk: Desk, cells: Row) -> None:
    """If the id of an undone add was assigned to another client's pet, the row does not change that
    pet unless it has its name.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, REX)
    report = desk.store.apply(desk.plan(), progress=False)
    rex = desk.pet("Rex")
    desk.write(8, {"id": rex.id})
    desk.store.apply(desk.store.undo(report.run_id), progress=False)
    desk.box.reset([*SHOP, Pet(id=rex.id, name="Ada", status="available")])
    desk.write(8, {**cells, "status": "sold"})
    plan = desk.plan()
    if cells == {"name": "Ada"}:
        assert [each.pet_id for each in plan.updates] == [rex.id]
    else:
        assert only_conflict(plan).rule == "id-reused"


def test_the_note_on_a_journal_is_the_user_s_own(book: Desk) -> None:
    """The file that lists journals is readable for the user only, and an apply works without it."""
    home = Path(os.environ["XDG_STATE_HOME"])
    shutil.rmtree(home)
    before = os.umask(0)
    try:
        book.write(9, LUNA)
        book.apply()
    finally:
        os.umask(before)
    made = [home, *home.rglob("*")]
    assert [each.suffix for each in made].count(".json") == 1
    assert [each for each in made if each.stat().st_mode & 0o077] == []
    shutil.rmtree(home)
    home.write_text("no folder")
    book.write(10, {**LUNA, "name": "Bodo"})
    assert book.apply().exit_code == 0


def test_a_journal_that_cannot_be_read_is_left_out(book: Desk, tmp_path: Path) -> None:
    """A damaged journal in another state folder is ignored and not changed."""
    (journal,) = (tmp_path / "state").glob("*.db")
    damaged = b"no database" * 100
    with ps.connect(book.box.url, state=tmp_path / "elsewhere") as other:
        for each in (tmp_path / "state").iterdir():
            each.unlink()
        journal.write_bytes(damaged)
        assert not other.plan(book.path).changes
    assert journal.read_bytes() == damaged


@pytest.mark.parametrize("row", [0, 2, -1])
@pytest.mark.parametrize("columns", [["name", "status", "category"], None])
def test_a_renamed_row_of_a_table_without_ids(
    desk: Desk, row: int, columns: list[str] | None
) -> None:
    """In a table without ids, a renamed row in its pet's place and with its values is a conflict,
    not an add.
    """
    frame = desk.store.find_by_status("available").drop(columns="id")
    old = frame["name"].iloc[row]
    frame.iloc[row, frame.columns.get_loc("name")] = "Maximilian"
    conflict = only_conflict(desk.store.plan(frame[columns or frame.columns]))
    assert (conflict.rule, conflict.pet_id) == ("looks-alike", int(old.split()[1]))
    frame["action"] = ["add-another" if name == "Maximilian" else "" for name in frame["name"]]
    (add,) = desk.store.plan(frame).changes
    assert add.kind == "add"


@pytest.mark.parametrize("order", [[0, 1], [1, 0], [1]])
def test_a_twin_in_a_table_is_added_once(desk: Desk, order: list[int]) -> None:
    """A row of a DataFrame with the action `add-another` is not added again from the same rows in
    any order, also if other DataFrames were applied before.
    """
    first = pd.DataFrame([{**LUNA, "name": name} for name in ("Anna", "Berta", "Carla")])
    desk.store.apply(desk.store.plan(first), progress=False)
    twins = pd.DataFrame([REX, {**REX, "action": "add-another"}])
    desk.store.apply(desk.store.plan(twins), progress=False)
    assert desk.names().count("Rex") == 2
    assert not desk.store.plan(twins.iloc[order]).changes


def test_the_only_row_of_a_table_without_ids(desk: Desk) -> None:
    """In a table without ids, the only row is a conflict if its other values are those of one pet
    alone.
    """
    cats = Pet(id=7, name="Minka", status="sold", category=Category(2, "Cats"))
    desk.box.reset([*SHOP, cats])
    frame = desk.store.find_by_status("sold").drop(columns="id").assign(name="Minka II")
    assert only_conflict(desk.store.plan(frame)).pet_id == 7


def test_a_row_that_was_recognised_was_not_added(desk: Desk) -> None:
    """Notes distinguish a pet that a run added from one that a run recognised."""
    dog = {"name": "Pet 1", "status": "available", "category": "Dogs"}
    desk.csv(dog, REX)
    desk.apply()
    for status in ("sold", "pending"):
        desk.csv({**dog, "status": status}, {**REX, "status": status})
        (note,) = [each for each in desk.plan().notes if "an earlier run added or" in each]
        assert " = pet 1 (recognised on 20" in note
        assert f" = pet {desk.pet('Rex').id} (added on 20" in note
        (why,) = desk.store.why(desk.path, 1)
        assert "recognised the pet of this row on 20" in why.sentence
        desk.apply()


def test_new_pets_beside_one_that_is_there(desk: Desk) -> None:
    """One recognised row does not make a list a table of the store: other rows are adds."""
    desk.csv(
        {"name": "Pet 1", "status": "available", "category": "Dogs"},
        {"name": "Zoe", "status": "available", "category": "Dogs"},
    )
    assert [add.after.name for add in desk.plan().adds] == ["Zoe"]


def test_a_list_that_grows_is_no_table_of_renamed_rows(desk: Desk) -> None:
    """In a growing list, new rows below, above or between the added ones are adds."""
    dog = {"name": "Rex", "status": "available", "category": "Dogs"}
    rows = [{**dog, "name": name} for name in ("Rex", "Bodo")]
    desk.csv(*rows)
    desk.apply()
    for at, name in enumerate(("Aruna", "Cleo", "Dasha")):
        rows = [*rows[:at], {**dog, "name": name, "tags": f"tag {at}"}, *rows[at:]]
        desk.csv(*rows)
        assert [add.after.name for add in desk.plan().adds] == [name]
        desk.apply()
    assert len(desk.box.pets()) == len(SHOP) + 5


TWIN: Row = {"name": "Twin", "status": "available", "action": "add-another"}
XAVER: Row = {"name": "Xaver", "status": "available"}


@pytest.fixture
def another(desk: Desk) -> Desk:
    """Return a desk with an exported workbook, in which Twin was added in row 8 with
    `add-another`.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, TWIN)
    desk.apply()
    return desk


@pytest.mark.parametrize("is_above", [True, False])
def test_a_row_with_add_another_that_is_renamed_adds_no_second_pet(
    another: Desk, is_above: bool
) -> None:
    """A renamed row with `add-another` is a conflict, and a new row next to it an add; if another
    row has the pet's id, both are adds.
    """
    twin = another.pet("Twin")
    other, xaver = (9, 8) if is_above else (8, 9)
    another.edit(lambda sheet: sheet.insert_rows(xaver))
    another.write(xaver, XAVER)
    another.write(other, {"name": "Other"})
    plan = another.plan()
    assert [add.after.name for add in plan.adds] == ["Xaver"]
    (conflict,) = plan.conflicts
    assert (conflict.rule, conflict.row, conflict.pet_id) == ("added-before", other, twin.id)
    assert f"the id {twin.id} and the action `ignore`" in conflict.suggestion
    another.write(10, {"id": twin.id, "action": "ignore"})
    plan = another.plan()
    assert sorted(add.after.name or "" for add in plan.adds) == ["Other", "Xaver"]
    assert not plan.conflicts


@pytest.mark.parametrize("action", ["update", None])
def test_the_ways_out_of_an_edited_row_with_add_another(another: Desk, action: str | None) -> None:
    """An edited row with `add-another` is a conflict until it updates its pet; the advice names no
    id cell. A row that was not edited stays its pet's, whatever the store changed.
    """
    another.store.api.update_pet_with_form(another.pet("Twin").id or 0, status="pending")
    plan = another.plan()
    assert not plan.changes
    assert (plan.older, plan.conflicts) == ((8,), ())
    another.write(8, {"tags": "calm"})
    conflict = only_conflict(another.plan())
    assert conflict.rule == "exists"
    assert conflict.suggestion == "Write `update`, or leave the action blank."
    another.write(8, {"action": action})
    (update,) = another.plan().changes
    assert update.pet_id == another.pet("Twin").id


def test_a_row_with_add_another_that_is_renamed_and_moved(another: Desk) -> None:
    """A row with `add-another` that was renamed and moved is a conflict, also after a later run."""
    another.write(2, {"status": "pending"})
    another.apply()
    another.write(8, {"name": "Other"})
    another.edit(_move_up)
    conflict = only_conflict(another.plan())
    assert (conflict.row, conflict.pet_id) == (2, another.pet("Twin").id)


def test_a_list_s_row_with_add_another_that_is_renamed(desk: Desk) -> None:
    """In a list without ids, a renamed row with `add-another` is a conflict."""
    desk.csv(REX, TWIN, LUNA)
    desk.apply()
    desk.csv(REX, {**TWIN, "name": "Other"}, XAVER, LUNA)
    plan = desk.plan()
    assert [add.after.name for add in plan.adds] == ["Xaver"]
    assert [each.pet_id for each in plan.conflicts] == [desk.pet("Twin").id]


def test_one_of_two_rows_with_add_another_is_left(another: Desk) -> None:
    """If one of two equal rows with `add-another` is removed, the other adds no third pet."""
    another.write(9, TWIN)
    another.apply()
    assert another.names().count("Twin") == 2
    another.edit(lambda sheet: sheet.delete_rows(8))
    another.edit(_move_up)
    plan = another.plan()
    assert not plan.adds


def test_the_second_of_two_equal_rows_that_is_renamed_adds_no_third_pet(another: Desk) -> None:
    """If a row is inserted above two equal rows, and the one with `add-another` is renamed, it is a
    conflict.
    """
    another.write(9, {**TWIN, "action": None, "name": "Tim"})
    another.write(10, {**TWIN, "name": "Tim"})
    another.apply()
    another.edit(lambda sheet: sheet.insert_rows(8))
    another.write(8, XAVER)
    another.write(11, {"name": "Other"})
    plan = another.plan()
    assert [add.after.name for add in plan.adds] == ["Xaver"]
    assert [each.row for each in plan.conflicts] == [11]


def test_a_new_row_with_add_another_is_an_add(another: Desk) -> None:
    """A new row with `add-another` next to an added one is an add."""
    another.write(9, {**TWIN, "name": "Other"})
    assert [add.after.name for add in another.plan().changes] == ["Other"]
    another.write(9, {"name": "Twin"})
    assert [add.after.name for add in another.plan().changes] == ["Twin"]


@pytest.fixture
def three(desk: Desk) -> Desk:
    """Return a desk with an exported workbook, in which three calm dogs were added in
    rows 8 to 10.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    for row, name in enumerate(("Ann", "Ben", "Cid"), 8):
        desk.write(row, {**NEWBY, "name": name, "tags": "calm"})
    desk.apply()
    return desk


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_row_that_was_edited_and_sorted_is_its_pet_s_in_a_copy_too(
    three: Desk, is_copy: bool
) -> None:
    """In a sorted sheet or a copy, an edited row is its pet's if its name is unique and its other
    values agree.
    """
    three.write(10, {"status": "sold"})
    three.edit(_move_up)
    if is_copy:
        three.path = Path(shutil.copy(three.path, three.path.with_name("copy.xlsx")))
        three.edit(_name_tab)
    (update,) = three.plan().changes
    assert (update.pet_id, update.fields) == (three.pet("Cid").id, ("status",))
    assert not three.plan().conflicts


@pytest.mark.parametrize("other", [{"tags": "shy"}, {"category": "Cats"}, {"tags": None}])
def test_a_copy_s_moved_row_that_says_something_else_is_in_doubt(three: Desk, other: Row) -> None:
    """A moved row in a copy with other values is a conflict; one with a value less is its pet's."""
    three.write(10, {"status": "sold", **other})
    three.edit(_move_up)
    three.path = Path(shutil.copy(three.path, three.path.with_name("copy.xlsx")))
    three.edit(_name_tab)
    plan = three.plan()
    assert not plan.adds
    assert bool(plan.conflicts) is bool(set(other.values()) - {None})


def test_a_row_in_doubt_by_its_name_draws_no_other_into_doubt(three: Desk) -> None:
    """A new row with another name is an add, although it looks like a pet whose own row is in
    conflict.
    """
    three.write(10, {"status": "sold", "tags": "shy"})
    three.edit(_move_up)
    three.edit(lambda sheet: sheet.insert_rows(5))
    three.write(5, {**NEWBY, "name": "Zoe", "tags": "calm"})
    three.path = Path(shutil.copy(three.path, three.path.with_name("copy.xlsx")))
    three.edit(_name_tab)
    plan = three.plan()
    assert [add.after.name for add in plan.adds] == ["Zoe"]
    assert [(each.row, each.pet_id) for each in plan.conflicts] == [(2, three.pet("Cid").id)]


def test_a_new_row_with_the_name_of_a_renamed_one(three: Desk) -> None:
    """In a sorted sheet, a row that was renamed is a conflict, although a new row with nothing else
    in common has its former name.
    """
    three.write(10, {"name": "Oscar"})
    three.edit(_move_up)
    three.edit(lambda sheet: sheet.insert_rows(5))
    three.write(5, {"name": "Cid", "status": "available", "category": "Cats", "tags": "shy"})
    plan = three.plan()
    assert not plan.changes
    assert [each.row for each in plan.conflicts] == [2, 5]


def test_a_new_row_with_the_name_of_a_removed_one(three: Desk) -> None:
    """A new row elsewhere, with the name and tags of a row that was removed but with another
    category, is a conflict.
    """
    three.edit(lambda sheet: (sheet.delete_rows(9), sheet.insert_rows(5)))
    three.write(5, {"name": "Ben", "status": "available", "category": "Cats", "tags": "calm"})
    conflict = only_conflict(three.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-before", three.pet("Ben").id)


def test_two_rows_of_one_name_in_a_sorted_copy(desk: Desk) -> None:
    """In a sorted copy, a new row with the name of an edited row is a conflict, and so is that row,
    if each differs from the added row in one value.
    """
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    pups = [{**NEWBY, "name": f"Pup {n}", "tags": tags} for n, tags in enumerate(("shy", "calm"))]
    for row, pup in enumerate(pups, 8):
        desk.write(row, pup)
    desk.apply()
    desk.write(9, {"tags": "calm; shy"})
    for row, pup in enumerate(pups, 10):
        desk.write(row, {**pup, "category": "Cats"})
    desk.edit(lambda sheet: _write(sheet, sorted(_rows(sheet), key=lambda row: (row[1], row[3]))))
    plan = desk.plan(Path(shutil.copy(desk.path, desk.path.with_name("copy.xlsx"))))
    assert not plan.changes
    assert {each.row for each in plan.conflicts} >= {10, 11}


NEW_REX = Pet(
    id=900,
    name="Rex",
    status="available",
    category=Category(1, "Dogs"),
    tags=(ps.Tag(1, "calm"), ps.Tag(2, "big")),
)


def test_a_row_that_another_machine_added_and_that_was_edited_since(desk: Desk) -> None:
    """An edited row that another machine added is a conflict with both choices in its hint, and
    never a second pet.
    """
    plan = typed(desk, REX)
    assert len(plan.adds) == 1
    come_since(desk, NEW_REX)
    desk.write(8, {"status": "sold"})
    conflict = only_conflict(desk.plan())
    assert (conflict.rule, conflict.row, conflict.pet_id) == ("looks-alike", 8, 900)
    assert "was added to the store since the export" in conflict.problem
    assert not [note for note in desk.plan().notes if "these rows have no id" in note]
    desk.write(8, {"action": "add-another"})
    assert len(desk.plan().adds) == 1
    desk.write(8, {"action": None, "id": "900"})
    (change,) = desk.plan().changes
    assert (change.kind, change.pet_id, change.fields) == ("update", 900, ("status",))


def test_a_row_that_looks_like_a_pet_stays_in_conflict_until_a_person_decides(desk: Desk) -> None:
    """A row that was held as similar to a pet stays a conflict until a person decides, even after
    it is edited.
    """
    typed(desk, REX)
    come_since(desk, NEW_REX)
    desk.write(8, {"status": "sold"})
    assert only_conflict(desk.plan()).rule == "looks-alike"
    desk.apply()
    desk.write(8, {"name": "Bella", "tags": "shy"})
    conflict = only_conflict(desk.plan())
    assert (conflict.rule, conflict.row, conflict.pet_id) == ("added-before", 8, 900)
    desk.write(8, {"action": "add-another"})
    assert len(desk.plan().adds) == 1
    desk.write(8, {"action": None, "id": "900"})
    assert [change.pet_id for change in desk.plan().changes] == [900]


def test_of_rows_of_one_name_one_is_the_pet_that_came_since(desk: Desk) -> None:
    """If several new rows have the name of a pet that was added since the export, only the most
    similar row is held.
    """
    bellas = [
        {"name": "Bella", "status": "sold", "category": group, "tags": tags}
        for group, tags in [
            ("Dogs", "small"),
            ("Dogs", "calm; big"),
            ("Dogs", "old"),
            ("Cats", "calm"),
            ("Cats", None),
        ]
    ]
    typed(desk, *bellas)
    come_since(desk, msgspec.structs.replace(NEW_REX, name="Bella"))
    plan = desk.plan()
    assert [(each.rule, each.row) for each in plan.conflicts] == [("looks-alike", 9)]
    assert len(plan.adds) == 4


@pytest.mark.parametrize(
    "cells",
    [
        {"status": "sold"},
        {"status": "sold", "category": "Cats", "tags": "calm; big"},
        {"status": "available", "category": "Cats"},
        {"status": "sold", "category": "Dogs", "action": "add"},
        {"status": "sold", "category": "Dogs", "action": "add-another"},
    ],
)
def test_a_name_alone_is_no_pet_that_came_since(desk: Desk, cells: Row) -> None:
    """A row is an add if only its name, or less than half of its values, agree with a
    pet added since.
    """
    typed(desk, {"name": "Rex", **cells})
    come_since(desk, msgspec.structs.replace(NEW_REX, tags=()))
    plan = desk.plan()
    assert not plan.conflicts
    assert len(plan.adds) == 1


def test_a_pet_of_the_export_did_not_come_since(desk: Desk) -> None:
    """A pet that the export had, or whose status it did not cover, does not hold a row
    with its name.
    """
    row = {"name": "Pet 1", "status": "sold", "category": "Dogs"}
    assert len(typed(desk, row).adds) == 1
    desk.box.reset([*SHOP, msgspec.structs.replace(NEW_REX, status="pending")])
    desk.path = desk.path.with_name("part.xlsx")
    ps.write_sheet(desk.store.snapshot(statuses=["available"]), desk.path)
    desk.write(8, {"name": "Rex", "status": "sold", "category": "Dogs"})
    plan = desk.plan()
    assert (len(plan.adds), plan.conflicts) == (1, ())


@pytest.fixture
def renumbering(tmp_path: Path) -> Iterator[Desk]:
    """Yield a desk for a service that assigns its own id to every new pet."""
    own = replace(STANDARD, own_ids=True)
    old = Pet(id=9000, name="Old", status="sold")
    with (
        Sandbox(auth=False, profile=own, pets=[old]) as box,
        ps.connect(box.url, state=tmp_path / "state") as store,
    ):
        yield Desk(box, store, tmp_path / "pets.csv")


@each_choice
@pytest.mark.parametrize("action", [None, "add"])
@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_an_id_that_the_service_exchanges(
    renumbering: Desk, suffix: str, action: str | None
) -> None:
    """If the service assigns another id than the row's, results and sheet get the real id, and a
    sheet with the old id adds nothing.
    """
    desk = renumbering
    desk.path = desk.path.with_suffix(suffix)
    desk.export()
    rex = {**REX, "id": 5, "action": action}
    if suffix == ".xlsx":
        desk.write(3, rex)
    else:
        desk.csv(rex)
    sheet = desk.store.read(desk.path)
    report = desk.apply()
    (result,) = [each for each in report.results if each.kind == "add"]
    assert (result.outcome, result.cause, result.assigned_id) == ("applied", "another-id", 9001)

    conflict = only_conflict(desk.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-renumbered", 9001)
    assert "9001" in conflict.suggestion
    plan = desk.store.plan(desk.path, two_way=True, delete_missing=True)
    assert 9001 not in [each.pet_id for each in plan.deletes]
    desk.apply()
    assert desk.names() == ["Old", "Rex"]
    copy = desk.path.with_name(f"copy{suffix}")
    shutil.copy(desk.path, copy)
    assert only_conflict(desk.plan(copy)).rule == "added-renumbered"

    results = desk.path.with_name(f"results{suffix}")
    ps.write_results(sheet, report, results)
    ps.write_back(sheet, report, only_ids=True)
    for path in (results, desk.path):
        again = desk.store.read(path)
        assert 9001 in again.frame["id"].tolist()
        assert 5 not in again.frame["id"].tolist()
        assert desk.plan(path).in_sync


def test_the_ways_out_of_an_exchanged_id(renumbering: Desk) -> None:
    """The new id ends the conflict of an exchanged id; `add-another` without an id adds one more
    pet, once, and with the id it stays a conflict.
    """
    desk = renumbering
    desk.csv({**REX, "id": 5, "action": "add-another"})
    desk.apply()
    conflict = only_conflict(desk.plan())
    assert "Write 9001 into the id cell" in conflict.suggestion
    assert "remove the id and write `add-another`" in conflict.suggestion
    desk.csv({**REX, "id": 9001})
    assert desk.plan().in_sync
    desk.csv({**REX, "action": "add-another"})
    for _ in range(2):
        desk.apply()
        assert desk.names() == ["Old", "Rex", "Rex"]


def test_a_row_that_only_has_an_id_that_was_exchanged_is_new(renumbering: Desk) -> None:
    """A row with an exchanged id is an add in another sheet under another name, or after an
    undo.
    """
    desk = renumbering
    desk.csv({**REX, "id": 5})
    report = desk.apply()
    first = desk.path
    desk.path = first.with_name("other.csv")
    desk.csv({**LUNA, "id": 5})
    assert len(desk.plan().adds) == 1
    desk.path = first
    desk.csv({**REX, "id": 5})
    desk.store.apply(desk.store.undo(report.run_id), progress=False)
    assert desk.names() == ["Old"]
    assert len(desk.plan().adds) == 1


def _sort_down(sheet: Worksheet) -> None:
    _write(sheet, sorted(_rows(sheet), key=lambda row: str(row[1]), reverse=True))


@each_choice
@pytest.mark.parametrize("tags", [None, "calm; big"])
@pytest.mark.parametrize("status", ["available", "sold"])
def test_a_place_in_a_sorted_sheet_gives_no_row_another_row_s_pet(
    book: Desk, tags: str | None, status: str
) -> None:
    """If sorting moves a new row into the place of a renamed one, neither is taken for the pet:
    both are conflicts.
    """
    rex = book.pet("Rex")
    book.write(8, {"name": "Aaron", "status": status})
    book.write(9, {"name": "Rufus", "status": "available", "category": "Dogs", "tags": tags})
    book.edit(_sort)
    plan = book.plan()
    assert not plan.changes
    assert {(each.row, each.pet_id) for each in plan.conflicts} == {(2, rex.id), (9, rex.id)}
    book.write(2, {"id": str(rex.id)})
    book.apply()
    assert book.names()[:1] == ["Aaron"]
    assert len(book.box.pets()) == len(SHOP) + 2


EDITED: dict[str, Row] = {
    "other tags": {"name": "Vroni", "tags": "shy"},
    "a tag less": {"name": "Vroni", "tags": "shy; calm"},
    "all but the category": {"name": "Vroni", "status": "sold", "tags": "shy"},
    "all but the name": {"name": "Rexy", "status": "sold", "category": "Cats", "tags": "shy"},
}


@pytest.mark.parametrize("edit", EDITED)
def test_a_row_of_a_sorted_sheet_that_has_anything_of_an_added_one_is_in_doubt(
    book: Desk, edit: str
) -> None:
    """In a sorted sheet, a row with any value of an added row is a conflict until a
    person decides.
    """
    rex = book.pet("Rex")
    book.write(8, EDITED[edit])
    book.edit(_sort_down)
    conflict = only_conflict(book.plan())
    assert (conflict.rule, conflict.row, conflict.pet_id) == ("added-before", 2, rex.id)
    book.write(9, {"name": "Extra", "status": "pending"})
    for _ in range(2):
        book.apply()
        assert len(book.box.pets()) == len(SHOP) + 2
    book.write(2, {"action": "add-another"})
    assert [each.kind for each in book.plan().changes] == ["add"]
    book.write(2, {"action": None, "id": str(rex.id)})
    assert [each.pet_id for each in book.plan().changes] == [rex.id]


@each_choice
@pytest.mark.parametrize("sort", [_sort_down, _move_up])
@pytest.mark.parametrize("decision", ["id", "add-another", "gone"])
def test_a_row_in_conflict_stays_so_until_a_person_decides(
    book: Desk, sort: Callable[[Worksheet], None], decision: str
) -> None:
    """A row in conflict stays one through any further edits until it gets an id or `add-another`,
    or is removed.
    """
    rex = book.pet("Rex")
    book.write(8, {"name": "Vroni", "tags": "shy; calm"})
    book.edit(sort)
    for edit in ({"tags": "shy"}, {"status": "sold", "category": "Cats"}, {"name": "Other"}):
        assert [(each.row, each.pet_id) for each in book.plan().conflicts] == [(2, rex.id)]
        book.apply()
        book.write(2, edit)
    conflict = only_conflict(book.plan())
    assert (conflict.rule, conflict.row, conflict.pet_id) == ("added-before", 2, rex.id)
    if decision == "id":
        book.write(2, {"id": str(rex.id)})
        assert [each.pet_id for each in book.plan().changes] == [rex.id]
    elif decision == "gone":
        book.edit(lambda sheet: sheet.delete_rows(2))
    else:
        book.write(2, {"action": "add-another"})
        assert [add.after.name for add in book.plan().changes] == ["Other"]
    book.apply()
    assert book.plan().in_sync


@pytest.mark.parametrize("sort", [_sort, _sort_down, _stay])
def test_a_day_s_new_rows_are_adds_while_each_older_one_is_found(
    three: Desk, sort: Callable[[Worksheet], None]
) -> None:
    """New rows that differ from the older ones only in name are adds if each older row
    is recognised.
    """
    for row, name in enumerate(("Dora", "Emil", "Fritz", "Gitta", "Hans"), 11):
        three.write(row, {**NEWBY, "name": name, "tags": "calm"})
    three.write(9, {"status": "sold"})
    three.edit(sort)
    plan = three.plan()
    assert (len(plan.adds), len(plan.updates)) == (5, 1)
    assert not plan.conflicts


def test_a_row_that_was_renamed_in_its_place_is_its_pet_s_beside_new_rows(three: Desk) -> None:
    """A row that was renamed in its place is its pet's, although new rows with equal
    values follow.
    """
    three.write(9, {"name": "Otto"})
    for row, name in enumerate(("Dora", "Emil", "Fritz", "Gitta", "Hans"), 11):
        three.write(row, {**NEWBY, "name": name, "tags": "calm"})
    plan = three.plan()
    assert [each.pet_id for each in plan.updates] == [three.pet("Ben").id]
    assert len(plan.adds) == 5
    assert not plan.conflicts


def test_a_row_that_was_renamed_in_its_place_in_a_copy_is_its_pet_s(three: Desk) -> None:
    """In a copy, a row that was renamed in its place between unchanged rows is its pet's."""
    three.write(9, {"name": "Otto"})
    three.write(11, {"name": "Dora", "status": "available"})
    plan = three.plan(Path(shutil.copy(three.path, three.path.with_name("copy.xlsx"))))
    assert [each.pet_id for each in plan.updates] == [three.pet("Ben").id]
    assert [each.after.name for each in plan.adds] == ["Dora"]
    assert not plan.conflicts


@pytest.mark.parametrize("is_original", [True, False])
def test_a_row_of_one_copy_is_no_other_copy_s_pet(newby: Desk, is_original: bool) -> None:
    """If two copies have a new row in the same place that differs only in name, the second is a
    conflict.
    """
    mine = newby.path
    other = Path(shutil.copy(mine, mine.with_name("other.xlsx")))
    if not is_original:
        mine = Path(shutil.copy(mine, mine.with_name("mine.xlsx")))
    newby.path = other
    newby.write(9, {**NEWBY, "name": "Zoe"})
    newby.apply()
    newby.path = mine
    newby.write(9, {**NEWBY, "name": "Otto"})
    conflict = only_conflict(newby.plan())
    assert (conflict.rule, conflict.pet_id) == ("added-before", newby.pet("Zoe").id)


KINDS = {
    "a new row each": (["Quux"], ["Zorgon"]),
    "three new rows each": (["Quux", "Brock", "Pim"], ["Zorgon", "Tarka", "Wim"]),
    "five new rows each": ([f"Quux {n}" for n in range(5)], [f"Brock {n}" for n in range(5)]),
}


@pytest.mark.parametrize(
    ("names", "suffix", "writes"), pairwise(KINDS, (".xlsx", ".csv"), (True, False))
)
def test_two_people_s_new_rows_in_two_copies_of_an_export_stay_apart(
    desk: Desk, names: str, suffix: str, writes: bool
) -> None:
    """New rows in two copies of an export, in the same places and with the same values but the
    names, never become each other's pets.
    """
    mine, theirs = KINDS[names]
    desk.path = desk.path.with_suffix(suffix)
    desk.export()
    paths = [desk.path, desk.path.with_name(f"copy{suffix}")]
    for path in desk.path.parent.glob(f"{desk.path.name}*"):
        shutil.copy(path, path.with_name(path.name.replace(desk.path.name, paths[1].name)))
    for path, new in zip(paths, (mine, theirs), strict=True):
        desk.path = path
        if suffix == ".csv":
            with path.open("a", encoding="utf-8", newline="") as file:
                file.writelines(f",{name},available,Dogs,,,,\r\n" for name in new)
        else:
            for row, name in enumerate(new, 8):
                desk.write(row, {**NEWBY, "name": name})
        plan = desk.plan()
        sheet = desk.store.read(path)
        report = desk.store.apply(plan, progress=False)
        if writes and path == paths[0]:
            ps.write_back(sheet, report, only_ids=True)
    assert [each.rule for each in plan.conflicts] == ["added-before"] * len(theirs)
    assert not plan.changes
    advice = [each for each in plan.notes if "If all of them are new pets" in each]
    assert len(advice) == (len(theirs) > 1)
    assert all(f"{len(theirs)} rows may be" in each for each in advice)
    assert {*mine} <= {*desk.names()}


def test_a_rename_that_only_the_place_tells_is_named_in_the_plan(newby: Desk) -> None:
    """A rename that only the row's place shows is named in a note, and `add-another` makes the row
    an add.
    """
    pet = newby.pet("Newby")
    newby.write(8, {"name": "Zorgon"})
    plan = newby.plan()
    assert [each.pet_id for each in plan.updates] == [pet.id]
    (note,) = [each for each in plan.notes if each.startswith("Probably renamed:")]
    assert f"(pet {pet.id}, added on 20" in note
    assert "as 'Newby', now 'Zorgon')" in note
    newby.write(8, {"action": "add-another"})
    (add,) = newby.plan().changes
    assert (add.kind, add.after.name) == ("add", "Zorgon")
    newby.apply()
    assert {"Newby", "Zorgon"} <= {*newby.names()}
    newby.write(8, {"action": None})
    assert newby.plan().in_sync


@pytest.mark.parametrize("edit", [{"name": "Newbie"}, {"status": "sold"}])
def test_a_rename_that_more_than_the_place_tells_needs_no_note(newby: Desk, edit: Row) -> None:
    """A rename to a similar name, or an edit with the same name, gets no note."""
    newby.write(8, edit)
    plan = newby.plan()
    assert len(plan.updates) == 1
    assert not [each for each in plan.notes if each.startswith("Probably renamed:")]


RENAMED = (
    {"name": "Vroni"},
    {"name": "Vroni", "status": "sold"},
    {"name": "Vroni", "tags": "shy"},
    {"name": "Vroni", "category": "Cats"},
    {"name": "Rexy", "status": "sold", "category": "Cats", "tags": None},
)


@pytest.mark.parametrize(
    ("edit", "is_whole", "is_more"), pairwise(RENAMED, (True, False), (True, False))
)
def test_a_new_row_of_a_dataframe_that_was_edited_is_not_added_again(
    desk: Desk, edit: Row, is_whole: bool, is_more: bool
) -> None:
    """An edited new row of a DataFrame, in an export or alone, is recognised by its position and
    not added again.
    """
    desk.box.reset(
        [msgspec.structs.replace(pet, name=f"{'MCTAXF'[n]}-Pet") for n, pet in enumerate(SHOP)]
    )
    unsorted = pd.DataFrame([{**LUNA, "name": "Zora"}])
    old = desk.store.snapshot().frame if is_whole else unsorted
    frame = pd.concat([old, pd.DataFrame([REX])], ignore_index=True)
    desk.store.apply(desk.store.plan(frame), progress=False)
    row = len(frame) - 1
    for column, value in edit.items():
        frame.loc[row, column] = value
    if is_more:
        frame.loc[row + 1, ["name", "status", "category"]] = ["Ottokar", "pending", "Birds"]
    plan = desk.store.plan(frame)
    rows = [(each.row, each.pet_id) for each in (*plan.conflicts, *plan.updates)]
    assert rows == [(row, desk.pet("Rex").id)]
    assert [each.after.name for each in plan.adds] == ["Ottokar"] * is_more


def test_other_new_rows_of_another_dataframe_are_new_pets(desk: Desk) -> None:
    """New rows of another DataFrame are adds, because no row connects it with the earlier one."""
    for new in ([REX, LUNA], [{**REX, "name": "Vroni"}, {**LUNA, "name": "Otto"}]):
        plan = desk.store.plan(pd.DataFrame(new))
        assert len(plan.adds) == 2
        desk.store.apply(plan, progress=False)


@pytest.mark.parametrize("new", [[REX], [REX, LUNA]])
def test_renamed_rows_of_a_dataframe_are_not_added_again(desk: Desk, new: list[Row]) -> None:
    """Rows of a DataFrame that were only renamed are conflicts, not adds."""
    desk.store.apply(desk.store.plan(pd.DataFrame(new)), progress=False)
    plan = desk.store.plan(pd.DataFrame([{**row, "name": f"{row['name']} II"} for row in new]))
    assert not plan.changes
    assert [each.pet_id for each in plan.conflicts] == [desk.pet(str(r["name"])).id for r in new]


def test_a_row_in_the_place_of_one_that_a_run_no_longer_saw_is_new(newby: Desk) -> None:
    """After a run of the sheet without an added row, a new row in its place is an add."""
    newby.edit(lambda sheet: sheet.delete_rows(8))
    newby.write(2, {"status": "sold"})
    assert newby.apply().exit_code == 0
    newby.write(8, {**NEWBY, "name": "Zorgon"})
    plan = newby.plan()
    assert [each.after.name for each in plan.adds] == ["Zorgon"]
    assert not plan.updates
    assert not plan.conflicts


def test_a_renamed_row_is_not_taken_for_its_neighbour_that_was_taken_out(three: Desk) -> None:
    """A renamed row is not taken for a removed neighbour with equal values: it is a conflict."""
    three.edit(lambda sheet: sheet.delete_rows(9))
    three.write(9, {"name": "Otto"})
    for row, name in enumerate(("Dora", "Emil"), 10):
        three.write(row, {"name": name, "status": "available"})
    plan = three.plan()
    assert 9 in {each.row for each in plan.conflicts}
    assert not plan.updates


def _sold_in_a_copy(three: Desk) -> None:
    """Set Ben to sold in a copy and apply it; the workbook keeps its values."""
    mine = three.path
    three.path = Path(shutil.copy(mine, mine.with_name("copy.xlsx")))
    three.write(9, {"status": "sold"})
    three.apply()
    assert three.pet("Ben").status == "sold"
    three.path = mine


def test_a_new_row_of_two_copies_keeps_what_was_agreed_on_in_each(three: Desk) -> None:
    """If two copies edit an added row, the second value is a conflict at each apply."""
    _sold_in_a_copy(three)
    three.write(9, {"status": "pending"})
    for _ in range(3):
        assert [each.rule for each in three.plan().conflicts] == ["both-changed"]
        assert three.apply().exit_code == 5
    assert three.pet("Ben").status == "sold"


@pytest.mark.parametrize("is_copy", [True, False])
def test_an_unedited_new_row_does_not_revert_what_a_copy_edited(three: Desk, is_copy: bool) -> None:
    """An unedited added row does not revert an edit from a copy, even if other rows of its file
    change.
    """
    third = shutil.copy(three.path, three.path.with_name("third.xlsx"))
    _sold_in_a_copy(three)
    three.path = Path(third) if is_copy else three.path
    for row in (2, 3, 4):
        three.write(row, {"status": "sold"})
        assert three.apply().exit_code == 0
        assert three.pet("Ben").status == "sold"


def _stopped(desk: Desk) -> None:
    """Apply the sheet, and stop the run before anything is added."""
    plan = desk.plan()
    desk.box.set_faults("portal=1,only=findPetsByStatus")
    with pytest.raises(PetsyncError):
        desk.store.apply(plan, progress=False)
    desk.box.set_faults(None)


def test_a_row_in_the_place_of_one_that_a_stopped_run_left_may_be_an_added_one(
    book: Desk,
) -> None:
    """A row that a stopped run did not add leaves no mark: an added row renamed and moved to its
    place is a conflict.
    """
    rex = book.pet("Rex")
    book.edit(lambda sheet: sheet.insert_rows(2))
    book.write(2, NEWBY)
    _stopped(book)
    book.edit(lambda sheet: sheet.delete_rows(2))
    book.write(8, {"name": "Vroni"})
    book.edit(_move_up)
    conflict = only_conflict(book.plan())
    assert (conflict.row, conflict.pet_id) == (2, rex.id)


def test_a_row_that_a_later_run_added_is_none_that_a_stopped_run_left(book: Desk) -> None:
    """A row that a stopped run did not reach and a later run added is settled: a new row next to it
    is an add.
    """
    book.write(10, {**LUNA, "action": "ignore"})
    book.write(9, NEWBY)
    _stopped(book)
    (note,) = [each for each in book.plan().notes if "stopped before" in each]
    assert "Pets!A9" in note
    book.write(9, {"status": "sold"})
    book.apply()
    book.write(10, {**NEWBY, "name": "Other", "tags": None, "action": None})
    plan = book.plan()
    assert [each.after.name for each in plan.adds] == ["Other"]
    assert not [each for each in plan.notes if "stopped before" in each]


@dataclass
class Diary:
    """A person's daily work in a workbook.

    Each added row keeps a mark in column I; `owner` gives the mark for each name that its row ever
    had.
    """

    desk: Desk
    random: Random
    owner: dict[str, str]

    @classmethod
    def begin(cls, desk: Desk, seed: int) -> Diary:
        """Return the diary of an export of six pets with unordered names."""
        desk.box.reset(
            [
                msgspec.structs.replace(pet, name=f"{'MCTAXF'[n]}-Pet {pet.id}")
                for n, pet in enumerate(SHOP)
            ]
        )
        desk.path = desk.path.with_suffix(".xlsx")
        desk.export()
        desk.edit(lambda sheet: _set(sheet, 1, 9, "ref"))
        return cls(desk, Random(seed), {})

    def word(self, ref: str) -> str:
        """Return a new name for a row."""
        name = "".join(self.random.choices("abdefgiklmnoprstuz", k=8)).capitalize()
        self.owner[name] = ref
        return name

    def work(self, sheet: Worksheet) -> None:
        """Edit two rows, insert new ones, and perhaps sort the sheet."""
        random = self.random
        rows = [[cell.value for cell in row[:9]] for row in sheet.iter_rows(min_row=2)]
        rows = [row for row in rows if row[1]]
        own = [row for row in rows if row[8]]
        for row in random.sample(own, min(len(own), 2)):
            what = random.choice(("name", "status", "category", "tags"))
            row[1] = self.word(row[8]) if what == "name" else row[1]
            row[2] = random.choice(("sold", "pending")) if what == "status" else row[2]
            row[3] = random.choice(("Dogs", "Cats")) if what == "category" else row[3]
            row[5] = random.choice(("calm", "calm; big", "shy")) if what == "tags" else row[5]
        for _ in range(random.choice((1, 3))):
            ref = f"row {len(self.owner)}"
            new = [None, self.word(ref), "available", random.choice(("Dogs", None)), None]
            at = random.choice((len(rows), len(rows), random.randrange(len(rows))))
            rows.insert(at, [*new, random.choice(("calm; big", None)), None, None, ref])
        if random.random() < 0.5:
            key = random.choice((1, 2, 3))
            rows.sort(key=lambda row: str(row[key] or "~"), reverse=random.random() < 0.3)
        _write(sheet, rows)

    def marks(self, without: Collection[int] = ()) -> list[str]:
        """Return the marks of the rows, except for the rows in `without`."""
        sheet = load_workbook(self.desk.path).worksheets[0]
        marks = {row: sheet.cell(row, 9).value for row in range(2, sheet.max_row + 1)}
        return [ref for row, ref in marks.items() if ref and row not in without]

    def pets(self) -> dict[int, str]:
        """Return the mark of the row that added each pet, by the pet's id."""
        pets = {pet.id or 0: pet.name or "" for pet in self.desk.box.pets()}
        return {n: self.owner[name] for n, name in pets.items() if n > len(SHOP)}

    def apply(self) -> ps.Report:
        """Apply the workbook, and check that each row has one pet or is in conflict."""
        plan = self.desk.plan()
        report = self.desk.store.apply(plan, progress=False)
        there = [*self.pets().values()]
        assert sorted(there) == sorted(set(there))
        assert {*self.marks({c.row for c in plan.conflicts if c.row is not None})} <= {*there}
        return report


@pytest.mark.parametrize("seed", [0, 1, 8, 58])
def test_each_row_has_one_pet_or_is_in_conflict(desk: Desk, seed: int) -> None:
    """Over days of edits, sorting and new rows, each row has exactly one pet or is in conflict."""
    diary = Diary.begin(desk, seed)
    for _ in range(4):
        desk.edit(diary.work)
        diary.apply()


@pytest.mark.parametrize("seed", [0, 1, 8, 22, 46])
def test_each_row_has_one_pet_in_copies_and_after_an_undo(desk: Desk, seed: int) -> None:
    """With removed rows, copies, older files and undone runs, no pet becomes another row's unless
    its own row was removed.
    """
    diary = Diary.begin(desk, seed)
    random, files, gone = diary.random, [desk.path], set[str]()
    before: dict[int, str] = {}

    def take_out(sheet: Worksheet) -> None:
        row = random.choice([n for n in range(2, sheet.max_row + 1) if sheet.cell(n, 9).value])
        gone.add(str(sheet.cell(row, 9).value))
        sheet.delete_rows(row)

    for day in range(6):
        desk.path = random.choice(files)
        desk.edit(diary.work)
        if random.random() < 0.3:
            desk.edit(take_out)
        report = diary.apply()
        now = diary.pets()
        assert {ref for n, ref in before.items() if now.get(n, ref) != ref} <= gone
        if report.plan.changes and random.random() < 0.3:
            undo = desk.store.undo(report.run_id, guard=ps.Guard(max_delete=ps.Limit(1.0)))
            desk.store.apply(undo, progress=False)
            # In every other file, an undone row would be a new row.
            files = [desk.path]
        elif random.random() < 0.4:
            files.append(Path(shutil.copy(desk.path, desk.path.with_name(f"day {day}.xlsx"))))
        before = diary.pets()


@pytest.mark.parametrize("faults", ["portal=1", "503=1,only=getPetById"])
def test_an_edit_that_did_not_arrive_is_sent_again(book: Desk, faults: str) -> None:
    """An edit of an added row whose run failed is sent by the next run."""
    book.write(9, LUNA)
    book.apply()
    book.write(9, {"status": "pending"})
    plan = book.plan()
    book.box.set_faults(faults)
    assert book.store.apply(plan, progress=False).exit_code != 0
    book.box.set_faults(None)
    assert book.apply().exit_code == 0
    assert book.pet("Luna").status == "pending"
    assert book.plan().in_sync


def test_a_clash_of_a_new_row_stays_one(book: Desk) -> None:
    """A clash between an added row and its pet is a conflict at each apply."""
    book.write(9, LUNA)
    book.apply()
    book.write(9, {"status": "pending"})
    pet = book.pet("Luna")
    book.store.api.update_pet(msgspec.structs.replace(pet, status="available"))
    for _ in range(2):
        (conflict,) = book.plan().conflicts
        assert conflict.rule == "both-changed"
        assert book.apply().exit_code == 5
    assert book.pet("Luna").status == "available"


@pytest.fixture(params=["xlsx", "csv", "DataFrame"])
def drafts(desk: Desk, request: pytest.FixtureRequest) -> Callable[[Row], Plan]:
    """Return a function that plans a sheet of this new row and another one."""

    def draft(row: Row) -> Plan:
        if request.param == "DataFrame":
            return desk.store.plan(pd.DataFrame([row, LUNA]))
        if request.param == "csv":
            desk.csv(row, LUNA)
        else:
            desk.path = desk.path.with_suffix(".xlsx")
            if not desk.path.exists():
                desk.export()
            desk.write(8, row)
            desk.write(9, LUNA)
        return desk.plan()

    return draft


@pytest.mark.parametrize("edit", [{}, {"status": "sold"}, {"name": "Rexy"}, {"name": "Otto"}])
def test_a_plan_adds_no_row_that_was_added_since_it_was_made(
    desk: Desk, drafts: Callable[[Row], Plan], edit: Row
) -> None:
    """A plan adds no row that another plan of the same sheet added since; a row that may be the
    same is a conflict.
    """
    older, newer = drafts(REX), drafts({**REX, **edit})
    desk.store.apply(newer, progress=False)
    rex = desk.pet(str(edit.get("name", "Rex")))
    desk.box.reset(
        [*(p for p in desk.box.pets() if p != rex), msgspec.structs.replace(rex, tags=())]
    )
    before = desk.box.pets()
    report = desk.store.apply(older, progress=False)
    assert desk.box.pets() == before
    # The same bytes have the same rows; a DataFrame has no name.
    is_sure = not edit and older.source_digest
    assert report.exit_code == (0 if is_sure else 5)
    assert all("since this plan was made" in each.message for each in report.results)


@pytest.mark.parametrize("edit", [{}, {"name": "Otto"}])
def test_a_run_killed_at_its_start_adds_no_row_that_was_added_before_it(
    desk: Desk, drafts: Callable[[Row], Plan], edit: Row
) -> None:
    """The resume of a run that was killed before it recorded anything adds no row that another plan
    of the same sheet added first, even if its pet was edited since.
    """
    older, newer = drafts(REX), drafts({**REX, **edit})
    desk.store.apply(newer, progress=False)
    added = [pet for pet in desk.box.pets() if pet not in SHOP]
    renamed = [msgspec.structs.replace(pet, name=f"{pet.name} II", tags=()) for pet in added]
    desk.box.reset([*SHOP, *renamed])
    report = desk.store.apply(older, progress=False)
    with closing(sqlite3.connect(desk.path.with_name("state") / "journal.db")) as journal, journal:
        # This is what a process leaves that is killed just after the start of its run.
        journal.execute("DELETE FROM change WHERE run = ?", (report.run_id,))
        journal.execute("UPDATE sitting SET ended = '' WHERE run = ?", (report.run_id,))
    resumed = desk.store.resume(report.run_id, progress=False, settle=0)
    assert resumed.results == report.results
    assert desk.box.pets() == [*SHOP, *renamed]


def test_runs_keep_their_order_if_the_clock_is_set_back(list_: Desk) -> None:
    """If the clock is set back between two runs, the later one is still the newest: an undo counts
    after its run, and the sheet is planned as after any undo.
    """
    store, path = list_.store, list_.path.with_name("state") / "journal.db"
    first = str(store.runs()["id"].iloc[0])
    with closing(sqlite3.connect(path)) as journal, journal:
        *values, _ = journal.execute(f"SELECT {_RUN_COLUMNS} FROM run").fetchone()
        values[6] = (datetime.fromisoformat(values[6]) + timedelta(hours=1)).isoformat()
        seal = row_checksum(tuple(values))
        journal.execute("UPDATE run SET started = ?, seal = ?", (values[6], seal))
    undo = store.apply(store.undo(guard=ps.Guard(max_delete=ps.Limit(1.0))), progress=False)
    assert store.runs()["id"].tolist() == [undo.run_id, first]
    plan = list_.plan()
    assert [change.kind for change in plan.changes] == ["add", "add"]
    report = store.apply(plan, progress=False)
    assert list_.plan().in_sync
    assert store.undo().undoes == report.run_id


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE change SET assigned_id = assigned_id + 1",
        "UPDATE change SET after = replace(after, 'Rex', 'Max')",
        "UPDATE change SET found = '{'",
        "UPDATE run SET payload = zeroblob(9)",
        "UPDATE run SET started = 'yesterday'",
    ],
)
def test_no_damaged_record_of_a_row_is_used(
    list_: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """A plan is refused if the journal's records of its rows are damaged; with another state
    folder, a warning names the journal that is left out.
    """
    state = list_.path.with_name("state")
    with closing(sqlite3.connect(state / "journal.db")) as journal, journal:
        journal.execute(damage)
    with pytest.raises(PetsyncError, match="damaged"):
        list_.plan()
    with ps.connect(list_.box.url, state=tmp_path / "elsewhere") as other:
        other.plan(list_.path)
    assert f"Skipped the runs in {state}: " in caplog.text


@pytest.mark.parametrize("folder", ["state", "elsewhere"])
def test_a_plan_made_during_a_run_adds_no_row_of_the_run(
    desk: Desk, tmp_path: Path, folder: str
) -> None:
    """A plan of the edited sheet that is made while a run adds its rows adds none of them again,
    also with another state folder.
    """
    rows = [{**REX, "name": f"Rex {n}"} for n in range(12)]
    desk.csv(*rows)
    plan = desk.plan()
    later: list[Plan] = []

    def edit(_: object) -> None:
        if not later and len(desk.names()) > len(SHOP):
            desk.csv(*({**row, "name": f"{row['name']} II", "tags": ""} for row in rows))
            with ps.connect(desk.box.url, state=tmp_path / folder) as other:
                later.append(other.plan(desk.path))

    desk.store.apply(plan, on_progress=edit, concurrency=1, progress=False)
    names = desk.names()
    assert len(names) == len(SHOP) + 12
    assert later[0].adds
    with ps.connect(desk.box.url, state=tmp_path / folder) as other:
        assert other.apply(later[0], progress=False).exit_code == 5
    assert desk.names() == names


def test_a_plan_of_a_copy_adds_no_row_that_was_added_from_the_other(
    desk: Desk, tmp_path: Path
) -> None:
    """A plan adds no row that was added from an edited copy of its sheet: the row is a conflict."""
    desk.path = desk.path.with_suffix(".xlsx")
    desk.export()
    desk.write(8, REX)
    older = desk.plan()
    copy = tmp_path / "copy.xlsx"
    shutil.copy(desk.path, copy)
    desk.path = copy
    desk.write(8, {"name": "Rexton"})
    desk.apply()
    names = desk.names()
    assert desk.store.apply(older, progress=False).exit_code == 5
    assert desk.names() == names


def test_parts_of_a_plan_add_all_of_its_rows(desk: Desk) -> None:
    """Overlapping parts of a plan add each row exactly once, two equal rows included."""
    twin = {**REX, "action": "add-another"}
    desk.csv(twin, twin, LUNA)
    plan = desk.plan()
    for numbers in ([0], [0, 1], [0, 1, 2]):
        part = plan.select(numbers=numbers)
        assert desk.store.apply(part, progress=False).exit_code == 0
    assert desk.names() == sorted([*(str(pet.name) for pet in SHOP), "Rex", "Rex", "Luna"])
