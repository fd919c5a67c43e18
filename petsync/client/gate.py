"""Gate: every request of a session waits here for its turn, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque

from petsync.client.pace import Pace
from petsync.client.window import Window

__all__ = ["Gate"]

_AHEAD_IN_A_ROW = 3


class Gate:
    """Lets requests through as the window and the pace allow. It belongs to one event loop.

    Changes go ahead of reads, three to one: a pet was read just before it is changed, and the
    shorter the time in between, the less can happen to it.
    """

    def __init__(self, window: Window, pace: Pace) -> None:
        self.under_way = 0
        self._window, self._pace = window, pace
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._ahead: deque[asyncio.Future[bool]] = deque()
        self._in_a_row = 0
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

    async def enter(self, *, ahead: bool = False) -> bool:
        """True when it is the caller's turn, who then has to `leave`; False if it is turned away.

        `ahead`: it changes something. Whoever is cancelled meanwhile has not entered.
        """
        is_empty = not (self._waiting or self._ahead)
        if is_empty and self._pace.is_free and self.under_way < self._window.limit:
            self.under_way += 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (self._ahead if ahead else self._waiting).append(turn)
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
        if self._waiting or self._ahead:
            self.advance()

    def advance(self, *, waited: bool = False) -> None:
        """Let through who may go now; called also where the window or the pace has changed."""
        loop = asyncio.get_running_loop()
        while (queue := self._next()) and self.under_way < self._window.limit:
            if (at := self._pace.opens_at) > (now := loop.time()):
                self._wake(at, loop)
                return
            self._pace.take(now, waited=waited)
            self.under_way += 1
            self._in_a_row = self._in_a_row + 1 if queue is self._ahead else 0
            queue.popleft().set_result(True)

    def turn_away(self) -> None:
        """Send all away who wait."""
        while queue := self._next():
            queue.popleft().set_result(False)

    def _next(self) -> deque[asyncio.Future[bool]]:
        """The queue whose first is next, empty where nobody waits any more."""
        for queue in (self._ahead, self._waiting):
            while queue and queue[0].done():
                queue.popleft()
        reads_wait = self._waiting and self._in_a_row >= _AHEAD_IN_A_ROW
        return self._ahead if self._ahead and not reads_wait else self._waiting

    def _wake(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.advance(waited=True)
