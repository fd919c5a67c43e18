"""What an annotated copy says of each cell: one text for all its findings, and how bad it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from petsync.sheets.grid import letter
from petsync.sheets.ooxml.markup import column_number
from petsync.table.sheet import Finding
from petsync.table.visible import visible

__all__ = ["Mark", "marks_of"]

_PLACE = re.compile(r"(?:.*!)?([A-Z]{1,3})([0-9]{1,7})", re.DOTALL)
_LINE = re.compile(r"line ([0-9]+)(?:, column ([0-9]+))?")
_BREAKS = re.compile(r"\s+")
_MOST, _LONGEST = 8, 320


@dataclass(slots=True)
class Mark:
    """One cell by row (from 1) and column (from 0), and its findings."""

    row: int
    column: int
    is_error: bool = False
    paragraphs: dict[str, None] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The cell in A1 notation."""
        return f"{letter(self.column)}{self.row}"

    @property
    def text(self) -> str:
        """All findings, a paragraph each."""
        shown = list(self.paragraphs)[:_MOST]
        more = len(self.paragraphs) - len(shown)
        if more:
            are = "finding is" if more == 1 else "findings are"
            shown.append(f"petsync: {more} more {are} listed by petsync check. (more)")
        return "\n\n".join(shown)


def marks_of(
    findings: Iterable[Finding], merged: Mapping[tuple[int, int], tuple[int, int]]
) -> dict[tuple[int, int], Mark]:
    """A mark for each cell with findings, by row and column. Of merged cells only the first is
    seen: `merged` gives it for the others.
    """
    marks: dict[tuple[int, int], Mark] = {}
    for finding in findings:
        cell = _cell(finding)
        cell = merged.get(cell, cell)
        mark = marks.setdefault(cell, Mark(*cell))
        mark.is_error |= finding.severity == "error"
        mark.paragraphs[_paragraph(finding)] = None
    return marks


def _cell(finding: Finding) -> tuple[int, int]:
    """The cell that an address names; the first of the row where it names none."""
    place, line = _PLACE.fullmatch(finding.address), _LINE.fullmatch(finding.address)
    if place is not None:
        return int(place[2]), column_number(place[1])
    if line is not None:
        return int(line[1]), int(line[2] or 1) - 1
    return finding.row, 0


def _paragraph(finding: Finding) -> str:
    problem, cure = _line(finding.problem), _line(finding.suggestion)
    return f"petsync: {problem}" + (f"\n{cure}" if cure else "") + f" ({finding.rule})"


def _line(text: str) -> str:
    line = _BREAKS.sub(" ", visible(text, keep="\t\n\r")).strip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
