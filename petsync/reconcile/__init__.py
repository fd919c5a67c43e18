"""Reconcile sheets with stores by scheduled jobs.

rounds = ps.reconcile.run("petsync.toml")
rounds.exit_code
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from petsync.config.load import load
    from petsync.config.model import Configuration
    from petsync.plan.report import Rounds
    from petsync.reconcile.context import Watcher
    from petsync.reconcile.state import History

__all__ = ["History", "Rounds", "load", "run"]


# `petsync config check` and `--help` import this module, and must not import pandas.
_HOMES = {
    "History": "petsync.reconcile.state",
    "Rounds": "petsync.plan.report",
    "load": "petsync.config.load",
}


def run(
    config: Configuration | str | Path,
    *,
    job: str = "",
    dry_run: bool = False,
    moved: bool = False,
    environ: Mapping[str, str] | None = None,
    watchers: Iterable[Watcher] = (),
) -> Rounds:
    """Run one round of every enabled job, or only of `job`, and return the reports of the rounds.

    A named job runs even if it is not enabled. A job with a folder runs one round for each sheet.
    `config` may be the path of a petsync.toml, which is read with the variables in `environ` (by
    default the process's environment). With `dry_run`, neither the store nor a sheet is changed.
    `moved` confirms that the job's store has a new URL: values agreed on under the old URL remain
    valid. `watchers` observe the rounds.

    An error in a round is in its report. An interrupt is, too; no further rounds are run then. Log,
    metrics, traces and notices are as configured; a dry run has none. Raises ConfigurationError for
    an invalid configuration, SettingsError if there is no such job, PetsyncError if the state
    folder cannot be used.
    """
    from petsync.reconcile.jobs import run_jobs
    from petsync.settings import HiddenEnvironment

    environ = HiddenEnvironment(os.environ if environ is None else environ)
    return run_jobs(
        config, job=job, dry_run=dry_run, moved=moved, environ=environ, watchers=watchers
    )


if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
