"""Session: send calls to one service, follow redirects, and read whole answers."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import httpx

from petsync.client.auth.credentials import Credentials
from petsync.client.auth.renewal import Keyring, Renewer, still_refused
from petsync.client.origin import checked_base, encode_url, endless, redirect_target
from petsync.client.retry import RetryPolicy
from petsync.client.throttle import LONGEST_PAUSE, Breaker, Flow, Gate, Health, Pace
from petsync.client.transport import (
    ERRORS,
    UNTRUSTED,
    AiohttpTransport,
    Bounds,
    HttpxTransport,
    TooLongError,
    Transport,
    never_sent,
    tls_reason,
)
from petsync.errors import (
    ApiError,
    AuthError,
    NotFoundError,
    PetsyncError,
    RateLimitedError,
    ResponseError,
    ServiceError,
    SettingsError,
    TransportError,
    UnavailableError,
)
from petsync.profile import STANDARD, ServiceProfile
from petsync.protocol.operations import Call, Request, Response, Traffic, error_for, shape_of
from petsync.protocol.xml import detect_shape

__all__ = ["PHOTO", "Again", "Exchange", "Hold", "Line", "OnSent", "ServiceCall", "Session"]


# Exchange: one request to one service, through redirects, and its whole answer.


log = logging.getLogger(__name__)

OnSent = Callable[[int], None]
PHOTO = "a photo"
"""The name under which an image is asked for that the service serves."""
_REDIRECTS = 5
_PET = 16_000_000
_PHOTO = 64_000_000
_KEY_OPERATIONS = frozenset({"getPetById", "deletePet"})
_AGENT = f"petsync/{version('petsync')}"


class _Headers(dict[str, str]):
    """Headers, of which a verbose traceback shows the names alone."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


class Exchange:
    """Sends one request at a time to the service at `base_url`; it keeps nothing of any."""

    def __init__(self, base_url: str, profile: ServiceProfile) -> None:
        self._base_url, self._key_header = base_url, profile.api_key_header
        self._encoded_base = _encoded_base(base_url)
        self._seconds = profile.answer_seconds
        lists = max(_PET, profile.max_answer_mb * 1_000_000)
        self._sizes = {"findPetsByStatus": lists, "findPetsByTags": lists, PHOTO: _PHOTO}

    async def answer(
        self,
        request: Request,
        credentials: Credentials,
        carrier: Transport,
        on_sent: OnSent | None = None,
    ) -> Response:
        """The answer, whatever its status. Raises TransportError, RedirectError, and ResponseError
        for one that is longer than what was asked for can be.
        """
        url = self._encoded_base + request.target
        headers = self._headers(request, credentials)
        bounds = Bounds(self._sizes.get(request.operation, _PET), self._seconds)
        for _ in range(_REDIRECTS + 1):
            # Raised outside, an error leaves behind the frames of those who saw the headers.
            failure: ApiError | None = None
            try:
                response = await carrier.carry(
                    request.method, url, headers, request.body, bounds, on_sent
                )
            except TooLongError as error:
                failure = self._too_long(request, str(error))
            except ERRORS as error:
                failure = self._transport_error(request, error, credentials)
            if failure is not None:
                raise failure
            if log.isEnabledFor(logging.DEBUG):
                shown = credentials.mask(url)
                log.debug("%s %s: %d", request.method, shown, response.status)
            if not 300 <= response.status < 400 or response.status == 304:
                return response
            url = redirect_target(request, response, url, credentials.mask)
        raise endless(request, response.status, _REDIRECTS)

    def _headers(self, request: Request, credentials: Credentials) -> _Headers:
        headers = _Headers(
            {"user-agent": _AGENT, "accept-encoding": "gzip, deflate", **request.headers}
        )
        if credentials.token is not None:
            headers["authorization"] = f"Bearer {credentials.token.reveal()}"
        if credentials.key is not None and request.operation in _KEY_OPERATIONS:
            headers.setdefault(self._key_header, credentials.key.reveal())
        return headers

    def _transport_error(
        self, request: Request, error: Exception, credentials: Credentials
    ) -> TransportError:
        unsent = never_sent(error)
        about = "" if request.pet_id is None else f" of pet {request.pet_id}"
        what = "cannot be reached" if unsent else "gave no whole answer"
        untrusted = tls_reason(error)
        reason = credentials.mask(untrusted or _reason(error))
        hint = "Is the address right, and the service up?" if unsent else ""
        return TransportError(
            f"{request.operation}{about}: {self._base_url} {what} ({reason})",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=not unsent,
            hint=UNTRUSTED if untrusted else hint,
        )

    def _too_long(self, request: Request, most: str) -> ResponseError:
        about = "" if request.pet_id is None else f" of pet {request.pet_id}"
        is_list = request.operation.startswith("findPets")
        return ResponseError(
            f"{request.operation}{about}: {self._base_url} sends more than {most}, and no more of "
            "it is read",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=request.method != "GET",
            hint="If the catalogue is that large: max_answer_mb under [service] in petsync.toml."
            if is_list
            else "Is it the service, or something between here and there, that answers?",
        )


def _encoded_base(url: str) -> str:
    try:
        return encode_url(url)
    except httpx.InvalidURL as error:
        raise SettingsError(f"the address {url!r} cannot be read: {error}") from None


def _reason(error: Exception) -> str:
    """The system's own words where there are some: "Connection refused"."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__


# ServiceCall: one call on its way, from its first attempt to its result.


T = TypeVar("T")
Again = Callable[[ApiError], Awaitable[None]]
Hold = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Line:
    """What every call needs that goes to one service on one event loop."""

    flow: Flow
    exchange: Exchange
    keyring: Keyring
    policy: RetryPolicy


class ServiceCall(Generic[T]):
    """A call to one service. `patient`: attempts that found nobody listening do not count, as the
    breaker ends them.
    """

    __slots__ = (
        "_again",
        "_age",
        "_attempts",
        "_begun",
        "_call",
        "_held",
        "_hold",
        "_is_waited_for",
        "_last",
        "_line",
        "_on_sent",
        "_patient",
        "_uncertain",
    )

    def __init__(
        self,
        call: Call[T],
        line: Line,
        *,
        again: Again | None = None,
        on_sent: OnSent | None = None,
        hold: Hold | None = None,
        patient: bool = False,
    ) -> None:
        self._call, self._line = call, line
        self._again, self._on_sent, self._patient = again, on_sent, patient
        self._hold = hold
        self._age = self._attempts = 0
        self._held = self._begun = 0.0
        self._is_waited_for = self._uncertain = False

    async def result(self) -> T:
        """What the call reads of its answer. Raises ApiError."""
        try:
            return await self._send_authorised()
        except ApiError as error:
            if not self.goes_on(error):
                raise
            first = error
        # The time at the gate counts for all, and not against this one.
        self._begun = self._line.flow.now() - self._held
        try:
            return await self._line.policy.run(self, first)
        except NotFoundError:
            if self._call.request.operation == "deletePet" and self._uncertain:
                return self._call.read(Response(204, {}, b""))
            raise

    def goes_on(self, error: BaseException) -> bool:
        """As Repeated says."""
        return self._line.policy.repeats(self._call.request, error)

    def ends(self, wait: float) -> bool:
        """As Repeated says."""
        if _asked_for(self._last) > LONGEST_PAUSE:
            return True
        return self._attempts >= self._line.policy.attempts or wait > self._seconds_left()

    async def pause(self, seconds: float) -> None:
        """As Repeated says: the back-off, then a token of the budget."""
        await self._line.flow.rest(seconds)
        if not await self._line.flow.budget.take(self._seconds_left()):
            raise self._last

    async def attempt(self) -> T:
        """As Repeated says."""
        await self._look(self._last)
        return await self._send_authorised()

    async def _send_authorised(self) -> T:
        """One attempt; after a 401, which surely did nothing, again with a renewed token."""
        is_new = False
        while True:
            try:
                return await self._once()
            except AuthError as error:
                if error.status != 401:
                    raise
                refused = error
            keyring = self._line.keyring
            is_current = self._age == keyring.age
            if is_current and is_new:
                raise still_refused(refused)
            await keyring.renew(self._age, refused)
            is_new = is_new or is_current
            await self._look(refused)

    async def _look(self, error: ApiError) -> None:
        if self._again is not None:
            await self._again(error)
        self._line.flow.counts.retries += 1

    async def _once(self) -> T:
        flow = self._line.flow
        await self._line.keyring.fresh()
        asked = flow.now()
        try:
            changes = self._call.request.method != "GET"
            await flow.enter(again=self._begun != 0.0, changes=changes)
        except UnavailableError as error:
            raise self._annotate_error(error) from None
        begun = flow.now()
        self._held += begun - asked
        self._age = self._line.keyring.age
        try:
            if self._hold is not None:
                await self._hold()
            result = await self._exchange_once()
        except ApiError as error:
            wait = self._line.policy.common_wait(self._attempts + 1)
            flow.record_failure(self._call.request.operation, error, begun, wait)
            self._annotate_error(error)
            raise
        else:
            flow.record_answer(self._call.request.operation, begun)
            return result
        finally:
            flow.leave()

    async def _exchange_once(self) -> T:
        line, request = self._line, self._call.request
        credentials = line.keyring.credentials
        line.flow.counts.requests += 1
        response = await line.exchange.answer(
            request, credentials, line.flow.carrier, self._on_sent
        )
        if not 200 <= response.status < 300:
            raise error_for(response, request, datetime.now(UTC), credentials.mask)
        try:
            return self._call.read(response)
        except ResponseError as error:
            # Its frames hold the answer.
            failure = error.with_traceback(None)
        failure.status = response.status
        failure.message = f"{request.operation}: {credentials.mask(failure.message)}"
        failure.args = (failure.message,)
        failure.may_have_happened = True
        raise failure from None

    def _annotate_error(self, error: ApiError) -> ApiError:
        """The error, which now also says what is known of the attempts before."""
        request = self._call.request
        error.operation, error.pet_id = request.operation, request.pet_id
        gone = isinstance(error, TransportError) and not error.may_have_happened
        self._is_waited_for = gone and self._patient
        self._attempts += not (self._is_waited_for or isinstance(error, AuthError))
        self._uncertain = error.may_have_happened = self._uncertain or error.may_have_happened
        self._last = error
        return error

    def _seconds_left(self) -> float:
        """The seconds that may still pass, without those in which everything waits."""
        if self._is_waited_for:
            return math.inf
        spent = self._line.flow.now() - self._held - self._begun
        return self._line.policy.seconds - spent


def _asked_for(error: ApiError) -> float:
    seconds = error.retry_after if isinstance(error, RateLimitedError | ServiceError) else None
    return seconds or 0.0


# Session: sends calls to one service and reads the answers.
#
# It drives aiohttp itself: httpx.AsyncClient on its default transport reaches less than a tenth
# of its rate at 32 connections (benchmarks/requests.py), and httpx's requests and responses alone
# would nearly double the time of one.


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
        sending = ServiceCall(
            call, self._here(), again=again, on_sent=on_sent, hold=hold, patient=patient
        )
        return await sending.result()

    def _learning(self, call: Call[T]) -> Call[T]:
        """The same call, which also learns the shape of the pets in its answer."""

        def read_and_learn(response: Response) -> T:
            result = call.read(response)
            self.shape = detect_shape(response.body, self.shape)
            return result

        return Call(call.request, read_and_learn)

    async def answer(self, request: Request) -> Response:
        """What the service answers, whatever its status, as it is: `credentials.mask` takes
        secrets out of what is shown of it.

        One attempt, which waits its turn and teaches nothing. Raises AuthError where there is no
        token yet and none can be had, TransportError, ResponseError for an answer that is too
        long, and RedirectError for a redirect to another origin.
        """
        line = self._here()
        await line.keyring.fresh()
        credentials = self.credentials
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

    def with_only(self, *, token: bool = False, key: bool = False) -> Session:
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
        await self._keyring.wait_for_renewal(self._timeout)
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

    def _make_carrier(self) -> Transport:
        if self._transport is None:
            return AiohttpTransport(self.base_url, self._timeout)
        return HttpxTransport(self._transport(), self._timeout)


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
