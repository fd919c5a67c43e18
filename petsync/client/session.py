"""Session: sends calls to one service and reads the answers.

It drives aiohttp itself: httpx.AsyncClient on its default transport reaches less than a tenth of
its rate at 32 connections (benchmarks/requests.py), and httpx's requests and responses alone would
nearly double the time of one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from typing import TypeVar
from weakref import WeakKeyDictionary

import httpx

from petsync.client.breaker import Breaker
from petsync.client.credentials import Credentials
from petsync.client.exchange import Exchange, OnSent
from petsync.client.flow import Flow, Health
from petsync.client.gate import Gate
from petsync.client.origin import checked_base
from petsync.client.pace import Pace
from petsync.client.renewal import Keyring, Renewer
from petsync.client.retry import RetryPolicy
from petsync.client.sending import Again, Hold, Line, Sending
from petsync.client.transport import AiohttpCarrier, Carrier, HttpxCarrier
from petsync.errors import AuthError, PetsyncError, SettingsError
from petsync.profile import STANDARD, ServiceProfile
from petsync.wire.calls import shape_of
from petsync.wire.message import Call, Request, Response
from petsync.wire.traffic import Traffic
from petsync.wire.xml import shape_in

__all__ = ["Session"]

T = TypeVar("T")


class Session:
    """A service's base URL, how it is spoken to, and the connections to it.

    `timeout` is in seconds: for connecting, and for each wait for more of an answer. `transport`
    makes an httpx transport that is used instead of aiohttp. Raises SettingsError for a base URL,
    credentials or a timeout that cannot be used; `send` raises ApiError and nothing else, but for
    PetsyncError once the session is closed.
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
        self.profile = profile
        self.shape = shape_of(profile)
        """How pets are written in XML: as the service last sent them, as far as it has shown it."""
        self._exchange = Exchange(self.base_url, profile)
        self._keyring = Keyring(credentials)
        self._health = Health()
        self._retry, self._allow_http = retry, allow_http
        self._timeout, self._transport = timeout, transport
        self._is_closed = False
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()

    @property
    def credentials(self) -> Credentials:
        """What the next request is authorised with."""
        return self._keyring.credentials

    @property
    def pace(self) -> Pace:
        """How many requests a second are sent; its `rate` may be set."""
        return self._health.pace

    @property
    def gate(self) -> Gate:
        """How many requests are under way at a time on the running loop; `most` may be set."""
        return self._here().flow.gate

    @property
    def breaker(self) -> Breaker:
        """When a failing service is waited for, and when it is given up."""
        return self._health.breaker

    async def send(
        self,
        call: Call[T],
        *,
        again: Again | None = None,
        on_sent: OnSent | None = None,
        hold: Hold | None = None,
        patient: bool = False,
    ) -> T:
        """The call's result, after as many attempts as are safe.

        `again` is awaited before each further attempt, with the error of the one before, and ends
        them by raising. Where one attempt may have happened, the error of a later one says so too.
        `on_sent` is told how many bytes of the body have gone out in the present attempt. `hold` is
        awaited just before each attempt, and keeps it from being sent by raising. With
        `patient`, a service that has gone away is waited for as long as the breaker bears it.
        """
        if self.profile.media == "xml":
            call = self._learning(call)
        sending = Sending(
            call, self._here(), again=again, on_sent=on_sent, hold=hold, patient=patient
        )
        return await sending.result()

    def _learning(self, call: Call[T]) -> Call[T]:
        """The same call, which also learns the shape of the pets in its answer."""

        def read(response: Response) -> T:
            result = call.read(response)
            self.shape = shape_in(response.body, self.shape)
            return result

        return Call(call.request, read)

    async def answer(self, request: Request) -> Response:
        """What the service answers, whatever its status, as it is: `credentials.masked` takes
        secrets out of what is shown of it.

        One attempt, which waits its turn and teaches nothing. Raises TransportError, ResponseError
        for an answer that is too long, and RedirectError for a redirect to another origin.
        """
        line, credentials = self._here(), self.credentials
        while not await line.flow.gate.enter():
            pass
        line.flow.counts.requests += 1
        try:
            carrier = line.flow.carrier
            return await self._exchange.answer(request, credentials, carrier)
        finally:
            line.flow.leave()

    def traffic(self) -> Traffic:
        """Counts since the session was made, and the state at this moment."""
        return self.traffic_since(Traffic())

    def traffic_since(self, mark: Traffic) -> Traffic:
        """The same, with what came after `traffic` gave this mark."""
        counts = self._health.counts
        flows = [(loop, line.flow) for loop, line in list(self._lines.items())]
        return Traffic(
            requests=counts.requests - mark.requests,
            retries=counts.retries - mark.retries,
            refused=counts.refused - mark.refused,
            limit=self._health.window.limit,
            under_way=sum(flow.gate.under_way for _, flow in flows),
            waiting=max((self.pace.pauses(loop.time()) for loop, _ in flows), default=0.0),
        )

    def renew_by(self, renewer: Renewer) -> None:
        """Let this give new tokens for a sign-in that can be renewed."""
        self._keyring.renewer = renewer

    def use(self, credentials: Credentials) -> None:
        """Send these from here on. Raises SettingsError where the address must not get any."""
        _check(credentials, self._timeout)
        checked_base(self.base_url, with_secret=bool(credentials), allow_http=self._allow_http)
        self._keyring.replace(credentials)

    async def fresh(self) -> None:
        """Return when the token has time before it, or no new one can be had. Raises AuthError."""
        await self._keyring.fresh()

    async def renew(self, refused: AuthError) -> None:
        """Return with a new token for the one that was refused. Raises AuthError."""
        await self._keyring.renew(self._keyring.age, refused)

    def narrowed(self, *, token: bool = False, key: bool = False) -> Session:
        """Another session with the service that has no more than these of the credentials, and
        does not retry.
        """
        mine = self.credentials
        return self.trial(Credentials(mine.token if token else None, mine.key if key else None))

    def trial(self, credentials: Credentials) -> Session:
        """Another session with the service, which tries these and does not retry."""
        return Session(
            self.base_url,
            credentials=credentials,
            profile=self.profile,
            retry=RetryPolicy(attempts=1),
            timeout=self._timeout,
            allow_http=self._allow_http,
            transport=self._transport,
        )

    async def close(self, *, for_good: bool = False) -> None:
        """Close the connections. The next request opens others; `for_good`, it is an error."""
        self._is_closed = self._is_closed or for_good
        await self._keyring.settled(self._timeout)
        here = asyncio.get_running_loop()
        lines = list(self._lines.items())
        self._lines.clear()
        for loop, line in lines:
            closing = line.flow.carrier.close()
            if loop is here:
                await closing
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(closing, loop)
            else:
                closing.close()

    def _here(self) -> Line:
        """Connections belong to the loop that they were opened on, and a store may be used on
        several: its own, and the notebook's through `aio`.
        """
        if self._is_closed:
            raise PetsyncError(
                f"the store {self.base_url} was closed, and is not asked any more",
                hint="Open it again: ps.connect(...), or ps.demo() for the embedded store.",
            )
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            flow = Flow(self._make_carrier(), self._health)
            line = self._lines[loop] = Line(flow, self._exchange, self._keyring, self._retry)
        return line

    def _make_carrier(self) -> Carrier:
        if self._transport is None:
            return AiohttpCarrier(self.base_url, self._timeout)
        return HttpxCarrier(self._transport(), self._timeout)


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
