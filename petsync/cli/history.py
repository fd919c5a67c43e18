"""The rounds of the reconciliation that `petsync runs` lists and draws besides the runs."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from petsync.cli.files import must_be_writable
from petsync.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from petsync.diff.history import Past
    from petsync.diff.round import Round
    from petsync.diff.round_report import RoundReport

__all__ = ["as_it_is", "check_page", "named_run", "round_named", "rounds_in", "save_history"]

_LISTED = 5
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


def round_named(state: Path, name: str) -> RoundReport | None:
    """The round of that id, or whose id alone begins so, with what its report says of differences;
    None where there is none. Raises PlanError where there are several.
    """
    from petsync.reconcile.reports import saved

    found = _rounds_named(state, name)
    if len(found) > 1:
        ids = ", ".join(each.id for each in found[: -_LISTED - 1 : -1])
        raise PlanError(f"{len(found)} rounds begin with {name}", hint=f"The newest are: {ids}.")
    if not found:
        return None
    return saved(as_it_is(found[0]))


def _rounds_named(state: Path, name: str) -> list[Round]:
    from petsync.reconcile.history import History

    every = History(state).rounds()
    return [each for each in every if each.id == name] or [
        each for each in every if name and each.id.startswith(name)
    ]


@contextmanager
def named_run(state: Path, name: str) -> Iterator[None]:
    """Where no run has that name and a round has, the PlanError says which runs are the round's."""
    try:
        yield
    except PlanError:
        found = _rounds_named(state, name)
        if len(found) != 1:
            raise
        (told,) = found
        runs = ", ".join(told.runs)
        hint = f"What it sent is in {runs}." if runs else "It sent nothing to the store."
        raise PlanError(f"{told.id} is a round, and no run of the journal", hint=hint) from None


def as_it_is(round_: Round) -> Round:
    """The round, without a plan that waits no more and a report that is there no more."""
    from msgspec.structs import replace

    if round_.waiting and not Path(round_.waiting).exists():
        told = "It waits no more: it was released, or its reason went."
        round_ = replace(round_, waiting="", hint=told)
    if round_.report and not Path(round_.report).exists():
        round_ = replace(round_, report="")
    return round_


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

    shown = [as_it_is(each) for each in rounds]
    page = history_page(shown, runs, now=datetime.now(UTC), limit=limit)
    atomic.replace(path, page.encode())
