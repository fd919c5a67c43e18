"""A job that pushes: the sheet leads in every round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nightly import DOGS, PETS, Night, changed, kinds
from openpyxl import load_workbook

import petsync as ps
from petsync.plan.guard import Guard, Limit
from petsync.reconcile.round import reconcile_jobs
from petsync.reconcile.state import BaseFile, History, StatePaths, digest_of
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def night(_open_box: Sandbox, tmp_path: Path) -> Night:
    """Return a store and a sheet that agree."""
    _open_box.break_with(None)
    _open_box.reset(PETS)
    night = Night(_open_box, tmp_path)
    night.write()
    return night


def test_a_round_in_sync_sends_nothing_and_is_reported(night: Night) -> None:
    """A round in sync has exit code 0, a history line and both reports, and sends no request that
    can change a pet.
    """
    before = night.box.requests
    report = night.run()
    assert (report.round.status, report.round.exit_code, report.round.drift) == ("in-sync", 0, 0)
    assert set(night.box.requests - before) == {"findPetsByStatus"}
    assert History(night.state).rounds() == [report.round]
    page = Path(report.round.report)
    assert page.is_file()
    assert page.with_suffix(".json").is_file()


def test_the_sheet_leads(night: Night) -> None:
    """A push sends the rows' edits, reverts the store's changes and adds deleted pets again."""
    night.run()
    night.write(changed([*PETS, ps.Pet(id=99, name="Neu", status="sold")], 1, name="Rex"))
    night.box.put(changed(PETS, 2, name="elsewhere")[1])
    night.box.remove(3)
    report = night.run()
    assert (report.round.status, report.round.applied, report.round.drift) == ("done", 4, 4)
    assert night.stored() == night.said()
    assert night.run().round.status == "in-sync"


def test_rows_that_are_taken_out_delete_only_when_asked(night: Night) -> None:
    """A removed row is a note without delete_missing; with it the pet is deleted, unless the store
    changed it since.
    """
    night.run(delete_missing=True)
    night.write(PETS[2:])
    night.box.put(changed(PETS, 2, name="elsewhere")[1])
    report = night.run()
    assert kinds(report) == [("note", 1), ("note", 2)]
    report = night.run(delete_missing=True)
    assert report.round.exit_code == 5
    assert kinds(report) == [("conflict", 2)]
    assert 1 not in night.stored()
    assert 2 in night.stored()


def test_the_first_round_deletes_nothing(night: Night) -> None:
    """The first round deletes nothing, because nothing was agreed before."""
    night.write(PETS[2:])
    report = night.run(delete_missing=True)
    assert kinds(report) == [("note", 1), ("note", 2)]
    assert len(night.stored()) == 12


def test_check_tells_and_changes_nothing(night: Night) -> None:
    """A check reports drift with exit code 2, and changes neither the base nor the store."""
    night.write(changed(PETS, 1, name="Rex"))
    report = night.run(mode="check")
    assert (report.round.status, report.round.exit_code, report.round.unexplained) == (
        "drift",
        2,
        1,
    )
    assert night.stored()[1].name == "Pet 1"
    assert night.kept_files() == {"reconcile/history.jsonl", "reconcile/locks/catalogue.lock"}


def test_check_tells_both_values_of_what_only_the_store_changed(night: Night) -> None:
    """A check reports both values of a store's change, also if the sheet has its own base."""
    with ps.connect(night.box.url, state=night.state) as store:
        ps.write_sheet(store.snapshot(), night.sheet)
    night.box.put(changed(PETS, 1, name="Rex", tags=())[0])
    (result,) = night.run(mode="check").open
    assert (result.kind, result.name) == ("drift", "Rex")
    assert result.problem == (
        "name: 'Pet 1' in the sheet, 'Rex' in the store; "
        "tags: '1:calm' in the sheet, '' in the store"
    )


def test_an_export_that_got_ids_is_no_older_file(night: Night) -> None:
    """An export into which a round wrote ids does not count as an older file, because the job
    records its new base.
    """
    path = night.folder / "catalogue.xlsx"
    with ps.connect(night.box.url, state=night.state) as store:
        ps.write_sheet(store.snapshot(), path)
    assert night.run(sheet=path).round.status == "in-sync"
    book = load_workbook(path)
    for column, text in enumerate(("Neu", "sold"), 2):
        book.worksheets[0].cell(14, column).value = text
    book.save(path)
    assert night.run(sheet=path).round.to_sheet.update == 1
    kept = BaseFile(StatePaths(night.state).base("catalogue")).load(set_aside=False)
    assert kept.carried == digest_of(ps.read_sheet(path).base)
    report = night.run(sheet=path)
    assert (report.round.status, report.open) == ("in-sync", ())


def test_a_dry_run_writes_nothing_at_all(night: Night) -> None:
    """A dry run writes nothing, not even the state folder."""
    night.write(changed(PETS, 1, name="Rex"))
    report = night.run(dry_run=True)
    assert (report.round.status, report.round.exit_code) == ("drift", 2)
    assert not night.state.exists()
    assert not (night.folder / "reports").exists()


def test_a_row_without_an_id_gets_the_one_of_its_pet(night: Night) -> None:
    """A row without an id gets its pet's id, with a preview and a backup, so a later edit of the
    row changes that pet.
    """
    night.write([*PETS, ps.Pet(name="Neu", status="available")])
    dry = night.run(dry_run=True)
    assert dry.round.to_sheet.update == 1
    assert dry.open[0].problem == "1 row without an id is to get the id of the pet"
    report = night.run()
    assert (report.round.status, report.round.to_sheet.update, report.round.applied) == (
        "done",
        1,
        2,
    )
    assert Path(report.round.backup).is_file()
    (pet,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    assert night.said()[pet.id or 0] == pet
    night.write(changed([*night.said().values()], pet.id or 0, name="Neuer"))
    assert night.run().round.status == "done"
    assert night.stored() == night.said()
    assert len(night.stored()) == 13


def test_a_row_without_an_id_stays_one_pet(night: Night) -> None:
    """A row in a sheet without an id column stays one pet, even if the store changes it or it is
    outside of the job's scope.
    """
    new = ps.Pet(name="Neu", status="available")
    frame = ps.frame_from_pets([*PETS, new]).drop(columns="id")
    frame.to_csv(night.sheet, columns=["name", "status"], index=False)
    assert night.run().round.to_sheet.update == 0
    (pet,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    night.box.put(ps.Pet(id=pet.id, name="Neu", status="sold", tags=(ps.Tag(1, "calm"),)))
    report = night.run()
    assert (report.round.status, report.round.to_store.add) == ("done", 0)
    assert len(night.stored()) == 13
    scoped = night.run(name="scoped", statuses=("pending", "sold"))
    assert (scoped.round.status, len(night.stored())) == ("in-sync", 13)


def test_an_id_that_cannot_be_written_is_remembered(night: Night) -> None:
    """If the sheet is open in a program, a new pet is added with a note, and its row gets the id in
    a later round.
    """
    night.write([*PETS, ps.Pet(name="Neu", status="available")])
    lock = night.sheet.with_name(f".~lock.{night.sheet.name}#")
    lock.write_text(",ada,", "utf-8")
    for _ in range(2):
        report = night.run()
        assert report.round.exit_code == 0
        assert "could not be given the ids" in report.open[0].problem
        assert len(night.stored()) == 13
    lock.unlink()
    assert night.run().round.status == "done"
    assert night.said() == night.stored()


def test_a_scope_is_all_that_a_job_sees(night: Night) -> None:
    """Pets outside of a job's scope have no row and no difference; a pet that leaves the scope
    keeps its row.
    """
    night.write([pet for pet in PETS if pet.status == "available"])
    assert night.run(statuses=("available",), delete_missing=True).open == ()
    night.box.put(changed(PETS, 3, status="sold")[2])
    report = night.run(statuses=("available",), tags=("calm",), delete_missing=True)
    assert (report.round.status, report.round.to_store.update) == ("done", 1)
    assert night.stored()[3].status == "available"


@pytest.mark.parametrize("mode", ["push", "two-way"])
@pytest.mark.parametrize("change", ["status", "tags"])
def test_a_row_is_taken_out_whose_pet_has_left_the_scope(
    night: Night, mode: str, change: str
) -> None:
    """A removed row whose pet has left the scope is a conflict, because the store changed the pet,
    and nothing is deleted.
    """
    scope = {"statuses": ("available",)} if change == "status" else {"tags": ("calm",)}
    pets = [pet for pet in PETS if change == "tags" or pet.status == "available"]
    options = {"mode": mode, "delete_missing": True, **scope}
    night.write(pets)
    assert night.run(**options).round.status == "in-sync"
    moved = changed(PETS, 3, **({"status": "sold"} if change == "status" else {"tags": ()}))
    night.box.put(moved[2])
    night.write([pet for pet in pets if pet.id != 3])
    for _ in range(2):
        report = night.run(**options)
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 3)])
        assert (
            f"the store changed its {change} since both sides last agreed" in report.open[0].problem
        )
        assert "Export" not in report.open[0].hint
        assert night.stored()[3] == moved[2]
    kept = night.run(**{**options, "delete_missing": False})
    assert (kept.round.status, kinds(kept)) == ("in-sync", [("note", 3)])
    night.box.remove(3)
    assert (night.run(**options).open, len(night.stored())) == ((), 11)


@pytest.mark.parametrize("mode", ["push", "two-way"])
def test_the_row_of_a_pet_outside_of_the_scope_is_taken_out(night: Night, mode: str) -> None:
    """A removed row of a pet outside of the scope leaves the pet in the store with a note, and no
    later round takes it for missing.
    """
    assert night.run(mode=mode).round.status == "in-sync"
    night.write([pet for pet in PETS if pet.id not in (2, 3)])
    scope = {
        "statuses": ("available",),
        "delete_missing": True,
        "guard": Guard(max_delete=Limit(0.5)),
    }
    report = night.run(mode=mode, **scope)
    assert (report.round.to_store.delete, kinds(report)) == (1, [("note", 2)])
    assert "not among the pets that the job covers" in report.open[0].problem
    assert {*night.stored()} == {pet.id for pet in PETS} - {3}
    assert night.run(mode=mode, **scope).open == ()
    night.run(mode=mode, delete_missing=True)
    assert 2 in night.stored()


def test_a_row_without_an_id_is_a_pet_that_has_left_the_scope(night: Night) -> None:
    """A row that was edited and lost its id, whose pet has left the scope, is a conflict and adds
    no second pet.
    """
    options = {"mode": "two-way", "statuses": ("available",), "delete_missing": True}
    pets = [pet for pet in PETS if pet.status == "available"]
    night.write(pets)
    assert night.run(**options).round.status == "in-sync"
    night.box.put(changed(PETS, 3, status="sold")[2])
    night.write([*pets[1:], ps.Pet(name="Pet 3", status="pending", category=DOGS)])
    report = night.run(**options)
    assert (report.round.status, report.round.to_store.add) == ("conflicts", 0)
    assert len(night.stored()) == 12


def test_a_removed_row_stays_known_while_its_pet_cannot_be_read(night: Night) -> None:
    """A removed row whose pet cannot be read is not forgotten, and the next round looks up the pet
    again.
    """
    options = {"statuses": ("available",), "delete_missing": True}
    pets = [pet for pet in PETS if pet.status == "available"]
    night.write(pets)
    assert night.run(**options).round.status == "in-sync"
    night.box.put(changed(PETS, 3, status="sold")[2])
    night.write(pets[1:])
    night.box.break_with("torn=1,only=getPetById")
    assert night.run(**options).round.status == "error"
    night.box.break_with(None)
    assert kinds(night.run(**options)) == [("conflict", 3)]


BIRDS = ps.Category(4, "Birds")
OLD = ps.Tag(105, "old")


@pytest.mark.parametrize("mode", ["push", "two-way"])
@pytest.mark.parametrize("scope", ["statuses", "tags", "both"])
def test_names_outside_of_the_scope_have_the_store_s_numbers(
    night: Night, mode: str, scope: str
) -> None:
    """A category and a tag that only pets outside of the job's scope have get the store's ids."""
    statuses = ("available", "pending", "sold") if scope == "both" else ("available",)
    options = {
        "mode": mode,
        **({} if scope == "tags" else {"statuses": statuses}),
        **({} if scope == "statuses" else {"tags": ("calm",)}),
    }
    night.box.reset(changed(PETS, 2, category=BIRDS, tags=(OLD,)))
    pets = [pet for pet in PETS if pet.status == "available"]
    night.write(pets)
    assert night.run(**options).round.exit_code == 0
    new = ps.Pet(name="Neu", status="available", category=ps.Category(name="Birds"))
    said = changed(pets, 3, category=ps.Category(name="Birds"), tags=(ps.Tag(name="old"),))
    night.write([*said, new])
    report = night.run(**options)
    assert (report.round.to_store.add, report.round.to_store.update) == (1, 1)
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    assert (added.category, night.stored()[3].category) == (BIRDS, BIRDS)
    assert night.stored()[3].tags == (OLD,)


def test_names_of_another_file_have_the_store_s_numbers(night: Night) -> None:
    """A category that only pets in the folder's other file have gets the store's id."""
    folder = night.folder / "sheets"
    folder.mkdir()
    night.box.reset(changed(PETS, 2, category=BIRDS))
    said = changed(night.stored().values(), 1, category=ps.Category(name="Birds"))
    for name, pets in (("a.csv", said[:1]), ("b.csv", said[1:])):
        ps.write_sheet(ps.frame_from_pets(pets), folder / name, base=False)
    reconcile_jobs(night.config(night.job(folder=folder)))
    assert night.stored()[1].category == BIRDS


def test_a_new_name_waits_for_the_rest_of_the_store(night: Night) -> None:
    """A new category name is a conflict while a status cannot be listed, because the store may have
    the name with an id.
    """
    options = {"statuses": ("available",)}
    pets = [pet for pet in PETS if pet.status == "available"]
    night.write(changed(changed(pets, 3, category=ps.Category(name="Birds")), 6, name="Rex"))
    night.box.break_with("torn=1,status=sold")
    report = night.run(**options)
    assert (report.round.to_store.update, kinds(report)) == (1, [("conflict", 3)])
    assert "could not be looked up" in report.open[0].problem
    night.box.break_with(None)
    assert night.run(**options).open == ()
    assert night.stored()[3].category == ps.Category(name="Birds")


def test_a_plan_of_a_part_of_the_store_knows_the_names_of_all(night: Night) -> None:
    """A plan from a snapshot of one status uses the category ids of the whole store; if the rest
    cannot be listed, the row is a conflict.
    """
    night.box.reset(changed(PETS, 2, category=BIRDS))
    frame = ps.frame_from_pets([ps.Pet(id=3, category=ps.Category(name="Birds"))])
    with ps.connect(night.box.url) as store:
        part = store.snapshot(statuses=["available"])
        (change,) = store.plan(frame, snapshot=part).changes
        assert change.after is not None
        assert change.after.category == BIRDS
        night.box.break_with("torn=1,status=sold")
        plan = store.plan(frame, snapshot=part)
        assert [each.rule for each in plan.conflicts] == ["not-looked-up"]
        assert plan.changes == ()


def test_a_query_is_pushed(night: Night) -> None:
    """The rows of a database query are pushed without a file, and a query that fails changes
    nothing.
    """
    import sqlite3

    from petsync.settings import Secret

    path = night.folder / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE pets (id INTEGER, name TEXT)")
        connection.execute("INSERT INTO pets VALUES (1, 'Rex')")
    connection.close()
    options = {"query": "SELECT id, name FROM pets", "database": Secret(f"sqlite:///{path}")}
    report = night.run(**options)
    assert (report.round.status, night.stored()[1].name) == ("done", "Rex")
    assert night.run(**{**options, "query": "SELECT nothing"}).round.status == "error"


def test_pets_that_never_had_a_row_are_reported_by_their_number(night: Night) -> None:
    """Pets that never had a row are reported as one number, so a small sheet does not list the
    whole store every night.
    """
    night.box.reset([*PETS, *(ps.Pet(id=n, name=f"P{n}", status="sold") for n in range(100, 150))])
    (note,) = night.run().open
    assert (note.kind, note.pet_id) == ("note", None)
    assert note.problem.startswith("50 pets of the store are in no row")


def test_a_cell_that_empties_agrees_with_a_pet_that_has_nothing(night: Night) -> None:
    """A cell with [clear] agrees with a pet that has no value, so there is neither a note nor
    drift.
    """
    night.box.put(changed(PETS, 1, category=None)[0])
    text = night.sheet.read_text("utf-8-sig").splitlines()
    head = text[0].split(",")
    row = text[1].split(",")
    row[head.index("category")], row[head.index("category_id")] = "[clear]", ""
    night.sheet.write_text("\n".join([text[0], ",".join(row), *text[2:]]), "utf-8")
    assert night.run(mode="check").open == ()
    assert night.run().open == ()


def test_the_number_of_another_category_beside_a_name_is_a_conflict(night: Night) -> None:
    """The id of another category beside an unchanged name is a conflict in each round until both
    cells agree.
    """
    night.box.put(changed(PETS, 2, category=ps.Category(2, "Cats"))[1])
    night.write(changed(PETS, 2, category=ps.Category(2, "Cats")))
    assert night.run().round.status == "in-sync"
    pets = changed(PETS, 2, category=ps.Category(2, "Cats"))
    night.write(changed(pets, 1, category=ps.Category(2, "Dogs")))
    for _ in range(2):
        report = night.run()
        assert (report.round.status, report.round.exit_code) == ("conflicts", 5)
        assert kinds(report) == [("conflict", 1)]
        assert night.stored()[1].category == ps.Category(1, "Dogs")
    night.write(changed(pets, 1, category=ps.Category(2, "Cats")))
    assert night.run().round.status == "done"
    assert night.stored()[1].category == ps.Category(2, "Cats")
