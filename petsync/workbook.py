"""Write workbooks: openpyxl lays them out, and their rows are added in bulk.

The rows of a worksheet are written as XML, because openpyxl takes some 50 µs for each cell and
keeps every cell in memory. Text stays text: it never becomes a formula, a number or an error.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import IO, Literal, NamedTuple

from openpyxl import Workbook
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.header_footer import HeaderFooter, HeaderFooterItem
from openpyxl.worksheet.page import PageMargins
from openpyxl.worksheet.properties import PageSetupProperties
from openpyxl.worksheet.worksheet import Worksheet

from petsync.errors import SheetError

__all__ = [
    "ACCENT",
    "FACE",
    "HEADER",
    "LINE",
    "MAX_CELL",
    "MAX_ROWS",
    "PLAIN",
    "SIZE",
    "UNDERLINE",
    "BulkWorkbook",
    "CellStyle",
    "MarkedText",
    "Value",
    "bulk_workbook",
    "fit_to_page",
    "height_xml",
    "inline",
    "is_sealed",
    "row_xml",
    "seal",
    "style_header",
]


# Colours, fonts and print settings.


ACCENT, LINE = "1F5B66", "D5DDE0"
FACE, SIZE = "Arial", 10
"""A font that every system has, or replaces by a font with characters of the same width."""
HEADER = PatternFill("solid", fgColor=ACCENT)
PLAIN = Font(name=FACE, size=SIZE)
UNDERLINE = Border(bottom=Side("thin", color=LINE))
_TITLE = Font(name=FACE, size=SIZE, bold=True, color="FFFFFF")


def style_header(sheet: Worksheet, names: Iterable[str], *, height: float, indent: int = 0) -> None:
    """Write the header into the first row. It stays visible, and is on each printed page."""
    for column, name in enumerate(names, 1):
        cell = sheet.cell(1, column, _escape_text(name))
        # openpyxl would make a formula of a name such as "=A1".
        cell.data_type = "s"
        cell.font, cell.fill = _TITLE, HEADER
        cell.alignment = Alignment(vertical="center", horizontal="left", indent=indent)
    sheet.row_dimensions[1].height = height
    sheet.freeze_panes = "A2"
    sheet.print_title_rows = "1:1"
    fit_to_page(sheet)


def fit_to_page(sheet: Worksheet, *, pages: int = 0) -> None:
    """Fit the printout to the width of an A4 page, and to at most `pages` pages (0: any number)."""
    sheet.page_setup.orientation = "landscape"
    sheet.page_setup.paperSize = sheet.PAPERSIZE_A4
    sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight = 1, pages
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    sheet.page_margins = PageMargins(
        left=0.4, right=0.4, top=0.6, bottom=0.8, header=0.3, footer=0.3
    )
    footer = HeaderFooterItem()
    footer.left.text, footer.right.text = "&A", "&P / &N"
    sheet.HeaderFooter = HeaderFooter(oddFooter=footer)


# Rows as XML.


MAX_ROWS = 1 << 20
MAX_CELL = 32_767
_SHORT = MAX_CELL // 2
_LIKE_FORMULA = ("=", "+", "-", "@", "#")
_PLAIN = r"(?!\s)[^&<>_\x00-\x1f\ufffe\uffff]*(?<!\s)"
_is_plain = re.compile(_PLAIN).fullmatch
_is_plain_cell = re.compile(rf"(?![{re.escape(''.join(_LIKE_FORMULA))}]){_PLAIN}").fullmatch
# An underscore at the start of text that looks like an escape; the closing underscore may be the
# first character of the next escape. LibreOffice reads even one digit as an escape.
_LIKE_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{1,4}[_\x00-\x08\x0b-\x1f\ufffe\uffff])")
_ESCAPED = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_RUN = f'<sz val="{SIZE}"/><rFont val="{FACE}"/></rPr>'
_RUNS: Mapping[str, str] = {
    "removed": f'<rPr><strike/><color rgb="FFB3261E"/>{_RUN}',
    "added": f'<rPr><b/><color rgb="FF1B6E2E"/>{_RUN}',
    "empty": f'<rPr><i/><color rgb="FF6B7280"/>{_RUN}',
}


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text in pieces. The marked pieces are removed text, added text, or stand for an empty
    value.
    """

    pieces: Sequence[tuple[str, bool]]
    """The texts of the pieces, and whether each is marked."""
    mark: Literal["removed", "added", "empty"]

    def __str__(self) -> str:
        return "".join(part for part, _ in self.pieces)


Value = str | int | MarkedText


class CellStyle(NamedTuple):
    """The style of the cells in one column: the column's letters, and the ids of the styles."""

    letters: str
    plain: int
    quoted: int
    """The style of text that looks like a formula."""


def row_xml(
    number: int, values: Iterable[Value], styles: Iterable[CellStyle], height: str = ""
) -> str:
    """Return the row as XML; `height` is the result of `height_xml`, or "". Raises SheetError for a
    text that is too long for a cell.
    """
    # Most cells are plain texts, and a function call for each cell would take much longer.
    cells = [
        f'<c r="{letters}{number}" s="{plain}" t="inlineStr"><is><t>{value}</t></is></c>'
        if value.__class__ is str and len(value) < _SHORT and _is_plain_cell(value)
        else _cell_xml(number, value, letters, plain, quoted)
        for value, (letters, plain, quoted) in zip(values, styles, strict=False)
        if value != ""
    ]
    return f'<row r="{number}"{height}>{"".join(cells)}</row>'


def height_xml(points: float, *, is_fixed: bool) -> str:
    """Return the attributes of a row with this height, with a space before them. Programs increase
    the height when the row gets more text, unless it is fixed.
    """
    return f' ht="{points:g}"' + (' customHeight="1"' if is_fixed else "")


def _cell_xml(number: int, value: Value, letters: str, plain: int, quoted: int) -> str:
    if isinstance(value, int):
        return f'<c r="{letters}{number}" s="{plain}"><v>{value}</v></c>'
    text = str(value)
    if len(text) > _SHORT and (length := len(text.encode("utf-16-le")) // 2) > MAX_CELL:
        raise SheetError(
            f"the cell {letters}{number} would have {length:,} characters, and Excel allows "
            f"{MAX_CELL:,}: {text[:40]!r}…",
            hint="Shorten the text.",
        )
    style = quoted if text.startswith(_LIKE_FORMULA) else plain
    content = _runs(value) if isinstance(value, MarkedText) else _text(text)
    return f'<c r="{letters}{number}" s="{style}" t="inlineStr"><is>{content}</is></c>'


def _runs(value: MarkedText) -> str:
    return "".join(
        f"<r>{_RUNS[value.mark] if is_marked else ''}{_text(part)}</r>"
        for part, is_marked in value.pieces
    )


def inline(text: str, prefix: str = "") -> str:
    """Return the text as an inline string, from which programs read exactly the same text.

    `prefix` is the prefix of the elements' names. Characters that are illegal in XML are escaped as
    in OOXML (`_x0000_`).
    """
    return f"<{prefix}is>{_text(text, prefix)}</{prefix}is>"


def _text(text: str, prefix: str = "") -> str:
    if _is_plain(text):
        return f"<{prefix}t>{text}</{prefix}t>"
    text = _escape_text(text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f'<{prefix}t xml:space="preserve">{text}</{prefix}t>'


def _escape_text(text: str) -> str:
    """Return the text in which characters that are illegal in XML are escaped."""
    if "_" in text:
        text = _LIKE_ESCAPE.sub("_x005F_", text)
    return _ESCAPED.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):04X}_"


# Workbooks whose worksheets get their rows in bulk.


_IN_MEMORY, _CHUNK, _BATCH = 4_000_000, 1_000_000, 500
_LEVEL = 3
"""The level of compression: level 6 takes more than twice as long, for files 4 % smaller."""
_DIMENSION = re.compile(rb'<dimension ref="[^"]*"')
_NO_DATA = re.compile(rb"<sheetData\s*/>")
_FOOTER_END = b"</headerFooter>"
_CORE, _CORE_END = "docProps/core.xml", b"</cp:coreProperties>"
_SEAL = "petsync:sha256:"


class _Body(NamedTuple):
    """The rows of a worksheet: where they are in the temporary file, and what they cover."""

    start: int
    end: int
    area: str
    """All cells of the worksheet, as one range."""
    texts: str
    """The cells in which Excel shows no warning for a number stored as text; "" for none."""


@contextmanager
def bulk_workbook() -> Iterator[BulkWorkbook]:
    """Yield a workbook without worksheets."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as rows:
        book = Workbook()
        book.remove(book.worksheets[0])
        yield BulkWorkbook(book, rows)


class BulkWorkbook:
    """A workbook of openpyxl, with rows that are in a temporary file until it is saved."""

    def __init__(self, book: Workbook, rows: IO[bytes]) -> None:
        self.book = book
        self._rows = rows
        self._bodies: dict[str, _Body] = {}

    def add_rows(
        self,
        sheet: Worksheet,
        rows: Iterable[str],
        *,
        columns: int,
        last_row: int | None = None,
        texts: str = "",
    ) -> int:
        """Add rows from `row_xml` to the worksheet, below its rows, and return their number.

        `last_row` is the number of the last row, for rows whose numbers have gaps; `texts` are the
        cells in which Excel shows no warning for a number stored as text. Raises SheetError if the
        temporary file cannot be written.
        """
        start, number, rows = self._rows.tell(), 0, iter(rows)
        while batch := [*islice(rows, _BATCH)]:
            with _translate_errors():
                self._rows.write("".join(batch).encode())
            number += len(batch)
        with _translate_errors():
            self._rows.flush()
        last_row = sheet.max_row + number if last_row is None else last_row
        area = f"A1:{get_column_letter(columns)}{last_row}"
        self._bodies[sheet.title] = _Body(start, self._rows.tell(), area, texts)
        return number

    def save(self, file: IO[bytes], *, with_seal: bool = False) -> None:
        """Write the workbook into the file; `with_seal` adds the seal by which `is_sealed` detects
        changes.
        """
        empty = BytesIO()
        self.book.save(empty)
        bodies = {
            f"xl/worksheets/sheet{number}.xml": self._bodies[sheet.title]
            for number, sheet in enumerate(self.book.worksheets, 1)
            if sheet.title in self._bodies
        }
        with (
            zipfile.ZipFile(empty) as source,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as target,
        ):
            for info in source.infolist():
                if body := bodies.get(info.filename):
                    self._write_part(info, source.read(info), body, target)
                elif info.filename != _CORE:
                    target.writestr(info, source.read(info), zipfile.ZIP_DEFLATED)
            core = source.read(_CORE)
            if with_seal:
                core = core.replace(_CORE_END, seal(target) + _CORE_END)
            target.writestr(source.getinfo(_CORE), core, zipfile.ZIP_DEFLATED)

    def _write_part(
        self, info: zipfile.ZipInfo, part: bytes, body: _Body, target: zipfile.ZipFile
    ) -> None:
        """Write the worksheet's part, with the rows at the end of its data."""
        part = _NO_DATA.sub(b"<sheetData></sheetData>", part)
        head, end, tail = part.partition(b"</sheetData>")
        head = _DIMENSION.sub(f'<dimension ref="{body.area}"'.encode(), head)
        if body.texts:
            ignored = (
                f'<ignoredErrors><ignoredError sqref="{body.texts}" numberStoredAsText="1"/>'
                "</ignoredErrors>"
            ).encode()
            tail = tail.replace(_FOOTER_END, _FOOTER_END + ignored, 1)
        size = len(head) + body.end - body.start + len(end + tail)
        # zipfile uses the archive's compression level only for a part that is opened by its name.
        with target.open(info.filename, "w", force_zip64=size > zipfile.ZIP64_LIMIT) as out:
            out.write(head)
            self._rows.seek(body.start)
            for place in range(body.start, body.end, _CHUNK):
                out.write(self._rows.read(min(_CHUNK, body.end - place)))
            out.write(end + tail)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise SheetError in place of an OSError of the temporary file."""
    try:
        yield
    except OSError as error:
        raise SheetError(
            f"a temporary file for the rows cannot be written: {error.strerror}",
            hint="Free space in the folder for temporary files, or set TMPDIR to another folder.",
        ) from None


def is_sealed(archive: zipfile.ZipFile) -> bool:
    """Return true if the workbook has a seal, and no program has changed the workbook since."""
    if _CORE not in archive.namelist():
        return False
    return seal(archive) in archive.read(_CORE)


def seal(archive: zipfile.ZipFile) -> bytes:
    """Return the seal: an element of the document properties with a checksum of all other parts."""
    parts = sorted(
        f"{each.filename}:{each.CRC:08x}:{each.file_size}"
        for each in archive.infolist()
        if each.filename != _CORE
    )
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"<dc:identifier>{_SEAL}{digest}</dc:identifier>".encode()
