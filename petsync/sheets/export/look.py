"""How the worksheet of pets looks: header, widths, colours, print."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openpyxl.formatting.rule import Rule
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.worksheet.header_footer import HeaderFooter, HeaderFooterItem
from openpyxl.worksheet.page import PageMargins
from openpyxl.worksheet.properties import PageSetupProperties
from openpyxl.worksheet.worksheet import Worksheet

from petsync.sheets.export.choices import SPARE
from petsync.sheets.export.contents import Contents
from petsync.sheets.export.text import OUT
from petsync.sheets.grid import letter
from petsync.sheets.headers import ACTION

__all__ = [
    "ACCENT",
    "FACE",
    "HEADER",
    "LINE",
    "OWN_RULE",
    "WRAPPED",
    "fit_to_page",
    "lay_out",
    "width",
]

ACCENT, _FAINT, LINE = "1F5B66", "6B7A80", "D5DDE0"
HEADER = PatternFill("solid", fgColor=ACCENT)
FACE = "Arial"
"""Every system has it, or one that is as wide."""

_NARROWEST, _WIDEST, _SAMPLE = 11, 42, 2_000
_WIDE = {"photo_urls": 60}
_ROOM_FOR_THE_ARROW = 6
_TITLE = Font(name=FACE, size=10, bold=True, color="FFFFFF")
_PLAIN = Font(name=FACE, size=10)
_QUIET = Font(name=FACE, size=10, color=_FAINT)
WRAPPED = ("tags", "photo_urls")
"""The columns whose cells may have several lines."""

_NUMBERS = ("id", "category_id")
_ROW_COLOURS = {
    "delete": DifferentialStyle(
        font=Font(color="A4262C", strike=True), fill=PatternFill("solid", bgColor="FBE0DD")
    ),
    "add": DifferentialStyle(fill=PatternFill("solid", bgColor="E2F3E5")),
    "add-another": DifferentialStyle(fill=PatternFill("solid", bgColor="E2F3E5")),
    "ignore": DifferentialStyle(font=Font(color="9AA5A9", italic=True)),
}
OWN_RULE = re.compile(
    rf'TRIM\(\$[A-Z]+[0-9]+\)="(?:{"|".join(_ROW_COLOURS)})"|'
    r"COUNTA\(\$[A-Z]+[0-9]+:\$[A-Z]+[0-9]+\)>0"
)
"""The formulas of the conditional formats that `lay_out` makes, wherever their columns are now."""


def lay_out(sheet: Worksheet, contents: Contents) -> list[int]:
    """Lay out the header and the columns; the style index of each column's cells is returned."""
    styles = []
    for n, (name, texts) in enumerate(contents.by_name.items()):
        head = sheet.cell(1, n + 1, name)
        head.font, head.fill = _TITLE, HEADER
        head.alignment = Alignment(vertical="center", horizontal="left", indent=1)
        styles.append(_style_column(sheet, n, name, texts))
    sheet.delete_rows(2)
    sheet.row_dimensions[1].height = 24
    sheet.sheet_properties.tabColor = ACCENT
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = f"A1:{_last()}{contents.rows + 1}"
    _colour(sheet, contents.rows + 1 + SPARE)
    fit_to_page(sheet)
    sheet.print_title_rows = "1:1"
    return styles


def _style_column(sheet: Worksheet, n: int, name: str, texts: Sequence[str]) -> int:
    # The column's style is that of its blank cells: a new id is text too.
    dimension = sheet.column_dimensions[letter(n)]
    for styled in (sheet.cell(2, n + 1), dimension):
        styled.number_format = "@"
        styled.alignment = Alignment(
            vertical="top", horizontal="left", indent=1, wrap_text=name in WRAPPED
        )
        styled.font = _QUIET if name in _NUMBERS else _PLAIN
    dimension.width = width(name, texts)
    return sheet.cell(2, n + 1).style_id


def width(name: str, texts: Sequence[str]) -> int:
    """How wide a column with these texts is, in characters."""
    longest = max((len(line) for text in texts[:_SAMPLE] for line in text.split("\n")), default=0)
    needed = max(longest + 3, len(name) + _ROOM_FOR_THE_ARROW, _NARROWEST)
    return min(needed, _WIDE.get(name, _WIDEST))


def _colour(sheet: Worksheet, last_row: int) -> None:
    everything = f"A2:{_last()}{last_row}"
    action = letter(OUT.index(ACTION))
    for word, style in _ROW_COLOURS.items():
        formula = [f'TRIM(${action}2)="{word}"']
        sheet.conditional_formatting.add(
            everything, Rule(type="expression", formula=formula, dxf=style)
        )
    line = DifferentialStyle(border=Border(bottom=Side("thin", color=LINE)))
    used = [f"COUNTA($A2:${_last()}2)>0"]
    sheet.conditional_formatting.add(everything, Rule(type="expression", formula=used, dxf=line))


def fit_to_page(sheet: Worksheet, *, pages: int = 0) -> None:
    """Print the worksheet on A4 pages that are as wide as it is, so many at most (0: any)."""
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


def _last() -> str:
    return letter(len(OUT) - 1)
