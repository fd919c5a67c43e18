"""A run's report, from what its journal knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from petsync.diff.change import Change
from petsync.diff.history import Entry, Past
from petsync.diff.plan import Plan
from petsync.diff.report import Cause, Outcome, Report, Result, without_request

__all__ = ["recounted"]

_WHY = {"running": "it is still at work", "killed": "the process was killed"}


def recounted(past: Past, plan: Plan, entries: Iterable[Entry]) -> Report:
    """The report of a run so far: changes without an entry are not begun, and those that were
    begun and have no outcome are unknown.
    """
    by_number = {entry.number: entry for entry in entries}
    stopped = _WHY.get(past.stopped or past.state, past.stopped)
    return Report(
        run_id=past.run_id,
        plan=plan,
        started=past.started,
        seconds=past.seconds,
        results=(*_results(plan, by_number, stopped), *without_request(plan)),
        stopped=stopped,
    )


def _results(plan: Plan, entries: dict[int, Entry], stopped: str) -> Iterator[Result]:
    why = f"not begun: {stopped.splitlines()[0]}" if stopped else "not begun"
    for number, change in enumerate(plan.changes):
        entry = entries.get(number)
        if entry is None:
            yield _result(number, change, None, "skipped", "not-begun", why)
        elif entry.outcome is None:
            cut = "cut off before its outcome was known"
            yield _result(number, change, entry, "unknown", "cut-off", cut)
        else:
            yield _result(number, change, entry, entry.outcome, entry.cause, entry.message)


def _result(
    number: int,
    change: Change,
    entry: Entry | None,
    outcome: Outcome,
    cause: Cause,
    message: str,
) -> Result:
    return Result(
        number=number,
        kind=change.kind,
        row=change.row,
        source=change.source,
        pet_id=change.pet_id,
        outcome=outcome,
        message=message,
        assigned_id=None if entry is None else entry.assigned_id,
        fields=change.fields,
        cause=cause,
    )
