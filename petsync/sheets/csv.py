"""Read CSV files, record by record or in blocks with Arrow, and edit single cells."""

from __future__ import annotations

import codecs
import csv
import csv as stdlib
import io
import itertools
import re
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from petsync._display import count
from petsync.errors import SheetError
from petsync.sheets.files import (
    AS_ENCODED,
    AS_UTF8,
    MAX_LINE,
    EncodingError,
    Source,
    check_lines,
    describe_byte,
    make_executor,
    read_blocks,
)
from petsync.sheets.grid import (
    MAX_CELL_LENGTHS,
    ROW_NUMBER,
    SHOWN_LENGTH,
    Bools,
    CellEdits,
    CellKind,
    Cells,
    Fault,
    Grid,
    Rows,
    TextBytes,
)
from petsync.sheets.headers import Mapper
from petsync.sheets.validate import text
from petsync.table.cells import BLANKS
from petsync.table.sheet import Sheet

__all__ = [
    "BLOCK_SIZE",
    "MAX_CELL_LENGTH",
    "Block",
    "Dialect",
    "Line",
    "Mark",
    "Record",
    "detect_dialect",
    "dialect_of",
    "edit_csv",
    "escape_formula",
    "first_record_offset",
    "is_ragged",
    "is_utf8",
    "iter_grids",
    "parse_block",
    "read_grid",
    "record_lines",
    "records",
    "trim_header",
    "unescape_formula",
]


# Blocks of CSV that Arrow parses.
#
# Arrow is many times as fast as `csv`, but accepts text that `csv` refuses. Arrow parses a block
# only if the bytes beside each quote show that it opens a cell, closes a cell or is doubled: then
# there is only one way to read the block.


BLOCK_SIZE = 1 << 22
"""The size of a block, in bytes."""
MAX_CELL_LENGTH = MAX_CELL_LENGTHS["text"]
"""The maximum number of characters of a cell: the default limit of `csv`."""

_QUOTE, _LF, _CR = b'"\n\r'
_BOM = b"\xef\xbb\xbf"
_Positions = np.ndarray[Any, np.dtype[np.intp]]


class Mark(NamedTuple):
    """A place in a file between two records: the byte (from 0) and the line (from 1)."""

    byte: int
    line: int


class Block(NamedTuple):
    """Records without the blank lines: a large_string array for each column, the line at which each
    record starts, the byte at which it starts and that after its last one, including its line end;
    and the places before and after the block.
    """

    columns: list[Any]
    lines: np.ndarray[Any, np.dtype[np.int64]]
    starts: _Positions
    stops: _Positions
    start: Mark
    after: Mark


def parse_block(
    data: bytes, start: Mark, delimiter: str, width: int, *, size: int = BLOCK_SIZE
) -> Block | None:
    """Return the complete records in the next `size` bytes of `data`, which must be valid UTF-8.

    Return None if the records must be read one by one: for example, a quote is ambiguous, a record
    does not have `width` cells or is longer than the block, or a cell may be too long.
    """
    extent = _find_extent(data, start, delimiter, size)
    return None if extent is None else _parse_extent(data, extent, delimiter, width)


class _Extent(NamedTuple):
    """Records that are not parsed yet: all places of a `Block`."""

    lines: np.ndarray[Any, np.dtype[np.int64]]
    starts: _Positions
    stops: _Positions
    start: Mark
    after: Mark


def _find_extent(data: bytes, start: Mark, delimiter: str, size: int) -> _Extent | None:
    """Return where the records of the next block are; None if Arrow may not parse them."""
    stop = min(start.byte + size, len(data))
    raw = np.frombuffer(data, np.uint8)[start.byte : stop]
    breaks = _find_line_breaks(data, start.byte, stop)
    quotes = np.flatnonzero(raw == _QUOTE)
    ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0] if len(quotes) else breaks
    size = len(raw) if stop == len(data) else int(ends[-1]) + 1 if len(ends) else 0
    quotes = quotes[: np.searchsorted(quotes, size)]
    if not size or not _are_quotes_plain(raw[:size], quotes, ord(delimiter)):
        return None
    starts = np.concatenate(([0], ends + 1))
    if np.diff(starts, append=size).max() > MAX_CELL_LENGTH:
        return None
    starts = starts[starts < size]
    starts = starts[(raw[starts] != _LF) & (raw[starts] != _CR)]
    lines = start.line + np.searchsorted(breaks, starts)
    line = start.line + int(np.searchsorted(breaks, size))
    stops = start.byte + np.append(ends + 1, size)[np.searchsorted(ends, starts)]
    after = Mark(start.byte + size, line)
    return _Extent(lines.astype(np.int64), start.byte + starts, stops, start, after)


def _parse_extent(data: bytes, extent: _Extent, delimiter: str, width: int) -> Block | None:
    start, after = extent.start.byte, extent.after.byte
    columns = _parse_columns(data, start, after - start, delimiter, width)
    if columns is None or len(columns[0]) != len(extent.lines):
        return None
    return Block(columns, *extent)


def _find_line_breaks(data: bytes, start: int, stop: int) -> _Positions:
    """Return the offset from `start` of the last byte of each line break: LF, or CR without LF
    after it.
    """
    raw = np.frombuffer(data, np.uint8)
    feeds = np.flatnonzero(raw[start:stop] == _LF)
    if data.find(_CR, start, stop) < 0:
        return feeds
    is_return = raw[start:stop] == _CR
    pairs = np.count_nonzero(is_return[feeds[feeds > 0] - 1])
    if pairs == np.count_nonzero(is_return):
        return feeds
    returns = np.flatnonzero(is_return)
    behind = np.minimum(returns + start + 1, len(raw) - 1)
    return np.union1d(feeds, returns[raw[behind] != _LF])


def _are_quotes_plain(raw: np.ndarray[Any, Any], quotes: _Positions, delimiter: int) -> bool:
    """Return true if the quotes open and close a cell in turn; a doubled quote closes the cell and
    opens it again.
    """
    if len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    doubled = opening[1:] == closing[:-1] + 1
    is_edge = np.zeros(256, dtype=bool)
    is_edge[[delimiter, _LF, _CR]] = True
    before = is_edge[raw[opening - 1]]
    before[1:] |= doubled
    before[:1] |= opening[:1] == 0
    behind = is_edge[raw[np.minimum(closing + 1, len(raw) - 1)]]
    behind[:-1] |= doubled
    behind[-1:] |= closing[-1:] + 1 == len(raw)
    return bool(before.all() and behind.all())


def _parse_columns(
    data: bytes, start: int, size: int, delimiter: str, width: int
) -> list[Any] | None:
    if data.startswith(_BOM, start):
        # Arrow would drop a byte order mark here, but it is part of the first cell's text.
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
    # A block is one chunk, unless it has no records.
    return [
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for column in table.itercolumns()
    ]


# Reading CSV: detect the delimiter, decode strictly, and number each record by its first line.


MAX_COLUMNS = 1 << 14
_DELIMITERS = (",", ";", "\t", "|")
_HEAD_SIZE = 1 << 16
_SEPARATOR_LINE = re.compile(rb"(?:\xef\xbb\xbf)?sep=([,;\t|])\r?\n", re.IGNORECASE)
# Characters that programs read as = + - @, such as full-width and superscript ones and the minus
# sign.
_SIGNS = (
    r"=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
    r"\u2212\u207a-\u207c\u208a-\u208c\ufb29"
)
# Characters that programs skip before a sign, or at which they split a cell: blanks, separators,
# control characters and invisible characters.
_SKIPPED_BEFORE_SIGN = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U000e0000-\U000e0fff,;|\uff0c\uff1b\uff5c"
)
# A text that begins with a line feed is escaped, too, because LibreOffice turns a CR into one.
_MISREAD = (
    rf"(?:[{_SKIPPED_BEFORE_SIGN}]*[{_SIGNS}]|[\t\r\n]|#[A-Z#¡¿]|Err:"
    rf"|[{re.escape(BLANKS)}]+\"|[^\0]*\0)"
)
_DANGEROUS = re.compile(f"'*{_MISREAD}")
_GUARDED = re.compile(f"'+{_MISREAD}")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The format of a CSV file: its delimiter, and the number of `sep=` lines before the data."""

    delimiter: str
    skipped: int = 0


class Record(NamedTuple):
    """One record: the line it starts at, its cells (None if it cannot be parsed), and the place
    after it.
    """

    line: int
    cells: list[str] | None
    after: Mark


def escape_formula(text: str) -> str:
    """Return the text, with an apostrophe before it if a spreadsheet program may read it as a
    formula or an error, or may change it. `unescape_formula` removes the apostrophe.

    If such a text already begins with apostrophes, it gets another one, so that these are kept.
    """
    return f"'{text}" if _DANGEROUS.match(text) else text


def read_grid(source: Source, mapper: Mapper, *, size: int = BLOCK_SIZE) -> Grid:
    """Return the file's grid, read `size` bytes at a time, or record by record if `size` is 0.

    The grid is the same for every size. Raises SheetError if the file is not valid CSV in UTF-8, or
    has no known header.
    """
    dialect = detect_dialect(source, mapper)
    if not is_utf8(source.data, len(source.data)):
        raise _not_utf8_error(source)
    head = _find_header(source, dialect, mapper, len(source.data))
    grid, _ = _read_rows(source, dialect, head, head.after, size, len(source.data))
    return grid


def iter_grids(
    path: Path, encoding: str | None, mapper: Mapper, *, size: int = MAX_LINE
) -> Iterator[Grid]:
    """Yield the rows of `read_grid` in consecutive grids, at least one. The file is read `size`
    bytes at a time, and may be larger than memory.

    Raises the errors of `load` and `read_grid`, and SheetError if a record has more than `size`
    bytes.
    """
    blocks = read_blocks(path, encoding, size)
    data, following = next(blocks), next(blocks, None)
    while following is not None and len(data) < 2 * size:
        data, following = data + following, next(blocks, None)
    source, at, head = Source(path, "text", data), Mark(0, 1), None
    dialect = detect_dialect(source, mapper)
    while True:
        check_lines(path, source.data, at.line)
        # A record that begins before this byte ends in the data, or is too long.
        end = len(source.data) - (0 if following is None else size)
        if head is None:
            head = _find_header(source, dialect, mapper, end)
            at = head.after
        grid, at = _read_rows(source, dialect, head, at, BLOCK_SIZE, end)
        yield grid
        if following is None:
            return
        # The byte before the record stays, because only a file begins with a byte order mark.
        source = Source(path, "text", source.data[at.byte - 1 :] + following)
        at, following = Mark(1, at.line), next(blocks, None)


def _find_header(source: Source, dialect: Dialect, mapper: Mapper, end: int) -> Record:
    """Return the header among the first records that begin before the byte `end`. Raises SheetError
    if none is known.
    """
    head = itertools.islice(_records_until(records(source, dialect), end), 20)
    first = [_check_width(source, record) for record in head]
    rows = [record.cells or [] for record in first]
    at = mapper.header_row(rows)
    if at is None:
        raise mapper.unusable_error(rows, numbers=[record.line for record in first])
    return first[at]


def _read_rows(
    source: Source, dialect: Dialect, head: Record, at: Mark, size: int, end: int
) -> tuple[Grid, Mark]:
    """Return the grid of the records from `at` to the byte `end`, and the place after them."""
    cells = head.cells or []
    header = trim_header(cells)
    body = _Body(len(header), dialect.delimiter, at.byte, end)
    at = _read_body(body, source, dialect, len(cells), at, size, end)
    return body.grid(header, head.line).without_blank_rows(), at


def detect_dialect(source: Source, mapper: Mapper) -> Dialect:
    """Return the dialect with the delimiter in the `sep=` line; without this line, with the
    delimiter for which a row names the most columns of petsync.
    """
    data = source.data
    named = _SEPARATOR_LINE.match(data)
    if named:
        return Dialect(named[1].decode(), 1)
    head = data[:_HEAD_SIZE].decode("utf-8-sig", "replace")
    return Dialect(max(_DELIMITERS, key=lambda mark: _score_delimiter(head, mark, mapper)))


def records(source: Source, dialect: Dialect, start: Mark | None = None) -> Iterator[Record]:
    """Yield each record of the file, or of its part after `start`, including blank lines.

    Raises SheetError if a quote is never closed, a cell is longer than MAX_LINE or a byte is not
    UTF-8.
    """
    lines = _Lines(source.data, start or Mark(0, 1))
    for _ in range(0 if start else dialect.skipped):
        next(lines)
    reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
    line = lines.line
    while True:
        try:
            while True:
                cells = _read_record(reader)
                yield Record(line, cells, Mark(lines.byte, lines.line))
                line = lines.line
        except StopIteration:
            return
        except csv.Error as error:
            if "expected after" not in str(error):
                raise _unclosed_quote_error(source, line) from None
            yield Record(line, None, Mark(lines.byte, lines.line))
            line = lines.line
        except UnicodeDecodeError:
            raise _not_utf8_error(source) from None


def _read_record(reader: Iterator[list[str]]) -> list[str]:
    """Return the next record, even with a cell that is too long: such a cell is a finding, and the
    rest of the file can be read.
    """
    # The limit belongs to the process: another thread must not restore it meanwhile.
    with _LIMIT:
        before = csv.field_size_limit(MAX_LINE)
        try:
            return next(reader)
        finally:
            csv.field_size_limit(before)


_LIMIT = threading.Lock()


class _Lines:
    """The lines of a file with their line ends; `byte` and `line` are the place after the last line
    that was read.
    """

    def __init__(self, data: bytes, start: Mark) -> None:
        self.byte, self.line = start
        if self.byte == 0 and data.startswith(codecs.BOM_UTF8):
            self.byte = len(codecs.BOM_UTF8)
        stream = io.BytesIO(data)
        stream.seek(self.byte)
        self._text = io.TextIOWrapper(stream, "utf-8", "strict", newline="")

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        text = next(self._text)
        self.byte += len(text.encode())
        self.line += 1
        return text


_BLOCKS_AHEAD = 2
"""The number of blocks that a second thread parses while the ones before are collected."""


def _read_body(
    body: _Body, source: Source, dialect: Dialect, width: int, at: Mark, size: int, end: int
) -> Mark:
    """Add the records that begin from `at` to the byte `end`: block by block, or one by one where
    no block can be added. Return the place after them.
    """
    data, delimiter = source.data, dialect.delimiter
    ahead: deque[Future[Block | None]] = deque()
    searched = at
    with make_executor(1, end - at.byte) as helper:
        while at.byte < end:
            while len(ahead) < _BLOCKS_AHEAD and searched.byte < end:
                extent = _find_extent(data, searched, delimiter, min(size, end - searched.byte))
                if extent is None:
                    break
                ahead.append(helper.submit(_parse_extent, data, extent, delimiter, width))
                searched = extent.after
            block = ahead.popleft().result() if ahead else None
            if block is not None and body.add_block(block):
                at = block.after
                continue
            ahead.clear()
            stop = min(at.byte + size, end) if size else end
            chunk = list(_records_until(records(source, dialect, at), stop))
            body.add(chunk)
            at = searched = chunk[-1].after
    return at


_AnyRecord = TypeVar("_AnyRecord", "Record", "Line")


def _records_until(all_records: Iterable[_AnyRecord], stop: int) -> Iterator[_AnyRecord]:
    for record in all_records:
        yield record
        if record.after.byte >= stop:
            return


def _score_delimiter(head: str, delimiter: str, mapper: Mapper) -> tuple[int, int]:
    rows: list[list[str]] = []
    try:
        rows.extend(itertools.islice(csv.reader(io.StringIO(head, ""), delimiter=delimiter), 20))
    except csv.Error:
        rows = [line.split(delimiter) for line in head.splitlines()[:20]]
    return max((mapper.score(row) for row in rows), default=0), max(map(len, rows), default=0)


def trim_header(header: list[str]) -> list[str]:
    """Return the header without the blank cells at its end."""
    width = max(n for n, text in enumerate(header, 1) if text.strip())
    return header[:width]


def is_ragged(cells: Sequence[str], width: int) -> bool:
    """Return true if a row has fewer cells than its header, or text in a cell beyond the header."""
    return len(cells) < width or any(cell.strip() for cell in cells[width:])


_SPARE_SHARE = 1.02
"""The capacity of a growing array, as a multiple of its estimated final size."""


class _GrowingArray:
    """An array that gets its values part by part. Each part is copied only once if the final size
    is estimated well.
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self._memory: np.ndarray[Any, Any] = np.empty(0, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, values: np.ndarray[Any, Any], share: float) -> np.ndarray[Any, Any]:
        """Append the values, and return them as a part of this array. `share` is the part of the
        input that has been read with them.
        """
        start, stop = self._size, self._size + len(values)
        if stop > len(self._memory):
            memory = np.empty(max(stop, int(stop / share * _SPARE_SHARE)), self._memory.dtype)
            memory[:start] = self._memory[:start]
            self._memory = memory
        part = self._memory[start:stop]
        part[:] = values
        self._size = stop
        return part

    def values(self) -> np.ndarray[Any, Any]:
        """Return all values, without copying them."""
        return self._memory[: self._size]


class _GrowingTexts:
    """A column of texts that gets its cells part by part."""

    def __init__(self) -> None:
        self._data, self._offsets = _GrowingArray(np.uint8), _GrowingArray(np.int64)
        self._offsets.extend(np.zeros(1, np.int64), 1)

    def extend(self, part: Any, share: float) -> None:
        """Append the cells of an Arrow array of large_string. `share` is as in `_GrowingArray`."""
        added = TextBytes.of(part)
        before = len(self._data)
        self._data.extend(added.data, share)
        offsets = self._offsets.extend(added.offsets[1:], share)
        offsets += before

    def array(self) -> Any:
        """Return all cells as an Arrow array, without copying them."""
        offsets, data = (pa.py_buffer(each.values()) for each in (self._offsets, self._data))
        return pa.LargeStringArray.from_buffers(len(self._offsets) - 1, offsets, data)


class _Body:
    """The rows below the header, collected as Arrow columns, from the byte `start` to `end`."""

    def __init__(self, width: int, delimiter: str, start: int, end: int) -> None:
        self._width = width
        self._delimiter = delimiter
        self._start, self._end = start, end
        self._columns = [_GrowingTexts() for _ in range(width)]
        self._kinds: list[dict[int, CellKind]] = [{} for _ in range(width)]
        self._lines = _GrowingArray(np.int64)
        self._faults: dict[int, Fault] = {}

    def add_block(self, block: Block) -> bool:
        """Add a block, and return True; False if one of its rows has text beyond the header."""
        for beyond in block.columns[self._width :]:
            if pc.max(pc.binary_length(beyond)).as_py():
                return False
        self._add(block.lines, block.columns[: self._width], block.after)
        return True

    def add(self, chunk: Sequence[Record]) -> None:
        """Add the records, except those without any text."""
        chunk = [record for record in chunk if record.cells is None or any(record.cells)]
        if not chunk:
            return
        lines, rows, marks = zip(*chunk, strict=True)
        if None in rows or set(map(len, rows)) != {self._width} or _has_long(rows):
            size = len(self._lines)
            rows = tuple(self._pad_record(at, cells) for at, cells in enumerate(rows, size))
        columns = [pa.array(cells, pa.large_string()) for cells in zip(*rows, strict=True)]
        self._add(np.array(lines, dtype=np.int64), columns, marks[-1])

    def grid(self, header: Sequence[str], header_row: int) -> Grid:
        """Return the grid of all rows."""
        columns = zip(self._columns, self._kinds, strict=True)
        return Grid(
            tab="",
            header=header,
            header_row=header_row,
            rows=self._lines.values(),
            columns=[text.cells(texts.array(), kinds) for texts, kinds in columns],
            places=[str(n) for n in range(1, self._width + 1)],
            faults=self._faults,
        )

    def _add(
        self, lines: np.ndarray[Any, np.dtype[np.int64]], columns: Sequence[Any], after: Mark
    ) -> None:
        size, share = len(self._lines), (after.byte - self._start) / (self._end - self._start)
        self._lines.extend(lines, share)
        for texts, kinds, column in zip(self._columns, self._kinds, columns, strict=True):
            cells = Cells(column)
            kinds |= {size + at: kind for at, kind in text.kinds(cells)}
            texts.extend(_unescape_column(cells), share)

    def _pad_record(self, at: int, cells: list[str] | None) -> list[str]:
        if cells is None:
            problem = "Text follows the closing quote of a cell."
            self._faults[at] = Fault("broken-quote", "", problem)
            return [""] * self._width
        if is_ragged(cells, self._width):
            problem = f"The row has {count(len(cells), 'cell')} where the header has {self._width}."
            self._faults[at] = Fault("ragged-row", self._delimiter.join(cells), problem)
        long_cells = [
            n for n, cell in enumerate(cells[: self._width]) if len(cell) > MAX_CELL_LENGTH
        ]
        if long_cells and at not in self._faults:
            cell = cells[long_cells[0]]
            problem = f"The cell in column {long_cells[0] + 1} has {len(cell):,} characters."
            self._faults[at] = Fault("cell-long", cell[:SHOWN_LENGTH], problem)
        padded = [*cells, *[""] * self._width][: self._width]
        return ["" if n in long_cells else cell for n, cell in enumerate(padded)]


def _has_long(rows: Sequence[Sequence[str] | None]) -> bool:
    return any(len(cell) > MAX_CELL_LENGTH for cells in rows if cells for cell in cells)


def _unescape_column(cells: Cells) -> Any:
    """Return the column without the apostrophes that `escape_formula` adds."""
    guarded = pa.array(cells.utf8.start_with(b"'"))
    if not guarded.true_count:
        return cells.text
    texts = cells.text.filter(guarded).to_pylist()
    unescaped = [text[1:] if _GUARDED.match(text) else text for text in texts]
    return pc.replace_with_mask(cells.text, guarded, pa.array(unescaped, pa.large_string()))


def is_utf8(data: bytes | bytearray, size: int) -> bool:
    """Return true if the first bytes are UTF-8."""
    ends = pa.py_buffer(np.array([0, size], dtype=np.int64))
    array = pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(data))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _check_width(source: Source, record: Record) -> Record:
    width = len(record.cells or ())
    if width > MAX_COLUMNS:
        raise SheetError(
            f"{source.path}: line {record.line} has {width:,} cells, and a sheet has at most "
            f"{MAX_COLUMNS:,} columns",
            hint="Check in a text editor whether this is a table with line breaks.",
        )
    return record


def _unclosed_quote_error(source: Source, line: int) -> SheetError:
    return SheetError(
        f"{source.path}: a cell that begins in the record at line {line} has a quote that is "
        f"never closed, or more than {MAX_LINE:,} characters",
        hint='Close the quote, and write a quote inside a quoted cell as "".',
    )


def _not_utf8_error(source: Source) -> EncodingError:
    offset = 0
    for number, line in enumerate(source.data.splitlines(keepends=True), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            position = offset + error.start
            return EncodingError(
                f"{source.path}: line {number}, byte {position + 1} of the file "
                f"{describe_byte(line, error.start)}",
                hint=AS_ENCODED.format("cp1252"),
                offered="cp1252",
            )
        offset += len(line)
    return EncodingError(f"{source.path}: the file is not UTF-8", hint=AS_UTF8)


# The records of a CSV file with their bytes, so that unchanged records can be written back exactly.


class Line(NamedTuple):
    """One record: the line at which it starts, its cells (None if it cannot be parsed), its bytes
    without the line end, the line end, and the place after it.
    """

    number: int
    cells: list[str] | None
    body: bytes
    end: bytes
    after: Mark


def dialect_of(source: Source, sheet: Sheet) -> Dialect:
    """Return the dialect in which the sheet was read."""
    return detect_dialect(source, Mapper.of(str(source.path), sheet.mapping))


def record_lines(source: Source, dialect: Dialect, start: Mark | None = None) -> Iterator[Line]:
    """Yield all records in order, without the byte order mark and the `sep=` line, or those after
    `start`.
    """
    offset = start.byte if start else first_record_offset(source, dialect)
    for record in records(source, dialect, start):
        body, end = _split_line_end(source.data[offset : record.after.byte])
        yield Line(record.line, record.cells, body, end, record.after)
        offset = record.after.byte


def _split_line_end(raw: bytes) -> tuple[bytes, bytes]:
    size = 2 if raw.endswith(b"\r\n") else 1 if raw.endswith((b"\n", b"\r")) else 0
    return raw[: len(raw) - size], raw[len(raw) - size :]


def first_record_offset(source: Source, dialect: Dialect) -> int:
    """Return the byte at which the first record begins: after the byte order mark and the `sep=`
    line.
    """
    if dialect.skipped:
        return source.data.index(b"\n") + 1
    mark = codecs.BOM_UTF8
    return len(mark) if source.data.startswith(mark) else 0


def unescape_formula(text: str) -> str:
    """Return the text without the apostrophe that `escape_formula` adds."""
    unescaped = text.removeprefix("'")
    return unescaped if unescaped != text and escape_formula(unescaped) == text else text


# Edit a CSV file; records without edits keep their bytes.


_DEFAULT_LINE_END = "\r\n"
_ID_COLUMNS = ("id", "category_id")
_NUMBER = re.compile(r"-?[0-9]+")


def edit_csv(
    source: Source,
    sheet: Sheet,
    edits: CellEdits,
    new: Sequence[str],
    *,
    added: Sequence[Mapping[str, str]] = (),
    removed: Collection[int] = (),
    size: int = BLOCK_SIZE,
) -> bytes:
    """Return the file as UTF-8 with `edits` (rows are lines) and the columns `new` after the
    existing ones, without the records `removed` (by line), and with the records `added` at its end.

    The delimiter and the line ends stay the same, and so do records without edits if there are no
    new columns. Line numbers are those before the edits: a text of several lines moves the lines
    below it. The file is edited `size` bytes at a time, or record by record if `size` is 0; the
    result is the same.
    """
    dialect = dialect_of(source, sheet)
    head = []
    for line in record_lines(source, dialect):
        head.append(line)
        if line.number == sheet.header_row:
            break
    header = head[-1]
    width = len(trim_header(header.cells or []))
    writer = _RecordWriter(
        style=_writing_style(header, dialect.delimiter),
        places={
            **{name: int(place) - 1 for name, place in sheet.columns.items()},
            **{name: width + n for n, name in enumerate(new)},
        },
        width=width,
        new=new,
        header_row=sheet.header_row,
        edits=edits,
        removed=frozenset(removed),
    )
    copy = io.BytesIO()
    copy.write(source.data[: first_record_offset(source, dialect)])
    copy.writelines(map(writer.edit_line, head))
    at, singles = header.after, _sorted_lines({*edits.own, *removed}, source)
    while at.byte < len(source.data):
        block = parse_block(source.data, at, dialect.delimiter, width, size=size)
        if block is not None:
            last_line = block.after.line + (block.after.byte == len(source.data))
            numbers = singles[slice(*np.searchsorted(singles, (at.line, last_line)))]
            # Another record, such as a blank line, can have edits too.
            if np.isin(numbers, block.lines).all():
                copy.writelines(writer.edit_block(source.data, block, numbers))
                at = block.after
                continue
        stop = at.byte + (size or len(source.data))
        for line in _records_until(record_lines(source, dialect, at), stop):
            copy.write(writer.edit_line(line))
            at = line.after
    copy.writelines(_iter_added(copy.getbuffer()[-1:].tobytes(), added, writer, header))
    return copy.getvalue()


def _sorted_lines(rows: Iterable[int], source: Source) -> Rows:
    """Return the rows that the file may have, sorted. Other numbers may not fit into an array."""
    last = len(source.data) + 1
    return np.array(sorted(row for row in rows if 0 < row <= last), dtype=np.int64)


def _iter_added(
    last: bytes, added: Sequence[Mapping[str, str]], writer: _RecordWriter, header: Line
) -> Iterator[bytes]:
    """Yield the added records after the byte `last`, with line ends as in the header."""
    end = header.end or _DEFAULT_LINE_END.encode()
    lacks_line_end = last not in (b"\r", b"\n")
    for number, texts in enumerate(added):
        yield from [end] if number or lacks_line_end else []
        yield writer.make_record(texts, len(header.cells or []))
    if added and not lacks_line_end:
        yield end


@dataclass(frozen=True, slots=True)
class _WritingStyle:
    delimiter: str
    quotes_all: bool

    def record(self, cells: Sequence[str]) -> bytes:
        """Return the cells as a record without a line end."""
        stream = io.StringIO(newline="")
        form = stdlib.writer(
            stream,
            delimiter=self.delimiter,
            quoting=stdlib.QUOTE_ALL if self.quotes_all else stdlib.QUOTE_MINIMAL,
            # The writer quotes cells that contain one of these characters.
            lineterminator=_DEFAULT_LINE_END,
        )
        form.writerow(cells)
        return stream.getvalue().removesuffix(_DEFAULT_LINE_END).encode()


@dataclass(frozen=True, slots=True)
class _RecordWriter:
    style: _WritingStyle
    places: Mapping[str, int]
    width: int
    new: Sequence[str]
    header_row: int
    edits: CellEdits
    removed: frozenset[int]

    def edit_line(self, line: Line) -> bytes:
        """Return the new bytes of a record with its line end, b"" if it is removed."""
        number = line.number
        if number in self.removed:
            return b""
        is_header = number == self.header_row
        edit = dict(zip(self.new, self.new, strict=True)) if is_header else self.edits.of(number)
        is_edited = edit or (number > self.header_row and _has_content(line))
        return (self._edit_record(line, edit) if is_edited else line.body) + line.end

    def edit_block(self, data: bytes, block: Block, numbers: Rows) -> Iterator[bytes]:
        """Yield the new bytes of a block whose records have `width` cells. Only the records that
        start at the lines `numbers` have separate edits or are removed.
        """
        kinds = self.edits.kinds_of(block.lines)
        is_single = np.isin(block.lines, numbers) | self._differs(block, kinds)
        if self.new:
            # A record without edits gets no cells if it is blank.
            is_single |= kinds == 0
        if not len(kinds) or not (self.new or is_single.any()):
            yield data[block.start.byte : block.after.byte]
            return
        cells = [
            self._append_cells(b"", self._new_cells(each)).decode() for each in self.edits.shared
        ]
        mask, blank = pa.array(is_single), pa.scalar(b"", pa.large_binary())
        bodies, ends, between = _split_records(data, block)
        edited = pa.array(self._edit_singly(data, block, is_single), pa.large_binary())
        yield data[block.start.byte : block.starts[0]]
        yield _join_bytes(
            pc.replace_with_mask(bodies, mask, edited),
            pc.if_else(mask, blank, _fill_in(cells, kinds, block.lines).cast(blank.type)),
            pc.if_else(mask, blank, ends),
            between,
        )

    def _differs(self, block: Block, kinds: Rows) -> Bools:
        """Return a mask of the records in which a cell differs from the text that rows share."""
        differs = np.zeros(len(kinds), dtype=bool)
        for name in self.edits.shared[-1] if kinds.any() else ():
            if name in self.places and name not in self.new:
                texts = [_cell_text(name, each.get(name, "")) for each in self.edits.shared]
                column = block.columns[self.places[name]]
                differs |= np.asarray(pc.not_equal(column, _fill_in(texts, kinds, block.lines)))
        return differs & (kinds > 0)

    def _edit_singly(self, data: bytes, block: Block, mask: Bools) -> Iterator[bytes]:
        """Yield the new bytes of the selected records with their line ends."""
        positions = np.flatnonzero(mask)
        columns = [column.take(pa.array(positions)).to_pylist() for column in block.columns]
        for at, *cells in zip(positions.tolist(), *columns, strict=True):
            body, end = _split_line_end(data[block.starts[at] : block.stops[at]])
            yield self.edit_line(Line(int(block.lines[at]), cells, body, end, block.after))

    def _new_cells(self, edit: Mapping[str, str]) -> list[str]:
        return [_cell_text(name, edit.get(name, "")) for name in self.new]

    def _edit_record(self, line: Line, edit: Mapping[str, str]) -> bytes:
        added = self._new_cells(edit)
        cells = line.cells
        if cells is None or is_ragged(cells, self.width):
            # Keep the cells of an invalid record: they may belong to other columns.
            return self._append_cells(line.body, added)
        # Blank cells after the table's columns stay unless new columns take their place.
        changed = [*cells[: self.width], *added] if self.new else list(cells)
        for name, value in edit.items():
            if name in self.places and name not in self.new:
                changed[self.places[name]] = _cell_text(name, value)
        if changed[: len(cells)] == cells:
            return self._append_cells(line.body, changed[len(cells) :])
        return self.style.record(changed)

    def make_record(self, texts: Mapping[str, str], width: int) -> bytes:
        """Return a new record with as many cells as the header."""
        cells = [""] * (self.width + len(self.new) if self.new else width)
        for name, value in texts.items():
            if name in self.places:
                cells[self.places[name]] = _cell_text(name, value)
        return self.style.record(cells)

    def _append_cells(self, body: bytes, added: Sequence[str]) -> bytes:
        if not added:
            return body
        return body + self.style.delimiter.encode() + self.style.record(added)


def _split_records(data: bytes, block: Block) -> tuple[Any, Any, Any]:
    """Return the bytes of each record without its line end, its line end, and the blank lines after
    it.
    """
    raw, stops = np.frombuffer(data, np.uint8), block.stops
    last = raw[stops - 1]
    is_break, is_pair = (last == _LF) | (last == _CR), (last == _LF) & (raw[stops - 2] == _CR)
    sizes = is_break.astype(np.int64) + is_pair
    places = np.stack([block.starts, stops - sizes, stops], axis=1).ravel()
    offsets = pa.py_buffer(np.append(places, block.after.byte).astype(np.int64))
    buffers = [None, offsets, pa.py_buffer(data)]
    parts = pa.Array.from_buffers(pa.large_binary(), len(places), buffers)
    bodies, ends, between = (parts.take(pa.array(range(n, len(places), 3))) for n in range(3))
    return bodies, ends, between


def _join_bytes(*columns: Any) -> bytes:
    """Return the bytes of all columns together, record by record."""
    joined = pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))
    _, offsets, data = joined.buffers()
    return bytes(data[: np.frombuffer(offsets, np.int64)[len(joined)]])


def _fill_in(texts: Sequence[str], kinds: Rows, numbers: np.ndarray[Any, Any]) -> Any:
    """Return the text of each row by its kind, with the row's number in place of ROW_NUMBER."""
    before, marks, after = zip(*(text.partition(ROW_NUMBER) for text in texts), strict=True)
    kinds, blank = pa.array(kinds), pa.scalar("", pa.large_string())
    start, end = (pa.array(parts, blank.type).take(kinds) for parts in (before, after))
    has_number = pa.array(map(bool, marks)).take(kinds)
    number = pc.if_else(has_number, pa.array(numbers).cast(blank.type), blank)
    return pc.binary_join_element_wise(start, number, end, blank)


@lru_cache(maxsize=1024)
def _cell_text(name: str, text: str) -> str:
    return text if name in _ID_COLUMNS and _NUMBER.fullmatch(text) else escape_formula(text)


def _writing_style(header: Line, delimiter: str) -> _WritingStyle:
    cells = header.cells or []
    quoting = _WritingStyle(delimiter, quotes_all=True)
    return _WritingStyle(delimiter, quotes_all=quoting.record(cells) == header.body)


def _has_content(line: Line) -> bool:
    return line.cells is None or any(cell.strip() for cell in line.cells)
