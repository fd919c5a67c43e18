"""Which failures are tried again, when, and how often. tenacity does the looping."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from petsync.errors import ApiError, RateLimitedError, ServiceError, TransportError
from petsync.wire.message import Request

__all__ = ["RetryPolicy"]

T = TypeVar("T")
log = logging.getLogger(__name__)
_NEVER = frozenset({501, 505})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Jittered exponential back-off: the n-th wait is up to `first` × 2^n seconds, at most
    `longest`, and never shorter than the service's Retry-After. It ends after `attempts` tries,
    or where the next wait would pass `seconds` in all.
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

    async def run(
        self, request: Request, attempt: Callable[[], Awaitable[T]], error: ApiError
    ) -> T:
        """The result of a later attempt, after a first one failed with `error`."""
        trying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda e: self.repeats(request, e)),
            wait=self._wait,
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(self.attempts),
                tenacity.stop_before_delay(self.seconds),
            ),
            before_sleep=_tell,
            reraise=True,
        )
        first = [error]

        async def next_attempt() -> T:
            if first:
                raise first.pop()
            return await attempt()

        return await trying(next_attempt)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        longest = min(self.longest, self.first * 2.0 ** (state.attempt_number - 1))
        return max(random.uniform(longest / 2, longest), _asked_for(state))  # noqa: S311


def _asked_for(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    seconds = error.retry_after if isinstance(error, RateLimitedError | ServiceError) else None
    return seconds or 0.0


def _tell(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, ApiError):
        log.info("%s; again in %.1f s", error.message, state.upcoming_sleep)
