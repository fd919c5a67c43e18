"""The columns of lists: `tags` and `photo_urls`."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.model import Tag
from petsync.sheets.grid import Bools, Cells
from petsync.sheets.judge import addresses
from petsync.sheets.judge.column import NBSP, Column, Verdict, judge_each, note_damage, positions
from petsync.sheets.judge.notes import Note
from petsync.sheets.judge.octets import beginning_with, octets
from petsync.sheets.judge.placeholders import is_placeholder
from petsync.table.cells import (
    BLANKS,
    LISTED,
    URL_SEPARATOR,
    CellError,
    bracketed,
    format_photo_urls,
    format_tags,
    parse_photo_urls,
    parse_tags,
    trim,
)
from petsync.table.shared import shared_tag

__all__ = ["judge_photos", "judge_tags", "listed", "photos", "program_tags", "tags"]

T = TypeVar("T")
_Lists = np.ndarray[Any, np.dtype[np.object_]]
_TOGETHER = 1 << 16
_MANY = 20
_LIST_BEGINS = bytes({char.encode()[0] for char in BLANKS + "[({Tasf"})
_LISTED = f"^[{re.escape(BLANKS)}]*(?:{LISTED.pattern})"
_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMBER = r"None|-?[0-9]{1,19}"
_PYTHON = re.compile(
    rf"(?:Tag|Category)\((?:id=)?({_NUMBER}), (?:name=)?(None|{_TEXT})(?:, extra=None)?\)"
    rf"|\{{'id': ({_NUMBER}), 'name': (None|{_TEXT})\}}"
    rf"|({_TEXT})"
)
_CALL = re.compile(r"(?:array|set|frozenset)\((.*?)(?:, dtype=\w+)?\)", re.DOTALL)
_BETWEEN = re.compile(r"[\s,]*")
_SHOWN = 80
_BRACKETS = ("[]", "()", "{}")


def tags(column: Column) -> _Lists:
    """An object array with a list of `Tag` for each row, each tag once; None where the cell says
    nothing.
    """
    note_damage(column)
    return _lists(column, _plain_tags, judge_tags)


def photos(column: Column) -> _Lists:
    """An object array with a list of text for each row, each address once; None where the cell
    says nothing.
    """
    return _lists(column, _plain_photos, judge_photos)


def _lists(
    column: Column,
    plain: Callable[[Cells, Bools], tuple[_Lists, Bools]],
    judge: Callable[[str], Verdict],
) -> _Lists:
    """The lists of all rows: of many at once where they are `plain`, and then without a note; of
    the other ones as the texts are judged.
    """
    found: _Lists = np.full(len(column.says), None, dtype=object)
    for start, cells in column.cells.slices(_TOGETHER):
        says = column.says[start : start + len(cells)]
        found[start : start + len(cells)], done = plain(cells, says & ~_are_listed(cells.text))
        says[done] = False
    pa.default_memory_pool().release_unused()
    rows = positions(column.says)
    values = judge_each(column, judge) if rows else []
    for at in rows:
        found[at] = None if values[at] is None else list(values[at])
    for at in positions(column.clear):
        found[at] = []
    return found


def _plain_tags(cells: Cells, says: Bools) -> tuple[_Lists, Bools]:
    """The tags of cells without quotes, blank items and repeated tags, and which cells these are.

    The items of a cell without quotes are judged alone; each that there is, once.
    """
    split = pc.split_pattern(cells.text, ";")
    coded = pc.dictionary_encode(split.flatten())
    known = [_plain_tag(item) for item in coded.dictionary.to_pylist()]
    numbers: dict[Tag | None, int] = {}
    number = np.array([numbers.setdefault(tag, len(numbers)) for tag in known], dtype=np.int64)
    codes = number[coded.indices.to_numpy()]
    plain = says & ~_any_of(codes == numbers.get(None, -1), split)
    plain &= ~_repeating(pa.array(codes), split)
    objects = np.fromiter(numbers, dtype=object, count=len(numbers))
    return _sliced(objects[codes].tolist(), split, plain), plain


def _plain_tag(item: str) -> Tag | None:
    """The tag of an item that nothing is to be said of."""
    if '"' in item or NBSP in item:
        return None
    try:
        tags_ = parse_tags(item)
    except CellError:
        return None
    return None if not tags_ or _placeholders(tags_) else shared_tag(tags_[0])


def _plain_photos(cells: Cells, says: Bools) -> tuple[_Lists, Bools]:
    """The addresses of cells in which nothing is but web addresses, each once, and which these
    cells are.
    """
    text = cells.trimmed()
    for mark, separator in (("\r", "\r\n"), ("|", " | ")):
        if (octets(text).data == ord(mark)).any():
            text = pc.replace_substring(text, separator, "\n")
    split = pc.split_pattern(text, "\n")
    items = split.flatten()
    plain = says & ~_any_of(~_plain_addresses(items), split)
    plain &= ~_repeating(items, split)
    return _sliced(items.to_numpy(zero_copy_only=False).tolist(), split, plain), plain


def _plain_addresses(items: Any) -> Bools:
    """Which begin like a web address, and have no quote, no bar and no whitespace in them."""
    plain = np.asarray(pc.or_(pc.starts_with(items, "https://"), pc.starts_with(items, "http://")))
    seen = octets(items)
    strange = (seen.data <= ord(" ")) | (seen.data == ord('"')) | (seen.data == ord("|"))
    # The last character may be whitespace that is not ASCII.
    strange[seen.offsets[1:][plain] - 1] |= seen.data[seen.offsets[1:][plain] - 1] > ord("~")
    plain[seen.rows(np.flatnonzero(strange))] = False
    return plain


def _ends(split: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where each row's items begin, and where the last one's end."""
    ends: np.ndarray[Any, np.dtype[np.int64]] = np.array(split.offsets, dtype=np.int64)
    ends -= ends[0]
    return ends


def _any_of(items: Bools, split: Any) -> Bools:
    """The rows of which one item or more is true."""
    found = np.zeros(len(split), dtype=bool)
    found[np.searchsorted(_ends(split), np.flatnonzero(items), side="right") - 1] = True
    return found


def _repeating(items: Any, split: Any) -> Bools:
    """The rows in which an item stands twice, and those with very many."""
    counts = np.diff(_ends(split))
    rows = np.repeat(np.arange(len(counts)), counts)
    repeating: Bools = counts > _MANY
    for apart in range(1, min(_MANY, int(counts.max(initial=0)))):
        first, second = items.slice(0, len(items) - apart), items.slice(apart)
        same = np.asarray(pc.equal(first, second)) & (rows[apart:] == rows[:-apart])
        repeating[rows[:-apart][same]] = True
    return repeating


def _sliced(items: list[Any], split: Any, rows: Bools) -> _Lists:
    ends = _ends(split).tolist()
    found = [items[start:end] for start, end in itertools.pairwise(ends)]
    lists: _Lists = np.fromiter(found, dtype=object, count=len(found))
    lists[~rows] = None
    return lists


def judge_tags(text: str) -> Verdict:
    """What one cell's text means as tags."""
    if LISTED.match(trim(text)):
        return Verdict(None, [listed(text, program_tags(trim(text)), format_tags)])
    found, notes = _parse(text, parse_tags, format_tags, "tags-unreadable", "tag-repeated")
    # No items empty the field, and a blank cell would say nothing.
    meant = format_tags(found) if found else None
    if NBSP in text and text.count(NBSP) > sum((tag.name or "").count(NBSP) for tag in found or ()):
        notes.append(Note("no-break-space", text, "", "", meant, True))
    if '"' not in text and any(not trim(part) for part in text.split(";")):
        notes.append(Note("tags-separators", text, "", "", meant, True))
    if unknown := _placeholders(found or ()):
        others = format_tags(tag for tag in found or () if tag.name not in unknown)
        problem = f'"{unknown[0]}" is taken as a tag.'
        notes.append(Note("placeholder-text", text, problem, "", others))
    return Verdict(found, notes)


def _placeholders(tags_: Iterable[Tag]) -> list[str]:
    """The names that are none; one that comes with an id is the store's own."""
    return [tag.name for tag in tags_ if tag.id is None and tag.name and is_placeholder(tag.name)]


def judge_photos(text: str) -> Verdict:
    """What one cell's text means as addresses of photos."""
    if LISTED.match(trim(text)):
        tags_ = program_tags(trim(text))
        is_text = tags_ is not None and all(tag.id is None for tag in tags_)
        urls = [tag.name or "" for tag in tags_ or ()] if is_text else None
        return Verdict(None, [listed(text, urls, format_photo_urls)])
    inner = bracketed(trim(text))
    if inner is not None and "://" in inner:
        parts = [URL_SEPARATOR.split(url) for url in parse_photo_urls(inner.replace('"', ""))]
        urls = [url for some in parts for part in some if (url := trim(part).strip("'"))]
        return Verdict(None, [listed(text, urls, format_photo_urls)])
    found, notes = _parse(
        text, parse_photo_urls, format_photo_urls, "photos-unreadable", "photo-repeated"
    )
    nothing = next((url for url in found or () if is_placeholder(url)), "")
    if nothing:
        others = format_photo_urls(url for url in found or () if not is_placeholder(url))
        problem = f'"{nothing}" is taken as an address.'
        notes.append(Note("placeholder-text", text, problem, "", others))
    for url in addresses.strange(found or ())[: 0 if nothing else 1]:
        hint, other = addresses.meant(url)
        put = [other if each == url else each for each in found or ()] if other else []
        meant = format_photo_urls(put) if put else None
        notes.append(Note("photo-not-an-address", text, "", hint, meant))
    return Verdict(found, notes)


def _parse(
    text: str,
    parse: Callable[[str], Sequence[T]],
    form: Callable[[Iterable[T]], str],
    unreadable: str,
    repeated: str,
) -> tuple[list[T] | None, list[Note]]:
    try:
        items = parse(text)
    except CellError as error:
        return None, [Note(unreadable, text, f"In this cell {error}.")]
    once = list(dict.fromkeys(items))
    if len(once) == len(items):
        return once, []
    twice = sorted({str(item) for item in items if list(items).count(item) > 1})
    problem = f"Twice in this cell: {', '.join(twice)}."
    return once, [Note(repeated, text, problem, "", form(once), True)]


def _are_listed(text: Any) -> Bools:
    """Which cells begin like the list of a program."""
    listed = np.zeros(len(text), dtype=bool)
    rows = beginning_with(text, _LIST_BEGINS)
    if len(rows):
        found = pc.match_substring_regex(text.take(pa.array(rows)), _LISTED)
        listed[rows[np.asarray(found)]] = True
    return listed


def listed(text: str, items: list[T] | None, form: Callable[[Iterable[T]], str]) -> Note:
    """The error of a cell that holds the list of a program, with what is meant."""
    if items is None:
        return Note("list-text", text)
    if not items:
        hint = "Leave the cell blank to say nothing, or write [clear] to empty the field."
        return Note("list-text", text, "", hint)
    meant = form(items)
    shown = meant.replace("\n", " | ")
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    return Note("list-text", text, "", f"Write {shown}", meant)


def program_tags(text: str) -> list[Tag] | None:
    """The tags, or texts as tags without an id, of a list or of one item as Python, pandas or JSON
    writes it; None where it is none.
    """
    call = _CALL.fullmatch(text)
    text = call[1] if call else text
    found = _json_tags(text)
    return found if found is not None else _json_tags(f"[{text}]")


def _json_tags(text: str) -> list[Tag] | None:
    try:
        found = msgspec.json.decode(text, type=list[str | _Label])
    except (msgspec.DecodeError, RecursionError):
        return _python_tags(text)
    return [Tag(None, each) if isinstance(each, str) else Tag(each.id, each.name) for each in found]


class _Label(msgspec.Struct, forbid_unknown_fields=True):
    id: int | None = None
    name: str | None = None


def _python_tags(text: str) -> list[Tag] | None:
    if text[:1] + text[-1:] not in _BRACKETS:
        return None
    found: list[Tag] = []
    at, end = _skip(text, 1), len(text) - 1
    while at < end:
        match = _PYTHON.match(text, at, end)
        if match is None:
            return None
        number, name = match[1] or match[3], match[2] or match[4] or match[5]
        tag_id = None if number in (None, "None") else int(number)
        try:
            found.append(Tag(tag_id, None if name == "None" else str(ast.literal_eval(name))))
        except (ValueError, SyntaxError):
            return None
        at = _skip(text, match.end())
    return found


def _skip(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at
