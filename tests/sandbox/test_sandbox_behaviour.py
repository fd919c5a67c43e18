"""A sandbox with a custom behaviour instead of a profile's name."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from petsync import Pet, Store, Tag, connect
from petsync.errors import InvalidInputError
from petsync.sandbox import Sandbox
from petsync.sandbox.http import STANDARD, Behaviour


def _store(box: Sandbox) -> Store:
    return connect(box.url, environ={}, auth=None)


def test_a_behaviour_of_its_own() -> None:
    """A custom behaviour sets the statuses, whether updatePet creates pets, and the name."""
    statuses = frozenset({"available", "reserved"})
    mine = replace(STANDARD, name="mine", statuses=statuses, put_creates=True)
    with Sandbox(profile=mine, auth=False) as box, _store(box) as store:
        assert box.profile == "mine"
        store.api.update_pet(Pet(id=7, name="Rex", status="reserved"))
        assert [pet.id for pet in store.api.find_pets_by_status(["reserved"])] == [7]
        with pytest.raises(InvalidInputError, match="'sold' is not a status"):
            store.api.update_pet(Pet(id=7, name="Rex", status="sold"))


def test_any_status_and_yet_strict() -> None:
    """Without a list of statuses every text is a status, but a pet without a name is still
    refused.
    """
    with Sandbox(profile=Behaviour(statuses=None), auth=False) as box, _store(box) as store:
        store.api.add_pet(Pet(id=7, name="Rex", status="on holiday"))
        assert box.pets()[0].status == "on holiday"
        with pytest.raises(InvalidInputError):
            store.api.add_pet(Pet(id=8, status="sold"))


def test_seeds_with_and_without_ids() -> None:
    """A seed's pets keep their ids in any order, the others get higher ids, and each is found by
    status and tags.
    """
    pets = [Pet(id=9, status="sold", tags=(Tag(1, "calm"),)), Pet(name="New"), Pet(id=2)]
    with Sandbox(pets=pets, auth=False) as box, _store(box) as store:
        assert {pet.id: pet.name for pet in box.pets()} == {2: None, 9: None, 10: "New"}
        assert [pet.id for pet in store.api.find_pets_by_status(["sold"])] == [9]
        assert [pet.id for pet in store.api.find_pets_by_tags(["calm"])] == [9]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("media", "body", "status"),
    [
        ("application/json", b'{"name": "Rex", ', 400),
        ("application/json", b'{"name": "Re\xff"}', 400),
        ("application/json", b"[" * 5000, 400),
        ("application/json", b"[]", 422),
        ("application/xml", b"<Pet><name>Rex", 400),
        ("application/xml", b"<Dog/>", 422),
    ],
)
def test_bad_type_is_for_well_formed_bodies(
    strict: bool, media: str, body: bytes, status: int
) -> None:
    """A malformed body is 400; a well-formed body that is not a pet has the profile's status."""
    mine = Behaviour(bad_type=422, strict_pets=strict)
    with Sandbox(profile=mine, auth=False) as box:
        answer = httpx.post(f"{box.url}/pet", content=body, headers={"content-type": media})
    assert answer.status_code == status
