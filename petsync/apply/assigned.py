"""Ids that a service assigned to new pets: whose pet has each of them.

Some services give out an id twice: the highest id plus one, without a lock. The later of two pets
then replaces the earlier one, so an answer with an id does not prove that the pet is stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from petsync.apply.settle import is_unassigned
from petsync.diff.change import Add, Change
from petsync.diff.fields import content, differing, normal
from petsync.model import MAX_ID, Pet

__all__ = ["Claims"]


class Claims:
    """The adds without an id that were assigned one, by their numbers in the plan.

    `is_shared`: whether the service is known to give out an id more than once. `there`: the pets
    by id that were in the store when this process began its work, and those that it added under
    an id of the sheet. `refusal`: why no further add without an id may be sent, "" where it may.
    """

    def __init__(self, changes: Sequence[Change], *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.there: dict[int, Pet] = {}
        self.refusal = ""
        self._changes = changes
        self._ids: dict[int, int] = {}
        self._holders: defaultdict[int, list[int]] = defaultdict(list)
        self._unproved: set[int] = set()

    def remember(self, number: int, pet_id: int, *, is_proved: bool) -> None:
        """Note an assignment of an earlier process."""
        self._assign(number, pet_id)
        if not is_proved:
            self._unproved.add(number)

    def check_room(self, highest: Pet | None) -> None:
        """Refuse further adds where a pet has the highest id there is: the service may replace a
        pet. `highest` is the pet of that id.
        """
        if highest is not None:
            self.is_shared = True
            self.there[MAX_ID] = highest
            self.refusal = (
                f"not sent: pet {MAX_ID} ({highest.name!r}) has the highest id there is, and a "
                "service that gives a new pet the highest id plus one would replace a pet. Give "
                "the row an id of its own"
            )

    def refuse(self) -> None:
        """Refuse further adds: one was given the id of a pet that was there, or the highest."""
        self.is_shared = True
        self.refusal = (
            "not sent: the service gave another new pet the id of a pet that was there, or the "
            "highest id there is. Give the row an id of its own"
        )

    @property
    def has_assigned(self) -> bool:
        """Whether the service has given an add of the run an id of its own."""
        return bool(self._ids)

    def take(self, number: int, pet_id: int) -> Literal["own", "shared", "known"]:
        """Note which id the service assigned to an add: `shared` where it assigned that id in this
        run before, `known` where a pet had it before.
        """
        if pet_id in self.there:
            self.refuse()
            return "known"
        if pet_id == MAX_ID:
            self.refuse()
        is_shared = bool(self.holders(pet_id))
        self.is_shared = self.is_shared or is_shared
        self._assign(number, pet_id)
        self._unproved.add(number)
        return "shared" if is_shared else "own"

    def id_of(self, number: int) -> int:
        """The id that the service assigned to the add."""
        return self._ids[number]

    def holders(self, pet_id: int) -> list[int]:
        """The adds that were assigned this id, in the order in which that became known."""
        return [*self._holders.get(pet_id, ())]

    def drop(self, number: int) -> int:
        """Forget the assignment of an add whose pet is not stored; the id that it had."""
        self._unproved.discard(number)
        pet_id = self._ids.pop(number)
        self._holders[pet_id].remove(number)
        return pet_id

    def prove(self, number: int) -> None:
        """The add's pet is stored under its id."""
        self._unproved.discard(number)

    def to_prove(self, *, everything: bool) -> dict[int, list[int]]:
        """The adds whose pets have to be read, by their ids: those of ids that were assigned twice,
        all of this process where ids are shared, and with `everything` those of earlier ones too.
        """
        return {
            pet_id: [*numbers]
            for pet_id, numbers in self._holders.items()
            if numbers
            and (
                everything
                or len(numbers) > 1
                or (self.is_shared and not self._unproved.isdisjoint(numbers))
            )
        }

    def _assign(self, number: int, pet_id: int) -> None:
        if number in self._ids:
            self._holders[self._ids[number]].remove(number)
        self._ids[number] = pet_id
        self._holders[pet_id].append(number)

    def is_stored(self, numbers: Collection[int], pet: Pet | None) -> bool:
        """Whether the pet is what one of the adds sent."""
        return pet is not None and any(True for _ in self._exact(numbers, pet))

    def lost(self, found: Mapping[int, Pet | None]) -> dict[int, int]:
        """The adds whose pets are not stored, with the ids that they were assigned; `found` has
        the present pets of the ids of `to_prove`.
        """
        wanted = {
            content(c.after) for c in self._changes if isinstance(c, Add) and c.pet_id is None
        }
        lost: dict[int, int] = {}
        for pet_id, pet in found.items():
            numbers = self.holders(pet_id)
            owner = self._owner(numbers, pet, wanted)
            is_anothers = pet is not None and content(pet) in wanted
            for number in numbers:
                is_open = self.is_shared and number in self._unproved
                if number != owner and (is_open or is_anothers or len(numbers) > 1):
                    lost[number] = pet_id
        return lost

    def _owner(
        self, numbers: Sequence[int], pet: Pet | None, wanted: Collection[object]
    ) -> int | None:
        if pet is None:
            return None
        exact = list(self._exact(numbers, pet))
        if exact:
            return exact[-1]
        if content(pet) in wanted:
            return None
        # A service may store a pet otherwise than it was sent; its name tells whose it is.
        near = {
            number: len(differing(after, pet))
            for number, after in self._sent(numbers)
            if normal(after.name) == normal(pet.name)
        }
        return min(near, key=near.__getitem__) if near else None

    def _exact(self, numbers: Collection[int], pet: Pet) -> Iterator[int]:
        return (number for number, after in self._sent(numbers) if not differing(after, pet))

    def _sent(self, numbers: Collection[int]) -> Iterator[tuple[int, Pet]]:
        for number in numbers:
            change = self._changes[number]
            if isinstance(change, Add) and is_unassigned(change):
                yield number, change.after
