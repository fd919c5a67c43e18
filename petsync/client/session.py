"""Session: sends calls to one service and reads the answers.

It drives httpx's aiohttp transport itself. At 32 connections httpx.AsyncClient reaches about a
tenth of this on its default transport, and two thirds on this one (benchmarks/requests.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TypeVar

import aiohttp
import httpx
import httpx_aiohttp

from petsync.client.auth import Credentials
from petsync.client.origin import checked_base, is_loopback, redirect_target
from petsync.client.pace import Pace
from petsync.client.retry import RetryPolicy
from petsync.errors import ApiError, NotFoundError, ResponseError, TransportError
from petsync.profile import STANDARD, ServiceProfile
from petsync.wire.failure import error_for
from petsync.wire.message import Call, Request, Response

__all__ = ["Session"]

T = TypeVar("T")
log = logging.getLogger(__name__)

_CONNECTIONS = 64
_REDIRECTS = 5
_KEY_OPERATIONS = frozenset({"getPetById", "deletePet"})
_AGENT = "petsync/0.1"


class Session:
    """A service's base URL, how it is spoken to, and the connections to it.

    `timeout` is in seconds: for connecting, and for each wait for more of an answer. Raises
    SettingsError for a base URL that cannot be used; `send` raises ApiError and nothing else.
    """

    def __init__(
        self,
        base_url: str,
        *,
        credentials: Credentials = Credentials(),  # noqa: B008 - frozen
        profile: ServiceProfile = STANDARD,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        timeout: float = 30.0,
        allow_http: Collection[str] = (),
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        self.base_url = checked_base(base_url, with_secret=bool(credentials), allow_http=allow_http)
        self.profile = profile
        self.pace = Pace()
        self._credentials, self._retry = credentials, retry
        self._timeout = {"connect": min(timeout, 10.0), "read": timeout, "pool": None}
        self._make_transport = transport or self._aiohttp
        self._transport: httpx.AsyncBaseTransport | None = None

    async def send(self, call: Call[T]) -> T:
        """The call's result, after as many attempts as are safe."""
        request = call.request
        try:
            return await self._attempt(call)
        except ApiError as error:
            if not self._retry.repeats(request, error):
                raise
            first = error
        try:
            return await self._retry.run(request, lambda: self._attempt(call), first)
        except NotFoundError:
            if request.operation == "deletePet" and first.may_have_happened:
                return call.read(Response(204, {}, b""))
            raise

    async def close(self) -> None:
        """Close the connections; the session can be used again."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def _attempt(self, call: Call[T]) -> T:
        request = call.request
        await self.pace.wait()
        response = await self._exchange(request, self.base_url + request.target, _REDIRECTS)
        if not 200 <= response.status < 300:
            masked = Response(
                response.status, response.headers, self._credentials.masked(response.body)
            )
            raise error_for(masked, request, datetime.now(UTC))
        try:
            return call.read(response)
        except ResponseError as error:
            error.operation, error.pet_id = request.operation, request.pet_id
            error.status = response.status
            error.message = f"{request.operation}: {error.message}"
            error.may_have_happened = True
            raise

    async def _exchange(self, request: Request, url: str, redirects: int) -> Response:
        try:
            response = await self._once(request, url)
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError) as error:
            raise self._transport_error(request, error) from None
        if 300 <= response.status < 400 and response.status != 304:
            target = redirect_target(request, response, url)
            if redirects:
                return await self._exchange(request, target, redirects - 1)
        return response

    async def _once(self, request: Request, url: str) -> Response:
        if self._transport is None:
            self._transport = self._make_transport()
        outgoing = httpx.Request(
            request.method,
            url,
            headers=self._headers(request),
            content=request.body or None,
            extensions={"timeout": self._timeout},
        )
        incoming = await self._transport.handle_async_request(outgoing)
        try:
            body = await incoming.aread()
        finally:
            await incoming.aclose()
        log.debug("%s %s: %d", request.method, url, incoming.status_code)
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in incoming.headers.raw
        }
        return Response(incoming.status_code, headers, body)

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"user-agent": _AGENT, "accept-encoding": "gzip, deflate", **request.headers}
        if self._credentials.token is not None:
            headers["authorization"] = f"Bearer {self._credentials.token.reveal()}"
        if self._credentials.key is not None and request.operation in _KEY_OPERATIONS:
            headers.setdefault(self.profile.api_key_header, self._credentials.key.reveal())
        return headers

    def _transport_error(self, request: Request, error: Exception) -> TransportError:
        # The transport calls a lost connection a ConnectTimeout; only a ConnectError is a
        # connection that never was.
        unsent = isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol)
        about = "" if request.pet_id is None else f" of pet {request.pet_id}"
        what = "cannot be reached" if unsent else "gave no whole answer"
        reason = str(error) or type(error).__name__
        return TransportError(
            f"{request.operation}{about}: {self.base_url} {what} ({reason})",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=not unsent,
            hint="Is the address right, and the service up?" if unsent else "",
        )

    def _aiohttp(self) -> httpx.AsyncBaseTransport:
        """A transport without cookies, that asks the environment for a proxy unless the service
        is on this machine.
        """
        local = is_loopback(httpx.URL(self.base_url).host)
        transport = httpx_aiohttp.AiohttpTransport()
        transport.client = lambda: aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=transport.ssl_context),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=not local,
        )
        return transport
