"""A run's journal, read by SQLite without petsync."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FINAL", "Ledger", "Line", "ledger", "runs"]

FINAL = {"applied", "unchanged"}
"""The outcomes of a completed change."""


class Line(NamedTuple):
    """One change of a run."""

    number: int
    kind: str
    pet_id: int | None
    assigned_id: int | None
    outcome: str | None
    cause: str
    attempts: int


class Ledger(NamedTuple):
    """A run: its number of changes, and a line for each change that was started or decided."""

    run: str
    total: int
    lines: tuple[Line, ...]
    sessions: int

    @property
    def counts(self) -> Counter[str | None]:
        """The number of lines with each outcome."""
        return Counter(line.outcome for line in self.lines)

    def check(self) -> None:
        """Assert that each change has exactly one line with a final outcome."""
        numbers = [line.number for line in self.lines]
        assert numbers == list(range(self.total)), f"{numbers} of {self.total}"
        assert set(self.counts) <= FINAL, self.counts
        assert sum(self.counts.values()) == self.total


def runs(state: Path) -> list[str]:
    """Return the ids of the runs, the oldest first; an empty list without a journal."""
    path = state / "journal.db"
    if not path.exists():
        return []
    with closing(_reader(path)) as connection:
        tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'run'").fetchone()
        rows = connection.execute("SELECT id FROM run ORDER BY started, id") if tables else ()
        return [row[0] for row in rows]


def ledger(state: Path, run: str) -> Ledger:
    """Return a run as the file has it now."""
    with closing(_reader(state / "journal.db")) as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        names = ", ".join(Line._fields)
        rows = connection.execute(
            f"SELECT {names} FROM change WHERE run = ? ORDER BY number", (run,)
        ).fetchall()
        return Ledger(
            run,
            _one(connection, "SELECT total FROM run WHERE id = ?", run),
            tuple(Line(*row) for row in rows),
            _one(connection, "SELECT count(*) FROM sitting WHERE run = ?", run),
        )


def _one(connection: sqlite3.Connection, sql: str, run: str) -> Any:
    return connection.execute(sql, (run,)).fetchone()[0]


def _reader(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=120)
