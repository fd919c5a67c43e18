"""A command with another clock: `NIGHT` is the number of seconds it is ahead of the machine's.

Every reading of the time in Python uses it, `time.time` as well as `datetime.now`. The times of
files and the monotonic clock do not change.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["main"]

_SECONDS = time.time
_NANOSECONDS = time.time_ns
_MOMENT = datetime.datetime
_DAY = datetime.date


class _Kind(type):
    """Accepts every real datetime as an instance, because petsync's types use the real class."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _MOMENT)


def main(args: Sequence[str]) -> NoReturn:
    """Run the command with the other clock."""
    ahead = float(os.environ["NIGHT"])
    time.time = lambda: _SECONDS() + ahead
    time.time_ns = lambda: _NANOSECONDS() + int(ahead * 10**9)

    class Moment(_MOMENT, metaclass=_Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _MOMENT.fromtimestamp(_SECONDS() + ahead, tz)

        @classmethod
        def today(cls) -> Any:
            return _MOMENT.fromtimestamp(_SECONDS() + ahead)

    datetime.datetime = Moment  # type: ignore[misc]
    for name, module in list(sys.modules.items()):
        if name.startswith("petsync") and getattr(module, "datetime", None) is _MOMENT:
            module.datetime = Moment  # type: ignore[attr-defined]
    from petsync.cli import main as petsync

    petsync(args)
