"""Journal: the file that holds the runs of a state folder."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from petsync.apply.journal import rows
from petsync.apply.journal.database import connect, create, reading, writing
from petsync.apply.journal.lock import Lock, claim
from petsync.apply.journal.moment import iso
from petsync.apply.journal.past import pasts
from petsync.apply.journal.recount import recounted
from petsync.apply.journal.schema import NAME
from petsync.apply.journal.sitting import Sitting
from petsync.apply.journal.trouble import translated
from petsync.apply.journal.writer import Writer
from petsync.diff.history import Entry, Past, RunKind
from petsync.diff.plan import FORMAT, Plan
from petsync.diff.report import Report
from petsync.errors import PlanError, StalePlanError

__all__ = ["Journal"]


class Journal:
    """The runs of one state folder, of any store. Any thread may read, while others write."""

    def __init__(self, path: Path, *, exists: bool) -> None:
        self.path = path
        self._exists = exists

    @classmethod
    def open(cls, state: Path, *, create: bool) -> Journal:
        """The journal in a state folder. Without one it is empty; with `create` it is made.

        Raises PetsyncError where it cannot be opened, is damaged (then it is set aside), or is
        another program's or a newer petsync's (then it is left as it is).
        """
        path = state / NAME
        if create:
            _create(path)
        return cls(path, exists=path.exists())

    def close(self) -> None:
        """Let go of the file; sittings have their own hold on it."""

    def runs(self, store: str | None = None) -> list[Past]:
        """All runs, or those on a store, the newest first."""
        with self._reading() as connection:
            return pasts(connection, store)

    def find(self, name: str, store: str | None = None) -> Past:
        """The run of that id, or whose id alone begins so. Raises PlanError for any other name."""
        runs = self.runs(store)
        found = [run for run in runs if run.run_id == name] or [
            run for run in runs if name and run.run_id.startswith(name)
        ]
        if len(found) == 1:
            return found[0]
        raise _not_found(name, found, runs)

    def plan(self, run_id: str) -> Plan:
        """The plan of a run. Raises PlanError where it has none that this petsync can read."""
        with self._reading() as connection:
            (packed,) = self._of_run(connection, run_id, "plan")
        return _unpacked(packed, run_id)

    def payload(self, run_id: str) -> bytes:
        """What the run was begun with beside a plan, as it was given to `begin`."""
        with self._reading() as connection:
            (payload,) = self._of_run(connection, run_id, "payload")
        return bytes(payload)

    def options(self, run_id: str) -> Mapping[str, Any]:
        """The options that the run was begun with."""
        with self._reading() as connection:
            (options,) = self._of_run(connection, run_id, "options")
        return msgspec.json.decode(options, type=dict[str, Any])

    def entries(self, run_id: str) -> Iterator[Entry]:
        """What is known of each change that was begun or decided, by number."""
        with self._reading() as connection:
            self._of_run(connection, run_id, "id")
            yield from rows.entries(connection, run_id)

    def report(self, run_id: str) -> Report:
        """What became of every row of the run's plan, as far as it has come."""
        return recounted(self.find(run_id), self.plan(run_id), self.entries(run_id))

    def used_by(self, fingerprint: str) -> str | None:
        """The run that was begun with the plan of that fingerprint; None if there is none."""
        with self._reading() as connection:
            return _used_by(connection, fingerprint)

    def uploaded(self, store: str) -> Mapping[tuple[int, str], Entry]:
        """Every upload to the store that was applied, by the pet's id and the image's digest."""
        with self._reading() as connection:
            found = rows.uploads(connection, store)
            return {(entry.pet_id, entry.digest): entry for entry in found if entry.pet_id}

    def begin(
        self,
        run_id: str,
        *,
        kind: RunKind,
        store: str,
        source: str,
        started: str,
        total: int,
        plan: Plan | None = None,
        payload: bytes = b"",
        fingerprint: str = "",
        undoes: str = "",
        options: Mapping[str, Any] = {},
    ) -> Sitting:
        """Begin a run, and sit down to work on it; on disk when this returns.

        Raises StalePlanError where a run has begun with that fingerprint, LockedError where
        another is at work on the store, and PetsyncError where the journal cannot be written.
        """
        values = {
            "id": run_id,
            "kind": kind,
            "store": store,
            "source": source,
            "fingerprint": fingerprint,
            "undoes": undoes,
            "started": started,
            "total": total,
            "options": msgspec.json.encode(options).decode(),
            "plan": None if plan is None else zlib.compress(msgspec.json.encode(plan), 1),
            "payload": payload,
        }
        if not self._exists:
            _create(self.path)
            self._exists = True
        with translated(self.path):
            connection = connect(self.path)
        try:
            with translated(self.path), writing(connection):
                if fingerprint and (used := _used_by(connection, fingerprint)) is not None:
                    raise stale(used)
                lock = _sit_down(connection, store, run_id)
                names, marks = ", ".join(values), ", ".join("?" * len(values))
                connection.execute(
                    f"INSERT INTO run ({names}) VALUES ({marks})", tuple(values.values())
                )
        except BaseException:
            connection.close()
            raise
        return Sitting(run_id, Writer(self.path, connection, lock))

    def resume(self, run_id: str) -> Sitting:
        """Sit down to work on a run once more; on disk when this returns.

        Raises LockedError where another is at work on the store, PlanError where there is no such
        run, and PetsyncError where the journal cannot be written.
        """
        with translated(self.path):
            connection = connect(self.path)
        try:
            with translated(self.path), writing(connection):
                (store,) = self._of_run(connection, run_id, "store")
                lock = _sit_down(connection, store, run_id)
                row = connection.execute("SELECT ids FROM known WHERE run = ?", (run_id,))
                known = row.fetchone()
        except BaseException:
            connection.close()
            raise
        ids = None if known is None else frozenset(msgspec.json.decode(known[0], type=list[int]))
        return Sitting(run_id, Writer(self.path, connection, lock), ids)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with reading(self.path if self._exists else None) as connection:
            yield connection

    def _of_run(self, connection: sqlite3.Connection, run_id: str, column: str) -> tuple[Any, ...]:
        row = connection.execute(f"SELECT {column} FROM run WHERE id = ?", (run_id,)).fetchone()
        if row is None:
            raise _not_found(run_id, [], [])
        found: tuple[Any, ...] = row
        return found


_create = create


def stale(run: str) -> StalePlanError:
    """The plan has been used."""
    return StalePlanError(
        f"this plan was applied already, in run {run}",
        hint="Make a new plan from the sheet: it holds what is still to be done. If that run was "
        f"stopped, `petsync resume {run}` finishes it.",
    )


def _used_by(connection: sqlite3.Connection, fingerprint: str) -> str | None:
    row = connection.execute(
        "SELECT id FROM run WHERE fingerprint = ?1 UNION ALL "
        "SELECT run FROM used WHERE fingerprint = ?1",
        (fingerprint,),
    ).fetchone()
    return None if row is None else str(row[0])


def _sit_down(connection: sqlite3.Connection, store: str, run: str) -> Lock:
    """Take the store's lock for a new sitting of the run; a dead one is told to have ended."""
    (last,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM sitting WHERE run = ?", (run,)
    ).fetchone()
    lock = Lock.mine(store, run, last + 1)
    dead = claim(connection, lock)
    if dead is not None:
        connection.execute(
            "UPDATE sitting SET ended = ?, stopped = 'killed' "
            "WHERE run = ? AND number = ? AND ended = ''",
            (iso(dead.heartbeat), dead.run, dead.sitting),
        )
    connection.execute(
        "INSERT INTO sitting (run, number, started, pid, host) VALUES (?, ?, ?, ?, ?)",
        (run, lock.sitting, iso(time.time()), lock.pid, lock.host),
    )
    return lock


def _unpacked(packed: bytes | None, run: str) -> Plan:
    if packed is None:
        raise PlanError(f"run {run} was begun without a plan")
    body = zlib.decompress(packed)
    try:
        plan = msgspec.json.decode(body, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError):
        plan = None
    if plan is None or plan.format != FORMAT:
        raise PlanError(
            f"the plan of run {run} is of an older format, which this petsync cannot read",
            hint="Make a new plan from the sheet: it holds what is still to be done.",
        )
    return plan


def _not_found(name: str, found: list[Past], runs: list[Past]) -> PlanError:
    if found:
        ids = ", ".join(run.run_id for run in found[:5])
        return PlanError(f"{len(found)} runs begin with {name!r}: {ids}", hint="Say more of it.")
    latest = f"The latest is {runs[0].run_id}. " if runs else ""
    return PlanError(f"there is no run {name!r}", hint=f"{latest}`petsync runs` lists them.")
