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
from petsync.table.cells import make_visible

__all__ = [
    "DECISION_MARK",
    "SIDES",
    "explanation_lines",
    "explanations_html",
    "find_common_value",
    "format_reason",
    "headline",
    "is_changed",
    "side_cells",
    "summary_html",
]


# The words of an explanation, for every format.


SIDES = ("exported", "sheet", "store", "then")
"""The titles of a field's values: in the base, the sheet, the store, and the store afterwards."""
_NO_VALUE = "-"
_DECISION_WORDS: Mapping[str, str] = {
    "add": "it will be added",
    "update": "it will be changed",
    "delete": "it will be deleted",
    "conflict": "it is in conflict",
    "blocked": "nothing is sent, as its row needs fixing",
    "ignored": "nothing is sent, as its row is ignored",
    "unchanged": "nothing changes",
    "absent": "there is no such pet",
}
DECISION_MARK: Mapping[str, Mark] = {
    "add": "add",
    "update": "update",
    "delete": "delete",
    "conflict": "conflict",
    "blocked": "blocked",
}
"""The mark of each decision. A decision that is not listed changes nothing, and has the mark of a
note.
"""


def headline(explanation: Explanation) -> str:
    """Return the pet, its row, and what happens to it: `Pet 17, Bella (Pets!B18): nothing
    changes.`.
    """
    pet = "A new pet" if explanation.pet_id is None else f"Pet {explanation.pet_id}"
    name = f", {make_visible(explanation.name)}" if explanation.name else ""
    where = f" ({make_visible(explanation.source)})" if explanation.source else ""
    return f"{pet}{name}{where}: {_DECISION_WORDS[explanation.decision]}."


def format_reason(rule: str, text: str) -> str:
    """Return the sentence, and the rule's code: `The sheet changed it, the store did not.
    [edited]`.
    """
    return " ".join(
        part for part in (make_visible(text), f"[{make_visible(rule)}]" if rule else "") if part
    )


def side_cells(reason: Reason) -> list[Cell]:
    """Return the field's values in the order of `SIDES`, as printable items; `-` for no value."""
    texts = (reason.base, reason.sheet, reason.store, reason.after)
    return [_side_cell(reason, text) for text in texts]


def is_changed(reason: Reason) -> bool:
    """Return true if the plan changes the store's value."""
    return (reason.store or "") != (reason.after or "")


def find_common_value(reason: Reason) -> Cell | None:
    """Return the value as printable items, if it is the same on all sides that have one and does
    not change; else None.
    """
    sides = {reason.base, reason.sheet, reason.store, reason.after} - {None}
    if is_changed(reason) or len(sides) > 1:
        return None
    return _side_cell(reason, sides.pop() if sides else None)


def _side_cell(reason: Reason, text: str | None) -> Cell:
    return [_NO_VALUE] if text is None else items(reason.column, text)


# Explanations and a plan's numbers as HTML.


_COLUMNS = ("Field", "Exported", "Sheet", "Store", "Then", "Why")


def explanations_html(explanations: Iterable[Explanation]) -> str:
    """Return the explanations as HTML, one below the other."""
    return html.fragment(part for each in explanations for part in _explanation_html(each))


def summary_html(summary: Summary) -> str:
    """Return the plan's numbers as HTML, each with its name and a note."""
    rows = (
        element(
            "tr",
            html.row_head(name)
            + table_cell(words.number(total), kind="ps-number")
            + table_cell(note),
        )
        for name, total, note in summary_rows(summary)
    )
    guard = words.LIMITS_KEPT if summary.ok else f"{words.PLAN_REFUSED}."
    table = html.table(("What", "Number", "Of which"), rows, small=True)
    return html.fragment([element("p", html.text(guard)), table])


def _explanation_html(explanation: Explanation) -> Iterator[str]:
    yield html.summary(headline(explanation))
    reason_text = format_reason(explanation.rule, explanation.sentence)
    yield element("p", html.text(reason_text)) if reason_text else ""
    if explanation.fields:
        yield html.table(_COLUMNS, map(_reason_row, explanation.fields))


def _reason_row(reason: Reason) -> str:
    *texts, after = map(_items, side_cells(reason))
    after_cell = element("strong", after) if is_changed(reason) else after
    reason_cell = table_cell(format_reason(reason.rule, reason.sentence))
    head = html.row_head(reason.column)
    return element(
        "tr", "".join([head, *(element("td", text) for text in (*texts, after_cell)), reason_cell])
    )


def _items(side: Cell) -> str:
    if len(side) == 1:
        return html.bdi(side[0])
    return "".join(element("div", html.bdi(item)) for item in side)


# Explanations as lines: the pet's decision, and for each field its values and rule.


_INDENT = 2
_LABEL = 13
"""The width of `category_id` and a gap."""
_LINES, _MOST = 6, 60
"""The approximate number of lines of a long value, and the number of items of a list that are
shown.
"""


def explanation_lines(explanations: Iterable[Explanation], *, width: int = 80) -> Iterator[Text]:
    """Yield the explanations, one below the other, in lines of at most `width` cells."""
    for n, explanation in enumerate(explanations):
        yield from [text.BLANK] if n else []
        yield from _explanation_text(explanation, width)


def _explanation_text(explanation: Explanation, width: int) -> Iterator[Text]:
    mark = DECISION_MARK.get(explanation.decision, "note")
    head = text.paragraph(headline(explanation), width - 2)
    for n, line in enumerate(head):
        sign = f"{SYMBOL[mark]} " if n == 0 else "  "
        yield Text.assemble((sign, text.STYLE[mark]), (line.plain, "bold"))
    reason_text = format_reason(explanation.rule, explanation.sentence)
    yield from text.paragraph(reason_text, width, indent=_INDENT) if reason_text else ()
    if explanation.fields:
        yield text.BLANK
        yield from _table(explanation.fields, width)


def _table(reasons: Sequence[Reason], width: int) -> Iterator[Text]:
    room = width - _INDENT - _LABEL
    differing = [reason for reason in reasons if find_common_value(reason) is None]
    sides = SideBySide(SIDES, map(side_cells, differing), room)
    if any(sides.fits(side_cells(reason)) for reason in differing):
        yield Text.assemble(" " * (_INDENT + _LABEL), sides.head)
    for reason in reasons:
        common_value = find_common_value(reason)
        if common_value is None:
            styles = ["", "", "", "bold" if is_changed(reason) else ""]
            lines = sides.lines(side_cells(reason), styles)
        else:
            lines = _wrap_value(common_value, room)
        for n, line in enumerate(lines):
            label = reason.column if n == 0 else ""
            yield Text.assemble(f"{' ' * _INDENT}{label:<{_LABEL}}", line)
        reason_text = format_reason(reason.rule, reason.sentence)
        yield from text.paragraph(reason_text, width, indent=_INDENT + _LABEL, style="dim")


def _wrap_value(value: Cell, room: int) -> Iterator[Text]:
    """Yield the value as lines; a short list as one line."""
    joined = "; ".join(value)
    cell = [joined] if cell_len(joined) <= room else value
    shown = [*cell[:_MOST], *([f"and {len(cell) - _MOST:,} more"] if len(cell) > _MOST else [])]
    yield from (
        Text(line) for line in fold_items([shorten(each, _LINES * room) for each in shown], room)
    )
