"""The scheduled job: sheets and stores brought together again, night after night."""

from __future__ import annotations

from collections.abc import Iterable

from petsync.diff.rounds import Rounds
from petsync.reconcile.config.model import Configuration
from petsync.reconcile.history import History
from petsync.reconcile.rounds import reconciled
from petsync.reconcile.watcher import Watcher

__all__ = ["Configuration", "History", "Rounds", "run"]


def run(
    config: Configuration,
    *,
    job: str = "",
    dry_run: bool = False,
    watchers: Iterable[Watcher] = (),
) -> Rounds:
    """The rounds of all enabled jobs, or of the one that is named."""
    return reconciled(config, job=job, dry_run=dry_run, watchers=watchers)
