"""Workbooks: the catalogue as a tidy colleague keeps it, and as busy people left it."""

from __future__ import annotations

import io
import os
import random
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

# With lxml installed, openpyxl would write the same XML with other bytes.
os.environ["OPENPYXL_LXML"] = "False"

from _catalogue import cells
from _edits import Broken, Row, Value
from openpyxl import Workbook
from openpyxl.cell import Cell
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

__all__ = ["CANONICAL", "EDITED", "clean_workbook", "edited_workbook", "place"]

CANONICAL = (
    "id",
    "name",
    "status",
    "category",
    "category_id",
    "tags",
    "photo_urls",
    "action",
)
EDITED = (*CANONICAL[:7], "Shelf", "Price", "action")
WIDTHS = {"id": 11, "name": 24, "status": 11, "category": 20, "category_id": 11, "tags": 38}
WIDTHS |= {"photo_urls": 46, "Shelf": 8, "Price": 10, "action": 9}
YELLOW = PatternFill("solid", start_color="FFF2CC")
GREEN = PatternFill("solid", start_color="E2EFDA")
RED = PatternFill("solid", start_color="FBE0DD")
HEAD = PatternFill("solid", start_color="2F5D62")
STAMP = (2026, 3, 16, 9, 30, 0)
MOMENT = "2026-03-16T09:30:00Z"

PRICES = {"Dogs": 420, "Cats": 240, "Rabbits": 45, "Guinea Pigs": 32, "Parrots": 380}

NOTES = (
    "Spring stock-take - notes",
    "",
    "Petra started with the export of 9 March. Zoë and Tomás carried on in the evenings.",
    "Yellow = I changed something here.  Green = new animal.  Red = please take it off the list.",
    "We did not always remember the colours, so better look at the action column as well.",
    "",
    "The new animals have no number yet, the computer gives them one. Castor, Pollux and Électre",
    "already had numbers on their cages (5001 to 5003), so we kept those.",
    "",
    "Open questions",
    "- Can we have a status `reserved`? Three customers have paid a deposit.",
    "- The marine tank is not labelled. Somebody who knows fish should look at it.",
    "- Shelf and Price are for us only, the shop's computer does not know them.",
    "",
    "Please ask before sorting this list, the formulas did not survive it the last time.",
)


def clean_workbook(pets: Iterable[Mapping[str, Any]]) -> bytes:
    """The whole catalogue, in agreement with the store."""
    book = Workbook()
    sheet = _first(book, "Pets")
    _header(sheet, CANONICAL)
    for number, pet in enumerate(pets, 2):
        values = cells(dict(pet))
        for column, name in enumerate(CANONICAL, 1):
            _write(sheet.cell(number, column), values[name])
    return _packed(book)


def edited_workbook(rng: random.Random, rows: Sequence[Row | None]) -> bytes:
    """The edited catalogue on `Pets`, and a sheet of prose."""
    book = Workbook()
    sheet = _first(book, "Pets")
    _header(sheet, EDITED)
    for number, row in enumerate(rows, 2):
        if row is not None:
            _fill(sheet, number, row, _shop_columns(rng, row))
    _dress(sheet)
    notes = book.create_sheet("Notes")
    notes.column_dimensions["A"].width = 100
    for number, line in enumerate(NOTES, 1):
        _write(notes.cell(number, 1), line)
    notes["A1"].font = _font(bold=True, size=14)
    notes["A10"].font = _font(bold=True)
    return _packed(book)


def place(column: str, number: int) -> str:
    """The address of a cell of the edited sheet, for the row with this number."""
    return f"Pets!{get_column_letter(EDITED.index(column) + 1)}{number}"


def _first(book: Workbook, title: str) -> Worksheet:
    sheet = book.active
    assert isinstance(sheet, Worksheet)
    sheet.title = title
    sheet.freeze_panes = "C2"
    return sheet


def _header(sheet: Worksheet, names: Sequence[str]) -> None:
    for column, name in enumerate(names, 1):
        cell = sheet.cell(1, column, name)
        cell.font = _font(bold=True, color="FFFFFF")
        cell.fill = HEAD
        cell.border = Border(bottom=Side("medium", color="1B3A3D"))
        sheet.column_dimensions[get_column_letter(column)].width = WIDTHS[name]


def _fill(sheet: Worksheet, number: int, row: Row, extra: Mapping[str, Value]) -> None:
    values = row.cells | extra
    for column, name in enumerate(EDITED, 1):
        cell = sheet.cell(number, column)
        _write(cell, values[name])
        _colour(cell, name, row)
    sheet.cell(number, EDITED.index("Price") + 1).number_format = '#,##0.00 "€"'
    sheet.row_dimensions[number].height = 15


def _colour(cell: Cell, name: str, row: Row) -> None:
    if row.mark == "gone":
        cell.fill = RED
        cell.font = _font(strike=name == "name", color="9C2B23")
    elif not row.cells["id"]:
        cell.fill = GREEN
    elif row.mark == "changed" and name in row.touched:
        cell.fill = YELLOW
        cell.font = _font(bold=name == "name")
    if name == "action" and cell.value:
        cell.font = _font(bold=True, color="9C2B23" if row.mark == "gone" else "1B3A3D")


def _font(
    *, size: int = 11, bold: bool = False, strike: bool = False, color: str = "1F1F1F"
) -> Font:
    return Font(name="Calibri", size=size, bold=bold, strike=strike, color=color)


def _write(cell: Cell, value: Value) -> None:
    """Text stays text, even where it looks like a formula; a blank cell stays away."""
    if isinstance(value, Broken):
        cell.value = value.text
    elif isinstance(value, str):
        if value:
            cell.value = value
            cell.data_type = "s"
    else:
        cell.value = value
        if isinstance(value, date):
            cell.number_format = "DD.MM.YYYY"


def _shop_columns(rng: random.Random, row: Row) -> dict[str, Value]:
    """What the shop keeps beside the catalogue; new animals have no shelf yet."""
    base = PRICES.get(str(row.cells["category"]), 18)
    price = round(base * rng.uniform(0.7, 1.6)) - 0.1
    shelf = f"{rng.choice('ABCDEFGH')}-{rng.randint(1, 24):02d}"
    if not row.cells["id"]:
        return {"Shelf": "", "Price": price if rng.random() < 0.6 else ""}
    return {"Shelf": shelf, "Price": price if rng.random() < 0.985 else "ask"}


def _dress(sheet: Worksheet) -> None:
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(EDITED))}{sheet.max_row}"
    sheet.page_setup.orientation = "landscape"
    sheet.page_setup.paperSize = 9
    sheet.page_setup.fitToHeight = 0
    sheet.sheet_properties.pageSetUpPr.fitToPage = True
    sheet.print_title_rows = "1:1"
    # Somebody pasted these from a mail.
    for (cell,) in sheet["B60:B71"]:
        cell.font = Font(name="Arial", size=10, italic=True)
        cell.alignment = Alignment(horizontal="center")


def _packed(book: Workbook) -> bytes:
    """The workbook's file with every moment in it fixed, so that each run gives the same bytes."""
    book.properties.creator = "Petra"
    raw = io.BytesIO()
    book.save(raw)
    done = io.BytesIO()
    with zipfile.ZipFile(raw) as old, zipfile.ZipFile(done, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            entry = zipfile.ZipInfo(name, STAMP)
            entry.create_system = 0
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, _still(name, old.read(name)), compresslevel=9)
    return done.getvalue()


def _still(name: str, content: bytes) -> bytes:
    if name != "docProps/core.xml":
        return content
    return re.sub(rb"\d{4}-\d\d-\d\dT[\d:]+Z", MOMENT.encode(), content)
