"""What an annotated copy cannot keep or show, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from petsync.sheets.export.look import OWN_RULE
from petsync.sheets.ooxml.outline import Element
from petsync.sheets.ooxml.worksheet import corners

__all__ = ["of_cells", "of_file", "of_sheet"]

_Area = tuple[int, int, int, int]


def of_file(*, signed: bool, macros: bool) -> Iterator[str]:
    """What the file as a whole loses."""
    if signed:
        yield "The digital signature is left out: it does not hold for a changed copy."
    if macros:
        yield "The macros are left out, since the copy is an .xlsx; name it .xlsm to keep them."


def of_sheet(root: Element, cells: Collection[tuple[int, int]]) -> Iterator[str]:
    """What the worksheet's own settings hide of the marked cells (row from 1, column from 0)."""
    areas = list(_conditional(root))
    if covered := sum(any(_is_in(cell, area) for area in areas) for cell in cells):
        where = "in the range of a conditional format, which may show its own colour instead."
        yield f"{_cells(covered, 'is', 'are')} {where}"
    if cells and root.one("sheetProtection") is not None:
        yield "The sheet is protected: to mend it, unprotect it first (Review, Unprotect Sheet)."


def of_cells(
    *, patterned: int = 0, hidden: int = 0, talked: int = 0, threaded: int = 0, silent: int = 0
) -> Iterator[str]:
    """What becomes of single cells, by how many they are."""
    if patterned:
        yield f"{_cells(patterned, 'has', 'have')} a pattern or gradient under the colour."
    if hidden:
        yield f"{_cells(hidden, 'is', 'are')} in hidden rows; show all rows to see them."
    if talked:
        yield f"{_cells(talked, 'has', 'have')} a comment already; petsync's words stand below it."
    if threaded:
        which = _cells(threaded, "has", "have")
        yield f"{which} a conversation, to which nothing is added; there is only the colour."
    if silent:
        why = "more comments would make the workbook slow to open."
        yield f"{_cells(silent, 'is', 'are')} only coloured: {why} petsync check lists everything."


def _conditional(root: Element) -> Iterator[_Area]:
    for each in root.walk():
        if each.local == "conditionalFormatting" and not all(map(_is_own, each.all("cfRule"))):
            newer = each.one("sqref")
            ranges = each.get("sqref") or (newer.text if newer else "")
            yield from filter(None, map(corners, ranges.split()))


def _is_own(rule: Element) -> bool:
    """Whether an export has the rule from the beginning: its rows are coloured on purpose."""
    formula = rule.one("formula")
    return formula is not None and OWN_RULE.fullmatch(formula.text.strip()) is not None


def _is_in(cell: tuple[int, int], area: _Area) -> bool:
    top, left, bottom, right = area
    return top <= cell[0] <= bottom and left <= cell[1] <= right


def _cells(number: int, one: str, many: str) -> str:
    return f"1 cell {one}" if number == 1 else f"{number:,} cells {many}"
