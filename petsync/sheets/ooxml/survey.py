"""What a worksheet has that calamine does not tell: error cells (it reads them as blank),
formulas without a value, hidden rows, merged cells, and cells that are absurdly far away.

A sheet that has none of it is only searched for their marks; the others are walked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from petsync.errors import SheetError
from petsync.sheets.grid import Kind, letter
from petsync.sheets.ooxml.extent import Extent, extent
from petsync.sheets.ooxml.markup import CellMark, MarkupError, RowMark, Walk

__all__ = ["Survey", "is_irregular", "survey"]

MAX_ROW, MAX_COLUMN = 1 << 20, 1 << 14
FREE_AREA = 4_000_000
"""The cells that the rectangle around all that have a value may always have: calamine holds it
whole, at some 64 bytes for each.
"""
MAX_SPARSENESS = 10
"""How many times the cells with a value a larger rectangle may have."""

# `re` finds short texts in many bytes faster than `in` does, and a single byte `in` the fastest.
_FORMULAS = (re.compile(rb"<f[\s>/]"), re.compile(rb":f[\s>/]"))
_ERROR = re.compile(rb'"e"')
_HIDDEN = re.compile(rb"hidden(?: |='|=\"[1t])")


@dataclass(slots=True)
class Survey:
    """`special` holds, by row (from 1) and column (from 0), the cells whose value calamine does
    not give; `hidden` the hidden rows, `merged` the merged ranges. `empty` are the formulas whose
    value is there and has no text, and whether an empty text is in the formula; whether others
    were `calculated` tells what that means.
    """

    special: dict[tuple[int, int], tuple[Kind, str]] = field(default_factory=dict)
    empty: dict[tuple[int, int], bool] = field(default_factory=dict)
    calculated: bool = False
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
            self.calculated |= cell.formula and bool(cell.value)
            if special is not None and special[0] is Kind.UNCALCULATED and cell.has_value:
                # A formula that is that of another cell has no text of its own.
                may_be = '""' in cell.formula_text or not cell.formula_text
                self.empty[row.number, cell.column] = may_be
            if special is not None:
                self.special[row.number, cell.column] = special
            if special is not None or cell.value:
                self.cells += 1
                self.last_row = max(self.last_row, row.number)
                self.last_column = max(self.last_column, cell.column)

    def settle(self) -> None:
        """Take formulas without a text for blank cells, if formulas were calculated: some programs
        write an empty text so, and others each formula that they did not calculate. Where none has
        a value, they are blank if each of them may give an empty text, which is pointed out.
        """
        unknown = [at for at, (kind, _) in self.special.items() if kind is Kind.UNCALCULATED]
        if self.calculated:
            for place in self.empty:
                del self.special[place]
        elif all(self.empty.get(at) for at in unknown):
            self.special.update(dict.fromkeys(unknown, (Kind.EMPTY, "")))


def survey(data: bytes, where: str, *, irregular: bool | None = None) -> Survey:
    """The survey of one worksheet part, of which it may be known whether it is `irregular`.

    Raises SheetError where it is malformed or too wide.
    """
    found = Survey()
    if not (is_irregular(extent(data)) if irregular is None else irregular) and not _is_marked(
        data
    ):
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
    found.settle()
    _check_extent(found, where)
    return found


def is_irregular(seen: Extent | None) -> bool:
    """Whether there may be cells too far away to be read, or a walk must tell where they are."""
    return seen is None or _is_too_large(seen.rows, seen.columns, seen.cells)


def _is_marked(data: bytes) -> bool:
    # Merged cells are listed behind the table.
    rows, end = data.find(b"<row"), data.rfind(b"</sheetData>")
    return (
        _ERROR.search(data) is not None
        or (b"'" in data and b"'e'" in data)
        or data.find(b"mergeCell", end) >= 0
        or data.find(b"mergeCell", 0, rows) >= 0
        or _HIDDEN.search(data) is not None
        or any(pattern.search(data) for pattern in _FORMULAS)
    )


def _is_too_large(rows: int, columns: int, cells: int) -> bool:
    return rows * columns > max(FREE_AREA, MAX_SPARSENESS * cells)


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
    if _is_too_large(found.last_row + 1, found.last_column + 1, found.cells):
        raise SheetError(
            f"{where}: the sheet has values as far as column {letter(found.last_column)} and as "
            f"far as row {found.last_row:,}, too far for a table of pets",
            hint="Delete the stray cells (Ctrl+End leads to the last one), or copy the table into "
            "a sheet of its own.",
        )
