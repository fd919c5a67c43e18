"""Write a workbook for users: the pets, and a guide as the second worksheet."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Any, NamedTuple

from openpyxl import Workbook
from openpyxl.formatting.rule import Rule
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.worksheet import Worksheet

from petsync._display import count
from petsync.errors import SheetError
from petsync.sheets import exact
from petsync.sheets.base import BASE_NAME, BASE_TAB, base_notice
from petsync.sheets.grid import letter
from petsync.sheets.headers import ACTION
from petsync.sheets.xlsx.contents import GUIDE, OUT, Contents
from petsync.table.base import Base
from petsync.table.columns import ACTIONS
from petsync.workbook import (
    ACCENT,
    FACE,
    HEADER,
    LINE,
    MAX_ROWS,
    PLAIN,
    SIZE,
    UNDERLINE,
    CellStyle,
    bulk_workbook,
    fit_to_page,
    height_xml,
    row_xml,
    style_header,
)

__all__ = [
    "LISTS",
    "OWN_RULE",
    "SPARE",
    "height_of",
    "hide_lines",
    "lay_out_texts",
    "line_count",
    "name_base",
    "rows_xml",
    "workbook_bytes",
]


# Drop-downs that suggest values; users can still type any other value that petsync accepts.


LISTS = "petsync lists"
"""The hidden worksheet with the values of the drop-downs."""

SPARE = 500
"""The number of rows below the pets that are formatted for new ones."""

_OTHER_FORMAT = "Write a format without this limit, such as .json: nothing is shortened there."
_MAX_CHOICES = 5_000
_LONGEST = 255
_ESCAPE = re.compile(r"_x[0-9A-Fa-f]{1,4}_")
_ACTION_HELP = (
    "Blank (or merge): change the pet, or add it if it is new.\n"
    "add: add it only if it is new.\n"
    "add-another: add it even if an equal pet exists.\n"
    "update: change it only if it exists.\n"
    "delete: remove it from the store.\n"
    "ignore: skip this row."
)


def offer(book: Workbook, sheet: Worksheet, contents: Contents) -> None:
    """Add the drop-downs of the columns status, category and action."""
    texts = contents.by_name
    clear = [contents.clear] if contents.clear else []
    offered = [*contents.statuses, *_other_texts(texts["status"], contents.statuses, clear)]
    categories = _other_texts(texts["category"], (), clear)
    lists = book.create_sheet(LISTS)
    lists.sheet_state = "hidden"
    for n, (name, values) in enumerate((("status", offered), ("category", categories))):
        _fill(lists, n, [*values, *clear])
        place = letter(n)
        book.defined_names[f"petsync_{name}"] = DefinedName(
            f"petsync_{name}",
            attr_text=f"'{LISTS}'!${place}$1:${place}${max(1, len(values) + len(clear))}",
        )
    _validate(sheet, "status", contents.rows, _status())
    _validate(sheet, "category", contents.rows, _category())
    _validate(sheet, ACTION, contents.rows, _action())


def _other_texts(texts: Sequence[str], offered: Sequence[str], clear: Sequence[str]) -> list[str]:
    """Return the texts of a column that its drop-down can offer but does not offer yet."""
    found = set(texts) - {"", *offered, *clear}
    return sorted(filter(_can_be_offered, found), key=lambda text: (text.casefold(), text))[
        :_MAX_CHOICES
    ]


def _can_be_offered(text: str) -> bool:
    return len(text) <= _LONGEST and text.isprintable() and not _ESCAPE.search(text)


def _fill(lists: Worksheet, column: int, values: Iterable[str]) -> None:
    for row, value in enumerate(values, 1):
        # Store the value as text, even if it begins like a formula.
        lists.cell(row, column + 1, value).data_type = "s"


def _validate(sheet: Worksheet, name: str, rows: int, validation: DataValidation) -> None:
    place = letter(OUT.index(name))
    validation.add(f"{place}2:{place}{rows + 1 + SPARE}")
    sheet.add_data_validation(validation)


def _status() -> DataValidation:
    return DataValidation(
        type="list",
        formula1="petsync_status",
        allow_blank=True,
        showErrorMessage=True,
        errorStyle="warning",
        errorTitle="A status that is not in the list",
        error="petsync accepts another status only if the store has it. Check the spelling.",
    )


def _category() -> DataValidation:
    return DataValidation(
        type="list", formula1="petsync_category", allow_blank=True, showErrorMessage=False
    )


def _action() -> DataValidation:
    return DataValidation(
        type="list",
        formula1=f'"{",".join(ACTIONS)}"',
        allow_blank=True,
        showErrorMessage=True,
        errorStyle="warning",
        errorTitle="Not an action",
        error=f"The actions are {', '.join(ACTIONS)}. For any other word, petsync skips the row "
        "and reports it.",
        showInputMessage=True,
        promptTitle="What should petsync do?",
        prompt=_ACTION_HELP,
    )


# The format of the worksheet of pets: header, widths, colours, print.


_NARROWEST, _WIDEST, _SAMPLE = 11, 42, 2_000
_WIDE = {"photo_urls": 60}
_ROOM_FOR_THE_ARROW = 6
_QUIET = Font(name=FACE, size=SIZE, color="6B7A80")
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
"""Matches the formulas of the conditional formats that `_colour` adds, even if columns were moved
later.
"""


def _lay_out(sheet: Worksheet, contents: Contents) -> list[CellStyle]:
    """Format the header and the columns, and return the style of each column's cells."""
    styles = lay_out_texts(sheet, contents.by_name)
    sheet.auto_filter.ref = f"A1:{_last()}{contents.rows + 1}"
    _colour(sheet, contents.rows + 1 + SPARE)
    return styles


def lay_out_texts(sheet: Worksheet, columns: Mapping[str, Sequence[str]]) -> list[CellStyle]:
    """Format the header and any columns of texts, and return the style of each column's cells."""
    style_header(sheet, columns, height=24, indent=1)
    styles = [
        _style_column(sheet, n, name, texts) for n, (name, texts) in enumerate(columns.items())
    ]
    sheet.delete_rows(2)
    sheet.sheet_properties.tabColor = ACCENT
    return styles


def _style_column(sheet: Worksheet, n: int, name: str, texts: Sequence[str]) -> CellStyle:
    # The column's style applies to its blank cells, so that a new id is stored as text too.
    dimension = sheet.column_dimensions[letter(n)]
    for styled in (sheet.cell(2, n + 1), dimension):
        styled.number_format = "@"
        styled.alignment = Alignment(
            vertical="top", horizontal="left", indent=1, wrap_text=name in WRAPPED
        )
        styled.font = _QUIET if name in _NUMBERS else PLAIN
    dimension.width = width(name, texts)
    style = sheet.cell(2, n + 1).style_id
    return CellStyle(letter(n), style, style)


def width(name: str, texts: Sequence[str]) -> int:
    """Return the width of a column with these texts, in characters."""
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
    line = DifferentialStyle(border=UNDERLINE)
    has_content = [f"COUNTA($A2:${_last()}2)>0"]
    sheet.conditional_formatting.add(
        everything, Rule(type="expression", formula=has_content, dxf=line)
    )


def _last() -> str:
    return letter(len(OUT) - 1)


# The second worksheet of an export: a guide that explains the first worksheet to users.


_LEFT, _RIGHT, _FITTING = 18, 84, 95


class _Line(NamedTuple):
    """A line of the guide: blank, a heading (only `left`), or a term and its explanation."""

    left: str
    right: str = ""


def add_guide(book: Workbook, contents: Contents) -> None:
    """Add the worksheet with the guide."""
    sheet = book.create_sheet(GUIDE)
    sheet.sheet_view.showGridLines = False
    sheet.column_dimensions["A"].width = 3
    sheet.column_dimensions["B"].width = _LEFT
    sheet.column_dimensions["C"].width = _RIGHT
    _title(sheet, contents)
    like = 0
    for row, line in enumerate(_guide_lines(contents), 4):
        if line.right:
            like = like or row
            _say(sheet, row, line, like)
        elif line.left:
            _head(sheet, row, line.left)
    fit_to_page(sheet, pages=1)


def _title(sheet: Worksheet, contents: Contents) -> None:
    for place in ("A1", "B1", "C1", "A2", "B2", "C2"):
        sheet[place].fill = HEADER
    _write(sheet, 1, 2, GUIDE, Font(name=FACE, bold=True, size=18, color="FFFFFF"))
    _write(sheet, 2, 2, _origin(contents.base), Font(name=FACE, size=11, color="D6E6E9"))
    sheet.row_dimensions[1].height = 36
    sheet.row_dimensions[2].height = 24
    sheet["B2"].alignment = Alignment(vertical="top")


def _head(sheet: Worksheet, row: int, text: str) -> None:
    _write(sheet, row, 2, text, Font(name=FACE, bold=True, size=13, color=ACCENT))
    sheet.row_dimensions[row].height = 24
    for place in (f"B{row}", f"C{row}"):
        sheet[place].border = Border(bottom=Side("thin", color=ACCENT))


def _say(sheet: Worksheet, row: int, line: _Line, like: int) -> None:
    """Write the term and its explanation, with the style of the line in the row `like`, if that is
    another row.
    """
    sheet.row_dimensions[row].height = 19 * -(-len(line.right) // _FITTING)
    for column, text in enumerate(line, 2):
        if like == row:
            _write(sheet, row, column, text, Font(name=FACE, bold=column == 2, size=11))
            sheet.cell(row, column).border = Border(bottom=Side("hair", color=LINE))
        else:
            # Setting the font, alignment and border takes several times as long.
            styled: Any = sheet.cell(like, column)
            _put(sheet, row, column, text)._style = copy(styled._style)


def _write(sheet: Worksheet, row: int, column: int, text: str, font: Font) -> None:
    cell = _put(sheet, row, column, text)
    cell.font = font
    cell.alignment = Alignment(vertical="center", wrap_text=column == 3)


def _put(sheet: Worksheet, row: int, column: int, text: str) -> Any:
    cell = sheet.cell(row, column, without_invisible(text))
    cell.data_type = "s"
    return cell


def without_invisible(text: str) -> str:
    """Return the text with U+FFFD instead of characters that are illegal in XML or invisible."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _origin(base: Base | None) -> str:
    if base is None:
        return "A table of pets, written by petsync."
    pets = count(len(base), "pet")
    return f"{pets} of {base.store}, as exported on {_format_date(base.taken_at)}."


def _format_date(taken_at: str) -> str:
    try:
        date = datetime.fromisoformat(taken_at)
    except ValueError:
        return taken_at
    return f"{date.day} {date:%B %Y, %H:%M} {date.tzname() or ''}".rstrip()


def _guide_lines(contents: Contents) -> Iterator[_Line]:
    file = f'"{contents.file}"' if " " in contents.file else contents.file
    yield _Line("What to do")
    yield _Line("1. Edit", f"Change cells in the sheet {contents.tab}, or add rows below. Save.")
    yield _Line("2. Look", f"petsync plan {file} shows what would change in the store.")
    yield _Line("3. Apply", f"petsync apply {file} makes the changes after you confirm.")
    yield _Line("")
    yield _Line("What cells mean")
    yield _Line("A blank cell", "changes nothing: the store keeps its value.")
    if contents.clear:
        yield _Line(contents.clear, "empties the field in the store.")
    yield _Line("A removed row", "changes nothing either: no pet is deleted unless you ask for it.")
    if contents.base is not None:
        yield _Line(
            "An unedited cell",
            "changes nothing: changes made in the store in the meantime are kept.",
        )
    yield _Line("")
    yield _Line("The columns")
    for name, meaning in _COLUMNS.items():
        yield _Line(f"{name}:", meaning)
    yield _Line("")
    yield _Line("Values of the action column")
    for name, meaning in _ACTIONS.items():
        yield _Line(name, meaning)


_COLUMNS = {
    "id": "The pet's number. Do not change it; leave it blank for a new pet.",
    "name": "The pet's name. A pet must have one.",
    "status": "Choose from the list in the cell.",
    "category": "Choose from the list, or type a new one.",
    "category_id": "The category's number. petsync finds the new one if you change the category.",
    "tags": "Separated by a semicolon: friendly; small. Remove a name to remove the tag.",
    "photo_urls": "One address per line: Alt+Enter (in LibreOffice Ctrl+Enter) begins a new line.",
    "action": "What petsync should do with the row; usually blank.",
}
_ACTIONS = {
    "blank, merge": "Change the pet, or add it if it is new.",
    "add": "Add the pet. It must not exist yet.",
    "add-another": "Add the pet, even if the store has one with the same values.",
    "update": "Change the pet. It must exist.",
    "delete": "Remove the pet from the store.",
    "ignore": "Skip the row.",
}


# The workbook of an export; every cell is text.


_TAB = re.compile(r"(?i)(?!'|history$)[^\\/*?:\[\]\x00-\x1f]{1,31}(?<!')")
_TAKEN = (BASE_TAB, exact.TEXTS_TAB, LISTS, GUIDE.casefold())
# For a line of text, Excel needs 12.75 points and LibreOffice 11.5. With this height, a row
# that is cut off ends after seven lines in Excel and eight in LibreOffice.
_TALLEST, _LINE_HEIGHT, _AROUND = 7, 12.75, 3


def workbook_bytes(contents: Contents) -> bytes:
    """Return the workbook: the pets, the guide, and hidden worksheets with the lists, the base and
    exact texts. Raises SheetError if it exceeds a limit of Excel, or if the worksheet's name is not
    allowed.
    """
    if contents.rows >= MAX_ROWS:
        raise SheetError(
            f"{contents.rows:,} pets need more rows than a worksheet has below its header "
            f"({MAX_ROWS - 1:,})",
            hint="Export .csv or .parquet.",
        )
    with bulk_workbook() as bulk:
        sheet = bulk.book.create_sheet(_checked_name(contents.tab))
        styles = _lay_out(sheet, contents)
        add_guide(bulk.book, contents)
        offer(bulk.book, sheet, contents)
        if contents.base is not None:
            hide_lines(bulk.book, BASE_TAB, [base_notice(contents.base), *contents.base.to_lines()])
            name_base(bulk.book)
        if contents.exact and (lines := exact.exact_lines(contents.by_name)):
            hide_lines(bulk.book, exact.TEXTS_TAB, lines)
        _describe(bulk.book, contents.base)
        texts = f"A2:{_last()}{contents.rows + 1 + SPARE}"
        rows = rows_xml(contents.by_name, styles, _heights(contents.columns), _OTHER_FORMAT)
        bulk.add_rows(sheet, rows, columns=len(OUT), texts=texts)
        file = io.BytesIO()
        bulk.save(file, with_seal=True)
        return file.getvalue()


def height_of(lines: int) -> float:
    """Return the height of a row with `lines` lines, in points; if there are very many lines, only
    the first ones are shown.
    """
    return min(lines, _TALLEST) * _LINE_HEIGHT + _AROUND


def name_base(book: Workbook) -> None:
    """Add the defined name of the base's worksheet, which later shows that the workbook had a
    base.
    """
    book.defined_names[BASE_NAME] = DefinedName(
        BASE_NAME, attr_text=f"'{BASE_TAB}'!$A$1", hidden=True
    )


def _describe(book: Workbook, base: Base | None) -> None:
    book.properties.creator = "petsync"
    book.properties.title = "Pets" if base is None else f"Pets of {without_invisible(base.store)}"


def hide_lines(book: Workbook, name: str, lines: Iterable[str]) -> None:
    """Add a very hidden worksheet with the lines as texts."""
    hidden = book.create_sheet(name)
    hidden.sheet_state = "veryHidden"
    for number, line in enumerate(lines, 1):
        hidden.cell(number, 1, line).data_type = "s"


def _checked_name(tab: str) -> str:
    if not isinstance(tab, str) or not _TAB.fullmatch(tab):
        raise SheetError(
            f"{tab!r} cannot be the name of a worksheet",
            hint="Use 1 to 31 characters without \\ / * ? : [ ], and no apostrophe at either end. "
            "Excel reserves the name History.",
        )
    if tab.casefold() in _TAKEN:
        raise SheetError(
            f"{tab!r} is the name of a worksheet that petsync itself adds",
            hint="Choose another name for the pets.",
        )
    return tab


def rows_xml(
    columns: Mapping[str, Sequence[str]],
    styles: Sequence[CellStyle],
    heights: Iterable[str],
    hint: str,
) -> Iterator[str]:
    """Yield the rows of the columns as XML, from the second row on. Raises SheetError, which names
    the pet and the column and has the `hint`, for a text that is too long for a cell.
    """
    rows = zip(*columns.values(), strict=True)
    for number, (row, height) in enumerate(zip(rows, heights, strict=False), 2):
        try:
            xml = row_xml(number, row, styles, height)
        except SheetError as error:
            raise _name_pet(error, dict(zip(columns, row, strict=True)), hint) from None
        yield xml


def _name_pet(error: SheetError, texts: Mapping[str, str], hint: str) -> SheetError:
    """Return the error about a text of a row that is too long, with the pet and the column."""
    column = max(texts, key=lambda name: len(texts[name]))
    pet = f"pet {texts['id']}" if texts.get("id") else f"pet {texts.get('name', '')[:40]!r}"
    return SheetError(f"{pet}, {column}: {error.problem}", hint=hint)


def _heights(columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the XML attributes for the height of each row, so that photo URLs are visible and no
    row fills the screen.
    """
    marks = ["", *(height_xml(height_of(n), is_fixed=False) for n in range(1, _TALLEST + 1))]
    marks.append(height_xml(height_of(_TALLEST), is_fixed=True))
    wrapped = {name: columns[OUT.index(name)] for name in WRAPPED}
    across = [width(name, texts) - 2 for name, texts in wrapped.items()]
    for texts in zip(*wrapped.values(), strict=True):
        lines = max(map(line_count, texts, across))
        yield marks[min(lines, _TALLEST + 1)]


def line_count(text: str, across: int) -> int:
    """Return the number of lines of a text in a cell that is `across` characters wide."""
    if len(text) <= across:
        return text.count("\n") + 1
    return sum(max(1, -(-len(line) // across)) for line in text.split("\n"))
