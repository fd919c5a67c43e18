"""Explanations as lines: what becomes of a pet, and field by field by which values and rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from petsync.diff.explain import Explanation, Reason
from petsync.render import explain_words, lines
from petsync.render.explain_words import SIDES
from petsync.render.fit import fitted
from petsync.render.visible import shorten, wrap
from petsync.render.words import SYMBOL

__all__ = ["explanation_lines"]

_INDENT = 2
_LABEL = 13
"""`category_id` and a gap."""
_GAP = "  "
_LINES = 6
"""So many lines of its column a long value takes, more or less."""


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
    values = [explain_words.sides(reason) for reason in apart]
    widths = _widths([SIDES, *values], room - (len(SIDES) - 1) * len(_GAP))
    if apart:
        yield _row("", [(title, "dim") for title in SIDES], widths)
    for reason in reasons:
        alike = explain_words.agreed(reason)
        if alike is not None:
            yield Text(f"{' ' * _INDENT}{reason.column:<{_LABEL}}{shorten(alike, room)}")
        else:
            yield from _compared(reason, widths)
        said = explain_words.why(reason.rule, reason.said)
        yield from lines.paragraph(said, width, indent=_INDENT + _LABEL, style="dim")


def _compared(reason: Reason, widths: Sequence[int]) -> Iterator[Text]:
    """The field's values side by side, in as many lines as they need."""
    style = "bold" if explain_words.changes(reason) else ""
    label: str = reason.column
    for cells in _cells(explain_words.sides(reason), widths):
        yield _row(label, [*((c, "") for c in cells[:-1]), (cells[-1], style)], widths)
        label = ""


def _widths(rows: Iterable[Sequence[str]], room: int) -> list[int]:
    """What the columns need, the widest ones narrowed until all fit."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cells(texts: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """The texts in their columns, line by line; what is too long is cut in front of where the long
    ones differ.
    """
    long = [text for text, width in zip(texts, widths, strict=True) if cell_len(text) > width]
    shown = [
        wrap(fitted([text, *long], _LINES * width - _LINES)[0], width)
        if cell_len(text) > width
        else [text]
        for text, width in zip(texts, widths, strict=True)
    ]
    return itertools.zip_longest(*shown, fillvalue="")


def _row(label: str, cells: Sequence[tuple[str, str]], widths: Sequence[int]) -> Text:
    line = Text(" " * _INDENT + f"{label:<{_LABEL}}")
    for (text, style), width in zip(cells, widths, strict=True):
        line.append(text, style)
        line.append(" " * (width - cell_len(text)) + _GAP)
    line.rstrip()
    return line
