"""CSV files: dialect, records, Arrow blocks, and edits of single cells."""

from __future__ import annotations

import codecs
import csv
import csv as stdlib
import io
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from petsync.errors import SheetError
from petsync.sheets.files import AS_ENCODED, AS_UTF8, MAX_LINE, EncodingError, Source
from petsync.sheets.grid import CellKind, Fault, Grid
from petsync.sheets.headers import Mapper
from petsync.sheets.validate import text
from petsync.table.cells import BLANKS
from petsync.table.sheet import Sheet

__all__ = [
    "LONGEST",
    "SIZE",
    "Block",
    "Dialect",
    "Line",
    "Mark",
    "Record",
    "bare",
    "dialect_of",
    "edit_csv",
    "escape_formula",
    "is_ragged",
    "lines",
    "read_grid",
    "records",
    "sniff",
    "start",
    "take_apart",
    "without_tail",
]


# A block of CSV taken apart at once, where its quotes leave no doubt.
#
# Arrow takes cells apart many times as fast as `csv`, and lets pass what `csv` refuses. So a
# block is handed to it only if every quote opens a cell, closes one or is doubled, which a look
# at the bytes beside the quotes tells; then there is one way to read it.


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


# CSV in: the delimiter found, the encoding strict, each record with the line it starts at.


MAX_COLUMNS = 1 << 14
_SHOWN = 200
_DELIMITERS = (",", ";", "\t", "|")
_HEAD = 1 << 16
_SEPARATOR_LINE = re.compile(rb"(?:\xef\xbb\xbf)?sep=([,;\t|])\r?\n", re.IGNORECASE)
# A line feed is what LibreOffice makes of a CR, and would not be known for one again.
# What programs take for = + - @: full-width, small, raised and lowered ones, and the minus sign.
_SIGNS = (
    r"=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"
    r"\u2212\u207a-\u207c\u208a-\u208c\ufb29"
)
# What they leave out before a sign, or take a cell apart at: blanks, controls, what cannot be seen,
# and separators.
_BEFORE = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U000e0000-\U000e0fff,;|\uff0c\uff1b\uff5c"
)
_READ_OTHERWISE = (
    rf"(?:[{_BEFORE}]*[{_SIGNS}]|[\t\r\n]|#[A-Z#¡¿]|Err:"
    rf"|[{re.escape(BLANKS)}]+\"|[^\0]*\0)"
)
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


def escape_formula(text: str) -> str:
    """The text so that no spreadsheet program takes it for a formula (`bare` takes it back).

    A text that begins with = + - @ (also full-width, small, or behind blanks, separators and what
    cannot be seen), tab or CR, like a program's error (#N/A) or with spaces and a quote, or that
    holds a NUL, gets an apostrophe, and so does one that begins with apostrophes and then one of
    these, so that reading knows which apostrophe was added.
    """
    return f"'{text}" if _DANGEROUS.match(text) else text


def read_grid(source: Source, mapper: Mapper, *, size: int = SIZE) -> Grid:
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
        self._kinds: list[dict[int, CellKind]] = [{} for _ in range(width)]
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
                text.cells(_join_parts(parts), kinds)
                for parts, kinds in zip(self._columns, self._kinds, strict=True)
            ],
            places=[str(n) for n in range(1, self._width + 1)],
            faults=self._faults,
        )

    def _add(self, lines: np.ndarray[Any, np.dtype[np.int64]], columns: Sequence[Any]) -> None:
        self._lines.append(lines)
        for parts, kinds, column in zip(self._columns, self._kinds, columns, strict=True):
            kinds |= {self._size + at: kind for at, kind in text.kinds(column)}
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


def _join_parts(parts: list[Any]) -> Any:
    joined = pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())
    parts.clear()
    # Or else Arrow would keep what the parts took, which is as much again.
    pa.default_memory_pool().release_unused()
    return joined


def _bare(column: Any) -> Any:
    """The column without the apostrophes that `escape_formula` adds."""
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


# A CSV file's records with the bytes they stand in, so that what is not changed stays as it is.


_LINE_END = re.compile(rb"(?:\r\n|\n|\r)?\Z")


class Line(NamedTuple):
    """One record: its line number, its cells (None where it cannot be taken apart), its bytes
    without the line's end, and that end.
    """

    number: int
    cells: list[str] | None
    body: bytes
    end: bytes


def dialect_of(source: Source, sheet: Sheet) -> Dialect:
    """The dialect in which the sheet was read."""
    return sniff(source, Mapper.of(str(source.path), sheet.mapping))


def lines(source: Source, dialect: Dialect) -> Iterator[Line]:
    """All records in order; what stands before them is not among them."""
    at = start(source, dialect)
    for record in records(source, dialect):
        raw = source.data[at : record.after.byte]
        at = record.after.byte
        end = _LINE_END.search(raw)
        stop = end.start() if end else len(raw)
        yield Line(record.line, record.cells, raw[:stop], raw[stop:])


def start(source: Source, dialect: Dialect) -> int:
    """The byte at which the first record begins: behind the mark and the `sep=` line."""
    if dialect.skipped:
        return source.data.index(b"\n") + 1
    mark = codecs.BOM_UTF8
    return len(mark) if source.data.startswith(mark) else 0


def bare(text: str) -> str:
    """The text without the apostrophe that `csv.escape_formula` puts before it."""
    rest = text.removeprefix("'")
    return rest if rest != text and escape_formula(rest) == text else text


# A CSV file with the results behind its rows; every byte that need not change stays.


Edits = Mapping[int, Mapping[str, str]]
_WRITTEN_END = "\r\n"
_IDS = ("id", "category_id")
_NUMBER = re.compile(r"-?[0-9]+")


def edit_csv(
    source: Source,
    sheet: Sheet,
    edits: Edits,
    new: Sequence[str],
    *,
    added: Sequence[Mapping[str, str]] = (),
    removed: Collection[int] = (),
) -> bytes:
    """The file with `edits` (texts by line and column name) and the columns `new` behind its own,
    without the records that are `removed` (by line), and with those that are `added` at its end.

    Delimiter, quotes and line ends are kept, and so is each record that says nothing new. Lines are
    those of the file as it is: a text of several lines moves the ones below it.
    """
    dialect = dialect_of(source, sheet)
    records = list(lines(source, dialect))
    header = next(each for each in records if each.number == sheet.header_row)
    width = len(without_tail(header.cells or []))
    places = {name: int(place) - 1 for name, place in sheet.columns.items()}
    hand = _hand(header, dialect.delimiter)
    pen = _RecordWriter(
        hand, {**places, **{name: width + n for n, name in enumerate(new)}}, width, new
    )
    pieces = [source.data[: start(source, dialect)]]
    for line in records:
        if line.number in removed:
            continue
        is_header = line.number == sheet.header_row
        edit = dict(zip(new, new, strict=True)) if is_header else edits.get(line.number, {})
        touched = edit or (line.number > sheet.header_row and _says(line))
        pieces += [pen.edit_record(line, edit) if touched else line.body, line.end]
    return b"".join([*pieces, *_behind(pieces, added, pen, header)])


def _behind(
    pieces: Sequence[bytes], added: Sequence[Mapping[str, str]], pen: _RecordWriter, header: Line
) -> Iterator[bytes]:
    """The records that are added, each with the line's end that the header has."""
    end = header.end or _WRITTEN_END.encode()
    is_open = next((piece for piece in reversed(pieces) if piece), b"")[-1:] not in (b"\r", b"\n")
    for at, texts in enumerate(added):
        yield from [end] if at or is_open else []
        yield pen.make_record(texts, len(header.cells or []))
    if added and not is_open:
        yield end


@dataclass(frozen=True, slots=True)
class _WritingStyle:
    """How the file's records are written."""

    delimiter: str
    quotes_all: bool

    def record(self, cells: Sequence[str]) -> bytes:
        """The cells as a record, without the line's end."""
        stream = io.StringIO(newline="")
        form = stdlib.writer(
            stream,
            delimiter=self.delimiter,
            quoting=stdlib.QUOTE_ALL if self.quotes_all else stdlib.QUOTE_MINIMAL,
            # A cell with one of these in it is quoted, so this may not be left blank.
            lineterminator=_WRITTEN_END,
        )
        form.writerow(cells)
        return stream.getvalue().removesuffix(_WRITTEN_END).encode()


@dataclass(frozen=True, slots=True)
class _RecordWriter:
    hand: _WritingStyle
    places: Mapping[str, int]
    width: int
    new: Sequence[str]

    def edit_record(self, line: Line, edit: Mapping[str, str]) -> bytes:
        """The record with the new texts."""
        added = [escape_formula(edit.get(name, "")) for name in self.new]
        cells = line.cells
        if cells is None or is_ragged(cells, self.width):
            # Still broken, so that no one takes the copy's cells for what they are not.
            return self._behind(line.body, added)
        # Blank cells behind the table stay where nothing comes there.
        changed = [*cells[: self.width], *added] if self.new else list(cells)
        for name, value in edit.items():
            if name in self.places:
                changed[self.places[name]] = _safe(name, value)
        if changed[: len(cells)] == cells:
            return self._behind(line.body, changed[len(cells) :])
        return self.hand.record(changed)

    def make_record(self, texts: Mapping[str, str], width: int) -> bytes:
        """A new record as wide as the header's."""
        cells = [""] * (self.width + len(self.new) if self.new else width)
        for name, value in texts.items():
            if name in self.places:
                cells[self.places[name]] = _safe(name, value)
        return self.hand.record(cells)

    def _behind(self, body: bytes, added: Sequence[str]) -> bytes:
        if not added:
            return body
        return body + self.hand.delimiter.encode() + self.hand.record(added)


def _safe(name: str, text: str) -> str:
    return text if name in _IDS and _NUMBER.fullmatch(text) else escape_formula(text)


def _hand(header: Line, delimiter: str) -> _WritingStyle:
    cells = header.cells or []
    quoting = _WritingStyle(delimiter, quotes_all=True)
    return _WritingStyle(delimiter, quotes_all=quoting.record(cells) == header.body)


def _says(line: Line) -> bool:
    return line.cells is None or any(cell.strip() for cell in line.cells)
