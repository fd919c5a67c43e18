"""petsync app: the page, on this machine, for who has its link."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from commands import Shell, process

from petsync.cli import app as command
from petsync.sandbox import Sandbox


@contextmanager
def _served(*args: object, sign: int = signal.SIGINT) -> Iterator[str]:
    """The page's link; it is ended by the signal, and cleanly."""
    options = ("app", "--no-browser", "--json", *args)
    with process(*options, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        text = ""
        for line in iter(running.stdout.readline, ""):
            text += line
            if line == "}\n":
                break
        try:
            yield json.loads(text)["url"]
        finally:
            running.send_signal(sign)
            assert running.wait(60) == 0


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The link of a page for a store that asks for tokens."""
    state = tmp_path_factory.mktemp("page") / "state"
    with Sandbox(pets=[]) as box, _served("--url", box.url, "--state", state) as url:
        yield url


def _page(link: str) -> str:
    parts = urlsplit(link)
    return f"{parts.scheme}://{parts.netloc}"


def test_nobody_else_is_let_in(link: str) -> None:
    """Without the token in the link there is no page, no kernel and no file."""
    page = _page(link)
    token = parse_qs(urlsplit(link).query)["token"][0]
    assert len(token) >= 32
    for url in (page, f"{page}/?token=wrong"):
        answer = httpx.get(url)
        assert answer.status_code in {302, 401, 403}
        assert token not in answer.text + str(answer.headers)
    kernel = "00000000-0000-0000-0000-000000000000"
    assert httpx.get(f"{page}/api/kernels/{kernel}").status_code in {302, 401, 403}
    assert httpx.get(f"{page}/voila/files/app.ipynb?token={token}").status_code in {403, 404}


def test_it_listens_on_this_machine_alone(link: str) -> None:
    """It has an address of the loopback, and answers to no other name."""
    parts = urlsplit(link)
    assert parts.hostname == "127.0.0.1"
    answer = httpx.get(link, headers={"Host": f"evil.example:{parts.port}"})
    assert answer.status_code == 403


def test_the_page_holds_the_form(link: str) -> None:
    """Whoever has the link gets the page with the forms; it names no other server, and the browser
    is told to ask none.
    """
    with httpx.Client(timeout=120, follow_redirects=True) as client:
        answer = client.get(link)
    assert answer.status_code == 200
    assert "application/vnd.jupyter.widget-view+json" in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    asked = re.findall(r"(?:src|href)=[\"']?(https?:)?//[^\"'> ]+", answer.text)
    assert asked == []


def test_settings_are_judged_first(shell: Shell) -> None:
    """What is wrong with the settings is told at once, and no page is begun."""
    Path("petsync.toml").write_text("urll = 'x'\n", "utf-8")
    done = shell("app", "--no-browser")
    assert done.code == 64
    assert "unknown key 'urll'" in done.err


def test_a_port_that_is_taken(shell: Shell) -> None:
    """A taken port is told, with the way out."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = shell("app", "--no-browser", "--port", port)
    assert done.code == 64
    assert f"--port {port} cannot be used" in done.err
    assert "Leave --port out" in done.err


def test_without_voila(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Voilà is not installed it says how to install it."""
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    done = shell("app")
    assert done.code == 64
    assert "pip install 'petsync[app]'" in done.err
