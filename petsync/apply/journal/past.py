"""The runs of a journal, as values."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any, Literal

from petsync.apply.journal.lock import Lock, held
from petsync.apply.journal.moment import iso, seconds_between
from petsync.diff.history import Past
from petsync.diff.report import OUTCOMES

__all__ = ["pasts"]

_RUNS = """
SELECT id, kind, store, source, fingerprint, undoes, started, total FROM run
WHERE ?1 IS NULL OR store = ?1 ORDER BY started DESC, rowid DESC
"""
_SITTINGS = "SELECT started, ended, stopped FROM sitting WHERE run = ? ORDER BY number"
_COUNTS = """
SELECT outcome, count(*) FROM change WHERE run = ? GROUP BY outcome
"""


def pasts(connection: sqlite3.Connection, store: str | None) -> list[Past]:
    """All runs, or those of a store, the newest first."""
    rows = connection.execute(_RUNS, (store,)).fetchall()
    return [_past(connection, row) for row in rows]


def _past(connection: sqlite3.Connection, row: tuple[Any, ...]) -> Past:
    run, kind, store, source, fingerprint, undoes, started, total = row
    sittings = connection.execute(_SITTINGS, (run,)).fetchall()
    lock = held(connection, store)
    mine = lock if lock is not None and lock.run == run else None
    state, stopped, ended = _state(sittings, mine)
    counts = Counter(dict(connection.execute(_COUNTS, (run,))))
    spent = [seconds_between(began, end or _seen(mine)) for began, end, _ in sittings]
    return Past(
        run_id=run,
        kind=kind,
        store=store,
        source=source,
        fingerprint=fingerprint,
        undoes=undoes,
        started=started,
        ended=ended,
        seconds=round(sum(spent), 3),
        state=state,
        stopped=stopped,
        total=total,
        counts={outcome: counts[outcome] for outcome in OUTCOMES},
        open=counts[None],
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
