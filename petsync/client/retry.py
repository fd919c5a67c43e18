"""Retries: which failures are retried, when and how often, and a limit on all retries together."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Protocol, TypeVar

import tenacity

from petsync.errors import ApiError, RateLimitedError, ServiceError, SettingsError, TransportError
from petsync.protocol.operations import Request

__all__ = ["RetryBudget", "RetryPolicy", "RetryableRequest"]


# RetryBudget: the limit on the retries of all requests together.


_PER_SUCCESS = 0.25
_PER_SECOND = 2.0
_BURST = 32.0
_SHORTEST = 0.001


class RetryBudget:
    """A token bucket for retries. It has at most 32 tokens, starts full, and gains two tokens per
    second and a quarter of a token with each success. So a failing service gets few retries.
    """

    def __init__(self, now: float) -> None:
        self._tokens, self._filled_at = _BURST, now
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, seconds: float) -> bool:
        """Take a token, in the order of the calls. Return false if none becomes available within
        `seconds`.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._grant_tokens()
        try:
            if not future.done():
                await asyncio.wait((future,), timeout=None if seconds == math.inf else seconds)
        finally:
            has_one = not future.cancel()
        return has_one

    def release_all(self) -> None:
        """Let all waiters continue without a token: the breaker then refuses their requests."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def record_success(self) -> None:
        if self._tokens < _BURST:
            self._tokens += _PER_SUCCESS
            if self._waiting:
                self._grant_tokens()

    def _grant_tokens(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._tokens = min(_BURST, self._tokens + _PER_SECOND * (now - self._filled_at))
        self._filled_at = now
        while self._waiting and (self._waiting[0].done() or self._tokens >= 1.0):
            future = self._waiting.popleft()
            if not future.done():
                self._tokens -= 1.0
                future.set_result(None)
        if self._waiting and self._timer is None:
            delay = max((1.0 - self._tokens) / _PER_SECOND, _SHORTEST)
            self._timer = loop.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._grant_tokens()


# RetryPolicy: which failures are retried, when and how often. tenacity runs the loop.


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
log = logging.getLogger(__name__)
_NEVER = frozenset({501, 505})
_COMMON = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter. The n-th wait has an upper limit of `first` × 2^(n-1)
    seconds, but at most `longest`; its length is random, from half the limit to the limit.

    A request fails after `attempts` attempts, or when its total time would exceed `seconds`. Time
    in which all requests wait, for example after a Retry-After, does not count.
    """

    attempts: int = 6
    seconds: float = 60.0
    first: float = 0.1
    longest: float = 10.0

    def __post_init__(self) -> None:
        """Raise SettingsError for less than one attempt, and for times that are not numbers of
        seconds.
        """
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise SettingsError(
                f"attempts is {self.attempts!r}, and must be a whole number from 1 on",
                hint="attempts=1 sends each request once.",
            )
        for name in ("seconds", "first", "longest"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value >= 0:
                raise SettingsError(f"{name} is {value!r}, and must be a number of seconds")

    def allows_retry(self, request: Request, error: BaseException) -> bool:
        """Return true if the request should be retried: the failure may be temporary, and the
        service did not process the request or may safely process it twice.
        """
        if isinstance(error, RateLimitedError):
            return True
        if isinstance(error, ServiceError) and error.status in _NEVER:
            return False
        if isinstance(error, TransportError | ServiceError):
            return request.repeatable or not error.may_have_happened
        return False

    def common_wait(self, attempt: int) -> float:
        """Return the seconds for which all requests pause after a 429 without Retry-After."""
        return min(self.longest, _COMMON * self.first * 2.0 ** (attempt - 1))

    async def run(self, repeated: RetryableRequest[T], error: ApiError) -> T:
        """Retry a request whose first attempt failed with `error`, and return the result."""
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(repeated.is_retryable),
            wait=self._wait,
            stop=lambda state: repeated.must_stop(state.upcoming_sleep),
            sleep=repeated.pause,
            before_sleep=_log_retry,
            reraise=True,
        )
        errors = [error]

        async def next_attempt() -> T:
            if errors:
                raise errors.pop()
            return await repeated.attempt()

        return await retrying(next_attempt)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        longest = min(self.longest, self.first * 2.0 ** (state.attempt_number - 1))
        return random.uniform(longest / 2, longest)  # noqa: S311


class RetryableRequest(Protocol[T_co]):
    """A request that may be attempted more than once."""

    def is_retryable(self, error: BaseException) -> bool:
        """Return true if the request may be retried after this error."""

    def must_stop(self, wait: float) -> bool:
        """Return true if there must be no further attempt after a wait of this many seconds."""

    async def pause(self, seconds: float) -> None:
        """Wait before the next attempt. Raises an error if there must not be one."""

    async def attempt(self) -> T_co:
        """Send the request once more, and return the result."""


def _log_retry(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, ApiError):
        log.info("%s; again in %.1f s", error.problem, state.upcoming_sleep)
