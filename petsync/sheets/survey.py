"""What a worksheet has that calamine does not tell: error cells (it reads them as blank),
formulas without a value, hidden rows, merged cells, and cells that are absurdly far away.

A sheet that has none of it is only searched for their marks; the others are walked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from petsync.errors import SheetError
from petsync.sheets.grid import Kind, letter
from petsync.sheets.markup import CellMark, MarkupError, RowMark, Walk

__all__ = ["Survey", "survey"]

MAX_ROW, MAX_COLUMN = 1 << 20, 1 << 14
FREE_AREA = 4_000_000
"""The cells that the rectangle around all that have a value may always have: calamine holds it
whole, at some 64 bytes for each.
"""
MAX_SPARSENESS = 10
"""How many times the cells with a value a larger rectangle may have."""

# A cell without content, which ends with `/>`, may be anywhere: it is only formatted.
_FAR = '<c r="(?:[A-Za-z]{{2,}}|[{}-Za-z][0-9]{{5}}|[A-Z][0-9]{{6}})[0-9]+"[^>]*(?<!/)>'
_UNCOMMON = (
    re.compile(rb"<f[\s>/]"),
    re.compile(rb":f[\s>/]"),
    re.compile(rb'<c[\s>/](?!r="[A-Za-z])'),
    re.compile(rb'<row[\s>/](?!r="[0-9]|spans="[0-9:]*" r="[0-9])'),
)
_MARKS = (b'"e"', b"'e'", b'hidden="1"', b'hidden="t', b"hidden='", b"hidden =", b"mergeCell")


@dataclass(slots=True)
class Survey:
    """`special` holds, by row (from 1) and column (from 0), the cells whose value calamine does
    not give; `hidden` the hidden rows, `merged` the merged ranges.
    """

    special: dict[tuple[int, int], tuple[Kind, str]] = field(default_factory=dict)
    hidden: list[int] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    last_row: int = 0
    last_column: int = 0
    cells: int = 0

    def take(self, row: RowMark) -> None:
        """Note what a row has."""
        if row.hidden:
            self.hidden.append(row.number)
        for cell in row.cells:
            special = _special(cell)
            if special is not None:
                self.special[row.number, cell.column] = special
            if special is not None or cell.value:
                self.cells += 1
                self.last_row = max(self.last_row, row.number)
                self.last_column = max(self.last_column, cell.column)


def survey(data: bytes, where: str) -> Survey:
    """The survey of one worksheet part. Raises SheetError where it is malformed or too wide."""
    found = Survey()
    if not _needs_walk(data):
        return found
    walk = Walk(found.take)
    try:
        walk.run(data)
    except MarkupError as error:
        raise SheetError(
            f"{where}: the worksheet is damaged: {error}",
            hint="Save the workbook again, or take it from a backup.",
        ) from None
    found.merged = walk.merged
    _check_extent(found, where)
    return found


def _needs_walk(data: bytes) -> bool:
    far = _far(data.count(b"<c "))
    return (
        b"<sheetData" not in data
        or any(mark in data for mark in _MARKS)
        or any(pattern.search(data) for pattern in (*_UNCOMMON, far))
    )


def _far(cells: int) -> re.Pattern[bytes]:
    """What finds a cell that may be too far away in a sheet of so many cells: from the row 100,000
    on those in columns that would make the rectangle too large, from 1,000,000 on all.
    """
    columns = max(FREE_AREA, MAX_SPARSENESS * cells) // 1_000_000
    return re.compile(_FAR.format(letter(min(columns, 25))).encode())


def _special(cell: CellMark) -> tuple[Kind, str] | None:
    if cell.kind == "e":
        return Kind.ERROR, cell.value
    if cell.formula and not cell.value and cell.kind != "str":
        return Kind.UNCALCULATED, ""
    return None


def _check_extent(found: Survey, where: str) -> None:
    if found.last_row > MAX_ROW or found.last_column >= MAX_COLUMN:
        raise SheetError(
            f"{where}: the worksheet is damaged: it has a cell outside of what a sheet can hold",
            hint="Save the workbook again, or take it from a backup.",
        )
    area = (found.last_row + 1) * (found.last_column + 1)
    if area > max(FREE_AREA, MAX_SPARSENESS * found.cells):
        raise SheetError(
            f"{where}: the sheet has values as far as column {letter(found.last_column)} and as "
            f"far as row {found.last_row:,}, too far for a table of pets",
            hint="Delete the stray cells (Ctrl+End leads to the last one), or copy the table into "
            "a sheet of its own.",
        )
