"""Pace: when the next request may be sent, by the rate asked for, the rate learnt, and pauses."""

from __future__ import annotations

import math

from petsync.client.learnt import LearntRate

__all__ = ["Pace"]

_CATCH_UP = 0.05
"""Timers come late: so much is made up for, that the rate be kept."""


class Pace:
    """`rate` is the most requests a second, evenly spread; None for as many as there are. Times
    are in seconds, of one clock.
    """

    def __init__(self) -> None:
        self.learnt = LearntRate()
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
