"""Read and write the journal's rows: runs, changes, and the records of sheet rows without an id."""

from __future__ import annotations

import hashlib
import io
import logging
import math
import os
import os.path
import platform
import secrets
import sqlite3
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from petsync._display import count, quote
from petsync._files import (
    check_state_folder,
    make_private_folder,
    read_regular,
    real_path,
    try_lock,
    user_folder,
    write_atomically,
)
from petsync._json import decoder_of
from petsync.apply.engine import build_result
from petsync.apply.journal.schema import (
    NAME,
    Lock,
    body_checksum,
    claim_lock,
    format_time,
    read_lock,
    row_checksum,
    seconds_between,
)
from petsync.apply.planfile import read_long_plan, write_long_plan
from petsync.errors import LockedError, PetsyncError, PlanError, StalePlanError
from petsync.models import Category, Pet
from petsync.plan.base import SentRun
from petsync.plan.change import Add, Change, Delete, LongChanges, Tally, Update, job_of
from petsync.plan.lineage import (
    Identity,
    RemovedPet,
    RenumberedPet,
    RestoredPet,
    ReusedId,
    RowRecord,
    VacantId,
)
from petsync.plan.options import PlanOptions
from petsync.plan.plan import PLAN_FORMAT, Plan
from petsync.plan.report import (
    OUTCOMES,
    Entry,
    Outcome,
    PastRun,
    Report,
    Result,
    RunKind,
    RunResults,
    collect_results,
    find_undoing_runs,
    is_resumable,
)
from petsync.table.base import SourceRow

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "INSERT_INTENT",
    "INSERT_REPLACEMENT",
    "INSERT_RESULT",
    "INSERT_RETRY",
    "LaterRun",
    "Row",
    "Run",
    "RunSheet",
    "build_entry_intent_row",
    "build_entry_result_row",
    "build_intent_row",
    "build_result_row",
    "build_row_payload",
    "check_unused",
    "delete_unsent_run",
    "entries",
    "find_free_id",
    "find_later_run",
    "find_run_of_plan",
    "find_run_of_process",
    "insert_run",
    "iter_other_journals",
    "lock_runs",
    "note_journal",
    "pack_plan",
    "read_changed_ids",
    "read_deleted_ids",
    "read_fixed_rows",
    "read_known_ids",
    "read_options",
    "read_past_run",
    "read_past_runs",
    "read_payload",
    "read_plan",
    "read_removed",
    "read_renumbered",
    "read_restored",
    "read_reused",
    "read_row_records",
    "read_run",
    "read_run_sheet",
    "read_runs",
    "read_sent_runs",
    "read_undone_adds",
    "rebuild_report",
    "start_session",
    "suggest_new_plan",
]


# Notes: how a journal finds the user's other journals.
#
# The journal of a state folder records which row of which sheet became which pet. But the same
# sheet may be applied from another working directory with another state folder. So each state
# folder with runs has notes in a common folder of the user, one for each store.


_LOG = logging.getLogger(__name__)
_MAX_NOTE_AGE_S = 90 * 86_400
"""Seconds for which a note is kept if its journal is missing: a drive may be connected again."""


_FAKE = ".pets.invalid"
"""The end of the host of each `petsync.testing.FakeService`."""
_TRIES, _PAUSE_S = 20, 0.05
"""How often a run tries to lock a store, and the seconds between."""


class _Note(msgspec.Struct, frozen=True):
    """A note that a state folder has runs on a store, with payloads from `build_row_payload`."""

    store: str
    state: str


def note_journal(store: str, state: Path) -> None:
    """Write a note that the state folder has runs on the store. An error is only logged, because
    the run does not depend on the note.
    """
    note = _Note(store, os.path.realpath(state))
    folder = _find_notes_folder(store)
    if folder is None:
        return
    try:
        make_private_folder(folder)
        name = f"{_note_name(store)}-{_note_name(note.state)}.json"
        data = msgspec.json.encode(note)
        write_atomically(folder / name, data, follow=False, private=True)
        _remove_old(folder)
    except (OSError, UnicodeEncodeError) as error:
        _LOG.info("%s cannot be written: %s", folder, error)


def iter_other_journals(store: str, state: Path) -> Iterator[Path]:
    """Yield the paths of the user's other journals that have runs on the store."""
    own, folder = os.path.realpath(state), _find_notes_folder(store)
    for _, note in () if folder is None else _read_notes(folder, f"{_note_name(store)}-*.json"):
        other = Path(note.state)
        if note.store != store or note.state == own:
            continue
        try:
            is_there = (other / NAME).exists()
            if is_there:
                check_state_folder(other)
        except OSError as error:
            _LOG.warning("Skipped the runs in %s: %s", other, error.strerror)
        else:
            if is_there:
                yield other / NAME


def lock_runs(store: str, state: Path) -> BaseFileLock | None:
    """Lock the store for one run of this user, and return the lock, which lasts until it is
    released or this process ends. The lock in the journal does this for its own state folder; this
    one is for runs with different state folders, each of which has its own file.

    Returns None if the user has no folder for locks, or if a suspended session, whose lock in the
    journal was taken over, still has the file. Raises LockedError if a run with another state
    folder works on the store.
    """
    folder = _find_notes_folder(store)
    if folder is None:
        return None
    lock, other = None, None
    own = folder / f"{_note_name(store)}-{_note_name(os.path.realpath(state))}.lock"
    try:
        make_private_folder(folder)
        for _ in range(_TRIES):
            # Another process that looks at the file locks it for a moment.
            lock = lock or try_lock(own)
            others = sorted(folder.glob(f"{_note_name(store)}-*.lock"))
            other = next((path for path in others if path != own and _is_locked(path)), None)
            if other is None and lock is not None:
                return lock
            # Of two runs that begin at the same time, one goes on.
            if other is not None and other < own:
                break
            time.sleep(_PAUSE_S)
    except OSError as error:
        _LOG.warning(
            "%s cannot be locked: %s. Another run on the store with another state folder is not "
            "noticed.",
            folder,
            error.strerror or error,
        )
        return lock
    if other is None:
        return None
    if lock is not None:
        lock.release()
    notes = [note.state for _, note in _read_notes(folder, f"{other.stem}.json")]
    place = f"the state folder {notes[0]}" if notes else "another state folder"
    raise LockedError(
        f"another run is working on {store}, with {place}",
        hint="Wait until it has ended, and make a new plan.",
    )


def _is_locked(path: Path) -> bool:
    lock = try_lock(path)
    if lock is not None:
        lock.release()
    return lock is None


def _find_notes_folder(store: str) -> Path | None:
    """Return the folder for the notes on the store; None if the user has no home folder, or if the
    store is a FakeService, which ends with its process.
    """
    if (urlsplit(store).hostname or "").endswith(_FAKE):
        return None
    try:
        return user_folder("XDG_STATE_HOME", "LOCALAPPDATA", ".local/state") / "petsync/journals"
    except RuntimeError:
        return None


def _read_notes(
    folder: Path, pattern: str, *, before: float = math.inf
) -> Iterator[tuple[Path, _Note]]:
    """Yield the notes that were written before this time; none if the folder cannot be read."""
    try:
        paths = sorted(folder.glob(pattern))
    except OSError as error:
        _LOG.info("%s cannot be read: %s", folder, error.strerror or error)
        return
    for path in paths:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            if path.stat().st_mtime < before:
                yield path, decoder_of(_Note).decode(read_regular(path))


def _remove_old(folder: Path) -> None:
    oldest = time.time() - _MAX_NOTE_AGE_S
    for path, note in _read_notes(folder, "*.json", before=oldest):
        with suppress(OSError):
            if not Path(note.state, NAME).exists():
                path.unlink()
    for lock in folder.glob("*.lock"):
        with suppress(OSError):
            if lock.stat().st_mtime < oldest and not lock.with_suffix(".json").exists():
                lock.unlink()


def _note_name(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]


# Rows of runs, and of the sessions in which processes work on runs.


P = TypeVar("P")
_PARQUET = b"PAR1"
"""The first bytes of a Parquet file."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a run in the database, without the plan and the payload."""

    id: str
    kind: RunKind
    store: str
    source: str
    fingerprint: str
    undoes: str
    started: str
    total: int
    options: str


def find_free_id(connection: sqlite3.Connection, run_id: str) -> str:
    """Return the id, with another random suffix if a run already has it."""
    while connection.execute(_RUN, (run_id,)).fetchone() is not None:
        run_id = f"{run_id.rpartition('-')[0]}-{secrets.token_hex(2)}"
    return run_id


def insert_run(
    connection: sqlite3.Connection, run: Run, *, plan: bytes | None = None, payload: bytes = b""
) -> None:
    """Insert the row of a run; `plan` is the result of `pack_plan`."""
    values = msgspec.structs.astuple(run)
    body = (run.id, plan, payload)
    row = (*values, row_checksum(values), *body[1:], body_checksum(body))
    connection.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def delete_unsent_run(connection: sqlite3.Connection, run: str) -> None:
    """Delete the run with all its records, unless it has an intent: then a request may have been
    sent.
    """
    if connection.execute(_DELETE_UNSENT_RUN, (run, run)).rowcount:
        for delete in _DELETE_RECORDS:
            connection.execute(delete, (run,))


def pack_plan(plan: Plan) -> bytes:
    """Return the plan as the journal stores it: JSON compressed with zlib or, for a plan with
    `LongChanges`, Parquet.
    """
    if isinstance(plan.changes, LongChanges):
        fingerprint, content = plan.changes.packed
        if fingerprint == plan.fingerprint:
            return content
        file = io.BytesIO()
        write_long_plan(plan, file)
        return file.getvalue()
    # The whole text is never in memory.
    packer = zlib.compressobj(1)
    return b"".join(map(packer.compress, plan.pieces())) + packer.flush()


def _unpack_plan(body: bytes | None, plan_type: type[P]) -> Plan | P | None:
    """Return the plan that `pack_plan` packed: a `plan_type` from JSON, or a Plan from Parquet.
    Return None if it has a format that this petsync cannot read.
    """
    try:
        if body is not None and body.startswith(_PARQUET):
            return read_long_plan(body, "the journal", is_trusted=True)
        return decoder_of(plan_type).decode(zlib.decompress(body or b""))
    except (zlib.error, ValueError, PlanError):
        return None


def read_runs(connection: sqlite3.Connection, store: str | None = None) -> list[Run]:
    """Return all runs, or those on a store, the newest first. Raises PetsyncError for a damaged
    row.
    """
    runs = [_decode_run(row) for row in connection.execute(_RUNS)]
    return [run for run in runs if store is None or run.store == store]


def read_run(connection: sqlite3.Connection, run_id: str) -> Run:
    """Return the run with that id. Raises PlanError if there is none, and PetsyncError if its row
    is damaged.
    """
    row = connection.execute(_RUN, (run_id,)).fetchone()
    if row is None:
        raise PlanError(f"there is no run {run_id!r}", hint="`petsync runs` lists them.")
    return _decode_run(row)


def read_plan(connection: sqlite3.Connection, run_id: str) -> Plan:
    """Return the run's plan. Raises PlanError if it has none that this petsync can read."""
    run = read_run(connection, run_id)
    if run.kind == "upload":
        raise PlanError(f"run {run_id} is an upload of images, which has no plan")
    plan = _unpack_plan(_read_body(connection, run_id)[0], Plan)
    if plan is None or plan.format != PLAN_FORMAT:
        raise PlanError(
            f"the plan of run {run_id} has a format that this petsync cannot read",
            hint=suggest_new_plan(run.undoes),
        )
    return plan


class _OptionsHead(msgspec.Struct, frozen=True):
    options: PlanOptions = PlanOptions()


def read_options(connection: sqlite3.Connection, run_id: str) -> PlanOptions:
    """Return the options of the run's plan, or the defaults if it has no plan that this petsync can
    read.
    """
    head = _unpack_plan(_read_body(connection, run_id)[0], _OptionsHead)
    return PlanOptions() if head is None else head.options


def suggest_new_plan(undoes: str, job: str = "") -> str:
    """Return the hint for a plan that cannot be used; `undoes` is the run that it undoes, and `job`
    the job that made it, or "".
    """
    if undoes:
        return f"`petsync undo {undoes}` again shows what is left."
    if job:
        return f"`petsync reconcile --job {quote(job)}` makes what is still to be done."
    return "Make a new plan from the sheet: it contains what is still to be done."


def read_payload(connection: sqlite3.Connection, run_id: str) -> bytes:
    """Return the payload that was passed to `Journal.begin`."""
    read_run(connection, run_id)
    return _read_body(connection, run_id)[1]


def read_known_ids(connection: sqlite3.Connection, run: str) -> frozenset[int] | None:
    """Return the ids of the pets that existed before the run added pets without an id; None if the
    run has not recorded them.
    """
    row = connection.execute("SELECT run, ids, seal FROM known WHERE run = ?", (run,)).fetchone()
    if row is None:
        return None
    if row_checksum(row[:2]) != row[2]:
        raise _build_damaged_run_error(run)
    return frozenset(decoder_of(list[int]).decode(row[1]))


def find_run_of_plan(connection: sqlite3.Connection, fingerprint: str) -> str | None:
    """Return the id of the run that applied the plan with this fingerprint, or None."""
    row = connection.execute("SELECT id FROM run WHERE fingerprint = ?", (fingerprint,)).fetchone()
    return None if row is None else str(row[0])


def check_unused(connection: sqlite3.Connection, fingerprint: str) -> None:
    """Raise StalePlanError if a run has started with the plan with this fingerprint."""
    used = find_run_of_plan(connection, fingerprint)
    if used is None:
        return
    run = read_run(connection, used)
    lock = read_lock(connection, run.store)
    if lock is not None and lock.run == used and lock.is_alive:
        # The run is withdrawn if the service refuses access before the first change.
        raise StalePlanError(
            f"this plan is being applied, in run {used}",
            hint="Wait until that run has ended, and see `petsync runs`. If the run is not listed "
            "there, nothing was sent, and the same plan can be applied.",
        )
    past = read_past_run(connection, run)
    if not is_resumable(past) or used in find_undoing_runs(read_past_runs(connection)):
        job = ""
        with suppress(PlanError):
            job = job_of(read_plan(connection, used).raw_notes)
        raise StalePlanError(
            f"this plan was already applied, in run {used}", hint=suggest_new_plan(run.undoes, job)
        )
    end = f"has applied {past.counts['applied']:,} of its {count(past.total, 'change')}"
    if not past.open and not any(past.counts[each] for each in ("applied", "failed", "unknown")):
        end = "was stopped before it sent anything"
    raise StalePlanError(
        f"run {used} of this plan {end}",
        hint=f"`petsync resume {used}` finishes it, and sends no change twice.",
    )


def start_session(connection: sqlite3.Connection, store: str, run: str) -> Lock:
    """Start a session of the run, and return its lock on the store. The session of a dead process
    with the lock is marked as killed. Raises LockedError if another process has the lock.
    """
    (last,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM sitting WHERE run = ?", (run,)
    ).fetchone()
    lock = Lock.for_this_process(store, run, last + 1)
    dead = claim_lock(connection, lock)
    if dead is not None:
        connection.execute(_MARK_KILLED, (format_time(dead.heartbeat), dead.run, dead.session))
    row = (run, lock.session, format_time(time.time()), lock.pid, lock.host)
    connection.execute(_INSERT_SESSION, row)
    return lock


def find_run_of_process(connection: sqlite3.Connection, since: str) -> str | None:
    """Return the id of the run on which this process started its newest session, at or after
    `since` (ISO 8601, in UTC, with milliseconds); None if there is none.
    """
    values = (os.getpid(), platform.node(), since)
    row = connection.execute(_RUN_OF_PROCESS, values).fetchone()
    return None if row is None else str(row[0])


def _read_body(connection: sqlite3.Connection, run_id: str) -> tuple[bytes | None, bytes]:
    row = connection.execute(_BODY, (run_id,)).fetchone()
    if body_checksum(row[:3]) != row[3]:
        raise _build_damaged_run_error(run_id)
    return row[1], row[2]


def _decode_run(row: tuple[Any, ...]) -> Run:
    *values, checksum = row
    try:
        if row_checksum(tuple(values)) == checksum:
            return Run(**dict(zip(Run.__struct_fields__, values, strict=True)))
    except (ValueError, TypeError):
        pass
    raise _build_damaged_run_error(str(row[0]))


def _build_damaged_run_error(run: str) -> PetsyncError:
    return PetsyncError(
        f"the journal is damaged: run {run} does not match its checksum",
        hint="Plan again from the sheet. The journal was not changed.",
    )


# Runs are in the order of their rows: a start time is wrong if the clock was set back.
_RUN_COLUMNS = "id, kind, store, source, fingerprint, undoes, started, total, options, seal"
_RUNS = f"SELECT {_RUN_COLUMNS} FROM run ORDER BY rowid DESC"  # noqa: S608 - built from constants
_RUN = f"SELECT {_RUN_COLUMNS} FROM run WHERE id = ?"  # noqa: S608 - built from constants
_BODY = "SELECT id, plan, payload, body_seal FROM run WHERE id = ?"
_DELETE_UNSENT_RUN = """
DELETE FROM run WHERE id = ?
AND NOT EXISTS (SELECT 1 FROM change WHERE run = ? AND attempts > 0)
"""
_DELETE_RECORDS = (
    "DELETE FROM change WHERE run = ?",
    "DELETE FROM attempt WHERE run = ?",
    "DELETE FROM known WHERE run = ?",
    "DELETE FROM sitting WHERE run = ?",
)
_MARK_KILLED = """
UPDATE sitting SET ended = ?, stopped = 'killed' WHERE run = ? AND number = ? AND ended = ''
"""
_RUN_OF_PROCESS = """
SELECT run FROM sitting WHERE pid = ? AND host = ? AND started >= ?
ORDER BY started DESC LIMIT 1
"""
_INSERT_SESSION = "INSERT INTO sitting (run, number, started, pid, host) VALUES (?, ?, ?, ?, ?)"


# Past runs, with their states and counts.


_OF_RUNS = "run IN (SELECT value FROM json_each(?))"
_SESSIONS = (
    "SELECT run, started, ended, stopped FROM sitting "  # noqa: S608 - built from constants
    f"WHERE {_OF_RUNS} ORDER BY run, number"
)
_PETS = (
    "SELECT run, count(DISTINCT coalesce(assigned_id, pet_id)) FROM change "  # noqa: S608 - built from constants
    f"WHERE {_OF_RUNS} AND outcome = 'applied' GROUP BY run"
)
_OUTCOME = """
CASE WHEN outcome != 'skipped' OR outcome IS NULL THEN outcome
WHEN cause IN ('already-so', 'already-gone') THEN 'unchanged' ELSE 'not sent' END
"""
"""SQL for the outcome of a change. petsync 0.2 wrote `skipped` for `unchanged` and `not sent`."""
_COUNTS = f"SELECT run, {_OUTCOME}, count(*) FROM change WHERE {_OF_RUNS} GROUP BY 1, 2"  # noqa: S608 - built from constants


def read_past_runs(connection: sqlite3.Connection, store: str | None = None) -> list[PastRun]:
    """Return all runs, or those on a store, the newest first."""
    return _read_past_runs(connection, read_runs(connection, store))


def read_past_run(connection: sqlite3.Connection, run: Run) -> PastRun:
    """Return a run with its state and counts."""
    (found,) = _read_past_runs(connection, [run])
    return found


def _read_past_runs(connection: sqlite3.Connection, runs: Sequence[Run]) -> list[PastRun]:
    wanted = (msgspec.json.encode([run.id for run in runs]).decode(),)
    locks = {store: read_lock(connection, store) for store in {run.store for run in runs}}
    sessions: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    counts: dict[str, Counter[str | None]] = defaultdict(Counter)
    for run_id, started, ended, stopped in connection.execute(_SESSIONS, wanted):
        sessions[run_id].append((started, ended, stopped))
    for run_id, outcome, number in connection.execute(_COUNTS, wanted):
        counts[run_id][outcome] = number
    pets = dict(connection.execute(_PETS, wanted))
    return [
        _build_past_run(
            run, sessions[run.id], locks[run.store], counts[run.id], pets.get(run.id, 0)
        )
        for run in runs
    ]


def _build_past_run(
    run: Run,
    sessions: Sequence[tuple[str, str, str]],
    lock: Lock | None,
    counts: Counter[str | None],
    pets: int,
) -> PastRun:
    own_lock = lock if lock is not None and lock.run == run.id else None
    state, stopped, ended = _run_state(sessions, own_lock)
    counts["not sent"] = run.total - sum(counts.values()) + counts["not sent"]
    durations = [
        seconds_between(began, end or _format_heartbeat(own_lock)) for began, end, _ in sessions
    ]
    return PastRun(
        run_id=run.id,
        kind=run.kind,
        store=run.store,
        source=run.source,
        fingerprint=run.fingerprint,
        undoes=run.undoes,
        started=run.started,
        ended=ended,
        seconds=round(sum(durations), 3),
        state=state,
        stopped=stopped,
        total=run.total,
        counts={outcome: counts[outcome] for outcome in OUTCOMES},
        open=counts[None],
        pets=pets,
        sessions=len(sessions),
    )


def _run_state(
    sessions: Sequence[tuple[str, str, str]], lock: Lock | None
) -> tuple[Literal["running", "stopped", "done"], str, str]:
    """Return the state of a run, the reason why it stopped, and the time of its end."""
    _, ended, stopped = sessions[-1] if sessions else ("", "", "killed")
    if ended:
        return ("stopped" if stopped else "done"), stopped, ended
    if lock is not None and lock.is_alive:
        return "running", "", ""
    return "stopped", "killed", _format_heartbeat(lock)


def _format_heartbeat(lock: Lock | None) -> str:
    return "" if lock is None else format_time(lock.heartbeat)


# The report of a run, from its journal.


_STOP_REASONS = {"running": "it is still running", "killed": "the process was killed"}


def rebuild_report(past: PastRun, plan: Plan, entries: Iterable[Entry]) -> Report:
    """Return the report of a run so far, from the entries of its journal."""
    stopped = _STOP_REASONS.get(past.stopped or past.state, past.stopped)
    results = RunResults(plan.changes)
    for entry in entries:
        results[entry.number] = build_result(entry, plan.changes[entry.number])
    return Report(
        run_id=past.run_id,
        plan=plan,
        started=past.started,
        seconds=past.seconds,
        results=collect_results(plan, results, stopped),
        stopped=stopped,
    )


# Records: which row without an id became which pet.


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """A row without an id."""

    row: int
    above: int | None = None
    below: int | None = None
    pet_id: int | None = None
    """The id of the row's pet, if known."""
    row_pet: Pet | None = None
    """The row's values; None if an earlier run recorded them, or if the row neither has a pet nor
    may refer to one.
    """
    run: str = ""
    """The id of the run that recorded the row's pet."""
    on: str = ""
    """The local date of that run."""
    action: str = ""
    """The row's action; "" for `merge`."""
    open: Literal["", "change", "held"] = ""
    """"held" if the row has a conflict or is blocked, "change" if the run changes its pet, else "".
    """
    may_be: tuple[Identity, ...] = ()
    """The pets that a row in conflict may refer to."""
    fixed_in: str = ""
    """See `Slot.fixed_in`."""


class _Rows(msgspec.Struct, frozen=True):
    """The payload of a run: the rows without an id of its sheet."""

    tab: str = ""
    digest: str = ""
    base: str = ""
    rows: list[_Row] = []
    seen: str = ""
    """The time when the plan was made, if the plan covers all rows of the sheet; else ""."""
    vacant: tuple[VacantId, ...] = ()
    """The rows with an id that no pet had."""
    categories: dict[int, Category] = {}
    """The entries of `Plan.categories` for rows without an id."""
    source_rows: dict[int, SourceRow] = {}
    """See `Plan.source_rows`."""


_Place = tuple[str, str]
"""A file and the worksheet in it."""
_ANYWHERE: _Place = ("", "")


class LaterRun(NamedTuple):
    """The newest later run of a sheet, and the rows of the sheet that other runs have added."""

    run_id: str
    added: Sequence[RowRecord]


class _RunOrigin(NamedTuple):
    """The sheet of a run, and the start of the run. `seen` is as in `_Rows`."""

    source: str
    digest: str
    base: str
    started: str
    seen: str


class RunSheet(NamedTuple):
    """The sheet of a run on a store.

    `digest` is the SHA-256 of the sheet's bytes, and `base` the time of its export or "". `known`
    has the ids that the run knows of the pets of rows without an id.
    """

    run_id: str
    store: str
    started: str
    source: str
    digest: str
    base: str = ""
    known: frozenset[int] = frozenset()

    def is_of(self, source: str, digest: str, base: str) -> bool:
        """Return true if the other sheet is this one, or a copy or another version of it."""
        is_same = digest == self.digest or real_path(source) == real_path(self.source)
        return bool(digest and self.digest) and (is_same or bool(base and base == self.base))

    def may_have_row_of(self, record: RowRecord) -> bool:
        """Return true if the record may be about a row of this sheet that another run added."""
        is_new = record.state == "added" and record.pet_id not in self.known
        return is_new and self.is_of(record.source, record.digest, record.base)


def build_row_payload(plan: Plan) -> bytes:
    """Return the payload of a run, from which later runs recognise the rows of its sheet. It is b""
    if there is nothing to record.
    """
    slots = plan.slots.keys()
    updates = {
        each.row: each.after
        for each in (plan.changes if slots else ())
        if isinstance(each, Update) and each.row in slots
    }
    adds = {
        each.row
        for each in (plan.changes if Tally.of(plan.changes).unassigned else ())
        if isinstance(each, Add) and each.pet_id is None
    }
    held_rows = {each.row for each in plan.conflicts} | {each.row for each in plan.blocked}
    rows = [
        _Row(
            row=row,
            above=slot.above,
            below=slot.below,
            pet_id=plan.recognised.get(row),
            row_pet=slot.row_pet or updates.get(row),
            run=slot.run,
            on=slot.on,
            action=slot.action,
            open="held" if row in held_rows else "change" if row in updates else "",
            may_be=slot.may_be,
            fixed_in=slot.fixed_in or "",
        )
        for row, slot in plan.slots.items()
    ]
    seen_at = plan.created if _knows_all_rows(plan) else ""
    source_rows = dict(plan.source_rows or {})
    if rows or adds or source_rows:
        sheet_rows = _Rows(
            tab=plan.tab,
            digest=plan.source_digest,
            base=plan.base,
            rows=rows,
            seen=seen_at,
            vacant=plan.vacant,
            categories={
                row: each for row, each in plan.categories.items() if row in adds or row in slots
            },
            source_rows=source_rows,
        )
    elif seen_at and plan.source_digest:
        sheet_rows = _Rows(tab=plan.tab, seen=seen_at)
    else:
        return b""
    return zlib.compress(msgspec.json.encode(sheet_rows), 1)


def _knows_all_rows(plan: Plan) -> bool:
    """Return true if the plan covers all rows of the sheet, and knows the pet of each row."""
    is_held = any(c.row is not None and c.rule != "both-changed" for c in plan.conflicts)
    is_blocked = any(each.pet_id is None for each in plan.blocked)
    return not (is_held or is_blocked or plan.ignored or plan.left_out)


def read_row_records(
    connection: sqlite3.Connection, store: str, *, with_undone: bool = False
) -> list[RowRecord]:
    """Return what runs on the store recorded about rows without an id, the newest first.

    Rows whose pets an undo removed are included, and marked, only with `with_undone`. Rows that a
    run tried to add without success are left out.
    """
    found: list[RowRecord] = []
    removed: dict[int, list[RowRecord]] = {}
    undone: set[str] = set()
    known: dict[tuple[_Place, int | None], Pet] = {}
    agreed: dict[tuple[_Place, int | None], Pet] = {}
    categories: dict[tuple[_Place, int | None], Category | None] = {}
    added: set[tuple[str, int | None]] = set()
    seen_at: dict[_Place, str] = {}
    for run, kind, source, undoes, started, payload in connection.execute(_RUNS_OF_STORE, (store,)):
        if kind == "undo":
            deleted, restored = (
                _applied_pets(connection, run, "delete"),
                _applied_pets(connection, run, "add"),
            )
            if deleted:
                undone.add(undoes)
            if with_undone:
                found = _mark_undone(
                    _mark_undone(found, deleted, is_undone=True), restored, is_undone=False
                )
                continue
            for pet_id in deleted:
                removed[pet_id] = [each for each in found if each.pet_id == pet_id]
            found = [each for each in found if each.pet_id not in deleted]
            for pet_id in restored:
                found += removed.pop(pet_id, [])
            continue
        sheet_rows = _decode_rows(run, payload)
        seen_at[source, sheet_rows.tab] = max(
            seen_at.get((source, sheet_rows.tab), ""), sheet_rows.seen
        )
        date = datetime.fromisoformat(started).astimezone().date().isoformat()
        records = list(
            _iter_records(
                connection,
                run,
                _RunOrigin(source, sheet_rows.digest, sheet_rows.base, started, sheet_rows.seen),
                date,
                sheet_rows,
                known,
                agreed,
                categories,
            )
        )
        for each in records:
            # Another file may have other values for the same pet.
            for place in (_ANYWHERE, (each.source, each.tab)):
                agreed[place, each.pet_id] = each.last_agreed
                known[place, each.pet_id] = each.row_pet
                categories[place, each.pet_id] = each.category
        added |= {(run, each.pet_id) for each in records if each.run_id == run and each.is_added}
        found += [
            each
            if each.is_added or (each.run_id, each.pet_id) not in added
            else msgspec.structs.replace(each, is_added=True)
            for each in records
        ]
    return [
        msgspec.structs.replace(each, seen=max(each.seen, seen_at.get((each.source, each.tab), "")))
        for each in reversed(found)
        if each.state != "unsent" or each.run_id not in undone
    ]


def _mark_undone(
    records: Iterable[RowRecord], pets: Container[int | None], *, is_undone: bool
) -> list[RowRecord]:
    return [
        msgspec.structs.replace(each, is_undone=is_undone) if each.pet_id in pets else each
        for each in records
    ]


def read_run_sheet(connection: sqlite3.Connection, run_id: str) -> RunSheet | None:
    """Return the sheet of a run; None if there is no such run."""
    row = connection.execute(_RUN_SHEET, (run_id,)).fetchone()
    if row is None:
        return None
    store, source, started, payload = row
    sheet_rows = _decode_rows(run_id, payload)
    known = {each.pet_id for each in sheet_rows.rows if each.pet_id is not None}
    known.update(each[0] for each in connection.execute(_ASSIGNED, (run_id,)))
    return RunSheet(
        run_id, store, started, source, sheet_rows.digest, sheet_rows.base, frozenset(known)
    )


def read_undone_adds(connection: sqlite3.Connection, store: str) -> dict[int, str]:
    """Return the undone run's id for each pet that an undo removed and no later run added again, by
    pet id.
    """
    removed: dict[int, str] = {}
    for run, kind, _, undoes, _, _ in connection.execute(_RUNS_OF_STORE, (store,)).fetchall():
        if kind == "undo":
            removed |= dict.fromkeys(_applied_pets(connection, run, "delete"), undoes)
        for pet_id in _applied_pets(connection, run, "add"):
            removed.pop(pet_id, None)
    return removed


def read_restored(connection: sqlite3.Connection, store: str) -> dict[int, RestoredPet]:
    """Return the pets that undos changed or added again, with their values after the newest undo,
    by id. An undo of an undo has the sheet of the first run.
    """
    undone = {
        (run, int(pet_id)): (kind, source, after)
        for run, pet_id, kind, source, after in connection.execute(_UNDONE_CHANGES, (store,))
    }
    found: dict[int, RestoredPet] = {}
    origins: dict[str, tuple[str, str]] = {}
    restored = connection.execute(_RESTORED, (store,)).fetchall()
    for run, undoes, started, pet_id, after, names in restored:
        kind, source, sent = undone.get((undoes, int(pet_id)), ("", "", None))
        if undoes not in origins:
            head = _plan_head(connection, undoes)
            origins[undoes] = source, "" if head is None else head.base
        origins[run] = origins[undoes]
        found[int(pet_id)] = RestoredPet(
            undoes,
            run,
            _pet_decoder.decode(after),
            at=started,
            source=origins[undoes][0],
            kind=kind,
            sent=None if sent is None else _pet_decoder.decode(sent),
            fields=tuple(names.split()) if kind == "update" else (),
            base=origins[undoes][1],
            earlier=found.get(int(pet_id)),
        )
    return found


class _PlanClash(msgspec.Struct, frozen=True):
    """The part of a clash that is read from a saved plan."""

    column: str


class _PlanConflict(msgspec.Struct, frozen=True):
    """The part of a conflict that is read from a saved plan: it shows what was not sent."""

    pet_id: int | None = None
    winner: str = ""
    clashes: tuple[_PlanClash, ...] = ()


class _PlanHead(msgspec.Struct, frozen=True):
    """The part of a saved plan about its sheet and its conflicts."""

    base: str = ""
    tab: str = ""
    categories: Mapping[int, Category] = {}
    conflicts: tuple[_PlanConflict, ...] = ()


class _PlanChanges(msgspec.Struct, frozen=True):
    """The changes of a saved plan."""

    changes: tuple[Change, ...] = ()


def read_sent_runs(connection: sqlite3.Connection, store: str, base: str) -> list[SentRun]:
    """Return the runs of sheets with this base, the oldest first, with the changes that each run
    made or found already made.

    Changes that an undo reverted are left out, unless the undo was undone too.
    """
    since = datetime.fromisoformat(base)
    runs: dict[str, SentRun] = {}
    roots: dict[str, tuple[str, bool]] = {}
    hidden: dict[str, dict[tuple[str, int], frozenset[str]]] = {}
    for run, kind, source, undoes, started, _ in connection.execute(_RUNS_OF_STORE, (store,)):
        if datetime.fromisoformat(started) < since:
            continue
        if kind == "undo":
            root, is_undone = roots.get(undoes, (undoes, False))
            roots[run] = root, not is_undone
            undone = hidden.setdefault(root, {})
            for change, pet_id, names in connection.execute(_UNDONE, (run,)):
                kind_then = change if is_undone else _OPPOSITE.get(change, change)
                key, fields = (kind_then, int(pet_id)), frozenset(names.split())
                before = undone.pop(key, frozenset())
                fields_left = before - fields if is_undone else before | fields
                if fields_left or not is_undone:
                    undone[key] = fields_left
            continue
        head = _plan_head(connection, run)
        if head is not None and head.base == base:
            runs[run] = _sent_run(connection, run, source, head)
    return [_remove_undone(run, hidden.get(run.run, {})) for run in runs.values()]


def read_changed_ids(connection: sqlite3.Connection, store: str, since: str) -> set[int]:
    """Return the ids of the pets that runs on the store changed or may have changed since a time
    (ISO 8601).
    """
    ids = set[int]()
    for run in _runs_since(connection, store, since):
        ids.update(int(each[0]) for each in connection.execute(_CHANGED_IDS, {"run": run}))
    return ids


def read_deleted_ids(connection: sqlite3.Connection, store: str, since: str) -> set[int]:
    """Return the ids of the pets that runs on the store deleted since a time (ISO 8601)."""
    runs = _runs_since(connection, store, since)
    return {pet_id for run in runs for pet_id in _applied_pets(connection, run, "delete")}


def _runs_since(connection: sqlite3.Connection, store: str, since: str) -> list[str]:
    start = datetime.fromisoformat(since)
    runs = connection.execute(_RUNS_OF_STORE, (store,)).fetchall()
    return [run for run, *_, started, _ in runs if datetime.fromisoformat(started) >= start]


def _plan_head(connection: sqlite3.Connection, run: str) -> Plan | _PlanHead | None:
    return _unpack_plan(_read_body(connection, run)[0], _PlanHead)


def _sent_run(
    connection: sqlite3.Connection, run: str, source: str, head: Plan | _PlanHead
) -> SentRun:
    sent, unseen = list[Change](), list[Update]()
    entries = [_decode_entry(row) for row in connection.execute(_CHANGES_OF_RUN, (run,))]
    already = {each.number for each in entries if each.cause in ("already-so", "already-gone")}
    # The entries of these changes have no pets, so take the changes from the plan.
    planned = _read_changes(connection, run) if already else ()
    for entry in entries:
        change = _build_change(entry)
        if entry.number in already and entry.number < len(planned):
            change = planned[entry.number]
            sent += [change] if change.pet_id is not None else []
        elif change is not None and entry.outcome == "applied":
            sent.append(change)
        elif isinstance(change, Update) and entry.intended:
            unseen.append(change)
    held = frozenset(
        (conflict.pet_id, clash.column)
        for conflict in head.conflicts
        if conflict.pet_id is not None and conflict.winner != "sheet"
        for clash in conflict.clashes
    )
    return SentRun(run, source, head.tab, tuple(sent), tuple(unseen), head.categories, held)


def _read_changes(connection: sqlite3.Connection, run: str) -> Sequence[Change]:
    """Return the changes of the run's plan; () if they cannot be read."""
    plan = _unpack_plan(_read_body(connection, run)[0], _PlanChanges)
    return () if plan is None else plan.changes


def _build_change(entry: Entry) -> Change | None:
    """Return the change of an entry, with the pets from the journal; None if they are incomplete,
    or if the service assigned another id to an add than the row's.
    """
    row, source, before, after = entry.row, entry.source, entry.before, entry.after
    if entry.kind == "delete" and before is not None:
        return Delete(row=row, source=source, before=before)
    pet_id = entry.assigned_id if entry.pet_id is None else entry.pet_id
    if pet_id is None or after is None:
        return None
    if entry.kind == "update" and before is not None:
        return Update(row=row, source=source, fields=entry.fields, before=before, after=after)
    if entry.kind == "add" and entry.assigned_id in (None, pet_id):
        pet = msgspec.structs.replace(after, id=pet_id)
        return Add(row=row, source=source, fields=entry.fields, after=pet)
    return None


def _remove_undone(run: SentRun, undone: dict[tuple[str, int], frozenset[str]]) -> SentRun:
    """Return the run without undone changes. `undone` has the undone fields, by kind and pet id."""
    changes = list[Change]()
    for change in run.sent:
        key = change.kind, change.pet_id or 0
        if isinstance(change, Update):
            fields = tuple(each for each in change.fields if each not in undone.get(key, ()))
            changes += [msgspec.structs.replace(change, fields=fields)] if fields else []
        elif key not in undone:
            changes.append(change)
    return run._replace(sent=tuple(changes))


def read_renumbered(connection: sqlite3.Connection, store: str) -> dict[int, RenumberedPet]:
    """Return the pets that were added with an id but got another one from the service, by the id
    with which they were added. Of several pets added with the same id, the latest counts.
    """
    return {
        int(pet_id): RenumberedPet(
            int(assigned),
            datetime.fromisoformat(started).astimezone().date().isoformat(),
            source,
            _pet_decoder.decode(after).name or "",
        )
        for pet_id, assigned, started, source, after in connection.execute(_RENUMBERED, (store,))
    }


def read_fixed_rows(connection: sqlite3.Connection, store: str) -> dict[int, tuple[SourceRow, ...]]:
    """Return the pets that runs on the store updated from workbooks of failed rows, by id, each
    with the rows from which the workbooks' rows were copied, the newest first. Runs that were
    undone are left out.
    """
    found: list[tuple[str, int, SourceRow]] = []
    undone: set[str] = set()
    for run, kind, _, undoes, _, payload in connection.execute(_RUNS_OF_STORE, (store,)).fetchall():
        if kind == "undo":
            undone.add(undoes)
            continue
        source_rows = _decode_rows(run, payload).source_rows
        updated = _applied_pets(connection, run, "update") if source_rows else set()
        found += [
            (run, origin.pet_id, origin)
            for origin in source_rows.values()
            if origin.pet_id is not None and origin.pet_id in updated
        ]
    fixed: dict[int, tuple[SourceRow, ...]] = {}
    for run, pet_id, origin in reversed(found):
        if run not in undone:
            fixed[pet_id] = (*fixed.get(pet_id, ()), origin)
    return fixed


def read_removed(connection: sqlite3.Connection, store: str) -> dict[int, RemovedPet]:
    """Return the pets that runs, including undos, deleted, by id. A pet is left out if a later run
    added a pet with this id.
    """
    deletes = {each[0]: each for each in connection.execute(_DELETED_PETS, (store,))}
    if not deletes:
        return {}
    ids = msgspec.json.encode([*deletes]).decode()
    for pet_id, order in connection.execute(_ADDED_PETS, (store, ids)):
        if pet_id in deletes and order > deletes[pet_id][2]:
            del deletes[pet_id]
    return {
        pet_id: RemovedPet(
            run,
            datetime.fromisoformat(started).astimezone().date().isoformat(),
            _pet_decoder.decode(before),
            undoes or "",
        )
        for pet_id, started, _, run, undoes, before in deletes.values()
    }


def read_reused(connection: sqlite3.Connection, store: str) -> dict[int, ReusedId]:
    """Return the pets to which the service assigned an id that another row of the same sheet has,
    by id. A pet is left out if a later run added a pet with this id.
    """
    found: dict[int, ReusedId] = {}
    runs = connection.execute(_RUNS_OF_STORE, (store,)).fetchall()
    for run, kind, _, _, started, payload in runs:
        # An undo does not count: it may have added the same pet again.
        for pet_id in _applied_pets(connection, run, "add") if found and kind == "apply" else ():
            found.pop(pet_id, None)
        # A run without a payload has no rows without an id. Skip it, because journals may be long.
        assigned = connection.execute(_ASSIGNED_ADDS, (run,)).fetchall() if payload else ()
        if not assigned:
            continue
        vacant: dict[int, list[VacantId]] = {}
        for each in _decode_rows(run, payload).vacant:
            vacant.setdefault(each.pet_id, []).append(each)
        ids = {int(each[0]) for each in assigned}
        for change, pet_id, row, cell, after in connection.execute(_NAMING, (run,)):
            if pet_id in ids:
                pet = None if after is None else _pet_decoder.decode(after)
                action = "delete" if change == "delete" else ""
                vacant_id = VacantId(
                    pet_id=pet_id, row=row, source=cell, row_pet=pet, action=action
                )
                vacant.setdefault(pet_id, []).append(vacant_id)
        date = datetime.fromisoformat(started).astimezone().date().isoformat()
        for pet_id, cell, after in assigned:
            found.pop(pet_id, None)
            if pet_id in vacant:
                pet = msgspec.structs.replace(_pet_decoder.decode(after), id=pet_id)
                found[pet_id] = ReusedId(date, cell, pet, tuple(vacant[pet_id]))
    return found


def find_later_run(connection: sqlite3.Connection, run: RunSheet) -> tuple[str, str] | None:
    """Return the start and the id of the newest run of the same sheet that started after this one;
    None if there is none, or if all rows of this run have ids.
    """
    if not run.digest:
        return None
    values = {"store": run.store, "run": run.run_id, "started": run.started}
    runs = connection.execute(_LATER_RUNS, values).fetchall()
    for started, other, source, payload in reversed(runs):
        sheet_rows = _decode_rows(other, payload)
        # The payload has no digest if all rows have ids.
        digest = sheet_rows.digest or _source_digest(connection, other)
        origins = ((o.source, o.digest, o.base) for o in sheet_rows.source_rows.values())
        if any(run.is_of(*each) for each in ((source, digest, sheet_rows.base), *origins)):
            return started, other
    return None


def _source_digest(connection: sqlite3.Connection, run_id: str) -> str:
    try:
        return read_plan(connection, run_id).source_digest
    except PlanError:
        return ""


def _iter_records(
    connection: sqlite3.Connection,
    run: str,
    origin: _RunOrigin,
    on: str,
    sheet_rows: _Rows,
    known: Mapping[tuple[_Place, int | None], Pet],
    agreed: Mapping[tuple[_Place, int | None], Pet],
    categories: Mapping[tuple[_Place, int | None], Category | None],
) -> Iterator[RowRecord]:
    updated = {int(each[0]) for each in connection.execute(_ARRIVED, (run,))}
    rows = {each.row: each for each in sheet_rows.rows}
    started = set()
    for values in connection.execute(_ADDS, (run,)):
        _check_entry(values)
        (_, number, _, _, row, cell, _, _, after, intended, *_), ending = values[:11], values[13:19]
        ended, outcome, cause, _, assigned, alike = ending
        at = intended if ended is None else ended
        if cause == "not-begun":
            continue
        started.add(number)
        is_sure = cause != "may-be-there"
        state = _row_state(outcome, cause, assigned)
        pet_id = assigned if state == "added" else None
        if not is_sure:
            pet_id = _pet_decoder.decode(alike).id
        if row is None or after is None or not state:
            continue
        place = rows.get(row, _Row(row))
        sent = msgspec.structs.replace(_pet_decoder.decode(after), id=None)
        record = RowRecord(
            run_id=run,
            on=on,
            tab=sheet_rows.tab or _tab_of_cell(cell),
            row=row,
            above=place.above,
            below=place.below,
            row_pet=msgspec.structs.replace(place.row_pet or sent, id=None),
            agreed=None if place.row_pet is None else sent,
            category=sheet_rows.categories.get(row),
            pet_id=pet_id,
            state=state,
            is_sure=is_sure,
            source=origin.source,
            digest=origin.digest,
            base=origin.base,
            at=at,
            run_started=origin.started,
            seen=origin.seen,
            action=place.action,
        )
        yield from _iter_at_source(record, sheet_rows.source_rows)
    for each in sheet_rows.rows:
        own, anywhere = ((origin.source, sheet_rows.tab), each.pet_id), (_ANYWHERE, each.pet_id)
        row_pet = each.row_pet or known.get(own) or known.get(anywhere)
        if row_pet is None or (each.pet_id is None and not each.may_be):
            continue
        is_agreed = not each.open or (each.open == "change" and each.pet_id in updated)
        record = RowRecord(
            run_id=each.run or run,
            on=each.on or on,
            tab=sheet_rows.tab,
            row=each.row,
            above=each.above,
            below=each.below,
            row_pet=msgspec.structs.replace(row_pet, id=None),
            agreed=None if is_agreed else agreed.get(own) or agreed.get(anywhere),
            category=(
                sheet_rows.categories.get(each.row)
                if each.open == "change"
                else categories.get(own, categories.get(anywhere))
            ),
            pet_id=each.pet_id,
            state="added" if each.pet_id is not None else "held",
            may_be=each.may_be,
            is_added=False,
            source=origin.source,
            digest=origin.digest,
            base=origin.base,
            run_started=origin.started,
            seen=origin.seen,
            action=each.action,
            fixed_in=each.fixed_in,
        )
        yield from _iter_at_source(record, {} if each.may_be else sheet_rows.source_rows)
    yield from _iter_unsent_rows(connection, run, on, rows, started, sheet_rows.tab, origin)


def _iter_at_source(record: RowRecord, source_rows: Mapping[int, SourceRow]) -> Iterator[RowRecord]:
    """Yield the record and, if its row was copied from another sheet, before it the same record for
    that sheet.
    """
    origin = source_rows.get(record.row)
    if origin is not None:
        yield msgspec.structs.replace(
            record,
            source=origin.source,
            tab=origin.tab,
            digest=origin.digest,
            base=origin.base,
            row=origin.row,
            above=origin.above,
            below=origin.below,
            action=origin.action,
            row_pet=origin.row_pet or record.row_pet,
            # A blocked row had no values on which both sides could agree.
            agreed=None if origin.row_pet else Pet(),
            category=origin.category,
            seen="",
            fixed_in=record.source,
        )
    yield record


def _iter_unsent_rows(
    connection: sqlite3.Connection,
    run: str,
    on: str,
    rows: dict[int, _Row],
    started: set[int],
    tab: str,
    origin: _RunOrigin,
) -> Iterator[RowRecord]:
    """Yield a record for each add without an id that an incomplete run has not started."""
    last = connection.execute(_LAST_SESSION, (run,)).fetchone()
    if last is not None and last[0] and not last[1]:
        return
    try:
        plan = read_plan(connection, run)
    except PlanError:
        return
    for number, change in enumerate(plan.changes):
        is_unassigned = isinstance(change, Add) and change.pet_id is None
        if not is_unassigned or number in started or change.row is None or change.after is None:
            continue
        place = rows.get(change.row, _Row(change.row))
        yield RowRecord(
            run_id=run,
            on=on,
            tab=tab or plan.tab,
            row=change.row,
            above=place.above,
            below=place.below,
            row_pet=place.row_pet or change.after,
            state="unsent",
            source=origin.source,
            digest=origin.digest,
            base=origin.base,
            run_started=origin.started,
            seen=origin.seen,
            action=place.action,
        )


def _row_state(
    outcome: str | None, cause: str | None, assigned: int | None
) -> Literal["added", "unknown", ""]:
    """Return the state of an add without an id; "" if no pet was added."""
    if assigned is not None and (outcome == "applied" or cause in _STORED):
        return "added"
    return "unknown" if outcome in (None, "unknown") else ""


def _decode_rows(run: str, payload: bytes) -> _Rows:
    """Return the rows in a payload, none if it has another format. Raises PetsyncError if it is
    damaged.
    """
    try:
        return decoder_of(_Rows).decode(zlib.decompress(payload)) if payload else _Rows()
    except zlib.error:
        raise _build_damaged_run_error(run) from None
    except msgspec.DecodeError:
        return _Rows()


def _applied_pets(connection: sqlite3.Connection, run: str, kind: str) -> set[int]:
    return {int(row[0]) for row in connection.execute(_APPLIED_PETS, (run, kind))}


def _tab_of_cell(cell: str) -> str:
    """Return the worksheet in a cell's address; "" if it has none."""
    tab, mark, _ = cell.rpartition("!")
    return tab.strip("'").replace("''", "'") if mark else ""


_OPPOSITE = {"add": "delete", "delete": "add"}
_STORED = frozenset({"not-as-sent", "unverified"})
"""The causes of results whose pet was stored, although the outcome is not `applied`."""
_pet_decoder = decoder_of(Pet)

_RUNS_OF_STORE = """
SELECT id, kind, source, undoes, started, payload FROM run
WHERE store = ? AND kind IN ('apply', 'undo') ORDER BY rowid
"""
_RUN_SHEET = "SELECT store, source, started, payload FROM run WHERE id = ?"
_LATER_RUNS = """
SELECT started, id, source, payload FROM run
WHERE store = :store AND kind = 'apply' AND CASE
WHEN EXISTS (SELECT 1 FROM run WHERE id = :run) THEN rowid > (SELECT rowid FROM run WHERE id = :run)
ELSE started >= :started END
ORDER BY rowid
"""
_ASSIGNED = "SELECT assigned_id FROM change WHERE run = ? AND assigned_id IS NOT NULL"
_ASSIGNED_ADDS = """
SELECT assigned_id, source, after FROM change
WHERE run = ? AND kind = 'add' AND pet_id IS NULL AND assigned_id IS NOT NULL
AND after IS NOT NULL AND (outcome = 'applied' OR cause IN ('not-as-sent', 'unverified'))
"""
_NAMING = """
SELECT kind, pet_id, row, source, after FROM change
WHERE run = ? AND pet_id IS NOT NULL AND row IS NOT NULL
AND NOT (kind = 'add' AND outcome IS 'applied')
"""
_APPLIED_PETS = """
SELECT pet_id FROM change WHERE run = ? AND kind = ? AND outcome = 'applied'
AND pet_id IS NOT NULL
"""
_CHANGED_IDS = """
SELECT pet_id FROM change WHERE run = :run AND pet_id IS NOT NULL
UNION SELECT assigned_id FROM change WHERE run = :run AND assigned_id IS NOT NULL
"""
_UNDONE = """
SELECT kind, coalesce(pet_id, assigned_id), fields FROM change
WHERE run = ? AND outcome = 'applied' AND coalesce(pet_id, assigned_id) IS NOT NULL
"""
_ARRIVED = f"""
SELECT pet_id FROM change WHERE run = ? AND kind = 'update' AND pet_id IS NOT NULL
AND {_OUTCOME} IN ('applied', 'unchanged')
"""  # noqa: S608 - built from constants
_RESTORED = """
SELECT run.id, undoes, started, coalesce(assigned_id, pet_id), after, fields
FROM run JOIN change ON change.run = run.id
WHERE store = ? AND run.kind = 'undo' AND change.kind IN ('update', 'add')
AND outcome = 'applied' AND coalesce(assigned_id, pet_id) IS NOT NULL
ORDER BY run.rowid
"""
_UNDONE_CHANGES = """
SELECT run.id, pet_id, change.kind, run.source, after FROM run JOIN change ON change.run = run.id
WHERE run.id IN (SELECT undoes FROM run WHERE store = ? AND kind = 'undo')
AND change.kind IN ('update', 'delete') AND outcome = 'applied'
"""
_DELETED_PETS = """
SELECT pet_id, started, run.rowid, run.id, undoes, before
FROM run JOIN change ON change.run = run.id
WHERE store = ? AND change.kind = 'delete' AND outcome = 'applied' AND before IS NOT NULL
ORDER BY run.rowid
"""
_ADDED_PETS = """
SELECT coalesce(assigned_id, pet_id), run.rowid
FROM run JOIN change ON change.run = run.id
WHERE store = ? AND change.kind = 'add' AND outcome = 'applied'
AND coalesce(assigned_id, pet_id) IN (SELECT value FROM json_each(?))
"""
_RENUMBERED = """
SELECT pet_id, assigned_id, started, run.source, after
FROM run JOIN change ON change.run = run.id
WHERE store = ? AND change.kind = 'add' AND assigned_id != pet_id
AND (outcome = 'applied' OR cause IN ('not-as-sent', 'unverified'))
ORDER BY run.rowid
"""
_LAST_SESSION = "SELECT ended, stopped FROM sitting WHERE run = ? ORDER BY number DESC LIMIT 1"


# Entries as rows of the table `change`.


Row = tuple[Any, ...]

_COLUMNS = "run, number, kind, pet_id, row, source, fields, before, after, intended, digest"
_OUTCOME_COLUMNS = "ended, outcome, cause, message, assigned_id, found"
_WRITE_COLUMNS = f"{_COLUMNS}, seal, attempts, {_OUTCOME_COLUMNS}, outcome_seal"
_READ_COLUMNS = f"{_WRITE_COLUMNS}, {_OUTCOME}"

INSERT_INTENT = f"""
INSERT INTO change ({_COLUMNS}, seal, attempts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (run, number) DO UPDATE SET
    kind = excluded.kind, pet_id = excluded.pet_id, row = excluded.row, source = excluded.source,
    fields = excluded.fields, before = excluded.before, after = excluded.after,
    intended = excluded.intended, digest = excluded.digest, seal = excluded.seal,
    attempts = attempts + 1, ended = NULL, outcome = NULL, cause = NULL, message = NULL,
    assigned_id = NULL, found = NULL, outcome_seal = NULL
"""  # noqa: S608 - built from constants
"""Records that a change is about to be sent, for the first time or again."""

INSERT_RESULT = f"""
INSERT INTO change ({_WRITE_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, number) DO UPDATE SET
    ended = excluded.ended, outcome = excluded.outcome, cause = excluded.cause,
    message = excluded.message, assigned_id = excluded.assigned_id, found = excluded.found,
    outcome_seal = excluded.outcome_seal
"""  # noqa: S608 - built from constants
"""Records the result of a change, which replaces an earlier result."""

INSERT_REPLACEMENT = (
    f"{INSERT_RESULT.rstrip()},\n    before = excluded.before, after = excluded.after, "
    "intended = excluded.intended, seal = excluded.seal\n"
)
"""Records the result of an add whose pet replaced another one; `before` has the replaced pet."""

INSERT_RETRY = """
INSERT INTO attempt (run, number, attempt, at, why)
SELECT run, number, attempts + 1, ?, ? FROM change WHERE run = ? AND number = ?
"""

_CHANGES_OF_RUN = f"SELECT {_READ_COLUMNS} FROM change WHERE run = ? ORDER BY number"  # noqa: S608 - built from constants
_ADDS = f"""
SELECT {_READ_COLUMNS} FROM change WHERE run = ? AND kind = 'add' AND pet_id IS NULL ORDER BY number
"""  # noqa: S608 - built from constants

# A run that has changes but no row in `run`. The recursion finds each run in the index, which is
# faster than reading all changes.
_ORPHAN_RUN = """
WITH RECURSIVE each (run) AS (
    SELECT min(run) FROM change
    UNION ALL
    SELECT (SELECT min(run) FROM change WHERE change.run > each.run) FROM each
    WHERE each.run IS NOT NULL
)
SELECT run FROM each WHERE run IS NOT NULL AND run NOT IN (SELECT id FROM run) LIMIT 1
"""

_pet_encoder = msgspec.json.Encoder()


def build_intent_row(
    run: str, at: float, number: int, change: Change, before: Pet | None, after: Pet | None
) -> Row:
    """Return the values for INSERT_INTENT."""
    values = (
        run,
        number,
        change.kind,
        change.pet_id,
        change.row,
        change.source,
        " ".join(change.fields),
        _encode_pet(before),
        _encode_pet(after),
        format_time(at),
        "",
    )
    return (*values, row_checksum(values))


def build_result_row(
    run: str, at: float, result: Result, found: Pet | None, replaced: Pet | None = None
) -> Row:
    """Return the values for INSERT_RESULT or, if a pet was replaced, for INSERT_REPLACEMENT."""
    values = (
        run,
        result.number,
        result.kind,
        result.pet_id,
        result.row,
        result.source,
        " ".join(result.fields),
        _encode_pet(replaced),
        None if replaced is None else _encode_pet(found),
        "" if replaced is None else format_time(at),
        "",
    )
    ending = (
        format_time(at),
        result.outcome,
        result.cause,
        result.message,
        result.assigned_id,
        _encode_pet(found),
    )
    return _add_checksums(values, ending)


def build_entry_intent_row(run: str, entry: Entry) -> Row:
    """Return the values for INSERT_INTENT."""
    values = _entry_columns(run, entry)
    return (*values, row_checksum(values))


def build_entry_result_row(run: str, ended: str, entry: Entry, found: Pet | None = None) -> Row:
    """Return the values for INSERT_RESULT."""
    ending = (
        ended,
        entry.outcome,
        entry.cause,
        entry.message,
        entry.assigned_id,
        _encode_pet(found),
    )
    return _add_checksums(_entry_columns(run, entry), ending)


def _entry_columns(run: str, entry: Entry) -> Row:
    return (
        run,
        entry.number,
        entry.kind,
        entry.pet_id,
        entry.row,
        entry.source,
        " ".join(entry.fields),
        _encode_pet(entry.before),
        _encode_pet(entry.after),
        entry.intended,
        entry.digest,
    )


def entries(connection: sqlite3.Connection, run: str) -> Iterator[Entry]:
    """Yield the entries of a run, in the order of their numbers.

    Raises PetsyncError for a damaged row, and if any change belongs to no run: its run's id may be
    damaged, and it may be a change of this run.
    """
    orphan = connection.execute(_ORPHAN_RUN).fetchone()
    if orphan is not None:
        raise _build_damaged_change_error(f"it has changes of a missing run {orphan[0]}")
    return map(_decode_entry, connection.execute(_CHANGES_OF_RUN, (run,)))


def _add_checksums(values: Row, ending: Row) -> Row:
    return (
        *values,
        row_checksum(values),
        *ending,
        _outcome_checksum(values, ending),
    )


def _outcome_checksum(values: Row, ending: Row) -> int:
    return row_checksum((*values[:2], *ending))


def _decode_entry(row: Row) -> Entry:
    _check_entry(row)
    return _build_entry(row[:11], row[12], row[13:19], row[20])


def _check_entry(row: Row) -> None:
    """Raise PetsyncError if a row with `_READ_COLUMNS` does not match its checksums."""
    values, checksum, ending, ending_checksum = row[:11], row[11], row[13:19], row[19]
    try:
        is_open = ending_checksum is None and not any(ending)
        is_valid = checksum == row_checksum(values) and (
            is_open or ending_checksum == _outcome_checksum(values, ending)
        )
    except (ValueError, TypeError):
        is_valid = False
    if not is_valid:
        problem = f"change {row[1]} of run {row[0]} does not match its checksum"
        raise _build_damaged_change_error(problem)


def _build_damaged_change_error(problem: str) -> PetsyncError:
    return PetsyncError(
        f"the journal is damaged: {problem}",
        hint="Check the pets of that run in the store. The journal was not changed.",
    )


def _build_entry(values: Row, attempts: int, ending: Row, outcome: Outcome | None) -> Entry:
    _, number, kind, pet_id, place, source, fields, before, after, intended, digest = values
    ended, _, cause, message, assigned, found = ending
    return Entry(
        number=number,
        kind=kind,
        row=place,
        source=source,
        pet_id=pet_id,
        fields=tuple(fields.split()),
        before=_decode_pet(before),
        after=_decode_pet(after if found is None else found),
        intended=intended,
        seconds=seconds_between(intended, ended or ""),
        attempts=attempts,
        outcome=outcome,
        cause=cause or "",
        message=message or "",
        assigned_id=assigned,
        digest=digest,
    )


def _encode_pet(pet: Pet | None) -> str | None:
    return None if pet is None else _pet_encoder.encode(pet).decode()


def _decode_pet(text: str | None) -> Pet | None:
    return None if text is None else _pet_decoder.decode(text)
