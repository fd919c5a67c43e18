"""A service assigns an id that a row of the sheet names already: the pet of another row gets it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replaced
from nightly import PETS, Night
from openpyxl import load_workbook
from openpyxl.worksheet.worksheet import Worksheet

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
"""Assigns the highest id that is there, plus one."""
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
    """A sheet whose delete was applied, and whose new row got the id of the deleted pet."""
    path = tmp_path / "pets.csv"
    path.write_text(HEAD + OLD)
    applied(store, path)
    path.write_text(HEAD + OLD + NOVA)
    applied(store, path)
    return path


def applied(store: ps.Store, path: Path) -> ps.types.Report:
    """The report of the sheet's run."""
    return store.apply(store.plan(path), progress=False)


def stored(box: Sandbox) -> dict[int | None, str | None]:
    """The names of the pets that no fixture has named, by id."""
    return {pet.id: pet.name for pet in box.pets() if (pet.id or 0) > 3}


def rules(plan: Plan) -> list[tuple[int | None, str]]:
    """The conflicts of a plan that sends nothing, with their rows."""
    assert not plan.changes
    return sorted((each.row, each.rule) for each in plan.conflicts if each.row is not None)


HELD = [(2, "id-reused"), (3, "added-claimed")]


def test_a_delete_that_was_carried_out_takes_no_new_pet(
    box: Sandbox, store: ps.Store, sheet: Path
) -> None:
    """The unedited sheet holds both rows, names both, and sends nothing."""
    assert stored(box) == {4: "Nova"}
    plan = store.plan(sheet)
    assert rules(plan) == HELD
    old, new = sorted(plan.conflicts, key=lambda each: each.row or 0)
    assert "line 3, column 1" in old.problem
    assert "line 2, column 1" in new.suggestion
    store.apply(plan, progress=False)
    assert stored(box) == {4: "Nova"}


@pytest.mark.parametrize("column", ["name", "status"])
def test_an_edited_new_row_is_held_and_not_added_again(
    box: Sandbox, store: ps.Store, sheet: Path, column: str
) -> None:
    """Its pet is known by the journal, though another row has the id."""
    edited = {"name": ",Novas,available,\n", "status": ",Nova,sold,\n"}[column]
    sheet.write_text(HEAD + OLD + edited)
    plan = store.plan(sheet)
    assert not plan.changes
    assert [each.rule for each in plan.conflicts if each.row == 2] == ["id-reused"]
    assert any(each.row == 3 for each in plan.conflicts)


def test_the_old_row_stays_held_without_the_new_one(store: ps.Store, sheet: Path) -> None:
    """It is as it was when it deleted another pet."""
    sheet.write_text(HEAD + OLD)
    assert rules(store.plan(sheet)) == [(2, "id-reused")]


def test_an_undo_that_is_undone_leaves_it_held(box: Sandbox, store: ps.Store, sheet: Path) -> None:
    """The new pet is back under the id that it had."""
    for _ in range(2):
        newest = str(store.runs()["id"].iloc[0])
        store.apply(store.undo(newest), progress=False)
    assert stored(box) == {4: "Nova"}
    assert rules(store.plan(sheet)) == HELD


def test_a_row_whose_own_pet_is_back_goes_on(box: Sandbox, store: ps.Store, sheet: Path) -> None:
    """Its delete is meant for this pet."""
    box.put(SHOP[3])
    sheet.write_text(HEAD + OLD)
    assert [(each.kind, each.pet_id) for each in store.plan(sheet).changes] == [("delete", 4)]


def test_an_edited_old_row_stays_held(store: ps.Store, sheet: Path) -> None:
    """It still has the name of the earlier pet."""
    sheet.write_text(HEAD + "4,Zoe,pending,\n" + NOVA)
    assert rules(store.plan(sheet)) == HELD


def test_without_the_old_row_the_new_one_is_its_pet(
    box: Sandbox, store: ps.Store, sheet: Path
) -> None:
    """As the conflict says; an edit is sent then."""
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
    """In place of both rows: edited, renamed, or deleted again."""
    sheet.write_text(HEAD + row)
    plan = store.plan(sheet)
    assert [(each.kind, each.pet_id) for each in plan.changes] == [(kind, 4)]
    assert not plan.conflicts


def test_a_copied_row_with_the_id_goes_on(store: ps.Store, sheet: Path) -> None:
    """Only the row without it is held, as with any id."""
    sheet.write_text(HEAD + "4,Nova,pending,\n" + NOVA)
    plan = store.plan(sheet)
    assert [(each.kind, each.row) for each in plan.changes] == [("update", 2)]
    assert [(each.row, each.rule) for each in plan.conflicts] == [(3, "added-claimed")]


def test_a_fresh_export_goes_on(box: Sandbox, store: ps.Store, sheet: Path, tmp_path: Path) -> None:
    """It names the new pet by its id."""
    path = tmp_path / "fresh.xlsx"
    ps.write_sheet(store.snapshot(), path)
    edit(path, lambda page: page.cell(5, 3, "sold"))
    (change,) = store.plan(path).changes
    assert (change.kind, change.pet_id) == ("update", 4)
    assert not store.plan(path).conflicts


def test_rows_that_name_the_ids_of_no_pets_do_not_take_the_new_ones(
    box: Sandbox, store: ps.Store, tmp_path: Path
) -> None:
    """No pet was ever deleted: the run says so at once, and the next plan holds all four rows."""
    path = tmp_path / "pets.csv"
    path.write_text(
        HEAD + "5,Old,sold,delete\n6,Older,sold,update\n,Nova,available,\n,Vega,available,\n"
    )
    report = applied(store, path)
    told = [each for each in report.results if each.kind == "add"]
    assert [(each.outcome, each.cause) for each in told] == [("applied", "named-id")] * 2
    assert "line 2, column 1" in told[0].message
    assert rules(store.plan(path)) == [
        (2, "id-reused"),
        (3, "id-reused"),
        (4, "added-claimed"),
        (5, "added-claimed"),
    ]
    applied(store, path)
    assert stored(box) == {4: "Zoe", 5: "Nova", 6: "Vega"}


def test_a_blocked_row_that_names_the_id_is_held_once_it_is_corrected(
    store: ps.Store, tmp_path: Path
) -> None:
    """Nobody knew what it said when the service assigned its id."""
    path = tmp_path / "pets.csv"
    path.write_text(HEAD + "5,Old,sold,remove\n,Nova,available,\n")
    assert applied(store, path).counts["needs fixing"] == 1
    path.write_text(HEAD + "5,Old,sold,delete\n,Nova,available,\n")
    assert rules(store.plan(path)) == HELD


def test_an_id_that_another_row_names_is_not_written(store: ps.Store, tmp_path: Path) -> None:
    """Neither into the sheet nor into the results: the journal knows the row."""
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
    """Nobody edited it since: it is a conflict, too, and no older row."""
    path = tmp_path / "pets.xlsx"
    ps.write_sheet(store.snapshot(), path)
    box.remove(4)
    edit(path, lambda page: page.cell(6, 2, "Nova") and page.cell(6, 3, "available"))
    applied(store, path)
    assert stored(box) == {4: "Nova"}
    plan = store.plan(path)
    assert rules(plan) == [(5, "id-reused"), (6, "added-claimed")]
    assert plan.unchanged == 3
    assert not plan.older


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_a_round_writes_no_id_that_another_row_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    """Each round names both rows until the older one is taken out; what is kept can be read."""
    new = Pet(name="Nova", status="available")
    with Sandbox(auth=False, profile=REUSING, pets=PETS) as box:
        night = Night(box, tmp_path, {"mode": mode, "delete_missing": True})
        night.write()
        assert night.run().round.status == "in-sync"
        box.remove(12)
        old = {} if mode == "two-way" else {"action": "update"}
        write(night, [*PETS, new], old)
        for _ in range(2):
            told = night.run()
            assert told.round.status == "conflicts"
            assert [each.pet_id for each in told.open if each.kind == "conflict"] == [12, 12]
            ids = [line.split(",")[0] for line in night.sheet.read_text().splitlines()]
            assert ids[-2:] == ["12", ""]
            assert night.stored()[12].name == "Nova"
        write(night, [*PETS[:-1], replaced(new, status="sold")], {})
        assert night.run().round.status == "done"
        assert [(pet.name, pet.status) for pet in box.pets() if pet.id == 12] == [("Nova", "sold")]
        assert night.said()[12].name == "Nova"
    assert "cannot be read" not in caplog.text


def write(night: Night, pets: Sequence[Pet], old: Mapping[str, str]) -> None:
    """Write the round's sheet; the row of pet 12 has these further cells."""
    frame = ps.frame_from_pets(pets)
    if old:
        frame["action"] = [old["action"] if pet.id == 12 else "" for pet in pets]
    ps.write_sheet(frame, night.sheet, base=False)


def edit(path: Path, change: object) -> None:
    """Change the workbook, and save it as another program does."""
    book = load_workbook(path)
    assert callable(change)
    page = book.worksheets[0]
    assert isinstance(page, Worksheet)
    change(page)
    book.save(path)


def test_a_delete_names_the_pet_that_it_takes(box: Sandbox, tmp_path: Path) -> None:
    """A colleague's new pet has the id that the row named before, and no run here knows of it."""
    path = tmp_path / "pets.csv"
    path.write_text(HEAD + OLD + "3,Leo,,delete\n2,,,delete\n")
    box.put(replaced(SHOP[3], name="Nova"))
    with ps.connect(box.url, state=tmp_path / "another") as store:
        plan = store.plan(path)
    assert {each.before.name for each in plan.deletes} == {"Nova", "Leo", "Mia"}
    (note,) = (each for each in plan.notes if "deletes pet" in each)
    assert note.startswith("line 2, column 1 deletes pet 4 (Nova) as 'Zoe': these pets")


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_an_id_that_another_file_names_takes_no_new_pet(
    box: Sandbox, tmp_path: Path, mode: str
) -> None:
    """The service gives it to a new row of a folder: both rows are held, and the pet stays."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(HEAD + "1,Rex,available,\n2,Mia,available,\n" + NOVA)
    (folder / "b.csv").write_text(HEAD + "3,Leo,available,\n" + OLD)
    box.remove(4)
    night = Night(box, tmp_path, {"mode": mode, "delete_missing": True})
    job = night.job(folder=folder, sheet=None, files="*.csv")
    for _ in range(2):
        told = reconcile_jobs(night.config(job))
        assert stored(box) == {4: "Nova"}
    assert [each.round.status for each in told] == ["findings", "findings"]
