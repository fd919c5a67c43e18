"""The part with the boxes of a worksheet's comments: found or made, and brought up to date."""

from __future__ import annotations

from collections.abc import Sequence

from petsync.sheets.marks import shapes
from petsync.sheets.marks.comments import Comments
from petsync.sheets.marks.layout import Layout, lines_of
from petsync.sheets.marks.mark import Mark
from petsync.sheets.ooxml.parts import Parts
from petsync.sheets.ooxml.worksheet import Worksheet, corners

__all__ = ["draw"]

_KIND = "application/vnd.openxmlformats-officedocument.vmlDrawing"


def draw(
    parts: Parts, part: str, sheet: Worksheet, comments: Comments, speaking: Sequence[Mark]
) -> None:
    """Have a box for each comment of `speaking`, and none for those that are gone."""
    layout = Layout.of(sheet.root, sheet.heights)
    name = _name(parts, part, sheet)
    data = shapes.without_boxes(
        parts.read(name) if name else shapes.new_shapes(), set(map(_cell, comments.gone))
    )
    lines = {_cell(address): -_added(text) for address, text in comments.removed.items()}
    for mark in speaking:
        cell = mark.row - 1, mark.column
        if mark.address in comments.others:
            lines[cell] = lines.get(cell, 0) + _added(mark.text)
    data = shapes.resized(data, lines, layout.taller)
    boxes = (
        ((mark.row - 1, mark.column), layout.box(mark.row - 1, mark.column, lines_of(mark.text)))
        for mark in speaking
        if mark.address not in comments.others
    )
    data = shapes.with_boxes(data, boxes, _free_block(parts))
    if name:
        parts.put(name, data)
    else:
        name = parts.add("xl/drawings/vmlDrawing{}.vml", _KIND, data)
        sheet.add_drawing(parts.relate(part, "vmlDrawing", name), parts.namespace)


def _name(parts: Parts, part: str, sheet: Worksheet) -> str:
    """The part that the worksheet names, "" where there is none."""
    drawing = sheet.root.one("legacyDrawing")
    targets = {each.id: each.target for each in parts.relations(part)}
    return targets.get(drawing.get("id"), "") if drawing is not None else ""


def _added(text: str) -> int:
    """The lines that petsync's words take below a person's, with the blank one between."""
    return lines_of(text) + 1


def _free_block(parts: Parts) -> int:
    taken = (shapes.highest_block(parts.read(name)) for name in parts.names(".vml"))
    return max(taken, default=0) + 1


def _cell(address: str) -> shapes.Cell:
    top, left, _, _ = corners(address) or (0, 0, 0, 0)
    return top - 1, left
