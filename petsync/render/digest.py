"""The few of the many: how many there are of each sort, and the first ones, in a single pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from petsync.diff.change import Change, Conflict
from petsync.diff.plan import Plan
from petsync.diff.report import Cause, Outcome, Report, Result
from petsync.render.causes import KNOWN, QUIET, Told, told
from petsync.table.sheet import Finding, Sheet

__all__ = [
    "RANK",
    "Clashing",
    "Group",
    "Listing",
    "changes_by_kind",
    "clashing",
    "conflicts_by_winner",
    "findings_by_rule",
    "first",
    "results_by_cause",
]

T = TypeVar("T")
_FEW = 3
RANK: Sequence[Outcome] = ("failed", "unknown", "conflict", "applied", "skipped")
"""The outcomes, what needs a person first; of those applied, some do."""

Clashing = Mapping[int | None, Conflict]
"""The conflicts about single fields, by their rows."""


@dataclass(slots=True)
class Listing(Generic[T]):
    """The first of `total` things."""

    shown: list[T] = field(default_factory=list)
    total: int = 0

    @property
    def more(self) -> int:
        """How many are not shown."""
        return self.total - len(self.shown)


@dataclass(frozen=True, slots=True)
class Group:
    """The results of one outcome and cause, and what is said of them."""

    outcome: Outcome
    cause: Cause
    told: Told
    listing: Listing[Result]

    @property
    def title(self) -> str:
        """`3 failed: no answer`."""
        outcome = "in conflict" if self.outcome == "conflict" else self.outcome
        return f"{self.listing.total:,} {outcome}: {self.told.title}"

    @property
    def is_plain(self) -> bool:
        """Whether nobody wants to know more of it than how many there are."""
        return self.outcome == "applied" and self.cause != "another-id"


def first(things: Sequence[T], limit: int | None) -> Listing[T]:
    """The first `limit` things; all where it is None."""
    return Listing(list(things[:limit]), len(things))


def changes_by_kind(plan: Plan, limit: int | None) -> Mapping[str, Listing[Change]]:
    """The changes of each kind: `add`, `update`, `delete`, all three always there."""
    start = {kind: Listing[Change]() for kind in ("add", "update", "delete")}
    return _grouped(plan.changes, lambda change: change.kind, limit, start)


def conflicts_by_winner(plan: Plan, limit: int | None) -> Mapping[str, Listing[Conflict]]:
    """The conflicts of each winner: nobody (""), `store`, `sheet`, all three always there."""
    start = {winner: Listing[Conflict]() for winner in ("", "store", "sheet")}
    return _grouped(plan.conflicts, lambda conflict: conflict.winner, limit, start)


def clashing(plan: Plan) -> Clashing:
    """The conflicts of the plan that leave a row's other fields alone."""
    return {conflict.row: conflict for conflict in plan.conflicts if conflict.winner}


def results_by_cause(report: Report, limit: int | None, *, is_over: bool = False) -> list[Group]:
    """The results in groups of one outcome and cause: what needs a person comes first, and of an
    outcome the largest group, but last what the plan showed already. One result stands for each
    row: of several the worst. Of causes that nobody reads row by row only a few are shown.

    With `is_over` nothing can be done about them any more, as in a rehearsal.
    """
    run_id = "" if is_over else report.run_id
    undoes = report.plan.undoes
    groups = _grouped(_one_a_row(report), lambda result: (result.outcome, result.cause), limit, {})
    ordered = sorted(
        groups, key=lambda key: (RANK.index(key[0]), key[1] in KNOWN, -groups[key].total)
    )
    return [
        Group(*key, told(*key, run_id, undoes), _few(groups[key], key[1], limit)) for key in ordered
    ]


def _few(listing: Listing[Result], cause: Cause, limit: int | None) -> Listing[Result]:
    if limit is not None and cause in QUIET:
        listing.shown = listing.shown[:_FEW]
    return listing


def _one_a_row(report: Report) -> Iterator[Result]:
    rows = report.by_row()
    for result in report.results:
        told = result if result.row is None else rows.pop(result.row, None)
        if told is not None:
            yield told


def findings_by_rule(sheet: Sheet, limit: int | None) -> list[Listing[Finding]]:
    """The findings of each rule, the most frequent rule first, and of as many the errors."""
    groups = _grouped(sheet.problems, lambda f: (f.severity, f.rule), limit, {})
    return [groups[key] for key in sorted(groups, key=lambda k: (-groups[k].total, *k))]


K = TypeVar("K")


def _grouped(
    things: Iterable[T], key: Callable[[T], K], limit: int | None, groups: dict[K, Listing[T]]
) -> dict[K, Listing[T]]:
    for thing in things:
        group = groups.setdefault(key(thing), Listing())
        group.total += 1
        if limit is None or len(group.shown) < limit:
            group.shown.append(thing)
    return groups
