"""Watched: a run, while a meter shows how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress

from petsync.client.session import Session
from petsync.diff.progress import Progress
from petsync.diff.report import Report
from petsync.render.meter import Meter as Reading
from petsync.widgets.parts.meter import Meter

__all__ = ["watched"]

_EVERY = 0.2
Run = Callable[[Callable[[Progress], None]], Coroutine[object, object, Report]]


async def watched(run: Run, meter: Meter, session: Session) -> Report | None:
    """The run's report; None where it was cancelled before it had begun."""
    state = _State(meter, session)
    drawing = asyncio.ensure_future(state.draw())
    try:
        return await run(state.tell)
    except asyncio.CancelledError:
        return None
    finally:
        drawing.cancel()
        with suppress(asyncio.CancelledError):
            await drawing
        state.show()


class _State:
    def __init__(self, meter: Meter, session: Session) -> None:
        self._meter, self._session = meter, session
        self._newest: Progress | None = None
        self._first: tuple[float, int] | None = None

    def tell(self, progress: Progress) -> None:
        """Remember how far it is; this is all that costs the run anything."""
        if self._first is None:
            self._first = time.monotonic(), progress.done
        self._newest = progress

    async def draw(self) -> None:
        """Show it now and then: the service may have everybody wait, and a person wants to know."""
        while True:
            self.show()
            await asyncio.sleep(_EVERY)

    def show(self) -> None:
        """Show how far it is."""
        newest, first = self._newest, self._first
        if newest is None or first is None:
            return
        began, before = first
        spent = time.monotonic() - began
        reading = Reading(
            text="",
            unit="changes",
            done=newest.done,
            total=newest.total,
            rate=(newest.done - before) / spent if spent > 1 else 0.0,
            problems=newest.problems,
            retries=newest.traffic.retries,
            waiting=self._session.traffic().waiting,
        )
        with self._meter.hold_sync():
            self._meter.done, self._meter.total = float(newest.done), float(newest.total)
            self._meter.text = reading.line()
