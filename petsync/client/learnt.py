"""LearntRate: how many requests a second a service takes, found out from its 429s.

No service says what its limit is, nor how it counts. Two refusals tell most: what it took between
them, by the time between them, is no more than its rate, and what was sent just before the second
is more. So the rate lies between the two, and is looked for from below: a step too low costs a
little, a step too high costs a pause.

A service may also refuse without any regard to the rate: because somebody else is busy, or by
chance. It gives itself away by refusing less than it took in the long run. Then being slower does
not help, and for a while nothing is held back but by the pauses that it asks for.
"""

from __future__ import annotations

import math

__all__ = ["LearntRate"]

_BELOW = 0.99
_CLOSE = 1.04
_LEAN, _FAR, _FAR_LEAN = 0.2, 1.3, 0.5
"""How far above the lower bound the next try is, by the ratio of the bounds."""
_SEARCH_STEP, _SEARCH_CALM = 1.04, 1.5
_PROBE_STEP, _PROBE_CALM, _PROBE_SELDOM = 1.02, 40.0, 1800.0
_LONGEST_STEP = 1.5
_BUSY = 0.8
_SHORTEST = 0.5
_LESSONS, _DOUBTS, _LESS = 4, 2, 0.85
_BLIND, _BLIND_LONGEST = 30.0, 900.0


class LearntRate:
    """`rate` is the most requests a second that are to be sent, None where nothing was learnt.
    Times are in seconds, of one clock.

    It *searches*, rising every two seconds or so, until the bounds are close; then it *settles*
    just below the lower one. After 40 seconds it probes whether there is more: where there is, it
    goes on with ever larger steps, and where there is not, it waits three times as long. It
    *forgets* the rate, for half a minute at first, where refusals have nothing to do with it.
    """

    rate: float | None
    _took: int
    _took_before: int
    _took_in_all: int
    _lessons: int
    _doubts: int

    def __init__(self) -> None:
        self._blind_until = -math.inf
        self._blind = _BLIND
        self._resumed = -math.inf
        self._forget()

    def accepted(self, begun: float) -> None:
        """A request that was sent at `begun` was taken, whatever came of it."""
        if not self._took and self.rate is None:
            self._begun = begun
        self._took += 1

    def refused(self, begun: float, now: float, pause: float) -> None:
        """A request that was sent at `begun` met a 429, and everything pauses."""
        is_another = begun >= self._resumed and self._took > 0 and now >= self._blind_until
        self._resumed = max(self._resumed, now + pause)
        seconds = now - self._begun
        if not is_another or (self.rate is not None and seconds < _SHORTEST):
            return
        self._learn(seconds, pause, now)
        self._begun, self._took = now, 0
        self._set(self._resumed)
        if self._doubts >= _DOUBTS:
            self._forget()
            self._blind_until = now + self._blind
            self._blind = min(2 * self._blind, _BLIND_LONGEST)

    def at(self, now: float) -> float | None:
        """The rate; it rises where nothing was refused for some time."""
        if now >= self._set_at + self._calm and self.rate is not None:
            if self._took - self._took_before >= _BUSY * self.rate * (now - self._set_at):
                self._rise(self.rate)
            self._set(now)
        return self.rate

    def _forget(self) -> None:
        self.rate = None
        self._low, self._high = 0.0, math.inf
        self._step, self._calm = _SEARCH_STEP, _SEARCH_CALM
        self._has_settled, self._probe_calm = False, _PROBE_CALM
        self._took = self._took_before = self._took_in_all = 0
        self._begun = self._first = -math.inf
        self._set_at = math.inf
        self._lessons = self._doubts = 0

    def _learn(self, seconds: float, pause: float, now: float) -> None:
        if self.rate is None:
            self.rate = _BELOW * self._took / max(seconds, pause, _SHORTEST)
            # What was taken at once at first may have been the share of two windows.
            self._low = self.rate / 2
            self._first = now
        else:
            self._doubt(self.rate, now)
            self._high, took = self.rate, min(self._took / seconds, self.rate)
            self._low = self._low if took < self._low < self._high else took
            self.rate = self._between()
        if self._has_settled:
            self._probe_calm = min(3 * self._probe_calm, _PROBE_SELDOM)
        self._has_settled = False
        self._step, self._calm = _SEARCH_STEP, _SEARCH_CALM * max(1.0, pause)
        self._settle_if_close()

    def _doubt(self, rate: float, now: float) -> None:
        """Whether the limit is one by rate: then what it gives in the long run is not refused."""
        self._lessons += 1
        self._took_in_all += self._took
        in_the_long_run = self._took_in_all / (now - self._first)
        self._doubts += self._lessons >= _LESSONS and rate < _LESS * in_the_long_run

    def _rise(self, rate: float) -> None:
        if rate > self._low:
            self._low, self._probe_calm = rate, _PROBE_CALM
        if self._has_settled:
            self._high, self._calm = math.inf, max(self._calm / 2, _SEARCH_CALM)
        self.rate = min(rate * self._step, self._between())
        self._step = min(self._step * self._step, _LONGEST_STEP)
        self._settle_if_close()

    def _settle_if_close(self) -> None:
        if self._high <= _CLOSE * self._low:
            self._has_settled, self.rate = True, _BELOW * self._low
            self._step, self._calm = _PROBE_STEP, self._probe_calm

    def _between(self) -> float:
        ratio = self._high / self._low
        return self._low * math.pow(ratio, _LEAN if ratio < _FAR else _FAR_LEAN)

    def _set(self, now: float) -> None:
        self._set_at, self._took_before = now, self._took
