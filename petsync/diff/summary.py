"""Summary: a plan in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from petsync._show import as_html, as_text
from petsync.diff.change import Blocked, Change, Conflict
from petsync.diff.guard import Verdict
from petsync.table.columns import COLUMNS

__all__ = ["Summary", "summary_of"]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How many of what a plan holds.

    `adds`, `updates`, `deletes`: changes. `fields`: of how many updates each column is a part.
    `conflicts` are all, `open_conflicts` those in which the sheet does not win. Rows: `blocked`;
    `unchanged`, of which `older` say what was exported while the store has something newer, and
    the pets of `gone` are not there any more; `ignored`; `left_out`; and `rows`, all of the sheet.
    `pets` is the store's size. `ok`: whether the guard lets the plan through. `undoes` is the run
    that the plan takes back, "" for one from a sheet: the rows of an undo are that run's pets.
    """

    adds: int
    updates: int
    deletes: int
    fields: Mapping[str, int]
    conflicts: int
    open_conflicts: int
    blocked: int
    unchanged: int
    older: int
    gone: int
    ignored: int
    left_out: int
    rows: int
    pets: int
    ok: bool
    undoes: str = ""

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class _Counted(Protocol):
    """The counts that a plan carries as such."""

    @property
    def blocked(self) -> tuple[Blocked, ...]: ...
    @property
    def unchanged(self) -> int: ...
    @property
    def older(self) -> tuple[int, ...]: ...
    @property
    def gone(self) -> tuple[int, ...]: ...
    @property
    def ignored(self) -> int: ...
    @property
    def left_out(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def pets(self) -> int: ...
    @property
    def undoes(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...


def summary_of(changes: Iterable[Change], conflicts: Iterable[Conflict], plan: _Counted) -> Summary:
    """The numbers of a plan of these changes and conflicts."""
    kinds: Counter[str] = Counter()
    fields: Counter[str] = Counter()
    for change in changes:
        kinds[change.kind] += 1
        if change.kind == "update":
            fields.update(change.fields)
    states = Counter(conflict.is_open for conflict in conflicts)
    return Summary(
        adds=kinds["add"],
        updates=kinds["update"],
        deletes=kinds["delete"],
        fields={column: fields[column] for column in COLUMNS if fields[column]},
        conflicts=states.total(),
        open_conflicts=states[True],
        blocked=len(plan.blocked),
        unchanged=plan.unchanged,
        older=len(plan.older),
        gone=len(plan.gone),
        ignored=plan.ignored,
        left_out=plan.left_out,
        rows=plan.rows,
        pets=plan.pets,
        ok=plan.verdict.ok,
        undoes=plan.undoes,
    )
