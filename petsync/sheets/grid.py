"""Grid: the cells of a sheet by column; CellEdits: new texts of cells; searches in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.table.cells import BLANKS
from petsync.table.sheet import Correction

__all__ = [
    "ROW_NUMBER",
    "Bools",
    "CellEdits",
    "CellKind",
    "Cells",
    "Fault",
    "Grid",
    "Rows",
    "TextBytes",
    "letter",
    "merge_rows",
    "rows_starting_with",
    "text_bytes",
]


# The bytes of all cells of a column together, to find the few cells that need a check.


Rows = np.ndarray[Any, np.dtype[np.intp]]
Bytes = np.ndarray[Any, Any]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

_PART_SIZE = 1 << 20


class TextBytes(NamedTuple):
    """The UTF-8 of all cells, one after the other, and the offset of each cell and of the end."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    offsets: np.ndarray[Any, np.dtype[np.int64]]

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
        if len(marks) == 1:
            return self.places(lambda data: data == marks[0])
        table = _table_of(marks)
        return self.places(lambda data: table[data])

    def bytes_after(self, places: Rows, *, by: int = 1) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the bytes `by` positions after those at `places`; 0 after the last byte."""
        following_bytes = self.data[np.minimum(places + by, max(len(self.data) - 1, 0))]
        following_bytes[places + by >= len(self.data)] = 0
        return following_bytes

    def rows(self, places: Rows) -> Rows:
        """Return the rows of the cells that contain these bytes, each row once."""
        if not len(places):
            return places
        return np.unique(np.searchsorted(self.offsets, places, side="right") - 1)


def text_bytes(text: Any) -> TextBytes:
    """Return the bytes of an Arrow array of large_string."""
    _, places, content = text.buffers()
    if places is None or content is None or not len(text):
        return TextBytes(np.zeros(0, dtype=np.uint8), np.zeros(len(text) + 1, dtype=np.int64))
    offsets = np.frombuffer(places, np.int64)[text.offset : text.offset + len(text) + 1]
    start, end = offsets[0], offsets[-1]
    return TextBytes(np.frombuffer(content, np.uint8)[start:end], offsets - start)


def rows_starting_with(text: Any, marks: bytes) -> Rows:
    """Return the rows of an Arrow array of large_string whose first byte is one of `marks`."""
    data, offsets = text_bytes(text)
    if not len(data):
        return np.zeros(0, dtype=np.intp)
    starts, ends = offsets[:-1], offsets[1:]
    first = data[np.minimum(starts, len(data) - 1)]
    return np.flatnonzero(_table_of(marks)[first] & (starts < ends))


def merge_rows(*parts: Rows) -> Rows:
    """Return the rows in any of the parts, each once and in order. Each part must be in order."""
    filled = [rows for rows in parts if len(rows)]
    if len(filled) > 1:
        return np.unique(np.concatenate(filled))
    return filled[0] if filled else np.zeros(0, dtype=np.intp)


@cache
def _table_of(marks: bytes) -> Bools:
    """Return a mask of the 256 byte values: true for those in `marks`."""
    table = np.zeros(256, dtype=bool)
    table[list(marks)] = True
    return table


# Grid: a sheet as it is in its file, a header and columns of cells, before validation.


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


class Fault(NamedTuple):
    """A CSV record that is not a valid row: the rule that it breaks, its text, and the problem."""

    rule: str
    value: str
    problem: str


@dataclass(frozen=True, slots=True)
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
        offsets = text_bytes(self.text).offsets
        empty: Bools = offsets[:-1] == offsets[1:]
        rows = self._find_spaced()
        if len(rows):
            trimmed = pc.utf8_trim(self.text.take(pa.array(rows)), characters=BLANKS)
            empty[rows] = np.asarray(pc.equal(pc.binary_length(trimmed), 0))
        return empty if self.kinds is None else empty & np.isin(self.kinds, _BLANK_KINDS)

    def _find_spaced(self) -> np.ndarray[Any, Any]:
        """Return the rows whose first or last byte may belong to whitespace."""
        data, offsets = text_bytes(self.text)
        filled = np.flatnonzero(offsets[:-1] < offsets[1:])
        is_spaced = _table_of(_FIRST_BYTES)[data[offsets[filled]]]
        is_spaced |= _table_of(_LAST_BYTES)[data[offsets[filled + 1] - 1]]
        return filled[is_spaced]

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

    def part(self, start: int, stop: int) -> Cells:
        """Return the cells from `start` up to but not including `stop`."""
        kinds = None if self.kinds is None else self.kinds[start:stop]
        return Cells(self.text.slice(start, max(stop - start, 0)), kinds)

    def slices(self, size: int) -> Iterator[tuple[int, Cells]]:
        """Yield the cells, `size` at a time, with the position of the first."""
        for start in range(0, len(self), size):
            yield start, self.part(start, start + size)

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
    """The workbook's other visible worksheets, without petsync's own."""
    corrections: Sequence[Correction] = ()
    """The cells whose text was changed by a correction."""
    elsewhere: Sequence[str] = ()
    """The worksheets in `tabs` with headers that petsync recognises, if the caller named no
    worksheet.
    """
    heads: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """The first rows of the worksheets in `tabs` without such headers, under the same condition."""
    emptied: Sequence[int] = ()
    """The positions of a DataFrame's rows whose category is an empty text."""
    since_1904: bool = False
    """Whether the workbook uses the 1904 date system."""

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
        """Return the position in `shared` of a row."""
        return int(self.kinds[row]) if row < len(self.kinds) else 0

    def kinds_of(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Rows:
        """Return the positions in `shared` of these rows."""
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


def letter(column: int) -> str:
    """Return a column's letters in A1 notation; the first column is 0."""
    return "".join(reversed(list(_letters(column))))


def _letters(column: int) -> Iterator[str]:
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        yield chr(ord("A") + rest)
