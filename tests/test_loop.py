"""The bridge from synchronous callers to the asynchronous core."""

from __future__ import annotations

import _thread
import asyncio
import gc
import inspect
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from types import FrameType
from typing import Any
from unittest.mock import Mock

import pytest
from interrupting import interrupt_in, once_main_waits_in

from petsync._collector import pause_collection
from petsync._sync import LoopThread, Task, _Promise, delegate, make_synchronous


@pytest.fixture
def loop() -> object:
    """Yield a bridge that is closed after the test."""
    bridge = LoopThread("test-bridge")
    yield bridge
    bridge.close()


def test_results_and_errors_come_through(loop: LoopThread) -> None:
    """The caller gets the result or the error of the coroutine."""

    async def good() -> int:
        await asyncio.sleep(0)
        return 7

    async def bad() -> int:
        raise LookupError("lost")

    assert loop.run(good()) == 7
    with pytest.raises(LookupError, match="lost"):
        loop.run(bad())


def test_it_works_inside_a_running_loop(loop: LoopThread) -> None:
    """The bridge works while another event loop, such as Jupyter's, runs in the calling thread."""

    async def inner() -> str:
        return threading.current_thread().name

    async def outer() -> str:
        return loop.run(inner())

    assert asyncio.run(outer()) == "test-bridge"


def test_a_call_from_the_loops_own_thread_is_an_error(loop: LoopThread) -> None:
    """A call in a callback on the bridge's thread is an error: it would wait for itself."""

    async def inner() -> int:
        return 7

    async def outer() -> int:
        return loop.run(inner())

    with pytest.raises(RuntimeError, match="a Store was called in a callback"):
        loop.run(outer())
    assert loop.run(inner()) == 7


def test_the_loop_is_made_where_no_signal_interrupts_it(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop's thread makes the loop; Python handles signals in the main thread only. An error
    reaches the caller, and the next use tries again.
    """
    make, makers = asyncio.new_event_loop, list[str]()

    def noted() -> asyncio.AbstractEventLoop:
        makers.append(threading.current_thread().name)
        if len(makers) == 1:
            raise OSError("too many open files")
        return make()

    async def seven() -> int:
        return 7

    monkeypatch.setattr(asyncio, "new_event_loop", noted)
    with pytest.raises(OSError, match="too many"):
        loop.run(seven())
    assert loop.run(seven()) == 7
    assert makers == ["test-bridge"] * 2


def test_an_interrupt_waits_for_the_clean_up(loop: LoopThread) -> None:
    """Ctrl-C cancels the task, and the caller gets the value that the task's clean-up returns."""
    cleaned: list[str] = []

    async def work() -> str:
        # A task that is cancelled before its first step has no clean-up.
        interrupt_in("run")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
            cleaned.append("yes")
            return "stopped in order"
        return "never"

    assert loop.run(work()) == "stopped in order"
    assert cleaned == ["yes"]


def test_an_interrupt_without_clean_up_is_a_keyboard_interrupt(loop: LoopThread) -> None:
    """An interrupt of a task without clean-up raises KeyboardInterrupt in the caller."""
    interrupt_in("run")
    with pytest.raises(KeyboardInterrupt):
        loop.run(asyncio.sleep(3600))


def test_an_interrupt_that_does_not_end_the_wait_is_noticed(loop: LoopThread) -> None:
    """An interrupt that does not end the wait, because it comes just before or on another thread,
    is still noticed.
    """
    loop.run(asyncio.sleep(0))
    once_main_waits_in("run", lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        loop.run(asyncio.sleep(3600))


def test_an_interrupt_before_the_loop_is_there_closes_the_coroutine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interrupt before the loop starts closes the coroutine, so Python prints no "never awaited"
    warning.
    """

    async def work() -> None:
        """Do nothing; this coroutine never starts."""

    coroutine, unused = work(), LoopThread()
    monkeypatch.setattr(unused, "_ensure_started", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        unused.run(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_an_interrupt_before_the_first_step_neither_hangs_nor_leaves_a_task(
    loop: LoopThread,
) -> None:
    """An interrupt while the loop is busy cancels the task before its first step, and leaves no
    task.
    """
    loop.run(asyncio.sleep(0))
    inner, goes_on = loop._ensure_started(), threading.Event()
    inner.call_soon_threadsafe(goes_on.wait, 60)
    interrupt_in("run", then=lambda: once_main_waits_in("_after_interrupt", goes_on.set))
    with pytest.raises(KeyboardInterrupt):
        loop.run(asyncio.sleep(3600))
    assert goes_on.is_set()
    assert loop.run(_tasks()) == 1


def test_an_interrupt_before_the_task_begins_closes_the_coroutine(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupt before the task begins, the coroutine never runs, and the call returns."""
    begun: list[str] = []

    async def work() -> None:
        begun.append("yes")

    coroutine = work()
    monkeypatch.setattr(Task, "begin", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        loop.run(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    monkeypatch.undo()
    assert loop.run(_tasks()) == 1
    assert begun == []


def test_an_interrupt_inside_the_standard_library_blocks_nothing(loop: LoopThread) -> None:
    """An interrupt that leaves a lock of the standard library locked blocks neither the call nor
    the loop.
    """
    enter, futures = threading.Condition.__enter__.__code__, Future.result.__code__.co_filename
    loop.run(asyncio.sleep(0))
    before = sys.gettrace()
    for number in range(8):
        entered = count()

        def interrupt(
            frame: FrameType, event: str, _: object, number: int = number, at: Any = entered
        ) -> Any:
            is_entered = event == "return" and frame.f_code is enter and frame.f_back is not None
            # Another lock may be that of a finalizer.
            if is_entered and frame.f_back.f_code.co_filename == futures and next(at) == number:
                raise KeyboardInterrupt
            return interrupt

        overdue = threading.Timer(20, _thread.interrupt_main)
        overdue.start()
        sys.settrace(interrupt)
        try:
            with suppress(KeyboardInterrupt):
                loop.run(asyncio.sleep(0.01))
        finally:
            sys.settrace(before)
        assert overdue.is_alive()
        overdue.cancel()
        assert loop.run(_tasks()) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_task_ends_only_its_call(
    loop: LoopThread, error: type[BaseException]
) -> None:
    """An interrupt that a function of the caller raises on the loop's thread reaches the caller.
    Other tasks continue, and the bridge can still be used.
    """
    goes_on, cleaned = threading.Event(), list[str]()

    async def other() -> str:
        await asyncio.to_thread(goes_on.wait)
        return "done"

    async def sibling() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.append("yes")

    async def interrupted() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sibling())
            await asyncio.sleep(0)
            raise error("caller")

    waiting = loop.start(other())
    with pytest.raises(error, match="caller"):
        loop.run(interrupted())
    assert cleaned == ["yes"]
    goes_on.set()
    assert waiting.done.wait() == "done"
    assert loop.run(_tasks()) == 1


def test_an_interrupted_start_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop whose start is interrupted ends with its thread, and the next use starts another."""
    bridge, goes_on = LoopThread("test-start"), threading.Event()
    make = asyncio.new_event_loop

    def slow() -> asyncio.AbstractEventLoop:
        main = threading.main_thread().ident
        # The main thread may still be in `Thread.start`.
        while sys._current_frames()[main].f_code is not _Promise.wait.__code__:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)
        assert goes_on.wait(60)
        return make()

    monkeypatch.setattr(asyncio, "new_event_loop", slow)
    with pytest.raises(KeyboardInterrupt):
        bridge.run(asyncio.sleep(0))
    (thread,) = (each for each in threading.enumerate() if each.name == "test-start")
    monkeypatch.undo()
    goes_on.set()
    thread.join(60)
    assert not thread.is_alive()
    bridge.run(asyncio.sleep(0))
    bridge.close()


def test_closing_ends_what_is_still_under_way() -> None:
    """close() cancels the tasks that still run and waits for their clean-up."""
    bridge, ended = LoopThread(), []

    begun = threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("yes")

    bridge.run(asyncio.sleep(0))
    asyncio.run_coroutine_threadsafe(endless(), bridge._ensure_started())
    assert begun.wait(60)
    bridge.close()
    assert ended == ["yes"]


def test_a_second_interrupt_returns_at_once(loop: LoopThread) -> None:
    """A second interrupt returns at once, even if the clean-up hangs."""

    async def stubborn() -> None:
        interrupt_in("run", then=lambda: interrupt_in("_after_interrupt"))
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(3600)

    with pytest.raises(KeyboardInterrupt):
        loop.run(stubborn())


def test_closing_ends_the_thread_and_it_can_be_used_again(loop: LoopThread) -> None:
    """close() ends the thread, and the bridge can be used again afterwards."""
    loop.run(asyncio.sleep(0))
    loop.close()
    assert not [t for t in threading.enumerate() if t.name == "test-bridge"]
    loop.run(asyncio.sleep(0))


class _Aio:
    async def double(self, number: int, *, plus: int = 0) -> int:
        """Twice the number."""
        return 2 * number + plus


class _Boxed:
    def __init__(self, value: int, _: LoopThread) -> None:
        self.value = value


class _Facade:
    def __init__(self, bridge: LoopThread) -> None:
        self.aio, self._loop = _Aio(), bridge

    double = make_synchronous(_Aio.double)
    boxed = make_synchronous(_Aio.double, _Boxed)


class _Whole:
    def __init__(self) -> None:
        self._part = _Aio()

    double = delegate("_part", _Aio.double)


def test_a_blocking_method_keeps_name_signature_and_help(loop: LoopThread) -> None:
    """A blocking method has the name, signature and help text of its coroutine."""
    facade = _Facade(loop)
    assert facade.double(4, plus=1) == 9
    assert facade.double.__doc__ == "Twice the number."
    assert facade.double.__name__ == "double"
    assert "self" not in inspect.signature(facade.double).parameters
    assert "plus" in inspect.signature(facade.double).parameters


def test_a_blocking_method_can_make_a_facade_of_its_result(loop: LoopThread) -> None:
    """An asynchronous result becomes a facade on the same loop."""
    assert _Facade(loop).boxed(4).value == 8


def test_a_delegated_method_is_that_of_the_part(loop: LoopThread) -> None:
    """A delegated method calls its part, and has the name, signature and help text of that one."""
    whole = _Whole()
    assert loop.run(whole.double(4, plus=1)) == 9
    assert (whole.double.__doc__, whole.double.__name__) == ("Twice the number.", "double")
    assert [*inspect.signature(whole.double).parameters] == ["number", "plus"]


async def _tasks() -> int:
    return len(asyncio.all_tasks())


def test_overlapping_pauses_of_the_collector() -> None:
    """The collector runs again after the last of several pauses, whatever their order."""
    assert gc.isenabled()
    first, second = pause_collection(), pause_collection()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
