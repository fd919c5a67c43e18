"""A run's row: what it was begun with, and who has sat down to work on it."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
import zlib
from collections.abc import Iterable
from typing import Any

import msgspec

from petsync.apply.journal.lock import Lock, claim
from petsync.apply.journal.moment import iso
from petsync.apply.journal.seal import seal
from petsync.diff.history import RunKind
from petsync.diff.plan import FORMAT, Plan
from petsync.errors import PetsyncError, PlanError

__all__ = [
    "Run",
    "insert_run",
    "insert_used",
    "known_ids",
    "packed",
    "read_payload",
    "read_plan",
    "read_run",
    "read_runs",
    "run_of_process",
    "sit_down",
    "used_by",
]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was begun with, but for its plan."""

    id: str
    kind: RunKind
    store: str
    source: str
    fingerprint: str
    undoes: str
    started: str
    total: int
    options: str


def insert_run(
    connection: sqlite3.Connection, run: Run, *, plan: bytes | None = None, payload: bytes = b""
) -> None:
    """Write down what a run is begun with; `plan` is as `packed` makes it."""
    about = msgspec.structs.astuple(run)
    body = (run.id, plan, payload)
    row = (*about, seal(about), *body[1:], seal(body))
    connection.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def packed(pieces: Iterable[bytes]) -> bytes:
    """A plan's JSON, compressed piece by piece, so that it is never whole in memory."""
    packer = zlib.compressobj(1)
    return b"".join(map(packer.compress, pieces)) + packer.flush()


def read_runs(connection: sqlite3.Connection, store: str | None = None) -> list[Run]:
    """What all runs were begun with, or those of a store; the newest first.

    Raises PetsyncError where a row is damaged.
    """
    runs = [_run(row) for row in connection.execute(_RUNS)]
    return [run for run in runs if store is None or run.store == store]


def read_run(connection: sqlite3.Connection, run_id: str) -> Run:
    """What the run was begun with. Raises PlanError where there is none of that id, PetsyncError
    where its row is damaged.
    """
    row = connection.execute(_RUN, (run_id,)).fetchone()
    if row is None:
        raise PlanError(f"there is no run {run_id!r}", hint="`petsync runs` lists them.")
    return _run(row)


def read_plan(connection: sqlite3.Connection, run_id: str) -> Plan:
    """The run's plan. Raises PlanError where it has none that this petsync can read."""
    if read_run(connection, run_id).kind == "upload":
        raise PlanError(f"run {run_id} uploads images, and has no plan")
    body, _ = _body(connection, run_id)
    try:
        plan = msgspec.json.decode(zlib.decompress(body or b""), type=Plan)
    except (zlib.error, ValueError):
        plan = None
    if plan is None or plan.format != FORMAT:
        raise PlanError(
            f"the plan of run {run_id} is of another format than this petsync reads",
            hint="Make a new plan from the sheet: it holds what is still to be done.",
        )
    return plan


def read_payload(connection: sqlite3.Connection, run_id: str) -> bytes:
    """What the run was begun with beside a plan."""
    read_run(connection, run_id)
    return _body(connection, run_id)[1]


def known_ids(connection: sqlite3.Connection, run: str) -> frozenset[int] | None:
    """The ids of the pets that there were before the run added some without one."""
    row = connection.execute("SELECT run, ids, seal FROM known WHERE run = ?", (run,)).fetchone()
    if row is None:
        return None
    if seal(row[:2]) != row[2]:
        raise _damaged(run)
    return frozenset(msgspec.json.decode(row[1], type=list[int]))


def used_by(connection: sqlite3.Connection, fingerprint: str) -> str | None:
    """The run that was begun with the plan of that fingerprint."""
    row = connection.execute("SELECT id FROM run WHERE fingerprint = ?", (fingerprint,)).fetchone()
    if row is not None:
        return str(row[0])
    used = {}
    for *about, sealed in connection.execute("SELECT fingerprint, run, seal FROM used"):
        if seal(tuple(about)) != sealed:
            raise _damaged(str(about[1]))
        used[about[0]] = str(about[1])
    return used.get(fingerprint)


def insert_used(connection: sqlite3.Connection, fingerprint: str, run: str) -> None:
    """Remember a plan that was used in a run of which nothing else is known."""
    about = (fingerprint, run)
    connection.execute("INSERT OR IGNORE INTO used VALUES (?, ?, ?)", (*about, seal(about)))


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


def run_of_process(connection: sqlite3.Connection, since: str) -> str | None:
    """The run of this process's newest sitting that began at that moment or later."""
    about = (os.getpid(), platform.node(), since)
    row = connection.execute(_OWN, about).fetchone()
    return None if row is None else str(row[0])


def _body(connection: sqlite3.Connection, run_id: str) -> tuple[bytes | None, bytes]:
    row = connection.execute(_BODY, (run_id,)).fetchone()
    if seal(row[:3]) != row[3]:
        raise _damaged(run_id)
    return row[1], row[2]


def _run(row: tuple[Any, ...]) -> Run:
    *about, sealed = row
    try:
        if seal(tuple(about)) == sealed:
            return Run(**dict(zip(Run.__struct_fields__, about, strict=True)))
    except (ValueError, TypeError):
        pass
    raise _damaged(str(row[0]))


def _damaged(run: str) -> PetsyncError:
    return PetsyncError(
        f"the journal is damaged: what it says of run {run} does not add up",
        hint="Plan again from the sheet. Nothing was changed in the journal.",
    )


_ABOUT = "id, kind, store, source, fingerprint, undoes, started, total, options, seal"
_RUNS = f"SELECT {_ABOUT} FROM run ORDER BY started DESC, rowid DESC"  # noqa: S608 - of constants
_RUN = f"SELECT {_ABOUT} FROM run WHERE id = ?"  # noqa: S608 - of constants
_BODY = "SELECT id, plan, payload, body_seal FROM run WHERE id = ?"
_KILLED = """
UPDATE sitting SET ended = ?, stopped = 'killed' WHERE run = ? AND number = ? AND ended = ''
"""
_OWN = """
SELECT run FROM sitting WHERE pid = ? AND host = ? AND started >= ?
ORDER BY started DESC LIMIT 1
"""
_SAT_DOWN = "INSERT INTO sitting (run, number, started, pid, host) VALUES (?, ?, ?, ?, ?)"
