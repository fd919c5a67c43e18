"""What earlier sittings of a run left behind: what is done, and what was begun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from petsync.apply.settle import is_unassigned
from petsync.diff.change import Change
from petsync.diff.history import Entry, Past
from petsync.diff.plan import Plan
from petsync.diff.report import Result, result_of

__all__ = ["CUT", "FRESH", "Earlier", "earlier", "has_more", "result_in"]

CUT = "under way when the run was stopped; `petsync resume` finds out what became of it"
_DONE = frozenset({"already-so", "already-gone"})
_READ_AGAIN = frozenset({"not-as-sent", "unverified"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """`results` are final, `left` those of changes that are to be tried again. `open` are the
    changes that were begun and have no final result, and `lost` those of them that add a pet
    without an id, and of which nobody knows whether they did. `shared` are adds whose assigned id
    another add was assigned too, and `unverified` changes that the service took and that could not
    be read back as they were sent, each with the pet's id. `seconds` is how long the run took so
    far.
    """

    results: Mapping[int, Result] = field(default_factory=dict)
    left: Mapping[int, Result] = field(default_factory=dict)
    open: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    shared: Mapping[int, int] = field(default_factory=dict)
    unverified: Mapping[int, int] = field(default_factory=dict)
    seconds: float = 0.0


FRESH = Earlier()
"""A run's first sitting."""


def earlier(plan: Plan, entries: Iterable[Entry], seconds: float) -> Earlier:
    """What a resumed run begins with. Final are applied, conflict, and skipped because the pet was
    so already; all else is left to be done.
    """
    entries = list(entries)
    twice = _assigned_twice(entries)
    shared: dict[int, int] = {}
    unverified: dict[int, int] = {}
    results: dict[int, Result] = {}
    left: dict[int, Result] = {}
    began: set[int] = set()
    lost: set[int] = set()
    for entry in entries:
        change = plan.changes[entry.number]
        if is_unassigned(change) and entry.assigned_id in twice and entry.cause != "overwrote":
            shared[entry.number] = entry.assigned_id or 0
            told = result_in(entry, change)
            left[entry.number] = msgspec.structs.replace(told, outcome="unknown", cause="same-id")
            continue
        if _is_final(entry):
            results[entry.number] = result_in(entry, change)
            continue
        if entry.outcome != "skipped":
            left[entry.number] = result_in(entry, change)
        if entry.intended:
            began.add(entry.number)
            pet_id = entry.pet_id if entry.assigned_id is None else entry.assigned_id
            if entry.cause in _READ_AGAIN and pet_id is not None:
                unverified[entry.number] = pet_id
            elif is_unassigned(change) and entry.outcome in (None, "unknown"):
                lost.add(entry.number)
    return Earlier(
        results=results,
        left=left,
        open=frozenset(began),
        lost=frozenset(lost),
        shared=shared,
        unverified=unverified,
        seconds=seconds,
    )


def has_more(past: Past) -> bool:
    """Whether a run can be resumed: it ended early, or some of its changes failed."""
    trouble = past.counts.get("failed", 0) + past.counts.get("unknown", 0)
    return past.state != "done" or bool(past.open or trouble)


def _is_final(entry: Entry) -> bool:
    if entry.outcome == "skipped":
        return entry.cause in _DONE
    # A pet that took another's place is in the store: sent again, it would be there twice.
    return entry.outcome in ("applied", "conflict") or entry.cause == "overwrote"


def _assigned_twice(entries: Iterable[Entry]) -> frozenset[int]:
    """The ids of which two adds say that the service assigned it to them, or that one says so."""
    given = [e for e in entries if e.pet_id is None and e.assigned_id is not None]
    counts = Counter(entry.assigned_id for entry in given)
    told = {entry.assigned_id for entry in given if entry.cause == "same-id"}
    return frozenset(i for i, count in counts.items() if i is not None and (count > 1 or i in told))


def result_in(entry: Entry, change: Change) -> Result:
    """What a journal's entry says of a change; one without an outcome was cut off."""
    if entry.outcome is None:
        return result_of(entry.number, change, "unknown", "cut-off", CUT)
    told = (entry.outcome, entry.cause, entry.message)
    return result_of(entry.number, change, *told, entry.assigned_id)
