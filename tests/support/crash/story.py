"""A random store and random changes to it, with the expected result.

Nothing here asks petsync what a change does: `Story.expected` computes it independently.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from shop import plan_of, sheet_of

from petsync.plan.plan import Plan
from petsync.protocol.json import decode_pets

__all__ = ["Json", "Story", "collect_contents", "content", "new_pet", "story"]

Json = dict[str, Any]
STATUSES = ("available", "pending", "sold")
TAGS = tuple({"id": n + 1, "name": name} for n, name in enumerate(("calm", "shy", "old", "wild")))
GROUPS = tuple({"id": n + 1, "name": name} for n, name in enumerate(("Dogs", "Cats", "Birds")))
FAR = 2**63 - 2


@dataclass
class Story:
    """A store and its changes: `before` has the pets by id, `updates` the fields to change, `added`
    the new pets (some with an id, some without), `deleted` the ids to delete.
    """

    before: dict[int, Json]
    updates: dict[int, Json] = field(default_factory=dict)
    added: list[Json] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)

    def plan(self, url: str, profile: str) -> Plan:
        """Return petsync's plan for the changes; assert that it has exactly the story's counts."""
        rows = [(self._after(number), "merge") for number in self.updates]
        rows += [(pet, "add-another") for pet in self.added]
        rows += [(self.before[number], "delete") for number in self.deleted]
        actions = [action for _, action in rows]
        sheet = sheet_of(pets_of(pet for pet, _ in rows), action=actions)
        plan = plan_of(pets_of(self.before.values()), sheet)
        assert (len(plan.adds), len(plan.updates), len(plan.deletes)) == self.counts, plan
        return msgspec.structs.replace(plan, store=url, profile=profile)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The number of adds, updates and deletes."""
        return len(self.added), len(self.updates), len(self.deleted)

    @property
    def total(self) -> int:
        """The number of changes."""
        return sum(self.counts)

    def expected(self, profile: str) -> tuple[dict[int, Json], Counter[str]]:
        """Return the expected pets by id, and the counts of the contents of new pets whose ids the
        service assigns. A live service drops unknown fields from a pet in a PUT.
        """
        known = {number: pet for number, pet in self.before.items() if number not in self.deleted}
        known |= {number: self._after(number) for number in self.updates}
        if profile == "live":
            for number, edit in self.updates.items():
                if not edit.keys() <= {"name", "status"}:
                    known[number] = {k: v for k, v in known[number].items() if k != "age"}
        known |= {pet["id"]: pet for pet in self.added if "id" in pet}
        return known, Counter(content(pet) for pet in self.added if "id" not in pet)

    def _after(self, number: int) -> Json:
        return {**self.before[number], **self.updates[number]}


def story(rng: random.Random, *, pets: int, changes: int, ids: str = "mixed") -> Story:
    """Return a random store of this many pets with this many changes. `ids` determines whether new
    pets have ids: `given`, `assigned` or `mixed`.
    """
    before = {number: new_pet(rng, number) for number in range(1, pets + 1)}
    result = Story(before)
    touched = rng.sample(sorted(before), min(changes * 2 // 3, pets - 2))
    deletes = rng.randint(1, len(touched) // 3)
    result.deleted = set(touched[:deletes])
    result.updates = {number: _edit(rng, before[number]) for number in touched[deletes:]}
    result.added = _added(rng, before, changes - len(touched), ids)
    return result


def content(pet: Mapping[str, Any]) -> str:
    """Return a pet's content without its id as text that can be compared; tags are a set."""
    tags = sorted(pet.get("tags") or (), key=json.dumps)
    values = {**pet, "tags": tags, "photoUrls": pet.get("photoUrls") or []}
    return json.dumps({k: v for k, v in values.items() if k != "id"}, sort_keys=True)


def collect_contents(pets: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    """Return each pet's content by id."""
    return {number: content(pet) for number, pet in pets.items()}


def pets_of(pets: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the pets as petsync's objects."""
    return decode_pets(json.dumps(list(pets)).encode())


def new_pet(rng: random.Random, number: int | None) -> Json:
    """Return a random pet; without an id if `number` is None."""
    pet: Json = {} if number is None else {"id": number}
    pet |= {"name": f"{rng.choice(('Rex', 'Mia', 'Zoë', 'Ода', 'Tom'))} {rng.randrange(10**6)}"}
    pet |= {"status": rng.choice(STATUSES), "photoUrls": _photos(rng)}
    if rng.random() < 0.7:
        pet["tags"] = rng.sample(TAGS, rng.randint(1, 3))
    if rng.random() < 0.7:
        pet["category"] = rng.choice(GROUPS)
    if number is not None and rng.random() < 0.2:
        pet["age"] = rng.randint(1, 20)
    return pet


def _photos(rng: random.Random) -> list[str]:
    return [f"https://photos.example/{rng.randrange(10**6)}.jpg" for _ in range(rng.randrange(3))]


def _edit(rng: random.Random, pet: Json) -> Json:
    """Return the changed fields of a pet: name or status only, or fields that need a PUT."""
    edit: Json = {}
    if rng.random() < 0.6:
        edit["name"] = f"{pet['name']} II"
    if rng.random() < 0.6 or not edit:
        edit["status"] = rng.choice([status for status in STATUSES if status != pet["status"]])
    if rng.random() < 0.5:
        edit["photoUrls"] = [*pet["photoUrls"], f"https://photos.example/new{pet['id']}.jpg"]
    if rng.random() < 0.3:
        edit["tags"] = [tag for tag in TAGS if tag not in pet.get("tags", ())]
    return edit


def _added(rng: random.Random, before: Mapping[int, Json], count: int, ids: str) -> list[Json]:
    added: list[Json] = []
    taken = len(before) + 1000
    while len(added) < count:
        given = ids == "given" or (ids == "mixed" and rng.random() < 0.5)
        pet = new_pet(rng, None)
        if given:
            taken += rng.randint(1, 3)
            added.append({"id": FAR if rng.random() < 0.03 and not added else taken, **pet})
        elif rng.random() < 0.25:
            # Several new pets with the same content.
            added += [pet] * min(rng.randint(2, 3), count - len(added))
        elif rng.random() < 0.15:
            like = next((p for p in before.values() if "age" not in p), pet)
            added.append({k: v for k, v in like.items() if k != "id"})
        else:
            added.append(pet)
    return added
