"""How far a run is: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from petsync.apply.engine import Progress

__all__ = ["shown"]

_EVERY = 5.0


@contextmanager
def shown(console: Console, total: int) -> Iterator[Callable[[Progress], None]]:
    """What to call with each step of a run of `total` changes. Called from any thread, it never
    raises: a terminal that went away must not end a run.
    """
    if not console.is_terminal:
        yield _lines(console)
        return
    from rich import progress as bars

    columns = (
        bars.TextColumn("Applying"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("changes"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.fields[trouble]}"),
    )
    bar = bars.Progress(*columns, console=console)
    bar.start()
    try:
        task = bar.add_task("", total=total, trouble="")
        trouble = 0

        def step(progress: Progress) -> None:
            nonlocal trouble
            trouble += progress.last.outcome in ("failed", "unknown", "conflict")
            said = f"{trouble} with problems" if trouble else ""
            with suppress(OSError, ValueError):
                bar.update(task, completed=progress.done, trouble=said)

        yield step
    finally:
        with suppress(OSError, ValueError):
            bar.stop()


def _lines(console: Console) -> Callable[[Progress], None]:
    last = time.monotonic()

    def step(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            with suppress(OSError, ValueError):
                console.print(f"{progress.done:,} of {progress.total:,} changes")

    return step
