"""A worksheet's part with some of its cells set anew; every other byte of it stays."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from petsync.sheets.export.workbook import inline
from petsync.sheets.grid import letter
from petsync.sheets.ooxml.columns import widened
from petsync.sheets.ooxml.markup import column_number
from petsync.sheets.ooxml.outline import Element, Splices, outline, start_tag, whole

__all__ = ["New", "Row", "Worksheet", "corners"]

_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
# What stands before `legacyDrawing`, and what may stand behind it (ECMA-376, CT_Worksheet).
_BEHIND_DRAWING = frozenset(
    ("legacyDrawingHF", "drawingHF", "picture", "oleObjects", "controls", "webPublishItems")
) | {"tableParts", "extLst"}


class New(NamedTuple):
    """What a cell becomes: its style, and its text (None: the content stays), which may be that of
    a number.
    """

    style: int
    text: str | None = None
    is_number: bool = False


@dataclass(slots=True)
class Row:
    """One row: its number (from 1), its element where it has one, its cells by column (from 0)."""

    number: int
    element: Element | None
    cells: Mapping[int, Element]
    styles: Callable[[int], int]

    def style(self, column: int) -> int:
        """The style that a cell has, or that its row or its column gives it."""
        cell = self.cells.get(column)
        if cell is not None:
            return _number(cell.get("s"))
        if self.element is not None and self.element.get("customFormat") in ("1", "true"):
            return _number(self.element.get("s"))
        return self.styles(column)

    @property
    def is_fixed(self) -> bool:
        """Whether a person chose the row's height."""
        return self.element is not None and self.element.get("customHeight") in ("1", "true")

    def has_formula(self, column: int) -> bool:
        """Whether the cell has a formula."""
        cell = self.cells.get(column)
        return cell is not None and cell.one("f") is not None

    def has_dependents(self, column: int) -> bool:
        """Whether the cell has a formula that is that of other cells too."""
        cell = self.cells.get(column)
        formula = None if cell is None else cell.one("f")
        # Only the first cell of those that share one says of which cells it is.
        return formula is not None and bool(formula.get("ref"))


@dataclass(slots=True)
class Worksheet:
    """The part and the changes to it. `root` has all of it but the rows. A row whose height no
    person chose becomes as high as `tall` says, by its number, where it is lower, or is new and the
    row `like` has a height.
    """

    data: bytes
    change: Callable[[Row], Mapping[int, New]]
    numbers: Collection[int]
    every: bool = False
    tall: Mapping[int, float] = field(default_factory=dict)
    like: int = 0
    root: Element = field(init=False)
    splices: Splices = field(default_factory=Splices)
    heights: dict[int, float] = field(default_factory=dict)
    _rows: list[tuple[int, int]] = field(default_factory=list)
    _last: str = ""
    _widest: tuple[int, int] = (0, 0)
    _prefix: str = ""

    def __post_init__(self) -> None:
        """Ask `change` what becomes of the rows `numbers`, or of every row too.

        Raises MarkupError where the part is not well-formed.
        """
        self.root = outline(self.data, self)
        self._prefix = self.root.prefix
        self._add_rows()
        self._extend_dimension()

    def bytes(self) -> bytes:
        """The part as it is now."""
        return self.splices.applied(self.data)

    def wants(self, row: Element) -> bool:
        """Whether the cells of a row that begins are needed."""
        given, before = whole(row.get("r")), self._rows[-1][0] if self._rows else 0
        number = before + 1 if given is None else given
        self._rows.append((number, row.start))
        return self.every or number in self.numbers

    def take(self, root: Element, row: Element) -> None:
        """A row has ended."""
        number = self._rows[-1][0]
        if row.get("ht"):
            self.heights[number] = _measure(row.get("ht"))
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
        """Name the part with the comments' boxes, at the place that the schema gives it."""
        prefix = self.root.prefix
        name = f"{prefix}legacyDrawing"
        tag = start_tag(name, {"xmlns:r": namespace, "r:id": relation}, empty=True)
        old = self.root.one("legacyDrawing")
        behind = next((each for each in self.root.children if _is_behind(each)), None)
        if old is not None:
            self.splices.replace(old.start, old.end, tag)
        else:
            self.splices.insert(behind.start if behind else self.root.close, tag)

    def set_widths(self, widths: Mapping[int, float]) -> None:
        """Give columns (from 0) that had no cells a width, and show them."""
        there, data = self.root.one("cols"), self.root.one("sheetData")
        name = f"{self._prefix}col"
        tags = [start_tag(name, each, empty=True) for each in widened(self.root, widths)]
        text = f"<{name}s>{''.join(tags)}</{name}s>"
        if there is not None:
            self.splices.replace(there.start, there.end, text)
        elif data is not None:
            self.splices.insert(data.start, text)

    def extend_filter(self, columns: Collection[int]) -> str:
        """Have the filter reach over new columns where it ends just before them; its new range,
        "" where it stays.
        """
        there = self.root.one("autoFilter")
        area = corners(there.get("ref")) if there is not None else None
        if there is None or area is None or area[3] + 1 != min(columns):
            return ""
        reference = f"{letter(area[1])}{area[0]}:{letter(max(columns))}{area[2]}"
        self.splices.retag(there, ref=reference)
        return reference

    def _set(self, row: Row) -> None:
        new = self.change(row)
        texts = {at: self._cell(row, at, cell) for at, cell in sorted(new.items())}
        added = {at: text for at, text in texts.items() if at not in row.cells}
        if added:
            self._widest = max(self._widest[0], row.number), max(self._widest[1], max(added))
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
            behind = (cell.start for column, cell in row.cells.items() if column > at)
            self.splices.insert(min(behind, default=element.close), text)
        attributes = self._attributes(row, added)
        if attributes != element.attributes:
            self.splices.retag(element, **attributes)

    def _attributes(self, row: Row, added: Collection[int]) -> dict[str, str]:
        attributes, wanted = _spanned(row, added), self.tall.get(row.number, 0.0)
        given = _measure(attributes.get("ht", ""))
        is_new = not row.cells and self.like in self.heights
        if not row.is_fixed and wanted > given and (given or is_new):
            attributes["ht"] = f"{wanted:g}"
        return attributes

    def _replace(self, cell: Element, new: New, text: str) -> None:
        if new.text is not None:
            self.splices.replace(cell.start, cell.end, text)
        elif _number(cell.get("s")) != new.style:
            self.splices.retag(cell, s=str(new.style))

    def _cell(self, row: Row, column: int, new: New) -> str:
        name = f"{self._prefix}c"
        attributes = {"r": f"{letter(column)}{row.number}"}
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
        there = {number for number, _ in self._rows}
        for number in sorted(set(self.numbers) - there):
            self._set(Row(number, None, {}, lambda at: _column_style(self.root, at)))
        data = self.root.one("sheetData")
        if self._last and data is not None:
            self.splices.append(data, self._last)

    def _insert_row(self, number: int, text: str) -> None:
        behind = bisect(self._rows, (number, 0))
        if behind < len(self._rows):
            self.splices.insert(self._rows[behind][1], text)
        else:
            self._last += text

    def _extend_dimension(self) -> None:
        dimension = self.root.one("dimension")
        extent = corners(dimension.get("ref")) if dimension is not None else None
        if dimension is None or extent is None:
            return
        top, left, bottom, right = extent
        row, column = self._widest
        if row > bottom or column > right:
            last = f"{letter(max(right, column))}{max(bottom, row)}"
            self.splices.retag(dimension, ref=f"{letter(left)}{top}:{last}")


def corners(reference: str) -> tuple[int, int, int, int] | None:
    """Top row, left column (from 0), bottom row, right column of `B2:C3` or `B2`."""
    ends = [_REFERENCE.fullmatch(end) for end in reference.strip().split(":")]
    if len(ends) > 2 or ends[0] is None or ends[-1] is None:
        return None
    first, last = ends[0], ends[-1]
    return int(first[2]), column_number(first[1]), int(last[2]), column_number(last[1])


def _column_style(root: Element, column: int) -> int:
    for each in root.all("cols", "col"):
        if _number(each.get("min")) <= column + 1 <= _number(each.get("max")):
            return _number(each.get("style"))
    return 0


def _spanned(row: Row, added: Collection[int]) -> dict[str, str]:
    """The row's attributes; `spans`, where it is there, covers the new cells."""
    attributes = dict(row.element.attributes) if row.element else {"r": str(row.number)}
    first, last = map(whole, (attributes.get("spans", "").split(":") * 2)[:2])
    if first is not None and last is not None and added:
        attributes["spans"] = f"{min(first, min(added) + 1)}:{max(last, max(added) + 1)}"
    return attributes


def _is_behind(element: Element) -> bool:
    """Whether `legacyDrawing` stands before it, also where an alternative wraps it."""
    if element.local == "AlternateContent":
        return any(each.local in _BEHIND_DRAWING for each in element.walk())
    return element.local in _BEHIND_DRAWING


def _number(text: str) -> int:
    return whole(text) or 0


def _measure(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
