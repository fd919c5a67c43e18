"""The bridge from synchronous callers to the asynchronous core: an event loop in its own thread.

It also works if the caller has a running loop (Jupyter). An interrupt cancels the task, and the
call returns after the task's clean-up.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

__all__ = [
    "LoopThread",
    "Task",
    "delegate",
    "in_thread",
    "make_synchronous",
    "run_to_end",
    "start",
]


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

_LOOK_S = 0.25
"""Seconds between two checks for an interrupt during a wait. An interrupt does not end the wait if
it came just before the wait began, or if another thread handled it.
"""


class _Promise(Future[R]):
    """A future that another thread settles. An interrupt of `wait` never blocks that thread.

    The waits of the standard library are written in Python: an interrupt can leave them with a lock
    that the other thread needs. Here the waiting thread takes no such lock before the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_settled = False
        self._end = threading.Lock()
        self._end.acquire()

    def set_result(self, result: R) -> None:
        super().set_result(result)
        self._settle()

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception)
        self._settle()

    def wait(self) -> R:
        """Wait for the end without missing interrupts, and return the result or raise the error.
        Only one thread may wait.
        """
        while not self._is_settled:
            self._end.acquire(timeout=_LOOK_S)
        return self.result()

    def _settle(self) -> None:
        self._is_settled = True
        self._end.release()


class Task(Generic[R]):
    """A coroutine that runs on a loop thread after `begin`; the future `done` gets its result or
    its error.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, R]) -> None:
        self.done: _Promise[R] = _Promise()
        self._loop, self._work = loop, work
        self._task: asyncio.Task[R] | None = None

    def begin(self) -> None:
        """Start the coroutine. Returns at once."""
        self._loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Request cancellation, and return at once. `done` gets its result after the clean-up."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(lambda ended: _settle(self.done, ended))

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self.done.done():
            # An interrupt came before the coroutine was started.
            self._work.close()
            self.done.set_exception(KeyboardInterrupt())


class LoopThread:
    """An event loop in a daemon thread, started when it is first used."""

    def __init__(self, name: str = "petsync") -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def is_current(self) -> bool:
        """True on the loop's own thread."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run the coroutine, and return its result.

        An interrupt (KeyboardInterrupt) cancels the task, and the call waits for its clean-up. It
        then returns the result or raises the error of the task, or KeyboardInterrupt if the task
        was cancelled. A second interrupt raises KeyboardInterrupt at once. Raises RuntimeError on
        the loop's own thread, which would wait for itself.
        """
        if self.is_current:
            work.close()
            raise RuntimeError(
                "a Store was called in a callback, such as on_progress, which runs on the Store's "
                "thread: call it afterwards, or on another thread"
            )
        task = self._make_task(work)
        try:
            task.begin()
            return task.done.wait()
        except KeyboardInterrupt:
            task.cancel()
            return _after_interrupt(task)

    def start(self, work: Coroutine[Any, Any, R]) -> Task[R]:
        """Start the coroutine; return at once."""
        task = self._make_task(work)
        task.begin()
        return task

    def close(self) -> None:
        """Cancel all tasks, and end the loop and its thread; the next use starts new ones."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            end = Task(loop, _end_all())
            end.begin()
            end.done.wait()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _make_task(self, work: Coroutine[Any, Any, R]) -> Task[R]:
        try:
            return Task(self._ensure_started(), work)
        except BaseException:
            work.close()  # an interrupt came before the loop was started
            raise

    def _ensure_started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                # Make the loop in the new thread: a signal interrupts only the main thread. A loop
                # whose creation is interrupted prints a traceback when it is freed.
                made: _Promise[asyncio.AbstractEventLoop] = _Promise()
                self._thread = threading.Thread(
                    target=_run_loop, args=(made,), name=self._name, daemon=True
                )
                try:
                    self._thread.start()
                    self._loop = made.wait()
                except BaseException:
                    made.add_done_callback(_stop_loop)
                    raise
            return self._loop


def _run_loop(made: _Promise[asyncio.AbstractEventLoop]) -> None:
    """Make a loop in this thread, and run it until it is stopped."""
    try:
        loop = asyncio.new_event_loop()
    except BaseException as error:  # noqa: BLE001 - the caller gets every error
        made.set_exception(error)
        return
    loop.call_soon(made.set_result, loop)
    try:
        while True:
            # If the caller's function raises one of these errors, it ends its task and the loop.
            # Run on, so that the error reaches the caller and other tasks continue.
            with suppress(KeyboardInterrupt, SystemExit):
                loop.run_forever()
                break
    finally:
        loop.close()


def _stop_loop(made: Future[asyncio.AbstractEventLoop]) -> None:
    """Stop a loop that nobody uses, because its start was interrupted."""
    if made.exception() is None:
        made.result().call_soon_threadsafe(made.result().stop)


async def in_thread(work: Callable[[], R]) -> R:
    """Call the function in a thread, and return its result even if the task is cancelled in the
    meantime. The next `await` of the task then raises the cancellation, so that the caller can
    close the result first.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    current = asyncio.current_task()
    if is_cancelled and current is not None:
        current.cancel()
    return task.result()


def _settle(done: Future[R], task: asyncio.Task[R]) -> None:
    """Copy the task's result or error to `done`, even if the task was cancelled before it started.
    A cancellation becomes KeyboardInterrupt.
    """
    if task.cancelled():
        done.set_exception(KeyboardInterrupt())
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


async def _end_all() -> None:
    """Cancel all running tasks, and wait for their clean-up."""
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _after_interrupt(task: Task[R]) -> R:
    try:
        return task.done.wait()
    except KeyboardInterrupt:
        task.cancel()
        raise


class SyncFacade(Protocol[A_co]):
    """The attributes of a synchronous facade that `make_synchronous` uses."""

    @property
    def aio(self) -> A_co:
        """The asynchronous object behind the facade."""

    @property
    def _loop(self) -> LoopThread: ...


@overload
def make_synchronous(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncFacade[A], P], R]: ...


@overload
def make_synchronous(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
    wrap: Callable[[R, LoopThread], S],
) -> Callable[Concatenate[SyncFacade[A], P], S]: ...


def make_synchronous(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
    wrap: Callable[[R, LoopThread], S] | None = None,
) -> Callable[Concatenate[SyncFacade[A], P], R | S]:
    """Return a method of a synchronous facade, with the name, signature and docstring of the
    asynchronous `method`, which it runs. `wrap` is a class that makes a facade of the result.

    Write `find = make_synchronous(AsyncThing.find)` in a class that has `aio` and `_loop`.
    """
    begin = _caller(method)

    @wraps(method)
    def call(facade: SyncFacade[A], /, *args: P.args, **kwargs: P.kwargs) -> R | S:
        try:
            work = begin(facade, facade.aio, args, kwargs)
        finally:
            del args, kwargs
        result = facade._loop.run(work)
        return result if wrap is None else wrap(result, facade._loop)

    if wrap is not None:
        returned = getattr(wrap, "__name__", "")
        shown: Any = call
        shown.__signature__ = inspect.signature(method).replace(return_annotation=returned)
    return call


def start(facade: SyncFacade[Any], work: Coroutine[Any, Any, R]) -> Task[R]:
    """Start a coroutine of the object behind a synchronous facade, and return at once."""
    return facade._loop.start(work)


def delegate(part: str, method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method that calls the method of one part of the object, the attribute `part`. It has
    the same name, signature and docstring.

    Write `find = delegate("_finder", Finder.find)` in a class whose objects have a `_finder`.
    """
    begin = _caller(method)
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def run(whole: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                work: Any = begin(whole, getattr(whole, part), args, kwargs)
            finally:
                del args, kwargs
            return await work

        delegated: Any = run
    else:

        @wraps(method)
        def call(whole: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return begin(whole, getattr(whole, part), args, kwargs)
            finally:
                del args, kwargs

        delegated = call
    return cast("Callable[Concatenate[Any, P], R]", delegated)


def _caller(method: Callable[..., R]) -> Callable[[object, object, Any, Any], R]:
    """Return a function that calls the method of a part of an object, `whole`.

    A TypeError about the arguments names the method of `whole`, which the caller knows. No frame
    keeps the arguments: a verbose traceback shows them, and a secret may be among them.
    """
    signature = inspect.signature(method)

    def begin(whole: object, part: object, args: Any, kwargs: Any) -> R:
        try:
            problem = _find_mismatch(signature, part, args, kwargs)
            if problem:
                advice: Mapping[str, str] = getattr(method, "misplaced", {})
                problem += next((f": {advice[name]}" for name in kwargs if name in advice), "")
                raise TypeError(f"{type(whole).__name__}.{method.__name__}() {problem}")
            return method(part, *args, **kwargs)
        finally:
            del args, kwargs

    return begin


def _find_mismatch(signature: inspect.Signature, part: object, args: Any, kwargs: Any) -> str:
    """Return why the arguments do not fit the signature; "" if they do."""
    try:
        signature.bind(part, *args, **kwargs)
    except TypeError as error:
        return re.sub("^(too many|multiple)", r"got \1", str(error))
    return ""


async def run_to_end(work: Coroutine[Any, Any, None], on_cancel: Callable[[], None]) -> None:
    """Wait until the work has ended, even after a cancellation, which calls `on_cancel` instead of
    ending the work. Raises the errors of the work.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                on_cancel()
    task.result()
