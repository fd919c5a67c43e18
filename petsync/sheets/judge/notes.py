"""The problems of one sheet while it is read, gathered by row, none hidden by another."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from petsync.sheets.grid import Bools, Grid
from petsync.sheets.judge import clear
from petsync.sheets.rules import RULES
from petsync.table.sheet import Finding, cell_address

__all__ = ["Note", "Notes"]

_SHOWN = 200


class Note(NamedTuple):
    """One problem of one cell; without a suggestion, the rule's cure is suggested.

    `meant` is the text that the cell may be meant to hold, None where that cannot be told; it
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

    def blocked(self) -> Bools:
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
            meant=None if note.meant is None or clear.has(note.meant, marker) else note.meant,
            is_sure=note.is_sure,
        )

    def _place(self, column: str) -> str:
        """The place of a column that the sheet does not have, or that has no header."""
        return column if column in self._grid.places or not self._grid.header_row else ""


def _is_error(note: Note) -> bool:
    return RULES[note.rule].blocks
