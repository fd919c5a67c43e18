"""Retries: which failures are retried, when, how often, and how many in all."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Protocol, TypeVar

import tenacity

from petsync.errors import ApiError, RateLimitedError, ServiceError, TransportError
from petsync.protocol.operations import Request

__all__ = ["RetryBudget", "RetryPolicy", "RetryableRequest"]


# RetryBudget: how many retries all requests together may make.


_PER_SUCCESS = 0.25
_PER_SECOND = 2.0
_BURST = 32.0
_SHORTEST = 0.001


class RetryBudget:
    """A token for each retry: 32 at first and at most, a quarter more with each success, and two
    a second. So a service that refuses everything is asked a little, and not stormed.
    """

    def __init__(self, now: float) -> None:
        self._tokens, self._filled = _BURST, now
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, seconds: float) -> bool:
        """True with a token, first come, first served; False where none came within `seconds`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._hand_out()
        try:
            if not turn.done():
                await asyncio.wait((turn,), timeout=None if seconds == math.inf else seconds)
        finally:
            has_one = not turn.cancel()
        return has_one

    def turn_away(self) -> None:
        """Let all go on who wait, as none of them is sent any more."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def record_success(self) -> None:
        """A request was answered well."""
        if self._tokens < _BURST:
            self._tokens += _PER_SUCCESS
            if self._waiting:
                self._hand_out()

    def _hand_out(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._tokens = min(_BURST, self._tokens + _PER_SECOND * (now - self._filled))
        self._filled = now
        while self._waiting and (self._waiting[0].done() or self._tokens >= 1.0):
            turn = self._waiting.popleft()
            if not turn.done():
                self._tokens -= 1.0
                turn.set_result(None)
        if self._waiting and self._timer is None:
            lacking = max((1.0 - self._tokens) / _PER_SECOND, _SHORTEST)
            self._timer = loop.call_later(lacking, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._hand_out()


# Which failures are tried again, when, and how often. tenacity does the looping.


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
log = logging.getLogger(__name__)
_NEVER = frozenset({501, 505})
_COMMON = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Jittered exponential back-off: the n-th wait is up to `first` × 2^n seconds, at most
    `longest`. It ends after `attempts` tries, or where the next wait would pass `seconds` in all;
    the time in which all requests wait together (Retry-After, a rate, a service that restarts)
    does not count.
    """

    attempts: int = 6
    seconds: float = 60.0
    first: float = 0.1
    longest: float = 10.0

    def repeats(self, request: Request, error: BaseException) -> bool:
        """Whether trying again can do no harm: what surely did not happen, or may happen twice."""
        if isinstance(error, RateLimitedError):
            return True
        if isinstance(error, ServiceError) and error.status in _NEVER:
            return False
        if isinstance(error, TransportError | ServiceError):
            return request.repeatable or not error.may_have_happened
        return False

    def common_wait(self, attempt: int) -> float:
        """The seconds that everything waits after a 429 that does not say how long."""
        return min(self.longest, _COMMON * self.first * 2.0 ** (attempt - 1))

    async def run(self, repeated: RetryableRequest[T], error: ApiError) -> T:
        """The result of a later attempt, after a first one failed with `error`."""
        trying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(repeated.goes_on),
            wait=self._wait,
            stop=lambda state: repeated.ends(state.upcoming_sleep),
            sleep=repeated.pause,
            before_sleep=_tell,
            reraise=True,
        )
        first = [error]

        async def next_attempt() -> T:
            if first:
                raise first.pop()
            return await repeated.attempt()

        return await trying(next_attempt)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        longest = min(self.longest, self.first * 2.0 ** (state.attempt_number - 1))
        return random.uniform(longest / 2, longest)  # noqa: S311


class RetryableRequest(Protocol[T_co]):
    """A request that is tried more than once."""

    def goes_on(self, error: BaseException) -> bool:
        """Whether it may be tried again after this error."""

    def ends(self, wait: float) -> bool:
        """Whether it has been tried often or long enough, this wait included."""

    async def pause(self, seconds: float) -> None:
        """Return when it may be tried again; raises where it may not."""

    async def attempt(self) -> T_co:
        """The result of one more attempt."""


def _tell(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, ApiError):
        log.info("%s; again in %.1f s", error.message, state.upcoming_sleep)
