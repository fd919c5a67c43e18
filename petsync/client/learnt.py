"""LearntRate: how many requests a second a service takes, found out from its 429s.

No service says what its limit is, nor how it counts. Between two refusals it has taken all that it
allows, so what it took tells its rate: divided by the whole time where a pause is saved up for
later (a token bucket), and by the time without the pause where it is lost (a window that begins
anew by the clock). The rate lies between the two, and is found there by halving.
"""

from __future__ import annotations

import math

__all__ = ["LearntRate"]

_BELOW = 0.99
_CLOSE = 1.03
_SEARCH_STEP, _SEARCH_CALM = 1.5, 2.0
_PROBE_STEP, _PROBE_CALM, _PROBE_SELDOM = 1.02, 25.0, 400.0
_BUSY = 0.8
_SHORTEST = 0.001


class LearntRate:
    """`rate` is the most requests a second that are to be sent, None as long as none was refused.
    Times are in seconds, of one clock.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._low = self._high = 0.0
        self._step, self._calm, self._probe_calm = _SEARCH_STEP, _SEARCH_CALM, _PROBE_CALM
        self._accepted = self._seen = 0
        self._begun = self._resumed = -math.inf
        self._set_at = math.inf

    def accepted(self, begun: float) -> None:
        """A request that was sent at `begun` was taken, whatever came of it."""
        if self._begun == -math.inf:
            self._begun = begun
        self._accepted += 1

    def refused(self, begun: float, now: float, pause: float) -> None:
        """A request that was sent at `begun` met a 429, and everything pauses."""
        is_another = begun >= self._resumed and self._accepted > 0
        since, self._resumed = self._resumed, max(self._resumed, now + pause)
        if is_another:
            whole = now - self._begun
            active = now - max(since, self._begun)
            self._learn(max(whole, _SHORTEST), max(active, _SHORTEST), pause)
            self._begun, self._accepted = now, 0

    def at(self, now: float) -> float | None:
        """The rate; it rises where nothing was refused for some time."""
        if now >= self._set_at + self._calm and self.rate is not None:
            self._rise(now)
        return self.rate

    def _learn(self, whole: float, active: float, pause: float) -> None:
        low, high = self._accepted / whole, self._accepted / active
        if self.rate is None:
            low = self._accepted / (whole + pause)
            rate = low
        else:
            high = min(high, self.rate)
            if low < self._low < high:
                low = self._low
            low = min(low, high)
            rate = math.sqrt(low * high)
        if self._step < _SEARCH_STEP:
            self._probe_calm = min(2 * self._probe_calm, _PROBE_SELDOM)
        self._low, self._high = low, high
        self._calm = max(_SEARCH_CALM, 2 * pause)
        self._search(rate, self._resumed)

    def _search(self, rate: float, now: float) -> None:
        """Look for the rate between the bounds, or settle where they are close."""
        if self._high > _CLOSE * self._low:
            self._step = _SEARCH_STEP
        else:
            rate, self._step, self._calm = _BELOW * self._low, _PROBE_STEP, self._probe_calm
        self._set(rate, now)

    def _rise(self, now: float) -> None:
        assert self.rate is not None
        busy = self._accepted - self._seen >= _BUSY * self.rate * (now - self._set_at)
        if not busy:
            self._set(self.rate, now)
        elif self._step < _SEARCH_STEP:
            self._probe(self.rate, now)
        else:
            self._low = max(self._low, self.rate)
            self._search(min(math.sqrt(self._low * self._high), self.rate * self._step), now)

    def _probe(self, rate: float, now: float) -> None:
        if rate > self._low:
            self._low, self._probe_calm = rate, _PROBE_CALM
            self._step = min(self._step * self._step, _SEARCH_STEP - 0.01)
        self._calm = self._probe_calm
        self._high = math.inf
        self._set(rate * self._step, now)

    def _set(self, rate: float, now: float) -> None:
        self.rate, self._set_at, self._seen = rate, now, self._accepted
