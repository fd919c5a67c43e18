"""A workbook that a person likes to open; every cell of it is text.

openpyxl lays the book out with its header; the rows below go into the worksheet's part as text,
because openpyxl takes some 50 µs for each cell.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence

from openpyxl import Workbook
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.worksheet import Worksheet

from petsync.errors import SheetError
from petsync.sheets.base import NAME, TAB, notice
from petsync.sheets.export import exact
from petsync.sheets.export.choices import LISTS, SPARE, offer
from petsync.sheets.export.contents import Contents
from petsync.sheets.export.guide import GUIDE, add_guide, plain
from petsync.sheets.export.look import WRAPPED, lay_out, width
from petsync.sheets.export.text import OUT
from petsync.sheets.grid import letter
from petsync.table.base import Base

__all__ = ["filled", "height_of", "inline", "is_sealed", "name_base", "workbook_bytes"]

MAX_ROWS = 1 << 20
MAX_CELL = 32_767
_CORE = "docProps/core.xml"
_SEAL = "petsync:sha256:"
_SHEET = "xl/worksheets/sheet1.xml"
_DIMENSION = re.compile(rb'<dimension ref="[^"]*"')
_UNUSUAL = re.compile(r"[&<>_\x00-\x1f\ufffe\uffff]|^\s|\s$")
# An underscore that begins what reads like an escape, or would once the next character is one.
# LibreOffice takes one digit for an escape already.
_LIKE_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{1,4}[_\x00-\x08\x0b-\x1f\ufffe\uffff])")
_ESCAPED = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_TAB = re.compile(r"(?i)(?!'|history$)[^\\/*?:\[\]\x00-\x1f]{1,31}(?<!')")
_TAKEN = (TAB, exact.TAB, LISTS, GUIDE.casefold())
# Excel gives a line of such text 12.75 points and LibreOffice 11.5: so high, a row that is cut ends
# behind seven lines of the one and eight of the other.
_TALLEST, _LINE_HEIGHT, _AROUND = 7, 12.75, 3


def workbook_bytes(contents: Contents) -> bytes:
    """The workbook: the pets, the guide, and what no person sees: the lists and the base.

    Raises SheetError where Excel could not hold it.
    """
    if contents.rows >= MAX_ROWS:
        raise SheetError(
            f"{contents.rows:,} pets are more rows than a worksheet has ({MAX_ROWS - 1:,})",
            hint="Export .csv or .parquet.",
        )
    book = Workbook()
    sheet = book.active
    if not isinstance(sheet, Worksheet):
        raise TypeError("a new workbook has a worksheet")
    _name(sheet, contents.tab)
    styles = lay_out(sheet, contents)
    add_guide(book, contents)
    offer(book, sheet, contents)
    if contents.base is not None:
        _hide(book, TAB, [notice(contents.base), *contents.base.to_lines()])
        name_base(book)
    if contents.exact and (lines := exact.exact_lines(contents.by_name)):
        _hide(book, exact.TAB, lines)
    _describe(book, contents.base)
    body = "".join(_rows(contents.columns, styles)).encode()
    return filled(book, lambda part: _with_rows(part, body, contents.rows))


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


def height_of(lines: int) -> float:
    """How high a row is that shows so many lines, in points; of very many it shows the first."""
    return min(lines, _TALLEST) * _LINE_HEIGHT + _AROUND


def name_base(book: Workbook) -> None:
    """Give the worksheet of the base its name, which tells later that it was there."""
    book.defined_names[NAME] = DefinedName(NAME, attr_text=f"'{TAB}'!$A$1", hidden=True)


def _describe(book: Workbook, base: Base | None) -> None:
    book.properties.creator = "petsync"
    book.properties.title = "Pets" if base is None else f"Pets of {plain(base.store)}"


def _hide(book: Workbook, name: str, lines: Sequence[str]) -> None:
    hidden = book.create_sheet(name)
    hidden.sheet_state = "veryHidden"
    for number, line in enumerate(lines, 1):
        hidden.cell(number, 1, line)


def _name(sheet: Worksheet, tab: str) -> None:
    if not _TAB.fullmatch(tab):
        raise SheetError(
            f"{tab!r} cannot be the name of a worksheet",
            hint="Use 1 to 31 characters without \\ / * ? : [ ] and no apostrophe at its ends.",
        )
    if tab.casefold() in _TAKEN:
        raise SheetError(
            f"{tab!r} is the name of the worksheet that petsync itself adds",
            hint="Choose another name for the pets.",
        )
    sheet.title = tab


def _rows(columns: Sequence[Sequence[str]], styles: Sequence[int]) -> Iterator[str]:
    starts = [(letter(n), f'" s="{style}" t="inlineStr">') for n, style in enumerate(styles)]
    heights = _heights(columns)
    for number, (row, height) in enumerate(
        zip(zip(*columns, strict=True), heights, strict=True), 2
    ):
        cells = [
            f'<c r="{place}{number}{start}{_checked(text, place, number)}</c>'
            for (place, start), text in zip(starts, row, strict=True)
            if text
        ]
        yield f'<row r="{number}"{height}>{"".join(cells)}</row>'


def _heights(columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows' heights, each for whole lines: the photos are seen, and no pet fills the screen."""
    marks = ["", *(f' ht="{height_of(lines):g}"' for lines in range(1, _TALLEST + 1))]
    marks.append(f'{marks[-1]} customHeight="1"')
    wrapped = {name: columns[OUT.index(name)] for name in WRAPPED}
    across = [width(name, texts) - 2 for name, texts in wrapped.items()]
    for texts in zip(*wrapped.values(), strict=True):
        lines = max(map(_lines, texts, across))
        yield marks[min(lines, _TALLEST + 1)]


def _lines(text: str, across: int) -> int:
    """How many lines a cell has that is so many characters wide."""
    if len(text) <= across:
        return text.count("\n") + 1
    return sum(max(1, -(-len(line) // across)) for line in text.split("\n"))


def _checked(text: str, place: str, number: int) -> str:
    if len(text) > MAX_CELL // 2 and len(text.encode("utf-16-le")) // 2 > MAX_CELL:
        raise SheetError(
            f"the cell {place}{number} would have more than the {MAX_CELL:,} characters that "
            f"Excel keeps: {text[:40]!r}…",
            hint="Export .json or .parquet, or shorten the text.",
        )
    return inline(text)


def _escape(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):04X}_"


def is_sealed(archive: zipfile.ZipFile) -> bool:
    """Whether the workbook's file is as petsync wrote it: no other program has saved it since."""
    if _CORE not in archive.namelist():
        return False
    return _seal(archive) in archive.read(_CORE)


def _sealed(core: bytes, seal: bytes) -> bytes:
    end = b"</cp:coreProperties>"
    return core.replace(end, seal + end)


def _seal(archive: zipfile.ZipFile) -> bytes:
    """The element of the properties that names what all other parts hold, by their checksums."""
    parts = sorted(
        f"{each.filename}:{each.CRC:08x}:{each.file_size}"
        for each in archive.infolist()
        if each.filename != _CORE
    )
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"<dc:identifier>{_SEAL}{digest}</dc:identifier>".encode()


def filled(book: Workbook, change: Callable[[bytes], bytes]) -> bytes:
    """The workbook's file, its first worksheet's part as `change` makes it, and with a seal."""
    empty, full = io.BytesIO(), io.BytesIO()
    book.save(empty)
    with (
        zipfile.ZipFile(empty) as source,
        zipfile.ZipFile(full, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for info in source.infolist():
            data = source.read(info)
            if info.filename == _CORE:
                continue
            if info.filename == _SHEET:
                data = change(data)
            target.writestr(info, data, zipfile.ZIP_DEFLATED)
        core = _sealed(source.read(_CORE), _seal(target))
        target.writestr(source.getinfo(_CORE), core, zipfile.ZIP_DEFLATED)
    return full.getvalue()


def _with_rows(part: bytes, body: bytes, rows: int) -> bytes:
    last = letter(len(OUT) - 1)
    part = _DIMENSION.sub(f'<dimension ref="A1:{last}{rows + 1}"'.encode(), part)
    head, end, tail = part.partition(b"</sheetData>")
    # That digits are text is meant: no green triangle at each of them.
    ignored = (
        f'<ignoredErrors><ignoredError sqref="A2:{last}{rows + 1 + SPARE}" '
        'numberStoredAsText="1"/></ignoredErrors>'
    ).encode()
    footer = b"</headerFooter>"
    return head + body + end + tail.replace(footer, footer + ignored, 1)
