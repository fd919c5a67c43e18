"""ApplyOptions: how a plan is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, Self

import msgspec

from petsync.errors import SettingsError

__all__ = ["ApplyOptions", "Recheck"]

Recheck = Literal["each", "bulk", "none"]
"""How pets are read again before they are changed: one by one just before, all at once at the
beginning, or (for measurements only) not at all.
"""

_MOST = 128
_AHEAD = 16


class ApplyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is applied: `concurrency` changes at a time; with `verify` every changed pet is
    read back; with more than `failures_before_deletes` failures before them, deletes are held back,
    and with more than `max_failures` the run stops. `recheck`: how pets are read again; `rate`: the
    most requests a second.

    Times are in seconds. A stopped run waits `grace` for the requests that are on their way. An add
    without an id that got no answer is taken for not made once the store does not have it and
    `settle` has passed since the last attempt, or, after a crash, since the run was resumed: a
    request may come through late. Raises SettingsError for what makes no sense.
    """

    concurrency: int = 16
    rate: float | None = None
    verify: bool = False
    recheck: Recheck = "each"
    max_failures: int | None = None
    failures_before_deletes: int = 0
    grace: float = 1.5
    settle: float = 30.0

    def __post_init__(self) -> None:
        if type(self.concurrency) is not int or not 1 <= self.concurrency <= _MOST:
            raise SettingsError(f"concurrency is {self.concurrency!r}; it must be 1 to {_MOST}")
        if self.rate is not None and not (_is_number(self.rate) and self.rate > 0):
            text = f"rate is {self.rate!r}; it must be a number of requests a second above 0"
            raise SettingsError(text)
        if self.recheck not in ("each", "bulk", "none"):
            raise SettingsError(f"recheck is {self.recheck!r}; it must be 'each' or 'bulk'")
        most = self.max_failures
        if most is not None and (type(most) is not int or most < 0):
            raise SettingsError(f"max_failures is {most!r}; it must be a whole number from 0")
        if not (_is_number(self.settle) and self.settle >= 0):
            raise SettingsError(f"settle is {self.settle!r}; it must be seconds from 0")

    @classmethod
    def of(cls, saved: Mapping[str, Any], **given: Any) -> Self:
        """The options as a journal has them, those that are given (not None) in their place."""
        known = {name: saved[name] for name in cls.__struct_fields__ if name in saved}
        return cls(**{**known, **{n: value for n, value in given.items() if value is not None}})

    @property
    def at_a_time(self) -> int:
        """Changes at a time: few under a rate, so that a pet is sent soon after it was read."""
        if self.rate is None:
            return self.concurrency
        return min(self.concurrency, max(1, int(self.rate / 4)))

    @property
    def begun(self) -> int:
        """Changes that are begun at a time. Where no pet is read just before it is sent, these are
        some more than are sent, so that their intents reach the disk while others are on the wire.
        """
        if self.recheck == "each" or self.rate is not None:
            return self.at_a_time
        return self.at_a_time + _AHEAD


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
