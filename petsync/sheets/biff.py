"""Read old and binary Excel workbooks (.xls, .xlsb) as workbooks of plain cells: the values through
calamine, and what it does not report from the records of the file.
"""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from python_calamine import (
    CalamineWorkbook,
    PasswordError,
    SheetTypeEnum,
    SheetVisibleEnum,
    load_workbook,
)

from petsync.errors import SheetError
from petsync.sheets.files import UNLOCK
from petsync.sheets.grid import CellKind, letter
from petsync.sheets.xlsx.package import FREE, MAX_PARTS, MAX_RATIO, MAX_TABS, MAX_UNPACKED
from petsync.sheets.xlsx.plain import PlainCell, PlainTab
from petsync.sheets.xlsx.survey import FREE_AREA, MAX_SPARSENESS, translate_damage
from petsync.sheets.xlsx.xml import MarkupError, elements

__all__ = ["read_xls", "read_xlsb"]


@dataclass(slots=True)
class _Marks:
    """What calamine does not report about a worksheet; rows and columns are counted from 0."""

    errors: dict[tuple[int, int], str] = field(default_factory=dict)
    """The error values, by row and column."""
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    """The texts that calamine reads wrongly, by row and column."""
    merged: list[str] = field(default_factory=list)
    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: list[tuple[int, int]] = field(default_factory=list)
    last_row: int = 0
    last_column: int = 0
    cells: int = 0

    def add_cell(self, row: int, column: int, count: int = 1) -> None:
        """Count cells that are beside each other in a row."""
        self.cells += count
        self.last_row = max(self.last_row, row)
        self.last_column = max(self.last_column, column + count - 1)

    def add_error(self, row: int, column: int, code: int) -> None:
        """Add an error value."""
        self.errors[row, column] = _ERRORS.get(code, "#VALUE!")

    def add_merged(self, first_row: int, last_row: int, first: int, last: int) -> None:
        """Add a merged range."""
        self.merged.append(f"{letter(first)}{first_row + 1}:{letter(last)}{last_row + 1}")


_ERRORS = {
    0x00: "#NULL!",
    0x07: "#DIV/0!",
    0x0F: "#VALUE!",
    0x17: "#REF!",
    0x1D: "#NAME?",
    0x24: "#NUM!",
    0x2A: "#N/A",
}
_KINDS = {str: CellKind.TEXT, float: CellKind.NUMBER, int: CellKind.NUMBER, bool: CellKind.BOOLEAN}
_DAMAGED = (
    "Open it in Excel or LibreOffice and save it as .xlsx; if that also fails, get the file again "
    "or restore it from a backup."
)
_AS_CSV = "If it is genuine, save the sheet as CSV (UTF-8) and read that."


class _DamageError(Exception):
    """The file is damaged; the message says how."""


def _damage_error(path: Path, why: object) -> SheetError:
    return SheetError(f"{path}: the workbook is damaged: {why}", hint=_DAMAGED)


def _read_tabs(path: Path, data: bytes, marks: Sequence[_Marks]) -> list[PlainTab]:
    """Return the worksheets of a workbook, whose marks are in the same order. Raises SheetError
    before calamine, which reads whole rectangles of cells, would need too much memory.
    """
    for each in marks:
        area = (each.last_row + 1) * (each.last_column + 1)
        if area > max(FREE_AREA, MAX_SPARSENESS * each.cells):
            raise SheetError(
                f"{path}: a sheet has values as far as column {letter(each.last_column)} and as "
                f"far as row {each.last_row + 1:,}, too far for a table of pets",
                hint="Delete the stray cells (Ctrl+End goes to the last one), or copy the table "
                "into another sheet.",
            )
    try:
        with translate_damage(str(path)):
            book = _open(path, data)
            sheets = [
                (n, each)
                for n, each in enumerate(book.sheets_metadata)
                if each.typ == SheetTypeEnum.WorkSheet
            ]
            if len(sheets) != len(marks):
                raise _DamageError("its list of worksheets contradicts its content")
            if len(sheets) > MAX_TABS:
                raise SheetError(
                    f"{path}: the workbook has {len(sheets):,} sheets, and the limit is "
                    f"{MAX_TABS:,}",
                    hint=_AS_CSV,
                )
            tabs = []
            for (n, metadata), mark in zip(sheets, marks, strict=True):
                where = f"{path}, sheet {metadata.name!r}"
                is_visible = metadata.visible == SheetVisibleEnum.Visible
                tab = PlainTab(metadata.name, where, is_visible, mark.merged, mark.hidden_columns)
                _add_rows(tab, book, n, mark)
                tabs.append(tab)
    except _DamageError as error:
        raise _damage_error(path, error) from None
    if not tabs:
        raise SheetError(
            f"{path}: there is no worksheet in this file",
            hint="Use a workbook that has the table in a worksheet.",
        )
    return tabs


def _open(path: Path, data: bytes) -> CalamineWorkbook:
    try:
        return load_workbook(io.BytesIO(data))
    except PasswordError:
        raise _password_error(path) from None


def _password_error(path: Path) -> SheetError:
    return SheetError(f"{path}: the file is protected by a password", hint=UNLOCK)


def _add_rows(tab: PlainTab, book: CalamineWorkbook, number: int, mark: _Marks) -> None:
    sheet = book.get_sheet_by_index(number)
    top, left = sheet.start or (0, 0)
    rows: Sequence[list[Any]] = sheet.to_python(skip_empty_area=True) if sheet.start else []
    errors: dict[int, list[PlainCell]] = {}
    for (row, column), text in mark.errors.items():
        errors.setdefault(row, []).append(PlainCell(column, CellKind.ERROR, text))
    last = max([top + len(rows) - 1, *errors], default=-1)
    for row in range(min([top, *errors]), last + 1):
        values = rows[row - top] if 0 <= row - top < len(rows) else []
        cells = [
            PlainCell(column, _KINDS.get(type(value), CellKind.DATE), value)
            for column, value in enumerate(values, left)
            if value != ""
        ]
        if mark.texts:
            cells = [
                each._replace(value=mark.texts.get((row, each.column), each.value))
                for each in cells
            ]
        if row in errors:
            wrong = {each.column for each in errors[row]}
            kept = (each for each in cells if each.column not in wrong)
            cells = sorted([*kept, *errors[row]], key=lambda each: each.column)
        tab.add_row(row + 1, cells, hidden=row in mark.hidden_rows)


# .xls: a compound file with a stream of records, each with its number and size of 16 bits.


_FREE_SECTOR = 0xFFFFFFFA
"""Sector numbers from this one on do not name a sector."""
_ENTRY_SIZE = 128
_STREAM, _ROOT = 2, 5
"""The kinds of entries of the directory."""
_BOF, _EOF, _FILEPASS, _BOUNDSHEET = 0x0809, 0x000A, 0x002F, 0x0085
_XLS_SHEET = 0
_FORMULAS = (0x0006, 0x0206, 0x0406)
_BOOLERR, _MULRK, _ROW, _COLINFO, _MERGECELLS = 0x0205, 0x00BD, 0x0208, 0x007D, 0x00E5
_TEXTS, _CONTINUE, _TEXT_CELL = 0x00FC, 0x003C, 0x00FD
_CELLS = frozenset([0x0203, 0x027E, _TEXT_CELL, 0x0204, 0x00D6, _BOOLERR, *_FORMULAS])
"""The records of a number, a text, a boolean, an error or a formula."""


def read_xls(path: Path, data: bytes) -> tuple[list[PlainTab], bytes]:
    """Return the worksheets of an old Excel workbook, and its stream of records. Raises SheetError
    if it is damaged, is protected by a password, or is too large.
    """
    try:
        stream = _read_stream(data)
        marks = [*_read_xls_marks(path, stream)]
    except (struct.error, IndexError) as error:
        raise _damage_error(path, error) from None
    except _DamageError as error:
        raise _damage_error(path, error) from None
    return _read_tabs(path, data, marks), stream


class _Compound:
    """A compound file: its sectors, and the table that chains them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sector_size = 1 << min(struct.unpack_from("<H", data, 30)[0], 12)
        self.table = self._read_table()

    def sector(self, number: int) -> bytes:
        """Return a sector, which may be cut off at the end of the file."""
        start = (number + 1) * self.sector_size
        if start >= len(self.data):
            raise _DamageError("it is incomplete")
        return self.data[start : start + self.sector_size]

    def chain(self, start: int) -> bytes:
        """Return the sectors from this one on."""
        return _follow(start, self.table, self.sector)

    def _read_table(self) -> list[int]:
        numbers = [*struct.unpack_from("<109I", self.data, 76)]
        following, count = struct.unpack_from("<2I", self.data, 68)
        for _ in range(min(count, len(self.data) // self.sector_size)):
            if following >= _FREE_SECTOR:
                break
            more = _unpack_numbers(self.sector(following))
            numbers += more[:-1]
            following = more[-1]
        used = (each for each in numbers if each < _FREE_SECTOR)
        return [number for each in used for number in _unpack_numbers(self.sector(each))]


def _follow(start: int, table: Sequence[int], get: Callable[[int], bytes]) -> bytes:
    """Return the sectors that a table chains."""
    pieces, left = [], len(table) + 1
    while start < _FREE_SECTOR:
        left -= 1
        if start >= len(table) or not left:
            raise _DamageError("its table of sectors is invalid")
        pieces.append(get(start))
        start = table[start]
    return b"".join(pieces)


def _read_stream(data: bytes) -> bytes:
    """Return the stream `Workbook` of a compound file; `Book` in older ones."""
    file = _Compound(data)
    directory, cutoff, mini_fat = (struct.unpack_from("<I", data, at)[0] for at in (48, 56, 60))
    entries = file.chain(directory)
    found: dict[str, tuple[int, int]] = {}
    root = 0
    for at in range(0, len(entries) - _ENTRY_SIZE + 1, _ENTRY_SIZE):
        length, kind = struct.unpack_from("<HB", entries, at + 64)
        name = entries[at : at + max(min(length, 64) - 2, 0)].decode("utf-16-le", "replace")
        place = struct.unpack_from("<II", entries, at + 116)
        if kind == _ROOT:
            root = place[0]
        elif kind == _STREAM:
            found[name.casefold()] = place
    if not {"workbook", "book"} & found.keys():
        raise _DamageError("it has no workbook")
    start, size = found.get("workbook") or found["book"]
    if size >= cutoff:
        return file.chain(start)[:size]
    mini_size = 1 << min(struct.unpack_from("<H", data, 32)[0], 12)
    mini_stream, mini_table = file.chain(root), _unpack_numbers(file.chain(mini_fat))
    pieces = _follow(start, mini_table, lambda n: mini_stream[n * mini_size : (n + 1) * mini_size])
    return pieces[:size]


def _unpack_numbers(data: bytes) -> list[int]:
    return [*struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])]


def _records(stream: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + 4 <= len(stream):
        number, size = struct.unpack_from("<HH", stream, at)
        yield number, stream[at + 4 : at + 4 + size]
        at += 4 + size


def _read_xls_marks(path: Path, stream: bytes) -> Iterator[_Marks]:
    places: list[int] = []
    texts: list[bytes] = []
    before = 0
    for number, body in _records(stream, 0):
        if number == _FILEPASS:
            raise _password_error(path)
        before = before if number == _CONTINUE else number
        if before == _TEXTS:
            texts.append(body)
        if number == _BOUNDSHEET:
            place, _, kind = struct.unpack_from("<IBB", body)
            if kind == _XLS_SHEET:
                places.append(place)
        if number == _EOF:
            break
    split_texts = _read_split_texts(texts)
    for place in places:
        yield _read_xls_sheet(stream, place, split_texts)


def _read_split_texts(records: Sequence[bytes]) -> dict[int, str]:
    """Return, by number, the texts with a character beyond U+FFFF whose two halves are in different
    records: calamine replaces each half. `records` are those of the table of texts.
    """
    if not any(
        before[-1:] and before[-1] >> 2 == 0b110110 and len(body) > 2 and body[2] >> 2 == 0b110111
        for before, body in pairwise(records)
    ):
        return {}
    reader = _TextReader(records)
    count = struct.unpack("<4xI", reader.take(8))[0]
    texts = ((number, *reader.read_text()) for number in range(count))
    return {number: text for number, text, is_split in texts if is_split}


class _TextReader:
    """Reads a table of texts that is continued in further records."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self._records = iter(records)
        self._body, self._at = next(self._records), 0

    def take(self, size: int) -> bytes:
        """Return the next bytes, which may be in several records."""
        pieces = []
        while size:
            if self._at == len(self._body):
                self._next_record()
            piece = self._body[self._at : self._at + size]
            self._at += len(piece)
            size -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def read_text(self) -> tuple[str, bool]:
        """Return the next text, and whether two records have halves of one of its characters."""
        left, flags = struct.unpack("<HB", self.take(3))
        runs = struct.unpack("<H", self.take(2))[0] if flags & 8 else 0
        phonetic = struct.unpack("<I", self.take(4))[0] if flags & 4 else 0
        units, is_split = b"", False
        while left:
            if self._at == len(self._body):
                self._next_record()
                # A record that goes on with characters begins with their size.
                flags = self.take(1)[0]
                is_split |= bool(units) and units[-1] >> 2 == 0b110110
            size = 1 + (flags & 1)
            count = min(left, max((len(self._body) - self._at) // size, 1))
            piece = self.take(count * size)
            units += piece if size == 2 else piece.decode("latin-1").encode("utf-16-le")
            left -= count
        self.take(4 * runs + phonetic)
        return units.decode("utf-16-le", "replace"), is_split

    def _next_record(self) -> None:
        body = next(self._records, None)
        if body is None:
            raise _DamageError("its table of texts is incomplete")
        self._body, self._at = body, 0


def _read_xls_sheet(stream: bytes, place: int, split_texts: Mapping[int, str]) -> _Marks:
    marks, depth = _Marks(), 0
    for number, body in _records(stream, place):
        if number == _BOF:
            depth += 1
        elif number == _EOF:
            depth -= 1
            if not depth:
                break
        elif depth == 1:
            _take_xls_record(marks, number, body)
            if number == _TEXT_CELL and split_texts:
                row, column, text = struct.unpack_from("<HH2xI", body)
                if text in split_texts:
                    marks.texts[row, column] = split_texts[text]
    return marks


def _take_xls_record(marks: _Marks, number: int, body: bytes) -> None:
    if number in _CELLS:
        _take_xls_cell(marks, number, body)
    elif number == _MULRK:
        row, column = struct.unpack_from("<HH", body)
        marks.add_cell(row, column, (len(body) - 6) // 6)
    elif number == _ROW and body[12] & 0x20:
        marks.hidden_rows.add(struct.unpack_from("<H", body)[0])
    elif number == _COLINFO and body[8] & 1:
        first, last = struct.unpack_from("<HH", body)
        marks.hidden_columns.append((first, min(last, 255)))
    elif number == _MERGECELLS:
        for n in range(struct.unpack_from("<H", body)[0]):
            marks.add_merged(*struct.unpack_from("<4H", body, 2 + 8 * n))


def _take_xls_cell(marks: _Marks, number: int, body: bytes) -> None:
    row, column = struct.unpack_from("<HH", body)
    marks.add_cell(row, column)
    if number == _BOOLERR and body[7]:
        marks.add_error(row, column, body[6])
    elif number in _FORMULAS and body[12:14] == b"\xff\xff" and body[6] == 2:
        marks.add_error(row, column, body[8])


# .xlsb: a ZIP file with parts of records, whose numbers and sizes have up to two and four bytes.


_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, MarkupError),
    *(EOFError, OSError, RuntimeError, ValueError, KeyError, IndexError),
)
_BOOK, _RELATIONS = "xl/workbook.bin", "xl/_rels/workbook.bin.rels"
_WORKSHEET = "/worksheet"
_BUNDLE_SHEET, _ROW_HEADER, _COLUMN_INFO, _MERGE_CELL = 156, 0, 60, 176
_BINARY_CELLS, _BINARY_ERRORS = range(2, 12), (3, 11)
"""The records of cells with a value or a formula, and of those with an error."""


def read_xlsb(path: Path, data: bytes) -> tuple[list[PlainTab], bytes]:
    """Return the worksheets of a binary workbook, and its part with the defined names. Raises
    SheetError if it is damaged or too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            size = sum(info.file_size for info in infos)
            if len(infos) > MAX_PARTS:
                raise SheetError(f"{path}: the workbook has too many parts", hint=_AS_CSV)
            if size > MAX_UNPACKED or (size > FREE and size > len(data) * MAX_RATIO):
                raise SheetError(
                    f"{path}: the unpacked workbook is {size / 1e6:,.0f} MB, "
                    f"{size // len(data)} times its packed size; it is not opened",
                    hint=_AS_CSV,
                )
            book = archive.read(_BOOK)
            targets = _worksheet_targets(archive)
            marks = [
                _read_xlsb_sheet(archive.read(targets[each]))
                for each in _sheet_relations(book)
                if each in targets
            ]
    except SheetError:
        raise
    except _UNREADABLE as error:
        raise _damage_error(path, error or "it ends too early") from None
    return _read_tabs(path, data, marks), book


def _worksheet_targets(archive: zipfile.ZipFile) -> Mapping[str, str]:
    """Return the part of each worksheet, by the id of its relation."""
    return {
        each["Id"]: posixpath.normpath(posixpath.join("xl", each["Target"])).lstrip("/")
        for local, each in elements(archive.read(_RELATIONS))
        if local == "Relationship" and each.get("Type", "").endswith(_WORKSHEET)
    }


def _sheet_relations(book: bytes) -> Iterator[str]:
    """Yield the id of the relation of each sheet."""
    for number, body in _binary_records(book):
        if number == _BUNDLE_SHEET:
            length = struct.unpack_from("<I", body, 8)[0]
            yield body[12 : 12 + 2 * length].decode("utf-16-le")


def _binary_records(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        number = data[at]
        at += 1
        if number & 0x80:
            number = (number & 0x7F) | (data[at] & 0x7F) << 7
            at += 1
        size = shift = 0
        for _ in range(4):
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        yield number, data[at : at + size]
        at += size


def _read_xlsb_sheet(data: bytes) -> _Marks:
    marks, row = _Marks(), 0
    for number, body in _binary_records(data):
        if number == _ROW_HEADER:
            row = struct.unpack_from("<I", body)[0]
            if body[11] & 0x10:
                marks.hidden_rows.add(row)
        elif number in _BINARY_CELLS:
            column = struct.unpack_from("<I", body)[0]
            marks.add_cell(row, column)
            if number in _BINARY_ERRORS:
                marks.add_error(row, column, body[8])
        elif number == _COLUMN_INFO:
            first, last = struct.unpack_from("<II", body)
            if body[16] & 1:
                marks.hidden_columns.append((first, min(last, (1 << 14) - 1)))
        elif number == _MERGE_CELL:
            first_row, last_row, first, last = struct.unpack_from("<4I", body)
            marks.add_merged(first_row, last_row, first, min(last, (1 << 14) - 1))
    return marks
