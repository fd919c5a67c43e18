"""Journal: the file that holds the runs of a state folder."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from petsync._files import check_state_folder
from petsync.apply.journal import rows
from petsync.apply.journal.rows import (
    LaterRun,
    Run,
    free_id,
    insert_run,
    known_ids,
    later_run,
    note_journal,
    other_journals,
    pack_plan,
    past,
    pasts,
    read_payload,
    read_plan,
    read_renumbered,
    read_restored,
    read_reused,
    read_run,
    read_runs,
    rebuild_report,
    row_records,
    run_of_process,
    sent_runs,
    sheet_of_run,
    sit_down,
    taken_away,
    undone_adds,
    used_by,
)
from petsync.apply.journal.schema import (
    NAME,
    PATIENCE,
    build_locked_error,
    check_sound,
    connect,
    make,
    mark_in_use,
    read_lock,
    reading,
    translate_errors,
    writing,
)
from petsync.apply.journal.writer import RunSession, Writer
from petsync.errors import PetsyncError, PlanError, StalePlanError
from petsync.plan.base import SentRun
from petsync.plan.lineage import RemovedPet, RenumberedPet, RestoredPet, ReusedId, RowRecord
from petsync.plan.plan import Plan
from petsync.plan.report import Entry, PastRun, Report, RunKind

__all__ = ["Journal"]


T = TypeVar("T")

_LOG = logging.getLogger(__name__)


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
        with translate_errors(state / NAME):
            check_state_folder(state)
        path = state / NAME
        if not path.exists():
            if not create:
                return cls(path, exists=False)
            make(path)
        elif not check_sound(path):
            make(path)
        return cls(path, exists=True)

    def close(self) -> None:
        """Let go of the file; sittings have their own hold on it."""

    def runs(self, store: str | None = None) -> list[PastRun]:
        """All runs, or those on a store, the newest first."""
        with self._reading() as connection:
            return pasts(connection, store)

    def run_of_process(self, since: str) -> str | None:
        """The run that this process was last at work on, if that was since then (ISO 8601, UTC, in
        milliseconds); None where it was on none.
        """
        with self._reading() as connection:
            return run_of_process(connection, since)

    def find(self, name: str, store: str | None = None) -> PastRun:
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
            return read_plan(connection, run_id)

    def payload(self, run_id: str) -> bytes:
        """What the run was begun with beside a plan, as it was given to `begin`."""
        with self._reading() as connection:
            return read_payload(connection, run_id)

    def options(self, run_id: str) -> Mapping[str, Any]:
        """The options that the run was begun with."""
        with self._reading() as connection:
            run = read_run(connection, run_id)
        return msgspec.json.decode(run.options, type=dict[str, Any])

    def entries(self, run_id: str) -> Iterator[Entry]:
        """What is known of each change that was begun or decided, by number."""
        with self._reading() as connection:
            read_run(connection, run_id)
            yield from rows.entries(connection, run_id)

    def report(self, run_id: str) -> Report:
        """What became of every row of the run's plan, as far as it has come."""
        with self._reading() as connection:
            told = past(connection, read_run(connection, run_id))
            plan = read_plan(connection, run_id)
            return rebuild_report(told, plan, rows.entries(connection, run_id))

    def find_known_ids(self, run_id: str) -> frozenset[int]:
        """The ids of the pets that there were before the run added some without an id; none where
        it added none.
        """
        with self._reading() as connection:
            return known_ids(connection, run_id) or frozenset()

    def used_by(self, fingerprint: str) -> str | None:
        """The run that was begun with the plan of that fingerprint; None if there is none."""
        with self._reading() as connection:
            return used_by(connection, fingerprint)

    def read_uploads(self, store: str) -> Mapping[tuple[int, str], Entry]:
        """Every upload to the store that was applied, by the pet's id and the image's digest."""
        with self._reading() as connection:
            runs = [run for run in read_runs(connection, store) if run.kind == "upload"]
            found = [entry for run in reversed(runs) for entry in rows.entries(connection, run.id)]
        return {
            (entry.pet_id, entry.digest): entry
            for entry in found
            if entry.outcome == "applied" and entry.pet_id is not None
        }

    def row_records(self, store: str, *, with_undone: bool = False) -> list[RowRecord]:
        """What runs on the store knew of rows without an id, the newest first; also those of the
        user's other state folders. Rows whose pets an undo took away are there only `with_undone`.
        """
        with self._reading() as connection:
            records = row_records(connection, store, with_undone=with_undone)
        others = self._elsewhere(store, lambda o: row_records(o, store, with_undone=with_undone))
        for path, found in others:
            folder = str(path.parent)
            records += [msgspec.structs.replace(each, folder=folder) for each in found]
        return sorted(records, key=lambda each: each.written, reverse=True)

    def undone_adds(self, store: str) -> dict[int, str]:
        """The pets that undos took away and that are not back: by id, the run that was undone."""
        with self._reading() as connection:
            return undone_adds(connection, store)

    def read_restored(self, store: str) -> dict[int, RestoredPet]:
        """The pets that undos changed or added again, as the newest undo left each."""
        with self._reading() as connection:
            return read_restored(connection, store)

    def sent_runs(self, store: str, base: str) -> list[SentRun]:
        """The runs of sheets with the base of that moment, the oldest first, and what each of them
        sent and no undo took back.
        """
        with self._reading() as connection:
            return sent_runs(connection, store, base)

    def read_renumbered(self, store: str) -> dict[int, RenumberedPet]:
        """The pets to which the store gave another id than they were added with, by that one; those
        of the user's other state folders too.
        """
        return self._by_id(store, lambda each: read_renumbered(each, store))

    def read_reused(self, store: str) -> dict[int, ReusedId]:
        """The pets that runs added under an id that another row of their sheet named, by id; those
        of the user's other state folders too.
        """
        return self._by_id(store, lambda each: read_reused(each, store))

    def taken_away(self, store: str) -> dict[int, RemovedPet]:
        """The pets that runs took away, by id, where no run has added a pet under the id since;
        those of the user's other state folders too.
        """
        return self._by_id(store, lambda each: taken_away(each, store))

    def later_run(self, run_id: str) -> LaterRun | None:
        """The newest run of the same sheet that began after this one, where this one has rows
        without an id, also one of another state folder of the user; None where there is none.
        """
        with self._reading() as connection:
            run = sheet_of_run(connection, run_id)
            if run is None:
                return None
            own = later_run(connection, run)
        others = self._elsewhere(run.store, lambda other: later_run(other, run))
        newest = own or next((found for _, found in others if found), None)
        if newest is None:
            return None
        records = self.row_records(run.store)
        return LaterRun(newest, [each for each in records if run.may_have_left(each)])

    def _by_id(self, store: str, ask: Callable[[sqlite3.Connection], dict[int, T]]) -> dict[int, T]:
        """What this journal answers for pets, and else the user's other journals, by id."""
        with self._reading() as connection:
            own = ask(connection)
        found: dict[int, T] = {}
        for _, other in self._elsewhere(store, ask):
            found |= other
        return {**found, **own}

    def _elsewhere(
        self, store: str, ask: Callable[[sqlite3.Connection], T]
    ) -> Iterator[tuple[Path, T]]:
        """What each of the user's other journals answers; one that cannot be read is left out."""
        for path in other_journals(store, self.path.parent):
            try:
                with reading(path) as connection:
                    found = ask(connection)
            except PetsyncError as error:
                _LOG.warning("The runs in %s are not looked at: %s", path.parent, error)
            else:
                yield path, found

    def note(self, name: str) -> str:
        """What `set_note` kept under the name, "" where there is nothing."""
        with self._reading() as connection:
            row = connection.execute(_NOTE, (name,)).fetchone()
        return "" if row is None else str(row[0])

    def set_note(self, name: str, text: str, *, patience: float = PATIENCE) -> None:
        """Keep a text under a name, in place of an earlier one; on disk when this returns. Another
        process that writes is waited for so many seconds.
        """
        if not self._exists:
            make(self.path)
            self._exists = True
        with translate_errors(self.path), closing(connect(self.path)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
            with writing(connection):
                connection.execute(_SET_NOTE, (name, text))

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
    ) -> RunSession:
        """Begin a run, and sit down to work on it; on disk when this returns. The run gets another
        id than `run_id` where the journal has a run of that id: the sitting has it.

        Raises StalePlanError where a run has begun with that fingerprint, LockedError where
        another is at work on the store, and PetsyncError where the journal cannot be written.
        """
        body = None if plan is None else pack_plan(plan.pieces())
        run = Run(
            id=run_id,
            kind=kind,
            store=store,
            source=source,
            fingerprint=fingerprint,
            undoes=undoes,
            started=started,
            total=total,
            options=msgspec.json.encode(options).decode(),
        )
        if not self._exists:
            make(self.path)
            self._exists = True
        if kind == "apply" and payload:
            note_journal(store, self.path.parent)
        with self._sitting_down() as connection:
            if fingerprint and (used := used_by(connection, fingerprint)) is not None:
                raise _stale(used, undoes)
            run = msgspec.structs.replace(run, id=free_id(connection, run_id))
            lock = sit_down(connection, store, run.id)
            insert_run(connection, run, plan=body, payload=payload)
            in_use = mark_in_use(self.path)
        return RunSession(run.id, Writer(self.path, connection, lock, in_use))

    def resume(self, run_id: str) -> RunSession:
        """Sit down to work on a run once more; on disk when this returns.

        Raises LockedError where another is at work on the store, PlanError where there is no such
        run, and PetsyncError where the journal cannot be written.
        """
        with self._reading() as connection:
            store = read_run(connection, run_id).store
        with self._sitting_down() as connection:
            lock = sit_down(connection, store, run_id)
            known = known_ids(connection, run_id)
            in_use = mark_in_use(self.path)
        return RunSession(run_id, Writer(self.path, connection, lock, in_use), known)

    def check_free(self, store: str) -> None:
        """Raise LockedError where a living process is at work on the store."""
        with self._reading() as connection:
            other = read_lock(connection, store)
        if other is not None and other.is_alive:
            raise build_locked_error(other)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with reading(self.path if self._exists else None) as connection:
            yield connection

    @contextmanager
    def _sitting_down(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction, which stays open unless that fails."""
        with translate_errors(self.path):
            connection = connect(self.path)
            try:
                with writing(connection):
                    yield connection
            except BaseException:
                connection.close()
                raise


_NOTE = "SELECT value FROM meta WHERE name = ?"
_SET_NOTE = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)"


def _stale(run: str, undoes: str) -> StalePlanError:
    anew = "Make a new plan from the sheet: it holds what is still to be done."
    if undoes:
        anew = f"`petsync undo {undoes}` again shows what is left."
    return StalePlanError(
        f"this plan was applied already, in run {run}",
        hint=f"{anew} If that run was stopped, `petsync resume {run}` finishes it.",
    )


def _not_found(name: str, found: list[PastRun], runs: list[PastRun]) -> PlanError:
    if found:
        ids = ", ".join(run.run_id for run in found[:5])
        return PlanError(f"{len(found)} runs begin with {name!r}: {ids}", hint="Say more of it.")
    latest = f"The latest is {runs[0].run_id}. " if runs else ""
    return PlanError(f"there is no run {name!r}", hint=f"{latest}`petsync runs` lists them.")
