"""A backup that is put back in place of the sheet: it reverts and deletes nothing in the store."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import books
import msgspec
import pandas as pd
import pytest
from openpyxl import load_workbook
from pairwise import choose_for_test, each_choice, pairwise
from rounds.sheet import read_grid
from scenarios import PETS, FirstRounds, Scenario, changed, kinds
from times import times

import petsync as ps
from petsync import sheets
from petsync.errors import InterruptedRunError
from petsync.plan.guard import Guard, Limit
from petsync.plan.plan import Plan
from petsync.plan.report import RoundReport
from petsync.reconcile import state
from petsync.reconcile.round import reconcile_jobs
from petsync.reconcile.state import BaseFile
from petsync.sandbox import Sandbox
from petsync.sheets import sync
from petsync.sheets.results import create_backup
from petsync.store.runs import OutputRequest, Outputs

pytestmark = pytest.mark.slow

ENDINGS = ("csv", "xlsx")
NEW = ps.Pet(id=50, name="Neu", status="available")


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


class BackupScenario(Scenario):
    """A job that deletes missing pets, with a sheet as any program writes it."""

    ending = "csv"

    @property
    def sheet(self) -> Path:
        """The path of the sheet, which carries no base."""
        return self.folder / f"catalogue.{self.ending}"

    @property
    def lock(self) -> Path:
        """The path of the file that a spreadsheet program keeps beside an open sheet."""
        return self.sheet.with_name(f"~${self.sheet.name}")

    def backup(self, report: RoundReport) -> None:
        """Replace the sheet with the backup from before a round."""
        shutil.copy(report.round.backup, self.sheet)

    def edit(self, change: Callable[[list[ps.Pet]], list[ps.Pet]]) -> None:
        """Change the pets of the sheet, and save their rows in reverse order."""
        self.write([*reversed(change([*self.sheet_pets().values()]))])


@pytest.fixture(scope="module")
def first_rounds(tmp_path_factory: pytest.TempPathFactory) -> FirstRounds:
    """Return the first round of each kind of sheet, which runs once for the module."""
    return FirstRounds(tmp_path_factory.mktemp("first"))


@pytest.fixture
def scenario(_open_box: Sandbox, first_rounds: FirstRounds, tmp_path: Path) -> BackupScenario:
    """Return a CSV file that agrees with a store after one round."""
    scenario = BackupScenario(_open_box, tmp_path, {"mode": "two-way", "delete_missing": True})
    first_rounds.begin(scenario, PETS)
    return scenario


@pytest.fixture(params=ENDINGS if times(1) > 1 else [None])
def any_scenario(
    _open_box: Sandbox, first_rounds: FirstRounds, tmp_path: Path, request: pytest.FixtureRequest
) -> BackupScenario:
    """Return the same with a CSV file or a workbook: with both if PETSYNC_TIMES is 2 or more."""
    scenario = BackupScenario(_open_box, tmp_path, {"mode": "two-way", "delete_missing": True})
    scenario.ending = request.param or choose_for_test(ENDINGS, request)
    first_rounds.begin(scenario, PETS)
    return scenario


def _news(scenario: Scenario) -> None:
    """Change one pet, add one and delete one in the store."""
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    scenario.box.put(NEW)
    scenario.box.remove(7)


def _warns_of_backup(report: RoundReport) -> bool:
    return any("a backup may have been restored" in each.problem for each in report.open)


@pytest.mark.parametrize("edited", [False, True])
def test_a_backup_takes_the_news_again(any_scenario: BackupScenario, edited: bool) -> None:
    """A backup, unchanged or edited, reverts nothing: the sheet takes the store's changes again,
    and a person's edit is sent.
    """
    scenario = any_scenario
    _news(scenario)
    first = scenario.run()
    assert (first.round.to_sheet.total, _warns_of_backup(first)) == (3, False)
    scenario.backup(first)
    if edited:
        scenario.edit(lambda pets: changed(pets, 2, name="Rex"))
    report = scenario.run()
    assert (report.round.status, report.round.to_sheet.total, _warns_of_backup(report)) == (
        "done",
        3,
        True,
    )
    assert report.round.to_store.total == (1 if edited else 0)
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.store_pets()[50].name == "Neu"
    assert scenario.store_pets()[5].name == "Store 5"
    assert (scenario.store_pets()[2].name == "Rex") is edited
    assert 7 not in scenario.store_pets()
    again = scenario.run()
    assert (again.round.status, again.open) == ("in-sync", ())


@pytest.mark.parametrize(("mode", "names_action"), [("two-way", True), ("pull", False)])
def test_the_note_on_a_backup_names_the_action_only_if_it_has_an_effect(
    scenario: BackupScenario, mode: str, names_action: bool
) -> None:
    """Only in a two-way job, the note says that the action `delete` reverses what is written."""
    scenario.options = {"mode": mode}
    _news(scenario)
    scenario.backup(scenario.run())
    (note,) = (each for each in scenario.run().open if "may have been restored" in each.problem)
    assert "are written into the sheet again." in note.hint
    assert ("write delete" in note.hint) is names_action


@pytest.mark.parametrize("news", ["", "before", "since"])
def test_a_delete_that_is_undone_on_both_sides_is_no_older_copy(
    any_scenario: BackupScenario, news: str
) -> None:
    """If a round deleted a pet, an undo restored it, and its row is put back, no note says that the
    sheet may be an older copy, whatever else the store has changed since. If the sheet lacks what a
    round wrote, the note stays.
    """
    scenario = any_scenario
    earlier = scenario.sheet.read_bytes()
    if news == "before":
        scenario.box.put(changed(PETS, 2, status="pending")[1])
        assert scenario.run().round.status == "done"
    scenario.edit(lambda pets: [*changed([pet for pet in pets if pet.id != 3], 1, name="Rex")])
    report = scenario.run()
    assert (report.round.to_store.delete, report.round.to_store.update) == (1, 1)
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.apply(store.undo(report.round.runs[0]), progress=False)
    if news == "since":
        scenario.box.put(changed(PETS, 2, status="pending")[1])
    scenario.sheet.write_bytes(earlier)
    report = scenario.run()
    notes = [
        each for each in report.open if "older copy" in each.problem or "backup" in each.problem
    ]
    assert bool(notes) == (news == "before")
    assert report.round.to_store.total == 0
    for _ in range(2):
        assert scenario.sheet_pets() == scenario.store_pets()
        assert {1, 3} <= {*scenario.store_pets()}
        assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("edited", [False, True])
def test_a_backup_that_is_older_by_two_writes(scenario: BackupScenario, edited: bool) -> None:
    """A backup from before two writes is compared with what was agreed when it was made."""
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    scenario.box.put(NEW)
    first = scenario.run()
    scenario.write(changed([*scenario.sheet_pets().values()], 1, name="Sheet 1"))
    scenario.box.put(changed(PETS, 5, name="Store 5b")[4])
    scenario.box.put(changed(PETS, 6, name="Store 6")[5])
    assert scenario.run().round.status == "done"
    scenario.backup(first)
    if edited:
        scenario.edit(lambda pets: changed(pets, 2, name="Rex"))
    assert _warns_of_backup(scenario.run())
    stored = scenario.store_pets()
    assert (stored[5].name, stored[6].name, stored[50].name) == ("Store 5b", "Store 6", "Neu")
    assert stored[1].name == "Sheet 1"
    assert scenario.sheet_pets() == stored
    assert scenario.run().open == ()


def test_what_the_sheet_had_sent_by_then_is_no_edit_again(scenario: BackupScenario) -> None:
    """Edits in a backup that were sent when it was made are not sent again over the store's later
    values.
    """
    scenario.write([*changed(PETS, 1, name="Rex"), ps.Pet(name="Ohne", status="sold")])
    _news(scenario)
    first = scenario.run()
    (new,) = (pet for pet in scenario.box.pets() if pet.name == "Ohne")
    scenario.box.put(changed(PETS, 1, name="Rex II")[0])
    scenario.box.put(ps.Pet(id=new.id, name="Ohne mehr", status="sold"))
    scenario.run()
    scenario.backup(first)
    assert _warns_of_backup(scenario.run())
    assert scenario.store_pets()[1].name == "Rex II"
    assert [pet.name for pet in scenario.box.pets() if "Ohne" in (pet.name or "")] == ["Ohne mehr"]
    assert scenario.sheet_pets() == scenario.store_pets()


def _killed(_: BackupScenario, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))


def _open_sheet(scenario: BackupScenario, patch: pytest.MonkeyPatch) -> None:
    def keep(*args: Any) -> Path:
        scenario.lock.write_bytes(b"\x05Maria")
        return create_backup(*args)

    patch.setattr(sync, "create_backup", keep)


@pytest.mark.parametrize("cut_off", [_killed, _open_sheet])
def test_a_backup_of_a_round_that_wrote_nothing_is_known(
    scenario: BackupScenario,
    monkeypatch: pytest.MonkeyPatch,
    cut_off: Callable[[BackupScenario, pytest.MonkeyPatch], None],
) -> None:
    """A backup of a round that was killed, or found the sheet open, before it wrote the sheet is
    recognised: it does not revert a later edit.
    """
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    backup = scenario.sheet.read_bytes()
    with monkeypatch.context() as patch:
        cut_off(scenario, patch)
        assert scenario.run().round.status in ("interrupted", "error")
    scenario.lock.unlink(missing_ok=True)
    assert scenario.sheet.read_bytes() == backup
    scenario.edit(lambda pets: changed(pets, 2, name="Sheet 2"))
    assert scenario.run().round.status == "done"
    scenario.sheet.write_bytes(backup)
    assert _warns_of_backup(scenario.run())
    assert (scenario.store_pets()[2].name, scenario.store_pets()[5].name) == ("Sheet 2", "Store 5")
    assert scenario.sheet_pets() == scenario.store_pets()
    again = scenario.run()
    assert (again.round.status, again.open) == ("in-sync", ())


@pytest.mark.parametrize("cut_off", [_killed, _open_sheet])
def test_a_sheet_that_was_not_written_is_no_backup_of_itself(
    scenario: BackupScenario,
    monkeypatch: pytest.MonkeyPatch,
    cut_off: Callable[[BackupScenario, pytest.MonkeyPatch], None],
) -> None:
    """A sheet that an interrupted round did not write is not a backup of itself if the store takes
    its change back.
    """
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    with monkeypatch.context() as patch:
        cut_off(scenario, patch)
        assert scenario.run().round.status in ("interrupted", "error")
    scenario.lock.unlink(missing_ok=True)
    scenario.box.put(PETS[4])
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, report.open) == ("in-sync", ())


def test_a_sheet_that_stays_open_uses_up_no_versions(
    scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eleven rounds that find the sheet open use up no kept versions, so an older backup is still
    recognised.
    """
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    first = scenario.run()
    scenario.box.put(changed(PETS, 6, name="Store 6")[5])
    with monkeypatch.context() as patch:
        _open_sheet(scenario, patch)
        for _ in range(11):
            assert scenario.run().round.status == "error"
            scenario.lock.unlink()
    assert scenario.run().round.status == "done"
    scenario.backup(first)
    assert _warns_of_backup(scenario.run())
    assert scenario.sheet_pets() == scenario.store_pets()
    assert (scenario.store_pets()[5].name, scenario.store_pets()[6].name) == ("Store 5", "Store 6")


def test_a_backup_from_before_a_new_row_is_known(scenario: BackupScenario) -> None:
    """An edited backup from before a new row is recognised: the row's pet stays, nothing is
    reverted, and the edit is sent.
    """
    news = changed(changed(PETS, 5, name="Store 5"), 6, name="Store 6")
    for pet in news[4:6]:
        scenario.box.put(pet)
    first = scenario.run()
    scenario.edit(lambda pets: [*pets, ps.Pet(name="Ohne", status="sold")])
    assert scenario.run().round.status == "done"
    (new,) = (pet for pet in scenario.box.pets() if pet.name == "Ohne")
    scenario.box.put(ps.Pet(id=new.id, name="Ohne mehr", status="sold"))
    assert scenario.run().round.status == "done"
    scenario.backup(first)
    scenario.edit(lambda pets: changed(pets, 2, name="Rex"))
    assert _warns_of_backup(scenario.run())
    names = [scenario.store_pets()[number].name for number in (2, 5, 6, new.id or 0)]
    assert names == ["Rex", "Store 5", "Store 6", "Ohne mehr"]
    assert scenario.sheet_pets() == scenario.store_pets()


@pytest.mark.parametrize("writes", range(1, 4))
def test_a_round_that_is_killed_while_it_notes_an_older_copy(
    any_scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """A round that is killed at any write while it records an older copy sends no value of the
    copy, with any edits before the next round.
    """
    scenario = any_scenario
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    scenario.box.remove(7)
    first = scenario.run()
    scenario.backup(first)
    assert _warns_of_backup(scenario.run())
    scenario.backup(first)
    write = state.write
    left = iter(range(writes))

    def put(*args: Any, **options: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(state, "write", put)
        scenario.run()
    scenario.edit(lambda pets: [pet for pet in changed(pets, 2, name="Rex") if pet.id != 7])
    scenario.run()
    assert scenario.store_pets()[5].name == "Store 5"
    assert 7 not in scenario.store_pets()


def test_a_row_that_may_be_lost_is_not_written_again(scenario: BackupScenario) -> None:
    """The pet of the only row that a round wrote, and that is missing, stays in conflict without a
    row, because the sheet may be a backup.
    """
    scenario.box.put(NEW)
    assert scenario.run().round.to_sheet.add == 1
    scenario.edit(lambda pets: [pet for pet in pets if pet.id != NEW.id])
    for _ in range(2):
        report = scenario.run()
        assert report.round.status == "conflicts"
        assert NEW.id in {each.pet_id for each in report.open if each.kind == "conflict"}
        assert (NEW.id in scenario.sheet_pets(), NEW.id in scenario.store_pets()) == (False, True)
    scenario.box.remove(NEW.id or 0)
    assert scenario.run().round.status == "in-sync"


def test_two_new_rows_that_are_taken_out_are_a_conflict(scenario: BackupScenario) -> None:
    """Two new rows that got their ids and are missing were removed, or an older copy was put back:
    their pets stay, in conflict, until the rows are back.
    """
    scenario.edit(lambda pets: [*pets, *(ps.Pet(name=f"Ohne {n}", status="sold") for n in (1, 2))])
    assert scenario.run().round.status == "done"
    rows = read_grid(scenario.sheet)
    scenario.write(pet for pet in scenario.sheet_pets().values() if "Ohne" not in (pet.name or ""))
    guard = Guard(max_delete=Limit(2, is_share=False))
    for _ in range(2):
        report = scenario.run(guard=guard)
        assert (report.round.status, report.round.conflicts) == ("conflicts", 2)
    assert len(scenario.store_pets()) == len(PETS) + 2
    rows.save()
    report = scenario.run(guard=guard)
    assert (report.round.exit_code, report.round.conflicts) == (0, 0)
    assert scenario.sheet_pets() == scenario.store_pets()


def test_a_backup_from_before_a_row_of_a_folder_is_known(scenario: BackupScenario) -> None:
    """A backup of a folder's file from before a new row, put back twice and edited, is recognised,
    and the row's pet is not deleted.
    """
    scenario.options = {
        **scenario.options,
        "sheet": None,
        "folder": scenario.folder,
        "files": "*.csv",
    }
    guard = Guard(max_update=Limit(12, is_share=False))

    def news(*ids: int) -> RoundReport:
        for pet_id in ids:
            (pet,) = changed([scenario.store_pets()[pet_id]], pet_id, name=f"Store {pet_id}")
            scenario.box.put(pet)
        return scenario.run(guard=guard)

    scenario.run(guard=guard)
    first = news(5, 6)
    scenario.edit(lambda pets: [*pets, ps.Pet(name="Ohne", status="sold")])
    assert news(3, 4).round.status == "done"
    scenario.backup(first)
    assert _warns_of_backup(scenario.run(guard=guard))
    scenario.backup(first)
    scenario.edit(lambda pets: [pet for pet in changed(pets, 2, name="Rex") if pet.id != 5])
    assert _warns_of_backup(scenario.run(guard=guard))
    for _ in range(2):
        stored = scenario.store_pets()
        assert [pet.name for pet in stored.values()].count("Ohne") == 1
        assert [stored[n].name for n in (2, 3, 4, 6)] == ["Rex", "Store 3", "Store 4", "Store 6"]
        scenario.run(guard=guard)


def _busy(scenario: BackupScenario, _: pytest.MonkeyPatch) -> None:
    scenario.lock.write_bytes(b"\x05Maria")


def _unanswered(scenario: BackupScenario, _: pytest.MonkeyPatch) -> None:
    scenario.box.set_faults("html=1,status=sold")


def _ends_early(
    scenario: BackupScenario,
    patch: pytest.MonkeyPatch,
    cut_off: Callable[[BackupScenario, pytest.MonkeyPatch], None],
) -> None:
    """Run a round that recognises a backup and ends before it writes anything."""
    with patch.context() as within:
        cut_off(scenario, within)
        assert scenario.run().round.status in ("interrupted", "error")
    scenario.box.set_faults(None)
    scenario.lock.unlink(missing_ok=True)


@pytest.mark.parametrize("cut_off", [_killed, _open_sheet, _busy, _unanswered])
def test_a_backup_that_a_round_has_recognised_stays_one(
    any_scenario: BackupScenario,
    monkeypatch: pytest.MonkeyPatch,
    cut_off: Callable[[BackupScenario, pytest.MonkeyPatch], None],
) -> None:
    """A backup that an interrupted round recognised stays one after edits: a value that was sent
    since stays in the store, and is in conflict if that round had not begun to write.
    """
    scenario = any_scenario
    scenario.box.remove(7)
    first = scenario.run()
    scenario.edit(lambda pets: changed(pets, 5, name="Sheet 5"))
    assert scenario.run().round.status == "done"
    scenario.backup(first)
    _ends_early(scenario, monkeypatch, cut_off)
    scenario.edit(lambda pets: [pet for pet in changed(pets, 2, name="Rex") if pet.id != 7])
    report = scenario.run()
    stored = scenario.store_pets()
    assert (stored[5].name, stored[2].name, 7 in stored) == ("Sheet 5", "Rex", False)
    # A round that began to write has kept the base by which the backup is compared.
    is_named = cut_off not in (_killed, _open_sheet)
    assert kinds(report) == ([("conflict", 5)] if is_named else [])
    assert (scenario.sheet_pets() == stored) is not is_named
    scenario.edit(lambda pets: changed(pets, 5, name="Sheet 5"))
    assert scenario.run().round.exit_code == 0
    again = scenario.run()
    assert (again.round.status, again.open) == ("in-sync", ())
    assert scenario.sheet_pets() == scenario.store_pets()


@pytest.mark.parametrize("cut_off", [_killed, _open_sheet, _busy, _unanswered])
def test_a_row_of_after_a_backup_that_a_round_has_recognised_stays(
    scenario: BackupScenario,
    monkeypatch: pytest.MonkeyPatch,
    cut_off: Callable[[BackupScenario, pytest.MonkeyPatch], None],
) -> None:
    """The pet of a row that was added after a backup stays, if an interrupted round recognised the
    backup and an older row is removed from it.
    """
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    first = scenario.run()
    scenario.edit(lambda pets: [*pets, NEW])
    scenario.box.put(NEW)
    assert scenario.run().round.exit_code == 0
    scenario.backup(first)
    _ends_early(scenario, monkeypatch, cut_off)
    scenario.edit(lambda pets: [pet for pet in pets if pet.id != 5])
    report = scenario.run()
    assert scenario.store_pets()[50] == scenario.sheet_pets()[50] == NEW
    assert [*scenario.store_pets()] == [pet.id for pet in (*PETS, NEW)]
    assert ("conflict", 5) in kinds(report)


@pytest.mark.parametrize("cut_off", [_busy, _unanswered])
def test_a_backup_that_a_round_has_recognised_becomes_no_newer_one(
    scenario: BackupScenario,
    monkeypatch: pytest.MonkeyPatch,
    cut_off: Callable[[BackupScenario, pytest.MonkeyPatch], None],
) -> None:
    """A backup that an interrupted round recognised does not count as a newer one when rows are
    removed from it, and the store's later values stay.
    """
    scenario.options = {**scenario.options, "guard": Guard(max_delete=Limit(3, is_share=False))}
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    scenario.box.remove(7)
    scenario.box.remove(8)
    first = scenario.run()
    for pet in changed(changed(PETS, 10, name="Store 10"), 11, name="Store 11")[9:11]:
        scenario.box.put(pet)
    assert scenario.run().round.exit_code == 0
    scenario.backup(first)
    _ends_early(scenario, monkeypatch, cut_off)
    scenario.edit(
        lambda pets: [pet for pet in changed(pets, 2, name="Rex") if pet.id not in (7, 8)]
    )
    scenario.run()
    names = [scenario.store_pets()[number].name for number in (2, 5, 10, 11)]
    assert names == ["Rex", "Store 5", "Store 10", "Store 11"]
    assert {7, 8}.isdisjoint(scenario.store_pets())


def test_a_row_that_is_taken_out_of_an_older_copy_does_not_return(scenario: BackupScenario) -> None:
    """A row that is removed from an older copy deletes its pet if the copy has the other values
    that were written with that row.
    """
    scenario.box.put(NEW)
    scenario.box.put(changed(PETS, 4, name="Store 4")[3])
    assert scenario.run().round.to_sheet.total == 2
    for pet in changed(changed(PETS, 5, name="Store 5"), 6, name="Store 6")[4:6]:
        scenario.box.put(pet)
    second = scenario.run()
    scenario.backup(second)
    scenario.edit(lambda pets: [pet for pet in pets if pet.id != 50])
    assert _warns_of_backup(scenario.run())
    assert 50 not in scenario.sheet_pets()
    assert 50 not in scenario.store_pets()
    assert [scenario.store_pets()[number].name for number in (4, 5, 6)] == [
        "Store 4",
        "Store 5",
        "Store 6",
    ]


def test_a_backup_in_a_folder_with_a_row_twice_stays_one(scenario: BackupScenario) -> None:
    """A backup in a folder with a row that is now in another sheet holds back both rows, and
    values that were sent since stay in the store.
    """
    folder = scenario.sheet.parent
    other = folder / "b.csv"
    scenario.options = {**scenario.options, "sheet": None, "folder": folder, "files": "*.csv"}

    def rounds() -> list[RoundReport]:
        return [*reconcile_jobs(scenario.config())]

    def write_other(*pets: ps.Pet) -> None:
        ps.write_sheet(ps.frame_from_pets(pets), other, base=False)

    write_other(NEW)
    scenario.box.put(NEW)
    rounds()
    scenario.box.put(changed(PETS, 7, name="Store 7")[6])
    first = next(report for report in rounds() if report.round.backup)
    scenario.edit(lambda pets: [pet for pet in changed(pets, 5, name="Sheet 5") if pet.id != 7])
    write_other(NEW, scenario.store_pets()[7])
    rounds()
    scenario.backup(first)
    report = rounds()
    assert [each.round.status for each in report] == ["findings", "findings"]
    assert [o.pet_id for each in report for o in each.open if o.kind == "finding"] == [7, 7]
    scenario.edit(lambda pets: [pet for pet in pets if pet.id != 7])
    for _ in range(2):
        stored = scenario.store_pets()
        assert (stored[5].name, stored[7].name) == ("Sheet 5", "Store 7")
        assert [each.round.exit_code for each in rounds()] == [0, 0]


@pytest.mark.parametrize("edited", [False, True])
def test_a_row_of_after_a_backup_that_is_put_back_twice_stays(
    scenario: BackupScenario, edited: bool
) -> None:
    """A row that was added to an edited backup stays when the same backup is put back again."""
    for pet in changed(changed(PETS, 5, name="Store 5"), 6, name="Store 6")[4:6]:
        scenario.box.put(pet)
    first = scenario.run()
    scenario.backup(first)
    scenario.edit(lambda pets: [*pets, ps.Pet(name="Ohne", status="sold")])
    assert _warns_of_backup(scenario.run())
    scenario.backup(first)
    if edited:
        scenario.edit(lambda pets: changed(pets, 2, name="Rex"))
    assert _warns_of_backup(scenario.run())
    assert [pet.name for pet in scenario.sheet_pets().values()].count("Ohne") == 1
    assert scenario.sheet_pets() == scenario.store_pets()
    names = [scenario.store_pets()[number].name for number in (2, 5, 6)]
    assert names == ["Rex" if edited else "Pet 2", "Store 5", "Store 6"]


def test_a_part_of_it_is_a_persons_edit(scenario: BackupScenario) -> None:
    """One value that is set back, or one row that is removed, is an edit, and no backup is
    reported.
    """
    _news(scenario)
    scenario.run()
    scenario.edit(lambda pets: changed(pets, 5, name="Pet 5"))
    report = scenario.run()
    assert (scenario.store_pets()[5].name, _warns_of_backup(report)) == ("Pet 5", False)
    scenario.edit(lambda pets: [pet for pet in pets if pet.id != 50])
    report = scenario.run()
    assert (50 in scenario.store_pets(), _warns_of_backup(report)) == (False, False)


def test_one_pet_that_is_set_back_is_a_conflict(any_scenario: BackupScenario) -> None:
    """A text file with one pet's old values is a conflict, because it may be a backup or an edit,
    and the second time it is an edit. A workbook with the same bytes is the backup each time.
    """
    scenario = any_scenario
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    first = scenario.run()
    scenario.backup(first)
    report = scenario.run()
    assert scenario.store_pets()[5].name == "Store 5"
    if scenario.ending == "xlsx":
        assert _warns_of_backup(report)
        assert scenario.sheet_pets()[5].name == "Store 5"
        scenario.backup(first)
        assert _warns_of_backup(scenario.run())
        assert scenario.store_pets()[5].name == scenario.sheet_pets()[5].name == "Store 5"
        return
    assert report.round.exit_code == 5
    assert [each.pet_id for each in report.open if each.kind == "conflict"] == [5]
    assert scenario.sheet_pets()[5].name == "Pet 5"
    scenario.edit(lambda pets: changed(pets, 5, name="Store 5"))
    assert scenario.run().round.status == "in-sync"
    scenario.backup(first)
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[5].name == scenario.sheet_pets()[5].name == "Pet 5"


def test_a_row_that_still_lacks_its_id_shows_no_older_copy(
    scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new row that was edited before a round could write its id is in conflict, and does not let
    an edit of another row pass for an older copy.
    """
    scenario.write([*PETS, ps.Pet(name="Neu", status="available")])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("petsync.reconcile.round._Execution._write", killed)
        scenario.run()
    added = max(scenario.store_pets())
    scenario.write([*PETS, ps.Pet(name="Other", status="sold")])
    scenario.box.put(changed(PETS, 1, name="Store 1")[0])
    assert ("conflict", added) in kinds(scenario.run())
    assert scenario.sheet_pets()[1].name == "Store 1"
    scenario.edit(lambda pets: changed(changed(pets, 1, name="Pet 1"), 2, name="Rex"))
    report = scenario.run()
    assert (_warns_of_backup(report), len(scenario.store_pets())) == (False, len(PETS) + 1)
    assert {("conflict", 1), ("conflict", added)} <= {*kinds(report)}
    assert (scenario.sheet_pets()[1].name, scenario.store_pets()[1].name) == ("Pet 1", "Store 1")
    assert scenario.store_pets()[2].name == "Rex"


def test_an_id_that_a_formula_keeps_out_shows_no_older_copy(
    scenario: BackupScenario, first_rounds: FirstRounds, tmp_path: Path
) -> None:
    """A new row whose id cell has a formula is a finding in each round, and does not let an edit of
    another row pass for an older copy.
    """
    scenario = BackupScenario(scenario.box, tmp_path / "workbook", scenario.options)
    scenario.ending = "xlsx"
    scenario.folder.mkdir()
    first_rounds.begin(scenario, PETS)
    formula = re.compile(rb'(<c r="A14")[^>]*><f>""</f><v ?/?>(</v>)?')

    def type_cells(**texts: str) -> None:
        book = load_workbook(scenario.sheet)
        for place, text in texts.items():
            book.active[place] = text
        book.save(scenario.sheet)
        calculated = partial(formula.sub, rb'\1 t="str"><f>""</f><v></v>')
        books.change(scenario.sheet, {"sheet1.xml": calculated})

    type_cells(A14='=""', B14="Neu", C14="available")
    scenario.box.put(changed(PETS, 1, name="Store 1")[0])
    added = ("finding", len(PETS) + 1)
    assert added in kinds(scenario.run())
    assert load_workbook(scenario.sheet).active["B2"].value == "Store 1"
    type_cells(B2="Pet 1", B3="Rex")
    report = scenario.run()
    assert (_warns_of_backup(report), len(scenario.store_pets())) == (False, len(PETS) + 1)
    assert {("conflict", 1), added} <= {*kinds(report)}
    assert load_workbook(scenario.sheet).active["B2"].value == "Pet 1"
    assert scenario.store_pets()[1].name == "Store 1"
    assert scenario.store_pets()[2].name == "Rex"


@pytest.mark.parametrize("is_away", [True, False])
def test_an_older_value_in_a_column_that_comes_back_is_a_conflict(
    scenario: BackupScenario, is_away: bool
) -> None:
    """A value from before a round wrote the row is a conflict if its column was away since, because
    an edit is uncertain; otherwise it is an edit.
    """
    tags = (*PETS[5].tags, ps.Tag(106, "young"))
    news = (changed(PETS, 5, status="available")[4], changed(PETS, 6, status="sold", tags=tags)[5])
    for pet in news:
        scenario.box.put(pet)
    scenario.run()
    if is_away:
        frame = ps.read_sheet(scenario.sheet).frame
        ps.write_sheet(frame.drop(columns=["status", "tags"]), scenario.sheet, base=False)
        assert scenario.run().round.status == "in-sync"
    older = changed([*scenario.store_pets().values()], 5, status=PETS[4].status)
    scenario.write(changed(older, 6, tags=PETS[5].tags))
    report = scenario.run()
    if not is_away:
        assert (report.round.status, report.round.to_store.total) == ("done", 2)
        return
    assert (report.round.exit_code, report.round.to_store.total, report.round.to_sheet.total) == (
        5,
        0,
        0,
    )
    found = {each.pet_id: each.fields for each in report.open if each.kind == "conflict"}
    assert found == {5: ("status",), 6: ("tags",)}
    assert [scenario.store_pets()[pet.id or 0] for pet in news] == [*news]


def test_a_row_that_lacks_its_id_again_shows_an_older_copy(scenario: BackupScenario) -> None:
    """A row that lacks its id again shows an older copy, so the pet of a row that the copy lacks
    stays in conflict.
    """
    backups = []
    for name in ("Neu", "Mehr"):
        rows = pd.read_csv(scenario.sheet, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        rows = pd.concat([rows, pd.DataFrame([{"name": name, "status": "sold"}])]).fillna("")
        rows.to_csv(scenario.sheet, index=False)
        backups.append(scenario.run())
    ids = {pet.name: pet.id for pet in scenario.box.pets()}
    scenario.backup(backups[0])
    rows = pd.read_csv(scenario.sheet, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    rows[rows["id"] != "4"].to_csv(scenario.sheet, index=False)
    for _ in range(2):
        report = scenario.run()
        assert report.round.exit_code == 5
        assert {each.pet_id for each in report.open if each.kind == "conflict"} == {ids["Mehr"]}
        assert {"Neu", "Mehr"} <= {pet.name for pet in scenario.box.pets()}


@pytest.mark.parametrize(("is_put_back", "gets_id"), [(True, True), (True, False), (False, True)])
def test_an_older_row_that_is_known_late_takes_nothing_back(
    scenario: BackupScenario, is_put_back: bool, gets_id: bool
) -> None:
    """An older row whose pet is recognised only after the copy reverts nothing: its different
    values are a conflict, and without a copy they are an edit.
    """

    def type_row(name: str, **cells: str) -> None:
        rows = pd.read_csv(scenario.sheet, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        row = {"name": name, "status": "sold", **cells}
        rows = pd.concat([rows[rows["name"] != name], pd.DataFrame([row])])
        rows.fillna("").to_csv(scenario.sheet, index=False)

    type_row("Neu", tags="calm", action="ignore")
    for number in (5, 6):
        scenario.box.put(changed(PETS, number, name=f"Store {number}")[number - 1])
    first = scenario.run()
    type_row("Neu", tags="calm; loud")
    assert scenario.run().round.to_store.add == 1
    (new,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    if is_put_back:
        scenario.backup(first)
        assert _warns_of_backup(scenario.run())
    type_row("Neu", tags="calm", **({"id": str(new.id)} if gets_id else {}))
    report = scenario.run()
    (stored,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    if not is_put_back:
        assert (report.round.status, [tag.name for tag in stored.tags]) == ("done", ["calm"])
        return
    assert (report.round.exit_code, report.round.to_store.total, stored) == (5, 0, new)
    found = [(each.pet_id, each.fields) for each in report.open if each.kind == "conflict"]
    assert found == [(new.id, ("tags",))]


def test_a_backup_in_which_rows_lack_their_ids_is_known_each_time(scenario: BackupScenario) -> None:
    """A backup in which rows lack their ids is recognised each time, although only one cell has
    another value.
    """
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    scenario.edit(lambda pets: [*pets, ps.Pet(name="Neu", status="sold")])
    first = scenario.run()
    for _ in range(3):
        scenario.backup(first)
        report = scenario.run()
        assert (report.round.status, report.round.to_store.total, _warns_of_backup(report)) == (
            "done",
            0,
            True,
        )
        assert scenario.store_pets()[5].name == scenario.sheet_pets()[5].name == "Store 5"
    assert scenario.run().round.status == "in-sync"


def test_twenty_versions_are_kept(
    scenario: BackupScenario, caplog: pytest.LogCaptureFixture
) -> None:
    """Twenty versions are kept with access for their owner only, the oldest is removed first, and
    damaged ones are skipped.
    """
    for number in range(20):
        for pet in (PETS[4], PETS[5]):
            scenario.box.put(msgspec.structs.replace(pet, name=f"Store {number}"))
        last = scenario.run()
    kept = sorted((scenario.state / "reconcile/versions/catalogue").iterdir())
    assert len(kept) == 20
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    kept[0].write_bytes(b"{")
    kept[1].write_bytes(kept[1].read_bytes().replace(b"petsync-base 2", b"petsync-base 9"))
    scenario.backup(last)
    assert _warns_of_backup(scenario.run(dry_run=True))
    assert "is skipped: the records of its base cannot be used: they are in" in caplog.text


def test_a_base_of_another_store_is_never_a_first_round(scenario: BackupScenario) -> None:
    """A base of another store is an error and changes nothing, unless the option `moved` confirms
    the new address.
    """
    scenario.write(changed(PETS, 1, name="Rex"))
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    elsewhere = scenario.box.url.replace("127.0.0.1", "localhost")
    for mode in ("two-way", "push", "pull"):
        report = scenario.run(url=elsewhere, mode=mode)
        assert (report.round.status, report.round.exit_code) == ("error", 1)
        assert "--job catalogue --moved" in report.round.hint
    assert (scenario.store_pets()[1].name, scenario.sheet_pets()[5].name) == ("Pet 1", "Pet 5")
    report = scenario.run(url=elsewhere, moved=True)
    assert (report.round.status, "are used for this address" in report.open[0].problem) == (
        "done",
        True,
    )
    assert scenario.sheet_pets() == scenario.store_pets()
    assert (scenario.store_pets()[1].name, scenario.store_pets()[5].name) == ("Rex", "Store 5")
    assert scenario.run(url=elsewhere.upper().replace("HTTP", "http")).open == ()


def test_another_store_is_not_a_moved_one(scenario: BackupScenario) -> None:
    """With `moved`, a store with other pets under the ids of the base is refused, and no pet is
    changed.
    """
    others = [msgspec.structs.replace(pet, name=f"Other {pet.id}") for pet in PETS]
    with Sandbox(auth=False, pets=others) as box:
        report = scenario.run(url=box.url, moved=True, mode="push")
        assert (report.round.status, report.round.exit_code) == ("error", 1)
        assert "pet 1 is 'Other 1', and was 'Pet 1'" in report.round.problem
        assert "a job of its own" in report.round.hint
        assert sorted(box.pets(), key=lambda pet: pet.id or 0) == others


def test_a_row_that_moves_to_another_file_is_no_edit(scenario: BackupScenario) -> None:
    """A row that moves to another file, and a file or job with a new name, are compared with what
    was agreed before, and nothing is sent.
    """
    folder = scenario.folder / "inbox"
    folder.mkdir()

    def write(name: str, pets: list[ps.Pet]) -> None:
        ps.write_sheet(ps.frame_from_pets(pets), folder / name, base=False)

    def rounds() -> set[str]:
        job = scenario.job("inbox", folder=folder, files="*.csv", sheet=None)
        return {report.round.status for report in reconcile_jobs(scenario.config(job))}

    write("a.csv", PETS[:6])
    write("b.csv", PETS[6:])
    assert rounds() == {"in-sync"}
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    write("a.csv", [*PETS[:4], PETS[5]])
    write("b.csv", [*PETS[6:], PETS[4]])
    assert "done" in rounds()
    assert scenario.store_pets()[5].name == "Store 5"
    scenario.box.put(changed(PETS, 6, name="Store 6")[5])
    (folder / "a.csv").rename(folder / "c.csv")
    assert "done" in rounds()
    assert scenario.store_pets()[6].name == "Store 6"
    scenario.box.put(changed(PETS, 1, name="Store 1")[0])
    assert scenario.run(name="renamed").round.to_store.total == 0
    assert scenario.store_pets()[1].name == scenario.sheet_pets()[1].name == "Store 1"


class ExportScenario(BackupScenario):
    """A workbook that is an export, with its own base."""

    ending = "xlsx"

    def export(self, path: Path) -> None:
        """Export the store with a base that is an hour old."""
        with ps.connect(self.box.url, state=self.state) as store:
            now = store.snapshot()
        ps.write_sheet(replace(now, taken_at=now.taken_at - timedelta(hours=1)), path)

    def type(self, pet_id: int, column: str, text: str | None) -> None:
        """Change a cell of a pet's row, and save the workbook as another program does."""
        book = load_workbook(self.sheet)
        sheet = book.worksheets[0]
        header = [cell.value for cell in sheet[1]]
        at = {str(row[header.index("id")].value): row for row in sheet.iter_rows(min_row=2)}
        at[str(pet_id)][header.index(column)].value = text
        book.save(self.sheet)

    def apply(self) -> str:
        """Apply the sheet manually, and return the run id."""
        with ps.connect(self.box.url, state=self.state) as store:
            return store.apply(store.plan(self.sheet), progress=False).run_id

    def news(self, pet_id: int, **fields: Any) -> None:
        """Change a pet in the store."""
        self.box.put(changed(self.store_pets().values(), pet_id, **fields)[pet_id - 1])


@pytest.fixture
def export_scenario(_open_box: Sandbox, tmp_path: Path) -> ExportScenario:
    """Return an export that agrees with the store after one round."""
    _open_box.set_faults(None)
    _open_box.reset(PETS)
    scenario = ExportScenario(_open_box, tmp_path, {"mode": "two-way", "delete_missing": True})
    scenario.export(scenario.sheet)
    assert scenario.run().round.status == "in-sync"
    return scenario


@pytest.mark.parametrize(
    ("how", "pets", "edited"),
    pairwise(("sent", "by hand", "killed before", "killed behind"), ((5,), (5, 6)), (False, True)),
)
def test_a_backup_of_an_export_reverts_nothing(
    export_scenario: ExportScenario,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    pets: tuple[int, ...],
    edited: bool,
) -> None:
    """A backup of an export reverts nothing that was edited and sent since, however often it is put
    back, although it has its own base.
    """
    scenario = export_scenario
    for pet_id in pets:
        scenario.news(pet_id, name=f"Store {pet_id}")
    backup = scenario.folder / "backup.xlsx"
    shutil.copy(scenario.sheet, backup)
    with monkeypatch.context() as patch:
        if how == "killed behind":
            patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
        if how == "killed before":
            patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
        report = scenario.run()
    assert report.round.status == ("interrupted" if "killed" in how else "done")
    if how == "killed before":
        assert scenario.run().round.status == "done"
    scenario.type(4, "name", "Rex")
    if how == "by hand":
        scenario.apply()
    assert scenario.run().round.exit_code == 0
    assert scenario.store_pets()[4].name == "Rex"
    for pet_id in (2, 3):
        shutil.copy(backup, scenario.sheet)
        if edited:
            scenario.type(pet_id, "name", "Sheet")
        before = scenario.store_pets()
        dry = scenario.run(dry_run=True)
        report = scenario.run()
        assert (report.round.status, report.round.to_store.total) == ("done", int(edited))
        assert dry.round.to_store == report.round.to_store
        assert _warns_of_backup(report)
        new = {pet_id: changed(PETS, pet_id, name="Sheet")[pet_id - 1]} if edited else {}
        assert scenario.store_pets() == {**before, **new} == scenario.sheet_pets()
        assert scenario.run().open == ()


def test_a_newer_backup_of_an_export_after_an_older_one_is_known(
    export_scenario: ExportScenario,
) -> None:
    """Backups of an export are recognised in any order, each by what was agreed when it was
    made.
    """
    scenario, backups = export_scenario, []
    for name in ("One", "Two", "Three"):
        scenario.news(5, name=name)
        scenario.news(6, name=name)
        backups.append(Path(scenario.run().round.backup))
        scenario.type(4, "name", f"Rex {name}")
        assert scenario.run().round.to_store.total == 1
    before = scenario.store_pets()
    for backup in (backups[0], backups[2], backups[1], backups[0]):
        shutil.copy(backup, scenario.sheet)
        report = scenario.run()
        assert (report.round.to_store.total, _warns_of_backup(report)) == (0, True)
        assert scenario.store_pets() == before == scenario.sheet_pets()
        assert scenario.run().open == ()


def test_a_cell_that_is_set_back_in_an_export_is_an_edit(export_scenario: ExportScenario) -> None:
    """A cell that is set back in the sheet of the last round is an edit."""
    scenario = export_scenario
    scenario.news(5, name="Store 5")
    scenario.news(6, name="Store 6")
    scenario.run()
    scenario.type(4, "name", "Rex")
    scenario.run()
    scenario.type(4, "name", "Pet 4")
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert scenario.store_pets()[4].name == "Pet 4"


def test_a_row_that_may_be_the_pet_of_a_copy_is_held_with_that_reason(
    export_scenario: ExportScenario,
) -> None:
    """A new row that may be the row of a pet that a copy added is held with that reason, and both
    are added once the row has the action `add-another`.
    """
    scenario = export_scenario
    copy = scenario.folder / "mine.xlsx"
    shutil.copy(scenario.sheet, copy)
    _append(copy, name="Mine", status="available", category="Dogs")
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.apply(store.plan(copy), progress=False)
    _append(scenario.sheet, name="Other", status="available", category="Dogs")
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, report.round.to_sheet.total) == ("conflicts", 0)
        assert "may be the row that was added" in report.open[0].problem
    book = load_workbook(scenario.sheet)
    sheet = book.worksheets[0]
    header = [cell.value for cell in sheet[1]]
    at = header.index("action") if "action" in header else len(header)
    sheet.cell(1, at + 1).value = "action"
    sheet.cell(len(PETS) + 2, at + 1).value = "add-another"
    book.save(scenario.sheet)
    assert scenario.run().round.exit_code == 0
    assert {"Mine", "Other"} <= {pet.name for pet in scenario.store_pets().values()}
    assert scenario.sheet_pets().keys() == scenario.store_pets().keys()


def _append(path: Path, **cells: str) -> None:
    """Add a row below the others of a workbook."""
    book = load_workbook(path)
    sheet = book.worksheets[0]
    header = [cell.value for cell in sheet[1]]
    for name, text in cells.items():
        sheet.cell(len(PETS) + 2, header.index(name) + 1).value = text
    book.save(path)


@pytest.mark.parametrize("how", ["sent", "by hand"])
def test_an_older_export_in_the_place_of_the_sheet_reverts_nothing(
    export_scenario: ExportScenario, how: str
) -> None:
    """An older export in the place of the sheet is compared by its own base, and reverts nothing
    that was sent from the other file; a note reports it.
    """
    scenario = export_scenario
    other = scenario.folder / "other.xlsx"
    scenario.news(5, name="Store 5")
    scenario.export(other)
    scenario.type(4, "name", "Rex")
    if how == "by hand":
        scenario.apply()
    assert scenario.run().round.exit_code == 0
    shutil.copy(other, scenario.sheet)
    scenario.type(3, "name", "Max")
    report = scenario.run()
    assert (report.round.status, report.round.to_store.total) == ("done", 1)
    assert any(
        "the file may have been replaced by an older one" in each.problem for each in report.open
    )
    assert (scenario.store_pets()[4].name, scenario.store_pets()[3].name) == ("Rex", "Max")
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.run().open == ()


def test_a_backup_of_an_export_from_before_the_last_ten_reverts_nothing(
    export_scenario: ExportScenario,
) -> None:
    """A backup of an export from before the kept versions is compared by its own base, and reverts
    nothing; a note reports it.
    """
    scenario = export_scenario
    scenario.news(5, name="First")
    backup = scenario.run().round.backup
    for number in range(11):
        scenario.news(6, name=f"Store {number}")
        scenario.type(4, "name", f"Rex {number}")
        assert scenario.run().round.status == "done"
    shutil.copy(backup, scenario.sheet)
    before = scenario.store_pets()
    report = scenario.run()
    assert (report.round.status, report.round.to_store.total) == ("done", 0)
    assert any(
        "the file may have been replaced by an older one" in each.problem for each in report.open
    )
    assert scenario.store_pets() == before == scenario.sheet_pets()
    assert scenario.run().open == ()


@each_choice
@pytest.mark.parametrize("mode", ["two-way", "push", "check"])
@pytest.mark.parametrize("how", ["cut", "renamed", "emptied"])
def test_a_column_that_is_away_in_the_first_round_reverts_nothing(
    export_scenario: ExportScenario, how: str, mode: str
) -> None:
    """A column that an export's base has and its sheet lacks in the first round is reported, and
    reverts nothing when it is restored.
    """
    scenario = export_scenario
    scenario.options = {"mode": mode}

    def run() -> RoundReport:
        return scenario.run(name="fresh")

    scenario.export(scenario.sheet)
    book = load_workbook(scenario.sheet)
    sheet = book.worksheets[0]
    at = [cell.value for cell in sheet[1]].index("name") + 1
    cells = [sheet.cell(row, at).value for row in range(1, sheet.max_row + 1)]
    if how == "cut":
        sheet.delete_cols(at)
    elif how == "renamed":
        sheet.cell(1, at).value = "Rufname"
    else:
        for row in range(2, sheet.max_row + 1):
            sheet.cell(row, at).value = None
    book.save(scenario.sheet)
    report = run()
    is_finding = how == "renamed"
    assert report.round.exit_code == (3 if is_finding else 0)
    (difference,) = (each for each in report.open if "columns that had values" in each.problem)
    assert difference.kind == ("finding" if is_finding else "note")
    assert ("'Rufname'" in difference.problem) is is_finding
    if mode != "two-way":
        return
    scenario.news(5, name="Store 5")
    scenario.news(6, name="Store 6")
    run()
    book = load_workbook(scenario.sheet)
    sheet = book.worksheets[0]
    at = sheet.max_column + 1 if how == "cut" else at
    for row, text in enumerate(cells, 1):
        sheet.cell(row, at).value = text
    book.save(scenario.sheet)
    scenario.type(6, "name", "Sheet 6")
    scenario.type(7, "name", "Sheet 7")
    report = run()
    assert [(each.kind, each.pet_id) for each in report.open] == [("conflict", 6)]
    assert [scenario.store_pets()[n].name for n in (5, 6, 7)] == ["Store 5", "Store 6", "Sheet 7"]
    assert (scenario.sheet_pets()[5].name, scenario.sheet_pets()[6].name) == ("Store 5", "Sheet 6")


@pytest.mark.parametrize("is_moved", [False, True])
def test_an_undone_add_stays_undone_though_its_row_was_renamed(
    scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch, is_moved: bool
) -> None:
    """An add that was undone stays undone although its row was renamed: the row, which has no id,
    is a conflict in each round until it is removed, also in a backup.
    """
    undone = ps.Pet(name="Ohne", status="sold", tags=(ps.Tag(1, "calm"),))
    scenario.edit(lambda pets: [*pets, undone])
    with monkeypatch.context() as patch:
        _killed(scenario, patch)
        assert scenario.run().round.status == "interrupted"
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.apply(store.undo(), progress=False)
    _, *others = ps.pets_from_frame(ps.read_sheet(scenario.sheet).frame)
    renamed = msgspec.structs.replace(undone, name="Mit")
    scenario.write([renamed, *others])
    assert scenario.run().round.status == "conflicts"

    new = ps.Pet(name="Neuer", status="sold", tags=(ps.Tag(2, "loud"),))
    scenario.write([renamed, new, *([others[-1], *others[:-1]] if is_moved else others)])
    report = scenario.run()
    assert report.round.status == "conflicts"
    assert any("an undo removed that pet" in each.problem for each in report.open)
    assert not [pet for pet in scenario.box.pets() if pet.name in ("Ohne", "Mit")]
    scenario.edit(lambda pets: [pet for pet in pets if pet.name != "Mit"])
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    scenario.box.put(changed(PETS, 6, name="Store 6")[5])
    assert scenario.run().round.status == "done"

    scenario.backup(report)
    for _ in range(2):
        assert scenario.run().round.status == "conflicts"
        assert not [pet for pet in scenario.box.pets() if pet.name in ("Ohne", "Mit")]
    scenario.edit(lambda pets: [pet for pet in pets if pet.name != "Mit"])
    assert scenario.run().round.exit_code == 0
    assert scenario.sheet_pets() == scenario.store_pets()


@pytest.mark.parametrize(
    ("news", "edit", "named"),
    [
        ((5, 6, 7), lambda pets: changed(pets, 6, name="Rex"), {6}),
        ((5, 6, 7), lambda pets: [pet for pet in pets if pet.id != 6], {6}),
        ((5, 6), lambda pets: changed(pets, 6, name="Rex"), {5, 6}),
        ((5, 6), lambda pets: [pet for pet in pets if pet.id != 6], {5, 6}),
        ((5,), lambda pets: changed(pets, 5, name="Rex"), {5}),
    ],
    ids=["a cell of three", "a row of three", "a cell of two", "a row of two", "one row"],
)
def test_what_was_written_is_edited_in_a_backup(
    any_scenario: BackupScenario,
    news: tuple[int, ...],
    edit: Callable[[list[ps.Pet]], list[ps.Pet]],
    named: set[int],
) -> None:
    """If a backup is edited in rows that the round after it wrote, the store keeps its values, and
    the edited rows are in conflict.
    """
    scenario = any_scenario
    more = {"status": "pending"} if len(news) == 1 else {}
    for pet_id in news:
        scenario.box.put(changed(PETS, pet_id, name=f"Store {pet_id}", **more)[pet_id - 1])
    first = scenario.run()
    before = scenario.store_pets()
    scenario.backup(first)
    scenario.edit(edit)
    report = scenario.run()
    assert report.round.status == "conflicts"
    assert {pet_id for kind, pet_id in kinds(report) if kind == "conflict"} == named
    assert scenario.store_pets() == before


def test_a_backup_is_known_by_a_row_that_lacks_its_id_again(
    scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup is recognised by a row that lacks the id from a manual run, even if the run was
    killed before it recorded its write: values sent since stay, and are in conflict if the backup
    was edited.
    """
    scenario.edit(lambda pets: [*pets, ps.Pet(name="Ohne", status="sold")])
    content, remember = scenario.sheet.read_bytes(), Outputs.remember

    def until_written(self: Outputs, plan: Plan, wanted: OutputRequest) -> None:
        if wanted.digest:
            raise KeyboardInterrupt
        remember(self, plan, wanted)

    with ps.connect(scenario.box.url, state=scenario.state) as store:
        outputs, sheet = Outputs(store.aio.history), store.read(scenario.sheet)
        report = store.apply(store.plan(sheet), progress=False)
        monkeypatch.setattr(Outputs, "remember", until_written)
        with pytest.raises(KeyboardInterrupt):
            outputs.write_into_sheet(sheet, report, "ids")
        assert outputs.sheet(report.plan, ("available", "pending", "sold")) is not None
    assert scenario.run().round.exit_code == 0
    scenario.edit(lambda pets: changed(pets, 4, name="Sheet 4"))
    assert scenario.run().round.exit_code == 0
    before = scenario.store_pets()
    scenario.sheet.write_bytes(content)
    scenario.edit(lambda pets: changed(pets, 2, name="Rex"))
    result = scenario.run()
    assert kinds(result) == [("conflict", 4)]
    assert scenario.store_pets() == {**before, 2: changed(PETS, 2, name="Rex")[1]}
    scenario.sheet.write_bytes(content)
    assert _warns_of_backup(scenario.run())
    assert scenario.store_pets()[4].name == scenario.sheet_pets()[4].name == "Sheet 4"


def test_a_run_that_is_resumed_after_a_cell_was_set_back_is_news_of_the_store(
    scenario: BackupScenario,
) -> None:
    """A run that is resumed after a round agreed on the value that was set back is a change of the
    store, and the sheet takes it.
    """
    scenario.edit(lambda pets: changed(pets, 3, name="Hand 3"))
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        plan = store.plan(scenario.sheet)
        scenario.box.set_faults("503=1,only=updatePetWithForm")
        with pytest.raises(InterruptedRunError):
            store.apply(plan, max_failures=0, progress=False)
        scenario.box.set_faults(None)
        scenario.edit(lambda pets: changed(pets, 3, name="Pet 3"))
        assert scenario.run().round.exit_code == 0
        assert store.resume(progress=False).counts["applied"] == 1
    report = scenario.run()
    assert (report.round.to_store.total, report.round.to_sheet.total) == (0, 1)
    assert scenario.store_pets()[3].name == scenario.sheet_pets()[3].name == "Hand 3"


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_sheet_without_its_ids_is_no_backup(scenario: BackupScenario, is_renamed: bool) -> None:
    """A sheet whose id column has another header, or is empty, for one round is not a backup, so a
    row that is removed later deletes its pet.
    """
    for pet in (PETS[4], PETS[5]):
        scenario.box.put(msgspec.structs.replace(pet, name="Store"))
    first = scenario.run()
    scenario.backup(first)
    scenario.box.put(NEW)
    scenario.box.put(msgspec.structs.replace(NEW, id=51, name="Auch neu"))
    assert scenario.run().round.status == "done"
    before = scenario.sheet.read_text("utf-8-sig")
    header, *rows = before.splitlines()
    away = [f",{row.partition(',')[2]}" for row in rows]
    lines = [header.replace("id,", "Zettel,", 1), *rows] if is_renamed else [header, *away]
    scenario.sheet.write_text("\n".join(lines), "utf-8")
    assert scenario.run().round.status == "refused"
    scenario.sheet.write_text("\n".join([header, *rows[:-1]]), "utf-8")
    report = scenario.run()
    assert (report.round.status, report.open, 51 in scenario.store_pets()) == ("done", (), False)
    assert scenario.sheet_pets() == scenario.store_pets()


def _is_older(report: RoundReport) -> bool:
    return any(
        "an older copy or a backup may have been restored" in each.problem for each in report.open
    )


def _days(scenario: BackupScenario) -> list[bytes]:
    """Run two days with edits on both sides and a day with edits in the sheet, and return the
    sheet's files from before the first day on.
    """
    saved = [scenario.sheet.read_bytes()]
    for own, news in (((1, 2), (5,)), ((3,), (6,)), ((1, 4), ())):
        for pet_id in own:
            name = f"Sheet {pet_id}.{len(saved)}"
            scenario.edit(lambda pets, pet_id=pet_id, name=name: changed(pets, pet_id, name=name))  # type: ignore[misc]
        for pet_id in news:
            scenario.box.put(changed(PETS, pet_id, name=f"Store {pet_id}")[pet_id - 1])
        assert scenario.run().round.status == "done"
        saved.append(scenario.sheet.read_bytes())
    return saved


@pytest.mark.parametrize(("day", "edited"), [(0, ()), (0, (1, 8)), (1, (8,))])
def test_an_older_copy_of_ones_own_reverts_nothing(
    any_scenario: BackupScenario, day: int, edited: tuple[int, ...]
) -> None:
    """An older copy of the sheet reverts nothing: the sheet takes all later values, and an edit in
    the copy is sent or is a conflict.
    """
    scenario = any_scenario
    saved, before = _days(scenario), scenario.store_pets()
    scenario.sheet.write_bytes(saved[day])
    for pet_id in edited:
        scenario.edit(lambda pets, pet_id=pet_id: changed(pets, pet_id, name="Rex"))  # type: ignore[misc]
    scenario.box.put(changed(PETS, 9, name="Store 9")[8])
    dry = scenario.run(dry_run=True)
    report = scenario.run()
    assert dry.round.to_store == report.round.to_store
    named = [("conflict", 1)] if 1 in edited else []
    assert kinds(report) == [("note", None), *named]
    assert _is_older(report)
    assert report.round.to_store.total == int(8 in edited)
    after = {**before, 9: changed(PETS, 9, name="Store 9")[8]}
    after |= {8: changed(PETS, 8, name="Rex")[7]} if 8 in edited else {}
    assert scenario.store_pets() == after
    if not named:
        assert scenario.sheet_pets() == after
        again = scenario.run()
        assert (again.round.status, again.open) == ("in-sync", ())


def test_older_copies_of_ones_own_in_any_order_revert_nothing(any_scenario: BackupScenario) -> None:
    """Older copies of the sheet revert nothing in any order, also twice and after the job is
    renamed.
    """
    scenario = any_scenario
    saved, before = _days(scenario), scenario.store_pets()
    for number, day in enumerate((0, 2, 1, 0, 0)):
        scenario.sheet.write_bytes(saved[day])
        report = scenario.run(name="renamed" if number > 2 else "catalogue")
        assert (report.round.to_store.total, report.round.exit_code) == (0, 0)
        assert scenario.store_pets() == before == scenario.sheet_pets()


@pytest.mark.parametrize("is_saved_again", [False, True])
def test_where_only_own_edits_are_back_nobody_can_tell(
    any_scenario: BackupScenario, is_saved_again: bool
) -> None:
    """A sheet with older values of two edited pets is a conflict, because it may be a copy or
    edits; a workbook with the same bytes is a copy.
    """
    scenario = any_scenario
    first = scenario.sheet.read_bytes()
    scenario.edit(lambda pets: changed(changed(pets, 1, name="One"), 2, name="Two"))
    assert scenario.run().round.status == "done"
    before = scenario.store_pets()
    scenario.sheet.write_bytes(first)
    if is_saved_again:
        scenario.edit(lambda pets: changed(pets, 8, name="Rex"))
    is_sure = scenario.ending == "xlsx" and not is_saved_again
    named = {("conflict", 1), ("conflict", 2)}
    report = scenario.run()
    after = {**before, **({8: changed(PETS, 8, name="Rex")[7]} if is_saved_again else {})}
    assert scenario.store_pets() == after
    if is_sure:
        assert (report.round.status, _is_older(report), scenario.sheet_pets()) == (
            "done",
            True,
            after,
        )
        return
    for _ in range(2):
        assert report.round.status == "conflicts"
        assert {each for each in kinds(report) if each[0] == "conflict"} == named
        report = scenario.run()
    scenario.box.put(PETS[0])
    scenario.edit(lambda pets: changed(pets, 2, name="Two"))
    assert scenario.run().round.exit_code == 0
    assert scenario.sheet_pets() == scenario.store_pets()
    assert [scenario.store_pets()[n].name for n in (1, 2)] == ["Pet 1", "Two"]


def test_the_note_on_edits_that_are_back_names_the_round(scenario: BackupScenario) -> None:
    """The note about older values names the round of the copy, and one pet alone that is set back
    in a text file is an edit.
    """
    first = scenario.sheet.read_bytes()
    scenario.edit(lambda pets: changed(pets, 1, name="One"))
    scenario.run()
    scenario.sheet.write_bytes(first)
    assert scenario.run().round.to_store.total == 1
    assert scenario.store_pets()[1].name == "Pet 1"
    agreed = scenario.run()
    scenario.edit(lambda pets: changed(changed(pets, 1, name="One"), 2, name="Two"))
    scenario.run()
    scenario.sheet.write_bytes(first)
    (note,) = (each for each in scenario.run().open if each.kind == "note")
    assert f"after round {agreed.round.id} of " in note.problem


def test_rows_of_an_older_copy_of_ones_own_neither_return_nor_are_missing(
    any_scenario: BackupScenario,
) -> None:
    """An older copy deletes no pet that was added since, and adds no pet that was deleted since."""
    scenario = any_scenario
    most = Limit(12, is_share=False)
    guard = Guard(max_add=most, max_update=most, max_delete=most)
    scenario.options = {**scenario.options, "guard": guard}
    first = scenario.sheet.read_bytes()
    new = ps.Pet(name="Ohne", status="sold", tags=(ps.Tag(2, "loud"),))
    scenario.edit(lambda pets: [*pets, new])
    scenario.run()
    scenario.edit(lambda pets: [pet for pet in pets if pet.id != 3])
    scenario.box.put(NEW)
    scenario.box.remove(7)
    scenario.run()
    scenario.edit(lambda pets: changed(pets, 1, name="One", status="sold"))
    scenario.run()
    before = scenario.store_pets()
    assert not before.keys() & {3, 7}
    scenario.sheet.write_bytes(first)
    report = scenario.run()
    assert (report.round.exit_code, report.round.to_store.total, _is_older(report)) == (0, 0, True)
    assert scenario.store_pets() == before == scenario.sheet_pets()


def test_a_workbook_from_before_a_round_that_was_killed_is_an_older_copy(
    export_scenario: ExportScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workbook from before a killed round is an older copy, and does not revert what that round
    sent.
    """
    scenario = export_scenario
    first = scenario.sheet.read_bytes()
    scenario.type(1, "name", "One")
    with monkeypatch.context() as patch:
        patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
        assert scenario.run().round.status == "interrupted"
    before = scenario.store_pets()
    assert before[1].name == "One"
    scenario.sheet.write_bytes(first)
    assert _is_older(scenario.run())
    assert scenario.store_pets() == before == scenario.sheet_pets()
    assert scenario.run().open == ()


@pytest.mark.parametrize("any_scenario", ["xlsx"], indirect=True)
def test_a_workbook_from_before_two_rounds_that_were_killed_is_an_older_copy(
    any_scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workbook from before two killed rounds, of which only the first wrote the sheet, is an
    older copy.
    """
    scenario = any_scenario
    write = sheets.write_synced

    def write_and_die(*args: Any, **options: Any) -> None:
        write(*args, **options)
        raise KeyboardInterrupt

    scenario.run()
    scenario.edit(lambda pets: changed(pets, 1, name="Sheet 1"))
    first = scenario.sheet.read_bytes()
    for pet_id, dies in ((5, write_and_die), (6, Mock(side_effect=KeyboardInterrupt))):
        scenario.box.put(changed(PETS, pet_id, name=f"Store {pet_id}")[pet_id - 1])
        with monkeypatch.context() as patch:
            patch.setattr(sheets, "write_synced", dies)
            assert scenario.run().round.status == "interrupted"
    before = scenario.store_pets()
    assert (before[1].name, scenario.sheet.read_bytes() == first) == ("Sheet 1", False)
    scenario.sheet.write_bytes(first)
    report = scenario.run()
    assert (_warns_of_backup(report), report.round.to_store.total) == (True, 0)
    assert scenario.sheet_pets() == scenario.store_pets() == before
    assert scenario.run().open == ()


@pytest.mark.parametrize("has_first_written", [True, False])
def test_a_file_of_before_rounds_that_were_killed_is_an_older_copy(
    any_scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch, has_first_written: bool
) -> None:
    """A file from before killed rounds is an older copy: later values stay in the store, and are in
    conflict where the file may be an edit.
    """
    scenario = any_scenario
    write = sheets.write_synced

    def write_and_die(*args: Any, **options: Any) -> None:
        write(*args, **options)
        raise KeyboardInterrupt

    def die_after(dies: Any, pet_id: int) -> None:
        scenario.box.put(changed(PETS, pet_id, name=f"Store {pet_id}")[pet_id - 1])
        with monkeypatch.context() as patch:
            patch.setattr(sheets, "write_synced", dies)
            assert scenario.run().round.status == "interrupted"

    scenario.run()
    first = scenario.sheet.read_bytes()
    if has_first_written:
        die_after(write_and_die, 5)
    scenario.edit(lambda pets: changed(changed(pets, 1, name="Sheet 1"), 2, name="Sheet 2"))
    die_after(Mock(side_effect=KeyboardInterrupt), 6)
    before = scenario.store_pets()
    assert (before[1].name, before[2].name) == ("Sheet 1", "Sheet 2")
    scenario.sheet.write_bytes(first)
    report = scenario.run()
    assert scenario.store_pets() == before
    is_sure = has_first_written or scenario.ending == "xlsx"
    assert [each.pet_id for each in report.open if each.kind == "conflict"] == (
        [] if is_sure else [1, 2]
    )
    assert (scenario.sheet_pets() == before) is is_sure
    assert scenario.sheet_pets()[6].name == "Store 6"


def test_a_file_of_before_edits_that_a_killed_round_sent_is_an_older_copy(
    any_scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file from before edits that a killed round sent is an older copy, even if the round before
    it was killed too; in a text file the edits are in conflict.
    """
    scenario = any_scenario
    scenario.run()
    first = scenario.sheet.read_bytes()
    scenario.box.put(changed(PETS, 5, name="Store 5")[4])
    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
        assert scenario.run().round.status == "interrupted"
    scenario.edit(lambda pets: changed(changed(pets, 1, name="Sheet 1"), 2, name="Sheet 2"))
    with monkeypatch.context() as patch:
        patch.setattr(state.Versions, "keep", Mock(side_effect=KeyboardInterrupt))
        assert scenario.run().round.status == "interrupted"
    before = scenario.store_pets()
    assert (before[1].name, before[2].name) == ("Sheet 1", "Sheet 2")
    scenario.sheet.write_bytes(first)
    report = scenario.run()
    assert scenario.store_pets() == before
    is_sure = scenario.ending == "xlsx"
    assert [each.pet_id for each in report.open if each.kind == "conflict"] == (
        [] if is_sure else [1, 2]
    )
    assert (scenario.sheet_pets() == before) is is_sure
    assert scenario.sheet_pets()[5].name == "Store 5"


def test_a_text_from_between_two_rounds_that_were_killed_sends_nothing_back(
    any_scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file from between two killed rounds, which no complete round has seen, reverts nothing; in
    a text file the later edits are in conflict.
    """
    scenario = any_scenario
    scenario.run()
    files = []
    for pets in ((1, 2, 5), (3, 4, 6)):
        *mine, store = pets
        for pet_id in mine:
            scenario.edit(lambda all_, one=pet_id: changed(all_, one, name=f"Sheet {one}"))
        files.append(scenario.sheet.read_bytes())
        scenario.box.put(changed(PETS, store, name=f"Store {store}")[store - 1])
        with monkeypatch.context() as patch:
            patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
            assert scenario.run().round.status == "interrupted"
    before = scenario.store_pets()
    scenario.sheet.write_bytes(files[0])
    report = scenario.run()
    assert scenario.store_pets() == before
    is_sure = scenario.ending == "xlsx"
    assert [each.pet_id for each in report.open if each.kind == "conflict"] == (
        [] if is_sure else [3, 4]
    )
    assert (scenario.sheet_pets() == before) is is_sure


def test_an_export_from_before_the_first_round_reverts_nothing(
    export_scenario: ExportScenario,
) -> None:
    """An export from before the first round reverts nothing: edits that were sent since are in
    conflict, because its values may be intended.
    """
    scenario = export_scenario
    shutil.rmtree(scenario.state)
    first = scenario.sheet.read_bytes()
    scenario.type(1, "name", "One")
    scenario.type(2, "name", "Two")
    assert scenario.run().round.to_store.total == 2
    before = scenario.store_pets()
    scenario.sheet.write_bytes(first)
    report = scenario.run()
    assert scenario.store_pets() == before
    assert kinds(report)[0] == ("note", None)
    assert {*kinds(report)[1:]} == {("conflict", 1), ("conflict", 2)}
    assert "at its export of" in report.open[0].problem


def test_a_push_sends_an_older_copy_and_deletes_nothing_by_it(
    any_scenario: BackupScenario,
) -> None:
    """A push sends the values of an older copy, because the sheet leads, but deletes no pet whose
    row was added since.
    """
    scenario = any_scenario
    scenario.options = {"mode": "push", "delete_missing": True}
    scenario.run()
    first = scenario.sheet.read_bytes()
    two = [ps.Pet(id=number, name=f"New {number}", status="sold") for number in (51, 52)]
    scenario.edit(lambda pets: [*changed(pets, 1, name="One"), *two])
    assert scenario.run().round.to_store.total == 3
    scenario.sheet.write_bytes(first)
    report = scenario.run()
    assert {51, 52} < scenario.store_pets().keys()
    assert scenario.store_pets()[1].name == "Pet 1"
    if scenario.ending == "xlsx":
        assert (report.round.exit_code, _is_older(report)) == (0, True)
    else:
        assert {("conflict", 51), ("conflict", 52)} <= {*kinds(report)}


def test_large_versions_are_fewer() -> None:
    """Twenty versions are kept, or as many as fit into 50 MB, but at least ten."""
    assert state._select_surplus(dict.fromkeys(range(1, 20), 10)) == []
    assert state._select_surplus(dict.fromkeys(range(1, 21), 10)) == [1]
    assert state._select_surplus(dict.fromkeys(range(1, 20), 5000000)) == [*range(1, 10)]
    assert state._select_surplus(dict.fromkeys(range(1, 13), 50000000)) == [1, 2, 3]


@each_choice
@pytest.mark.parametrize("step", ["_write", "_compare_again"])
@pytest.mark.parametrize("is_edited", [True, False])
def test_an_older_copy_after_a_killed_round_takes_nothing_back(
    any_scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch, is_edited: bool, step: str
) -> None:
    """An older copy that replaces the sheet after a round was killed behind its requests, also if
    it is edited, reverts none of the edits that this round sent: they are conflicts, and stay so.
    """
    any_scenario.write(changed(changed(PETS, 9, name="Mine 9"), 4, name="Mine 4"))
    with monkeypatch.context() as patch:
        killed = Mock(side_effect=KeyboardInterrupt)
        patch.setattr(f"petsync.reconcile.round._Execution.{step}", killed)
        assert any_scenario.run().round.status == "interrupted"
    any_scenario.write(changed(PETS, 10, name="Mine 10") if is_edited else PETS)
    for name in ("Mine 11", "Mine 12", ""):
        report = any_scenario.run()
        assert report.round.status == "conflicts"
        assert {each.pet_id for each in report.open if each.kind == "conflict"} == {4, 9}
        assert (any_scenario.store_pets()[9].name, any_scenario.store_pets()[4].name) == (
            "Mine 9",
            "Mine 4",
        )
        pets = [*any_scenario.sheet_pets().values()]
        any_scenario.write(changed(pets, int(name[-2:]), name=name) if name else pets)
    assert any_scenario.store_pets()[11].name == "Mine 11"
    assert any_scenario.store_pets()[10].name == ("Mine 10" if is_edited else "Pet 10")


def test_one_edit_that_is_taken_back_after_a_killed_round_is_sent(
    any_scenario: BackupScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pet alone with its former values, after a killed round sent others, is an edit."""
    any_scenario.write(changed(changed(PETS, 9, name="Mine 9"), 4, name="Mine 4"))
    with monkeypatch.context() as patch:
        patch.setattr(
            "petsync.reconcile.round._Execution._write", Mock(side_effect=KeyboardInterrupt)
        )
        assert any_scenario.run().round.status == "interrupted"
    any_scenario.write(changed(PETS, 4, name="Mine 4"))
    assert any_scenario.run().round.status == "done"
    assert (any_scenario.store_pets()[9].name, any_scenario.store_pets()[4].name) == (
        "Pet 9",
        "Mine 4",
    )
