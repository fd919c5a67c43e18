"""RetryBudget: how many retries all requests together may make."""

from __future__ import annotations

import asyncio
import math
from collections import deque

__all__ = ["RetryBudget"]

_PER_SUCCESS = 0.25
_PER_SECOND = 2.0
_BURST = 32.0
_SHORTEST = 0.001


class RetryBudget:
    """A token for each retry: 32 at first and at most, a quarter more with each success, and two
    a second. So a service that refuses everything is asked a little, and not stormed.
    """

    def __init__(self, now: float) -> None:
        self._tokens, self._filled = _BURST, now
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, seconds: float) -> bool:
        """True with a token, first come, first served; False where none came within `seconds`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._hand_out()
        try:
            if not turn.done():
                await asyncio.wait((turn,), timeout=None if seconds == math.inf else seconds)
        finally:
            has_one = not turn.cancel()
        return has_one

    def succeeded(self) -> None:
        """A request was answered well."""
        if self._tokens < _BURST:
            self._tokens += _PER_SUCCESS
            if self._waiting:
                self._hand_out()

    def _hand_out(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._tokens = min(_BURST, self._tokens + _PER_SECOND * (now - self._filled))
        self._filled = now
        while self._waiting and (self._waiting[0].done() or self._tokens >= 1.0):
            turn = self._waiting.popleft()
            if not turn.done():
                self._tokens -= 1.0
                turn.set_result(None)
        if self._waiting and self._timer is None:
            lacking = max((1.0 - self._tokens) / _PER_SECOND, _SHORTEST)
            self._timer = loop.call_later(lacking, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._hand_out()
