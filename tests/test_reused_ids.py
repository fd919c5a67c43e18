"""A service that reuses ids: a new pet gets an id that another row of the sheet has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replaced
from openpyxl import load_workbook
from openpyxl.worksheet.worksheet import Worksheet
from scenarios import PETS, Scenario

import petsync as ps
from petsync.models import Pet
from petsync.plan.plan import Plan
from petsync.reconcile.round import reconcile_jobs
from petsync.sandbox import Sandbox
from petsync.sandbox.http import STANDARD

pytestmark = pytest.mark.slow

HEAD = "id,name,status,action\n"
SHOP = [
    Pet(id=n, name=name, status="available")
    for n, name in enumerate(("Rex", "Mia", "Leo", "Zoe"), 1)
]
REUSING = replace(STANDARD, reuses_ids=True)
"""A profile that assigns the highest existing id plus one."""
OLD = "4,Zoe,sold,delete\n"
NOVA = ",Nova,available,\n"


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(auth=False, profile=REUSING, pets=SHOP) as box:
        yield box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    with ps.connect(box.url, state=tmp_path / "state") as store:
        yield store


@pytest.fixture
def sheet(store: ps.Store, tmp_path: Path) -> Path:
    """Return a sheet whose delete was applied, and whose new row got the id of the deleted pet."""
    path = tmp_path / "pets.csv"
    path.write_text(HEAD + OLD)
    applied(store, path)
    path.write_text(HEAD + OLD + NOVA)
    applied(store, path)
    return path


def applied(store: ps.Store, path: Path) -> ps.types.Report:
    """Apply the sheet and return the report."""
    return store.apply(store.plan(path), progress=False)


def read_names(box: Sandbox) -> dict[int | None, str | None]:
    """Return the names of the pets with an id above 3, by id."""
    return {pet.id: pet.name for pet in box.pets() if (pet.id or 0) > 3}


def rules(plan: Plan) -> list[tuple[int | None, str]]:
    """Return the rows and rules of the conflicts of a plan that sends nothing."""
    assert not plan.changes
    return sorted((each.row, each.rule) for each in plan.conflicts if each.row is not None)


HELD = [(2, "id-reused"), (3, "added-claimed")]


def test_a_delete_that_was_carried_out_takes_no_new_pet(
    box: Sandbox, store: ps.Store, sheet: Path
) -> None:
    """A delete that was applied does not delete the new pet with its id: both rows are held, each
    names the other, and nothing is sent.
    """
    assert read_names(box) == {4: "Nova"}
    plan = store.plan(sheet)
    assert rules(plan) == HELD
    old, new = sorted(plan.conflicts, key=lambda each: each.row or 0)
    assert "line 3, column 1" in old.problem
    assert "line 2, column 1" in new.suggestion
    store.apply(plan, progress=False)
    assert read_names(box) == {4: "Nova"}


@pytest.mark.parametrize("column", ["name", "status"])
def test_an_edited_new_row_is_held_and_not_added_again(
    box: Sandbox, store: ps.Store, sheet: Path, column: str
) -> None:
    """An edited new row is held and not added again, because the journal has its pet, although
    another row has the id.
    """
    edited = {"name": ",Novas,available,\n", "status": ",Nova,sold,\n"}[column]
    sheet.write_text(HEAD + OLD + edited)
    plan = store.plan(sheet)
    assert not plan.changes
    assert [each.rule for each in plan.conflicts if each.row == 2] == ["id-reused"]
    assert any(each.row == 3 for each in plan.conflicts)


@pytest.mark.parametrize("action", ["delete", "update", ""])
def test_the_ways_out_of_the_id_of_a_removed_pet(
    box: Sandbox, store: ps.Store, tmp_path: Path, action: str
) -> None:
    """If another client's pet has the id of a removed pet, the row without the cells that the
    conflict names adds its pet again, and a removed row changes nothing.
    """
    path = tmp_path / "pets.csv"
    path.write_text(HEAD + OLD)
    applied(store, path)
    box.put(Pet(id=4, name="Coco", status="available"))
    path.write_text(f"{HEAD}4,Zoe,sold,{action}\n")
    (conflict,) = store.plan(path).conflicts
    assert conflict.rule == "id-reused"
    cells = "the id and the action" if action else "the id"
    assert f"Remove {cells} to add the row's pet again" in conflict.suggestion
    path.write_text(HEAD + ",Zoe,sold,\n")
    assert [each.kind for each in store.plan(path).changes] == ["add"]
    path.write_text(HEAD)
    assert store.plan(path).in_sync


def test_the_old_row_stays_held_without_the_new_one(store: ps.Store, sheet: Path) -> None:
    """The old row stays held if the new row is removed, because it is still the row of another
    pet.
    """
    sheet.write_text(HEAD + OLD)
    assert rules(store.plan(sheet)) == [(2, "id-reused")]


def test_an_undo_that_is_undone_leaves_it_held(box: Sandbox, store: ps.Store, sheet: Path) -> None:
    """After an undo and its undo, the new pet has its id again and both rows are held."""
    for _ in range(2):
        newest = str(store.runs()["id"].iloc[0])
        store.apply(store.undo(newest), progress=False)
    assert read_names(box) == {4: "Nova"}
    assert rules(store.plan(sheet)) == HELD


def test_a_row_whose_own_pet_is_back_goes_on(box: Sandbox, store: ps.Store, sheet: Path) -> None:
    """A row whose own pet is back is no longer held, and its delete is planned."""
    box.put(SHOP[3])
    sheet.write_text(HEAD + OLD)
    assert [(each.kind, each.pet_id) for each in store.plan(sheet).changes] == [("delete", 4)]


def test_an_edited_old_row_stays_held(store: ps.Store, sheet: Path) -> None:
    """An old row that is edited stays held, because it has the earlier pet's name."""
    sheet.write_text(HEAD + "4,Zoe,pending,\n" + NOVA)
    assert rules(store.plan(sheet)) == HELD


def test_without_the_old_row_the_new_one_is_its_pet(
    box: Sandbox, store: ps.Store, sheet: Path
) -> None:
    """If the old row is removed, as its conflict suggests, the new row is its pet's, and its edit
    is sent.
    """
    sheet.write_text(HEAD + ",Nova,pending,\n")
    applied(store, sheet)
    (nova,) = (pet for pet in box.pets() if pet.name == "Nova")
    assert (nova.id, nova.status) == (4, "pending")
    assert len(box.pets()) == 4


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("4,Nova,pending,\n", "update"),
        ("4,Nova Star,available,\n", "update"),
        ("4,Nova,available,delete\n", "delete"),
    ],
)
def test_the_id_written_by_hand_counts(store: ps.Store, sheet: Path, row: str, kind: str) -> None:
    """A single row with the typed id counts as the new pet's row: it can be edited, renamed or
    deleted.
    """
    sheet.write_text(HEAD + row)
    plan = store.plan(sheet)
    assert [(each.kind, each.pet_id) for each in plan.changes] == [(kind, 4)]
    assert not plan.conflicts


def test_a_copied_row_with_the_id_goes_on(store: ps.Store, sheet: Path) -> None:
    """A copied row with the id is sent, and only the copy without an id is held."""
    sheet.write_text(HEAD + "4,Nova,pending,\n" + NOVA)
    plan = store.plan(sheet)
    assert [(each.kind, each.row) for each in plan.changes] == [("update", 2)]
    assert [(each.row, each.rule) for each in plan.conflicts] == [(3, "added-claimed")]


def test_a_fresh_export_goes_on(box: Sandbox, store: ps.Store, sheet: Path, tmp_path: Path) -> None:
    """A new export has the new pet by its id, so its edits are planned without a conflict."""
    path = tmp_path / "fresh.xlsx"
    ps.write_sheet(store.snapshot(), path)
    edit(path, lambda page: page.cell(5, 3, "sold"))
    (change,) = store.plan(path).changes
    assert (change.kind, change.pet_id) == ("update", 4)
    assert not store.plan(path).conflicts


def test_rows_that_name_the_ids_of_no_pets_do_not_take_the_new_ones(
    box: Sandbox, store: ps.Store, tmp_path: Path
) -> None:
    """Rows with ids of no pets do not take new pets with these ids: the run reports the reused ids,
    and the next plan holds all four rows.
    """
    path = tmp_path / "pets.csv"
    path.write_text(
        HEAD + "5,Old,sold,delete\n6,Older,sold,update\n,Nova,available,\n,Vega,available,\n"
    )
    report = applied(store, path)
    result = [each for each in report.results if each.kind == "add"]
    assert [(each.outcome, each.cause) for each in result] == [("applied", "named-id")] * 2
    assert "line 2, column 1" in result[0].message
    assert rules(store.plan(path)) == [
        (2, "id-reused"),
        (3, "id-reused"),
        (4, "added-claimed"),
        (5, "added-claimed"),
    ]
    applied(store, path)
    assert read_names(box) == {4: "Zoe", 5: "Nova", 6: "Vega"}


def test_a_blocked_row_that_names_the_id_is_held_once_it_is_corrected(
    store: ps.Store, tmp_path: Path
) -> None:
    """A blocked row that has the id is held after it is corrected."""
    path = tmp_path / "pets.csv"
    path.write_text(HEAD + "5,Old,sold,remove\n,Nova,available,\n")
    assert applied(store, path).counts["needs fixing"] == 1
    path.write_text(HEAD + "5,Old,sold,delete\n,Nova,available,\n")
    assert rules(store.plan(path)) == HELD


def test_an_id_that_another_row_names_is_not_written(store: ps.Store, tmp_path: Path) -> None:
    """An id that another row has is written neither into the sheet nor into the results, and both
    rows are held by the journal.
    """
    path = tmp_path / "pets.csv"
    path.write_text(HEAD + "5,Old,sold,delete\n" + NOVA)
    read = store.read(path)
    report = store.apply(store.plan(read), progress=False)
    copy = tmp_path / "results.csv"
    ps.write_results(read, report, copy)
    ps.write_back(read, report, only_ids=True)
    for each in (path, copy):
        assert each.read_text().splitlines()[2].startswith(",Nova,available,")
        plan = store.plan(each)
        assert not plan.changes
        assert plan.conflicts[0].rule == "id-reused"
        assert [c.row for c in plan.conflicts] == [2, 3]


def test_the_older_row_of_an_export_does_not_take_the_new_pet(
    box: Sandbox, store: ps.Store, tmp_path: Path
) -> None:
    """An unedited older row of an export, whose id a new pet got, is a conflict and does not count
    as older.
    """
    path = tmp_path / "pets.xlsx"
    ps.write_sheet(store.snapshot(), path)
    box.remove(4)
    edit(path, lambda page: page.cell(6, 2, "Nova") and page.cell(6, 3, "available"))
    applied(store, path)
    assert read_names(box) == {4: "Nova"}
    plan = store.plan(path)
    assert rules(plan) == [(5, "id-reused"), (6, "added-claimed")]
    assert plan.unchanged == 3
    assert not plan.older


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_a_round_writes_no_id_that_another_row_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    """A round does not write an id that another row has: each round names both rows until the older
    one is removed, and the saved state stays readable.
    """
    new = Pet(name="Nova", status="available")
    with Sandbox(auth=False, profile=REUSING, pets=PETS) as box:
        scenario = Scenario(box, tmp_path, {"mode": mode, "delete_missing": True})
        scenario.write()
        assert scenario.run().round.status == "in-sync"
        box.remove(12)
        old = {} if mode == "two-way" else {"action": "update"}
        write(scenario, [*PETS, new], old)
        for _ in range(2):
            report = scenario.run()
            assert report.round.status == "conflicts"
            assert [each.pet_id for each in report.open if each.kind == "conflict"] == [12, 12]
            ids = [line.split(",")[0] for line in scenario.sheet.read_text().splitlines()]
            assert ids[-2:] == ["12", ""]
            assert scenario.store_pets()[12].name == "Nova"
        write(scenario, [*PETS[:-1], replaced(new, status="sold")], {})
        assert scenario.run().round.status == "done"
        assert [(pet.name, pet.status) for pet in box.pets() if pet.id == 12] == [("Nova", "sold")]
        assert scenario.sheet_pets()[12].name == "Nova"
    assert "cannot be read" not in caplog.text


def write(scenario: Scenario, pets: Sequence[Pet], old: Mapping[str, str]) -> None:
    """Write the round's sheet; the row of pet 12 has these further cells."""
    frame = ps.frame_from_pets(pets)
    if old:
        frame["action"] = [old["action"] if pet.id == 12 else "" for pet in pets]
    ps.write_sheet(frame, scenario.sheet, base=False)


def edit(path: Path, change: object) -> None:
    """Change the workbook, and save it as another program does."""
    book = load_workbook(path)
    assert callable(change)
    page = book.worksheets[0]
    assert isinstance(page, Worksheet)
    change(page)
    book.save(path)


def test_a_delete_names_the_pet_that_it_takes(box: Sandbox, tmp_path: Path) -> None:
    """A delete whose row has another name than its pet is named in a note, because the id may now
    be another pet's.
    """
    path = tmp_path / "pets.csv"
    path.write_text(HEAD + OLD + "3,Leo,,delete\n2,,,delete\n")
    box.put(replaced(SHOP[3], name="Nova"))
    with ps.connect(box.url, state=tmp_path / "another") as store:
        plan = store.plan(path)
    assert {each.before.name for each in plan.deletes} == {"Nova", "Leo", "Mia"}
    (note,) = (each for each in plan.notes if "deletes pet" in each)
    assert note.startswith("line 2, column 1 deletes pet 4 (Nova), named 'Zoe' in the row")


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_an_id_that_another_file_names_takes_no_new_pet(
    box: Sandbox, tmp_path: Path, mode: str
) -> None:
    """If a new row of a folder gets an id that another file has, both rows are held and the pet
    stays.
    """
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(HEAD + "1,Rex,available,\n2,Mia,available,\n" + NOVA)
    (folder / "b.csv").write_text(HEAD + "3,Leo,available,\n" + OLD)
    box.remove(4)
    scenario = Scenario(box, tmp_path, {"mode": mode, "delete_missing": True})
    job = scenario.job(folder=folder, sheet=None, files="*.csv")
    for _ in range(2):
        report = reconcile_jobs(scenario.config(job))
        assert read_names(box) == {4: "Nova"}
    assert [each.round.status for each in report] == ["findings", "findings"]
