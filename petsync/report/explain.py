"""An explanation as text and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from petsync.plan.explain import Explanation, Reason
from petsync.plan.plan import Summary
from petsync.report import html, text, words
from petsync.report.html import element, table_cell
from petsync.report.plan import summary_rows
from petsync.report.textdiff import Cell, SideBySide, fold_items, items
from petsync.report.words import SYMBOL, Mark, shorten
from petsync.table.cells import visible

__all__ = [
    "FATE_MARK",
    "SIDES",
    "changes",
    "explanation_lines",
    "explanations_html",
    "find_common_value",
    "headline",
    "side_cells",
    "summary_html",
    "why_words",
]


# What is said of why a plan does with a pet what it does, whatever the format.


SIDES = ("exported", "sheet", "store", "then")
"""The titles of a field's values: in the base, the sheet, the store, and the store afterwards."""
_NOTHING = "-"
_FATE: Mapping[str, str] = {
    "add": "it will be added",
    "update": "it will be changed",
    "delete": "it will be deleted",
    "conflict": "it is in conflict",
    "blocked": "nothing is sent, as its row needs fixing",
    "ignored": "nothing is sent, as its row is ignored",
    "unchanged": "nothing changes",
    "absent": "there is none",
}
FATE_MARK: Mapping[str, Mark] = {
    "add": "add",
    "update": "update",
    "delete": "delete",
    "conflict": "conflict",
    "blocked": "blocked",
}
"""The sign of a fate; of one that changes nothing, it is that of a note."""


def headline(explanation: Explanation) -> str:
    """Which pet, its row, and what becomes of it: `Pet 17, Bella (Pets!B18): nothing changes.`."""
    pet = "A new pet" if explanation.pet_id is None else f"Pet {explanation.pet_id}"
    name = f", {visible(explanation.name)}" if explanation.name else ""
    where = f" ({visible(explanation.source)})" if explanation.source else ""
    return f"{pet}{name}{where}: {_FATE[explanation.fate]}."


def why_words(rule: str, said: str) -> str:
    """The sentence, and the rule's code: `The sheet changed it, the store did not. [edited]`."""
    return " ".join(part for part in (visible(said), f"[{visible(rule)}]" if rule else "") if part)


def side_cells(reason: Reason) -> list[Cell]:
    """The field's values under `SIDES`, visible, of a list its items; `-` where there is none."""
    texts = (reason.base, reason.sheet, reason.store, reason.after)
    return [_side(reason, text) for text in texts]


def changes(reason: Reason) -> bool:
    """Whether the store would have another value then."""
    return (reason.store or "") != (reason.after or "")


def find_common_value(reason: Reason) -> Cell | None:
    """The value, visible, of a list its items, where all that say anything say the same and it
    stays; else None.
    """
    sides = {reason.base, reason.sheet, reason.store, reason.after} - {None}
    if changes(reason) or len(sides) > 1:
        return None
    return _side(reason, sides.pop() if sides else None)


def _side(reason: Reason, text: str | None) -> Cell:
    return [_NOTHING] if text is None else items(reason.column, text)


# Explanations and a plan's numbers as HTML.


_COLUMNS = ("Field", "Exported", "Sheet", "Store", "Then", "Why")


def explanations_html(explanations: Iterable[Explanation]) -> str:
    """The explanations, one below the other."""
    return html.fragment(part for each in explanations for part in _explanation_html(each))


def summary_html(summary: Summary) -> str:
    """The numbers, each with what it counts, and what they are made up of."""
    rows = (
        element(
            "tr",
            html.row_head(name)
            + table_cell(words.number(total), kind="ps-number")
            + table_cell(said),
        )
        for name, total, said in summary_rows(summary)
    )
    guard = words.KEPT if summary.ok else f"{words.REFUSED}."
    table = html.table(("What", "Number", "Of which"), rows, small=True)
    return html.fragment([element("p", html.text(guard)), table])


def _explanation_html(explanation: Explanation) -> Iterator[str]:
    yield html.summary(headline(explanation))
    said = why_words(explanation.rule, explanation.said)
    yield element("p", html.text(said)) if said else ""
    if explanation.fields:
        yield html.table(_COLUMNS, map(_reason, explanation.fields))


def _reason(reason: Reason) -> str:
    *texts, after = map(_items, side_cells(reason))
    then = element("strong", after) if changes(reason) else after
    why = table_cell(why_words(reason.rule, reason.said))
    head = html.row_head(reason.column)
    return element("tr", "".join([head, *(element("td", text) for text in (*texts, then)), why]))


def _items(side: Cell) -> str:
    if len(side) == 1:
        return html.bdi(side[0])
    return "".join(element("div", html.bdi(item)) for item in side)


# Explanations as lines: what becomes of a pet, and field by field by which values and rule.


_INDENT = 2
_LABEL = 13
"""`category_id` and a gap."""
_LINES, _MOST = 6, 60
"""So many lines a long value takes, more or less, and so many items of a list are shown."""


def explanation_lines(explanations: Iterable[Explanation], *, width: int = 80) -> Iterator[Text]:
    """The explanations, one below the other, in lines of at most `width` cells."""
    for n, explanation in enumerate(explanations):
        yield from [text.BLANK] if n else []
        yield from _explanation_text(explanation, width)


def _explanation_text(explanation: Explanation, width: int) -> Iterator[Text]:
    mark = FATE_MARK.get(explanation.fate, "note")
    head = text.paragraph(headline(explanation), width - 2)
    for n, line in enumerate(head):
        sign = f"{SYMBOL[mark]} " if n == 0 else "  "
        yield Text.assemble((sign, text.STYLE[mark]), (line.plain, "bold"))
    said = why_words(explanation.rule, explanation.said)
    yield from text.paragraph(said, width, indent=_INDENT) if said else ()
    if explanation.fields:
        yield text.BLANK
        yield from _table(explanation.fields, width)


def _table(reasons: Sequence[Reason], width: int) -> Iterator[Text]:
    room = width - _INDENT - _LABEL
    apart = [reason for reason in reasons if find_common_value(reason) is None]
    sides = SideBySide(SIDES, map(side_cells, apart), room)
    if any(sides.fits(side_cells(reason)) for reason in apart):
        yield Text.assemble(" " * (_INDENT + _LABEL), sides.head)
    for reason in reasons:
        alike = find_common_value(reason)
        if alike is None:
            styles = ["", "", "", "bold" if changes(reason) else ""]
            told = sides.lines(side_cells(reason), styles)
        else:
            told = _wrap_value(alike, room)
        for n, line in enumerate(told):
            label = reason.column if n == 0 else ""
            yield Text.assemble(f"{' ' * _INDENT}{label:<{_LABEL}}", line)
        said = why_words(reason.rule, reason.said)
        yield from text.paragraph(said, width, indent=_INDENT + _LABEL, style="dim")


def _wrap_value(alike: Cell, room: int) -> Iterator[Text]:
    """The value, a list in one line if it is a short one."""
    in_a_line = "; ".join(alike)
    cell = [in_a_line] if cell_len(in_a_line) <= room else alike
    shown = [*cell[:_MOST], *([f"and {len(cell) - _MOST:,} more"] if len(cell) > _MOST else [])]
    yield from (
        Text(line) for line in fold_items([shorten(each, _LINES * room) for each in shown], room)
    )
