"""LearntRate: how many requests a second a service takes, found out from its 429s.

No service says what its limit is, nor how it counts. Two refusals tell most: what it took between
them, by the time between them, is no more than its rate, and what was sent just before the second
is more. So the rate lies between the two, and is looked for from below: a step too low costs a
little, a step too high costs a pause.

A service may also refuse without any regard to the rate: because somebody else is busy, or by
chance. It gives itself away by refusing what it took before. Then being slower does not help, and
nothing is held back for a while but what each refusal itself asks for.
"""

from __future__ import annotations

import math

__all__ = ["LearntRate"]

_BELOW = 0.99
_CLOSE = 1.04
_LEAN = 0.2
"""How far above the lower bound the next try is, by the ratio of the bounds."""
_SEARCH_STEP, _SEARCH_CALM = 1.04, 1.5
_PROBE_STEP, _PROBE_CALM, _PROBE_SELDOM = 1.02, 30.0, 900.0
_LONGEST_STEP = 1.5
_BUSY = 0.8
_SHORTEST = 0.5
_DOUBTS = 2
_BLIND, _BLIND_LONGEST = 30.0, 900.0


class LearntRate:
    """`rate` is the most requests a second that are to be sent, None as long as none was refused.
    Times are in seconds, of one clock.

    It *searches*, rising every two seconds or so, until the bounds are close; then it *settles*
    just below the lower one, and probes every 25 seconds whether there is more, less often where
    there was not. When it has been refused twice at less than it was given before, it does not hold
    anything back for half a minute, and longer the next time.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._low, self._high = 0.0, math.inf
        self._step, self._calm = _SEARCH_STEP, _SEARCH_CALM
        self._has_settled, self._probe_calm = False, _PROBE_CALM
        self._took = self._took_before = 0
        self._begun = self._resumed = -math.inf
        self._set_at = math.inf
        self._doubts = 0
        self._blind_until, self._blind = -math.inf, _BLIND

    def accepted(self, begun: float) -> None:
        """A request that was sent at `begun` was taken, whatever came of it."""
        if not self._took and self.rate is None:
            self._begun = begun
        self._took += 1

    def refused(self, begun: float, now: float, pause: float) -> None:
        """A request that was sent at `begun` met a 429, and everything pauses."""
        if now < self._blind_until:
            return
        is_another = begun >= self._resumed and self._took > 0
        self._resumed = max(self._resumed, now + pause)
        seconds = now - self._begun
        if is_another and (self.rate is None or seconds >= _SHORTEST):
            self._learn(seconds, pause)
            self._begun, self._took = now, 0
            self._set(self._resumed)
            if self._doubts >= _DOUBTS:
                self._forget(now)

    def at(self, now: float) -> float | None:
        """The rate; it rises where nothing was refused for some time."""
        if now >= self._set_at + self._calm and self.rate is not None:
            if self._took - self._took_before >= _BUSY * self.rate * (now - self._set_at):
                self._rise(self.rate)
            self._set(now)
        return self.rate

    def _learn(self, seconds: float, pause: float) -> None:
        if self.rate is None:
            self.rate = self._took / max(seconds, pause, _SHORTEST)
            self._low = self._took / max(seconds + pause, _SHORTEST)
        else:
            self._high, took = self.rate, min(self._took / seconds, self.rate)
            # A limit by rate does not refuse what it gave before.
            self._doubts += self._high < self._low
            self._low = self._low if took < self._low < self._high else took
            self.rate = self._between()
        if self._has_settled:
            self._probe_calm = min(2 * self._probe_calm, _PROBE_SELDOM)
        self._has_settled = False
        self._step, self._calm = _SEARCH_STEP, _SEARCH_CALM * max(1.0, pause)
        self._settle_if_close()

    def _forget(self, now: float) -> None:
        """Begin anew, after a while in which nothing is held back."""
        self.rate, self._low, self._high = None, 0.0, math.inf
        self._doubts, self._has_settled = 0, False
        self._set_at = math.inf
        self._blind_until = now + self._blind
        self._blind = min(2 * self._blind, _BLIND_LONGEST)

    def _rise(self, rate: float) -> None:
        if rate > self._low:
            self._low, self._probe_calm = rate, _PROBE_CALM
        if self._has_settled:
            self._high, self._doubts = math.inf, 0
        self.rate = min(rate * self._step, self._between())
        self._step = min(self._step * self._step, _LONGEST_STEP)
        self._settle_if_close()

    def _settle_if_close(self) -> None:
        if self._high <= _CLOSE * self._low:
            self._has_settled, self.rate = True, _BELOW * self._low
            self._step, self._calm = _PROBE_STEP, self._probe_calm

    def _between(self) -> float:
        return self._low * math.pow(self._high / self._low, _LEAN)

    def _set(self, now: float) -> None:
        self._set_at, self._took_before = now, self._took
