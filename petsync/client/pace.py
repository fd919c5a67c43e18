"""Pace: no more than so many requests a second, evenly spread."""

from __future__ import annotations

import asyncio
import time

__all__ = ["Pace"]


class Pace:
    """A gate that opens `rate` times a second; with None it is always open."""

    def __init__(self, rate: float | None = None) -> None:
        self.rate = rate
        self._next = 0.0

    async def wait(self) -> None:
        """Return when it is the caller's turn."""
        if self.rate is None:
            return
        now = time.monotonic()
        mine = max(now, self._next)
        self._next = mine + 1.0 / self.rate
        if mine > now:
            await asyncio.sleep(mine - now)
