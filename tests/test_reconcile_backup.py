"""A backup of a sheet that is put back: nothing of the store is reverted or deleted by it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nightly import PETS, Night, changed

import petsync as ps
from petsync.diff.round_report import RoundReport
from petsync.reconcile.rounds import reconciled
from petsync.sandbox import Sandbox

NEW = ps.Pet(id=50, name="Neu", status="available")


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


class Kept(Night):
    """A job that deletes what is missing, with a sheet as any program makes it."""

    ending = "csv"

    @property
    def sheet(self) -> Path:
        """Without a base of its own."""
        return self.folder / f"catalogue.{self.ending}"

    def backup(self, told: RoundReport) -> None:
        """The sheet as it was before a round."""
        shutil.copy(told.round.backup, self.sheet)

    def edit(self, change: Callable[[list[ps.Pet]], list[ps.Pet]]) -> None:
        """Another sheet, as a person saves it: nothing of the file is the same."""
        self.write([*reversed(change([*self.said().values()]))])


@pytest.fixture
def night(_open_box: Sandbox, tmp_path: Path) -> Kept:
    """A CSV file that agrees with a store."""
    return _kept(_open_box, tmp_path, "csv")


@pytest.fixture(params=["csv", "xlsx"])
def either(_open_box: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Kept:
    """The same, or a workbook."""
    return _kept(_open_box, tmp_path, request.param)


def _kept(box: Sandbox, folder: Path, ending: str) -> Kept:
    """A store and a sheet that agree, and were reconciled once."""
    box.break_with(None)
    box.reset(PETS)
    night = Kept(box, folder, {"mode": "two-way", "delete_missing": True})
    night.ending = ending
    night.write()
    assert night.run().round.status == "in-sync"
    return night


def _news(night: Night) -> None:
    """The store changes one pet, gets one and loses one."""
    night.box.put(changed(PETS, 5, name="Store 5")[4])
    night.box.put(NEW)
    night.box.remove(7)


def _is_told(told: RoundReport) -> bool:
    return any("a backup was put back?" in each.problem for each in told.open)


@pytest.mark.parametrize("edited", [False, True])
def test_a_backup_takes_the_news_again(either: Kept, edited: bool) -> None:
    """As it was, or edited since: what the store has stays, and what a person wrote is sent."""
    night = either
    _news(night)
    first = night.run()
    assert (first.round.to_sheet.total, _is_told(first)) == (3, False)
    night.backup(first)
    if edited:
        night.edit(lambda pets: changed(pets, 2, name="Rex"))
    told = night.run()
    assert (told.round.status, told.round.to_sheet.total, _is_told(told)) == ("done", 3, True)
    assert told.round.to_store.total == (1 if edited else 0)
    assert night.said() == night.stored()
    assert night.stored()[50].name == "Neu"
    assert night.stored()[5].name == "Store 5"
    assert (night.stored()[2].name == "Rex") is edited
    assert 7 not in night.stored()
    again = night.run()
    assert (again.round.status, again.open) == ("in-sync", ())


@pytest.mark.parametrize("edited", [False, True])
def test_a_backup_that_is_older_by_two_writes(night: Kept, edited: bool) -> None:
    """It is compared by what was agreed on then, and not by what was before the last write."""
    night.box.put(changed(PETS, 5, name="Store 5")[4])
    night.box.put(NEW)
    first = night.run()
    night.write(changed([*night.said().values()], 1, name="Sheet 1"))
    night.box.put(changed(PETS, 5, name="Store 5b")[4])
    night.box.put(changed(PETS, 6, name="Store 6")[5])
    assert night.run().round.status == "done"
    night.backup(first)
    if edited:
        night.edit(lambda pets: changed(pets, 2, name="Rex"))
    assert _is_told(night.run())
    stored = night.stored()
    assert (stored[5].name, stored[6].name, stored[50].name) == ("Store 5b", "Store 6", "Neu")
    assert stored[1].name == "Sheet 1"
    assert night.said() == stored
    assert night.run().open == ()


def test_what_the_sheet_had_sent_by_then_is_no_edit_again(night: Kept) -> None:
    """The backup has a person's own edits of that day; what the store made of them since stays."""
    night.write([*changed(PETS, 1, name="Rex"), ps.Pet(name="Ohne", status="sold")])
    _news(night)
    first = night.run()
    (new,) = (pet for pet in night.box.pets() if pet.name == "Ohne")
    night.box.put(changed(PETS, 1, name="Rex II")[0])
    night.box.put(ps.Pet(id=new.id, name="Ohne mehr", status="sold"))
    night.run()
    night.backup(first)
    assert _is_told(night.run())
    assert night.stored()[1].name == "Rex II"
    assert [pet.name for pet in night.box.pets() if "Ohne" in (pet.name or "")] == ["Ohne mehr"]
    assert night.said() == night.stored()


def test_a_part_of_it_is_a_persons_edit(night: Kept) -> None:
    """One value that is set back, one row that is taken out: sent, and not told as a backup."""
    _news(night)
    night.run()
    night.edit(lambda pets: changed(pets, 5, name="Pet 5"))
    told = night.run()
    assert (night.stored()[5].name, _is_told(told)) == ("Pet 5", False)
    night.edit(lambda pets: [pet for pet in pets if pet.id != 50])
    told = night.run()
    assert (50 in night.stored(), _is_told(told)) == (False, False)


def test_one_pet_that_is_set_back_twice_is_meant(night: Kept) -> None:
    """The first time it may have been a backup; nobody loses anything by being asked."""
    night.box.put(changed(PETS, 5, name="Store 5")[4])
    first = night.run()
    night.backup(first)
    assert _is_told(night.run())
    assert night.stored()[5].name == "Store 5"
    night.backup(first)
    assert not _is_told(night.run())
    assert night.stored()[5].name == night.said()[5].name == "Pet 5"


def test_ten_versions_are_kept(night: Kept) -> None:
    """For their owner alone; the oldest goes, and a damaged one is passed over."""
    for number in range(11):
        night.box.put(changed(PETS, 5, name=f"Store {number}")[4])
        last = night.run()
    kept = sorted((night.state / "reconcile/versions/catalogue").iterdir())
    assert [path.name for path in kept] == [f"{number:08}.json" for number in range(2, 12)]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    kept[0].write_bytes(b"{")
    night.backup(last)
    assert _is_told(night.run(dry_run=True))


def test_a_base_of_another_store_is_never_a_first_round(night: Kept) -> None:
    """An error, and nothing changed; unless somebody says that the store has moved."""
    night.write(changed(PETS, 1, name="Rex"))
    night.box.put(changed(PETS, 5, name="Store 5")[4])
    elsewhere = night.box.url.replace("127.0.0.1", "localhost")
    for mode in ("two-way", "push", "pull"):
        told = night.run(url=elsewhere, mode=mode)
        assert (told.round.status, told.round.exit_code) == ("error", 1)
        assert "--job catalogue --moved" in told.round.hint
    assert (night.stored()[1].name, night.said()[5].name) == ("Pet 1", "Pet 5")
    told = night.run(url=elsewhere, moved=True)
    assert (told.round.status, "is taken over" in told.open[0].problem) == ("done", True)
    assert night.said() == night.stored()
    assert (night.stored()[1].name, night.stored()[5].name) == ("Rex", "Store 5")
    assert night.run(url=elsewhere.upper().replace("HTTP", "http")).open == ()


def test_a_row_that_moves_to_another_file_is_no_edit(night: Kept) -> None:
    """Nor is a file, or a job, of another name: each is compared by what was agreed on before."""
    folder = night.folder / "inbox"
    folder.mkdir()

    def write(name: str, pets: list[ps.Pet]) -> None:
        ps.write_sheet(ps.frame_from_pets(pets), folder / name, base=False)

    def rounds() -> set[str]:
        job = night.job("inbox", folder=folder, files="*.csv", sheet=None)
        return {told.round.status for told in reconciled(night.config(job))}

    write("a.csv", PETS[:6])
    write("b.csv", PETS[6:])
    assert rounds() == {"in-sync"}
    night.box.put(changed(PETS, 5, name="Store 5")[4])
    write("a.csv", [*PETS[:4], PETS[5]])
    write("b.csv", [*PETS[6:], PETS[4]])
    assert "done" in rounds()
    assert night.stored()[5].name == "Store 5"
    night.box.put(changed(PETS, 6, name="Store 6")[5])
    (folder / "a.csv").rename(folder / "c.csv")
    assert "done" in rounds()
    assert night.stored()[6].name == "Store 6"
    night.box.put(changed(PETS, 1, name="Store 1")[0])
    assert night.run(name="renamed").round.to_store.total == 0
    assert night.stored()[1].name == night.said()[1].name == "Store 1"
