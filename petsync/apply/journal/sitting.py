"""Sitting: one process's time at work on a run, with the lock of its store."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Collection, Coroutine, Iterable
from typing import Any

from petsync.apply.journal.group import Done, Finish, Image, Intent, Item, Known, Repeat
from petsync.apply.journal.lock import BEAT
from petsync.apply.journal.trouble import anew
from petsync.apply.journal.writer import Writer
from petsync.diff.change import Change
from petsync.diff.history import Entry
from petsync.diff.report import Result
from petsync.model import Pet

__all__ = ["Sitting"]

_STANDSTILL = 2.5 * BEAT


class Sitting:
    """A Recorder of one run; nobody else can work on its store until it is closed.

    What is awaited raises PetsyncError where the journal cannot be written, and LockedError where
    another process has taken over; results that could not be written are tried again with the next
    group. All of it is called from one event loop.
    """

    def __init__(self, run_id: str, writer: Writer, known: Collection[int] | None = None) -> None:
        self.run_id = run_id
        self._writer = writer
        self._known = known
        # One that nobody closes is closed when it is forgotten, or at the end of the process.
        self._closed = False
        self._end = weakref.finalize(self, writer.end)

    async def intend(
        self, number: int, change: Change, *, before: Pet | None, after: Pet | None
    ) -> None:
        """Return when it is on disk that this change is about to be sent."""
        await self._durably(Intent(time.time(), number, change, before, after))

    def repeats(self, number: int, why: str) -> None:
        """The change's request is about to be sent once more, as the last attempt ended so.

        Raises LockedError where another process is known to have taken over.
        """
        if self._writer.lost is not None:
            raise anew(self._writer.lost)
        self._writer.hand(Repeat(time.time(), number, why))

    def done(
        self, result: Result, *, after: Pet | None = None, replaced: Pet | None = None
    ) -> None:
        """What became of a change; on disk before a later intent is."""
        self._writer.hand(Done(time.time(), result, after, replaced))

    async def image(self, entry: Entry) -> None:
        """Return when it is on disk that this upload is about to be sent."""
        await self._durably(Image(time.time(), entry, ended=False))

    def image_done(self, entry: Entry) -> None:
        """What became of an upload; on disk before a later one is begun."""
        self._writer.hand(Image(time.time(), entry, ended=True))

    async def keep_known(self, ids: Iterable[int]) -> None:
        """Return when it is on disk which pets there were before one without an id was added."""
        kept = sorted(set(ids))
        await self._durably(Known(kept))
        self._known = frozenset(kept)

    def known(self) -> Collection[int] | None:
        """The ids of `keep_known`, of this sitting or an earlier one; None if there are none."""
        return self._known

    async def hold(self) -> None:
        """Return when it is sure that nobody else has taken over. It asks the file only where no
        heartbeat was written for so long that this process must have stood still.
        """
        if abs(time.time() - self._writer.renewed) > _STANDSTILL:
            await self._durably(None)

    def hurry(self) -> None:
        """From now on, wait no longer than a moment for others that keep the file locked."""
        self._writer.hurried = True

    async def flush(self) -> None:
        """Return when all that was handed over is on disk."""
        await self._durably(None)

    async def finish(self, *, stopped: str = "") -> None:
        """Return when all is on disk, and how the run ended: `stopped` is "" for one that has come
        to its end. Whoever cancels this only makes it hurry.
        """
        await self._to_end(self._durably(Finish(time.time(), stopped)))

    async def close(self) -> None:
        """Write what is left, and give the lock back. Without `finish` before, the run counts as
        interrupted. What can no longer be written is left to be found out by a resume. Whoever
        cancels this only makes it hurry: the report of the run would be lost otherwise.
        """
        self._closed = True
        await self._to_end(asyncio.to_thread(self._end))

    async def _to_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Await the work, and go on awaiting it where this is cancelled meanwhile."""
        task = asyncio.ensure_future(work)
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                self.hurry()
        task.result()

    async def _durably(self, item: Item | None) -> None:
        if self._closed:
            raise self._writer.closed
        waiter = asyncio.get_running_loop().create_future()
        self._writer.hand(item, waiter)
        await waiter
