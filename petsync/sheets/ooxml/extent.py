"""How far a worksheet's cells reach, seen in its bytes: calamine holds the whole rectangle around
them, so this is known before it is let near.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Extent", "extent"]

_PREFIXED = re.compile(rb":c[\s>/]")
_BEHIND = 40
_DIGITS = 7
_PART = 1 << 20
_Positions = np.ndarray[Any, np.dtype[np.intp]]
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Extent(NamedTuple):
    """No cell is behind row `rows` or behind column `columns`, both counted from 1; `cells` have
    content.
    """

    rows: int
    columns: int
    cells: int


def extent(data: bytes) -> Extent | None:
    """The extent of a worksheet part, formatted cells too; None where it takes a walk to know.

    It is known where each cell begins with `<c r="`, a column of one letter and a row.
    """
    if b"<sheetData" not in data or _PREFIXED.search(data) or b"<c" in data[-_BEHIND:]:
        return None
    raw = np.frombuffer(data, np.uint8)
    cells = _cells(raw)
    if cells is None:
        return None
    letters = raw[cells] & 0xDF
    if not _between(letters, b"AZ").all() or not _between(raw[cells + 1], b"09").all():
        return None
    # From the row 100,000 on there is a sixth digit; what else stands there does no harm.
    last = _last_row(raw, cells[_between(raw[cells + 6], b"09")] + 1)
    return Extent(last, int(letters.max(initial=ord("A"))) - ord("A") + 1, data.count(b"</c>"))


def _cells(raw: _Bytes) -> _Positions | None:
    """Where the references of the cells begin; None where a cell is written in another way."""
    cells = np.concatenate([_tags(raw, at) for at in range(0, len(raw) - _BEHIND, _PART)])
    behind = raw[cells + 2]
    if np.isin(behind, tuple(b"\t\r\n/>")).any():
        return None
    cells = cells[behind == ord(" ")]
    for place, mark in enumerate(b'r="', 3):
        if (raw[cells + place] != mark).any():
            return None
    references: _Positions = cells + 6
    return references


def _tags(raw: _Bytes, at: int) -> _Positions:
    """Where tags begin in a part that start with a `c`."""
    part = raw[at : min(at + _PART, len(raw) - _BEHIND) + 1]
    return np.flatnonzero((part[:-1] == ord("<")) & (part[1:] == ord("c"))) + at


def _last_row(raw: _Bytes, digits: _Positions) -> int:
    """The last of the rows whose digits begin there, and no less than 99,999."""
    last = 99_999
    rows = np.zeros(len(digits), dtype=np.int64)
    for place in range(_DIGITS + 1):
        going = _between(raw[digits + place], b"09")
        digits, rows = digits[going], rows[going] * 10 + raw[digits[going] + place] - ord("0")
        last = max(last, int(rows.max(initial=0)))
    return last


def _between(values: np.ndarray[Any, Any], ends: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    between: np.ndarray[Any, np.dtype[np.bool_]] = (values >= ends[0]) & (values <= ends[1])
    return between
