"""The HTTP transport: aiohttp without implicit behaviour, or a given httpx transport."""

from __future__ import annotations

import asyncio
import base64
import threading
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted import ScriptedServer, answer

from petsync import __version__
from petsync.client import auth
from petsync.client.api import AsyncApi
from petsync.client.auth.oauth import TokenEndpoint
from petsync.client.retry import RetryPolicy
from petsync.client.session import Session
from petsync.errors import ApiError, NotFoundError, SettingsError, TransportError
from petsync.models import Pet
from petsync.profile import STANDARD

pytestmark = pytest.mark.slow

PET = answer(200, b'{"id":7,"name":"Rex"}', content_type="application/json")
PETS = answer(200, b"[]", content_type="application/json")
FAR = "http://shop.example/v2"
Act = Callable[[AsyncApi], Coroutine[Any, Any, Any]]


def do(act: Act, url: str, **options: Any) -> Any:
    """Return the result of `act` on a new session, which is closed afterwards."""

    async def work() -> Any:
        session = Session(url, **{"retry": RetryPolicy(attempts=2, first=0.001), **options})
        try:
            return await act(AsyncApi(session))
        finally:
            await session.close()

    return asyncio.run(work())


def get(api: AsyncApi) -> Coroutine[Any, Any, Pet]:
    """Call getPetById for pet 7."""
    return api.get_pet_by_id(7)


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxy variables of this machine's environment."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Counted(httpx.AsyncHTTPTransport):
    """httpx's transport, which records its requests and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(f"{request.method} {request.url.path}")
        return await super().handle_async_request(request)

    async def aclose(self) -> None:
        self.closed = True
        await super().aclose()


def test_any_httpx_transport_can_carry_the_requests() -> None:
    """A given httpx transport sends the same bodies and credentials, with the same errors and
    retries, and the session closes it.
    """
    made = Counted()
    options = {"transport": lambda: made, "credentials": auth.bearer("t0ken")}
    with ScriptedServer(PET, None, PET, answer(404)) as server:

        async def act(api: AsyncApi) -> None:
            assert (await api.add_pet(Pet(name="Rex"))).id == 7
            assert (await api.get_pet_by_id(7)).name == "Rex"
            with pytest.raises(NotFoundError):
                await api.get_pet_by_id(8)

        do(act, server.url, **options)
    assert made.seen == ["POST /v2/pet", "GET /v2/pet/7", "GET /v2/pet/7", "GET /v2/pet/8"]
    assert made.closed
    assert server.requests[0].endswith('"name":"Rex","photoUrls":[],"tags":[]}')
    assert all("bearer t0ken" in request.lower() for request in server.requests)


def test_no_exception_of_a_given_transport_escapes() -> None:
    """A closed port raises TransportError with a given transport, too."""
    with ScriptedServer(PET) as server:
        url = server.url
    with pytest.raises(TransportError, match="getPetById of pet 7"):
        do(get, url, transport=httpx.AsyncHTTPTransport)


def test_a_narrowed_session_uses_the_given_transport() -> None:
    """A session made by `with_only` uses the transport of its original."""
    made = Counted()
    with ScriptedServer(PET) as server:

        async def act(api: AsyncApi) -> None:
            narrowed = api.session.with_only()
            assert (await AsyncApi(narrowed).get_pet_by_id(7)).id == 7
            await narrowed.close()

        do(act, server.url, transport=lambda: made)
    assert made.seen == ["GET /v2/pet/7"]


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_proxy_of_the_environment_carries_what_leaves_the_machine(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests to other machines use the environment's proxy with its credentials; requests to this
    machine do not.
    """
    with ScriptedServer(PET) as proxy, ScriptedServer(PET) as server:
        at = proxy.url.removeprefix("http://").removesuffix("/v2")
        monkeypatch.setenv("http_proxy", f"{scheme}me:pw@{at}")
        assert do(get, FAR).id == 7
        assert do(get, server.url).id == 7
    (request,) = proxy.requests
    assert request.startswith(f"GET {FAR}/pet/7 ")
    assert "proxy-authorization: basic bwu6chc=" in request.lower()
    assert len(server.requests) == 1
    assert "proxy" not in server.requests[0].lower()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("reply", [None, 407, 200, "gone", "nonsense"])
def test_a_proxys_password_is_not_shown(
    scheme: str, reply: int | str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy's password is in neither the error nor a traceback with variables."""
    password = "pr0xy-s3cret"
    basic = base64.b64encode(f"me:{password}".encode()).decode()
    echo = f"{password} {basic} {password.encode().hex()}".encode()
    script = b"nonsense\r\n\r\n" if reply == "nonsense" else None
    script = answer(reply, echo) if isinstance(reply, int) else script
    with ScriptedServer(script) as proxy:
        at = proxy.url.removeprefix("http://").removesuffix("/v2")
        at = "127.0.0.1:9" if reply == "gone" else at
        monkeypatch.setenv(f"{scheme}_proxy", f"http://me:{password}@{at}")
        with pytest.raises(ApiError) as failed:
            do(get, FAR.replace("http", scheme))
    result = traceback.TracebackException.from_exception(failed.value, capture_locals=True)
    result.stack = traceback.StackSummary.from_list(
        [frame for frame in result.stack if frame.filename != __file__]
    )
    shown = "".join((*result.format(), repr(failed.value), failed.value.service_message))
    assert not [each for each in (password, basic, password.encode().hex()) if each in shown]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (None, "the proxy opens no connection: Server disconnected"),
        (answer(407), "the proxy opens no connection: it answers 407"),
        (answer(502), "the proxy opens no connection: it answers 502"),
        (b"nonsense\r\n\r\n", "the proxy opens no connection"),
        ("silence", "Connection timeout"),
    ],
)
def test_a_change_that_a_proxy_did_not_carry_was_not_sent(
    reply: bytes | str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the proxy opens no connection to an https address within the timeout, the error says so,
    and that the change was not made.
    """
    ended = threading.Event()
    script = reply if not isinstance(reply, str) else lambda: (ended.wait(), None)[1]

    def add(api: AsyncApi) -> Coroutine[Any, Any, Any]:
        return api.add_pet(Pet(name="Rex"))

    with ScriptedServer(script) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.removesuffix("/v2"))
        profile = replace(STANDARD, answer_seconds=10)
        try:
            with pytest.raises(TransportError, match=f"addPet.*cannot be reached.*{why}") as failed:
                do(add, FAR.replace("http", "https"), timeout=0.2, profile=profile)
        finally:
            ended.set()
    assert not failed.value.may_have_happened
    assert {request.split()[0] for request in proxy.requests} == {"CONNECT"}


@pytest.mark.parametrize(
    "named", ["http://me:pr0xy-s3cret@shop.example:x", "socks5://me:pr0xy-s3cret@h:1", "http://"]
)
def test_a_proxy_that_cannot_be_used_is_refused(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unusable proxy setting is refused by its variable's name, without its value."""
    monkeypatch.setenv("http_proxy", named)
    with pytest.raises(SettingsError, match="the proxy that the environment names") as failed:
        do(get, FAR)
    assert "pr0xy" not in str(failed.value)
    assert "http_proxy" in failed.value.hint


def test_a_host_that_the_environment_exempts_is_not_sent_to_its_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request to a host in no_proxy does not go through the proxy."""
    with ScriptedServer(PET) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v2"))
        monkeypatch.setenv("no_proxy", "shop.invalid")
        with pytest.raises(TransportError):
            do(get, "http://shop.invalid/v2")
    assert proxy.requests == []


@pytest.mark.parametrize("options", [{}, {"credentials": auth.bearer("t0ken")}])
def test_what_netrc_has_for_the_host_is_never_sent(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login in .netrc is never sent to the service."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine shop.example login me password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with ScriptedServer(PET) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v2"))
        assert do(get, FAR, allow_http=["shop.example"], **options).id == 7
    assert "basic" not in proxy.requests[0].lower()


def test_requests_of_a_store_that_is_closed_say_so() -> None:
    """If a store is closed while requests are in flight or wait, each of them gets petsync's error,
    and the change in flight is one that may have been made.
    """

    async def act(api: AsyncApi) -> list[Any]:
        api.session.gate.most = 1
        calls = [api.update_pet(Pet(id=7, name="Rex")), api.get_pet_by_id(7), api.get_pet_by_id(7)]
        waiting = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.to_thread(arrived.wait)
        await api.session.close(for_good=True)
        return await waiting

    arrived, ended = threading.Event(), threading.Event()
    with ScriptedServer(lambda: (arrived.set(), ended.wait(), None)[2]) as server:
        try:
            errors = do(act, server.url)
        finally:
            ended.set()
    assert all("the store was closed before this request was sent" in str(e) for e in errors)
    assert [error.may_have_happened for error in errors] == [True, False, False]


def test_what_is_percent_encoded_is_sent_so() -> None:
    """A reserved character inside a query value is percent-encoded."""
    with ScriptedServer(PETS) as server:
        profile = replace(STANDARD, array_style="multi")
        do(lambda api: api.find_pets_by_tags(["a=b", "ü&"]), server.url, profile=profile)
    assert server.requests[0].startswith("GET /v2/pet/findByTags?tags=a%3Db&tags=%C3%BC%26 ")


def test_a_path_that_is_not_ascii_is_encoded() -> None:
    """A non-ASCII or spaced path is percent-encoded, in the base URL and in a redirect."""
    moved = answer(307, location="/v2/neu hier/7")
    with ScriptedServer(moved, PET) as server:
        assert do(get, server.url + "/größe").id == 7
    assert server.requests[0].startswith("GET /v2/gr%C3%B6%C3%9Fe/pet/7 ")
    assert server.requests[1].startswith("GET /v2/neu%20hier/7 ")


def test_a_base_url_that_cannot_be_encoded_is_refused_at_once() -> None:
    """A base URL that cannot be encoded is refused before anything is sent."""
    with pytest.raises(SettingsError, match="cannot be read"):
        Session("http://shop.example/\x01")


def test_every_request_names_the_installed_version() -> None:
    """Requests to the service and to the token endpoint send petsync's version as User-Agent."""
    with ScriptedServer(PET) as server:
        do(get, server.url)
        asyncio.run(TokenEndpoint(5.0).get(f"{server.url}/token"))
    assert len(server.requests) == 2
    for request in server.requests:
        assert f"user-agent: petsync/{__version__}\r" in request.lower()
