"""The agreed base: it has what both sides really had, wherever a round is interrupted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from pairwise import each_choice, pairwise
from scenarios import DOGS, PETS, CsvScenario, FirstRounds, changed, kinds

import petsync as ps
from petsync import sheets
from petsync.apply import engine
from petsync.errors import InterruptedRunError, SheetError, UnavailableError
from petsync.plan.guard import Guard, Limit
from petsync.plan.report import Report
from petsync.reconcile.round import reconcile_jobs
from petsync.reconcile.state import BaseFile, PendingRuns, Versions
from petsync.sandbox import Sandbox
from petsync.sandbox.http import STANDARD
from petsync.store.runs import OutputRequest, Outputs

pytestmark = pytest.mark.slow

CATS = ps.Category(2, "Cats")
BIRDS = ps.Category(3, "Birds")
STOPS = {"mode": "two-way", "concurrency": 1, "max_failures": 0, "timeout": 30}
"""A job that stops at its first failure."""
STORED = changed(changed(PETS, 7, category=CATS), 8, category=BIRDS)


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture(scope="module")
def first_rounds(tmp_path_factory: pytest.TempPathFactory) -> FirstRounds:
    """Return the first round of the sheet, which runs once for the module."""
    return FirstRounds(tmp_path_factory.mktemp("first"))


@pytest.fixture
def scenario(_open_box: Sandbox, first_rounds: FirstRounds, tmp_path: Path) -> CsvScenario:
    """Return a store and a sheet that agree after one round."""
    scenario = CsvScenario(_open_box, tmp_path, {"mode": "two-way"})
    first_rounds.begin(scenario, STORED)
    return scenario


Break = Callable[[CsvScenario, pytest.MonkeyPatch], None]


def _killed_before_the_sheet(scenario: CsvScenario, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
    assert scenario.run().round.status == "interrupted"


def _killed_before_the_base(scenario: CsvScenario, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
    assert scenario.run().round.status == "interrupted"


def _opened_in_mid_round(scenario: CsvScenario, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sheets, "write_synced", Mock(side_effect=SheetError("it is open")))
    assert scenario.run().round.status == "error"


def _backup_put_back(scenario: CsvScenario, _: pytest.MonkeyPatch) -> None:
    report = scenario.run()
    assert report.round.status == "done"
    shutil.copy(report.round.backup, scenario.sheet)


BREAKS: tuple[Break, ...] = (
    _killed_before_the_sheet,
    _killed_before_the_base,
    _opened_in_mid_round,
    _backup_put_back,
)


@each_choice
@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize(
    ("cells", "meant"),
    [
        ({"category": "Cats"}, CATS),
        ({"category_id": "2"}, CATS),
        ({"category": "[clear]"}, None),
        ({"category": "Fish"}, ps.Category(None, "Fish")),
    ],
)
def test_a_category_edited_in_one_cell_stays(
    scenario: CsvScenario,
    monkeypatch: pytest.MonkeyPatch,
    broken: Break,
    cells: dict[str, str],
    meant: ps.Category | None,
) -> None:
    """An edit of one cell of a category stays however the round ends; the unchanged cell beside it
    is not an edit.
    """
    scenario.type(1, **cells)
    with monkeypatch.context() as patch:
        broken(scenario, patch)
    report = scenario.run()
    assert report.round.status in ("done", "in-sync")
    assert scenario.store_pets()[1].category == meant
    assert scenario.run().round.status == "in-sync"
    assert scenario.store_pets()[1].category == meant


@pytest.mark.parametrize("broken", BREAKS[:3])
def test_a_category_edited_again_is_sent(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, broken: Break
) -> None:
    """An edit that is typed after an interrupted round is sent, and is not a conflict."""
    scenario.type(1, category="Cats")
    with monkeypatch.context() as patch:
        broken(scenario, patch)
    scenario.type(1, category="Birds")
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[1].category == BIRDS
    assert scenario.run().round.status == "in-sync"


def test_a_category_that_was_cleared_takes_a_new_one(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleared category takes the store's new one, although the old category id is still beside
    it.
    """
    scenario.type(1, category="[clear]")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    scenario.box.put(changed(STORED, 1, category=CATS)[0])
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert scenario.store_pets()[1].category == scenario.sheet_pets()[1].category == CATS


def test_the_number_beside_a_cleared_category_is_no_edit(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old id beside a cleared category is not an edit, even if the name's column is removed
    after a killed round and restored later.
    """
    scenario.type(1, category="[clear]")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    away = scenario.cut("category")
    assert scenario.run().round.to_store.total == 0
    scenario.paste(away)
    assert scenario.run().round.exit_code == 0
    assert scenario.run().round.status == "in-sync"
    assert scenario.store_pets()[1].category is None


def test_a_category_that_arrived_is_no_edit_of_a_pet_that_is_gone(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row whose category a killed round sent is unedited, so it is removed without a conflict
    when its pet is deleted in the store.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    scenario.type(1, category="Cats")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    assert scenario.store_pets()[1].category == CATS
    assert scenario.cell(1, "category_id") == "1"
    scenario.box.remove(1)
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert 1 not in scenario.sheet_pets()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_new_row_keeps_its_category(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """A new row with the name of one category and the id of another gets the named category, also
    in a killed round.
    """
    rows = scenario.rows()
    new = {"name": "Neu", "status": "sold", "category": "Cats", "category_id": "1"}
    scenario.save([*rows, [new.get(name, "") for name in rows[0]]])
    if is_killed:
        with monkeypatch.context() as patch:
            _killed_before_the_sheet(scenario, patch)
    assert scenario.run().round.status == "done"
    (pet,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    assert pet.category == CATS
    assert scenario.cell(pet.id or 0, "category_id") == "2"


@pytest.mark.parametrize("is_new", [False, True])
def test_a_category_stays_where_the_row_is_edited_after_a_killed_round(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """After a killed round sent a category, another edit of the row is sent, and the old category
    id is not an edit, even if its column is away.
    """
    if is_new:
        rows = scenario.rows()
        new = {"name": "Neu", "status": "sold", "category": "Cats", "category_id": "1"}
        scenario.save([*rows, [new.get(name, "") for name in rows[0]]])
    else:
        scenario.type(1, name="Neu", category="Cats")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    rows = scenario.rows()
    status, name = rows[0].index("status"), rows[0].index("name")
    next(row for row in rows if row[name] == "Neu")[status] = "available"
    scenario.save(rows)
    (pet,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    gone = scenario.cut("category_id")
    scenario.run()
    scenario.paste(gone)
    report = scenario.run()
    assert (report.round.status, report.open, report.round.to_store.total) == ("done", (), 0)
    assert scenario.store_pets()[pet.id or 0].category == CATS
    assert scenario.cell(pet.id or 0, "category_id") == "2"


def test_a_released_plan_keeps_the_category(scenario: CsvScenario) -> None:
    """A plan that waited and was released sends the category of the name cell."""
    scenario.type(1, category="Cats")
    guard = Guard(max_update=Limit(0, is_share=False))
    report = scenario.run(guard=guard)
    assert report.round.status == "waiting"
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.apply(ps.load_plan(report.round.waiting), progress=False)
    assert scenario.store_pets()[1].category == CATS
    assert scenario.run(guard=guard).round.to_store.total == 0
    assert scenario.store_pets()[1].category == CATS


def test_two_rounds_that_were_killed_are_both_agreed_on(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that two killed rounds sent are agreed, so a value that is set back is an edit."""
    for pet_id in (1, 2):
        scenario.type(pet_id, name=f"Rex {pet_id}")
        with monkeypatch.context() as patch:
            _killed_before_the_base(scenario, patch)
    scenario.type(1, name="Pet 1")
    assert scenario.run().round.status == "done"
    assert (scenario.store_pets()[1].name, scenario.store_pets()[2].name) == ("Pet 1", "Rex 2")
    assert scenario.sheet_pets() == scenario.store_pets()


@pytest.mark.parametrize("how", ["renamed", "cut", "emptied"])
def test_a_column_that_was_away_reverts_nothing(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A column that was away reverts nothing: unedited rows take the store's values, and an edited
    row is sent, or is in conflict if the store changed it too.
    """
    rows = scenario.rows()
    scenario.box.put(changed(STORED, 1, name="Store 1")[0])
    columns = {} if how == "renamed" else scenario.cut("name", "tags")
    if how == "renamed":
        scenario.rename("name", "Rufname")
        scenario.rename("tags", "Merkmale")
    elif how == "emptied":
        scenario.paste({name: [""] * len(cells) for name, cells in columns.items()})
    first = scenario.run()
    assert first.round.exit_code == (3 if how == "renamed" else 0)
    assert any(": name, tags. Once they" in each.problem for each in first.open)
    scenario.box.put(changed(STORED, 2, name="Store 2", tags=(ps.Tag(9, "new"),))[1])
    scenario.box.put(changed(STORED, 3, name="Store 3")[2])
    scenario.run()
    if how == "renamed":
        scenario.rename("Rufname", "name")
        scenario.rename("Merkmale", "tags")
    else:
        scenario.save(rows)
    scenario.type(3, name="Sheet 3")
    scenario.type(4, name="Sheet 4")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 3)])
    stored = scenario.store_pets()
    assert [stored[n].name for n in (1, 2, 3, 4)] == ["Store 1", "Store 2", "Store 3", "Sheet 4"]
    assert [tag.name for tag in stored[2].tags] == ["new"]
    assert (scenario.cell(1, "name"), scenario.cell(2, "name")) == ("Store 1", "Store 2")
    scenario.type(3, name="Store 3")
    again = scenario.run()
    assert (again.round.status, again.open) == ("in-sync", ())
    assert scenario.sheet_pets() == stored


@each_choice
@pytest.mark.parametrize("broken", BREAKS[:3])
@pytest.mark.parametrize("cut", [("tags",), ("tags", "name")])
def test_a_column_that_was_away_after_a_killed_round_reverts_nothing(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, broken: Break, cut: tuple[str, ...]
) -> None:
    """A tag that the store removed stays removed if the round that should write it is killed and
    the column is restored with the old value.
    """
    scenario.type(1, tags="calm; loud")
    scenario.run()
    scenario.box.put(changed(list(scenario.store_pets().values()), 1, tags=(ps.Tag(1, "calm"),))[0])
    scenario.type(2, status="sold")
    with monkeypatch.context() as patch:
        broken(scenario, patch)
    gone = scenario.cut(*cut)
    scenario.run()
    scenario.paste(gone)
    for _ in range(2):
        report = scenario.run()
        assert report.round.status in ("done", "in-sync")
        assert [tag.name for tag in scenario.store_pets()[1].tags] == ["calm"]
        assert scenario.cell(1, "tags").endswith("calm")


def test_what_a_killed_round_wrote_is_known_in_a_backup(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup from before a killed round that wrote the sheet is recognised: its old values are
    not sent, and a new edit is.
    """
    before = scenario.sheet.read_bytes()
    scenario.box.put(changed(STORED, 1, name="Store 1")[0])
    write = sheets.write_synced

    def written_and_killed(*args: Any, **options: Any) -> None:
        write(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", written_and_killed)
        assert scenario.run().round.status == "interrupted"
    assert scenario.cell(1, "name") == "Store 1"
    scenario.box.put(changed(STORED, 2, name="Store 2")[1])
    assert scenario.run().round.status == "done"
    scenario.sheet.write_bytes(before)
    scenario.type(3, name="Sheet 3")
    assert scenario.run().round.status == "done"
    assert [scenario.store_pets()[n].name for n in (1, 2, 3)] == ["Store 1", "Store 2", "Sheet 3"]
    assert scenario.sheet_pets() == scenario.store_pets()


@pytest.mark.parametrize("was_written", [False, True])
def test_the_file_of_before_a_killed_round_is_a_backup(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, was_written: bool
) -> None:
    """The file from before a killed round is recognised as a backup, whether or not the round wrote
    the sheet: values sent since are not reverted.
    """
    before = scenario.sheet.read_bytes()
    scenario.box.put(changed(STORED, 1, name="Store 1")[0])
    with monkeypatch.context() as patch:
        (_killed_before_the_base if was_written else _killed_before_the_sheet)(scenario, patch)
    if not was_written:
        scenario.box.put(STORED[0])
    scenario.type(2, name="Rex")
    with monkeypatch.context() as patch:
        if was_written:
            _killed_before_the_base(scenario, patch)
        else:
            assert scenario.run().round.status == "done"
    assert scenario.store_pets()[2].name == "Rex"
    scenario.sheet.write_bytes(before)
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets()[2].name == scenario.store_pets()[2].name == "Rex"
    assert scenario.sheet_pets() == scenario.store_pets()


def test_the_number_of_a_category_that_was_away_reverts_nothing(scenario: CsvScenario) -> None:
    """The old category id that is restored with its column does not revert a name that a round
    wrote meanwhile.
    """
    numbers = scenario.cut("category_id")
    scenario.box.put(changed(STORED, 1, category=CATS)[0])
    scenario.run()
    assert scenario.cell(1, "category") == "Cats"
    scenario.paste(numbers)
    assert scenario.run().round.to_store.total == 0
    assert scenario.store_pets()[1].category == CATS
    assert scenario.cell(1, "category_id") == "2"


@each_choice
@pytest.mark.parametrize("broken", [None, "sheet", "base"])
@pytest.mark.parametrize("cells", [{"category": "Cats"}, {"category": "Fish"}])
def test_a_category_named_while_its_number_was_away_stays(
    scenario: CsvScenario,
    monkeypatch: pytest.MonkeyPatch,
    cells: dict[str, str],
    broken: str | None,
) -> None:
    """The old category id that is restored with its column does not revert a name that was typed
    meanwhile, also after a killed round.
    """
    numbers = scenario.cut("category_id")
    scenario.type(1, **cells)
    with monkeypatch.context() as patch:
        if broken == "sheet":
            _killed_before_the_base(scenario, patch)
        elif broken == "base":
            patch.setattr(Versions, "mark_agreed", Mock(side_effect=KeyboardInterrupt))
            assert scenario.run().round.status == "interrupted"
        else:
            assert scenario.run().round.status == "done"
    meant = scenario.store_pets()[1].category
    assert meant is not None
    assert meant.name == cells["category"]
    scenario.paste(numbers)
    for _ in range(2):
        assert scenario.run().round.status in ("done", "in-sync")
        assert scenario.store_pets()[1].category == meant
    assert scenario.cell(1, "category_id") == ("" if meant.id is None else str(meant.id))


def test_a_column_that_never_was_there_is_an_edit(scenario: CsvScenario) -> None:
    """The cells of a column that is added to a sheet are edits."""
    scenario.cut("status")
    shutil.rmtree(scenario.state)
    scenario.run()
    scenario.box.put(changed(STORED, 1, status="sold")[0])
    scenario.run()
    scenario.paste({"status": ["pending"] * 12})
    assert scenario.run().round.status == "done"
    assert {pet.status for pet in scenario.box.pets()} == {"pending"}


@pytest.mark.parametrize("mode", ["two-way", "push", "pull"])
@pytest.mark.parametrize("how", ["renamed", "cut", "emptied"])
def test_a_sheet_that_lost_its_ids_is_refused(scenario: CsvScenario, how: str, mode: str) -> None:
    """A sheet without its ids is refused with exit code 4, both sides stay unchanged, and the new
    header is named.
    """
    scenario.run(mode=mode)
    if how == "renamed":
        scenario.rename("id", "Nummer")
    else:
        ids = scenario.cut("id")["id"]
        if how == "emptied":
            scenario.paste({"id": [""] * len(ids)})
    header, first, *rest = scenario.rows()
    first[header.index("name")] = "Rex"
    scenario.save([header, first, *rest])
    before = scenario.sheet.read_bytes()
    for _ in range(2):
        report = scenario.run(mode=mode, delete_missing=True)
        assert (report.round.status, report.round.exit_code) == ("refused", 4)
    assert (scenario.sheet.read_bytes(), scenario.store_pets()) == (
        before,
        {p.id: p for p in STORED},
    )
    if how == "renamed":
        assert "'Nummer'" in report.round.problem
        assert 'write "Nummer" = "id" under [columns]' in report.round.hint
        assert scenario.run(mode=mode, columns={"Nummer": "id"}).round.status in ("done", "in-sync")


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_number_beside_the_category_of_a_row_that_was_added_by_hand_is_no_edit(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """The old category id in a row that a manual run added, and that has no id yet, is not an edit
    when a round sends another cell.
    """
    rows = scenario.rows()
    scenario.save([*rows, [{**NEW_ROW, "category_id": "1"}.get(name, "") for name in rows[0]]])
    _apply_by_hand(scenario)
    (number,) = scenario.store_pets().keys() - {pet.id for pet in STORED}
    _without_id(scenario, "Neu", photo_urls="https://shop.example/new.jpg")
    with monkeypatch.context() as patch:
        if is_killed:
            _killed_before_the_base(scenario, patch)
    for _ in range(2):
        assert scenario.run().round.exit_code == 0
    pet = scenario.store_pets()[number]
    assert (pet.category, len(pet.photo_urls)) == (CATS, 1)


@each_choice
@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize(
    ("sheet", "store", "result"),
    [
        ("", "pending", "pending"),
        ("available", "", "available"),
        ("available", "available", "available"),
        ("available", "pending", "conflict"),
    ],
)
def test_a_row_that_was_added_by_hand_is_compared_by_what_was_sent(
    scenario: CsvScenario, sheet: str, store: str, result: str, *, is_moved: bool
) -> None:
    """A row that a manual run added without writing its id is compared with what was sent: an edit
    of one side reaches the other, and edits of one cell on both sides are a lasting conflict.
    """
    header, *rows = scenario.rows()
    scenario.save([header, *rows, [NEW_ROW.get(name, "") for name in header]])
    _apply_by_hand(scenario)
    (number,) = scenario.store_pets().keys() - {pet.id for pet in STORED}
    if store:
        scenario.box.put(changed([scenario.store_pets()[number]], number, status=store)[0])
    status = {"status": sheet} if sheet else {}
    _without_id(scenario, "Neu", photo_urls="https://shop.example/new.jpg", **status)
    if is_moved:
        header, *rows = scenario.rows()
        scenario.save([header, rows[-1], *rows[:-1]])
    for _ in range(3):
        report = scenario.run()
        assert (("conflict", number) in kinds(report)) is (result == "conflict")
        assert scenario.store_pets()[number].status == (store if result == "conflict" else result)
        assert scenario.cell(number, "status") == (sheet if result == "conflict" else result)
        assert len(scenario.store_pets()[number].photo_urls) == 1


@each_choice
@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize(("blank", "text"), [("category", "Dogs"), ("category_id", "1")])
def test_what_is_typed_beside_a_cell_that_a_round_wrote_is_an_edit(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, blank: str, text: str, is_killed: bool
) -> None:
    """A value that is typed into the blank cell of a category after a round wrote the other cell is
    an edit: it is sent or a conflict.
    """
    scenario.type(1, **{blank: ""})
    assert scenario.run().round.exit_code == 0
    scenario.box.put(changed(STORED, 1, category=CATS)[0])
    with monkeypatch.context() as patch:
        if is_killed:
            _killed_before_the_base(scenario, patch)
        else:
            assert scenario.run().round.exit_code == 0
    assert scenario.cell(1, blank) == ""
    scenario.type(1, **{blank: text})
    report = scenario.run()
    assert scenario.cell(1, blank) == text
    assert scenario.store_pets()[1].category == DOGS or ("conflict", 1) in kinds(report)


@pytest.mark.parametrize("edited", [True, False])
@pytest.mark.parametrize("column", ["tags", "status", "category"])
def test_a_row_stays_while_an_edit_of_it_may_be_under_another_header(
    scenario: CsvScenario, column: str, edited: bool
) -> None:
    """The row of a deleted pet is in conflict while an edit may be under an unknown header; then
    the row is removed if it is unedited.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    if edited:
        scenario.type(1, **{column: {"tags": "loud", "status": "sold", "category": "Cats"}[column]})
    scenario.rename(column, "Zettel")
    scenario.box.remove(1)
    report = scenario.run()
    assert (report.round.status, 1 in scenario.sheet_pets()) == ("findings", True)
    assert ("conflict", 1) in kinds(report)
    scenario.rename("Zettel", column)
    report = scenario.run()
    assert (report.round.exit_code, 1 in scenario.sheet_pets()) == (
        (5, True) if edited else (0, False)
    )
    assert 1 not in scenario.store_pets()


def test_an_open_sheet_ends_the_round_before_anything_is_sent(scenario: CsvScenario) -> None:
    """A sheet that is open in another program ends the round before anything is sent, even if only
    the store would change.
    """
    scenario.type(1, name="Rex")
    lock = scenario.sheet.with_name(f".~lock.{scenario.sheet.name}#")
    lock.write_text(",ada,", "utf-8")
    report = scenario.run()
    assert (report.round.status, report.round.applied, report.round.runs) == ("error", 0, ())
    assert scenario.store_pets()[1].name == "Pet 1"
    lock.unlink()
    assert scenario.run().round.status == "done"


@each_choice
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("edited", [False, True])
def test_a_deleted_pet_does_not_come_back_as_its_row_moves(
    scenario: CsvScenario, deletes: bool, edited: bool
) -> None:
    """A deleted pet is not added again when its row moves to another sheet of the folder; an edited
    row is a conflict.
    """
    folder = scenario.folder / "in"
    folder.mkdir()

    def write(name: str, pets: list[ps.Pet]) -> None:
        ps.write_sheet(ps.frame_from_pets(pets), folder / name, base=False)

    def rounds() -> list[str]:
        job = scenario.job(
            "inbox", folder=folder, sheet=None, files="*.csv", delete_missing=deletes
        )
        return [report.round.status for report in reconcile_jobs(scenario.config(job))]

    write("a.csv", STORED[:6])
    write("b.csv", STORED[6:])
    assert rounds() == ["in-sync", "in-sync"]
    scenario.box.remove(5)
    scenario.box.remove(8)
    moved = changed(STORED, 5, name="Rex") if edited else STORED
    write("a.csv", [*STORED[:4], STORED[5], STORED[7]])
    write("b.csv", [STORED[6], *STORED[8:], moved[4]])
    for _ in range(2):
        assert ("conflicts" in rounds()) is edited
        assert {5, 8}.isdisjoint(scenario.store_pets())


@pytest.mark.parametrize(
    "newer",
    [
        {"name": "Store 1"},
        {"category": None},
        {"tags": ()},
        {"tags": (ps.Tag(1, "calm"), ps.Tag(2, "shy"))},
        {"photo_urls": ("https://shop.example/new.jpg",)},
        {"tags": (ps.Tag(2, "shy"),), "photo_urls": ()},
    ],
)
def test_one_pet_as_in_a_backup_is_a_conflict(scenario: CsvScenario, newer: dict[str, Any]) -> None:
    """A single pet with the values of a backup is a conflict: the store's newer values stay until
    it is decided, and nothing is merged.
    """
    scenario.box.put(changed(STORED, 1, **newer)[0])
    first = scenario.run()
    cells = {name: scenario.cell(1, name) for name in (*newer, "category_id")}
    shutil.copy(first.round.backup, scenario.sheet)
    scenario.type(2, name="Sheet 2")
    before = {name: scenario.cell(1, name) for name in cells}
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
        assert report.open[0].problem.count("it is unknown which is newer") == len(newer)
        assert scenario.store_pets()[1] == changed(STORED, 1, **newer)[0]
        assert scenario.store_pets()[2].name == "Sheet 2"
        assert {name: scenario.cell(1, name) for name in cells} == before
        scenario.box.put(changed(STORED, 3, name="Store 3")[2])
    assert scenario.sheet_pets()[3].name == "Store 3"
    scenario.type(1, **cells)
    again = scenario.run()
    assert (again.round.status, again.open) == ("in-sync", ())


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_row_in_conflict_that_is_removed_deletes_nothing(
    scenario: CsvScenario, is_settled: bool
) -> None:
    """A removed row whose pet was in conflict deletes nothing; after the conflict is resolved, the
    removed row deletes its pet.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    newer = changed(STORED, 1, name="Store 1")[0]
    scenario.box.put(newer)
    first = scenario.run()
    shutil.copy(first.round.backup, scenario.sheet)
    scenario.type(2, name="Sheet 2")
    assert kinds(scenario.run()) == [("conflict", 1)]
    if is_settled:
        scenario.type(1, name="Store 1")
        assert scenario.run().round.status == "in-sync"
    rows = scenario.rows()
    scenario.save([row for row in rows if row[0] != "1"])
    for _ in range(2):
        report = scenario.run()
        if is_settled:
            assert (report.open, 1 in scenario.store_pets()) == ((), False)
        else:
            assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
            assert "the store's name may be newer than the row's" in report.open[0].problem
            assert scenario.store_pets()[1] == newer
    if not is_settled:
        scenario.save(rows)
        scenario.type(1, name="Store 1")
        assert scenario.run().round.status == "in-sync"


def test_a_number_that_a_killed_round_wrote_is_edited(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit of a category id that a killed round wrote is not reverted."""
    scenario.box.put(changed(STORED, 1, category=CATS)[0])
    write = sheets.write_synced

    def write_and_die(*args: Any, **options: Any) -> None:
        write(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", write_and_die)
        assert scenario.run().round.status == "interrupted"
    assert scenario.cell(1, "category_id") == "2"
    scenario.type(1, category_id="411")
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
        assert scenario.cell(1, "category_id") == "411"
        assert scenario.store_pets()[1].category == CATS


def test_a_pet_whose_row_may_be_held_becomes_no_second_row(scenario: CsvScenario) -> None:
    """A row of a backup that may be a pet's row is held after edits, and the pet gets no second
    row.
    """
    header, *rows = scenario.rows()
    cells = {"name": "Ida", "status": "sold", "category": "Dogs", "tags": "calm; shy"}
    scenario.save([header, *rows, [cells.get(name, "") for name in header]])
    before = scenario.run().round.backup
    added = max(scenario.store_pets())
    scenario.type(2, name="Rex")
    assert scenario.run().round.status == "done"
    shutil.copy(before, scenario.sheet)
    header, *rows = scenario.rows()
    edited = {"name": "Zoe", "category": "Cats", "tags": "small"}
    row = [edited.get(name, "") for name in header]
    scenario.save([header, *reversed(rows[:-1]), row])
    for _ in range(2):
        report = scenario.run()
        assert report.round.status == "conflicts"
        assert added in {each.pet_id for each in report.open}
        assert str(added) not in {row[0] for row in scenario.rows()}
        assert len(scenario.store_pets()) == len(PETS) + 1


@pytest.mark.parametrize(
    ("others", "is_away", "meanwhile"),
    pairwise([0, 1], [False, True], ["sends", "sends nothing", "renames the row"]),
)
def test_a_row_in_doubt_is_no_new_one_once_the_pet_is_deleted(
    scenario: CsvScenario, others: int, is_away: bool, meanwhile: str
) -> None:
    """A row in conflict because it may be a pet is not added once that pet is deleted, until it has
    the action `add-another`. That holds even if the round that held it sent nothing, or if the row
    was renamed since.
    """
    header, *rows = scenario.rows()
    photo = "https://shop.example/ida.jpg"
    cells = {"name": "Ida", "status": "available", "category": "Dogs", "photo_urls": photo}
    more = [{"name": f"Other {n}", "status": "sold", "category": "Cats"} for n in range(others)]
    typed = [[each.get(name, "") for name in header] for each in (cells, *more)]
    scenario.save([header, *rows[:4], *typed, *rows[4:]])
    before = scenario.run().round.backup
    added = sorted(scenario.store_pets())[-1 - others]
    shutil.copy(before, scenario.sheet)
    header, *rows = scenario.rows()
    at = header.index("name")
    rows = [[*row[:at], "Zoe", *row[at + 1 :]] if row[at] == "Ida" else row for row in rows]
    scenario.save([header, *(sorted(rows, key=lambda row: row[at], reverse=True))])
    if meanwhile != "sends nothing":
        scenario.type(2, name="Rex")
    report = scenario.run()
    assert report.round.status == "conflicts"
    assert ("conflict", added) in kinds(report)
    scenario.box.remove(added)
    if is_away:
        scenario.cut("photo_urls")
    name = "Zoe"
    if meanwhile == "renames the row":
        name = "Emil"
        header, *rows = scenario.rows()
        next(row for row in rows if "Zoe" in row)[header.index("name")] = name
        scenario.save([header, *rows])
    for _ in range(2):
        report = scenario.run()
        gone = [each for each in report.open if each.pet_id == added and each.kind == "conflict"]
        assert report.round.status == "conflicts"
        assert "that pet is no longer in the store" in gone[0].problem
        assert len(scenario.store_pets()) == len(PETS) + others
    header, *rows = scenario.rows()
    at, action = header.index("name"), header.index("action")
    next(row for row in rows if row[at] == name)[action] = "add-another"
    scenario.save([header, *rows])
    assert scenario.run().round.status == "done"
    assert [pet.name for pet in scenario.store_pets().values()].count(name) == 1
    assert scenario.run().round.status == "in-sync"


@each_choice
@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize(
    ("column", "newer"),
    [
        ("status", {"status": "sold"}),
        ("tags", {"tags": ()}),
        ("photo_urls", {"photo_urls": ("https://shop.example/new.jpg",)}),
        ("category", {"category": CATS}),
        ("category_id", {"category": ps.Category(9, "Dogs")}),
    ],
)
def test_a_pet_that_changed_in_a_column_that_is_away_is_not_deleted(
    scenario: CsvScenario, column: str, newer: dict[str, Any], is_back: bool
) -> None:
    """A removed row deletes nothing if its pet changed in a column that is away, because the sheet
    did not show the change.
    """
    stored = changed(STORED, 1, **newer)[0]
    cut = scenario.cut(column)
    scenario.box.put(stored)
    scenario.run(delete_missing=True)
    header, first, *rows = scenario.rows()
    assert first[0] == "1"
    scenario.save([header, *rows])
    if is_back:
        scenario.paste({column: cut[column][1:]})
    for _ in range(3):
        report = scenario.run(delete_missing=True)
        assert (report.round.status, kinds(report)[0]) == ("conflicts", ("conflict", 1))
        assert column in report.open[0].problem
        assert scenario.store_pets()[1] == stored


@pytest.mark.parametrize("column", ["tags", "photo_urls", "name", "category"])
def test_a_doubt_stays_while_its_column_is_away(scenario: CsvScenario, column: str) -> None:
    """A conflict about a value of a backup stays when its column is removed and restored."""
    newer = {
        "name": "Store 1",
        "category": CATS,
        "tags": (ps.Tag(2, "shy"),),
        "photo_urls": ("https://shop.example/new.jpg",),
    }
    stored = changed(STORED, 1, **{column: newer[column]})[0]
    scenario.box.put(stored)
    first = scenario.run()
    shutil.copy(first.round.backup, scenario.sheet)
    scenario.type(2, status="pending")
    assert kinds(scenario.run()) == [("conflict", 1)]
    cut = scenario.cut(column)
    for status in ("pending", "sold"):
        scenario.box.put(changed(STORED, 3, status=status)[2])
        assert scenario.run().round.to_sheet.total == 1
    scenario.paste(cut)
    for _ in range(2):
        assert kinds(scenario.run()) == [("conflict", 1)]
        assert scenario.store_pets()[1] == stored


@pytest.mark.parametrize("winner", ["sheet", "store"])
def test_a_job_may_say_who_wins_in_a_backup(scenario: CsvScenario, winner: str) -> None:
    """`on_conflict` decides conflicts with a backup, also those of tags and photos, which are
    otherwise merged.
    """
    scenario.box.put(changed(STORED, 1, tags=(ps.Tag(2, "shy"),), photo_urls=())[0])
    first = scenario.run()
    shutil.copy(first.round.backup, scenario.sheet)
    scenario.type(2, name="Sheet 2")
    assert scenario.run(on_conflict=winner).round.status == "done"
    names = {tag.name for tag in scenario.store_pets()[1].tags}
    assert (names, len(scenario.store_pets()[1].photo_urls)) == (
        ({"calm"}, 1) if winner == "sheet" else ({"shy"}, 0)
    )
    again = scenario.run()
    assert (again.round.status, again.open) == ("in-sync", ())


def test_an_older_row_of_a_pet_that_was_added_since_is_a_conflict(scenario: CsvScenario) -> None:
    """A row of a backup from before its pet was added is a conflict in each different field: the
    value may be older or edited, so it is neither sent nor replaced.
    """
    row = ["", "Neu", "", "Cats", "2", "shy", ""]
    header = scenario.rows()[0]
    names = ("id", "name", "status", "category", "category_id", "tags", "photo_urls")
    cells = dict(zip(names, row, strict=True))
    scenario.save([*scenario.rows(), [cells.get(name, "") for name in header]])
    for pet_id in (5, 6):
        scenario.box.put(changed(STORED, pet_id, name=f"Store {pet_id}")[pet_id - 1])
    first = scenario.run()
    assert ("conflict", None) in kinds(first)
    _without_id(scenario, "Neu", status="sold", tags="shy; young")
    assert scenario.run().round.status == "done"
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    shutil.copy(first.round.backup, scenario.sheet)
    _without_id(scenario, "Neu", status="pending")
    for _ in range(2):
        report = scenario.run()
        conflicts = [each for each in report.open if each.kind == "conflict"]
        assert (report.round.status, len(conflicts)) == ("conflicts", 1)
        assert conflicts[0].pet_id == added.id
        assert set(conflicts[0].fields) == {"status", "tags"}
        assert scenario.store_pets()[added.id or 0] == added
        assert scenario.cell(added.id or 0, "tags") == "shy"
        assert scenario.store_pets()[5].name == scenario.sheet_pets()[5].name == "Store 5"
    scenario.type(added.id or 0, status="sold", tags="shy; young")
    assert scenario.run().round.status in ("in-sync", "done")
    assert scenario.store_pets()[added.id or 0] == added


def test_one_row_as_in_a_backup_is_a_conflict(scenario: CsvScenario) -> None:
    """The pet of a single row that petsync wrote, and that is missing as in a backup, stays in
    conflict until it is decided.
    """
    options = {"delete_missing": True}
    scenario.box.put(ps.Pet(id=50, name="Neu", status="sold"))
    first = scenario.run(**options)
    shutil.copy(first.round.backup, scenario.sheet)
    scenario.type(2, name="Sheet 2")
    report = scenario.run(**options)
    assert report.round.status == "conflicts"
    assert ("conflict", 50) in kinds(report)
    assert (50 in scenario.sheet_pets(), 50 in scenario.store_pets()) == (False, True)
    assert scenario.store_pets()[2].name == "Sheet 2"
    cells = dict(zip(scenario.rows()[0], ["50", "Neu", "sold"], strict=False))
    scenario.save([*scenario.rows(), [cells.get(column, "") for column in scenario.rows()[0]]])
    assert scenario.run(**options).round.status in ("done", "in-sync")
    assert scenario.sheet_pets().keys() == scenario.store_pets().keys()


def test_a_row_that_petsync_took_out_does_not_bring_its_pet_back(scenario: CsvScenario) -> None:
    """A row that petsync removed, and that an edited backup restores, is a conflict and adds its
    pet only with the action `add`.
    """
    options = {"delete_missing": True}
    scenario.box.remove(7)
    first = scenario.run(**options)
    shutil.copy(first.round.backup, scenario.sheet)
    scenario.type(2, name="Sheet 2")
    for _ in range(2):
        report = scenario.run(**options)
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 7)])
        assert 7 not in scenario.store_pets()
    scenario.type(7, action="add")
    assert scenario.run(**options).round.status == "done"
    assert 7 in scenario.store_pets()


def test_a_category_edited_by_its_number_waits_for_its_turn(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit of a category id is sent by the next round if a round fails after it recorded the
    sheet and before it sends.
    """
    scenario.type(1, category_id="2")
    with monkeypatch.context() as patch:
        patch.setattr(ps.Store, "apply", Mock(side_effect=SheetError("not now")))
        assert scenario.run().round.status == "error"
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[1].category == CATS


def test_an_unknown_category_number_stays_in_conflict(scenario: CsvScenario) -> None:
    """An unknown category id stays in conflict while the round writes other cells and saves its
    base.
    """
    scenario.type(1, category_id="77")
    scenario.box.put(changed(STORED, 2, name="Store 2")[1])
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
        assert scenario.cell(1, "category_id") == "77"


NEW_ROW = {"name": "Neu", "status": "sold", "category": "Cats", "category_id": "2"}


def _without_id(scenario: CsvScenario, known: str, **cells: str) -> None:
    """Change cells of the row with this name, which has no id, and save the sheet."""
    rows = scenario.rows()
    row = next(row for row in rows if row[rows[0].index("name")] == known)
    assert not row[rows[0].index("id")]
    for column, text in cells.items():
        row[rows[0].index(column)] = text
    scenario.save(rows)


@each_choice
@pytest.mark.parametrize("mode", ["two-way", "push"])
@pytest.mark.parametrize(
    "broken", [_killed_before_the_sheet, _opened_in_mid_round, _backup_put_back]
)
def test_a_new_row_edited_behind_a_round_is_the_same_pet(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, broken: Break, mode: str
) -> None:
    """A new row whose id did not reach the sheet, or is gone from it, is still its pet's row, and
    its edit is sent.
    """
    scenario.options = {"mode": mode}
    scenario.run()
    rows = scenario.rows()
    scenario.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    with monkeypatch.context() as patch:
        if mode == "push" and broken is _opened_in_mid_round:
            patch.setattr(sheets, "write_synced", Mock(side_effect=SheetError("it is open")))
            assert scenario.run().round.status == "done"
        else:
            broken(scenario, patch)
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    _without_id(scenario, "Neu", name="Neuer", status="pending")
    report = scenario.run()
    assert report.round.status == "done"
    assert len(scenario.store_pets()) == len(STORED) + 1
    pet = scenario.store_pets()[added.id or 0]
    assert (pet.name, pet.status) == ("Neuer", "pending")
    assert scenario.cell(added.id or 0, "name") == "Neuer"
    assert scenario.run().round.status == "in-sync"


@each_choice
@pytest.mark.parametrize("mode", ["two-way", "push"])
@pytest.mark.parametrize("broken", [_killed_before_the_sheet, _backup_put_back])
def test_a_new_row_that_may_be_a_known_pet_is_a_conflict(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, broken: Break, mode: str
) -> None:
    """A new row that lost its id and is edited beyond recognition is a conflict in every round
    until it gets an id, and adds no second pet.
    """
    scenario.options = {"mode": mode, "delete_missing": True}
    scenario.run()
    rows = scenario.rows()
    scenario.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    with monkeypatch.context() as patch:
        broken(scenario, patch)
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    _without_id(scenario, "Neu", name="Ganz anders", status="pending", category="", category_id="")
    header, *rest = scenario.rows()
    scenario.save([header, *reversed(rest)])
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)[:1]) == ("conflicts", [("conflict", added.id)])
        assert len(scenario.store_pets()) == len(STORED) + 1
    _without_id(scenario, "Ganz anders", id=str(added.id))
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[added.id or 0].name == "Ganz anders"
    assert len(scenario.store_pets()) == len(STORED) + 1
    assert scenario.run().round.status == "in-sync"


@each_choice
@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("broken", [_killed_before_the_sheet, _backup_put_back])
def test_a_row_that_got_the_id_of_a_known_pet_and_lacks_it_is_held(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, broken: Break, is_moved: bool
) -> None:
    """A row that a round recognised as a pet, but that lacks the id, is held after it is rewritten,
    and adds no second pet.
    """
    scenario.type(12, id="")
    with monkeypatch.context() as patch:
        broken(scenario, patch)
    cells = dict.fromkeys(("category", "category_id", "tags", "photo_urls"), "")
    _without_id(scenario, "Pet 12", name="Ganz anders", status="available", **cells)
    if is_moved:
        header, *rest = scenario.rows()
        scenario.save([header, *reversed(rest)])
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)[:1]) == ("conflicts", [("conflict", 12)])
        assert scenario.store_pets() == {pet.id: pet for pet in STORED}
    _without_id(scenario, "Ganz anders", id="12")
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[12].name == "Ganz anders"
    assert len(scenario.store_pets()) == len(STORED)


def test_a_backup_whose_new_row_lacks_its_id_is_known(scenario: CsvScenario) -> None:
    """A backup from before two writes, with a new row without its id, is recognised after an edit:
    no sent value is reverted.
    """
    rows = scenario.rows()
    new = {**NEW_ROW, "category_id": "1"}
    scenario.save([*rows, [new.get(name, "") for name in rows[0]]])
    scenario.box.put(changed(STORED, 3, name="Store 3")[2])
    first = scenario.run()
    scenario.type(1, name="Sheet 1")
    scenario.box.put(changed(STORED, 4, name="Store 4")[3])
    assert scenario.run().round.status == "done"
    shutil.copy(first.round.backup, scenario.sheet)
    scenario.type(2, name="Sheet 2")
    report = scenario.run()
    assert any("a backup may have been restored" in each.problem for each in report.open)
    names = [scenario.store_pets()[number].name for number in (1, 2, 3, 4)]
    assert names == ["Sheet 1", "Sheet 2", "Store 3", "Store 4"]
    assert len(scenario.store_pets()) == len(STORED) + 1
    assert scenario.sheet_pets() == scenario.store_pets()


@pytest.mark.parametrize("edited", [False, True])
def test_a_newer_backup_put_back_after_an_older_one_is_known(
    scenario: CsvScenario, edited: bool
) -> None:
    """A newer backup that is put back after an older one is recognised: no sent value is reverted,
    and no added pet is deleted.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    scenario.box.put(changed(STORED, 3, name="Store 3")[2])
    older = scenario.run().round.backup
    scenario.type(5, name="Sheet 5")
    scenario.box.put(changed(STORED, 4, name="Store 4")[3])
    newer = scenario.run().round.backup
    shutil.copy(older, scenario.sheet)
    scenario.run()
    scenario.type(1, name="Sheet 1")
    scenario.type(2, name="Sheet 2")
    rows = scenario.rows()
    scenario.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    assert scenario.run().round.status == "done"
    shutil.copy(newer, scenario.sheet)
    if edited:
        scenario.type(6, name="Sheet 6")
    report = scenario.run()
    assert any("a backup may have been restored" in each.problem for each in report.open)
    names = [scenario.store_pets()[number].name for number in range(1, 7)]
    sixth = "Sheet 6" if edited else "Pet 6"
    assert names == ["Sheet 1", "Sheet 2", "Store 3", "Store 4", "Sheet 5", sixth]
    assert len(scenario.store_pets()) == len(STORED) + 1
    assert scenario.sheet_pets() == scenario.store_pets()
    again = scenario.run()
    assert (again.round.status, again.open) == ("in-sync", ())


def test_a_new_row_in_the_place_of_another_is_not_that_pet(scenario: CsvScenario) -> None:
    """A new row in the place of a removed row that had an id is a conflict until it is decided, and
    no pet takes the values of another.
    """
    rows = scenario.rows()
    more = {"tags": "old; shy", "photo_urls": "https://shop.example/new.jpg"}
    scenario.save([*rows, [{**NEW_ROW, **more}.get(name, "") for name in rows[0]]])
    assert scenario.run().round.status == "done"
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    other = {
        **NEW_ROW,
        "name": "Minka",
        "tags": "young",
        "photo_urls": "https://shop.example/m.jpg",
    }
    scenario.save([*rows, [other.get(name, "") for name in rows[0]]])
    report = scenario.run()
    assert scenario.store_pets()[added.id or 0] == added
    assert report.round.status == "conflicts"
    _without_id(scenario, "Minka", action="add-another")
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[added.id or 0] == added
    assert [pet.name for pet in scenario.box.pets()].count("Minka") == 1


@pytest.mark.parametrize("at", ["in its place", "elsewhere"])
def test_a_new_row_after_one_that_had_its_id_is_new(scenario: CsvScenario, at: str) -> None:
    """A sheet with values that a round wrote later is not a backup, so a row that is typed after a
    row with an id was removed is new.
    """
    rows = scenario.rows()
    scenario.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    assert scenario.run().round.status == "done"
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    scenario.box.put(changed(STORED, 3, name="Store 3")[2])
    assert scenario.run().round.status == "done"
    header, *rest = (row for row in scenario.rows() if row[1] != "Neu")
    minka = [{**NEW_ROW, "name": "Minka"}.get(name, "") for name in header]
    scenario.save([header, *rest, minka] if at == "in its place" else [header, minka, *rest])
    report = scenario.run()
    assert (report.round.status, {kind for kind, _ in kinds(report)}) == ("done", {"note"})
    assert scenario.store_pets()[added.id or 0] == added
    assert [pet.name for pet in scenario.box.pets()].count("Minka") == 1
    assert scenario.run().round.status == "in-sync"


@each_choice
@pytest.mark.parametrize("since", ["nothing", "an edit", "a photo"])
@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_a_row_with_another_name_takes_no_pet_whose_row_had_its_id(
    scenario: CsvScenario, mode: str, since: str
) -> None:
    """A row with another name in the place of a removed row is a new pet, or a conflict where the
    sheet may be a backup, and never changes the removed row's pet.
    """
    rows = scenario.rows()
    scenario.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    assert scenario.run(mode=mode).round.status == "done"
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    if since == "a photo":
        added = changed([added], added.id or 0, photo_urls=("https://shop.example/neu.jpg",))[0]
        scenario.box.put(added)
    header, *rest = scenario.rows()
    if since == "an edit":
        at = header.index("name")
        rest = [[*row[:at], "Edited", *row[at + 1 :]] if row[0] == "3" else row for row in rest]
        scenario.save([header, *rest])
    scenario.run(mode=mode)
    header, *rest = (row for row in scenario.rows() if row[1] != "Neu")
    scenario.save([header, *rest, [{**NEW_ROW, "name": "Minka"}.get(n, "") for n in header]])
    report = scenario.run(mode=mode)
    assert scenario.store_pets()[added.id or 0] == added
    is_new = [pet.name for pet in scenario.box.pets()].count("Minka") == 1
    assert is_new == (report.round.status == "done") or mode == "push"
    assert is_new or report.round.status == "conflicts"
    if since == "an edit":
        assert is_new


def test_a_row_of_a_backup_stays_held_whatever_is_written_beside_it(scenario: CsvScenario) -> None:
    """A held row of a backup stays in conflict while later rounds write to the sheet, and adds no
    second pet.
    """
    rows = scenario.rows()
    scenario.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    _backup_put_back(scenario, pytest.MonkeyPatch())
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    _without_id(scenario, "Neu", name="Ganz anders", status="pending", category="", category_id="")
    header, *rest = scenario.rows()
    scenario.save([header, *reversed(rest)])
    for number in (3, 4, 5):
        scenario.box.put(changed(STORED, number, name=f"Store {number}")[number - 1])
        report = scenario.run()
        assert ("conflict", added.id) in kinds(report)
        assert scenario.sheet_pets()[number].name == f"Store {number}"
        assert len(scenario.store_pets()) == len(STORED) + 1


@pytest.mark.parametrize("names", [("tags",), ("photo_urls",), ("category", "category_id")])
def test_a_column_that_comes_back_blank_is_filled(
    scenario: CsvScenario, names: tuple[str, ...]
) -> None:
    """A blank cell of a column that is restored takes the store's present value."""
    scenario.type(1, **{names[0]: "[clear]"})
    scenario.run()
    scenario.type(1, **dict.fromkeys(names, ""))
    scenario.run()
    columns = scenario.cut(*names)
    assert {cells[0] for cells in columns.values()} == {""}
    new = {"tags": (ps.Tag(9, "new"),), "photo_urls": ("/new.jpg",), "category": CATS}
    stored = changed(list(scenario.store_pets().values()), 1, **{names[0]: new[names[0]]})[0]
    scenario.box.put(stored)
    scenario.run()
    scenario.paste(columns)
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets()[1] == scenario.store_pets()[1] == stored
    assert scenario.run().round.status == "in-sync"


@each_choice
@pytest.mark.parametrize("mode", ["two-way", "push"])
@pytest.mark.parametrize("names", [["New 1", "New 2"], ["New 1", "New 2", "New 3"]])
def test_an_edited_older_copy_deletes_no_pets_that_were_added_since(
    scenario: CsvScenario, mode: str, names: list[str]
) -> None:
    """Rows that got their ids since and are all missing show that the sheet may be an older copy:
    their pets stay, in conflict, although the copy was edited.
    """
    scenario.options = {"mode": mode, "delete_missing": True}
    scenario.run()
    rows = scenario.rows()
    width = len(rows[0])
    scenario.save([*rows, *(["", name, "sold", *[""] * (width - 3)] for name in names)])
    assert scenario.run().round.exit_code == 0
    added = scenario.store_pets().keys() - {pet.id for pet in STORED}
    assert len(added) == len(names)
    scenario.save(rows)
    scenario.type(1, name="Sheet 1")
    report = scenario.run()
    assert scenario.store_pets().keys() >= added
    conflicts = {each.pet_id: each.problem for each in report.open if each.kind == "conflict"}
    assert conflicts.keys() == added
    assert all("the sheet is an older copy" in problem for problem in conflicts.values())
    assert scenario.store_pets()[1].name == "Sheet 1"
    scenario.type(2, name="Sheet 2")
    assert {i for kind, i in kinds(scenario.run()) if kind == "conflict"} == added
    assert scenario.store_pets().keys() >= added


def test_one_added_row_that_is_removed_deletes_its_pet(scenario: CsvScenario) -> None:
    """One pet alone is an edit: its row, which was removed after it got its id, deletes it."""
    scenario.options = {"mode": "two-way", "delete_missing": True}
    rows = scenario.rows()
    scenario.save([*rows, ["", "New 1", "sold", *[""] * (len(rows[0]) - 3)]])
    scenario.run()
    scenario.save(rows)
    scenario.type(1, name="Sheet 1")
    assert scenario.run().round.exit_code == 0
    assert scenario.store_pets().keys() == {pet.id for pet in STORED}


@each_choice
@pytest.mark.parametrize("broken", BREAKS[:3])
@pytest.mark.parametrize("is_again", [True, False])
def test_a_row_that_lacks_its_id_in_a_copy_reverts_nothing(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, broken: Break, is_again: bool
) -> None:
    """A copy from before a row got its id is put back a second time, and the round is interrupted:
    the row is compared by its own values, not by those that it got after the first time.
    """
    rows = scenario.rows()
    scenario.save([*rows, ["", "Neu", "available", "", "", "shy", *[""] * (len(rows[0]) - 6)]])
    copy = scenario.sheet.read_bytes()
    assert scenario.run().round.exit_code == 0
    (pet_id,) = scenario.store_pets().keys() - {pet.id for pet in STORED}
    if is_again:
        scenario.sheet.write_bytes(copy)
        scenario.box.put(changed([*scenario.store_pets().values()], 1, name="Store 1")[0])
        scenario.run()
    scenario.sheet.write_bytes(copy)
    edited = scenario.rows()
    edited[-1][2], edited[-1][5] = "pending", "shy; young"
    scenario.save(edited)
    assert scenario.run().round.exit_code == 0
    news = changed([*scenario.store_pets().values()], 2, status="sold", name="Store 2")[1]
    scenario.box.put(news)
    assert scenario.run().round.exit_code == 0
    stored = scenario.store_pets()
    assert (stored[pet_id].status, len(stored[pet_id].tags)) == ("pending", 2)
    scenario.sheet.write_bytes(copy)
    scenario.type(3, name="Sheet 3")
    with monkeypatch.context() as patch:
        broken(scenario, patch)
    scenario.run()
    assert scenario.store_pets()[pet_id] == stored[pet_id]
    assert scenario.store_pets()[2] == news


NEW = ps.Pet(
    id=99,
    name="Nora",
    status="sold",
    category=CATS,
    tags=(ps.Tag(1, "calm"), ps.Tag(2, "shy")),
    photo_urls=("https://shop.example/nora.jpg",),
)
AWAY = (
    ("tags",),
    ("photo_urls",),
    ("status",),
    ("category",),
    ("category_id",),
    ("category", "category_id"),
    ("tags", "status"),
)


@each_choice
@pytest.mark.parametrize("by", ["round", "person"])
@pytest.mark.parametrize("names", AWAY)
def test_a_row_that_came_while_a_column_was_away_is_filled(
    scenario: CsvScenario, names: tuple[str, ...], by: str
) -> None:
    """The blank cells of a row that came while a column had another header take the store's values
    once the column is back, whoever added the row.
    """
    scenario.box.put(NEW)
    for name in names:
        scenario.rename(name, f"{name} 2")
    if by == "person":
        scenario.save([*scenario.rows(), ["99", "Nora", *[""] * (len(scenario.rows()[0]) - 2)]])
    assert scenario.run().round.status == "findings"
    assert NEW.id in scenario.sheet_pets()
    for name in names:
        scenario.rename(f"{name} 2", name)
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets()[99] == scenario.store_pets()[99] == NEW
    assert scenario.run().round.status == "in-sync"


def test_an_edit_of_a_row_that_came_while_its_column_was_away_removes_no_tag(
    scenario: CsvScenario,
) -> None:
    """A tag that is typed into the blank cell of such a row joins the store's tags."""
    scenario.box.put(NEW)
    scenario.rename("tags", "labels")
    scenario.run()
    scenario.rename("labels", "tags")
    scenario.type(99, tags="old")
    assert scenario.run().round.status == "done"
    assert {tag.name for tag in scenario.store_pets()[99].tags} == {"calm", "shy", "old"}
    assert scenario.sheet_pets()[99] == scenario.store_pets()[99]


@pytest.mark.parametrize(
    ("column", "new", "typed", "merged"),
    [
        ("tags", (ps.Tag(1, "calm"), ps.Tag(9, "new")), "old", {"new", "old"}),
        ("photo_urls", ("/1.jpg", "/new.jpg"), "/old.jpg", {"/1.jpg", "/new.jpg", "/old.jpg"}),
        ("status", "sold", "available", None),
        ("category", CATS, "Birds", None),
    ],
)
def test_a_value_that_a_blank_cell_never_had_is_not_overwritten(
    scenario: CsvScenario, column: str, new: Any, typed: str, merged: set[str] | None
) -> None:
    """A cell that a person blanked stays blank. What the store changed since is kept, or in
    conflict, when a person writes into the cell.
    """
    cells = ("category", "category_id") if column == "category" else (column,)
    scenario.type(1, **dict.fromkeys(cells, ""))
    scenario.run()
    stored = changed(STORED, 1, **{column: new})[0]
    scenario.box.put(stored)
    for _ in range(2):
        assert scenario.run().round.status == "in-sync"
        assert scenario.cell(1, column) == ""
    scenario.type(1, **{column: typed})
    untouched = {"calm"} if column == "photo_urls" else {*STORED[0].photo_urls}
    report = scenario.run()
    pet = scenario.store_pets()[1]
    if merged is None:
        assert (kinds(report), pet) == ([("conflict", 1)], stored)
    else:
        assert merged == {*pet.photo_urls, *(tag.name for tag in pet.tags)} - untouched
        assert scenario.sheet_pets()[1] == pet


def test_a_blank_cell_whose_pet_changes_in_mid_round_is_filled(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank cells of a pet that the store changes right after the round wrote the sheet are filled
    by the next round.
    """
    fields = {"tags": (), "photo_urls": (), "category": None}
    scenario.box.put(changed(STORED, 1, **fields)[0])
    scenario.type(1, tags="", photo_urls="", category="", category_id="")
    scenario.type(1, **dict.fromkeys(("tags", "photo_urls", "category"), "[clear]"))
    scenario.run()
    scenario.type(1, **dict.fromkeys(("tags", "photo_urls", "category", "category_id"), ""))
    assert scenario.run().round.status == "in-sync"
    write = sheets.write_synced
    full = {"tags": (ps.Tag(9, "new"),), "photo_urls": ("/new.jpg",), "category": CATS}

    def written(*args: Any, **options: Any) -> Any:
        done = write(*args, **options)
        scenario.box.put(changed(STORED, 1, **full)[0])
        return done

    scenario.box.put(changed(STORED, 3, name="Store 3")[2])
    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", written)
        scenario.run()
    assert (scenario.cell(3, "name"), scenario.cell(1, "tags")) == ("Store 3", "")
    scenario.run()
    cells = [scenario.cell(1, name) for name in ("tags", "photo_urls", "category", "category_id")]
    assert cells == ["new", "/new.jpg", "Cats", "2"]
    assert scenario.run().round.status == "in-sync"


def test_a_blank_cell_beside_nothing_is_filled(scenario: CsvScenario) -> None:
    """A tag without name and id and the category id 0 count as no value, so blank cells take the
    store's later values.
    """
    nothing = {"tags": (ps.Tag(0, ""),), "category": ps.Category(0, "")}
    scenario.box.put(changed(STORED, 1, **nothing)[0])
    scenario.run()
    scenario.type(1, tags="", category="", category_id="")
    for _ in range(2):
        assert scenario.run().round.status == "in-sync"
    scenario.box.put(changed(STORED, 1, category=CATS)[0])
    report = scenario.run()
    assert (report.round.status, scenario.cell(1, "tags")) == ("done", "calm")
    assert (scenario.cell(1, "category"), scenario.cell(1, "category_id")) == ("Cats", "2")


def test_a_killed_run_that_was_undone_is_not_resumed(scenario: CsvScenario) -> None:
    """A killed run that was undone is not resumed: the next round makes a new plan, and the undo is
    a change of the store.
    """
    scenario.options = {**STOPS, "delete_missing": True}
    scenario.type(1, name="Rex")
    scenario.save(scenario.rows()[:-1])
    scenario.box.set_faults("503=1,only=deletePet")
    report = scenario.run()
    scenario.box.set_faults(None)
    assert report.round.status == "interrupted"
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.apply(store.undo(report.round.runs[0]), progress=False)
    assert scenario.store_pets()[1].name == "Pet 1"
    again = scenario.run()
    assert again.round.resumed == 0
    assert scenario.store_pets()[1].name == "Pet 1"
    assert scenario.sheet_pets() == scenario.store_pets()


def _taken_back(_: CsvScenario, store: ps.Store, run: str) -> None:
    store.apply(store.undo(run), progress=False)


def _set_back(scenario: CsvScenario, store: ps.Store, _: str) -> None:
    scenario.type(1, name="Pet 1")
    rows = scenario.rows()
    scenario.save([*rows[:-1], ["12", "Pet 12", *rows[-1][2:]]])
    store.apply(store.plan(scenario.sheet), progress=False)


@pytest.mark.parametrize("is_started", [True, False])
@pytest.mark.parametrize("take_back", [_taken_back, _set_back])
def test_a_killed_round_sends_nothing_that_was_sent_by_hand_and_taken_back_since(
    scenario: CsvScenario, take_back: Callable[[CsvScenario, ps.Store, str], None], is_started: bool
) -> None:
    """A killed round does not send an edit that was applied manually and taken back since, whether
    or not its run had begun the change.
    """
    scenario.options = STOPS
    scenario.type(1, name="Rex")
    scenario.type(12, name="Zoe")
    scenario.box.set_faults("503=1,only=updatePet+updatePetWithForm")
    assert scenario.run().round.status == "interrupted"
    scenario.box.set_faults(None)
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        run = store.apply(store.plan(scenario.sheet), progress=False).run_id
        assert scenario.store_pets()[1].name == "Rex"
        take_back(scenario, store, run)
    assert scenario.run().round.exit_code == 0
    number = 1 if is_started else 12
    assert (
        scenario.store_pets()[number].name == scenario.sheet_pets()[number].name == f"Pet {number}"
    )


@pytest.mark.parametrize("take_back", [_taken_back, _set_back])
def test_a_run_that_is_resumed_sends_nothing_that_was_taken_back_since(
    scenario: CsvScenario, take_back: Callable[[CsvScenario, ps.Store, str], None]
) -> None:
    """A resumed run sends nothing for a pet that a later run and its undo, or a further run,
    changed.
    """
    scenario.type(1, name="Rex")
    scenario.type(12, name="Zoe")
    with ps.connect(scenario.box.url, state=scenario.state, timeout=30) as store:
        scenario.box.set_faults("503=1,only=updatePet+updatePetWithForm")
        with pytest.raises(InterruptedRunError) as stopped:
            store.apply(store.plan(scenario.sheet), concurrency=1, max_failures=0, progress=False)
        scenario.box.set_faults(None)
        report = stopped.value.report
        assert isinstance(report, Report)
        take_back(scenario, store, store.apply(store.plan(scenario.sheet), progress=False).run_id)
        resumed = store.resume(report.run_id, progress=False)
    assert [each.cause for each in resumed.results] == ["superseded"] * 2
    assert [scenario.store_pets()[number].name for number in (1, 12)] == ["Pet 1", "Pet 12"]


def test_a_killed_round_deletes_no_pet_that_was_deleted_by_hand_and_brought_back(
    scenario: CsvScenario,
) -> None:
    """A killed round does not repeat a delete that was applied manually and undone, and the row is
    restored.
    """
    scenario.options = {**STOPS, "delete_missing": True}
    scenario.save(scenario.rows()[:-1])
    scenario.box.set_faults("503=1,only=deletePet")
    assert scenario.run().round.status == "interrupted"
    scenario.box.set_faults(None)
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        plan = store.plan(scenario.sheet, delete_missing=True)
        _taken_back(scenario, store, store.apply(plan, progress=False).run_id)
    assert scenario.run().round.exit_code == 0
    assert scenario.store_pets()[12] == scenario.sheet_pets()[12] == STORED[11]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("winner", ["ask", "store"])
def test_a_cell_that_is_edited_after_an_undo_is_in_conflict(
    scenario: CsvScenario, winner: str, by_hand: bool
) -> None:
    """The undo of a run of the sheet is a change of the store: another edit of the cell after it is
    a conflict, or the restored value wins.
    """
    scenario.options = {"mode": "two-way", "on_conflict": winner}
    scenario.type(1, name="Rex")
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        if by_hand:
            store.apply(store.plan(scenario.sheet), progress=False)
        else:
            scenario.run()
        _taken_back(scenario, store, store.runs()["id"].iloc[0])
    restored = scenario.store_pets()[1]
    scenario.type(1, name="Max")
    report = scenario.run()
    assert report.round.status == ("conflicts" if winner == "ask" else "done")
    assert scenario.store_pets()[1] == restored
    assert scenario.sheet_pets()[1].name == ("Max" if winner == "ask" else restored.name)


@each_choice
@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_an_add_that_was_undone_is_not_made_again(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, edited: bool, killed: bool
) -> None:
    """An add that was undone is not repeated: its row, with or without an id, is removed, or is a
    conflict if it was edited since.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    rows = scenario.rows()
    scenario.save([*rows, [{**NEW_ROW, "tags": "calm"}.get(name, "") for name in rows[0]]])
    with monkeypatch.context() as patch:
        if killed:
            _killed_before_the_sheet(scenario, patch)
        else:
            scenario.run()
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.apply(store.undo(), progress=False)
    assert len(scenario.store_pets()) == len(STORED)
    if edited:
        scenario.save(
            [["calm; old" if cell == "calm" else cell for cell in r] for r in scenario.rows()]
        )
    for status in ("conflicts", "conflicts") if edited else ("done", "in-sync"):
        report = scenario.run()
        assert (report.round.status, len(scenario.store_pets())) == (status, len(STORED))
        assert ("Neu" in [row[1] for row in scenario.rows()]) is edited
    scenario.save([row for row in scenario.rows() if row[1] != "Neu"])
    assert (scenario.run().round.status, len(scenario.store_pets())) == ("in-sync", len(STORED))


def _apply_by_hand(scenario: CsvScenario, **options: Any) -> str:
    """Apply the sheet manually, as between two rounds, and return the run id."""
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        return store.apply(store.plan(scenario.sheet, **options), progress=False).run_id


def _export(scenario: CsvScenario) -> None:
    """Replace the sheet with an export, which has its own base."""
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        ps.write_sheet(store.snapshot(), scenario.sheet)


def _apply_and_write_ids(scenario: CsvScenario) -> tuple[str, Path]:
    """Apply the sheet as `petsync apply --write-ids`, and return the run id and the backup."""
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        sheet = store.read(scenario.sheet)
        plan, outputs = store.plan(sheet), Outputs(store.aio.history)
        outputs.remember(plan, OutputRequest(into_sheet="ids"))
        report = store.apply(plan, progress=False)
        return report.run_id, outputs.write_into_sheet(sheet, report, "ids")


def _add_rows(scenario: CsvScenario, *names: str) -> None:
    rows = scenario.rows()
    more = [{**NEW_ROW, "name": name, "tags": "1:calm"} for name in names]
    scenario.save([*rows, *([each.get(column, "") for column in rows[0]] for each in more)])


def _undo(scenario: CsvScenario, run: str = "") -> str:
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        return store.apply(store.undo(run), progress=False).run_id


def test_a_pet_whose_add_nobody_saw_the_end_of_becomes_no_second_row(scenario: CsvScenario) -> None:
    """A pet whose add has an unknown outcome gets no second row: its renamed row is in conflict and
    stays the only one.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    scenario.run()
    _add_rows(scenario, "Neu")
    scenario.box.set_faults("drop_after=1,only=addPet")
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        plan = store.plan(scenario.sheet)
        with pytest.raises(InterruptedRunError):
            # The response to the add is lost, and so is every later one.
            store.apply(plan, on_progress=lambda _: scenario.box.set_faults("drop_after=1"))
    scenario.box.set_faults(None)
    assert "Neu" in [pet.name for pet in scenario.store_pets().values()]
    scenario.save([["Neuer" if cell == "Neu" else cell for cell in row] for row in scenario.rows()])
    for _ in range(2):
        report = scenario.run()
        assert report.round.status == "conflicts"
        assert [row[1] for row in scenario.rows() if "Neu" in row[1]] == ["Neuer"]
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.resume(progress=False)
    assert scenario.run().round.exit_code == 0
    assert [row[1] for row in scenario.rows() if "Neu" in row[1]] == ["Neuer"]
    assert scenario.sheet_pets() == scenario.store_pets()


@pytest.mark.parametrize("edited", [{"status": "pending"}, {"name": "Rex"}])
def test_a_lost_add_of_a_round_whose_pet_was_edited_is_not_sent_again(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, edited: dict[str, Any]
) -> None:
    """An add without a response, whose pet was edited since, is not sent again: the row is in
    conflict until it gets the pet's id.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True, "timeout": 1}
    scenario.run()
    _add_rows(scenario, "Neu")
    scenario.box.set_faults("drop_after=1,only=addPet")
    with monkeypatch.context() as patch:
        patch.setattr(
            engine, "match_unknown_adds", Mock(side_effect=UnavailableError("it is gone"))
        )
        assert scenario.run().round.status == "interrupted"
    scenario.box.set_faults(None)
    (new,) = [pet for pet in scenario.store_pets().values() if pet.name == "Neu"]
    scenario.box.put(msgspec.structs.replace(new, **edited))
    before, rows = scenario.store_pets(), scenario.rows()
    for _ in range(2):
        report = scenario.run()
        assert report.round.status == "conflicts"
        reason = f"may belong to pet {new.id} ({new.name!r}), which was edited since"
        assert reason in report.open[0].problem
        assert (scenario.store_pets(), scenario.rows()) == (before, rows)
    scenario.save([[str(new.id), *row[1:]] if row[1] == "Neu" else row for row in rows])
    report = scenario.run()
    assert scenario.store_pets().keys() == scenario.sheet_pets().keys() == before.keys()
    fields = [each.fields for each in report.open if each.kind == "conflict"]
    assert (fields, scenario.store_pets()) == ([(*edited,)], before)


@pytest.mark.parametrize(
    ("is_edited", "broken", "is_first"),
    pairwise((False, True), (None, *BREAKS[:3]), (False, True)),
)
def test_a_row_that_names_a_pet_which_no_round_has_seen_takes_nothing_away(
    scenario: CsvScenario,
    monkeypatch: pytest.MonkeyPatch,
    is_edited: bool,
    broken: Break | None,
    is_first: bool,
) -> None:
    """A row with the id of a pet that no round has seen removes nothing: a value of one side alone
    reaches the other, and different values are a conflict. That holds after a killed round too; a
    first round does not fill blank cells.
    """
    if is_first:
        shutil.rmtree(scenario.state)
    tags = (ps.Tag(None, "old"), ps.Tag(None, "calm"))
    new = ps.Pet(id=50, name="Neu", status="sold", tags=tags, photo_urls=("https://a.example/1",))
    rows = scenario.rows()
    typed = {"id": "50", "name": "Rex" if is_edited else "Neu", "status": "sold", "tags": "loud"}
    scenario.save([*rows, [typed.get(column, "") for column in rows[0]]])
    scenario.box.put(new)
    if broken is not None:
        with monkeypatch.context() as patch:
            broken(scenario, patch)
    scenario.run()
    row, pet = scenario.sheet_pets()[50], scenario.store_pets()[50]
    assert {tag.name for tag in row.tags} == {tag.name for tag in pet.tags}
    assert {tag.name for tag in pet.tags} == {"old", "calm", "loud"}
    assert is_first or row.photo_urls == new.photo_urls
    assert pet.photo_urls == new.photo_urls
    assert (row.name, pet.name) == (typed["name"], "Neu")
    report = scenario.run()
    assert report.round.status == ("conflicts" if is_edited else "in-sync")
    assert (report.round.to_store.total, report.round.to_sheet.total) == (0, 0)


def test_a_row_that_gets_the_id_of_the_pet_that_it_added_brings_nothing_back(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that gets the id of the pet that it added in a killed round sends its edits, and does
    not bring back what the store removed.
    """
    rows = scenario.rows()
    typed = {"name": "Neu", "status": "sold", "tags": "calm; loud", "category": "Dogs"}
    scenario.save([*rows, [typed.get(column, "") for column in rows[0]]])
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    (new,) = [pet for pet in scenario.store_pets().values() if pet.name == "Neu"]
    edited = {**typed, "name": "Rex", "status": "pending", "tags": "calm; loud; small"}
    scenario.save([*rows, [edited.get(column, "") for column in rows[0]]])
    scenario.box.put(msgspec.structs.replace(new, tags=new.tags[1:]))
    assert scenario.run().round.status == "conflicts"
    edited["id"] = str(new.id)
    scenario.save([*rows, [edited.get(column, "") for column in rows[0]]])
    scenario.run()
    pet = scenario.store_pets()[new.id or 0]
    assert (pet.name, pet.status) == ("Rex", "pending")
    assert {tag.name for tag in pet.tags} == {"loud", "small"}
    assert scenario.sheet_pets()[new.id or 0].tags == pet.tags
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize(
    ("is_first", "cells", "broken"),
    pairwise(
        (False, True), ({"category": "Cats"}, {"category_id": "2"}), (None, _killed_before_the_base)
    ),
)
def test_a_category_in_one_cell_of_a_pet_that_no_round_has_seen_stays(
    scenario: CsvScenario,
    monkeypatch: pytest.MonkeyPatch,
    is_first: bool,
    cells: dict[str, str],
    broken: Break | None,
) -> None:
    """A category in one cell of a pet that no round has seen stays in conflict with the store's,
    while other cells are sent.
    """
    if is_first:
        shutil.rmtree(scenario.state)
    scenario.box.put(ps.Pet(id=50, name="Neu", status="sold", category=DOGS))
    typed = {"id": "50", "name": "Neu", "status": "sold", "tags": "loud", **cells}
    header, *rows = scenario.rows()
    scenario.save([header, *rows, [typed.get(column, "") for column in header]])
    if broken is not None:
        with monkeypatch.context() as patch:
            broken(scenario, patch)
    for _ in range(3):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 50)])
        assert {column: scenario.cell(50, column) for column in cells} == cells
    assert scenario.store_pets()[50].category == DOGS
    assert [tag.name for tag in scenario.store_pets()[50].tags] == ["loud"]


HAND_EDITS: tuple[dict[str, str], ...] = (
    {"name": "Rex"},
    {"category": "Cats"},
    {"category": "Cats", "category_id": "2"},
    {"category": "Fish"},
    {"category": "[clear]"},
    {"tags": "calm; loud"},
)


@pytest.mark.parametrize("cells", HAND_EDITS)
def test_what_was_applied_by_hand_and_undone_is_not_sent_again(
    scenario: CsvScenario, cells: dict[str, str]
) -> None:
    """An edit that was applied manually and undone is not sent again: the sheet takes the store's
    value, and a note names both runs.
    """
    scenario.type(1, **cells)
    run = _apply_by_hand(scenario)
    assert scenario.store_pets()[1] != STORED[0]
    undo = _undo(scenario)
    assert scenario.store_pets()[1] == STORED[0]
    report = scenario.run()
    assert (report.round.status, report.round.to_store.total) == ("done", 0)
    (note,) = report.open
    assert (note.kind, run in note.problem, undo in note.problem) == ("note", True, True)
    assert scenario.store_pets()[1] == scenario.sheet_pets()[1] == STORED[0]
    report = scenario.run()
    assert (report.round.status, report.open) == ("in-sync", ())
    _undo(scenario, undo)
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets()[1] == scenario.store_pets()[1] != STORED[0]


def test_a_pet_that_was_added_by_hand_and_is_gone_is_added_again_with_its_id(
    scenario: CsvScenario,
) -> None:
    """A pet that was added manually and deleted is added again with its id once the row has the id
    and the action `add`, as the hint suggests.
    """
    rows = scenario.rows()
    scenario.save([*rows, [{**NEW_ROW, "tags": "calm"}.get(name, "") for name in rows[0]]])
    _apply_by_hand(scenario)
    (pet,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    scenario.box.remove(pet.id or 0)
    report = scenario.run()
    assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", pet.id)])
    assert f"write {pet.id} into its id cell" in report.open[0].hint
    _without_id(scenario, "Neu", id=str(pet.id), action="add")
    assert scenario.run().round.status == "done"
    assert scenario.run().round.status == "in-sync"
    assert (
        scenario.store_pets()[pet.id or 0].name == scenario.sheet_pets()[pet.id or 0].name == "Neu"
    )


@pytest.mark.parametrize("cells", HAND_EDITS[1:5])
def test_a_category_that_was_applied_by_hand_stays(
    scenario: CsvScenario, cells: dict[str, str]
) -> None:
    """A category that was applied manually stays: the unchanged cell beside it is not an edit, also
    when the store changes later.
    """
    scenario.type(1, **cells)
    _apply_by_hand(scenario)
    sent = scenario.store_pets()[1]
    scenario.box.put(changed([sent], 1, name="Store 1")[0])
    report = scenario.run()
    assert (report.round.to_store.total, report.open) == (0, ())
    assert scenario.store_pets()[1].category == sent.category
    assert scenario.cell(1, "name") == "Store 1"
    scenario.box.put(changed([sent], 1, name="Store 1", category=BIRDS)[0])
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert scenario.sheet_pets()[1].category == scenario.store_pets()[1].category == BIRDS


@each_choice
@pytest.mark.parametrize("away", ["", "category", "category_id"])
@pytest.mark.parametrize(
    ("cells", "meant"),
    [
        ({"category_id": "2"}, DOGS),
        ({"category_id": "3"}, DOGS),
        ({"category": ""}, DOGS),
        ({"category": "", "category_id": "2"}, CATS),
        ({"category": "[clear]", "category_id": "2"}, None),
    ],
)
def test_both_cells_of_a_category_applied_by_hand_say_what_was_sent(
    scenario: CsvScenario, cells: dict[str, str], meant: ps.Category | None, away: str
) -> None:
    """After a manual run replaced the store's new category with the sheet's, neither cell of the
    category is an edit, even if its column is away for a round.
    """
    scenario.box.put(changed(STORED, 1, category=BIRDS)[0])
    scenario.type(1, **cells)
    _apply_by_hand(scenario)
    assert scenario.store_pets()[1].category == meant
    gone = scenario.cut(away) if away else {}
    scenario.run()
    if gone:
        scenario.paste(gone)
    for _ in range(2):
        report = scenario.run()
        assert (report.round.exit_code, report.open) == (0, ())
        assert scenario.store_pets()[1].category == meant
    assert report.round.status == "in-sync"


def test_a_number_beside_the_name_that_a_resumed_run_sent_is_no_edit(scenario: CsvScenario) -> None:
    """A category id that was typed before a resumed run sent the name is not an edit; an id that is
    typed after the run is one.
    """
    scenario.box.put(changed(STORED, 1, category=BIRDS)[0])
    scenario.type(1, category_id="2")
    scenario.box.set_faults("503=1,only=updatePet+updatePetWithForm")
    run = _apply_by_hand(scenario)
    scenario.box.set_faults(None)
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.resume(run, progress=False)
    assert scenario.run().round.to_store.total == 0
    assert (scenario.store_pets()[1].category, scenario.cell(1, "category_id")) == (DOGS, "1")
    scenario.type(1, category_id="3")
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[1].category == BIRDS


@each_choice
@pytest.mark.parametrize("also", [{}, {"status": "sold"}, {"name": "Rex"}])
@pytest.mark.parametrize("cells", HAND_EDITS[1:5])
def test_a_category_applied_by_hand_stays_while_its_row_lacks_the_id(
    scenario: CsvScenario, cells: dict[str, str], also: dict[str, str]
) -> None:
    """A category that was applied manually stays while the id cell of its row is empty, and after
    the id is put back.
    """
    scenario.type(1, **cells)
    _apply_by_hand(scenario)
    sent = scenario.store_pets()[1].category
    scenario.type(1, id="", **also)
    assert scenario.run().round.to_store.total == 0
    assert scenario.store_pets()[1].category == sent
    assert len(scenario.store_pets()) == len(STORED)
    if also:
        _without_id(scenario, also.get("name", "Pet 1"), id="1")
        assert scenario.run().round.status == "done"
    assert scenario.run().round.status == "in-sync"
    assert scenario.store_pets()[1].category == sent


@each_choice
@pytest.mark.parametrize("also", [{}, {"status": "sold"}])
@pytest.mark.parametrize("cells", [HAND_EDITS[1], *HAND_EDITS[3:5], {"category_id": "2"}])
def test_a_category_stays_where_the_first_round_is_killed_and_the_id_is_emptied(
    scenario: CsvScenario,
    monkeypatch: pytest.MonkeyPatch,
    cells: dict[str, str],
    also: dict[str, str],
) -> None:
    """A category that a killed first round sent from an export stays while the id cell of its row
    is empty, and after the id is put back.
    """
    _export(scenario)
    scenario.type(1, **cells)
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    sent = scenario.store_pets()[1].category
    assert sent != STORED[0].category
    scenario.type(1, id="", **also)
    assert scenario.run().round.to_store.total == 0
    assert scenario.store_pets()[1].category == sent
    if also:
        _without_id(scenario, "Pet 1", id="1")
        assert scenario.run().round.status == "done"
    assert scenario.run().round.status == "in-sync"
    assert scenario.store_pets()[1].category == sent


def test_the_number_of_a_category_is_filled_in_after_a_hand_made_run(scenario: CsvScenario) -> None:
    """A blank category id is filled after a manual run gave the pet a category with an id."""
    scenario.box.put(changed(STORED, 1, category=ps.Category(None, "Fish"))[0])
    scenario.type(1, category="Fish", category_id="")
    assert scenario.run().round.status == "in-sync"
    scenario.type(1, category="Cats")
    _apply_by_hand(scenario)
    assert scenario.store_pets()[1].category == CATS
    assert scenario.run().round.status == "done"
    assert scenario.cell(1, "category_id") == "2"
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("broken", BREAKS[:3])
def test_merged_tags_that_were_undone_are_not_sent_again(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, broken: Break
) -> None:
    """Merged tags that were undone after an interrupted round are not sent again, and the store's
    earlier change still reaches the sheet.
    """
    first = changed(STORED, 1, tags=(ps.Tag(1, "calm"), ps.Tag(None, "loud"), ps.Tag(None, "shy")))
    scenario.box.put(first[0])
    scenario.run()
    scenario.box.put(changed(first, 1, tags=(*first[0].tags[:2], ps.Tag(None, "young")))[0])
    scenario.type(1, tags="1:calm; shy; old")
    with monkeypatch.context() as patch:
        broken(scenario, patch)
    assert {tag.name for tag in scenario.store_pets()[1].tags} == {"calm", "old", "young"}
    _undo(scenario)
    for _ in range(2):
        scenario.run()
        assert {tag.name for tag in scenario.store_pets()[1].tags} == {"calm", "loud", "young"}
    assert {tag.name for tag in scenario.sheet_pets()[1].tags} == {"calm", "loud", "young"}


def test_an_edit_that_is_taken_back_after_it_was_applied_by_hand_is_sent(
    scenario: CsvScenario,
) -> None:
    """A value that a manual run sent is agreed, so the old value is an edit if it is typed again,
    and so is a third value.
    """
    scenario.type(1, name="Rex")
    scenario.type(2, name="Rex 2")
    _apply_by_hand(scenario)
    scenario.type(1, name="Pet 1")
    scenario.type(2, name="Rex 3")
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert (scenario.store_pets()[1].name, scenario.store_pets()[2].name) == ("Pet 1", "Rex 3")
    assert scenario.sheet_pets() == scenario.store_pets()


def test_ids_that_were_written_by_hand_do_not_show_that_a_killed_round_wrote(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids that a manual run writes after a killed round do not show that the round wrote its new
    row, so that row does not count as removed and its pet stays.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    _add_rows(scenario, "Neu", "Alt", "Drei")
    _apply_by_hand(scenario)
    scenario.box.put(ps.Pet(id=900, name="Store 900", status="sold"))
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(scenario, patch)
    assert "" in [row[0] for row in scenario.rows()]
    _apply_and_write_ids(scenario)
    assert "" not in [row[0] for row in scenario.rows()]
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets().keys() == scenario.store_pets().keys() == {*range(1, 16), 900}
    assert scenario.run().round.status == "in-sync"


def test_what_a_killed_round_wrote_makes_no_older_copy(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older values that a killed round wrote after an undo do not make the sheet a backup, and the
    round's add that was undone is not repeated.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    scenario.run()
    scenario.type(1, name="Rex")
    scenario.type(2, name="Max")
    assert scenario.run().round.to_store.total == 2
    _undo(scenario)
    _add_rows(scenario, "Neu")
    with monkeypatch.context() as patch:
        _killed_before_the_base(scenario, patch)
    assert scenario.sheet_pets()[1] == scenario.store_pets()[1] == STORED[0]
    _undo(scenario)
    header, *rows = scenario.rows()
    scenario.save([header, *reversed(rows)])
    report = scenario.run()
    assert (report.round.status, report.round.to_store.total, report.open) == ("done", 0, ())
    assert scenario.sheet_pets() == scenario.store_pets() == {pet.id: pet for pet in STORED}
    assert scenario.run().round.status == "in-sync"


def test_rows_that_go_while_rounds_are_killed_make_no_older_copy(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are removed before killed rounds do not make the sheet a backup, and the next
    removed row deletes its pet too.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}

    def remove(pet_id: int) -> None:
        scenario.save([row for row in scenario.rows() if row[0] != str(pet_id)])

    for pet_id, edited in ((3, 7), (4, 8)):
        remove(pet_id)
        scenario.box.put(changed(STORED, edited, name=f"Store {edited}")[edited - 1])
        with monkeypatch.context() as patch:
            _killed_before_the_sheet(scenario, patch)
        if pet_id == 3:
            _add_rows(scenario, "Neu")
            _apply_and_write_ids(scenario)
    remove(6)
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert scenario.sheet_pets() == scenario.store_pets()
    assert not {3, 4, 6} & scenario.store_pets().keys()
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("killed", [None, *BREAKS[:3]])
def test_a_backup_of_a_run_by_hand_is_known(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, killed: Break | None
) -> None:
    """A backup of a manual run is recognised: values that were sent since count as the store's
    changes, and a row that lacks its id again is still its pet's row.
    """
    _add_rows(scenario, "Neu")
    run, backup = _apply_and_write_ids(scenario)
    if killed is not None:
        scenario.box.put(changed(STORED, 2, name="Store 2")[1])
        with monkeypatch.context() as patch:
            killed(scenario, patch)
    scenario.type(1, name="Rex")
    for _ in range(2):
        scenario.run()
    assert scenario.store_pets()[1].name == "Rex"
    shutil.copy(backup, scenario.sheet)
    report = scenario.run()
    assert (report.round.status, [each.kind for each in report.open]) == ("done", ["note"])
    (note,) = report.open
    assert f"looks as it did before run {run}: a backup may have been restored" in note.problem
    assert scenario.sheet_pets() == scenario.store_pets()
    assert (scenario.cell(1, "name"), len(scenario.store_pets())) == ("Rex", 13)
    assert scenario.run().round.status == "in-sync"


def test_cells_that_are_set_back_after_a_run_by_hand_are_edits(scenario: CsvScenario) -> None:
    """A manual run that does not write into the sheet has no backup, so cells that are set back are
    edits.
    """
    scenario.type(1, name="Rex")
    _apply_by_hand(scenario)
    for name in ("Max", "Rex", "Max", "Rex"):
        scenario.type(1, name=name)
        assert scenario.run().open == ()
        assert scenario.store_pets()[1].name == scenario.cell(1, "name") == name


@pytest.mark.parametrize("how", ["action", "missing"])
def test_a_delete_that_was_applied_by_hand_and_undone_is_not_made_again(
    scenario: CsvScenario, how: str
) -> None:
    """A delete that was applied manually and undone is not repeated: the pet gets its row again."""
    scenario.options = {"mode": "two-way", "delete_missing": True}
    rows = scenario.rows()
    scenario.save([row for row in rows if row[0] != "3"])
    if how == "action":
        scenario.save(rows)
        scenario.type(3, action="delete")
    _apply_by_hand(scenario, delete_missing=True)
    assert 3 not in scenario.store_pets()
    scenario.save([row for row in rows if row[0] != "3"])
    _undo(scenario)
    assert 3 in scenario.store_pets()
    assert scenario.run().round.to_store.total == 0
    assert scenario.store_pets()[3] == scenario.sheet_pets()[3] == STORED[2]
    assert scenario.run().round.status == "in-sync"


NEWS: tuple[dict[str, Any], ...] = (
    {"name": "Rex"},
    {"status": "sold"},
    {"category": CATS},
    {"category": ps.Category(659, "Dogs")},
    {"tags": (ps.Tag(1, "calm"), ps.Tag(None, "loud"))},
    {"photo_urls": (*STORED[0].photo_urls, "https://shop.example/new.jpg")},
)


@pytest.mark.parametrize("news", NEWS)
def test_a_run_by_hand_resumed_after_a_round_wrote_the_row_changes_the_store_alone(
    scenario: CsvScenario, news: dict[str, Any]
) -> None:
    """A manual run that is resumed after a round wrote the row changes the store alone, and the
    next round writes the store's value into the row.
    """
    scenario.box.put(changed(STORED, 1, **news)[0])
    scenario.box.set_faults("503=1,only=updatePet+updatePetWithForm")
    with ps.connect(scenario.box.url, state=scenario.state, timeout=5) as store:
        run = store.apply(store.plan(scenario.sheet), progress=False).run_id
    scenario.box.set_faults(None)
    assert scenario.run().round.status == "done"
    new = scenario.sheet_pets()[1]
    assert new == scenario.store_pets()[1] != STORED[0]
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.resume(run, progress=False)
    old = scenario.store_pets()[1]
    assert old != new
    report = scenario.run()
    assert (report.round.to_store.total, scenario.store_pets()[1]) == (0, old)
    assert scenario.sheet_pets()[1] == old
    assert scenario.run().round.status == "in-sync"


def test_a_pet_that_a_resumed_run_adds_after_a_round_removed_its_row_stays(
    scenario: CsvScenario,
) -> None:
    """A pet that a resumed run adds after a round removed its row stays and gets its row again."""
    scenario.options = {"mode": "two-way", "delete_missing": True}
    scenario.run()
    scenario.box.remove(1)
    scenario.box.set_faults("503=1,only=addPet")
    run = _apply_by_hand(scenario)
    scenario.box.set_faults(None)
    assert scenario.run().round.status == "done"
    assert 1 not in scenario.sheet_pets()
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        store.resume(run, progress=False)
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[1] == scenario.sheet_pets()[1] == STORED[0]
    assert scenario.run().round.status == "in-sync"


def test_a_row_that_is_removed_behind_a_killed_round_that_wrote_it_goes(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that a killed round wrote, and that is removed after it, deletes its pet, although the
    sheet has little else that the round wrote.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    scenario.box.put(ps.Pet(id=50, name="New", status="sold"))
    scenario.box.put(changed(STORED, 2, name="Store 2")[1])
    with monkeypatch.context() as patch:
        _killed_before_the_base(scenario, patch)
    scenario.save([row for row in scenario.rows() if row[1] != "New"])
    assert scenario.run().round.status == "done"
    assert 50 not in {*scenario.store_pets(), *scenario.sheet_pets()}


@each_choice
@pytest.mark.parametrize("column", ["tags", "status"])
@pytest.mark.parametrize("broken", [None, *BREAKS[:2]])
def test_a_newer_column_in_a_backup_is_compared_by_what_was_sent_from_it(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, column: str, broken: Break | None
) -> None:
    """An edit that was sent and undone is not sent again when its column is pasted into an older
    backup.
    """
    for number in (2, 3):
        scenario.box.put(changed(STORED, number, name=f"Store {number}")[number - 1])
    report = scenario.run()
    scenario.box.put(changed(STORED, 4, name="Store 4")[3])
    scenario.type(1, **{column: {"tags": "1:calm; loud", "status": "sold"}[column]})
    with monkeypatch.context() as patch:
        _ = scenario.run() if broken is None else broken(scenario, patch)
    assert scenario.store_pets()[1] != STORED[0]
    newer = scenario.cut(column)
    _undo(scenario)
    assert scenario.store_pets()[1] == STORED[0]
    shutil.copy(report.round.backup, scenario.sheet)
    scenario.cut(column)
    scenario.paste(newer)
    assert scenario.run().round.to_store.total == 0
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.store_pets()[1] == STORED[0]
    assert scenario.run().round.status == "in-sync"


CATEGORY_COLUMNS = (("category",), ("category_id",), ("category", "category_id"))


@each_choice
@pytest.mark.parametrize("columns", CATEGORY_COLUMNS)
@pytest.mark.parametrize("cells", HAND_EDITS[1:5])
def test_a_category_applied_by_hand_and_undone_while_its_column_is_away_is_not_sent_again(
    scenario: CsvScenario, cells: dict[str, str], columns: tuple[str, ...]
) -> None:
    """A category that was applied manually, and undone while its column was away, is not sent
    again, and the sheet takes the store's category.
    """
    scenario.type(1, **cells)
    _apply_by_hand(scenario)
    away = scenario.cut(*columns)
    _undo(scenario)
    scenario.run()
    scenario.paste(away)
    for _ in range(2):
        report = scenario.run()
        assert (report.round.to_store.total, report.round.exit_code) == (0, 0)
        assert scenario.sheet_pets()[1] == scenario.store_pets()[1] == STORED[0]
    assert (report.round.status, report.open) == ("in-sync", ())


@each_choice
@pytest.mark.parametrize("columns", CATEGORY_COLUMNS)
@pytest.mark.parametrize("cells", HAND_EDITS[1:5])
def test_a_category_applied_by_hand_stays_while_its_column_is_away(
    scenario: CsvScenario, cells: dict[str, str], columns: tuple[str, ...]
) -> None:
    """A category that was applied manually agrees with the store when its column is restored."""
    scenario.type(1, **cells)
    _apply_by_hand(scenario)
    new = scenario.store_pets()[1]
    away = scenario.cut(*columns)
    scenario.run()
    scenario.paste(away)
    for _ in range(2):
        report = scenario.run()
        assert (report.round.to_store.total, report.open) == (0, ())
        assert scenario.store_pets()[1] == new
    assert report.round.status == "in-sync"


def test_a_pet_that_an_undo_brought_back_is_not_missing(scenario: CsvScenario) -> None:
    """A pet that an undo brought back is new in the store and gets a row, although its row was
    removed while the pet was gone.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    rows = scenario.rows()
    scenario.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    assert scenario.run().round.status == "done"
    (number,) = scenario.store_pets().keys() - {pet.id for pet in STORED}
    undo = _undo(scenario)
    scenario.save([row for row in scenario.rows() if row[0] != str(number)])
    _undo(scenario, undo)
    for _ in range(2):
        assert scenario.run().round.to_store.total == 0
        assert scenario.store_pets()[number] == scenario.sheet_pets()[number]


def test_a_hand_made_run_of_before_the_last_round_counts_no_more(scenario: CsvScenario) -> None:
    """A manual run from before the last round does not change what was agreed since."""
    scenario.type(1, name="Rex")
    _apply_by_hand(scenario)
    assert scenario.run().round.status == "in-sync"
    for name in ("Rey", "Rex"):
        scenario.type(1, name=name)
        assert scenario.run().round.to_store.total == 1
        assert scenario.store_pets()[1].name == name


def test_a_run_that_the_base_has_is_not_laid_over_it_again(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that the base has is not added to it again after a kill before the run's record is
    removed, and the store's change since stays.
    """
    scenario.type(1, name="Rex")

    def meddle() -> None:
        scenario.box.put(changed(list(scenario.store_pets().values()), 1, name="Store 1")[0])

    with monkeypatch.context() as patch:
        patch.setattr(PendingRuns, "forget", Mock(side_effect=KeyboardInterrupt))
        assert scenario.run().round.status == "interrupted"
    marks = BaseFile(next((scenario.state / "reconcile" / "bases").glob("*.base"))).load(
        set_aside=False
    )
    assert len(marks.runs) == 1
    with monkeypatch.context() as patch:
        laid = Mock(side_effect=AssertionError("laid over it once more"))
        patch.setattr("petsync.reconcile.start.with_report", laid)
        meddle()
        assert scenario.run().round.status == "done"
    assert scenario.cell(1, "name") == "Store 1"
    assert scenario.run().round.status == "in-sync"


def test_a_row_that_lacks_its_id_again_is_from_a_backup(scenario: CsvScenario) -> None:
    """A row that lacks its id again is recognised as one of a backup, even if it was edited since:
    later values are not reverted.
    """
    rows = scenario.rows()
    scenario.save([*rows, [{**NEW_ROW, "tags": "calm"}.get(name, "") for name in rows[0]]])
    first = scenario.run()
    (added,) = (pet for pet in scenario.box.pets() if pet.name == "Neu")
    scenario.type(added.id or 0, status="pending", tags="calm; old")
    assert scenario.run().round.status == "done"
    assert first.round.backup
    shutil.copy(first.round.backup, scenario.sheet)
    _without_id(scenario, "Neu", tags="calm; loud")
    assert scenario.run().round.status == "done"
    pet = scenario.store_pets()[added.id or 0]
    assert pet.status == "pending"
    assert {tag.name for tag in pet.tags} == {"calm", "old", "loud"}
    assert scenario.sheet_pets() == scenario.store_pets()


@each_choice
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("first", ["both", "store"])
def test_a_row_that_is_pasted_after_its_pet_has_gone_is_a_conflict(
    scenario: CsvScenario, deletes: bool, first: str
) -> None:
    """A row that is cut from one sheet and pasted into another after its pet was deleted is a
    conflict, until `add` adds the pet again.
    """
    folder = scenario.folder / "in"
    folder.mkdir()

    def write(name: str, pets: list[ps.Pet], **more: list[str]) -> None:
        frame = ps.frame_from_pets(pets)
        ps.write_sheet(frame.assign(**more), folder / name, base=False)

    def rounds() -> list[str]:
        job = scenario.job(
            "inbox", folder=folder, sheet=None, files="*.csv", delete_missing=deletes
        )
        return [report.round.status for report in reconcile_jobs(scenario.config(job))]

    for path in (scenario.state / "reconcile" / "bases").iterdir():
        path.unlink()  # belongs to the fixture's own job, which has the pet
    write("a.csv", STORED[:6])
    write("b.csv", STORED[6:])
    assert rounds() == ["in-sync", "in-sync"]
    scenario.box.remove(5)
    if first == "store" and deletes:
        assert rounds() == ["done", "in-sync"]
    write("a.csv", [*STORED[:4], STORED[5]])
    for _ in range(4):
        assert rounds() == ["in-sync", "in-sync"]
    write("b.csv", [*STORED[6:], STORED[4]])
    for _ in range(2):
        assert rounds() == ["in-sync", "conflicts"]
        assert 5 not in scenario.store_pets()
    rows = [*STORED[6:], STORED[4]]
    write("b.csv", rows, action=[*[""] * (len(rows) - 1), "add"])
    assert "conflicts" not in rounds()
    assert scenario.store_pets()[5].name == "Pet 5"
    assert rounds() == ["in-sync", "in-sync"]


@each_choice
@pytest.mark.parametrize("killed", [None, "sheet", "base"])
@pytest.mark.parametrize("how", ["row", "action"])
def test_a_row_that_is_pasted_after_a_round_has_deleted_its_pet_is_a_conflict(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, how: str, killed: str | None
) -> None:
    """A row that is pasted after a round deleted its pet is a conflict with the date of the delete,
    also after a killed round, and `add` adds the pet again.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    rows = scenario.rows()
    if how == "action":
        scenario.type(3, action="delete")
    else:
        scenario.save([row for row in rows if row[0] != "3"])
    scenario.type(1, name="Rex")
    with monkeypatch.context() as patch:
        if killed == "sheet":
            patch.setattr(
                "petsync.reconcile.round._Execution._compare_again", Mock(side_effect=OSError)
            )
        elif killed == "base":
            patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
        scenario.run()
    assert 3 not in scenario.store_pets()
    scenario.run()
    there = [row for row in scenario.rows() if row[0] != "3"]
    scenario.save([*there, next(row for row in rows if row[0] == "3")])
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 3)])
        assert "has the id of pet 3, which has been missing since 2" in report.open[0].problem
        assert "`add`" in report.open[0].hint
        assert 3 not in scenario.store_pets()
    scenario.type(3, action="add")
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[3] == scenario.sheet_pets()[3] == STORED[2]
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("deletes", [True, False])
def test_a_row_that_lost_its_id_and_was_edited_is_held(
    scenario: CsvScenario, count: int, deletes: bool
) -> None:
    """An edited row that lost its id is held in every round, and its pet is neither deleted nor
    added again.
    """
    scenario.options = {"delete_missing": deletes}
    assert scenario.run().round.status == "in-sync"
    before = scenario.store_pets()
    blanked = [1, 2, 3][:count]
    for pet_id in blanked:
        scenario.type(pet_id, id="", name=f"{before[pet_id].name} jr")
    for _ in range(2):
        report = scenario.run()
        assert report.round.status == "conflicts"
        assert {each.pet_id for each in report.open if each.kind == "conflict"} == {*blanked}
        assert scenario.store_pets() == before


@pytest.mark.parametrize("mode", ["push", "two-way"])
def test_rows_in_the_place_of_removed_ones_are_held(scenario: CsvScenario, mode: str) -> None:
    """Rows without an id in the place of removed rows may be those rows: in both modes, they add no
    pets, and these pets are not deleted. With `add-another`, they are new ones.
    """
    guard = Guard(max_delete=Limit(3, is_share=False))
    scenario.options = {"mode": mode, "delete_missing": True, "guard": guard}
    assert scenario.run().round.status == "in-sync"
    before = scenario.store_pets()
    header, *rows = scenario.rows()
    at = {name: header.index(name) for name in ("id", "name", "photo_urls", "action")}
    for row, name in ((rows[4], "Mia"), (rows[5], "Tom")):
        row[at["id"]], row[at["name"]], row[at["photo_urls"]] = "", name, ""
    del rows[6]
    scenario.save([header, *rows])
    for _ in range(2):
        report = scenario.run()
        assert report.round.conflicts == 2
        assert scenario.store_pets().keys() >= {5, 6}
        assert scenario.store_pets().keys() <= before.keys()
    header, *rows = scenario.rows()
    for row in rows:
        row[at["action"]] = row[at["action"]] if row[at["id"]] else "add-another"
    scenario.save([header, *rows])
    scenario.run()
    assert scenario.run().round.exit_code == 0
    names = [pet.name for pet in scenario.store_pets().values()]
    assert (names.count("Mia"), names.count("Tom"), names.count("Pet 7")) == (1, 1, 0)


@pytest.mark.parametrize("mode", ["push", "two-way"])
def test_an_id_that_the_service_exchanges(tmp_path: Path, mode: str) -> None:
    """The round writes the id that the service assigned into the row, and no pet is added twice or
    deleted.
    """
    own = replace(STANDARD, own_ids=True)
    with Sandbox(auth=False, profile=own, pets=STORED) as box:
        scenario = CsvScenario(box, tmp_path, {"mode": mode, "delete_missing": True})
        scenario.write(
            [*STORED, ps.Pet(id=500, name="Rex", status="sold", category=PETS[0].category)]
        )
        for _ in range(3):
            scenario.run()
            names = [pet.name for pet in box.pets()]
            assert names.count("Rex") == 1
            assert len(names) == len(STORED) + 1
        (rex,) = (pet for pet in box.pets() if pet.name == "Rex")
        assert rex.id != 500
        assert rex.id in scenario.sheet_pets()
        assert 500 not in scenario.sheet_pets()
        assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize(
    ("column", "text", "other"),
    [("status", "sold", ""), ("category", "Cats", "Rex"), ("tags", "old", "Rex")],
)
def test_a_cell_that_a_run_by_hand_corrected_takes_the_correction(
    scenario: CsvScenario, column: str, text: str, other: str
) -> None:
    """A cell that a manual run corrected takes the correction, because the file's old value is no
    edit; later edits of the sheet are sent.
    """
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        address = store.read(scenario.sheet).address(2, column)
        sheet = store.read(scenario.sheet, corrections={address: text})
        assert store.apply(store.plan(sheet), progress=False).counts["applied"] == 1
    corrected = scenario.store_pets()[1]
    assert corrected != STORED[0]
    if other:
        scenario.type(2, name=other)
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert scenario.store_pets()[1] == scenario.sheet_pets()[1] == corrected
    assert scenario.store_pets()[2].name == (other or "Pet 2")
    assert scenario.run().round.status == "in-sync"
    scenario.type(1, name="Pet 1 again")
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[1].name == "Pet 1 again"


@each_choice
@pytest.mark.parametrize("is_export", [False, True])
@pytest.mark.parametrize("broken", [None, *BREAKS[:2]])
def test_a_renamed_job_goes_on_with_what_its_runs_sent(
    scenario: CsvScenario, monkeypatch: pytest.MonkeyPatch, broken: Break | None, is_export: bool
) -> None:
    """A renamed job continues from the base of its old name: a cell that is set back is an edit, in
    the preview and after a killed round too.
    """
    if is_export:
        _export(scenario)
        scenario.run()
    scenario.type(1, name="Rex")
    scenario.type(2, category="Birds")
    with monkeypatch.context() as patch:
        if broken is not None:
            broken(scenario, patch)
        else:
            scenario.run()
    assert (scenario.store_pets()[1].name, scenario.store_pets()[2].category) == ("Rex", BIRDS)
    scenario.type(1, name="Pet 1")
    scenario.type(2, category="Dogs")
    renamed = scenario.config(scenario.job("renamed"))
    (dry,) = reconcile_jobs(renamed, dry_run=True)
    (report,) = reconcile_jobs(renamed)
    assert (dry.round.to_store.update, report.round.status) == (2, "done")
    assert [each.problem for each in report.open] == [
        "the job was called catalogue in its last round, and continues from there"
    ]
    assert scenario.sheet_pets() == scenario.store_pets() == {pet.id: pet for pet in STORED}
    assert not [name for name in scenario.state_files() if "bases/catalogue" in name]
    (report,) = reconcile_jobs(renamed)
    assert (report.round.status, report.open) == ("in-sync", ())


@pytest.mark.parametrize("still_there", [True, False])
def test_the_first_round_of_a_renamed_job_deletes_nothing(
    scenario: CsvScenario, still_there: bool
) -> None:
    """The first round of a renamed job deletes nothing, because it may be another job for the same
    file, and the next round does; a job that is still configured keeps its base.
    """
    scenario.options = {"mode": "two-way", "delete_missing": True}
    scenario.save(scenario.rows()[:-1])
    new = scenario.job("renamed")
    jobs = (new, scenario.job(enabled=False)) if still_there else (new,)
    (report,) = reconcile_jobs(scenario.config(*jobs))
    assert report.round.to_store.delete == 0
    assert len(scenario.store_pets()) == len(STORED)
    assert any("bases/catalogue" in name for name in scenario.state_files()) is still_there
    if not still_there:
        (report,) = reconcile_jobs(scenario.config(*jobs))
        assert report.round.to_store.delete == 1


def test_the_base_in_the_sheet_is_known_by_its_lines(scenario: CsvScenario) -> None:
    """A round records the digest of the base that the sheet carries, with the checksum of its
    lines; another base is noticed although a digest is stored.
    """
    with ps.connect(scenario.box.url) as store:
        ps.write_sheet(store.snapshot(), scenario.sheet, force=True)
    assert scenario.run().round.status == "in-sync"
    stored = BaseFile(scenario.state / "reconcile" / "bases" / "catalogue.base").load(
        set_aside=False
    )
    carried = ps.read_sheet(scenario.sheet).base
    assert carried is not None
    assert (stored.carried, stored.checksum) == (carried.digest, carried.checksum)
    assert stored.digest_carried(carried) == carried.digest
    other = sheets.read_sheet(scenario.sheet).base
    assert other is not None
    assert stored.digest_carried(replace(other, taken_at="2026-11-01T00:00:00+00:00")) not in (
        "",
        stored.carried,
    )
