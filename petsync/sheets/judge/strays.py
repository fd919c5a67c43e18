"""Rows of a sheet that are no pets: its header once more, and lines of totals."""

from __future__ import annotations

import re
from collections.abc import Iterator

from petsync.sheets.grid import Grid
from petsync.sheets.headers import Headers, loose
from petsync.sheets.judge.notes import Note, Notes
from petsync.sheets.judge.octets import beginning_with
from petsync.table.cells import trim

__all__ = ["note_strays"]

_TOTALS = (
    "total|totals|grand total|subtotal|sum|count|average|"
    "summe|gesamt|gesamtsumme|anzahl|somme|totale|suma|suma total"
)
_TOTAL = re.compile(rf"(?:{_TOTALS})(?: (?:of )?(?:pets|animals|rows))?[\s:=(]*[0-9.,]*\)?", re.I)
# A pet may well be called Count.
_NO_NAME = re.compile(r"(?:grand )?totals?\b.*|subtotal|summe|gesamt|gesamtsumme|totale", re.I)
_INITIALS = bytes({ord(char) for word in _TOTALS.split("|") for char in word[0] + word[0].upper()})


def note_strays(grid: Grid, headers: Headers, notes: Notes) -> None:
    """Note these rows, and nothing else of them: what their cells say is not of a pet."""
    column = "id" if "id" in headers.ours else next(iter(headers.ours), "")
    found = {at: Note("totals-row", text) for at, text in _totals(grid, headers)}
    found |= {at: Note("header-repeated", text) for at, text in _headers(grid, headers)}
    notes.forget(found)
    for at, note in found.items():
        notes.add(at, column, note)


def _headers(grid: Grid, headers: Headers) -> Iterator[tuple[int, str]]:
    """The rows whose cells say what stands above them, in all of our columns that they fill."""
    if len(headers.ours) < 2:
        return
    position = headers.ours.get("id", min(headers.ours.values()))
    first = trim(grid.header[position])[:1].encode()
    if not first:
        return
    initials = first[:1].lower() + first[:1].upper()
    for at in beginning_with(grid.columns[position].text, initials).tolist():
        said = {n: text for n in headers.ours.values() if (text := trim(_text(grid, n, at)))}
        if len(said) > 1 and all(loose(grid.header[n]) == loose(said[n]) for n in said):
            yield at, said[position]


def _totals(grid: Grid, headers: Headers) -> Iterator[tuple[int, str]]:
    """The rows with a word for totals in place of an id, and the last one if its name is one and
    it says nothing else.
    """
    ids, name = headers.ours.get("id"), headers.ours.get("name")
    if ids is not None:
        for at in beginning_with(grid.columns[ids].text, _INITIALS).tolist():
            if _is_total(_text(grid, ids, at)):
                yield at, _text(grid, ids, at)
    others = [position for position in headers.ours.values() if position != name]
    last = len(grid.rows) - 1
    if name is None or not others or last < 1:
        return
    text = trim(_text(grid, name, last))
    if _NO_NAME.fullmatch(text) and not any(trim(_text(grid, n, last)) for n in others):
        yield last, text


def _is_total(text: str) -> bool:
    return _TOTAL.fullmatch(trim(text)) is not None


def _text(grid: Grid, column: int, at: int) -> str:
    text: str = grid.columns[column].text[at].as_py()
    return text
