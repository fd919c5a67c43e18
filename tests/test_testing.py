"""petsync.testing: a pet store without a network, and the pytest fixtures for users' tests."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import petsync as ps
from petsync.testing import FakeService

_USERS_TEST = """
import petsync as ps


def rename(store, pet_id, name):
    return store.apply(store.edit(pet_id, name=name), progress=False)


def test_a_rename_reaches_the_store(petsync_store, petsync_service):
    petsync_service.reset([ps.Pet(id=7, name="Rex", status="available")])
    assert rename(petsync_store, 7, "Max").counts["applied"] == 1
    assert [pet.name for pet in petsync_service.pets()] == ["Max"]


def test_each_test_has_a_store_of_its_own(petsync_store, petsync_service):
    assert petsync_service.pets() == []
    petsync_service.set_faults("429=1")
    assert petsync_service.requests["addPet"] == 0
"""


@pytest.mark.slow
@pytest.mark.slow
def test_a_users_test_file_runs_with_the_fixtures(tmp_path: Path) -> None:
    """The fixtures exist after `pytest_plugins`, and not before; so does the test of the page."""
    page = Path(__file__).parents[1] / "docs" / "coming-from-httpx.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    plugins, example = blocks[1:3]
    (tmp_path / "test_mine.py").write_text(_USERS_TEST, "utf-8")
    (tmp_path / "test_page.py").write_text(example, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": str(Path(ps.__file__).parents[1])}

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)

    without = run()
    assert "fixture 'petsync_store' not found" in without.stdout, without.stdout
    (tmp_path / "conftest.py").write_text(plugins, "utf-8")
    done = run()
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_fake_service_opens_no_port_and_serves_any_httpx_client() -> None:
    """A client of httpx reads what petsync writes, on another loop."""
    with FakeService(auth=False) as service:
        with service.connect() as store:
            pet = store.api.add_pet(ps.Pet(name="Rex", tags=[ps.Tag(None, "café")]))

        async def read() -> httpx.Response:
            async with httpx.AsyncClient(transport=service.transport) as client:
                return await client.get(f"{service.url}/pet/{pet.id}")

        response = asyncio.run(read())
        assert response.json()["tags"] == [{"name": "café"}]
        assert service.requests["getPetById"] == 1
        assert re.fullmatch(r"https://[0-9a-f]{16}\.pets\.invalid/v2", service.url)


def test_a_fake_service_knows_nothing_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that was added to one service is added to the next one too, with the same state folder
    and with another one; and nothing is written into the user's state folder.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    sheet = tmp_path / "new.csv"
    sheet.write_text("name,status\nRex,available\n", "utf-8")
    for state in ("one", "one", "two"):
        with FakeService() as service, service.connect(state=tmp_path / state) as store:
            assert store.apply(store.plan(sheet), progress=False).counts["applied"] == 1
            assert [pet.name for pet in service.pets()] == ["Rex"]
            assert not store.plan(sheet).changes
    assert not (tmp_path / "user").exists()


def test_a_pet_may_be_a_dict() -> None:
    """A dict of a pet's fields is a pet; any other value is an error that shows it."""
    rex = {"id": 7, "name": "Rex", "tags": ["calm"]}
    with FakeService([rex]) as service:
        assert service.pets() == [ps.Pet(id=7, name="Rex", tags=[ps.Tag(None, "calm")])]
        assert service.put({"name": "Mia"}).id is not None
        service.reset([rex])
        assert [pet.id for pet in service.pets()] == [7]
        wrong: list[tuple[Callable[[Any], object], Any, str]] = [
            (service.put, {"nam": "Rex"}, "the field 'nam'"),
            (service.put, "Rex", "'Rex' is not a pet"),
            (service.reset, rex, "not a list of pets"),
            (service.reset, [None], "None is not a pet"),
            (service.remove, "7", "'7', not an integer"),
            (service.set_faults, 5, "it is not a text"),
            (service.token, 5, "the scopes are 5"),
            (FakeService, 5, "the pets are 5"),
            (lambda seed: FakeService(seed=seed), 5, "seed is 5"),
        ]
        for call, value, message in wrong:
            with pytest.raises(ps.errors.SettingsError, match=message):
                call(value)
        assert [pet.id for pet in service.pets()] == [7]


@pytest.mark.parametrize("fault", ["drop_before=1", "drop_after=1", "torn=1"])
def test_a_lost_response_is_what_a_real_connection_raises(fault: str) -> None:
    """A fault that ends the connection is a TransportError that leaves open what happened, and the
    pet exists if the service carried out the request.
    """
    with FakeService() as service, service.connect() as store:
        service.set_faults(fault)
        with pytest.raises(ps.errors.TransportError) as caught:
            store.api.add_pet(ps.Pet(name="Rex"))
        assert caught.value.may_have_happened
        assert len(service.pets()) == (fault != "drop_before=1")


def test_a_sign_in_works_without_a_network() -> None:
    """A token is requested from the fake service itself."""
    with FakeService([ps.Pet(id=7, name="Rex")]) as service:
        credentials = ps.auth.client_credentials(service.client_id, service.client_secret)
        transport = service.transport
        with ps.connect(service.url, auth=credentials, transport=transport, environ={}) as store:
            assert store.api.get_pet_by_id(7).name == "Rex"
            assert store.who().can_write


def test_a_long_list_is_whole() -> None:
    """A list that the sandbox sends in pieces arrives as a whole."""
    pets = [ps.Pet(id=number, name="Rex", status="sold") for number in range(1, 2_501)]
    with FakeService(pets) as service, service.connect() as store:
        assert len(store.find_by_status("sold")) == 2_500
