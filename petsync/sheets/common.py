"""Leave out the lines that two CSV files have in common, before both are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from petsync.sheets.files import Source

__all__ = ["Lines", "OwnLines", "leave_out_common_lines"]


_HEAD = 32
"""The first lines, which may have the header, are never left out."""
_MAX_DIGITS = 18
_IS_DELIMITER = np.isin(np.arange(256), (*b",;\t",))
_WORD = np.dtype("<u8")
_POWERS = 10 ** np.arange(9, dtype=np.int64)
_BLOCK = 1 << 20
"""The bytes that are searched at once: they stay in the processor's cache."""
_RUNS = (256, 16, 1)
"""How many lines are compared at once: fewer of them where one differs."""

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Mask = np.ndarray[Any, np.dtype[np.bool_]]


_NO_LINES = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, bool)
"""The first line, which begins at 0 and is never left out."""


class OwnLines(NamedTuple):
    """A file without the lines that the other file has too."""

    source: Source
    numbers: _Numbers
    """The number in the file of each remaining line."""
    left_out: _Numbers
    """The ids at the start of the lines that are left out, each of them once in either file."""


def leave_out_common_lines(a: Lines, b: Lines) -> tuple[OwnLines, OwnLines]:
    """Return both files without the lines that start with an id and are the same in both.

    A line stays if its id is at the start of another line of its file, too.
    """
    ids, at_a, at_b = _pair(a, b)
    is_same = _find_same(a, b, at_a, at_b)
    ids = ids[is_same]
    return a.without(at_a[is_same], ids), b.without(at_b[is_same], ids)


def _pair(a: Lines, b: Lines) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return the ids that both files have, in the order of A's lines, and the positions of their
    lines.
    """
    # The ids of each file are sorted.
    places = np.searchsorted(a.ids, b.ids)
    is_common = places < len(a.ids)
    is_common[is_common] = a.ids[places[is_common]] == b.ids[is_common]
    ids, at_a, at_b = b.ids[is_common], a.at[places[is_common]], b.at[is_common]
    if (at_a[1:] > at_a[:-1]).all():
        return ids, at_a, at_b
    order = np.argsort(at_a)
    return ids[order], at_a[order], at_b[order]


def _find_same(a: Lines, b: Lines, at_a: _Numbers, at_b: _Numbers) -> _Mask:
    """Return a mask of the pairs of lines that are the same. Lines that follow each other in both
    files are compared together first.
    """
    sizes = np.diff(a.offsets)[at_a], np.diff(b.offsets)[at_b]
    is_same: _Mask = sizes[0] == sizes[1]
    pairs = np.flatnonzero(is_same)
    for size in _RUNS:
        begins = np.ones(len(pairs), dtype=bool)
        begins[1:] = (np.diff(at_a[pairs]) != 1) | (np.diff(at_b[pairs]) != 1)
        begins[::size] = True
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts, len(pairs))[1:]
        runs_a = _bytes_between(a, at_a[pairs[firsts]], at_a[pairs[ends - 1]])
        begins_b = b.offsets[at_b[pairs[firsts]]].tolist()
        are_same = map(b.source.data.startswith, runs_a, begins_b)
        differ = ~np.fromiter(are_same, bool, len(firsts))
        pairs = pairs[np.repeat(differ, ends - firsts)]
    is_same[pairs] = False
    return is_same


def _bytes_between(lines: Lines, firsts: _Numbers, lasts: _Numbers) -> Iterator[bytes]:
    """Yield the bytes from each of the first lines up to the end of each of the last ones."""
    data, offsets = lines.source.data, lines.offsets
    bounds = zip(offsets[firsts].tolist(), offsets[lasts + 1].tolist(), strict=True)
    return (data[begin:end] for begin, end in bounds)


class Lines:
    """The lines of a text file, with their ends."""

    def __init__(self, source: Source) -> None:
        self.source = source
        data = source.data
        self._bytes = np.frombuffer(data, np.uint8)
        self._has_returns = self._has_quotes = False
        # Each block is read from memory once, for all that is needed of it.
        blocks = [self._scan(data, start) for start in range(0, len(data), _BLOCK)]
        starts, ids, are_ids = map(np.concatenate, zip(_NO_LINES, *blocks, strict=True))
        is_ended = len(starts) > 1 and starts[-1] == len(data)
        self.offsets: _Numbers = starts if is_ended else np.append(starts, len(data))
        """Where each line begins, and the end of the last one."""
        at = np.flatnonzero(are_ids)
        self.ids, self.at = _keep_unique(ids[at[at >= _HEAD]], at[at >= _HEAD])
        """The ids at the start of lines, in order and each only once in the file, and the positions
        of these lines. An id in the last bytes of the file may be missing.
        """

    @classmethod
    def of(cls, source: Source) -> Lines | None:
        """Return the lines of a file; None if a record has several lines, so that a line need not
        be a record, and for a file that is no text.
        """
        if source.kind != "text":
            return None
        lines = cls(source)
        return lines if lines._are_records() else None

    def _are_records(self) -> bool:
        """Return true if every line has an even number of quotes, and ends in a line feed."""
        if self._has_returns:
            returns = _find(self._bytes, b"\r") + 1
            if (returns >= len(self._bytes)).any() or (self._bytes[returns] != ord("\n")).any():
                return False
        if not self._has_quotes:
            return True
        quotes = _find(self._bytes, b'"')
        lines = np.searchsorted(self.offsets, quotes, side="right") - 1
        return not (np.bincount(lines, minlength=1) % 2).any()

    def _scan(self, data: bytes, start: int) -> tuple[_Numbers, _Numbers, _Mask]:
        """Return where lines begin after the line feeds of a block; and of each of these lines, the
        number at its start, and whether that is an id.
        """
        stop = start + _BLOCK
        self._has_returns = self._has_returns or data.find(b"\r", start, stop) >= 0
        self._has_quotes = self._has_quotes or data.find(b'"', start, stop) >= 0
        starts = np.flatnonzero(self._bytes[start:stop] == ord("\n")) + (start + 1)
        ids, digits = self._read_digits(starts)
        ends = np.minimum(starts + digits, len(data) - 1)
        are_ids = (digits > 0) & (digits <= _MAX_DIGITS) & _IS_DELIMITER[self._bytes[ends]]
        return starts, ids, are_ids

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

    def without(self, at: _Numbers, ids: _Numbers) -> OwnLines:
        """Return the file without the lines at these positions, which start with these ids."""
        stays = np.ones(len(self.offsets) - 1, dtype=bool)
        stays[at] = False
        is_first, is_last = np.diff(stays, prepend=False), np.diff(stays, append=False)
        data = b"".join(
            _bytes_between(self, np.flatnonzero(is_first & stays), np.flatnonzero(is_last & stays))
        )
        return OwnLines(replace(self.source, data=data), np.flatnonzero(stays) + 1, ids)


def _keep_unique(ids: _Numbers, at: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return the ids that occur once, in order, and their positions."""
    if (ids[1:] > ids[:-1]).all():
        return ids, at
    known, first, counts = np.unique(ids, return_index=True, return_counts=True)
    return known[counts == 1], at[first[counts == 1]]


def _find(data: _Bytes, mark: bytes) -> _Numbers:
    """Return the places of a character."""
    code = ord(mark)
    blocks = range(0, len(data), _BLOCK)
    return np.concatenate(
        [
            np.empty(0, np.int64),
            *(np.flatnonzero(data[start : start + _BLOCK] == code) + start for start in blocks),
        ]
    )


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
