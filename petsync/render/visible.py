"""Visible text fitted into cells of a terminal: width is counted in cells, not characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.cells import cell_len, chop_cells, split_graphemes

from petsync.table.visible import visible

__all__ = ["EMPTY", "quoted", "shorten", "visible", "wrap"]

EMPTY = "(empty)"
_CUT = "..."
_MARKS_PER_CELL = 4
_AMBIGUOUS = re.compile(r"^\s|\s$|^[\"(+-]| -> ")


def quoted(text: str) -> str:
    """A field's visible text: `(empty)`, or in quotes where it could be misread."""
    if not text:
        return EMPTY
    shown = visible(text)
    return f'"{shown}"' if _AMBIGUOUS.search(shown) else shown


def shorten(text: str, width: int) -> str:
    """The visible text in at most `width` cells, `...` in the middle where it is longer."""
    if len(text) <= _MARKS_PER_CELL * width and cell_len(text) <= width:
        return text
    room = max(width - len(_CUT), 0)
    reach = _MARKS_PER_CELL * width
    head = _take(_graphemes(text[:reach]), (room + 1) // 2)
    tail = _take(reversed(list(_graphemes(text[-reach:]))), room // 2)
    return "".join(head) + _CUT[:width] + "".join(reversed(tail))


def wrap(text: str, width: int) -> list[str]:
    """The visible text as lines of at most `width` cells, broken between words if it can be."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_len(longer) <= width:
            line = longer
            continue
        lines += [line] if line else []
        *full, line = chop_cells(word, width) or [""]
        lines += full
    return [*lines, line]


def _graphemes(text: str) -> Iterator[str]:
    return (text[start:end] for start, end, _ in split_graphemes(text)[0])


def _take(graphemes: Iterable[str], width: int) -> list[str]:
    """So many of the graphemes, from the first one on, as fit."""
    taken: list[str] = []
    for grapheme in graphemes:
        width -= cell_len(grapheme)
        if width < 0:
            break
        taken.append(grapheme)
    return taken
