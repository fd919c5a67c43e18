"""Grid: the cells of a table as bytes, by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.table.cells import BLANKS
from petsync.table.sheet import Correction

__all__ = [
    "Bools",
    "CellKind",
    "Cells",
    "Fault",
    "Grid",
    "Octets",
    "Rows",
    "beginning_with",
    "letter",
    "octets",
]


# Columns of text looked at byte by byte, all cells at once, to find the few worth a look.


Rows = np.ndarray[Any, np.dtype[np.intp]]
Bytes = np.ndarray[Any, Any]

_PART = 1 << 20


class Octets(NamedTuple):
    """The UTF-8 of all cells in a row, and where in it each begins and the last one ends."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    offsets: np.ndarray[Any, np.dtype[np.int64]]

    def places(self, wanted: Callable[[Bytes], Bytes]) -> Rows:
        """The places of the bytes that are `wanted`, which is asked of a part at a time: the
        answers for a large column would take as much memory as it does.
        """
        parts = range(0, len(self.data), _PART)
        found = [np.flatnonzero(wanted(self.data[at : at + _PART])) + at for at in parts]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)

    def following(self, places: Rows, *, by: int = 1) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes that stand `by` behind those at `places`; behind the last one there are 0."""
        behind = self.data[np.minimum(places + by, max(len(self.data) - 1, 0))]
        behind[places + by >= len(self.data)] = 0
        return behind

    def rows(self, places: Rows) -> Rows:
        """The rows of the cells in which these bytes are, each row once."""
        return np.unique(np.searchsorted(self.offsets, places, side="right") - 1)


def octets(text: Any) -> Octets:
    """The bytes of an Arrow array of large_string."""
    _, places, content = text.buffers()
    if places is None or content is None or not len(text):
        return Octets(np.zeros(0, dtype=np.uint8), np.zeros(len(text) + 1, dtype=np.int64))
    offsets = np.frombuffer(places, np.int64)[text.offset : text.offset + len(text) + 1]
    start, end = offsets[0], offsets[-1]
    return Octets(np.frombuffer(content, np.uint8)[start:end], offsets - start)


def beginning_with(text: Any, marks: bytes) -> Rows:
    """The rows of an Arrow array of large_string whose first byte is one of `marks`."""
    data, offsets = octets(text)
    if not len(data):
        return np.zeros(0, dtype=np.intp)
    wanted = np.zeros(256, dtype=bool)
    wanted[list(marks)] = True
    starts, ends = offsets[:-1], offsets[1:]
    first = data[np.minimum(starts, len(data) - 1)]
    return np.flatnonzero(wanted[first] & (starts < ends))


# A sheet as it stands in its file: a header and columns of cells, before anything is judged.


_FIRST = bytes({char.encode()[0] for char in BLANKS})
_LAST = np.unique([char.encode()[-1] for char in BLANKS])

Bools = np.ndarray[Any, np.dtype[np.bool_]]


class CellKind(IntEnum):
    """What a cell holds. In a CSV file everything is text, but for what stands for an error, what
    begins like a formula, what has a NUL character in it, and what has a space before its quote.
    EMPTY is a formula that gave an empty text, or was never calculated. ROUNDED is a float of a
    DataFrame that its type does not distinguish from the next whole number.
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


_BLANK = (CellKind.TEXT, CellKind.EMPTY)
"""The kinds of cells that say nothing where they have no text."""


class Fault(NamedTuple):
    """A row that could not be taken apart: the rule it breaks, its text, and what is wrong."""

    rule: str
    value: str
    problem: str


@dataclass(frozen=True, slots=True)
class Cells:
    """One column: `text` is an Arrow array of large_string without nulls, as each cell is shown
    ("" where it is blank); `kinds` holds a `CellKind` for each, or is None where all are text.
    """

    text: Any
    kinds: np.ndarray[Any, np.dtype[np.int8]] | None = None

    def __len__(self) -> int:
        return len(self.text)

    def trim(self) -> Any:
        """The text without the whitespace around it, as an Arrow array."""
        rows = self._find_spaced()
        if not len(rows):
            return self.text
        spaced = np.zeros(len(self), dtype=bool)
        spaced[rows] = True
        trimmed = pc.utf8_trim(self.text.take(pa.array(rows)), characters=BLANKS)
        return pc.replace_with_mask(self.text, pa.array(spaced), trimmed)

    def blank(self) -> Bools:
        """Where the cell says nothing."""
        empty = np.asarray(pc.equal(pc.binary_length(self.text), 0))
        rows = self._find_spaced()
        if len(rows):
            trimmed = pc.utf8_trim(self.text.take(pa.array(rows)), characters=BLANKS)
            empty[rows] = np.asarray(pc.equal(pc.binary_length(trimmed), 0))
        return empty if self.kinds is None else empty & np.isin(self.kinds, _BLANK)

    def _find_spaced(self) -> np.ndarray[Any, Any]:
        """The rows of which the first and the last byte may be those of whitespace."""
        data, offsets = octets(self.text)
        said = np.flatnonzero(offsets[:-1] < offsets[1:])
        last = np.isin(data[offsets[1:][said] - 1], _LAST)
        return np.union1d(beginning_with(self.text, _FIRST), said[last])

    @classmethod
    def concat(cls, parts: Sequence[Cells]) -> Cells:
        """The cells of all parts, one behind the other."""
        texts = [part.text for part in parts] or [pa.array([], pa.large_string())]
        kinds = [
            np.full(len(part), CellKind.TEXT, dtype=np.int8) if part.kinds is None else part.kinds
            for part in parts
        ]
        plain = all(part.kinds is None for part in parts)
        return cls(pa.concat_arrays(texts), None if plain else np.concatenate(kinds))

    def part(self, start: int, stop: int) -> Cells:
        """The cells from `start` to before `stop`."""
        kinds = None if self.kinds is None else self.kinds[start:stop]
        return Cells(self.text.slice(start, max(stop - start, 0)), kinds)

    def slices(self, size: int) -> Iterator[tuple[int, Cells]]:
        """The cells, `size` at a time, with the position of the first."""
        for start in range(0, len(self), size):
            yield start, self.part(start, start + size)

    def take(self, positions: np.ndarray[Any, Any]) -> Cells:
        """The cells at `positions`, in that order."""
        kinds = None if self.kinds is None else self.kinds[positions]
        return Cells(self.text.take(pa.array(positions)), kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A header, and below it the rows that are not wholly blank.

    `rows` are their numbers in the file, `columns` one `Cells` for each item of `header`;
    `places` name the columns (letters, or numbers for CSV). `faults` are rows that could not be
    taken apart, by position. `merged` and `hidden` are the ranges and rows of the worksheet,
    `hidden_columns` and `filtered` the places of its columns that are hidden or have a filter set.
    `tabs` are the workbook's other worksheets that a person sees, without petsync's own.
    `corrections` are the cells that say something else here than in the file. `elsewhere` are the
    `tabs` that have headers of ours, if nobody chose among them, and `heads` the first rows of
    those that have none. `emptied` are the positions of the
    rows of a DataFrame that have an empty text for a category.
    """

    tab: str
    header: Sequence[str]
    header_row: int
    rows: np.ndarray[Any, np.dtype[np.int64]]
    columns: Sequence[Cells]
    places: Sequence[str]
    faults: Mapping[int, Fault] = field(default_factory=dict)
    merged: Sequence[str] = ()
    hidden: Sequence[int] = ()
    hidden_columns: Sequence[str] = ()
    filtered: Sequence[str] = ()
    tabs: Sequence[str] = ()
    corrections: Sequence[Correction] = ()
    elsewhere: Sequence[str] = ()
    heads: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    emptied: Sequence[int] = ()

    def without_blank_rows(self) -> Grid:
        """The same without the rows in which no cell says anything."""
        blank = np.ones(len(self.rows), dtype=bool)
        blank[list(self.faults)] = False
        for column in self.columns:
            if not blank.any():
                break
            blank &= column.blank()
        if not blank.any():
            return self
        kept = np.flatnonzero(~blank)
        moved = dict(zip(kept.tolist(), range(len(kept)), strict=True))
        return Grid(
            tab=self.tab,
            header=self.header,
            header_row=self.header_row,
            rows=self.rows[kept],
            columns=[column.take(kept) for column in self.columns],
            places=self.places,
            faults={moved[at]: fault for at, fault in self.faults.items()},
            merged=self.merged,
            hidden=self.hidden,
            hidden_columns=self.hidden_columns,
            filtered=self.filtered,
            tabs=self.tabs,
            corrections=self.corrections,
            elsewhere=self.elsewhere,
            heads=self.heads,
        )


def letter(column: int) -> str:
    """A column's letters in A1 notation; the first column is 0."""
    return "".join(reversed(list(_letters(column))))


def _letters(column: int) -> Iterator[str]:
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        yield chr(ord("A") + rest)
