"""Throttle: how many requests a second a service takes, counted in one of the two usual ways."""

from __future__ import annotations

import math

__all__ = ["Throttle"]


class Throttle:
    """Takes `rate` requests a second. Without `window` by a token bucket, which is full at first
    and holds `burst`; with it, `rate` × `window` in each window of so many seconds by the clock.
    """

    def __init__(self, rate: float, *, burst: float, window: float = 0.0) -> None:
        self._rate, self._burst, self._window = rate, burst, window
        self._tokens, self._seen = burst, -math.inf
        self._number, self._taken = -math.inf, 0

    def takes(self, now: float) -> bool:
        """Whether a request that comes `now`, in seconds, is taken."""
        return self._in_window(now) if self._window else self._from_bucket(now)

    def _from_bucket(self, now: float) -> bool:
        saved = self._tokens + (now - self._seen) * self._rate
        self._tokens, self._seen = min(self._burst, saved), now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _in_window(self, now: float) -> bool:
        number = math.floor(now / self._window)
        if number != self._number:
            self._number, self._taken = number, 0
        self._taken += 1
        return self._taken <= self._rate * self._window
