"""Lists whose items are not separated as the grammar has it, and would be read as one item."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.model import Tag
from petsync.sheets.grid import Cells
from petsync.sheets.judge.clear import bare, beside_others, has
from petsync.sheets.judge.lists import listed
from petsync.sheets.judge.notes import Note, Notes
from petsync.sheets.judge.octets import Rows, beginning_with, octets
from petsync.table.base import Base
from petsync.table.cells import (
    BLANKS,
    LISTED,
    TAG_SEPARATOR,
    URL_SEPARATOR,
    CellError,
    bracketed,
    format_photo_urls,
    format_tags,
    has_separator,
    parse_tags,
    photo_items,
    tag_items,
    trim,
)

__all__ = ["note_separators"]

_ASCII = b",\n\r\t\v\f|"
_MARKUP_SIGNS = b"<#\\_"
_WIDE = "[\uff1b\uff0c\u3001\u060c\u061b\x85\u2028\u2029]"
_WIDE_LEADS = b"\xef\xe3\xd8\xc2\xe2"
_MARKUP = r"(?i)<br|&#|_x000|\\[rn]"
_OPENING = bytes({char.encode()[0] for char in BLANKS + "[({"})
_LETTERS = np.zeros(256, dtype=bool)
"""The bytes before an address that leave no doubt that it does not begin there by itself."""
_LETTERS[[*b" \t\x0b\x0c,;|_", *range(48, 58), *range(65, 91), *range(97, 123)]] = True
_LETTERS[128:] = True

Known = Callable[[], Collection[str]]


def note_separators(
    tags: Cells | None, photos: Cells | None, marker: str, base: Base | None, notes: Notes
) -> None:
    """Note tags between which there is a comma, a line break or a bar, addresses between which
    there is a comma, a semicolon, a space, a bar or nothing, and the marker beside either.

    A tag or an address that the `base` has is one, as it was exported.
    """
    for name, cells in (("tags", tags), ("photo_urls", photos)):
        for at, text in beside_others(cells, marker) if cells is not None else ():
            notes.add(at, name, Note("clear-beside-others", text))
        for at, text in bare(cells, marker) if cells is not None else ():
            if trim(text) not in _known_tags(base)():
                hint = f"Write {marker} to empty the field."
                notes.add(at, name, Note("placeholder-text", text, "", hint))
    for at, text, names in _in_brackets(tags.text, base) if tags is not None else ():
        if not has(text, marker):
            notes.add(at, "tags", listed(text, names, format_tags))
    for at, text, count, meant in _tags(tags.text, base) if tags is not None else ():
        these = f"these are {count} tags" if count > 1 else "that is meant"
        # With quotes around it, the suggestion would be one tag.
        plain = "" if '"' in meant else " (without quotes)"
        hint = (
            f"Write {_short(meant)}{plain} if {these}. Put double quotes only around what is one "
            "tag."
        )
        notes.add(at, "tags", Note("tags-commas", text, "", hint, meant))
    for at, text, meant in _photos(photos.text, base) if photos is not None else ():
        notes.add(at, "photo_urls", Note("photos-separators", text, "", "", meant))


def _tags(text: Any, base: Base | None) -> Iterator[tuple[int, str, int, str]]:
    """The rows of such cells, their texts, and the tags that may be meant: how many, as a cell."""
    known = _known_tags(base)
    for at in _doubtful_tags(text).tolist():
        cell = text[at].as_py()
        if LISTED.match(trim(cell)) or _bracketed_tags(cell) is not None:
            continue
        try:
            parts = [part for tag in tag_items(cell) for part in _parts(*tag, known)]
        except CellError:
            continue
        if any(is_split for _, is_split in parts):
            names = [name for name, _ in parts]
            yield at, cell, len(names), "; ".join(names)


def _in_brackets(text: Any, base: Base | None) -> Iterator[tuple[int, str, list[Tag]]]:
    """The rows of cells that brackets enclose, their texts, and the tags that may be meant."""
    known = _known_tags(base)
    for at in beginning_with(text, _OPENING).tolist():
        cell = text[at].as_py()
        inner = _bracketed_tags(cell)
        if inner is None or LISTED.match(trim(cell)):
            continue
        try:
            if not all(tag.name in known() for tag in parse_tags(cell)):
                yield at, cell, list(parse_tags(TAG_SEPARATOR.sub(";", inner)))
        except CellError:
            continue


def _bracketed_tags(cell: str) -> str | None:
    """What stands in the brackets around a cell. One tag in round brackets may be meant so."""
    text = trim(cell)
    inner = bracketed(text)
    if inner is None or (text[0] == "(" and ";" not in inner and not TAG_SEPARATOR.search(inner)):
        return None
    return inner


def _parts(tag: Any, item: str, known: Known) -> list[tuple[str, bool]]:
    """The tags that may be meant by one, as texts, and whether it is these that are noted."""
    found = [part for text in TAG_SEPARATOR.split(item) if (part := trim(text))]
    is_one = not TAG_SEPARATOR.search(item) or (tag.name or "") in known()
    if is_one:
        return [(format_tags([tag]), False)]
    try:
        return [(format_tags(parse_tags(part)), True) for part in found or [item]]
    except CellError:
        return [(part, True) for part in found]


def _known_tags(base: Base | None) -> Known:
    @cache
    def known() -> Collection[str]:
        if base is None:
            return ()
        return {tag.name or "" for tags in base.frame["tags"] for tag in tags or ()}

    return known


def _doubtful_tags(text: Any) -> Rows:
    seen = octets(text)
    rows = seen.rows(seen.places(lambda data: np.isin(data, tuple(_ASCII))))
    for signs, pattern in ((_WIDE_LEADS, _WIDE), (_MARKUP_SIGNS, _MARKUP)):
        some = seen.rows(seen.places(partial(np.isin, test_elements=tuple(signs))))
        if len(some):
            some = some[np.asarray(pc.match_substring_regex(text.take(pa.array(some)), pattern))]
        rows = np.union1d(rows, some)
    return rows


def _photos(text: Any, base: Base | None) -> Iterator[tuple[int, str, str]]:
    """The rows of such cells, their texts, and the addresses that may be meant, as a cell."""
    known: Collection[str] | None = None
    for at in _doubtful_photos(text).tolist():
        cell = text[at].as_py()
        if LISTED.match(trim(cell)) or bracketed(trim(cell)) is not None:
            continue
        try:
            items = list(photo_items(cell))
        except CellError:
            continue
        several = {url for url, is_quoted in items if not is_quoted and has_separator(url)}
        if several and known is None:
            known = _known_photos(base)
        several.difference_update(known or ())
        if several:
            parts = [URL_SEPARATOR.split(url) if url in several else [url] for url, _ in items]
            urls = [part for some in parts for url in some if (part := trim(url))]
            yield at, cell, format_photo_urls(urls)


def _known_photos(base: Base | None) -> Collection[str]:
    return set() if base is None else {u for urls in base.frame["photo_urls"] for u in urls or ()}


def _doubtful_photos(text: Any) -> Rows:
    """The rows with a bar that is no separator, a comma or semicolon before a space, and those in
    which an address begins where none should.
    """
    seen = octets(text)
    if not len(seen.data):
        return np.zeros(0, dtype=np.intp)
    bars = seen.places(lambda data: data == ord("|"))
    if len(bars):
        bars = bars[~(_is_space(seen.data[bars - 1]) & _is_space(seen.following(bars)))]
    marks = seen.places(lambda data: np.isin(data, tuple(b",;_")))
    behind = seen.following(marks)
    marks = marks[(behind <= ord(" ")) | (behind > ord("~"))]
    marks = np.union1d(marks, seen.places(lambda data: data == ord("<")))
    return seen.rows(np.union1d(np.union1d(bars, marks), _begun(seen)))


def _begun(seen: Any) -> Rows:
    """Where an address begins behind something that is no separator."""
    colons = seen.places(lambda data: data == ord(":"))
    colons = colons[(seen.following(colons) == 0x2F) & (seen.following(colons, by=2) == 0x2F)]
    starts = colons - 4 - (seen.data[colons - 1] | 0x20 == ord("s"))
    starts = starts[starts > 0]
    cells = seen.offsets[np.searchsorted(seen.offsets, starts, side="right") - 1]
    starts = starts[(starts != cells) & _LETTERS[seen.data[starts - 1]]]
    is_bar = (seen.data[starts - 1] == ord(" ")) & (seen.data[starts - 2] == ord("|"))
    begun: Rows = starts[~is_bar]
    return begun


def _is_space(data: Any) -> Any:
    return (data <= ord(" ")) & (data > 0)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
