"""A caller's httpx or httpx2 transport or client: every promise of petsync's own client holds."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import anyio
import httpx
import pytest
from authority import make_files
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from scripted import ScriptedServer, answer

import petsync as ps
from petsync.client.transport import was_never_sent
from petsync.testing import FakeService

URL = "https://shop.example/v2"
RESPONSE = {"id": 7, "name": "Rex", "photoUrls": [], "tags": []}
ONCE = ps.RetryPolicy(attempts=3, first=0.001)
PET = answer(200, b'{"id":7,"name":"Rex"}', content_type="application/json")


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    """Each of the libraries."""
    return import_module(request.param)


@pytest.fixture(params=["transport", "http"])
def connected(request: pytest.FixtureRequest, library: ModuleType) -> Callable[..., ps.Store]:
    """A function that connects with a handler, as a transport and inside a client."""

    def make(handler: Callable[[Any], Any], **options: Any) -> ps.Store:
        sender = library.MockTransport(handler)
        if request.param == "http":
            sender = library.AsyncClient(transport=sender)
        options = {"auth": ps.auth.bearer("t0ken"), "retry": ONCE, "environ": {}, **options}
        return ps.connect(URL, **{request.param: sender}, **options)

    return make


def test_requests_and_responses_pass_through(
    connected: Callable[..., ps.Store], library: ModuleType
) -> None:
    """A transport and a client of both libraries carry credentials, bodies and responses."""
    seen: list[Any] = []

    def handler(request: Any) -> Any:
        seen.append(request)
        return library.Response(200, json=RESPONSE)

    with connected(handler) as store:
        assert store.api.add_pet(ps.Pet(name="Rex")).id == 7
        assert store.api.get_pet_by_id(7).name == "Rex"
    assert [f"{each.method} {each.url}" for each in seen] == [
        f"POST {URL}/pet",
        f"GET {URL}/pet/7",
    ]
    assert b'"name":"Rex"' in seen[0].content
    assert {each.headers["authorization"] for each in seen} == {"Bearer t0ken"}


def test_only_safe_requests_are_repeated(
    connected: Callable[..., ps.Store], library: ModuleType
) -> None:
    """After a lost response, a GET is sent again, and an addPet is not; the error says so."""
    seen: list[str] = []

    def handler(request: Any) -> Any:
        seen.append(request.method)
        raise library.ReadError("lost")

    with connected(handler) as store:
        with pytest.raises(ps.errors.TransportError):
            store.api.get_pet_by_id(7)
        with pytest.raises(ps.errors.TransportError) as caught:
            store.api.add_pet(ps.Pet(name="Rex"))
    assert seen == ["GET", "GET", "GET", "POST"]
    assert caught.value.may_have_happened


def test_a_response_that_takes_too_long_or_is_too_large_ends(
    connected: Callable[..., ps.Store], library: ModuleType
) -> None:
    """The limits of time and size hold, also for a compressed response."""

    async def silent(request: Any) -> Any:
        await asyncio.Event().wait()

    def large(request: Any) -> Any:
        async def pieces() -> Any:
            yield gzip.compress(b" " * 17_000_000)

        return library.Response(200, headers={"content-encoding": "gzip"}, content=pieces())

    hasty = ps.ServiceProfile(answer_seconds=0.05)
    with (
        connected(silent, profile=hasty, retry=ps.RetryPolicy(attempts=1)) as store,
        pytest.raises(ps.errors.TransportError, match=r"not complete after 0\.05 seconds"),
    ):
        store.api.get_pet_by_id(7)
    with connected(large) as store, pytest.raises(ps.errors.ResponseError, match="limit of 16 MB"):
        store.api.get_pet_by_id(7)


def test_a_redirect_never_takes_the_token_elsewhere(library: ModuleType) -> None:
    """A client that follows redirects does not follow them for petsync."""
    seen: list[str] = []

    def handler(request: Any) -> Any:
        seen.append(str(request.url))
        return library.Response(307, headers={"location": "https://other.example/v2/pet/7"})

    client = library.AsyncClient(transport=library.MockTransport(handler), follow_redirects=True)
    with (
        ps.connect(URL, auth=ps.auth.bearer("t0ken"), http=client, environ={}) as store,
        pytest.raises(ps.errors.RedirectError),
    ):
        store.api.get_pet_by_id(7)
    assert seen == [f"{URL}/pet/7"]


@pytest.mark.parametrize("kind", ["transport", "http"])
def test_a_transport_cannot_send_a_change_twice(kind: str, library: ModuleType) -> None:
    """A transport that repeats requests can repeat a GET, and no POST, PUT or DELETE."""
    seen: list[str] = []

    class Repeating(library.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            seen.append(request.method)
            try:
                return await super().handle_async_request(request)
            except library.RemoteProtocolError:
                return await super().handle_async_request(request)

    with ScriptedServer(None) as server:
        sender: Any = Repeating()
        if kind == "http":
            sender = library.AsyncClient(transport=sender)
        options: dict[str, Any] = {kind: sender, "retry": ps.RetryPolicy(attempts=1)}
        with ps.connect(server.url, environ={}, **options) as store:
            for act in (
                lambda: store.api.get_pet_by_id(7),
                lambda: store.api.add_pet(ps.Pet(name="Rex")),
                lambda: store.api.update_pet(ps.Pet(id=7, name="Rex")),
                lambda: store.api.delete_pet(7),
            ):
                with pytest.raises(ps.errors.TransportError):
                    act()
    assert seen == ["GET", "POST", "PUT", "DELETE"]
    assert [each.split()[0] for each in server.requests] == ["GET", "GET", "POST", "PUT", "DELETE"]


def test_an_error_of_anyio_is_a_lost_connection(library: ModuleType) -> None:
    """An error that httpcore lets through when a connection ends is a lost request: a read is sent
    again, and a change whose outcome is unknown says so.
    """
    seen: list[str] = []

    def handler(request: Any) -> Any:
        seen.append(request.method)
        raise anyio.EndOfStream

    client = library.AsyncClient(transport=library.MockTransport(handler))
    with ps.connect(URL, http=client, retry=ps.RetryPolicy(attempts=2), environ={}) as store:
        with pytest.raises(ps.errors.TransportError, match=r"EndOfStream"):
            store.api.get_pet_by_id(7)
        with pytest.raises(ps.errors.TransportError) as failed:
            store.api.add_pet(ps.Pet(name="Rex"))
    assert failed.value.may_have_happened
    assert seen == ["GET", "GET", "POST"]


def test_what_the_client_adds_goes_to_the_store_alone(library: ModuleType) -> None:
    """A client's headers, cookies, parameters, hooks and timeouts of petsync apply to the store;
    its headers and credentials do not go to the authorization server.
    """
    seen: dict[str, Any] = {}
    hooked: list[str] = []

    async def hook(request: Any) -> None:
        hooked.append(request.url.path)

    def handler(request: Any) -> Any:
        seen[request.url.path] = request
        if "well-known" in request.url.path:
            issuer = "https://shop.example"
            return library.Response(
                200, json={"issuer": issuer, "token_endpoint": f"{issuer}/token"}
            )
        if request.url.path == "/token":
            return library.Response(200, json={"access_token": "n3w", "token_type": "bearer"})
        return library.Response(200, json=RESPONSE)

    client = library.AsyncClient(
        transport=library.MockTransport(handler),
        headers={"x-tenant": "north", "accept": "text/html"},
        cookies={"gate": "open"},
        params={"v": "1"},
        auth=("user", "pw"),
        event_hooks={"request": [hook]},
        timeout=1,
    )
    credentials = ps.auth.client_credentials("shop", "s3cret")
    with ps.connect(URL, auth=credentials, http=client, environ={}, timeout=20) as store:
        assert store.api.get_pet_by_id(7).id == 7
    assert not client.is_closed
    sent, token = seen["/v2/pet/7"], seen["/token"]
    assert sent.headers["x-tenant"] == "north"
    assert sent.headers["cookie"] == "gate=open"
    assert sent.headers["accept"] == "application/json"
    assert sent.headers["authorization"] == "Bearer n3w"
    assert sent.url.params["v"] == "1"
    assert sent.extensions["timeout"]["read"] == 20
    assert not {"x-tenant", "cookie"} & {*token.headers}
    assert not token.url.query
    assert {"/v2/pet/7", "/token"} <= {*hooked}


def test_the_clients_own_credentials_serve_where_petsync_has_none(library: ModuleType) -> None:
    """Without a token, the client's auth signs the requests."""
    seen: list[str] = []

    def handler(request: Any) -> Any:
        seen.append(request.headers["authorization"])
        return library.Response(200, json=RESPONSE)

    client = library.AsyncClient(transport=library.MockTransport(handler), auth=("me", "pw"))
    with ps.connect(URL, auth=ps.auth.none(), http=client, environ={}) as store:
        store.api.update_pet(ps.Pet(id=7, name="Rex"))
    assert seen == ["Basic bWU6cHc="]


def test_a_refused_connection_is_known_to_have_sent_nothing(library: ModuleType) -> None:
    """A closed port with the library's own transport says that nothing happened."""
    with ScriptedServer(PET) as server:
        url = server.url
    client = library.AsyncClient()
    with (
        ps.connect(url, http=client, environ={}, retry=ps.RetryPolicy(attempts=1)) as store,
        pytest.raises(ps.errors.TransportError, match="cannot be reached") as caught,
    ):
        store.api.add_pet(ps.Pet(name="Rex"))
    assert not caught.value.may_have_happened
    assert not was_never_sent(httpx.ReadError("lost"))


@pytest.mark.parametrize("kind", ["transport", "http"])
def test_the_callers_proxy_carries_each_request(kind: str, library: ModuleType) -> None:
    """A client's or a transport's proxy gets reads and changes, each once and with the proxy's
    credentials, and the store's token goes through it.
    """
    with ScriptedServer(PET) as proxy:
        at = f"http://me:pw@{proxy.url.removeprefix('http://').removesuffix('/v2')}"
        make = library.AsyncClient if kind == "http" else library.AsyncHTTPTransport
        sender = make(proxy=at, limits=library.Limits(max_keepalive_connections=0))
        options: dict[str, Any] = {kind: sender, "allow_http": ["shop.invalid"], "environ": {}}
        url = "http://shop.invalid/v2"
        with ps.connect(url, auth=ps.auth.bearer("t0ken"), **options) as store:
            assert store.api.get_pet_by_id(7).name == "Rex"
            store.api.update_pet(ps.Pet(id=7, name="Rex"))
    lines = [each.partition("\r\n")[0] for each in proxy.requests]
    assert lines == [f"GET {url}/pet/7 HTTP/1.1", f"PUT {url}/pet HTTP/1.1"]
    for each in proxy.requests:
        assert "proxy-authorization: basic bwu6chc=" in each.lower()
        assert "authorization: Bearer t0ken" in each.replace("Authorization", "authorization")


def test_a_client_of_another_loop_is_explained() -> None:
    """A client whose connections belong to a closed loop says what to do."""

    def handler(request: httpx.Request) -> httpx.Response:
        raise RuntimeError("Event loop is closed")

    client = httpx.AsyncClient(transport=httpx.MockTransport(handler))
    once = ps.RetryPolicy(attempts=1)
    with (
        ps.connect(URL, http=client, retry=once, environ={}) as store,
        pytest.raises(ps.errors.TransportError, match="give each store a separate client"),
    ):
        store.api.get_pet_by_id(7)


def test_a_client_is_shared_on_ones_own_loop() -> None:
    """A coroutine uses one client beside a store, which leaves it open."""

    async def work(url: str) -> None:
        async with httpx.AsyncClient() as client:
            store = ps.connect(url, http=client, environ={})
            await client.get(f"{url}/pet/7")
            assert (await store.aio.api.get_pet_by_id(7)).id == 7
            await store.aio.close()
            assert (await client.get(f"{url}/pet/7")).status_code == 200

    with ScriptedServer(PET) as server:
        asyncio.run(work(server.url))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"http": httpx.Client()}, "http is a httpx.Client, not an httpx.AsyncClient"),
        ({"http": httpx.AsyncClient}, "http is the class httpx.AsyncClient"),
        ({"transport": httpx.HTTPTransport()}, "transport is a httpx.HTTPTransport"),
        ({"transport": httpx.AsyncHTTPTransport}, "transport is the class"),
        (
            {"http": httpx.AsyncClient(), "transport": httpx.AsyncHTTPTransport()},
            "transport and http are both given",
        ),
    ],
)
def test_what_cannot_send_is_refused_at_once(options: dict[str, Any], message: str) -> None:
    """A synchronous client or transport, a class, and both arguments raise SettingsError."""
    with pytest.raises(ps.errors.SettingsError, match=message):
        ps.connect(URL, environ={}, **options)


def test_a_closed_client_is_named() -> None:
    """A client that the caller has closed raises an error that says so, without retries."""
    client = httpx.AsyncClient()
    asyncio.run(client.aclose())
    with (
        ps.connect(URL, http=client, environ={}) as store,
        pytest.raises(ps.errors.PetsyncError, match="is closed"),
    ):
        store.api.get_pet_by_id(7)


def test_a_client_that_is_closed_between_two_attempts_may_have_sent_the_first_one() -> None:
    """If the caller closes the client after a lost response, the error says so, and that the change
    may have been made.
    """

    async def lose(request: httpx.Request) -> httpx.Response:
        await client.aclose()
        raise httpx.ReadError("the connection was lost", request=request)

    client = httpx.AsyncClient(transport=httpx.MockTransport(lose))
    with (
        ps.connect(URL, http=client, retry=ONCE, environ={}) as store,
        pytest.raises(ps.errors.UnavailableError, match="is closed") as failed,
    ):
        store.api.update_pet(ps.Pet(id=7, name="Rex"))
    assert failed.value.may_have_happened


@pytest.fixture
def another_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    """An aiohttp whose sessions have no attribute `_retry_connection` of their own."""
    made = aiohttp.ClientSession.__init__

    def make(session: aiohttp.ClientSession, **options: Any) -> None:
        made(session, **options)
        del session._retry_connection

    monkeypatch.setattr(aiohttp.ClientSession, "__init__", make)
    monkeypatch.setattr(aiohttp.ClientSession, "_retry_connection", True, raising=False)


def test_an_aiohttp_that_might_repeat_changes_sends_none(another_aiohttp: None) -> None:
    """Reads work, and each change is refused before it is sent."""
    with ScriptedServer(PET) as server, ps.connect(server.url, environ={}) as store:
        assert store.api.get_pet_by_id(7).id == 7
        for act in (
            lambda: store.api.add_pet(ps.Pet(name="Rex")),
            lambda: store.api.update_pet(ps.Pet(id=7, name="Rex")),
            lambda: store.api.delete_pet(7),
        ):
            with pytest.raises(ps.errors.PetsyncError, match="might send it twice"):
                act()
    assert len(server.requests) == 1


def test_a_run_with_such_an_aiohttp_stops_with_the_reason(
    another_aiohttp: None, tmp_path: Path
) -> None:
    """A run sends no change, and stops with the reason."""
    with ps.demo(state=tmp_path) as store:
        plan = store.edit(1001, name="Max")
        with pytest.raises(ps.errors.InterruptedRunError, match="might send it twice"):
            store.apply(plan, progress=False)
        assert store.api.get_pet_by_id(1001).name != "Max"


class _Http2Server:
    """Forwards the requests of HTTP/2 connections to a fake service, and aborts a connection after
    the service has carried out the `cuts`-th POST requests, before their responses.
    """

    def __init__(self, service: FakeService, cuts: tuple[int, ...]) -> None:
        self._client = httpx.AsyncClient(transport=service.transport)
        self._service = httpx.URL(service.url)
        self._cuts = cuts
        self._adds = 0
        self.connections: list[asyncio.Task[None]] = []

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one more connection."""
        self.connections.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        requests: dict[int, tuple[dict[str, str], bytearray]] = {}
        async with asyncio.TaskGroup() as responses:
            while not writer.is_closing():
                writer.write(connection.data_to_send())
                received = await reader.read(65536)
                if not received:
                    break
                for event in connection.receive_data(received):
                    match event:
                        case RequestReceived():
                            requests[event.stream_id] = dict(event.headers), bytearray()
                        case DataReceived():
                            requests[event.stream_id][1].extend(event.data)
                            connection.acknowledge_received_data(
                                event.flow_controlled_length, event.stream_id
                            )
                        case StreamEnded():
                            request = requests.pop(event.stream_id)
                            responses.create_task(
                                self._respond(connection, writer, event.stream_id, *request)
                            )
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()

    async def _respond(
        self,
        connection: H2Connection,
        writer: asyncio.StreamWriter,
        stream: int,
        headers: dict[str, str],
        body: bytearray,
    ) -> None:
        response = await self._client.request(
            headers[":method"],
            self._service.join(headers[":path"]),
            headers={name: text for name, text in headers.items() if not name.startswith(":")},
            content=bytes(body),
        )
        if headers[":method"] == "POST":
            self._adds += 1
            if self._adds in self._cuts:
                writer.transport.abort()
        if writer.is_closing():
            return
        fields = [(":status", str(response.status_code)), *response.headers.items()]
        connection.send_headers(stream, fields)
        for start in range(0, len(response.content), 8192):
            connection.send_data(stream, response.content[start : start + 8192])
        connection.end_stream(stream)
        writer.write(connection.data_to_send())


@pytest.mark.parametrize("kind", ["AsyncClient", "AsyncHTTPTransport"])
def test_http2_adds_each_pet_once(library: ModuleType, kind: str, tmp_path: Path) -> None:
    """Adds go over HTTP/2 of a caller's client or transport. If the connection is cut while some of
    them are carried out, each pet is added once, and an undo deletes them all.
    """
    files = make_files(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server)
    context.set_alpn_protocols(["h2"])
    trusted = ssl.create_default_context(cafile=files.authority)
    pets = [ps.Pet(name=f"Pet {number}", status="available") for number in range(20)]

    async def add_and_undo(service: FakeService) -> int:
        front = _Http2Server(service, cuts=(3, 10))
        server = await asyncio.start_server(front.accept, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        sender = getattr(library, kind)(http2=True, verify=trusted, trust_env=False)
        options = {"http" if kind == "AsyncClient" else "transport": sender}
        given: dict[str, Any] = {"auth": ps.auth.none(), "state": tmp_path, "environ": {}}
        async with server, sender:
            store = ps.connect(f"https://127.0.0.1:{port}/v2", **given, **options).aio
            plan = await store.plan(ps.frame_from_pets(pets), max_add=20)
            report = await store.apply(plan, progress=False, settle=0.1)
            names = sorted(pet.name or "" for pet in service.pets())
            assert names == sorted(pet.name or "" for pet in pets)
            await store.apply(await store.undo(report.run_id, max_delete=20), progress=False)
            await store.close()
        await asyncio.gather(*front.connections)
        return len(front.connections)

    with FakeService(auth=False) as service:
        # Each cut makes a new connection.
        assert asyncio.run(add_and_undo(service)) > 2
        assert service.pets() == []
