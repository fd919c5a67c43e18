"""Mark findings in a copy of a sheet, with colours and comments in the cells."""

from __future__ import annotations

import io
import itertools
import re
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from openpyxl.styles import Font, PatternFill
from openpyxl.worksheet.worksheet import Worksheet

from petsync.errors import SheetError
from petsync.sheets import base
from petsync.sheets.csv import Line, dialect_of, record_lines, unescape_formula
from petsync.sheets.files import Source
from petsync.sheets.grid import column_number, letter
from petsync.sheets.results import sidecar_lines
from petsync.sheets.xlsx.edit import NewCell, Row, WorksheetPart, corners
from petsync.sheets.xlsx.edit_parts import (
    Element,
    Splices,
    Styles,
    WorkbookParts,
    outline,
    parse_whole,
    start_tag,
    xml_text,
)
from petsync.sheets.xlsx.write import OWN_RULE, hide_lines, name_base
from petsync.sheets.xlsx.xml import MarkupError
from petsync.table.cells import make_visible
from petsync.table.rules import RULE_PREFIX
from petsync.table.sheet import Finding, Sheet
from petsync.workbook import MAX_CELL, MAX_ROWS, CellStyle, bulk_workbook, height_xml, row_xml

__all__ = [
    "AUTHOR",
    "ERROR",
    "MAX_COMMENTS",
    "TAB",
    "WARNING",
    "AnnotatedBytes",
    "Box",
    "Cell",
    "Comments",
    "Layout",
    "Mark",
    "Painter",
    "annotate_workbook",
    "cell_losses",
    "convert_to_workbook",
    "count_lines",
    "file_losses",
    "highest_block",
    "marks_of",
    "new_comments",
    "new_shapes",
    "resize_boxes",
    "sheet_losses",
    "update_boxes",
    "with_boxes",
    "without_boxes",
]


# A CSV file as a workbook of its cells. A record that starts in line n is in row n.


TAB = "Pets"
_UNWRITABLE = re.compile(r"[^\x20-\x7e]")
_WIDE, _NARROW, _SAMPLE = 48, 10, 500
_Rows = Sequence[tuple[int, list[str]]]


def convert_to_workbook(source: Source, sheet: Sheet) -> Source:
    """Return the CSV file as a workbook, with every cell as text in the worksheet TAB, and with the
    lines of the file's sidecar.

    Raises SheetError if the file is too large for a worksheet.
    """
    records = [
        each for each in record_lines(source, dialect_of(source, sheet)) if _has_content(each)
    ]
    if records[-1].number > MAX_ROWS:
        raise SheetError(
            f"{source.path}: line {records[-1].number:,} is beyond the last row of a worksheet "
            f"({MAX_ROWS:,})",
            hint="Split the file. `petsync check` lists all findings of the whole file.",
        )
    rows = [(each.number, _texts(each, source)) for each in records]
    with bulk_workbook() as bulk:
        tab = bulk.book.create_sheet(TAB)
        body, head = _lay_out(tab, rows, sheet.header_row)
        if (base_lines := sidecar_lines(source)) is not None:
            # A damaged base is refused in the copy, too, so replaced characters do no harm.
            lines = (_UNWRITABLE.sub("?", line[:MAX_CELL]) for line in base_lines)
            hide_lines(bulk.book, base.BASE_TAB, lines)
            name_base(bulk.book)
        columns = max(len(texts) for _, texts in rows)
        # Without a fixed height, photo URLs on several lines would make the rows high.
        height = height_xml(15, is_fixed=True)
        letters = [*map(letter, range(columns))]
        styles = {
            is_head: [CellStyle(each, style, style) for each in letters]
            for is_head, style in ((False, body), (True, head))
        }
        marked = (
            row_xml(number, texts, styles[number == sheet.header_row], height)
            for number, texts in rows
        )
        bulk.add_rows(tab, marked, columns=columns, last_row=rows[-1][0])
        file = io.BytesIO()
        bulk.save(file, with_seal=True)
    return Source(source.path, "workbook", file.getvalue())


def _has_content(line: Line) -> bool:
    return line.cells is None or any(line.cells)


def _texts(line: Line, source: Source) -> list[str]:
    """Return the unescaped cells of a record; if it cannot be parsed, one cell with its text.

    Raises SheetError if a cell is too long for a workbook.
    """
    record_text = [line.body.decode("utf-8", "replace")]
    texts = record_text if line.cells is None else list(map(unescape_formula, line.cells))
    if any(len(text) > MAX_CELL for text in texts):
        raise SheetError(
            f"{source.path}: line {line.number} has a cell of more than the {MAX_CELL:,} "
            "characters that a workbook's cell can have",
            hint="Shorten it. `petsync check` lists all findings of the whole file.",
        )
    return texts


def _lay_out(sheet: Worksheet, rows: _Rows, header_row: int) -> tuple[int, int]:
    """Format the columns, and return the styles of a cell and of a header."""
    sheet.freeze_panes = f"A{header_row + 1}"
    body, head = sheet.cell(1, 1), sheet.cell(1, 2)
    body.number_format = head.number_format = "@"
    head.font = Font(name="Calibri", size=11, bold=True)
    head.fill = PatternFill("solid", fgColor="DDEBF7")
    styles = body.style_id, head.style_id
    sheet.delete_rows(1)
    width = next(len(texts) for number, texts in rows if number >= header_row)
    for column in range(width):
        dimension = sheet.column_dimensions[letter(column)]
        dimension.number_format = "@"
        lengths = (len(texts[column]) for _, texts in rows[:_SAMPLE] if column < len(texts))
        dimension.width = min(max(_NARROW, 2 + max(lengths)), _WIDE)
    return styles


# A worksheet's comments: those of petsync are added or removed, all others stay.


AUTHOR = "petsync"
_THREADED = "tc="
_FONT = (
    '<{0}rPr><{0}sz val="9"/><{0}color indexed="81"/><{0}rFont val="Tahoma"/>'
    '<{0}family val="2"/></{0}rPr>'
)
# One finding in a comment: the problem, the suggestion on the next line if there is one, and the
# code at the end.
_OWN_TEXT = re.compile(
    r"(?:\A|(?<=\n))petsync: [^\n]+(?:\n[^\n]+)?? "
    rf"\((?:[a-z0-9-]+|{RULE_PREFIX}[A-Za-z0-9_.-]+)\)(?:\n+|\Z)"
)
_ILLEGAL = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")


def new_comments(namespace: str) -> bytes:
    """Return the comments part for a worksheet without comments."""
    return f'<comments xmlns="{namespace}"><authors/><commentList/></comments>'.encode()


class Comments:
    """The comments of one worksheet, without the earlier ones of petsync.

    `removed_addresses` has the addresses of the comments that had only petsync's text; these are
    removed. `removed` has, by address, the text of petsync that is removed from a comment that
    stays. `threaded` has the addresses of threaded comments, to which nothing can be added. Raises
    MarkupError if the part is not well-formed, or has no list of comments or authors.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._root = outline(data)
        self._splices = Splices()
        self._authors = self._section("authors")
        self._list = self._section("commentList")
        self._texts: dict[str, Element] = {}
        self._added = ""
        self.removed_addresses: set[str] = set()
        self.removed: dict[str, str] = {}
        self.threaded: set[str] = set()
        self._names = [each.text for each in self._authors.all("author")]
        for comment in self._list.all("comment"):
            self._read_comment(comment)

    @property
    def others(self) -> frozenset[str]:
        """The addresses of the comments that stay, without threaded ones."""
        return frozenset(self._texts)

    @property
    def had_own(self) -> bool:
        """True if the part had comments with text of petsync."""
        return bool(self.removed_addresses or self.removed)

    def add(self, address: str, text: str) -> None:
        """Add a comment with this text to a cell, or the text to the end of the cell's comment."""
        prefix = self._root.prefix
        font = _FONT.format(prefix)
        existing = self._texts.get(address)
        if existing is None:
            run = f"<{prefix}r>{font}{self._t(text)}</{prefix}r>"
            tag = start_tag(f"{prefix}comment", {"ref": address, "authorId": str(self._author())})
            self._added += f"{tag}<{prefix}text>{run}</{prefix}text></{prefix}comment>"
            return
        run = f"<{prefix}r>{font}{self._t(chr(10) * 2 + text)}</{prefix}r>"
        for plain in existing.all("t"):
            self._splices.insert(plain.start, f"<{prefix}r>")
            self._splices.insert(plain.end, f"</{prefix}r>")
        phonetic = next((each for each in existing.children if _is_phonetic(each)), None)
        if phonetic is None:
            self._splices.append(existing, run)
        else:
            self._splices.insert(phonetic.start, run)

    def bytes(self) -> bytes:
        """Return the part with all changes."""
        prefix = self._root.prefix
        new = self._names[len(list(self._authors.all("author"))) :]
        if new:
            names = (f"<{prefix}author>{xml_text(name)}</{prefix}author>" for name in new)
            self._splices.append(self._authors, "".join(names))
        if self._added:
            self._splices.append(self._list, self._added)
        return self._splices.apply(self._data)

    def _section(self, name: str) -> Element:
        section = self._root.one(name)
        if section is None:
            raise MarkupError(f"the part with the comments has no element {name}")
        return section

    def _read_comment(self, comment: Element) -> None:
        address, text = comment.get("ref").upper().replace("$", ""), comment.one("text")
        number = parse_whole(comment.get("authorId"))
        author = dict(enumerate(self._names)).get(-1 if number is None else number, "")
        if author.startswith(_THREADED):
            self.threaded.add(address)
        elif text is not None and any(_OWN_TEXT.search(each.text) for _, each in _runs(text)):
            self._clean(comment, text, address)
        elif text is not None:
            self._texts[address] = text

    def _clean(self, comment: Element, text: Element, address: str) -> None:
        remaining_runs = [(run, piece, _OWN_TEXT.sub("", piece.text)) for run, piece in _runs(text)]
        if not any(remaining_text.strip() for _, _, remaining_text in remaining_runs):
            self._splices.replace(comment.start, comment.end, "")
            self.removed_addresses.add(address)
            return
        self._texts[address] = text
        removed_texts = (
            match[0] for _, piece, _ in remaining_runs for match in _OWN_TEXT.finditer(piece.text)
        )
        self.removed[address] = "".join(removed_texts)
        is_last = True
        for run, piece, remaining_text in reversed(remaining_runs):
            # The blank lines above petsync's text are removed with it.
            new_text = remaining_text.rstrip("\n") if is_last else remaining_text
            is_last &= not new_text
            if run is not piece and piece.text and not new_text:
                self._splices.replace(run.start, run.end, "")
            elif new_text != piece.text:
                self._splices.replace(piece.inside, piece.close, _content(new_text))

    def _author(self) -> int:
        if AUTHOR not in self._names:
            self._names.append(AUTHOR)
        return self._names.index(AUTHOR)

    def _t(self, text: str) -> str:
        prefix = self._root.prefix
        return f'<{prefix}t xml:space="preserve">{_content(text)}</{prefix}t>'


def _runs(text: Element) -> Iterator[tuple[Element, Element]]:
    """Yield each run element with each of its text elements; a text element outside a run is itself
    a run.
    """
    for child in text.children:
        if child.local == "t":
            yield child, child
        elif child.local == "r":
            yield from ((child, piece) for piece in child.all("t"))


def _content(text: str) -> str:
    return xml_text(_ILLEGAL.sub("\ufffd", text))


def _is_phonetic(element: Element) -> bool:
    return element.local in ("rPh", "phoneticPr")


# The position and the size of a comment's box, in columns, rows and pixels.


Box = tuple[int, int, int, int, int, int, int, int]
"""The corners of a box: the left column, the offset in it, the top row, the offset in it; then the
same for the right column and the bottom row. Offsets are in pixels.
"""

_LAST_COLUMN, _LAST_ROW = (1 << 14) - 1, (1 << 20) - 1
_WIDTH, _LINE_HEIGHT, _LETTERS, _TALLEST = 280, 15, 42, 450
_GAP, _MARGIN = 15, 10
_DIGIT, _PADDING = 7, 5
_PIXELS_A_POINT = 4 / 3


@dataclass(frozen=True, slots=True)
class _Axis:
    """The columns or the rows of a worksheet, in ranges of the same size in pixels; a hidden column
    or row has the size 0.
    """

    last: int
    firsts: list[int] = field(default_factory=list)
    """The first column or row of each range, from 0."""
    starts: list[int] = field(default_factory=list)
    """The distance in pixels of each range from the start of the worksheet."""
    sizes: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int, int]], size: int, last: int) -> _Axis:
        """Return the axis with these ranges (first, last, size); the others have the given size."""
        axis, following = cls(last), 0
        for first, end, own_size in sorted(ranges):
            if end < following:
                continue
            if first > following:
                axis._add(following, size)
            axis._add(max(first, following), own_size)
            following = end + 1
        axis._add(following, size)
        return axis

    def size(self, at: int) -> int:
        """Return the size of a column or row."""
        return self.sizes[bisect(self.firsts, at) - 1]

    def along(self, at: int, pixels: int) -> tuple[int, int]:
        """Return the column or row, and the pixels into it, at a distance of `pixels` from the
        start of `at`.
        """
        place = max(self._start(at) + pixels, 0)
        # Of several ranges that start here, only the last is not hidden.
        index = bisect(self.starts, place) - 1
        size, found = self.sizes[index], self.last
        if size:
            found = min(self.firsts[index] + (place - self.starts[index]) // size, self.last)
        return found, place - self._start(found)

    def _start(self, at: int) -> int:
        index = bisect(self.firsts, at) - 1
        return self.starts[index] + (at - self.firsts[index]) * self.sizes[index]

    def _add(self, first: int, size: int) -> None:
        start = self._start(first) if self.firsts else 0
        self.firsts.append(first)
        self.starts.append(start)
        self.sizes.append(max(size, 0))


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of a worksheet's columns and rows in pixels."""

    columns: _Axis
    rows: _Axis

    @classmethod
    def of(cls, root: Element, heights: Mapping[int, float], hidden: Collection[int]) -> Layout:
        """Return the layout of a worksheet; `heights` has the heights of rows in points, by row
        number from 1, and `hidden` the numbers of the hidden rows.
        """
        standard = root.one("sheetFormatPr")
        wide = standard.get("defaultColWidth") if standard else ""
        high = standard.get("defaultRowHeight") if standard else ""
        columns = (
            (
                (parse_whole(each.get("min")) or 1) - 1,
                (parse_whole(each.get("max")) or 1) - 1,
                _column(each),
            )
            for each in root.all("cols", "col")
        )
        all_heights = {**heights, **dict.fromkeys(hidden, 0.0)}
        rows = (
            (number - 1, number - 1, round(height * _PIXELS_A_POINT))
            for number, height in all_heights.items()
        )
        width, height = _pixels(wide) if wide else 64, round(_float(high, 15) * _PIXELS_A_POINT)
        return cls(_Axis.of(columns, width, _LAST_COLUMN), _Axis.of(rows, height, _LAST_ROW))

    def box(self, row: int, column: int, lines: int) -> Box:
        """Return a box for `lines` lines beside a cell (row and column from 0); as in spreadsheet
        programs, it starts a little above the cell.
        """
        left = column + 1 if column < _LAST_COLUMN - 8 else max(column - 8, 0)
        top, into = (row - 1, min(_MARGIN, self.rows.size(row - 1))) if row else (0, 2)
        right, across = self.columns.along(left, _GAP + _WIDTH)
        bottom, down = self.rows.along(top, into + _box_height(lines))
        return left, _GAP, top, into, right, across, bottom, down

    def enlarge(self, box: Box, lines: int) -> Box:
        """Return the box, enlarged by `lines` lines, or reduced if `lines` is negative."""
        bottom, down = self.rows.along(box[6], box[7] + lines * _LINE_HEIGHT)
        return (*box[:6], bottom, down)


def count_lines(text: str) -> int:
    """Return the number of lines that a text needs in a box, approximately."""
    return sum(max(1, ceil(len(line) / _LETTERS)) for line in text.split("\n"))


def _box_height(lines: int) -> int:
    return min(lines * _LINE_HEIGHT + _MARGIN, _TALLEST)


def _column(element: Element) -> int:
    is_hidden = element.get("hidden") in ("1", "true")
    return 0 if is_hidden else _pixels(element.get("width"))


def _pixels(width: str) -> int:
    """Return the pixels of a width in characters (ECMA-376, part 1, 18.3.1.13)."""
    return round(_float(width, (64 - _PADDING) / _DIGIT) * _DIGIT)


def _float(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


# The mark of a cell in an annotated copy: one text for all its findings, and its severity.


_PLACE = re.compile(r"(?:.*!)?([A-Z]{1,3})([0-9]{1,7})", re.DOTALL)
_LINE_PLACE = re.compile(r"line ([0-9]+)(?:, column ([0-9]+))?")
_BREAKS = re.compile(r"\s+")
_MAX_FINDINGS, _MAX_LINE_LENGTH = 8, 320


@dataclass(slots=True)
class Mark:
    """A marked cell: its row (from 1), its column (from 0), and its findings."""

    row: int
    column: int
    is_error: bool = False
    paragraphs: dict[str, None] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The cell in A1 notation."""
        return f"{letter(self.column)}{self.row}"

    @property
    def text(self) -> str:
        """The findings, each as a paragraph; of more than eight, the first eight and the number of
        the others.
        """
        shown = list(self.paragraphs)[:_MAX_FINDINGS]
        more = len(self.paragraphs) - len(shown)
        if more:
            are = "finding is" if more == 1 else "findings are"
            shown.append(f"petsync: {more} more {are} listed by petsync check. (more)")
        return "\n\n".join(shown)


def marks_of(
    findings: Iterable[Finding], merged: Mapping[tuple[int, int], tuple[int, int]]
) -> dict[tuple[int, int], Mark]:
    """Return a mark for each cell with findings, by row and column. Of merged cells only the first
    one is visible: `merged` maps the others to it.
    """
    marks: dict[tuple[int, int], Mark] = {}
    for finding in findings:
        cell = _finding_cell(finding)
        cell = merged.get(cell, cell)
        mark = marks.setdefault(cell, Mark(*cell))
        mark.is_error |= finding.severity == "error"
        mark.paragraphs[_paragraph(finding)] = None
    return marks


def _finding_cell(finding: Finding) -> tuple[int, int]:
    """Return the cell that a finding's address names, or the first cell of the row if the address
    names only a row.
    """
    place, line = _PLACE.fullmatch(finding.address), _LINE_PLACE.fullmatch(finding.address)
    if place is not None:
        return int(place[2]), column_number(place[1])
    if line is not None:
        return int(line[1]), int(line[2] or 1) - 1
    return finding.row, 0


def _paragraph(finding: Finding) -> str:
    problem, cure = _line(finding.problem), _line(finding.suggestion)
    return f"petsync: {problem}" + (f"\n{cure}" if cure else "") + f" ({finding.rule})"


def _line(text: str) -> str:
    line = _BREAKS.sub(" ", make_visible(text, keep="\t\n\r")).strip()
    return line if len(line) <= _MAX_LINE_LENGTH else line[: _MAX_LINE_LENGTH - 1].rstrip() + "…"


# The boxes of comments: shapes in a VML part, edited as text.
#
# Excel itself writes VML that is not well-formed XML, so an XML parser cannot be used.


Cell = tuple[int, int]
"""A cell by row and column, both from 0, as VML counts them."""

_NAMESPACES = {
    "v": "urn:schemas-microsoft-com:vml",
    "o": "urn:schemas-microsoft-com:office:office",
    "x": "urn:schemas-microsoft-com:office:excel",
}
_BLOCK = 1024
# Any prefix that a program uses for the namespaces.
_P = rb"(?:[\w.-]+:)?"
# The search for an end tag stops at the next shape, so that each byte is searched only once.
_SHAPE = re.compile(rb"<%bshape\s[^<]*(?:<(?!/?%bshape[\s>])[^<]*)*</%bshape\s*>" % (_P, _P, _P))
_NOTE = re.compile(rb"ObjectType\s*=\s*[\"']Note[\"']")
_ROW = re.compile(rb"<%bRow\s*>\s*([0-9]{1,9})\s*<" % _P)
_COLUMN = re.compile(rb"<%bColumn\s*>\s*([0-9]{1,9})\s*<" % _P)
_ANCHOR = re.compile(rb"(<%bAnchor\s*>)([0-9,\s]+)(?=</%bAnchor)" % (_P, _P))
_BLOCKS = re.compile(rb"<%bidmap\s[^<>]*?\bdata\s*=\s*[\"']([0-9,\s]*)[\"']" % _P)
_HEIGHT = re.compile(rb"(?<![\w-])(height:\s*)([0-9]+(?:\.[0-9]+)?)(px|pt)")
_LINE_UNITS = {b"px": 15, b"pt": 11.25}
_ROOT = re.compile(rb"<xml\b[^<>]*>")
_TYPE = (
    '<v:shapetype id="_x0000_t202" coordsize="21600,21600" o:spt="202" '
    'path="m,l,21600r21600,l21600,xe"><v:stroke joinstyle="miter"/>'
    '<v:path gradientshapeok="t" o:connecttype="rect"/></v:shapetype>'
)
_NOTE_SHAPE = (
    '<v:shape id="_x0000_s{id}" type="#_x0000_t202" style="position:absolute;z-index:{z};'
    'visibility:hidden" fillcolor="#ffffe1" o:insetmode="auto">'
    '<v:fill color2="#ffffe1"/><v:shadow on="t" color="black" obscured="t"/>'
    '<v:path o:connecttype="none"/><v:textbox style="mso-direction-alt:auto">'
    '<div style="text-align:left"></div></v:textbox><x:ClientData ObjectType="Note">'
    "<x:MoveWithCells/><x:SizeWithCells/><x:Anchor>{anchor}</x:Anchor>"
    "<x:AutoFill>False</x:AutoFill><x:Row>{row}</x:Row><x:Column>{column}</x:Column>"
    "</x:ClientData></v:shape>"
)


def new_shapes() -> bytes:
    """Return the VML part for a worksheet without shapes."""
    names = "".join(f' xmlns:{prefix}="{name}"' for prefix, name in _NAMESPACES.items())
    return f"<xml{names}></xml>".encode()


def highest_block(data: bytes) -> int:
    """Return the highest number of a block of 1,024 shape ids that the VML part uses; 0 if there is
    none.
    """
    numbers = re.findall(rb"\b[0-9]{1,9}\b", b",".join(_BLOCKS.findall(data)))
    return max(map(int, numbers), default=0)


def without_boxes(data: bytes, cells: Collection[Cell]) -> bytes:
    """Return the part without the boxes of the comments on these cells."""
    return _each_note(data, lambda shape, cell: b"" if cell in cells else shape)


def resize_boxes(
    data: bytes, lines: Mapping[Cell, int], enlarge: Callable[[Box, int], Box]
) -> bytes:
    """Return the part with the boxes on these cells enlarged or reduced by the given numbers of
    lines.
    """

    def size(shape: bytes, cell: Cell) -> bytes:
        more = lines.get(cell, 0)
        if not more:
            return shape
        if _ANCHOR.search(shape):
            return _ANCHOR.sub(
                lambda match: match[1] + _resize_anchor(match[2], more, enlarge), shape
            )
        return _HEIGHT.sub(lambda match: _resize_height(match, more), shape, count=1)

    return _each_note(data, size)


def with_boxes(data: bytes, boxes: Iterable[tuple[Cell, Box]], block: int) -> bytes:
    """Return the part with hidden boxes at these cells; their ids start in the free block
    `block`.
    """
    shapes = []
    for n, ((row, column), box) in enumerate(boxes, 1):
        anchor = ", ".join(map(str, box))
        shapes.append(
            _NOTE_SHAPE.format(id=block * _BLOCK + n, z=n, anchor=anchor, row=row, column=column)
        )
    if not shapes:
        return data
    head = "" if b'"_x0000_t202"' in data.replace(b"#_x0000_t202", b"") else _TYPE
    blocks = ",".join(str(block + n) for n in range(len(shapes) // _BLOCK + 1))
    data = _with_blocks(_complete_root(data), blocks)
    before, end, behind = data.rpartition(b"</xml") if b"</xml" in data else (data, b"", b"")
    return before + head.encode() + "".join(shapes).encode() + end + behind


def _each_note(data: bytes, change: Callable[[bytes, Cell], bytes]) -> bytes:
    def change_shape(match: re.Match[bytes]) -> bytes:
        row, column = _ROW.search(match[0]), _COLUMN.search(match[0])
        if row is None or column is None or not _NOTE.search(match[0]):
            return match[0]
        return change(match[0], (int(row[1]), int(column[1])))

    return _SHAPE.sub(change_shape, data)


def _resize_anchor(text: bytes, more: int, enlarge: Callable[[Box, int], Box]) -> bytes:
    try:
        a, b, c, d, e, f, g, h = map(int, text.split(b","))
    except ValueError:
        return text
    return ", ".join(map(str, enlarge((a, b, c, d, e, f, g, h), more))).encode()


def _resize_height(match: re.Match[bytes], more: int) -> bytes:
    """Return the height in the style of a box without an anchor, as openpyxl writes it, changed by
    `more` lines.
    """
    height = max(float(match[2]) + more * _LINE_UNITS[match[3]], 0)
    return match[1] + f"{height:g}".encode() + match[3]


def _complete_root(data: bytes) -> bytes:
    """Return the part with a root that has an end tag, and all of the namespaces."""
    root = _ROOT.search(data)
    if root is None:
        return new_shapes()
    tag = root[0].removesuffix(b">").removesuffix(b"/")
    for prefix, name in _NAMESPACES.items():
        if f"xmlns:{prefix}=".encode() not in tag:
            tag += f' xmlns:{prefix}="{name}"'.encode()
    end = b"></xml>" if root[0].endswith(b"/>") else b">"
    return data[: root.start()] + tag + end + data[root.end() :]


def _with_blocks(data: bytes, blocks: str) -> bytes:
    match = _BLOCKS.search(data)
    if match is not None:
        all_blocks = b",".join(filter(None, (match[1].strip(b", "), blocks.encode())))
        return data[: match.start(1)] + all_blocks + data[match.end(1) :]
    root = _ROOT.search(data)
    position = root.end() if root else 0
    layout = f'<o:shapelayout v:ext="edit"><o:idmap v:ext="edit" data="{blocks}"/></o:shapelayout>'
    return data[:position] + layout.encode() + data[position:]


# Update the VML part with the boxes of a worksheet's comments.


_KIND = "application/vnd.openxmlformats-officedocument.vmlDrawing"


def update_boxes(
    parts: WorkbookParts,
    part: str,
    sheet: WorksheetPart,
    comments: Comments,
    marks: Sequence[Mark],
) -> None:
    """Give each new comment of `marks` a box, resize the boxes of existing comments whose text
    changes, and remove the boxes of removed comments.
    """
    layout = Layout.of(sheet.root, sheet.heights, sheet.hidden)
    name = _name(parts, part, sheet)
    data = without_boxes(
        parts.read(name) if name else new_shapes(),
        set(map(_shape_cell, comments.removed_addresses)),
    )
    lines = {
        _shape_cell(address): -_count_added_lines(text)
        for address, text in comments.removed.items()
    }
    for mark in marks:
        cell = mark.row - 1, mark.column
        if mark.address in comments.others:
            lines[cell] = lines.get(cell, 0) + _count_added_lines(mark.text)
    data = resize_boxes(data, lines, layout.enlarge)
    boxes = (
        ((mark.row - 1, mark.column), layout.box(mark.row - 1, mark.column, count_lines(mark.text)))
        for mark in marks
        if mark.address not in comments.others
    )
    data = with_boxes(data, boxes, _free_block(parts))
    if name:
        parts.put(name, data)
    else:
        name = parts.add("xl/drawings/vmlDrawing{}.vml", _KIND, data)
        sheet.add_drawing(parts.relate(part, "vmlDrawing", name), parts.namespace)


def _name(parts: WorkbookParts, part: str, sheet: WorksheetPart) -> str:
    """Return the VML part to which the worksheet refers, "" if there is none."""
    drawing = sheet.root.one("legacyDrawing")
    targets = {each.id: each.target for each in parts.relations(part)}
    return targets.get(drawing.get("id"), "") if drawing is not None else ""


def _count_added_lines(text: str) -> int:
    """Return the number of lines that petsync's text adds below an existing comment, with the blank
    line between.
    """
    return count_lines(text) + 1


def _free_block(parts: WorkbookParts) -> int:
    used_blocks = (highest_block(parts.read(name)) for name in parts.names(".vml"))
    return max(used_blocks, default=0) + 1


def _shape_cell(address: str) -> Cell:
    top, left, _, _ = corners(address) or (0, 0, 0, 0)
    return top - 1, left


# Sentences on what an annotated copy cannot keep or show.


_Area = tuple[int, int, int, int]


def file_losses(*, signed: bool, macros: bool) -> Iterator[str]:
    """Yield sentences about the parts of the file that the copy does not have."""
    if signed:
        yield "The digital signature is left out: it is not valid for a changed copy."
    if macros:
        yield "The macros are left out, because the copy is an .xlsx; name it .xlsm to keep them."


def sheet_losses(root: Element, cells: Collection[tuple[int, int]]) -> Iterator[str]:
    """Yield sentences about marks that conditional formats may hide, and about the protection of
    the worksheet. Cells are (row from 1, column from 0).
    """
    areas = list(_conditional(root))
    if covered_cells := sum(any(_is_in(cell, area) for area in areas) for cell in cells):
        where = "in the range of a conditional format, which may show another colour instead."
        yield f"{_cells(covered_cells, 'is', 'are')} {where}"
    if cells and root.one("sheetProtection") is not None:
        yield "The sheet is protected: to edit it, unprotect it first (Review, Unprotect Sheet)."


def cell_losses(
    *,
    patterned: int = 0,
    hidden: int = 0,
    commented: int = 0,
    threaded: int = 0,
    only_coloured: int = 0,
) -> Iterator[str]:
    """Yield sentences about marks that are incomplete or not visible, with the number of cells."""
    if patterned:
        yield (
            f"{_cells(patterned, 'has', 'have')} a pattern or gradient, which the colour replaces."
        )
    if hidden:
        yield f"{_cells(hidden, 'is', 'are')} in hidden rows; show all rows to see every mark."
    if commented:
        cells = _cells(commented, "has", "have")
        yield f"{cells} a comment already; petsync's text is below it."
    if threaded:
        which = _cells(threaded, "has", "have")
        yield f"{which} a threaded comment, which cannot be extended; petsync adds only the colour."
    if only_coloured:
        why = "more comments would make the workbook slow to open."
        cells = _cells(only_coloured, "is", "are")
        yield f"{cells} only coloured: {why} petsync check lists all findings."


def _conditional(root: Element) -> Iterator[_Area]:
    for each in root.walk():
        if each.local == "conditionalFormatting" and not all(map(_is_own, each.all("cfRule"))):
            newer = each.one("sqref")
            ranges = each.get("sqref") or (newer.text if newer else "")
            yield from filter(None, map(corners, ranges.split()))


def _is_own(rule: Element) -> bool:
    """Return true if the rule is part of petsync's export, which colours its rows on purpose."""
    formula = rule.one("formula")
    return formula is not None and OWN_RULE.fullmatch(formula.text.strip()) is not None


def _is_in(cell: tuple[int, int], area: _Area) -> bool:
    top, left, bottom, right = area
    return top <= cell[0] <= bottom and left <= cell[1] <= right


def _cells(number: int, one: str, many: str) -> str:
    return f"1 cell {one}" if number == 1 else f"{number:,} cells {many}"


# The cells of a worksheet that get a colour, and those that lose the colour of an earlier run.


ERROR, WARNING = "FFB9BE", "FFE985"
"""The colours of errors and warnings. Spreadsheet programs do not offer these colours, so petsync
recognises its marks by them.
"""


@dataclass(slots=True)
class Painter:
    """Paints the marked cells; with `had_marks`, first removes the colours of an earlier run."""

    styles: Styles
    marks: Mapping[int, Mapping[int, Mark]]
    had_marks: bool
    patterned: int = 0
    """The number of marked cells whose pattern or gradient the colour replaced."""
    hidden: int = 0
    """The number of marked cells in hidden rows."""
    _stripped: dict[int, int] = field(default_factory=dict)

    def change(self, row: Row) -> dict[int, NewCell]:
        """Return the new styles of the cells of a row."""
        marks = self.marks.get(row.number, {})
        new = (
            {at: NewCell(self._unmarked_style(row.style(at))) for at in row.cells}
            if self.had_marks
            else {}
        )
        self.hidden += len(marks) if _is_hidden(row.element) else 0
        for at, mark in marks.items():
            style = self._unmarked_style(row.style(at))
            self.patterned += self.styles.has_pattern(style)
            new[at] = NewCell(self.styles.paint(style, ERROR if mark.is_error else WARNING))
        return new

    def _unmarked_style(self, style: int) -> int:
        if not self.had_marks:
            return style
        if style not in self._stripped:
            self._stripped[style] = self.styles.strip_paint(style, ERROR, WARNING)
        return self._stripped[style]


def _is_hidden(row: Element | None) -> bool:
    return row is not None and row.get("hidden") in ("1", "true")


# Annotate a workbook: colour cells, and add comments with the boxes that show them.


MAX_COMMENTS = 5_000
"""The maximum number of comments, because spreadsheet programs open many comments slowly. Further
cells are only coloured.
"""

_MERGED = re.compile(rb"<(?:[\w.-]+:)?mergeCell\s[^<>]*?\bref\s*=\s*[\"']([A-Z0-9:$]+)[\"']")
_MAX_MERGED = 1 << 16
_FEW = 256
_COMMENTS = "application/vnd.openxmlformats-officedocument.spreadsheetml.comments+xml"


class AnnotatedBytes(NamedTuple):
    """The bytes of an annotated copy, and the other fields of `AnnotatedCopy`."""

    data: bytes
    cells: int
    lost: tuple[str, ...]


def annotate_workbook(
    source: Source, tab: str, findings: Iterable[Finding], suffix: str
) -> AnnotatedBytes:
    """Return the workbook with the findings marked in the worksheet `tab`, for a file name with
    this suffix.

    Raises SheetError if a part of the workbook is damaged.
    """
    try:
        return _annotate_parts(WorkbookParts(source), tab, findings, suffix)
    except MarkupError as error:
        raise SheetError(
            f"{source.path}: the workbook is damaged: {error}",
            hint="Save it again in Excel or LibreOffice, or restore it from a backup.",
        ) from None


def _annotate_parts(
    parts: WorkbookParts, tab: str, findings: Iterable[Finding], suffix: str
) -> AnnotatedBytes:
    part = parts.worksheet(tab)
    data, styles = parts.read(part), parts.styles()
    marks = marks_of(findings, _find_merged(data))
    comments_part = parts.find_related(part, "comments")
    comments = Comments(
        parts.read(comments_part) if comments_part else new_comments(parts.main_namespace)
    )
    painter = Painter(Styles(parts.read(styles)), _by_row(marks.values()), comments.had_own)
    sheet = WorksheetPart(data, painter.change, painter.marks.keys(), painter.had_marks)
    commented_marks = _commented_marks(marks.values(), comments)
    if commented_marks or comments.had_own:
        update_boxes(parts, part, sheet, comments, commented_marks)
        for mark in commented_marks:
            comments.add(mark.address, mark.text)
        name = comments_part or parts.add("xl/comments{}.xml", _COMMENTS, b"")
        parts.put(name, comments.bytes())
        if not comments_part:
            parts.relate(part, "comments", name)
    parts.put(part, sheet.bytes())
    parts.put(styles, painter.styles.bytes())
    lost = [
        *file_losses(signed=parts.drop_signatures(), macros=parts.set_kind(suffix)),
        *sheet_losses(sheet.root, marks),
        *cell_losses(**_counts(marks.values(), comments, painter, commented_marks)),
    ]
    return AnnotatedBytes(parts.bytes(), len(marks), tuple(lost))


def _commented_marks(marks: Iterable[Mark], comments: Comments) -> list[Mark]:
    """Return the marks that get a comment. A cell with a threaded comment gets none. If there are
    too many marks, those of errors are chosen first.
    """
    able = [mark for mark in marks if mark.address not in comments.threaded]
    chosen = sorted(able, key=lambda mark: not mark.is_error)[:MAX_COMMENTS]
    return sorted(chosen, key=lambda mark: (mark.row, mark.column))


def _counts(
    marks: Iterable[Mark], comments: Comments, painter: Painter, commented_marks: Sequence[Mark]
) -> dict[str, int]:
    addresses = [mark.address for mark in marks]
    threaded = sum(address in comments.threaded for address in addresses)
    return {
        "patterned": painter.patterned,
        "hidden": painter.hidden,
        "commented": sum(mark.address in comments.others for mark in commented_marks),
        "threaded": threaded,
        "only_coloured": len(addresses) - threaded - len(commented_marks),
    }


def _by_row(marks: Iterable[Mark]) -> dict[int, dict[int, Mark]]:
    rows: dict[int, dict[int, Mark]] = {}
    for mark in marks:
        rows.setdefault(mark.row, {})[mark.column] = mark
    return rows


def _find_merged(data: bytes) -> dict[tuple[int, int], tuple[int, int]]:
    """Return, for each cell of a merged range, the first cell of the range. The later cells of very
    large ranges are left out.
    """
    firsts: dict[tuple[int, int], tuple[int, int]] = {}
    for reference in _MERGED.findall(data):
        area = corners(reference.decode())
        if area is not None and len(firsts) < _MAX_MERGED:
            top, left, bottom, right = area
            columns = range(left, min(right, left + _FEW) + 1)
            cells = ((row, column) for row in range(top, bottom + 1) for column in columns)
            room = _MAX_MERGED - len(firsts)
            firsts |= dict.fromkeys(itertools.islice(cells, room), (top, left))
    return firsts
