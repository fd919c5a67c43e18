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
    since = datetime.now(UTC).isoformat(timespec="microseconds")
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        with held():
            run = _begun(context, since)
        if run is None:
            raise click.Abort from None
        raise InterruptedRunError(
            f"run {run} was interrupted",
            hint=f"`petsync resume {run}` finds out what became of requests that were on their "
            "way, and does the rest.",
        ) from None


def _begun(context: Context, since: str) -> str | None:
    """The newest run that anybody was at work on since then."""
    from petsync.apply.journal import Journal

    try:
        with closing(Journal.open(context.settings.state, create=False)) as journal:
            runs = journal.runs()
    except PetsyncError:
        return None
    active = (run for run in runs if run.state == "running" or max(run.started, run.ended) >= since)
    return next((run.run_id for run in active), None)
