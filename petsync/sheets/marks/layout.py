"""Where a comment's box stands and how large it is, in columns, rows and pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from petsync.sheets.ooxml.outline import Element, whole

__all__ = ["Box", "Layout", "lines_of"]

Box = tuple[int, int, int, int, int, int, int, int]
"""Left column, pixels into it, top row, pixels into it; then the same of right and bottom."""

_LAST_COLUMN, _LAST_ROW = (1 << 14) - 1, (1 << 20) - 1
_WIDTH, _LINE, _LETTERS, _TALLEST = 280, 15, 42, 450
_GAP, _MARGIN = 15, 10
_DIGIT, _PADDING = 7, 5
_PIXELS_A_POINT = 4 / 3
_Size = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Layout:
    """The sizes of a worksheet's columns and rows in pixels, hidden ones 0.

    `columns` are ranges (first, last, both from 0) with their width; `rows` heights by number
    from 0.
    """

    columns: tuple[tuple[int, int, int], ...]
    rows: Mapping[int, int]
    width: int
    height: int

    @classmethod
    def of(cls, root: Element, heights: Mapping[int, float]) -> Layout:
        """The layout of a worksheet; `heights` in points by number from 1."""
        standard = root.one("sheetFormatPr")
        wide = standard.get("defaultColWidth") if standard else ""
        high = standard.get("defaultRowHeight") if standard else ""
        columns = (
            ((whole(each.get("min")) or 1) - 1, (whole(each.get("max")) or 1) - 1, _column(each))
            for each in root.all("cols", "col")
        )
        rows = {number - 1: round(height * _PIXELS_A_POINT) for number, height in heights.items()}
        width = _pixels(wide) if wide else 64
        return cls(tuple(columns), rows, width, round(_float(high, 15) * _PIXELS_A_POINT))

    def box(self, row: int, column: int, lines: int) -> Box:
        """A box for so many lines beside a cell, a little above it as spreadsheets place it."""
        left = column + 1 if column < _LAST_COLUMN - 8 else max(column - 8, 0)
        top, into = (row - 1, min(_MARGIN, self._height(row - 1))) if row else (0, 2)
        right, across = self._along(left, _GAP + _WIDTH, self._width, _LAST_COLUMN)
        bottom, down = self._along(top, into + _tall(lines), self._height, _LAST_ROW)
        return left, _GAP, top, into, right, across, bottom, down

    def taller(self, box: Box, lines: int) -> Box:
        """The box with room for more lines."""
        bottom, down = self._along(box[6], box[7] + lines * _LINE, self._height, _LAST_ROW)
        return (*box[:6], bottom, down)

    def _along(self, at: int, pixels: int, size: _Size, last: int) -> tuple[int, int]:
        """The column or row, and the pixels into it, that are so far from the start of `at`."""
        while pixels < 0 < at:
            at -= 1
            pixels += size(at)
        while at < last and pixels >= size(at):
            pixels -= size(at)
            at += 1
        return at, max(pixels, 0)

    def _width(self, column: int) -> int:
        found = (width for first, last, width in self.columns if first <= column <= last)
        return next(found, self.width)

    def _height(self, row: int) -> int:
        return self.rows.get(row, self.height)


def lines_of(text: str) -> int:
    """How many lines a text takes in a box."""
    return sum(max(1, ceil(len(line) / _LETTERS)) for line in text.split("\n"))


def _tall(lines: int) -> int:
    return min(lines * _LINE + _MARGIN, _TALLEST)


def _column(element: Element) -> int:
    is_hidden = element.get("hidden") in ("1", "true")
    return 0 if is_hidden else _pixels(element.get("width"))


def _pixels(width: str) -> int:
    """The pixels of a width in characters (ECMA-376, part 1, 18.3.1.13)."""
    return round(_float(width, (64 - _PADDING) / _DIGIT) * _DIGIT)


def _float(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default
