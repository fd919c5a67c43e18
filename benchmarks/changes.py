"""The changes that benchmarks/apply.py makes, and the store that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
from load import answer

from petsync.models import Pet, Tag
from petsync.plan.change import Add, Change, Delete, Update
from petsync.plan.plan import Plan
from petsync.protocol import operations
from petsync.protocol.json import decode_pets, encode_pets
from petsync.protocol.operations import Request

__all__ = ["FORM", "Work", "build_work", "request_of"]

FORM = frozenset({"name", "status"})
"""The columns that updatePetWithForm can change."""

_STATUSES = ("available", "pending", "sold")


@dataclass(frozen=True)
class Work:
    """A plan, the pets of its store, and the expected pets after the plan, by id."""

    plan: Plan
    pets: tuple[Pet, ...]
    after: Mapping[int | None, Pet]

    def seed(self, folder: Path) -> Path:
        """Write the pets to a seed file for a sandbox, and return its path."""
        path = folder / f"{len(self.pets)}-pets.json"
        path.write_bytes(encode_pets(self.pets))
        return path

    def check(self, url: str) -> None:
        """Raise RuntimeError unless the store has exactly the expected pets."""
        body = httpx.get(f"{url}/pet/findByStatus?status={','.join(_STATUSES)}", timeout=60).content
        found = {pet.id: pet for pet in decode_pets(body)}
        if found != self.after:
            ids = found.keys() | self.after.keys()
            wrong = sum(found.get(each) != self.after.get(each) for each in ids)
            raise RuntimeError(f"{wrong} pets are not as they are to be")


def build_work(changes: int) -> Work:
    """Return `changes` changes in a plan's order: 10 % adds with an id, 60 % updates by updatePet,
    20 % by updatePetWithForm, 10 % deletes.
    """
    pets = decode_pets(answer(changes))
    stored, new = tuple(pets[changes // 10 :]), pets[: changes // 10]
    deleted = stored[::9][: changes // 10]
    gone = {pet.id for pet in deleted}
    kept = [pet for pet in stored if pet.id not in gone]
    updates = [_update(pet, number) for number, pet in enumerate(kept, 2)]
    adds = [Add(row=n, source=f"Pets!A{n}", after=pet) for n, pet in enumerate(new, 2 + len(kept))]
    deletes = [Delete(row=None, source="", before=pet, why="missing") for pet in deleted]
    plan = Plan(
        created="2026-11-21T00:00:00+00:00",
        store="http://127.0.0.1/v2",
        profile="standard",
        source="pets.xlsx",
        tab="Pets",
        changes=(*adds, *updates, *deletes),
        rows=len(kept) + len(new),
        pets=len(stored),
    )
    after = {update.pet_id: update.after for update in updates} | {pet.id: pet for pet in new}
    return Work(plan, stored, after)


def request_of(change: Change) -> Request:
    """Return the request that makes a change."""
    pet_id = change.pet_id
    if pet_id is None:
        raise ValueError("every pet here has an id")
    if isinstance(change, Add):
        return operations.add_pet(change.after).request
    if isinstance(change, Delete):
        return operations.delete_pet(pet_id).request
    if FORM.issuperset(change.fields):
        name, status = change.after.name, change.after.status
        return operations.update_pet_with_form(pet_id, name=name, status=status).request
    return operations.update_pet(change.after).request


def _update(pet: Pet, number: int) -> Update:
    edit = _by_form if number % 4 == 0 else _by_put
    after = edit(pet)
    fields = ("name", "status") if edit is _by_form else ("name", "tags")
    return Update(row=number, source=f"Pets!B{number}", fields=fields, before=pet, after=after)


def _by_form(pet: Pet) -> Pet:
    status = _STATUSES[_STATUSES.index(pet.status or "sold") - 1]
    return msgspec.structs.replace(pet, name=f"{pet.name} of kennel 7", status=status)


def _by_put(pet: Pet) -> Pet:
    tags = (*pet.tags, Tag(90, "award winner"))
    return msgspec.structs.replace(pet, name=f"{pet.name} the second", tags=tags)
