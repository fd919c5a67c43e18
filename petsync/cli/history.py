"""The rounds of the reconciliation that `petsync runs` lists and draws besides the runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from petsync.cli.files import must_be_writable
from petsync.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from petsync.diff.history import Past
    from petsync.diff.round import Round

__all__ = ["check_page", "of_rounds", "rounds_in", "save_history"]

_PAGES = (".html", ".htm")


def rounds_in(state: Path, job: str = "", store: str | None = None) -> list[Round]:
    """The rounds in a state folder, of a job and on a store if they are named, the oldest first.

    Raises PlanError where no round of the job is known.
    """
    from petsync.reconcile.history import History

    every = History(state).rounds()
    found = [each for each in every if store in (None, each.store)]
    mine = [each for each in found if job in ("", each.job)]
    if job and not mine:
        names = ", ".join(dict.fromkeys(each.job for each in found))
        raise PlanError(
            f"no round of a job {job!r} is known",
            hint=f"There are rounds of: {names}." if names else "No round of any job is known.",
        )
    return mine


def of_rounds(runs: Sequence[Past], rounds: Sequence[Round]) -> list[Past]:
    """Those of the runs that these rounds made or finished."""
    ids = {run for each in rounds for run in each.runs}
    return [run for run in runs if run.run_id in ids]


def check_page(path: Path | None) -> None:
    """Raise UsageError where a page could not be written there."""
    if path is None:
        return
    must_be_writable(path)
    if path.suffix.lower() not in _PAGES:
        raise click.UsageError(f"--html {path}: the ending must be .html or .htm.")


def save_history(
    rounds: Sequence[Round], runs: Sequence[Past], path: Path, limit: int | None
) -> None:
    """Write the history page. Raises SheetError."""
    from petsync.render.history_html import history_page
    from petsync.sheets import atomic

    page = history_page(rounds, runs, now=datetime.now(UTC), limit=limit)
    atomic.replace(path, page.encode())
