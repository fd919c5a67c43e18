"""Leave out the lines that two CSV files have in common, before both are read."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.plan.match import find_positions
from petsync.sheets.files import Source

__all__ = ["Lines", "OwnLines", "leave_out_common_lines"]


_HEAD = 32
"""The first lines, which may have the header, are never left out."""
_MAX_DIGITS = 18
_IS_DELIMITER = np.isin(np.arange(256), (*b",;\t",))
_WORD = np.dtype("<u8")
_POWERS = 10 ** np.arange(9, dtype=np.int64)
_BLOCK = 1 << 22
"""The bytes that are searched at once."""
_PART = 1 << 16
"""The lines that are read or compared at once. Threads wait for each other between many small
steps.
"""

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Mask = np.ndarray[Any, np.dtype[np.bool_]]


class OwnLines(NamedTuple):
    """A file without the lines that the other file has too."""

    source: Source
    numbers: _Numbers
    """The number in the file of each remaining line."""
    left_out: _Numbers
    """The ids at the start of the lines that are left out, each of them once in either file."""


def leave_out_common_lines(a: Lines, b: Lines, pool: Executor) -> list[OwnLines] | None:
    """Return both files without the lines that start with an id and are the same in both; None if a
    record has several lines, so that a line need not be a record.

    A line stays if its id is at the start of another line of its file, too.
    """
    if not _are_records(a.source.data, a.offsets):
        return None
    ids, at_a, at_b = _pair(a, b)
    parts = [slice(n, n + _PART) for n in range(0, len(ids), _PART)]
    masks = pool.map(lambda part: _find_same(a, b, at_a[part], at_b[part]), parts)
    same = np.flatnonzero(np.concatenate([np.empty(0, bool), *masks]))
    own = [*pool.map(Lines.without, (a, b), (at_a[same], at_b[same]), repeat(ids[same]))]
    # The lines of B that are left out are lines of A.
    rest = own[1].source.data
    return own if _are_records(rest, _find_starts(rest)) else None


def _pair(a: Lines, b: Lines) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return the ids that both files have, in the order of A's lines, and the positions of their
    lines.
    """
    places = find_positions(b.ids, a.ids)
    common = np.flatnonzero(places >= 0)
    ids, at_a, at_b = b.ids[common], a.at[places[common]], b.at[common]
    if (at_a[1:] > at_a[:-1]).all():
        return ids, at_a, at_b
    order = np.argsort(at_a)
    return ids[order], at_a[order], at_b[order]


def _find_same(a: Lines, b: Lines, at_a: _Numbers, at_b: _Numbers) -> _Mask:
    """Return a mask of the pairs of lines that are the same. The lines of A are in order."""
    if (at_b[1:] > at_b[:-1]).all():
        return _are_equal(a.with_gaps(at_a), b.with_gaps(at_b))[::2]
    return _are_equal(a.take(at_a), b.take(at_b))


def _are_equal(a: pa.Array, b: pa.Array) -> _Mask:
    mask: _Mask = pc.equal(a, b).to_numpy(zero_copy_only=False)
    return mask


class Lines:
    """The lines of a text file, with their ends."""

    def __init__(self, source: Source) -> None:
        self.source = source
        data = source.data
        self._bytes = np.frombuffer(data, np.uint8)
        starts = _find_starts(data)
        parts = [self._read_ids(starts[n : n + _PART]) for n in range(0, len(starts), _PART)]
        ids, are_ids = map(np.concatenate, zip(*parts, strict=True))
        is_ended = len(starts) > 1 and starts[-1] == len(data)
        self.offsets: _Numbers = starts if is_ended else np.append(starts, len(data))
        """Where each line begins, and the end of the last one."""
        at = np.flatnonzero(are_ids)
        at = at[np.searchsorted(at, _HEAD) :]
        self.ids, self.at = _keep_unique(ids[at], at)
        """The ids at the start of lines, in order and each only once in the file, and the positions
        of these lines. An id in the last bytes of the file may be missing.
        """

    def _read_ids(self, starts: _Numbers) -> tuple[_Numbers, _Mask]:
        """Return the number at the start of each of these lines, and whether it is an id."""
        ids, digits = self._read_digits(starts)
        ends = np.minimum(starts + digits, len(self._bytes) - 1)
        return ids, (digits > 0) & (digits <= _MAX_DIGITS) & _IS_DELIMITER[self._bytes[ends]]

    def _read_digits(self, starts: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Return the numbers at these places, and how many digits each of them has. A number with
        more digits than an id is not exact.
        """
        size = len(self._bytes) - _WORD.itemsize + 1
        if size <= 0:
            return np.zeros_like(starts), np.zeros_like(starts)
        # Eight characters from each byte on, as one number.
        words = np.ndarray(size, _WORD, self.source.data, strides=(1,))
        numbers, digits = _parse_digits(words[np.minimum(starts, size - 1)])
        digits[starts >= size] = 0
        for done in range(_WORD.itemsize, _MAX_DIGITS, _WORD.itemsize):
            at = np.flatnonzero((digits == done) & (starts + done < size))
            more, count = _parse_digits(words[starts[at] + done])
            numbers[at] = numbers[at] * _POWERS[count] + more
            digits[at] += count
        return numbers, digits

    def take(self, at: _Numbers) -> pa.Array:
        """Return the lines at these positions."""
        return self._as_array(self.offsets).take(pa.array(at))

    def with_gaps(self, at: _Numbers) -> pa.Array:
        """Return the lines at these positions, which are in order, without a copy. Between two of
        them is the text between both, which may be empty.
        """
        return self._as_array(np.column_stack([self.offsets[at], self.offsets[at + 1]]).ravel())

    def _as_array(self, offsets: _Numbers) -> pa.Array:
        """Return the texts from each offset to the next one."""
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.source.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)

    def without(self, at: _Numbers, ids: _Numbers) -> OwnLines:
        """Return the file without the lines at these positions, which start with these ids."""
        stays = np.ones(len(self.offsets) - 1, dtype=bool)
        stays[at] = False
        is_first, is_last = np.diff(stays, prepend=False), np.diff(stays, append=False)
        begins = self.offsets[:-1][is_first & stays].tolist()
        ends = self.offsets[1:][is_last & stays].tolist()
        view = memoryview(self.source.data)
        data = b"".join(view[begin:end] for begin, end in zip(begins, ends, strict=True))
        return OwnLines(replace(self.source, data=data), np.flatnonzero(stays) + 1, ids)


def _keep_unique(ids: _Numbers, at: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return the ids that occur once, in order, and their positions."""
    if (ids[1:] > ids[:-1]).all():
        return ids, at
    known, first, counts = np.unique(ids, return_index=True, return_counts=True)
    return known[counts == 1], at[first[counts == 1]]


def _find_starts(data: bytes) -> _Numbers:
    """Return where lines begin: at 0, and after each line feed."""
    return np.concatenate([np.zeros(1, np.int64), _find(data, "\n") + 1])


def _find(data: bytes, mark: str) -> _Numbers:
    """Return the places of a character."""
    places = [np.empty(0, np.int64)]
    is_mark = np.empty(min(_BLOCK, len(data)), dtype=bool)
    for start in range(0, len(data), _BLOCK):
        block = np.frombuffer(data, np.uint8, min(_BLOCK, len(data) - start), start)
        found = np.equal(block, ord(mark), out=is_mark[: len(block)])
        places.append(np.flatnonzero(found) + start)
    return np.concatenate(places)


def _are_records(data: bytes, offsets: _Numbers) -> bool:
    """Return true if every line, which begins at one of the offsets, has an even number of quotes
    and ends in a line feed.
    """
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return False
    if b'"' not in data:
        return True
    lines = np.searchsorted(offsets, _find(data, '"'), side="right")
    return not (np.bincount(lines, minlength=1) % 2).any()


def _parse_digits(words: np.ndarray[Any, np.dtype[np.uint64]]) -> tuple[_Numbers, _Numbers]:
    """Return the number that each word of eight characters starts with, and how many digits it
    has. The first character is in the lowest byte.
    """
    digits = words ^ np.uint64(0x3030303030303030)
    others = ((digits + np.uint64(0x0606060606060606)) | digits) & np.uint64(0xF0F0F0F0F0F0F0F0)
    first = others & (~others + np.uint64(1))
    count = np.bitwise_count(first - np.uint64(1)) >> 3
    # Leading zeros take the place of the other characters; then neighbours become one number.
    digits <<= (8 - count.astype(np.uint64)) * np.uint64(8)
    digits = (digits & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561) >> np.uint64(8)
    digits = (digits & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
    digits = (digits & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001) >> np.uint64(32)
    return digits.astype(np.int64), count.astype(np.int64)
