"""Session: sends calls to one service and reads the answers.

It drives aiohttp itself: httpx.AsyncClient on its default transport reaches less than a tenth of
its rate at 32 connections (benchmarks/requests.py), and httpx's requests and responses alone would
nearly double the time of one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar
from weakref import WeakKeyDictionary

import httpx

from petsync.client.auth import Credentials
from petsync.client.origin import checked_base, encoded, endless, redirect_target
from petsync.client.pace import Pace
from petsync.client.retry import RetryPolicy
from petsync.client.transport import (
    ERRORS,
    AiohttpCarrier,
    Carrier,
    HttpxCarrier,
    never_sent,
)
from petsync.errors import (
    ApiError,
    NotFoundError,
    ResponseError,
    SettingsError,
    TransportError,
)
from petsync.profile import STANDARD, ServiceProfile
from petsync.wire.failure import error_for
from petsync.wire.message import Call, Request, Response

__all__ = ["Session"]

T = TypeVar("T")
log = logging.getLogger(__name__)

_REDIRECTS = 5
_KEY_OPERATIONS = frozenset({"getPetById", "deletePet"})
_AGENT = "petsync/0.1"


class Session:
    """A service's base URL, how it is spoken to, and the connections to it.

    `timeout` is in seconds: for connecting, and for each wait for more of an answer. `transport`
    makes an httpx transport that is used instead of aiohttp. Raises SettingsError for a base URL,
    credentials or a timeout that cannot be used; `send` raises ApiError and nothing else.
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
        _check(credentials, timeout)
        self.base_url = checked_base(base_url, with_secret=bool(credentials), allow_http=allow_http)
        self._encoded_base = _encoded_base(self.base_url)
        self.profile = profile
        self.pace = Pace()
        self.credentials = credentials
        self._retry, self._allow_http = retry, allow_http
        self._timeout, self._transport = timeout, transport
        self._carriers: WeakKeyDictionary[asyncio.AbstractEventLoop, Carrier] = WeakKeyDictionary()

    async def send(
        self,
        call: Call[T],
        *,
        again: Callable[[ApiError], Awaitable[None]] | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> T:
        """The call's result, after as many attempts as are safe.

        `again` is awaited before each further attempt, with the error of the one before, and ends
        them by raising. Where one attempt may have happened, the error of a later one says so too.
        `on_sent` is told how many bytes of the body have gone out in the present attempt.
        """
        request, uncertain = call.request, False
        last: ApiError

        async def attempt() -> T:
            nonlocal uncertain, last
            try:
                return await self._attempt(call, on_sent)
            except ApiError as error:
                uncertain = error.may_have_happened = uncertain or error.may_have_happened
                last = error
                raise

        async def repeat() -> T:
            if again is not None:
                await again(last)
            return await attempt()

        try:
            return await attempt()
        except ApiError as error:
            if not self._retry.repeats(request, error):
                raise
            first = error
        try:
            return await self._retry.run(request, repeat, first)
        except NotFoundError:
            if request.operation == "deletePet" and uncertain:
                return call.read(Response(204, {}, b""))
            raise

    async def answer(self, request: Request) -> Response:
        """What the service answers, whatever its status, with every secret in it masked.

        One attempt. Raises TransportError, and RedirectError for a redirect to another origin.
        """
        return self._masked(await self._answer(request))

    def narrowed(self, *, token: bool = False, key: bool = False) -> Session:
        """Another session with the service that has no more than these of the credentials, and
        does not retry.
        """
        mine = self.credentials
        return Session(
            self.base_url,
            credentials=Credentials(mine.token if token else None, mine.key if key else None),
            profile=self.profile,
            retry=RetryPolicy(attempts=1),
            timeout=self._timeout,
            allow_http=self._allow_http,
            transport=self._transport,
        )

    async def close(self) -> None:
        """Close the connections; the session can be used again."""
        here = asyncio.get_running_loop()
        carriers = list(self._carriers.items())
        self._carriers.clear()
        for loop, carrier in carriers:
            if loop is here:
                await carrier.close()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(carrier.close(), loop)

    async def _attempt(self, call: Call[T], on_sent: Callable[[int], None] | None) -> T:
        request = call.request
        response = await self._answer(request, on_sent)
        if not 200 <= response.status < 300:
            raise error_for(self._masked(response), request, datetime.now(UTC))
        try:
            return call.read(response)
        except ResponseError as error:
            error.operation, error.pet_id = request.operation, request.pet_id
            error.status = response.status
            said = self.credentials.masked_text(error.message)
            error.message = f"{request.operation}: {said}"
            error.args = (error.message,)
            error.may_have_happened = True
            raise

    async def _answer(
        self, request: Request, on_sent: Callable[[int], None] | None = None
    ) -> Response:
        await self.pace.wait()
        url = self._encoded_base + request.target
        return await self._exchange(request, url, _REDIRECTS, on_sent)

    def _masked(self, response: Response) -> Response:
        return replace(response, body=self.credentials.masked(response.body))

    async def _exchange(
        self, request: Request, url: str, redirects: int, on_sent: Callable[[int], None] | None
    ) -> Response:
        target = None
        try:
            response = await self._once(request, url, on_sent)
            if 300 <= response.status < 400 and response.status != 304:
                masked = self.credentials.masked_text
                target = redirect_target(request, response, url, masked)
        except ERRORS as error:
            raise self._transport_error(request, error) from None
        if target is None:
            return response
        if not redirects:
            raise endless(request, response.status, _REDIRECTS)
        return await self._exchange(request, target, redirects - 1, on_sent)

    async def _once(
        self, request: Request, url: str, on_sent: Callable[[int], None] | None
    ) -> Response:
        response = await self._carrier_here().carry(
            request.method, url, self._headers(request), request.body, on_sent
        )
        if log.isEnabledFor(logging.DEBUG):
            shown = self.credentials.masked_text(url)
            log.debug("%s %s: %d", request.method, shown, response.status)
        return response

    def _carrier_here(self) -> Carrier:
        """Connections belong to the loop that they were opened on, and a store may be used on
        several: its own, and the notebook's through `aio`.
        """
        loop = asyncio.get_running_loop()
        carrier = self._carriers.get(loop)
        if carrier is None:
            carrier = self._carriers[loop] = self._make_carrier()
        return carrier

    def _make_carrier(self) -> Carrier:
        if self._transport is None:
            return AiohttpCarrier(self.base_url, self._timeout)
        return HttpxCarrier(self._transport(), self._timeout)

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"user-agent": _AGENT, "accept-encoding": "gzip, deflate", **request.headers}
        if self.credentials.token is not None:
            headers["authorization"] = f"Bearer {self.credentials.token.reveal()}"
        if self.credentials.key is not None and request.operation in _KEY_OPERATIONS:
            headers.setdefault(self.profile.api_key_header, self.credentials.key.reveal())
        return headers

    def _transport_error(self, request: Request, error: Exception) -> TransportError:
        unsent = never_sent(error)
        about = "" if request.pet_id is None else f" of pet {request.pet_id}"
        what = "cannot be reached" if unsent else "gave no whole answer"
        reason = self.credentials.masked_text(_reason(error))
        return TransportError(
            f"{request.operation}{about}: {self.base_url} {what} ({reason})",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=not unsent,
            hint="Is the address right, and the service up?" if unsent else "",
        )


def _check(credentials: object, timeout: object) -> None:
    if not isinstance(credentials, Credentials):
        raise SettingsError(
            f"the credentials are {type(credentials).__name__}, which is not how a token is given",
            hint="Use petsync.auth.bearer(…), petsync.auth.api_key(…) or petsync.auth.none().",
        )
    number = timeout if isinstance(timeout, int | float) and timeout is not True else 0
    if not 0 < number < math.inf:
        raise SettingsError(
            f"the timeout is {timeout!r}, not a number of seconds above 0",
            hint="For example timeout=30.",
        )


def _encoded_base(url: str) -> str:
    try:
        return encoded(url)
    except httpx.InvalidURL as error:
        raise SettingsError(f"the address {url!r} cannot be read: {error}") from None


def _reason(error: Exception) -> str:
    """The system's own words where there are some: "Connection refused"."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__
