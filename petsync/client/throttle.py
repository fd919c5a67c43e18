"""Throttling: rate, concurrency, pauses and the circuit breaker of a session."""

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
    "MOST",
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


# Breaker: what is to be done about a service that answers nothing but failures.


_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 5.0
_LONGEST_REFUSAL = 3600.0
_ANSWERS = frozenset({501, 505})


class Breaker:
    """A circuit breaker over all requests of a session: it counts failed attempts (5xx, no answer)
    without another answer between them. Times are in seconds, of one clock.

    After `failures` in a row, or `gone` of them that found nobody listening, it *holds*: everything
    waits, and one request at a time is tried, every few seconds, until one is answered. Where none
    was for `patience` seconds it *opens*: requests are refused, but for one now and then that
    tries. A service that never answered is not waited for: `unreached` seconds since the first
    attempt began and `failures` in a row open it, or `gone` that got no answer at all.
    """

    def __init__(
        self,
        *,
        failures: int = 20,
        gone: int = 3,
        patience: float = 60.0,
        unreached: float = 20.0,
    ) -> None:
        self.failures, self.gone = failures, gone
        self.patience, self.unreached = patience, unreached
        self.is_open = False
        self.in_a_row = self._gone_in_a_row = 0
        self._reached = False
        self._first = 0.0
        self._tried = self._probe_at = -math.inf
        self._pause = _FIRST_PAUSE
        self._since = self._reason = ""

    @property
    def holds(self) -> bool:
        """Whether a service that has answered before is waited for."""
        known = self.in_a_row >= self.failures or self._gone_in_a_row >= self.gone
        return self._reached and known

    def record_answer(self) -> None:
        """The service answered: whatever it said, it is there."""
        self._reached = True
        if self.in_a_row:
            self.in_a_row = self._gone_in_a_row = 0
            self.is_open = False
            self._pause, self._tried = _FIRST_PAUSE, -math.inf

    def record_failure(self, error: ApiError, begun: float, now: float) -> float:
        """An attempt that was sent at `begun` failed; for how long everything is to wait."""
        if not self.in_a_row:
            # One that never answered is not waited for any longer than its first time-out.
            self._first, self._since = now if self._reached else begun, _clock()
        self.in_a_row += 1
        is_silent = isinstance(error, TransportError)
        gone = is_silent and not (self._reached and error.may_have_happened)
        self._gone_in_a_row = self._gone_in_a_row + 1 if gone else 0
        self._reason = error.message
        if self._is_over(now):
            self.is_open, self._probe_at = True, now + _LONGEST_PAUSE
        if not self.holds or begun < self._tried:
            return 0.0
        pause, self._tried = self._pause, now
        self._pause = min(2 * pause, _LONGEST_PAUSE)
        return random.uniform(0.8, 1.2) * pause  # noqa: S311 - spreads clients, hides nothing

    def close_for(self, seconds: float, reason: str, now: float) -> None:
        """The service asked for a wait that is too long to sit out; for an hour at most."""
        seconds = min(seconds, _LONGEST_REFUSAL)
        if not self.is_open:
            self._first, self._since = now, _clock()
        until = _clock(seconds)
        self.is_open, self._probe_at = True, now + seconds
        self._reason = f"{reason}; it asks to wait until {until}"

    def check(self, now: float, *, again: bool) -> None:
        """Return if a request may be sent; `again` says that it was sent before, so that it is no
        probe. Raises UnavailableError.
        """
        if not self.is_open:
            return
        if again or now < self._probe_at:
            raise self.error()
        self._probe_at = now + _LONGEST_PAUSE

    def longest_wait(self, now: float) -> float:
        """The seconds after which another attempt can give up a service that never answered, as it
        waits for one of them; without end for any other.
        """
        left = self._first + self.unreached - now
        return left if self.in_a_row and not self._reached and left > 0 else math.inf

    def error(self) -> UnavailableError:
        """What a request meets that is not sent."""
        failed = f" {self.in_a_row} attempts in a row have failed;" if self.in_a_row else ""
        return UnavailableError(
            f"the service is not available since {self._since}:{failed} the last answer was: "
            f"{self._reason}",
            hint="Nothing more is sent to it for now. A run that stopped here can be resumed"
            " when the service is back: petsync resume.",
        )

    def _is_over(self, now: float) -> bool:
        known = self.in_a_row >= self.failures or self._gone_in_a_row >= self.gone
        return known and now - self._first >= (self.patience if self._reached else self.unreached)


def is_outage(error: ApiError) -> bool:
    """Whether the error tells of a service that does not do its work just now."""
    if isinstance(error, ServiceError):
        return error.status not in _ANSWERS
    return isinstance(error, TransportError)


def _clock(later: float = 0.0) -> str:
    return f"{datetime.now().astimezone() + timedelta(seconds=later):%H:%M:%S}"


# AdaptiveRate: how many requests a second a service takes, found out from its 429s.
#
# Additive increase, multiplicative decrease: the rate rises by a step while nothing is refused and
# falls when something is (RFC 5681 does the same for a window). A 429 costs a pause, so a rate that
# was refused is a ceiling: the steps end just below it, and what is above is tried again after a
# wait that triples each time.
#
# A service may also refuse without any regard to the rate: because somebody else is busy, or by
# chance. Then the rate falls below what the service took on average, and being slower does not
# help: for a while nothing but Retry-After counts.


_DECREASE, _BELOW = 0.85, 0.98
_STEP, _MAX_STEP = 0.02, 0.5
_STEP_S, _PROBE_S, _MAX_PROBE_S = 1.5, 40.0, 1800.0
_BUSY = 0.8
_MIN_S = 0.5
_LESSONS, _DOUBTS, _LESS = 4, 2, 0.85
_BLIND_S, _MAX_BLIND_S = 30.0, 900.0


class AdaptiveRate:
    """`rate` is the most requests a second that are to be sent, None where nothing was learnt.
    Times are in seconds, of one clock.
    """

    rate: float | None
    _took: int
    _took_before: int
    _took_in_all: int
    _lessons: int
    _doubts: int

    def __init__(self) -> None:
        self._blind_until = -math.inf
        self._blind_s = _BLIND_S
        self._resumed = -math.inf
        self._forget()

    def record_accepted(self, now: float) -> None:
        if not self._took and self.rate is None:
            self._begun = now
        self._took += 1
        self._took_in_all += 1

    def record_refused(self, begun: float, now: float, pause: float) -> None:
        """A request sent at `begun` was refused; the service is left alone for `pause` seconds."""
        is_another = begun >= self._resumed and self._took > 0 and now >= self._blind_until
        self._resumed = max(self._resumed, now + pause)
        seconds = now - self._begun
        if not is_another or (self.rate is not None and seconds < _MIN_S):
            return
        if self.rate is None:
            self.rate, self._first = 0.99 * self._took / max(seconds, pause, _MIN_S), now
            # What it took at once at first may have been saved up.
            self._took_in_all = 0
        else:
            self._doubt(self.rate, now)
            self._decrease(self.rate, self._took / seconds)
        self._begun, self._took = now, 0
        self._set(self._resumed)
        if self._doubts >= _DOUBTS:
            self._forget()
            self._blind_until = now + self._blind_s
            self._blind_s = min(2 * self._blind_s, _MAX_BLIND_S)

    def at(self, now: float) -> float | None:
        """The rate; it rises where nothing was refused for some time."""
        if self.rate is not None and now >= self._set_at + self._wait_s(self.rate):
            if self._took - self._took_before >= _BUSY * self.rate * (now - self._set_at):
                self._increase(self.rate)
            self._set(now)
        return self.rate

    def _forget(self) -> None:
        self.rate = None
        self._ceiling = math.inf
        self._step, self._probe_s = _STEP, _PROBE_S
        self._took = self._took_before = self._took_in_all = 0
        self._begun = self._first = -math.inf
        self._set_at = math.inf
        self._lessons = self._doubts = 0

    def _wait_s(self, rate: float) -> float:
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
        """Down to what the service took since the last refusal, or, as that counts its pause as
        well, by a share at most.
        """
        if rate >= self._ceiling:
            self._probe_s = min(3 * self._probe_s, _MAX_PROBE_S)
        self._ceiling, self._step = min(rate, self._ceiling), _STEP
        self.rate = max(_DECREASE * rate, min(measured, _BELOW * rate))

    def _doubt(self, rate: float, now: float) -> None:
        """Whether the limit is one by rate: then what it gives in the long run is not refused."""
        self._lessons += 1
        in_the_long_run = self._took_in_all / (now - self._first)
        self._doubts += self._lessons >= _LESSONS and rate < _LESS * in_the_long_run

    def _set(self, now: float) -> None:
        self._set_at, self._took_before = now, self._took


# Pace: when the next request may be sent, by the rate asked for, the rate learnt, and pauses.


_CATCH_UP = 0.05
"""Timers come late: so much is made up for, that the rate be kept."""


class Pace:
    """`rate` is the most requests a second, evenly spread; None for as many as there are. Times
    are in seconds, of one clock.
    """

    def __init__(self) -> None:
        self.learnt = AdaptiveRate()
        self.rate: float | None = None
        self._next = self._until = -math.inf

    @property
    def is_free(self) -> bool:
        """Whether nothing has to wait or to be spread."""
        return self.rate is None and self.learnt.rate is None and self._until == -math.inf

    @property
    def opens_at(self) -> float:
        """When the next request may be sent."""
        return self._next if self._next > self._until else self._until

    def take(self, now: float, *, waited: bool) -> None:
        """A request is sent now; `waited`: it would have been sent as soon as it might."""
        if waited and now - _CATCH_UP < self.opens_at < now:
            now = self.opens_at
        self._until = -math.inf
        rates = [rate for rate in (self.rate, self.learnt.at(now)) if rate is not None]
        self._next = now + 1.0 / min(rates) if rates else -math.inf

    def pause(self, now: float, seconds: float) -> None:
        """Nothing is sent for so long; a longer pause stays."""
        if seconds > 0:
            self._until = max(self._until, now + seconds)

    def pauses(self, now: float) -> float:
        """For how much longer everything waits because of a pause."""
        return max(0.0, self._until - now)


# Window: how many requests may be under way at a time, as far as the service bears it.
#
# Slow start, then additive increase and multiplicative decrease (AIMD), as TCP does it. Source:
# RFC 5681, section 3.1.


MOST = 128
_FIRST = 4.0
_SAMPLE = 16
_TIMES_AS_SLOW = 3.0
_SLOW = 0.5
_STEADY = frozenset({"addPet", "updatePet", "deletePet", "getPetById", "updatePetWithForm"})
"""Operations on one pet: the time of the others is that of what they carry."""


class Window:
    """`limit` is the number; it is never below 1, nor above `most`.

    Times are in seconds: `begun` is when a request was sent, `now` when its answer came.
    """

    def __init__(self, most: int = MOST) -> None:
        self.limit = int(_FIRST)
        self.most = most
        self._exact = _FIRST
        self._starts_slowly = True
        self._cut_at = float("-inf")
        self._latencies = {operation: _Latency() for operation in _STEADY}

    @property
    def most(self) -> int:
        """The upper bound, from 1 to 128."""
        return self._most

    @most.setter
    def most(self, most: int) -> None:
        self._most = min(max(most, 1), MOST)
        self.limit = min(self.limit, self._most)
        self._exact = min(getattr(self, "_exact", _FIRST), float(self._most))

    def record_answer(self, operation: str, begun: float, now: float, *, full: bool) -> None:
        """An answer came. `full`: as many were under way as may be, so that more can be tried."""
        latency = self._latencies.get(operation)
        if latency is not None and latency.is_worse(now - begun):
            self.shrink(begun, now)
        elif full and self.limit < self._most:
            self._exact += 1.0 if self._starts_slowly else 1.0 / self._exact
            self._exact = min(self._exact, float(self._most))
            self.limit = int(self._exact)

    def shrink(self, begun: float, now: float, *, to_one: bool = False) -> None:
        """Halve it, once for all the requests that were under way together; or go down to one."""
        if to_one:
            self._exact = 1.0
        elif begun >= self._cut_at:
            self._exact = max(self._exact / 2.0, 1.0)
            self._cut_at = now
        self._starts_slowly = False
        self.limit = int(self._exact)


class _Latency:
    """Whether an operation has become clearly slower than it can be: more than half of the last
    few answers took three times as long as the quickest ever, and half a second at least.
    """

    __slots__ = ("_best", "_count", "_slow")

    def __init__(self) -> None:
        self._best = float("inf")
        self._count = self._slow = 0

    def is_worse(self, seconds: float) -> bool:
        """Take one more answer's time; True at most once in so many answers."""
        if seconds < self._best:
            self._best = seconds
        self._count += 1
        if seconds > _SLOW and seconds > _TIMES_AS_SLOW * self._best:
            self._slow += 1
        if self._count < _SAMPLE:
            return False
        is_worse = 2 * self._slow > _SAMPLE
        self._count = self._slow = 0
        return is_worse


# Gate: every request of a session waits here for its turn, first come, first served.


_AHEAD_IN_A_ROW = 3


class Gate:
    """Lets requests through as the window and the pace allow. It belongs to one event loop.

    Changes go ahead of reads, three to one: a pet was read just before it is changed, and the
    shorter the time in between, the less can happen to it.
    """

    def __init__(self, window: Window, pace: Pace) -> None:
        self.under_way = 0
        self._window, self._pace = window, pace
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._ahead: deque[asyncio.Future[bool]] = deque()
        self._in_a_row = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def most(self) -> int:
        """The most requests that may ever be under way at a time, from 1 to 128; settable."""
        return self._window.most

    @most.setter
    def most(self, most: int) -> None:
        self._window.most = most
        self.advance()

    @property
    def is_full(self) -> bool:
        """Whether as many are under way as may be."""
        return self.under_way >= self._window.limit

    async def enter(self, *, ahead: bool = False) -> bool:
        """True when it is the caller's turn, who then has to `leave`; False if it is turned away.

        `ahead`: it changes something. Whoever is cancelled meanwhile has not entered.
        """
        is_empty = not (self._waiting or self._ahead)
        if is_empty and self._pace.is_free and self.under_way < self._window.limit:
            self.under_way += 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (self._ahead if ahead else self._waiting).append(turn)
        self.advance()
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.result():
                self.leave()
            raise

    def leave(self) -> None:
        """The request has ended."""
        self.under_way -= 1
        if self._waiting or self._ahead:
            self.advance()

    def advance(self, *, waited: bool = False) -> None:
        """Let through who may go now; called also where the window or the pace has changed."""
        loop = asyncio.get_running_loop()
        while (queue := self._next()) and self.under_way < self._window.limit:
            if (at := self._pace.opens_at) > (now := loop.time()):
                self._wake(at, loop)
                return
            self._pace.take(now, waited=waited)
            self.under_way += 1
            self._in_a_row = self._in_a_row + 1 if queue is self._ahead else 0
            queue.popleft().set_result(True)

    def turn_away(self) -> None:
        """Send all away who wait."""
        while queue := self._next():
            queue.popleft().set_result(False)

    def _next(self) -> deque[asyncio.Future[bool]]:
        """The queue whose first is next, empty where nobody waits any more."""
        for queue in (self._ahead, self._waiting):
            while queue and queue[0].done():
                queue.popleft()
        reads_wait = self._waiting and self._in_a_row >= _AHEAD_IN_A_ROW
        return self._ahead if self._ahead and not reads_wait else self._waiting

    def _wake(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.advance(waited=True)


# Flow: how the requests of a session go on one event loop, and what their answers teach.


LONGEST_PAUSE = 120.0
"""The seconds that are waited because a service asks for it; where it asks for more, requests end
with an error that says so.
"""


@dataclass(slots=True)
class TrafficCounts:
    """What a session sent, on all loops."""

    requests: int = 0
    retries: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """What a session knows of its service, whatever loop it is used on."""

    counts: TrafficCounts = field(default_factory=TrafficCounts)
    breaker: Breaker = field(default_factory=Breaker)
    window: Window = field(default_factory=Window)
    pace: Pace = field(default_factory=Pace)


class Flow:
    """Gate, pace, window, retry budget and circuit breaker of the requests on one event loop."""

    def __init__(self, carrier: Transport, health: Health) -> None:
        self.carrier = carrier
        self.counts, self.breaker = health.counts, health.breaker
        self.window, self.pace = health.window, health.pace
        self.gate = Gate(self.window, self.pace)
        self.budget = RetryBudget(self.now())
        self._resting: set[asyncio.Future[None]] = set()

    @staticmethod
    def now() -> float:
        """The loop's clock, in seconds."""
        return asyncio.get_running_loop().time()

    async def enter(self, *, again: bool, changes: bool) -> None:
        """Return when a request may be sent, for the first time or `again`; then `leave`.
        `changes`: it is no GET. Raises UnavailableError.
        """
        if self.breaker.is_open:
            self.breaker.check(self.now(), again=again)
        if not await self.gate.enter(ahead=changes):
            raise self.breaker.error()

    def leave(self) -> None:
        """The request has ended."""
        self.gate.leave()

    async def rest(self, seconds: float) -> None:
        """Return after a back-off, or as soon as the breaker is open: nothing is waited for then. A
        service that never answered is tried again when it can be given up, and not later.
        """
        if self.breaker.is_open:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.add(turn)
        try:
            await asyncio.wait((turn,), timeout=min(seconds, self.breaker.longest_wait(self.now())))
        finally:
            self._resting.discard(turn)
            turn.cancel()

    def _turn_away(self) -> None:
        """Let everything that waits find the breaker open."""
        self.gate.turn_away()
        self.budget.turn_away()
        for turn in self._resting:
            if not turn.done():
                turn.set_result(None)

    def record_answer(self, operation: str, begun: float) -> None:
        """An answer came that was no sign of trouble. To be called before `leave`."""
        self.window.record_answer(operation, begun, self.now(), full=self.gate.is_full)
        self.pace.learnt.record_accepted(begun)
        self.breaker.record_answer()
        self.budget.record_success()

    def record_failure(self, operation: str, error: ApiError, begun: float, backoff: float) -> None:
        """An attempt ended in an error; `backoff` is the pause where the service asks for none.
        To be called before `leave`.
        """
        if isinstance(error, RateLimitedError):
            self._handle_refusal(error, begun, backoff)
        elif is_outage(error):
            self._handle_outage(error, begun)
        else:
            self.record_answer(operation, begun)

    def _handle_refusal(self, error: RateLimitedError, begun: float, backoff: float) -> None:
        now = self.now()
        self.counts.refused += 1
        self.window.shrink(begun, now)
        self.breaker.record_answer()
        pause = backoff if error.retry_after is None else error.retry_after
        if pause > 0:
            self.pace.learnt.record_refused(begun, now, pause)
        self._wait(error, pause, now)

    def _handle_outage(self, error: ApiError, begun: float) -> None:
        now = self.now()
        pause = self.breaker.record_failure(error, begun, now)
        self.window.shrink(begun, now, to_one=self.breaker.holds)
        self.pace.pause(now, pause)
        if isinstance(error, ServiceError):
            self.counts.refused += error.status == 503
            self._wait(error, error.retry_after or 0.0, now)
        if self.breaker.is_open:
            self._turn_away()

    def _wait(self, error: ApiError, seconds: float, now: float) -> None:
        if seconds <= LONGEST_PAUSE:
            self.pace.pause(now, seconds)
        else:
            self.breaker.close_for(seconds, error.message, now)
            self._turn_away()
