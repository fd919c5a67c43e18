"""The columns of lists: `tags` and `photo_urls`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.column import NBSP, Column, Verdict, judge_each, note_damage
from petsync.sheets.notes import Note
from petsync.table.cells import CellError, parse_photo_urls, parse_tags, trim

__all__ = ["photos", "tags"]

T = TypeVar("T")
# Addresses without anything in them that the grammar gives a meaning, a separator between two.
_ONE = r'[A-Za-z][A-Za-z0-9+.-]*://[^\s"|]+'
_PLAIN = rf"^{_ONE}(?:(?: \| |\r?\n){_ONE})*$"
_LIKE_ADDRESS = ("http://", "https://", "data:", "/")


def tags(column: Column) -> list[list[Any] | None]:
    """A list of `Tag` for each row, each tag once; None where the cell says nothing."""
    note_damage(column)

    def judge(text: str) -> Verdict:
        found, notes = _parse(text, parse_tags, "tags-unreadable", "tag-repeated")
        if NBSP in text and sum(text.count(NBSP) for text in [text]) > sum(
            (tag.name or "").count(NBSP) for tag in found or ()
        ):
            notes.append(Note("no-break-space", text))
        if '"' not in text and any(not trim(part) for part in text.split(";")):
            notes.append(Note("tags-separators", text))
        return Verdict(found, notes)

    return _copies(column, judge_each(column, judge))


def photos(column: Column) -> list[list[Any] | None]:
    """A list of text for each row, each address once; None where the cell says nothing."""
    trimmed = column.cells.trimmed()
    plain = np.asarray(pc.match_substring_regex(trimmed, _PLAIN)) & column.says
    split = pc.split_pattern_regex(pc.if_else(pa.array(plain), trimmed, None), r" \| |\r?\n")
    found: list[list[Any] | None] = split.to_pylist()
    for at, urls in enumerate(found):
        # A repeated address is rare enough to be judged again, with its finding.
        plain[at] = urls is not None and len(set(urls)) == len(urls)
    column.says[plain] = False
    others = _copies(column, judge_each(column, _judge_photos))
    return [urls if done else other for urls, done, other in zip(found, plain, others, strict=True)]


def _judge_photos(text: str) -> Verdict:
    found, notes = _parse(text, parse_photo_urls, "photos-unreadable", "photo-repeated")
    if not all(_looks_right(url) for url in found or ()):
        notes.append(Note("photo-not-an-address", text))
    return Verdict(found, notes)


def _looks_right(url: str) -> bool:
    return url.casefold().startswith(_LIKE_ADDRESS) or "://" in url


def _parse(
    text: str, parse: Callable[[str], Sequence[T]], unreadable: str, repeated: str
) -> tuple[list[T] | None, list[Note]]:
    try:
        items = parse(text)
    except CellError as error:
        return None, [Note(unreadable, text, f"In this cell {error}.")]
    once = list(dict.fromkeys(items))
    if len(once) == len(items):
        return once, []
    twice = sorted({str(item) for item in items if list(items).count(item) > 1})
    return once, [Note(repeated, text, f"Twice in this cell: {', '.join(twice)}.")]


def _copies(column: Column, values: list[Any]) -> list[list[Any] | None]:
    """Lists of their own for each row, empty ones where the field is to be emptied."""
    return list(_each(values, column.clear.tolist()))


def _each(values: Sequence[Any], clear: Sequence[bool]) -> Iterator[list[Any] | None]:
    for value, cleared in zip(values, clear, strict=True):
        if cleared:
            yield []
        else:
            yield None if value is None else list(value)
