"""Find what calamine does not report: errors, formulas, merged cells, hidden rows and columns."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from petsync.errors import SheetError
from petsync.sheets.grid import Bools, CellKind, column_number, letter
from petsync.sheets.xlsx.xml import (
    CellMark,
    MarkupError,
    RowMark,
    Walk,
    contains_pair,
)

if TYPE_CHECKING:
    from petsync.sheets.xlsx.package import Package

__all__ = [
    "Extent",
    "Survey",
    "View",
    "extent",
    "is_irregular",
    "lines_of",
    "survey",
    "translate_damage",
    "view",
]


# The extent of a worksheet's cells, found in its bytes: calamine allocates the whole rectangle
# around them, so the extent must be known first.


_PREFIXED = re.compile(rb":c[\s>/]")
_BEHIND = 40
_DIGITS = 8
_PART = 1 << 20
_LETTERS, _MAX_NUMBER = 64, 1 << 24
_Tags = np.ndarray[Any, np.dtype[np.int32]]
_Positions = np.ndarray[Any, np.dtype[np.intp]]
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Extent(NamedTuple):
    """The extent of a worksheet's cells."""

    rows: int
    """The last row in which there may be cells, counted from 1."""
    columns: int
    """The last column in which there may be cells, counted from 1."""
    ordered: bool
    """Whether all rows have a number, and rows and cells are in order."""


def extent(data: bytes, *, part: int = _PART) -> Extent | None:
    """Return the extent of a worksheet part, including formatted cells; None if it can only be
    determined by parsing, for example because a cell is beyond column Z or has no reference. The
    part is searched `part` bytes at a time.
    """
    if b"<sheetData" not in data or b"<c" in data[-_BEHIND:]:
        return None
    if contains_pair(data, b":c") and _PREFIXED.search(data):
        return None
    raw = np.frombuffer(data, np.uint8)
    parts: list[_Tags] = []
    for at in range(0, len(raw) - _BEHIND, part):
        tags = _row_and_cell_tags(raw, at, min(at + part, len(raw) - _BEHIND))
        if tags is None:
            return None
        parts.append(tags)
    tags = np.concatenate([np.zeros(0, np.int32), *parts])
    is_cell = tags % _LETTERS > 0
    cells = tags[is_cell]
    is_in_known_row = is_cell[1:] & (tags[:-1] > 0)
    if ((tags[1:] ^ tags[:-1])[is_in_known_row] >= _LETTERS).any():
        return None  # A cell is in a row of another number.
    ordered = bool((tags > 0).all() and (np.diff(tags) > 0).all())
    if not ordered and not np.diff(np.sort(cells)).all():
        return None
    last_row = int(cells.max(initial=0)) // _LETTERS
    last_column = int((cells % _LETTERS).max(initial=1))
    return Extent(last_row, last_column, ordered)


def _row_and_cell_tags(raw: _Bytes, at: int, end: int) -> _Tags | None:
    """Return the tags of rows and cells that start from `at` up to `end`, in their order. Each is
    64 times the number of its row; plus, for a cell, its column, counted from 1. A row without a
    number is 0. Return None if a cell has other markup.
    """
    following = raw[at + 1 : end + 1]
    is_start = (following == ord("c")) | (following == ord("r"))
    tags = np.flatnonzero((raw[at:end] == ord("<")) & is_start) + at
    is_cell = (raw[tags + 1] == ord("c")) & (raw[tags + 2] < ord("A"))
    is_tag = is_cell | (_starts_with(raw, tags, b"<row") & (raw[tags + 4] < ord("A")))
    tags, is_cell = tags[is_tag], is_cell[is_tag]
    has_number = _starts_with(raw, tags + np.where(is_cell, 2, 4), b' r="')
    letters = raw[tags + 6] & 0xDF
    is_letter = (letters >= ord("A")) & (letters <= ord("Z"))
    numbers = _numbers(raw, tags + np.where(is_cell, 7, 8))
    if not (has_number & is_letter & (numbers > 0))[is_cell].all():
        return None
    numbers[~has_number] = 0
    numbers *= _LETTERS
    numbers[is_cell] += letters[is_cell] - (ord("A") - 1)
    return numbers


def _starts_with(raw: _Bytes, positions: _Positions, text: bytes) -> Bools:
    """Return a mask of the positions at which the bytes start with `text`."""
    starts = np.ones(len(positions), dtype=bool)
    for place, byte in enumerate(text):
        starts &= raw[positions + place] == byte
    return starts


def _numbers(raw: _Bytes, positions: _Positions) -> _Tags:
    """Return the numbers of up to eight digits that start at these positions and end before a
    quotation mark, as 16,777,216 if they are larger; 0 if there is none.
    """
    numbers = np.zeros(len(positions), dtype=np.int32)
    for _ in range(_DIGITS):
        digits = raw[positions] - np.uint8(ord("0"))
        is_digit = digits < 10
        numbers = np.where(is_digit, numbers * 10 + digits, numbers)
        positions = positions + is_digit
    numbers[raw[positions] != ord('"')] = 0
    return np.minimum(numbers, _MAX_NUMBER)


# Parts of a worksheet that calamine does not report: error cells (it reads them as blank), formulas
# without a value, hidden rows, merged cells, and cells that are extremely far away.
#
# A sheet is first searched for such markup, and parsed only if it has any.


MAX_ROW, MAX_COLUMN = 1 << 20, 1 << 14
FREE_AREA = 4_000_000
"""The size, in cells, up to which the rectangle around all values is always permitted: calamine
keeps the whole rectangle in memory, with about 64 bytes for each cell.
"""
MAX_SPARSENESS = 10
"""For a larger rectangle, the highest permitted ratio of its size to the number of cells with a
value.
"""

_FORMULAS = ((b"<f", re.compile(rb"<f[\s>/]")), (b":f", re.compile(rb":f[\s>/]")))
_ERROR = re.compile(rb'"e"')
_NONCHARACTER = re.compile(rb"\xef\xbf[\xbe\xbf]")
_CELL_TAG = re.compile(rb"<((?:\w+:)?)c\b")
_READ_ERRORS = ("#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NUM!", "#NULL!")
_HIDDEN_MARK = re.compile(rb"hidden(?: |='|=\"[1t])")


@dataclass(slots=True)
class Survey:
    """What calamine does not report about a worksheet."""

    special: dict[tuple[int, int], tuple[CellKind, str]] = field(default_factory=dict)
    """By row (from 1) and column (from 0), the cells whose value calamine does not return."""
    empty: dict[tuple[int, int], bool] = field(default_factory=dict)
    """By row and column, the formulas whose value element has no text; true if the formula may
    return an empty text.
    """
    calculated: bool = False
    """Whether at least one formula has a value."""
    hidden: list[int] = field(default_factory=list)
    """The hidden rows."""
    merged: list[str] = field(default_factory=list)
    """The merged ranges."""
    last_row: int = 0
    last_column: int = 0
    cells: int = 0
    unread: list[tuple[str, slice]] = field(default_factory=list)
    """The error cells for which calamine would refuse the worksheet: their references, and their
    bytes in the part.
    """

    def handle_row(self, row: RowMark) -> None:
        """Survey a row."""
        if row.hidden:
            self.hidden.append(row.number)
        for cell in row.cells:
            special = _special(cell)
            self.calculated |= cell.formula and bool(cell.value)
            if special is not None and special[0] is CellKind.UNCALCULATED and cell.has_value:
                # A cell that shares the formula of another one has no formula text itself.
                may_be = '""' in cell.formula_text or not cell.formula_text
                self.empty[row.number, cell.column] = may_be
            if special is not None:
                self.special[row.number, cell.column] = special
            if cell.kind == "e" and cell.value not in _READ_ERRORS:
                place = f"{letter(cell.column)}{row.number}"
                self.unread.append((place, slice(cell.start, cell.end)))
            if special is not None or cell.value:
                self.cells += 1
                self.last_row = max(self.last_row, row.number)
                self.last_column = max(self.last_column, cell.column)

    def make_readable(self, data: bytes) -> bytes:
        """Return the part with each unreadable error replaced by one that calamine reads as
        blank.
        """
        pieces, done = [], 0
        for place, at in self.unread:
            tag = _CELL_TAG.match(data, at.start)
            prefix = tag[1].decode() if tag else ""
            cell = f'<{prefix}c r="{place}" t="e"><{prefix}v>#N/A</{prefix}v></{prefix}c>'
            pieces += [data[done : at.start], cell.encode()]
            done = at.stop
        return b"".join([*pieces, data[done:]])

    def settle(self) -> None:
        """Decide which formulas without a value are blank cells. Some programs omit the value of a
        formula that returns an empty text; others omit the values of all formulas that they did not
        calculate. If another formula has a value, the formulas in `empty` are blank. If no formula
        has a value, and each may return an empty text, all are EMPTY, which gets a note.
        """
        unknown = [at for at, (kind, _) in self.special.items() if kind is CellKind.UNCALCULATED]
        if self.calculated:
            for place in self.empty:
                del self.special[place]
        elif all(self.empty.get(at) for at in unknown):
            self.special.update(dict.fromkeys(unknown, (CellKind.EMPTY, "")))


def survey(data: bytes, where: str, *, irregular: bool | None = None) -> Survey:
    """Return the survey of one worksheet part; `irregular` indicates whether it must be parsed, if
    known.

    Raises SheetError if the part is malformed or has a cell too far away.
    """
    found_survey = Survey()
    if irregular is None:
        irregular = is_irregular(data, extent(data))
    if not irregular and not _is_marked(data):
        return found_survey
    walk = Walk(found_survey.handle_row)
    try:
        # The package has decoded the escapes of U+FFFE and U+FFFF, which XML lacks. No text of a
        # cell is taken here, and the offsets stay the same.
        walk.run(_NONCHARACTER.sub(b"\xef\xbf\xbd", data))
    except MarkupError as error:
        raise SheetError(
            f"{where}: the worksheet is damaged: {error}",
            hint="Open it in Excel or LibreOffice, check the values, and save it again; or restore "
            "it from a backup.",
        ) from None
    found_survey.hidden.sort()
    found_survey.merged = walk.merged
    found_survey.settle()
    _check_extent(found_survey, where)
    return found_survey


def is_irregular(data: bytes, seen: Extent | None) -> bool:
    """Return true if there may be cells too far away to be read, or if the cells can only be found
    by parsing. `seen` is the extent of the worksheet's part `data`.
    """
    if seen is None:
        return True
    cells = 0  # The number of cells with content; the count stops when it is large enough.
    for at in range(0, len(data), _PART):
        if not _is_too_large(seen.rows, seen.columns, cells):
            return False
        cells += data.count(b"</c>", at, at + _PART + 3)
    return _is_too_large(seen.rows, seen.columns, cells)


def _is_marked(data: bytes) -> bool:
    # Merged cells are listed after the table.
    rows, end = max(data.find(b"<row"), 0), data.rfind(b"</sheetData>")
    return (
        (contains_pair(data, b'"e', rows, end) and _ERROR.search(data) is not None)
        or (contains_pair(data, b"'e", rows, end) and b"'e'" in data)
        or data.find(b"mergeCell", end) >= 0
        or data.find(b"mergeCell", 0, rows) >= 0
        or _HIDDEN_MARK.search(data) is not None
        or any(
            contains_pair(data, pair, rows, end) and form.search(data) for pair, form in _FORMULAS
        )
    )


def _is_too_large(rows: int, columns: int, cells: int) -> bool:
    return rows * columns > max(FREE_AREA, MAX_SPARSENESS * cells)


def _special(cell: CellMark) -> tuple[CellKind, str] | None:
    if cell.kind == "e":
        return CellKind.ERROR, cell.value
    if cell.formula and not cell.value and cell.kind != "str":
        return CellKind.UNCALCULATED, ""
    return None


def _check_extent(survey: Survey, where: str) -> None:
    if survey.last_row > MAX_ROW or survey.last_column >= MAX_COLUMN:
        raise SheetError(
            f"{where}: the worksheet is damaged: it has a cell beyond the limits of a sheet",
            hint="Save it again in Excel or LibreOffice, or restore it from a backup.",
        )
    if _is_too_large(survey.last_row + 1, survey.last_column + 1, survey.cells):
        raise SheetError(
            f"{where}: the sheet has values as far as column {letter(survey.last_column)} and as "
            f"far as row {survey.last_row:,}, too far for a table of pets",
            hint="Delete the stray cells (Ctrl+End goes to the last one), or copy the table into "
            "another sheet.",
        )


# Hidden worksheets with lines of plain ASCII.


def lines_of(package: Package, name: str) -> list[str] | None:
    """Return the first column of the worksheet with this name, hidden or visible; None if there is
    no such worksheet.

    Raises SheetError if it is damaged.
    """
    tab = next((tab for tab in package.tabs if tab.name == name), None)
    if tab is None:
        return None
    where = f"{package.path}, sheet {name!r}"
    data = package.text_part(tab.part)
    # A cell far away would make calamine allocate a huge rectangle.
    survey(data, where)
    package.check_texts(data)
    return [str(row[0]) for row in _rows_of_workbook(package.extract_sheet(data), where) if row]


def _rows_of_workbook(workbook: io.BytesIO, where: str) -> list[list[Any]]:
    # calamine is loaded when a workbook is read.
    from python_calamine import load_workbook

    with translate_damage(where):
        return load_workbook(workbook).get_sheet_by_index(0).to_python()


@contextmanager
def translate_damage(where: str) -> Iterator[None]:
    """Convert errors of calamine to a SheetError that names the worksheet."""
    try:
        yield
    except SheetError:
        raise
    except BaseException as error:
        # A panic in calamine derives from BaseException; it means a damaged file, as other
        # exceptions do.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise SheetError(
                f"{where}: the worksheet is damaged: {error}",
                hint="Save it again in Excel or LibreOffice, or restore it from a backup.",
            ) from None
        raise


# The view of a worksheet: hidden columns, and active filters.


_VIEW_HEAD = 1 << 20
_COLUMN = re.compile(rb"<(?:\w+:)?col\s([^<>]*)>")
_NUMBER = re.compile(rb"\b(min|max)\s*=\s*[\"']([0-9]{1,5})[\"']")
_HIDDEN_COLUMN = re.compile(
    rb"\bhidden\s*=\s*[\"'](?:1|true)[\"']|\bwidth\s*=\s*[\"']0(?:\.0+)?[\"']"
)
_FILTER = re.compile(rb"<(?:\w+:)?autoFilter\s([^<>]*)>")
_REF = re.compile(rb"\bref\s*=\s*[\"']\$?([A-Z]{1,3})")
_CRITERION = re.compile(rb"<(?:\w+:)?filterColumn\s([^<>]*)>")
_PLACE = re.compile(rb"\bcolId\s*=\s*[\"']([0-9]{1,5})[\"']")
_END_OF_VIEW = re.compile(rb"</(?:\w+:)?autoFilter>|<(?:\w+:)?customSheetViews\b")


@dataclass(frozen=True, slots=True)
class View:
    """The hidden columns (numbers, from 0), and the letters of the columns with a filter."""

    hidden: tuple[range, ...] = ()
    filtered: tuple[str, ...] = ()


def view(data: bytes) -> View:
    """Return the view of one worksheet part, from the elements before and after its cells."""
    start = data.find(b"sheetData")
    if start < 0:
        return View()
    tail = data[data.rfind(b"sheetData") :]
    return View(
        tuple(_hidden_columns(data[: min(start, _VIEW_HEAD)])), tuple(_iter_filtered_columns(tail))
    )


def _hidden_columns(head: bytes) -> Iterator[range]:
    for column in _COLUMN.finditer(head):
        span = {name: int(number) for name, number in _NUMBER.findall(column[1])}
        if len(span) == 2 and _HIDDEN_COLUMN.search(column[1]):
            yield range(span[b"min"] - 1, span[b"max"])


def _iter_filtered_columns(tail: bytes) -> Iterator[str]:
    """Yield the columns with criteria in the worksheet's filter. A column that only has the
    filter button is left out.
    """
    before = _END_OF_VIEW.split(tail, maxsplit=1)[0]
    match = _FILTER.search(before)
    ref = match and _REF.search(match[1])
    if not match or not ref or match[1].endswith(b"/"):
        return
    for criterion in _CRITERION.finditer(before, match.end()):
        place = _PLACE.search(criterion[1])
        if place and not criterion[1].endswith(b"/"):
            yield letter(column_number(ref[1].decode()) + int(place[1]))
