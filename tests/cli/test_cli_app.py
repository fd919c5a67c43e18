"""petsync app: the page on this machine, for the user who has its link."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, urlsplit

import httpx
import psutil
import pytest
from commands import Shell, process

from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@contextmanager
def _served(
    *args: object, sign: int = signal.SIGINT, stderr: IO[bytes] | int = subprocess.DEVNULL
) -> Iterator[str]:
    """Run `petsync app` and yield the page's link; assert that the signal ends it with exit
    code 0.
    """
    options = ("app", "--no-browser", "--json", *args)
    with process(*options, stderr=stderr) as running:
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
    """Yield the link of a page for a store that requires tokens."""
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
        assert answer.status_code == 403
        assert token not in answer.text + str(answer.headers)
    kernel = "00000000-0000-0000-0000-000000000000"
    assert httpx.get(f"{page}/api/kernels/{kernel}").status_code == 403
    assert httpx.get(f"{page}/voila/files/app.ipynb?token={token}").status_code in {403, 404}


@pytest.mark.parametrize("path", ["", "/login", "/login?next=%2F", "/logout", "/voila/static/x.js"])
def test_without_the_link_it_says_where_it_is(link: str, path: str) -> None:
    """A request without the link gets a page that asks the user to open the link, and that loads
    nothing.
    """
    answer = httpx.get(f"{_page(link)}{path}")
    assert (answer.status_code, answer.is_redirect) == (403, False)
    assert "Open the link from the terminal" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert re.findall(r"<(?:form|input|script|img|a)\b", answer.text) == []
    assert httpx.post(f"{_page(link)}{path}", data={"password": "x"}).status_code == 403


def test_its_cookies_stay_on_its_site(link: str) -> None:
    """A request that another site causes carries no cookie of the page."""
    with httpx.stream("GET", link, timeout=120) as answer:
        cookies = answer.headers.get_list("set-cookie")
    assert {each.partition("=")[0] for each in cookies} == {
        f"petsync-page-{urlsplit(link).port}",
        "_xsrf",
    }
    assert all("samesite=strict" in each.lower() for each in cookies)


def test_a_forged_cookie_is_none(link: str) -> None:
    """A cookie that the page did not sign gives no access."""
    name = f"petsync-page-{urlsplit(link).port}"
    answer = httpx.get(_page(link), headers={"Cookie": f"{name}=2|1:0|10:1|4:name|4:eHh4|00"})
    assert answer.status_code == 403


def test_what_is_not_there(tmp_path: Path) -> None:
    """With the link, an unknown path gets petsync's own error page, and the terminal shows no
    error.
    """
    paths = ["/login", "/logout", "/nothing", "/voila/templates/", "/voila/templates/lab"]
    paths += ["/voila/files/app.ipynb", "/api/kernels", "/voila/templates/%2e%2e/static/x"]
    log = tmp_path / "terminal"
    with log.open("wb") as out, _served("--state", tmp_path / "state", stderr=out) as link:
        query = urlsplit(link).query
        for path in paths:
            answer = httpx.get(f"{_page(link)}{path}?{query}")
            assert answer.status_code == 404, path
            assert "This page does not exist" in answer.text, path
    assert "Traceback" not in log.read_text()
    assert "Exception" not in log.read_text()


@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "at-work"])
def test_a_page_that_ends_soon_prints_no_error(tmp_path: Path, waits: bool) -> None:
    """The kernel that prepares the page ends without an error, whatever it is doing."""
    log = tmp_path / "terminal"
    with log.open("wb") as out, _served("--state", tmp_path / "state", stderr=out) as link:
        while waits and not _kernels(link):
            time.sleep(0.02)
    assert "Traceback" not in log.read_text()
    assert log.read_text().endswith("The page has ended.\n")


def test_a_kernel_does_not_get_the_token(link: str) -> None:
    """The environment of a page's kernel does not contain the page's token."""
    parts = urlsplit(link)
    token = parse_qs(parts.query)["token"][0]
    with httpx.Client(timeout=120) as client, client.stream("GET", link) as answer:
        kernels: list[psutil.Process] = []
        for _ in answer.iter_bytes():
            kernels = _kernels(link)
            if kernels:
                break
    assert kernels
    environments = [each.environ() for each in kernels]
    assert not [name for each in environments for name, value in each.items() if token in value]


@pytest.mark.parametrize("folder", ["short", "a-folder-with-a-name-that-is-too-long-for-a-socket"])
def test_a_kernel_sends_through_no_port(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page's kernel sends through Unix sockets that only this user can open: other users could
    read what it sends through a TCP port. It listens on one port, which only receives: the output
    of forked processes.
    """
    temporary = tmp_path / folder
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with _served("--state", tmp_path / "state") as link:
        assert httpx.get(link, timeout=120).status_code == 200
        (kernel,) = _kernels(link)
        listening = [each for each in kernel.net_connections() if each.status == "LISTEN"]
        assert len(listening) <= 1
        sockets = {Path(each.laddr) for each in kernel.net_connections("unix") if each.laddr}
        assert len(sockets) == 5
        assert all(each.parent.stat().st_mode & 0o077 == 0 for each in sockets)


def _kernels(link: str) -> list[psutil.Process]:
    """Return the kernels of the page, which are among the processes that these tests started."""
    port, found = str(urlsplit(link).port), []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if child.environ().get("VOILA_APP_PORT") == port:
                found.append(child)
    return found


def test_it_listens_on_this_machine_alone(link: str) -> None:
    """The page listens only on the loopback address, and refuses any other host name."""
    parts = urlsplit(link)
    assert parts.hostname == "127.0.0.1"
    answer = httpx.get(link, headers={"Host": f"evil.example:{parts.port}"})
    assert answer.status_code == 403


def test_the_page_holds_the_form(link: str) -> None:
    """With the link, the page with the forms is returned. It names no other host, and its security
    policy allows none.
    """
    with httpx.Client(timeout=120, follow_redirects=True) as client:
        answer = client.get(link)
    assert answer.status_code == 200
    assert "application/vnd.jupyter.widget-view+json" in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    asked = re.findall(r"(?:src|href)=[\"']?(https?:)?//[^\"'> ]+", answer.text)
    assert asked == []


def test_a_page_s_kernel_loads_no_server() -> None:
    """A page's kernel imports no part of the server, which takes seconds to load."""
    notebook = files("petsync.widgets").joinpath("assets", "app.ipynb").read_text("utf-8")
    [line] = re.findall(r"from petsync\.[\w.]+ import open_page", notebook)
    assert not {"voila", "jupyter_server", "nbformat", "tornado.web"} & _modules_after(line)


def test_the_page_s_server_loads_no_form() -> None:
    """The page's server imports no form and no store, which take as long to load as the server."""
    loaded = _modules_after("import petsync.widgets.webapp")
    assert "voila" in loaded
    assert not {"petsync.widgets.app", "petsync.store", "ipywidgets", "pandas"} & loaded


def _modules_after(line: str) -> set[str]:
    code = f"import sys; {line}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_page_loads_its_scripts_while_the_kernel_starts(link: str) -> None:
    """The page names its scripts and its kernel before the kernel has an answer, and each script
    once.
    """
    with httpx.Client(timeout=120) as client:
        text = client.get(link).text
    start, _, rest = text.partition("window.voila_process = ")
    assert '"kernelId": "' in start
    assert start.count("/voila.js") == 1
    assert start.count('rel="preload"') > 2
    assert "/voila.js" not in rest


def test_a_closed_tab_ends_its_kernel(link: str) -> None:
    """The request that the page's script sends when its tab is closed ends the tab's kernel, after
    the time for a reload, which gets the same kernel.
    """
    with httpx.Client(timeout=120) as client:
        text = client.get(link).text
        kernel = re.search(r'"?kernelId"?: "([-0-9a-f]{36})"', text)
        assert kernel is not None
        given = {"_xsrf": client.cookies.get("_xsrf", "")}
        ended = client.post(f"{_page(link)}/voila/api/shutdown/{kernel[1]}", data=given)
        assert ended.status_code == 204
        assert client.get(link).text == text
        assert client.post(ended.url, data=given).status_code == 204
        until = time.monotonic() + 60
        while client.get(f"{_page(link)}/api/kernels/{kernel[1]}").status_code != 404:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_a_reload_may_arrive_before_its_tab_leaves(link: str) -> None:
    """A reloaded page gets its kernel, also if the request that leaves the page arrives after the
    one that loads it again.
    """
    with httpx.Client(timeout=120) as client, ThreadPoolExecutor(1) as pool:
        text = client.get(link).text
        kernel = re.search(r'"?kernelId"?: "([-0-9a-f]{36})"', text)
        assert kernel is not None
        reloaded = pool.submit(client.get, link, headers={"Cache-Control": "max-age=0"})
        time.sleep(0.5)
        given = {"_xsrf": client.cookies.get("_xsrf", "")}
        client.post(f"{_page(link)}/voila/api/shutdown/{kernel[1]}", data=given)
        assert reloaded.result(60).text == text


def test_settings_are_judged_first(shell: Shell) -> None:
    """A mistake in the settings is reported at once, and no page is started."""
    Path("petsync.toml").write_text("urll = 'x'\n", "utf-8")
    done = shell("app", "--no-browser")
    assert done.code == 64
    assert "petsync.toml:1: urll: there is no such option\n  Did you mean url?" in done.err


def test_a_port_that_is_taken(shell: Shell) -> None:
    """A port that is in use is reported, with the fix."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = shell("app", "--no-browser", "--port", port)
    assert done.code == 64
    assert f"--port {port} cannot be used" in done.err
    assert "Omit --port" in done.err
