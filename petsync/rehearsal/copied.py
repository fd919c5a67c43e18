"""What is copied of the store: its snapshot, and the pets outside it that the plan is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from petsync.diff.compare import unproved
from petsync.diff.plan import Plan
from petsync.diff.snapshot import Snapshot, Unanswered
from petsync.model import Pet
from petsync.store import Store
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.sheet import Sheet

__all__ = ["Copied", "copied"]


@dataclass(frozen=True, eq=False)
class Copied:
    """The store as it is copied: `outside` are the pets that no status query lists, found by their
    ids, and `unanswered` the ids that the store said nothing of.
    """

    snapshot: Snapshot
    outside: tuple[Pet, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()

    @cached_property
    def pets(self) -> list[Pet]:
        """Every pet, by id."""
        listed = pets_from_frame(self.snapshot.frame)
        return sorted([*listed, *self.outside], key=_id) if self.outside else listed

    @property
    def frame(self) -> pd.DataFrame:
        """Every pet as a table, by id."""
        return frame_from_pets(self.pets) if self.outside else self.snapshot.frame


def copied(store: Store, plan: Plan, sheet: Sheet | None, snapshot: Snapshot) -> Copied:
    """The snapshot, and what getPetById says of the other ids that plan and sheet name."""
    listed = set(snapshot.frame["id"])
    rows = (*plan.changes, *plan.conflicts)
    named = {row.pet_id for row in rows if row.pet_id is not None} | set(plan.guard.sentinels)
    if sheet is not None:
        named.update(unproved(sheet.frame, snapshot.frame))
    answers = store.look_up(sorted(named - listed)).values()
    return Copied(
        snapshot,
        tuple(answer for answer in answers if isinstance(answer, Pet)),
        tuple(answer for answer in answers if isinstance(answer, Unanswered)),
    )


def _id(pet: Pet) -> int:
    return pet.id or 0
