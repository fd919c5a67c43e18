"""The limits on a session's requests: rate, concurrency, pauses and the circuit breaker."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from petsync.client.retry import RetryBudget
from petsync.client.transport import Transport
from petsync.errors import (
    ApiError,
    RateLimitedError,
    ServiceError,
    TransportError,
    UnavailableError,
)

__all__ = [
    "LONGEST_PAUSE",
    "MAX_CONCURRENCY",
    "AdaptiveRate",
    "Breaker",
    "Flow",
    "Gate",
    "Health",
    "Pace",
    "TrafficCounts",
    "Window",
    "is_outage",
]


# Breaker: the circuit breaker for a service that fails or cannot be reached.


_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 5.0
_LONGEST_REFUSAL = 3600.0
_ANSWERS = frozenset({501, 505})


class Breaker:
    """A circuit breaker for all requests of a session. All times are in seconds, of one clock.

    An attempt fails if it gets no response, or a 5xx other than 501 and 505. After `failures`
    failed attempts in a row, or `unreachable` in a row without a connection, the breaker *holds*:
    all requests wait, and every few seconds one of them is tried. If they still fail after
    `patience` seconds, the breaker *opens*: requests are refused, except for an occasional probe.

    For a service that has never responded, the breaker does not hold. It opens after `failures`
    failed attempts in a row, or `unreachable` in a row without a response, but not before
    `never_reached_s` seconds have passed since the first attempt started.
    """

    def __init__(
        self,
        *,
        failures: int = 20,
        unreachable: int = 3,
        patience: float = 60.0,
        never_reached_s: float = 20.0,
    ) -> None:
        self.failures, self.unreachable = failures, unreachable
        self.patience, self.never_reached_s = patience, never_reached_s
        self.is_open = False
        self.failed_in_a_row = self._unreachable_in_a_row = 0
        self._reached = False
        self._first = 0.0
        self._last_hold = self._probe_at = self._paused_until = -math.inf
        self._pause = _FIRST_PAUSE
        self._since = self._reason = ""

    @property
    def holds(self) -> bool:
        """True if all requests wait because the service, which has responded before, fails now."""
        known = (
            self.failed_in_a_row >= self.failures or self._unreachable_in_a_row >= self.unreachable
        )
        return self._reached and known

    def record_answer(self, sent_at: float) -> None:
        """Record an attempt that did not fail: the count of failed attempts starts again, and the
        breaker closes, unless the attempt was sent before the end of a requested pause.
        """
        self._reached = True
        if self.failed_in_a_row:
            self.failed_in_a_row = self._unreachable_in_a_row = 0
            self._pause, self._last_hold = _FIRST_PAUSE, -math.inf
        if self.is_open and sent_at >= self._paused_until:
            self.is_open = False

    def record_failure(self, error: ApiError, sent_at: float, now: float) -> float:
        """Record a failed attempt, and return the seconds for which all requests must wait."""
        if not self.failed_in_a_row:
            # For a service that has never responded, the time counts from when the attempt started.
            self._first, self._since = now if self._reached else sent_at, _clock()
        self.failed_in_a_row += 1
        is_silent = isinstance(error, TransportError)
        unreachable = is_silent and not (self._reached and error.may_have_happened)
        self._unreachable_in_a_row = self._unreachable_in_a_row + 1 if unreachable else 0
        self._reason = error.problem
        if self._is_over(now):
            self.is_open, self._probe_at = True, max(self._paused_until, now + _LONGEST_PAUSE)
        if not self.holds or sent_at < self._last_hold:
            return 0.0
        pause, self._last_hold = self._pause, now
        self._pause = min(2 * pause, _LONGEST_PAUSE)
        return random.uniform(0.8, 1.2) * pause  # noqa: S311 - spreads clients, hides nothing

    def close_for(self, seconds: float, reason: str, now: float) -> None:
        """Refuse requests for `seconds`, but at most an hour, because the service asked for a pause
        of this length. An earlier pause that ends later stays.
        """
        seconds = min(seconds, _LONGEST_REFUSAL)
        if now + seconds <= self._paused_until:
            return
        if not self.is_open:
            self._first, self._since = now, _clock()
        until = _clock(seconds)
        self.is_open, self._probe_at = True, now + seconds
        self._paused_until = self._probe_at
        self._reason = f"{reason}; it asks for a pause until {until}"

    def check(self, now: float, *, again: bool) -> None:
        """Raise UnavailableError if the request must not be sent. An open breaker lets a probe
        pass from time to time, but no request that was sent before (`again`).
        """
        if not self.is_open:
            return
        if again or now < self._probe_at:
            raise self.error()
        self._probe_at = now + _LONGEST_PAUSE

    def longest_wait(self, now: float) -> float:
        """Return the maximum back-off in seconds. For a service that has never responded, a
        back-off ends when another failure can open the breaker; otherwise there is no maximum.
        """
        left = self._first + self.never_reached_s - now
        return left if self.failed_in_a_row and not self._reached and left > 0 else math.inf

    def error(self) -> UnavailableError:
        """Return the error for a request that the breaker refuses."""
        failed = (
            f" {self.failed_in_a_row} attempts in a row have failed;"
            if self.failed_in_a_row > 1
            else ""
        )
        return UnavailableError(
            f"the service has not been available since {self._since}:{failed} the last error was: "
            f"{self._reason}",
            hint="Nothing more is sent to it for now. When it is available again, a run that "
            "stopped here can be resumed: petsync resume.",
        )

    def _is_over(self, now: float) -> bool:
        known = (
            self.failed_in_a_row >= self.failures or self._unreachable_in_a_row >= self.unreachable
        )
        return known and now - self._first >= (
            self.patience if self._reached else self.never_reached_s
        )


def is_outage(error: ApiError) -> bool:
    """Return true if the error is a failure for the breaker: no response, or a 5xx other than 501
    and 505.
    """
    if isinstance(error, ServiceError):
        return error.status not in _ANSWERS
    return isinstance(error, TransportError)


def _clock(later: float = 0.0) -> str:
    return f"{datetime.now().astimezone() + timedelta(seconds=later):%H:%M:%S}"


# AdaptiveRate: the requests per second that a service accepts, learnt from its 429s.
#
# While no request is refused, the rate rises by a growing percentage; a 429 lowers it by at most
# 15 %. A 429 also costs a pause, so the rate then stays just below the refused rate for some time;
# this time triples when the higher rate is refused again.
#
# A service may also refuse requests independently of their rate, because of other clients or at
# random. Then the learnt rate falls below the average rate of accepted requests. A lower rate does
# not help in this case, so for a while there is no learnt rate, and only Retry-After counts.


_DECREASE, _BELOW = 0.85, 0.98
_STEP, _MAX_STEP = 0.02, 0.5
_STEP_S, _PROBE_S, _MAX_PROBE_S = 1.5, 40.0, 1800.0
_USED_SHARE = 0.8
_MIN_S = 0.5
_MIN_REFUSALS, _MAX_DOUBTS, _DOUBT_SHARE = 4, 2, 0.85
_BLIND_S, _MAX_BLIND_S = 30.0, 900.0


class AdaptiveRate:
    """The learnt limit of requests per second. Times are in seconds, of one clock."""

    rate: float | None
    """None if there is no limit."""
    _accepted: int
    _accepted_before: int
    _accepted_total: int
    _refusals: int
    _doubts: int

    def __init__(self) -> None:
        self._blind_until = -math.inf
        self._blind_s = _BLIND_S
        self._resumed = -math.inf
        self._reset()

    def record_accepted(self, now: float) -> None:
        if not self._accepted and self.rate is None:
            self._started = now
        self._accepted += 1
        self._accepted_total += 1

    def record_refused(self, sent_at: float, now: float, pause: float) -> None:
        """Record a 429 for a request sent at `sent_at`, after which all requests pause for `pause`
        seconds.
        """
        is_counted = sent_at >= self._resumed and self._accepted > 0 and now >= self._blind_until
        self._resumed = max(self._resumed, now + pause)
        seconds = now - self._started
        if not is_counted or (self.rate is not None and seconds < _MIN_S):
            return
        if self.rate is None:
            self.rate, self._first = 0.99 * self._accepted / max(seconds, pause, _MIN_S), now
            # The service may have allowed a faster first burst, so do not count it.
            self._accepted_total = 0
        else:
            self._count_doubt(self.rate, now)
            self._decrease(self.rate, self._accepted / seconds)
        self._started, self._accepted = now, 0
        self._set(self._resumed)
        if self._doubts >= _MAX_DOUBTS:
            self._reset()
            self._blind_until = now + self._blind_s
            self._blind_s = min(2 * self._blind_s, _MAX_BLIND_S)

    def rate_at(self, now: float) -> float | None:
        """Return the rate, which is raised first if most of it was used for some time without a
        429.
        """
        if self.rate is not None and now >= self._set_at + self._seconds_to_raise(self.rate):
            if self._accepted - self._accepted_before >= _USED_SHARE * self.rate * (
                now - self._set_at
            ):
                self._increase(self.rate)
            self._set(now)
        return self.rate

    def _reset(self) -> None:
        self.rate = None
        self._ceiling = math.inf
        self._step, self._probe_s = _STEP, _PROBE_S
        self._accepted = self._accepted_before = self._accepted_total = 0
        self._started = self._first = -math.inf
        self._set_at = math.inf
        self._refusals = self._doubts = 0

    def _seconds_to_raise(self, rate: float) -> float:
        return self._probe_s if rate >= _BELOW * self._ceiling else _STEP_S

    def _increase(self, rate: float) -> None:
        if rate >= self._ceiling:
            self._ceiling, self._probe_s = math.inf, _PROBE_S
        if rate >= _BELOW * self._ceiling:
            self.rate = (1 + _STEP) * self._ceiling
        else:
            self.rate = min((1 + self._step) * rate, _BELOW * self._ceiling)
            self._step = min(2 * self._step, _MAX_STEP)

    def _decrease(self, rate: float, measured: float) -> None:
        """Lower the rate to `measured`, the rate of accepted requests since the last 429, but by no
        more than a fixed share: the measured time includes the pause.
        """
        if rate >= self._ceiling:
            self._probe_s = min(3 * self._probe_s, _MAX_PROBE_S)
        self._ceiling, self._step = min(rate, self._ceiling), _STEP
        self.rate = max(_DECREASE * rate, min(measured, _BELOW * rate))

    def _count_doubt(self, rate: float, now: float) -> None:
        """Count a 429 as doubtful if the rate was clearly below the average rate of accepted
        requests: the service may not limit the rate.
        """
        self._refusals += 1
        average = self._accepted_total / (now - self._first)
        self._doubts += self._refusals >= _MIN_REFUSALS and rate < _DOUBT_SHARE * average

    def _set(self, now: float) -> None:
        self._set_at, self._accepted_before = now, self._accepted


# Pace: the time of the next request, from the user's rate, the learnt rate, and pauses.


_MAX_CATCH_UP_S = 0.05
"""Seconds. If a timer is late by less than this, the next request waits correspondingly less, so
that the rate is reached.
"""


class Pace:
    """Decides when the next request may be sent. `rate` is the user's limit of requests per second,
    None for no limit. All times are in seconds, of one clock.
    """

    def __init__(self) -> None:
        self.adaptive_rate = AdaptiveRate()
        self.rate: float | None = None
        self._next_queue = self._until = -math.inf

    @property
    def is_free(self) -> bool:
        """True if requests may be sent at any time: there is neither a rate nor a pause."""
        return self.rate is None and self.adaptive_rate.rate is None and self._until == -math.inf

    @property
    def opens_at(self) -> float:
        """The time at which the next request may be sent."""
        return self._next_queue if self._next_queue > self._until else self._until

    def take(self, now: float, *, waited: bool) -> None:
        """Record that a request is sent now. `waited` is true if it waited for a timer."""
        if waited and now - _MAX_CATCH_UP_S < self.opens_at < now:
            now = self.opens_at
        self._until = -math.inf
        rates = [rate for rate in (self.rate, self.adaptive_rate.rate_at(now)) if rate is not None]
        self._next_queue = now + 1.0 / min(rates) if rates else -math.inf

    def pause(self, now: float, seconds: float) -> None:
        """Pause all requests for `seconds`; an earlier pause that ends later stays."""
        if seconds > 0:
            self._until = max(self._until, now + seconds)

    def remaining_pause(self, now: float) -> float:
        """Return the remaining seconds of the pause; 0.0 if there is none."""
        return max(0.0, self._until - now)


# Window: the limit of concurrent requests, adapted to the service as TCP adapts its window: slow
# start, then additive increase and multiplicative decrease (AIMD). Source: RFC 5681, section 3.1.


MAX_CONCURRENCY = 128
_FIRST = 4.0
_SAMPLE = 16
_SLOW_FACTOR = 3.0
_SLOW_S = 0.5
_PET_OPERATIONS = frozenset({"addPet", "updatePet", "deletePet", "getPetById", "updatePetWithForm"})
"""The operations whose response times can be compared. The times of other operations depend on the
size of the response or of the upload.
"""


class Window:
    """Adapts `limit`, the limit of concurrent requests, to the service; it is from 1 to `most`.

    `sent_at` is the time when a request was sent, and `now` when its response arrived, in seconds.
    """

    def __init__(self, most: int = MAX_CONCURRENCY) -> None:
        self.limit = int(_FIRST)
        self._exact_limit = _FIRST
        self.most = most
        self._starts_slowly = True
        self._cut_at = float("-inf")
        self._latencies = {operation: _Latency() for operation in _PET_OPERATIONS}

    @property
    def most(self) -> int:
        """The maximum of `limit`, from 1 to 128."""
        return self._most

    @most.setter
    def most(self, most: int) -> None:
        self._most = min(max(most, 1), MAX_CONCURRENCY)
        self.limit = min(self.limit, self._most)
        self._exact_limit = min(self._exact_limit, float(self._most))

    def record_answer(self, operation: str, sent_at: float, now: float, *, full: bool) -> None:
        """Record a response. If it shows that the service has slowed down, the limit is halved;
        else, if the limit was reached (`full`), it rises.
        """
        latency = self._latencies.get(operation)
        if latency is not None and latency.is_worse(now - sent_at):
            self.shrink(sent_at, now)
        elif full and self.limit < self._most:
            self._exact_limit += 1.0 if self._starts_slowly else 1.0 / self._exact_limit
            self._exact_limit = min(self._exact_limit, float(self._most))
            self.limit = int(self._exact_limit)

    def shrink(self, sent_at: float, now: float, *, to_one: bool = False) -> None:
        """Halve the limit, once for all requests that were in flight together, or set it to 1."""
        if to_one:
            self._exact_limit = 1.0
        elif sent_at >= self._cut_at:
            self._exact_limit = max(self._exact_limit / 2.0, 1.0)
            self._cut_at = now
        self._starts_slowly = False
        self.limit = int(self._exact_limit)


class _Latency:
    """Detects that an operation has become clearly slower: more than half of the last 16 responses
    took more than half a second, and more than three times as long as the fastest response so far.
    """

    __slots__ = ("_best", "_count", "_slow")

    def __init__(self) -> None:
        self._best = float("inf")
        self._count = self._slow = 0

    def is_worse(self, seconds: float) -> bool:
        """Record a response time. Return true if the operation has become slower, which is decided
        once in `_SAMPLE` responses.
        """
        if seconds < self._best:
            self._best = seconds
        self._count += 1
        if seconds > _SLOW_S and seconds > _SLOW_FACTOR * self._best:
            self._slow += 1
        if self._count < _SAMPLE:
            return False
        is_worse = 2 * self._slow > _SAMPLE
        self._count = self._slow = 0
        return is_worse


# Gate: the queue of a session's requests, first come, first served.


_MAX_CHANGES_IN_A_ROW = 3


class Gate:
    """Admits requests as the window and the pace allow. It belongs to one event loop.

    Changes go first, but after three changes a waiting read is admitted. A pet is read just before
    it is changed: the shorter the time between the two, the less likely is another client's change.
    """

    def __init__(self, window: Window, pace: Pace) -> None:
        self.under_way = 0
        self._window, self._pace = window, pace
        self._reads: deque[asyncio.Future[bool]] = deque()
        self._changes: deque[asyncio.Future[bool]] = deque()
        self._changes_in_a_row = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def most(self) -> int:
        """The maximum number of concurrent requests, from 1 to 128."""
        return self._window.most

    @most.setter
    def most(self, most: int) -> None:
        self._window.most = most
        self.advance()

    @property
    def is_full(self) -> bool:
        return self.under_way >= self._window.limit

    def enter_now(self) -> bool:
        """Admit the request, and return true, if it need not wait."""
        is_empty = not (self._reads or self._changes)
        if is_empty and self._pace.is_free and self.under_way < self._window.limit:
            self.under_way += 1
            return True
        return False

    async def enter(self, *, is_change: bool = False) -> bool:
        """Wait until the request is admitted, and return true; return false if it is rejected.

        After true, the caller must call `leave` when the request ends. A cancelled caller must not
        call it.
        """
        if self.enter_now():
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (self._changes if is_change else self._reads).append(future)
        self.advance()
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.result():
                self.leave()
            raise

    def leave(self) -> None:
        """Record the end of an admitted request."""
        self.under_way -= 1
        if self._reads or self._changes:
            self.advance()

    def advance(self, *, waited: bool = False) -> None:
        """Admit the requests that may be sent now. It must also be called after the window or the
        pace has changed. `waited` is true if a timer calls it.
        """
        loop = asyncio.get_running_loop()
        while (queue := self._next_queue()) and self.under_way < self._window.limit:
            if (opens_at := self._pace.opens_at) > (now := loop.time()):
                self._wake(opens_at, loop)
                return
            self._pace.take(now, waited=waited)
            self.under_way += 1
            self._changes_in_a_row = self._changes_in_a_row + 1 if queue is self._changes else 0
            queue.popleft().set_result(True)

    def release_all(self) -> None:
        """Reject all waiting requests."""
        while queue := self._next_queue():
            queue.popleft().set_result(False)

    def _next_queue(self) -> deque[asyncio.Future[bool]]:
        """Return the queue with the next request, or an empty queue."""
        for queue in (self._changes, self._reads):
            while queue and queue[0].done():
                queue.popleft()
        reads_wait = self._reads and self._changes_in_a_row >= _MAX_CHANGES_IN_A_ROW
        return self._changes if self._changes and not reads_wait else self._reads

    def _wake(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.advance(waited=True)


# Flow: all limits on a session's requests on one event loop.


LONGEST_PAUSE = 120.0
"""The longest pause, in seconds, for which requests wait if the service asks for it. After a longer
one, requests are refused with UnavailableError.
"""


@dataclass(slots=True)
class TrafficCounts:
    """The counts of a session's requests on all loops."""

    requests: int = 0
    retries: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """The limits that all loops of a session share."""

    counts: TrafficCounts = field(default_factory=TrafficCounts)
    breaker: Breaker = field(default_factory=Breaker)
    window: Window = field(default_factory=Window)
    pace: Pace = field(default_factory=Pace)


class Flow:
    """Applies all limits to the requests on one event loop, and updates them from the responses."""

    def __init__(self, transport: Transport, health: Health) -> None:
        self.transport = transport
        self.counts, self.breaker = health.counts, health.breaker
        self.window, self.pace = health.window, health.pace
        self.gate = Gate(self.window, self.pace)
        self.now = asyncio.get_running_loop().time
        self.budget = RetryBudget(self.now())
        self._resting: set[asyncio.Future[None]] = set()

    def enter_now(self) -> bool:
        """Return true if a request may be sent now; the caller must then call `leave`."""
        return not self.breaker.is_open and self.gate.enter_now()

    async def enter(self, *, again: bool, changes: bool) -> None:
        """Wait until a request may be sent; the caller must then call `leave` when it ends.

        `again` is true for a request that was sent before, `changes` for one that is not a GET.
        Raises UnavailableError if the breaker is open.
        """
        if self.breaker.is_open:
            self.breaker.check(self.now(), again=again)
        if not await self.gate.enter(is_change=changes):
            raise self.breaker.error()

    def leave(self) -> None:
        """Record the end of a request."""
        self.gate.leave()

    async def wait_for_backoff(self, seconds: float) -> None:
        """Wait for a back-off of `seconds`, which `Breaker.longest_wait` may shorten, or until the
        breaker opens.
        """
        if self.breaker.is_open:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.add(future)
        try:
            await asyncio.wait(
                (future,), timeout=min(seconds, self.breaker.longest_wait(self.now()))
            )
        finally:
            self._resting.discard(future)
            future.cancel()

    def _release_all(self) -> None:
        """Let no request wait any longer, because the breaker is open."""
        self.gate.release_all()
        self.budget.release_all()
        for future in self._resting:
            if not future.done():
                future.set_result(None)

    def record_answer(self, operation: str, sent_at: float) -> None:
        """Record an attempt that shows neither an overload nor an outage. Call it before
        `leave`.
        """
        self.window.record_answer(operation, sent_at, self.now(), full=self.gate.is_full)
        self.pace.adaptive_rate.record_accepted(sent_at)
        self.breaker.record_answer(sent_at)
        self.budget.record_success()

    def record_failure(
        self, operation: str, error: ApiError, sent_at: float, backoff: float
    ) -> None:
        """Record an attempt that raised an error. `backoff` is the pause in seconds after a 429
        without Retry-After. Call it before `leave`.
        """
        if isinstance(error, RateLimitedError):
            self._handle_refusal(error, sent_at, backoff)
        elif is_outage(error):
            self._handle_outage(error, sent_at)
        else:
            self.record_answer(operation, sent_at)

    def _handle_refusal(self, error: RateLimitedError, sent_at: float, backoff: float) -> None:
        now = self.now()
        self.counts.refused += 1
        self.window.shrink(sent_at, now)
        pause = backoff if error.retry_after is None else error.retry_after
        if pause > 0:
            self.pace.adaptive_rate.record_refused(sent_at, now, pause)
        self._pause(error, pause, now)
        # After `_pause`: a 429 that asks for another long pause must not close the breaker.
        self.breaker.record_answer(sent_at)

    def _handle_outage(self, error: ApiError, sent_at: float) -> None:
        now = self.now()
        pause = self.breaker.record_failure(error, sent_at, now)
        self.window.shrink(sent_at, now, to_one=self.breaker.holds)
        self.pace.pause(now, pause)
        if isinstance(error, ServiceError):
            self.counts.refused += error.status == 503
            self._pause(error, error.retry_after or 0.0, now)
        if self.breaker.is_open:
            self._release_all()

    def _pause(self, error: ApiError, seconds: float, now: float) -> None:
        if seconds <= LONGEST_PAUSE:
            self.pace.pause(now, seconds)
        else:
            self.breaker.close_for(seconds, error.problem, now)
            self._release_all()
