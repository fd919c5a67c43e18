"""Writer: the thread that puts what a sitting hands over on disk, group by group.

All that has come while one group was being written goes into the next, in one transaction; so many
changes share one wait for the disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

from petsync.apply.journal.database import writing
from petsync.apply.journal.group import Group, Item
from petsync.apply.journal.lock import BEAT, Lock, held, renew, taken_over
from petsync.apply.journal.moment import iso
from petsync.apply.journal.trouble import of_sqlite, unwritable
from petsync.errors import LockedError, PetsyncError

__all__ = ["Waiter", "Writer"]

Waiter = asyncio.Future[None]
_Handed = tuple[Item | None, Waiter | None]


class Writer:
    """Writes for one sitting, from the moment it is made until `end`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: Lock) -> None:
        self._path, self._connection, self._lock = path, connection, lock
        self._handed: SimpleQueue[_Handed | None] = SimpleQueue()
        self._kept: list[_Handed] = []
        self.error: PetsyncError | None = None
        """What keeps the journal from being written just now."""
        self._thread = threading.Thread(
            target=self._work, name=f"petsync journal {lock.run}", daemon=True
        )
        self._thread.start()

    def hand(self, item: Item | None, waiter: Waiter | None = None) -> None:
        """Have the item written soon; the waiter is told when it is on disk, or why it is not."""
        self._handed.put((item, waiter))

    def end(self) -> None:
        """Write what is left, give the lock back, and return when the file is closed."""
        self._handed.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            while self._one_group():
                pass
            self._release()
        finally:
            self._connection.close()

    def _one_group(self) -> bool:
        handed, goes_on = self._next()
        items = [item for item, _ in handed if item is not None]
        waiters = [waiter for _, waiter in handed if waiter is not None]
        try:
            self._write(items)
        except PetsyncError as error:
            self.error = error
            # Nobody waits for a result, so it is tried again; whoever waits is told instead.
            self._kept = [each for each in handed if each[1] is None]
            _tell(waiters, error)
        else:
            self.error, self._kept = None, []
            _tell(waiters, None)
        return goes_on

    def _next(self) -> tuple[list[_Handed], bool]:
        """What waits to be written, and whether more may come; waits until the next heartbeat."""
        handed = self._kept
        try:
            each = self._handed.get(timeout=BEAT)
            while each is not None:
                handed.append(each)
                each = self._handed.get_nowait()
        except Empty:
            return handed, True
        return handed, False

    def _write(self, items: list[Item]) -> None:
        try:
            with writing(self._connection):
                if not renew(self._connection, self._lock):
                    raise taken_over(self._lock, held(self._connection, self._lock.store))
                Group(self._lock.run, self._lock.sitting).write(self._connection, items)
        except sqlite3.Error as error:
            raise of_sqlite(self._path, error) from None
        except (ValueError, TypeError) as error:
            raise unwritable(self._path, str(error)) from None

    def _release(self) -> None:
        try:
            with writing(self._connection):
                leave(self._connection, self._lock)
        except (sqlite3.Error, LockedError):
            # The lock is another's by now, or ends for want of a heartbeat.
            pass


def leave(connection: sqlite3.Connection, lock: Lock) -> None:
    """Give the lock back; a sitting that did not say how it ended was interrupted."""
    mine = connection.execute(
        "DELETE FROM lock WHERE store = ? AND claim = ?", (lock.store, lock.claim)
    )
    if mine.rowcount:
        connection.execute(
            "UPDATE sitting SET ended = ?, stopped = 'interrupted' "
            "WHERE run = ? AND number = ? AND ended = ''",
            (iso(time.time()), lock.run, lock.sitting),
        )


def _tell(waiters: list[Waiter], error: PetsyncError | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for waiter in waiters:
        by_loop.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, its in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, its, error)
        except RuntimeError:
            # The loop is closed, so nobody waits any more.
            continue


def _settle(waiters: list[Waiter], error: PetsyncError | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
