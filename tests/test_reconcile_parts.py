"""Jobs whose sheet is a folder of Parquet files, which is compared in parts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scenarios import PETS, Scenario, changed, kinds

import petsync as ps
from petsync.cli import main
from petsync.errors import ConfigurationError
from petsync.plan.guard import Guard, Limit
from petsync.reconcile.round import reconcile_jobs
from petsync.sandbox import Sandbox
from petsync.scale.parts import BASE_FOLDER

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def scenario(_open_box: Sandbox, tmp_path: Path) -> Scenario:
    """Return a store, and a job with an export of it."""
    _open_box.set_faults(None)
    _open_box.reset(PETS)
    with ps.connect(_open_box.url) as store:
        store.export_to(tmp_path / "big", partitions=3)
    return Scenario(_open_box, tmp_path, {"sheet": tmp_path / "big"})


def rewrite(
    scenario: Scenario, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    """Write the rows of each file as `edit` returns them."""
    for path in (scenario.folder / "big").glob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(pa.Table.from_pylist(edit(table.to_pylist()), table.schema), path)


def rename(scenario: Scenario, names: dict[int, str]) -> None:
    """Give pets other names in the sheet."""
    rewrite(
        scenario,
        lambda rows: [{**row, "name": names.get(row["id"], row["name"])} for row in rows],
    )


def append(scenario: Scenario, name: str) -> None:
    """Append a row without an id to one of the files."""
    path = scenario.folder / "big" / "part-00001.parquet"
    table = pq.read_table(path)
    new = {**dict.fromkeys(table.column_names), "name": name, "status": "sold"}
    pq.write_table(pa.Table.from_pylist([*table.to_pylist(), new], table.schema), path)


def test_the_folder_leads(scenario: Scenario) -> None:
    """A round sends the edits and the new rows, reverts the changes of the store, and is in sync
    afterwards; it stores no base, and leaves the files as they are.
    """
    assert scenario.run().round.status == "in-sync"
    rename(scenario, {2: "Mia II"})
    append(scenario, "Newcomer")
    scenario.box.put(changed(PETS, 3, name="elsewhere")[2])
    files = {each: each.read_bytes() for each in (scenario.folder / "big").rglob("*.parquet")}
    report = scenario.run()
    assert (report.round.status, report.round.applied, report.round.drift) == ("done", 3, 3)
    assert (report.round.rows, report.round.pets) == (13, 12)
    assert Path(report.round.report).is_file()
    names = {pet_id: pet.name for pet_id, pet in scenario.store_pets().items()}
    assert (names[2], names[3]) == ("Mia II", "Pet 3")
    again = scenario.run()
    assert (again.round.status, again.open) == ("in-sync", ())
    assert sorted(names.values()).count("Newcomer") == 1
    assert {each: each.read_bytes() for each in files} == files
    assert not (scenario.state / "reconcile" / "bases").exists()


def test_a_check_reports_and_sends_nothing(scenario: Scenario) -> None:
    """Mode check reports the rows that differ, whichever side changed, and has exit code 2."""
    rename(scenario, {2: "Mia II"})
    scenario.box.put(changed(PETS, 3, name="elsewhere")[2])
    before = scenario.box.requests
    report = scenario.run(mode="check")
    assert (report.round.status, report.round.exit_code) == ("drift", 2)
    assert sorted(kinds(report)) == [("drift", 2), ("drift", 3)]
    assert set(scenario.box.requests - before) == {"findPetsByStatus"}


def test_removed_rows_delete_the_pets_of_the_export_once(scenario: Scenario) -> None:
    """With delete_missing, pets of the export in no row are deleted, if the store has not changed
    them; a pet that was not exported stays, and so does one that somebody restores.
    """
    scenario.box.put(ps.Pet(id=50, name="Later", status="sold"))
    scenario.box.put(changed(PETS, 6, name="elsewhere")[5])
    rewrite(scenario, lambda rows: [row for row in rows if row["id"] not in (5, 6)])
    assert sorted(kinds(scenario.run())) == [("note", 5), ("note", 6), ("note", 50)]
    report = scenario.run(delete_missing=True)
    assert sorted(kinds(report)) == [("conflict", 6), ("note", 50)]
    assert scenario.store_pets().keys() == {pet.id for pet in PETS} - {5} | {50}
    scenario.box.put(PETS[4])
    scenario.run(delete_missing=True)
    assert 5 in scenario.store_pets()


def test_a_delete_that_was_undone_is_not_repeated(scenario: Scenario) -> None:
    """A pet whose row was removed is deleted also if a round changed it before; a pet that
    `petsync undo` restores stays.
    """
    rename(scenario, {4: "Four", 5: "Five"})
    scenario.run()
    rewrite(scenario, lambda rows: [row for row in rows if row["id"] != 5])
    report = scenario.run(delete_missing=True)
    assert 5 not in scenario.store_pets(), report.open
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.apply(store.undo(report.round.runs[-1]))
    scenario.run(delete_missing=True)
    assert scenario.store_pets()[5].name == "Five"


def test_a_pattern_has_the_base_of_its_folder(scenario: Scenario) -> None:
    """The rows of a pattern are pushed, and removed rows delete their pets; without the base of
    the export, they delete nothing.
    """
    rename(scenario, {2: "Mia II"})
    rewrite(scenario, lambda rows: [row for row in rows if row["id"] != 5])
    files = scenario.folder / "big" / "*.parquet"
    report = scenario.run(sheet=files, delete_missing=True)
    assert (report.round.status, kinds(report)) == ("done", [])
    assert scenario.store_pets()[2].name == "Mia II"
    assert 5 not in scenario.store_pets()
    shutil.rmtree(scenario.folder / "big" / BASE_FOLDER)
    rewrite(scenario, lambda rows: [row for row in rows if row["id"] != 6])
    report = scenario.run(sheet=files, delete_missing=True)
    assert kinds(report) == [("note", 6)]
    assert 6 in scenario.store_pets()


def test_a_damaged_base_ends_the_round(scenario: Scenario) -> None:
    """A round whose folder has a base that cannot be used sends nothing, and says why."""
    rename(scenario, {2: "Mia II"})
    min((scenario.folder / "big" / BASE_FOLDER).glob("*.parquet")).unlink()
    before = scenario.store_pets()
    report = scenario.run(delete_missing=True)
    assert (report.round.status, report.round.applied) == ("error", 0)
    assert "lacks part-00000.parquet" in report.round.problem
    assert scenario.store_pets() == before


def test_a_plan_over_its_limits_waits_and_is_released(scenario: Scenario) -> None:
    """A plan of a folder that exceeds a limit waits; released by `petsync apply`, it is done."""
    rename(scenario, {2: "Mia II", 3: "Rex II"})
    guard = Guard(max_update=Limit(1, is_share=False))
    report = scenario.run(guard=guard)
    assert (report.round.status, report.round.exit_code) == ("waiting", 4)
    to_store = ["--url", scenario.box.url, "--state", str(scenario.state)]
    with pytest.raises(SystemExit) as ended:
        main(["apply", report.round.waiting, "--yes", *to_store])
    assert ended.value.code == 0
    assert scenario.run(guard=guard).round.status == "in-sync"


def test_only_unnumbered_rows_differ(scenario: Scenario) -> None:
    """If all other rows agree, a new row is no sign that the column of ids was lost."""
    append(scenario, "Newcomer")
    assert scenario.run().round.status == "done"


def test_another_job_deletes_nothing_meanwhile(scenario: Scenario) -> None:
    """A row may have moved from the sheet of another job into the folder: its pet stays."""
    beside = scenario.job("beside", sheet=scenario.sheet, mode="push", delete_missing=True)
    scenario.write()
    config = scenario.config(scenario.job(), beside)
    reconcile_jobs(config)
    scenario.write(PETS[1:])
    *_, report = reconcile_jobs(config)
    assert 1 in scenario.store_pets()
    assert any("its rows cannot be read one by one" in each.problem for each in report.open)


def test_a_folder_that_a_job_would_write_is_refused(tmp_path: Path) -> None:
    """A two-way job with a folder is a mistake in the configuration, at the start of a pass too."""
    (tmp_path / "big").mkdir()
    text = 'url = "https://shop.example/v2"\n[jobs.big]\nmode = "two-way"\nsheet = "big"\n'
    (tmp_path / "petsync.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="never writes to several files"):
        ps.reconcile.run(tmp_path / "petsync.toml", environ={})
