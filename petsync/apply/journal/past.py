"""The runs of a journal, as values."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Literal

from petsync.apply.journal.lock import Lock, held
from petsync.apply.journal.moment import iso, seconds_between
from petsync.apply.journal.run import Run, read_runs
from petsync.diff.history import Past
from petsync.diff.report import OUTCOMES

__all__ = ["past", "pasts"]

_SITTINGS = "SELECT started, ended, stopped FROM sitting WHERE run = ? ORDER BY number"
_PETS = (
    "SELECT count(DISTINCT coalesce(assigned_id, pet_id)) FROM change "
    "WHERE run = ? AND outcome = 'applied'"
)
_COUNTS = """
SELECT outcome, count(*) FROM change WHERE run = ? AND coalesce(cause, '') <> 'not-begun'
GROUP BY outcome
"""


def pasts(connection: sqlite3.Connection, store: str | None) -> list[Past]:
    """All runs, or those of a store, the newest first."""
    return [past(connection, run) for run in read_runs(connection, store)]


def past(connection: sqlite3.Connection, run: Run) -> Past:
    """A run, and how far it has come."""
    sittings = connection.execute(_SITTINGS, (run.id,)).fetchall()
    lock = held(connection, run.store)
    mine = lock if lock is not None and lock.run == run.id else None
    state, stopped, ended = _state(sittings, mine)
    counts = Counter(dict(connection.execute(_COUNTS, (run.id,))))
    spent = [seconds_between(began, end or _seen(mine)) for began, end, _ in sittings]
    return Past(
        run_id=run.id,
        kind=run.kind,
        store=run.store,
        source=run.source,
        fingerprint=run.fingerprint,
        undoes=run.undoes,
        started=run.started,
        ended=ended,
        seconds=round(sum(spent), 3),
        state=state,
        stopped=stopped,
        total=run.total,
        counts={outcome: counts[outcome] for outcome in OUTCOMES},
        open=counts[None],
        pets=int(connection.execute(_PETS, (run.id,)).fetchone()[0]),
        sittings=len(sittings),
    )


def _state(
    sittings: list[tuple[str, str, str]], lock: Lock | None
) -> tuple[Literal["running", "stopped", "done"], str, str]:
    """The state, why it stopped, and when it ended."""
    _, ended, stopped = sittings[-1] if sittings else ("", "", "killed")
    if ended:
        return ("stopped" if stopped else "done"), stopped, ended
    if lock is not None and lock.is_alive:
        return "running", "", ""
    return "stopped", "killed", _seen(lock)


def _seen(lock: Lock | None) -> str:
    """When its holder gave the last sign of life."""
    return "" if lock is None else iso(lock.heartbeat)
