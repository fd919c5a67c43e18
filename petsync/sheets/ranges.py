"""What a worksheet shows as a whole: headers that are nearly ours, merged and hidden cells."""

from __future__ import annotations

import re

import numpy as np

from petsync.sheets.grid import Grid, letter
from petsync.sheets.headers import Headers
from petsync.sheets.notes import Note, Notes

__all__ = ["note_worksheet"]

_RANGE = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7}):\$?([A-Z]{1,3})\$?([0-9]{1,7})")


def note_worksheet(grid: Grid, headers: Headers, notes: Notes) -> None:
    """Note these problems: on the header, or on the rows that a merged range covers."""
    for position, name in headers.near.items():
        text = grid.header[position]
        problem = f"The column {text!r} is not used: no such column is known."
        hint = f"Rename it to {name} if that is meant, or map it."
        notes.add(-1, text, Note("header-near-miss", text, problem, hint))
    _note_headless(grid, notes)
    for text in grid.merged:
        _note_merged(grid, headers, text, notes)
    if grid.hidden:
        _note_hidden(grid, notes)


def _note_headless(grid: Grid, notes: Notes) -> None:
    for position, text in enumerate(grid.header):
        if text.strip():
            continue
        said = np.flatnonzero(~grid.columns[position].blank())
        if len(said):
            place, row = grid.places[position], int(grid.rows[said[0]])
            problem = f"Column {place} has values, the first in row {row}, and no header."
            notes.add(-1, place, Note("header-missing", "", problem))


def _note_merged(grid: Grid, headers: Headers, text: str, notes: Notes) -> None:
    found = _RANGE.fullmatch(text)
    if found is None:
        return
    top, bottom = int(found[2]), int(found[4])
    inside = np.flatnonzero((grid.rows >= top) & (grid.rows <= bottom))
    places = _places(found[1], found[3])
    for name, position in headers.ours.items():
        place = grid.places[position]
        if place in places:
            bare = [at for at in inside.tolist() if (grid.rows[at], place) != (top, found[1])]
            problem = f"The cell is merged ({text}); only the first has a value."
            notes.add_all(bare, name, Note("merged-cells", text, problem))


def _places(first: str, last: str) -> set[str]:
    return {place for n in range(1 << 14) if _between(first, place := letter(n), last)}


def _between(first: str, place: str, last: str) -> bool:
    return (len(first), first) <= (len(place), place) <= (len(last), last)


def _note_hidden(grid: Grid, notes: Notes) -> None:
    hidden = sorted(set(grid.hidden) & set(grid.rows.tolist()))
    if hidden:
        shown = ", ".join(map(str, hidden[:10])) + (", …" if len(hidden) > 10 else "")
        problem = f"{len(hidden)} rows are hidden and count like the others: {shown}."
        notes.add(-1, "", Note("hidden-rows", "", problem))
