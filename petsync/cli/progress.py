"""How far a run is, or the look-ups before it: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from petsync.client.lookup import Lookups
    from petsync.diff.progress import Progress

__all__ = ["looked_up", "shown"]

_EVERY = 5.0
_MANY = 300
"""So many look-ups take a moment that a person notices."""


class _Step(Protocol):
    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int: ...


@contextmanager
def shown(
    console: Console, total: int, text: str = "Applying"
) -> Iterator[Callable[[Progress], None]]:
    """What to call with each step of a run of `total` changes. Called from any thread, it never
    raises: a terminal that went away must not end a run.
    """
    if not console.is_terminal:
        yield _lines(console, "changes")
        return
    bar = _bar(console, text, "changes")
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


@contextmanager
def looked_up(console: Console, text: str) -> Iterator[Callable[[Lookups], None]]:
    """Meanwhile a terminal shows `text`, and a bar while many pets are looked up by their ids;
    what to call with each step of that. It never raises.
    """
    if not console.is_terminal:
        yield _lines(console, "pets looked up")
        return
    busy = console.status(f"{text} …")
    bar = _bar(console, "Looking up", "pets by id", transient=True)

    def step(lookups: Lookups) -> None:
        if lookups.total < _MANY:
            return
        with suppress(OSError, ValueError):
            if not bar.tasks:
                busy.stop()
                bar.add_task("", total=lookups.total, trouble="")
                bar.start()
            bar.update(bar.task_ids[0], completed=lookups.done)
            if lookups.done == lookups.total:
                bar.stop()
                busy.start()

    busy.start()
    try:
        yield step
    finally:
        with suppress(OSError, ValueError):
            bar.stop()
            busy.stop()


def _bar(console: Console, doing: str, what: str, *, transient: bool = False) -> Bar:
    # rich's bars are loaded where there is a terminal.
    from rich import progress as bars

    columns = (
        bars.TextColumn(doing),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn(what),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.fields[trouble]}"),
    )
    return bars.Progress(*columns, console=console, transient=transient)


def _lines(console: Console, what: str) -> Callable[[_Step], None]:
    last = time.monotonic()

    def step(progress: _Step) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            with suppress(OSError, ValueError):
                console.print(f"{progress.done:,} of {progress.total:,} {what}")

    return step
