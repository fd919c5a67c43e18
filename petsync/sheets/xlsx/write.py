"""Write a workbook for users: the pets, and a guide as the second worksheet."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from openpyxl import Workbook
from openpyxl.formatting.rule import Rule
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.header_footer import HeaderFooter, HeaderFooterItem
from openpyxl.worksheet.page import PageMargins
from openpyxl.worksheet.properties import PageSetupProperties
from openpyxl.worksheet.worksheet import Worksheet

from petsync.errors import SheetError
from petsync.sheets import exact
from petsync.sheets.base import BASE_NAME, BASE_TAB, base_notice
from petsync.sheets.grid import letter
from petsync.sheets.headers import ACTION
from petsync.sheets.xlsx.contents import GUIDE, OUT, Contents
from petsync.table.base import Base
from petsync.table.columns import ACTIONS

__all__ = [
    "ACCENT",
    "FACE",
    "GUIDE",
    "HEADER",
    "LINE",
    "LISTS",
    "OWN_RULE",
    "SPARE",
    "WRAPPED",
    "add_guide",
    "fill_workbook",
    "fit_to_page",
    "height_of",
    "inline",
    "is_sealed",
    "lay_out",
    "name_base",
    "offer",
    "width",
    "without_invisible",
    "workbook_bytes",
]


# Drop-downs that suggest values; users can still type any other value that petsync accepts.


LISTS = "petsync lists"
"""The hidden worksheet with the values of the drop-downs."""

SPARE = 500
"""The number of rows below the pets that are formatted for new ones."""

_MAX_CHOICES = 5_000
_LONGEST = 255
_ESCAPE = re.compile(r"_x[0-9A-Fa-f]{1,4}_")
_ACTION_HELP = (
    "Blank (or merge): change the pet, or add it if it is new.\n"
    "add: only if it is new.\n"
    "add-another: add one with the same values as another.\n"
    "update: only if it exists.\n"
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
    """Return the texts of a column that a drop-down list can offer and does not offer yet."""
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
        error="petsync accepts a new status only if the store already has it. Check the spelling.",
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


ACCENT, _FAINT, LINE = "1F5B66", "6B7A80", "D5DDE0"
HEADER = PatternFill("solid", fgColor=ACCENT)
FACE = "Arial"
"""A font that every system has, or replaces by one of the same width."""

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
"""Matches the formulas of the conditional formats that `lay_out` makes, even if their columns have
been moved.
"""


def lay_out(sheet: Worksheet, contents: Contents) -> list[int]:
    """Format the header and the columns, and return the style index of each column's cells."""
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
    # The column's style applies to its blank cells, so that a new id is stored as text too.
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
    line = DifferentialStyle(border=Border(bottom=Side("thin", color=LINE)))
    has_content = [f"COUNTA($A2:${_last()}2)>0"]
    sheet.conditional_formatting.add(
        everything, Rule(type="expression", formula=has_content, dxf=line)
    )


def fit_to_page(sheet: Worksheet, *, pages: int = 0) -> None:
    """Fit the printout to the width of an A4 page, and to at most `pages` pages (0: any number)."""
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
    for row, line in enumerate(_guide_lines(contents), 4):
        if line.right:
            _say(sheet, row, line)
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


def _say(sheet: Worksheet, row: int, line: _Line) -> None:
    _write(sheet, row, 2, line.left, Font(name=FACE, bold=True, size=11))
    _write(sheet, row, 3, line.right, Font(name=FACE, size=11))
    sheet.row_dimensions[row].height = 19 * -(-len(line.right) // _FITTING)
    for place in (f"B{row}", f"C{row}"):
        sheet[place].border = Border(bottom=Side("hair", color=LINE))


def _write(sheet: Worksheet, row: int, column: int, text: str, font: Font) -> None:
    cell = sheet.cell(row, column, without_invisible(text))
    cell.data_type = "s"
    cell.font = font
    cell.alignment = Alignment(vertical="center", wrap_text=column == 3)


def without_invisible(text: str) -> str:
    """Return the text with U+FFFD instead of characters that are illegal in XML or invisible."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _origin(base: Base | None) -> str:
    if base is None:
        return "A table of pets, written by petsync."
    return f"{len(base):,} pets of {base.store}, as they were on {_format_date(base.taken_at)}."


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
    "id": "The pet's number. Leave it as it is; leave it blank for a new pet.",
    "name": "The pet's name. A pet must have one.",
    "status": "Choose from the list in the cell.",
    "category": "Choose from the list, or type a new one.",
    "category_id": "The category's number. petsync finds the new one if you change the category.",
    "tags": "Separated by a semicolon: friendly; small. A number before a tag (7:small) is its id.",
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
#
# openpyxl formats the workbook with its header; the rows are added to the worksheet's part as text,
# because openpyxl takes some 50 µs for each cell.


MAX_ROWS = 1 << 20
MAX_CELL = 32_767
_CORE = "docProps/core.xml"
_SEAL = "petsync:sha256:"
_SHEET = "xl/worksheets/sheet1.xml"
_DIMENSION = re.compile(rb'<dimension ref="[^"]*"')
_UNUSUAL = re.compile(r"[&<>_\x00-\x1f\ufffe\uffff]|^\s|\s$")
# An underscore at the start of text that looks like an escape; the closing underscore may be the
# first character of the next escape. LibreOffice reads even one digit as an escape.
_LIKE_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{1,4}[_\x00-\x08\x0b-\x1f\ufffe\uffff])")
_ESCAPED = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_TAB = re.compile(r"(?i)(?!'|history$)[^\\/*?:\[\]\x00-\x1f]{1,31}(?<!')")
_TAKEN = (BASE_TAB, exact.TEXTS_TAB, LISTS, GUIDE.casefold())
# For a line of text, Excel needs 12.75 points and LibreOffice 11.5. With this height, a row
# that is cut ends after seven lines in Excel and eight in LibreOffice.
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
    book = Workbook()
    sheet = book.active
    if not isinstance(sheet, Worksheet):
        raise TypeError("a new workbook has a worksheet")
    _name(sheet, contents.tab)
    styles = lay_out(sheet, contents)
    add_guide(book, contents)
    offer(book, sheet, contents)
    if contents.base is not None:
        _hide(book, BASE_TAB, [base_notice(contents.base), *contents.base.to_lines()])
        name_base(book)
    if contents.exact and (lines := exact.exact_lines(contents.by_name)):
        _hide(book, exact.TEXTS_TAB, lines)
    _describe(book, contents.base)
    body = "".join(_rows(contents.columns, styles)).encode()
    return fill_workbook(book, lambda part: _with_rows(part, body, contents.rows))


def inline(text: str, prefix: str = "") -> str:
    """Return the text as the content of an inline string, which reads back exactly.

    `prefix` is the prefix of the elements' names. Characters that are illegal in XML are escaped as
    in OOXML (`_x0000_`).
    """
    space = ""
    if _UNUSUAL.search(text):
        text = _ESCAPED.sub(_escape, _LIKE_ESCAPE.sub("_x005F_", text))
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        space = ' xml:space="preserve"'
    return f"<{prefix}is><{prefix}t{space}>{text}</{prefix}t></{prefix}is>"


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
            f"{tab!r} is the name of a worksheet that petsync itself adds",
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
            f'<c r="{place}{number}{start}{_encode_text(text, place, number)}</c>'
            for (place, start), text in zip(starts, row, strict=True)
            if text
        ]
        yield f'<row r="{number}"{height}>{"".join(cells)}</row>'


def _heights(columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the heights of the rows, in whole lines, so that photo URLs are visible and no row
    fills the screen.
    """
    marks = ["", *(f' ht="{height_of(lines):g}"' for lines in range(1, _TALLEST + 1))]
    marks.append(f'{marks[-1]} customHeight="1"')
    wrapped = {name: columns[OUT.index(name)] for name in WRAPPED}
    across = [width(name, texts) - 2 for name, texts in wrapped.items()]
    for texts in zip(*wrapped.values(), strict=True):
        lines = max(map(_line_count, texts, across))
        yield marks[min(lines, _TALLEST + 1)]


def _line_count(text: str, across: int) -> int:
    """Return the number of lines of a text in a cell that is `across` characters wide."""
    if len(text) <= across:
        return text.count("\n") + 1
    return sum(max(1, -(-len(line) // across)) for line in text.split("\n"))


def _encode_text(text: str, place: str, number: int) -> str:
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
    """Return true if the workbook is as petsync wrote it, and no other program has saved it
    since.
    """
    if _CORE not in archive.namelist():
        return False
    return seal(archive) in archive.read(_CORE)


def _insert_seal(core: bytes, seal: bytes) -> bytes:
    end = b"</cp:coreProperties>"
    return core.replace(end, seal + end)


def seal(archive: zipfile.ZipFile) -> bytes:
    """Return the seal: the element of the document properties that has the checksum of all other
    parts.
    """
    parts = sorted(
        f"{each.filename}:{each.CRC:08x}:{each.file_size}"
        for each in archive.infolist()
        if each.filename != _CORE
    )
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"<dc:identifier>{_SEAL}{digest}</dc:identifier>".encode()


def fill_workbook(book: Workbook, change: Callable[[bytes], bytes]) -> bytes:
    """Return the workbook's file, with the first worksheet's part changed by `change`, and with a
    seal.
    """
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
        core = _insert_seal(source.read(_CORE), seal(target))
        target.writestr(source.getinfo(_CORE), core, zipfile.ZIP_DEFLATED)
    return full.getvalue()


def _with_rows(part: bytes, body: bytes, rows: int) -> bytes:
    last = letter(len(OUT) - 1)
    part = _DIMENSION.sub(f'<dimension ref="A1:{last}{rows + 1}"'.encode(), part)
    head, end, tail = part.partition(b"</sheetData>")
    # Numbers are stored as text intentionally, so Excel should show no green triangle for them.
    ignored = (
        f'<ignoredErrors><ignoredError sqref="A2:{last}{rows + 1 + SPARE}" '
        'numberStoredAsText="1"/></ignoredErrors>'
    ).encode()
    footer = b"</headerFooter>"
    return head + body + end + tail.replace(footer, footer + ignored, 1)
