"""Sentinels: pets that must be there and as they were, or nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from petsync.diff.change import Change
from petsync.diff.fields import differing
from petsync.diff.guard import Refusal
from petsync.diff.known import pets_of
from petsync.model import Pet
from petsync.table.base import Base

__all__ = ["drifted", "lost_or_touched", "moved_since"]


def moved_since(sentinels: Sequence[Pet], base: Base | None) -> Iterator[Refusal]:
    """The sentinels that the store changed since the export."""
    exported = pets_of([pet.id or 0 for pet in sentinels], base.frame) if base is not None else ()
    old = {pet.id: pet for pet in exported}
    for pet in sentinels:
        if moved := differing(old.get(pet.id, pet), pet):
            fields = ", ".join(moved)
            problem = f"the store changed {fields} of sentinel {pet.id} since the export"
            yield Refusal("sentinel", problem, of_store=True)


def lost_or_touched(
    ids: Sequence[int], sentinels: Sequence[Pet], changes: Iterable[Change]
) -> Iterator[Refusal]:
    """The ids of sentinels that are not there, and the changes that would touch one."""
    there = {pet.id for pet in sentinels}
    for each in dict.fromkeys(ids):
        if each not in there:
            problem = f"sentinel {each} is not in the store's snapshot"
            yield Refusal("sentinel", problem, of_store=True)
    watched = frozenset(ids)
    for change in changes if watched else ():
        if change.pet_id in watched:
            problem = f"the plan would {change.kind} sentinel {change.pet_id}"
            yield Refusal("sentinel", problem)


def drifted(sentinel: Pet, now: Pet | None) -> str:
    """How a plan's sentinel is not as it was, "" where it is."""
    if now is None:
        return f"sentinel {sentinel.id} is gone from the store since the plan"
    moved = differing(sentinel, now)
    if not moved:
        return ""
    return f"the store changed {', '.join(moved)} of sentinel {sentinel.id} since the plan"
