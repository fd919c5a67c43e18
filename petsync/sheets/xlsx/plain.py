"""Write a workbook of plain cells: the form in which petsync reads workbooks of other formats."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from petsync.errors import SheetError
from petsync.sheets.grid import CellKind, letter
from petsync.workbook import MAX_ROWS, inline

__all__ = ["MAX_COLUMNS", "PlainCell", "PlainTab", "plain_workbook"]


MAX_COLUMNS = 1 << 14
MAX_UNPACKED = 1 << 30
"""The maximum number of bytes of the cells of a worksheet, as XML."""
_LEVEL = 1
_EXACT = 2.0**53
_EPOCH = dt.datetime(1899, 12, 30, tzinfo=dt.UTC)
_FIRST_DAY = dt.datetime(1900, 3, 1, tzinfo=dt.UTC)
"""The first day whose number is the same in all programs."""
_DAY = dt.timedelta(days=1)
_DATE, _DATE_TIME, _TIME, _DURATION = 1, 2, 3, 4
"""The numbers of the styles in _STYLES."""
_ERRORS = ("#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NUM!", "#NULL!")
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_CONTENT = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_FORMATS = (0, 14, 22, 21, 46)
"""Excel's numbers of the formats of the styles: general, date, date and time, time, duration."""
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><fonts count="1"><font><sz val="11"/><name val="Calibri"/></font>'
    '</fonts><fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill '
    'patternType="gray125"/></fill></fills><borders count="1"><border><left/><right/><top/>'
    '<bottom/><diagonal/></border></borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" '
    f'fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="{len(_FORMATS)}">'
    + "".join(
        f'<xf numFmtId="{each}" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
        for each in _FORMATS
    )
    + '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/>'
    "</cellStyles></styleSheet>"
)


class PlainCell(NamedTuple):
    """A cell that is not blank."""

    column: int
    """The number of its column, from 0."""
    kind: CellKind
    """TEXT, NUMBER, BOOLEAN, DATE, ERROR or UNCALCULATED."""
    value: str | float | bool | dt.date | dt.time | dt.timedelta


@dataclass(slots=True)
class PlainTab:
    """A worksheet to which rows are added from top to bottom. `where` begins its errors."""

    name: str
    where: str
    visible: bool = True
    merged: list[str] = field(default_factory=list)
    """The merged ranges."""
    hidden: list[tuple[int, int]] = field(default_factory=list)
    """The first and the last number, from 0, of hidden columns."""
    _rows: io.BytesIO = field(default_factory=io.BytesIO)

    def add_row(self, number: int, cells: Iterable[PlainCell], *, hidden: bool = False) -> None:
        """Add the row with this number, from 1, and with these cells from left to right.

        Raises SheetError if a worksheet cannot contain the row.
        """
        content = "".join(_cell_xml(number, cell) for cell in cells)
        if not content:
            return
        if number > MAX_ROWS:
            raise SheetError(
                f"{self.where}: row {number:,} is beyond the last row of a worksheet "
                f"({MAX_ROWS:,})",
                hint="Delete what is there, or split the sheet.",
            )
        mark = ' hidden="1"' if hidden else ""
        self._rows.write(f'<row r="{number}"{mark}>{content}</row>'.encode())
        if self._rows.tell() > MAX_UNPACKED:
            raise SheetError(
                f"{self.where}: the cells have more than {MAX_UNPACKED / 1e9:,.1f} GB of text",
                hint="If the sheet is genuine, save it as CSV (UTF-8) and read that.",
            )

    def xml(self) -> bytes:
        """Return the part of the worksheet."""
        columns = "".join(
            f'<col min="{first + 1}" max="{last + 1}" width="9" hidden="1"/>'
            for first, last in self.hidden
        )
        merged = "".join(f'<mergeCell ref="{each}"/>' for each in self.merged)
        head = f'<worksheet xmlns="{_MAIN}">' + (f"<cols>{columns}</cols>" if columns else "")
        tail = f'<mergeCells count="{len(self.merged)}">{merged}</mergeCells>' if merged else ""
        return b"".join(
            [
                f"{head}<sheetData>".encode(),
                self._rows.getbuffer(),
                f"</sheetData>{tail}</worksheet>".encode(),
            ]
        )


def _cell_xml(number: int, cell: PlainCell) -> str:
    if cell.column >= MAX_COLUMNS:
        return ""
    place, value = f"{letter(cell.column)}{number}", cell.value
    if cell.kind is CellKind.TEXT:
        return f'<c r="{place}" t="inlineStr">{inline(str(value))}</c>' if value else ""
    if cell.kind is CellKind.BOOLEAN:
        return f'<c r="{place}" t="b"><v>{int(bool(value))}</v></c>'
    if cell.kind is CellKind.ERROR:
        text = value if value in _ERRORS else "#VALUE!"
        return f'<c r="{place}" t="e"><v>{text}</v></c>'
    if cell.kind is CellKind.UNCALCULATED:
        # Another program's formula may not be one of Excel: this one shows that there is no value.
        return f'<c r="{place}"><f>NA()</f></c>'
    if cell.kind is CellKind.DATE:
        return _date_xml(place, value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    return f'<c r="{place}"><v>{value}</v></c>'


def _date_xml(place: str, value: object) -> str:
    if isinstance(value, dt.timedelta):
        return f'<c r="{place}" s="{_DURATION}"><v>{value / _DAY!r}</v></c>'
    if isinstance(value, dt.time):
        since = dt.datetime.combine(_EPOCH, value, dt.UTC) - _EPOCH
        return f'<c r="{place}" s="{_TIME}"><v>{since / _DAY!r}</v></c>'
    if isinstance(value, dt.date):
        time = value.time() if isinstance(value, dt.datetime) else dt.time()
        moment = dt.datetime.combine(value, time, dt.UTC)
        if moment >= _FIRST_DAY:
            style = _DATE if moment.time() == dt.time() else _DATE_TIME
            return f'<c r="{place}" s="{style}"><v>{(moment - _EPOCH) / _DAY!r}</v></c>'
        return (
            f'<c r="{place}" s="{_DATE}" t="d"><v>{moment.replace(tzinfo=None).isoformat()}</v></c>'
        )
    return f'<c r="{place}" t="inlineStr">{inline(str(value))}</c>'


def plain_workbook(tabs: Sequence[PlainTab], *, name: str = "", of: str = "") -> bytes:
    """Return an .xlsx with these worksheets; with a `name`, this name is defined for the first cell
    of the worksheet `of`.
    """
    numbers = range(1, len(tabs) + 1)
    states = ["" if tab.visible else ' state="hidden"' for tab in tabs]
    sheets = "".join(
        f'<sheet name={quoteattr(tab.name)} sheetId="{n}"{state} r:id="r{n}"/>'
        for n, tab, state in zip(numbers, tabs, states, strict=True)
    )
    defined = (
        f"<definedNames><definedName name={quoteattr(name)}>'{of}'!$A$1</definedName>"
        "</definedNames>"
    )
    links = "".join(
        f'<Relationship Id="r{n}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in numbers
    )
    parts = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{_CONTENT}.worksheet+xml"/>'
        for n in numbers
    )
    texts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default '
        'Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{_CONTENT}.sheet.main+xml"/><Override PartName="/xl/styles.xml" '
        f'ContentType="{_CONTENT}.styles+xml"/>{parts}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{sheets}'
        f"</sheets>{defined if name else ''}</workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{links}'
        f'<Relationship Id="s" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": _STYLES,
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for part, text in texts.items():
            archive.writestr(part, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}')
        for n, tab in zip(numbers, tabs, strict=True):
            archive.writestr(f"xl/worksheets/sheet{n}.xml", tab.xml())
    return file.getvalue()
