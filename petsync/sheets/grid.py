"""Grid: the cells of a sheet by column; CellEdits: new texts of cells; searches in columns."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.table.cells import BLANKS
from petsync.table.sheet import Correction, cell_address

__all__ = [
    "MAX_CELL_LENGTHS",
    "ROW_NUMBER",
    "SHOWN_LENGTH",
    "Bools",
    "CellEdits",
    "CellKind",
    "Cells",
    "Fault",
    "Grid",
    "Rows",
    "TextBytes",
    "column_number",
    "is_longer",
    "letter",
    "merge_rows",
]


# The bytes of all cells of a column together, to find the few cells that need a check.


Rows = np.ndarray[Any, np.dtype[np.intp]]
Bytes = np.ndarray[Any, Any]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)

_PART_SIZE = 1 << 18
"""The bytes that are searched together: their masks stay in the cache of the processor."""
_MAX_COMPARISONS = 8
"""Looking each byte up in a table costs as much as this number of comparisons."""
_USUAL = b"\n " + bytes(range(ord("-"), ord(";") + 1)) + string.ascii_letters.encode()
"""The bytes of most cells. All other bytes are rare: their positions are searched for only once."""
_MIN_USUAL = 16
"""The positions of unusual bytes are kept if there are at least as many usual bytes for each."""


@dataclass(frozen=True, eq=False)
class TextBytes:
    """The UTF-8 of all cells, one after the other, and the offset of each cell and of the end."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    offsets: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, text: Any) -> TextBytes:
        """Return the bytes of an Arrow array of large_string, without copying them."""
        _, places, content = text.buffers()
        if places is None or content is None or not len(text):
            return cls(np.zeros(0, dtype=np.uint8), np.zeros(len(text) + 1, dtype=np.int64))
        offsets = np.frombuffer(places, np.int64)[text.offset : text.offset + len(text) + 1]
        start, end = offsets[0], offsets[-1]
        return cls(
            np.frombuffer(content, np.uint8)[start:end], offsets - start if start else offsets
        )

    @cached_property
    def first(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The first byte of each cell; 0 for an empty cell."""
        return self._edge(self.offsets[:-1])

    @cached_property
    def last(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The last byte of each cell; 0 for an empty cell."""
        return self._edge(self.offsets[1:] - 1)

    @cached_property
    def _extremes(self) -> tuple[int, int]:
        return _find_extremes(self.data)

    @cached_property
    def _first_extremes(self) -> tuple[int, int]:
        return _find_extremes(self.first)

    @cached_property
    def _last_extremes(self) -> tuple[int, int]:
        return _find_extremes(self.last)

    @property
    def is_empty(self) -> Bools:
        """A mask of the empty cells."""
        result: Bools = self.offsets[:-1] == self.offsets[1:]
        return result

    def has_only(self, marks: bytes) -> bool:
        """Return true if all bytes are in the range from the first to the last of `marks`."""
        lowest, highest = self._extremes
        return marks[0] <= lowest and highest <= marks[-1]

    def _edge(self, places: Rows) -> np.ndarray[Any, np.dtype[np.uint8]]:
        if not len(self.data):
            return np.zeros(len(places), dtype=np.uint8)
        edge: np.ndarray[Any, np.dtype[np.uint8]] = self.data.take(places, mode="clip")
        edge[self.is_empty] = 0
        return edge

    def places(self, matches: Callable[[Bytes], Bytes]) -> Rows:
        """Return the positions of the bytes that `matches` selects. `matches` gets one part at a
        time, because the masks of a large column would take as much memory as the column.
        """
        if len(self.data) <= _PART_SIZE:
            return np.flatnonzero(matches(self.data))
        parts = range(0, len(self.data), _PART_SIZE)
        positions = [np.flatnonzero(matches(self.data[at : at + _PART_SIZE])) + at for at in parts]
        return np.concatenate(positions)

    def find(self, marks: bytes) -> Rows:
        """Return the positions of the bytes that are in `marks`."""
        lowest, highest = self._extremes
        marks = bytes(mark for mark in marks if lowest <= mark <= highest)
        if not marks:
            return _NO_ROWS
        if _table_of(_USUAL)[[*marks]].any() or self._unusual is None:
            return self.places(lambda data: _are_in(data, marks))
        return self._unusual[_table_of(marks)[self.data[self._unusual]]]

    def find_others(self, marks: bytes) -> Rows:
        """Return the positions of the bytes that are not in `marks`."""
        return self.places(lambda data: ~_are_in(data, marks))

    @cached_property
    def _unusual(self) -> Rows | None:
        """The positions of the bytes that are not in _USUAL; None if there are many."""
        parts: list[Rows] = []
        remaining = len(self.data) // _MIN_USUAL
        for at in range(0, len(self.data), _PART_SIZE):
            found = np.flatnonzero(~_are_usual(self.data[at : at + _PART_SIZE]))
            remaining -= len(found)
            if remaining < 0:
                return None
            parts.append(found + at)
        return np.concatenate(parts)

    def bytes_after(self, places: Rows, *, by: int = 1) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the bytes `by` positions after those at `places`; 0 after the last byte."""
        if not len(self.data):
            return np.zeros(len(places), dtype=np.uint8)
        following_bytes = self.data[np.minimum(places + by, len(self.data) - 1)]
        following_bytes[places + by >= len(self.data)] = 0
        return following_bytes

    def rows(self, places: Rows) -> Rows:
        """Return the rows of the cells that contain these bytes, each row once."""
        if not len(places):
            return places
        return np.unique(np.searchsorted(self.offsets, places, side="right") - 1)

    def rows_starting_with(self, marks: bytes) -> Rows:
        """Return the rows of the cells whose first byte is one of `marks`."""
        return np.flatnonzero(self.start_with(marks))

    def start_with(self, marks: bytes) -> Bools:
        """Return a mask of the cells whose first byte is one of `marks`."""
        return self._are_in_cells(self.first, self._first_extremes, marks)

    def end_with(self, marks: bytes) -> Bools:
        """Return a mask of the cells whose last byte is one of `marks`."""
        return self._are_in_cells(self.last, self._last_extremes, marks)

    def _are_in_cells(self, edge: Bytes, extremes: tuple[int, int], marks: bytes) -> Bools:
        lowest, highest = extremes
        marks = bytes(mark for mark in marks if lowest <= mark <= highest)
        if not marks:
            return np.zeros(len(edge), dtype=bool)
        mask = _are_in(edge, marks)
        return mask & ~self.is_empty if 0 in marks else mask


def merge_rows(*parts: Rows) -> Rows:
    """Return the rows in any of the parts, each once and in order. Each part must be in order."""
    filled = [rows for rows in parts if len(rows)]
    if len(filled) > 1:
        return np.unique(np.concatenate(filled))
    return filled[0] if filled else _NO_ROWS


def _find_extremes(data: Bytes) -> tuple[int, int]:
    """Return the lowest and the highest byte that occur."""
    return (int(data.min()), int(data.max())) if len(data) else (256, -1)


def _are_in(data: Bytes, marks: bytes) -> Bytes:
    """Return a mask of the bytes that are in `marks`."""
    spans = _spans_of(marks)
    if len(spans) > _MAX_COMPARISONS:
        looked_up: Bytes = _table_of(marks)[data]
        return looked_up
    mask = _are_within(data, *spans[0])
    for span in spans[1:]:
        mask |= _are_within(data, *span)
    return mask


def _are_usual(data: Bytes) -> Bytes:
    """Return a mask of the bytes in _USUAL."""
    mask = _are_within(data | 0x20, ord("a"), ord("z"))
    mask |= _are_within(data, ord("-"), ord(";"))
    mask |= data == ord(" ")
    mask |= data == ord("\n")
    return mask


def _are_within(data: Bytes, lowest: int, highest: int) -> Bytes:
    # A byte below the lowest one wraps around to a large number.
    is_within: Bytes = data == lowest if lowest == highest else data - lowest <= highest - lowest
    return is_within


@cache
def _spans_of(marks: bytes) -> list[tuple[int, int]]:
    """Return the first and the last byte of each run of consecutive bytes in `marks`."""
    there = {*marks}
    starts = (mark for mark in there if mark - 1 not in there)
    ends = (mark for mark in there if mark + 1 not in there)
    return list(zip(sorted(starts), sorted(ends), strict=True))


@cache
def _table_of(marks: bytes) -> Bools:
    """Return a mask of the 256 byte values: true for those in `marks`."""
    table = np.zeros(256, dtype=bool)
    table[list(marks)] = True
    return table


# Grid: the cells of a file before validation, as a header and columns.


_FIRST_BYTES = bytes({char.encode()[0] for char in BLANKS})
_LAST_BYTES = bytes({char.encode()[-1] for char in BLANKS})


class CellKind(IntEnum):
    """The kind of a cell's content.

    In a CSV file, every cell is TEXT, except an error value (ERROR), and a text that begins like a
    formula (FORMULA), contains a NUL (DAMAGED), or begins with spaces and a quote (QUOTED). EMPTY
    is a formula without a value that may have returned an empty text or was never calculated.
    ROUNDED is a float in a DataFrame that may have been rounded to a whole number.
    """

    TEXT = 0
    NUMBER = 1
    BOOLEAN = 2
    DATE = 3
    ERROR = 4
    UNCALCULATED = 5
    FORMULA = 6
    DAMAGED = 7
    QUOTED = 8
    EMPTY = 9
    ROUNDED = 10


_BLANK_KINDS = (CellKind.TEXT, CellKind.EMPTY)
"""The kinds of cells that are blank if they have no text."""


MAX_CELL_LENGTHS = {"workbook": 32_767, "text": 131_072}
"""The maximum number of characters of a cell that spreadsheet programs and CSV readers accept."""
SHOWN_LENGTH = 200
"""The number of characters of a longer text that a finding shows."""


def is_longer(text: str, limit: int) -> bool:
    """Whether the text has more characters than the limit, as Excel counts them: in UTF-16."""
    return len(text) > limit // 2 and len(text.encode("utf-16-le")) // 2 > limit


class Fault(NamedTuple):
    """A record that is not a valid row: the rule that it breaks, its text, the problem, the column
    of the text, and the suggestion, "" for that of the rule. In a CSV record, the text may belong
    to any column.
    """

    rule: str
    value: str
    problem: str
    column: str = "id"
    suggestion: str = ""


@dataclass(frozen=True)
class Cells:
    """The cells of one column."""

    text: Any
    """An Arrow array of large_string without nulls: the value of each cell as a text, whatever its
    number format, "" for a blank cell.
    """
    kinds: np.ndarray[Any, np.dtype[np.int8]] | None = None
    """A `CellKind` for each cell; None if all are text."""

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def utf8(self) -> TextBytes:
        """The bytes of all cells."""
        return TextBytes.of(self.text)

    def trim(self) -> Any:
        """Return the text without the whitespace around it, as an Arrow array."""
        rows = self._find_spaced()
        if not len(rows):
            return self.text
        spaced = np.zeros(len(self), dtype=bool)
        spaced[rows] = True
        trimmed = pc.utf8_trim(self.text.take(pa.array(rows)), characters=BLANKS)
        return pc.replace_with_mask(self.text, pa.array(spaced), trimmed)

    def find_blank(self) -> Bools:
        """Return a mask of the blank cells."""
        empty = self.utf8.is_empty
        rows = self._find_spaced()
        if len(rows):
            trimmed = pc.utf8_trim(self.text.take(pa.array(rows)), characters=BLANKS)
            empty[rows] = np.asarray(pc.equal(pc.binary_length(trimmed), 0))
        return empty if self.kinds is None else empty & np.isin(self.kinds, _BLANK_KINDS)

    def _find_spaced(self) -> Rows:
        """Return the rows whose first or last byte may belong to whitespace."""
        return np.flatnonzero(self.utf8.start_with(_FIRST_BYTES) | self.utf8.end_with(_LAST_BYTES))

    @classmethod
    def concat(cls, parts: Sequence[Cells]) -> Cells:
        """Return the cells of all parts, one after the other."""
        texts = [part.text for part in parts] or [pa.array([], pa.large_string())]
        if all(part.kinds is None for part in parts):
            return cls(pa.concat_arrays(texts))
        kinds = [
            np.full(len(part), CellKind.TEXT, dtype=np.int8) if part.kinds is None else part.kinds
            for part in parts
        ]
        return cls(pa.concat_arrays(texts), np.concatenate(kinds))

    def take(self, positions: np.ndarray[Any, Any]) -> Cells:
        """Return the cells at `positions`, in that order."""
        kinds = None if self.kinds is None else self.kinds[positions]
        return Cells(self.text.take(pa.array(positions)), kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A header and the rows below it. Blank rows of a file are left out."""

    tab: str
    header: Sequence[str]
    header_row: int
    rows: np.ndarray[Any, np.dtype[np.int64]]
    """The numbers of the rows in the file."""
    columns: Sequence[Cells]
    """One `Cells` for each item of `header`."""
    places: Sequence[str]
    """The columns' letters (XLSX), numbers (CSV) or names (DataFrame)."""
    faults: Mapping[int, Fault] = field(default_factory=dict)
    """The records that are not valid rows, by position."""
    merged: Sequence[str] = ()
    """The merged ranges of the worksheet."""
    hidden: Sequence[int] = ()
    """The hidden rows of the worksheet."""
    hidden_columns: Sequence[str] = ()
    """The places of the hidden columns."""
    filtered: Sequence[str] = ()
    """The places of the columns with an active filter."""
    tabs: Sequence[str] = ()
    """The workbook's other visible worksheets, without those that petsync added."""
    corrections: Sequence[Correction] = ()
    """The cells whose text was changed by a correction."""
    elsewhere: Sequence[str] = ()
    """The worksheets in `tabs` with headers that petsync recognises, if the caller named no
    worksheet.
    """
    copies: Mapping[str, str] = field(default_factory=dict)
    """Those of the worksheets in `elsewhere` that are edited copies of this one, each with the
    address of the first cell that differs.
    """
    heads: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """The first rows of the worksheets in `tabs` without such headers, under the same condition."""
    emptied: Sequence[int] = ()
    """The positions of a DataFrame's rows whose category is an empty text."""
    since_1904: bool = False
    """Whether the workbook uses the 1904 date system."""
    files: Sequence[str] = ()
    """The names of the files of a sheet in several files."""
    labels: Mapping[int, str] | None = None
    """The labels of a DataFrame's rows, see `cell_address`."""

    def address(self, place: str, row: int) -> str:
        """Return the address of the cell in the column at `place` and the row with this number."""
        return cell_address(self.tab, place, row, self.files, self.labels)

    def without_blank_rows(self) -> Grid:
        """Return the grid without the rows in which every cell is blank."""
        blank = np.ones(len(self.rows), dtype=bool)
        blank[list(self.faults)] = False
        for column in self.columns:
            if not blank.any():
                break
            blank &= column.find_blank()
        if not blank.any():
            return self
        remaining = np.flatnonzero(~blank)
        new_positions = dict(zip(remaining.tolist(), range(len(remaining)), strict=True))
        return replace(
            self,
            rows=self.rows[remaining],
            columns=[column.take(remaining) for column in self.columns],
            faults={new_positions[at]: fault for at, fault in self.faults.items()},
            emptied=[new_positions[at] for at in self.emptied if at in new_positions],
        )


# CellEdits: the new texts of cells. Rows with the same texts are one array of numbers, because the
# results of a large sheet are the same in most rows.


ROW_NUMBER = "{row}"
"""Stands for the row's number in the texts that rows share."""


@dataclass(frozen=True, slots=True)
class CellEdits:
    """The new texts of cells, by row and column: a row's `own` texts, or those that it shares."""

    own: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    shared: Sequence[Mapping[str, str]] = ({},)
    """Texts that rows share. The first ones are empty; all others have the same columns."""
    kinds: np.ndarray[Any, np.dtype[np.int32]] = field(default_factory=lambda: np.zeros(1, "i4"))
    """For each row number up to the last row with shared texts, the position in `shared`."""

    def of(self, row: int) -> Mapping[str, str]:
        """Return the new texts of a row."""
        if row in self.own:
            return self.own[row]
        shared = self.shared[self.kind(row)]
        return {name: text.replace(ROW_NUMBER, str(row)) for name, text in shared.items()}

    def kind(self, row: int) -> int:
        """Return the position in `shared` of the texts of a row."""
        return int(self.kinds[row]) if row < len(self.kinds) else 0

    def kinds_of(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Rows:
        """Return the positions in `shared` of the texts of these rows."""
        last = len(self.kinds) - 1
        return np.where(rows > last, 0, self.kinds[np.minimum(rows, last)])

    @property
    def rows(self) -> set[int]:
        """The rows with new texts."""
        return {*self.own, *np.flatnonzero(self.kinds).tolist()}

    @property
    def columns(self) -> set[str]:
        """The columns with new texts."""
        shared = (self.shared[kind] for kind in np.unique(self.kinds).tolist())
        return {name for texts in (*self.own.values(), *shared) for name in texts}


@lru_cache(maxsize=1024)
def letter(column: int) -> str:
    """Return a column's letters in A1 notation; the first column is 0."""
    return "".join(reversed(list(_letters(column))))


def _letters(column: int) -> Iterator[str]:
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        yield chr(ord("A") + rest)


def column_number(letters: str) -> int:
    """Return the column (from 0) of letters in A1 notation."""
    number = 0
    for character in letters.upper():
        number = number * 26 + ord(character) - ord("A") + 1
    return number - 1
