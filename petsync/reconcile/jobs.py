"""Run one pass over a configuration: its rounds, their watchers, and the notices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from petsync.config.load import load
from petsync.config.model import Configuration
from petsync.errors import SettingsError
from petsync.plan.report import Rounds
from petsync.reconcile.context import Watcher, Watchers
from petsync.reconcile.notify import Notifier
from petsync.reconcile.observe import open_watchers
from petsync.reconcile.round import reconcile_jobs
from petsync.reconcile.state import StatePaths

__all__ = ["run_jobs"]


def run_jobs(
    config: Configuration | str | Path,
    *,
    job: str,
    dry_run: bool,
    moved: bool,
    environ: Mapping[str, str],
    watchers: Iterable[Watcher],
) -> Rounds:
    """Run the jobs, send the notices and return the rounds; see `petsync.reconcile.run`."""
    if not isinstance(job, str):
        raise SettingsError(
            f"job is {job!r}, not the name of a job", hint='Give a name, such as job="pets".'
        )
    if not isinstance(config, Configuration):
        config = load(config, environ)
    StatePaths(config.state).check()
    if dry_run:
        return reconcile_jobs(config, job=job, dry_run=True, moved=moved, watchers=watchers)
    with open_watchers(config) as own:
        everybody = [*own, *watchers]
        rounds = reconcile_jobs(config, job=job, moved=moved, watchers=everybody)
        if rounds:
            with Watchers(everybody).step(rounds[-1].round, "notify"):
                Notifier(config).notify(rounds, datetime.now().astimezone())
        return rounds
