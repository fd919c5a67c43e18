"""The run on the copy: with faults if they are asked for, and the second plan after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import msgspec

from petsync.apply.engine import Progress
from petsync.diff.guard import Guard, Limit, Verdict
from petsync.diff.plan import Plan
from petsync.diff.rehearsal import Broken
from petsync.diff.report import Report
from petsync.diff.snapshot import Snapshot, Unanswered
from petsync.errors import InterruptedRunError
from petsync.sandbox import Sandbox
from petsync.sandbox.faults import Faults, parse
from petsync.store import Store
from petsync.table.sheet import Sheet

__all__ = ["Breakage", "applied", "breakage", "planned_again"]

_ANY = Limit(1e12, is_share=False)
_NO_LIMITS = Guard(max_delete=_ANY, max_update=_ANY, allow_empty=True)
_KINDS = {"too_many": "429", "unavailable": "503"}


@dataclass(frozen=True, slots=True)
class Breakage:
    """Faults as they were asked for, and as they were read."""

    text: str
    faults: Faults

    def count(self, requests: Mapping[str, int]) -> Broken:
        """What became of so many requests, by operation: which of them are hit is settled."""
        total = sum(requests[name] for name in self.faults.only if name in requests)
        most = total if self.faults.first is None else min(total, self.faults.first)
        kinds = Counter(self.faults.hit(number).kind for number in range(1, most + 1))
        hits = {_KINDS.get(kind, kind): kinds[kind] for kind in kinds if kind is not None}
        return Broken(faults=self.text, requests=total, hits=dict(sorted(hits.items())))


def breakage(faults: str, seed: int | None) -> Breakage | None:
    """The faults, None where there are none. Raises SettingsError for what cannot be read."""
    if not faults.strip():
        return None
    text = faults if seed is None else f"{faults},seed={seed}"
    return Breakage(text, parse(text))


def applied(
    box: Sandbox,
    copy: Store,
    plan: Plan,
    *,
    breakage: Breakage | None,
    concurrency: int,
    on_progress: Callable[[Progress], None] | None,
) -> tuple[Report, Broken | None]:
    """The report of the plan's run on the copy, and what the faults did to it."""
    seen = box.requests
    box.break_with(None if breakage is None else breakage.text)
    try:
        report = copy.apply(
            _of_copy(plan, copy.url), concurrency=concurrency, on_progress=on_progress
        )
    except InterruptedRunError as error:
        report = _ended_early(error)
    finally:
        box.break_with(None)
    return report, None if breakage is None else breakage.count(box.requests - seen)


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
