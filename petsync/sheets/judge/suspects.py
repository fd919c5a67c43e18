"""Texts that can be read and are probably not what somebody meant."""

from __future__ import annotations

from petsync.sheets.grid import Cells, Grid, Kind
from petsync.sheets.headers import Headers
from petsync.sheets.judge import broken, dates, invisible
from petsync.sheets.judge.notes import Note, Notes

__all__ = ["note_suspects"]

_CONVERTED = ("name", "category", "tags")
_UNSEEN = ("id", "name", "status", "category", "category_id", "tags", "action")


def note_suspects(grid: Grid, headers: Headers, notes: Notes) -> None:
    """Note the texts of errors, what programs make of dates and numbers, unseen characters."""
    is_csv = not grid.tab and grid.header_row > 0
    for name, position in headers.ours.items():
        cells = grid.columns[position]
        for at in broken.errors(cells.text):
            if _is_text(cells, at):
                problem = broken.explained(cells.text[at].as_py())[0]
                _note(cells, at, name, notes, "error-text", problem.replace("cell", "text"))
        if is_csv and name in _CONVERTED:
            for at in dates.converted(cells.text):
                _note(cells, at, name, notes, "looks-converted")
        if name in _UNSEEN:
            for at, characters in invisible.unseen(cells.text):
                if cells.kinds is not None and cells.kinds[at] == Kind.DAMAGED:
                    continue
                problem = (
                    f"There is a character that cannot be seen: {invisible.named(characters)}."
                )
                seen = cells.text[at].as_py().translate(dict.fromkeys(map(ord, characters)))
                _note(cells, at, name, notes, "invisible-characters", problem, seen)


def _is_text(cells: Cells, at: int) -> bool:
    return cells.kinds is None or cells.kinds[at] in (Kind.TEXT, Kind.FORMULA)


def _note(
    cells: Cells,
    at: int,
    name: str,
    notes: Notes,
    rule: str,
    problem: str = "",
    meant: str | None = None,
) -> None:
    notes.add(at, name, Note(rule, cells.text[at].as_py(), problem, "", meant))
