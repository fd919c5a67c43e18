"""A pet store without a network, and pytest fixtures, for the tests of code that uses petsync.

Write `pytest_plugins = ["petsync.testing"]` in the top `conftest.py`; the fixtures are then
`petsync_service`, an empty store that behaves as a service, and `petsync_store`, a Store for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from petsync._extras import needs_extra
from petsync.client import auth
from petsync.models import Pet
from petsync.profile import ServiceProfile
from petsync.store import Store, connect

with needs_extra("sandbox", "petsync.testing"):
    from starlette.types import Message

    from petsync.sandbox import Sandbox
    from petsync.sandbox.faults import TRANSPORT
    from petsync.sandbox.http import Behaviour

__all__ = ["FakeService"]


class FakeService(Sandbox):
    """A pet store with all eight operations, sign-in and faults, that opens no port.

    Use it as a context manager. `transport` sends the requests of any httpx client to it; `connect`
    returns a Store. Each time it starts, its address is new, so that petsync knows no earlier run.
    `pets` fill it; `profile`, `auth`, `seed` and `faults` are as in `petsync serve`. `put`,
    `remove`, `reset`, `pets` and `requests` read and change it without a request.
    """

    def __init__(
        self,
        pets: Iterable[Pet | Mapping[str, Any]] = (),
        *,
        profile: str | Behaviour = "standard",
        auth: bool = True,
        seed: str | Path | None = None,
        faults: str | None = None,
    ) -> None:
        super().__init__(
            pets=pets, profile=profile, auth=auth, seed=seed, faults=faults, listens=False
        )

    @property
    def transport(self) -> httpx.AsyncBaseTransport:
        """An httpx transport to this store, for any client and any loop."""
        return _Transport(self)

    def connect(
        self,
        *,
        state: str | Path | None = None,
        profile: str | ServiceProfile | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> Store:
        """Return a Store that is signed in to this store. It reads no environment; `state` is its
        state folder, and `transport` may wrap the transport of this object.
        """
        return connect(
            self.url,
            auth=auth.bearer(self.token(), api_key=self.api_key),
            profile=profile or self.profile,
            state=state,
            environ={},
            transport=transport or self.transport,
        )


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, service: FakeService) -> None:
        self._service = service

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = _Exchange(await request.aread())
        await self._service.handle(exchange.scope(request), exchange.receive, exchange.send)
        return exchange.response(request)


class _Exchange:
    """One ASGI request and its response, which a fault may end too early."""

    def __init__(self, body: bytes) -> None:
        self._requested: list[Message] = [{"type": "http.request", "body": body}]
        self._start: Message | None = None
        self._pieces: list[bytes] = []
        self._is_whole = False
        self._is_closed = asyncio.Event()

    def scope(self, request: httpx.Request) -> dict[str, Any]:
        path, _, query = request.url.raw_path.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": (request.url.host, request.url.port),
            "client": ("127.0.0.1", 0),
            "state": {TRANSPORT: self},
        }

    async def receive(self) -> Message:
        if self._requested:
            return self._requested.pop()
        await self._is_closed.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self._pieces.append(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)

    def abort(self) -> None:
        """End the connection, as a fault asks for."""
        self._is_closed.set()

    close = abort

    def response(self, request: httpx.Request) -> httpx.Response:
        if self._start is None:
            raise httpx.ReadError("the connection was closed", request=request)
        return httpx.Response(
            self._start["status"],
            headers=self._start["headers"],
            stream=_Body(self._pieces, is_whole=self._is_whole),
            request=request,
        )


class _Body(httpx.AsyncByteStream):
    def __init__(self, pieces: list[bytes], *, is_whole: bool) -> None:
        self._pieces, self._is_whole = pieces, is_whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if not self._is_whole:
            raise httpx.RemoteProtocolError("the connection was closed during the response")


try:
    import pytest
except ImportError:  # FakeService needs no pytest.
    pass
else:

    @pytest.fixture
    def petsync_service() -> Iterator[FakeService]:
        """An empty pet store without a network; `petsync_service.reset(pets)` fills it."""
        with FakeService() as service:
            yield service

    @pytest.fixture
    def petsync_store(petsync_service: FakeService, tmp_path: Path) -> Iterator[Store]:
        """A Store for `petsync_service`. Its state folder is below `tmp_path`."""
        with petsync_service.connect(state=tmp_path / ".petsync") as store:
            yield store
