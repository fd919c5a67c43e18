"""The bridge from synchronous callers to the one asynchronous core: a loop in a thread of its own.

It works where the caller has a running loop itself (Jupyter), and an interrupt cancels the task
and waits for its clean-up before it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

__all__ = ["LoopThread", "blocking"]

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class LoopThread:
    """An event loop in a daemon thread, started when it is first used."""

    def __init__(self, name: str = "petsync") -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The coroutine's result.

        On KeyboardInterrupt the task is cancelled and its clean-up awaited; what it then returns
        or raises is what the caller gets. A second interrupt returns at once.
        """
        loop = self._started()
        done: Future[R] = Future()
        tasks: list[asyncio.Task[None]] = []
        loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(_into(done, work))))
        try:
            return done.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            return _after_interrupt(done, lambda: _cancel_again(loop, tasks))

    def close(self) -> None:
        """End the loop and its thread; used again, it starts anew."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop


async def _into(done: Future[R], work: Coroutine[Any, Any, R]) -> None:
    try:
        done.set_result(await work)
    except asyncio.CancelledError:
        done.set_exception(KeyboardInterrupt())
    except BaseException as error:  # noqa: BLE001 - it is the caller's, and is raised there
        done.set_exception(error)


def _after_interrupt(done: Future[R], again: Callable[[], None]) -> R:
    try:
        return done.result()
    except KeyboardInterrupt:
        if not done.done():
            again()
        raise


def _cancel_again(loop: asyncio.AbstractEventLoop, tasks: list[asyncio.Task[None]]) -> None:
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])


class Bridged(Protocol[A_co]):
    """What `blocking` needs of a synchronous facade."""

    @property
    def aio(self) -> A_co:
        """The asynchronous object behind it."""

    @property
    def _loop(self) -> LoopThread: ...


class blocking(Generic[A, P, R]):  # noqa: N801 - used like a decorator
    """An asynchronous method as a synchronous one of a facade, with its name, signature and help.

    `find = blocking(AsyncThing.find)` in a class that has `aio` and `_loop`.
    """

    def __init__(self, method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]]) -> None:
        self._method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, facade: Bridged[A], _: object = None) -> Callable[P, R]:
        if facade is None:
            return self  # type: ignore[unreachable]

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return facade._loop.run(self._method(facade.aio, *args, **kwargs))

        return update_wrapper(call, self._method)
