"""The views of explanations and of a plan's summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from petsync.plan.explain import Explanation, Reason
from petsync.plan.plan import Summary as PlanSummary
from petsync.report import words
from petsync.report.document import (
    Column,
    Comparison,
    ComparisonRow,
    Details,
    Document,
    Note,
    Row,
    Summary,
    Table,
)
from petsync.report.plan import summary_rows
from petsync.report.textdiff import items
from petsync.report.words import Mark, number

__all__ = ["explanation_view", "explanations_view", "summary_view"]


_SIDES = ("before", "sheet", "store", "then")
"""The titles of a field's values: on which both sides last agreed, in the export or after a later
run; in the sheet; in the store; and in the store afterwards.
"""
_THEN = _SIDES.index("then")
_NO_VALUE = "-"
_DECISION_WORDS: Mapping[str, str] = {
    "add": "it will be added",
    "update": "it will be changed",
    "delete": "it will be deleted",
    "conflict": "it is in conflict",
    "blocked": "nothing is sent, because its row needs fixing",
    "ignored": "nothing is sent, because its row is ignored",
    "unchanged": "nothing changes",
    "absent": "there is no such pet",
}
_DECISION_MARKS: Mapping[str, Mark] = {
    "add": "add",
    "update": "update",
    "delete": "delete",
    "conflict": "conflict",
    "blocked": "blocked",
}
"""The marks of decisions. Other decisions change nothing, and have the mark of a note."""


def explanation_view(explanation: Explanation) -> Document:
    """Return what happens to the pet, and the reason for each field."""
    return explanations_view([explanation])


def explanations_view(explanations: Iterable[Explanation]) -> Document:
    """Return what happens to each pet, and the reason for each field."""
    return Document("", map(_explain, explanations))


def summary_view(summary: PlanSummary) -> Document:
    """Return the counts of the plan, each with a note, and the guard's verdict."""
    rows = [
        Row((name, number(total), note), tone="" if total else "quiet")
        for name, total, note in summary_rows(summary)
    ]
    columns = (Column("What", "head"), Column("Number", "number"), Column("Of which"))
    verdict = (
        Summary(words.LIMITS_KEPT) if summary.ok else Summary(f"{words.PLAN_REFUSED}.", "blocked")
    )
    return Document("petsync plan, in numbers", [Table(columns, rows, "grid"), verdict])


def _explain(explanation: Explanation) -> Details:
    fields = [_compare(reason) for reason in explanation.fields]
    sentence = _format_reason(explanation.rule, explanation.sentence)
    return Details(
        _describe(explanation),
        [
            *([Note(sentence)] if sentence else []),
            *([Comparison(_SIDES, fields)] if fields else []),
        ],
        mark=_DECISION_MARKS.get(explanation.decision, "note"),
    )


def _compare(reason: Reason) -> ComparisonRow:
    texts = (reason.base, reason.sheet, reason.store, reason.after)
    is_changed = (reason.store or "") != (reason.after or "")
    return ComparisonRow(
        reason.column,
        [[_NO_VALUE] if text is None else items(reason.column, text) for text in texts],
        _THEN if is_changed else None,
        _format_reason(reason.rule, reason.sentence),
    )


def _describe(explanation: Explanation) -> str:
    """Describe the pet and what happens to it: `Pet 17, Bella (Pets!B18): nothing changes.`."""
    pet = "A new pet" if explanation.pet_id is None else f"Pet {explanation.pet_id}"
    name = f", {explanation.name}" if explanation.name else ""
    where = f" ({explanation.source})" if explanation.source else ""
    return f"{pet}{name}{where}: {_DECISION_WORDS[explanation.decision]}."


def _format_reason(rule: str, text: str) -> str:
    """Format a sentence and its rule: `The sheet changed it, the store did not. [edited]`."""
    return " ".join(filter(None, (text, f"[{rule}]" if rule else "")))
