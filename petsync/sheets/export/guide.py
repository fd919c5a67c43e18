"""The second worksheet of an export, for people: how the first one is used."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from openpyxl import Workbook
from openpyxl.styles import Alignment, Border, Font, Side
from openpyxl.worksheet.worksheet import Worksheet

from petsync.sheets.export.contents import GUIDE, Contents
from petsync.sheets.export.look import ACCENT, FACE, HEADER, LINE, fit_to_page
from petsync.table.base import Base

__all__ = ["GUIDE", "add_guide", "plain"]

_LEFT, _RIGHT, _FITTING = 18, 84, 95


class _Line(NamedTuple):
    """A heading (`right` is blank), or a word and what is said of it."""

    left: str
    right: str = ""


def add_guide(book: Workbook, contents: Contents) -> None:
    """Add the worksheet."""
    sheet = book.create_sheet(GUIDE)
    sheet.sheet_view.showGridLines = False
    sheet.column_dimensions["A"].width = 3
    sheet.column_dimensions["B"].width = _LEFT
    sheet.column_dimensions["C"].width = _RIGHT
    _title(sheet, contents)
    for row, line in enumerate(_lines(contents), 4):
        if line.right:
            _say(sheet, row, line)
        elif line.left:
            _head(sheet, row, line.left)
    fit_to_page(sheet, pages=1)


def _title(sheet: Worksheet, contents: Contents) -> None:
    for place in ("A1", "B1", "C1", "A2", "B2", "C2"):
        sheet[place].fill = HEADER
    _write(sheet, 1, 2, GUIDE, Font(name=FACE, bold=True, size=18, color="FFFFFF"))
    _write(sheet, 2, 2, _origin(contents.base), Font(name=FACE, size=11, color="D6E6E9"))
    sheet.row_dimensions[1].height = 36
    sheet.row_dimensions[2].height = 24
    sheet["B2"].alignment = Alignment(vertical="top")


def _head(sheet: Worksheet, row: int, text: str) -> None:
    _write(sheet, row, 2, text, Font(name=FACE, bold=True, size=13, color=ACCENT))
    sheet.row_dimensions[row].height = 24
    for place in (f"B{row}", f"C{row}"):
        sheet[place].border = Border(bottom=Side("thin", color=ACCENT))


def _say(sheet: Worksheet, row: int, line: _Line) -> None:
    _write(sheet, row, 2, line.left, Font(name=FACE, bold=True, size=11))
    _write(sheet, row, 3, line.right, Font(name=FACE, size=11))
    sheet.row_dimensions[row].height = 19 * -(-len(line.right) // _FITTING)
    for place in (f"B{row}", f"C{row}"):
        sheet[place].border = Border(bottom=Side("hair", color=LINE))


def _write(sheet: Worksheet, row: int, column: int, text: str, font: Font) -> None:
    cell = sheet.cell(row, column, plain(text))
    cell.data_type = "s"
    cell.font = font
    cell.alignment = Alignment(vertical="center", wrap_text=column == 3)


def plain(text: str) -> str:
    """The text without what XML cannot carry or nobody can see."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _origin(base: Base | None) -> str:
    if base is None:
        return "A table of pets, written by petsync."
    return f"{len(base):,} pets of {base.store}, as they were on {_moment(base.taken_at)}."


def _moment(taken_at: str) -> str:
    try:
        moment = datetime.fromisoformat(taken_at)
    except ValueError:
        return taken_at
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".rstrip()


def _lines(contents: Contents) -> Iterator[_Line]:
    file = f'"{contents.file}"' if " " in contents.file else contents.file
    yield _Line("What to do")
    yield _Line("1. Edit", f"Change cells in the sheet {contents.tab}, or add rows below. Save.")
    yield _Line("2. Look", f"petsync plan {file} shows what would change in the store.")
    yield _Line("3. Apply", f"petsync apply {file} changes it, after you have said yes.")
    yield _Line("")
    yield _Line("What cells say")
    yield _Line("A blank cell", "says nothing: the store keeps what it has.")
    if contents.clear:
        yield _Line(contents.clear, "empties the field in the store.")
    yield _Line("A row removed", "says nothing either: no pet is deleted unless you ask for it.")
    if contents.base is not None:
        yield _Line("A cell left alone", "says nothing: what others change meanwhile stays.")
    yield _Line("")
    yield _Line("The columns")
    for name, meaning in _COLUMNS.items():
        yield _Line(f"{name}:", meaning)
    yield _Line("")
    yield _Line("What may stand under action")
    for name, meaning in _ACTIONS.items():
        yield _Line(name, meaning)


_COLUMNS = {
    "id": "The pet's number. Leave it as it is; leave it blank for a new pet.",
    "name": "The pet's name. A pet must have one.",
    "status": "Choose from the list in the cell.",
    "category": "Choose from the list, or type a new one.",
    "category_id": "The category's number. If you change the category, leave it: petsync finds it.",
    "tags": "Separated by a semicolon: friendly; small. A number before a tag (7:small) is its id.",
    "photo_urls": "One address a line: Alt+Enter (in LibreOffice Ctrl+Enter) begins a new line.",
    "action": "What is to be done with the row; usually blank.",
}
_ACTIONS = {
    "blank, merge": "Change the pet, or add it if it is new.",
    "add": "Add the pet. It must not exist yet.",
    "add-another": "Add the pet, even if the store has one that is just like it.",
    "update": "Change the pet. It must exist.",
    "delete": "Remove the pet from the store.",
    "ignore": "Pass over the row.",
}
