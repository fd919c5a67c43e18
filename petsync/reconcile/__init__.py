"""The scheduled job: sheets and stores brought together again, night after night.

rounds = ps.reconcile.run("petsync.toml")
rounds.exit_code
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from petsync.plan.report import Rounds
    from petsync.reconcile.config.load import load
    from petsync.reconcile.config.model import Configuration
    from petsync.reconcile.round import Watcher
    from petsync.reconcile.state import History

__all__ = ["History", "Rounds", "load", "run"]


# `petsync config check` and `--help` come through here, and should not wait for pandas.
_HOMES = {
    "History": "petsync.reconcile.state",
    "Rounds": "petsync.plan.report",
    "load": "petsync.reconcile.config.load",
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
    """One round of every enabled job of the configuration, or of the `job` that is named, enabled
    or not; a folder's job makes one for each of its sheets.

    `config` may be the path of a petsync.toml, which `environ` (the process's, if none is given)
    completes. With `dry_run` nothing is sent and nothing written. With `moved` a base of another
    address is taken for this store's: it is the same one, somewhere else. Whatever goes wrong in a
    round is in its report, and people are told as the configuration says. Raises
    ConfigurationError for a configuration that cannot be used, SettingsError where there is no
    such job.
    """
    from petsync.reconcile.jobs import run_jobs

    return run_jobs(
        config, job=job, dry_run=dry_run, moved=moved, environ=environ, watchers=watchers
    )


if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import_module("petsync.report")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
