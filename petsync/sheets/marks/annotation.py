"""One workbook annotated: cells coloured, comments and the boxes that show them added."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from petsync.errors import SheetError
from petsync.sheets.marks import losses
from petsync.sheets.marks.comments import Comments, new_comments
from petsync.sheets.marks.drawing import draw
from petsync.sheets.marks.mark import Mark, marks_of
from petsync.sheets.marks.painter import Painter
from petsync.sheets.ooxml.markup import MarkupError
from petsync.sheets.ooxml.parts import Parts
from petsync.sheets.ooxml.styles import Styles
from petsync.sheets.ooxml.worksheet import Worksheet, corners
from petsync.sheets.source import Source
from petsync.table.sheet import Finding

__all__ = ["MOST_COMMENTS", "Made", "annotated"]

MOST_COMMENTS = 5_000
"""Above that, cells are only coloured: spreadsheet programs take long to open so many comments."""

_MERGED = re.compile(rb"<(?:[\w.-]+:)?mergeCell\s[^<>]*?\bref\s*=\s*[\"']([A-Z0-9:$]+)[\"']")
_MOST_MERGED = 1 << 16
_FEW = 256
_COMMENTS = "application/vnd.openxmlformats-officedocument.spreadsheetml.comments+xml"


class Made(NamedTuple):
    """The copy's bytes, how many cells are marked in it, and what is lost."""

    data: bytes
    cells: int
    lost: tuple[str, ...]


def annotated(source: Source, tab: str, findings: Iterable[Finding], suffix: str) -> Made:
    """The workbook with the findings marked in the tab, for a file name with that suffix.

    Raises SheetError where a part of it is damaged.
    """
    try:
        return _annotated(Parts(source), tab, findings, suffix)
    except MarkupError as error:
        raise SheetError(
            f"{source.path}: the workbook is damaged: {error}",
            hint="Save it again, or take it from a backup.",
        ) from None


def _annotated(parts: Parts, tab: str, findings: Iterable[Finding], suffix: str) -> Made:
    part = parts.worksheet(tab)
    data, styles = parts.read(part), parts.styles()
    marks = marks_of(findings, _merged(data))
    told = parts.related(part, "comments")
    comments = Comments(parts.read(told) if told else new_comments(parts.main_namespace))
    painter = Painter(Styles(parts.read(styles)), _by_row(marks.values()), comments.had_ours)
    sheet = Worksheet(data, painter.change, painter.marks.keys(), painter.again)
    speaking = _speaking(marks.values(), comments)
    if speaking or comments.had_ours:
        draw(parts, part, sheet, comments, speaking)
        for mark in speaking:
            comments.add(mark.address, mark.text)
        name = told or parts.add("xl/comments{}.xml", _COMMENTS, b"")
        parts.put(name, comments.bytes())
        if not told:
            parts.relate(part, "comments", name)
    parts.put(part, sheet.bytes())
    parts.put(styles, painter.styles.bytes())
    lost = [
        *losses.of_file(signed=parts.drop_signatures(), macros=parts.suit(suffix)),
        *losses.of_sheet(sheet.root, marks),
        *losses.of_cells(**_counts(marks.values(), comments, painter, speaking)),
    ]
    return Made(parts.bytes(), len(marks), tuple(lost))


def _speaking(marks: Iterable[Mark], comments: Comments) -> list[Mark]:
    """The marks that get a comment: where there are too many, those of errors first."""
    able = [mark for mark in marks if mark.address not in comments.threaded]
    chosen = sorted(able, key=lambda mark: not mark.is_error)[:MOST_COMMENTS]
    return sorted(chosen, key=lambda mark: (mark.row, mark.column))


def _counts(
    marks: Iterable[Mark], comments: Comments, painter: Painter, speaking: Sequence[Mark]
) -> dict[str, int]:
    addresses = [mark.address for mark in marks]
    threaded = sum(address in comments.threaded for address in addresses)
    return {
        "patterned": painter.patterned,
        "hidden": painter.hidden,
        "talked": sum(mark.address in comments.others for mark in speaking),
        "threaded": threaded,
        "silent": len(addresses) - threaded - len(speaking),
    }


def _by_row(marks: Iterable[Mark]) -> dict[int, dict[int, Mark]]:
    rows: dict[int, dict[int, Mark]] = {}
    for mark in marks:
        rows.setdefault(mark.row, {})[mark.column] = mark
    return rows


def _merged(data: bytes) -> dict[tuple[int, int], tuple[int, int]]:
    """The first cell of the merged ones for each of the others."""
    firsts: dict[tuple[int, int], tuple[int, int]] = {}
    for reference in _MERGED.findall(data):
        area = corners(reference.decode())
        if area is not None and len(firsts) < _MOST_MERGED:
            top, left, bottom, right = area
            columns = range(left, min(right, left + _FEW) + 1)
            cells = ((row, column) for row in range(top, bottom + 1) for column in columns)
            room = _MOST_MERGED - len(firsts)
            firsts |= dict.fromkeys(itertools.islice(cells, room), (top, left))
    return firsts
