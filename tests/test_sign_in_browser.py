"""Signing in by a browser: code with PKCE and implicit, by loopback and by pasting; and attacks."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from consenting import agree, sent_back
from signing import confirmed_file, credentials, renewals, store_at

import petsync as ps
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.store.async_store import PendingSignIn

pytestmark = pytest.mark.slow

PETS = [Pet(id=1, name="Rex", status="available", photo_urls=[])]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(pets=PETS) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def live() -> Iterator[Sandbox]:
    with Sandbox(profile="live", pets=PETS) as sandbox:
        yield sandbox


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    with store_at(box, tmp_path) as one:
        yield one


@pytest.fixture
def pending(store: ps.Store) -> Iterator[PendingSignIn]:
    one = store.begin_sign_in()
    yield one
    one.close()


@pytest.fixture
def remote(store: ps.Store) -> Iterator[PendingSignIn]:
    """A sign-in where the browser is elsewhere."""
    one = store.begin_sign_in(listen=False)
    yield one
    one.close()


@pytest.fixture
def implicit(live: Sandbox, tmp_path: Path) -> Iterator[PendingSignIn]:
    with store_at(live, tmp_path) as store:
        one = store.begin_sign_in(implicit=True)
        yield one
        one.close()


def changed(address: str, **other: str | None) -> str:
    """The address with other parameters; None leaves one out."""
    base, joint, query = address.partition("#" if "#" in address else "?")
    given = {name: texts[0] for name, texts in parse_qs(query).items()} | other
    return (
        base + joint + urlencode({name: text for name, text in given.items() if text is not None})
    )


def parameter(address: str, name: str) -> str:
    """One parameter of an address."""
    parts = urlsplit(address)
    return parse_qs(parts.fragment or parts.query)[name][0]


def test_by_loopback(store: ps.Store, pending: PendingSignIn) -> None:
    """The browser comes back by itself, is told so, and the account is the person's."""
    assert pending.is_listening
    assert "You are signed in" in agree(pending.url)
    account = pending.wait(120)
    assert (account.kind, account.user, account.kept) == ("code", "shopkeeper", "memory")
    assert (account.can_read, account.can_write, account.renews) == (True, True, True)
    assert store.who() == account


def test_the_question_is_safe(pending: PendingSignIn) -> None:
    """A state and an S256 challenge are in every question, and are others each time."""
    asked = parse_qs(urlsplit(pending.url).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["response_type"] == ["code"]
    assert len(asked["state"][0]) >= 32
    assert len(asked["code_challenge"][0]) == 43
    assert asked["redirect_uri"][0].startswith("http://127.0.0.1:")


def test_no_two_questions_are_alike(store: ps.Store) -> None:
    """Each sign-in has a state and a verifier of its own."""
    urls = []
    for _ in range(2):
        one = store.begin_sign_in(listen=False)
        urls.append(one.url)
        one.close()
    for name in ("state", "code_challenge"):
        assert parameter(urls[0], name) != parameter(urls[1], name)


def test_by_pasting(store: ps.Store, remote: PendingSignIn) -> None:
    """Where the browser is elsewhere, the address that it ended on does."""
    assert not remote.is_listening
    account = remote.paste(sent_back(remote.url))
    assert (account.kind, account.user) == ("code", "shopkeeper")
    assert len(store.find_by_status("available")) == 1


@pytest.mark.parametrize("how", ["  {}\n", '"{}"', "<{}>", "{}\r\n", "query", "wrapped"])
def test_what_comes_along_when_one_copies(remote: PendingSignIn, how: str) -> None:
    """Blanks, quotes, angle brackets and a terminal's line breaks do no harm; nor does copying
    what stands behind the question mark alone.
    """
    address = sent_back(remote.url)
    if how == "query":
        pasted = address.partition("?")[2]
    elif how == "wrapped":
        pasted = "\n".join(address[i : i + 40] for i in range(0, len(address), 40))
    else:
        pasted = how.format(address)
    assert remote.paste(pasted).signed_in


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "hello",
        "https://example.org/",
        "code=abc",
        "http://127.0.0.1:1/petsync?code=abc",
        "http://[::1",
        "?" + "&".join(f"a{i}=1" for i in range(100)),
        "x" * 70_000,
        "\u202e?code=1",
    ],
)
def test_pasted_by_mistake(remote: PendingSignIn, text: str) -> None:
    """What is no such address is an error with a way out, which does not show it; the right one
    can still be pasted.
    """
    with pytest.raises(ps.errors.SettingsError) as failed:
        remote.paste(text)
    assert failed.value.hint
    assert "abc" not in str(failed.value)
    assert remote.paste(sent_back(remote.url)).signed_in


def test_the_address_to_open_is_pasted(remote: PendingSignIn) -> None:
    """Who pastes the address that was to be opened is told that."""
    with pytest.raises(ps.errors.SettingsError, match="the address to open"):
        remote.paste(remote.url)


@pytest.mark.parametrize("state", ["wrong", "", None])
def test_wrong_state_pasted(store: ps.Store, remote: PendingSignIn, state: str | None) -> None:
    """An answer to another question is not used, and the right one still is."""
    address = sent_back(remote.url)
    with pytest.raises(ps.errors.PetsyncError, match="another sign-in"):
        remote.paste(changed(address, state=state))
    assert not credentials(store)
    assert remote.paste(address).signed_in


def test_wrong_state_at_the_loopback(store: ps.Store, pending: PendingSignIn) -> None:
    """A page elsewhere that sends the browser here with a code of its own gets nowhere, and does
    not end the sign-in either.
    """
    address = sent_back(pending.url)
    for wrong in (
        changed(address, state="wrong"),
        changed(address, state=None),
        address + "&state=x",
    ):
        assert "did not work" in httpx.get(wrong).text
    assert not credentials(store)
    assert "You are signed in" in httpx.get(address).text
    assert pending.wait(120).signed_in


def test_a_stolen_code_of_another(store: ps.Store, pending: PendingSignIn, tmp_path: Path) -> None:
    """A code from somebody else's sign-in, put in with the right state, lacks its verifier."""
    other = store.begin_sign_in(listen=False)
    stolen = parameter(sent_back(other.url), "code")
    state = parameter(pending.url, "state")
    back = parameter(pending.url, "redirect_uri")
    answer = {"code": stolen, "state": state, "iss": _origin(pending.url)}
    assert "did not work" in httpx.get(back, params=answer).text
    with pytest.raises(ps.errors.AuthError, match="does not accept this sign-in"):
        pending.wait(120)
    assert not credentials(store)


@pytest.mark.parametrize("iss", ["https://evil.example", "", None])
def test_mixed_up_issuer(store: ps.Store, remote: PendingSignIn, iss: str | None) -> None:
    """An answer that names another service, or none where this one promised to, is not used: no
    code is sent anywhere.
    """
    address = changed(sent_back(remote.url), iss=iss)
    with pytest.raises(ps.errors.AuthError, match="does not come from the service"):
        remote.paste(address)
    assert not credentials(store)
    assert remote.is_open
    assert remote.paste(changed(address, iss=_origin(remote.url))).signed_in


@pytest.mark.parametrize("iss", ["https://evil.example", None])
def test_mixed_up_issuer_at_the_loopback(pending: PendingSignIn, iss: str | None) -> None:
    """Such an answer from the browser leaves the sign-in open for the right one, too."""
    address = sent_back(pending.url)
    assert "did not work" in httpx.get(changed(address, iss=iss)).text
    assert "You are signed in" in httpx.get(address).text
    assert pending.wait(120).signed_in


@pytest.mark.parametrize("listen", [True, False])
def test_the_store_was_closed(box: Sandbox, tmp_path: Path, listen: bool) -> None:
    """A sign-in whose store was closed signs nobody in, whoever waits for it is told, and its
    port is free.
    """
    with store_at(box, tmp_path) as store:
        pending = store.begin_sign_in(listen=listen)
        address = sent_back(pending.url)
    for call in (lambda: pending.paste(address), lambda: pending.wait(120)):
        with pytest.raises(ps.errors.AuthError, match="was closed"):
            call()
    assert not pending.is_open
    assert not credentials(store)
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


@pytest.mark.parametrize("sent", [b"", b"GET /petsync"])
def test_a_silent_connection_makes_no_noise(box: Sandbox, tmp_path: Path, caplog, sent) -> None:
    """A connection that a browser opens beforehand, and that says nothing, is closed with the
    sign-in; neither the store's end nor its own leaves an error behind.
    """
    with store_at(box, tmp_path) as store:
        pending = store.begin_sign_in()
        loopback = pending.aio._loopback
        assert loopback is not None
        place = urlsplit(parameter(pending.url, "redirect_uri"))
        with socket.create_connection(("127.0.0.1", place.port or 0), timeout=120) as line:
            line.sendall(sent)
            assert "You are signed in" in agree(pending.url)
            assert pending.wait(120).signed_in
            with suppress(ConnectionResetError):
                assert line.recv(100) == b""
            until_true(lambda: not loopback._reading)
    assert not [each for each in caplog.records if each.name == "asyncio"]


def until_true(condition: Callable[[], bool]) -> None:
    """Return when that is so."""
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("sent", [b"", b"GET /petsync"])
def test_a_loop_that_ends_with_a_connection(box: Sandbox, tmp_path: Path, caplog, sent) -> None:
    """A loop that is ended while somebody is connected prints nothing either."""
    lines = []

    async def story() -> None:
        store = ps.connect(box.url, state=tmp_path, environ={}).aio
        pending = await store.begin_sign_in()
        place = urlsplit(parameter(pending.url, "redirect_uri"))
        lines.append(socket.create_connection(("127.0.0.1", place.port or 0), timeout=120))
        lines[0].sendall(sent)
        assert pending._loopback is not None
        loopback = pending._loopback
        await asyncio.to_thread(until_true, lambda: bool(loopback._reading))
        assert loopback._server is not None
        loopback._server.close()  # The port alone.

    asyncio.run(story())
    lines[0].close()
    assert not [each for each in caplog.records if each.name == "asyncio"]


def test_declined(store: ps.Store, pending: PendingSignIn) -> None:
    """A person who says no is told so in the browser, and whoever waits hears it."""
    assert "declined" in agree(pending.url, "deny")
    with pytest.raises(ps.errors.AuthError, match="declined"):
        pending.wait(120)
    assert not credentials(store)


def test_hostile_error_text(remote: PendingSignIn) -> None:
    """What an address says for an error is shown in one short line of plain text."""
    back = parameter(remote.url, "redirect_uri")
    said = {"error": "weird\x1b[31m", "error_description": "<b>x</b>\n\u202e" + "y" * 5000}
    query = urlencode({**said, "state": parameter(remote.url, "state"), "iss": _origin(remote.url)})
    with pytest.raises(ps.errors.AuthError) as failed:
        remote.paste(f"{back}?{query}")
    assert len(failed.value.message) < 400
    assert failed.value.message.isprintable()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def test_error_on_the_page_is_escaped(pending: PendingSignIn) -> None:
    """The loopback page shows a service's words as text and runs nothing."""
    back = parameter(pending.url, "redirect_uri")
    said = {"error": "<script>alert(1)</script>", "state": parameter(pending.url, "state")}
    page = httpx.get(back, params={**said, "iss": _origin(pending.url)})
    assert "<script>alert" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"


def test_a_code_that_comes_twice(remote: PendingSignIn) -> None:
    """An answer is used once; a second time it is refused here, and its code stays unsent."""
    address = sent_back(remote.url)
    assert remote.paste(address).signed_in
    with pytest.raises(ps.errors.AuthError, match="complete already"):
        remote.paste(address)


def test_a_code_that_was_spent_elsewhere(
    box: Sandbox, store: ps.Store, remote: PendingSignIn
) -> None:
    """A code that somebody used before is an error with a way out."""
    address = sent_back(remote.url)
    form = {"grant_type": "authorization_code", "code": parameter(address, "code")}
    httpx.post(f"{_origin(box.url)}/oauth/token", data={**form, "client_id": "petsync"})
    with pytest.raises(ps.errors.AuthError, match="Sign in again"):
        remote.paste(address)
    assert not credentials(store)


def test_both_at_once(box: Sandbox, store: ps.Store, pending: PendingSignIn) -> None:
    """The browser's return and a pasted copy of it: one counts, the code is sent once, and the
    browser gets its page.
    """
    address = sent_back(pending.url)
    place = urlsplit(address)
    with socket.create_connection(("127.0.0.1", place.port or 0), timeout=120) as browser:
        request = f"GET {place.path}?{place.query} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n"
        browser.sendall(request.encode())
        with suppress(ps.errors.AuthError):
            pending.paste(address)
        page = browser.makefile("rb").read()
    assert page.startswith(b"HTTP/1.1 200 ")
    assert pending.wait(120).signed_in
    assert renewals(box) == 0
    assert store.find_by_status("available") is not None


def test_nobody_comes(pending: PendingSignIn) -> None:
    """After the time that was given the waiting ends, and so does the listening."""
    with pytest.raises(ps.errors.AuthError, match="did not return in time"):
        pending.wait(0.05)
    assert not pending.is_listening
    with pytest.raises(httpx.ConnectError):
        httpx.get(parameter(pending.url, "redirect_uri"))


def test_closed(store: ps.Store, pending: PendingSignIn) -> None:
    """Closing ends the listening, at once and as often as one likes."""
    pending.close()
    pending.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(parameter(pending.url, "redirect_uri"))


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n",
        b"GET /favicon.ico HTTP/1.1\r\nHost: {host}\r\n\r\n",
        b"POST /petsync?code=1 HTTP/1.1\r\nHost: {host}\r\ncontent-length: 0\r\n\r\n",
        b"GET /petsync?code=1 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /petsync?code=1 HTTP/1.1\r\n\r\n",
        b"GET /petsync?code=1 HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n",
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
    ],
)
def test_strangers_at_the_loopback(pending: PendingSignIn, request_: bytes) -> None:
    """Anything but the browser's return gets 404, and the sign-in goes on."""
    place = urlsplit(parameter(pending.url, "redirect_uri"))
    assert place.port is not None
    with socket.create_connection(("127.0.0.1", place.port), timeout=120) as line:
        line.sendall(request_.replace(b"{host}", place.netloc.encode()))
        assert line.recv(100).startswith(b"HTTP/1.1 404 ")
    assert "You are signed in" in agree(pending.url)


@pytest.mark.parametrize("sent", [b"", b"GET /petsync", b"GET /" + b"x" * 200_000])
def test_half_requests_at_the_loopback(pending: PendingSignIn, sent: bytes) -> None:
    """A connection that says nothing whole, or far too much, holds nobody up."""
    place = urlsplit(parameter(pending.url, "redirect_uri"))
    assert place.port is not None
    with socket.create_connection(("127.0.0.1", place.port), timeout=120) as line:
        with suppress(OSError):
            line.sendall(sent)
        assert "You are signed in" in agree(pending.url)
        assert pending.wait(120).signed_in


def test_only_this_machine_reaches_the_loopback(pending: PendingSignIn) -> None:
    """It listens on 127.0.0.1 and on no other address."""
    place = urlsplit(parameter(pending.url, "redirect_uri"))
    assert place.hostname == "127.0.0.1"
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.2", place.port or 0), 5),
    ):
        pass


def test_on_another_loop(store: ps.Store) -> None:
    """A sign-in that was begun on one event loop can be waited for on another."""
    pending = store.begin_sign_in()
    assert "You are signed in" in agree(pending.url)
    assert asyncio.run(pending.aio.arrived(30)).signed_in


def test_it_closes_on_its_own_loop(store: ps.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets and tasks belong to the loop that listens, whoever ends the sign-in, and on which."""
    threads: list[int] = []
    close = asyncio.base_events.Server.close

    def noted(server: asyncio.base_events.Server) -> None:
        threads.append(threading.get_ident())
        close(server)

    monkeypatch.setattr(asyncio.base_events.Server, "close", noted)
    pending = store.begin_sign_in()
    asyncio.run(pending.aio.close())
    assert threads == [store._loop.run(_thread())]
    assert not pending.is_listening


async def _thread() -> int:
    return threading.get_ident()


def test_interrupted(store: ps.Store, pending: PendingSignIn) -> None:
    """Who stops waiting leaves nothing behind: the port is free again."""

    async def story() -> None:
        waiting = asyncio.create_task(pending.aio.arrived(30))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    store._loop.run(story())
    assert not pending.is_listening


def test_implicit_by_loopback_page(implicit: PendingSignIn) -> None:
    """The page there hands on what stands behind #, which no browser sends, and nothing else."""
    address = sent_back(implicit.url)
    page = httpx.get(address)  # Without the fragment, as a browser does.
    assert "location.hash" in page.text
    assert "script-src 'sha256-" in page.headers["content-security-policy"]
    place, _, fragment = address.partition("#")
    assert "access_token" not in httpx.get(f"{place}?{fragment}").text
    assert not implicit.aio._account.done()
    assert "You are signed in" in httpx.post(place, content=fragment).text
    account = implicit.wait(120)
    assert (account.kind, account.renews, account.user) == ("implicit", False, "shopkeeper")
    assert account.expires is not None


@pytest.mark.parametrize("how", ["address", "fragment", "bare"])
def test_implicit_by_pasting(implicit: PendingSignIn, how: str) -> None:
    """The address, what stands behind #, or the token alone: each signs in."""
    address = sent_back(implicit.url)
    pasted = {
        "address": address,
        "fragment": address.partition("#")[2],
        "bare": parameter(address, "access_token"),
    }[how]
    account = implicit.paste(pasted)
    assert (account.kind, account.can_read, account.can_write) == ("implicit", True, True)


def test_implicit_wrong_state(implicit: PendingSignIn) -> None:
    """A token that somebody else put into the address is not used."""
    address = sent_back(implicit.url)
    for state in ("wrong", None):
        with pytest.raises(ps.errors.PetsyncError, match="another sign-in"):
            implicit.paste(changed(address, state=state))
    assert implicit.paste(address).signed_in


def test_implicit_bare_nonsense(implicit: PendingSignIn) -> None:
    """A bare text that the service does not know as a token is refused."""
    for text in ("not a token", "nonsense"):
        with pytest.raises(ps.errors.PetsyncError) as failed:
            implicit.paste(text)
        assert text not in str(failed.value)


def test_implicit_declined(implicit: PendingSignIn) -> None:
    """A refusal behind # is told as any other."""
    with pytest.raises(ps.errors.AuthError, match="declined"):
        implicit.paste(sent_back(implicit.url, "deny"))


def test_a_way_that_is_not_offered(store: ps.Store, live: Sandbox, tmp_path: Path) -> None:
    """Where the service says that it does not offer a way, it names the other one."""
    with pytest.raises(ps.errors.SettingsError, match="Leave implicit out"):
        store.begin_sign_in(implicit=True)
    with (
        store_at(live, tmp_path) as other,
        pytest.raises(ps.errors.SettingsError, match="implicit=True"),
    ):
        other.begin_sign_in()


def test_auth_implicit(live: Sandbox, tmp_path: Path) -> None:
    """ps.auth.implicit takes an address with the state that it was asked with, and no other."""
    with store_at(live, tmp_path) as store:
        pending = store.begin_sign_in(implicit=True, listen=False)
        address, state = sent_back(pending.url), parameter(pending.url, "state")
        with pytest.raises(ps.errors.SettingsError, match="no state was given to compare"):
            ps.auth.implicit(address)
        with pytest.raises(ps.errors.AuthError, match="another sign-in"):
            ps.auth.implicit(address, state="other")
        with pytest.raises(ps.errors.AuthError, match="contains no token"):
            ps.auth.implicit(f"https://a.example/#state={state}", state=state)
        account = store.sign_in(ps.auth.implicit(address, state=state))
        assert (account.kind, account.can_write) == ("implicit", True)


def test_fewer_scopes(store: ps.Store, box: Sandbox) -> None:
    """Asking for reading alone gives that alone, and says so."""
    pending = store.begin_sign_in(scopes="read:pets", listen=False)
    account = pending.paste(sent_back(pending.url))
    assert account.scopes == frozenset({"read:pets"})
    assert account.can_write is False
    assert "write:pets" in account.problem
    assert renewals(box) == 0


def test_configured_redirect(box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that wants one address only gets the configured one, port, path and all."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        place = f"http://127.0.0.1:{probe.getsockname()[1]}/back"
    text = f'url = "{box.url}"\n[auth]\nredirect_url = "{place}"\n'
    confirmed_file(tmp_path, text, monkeypatch)
    with store_at(box, tmp_path) as store:
        pending = store.begin_sign_in()
        assert parameter(pending.url, "redirect_uri") == place
        assert "You are signed in" in agree(pending.url)
        assert pending.wait(120).signed_in
        taken = socket.create_server(("127.0.0.1", urlsplit(place).port or 0))
        with taken, pytest.raises(ps.errors.SettingsError, match="cannot listen"):
            store.begin_sign_in()
