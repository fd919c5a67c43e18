"""Progress bars with tqdm: one for terminals, one for notebooks. A bar belongs to the thread that
draws it.
"""

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
    # tqdm warns that its notebook bar is experimental, or that ipywidgets is missing.
    warnings.simplefilter("ignore")
    from tqdm.auto import tqdm as auto

if TYPE_CHECKING:
    _Auto = auto[int]
else:
    _Auto = auto


IN_NOTEBOOK = auto is not tqdm.asyncio.tqdm
"""Whether tqdm shows its bars as widgets."""


_MIN_DELAY_S = 1e-9
# tqdm's own lock is shared between processes; some systems start another process for it.
_LOCK = threading.RLock()


class _Bar(_Auto):
    """A tqdm bar with the texts of a meter."""

    monitor_interval = 0
    container: Any
    """The widget; None if there is none."""

    def __init__(self, meter: Meter, **options: Any) -> None:
        self.meter = meter
        super().__init__(total=meter.total, leave=False, **options)

    @property
    def format_dict(self) -> Any:
        """The values from which tqdm draws, with the format of the meter."""
        values = super().format_dict
        left, right = self.meter.sides(self.ncols if isinstance(self.ncols, int) else None)
        return {**values, "bar_format": f"{left} |{{bar}}| {right}"}

    def draw(self, meter: Meter) -> None:
        """Draw the meter."""
        self.meter, self.n = meter, min(meter.done, meter.total)
        # If the terminal fails, tqdm itself would keep its lock, and show no bar after that.
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
    """A progress bar in one line of a terminal."""

    delay, every = 0.5, 0.1

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._bar: _Bar | None = None

    def show(self, meter: Meter) -> None:
        """Draw the line again."""
        size = _size(self._file)
        # Some terminals start a new line after the last cell.
        columns, lines = size.columns - 1, size.lines
        if self._bar is None:
            # With a delay, tqdm draws nothing before the first call of `draw`.
            self._bar = _Bar(meter, file=self._file, ncols=columns, nrows=lines, delay=_MIN_DELAY_S)
        self._bar.ncols, self._bar.nrows = columns, lines
        self._bar.draw(meter)

    def end(self) -> None:
        """Clear the line."""
        if self._bar is not None:
            self._bar.close()


class NotebookBar:
    """A progress bar in a widget below the notebook's cell. A very short run has no widget, so that
    a saved notebook is not full of finished bars.
    """

    delay, every = 1.0, 0.2

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._place: Any = None

    def show(self, meter: Meter) -> None:
        """Display the widget, or update it."""
        if self._bar is None:
            self._bar = _Bar(meter, display=False, dynamic_ncols=True)
            # A notebook always has IPython.
            show: Any = import_module("IPython.display").display
            self._place = show(self._bar.container, display_id=True)
        self._bar.draw(meter)

    def end(self) -> None:
        """Remove the widget, and its output in a saved notebook."""
        if self._place is not None and self._bar is not None:
            container = self._bar.container
            for widget in (container, *container.children):
                for part in (widget, widget.layout, getattr(widget, "style", widget)):
                    part.close()
            self._place.update({}, raw=True)
