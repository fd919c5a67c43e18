"""Explanations and a plan's numbers as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from petsync.diff.explain import Explanation, Reason
from petsync.diff.summary import Summary
from petsync.render import explain_words, markup, words
from petsync.render.markup import cell, element
from petsync.render.sides import Cell
from petsync.render.summary_lines import summary_rows

__all__ = ["explanations_html", "summary_html"]

_COLUMNS = ("Field", "Exported", "Sheet", "Store", "Then", "Why")


def explanations_html(explanations: Iterable[Explanation]) -> str:
    """The explanations, one below the other."""
    return markup.fragment(part for each in explanations for part in _explanation(each))


def summary_html(summary: Summary) -> str:
    """The numbers, each with what it counts, and what they are made up of."""
    rows = (
        element(
            "tr", markup.row_head(name) + cell(words.number(total), kind="ps-number") + cell(said)
        )
        for name, total, said in summary_rows(summary)
    )
    guard = words.KEPT if summary.ok else f"{words.REFUSED}."
    table = markup.table(("What", "Number", "Of which"), rows, small=True)
    return markup.fragment([element("p", markup.text(guard)), table])


def _explanation(explanation: Explanation) -> Iterator[str]:
    yield markup.summary(explain_words.headline(explanation))
    said = explain_words.why(explanation.rule, explanation.said)
    yield element("p", markup.text(said)) if said else ""
    if explanation.fields:
        yield markup.table(_COLUMNS, map(_reason, explanation.fields))


def _reason(reason: Reason) -> str:
    *texts, after = map(_items, explain_words.sides(reason))
    then = element("strong", after) if explain_words.changes(reason) else after
    why = cell(explain_words.why(reason.rule, reason.said))
    head = markup.row_head(reason.column)
    return element("tr", "".join([head, *(element("td", text) for text in (*texts, then)), why]))


def _items(side: Cell) -> str:
    if len(side) == 1:
        return markup.bdi(side[0])
    return "".join(element("div", markup.bdi(item)) for item in side)
