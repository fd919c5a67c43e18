"""Whether a worksheet's cells stand in their order, so that no two of them claim one place."""

from __future__ import annotations

import re

import numpy as np

__all__ = ["misplaced"]

_CELL = re.compile(rb'<c r="([A-Za-z]{1,3})([0-9]{1,7})"')
_COLUMNS = 27**3


def misplaced(data: bytes) -> str:
    """The first cell that does not stand behind the one before it, "" where there is none.

    Of two cells with one reference calamine keeps the later one, and a value would be lost.
    """
    found = _CELL.findall(data)
    if len(found) < 2:
        return ""
    letters, digits = zip(*found, strict=True)
    # Letters as digits to the base of 27, in upper case by the fifth bit; shorter ones end in NUL.
    codes = np.array(letters).view(np.uint8).reshape(len(found), -1).astype(np.int64) & 31
    width = codes.shape[1]
    columns = codes @ 27 ** np.arange(width)[::-1] // 27 ** (codes == 0).sum(axis=1)
    places = np.array(digits).astype(np.int64) * _COLUMNS + columns
    behind = np.flatnonzero(np.diff(places) <= 0)
    return b"".join(found[behind[0] + 1]).decode() if len(behind) else ""
