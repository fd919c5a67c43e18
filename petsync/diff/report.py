"""Report: what became of every row of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
import pandas as pd

from petsync._show import as_html, as_text
from petsync.diff.change import Change
from petsync.diff.plan import Plan
from petsync.errors import InterruptedRunError
from petsync.table.columns import Column

__all__ = ["OUTCOMES", "Cause", "Outcome", "Report", "Result", "result_of", "without_request"]

Outcome = Literal["applied", "skipped", "conflict", "failed", "unknown"]
OUTCOMES: tuple[Outcome, ...] = ("applied", "skipped", "conflict", "failed", "unknown")
_WORST: tuple[Outcome, ...] = ("skipped", "applied", "conflict", "unknown", "failed")
"""`unknown`: no answer came, and asking the store did not settle whether it happened."""

Cause = Literal[
    "",
    "confirmed",
    "another-id",
    "already-so",
    "already-gone",
    "not-begun",
    "held-back",
    "changed-since",
    "gone",
    "came-meanwhile",
    "superseded",
    "undone",
    "from-plan",
    "not-looked-up",
    "refused",
    "no-permission",
    "too-many",
    "service-error",
    "no-answer",
    "bad-answer",
    "not-as-sent",
    "unverified",
    "same-id",
    "overwrote",
    "unsafe-id",
    "blocked",
    "cut-off",
    "unexpected",
]
"""Why a result is what it is, as a stable code: docs/reliability.md says what each means."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one change, conflict or blocked row. `number` is its place in the plan."""

    number: int
    kind: Literal["add", "update", "delete", "none"]
    row: int | None
    source: str
    pet_id: int | None
    outcome: Outcome
    message: str = ""
    assigned_id: int | None = None
    """The id that the service gave a new pet."""
    fields: tuple[Column, ...] = ()
    cause: Cause = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run's results in the plan's order, and its totals.

    Rows in the sheet plus missing pets = applied + skipped + conflict + failed + unknown.
    `stopped` says why a run ended early, "" if it did not; times are ISO 8601 in UTC.
    """

    run_id: str
    plan: Plan
    started: str
    seconds: float
    results: tuple[Result, ...]
    stopped: str = ""

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many rows had each outcome; rows that agreed, were ignored or were left out of the
        plan are `skipped`. A row with several results counts once, by the worst.
        """
        counts = Counter(result.outcome for result in self.results if result.row is None)
        counts.update(result.outcome for result in self.by_row().values())
        counts["skipped"] += self.plan.unchanged + self.plan.ignored + self.plan.left_out
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    def by_row(self) -> dict[int, Result]:
        """One result for each row that has any: of several the worst, with all their messages."""
        rows: dict[int, Result] = {}
        for result in self.results:
            if result.row is not None:
                known = rows.get(result.row)
                rows[result.row] = result if known is None else _joined(known, result)
        return rows

    @property
    def exit_code(self) -> int:
        """0 done, 3 some rows failed, 5 conflicts, 7 stopped early."""
        counts = self.counts
        if self.stopped:
            return InterruptedRunError.exit_code
        if counts["failed"] or counts["unknown"]:
            return 3
        return 5 if counts["conflict"] else 0

    def to_frame(self) -> pd.DataFrame:
        """The results: row, source, kind, id, outcome, message, assigned_id; one a result."""
        names = ["row", "source", "kind", "id", "outcome", "message", "assigned_id"]
        rows = [
            [r.row, r.source, r.kind, r.pet_id, r.outcome, r.message, r.assigned_id]
            for r in self.results
        ]
        integers = dict.fromkeys(("row", "id", "assigned_id"), "Int64")
        # As objects first: beside a missing one, pandas would round an id to a float.
        frame = pd.DataFrame(rows, columns=names, dtype=object)
        return frame.astype(integers).infer_objects()

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def result_of(
    number: int,
    change: Change,
    outcome: Outcome,
    cause: Cause,
    message: str,
    assigned_id: int | None = None,
) -> Result:
    """The result of a change."""
    return Result(
        number=number,
        kind=change.kind,
        row=change.row,
        source=change.source,
        pet_id=change.pet_id,
        outcome=outcome,
        message=message,
        assigned_id=assigned_id,
        fields=change.fields,
        cause=cause,
    )


def without_request(plan: Plan) -> Iterator[Result]:
    """Results for the rows that were no change: conflicts, rows whose pets could not be looked up,
    and rows that errors block.
    """
    number = len(plan.changes)
    for conflict in plan.open_conflicts:
        yield Result(
            number=number,
            kind="none",
            row=conflict.row,
            source=conflict.source,
            pet_id=conflict.pet_id,
            outcome="failed" if conflict.is_unanswered else "conflict",
            cause="not-looked-up" if conflict.is_unanswered else "from-plan",
            message=f"{conflict.subject} {conflict.problem}. {conflict.suggestion}",
        )
        number += 1
    for blocked in plan.blocked:
        yield Result(
            number=number,
            kind="none",
            row=blocked.row,
            source=blocked.source,
            pet_id=blocked.pet_id,
            outcome="failed",
            cause="blocked",
            message=blocked.problem,
        )
        number += 1


def _joined(one: Result, other: Result) -> Result:
    worse = max(one, other, key=lambda result: _WORST.index(result.outcome))
    told = [_told(result) for result in (one, other)]
    return msgspec.structs.replace(
        worse,
        message=". ".join(text.rstrip(".") for text in told if text),
        assigned_id=one.assigned_id if one.assigned_id is not None else other.assigned_id,
    )


def _told(result: Result) -> str:
    if result.outcome != "applied":
        return result.message
    return "; ".join(filter(None, (f"applied: {', '.join(result.fields)}", result.message)))
