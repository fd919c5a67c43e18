"""Minimal files in formats that petsync reads but does not write: .ods, .xls and .xlsb."""

from __future__ import annotations

import datetime as dt
import io
import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

__all__ = ["WRITERS", "Error", "Tab", "cfb", "ods", "packed_ods", "xls", "xlsb"]

_EPOCH = dt.date(1899, 12, 30)
_CODES = {"#NULL!": 0, "#DIV/0!": 7, "#VALUE!": 15, "#REF!": 23, "#NAME?": 29, "#N/A": 42}


class Error(NamedTuple):
    """An error value of a cell, such as #REF!; that of a formula if `formula` is true."""

    text: str
    formula: bool = False


Cell = str | float | bool | dt.date | Error | None


class Tab(NamedTuple):
    """A worksheet; rows and columns are counted from 0."""

    name: str
    rows: Sequence[Sequence[Cell]]
    visible: bool = True
    merged: Sequence[tuple[int, int, int, int]] = ()
    """First row, last row, first column, last column."""
    hidden: Sequence[int] = ()
    """The hidden rows."""


# .ods


_ODS_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<office:document-content '
    + " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text", "style")
    )
    + ' xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0" '
    'office:version="1.3"><office:automatic-styles><style:style style:name="shown" '
    'style:family="table"><style:table-properties table:display="true"/></style:style><style:style '
    'style:name="hidden" style:family="table"><style:table-properties table:display="false"/>'
    "</style:style></office:automatic-styles><office:body><office:spreadsheet>"
)
_ODS_TAIL = "</office:spreadsheet></office:body></office:document-content>"


def ods(tabs: Iterable[Tab]) -> bytes:
    """Return an OpenDocument sheet with these worksheets."""
    return packed_ods(_ODS_HEAD + "".join(map(_ods_tab, tabs)) + _ODS_TAIL)


def packed_ods(content: str, manifest: str = "<manifest/>") -> bytes:
    """Return an OpenDocument sheet with this part content.xml."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        kind = "application/vnd.oasis.opendocument.spreadsheet"
        archive.writestr(zipfile.ZipInfo("mimetype"), kind)
        archive.writestr("content.xml", content)
        archive.writestr("META-INF/manifest.xml", manifest)
    return file.getvalue()


def _ods_tab(tab: Tab) -> str:
    spans = {(row, column): each for each in tab.merged for row, _, column, _ in [each]}
    rows = []
    for number, row in enumerate(tab.rows):
        cells = (_ods_cell(cell, spans.get((number, at))) for at, cell in enumerate(row))
        mark = ' table:visibility="collapse"' if number in tab.hidden else ""
        rows.append(f"<table:table-row{mark}>{''.join(cells)}</table:table-row>")
    name, style = escape(tab.name, {'"': "&quot;"}), "shown" if tab.visible else "hidden"
    return (
        f'<table:table table:name="{name}" table:style-name="{style}">'
        '<table:table-column table:number-columns-repeated="16384"/>'
        f'{"".join(rows)}<table:table-row table:number-rows-repeated="1048000">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table>'
    )


def _ods_cell(cell: Cell, span: tuple[int, int, int, int] | None) -> str:
    marks = ""
    if span is not None:
        first_row, last_row, first, last = span
        marks = f' table:number-columns-spanned="{last - first + 1}"'
        marks += f' table:number-rows-spanned="{last_row - first_row + 1}"'
    if cell is None or cell == "":
        return f"<table:table-cell{marks}/>"
    kind, shown = "string", cell.text if isinstance(cell, Error) else str(cell)
    if isinstance(cell, Error):
        marks += ' table:formula="of:=1/0" office:string-value="" calcext:value-type="error"'
    elif isinstance(cell, bool):
        kind, marks = "boolean", f'{marks} office:boolean-value="{str(cell).lower()}"'
    elif isinstance(cell, float):
        kind, marks = "float", f'{marks} office:value="{cell!r}"'
    elif isinstance(cell, dt.date):
        kind, marks = "date", f'{marks} office:date-value="{cell.isoformat()}"'
    paragraphs = "".join(f"<text:p>{_ods_text(each)}</text:p>" for each in shown.split("\n"))
    return f'<table:table-cell office:value-type="{kind}"{marks}>{paragraphs}</table:table-cell>'


def _ods_text(text: str) -> str:
    text = escape(text).replace("\t", "<text:tab/>")
    spaces = re.compile(r"^ +| +$| {2,}")
    return spaces.sub(lambda each: f'<text:s text:c="{len(each[0])}"/>', text)


# .xls: records in a compound file.


def xls(tabs: Iterable[Tab], *, records: bytes = b"") -> bytes:
    """Return an old Excel workbook with these worksheets; `records` are added to the first ones."""
    sheets = [*tabs]
    head = _record(0x0809, struct.pack("<4H2I", 0x0600, 5, 0, 1997, 0, 6)) + records
    head += b"".join(_record(0x00E0, struct.pack("<HH16x", 0, form)) for form in (0, 14))
    names = [each.name.encode("utf-16-le") for each in sheets]
    size = len(head) + sum(4 + 8 + len(name) for name in names) + 4
    bodies = [_xls_body(each) for each in sheets]
    for each, name, body in zip(sheets, names, bodies, strict=True):
        text = struct.pack("<BB", len(name) // 2, 1) + name
        head += _record(0x0085, struct.pack("<IBB", size, 0 if each.visible else 2, 0) + text)
        size += len(body)
    return cfb(b"".join([head, _record(0x000A, b""), *bodies]))


def _record(number: int, body: bytes) -> bytes:
    return struct.pack("<HH", number, len(body)) + body


def _xls_body(tab: Tab) -> bytes:
    parts = [_record(0x0809, struct.pack("<4H2I", 0x0600, 0x10, 0, 1997, 0, 6))]
    for number, row in enumerate(tab.rows):
        flags = 0x20 if number in tab.hidden else 0
        parts.append(_record(0x0208, struct.pack("<6HHH", number, 0, len(row), 0, 0, 0, flags, 0)))
        parts += (_xls_cell(number, at, cell) for at, cell in enumerate(row))
    if tab.merged:
        ranges = b"".join(struct.pack("<4H", *each) for each in tab.merged)
        parts.append(_record(0x00E5, struct.pack("<H", len(tab.merged)) + ranges))
    return b"".join([*parts, _record(0x000A, b"")])


def _xls_cell(row: int, column: int, cell: Cell) -> bytes:
    place = struct.pack("<HHH", row, column, 1 if isinstance(cell, dt.date) else 0)
    if cell is None or cell == "":
        return b""
    if isinstance(cell, Error) and cell.formula:
        result = struct.pack("<BxBxxxH", 2, _CODES[cell.text], 0xFFFF)
        return _record(0x0006, place + result + struct.pack("<HIH", 0, 0, 0))
    if isinstance(cell, Error | bool):
        code = _CODES[cell.text] if isinstance(cell, Error) else int(cell)
        return _record(0x0205, place + struct.pack("<BB", code, isinstance(cell, Error)))
    if isinstance(cell, float | dt.date):
        number = float((cell - _EPOCH).days) if isinstance(cell, dt.date) else cell
        return _record(0x0203, place + struct.pack("<d", number))
    text = str(cell).encode("utf-16-le")
    return _record(0x0204, place + struct.pack("<HB", len(text) // 2, 1) + text)


def cfb(stream: bytes, name: str = "Workbook") -> bytes:
    """Return a compound file with one stream."""
    stream = stream.ljust(4096, b"\0")
    data = stream.ljust(-(-len(stream) // 512) * 512, b"\0")
    sectors = len(data) // 512
    tables = -(-(sectors + 1) // 127)
    table = [*range(1, sectors), 0xFFFFFFFE, 0xFFFFFFFE, *[0xFFFFFFFD] * tables]
    table += [0xFFFFFFFF] * (tables * 128 - len(table))
    head = struct.pack(
        "<8s16x5H6x9I",
        bytes.fromhex("D0CF11E0A1B11AE1"),
        *(0x3E, 3, 0xFFFE, 9, 6),
        *(0, tables, sectors, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0),
    )
    used = [sectors + 1 + n for n in range(tables)]
    head += struct.pack("<109I", *used, *[0xFFFFFFFF] * (109 - tables))
    entries = _entry("Root Entry", 5, 1, 0xFFFFFFFE, 0) + _entry(
        name, 2, 0xFFFFFFFF, 0, len(stream)
    )
    return head + data + entries.ljust(512, b"\0") + struct.pack(f"<{len(table)}I", *table)


def _entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
    text = name.encode("utf-16-le") + b"\0\0"
    links = struct.pack("<HBB3I", len(text), kind, 1, 0xFFFFFFFF, 0xFFFFFFFF, child)
    return text.ljust(64, b"\0") + links + bytes(36) + struct.pack("<IQ", start, size)


# .xlsb: records in the parts of a ZIP file.


def xlsb(tabs: Iterable[Tab]) -> bytes:
    """Return a binary workbook with these worksheets."""
    sheets = [*tabs]
    links, book = [], [_binary(131), _binary(143)]
    parts: dict[str, bytes] = {}
    for n, each in enumerate(sheets, 1):
        state = struct.pack("<II", 0 if each.visible else 2, n)
        book.append(_binary(156, state + _wide(f"r{n}") + _wide(each.name)))
        links.append((f"r{n}", "worksheet", f"worksheets/sheet{n}.bin"))
        parts[f"xl/worksheets/sheet{n}.bin"] = _xlsb_sheet(each)
    links.append(("s", "styles", "styles.bin"))
    forms = b"".join(_binary(47, struct.pack("<HH12x", 0, form)) for form in (0, 14))
    parts["xl/styles.bin"] = _binary(278) + _binary(617, b"\2\0\0\0") + forms + _binary(618)
    parts["xl/styles.bin"] += _binary(279)
    parts["xl/workbook.bin"] = b"".join([*book, _binary(144), _binary(132)])
    parts["xl/_rels/workbook.bin.rels"] = _relations(links)
    parts["_rels/.rels"] = _relations([("r", "officeDocument", "xl/workbook.bin")])
    parts["[Content_Types].xml"] = b"<Types/>"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def _relations(links: Iterable[tuple[str, str, str]]) -> bytes:
    space = "http://schemas.openxmlformats.org"
    kinds = f"{space}/officeDocument/2006/relationships"
    each = (f'<Relationship Id="{i}" Type="{kinds}/{k}" Target="{t}"/>' for i, k, t in links)
    head = f'<Relationships xmlns="{space}/package/2006/relationships">'
    return f"{head}{''.join(each)}</Relationships>".encode()


def _xlsb_sheet(tab: Tab) -> bytes:
    width = max(map(len, tab.rows), default=1)
    parts = [_binary(129), _binary(148, struct.pack("<4I", 0, len(tab.rows) - 1, 0, width - 1))]
    parts.append(_binary(145))
    for number, row in enumerate(tab.rows):
        flags = 0x10 if number in tab.hidden else 0
        parts.append(_binary(0, struct.pack("<IIHBBB4x", number, 0, 300, 0, flags, 0)))
        parts += (_xlsb_cell(at, cell) for at, cell in enumerate(row))
    parts.append(_binary(146))
    if tab.merged:
        parts.append(_binary(177, struct.pack("<I", len(tab.merged))))
        parts += (_binary(176, struct.pack("<4I", *each)) for each in tab.merged)
        parts.append(_binary(178))
    return b"".join([*parts, _binary(130)])


def _xlsb_cell(column: int, cell: Cell) -> bytes:
    place = struct.pack("<II", column, 1 if isinstance(cell, dt.date) else 0)
    if cell is None or cell == "":
        return b""
    if isinstance(cell, Error):
        code = bytes([_CODES[cell.text]])
        return _binary(11, place + code + bytes(10)) if cell.formula else _binary(3, place + code)
    if isinstance(cell, bool):
        return _binary(4, place + bytes([cell]))
    if isinstance(cell, float | dt.date):
        number = float((cell - _EPOCH).days) if isinstance(cell, dt.date) else cell
        return _binary(5, place + struct.pack("<d", number))
    return _binary(6, place + _wide(str(cell)))


def _wide(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return struct.pack("<I", len(data) // 2) + data


def _binary(number: int, body: bytes = b"") -> bytes:
    head = bytes([number]) if number < 128 else bytes([number & 0x7F | 0x80, number >> 7])
    size, rest = b"", len(body)
    while True:
        rest, low = rest >> 7, rest & 0x7F
        size += bytes([low | 0x80 if rest else low])
        if not rest:
            return head + size + body


WRITERS: Mapping[str, Callable[[Iterable[Tab]], bytes]] = {".ods": ods, ".xls": xls, ".xlsb": xlsb}
