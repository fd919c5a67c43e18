"""Adds that got no answer, resolved by comparing the store before and after: never sent again
before it is proved that their pets are not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import msgspec

from petsync.diff.change import Add, Change
from petsync.diff.fields import content
from petsync.diff.report import Result
from petsync.model import Pet

__all__ = [
    "absent",
    "came_since",
    "confirmed",
    "is_unassigned",
    "settle",
    "statuses_of",
]


def is_unassigned(change: Change) -> bool:
    """Whether the change adds a pet whose id the service is to choose."""
    return isinstance(change, Add) and change.pet_id is None


def statuses_of(changes: Iterable[Change]) -> list[str]:
    """The statuses that pets without an id are to have: in their lists they must be looked for."""
    wanted = (c.after.status for c in changes if isinstance(c, Add) and is_unassigned(c))
    return list(dict.fromkeys(status for status in wanted if status))


def came_since(changes: Sequence[Change], pets: Iterable[Pet]) -> dict[int, int | None]:
    """The adds, by their numbers, of which the store has more pets that say just the same than the
    plan knew: each with the pet that is taken for its own, None where that cannot be told.

    It may be that add's own pet, from a run that this one knows nothing of, or a pet of a status
    that the plan did not ask for. No pet is taken for two adds.
    """
    adds = _unassigned(changes)
    if not adds:
        return {}
    named = {change.pet_id for change in changes}
    there: dict[Hashable, list[int]] = defaultdict(list)
    for pet in pets:
        if pet.id is not None:
            there[content(pet)].append(pet.id)
    met: dict[int, int | None] = {}
    for number, add in adds.items():
        ids = there[content(add.after)]
        if len(ids) <= add.alike:
            continue
        if add.alike:
            met[number] = None
        elif free := [pet_id for pet_id in ids if pet_id not in named]:
            met[number] = free[0]
            ids.remove(free[0])
    return met


def _unassigned(changes: Sequence[Change]) -> dict[int, Add]:
    numbered = enumerate(changes)
    return {n: c for n, c in numbered if isinstance(c, Add) and is_unassigned(c)}


def settle(
    unknown: Iterable[int],
    changes: Sequence[Change],
    results: Mapping[int, Result],
    known: Collection[int],
    now: Iterable[Pet],
) -> dict[int, int]:
    """The ids of the pets of those unknown adds that happened, by their numbers.

    A pet that is new, is what an unknown add wanted, and is no other add's, is that add's pet.
    """
    theirs = {result.assigned_id for result in results.values()}
    theirs.update(change.pet_id for change in changes if isinstance(change, Add))
    arrivals = _arrivals(now, theirs.union(known))
    found: dict[int, int] = {}
    for number in unknown:
        change = changes[number]
        ids = arrivals[content(change.after)] if change.after is not None else []
        if ids:
            found[number] = ids.pop(0)
    return found


def confirmed(result: Result, pet_id: int) -> Result:
    """The result of an unknown add whose pet was found."""
    return msgspec.structs.replace(
        result,
        outcome="applied",
        cause="confirmed",
        message="confirmed by comparing the store before and after",
        assigned_id=pet_id,
    )


def absent(result: Result) -> Result:
    """The result of an unknown add of which the store has no pet."""
    said = result.message.rstrip(".?!; ")
    message = f"{said}; the store does not have it, so nothing was added"
    return msgspec.structs.replace(result, outcome="failed", message=message)


def _arrivals(now: Iterable[Pet], known: Collection[int | None]) -> dict[Hashable, list[int]]:
    arrivals: dict[Hashable, list[int]] = defaultdict(list)
    for pet in now:
        if pet.id is not None and pet.id not in known:
            arrivals[content(pet)].append(pet.id)
    for ids in arrivals.values():
        ids.sort()
    return arrivals
