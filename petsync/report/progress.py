"""A run's progress: a bar in a terminal or a notebook; elsewhere, on request, a line at intervals.

A separate thread draws it. If the terminal blocks, the run waits for it at most one second, at the
end.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import IO, Any, Protocol

from petsync.errors import SettingsError
from petsync.plan.report import Progress
from petsync.plan.uploads import UploadProgress
from petsync.protocol.operations import Traffic
from petsync.report.meter import BORDERS_WIDTH, Meter

__all__ = ["ProgressDisplay", "Step", "run_bar"]


_JOIN_TIMEOUT_S = 1.0
"""Seconds to wait at the end of a run until the thread has removed the bar."""
_RATE_WINDOW = 100
"""The number of updates from which the rate is computed."""


class Step(Protocol):
    """A step of a run: a Progress, an UploadProgress, or the progress of lookups or of a scan."""

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
        """End the display; a bar is removed."""


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

    `total` is the number of items, or 0 if it is known only from the steps. The function calls
    `on_step`; it draws nothing itself, and raises only the errors of `on_step`.

    A bar is shown on `file` (by default stderr) if that is a terminal, or in a notebook; not if
    TQDM_DISABLE is set. Elsewhere `show=True` writes a line to `file` every five seconds. Nothing
    is shown with `show=False`, or by default if there is an `on_step`. The bar appears after
    `delay` seconds, and disappears at the end of the block.

    `traffic` returns the current state of the requests, so that a pause is shown immediately.
    Without it, the state in the newest step is shown.
    """
    if not isinstance(show, bool | None):
        raise SettingsError(f"progress is {show!r}; it must be True, False or None")
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
    is_terminal = False
    with suppress(AttributeError, ValueError, OSError):
        is_terminal = file is not None and file.isatty()
    if is_terminal and file is not None:
        return None if _is_disabled() else TerminalBar(file)
    if _is_notebook():
        return None if _is_disabled() else NotebookBar()
    return Lines(file) if is_asked_for and file is not None else None


def _is_disabled() -> bool:
    # This variable turns off the progress bars of tqdm, which many programs use.
    return bool(os.environ.get("TQDM_DISABLE"))


def _is_notebook() -> bool:
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


class Lines:
    """A display that writes a line every five seconds."""

    delay = every = 5.0

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def show(self, meter: Meter) -> None:
        self._file.write(f"{meter.line()}\n")
        self._file.flush()

    def end(self) -> None:
        """Do nothing: the lines remain in the file."""


class TerminalBar:
    """A progress bar in one line of a terminal."""

    delay, every = 0.5, 0.1

    def __init__(self, file: IO[str]) -> None:
        # Import rich only to show a bar.
        from rich.console import Console

        self._file = file
        self._console = Console(file=file)
        self._width = 0

    def show(self, meter: Meter) -> None:
        from rich.progress_bar import ProgressBar
        from rich.segment import Segment, Segments

        # Some terminals start a new line after the last cell.
        self._width = _width(self._file) - 1
        left, right = meter.sides(self._width)
        room = max(self._width - len(left) - len(right) - BORDERS_WIDTH, 1)
        bar = ProgressBar(1.0, meter.share, width=room, style="bright_black", complete_style="cyan")
        drawn = self._console.render(bar, self._console.options.update_width(room))
        line = [
            Segment(f"{left} |"),
            *Segment.adjust_line_length([*drawn], room),
            Segment(f"| {right}"),
        ]
        line = Segment.adjust_line_length(line, self._width)
        self._console.print(Segments([Segment("\r"), *line]), end="", crop=False)

    def end(self) -> None:
        if self._width:
            self._file.write(f"\r{' ' * self._width}\r")
            self._file.flush()


def _width(file: IO[str]) -> int:
    with suppress(OSError, ValueError):
        if columns := os.get_terminal_size(file.fileno()).columns:
            return columns
    return shutil.get_terminal_size().columns


class NotebookBar:
    """A progress bar below the notebook's cell. A run shorter than `delay` has none, because each
    bar leaves an empty output in the saved notebook.
    """

    delay, every = 1.0, 0.2

    def __init__(self) -> None:
        self._place: Any = None

    def show(self, meter: Meter) -> None:
        from IPython.display import display

        content = {"text/html": _bar_html(meter), "text/plain": meter.line()}
        if self._place is None:
            show: Any = display
            self._place = show(content, raw=True, display_id=True)
        else:
            self._place.update(content, raw=True)

    def end(self) -> None:
        """Remove the bar; its output stays in the notebook, without content."""
        if self._place is not None:
            self._place.update({}, raw=True)


def _bar_html(meter: Meter) -> str:
    left, right = map(escape, meter.sides(None))
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:.2em .8em;align-items:center;'
        'font-variant-numeric:tabular-nums;color:var(--jp-ui-font-color1, inherit)">'
        f'<span>{left}</span><progress value="{meter.share:.4f}" max="1" '
        f'aria-label="{escape(meter.text)}" style="flex:1 1 10em;max-width:30em;'
        f'accent-color:var(--jp-brand-color1, #1976d2)"></progress><span>{right}</span></div>'
    )


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
        """Record the step. Only this method is called by the threads of the run."""
        now = time.monotonic()
        if not self._past:
            self._past.append((now, _amount(step)))
        self._newest = now, step

    def meter(self) -> Meter | None:
        """Return the current meter; None if the total is not known."""
        now, (when, step) = time.monotonic(), self._newest
        if not step.total:
            return None
        known = step if isinstance(step, Progress | UploadProgress) else None
        traffic = self._current_traffic(known, now - when)
        upload = step if isinstance(step, UploadProgress) else None
        return Meter(
            text=self._text,
            unit=self._unit,
            done=step.done,
            total=upload.files if upload else step.total,
            sent=upload.sent if upload else 0,
            size=upload.total if upload else 0,
            rate=self._rate(now, _amount(step)),
            limit=traffic.limit,
            retries=traffic.retries,
            problems=known.problems if known else 0,
            waiting=traffic.waiting,
        )

    def _current_traffic(self, known: Progress | UploadProgress | None, age: float) -> Traffic:
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


def _amount(step: Step) -> int:
    """Return the number of items, or of bytes, by which the progress is measured."""
    return step.sent if isinstance(step, UploadProgress) else step.done


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
