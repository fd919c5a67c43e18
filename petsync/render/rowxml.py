"""Rows of a worksheet as the XML that a workbook holds: a hundred thousand of them in seconds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len

from petsync.render.marked import Piece
from petsync.render.visible import visible

__all__ = ["FONT", "LINE_HEIGHT", "SIZE", "Marked", "Styles", "Value", "row_xml"]

FONT, SIZE, LINE_HEIGHT = "Arial", 10, 13.5
"""Every system has it, or one that is as wide."""
_LENGTH = 16_000
"""A cell holds 32,767 UTF-16 units, and a character may be two."""
_MOST_LINES = 25
_WIDE, _SLACK = 1.15, 0.1
"""Letters are narrower than the digits in which widths are counted; words do not fill a line."""
_NOT_TEXT = ("=", "+", "-", "@", "#")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_UNUSUAL = re.compile(r"[&<>_\n\ufffe\uffff]|^\s|\s$")
_NO_XML = re.compile(r"[\ufffe\uffff]")
_LIKE_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{1,4}_)")
_PARTS = re.compile(r"(?<=[\s/?-])(?=[^\W\d_])")
_RUN = f'<sz val="{SIZE}"/><rFont val="{FONT}"/></rPr>'
_RUNS: Mapping[str, str] = {
    "gone": f'<rPr><strike/><color rgb="FFB3261E"/>{_RUN}',
    "come": f'<rPr><b/><color rgb="FF1B6E2E"/>{_RUN}',
    "none": f'<rPr><i/><color rgb="FF6B7280"/>{_RUN}',
}


@dataclass(frozen=True, slots=True)
class Marked:
    """A text in pieces; what is marked is `gone`, has `come`, or stands for `none`."""

    pieces: Sequence[Piece]
    how: Literal["gone", "come", "none"]

    def __str__(self) -> str:
        return "".join(part for part, _ in self.pieces)


Value = str | int | Marked


@dataclass(frozen=True, slots=True)
class Styles:
    """The numbers of the cells' formats: of all, and of text that could be taken for a formula."""

    plain: int
    quoted: int


def row_xml(number: int, values: Sequence[Value], widths: Sequence[int], styles: Styles) -> str:
    """The row, as high as its longest text needs, as not every program finds that out itself.

    Text is text: none becomes a formula, a number or an error, in the file or when it is edited.
    """
    lines = max(map(_lines, values, widths), default=1)
    height = f' ht="{lines * LINE_HEIGHT:g}"' if lines > 1 else ""
    height += ' customHeight="1"' if lines == _MOST_LINES else ""
    return f'<row r="{number}"{height}>{"".join(_cells(number, values, styles))}</row>'


def _cells(number: int, values: Sequence[Value], styles: Styles) -> Iterator[str]:
    for letter, value in zip(_LETTERS, values, strict=False):
        if isinstance(value, int):
            yield f'<c r="{letter}{number}" s="{styles.plain}"><v>{value}</v></c>'
        elif text := str(value):
            style = styles.quoted if text.startswith(_NOT_TEXT) else styles.plain
            runs = _marked(value, text) if isinstance(value, Marked) else _said(text)
            yield f'<c r="{letter}{number}" s="{style}" t="inlineStr"><is>{runs}</is></c>'


def _marked(value: Marked, text: str) -> str:
    """The text in runs of their own looks, if it is not too long for them."""
    if not any(is_marked for _, is_marked in value.pieces) or len(text) > _LENGTH // 8:
        return _said(text)
    return "".join(
        f"<r>{_RUNS[value.how] if is_marked else ''}{_said(part)}</r>"
        for part, is_marked in value.pieces
    )


def _said(text: str) -> str:
    shown = visible(text, keep="\n")
    if len(shown) > _LENGTH:
        shown = f"{shown[:_LENGTH]}..."
    if not _UNUSUAL.search(shown):
        return f"<t>{shown}</t>"
    shown = _NO_XML.sub(lambda found: f"[U+{ord(found[0]):04X}]", shown)
    shown = _LIKE_ESCAPE.sub("_x005F_", shown)
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f'<t xml:space="preserve">{shown}</t>'


def _lines(value: Value, width: int) -> int:
    """How many lines the text takes in a column of so many characters."""
    if isinstance(value, int):
        return 1
    text = str(value)
    if len(text) < width // 2 and "\n" not in text:
        return 1
    return min(sum(_folded(line, width) for line in text.split("\n")[:_MOST_LINES]), _MOST_LINES)


def _folded(line: str, width: int) -> int:
    cells = cell_len(line[: width * _MOST_LINES]) / (_WIDE * width)
    if cells <= 1 or "://" not in line:
        return 1 if cells <= 1 else math.ceil(cells + _SLACK)
    return _address(line[: 2 * width * _MOST_LINES], _WIDE * width)


def _address(line: str, room: float) -> int:
    """An address has no spaces: it breaks in front of the words between its marks."""
    lines, used = 1, 0.0
    for part in _PARTS.split(line):
        size = cell_len(part)
        if used and used + size > room:
            lines, used = lines + 1, 0.0
        lines += max(math.ceil(size / room) - 1, 0)
        used += size % room
    return lines
