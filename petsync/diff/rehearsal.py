"""Rehearsal: what a plan did to a copy of the store, beside what it had said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

import pandas as pd

from petsync._show import as_html, as_text
from petsync.diff.change import Add, Change
from petsync.diff.plan import Plan
from petsync.diff.report import Report, Result
from petsync.errors import ConflictError, GuardError

__all__ = ["Broken", "Left", "Rehearsal", "Why"]

_PENDING, _SOME_FAILED = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The faults that were asked for, how many requests the run took, and how many of them each
    fault has hit (`429`, `drop_after`, …).
    """

    faults: str
    requests: int
    hits: Mapping[str, int] = field(default_factory=dict)


Why = Literal["not-applied", "left-out", "new", "not-settled"]


class Left(NamedTuple):
    """A change that a second plan would still send, and why: it was `not-applied`, and what was
    said of that; it was `left-out` of the plan; it is `new`, and was none before; or it was applied
    and is `not-settled` by that.
    """

    change: Change
    why: Why
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rehearsal:
    """What applying a plan to a copy of the store has come to. Nothing happened to the store.

    `plan` is the plan as it is for the store; `report` tells of the run on the copy, and its plan
    names the copy's address. `before` and `after` are all pets of the copy, in the canonical
    columns, sorted by id; ids that the copy gave new pets may be others in the store.
    `unexpected`: where the copy is not what the plan said, one row a pet's column: id, name,
    source, kind, column, expected, found, outcome, why; empty where all is well.
    `again` is a second plan from the same sheet, against the copy as the run left it, and
    `why_not_again` why there is none. `taken_at` is when the store was read; `notes` are what a
    person should know of what was tried, and of what a copy cannot show.
    """

    plan: Plan
    report: Report
    before: pd.DataFrame
    after: pd.DataFrame
    unexpected: pd.DataFrame
    again: Plan | None
    why_not_again: str = ""
    taken_at: datetime
    profile: str
    broken: Broken | None = None
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all went as planned, and nothing would be left to send or to decide."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """What `petsync rehearse` exits with: 0 it would end in sync, 2 a second plan would still
        send changes, 3 rows failed or are not as the plan said, 4 the guard refuses the plan,
        5 conflicts, 7 the run would stop early.
        """
        if not self.plan.verdict.ok:
            return GuardError.exit_code
        if not self.stopped and self.unexpected["outcome"].isin(["applied", ""]).any():
            return _SOME_FAILED
        if self.report.exit_code:
            return self.report.exit_code
        if self.again is not None and self.again.open_conflicts:
            return ConflictError.exit_code
        return _PENDING if self.again is not None and self.again.changes else 0

    @property
    def stopped(self) -> bool:
        """Whether the run ended early."""
        return bool(self.report.stopped)

    def by_status(self) -> pd.DataFrame:
        """How many pets had each status before, came, went and have it after.

        Columns before, added, deleted, moved_in, moved_out, after (int64), indexed by status, ""
        for pets without one: before + added - deleted + moved_in - moved_out = after.
        """
        both = pd.DataFrame({"old": _statuses(self.before), "new": _statuses(self.after)})
        old, new = both["old"], both["new"]
        moved = both[old.notna() & new.notna() & (old != new)]
        counts = {
            "before": old.value_counts(),
            "added": new[old.isna()].value_counts(),
            "deleted": old[new.isna()].value_counts(),
            "moved_in": moved["new"].value_counts(),
            "moved_out": moved["old"].value_counts(),
            "after": new.value_counts(),
        }
        table = pd.DataFrame(counts).fillna(0).astype("int64").rename_axis("status")
        return table.sort_values(["after", "before"], ascending=False, kind="stable")

    def assigned(self) -> list[tuple[Add, int]]:
        """The adds to which the copy gave an id, and that id, in the plan's order."""
        changes = self.report.plan.changes
        return [
            (change, result.assigned_id)
            for result in self.report.results
            if result.assigned_id is not None and isinstance(change := changes[result.number], Add)
        ]

    def left(self) -> list[Left]:
        """What the second plan would still send, and why, in its order."""
        if self.again is None:
            return []
        changes = self.report.plan.changes
        first = {_place(changes[r.number]): r for r in self.report.results[: len(changes)]}
        return [self._left(change, first.get(_place(change))) for change in self.again.changes]

    def _left(self, change: Change, result: Result | None) -> Left:
        if result is None:
            return Left(change, "left-out" if self.plan.left_out else "new")
        if result.outcome != "applied":
            return Left(change, "not-applied", result.message or result.outcome)
        return Left(change, "not-settled")

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _place(change: Change) -> tuple[int | None, int | None]:
    return change.row, change.pet_id


def _statuses(pets: pd.DataFrame) -> pd.Series[str]:
    return pets.set_index("id")["status"].fillna("")
