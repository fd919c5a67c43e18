"""Explanations as lines: what becomes of a pet, and field by field by which values and rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from petsync.diff.explain import Explanation, Reason
from petsync.render import explain_words, lines
from petsync.render.explain_words import SIDES
from petsync.render.sides import Cell, Sides, folded
from petsync.render.visible import shorten
from petsync.render.words import SYMBOL

__all__ = ["explanation_lines"]

_INDENT = 2
_LABEL = 13
"""`category_id` and a gap."""
_LINES, _MOST = 6, 60
"""So many lines a long value takes, more or less, and so many items of a list are shown."""


def explanation_lines(explanations: Iterable[Explanation], *, width: int = 80) -> Iterator[Text]:
    """The explanations, one below the other, in lines of at most `width` cells."""
    for n, explanation in enumerate(explanations):
        yield from [lines.BLANK] if n else []
        yield from _explanation(explanation, width)


def _explanation(explanation: Explanation, width: int) -> Iterator[Text]:
    mark = explain_words.FATE_MARK.get(explanation.fate, "note")
    head = lines.paragraph(explain_words.headline(explanation), width - 2)
    for n, line in enumerate(head):
        sign = f"{SYMBOL[mark]} " if n == 0 else "  "
        yield Text.assemble((sign, lines.STYLE[mark]), (line.plain, "bold"))
    said = explain_words.why(explanation.rule, explanation.said)
    yield from lines.paragraph(said, width, indent=_INDENT) if said else ()
    if explanation.fields:
        yield lines.BLANK
        yield from _table(explanation.fields, width)


def _table(reasons: Sequence[Reason], width: int) -> Iterator[Text]:
    room = width - _INDENT - _LABEL
    apart = [reason for reason in reasons if explain_words.agreed(reason) is None]
    sides = Sides(SIDES, map(explain_words.sides, apart), room)
    if any(sides.fits(explain_words.sides(reason)) for reason in apart):
        yield Text.assemble(" " * (_INDENT + _LABEL), sides.head)
    for reason in reasons:
        alike = explain_words.agreed(reason)
        if alike is None:
            styles = ["", "", "", "bold" if explain_words.changes(reason) else ""]
            told = sides.lines(explain_words.sides(reason), styles)
        else:
            told = _agreed(alike, room)
        for n, line in enumerate(told):
            label = reason.column if n == 0 else ""
            yield Text.assemble(f"{' ' * _INDENT}{label:<{_LABEL}}", line)
        said = explain_words.why(reason.rule, reason.said)
        yield from lines.paragraph(said, width, indent=_INDENT + _LABEL, style="dim")


def _agreed(alike: Cell, room: int) -> Iterator[Text]:
    """The value, a list in one line if it is a short one."""
    in_a_line = "; ".join(alike)
    cell = [in_a_line] if cell_len(in_a_line) <= room else alike
    shown = [*cell[:_MOST], *([f"and {len(cell) - _MOST:,} more"] if len(cell) > _MOST else [])]
    yield from (
        Text(line) for line in folded([shorten(each, _LINES * room) for each in shown], room)
    )
