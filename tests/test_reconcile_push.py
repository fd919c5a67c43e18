"""A job that pushes: the sheet leads in every round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openpyxl import load_workbook
from scenarios import DOGS, PETS, Scenario, changed, kinds

import petsync as ps
from petsync.models import Tag
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
def scenario(_open_box: Sandbox, tmp_path: Path) -> Scenario:
    """Return a store and a sheet that agree."""
    _open_box.set_faults(None)
    _open_box.reset(PETS)
    scenario = Scenario(_open_box, tmp_path)
    scenario.write()
    return scenario


def test_a_round_in_sync_sends_nothing_and_is_reported(scenario: Scenario) -> None:
    """A round in sync has exit code 0, a history line and both reports, and sends no request that
    can change a pet.
    """
    before = scenario.box.requests
    report = scenario.run()
    assert (report.round.status, report.round.exit_code, report.round.drift) == ("in-sync", 0, 0)
    assert set(scenario.box.requests - before) == {"findPetsByStatus"}
    assert History(scenario.state).rounds() == [report.round]
    page = Path(report.round.report)
    assert page.is_file()
    assert page.with_suffix(".json").is_file()


def test_the_sheet_leads(scenario: Scenario) -> None:
    """A push sends the rows' edits, reverts the store's changes and adds deleted pets again."""
    scenario.run()
    scenario.write(changed([*PETS, ps.Pet(id=99, name="Neu", status="sold")], 1, name="Rex"))
    scenario.box.put(changed(PETS, 2, name="elsewhere")[1])
    scenario.box.remove(3)
    report = scenario.run()
    assert (report.round.status, report.round.applied, report.round.drift) == ("done", 4, 4)
    assert scenario.store_pets() == scenario.sheet_pets()
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("adds", [2, 30])
def test_a_dry_run_shows_changes_before_adds(scenario: Scenario, adds: int) -> None:
    """The first differences are changes and deletes. The tags of a few are shown whole; of many
    changes, the part with the difference.
    """
    tags = [Tag(None, f"tag number {number}") for number in range(12)]
    scenario.box.put(changed(PETS, 1, tags=tuple(tags))[0])
    new = [ps.Pet(name=f"Neu {number}", status="sold") for number in range(adds)]
    edited = changed(PETS, 1, tags=(*tags[:10], Tag(None, "last")))
    scenario.write([*new, *edited])
    report = scenario.run(dry_run=True)
    first, *rest = (each for each in report.open if each.kind == "drift")
    assert all("is to be added" in each.problem for each in rest)
    assert len(rest) == adds
    is_whole = "'tag number 0; tag number 1; " in first.problem
    assert is_whole is (adds < 20)
    assert "tag number 9; last'" in first.problem
    assert "-> " in first.problem


def test_rows_that_are_taken_out_delete_only_when_asked(scenario: Scenario) -> None:
    """A removed row is a note without delete_missing; with it the pet is deleted, unless the store
    changed it since.
    """
    scenario.run(delete_missing=True)
    scenario.write(PETS[2:])
    scenario.box.put(changed(PETS, 2, name="elsewhere")[1])
    report = scenario.run()
    assert kinds(report) == [("note", 1), ("note", 2)]
    report = scenario.run(delete_missing=True)
    assert report.round.exit_code == 5
    assert kinds(report) == [("conflict", 2)]
    assert 1 not in scenario.store_pets()
    assert 2 in scenario.store_pets()


def test_the_first_round_deletes_nothing(scenario: Scenario) -> None:
    """The first round deletes nothing, because nothing was agreed before."""
    scenario.write(PETS[2:])
    report = scenario.run(delete_missing=True)
    assert kinds(report) == [("note", 1), ("note", 2)]
    assert len(scenario.store_pets()) == 12


def test_check_tells_and_changes_nothing(scenario: Scenario) -> None:
    """A check reports drift with exit code 2, and changes neither the base nor the store."""
    scenario.write(changed(PETS, 1, name="Rex"))
    report = scenario.run(mode="check")
    assert (report.round.status, report.round.exit_code, report.round.unexplained) == (
        "drift",
        2,
        1,
    )
    assert scenario.store_pets()[1].name == "Pet 1"
    assert scenario.state_files() == {"reconcile/history.jsonl", "reconcile/locks/catalogue.lock"}


def test_check_tells_both_values_of_what_only_the_store_changed(scenario: Scenario) -> None:
    """A check reports both values of a store's change, also if the sheet has its own base."""
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        ps.write_sheet(store.snapshot(), scenario.sheet)
    scenario.box.put(changed(PETS, 1, name="Rex", tags=())[0])
    (result,) = scenario.run(mode="check").open
    assert (result.kind, result.name) == ("drift", "Rex")
    assert result.problem == (
        "name: 'Pet 1' in the sheet, 'Rex' in the store; tags: 'calm' in the sheet, '' in the store"
    )


def test_an_export_that_got_ids_is_no_older_file(scenario: Scenario) -> None:
    """An export into which a round wrote ids does not count as an older file, because the job
    records its new base.
    """
    path = scenario.folder / "catalogue.xlsx"
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        ps.write_sheet(store.snapshot(), path)
    assert scenario.run(sheet=path).round.status == "in-sync"
    book = load_workbook(path)
    for column, text in enumerate(("Neu", "sold"), 2):
        book.worksheets[0].cell(14, column).value = text
    book.save(path)
    assert scenario.run(sheet=path).round.to_sheet.update == 1
    kept = BaseFile(StatePaths(scenario.state).base("catalogue")).load(set_aside=False)
    assert kept.carried == digest_of(ps.read_sheet(path).base)
    report = scenario.run(sheet=path)
    assert (report.round.status, report.open) == ("in-sync", ())


def test_a_dry_run_writes_nothing_at_all(scenario: Scenario) -> None:
    """A dry run writes nothing, not even the state folder."""
    scenario.write(changed(PETS, 1, name="Rex"))
    report = scenario.run(dry_run=True)
    assert (report.round.status, report.round.exit_code) == ("drift", 2)
    assert not scenario.state.exists()
    assert not (scenario.folder / "reports").exists()


def test_a_row_without_an_id_gets_the_one_of_its_pet(scenario: Scenario) -> None:
    """A row without an id gets its pet's id, with a preview and a backup, so a later edit of the
    row changes that pet.
    """
    scenario.write([*PETS, ps.Pet(name="Neu", status="available")])
    dry = scenario.run(dry_run=True)
    assert dry.round.to_sheet.update == 1
    assert dry.open[0].problem == "1 row without an id is to get the id of its pet"
    report = scenario.run()
    assert (report.round.status, report.round.to_sheet.update, report.round.applied) == (
        "done",
        1,
        2,
    )
    assert Path(report.round.backup).is_file()
    (pet,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    assert scenario.sheet_pets()[pet.id or 0] == pet
    scenario.write(changed([*scenario.sheet_pets().values()], pet.id or 0, name="Neuer"))
    assert scenario.run().round.status == "done"
    assert scenario.store_pets() == scenario.sheet_pets()
    assert len(scenario.store_pets()) == 13


def test_a_row_without_an_id_stays_one_pet(scenario: Scenario) -> None:
    """A row in a sheet without an id column stays one pet, even if the store changes it or it is
    outside of the job's scope.
    """
    new = ps.Pet(name="Neu", status="available")
    frame = ps.frame_from_pets([*PETS, new]).drop(columns="id")
    frame.to_csv(scenario.sheet, columns=["name", "status"], index=False)
    assert scenario.run().round.to_sheet.update == 0
    (pet,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    scenario.box.put(ps.Pet(id=pet.id, name="Neu", status="sold", tags=(ps.Tag(1, "calm"),)))
    report = scenario.run()
    assert (report.round.status, report.round.to_store.add) == ("done", 0)
    assert len(scenario.store_pets()) == 13
    scoped = scenario.run(name="scoped", statuses=("pending", "sold"))
    assert (scoped.round.status, len(scenario.store_pets())) == ("in-sync", 13)


def test_an_id_that_cannot_be_written_is_remembered(scenario: Scenario) -> None:
    """If the sheet is open in a program, a new pet is added with a note, and its row gets the id in
    a later round.
    """
    scenario.write([*PETS, ps.Pet(name="Neu", status="available")])
    lock = scenario.sheet.with_name(f".~lock.{scenario.sheet.name}#")
    lock.write_text(",ada,", "utf-8")
    for _ in range(2):
        report = scenario.run()
        assert report.round.exit_code == 0
        assert "could not be written into the sheet" in report.open[0].problem
        assert len(scenario.store_pets()) == 13
    lock.unlink()
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets() == scenario.store_pets()


def test_a_scope_is_all_that_a_job_sees(scenario: Scenario) -> None:
    """Pets outside of a job's scope have no row and no difference; a pet that leaves the scope
    keeps its row.
    """
    scenario.write([pet for pet in PETS if pet.status == "available"])
    assert scenario.run(statuses=("available",), delete_missing=True).open == ()
    scenario.box.put(changed(PETS, 3, status="sold")[2])
    report = scenario.run(statuses=("available",), tags=("calm",), delete_missing=True)
    assert (report.round.status, report.round.to_store.update) == ("done", 1)
    assert scenario.store_pets()[3].status == "available"


def test_the_number_of_another_category_beside_the_old_name_is_a_conflict(
    scenario: Scenario,
) -> None:
    """A row with a category's new number beside the old category's name is not sent: it is a
    conflict until the name is written.
    """
    scenario.box.reset(pets := changed(PETS, 2, category=BIRDS))
    scenario.write(pets)
    assert scenario.run().round.status == "in-sync"
    scenario.write(changed(pets, 1, category=ps.Category(id=BIRDS.id, name=DOGS.name)))
    for _ in range(2):
        report = scenario.run()
        assert kinds(report) == [("conflict", 1)]
        assert "number of a different category next to the old" in report.open[0].problem
    assert scenario.store_pets()[1].category == DOGS
    scenario.write(changed(pets, 1, category=BIRDS))
    assert scenario.run().round.applied == 1
    assert scenario.store_pets()[1].category == BIRDS


@pytest.mark.parametrize("mode", ["push", "two-way"])
@pytest.mark.parametrize("change", ["status", "tags"])
def test_a_row_is_taken_out_whose_pet_has_left_the_scope(
    scenario: Scenario, mode: str, change: str
) -> None:
    """A removed row whose pet has left the scope is a conflict, because the store changed the pet,
    and nothing is deleted.
    """
    scope = {"statuses": ("available",)} if change == "status" else {"tags": ("calm",)}
    pets = [pet for pet in PETS if change == "tags" or pet.status == "available"]
    options = {"mode": mode, "delete_missing": True, **scope}
    scenario.write(pets)
    assert scenario.run(**options).round.status == "in-sync"
    moved = changed(PETS, 3, **({"status": "sold"} if change == "status" else {"tags": ()}))
    scenario.box.put(moved[2])
    scenario.write([pet for pet in pets if pet.id != 3])
    for _ in range(2):
        report = scenario.run(**options)
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 3)])
        assert (
            f"the store changed its {change} since both sides last agreed" in report.open[0].problem
        )
        assert "Export" not in report.open[0].hint
        assert scenario.store_pets()[3] == moved[2]
    kept = scenario.run(**{**options, "delete_missing": False})
    assert (kept.round.status, kinds(kept)) == ("in-sync", [("note", 3)])
    scenario.box.remove(3)
    assert (scenario.run(**options).open, len(scenario.store_pets())) == ((), 11)


@pytest.mark.parametrize("mode", ["push", "two-way"])
def test_the_row_of_a_pet_outside_of_the_scope_is_taken_out(scenario: Scenario, mode: str) -> None:
    """A removed row of a pet outside of the scope leaves the pet in the store with a note, and no
    later round takes it for missing.
    """
    assert scenario.run(mode=mode).round.status == "in-sync"
    scenario.write([pet for pet in PETS if pet.id not in (2, 3)])
    scope = {
        "statuses": ("available",),
        "delete_missing": True,
        "guard": Guard(max_delete=Limit(0.5)),
    }
    report = scenario.run(mode=mode, **scope)
    assert (report.round.to_store.delete, kinds(report)) == (1, [("note", 2)])
    assert "not among the pets that the job covers" in report.open[0].problem
    assert {*scenario.store_pets()} == {pet.id for pet in PETS} - {3}
    assert scenario.run(mode=mode, **scope).open == ()
    scenario.run(mode=mode, delete_missing=True)
    assert 2 in scenario.store_pets()


def test_a_row_without_an_id_is_a_pet_that_has_left_the_scope(scenario: Scenario) -> None:
    """A row that was edited and lost its id, whose pet has left the scope, is a conflict and adds
    no second pet.
    """
    options = {"mode": "two-way", "statuses": ("available",), "delete_missing": True}
    pets = [pet for pet in PETS if pet.status == "available"]
    scenario.write(pets)
    assert scenario.run(**options).round.status == "in-sync"
    scenario.box.put(changed(PETS, 3, status="sold")[2])
    scenario.write([*pets[1:], ps.Pet(name="Pet 3", status="pending", category=DOGS)])
    report = scenario.run(**options)
    assert (report.round.status, report.round.to_store.add) == ("conflicts", 0)
    assert len(scenario.store_pets()) == 12


def test_a_removed_row_stays_known_while_its_pet_cannot_be_read(scenario: Scenario) -> None:
    """A removed row whose pet cannot be read is not forgotten, and the next round looks up the pet
    again.
    """
    options = {"statuses": ("available",), "delete_missing": True}
    pets = [pet for pet in PETS if pet.status == "available"]
    scenario.write(pets)
    assert scenario.run(**options).round.status == "in-sync"
    scenario.box.put(changed(PETS, 3, status="sold")[2])
    scenario.write(pets[1:])
    scenario.box.set_faults("torn=1,only=getPetById")
    assert scenario.run(**options).round.status == "error"
    scenario.box.set_faults(None)
    assert kinds(scenario.run(**options)) == [("conflict", 3)]


BIRDS = ps.Category(4, "Birds")
OLD = ps.Tag(105, "old")


@pytest.mark.parametrize("mode", ["push", "two-way"])
@pytest.mark.parametrize("scope", ["statuses", "tags", "both"])
def test_names_outside_of_the_scope_have_the_store_s_numbers(
    scenario: Scenario, mode: str, scope: str
) -> None:
    """A category and a tag that only pets outside of the job's scope have get the store's ids."""
    statuses = ("available", "pending", "sold") if scope == "both" else ("available",)
    options = {
        "mode": mode,
        **({} if scope == "tags" else {"statuses": statuses}),
        **({} if scope == "statuses" else {"tags": ("calm",)}),
    }
    scenario.box.reset(changed(PETS, 2, category=BIRDS, tags=(OLD,)))
    pets = [pet for pet in PETS if pet.status == "available"]
    scenario.write(pets)
    assert scenario.run(**options).round.exit_code == 0
    new = ps.Pet(name="Neu", status="available", category=ps.Category(name="Birds"))
    rows = changed(pets, 3, category=ps.Category(name="Birds"), tags=(ps.Tag(name="old"),))
    scenario.write([*rows, new])
    report = scenario.run(**options)
    assert (report.round.to_store.add, report.round.to_store.update) == (1, 1)
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    assert (added.category, scenario.store_pets()[3].category) == (BIRDS, BIRDS)
    assert scenario.store_pets()[3].tags == (OLD,)


def test_names_of_another_file_have_the_store_s_numbers(scenario: Scenario) -> None:
    """A category that only pets in the folder's other file have gets the store's id."""
    folder = scenario.folder / "sheets"
    folder.mkdir()
    scenario.box.reset(changed(PETS, 2, category=BIRDS))
    rows = changed(scenario.store_pets().values(), 1, category=ps.Category(name="Birds"))
    for name, pets in (("a.csv", rows[:1]), ("b.csv", rows[1:])):
        ps.write_sheet(ps.frame_from_pets(pets), folder / name, base=False)
    reconcile_jobs(scenario.config(scenario.job(folder=folder)))
    assert scenario.store_pets()[1].category == BIRDS


def test_a_new_name_waits_for_the_rest_of_the_store(scenario: Scenario) -> None:
    """A new category name is a conflict while a status cannot be listed, because the store may have
    the name with an id.
    """
    options = {"statuses": ("available",)}
    pets = [pet for pet in PETS if pet.status == "available"]
    scenario.write(changed(changed(pets, 3, category=ps.Category(name="Birds")), 6, name="Rex"))
    scenario.box.set_faults("torn=1,status=sold")
    report = scenario.run(**options)
    assert (report.round.to_store.update, kinds(report)) == (1, [("conflict", 3)])
    assert "could not be looked up" in report.open[0].problem
    scenario.box.set_faults(None)
    assert scenario.run(**options).open == ()
    assert scenario.store_pets()[3].category == ps.Category(name="Birds")


def test_a_plan_of_a_part_of_the_store_knows_the_names_of_all(scenario: Scenario) -> None:
    """A plan from a snapshot of one status uses the category ids of the whole store; if the rest
    cannot be listed, the row is a conflict.
    """
    scenario.box.reset(changed(PETS, 2, category=BIRDS))
    frame = ps.frame_from_pets([ps.Pet(id=3, category=ps.Category(name="Birds"))])
    with ps.connect(scenario.box.url) as store:
        part = store.snapshot(statuses=["available"])
        (change,) = store.plan(frame, snapshot=part).changes
        assert change.after is not None
        assert change.after.category == BIRDS
        scenario.box.set_faults("torn=1,status=sold")
        plan = store.plan(frame, snapshot=part)
        assert [each.rule for each in plan.conflicts] == ["not-looked-up"]
        assert plan.changes == ()


def test_a_query_is_pushed(scenario: Scenario) -> None:
    """The rows of a database query are pushed without a file, and a query that fails changes
    nothing.
    """
    import sqlite3

    from petsync.settings import Secret

    path = scenario.folder / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE pets (id INTEGER, name TEXT)")
        connection.execute("INSERT INTO pets VALUES (1, 'Rex')")
    connection.close()
    options = {"query": "SELECT id, name FROM pets", "database": Secret(f"sqlite:///{path}")}
    report = scenario.run(**options)
    assert (report.round.status, scenario.store_pets()[1].name) == ("done", "Rex")
    assert scenario.run(**{**options, "query": "SELECT nothing"}).round.status == "error"


def test_pets_that_never_had_a_row_are_reported_by_their_number(scenario: Scenario) -> None:
    """Pets that never had a row are reported as one number, so a small sheet does not list the
    whole store every night.
    """
    scenario.box.reset(
        [*PETS, *(ps.Pet(id=n, name=f"P{n}", status="sold") for n in range(100, 150))]
    )
    (note,) = scenario.run().open
    assert (note.kind, note.pet_id) == ("note", None)
    assert note.problem.startswith("50 pets of the store are in no row")


def test_a_cell_that_empties_agrees_with_a_pet_that_has_nothing(scenario: Scenario) -> None:
    """A cell with [clear] agrees with a pet that has no value, so there is neither a note nor
    drift.
    """
    scenario.box.put(changed(PETS, 1, category=None)[0])
    text = scenario.sheet.read_text("utf-8-sig").splitlines()
    head = text[0].split(",")
    row = text[1].split(",")
    row[head.index("category")], row[head.index("category_id")] = "[clear]", ""
    scenario.sheet.write_text("\n".join([text[0], ",".join(row), *text[2:]]), "utf-8")
    assert scenario.run(mode="check").open == ()
    assert scenario.run().open == ()


def test_the_number_of_another_category_beside_a_name_is_a_conflict(scenario: Scenario) -> None:
    """The id of another category beside an unchanged name is a conflict in each round until both
    cells agree.
    """
    scenario.box.put(changed(PETS, 2, category=ps.Category(2, "Cats"))[1])
    scenario.write(changed(PETS, 2, category=ps.Category(2, "Cats")))
    assert scenario.run().round.status == "in-sync"
    pets = changed(PETS, 2, category=ps.Category(2, "Cats"))
    scenario.write(changed(pets, 1, category=ps.Category(2, "Dogs")))
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, report.round.exit_code) == ("conflicts", 5)
        assert kinds(report) == [("conflict", 1)]
        assert scenario.store_pets()[1].category == ps.Category(1, "Dogs")
    scenario.write(changed(pets, 1, category=ps.Category(2, "Cats")))
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[1].category == ps.Category(2, "Cats")


def test_a_push_names_the_changes_in_the_store_that_it_writes_over(scenario: Scenario) -> None:
    """The report of a round, and of a dry run, names each pet and field whose value in the store is
    written over, with both values, and each pet that is added again; a plan that waits has them
    too. The sheet's own edits are not named.
    """
    scenario.run()
    scenario.write(changed(PETS, 1, name="Rex"))
    scenario.box.put(changed(PETS, 2, name="elsewhere")[1])
    scenario.box.remove(3)
    for dry_run in (True, False):
        report = scenario.run(dry_run=dry_run)
        be = "is" if dry_run else "was"
        (over,) = (each for each in report.open if f" {be} replaced with" in each.problem)
        assert (over.kind, over.pet_id, over.row, over.fields) == ("note", 2, 3, ("name",))
        old = repr(PETS[1].name)
        assert f"the store's 'elsewhere' {be} replaced with the sheet's {old}" in over.problem
        (again,) = (each for each in report.open if f"{be} added again" in each.problem)
        assert (again.kind, again.pet_id) == ("note", 3)
    assert scenario.store_pets() == scenario.sheet_pets()
    page = Path(report.round.report)
    for text in (
        page.read_text("utf-8"),
        page.with_suffix(".json").read_text("utf-8"),
        str(report),
    ):
        assert "elsewhere" in text
    assert not scenario.run().open


@pytest.mark.parametrize(
    ("only", "text"),
    [
        ("updatePetWithForm", "the store's 'elsewhere' was not replaced with"),
        ("addPet", "was not added again"),
    ],
)
def test_a_note_says_what_became_of_a_change(scenario: Scenario, only: str, text: str) -> None:
    """A round whose change fails does not say that it replaced the store's values."""
    scenario.run()
    scenario.box.put(changed(PETS, 2, name="elsewhere")[1])
    scenario.box.remove(3)
    scenario.box.set_faults(f"portal=1,only={only}")
    report = scenario.run()
    scenario.box.set_faults(None)
    problems = [each.problem for each in report.open if each.kind == "note"]
    assert [text in each for each in problems].count(True) == 1
    assert sum(" was " in each and "was not" not in each for each in problems) == 1


def test_a_push_names_the_undo_whose_changes_it_makes_again(scenario: Scenario) -> None:
    """The report of a push names the rows that make undone changes again, and does not call them
    changes of the store.
    """
    scenario.run()
    scenario.write(changed(PETS, 1, name="Rex"))
    (run,) = scenario.run().round.runs
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        undo = store.apply(store.undo(run), progress=False).run_id
    (note,) = scenario.run().open
    assert (note.kind, note.pet_id, note.row) == ("note", 1, 2)
    assert note.problem == f"makes a change of run {run} again, which the undo {undo} reversed"
