"""A run's report, from what its journal knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from petsync.apply.resume import result_in
from petsync.diff.history import Entry, Past
from petsync.diff.plan import Plan
from petsync.diff.report import Report, Result, result_of, without_request

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
    why = "not begun, as the run was stopped" if stopped else "not begun"
    for number, change in enumerate(plan.changes):
        entry = entries.get(number)
        if entry is None:
            yield result_of(number, change, "skipped", "not-begun", why)
        else:
            yield result_in(entry, change)
