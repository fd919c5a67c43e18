"""A CSV file as a workbook of its cells, each record in the row of the line it starts at."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openpyxl import Workbook
from openpyxl.styles import Font, PatternFill
from openpyxl.worksheet.worksheet import Worksheet

from petsync.errors import SheetError
from petsync.sheets import base
from petsync.sheets.copies import sidecar_lines
from petsync.sheets.delimited.lines import Line, bare, dialect_of, lines
from petsync.sheets.export.workbook import MAX_CELL, MAX_ROWS, filled, inline, name_base
from petsync.sheets.grid import letter
from petsync.sheets.source import Source
from petsync.table.sheet import Sheet

__all__ = ["TAB", "tabulated"]

TAB = "Pets"
_DATA = re.compile(rb"<sheetData\s*/>|<sheetData>\s*</sheetData>")
_UNWRITABLE = re.compile(r"[^\x20-\x7e]")
_WIDE, _NARROW, _SAMPLE = 48, 10, 500
_Rows = Sequence[tuple[int, list[str]]]


def tabulated(source: Source, sheet: Sheet) -> Source:
    """The workbook: on TAB every cell as text, and where the file has a sidecar, that.

    Raises SheetError where a worksheet cannot hold it.
    """
    records = [each for each in lines(source, dialect_of(source, sheet)) if _says(each)]
    if records[-1].number > MAX_ROWS:
        raise SheetError(
            f"{source.path}: line {records[-1].number:,} is beyond the last row of a worksheet "
            f"({MAX_ROWS:,})",
            hint="Take the file apart; petsync check lists the findings of all of it.",
        )
    rows = [(each.number, _texts(each, source)) for each in records]
    book = Workbook()
    styles = _lay_out(book.worksheets[0], rows, sheet.header_row)
    _hide(book, sidecar_lines(source))
    body = "".join(_row(row, styles[row[0] == sheet.header_row]) for row in rows).encode()
    return Source(source.path, "workbook", filled(book, lambda part: _with_rows(part, body)))


def _says(line: Line) -> bool:
    return line.cells is None or any(line.cells)


def _texts(line: Line, source: Source) -> list[str]:
    """The cells as they are meant; of a record that cannot be taken apart, all of it."""
    whole = [line.body.decode("utf-8", "replace")]
    texts = whole if line.cells is None else list(map(bare, line.cells))
    if any(len(text) > MAX_CELL for text in texts):
        raise SheetError(
            f"{source.path}: line {line.number} has a cell of more than the {MAX_CELL:,} "
            "characters that a workbook's cell holds",
            hint="Shorten it; petsync check lists the findings of the file as it is.",
        )
    return texts


def _lay_out(sheet: Worksheet, rows: _Rows, header_row: int) -> tuple[int, int]:
    """Lay out the columns; the styles of a cell and of a header are returned."""
    sheet.title = TAB
    sheet.freeze_panes = f"A{header_row + 1}"
    body, head = sheet.cell(1, 1), sheet.cell(1, 2)
    body.number_format = head.number_format = "@"
    head.font = Font(name="Calibri", size=11, bold=True)
    head.fill = PatternFill("solid", fgColor="DDEBF7")
    styles = body.style_id, head.style_id
    sheet.delete_rows(1)
    width = next(len(texts) for number, texts in rows if number >= header_row)
    for column in range(width):
        dimension = sheet.column_dimensions[letter(column)]
        dimension.number_format = "@"
        lengths = (len(texts[column]) for _, texts in rows[:_SAMPLE] if column < len(texts))
        dimension.width = min(max(_NARROW, 2 + max(lengths)), _WIDE)
    return styles


def _hide(book: Workbook, carried: Sequence[str] | None) -> None:
    """Let the copy carry the base of its CSV file, whatever it is worth."""
    if carried is None:
        return
    hidden = book.create_sheet(base.TAB)
    hidden.sheet_state = "veryHidden"
    name_base(book)
    for number, line in enumerate(carried, 1):
        # A damaged one is refused in the copy too, whatever stands in place of what was lost.
        text = _UNWRITABLE.sub("?", line[:MAX_CELL])
        hidden.cell(number, 1, text).data_type = "s"


def _row(row: tuple[int, list[str]], style: int) -> str:
    number, texts = row
    cells = "".join(
        f'<c r="{letter(n)}{number}" s="{style}" t="inlineStr">{inline(text)}</c>'
        for n, text in enumerate(texts)
        if text
    )
    # A fixed height, or photo addresses below each other would make the rows tall.
    return f'<row r="{number}" ht="15" customHeight="1">{cells}</row>'


def _with_rows(part: bytes, body: bytes) -> bytes:
    before, behind = _DATA.split(part)
    return before + b"<sheetData>" + body + b"</sheetData>" + behind
