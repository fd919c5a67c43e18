"""Findings of cells while they are validated."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Bools, Cells, Grid, Rows, rows_starting_with, text_bytes
from petsync.sheets.validate.rules import RULES
from petsync.table.cells import (
    BLANKS,
    BRACKETS,
    escape_marker,
    is_like_marker,
    marker_core,
    marker_word,
    trim,
)
from petsync.table.sheet import Finding, cell_address

__all__ = ["Note", "Notes", "bare", "beside_others", "escaped_list", "find", "has"]


# The marker that empties a field, `[clear]`, in whole columns of cells.
#
# In a list of several items an item that is the marker or is like it is written in quotes.


T = TypeVar("T")

_BEFORE = bytes({char.encode()[0] for char in BLANKS + "'"})
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_BETWEEN = re.compile(r"[;\r\n]|(?<!\S)\|(?!\S)")


def escaped_list(
    form: Callable[[Iterable[T]], str], items: Sequence[T], separator: str, marker: str
) -> str:
    """The items as one cell, by `form`, of which nothing is taken for the marker."""
    text = form(items)
    if not _is_beside(text, marker):
        return escape_marker(text, marker)
    each = (form([item]) for item in items)
    return separator.join(f'"{one}"' if _has(one, marker) else one for one in each)


def bare(cells: Cells, marker: str) -> Iterator[tuple[int, str]]:
    """The cells, and their positions, that are the marker's word without its brackets."""
    inner = marker_word(marker_core(marker))
    if not inner:
        return
    for at in np.flatnonzero(pc.equal(pc.utf8_lower(cells.trim()), inner)).tolist():
        yield at, cells.text[at].as_py()


def beside_others(cells: Cells, marker: str) -> Iterator[tuple[int, str]]:
    """The cells of lists, and their positions, in which the marker stands as an item."""
    core = marker_core(marker)
    if not core:
        return
    rows = np.arange(len(cells))
    if core[0].isascii() and not core[0].isalpha():
        seen, marks = text_bytes(cells.text), tuple(_leads(core[0], *_brackets(core)))
        rows = seen.rows(seen.places(lambda data: np.isin(data, marks)))
        rows = _with_word(cells.text, rows, core)
    for at in rows.tolist():
        text = cells.text[at].as_py()
        if _is_beside(text, marker):
            yield at, text


def find(cells: Cells, marker: str) -> tuple[Bools, Bools, Cells]:
    """Where the cells are the marker, where they are only like it, and the cells without the
    apostrophes of `escape_marker`.
    """
    found, alike = np.zeros(len(cells), dtype=bool), np.zeros(len(cells), dtype=bool)
    bare: dict[int, str] = {}
    for at, text in _alike(cells.text, marker):
        if text.startswith("'"):
            bare[at] = text[1:]
        else:
            found[at] = marker_core(text) == marker_core(marker)
            alike[at] = not found[at]
    if not bare:
        return found, alike, cells
    changed = np.zeros(len(cells), dtype=bool)
    changed[list(bare)] = True
    texts = pa.array(list(bare.values()), pa.large_string())
    plain = pc.replace_with_mask(cells.text, pa.array(changed), texts)
    return found, alike, Cells(plain, cells.kinds)


def has(text: str, marker: str) -> bool:
    """Whether a cell with this text empties its field, or would were it not for other items."""
    return bool(marker_core(marker)) and (
        marker_core(text) == marker_core(marker) or _has(text, marker)
    )


def _alike(text: Any, marker: str) -> Iterator[tuple[int, str]]:
    """The cells that are the marker or like it, but for case, spaces and apostrophes around it."""
    core = marker_core(marker)
    if not core:
        return
    rows = np.arange(len(text))
    if core[0].isascii() and not core[0].isalpha():
        # No other character is this one in another case.
        word = marker_word(core)[:1]
        marks = _leads(core[0], word, word.upper(), *_brackets(core))
        rows = rows_starting_with(text, _BEFORE + marks)
    for at in _with_word(text, rows, core).tolist():
        found = text[at].as_py()
        if is_like_marker(found, marker):
            yield at, found


def _with_word(text: Any, rows: Rows, core: str) -> Rows:
    """Those of the rows in which the marker's word is, in whatever case."""
    word = marker_word(core) or core
    like = pc.match_substring(text.take(pa.array(rows)), word, ignore_case=True)
    found: Rows = rows[np.asarray(like)]
    return found


def _brackets(core: str) -> str:
    """The brackets in which a text is like the marker."""
    return BRACKETS if marker_word(core) else ""


def _leads(*characters: str) -> bytes:
    """The first bytes of the characters."""
    return bytes({char.encode()[0] for char in characters if char})


def _is_beside(text: str, marker: str) -> bool:
    return _has(text, marker) and not is_like_marker(text, marker)


def _has(text: str, marker: str) -> bool:
    """Whether the marker is an item of the text, and not in quotes."""
    core = trim(marker).casefold()
    if not core or (marker_word(core) or core) not in text.casefold():
        return False
    items = map(trim, _BETWEEN.split(_QUOTED.sub('""', text)))
    return any(item[:1] != "'" and is_like_marker(item, marker) for item in items)


# The problems of one sheet while it is read, gathered by row, none hidden by another.


_SHOWN = 200


class Note(NamedTuple):
    """One problem of one cell; without a suggestion, the rule's cure is suggested.

    `meant` is the text that the cell may be meant to hold, None if that cannot be told; it
    `is_sure` where the cell is read as that already.
    """

    rule: str
    value: str
    problem: str = ""
    suggestion: str = ""
    meant: str | None = None
    is_sure: bool = False


class Notes:
    """Gathers notes. A row is a position in the grid; -1 is the header."""

    def __init__(self, grid: Grid, columns: Mapping[str, int]) -> None:
        self._grid = grid
        self._columns = columns
        self._notes: list[tuple[int, str, Note]] = []

    def add(self, at: int, column: str, *notes: Note) -> None:
        """Note problems of the cell of `column` in the row at position `at`; `column` is a name,
        the place of a column without one, or "" for the whole sheet.
        """
        self._notes.extend((at, column, note) for note in notes)

    def add_all(self, positions: Iterable[int], column: str, *notes: Note) -> None:
        """Note the same problems for several rows."""
        for at in positions:
            self.add(at, column, *notes)

    def take(self, others: Notes) -> None:
        """Add what others have gathered of the same grid."""
        self._notes.extend(others._notes)

    def find_blocked(self) -> Bools:
        """Which rows have an error, so far."""
        blocked = np.zeros(len(self._grid.rows), dtype=bool)
        blocked[[at for at, _, note in self._notes if at >= 0 and _is_error(note)]] = True
        return blocked

    def forget(self, rows: Container[int], *, but: str = "") -> None:
        """Drop what was noted of the rows at these positions, except of the cells of `but`."""
        self._notes = [each for each in self._notes if each[0] not in rows or each[1] == but]

    def findings(self, marker: str = "") -> tuple[Finding, ...]:
        """All of them, in the order of the file. Nothing that the `marker` is in is suggested: it
        would empty the field.
        """
        ordered = sorted(self._notes, key=lambda each: (each[0], self._columns.get(each[1], -1)))
        return tuple(self._finding(*each, marker) for each in ordered)

    def _finding(self, at: int, column: str, note: Note, marker: str) -> Finding:
        rule = RULES[note.rule]
        row = int(self._grid.rows[at]) if at >= 0 else self._grid.header_row
        position = self._columns.get(column)
        place = self._grid.places[position] if position is not None else self._place(column)
        return Finding(
            address=cell_address(self._grid.tab, place, row),
            row=row,
            column=column,
            severity=rule.severity,
            rule=rule.code,
            value=note.value[:_SHOWN],
            problem=note.problem or rule.meaning,
            suggestion=note.suggestion or rule.cure,
            meant=None if note.meant is None or has(note.meant, marker) else note.meant,
            is_sure=note.is_sure,
        )

    def _place(self, column: str) -> str:
        """The place of a column that the sheet does not have, or that has no header."""
        return column if column in self._grid.places or not self._grid.header_row else ""


def _is_error(note: Note) -> bool:
    return RULES[note.rule].blocks
