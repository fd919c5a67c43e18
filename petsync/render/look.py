"""How a worksheet looks: its header, widths, colours, and how it is printed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.formatting.rule import Rule
from openpyxl.styles import Alignment, Border, Color, Font, PatternFill, Side
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.worksheet._writer import WorksheetWriter
from rich.cells import cell_len

from petsync.render.marked import Piece

__all__ = ["COME", "GONE", "append", "begin", "finish", "literal", "make_readable", "rich"]

_HEADER = PatternFill(fgColor="2F4858", fill_type="solid")
_LINE = Border(bottom=Side(style="thin", color="D9DDE0"))
GONE = InlineFont(strike=True, color=Color(rgb="00B3261E"), rFont="Calibri", sz=11)
COME = InlineFont(b=True, color=Color(rgb="001B6E2E"), rFont="Calibri", sz=11)
_READABLE = Alignment(wrap_text=True, vertical="top", horizontal="left")
_PALE = Font(color="6B747B")
_A4 = 9
_LINE_HEIGHT, _MOST_LINES = 15, 20
_SLACK = 0.08
"""Words do not fill a line to its end."""


class _Writer(WorksheetWriter):
    """Tells Excel not to flag ids as numbers stored as text: that is what they are."""

    def write_breaks(self) -> None:
        super().write_breaks()
        element = Element("ignoredErrors")
        sheet: Any = self.ws
        area = f"A2:{sheet.last_letter}1048576"
        SubElement(element, "ignoredError", sqref=area, numberStoredAsText="1")
        self.xf.send(element)


def make_readable(book: Workbook) -> None:
    """Let long text wrap and every row begin at its top, without a style for each cell."""
    styles: Any = book
    styles._cell_styles[0].alignmentId = styles._alignments.add(_READABLE)


def begin(sheet: Any, columns: Mapping[str, int]) -> None:
    """Set up an empty worksheet, and write its header; must come before any row."""
    letters = _letters(columns)
    for letter, width in zip(letters, columns.values(), strict=True):
        sheet.column_dimensions[letter].width = width
        sheet.column_dimensions[letter].alignment = _READABLE
    sheet.freeze_panes = "A2"
    sheet.print_title_rows = "1:1"
    sheet.page_setup.orientation, sheet.page_setup.paperSize = "landscape", _A4
    sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight = 1, 0
    sheet.sheet_properties.pageSetUpPr.fitToPage = True
    sheet.page_margins.left = sheet.page_margins.right = 0.4
    sheet.oddFooter.left.text, sheet.oddFooter.right.text = "&A", "&P / &N"
    sheet.last_letter = letters[-1]
    sheet._writer = _Writer(sheet)
    sheet._writer.write_top()
    sheet.append([_header(sheet, name) for name in columns])


def append(sheet: Any, cells: Sequence[Any], widths: Sequence[int], row: int) -> None:
    """Write a row, as high as its longest text needs: not every program finds that out itself."""
    lines = max(map(_lines, cells, widths), default=1)
    if lines > 1:
        sheet.row_dimensions[row].height = _LINE_HEIGHT * min(lines, _MOST_LINES)
    sheet.append(cells)
    sheet.row_dimensions.pop(row, None)


def _lines(value: Any, width: int) -> int:
    text = value if isinstance(value, str | CellRichText) else getattr(value, "value", None)
    if text is None or isinstance(text, int):
        return 1
    text = str(text)
    if len(text) < width // 2 and "\n" not in text:
        return 1
    widths = map(cell_len, text.split("\n"))
    return sum(1 if each <= width else math.ceil(each / width + _SLACK) for each in widths)


def finish(
    sheet: Any, columns: Mapping[str, int], colours: Mapping[str, str], repeats: str, rows: int
) -> None:
    """Filter and colours for the `rows` that were written. The first of the columns `repeats` are
    pale where all of them say what the row above says.
    """
    letters = _letters(columns)
    sheet.auto_filter.ref = f"A1:{letters[-1]}{rows + 1}"
    if not rows:
        return
    rules, end = sheet.conditional_formatting, rows + 1
    same = ",".join(f"${letter}2=${letter}1" for letter in repeats)
    tests = {f'$A2="{value}"': colour for value, colour in colours.items()}
    for test, colour in {**tests, "TRUE": ""}.items():
        # A program that looks at the first rule alone must find the whole look there.
        if repeats:
            pale = _rule(f"AND({test},{same})", colour, _PALE)
            rules.add(f"A2:{_last_in_a_row(repeats)}{end}", pale)
        rules.add(f"A2:{letters[-1]}{end}", _rule(test, colour))


def _last_in_a_row(letters: str) -> str:
    """The last of the letters that follow A without a gap."""
    return max(letter for n, letter in enumerate(letters) if ord(letter) - ord("A") == n)


def _rule(test: str, colour: str, font: Font | None = None) -> Rule:
    fill = PatternFill(bgColor=colour, fill_type="solid") if colour else None
    style = DifferentialStyle(fill=fill, border=_LINE, font=font)
    return Rule(type="expression", formula=[test], dxf=style)


def rich(pieces: Sequence[Piece], font: InlineFont) -> CellRichText:
    """Text with the marked pieces in the font."""
    return CellRichText(
        *(TextBlock(font, text) if is_marked else text for text, is_marked in pieces)
    )


def literal(sheet: Any, value: str | CellRichText) -> Any:
    """A cell that stays text even if somebody edits it in place."""
    cell = WriteOnlyCell(sheet)
    content: Any = value
    cell.value = content
    cell.data_type = "s"
    cell.quotePrefix = True
    cell.alignment = _READABLE
    return cell


def _letters(columns: Mapping[str, int]) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(columns)]


def _header(sheet: Any, name: str) -> Any:
    cell = WriteOnlyCell(sheet, value=name)
    cell.font = Font(name="Calibri", sz=11, bold=True, color="FFFFFF")
    cell.fill = _HEADER
    cell.alignment = Alignment(vertical="center", horizontal="left")
    return cell
