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
from nightly import DOGS, PETS, FirstRounds, Typed, changed, kinds
from pairwise import pairwise

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
def night(_open_box: Sandbox, first_rounds: FirstRounds, tmp_path: Path) -> Typed:
    """Return a store and a sheet that agree after one round."""
    night = Typed(_open_box, tmp_path, {"mode": "two-way"})
    first_rounds.begin(night, STORED)
    return night


Break = Callable[[Typed, pytest.MonkeyPatch], None]


def _killed_before_the_sheet(night: Typed, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
    assert night.run().round.status == "interrupted"


def _killed_before_the_base(night: Typed, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
    assert night.run().round.status == "interrupted"


def _opened_in_mid_round(night: Typed, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sheets, "write_synced", Mock(side_effect=SheetError("it is open")))
    assert night.run().round.status == "error"


def _backup_put_back(night: Typed, _: pytest.MonkeyPatch) -> None:
    report = night.run()
    assert report.round.status == "done"
    shutil.copy(report.round.backup, night.sheet)


BREAKS: tuple[Break, ...] = (
    _killed_before_the_sheet,
    _killed_before_the_base,
    _opened_in_mid_round,
    _backup_put_back,
)


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
    night: Typed,
    monkeypatch: pytest.MonkeyPatch,
    broken: Break,
    cells: dict[str, str],
    meant: ps.Category | None,
) -> None:
    """An edit of one cell of a category stays however the round ends; the unchanged cell beside it
    is not an edit.
    """
    night.type(1, **cells)
    with monkeypatch.context() as patch:
        broken(night, patch)
    report = night.run()
    assert report.round.status in ("done", "in-sync")
    assert night.stored()[1].category == meant
    assert night.run().round.status == "in-sync"
    assert night.stored()[1].category == meant


@pytest.mark.parametrize("broken", BREAKS[:3])
def test_a_category_edited_again_is_sent(
    night: Typed, monkeypatch: pytest.MonkeyPatch, broken: Break
) -> None:
    """An edit that is typed after an interrupted round is sent, and is not a conflict."""
    night.type(1, category="Cats")
    with monkeypatch.context() as patch:
        broken(night, patch)
    night.type(1, category="Birds")
    assert night.run().round.status == "done"
    assert night.stored()[1].category == BIRDS
    assert night.run().round.status == "in-sync"


def test_a_category_that_was_cleared_takes_a_new_one(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleared category takes the store's new one, although the old category id is still beside
    it.
    """
    night.type(1, category="[clear]")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    night.box.put(changed(STORED, 1, category=CATS)[0])
    report = night.run()
    assert (report.round.status, report.open) == ("done", ())
    assert night.stored()[1].category == night.said()[1].category == CATS


def test_the_number_beside_a_cleared_category_is_no_edit(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old id beside a cleared category is not an edit, even if the name's column is removed
    after a killed round and restored later.
    """
    night.type(1, category="[clear]")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    away = night.cut("category")
    assert night.run().round.to_store.total == 0
    night.paste(away)
    assert night.run().round.exit_code == 0
    assert night.run().round.status == "in-sync"
    assert night.stored()[1].category is None


def test_a_category_that_arrived_is_no_edit_of_a_pet_that_is_gone(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row whose category a killed round sent is unedited, so it is removed without a conflict
    when its pet is deleted in the store.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    night.type(1, category="Cats")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    assert night.stored()[1].category == CATS
    assert night.cell(1, "category_id") == "1"
    night.box.remove(1)
    report = night.run()
    assert (report.round.status, report.open) == ("done", ())
    assert 1 not in night.said()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_new_row_keeps_its_category(
    night: Typed, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """A new row with the name of one category and the id of another gets the named category, also
    in a killed round.
    """
    rows = night.rows()
    new = {"name": "Neu", "status": "sold", "category": "Cats", "category_id": "1"}
    night.save([*rows, [new.get(name, "") for name in rows[0]]])
    if is_killed:
        with monkeypatch.context() as patch:
            _killed_before_the_sheet(night, patch)
    assert night.run().round.status == "done"
    (pet,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    assert pet.category == CATS
    assert night.cell(pet.id or 0, "category_id") == "2"


@pytest.mark.parametrize("is_new", [False, True])
def test_a_category_stays_where_the_row_is_edited_after_a_killed_round(
    night: Typed, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """After a killed round sent a category, another edit of the row is sent, and the old category
    id is not an edit, even if its column is away.
    """
    if is_new:
        rows = night.rows()
        new = {"name": "Neu", "status": "sold", "category": "Cats", "category_id": "1"}
        night.save([*rows, [new.get(name, "") for name in rows[0]]])
    else:
        night.type(1, name="Neu", category="Cats")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    rows = night.rows()
    status, name = rows[0].index("status"), rows[0].index("name")
    next(row for row in rows if row[name] == "Neu")[status] = "available"
    night.save(rows)
    (pet,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    gone = night.cut("category_id")
    night.run()
    night.paste(gone)
    report = night.run()
    assert (report.round.status, report.open, report.round.to_store.total) == ("done", (), 0)
    assert night.stored()[pet.id or 0].category == CATS
    assert night.cell(pet.id or 0, "category_id") == "2"


def test_a_released_plan_keeps_the_category(night: Typed) -> None:
    """A plan that waited and was released sends the category of the name cell."""
    night.type(1, category="Cats")
    guard = Guard(max_update=Limit(0, is_share=False))
    report = night.run(guard=guard)
    assert report.round.status == "waiting"
    with ps.connect(night.box.url, state=night.state) as store:
        store.apply(ps.load_plan(report.round.waiting), progress=False)
    assert night.stored()[1].category == CATS
    assert night.run(guard=guard).round.to_store.total == 0
    assert night.stored()[1].category == CATS


def test_two_rounds_that_were_killed_are_both_agreed_on(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that two killed rounds sent are agreed, so a value that is set back is an edit."""
    for pet_id in (1, 2):
        night.type(pet_id, name=f"Rex {pet_id}")
        with monkeypatch.context() as patch:
            _killed_before_the_base(night, patch)
    night.type(1, name="Pet 1")
    assert night.run().round.status == "done"
    assert (night.stored()[1].name, night.stored()[2].name) == ("Pet 1", "Rex 2")
    assert night.said() == night.stored()


@pytest.mark.parametrize("how", ["renamed", "cut", "emptied"])
def test_a_column_that_was_away_reverts_nothing(
    night: Typed, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A column that was away reverts nothing: unedited rows take the store's values, and an edited
    row is sent, or is in conflict if the store changed it too.
    """
    rows = night.rows()
    night.box.put(changed(STORED, 1, name="Store 1")[0])
    columns = {} if how == "renamed" else night.cut("name", "tags")
    if how == "renamed":
        night.rename("name", "Rufname")
        night.rename("tags", "Merkmale")
    elif how == "emptied":
        night.paste({name: [""] * len(cells) for name, cells in columns.items()})
    first = night.run()
    assert first.round.exit_code == (3 if how == "renamed" else 0)
    assert any("the column name, tags is" in each.problem for each in first.open)
    night.box.put(changed(STORED, 2, name="Store 2", tags=(ps.Tag(9, "new"),))[1])
    night.box.put(changed(STORED, 3, name="Store 3")[2])
    night.run()
    if how == "renamed":
        night.rename("Rufname", "name")
        night.rename("Merkmale", "tags")
    else:
        night.save(rows)
    night.type(3, name="Sheet 3")
    night.type(4, name="Sheet 4")
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    for _ in range(2):
        report = night.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 3)])
    stored = night.stored()
    assert [stored[n].name for n in (1, 2, 3, 4)] == ["Store 1", "Store 2", "Store 3", "Sheet 4"]
    assert [tag.name for tag in stored[2].tags] == ["new"]
    assert (night.cell(1, "name"), night.cell(2, "name")) == ("Store 1", "Store 2")
    night.type(3, name="Store 3")
    again = night.run()
    assert (again.round.status, again.open) == ("in-sync", ())
    assert night.said() == stored


@pytest.mark.parametrize("broken", BREAKS[:3])
@pytest.mark.parametrize("cut", [("tags",), ("tags", "name")])
def test_a_column_that_was_away_after_a_killed_round_reverts_nothing(
    night: Typed, monkeypatch: pytest.MonkeyPatch, broken: Break, cut: tuple[str, ...]
) -> None:
    """A tag that the store removed stays removed if the round that should write it is killed and
    the column is restored with the old value.
    """
    night.type(1, tags="calm; loud")
    night.run()
    night.box.put(changed(list(night.stored().values()), 1, tags=(ps.Tag(1, "calm"),))[0])
    night.type(2, status="sold")
    with monkeypatch.context() as patch:
        broken(night, patch)
    gone = night.cut(*cut)
    night.run()
    night.paste(gone)
    for _ in range(2):
        report = night.run()
        assert report.round.status in ("done", "in-sync")
        assert [tag.name for tag in night.stored()[1].tags] == ["calm"]
        assert night.cell(1, "tags").endswith("calm")


def test_what_a_killed_round_wrote_is_known_in_a_backup(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup from before a killed round that wrote the sheet is recognised: its old values are
    not sent, and a new edit is.
    """
    before = night.sheet.read_bytes()
    night.box.put(changed(STORED, 1, name="Store 1")[0])
    write = sheets.write_synced

    def written_and_killed(*args: Any, **options: Any) -> None:
        write(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", written_and_killed)
        assert night.run().round.status == "interrupted"
    assert night.cell(1, "name") == "Store 1"
    night.box.put(changed(STORED, 2, name="Store 2")[1])
    assert night.run().round.status == "done"
    night.sheet.write_bytes(before)
    night.type(3, name="Sheet 3")
    assert night.run().round.status == "done"
    assert [night.stored()[n].name for n in (1, 2, 3)] == ["Store 1", "Store 2", "Sheet 3"]
    assert night.said() == night.stored()


@pytest.mark.parametrize("was_written", [False, True])
def test_the_file_of_before_a_killed_round_is_a_backup(
    night: Typed, monkeypatch: pytest.MonkeyPatch, was_written: bool
) -> None:
    """The file from before a killed round is recognised as a backup, whether or not the round wrote
    the sheet: values sent since are not reverted.
    """
    before = night.sheet.read_bytes()
    night.box.put(changed(STORED, 1, name="Store 1")[0])
    with monkeypatch.context() as patch:
        (_killed_before_the_base if was_written else _killed_before_the_sheet)(night, patch)
    if not was_written:
        night.box.put(STORED[0])
    night.type(2, name="Rex")
    with monkeypatch.context() as patch:
        if was_written:
            _killed_before_the_base(night, patch)
        else:
            assert night.run().round.status == "done"
    assert night.stored()[2].name == "Rex"
    night.sheet.write_bytes(before)
    assert night.run().round.status == "done"
    assert night.said()[2].name == night.stored()[2].name == "Rex"
    assert night.said() == night.stored()


def test_the_number_of_a_category_that_was_away_reverts_nothing(night: Typed) -> None:
    """The old category id that is restored with its column does not revert a name that a round
    wrote meanwhile.
    """
    numbers = night.cut("category_id")
    night.box.put(changed(STORED, 1, category=CATS)[0])
    night.run()
    assert night.cell(1, "category") == "Cats"
    night.paste(numbers)
    assert night.run().round.to_store.total == 0
    assert night.stored()[1].category == CATS
    assert night.cell(1, "category_id") == "2"


@pytest.mark.parametrize("broken", [None, "sheet", "base"])
@pytest.mark.parametrize("cells", [{"category": "Cats"}, {"category": "Fish"}])
def test_a_category_named_while_its_number_was_away_stays(
    night: Typed, monkeypatch: pytest.MonkeyPatch, cells: dict[str, str], broken: str | None
) -> None:
    """The old category id that is restored with its column does not revert a name that was typed
    meanwhile, also after a killed round.
    """
    numbers = night.cut("category_id")
    night.type(1, **cells)
    with monkeypatch.context() as patch:
        if broken == "sheet":
            _killed_before_the_base(night, patch)
        elif broken == "base":
            patch.setattr(Versions, "agree", Mock(side_effect=KeyboardInterrupt))
            assert night.run().round.status == "interrupted"
        else:
            assert night.run().round.status == "done"
    meant = night.stored()[1].category
    assert meant is not None
    assert meant.name == cells["category"]
    night.paste(numbers)
    for _ in range(2):
        assert night.run().round.status in ("done", "in-sync")
        assert night.stored()[1].category == meant
    assert night.cell(1, "category_id") == ("" if meant.id is None else str(meant.id))


def test_a_column_that_never_was_there_is_an_edit(night: Typed) -> None:
    """The cells of a column that is added to a sheet are edits."""
    night.cut("status")
    shutil.rmtree(night.state)
    night.run()
    night.box.put(changed(STORED, 1, status="sold")[0])
    night.run()
    night.paste({"status": ["pending"] * 12})
    assert night.run().round.status == "done"
    assert {pet.status for pet in night.box.pets()} == {"pending"}


@pytest.mark.parametrize("mode", ["two-way", "push", "pull"])
@pytest.mark.parametrize("how", ["renamed", "cut", "emptied"])
def test_a_sheet_that_lost_its_ids_is_refused(night: Typed, how: str, mode: str) -> None:
    """A sheet without its ids is refused with exit code 4, both sides stay unchanged, and the new
    header is named.
    """
    night.run(mode=mode)
    if how == "renamed":
        night.rename("id", "Nummer")
    else:
        ids = night.cut("id")["id"]
        if how == "emptied":
            night.paste({"id": [""] * len(ids)})
    header, first, *rest = night.rows()
    first[header.index("name")] = "Rex"
    night.save([header, first, *rest])
    before = night.sheet.read_bytes()
    for _ in range(2):
        report = night.run(mode=mode, delete_missing=True)
        assert (report.round.status, report.round.exit_code) == ("refused", 4)
    assert (night.sheet.read_bytes(), night.stored()) == (before, {p.id: p for p in STORED})
    if how == "renamed":
        assert "'Nummer'" in report.round.problem
        assert '[columns] "Nummer" = "id"' in report.round.hint
        assert night.run(mode=mode, columns={"Nummer": "id"}).round.status in ("done", "in-sync")


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_number_beside_the_category_of_a_row_that_was_added_by_hand_is_no_edit(
    night: Typed, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """The old category id in a row that a manual run added, and that has no id yet, is not an edit
    when a round sends another cell.
    """
    rows = night.rows()
    night.save([*rows, [{**NEW_ROW, "category_id": "1"}.get(name, "") for name in rows[0]]])
    _apply_by_hand(night)
    (number,) = night.stored().keys() - {pet.id for pet in STORED}
    _without_id(night, "Neu", photo_urls="https://shop.example/new.jpg")
    with monkeypatch.context() as patch:
        if is_killed:
            _killed_before_the_base(night, patch)
    for _ in range(2):
        assert night.run().round.exit_code == 0
    pet = night.stored()[number]
    assert (pet.category, len(pet.photo_urls)) == (CATS, 1)


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
    night: Typed, sheet: str, store: str, result: str, *, is_moved: bool
) -> None:
    """A row that a manual run added without writing its id is compared with what was sent: an edit
    of one side reaches the other, and edits of one cell on both sides are a lasting conflict.
    """
    header, *rows = night.rows()
    night.save([header, *rows, [NEW_ROW.get(name, "") for name in header]])
    _apply_by_hand(night)
    (number,) = night.stored().keys() - {pet.id for pet in STORED}
    if store:
        night.box.put(changed([night.stored()[number]], number, status=store)[0])
    status = {"status": sheet} if sheet else {}
    _without_id(night, "Neu", photo_urls="https://shop.example/new.jpg", **status)
    if is_moved:
        header, *rows = night.rows()
        night.save([header, rows[-1], *rows[:-1]])
    for _ in range(3):
        report = night.run()
        assert (("conflict", number) in kinds(report)) is (result == "conflict")
        assert night.stored()[number].status == (store if result == "conflict" else result)
        assert night.cell(number, "status") == (sheet if result == "conflict" else result)
        assert len(night.stored()[number].photo_urls) == 1


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize(("blank", "text"), [("category", "Dogs"), ("category_id", "1")])
def test_what_is_typed_beside_a_cell_that_a_round_wrote_is_an_edit(
    night: Typed, monkeypatch: pytest.MonkeyPatch, blank: str, text: str, is_killed: bool
) -> None:
    """A value that is typed into the blank cell of a category after a round wrote the other cell is
    an edit: it is sent or a conflict.
    """
    night.type(1, **{blank: ""})
    assert night.run().round.exit_code == 0
    night.box.put(changed(STORED, 1, category=CATS)[0])
    with monkeypatch.context() as patch:
        if is_killed:
            _killed_before_the_base(night, patch)
        else:
            assert night.run().round.exit_code == 0
    assert night.cell(1, blank) == ""
    night.type(1, **{blank: text})
    report = night.run()
    assert night.cell(1, blank) == text
    assert night.stored()[1].category == DOGS or ("conflict", 1) in kinds(report)


@pytest.mark.parametrize("edited", [True, False])
@pytest.mark.parametrize("column", ["tags", "status", "category"])
def test_a_row_stays_while_an_edit_of_it_may_be_under_another_header(
    night: Typed, column: str, edited: bool
) -> None:
    """The row of a deleted pet is in conflict while an edit may be under an unknown header; then
    the row is removed if it is unedited.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    if edited:
        night.type(1, **{column: {"tags": "loud", "status": "sold", "category": "Cats"}[column]})
    night.rename(column, "Zettel")
    night.box.remove(1)
    report = night.run()
    assert (report.round.status, 1 in night.said()) == ("findings", True)
    assert ("conflict", 1) in kinds(report)
    night.rename("Zettel", column)
    report = night.run()
    assert (report.round.exit_code, 1 in night.said()) == ((5, True) if edited else (0, False))
    assert 1 not in night.stored()


def test_an_open_sheet_ends_the_round_before_anything_is_sent(night: Typed) -> None:
    """A sheet that is open in another program ends the round before anything is sent, even if only
    the store would change.
    """
    night.type(1, name="Rex")
    lock = night.sheet.with_name(f".~lock.{night.sheet.name}#")
    lock.write_text(",ada,", "utf-8")
    report = night.run()
    assert (report.round.status, report.round.applied, report.round.runs) == ("error", 0, ())
    assert night.stored()[1].name == "Pet 1"
    lock.unlink()
    assert night.run().round.status == "done"


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("edited", [False, True])
def test_a_deleted_pet_does_not_come_back_as_its_row_moves(
    night: Typed, deletes: bool, edited: bool
) -> None:
    """A deleted pet is not added again when its row moves to another sheet of the folder; an edited
    row is a conflict.
    """
    folder = night.folder / "in"
    folder.mkdir()

    def write(name: str, pets: list[ps.Pet]) -> None:
        ps.write_sheet(ps.frame_from_pets(pets), folder / name, base=False)

    def rounds() -> list[str]:
        job = night.job("inbox", folder=folder, sheet=None, files="*.csv", delete_missing=deletes)
        return [report.round.status for report in reconcile_jobs(night.config(job))]

    write("a.csv", STORED[:6])
    write("b.csv", STORED[6:])
    assert rounds() == ["in-sync", "in-sync"]
    night.box.remove(5)
    night.box.remove(8)
    moved = changed(STORED, 5, name="Rex") if edited else STORED
    write("a.csv", [*STORED[:4], STORED[5], STORED[7]])
    write("b.csv", [STORED[6], *STORED[8:], moved[4]])
    for _ in range(2):
        assert ("conflicts" in rounds()) is edited
        assert {5, 8}.isdisjoint(night.stored())


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
def test_one_pet_as_in_a_backup_is_a_conflict(night: Typed, newer: dict[str, Any]) -> None:
    """A single pet with the values of a backup is a conflict: the store's newer values stay until
    it is decided, and nothing is merged.
    """
    night.box.put(changed(STORED, 1, **newer)[0])
    first = night.run()
    cells = {name: night.cell(1, name) for name in (*newer, "category_id")}
    shutil.copy(first.round.backup, night.sheet)
    night.type(2, name="Sheet 2")
    before = {name: night.cell(1, name) for name in cells}
    for _ in range(2):
        report = night.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
        assert report.open[0].problem.count("it is unknown which is newer") == len(newer)
        assert night.stored()[1] == changed(STORED, 1, **newer)[0]
        assert night.stored()[2].name == "Sheet 2"
        assert {name: night.cell(1, name) for name in cells} == before
        night.box.put(changed(STORED, 3, name="Store 3")[2])
    assert night.said()[3].name == "Store 3"
    night.type(1, **cells)
    again = night.run()
    assert (again.round.status, again.open) == ("in-sync", ())


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_row_in_conflict_that_is_removed_deletes_nothing(night: Typed, is_settled: bool) -> None:
    """A removed row whose pet was in conflict deletes nothing; after the conflict is resolved, the
    removed row deletes its pet.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    newer = changed(STORED, 1, name="Store 1")[0]
    night.box.put(newer)
    first = night.run()
    shutil.copy(first.round.backup, night.sheet)
    night.type(2, name="Sheet 2")
    assert kinds(night.run()) == [("conflict", 1)]
    if is_settled:
        night.type(1, name="Store 1")
        assert night.run().round.status == "in-sync"
    rows = night.rows()
    night.save([row for row in rows if row[0] != "1"])
    for _ in range(2):
        report = night.run()
        if is_settled:
            assert (report.open, 1 in night.stored()) == ((), False)
        else:
            assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
            assert "the store's name may be newer than the row's" in report.open[0].problem
            assert night.stored()[1] == newer
    if not is_settled:
        night.save(rows)
        night.type(1, name="Store 1")
        assert night.run().round.status == "in-sync"


def test_a_number_that_a_killed_round_wrote_is_edited(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit of a category id that a killed round wrote is not reverted."""
    night.box.put(changed(STORED, 1, category=CATS)[0])
    write = sheets.write_synced

    def write_and_die(*args: Any, **options: Any) -> None:
        write(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", write_and_die)
        assert night.run().round.status == "interrupted"
    assert night.cell(1, "category_id") == "2"
    night.type(1, category_id="411")
    for _ in range(2):
        report = night.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
        assert night.cell(1, "category_id") == "411"
        assert night.stored()[1].category == CATS


def test_a_pet_whose_row_may_be_held_becomes_no_second_row(night: Typed) -> None:
    """A row of a backup that may be a pet's row is held after edits, and the pet gets no second
    row.
    """
    header, *rows = night.rows()
    cells = {"name": "Ida", "status": "sold", "category": "Dogs", "tags": "calm; shy"}
    night.save([header, *rows, [cells.get(name, "") for name in header]])
    before = night.run().round.backup
    added = max(night.stored())
    night.type(2, name="Rex")
    assert night.run().round.status == "done"
    shutil.copy(before, night.sheet)
    header, *rows = night.rows()
    edited = {"name": "Zoe", "category": "Cats", "tags": "small"}
    row = [edited.get(name, "") for name in header]
    night.save([header, *reversed(rows[:-1]), row])
    for _ in range(2):
        report = night.run()
        assert report.round.status == "conflicts"
        assert added in {each.pet_id for each in report.open}
        assert str(added) not in {row[0] for row in night.rows()}
        assert len(night.stored()) == len(PETS) + 1


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("meanwhile", ["sends", "sends nothing", "renames the row"])
def test_a_row_in_doubt_is_no_new_one_once_the_pet_is_deleted(
    night: Typed, others: int, is_away: bool, meanwhile: str
) -> None:
    """A row in conflict because it may be a pet is not added once that pet is deleted, until it has
    the action `add-another`. That holds even if the round that held it sent nothing, or if the row
    was renamed since.
    """
    header, *rows = night.rows()
    photo = "https://shop.example/ida.jpg"
    cells = {"name": "Ida", "status": "available", "category": "Dogs", "photo_urls": photo}
    more = [{"name": f"Other {n}", "status": "sold", "category": "Cats"} for n in range(others)]
    typed = [[each.get(name, "") for name in header] for each in (cells, *more)]
    night.save([header, *rows[:4], *typed, *rows[4:]])
    before = night.run().round.backup
    added = sorted(night.stored())[-1 - others]
    shutil.copy(before, night.sheet)
    header, *rows = night.rows()
    at = header.index("name")
    rows = [[*row[:at], "Zoe", *row[at + 1 :]] if row[at] == "Ida" else row for row in rows]
    night.save([header, *(sorted(rows, key=lambda row: row[at], reverse=True))])
    if meanwhile != "sends nothing":
        night.type(2, name="Rex")
    report = night.run()
    assert report.round.status == "conflicts"
    assert ("conflict", added) in kinds(report)
    night.box.remove(added)
    if is_away:
        night.cut("photo_urls")
    name = "Zoe"
    if meanwhile == "renames the row":
        name = "Emil"
        header, *rows = night.rows()
        next(row for row in rows if "Zoe" in row)[header.index("name")] = name
        night.save([header, *rows])
    for _ in range(2):
        report = night.run()
        gone = [each for each in report.open if each.pet_id == added and each.kind == "conflict"]
        assert report.round.status == "conflicts"
        assert "that pet is no longer in the store" in gone[0].problem
        assert len(night.stored()) == len(PETS) + others
    header, *rows = night.rows()
    at, action = header.index("name"), header.index("action")
    next(row for row in rows if row[at] == name)[action] = "add-another"
    night.save([header, *rows])
    assert night.run().round.status == "done"
    assert [pet.name for pet in night.stored().values()].count(name) == 1
    assert night.run().round.status == "in-sync"


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
    night: Typed, column: str, newer: dict[str, Any], is_back: bool
) -> None:
    """A removed row deletes nothing if its pet changed in a column that is away, because the sheet
    did not show the change.
    """
    stored = changed(STORED, 1, **newer)[0]
    cut = night.cut(column)
    night.box.put(stored)
    night.run(delete_missing=True)
    header, first, *rows = night.rows()
    assert first[0] == "1"
    night.save([header, *rows])
    if is_back:
        night.paste({column: cut[column][1:]})
    for _ in range(3):
        report = night.run(delete_missing=True)
        assert (report.round.status, kinds(report)[0]) == ("conflicts", ("conflict", 1))
        assert column in report.open[0].problem
        assert night.stored()[1] == stored


@pytest.mark.parametrize("column", ["tags", "photo_urls", "name", "category"])
def test_a_doubt_stays_while_its_column_is_away(night: Typed, column: str) -> None:
    """A conflict about a value of a backup stays when its column is removed and restored."""
    newer = {
        "name": "Store 1",
        "category": CATS,
        "tags": (ps.Tag(2, "shy"),),
        "photo_urls": ("https://shop.example/new.jpg",),
    }
    stored = changed(STORED, 1, **{column: newer[column]})[0]
    night.box.put(stored)
    first = night.run()
    shutil.copy(first.round.backup, night.sheet)
    night.type(2, status="pending")
    assert kinds(night.run()) == [("conflict", 1)]
    cut = night.cut(column)
    for status in ("pending", "sold"):
        night.box.put(changed(STORED, 3, status=status)[2])
        assert night.run().round.to_sheet.total == 1
    night.paste(cut)
    for _ in range(2):
        assert kinds(night.run()) == [("conflict", 1)]
        assert night.stored()[1] == stored


@pytest.mark.parametrize("winner", ["sheet", "store"])
def test_a_job_may_say_who_wins_in_a_backup(night: Typed, winner: str) -> None:
    """`on_conflict` decides conflicts with a backup, also those of tags and photos, which are
    otherwise merged.
    """
    night.box.put(changed(STORED, 1, tags=(ps.Tag(2, "shy"),), photo_urls=())[0])
    first = night.run()
    shutil.copy(first.round.backup, night.sheet)
    night.type(2, name="Sheet 2")
    assert night.run(on_conflict=winner).round.status == "done"
    names = {tag.name for tag in night.stored()[1].tags}
    assert (names, len(night.stored()[1].photo_urls)) == (
        ({"calm"}, 1) if winner == "sheet" else ({"shy"}, 0)
    )
    again = night.run()
    assert (again.round.status, again.open) == ("in-sync", ())


def test_an_older_row_of_a_pet_that_was_added_since_is_a_conflict(night: Typed) -> None:
    """A row of a backup from before its pet was added is a conflict in each different field: the
    value may be older or edited, so it is neither sent nor replaced.
    """
    row = ["", "Neu", "", "Cats", "2", "shy", ""]
    header = night.rows()[0]
    names = ("id", "name", "status", "category", "category_id", "tags", "photo_urls")
    cells = dict(zip(names, row, strict=True))
    night.save([*night.rows(), [cells.get(name, "") for name in header]])
    for pet_id in (5, 6):
        night.box.put(changed(STORED, pet_id, name=f"Store {pet_id}")[pet_id - 1])
    first = night.run()
    assert ("conflict", None) in kinds(first)
    _without_id(night, "Neu", status="sold", tags="shy; young")
    assert night.run().round.status == "done"
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    shutil.copy(first.round.backup, night.sheet)
    _without_id(night, "Neu", status="pending")
    for _ in range(2):
        report = night.run()
        conflicts = [each for each in report.open if each.kind == "conflict"]
        assert (report.round.status, len(conflicts)) == ("conflicts", 1)
        assert conflicts[0].pet_id == added.id
        assert set(conflicts[0].fields) == {"status", "tags"}
        assert night.stored()[added.id or 0] == added
        assert night.cell(added.id or 0, "tags") == "shy"
        assert night.stored()[5].name == night.said()[5].name == "Store 5"
    night.type(added.id or 0, status="sold", tags="shy; young")
    assert night.run().round.status in ("in-sync", "done")
    assert night.stored()[added.id or 0] == added


def test_one_row_as_in_a_backup_is_a_conflict(night: Typed) -> None:
    """The pet of a single row that petsync wrote, and that is missing as in a backup, stays in
    conflict until it is decided.
    """
    options = {"delete_missing": True}
    night.box.put(ps.Pet(id=50, name="Neu", status="sold"))
    first = night.run(**options)
    shutil.copy(first.round.backup, night.sheet)
    night.type(2, name="Sheet 2")
    report = night.run(**options)
    assert report.round.status == "conflicts"
    assert ("conflict", 50) in kinds(report)
    assert (50 in night.said(), 50 in night.stored()) == (False, True)
    assert night.stored()[2].name == "Sheet 2"
    cells = dict(zip(night.rows()[0], ["50", "Neu", "sold"], strict=False))
    night.save([*night.rows(), [cells.get(column, "") for column in night.rows()[0]]])
    assert night.run(**options).round.status in ("done", "in-sync")
    assert night.said().keys() == night.stored().keys()


def test_a_row_that_petsync_took_out_does_not_bring_its_pet_back(night: Typed) -> None:
    """A row that petsync removed, and that an edited backup restores, is a conflict and adds its
    pet only with the action `add`.
    """
    options = {"delete_missing": True}
    night.box.remove(7)
    first = night.run(**options)
    shutil.copy(first.round.backup, night.sheet)
    night.type(2, name="Sheet 2")
    for _ in range(2):
        report = night.run(**options)
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 7)])
        assert 7 not in night.stored()
    night.type(7, action="add")
    assert night.run(**options).round.status == "done"
    assert 7 in night.stored()


def test_a_category_edited_by_its_number_waits_for_its_turn(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit of a category id is sent by the next round if a round fails after it recorded the
    sheet and before it sends.
    """
    night.type(1, category_id="2")
    with monkeypatch.context() as patch:
        patch.setattr(ps.Store, "apply", Mock(side_effect=SheetError("not now")))
        assert night.run().round.status == "error"
    assert night.run().round.status == "done"
    assert night.stored()[1].category == CATS


def test_an_unknown_category_number_stays_in_conflict(night: Typed) -> None:
    """An unknown category id stays in conflict while the round writes other cells and saves its
    base.
    """
    night.type(1, category_id="77")
    night.box.put(changed(STORED, 2, name="Store 2")[1])
    for _ in range(2):
        report = night.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
        assert night.cell(1, "category_id") == "77"


NEW_ROW = {"name": "Neu", "status": "sold", "category": "Cats", "category_id": "2"}


def _without_id(night: Typed, known: str, **cells: str) -> None:
    """Change cells of the row with this name, which has no id, and save the sheet."""
    rows = night.rows()
    row = next(row for row in rows if row[rows[0].index("name")] == known)
    assert not row[rows[0].index("id")]
    for column, text in cells.items():
        row[rows[0].index(column)] = text
    night.save(rows)


@pytest.mark.parametrize("mode", ["two-way", "push"])
@pytest.mark.parametrize(
    "broken", [_killed_before_the_sheet, _opened_in_mid_round, _backup_put_back]
)
def test_a_new_row_edited_behind_a_round_is_the_same_pet(
    night: Typed, monkeypatch: pytest.MonkeyPatch, broken: Break, mode: str
) -> None:
    """A new row whose id did not reach the sheet, or is gone from it, is still its pet's row, and
    its edit is sent.
    """
    night.options = {"mode": mode}
    night.run()
    rows = night.rows()
    night.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    with monkeypatch.context() as patch:
        if mode == "push" and broken is _opened_in_mid_round:
            patch.setattr(sheets, "write_synced", Mock(side_effect=SheetError("it is open")))
            assert night.run().round.status == "done"
        else:
            broken(night, patch)
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    _without_id(night, "Neu", name="Neuer", status="pending")
    report = night.run()
    assert report.round.status == "done"
    assert len(night.stored()) == len(STORED) + 1
    pet = night.stored()[added.id or 0]
    assert (pet.name, pet.status) == ("Neuer", "pending")
    assert night.cell(added.id or 0, "name") == "Neuer"
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize("mode", ["two-way", "push"])
@pytest.mark.parametrize("broken", [_killed_before_the_sheet, _backup_put_back])
def test_a_new_row_that_may_be_a_known_pet_is_a_conflict(
    night: Typed, monkeypatch: pytest.MonkeyPatch, broken: Break, mode: str
) -> None:
    """A new row that lost its id and is edited beyond recognition is a conflict in every round
    until it gets an id, and adds no second pet.
    """
    night.options = {"mode": mode, "delete_missing": True}
    night.run()
    rows = night.rows()
    night.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    with monkeypatch.context() as patch:
        broken(night, patch)
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    _without_id(night, "Neu", name="Ganz anders", status="pending", category="", category_id="")
    header, *rest = night.rows()
    night.save([header, *reversed(rest)])
    for _ in range(2):
        report = night.run()
        assert (report.round.status, kinds(report)[:1]) == ("conflicts", [("conflict", added.id)])
        assert len(night.stored()) == len(STORED) + 1
    _without_id(night, "Ganz anders", id=str(added.id))
    assert night.run().round.status == "done"
    assert night.stored()[added.id or 0].name == "Ganz anders"
    assert len(night.stored()) == len(STORED) + 1
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("broken", [_killed_before_the_sheet, _backup_put_back])
def test_a_row_that_got_the_id_of_a_known_pet_and_lacks_it_is_held(
    night: Typed, monkeypatch: pytest.MonkeyPatch, broken: Break, is_moved: bool
) -> None:
    """A row that a round recognised as a pet, but that lacks the id, is held after it is rewritten,
    and adds no second pet.
    """
    night.type(12, id="")
    with monkeypatch.context() as patch:
        broken(night, patch)
    cells = dict.fromkeys(("category", "category_id", "tags", "photo_urls"), "")
    _without_id(night, "Pet 12", name="Ganz anders", status="available", **cells)
    if is_moved:
        header, *rest = night.rows()
        night.save([header, *reversed(rest)])
    for _ in range(2):
        report = night.run()
        assert (report.round.status, kinds(report)[:1]) == ("conflicts", [("conflict", 12)])
        assert night.stored() == {pet.id: pet for pet in STORED}
    _without_id(night, "Ganz anders", id="12")
    assert night.run().round.status == "done"
    assert night.stored()[12].name == "Ganz anders"
    assert len(night.stored()) == len(STORED)


def test_a_backup_whose_new_row_lacks_its_id_is_known(night: Typed) -> None:
    """A backup from before two writes, with a new row without its id, is recognised after an edit:
    no sent value is reverted.
    """
    rows = night.rows()
    new = {**NEW_ROW, "category_id": "1"}
    night.save([*rows, [new.get(name, "") for name in rows[0]]])
    night.box.put(changed(STORED, 3, name="Store 3")[2])
    first = night.run()
    night.type(1, name="Sheet 1")
    night.box.put(changed(STORED, 4, name="Store 4")[3])
    assert night.run().round.status == "done"
    shutil.copy(first.round.backup, night.sheet)
    night.type(2, name="Sheet 2")
    report = night.run()
    assert any("a backup may have been restored" in each.problem for each in report.open)
    names = [night.stored()[number].name for number in (1, 2, 3, 4)]
    assert names == ["Sheet 1", "Sheet 2", "Store 3", "Store 4"]
    assert len(night.stored()) == len(STORED) + 1
    assert night.said() == night.stored()


@pytest.mark.parametrize("edited", [False, True])
def test_a_newer_backup_put_back_after_an_older_one_is_known(night: Typed, edited: bool) -> None:
    """A newer backup that is put back after an older one is recognised: no sent value is reverted,
    and no added pet is deleted.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    night.box.put(changed(STORED, 3, name="Store 3")[2])
    older = night.run().round.backup
    night.type(5, name="Sheet 5")
    night.box.put(changed(STORED, 4, name="Store 4")[3])
    newer = night.run().round.backup
    shutil.copy(older, night.sheet)
    night.run()
    night.type(1, name="Sheet 1")
    night.type(2, name="Sheet 2")
    rows = night.rows()
    night.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    assert night.run().round.status == "done"
    shutil.copy(newer, night.sheet)
    if edited:
        night.type(6, name="Sheet 6")
    report = night.run()
    assert any("a backup may have been restored" in each.problem for each in report.open)
    names = [night.stored()[number].name for number in range(1, 7)]
    sixth = "Sheet 6" if edited else "Pet 6"
    assert names == ["Sheet 1", "Sheet 2", "Store 3", "Store 4", "Sheet 5", sixth]
    assert len(night.stored()) == len(STORED) + 1
    assert night.said() == night.stored()
    again = night.run()
    assert (again.round.status, again.open) == ("in-sync", ())


def test_a_new_row_in_the_place_of_another_is_not_that_pet(night: Typed) -> None:
    """A new row in the place of a removed row that had an id is a conflict until it is decided, and
    no pet takes the values of another.
    """
    rows = night.rows()
    more = {"tags": "old; shy", "photo_urls": "https://shop.example/new.jpg"}
    night.save([*rows, [{**NEW_ROW, **more}.get(name, "") for name in rows[0]]])
    assert night.run().round.status == "done"
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    other = {
        **NEW_ROW,
        "name": "Minka",
        "tags": "young",
        "photo_urls": "https://shop.example/m.jpg",
    }
    night.save([*rows, [other.get(name, "") for name in rows[0]]])
    report = night.run()
    assert night.stored()[added.id or 0] == added
    assert report.round.status == "conflicts"
    _without_id(night, "Minka", action="add-another")
    assert night.run().round.status == "done"
    assert night.stored()[added.id or 0] == added
    assert [pet.name for pet in night.box.pets()].count("Minka") == 1


@pytest.mark.parametrize("at", ["in its place", "elsewhere"])
def test_a_new_row_after_one_that_had_its_id_is_new(night: Typed, at: str) -> None:
    """A sheet with values that a round wrote later is not a backup, so a row that is typed after a
    row with an id was removed is new.
    """
    rows = night.rows()
    night.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    assert night.run().round.status == "done"
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    night.box.put(changed(STORED, 3, name="Store 3")[2])
    assert night.run().round.status == "done"
    header, *rest = (row for row in night.rows() if row[1] != "Neu")
    minka = [{**NEW_ROW, "name": "Minka"}.get(name, "") for name in header]
    night.save([header, *rest, minka] if at == "in its place" else [header, minka, *rest])
    report = night.run()
    assert (report.round.status, {kind for kind, _ in kinds(report)}) == ("done", {"note"})
    assert night.stored()[added.id or 0] == added
    assert [pet.name for pet in night.box.pets()].count("Minka") == 1
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize("since", ["nothing", "an edit", "a photo"])
@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_a_row_with_another_name_takes_no_pet_whose_row_had_its_id(
    night: Typed, mode: str, since: str
) -> None:
    """A row with another name in the place of a removed row is a new pet, or a conflict where the
    sheet may be a backup, and never changes the removed row's pet.
    """
    rows = night.rows()
    night.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    assert night.run(mode=mode).round.status == "done"
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    if since == "a photo":
        added = changed([added], added.id or 0, photo_urls=("https://shop.example/neu.jpg",))[0]
        night.box.put(added)
    header, *rest = night.rows()
    if since == "an edit":
        at = header.index("name")
        rest = [[*row[:at], "Edited", *row[at + 1 :]] if row[0] == "3" else row for row in rest]
        night.save([header, *rest])
    night.run(mode=mode)
    header, *rest = (row for row in night.rows() if row[1] != "Neu")
    night.save([header, *rest, [{**NEW_ROW, "name": "Minka"}.get(n, "") for n in header]])
    report = night.run(mode=mode)
    assert night.stored()[added.id or 0] == added
    is_new = [pet.name for pet in night.box.pets()].count("Minka") == 1
    assert is_new == (report.round.status == "done") or mode == "push"
    assert is_new or report.round.status == "conflicts"
    if since == "an edit":
        assert is_new


def test_a_row_of_a_backup_stays_held_whatever_is_written_beside_it(night: Typed) -> None:
    """A held row of a backup stays in conflict while later rounds write to the sheet, and adds no
    second pet.
    """
    rows = night.rows()
    night.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    _backup_put_back(night, pytest.MonkeyPatch())
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    _without_id(night, "Neu", name="Ganz anders", status="pending", category="", category_id="")
    header, *rest = night.rows()
    night.save([header, *reversed(rest)])
    for number in (3, 4, 5):
        night.box.put(changed(STORED, number, name=f"Store {number}")[number - 1])
        report = night.run()
        assert ("conflict", added.id) in kinds(report)
        assert night.said()[number].name == f"Store {number}"
        assert len(night.stored()) == len(STORED) + 1


@pytest.mark.parametrize("names", [("tags",), ("photo_urls",), ("category", "category_id")])
def test_a_column_that_comes_back_blank_is_filled(night: Typed, names: tuple[str, ...]) -> None:
    """A blank cell of a column that is restored takes the store's present value."""
    night.type(1, **{names[0]: "[clear]"})
    night.run()
    night.type(1, **dict.fromkeys(names, ""))
    night.run()
    columns = night.cut(*names)
    assert {cells[0] for cells in columns.values()} == {""}
    new = {"tags": (ps.Tag(9, "new"),), "photo_urls": ("/new.jpg",), "category": CATS}
    stored = changed(list(night.stored().values()), 1, **{names[0]: new[names[0]]})[0]
    night.box.put(stored)
    night.run()
    night.paste(columns)
    assert night.run().round.status == "done"
    assert night.said()[1] == night.stored()[1] == stored
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize("mode", ["two-way", "push"])
@pytest.mark.parametrize("names", [["New 1", "New 2"], ["New 1", "New 2", "New 3"]])
def test_an_edited_older_copy_deletes_no_pets_that_were_added_since(
    night: Typed, mode: str, names: list[str]
) -> None:
    """Rows that got their ids since and are all missing show that the sheet may be an older copy:
    their pets stay, in conflict, although the copy was edited.
    """
    night.options = {"mode": mode, "delete_missing": True}
    night.run()
    rows = night.rows()
    width = len(rows[0])
    night.save([*rows, *(["", name, "sold", *[""] * (width - 3)] for name in names)])
    assert night.run().round.exit_code == 0
    added = night.stored().keys() - {pet.id for pet in STORED}
    assert len(added) == len(names)
    night.save(rows)
    night.type(1, name="Sheet 1")
    report = night.run()
    assert night.stored().keys() >= added
    conflicts = {each.pet_id: each.problem for each in report.open if each.kind == "conflict"}
    assert conflicts.keys() == added
    assert all("the sheet is an older copy" in problem for problem in conflicts.values())
    assert night.stored()[1].name == "Sheet 1"
    night.type(2, name="Sheet 2")
    assert {i for kind, i in kinds(night.run()) if kind == "conflict"} == added
    assert night.stored().keys() >= added


def test_one_added_row_that_is_removed_deletes_its_pet(night: Typed) -> None:
    """One pet alone is an edit: its row, which was removed after it got its id, deletes it."""
    night.options = {"mode": "two-way", "delete_missing": True}
    rows = night.rows()
    night.save([*rows, ["", "New 1", "sold", *[""] * (len(rows[0]) - 3)]])
    night.run()
    night.save(rows)
    night.type(1, name="Sheet 1")
    assert night.run().round.exit_code == 0
    assert night.stored().keys() == {pet.id for pet in STORED}


@pytest.mark.parametrize("broken", BREAKS[:3])
@pytest.mark.parametrize("is_again", [True, False])
def test_a_row_that_lacks_its_id_in_a_copy_reverts_nothing(
    night: Typed, monkeypatch: pytest.MonkeyPatch, broken: Break, is_again: bool
) -> None:
    """A copy from before a row got its id is put back a second time, and the round is interrupted:
    the row is compared by its own values, not by those that it got after the first time.
    """
    rows = night.rows()
    night.save([*rows, ["", "Neu", "available", "", "", "shy", *[""] * (len(rows[0]) - 6)]])
    copy = night.sheet.read_bytes()
    assert night.run().round.exit_code == 0
    (pet_id,) = night.stored().keys() - {pet.id for pet in STORED}
    if is_again:
        night.sheet.write_bytes(copy)
        night.box.put(changed([*night.stored().values()], 1, name="Store 1")[0])
        night.run()
    night.sheet.write_bytes(copy)
    edited = night.rows()
    edited[-1][2], edited[-1][5] = "pending", "shy; young"
    night.save(edited)
    assert night.run().round.exit_code == 0
    news = changed([*night.stored().values()], 2, status="sold", name="Store 2")[1]
    night.box.put(news)
    assert night.run().round.exit_code == 0
    stored = night.stored()
    assert (stored[pet_id].status, len(stored[pet_id].tags)) == ("pending", 2)
    night.sheet.write_bytes(copy)
    night.type(3, name="Sheet 3")
    with monkeypatch.context() as patch:
        broken(night, patch)
    night.run()
    assert night.stored()[pet_id] == stored[pet_id]
    assert night.stored()[2] == news


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


@pytest.mark.parametrize("by", ["round", "person"])
@pytest.mark.parametrize("names", AWAY)
def test_a_row_that_came_while_a_column_was_away_is_filled(
    night: Typed, names: tuple[str, ...], by: str
) -> None:
    """The blank cells of a row that came while a column had another header take the store's values
    once the column is back, whoever added the row.
    """
    night.box.put(NEW)
    for name in names:
        night.rename(name, f"{name} 2")
    if by == "person":
        night.save([*night.rows(), ["99", "Nora", *[""] * (len(night.rows()[0]) - 2)]])
    assert night.run().round.status == "findings"
    assert NEW.id in night.said()
    for name in names:
        night.rename(f"{name} 2", name)
    assert night.run().round.status == "done"
    assert night.said()[99] == night.stored()[99] == NEW
    assert night.run().round.status == "in-sync"


def test_an_edit_of_a_row_that_came_while_its_column_was_away_removes_no_tag(night: Typed) -> None:
    """A tag that is typed into the blank cell of such a row joins the store's tags."""
    night.box.put(NEW)
    night.rename("tags", "labels")
    night.run()
    night.rename("labels", "tags")
    night.type(99, tags="old")
    assert night.run().round.status == "done"
    assert {tag.name for tag in night.stored()[99].tags} == {"calm", "shy", "old"}
    assert night.said()[99] == night.stored()[99]


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
    night: Typed, column: str, new: Any, typed: str, merged: set[str] | None
) -> None:
    """A cell that a person blanked stays blank. What the store changed since is kept, or in
    conflict, when a person writes into the cell.
    """
    cells = ("category", "category_id") if column == "category" else (column,)
    night.type(1, **dict.fromkeys(cells, ""))
    night.run()
    stored = changed(STORED, 1, **{column: new})[0]
    night.box.put(stored)
    for _ in range(2):
        assert night.run().round.status == "in-sync"
        assert night.cell(1, column) == ""
    night.type(1, **{column: typed})
    untouched = {"calm"} if column == "photo_urls" else {*STORED[0].photo_urls}
    report = night.run()
    pet = night.stored()[1]
    if merged is None:
        assert (kinds(report), pet) == ([("conflict", 1)], stored)
    else:
        assert merged == {*pet.photo_urls, *(tag.name for tag in pet.tags)} - untouched
        assert night.said()[1] == pet


def test_a_blank_cell_whose_pet_changes_in_mid_round_is_filled(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank cells of a pet that the store changes right after the round wrote the sheet are filled
    by the next round.
    """
    fields = {"tags": (), "photo_urls": (), "category": None}
    night.box.put(changed(STORED, 1, **fields)[0])
    night.type(1, tags="", photo_urls="", category="", category_id="")
    night.type(1, **dict.fromkeys(("tags", "photo_urls", "category"), "[clear]"))
    night.run()
    night.type(1, **dict.fromkeys(("tags", "photo_urls", "category", "category_id"), ""))
    assert night.run().round.status == "in-sync"
    write = sheets.write_synced
    full = {"tags": (ps.Tag(9, "new"),), "photo_urls": ("/new.jpg",), "category": CATS}

    def written(*args: Any, **options: Any) -> Any:
        done = write(*args, **options)
        night.box.put(changed(STORED, 1, **full)[0])
        return done

    night.box.put(changed(STORED, 3, name="Store 3")[2])
    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", written)
        night.run()
    assert (night.cell(3, "name"), night.cell(1, "tags")) == ("Store 3", "")
    night.run()
    cells = [night.cell(1, name) for name in ("tags", "photo_urls", "category", "category_id")]
    assert cells == ["9:new", "/new.jpg", "Cats", "2"]
    assert night.run().round.status == "in-sync"


def test_a_blank_cell_beside_nothing_is_filled(night: Typed) -> None:
    """A tag without name and id and the category id 0 count as no value, so blank cells take the
    store's later values.
    """
    nothing = {"tags": (ps.Tag(0, ""),), "category": ps.Category(0, "")}
    night.box.put(changed(STORED, 1, **nothing)[0])
    night.run()
    night.type(1, tags="", category="", category_id="")
    for _ in range(2):
        assert night.run().round.status == "in-sync"
    night.box.put(changed(STORED, 1, category=CATS)[0])
    report = night.run()
    assert (report.round.status, night.cell(1, "tags")) == ("done", "1:calm")
    assert (night.cell(1, "category"), night.cell(1, "category_id")) == ("Cats", "2")


def test_a_killed_run_that_was_undone_is_not_resumed(night: Typed) -> None:
    """A killed run that was undone is not resumed: the next round makes a new plan, and the undo is
    a change of the store.
    """
    night.options = {**STOPS, "delete_missing": True}
    night.type(1, name="Rex")
    night.save(night.rows()[:-1])
    night.box.break_with("503=1,only=deletePet")
    report = night.run()
    night.box.break_with(None)
    assert report.round.status == "interrupted"
    with ps.connect(night.box.url, state=night.state) as store:
        store.apply(store.undo(report.round.runs[0]), progress=False)
    assert night.stored()[1].name == "Pet 1"
    again = night.run()
    assert again.round.resumed == 0
    assert night.stored()[1].name == "Pet 1"
    assert night.said() == night.stored()


def _taken_back(_: Typed, store: ps.Store, run: str) -> None:
    store.apply(store.undo(run), progress=False)


def _set_back(night: Typed, store: ps.Store, _: str) -> None:
    night.type(1, name="Pet 1")
    rows = night.rows()
    night.save([*rows[:-1], ["12", "Pet 12", *rows[-1][2:]]])
    store.apply(store.plan(night.sheet), progress=False)


@pytest.mark.parametrize("is_begun", [True, False])
@pytest.mark.parametrize("take_back", [_taken_back, _set_back])
def test_a_killed_round_sends_nothing_that_was_sent_by_hand_and_taken_back_since(
    night: Typed, take_back: Callable[[Typed, ps.Store, str], None], is_begun: bool
) -> None:
    """A killed round does not send an edit that was applied manually and taken back since, whether
    or not its run had begun the change.
    """
    night.options = STOPS
    night.type(1, name="Rex")
    night.type(12, name="Zoe")
    night.box.break_with("503=1,only=updatePet+updatePetWithForm")
    assert night.run().round.status == "interrupted"
    night.box.break_with(None)
    with ps.connect(night.box.url, state=night.state) as store:
        run = store.apply(store.plan(night.sheet), progress=False).run_id
        assert night.stored()[1].name == "Rex"
        take_back(night, store, run)
    assert night.run().round.exit_code == 0
    number = 1 if is_begun else 12
    assert night.stored()[number].name == night.said()[number].name == f"Pet {number}"


@pytest.mark.parametrize("take_back", [_taken_back, _set_back])
def test_a_run_that_is_resumed_sends_nothing_that_was_taken_back_since(
    night: Typed, take_back: Callable[[Typed, ps.Store, str], None]
) -> None:
    """A resumed run sends nothing for a pet that a later run and its undo, or a further run,
    changed.
    """
    night.type(1, name="Rex")
    night.type(12, name="Zoe")
    with ps.connect(night.box.url, state=night.state, timeout=30) as store:
        night.box.break_with("503=1,only=updatePet+updatePetWithForm")
        with pytest.raises(InterruptedRunError) as stopped:
            store.apply(store.plan(night.sheet), concurrency=1, max_failures=0, progress=False)
        night.box.break_with(None)
        report = stopped.value.report
        assert isinstance(report, Report)
        take_back(night, store, store.apply(store.plan(night.sheet), progress=False).run_id)
        resumed = store.resume(report.run_id, progress=False)
    assert [each.cause for each in resumed.results] == ["superseded"] * 2
    assert [night.stored()[number].name for number in (1, 12)] == ["Pet 1", "Pet 12"]


def test_a_killed_round_deletes_no_pet_that_was_deleted_by_hand_and_brought_back(
    night: Typed,
) -> None:
    """A killed round does not repeat a delete that was applied manually and undone, and the row is
    restored.
    """
    night.options = {**STOPS, "delete_missing": True}
    night.save(night.rows()[:-1])
    night.box.break_with("503=1,only=deletePet")
    assert night.run().round.status == "interrupted"
    night.box.break_with(None)
    with ps.connect(night.box.url, state=night.state) as store:
        plan = store.plan(night.sheet, delete_missing=True)
        _taken_back(night, store, store.apply(plan, progress=False).run_id)
    assert night.run().round.exit_code == 0
    assert night.stored()[12] == night.said()[12] == STORED[11]


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_an_add_that_was_undone_is_not_made_again(
    night: Typed, monkeypatch: pytest.MonkeyPatch, edited: bool, killed: bool
) -> None:
    """An add that was undone is not repeated: its row, with or without an id, is removed, or is a
    conflict if it was edited since.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    rows = night.rows()
    night.save([*rows, [{**NEW_ROW, "tags": "calm"}.get(name, "") for name in rows[0]]])
    with monkeypatch.context() as patch:
        if killed:
            _killed_before_the_sheet(night, patch)
        else:
            night.run()
    with ps.connect(night.box.url, state=night.state) as store:
        store.apply(store.undo(), progress=False)
    assert len(night.stored()) == len(STORED)
    if edited:
        night.save([["calm; old" if cell == "calm" else cell for cell in r] for r in night.rows()])
    for status in ("conflicts", "conflicts") if edited else ("done", "in-sync"):
        report = night.run()
        assert (report.round.status, len(night.stored())) == (status, len(STORED))
        assert ("Neu" in [row[1] for row in night.rows()]) is edited
    night.save([row for row in night.rows() if row[1] != "Neu"])
    assert (night.run().round.status, len(night.stored())) == ("in-sync", len(STORED))


def _apply_by_hand(night: Typed, **options: Any) -> str:
    """Apply the sheet manually, as between two rounds, and return the run id."""
    with ps.connect(night.box.url, state=night.state) as store:
        return store.apply(store.plan(night.sheet, **options), progress=False).run_id


def _export(night: Typed) -> None:
    """Replace the sheet with an export, which has its own base."""
    with ps.connect(night.box.url, state=night.state) as store:
        ps.write_sheet(store.snapshot(), night.sheet)


def _apply_and_write_ids(night: Typed) -> tuple[str, Path]:
    """Apply the sheet as `petsync apply --write-ids`, and return the run id and the backup."""
    with ps.connect(night.box.url, state=night.state) as store:
        sheet = store.read(night.sheet)
        plan, outputs = store.plan(sheet), Outputs(store.aio.history)
        outputs.remember(plan, OutputRequest(into_sheet="ids"))
        report = store.apply(plan, progress=False)
        return report.run_id, outputs.write_into_sheet(sheet, report, "ids")


def _add_rows(night: Typed, *names: str) -> None:
    rows = night.rows()
    more = [{**NEW_ROW, "name": name, "tags": "1:calm"} for name in names]
    night.save([*rows, *([each.get(column, "") for column in rows[0]] for each in more)])


def _undo(night: Typed, run: str = "") -> str:
    with ps.connect(night.box.url, state=night.state) as store:
        return store.apply(store.undo(run), progress=False).run_id


def test_a_pet_whose_add_nobody_saw_the_end_of_becomes_no_second_row(night: Typed) -> None:
    """A pet whose add has an unknown outcome gets no second row: its renamed row is in conflict and
    stays the only one.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    night.run()
    _add_rows(night, "Neu")
    night.box.break_with("drop_after=1,only=addPet")
    with ps.connect(night.box.url, state=night.state) as store:
        plan = store.plan(night.sheet)
        with pytest.raises(InterruptedRunError):
            # The response to the add is lost, and so is every later one.
            store.apply(plan, on_progress=lambda _: night.box.break_with("drop_after=1"))
    night.box.break_with(None)
    assert "Neu" in [pet.name for pet in night.stored().values()]
    night.save([["Neuer" if cell == "Neu" else cell for cell in row] for row in night.rows()])
    for _ in range(2):
        report = night.run()
        assert report.round.status == "conflicts"
        assert [row[1] for row in night.rows() if "Neu" in row[1]] == ["Neuer"]
    with ps.connect(night.box.url, state=night.state) as store:
        store.resume(progress=False)
    assert night.run().round.exit_code == 0
    assert [row[1] for row in night.rows() if "Neu" in row[1]] == ["Neuer"]
    assert night.said() == night.stored()


@pytest.mark.parametrize("edited", [{"status": "pending"}, {"name": "Rex"}])
def test_a_lost_add_of_a_round_whose_pet_was_edited_is_not_sent_again(
    night: Typed, monkeypatch: pytest.MonkeyPatch, edited: dict[str, Any]
) -> None:
    """An add without a response, whose pet was edited since, is not sent again: the row is in
    conflict until it gets the pet's id.
    """
    night.options = {"mode": "two-way", "delete_missing": True, "timeout": 1}
    night.run()
    _add_rows(night, "Neu")
    night.box.break_with("drop_after=1,only=addPet")
    with monkeypatch.context() as patch:
        patch.setattr(engine, "settle", Mock(side_effect=UnavailableError("it is gone")))
        assert night.run().round.status == "interrupted"
    night.box.break_with(None)
    (new,) = [pet for pet in night.stored().values() if pet.name == "Neu"]
    night.box.put(msgspec.structs.replace(new, **edited))
    before, rows = night.stored(), night.rows()
    for _ in range(2):
        report = night.run()
        assert report.round.status == "conflicts"
        assert f"may be pet {new.id} ({new.name!r}), edited since" in report.open[0].problem
        assert (night.stored(), night.rows()) == (before, rows)
    night.save([[str(new.id), *row[1:]] if row[1] == "Neu" else row for row in rows])
    report = night.run()
    assert night.stored().keys() == night.said().keys() == before.keys()
    fields = [each.fields for each in report.open if each.kind == "conflict"]
    assert (fields, night.stored()) == ([(*edited,)], before)


@pytest.mark.parametrize(
    ("is_edited", "broken", "is_first"),
    pairwise((False, True), (None, *BREAKS[:3]), (False, True)),
)
def test_a_row_that_names_a_pet_which_no_round_has_seen_takes_nothing_away(
    night: Typed,
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
        shutil.rmtree(night.state)
    tags = (ps.Tag(None, "old"), ps.Tag(None, "calm"))
    new = ps.Pet(id=50, name="Neu", status="sold", tags=tags, photo_urls=("https://a.example/1",))
    rows = night.rows()
    typed = {"id": "50", "name": "Rex" if is_edited else "Neu", "status": "sold", "tags": "loud"}
    night.save([*rows, [typed.get(column, "") for column in rows[0]]])
    night.box.put(new)
    if broken is not None:
        with monkeypatch.context() as patch:
            broken(night, patch)
    night.run()
    row, pet = night.said()[50], night.stored()[50]
    assert {tag.name for tag in row.tags} == {tag.name for tag in pet.tags}
    assert {tag.name for tag in pet.tags} == {"old", "calm", "loud"}
    assert is_first or row.photo_urls == new.photo_urls
    assert pet.photo_urls == new.photo_urls
    assert (row.name, pet.name) == (typed["name"], "Neu")
    report = night.run()
    assert report.round.status == ("conflicts" if is_edited else "in-sync")
    assert (report.round.to_store.total, report.round.to_sheet.total) == (0, 0)


def test_a_row_that_gets_the_id_of_the_pet_that_it_added_brings_nothing_back(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that gets the id of the pet that it added in a killed round sends its edits, and does
    not bring back what the store removed.
    """
    rows = night.rows()
    typed = {"name": "Neu", "status": "sold", "tags": "calm; loud", "category": "Dogs"}
    night.save([*rows, [typed.get(column, "") for column in rows[0]]])
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    (new,) = [pet for pet in night.stored().values() if pet.name == "Neu"]
    edited = {**typed, "name": "Rex", "status": "pending", "tags": "calm; loud; small"}
    night.save([*rows, [edited.get(column, "") for column in rows[0]]])
    night.box.put(msgspec.structs.replace(new, tags=new.tags[1:]))
    assert night.run().round.status == "conflicts"
    edited["id"] = str(new.id)
    night.save([*rows, [edited.get(column, "") for column in rows[0]]])
    night.run()
    pet = night.stored()[new.id or 0]
    assert (pet.name, pet.status) == ("Rex", "pending")
    assert {tag.name for tag in pet.tags} == {"loud", "small"}
    assert night.said()[new.id or 0].tags == pet.tags
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize(
    ("is_first", "cells", "broken"),
    pairwise(
        (False, True), ({"category": "Cats"}, {"category_id": "2"}), (None, _killed_before_the_base)
    ),
)
def test_a_category_in_one_cell_of_a_pet_that_no_round_has_seen_stays(
    night: Typed,
    monkeypatch: pytest.MonkeyPatch,
    is_first: bool,
    cells: dict[str, str],
    broken: Break | None,
) -> None:
    """A category in one cell of a pet that no round has seen stays in conflict with the store's,
    while other cells are sent.
    """
    if is_first:
        shutil.rmtree(night.state)
    night.box.put(ps.Pet(id=50, name="Neu", status="sold", category=DOGS))
    typed = {"id": "50", "name": "Neu", "status": "sold", "tags": "loud", **cells}
    header, *rows = night.rows()
    night.save([header, *rows, [typed.get(column, "") for column in header]])
    if broken is not None:
        with monkeypatch.context() as patch:
            broken(night, patch)
    for _ in range(3):
        report = night.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 50)])
        assert {column: night.cell(50, column) for column in cells} == cells
    assert night.stored()[50].category == DOGS
    assert [tag.name for tag in night.stored()[50].tags] == ["loud"]


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
    night: Typed, cells: dict[str, str]
) -> None:
    """An edit that was applied manually and undone is not sent again: the sheet takes the store's
    value, and a note names both runs.
    """
    night.type(1, **cells)
    run = _apply_by_hand(night)
    assert night.stored()[1] != STORED[0]
    undo = _undo(night)
    assert night.stored()[1] == STORED[0]
    report = night.run()
    assert (report.round.status, report.round.to_store.total) == ("done", 0)
    (note,) = report.open
    assert (note.kind, run in note.problem, undo in note.problem) == ("note", True, True)
    assert night.stored()[1] == night.said()[1] == STORED[0]
    report = night.run()
    assert (report.round.status, report.open) == ("in-sync", ())
    _undo(night, undo)
    assert night.run().round.status == "done"
    assert night.said()[1] == night.stored()[1] != STORED[0]


def test_a_pet_that_was_added_by_hand_and_is_gone_is_added_again_with_its_id(night: Typed) -> None:
    """A pet that was added manually and deleted is added again with its id once the row has the id
    and the action `add`, as the hint suggests.
    """
    rows = night.rows()
    night.save([*rows, [{**NEW_ROW, "tags": "calm"}.get(name, "") for name in rows[0]]])
    _apply_by_hand(night)
    (pet,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    night.box.remove(pet.id or 0)
    report = night.run()
    assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", pet.id)])
    assert f"write {pet.id} into its id cell" in report.open[0].hint
    _without_id(night, "Neu", id=str(pet.id), action="add")
    assert night.run().round.status == "done"
    assert night.run().round.status == "in-sync"
    assert night.stored()[pet.id or 0].name == night.said()[pet.id or 0].name == "Neu"


@pytest.mark.parametrize("cells", HAND_EDITS[1:5])
def test_a_category_that_was_applied_by_hand_stays(night: Typed, cells: dict[str, str]) -> None:
    """A category that was applied manually stays: the unchanged cell beside it is not an edit, also
    when the store changes later.
    """
    night.type(1, **cells)
    _apply_by_hand(night)
    sent = night.stored()[1]
    night.box.put(changed([sent], 1, name="Store 1")[0])
    report = night.run()
    assert (report.round.to_store.total, report.open) == (0, ())
    assert night.stored()[1].category == sent.category
    assert night.cell(1, "name") == "Store 1"
    night.box.put(changed([sent], 1, name="Store 1", category=BIRDS)[0])
    report = night.run()
    assert (report.round.status, report.open) == ("done", ())
    assert night.said()[1].category == night.stored()[1].category == BIRDS


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
    night: Typed, cells: dict[str, str], meant: ps.Category | None, away: str
) -> None:
    """After a manual run replaced the store's new category with the sheet's, neither cell of the
    category is an edit, even if its column is away for a round.
    """
    night.box.put(changed(STORED, 1, category=BIRDS)[0])
    night.type(1, **cells)
    _apply_by_hand(night)
    assert night.stored()[1].category == meant
    gone = night.cut(away) if away else {}
    night.run()
    if gone:
        night.paste(gone)
    for _ in range(2):
        report = night.run()
        assert (report.round.exit_code, report.open) == (0, ())
        assert night.stored()[1].category == meant
    assert report.round.status == "in-sync"


def test_a_number_beside_the_name_that_a_resumed_run_sent_is_no_edit(night: Typed) -> None:
    """A category id that was typed before a resumed run sent the name is not an edit; an id that is
    typed after the run is one.
    """
    night.box.put(changed(STORED, 1, category=BIRDS)[0])
    night.type(1, category_id="2")
    night.box.break_with("503=1,only=updatePet+updatePetWithForm")
    run = _apply_by_hand(night)
    night.box.break_with(None)
    with ps.connect(night.box.url, state=night.state) as store:
        store.resume(run, progress=False)
    assert night.run().round.to_store.total == 0
    assert (night.stored()[1].category, night.cell(1, "category_id")) == (DOGS, "1")
    night.type(1, category_id="3")
    assert night.run().round.status == "done"
    assert night.stored()[1].category == BIRDS


@pytest.mark.parametrize("also", [{}, {"status": "sold"}, {"name": "Rex"}])
@pytest.mark.parametrize("cells", HAND_EDITS[1:5])
def test_a_category_applied_by_hand_stays_while_its_row_lacks_the_id(
    night: Typed, cells: dict[str, str], also: dict[str, str]
) -> None:
    """A category that was applied manually stays while the id cell of its row is empty, and after
    the id is put back.
    """
    night.type(1, **cells)
    _apply_by_hand(night)
    sent = night.stored()[1].category
    night.type(1, id="", **also)
    assert night.run().round.to_store.total == 0
    assert night.stored()[1].category == sent
    assert len(night.stored()) == len(STORED)
    if also:
        _without_id(night, also.get("name", "Pet 1"), id="1")
        assert night.run().round.status == "done"
    assert night.run().round.status == "in-sync"
    assert night.stored()[1].category == sent


@pytest.mark.parametrize("also", [{}, {"status": "sold"}])
@pytest.mark.parametrize("cells", [HAND_EDITS[1], *HAND_EDITS[3:5], {"category_id": "2"}])
def test_a_category_stays_where_the_first_round_is_killed_and_the_id_is_emptied(
    night: Typed, monkeypatch: pytest.MonkeyPatch, cells: dict[str, str], also: dict[str, str]
) -> None:
    """A category that a killed first round sent from an export stays while the id cell of its row
    is empty, and after the id is put back.
    """
    _export(night)
    night.type(1, **cells)
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    sent = night.stored()[1].category
    assert sent != STORED[0].category
    night.type(1, id="", **also)
    assert night.run().round.to_store.total == 0
    assert night.stored()[1].category == sent
    if also:
        _without_id(night, "Pet 1", id="1")
        assert night.run().round.status == "done"
    assert night.run().round.status == "in-sync"
    assert night.stored()[1].category == sent


def test_the_number_of_a_category_is_filled_in_after_a_hand_made_run(night: Typed) -> None:
    """A blank category id is filled after a manual run gave the pet a category with an id."""
    night.box.put(changed(STORED, 1, category=ps.Category(None, "Fish"))[0])
    night.type(1, category="Fish", category_id="")
    assert night.run().round.status == "in-sync"
    night.type(1, category="Cats")
    _apply_by_hand(night)
    assert night.stored()[1].category == CATS
    assert night.run().round.status == "done"
    assert night.cell(1, "category_id") == "2"
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize("broken", BREAKS[:3])
def test_merged_tags_that_were_undone_are_not_sent_again(
    night: Typed, monkeypatch: pytest.MonkeyPatch, broken: Break
) -> None:
    """Merged tags that were undone after an interrupted round are not sent again, and the store's
    earlier change still reaches the sheet.
    """
    first = changed(STORED, 1, tags=(ps.Tag(1, "calm"), ps.Tag(None, "loud"), ps.Tag(None, "shy")))
    night.box.put(first[0])
    night.run()
    night.box.put(changed(first, 1, tags=(*first[0].tags[:2], ps.Tag(None, "young")))[0])
    night.type(1, tags="1:calm; shy; old")
    with monkeypatch.context() as patch:
        broken(night, patch)
    assert {tag.name for tag in night.stored()[1].tags} == {"calm", "old", "young"}
    _undo(night)
    for _ in range(2):
        night.run()
        assert {tag.name for tag in night.stored()[1].tags} == {"calm", "loud", "young"}
    assert {tag.name for tag in night.said()[1].tags} == {"calm", "loud", "young"}


def test_an_edit_that_is_taken_back_after_it_was_applied_by_hand_is_sent(night: Typed) -> None:
    """A value that a manual run sent is agreed, so the old value is an edit if it is typed again,
    and so is a third value.
    """
    night.type(1, name="Rex")
    night.type(2, name="Rex 2")
    _apply_by_hand(night)
    night.type(1, name="Pet 1")
    night.type(2, name="Rex 3")
    report = night.run()
    assert (report.round.status, report.open) == ("done", ())
    assert (night.stored()[1].name, night.stored()[2].name) == ("Pet 1", "Rex 3")
    assert night.said() == night.stored()


def test_ids_that_were_written_by_hand_do_not_show_that_a_killed_round_wrote(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids that a manual run writes after a killed round do not show that the round wrote its new
    row, so that row does not count as removed and its pet stays.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    _add_rows(night, "Neu", "Alt", "Drei")
    _apply_by_hand(night)
    night.box.put(ps.Pet(id=900, name="Store 900", status="sold"))
    with monkeypatch.context() as patch:
        _killed_before_the_sheet(night, patch)
    assert "" in [row[0] for row in night.rows()]
    _apply_and_write_ids(night)
    assert "" not in [row[0] for row in night.rows()]
    assert night.run().round.status == "done"
    assert night.said().keys() == night.stored().keys() == {*range(1, 16), 900}
    assert night.run().round.status == "in-sync"


def test_what_a_killed_round_wrote_makes_no_older_copy(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older values that a killed round wrote after an undo do not make the sheet a backup, and the
    round's add that was undone is not repeated.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    night.run()
    night.type(1, name="Rex")
    night.type(2, name="Max")
    assert night.run().round.to_store.total == 2
    _undo(night)
    _add_rows(night, "Neu")
    with monkeypatch.context() as patch:
        _killed_before_the_base(night, patch)
    assert night.said()[1] == night.stored()[1] == STORED[0]
    _undo(night)
    header, *rows = night.rows()
    night.save([header, *reversed(rows)])
    report = night.run()
    assert (report.round.status, report.round.to_store.total, report.open) == ("done", 0, ())
    assert night.said() == night.stored() == {pet.id: pet for pet in STORED}
    assert night.run().round.status == "in-sync"


def test_rows_that_go_while_rounds_are_killed_make_no_older_copy(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are removed before killed rounds do not make the sheet a backup, and the next
    removed row deletes its pet too.
    """
    night.options = {"mode": "two-way", "delete_missing": True}

    def remove(pet_id: int) -> None:
        night.save([row for row in night.rows() if row[0] != str(pet_id)])

    for pet_id, edited in ((3, 7), (4, 8)):
        remove(pet_id)
        night.box.put(changed(STORED, edited, name=f"Store {edited}")[edited - 1])
        with monkeypatch.context() as patch:
            _killed_before_the_sheet(night, patch)
        if pet_id == 3:
            _add_rows(night, "Neu")
            _apply_and_write_ids(night)
    remove(6)
    report = night.run()
    assert (report.round.status, report.open) == ("done", ())
    assert night.said() == night.stored()
    assert not {3, 4, 6} & night.stored().keys()
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize("killed", [None, *BREAKS[:3]])
def test_a_backup_of_a_run_by_hand_is_known(
    night: Typed, monkeypatch: pytest.MonkeyPatch, killed: Break | None
) -> None:
    """A backup of a manual run is recognised: values that were sent since count as the store's
    changes, and a row that lacks its id again is still its pet's row.
    """
    _add_rows(night, "Neu")
    run, backup = _apply_and_write_ids(night)
    if killed is not None:
        night.box.put(changed(STORED, 2, name="Store 2")[1])
        with monkeypatch.context() as patch:
            killed(night, patch)
    night.type(1, name="Rex")
    for _ in range(2):
        night.run()
    assert night.stored()[1].name == "Rex"
    shutil.copy(backup, night.sheet)
    report = night.run()
    assert (report.round.status, [each.kind for each in report.open]) == ("done", ["note"])
    (note,) = report.open
    assert f"looks as it did before run {run}: a backup may have been restored" in note.problem
    assert night.said() == night.stored()
    assert (night.cell(1, "name"), len(night.stored())) == ("Rex", 13)
    assert night.run().round.status == "in-sync"


def test_cells_that_are_set_back_after_a_run_by_hand_are_edits(night: Typed) -> None:
    """A manual run that does not write into the sheet has no backup, so cells that are set back are
    edits.
    """
    night.type(1, name="Rex")
    _apply_by_hand(night)
    for name in ("Max", "Rex", "Max", "Rex"):
        night.type(1, name=name)
        assert night.run().open == ()
        assert night.stored()[1].name == night.cell(1, "name") == name


@pytest.mark.parametrize("how", ["action", "missing"])
def test_a_delete_that_was_applied_by_hand_and_undone_is_not_made_again(
    night: Typed, how: str
) -> None:
    """A delete that was applied manually and undone is not repeated: the pet gets its row again."""
    night.options = {"mode": "two-way", "delete_missing": True}
    rows = night.rows()
    night.save([row for row in rows if row[0] != "3"])
    if how == "action":
        night.save(rows)
        night.type(3, action="delete")
    _apply_by_hand(night, delete_missing=True)
    assert 3 not in night.stored()
    night.save([row for row in rows if row[0] != "3"])
    _undo(night)
    assert 3 in night.stored()
    assert night.run().round.to_store.total == 0
    assert night.stored()[3] == night.said()[3] == STORED[2]
    assert night.run().round.status == "in-sync"


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
    night: Typed, news: dict[str, Any]
) -> None:
    """A manual run that is resumed after a round wrote the row changes the store alone, and the
    next round writes the store's value into the row.
    """
    night.box.put(changed(STORED, 1, **news)[0])
    night.box.break_with("503=1,only=updatePet+updatePetWithForm")
    with ps.connect(night.box.url, state=night.state, timeout=5) as store:
        run = store.apply(store.plan(night.sheet), progress=False).run_id
    night.box.break_with(None)
    assert night.run().round.status == "done"
    new = night.said()[1]
    assert new == night.stored()[1] != STORED[0]
    with ps.connect(night.box.url, state=night.state) as store:
        store.resume(run, progress=False)
    old = night.stored()[1]
    assert old != new
    report = night.run()
    assert (report.round.to_store.total, night.stored()[1]) == (0, old)
    assert night.said()[1] == old
    assert night.run().round.status == "in-sync"


def test_a_pet_that_a_resumed_run_adds_after_a_round_removed_its_row_stays(night: Typed) -> None:
    """A pet that a resumed run adds after a round removed its row stays and gets its row again."""
    night.options = {"mode": "two-way", "delete_missing": True}
    night.run()
    night.box.remove(1)
    night.box.break_with("503=1,only=addPet")
    run = _apply_by_hand(night)
    night.box.break_with(None)
    assert night.run().round.status == "done"
    assert 1 not in night.said()
    with ps.connect(night.box.url, state=night.state) as store:
        store.resume(run, progress=False)
    assert night.run().round.status == "done"
    assert night.stored()[1] == night.said()[1] == STORED[0]
    assert night.run().round.status == "in-sync"


def test_a_row_that_is_removed_behind_a_killed_round_that_wrote_it_goes(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that a killed round wrote, and that is removed after it, deletes its pet, although the
    sheet has little else that the round wrote.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    night.box.put(ps.Pet(id=50, name="New", status="sold"))
    night.box.put(changed(STORED, 2, name="Store 2")[1])
    with monkeypatch.context() as patch:
        _killed_before_the_base(night, patch)
    night.save([row for row in night.rows() if row[1] != "New"])
    assert night.run().round.status == "done"
    assert 50 not in {*night.stored(), *night.said()}


@pytest.mark.parametrize("column", ["tags", "status"])
@pytest.mark.parametrize("broken", [None, *BREAKS[:2]])
def test_a_newer_column_in_a_backup_is_compared_by_what_was_sent_from_it(
    night: Typed, monkeypatch: pytest.MonkeyPatch, column: str, broken: Break | None
) -> None:
    """An edit that was sent and undone is not sent again when its column is pasted into an older
    backup.
    """
    for number in (2, 3):
        night.box.put(changed(STORED, number, name=f"Store {number}")[number - 1])
    report = night.run()
    night.box.put(changed(STORED, 4, name="Store 4")[3])
    night.type(1, **{column: {"tags": "1:calm; loud", "status": "sold"}[column]})
    with monkeypatch.context() as patch:
        _ = night.run() if broken is None else broken(night, patch)
    assert night.stored()[1] != STORED[0]
    newer = night.cut(column)
    _undo(night)
    assert night.stored()[1] == STORED[0]
    shutil.copy(report.round.backup, night.sheet)
    night.cut(column)
    night.paste(newer)
    assert night.run().round.to_store.total == 0
    assert night.said() == night.stored()
    assert night.stored()[1] == STORED[0]
    assert night.run().round.status == "in-sync"


CATEGORY_COLUMNS = (("category",), ("category_id",), ("category", "category_id"))


@pytest.mark.parametrize("columns", CATEGORY_COLUMNS)
@pytest.mark.parametrize("cells", HAND_EDITS[1:5])
def test_a_category_applied_by_hand_and_undone_while_its_column_is_away_is_not_sent_again(
    night: Typed, cells: dict[str, str], columns: tuple[str, ...]
) -> None:
    """A category that was applied manually, and undone while its column was away, is not sent
    again, and the sheet takes the store's category.
    """
    night.type(1, **cells)
    _apply_by_hand(night)
    away = night.cut(*columns)
    _undo(night)
    night.run()
    night.paste(away)
    for _ in range(2):
        report = night.run()
        assert (report.round.to_store.total, report.round.exit_code) == (0, 0)
        assert night.said()[1] == night.stored()[1] == STORED[0]
    assert (report.round.status, report.open) == ("in-sync", ())


@pytest.mark.parametrize("columns", CATEGORY_COLUMNS)
@pytest.mark.parametrize("cells", HAND_EDITS[1:5])
def test_a_category_applied_by_hand_stays_while_its_column_is_away(
    night: Typed, cells: dict[str, str], columns: tuple[str, ...]
) -> None:
    """A category that was applied manually agrees with the store when its column is restored."""
    night.type(1, **cells)
    _apply_by_hand(night)
    new = night.stored()[1]
    away = night.cut(*columns)
    night.run()
    night.paste(away)
    for _ in range(2):
        report = night.run()
        assert (report.round.to_store.total, report.open) == (0, ())
        assert night.stored()[1] == new
    assert report.round.status == "in-sync"


def test_a_pet_that_an_undo_brought_back_is_not_missing(night: Typed) -> None:
    """A pet that an undo brought back is new in the store and gets a row, although its row was
    removed while the pet was gone.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    rows = night.rows()
    night.save([*rows, [NEW_ROW.get(name, "") for name in rows[0]]])
    assert night.run().round.status == "done"
    (number,) = night.stored().keys() - {pet.id for pet in STORED}
    undo = _undo(night)
    night.save([row for row in night.rows() if row[0] != str(number)])
    _undo(night, undo)
    for _ in range(2):
        assert night.run().round.to_store.total == 0
        assert night.stored()[number] == night.said()[number]


def test_a_hand_made_run_of_before_the_last_round_counts_no_more(night: Typed) -> None:
    """A manual run from before the last round does not change what was agreed since."""
    night.type(1, name="Rex")
    _apply_by_hand(night)
    assert night.run().round.status == "in-sync"
    for name in ("Rey", "Rex"):
        night.type(1, name=name)
        assert night.run().round.to_store.total == 1
        assert night.stored()[1].name == name


def test_a_run_that_the_base_has_is_not_laid_over_it_again(
    night: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that the base has is not added to it again after a kill before the run's record is
    removed, and the store's change since stays.
    """
    night.type(1, name="Rex")

    def meddle() -> None:
        night.box.put(changed(list(night.stored().values()), 1, name="Store 1")[0])

    with monkeypatch.context() as patch:
        patch.setattr(PendingRuns, "forget", Mock(side_effect=KeyboardInterrupt))
        assert night.run().round.status == "interrupted"
    marks = BaseFile(next((night.state / "reconcile" / "bases").glob("*.base"))).load(
        set_aside=False
    )
    assert len(marks.runs) == 1
    with monkeypatch.context() as patch:
        laid = Mock(side_effect=AssertionError("laid over it once more"))
        patch.setattr("petsync.reconcile.start.with_report", laid)
        meddle()
        assert night.run().round.status == "done"
    assert night.cell(1, "name") == "Store 1"
    assert night.run().round.status == "in-sync"


def test_a_row_that_lacks_its_id_again_is_from_a_backup(night: Typed) -> None:
    """A row that lacks its id again is recognised as one of a backup, even if it was edited since:
    later values are not reverted.
    """
    rows = night.rows()
    night.save([*rows, [{**NEW_ROW, "tags": "calm"}.get(name, "") for name in rows[0]]])
    first = night.run()
    (added,) = (pet for pet in night.box.pets() if pet.name == "Neu")
    night.type(added.id or 0, status="pending", tags="calm; old")
    assert night.run().round.status == "done"
    assert first.round.backup
    shutil.copy(first.round.backup, night.sheet)
    _without_id(night, "Neu", tags="calm; loud")
    assert night.run().round.status == "done"
    pet = night.stored()[added.id or 0]
    assert pet.status == "pending"
    assert {tag.name for tag in pet.tags} == {"calm", "old", "loud"}
    assert night.said() == night.stored()


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("first", ["both", "store"])
def test_a_row_that_is_pasted_after_its_pet_has_gone_is_a_conflict(
    night: Typed, deletes: bool, first: str
) -> None:
    """A row that is cut from one sheet and pasted into another after its pet was deleted is a
    conflict, until `add` adds the pet again.
    """
    folder = night.folder / "in"
    folder.mkdir()

    def write(name: str, pets: list[ps.Pet], **more: list[str]) -> None:
        frame = ps.frame_from_pets(pets)
        ps.write_sheet(frame.assign(**more), folder / name, base=False)

    def rounds() -> list[str]:
        job = night.job("inbox", folder=folder, sheet=None, files="*.csv", delete_missing=deletes)
        return [report.round.status for report in reconcile_jobs(night.config(job))]

    for path in (night.state / "reconcile" / "bases").iterdir():
        path.unlink()  # belongs to the fixture's own job, which has the pet
    write("a.csv", STORED[:6])
    write("b.csv", STORED[6:])
    assert rounds() == ["in-sync", "in-sync"]
    night.box.remove(5)
    if first == "store" and deletes:
        assert rounds() == ["done", "in-sync"]
    write("a.csv", [*STORED[:4], STORED[5]])
    for _ in range(4):
        assert rounds() == ["in-sync", "in-sync"]
    write("b.csv", [*STORED[6:], STORED[4]])
    for _ in range(2):
        assert rounds() == ["in-sync", "conflicts"]
        assert 5 not in night.stored()
    rows = [*STORED[6:], STORED[4]]
    write("b.csv", rows, action=[*[""] * (len(rows) - 1), "add"])
    assert "conflicts" not in rounds()
    assert night.stored()[5].name == "Pet 5"
    assert rounds() == ["in-sync", "in-sync"]


@pytest.mark.parametrize("killed", [None, "sheet", "base"])
@pytest.mark.parametrize("how", ["row", "action"])
def test_a_row_that_is_pasted_after_a_round_has_deleted_its_pet_is_a_conflict(
    night: Typed, monkeypatch: pytest.MonkeyPatch, how: str, killed: str | None
) -> None:
    """A row that is pasted after a round deleted its pet is a conflict with the date of the delete,
    also after a killed round, and `add` adds the pet again.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    rows = night.rows()
    if how == "action":
        night.type(3, action="delete")
    else:
        night.save([row for row in rows if row[0] != "3"])
    night.type(1, name="Rex")
    with monkeypatch.context() as patch:
        if killed == "sheet":
            patch.setattr(
                "petsync.reconcile.round._Execution._compare_again", Mock(side_effect=OSError)
            )
        elif killed == "base":
            patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
        night.run()
    assert 3 not in night.stored()
    night.run()
    there = [row for row in night.rows() if row[0] != "3"]
    night.save([*there, next(row for row in rows if row[0] == "3")])
    for _ in range(2):
        report = night.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 3)])
        assert "has the id of pet 3, which has been missing since 2" in report.open[0].problem
        assert "`add`" in report.open[0].hint
        assert 3 not in night.stored()
    night.type(3, action="add")
    assert night.run().round.status == "done"
    assert night.stored()[3] == night.said()[3] == STORED[2]
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("deletes", [True, False])
def test_a_row_that_lost_its_id_and_was_edited_is_held(
    night: Typed, count: int, deletes: bool
) -> None:
    """An edited row that lost its id is held in every round, and its pet is neither deleted nor
    added again.
    """
    night.options = {"delete_missing": deletes}
    assert night.run().round.status == "in-sync"
    before = night.stored()
    blanked = [1, 2, 3][:count]
    for pet_id in blanked:
        night.type(pet_id, id="", name=f"{before[pet_id].name} jr")
    for _ in range(2):
        report = night.run()
        assert report.round.status == "conflicts"
        assert {each.pet_id for each in report.open if each.kind == "conflict"} == {*blanked}
        assert night.stored() == before


@pytest.mark.parametrize("mode", ["push", "two-way"])
def test_an_id_that_the_service_exchanges(tmp_path: Path, mode: str) -> None:
    """The round writes the id that the service assigned into the row, and no pet is added twice or
    deleted.
    """
    own = replace(STANDARD, own_ids=True)
    with Sandbox(auth=False, profile=own, pets=STORED) as box:
        night = Typed(box, tmp_path, {"mode": mode, "delete_missing": True})
        night.write([*STORED, ps.Pet(id=500, name="Rex", status="sold", category=PETS[0].category)])
        for _ in range(3):
            night.run()
            names = [pet.name for pet in box.pets()]
            assert names.count("Rex") == 1
            assert len(names) == len(STORED) + 1
        (rex,) = (pet for pet in box.pets() if pet.name == "Rex")
        assert rex.id != 500
        assert rex.id in night.said()
        assert 500 not in night.said()
        assert night.run().round.status == "in-sync"


@pytest.mark.parametrize(
    ("column", "text", "other"),
    [("status", "sold", ""), ("category", "Cats", "Rex"), ("tags", "old", "Rex")],
)
def test_a_cell_that_a_run_by_hand_corrected_takes_the_correction(
    night: Typed, column: str, text: str, other: str
) -> None:
    """A cell that a manual run corrected takes the correction, because the file's old value is no
    edit; later edits of the sheet are sent.
    """
    with ps.connect(night.box.url, state=night.state) as store:
        address = store.read(night.sheet).address(2, column)
        sheet = store.read(night.sheet, corrections={address: text})
        assert store.apply(store.plan(sheet), progress=False).counts["applied"] == 1
    corrected = night.stored()[1]
    assert corrected != STORED[0]
    if other:
        night.type(2, name=other)
    report = night.run()
    assert (report.round.status, report.open) == ("done", ())
    assert night.stored()[1] == night.said()[1] == corrected
    assert night.stored()[2].name == (other or "Pet 2")
    assert night.run().round.status == "in-sync"
    night.type(1, name="Pet 1 again")
    assert night.run().round.status == "done"
    assert night.stored()[1].name == "Pet 1 again"


@pytest.mark.parametrize("is_export", [False, True])
@pytest.mark.parametrize("broken", [None, *BREAKS[:2]])
def test_a_renamed_job_goes_on_with_what_its_runs_sent(
    night: Typed, monkeypatch: pytest.MonkeyPatch, broken: Break | None, is_export: bool
) -> None:
    """A renamed job continues from the base of its old name: a cell that is set back is an edit, in
    the preview and after a killed round too.
    """
    if is_export:
        _export(night)
        night.run()
    night.type(1, name="Rex")
    night.type(2, category="Birds")
    with monkeypatch.context() as patch:
        if broken is not None:
            broken(night, patch)
        else:
            night.run()
    assert (night.stored()[1].name, night.stored()[2].category) == ("Rex", BIRDS)
    night.type(1, name="Pet 1")
    night.type(2, category="Dogs")
    renamed = night.config(night.job("renamed"))
    (dry,) = reconcile_jobs(renamed, dry_run=True)
    (report,) = reconcile_jobs(renamed)
    assert (dry.round.to_store.update, report.round.status) == (2, "done")
    assert [each.problem for each in report.open] == [
        "the job was called catalogue in its last round, and continues from there"
    ]
    assert night.said() == night.stored() == {pet.id: pet for pet in STORED}
    assert not [name for name in night.kept_files() if "bases/catalogue" in name]
    (report,) = reconcile_jobs(renamed)
    assert (report.round.status, report.open) == ("in-sync", ())


@pytest.mark.parametrize("still_there", [True, False])
def test_the_first_round_of_a_renamed_job_deletes_nothing(night: Typed, still_there: bool) -> None:
    """The first round of a renamed job deletes nothing, because it may be another job for the same
    file, and the next round does; a job that is still configured keeps its base.
    """
    night.options = {"mode": "two-way", "delete_missing": True}
    night.save(night.rows()[:-1])
    new = night.job("renamed")
    jobs = (new, night.job(enabled=False)) if still_there else (new,)
    (report,) = reconcile_jobs(night.config(*jobs))
    assert report.round.to_store.delete == 0
    assert len(night.stored()) == len(STORED)
    assert any("bases/catalogue" in name for name in night.kept_files()) is still_there
    if not still_there:
        (report,) = reconcile_jobs(night.config(*jobs))
        assert report.round.to_store.delete == 1
