"""Any pet through client, protocol and server; both faces of the API."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy
from strategies import ids, pets, xml_pets
from times import times

from petsync._sync import LoopThread
from petsync.client.api import Api, AsyncApi
from petsync.client.session import Session
from petsync.models import Pet
from petsync.profile import PROFILES
from petsync.sandbox import Sandbox
from petsync.sandbox.http import LIVE, STANDARD


@pytest.fixture(scope="module")
def bare() -> Iterator[Sandbox]:
    """Yield a sandbox that refuses nothing and keeps every field."""
    tolerant = replace(
        STANDARD, strict_pets=False, statuses=None, post_replaces=True, shape=LIVE.shape
    )
    with Sandbox(profile=tolerant, auth=False) as sandbox:
        yield sandbox


@pytest.mark.parametrize(("media", "drawn"), [("json", pets(pet_ids=ids)), ("xml", xml_pets)])
def test_any_pet_travels_both_ways(bare: Sandbox, media: str, drawn: SearchStrategy[Pet]) -> None:
    """A pet with any Unicode text and any id up to 2^63-1 is read back as it was sent."""
    session = Session(bare.url, profile=replace(PROFILES["live"], media=media))
    aio, loop = AsyncApi(session), LoopThread()

    @settings(max_examples=times(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(drawn.filter(lambda pet: pet.id is not None))
    def travels(pet: Pet) -> None:
        loop.run(aio.add_pet(pet))
        assert loop.run(aio.get_pet_by_id(pet.id or 0)) == pet

    try:
        travels()
    finally:
        loop.run(session.close())
        loop.close()


def test_both_faces_have_the_eight_operations() -> None:
    """The sync and the async API offer the same methods with the same parameters."""
    names = {
        "add_pet",
        "update_pet",
        "delete_pet",
        "find_pets_by_status",
        "find_pets_by_tags",
        "get_pet_by_id",
        "update_pet_with_form",
        "upload_file",
    }
    for kind in (Api, AsyncApi):
        assert {name for name in vars(kind) if not name.startswith("_")} == names
    assert all(asyncio.iscoroutinefunction(getattr(AsyncApi, name)) for name in names)
    facade = Api(AsyncApi(Session("http://127.0.0.1:1")), LoopThread())
    for name in names:
        core = inspect.signature(getattr(facade.aio, name))
        assert list(inspect.signature(getattr(facade, name)).parameters) == list(core.parameters)
