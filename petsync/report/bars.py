"""Bars by tqdm: one for terminals, one for notebooks. They belong to the thread that draws."""

from __future__ import annotations

import os
import shutil
import threading
import warnings
from contextlib import suppress
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

import tqdm.asyncio

from petsync.report.meter import Meter

__all__ = ["IN_NOTEBOOK", "NotebookBar", "TerminalBar"]


with warnings.catch_warnings():
    # tqdm calls its notebook bar experimental, and misses ipywidgets aloud.
    warnings.simplefilter("ignore")
    from tqdm.auto import tqdm as auto

if TYPE_CHECKING:
    _Auto = auto[int]
else:
    _Auto = auto


IN_NOTEBOOK = auto is not tqdm.asyncio.tqdm
"""Whether tqdm makes widgets of its bars here."""


_SOON = 1e-9
# tqdm's own lock is one of processes, for which some systems start another process.
_LOCK = threading.RLock()


class _Bar(_Auto):
    """A tqdm that says what a meter says."""

    monitor_interval = 0
    container: Any
    """The widget, where there is one."""

    def __init__(self, meter: Meter, **how: Any) -> None:
        self.meter = meter
        super().__init__(total=meter.total, leave=False, **how)

    @property
    def format_dict(self) -> Any:
        """What tqdm draws from."""
        known = super().format_dict
        left, right = self.meter.sides(self.ncols if isinstance(self.ncols, int) else None)
        return {**known, "bar_format": f"{left} |{{bar}}| {right}"}

    def draw(self, meter: Meter) -> None:
        """Show how far it is."""
        self.meter, self.n = meter, min(meter.done, meter.total)
        # tqdm itself would keep its lock if the terminal fails, and no bar came after that.
        with _LOCK:
            self.refresh(nolock=True)


_Bar.set_lock(_LOCK)


def _size(file: IO[str]) -> os.terminal_size:
    with suppress(OSError, ValueError):
        size = os.get_terminal_size(file.fileno())
        if size.columns > 0 and size.lines > 0:
            return size
    return shutil.get_terminal_size()


class TerminalBar:
    """One line of a terminal."""

    delay, every = 0.5, 0.1

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._bar: _Bar | None = None

    def show(self, meter: Meter) -> None:
        """Draw the line anew."""
        size = _size(self._file)
        # In the last cell some terminals begin another line.
        columns, lines = size.columns - 1, size.lines
        if self._bar is None:
            # With a delay tqdm leaves the first drawing to `draw`.
            self._bar = _Bar(meter, file=self._file, ncols=columns, nrows=lines, delay=_SOON)
        self._bar.ncols, self._bar.nrows = columns, lines
        self._bar.draw(meter)

    def end(self) -> None:
        """Clear the line."""
        if self._bar is not None:
            self._bar.close()


class NotebookBar:
    """A widget below the cell that waits for the run; a run of a moment has none, so that a saved
    notebook is not full of dead ones.
    """

    delay, every = 1.0, 0.2

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._place: Any = None

    def show(self, meter: Meter) -> None:
        """Display the widget, or change it."""
        if self._bar is None:
            self._bar = _Bar(meter, display=False, dynamic_ncols=True)
            # Where there are notebooks, there is IPython.
            show: Any = import_module("IPython.display").display
            self._place = show(self._bar.container, display_id=True)
        self._bar.draw(meter)

    def end(self) -> None:
        """Take the widget away, and what a saved notebook would have of it."""
        if self._place is not None and self._bar is not None:
            container = self._bar.container
            for widget in (container, *container.children):
                for part in (widget, widget.layout, getattr(widget, "style", widget)):
                    part.close()
            self._place.update({}, raw=True)
