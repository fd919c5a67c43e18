"""Adds that got no answer, resolved by comparing the store before and after, never by sending
them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from petsync.diff.change import Add, Change
from petsync.diff.fields import key
from petsync.diff.report import Result
from petsync.model import Pet

__all__ = ["Before", "remember", "settle"]


@dataclass(frozen=True, slots=True)
class Before:
    """The ids, before a run, of the pets that say the same as one of its adds."""

    ids: frozenset[int]


def remember(pets: Iterable[Pet], changes: Iterable[Change]) -> Before:
    """What has to be known before adds without an id are sent."""
    wanted = {_content(c.after) for c in changes if isinstance(c, Add) and c.pet_id is None}
    return Before(frozenset(p.id for p in pets if p.id is not None and _content(p) in wanted))


def settle(
    results: Sequence[Result], changes: Sequence[Change], before: Before, now: Iterable[Pet]
) -> list[Result]:
    """The results with every unknown add that the store can tell of resolved.

    A pet that is new, is what an unknown add wanted, and is no other add's, is that add's pet.
    Where there is none the add did not happen.
    """
    assigned = {result.assigned_id for result in results if result.assigned_id is not None}
    arrivals = _arrivals(now, before.ids | assigned)
    return [_settled(result, changes, arrivals) for result in results]


def _settled(
    result: Result, changes: Sequence[Change], arrivals: dict[Hashable, list[int]]
) -> Result:
    change = changes[result.number]
    if result.outcome != "unknown" or not isinstance(change, Add) or change.pet_id is not None:
        return result
    ids = arrivals[_content(change.after)]
    if not ids:
        message = f"{result.message}; the store does not have it, so nothing was added"
        return msgspec.structs.replace(result, outcome="failed", message=message)
    return msgspec.structs.replace(
        result,
        outcome="applied",
        message="confirmed by comparing the store before and after",
        assigned_id=ids.pop(0),
    )


def _arrivals(now: Iterable[Pet], known: Collection[int]) -> dict[Hashable, list[int]]:
    arrivals: dict[Hashable, list[int]] = defaultdict(list)
    for pet in now:
        if pet.id is not None and pet.id not in known:
            arrivals[_content(pet)].append(pet.id)
    for ids in arrivals.values():
        ids.sort()
    return arrivals


def _content(pet: Pet) -> Hashable:
    """What a service stores as it was sent; ids of tags and categories it may fill in itself."""
    tags = frozenset(tag.name for tag in pet.tags)
    return key(pet, "name"), key(pet, "status"), key(pet, "category"), tags, pet.photo_urls
