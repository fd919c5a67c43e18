"""The server process: start, stop, kill, and many clients at once."""

from __future__ import annotations

import asyncio
import errno
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from petsync.errors import SettingsError
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.sandbox.app import warnings

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path
from petsync.sandbox import serve
serve(port=0, db=Path(sys.argv[1]), auth=False, on_ready=lambda info: print(info.url, flush=True))
print("over", flush=True)
"""


def started(db: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a server as a separate process; return it and its base URL."""
    command = [sys.executable, "-c", PROGRAM, str(db)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[str, int]:
    """Send a signal to the server; return the rest of its output and its exit code."""
    process.send_signal(number)
    rest, _ = process.communicate(timeout=120)
    return rest, process.returncode


def test_kill_9_loses_nothing_that_was_answered(tmp_path):
    """After a SIGKILL during many adds and a restart, each pet whose add was answered exists."""
    process, url = started(tmp_path / "store.db")
    answered: list[int] = []

    def add() -> None:
        with httpx.Client() as client:
            while True:
                try:
                    answer = client.post(f"{url}/pet", json={"name": "x", "photoUrls": []})
                except httpx.TransportError:
                    return
                answered.append(answer.json()["id"])

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(answered) < 200:
        threading.Event().wait(0.01)
    ended(process, signal.SIGKILL)
    for thread in threads:
        thread.join()
    with Sandbox(db=tmp_path / "store.db") as sandbox:
        kept = {pet.id for pet in sandbox.pets()}
    assert len(answered) == len(set(answered)) >= 200
    assert set(answered) <= kept


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path, number):
    """After Ctrl-C or SIGTERM `serve` returns, the exit code is 0, and no log file of SQLite is
    left.
    """
    process, url = started(tmp_path / "store.db")
    httpx.put(f"{url}/pet", json={})
    assert ended(process, number) == ("over\n", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


def test_a_sandbox_leaves_nothing_behind():
    """A stopped sandbox leaves no thread, no open port and no temporary file."""
    before = set(threading.enumerate())
    with Sandbox() as sandbox, httpx.Client() as client:
        assert client.get(f"{sandbox.url}/openapi.json").status_code == 200
        folder = sandbox._running.service.storage.path.parent
        assert folder.exists()
        url = sandbox.url
    assert set(threading.enumerate()) == before
    assert not folder.exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_start_and_stop():
    """A sandbox can be started and stopped explicitly, each twice, and started again."""
    sandbox = Sandbox()
    with pytest.raises(RuntimeError, match="not running"):
        _ = sandbox.url
    assert sandbox.start() is sandbox.start()
    assert sandbox.url.endswith("/v2")
    sandbox.stop()
    sandbox.stop()
    assert "stopped" in repr(sandbox)
    with sandbox:
        assert sandbox.pets() == []


def test_behind_the_clients_back():
    """put, remove and reset change the store, and a client sees the changes at once."""
    with Sandbox(auth=False) as sandbox:
        assert sandbox.put(Pet(name="Rex")) == Pet(id=1, name="Rex")
        assert httpx.get(f"{sandbox.url}/pet/1").json()["name"] == "Rex"
        assert sandbox.put(Pet(id=1, name="Max")).id == 1
        assert sandbox.remove(1)
        assert httpx.get(f"{sandbox.url}/pet/1").status_code == 404
        sandbox.reset([Pet(id=3), Pet()])
        assert [pet.id for pet in sandbox.pets()] == [3, 4]


def test_many_adds_at_once_get_ids_of_their_own(tmp_path):
    """400 adds over 40 connections at once create 400 pets with different ids."""

    async def run(url: str) -> list[int]:
        limits = httpx.Limits(max_connections=40)
        async with httpx.AsyncClient(limits=limits, timeout=60) as client:
            pet = {"name": "x", "photoUrls": []}
            work = (client.post(f"{url}/pet", json=pet) for _ in range(400))
            return [answer.json()["id"] for answer in await asyncio.gather(*work)]

    with Sandbox(auth=False, db=tmp_path / "store.db") as sandbox:
        assert sorted(asyncio.run(run(sandbox.url))) == [*range(1, 401)]
        assert len(sandbox.pets()) == 400


def test_a_port_in_use():
    """A port in use is an error that names it, with a fix."""
    with Sandbox() as sandbox:
        port = int(sandbox.url.rpartition(":")[2].removesuffix("/v2"))
        with pytest.raises(SettingsError, match=f"port {port} on 127.0.0.1 is in use") as caught:
            Sandbox(port=port).start()
    assert caught.value.hint
    with Sandbox(port=port) as sandbox:
        assert sandbox.url == f"http://127.0.0.1:{port}/v2"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 70000}, "not a port"),
        ({"profile": "lively"}, "lively"),
        ({"faults": "x=1"}, "x=1"),
        ({"pets": [Pet(id=1), Pet(id=1)]}, "id 1"),
    ],
)
def test_options_that_cannot_be_used(options, words):
    """An invalid option is a SettingsError that names it, and nothing is started."""
    before = threading.active_count()
    with pytest.raises(SettingsError, match=words):
        Sandbox(**options).start()
    assert threading.active_count() == before


def test_a_server_that_cannot_start(monkeypatch):
    """If the server fails before it responds, `start` raises the error, and nothing is left."""

    async def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr("petsync.sandbox.app._Server.startup", fail)
    before = threading.active_count()
    sandbox = Sandbox()
    with pytest.raises(OSError, match="already in use"):
        sandbox.start()
    assert "stopped" in repr(sandbox)
    assert threading.active_count() == before


def seed(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_seed(tmp_path):
    """A seed fills an empty store and assigns missing ids; a store with pets is not changed."""
    path = seed(tmp_path / "pets.json", [{"name": "a"}, {"id": 5, "name": "b", "x": 1}])
    db = tmp_path / "store.db"
    with Sandbox(db=db, seed=path) as sandbox:
        assert [(pet.id, pet.name) for pet in sandbox.pets()] == [(5, "b"), (6, "a")]
        sandbox.remove(6)
    with Sandbox(db=db, seed=path) as sandbox:
        assert sandbox.pets() == [Pet(id=5, name="b", extra={"x": 1})]


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"id": "x"}]', '[{"id": 1}, {"id": 1}]'])
def test_seed_that_cannot_be_read(tmp_path, content):
    """A seed that is not a list of pets is a SettingsError that names the file."""
    path = seed(tmp_path / "pets.json", content)
    with pytest.raises(SettingsError) as caught:
        Sandbox(seed=path).start()
    assert str(path) in caught.value.message
    with pytest.raises(SettingsError, match="cannot be read"):
        Sandbox(seed=tmp_path / "missing.json").start()


@pytest.mark.parametrize(
    ("host", "auth", "count"),
    [("127.0.0.1", False, 0), ("localhost", True, 0), ("::1", True, 0), ("0.0.0.0", True, 1),
     ("0.0.0.0", False, 2), ("shop.example", True, 1)],
)  # fmt: skip
def test_other_machines_are_warned_of(host, auth, count):
    """A host that other machines can reach causes a warning, and two if no token is required."""
    assert len(warnings(host, auth=auth)) == count
