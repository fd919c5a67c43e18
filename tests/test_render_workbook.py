"""Plans and reports as workbooks, read back with openpyxl."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import load_workbook
from openpyxl.worksheet.worksheet import Worksheet
from render_samples import (
    ADD,
    BELLA,
    HOSTILE,
    UPDATE,
    hostile_plan,
    large_plan,
    plan_with,
    replace,
    small_plan,
    small_report,
)

from petsync.errors import SheetError
from petsync.render import tab
from petsync.render.workbook import plan_workbook, report_workbook


def rows(sheet: Worksheet) -> list[tuple[object, ...]]:
    """The values of a worksheet below its header."""
    return list(sheet.iter_rows(min_row=2, values_only=True))


def test_a_plan_as_a_workbook(tmp_path: Path) -> None:
    """The workbook has the summary, a row for each changed field, conflicts and blocked rows."""
    plan_workbook(small_plan(), tmp_path / "plan.xlsx")
    book = load_workbook(tmp_path / "plan.xlsx")
    assert book.sheetnames == ["Summary", "Changes", "Conflicts", "Blocked"]
    changes = rows(book["Changes"])
    assert changes[0] == ("add", None, "Mochi", "name", None, "Mochi", "Pets!A61")
    assert ("update", "17", "Bella", "status", "available", "sold", "Pets!B18") in changes
    (tags,) = [row for row in changes if row[0] == "update" and row[3] == "tags"]
    assert tags[4:6] == ("1:shy; 2:calm", "2:calm; 3:good with kids")
    assert changes[-1][:4] == ("delete", "100", "Tom", "(the pet)")
    assert changes[-1][-1] == "not in the sheet"
    assert len(changes) == 4 + 4 + 2
    assert rows(book["Conflicts"]) == [
        ("Pets!A12", None, "matches several pets: 3, 8", "Give the row its id.")
    ]
    assert rows(book["Blocked"]) == [(60, "Pets!C60", "The store has no such status.")]
    facts = dict(rows(book["Summary"]))
    assert facts["to add"] == 1
    assert facts["in agreement"] == 870
    assert facts["fingerprint"] == small_plan().fingerprint


def test_the_changes_can_be_worked_with(tmp_path: Path) -> None:
    """The header stays, every column has a filter and a width, and each kind has its colour."""
    plan_workbook(small_plan(), tmp_path / "plan.xlsx")
    sheet = load_workbook(tmp_path / "plan.xlsx")["Changes"]
    assert sheet.freeze_panes == "A2"
    assert sheet.auto_filter.ref.startswith("A1:G")
    assert sheet.column_dimensions["F"].width == 42
    formulas = {r.formula[0] for rules in sheet.conditional_formatting for r in rules.rules}
    assert {'$A2="add"', '$A2="update"', '$A2="delete"'} <= formulas


def test_ids_are_exact(tmp_path: Path) -> None:
    """The largest id comes back digit by digit, as text."""
    big = replace(UPDATE, before=replace(BELLA, id=2**63 - 1))
    plan_workbook(plan_with(big), tmp_path / "plan.xlsx")
    cell = load_workbook(tmp_path / "plan.xlsx")["Changes"]["B2"]
    assert (cell.value, cell.data_type) == ("9223372036854775807", "s")


@pytest.mark.parametrize("name", [*HOSTILE, "=1+1", "+1", "-1", "@x", "#N/A", "#REF!"])
def test_no_name_becomes_a_formula(tmp_path: Path, name: str) -> None:
    """Whatever things are called, the workbook opens, and every cell is text or a whole number."""
    plan_workbook(hostile_plan(name), tmp_path / "plan.xlsx")
    book = load_workbook(tmp_path / "plan.xlsx")
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert {cell.data_type for cell in cells if cell.value is not None} <= {"s", "n"}
    assert all(
        isinstance(cell.value, int) for cell in cells if cell.data_type == "n" and cell.value
    )
    assert all(len(str(cell.value)) <= 32_767 for cell in cells)


def test_a_name_like_a_formula_is_kept(tmp_path: Path) -> None:
    """Such a name is not altered, and is marked as text for those who edit the cell."""
    plan_workbook(plan_with(replace(ADD, after=replace(BELLA, name="=1+1"))), tmp_path / "p.xlsx")
    cell = load_workbook(tmp_path / "p.xlsx")["Changes"]["C2"]
    assert cell.value == "=1+1"
    assert cell.quotePrefix


def test_more_rows_than_fit_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into one worksheet goes on in the next, and no row is lost."""
    monkeypatch.setattr(tab, "_ROWS", 5)
    plan_workbook(large_plan(3), tmp_path / "plan.xlsx")
    book = load_workbook(tmp_path / "plan.xlsx")
    pages = [name for name in book.sheetnames if name.startswith("Changes")]
    assert pages == ["Changes", "Changes 2", "Changes 3"]
    assert [len(rows(book[name])) for name in pages] == [5, 5, 2]


def test_a_report_as_a_workbook(tmp_path: Path) -> None:
    """The workbook has the totals and a row for each result, with the id that was assigned."""
    report_workbook(small_report(), tmp_path / "report.xlsx")
    book = load_workbook(tmp_path / "report.xlsx")
    results = rows(book["Results"])
    assert results[0][:5] == ("applied", "add", None, "1201", "Mochi")
    assert results[1][-1] == "updatePet: the service answered 503"
    assert results[4][:5] == ("conflict", None, None, None, None)
    facts = dict(rows(book["Summary"]))
    outcomes = ("applied", "skipped", "conflict", "failed", "unknown")
    assert sum(facts[name] for name in outcomes) == facts["total"] == 878


def test_a_workbook_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails leaves the file that was there, and nothing beside it."""
    path = tmp_path / "plan.xlsx"
    path.write_bytes(b"as it was")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tab.os, "fsync", full)
    with pytest.raises(SheetError, match=r"plan\.xlsx cannot be written: No space left"):
        plan_workbook(small_plan(), path)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("plan.xlsx", b"as it was")]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A path that cannot be written is an error with the path and a way out."""
    with pytest.raises(SheetError, match="nowhere") as caught:
        plan_workbook(small_plan(), tmp_path / "nowhere" / "plan.xlsx")
    assert "folder" in caught.value.hint
