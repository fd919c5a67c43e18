"""Journal: the file with the runs of a state folder."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import copy
from functools import wraps
from heapq import merge
from inspect import Parameter, cleandoc, signature
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import msgspec

from petsync._files import check_state_folder
from petsync._json import decoder_of
from petsync.apply.journal import rows
from petsync.apply.journal.rows import (
    LaterRun,
    Run,
    check_unused,
    find_free_id,
    find_later_run,
    find_run_of_plan,
    find_run_of_process,
    insert_run,
    iter_other_journals,
    lock_runs,
    note_journal,
    pack_plan,
    read_changed_ids,
    read_deleted_ids,
    read_fixed_rows,
    read_known_ids,
    read_options,
    read_past_run,
    read_past_runs,
    read_payload,
    read_plan,
    read_removed,
    read_renumbered,
    read_restored,
    read_reused,
    read_row_records,
    read_run,
    read_run_sheet,
    read_sent_runs,
    read_undone_adds,
    rebuild_report,
    start_session,
)
from petsync.apply.journal.schema import (
    LOCK_TIMEOUT_S,
    NAME,
    build_locked_error,
    check_integrity,
    connect,
    create_journal,
    mark_in_use,
    open_for_reading,
    read_lock,
    transaction,
    translate_errors,
)
from petsync.apply.journal.writer import RunSession, Writer
from petsync.errors import PetsyncError, PlanError
from petsync.plan.lineage import RowRecord
from petsync.plan.plan import Plan
from petsync.plan.report import Entry, PastRun, Report, RunKind

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["Journal", "find_runs_named"]


P = ParamSpec("P")
T = TypeVar("T")

_LOG = logging.getLogger(__name__)


def _with_connection(
    read: Callable[Concatenate[sqlite3.Connection, P], T], name: str = ""
) -> Callable[Concatenate[Journal, P], T]:
    """Return a method of Journal that calls the function with a connection to the journal. `name`
    is the method's name; "" for the function's name.
    """

    @wraps(read)
    def call(journal: Journal, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with journal._connection() as connection:
            return read(connection, *args, **kwargs)

    _describe_method(call, name)
    return call


def _merge_journals(
    read: Callable[[sqlite3.Connection, str], dict[int, T]],
) -> Callable[[Journal, str], dict[int, T]]:
    """Return a method of Journal that calls the function for this journal and for the user's other
    journals, and merges the results. This journal's results take precedence.
    """

    @wraps(read)
    def call(journal: Journal, store: str) -> dict[int, T]:
        with journal._connection() as connection:
            own = read(connection, store)
        found: dict[int, T] = {}
        for _, other in journal._query_others(store, lambda each: read(each, store)):
            found |= other
        return {**found, **own}

    _describe_method(call)
    call.__doc__ = f"{cleandoc(read.__doc__ or '')}\n\nThe user's other state folders count too."
    return call


def _describe_method(method: Callable[..., object], name: str = "") -> None:
    """Replace the wrapped function's name and signature by those of the method."""
    read = signature(method)
    _, *others = read.parameters.values()
    first = Parameter("self", Parameter.POSITIONAL_ONLY)
    method.__name__ = name or method.__name__
    method.__qualname__ = f"Journal.{method.__name__}"
    vars(method)["__signature__"] = read.replace(parameters=[first, *others])
    del vars(method)["__wrapped__"]


class Journal:
    """The journal of a state folder, with its runs on all stores. Any thread may read it while
    another writes.
    """

    def __init__(self, path: Path, *, exists: bool) -> None:
        self.path = path
        self._exists = exists
        self._reading: sqlite3.Connection | None = None

    @classmethod
    def open(cls, state: Path, *, create: bool) -> Journal:
        """Open the journal of a state folder. A missing journal is created if `create` is true;
        otherwise it counts as empty.

        Raises PetsyncError if the file cannot be opened, if it is damaged (it is then renamed,
        unless a process uses it), or if it belongs to another program or a newer petsync.
        """
        path = state / NAME
        with translate_errors(path, reading=not create):
            check_state_folder(state)
            is_there = path.exists()
        if not is_there:
            if not create:
                return cls(path, exists=False)
            create_journal(path)
        elif not check_integrity(path, reading=not create):
            create_journal(path)
        return cls(path, exists=True)

    runs = _with_connection(read_past_runs, "runs")
    find_run_of_process = _with_connection(find_run_of_process)
    find_run_of_plan = _with_connection(find_run_of_plan)
    check_unused = _with_connection(check_unused)
    plan = _with_connection(read_plan, "plan")
    read_options = _with_connection(read_options)
    payload = _with_connection(read_payload, "payload")
    read_undone_adds = _with_connection(read_undone_adds)
    read_restored = _with_connection(read_restored)
    read_sent_runs = _with_connection(read_sent_runs)
    read_changed_ids = _with_connection(read_changed_ids)
    read_deleted_ids = _with_connection(read_deleted_ids)
    read_renumbered = _merge_journals(read_renumbered)
    read_fixed_rows = _merge_journals(read_fixed_rows)
    read_reused = _merge_journals(read_reused)
    read_removed = _merge_journals(read_removed)

    def find(self, name: str, store: str | None = None) -> PastRun:
        """Return the run whose id is `name` or, if there is none, the only run whose id begins with
        it; for "last", the newest run. Raises PlanError if no run or several runs match.
        """
        runs = self.runs(store)
        found = find_runs_named(runs, name)
        if len(found) == 1:
            return found[0]
        raise _not_found(name, found, runs)

    def options(self, run_id: str) -> Mapping[str, Any]:
        """Return the options that the run began with."""
        with self._connection() as connection:
            run = read_run(connection, run_id)
        return decoder_of(dict[str, Any]).decode(run.options)

    def entries(self, run_id: str) -> Iterator[Entry]:
        """Yield an entry for each change that was started or has a result, in the order of the
        changes' numbers.
        """
        with self._connection() as connection:
            read_run(connection, run_id)
            yield from rows.entries(connection, run_id)

    def report(self, run_id: str) -> Report:
        """Return the run's report so far."""
        with self._connection() as connection:
            past_run = read_past_run(connection, read_run(connection, run_id))
            plan = read_plan(connection, run_id)
            return rebuild_report(past_run, plan, rows.entries(connection, run_id))

    def find_known_ids(self, run_id: str) -> frozenset[int]:
        """Return the ids of the pets that existed before the run added pets without an id. The set
        is empty if the run has not recorded them.
        """
        with self._connection() as connection:
            return read_known_ids(connection, run_id) or frozenset()

    def read_row_records(self, store: str, *, with_undone: bool = False) -> list[RowRecord]:
        """Return what runs on the store recorded about rows without an id, the newest first,
        including those in the user's other state folders.

        Rows whose pets an undo removed are included only with `with_undone`.
        """
        with self._connection() as connection:
            records = [read_row_records(connection, store, with_undone=with_undone)]
        others = self._query_others(
            store, lambda o: read_row_records(o, store, with_undone=with_undone)
        )
        for path, found in others:
            folder = str(path.parent)
            records.append([msgspec.structs.replace(each, folder=folder) for each in found])
        return [*merge(*records, key=lambda each: each.run_started, reverse=True)]

    def find_later_run(self, run_id: str) -> LaterRun | None:
        """Return the newest run of the same sheet that started after this one, in any of the user's
        state folders. Return None if there is none, or if all rows of this run have ids.
        """
        with self._connection() as connection:
            run = read_run_sheet(connection, run_id)
            if run is None:
                return None
            own = find_later_run(connection, run)
        others = self._query_others(run.store, lambda other: find_later_run(other, run))
        found = [each for each in (own, *(other for _, other in others)) if each is not None]
        if not found:
            return None
        _, newest = max(found, key=itemgetter(0))
        records = self.read_row_records(run.store)
        return LaterRun(newest, [each for each in records if run.may_have_row_of(each)])

    def _query_others(
        self, store: str, query: Callable[[sqlite3.Connection], T]
    ) -> Iterator[tuple[Path, T]]:
        """Yield the path of each of the user's other journals, and the result of `query` for it.
        Journals that cannot be read are skipped.
        """
        for path in iter_other_journals(store, self.path.parent):
            try:
                with open_for_reading(path) as connection:
                    found = query(connection)
            except PetsyncError as error:
                _LOG.warning("Skipped the runs in %s: %s", path.parent, error)
            else:
                yield path, found

    def note(self, name: str) -> str:
        """Return the text that `set_note` stored under the name; "" if there is none."""
        with self._connection() as connection:
            row = connection.execute(_NOTE, (name,)).fetchone()
        return "" if row is None else str(row[0])

    def set_note(self, name: str, text: str, *, timeout: float = LOCK_TIMEOUT_S) -> None:
        """Store a text under a name; it is on disk when this returns. Waits up to `timeout` seconds
        while another process locks the journal.
        """
        if not self._exists:
            create_journal(self.path)
            self._exists = True
        with translate_errors(self.path), closing(connect(self.path)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * timeout)}")
            with transaction(connection):
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
        """Start a run, and return its first session; the run is on disk when this returns.

        If the journal already has a run with this id, the new run gets another one: see the
        session's `run_id`. Raises StalePlanError if a run has started with the plan with this
        fingerprint, LockedError if a process works on the store, and PetsyncError if the journal
        cannot be written.
        """
        body = None if plan is None else pack_plan(plan)
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
            create_journal(self.path)
            self._exists = True
        if kind == "apply" and payload:
            note_journal(store, self.path.parent)
        with self._locked_transaction(store) as (connection, files):
            if fingerprint:
                check_unused(connection, fingerprint)
            run = msgspec.structs.replace(run, id=find_free_id(connection, run_id))
            lock = start_session(connection, store, run.id)
            insert_run(connection, run, plan=body, payload=payload)
        return RunSession(run.id, Writer(self.path, connection, lock, files))

    def resume(self, run_id: str) -> RunSession:
        """Start another session of a run; it is on disk when this returns.

        Raises PlanError if there is no such run, LockedError if a process works on the store, and
        PetsyncError if the journal cannot be written.
        """
        with self._connection() as connection:
            store = read_run(connection, run_id).store
        with self._locked_transaction(store) as (connection, files):
            lock = start_session(connection, store, run_id)
            known = read_known_ids(connection, run_id)
        return RunSession(run_id, Writer(self.path, connection, lock, files), known)

    def check_free(self, store: str) -> None:
        """Raise LockedError if a process works on the store."""
        with self._connection() as connection:
            other = read_lock(connection, store)
        if other is not None and other.is_alive:
            raise build_locked_error(other)

    @contextmanager
    def reading(self) -> Iterator[Journal]:
        """Yield the journal for several reads in one thread, which take one connection."""
        with self._connection() as connection:
            journal = copy(self)
            journal._reading = connection
            yield journal

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._reading is not None:
            yield self._reading
            return
        with open_for_reading(self.path if self._exists else None) as connection:
            yield connection

    @contextmanager
    def _locked_transaction(
        self, store: str
    ) -> Iterator[tuple[sqlite3.Connection, list[BaseFileLock]]]:
        """Run a transaction that begins a session, and yield its connection and the session's file
        locks. Both stay afterwards, unless the transaction fails.
        """
        files: list[BaseFileLock] = []
        with translate_errors(self.path):
            connection = connect(self.path)
            try:
                with transaction(connection):
                    yield connection, files
                    # The lock in the journal comes first, because it names the other run.
                    files += filter(None, [lock_runs(store, self.path.parent)])
                    files.append(mark_in_use(self.path))
            except BaseException:
                connection.close()
                for file in files:
                    file.release()
                raise


_NOTE = "SELECT value FROM meta WHERE name = ?"
_SET_NOTE = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)"


_LAST = "last"


def find_runs_named(runs: Iterable[PastRun], name: str, store: str | None = None) -> list[PastRun]:
    """Return the run whose id is `name`, else the runs whose ids begin with it; for "last", the
    newest run on `store` or, if it has none, the newest of all. The runs must start with the
    newest.
    """
    if name == _LAST:
        known = list(runs)
        return ([run for run in known if store in (None, run.store)] or known)[:1]
    similar = [run for run in runs if name and run.run_id.startswith(name)]
    return [run for run in similar if run.run_id == name] or similar


def _not_found(name: str, found: list[PastRun], runs: list[PastRun]) -> PlanError:
    if found:
        ids = ", ".join(run.run_id for run in found[:5])
        return PlanError(
            f"{len(found)} runs begin with {name!r}: {ids}", hint="Give more characters of the id."
        )
    latest = f"The latest is {runs[0].run_id}. " if runs else ""
    return PlanError(f"there is no run {name!r}", hint=f"{latest}`petsync runs` lists them.")
