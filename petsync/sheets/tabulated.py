"""A CSV file as a workbook of its cells, each record in the row of the line it starts at."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

from petsync.errors import SheetError
from petsync.sheets.grid import letter
from petsync.sheets.lines import Line, bare, dialect_of, lines
from petsync.sheets.source import Source
from petsync.sheets.workbook import inline
from petsync.table.sheet import Sheet

__all__ = ["TAB", "tabulated"]

TAB = "Pets"
_SHEET = "xl/worksheets/sheet1.xml"
_HEADER, _TEXT = 1, 2
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
    f'<Override PartName="/{_SHEET}" ContentType="{_KIND}.worksheet+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
    f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
    f'<sheet name="{TAB}" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
    "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><fonts count="2"><font><sz val="11"/>'
    '<name val="Calibri"/><family val="2"/></font><font><b/><sz val="11"/><name val="Calibri"/>'
    '<family val="2"/></font></fonts><fills count="3"><fill><patternFill patternType="none"/>'
    '</fill><fill><patternFill patternType="gray125"/></fill><fill><patternFill '
    'patternType="solid"><fgColor rgb="FFDDEBF7"/><bgColor indexed="64"/></patternFill></fill>'
    '</fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border>'
    '</borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/>'
    '</cellStyleXfs><cellXfs count="3"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" '
    'xfId="0"/><xf numFmtId="49" fontId="1" fillId="2" borderId="0" xfId="0" '
    'applyNumberFormat="1" applyFont="1" applyFill="1"/><xf numFmtId="49" fontId="0" fillId="0" '
    'borderId="0" xfId="0" applyNumberFormat="1"/></cellXfs><cellStyles count="1"><cellStyle '
    'name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>',
}
_MAX_ROWS, _MAX_CELL = 1 << 20, 32_767
_WIDE, _NARROW, _SAMPLE = 48, 10, 500


def tabulated(source: Source, sheet: Sheet) -> Source:
    """The workbook; its tab is TAB, every cell is text.

    Raises SheetError where a worksheet cannot hold it.
    """
    records = [each for each in lines(source, dialect_of(source, sheet)) if _says(each)]
    if records[-1].number > _MAX_ROWS:
        raise SheetError(
            f"{source.path}: line {records[-1].number:,} is beyond the last row of a worksheet "
            f"({_MAX_ROWS:,})",
            hint="Annotate the file in parts; petsync check lists the findings of all of it.",
        )
    rows = [(each.number, _texts(each)) for each in records]
    return Source(source.path, "workbook", _packed(_worksheet(rows, sheet.header_row)))


def _says(line: Line) -> bool:
    return line.cells is None or any(line.cells)


def _texts(line: Line) -> list[str]:
    """The cells as they are meant; of a record that cannot be taken apart, all of it."""
    if line.cells is None:
        return [line.body.decode("utf-8", "replace")]
    return [bare(text)[:_MAX_CELL] for text in line.cells]


def _packed(sheet: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {**_PARTS, _SHEET: sheet}.items():
            archive.writestr(zipfile.ZipInfo(name), text.encode(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _worksheet(rows: Sequence[tuple[int, list[str]]], header_row: int) -> str:
    header = next(texts for number, texts in rows if number >= header_row)
    below = f"A{header_row + 1}"
    columns = "".join(
        f'<col min="{n}" max="{n}" width="{_width(n, rows)}" style="{_TEXT}" customWidth="1"/>'
        for n in range(1, len(header) + 1)
    )
    body = "".join(_row(number, texts, header_row) for number, texts in rows)
    return (
        f'<worksheet xmlns="{_MAIN}"><sheetViews><sheetView tabSelected="1" workbookViewId="0">'
        f'<pane ySplit="{header_row}" topLeftCell="{below}" activePane="bottomLeft" '
        f'state="frozen"/></sheetView></sheetViews><sheetFormatPr defaultRowHeight="15"/>'
        f"<cols>{columns}</cols><sheetData>{body}</sheetData></worksheet>"
    )


def _row(number: int, texts: Sequence[str], header_row: int) -> str:
    style = _HEADER if number == header_row else _TEXT
    cells = "".join(
        f'<c r="{letter(n)}{number}" s="{style}" t="inlineStr">{inline(text)}</c>'
        for n, text in enumerate(texts)
        if text
    )
    return f'<row r="{number}" ht="15" customHeight="1">{cells}</row>'


def _width(column: int, rows: Sequence[tuple[int, list[str]]]) -> int:
    lengths = (len(texts[column - 1]) for _, texts in rows[:_SAMPLE] if column <= len(texts))
    return min(max(_NARROW, 2 + max(lengths, default=0)), _WIDE)
