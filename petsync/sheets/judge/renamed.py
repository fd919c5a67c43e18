"""Columns of an export that have another header now: what they say would not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from petsync.sheets.grid import Grid
from petsync.sheets.headers import OURS, RESULTS, Headers
from petsync.sheets.judge.notes import Note, Notes
from petsync.table.base import Base
from petsync.table.cells import CellError, parse_photo_urls, parse_tags, trim

__all__ = ["note_renamed"]

_LEAST = 0.5
"""So large a part of what a renamed column says was in the export."""


def note_renamed(grid: Grid, headers: Headers, base: Base, notes: Notes) -> frozenset[int]:
    """Note the unused columns that hold what the export had in a column that is missing now, and
    an id column that is missing at all; the positions of these columns.
    """
    found: dict[int, str] = {}
    for name, split in _ITEMS.items():
        if name in headers.ours:
            continue
        before = {item.casefold() for each in base.frame[name] for item in _items(each)} - {""}
        position = _position(grid, headers, found, name, split, before) if before else None
        if position is not None:
            found[position] = name
            text = grid.header[position]
            problem = f"The column '{text}' is not used: the export had it as {name}."
            hint = (
                f"Write {name} as the header again, or map it (--column '{text}={name}'). If it "
                f"is another column, insert an empty column {name}."
            )
            notes.add(-1, text, Note("header-renamed", text, problem, hint, name))
        elif before and name == "id":
            problem = "The column id, which the export had, is missing."
            hint = (
                "Put it back, with the ids beside their rows. If all rows are new pets, insert an "
                "empty column id."
            )
            notes.add(-1, "", Note("header-renamed", "", problem, hint))
    return frozenset(found)


def _position(
    grid: Grid,
    headers: Headers,
    taken: Mapping[int, str],
    name: str,
    split: Callable[[str], Iterable[str]],
    before: set[str],
) -> int | None:
    """Where the unused column is that has most of what was in the column `name`; one whose header
    is nearly that name counts, whatever it says.
    """
    shares = {}
    for header, position in headers.others.items():
        if position in taken or header.removeprefix(OURS) in RESULTS:
            continue
        texts = {*grid.columns[position].text.to_pylist()}
        said = [item.casefold() for text in texts for item in split(text) if item]
        if said:
            share = sum(item in before for item in said) / len(said)
            shares[position] = 1 + share if headers.near.get(position) == name else share
    best = max(shares, key=lambda position: shares[position], default=None)
    return best if best is not None and shares[best] >= _LEAST else None


def _items(value: Any) -> Iterable[str]:
    """What a value of the base says, each text by itself."""
    if isinstance(value, list):
        return [trim(str(getattr(item, "name", item) or "")) for item in value]
    return [] if pd.isna(value) else [trim(str(value))]


def _text(text: str) -> Iterable[str]:
    return [trim(text)]


def _number(text: str) -> Iterable[str]:
    return [trim(text).removesuffix(".0")]


def _tags(text: str) -> Iterable[str]:
    try:
        return [tag.name or "" for tag in parse_tags(text)]
    except CellError:
        return [trim(text)]


def _photos(text: str) -> Iterable[str]:
    try:
        return parse_photo_urls(text)
    except CellError:
        return [trim(text)]


_ITEMS: Mapping[str, Callable[[str], Iterable[str]]] = {
    "id": _number,
    "name": _text,
    "status": _text,
    "category": _text,
    "tags": _tags,
    "photo_urls": _photos,
}
"""How a cell of each column is split into what was in the export."""
