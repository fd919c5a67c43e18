"""What earlier sittings of a run left behind: what is done, and what was begun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from petsync.apply.settle import is_unassigned
from petsync.diff.change import Change
from petsync.diff.history import Entry, Past
from petsync.diff.plan import Plan
from petsync.diff.report import Result, result_of

__all__ = [
    "CUT",
    "FRESH",
    "Earlier",
    "earlier",
    "has_more",
    "has_unknown",
    "result_in",
    "superseded",
    "undone",
]

CUT = "under way when the run was stopped; `petsync resume` finds out what became of it"
_DONE = frozenset({"already-so", "already-gone", "undone"})
_READ_AGAIN = frozenset({"not-as-sent", "unverified"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """`results` are final, `left` those of changes that are to be tried again. `open` are the
    changes that were begun and have no final result, and `lost` those of them that add a pet
    without an id, and of which nobody knows whether they did. `shared` are adds whose assigned id
    another add was assigned too, and `unverified` changes that the service took and that could not
    be read back as they were sent, each with the pet's id. `held` are changes that are never sent
    again, each with its result where the store shows that it was not made. With `is_undone` nothing
    at all is sent. `seconds` is how long the run took so far.
    """

    results: Mapping[int, Result] = field(default_factory=dict)
    left: Mapping[int, Result] = field(default_factory=dict)
    open: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    shared: Mapping[int, int] = field(default_factory=dict)
    unverified: Mapping[int, int] = field(default_factory=dict)
    held: Mapping[int, Result] = field(default_factory=dict)
    is_undone: bool = False
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
        if entry.cause == "not-begun":
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


def has_unknown(past: Past) -> bool:
    """Whether nobody knows yet what became of some changes of a run."""
    return bool(past.open or past.counts.get("unknown"))


def undone(plan: Plan, before: Earlier, by: str) -> tuple[Earlier, list[Result]]:
    """What the resume of a run begins with that run `by` has taken back, and the results that it
    knows at once: nothing is sent, and what is unknown is found out.
    """
    why = f"not sent: run {by} took this run back"
    results = {**before.results}
    known: list[Result] = []
    held: dict[int, Result] = {}
    for number, change in enumerate(plan.changes):
        left = before.left.get(number)
        if number in results:
            continue
        over = result_of(number, change, "skipped", "undone", why)
        if left is None:
            results[number] = over
            known.append(over)
        elif left.outcome == "failed" and number not in before.unverified:
            results[number] = left
        else:
            held[number] = over
    return replace(before, results=results, held=held, is_undone=True), known


def superseded(
    plan: Plan, before: Earlier, later: str, added: Mapping[int, int]
) -> tuple[Earlier, list[Result]]:
    """What the resume of a run begins with once the run `later` of its sheet has begun, and the
    results that it knows at once: rows without an id that this run has not come to are left to the
    later one. `added` are the pets that later runs made of such rows, by the numbers of this plan's
    adds; none of them is added again.
    """
    why = f"run {later} of the same sheet has begun since: resume that one, or plan again"
    known: list[Result] = []
    held: dict[int, Result] = {}
    unclear = before.lost.union(before.shared, before.unverified)
    for number, change in enumerate(plan.changes):
        if number in before.results or not is_unassigned(change):
            continue
        over = result_of(number, change, "conflict", "superseded", why)
        if number in added:
            pet_id = added[number]
            there = f"run {later}, or one before it, added this row as {pet_id}"
            over = result_of(number, change, "skipped", "already-so", there, pet_id)
        if number not in unclear:
            known.append(over)
        elif number in added:
            held[number] = over
    results = {**before.results, **{result.number: result for result in known}}
    return replace(before, results=results, held=held), known


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
