"""What a pet is like just before its change, and whether the change may then be sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from petsync.apply.options import Recheck
from petsync.apply.target import Target
from petsync.diff.change import Add, Change, Delete, Update
from petsync.diff.fields import differing, same, with_fields
from petsync.diff.report import Cause, Outcome
from petsync.model import Pet
from petsync.table.columns import COLUMNS

__all__ = ["Present", "UnsentError", "mismatch"]


class UnsentError(Exception):
    """The change is not sent; says what becomes of it instead."""

    def __init__(self, outcome: Outcome, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.outcome, self.cause, self.message = outcome, cause, message


@dataclass(slots=True)
class Present:
    """Reads pets again. `pets` are those of one reading at the beginning, by id."""

    target: Target
    recheck: Recheck = "each"
    pets: Mapping[int | None, Pet] = field(default_factory=dict)

    async def read_all(self) -> None:
        """Read all pets at once, where that is how they are read again."""
        if self.recheck == "bulk":
            self.pets = {pet.id: pet for pet in await self.target.all()}

    async def prepare(self, change: Change) -> tuple[Pet | None, Pet | None]:
        """The pet as it shall be and as it is. Raises UnsentError where nothing is to be sent."""
        if change.pet_id is None:
            return change.after, None
        now = await self._now(change, change.pet_id)
        if isinstance(change, Add):
            return _addable(change, now), None
        if isinstance(change, Update):
            return _updated(change, now), now
        _check_deletable(change, now)
        return None, now

    async def _now(self, change: Change, pet_id: int) -> Pet | None:
        if self.recheck == "none":
            return change.before
        # That a pet is in no list does not prove that it is not there.
        known = None if isinstance(change, Add) else self.pets.get(pet_id)
        return known or await self.target.get(pet_id)


def mismatch(now: Pet | None, wanted: Pet | None) -> str | None:
    """How the store's pet is not what was wanted; None where it is."""
    if now is None or wanted is None:
        return None if now is wanted else ("is gone" if now is None else "is still there")
    wrong = [column for column in COLUMNS if column != "id" and not same(wanted, now, column)]
    return f"differs in {', '.join(wrong)}" if wrong else None


def _addable(change: Add, now: Pet | None) -> Pet:
    if now is None:
        return change.after
    if differing(change.after, now):
        why = "the store has another pet with this id now"
        raise UnsentError("conflict", "came-meanwhile", why)
    raise UnsentError("skipped", "already-so", "the pet is there already, just so")


def _updated(change: Update, now: Pet | None) -> Pet:
    """The present pet with the planned fields; others' changes to other fields stay."""
    if now is None:
        raise UnsentError("conflict", "gone", "the pet is gone")
    moved = [field for field in change.fields if not same(change.before, now, field)]
    if moved and all(same(change.after, now, field) for field in change.fields):
        raise UnsentError("skipped", "already-so", "the pet is so already")
    if moved:
        raise _moved(moved)
    return with_fields(now, change.after, change.fields)


def _check_deletable(change: Delete, now: Pet | None) -> None:
    if now is None:
        raise UnsentError("skipped", "already-gone", "the pet is gone already")
    if moved := differing(change.before, now):
        raise _moved(moved)


def _moved(fields: Iterable[str]) -> UnsentError:
    why = f"changed in the store since the plan: {', '.join(fields)}"
    return UnsentError("conflict", "changed-since", why)
