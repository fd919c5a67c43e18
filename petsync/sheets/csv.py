"""CSV in: the delimiter found, the encoding strict, each record with the line it starts at."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.errors import SheetError
from petsync.sheets.grid import Cells, Fault, Grid
from petsync.sheets.headers import Mapper
from petsync.sheets.source import Source

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

_DELIMITERS = (",", ";", "\t")
_CHUNK = 50_000
_HEAD = 1 << 16
_SEPARATOR_LINE = re.compile(rb"(?:\xef\xbb\xbf)?sep=([,;\t])\r?\n", re.IGNORECASE)
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_DANGEROUS = re.compile(r"'*[=+\-@\t\r]")
_GUARDED = re.compile(r"'+[=+\-@\t\r]")
_SAVE_AS = "Save it as “CSV UTF-8”, or read the workbook (.xlsx) itself."


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one CSV file is written: its delimiter, and whether a `sep=` line stands before it."""

    delimiter: str
    skipped: int = 0


class Record(NamedTuple):
    """One record: the line it starts at, and its cells, or None where it cannot be taken apart."""

    line: int
    cells: list[str] | None


def guarded(text: str) -> str:
    """The text so that no spreadsheet program takes it for a formula (`bare` takes it back).

    A text that begins with = + - @ tab or CR gets an apostrophe, and so does one that begins
    with apostrophes and then one of these, so that reading knows which apostrophe was added.
    """
    return f"'{text}" if _DANGEROUS.match(text) else text


def read(source: Source, mapper: Mapper) -> Grid:
    """The file's grid. Raises SheetError where the file as a whole cannot be read."""
    dialect = sniff(source, mapper)
    records_ = records(source, dialect)
    first = list(itertools.islice(records_, 20))
    rows = [record.cells or [] for record in first]
    at = mapper.header_row(rows)
    if at is None:
        raise mapper.unusable(rows)
    header = without_tail(rows[at])
    body = _Body(len(header), dialect.delimiter)
    for chunk in _chunks(itertools.chain(first[at + 1 :], records_)):
        body.add(chunk)
    return body.grid(header, first[at].line).without_blank_rows()


def sniff(source: Source, mapper: Mapper) -> Dialect:
    """The dialect whose header names most of our columns. Raises SheetError for UTF-16."""
    data = source.data
    if data.startswith(_WIDE_MARKS) or data[:_HEAD].count(0) > len(data[:_HEAD]) // 4:
        raise SheetError(f"{source.path}: the file is UTF-16, not UTF-8", hint=_SAVE_AS)
    named = _SEPARATOR_LINE.match(data)
    if named:
        return Dialect(named[1].decode(), 1)
    head = data[:_HEAD].decode("utf-8-sig", "replace")
    return Dialect(max(_DELIMITERS, key=lambda mark: _promise(head, mark, mapper)))


def records(source: Source, dialect: Dialect) -> Iterator[Record]:
    """Each record of the file, blank lines too. Raises SheetError where a quote never closes or
    a byte is not UTF-8.
    """
    stream = io.TextIOWrapper(io.BytesIO(source.data), "utf-8-sig", "strict", newline="")
    for _ in range(dialect.skipped):
        stream.readline()
    reader = csv.reader(stream, delimiter=dialect.delimiter, strict=True)
    line = dialect.skipped + 1
    while True:
        try:
            for cells in reader:
                yield Record(line, cells)
                line = reader.line_num + dialect.skipped + 1
            return
        except csv.Error as error:
            if "expected after" not in str(error):
                raise _endless(source, line) from None
            yield Record(line, None)
            line = reader.line_num + dialect.skipped + 1
        except UnicodeDecodeError:
            raise _undecodable(source) from None


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


def _chunks(all_records: Iterator[Record]) -> Iterator[Sequence[Record]]:
    while chunk := list(itertools.islice(all_records, _CHUNK)):
        yield [record for record in chunk if record.cells is None or any(record.cells)]


class _Body:
    """The rows below the header, gathered chunk by chunk as Arrow columns."""

    def __init__(self, width: int, delimiter: str) -> None:
        self._width = width
        self._delimiter = delimiter
        self._columns: list[list[Any]] = [[] for _ in range(width)]
        self._lines: list[int] = []
        self._faults: dict[int, Fault] = {}

    def add(self, chunk: Sequence[Record]) -> None:
        if not chunk:
            return
        lines, rows = zip(*chunk, strict=True)
        if None in rows or set(map(len, rows)) != {self._width}:
            rows = tuple(self._even(at, cells) for at, cells in enumerate(rows, len(self._lines)))
        self._lines.extend(lines)
        for column, cells in zip(self._columns, zip(*rows, strict=True), strict=True):
            column.append(_bare(pa.array(cells, pa.large_string())))

    def grid(self, header: Sequence[str], header_row: int) -> Grid:
        return Grid(
            tab="",
            header=header,
            header_row=header_row,
            rows=np.array(self._lines, dtype=np.int64),
            columns=[Cells(_joined(parts)) for parts in self._columns],
            places=[str(n) for n in range(1, self._width + 1)],
            faults=self._faults,
        )

    def _even(self, at: int, cells: list[str] | None) -> list[str]:
        if cells is None:
            problem = "text follows the closing quote of a cell"
            self._faults[at] = Fault("broken-quote", "", problem)
            return [""] * self._width
        if is_ragged(cells, self._width):
            problem = f"the row has {len(cells)} cells where the header has {self._width}"
            self._faults[at] = Fault("ragged-row", self._delimiter.join(cells), problem)
        return [*cells, *[""] * self._width][: self._width]


def _joined(parts: list[Any]) -> Any:
    return pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())


def _bare(column: Any) -> Any:
    """The column without the apostrophes that `guarded` adds."""
    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    texts = column.to_pylist()
    bare = [text[1:] if _GUARDED.match(text) else text for text in texts]
    return pa.array(bare, pa.large_string())


def _endless(source: Source, line: int) -> SheetError:
    return SheetError(
        f"{source.path}: a cell that begins in the record at line {line} has a quote that is "
        "never closed, or more than 131,072 characters",
        hint='Close the quote, and write a quote inside a quoted cell as "".',
    )


def _undecodable(source: Source) -> SheetError:
    offset = 0
    for number, line in enumerate(source.data.splitlines(keepends=True), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            where = offset + error.start
            shown = line[max(0, error.start - 20) : error.start + 20].decode("cp1252", "replace")
            return SheetError(
                f"{source.path}: line {number}, byte {where + 1} of the file "
                f"(0x{source.data[where]:02X}) is not UTF-8; as Windows-1252 it reads "
                f"{shown.strip()!r}",
                hint=_SAVE_AS,
            )
        offset += len(line)
    return SheetError(f"{source.path}: the file is not UTF-8", hint=_SAVE_AS)
