"""Writer: the thread that puts what a sitting hands over on disk, group by group.

All that has come while one group was being written goes into the next, in one transaction; so many
changes share one wait for the disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from petsync.apply.journal.database import PATIENCE, writing
from petsync.apply.journal.group import Item, execute
from petsync.apply.journal.lock import BEAT, Lock, held, leave, renew, taken_over
from petsync.apply.journal.moment import iso
from petsync.apply.journal.trouble import anew, closed, of_sqlite, unwritable
from petsync.apply.journal.use import begin_use, end_use
from petsync.errors import LockedError, PetsyncError

__all__ = ["Waiter", "Writer"]

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

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: Lock) -> None:
        self._path, self._connection, self._lock = path, connection, lock
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
        begin_use(path)
        name = f"petsync journal {lock.run}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> PetsyncError:
        """What to tell who comes after the end."""
        return closed(self._path)

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
            end_use(self._path)

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
                    self.lost = taken_over(self._lock, held(self._connection, self._lock.store))
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
