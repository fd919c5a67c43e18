"""What a worksheet's view leaves out: hidden columns, and filters that are set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from petsync.sheets.grid import letter
from petsync.sheets.ooxml.markup import column_number

__all__ = ["View", "view"]

_HEAD = 1 << 20
_COLUMN = re.compile(rb"<(?:\w+:)?col\s([^<>]*)>")
_NUMBER = re.compile(rb"\b(min|max)\s*=\s*[\"']([0-9]{1,5})[\"']")
_HIDDEN = re.compile(rb"\bhidden\s*=\s*[\"'](?:1|true)[\"']|\bwidth\s*=\s*[\"']0(?:\.0+)?[\"']")
_FILTER = re.compile(rb"<(?:\w+:)?autoFilter\s([^<>]*)>")
_REF = re.compile(rb"\bref\s*=\s*[\"']\$?([A-Z]{1,3})")
_CRITERION = re.compile(rb"<(?:\w+:)?filterColumn\s([^<>]*)>")
_PLACE = re.compile(rb"\bcolId\s*=\s*[\"']([0-9]{1,5})[\"']")
_END = re.compile(rb"</(?:\w+:)?autoFilter>|<(?:\w+:)?customSheetViews\b")


@dataclass(frozen=True, slots=True)
class View:
    """The columns that are hidden (numbers, from 0) and the letters of those with a filter."""

    hidden: tuple[range, ...] = ()
    filtered: tuple[str, ...] = ()


def view(data: bytes) -> View:
    """The view of one worksheet part: what is said of it before its cells and behind them."""
    start = data.find(b"sheetData")
    if start < 0:
        return View()
    tail = data[data.rfind(b"sheetData") :]
    return View(tuple(_hidden(data[: min(start, _HEAD)])), tuple(_filtered(tail)))


def _hidden(head: bytes) -> Iterator[range]:
    for column in _COLUMN.finditer(head):
        span = {name: int(number) for name, number in _NUMBER.findall(column[1])}
        if len(span) == 2 and _HIDDEN.search(column[1]):
            yield range(span[b"min"] - 1, span[b"max"])


def _filtered(tail: bytes) -> Iterator[str]:
    """The columns of the sheet's own filter; one without criteria only has its button."""
    before = _END.split(tail, maxsplit=1)[0]
    found = _FILTER.search(before)
    ref = found and _REF.search(found[1])
    if not found or not ref or found[1].endswith(b"/"):
        return
    for criterion in _CRITERION.finditer(before, found.end()):
        place = _PLACE.search(criterion[1])
        if place and not criterion[1].endswith(b"/"):
            yield letter(column_number(ref[1].decode()) + int(place[1]))
