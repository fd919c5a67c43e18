"""Draft: a plan, and what a person makes of it: what is left out, who wins, what the guard lets
through.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from petsync.diff.change import Clash, Conflict
from petsync.diff.guard import Limit, Refusal, Verdict
from petsync.diff.plan import Plan
from petsync.diff.units import UNITS

__all__ = ["KINDS", "Draft", "Numbers", "Tally"]

KINDS = ("add", "update", "delete")
Numbers = npt.NDArray[np.intp]
Side = Literal["store", "sheet"]
Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many changes of each kind are sent, and how many are left out."""

    add: int
    update: int
    delete: int
    left_out: int

    @property
    def sent(self) -> int:
        """All that are sent."""
        return self.add + self.update + self.delete


class Draft:
    """A plan with ticks (all, at first), choices and overrides. `kinds` and `units` say of each
    change which it is, as a number in KINDS, and what it changes, a bit for each of UNITS.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ticked = np.ones(len(plan.changes), dtype=bool)
        self.kinds = np.array([KINDS.index(c.kind) for c in plan.changes], dtype=np.int8)
        self.units = np.array([_bits(c.fields) for c in plan.changes], dtype=np.uint8)
        self.choices: dict[Key, Side] = {}
        self._allowed: dict[str, int] = {}
        self._rows = _by_row(plan)
        self._clashing: defaultdict[int | None, list[Conflict]] = defaultdict(list)
        for conflict in plan.conflicts:
            if conflict.clashes:
                self._clashing[conflict.row].append(conflict)
        self._places = {c.pet_id: c.row for many in self._clashing.values() for c in many}

    def tick(self, numbers: Iterable[int] | Numbers, on: bool) -> None:
        """Take these changes in, or leave them out."""
        self.ticked[np.fromiter(numbers, dtype=np.intp)] = on

    def winner(self, conflict: Conflict, clash: Clash) -> Side:
        """Whose value the field takes as things are."""
        chosen = self.choices.get((conflict.pet_id or 0, clash.column))
        if chosen is not None:
            return chosen
        return "sheet" if conflict.winner == "sheet" and self._is_sent(conflict.row) else "store"

    def choose(self, conflict: Conflict, clash: Clash, side: Side) -> None:
        """Let a side win; the sheet only where its value can be sent."""
        key = conflict.pet_id or 0, clash.column
        self.choices.pop(key, None)
        if self.winner(conflict, clash) != side and not (side == "sheet" and clash.refused):
            self.choices[key] = side

    def tally(self) -> Tally:
        """How many changes `made` has."""
        add, update, delete = (int((self.kinds[self.ticked] == n).sum()) for n in range(3))
        left_out = len(self.ticked) - int(self.ticked.sum())
        return Tally(add, update + self._more(), delete, left_out)

    def refusals(self) -> tuple[Refusal, ...]:
        """What the plan's own guard says of it as things are."""
        return self._judged(self.plan).refusals

    def allows(self, refusal: Refusal) -> bool:
        """Whether a person has let this pass, and no more since has come to it."""
        return self._over(refusal) <= self._allowed.get(refusal.limit, -1)

    def allow(self, refusal: Refusal, on: bool) -> None:
        """Let what is over a limit pass, just as much as it is now; sentinels nothing lets pass."""
        self._allowed.pop(refusal.limit, None)
        if on and refusal.override:
            self._allowed[refusal.limit] = self._over(refusal)

    @property
    def is_ok(self) -> bool:
        """Whether the guard lets through what is to be sent."""
        return all(self.allows(refusal) for refusal in self.refusals())

    def made(self) -> Plan:
        """The plan that is to be applied; the very plan where nothing was left out or decided."""
        plan = self.plan
        if not self.ticked.all():
            plan = plan.select(numbers=np.flatnonzero(self.ticked).tolist())
        plan = plan.resolve(self.choices)
        passed = [refusal for refusal in self.refusals() if self.allows(refusal)]
        return _raised(plan, passed, self._allowed) if passed else plan

    def _is_sent(self, row: int | None) -> bool:
        return any(self.ticked[number] for number in self._rows.get(row, ()))

    def _more(self) -> int:
        """How many more updates there are by the choices, and by whom they take fields from."""
        more = 0
        for row in {self._places[pet_id] for pet_id, _ in self.choices}:
            kept = [n for n in self._rows.get(row, ()) if self.ticked[n]]
            bits = int(self.units[kept[0]]) if kept else 0
            for conflict in self._clashing[row]:
                for clash in conflict.clashes:
                    bit = _BIT[clash.column]
                    won = self.winner(conflict, clash) == "sheet"
                    bits = bits | bit if won else bits & ~bit
            more += bool(bits) - bool(kept)
        return more

    def _judged(self, plan: Plan) -> Verdict:
        is_of_part = plan.shifted or any(add.namesake for add in plan.adds)
        if plan.guard.sentinels or plan.capacity is not None or is_of_part:
            # What of it is left, and over a limit, only the part itself tells.
            part = plan.select(numbers=np.flatnonzero(self.ticked).tolist())
            return part.resolve(self.choices).verdict
        tally = self.tally()
        return plan.guard.judge(
            pets=plan.pets,
            rows=plan.rows or bool(plan.undoes),
            adds=tally.add,
            updates=tally.update,
            deletes=tally.delete,
            sentinels=[each for each in plan.verdict.refusals if each.of_store],
        )

    def _over(self, refusal: Refusal) -> int:
        return int(getattr(self.tally(), refusal.limit, 1))


def _raised(plan: Plan, passed: Iterable[Refusal], allowed: Mapping[str, int]) -> Plan:
    raised: dict[str, object] = {}
    for refusal in passed:
        if refusal.limit in KINDS:
            raised[f"max_{refusal.limit}"] = Limit(allowed[refusal.limit], is_share=False)
        else:
            raised["allow_shifted" if refusal.limit == "shifted" else "allow_empty"] = True
    return plan.guarded(msgspec.structs.replace(plan.guard, **raised))


def _by_row(plan: Plan) -> Mapping[int | None, list[int]]:
    """The places of the updates of rows that are in conflict besides."""
    rows = {conflict.row for conflict in plan.conflicts if conflict.clashes}
    found: defaultdict[int | None, list[int]] = defaultdict(list)
    for number, change in enumerate(plan.changes if rows else ()):
        if change.row in rows:
            found[change.row].append(number)
    return found


def _bits(fields: Iterable[str]) -> int:
    bits = 0
    for field in fields:
        bits |= _BIT[field]
    return bits


_BIT: dict[str, int] = {unit: 1 << n for n, unit in enumerate(UNITS)}
_BIT["category_id"] = _BIT["category"]
_BIT["id"] = 0
