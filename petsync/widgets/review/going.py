"""Going: a run under way, which a person may stop at any moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from petsync._loop import Task
from petsync.diff.report import Report
from petsync.errors import InterruptedRunError
from petsync.widgets.review.ended import Ended

__all__ = ["Going"]


class Going:
    """A run; `task` is the work that it is, once that is begun."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, Report | None]]) -> None:
        self.task: Task[Ended | None] | None = None
        self._run = run
        self._lock = threading.Lock()
        self._is_begun = self._is_stopped = False

    def stop(self) -> None:
        """Have it end at a change's boundary. Returns at once."""
        with self._lock:
            self._is_stopped = True
            # A task that is cancelled before its first step ends without a word.
            if self._is_begun and self.task is not None:
                self.task.cancel()

    async def looked_at(self) -> Ended | None:
        """The report, also of a run that was stopped, with its results in groups; None where it
        was stopped before it began.
        """
        with self._lock:
            self._is_begun = True
            if self._is_stopped:
                return None
        try:
            report = await self._run()
        except InterruptedRunError as error:
            if not isinstance(error.report, Report):
                raise
            report = error.report
        return None if report is None else await asyncio.to_thread(Ended, report)
