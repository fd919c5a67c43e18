"""A block of CSV taken apart at once, where its quotes leave no doubt.

Arrow takes cells apart many times as fast as `csv`, and lets pass what `csv` refuses. So a block is
handed to it only if every quote opens a cell, closes one or is doubled, which a look at the bytes
beside the quotes tells; then there is one way to read it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

__all__ = ["LONGEST", "SIZE", "Block", "Mark", "take_apart"]

SIZE = 1 << 20
"""The bytes that are taken apart together."""
LONGEST = 131_072
"""The most characters of a cell, which is the limit of `csv`."""

_QUOTE, _LF, _CR = b'"\n\r'
_BOM = b"\xef\xbb\xbf"
_Positions = np.ndarray[Any, np.dtype[np.intp]]


class Mark(NamedTuple):
    """A place in a file between two records: the byte (from 0) and the line (from 1)."""

    byte: int
    line: int


class Block(NamedTuple):
    """Records without the blank lines: a large_string array for each column, the line at which
    each record starts, and the place behind the last one.
    """

    columns: list[Any]
    lines: np.ndarray[Any, np.dtype[np.int64]]
    after: Mark


def take_apart(
    data: bytes, start: Mark, delimiter: str, width: int, *, size: int = SIZE
) -> Block | None:
    """The whole records, each of `width` cells, of the next `size` bytes, which are valid UTF-8.

    None where that needs more care: there is a doubtful quote, a record of another width, or one
    that is longer than the block or so long that a cell may be over the limit.
    """
    stop = min(start.byte + size, len(data))
    raw = np.frombuffer(data, np.uint8)[start.byte : stop]
    breaks = _breaks(data, start.byte, stop)
    quotes = np.flatnonzero(raw == _QUOTE)
    ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0] if len(quotes) else breaks
    size = len(raw) if stop == len(data) else int(ends[-1]) + 1 if len(ends) else 0
    quotes = quotes[: np.searchsorted(quotes, size)]
    if not size or not _is_plain(raw[:size], quotes, ord(delimiter)):
        return None
    begins = np.concatenate(([0], ends + 1))
    if np.diff(begins, append=size).max() > LONGEST:
        return None
    begins = begins[begins < size]
    begins = begins[(raw[begins] != _LF) & (raw[begins] != _CR)]
    columns = _columns(data, start.byte, size, delimiter, width)
    if columns is None or len(columns[0]) != len(begins):
        return None
    lines = start.line + np.searchsorted(breaks, begins)
    line = start.line + int(np.searchsorted(breaks, size))
    return Block(columns, lines.astype(np.int64), Mark(start.byte + size, line))


def _breaks(data: bytes, start: int, stop: int) -> _Positions:
    """The last byte of each line break: LF, or CR without LF behind it."""
    raw = np.frombuffer(data, np.uint8)
    feeds = np.flatnonzero(raw[start:stop] == _LF)
    if data.find(b"\r", start, stop) < 0:
        return feeds
    returns = np.flatnonzero(raw[start:stop] == _CR)
    behind = np.minimum(returns + start + 1, len(raw) - 1)
    return np.union1d(feeds, returns[raw[behind] != _LF])


def _is_plain(raw: np.ndarray[Any, Any], quotes: _Positions, delimiter: int) -> bool:
    """Whether every first quote of two opens a cell and every second one closes it; a doubled
    quote closes the cell and opens it again.
    """
    if len(quotes) % 2:
        return False
    edges = (delimiter, _LF, _CR)
    opening, closing = quotes[::2], quotes[1::2]
    doubled = opening[1:] == closing[:-1] + 1
    before = np.isin(raw[opening - 1], edges)
    before[1:] |= doubled
    before[:1] |= opening[:1] == 0
    behind = np.isin(raw[np.minimum(closing + 1, len(raw) - 1)], edges)
    behind[:-1] |= doubled
    behind[-1:] |= closing[-1:] + 1 == len(raw)
    return bool(before.all() and behind.all())


def _columns(data: bytes, start: int, size: int, delimiter: str, width: int) -> list[Any] | None:
    if data.startswith(_BOM, start):
        # Arrow would take it away; here it is the first cell's text.
        return None
    names = [str(n) for n in range(width)]
    text = pa.large_string()
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(data).slice(start, size)),
            arrow_csv.ReadOptions(use_threads=False, block_size=size + 1, column_names=names),
            arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(check_utf8=False, column_types=dict.fromkeys(names, text)),
        )
    except pa.ArrowInvalid:
        return None
    return [column.combine_chunks() for column in table.itercolumns()]
