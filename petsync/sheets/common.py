"""Leave out the lines that two CSV files have in common, before both are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import cached_property
from io import BufferedReader
from itertools import chain, pairwise, repeat
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.plan.match import find_positions
from petsync.sheets.csv import is_utf8
from petsync.sheets.files import changed_error, open_regular

__all__ = ["Lines", "OwnLines", "leave_out_common_lines", "read_lines"]


_HEAD = 32
"""The first lines, which may have the header, are never left out."""
_MAX_DIGITS = 18
_IS_DELIMITER = np.isin(np.arange(256), (*b",;\t",))
_WORD = np.dtype("<u8")
_POWERS = 10 ** np.arange(9, dtype=np.int64)
_BLOCK = 1 << 21
"""The bytes that are read at once; no line may be longer."""
_PADDING = 3 * _WORD.itemsize
"""The bytes after a block, so that the start of its last line can be read as words."""

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Mask = np.ndarray[Any, np.dtype[np.bool_]]


class OwnLines(NamedTuple):
    """A file without the lines that the other file has too."""

    data: bytes
    numbers: _Numbers
    """The number in the file of each remaining line."""
    left_out: _Numbers
    """The ids at the start of the lines that are left out, each of them once in either file."""


def leave_out_common_lines(paths: Sequence[Path], pool: Executor) -> list[OwnLines] | None:
    """Return two CSV files without the lines that start with an id and are the same in both. They
    are read in blocks, so that neither of them is in memory as a whole.

    Returns None if a record may have several lines, so that a line need not be a record, if a line
    is very long, and if the text is not UTF-8. A line stays if its id is at the start of another
    line of its file, too. Raises SheetError if a file cannot be read, or changes meanwhile.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(open_regular(path)) for path in paths]
        before = [_version(file) for file in files]
        a, b = pool.map(read_lines, files)
        if a is None or b is None:
            return None
        ids, at_a, at_b = _pair(a, b)
        same = np.flatnonzero(_find_same(a, b, at_a, at_b, pool))
        own = [*pool.map(Lines.without, (a, b), (at_a[same], at_b[same]), repeat(ids[same]))]
        for path, file, version in zip(paths, files, before, strict=True):
            if _version(file) != version:
                raise changed_error(path)
        return own


def _version(file: BufferedReader) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _pair(a: Lines, b: Lines) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return the ids that both files have, in the order of A's lines, and the positions of their
    lines.
    """
    places = find_positions(b.ids, a.ids)
    is_common = places >= 0
    ids, at_a, at_b = b.ids[is_common], a.at[places[is_common]], b.at[is_common]
    if _is_increasing(at_a):
        return ids, at_a, at_b
    order = np.argsort(at_a)
    return ids[order], at_a[order], at_b[order]


def _find_same(a: Lines, b: Lines, at_a: _Numbers, at_b: _Numbers, pool: Executor) -> _Mask:
    """Return a mask of the pairs of lines that are the same. The lines of A are in order."""
    is_ordered = _is_increasing(at_b)
    compare = _compare_ordered if is_ordered else _compare
    # The lines of a part begin in the same block.
    bounds = {0, len(at_a), *a.find_bounds(at_a)}
    if is_ordered:
        bounds.update(b.find_bounds(at_b))
    parts = [slice(*each) for each in pairwise(sorted(bounds))]

    def compare_all(parts: Sequence[slice]) -> list[_Mask]:
        blocks = _new_buffer(), _new_buffer()
        return [compare(a, b, at_a[part], at_b[part], *blocks) for part in parts]

    # Two threads compare, unless they would both read the whole of B.
    half = len(parts) // 2 if is_ordered else 0
    masks = chain(*pool.map(compare_all, (parts[:half], parts[half:])))
    return np.concatenate([np.empty(0, dtype=bool), *masks])


def _new_buffer() -> bytearray:
    """Return a buffer for the lines that begin in the same block."""
    return bytearray(2 * _BLOCK)


def _compare_ordered(
    a: Lines, b: Lines, at_a: _Numbers, at_b: _Numbers, block_a: bytearray, block_b: bytearray
) -> _Mask:
    # A copy of the lines only would take longer than to compare the text between them.
    return _are_equal(a.with_gaps(at_a, block_a), b.with_gaps(at_b, block_b))[::2]


def _compare(
    a: Lines, b: Lines, at_a: _Numbers, at_b: _Numbers, block_a: bytearray, _: bytearray
) -> _Mask:
    lines = a.with_gaps(at_a, block_a).take(pa.array(np.arange(0, 2 * len(at_a), 2)))
    return _are_equal(lines, b.whole.take(pa.array(at_b)))


def _are_equal(one: pa.Array, two: pa.Array) -> _Mask:
    mask: _Mask = pc.equal(one, two).to_numpy(zero_copy_only=False)
    return mask


def _is_increasing(numbers: _Numbers) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


class Lines:
    """The lines of a text file; their texts stay in the file."""

    def __init__(
        self, file: BufferedReader, offsets: _Numbers, ids: _Numbers, at: _Numbers
    ) -> None:
        self._file, self._lock = file, Lock()
        self.offsets = offsets
        """Where each line begins, and the end of the last one."""
        start = np.searchsorted(at, _HEAD)
        self.ids, self.at = _keep_unique(ids[start:], at[start:])
        """The ids at the start of lines, in order and each only once in the file, and the positions
        of these lines.
        """

    def find_bounds(self, at: _Numbers) -> list[int]:
        """Return where, in the increasing positions `at`, the lines of the next block begin."""
        starts = np.searchsorted(self.offsets, np.arange(_BLOCK, self.offsets[-1], _BLOCK))
        bounds: list[int] = np.searchsorted(at, starts).tolist()
        return bounds

    @cached_property
    def whole(self) -> pa.Array:
        """All lines, in memory."""
        texts = bytearray(int(self.offsets[-1]))
        self._file.seek(0)
        self._file.readinto(texts)
        return _texts_between(self.offsets, texts)

    def with_gaps(self, at: _Numbers, buffer: bytearray) -> pa.Array:
        """Return the lines at these positions, which are in order and begin in one block. Between
        two of them is the text between both, which may be empty. The texts are in the buffer.
        """
        bounds = np.column_stack([self.offsets[at], self.offsets[at + 1]]).ravel()
        return _texts_between(bounds - bounds[0], self._read(bounds[0], bounds[-1], buffer))

    def without(self, at: _Numbers, ids: _Numbers) -> OwnLines:
        """Return the file without the lines at these positions, which start with these ids."""
        stays = np.ones(len(self.offsets) - 1, dtype=bool)
        stays[at] = False
        numbers = np.flatnonzero(stays)
        buffer, bounds = _new_buffer(), self.find_bounds(numbers)
        parts = [self._text_of(part, buffer) for part in np.split(numbers, bounds) if len(part)]
        return OwnLines(b"".join(parts), numbers + 1, ids)

    def _text_of(self, at: _Numbers, buffer: bytearray) -> bytes:
        """Return the lines at these positions, which are in order and begin in one block."""
        is_first = np.diff(at, prepend=-2) != 1
        begins, ends = self.offsets[at[is_first]], self.offsets[at[np.roll(is_first, -1)] + 1]
        texts = self._read(begins[0], ends[-1], buffer)
        bounds = zip((begins - begins[0]).tolist(), (ends - begins[0]).tolist(), strict=True)
        return b"".join(texts[begin:end] for begin, end in bounds)

    def _read(self, begin: np.int64, end: np.int64, buffer: bytearray) -> memoryview:
        texts = memoryview(buffer)[: end - begin]
        with self._lock:
            self._file.seek(int(begin))
            self._file.readinto(texts)
        return texts


def _texts_between(bounds: _Numbers, texts: bytearray | memoryview) -> pa.Array:
    """Return the texts from each of the places to the next one, without a copy."""
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def read_lines(file: BufferedReader) -> Lines | None:
    """Return the lines of a file; None if one is longer than a block, or need not be a record."""
    block = _Block()
    offsets, ids, are_ids = [np.zeros(1, np.int64)], [np.empty(0, np.int64)], [np.empty(0, bool)]
    begin = 0
    while block.fill(file):
        ends = block.find_ends()
        if not len(ends) or not block.are_records(ends):
            return None
        numbers, is_id = block.read_ids(ends)
        offsets.append(ends + begin)
        ids.append(numbers if is_id.all() else numbers[is_id])
        are_ids.append(is_id)
        begin += int(ends[-1])
        block.drop(int(ends[-1]))
    at = np.flatnonzero(np.concatenate(are_ids))
    return Lines(file, np.concatenate(offsets), np.concatenate(ids), at)


class _Block:
    """Some lines of a file, and the start of the line that follows them."""

    def __init__(self) -> None:
        self._data = bytearray(_BLOCK + _PADDING)
        self._bytes = np.frombuffer(self._data, np.uint8)
        self._is_mark = np.empty(_BLOCK, dtype=bool)
        # Eight characters from each byte on, as one number.
        self._words = np.ndarray(len(self._data) - 7, _WORD, self._data, strides=(1,))
        self._size = 0
        self._is_last = False

    def fill(self, file: BufferedReader) -> bool:
        """Read more of the file, and return false if no text is left."""
        added = file.readinto(memoryview(self._data)[self._size : _BLOCK])
        self._size += added
        self._is_last = self._size < _BLOCK
        # No digit follows the last line.
        self._data[self._size] = 0
        return self._size > 0

    def drop(self, size: int) -> None:
        """Remove this number of bytes from the start."""
        self._data[: self._size - size] = self._data[size : self._size]
        self._size -= size

    def find_ends(self) -> _Numbers:
        """Return where lines end: after each line feed, and at the end of the file."""
        ends = self._find("\n", self._size) + 1
        if self._is_last and (not len(ends) or ends[-1] < self._size):
            return np.append(ends, self._size)
        return ends

    def _find(self, mark: str, size: int) -> _Numbers:
        """Return the places of a character in the first bytes."""
        found = np.equal(self._bytes[:size], ord(mark), out=self._is_mark[:size])
        return np.flatnonzero(found)

    def are_records(self, ends: _Numbers) -> bool:
        """Return true if each of the lines, which have these ends, has an even number of quotes,
        and no carriage return within it, and if all of them are UTF-8.
        """
        bounds = 0, int(ends[-1])
        if not is_utf8(self._data, bounds[1]):
            return False
        returns = self._data.find(b"\r", *bounds) >= 0
        if returns and self._data.count(b"\r", *bounds) != self._data.count(b"\r\n", *bounds):
            return False
        if self._data.find(b'"', *bounds) < 0:
            return True
        lines = np.searchsorted(ends, self._find('"', bounds[1]), side="right")
        return not (np.bincount(lines) % 2).any()

    def read_ids(self, ends: _Numbers) -> tuple[_Numbers, _Mask]:
        """Return the number at the start of each line, and whether it is an id."""
        starts = np.append(0, ends[:-1])
        numbers, digits = _parse_digits(self._words[starts])
        for read in range(_WORD.itemsize, _MAX_DIGITS, _WORD.itemsize):
            at = np.flatnonzero(digits == read)
            more, count = _parse_digits(self._words[starts[at] + read])
            numbers[at] = numbers[at] * _POWERS[count] + more
            digits[at] += count
        is_delimited = _IS_DELIMITER[self._bytes[starts + digits]]
        return numbers, (digits > 0) & (digits <= _MAX_DIGITS) & is_delimited


def _keep_unique(ids: _Numbers, at: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return the ids that occur once, in order, and their positions."""
    if _is_increasing(ids):
        return ids, at
    known, first, counts = np.unique(ids, return_index=True, return_counts=True)
    return known[counts == 1], at[first[counts == 1]]


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
