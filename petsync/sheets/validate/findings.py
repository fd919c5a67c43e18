"""Collect findings during validation, and find the marker that empties a field."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Bools, Cells, Grid, Rows
from petsync.sheets.validate.rules import RULES, Rule
from petsync.table.cells import (
    BLANKS,
    BRACKETS,
    escape_marker,
    is_like_marker,
    marker_core,
    marker_word,
    trim,
)
from petsync.table.columns import CLEAR, CLEARED
from petsync.table.sheet import Finding

__all__ = [
    "Note",
    "Notes",
    "bare_words",
    "escaped_list",
    "find_markers",
    "has_marker",
    "markers_among_items",
]


# The marker that empties a field, `[clear]`, in the cells of a column.
#
# In a list of several items, an item that is or resembles the marker is written in quotes.


T = TypeVar("T")

_SKIPPED_BYTES = bytes({char.encode()[0] for char in BLANKS + "'"})
_BLANK_BYTES = bytes({byte for char in BLANKS for byte in char.encode()})
_WIDE_BYTES = bytes(range(0x80, 0x100))
"""The bytes of characters that are not ASCII."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_BETWEEN = re.compile(r"[;\r\n]|(?<!\S)\|(?!\S)")


def escaped_list(
    form: Callable[[Iterable[T]], str], items: Sequence[T], separator: str, marker: str
) -> str:
    """Return the items as one cell, formatted by `form` and escaped so that none is read as the
    marker.
    """
    text = form(items)
    if not _has_marker_item(text, marker):
        return escape_marker(text, marker)
    each = (form([item]) for item in items)
    return separator.join(f'"{text}"' if _contains_marker(text, marker) else text for text in each)


def bare_words(cells: Cells, marker: str) -> Iterator[tuple[int, str]]:
    """Yield the positions and texts of cells that are the marker's word without its brackets."""
    word = marker_word(marker_core(marker))
    if not word:
        return
    # Only ASCII letters, and some letters that are not ASCII, are ASCII letters in lower case.
    first, last = (_WIDE_BYTES + _first_bytes(each, each.upper()) for each in (word[0], word[-1]))
    may_match = cells.utf8.start_with(_BLANK_BYTES + first) & cells.utf8.end_with(
        _BLANK_BYTES + last
    )
    rows = np.flatnonzero(may_match)
    texts = pc.utf8_trim(cells.text.take(pa.array(rows)), characters=BLANKS)
    for at in rows[np.asarray(pc.equal(pc.utf8_lower(texts), word))].tolist():
        yield at, cells.text[at].as_py()


def markers_among_items(cells: Cells, marker: str) -> Iterator[tuple[int, str]]:
    """Yield the positions and texts of lists that contain the marker as an item."""
    core = marker_core(marker)
    if not core:
        return
    rows = np.arange(len(cells))
    if core[0].isascii() and not core[0].isalpha():
        marks = _first_bytes(core[0], *_brackets(core))
        rows = cells.utf8.rows(cells.utf8.find(marks))
        rows = _with_word(cells.text, rows, core)
    for at in rows.tolist():
        text = cells.text[at].as_py()
        if _has_marker_item(text, marker):
            yield at, text


def find_markers(cells: Cells, marker: str) -> tuple[Bools, Bools, Cells]:
    """Return a mask of the cells that are the marker, a mask of those that only resemble it, and
    the cells without the apostrophes of `escape_marker`.
    """
    is_marker, is_like = np.zeros(len(cells), dtype=bool), np.zeros(len(cells), dtype=bool)
    unescaped: dict[int, str] = {}
    for at, text in _cells_like_marker(cells, marker):
        if text.startswith("'"):
            unescaped[at] = text[1:]
        else:
            is_marker[at] = marker_core(text) == marker_core(marker)
            is_like[at] = not is_marker[at]
    if not unescaped:
        return is_marker, is_like, cells
    changed = np.zeros(len(cells), dtype=bool)
    changed[list(unescaped)] = True
    texts = pa.array(list(unescaped.values()), pa.large_string())
    plain = pc.replace_with_mask(cells.text, pa.array(changed), texts)
    return is_marker, is_like, Cells(plain, cells.kinds)


def has_marker(text: str, marker: str) -> bool:
    """Return true if a cell with this text is the marker or contains it as an item."""
    return bool(marker_core(marker)) and (
        marker_core(text) == marker_core(marker) or _contains_marker(text, marker)
    )


def _cells_like_marker(cells: Cells, marker: str) -> Iterator[tuple[int, str]]:
    """Yield the positions and texts of cells that are or resemble the marker, ignoring case, spaces
    and apostrophes.
    """
    core = marker_core(marker)
    if not core:
        return
    text, rows = cells.text, np.arange(len(cells))
    if core[0].isascii() and not core[0].isalpha():
        # Without regard to case, no other character equals an ASCII character that is not a letter.
        word = marker_word(core)
        first = _first_bytes(core[0], word[:1], word[:1].upper(), *_brackets(core))
        last = _first_bytes(
            core[-1], core[-1].upper(), word[-1:], word[-1:].upper(), *_brackets(core)
        )
        may_match = cells.utf8.start_with(_SKIPPED_BYTES + first) & cells.utf8.end_with(
            _BLANK_BYTES + _WIDE_BYTES + last
        )
        rows = np.flatnonzero(may_match)
    for at in _with_word(text, rows, core).tolist():
        cell_text = text[at].as_py()
        if is_like_marker(cell_text, marker):
            yield at, cell_text


def _with_word(text: Any, rows: Rows, core: str) -> Rows:
    """Return the rows that contain the marker's word, in any case."""
    if not len(rows):
        return rows
    word = marker_word(core) or core
    has_word = pc.match_substring(text.take(pa.array(rows)), word, ignore_case=True)
    matching: Rows = rows[np.asarray(has_word)]
    return matching


def _brackets(core: str) -> str:
    """Return the brackets that can make a text resemble the marker."""
    return BRACKETS if marker_word(core) else ""


def _first_bytes(*characters: str) -> bytes:
    return bytes({char.encode()[0] for char in characters if char})


def _has_marker_item(text: str, marker: str) -> bool:
    return _contains_marker(text, marker) and not is_like_marker(text, marker)


def _contains_marker(text: str, marker: str) -> bool:
    """Return true if the marker is an unquoted item of the text."""
    core = trim(marker).casefold()
    if not core or (marker_word(core) or core) not in text.casefold():
        return False
    items = map(trim, _BETWEEN.split(_QUOTED.sub('""', text)))
    return any(item[:1] != "'" and is_like_marker(item, marker) for item in items)


# The problems of one sheet, collected while it is validated.


_MAX_VALUE_LENGTH = 200
_TYPE_AGAIN = re.compile(
    r"([Ff])ormat the (?:cell|column) as text and type ([a-z ]+?)(?: again)?\."
)
"""Advice for a spreadsheet program, which does not fit a DataFrame."""


class Note(NamedTuple):
    """A problem of a cell. Without `problem` or `suggestion`, the text of the rule is used."""

    rule: str
    value: str
    problem: str = ""
    suggestion: str = ""
    meant: str | None = None
    """The text that the cell probably should have; None if it is not known."""
    is_sure: bool = False
    """Whether the cell is already read as `meant`."""


class Notes:
    """Collects notes. A row is a position in the grid; -1 is the header. `own` are the user's rules
    by their codes.
    """

    def __init__(
        self, grid: Grid, columns: Mapping[str, int], own: Mapping[str, Rule] | None = None
    ) -> None:
        self._grid = grid
        self._columns = columns
        self._rules = {**RULES, **own} if own else RULES
        self._notes: list[tuple[int, str, Note]] = []

    @property
    def since_1904(self) -> bool:
        """True if the workbook uses the 1904 date system."""
        return self._grid.since_1904

    def add(self, at: int, column: str, *notes: Note) -> None:
        """Note problems of the cell in `column` and the row at position `at`. `column` is a name,
        the place of a column without a name, or "" for the whole sheet.
        """
        self._notes.extend((at, column, note) for note in notes)

    def add_all(self, positions: Iterable[int], column: str, *notes: Note) -> None:
        """Note the same problems for several rows."""
        for at in positions:
            self.add(at, column, *notes)

    def take(self, others: Notes) -> None:
        """Add the notes of another collection for the same grid."""
        self._notes.extend(others._notes)

    def find_blocked(self) -> Bools:
        """Return a mask of the rows with an error so far."""
        blocked = np.zeros(len(self._grid.rows), dtype=bool)
        rules = self._rules
        errors = [at for at, _, note in self._notes if at >= 0 and rules[note.rule].blocks]
        blocked[errors] = True
        return blocked

    def forget(self, rows: Container[int], *, but: str = "") -> None:
        """Drop the notes on the rows at these positions, except those on the column `but`."""
        self._notes = [each for each in self._notes if each[0] not in rows or each[1] == but]

    def findings(self, marker: str = "") -> tuple[Finding, ...]:
        """Return all notes as findings, in the order of the file. A text that contains the `marker`
        is not suggested, because it would empty the field. The `marker` replaces `[clear]` in a
        suggestion of a rule, and CLEARED in a suggestion of a note.
        """
        ordered = sorted(self._notes, key=lambda each: (each[0], self._columns.get(each[1], -1)))
        return tuple(self._finding(*each, marker) for each in ordered)

    def _finding(self, at: int, column: str, note: Note, marker: str) -> Finding:
        rule = self._rules[note.rule]
        row = int(self._grid.rows[at]) if at >= 0 else self._grid.header_row
        position = self._columns.get(column)
        place = self._grid.places[position] if position is not None else self._place(column)
        suggestion = note.suggestion.replace(CLEARED, marker or CLEAR) or rule.cure.replace(
            CLEAR, marker or CLEAR
        )
        if not self._grid.header_row:
            suggestion = _TYPE_AGAIN.sub(_write_string, suggestion)
            suggestion = suggestion.replace("eave the cell blank", "eave the value out")
        # In a DataFrame and in records, an empty text empties a field, and the marker is a text.
        is_empty = self._grid.labels is not None and note.value == CLEAR
        # Without a header row, its number is also that of a DataFrame's first row.
        is_column = at < 0 and not self._grid.header_row and place
        return Finding(
            address=f"column {place}" if is_column else self._grid.address(place, row),
            row=row,
            column=column,
            severity=rule.severity,
            rule=rule.code,
            value="" if is_empty else note.value[:_MAX_VALUE_LENGTH],
            problem=note.problem or rule.meaning,
            suggestion=suggestion,
            meant=None if note.meant is None or has_marker(note.meant, marker) else note.meant,
            is_sure=note.is_sure,
        )

    def _place(self, column: str) -> str:
        """Return the place of a column that is missing or has no header."""
        return column if column in self._grid.places or not self._grid.header_row else ""


def _write_string(advice: re.Match[str]) -> str:
    verb = "Write" if advice[1] == "F" else "write"
    return f"{verb} {advice[2]} as a string."
