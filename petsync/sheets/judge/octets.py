"""Columns of text looked at byte by byte, all cells at once, to find the few worth a look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Octets", "Rows", "beginning_with", "octets"]

Rows = np.ndarray[Any, np.dtype[np.intp]]
Bytes = np.ndarray[Any, Any]

_PART = 1 << 20


class Octets(NamedTuple):
    """The UTF-8 of all cells in a row, and where in it each begins and the last one ends."""

    data: np.ndarray[Any, np.dtype[np.uint8]]
    offsets: np.ndarray[Any, np.dtype[np.int64]]

    def places(self, wanted: Callable[[Bytes], Bytes]) -> Rows:
        """The places of the bytes that are `wanted`, which is asked of a part at a time: the
        answers for a large column would take as much memory as it does.
        """
        parts = range(0, len(self.data), _PART)
        found = [np.flatnonzero(wanted(self.data[at : at + _PART])) + at for at in parts]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)

    def following(self, places: Rows, *, by: int = 1) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes that stand `by` behind those at `places`; behind the last one there are 0."""
        behind = self.data[np.minimum(places + by, max(len(self.data) - 1, 0))]
        behind[places + by >= len(self.data)] = 0
        return behind

    def rows(self, places: Rows) -> Rows:
        """The rows of the cells in which these bytes are, each row once."""
        return np.unique(np.searchsorted(self.offsets, places, side="right") - 1)


def octets(text: Any) -> Octets:
    """The bytes of an Arrow array of large_string."""
    _, places, content = text.buffers()
    if places is None or content is None or not len(text):
        return Octets(np.zeros(0, dtype=np.uint8), np.zeros(len(text) + 1, dtype=np.int64))
    offsets = np.frombuffer(places, np.int64)[text.offset : text.offset + len(text) + 1]
    start, end = offsets[0], offsets[-1]
    return Octets(np.frombuffer(content, np.uint8)[start:end], offsets - start)


def beginning_with(text: Any, marks: bytes) -> Rows:
    """The rows of an Arrow array of large_string whose first byte is one of `marks`."""
    data, offsets = octets(text)
    if not len(data):
        return np.zeros(0, dtype=np.intp)
    wanted = np.zeros(256, dtype=bool)
    wanted[list(marks)] = True
    starts, ends = offsets[:-1], offsets[1:]
    first = data[np.minimum(starts, len(data) - 1)]
    return np.flatnonzero(wanted[first] & (starts < ends))
