"""Rehearsal: the effects of a plan on a copy of the store, and the unexpected ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec
import pandas as pd

from petsync._display import as_html, as_text
from petsync.errors import GuardError
from petsync.models import Pet
from petsync.plan.change import Add, Change, Delete
from petsync.plan.fields import cell, differing_columns, update_fields
from petsync.plan.plan import Plan
from petsync.plan.report import Report, Result
from petsync.table.dtypes import typed_frame

__all__ = ["FaultCounts", "LeftoverChange", "Rehearsal", "Why", "find_unexpected"]


# Rehearsal: the effects of a plan on a copy of the store, compared with the plan.


_PENDING, _SOME_FAILED, _CONFLICTS = 2, 3, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCounts:
    """The faults injected in a rehearsal, and the numbers of requests that they hit."""

    faults: str
    """The requested faults."""
    requests: int
    """The number of requests of the run."""
    hits: Mapping[str, int] = field(default_factory=dict)
    """The number of requests that each fault hit (`429`, `drop_after`, …)."""


Why = Literal["not-applied", "left-out", "new", "not-settled"]


class LeftoverChange(NamedTuple):
    """A change that a second plan would still send."""

    change: Change
    """The change."""
    why: Why
    """`not-applied`: the run did not apply it.

    `left-out`: the first plan did not have it, changes were left out of that plan, and its pet is
    as before the run. `new`: the first plan did not have it, for another reason. `not-settled`: the
    run applied it, but it is still needed.
    """
    message: str = ""
    """The message on a change that was not applied."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rehearsal:
    """The result of applying a plan to a copy of the store. The store itself is unchanged."""

    plan: Plan
    """The plan for the store."""
    report: Report
    """The report of the run on the copy. Its plan has the copy's address."""
    before: pd.DataFrame
    """All pets of the copy before the run, in the canonical columns, sorted by id."""
    after: pd.DataFrame
    """All pets of the copy after the run, in the same form. The store may assign other ids to new
    pets.
    """
    unexpected: pd.DataFrame
    """The differences between the copy and the plan, one row for each differing column of a pet;
    empty if there are none.

    Its columns are id, name, source, kind, column, expected, found, outcome and why.
    """
    again: Plan | None
    """A second plan from the same sheet for the copy after the run, None if there is none."""
    why_not_again: str = ""
    """The reason why there is no second plan."""
    taken_at: datetime
    """The time when the store was read."""
    profile: str
    """The name of the service's profile."""
    broken: FaultCounts | None = None
    """The injected faults and how often each occurred; None if no faults were requested."""
    notes: tuple[str, ...] = ()
    """The notes for the user on the rehearsal, and on what a copy cannot show."""

    @property
    def ok(self) -> bool:
        """True if everything went as planned, and nothing remains to send or to decide."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code of `petsync rehearse`.

        0: in sync at the end; 2: a second plan still has changes; 3: rows failed or are blocked, or
        a pet differs from the plan; 4: the guard refuses the plan; 5: conflicts; 7: the run stopped
        early.
        """
        if not self.plan.verdict.ok:
            return GuardError.exit_code
        if not self.stopped and self.unexpected["outcome"].isin(["applied", ""]).any():
            return _SOME_FAILED
        if self.report.exit_code:
            return self.report.exit_code
        if self.again is not None and self.again.open_conflicts:
            return _CONFLICTS
        return _PENDING if self.again is not None and self.again.changes else 0

    @property
    def stopped(self) -> bool:
        """True if the run ended early."""
        return bool(self.report.stopped)

    def by_status(self) -> pd.DataFrame:
        """Return the numbers of pets by status, before and after the run.

        The columns are before, added, deleted, moved_in, moved_out and after (int64). The index is
        the status, "" for pets without one. before + added - deleted + moved_in - moved_out =
        after.
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

    def assigned_ids(self) -> list[tuple[Add, int]]:
        """Return the adds to which the copy assigned an id, with that id, in the plan's order."""
        changes = self.report.plan.changes
        return [
            (change, result.assigned_id)
            for result in self.report.results
            if result.assigned_id is not None and isinstance(change := changes[result.number], Add)
        ]

    def remaining_changes(self) -> list[LeftoverChange]:
        """Return the changes that the second plan would still send, with the reasons, in that
        plan's order.
        """
        if self.again is None:
            return []
        changes = self.report.plan.changes
        first = {_place(changes[r.number]): r for r in self.report.results[: len(changes)]}
        return [
            self._explain_left(change, first.get(_place(change))) for change in self.again.changes
        ]

    def _explain_left(self, change: Change, result: Result | None) -> LeftoverChange:
        if result is None:
            return LeftoverChange(change, "left-out" if self._may_be_left_out(change) else "new")
        if result.outcome != "applied":
            return LeftoverChange(change, "not-applied", result.message or result.outcome)
        return LeftoverChange(change, "not-settled")

    def _may_be_left_out(self, change: Change) -> bool:
        """Return true if changes were left out of the plan, and the change's pet is as before."""
        pet_id = self.plan.recognised.get(change.row or 0, change.pet_id)
        return bool(self.plan.left_out) and pet_id not in {*self.unexpected["id"]}

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _place(change: Change) -> tuple[int | None, int | None]:
    return change.row, change.pet_id


def _statuses(pets: pd.DataFrame) -> pd.Series[str]:
    return pets.set_index("id")["status"].fillna("")


# Unexpected results: pets whose state after a run is not the planned one.


Pets = Mapping[int, Pet]
_NAMES = ["id", "name", "source", "kind", "column", "expected", "found", "outcome", "why"]
_IN_THE_STORE, _NOT_THERE = "in the store", "not there"
_UNPLANNED = "the plan does not name it"
_UNKNOWN_FIELDS = "(unknown fields)"


class _MismatchRow(NamedTuple):
    id: int | None
    name: str
    source: str
    kind: str
    column: str
    expected: str
    found: str
    outcome: str
    why: str


def find_unexpected(report: Report, before: Pets, after: Pets) -> pd.DataFrame:
    """Return the differences between `after` and the plan's result for `before`, one row per
    column.

    The columns are id, name, source, kind, column, expected, found, outcome and why. Pets that the
    plan does not name must be unchanged; their `outcome` is "".
    """
    changes = report.plan.changes
    touched: set[int] = set()
    rows: list[_MismatchRow] = []
    for result in report.results[: len(changes)]:
        change = changes[result.number]
        pet_id = change.pet_id if result.assigned_id is None else result.assigned_id
        if pet_id is not None:
            touched.add(pet_id)
        current = None if pet_id is None else after.get(pet_id)
        rows += _of_change(
            change, result, pet_id, _build_wanted_pet(change, pet_id, before), current
        )
    rows += _of_others(before, after, touched)
    return typed_frame(rows, _NAMES)


def _build_wanted_pet(change: Change, pet_id: int | None, before: Pets) -> Pet | None:
    if isinstance(change, Delete):
        return None
    if isinstance(change, Add):
        return msgspec.structs.replace(change.after, id=pet_id)
    # Other users' changes in other fields stay.
    current = before.get(change.before.id or 0, change.before)
    return update_fields(current, change.before, change.after, change.fields)


def _of_change(
    change: Change, result: Result, pet_id: int | None, wanted: Pet | None, current: Pet | None
) -> Iterator[_MismatchRow]:
    pet = change.after or change.before
    for column, expected, found in _iter_differences(wanted, current):
        name = (pet.name or "") if pet else ""
        about = pet_id, name, change.source, change.kind
        yield _MismatchRow(*about, column, expected, found, result.outcome, result.message)


def _of_others(before: Pets, after: Pets, touched: set[int]) -> Iterator[_MismatchRow]:
    others = (before.keys() | after.keys()) - touched
    for pet_id in sorted(each for each in others if before.get(each) != after.get(each)):
        old, current = before.get(pet_id), after.get(pet_id)
        name = (current or old or Pet()).name or ""
        # Even differences that other comparisons ignore, such as blanks around a name, count here.
        differences = [*_iter_differences(old, current)] or [
            ("", _encode_sorted(old), _encode_sorted(current))
        ]
        for column, expected, found in differences:
            yield _MismatchRow(pet_id, name, "", "none", column, expected, found, "", _UNPLANNED)


def _iter_differences(wanted: Pet | None, current: Pet | None) -> Iterator[tuple[str, str, str]]:
    """Yield column, expected and found for each difference.

    The column is "" if only one of the two pets exists, and "(unknown fields)" for fields that are
    not columns.
    """
    if wanted is None or current is None:
        if current is not wanted:
            found = _NOT_THERE if current is None else _IN_THE_STORE
            yield "", _NOT_THERE if wanted is None else _IN_THE_STORE, found
        return
    for column in differing_columns(wanted, current):
        yield column, cell(wanted, column), cell(current, column)
    if wanted.extra != current.extra:
        yield _UNKNOWN_FIELDS, _encode_sorted(wanted.extra), _encode_sorted(current.extra)


def _encode_sorted(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
