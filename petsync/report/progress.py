"""A run's progress: a bar in a terminal or a notebook, else, if asked for, a line now and then.

A thread of its own draws, so that a run never waits for what shows it: not for a terminal that
was stopped, nor for one that went away.
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


_PATIENCE = 1.0
"""So many seconds a terminal may take for the last change of a bar."""
_WINDOW = 100
"""From so many drawings the rate is taken."""


class Step(Protocol):
    """How far something is; a Progress, or look-ups."""

    @property
    def done(self) -> int:
        """So many have a result."""

    @property
    def total(self) -> int:
        """Of so many."""


class ProgressDisplay(Protocol):
    """What shows a meter: first after `delay` seconds, then after each `every`."""

    delay: float
    every: float

    def show(self, meter: Meter) -> None:
        """Show how far it is."""

    def end(self) -> None:
        """Take away what was shown."""


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
    then: Callable[[Any], None] | None = None,
) -> Iterator[Callable[[Step], None]]:
    """What to call with each step of a run of `total` changes (0 if only the steps know), from any
    thread; it draws nothing itself, and raises nothing but what `then` raises, which it calls.

    A bar is shown in a notebook, or on `file` (stderr) if that is a terminal, and nothing
    elsewhere. With `show=True` `file` gets a line every five seconds where there can be no bar;
    with `show=False`, or with `then` and without `show`, nothing is shown at all. The bar goes
    away with the block, and a block that takes less than a moment (`delay` in seconds) has none.

    `traffic` tells how the requests go just now, so that a pause shows at once; without it the
    newest step's word is taken.
    """
    state = _State(text, unit, total, traffic)
    wanted = then is None if show is None else show
    face = _face(sys.stderr if file is None else file, is_asked_for=bool(show)) if wanted else None

    def step(progress: Step) -> None:
        state.tell(progress)
        if then is not None:
            then(progress)

    if face is None:
        yield then or _ignore_step
        return
    ended = threading.Event()
    wait = face.delay if delay is None else delay
    drawer = _start_drawer(partial(_draw, face, state, ended, wait))
    try:
        yield step
    finally:
        ended.set()
        if drawer is not None:
            drawer.join(_PATIENCE)


def _ignore_step(_: Step) -> None:
    """Nobody is told."""


def _face(file: IO[str] | None, *, is_asked_for: bool) -> ProgressDisplay | None:
    """What fits the place: tqdm is loaded where it is used."""
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
    """A line now and then."""

    delay = every = 5.0

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def show(self, meter: Meter) -> None:
        """Write a line."""
        self._file.write(f"{meter.line()}\n")
        self._file.flush()

    def end(self) -> None:
        """Lines stay."""


@dataclass(frozen=True, slots=True)
class _Start:
    """Before the first step."""

    total: int
    done: int = 0


class _State:
    """The newest step, and the ones before from which the rate is taken."""

    def __init__(
        self, text: str, unit: str, total: int, traffic: Callable[[], Traffic] | None
    ) -> None:
        self._text, self._unit, self._traffic = text, unit, traffic
        self._newest: tuple[float, Step] = time.monotonic(), _Start(total)
        self._past: deque[tuple[float, int]] = deque(maxlen=_WINDOW)

    def tell(self, step: Step) -> None:
        """Remember the step; this is all that costs the run anything."""
        now = time.monotonic()
        if not self._past:
            self._past.append((now, step.done))
        self._newest = now, step

    def meter(self) -> Meter | None:
        """How far it is now, None if that is not known."""
        now, (when, step) = time.monotonic(), self._newest
        if not step.total:
            return None
        known = step if isinstance(step, Progress) else None
        traffic = self._now(known, now - when)
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

    def _now(self, known: Progress | None, age: float) -> Traffic:
        said = known.traffic if known else Traffic()
        if self._traffic is None:
            return replace(said, waiting=max(said.waiting - age, 0.0))
        now = self._traffic()
        return replace(said, waiting=now.waiting, limit=now.limit) if known else now

    def _rate(self, now: float, done: int) -> float:
        if not self._past:
            return 0.0
        began, before = self._past[0]
        self._past.append((now, done))
        return max(done - before, 0) / (now - began) if now > began else 0.0


def _start_drawer(draw: Callable[[], None]) -> threading.Thread | None:
    # The context tells a kernel to which cell the thread's output belongs.
    drawer = threading.Thread(
        target=copy_context().run, args=(draw,), name="petsync-bar", daemon=True
    )
    try:
        drawer.start()
    except RuntimeError:
        return None
    return drawer


def _draw(face: ProgressDisplay, state: _State, ended: threading.Event, delay: float) -> None:
    # Whatever a terminal or a notebook can raise, the run goes on without its bar.
    with suppress(Exception):
        while not ended.wait(delay):
            delay = face.every
            if (meter := state.meter()) is not None:
                face.show(meter)
    with suppress(Exception):
        face.end()
