"""Write to the journal: a session of one process on a run, and the thread that commits groups."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
import weakref
from collections.abc import Collection, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import msgspec

from petsync.apply.journal.rows import (
    ENDED,
    INTENDED,
    REPEATED,
    REPLACED,
    Row,
    begun_row,
    done_row,
    ended_row,
    intended_row,
)
from petsync.apply.journal.schema import (
    BEAT,
    PATIENCE,
    Lock,
    anew,
    build_closed_error,
    iso,
    leave,
    of_sqlite,
    read_lock,
    renew,
    seal,
    taken_over,
    unwritable,
    writing,
)
from petsync.errors import LockedError, PetsyncError
from petsync.models import Pet
from petsync.plan.change import Change
from petsync.plan.report import Entry, Result

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "Completion",
    "Finish",
    "Image",
    "Intent",
    "Item",
    "KnownIds",
    "Repeat",
    "RunSession",
    "Waiter",
    "Writer",
    "execute",
]


# Group: what is written in one transaction, as few statements.


class Intent(msgspec.Struct, gc=False):
    """A change is about to be sent."""

    at: float
    number: int
    change: Change
    before: Pet | None
    after: Pet | None


class Repeat(msgspec.Struct, gc=False):
    """A change is about to be sent once more."""

    at: float
    number: int
    why: str


class Completion(msgspec.Struct, gc=False):
    """What became of a change; `replaced` is the pet that a new one took the place of."""

    at: float
    result: Result
    after: Pet | None
    replaced: Pet | None = None


class Image(msgspec.Struct, gc=False):
    """An upload that is about to be sent, or what became of it."""

    at: float
    entry: Entry
    ended: bool


class KnownIds(msgspec.Struct, gc=False):
    """The ids that were there before."""

    ids: list[int]


class Finish(msgspec.Struct, gc=False):
    """How the sitting ended."""

    at: float
    stopped: str


Item = Intent | Repeat | Completion | Image | KnownIds | Finish


def execute(connection: sqlite3.Connection, run: str, sitting: int, items: Iterable[Item]) -> None:
    """Write what a sitting handed over, in the order in which it came; neighbours of one kind
    together.
    """
    statement, rows = "", list[Row]()
    for item in items:
        needed, row = _statement(run, sitting, item)
        if needed != statement and rows:
            connection.executemany(statement, rows)
            rows = []
        statement = needed
        rows.append(row)
        if isinstance(item, Repeat):
            connection.executemany(statement, rows)
            statement, rows = _ONCE_MORE, [(run, item.number)]
    if rows:
        connection.executemany(statement, rows)


def _statement(run: str, sitting: int, item: Item) -> tuple[str, Row]:
    match item:
        case Intent():
            row = intended_row(run, item.at, item.number, item.change, item.before, item.after)
            return INTENDED, row
        case Completion(replaced=None):
            return ENDED, done_row(run, item.at, item.result, item.after)
        case Completion():
            return REPLACED, done_row(run, item.at, item.result, item.after, item.replaced)
        case Image():
            return _image(run, item.at, item.entry, ended=item.ended)
        case Repeat():
            return REPEATED, (iso(item.at), item.why, run, item.number)
        case KnownIds():
            about = (run, msgspec.json.encode(item.ids).decode())
            return _KNOWN, (*about, seal(about))
        case Finish():
            return _FINISHED, (iso(item.at), item.stopped, run, sitting)


def _image(run: str, at: float, entry: Entry, *, ended: bool) -> tuple[str, Row]:
    if ended:
        return ENDED, ended_row(run, iso(at), entry, entry.after)
    return INTENDED, begun_row(run, msgspec.structs.replace(entry, intended=iso(at)))


_ONCE_MORE = "UPDATE change SET attempts = attempts + 1 WHERE run = ? AND number = ?"
_KNOWN = "INSERT OR REPLACE INTO known (run, ids, seal) VALUES (?, ?, ?)"
_FINISHED = "UPDATE sitting SET ended = ?, stopped = ? WHERE run = ? AND number = ?"


# Writer: the thread that puts what a sitting hands over on disk, group by group.
#
# All that has come while one group was being written goes into the next, in one transaction; so
# many changes share one wait for the disk.


_MOMENT = 200
"""So many milliseconds SQLite itself waits for a lock."""
_BUSY, _GATHER = 0.0005, 0.001
"""Where intents come as fast as they are written, so many seconds more are waited for others: one
wait for the disk does for all of them.
"""
_SOON = 0.05
"""A result reaches the disk within so many seconds, also where no intent follows it."""

Waiter = asyncio.Future[None]
_Handed = tuple[Item | None, Waiter | None]


class Writer:
    """Writes for one sitting, from the moment it is made until `end`. While nothing is handed over
    it writes a heartbeat, however busy the other threads are.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: Lock, in_use: BaseFileLock
    ) -> None:
        self._path, self._connection, self._lock = path, connection, lock
        self._in_use = in_use
        self._file = path.stat()
        self._handed: SimpleQueue[_Handed | None] = SimpleQueue()
        self._kept: list[_Handed] = []
        self.lost: LockedError | None = None
        """Set for good where another process has taken over."""
        self.renewed = time.time()
        """When the lock was last known to be held, in seconds since 1970."""
        self.hurried = False
        """Whether somebody waits for the end, so that locks of others are not waited for."""
        connection.execute(f"PRAGMA busy_timeout = {_MOMENT}")
        name = f"petsync journal {lock.run}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> PetsyncError:
        """What to tell who comes after the end."""
        return build_closed_error(self._path)

    def hand(self, item: Item | None, waiter: Waiter | None = None) -> None:
        """Have the item written soon; the waiter is told when it is on disk, or why it is not."""
        self._handed.put((item, waiter))

    def end(self) -> None:
        """Write what is left, give the lock back, and return when the file is closed."""
        self._handed.put(None)
        # A sitting that nobody closed may be forgotten in any thread, this one too.
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        try:
            while self._one_group():
                pass
            self._release()
        finally:
            self._turn_away()
            self._connection.close()
            self._in_use.release()

    def _one_group(self) -> bool:
        handed, goes_on = self._next()
        waiters = [waiter for _, waiter in handed if waiter is not None]
        try:
            # Who has stopped waiting to send something will not send it.
            self._write([i for i, w in handed if i is not None and not (w and w.cancelled())])
        except PetsyncError as error:
            # Nobody waits for a result, so it is tried again; whoever waits is told instead.
            self._kept = [each for each in handed if each[1] is None]
            _tell(waiters, error)
        else:
            self._kept = []
            _tell(waiters, None)
        return goes_on

    def _next(self) -> tuple[list[_Handed], bool]:
        """What waits to be written, and whether more may come; waits until the next heartbeat."""
        handed = self._kept
        written = time.monotonic()
        try:
            each = self._handed.get(timeout=BEAT)
            now = time.monotonic()
            until, gather = now + _SOON, now + (_GATHER if now - written < _BUSY else 0.0)
            while each is not None:
                handed.append(each)
                if each[1] is not None:
                    until = min(until, gather)
                # While nobody waits, an intent may still come: one sync then does for both.
                each = self._handed.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            return handed, True
        return handed, False

    def _write(self, items: list[Item]) -> None:
        if self.lost is not None:
            raise self.lost
        until = time.monotonic() + PATIENCE
        try:
            with writing(self._connection, lambda: self._waits(until)):
                if not renew(self._connection, self._lock):
                    self.lost = taken_over(
                        self._lock, read_lock(self._connection, self._lock.store)
                    )
                    raise self.lost
                execute(self._connection, self._lock.run, self._lock.sitting, items)
            self._check_place()
            self.renewed = time.time()
        except sqlite3.Error as error:
            raise of_sqlite(self._path, error) from None
        except PetsyncError:
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits must be told, whatever it is
            raise unwritable(self._path, repr(error)) from None

    def _waits(self, until: float) -> bool:
        return not self.hurried and time.monotonic() < until

    def _check_place(self) -> None:
        """What is written to a file that was deleted or replaced is not kept."""
        try:
            now = self._path.stat()
        except OSError:
            raise unwritable(self._path, "it was deleted or moved while in use") from None
        if (now.st_dev, now.st_ino) != (self._file.st_dev, self._file.st_ino):
            raise unwritable(self._path, "another file was put in its place while in use")

    def _turn_away(self) -> None:
        """Tell who comes after the end that nothing is written any more."""
        with suppress(Empty):
            while True:
                handed = self._handed.get_nowait()
                if handed is not None and handed[1] is not None:
                    _tell([handed[1]], self.closed)

    def _release(self) -> None:
        # Where this fails, the lock is another's by now, or ends for want of a heartbeat.
        with suppress(sqlite3.Error), writing(self._connection):
            leave(self._connection, self._lock, iso(time.time()))


def _tell(waiters: list[Waiter], error: PetsyncError | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for waiter in waiters:
        by_loop.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, its in by_loop.items():
        # Once a loop is closed, nobody waits there any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, its, error)


def _settle(waiters: list[Waiter], error: PetsyncError | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            # One for each: raised in several tasks, they would share a traceback.
            waiter.set_exception(anew(error))


# RunSession: one process's time at work on a run, with the lock of its store.


_STANDSTILL = 2.5 * BEAT


class RunSession:
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
        self._writer.hand(Completion(time.time(), result, after, replaced))

    async def image(self, entry: Entry) -> None:
        """Return when it is on disk that this upload is about to be sent."""
        await self._durably(Image(time.time(), entry, ended=False))

    def image_done(self, entry: Entry) -> None:
        """What became of an upload; on disk before a later one is begun."""
        self._writer.hand(Image(time.time(), entry, ended=True))

    async def keep_known(self, ids: Iterable[int]) -> None:
        """Return when it is on disk which pets there were before one without an id was added."""
        kept = sorted(set(ids))
        await self._durably(KnownIds(kept))
        self._known = frozenset(kept)

    def get_known_ids(self) -> Collection[int] | None:
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
