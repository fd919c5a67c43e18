"""The package of a workbook: its ZIP parts with limits, its shared strings, and checks for markup
that calamine misreads.
"""

from __future__ import annotations

import io
import itertools
import posixpath
import re
import threading
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import unescape

import numpy as np

from petsync.errors import SheetError
from petsync.sheets.files import Source, identify_zip
from petsync.sheets.xlsx.xml import (
    MAX_ELEMENTS,
    MarkupError,
    check_count,
    check_form,
    contains_pair,
    elements,
)

__all__ = [
    "MAX_SEARCHED",
    "Package",
    "Tab",
    "misreading",
    "pack_parts",
    "part_key",
    "resolve_target",
    "shared_size",
    "strip_count",
    "without_trailing",
]


# A ZIP file in memory, with uncompressed parts.


def pack_parts(parts: Mapping[str, bytes]) -> io.BytesIO:
    """Return a ZIP file with these parts, given by their names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    file.seek(0)
    return file


# Markup of a worksheet that calamine reads differently from other programs.


_SHEET_DATA = re.compile(rb"<(?:[^\s<>/]+:)?sheetData[\s/>]")
_HEAD = 1 << 16
# calamine joins the pieces of a formula's text (`t="str"`), so only a text that begins like a
# number is misread.
_PIECES = re.compile(rb"v>[0-9.eE+\-]*(?:<!|&#(?:4[3-9]|5[0-7]|x2[bBdDeE]|x3[0-9]);)")


def misreading(data: bytes) -> str:
    """Return the markup that calamine would misread, in words; "" if there is none.

    calamine reads only the first of two tables of cells, and only the first piece of a number that
    a comment, a CDATA section or a character reference divides.
    """
    if _tables(data) > 1:
        return "it has two tables of cells"
    end = data.rfind(b"sheetData")
    divided = contains_pair(data, b"<!") or contains_pair(data, b"&#", 0, end)
    return "a number in it is split into pieces" if divided and _PIECES.search(data) else ""


def _tables(data: bytes) -> int:
    if b":sheetData" in data[:_HEAD]:
        return len(_SHEET_DATA.findall(data))
    return data.count(b"<sheetData")


# The size of a workbook's shared strings, measured before they are copied to the cells that refer
# to them.
#
# A cell takes 30 bytes in the file, whatever the size of the text that it refers to: 100,000
# cells with one text of 30 MB would need three terabytes.


_COUNT = b"uniqueCount"
# The start tag and the whitespace up to the next element.
_STRING_TABLE = re.compile(rb"<(?:[^\s<>/]+:)?sst\s[^<]*")
_INDEX = re.compile(rb">([0-9]{1,9})<")
_END_OF_STRING = b"</si>"
_WORTH = 64
_MIN_CELL_BYTES = 16
"""A lower bound for the number of bytes of a cell with a reference."""


def strip_count(strings: bytes) -> bytes:
    """Return the part without the stated number of strings, for which calamine allocates memory."""
    return _STRING_TABLE.sub(lambda tag: tag[0].replace(_COUNT, b"was"), strings)


def shared_size(sheet: bytes, strings: bytes, limit: int) -> int:
    """Return an upper bound of the bytes of shared strings in a worksheet's cells.

    Above `limit` it is nearly exact; below it, the bound is rough but fast to compute.
    """
    fits = len(sheet) // _MIN_CELL_BYTES + 1
    size = limit // fits
    if size >= _WORTH and _is_cut(strings, size):
        return fits * size
    # A reference has the type `s` in quotes, whatever else its tag has.
    references = sheet.count(b'"s"') + (sheet.count(b"'s'") if b"'" in sheet else 0)
    sizes = [len(text) for text in strings.split(_END_OF_STRING)]
    if references * max(sizes) <= limit:
        return references * max(sizes)
    indexes = np.array(_INDEX.findall(sheet), dtype=np.int64)
    known = indexes[indexes < len(sizes)]
    # A reference without a known index counts as a reference to the first text.
    others = max(0, references - len(known))
    return int(np.array(sizes)[known].sum()) + others * sizes[0]


def _is_cut(strings: bytes, size: int) -> bool:
    """Return true if a text ends within every `size` bytes of the part, so that no text is
    longer.
    """
    at = 0
    while len(strings) - at > size:
        end = strings.rfind(_END_OF_STRING, at, at + size)
        if end < 0:
            return False
        at = end + len(_END_OF_STRING)
    return True


# Rows at a worksheet's end that are only formatted: there may be hundreds of thousands.


_FEW = 4096


def without_trailing(data: bytes) -> bytes:
    """Return a worksheet's part without the rows after the last cell with content, which a reader
    would have to skip.

    A part that has content other than formatted cells there, or unusual markup, is returned
    unchanged.
    """
    # A cell without content is one tag (`<c/>`), so the last end tag belongs to the last other
    # cell.
    last = data.rfind(b"</c>")
    end = data.find(b"</sheetData>", last)
    cut = data.find(b"</row>", last, end) + len(b"</row>")
    if last < 0 or end - cut < _FEW or cut < last:
        return data
    blank = sum(data.count(tag, cut, end) for tag in (b"<c ", b"<row ", b"</row>"))
    return data[:cut] + data[end:] if data.count(b"<", cut, end) == blank else data


# A workbook's parts: the ZIP container with its limits, the tabs, and one tab as a new workbook.
#
# The parts are unpacked, measured and checked here, and only those needed to read one tab are
# passed on. So no reader unpacks more than was measured, whatever the file's headers claim.


MAX_UNPACKED = 1 << 30
"""The maximum size of an unpacked workbook, in bytes."""
MAX_RATIO = 250
"""The maximum ratio of the unpacked to the packed size, if the unpacked size is more than `FREE`
bytes.
"""
FREE = 1 << 26
MAX_TEXT = 1 << 30
"""The maximum number of bytes of text in all cells of a sheet."""
MAX_TEXT_RATIO = 16
"""The maximum ratio of the text to the size of its parts, if the text has more than `FREE` bytes: a
cell that repeats a text of the workbook takes 30 bytes, whatever the text's size.
"""
MAX_STRINGS = 20_000_000
MAX_CELLS = 60_000_000
"""The maximum number of elements of the shared strings, and of one worksheet. A worksheet with a
million pets has about twenty million elements.
"""
MAX_SEARCHED = 1 << 26
"""The maximum number of bytes of the worksheets that are searched for a header."""
MAX_TABS = 1_000
MAX_PARTS = 10_000
"""The maximum number of parts of a workbook. A workbook with a picture in each row has a few
thousand.
"""

_DAMAGED = (
    "Open it in Excel or LibreOffice and save it again; if that also fails, get the file again or "
    "restore it from a backup."
)
_AS_CSV = "If it is genuine, save the sheet as CSV (UTF-8) and read that."
_UNZIPPED = "Unzip it, and zip it again without a password; or save the sheet again as .xlsx."
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENTRY, _END_OF_ARCHIVE = b"PK\x01\x02", b"PK\x05\x06"
# The archive's last record may be followed by a comment of up to 65,535 bytes.
_TAIL = 22 + (1 << 16)
_CUT_OFF = (
    "If it is still being saved, copied or downloaded, wait until that is done; otherwise get it "
    "again."
)
_PIECE_SIZE = 1 << 20
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
# U+FFFE and U+FFFF are illegal in XML; their escapes are decoded here because calamine does not
# decode them. The escape of an underscore also matches, because the text after it must not change.
_NONCHARACTER = re.compile(rb"_x(?:005F|FFF[EF])_", re.IGNORECASE)
_ESCAPED = re.compile(rb"_x[Ff]{3}")
_ENCODING = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"']*)")
_ENCODINGS = (b"utf-8", b"utf8", b"us-ascii", b"ascii")
_ITEM = re.compile(
    rb"<(?:\w+:)?si(?:\s[^>]*)?>(.*?)(?=<(?:\w+:)?si[\s>/]|</(?:\w+:)?sst>)", re.DOTALL
)
_PIECE = re.compile(rb"<(?:\w+:)?t(?:\s[^>]*)?>([^<]*)</")
_MAX_TEXTS = 200_000
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_ROOT = "_rels/.rels"
# calamine finds these two parts by name, whatever the workbook's relations say.
_STYLES, _STRINGS = "xl/styles.xml", "xl/sharedStrings.xml"


@dataclass(frozen=True, slots=True)
class Tab:
    """One worksheet: its name, whether it is visible, and its part."""

    name: str
    visible: bool
    part: str


class Package:
    """The parts of one workbook. Raises SheetError if the file is not a readable workbook."""

    def __init__(self, source: Source) -> None:
        self.path = source.path
        if _END_OF_ARCHIVE not in source.data[-_TAIL:]:
            raise SheetError(f"{self.path}: the end of the workbook is missing", hint=_CUT_OFF)
        # Count first, because reading the entries takes some hundred bytes for each.
        if source.data.count(_ENTRY) > MAX_PARTS:
            raise SheetError(f"{self.path}: the workbook has too many parts", hint=_AS_CSV)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(source.data))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise self._damage_error(str(error)) from None
        self._check_size(len(source.data))
        self._parts: dict[str, zipfile.ZipInfo] = {}
        self._doubled: set[str] = set()
        for info in self._zip.infolist():
            name = part_key(info.filename)
            if self._parts.setdefault(name, info) is not info:
                self._doubled.add(name)
        kind = identify_zip(self._parts)
        if kind is not None:
            raise SheetError(f"{self.path}: the file is {kind.what}", hint=kind.hint)
        self.workbook = self._workbook()
        self._book = self.elements(self.workbook)
        self._related = self._relations(self.workbook)
        self.tabs: Sequence[Tab] = self._tabs()
        self._texts: Mapping[str, bytes] | None = None
        self._texts_lock = threading.Lock()

    def part(self, name: str) -> bytes:
        """Return the bytes of one part."""
        info = self._parts.get(part_key(name))
        if info is None:
            raise self._damage_error(f"the part {name} is missing")
        if part_key(name) in self._doubled:
            raise self._damage_error(f"the part {name} occurs twice")
        if info.flag_bits & 1:
            raise SheetError(f"{self.path}: the file is encrypted", hint=_UNZIPPED)
        if info.compress_type not in _METHODS:
            raise self._damage_error(
                f"{name} is compressed with a method that no spreadsheet program uses"
            )
        try:
            with self._zip.open(info) as part:
                # Read at most the measured size: without a size, everything is unpacked before it
                # is truncated. A single read would need memory of twice that size.
                unpacked = io.BytesIO()
                while piece := part.read(min(_PIECE_SIZE, info.file_size - unpacked.tell())):
                    unpacked.write(piece)
                return unpacked.getvalue()
        except _UNREADABLE as error:
            raise self._damage_error(f"{name}: {error or 'it ends too early'}") from None

    def text_part(self, name: str) -> bytes:
        """Return the bytes of an XML part. Raises SheetError if it is not UTF-8 or has a DTD."""
        data = self.part(name)
        if not _is_usual(data):
            raise self._damage_error(f"{name} is XML of a kind that no spreadsheet program writes")
        if contains_pair(data, b"_x") and _ESCAPED.search(data):
            data = _NONCHARACTER.sub(_character, data)
        return data

    def worksheet(self, tab: Tab) -> bytes:
        """Return the bytes of a tab's part, without rows after the last cell with content. Raises
        SheetError if calamine would misread the part.
        """
        data = without_trailing(self.text_part(tab.part))
        self._check(tab.part, data, MAX_CELLS)
        why = misreading(data)
        if why:
            raise self._damage_error(f"{tab.part}: {why}")
        return data

    def head(self, tab: Tab, size: int) -> bytes:
        """Return the first bytes of a tab's part; b"" if they cannot be read."""
        info = self._parts.get(part_key(tab.part))
        if info is None or info.flag_bits & 1 or info.compress_type not in _METHODS:
            return b""
        try:
            with self._zip.open(info) as part:
                data = part.read(min(size, info.file_size))
        except _UNREADABLE:
            return b""
        return data if _is_usual(data) else b""

    def tab(self, name: str) -> Tab:
        """Return the worksheet with that name; if no worksheet has exactly that name, case is
        ignored. Raises SheetError if there is none.
        """
        exact = [tab for tab in self.tabs if tab.name == name]
        similar = [tab for tab in self.tabs if tab.name.casefold() == name.casefold()]
        if not exact + similar:
            tab_names = ", ".join(repr(tab.name) for tab in self.tabs)
            raise SheetError(
                f"{self.path}: there is no sheet {name!r}", hint=f"It has {tab_names}."
            )
        return (exact + similar)[0]

    def texts(self) -> Mapping[str, bytes]:
        """Return the parts to which every worksheet refers, the styles and the shared strings, by
        name. They are read only once.
        """
        with self._texts_lock:
            if self._texts is None:
                self._texts = self._read_texts()
            return self._texts

    def _read_texts(self) -> Mapping[str, bytes]:
        parts = {
            target: self.text_part(part)
            for kind, target in (("styles", _STYLES), ("sharedStrings", _STRINGS))
            for part in self._of_kind(kind)
        }
        if _STYLES in parts:
            self._check(_STYLES, parts[_STYLES], MAX_ELEMENTS)
            try:
                # calamine ignores markup that is not well-formed, and then reads a date as a
                # number.
                check_form(parts[_STYLES])
            except MarkupError as error:
                raise self._damage_error(f"{_STYLES}: {error}") from None
        if _STRINGS in parts:
            self._check(_STRINGS, parts[_STRINGS], MAX_STRINGS)
            parts[_STRINGS] = strip_count(parts[_STRINGS])
        return parts

    def _check(self, name: str, data: bytes, limit: int) -> None:
        try:
            check_count(data, limit)
        except MarkupError as error:
            raise self._damage_error(f"{name}: {error}") from None

    def size(self, tab: Tab) -> int:
        """Return the unpacked size of the tab's part in bytes; 0 if it is missing."""
        info = self._parts.get(part_key(tab.part))
        return 0 if info is None else info.file_size

    def shared_texts(self, indexes: Collection[int]) -> dict[int, str]:
        """Return the shared strings with these indexes, by index; of very many strings, only the
        first ones are searched.
        """
        texts: dict[int, str] = {}
        for part in self._of_kind("sharedStrings"):
            items = _ITEM.finditer(self.text_part(part))
            for at, item in enumerate(itertools.islice(items, min(max(indexes) + 1, _MAX_TEXTS))):
                if at in indexes:
                    pieces = (unescape(piece.decode()) for piece in _PIECE.findall(item[0]))
                    texts[at] = "".join(pieces)
        return texts

    def extract_sheet(self, sheet: bytes, texts: Mapping[str, bytes] | None = None) -> io.BytesIO:
        """Return a workbook whose only worksheet has these bytes. `texts` are the parts to which it
        refers, by default those of this workbook. `check_texts` must have passed.
        """
        parts = self.texts() if texts is None else texts
        frame = _frame(self.since_1904, parts)
        plain = {name: text.encode() for name, text in frame.items()}
        return pack_parts({**plain, **parts, "xl/sheet.xml": sheet})

    def elements(self, name: str) -> list[tuple[str, dict[str, str]]]:
        """Return the elements of a small part. Raises SheetError if it is not well-formed."""
        try:
            return elements(self.text_part(name))
        except MarkupError as error:
            raise self._damage_error(f"{name}: {error}") from None

    def _check_size(self, packed: int) -> None:
        size = sum(info.file_size for info in self._zip.infolist())
        if size > MAX_UNPACKED or (size > FREE and size > packed * MAX_RATIO):
            raise SheetError(
                f"{self.path}: the unpacked workbook is {size / 1e6:,.0f} MB, "
                f"{size // max(packed, 1)} times its packed size; it is not opened",
                hint=_AS_CSV,
            )

    def check_texts(self, sheet: bytes) -> None:
        """Raise SheetError if the cells of a worksheet's part would contain too much text."""
        strings = self.texts().get(_STRINGS)
        if strings is None:
            return
        limit = min(MAX_TEXT, max(FREE, MAX_TEXT_RATIO * (len(sheet) + len(strings))))
        size = shared_size(sheet, strings, limit)
        if size > limit:
            raise SheetError(
                f"{self.path}: the sheet's cells contain {size / 1e6:,.0f} MB of text, "
                f"{size // (len(sheet) + len(strings))} times the size in the file; it is not read",
                hint=_AS_CSV,
            )

    def _workbook(self) -> str:
        for local, attributes in self.elements(_ROOT) if _ROOT in self._parts else ():
            if local == "Relationship" and attributes.get("Type", "").endswith("/officeDocument"):
                return resolve_target("", attributes.get("Target", ""))
        raise self._damage_error("it does not specify which of its parts is the workbook")

    def _relations(self, part: str) -> dict[str, tuple[str, str]]:
        folder, name = posixpath.split(part)
        relations = posixpath.join(folder, "_rels", f"{name}.rels")
        return {
            attributes["Id"]: (
                attributes.get("Type", "").rpartition("/")[2],
                resolve_target(folder, attributes.get("Target", "")),
            )
            for local, attributes in self.elements(relations)
            if local == "Relationship" and "Id" in attributes
        }

    def _tabs(self) -> list[Tab]:
        tabs = []
        for local, attributes in self._book:
            kind, part = self._related.get(attributes.get("id", ""), ("", ""))
            if local == "sheet" and kind == "worksheet":
                visible = attributes.get("state", "visible") == "visible"
                tabs.append(Tab(attributes.get("name", ""), visible, part))
        if len(tabs) > MAX_TABS:
            raise SheetError(
                f"{self.path}: the workbook has {len(tabs):,} sheets, and the limit is "
                f"{MAX_TABS:,}",
                hint=_AS_CSV,
            )
        if not tabs:
            raise SheetError(
                f"{self.path}: there is no worksheet in this file",
                hint="Use a workbook that has the table in a worksheet.",
            )
        return tabs

    def _of_kind(self, kind: str) -> list[str]:
        parts = [part for what, part in self._related.values() if what == kind]
        return [part for part in parts if part_key(part) in self._parts][:1]

    @property
    def since_1904(self) -> bool:
        """True if the workbook uses the 1904 date system."""
        properties = [attributes for name, attributes in self._book if name == "workbookPr"]
        return any(each.get("date1904") in ("1", "true") for each in properties)

    def _damage_error(self, why: str) -> SheetError:
        return SheetError(f"{self.path}: the workbook is damaged: {why}", hint=_DAMAGED)


def _is_usual(xml: bytes) -> bool:
    declared = _ENCODING.match(xml)
    if declared is not None and declared[1].lower() not in _ENCODINGS:
        return False
    wide = xml.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in xml[:4]
    return not wide and not (contains_pair(xml, b"<!") and b"<!DOCTYPE" in xml)


def _character(match: re.Match[bytes]) -> bytes:
    code = match[0][2:6].upper()
    return match[0] if code == b"005F" else chr(int(code, 16)).encode()


def part_key(name: str) -> str:
    """Return the normalized name of a part: some programs write backslashes."""
    return name.replace("\\", "/").lstrip("/").casefold()


def resolve_target(folder: str, target: str) -> str:
    """Return the name of the part that is the target of a relation, given the folder of the
    relation's source part; "" without a target.
    """
    target = target.replace("\\", "/")
    if target.startswith("/"):
        return target.lstrip("/")
    return posixpath.normpath(posixpath.join(folder, target)) if target else ""


def _frame(since_1904: bool, parts: Mapping[str, bytes]) -> dict[str, str]:
    kinds = {_STYLES: "styles", _STRINGS: "sharedStrings"}
    targets = {"xl/sheet.xml": "worksheet", **{part: kinds[part] for part in parts}}
    links = "".join(
        f'<Relationship Id="r{n}" Type="{_RELATIONS}/{kind}" Target="{part[3:]}"/>'
        for n, (part, kind) in enumerate(targets.items())
    )
    root = f'<Relationship Id="r" Type="{_RELATIONS}/officeDocument" Target="xl/workbook.xml"/>'
    return {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
        _ROOT: f'<Relationships xmlns="{_PACKAGE}/relationships">{root}</Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATIONS}">'
        f'<workbookPr date1904="{int(since_1904)}"/>'
        '<sheets><sheet name="sheet" sheetId="1" r:id="r0"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{links}'
        "</Relationships>",
    }
