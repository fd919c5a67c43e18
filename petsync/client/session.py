"""Session: sends calls to one service, with retries, and returns their results."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx
from yarl import URL

from petsync.client.auth.credentials import Credentials, hide_other
from petsync.client.auth.renewal import CurrentCredentials, Renewer, build_still_refused_error
from petsync.client.origin import (
    build_redirect_loop_error,
    checked_base,
    encode_url,
    redirect_target,
)
from petsync.client.retry import RetryPolicy
from petsync.client.throttle import LONGEST_PAUSE, Breaker, Flow, Gate, Health, Pace
from petsync.client.transport import (
    ERRORS,
    UNTRUSTED,
    AiohttpTransport,
    Bounds,
    GivenClient,
    GivenTransport,
    HttpxTransport,
    TooLongError,
    Transport,
    tls_reason,
    was_never_sent,
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
from petsync.models import WRITE
from petsync.profile import STANDARD, ServiceProfile
from petsync.protocol.operations import (
    Call,
    NewReader,
    Request,
    Response,
    Traffic,
    error_for,
    shape_of,
)
from petsync.protocol.xml import detect_shape

__all__ = [
    "PHOTO",
    "BeforeRetry",
    "BeforeSend",
    "Exchange",
    "Line",
    "OnSent",
    "ServiceCall",
    "Session",
]


# Exchange: sends a request, follows redirects, and returns the complete response.


log = logging.getLogger(__name__)

OnSent = Callable[[int], None]
PHOTO = "a photo"
"""The name of the request for a photo, which is not an operation of the service."""
_REDIRECTS = 5
_PET = 16_000_000
_PHOTO = 64_000_000
_KEY_OPERATIONS = frozenset({"getPetById", "deletePet"})
_ONLY_KEY = "An API key gives access only to single pets by their id: a token is needed too."
MISSING_VERSION = "/v2"
"""The path of most pet stores, which users forget."""
_WITHOUT_TLS = ("wrong version number", "record layer failure")
"""OpenSSL's reasons if a port does not use TLS."""
_NO_TLS = "The port does not use TLS: is the address http:// instead of https://?"


class _Headers(dict[str, str]):
    """Headers. The repr shows only the names, because a verbose traceback shows variables."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


class Exchange:
    """Sends single requests to the service at `base_url`, and keeps no state between them."""

    def __init__(self, base_url: str, profile: ServiceProfile) -> None:
        self._base_url, self._key_header = base_url, profile.api_key_header
        self._base = _parse_base(base_url)
        self._base_path = self._base.raw_path.rstrip("/")
        seconds = profile.answer_seconds
        lists = Bounds(max(_PET, profile.max_answer_mb * 1_000_000), seconds)
        self._pet_bounds = Bounds(_PET, seconds)
        self._bounds = {
            "findPetsByStatus": lists,
            "findPetsByTags": lists,
            PHOTO: Bounds(_PHOTO, seconds),
        }

    async def send_request(
        self,
        request: Request,
        credentials: Credentials,
        transport: Transport,
        on_sent: OnSent | None = None,
        new_reader: NewReader | None = None,
    ) -> Response:
        """Return the response; its status may be an error. Raises TransportError if no complete
        response arrives, RedirectError, and ResponseError for a response above the size limit.
        """
        url = self._build_url(request.target)
        headers = self._headers(request, credentials)
        bounds = self._bounds.get(request.operation, self._pet_bounds)
        for _ in range(_REDIRECTS + 1):
            # Raise the error outside the handler: its traceback must not show the headers.
            failure: ApiError | None = None
            try:
                response = await transport.send(
                    request.method, url, headers, request.body, bounds, on_sent, new_reader
                )
            except PetsyncError:
                raise  # The request was not sent.
            except TooLongError as error:
                failure = self._build_too_long_error(request, str(error))
            except ERRORS as error:
                failure = self._build_transport_error(request, error, credentials)
            if failure is not None:
                raise failure
            if log.isEnabledFor(logging.DEBUG):
                shown = credentials.mask(str(url))
                log.debug("%s %s: %d", request.method, shown, response.status)
            if not 300 <= response.status < 400 or response.status == 304:
                return response
            url = redirect_target(request, response, url, credentials.mask)
        raise build_redirect_loop_error(request, response.status, _REDIRECTS)

    def suggest_version(self, request: Request) -> str:
        """Return a hint about the version in the path, for a list of pets that was not found; "" if
        the base URL has a path, or for another request.
        """
        if urlsplit(self._base_url).path or not request.operation.startswith("findPets"):
            return ""
        url = self._base_url + MISSING_VERSION
        return f"The address may lack {MISSING_VERSION}: try {url}."

    def _build_url(self, target: str) -> URL:
        # yarl needs much longer to parse a URL.
        path, _, query = target.partition("?")
        return URL.build(
            scheme=self._base.scheme,
            authority=self._base.raw_authority,
            path=self._base_path + path,
            query_string=query,
            encoded=True,
        )

    def _headers(self, request: Request, credentials: Credentials) -> _Headers:
        headers = _Headers(request.headers)
        if credentials.token is not None:
            headers["authorization"] = f"Bearer {credentials.token.reveal()}"
        if credentials.key is not None and request.operation in _KEY_OPERATIONS:
            headers[self._key_header] = credentials.key.reveal()
        return headers

    def _build_transport_error(
        self, request: Request, error: Exception, credentials: Credentials
    ) -> TransportError:
        unsent = was_never_sent(error)
        about = "" if request.pet_id is None else f" of pet {request.pet_id}"
        what = "cannot be reached" if unsent else "sent no complete response"
        untrusted = tls_reason(error)
        reason = credentials.mask(untrusted or _describe_error(error))
        hint = "Check the address, and that the service is running." if unsent else ""
        failure = TransportError(
            f"{request.operation}{about}: {self._base_url} {what} ({reason})",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=not unsent,
            hint=hint,
        )
        if untrusted:
            failure.is_without_tls = any(each in untrusted for each in _WITHOUT_TLS)
            failure.cure = _NO_TLS if failure.is_without_tls else UNTRUSTED
        return failure

    def _build_too_long_error(self, request: Request, limit: str) -> ResponseError:
        about = "" if request.pet_id is None else f" of pet {request.pet_id}"
        is_list = request.operation.startswith("findPets")
        return ResponseError(
            f"{request.operation}{about}: the response of {self._base_url} exceeds the limit of "
            f"{limit}",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=request.method != "GET",
            hint="If the catalogue is really that large, increase max_answer_mb under [service] in "
            "petsync.toml."
            if is_list
            else "Check whether the response comes from the service or from a proxy in between.",
        )


def _parse_base(url: str) -> URL:
    try:
        return URL(encode_url(url), encoded=True)
    except (httpx.InvalidURL, ValueError) as error:
        raise SettingsError(f"the address {url!r} cannot be read: {error}") from None


def _describe_error(error: Exception) -> str:
    """Return the operating system's message, such as "Connection refused", else the error."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__


# ServiceCall: one call, from its first attempt to its result.


T = TypeVar("T")
BeforeRetry = Callable[[ApiError], Awaitable[None]]
BeforeSend = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Line:
    """The limits, connections and credentials that calls of a session on one event loop share."""

    flow: Flow
    exchange: Exchange
    current: CurrentCredentials
    policy: RetryPolicy


class ServiceCall(Generic[T]):
    """A call with its retries. If it is `patient`, attempts without a connection do not count
    towards the retry limits: the call waits until the breaker opens.
    """

    __slots__ = (
        "_age",
        "_attempts",
        "_before_retry",
        "_before_send",
        "_call",
        "_gate_seconds",
        "_is_unreachable",
        "_last_error",
        "_line",
        "_may_have_happened",
        "_on_sent",
        "_patient",
        "_started",
    )

    def __init__(
        self,
        call: Call[T],
        line: Line,
        *,
        before_retry: BeforeRetry | None = None,
        on_sent: OnSent | None = None,
        before_send: BeforeSend | None = None,
        patient: bool = False,
    ) -> None:
        self._call, self._line = call, line
        self._before_retry, self._on_sent, self._patient = before_retry, on_sent, patient
        self._before_send = before_send
        self._age = self._attempts = 0
        self._gate_seconds = self._started = 0.0
        self._is_unreachable = self._may_have_happened = False

    async def result(self) -> T:
        """Send the call, and return its result. A 404 for a retried deletePet counts as success if
        an earlier attempt may have deleted the pet.
        """
        try:
            return await self._send_authorised()
        except ApiError as error:
            if not self.is_retryable(error):
                raise
            first = error
        # The time at the gate does not count towards the limit of the policy.
        self._started = self._line.flow.now() - self._gate_seconds
        try:
            return await self._line.policy.run(self, first)
        except NotFoundError:
            if self._call.request.operation == "deletePet" and self._may_have_happened:
                return self._call.read(Response(204, {}, b""))
            raise

    def is_retryable(self, error: BaseException) -> bool:
        # The first requests are not patient. A run has used the address before, so it waits.
        if isinstance(error, TransportError) and error.is_without_tls and not self._patient:
            return False
        return self._line.policy.allows_retry(self._call.request, error)

    def must_stop(self, wait: float) -> bool:
        if _requested_wait(self._last_error) > LONGEST_PAUSE:
            return True
        return self._attempts >= self._line.policy.attempts or wait > self._seconds_left()

    async def pause(self, seconds: float) -> None:
        """Wait for the back-off and then for a token of the retry budget. Raises the last error if
        no token becomes available in time.
        """
        await self._line.flow.wait_for_backoff(seconds)
        if not await self._line.flow.budget.take(self._seconds_left()):
            raise self._last_error

    async def attempt(self) -> T:
        try:
            await self._prepare_retry(self._last_error)
            return await self._send_authorised()
        except ApiError as error:
            # The error may be that of another request: of `before_retry`, or of a renewal.
            error.may_have_happened = error.may_have_happened or self._may_have_happened
            raise

    async def _send_authorised(self) -> T:
        """Make one attempt, and return its result. After a 401, renew the token and try again; the
        refused request changed nothing.
        """
        is_new = False
        while True:
            try:
                return await self._attempt_once()
            except AuthError as error:
                if error.status != 401:
                    raise
                refused = error
            current = self._line.current
            is_current = self._age == current.age
            if is_current and is_new:
                raise build_still_refused_error(refused)
            await current.renew(self._age, refused)
            is_new = is_new or is_current
            await self._prepare_retry(refused)

    async def _prepare_retry(self, error: ApiError) -> None:
        if self._before_retry is not None:
            await self._before_retry(error)
        self._line.flow.counts.retries += 1

    async def _attempt_once(self) -> T:
        flow, current = self._line.flow, self._line.current
        if current.is_due:
            await current.ensure_fresh()
        started = flow.now()
        if not flow.enter_now():
            started = await self._wait_for_entry(started)
        self._age = current.age
        try:
            if self._before_send is not None:
                await self._before_send()
            request = self._call.request
            credentials = current.credentials.with_key(request.api_key)
            flow.counts.requests += 1
            response = await self._line.exchange.send_request(
                request, credentials, flow.transport, self._on_sent, self._call.new_reader
            )
            result = self._read(response, credentials)
        except ApiError as error:
            wait = self._line.policy.common_wait(self._attempts + 1)
            flow.record_failure(self._call.request.operation, error, started, wait)
            self._annotate_error(error)
            raise
        else:
            flow.record_answer(self._call.request.operation, started)
            return result
        finally:
            flow.leave()

    async def _wait_for_entry(self, arrived: float) -> float:
        """Wait until the call may be sent, and return the time."""
        flow = self._line.flow
        try:
            changes = self._call.request.method != "GET"
            await flow.enter(again=self._started != 0.0, changes=changes)
        except UnavailableError as error:
            raise self._annotate_error(error) from None
        now = flow.now()
        self._gate_seconds += now - arrived
        return now

    def _read(self, response: Response, credentials: Credentials) -> T:
        """Return the result in the response. Raises the ApiError of an unsuccessful one."""
        line, request = self._line, self._call.request
        if not 200 <= response.status < 300:
            refusal = error_for(response, request, datetime.now(UTC), credentials.mask)
            if isinstance(refusal, NotFoundError):
                refusal.cure = line.exchange.suggest_version(request) or refusal.cure
            if refusal.status == 401 and _lacks_token(request, credentials):
                refusal.cure = f"{_ONLY_KEY} {credentials.hint or refusal.cure}"
            elif refusal.status == 401:
                refusal.cure = credentials.refused_hint or refusal.cure
            raise refusal
        try:
            return self._call.read(response)
        except ResponseError as error:
            # Drop the traceback, because its frames contain the response.
            failure = error.with_traceback(None)
        failure.status = response.status
        failure.cure = f"{line.exchange.suggest_version(request)} {failure.cure}".strip()
        failure.problem = f"{request.operation}: {credentials.mask(failure.problem)}"
        failure.args = (failure.problem,)
        failure.may_have_happened = True
        raise failure from None

    def _annotate_error(self, error: ApiError) -> ApiError:
        """Record the failed attempt, complete the error with what is known about earlier attempts,
        and return it.
        """
        request = self._call.request
        error.operation, error.pet_id = request.operation, request.pet_id
        is_unreachable = isinstance(error, TransportError) and not error.may_have_happened
        self._is_unreachable = is_unreachable and self._patient
        self._attempts += not (self._is_unreachable or isinstance(error, AuthError))
        self._may_have_happened = error.may_have_happened = (
            self._may_have_happened or error.may_have_happened
        )
        self._last_error = error
        return error

    def _seconds_left(self) -> float:
        """Return the seconds that the policy leaves for retries; infinite for a patient call while
        the service cannot be reached.
        """
        if self._is_unreachable:
            return math.inf
        spent = self._line.flow.now() - self._gate_seconds - self._started
        return self._line.policy.seconds - spent


def _lacks_token(request: Request, credentials: Credentials) -> bool:
    """Return true if there is only an API key, and the operation does not use it."""
    is_used = request.operation in _KEY_OPERATIONS
    return credentials.token is None and credentials.key is not None and not is_used


def _requested_wait(error: ApiError) -> float:
    seconds = error.retry_after if isinstance(error, RateLimitedError | ServiceError) else None
    return seconds or 0.0


# Session: the connections, credentials and limits for one service.
#
# It uses aiohttp directly. With 32 connections, httpx.AsyncClient on its default transport sends
# less than a tenth as many requests per second (benchmarks/requests.py), and httpx's request and
# response objects alone would nearly double the time of a request.


class Session:
    """Sends requests to the service at `base_url`.

    `timeout` is the maximum time in seconds to connect (at most 10), and of each wait for more of a
    response. `transport` makes an httpx transport to use instead of aiohttp; `given` is a transport
    or client of the caller, which the session does not close.

    Raises SettingsError for an invalid base URL, credentials or timeout. `send` raises ApiError,
    SettingsError if the environment names a proxy or a certificate file that cannot be used, and
    PetsyncError after `close(for_good=True)`.
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
        given: GivenTransport | GivenClient | None = None,
    ) -> None:
        credentials = hide_other(credentials)
        _check(credentials, timeout)
        self.base_url = checked_base(base_url, with_secret=bool(credentials), allow_http=allow_http)
        self.profile = profile
        self.shape = shape_of(profile)
        """The element names of pets in XML: those of the service's responses if known, else those
        of the profile.
        """
        self._exchange = Exchange(self.base_url, profile)
        self._current = CurrentCredentials(credentials)
        self._health = Health()
        self._retry, self._allow_http = retry, allow_http
        self._timeout, self._transport, self.given = timeout, transport, given
        self._is_closed = False
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()

    @property
    def credentials(self) -> Credentials:
        """The credentials of the next request."""
        return self._current.credentials

    def require_write(self) -> None:
        """Raise AuthError, and send nothing, if the sign-in is known not to permit changes."""
        if self.credentials.lacks_write:
            raise AuthError(
                f"the sign-in at {self.base_url} lacks {WRITE}, so the store would refuse every "
                "change; nothing was sent",
                hint="`petsync login` requests it; `petsync whoami` shows your permissions.",
            )

    @property
    def pace(self) -> Pace:
        """The limit of requests per second. Set its `rate` to change it."""
        return self._health.pace

    @property
    def gate(self) -> Gate:
        """The limit of concurrent requests on the running loop. Set its `most` to change it."""
        return self._get_line().flow.gate

    @property
    def breaker(self) -> Breaker:
        return self._health.breaker

    async def send(
        self,
        call: Call[T],
        *,
        before_retry: BeforeRetry | None = None,
        on_sent: OnSent | None = None,
        before_send: BeforeSend | None = None,
        patient: bool = False,
    ) -> T:
        """Send the call, with safe retries, and return its result.

        `before_retry` is awaited before each attempt after the first, with the error of the
        previous attempt; if it raises an exception, the call ends with it. `before_send` is awaited
        just before each attempt; if it raises an exception, the attempt is not sent. `on_sent` gets
        the number of bytes of the body that were sent in the current attempt. If an attempt may
        have been processed, later errors have `may_have_happened` too, also those of
        `before_retry`. With `patient`, the call waits for a service that cannot be reached until
        the breaker opens.
        """
        if self.profile.media == "xml":
            call = self._with_shape(call)
        sending = ServiceCall(
            call,
            self._get_line(),
            before_retry=before_retry,
            on_sent=on_sent,
            before_send=before_send,
            patient=patient,
        )
        return await sending.result()

    def _with_shape(self, call: Call[T]) -> Call[T]:
        """Return a call with the same result that also updates `shape` from the response."""

        def read_and_learn(response: Response) -> T:
            result = call.read(response)
            self.shape = detect_shape(response.body, self.shape)
            return result

        # The shape needs the whole body.
        return Call(call.request, read_and_learn)

    async def send_request(self, request: Request) -> Response:
        """Send one request without retries, and return the response; its status may be an error.
        Mask secrets with `credentials.mask` before you display it.

        The request waits at the gate, but its result does not change the limits. Raises AuthError
        if no token can be obtained, TransportError, ResponseError for a response that is too long,
        and RedirectError for a redirect that is not followed.
        """
        line = self._get_line()
        await line.current.ensure_fresh()
        credentials = self.credentials.with_key(request.api_key)
        while not await line.flow.gate.enter():
            pass
        line.flow.counts.requests += 1
        try:
            transport = line.flow.transport
            return await self._exchange.send_request(request, credentials, transport)
        finally:
            line.flow.leave()

    def traffic(self) -> Traffic:
        """Return the request counts since the session was created, and the current state."""
        return self.traffic_since(Traffic())

    def traffic_since(self, mark: Traffic) -> Traffic:
        """Return the request counts since `mark`, a result of `traffic`, and the current state."""
        counts = self._health.counts
        flows = [(loop, line.flow) for loop, line in list(self._lines.items())]
        return Traffic(
            requests=counts.requests - mark.requests,
            retries=counts.retries - mark.retries,
            refused=counts.refused - mark.refused,
            limit=self._health.window.limit,
            under_way=sum(flow.gate.under_way for _, flow in flows),
            waiting=max((self.pace.remaining_pause(loop.time()) for loop, _ in flows), default=0.0),
        )

    def renew_by(self, renewer: Renewer) -> None:
        """Set the function that renews the tokens of a sign-in."""
        self._current.renewer = renewer

    def use(self, credentials: Credentials) -> None:
        """Use these credentials from now on. Raises SettingsError if they must not be sent to the
        base URL.
        """
        credentials = hide_other(credentials)
        _check(credentials, self._timeout)
        if credentials:
            self.require_safe_address()
        self._current.replace(credentials)

    def require_safe_address(self) -> None:
        """Raise SettingsError if secrets must not be sent to the base URL."""
        checked_base(self.base_url, with_secret=True, allow_http=self._allow_http)

    async def ensure_fresh(self) -> None:
        """Get a missing token, or renew a token that is due. Raises AuthError if a missing token
        cannot be obtained.
        """
        await self._current.ensure_fresh()

    async def renew(self, refused: AuthError) -> None:
        """Renew the token that was refused. Raises AuthError if it cannot be renewed."""
        await self._current.renew(self._current.age, refused)

    def with_only(self, *, token: bool = False, key: bool = False) -> Session:
        """Return a session without retries for the same service, with only the selected
        credentials.
        """
        current = self.credentials
        return self.make_trial_session(
            Credentials(current.token if token else None, current.key if key else None)
        )

    def make_trial_session(self, credentials: Credentials) -> Session:
        """Return a session without retries for the same service, with these credentials."""
        return Session(
            self.base_url,
            credentials=credentials,
            profile=self.profile,
            retry=RetryPolicy(attempts=1),
            timeout=self._timeout,
            allow_http=self._allow_http,
            transport=self._transport,
            given=self.given,
        )

    async def close(self, *, for_good: bool = False) -> None:
        """Close the connections. The next request opens new ones, or, with `for_good`, fails."""
        self._is_closed = self._is_closed or for_good
        await self._current.wait_for_renewal(self._timeout)
        running_loop = asyncio.get_running_loop()
        lines = list(self._lines.items())
        self._lines.clear()
        for loop, line in lines:
            closing = line.flow.transport.close()
            if loop is running_loop:
                await closing
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(closing, loop)
            else:
                closing.close()

    def _get_line(self) -> Line:
        """Return the `Line` of the running loop. A connection belongs to one loop, but a store may
        be used on several: the loop thread's and, through `aio`, the notebook's.
        """
        if self._is_closed:
            raise PetsyncError(
                f"the store {self.base_url} was closed",
                hint="Open it again: ps.connect(...), or ps.demo() for the embedded store.",
            )
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            flow = Flow(self._make_transport(), self._health)
            line = self._lines[loop] = Line(flow, self._exchange, self._current, self._retry)
        return line

    def _make_transport(self) -> Transport:
        if self.given is not None:
            return HttpxTransport(self.given, self._timeout, is_borrowed=True)
        if self._transport is None:
            return AiohttpTransport(self.base_url, self._timeout)
        return HttpxTransport(self._transport(), self._timeout)


def _check(credentials: object, timeout: object) -> None:
    if not isinstance(credentials, Credentials):
        kind = credentials if isinstance(credentials, type) else type(credentials)
        raise SettingsError(
            f"the credentials are {kind.__name__}, not credentials from petsync.auth",
            hint="Use petsync.auth.bearer(…), petsync.auth.api_key(…) or petsync.auth.none().",
        )
    number = timeout if isinstance(timeout, int | float) and timeout is not True else 0
    if not 0 < number < math.inf:
        raise SettingsError(
            f"the timeout is {timeout!r}, not a finite number of seconds above 0",
            hint="For example timeout=30.",
        )
