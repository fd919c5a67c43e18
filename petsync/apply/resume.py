"""What earlier sittings of a run left behind: what is done, and what was begun."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from petsync.apply.settle import is_unassigned
from petsync.diff.change import Change
from petsync.diff.history import Entry, Past
from petsync.diff.plan import Plan
from petsync.diff.report import Result, result_of

__all__ = ["CUT", "FRESH", "Earlier", "earlier", "has_more", "result_in"]

CUT = "under way when the run was stopped; `petsync resume` finds out what became of it"
_DONE = frozenset({"already-so", "already-gone"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """`results` are final, `left` those of changes that are to be tried again. `open` are the
    changes that were begun and have no final result, and `lost` those of them that add a pet
    without an id, and of which nobody knows whether they did. `seconds` is how long the run took so
    far.
    """

    results: Mapping[int, Result] = field(default_factory=dict)
    left: Mapping[int, Result] = field(default_factory=dict)
    open: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    seconds: float = 0.0


FRESH = Earlier()
"""A run's first sitting."""


def earlier(plan: Plan, entries: Iterable[Entry], seconds: float) -> Earlier:
    """What a resumed run begins with. Final are applied, conflict, and skipped because the pet was
    so already; all else is left to be done.
    """
    results: dict[int, Result] = {}
    left: dict[int, Result] = {}
    began: set[int] = set()
    lost: set[int] = set()
    for entry in entries:
        change = plan.changes[entry.number]
        if _is_final(entry):
            results[entry.number] = result_in(entry, change)
            continue
        if entry.outcome != "skipped":
            left[entry.number] = result_in(entry, change)
        if entry.intended:
            began.add(entry.number)
            if is_unassigned(change) and entry.outcome in (None, "unknown"):
                lost.add(entry.number)
    return Earlier(
        results=results,
        left=left,
        open=frozenset(began),
        lost=frozenset(lost),
        seconds=seconds,
    )


def has_more(past: Past) -> bool:
    """Whether a run can be resumed: it ended early, or some of its changes failed."""
    trouble = past.counts.get("failed", 0) + past.counts.get("unknown", 0)
    return past.state != "done" or bool(past.open or trouble)


def _is_final(entry: Entry) -> bool:
    if entry.outcome == "skipped":
        return entry.cause in _DONE
    # What was sent and read back otherwise is in the store: sent again, it would be there twice.
    return entry.outcome in ("applied", "conflict") or entry.cause == "not-as-sent"


def result_in(entry: Entry, change: Change) -> Result:
    """What a journal's entry says of a change; one without an outcome was cut off."""
    if entry.outcome is None:
        return result_of(entry.number, change, "unknown", "cut-off", CUT)
    told = (entry.outcome, entry.cause, entry.message)
    return result_of(entry.number, change, *told, entry.assigned_id)
