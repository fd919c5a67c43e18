"""CSV in: the delimiter found, the encoding strict, each record with the line it starts at."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.errors import SheetError
from petsync.sheets.delimited.block import LONGEST, SIZE, Block, Mark, take_apart
from petsync.sheets.grid import Fault, Grid, Kind
from petsync.sheets.headers import Mapper
from petsync.sheets.judge import broken
from petsync.sheets.kinds import AS_ENCODED, AS_UTF8
from petsync.sheets.source import MAX_LINE, EncodingError, Source

__all__ = [
    "Dialect",
    "Record",
    "guarded",
    "is_ragged",
    "read",
    "records",
    "sniff",
    "without_tail",
]

MAX_COLUMNS = 1 << 14
_SHOWN = 200
_DELIMITERS = (",", ";", "\t", "|")
_HEAD = 1 << 16
_SEPARATOR_LINE = re.compile(rb"(?:\xef\xbb\xbf)?sep=([,;\t|])\r?\n", re.IGNORECASE)
# A line feed is what LibreOffice makes of a CR, and would not be known for one again.
# Full-width signs begin a formula too, in some languages, and so does one behind a separator:
# another program may take a cell apart there.
_READ_OTHERWISE = r"(?:[ \u00a0,;|]*[=+\-@＝＋－＠]|[\t\r\n]|#[A-Z#¡¿]|Err:|[ \u00a0]+\"|[^\0]*\0)"
_DANGEROUS = re.compile(f"'*{_READ_OTHERWISE}")
_GUARDED = re.compile(f"'+{_READ_OTHERWISE}")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one CSV file is written: its delimiter, and whether a `sep=` line stands before it."""

    delimiter: str
    skipped: int = 0


class Record(NamedTuple):
    """One record: the line it starts at, its cells, or None where it cannot be taken apart, and
    the place behind it.
    """

    line: int
    cells: list[str] | None
    after: Mark


def guarded(text: str) -> str:
    """The text so that no spreadsheet program takes it for a formula (`bare` takes it back).

    A text that begins with = + - @ tab or CR, like a program's error (#N/A) or with spaces and a
    quote, or that holds a NUL, gets an apostrophe, and so does one that begins with apostrophes
    and then one of these, so that reading knows which apostrophe was added.
    """
    return f"'{text}" if _DANGEROUS.match(text) else text


def read(source: Source, mapper: Mapper, *, size: int = SIZE) -> Grid:
    """The file's grid, `size` bytes at a time, or record by record where that is 0.

    The grid is the same for every size. Raises SheetError where the file cannot be read as a whole.
    """
    dialect = sniff(source, mapper)
    if not _is_utf8(source.data):
        raise _undecodable(source)
    head = itertools.islice(records(source, dialect), 20)
    first = [_not_too_wide(source, record) for record in head]
    rows = [record.cells or [] for record in first]
    at = mapper.header_row(rows)
    if at is None:
        raise mapper.unusable(rows)
    header = without_tail(rows[at])
    body = _Body(len(header), dialect.delimiter)
    _fill(body, source, dialect, len(rows[at]), first[at].after, size)
    return body.grid(header, first[at].line).without_blank_rows()


def sniff(source: Source, mapper: Mapper) -> Dialect:
    """The dialect whose header names most of our columns."""
    data = source.data
    named = _SEPARATOR_LINE.match(data)
    if named:
        return Dialect(named[1].decode(), 1)
    head = data[:_HEAD].decode("utf-8-sig", "replace")
    return Dialect(max(_DELIMITERS, key=lambda mark: _promise(head, mark, mapper)))


def records(source: Source, dialect: Dialect, start: Mark | None = None) -> Iterator[Record]:
    """Each record of the file, or of what is behind `start`, blank lines too.

    Raises SheetError where a quote never closes or a byte is not UTF-8.
    """
    lines = _Lines(source.data, start or Mark(0, 1))
    for _ in range(0 if start else dialect.skipped):
        next(lines)
    reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
    line = lines.line
    while True:
        try:
            while True:
                cells = _next(reader)
                yield Record(line, cells, Mark(lines.byte, lines.line))
                line = lines.line
        except StopIteration:
            return
        except csv.Error as error:
            if "expected after" not in str(error):
                raise _endless(source, line) from None
            yield Record(line, None, Mark(lines.byte, lines.line))
            line = lines.line
        except UnicodeDecodeError:
            raise _undecodable(source) from None


def _next(reader: Iterator[list[str]]) -> list[str]:
    """The next record. A cell may be long here: that is a finding, and not the end of the file."""
    before = csv.field_size_limit(MAX_LINE)
    try:
        return next(reader)
    finally:
        csv.field_size_limit(before)


class _Lines:
    """The lines of a file with their ends; `byte` and `line` are the place behind the last one."""

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


def _fill(body: _Body, source: Source, dialect: Dialect, width: int, at: Mark, size: int) -> None:
    """Add what is behind `at`: block by block, record by record where a block needs care."""
    end = len(source.data)
    while at.byte < end:
        block = take_apart(source.data, at, dialect.delimiter, width, size=size)
        if block is not None and body.add_block(block):
            at = block.after
            continue
        stop = at.byte + (size or end)
        chunk = list(_until(records(source, dialect, at), stop))
        body.add(chunk)
        at = chunk[-1].after


def _until(all_records: Iterable[Record], stop: int) -> Iterator[Record]:
    for record in all_records:
        yield record
        if record.after.byte >= stop:
            return


def _promise(head: str, delimiter: str, mapper: Mapper) -> tuple[int, int]:
    rows: list[list[str]] = []
    try:
        rows.extend(itertools.islice(csv.reader(io.StringIO(head, ""), delimiter=delimiter), 20))
    except csv.Error:
        rows = [line.split(delimiter) for line in head.splitlines()[:20]]
    return max((mapper.score(row) for row in rows), default=0), max(map(len, rows), default=0)


def without_tail(header: list[str]) -> list[str]:
    """The header without the blank cells at its end."""
    width = max(n for n, text in enumerate(header, 1) if text.strip())
    return header[:width]


def is_ragged(cells: Sequence[str], width: int) -> bool:
    """Whether a row's cells are not those of its header; blank ones at its end do not count."""
    return len(cells) < width or any(cell.strip() for cell in cells[width:])


class _Body:
    """The rows below the header, gathered part by part as Arrow columns."""

    def __init__(self, width: int, delimiter: str) -> None:
        self._width = width
        self._delimiter = delimiter
        self._columns: list[list[Any]] = [[] for _ in range(width)]
        self._kinds: list[dict[int, Kind]] = [{} for _ in range(width)]
        self._lines: list[np.ndarray[Any, np.dtype[np.int64]]] = []
        self._faults: dict[int, Fault] = {}
        self._size = 0

    def add_block(self, block: Block) -> bool:
        """Add a block, if none of its rows has more cells that say something than the header."""
        for beyond in block.columns[self._width :]:
            if pc.max(pc.binary_length(beyond)).as_py():
                return False
        self._add(block.lines, block.columns[: self._width])
        return True

    def add(self, chunk: Sequence[Record]) -> None:
        """Add records, but for those that are blank."""
        chunk = [record for record in chunk if record.cells is None or any(record.cells)]
        if not chunk:
            return
        lines, rows, _ = zip(*chunk, strict=True)
        if None in rows or set(map(len, rows)) != {self._width} or _has_long(rows):
            rows = tuple(self._even(at, cells) for at, cells in enumerate(rows, self._size))
        columns = [pa.array(cells, pa.large_string()) for cells in zip(*rows, strict=True)]
        self._add(np.array(lines, dtype=np.int64), columns)

    def grid(self, header: Sequence[str], header_row: int) -> Grid:
        """The grid of all that was added, which is given up here."""
        return Grid(
            tab="",
            header=header,
            header_row=header_row,
            rows=np.concatenate([np.zeros(0, np.int64), *self._lines]),
            columns=[
                broken.cells(_joined(parts), kinds)
                for parts, kinds in zip(self._columns, self._kinds, strict=True)
            ],
            places=[str(n) for n in range(1, self._width + 1)],
            faults=self._faults,
        )

    def _add(self, lines: np.ndarray[Any, np.dtype[np.int64]], columns: Sequence[Any]) -> None:
        self._lines.append(lines)
        for parts, kinds, column in zip(self._columns, self._kinds, columns, strict=True):
            kinds |= {self._size + at: kind for at, kind in broken.kinds(column)}
            parts.append(_bare(column))
        self._size += len(lines)

    def _even(self, at: int, cells: list[str] | None) -> list[str]:
        if cells is None:
            problem = "text follows the closing quote of a cell"
            self._faults[at] = Fault("broken-quote", "", problem)
            return [""] * self._width
        if is_ragged(cells, self._width):
            has = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            problem = f"the row has {has} where the header has {self._width}"
            self._faults[at] = Fault("ragged-row", self._delimiter.join(cells), problem)
        long = [n for n, cell in enumerate(cells[: self._width]) if len(cell) > LONGEST]
        if long and at not in self._faults:
            problem = f"the cell in column {long[0] + 1} has {len(cells[long[0]]):,} characters"
            self._faults[at] = Fault("cell-long", cells[long[0]][:_SHOWN], problem)
        even = [*cells, *[""] * self._width][: self._width]
        return ["" if n in long else cell for n, cell in enumerate(even)]


def _has_long(rows: Sequence[Sequence[str] | None]) -> bool:
    return any(len(cell) > LONGEST for cells in rows if cells for cell in cells)


def _joined(parts: list[Any]) -> Any:
    joined = pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())
    parts.clear()
    # Or else Arrow would keep what the parts took, which is as much again.
    pa.default_memory_pool().release_unused()
    return joined


def _bare(column: Any) -> Any:
    """The column without the apostrophes that `guarded` adds."""
    like = pc.starts_with(column, "'")
    if not pc.any(like).as_py():
        return column
    texts = column.filter(like).to_pylist()
    bare = [text[1:] if _GUARDED.match(text) else text for text in texts]
    return pc.replace_with_mask(column, like, pa.array(bare, pa.large_string()))


def _is_utf8(data: bytes) -> bool:
    ends = pa.py_buffer(np.array([0, len(data)], dtype=np.int64))
    whole = pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(data))
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _not_too_wide(source: Source, record: Record) -> Record:
    width = len(record.cells or ())
    if width > MAX_COLUMNS:
        raise SheetError(
            f"{source.path}: line {record.line} has {width:,} cells, and a sheet has at most "
            f"{MAX_COLUMNS:,} columns",
            hint="See in a text editor whether this is a table, and whether its lines end.",
        )
    return record


def _endless(source: Source, line: int) -> SheetError:
    return SheetError(
        f"{source.path}: a cell that begins in the record at line {line} has a quote that is "
        f"never closed, or more than {MAX_LINE:,} characters",
        hint='Close the quote, and write a quote inside a quoted cell as "".',
    )


def _undecodable(source: Source) -> EncodingError:
    offset = 0
    for number, line in enumerate(source.data.splitlines(keepends=True), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            where = offset + error.start
            shown = line[max(0, error.start - 20) : error.start + 20].decode("cp1252", "replace")
            return EncodingError(
                f"{source.path}: line {number}, byte {where + 1} of the file "
                f"(0x{source.data[where]:02X}) is not UTF-8; as Windows-1252 it reads "
                f"{shown.strip()!r}",
                hint=AS_ENCODED.format("cp1252"),
                offered="cp1252",
            )
        offset += len(line)
    return EncodingError(f"{source.path}: the file is not UTF-8", hint=AS_UTF8)
