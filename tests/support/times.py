"""How many random runs a test makes."""

from __future__ import annotations

import os

_TIMES = int(os.environ.get("PETSYNC_TIMES", "1"))


def times(few: int) -> int:
    """Return `few` times the value of PETSYNC_TIMES, which is 1 by default."""
    return few * _TIMES
