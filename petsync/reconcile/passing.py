"""One pass over a configuration: its rounds, watched, and people told of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from petsync.diff.rounds import Rounds
from petsync.reconcile.config import load
from petsync.reconcile.config.model import Configuration
from petsync.reconcile.kept import Kept
from petsync.reconcile.notify import Notifier
from petsync.reconcile.rounds import reconciled
from petsync.reconcile.telling import Telling
from petsync.reconcile.watch import watching
from petsync.reconcile.watcher import Watcher

__all__ = ["passed"]


def passed(
    config: Configuration | str | Path,
    *,
    job: str,
    dry_run: bool,
    moved: bool,
    environ: Mapping[str, str] | None,
    watchers: Iterable[Watcher],
) -> Rounds:
    """The rounds, once everybody was told; as `petsync.reconcile.run` says."""
    if not isinstance(config, Configuration):
        config = load(config, os.environ if environ is None else environ)
    Kept(config.state).check()
    if dry_run:
        return reconciled(config, job=job, dry_run=True, moved=moved, watchers=watchers)
    with watching(config) as own:
        everybody = [*own, *watchers]
        rounds = reconciled(config, job=job, moved=moved, watchers=everybody)
        if rounds:
            with Telling(everybody).step(rounds[-1].round, "notify"):
                Notifier(config).told(rounds, datetime.now().astimezone())
        return rounds
