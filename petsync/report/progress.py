"""A run's progress: a bar in a terminal or a notebook; elsewhere, on request, a line at intervals.

A separate thread draws it: a run never waits for a terminal that is stopped or closed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any, Protocol

from petsync.plan.report import Progress
from petsync.protocol.operations import Traffic
from petsync.report.meter import Meter

__all__ = ["ProgressDisplay", "Step", "run_bar"]


_JOIN_TIMEOUT_S = 1.0
"""Seconds to wait for the terminal to draw the last change of a bar."""
_RATE_WINDOW = 100
"""The number of updates from which the rate is computed."""


class Step(Protocol):
    """A step of a run: a Progress, or the state of look-ups."""

    @property
    def done(self) -> int:
        """The number of items that have a result."""

    @property
    def total(self) -> int:
        """The number of all items."""


class ProgressDisplay(Protocol):
    """A display that shows a meter, first after `delay` seconds, then every `every` seconds."""

    delay: float
    every: float

    def show(self, meter: Meter) -> None:
        """Show the meter."""

    def end(self) -> None:
        """Remove the display."""


@contextmanager
def run_bar(
    total: int = 0,
    *,
    text: str = "Applying",
    unit: str = "changes",
    file: IO[str] | None = None,
    show: bool | None = None,
    delay: float | None = None,
    traffic: Callable[[], Traffic] | None = None,
    on_step: Callable[[Any], None] | None = None,
) -> Iterator[Callable[[Step], None]]:
    """Yield a function to call with each step of a run, from any thread.

    The run has `total` changes, 0 if only the steps have the total. The function calls `on_step`;
    it draws nothing itself, and raises only what `on_step` raises.

    The bar is shown in a notebook, or on `file` (stderr) if that is a terminal. Elsewhere nothing
    is shown; with `show=True`, `file` gets a line every five seconds. With `show=False`, or with
    `on_step` and without `show`, nothing is shown at all. The bar disappears at the end of the
    block; a block that is shorter than `delay` seconds has no bar.

    `traffic` returns the current state of the requests, so that a pause is shown immediately.
    Without it, the newest step's traffic is shown.
    """
    state = _State(text, unit, total, traffic)
    is_shown = on_step is None if show is None else show
    display = (
        _choose_display(sys.stderr if file is None else file, is_asked_for=bool(show))
        if is_shown
        else None
    )

    def step(progress: Step) -> None:
        state.record(progress)
        if on_step is not None:
            on_step(progress)

    if display is None:
        yield on_step or _ignore_step
        return
    is_finished = threading.Event()
    first_delay = display.delay if delay is None else delay
    drawer = _start_drawer(partial(_draw, display, state, is_finished, first_delay))
    try:
        yield step
    finally:
        is_finished.set()
        if drawer is not None:
            drawer.join(_JOIN_TIMEOUT_S)


def _ignore_step(_: Step) -> None:
    """Ignore the step."""


def _choose_display(file: IO[str] | None, *, is_asked_for: bool) -> ProgressDisplay | None:
    """Return the display for the terminal, the notebook or the file; None if nothing is shown."""
    from_terminal = False
    with suppress(AttributeError, ValueError, OSError):
        from_terminal = file is not None and file.isatty()
    if from_terminal or "ipykernel" in sys.modules:
        from petsync.report import bars

        if not from_terminal and bars.IN_NOTEBOOK:
            return bars.NotebookBar()
        if from_terminal and file is not None:
            return bars.TerminalBar(file)
    return Lines(file) if is_asked_for and file is not None else None


class Lines:
    """A display that writes a line every five seconds."""

    delay = every = 5.0

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def show(self, meter: Meter) -> None:
        """Write a line."""
        self._file.write(f"{meter.line()}\n")
        self._file.flush()

    def end(self) -> None:
        """Do nothing: the lines remain in the file."""


@dataclass(frozen=True, slots=True)
class _Start:
    """The state before the first step."""

    total: int
    done: int = 0


class _State:
    """The newest step, and the earlier ones from which the rate is computed."""

    def __init__(
        self, text: str, unit: str, total: int, traffic: Callable[[], Traffic] | None
    ) -> None:
        self._text, self._unit, self._traffic = text, unit, traffic
        self._newest: tuple[float, Step] = time.monotonic(), _Start(total)
        self._past: deque[tuple[float, int]] = deque(maxlen=_RATE_WINDOW)

    def record(self, step: Step) -> None:
        """Record the step. This is the only method that runs in the run's thread."""
        now = time.monotonic()
        if not self._past:
            self._past.append((now, step.done))
        self._newest = now, step

    def meter(self) -> Meter | None:
        """Return the current meter; None if the total is not known."""
        now, (when, step) = time.monotonic(), self._newest
        if not step.total:
            return None
        known = step if isinstance(step, Progress) else None
        traffic = self._current_traffic(known, now - when)
        return Meter(
            text=self._text,
            unit=self._unit,
            done=step.done,
            total=step.total,
            rate=self._rate(now, step.done),
            limit=traffic.limit,
            retries=traffic.retries,
            problems=known.problems if known else 0,
            waiting=traffic.waiting,
        )

    def _current_traffic(self, known: Progress | None, age: float) -> Traffic:
        traffic = known.traffic if known else Traffic()
        if self._traffic is None:
            return replace(traffic, waiting=max(traffic.waiting - age, 0.0))
        current = self._traffic()
        return replace(traffic, waiting=current.waiting, limit=current.limit) if known else current

    def _rate(self, now: float, done: int) -> float:
        if not self._past:
            return 0.0
        start_time, start_done = self._past[0]
        self._past.append((now, done))
        return max(done - start_done, 0) / (now - start_time) if now > start_time else 0.0


def _start_drawer(draw: Callable[[], None]) -> threading.Thread | None:
    # The context tells a notebook's kernel to which cell the thread's output belongs.
    drawer = threading.Thread(
        target=copy_context().run, args=(draw,), name="petsync-bar", daemon=True
    )
    try:
        drawer.start()
    except RuntimeError:
        return None
    return drawer


def _draw(
    display: ProgressDisplay, state: _State, is_finished: threading.Event, delay: float
) -> None:
    # If a terminal or a notebook raises an error, the run continues without its bar.
    with suppress(Exception):
        while not is_finished.wait(delay):
            delay = display.every
            if (meter := state.meter()) is not None:
                display.show(meter)
    with suppress(Exception):
        display.end()
