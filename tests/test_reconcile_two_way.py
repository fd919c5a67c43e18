"""Jobs that write the sheet: two-way, where both sides merge, and pull, where the store leads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from scenarios import DOGS, PETS, Scenario, changed, kinds

import petsync as ps
from petsync import sheets
from petsync.reconcile.state import BaseFile
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def scenario(_open_box: Sandbox, tmp_path: Path) -> Scenario:
    """Return a store and a sheet that agree after one round."""
    _open_box.set_faults(None)
    _open_box.reset(PETS)
    scenario = Scenario(_open_box, tmp_path, {"mode": "two-way"})
    scenario.write()
    assert scenario.run().round.status == "in-sync"
    return scenario


def test_edits_on_both_sides_merge(scenario: Scenario) -> None:
    """Edits of each side reach the other, even for one pet, and new pets become rows."""
    scenario.write(changed(changed(PETS, 1, name="Rex"), 2, status="pending"))
    scenario.box.put(changed(PETS, 2, name="Mia")[1])
    scenario.box.put(changed(PETS, 3, status="pending")[2])
    scenario.box.put(ps.Pet(id=50, name="Neu", status="available"))
    report = scenario.run()
    assert (report.round.status, report.round.applied) == ("done", 5)
    assert report.round.to_store.update == 2
    assert (report.round.to_sheet.update, report.round.to_sheet.add) == (2, 1)
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.store_pets()[2].name == "Mia"
    assert scenario.store_pets()[2].status == "pending"
    assert Path(report.round.backup).is_file()
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("decided", ["sheet", "store"])
def test_a_conflict_stays_until_it_is_decided(scenario: Scenario, decided: str) -> None:
    """A conflict is reported in each round and both sides stay, until both have the same value."""
    scenario.write(changed(PETS, 1, name="Rex"))
    scenario.box.put(changed(PETS, 1, name="Rey")[0])
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, report.round.exit_code) == ("conflicts", 5)
        assert kinds(report) == [("conflict", 1)]
    assert (scenario.sheet_pets()[1].name, scenario.store_pets()[1].name) == ("Rex", "Rey")
    if decided == "sheet":
        scenario.box.put(changed(PETS, 1, name="Rex")[0])
    else:
        scenario.write(changed(PETS, 1, name="Rey"))
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize(("winner", "name"), [("store", "Rey"), ("sheet", "Rex")])
def test_a_job_may_say_who_wins(scenario: Scenario, winner: str, name: str) -> None:
    """`on_conflict` gives both sides the winner's value, and a note names the store's value that is
    replaced.
    """
    scenario.write(changed(PETS, 1, name="Rex"))
    scenario.box.put(changed(PETS, 1, name="Rey")[0])
    report = scenario.run(on_conflict=winner)
    notes = ["'Rey' was replaced with the sheet's 'Rex'" in each.problem for each in report.open]
    assert (report.round.status, notes) == ("done", [True] if winner == "sheet" else [])
    assert scenario.sheet_pets()[1].name == scenario.store_pets()[1].name == name


def test_deletions_travel_only_when_asked_for(scenario: Scenario) -> None:
    """A removed row and a deleted pet are notes without delete_missing; with it, both are deleted
    on the other side.
    """
    scenario.write(PETS[1:])
    scenario.box.remove(2)
    report = scenario.run()
    assert report.round.exit_code == 0
    assert sorted(kinds(report)) == [("note", 1), ("note", 2)]
    report = scenario.run(delete_missing=True)
    assert (report.round.status, report.open) == ("done", ())
    assert set(scenario.sheet_pets()) == set(scenario.store_pets()) == set(range(3, 13))


def test_a_row_without_an_id_gets_the_one_that_its_pet_has(scenario: Scenario) -> None:
    """A new row gets the id of its pet, so later changes of the pet reach that row."""
    scenario.write([*PETS, ps.Pet(name="Neu", status="sold")])
    report = scenario.run()
    (new,) = set(scenario.store_pets()) - {pet.id for pet in PETS}
    assert report.round.status == "done"
    assert scenario.sheet_pets() == scenario.store_pets()
    scenario.box.put(ps.Pet(id=new, name="Neu!", status="sold"))
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets() == scenario.store_pets()


def test_an_edit_that_is_taken_back_is_an_edit(scenario: Scenario) -> None:
    """A value that was sent is agreed, so setting it back is an edit."""
    sheet = scenario.sheet.read_bytes()
    scenario.write(changed(PETS, 1, name="Rex"))
    assert scenario.run().round.status == "done"
    scenario.sheet.write_bytes(sheet)
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[1].name == "Pet 1"


def test_an_open_sheet_changes_nothing_on_either_side(scenario: Scenario) -> None:
    """A sheet that is open is found before anything is sent, and both sides stay unchanged."""
    scenario.write(changed(PETS, 1, name="Rex"))
    scenario.box.put(changed(PETS, 2, name="Mia")[1])
    lock = scenario.sheet.with_name(f".~lock.{scenario.sheet.name}#")
    lock.write_text(",ada,", "utf-8")
    report = scenario.run()
    assert (report.round.status, report.round.exit_code) == ("error", 1)
    assert "LibreOffice" in report.round.problem
    assert scenario.store_pets()[1].name == "Pet 1"
    lock.unlink()
    assert scenario.run().round.status == "done"


def test_pull_takes_everything_and_sends_nothing(scenario: Scenario) -> None:
    """A pull writes all values of the store into the sheet, sends nothing, and keeps a row without
    a pet, with a note.
    """
    scenario.write([*changed(PETS, 1, name="Rex"), ps.Pet(id=70, name="Nur hier", status="sold")])
    scenario.box.put(changed(PETS, 2, name="Mia")[1])
    before = scenario.box.requests
    report = scenario.run(mode="pull")
    assert report.round.status == "done"
    assert kinds(report) == [("note", 70)]
    assert set(scenario.box.requests - before) <= {"findPetsByStatus", "getPetById"}
    assert {**scenario.sheet_pets(), 70: None} == {**scenario.store_pets(), 70: None}
    scenario.sheet.unlink()
    report = scenario.run(mode="pull", name="fresh")
    assert (report.round.status, report.round.to_sheet.add) == ("done", 12)
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.run(mode="pull", name="fresh").round.status == "in-sync"


@pytest.mark.parametrize("ending", ["xlsx", "csv"])
def test_an_export_brings_its_own_base_once(scenario: Scenario, ending: str) -> None:
    """An export's own base is used in its first round and after each new export; between them the
    job's base is used.
    """
    sheet = scenario.folder / f"export.{ending}"
    options = {"sheet": sheet, "name": "export", "timeout": 5.0}
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        ps.write_sheet(store.snapshot(), sheet)
    scenario.box.put(changed(PETS, 1, name="Store 1")[0])
    read = ps.read_sheet(sheet)
    assert scenario.run(**options).round.to_sheet.update == 1
    assert scenario.run(**options).round.status == "in-sync"
    again = ps.read_sheet(sheet)
    assert again.base is not None
    assert again.base.taken_at != (read.base.taken_at if read.base else "")
    scenario.box.put(changed(PETS, 2, name="Store 2")[1])
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        ps.write_sheet(store.snapshot(), sheet)
    scenario.box.put(changed(PETS, 2, name="Store 2b")[1])
    report = scenario.run(**options)
    assert (report.round.status, report.round.to_sheet.update) == ("done", 1)
    assert scenario.run(**options).open == ()


def test_what_nobody_knows_the_past_of_is_a_conflict(scenario: Scenario) -> None:
    """A job that lost its state folder treats each difference as a conflict and prefers neither
    side.
    """
    scenario.box.put(changed(PETS, 1, name="Edited in the store")[0])
    scenario.write(changed(PETS, 2, name="Edited in the sheet"))
    shutil.rmtree(scenario.state)
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == (
            "conflicts",
            [("conflict", 1), ("conflict", 2)],
        )
        assert (report.round.to_store.total, report.round.to_sheet.total) == (0, 0)
        assert "it is unknown which is newer" in report.open[0].problem
    assert scenario.store_pets()[1].name == "Edited in the store"
    assert scenario.sheet_pets()[2].name == "Edited in the sheet"
    assert scenario.run(on_conflict="store").round.status == "done"
    assert scenario.run().round.status == "in-sync"
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.sheet_pets()[2].name == "Pet 2"


def test_a_job_of_another_name_goes_on_from_what_was_agreed_on(scenario: Scenario) -> None:
    """A renamed job continues from the base of its old name."""
    scenario.box.put(changed(PETS, 1, name="Edited in the store")[0])
    scenario.write(changed(PETS, 2, name="Edited in the sheet"))
    assert scenario.run(name="another").round.status == "done"
    assert scenario.sheet_pets() == scenario.store_pets()
    names = scenario.store_pets()[1].name, scenario.store_pets()[2].name
    assert names == ("Edited in the store", "Edited in the sheet")


@pytest.mark.parametrize("is_again", [False, True])
def test_what_the_sheet_took_is_agreed_on_before_the_base_is_kept(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, is_again: bool
) -> None:
    """Values that the sheet took are agreed even if the round is killed before it saves the base,
    and so may be the next one: the sheet takes the store's later values, and its own edits are
    sent.
    """
    scenario.box.put(changed(PETS, 1, name="First", status="sold")[0])
    scenario.box.put(ps.Pet(id=50, name="New", status="sold", category=DOGS))
    with monkeypatch.context() as patch:
        patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
        assert scenario.run().round.status == "interrupted"
    assert scenario.sheet_pets()[1].name == "First"
    scenario.box.put(changed(PETS, 1, name="Second", status="sold")[0])
    scenario.box.put(ps.Pet(id=50, name="New", status="sold"))
    rows = scenario.sheet_pets()
    scenario.write(changed(rows.values(), 1, status="pending"))
    if is_again:
        with monkeypatch.context() as patch:
            patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
            assert scenario.run().round.status == "interrupted"
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert scenario.sheet_pets() == scenario.store_pets()
    assert (scenario.store_pets()[1].name, scenario.store_pets()[1].status) == ("Second", "pending")
    assert scenario.store_pets()[50].category is None


def test_tags_that_nobody_knows_the_past_of_are_joined(scenario: Scenario) -> None:
    """Without a base, the tags of both sides are joined, because each may have been added on one
    side or removed on the other.
    """
    shutil.rmtree(scenario.state)
    scenario.write(changed(PETS, 1, tags=(ps.Tag(2, "shy"),)))
    assert scenario.run().round.status == "done"
    assert {tag.name for tag in scenario.store_pets()[1].tags} == {"calm", "shy"}
    assert {tag.name for tag in scenario.sheet_pets()[1].tags} == {"calm", "shy"}
    assert scenario.run().round.status == "in-sync"


def test_a_row_for_a_pet_that_the_base_lacks_is_a_conflict_where_it_differs(
    scenario: Scenario,
) -> None:
    """A row for a pet that the base lacks is a conflict where their values differ."""
    scenario.box.put(ps.Pet(id=77, name="New here", status="available"))
    scenario.write([*PETS, ps.Pet(id=77, name="Old name", status="available")])
    report = scenario.run()
    assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 77)])
    assert (scenario.store_pets()[77].name, scenario.sheet_pets()[77].name) == (
        "New here",
        "Old name",
    )


def test_a_number_of_an_unknown_category_stays_in_conflict(scenario: Scenario) -> None:
    """An unknown category id in a row without a base stays in conflict while the sheet takes other
    values.
    """
    shutil.rmtree(scenario.state)
    scenario.write(changed(PETS, 1, category=ps.Category(77, "Dogs")))
    for name in ("One", "Two"):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
        category = scenario.sheet_pets()[1].category
        assert category is not None
        assert category.id == 77
        scenario.box.put(changed(PETS, 2, name=name)[1])
