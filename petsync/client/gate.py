"""Gate: every request of a session waits here for its turn, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque

from petsync.client.pace import Pace
from petsync.client.window import Window

__all__ = ["Gate"]


class Gate:
    """Lets requests through as the window and the pace allow. It belongs to one event loop."""

    def __init__(self, window: Window, pace: Pace) -> None:
        self.under_way = 0
        self._window, self._pace = window, pace
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def most(self) -> int:
        """The most requests that may ever be under way at a time, from 1 to 128; settable."""
        return self._window.most

    @most.setter
    def most(self, most: int) -> None:
        self._window.most = most
        self.advance()

    @property
    def is_full(self) -> bool:
        """Whether as many are under way as may be."""
        return self.under_way >= self._window.limit

    async def enter(self) -> bool:
        """True when it is the caller's turn, who then has to `leave`; False if it is turned away.

        Whoever is cancelled meanwhile has not entered.
        """
        if self._pace.is_free and not self._waiting and self.under_way < self._window.limit:
            self.under_way += 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self.advance()
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.result():
                self.leave()
            raise

    def leave(self) -> None:
        """The request has ended."""
        self.under_way -= 1
        if self._waiting:
            self.advance()

    def advance(self, *, waited: bool = False) -> None:
        """Let through who may go now; called also where the window or the pace has changed."""
        waiting, loop = self._waiting, asyncio.get_running_loop()
        while waiting:
            if waiting[0].done():
                waiting.popleft()
            elif self.under_way >= self._window.limit:
                return
            elif (at := self._pace.opens_at) > (now := loop.time()):
                self._wake(at, loop)
                return
            else:
                self._pace.take(now, waited=waited)
                self.under_way += 1
                waiting.popleft().set_result(True)

    def turn_away(self) -> None:
        """Send all away who wait."""
        waiting, self._waiting = self._waiting, deque()
        for turn in waiting:
            if not turn.done():
                turn.set_result(False)

    def _wake(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            if self._timer.when() <= at and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.advance(waited=True)
