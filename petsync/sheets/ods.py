"""Read an OpenDocument sheet as a workbook of plain cells."""

from __future__ import annotations

import datetime as dt
import io
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from xml.parsers import expat

from petsync.errors import SheetError
from petsync.sheets.files import UNLOCK
from petsync.sheets.grid import CellKind, letter
from petsync.sheets.xlsx.package import FREE, MAX_RATIO, MAX_TABS, MAX_UNPACKED
from petsync.sheets.xlsx.plain import MAX_COLUMNS, PlainCell, PlainTab
from petsync.workbook import MAX_ROWS

__all__ = ["read_ods"]


_CONTENT, _MANIFEST = "content.xml", "META-INF/manifest.xml"
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    KeyError,
)
_DAMAGED = (
    "Open it in LibreOffice and save it again; if that also fails, get the file again or restore "
    "it from a backup."
)
_PREFIXES = {
    f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0": name
    for name in ("office", "table", "text", "style")
} | {"urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0": "calcext"}
_SKIPPED = (
    "office:annotation",
    "office:forms",
    "table:shapes",
    "table:tracked-changes",
    "table:dde-links",
    "text:ruby-text",
    "text:note",
)
"""Elements whose texts are not those of cells. So are all elements of other namespaces in a cell,
such as drawings.
"""
_ERROR = re.compile(r"#(?:N/A|REF!|VALUE!|NAME\?|DIV/0!|NUM!|NULL!)|Err:[0-9]{3}")
_LAYOUT = re.compile(r" *[\t\n][ \t\n]*")
"""Space that only lays out the file. OpenDocument also ignores repeated spaces, and those around a
paragraph, but LibreOffice writes those of a text like that.
"""
_RETURNS = re.compile(r"\r\n|\n\r|\r")
"""Line ends of a text; those of the file itself are line feeds, see the XML specification."""
_SPACE, _TAB, _BREAK = "\0", "\1", "\2"
"""Stand for the characters of `text:s`, `text:tab` and `text:line-break`, which are kept."""
_MEANT = {ord(_SPACE): " ", ord(_TAB): "\t", ord(_BREAK): "\n"}
_DURATION = re.compile(
    r"(-?)P(?:([0-9]+)D)?T?(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:[.,][0-9]+)?)S)?"
)
_HIDDEN = ("collapse", "filter")
_MAX_COUNT = 1 << 31


def read_ods(path: Path, data: bytes) -> tuple[list[PlainTab], frozenset[str]]:
    """Return the worksheets of an OpenDocument sheet, and the names that it defines. Raises
    SheetError if it is damaged, is protected by a password, or is too large.
    """
    reader = _Reader(path)
    reader.parse(_read_content(path, data))
    if not reader.tabs:
        raise SheetError(
            f"{path}: there is no worksheet in this file",
            hint="Use a workbook that has the table in a worksheet.",
        )
    return reader.tabs, frozenset(reader.names)


def _damage_error(path: Path, why: object) -> SheetError:
    return SheetError(f"{path}: the OpenDocument sheet is damaged: {why}", hint=_DAMAGED)


def _read_content(path: Path, data: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            manifest = _read_part(archive, _MANIFEST) if _MANIFEST in names else b""
            if b"encryption-data" in manifest or "encrypted-package" in names:
                raise SheetError(f"{path}: the file is protected by a password", hint=UNLOCK)
            size = archive.getinfo(_CONTENT).file_size
            if size > MAX_UNPACKED or (size > FREE and size > len(data) * MAX_RATIO):
                raise SheetError(
                    f"{path}: the unpacked sheet is {size / 1e6:,.0f} MB, "
                    f"{size // len(data)} times its packed size; it is not opened",
                    hint="If it is genuine, save the sheet as CSV (UTF-8) and read that.",
                )
            return _read_part(archive, _CONTENT)
    except SheetError:
        raise
    except _UNREADABLE as error:
        why = "it has no part content.xml" if isinstance(error, KeyError) else error
        raise _damage_error(path, why or "it ends too early") from None


def _read_part(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a part; at most the size that it states is unpacked."""
    info = archive.getinfo(name)
    with archive.open(info) as part:
        return part.read(info.file_size)


class _Reader:
    """Reads content.xml. Its elements have names such as `table:table-cell`."""

    def __init__(self, path: Path) -> None:
        self.tabs: list[PlainTab] = []
        self.names: set[str] = set()
        self._path = path
        self._hidden_styles: set[str] = set()
        self._style = ""
        self._tab: PlainTab | None = None
        self._row = self._column = self._repeated_row = 0
        self._is_row_hidden = False
        self._cells: list[PlainCell] = []
        self._spans: list[tuple[int, int, int]] = []
        self._cell: Mapping[str, str] | None = None
        self._paragraphs: list[str] = []
        self._text: list[str] | None = None
        self._skipped = 0
        self._starts: dict[str, Callable[[Mapping[str, str]], None]] = {
            "style:style": self._start_style,
            "style:table-properties": self._start_properties,
            "table:named-range": self._start_name,
            "table:named-expression": self._start_name,
            "table:table": self._start_tab,
            "table:table-column": self._start_column,
            "table:table-row": self._start_row,
            "table:table-cell": self._start_cell,
            "table:covered-table-cell": self._start_cell,
            "text:p": self._start_paragraph,
            "text:s": self._add_spaces,
            "text:tab": lambda _: self._add(_TAB),
            "text:line-break": lambda _: self._add(_BREAK),
        }
        self._ends: dict[str, Callable[[], None]] = {
            "table:table": self._end_tab,
            "table:table-row": self._end_row,
            "table:table-cell": self._end_cell,
            "table:covered-table-cell": self._end_cell,
            "text:p": self._end_paragraph,
        }

    def parse(self, content: bytes) -> None:
        """Read the whole part."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add
        parser.StartDoctypeDeclHandler = self._refuse
        try:
            parser.Parse(content, True)
        except SheetError:
            raise
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise _damage_error(self._path, error) from None

    def _refuse(self, *_: object) -> None:
        raise _damage_error(self._path, "it has a document type declaration")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        short = _short_name(name)
        is_foreign = self._cell is not None and not short.startswith(("text:", "table:"))
        if self._skipped or is_foreign or short in _SKIPPED:
            self._skipped += 1
        elif short in self._starts:
            self._starts[short]({_short_name(key): text for key, text in attributes.items()})

    def _end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif (end := self._ends.get(_short_name(name))) is not None:
            end()

    def _start_style(self, attributes: Mapping[str, str]) -> None:
        self._style = attributes.get("style:name", "")

    def _start_properties(self, attributes: Mapping[str, str]) -> None:
        if attributes.get("table:display") == "false":
            self._hidden_styles.add(self._style)

    def _start_name(self, attributes: Mapping[str, str]) -> None:
        self.names.add(attributes.get("table:name", "").casefold())

    def _start_tab(self, attributes: Mapping[str, str]) -> None:
        if len(self.tabs) == MAX_TABS:
            raise SheetError(
                f"{self._path}: the workbook has more than {MAX_TABS:,} sheets",
                hint="If it is genuine, save the sheet as CSV (UTF-8) and read that.",
            )
        name = attributes.get("table:name", "")
        self._tab = PlainTab(
            name,
            f"{self._path}, sheet {name!r}",
            attributes.get("table:style-name", "") not in self._hidden_styles,
        )
        self.tabs.append(self._tab)
        self._row = self._column = 0

    def _end_tab(self) -> None:
        self._tab = None

    def _start_column(self, attributes: Mapping[str, str]) -> None:
        count = self._count(attributes, "table:number-columns-repeated")
        if self._tab is not None and attributes.get("table:visibility") in _HIDDEN:
            last = min(self._column + count, MAX_COLUMNS) - 1
            if self._column <= last:
                self._tab.hidden.append((self._column, last))
        self._column += count

    def _start_row(self, attributes: Mapping[str, str]) -> None:
        self._repeated_row = self._count(attributes, "table:number-rows-repeated")
        self._is_row_hidden = attributes.get("table:visibility") in _HIDDEN
        self._column = 0
        self._cells, self._spans = [], []

    def _end_row(self) -> None:
        tab = self._tab
        if tab is None:
            return
        first = self._row + 1
        if self._cells:
            if self._row + self._repeated_row > MAX_ROWS:
                raise self._far_error(f"row {self._row + self._repeated_row:,}")
            for number in range(first, first + self._repeated_row):
                tab.add_row(number, self._cells, hidden=self._is_row_hidden)
        for column, columns, rows in self._spans:
            end = f"{letter(column + columns - 1)}{first + rows - 1}"
            tab.merged.append(f"{letter(column)}{first}:{end}")
        self._row += self._repeated_row

    def _start_cell(self, attributes: Mapping[str, str]) -> None:
        self._cell, self._paragraphs = attributes, []

    def _end_cell(self) -> None:
        attributes, self._cell = self._cell or {}, None
        count = self._count(attributes, "table:number-columns-repeated")
        kind, value = _read_cell(attributes, "\n".join(self._paragraphs), bool(self._paragraphs))
        if value != "" or kind is not CellKind.TEXT:
            if self._column + count > MAX_COLUMNS:
                raise self._far_error(f"column {self._column + count:,}")
            columns = range(self._column, self._column + count)
            self._cells += (PlainCell(column, kind, value) for column in columns)
        width = self._count(attributes, "table:number-columns-spanned")
        height = self._count(attributes, "table:number-rows-spanned")
        if width * height > 1 and self._column + width <= MAX_COLUMNS:
            self._spans.append((self._column, width, min(height, MAX_ROWS - self._row)))
        self._column += count

    def _far_error(self, place: str) -> SheetError:
        where = "" if self._tab is None else self._tab.where
        return SheetError(
            f"{where}: the sheet has values as far as {place}, too far for a table of pets",
            hint="Delete the stray cells (Ctrl+End goes to the last one), or copy the table into "
            "another sheet.",
        )

    def _start_paragraph(self, _: Mapping[str, str]) -> None:
        if self._cell is not None:
            self._text = []

    def _end_paragraph(self) -> None:
        if self._text is not None:
            text = _RETURNS.sub(_BREAK, "".join(self._text))
            words = [each for each in _LAYOUT.split(text) if each]
            self._paragraphs.append(" ".join(words).translate(_MEANT))
            self._text = None

    def _add_spaces(self, attributes: Mapping[str, str]) -> None:
        self._add(_SPACE * self._count(attributes, "text:c"))

    def _add(self, text: str) -> None:
        if self._text is not None and not self._skipped:
            self._text.append(text)

    def _count(self, attributes: Mapping[str, str], name: str) -> int:
        text = attributes.get(name)
        if text is None:
            return 1
        if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) < _MAX_COUNT):
            raise _damage_error(self._path, f"{name} is {text[:20]!r}")
        return int(text)


@lru_cache(maxsize=1024)
def _short_name(name: str) -> str:
    space, _, local = name.rpartition(" ")
    return f"{_PREFIXES.get(space, '')}:{local}"


def _read_cell(
    attributes: Mapping[str, str], text: str, has_text: bool
) -> tuple[CellKind, str | float | bool | dt.date | dt.time | dt.timedelta]:
    """Return the kind and the value of a cell."""
    kind = attributes.get("office:value-type", "")
    has_formula = "table:formula" in attributes
    if attributes.get("calcext:value-type") == "error" or (has_formula and _ERROR.fullmatch(text)):
        return CellKind.ERROR, text
    if kind in ("float", "percentage", "currency") and "office:value" in attributes:
        with suppress(ValueError):
            number = float(attributes["office:value"])
            return (CellKind.NUMBER, number) if math.isfinite(number) else (CellKind.TEXT, text)
    if kind == "boolean":
        return CellKind.BOOLEAN, attributes.get("office:boolean-value") == "true"
    if kind == "date" and (day := attributes.get("office:date-value")):
        with suppress(ValueError):
            return CellKind.DATE, dt.datetime.fromisoformat(day)
        return CellKind.DATE, day
    if kind == "time" and (time := attributes.get("office:time-value")):
        return CellKind.DATE, _read_duration(time)
    if has_formula and not kind and not has_text:
        return CellKind.UNCALCULATED, ""
    return CellKind.TEXT, attributes.get("office:string-value", text) if kind else text


def _read_duration(text: str) -> dt.time | dt.timedelta | str:
    found = _DURATION.fullmatch(text)
    if found is None:
        return text
    days, hours, minutes = (int(part or 0) for part in found.groups()[1:4])
    seconds = float((found[5] or "0").replace(",", "."))
    try:
        since = dt.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return text
    if found[1] or since >= dt.timedelta(days=1):
        return -since if found[1] else since
    return (dt.datetime.min.replace(tzinfo=dt.UTC) + since).time()
