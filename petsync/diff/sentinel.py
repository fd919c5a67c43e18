"""Sentinels: pets that must be there and as they were, or nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from petsync.diff import align
from petsync.diff.change import Change
from petsync.diff.fields import differing
from petsync.diff.guard import Refusal
from petsync.diff.snapshot import Snapshot
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.frame import pets_from_frame

__all__ = ["Sentinels", "drifted"]


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The pets of the ids that are watched: `pets` as the snapshot has them, `lost` the ids that
    it lacks, `exported` what the base says of them.
    """

    pets: tuple[Pet, ...]
    lost: tuple[int, ...]
    exported: Mapping[int | None, Pet]

    @classmethod
    def of(cls, ids: Sequence[int], snapshot: Snapshot, base: Base | None) -> Sentinels:
        """The sentinels of these ids."""
        there = _pets(ids, snapshot.frame)
        old = {} if base is None else {pet.id: pet for pet in _pets(ids, base.frame)}
        known = {pet.id for pet in there}
        return cls(tuple(there), tuple(i for i in dict.fromkeys(ids) if i not in known), old)

    def refusals(self, changes: Iterable[Change]) -> tuple[Refusal, ...]:
        """What is wrong with the sentinels, for a plan of these changes."""
        return tuple(Refusal("sentinel", problem) for problem in self._problems(changes))

    def _problems(self, changes: Iterable[Change]) -> Iterator[str]:
        for pet_id in self.lost:
            yield f"sentinel {pet_id} is not in the store's snapshot"
        for pet in self.pets:
            moved = differing(self.exported.get(pet.id, pet), pet)
            if moved:
                yield f"the store changed {', '.join(moved)} of sentinel {pet.id} since the export"
        ids = {*(pet.id for pet in self.pets), *self.lost}
        for change in changes if ids else ():
            if change.pet_id is not None and change.pet_id in ids:
                yield f"the plan would {change.kind} sentinel {change.pet_id}"


def drifted(sentinel: Pet, now: Pet | None) -> str:
    """How a plan's sentinel is not as it was, "" where it is."""
    if now is None:
        return f"sentinel {sentinel.id} is gone from the store since the plan"
    moved = differing(sentinel, now)
    if not moved:
        return ""
    return f"the store changed {', '.join(moved)} of sentinel {sentinel.id} since the plan"


def _pets(ids: Sequence[int], frame: pd.DataFrame) -> list[Pet]:
    places = align.positions(pd.Series(list(dict.fromkeys(ids)), dtype="Int64"), frame)
    return pets_from_frame(frame.iloc[places[places >= 0]])
