"""Group commit: what many requests write at about the same time reaches the disk together."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["Writer"]

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
Waiting = tuple[Job, "asyncio.Future[Any]"]
_BATCH = 500


class Writer:
    """The only one that writes, one job after the other, so that a job sees no other half done.

    A job either raises before it writes, which ends that job alone, or returns. An sqlite3.Error
    takes back the whole batch, and every job of it fails with that error. With `in_thread` the
    commit's wait for the disk does not hold up the event loop.
    """

    def __init__(self, connection: sqlite3.Connection, *, in_thread: bool) -> None:
        self._connection = connection
        self._queue: list[Waiting] = []
        self._flushing: asyncio.Task[None] | None = None
        self._thread = (
            ThreadPoolExecutor(1, thread_name_prefix="petsync-sandbox-commit")
            if in_thread
            else None
        )

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """What `job` returns, after its commit."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.append((job, future))
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush())
        return await future

    def close(self) -> None:
        """Wait for a commit under way."""
        if self._thread is not None:
            self._thread.shutdown()

    async def _flush(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue[:_BATCH], self._queue[_BATCH:]
                await self._transact(batch)
        finally:
            self._flushing = None

    async def _transact(self, batch: list[Waiting]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [_attempt(job, self._connection) for job, _ in batch]
            await self._commit()
        except (sqlite3.Error, MemoryError) as error:
            if self._connection.in_transaction:
                self._connection.rollback()
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            _settle(future, result)

    async def _commit(self) -> None:
        if self._thread is None:
            self._connection.commit()
        else:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._connection.commit)


def _attempt(job: Job, connection: sqlite3.Connection) -> Any:
    try:
        return job(connection)
    except (sqlite3.Error, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  it is raised again where the job's result is awaited
        return error


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
