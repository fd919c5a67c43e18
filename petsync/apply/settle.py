"""Adds that got no answer, resolved by comparing the store before and after, never by sending
them again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from petsync.diff.change import Add, Change
from petsync.diff.fields import content
from petsync.diff.report import Result
from petsync.model import Pet

__all__ = ["Before", "remember", "settle"]


@dataclass(frozen=True, slots=True)
class Before:
    """The store before a run: its ids, and how many pets say the same as each of its adds."""

    ids: frozenset[int]
    alike: Mapping[Hashable, int]

    def came_since_the_plan(self, change: Change) -> bool:
        """Whether a pet that says just what an add says has come since the plan was made: it may
        be that add's own pet, from a run that this one knows nothing of.
        """
        if not isinstance(change, Add) or change.pet_id is not None:
            return False
        return self.alike.get(content(change.after), 0) > change.alike


def remember(pets: Collection[Pet], changes: Iterable[Change]) -> Before:
    """What has to be known before adds without an id are sent."""
    wanted = {content(c.after) for c in changes if isinstance(c, Add) and c.pet_id is None}
    said = (content(pet) for pet in pets)
    return Before(
        frozenset(pet.id for pet in pets if pet.id is not None),
        Counter(each for each in said if each in wanted),
    )


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
    ids = arrivals[content(change.after)]
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
            arrivals[content(pet)].append(pet.id)
    for ids in arrivals.values():
        ids.sort()
    return arrivals
