"""Rows that move, within a folder and from one job's sheet to another's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pandas as pd
import pytest
from openpyxl import Workbook, load_workbook
from pairwise import each_choice, pairwise
from rounds.sheet import Grid, read_grid
from scenarios import PETS, Scenario, changed, kinds, read_pets

import petsync as ps
from petsync import sheets
from petsync.plan.guard import Guard, Limit
from petsync.plan.report import Rounds
from petsync.plan.rounds import Difference, Round
from petsync.reconcile import round as round_of_jobs
from petsync.reconcile.compare import Comparer
from petsync.reconcile.round import reconcile_jobs
from petsync.reconcile.state import BaseFile, History, StatePaths
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

OPEN = Guard(max_delete=Limit(12, is_share=False))
NEWER = changed(PETS, 5, name="Mia", photo_urls=("https://shop.example/new.jpg",))[4]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


class TwoSheetScenario(Scenario):
    """A folder with two sheets: a.csv has the pets 1-6 and b.csv the pets 7-12; or two jobs, each
    with one of the sheets and the pets of one status.
    """

    def put(self, name: str, pets: Iterable[ps.Pet]) -> None:
        """Write a sheet."""
        (self.folder / "in").mkdir(exist_ok=True)
        ps.write_sheet(ps.frame_from_pets(pets), self.folder / "in" / name, base=False)

    def rounds(self) -> Rounds:
        """Run one round of each sheet in the folder."""
        job = self.job("inbox", folder=self.folder / "in", sheet=None, files="*.csv")
        return reconcile_jobs(self.config(job))

    def both(self) -> Rounds:
        """Run one round of each of the two jobs."""
        jobs = [
            self.job(name, sheet=self.folder / "in" / f"{name}.csv", statuses=(status,))
            for name, status in (("a", "available"), ("b", "sold"))
        ]
        return reconcile_jobs(self.config(*jobs))

    def row(self, name: str, pet_id: int) -> ps.Pet | None:
        """Return the pet in a sheet, or None if no row has its id."""
        pets = read_pets(self.folder / "in" / name, self.box)
        return next((pet for pet in pets if pet.id == pet_id), None)


def _rename(path: Path, old: str, new: str) -> None:
    grid = read_grid(path)
    grid.head[grid.head.index(old)] = new
    grid.save()


def _move(folder: Path, source: str, target: str, pet_id: int, cells: Mapping[str, str]) -> None:
    """Move a pet's row to the end of another file, with these cells changed."""
    old, new = read_grid(folder / source), read_grid(folder / target)
    row = next(row for row in old.rows if row[0] == str(pet_id))
    old.rows.remove(row)
    new.rows.append([cells.get(name, text) for name, text in zip(old.head, row, strict=True)])
    for grid in (old, new):
        grid.save()


def _keep_until(name: str, *, is_stored: bool) -> Callable[..., None]:
    """Return a BaseFile.keep that is interrupted at this base, before or after it is stored."""
    keep = BaseFile.keep

    def stopping(file: BaseFile, *args: Any) -> None:
        if file.path.name != name or is_stored:
            keep(file, *args)
        if file.path.name == name:
            raise KeyboardInterrupt

    return stopping


def _without(cells: list[str], at: int) -> list[str]:
    return [*cells[:at], *cells[at + 1 :]]


def _build_two_sheets(box: Sandbox, folder: Path, mode: str = "two-way") -> TwoSheetScenario:
    """Return two sheets that agree with the store after one round."""
    box.set_faults(None)
    box.reset(PETS)
    scenario = TwoSheetScenario(box, folder, {"mode": mode, "delete_missing": True})
    scenario.put("a.csv", PETS[:6])
    scenario.put("b.csv", PETS[6:])
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]
    return scenario


def _inbox(scenario: TwoSheetScenario, source: str, target: str) -> None:
    """Move the row of pet 5 (from a.csv) or 8 (from b.csv)."""
    moved = PETS[4] if source == "a.csv" else PETS[7]
    of = {"a.csv": PETS[:6], "b.csv": PETS[6:]}
    scenario.put(source, [pet for pet in of[source] if pet.id != moved.id])
    scenario.put(target, [*of[target], moved])


@pytest.mark.parametrize(("source", "target"), [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_a_row_that_moves_in_a_folder_takes_its_base_along(
    box: Sandbox, tmp_path: Path, source: str, target: str
) -> None:
    """A row that moves within a folder keeps its base: the store's changes reach the row at its new
    place, nothing is deleted, and the old sheet's base no longer has the row.
    """
    scenario = _build_two_sheets(box, tmp_path)
    pet_id = 5 if source == "a.csv" else 8
    newer = changed(PETS, pet_id, name="Mia", status="sold")[pet_id - 1]
    scenario.box.put(newer)
    _inbox(scenario, source, target)
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets()[pet_id] == newer == scenario.row(target, pet_id)
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]
    assert len(scenario.store_pets()) == len(PETS)
    # A row that is removed from its new sheet deletes its pet, because the old base lacks it. The
    # rows are in another order; otherwise the file would be an older copy.
    scenario.put(target, reversed(PETS[6:] if target == "b.csv" else PETS[:6]))
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets().keys() == {pet.id for pet in PETS} - {pet_id}


@pytest.mark.parametrize(
    ("files", "is_carried", "comes", "newer"),
    pairwise(
        [("a.csv", "b.csv"), ("b.csv", "a.csv")],
        [True, False],
        ["before", "after"],
        [
            ("tags", (ps.Tag(77, "new"),)),
            ("status", "pending"),
            ("photo_urls", ("https://shop.example/new.jpg",)),
        ],
    ),
)
def test_a_row_that_moves_while_a_column_is_away_takes_the_newer_value(
    box: Sandbox,
    tmp_path: Path,
    files: tuple[str, str],
    is_carried: bool,
    comes: str,
    newer: tuple[str, Any],
) -> None:
    """A value of the store that came before or after a row moved to a sheet in which its column has
    another header reaches the row, whether its old value moved along below that header or not.
    """
    scenario = _build_two_sheets(box, tmp_path)
    column, value = newer
    pet_id = 5 if files[0] == "a.csv" else 8
    pet = changed(PETS, pet_id, **{column: value})[pet_id - 1]
    old, new = (tmp_path / "in" / name for name in files)
    _rename(new, column, "away")
    scenario.rounds()
    if comes == "before":
        scenario.box.put(pet)
    grids = read_grid(old), read_grid(new)
    row = next(row for row in grids[0].rows if row[0] == str(pet_id))
    grids[0].rows.remove(row)
    at = grids[1].head.index("away")
    grids[1].rows.append([*row[:at], row[at] if is_carried else "", *row[at + 1 :]])
    for grid in grids:
        grid.save()
    scenario.rounds()
    if comes == "after":
        scenario.box.put(pet)
        scenario.rounds()
    _rename(new, "away", column)
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets()[pet_id] == pet == scenario.row(files[1], pet_id)
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]


@each_choice
@pytest.mark.parametrize(
    ("column", "value"), [("status", "pending"), ("tags", (ps.Tag(77, "new"),)), ("name", "Mia")]
)
@pytest.mark.parametrize("how", ["new file", "other file", "renamed file"])
def test_a_column_that_a_moved_row_left_behind_reverts_nothing(
    box: Sandbox, tmp_path: Path, how: str, column: str, value: Any
) -> None:
    """A row that moves to a file without one of its columns takes the store's newer value when the
    column comes back with its old cells. If the row is removed before, its pet is not deleted.
    """
    scenario = _build_two_sheets(box, tmp_path)
    old, new = tmp_path / "in" / "a.csv", tmp_path / "in" / "c.csv"
    grid = read_grid(old)
    at = grid.head.index(column)
    cells = {row[0]: row[at] for row in grid.rows}
    if how == "other file":
        scenario.put("c.csv", [])
        other = read_grid(new)
        other.head.remove(column)
        other.save()
        scenario.rounds()
    moved = grid.rows if how == "renamed file" else [row for row in grid.rows if row[0] in "56"]
    Grid(new, _without(grid.head, at), [_without(row, at) for row in moved]).save()
    grid.rows = [row for row in grid.rows if row not in moved]
    grid.save()
    if how == "renamed file":
        old.unlink()
    for pet_id in (5, 6):
        scenario.box.put(changed(PETS, pet_id, **{column: value})[pet_id - 1])
    stored = scenario.store_pets()
    report = scenario.rounds()
    assert report.exit_code == 0
    assert any(f"now missing: {column}." in each.problem for one in report for each in one.open)
    grid = read_grid(new)
    grid.rows = [row for row in grid.rows if row[0] != "6"]
    grid.save()
    report = scenario.rounds()
    assert report.exit_code == 5
    assert ("conflict", 6) in [pair for one in report for pair in kinds(one)]
    grid.head.append(column)
    grid.rows = [[*row, cells[row[0]]] for row in grid.rows]
    grid.save()
    scenario.rounds()
    assert scenario.store_pets() == stored
    assert scenario.row("c.csv", 5) == stored[5]


@each_choice
@pytest.mark.parametrize(("source", "target"), [("a.csv", "b.csv"), ("b.csv", "a.csv")])
@pytest.mark.parametrize("is_stored", [True, False])
def test_an_edit_of_a_row_that_moves_back_is_sent(
    box: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    target: str,
    is_stored: bool,
) -> None:
    """A row moves, and its round is killed while the bases are stored. If the row moves back with
    the value of its old base, that is an edit, and it is sent.
    """
    scenario = _build_two_sheets(box, tmp_path)
    pet_id = 5 if source == "a.csv" else 8
    was = PETS[pet_id - 1].status or ""
    other = "available" if was != "available" else "pending"
    _move(tmp_path / "in", source, target, pet_id, {})
    with monkeypatch.context() as patch:
        patch.setattr(BaseFile, "keep", _keep_until(f"inbox--{target}.base", is_stored=is_stored))
        assert scenario.rounds().exit_code == 7
    assert scenario.rounds().exit_code == 0
    # What the store changes in the other rows shows that neither file is an older copy.
    for pet in (PETS[0], PETS[11]):
        scenario.box.put(changed([pet], pet.id or 0, name=f"Store {pet.id}")[0])
    grid = read_grid(tmp_path / "in" / target)
    row = next(row for row in grid.rows if row[0] == str(pet_id))
    row[grid.head.index("status")] = other
    grid.save()
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets()[pet_id].status == other
    _move(tmp_path / "in", target, source, pet_id, {"status": was})
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets()[pet_id].status == was
    row_pet = scenario.row(source, pet_id)
    assert row_pet is not None
    assert row_pet.status == was


@pytest.mark.parametrize("column", ["category_id", "tags"])
def test_a_row_moves_to_a_sheet_that_lacks_a_column(
    box: Sandbox, tmp_path: Path, column: str
) -> None:
    """A row may move to a sheet without a column of its former sheet, whose other rows keep their
    values there, also a number beyond 2^53.
    """
    scenario = _build_two_sheets(box, tmp_path)
    newer = changed(PETS, 1, category=ps.Category((1 << 53) + 1, "Cats"), tags=(ps.Tag(2, "shy"),))[
        0
    ]
    box.put(newer)
    assert {each.round.status for each in scenario.rounds()} == {"done", "in-sync"}
    old, new = (read_grid(tmp_path / "in" / name) for name in ("a.csv", "b.csv"))
    at = new.head.index(column)
    new.head, new.rows = _without(new.head, at), [_without(row, at) for row in new.rows]
    new.rows.append(_without(old.rows.pop(), at))
    for grid in (new, old):
        grid.save()
    assert {each.round.status for each in scenario.rounds()} == {"in-sync"}
    assert scenario.row("a.csv", 1) == newer
    assert scenario.row("b.csv", 6) is not None
    assert len(scenario.store_pets()) == len(PETS)


def test_a_row_waits_for_its_new_sheet(box: Sandbox, tmp_path: Path) -> None:
    """If the round of a row's new sheet fails, the old sheet's base keeps the row until that round
    succeeds.
    """
    scenario = _build_two_sheets(box, tmp_path)
    scenario.box.put(NEWER)
    _inbox(scenario, "a.csv", "b.csv")
    lock = tmp_path / "in" / ".~lock.b.csv#"
    lock.write_text("somebody", "utf-8")
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "error"]
    lock.unlink()
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets()[5] == NEWER == scenario.row("b.csv", 5)


def test_a_sheet_of_another_name_keeps_its_base(box: Sandbox, tmp_path: Path) -> None:
    """A file of a folder that is renamed keeps its base, and its round is not a first round."""
    scenario = _build_two_sheets(box, tmp_path)
    scenario.box.put(NEWER)
    (tmp_path / "in" / "a.csv").rename(tmp_path / "in" / "z 2026.csv")
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets()[5] == NEWER == scenario.row("z 2026.csv", 5)


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_an_older_base_does_not_hide_an_edit_of_a_row_that_moves(
    box: Sandbox, tmp_path: Path, is_cut_off: bool
) -> None:
    """A row that is set back to an earlier value and moves is an edit, although the base of an
    earlier round has that value, and so may a temporary file of a killed round.
    """
    scenario = _build_two_sheets(box, tmp_path)
    base = StatePaths(scenario.state).base("inbox", "b.csv")
    older = base.read_bytes()
    pets = changed(PETS, 8, status="pending")
    scenario.put("b.csv", pets[6:])
    scenario.box.put(pets[7])
    assert scenario.rounds().exit_code == 0
    if is_cut_off:
        assert scenario.rounds().exit_code == 0
        base.with_name(f".{base.name}.0123456789ab.tmp").write_bytes(older)
    _inbox(scenario, "b.csv", "a.csv")
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets()[8] == PETS[7] == scenario.row("a.csv", 8)


def test_a_row_without_its_id_is_not_deleted_as_it_moves(box: Sandbox, tmp_path: Path) -> None:
    """A row that loses its id while it moves neither deletes nor doubles its pet."""
    scenario = _build_two_sheets(box, tmp_path)
    scenario.put("a.csv", [*PETS[:6], ps.Pet(name="Pet 8", status=PETS[7].status)])
    scenario.put("b.csv", [pet for pet in PETS[6:] if pet.id != 8])
    scenario.rounds()
    assert scenario.store_pets()[8] == PETS[7]


BLANK = {"id": "", "category": "Birds", "category_id": "", "tags": "", "photo_urls": ""}


@pytest.mark.parametrize(
    ("mode", "files", "cells"),
    pairwise(
        ["two-way", "push"],
        [("a.csv", "b.csv"), ("b.csv", "a.csv")],
        [BLANK, {"id": "", "name": "Rex"}, {"id": ""}],
    ),
)
def test_a_row_that_loses_its_id_and_is_edited_as_it_moves_is_a_conflict(
    box: Sandbox, tmp_path: Path, mode: str, files: tuple[str, str], cells: Mapping[str, str]
) -> None:
    """A row that moves to another file without its id and is edited there, or whose pet the store
    changes, may be that pet: it is not added, and the pet is not deleted.
    """
    scenario = _build_two_sheets(box, tmp_path, mode)
    source, target = files
    pet_id = 5 if source == "a.csv" else 8
    _move(tmp_path / "in", source, target, pet_id, cells)
    if len(cells) == 1:
        scenario.box.put(changed(PETS, pet_id, name="Store", tags=())[pet_id - 1])
    stored = scenario.store_pets()
    for _ in range(2):
        report = scenario.rounds()
        assert report.exit_code == 5
        assert ("conflict", pet_id) in [pair for one in report for pair in kinds(one)]
        assert scenario.store_pets() == stored
    grid = read_grid(tmp_path / "in" / target)
    grid.rows[-1][grid.head.index("id")] = str(pet_id)
    grid.save()
    assert scenario.rounds().exit_code == 0
    assert scenario.store_pets().keys() == stored.keys()
    assert scenario.store_pets()[pet_id].photo_urls == stored[pet_id].photo_urls


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_row_that_loses_its_id_as_it_moves_to_another_job_is_a_conflict(
    jobs: TwoSheetScenario, name: str
) -> None:
    """A row that moves to another job's sheet without its id, edited, is not added."""
    source, target = ("a.csv", "b.csv") if name == "a" else ("b.csv", "a.csv")
    pet = next(each for each in PETS if jobs.row(source, each.id or 0))
    status = "sold" if name == "a" else "available"
    _move(jobs.folder / "in", source, target, pet.id or 0, {**BLANK, "status": status})
    for _ in range(2):
        assert jobs.both().exit_code == 5
        assert len(jobs.store_pets()) == len(PETS)
        assert jobs.store_pets()[pet.id or 0] == pet


def test_an_unreadable_sheet_of_another_job_hides_no_row_of_its_other_sheets(
    box: Sandbox, tmp_path: Path
) -> None:
    """A row without an id is added beside a pet of the same name in a readable sheet of another
    job, although an earlier sheet of that job cannot be read.
    """
    box.set_faults(None)
    box.reset(PETS)
    scenario = TwoSheetScenario(box, tmp_path, {"mode": "two-way"})
    for name, status in (("a.csv", "available"), ("b.csv", "pending")):
        scenario.put(name, [pet for pet in PETS if pet.status == status])
    scenario.write(pet for pet in PETS if pet.status == "sold")
    others = scenario.job("others", folder=tmp_path / "in", sheet=None, files="*.csv")
    config = scenario.config(others, scenario.job("sold", statuses=("sold",)))
    reconcile_jobs(config)
    (tmp_path / "in" / "a.csv").write_bytes(b"")
    _type(scenario, "../catalogue.csv", {"name": "Pet 4", "status": "sold", "category": "Birds"})
    report = reconcile_jobs(config, job="sold")[0]
    assert (report.round.exit_code, report.round.conflicts) == (0, 0)
    assert _new(scenario) == ["Pet 4"]


QUUX = {"name": "Quux", "status": "sold", "category": "Dogs"}


def _type(
    scenario: TwoSheetScenario, name: str, cells: Mapping[str, str], *, over: str = ""
) -> None:
    """Add a row to a sheet, or replace its rows without an id that have the name `over`."""
    path = scenario.folder / "in" / name
    rows = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    rows = rows[~((rows["id"] == "") & (rows["name"] == over))]
    more = pd.DataFrame([cells] if cells else [])
    pd.concat([rows, more]).fillna("").to_csv(path, index=False)


def _new(scenario: TwoSheetScenario) -> list[str | None]:
    """Return the names of the pets that were added."""
    return [pet.name for number, pet in scenario.store_pets().items() if number > len(PETS)]


@each_choice
@pytest.mark.parametrize(("mode", "name"), [("two-way", "a.csv"), ("push", "b.csv")])
@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ({}, ["Quux"]),
        ({**QUUX, "name": "Zorro"}, ["Quux", "Zorro"]),
        ({**QUUX, "action": "add-another"}, ["Quux", "Quux"]),
    ],
)
def test_a_new_row_in_two_files_waits_for_a_person(
    box: Sandbox,
    tmp_path: Path,
    mode: str,
    name: str,
    then: Mapping[str, str],
    expected: Sequence[str],
) -> None:
    """A new row in two files is held in both, each naming the other, and the other rows go on. The
    next round follows the person's edit of one of them, and no id is in two rows.
    """
    scenario = _build_two_sheets(box, tmp_path)
    scenario.options = {**scenario.options, "mode": mode}
    for file in ("a.csv", "b.csv"):
        _type(scenario, file, QUUX)
    _type(scenario, "a.csv", {"name": "Other", "status": "sold"})
    report = scenario.rounds()
    assert [each.round.status for each in report] == ["findings", "findings"]
    assert "b.csv (line 8, column 1)" in report[0].open[0].problem
    assert "a.csv (line 8, column 1)" in report[1].open[0].problem
    assert _new(scenario) == ["Other"]
    # The pet of the first sheet has the values of the other row, so both rows need the action.
    for file in ("a.csv", "b.csv") if "action" in then else [name]:
        _type(scenario, file, then, over="Quux")
    assert scenario.rounds().exit_code == 0
    assert sorted(filter(None, _new(scenario))) == sorted(["Other", *expected])
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]
    sheets = [ps.read_sheet(scenario.folder / "in" / file) for file in ("a.csv", "b.csv")]
    ids = [pet_id for sheet in sheets for pet_id in sheet.frame["id"]]
    assert sorted(ids) == sorted(scenario.store_pets())


@pytest.mark.parametrize("name", ["a.csv", "b.csv"])
def test_a_new_row_is_held_beside_one_whose_round_was_killed(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A new row that is typed in a second file, while the round that added its pet was killed, is
    held and adds no second pet, whichever row stays.
    """
    scenario = _build_two_sheets(box, tmp_path)
    _type(scenario, "a.csv", QUUX)
    with monkeypatch.context() as patch:
        patch.setattr(round_of_jobs, "write", Mock(side_effect=KeyboardInterrupt))
        assert scenario.rounds().exit_code == 7
    _type(scenario, "b.csv", QUUX)
    assert [report.round.status for report in scenario.rounds()] == ["findings", "findings"]
    _type(scenario, name, {}, over="Quux")
    assert scenario.rounds().exit_code == 0
    assert _new(scenario) == ["Quux"]
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]


@each_choice
@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize(
    "edits",
    [
        {"name": "Zoe"},
        {"name": "Zoe", "tags": "small", "status": "sold"},
        {"tags": "small", "status": "sold", "photo_urls": "https://shop.example/other.jpg"},
        {"name": "Zoe", "status": "sold", "photo_urls": "https://shop.example/other.jpg"},
    ],
)
def test_a_new_row_that_moves_after_a_killed_round_is_not_added_again(
    box: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    edits: Mapping[str, str],
    is_replaced: bool,
) -> None:
    """A new row that is edited and moves after the round that added its pet was killed is a
    conflict and adds no second pet, even if another new row is in its place.
    """
    scenario = _build_two_sheets(box, tmp_path)
    row = {**QUUX, "tags": "calm; shy", "photo_urls": "https://shop.example/quux.jpg"}
    _type(scenario, "a.csv", row)
    with monkeypatch.context() as patch:
        patch.setattr(round_of_jobs, "write", Mock(side_effect=KeyboardInterrupt))
        assert scenario.rounds().exit_code == 7
    added = max(scenario.store_pets())
    other = {"name": "Bar", "status": "sold", "category": "Birds"}
    _type(scenario, "a.csv", other if is_replaced else {}, over="Quux")
    _type(scenario, "b.csv", {**row, **edits})
    for _ in range(2):
        report = scenario.rounds()
        assert report[1].round.status == "conflicts"
        assert added in {each.pet_id for each in report[1].open if each.kind == "conflict"}
        assert "Quux" in _new(scenario)
        assert edits.get("name") not in _new(scenario)


@each_choice
@pytest.mark.parametrize("name", ["a.csv", "b.csv"])
@pytest.mark.parametrize("is_seen", [False, True])
def test_a_held_row_that_gets_the_id_is_an_edit(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_seen: bool
) -> None:
    """A held row that gets the id, as its conflict suggests, is an edit and is sent from any
    file.
    """
    scenario = _build_two_sheets(box, tmp_path)
    row = {**QUUX, "tags": "calm; shy", "photo_urls": "https://shop.example/quux.jpg"}
    path = scenario.folder / "in" / "a.csv"
    before = path.read_bytes()
    _type(scenario, "a.csv", row)
    with monkeypatch.context() as patch:
        patch.setattr(round_of_jobs, "write", Mock(side_effect=KeyboardInterrupt))
        assert scenario.rounds().exit_code == 7
    added = max(scenario.store_pets())
    path.write_bytes(before)
    edited = {**row, "name": "Zoe", "tags": "old"}
    _type(scenario, name, edited)
    if is_seen:
        scenario.rounds()
    _type(scenario, name, {**edited, "id": str(added)}, over="Zoe")
    assert scenario.rounds().exit_code == 0
    pet = scenario.store_pets()[added]
    assert (pet.name, [tag.name for tag in pet.tags]) == ("Zoe", ["old"])
    assert scenario.rounds().exit_code == 0


def test_a_new_row_stays_held_beside_a_new_row_of_another_file(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A held row, fully edited after a killed round, stays held while a new row of another file may
    be its pet too, until it gets the id.
    """
    scenario = _build_two_sheets(box, tmp_path)
    row = {**QUUX, "tags": "calm; shy", "photo_urls": "https://shop.example/quux.jpg"}
    _type(scenario, "a.csv", row)
    with monkeypatch.context() as patch:
        patch.setattr(round_of_jobs, "write", Mock(side_effect=KeyboardInterrupt))
        assert scenario.rounds().exit_code == 7
    other = {"status": "sold", "category": "Birds", "photo_urls": "https://shop.example/z.jpg"}
    _type(scenario, "a.csv", {"name": "Zoe", "tags": "old", **other}, over="Quux")
    assert scenario.rounds()[0].round.status == "conflicts"
    _type(scenario, "b.csv", {"name": "Bar", "status": "sold"})
    for name in ("Ida", "Uwe"):
        report = scenario.rounds()
        assert report[0].round.status == "conflicts"
        old = "Zoe" if name == "Ida" else "Ida"
        _type(scenario, "a.csv", {"name": name, "tags": f"old; {name}", "status": "sold"}, over=old)
    assert _new(scenario) == ["Quux"]
    added = max(scenario.store_pets())
    _type(scenario, "a.csv", {"id": str(added), "name": "Uwe", "status": "sold"}, over="Uwe")
    assert scenario.rounds().exit_code == 0
    assert sorted(filter(None, _new(scenario))) == ["Bar", "Uwe"]


@pytest.mark.parametrize("name", ["Pet 5", "Zoe"])
def test_a_pet_is_not_deleted_while_a_row_of_another_file_is_like_it(
    box: Sandbox, tmp_path: Path, name: str
) -> None:
    """The pet of a removed row is not deleted while a row without an id in another file resembles
    it by name or in all but the name, even with the action `ignore`.
    """
    scenario = _build_two_sheets(box, tmp_path)
    scenario.put("a.csv", [pet for pet in PETS[:6] if pet.id != 5])
    cells = {"status": "sold", "category": "Dogs", "tags": "calm", "action": "ignore"}
    _type(scenario, "b.csv", {"name": name, "photo_urls": PETS[4].photo_urls[0], **cells})
    for _ in range(2):
        scenario.rounds()
        assert scenario.store_pets()[5] == PETS[4]


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_a_pet_in_two_files_holds_its_rows_only(box: Sandbox, tmp_path: Path, mode: str) -> None:
    """A pet with rows in two files holds only these rows: the others go on, the pet stays, and the
    remaining row is compared with what was agreed.
    """
    scenario = _build_two_sheets(box, tmp_path)
    scenario.options = {**scenario.options, "mode": mode}
    scenario.put("b.csv", [*PETS[6:11], changed(PETS, 12, name="New")[11], PETS[4]])
    report = scenario.rounds()
    assert [each.round.status for each in report] == ["findings", "findings"]
    assert [each.open[0].pet_id for each in report] == [5, 5]
    assert scenario.store_pets() == {
        **{pet.id: pet for pet in PETS},
        12: changed(PETS, 12, name="New")[11],
    }
    scenario.put("a.csv", [pet for pet in PETS[:6] if pet.id != 5])
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]
    assert scenario.store_pets()[5] == PETS[4]


@pytest.mark.parametrize("statuses", [(), ("available", "sold")])
def test_another_pet_like_that_of_another_file_is_added(
    box: Sandbox, tmp_path: Path, statuses: Sequence[str]
) -> None:
    """A row with the action `add-another` does not get the id of a like pet in another file."""
    scenario = _build_two_sheets(box, tmp_path)
    scenario.options = {**scenario.options, "statuses": statuses}
    box.put(changed(PETS, 6, name="Quux", tags=(), photo_urls=(), status="sold")[5])
    assert scenario.rounds().exit_code == 0
    _type(scenario, "b.csv", {**QUUX, "action": "add-another"})
    assert scenario.rounds().exit_code == 0
    assert _new(scenario) == ["Quux"]
    _type(scenario, "b.csv", {**QUUX, "action": "add"})
    report = scenario.rounds()[1]
    assert report.open[0].kind == "conflict"
    assert _new(scenario) == ["Quux"]


CATS = ps.Category(2, "Cats")


@each_choice
@pytest.mark.parametrize(("source", "target"), [("a.csv", "b.csv"), ("b.csv", "a.csv")])
@pytest.mark.parametrize("number", [2, 77])
def test_a_row_that_moves_keeps_the_number_of_its_category(
    box: Sandbox, tmp_path: Path, source: str, target: str, number: int
) -> None:
    """A category id that is edited before its row moves is sent if the store has that id; otherwise
    it stays in conflict while the new sheet takes other values.
    """
    scenario = _build_two_sheets(box, tmp_path)
    box.put(changed(PETS, 12, category=CATS)[11])
    box.put(changed(PETS, 1, category=CATS)[0])
    assert scenario.rounds().exit_code == 0
    rows = {name: [scenario.row(name, each.id or 0) for each in PETS] for name in (source, target)}
    pet_id = 5 if source == "a.csv" else 8
    moved = changed(PETS, pet_id, category=ps.Category(number, "Dogs"))[pet_id - 1]
    scenario.put(source, [pet for pet in rows[source] if pet and pet.id != pet_id])
    scenario.put(target, [*filter(None, rows[target]), moved])
    beside = 7 if target == "b.csv" else 2
    for name in ("One", "Two"):
        box.put(changed(PETS, beside, name=name)[beside - 1])
        result = [each for night_ in (scenario.rounds(),) for each in night_]
        conflicts = {each.pet_id for one in result for each in one.open if each.kind == "conflict"}
        row = scenario.row(target, pet_id)
        assert row is not None
        assert row.category is not None
        assert row.category.id == number
        assert conflicts == (set() if number == 2 else {pet_id})
    assert scenario.store_pets()[pet_id].category == (CATS if number == 2 else PETS[0].category)


@pytest.fixture
def jobs(box: Sandbox, tmp_path: Path) -> TwoSheetScenario:
    """Return a job for available pets and one for sold pets, after one round."""
    box.set_faults(None)
    box.reset(PETS)
    scenario = TwoSheetScenario(box, tmp_path, {"mode": "two-way", "delete_missing": True})
    for name, status in (("a.csv", "available"), ("b.csv", "sold")):
        scenario.put(name, [pet for pet in PETS if pet.status == status])
    assert [report.round.status for report in scenario.both()] == ["in-sync", "in-sync"]
    return scenario


def _sold(scenario: TwoSheetScenario) -> None:
    """Set pet 3 to sold by moving its row from a.csv to b.csv."""
    sold = changed(PETS, 3, status="sold")
    scenario.put("a.csv", [pet for pet in PETS if pet.status == "available" and pet.id != 3])
    scenario.put("b.csv", [pet for pet in sold if pet.status == "sold"])


def test_a_row_that_a_backup_of_its_new_sheet_lacks_is_not_deleted(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that a backup of its new sheet lacks is not deleted, if the round was killed before the
    first sheet's base gave up the row.
    """
    scenario = _build_two_sheets(box, tmp_path)
    for number in (1, 2):
        box.put(changed(PETS, number, name=f"Store {number}")[number - 1])
    backup = scenario.rounds()[0].round.backup
    scenario.put("a.csv", box.pets()[:7])
    scenario.put("b.csv", PETS[7:])
    with monkeypatch.context() as patch:
        patch.setattr(round_of_jobs, "remove_moved_pets", Mock(side_effect=KeyboardInterrupt))
        scenario.rounds()
    shutil.copy(backup, scenario.folder / "in" / "a.csv")
    for _ in range(3):
        scenario.rounds()
        assert 7 in {pet.id for pet in box.pets()}


@each_choice
@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("names", [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_a_row_that_was_in_a_sheet_before_an_older_copy_is_not_deleted(
    box: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, str],
    is_killed: bool,
) -> None:
    """A pet whose row may have moved into a file before an older copy replaced it stays in conflict
    until its row is back; a row that is removed later deletes its pet.
    """
    scenario, (source, target) = _build_two_sheets(box, tmp_path), names
    for number in (1, 2, 11, 12):
        box.put(changed(PETS, number, name=f"Store {number}")[number - 1])
    backup = {report.round.part: report.round.backup for report in scenario.rounds()}[target]
    of = {"a.csv": box.pets()[:6], "b.csv": box.pets()[6:]}
    moved = of[source].pop(3)
    scenario.put(source, of[source])
    if is_killed:
        scenario.put(target, [*of[target], moved])
        with monkeypatch.context() as patch:
            patch.setattr(Comparer, "snapshot", Mock(side_effect=KeyboardInterrupt))
            scenario.rounds()
    shutil.copy(backup, tmp_path / "in" / target)
    rounds = scenario.rounds()
    assert rounds.exit_code == 5
    assert [(o.kind, o.pet_id) for each in rounds for o in each.open if o.kind != "note"] == [
        ("conflict", moved.id)
    ]
    assert len(scenario.store_pets()) == len(PETS)
    gone = of[source].pop(0)
    scenario.put(source, of[source])
    rounds = scenario.rounds()
    assert rounds.exit_code == 5
    assert {o.pet_id for each in rounds for o in each.open if o.kind == "conflict"} == {moved.id}
    assert scenario.store_pets().keys() == {pet.id for pet in PETS} - {gone.id}
    scenario.put(source, [*of[source], moved])
    assert scenario.rounds().exit_code == 0
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]


def test_a_row_that_lacks_its_id_in_an_older_copy_is_not_lost(box: Sandbox, tmp_path: Path) -> None:
    """A row that lacks its id in an older copy is still its pet's row, also beside an older copy of
    another file, and does not bring back what the store removed.
    """
    scenario = _build_two_sheets(box, tmp_path)
    for number in (1, 12):
        box.put(changed(PETS, number, name=f"Store {number}")[number - 1])
    new = ps.Pet(name="Neu", status="sold", tags=(ps.Tag(None, "calm"), ps.Tag(None, "loud")))
    scenario.put("a.csv", [*box.pets()[:6], new])
    scenario.put("b.csv", box.pets()[6:])
    box.put(changed(PETS, 2, name="Store 2")[1])
    box.put(changed(PETS, 10, name="Store 10")[9])
    box.put(changed(PETS, 11, name="Store 11")[10])
    backups = {report.round.part: report.round.backup for report in scenario.rounds()}
    (added,) = [pet for pet in box.pets() if pet.name == "Neu"]
    box.put(msgspec.structs.replace(added, tags=added.tags[:1]))
    scenario.rounds()
    for name in ("b.csv", "a.csv"):
        shutil.copy(backups[name], tmp_path / "in" / name)
        scenario.rounds()
        assert added.id is not None
        assert scenario.store_pets()[added.id].tags == added.tags[:1]
    assert len(box.pets()) == len(PETS) + 1
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]


def test_a_new_row_is_not_lost_beside_an_older_copy_of_another_file(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new row that was renamed after a killed round is recognised by its place, beside an older
    copy of another file too, and its edits and removals are sent.
    """
    scenario = _build_two_sheets(box, tmp_path)
    for number in (11, 12):
        box.put(changed(PETS, number, name=f"Store {number}")[number - 1])
    backup = scenario.rounds()[1].round.backup
    row = {**QUUX, "tags": "calm; shy", "photo_urls": "https://shop.example/quux.jpg"}
    _type(scenario, "a.csv", row)
    with monkeypatch.context() as patch:
        patch.setattr(round_of_jobs, "write", Mock(side_effect=KeyboardInterrupt))
        assert scenario.rounds().exit_code == 7
    edited = {**row, "name": "Zoe", "status": "pending", "photo_urls": "[clear]"}
    _type(scenario, "a.csv", edited, over="Quux")
    shutil.copy(backup, tmp_path / "in" / "b.csv")
    assert scenario.rounds().exit_code == 0
    (pet,) = [pet for number, pet in scenario.store_pets().items() if number > len(PETS)]
    assert (pet.name, pet.status, pet.photo_urls) == ("Zoe", "pending", ())
    assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]


def test_an_older_row_stays_in_conflict_beside_a_new_row_of_another_file(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older row of a backup stays in conflict with its pet after a killed round, although a new
    row of another file may be that pet too.
    """
    scenario = _build_two_sheets(box, tmp_path)
    _type(scenario, "a.csv", {**QUUX, "tags": "calm", "action": "ignore"})
    for number in (1, 2):
        box.put(changed(PETS, number, name=f"Store {number}")[number - 1])
    backup = scenario.rounds()[0].round.backup
    _type(scenario, "a.csv", {**QUUX, "tags": "calm; loud"}, over="Quux")
    scenario.rounds()
    (added,) = [pet for pet in box.pets() if pet.name == "Quux"]
    shutil.copy(backup, tmp_path / "in" / "a.csv")
    scenario.rounds()
    _type(scenario, "a.csv", {**QUUX, "tags": "calm"}, over="Quux")
    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
        assert scenario.rounds().exit_code == 7
    _type(scenario, "b.csv", {"name": "Bar", "status": "sold"})
    report = scenario.rounds()
    assert [(o.pet_id, o.fields) for o in report[0].open if o.kind == "conflict"] == [
        (added.id, ("tags",))
    ]
    assert added in box.pets()


def _move_out_of(
    scenario: TwoSheetScenario, source: str, target: str, pet_id: int, backup: Path | None
) -> None:
    """Put a backup of a file back, and move one of its rows to the other file."""
    assert backup is not None
    path = shutil.copy(backup, scenario.folder / "in" / source)
    rows = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    is_moved = rows["id"] == str(pet_id)
    rows[~is_moved].to_csv(path, index=False)
    _type(scenario, target, rows[is_moved].iloc[0].to_dict())


@pytest.mark.parametrize("names", [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_a_row_that_moves_out_of_an_older_copy_does_not_hide_it(
    box: Sandbox, tmp_path: Path, names: tuple[str, str]
) -> None:
    """A row that moves out of an older copy does not hide that copy: a later pet stays, and the
    row's older values are not sent. If the copy's file is read later, they are a conflict.
    """
    scenario, (source, target) = _build_two_sheets(box, tmp_path), names
    pet_id = 3 if source == "a.csv" else 8
    newer = changed(PETS, pet_id, name="Store", status="pending")[pet_id - 1]
    box.put(newer)
    backup = {report.round.part: report.round.backup for report in scenario.rounds()}[source]
    _type(scenario, source, {**QUUX, "tags": "calm"})
    assert scenario.rounds().exit_code == 0
    (added,) = [pet for pet in box.pets() if pet.name == "Quux"]
    _move_out_of(scenario, source, target, pet_id, backup)
    for _ in range(2):
        report = scenario.rounds()
        conflicts = {o.pet_id for each in report for o in each.open if o.kind == "conflict"}
        expected = (0, set()) if source == "a.csv" else (5, {pet_id})
        assert (report.exit_code, conflicts) == expected
        assert scenario.store_pets()[pet_id] == newer
        assert added in box.pets()
    assert scenario.row(source, added.id or 0) is not None


@pytest.mark.parametrize("names", [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_an_older_value_in_a_row_that_moves_is_a_conflict(
    box: Sandbox, tmp_path: Path, names: tuple[str, str]
) -> None:
    """A row that moves with a value from before a round's write is a conflict, because the value
    may be an edit or from an older copy.
    """
    scenario, (source, target) = _build_two_sheets(box, tmp_path), names
    pet_id = 3 if source == "a.csv" else 8
    newer = changed(PETS, pet_id, name="Store")[pet_id - 1]
    box.put(newer)
    backup = {report.round.part: report.round.backup for report in scenario.rounds()}[source]
    _move_out_of(scenario, source, target, pet_id, backup)
    for _ in range(2):
        report = scenario.rounds()
        found = [(o.pet_id, o.fields) for each in report for o in each.open if o.kind == "conflict"]
        assert (report.exit_code, found) == (5, [(pet_id, ("name",))])
        assert scenario.store_pets()[pet_id] == newer


@each_choice
@pytest.mark.parametrize("cells", [{}, {"tags": "loud"}])
@pytest.mark.parametrize("names", [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_a_new_row_that_moves_out_of_an_older_copy_is_not_added_again(
    box: Sandbox, tmp_path: Path, names: tuple[str, str], cells: dict[str, str]
) -> None:
    """A new row that moves out of an older copy, in which it lacks its id, adds no second pet."""
    scenario, (source, target) = _build_two_sheets(box, tmp_path), names
    pet_id = 3 if source == "a.csv" else 8
    _type(scenario, source, QUUX)
    backup = {report.round.part: report.round.backup for report in scenario.rounds()}[source]
    box.put(changed(PETS, pet_id, name="Store")[pet_id - 1])
    assert scenario.rounds().exit_code == 0
    assert backup is not None
    shutil.copy(backup, tmp_path / "in" / source)
    _type(scenario, source, {}, over="Quux")
    _type(scenario, target, {**QUUX, **cells})
    for _ in range(2):
        scenario.rounds()
        assert _new(scenario) == ["Quux"]


@each_choice
@pytest.mark.parametrize("moves", ["", "a row moves too"])
@pytest.mark.parametrize("names", [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_a_row_that_moved_in_the_last_round_is_no_part_of_an_older_copy(
    box: Sandbox, tmp_path: Path, names: tuple[str, str], moves: str
) -> None:
    """One value is set back after a round that wrote it, and in which another row moved: the moved
    row does not count for an older copy, and the value is sent or in conflict.
    """
    scenario, (source, target) = _build_two_sheets(box, tmp_path), names
    pet_id, moved_id, other_id = (1, 5, 2) if source == "a.csv" else (7, 8, 9)
    _move(scenario.folder / "in", source, target, moved_id, {})
    box.put(changed(PETS, pet_id, status="sold")[pet_id - 1])
    assert scenario.rounds().exit_code == 0
    old = PETS[pet_id - 1].status
    grid = read_grid(scenario.folder / "in" / source)
    for row in grid.rows:
        if row[0] == str(pet_id):
            row[grid.head.index("status")] = old
        if row[0] == str(other_id):
            row[grid.head.index("name")] = "Typed"
    grid.save()
    if moves:
        _move(scenario.folder / "in", source, target, 6 if source == "a.csv" else 10, {})
    report = scenario.rounds()
    assert scenario.store_pets()[other_id].name == "Typed"
    assert scenario.row(source, pet_id).status == old
    conflicts = {o.pet_id for each in report for o in each.open if o.kind == "conflict"}
    assert conflicts == {pet_id} or scenario.store_pets()[pet_id].status == old


def test_a_row_that_moves_out_of_an_older_copy_deletes_no_pet_of_a_killed_round(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that moves out of an older copy does not delete the pet that a killed round added; the
    pet is in conflict.
    """
    scenario = _build_two_sheets(box, tmp_path)
    box.put(changed(PETS, 8, name="Store", status="pending")[7])
    backup = scenario.rounds()[1].round.backup
    _type(scenario, "b.csv", {**QUUX, "tags": "calm"})
    with monkeypatch.context() as patch:
        patch.setattr(round_of_jobs, "write", Mock(side_effect=KeyboardInterrupt))
        assert scenario.rounds().exit_code == 7
    (added,) = [pet for pet in box.pets() if pet.name == "Quux"]
    _move_out_of(scenario, "b.csv", "a.csv", 8, backup)
    for _ in range(2):
        report = scenario.rounds()
        assert {o.pet_id for o in report[1].open if o.kind == "conflict"} == {added.id}
        assert added in box.pets()


@each_choice
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("is_written", [True, False])
def test_rows_that_an_own_older_copy_lacks_are_not_lost(
    box: Sandbox, tmp_path: Path, is_written: bool, count: int
) -> None:
    """Rows that moved into a file before an older copy replaced it delete no pets: a round restores
    them if one wrote into the file since, and otherwise stay in conflict until a row has their ids.
    """
    scenario = _build_two_sheets(box, tmp_path)
    sheet = tmp_path / "in" / "b.csv"
    copy = shutil.copy(sheet, tmp_path / "own.csv")
    moved = PETS[:count]
    scenario.put("a.csv", PETS[count:6])
    scenario.put("b.csv", [*PETS[6:], *moved])
    if is_written:
        scenario.box.put(changed(PETS, 8, name="Store")[7])
    assert scenario.rounds().exit_code == 0
    shutil.copy(copy, sheet)
    for _ in range(3):
        rounds = scenario.rounds()
        assert len(scenario.store_pets()) == len(PETS)
        if is_written:
            assert rounds.exit_code == 0
            assert [scenario.row("b.csv", pet.id or 0) for pet in moved] == [*moved]
        else:
            assert rounds.exit_code == 5
            result = [o for each in rounds for o in each.open if o.kind == "conflict"]
            assert {each.pet_id for each in result} == {pet.id for pet in moved}
    scenario.put("b.csv", [*scenario.box.pets()[6:], *moved])
    assert scenario.rounds().exit_code == 0
    assert [result.round.status for result in scenario.rounds()] == ["in-sync", "in-sync"]
    assert len(scenario.store_pets()) == len(PETS)


@pytest.mark.parametrize("has_deletes", [True, False])
def test_the_pets_of_a_file_that_is_away_are_named(
    box: Sandbox, tmp_path: Path, has_deletes: bool
) -> None:
    """The pets of a file that is away, and that were in no other file, are named in a conflict, and
    none is deleted.
    """
    scenario = _build_two_sheets(box, tmp_path)
    scenario.options = {**scenario.options, "delete_missing": has_deletes}
    away = (tmp_path / "in" / "b.csv").rename(tmp_path / "b.csv")
    for _ in range(2):
        rounds = scenario.rounds()
        assert rounds.exit_code == 5
        (result,) = [each for each in rounds[0].open if each.kind == "conflict"]
        assert result.problem.startswith("the file b.csv is no longer in the folder")
        assert "(pets 7, 8, 9 and 3 more)" in result.problem
    shutil.copy(away, tmp_path / "in" / "c.csv")
    assert scenario.rounds().exit_code == 0
    assert len(scenario.store_pets()) == len(PETS)


def test_a_row_that_moves_to_another_job_is_not_deleted(jobs: TwoSheetScenario) -> None:
    """A row that moves to another job's sheet deletes no pet: the pet keeps the store's changes and
    takes the edits of the new row.
    """
    photos = ("https://shop.example/new.jpg",)
    jobs.box.put(changed(PETS, 3, photo_urls=photos)[2])
    _sold(jobs)
    rounds = jobs.both()
    assert rounds.exit_code == 0
    assert any(
        "another sheet has, or may have, the row: pet 3" in each.problem for each in rounds[0].open
    )
    pet = jobs.store_pets()[3]
    assert pet == jobs.row("b.csv", 3) == changed(PETS, 3, status="sold", photo_urls=photos)[2]
    again = jobs.both()
    assert [result.round.status for result in again] == ["in-sync", "in-sync"]
    assert [result.round.notes for result in again] == [0, 0]


def test_a_status_of_another_job_leaves_a_note_on_the_row(jobs: TwoSheetScenario) -> None:
    """A status that another job covers, written into a sheet, gives the pet a row in both sheets:
    each round of the first job says so, until one of the rows is removed.
    """
    jobs.put("a.csv", changed(PETS, 3, status="sold")[2::3])
    for _ in range(2):
        first, second = jobs.both()
        (note,) = first.open
        assert (note.kind, note.pet_id, note.address) == ("note", 3, "line 2, column 3")
        assert note.problem.startswith("with the status 'sold', the pet is not among those that")
        assert f"the sheet of job b ({jobs.folder / 'in' / 'b.csv'})" in note.problem
        assert (first.round.exit_code, second.open) == (0, ())
        assert jobs.row("a.csv", 3) == jobs.row("b.csv", 3) == jobs.store_pets()[3]
    jobs.put("a.csv", [pet for pet in PETS if pet.status == "available" and pet.id != 3])
    assert [report.round.exit_code for report in jobs.both()] == [0, 0]
    assert jobs.row("b.csv", 3) == jobs.store_pets()[3]


def test_a_folder_says_which_other_job_has_the_row_of_a_pet(box: Sandbox, tmp_path: Path) -> None:
    """The note on a pet that no file of a folder names has the sheet and the job with its row."""
    scenario = _build_two_sheets(box, tmp_path)
    scenario.box.put(ps.Pet(id=50, name="Tom", status="sold"))
    scenario.box.put(ps.Pet(id=51, name="Tim", status="sold"))
    scenario.write([ps.Pet(id=50, name="Tom", status="sold")])
    inbox = scenario.job("inbox", folder=tmp_path / "in", sheet=None, files="*.csv")
    config = scenario.config(scenario.job("other", mode="push", delete_missing=False), inbox)
    _, first, second = reconcile_jobs(config)
    assert [(each.pet_id, each.problem) for each in first.open] == [
        (50, f"is in no row of this job: its row is in {scenario.sheet} (job other)"),
        (51, "is in the store, and in no row"),
    ]
    assert second.open == ()


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_nothing_is_missing_while_another_sheet_cannot_be_read(
    jobs: TwoSheetScenario, mode: str
) -> None:
    """Nothing is deleted as missing while another sheet cannot be read, because a row may have
    moved there; the round reports that.
    """
    jobs.options = {**jobs.options, "mode": mode}
    jobs.put("a.csv", [pet for pet in PETS if pet.status == "available" and pet.id != 3])
    sheet = jobs.folder / "in" / "b.csv"
    away = sheet.rename(sheet.with_suffix(".away"))
    first, second = jobs.both()
    assert (first.round.to_store.delete, second.round.status) == (0, "error")
    assert any("no pet is deleted as missing" in each.problem for each in first.open)
    away.rename(sheet)
    assert jobs.both()[0].round.to_store.delete == 1
    assert 3 not in jobs.store_pets()


def test_a_job_of_another_name_begins_with_what_was_agreed_on(jobs: TwoSheetScenario) -> None:
    """A renamed job begins with the base of its old name, so its sheet does not revert the store's
    changes.
    """
    jobs.box.put(NEWER)
    path = jobs.folder / "in" / "b.csv"
    (report,) = reconcile_jobs(jobs.config(jobs.job("renamed", sheet=path, statuses=("sold",))))
    assert report.round.status == "done"
    assert jobs.store_pets()[5] == NEWER == jobs.row("b.csv", 5)


class SplitExportScenario(TwoSheetScenario):
    """A folder with two workbooks, a.xlsx and b.xlsx, that were cut from one export."""

    name = "inbox"

    def cut(self, ids: Iterable[int], name: str) -> None:
        """Save the export with these pets' rows only, under another name."""
        book = load_workbook(self.folder / "all.xlsx")
        sheet, keep = book.worksheets[0], {*ids}
        for row in range(sheet.max_row, 1, -1):
            if int(str(sheet.cell(row, 1).value)) not in keep:
                sheet.delete_rows(row)
        (self.folder / "in").mkdir(exist_ok=True)
        book.save(self.folder / "in" / name)

    def rounds(self) -> Rounds:
        """Run one round of each sheet in the folder."""
        job = self.job(self.name, folder=self.folder / "in", sheet=None, files="*.xlsx")
        return reconcile_jobs(self.config(job))

    def opens(self, rounds: Rounds) -> list[Difference]:
        """Return the differences about a file that is away."""
        result = [each for round_ in rounds for each in round_.open]
        return [each for each in result if "is no longer in the folder" in each.problem]


@pytest.fixture
def split_export(box: Sandbox, tmp_path: Path) -> SplitExportScenario:
    """Return the folder after two rounds, when each base is complete."""
    return _build_split_export(box, tmp_path, "two-way")


def _build_split_export(box: Sandbox, tmp_path: Path, mode: str) -> SplitExportScenario:
    box.set_faults(None)
    box.reset(PETS)
    scenario = SplitExportScenario(
        box, tmp_path, {"mode": mode, "delete_missing": True, "guard": OPEN}
    )
    with ps.connect(box.url, state=scenario.state) as store:
        ps.write_sheet(store.snapshot(), tmp_path / "all.xlsx")
    scenario.cut(range(1, 4), "a.xlsx")
    scenario.cut(range(4, 13), "b.xlsx")
    for _ in range(2):
        assert [report.round.status for report in scenario.rounds()] == ["in-sync", "in-sync"]
    return scenario


@pytest.mark.parametrize(("name", "ids"), [("a.xlsx", range(1, 4)), ("b.xlsx", range(4, 13))])
def test_a_file_that_is_away_deletes_no_pet(
    split_export: SplitExportScenario, name: str, ids: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is away deletes no pet and is reported until it is back, also after a killed
    round.
    """
    path = split_export.folder / "in" / name
    away = path.rename(split_export.folder / name)
    with monkeypatch.context() as patch:
        patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
        assert [result.round.status for result in split_export.rounds()] == ["interrupted"]
    for _ in range(2):
        rounds = split_export.rounds()
        assert (rounds.exit_code, rounds[0].round.to_store.total) == (5, 0)
        (result,) = split_export.opens(rounds)
        assert result.problem.startswith(f"the file {name} is no longer in the folder")
        assert f"(pets {ids[0]}, {ids[1]}, {ids[2]}" in result.problem
        unnamed = [each for each in rounds[0].open if each.pet_id in ids]
        assert {each.pet_id for each in unnamed} == {*ids}
        assert not any("see the plan" in each.problem for each in unnamed)
        assert len(split_export.store_pets()) == len(PETS)
    split_export.box.put(changed(PETS, ids[0], name="Store")[ids[0] - 1])
    away.rename(path)
    rounds = split_export.rounds()
    assert rounds.exit_code == 0
    assert split_export.store_pets()[ids[0]].name == "Store"
    assert len(split_export.store_pets()) == len(PETS)
    assert split_export.rounds().exit_code == 0


def test_a_file_that_is_away_deletes_no_pet_in_push(box: Sandbox, tmp_path: Path) -> None:
    """In push mode too, a file that is away deletes no pet, although no row and no other base has
    its pets.
    """
    scenario = _build_split_export(box, tmp_path, "push")
    (tmp_path / "in" / "a.xlsx").rename(tmp_path / "a.xlsx")
    rounds = scenario.rounds()
    assert (rounds.exit_code, rounds[0].round.to_store.total, rounds[0].round.notes) == (5, 0, 3)
    assert len(scenario.store_pets()) == len(PETS)


LONG_NAME = "Каталог магазина в Москве"
"""A job's name that is longer than 120 characters in the names of its state files."""


@pytest.mark.parametrize("has_history", [True, False])
def test_a_file_that_is_away_deletes_no_pet_of_a_job_with_a_long_name(
    split_export: SplitExportScenario, has_history: bool
) -> None:
    """The names of the state files of a job with a long name are cut off, and its files that are
    away delete no pet, also if the history was removed.
    """
    split_export.name = LONG_NAME
    for _ in range(2):
        assert split_export.rounds().exit_code == 0
    if not has_history:
        StatePaths(split_export.state).history.unlink()
    away = (split_export.folder / "in" / "a.xlsx").rename(split_export.folder / "a.xlsx")
    for _ in range(2):
        rounds = split_export.rounds()
        assert rounds.exit_code == 5
        (result,) = split_export.opens(rounds)
        assert "(pets 1, 2, 3)" in result.problem
        assert result.problem.startswith("the file a.xlsx is no longer") == has_history
        assert len(split_export.store_pets()) == len(PETS)
    away.rename(split_export.folder / "in" / "a.xlsx")
    assert split_export.rounds().exit_code == 0
    assert len(split_export.store_pets()) == len(PETS)


@pytest.mark.parametrize(
    ("file", "former", "name"),
    [("a" * 120 + ".xlsx", "inbox", "outbox"), ("a.xlsx", LONG_NAME, f"{LONG_NAME} 2")],
)
def test_a_renamed_job_keeps_what_it_knows_of_a_file_that_is_away(
    split_export: SplitExportScenario, file: str, former: str, name: str
) -> None:
    """A renamed job still reports a file that is away if the names of its state files are cut
    off.
    """
    path = split_export.folder / "in" / file
    (split_export.folder / "in" / "a.xlsx").rename(path)
    split_export.name = former
    for _ in range(2):
        assert split_export.rounds().exit_code == 0
    path.rename(split_export.folder / "a.xlsx")
    split_export.name = name
    for _ in range(2):
        rounds = split_export.rounds()
        assert rounds.exit_code == 5
        (result,) = split_export.opens(rounds)
        assert result.problem.startswith(f"the file {file} is no longer in the folder")
        assert len(split_export.store_pets()) == len(PETS)


def test_jobs_whose_long_names_begin_alike_have_their_own_state_files(tmp_path: Path) -> None:
    """A base whose name is cut off belongs to the job of its round."""
    paths, names = StatePaths(tmp_path), (LONG_NAME, f"{LONG_NAME} 2")
    for number, name in enumerate(names):
        paths.base(name, "a.csv").parent.mkdir(parents=True, exist_ok=True)
        paths.base(name, "a.csv").touch()
        round_ = Round(id=str(number), job=name, part="a.csv", started="2026-11-28T12:00:00+00:00")
        History(tmp_path).append(round_)
    for name in names:
        assert paths.bases(name) == {paths.base(name, "a.csv"): "a.csv"}


def test_a_file_that_is_meant_to_go_takes_its_pets_along(split_export: SplitExportScenario) -> None:
    """The pets of a file that is removed on purpose are deleted once its base is removed, as the
    report suggests.
    """
    (split_export.folder / "in" / "a.xlsx").unlink()
    (result,) = split_export.opens(split_export.rounds())
    base = split_export.state / "reconcile" / "bases" / "inbox--a.xlsx.base"
    assert f"remove {base}," in result.hint
    # A row of the other file can still be removed, because the lost file's base has given it up.
    split_export.cut(range(4, 12), "b.xlsx")
    rounds = split_export.rounds()
    assert rounds[0].round.to_store.delete == 1
    assert split_export.store_pets().keys() == {*range(1, 12)}
    base.unlink()
    assert split_export.rounds().exit_code == 0
    assert split_export.store_pets().keys() == {*range(4, 12)}


def test_a_renamed_file_may_lose_rows(split_export: SplitExportScenario) -> None:
    """A renamed file does not count as away, so a row that is removed from it after a round deletes
    its pet.
    """
    (split_export.folder / "in" / "a.xlsx").rename(split_export.folder / "in" / "c.xlsx")
    for _ in range(2):
        rounds = split_export.rounds()
        assert (rounds.exit_code, split_export.opens(rounds)) == (0, [])
    split_export.cut(range(1, 3), "c.xlsx")
    rounds = split_export.rounds()
    assert (rounds.exit_code, split_export.opens(rounds)) == (0, [])
    assert split_export.store_pets().keys() == {pet.id for pet in PETS} - {3}


def test_pets_that_a_run_deleted_come_back_by_an_undo(box: Sandbox, tmp_path: Path) -> None:
    """If a run deleted all pets of a sheet, the refused round suggests the undo of that run, which
    brings them back, and suggests `add` for pets that were deleted otherwise.
    """
    scenario = _build_two_sheets(box, tmp_path)
    with ps.connect(box.url, state=scenario.state) as store:
        frame = ps.frame_from_pets([ps.Pet(id=n) for n in range(1, 7)])
        plan = store.plan(frame.assign(action="delete"), guard=OPEN)
        run = store.apply(plan, progress=False).run_id
    first, _ = scenario.rounds()
    assert first.round.status == "refused"
    assert f"To bring them back: `petsync undo {run} --state {scenario.state} " in first.round.hint
    with ps.connect(box.url, state=scenario.state) as store:
        store.apply(store.undo(run), progress=False)
    assert scenario.rounds().exit_code == 0
    assert len(scenario.store_pets()) == len(PETS)
    for pet_id in range(1, 7):
        box.remove(pet_id)
    first, _ = scenario.rounds()
    assert "write `add` in the action column" in first.round.hint


class WorkbookScenario(Scenario):
    """A workbook whose pets are in its worksheet Pets."""

    @property
    def sheet(self) -> Path:
        """The path of the job's workbook."""
        return self.folder / "catalogue.xlsx"

    def change(self, work: Callable[[Workbook], None]) -> None:
        """Change the workbook as a person does in another program."""
        book = load_workbook(self.sheet)
        work(book)
        book.save(self.sheet)

    def cell(self, tab: str, row: int) -> object:
        """Return the name in a row of a worksheet."""
        return load_workbook(self.sheet)[tab].cell(row, 2).value


def _in_front(book: Workbook, *, without: Collection[int] = (3, 4)) -> None:
    """Insert a filtered copy as the first worksheet."""
    tab = book.create_sheet("For Anna", 0)
    for number, row in enumerate(book["Pets"].iter_rows(values_only=True), 1):
        if number not in without:
            tab.append(row)


@pytest.fixture(params=["exported", "plain"])
def workbook(box: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> WorkbookScenario:
    """Return a workbook of a job, with its own base or without."""
    box.set_faults(None)
    box.reset(PETS)
    workbook = WorkbookScenario(box, tmp_path, {"delete_missing": True, "guard": OPEN})
    with ps.connect(box.url, state=workbook.state) as store:
        base = None if request.param == "exported" else False
        ps.write_sheet(store.snapshot(), workbook.sheet, base=base)
    return workbook


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_a_worksheet_in_front_is_not_read(workbook: WorkbookScenario, mode: str) -> None:
    """A worksheet that is inserted in front is not read: the job reads that of its last round,
    nothing is deleted, and edits there are sent.
    """
    assert workbook.run(mode=mode).round.status == "in-sync"
    workbook.change(_in_front)
    report = workbook.run(mode=mode)
    assert (report.round.status, report.round.exit_code) == ("in-sync", 0)
    assert "'For Anna'" in report.open[-1].problem
    workbook.change(lambda each: setattr(each["Pets"].cell(2, 2), "value", "Edited"))
    workbook.box.put(changed(PETS, 5, name="Store")[4])
    assert workbook.run(mode=mode).round.exit_code == 0
    assert workbook.store_pets()[1].name == "Edited"
    assert len(workbook.store_pets()) == len(PETS)
    if mode == "two-way":
        assert (workbook.cell("Pets", 6), workbook.cell("For Anna", 4)) == ("Store", PETS[4].name)


def test_pull_writes_into_the_worksheet_of_before(workbook: WorkbookScenario) -> None:
    """A pull writes into the worksheet of its last round, even if the one in front has a known
    header and no ids.
    """
    workbook.run(mode="pull")

    def notes(each: Workbook) -> None:
        tab = each.create_sheet("Notes", 0)
        tab.append(["Name", "what to do"])
        tab.append(["Bella", "call the vet"])

    workbook.change(notes)
    workbook.box.put(changed(PETS, 5, name="Store")[4])
    assert workbook.run(mode="pull").round.status == "done"
    assert (workbook.cell("Pets", 6), workbook.cell("Notes", 2)) == ("Store", "call the vet")


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_a_pet_that_another_worksheet_has_is_not_deleted(
    workbook: WorkbookScenario, mode: str
) -> None:
    """A pet with a row in another visible worksheet is not deleted, whichever worksheet is read,
    and its conflict asks for the worksheet's name.
    """
    workbook.run(mode=mode)
    workbook.change(_in_front)
    for _ in range(2):
        report = workbook.run(mode=mode, tab="For Anna")
        assert report.round.exit_code == 5
        held = [each for each in report.open if each.kind == "conflict"]
        assert {each.pet_id for each in held} == {2, 3}
        assert all("'Pets'" in each.problem for each in held)
        assert all(each.hint.endswith('name it: tab = "NAME" in the job.') for each in held)
        assert len(workbook.store_pets()) == len(PETS)

    def hide(each: Workbook) -> None:
        each["Pets"].sheet_state = "hidden"

    workbook.change(hide)
    assert workbook.run(mode=mode, tab="For Anna").round.exit_code == 0
    assert len(workbook.store_pets()) == len(PETS) - 2


def test_a_worksheet_that_went_is_not_replaced_by_another(workbook: WorkbookScenario) -> None:
    """If the worksheet is missing, the round is refused until the job names another one or the old
    one is back.
    """
    workbook.run(mode="two-way")
    workbook.change(lambda each: setattr(each["Pets"], "title", "Tiere"))
    assert workbook.run(mode="two-way").round.exit_code == 0
    before = workbook.sheet.read_bytes()
    workbook.change(_taken)
    report = workbook.run(mode="two-way")
    assert report.round.exit_code not in (0, 5)
    # The worksheet of the job's last round, or that of the file's export.
    assert "'Tiere'" in report.round.problem or "'Pets'" in report.round.problem
    assert "no longer exists" in report.round.problem
    assert "'For Anna'" in report.round.hint
    assert report.round.hint.endswith('specify the worksheet to read: tab = "NAME" in the job.')
    assert len(workbook.store_pets()) == len(PETS)
    workbook.sheet.write_bytes(before)
    assert workbook.run(mode="two-way").round.exit_code == 0


def _taken(book: Workbook) -> None:
    """Replace the worksheet with a filtered copy."""
    book["Tiere"].title = "Pets"
    _in_front(book)
    del book["Pets"]
