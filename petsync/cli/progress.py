"""How far a run is, or the look-ups before it: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from petsync.client.lookup import Lookups
    from petsync.diff.progress import Progress
    from petsync.wire.traffic import Traffic

__all__ = ["looked_up", "shown"]

_MANY = 300
"""So many look-ups take a moment that a person notices."""


@contextmanager
def shown(
    console: Console,
    total: int,
    text: str = "Applying",
    *,
    unit: str = "changes",
    traffic: Callable[[], Traffic] | None = None,
    lines: int = 0,
) -> Iterator[Callable[[Progress], None]]:
    """What to call with each step of a run of `total` changes. Called from any thread, it never
    raises: a terminal that went away must not end a run.

    `traffic` tells how the requests go just now: only so a pause shows in which no step is made.
    Where there is no terminal nothing is said, or a line now and then if `lines` are asked for.
    """
    # tqdm is loaded where there is something to show.
    from petsync.render.bar import run_bar

    with run_bar(
        total,
        text=text,
        unit=unit,
        file=console.file,
        show=True if lines else None,
        traffic=traffic,
    ) as step:
        yield step


@contextmanager
def looked_up(console: Console, text: str) -> Iterator[Callable[[Lookups], None]]:
    """Meanwhile a terminal shows `text`, and a bar while many pets are looked up by their ids;
    what to call with each step of that. It never raises.
    """
    from petsync.render.bar import run_bar

    if not console.is_terminal:
        with run_bar(unit="pets looked up", file=console.file, show=True) as step:
            yield step
        return
    busy = console.status(f"{text} …")
    bar: Callable[[Lookups], None] | None = None
    bars = ExitStack()

    def look(lookups: Lookups) -> None:
        nonlocal bar
        if lookups.total < _MANY:
            return
        with suppress(OSError, ValueError):
            if bar is None:
                busy.stop()
                shows = run_bar(text="Looking up", unit="pets by id", file=console.file, delay=0)
                bar = bars.enter_context(shows)
            bar(lookups)
            if lookups.done == lookups.total:
                bars.close()
                busy.start()

    busy.start()
    try:
        with bars:
            yield look
    finally:
        with suppress(OSError, ValueError):
            busy.stop()
