"""Leave out the lines that two CSV files have in common, before both are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.files import Source

__all__ = ["OwnLines", "leave_out_common_lines"]


_HEAD = 32
"""The first lines, which may have the header, are never left out."""
_MAX_DIGITS = 18
_QUOTE, _CR, _LF = b'"\r\n'
_DELIMITERS = (*b",;\t",)

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Mask = np.ndarray[Any, np.dtype[np.bool_]]


class OwnLines(NamedTuple):
    """A file without the lines that the other file has too."""

    source: Source
    numbers: _Numbers
    """The number in the file of each remaining line."""
    left_out: _Numbers
    """The ids at the start of the lines that are left out, each of them once in either file."""


def leave_out_common_lines(a: Source, b: Source) -> tuple[OwnLines, OwnLines] | None:
    """Return both files without the lines that start with an id and are the same in both; None if
    a record has several lines, so that a line need not be a record.

    A line stays if its id is at the start of another line of its file, too.
    """
    if a.kind != "text" or b.kind != "text":
        return None
    files = _Lines(a.data), _Lines(b.data)
    if not all(each.is_plain for each in files):
        return None
    one, two = (each.find_ids() for each in files)
    # The ids are sorted.
    _, at_a, at_b = np.intersect1d(one[0], two[0], assume_unique=True, return_indices=True)
    same_a, same_b = one[1][at_a], two[1][at_b]
    equal = pc.equal(files[0].array.take(pa.array(same_a)), files[1].array.take(pa.array(same_b)))
    is_same = np.asarray(equal)
    ids = one[0][at_a][is_same]
    return (
        files[0].without(same_a[is_same], a, ids),
        files[1].without(same_b[is_same], b, ids),
    )


class _Lines:
    """The lines of a file, with their ends."""

    def __init__(self, data: bytes) -> None:
        self._bytes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(self._bytes == _LF) + 1
        last = [] if len(ends) and ends[-1] == len(data) else [len(data)]
        self._offsets = np.concatenate([[0], ends, last]).astype(np.int64)
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(data)]
        size = len(self._offsets) - 1
        self.array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), size, buffers)

    @property
    def is_plain(self) -> bool:
        """True if each record is one line: every line has an even number of quotes, and ends in a
        line feed.
        """
        returns = np.flatnonzero(self._bytes == _CR) + 1
        if (returns >= len(self._bytes)).any() or (self._bytes[returns] != _LF).any():
            return False
        quotes = np.flatnonzero(self._bytes == _QUOTE)
        lines = np.searchsorted(self._offsets, quotes, side="right") - 1
        return not (np.bincount(lines, minlength=1) % 2).any()

    def find_ids(self) -> tuple[_Numbers, _Numbers]:
        """Return the ids at the start of lines, in order and each only once in the file, and the
        positions of these lines.
        """
        starts = self._offsets[:-1]
        ids, is_open = np.zeros(len(starts), np.int64), np.ones(len(starts), dtype=bool)
        is_id = np.zeros(len(starts), dtype=bool)
        for digit in range(_MAX_DIGITS + 1):
            places = np.minimum(starts + digit, len(self._bytes) - 1)
            marks = self._bytes[places].astype(np.int64)
            is_digit = (marks >= ord("0")) & (marks <= ord("9"))
            if digit:
                is_id |= is_open & np.isin(marks, _DELIMITERS)
            is_open &= is_digit
            if not is_open.any() or digit == _MAX_DIGITS:
                break
            ids = np.where(is_open, ids * 10 + marks - ord("0"), ids)
        is_id[:_HEAD] = False
        at = np.flatnonzero(is_id)
        known, first, counts = np.unique(ids[at], return_index=True, return_counts=True)
        return known[counts == 1], at[first[counts == 1]]

    def without(self, at: _Numbers, source: Source, ids: _Numbers) -> OwnLines:
        """Return the file without the lines at these positions, which start with these ids."""
        stays = np.ones(len(self.array), dtype=bool)
        stays[at] = False
        kept = self.array.filter(pa.array(stays))
        offsets = np.frombuffer(kept.buffers()[1], np.int64)
        content = memoryview(kept.buffers()[2] or b"")[: offsets[kept.offset + len(kept)]]
        return OwnLines(replace(source, data=bytes(content)), np.flatnonzero(stays) + 1, ids)
