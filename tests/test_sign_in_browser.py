"""Signing in by a browser: code with PKCE and implicit, by loopback and by pasting, and attacks."""

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
from ports import free_port
from signing import confirmed_file, credentials, renewals, store_at

import petsync as ps
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.store.signin import PendingSignIn

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
    """Yield a sign-in whose browser is on another machine."""
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
    """Return the address with other parameters; None removes one."""
    base, joint, query = address.partition("#" if "#" in address else "?")
    given = {name: texts[0] for name, texts in parse_qs(query).items()} | other
    return (
        base + joint + urlencode({name: text for name, text in given.items() if text is not None})
    )


def parameter(address: str, name: str) -> str:
    """Return one parameter of an address."""
    parts = urlsplit(address)
    return parse_qs(parts.fragment or parts.query)[name][0]


def test_by_loopback(store: ps.Store, pending: PendingSignIn) -> None:
    """The browser returns to the loopback, its page confirms, and the account is the user's."""
    assert pending.is_listening
    assert "You are signed in" in agree(pending.url)
    account = pending.wait(120)
    assert (account.kind, account.user, account.kept) == ("code", "shopkeeper", "memory")
    assert (account.can_read, account.can_write, account.renews) == (True, True, True)
    assert store.who() == account


def test_the_question_is_safe(pending: PendingSignIn) -> None:
    """An authorization request has a long state, an S256 challenge and a loopback redirect."""
    asked = parse_qs(urlsplit(pending.url).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["response_type"] == ["code"]
    assert len(asked["state"][0]) >= 32
    assert len(asked["code_challenge"][0]) == 43
    assert asked["redirect_uri"][0].startswith("http://127.0.0.1:")


def test_no_two_questions_are_alike(store: ps.Store) -> None:
    """Each sign-in has its own state and its own verifier."""
    urls = []
    for _ in range(2):
        one = store.begin_sign_in(listen=False)
        urls.append(one.url)
        one.close()
    for name in ("state", "code_challenge"):
        assert parameter(urls[0], name) != parameter(urls[1], name)


def test_by_pasting(store: ps.Store, remote: PendingSignIn) -> None:
    """Where the browser is on another machine, its final address is pasted and signs in."""
    assert not remote.is_listening
    account = remote.paste(sent_back(remote.url))
    assert (account.kind, account.user) == ("code", "shopkeeper")
    assert len(store.find_by_status("available")) == 1


@pytest.mark.parametrize("how", ["  {}\n", '"{}"', "<{}>", "{}\r\n", "query", "wrapped"])
def test_what_comes_along_when_one_copies(remote: PendingSignIn, how: str) -> None:
    """A pasted address may have spaces, quotes, angle brackets or line breaks around it, or be only
    the query.
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
    """A pasted text that is not such an address raises an error with a hint that does not show it;
    the right address can still be pasted.
    """
    with pytest.raises(ps.errors.SettingsError) as failed:
        remote.paste(text)
    assert failed.value.hint
    assert "abc" not in str(failed.value)
    assert remote.paste(sent_back(remote.url)).signed_in


def test_the_address_to_open_is_pasted(remote: PendingSignIn) -> None:
    """A user who pastes the address to open gets an error that names this mistake."""
    with pytest.raises(ps.errors.SettingsError, match="the address to open"):
        remote.paste(remote.url)


@pytest.mark.parametrize("state", ["wrong", "", None])
def test_wrong_state_pasted(store: ps.Store, remote: PendingSignIn, state: str | None) -> None:
    """A pasted response with another state is refused, and the right response is still accepted."""
    address = sent_back(remote.url)
    with pytest.raises(ps.errors.PetsyncError, match="another sign-in"):
        remote.paste(changed(address, state=state))
    assert not credentials(store)
    assert remote.paste(address).signed_in


def test_wrong_state_at_the_loopback(store: ps.Store, pending: PendingSignIn) -> None:
    """A request to the loopback with another state is refused and does not finish the sign-in."""
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
    """A code from another user's sign-in is refused even with the right state."""
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
    """A response that names another issuer, or lacks the issuer that the service promised, is
    refused, and its code is not sent.
    """
    address = changed(sent_back(remote.url), iss=iss)
    with pytest.raises(ps.errors.AuthError, match="does not name this service as its issuer"):
        remote.paste(address)
    assert not credentials(store)
    assert remote.is_open
    assert remote.paste(changed(address, iss=_origin(remote.url))).signed_in


@pytest.mark.parametrize("iss", ["https://evil.example", None])
def test_mixed_up_issuer_at_the_loopback(pending: PendingSignIn, iss: str | None) -> None:
    """A browser's response with a wrong issuer leaves the sign-in open for the right one."""
    address = sent_back(pending.url)
    assert "did not work" in httpx.get(changed(address, iss=iss)).text
    assert "You are signed in" in httpx.get(address).text
    assert pending.wait(120).signed_in


@pytest.mark.parametrize("listen", [True, False])
def test_the_store_was_closed(box: Sandbox, tmp_path: Path, listen: bool) -> None:
    """A sign-in of a closed store raises an error for each waiting caller, stores no credentials,
    and frees its port.
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
    """An idle or half-sent connection is closed with the sign-in, and neither end logs an error."""
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
    """Return when the condition is true."""
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("sent", [b"", b"GET /petsync"])
def test_a_loop_that_ends_with_a_connection(box: Sandbox, tmp_path: Path, caplog, sent) -> None:
    """An event loop that ends during an open connection logs no error."""
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
        loopback._server.close()  # Closes only the port.

    asyncio.run(story())
    lines[0].close()
    assert not [each for each in caplog.records if each.name == "asyncio"]


def test_declined(store: ps.Store, pending: PendingSignIn) -> None:
    """A declined sign-in is shown in the browser and raises an error for the waiting caller."""
    assert "declined" in agree(pending.url, "deny")
    with pytest.raises(ps.errors.AuthError, match="declined"):
        pending.wait(120)
    assert not credentials(store)


def test_hostile_error_text(remote: PendingSignIn) -> None:
    """An error text in a pasted address is shown as one short line of printable text."""
    back = parameter(remote.url, "redirect_uri")
    values = {"error": "weird\x1b[31m", "error_description": "<b>x</b>\n\u202e" + "y" * 5000}
    query = urlencode(
        {**values, "state": parameter(remote.url, "state"), "iss": _origin(remote.url)}
    )
    with pytest.raises(ps.errors.AuthError) as failed:
        remote.paste(f"{back}?{query}")
    assert len(failed.value.message) < 400
    assert failed.value.message.isprintable()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def test_error_on_the_page_is_escaped(pending: PendingSignIn) -> None:
    """The loopback page shows a service's error as escaped text and runs no script from it."""
    back = parameter(pending.url, "redirect_uri")
    values = {"error": "<script>alert(1)</script>", "state": parameter(pending.url, "state")}
    page = httpx.get(back, params={**values, "iss": _origin(pending.url)})
    assert "<script>alert" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"


def test_a_code_that_comes_twice(remote: PendingSignIn) -> None:
    """A response is used once; the second time it is refused, and its code is not sent."""
    address = sent_back(remote.url)
    assert remote.paste(address).signed_in
    with pytest.raises(ps.errors.AuthError, match="a response was already used"):
        remote.paste(address)


def test_a_code_that_was_spent_elsewhere(
    box: Sandbox, store: ps.Store, remote: PendingSignIn
) -> None:
    """A code that was already used raises an error with a hint."""
    address = sent_back(remote.url)
    form = {"grant_type": "authorization_code", "code": parameter(address, "code")}
    httpx.post(f"{_origin(box.url)}/oauth/token", data={**form, "client_id": "petsync"})
    with pytest.raises(ps.errors.AuthError, match="Sign in again"):
        remote.paste(address)
    assert not credentials(store)


def test_both_at_once(box: Sandbox, store: ps.Store, pending: PendingSignIn) -> None:
    """When the browser returns and the same address is pasted, one of them signs in, the code is
    sent once, and the browser gets its page.
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
    """After the given time the wait raises an error and the loopback closes."""
    with pytest.raises(ps.errors.AuthError, match="did not return in time"):
        pending.wait(0.05)
    assert not pending.is_listening
    with pytest.raises(httpx.ConnectError):
        httpx.get(parameter(pending.url, "redirect_uri"))


def test_closed(store: ps.Store, pending: PendingSignIn) -> None:
    """Closing a sign-in closes the loopback immediately, and can be repeated."""
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
    """A request other than the browser's return gets 404, and the sign-in goes on."""
    place = urlsplit(parameter(pending.url, "redirect_uri"))
    assert place.port is not None
    with socket.create_connection(("127.0.0.1", place.port), timeout=120) as line:
        line.sendall(request_.replace(b"{host}", place.netloc.encode()))
        assert line.recv(100).startswith(b"HTTP/1.1 404 ")
    assert "You are signed in" in agree(pending.url)


@pytest.mark.parametrize("sent", [b"", b"GET /petsync", b"GET /" + b"x" * 200_000])
def test_half_requests_at_the_loopback(pending: PendingSignIn, sent: bytes) -> None:
    """An incomplete or oversized request to the loopback does not delay the sign-in."""
    place = urlsplit(parameter(pending.url, "redirect_uri"))
    assert place.port is not None
    with socket.create_connection(("127.0.0.1", place.port), timeout=120) as line:
        with suppress(OSError):
            line.sendall(sent)
        assert "You are signed in" in agree(pending.url)
        assert pending.wait(120).signed_in


def test_only_this_machine_reaches_the_loopback(pending: PendingSignIn) -> None:
    """The loopback listens on 127.0.0.1 and on no other address."""
    place = urlsplit(parameter(pending.url, "redirect_uri"))
    assert place.hostname == "127.0.0.1"
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.2", place.port or 0), 5),
    ):
        pass


def test_on_another_loop(store: ps.Store) -> None:
    """A sign-in that began on one event loop can be awaited on another."""
    pending = store.begin_sign_in()
    assert "You are signed in" in agree(pending.url)
    assert asyncio.run(pending.aio.wait(30)).signed_in


def test_it_closes_on_its_own_loop(store: ps.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign-in closes its sockets on the event loop that opened them, whoever closes it."""
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
    """A cancelled wait closes the loopback and frees its port."""

    async def story() -> None:
        waiting = asyncio.create_task(pending.aio.wait(30))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    store._loop.run(story())
    assert not pending.is_listening


def test_implicit_by_loopback_page(implicit: PendingSignIn) -> None:
    """The loopback page posts the fragment after #, which browsers do not send; a token in the
    query is not accepted.
    """
    address = sent_back(implicit.url)
    page = httpx.get(address)  # A browser does not send the fragment.
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
    """The whole address, the fragment after # and the token alone each sign in."""
    address = sent_back(implicit.url)
    pasted = {
        "address": address,
        "fragment": address.partition("#")[2],
        "bare": parameter(address, "access_token"),
    }[how]
    account = implicit.paste(pasted)
    assert (account.kind, account.can_read, account.can_write) == ("implicit", True, True)


def test_implicit_wrong_state(implicit: PendingSignIn) -> None:
    """A token in an address with another state is refused."""
    address = sent_back(implicit.url)
    for state in ("wrong", None):
        with pytest.raises(ps.errors.PetsyncError, match="another sign-in"):
            implicit.paste(changed(address, state=state))
    assert implicit.paste(address).signed_in


def test_implicit_bare_nonsense(implicit: PendingSignIn) -> None:
    """A pasted text that the service does not accept as a token is refused and not shown."""
    for text in ("not a token", "nonsense"):
        with pytest.raises(ps.errors.PetsyncError) as failed:
            implicit.paste(text)
        assert text not in str(failed.value)


def test_implicit_declined(implicit: PendingSignIn) -> None:
    """A declined sign-in in the fragment after # raises the same error as any other."""
    with pytest.raises(ps.errors.AuthError, match="declined"):
        implicit.paste(sent_back(implicit.url, "deny"))


def test_a_way_that_is_not_offered(store: ps.Store, live: Sandbox, tmp_path: Path) -> None:
    """Where the service does not offer a sign-in method, the error names the other method."""
    with pytest.raises(ps.errors.SettingsError, match="Omit implicit=True"):
        store.begin_sign_in(implicit=True)
    with (
        store_at(live, tmp_path) as other,
        pytest.raises(ps.errors.SettingsError, match="implicit=True"),
    ):
        other.begin_sign_in()


def test_auth_implicit(live: Sandbox, tmp_path: Path) -> None:
    """ps.auth.implicit accepts only an address with a token and with the state of its request."""
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
    """A sign-in for reading gets only that scope, and the account reports the missing one."""
    pending = store.begin_sign_in(scopes="read:pets", listen=False)
    account = pending.paste(sent_back(pending.url))
    assert account.scopes == frozenset({"read:pets"})
    assert account.can_write is False
    assert "write:pets" in account.problem
    assert renewals(box) == 0


def test_configured_redirect(box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configured redirect address is used with its port and path; a busy port is an error."""
    place = f"http://127.0.0.1:{free_port()}/back"
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
