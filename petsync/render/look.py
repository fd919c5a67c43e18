"""How a worksheet looks: its header, widths, colours, and how it is printed."""

from __future__ import annotations

from collections.abc import Mapping

from openpyxl.cell import Cell
from openpyxl.formatting.rule import Rule
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.worksheet.header_footer import HeaderFooter, HeaderFooterItem
from openpyxl.worksheet.page import PageMargins
from openpyxl.worksheet.properties import PageSetupProperties
from openpyxl.worksheet.worksheet import Worksheet

from petsync.render.rowxml import FONT, LINE_HEIGHT, SIZE, Styles

__all__ = ["colour", "lay_out", "letters", "styles_of"]

_HEADER = PatternFill("solid", fgColor="1F5B66")
_TITLE = Font(name=FONT, size=SIZE, bold=True, color="FFFFFF")
_PLAIN = Font(name=FONT, size=SIZE)
_READABLE = Alignment(wrap_text=True, vertical="top", horizontal="left")
_PALE = Font(color="6B747B")
_LINE = Border(bottom=Side(style="thin", color="D5DDE0"))
_A4 = 9


def styles_of(sheet: Worksheet) -> Styles:
    """The formats of a workbook's cells: text wraps, and every row begins at its top."""
    cell = Cell(sheet, row=2, column=1)
    cell.font, cell.alignment = _PLAIN, _READABLE
    plain = cell.style_id
    cell.quotePrefix = True
    return Styles(plain, cell.style_id)


def lay_out(sheet: Worksheet, columns: Mapping[str, int]) -> None:
    """Give an empty worksheet its header, and the widths (in characters) of its columns."""
    for letter, (name, width) in zip(letters(columns), columns.items(), strict=True):
        cell = sheet[f"{letter}1"]
        cell.value, cell.font, cell.fill = name, _TITLE, _HEADER
        cell.alignment = Alignment(vertical="center", horizontal="left")
        sheet.column_dimensions[letter].width = width
    sheet.row_dimensions[1].height = 1.5 * LINE_HEIGHT
    sheet.sheet_format.defaultRowHeight = LINE_HEIGHT
    sheet.freeze_panes = "A2"
    _print(sheet)


def _print(sheet: Worksheet) -> None:
    """In landscape, as wide as a page, the header on each."""
    sheet.print_title_rows = "1:1"
    sheet.page_setup.orientation, sheet.page_setup.paperSize = "landscape", _A4
    sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight = 1, 0
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    sheet.page_margins = PageMargins(left=0.4, right=0.4, top=0.6, bottom=0.7)
    footer = HeaderFooterItem()
    footer.left.text, footer.right.text = "&A", "&P / &N"
    sheet.HeaderFooter = HeaderFooter(oddFooter=footer)


def colour(
    sheet: Worksheet,
    columns: Mapping[str, int],
    colours: Mapping[str, str],
    repeats: str,
    rows: int,
) -> None:
    """Filter and colours for so many rows. The first of the columns `repeats` are pale where all
    of them say what the row above says.
    """
    last, end = letters(columns)[-1], rows + 1
    sheet.auto_filter.ref = f"A1:{last}{end}"
    if not rows:
        return
    same = ",".join(f"${letter}2=${letter}1" for letter in repeats)
    tests = {f'$A2="{value}"': colour for value, colour in colours.items()}
    for test, fill in {**tests, "TRUE": ""}.items():
        # A program that looks at the first rule alone must find the whole look there.
        if repeats:
            area = f"A2:{_last_in_a_row(repeats)}{end}"
            sheet.conditional_formatting.add(area, _rule(f"AND({test},{same})", fill, _PALE))
        sheet.conditional_formatting.add(f"A2:{last}{end}", _rule(test, fill))


def _last_in_a_row(letters: str) -> str:
    """The last of the letters that follow A without a gap."""
    return max(letter for n, letter in enumerate(letters) if ord(letter) - ord("A") == n)


def _rule(test: str, fill: str, font: Font | None = None) -> Rule:
    style = DifferentialStyle(
        fill=PatternFill("solid", bgColor=fill) if fill else None, border=_LINE, font=font
    )
    return Rule(type="expression", formula=[test], dxf=style)


def letters(columns: Mapping[str, int]) -> str:
    """The columns' letters."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(columns)]
