"""Plans and reports as Excel workbooks: to filter, to sort, to print, to hand on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Literal

from petsync.diff.change import Change, Clash, Conflict, Delete
from petsync.diff.plan import Plan
from petsync.diff.report import OUTCOMES, Report, Result
from petsync.render import words
from petsync.render.causes import KNOWN, NOTHING
from petsync.render.causes import told as told_of
from petsync.render.contrast import compared, contrast
from petsync.render.detail import traits
from petsync.render.digest import RANK, results_by_cause
from petsync.render.marked import Piece
from petsync.render.summary_lines import summary_rows
from petsync.render.tab import Marked, Tab, Value, write
from petsync.render.visible import EMPTY

__all__ = ["plan_workbook", "report_workbook"]

_RED, _GREEN, _AMBER = "FBE3E1", "E6F4E8", "FFF4D9"
_COLOURS = {
    "add": _GREEN,
    "update": _AMBER,
    "delete": _RED,
    "applied": _GREEN,
    "conflict": "F3E8F7",
    "failed": _RED,
    "unknown": _AMBER,
}
_REFUSED, _KEPT, _UNANSWERED = "guard refuses", "guard", "no answer"
_FACT_COLOURS = {_REFUSED: _RED, _KEPT: _GREEN, _UNANSWERED: _RED}
_NONE = Marked([(EMPTY, True)], "none")
_FACTS = {"What": 16, "Number": 10, "Said": 100}


def plan_workbook(plan: Plan, path: Path) -> None:
    """Write the plan: a summary, the changes (a row a changed field), conflicts (a row a field that
    both changed), blocked rows, notes.

    The file is there whole or not at all. Raises SheetError if it cannot be written.
    """
    changes = {"Change": 9, "Id": 21, "Pet": 26, "Field": 12, "Before": 42, "After": 42}
    sides = {"Exported": 24, "Sheet": 24, "Store": 24, "Who wins": 11}
    said = {"Problem": 40, "What to do": 32}
    conflicts = {"Where": 13, "Id": 21, "Pet": 20, "Field": 11, **sides, **said}
    blocked = {"Row": 10, "Where": 18, "Id": 21, "Pet": 26}
    write(
        path,
        [
            Tab("Summary", _FACTS, _plan_facts(plan), _FACT_COLOURS),
            Tab("Changes", {**changes, "Where": 16}, _change_rows(plan), _COLOURS, "ABCG"),
            Tab("Conflicts", conflicts, _conflict_rows(plan), repeats="ABC"),
            Tab("Blocked", {**blocked, "Problem": 90}, _blocked_rows(plan)),
            Tab("Notes", {"Note": 120}, ([note] for note in plan.notes)),
        ],
        like=plan.source,
    )


def report_workbook(report: Report, path: Path) -> None:
    """Write the report: a summary with the causes, and a row for each change, conflict and blocked
    row, those first that need a person.

    The file is there whole or not at all. Raises SheetError if it cannot be written.
    """
    id_ = _width(result.pet_id for result in report.results)
    new = _width(result.assigned_id for result in report.results)
    pet = {"Change": 9, "Id": id_, "New id": new, "Pet": 22, "Fields": 18, "Where": 15}
    said = {"What happened": 52, "What to do": 48}
    write(
        path,
        [
            Tab("Summary", _FACTS, _report_facts(report), _COLOURS),
            Tab(
                "Results",
                {"Outcome": 10, "Cause": 16, **pet, **said},
                _result_rows(report),
                _COLOURS,
            ),
        ],
        like=report.plan.source,
    )


def _plan_facts(plan: Plan) -> Iterator[Sequence[Value]]:
    summary = plan.summary()
    counts = {"add": summary.adds, "update": summary.updates, "delete": summary.deletes}
    yield "summary", "", words.plan_summary(plan, counts)
    yield from _verdict(plan)
    for problem, then in words.unanswered(plan):
        yield _UNANSWERED, "", words.sentences(problem, then)
    yield from ((name, "", said) for name, said in words.plan_facts(plan))
    yield from ((name, "", said) for name, said in words.scope_facts(plan))
    yield "who wins", "", words.who_wins(plan)
    yield from summary_rows(summary)
    yield "fingerprint", "", plan.fingerprint


def _verdict(plan: Plan) -> Iterator[Sequence[Value]]:
    if plan.verdict.ok:
        yield _KEPT, "", words.KEPT
    for refusal in plan.verdict.refusals:
        yield _REFUSED, "", words.sentences(refusal.problem, words.way_out(refusal))


def _change_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    for change in plan.changes:
        pet = words.pet_of(change)
        head = (change.kind, _id(change.pet_id), pet.name or "")
        for field, before, after in _fields(change):
            yield *head, field, before, after, words.source_of(change)


def _fields(change: Change) -> Iterator[tuple[str, Value, Value]]:
    if isinstance(change, Delete):
        yield "(the pet)", traits(change.before), ""
        return
    for column in change.fields:
        before, after = contrast(change.before, change.after, column)
        if change.before is None:
            yield column, "", Marked(after, "come")
        else:
            yield column, _held(before, "gone"), _held(after, "come")


def _conflict_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    for conflict in plan.conflicts:
        head = (conflict.source, _id(conflict.pet_id), conflict.name)
        problem = words.sentences(f"{conflict.subject} {conflict.problem}")
        said = (problem[:1].upper() + problem[1:], conflict.suggestion)
        for clash in conflict.clashes:
            yield *head, clash.column, *_sides(clash), conflict.winner, *said
        if not conflict.clashes:
            yield *head, "", "", "", "", _winner(conflict), *said


def _winner(conflict: Conflict) -> str:
    return conflict.winner or "nobody yet"


def _sides(clash: Clash) -> tuple[Value, Value, Value]:
    """What was exported, and sheet and store with what they have that it had not."""
    sheet, store = (compared(clash.base, text)[1] for text in (clash.sheet, clash.store))
    return clash.base or _NONE, _held(sheet, "come"), _held(store, "come")


def _held(pieces: Sequence[Piece], how: Literal["gone", "come"]) -> Marked:
    """The value, or that there is none."""
    return Marked(pieces, how) if any(text for text, _ in pieces) else _NONE


def _blocked_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    return ((row.row, row.source, _id(row.pet_id), row.name, row.problem) for row in plan.blocked)


def _report_facts(report: Report) -> Iterator[Sequence[Value]]:
    counts = report.counts
    yield "summary", "", words.report_summary(report)
    yield "run", "", report.run_id
    yield from ((name, "", said) for name, said in words.report_facts(report))
    yield from (("stopped", "", line) for line in report.stopped.splitlines())
    if back := words.way_back(report):
        yield "undo", "", back
    yield from (("rows", counts[outcome], outcome) for outcome in OUTCOMES)
    yield "rows", sum(counts.values()), "in all"
    for group in results_by_cause(report, 0):
        if not group.is_plain:
            why = f"{group.told.title[:1].upper()}{group.told.title[1:]}"
            said = words.sentences(why, group.told.meaning, group.told.cure)
            yield group.outcome, group.listing.total, said


def _result_rows(report: Report) -> Iterator[Sequence[Value]]:
    names = words.named_in(report.plan)
    told = cache(partial(told_of, run_id=report.run_id, undoes=report.plan.undoes))
    for result in sorted(report.results, key=_rank):
        cure = told(result.outcome, result.cause).cure
        yield (
            result.outcome,
            result.cause,
            "" if result.kind == "none" else result.kind,
            _id(result.pet_id),
            _id(result.assigned_id),
            names[result.number] if result.number < len(names) else "",
            "" if result.kind == "add" else ", ".join(result.fields),
            result.source,
            result.message,
            "" if cure == NOTHING else cure,
        )


def _rank(result: Result) -> tuple[int, bool, str]:
    """What needs a person comes first, and what the plan showed already last of its outcome."""
    return RANK.index(result.outcome), result.cause in KNOWN, result.cause


def _width(ids: Iterable[int | None]) -> int:
    """So many characters a column of these ids takes."""
    return max(map(len, map(_id, ids)), default=0) + 8


def _id(number: int | None) -> str:
    """An id as text: a spreadsheet's numbers are exact to 15 digits only, and an export's ids are
    text as well, so that looking one up finds it.
    """
    return "" if number is None else str(number)
