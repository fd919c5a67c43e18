"""The bridge from synchronous callers to the asynchronous core."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from unittest.mock import Mock

import pytest
from interrupting import interrupt_in, once_main_waits_in

from petsync._sync import LoopThread, blocking


@pytest.fixture
def loop() -> object:
    """A bridge that is closed after the test."""
    bridge = LoopThread("test-bridge")
    yield bridge
    bridge.close()


def test_results_and_errors_come_through(loop: LoopThread) -> None:
    """What the coroutine returns or raises is the caller's."""

    async def good() -> int:
        await asyncio.sleep(0)
        return 7

    async def bad() -> int:
        raise LookupError("lost")

    assert loop.run(good()) == 7
    with pytest.raises(LookupError, match="lost"):
        loop.run(bad())


def test_it_works_inside_a_running_loop(loop: LoopThread) -> None:
    """Jupyter's own loop is no obstacle."""

    async def inner() -> str:
        return threading.current_thread().name

    async def outer() -> str:
        return loop.run(inner())

    assert asyncio.run(outer()) == "test-bridge"


def test_an_interrupt_waits_for_the_clean_up(loop: LoopThread) -> None:
    """Ctrl-C cancels the task, and what its clean-up returns is what the caller gets."""
    cleaned: list[str] = []

    async def work() -> str:
        # Work that is cancelled before it begins has no clean-up.
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
    """A task that just ends leaves the caller with what they pressed."""
    interrupt_in("run")
    with pytest.raises(KeyboardInterrupt):
        loop.run(asyncio.sleep(3600))


def test_an_interrupt_that_does_not_end_the_wait_is_noticed(loop: LoopThread) -> None:
    """As one that comes just before the wait begins, or that another thread takes."""
    loop.run(asyncio.sleep(0))
    once_main_waits_in("run", lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        loop.run(asyncio.sleep(3600))


def test_an_interrupt_before_the_loop_is_there_closes_the_coroutine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is printed of a coroutine that was never awaited."""

    async def work() -> None:
        """Never begins."""

    coroutine, unused = work(), LoopThread()
    monkeypatch.setattr(unused, "_ensure_started", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        unused.run(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_an_interrupt_before_the_first_step_neither_hangs_nor_leaves_a_task(
    loop: LoopThread,
) -> None:
    """The loop is busy, so the task is cancelled before it has begun."""
    loop.run(asyncio.sleep(0))
    inner, goes_on = loop._ensure_started(), threading.Event()
    inner.call_soon_threadsafe(goes_on.wait, 60)
    interrupt_in("run", then=lambda: once_main_waits_in("_after_interrupt", goes_on.set))
    with pytest.raises(KeyboardInterrupt):
        loop.run(asyncio.sleep(3600))
    assert goes_on.is_set()
    assert loop.run(_tasks()) == 1


def test_closing_ends_what_is_still_under_way() -> None:
    """No task is destroyed while it is pending; its clean-up has run."""
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
    """A clean-up that hangs does not hold the caller."""

    async def stubborn() -> None:
        interrupt_in("run", then=lambda: interrupt_in("_after_interrupt"))
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(3600)

    with pytest.raises(KeyboardInterrupt):
        loop.run(stubborn())


def test_closing_ends_the_thread_and_it_can_be_used_again(loop: LoopThread) -> None:
    """No thread is left behind."""
    loop.run(asyncio.sleep(0))
    loop.close()
    assert not [t for t in threading.enumerate() if t.name == "test-bridge"]
    loop.run(asyncio.sleep(0))


class _Aio:
    async def double(self, number: int, *, plus: int = 0) -> int:
        """Twice the number."""
        return 2 * number + plus


class _Facade:
    def __init__(self, bridge: LoopThread) -> None:
        self.aio, self._loop = _Aio(), bridge

    double = blocking(_Aio.double)


def test_a_blocking_method_keeps_name_signature_and_help(loop: LoopThread) -> None:
    """help(store.plan) says what help(store.aio.plan) says."""
    facade = _Facade(loop)
    assert facade.double(4, plus=1) == 9
    assert facade.double.__doc__ == "Twice the number."
    assert facade.double.__name__ == "double"
    assert "self" not in inspect.signature(facade.double).parameters
    assert "plus" in inspect.signature(facade.double).parameters


async def _tasks() -> int:
    return len(asyncio.all_tasks())
