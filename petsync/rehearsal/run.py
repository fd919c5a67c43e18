"""The run on the copy: with faults if they are asked for, and the second plan after it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import msgspec

from petsync.diff.guard import Guard, Limit, Verdict
from petsync.diff.plan import Plan
from petsync.diff.progress import Progress
from petsync.diff.rehearsal import Broken
from petsync.diff.report import Report
from petsync.diff.snapshot import Snapshot, Unanswered
from petsync.errors import InterruptedRunError
from petsync.sandbox import Sandbox
from petsync.sandbox.faults import parse
from petsync.store import Store
from petsync.table.sheet import Sheet

__all__ = ["applied", "planned_again", "specification"]

_ANY = Limit(1e12, is_share=False)
_SETTLE = 1.0
"""The copy is on this machine: what it has not done after a second, it will not do."""
_NO_LIMITS = Guard(max_delete=_ANY, max_update=_ANY, allow_empty=True)


def specification(faults: str, seed: int | None) -> str:
    """The faults with their seed, "" for none. Raises SettingsError for what cannot be read."""
    if not faults.strip():
        return ""
    text = faults if seed is None else f"{faults},seed={seed}"
    parse(text)
    return text


def applied(
    box: Sandbox,
    copy: Store,
    plan: Plan,
    *,
    faults: str,
    concurrency: int,
    on_progress: Callable[[Progress], None] | None,
) -> tuple[Report, Broken | None]:
    """The report of the plan's run on the copy, and what the faults did to it."""
    seen = box.requests
    box.break_with(faults or None)
    try:
        report = copy.apply(
            _of_copy(plan, copy.url),
            concurrency=concurrency,
            settle=_SETTLE,
            on_progress=on_progress,
        )
    except InterruptedRunError as error:
        report = _ended_early(error)
    broken = Broken(faults=faults, requests=(box.requests - seen).total(), hits=box.broken)
    box.break_with(None)
    return report, broken if faults else None


def planned_again(
    copy: Store, plan: Plan, sheet: Sheet, now: Snapshot, unanswered: Collection[Unanswered]
) -> Plan:
    """The plan that the sheet makes against the copy; rows whose pets could not be copied stay
    out of it.
    """
    if sheet.base is not None:
        sheet = replace(sheet, base=replace(sheet.base, store=copy.url))
    options = msgspec.structs.asdict(plan.options)
    again = copy.plan(sheet, snapshot=now, guard=plan.guard, **options)
    unknown = {each.asked for each in unanswered}
    left = tuple(change for change in again.changes if str(change.pet_id) not in unknown)
    if len(left) == len(again.changes):
        return again
    return msgspec.structs.replace(again, changes=left).judged()


def _of_copy(plan: Plan, url: str) -> Plan:
    """The plan for the copy, where nothing can be lost: so no guard holds it."""
    if plan.verdict.ok:
        return msgspec.structs.replace(plan, store=url)
    return msgspec.structs.replace(plan, store=url, guard=_NO_LIMITS, verdict=Verdict())


def _ended_early(error: InterruptedRunError) -> Report:
    """The report of a run that the copy itself has ended. Raises the error if a person did."""
    if not isinstance(error.report, Report) or error.report.stopped == "interrupted":
        raise InterruptedRunError(
            "the rehearsal was interrupted", hint="Nothing was sent to the store itself."
        ) from None
    return error.report
