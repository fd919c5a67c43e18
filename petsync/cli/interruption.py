"""A run that somebody ended at once: which one it was, if it had begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import click

from petsync.cli.context import Context
from petsync.cli.signals import held
from petsync.errors import InterruptedRunError, PetsyncError

__all__ = ["interruptible_run"]


@contextmanager
def interruptible_run(context: Context) -> Iterator[None]:
    """What Ctrl-C ends ends as InterruptedRunError, which names the run if one had begun."""
    since = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        with held():
            run = _own_run(context, since)
        if run is None:
            raise click.Abort from None
        raise InterruptedRunError(
            f"run {run} was interrupted",
            hint=f"`petsync resume {run}` finds out what became of requests that were on their "
            "way, and does the rest.",
        ) from None


def _own_run(context: Context, since: str) -> str | None:
    """The newest run that this process was at work on since then."""
    from petsync.apply.journal import Journal

    try:
        with closing(Journal.open(context.settings.state, create=False)) as journal:
            return journal.run_of_process(since)
    except PetsyncError:
        return None
