"""Work: what a form does in the background, on a loop thread that all forms share.

A widget's callback may run on any thread or loop, which differs with each ipykernel, and must
never block. What may take a while is a coroutine here; its end comes back through a function.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from petsync._loop import LoopThread, Task
from petsync.errors import PetsyncError

__all__ = ["Work"]

R = TypeVar("R")
log = logging.getLogger("petsync.widgets")
_LOOP = LoopThread("petsync-forms")


class Work:
    """What one form has under way. `failed` is told every error that nobody else takes: a
    PetsyncError is a person's to read, any other a fault of petsync's, which is logged. `dealt` is
    called after each end that was dealt with.

    Callbacks and results are dealt with one at a time, whatever threads they come on.
    """

    def __init__(
        self, failed: Callable[[BaseException], None], dealt: Callable[[], None] = lambda: None
    ) -> None:
        self._failed, self._dealt = failed, dealt
        self._lock = threading.RLock()
        self._tasks: set[Task[Any]] = set()
        self._idle = threading.Condition()
        self._is_closed = False

    def guarded(self, act: Callable[..., object]) -> Callable[..., None]:
        """The function as a widget's callback: no error of it vanishes."""

        def callback(*given: Any) -> None:
            try:
                with self._lock:
                    if not self._is_closed:
                        act(*given)
            except Exception as error:  # noqa: BLE001 - ipywidgets would swallow it
                self._tell(error)

        return callback

    def start(
        self,
        work: Coroutine[Any, Any, R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None = None,
    ) -> Task[R]:
        """The work, begun; returns at once. `then` gets its result, `failed` its PetsyncError.

        `cancel()` on what this returns stops it as Ctrl-C does: a run ends at a change's boundary
        and raises InterruptedRunError; what has nothing to tell ends in silence.
        """
        task = _LOOP.start(work)
        self._tasks.add(task)
        starter = threading.get_ident()

        async def later(done: Future[R]) -> None:
            self._ended(task, done, then, failed)

        def ended(done: Future[R]) -> None:
            # It may be over already; whoever starts it hears of that only after this has returned.
            if threading.get_ident() == starter:
                _LOOP.start(later(done))
            else:
                self._ended(task, done, then, failed)

        task.done.add_done_callback(ended)
        return task

    @property
    def is_busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._tasks)

    def stop(self) -> None:
        """Stop everything that is under way. Returns at once."""
        for task in list(self._tasks):
            task.cancel()

    def close(self) -> None:
        """Stop everything that is under way; from now on no callback is called, and no `then`: what
        they would show is gone. Returns once none is being called any more.
        """
        with self._lock:
            self._is_closed = True
        self.stop()

    def wait(self, seconds: float = 60.0) -> bool:
        """Whether everything that was under way has ended, and was dealt with, in that time. For
        scripts and tests; a callback must not wait.
        """
        with self._idle:
            return self._idle.wait_for(lambda: not self._tasks, seconds)

    def _ended(
        self,
        task: Task[R],
        done: Future[R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None,
    ) -> None:
        try:
            self._deal(done, then, failed)
            self._dealt()
        except Exception as error:  # noqa: BLE001 - nobody else would see it
            self._tell(error)
        finally:
            with self._idle:
                self._tasks.discard(task)
                self._idle.notify_all()

    def _deal(
        self,
        done: Future[R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None,
    ) -> None:
        error = done.exception()
        with self._lock:
            if error is None:
                if not self._is_closed:
                    then(done.result())
            elif isinstance(error, PetsyncError) and self._is_closed:
                pass  # nobody is there to read it
            elif isinstance(error, PetsyncError) and failed is not None:
                failed(error)
            elif not isinstance(error, KeyboardInterrupt):
                self._tell(error)

    def _tell(self, error: BaseException) -> None:
        if not isinstance(error, PetsyncError):
            log.error("a form met %s", type(error).__name__, exc_info=error)
        with self._lock:
            self._failed(error)
