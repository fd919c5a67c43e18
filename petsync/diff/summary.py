"""Summary: a plan in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from petsync._show import as_html, as_text
from petsync.diff.change import Blocked, Change, Conflict
from petsync.diff.guard import Verdict
from petsync.table.columns import COLUMNS

__all__ = ["Lagging", "Summary", "lagging", "summary_of"]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How many of what a plan holds.

    `adds`, `updates`, `deletes`: changes. `fields`: of how many updates each column is a part.
    `conflicts` are all, `open_conflicts` those in which the sheet does not win. Rows: `blocked`;
    `unchanged`, of which `older` say what was exported while the store has something newer, and
    the pets of `gone` are not there any more; of the pets of these, undos set back those of
    `set_back` and took away those of `taken_away`; `ignored`; `left_out`; and `rows`, all of the
    sheet. `pets` is the store's size. `ok`: whether the guard lets the plan through. `undoes` is
    the run that the plan takes back, "" for one from a sheet: the rows of an undo are that run's
    pets.
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
    set_back: int = 0
    taken_away: int = 0
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


class Lagging(NamedTuple):
    """Rows that say what was exported, and the store does not: why in a few words, and as each of
    the rows is told it.
    """

    rows: tuple[int, ...]
    words: str
    message: str


class _Exported(Protocol):
    """The rows of a plan that say what was exported, and the store does not."""

    @property
    def older(self) -> tuple[int, ...]: ...
    @property
    def gone(self) -> tuple[int, ...]: ...
    @property
    def undone(self) -> Mapping[int, str]: ...


class _Counted(_Exported, Protocol):
    """The counts that a plan carries as such."""

    @property
    def blocked(self) -> tuple[Blocked, ...]: ...
    @property
    def unchanged(self) -> int: ...
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


def lagging(plan: _Exported) -> Iterator[Lagging]:
    """The rows that nobody edited and whose pets are otherwise in the store, by what became of the
    pets. An undo is named: nobody else changed these pets.
    """
    for rows, words, message, by_undo in (
        (
            plan.older,
            "older than the store",
            "as exported; the store has something newer, which stays",
            ("set back by an undo", "set the pet back, which stays"),
        ),
        (
            plan.gone,
            "gone from the store",
            "as exported; the pet is gone from the store since then",
            ("taken away by an undo", "took the pet away"),
        ),
    ):
        runs = {row: plan.undone.get(row, "") for row in rows}
        for run in sorted({*runs.values()}):
            own = tuple(row for row, each in runs.items() if each == run)
            if run:
                yield Lagging(own, by_undo[0], f"as exported; the undo of run {run} {by_undo[1]}")
            else:
                yield Lagging(own, words, message)


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
        set_back=sum(row in plan.undone for row in plan.older),
        taken_away=sum(row in plan.undone for row in plan.gone),
        ignored=plan.ignored,
        left_out=plan.left_out,
        rows=plan.rows,
        pets=plan.pets,
        ok=plan.verdict.ok,
        undoes=plan.undoes,
    )
