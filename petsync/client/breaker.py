"""Breaker: what is to be done about a service that answers nothing but failures."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta

from petsync.errors import ApiError, ServiceError, TransportError, UnavailableError

__all__ = ["Breaker", "is_outage"]

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 5.0
_LONGEST_REFUSAL = 3600.0
_ANSWERS = frozenset({501, 505})


class Breaker:
    """A circuit breaker over all requests of a session: it counts failed attempts (5xx, no answer)
    without another answer between them. Times are in seconds, of one clock.

    After `failures` in a row, or `gone` of them that found nobody listening, it *holds*: everything
    waits, and one request at a time is tried, every few seconds, until one is answered. Where none
    was for `patience` seconds it *opens*: requests are refused, but for one now and then that
    tries. A service that never answered is not waited for: `unreached` seconds since the first
    attempt began and `failures` in a row open it, or `gone` that got no answer at all.
    """

    def __init__(
        self,
        *,
        failures: int = 20,
        gone: int = 3,
        patience: float = 60.0,
        unreached: float = 20.0,
    ) -> None:
        self.failures, self.gone = failures, gone
        self.patience, self.unreached = patience, unreached
        self.is_open = False
        self.in_a_row = self._gone_in_a_row = 0
        self._reached = False
        self._first = 0.0
        self._tried = self._probe_at = -math.inf
        self._pause = _FIRST_PAUSE
        self._since = self._reason = ""

    @property
    def holds(self) -> bool:
        """Whether a service that has answered before is waited for."""
        known = self.in_a_row >= self.failures or self._gone_in_a_row >= self.gone
        return self._reached and known

    def answered(self) -> None:
        """The service answered: whatever it said, it is there."""
        self._reached = True
        if self.in_a_row:
            self.in_a_row = self._gone_in_a_row = 0
            self.is_open = False
            self._pause, self._tried = _FIRST_PAUSE, -math.inf

    def failed(self, error: ApiError, begun: float, now: float) -> float:
        """An attempt that was sent at `begun` failed; for how long everything is to wait."""
        if not self.in_a_row:
            # One that never answered is not waited for any longer than its first time-out.
            self._first, self._since = now if self._reached else begun, _clock()
        self.in_a_row += 1
        is_silent = isinstance(error, TransportError)
        gone = is_silent and not (self._reached and error.may_have_happened)
        self._gone_in_a_row = self._gone_in_a_row + 1 if gone else 0
        self._reason = error.message
        if self._is_over(now):
            self.is_open, self._probe_at = True, now + _LONGEST_PAUSE
        if not self.holds or begun < self._tried:
            return 0.0
        pause, self._tried = self._pause, now
        self._pause = min(2 * pause, _LONGEST_PAUSE)
        return random.uniform(0.8, 1.2) * pause  # noqa: S311 - spreads clients, hides nothing

    def close_for(self, seconds: float, reason: str, now: float) -> None:
        """The service asked for a wait that is too long to sit out; for an hour at most."""
        seconds = min(seconds, _LONGEST_REFUSAL)
        if not self.is_open:
            self._first, self._since = now, _clock()
        until = _clock(seconds)
        self.is_open, self._probe_at = True, now + seconds
        self._reason = f"{reason}; it asks to wait until {until}"

    def check(self, now: float, *, again: bool) -> None:
        """Return if a request may be sent; `again` says that it was sent before, so that it is no
        probe. Raises UnavailableError.
        """
        if not self.is_open:
            return
        if again or now < self._probe_at:
            raise self.error()
        self._probe_at = now + _LONGEST_PAUSE

    def error(self) -> UnavailableError:
        """What a request meets that is not sent."""
        failed = f" {self.in_a_row} attempts in a row have failed;" if self.in_a_row else ""
        return UnavailableError(
            f"the service is not available since {self._since}:{failed} the last answer was: "
            f"{self._reason}",
            hint="Nothing more is sent to it for now. A run that stopped here can be resumed"
            " when the service is back: petsync resume.",
        )

    def _is_over(self, now: float) -> bool:
        known = self.in_a_row >= self.failures or self._gone_in_a_row >= self.gone
        return known and now - self._first >= (self.patience if self._reached else self.unreached)


def is_outage(error: ApiError) -> bool:
    """Whether the error tells of a service that does not do its work just now."""
    if isinstance(error, ServiceError):
        return error.status not in _ANSWERS
    return isinstance(error, TransportError)


def _clock(later: float = 0.0) -> str:
    return f"{datetime.now().astimezone() + timedelta(seconds=later):%H:%M:%S}"
