"""petsync serve: a local pet store."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import Shell, process, shop

from petsync.cli import tools
from petsync.cli.context import Context
from petsync.protocol.json import encode_pets
from petsync.sandbox import Sandbox
from petsync.sandbox.app import ServedInfo

pytestmark = pytest.mark.slow


@contextmanager
def _served(*args: object, sign: int = signal.SIGINT) -> Iterator[dict[str, Any]]:
    """Run the server, yield its start-up document, and end it with the signal."""
    with process("serve", "--port", "0", "--json", *args, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        lines = iter(running.stdout.readline, "")
        text = ""
        for line in lines:
            text += line
            if line == "}\n":
                break
        try:
            yield json.loads(text)
        finally:
            running.send_signal(sign)
            assert running.wait(120) == (0 if sign == signal.SIGINT else -sign)


def test_serves_the_sample_catalogue(shell: Shell) -> None:
    """A new store has the sample catalogue and answers at the printed address."""
    with _served("--no-auth") as document:
        assert document["pets"] == 1240
        pets = httpx.get(document["url"] + "/pet/findByStatus?status=available").json()
        assert len(pets) > 100
        assert httpx.get(document["openapi_url"]).status_code == 200
    assert document["db"] == ".petsync/store.db"


def test_what_was_written_survives_kill(shell: Shell) -> None:
    """After kill -9 and a restart without options, the added pet is in the store."""
    with _served("--no-auth", sign=signal.SIGKILL) as document:
        pet = {"name": "Phoenix", "photoUrls": [], "status": "sold"}
        number = httpx.post(document["url"] + "/pet", json=pet).json()["id"]
    with _served("--no-auth") as document:
        assert document["pets"] == 1241
        assert httpx.get(f"{document['url']}/pet/{number}").json()["name"] == "Phoenix"


def test_seed_and_db(shell: Shell) -> None:
    """--seed fills the store in the file of --db."""
    Path("pets.json").write_bytes(encode_pets(shop()))
    with _served("--no-auth", "--seed", "pets.json", "--db", "mine.db") as document:
        assert document["pets"] == 6
    assert Path("mine.db").exists()
    assert not Path(".petsync").exists()


def test_token_for_the_named_client(shell: Shell) -> None:
    """The printed client id and secret get a token that gives access to the store."""
    with _served("--db", "s.db") as document:
        origin = document["url"].removesuffix("/v2")
        client = (document["client_id"], document["client_secret"])
        form = {"grant_type": "client_credentials"}
        token = httpx.post(f"{origin}/oauth/token", data=form, auth=client).json()["access_token"]
        address = document["url"] + "/pet/findByStatus?status=sold"
        assert httpx.get(address).status_code == 401
        head = {"authorization": f"Bearer {token}"}
        assert httpx.get(address, headers=head).status_code == 200


def test_the_live_sample_has_room(shell: Shell) -> None:
    """A new live store has half of its capacity, and a pet can be added."""
    Path("new.csv").write_text("name,status\nRex,available\n", "utf-8")
    with _served("--no-auth", "--profile", "live") as document:
        assert document["pets"] == 500
        to = ("--url", document["url"], "--profile", "live")
        assert shell("doctor", *to).code == 0
        assert shell("apply", "new.csv", *to, "--yes").code == 0
        pets = httpx.get(document["url"] + "/pet/findByStatus?status=available").json()
        assert [pet["name"] for pet in pets].count("Rex") == 1


def test_profile_and_faults(shell: Shell) -> None:
    """--profile and --faults reach the server."""
    with _served("--no-auth", "--profile", "live", "--faults", "503=1,only=getPetById") as document:
        assert document["profile"] == "live"
        assert httpx.get(document["url"] + "/pet/1").status_code == 503
        assert httpx.get(document["url"] + "/pet/findByStatus?status=lost").json() == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--faults", "429=2"], "429=2"),
        (["--profile", "odd"], "odd"),
        (["--seed", "none.json"], "none.json"),
        (["--port", "70000"], "70000"),
        (["--state", "file"], "file"),
    ],
)
def test_options_that_cannot_be_used(shell: Shell, args: list[str], message: str) -> None:
    """An option that cannot be used is a usage error that names its value."""
    Path("file").write_text("", "utf-8")
    done = shell("serve", *args)
    assert done.code == 64
    assert message in done.err


def test_port_in_use(shell: Shell) -> None:
    """A port in use is reported."""
    with Sandbox(auth=False) as box:
        port = box.url.removesuffix("/v2").rpartition(":")[2]
        done = shell("serve", "--port", port, "--db", "s.db")
    assert done.code == 64
    assert "in use" in done.err


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """The address, the way to get a token and each warning are on stderr; stdout is empty."""
    info = ServedInfo(
        url="http://127.0.0.1:8080/v2",
        openapi_url="http://127.0.0.1:8080/openapi.json",
        profile="standard",
        auth=True,
        db=Path("s.db"),
        pets=6,
        client_id="sandbox",
        client_secret="shown",
        api_key="key",
        warnings=("other machines can reach 0.0.0.0",),
    )
    tools._show_service(Context(), info)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("warning: other machines can reach 0.0.0.0\n")
    assert "curl -s -u sandbox:shown -d grant_type=client_credentials" in output.err
    assert "http://127.0.0.1:8080/oauth/token" in output.err
    login = output.err.index("  petsync login --url http://127.0.0.1:8080/v2\n")
    assert login < output.err.index("PETSYNC_TOKEN")


@pytest.mark.parametrize(("pets", "text"), [(0, "0 pets"), (1, "1 pet"), (1240, "1,240 pets")])
def test_pets_are_counted_in_words(
    capsys: pytest.CaptureFixture[str], pets: int, text: str
) -> None:
    """The number of pets is shown with the singular or the plural."""
    info = ServedInfo(
        url="http://127.0.0.1:8080/v2",
        openapi_url="http://127.0.0.1:8080/openapi.json",
        profile="standard",
        auth=False,
        db=Path("s.db"),
        pets=pets,
        client_id="",
        client_secret="",
        api_key="",
    )
    tools._show_service(Context(), info)
    assert f"A pet store with {text} answers at" in capsys.readouterr().err


def test_a_store_has_one_server(shell: Shell) -> None:
    """A second server on the same file is refused; after the first has ended, it starts."""
    with _served("--no-auth", "--db", "s.db"):
        done = shell("serve", "--no-auth", "--port", "0", "--db", "s.db")
        assert done.code == 64
        assert "another server" in done.err
    assert [path.name for path in Path().iterdir()] == ["s.db"]
    with _served("--no-auth", "--db", "s.db") as document:
        assert document["pets"] == 1240
