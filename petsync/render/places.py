"""Where findings are, said shortly: `Pets!C2:C241 (240 cells)`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from petsync.render.visible import visible
from petsync.render.words import number
from petsync.table.sheet import Finding

__all__ = ["Place", "listed", "place_of"]

_CELL = re.compile(r"(.*!)([A-Z]{1,3})([0-9]+)", re.DOTALL)
_LINE = re.compile(r"(line|row) ([0-9]+)(?:, (.*))?", re.DOTALL)
_MOST = 6
"""So many ranges are listed."""


class Place(NamedTuple):
    """A cell: what stands before its column (`Pets!`, `line` or `row`), column, and row.

    An address of another kind is in `before` as it is, and its row is -1.
    """

    before: str
    column: str
    row: int


class _Range(NamedTuple):
    before: str
    column: str
    first: int
    last: int


def place_of(finding: Finding) -> Place:
    """The place that a finding's address names."""
    cell = _CELL.fullmatch(finding.address)
    if cell:
        return Place(cell[1], cell[2], int(cell[3]))
    line = _LINE.fullmatch(finding.address)
    if line:
        return Place(line[1], line[3] or "", int(line[2]))
    return Place(finding.address, "", -1)


def listed(places: Iterable[Place]) -> str:
    """The places, consecutive rows as a range, and how many cells where that is not plain."""
    ranges = list(_ranges(places))
    shown = ranges[:_MOST]
    rest = _cells(ranges[_MOST:])
    text = _joined(shown) + (f" and {number(rest)} more" if rest else "")
    is_plain = all(each.first == each.last for each in shown) and not rest
    return text if is_plain else f"{text} ({number(_cells(ranges))} cells)"


def _cells(ranges: Sequence[_Range]) -> int:
    return sum(each.last - each.first + 1 for each in ranges)


def _ranges(places: Iterable[Place]) -> Iterator[_Range]:
    """The places by column, each run of consecutive rows once."""
    columns: dict[tuple[str, str], list[int]] = {}
    for before, column, row in sorted(set(places)):
        columns.setdefault((before, column), []).append(row)
    for (before, column), rows in columns.items():
        # Of consecutive rows the difference from their position is the same.
        for _, run in itertools.groupby(enumerate(rows), lambda pair: pair[1] - pair[0]):
            span = [row for _, row in run]
            yield _Range(before, column, span[0], span[-1])


def _joined(ranges: Sequence[_Range]) -> str:
    """`Pets!C2:C9, C12, D4`, or `column 3, lines 2-9, 12; line 4, column 5`."""
    groups: Mapping[tuple[str, str], list[_Range]] = {
        key: list(group) for key, group in itertools.groupby(ranges, lambda each: each[:2])
    }
    before = [""] + [key[0] for key in groups]
    parts = [
        _said(key, group, is_new=key[0] != last)
        for (key, group), last in zip(groups.items(), before, strict=False)
    ]
    return ("; " if before[-1] in ("line", "row") else ", ").join(parts)


def _said(key: tuple[str, str], ranges: Sequence[_Range], *, is_new: bool) -> str:
    before, column = key
    if ranges[0].first < 0:
        return visible(before)
    if before.endswith("!"):
        cells = ", ".join(_letters(each) for each in ranges)
        return visible(before) + cells if is_new else cells
    numbers = ", ".join(_numbers(each) for each in ranges)
    if _cells(ranges) == 1:
        return f"{before} {numbers}, {visible(column)}" if column else f"{before} {numbers}"
    return f"{visible(column)}, {before}s {numbers}" if column else f"{before}s {numbers}"


def _letters(cells: _Range) -> str:
    start = f"{cells.column}{cells.first}"
    return start if cells.first == cells.last else f"{start}:{cells.column}{cells.last}"


def _numbers(cells: _Range) -> str:
    return str(cells.first) if cells.first == cells.last else f"{cells.first}-{cells.last}"
