"""A run's row: what it was begun with, and who has sat down to work on it."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from petsync.apply.journal.lock import Lock, claim
from petsync.apply.journal.moment import iso
from petsync.apply.journal.seal import seal
from petsync.diff.plan import FORMAT, Plan
from petsync.errors import PetsyncError, PlanError

__all__ = ["Run", "insert_run", "known_ids", "read_run", "sit_down", "used_by"]

_COLUMNS = (
    "id, kind, store, source, fingerprint, undoes, started, total, options, plan, payload, seal"
)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was begun with. `plan` is its JSON, packed by zlib."""

    id: str
    kind: str
    store: str
    source: str
    fingerprint: str
    undoes: str
    started: str
    total: int
    options: str
    plan: bytes | None
    payload: bytes

    def opened_plan(self) -> Plan:
        """Its plan. Raises PlanError where it has none that this petsync can read."""
        if self.kind == "upload":
            raise PlanError(f"run {self.id} uploads images, and has no plan")
        try:
            body = zlib.decompress(self.plan or b"")
            plan = msgspec.json.decode(body, type=Plan)
        except (zlib.error, msgspec.DecodeError, UnicodeDecodeError):
            plan = None
        if plan is None or plan.format != FORMAT:
            raise PlanError(
                f"the plan of run {self.id} is of another format than this petsync reads",
                hint="Make a new plan from the sheet: it holds what is still to be done.",
            )
        return plan


def insert_run(
    connection: sqlite3.Connection,
    *,
    run_id: str,
    kind: str,
    store: str,
    source: str,
    started: str,
    total: int,
    fingerprint: str = "",
    undoes: str = "",
    options: Mapping[str, Any] = {},
    plan: bytes | None = None,
    payload: bytes = b"",
) -> None:
    """Write down what a run is begun with; `plan` is JSON."""
    values = (
        run_id,
        kind,
        store,
        source,
        fingerprint,
        undoes,
        started,
        total,
        msgspec.json.encode(options).decode(),
        None if plan is None else zlib.compress(plan, 1),
        payload,
    )
    connection.execute(_INSERT, (*values, seal(values)))


def read_run(connection: sqlite3.Connection, run_id: str) -> Run:
    """What the run was begun with. Raises PlanError where there is none of that id, PetsyncError
    where its row is damaged.
    """
    row = connection.execute(_SELECT, (run_id,)).fetchone()
    if row is None:
        raise PlanError(f"there is no run {run_id!r}", hint="`petsync runs` lists them.")
    *values, sealed = row
    if seal(tuple(values)) != sealed:
        raise _damaged(run_id)
    return Run(**dict(zip(Run.__struct_fields__, values, strict=True)))


def used_by(connection: sqlite3.Connection, fingerprint: str) -> str | None:
    """The run that was begun with the plan of that fingerprint."""
    row = connection.execute(_USED, (fingerprint,)).fetchone()
    return None if row is None else str(row[0])


def known_ids(connection: sqlite3.Connection, run: str) -> frozenset[int] | None:
    """The ids of the pets that there were before the run added some without one."""
    row = connection.execute("SELECT run, ids, seal FROM known WHERE run = ?", (run,)).fetchone()
    if row is None:
        return None
    if seal(row[:2]) != row[2]:
        raise _damaged(run)
    return frozenset(msgspec.json.decode(row[1], type=list[int]))


def sit_down(connection: sqlite3.Connection, store: str, run: str) -> Lock:
    """Take the store's lock for a new sitting of the run; a dead one is told to have ended.

    Raises LockedError where a living process has it.
    """
    (last,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM sitting WHERE run = ?", (run,)
    ).fetchone()
    lock = Lock.mine(store, run, last + 1)
    dead = claim(connection, lock)
    if dead is not None:
        connection.execute(_KILLED, (iso(dead.heartbeat), dead.run, dead.sitting))
    row = (run, lock.sitting, iso(time.time()), lock.pid, lock.host)
    connection.execute(_SAT_DOWN, row)
    return lock


def _damaged(run: str) -> PetsyncError:
    return PetsyncError(
        f"the journal is damaged: what it says of run {run} does not add up",
        hint="Plan again from the sheet. Nothing was changed in the journal.",
    )


_SELECT = f"SELECT {_COLUMNS} FROM run WHERE id = ?"  # noqa: S608 - of constants
_INSERT = f"INSERT INTO run ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_USED = """
SELECT id FROM run WHERE fingerprint = ?1 UNION ALL SELECT run FROM used WHERE fingerprint = ?1
"""
_KILLED = """
UPDATE sitting SET ended = ?, stopped = 'killed' WHERE run = ? AND number = ? AND ended = ''
"""
_SAT_DOWN = "INSERT INTO sitting (run, number, started, pid, host) VALUES (?, ?, ?, ?, ?)"
