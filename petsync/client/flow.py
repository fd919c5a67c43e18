"""Flow: how the requests of a session go on one event loop, and what their answers teach."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from petsync.client.breaker import Breaker, is_outage
from petsync.client.budget import RetryBudget
from petsync.client.gate import Gate
from petsync.client.pace import Pace
from petsync.client.transport import Carrier
from petsync.client.window import Window
from petsync.errors import ApiError, RateLimitedError, ServiceError

__all__ = ["LONGEST_PAUSE", "Counts", "Flow", "Health"]

LONGEST_PAUSE = 120.0
"""The seconds that are waited because a service asks for it; where it asks for more, requests end
with an error that says so.
"""


@dataclass(slots=True)
class Counts:
    """What a session sent, on all loops."""

    requests: int = 0
    retries: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """What a session knows of its service, whatever loop it is used on."""

    counts: Counts = field(default_factory=Counts)
    breaker: Breaker = field(default_factory=Breaker)
    window: Window = field(default_factory=Window)
    pace: Pace = field(default_factory=Pace)


class Flow:
    """Gate, pace, window, retry budget and circuit breaker of the requests on one event loop."""

    def __init__(self, carrier: Carrier, health: Health) -> None:
        self.carrier = carrier
        self.counts, self.breaker = health.counts, health.breaker
        self.window, self.pace = health.window, health.pace
        self.gate = Gate(self.window, self.pace)
        self.budget = RetryBudget(self.now())

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

    def answered(self, operation: str, begun: float) -> None:
        """An answer came that was no sign of trouble. To be called before `leave`."""
        self.window.answered(operation, begun, self.now(), full=self.gate.is_full)
        self.pace.learnt.accepted(begun)
        self.breaker.answered()
        self.budget.succeeded()

    def failed(self, operation: str, error: ApiError, begun: float, backoff: float) -> None:
        """An attempt ended in an error; `backoff` is the pause where the service asks for none.
        To be called before `leave`.
        """
        if isinstance(error, RateLimitedError):
            self._refused(error, begun, backoff)
        elif is_outage(error):
            self._lost(error, begun)
        else:
            self.answered(operation, begun)

    def _refused(self, error: RateLimitedError, begun: float, backoff: float) -> None:
        now = self.now()
        self.counts.refused += 1
        self.window.cut(begun, now)
        self.breaker.answered()
        pause = backoff if error.retry_after is None else error.retry_after
        if pause > 0:
            self.pace.learnt.refused(begun, now, pause)
        self._wait(error, pause, now)

    def _lost(self, error: ApiError, begun: float) -> None:
        now = self.now()
        pause = self.breaker.failed(error, begun, now)
        self.window.cut(begun, now, to_one=self.breaker.holds)
        self.pace.pause(now, pause)
        if isinstance(error, ServiceError):
            self.counts.refused += error.status == 503
            self._wait(error, error.retry_after or 0.0, now)
        if self.breaker.is_open:
            self.gate.turn_away()

    def _wait(self, error: ApiError, seconds: float, now: float) -> None:
        if seconds <= LONGEST_PAUSE:
            self.pace.pause(now, seconds)
        else:
            self.breaker.close_for(seconds, error.message, now)
            self.gate.turn_away()
