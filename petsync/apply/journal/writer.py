"""Write the journal: the session of a process on a run, and the thread that writes its records."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from petsync._sync import run_to_end
from petsync.apply.journal.rows import (
    INSERT_INTENT,
    INSERT_REPLACEMENT,
    INSERT_RESULT,
    INSERT_RETRY,
    Row,
    build_entry_intent_row,
    build_entry_result_row,
    build_intent_row,
    build_result_row,
    delete_unsent_run,
)
from petsync.apply.journal.schema import (
    HEARTBEAT_S,
    LOCK_TIMEOUT_S,
    Lock,
    build_closed_error,
    build_taken_over_error,
    build_unwritable_error,
    copy_error,
    format_time,
    read_lock,
    release_lock,
    renew_lock,
    row_checksum,
    transaction,
    translate_sqlite_error,
)
from petsync.errors import LockedError, PetsyncError
from petsync.models import Pet
from petsync.plan.change import Change
from petsync.plan.report import Entry, Report, Result
from petsync.plan.uploads import UploadReport

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "Completion",
    "Finish",
    "Image",
    "Intent",
    "Item",
    "KnownIds",
    "Record",
    "Repeat",
    "RunSession",
    "Waiter",
    "Withdrawal",
    "Writer",
    "execute",
]


# Items: the records of a session. A group of them is written in one transaction.


class Intent(msgspec.Struct, gc=False):
    """A change that is about to be sent."""

    at: float
    number: int
    change: Change
    before: Pet | None
    after: Pet | None


class Repeat(msgspec.Struct, gc=False):
    """A change that is about to be sent again."""

    at: float
    number: int
    why: str


class Completion(msgspec.Struct, gc=False):
    """The result of a change, with the arguments of `Recorder.record_result`."""

    at: float
    result: Result
    after: Pet | None
    replaced: Pet | None = None


class Image(msgspec.Struct, gc=False):
    """An upload that is about to be sent, or its result if it has `ended`."""

    at: float
    entry: Entry
    ended: bool


class KnownIds(msgspec.Struct, gc=False):
    """The ids of the pets that existed before the first add without an id."""

    ids: list[int]


class Finish(msgspec.Struct, gc=False):
    """The end of the session; `stopped` is why it stopped early, or ""."""

    at: float
    stopped: str


class Withdrawal(msgspec.Struct, gc=False):
    """The removal of a run without an intent, as the last item of its session."""


Record = Intent | Repeat | Completion | Image | KnownIds | Finish
Item = Record | Withdrawal


def execute(connection: sqlite3.Connection, run: str, session: int, items: Iterable[Item]) -> None:
    """Write the items of a session in their order. Adjacent items of one kind share a statement."""
    statement, rows, is_withdrawn = "", list[Row](), False
    for item in items:
        if isinstance(item, Withdrawal):
            is_withdrawn = True
            continue
        needed, row = _statement(run, session, item)
        if needed != statement and rows:
            connection.executemany(statement, rows)
            rows = []
        statement = needed
        rows.append(row)
        if isinstance(item, Repeat):
            connection.executemany(statement, rows)
            statement, rows = _COUNT_ATTEMPT, [(run, item.number)]
    if rows:
        connection.executemany(statement, rows)
    if is_withdrawn:
        delete_unsent_run(connection, run)


def _statement(run: str, session: int, item: Record) -> tuple[str, Row]:
    match item:
        case Intent():
            row = build_intent_row(run, item.at, item.number, item.change, item.before, item.after)
            return INSERT_INTENT, row
        case Completion(replaced=None):
            return INSERT_RESULT, build_result_row(run, item.at, item.result, item.after)
        case Completion():
            return INSERT_REPLACEMENT, build_result_row(
                run, item.at, item.result, item.after, item.replaced
            )
        case Image():
            return _image(run, item.at, item.entry, ended=item.ended)
        case Repeat():
            return INSERT_RETRY, (format_time(item.at), item.why, run, item.number)
        case KnownIds():
            about = (run, msgspec.json.encode(item.ids).decode())
            return _INSERT_KNOWN_IDS, (*about, row_checksum(about))
        case Finish():
            return _FINISH_SESSION, (format_time(item.at), item.stopped, run, session)


def _image(run: str, at: float, entry: Entry, *, ended: bool) -> tuple[str, Row]:
    if ended:
        return INSERT_RESULT, build_entry_result_row(run, format_time(at), entry, entry.after)
    return INSERT_INTENT, build_entry_intent_row(
        run, msgspec.structs.replace(entry, intended=format_time(at))
    )


_COUNT_ATTEMPT = "UPDATE change SET attempts = attempts + 1 WHERE run = ? AND number = ?"
_INSERT_KNOWN_IDS = "INSERT OR REPLACE INTO known (run, ids, seal) VALUES (?, ?, ?)"
_FINISH_SESSION = "UPDATE sitting SET ended = ?, stopped = ? WHERE run = ? AND number = ?"


# Writer: the thread that writes the items of a session to disk, group by group.
#
# Items that arrive while a group is written form the next group. A group is one transaction, so
# many changes share one disk sync.


_BUSY_TIMEOUT_MS = 200
"""Milliseconds that SQLite waits for a lock in one attempt."""
_BUSY_INTERVAL_S, _GATHER_S = 0.0005, 0.001
"""Seconds. If an item arrives within `_BUSY_INTERVAL_S` after the last group, more intents probably
follow soon: the writer then waits `_GATHER_S` for more items, so that they share one disk sync.
"""
_MAX_DELAY_S = 0.05
"""Seconds after which a result is written, even if no intent follows it."""

Waiter = asyncio.Future[None]
_QueuedItem = tuple[Item | None, Waiter | None]


class _Queue:
    """A queue that any thread can fill, even in a finalizer, and that one thread empties.

    `SimpleQueue.get` of CPython can wait forever if its timeout ends before it begins to wait. So
    this class waits for a lock, whose timeouts are exact.
    """

    def __init__(self) -> None:
        self._items: SimpleQueue[_QueuedItem | None] = SimpleQueue()
        self._wakeup = threading.Lock()
        self._wakeup.acquire()

    def put(self, item: _QueuedItem | None) -> None:
        self._items.put(item)
        with suppress(RuntimeError):  # Another thread may have released it first.
            if self._wakeup.locked():
                self._wakeup.release()

    def get(self, timeout: float = 0.0) -> _QueuedItem | None:
        """Return the next item. Raises Empty if there is none within `timeout` seconds."""
        until = time.monotonic() + timeout
        while True:
            with suppress(Empty):
                return self._items.get_nowait()
            if not self._wakeup.acquire(timeout=max(0.0, until - time.monotonic())):
                return self._items.get_nowait()


class Writer:
    """Writes the items of one session in its own thread until `end`. Without items, it writes
    heartbeats.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: Lock,
        files: Sequence[BaseFileLock],
    ) -> None:
        self._path, self._connection, self._lock = path, connection, lock
        self._locked_files = files
        self._file = path.stat()
        self._queue = _Queue()
        self._unwritten: list[_QueuedItem] = []
        self.lock_error: LockedError | None = None
        """The error after another process has taken over, else None."""
        self.renewed = time.time()
        """When the lock was last renewed, in seconds since 1970."""
        self.hurries = False
        """If true, the writer does not wait long for other processes, because the run stops."""
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        name = f"petsync journal {lock.run}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_first(self) -> bool:
        """True if this is the first session of its run."""
        return self._lock.session == 1

    @property
    def closed_error(self) -> PetsyncError:
        """The error for calls after `end`."""
        return build_closed_error(self._path)

    def submit(self, item: Item | None, waiter: Waiter | None = None) -> None:
        """Queue an item, or None to wait for the earlier items only. The waiter is resolved when
        they are all on disk, or gets the error.
        """
        self._queue.put((item, waiter))

    def end(self) -> None:
        """Write the queued items, release the lock, and return when the file is closed."""
        self._queue.put(None)
        # An unclosed session may be garbage-collected in any thread, including this one.
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        try:
            while self._write_group():
                pass
            self._release()
        finally:
            self._refuse_rest()
            self._connection.close()
            for file in self._locked_files:
                file.release()

    def _write_group(self) -> bool:
        group, continues = self._collect_group()
        waiters = [waiter for _, waiter in group if waiter is not None]
        try:
            # If a waiter was cancelled, its change is not sent, so its item is not needed.
            self._write([i for i, w in group if i is not None and not (w and w.cancelled())])
        except PetsyncError as error:
            # Write items without a waiter again with the next group. Waiters get the error.
            self._unwritten = [each for each in group if each[1] is None]
            _notify(waiters, error)
        else:
            self._unwritten = []
            _notify(waiters, None)
        return continues

    def _collect_group(self) -> tuple[list[_QueuedItem], bool]:
        """Return the items to write, and whether more may follow. Without items, return when the
        next heartbeat is due.
        """
        group = self._unwritten
        written = time.monotonic()
        try:
            each = self._queue.get(HEARTBEAT_S)
            now = time.monotonic()
            until, gather = (
                now + _MAX_DELAY_S,
                now + (_GATHER_S if now - written < _BUSY_INTERVAL_S else 0.0),
            )
            while each is not None:
                group.append(each)
                if each[1] is not None:
                    until = min(until, gather)
                # Without a waiter, wait longer: an intent may follow, and both then share one sync.
                each = self._queue.get(max(0.0, until - time.monotonic()))
        except Empty:
            return group, True
        return group, False

    def _write(self, items: list[Item]) -> None:
        if self.lock_error is not None:
            raise self.lock_error
        until = time.monotonic() + LOCK_TIMEOUT_S
        try:
            with transaction(self._connection, lambda: self._may_wait(until)):
                if not renew_lock(self._connection, self._lock):
                    self.lock_error = build_taken_over_error(
                        self._lock, read_lock(self._connection, self._lock.store)
                    )
                    raise self.lock_error
                execute(self._connection, self._lock.run, self._lock.session, items)
            self._check_place()
            self.renewed = time.time()
        except sqlite3.Error as error:
            raise translate_sqlite_error(self._path, error) from None
        except PetsyncError:
            raise
        except Exception as error:  # noqa: BLE001 - waiters must get any error
            raise build_unwritable_error(self._path, repr(error)) from None

    def _may_wait(self, until: float) -> bool:
        return not self.hurries and time.monotonic() < until

    def _check_place(self) -> None:
        """Raise PetsyncError if the file was deleted or replaced: the records are then lost."""
        try:
            now = self._path.stat()
        except OSError:
            raise build_unwritable_error(
                self._path, "it was deleted or moved while it was in use"
            ) from None
        if (now.st_dev, now.st_ino) != (self._file.st_dev, self._file.st_ino):
            raise build_unwritable_error(self._path, "another file replaced it while it was in use")

    def _refuse_rest(self) -> None:
        """Give an error to the waiters of items that are still queued after the end."""
        with suppress(Empty):
            while True:
                group = self._queue.get()
                if group is not None and group[1] is not None:
                    _notify([group[1]], self.closed_error)

    def _release(self) -> None:
        # If this fails, the lock becomes stale without a heartbeat.
        with suppress(sqlite3.Error), transaction(self._connection):
            release_lock(self._connection, self._lock, format_time(time.time()))


def _notify(waiters: list[Waiter], error: PetsyncError | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for waiter in waiters:
        by_loop.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, loop_waiters in by_loop.items():
        # A closed loop raises RuntimeError, but has no tasks that wait.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, loop_waiters, error)


def _resolve(waiters: list[Waiter], error: PetsyncError | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            # Each waiter gets a copy: if several tasks raised one error, they would share its
            # traceback.
            waiter.set_exception(copy_error(error))


# RunSession: the session of one process on a run, with the lock of its store.


_STANDSTILL_S = 2.5 * HEARTBEAT_S


ReportT = TypeVar("ReportT", Report, UploadReport)


class RunSession:
    """The Recorder of a run. Until it is closed, no other process can work on the run's store,
    unless the heartbeat stops. As a context manager, it is closed at the end.

    Coroutines raise PetsyncError if the journal cannot be written, and LockedError if another
    process has taken over. Results that could not be written are written with later records, if
    possible. All methods must be called on one event loop.
    """

    def __init__(self, run_id: str, writer: Writer, known: Collection[int] | None = None) -> None:
        self.run_id = run_id
        self.is_first = writer.is_first
        """True if no other session of the run came before."""
        self._writer = writer
        self._known = known
        # If `close` is not called, the session ends when it is garbage-collected, or at exit.
        self._closed = False
        self._end = weakref.finalize(self, writer.end)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # An error here must not replace that of the run, or its report.
        with suppress(PetsyncError):
            await self.close()

    async def record_intent(
        self, number: int, change: Change, *, before: Pet | None, after: Pet | None
    ) -> None:
        """Record that this change is about to be sent, and wait until the record is on disk."""
        await self._write_and_wait(Intent(time.time(), number, change, before, after))

    def record_retry(self, number: int, why: str) -> None:
        """Record that the change's request is sent again; `why` is how the last attempt ended.

        Raises LockedError if another process is known to have taken over.
        """
        if self._writer.lock_error is not None:
            raise copy_error(self._writer.lock_error)
        self._writer.submit(Repeat(time.time(), number, why))

    def record_result(
        self, result: Result, *, after: Pet | None = None, replaced: Pet | None = None
    ) -> None:
        """Record the result of a change. The record is on disk before any later intent."""
        self._writer.submit(Completion(time.time(), result, after, replaced))

    async def record_image_intent(self, entry: Entry) -> None:
        """Record that this upload is about to be sent, and wait until the record is on disk."""
        await self._write_and_wait(Image(time.time(), entry, ended=False))

    def record_image_result(self, entry: Entry) -> None:
        """Record the result of an upload. The record is on disk before any later intent."""
        self._writer.submit(Image(time.time(), entry, ended=True))

    async def record_known_ids(self, ids: Iterable[int]) -> None:
        """Record the ids of the pets that exist before the first add without an id, and wait until
        they are on disk.
        """
        sorted_ids = sorted(set(ids))
        await self._write_and_wait(KnownIds(sorted_ids))
        self._known = frozenset(sorted_ids)

    def get_known_ids(self) -> Collection[int] | None:
        """Return the ids that `record_known_ids` recorded in any session of the run; None if none
        has called it.
        """
        return self._known

    async def confirm_lock(self) -> None:
        """Raise LockedError if another process has taken over. The journal is read only if the last
        heartbeat is so old that this process may have been suspended.
        """
        if abs(time.time() - self._writer.renewed) > _STANDSTILL_S:
            await self._write_and_wait(None)

    def stop_waiting(self) -> None:
        """From now on, do not wait long for other processes that lock the file."""
        self._writer.hurries = True

    async def flush(self) -> None:
        """Wait until all queued items are on disk."""
        await self._write_and_wait(None)

    async def finish(self, *, stopped: str = "") -> None:
        """Record the end of the session, and wait until all records are on disk.

        `stopped` is why the run stopped early, or "". A cancellation only shortens the wait for
        other processes.
        """
        await run_to_end(self._write_and_wait(Finish(time.time(), stopped)), self.stop_waiting)

    async def withdraw(self) -> None:
        """Remove the run from the journal, as if it had not started, and wait until that is on
        disk: its plan is unused again. A run that has recorded an intent stays.
        """
        await run_to_end(self._write_and_wait(Withdrawal()), self.stop_waiting)

    async def finish_report(self, report: ReportT) -> ReportT:
        """Record the end of the session, and return the report. If the journal cannot be written,
        the report is marked as stopped.
        """
        try:
            await self.finish(stopped=report.stopped)
        except PetsyncError as error:
            return msgspec.structs.replace(report, stopped=report.stopped or error.text)
        return report

    async def close(self) -> None:
        """Write the remaining records, and release the lock. Without an earlier `finish`, the run
        counts as interrupted.

        A cancellation only shortens the wait for other processes, so that the report is not lost.
        """
        self._closed = True
        await run_to_end(asyncio.to_thread(self._end), self.stop_waiting)

    async def _write_and_wait(self, item: Item | None) -> None:
        if self._closed:
            raise self._writer.closed_error
        waiter = asyncio.get_running_loop().create_future()
        self._writer.submit(item, waiter)
        await waiter
