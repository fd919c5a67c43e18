"""Halt: how a run ends before its end, at once for what waits and in peace for what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

__all__ = ["Halt", "HaltedError"]

T = TypeVar("T")


class HaltedError(Exception):
    """The run was stopped while something was waited for."""


class Halt:
    """`why` the run is to stop, "" while it is not. Requests on the wire have `grace` seconds from
    then on; whatever else is under way is cancelled at once.
    """

    def __init__(self, grace: float, on_wire: AbstractSet[int]) -> None:
        self.why = ""
        self._grace, self._on_wire = grace, on_wire
        self._workers: dict[asyncio.Task[Any], int | None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def stop(self, why: str) -> None:
        """Stop for this reason, unless there was one before."""
        if self.why:
            return
        self.why = why
        self._timer = asyncio.get_running_loop().call_later(self._grace, self._end, ())
        self._end(self._on_wire)

    def interrupt(self) -> None:
        """Stop as somebody wants it; a second time, without any grace."""
        if self.why:
            self._end(())
        else:
            self.stop("interrupted")

    async def ended(self, work: Coroutine[Any, Any, None]) -> None:
        """Return when the work has ended. Whoever cancels this meanwhile interrupts it."""
        task = asyncio.ensure_future(work)
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if not task.cancelled():
                    self.interrupt()
        task.result()

    def check(self) -> None:
        """Raise HaltedError where the run is to stop."""
        if self.why:
            raise HaltedError

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Cancel this task with the run; it says what it is at by `at`."""
        self._workers[task] = None
        task.add_done_callback(self._forget)

    def at(self, number: int) -> None:
        """The current task is at the change of this number now."""
        task = asyncio.current_task()
        if task is not None:
            self._workers[task] = number

    async def soon(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of something that changes nothing in the store, cancelled when the run is
        stopped. Raises HaltedError then.
        """
        if self.why:
            work.close()
            raise HaltedError
        task = asyncio.ensure_future(work)
        self.watch(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self.why:
                raise HaltedError from None
            raise

    def _end(self, spared: AbstractSet[int] | tuple[()]) -> None:
        current = asyncio.current_task()
        for task, number in list(self._workers.items()):
            if task is not current and (number is None or number not in spared):
                task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._workers[task]
        if not self._workers and self._timer is not None:
            self._timer.cancel()
