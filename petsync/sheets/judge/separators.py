"""Lists whose items are not separated as the grammar has it, and are read as one item."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Cells
from petsync.sheets.judge.clear import beside_others
from petsync.sheets.judge.notes import Note, Notes
from petsync.sheets.judge.octets import octets
from petsync.table.cells import trim

__all__ = ["note_separators"]

_MARKS = b",\n\r|"
_COMMA = re.compile(r"(?<![0-9]),|,(?![0-9])")
_ID = re.compile(r"\A-?[0-9]*:\s*")
_SURE = re.compile(r"[\r\n]+| \| ")
_ADDRESSES = re.compile(r"[,;]\s*(?=https?://)|(?<=[^\s|])\s+(?=https?://)", re.IGNORECASE)


def note_separators(tags: Cells | None, photos: Cells | None, marker: str, notes: Notes) -> None:
    """Note tags between which there is a comma, a line break or a bar, addresses between which
    there is a comma, a semicolon or a space, and the marker beside either.
    """
    for name, cells in (("tags", tags), ("photo_urls", photos)):
        for at, text in beside_others(cells, marker) if cells is not None else ():
            notes.add(at, name, Note("clear-beside-others", text))
    for at, text, parts in _tags(tags.text) if tags is not None else ():
        meant = "; ".join(parts)
        hint = f'Write "{_short(meant)}" if these are {len(parts)} tags; else put it in quotes.'
        notes.add(at, "tags", Note("tags-commas", text, "", hint, meant))
    for at, text in _photos(photos.text) if photos is not None else ():
        meant = "\n".join(_trimmed(_ADDRESSES.split(text)))
        notes.add(at, "photo_urls", Note("photos-separators", text, "", "", meant))


def _tags(text: Any) -> Iterator[tuple[int, str, list[str]]]:
    """The rows of such cells, their texts, and the tags that may be meant."""
    rows = _holding(text, _MARKS)
    if not len(rows):
        return
    cells = text.take(pa.array(rows)).to_pylist()
    single = bool(pc.any(pc.match_substring(text, ";")).as_py())
    known = _vocabulary(text) if single else set()
    for at, cell in zip(rows.tolist(), cells, strict=True):
        parts = _parts(cell, known, always=not single)
        if parts:
            yield at, cell, parts


def _parts(cell: str, known: set[str], *, always: bool) -> list[str]:
    """The tags that may be meant by one, none where it is as it should be."""
    if '"' in cell:
        return []
    sure = _trimmed(_SURE.split(cell))
    if len(sure) > 1:
        return _trimmed(part for item in sure for part in item.split(";"))
    items = _trimmed(cell.split(";"))
    parts = [part for item in items for part in _parted(item, known, always=always)]
    return parts if len(parts) > len(items) else []


def _parted(item: str, known: set[str], *, always: bool) -> list[str]:
    parts = _trimmed(_COMMA.split(item))
    return parts if always or known.issuperset(map(_name, parts)) else [item]


def _vocabulary(text: Any) -> set[str]:
    """The names of the column's tags that have no comma, in small letters."""
    cells = (cell for cell in pc.unique(text).to_pylist() if '"' not in cell)
    items = {item for cell in cells for item in cell.split(";") if "," not in item}
    return {_name(trim(item)) for item in items}


def _name(tag: str) -> str:
    """A tag's name as it is compared: in an exported sheet its id stands before it."""
    return _ID.sub("", tag).casefold()


def _photos(text: Any) -> Iterator[tuple[int, str]]:
    for at in _doubtful(text).tolist():
        cell = text[at].as_py()
        if '"' not in cell and _ADDRESSES.search(cell):
            yield at, cell


def _doubtful(text: Any) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The rows with a comma, a semicolon, or a space that is not beside a separator."""
    seen = octets(text)
    spaces = seen.places(lambda data: data == ord(" "))
    beside = (seen.data[spaces - 1], seen.following(spaces))
    spaces = spaces[~np.isin(beside, tuple(b"|\n\r")).any(axis=0)]
    others = seen.places(lambda data: (data == ord(",")) | (data == ord(";")))
    return seen.rows(np.union1d(spaces, others))


def _holding(text: Any, marks: bytes) -> np.ndarray[Any, np.dtype[np.intp]]:
    seen = octets(text)
    return seen.rows(seen.places(lambda data: np.logical_or.reduce([data == m for m in marks])))


def _trimmed(parts: Iterable[str]) -> list[str]:
    return [part for text in parts if (part := trim(text))]


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
