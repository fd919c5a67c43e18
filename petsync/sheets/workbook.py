"""A workbook that a person likes to open: header, filter, widths, every cell as text.

openpyxl lays the book out with its header; the rows below go into the worksheet's part as text,
because openpyxl takes some 50 µs for each cell.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Sequence

from openpyxl import Workbook
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.worksheet.worksheet import Worksheet

from petsync.errors import SheetError
from petsync.sheets.base import TAB
from petsync.sheets.grid import letter

__all__ = ["inline", "workbook_bytes"]

MAX_ROWS = 1 << 20
MAX_CELL = 32_767
_SHEET = "xl/worksheets/sheet1.xml"
_DIMENSION = re.compile(rb'<dimension ref="[^"]*"')
_UNUSUAL = re.compile(r"[&<>_\x00-\x1f\ufffe\uffff]|^\s|\s$")
# An underscore that begins what reads like an escape, or would once the next character is one.
_LIKE_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{4}[_\x00-\x08\x0b-\x1f\ufffe\uffff])")
_ESCAPED = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_TAB = re.compile(r"(?!')[^\\/*?:\[\]\x00-\x1f]{1,31}(?<!')")
_WIDE, _NARROW, _SAMPLE = 48, 11, 2_000
_BOLD = Font(bold=True)
_SHADE = PatternFill("solid", fgColor="DDEBF7")
_TOP = Alignment(vertical="top", wrap_text=False)
_WRAP = Alignment(vertical="top", wrap_text=True)
_WRAPPED = ("photo_urls",)


def workbook_bytes(
    header: Sequence[str],
    columns: Sequence[Sequence[str]],
    tab: str,
    base: Sequence[str] = (),
) -> bytes:
    """A workbook with one worksheet: `header`, and below it the columns' texts. The lines of
    `base` go into one that no person sees.

    Raises SheetError where Excel could not hold it.
    """
    rows = len(columns[0])
    if rows >= MAX_ROWS:
        raise SheetError(
            f"{rows:,} pets are more rows than a worksheet has ({MAX_ROWS - 1:,})",
            hint="Export .csv or .parquet.",
        )
    book = Workbook()
    sheet = book.active
    if not isinstance(sheet, Worksheet):
        raise TypeError("a new workbook has a worksheet")
    _name(sheet, tab)
    styles = _lay_out(sheet, header, columns)
    if base:
        _hide(book, base)
    empty = io.BytesIO()
    book.save(empty)
    body = "".join(_rows(columns, styles)).encode()
    return _filled(empty, body, f"A1:{letter(len(header) - 1)}{rows + 1}")


def inline(text: str, prefix: str = "") -> str:
    """The text as an inline string's content, exact when it is read again.

    `prefix` stands before the elements' names. What XML cannot carry is escaped the OOXML way
    (`_x0000_`).
    """
    space = ""
    if _UNUSUAL.search(text):
        text = _ESCAPED.sub(_escape, _LIKE_ESCAPE.sub("_x005F_", text))
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        space = ' xml:space="preserve"'
    return f"<{prefix}is><{prefix}t{space}>{text}</{prefix}t></{prefix}is>"


def _hide(book: Workbook, base: Sequence[str]) -> None:
    hidden = book.create_sheet(TAB)
    hidden.sheet_state = "veryHidden"
    for number, line in enumerate(base, 1):
        hidden.cell(number, 1, line)


def _name(sheet: Worksheet, tab: str) -> None:
    if not _TAB.fullmatch(tab):
        raise SheetError(
            f"{tab!r} cannot be the name of a worksheet",
            hint="Use 1 to 31 characters without \\ / * ? : [ ] and no apostrophe at its ends.",
        )
    if tab.casefold() == TAB:
        raise SheetError(
            f"{tab!r} is the name of the worksheet that petsync itself adds",
            hint="Choose another name for the pets.",
        )
    sheet.title = tab


def _lay_out(
    sheet: Worksheet, header: Sequence[str], columns: Sequence[Sequence[str]]
) -> list[int]:
    """Lay out header and columns; the style index of each column's cells is returned."""
    styles = []
    for n, (name, texts) in enumerate(zip(header, columns, strict=True)):
        head = sheet.cell(1, n + 1, name)
        head.font, head.fill, head.alignment = _BOLD, _SHADE, _TOP
        body = sheet.cell(2, n + 1)
        body.number_format = "@"
        body.alignment = alignment = _WRAP if name in _WRAPPED else _TOP
        styles.append(body.style_id)
        dimension = sheet.column_dimensions[letter(n)]
        dimension.number_format, dimension.alignment = "@", alignment
        dimension.width = _width(name, texts)
    sheet.delete_rows(2)
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = f"A1:{letter(len(header) - 1)}{len(columns[0]) + 1}"
    return styles


def _width(name: str, texts: Sequence[str]) -> int:
    longest = max((len(line) for text in texts[:_SAMPLE] for line in text.split("\n")), default=0)
    return min(max(longest + 2, len(name) + 4, _NARROW), _WIDE)


def _rows(columns: Sequence[Sequence[str]], styles: Sequence[int]) -> Iterator[str]:
    starts = [(letter(n), f'" s="{style}" t="inlineStr">') for n, style in enumerate(styles)]
    for number, row in enumerate(zip(*columns, strict=True), 2):
        cells = [
            f'<c r="{place}{number}{start}{_checked(text, place, number)}</c>'
            for (place, start), text in zip(starts, row, strict=True)
            if text
        ]
        yield f'<row r="{number}">{"".join(cells)}</row>'


def _checked(text: str, place: str, number: int) -> str:
    if len(text) > MAX_CELL // 2 and len(text.encode("utf-16-le")) // 2 > MAX_CELL:
        raise SheetError(
            f"the cell {place}{number} would have more than the {MAX_CELL:,} characters that "
            f"Excel keeps: {text[:40]!r}…",
            hint="Export .csv or .json, or shorten the text.",
        )
    return inline(text)


def _escape(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):04X}_"


def _filled(empty: io.BytesIO, body: bytes, extent: str) -> bytes:
    filled = io.BytesIO()
    with (
        zipfile.ZipFile(empty) as source,
        zipfile.ZipFile(filled, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for info in source.infolist():
            data = source.read(info)
            if info.filename == _SHEET:
                data = _DIMENSION.sub(b'<dimension ref="' + extent.encode() + b'"', data)
                head, end, tail = data.partition(b"</sheetData>")
                data = head + body + end + tail
            target.writestr(info, data, zipfile.ZIP_DEFLATED)
    return filled.getvalue()
