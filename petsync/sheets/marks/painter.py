"""Which cells of a worksheet get a colour, and which lose the one they got earlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from petsync.sheets.marks.mark import Mark
from petsync.sheets.ooxml.outline import Element
from petsync.sheets.ooxml.styles import Styles
from petsync.sheets.ooxml.worksheet import New, Row

__all__ = ["ERROR", "WARNING", "Painter"]

ERROR, WARNING = "FFB9BE", "FFE985"
"""The colours: not those that spreadsheet programs offer, so that petsync knows its own."""


@dataclass(slots=True)
class Painter:
    """Paints the marked cells; with `again`, takes the colours of an earlier time away first.

    `patterned` counts the cells whose pattern the colour replaced, `hidden` those in hidden rows.
    """

    styles: Styles
    marks: Mapping[int, Mapping[int, Mark]]
    again: bool
    patterned: int = 0
    hidden: int = 0
    _stripped: dict[int, int] = field(default_factory=dict)

    def change(self, row: Row) -> dict[int, New]:
        """The styles of the cells that change in a row."""
        marks = self.marks.get(row.number, {})
        new = {at: New(self._bare(row.style(at))) for at in row.cells} if self.again else {}
        self.hidden += len(marks) if _is_hidden(row.element) else 0
        for at, mark in marks.items():
            style = self._bare(row.style(at))
            self.patterned += self.styles.has_pattern(style)
            new[at] = New(self.styles.painted(style, ERROR if mark.is_error else WARNING))
        return new

    def _bare(self, style: int) -> int:
        if not self.again:
            return style
        if style not in self._stripped:
            self._stripped[style] = self.styles.stripped(style, ERROR, WARNING)
        return self._stripped[style]


def _is_hidden(row: Element | None) -> bool:
    return row is not None and row.get("hidden") in ("1", "true")
