"""Plans and reports as Excel workbooks: to filter, to sort, to hand on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from petsync.diff.change import Change, Delete
from petsync.diff.fields import cell
from petsync.diff.plan import Plan
from petsync.diff.report import OUTCOMES, Report, Result
from petsync.render import words
from petsync.render.detail import traits
from petsync.render.digest import changes_by_kind
from petsync.render.tab import Tab, Value, write

__all__ = ["plan_workbook", "report_workbook"]

_COLOURS = {
    "add": "E2F3E5",
    "update": "FFF1CF",
    "delete": "FBE0DD",
    "applied": "E2F3E5",
    "conflict": "F0E2F5",
    "failed": "FBE0DD",
    "unknown": "FFF1CF",
}


def plan_workbook(plan: Plan, path: Path) -> None:
    """Write the plan: a summary, the changes (a row a changed field), conflicts, blocked rows.

    The file is there whole or not at all. Raises SheetError if it cannot be written.
    """
    changes = {"Change": 10, "Id": 22, "Pet": 28, "Field": 14, "Before": 42, "After": 42}
    conflicts = {"Where": 18, "Id": 22, "Problem": 70, "Suggestion": 50}
    write(
        path,
        [
            Tab("Summary", {"What": 18, "Value": 90}, _plan_facts(plan)),
            Tab("Changes", {**changes, "Where": 18}, _change_rows(plan), _COLOURS),
            Tab("Conflicts", conflicts, _conflict_rows(plan)),
            Tab("Blocked", {"Row": 10, "Where": 18, "Problem": 110}, _blocked_rows(plan)),
        ],
    )


def report_workbook(report: Report, path: Path) -> None:
    """Write the report: a summary, and a row for each change, conflict and blocked row.

    The file is there whole or not at all. Raises SheetError if it cannot be written.
    """
    results = {"Outcome": 10, "Change": 10, "Id": 22, "New id": 22, "Pet": 28, "Fields": 24}
    write(
        path,
        [
            Tab("Summary", {"What": 18, "Value": 90}, _report_facts(report)),
            Tab(
                "Results",
                {**results, "Where": 18, "What happened": 70},
                _result_rows(report),
                _COLOURS,
            ),
        ],
    )


def _plan_facts(plan: Plan) -> Iterator[Sequence[Value]]:
    counts = {kind: listing.total for kind, listing in changes_by_kind(plan, 0).items()}
    yield "summary", words.plan_summary(plan, counts)
    yield from words.plan_facts(plan)
    for kind in words.KINDS:
        yield f"to {words.HEADING[kind].lower()}", counts[kind]
    yield "conflicts", len(plan.conflicts)
    yield "blocked", len(plan.blocked)
    yield "in agreement", plan.unchanged
    yield "ignored", plan.ignored
    yield "guard", words.KEPT if plan.verdict.ok else words.REFUSED
    yield from (("", str(refusal)) for refusal in plan.verdict.refusals)
    yield from (("note", note) for note in plan.notes)
    yield "fingerprint", plan.fingerprint


def _change_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    for change in plan.changes:
        pet = words.pet_of(change)
        head = (change.kind, _id(change.pet_id), pet.name or "")
        for field, before, after in _fields(change):
            yield *head, field, before, after, words.source_of(change)


def _fields(change: Change) -> Iterator[tuple[str, str, str]]:
    if isinstance(change, Delete):
        yield "(the pet)", traits(change.before), ""
        return
    for column in change.fields:
        yield column, cell(change.before, column), cell(change.after, column)


def _conflict_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    for conflict in plan.conflicts:
        yield conflict.source, _id(conflict.pet_id), conflict.problem, conflict.suggestion


def _blocked_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    return ((row.row, row.source, row.problem) for row in plan.blocked)


def _report_facts(report: Report) -> Iterator[Sequence[Value]]:
    counts = report.counts
    yield "summary", words.report_summary(report)
    yield "run", report.run_id
    yield from words.report_facts(report)
    yield from ((outcome, counts[outcome]) for outcome in OUTCOMES)
    yield "total", sum(counts.values())
    yield from (("stopped", line) for line in report.stopped.splitlines())


def _result_rows(report: Report) -> Iterator[Sequence[Value]]:
    for result in report.results:
        yield (
            result.outcome,
            "" if result.kind == "none" else result.kind,
            _id(result.pet_id),
            _id(result.assigned_id),
            _name(result, report.plan),
            ", ".join(result.fields),
            result.source,
            result.message,
        )


def _name(result: Result, plan: Plan) -> str:
    """The pet's name; a result's number is its change's place in the plan."""
    if result.kind == "none" or result.number >= len(plan.changes):
        return ""
    return words.pet_of(plan.changes[result.number]).name or ""


def _id(number: int | None) -> str:
    """An id as text: a spreadsheet's numbers are exact to 15 digits only."""
    return "" if number is None else str(number)
