"""A workbook with the results beside its rows; everything else in it stays.

Formats, widths, formulas with their values, charts and other sheets are copied as they are,
which a library that loads and saves the workbook would not do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from petsync.errors import SheetError
from petsync.sheets.base import TAB
from petsync.sheets.grid import letter
from petsync.sheets.headers import OURS
from petsync.sheets.ooxml.markup import MarkupError, Walk, column_number
from petsync.sheets.ooxml.parts import Parts
from petsync.sheets.ooxml.reach import Reach, name_ranges
from petsync.sheets.ooxml.styles import Styles
from petsync.sheets.ooxml.survey import Survey
from petsync.sheets.ooxml.worksheet import New, Row, Worksheet
from petsync.sheets.source import Source
from petsync.table.sheet import Sheet

__all__ = ["hide", "naming_damage", "patched"]

Edits = Mapping[int, Mapping[str, str]]

_COLOURS = {"applied": "D3F0D6", "failed": "F9CDC9", "conflict": "FCE3BC", "unknown": "FBF3B4"}
_WIDTHS = {"outcome": 11, "message": 90, "assigned_id": 22, "row": 8, "id": 22}


def patched(
    source: Source,
    sheet: Sheet,
    edits: Edits,
    new: Sequence[str],
    *,
    lines: Sequence[str] | None = None,
    suffix: str = "",
    over: Collection[tuple[int, str]] = (),
    strict: bool = False,
) -> bytes:
    """The workbook with `edits` (texts by row and column name) in the sheet's tab.

    The columns `new` are added behind the last one that has a value, with a header. A formula
    stays but in the cells `over` which an edit may go, by row and column; one on which other cells
    hang stays there too, and with `strict` SheetError is raised. `lines` are those of a new base.
    `suffix` is that of the file it becomes, if that is another one: without `.xlsm` no macros are
    kept.
    """
    parts = Parts(source)
    with naming_damage(source):
        _patch(parts, sheet, edits, new, over, strict=strict)
        if lines is not None:
            hide(parts, lines)
    parts.drop_signatures()
    if suffix:
        parts.suit(suffix)
    return parts.bytes()


@contextmanager
def naming_damage(source: Source) -> Iterator[None]:
    """Raise SheetError that names the file where a part of it is not well-formed."""
    try:
        yield
    except MarkupError as error:
        raise SheetError(
            f"{source.path}: the workbook is damaged: {error}",
            hint="Save it again, or take it from a backup.",
        ) from None


def _patch(
    parts: Parts,
    sheet: Sheet,
    edits: Edits,
    new: Sequence[str],
    over: Collection[tuple[int, str]],
    *,
    strict: bool,
) -> None:
    part, styles = parts.worksheet(sheet.tab), parts.styles()
    data = parts.read(part)
    survey = Survey()
    Walk(survey.take).run(data)
    places = {name: column_number(place) for name, place in sheet.columns.items()}
    free = {name: survey.last_column + n for n, name in enumerate(new, 1)}
    desk = _Desk(sheet, edits, places, free, Styles(parts.read(styles)), frozenset(over))
    worksheet = Worksheet(data, desk.change, {*edits, sheet.header_row})
    if strict and desk.shared:
        raise SheetError(
            f"{sheet.source}: the formula in {desk.shared[0]} is shared with other cells, and "
            "cannot be replaced here",
            hint="Type the value over it in Excel or LibreOffice.",
        )
    if free:
        worksheet.set_widths({at: _WIDTHS[name.removeprefix(OURS)] for name, at in free.items()})
        reference = worksheet.extend_filter(free.values())
        if reference:
            name_ranges(parts, part, Reach(0, 0), reference)
    parts.put(part, worksheet.bytes())
    parts.put(styles, desk.styles.bytes())
    if over:
        # It lists the cells with formulas; programs make it anew.
        parts.drop_calculation_order()


def hide(parts: Parts, lines: Sequence[str], tab: str = TAB) -> None:
    """Put the lines into a worksheet that no person sees, by default the one with the base."""
    part = parts.worksheet(tab)
    texts = dict(enumerate(lines, 1))
    worksheet = Worksheet(
        parts.read(part), lambda row: {0: New(0, texts.get(row.number, ""))}, texts, every=True
    )
    parts.put(part, worksheet.bytes())


@dataclass(frozen=True, slots=True)
class _Desk:
    """Says, row by row, what the cells become."""

    sheet: Sheet
    edits: Edits
    places: Mapping[str, int]
    free: Mapping[str, int]
    styles: Styles
    over: frozenset[tuple[int, str]]
    shared: list[str] = field(default_factory=list)

    def change(self, row: Row) -> dict[int, New]:
        """The new cells of a row."""
        if row.element is None:
            return {}
        if row.number == self.sheet.header_row:
            beside = row.style(max(row.cells, default=0))
            return {at: New(beside, name) for name, at in self.free.items()}
        edit = self.edits.get(row.number, {})
        places = {**self.places, **self.free}
        return {
            places[name]: New(self._style(row, name, text), text)
            for name, text in edit.items()
            if name in places and self._is_open(row, name, places[name], text)
        }

    def _is_open(self, row: Row, name: str, column: int, text: str) -> bool:
        if column not in row.cells:
            return bool(text)
        if not row.has_formula(column):
            return True
        if (row.number, name) not in self.over:
            return False
        if row.has_dependents(column):
            self.shared.append(f"{letter(column)}{row.number}")
            return False
        return True

    def _style(self, row: Row, name: str, text: str) -> int:
        role = name.removeprefix(OURS)
        colour = _COLOURS.get(text, "") if role == "outcome" else ""
        if name in self.free:
            beside = self.places.get("status", self.places.get("name", 0))
            # In a row of fixed height a second line would only hide the first.
            wrapped = role == "message" and not row.is_fixed
            return self.styles.text(row.style(beside), colour, wrapped=wrapped)
        own = row.style(self.places[name])
        if role != "outcome":
            return own
        plain = self.styles.stripped(own, *_COLOURS.values())
        return self.styles.painted(plain, colour) if colour else plain
