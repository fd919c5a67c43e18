"""Window: how many requests may be under way at a time, as far as the service bears it.

Slow start, then additive increase and multiplicative decrease (AIMD), as TCP does it.
Source: RFC 5681, section 3.1.
"""

from __future__ import annotations

__all__ = ["MOST", "Window"]

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

    def answered(self, operation: str, begun: float, now: float, *, full: bool) -> None:
        """An answer came. `full`: as many were under way as may be, so that more can be tried."""
        latency = self._latencies.get(operation)
        if latency is not None and latency.is_worse(now - begun):
            self.cut(begun, now)
        elif full and self.limit < self._most:
            self._exact += 1.0 if self._starts_slowly else 1.0 / self._exact
            self._exact = min(self._exact, float(self._most))
            self.limit = int(self._exact)

    def cut(self, begun: float, now: float, *, to_one: bool = False) -> None:
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
