"""The eight operations, each with JSON and XML, sync and async, and both profiles, on the running
sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from petsync._sync import LoopThread
from petsync.client import auth
from petsync.client.api import Api, AsyncApi
from petsync.client.session import Session
from petsync.errors import DuplicateError, InvalidInputError, NotFoundError
from petsync.models import MAX_ID, Category, Pet, Tag
from petsync.profile import PROFILES
from petsync.sandbox import Sandbox

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
REX = Pet(
    id=MAX_ID - 5,
    name="Rex & Søn <1>\r\n",
    photo_urls=("https://images.example/1?a=b&c=d",),
    category=Category(2**53 + 1, "Hunde"),
    tags=(Tag(1, "shy"), Tag(2, "große Ohren")),
    status="available",
)

Run = Callable[..., Any]


@pytest.fixture(scope="module", params=["standard", "live"])
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Yield a running sandbox of each profile."""
    with Sandbox(profile=request.param) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", params=["json", "xml"])
def session(request: pytest.FixtureRequest, box: Sandbox) -> Session:
    """Return a session in each representation, with token and API key."""
    profile = replace(PROFILES[box.profile], media=request.param)
    credentials = auth.bearer(box.token(), api_key=box.api_key)
    return Session(box.url, credentials=credentials, profile=profile)


@pytest.fixture(scope="module", params=["sync", "async"])
def run(request: pytest.FixtureRequest, session: Session) -> Iterator[Run]:
    """Yield a function that calls an operation by name, through the synchronous facade or the async
    core.
    """
    aio, loop = AsyncApi(session), LoopThread()
    facade = Api(aio, loop)

    def call(operation: str, /, *args: Any, **kwargs: Any) -> Any:
        if request.param == "sync":
            return getattr(facade, operation)(*args, **kwargs)
        return loop.run(getattr(aio, operation)(*args, **kwargs))

    yield call
    loop.run(session.close())
    loop.close()


@pytest.fixture(autouse=True)
def _empty(box: Sandbox) -> None:
    box.reset([])


def test_add_and_get(run: Run, box: Sandbox) -> None:
    """A pet is added and read back exactly as it was sent."""
    assert run("add_pet", REX) == REX
    assert run("get_pet_by_id", REX.id) == REX
    assert box.pets() == [REX]


def test_add_without_id_gets_one(run: Run) -> None:
    """The service assigns an id to a pet without one, and the pet can be read with it."""
    added = run("add_pet", Pet(name="Goldie", status="sold"))
    assert added.id is not None
    assert run("get_pet_by_id", added.id).name == "Goldie"


def test_add_of_an_id_that_is_there(run: Run, box: Sandbox) -> None:
    """An add with an existing id is refused without a change on `standard`, and silently replaces
    the pet on `live`.
    """
    box.put(REX)
    other = Pet(id=REX.id, name="Usurper", status="sold")
    if box.profile == "live":
        assert run("add_pet", other) == other
    else:
        with pytest.raises(DuplicateError) as caught:
            run("add_pet", other)
        assert (caught.value.status, caught.value.pet_id) == (409, REX.id)
        assert box.pets() == [REX]


def test_update(run: Run, box: Sandbox) -> None:
    """An update replaces the whole pet; an unknown pet is a 404 on `standard`, and is created on
    `live`.
    """
    box.put(REX)
    new = Pet(id=REX.id, name="Max", status="sold", photo_urls=("u",))
    assert run("update_pet", new) == new
    assert box.pets() == [new]
    stranger = Pet(id=3, name="Stranger", status="sold")
    if box.profile == "live":
        assert run("update_pet", stranger) == stranger
    else:
        with pytest.raises(NotFoundError) as caught:
            run("update_pet", stranger)
        assert (caught.value.operation, caught.value.pet_id) == ("updatePet", 3)


def test_update_with_form(run: Run, box: Sandbox) -> None:
    """A form changes the name, the status or both, and nothing else."""
    box.put(REX)
    run("update_pet_with_form", REX.id, name="Ünï & co", status="pending")
    run("update_pet_with_form", REX.id, status="sold")
    expected = Pet(
        id=REX.id,
        name="Ünï & co",
        status="sold",
        photo_urls=REX.photo_urls,
        category=REX.category,
        tags=REX.tags,
    )
    assert box.pets() == [expected]
    with pytest.raises(NotFoundError):
        run("update_pet_with_form", 3, name="x")


def test_delete(run: Run, box: Sandbox) -> None:
    """A deleted pet is gone, and a second delete is a 404."""
    box.put(REX)
    run("delete_pet", REX.id, api_key=box.api_key)
    assert box.pets() == []
    with pytest.raises(NotFoundError):
        run("delete_pet", REX.id)


def test_find_by_status(run: Run, box: Sandbox) -> None:
    """Several statuses give the union of their pets; an unknown status is refused on `standard` and
    gives no pets on `live`.
    """
    sold, pending = Pet(id=1, name="a", status="sold"), Pet(id=2, name="b", status="pending")
    box.reset([sold, pending, REX])
    assert run("find_pets_by_status", "sold") == [sold]
    found = run("find_pets_by_status", ["sold", "pending"])
    assert sorted(found, key=lambda pet: pet.id) == [sold, pending]
    assert run("find_pets_by_status", ["pending", "pending"]) == [pending]
    if box.profile == "live":
        assert run("find_pets_by_status", "nonsense") == []
    else:
        with pytest.raises(InvalidInputError):
            run("find_pets_by_status", "nonsense")


def test_find_by_tags(run: Run, box: Sandbox) -> None:
    """A search by tags gives each pet once, however many of its tags match, and accepts values with
    spaces and special characters.
    """
    other = Pet(id=1, name="a", status="sold", tags=(Tag(3, "a+b & c%3D=d"),))
    box.reset([other, REX])
    assert run("find_pets_by_tags", ["shy", "große Ohren"]) == [REX]
    assert run("find_pets_by_tags", "a+b & c%3D=d") == [other]
    assert run("find_pets_by_tags", "nobody's") == []


def test_upload(run: Run, box: Sandbox) -> None:
    """An uploaded image arrives; on `standard` its address is added to the pet's photos."""
    box.put(REX)
    answer = run("upload_file", REX.id, PNG, filename="réx.png", additional_metadata="left side")
    assert answer.message
    photos = box.pets()[0].photo_urls
    assert len(photos) == (1 if box.profile == "live" else 2)


def test_get_of_an_unknown_pet(run: Run) -> None:
    """A 404 is a NotFoundError with operation, status and pet id, and also a KeyError."""
    with pytest.raises(NotFoundError) as caught:
        run("get_pet_by_id", 404)
    error = caught.value
    assert isinstance(error, KeyError)
    assert (error.operation, error.status, error.pet_id) == ("getPetById", 404, 404)
