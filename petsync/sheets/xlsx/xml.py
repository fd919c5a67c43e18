"""The XML of a workbook's parts, parsed by expat with the byte position of each cell.

A DTD is refused: no spreadsheet program writes one, and its entities could be an XML bomb.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from xml.parsers import expat

import numpy as np

from petsync.sheets.grid import column_number, letter

__all__ = [
    "MAX_DEPTH",
    "MAX_ELEMENTS",
    "CellMark",
    "MarkupError",
    "RowMark",
    "Walk",
    "check_count",
    "check_form",
    "contains_pair",
    "elements",
    "has_only_tags",
]


_REFERENCE = re.compile(r"([A-Za-z]{1,6})([0-9]{1,10})", re.ASCII)
_DIGITS = 10
_ROW = re.compile(r"[0-9]{1,10}", re.ASCII)
_COLUMNS = 1 << 29


MAX_ELEMENTS = 400_000
"""The maximum number of elements of a part that is kept in memory: a workbook's list of sheets and
names, the relations of a part, the styles, comments and drawings. Excel allows 65,490 cell formats.
"""
MAX_DEPTH = 256
"""The maximum depth of a worksheet's elements, because a parser keeps all open ones."""
_SPAN = 1_000_000
_MANY = 100_000
_LONG = re.compile(rb"<[^<]{%d,}" % _SPAN)


class MarkupError(ValueError):
    """The XML of a part is not well-formed, is too large, has a DTD, or contradicts itself: for
    example, two cells have the same reference.
    """


@dataclass(slots=True)
class CellMark:
    """One `c` element."""

    column: int
    """The number of the column, from 0."""
    start: int
    """The position of the element's first byte; `end` is the position after its last one."""
    kind: str
    style: str
    formula: bool = False
    """Whether the cell has a formula."""
    value: str = ""
    end: int = 0
    has_value: bool = False
    """Whether the cell has an element for the value."""
    formula_text: str = ""


@dataclass(slots=True)
class RowMark:
    """One `row` element."""

    number: int
    """The number of the row, from 1."""
    cells: list[CellMark]
    hidden: bool
    close: int = 0
    """The position of the end tag; without one (`<row/>`), the end of the element."""
    closed: bool = True
    """Whether the element has an end tag."""


class Walk:
    """Parses a worksheet part and passes each row to `on_row` at its end. Rows and cells may be in
    any order.

    After `run`, `merged` has the merged ranges, and `prefix` the namespace prefix of the rows.
    """

    def __init__(self, on_row: Callable[[RowMark], None]) -> None:
        self.merged: list[str] = []
        self.prefix = ""
        self._on_row = on_row
        self._row: RowMark | None = None
        self._number = 0
        self._places = array("q")
        self._in_order = True
        self._text: list[str] | None = None
        self._values: list[str] = []
        self._in_cell = False
        self._depth = 0
        self._data = b""
        self._parser = _parser(self._start)
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def run(self, data: bytes, *, whole: bool = True) -> None:
        """Parse the part, or its start.

        Raises MarkupError if it is not well-formed, or if the value of a cell is uncertain: two
        cells have the same reference, or a cell has a reference to another row.
        """
        self._data = data
        _parse(self._parser, data, whole=whole)
        if not self._in_order:
            self._check_places()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MarkupError(f"its elements are nested more than {MAX_DEPTH} levels deep")
        local = name.rpartition(":")[2]
        if local == "c" and self._row is not None:
            self._start_cell(self._row, attributes)
        elif local in ("v", "t"):
            self._text = []
        elif local == "f":
            self._mark_formula()
            self._text = []
        elif local == "row":
            self.prefix = name[: -len(local)]
            self._start_row(attributes)
        elif local == "mergeCell":
            self.merged.append(attributes.get("ref", ""))

    def _start_row(self, attributes: Mapping[str, str]) -> None:
        given = attributes.get("r", "").strip()
        if given and not _ROW.fullmatch(given):
            raise MarkupError(f"a row has the invalid number {given[:20]!r}")
        self._number = int(given) if given else self._number + 1
        hidden = attributes.get("hidden", "") in ("1", "true")
        self._row = RowMark(self._number, [], hidden)

    def _start_cell(self, row: RowMark, attributes: Mapping[str, str]) -> None:
        if self._in_cell:
            raise MarkupError(f"a cell in the row {self._number} is within another one")
        self._in_cell = True
        after = row.cells[-1].column + 1 if row.cells else 0
        column = self._column(attributes.get("r", "").strip(), after)
        place = self._number * _COLUMNS + column
        self._in_order &= not self._places or self._places[-1] < place
        self._places.append(place)
        kind, style = attributes.get("t", ""), attributes.get("s", "")
        row.cells.append(CellMark(column, self._parser.CurrentByteIndex, kind, style))

    def _column(self, reference: str, after: int) -> int:
        """Return the column that a cell's reference names; `after` if the cell has no reference.
        Raises MarkupError for a reference to another row.
        """
        if not reference:
            return after
        place = _REFERENCE.fullmatch(reference)
        if place is None or int(place[2]) != self._number:
            raise MarkupError(f"the cell {reference[:20]} is in the row {self._number}")
        return column_number(place[1])

    def _check_places(self) -> None:
        places = np.sort(np.frombuffer(self._places, np.int64))
        repeated = places[1:][places[1:] == places[:-1]]
        if len(repeated):
            number, column = divmod(int(repeated[0]), _COLUMNS)
            raise MarkupError(f"the cell {letter(column)}{number} occurs twice")

    def _mark_formula(self) -> None:
        if self._row is not None and self._row.cells:
            self._row.cells[-1].formula = True

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, name: str) -> None:
        self._depth -= 1
        local = name.rpartition(":")[2]
        row = self._row
        if row is None:
            return
        if local == "row":
            row.close = self._parser.CurrentByteIndex
            row.closed = self._at_end_tag(name)
            self._on_row(row)
            self._row = None
        elif local == "c" and row.cells:
            at = self._parser.CurrentByteIndex
            row.cells[-1].end = self._data.index(b">", at) + 1 if self._at_end_tag(name) else at
            # Join the pieces only here, because a value may consist of millions of them.
            row.cells[-1].value = "".join(self._values)
            self._values, self._in_cell = [], False
        elif local in ("v", "t") and self._text is not None and row.cells:
            if self._in_cell:
                self._values += self._text
            row.cells[-1].has_value = True
            self._text = None
        elif local == "f" and self._text is not None and row.cells:
            row.cells[-1].formula_text = "".join(self._text)
            self._text = None

    def _at_end_tag(self, name: str) -> bool:
        """Return true if the element has an end tag; for `<c/>`, expat's position is after the
        element.
        """
        tag, at = b"</" + name.encode(), self._parser.CurrentByteIndex
        after = self._data[at + len(tag) : at + len(tag) + 1]
        return self._data.startswith(tag, at) and after in b"> \t\r\n"


# Searches in the bytes of a large part. numpy finds a frequent byte, or a pair of bytes, several
# times as fast as the methods of `bytes` and regular expressions.


_PIECE = 1 << 20
_PROLOG = 4


def contains_pair(data: bytes, pair: bytes, start: int = 0, end: int | None = None) -> bool:
    """Return true if `data[start:end]` contains these two bytes, one after the other."""
    raw = np.frombuffer(data, np.uint8)[start:end]
    first, second = pair
    if first not in data or second not in data:
        return False
    pieces = (raw[at : at + _PIECE + 1] for at in range(0, len(raw), _PIECE))
    return any(((each[:-1] == first) & (each[1:] == second)).any() for each in pieces)


def has_only_tags(data: bytes) -> bool:
    """Return true if text that looks like a tag is one, because a part has no comment, CDATA or
    processing instruction.
    """
    return not contains_pair(data, b"<!") and not contains_pair(data, b"<?", _PROLOG)


def _count(data: bytes, byte: bytes) -> int:
    raw = np.frombuffer(data, np.uint8)
    pieces = (raw[at : at + _PIECE] for at in range(0, len(raw), _PIECE))
    return sum(int(np.count_nonzero(piece == ord(byte))) for piece in pieces)


def check_count(data: bytes, most: int) -> None:
    """Raise MarkupError for a part with more than twice `most` tags, or with an element of more
    than 100,000 attributes: parsing takes some hundred bytes for each.
    """
    count = _count(data, b"<")
    if count > 2 * most:
        raise MarkupError(f"it has more than {most:,} elements")
    is_long = _count(data, b"=") > _MANY + 8 * count
    if is_long and any(each[0].count(b"=") > _MANY for each in _LONG.finditer(data)):
        raise MarkupError(f"it has an element of more than {_MANY:,} attributes")


def check_form(data: bytes) -> None:
    """Raise MarkupError if the part is not well-formed."""
    _parse(_parser(None), data)


def first_rows(data: bytes, most: int) -> list[list[str | int]]:
    """Return the texts of the first rows of a worksheet part, which may be truncated; for a cell
    with a shared string, the index of the string.
    """
    rows: list[list[str | int]] = []

    def handle_row(row: RowMark) -> None:
        if len(rows) < most:
            rows.append([_text_or_index(cell) for cell in row.cells])

    walk = Walk(handle_row)
    # A mistake in the part matters only if the worksheet is read.
    with suppress(MarkupError):
        walk.run(data, whole=False)
    return rows


def _text_or_index(cell: CellMark) -> str | int:
    is_index = cell.kind == "s" and cell.value.isdecimal() and len(cell.value) < _DIGITS
    return int(cell.value) if is_index else cell.value


def elements(data: bytes) -> list[tuple[str, dict[str, str]]]:
    """Return the elements of a small part in order: local name, and attributes by local name.

    Raises MarkupError if the part is not well-formed, has a DTD or has too many elements.
    """
    check_count(data, MAX_ELEMENTS)
    found: list[tuple[str, dict[str, str]]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        local = {key.rpartition(":")[2]: value for key, value in attributes.items()}
        found.append((name.rpartition(":")[2], local))

    _parse(_parser(start), data)
    return found


def _parser(start: Callable[[str, dict[str, str]], None] | None) -> expat.XMLParserType:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = _refuse
    return parser


def _refuse(*_: object) -> None:
    raise MarkupError("it has a document type declaration")


def _parse(parser: expat.XMLParserType, data: bytes, *, whole: bool = True) -> None:
    try:
        parser.Parse(data, whole)
    except (expat.ExpatError, LookupError, ValueError) as error:
        # LookupError and ValueError mean an unknown encoding, or one with multi-byte characters.
        raise MarkupError(str(error)) from None
