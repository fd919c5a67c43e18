"""Edit the parts of a workbook: change cells, add columns and rows, and remove rows."""

from __future__ import annotations

import itertools
import operator
import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from petsync.errors import SheetError
from petsync.sheets import exact
from petsync.sheets.base import BASE_TAB
from petsync.sheets.edits import Obstacle, SheetEdits
from petsync.sheets.files import Source
from petsync.sheets.grid import ROW_NUMBER, CellEdits, column_number, letter
from petsync.sheets.headers import RESULT_PREFIX
from petsync.sheets.xlsx.edit_parts import (
    Element,
    Splices,
    Styles,
    WorkbookParts,
    ascii_bytes,
    outline,
    parse_whole,
    start_tag,
    xml_text,
)
from petsync.sheets.xlsx.survey import Survey, extent
from petsync.sheets.xlsx.write import height_of, line_count
from petsync.sheets.xlsx.xml import (
    CellMark,
    MarkupError,
    RowMark,
    Walk,
    check_form,
    has_only_tags,
)
from petsync.table.sheet import Sheet, cell_address
from petsync.workbook import inline

__all__ = [
    "NewCell",
    "RangeExtension",
    "Row",
    "WorksheetPart",
    "amend_workbook",
    "corners",
    "damage_named",
    "find_totals_table",
    "hide",
    "is_free",
    "name_ranges",
    "patch_workbook",
    "stretch_ranges",
    "stretch_tables",
    "widen_columns",
]


# A worksheet's `cols` with new widths for some columns; the other columns stay.


_Columns = dict[str, str]


def widen_columns(root: Element, widths: Mapping[int, float]) -> list[_Columns]:
    """Return the attributes of each `col`, in order, with these widths by column from 0.

    A range that includes such a column is split; a hidden column is shown.
    """
    columns = [dict(each.attributes) for each in root.all("cols", "col")]
    for column, width in sorted(widths.items()):
        number = column + 1
        previous = next((each for each in columns if _covers(each, number)), {})
        columns = [part for each in columns for part in _split_range(each, number)]
        attributes = {
            key: value for key, value in previous.items() if key not in ("hidden", "collapsed")
        }
        new = {"min": str(number), "max": str(number), "width": f"{width:g}", "customWidth": "1"}
        columns.append({**attributes, **new})
    return sorted(columns, key=lambda each: _bounds(each)[0])


def _split_range(columns: _Columns, number: int) -> Iterator[_Columns]:
    """Yield the parts of a range without the column `number`."""
    if not _covers(columns, number):
        yield columns
        return
    first, last = _bounds(columns)
    if first < number:
        yield {**columns, "max": str(number - 1)}
    if number < last:
        yield {**columns, "min": str(number + 1)}


def _covers(columns: Mapping[str, str], number: int) -> bool:
    first, last = _bounds(columns)
    return first <= number <= last


def _bounds(columns: Mapping[str, str]) -> tuple[int, int]:
    """Return the first and the last column of a `col` element, counted from 1."""
    return parse_whole(columns.get("min", "")) or 0, parse_whole(columns.get("max", "")) or 0


# A worksheet's part with some of its cells replaced; everything else in the part stays unchanged.


_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
# The elements that may follow `legacyDrawing` (ECMA-376, CT_Worksheet).
_AFTER_DRAWING = frozenset(
    ("legacyDrawingHF", "drawingHF", "picture", "oleObjects", "controls", "webPublishItems")
) | {"tableParts", "extLst"}


class NewCell(NamedTuple):
    """The new state of a cell."""

    style: int
    text: str | None = None
    """The new text; None if the content stays."""
    is_number: bool = False


@dataclass(slots=True)
class Row:
    """One row: its number (from 1), its element if it has one, its cells by column (from 0)."""

    number: int
    element: Element | None
    cells: Mapping[int, Element]
    styles: Callable[[int], int]

    def style(self, column: int) -> int:
        """Return the style of a cell, else of its row, else of its column."""
        cell = self.cells.get(column)
        if cell is not None:
            return _number(cell.get("s"))
        if self.element is not None and self.element.get("customFormat") in ("1", "true"):
            return _number(self.element.get("s"))
        return self.styles(column)

    @property
    def is_fixed(self) -> bool:
        """True if the row's height was set by a user."""
        return self.element is not None and self.element.get("customHeight") in ("1", "true")

    def has_formula(self, column: int) -> bool:
        """Return true if the cell has a formula."""
        cell = self.cells.get(column)
        return cell is not None and cell.one("f") is not None

    def has_dependents(self, column: int) -> bool:
        """Return true if the cell has a formula that other cells share."""
        cell = self.cells.get(column)
        formula = None if cell is None else cell.one("f")
        # Only the first of the cells that share a formula has the range of all of them; an array
        # formula for one cell has a range too.
        reference = "" if formula is None else formula.get("ref")
        return bool(reference) and not _is_one_cell(reference)


@dataclass(slots=True)
class WorksheetPart:
    """A worksheet's part, and the changes to it."""

    data: bytes
    change: Callable[[Row], Mapping[int, NewCell]]
    numbers: Collection[int]
    """The rows to which `change` is applied."""
    every: bool = False
    """Whether `change` is also applied to all other rows."""
    min_heights: Mapping[int, float] = field(default_factory=dict)
    """The minimum heights in points of rows without a fixed height, by number. They apply to rows
    that have a height, and to new rows if the row `like` has one.
    """
    like: int = 0
    root: Element = field(init=False)
    """The elements of the part, without the rows."""
    splices: Splices = field(default_factory=Splices)
    heights: dict[int, float] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    """The numbers of the hidden rows."""
    widest: tuple[int, int] = (0, 0)
    """The last row and the last column with new cells."""
    _rows: list[tuple[int, int]] = field(default_factory=list)
    _last: str = ""
    _prefix: str = ""

    def __post_init__(self) -> None:
        """Apply `change` to the rows.

        Raises MarkupError if the part is not well-formed, or has two rows with the same number.
        """
        self.root = outline(self.data, self)
        self._prefix = self.root.prefix
        self._add_rows()

    def bytes(self) -> bytes:
        """Return the part with all changes. It can be called once."""
        self._extend_dimension()
        return self.splices.apply(self.data)

    def form_row(self, row: Row, new: Mapping[int, NewCell]) -> tuple[str, str]:
        """Return the start tag that a row with these new cells gets, "" if its tag stays; and the
        markup of the new cells. ROW_NUMBER stands for the row's number.
        """
        cells = "".join(self._cell(ROW_NUMBER, at, cell) for at, cell in sorted(new.items()))
        before = row.element.attributes if row.element else {}
        attributes = self._attributes(row, new.keys() - row.cells.keys())
        if attributes == before:
            return "", cells
        return start_tag(f"{self._prefix}row", {**attributes, "r": ROW_NUMBER}), cells

    def needs_cells(self, row: Element) -> bool:
        """Return true if the cells of a row are needed; called when the row starts."""
        written_number, previous = parse_whole(row.get("r")), self._rows[-1][0] if self._rows else 0
        number = previous + 1 if written_number is None else written_number
        self._rows.append((number, row.start))
        return self.every or number in self.numbers

    def handle_row(self, root: Element, row: Element) -> None:
        """Change a row; called when the row has ended."""
        number = self._rows[-1][0]
        if row.get("ht"):
            self.heights[number] = _measure(row.get("ht"))
        if row.get("hidden") in ("1", "true"):
            self.hidden.add(number)
        if not self.every and number not in self.numbers:
            return
        self._prefix = row.prefix
        cells: dict[int, Element] = {}
        column = -1
        for cell in row.all("c"):
            place = _REFERENCE.fullmatch(cell.get("r").strip())
            column = column_number(place[1]) if place else column + 1
            cells[column] = cell
        self._set(Row(number, row, cells, lambda at: _column_style(root, at)))

    def add_drawing(self, relation: str, namespace: str) -> None:
        """Add or replace the reference to the VML part with the boxes of the comments."""
        prefix = self.root.prefix
        name = f"{prefix}legacyDrawing"
        tag = start_tag(name, {"xmlns:r": namespace, "r:id": relation}, empty=True)
        old = self.root.one("legacyDrawing")
        following = next((each for each in self.root.children if _follows_drawing(each)), None)
        if old is not None:
            self.splices.replace(old.start, old.end, tag)
        else:
            self.splices.insert(following.start if following else self.root.close, tag)

    def set_widths(self, widths: Mapping[int, float]) -> None:
        """Set the widths of columns (from 0), and show these columns."""
        existing, data = self.root.one("cols"), self.root.one("sheetData")
        name = f"{self._prefix}col"
        tags = [start_tag(name, each, empty=True) for each in widen_columns(self.root, widths)]
        text = f"<{name}s>{''.join(tags)}</{name}s>"
        if existing is not None:
            self.splices.replace(existing.start, existing.end, text)
        elif data is not None:
            self.splices.insert(data.start, text)

    def extend_filter(self, columns: Collection[int]) -> str:
        """Extend the filter to new columns if it ends just before them; return its new range, ""
        if it is unchanged.
        """
        existing = self.root.one("autoFilter")
        area = corners(existing.get("ref")) if existing is not None else None
        if existing is None or area is None or area[3] + 1 != min(columns):
            return ""
        reference = f"{letter(area[1])}{area[0]}:{letter(max(columns))}{area[2]}"
        self.splices.retag(existing, ref=reference)
        return reference

    def _set(self, row: Row) -> None:
        new = self.change(row)
        texts = {at: self._cell(row.number, at, cell) for at, cell in sorted(new.items())}
        added = {at: text for at, text in texts.items() if at not in row.cells}
        if added:
            self.widest = max(self.widest[0], row.number), max(self.widest[1], max(added))
        element = row.element
        if element is None or (element.empty and added):
            tag = start_tag(f"{self._prefix}row", self._attributes(row, added))
            text = f"{tag}{''.join(added.values())}</{self._prefix}row>"
            if element is None:
                self._insert_row(row.number, text if added else "")
            else:
                self.splices.replace(element.start, element.end, text)
            return
        for at, cell in row.cells.items():
            if at in new:
                self._replace(cell, new[at], texts[at])
        for at, text in added.items():
            following_starts = (cell.start for column, cell in row.cells.items() if column > at)
            self.splices.insert(min(following_starts, default=element.close), text)
        attributes = self._attributes(row, added)
        if attributes != element.attributes:
            self.splices.retag(element, **attributes)

    def _attributes(self, row: Row, added: Collection[int]) -> dict[str, str]:
        attributes, wanted_height = (
            _row_attributes(row, added),
            self.min_heights.get(row.number, 0.0),
        )
        height = _measure(attributes.get("ht", ""))
        is_new = not row.cells and self.like in self.heights
        if not row.is_fixed and wanted_height > height and (height or is_new):
            attributes["ht"] = f"{wanted_height:g}"
        return attributes

    def _replace(self, cell: Element, new: NewCell, text: str) -> None:
        if new.text is not None:
            self.splices.replace(cell.start, cell.end, text)
        elif _number(cell.get("s")) != new.style:
            self.splices.retag(cell, s=str(new.style))

    def _cell(self, number: int | str, column: int, new: NewCell) -> str:
        name = f"{self._prefix}c"
        attributes = {"r": f"{letter(column)}{number}"}
        if new.style:
            attributes["s"] = str(new.style)
        if not new.text:
            return start_tag(name, attributes, empty=True)
        if new.is_number:
            value = f"{self._prefix}v"
            return f"{start_tag(name, attributes)}<{value}>{new.text}</{value}></{name}>"
        tag = start_tag(name, {**attributes, "t": "inlineStr"})
        return f"{tag}{inline(new.text, self._prefix)}</{name}>"

    def _add_rows(self) -> None:
        self._rows.sort()
        existing = Counter(number for number, _ in self._rows)
        for number, count in existing.most_common(1):
            if count > 1:
                raise MarkupError(f"the row {number} occurs twice")
        for number in sorted(set(self.numbers) - existing.keys()):
            self._set(Row(number, None, {}, lambda at: _column_style(self.root, at)))
        data = self.root.one("sheetData")
        if self._last and data is not None:
            self.splices.append(data, self._last)

    def _insert_row(self, number: int, text: str) -> None:
        index = bisect(self._rows, (number, 0))
        if index < len(self._rows):
            self.splices.insert(self._rows[index][1], text)
        else:
            self._last += text

    def _extend_dimension(self) -> None:
        dimension = self.root.one("dimension")
        extent = corners(dimension.get("ref")) if dimension is not None else None
        if dimension is None or extent is None:
            return
        top, left, bottom, right = extent
        row, column = self.widest
        if row > bottom or column > right:
            last = f"{letter(max(right, column))}{max(bottom, row)}"
            self.splices.retag(dimension, ref=f"{letter(left)}{top}:{last}")


def corners(reference: str) -> tuple[int, int, int, int] | None:
    """Return the top row, left column (from 0), bottom row and right column of `B2:C3` or `B2`;
    None for other text.
    """
    ends = [_REFERENCE.fullmatch(end) for end in reference.strip().split(":")]
    if len(ends) > 2 or ends[0] is None or ends[-1] is None:
        return None
    first, last = ends[0], ends[-1]
    return int(first[2]), column_number(first[1]), int(last[2]), column_number(last[1])


def _is_one_cell(reference: str) -> bool:
    area = corners(reference)
    return area is not None and area[:2] == area[2:]


def _column_style(root: Element, column: int) -> int:
    for each in root.all("cols", "col"):
        if _number(each.get("min")) <= column + 1 <= _number(each.get("max")):
            return _number(each.get("style"))
    return 0


def _row_attributes(row: Row, added: Collection[int]) -> dict[str, str]:
    """Return the row's attributes; `spans`, if present, includes the new cells."""
    attributes = dict(row.element.attributes) if row.element else {"r": str(row.number)}
    first, last = map(parse_whole, (attributes.get("spans", "").split(":") * 2)[:2])
    if first is not None and last is not None and added:
        attributes["spans"] = f"{min(first, min(added) + 1)}:{max(last, max(added) + 1)}"
    return attributes


def _follows_drawing(element: Element) -> bool:
    """Return true if the element, or one inside an AlternateContent, follows `legacyDrawing`."""
    if element.local == "AlternateContent":
        return any(each.local in _AFTER_DRAWING for each in element.walk())
    return element.local in _AFTER_DRAWING


def _number(text: str) -> int:
    return parse_whole(text) or 0


def _measure(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


# The ranges of a worksheet, extended to rows that are added after the last one.


_RULES = ("dataValidation", "conditionalFormatting", "ignoredError", "protectedRange")
_END = re.compile(r"(?P<column>\$?[A-Z]{1,3})(?P<row>\$?[0-9]+)\Z")
_FILTER, _PRINTED = "_xlnm._FilterDatabase", "_xlnm.Print_Area"


class RangeExtension(NamedTuple):
    """Extends ranges to the row `end` if their last row is `last` or later, but before `end`."""

    last: int
    end: int
    free: tuple[int, ...] = ()
    """Columns (from 0): a filter whose last column is just before them is extended to them."""
    header: int = 0
    """A filter that starts in this row is extended to all rows of the table, even if it ended
    before the last ones.
    """

    def row(self, bottom: int) -> int:
        """Return the new last row of a range that ended in the row `bottom`."""
        return self.end if self.last <= bottom < self.end else bottom

    def stretch(self, reference: str) -> str:
        """Return the extended range, or several ranges separated by spaces."""
        return " ".join(map(self._stretch_one, reference.split()))

    def stretch_filter(self, reference: str) -> str:
        """Return the extended range of a filter."""
        area = corners(reference)
        if area is None:
            return reference
        top, left, bottom, right = area
        if self.free and right + 1 == min(self.free):
            right = max(self.free)
        is_short = top == self.header and bottom < self.last < self.end
        end = self.end if is_short else self.row(bottom)
        return f"{letter(left)}{top}:{letter(right)}{end}"

    def _stretch_one(self, reference: str) -> str:
        area = corners(reference)
        if area is None or self.row(area[2]) == area[2]:
            return reference
        top, left, _, right = area
        return f"{letter(left)}{top}:{letter(right)}{self.end}"


def stretch_ranges(worksheet: WorksheetPart, extension: RangeExtension) -> str:
    """Extend the filter, the drop-downs and the conditional formats of the worksheet; return the
    filter's new range, "" if there is no filter or it is unchanged.
    """
    splices = worksheet.splices
    for each in worksheet.root.walk():
        if each.local in _RULES and each.get("sqref"):
            _retag(splices, each, "sqref", extension.stretch)
        elif each.local == "sqref" and each.text:
            # Newer programs write the range as an element in an extension.
            splices.replace(each.inside, each.close, xml_text(extension.stretch(each.text)))
    filter_element = worksheet.root.one("autoFilter")
    return (
        ""
        if filter_element is None
        else _retag(splices, filter_element, "ref", extension.stretch_filter)
    )


def stretch_tables(parts: WorkbookParts, part: str, extension: RangeExtension) -> None:
    for name in _tables(parts, part):
        root, splices = parts.outline(name), Splices()
        # Replace the filter's range first, because the filter is inside the table's element.
        filter_element = root.one("autoFilter")
        if filter_element is not None:
            _retag(splices, filter_element, "ref", extension.stretch)
        _retag(splices, root, "ref", extension.stretch)
        parts.put(name, splices.apply(parts.read(name)))


def find_totals_table(parts: WorkbookParts, part: str, extension: RangeExtension) -> str:
    """Return the name of the first table that has a total row and would get more rows; "" if there
    is none.
    """
    for name in _tables(parts, part):
        root = parts.outline(name)
        area = corners(root.get("ref"))
        if area and parse_whole(root.get("totalsRowCount")) and extension.row(area[2]) != area[2]:
            return root.get("displayName") or root.get("name")
    return ""


def name_ranges(parts: WorkbookParts, part: str, extension: RangeExtension, filtered: str) -> None:
    """Extend the ranges of two defined names of the worksheet: the print area, and the hidden name
    of the filter, which gets the range `filtered`.
    """
    book = parts.package.workbook
    root, splices = parts.outline(book), Splices()
    targets = {each.id: each.target.casefold() for each in parts.relations(book)}
    sheet_targets = [targets.get(each.get("id"), "") for each in root.all("sheets", "sheet")]
    for each in root.all("definedNames", "definedName"):
        at = parse_whole(each.get("localSheetId"))
        if at is None or sheet_targets[at : at + 1] != [part.casefold()]:
            continue
        text = each.text
        if each.get("name") == _FILTER and filtered:
            _, _, bottom, right = corners(filtered) or (0, 0, 0, 0)
            text = _END.sub(f"${letter(right)}${bottom}", text)
        elif each.get("name") == _PRINTED:
            text = _move_ends(text, extension)
        if text != each.text:
            splices.replace(each.inside, each.close, xml_text(text))
    if len(splices):
        parts.put(book, splices.apply(parts.read(book)))


def _move_ends(text: str, extension: RangeExtension) -> str:
    def end(match: re.Match[str]) -> str:
        mark, row = ("$" if "$" in match["row"] else ""), int(match["row"].lstrip("$"))
        return f"{match['column']}{mark}{extension.row(row)}"

    return _END.sub(end, text)


def _retag(splices: Splices, element: Element, name: str, form: Callable[[str], str]) -> str:
    """Change the range in the attribute `name`; return the new range, "" if it is unchanged."""
    before = element.get(name)
    after = form(before) if before else before
    if after == before:
        return ""
    splices.retag(element, **{name: after})
    return after


def _tables(parts: WorkbookParts, part: str) -> Iterator[str]:
    for each in list(parts.relations(part)):
        if each.kind == "table":
            yield each.target


# Write the results of a run beside the rows of a workbook.
#
# Formats, widths, formulas with their values, charts and other sheets are copied unchanged, which a
# library that loads and saves the workbook would not do.


_COLOURS = {
    "applied": "D3F0D6",
    "needs fixing": "F9CDC9",
    "failed": "F9CDC9",
    "conflict": "FCE3BC",
    "unknown": "FBF3B4",
}
_WIDTHS = {"outcome": 13, "message": 90, "assigned_id": 22, "row": 8, "id": 22}


def patch_workbook(
    source: Source,
    sheet: Sheet,
    edits: CellEdits,
    new: Sequence[str],
    *,
    lines: Sequence[str] | None = None,
    suffix: str = "",
    replaceable: Collection[tuple[int, str]] = (),
    strict: bool = False,
) -> bytes:
    """Return the workbook with `edits` in the sheet's worksheet.

    The columns `new` are added with headers after the last column with a value. Formulas are kept,
    except in the `replaceable` cells (by row and column). A formula that other cells share is kept
    even there; with `strict`, SheetError is raised. `lines` are the lines of a new base. With a
    `suffix`, the workbook gets the format of files with this suffix: macros are kept only with
    `.xlsm`. Also raises SheetError if the workbook is damaged.
    """
    parts = WorkbookParts(source)
    with damage_named(source):
        _patch(parts, sheet, edits, new, replaceable, strict=strict)
        if lines is not None:
            hide(parts, lines)
    parts.drop_signatures()
    if suffix:
        parts.set_kind(suffix)
    return parts.bytes()


@contextmanager
def damage_named(source: Source) -> Iterator[None]:
    """Convert a MarkupError in the context to a SheetError that names the file."""
    try:
        yield
    except MarkupError as error:
        raise SheetError(
            f"{source.path}: the workbook is damaged: {error}",
            hint="Save it again in Excel or LibreOffice, or restore it from a backup.",
        ) from None


def _patch(
    parts: WorkbookParts,
    sheet: Sheet,
    edits: CellEdits,
    new: Sequence[str],
    replaceable: Collection[tuple[int, str]],
    *,
    strict: bool,
) -> None:
    part, styles = parts.worksheet(sheet.tab), parts.styles()
    data = parts.read(part)
    survey, last_column = Survey(), _find_last_column(data)
    is_parsed = last_column is None
    if last_column is None:
        Walk(survey.handle_row).run(data)
        last_column = survey.last_column
    places = {name: column_number(place) for name, place in sheet.columns.items()}
    free = {name: last_column + n for n, name in enumerate(new, 1)}
    patch = _CellPatch(
        sheet, edits, places, free, Styles(parts.read(styles)), frozenset(replaceable)
    )
    plain = _PlainRows(patch)
    if not is_parsed:
        data = plain.cut(data)
        Walk(survey.handle_row).run(data)
    worksheet = WorksheetPart(
        data,
        plain.change,
        {*edits.rows, sheet.header_row} - plain.numbers,
        min_heights=_message_heights(edits),
    )
    plain.insert(worksheet)
    if strict and patch.shared:
        raise SheetError(
            f"{sheet.source}: the formula in {patch.shared[0]} is shared with other cells, and "
            "cannot be replaced here",
            hint="Type the value over it in Excel or LibreOffice.",
        )
    if free:
        worksheet.set_widths(
            {at: _WIDTHS[name.removeprefix(RESULT_PREFIX)] for name, at in free.items()}
        )
        reference = worksheet.extend_filter(free.values())
        if reference:
            name_ranges(parts, part, RangeExtension(0, 0), reference)
    parts.put(part, worksheet.bytes())
    parts.put(styles, patch.styles.bytes())
    if replaceable:
        # The calculation chain lists the cells with formulas; programs rebuild it.
        parts.drop_calculation_order()


def _message_heights(edits: CellEdits) -> dict[int, float]:
    """Return the heights in points that the rows with a message of several lines need: Excel does
    not compute the heights of rows that have one.
    """
    lines = dict[int, int]()
    for kind, texts in enumerate(edits.shared):
        if (count := _count_message_lines(texts)) > 1:
            lines |= dict.fromkeys(np.flatnonzero(edits.kinds == kind).tolist(), count)
    lines |= {row: _count_message_lines(texts) for row, texts in edits.own.items()}
    return {row: height_of(count) for row, count in lines.items() if count > 1}


def _count_message_lines(texts: Mapping[str, str]) -> int:
    message = texts.get("message", "") or texts.get(f"{RESULT_PREFIX}message", "")
    return line_count(message, _WIDTHS["message"] - 2)


def hide(parts: WorkbookParts, lines: Sequence[str], tab: str = BASE_TAB) -> None:
    """Write the lines into an existing hidden worksheet, by default that of the base."""
    part = parts.worksheet(tab)
    texts = dict(enumerate(lines, 1))
    worksheet = WorksheetPart(
        parts.read(part), lambda row: {0: NewCell(0, texts.get(row.number, ""))}, texts, every=True
    )
    parts.put(part, worksheet.bytes())


@dataclass(frozen=True, slots=True)
class _CellPatch:
    """Makes the new cells of each row."""

    sheet: Sheet
    edits: CellEdits
    places: Mapping[str, int]
    free: Mapping[str, int]
    styles: Styles
    replaceable: frozenset[tuple[int, str]]
    shared: list[str] = field(default_factory=list)

    @property
    def neighbour(self) -> int:
        """The column whose cells have the style of the cells in new columns."""
        return self.places.get("status", self.places.get("name", 0))

    def change(self, row: Row) -> dict[int, NewCell]:
        """Return the new cells of a row."""
        if row.element is None:
            return {}
        if row.number == self.sheet.header_row:
            header_style = row.style(max(row.cells, default=0))
            return {at: NewCell(header_style, name) for name, at in self.free.items()}
        return self.edit(row, self.edits.of(row.number))

    def edit(self, row: Row, edit: Mapping[str, str]) -> dict[int, NewCell]:
        """Return the new cells of a row with these texts by column name."""
        places = {**self.places, **self.free}
        return {
            places[name]: NewCell(self._style(row, name, text), text)
            for name, text in edit.items()
            if name in places and self._may_edit(row, name, places[name], text)
        }

    def _may_edit(self, row: Row, name: str, column: int, text: str) -> bool:
        if column not in row.cells:
            return bool(text)
        if not row.has_formula(column):
            return True
        if (row.number, name) not in self.replaceable:
            return False
        if row.has_dependents(column):
            self.shared.append(f"{letter(column)}{row.number}")
            return False
        return True

    def _style(self, row: Row, name: str, text: str) -> int:
        role = name.removeprefix(RESULT_PREFIX)
        colour = _COLOURS.get(text, "") if role == "outcome" else ""
        if name in self.free:
            # In a row of fixed height, a second line would hide the first one.
            wrapped = role == "message" and not row.is_fixed
            return self.styles.text(row.style(self.neighbour), colour, wrapped=wrapped)
        style = row.style(self.places[name])
        if role != "outcome":
            return style
        plain = self.styles.strip_paint(style, *_COLOURS.values())
        return self.styles.paint(plain, colour) if colour else plain


# Rows with plain markup that share their texts: their bytes are edited without parsing them.


_PLAIN_ROW = re.compile(
    rb'<row r="(?P<number>[0-9]{1,7})"(?P<attributes>[^<>/{&]*)>(?P<cells>(?:'
    rb'<c r="[A-Z][0-9]+"(?: s="[0-9]+")?(?: t="[a-zA-Z]+")?'
    rb"(?: ?/>|>(?:<v>[^<]+</v>|<is><t[^<>]*>[^<]+</t></is>)</c>))+)</row>"
)
_ROW = re.compile(rb"<row[\s/>]")
_NUMBERED_ROW = re.compile(rb'<row r="([1-9][0-9]{0,6})"')
_PREFIXED = (b":worksheet", b":sheetData", b":row", b":c ", b":c>", b":c/")
_CELL_STYLE = re.compile(rb'<c r="([A-Z])[0-9]+"(?: s="([0-9]+)")?')
_CELLS_FROM = [re.compile(rb'<c r="[%c-Z]' % first) for first in range(ord("A"), ord("Z") + 1)]
_MARK = ROW_NUMBER.encode()
# Models are kept in memory with their elements.
_MAX_MODELS = 1000


def _find_last_column(data: bytes) -> int | None:
    """Return the last column with a value in a worksheet whose rows can be found in its bytes; None
    if it must be parsed.
    """
    seen = extent(data)
    if seen is None or not seen.ordered or not has_only_tags(data):
        return None
    if not _are_rows_numbered(data):
        return None
    place = letter(seen.columns - 1).encode()
    value = rb'<c r="%s[0-9]+"[^<>]*>(?:<v>|<is><t[^<>]*>)[^<]' % place
    return seen.columns - 1 if re.search(value, data) else None


def _are_rows_numbered(data: bytes) -> bool:
    """Return true if every row has a number above that of the row before, and the elements of the
    worksheet have no prefix.
    """
    if any(each in data for each in _PREFIXED):
        return False
    numbers = [int(number) for number in _NUMBERED_ROW.findall(data)]
    is_ascending = all(itertools.starmap(operator.lt, itertools.pairwise(numbers)))
    return is_ascending and len(numbers) == len(_ROW.findall(data))


class _PlainRow(NamedTuple):
    """A row without separate edits, by its positions in the part."""

    number: int
    model: int
    """The number of the row with the same attributes, styles and shared texts that comes first, and
    is parsed; 0 if the row stays unchanged.
    """
    start: int
    cells: int
    """The start of the first cell; `left` and `right` are those of the first cell that is replaced,
    and of the first one after it.
    """
    left: int
    right: int
    end: int


@dataclass(slots=True)
class _PlainRows:
    """Takes plain rows out of a worksheet's part, and puts them back with their new cells."""

    patch: _CellPatch
    numbers: set[int] = field(default_factory=set)
    """The rows that were taken out."""
    _data: bytes = b""
    _rows: dict[int, list[_PlainRow]] = field(default_factory=dict)
    """By their position in the rest of the part."""
    _models: set[int] = field(default_factory=set)
    """The rows that stand for others; `_made` has them with their new cells."""
    _made: dict[int, tuple[Row, dict[int, NewCell]]] = field(default_factory=dict)

    def cut(self, data: bytes) -> bytes:
        """Return the part without the plain rows. Raises MarkupError if it is not well-formed."""
        check_form(data)
        self._data, rest, done, position = data, [], 0, 0
        for row in self._find():
            rest.append(data[done : row.start])
            position += row.start - done
            done = row.end
            self.numbers.add(row.number)
            self._rows.setdefault(position, []).append(row)
        return b"".join([*rest, data[done:]])

    def change(self, row: Row) -> dict[int, NewCell]:
        """Return the new cells of a row that is not plain."""
        new = self.patch.change(row)
        if row.number in self._models:
            edits = self.patch.edits
            self._made[row.number] = row, self.patch.edit(row, edits.shared[edits.kind(row.number)])
        return new

    def insert(self, worksheet: WorksheetPart) -> None:
        """Insert the rows with their new cells into the rest of the part."""
        forms = {0: (b"", b"")}
        for number, (row, new) in self._made.items():
            tag, cells = worksheet.form_row(row, new)
            forms[number] = ascii_bytes(tag), ascii_bytes(cells)
        for position, rows in self._rows.items():
            pieces = (piece for row in rows for piece in self._edit(row, *forms[row.model]))
            worksheet.splices.insert(position, b"".join(pieces))
        longer = {number for number, (row, new) in self._made.items() if new.keys() - row.cells}
        plain_rows = itertools.chain.from_iterable(self._rows.values())
        last = max((row.number for row in plain_rows if row.model in longer), default=0)
        worksheet.widest = max(worksheet.widest[0], last), worksheet.widest[1]

    def _edit(self, row: _PlainRow, tag: bytes, cells: bytes) -> Iterator[bytes]:
        number = b"%d" % row.number
        yield tag.replace(_MARK, number) or self._data[row.start : row.cells]
        yield self._data[row.cells : row.left]
        yield cells.replace(_MARK, number)
        yield self._data[row.right : row.end]

    def _find(self) -> Iterator[_PlainRow]:
        edits, data, models = self.patch.edits, self._data, dict[object, int]()
        places = {**self.patch.places, **self.patch.free}
        columns = sorted(places[name] for name in edits.shared[-1] if name in places)
        first, after = (columns[0], columns[-1] + 1) if columns else (0, 0)
        style = re.compile(
            rb'<c r="%s[0-9]+"(?: s="([0-9]+)")?' % letter(self.patch.neighbour).encode()
        )
        table = data.find(b"<sheetData"), data.rfind(b"</sheetData>")
        for match in _PLAIN_ROW.finditer(data, *table):
            number = int(match["number"])
            kind = edits.kind(number)
            if number in edits.own or number == self.patch.sheet.header_row:
                continue
            (start, end), (cells, stop) = match.span(), match.span("cells")
            if not kind:
                yield _PlainRow(number, 0, start, cells, stop, stop, end)
            elif after - first == len(columns):
                left, right = (_find_cell(data, at, cells, stop) for at in (first, after))
                neighbour = style.search(data, cells, stop)
                replaced = tuple(_CELL_STYLE.findall(data, left, right))
                looks = kind, match["attributes"], neighbour and neighbour.groups(), replaced
                if looks not in models and len(models) < _MAX_MODELS:
                    models[looks] = number
                    self._models.add(number)
                model = models.get(looks, number)
                if model != number:
                    yield _PlainRow(number, model, start, cells, left, right, end)


def _find_cell(data: bytes, column: int, start: int, stop: int) -> int:
    """Return the position of the row's first cell in this column or a later one, else `stop`."""
    match = _CELLS_FROM[column].search(data, start, stop) if column < len(_CELLS_FROM) else None
    return match.start() if match else stop


# Write the store's changes into a user's workbook: new values, and rows added and removed.
#
# Formats, formulas, charts, other sheets and the user's other columns are copied byte by byte,
# which a library that loads and saves the workbook would not do.


_IDS = ("id", "category_id")
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_WIDTH = 22
_FORMULA = re.compile(rb"<(?:[^\s<>/]+:)?f[\s>/]")
# The elements that may follow `calcPr` (ECMA-376, CT_Workbook).
_AFTER_CALCULATION = frozenset(
    ("oleSize", "customWorkbookViews", "pivotCaches", "smartTagPr", "smartTagTypes")
) | {"webPublishing", "fileRecoveryPr", "webPublishObjects", "extLst"}


def amend_workbook(
    source: Source, sheet: Sheet, edits: SheetEdits, *, lines: Sequence[str] | None = None
) -> tuple[bytes, tuple[Obstacle, ...]]:
    """Return the workbook with the edits in the sheet's worksheet, and the edits that cannot be
    made.

    Added rows have the format of the last row; table objects, the filter, drop-downs, conditional
    formats and the print area that end there are extended. The cells of a removed row become blank,
    so no cell moves. Formulas are kept, except in removed rows. `lines` are the lines of a new
    base. Raises SheetError if the workbook is damaged.
    """
    parts = WorkbookParts(source)
    with damage_named(source):
        obstacles = _amend(parts, sheet, edits)
        if lines is not None:
            hide(parts, lines)
        text_lines = exact.remaining_lines(parts.package, _list_edited_cells(sheet, edits))
        if text_lines is not None:
            hide(parts, text_lines, exact.TEXTS_TAB)
    parts.drop_signatures()
    return parts.bytes(), obstacles


def is_free(source: Source, sheet: Sheet) -> bool:
    """Return true if the sheet's worksheet has neither formulas nor tables, which can prevent an
    edit.
    """
    parts = WorkbookParts(source)
    part = parts.worksheet(sheet.tab)
    has_table = any(each.kind == "table" for each in parts.relations(part))
    return not has_table and not _FORMULA.search(parts.read(part))


def _amend(parts: WorkbookParts, sheet: Sheet, edits: SheetEdits) -> tuple[Obstacle, ...]:
    part, styles = parts.worksheet(sheet.tab), parts.styles()
    data = parts.read(part)
    places = {name: column_number(place) for name, place in sheet.columns.items()}
    scan = _RowScan(frozenset(places.values()), _model_row(sheet, edits), frozenset(edits.removed))
    Walk(scan.handle_row).run(data)
    free = {} if "id" in places or not _gives_ids(edits) else {"id": scan.column + 1}
    start = max(scan.row, scan.formula, sheet.header_row) + 1
    added = dict(enumerate(edits.added, start))
    patch = _CellAmendment(sheet, edits, added, places, free, scan, Styles(parts.read(styles)))
    extension = RangeExtension(
        start - 1, start + len(added) - 1, tuple(free.values()), sheet.header_row
    )
    table = find_totals_table(parts, part, extension) if added else ""
    if table:
        patch.obstacles.append(_below_totals(sheet, start, table))
    rows = {*edits.cells, *edits.removed, *added, sheet.header_row}
    worksheet = WorksheetPart(
        data, patch.change, rows, min_heights=_heights(edits, added), like=scan.model
    )
    worksheet.set_widths(dict.fromkeys(free.values(), _WIDTH)) if free else None
    name_ranges(parts, part, extension, stretch_ranges(worksheet, extension))
    stretch_tables(parts, part, extension)
    parts.put(part, worksheet.bytes())
    parts.put(styles, patch.styles.bytes())
    if edits.removed:
        # The calculation chain lists the cells with formulas; programs rebuild it.
        parts.drop_calculation_order()
    _request_calculation(parts)
    return tuple(patch.obstacles)


def _model_row(sheet: Sheet, edits: SheetEdits) -> int:
    """Return the last usable row that is not removed: new rows get its format."""
    removed = set(edits.removed)
    return max((row for row in sheet.rows.index.tolist() if row not in removed), default=0)


def _list_edited_cells(sheet: Sheet, edits: SheetEdits) -> set[tuple[str, str]]:
    """Return the edited cells, each as a pet's id and a column's name."""
    if "id" not in sheet.rows:
        return set()
    ids = sheet.rows["id"].reindex(list(edits.cells)).tolist()
    rows = zip(ids, edits.cells.values(), strict=True)
    return {(str(pet_id), name) for pet_id, texts in rows for name in texts}


def _heights(edits: SheetEdits, added: Mapping[int, Mapping[str, str]]) -> dict[int, float]:
    """Return the heights in points that the rows need for the lines of their new texts."""
    lines = {
        row: max((text.count("\n") for text in texts.values()), default=0) + 1
        for row, texts in {**edits.cells, **added}.items()
    }
    return {row: height_of(count) for row, count in lines.items()}


def _gives_ids(edits: SheetEdits) -> bool:
    return bool(edits.added) or any("id" in texts for texts in edits.cells.values())


def _below_totals(sheet: Sheet, row: int, table: str) -> Obstacle:
    return Obstacle(
        row=None,
        column="",
        address=cell_address(sheet.tab, "A", row),
        problem=f"the table {table} has a total row, and no row can be added below it",
        suggestion="Turn off the total row of the table, or move the totals above the table.",
    )


@dataclass(slots=True)
class _RowScan:
    """Finds the last row with a value and the last row with a formula in one of the `columns`,
    both without the `removed` rows; the last column with a value; and the cells of the row
    `model`, by column.
    """

    columns: frozenset[int]
    model: int
    removed: frozenset[int]
    row: int = 0
    column: int = 0
    formula: int = 0
    cells: Mapping[int, CellMark] = field(default_factory=dict)

    def handle_row(self, row: RowMark) -> None:
        """Scan a row."""
        for cell in row.cells:
            if cell.value:
                self.column = max(self.column, cell.column)
            if row.number in self.removed:
                continue
            if cell.value:
                self.row = max(self.row, row.number)
            if cell.formula and cell.column in self.columns:
                self.formula = max(self.formula, row.number)
        if row.number == self.model:
            self.cells = {cell.column: cell for cell in row.cells}


@dataclass(slots=True)
class _CellAmendment:
    """Makes the new cells of each row, and collects the edits that cannot be made."""

    sheet: Sheet
    edits: SheetEdits
    added: Mapping[int, Mapping[str, str]]
    places: Mapping[str, int]
    free: Mapping[str, int]
    scan: _RowScan
    styles: Styles
    obstacles: list[Obstacle] = field(default_factory=list)

    def change(self, row: Row) -> dict[int, NewCell]:
        """Return the new cells of a row."""
        if row.number == self.sheet.header_row:
            header_style = row.style(max(row.cells, default=0))
            return {at: NewCell(header_style, name) for name, at in self.free.items()}
        emptied = self._empty_cells(row) if row.number in self.edits.removed else {}
        if row.number in self.added:
            return emptied | dict(self._add_cells(row, self.added[row.number]))
        return emptied or dict(self._edit_cells(row, self.edits.cells.get(row.number, {})))

    def _add_cells(self, row: Row, texts: Mapping[str, str]) -> list[tuple[int, NewCell]]:
        """Return the cells of a new row, including blank ones with the format of the model row."""
        is_removed = row.number in self.edits.removed
        blank = {at: "" for at in self.scan.cells if is_removed or not row.has_formula(at)}
        new_texts = {at: texts.get(name, "") for name, at in {**self.places, **self.free}.items()}
        return [
            (at, NewCell(self._model_style(row, at), text, self._is_number(at, text)))
            for at, text in {
                **blank,
                **{at: text for at, text in new_texts.items() if text},
            }.items()
        ]

    def _model_style(self, row: Row, at: int) -> int:
        if at in self.free.values():
            return self._neighbour_style(row)
        cell = self.scan.cells.get(at)
        return row.style(at) if cell is None or not cell.style.isdigit() else int(cell.style)

    def _is_number(self, at: int, text: str) -> bool:
        """Return true if the text is an id, and the model row has its id as a number."""
        cell = self.scan.cells.get(at)
        is_number_cell = cell is not None and cell.kind in ("", "n") and bool(cell.value)
        return is_number_cell and at in self._ids and _NUMBER.fullmatch(text) is not None

    @property
    def _ids(self) -> frozenset[int]:
        return frozenset(self.places[name] for name in _IDS if name in self.places)

    def _empty_cells(self, row: Row) -> dict[int, NewCell]:
        shared_formulas = [at for at in row.cells if row.has_dependents(at)]
        if shared_formulas:
            problem = "the row cannot be removed: a formula in it is shared with other cells"
            cure = "Delete the row in Excel or LibreOffice."
            self._add_obstacle(row, "", shared_formulas[0], problem, cure)
            return {}
        return {at: NewCell(row.style(at), "") for at in row.cells}

    def _edit_cells(self, row: Row, texts: Mapping[str, str]) -> list[tuple[int, NewCell]]:
        new_cells = []
        for name, text in texts.items():
            at = self.places.get(name, self.free.get(name, -1))
            if at < 0 or (at not in row.cells and not text):
                continue
            if row.has_formula(at):
                problem = "the cell has a formula, which is not overwritten"
                cure = "Type the value over the formula, or change what it is calculated from."
                self._add_obstacle(row, name, at, problem, cure)
                continue
            style = self._neighbour_style(row) if name in self.free else row.style(at)
            new_cells.append((at, NewCell(style, text, self._keeps_number(row, at, text))))
        return new_cells

    def _keeps_number(self, row: Row, at: int, text: str) -> bool:
        cell = row.cells.get(at)
        if cell is None or cell.empty:
            return self._is_number(at, text)
        is_number_id = at in self._ids and cell.get("t") in ("", "n")
        return is_number_id and _NUMBER.fullmatch(text) is not None

    def _neighbour_style(self, row: Row) -> int:
        return self.styles.text(row.style(self.places.get("status", self.places.get("name", 0))))

    def _add_obstacle(self, row: Row, name: str, at: int, problem: str, cure: str) -> None:
        self.obstacles.append(
            Obstacle(
                row=row.number,
                column=name,
                address=cell_address(self.sheet.tab, letter(at), row.number),
                problem=problem,
                suggestion=cure,
            )
        )


def _request_calculation(parts: WorkbookParts) -> None:
    """Make programs recalculate the formulas, if there are any, when they open the workbook. Excel
    does so because of a setting, LibreOffice because another application wrote the workbook.
    """
    if not any(_FORMULA.search(parts.read(tab.part)) for tab in parts.package.tabs):
        return
    book = parts.package.workbook
    root, splices = parts.outline(book), Splices()
    existing = root.one("calcPr")
    following = next((each for each in root.children if each.local in _AFTER_CALCULATION), None)
    if existing is not None:
        splices.retag(existing, fullCalcOnLoad="1")
    else:
        tag = start_tag(f"{root.prefix}calcPr", {"fullCalcOnLoad": "1"}, empty=True)
        splices.insert(following.start if following else root.close, tag)
    parts.put(book, splices.apply(parts.read(book)))
    _set_application(parts)


def _set_application(parts: WorkbookParts) -> None:
    """Set petsync as the application that wrote the workbook."""
    name = parts.find_related("", "extended-properties")
    application = parts.outline(name).one("Application") if name else None
    if application is not None and not application.empty:
        splices = Splices()
        splices.replace(application.inside, application.close, "petsync")
        parts.put(name, splices.apply(parts.read(name)))
