"""A person's own workbook with new values, rows and no more of others; everything else stays.

Formats, formulas, charts, other sheets and people's own columns are copied byte by byte, which a
library that loads and saves the workbook would not do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from petsync.sheets.edits import Obstacle, SheetEdits
from petsync.sheets.export import exact
from petsync.sheets.export.workbook import height_of
from petsync.sheets.grid import letter
from petsync.sheets.ooxml.markup import CellMark, RowMark, Walk, column_number
from petsync.sheets.ooxml.outline import Splices, start_tag
from petsync.sheets.ooxml.parts import Parts
from petsync.sheets.ooxml.patch import hide, naming_damage
from petsync.sheets.ooxml.reach import (
    Reach,
    name_ranges,
    stretch_ranges,
    stretch_tables,
    totalled,
)
from petsync.sheets.ooxml.styles import Styles
from petsync.sheets.ooxml.worksheet import New, Row, Worksheet
from petsync.sheets.source import Source
from petsync.table.sheet import Sheet, cell_address

__all__ = ["amended", "is_free"]

_IDS = ("id", "category_id")
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_WIDTH = 22
_FORMULA = re.compile(rb"<(?:[^\s<>/]+:)?f[\s>/]")
# What stands behind `calcPr` (ECMA-376, CT_Workbook).
_BEHIND_CALCULATION = frozenset(
    ("oleSize", "customWorkbookViews", "pivotCaches", "smartTagPr", "smartTagTypes")
) | {"webPublishing", "fileRecoveryPr", "webPublishObjects", "extLst"}


def amended(
    source: Source, sheet: Sheet, edits: SheetEdits, *, lines: Sequence[str] | None = None
) -> tuple[bytes, tuple[Obstacle, ...]]:
    """The workbook with the edits in the sheet's tab, and those of them that cannot be made.

    Added rows look like the last one, and what reaches as far as that one follows them: table
    objects, the filter, drop-downs, conditional formats and what is printed. Of a row that is taken
    out the cells stay, blank, so that nothing is shifted. A formula stays but in a row that is
    taken out. `lines` are those of a new base. Raises SheetError where the workbook is damaged.
    """
    parts = Parts(source)
    with naming_damage(source):
        obstacles = _amend(parts, sheet, edits)
        if lines is not None:
            hide(parts, lines)
        kept = exact.lines_without(parts.package, _edited(sheet, edits))
        if kept is not None:
            hide(parts, kept, exact.TAB)
    parts.drop_signatures()
    return parts.bytes(), obstacles


def is_free(source: Source, sheet: Sheet) -> bool:
    """Whether nothing in the sheet's tab can stand in an edit's way: no formula, and no table."""
    parts = Parts(source)
    part = parts.worksheet(sheet.tab)
    has_table = any(each.kind == "table" for each in parts.relations(part))
    return not has_table and not _FORMULA.search(parts.read(part))


def _amend(parts: Parts, sheet: Sheet, edits: SheetEdits) -> tuple[Obstacle, ...]:
    part, styles = parts.worksheet(sheet.tab), parts.styles()
    data = parts.read(part)
    places = {name: column_number(place) for name, place in sheet.columns.items()}
    seen = _Seen(frozenset(places.values()), _model(sheet, edits), frozenset(edits.removed))
    Walk(seen.take).run(data)
    free = {} if "id" in places or not _gives_ids(edits) else {"id": seen.column + 1}
    start = max(seen.row, seen.formula, sheet.header_row) + 1
    added = dict(enumerate(edits.added, start))
    desk = _Desk(sheet, edits, added, places, free, seen, Styles(parts.read(styles)))
    reach = Reach(start - 1, start + len(added) - 1, tuple(free.values()), sheet.header_row)
    table = totalled(parts, part, reach) if added else ""
    if table:
        desk.obstacles.append(_below_totals(sheet, start, table))
    rows = {*edits.cells, *edits.removed, *added, sheet.header_row}
    worksheet = Worksheet(data, desk.change, rows, tall=_heights(edits, added), like=seen.model)
    worksheet.set_widths(dict.fromkeys(free.values(), _WIDTH)) if free else None
    name_ranges(parts, part, reach, stretch_ranges(worksheet, reach))
    stretch_tables(parts, part, reach)
    parts.put(part, worksheet.bytes())
    parts.put(styles, desk.styles.bytes())
    if edits.removed:
        # It lists the cells with formulas; programs make it anew.
        parts.drop_calculation_order()
    _calculate(parts)
    return tuple(desk.obstacles)


def _model(sheet: Sheet, edits: SheetEdits) -> int:
    """The last row that is of a pet and stays: new ones are to look like it."""
    gone = set(edits.removed)
    return max((row for row in sheet.frame.index.tolist() if row not in gone), default=0)


def _edited(sheet: Sheet, edits: SheetEdits) -> set[tuple[str, str]]:
    """The cells that are edited, by their pets' ids and the columns."""
    if "id" not in sheet.frame:
        return set()
    ids = sheet.frame["id"].reindex(list(edits.cells)).tolist()
    rows = zip(ids, edits.cells.values(), strict=True)
    return {(str(pet_id), name) for pet_id, texts in rows for name in texts}


def _heights(edits: SheetEdits, added: Mapping[int, Mapping[str, str]]) -> dict[int, float]:
    """The heights that rows need for the lines of their texts."""
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
        problem=f"the table {table} ends with a row of totals, and no row can be added below it",
        suggestion="Switch its row of totals off, or move the totals above the table.",
    )


@dataclass(slots=True)
class _Seen:
    """What a walk through the rows that are not `removed` tells: the last row and column with a
    value, the last row with a formula in one of the columns `ours`, and the cells of the row
    `model` by column.
    """

    ours: frozenset[int]
    model: int
    removed: frozenset[int]
    row: int = 0
    column: int = 0
    formula: int = 0
    cells: Mapping[int, CellMark] = field(default_factory=dict)

    def take(self, row: RowMark) -> None:
        """Note what a row has."""
        for cell in row.cells:
            if cell.value:
                self.column = max(self.column, cell.column)
            if row.number in self.removed:
                continue
            if cell.value:
                self.row = row.number
            if cell.formula and cell.column in self.ours:
                self.formula = row.number
        if row.number == self.model:
            self.cells = {cell.column: cell for cell in row.cells}


@dataclass(slots=True)
class _Desk:
    """Says, row by row, what the cells become, and what cannot be."""

    sheet: Sheet
    edits: SheetEdits
    added: Mapping[int, Mapping[str, str]]
    places: Mapping[str, int]
    free: Mapping[str, int]
    seen: _Seen
    styles: Styles
    obstacles: list[Obstacle] = field(default_factory=list)

    def change(self, row: Row) -> dict[int, New]:
        """The new cells of a row."""
        if row.number == self.sheet.header_row:
            beside = row.style(max(row.cells, default=0))
            return {at: New(beside, name) for name, at in self.free.items()}
        gone = self._emptied(row) if row.number in self.edits.removed else {}
        if row.number in self.added:
            return gone | dict(self._added(row, self.added[row.number]))
        return gone or dict(self._edited(row, self.edits.cells.get(row.number, {})))

    def _added(self, row: Row, texts: Mapping[str, str]) -> list[tuple[int, New]]:
        """The cells of a new row: blank ones too where the model has a format."""
        is_gone = row.number in self.edits.removed
        blank = {at: "" for at in self.seen.cells if is_gone or not row.has_formula(at)}
        said = {at: texts.get(name, "") for name, at in {**self.places, **self.free}.items()}
        return [
            (at, New(self._like(row, at), text, self._is_number(at, text)))
            for at, text in {**blank, **{at: text for at, text in said.items() if text}}.items()
        ]

    def _like(self, row: Row, at: int) -> int:
        if at in self.free.values():
            return self._beside(row)
        cell = self.seen.cells.get(at)
        return row.style(at) if cell is None or not cell.style.isdigit() else int(cell.style)

    def _is_number(self, at: int, text: str) -> bool:
        """Whether an id is written as a number, as the row has it whose looks are taken."""
        cell = self.seen.cells.get(at)
        is_like = cell is not None and cell.kind in ("", "n") and bool(cell.value)
        return is_like and at in self._ids and _NUMBER.fullmatch(text) is not None

    @property
    def _ids(self) -> frozenset[int]:
        return frozenset(self.places[name] for name in _IDS if name in self.places)

    def _emptied(self, row: Row) -> dict[int, New]:
        held = [at for at in row.cells if row.has_dependents(at)]
        if held:
            problem = "the row cannot be taken out: a formula in it is shared with other cells"
            self._hinder(row, "", held[0], problem)
            return {}
        return {at: New(row.style(at), "") for at in row.cells}

    def _edited(self, row: Row, texts: Mapping[str, str]) -> list[tuple[int, New]]:
        news = []
        for name, text in texts.items():
            at = self.places.get(name, self.free.get(name, -1))
            if at < 0 or (at not in row.cells and not text):
                continue
            if row.has_formula(at):
                self._hinder(row, name, at, "the cell has a formula, which is not overwritten")
                continue
            style = self._beside(row) if name in self.free else row.style(at)
            news.append((at, New(style, text, self._stays_number(row, at, text))))
        return news

    def _stays_number(self, row: Row, at: int, text: str) -> bool:
        cell = row.cells.get(at)
        if cell is None or cell.empty:
            return self._is_number(at, text)
        is_like = at in self._ids and cell.get("t") in ("", "n")
        return is_like and _NUMBER.fullmatch(text) is not None

    def _beside(self, row: Row) -> int:
        return self.styles.text(row.style(self.places.get("status", self.places.get("name", 0))))

    def _hinder(self, row: Row, name: str, at: int, problem: str) -> None:
        self.obstacles.append(
            Obstacle(
                row=row.number,
                column=name,
                address=cell_address(self.sheet.tab, letter(at), row.number),
                problem=problem,
                suggestion="Type the value over the formula, or change what it is calculated from.",
            )
        )


def _calculate(parts: Parts) -> None:
    """Have programs calculate the formulas afresh when they open the workbook, if it has any: Excel
    is told so, and LibreOffice does it where no program that it trusts has written the workbook.
    """
    if not any(_FORMULA.search(parts.read(tab.part)) for tab in parts.package.tabs):
        return
    book = parts.package.workbook
    root, splices = parts.outline(book), Splices()
    there = root.one("calcPr")
    behind = next((each for each in root.children if each.local in _BEHIND_CALCULATION), None)
    if there is not None:
        splices.retag(there, fullCalcOnLoad="1")
    else:
        tag = start_tag(f"{root.prefix}calcPr", {"fullCalcOnLoad": "1"}, empty=True)
        splices.insert(behind.start if behind else root.close, tag)
    parts.put(book, splices.applied(parts.read(book)))
    _sign(parts)


def _sign(parts: Parts) -> None:
    """Say that petsync wrote the workbook."""
    name = parts.related("", "extended-properties")
    own = parts.outline(name).one("Application") if name else None
    if own is not None and not own.empty:
        splices = Splices()
        splices.replace(own.inside, own.close, "petsync")
        parts.put(name, splices.applied(parts.read(name)))
