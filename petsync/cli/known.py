"""What a shell can complete besides petsync's own words: the jobs that there are, runs, rounds."""

from __future__ import annotations

import os
import tomllib
from contextlib import suppress
from pathlib import Path

import click

__all__ = ["jobs", "runs"]

_NEWEST = 50


def jobs(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """The names of the jobs in the configuration that is named, else in petsync.toml."""
    from petsync.settings import read_file

    found: list[str] = []
    path = Path(ctx.params.get("config") or "petsync.toml")
    # Whatever is wrong there, a shell that completes is no place to tell it.
    with suppress(OSError, ValueError):
        told = tomllib.loads(read_file(path)).get("jobs", {})
        found = [name for name in told if name.startswith(begun)]
    return found


def runs(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """The ids of the newest runs and rounds in the state folder, the newest first."""
    from petsync.errors import PetsyncError
    from petsync.reconcile.history import History
    from petsync.settings import read_confirmed, resolve
    from petsync.store.past import History as Journal

    with suppress(PetsyncError, OSError):
        toml, confirmed = read_confirmed(Path.cwd())
        state = resolve({}, os.environ, toml, confirmed=confirmed).state
        ids = [run.run_id for run in Journal(state).runs()]
        ids += [told.id for told in History(state).rounds()]
        return sorted((each for each in ids if each.startswith(begun)), reverse=True)[:_NEWEST]
    return []
