"""Rows of the journal as values, and back: runs, changes, and which sheet row became which pet."""

from __future__ import annotations

import hashlib
import logging
import os
import os.path
import platform
import secrets
import sqlite3
import time
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from petsync._files import check_state_folder, make_private_folder, read_ordinary, write_private
from petsync.apply.engine import result_in
from petsync.apply.journal.schema import NAME, Lock, claim, iso, read_lock, seal, seconds_between
from petsync.errors import PetsyncError, PlanError
from petsync.models import Category, Pet
from petsync.plan.base import SentRun
from petsync.plan.change import Add, Change, Delete, Update
from petsync.plan.lineage import (
    Identity,
    RemovedPet,
    RenumberedPet,
    RestoredPet,
    ReusedId,
    RowRecord,
    VacantId,
)
from petsync.plan.plan import PLAN_FORMAT, Plan
from petsync.plan.report import (
    OUTCOMES,
    Entry,
    Outcome,
    PastRun,
    Report,
    Result,
    RunKind,
    result_of,
    without_request,
)

__all__ = [
    "ENDED",
    "INTENDED",
    "REPEATED",
    "REPLACED",
    "LaterRun",
    "Row",
    "Run",
    "RunSheet",
    "begun_row",
    "done_row",
    "ended_row",
    "entries",
    "free_id",
    "insert_run",
    "intended_row",
    "known_ids",
    "later_run",
    "note_journal",
    "other_journals",
    "pack_plan",
    "past",
    "pasts",
    "read_payload",
    "read_plan",
    "read_renumbered",
    "read_restored",
    "read_reused",
    "read_run",
    "read_runs",
    "rebuild_report",
    "row_payload",
    "row_records",
    "run_of_process",
    "sent_runs",
    "sheet_of_run",
    "sit_down",
    "taken_away",
    "undone_adds",
    "used_by",
]


# Which state folders hold runs on a store: a note for each, in the user's own state folder.
#
# The journal of a state folder knows which row of which sheet became which pet. The same sheet
# may be applied from another current folder, which has another journal: by these notes each
# journal finds the others.


_LOG = logging.getLogger(__name__)
_KEPT_S = 90 * 86_400
"""How long the note on a journal is kept that is not there, as its drive may come back."""


class _Note(msgspec.Struct, frozen=True):
    """That a state folder has runs on a store which added pets without an id."""

    store: str
    state: str


def note_journal(store: str, state: Path) -> None:
    """Note that the state folder has runs on the store. Where nothing can be written, nothing is:
    the journal itself is what counts.
    """
    note = _Note(store, os.path.realpath(state))
    folder = _folder()
    if folder is None:
        return
    try:
        make_private_folder(folder)
        name = f"{_note_name(store)}-{_note_name(note.state)}.json"
        write_private(folder / name, msgspec.json.encode(note), follow=False)
        _remove_old(folder)
    except (OSError, UnicodeEncodeError) as error:
        _LOG.info("%s cannot be written: %s", folder, error)


def other_journals(store: str, state: Path) -> Iterator[Path]:
    """The journals of the user's other state folders that have runs on the store."""
    own, folder = os.path.realpath(state), _folder()
    for _, note in () if folder is None else _notes(folder, f"{_note_name(store)}-*.json"):
        other = Path(note.state)
        if note.store != store or note.state == own or not (other / NAME).exists():
            continue
        try:
            check_state_folder(other)
        except OSError as error:
            _LOG.warning("The runs in %s are not looked at: %s", other, error.strerror)
        else:
            yield other / NAME


def _folder() -> Path | None:
    """The folder of the notes, in the user's own state folder; None without a home."""
    given = Path(os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", ""))
    # A relative one does not count, as the XDG specification says.
    try:
        base = given if given.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return base / "petsync" / "journals"


def _notes(folder: Path, pattern: str) -> Iterator[tuple[Path, _Note]]:
    for path in sorted(folder.glob(pattern)):
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            yield path, msgspec.json.decode(read_ordinary(path), type=_Note)


def _remove_old(folder: Path) -> None:
    """Remove the notes on journals that have been gone for a while."""
    oldest = time.time() - _KEPT_S
    for path, note in _notes(folder, "*.json"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest and not Path(note.state, NAME).exists():
                path.unlink()


def _note_name(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]


# A run's row: what it was begun with, and who has sat down to work on it.


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


def free_id(connection: sqlite3.Connection, run_id: str) -> str:
    """The id, with another random end where a run that began in the same second has it."""
    while connection.execute(_RUN, (run_id,)).fetchone() is not None:
        run_id = f"{run_id.rpartition('-')[0]}-{secrets.token_hex(2)}"
    return run_id


def insert_run(
    connection: sqlite3.Connection, run: Run, *, plan: bytes | None = None, payload: bytes = b""
) -> None:
    """Write down what a run is begun with; `plan` is as `pack_plan` makes it."""
    about = msgspec.structs.astuple(run)
    body = (run.id, plan, payload)
    row = (*about, seal(about), *body[1:], seal(body))
    connection.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def pack_plan(pieces: Iterable[bytes]) -> bytes:
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
    if plan is None or plan.format != PLAN_FORMAT:
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
        raise _damaged_run(run)
    return frozenset(msgspec.json.decode(row[1], type=list[int]))


def used_by(connection: sqlite3.Connection, fingerprint: str) -> str | None:
    """The run that was begun with the plan of that fingerprint."""
    row = connection.execute("SELECT id FROM run WHERE fingerprint = ?", (fingerprint,)).fetchone()
    return None if row is None else str(row[0])


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
        raise _damaged_run(run_id)
    return row[1], row[2]


def _run(row: tuple[Any, ...]) -> Run:
    *about, sealed = row
    try:
        if seal(tuple(about)) == sealed:
            return Run(**dict(zip(Run.__struct_fields__, about, strict=True)))
    except (ValueError, TypeError):
        pass
    raise _damaged_run(str(row[0]))


def _damaged_run(run: str) -> PetsyncError:
    return PetsyncError(
        f"the journal is damaged: what it says of run {run} does not add up",
        hint="Plan again from the sheet. Nothing was changed in the journal.",
    )


_RUN_COLUMNS = "id, kind, store, source, fingerprint, undoes, started, total, options, seal"
_RUNS = f"SELECT {_RUN_COLUMNS} FROM run ORDER BY started DESC, rowid DESC"  # noqa: S608 - of constants
_RUN = f"SELECT {_RUN_COLUMNS} FROM run WHERE id = ?"  # noqa: S608 - of constants
_BODY = "SELECT id, plan, payload, body_seal FROM run WHERE id = ?"
_KILLED = """
UPDATE sitting SET ended = ?, stopped = 'killed' WHERE run = ? AND number = ? AND ended = ''
"""
_OWN = """
SELECT run FROM sitting WHERE pid = ? AND host = ? AND started >= ?
ORDER BY started DESC LIMIT 1
"""
_SAT_DOWN = "INSERT INTO sitting (run, number, started, pid, host) VALUES (?, ?, ?, ?, ?)"


# The runs of a journal, as values.


_SITTINGS = "SELECT started, ended, stopped FROM sitting WHERE run = ? ORDER BY number"
_PETS = (
    "SELECT count(DISTINCT coalesce(assigned_id, pet_id)) FROM change "
    "WHERE run = ? AND outcome = 'applied'"
)
_OUTCOME = """
CASE WHEN outcome != 'skipped' OR outcome IS NULL THEN outcome
WHEN cause IN ('already-so', 'already-gone') THEN 'unchanged' ELSE 'not sent' END
"""
"""The outcome of a change: petsync 0.2 wrote `skipped` for `unchanged` and `not sent`."""
_COUNTS = f"SELECT {_OUTCOME}, count(*) FROM change WHERE run = ? GROUP BY 1"  # noqa: S608 - of constants


def pasts(connection: sqlite3.Connection, store: str | None) -> list[PastRun]:
    """All runs, or those of a store, the newest first."""
    return [past(connection, run) for run in read_runs(connection, store)]


def past(connection: sqlite3.Connection, run: Run) -> PastRun:
    """A run, and how far it has come."""
    sittings = connection.execute(_SITTINGS, (run.id,)).fetchall()
    lock = read_lock(connection, run.store)
    mine = lock if lock is not None and lock.run == run.id else None
    state, stopped, ended = _run_state(sittings, mine)
    counts = Counter(dict(connection.execute(_COUNTS, (run.id,))))
    counts["not sent"] = run.total - sum(counts.values()) + counts["not sent"]
    spent = [seconds_between(began, end or _format_heartbeat(mine)) for began, end, _ in sittings]
    return PastRun(
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


def _run_state(
    sittings: list[tuple[str, str, str]], lock: Lock | None
) -> tuple[Literal["running", "stopped", "done"], str, str]:
    """The state, why it stopped, and when it ended."""
    _, ended, stopped = sittings[-1] if sittings else ("", "", "killed")
    if ended:
        return ("stopped" if stopped else "done"), stopped, ended
    if lock is not None and lock.is_alive:
        return "running", "", ""
    return "stopped", "killed", _format_heartbeat(lock)


def _format_heartbeat(lock: Lock | None) -> str:
    """When its holder gave the last sign of life."""
    return "" if lock is None else iso(lock.heartbeat)


# A run's report, from what its journal knows.


_WHY = {"running": "it is still at work", "killed": "the process was killed"}


def rebuild_report(past: PastRun, plan: Plan, entries: Iterable[Entry]) -> Report:
    """The report of a run so far: changes without an entry are not begun, and those that were
    begun and have no outcome are unknown.
    """
    by_number = {entry.number: entry for entry in entries}
    stopped = _WHY.get(past.stopped or past.state, past.stopped)
    return Report(
        run_id=past.run_id,
        plan=plan,
        started=past.started,
        seconds=past.seconds,
        results=(*_results(plan, by_number, stopped), *without_request(plan)),
        stopped=stopped,
    )


def _results(plan: Plan, entries: dict[int, Entry], stopped: str) -> Iterator[Result]:
    why = "not begun, as the run was stopped" if stopped else "not begun"
    for number, change in enumerate(plan.changes):
        entry = entries.get(number)
        if entry is None:
            yield result_of(number, change, "not sent", "not-begun", why)
        else:
            yield result_in(entry, change)


# Which row of which sheet became which pet: what a run writes down of rows without an id.


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """A row without an id: its place, its pet if it was known, what it says if that is news, the
    run by which it is known, with that run's local date, and its action; "" for `merge`. `open` is
    what the run has to do with it: a "change", or it is "held" in a conflict or blocked. `may_be`
    are the pets of which a row in conflict may be one.
    """

    row: int
    above: int | None = None
    below: int | None = None
    pet_id: int | None = None
    said: Pet | None = None
    run: str = ""
    on: str = ""
    action: str = ""
    open: Literal["", "change", "held"] = ""
    may_be: tuple[Identity, ...] = ()


class _Rows(msgspec.Struct, frozen=True):
    """The rows without an id of a plan's sheet. `seen` is when the plan was made, if it has the pet
    of every such row or adds it; else "". `vacant` are the rows that named the id of no pet.
    `categories` are those of the plan, of the rows that it changes.
    """

    tab: str = ""
    digest: str = ""
    base: str = ""
    rows: list[_Row] = []
    seen: str = ""
    vacant: tuple[VacantId, ...] = ()
    categories: dict[int, Category] = {}


_Place = tuple[str, str]
"""A file, and the worksheet in it."""
_ANYWHERE: _Place = ("", "")


class LaterRun(NamedTuple):
    """The newest later run of a sheet, and the rows of that sheet whose pets are known since."""

    run_id: str
    added: Sequence[RowRecord]


class _RunOrigin(NamedTuple):
    """The sheet of a run, when the run began, and when it saw all of the sheet's rows."""

    source: str
    digest: str
    base: str
    started: str
    seen: str


class RunSheet(NamedTuple):
    """The sheet of a run on a store: its path, the SHA-256 of its bytes, the moment of its export
    (or ""), and the pets that the run knows of its rows without an id.
    """

    run_id: str
    store: str
    started: str
    source: str
    digest: str
    base: str = ""
    known: frozenset[int] = frozenset()

    def is_of(self, source: str, digest: str, base: str) -> bool:
        """Whether a run of that sheet is one of this sheet, or of a copy of it."""
        is_same = digest == self.digest or os.path.realpath(source) == os.path.realpath(self.source)
        return bool(digest and self.digest) and (is_same or bool(base and base == self.base))

    def may_have_left(self, record: RowRecord) -> bool:
        """Whether the record may be of a row that this run left: its pet came from elsewhere."""
        is_new = record.state == "added" and record.pet_id not in self.known
        return is_new and self.is_of(record.source, record.digest, record.base)


def row_payload(plan: Plan) -> bytes:
    """What a run is begun with beside its plan, so that the rows of its sheet are known later:
    where all have ids, when it saw them; b"" where it did not see all.
    """
    says = {each.row: each.after for each in plan.changes if isinstance(each, Update)}
    adds = {each.row for each in plan.changes if isinstance(each, Add) and each.pet_id is None}
    held = {each.row for each in plan.conflicts} | {each.row for each in plan.blocked}
    slots = plan.slots.keys()
    rows = [
        _Row(
            row=row,
            above=slot.above,
            below=slot.below,
            pet_id=plan.recognised.get(row),
            said=slot.said or says.get(row),
            run=slot.run,
            on=slot.on,
            action=slot.action,
            open="held" if row in held else "change" if row in says else "",
            may_be=slot.may_be,
        )
        for row, slot in plan.slots.items()
    ]
    seen = plan.created if _knows_all_rows(plan) else ""
    if rows or adds:
        kept = _Rows(
            tab=plan.tab,
            digest=plan.source_digest,
            base=plan.base,
            rows=rows,
            seen=seen,
            vacant=plan.vacant,
            categories={
                row: each for row, each in plan.categories.items() if row in adds or row in slots
            },
        )
    elif seen and plan.source_digest:
        kept = _Rows(tab=plan.tab, seen=seen)
    else:
        return b""
    return zlib.compress(msgspec.json.encode(kept), 1)


def _knows_all_rows(plan: Plan) -> bool:
    """Whether no row of the sheet may be that of any other pet than the plan says."""
    is_held = any(c.row is not None and c.rule != "both-changed" for c in plan.conflicts)
    is_blocked = any(each.pet_id is None for each in plan.blocked)
    return not (is_held or is_blocked or plan.ignored or plan.left_out)


def row_records(
    connection: sqlite3.Connection, store: str, *, with_undone: bool = False
) -> list[RowRecord]:
    """What runs on the store knew of rows without an id, the newest first. Rows whose pets an undo
    took away are there only `with_undone`, and say so; those of which a run knew that nothing was
    added are not there.
    """
    found: list[RowRecord] = []
    buried: dict[int, list[RowRecord]] = {}
    undone: set[str] = set()
    known: dict[tuple[_Place, int | None], Pet] = {}
    agreed: dict[tuple[_Place, int | None], Pet] = {}
    categories: dict[tuple[_Place, int | None], Category | None] = {}
    added: set[tuple[str, int | None]] = set()
    seen: dict[_Place, str] = {}
    for run, kind, source, undoes, started, payload in connection.execute(_RUNS_OF_STORE, (store,)):
        if kind == "undo":
            deleted, restored = _pets(connection, run, "delete"), _pets(connection, run, "add")
            if deleted:
                undone.add(undoes)
            if with_undone:
                found = _mark_undone(
                    _mark_undone(found, deleted, is_undone=True), restored, is_undone=False
                )
                continue
            for pet_id in deleted:
                buried[pet_id] = [each for each in found if each.pet_id == pet_id]
            found = [each for each in found if each.pet_id not in deleted]
            for pet_id in restored:
                found += buried.pop(pet_id, [])
            continue
        kept = _decode_rows(payload)
        seen[source, kept.tab] = max(seen.get((source, kept.tab), ""), kept.seen)
        on = datetime.fromisoformat(started).astimezone().date().isoformat()
        records = list(
            _of_run(
                connection,
                run,
                _RunOrigin(source, kept.digest, kept.base, started, kept.seen),
                on,
                kept,
                known,
                agreed,
                categories,
            )
        )
        for each in records:
            # What one file says of a pet is no news of another one that has it as well.
            for place in (_ANYWHERE, (each.source, each.tab)):
                agreed[place, each.pet_id] = each.last_agreed
                known[place, each.pet_id] = each.said
                categories[place, each.pet_id] = each.category
        added |= {(run, each.pet_id) for each in records if each.run_id == run and each.is_added}
        found += [
            each
            if each.is_added or (each.run_id, each.pet_id) not in added
            else msgspec.structs.replace(each, is_added=True)
            for each in records
        ]
    return [
        msgspec.structs.replace(each, seen=max(each.seen, seen.get((each.source, each.tab), "")))
        for each in reversed(found)
        if each.state != "unsent" or each.run_id not in undone
    ]


def _mark_undone(
    records: Iterable[RowRecord], pets: Container[int | None], *, is_undone: bool
) -> list[RowRecord]:
    """The records; those of these pets say whether an undo took the pet away."""
    return [
        msgspec.structs.replace(each, is_undone=is_undone) if each.pet_id in pets else each
        for each in records
    ]


def sheet_of_run(connection: sqlite3.Connection, run_id: str) -> RunSheet | None:
    """The sheet of a run; None where there is no such run, or nothing is known of its rows."""
    row = connection.execute(_ONE, (run_id,)).fetchone()
    if row is None:
        return None
    store, source, started, payload = row
    kept = _decode_rows(payload)
    known = {each.pet_id for each in kept.rows if each.pet_id is not None}
    known.update(each[0] for each in connection.execute(_ASSIGNED, (run_id,)))
    return RunSheet(run_id, store, started, source, kept.digest, kept.base, frozenset(known))


def undone_adds(connection: sqlite3.Connection, store: str) -> dict[int, str]:
    """The pets that undos on the store took away, and that no later run brought back: by id, the
    run that was undone.
    """
    gone: dict[int, str] = {}
    for run, kind, _, undoes, _, _ in connection.execute(_RUNS_OF_STORE, (store,)).fetchall():
        if kind == "undo":
            gone |= dict.fromkeys(_pets(connection, run, "delete"), undoes)
        for pet_id in _pets(connection, run, "add"):
            gone.pop(pet_id, None)
    return gone


def read_restored(connection: sqlite3.Connection, store: str) -> dict[int, RestoredPet]:
    """The pets that undos on the store changed or added again, as the newest undo left each."""
    return {
        int(pet_id): RestoredPet(undoes, run, _read_pet.decode(after))
        for run, undoes, pet_id, after in connection.execute(_RESTORED, (store,))
    }


class _PlanHead(msgspec.Struct, frozen=True):
    """What a plan says of its sheet."""

    base: str = ""
    tab: str = ""
    categories: Mapping[int, Category] = {}


def sent_runs(connection: sqlite3.Connection, store: str, base: str) -> list[SentRun]:
    """The runs of sheets with the base of that moment, the oldest first, and what each of them
    sent. What an undo took back is not there, unless that undo was undone.
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
            away = hidden.setdefault(root, {})
            for change, pet_id, names in connection.execute(_UNDONE, (run,)):
                kind_then = change if is_undone else _OPPOSITE.get(change, change)
                key, fields = (kind_then, int(pet_id)), frozenset(names.split())
                before = away.pop(key, frozenset())
                left = before - fields if is_undone else before | fields
                if left or not is_undone:
                    away[key] = left
            continue
        head = _plan_head(connection, run)
        if head is not None and head.base == base:
            runs[run] = _sent_run(connection, run, source, head)
    return [_without(run, hidden.get(run.run, {})) for run in runs.values()]


def _plan_head(connection: sqlite3.Connection, run: str) -> _PlanHead | None:
    body, _ = _body(connection, run)
    try:
        return msgspec.json.decode(zlib.decompress(body or b""), type=_PlanHead)
    except (zlib.error, ValueError):
        return None


def _sent_run(connection: sqlite3.Connection, run: str, source: str, head: _PlanHead) -> SentRun:
    sent, unseen = list[Change](), list[Update]()
    for row in connection.execute(_OF_RUN, (run,)):
        entry = _entry(row)
        change, is_sent = _change_of(entry), entry.outcome == "applied"
        if change is not None and is_sent:
            sent.append(change)
        elif isinstance(change, Update) and entry.intended:
            unseen.append(change)
    return SentRun(run, source, head.tab, tuple(sent), tuple(unseen), head.categories)


def _change_of(entry: Entry) -> Change | None:
    """The change of an entry, with the pet as the store took it; None where that is not known."""
    row, source, before, after = entry.row, entry.source, entry.before, entry.after
    if entry.kind == "delete" and before is not None:
        return Delete(row=row, source=source, before=before)
    if entry.pet_id is None or after is None:
        return None
    if entry.kind == "update" and before is not None:
        return Update(row=row, source=source, fields=entry.fields, before=before, after=after)
    if entry.kind == "add" and entry.assigned_id in (None, entry.pet_id):
        pet = msgspec.structs.replace(after, id=entry.pet_id)
        return Add(row=row, source=source, fields=entry.fields, after=pet)
    return None


def _without(run: SentRun, away: dict[tuple[str, int], frozenset[str]]) -> SentRun:
    """The run without what undos took back: by kind and pet, the fields of an update."""
    kept = list[Change]()
    for change in run.sent:
        key = change.kind, change.pet_id or 0
        if isinstance(change, Update):
            fields = tuple(each for each in change.fields if each not in away.get(key, ()))
            kept += [msgspec.structs.replace(change, fields=fields)] if fields else []
        elif key not in away:
            kept.append(change)
    return run._replace(sent=tuple(kept))


def read_renumbered(connection: sqlite3.Connection, store: str) -> dict[int, RenumberedPet]:
    """The pets to which the store gave another id than they were added with, by that one; of two
    the later.
    """
    return {
        int(pet_id): RenumberedPet(
            int(assigned),
            datetime.fromisoformat(started).astimezone().date().isoformat(),
            source,
            _read_pet.decode(after).name or "",
        )
        for pet_id, assigned, started, source, after in connection.execute(_RENUMBERED, (store,))
    }


def taken_away(connection: sqlite3.Connection, store: str) -> dict[int, RemovedPet]:
    """The pets that runs deleted, or whose add was undone, by id, where no run has added a pet
    under the id since.
    """
    deletes = {each[0]: each for each in connection.execute(_TAKEN, (store,))}
    if not deletes:
        return {}
    ids = msgspec.json.encode([*deletes]).decode()
    for pet_id, started, order in connection.execute(_GIVEN, (store, ids)):
        if pet_id in deletes and (started, order) > deletes[pet_id][1:3]:
            del deletes[pet_id]
    return {
        pet_id: RemovedPet(
            run,
            datetime.fromisoformat(started).astimezone().date().isoformat(),
            _read_pet.decode(before),
        )
        for pet_id, started, _, run, before in deletes.values()
    }


def read_reused(connection: sqlite3.Connection, store: str) -> dict[int, ReusedId]:
    """The pets that runs added under an id that another row of their sheet named, by id, where no
    run has added another pet under it since.
    """
    found: dict[int, ReusedId] = {}
    runs = connection.execute(_RUNS_OF_STORE, (store,)).fetchall()
    for run, kind, _, _, started, payload in runs:
        # An undo may bring back the very pet.
        for pet_id in _pets(connection, run, "add") if found and kind == "apply" else ():
            found.pop(pet_id, None)
        # Only a run with rows without an id has a payload: of a long journal little is read.
        assigned = connection.execute(_ASSIGNED_ADDS, (run,)).fetchall() if payload else ()
        if not assigned:
            continue
        vacant: dict[int, list[VacantId]] = {}
        for each in _decode_rows(payload).vacant:
            vacant.setdefault(each.pet_id, []).append(each)
        ids = {int(each[0]) for each in assigned}
        for change, pet_id, row, cell, after in connection.execute(_NAMING, (run,)):
            if pet_id in ids:
                said = None if after is None else _read_pet.decode(after)
                action = "delete" if change == "delete" else ""
                named = VacantId(pet_id=pet_id, row=row, source=cell, said=said, action=action)
                vacant.setdefault(pet_id, []).append(named)
        on = datetime.fromisoformat(started).astimezone().date().isoformat()
        for pet_id, cell, after in assigned:
            found.pop(pet_id, None)
            if pet_id in vacant:
                pet = msgspec.structs.replace(_read_pet.decode(after), id=pet_id)
                found[pet_id] = ReusedId(on, cell, pet, tuple(vacant[pet_id]))
    return found


def later_run(connection: sqlite3.Connection, run: RunSheet) -> str | None:
    """The newest run of the same sheet that began after this one, where this one has rows without
    an id; None where there is none.
    """
    if not run.digest:
        return None
    runs = connection.execute(_SINCE, (run.store, run.started, run.run_id)).fetchall()
    for other, source, payload in reversed(runs):
        kept = _decode_rows(payload)
        # Where all rows have ids, only the plan knows the digest.
        if run.is_of(source, kept.digest or _source_digest(connection, other), kept.base):
            return str(other)
    return None


def _source_digest(connection: sqlite3.Connection, run_id: str) -> str:
    try:
        return read_plan(connection, run_id).source_digest
    except PlanError:
        return ""


def _of_run(
    connection: sqlite3.Connection,
    run: str,
    about: _RunOrigin,
    on: str,
    kept: _Rows,
    known: Mapping[tuple[_Place, int | None], Pet],
    agreed: Mapping[tuple[_Place, int | None], Pet],
    categories: Mapping[tuple[_Place, int | None], Category | None],
) -> Iterator[RowRecord]:
    arrived = {int(each[0]) for each in connection.execute(_ARRIVED, (run,))}
    rows = {each.row: each for each in kept.rows}
    begun = set()
    for number, row, cell, after, outcome, cause, assigned, alike in connection.execute(
        _ADDS, (run,)
    ):
        if cause == "not-begun":
            continue
        begun.add(number)
        is_sure = cause != "may-be-there"
        state = _row_state(outcome, cause, assigned)
        pet_id = assigned if state == "added" else None
        if not is_sure:
            pet_id = _read_pet.decode(alike).id
        if row is None or after is None or not state:
            continue
        place = rows.get(row, _Row(row))
        yield RowRecord(
            run_id=run,
            on=on,
            tab=kept.tab or _tab(cell),
            row=row,
            above=place.above,
            below=place.below,
            said=msgspec.structs.replace(_read_pet.decode(after), id=None),
            category=kept.categories.get(row),
            pet_id=pet_id,
            state=state,
            is_sure=is_sure,
            source=about.source,
            digest=about.digest,
            base=about.base,
            written=about.started,
            seen=about.seen,
            action=place.action,
        )
    for each in kept.rows:
        own, anywhere = ((about.source, kept.tab), each.pet_id), (_ANYWHERE, each.pet_id)
        said = each.said or known.get(own) or known.get(anywhere)
        if said is None or (each.pet_id is None and not each.may_be):
            continue
        is_agreed = not each.open or (each.open == "change" and each.pet_id in arrived)
        yield RowRecord(
            run_id=each.run or run,
            on=each.on or on,
            tab=kept.tab,
            row=each.row,
            above=each.above,
            below=each.below,
            said=msgspec.structs.replace(said, id=None),
            agreed=None if is_agreed else agreed.get(own) or agreed.get(anywhere),
            category=(
                kept.categories.get(each.row)
                if each.open == "change"
                else categories.get(own, categories.get(anywhere))
            ),
            pet_id=each.pet_id,
            state="added" if each.pet_id is not None else "held",
            may_be=each.may_be,
            is_added=False,
            source=about.source,
            digest=about.digest,
            base=about.base,
            written=about.started,
            seen=about.seen,
            action=each.action,
        )
    yield from _iter_unsent_rows(connection, run, on, rows, begun, kept.tab, about)


def _iter_unsent_rows(
    connection: sqlite3.Connection,
    run: str,
    on: str,
    rows: dict[int, _Row],
    begun: set[int],
    tab: str,
    about: _RunOrigin,
) -> Iterator[RowRecord]:
    """The rows that a run which stopped did not come to."""
    last = connection.execute(_LAST, (run,)).fetchone()
    if last is not None and last[0] and not last[1]:
        return
    try:
        plan = read_plan(connection, run)
    except PlanError:
        return
    for number, change in enumerate(plan.changes):
        is_unassigned = isinstance(change, Add) and change.pet_id is None
        if not is_unassigned or number in begun or change.row is None or change.after is None:
            continue
        place = rows.get(change.row, _Row(change.row))
        yield RowRecord(
            run_id=run,
            on=on,
            tab=tab or plan.tab,
            row=change.row,
            above=place.above,
            below=place.below,
            said=change.after,
            state="unsent",
            source=about.source,
            digest=about.digest,
            base=about.base,
            written=about.started,
            seen=about.seen,
            action=place.action,
        )


def _row_state(
    outcome: str | None, cause: str | None, assigned: int | None
) -> Literal["added", "unknown", ""]:
    """What is known of an add without an id, "" where nothing was added."""
    if assigned is not None and (outcome == "applied" or cause in _STORED):
        return "added"
    return "unknown" if outcome in (None, "unknown") else ""


def _decode_rows(payload: bytes) -> _Rows:
    try:
        return msgspec.json.decode(zlib.decompress(payload), type=_Rows) if payload else _Rows()
    except (zlib.error, msgspec.DecodeError):
        return _Rows()


def _pets(connection: sqlite3.Connection, run: str, kind: str) -> set[int]:
    return {int(row[0]) for row in connection.execute(_DONE, (run, kind))}


def _tab(cell: str) -> str:
    """The worksheet of a cell's address, "" for text files."""
    tab, mark, _ = cell.rpartition("!")
    return tab.strip("'").replace("''", "'") if mark else ""


_OPPOSITE = {"add": "delete", "delete": "add"}
_STORED = frozenset({"not-as-sent", "unverified"})
"""Causes of results whose pet is stored all the same."""
_read_pet = msgspec.json.Decoder(Pet)

_RUNS_OF_STORE = """
SELECT id, kind, source, undoes, started, payload FROM run
WHERE store = ? AND kind IN ('apply', 'undo') ORDER BY started, rowid
"""
_ONE = "SELECT store, source, started, payload FROM run WHERE id = ?"
_SINCE = """
SELECT id, source, payload FROM run
WHERE store = ? AND kind = 'apply' AND started >= ? AND id != ?
ORDER BY started, rowid
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
_ADDS = """
SELECT number, row, source, after, outcome, cause, assigned_id, found FROM change
WHERE run = ? AND kind = 'add' AND pet_id IS NULL ORDER BY number
"""
_DONE = """
SELECT pet_id FROM change WHERE run = ? AND kind = ? AND outcome = 'applied'
AND pet_id IS NOT NULL
"""
_UNDONE = """
SELECT kind, coalesce(pet_id, assigned_id), fields FROM change
WHERE run = ? AND outcome = 'applied' AND coalesce(pet_id, assigned_id) IS NOT NULL
"""
_ARRIVED = f"""
SELECT pet_id FROM change WHERE run = ? AND kind = 'update' AND pet_id IS NOT NULL
AND {_OUTCOME} IN ('applied', 'unchanged')
"""  # noqa: S608 - of constants
_RESTORED = """
SELECT run.id, undoes, coalesce(assigned_id, pet_id), after
FROM run JOIN change ON change.run = run.id
WHERE store = ? AND run.kind = 'undo' AND change.kind IN ('update', 'add')
AND outcome = 'applied' AND coalesce(assigned_id, pet_id) IS NOT NULL
ORDER BY started, run.rowid
"""
_TAKEN = """
SELECT pet_id, started, run.rowid, run.id, before FROM run JOIN change ON change.run = run.id
WHERE store = ? AND change.kind = 'delete' AND outcome = 'applied' AND before IS NOT NULL
ORDER BY started, run.rowid
"""
_GIVEN = """
SELECT coalesce(assigned_id, pet_id), started, run.rowid
FROM run JOIN change ON change.run = run.id
WHERE store = ? AND change.kind = 'add' AND outcome = 'applied'
AND coalesce(assigned_id, pet_id) IN (SELECT value FROM json_each(?))
ORDER BY started, run.rowid
"""
_RENUMBERED = """
SELECT pet_id, assigned_id, started, run.source, after
FROM run JOIN change ON change.run = run.id
WHERE store = ? AND change.kind = 'add' AND assigned_id != pet_id
AND (outcome = 'applied' OR cause IN ('not-as-sent', 'unverified'))
ORDER BY started, run.rowid
"""
_LAST = "SELECT ended, stopped FROM sitting WHERE run = ? ORDER BY number DESC LIMIT 1"


# Entries as rows of the table `change`, and back.


Row = tuple[Any, ...]

_COLUMNS = "run, number, kind, pet_id, row, source, fields, before, after, intended, digest"
_TOLD = "ended, outcome, cause, message, assigned_id, found"
_ALL = f"{_COLUMNS}, seal, attempts, {_TOLD}, outcome_seal"
_READ = f"{_ALL}, {_OUTCOME}"

INTENDED = f"""
INSERT INTO change ({_COLUMNS}, seal, attempts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (run, number) DO UPDATE SET
    kind = excluded.kind, pet_id = excluded.pet_id, row = excluded.row, source = excluded.source,
    fields = excluded.fields, before = excluded.before, after = excluded.after,
    intended = excluded.intended, digest = excluded.digest, seal = excluded.seal,
    attempts = attempts + 1, ended = NULL, outcome = NULL, cause = NULL, message = NULL,
    assigned_id = NULL, found = NULL, outcome_seal = NULL
"""  # noqa: S608 - of constants
"""A change is about to be sent, for the first time or anew."""

ENDED = f"""
INSERT INTO change ({_ALL})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, number) DO UPDATE SET
    ended = excluded.ended, outcome = excluded.outcome, cause = excluded.cause,
    message = excluded.message, assigned_id = excluded.assigned_id, found = excluded.found,
    outcome_seal = excluded.outcome_seal
"""  # noqa: S608 - of constants
"""What became of a change; it takes the place of what was said of it before."""

REPLACED = (
    f"{ENDED.rstrip()},\n    before = excluded.before, after = excluded.after, "
    "intended = excluded.intended, seal = excluded.seal\n"
)
"""The same for a new pet that took the place of another, which is its `before`."""

REPEATED = """
INSERT INTO attempt (run, number, attempt, at, why)
SELECT run, number, attempts + 1, ?, ? FROM change WHERE run = ? AND number = ?
"""

_OF_RUN = f"SELECT {_READ} FROM change WHERE run = ? ORDER BY number"  # noqa: S608 - of constants

# The runs that have changes, each found by one step in the index.
_OF_NO_RUN = """
WITH RECURSIVE each (run) AS (
    SELECT min(run) FROM change
    UNION ALL
    SELECT (SELECT min(run) FROM change WHERE change.run > each.run) FROM each
    WHERE each.run IS NOT NULL
)
SELECT run FROM each WHERE run IS NOT NULL AND run NOT IN (SELECT id FROM run) LIMIT 1
"""

_pet = msgspec.json.Encoder()


def intended_row(
    run: str, at: float, number: int, change: Change, before: Pet | None, after: Pet | None
) -> Row:
    """The values of INTENDED for a change of a plan."""
    about = (
        run,
        number,
        change.kind,
        change.pet_id,
        change.row,
        change.source,
        " ".join(change.fields),
        _text(before),
        _text(after),
        iso(at),
        "",
    )
    return (*about, seal(about))


def done_row(
    run: str, at: float, result: Result, found: Pet | None, replaced: Pet | None = None
) -> Row:
    """The values of ENDED for a result; those of REPLACED where a pet was replaced."""
    about = (
        run,
        result.number,
        result.kind,
        result.pet_id,
        result.row,
        result.source,
        " ".join(result.fields),
        _text(replaced),
        None if replaced is None else _text(found),
        "" if replaced is None else iso(at),
        "",
    )
    told = (
        iso(at),
        result.outcome,
        result.cause,
        result.message,
        result.assigned_id,
        _text(found),
    )
    return _seal_row(about, told)


def begun_row(run: str, entry: Entry) -> Row:
    """The values of INTENDED for an entry."""
    about = _about(run, entry)
    return (*about, seal(about))


def ended_row(run: str, ended: str, entry: Entry, found: Pet | None = None) -> Row:
    """The values of ENDED for an entry."""
    told = (ended, entry.outcome, entry.cause, entry.message, entry.assigned_id, _text(found))
    return _seal_row(_about(run, entry), told)


def _about(run: str, entry: Entry) -> Row:
    return (
        run,
        entry.number,
        entry.kind,
        entry.pet_id,
        entry.row,
        entry.source,
        " ".join(entry.fields),
        _text(entry.before),
        _text(entry.after),
        entry.intended,
        entry.digest,
    )


def entries(connection: sqlite3.Connection, run: str) -> Iterator[Entry]:
    """What the run knows of each change, by number. Raises PetsyncError for a damaged row, and for
    one of no run at all: it may be this run's.
    """
    lost = connection.execute(_OF_NO_RUN).fetchone()
    if lost is not None:
        raise _damaged_change("some change", lost[0])
    return map(_entry, connection.execute(_OF_RUN, (run,)))


def _seal_row(about: Row, told: Row) -> Row:
    return (*about, seal(about), *told, _told_seal(about, told))


def _told_seal(about: Row, told: Row) -> int:
    return seal((*about[:2], *told))


def _entry(row: Row) -> Entry:
    about, sealed, attempts, told, told_seal = row[:11], row[11], row[12], row[13:19], row[19]
    try:
        is_open = told_seal is None and not any(told)
        sound = sealed == seal(about) and (is_open or told_seal == _told_seal(about, told))
        if sound:
            return _of(about, attempts, told, row[20])
    except (ValueError, TypeError):
        pass
    raise _damaged_change(f"change {row[1]}", row[0])


def _damaged_change(what: str, run: object) -> PetsyncError:
    return PetsyncError(
        f"the journal is damaged: what it says of {what} of run {run} does not add up",
        hint="Look at that pet in the store itself. Nothing was changed in the journal.",
    )


def _of(about: Row, attempts: int, told: Row, outcome: Outcome | None) -> Entry:
    _, number, kind, pet_id, place, source, fields, before, after, intended, digest = about
    ended, _, cause, message, assigned, found = told
    return Entry(
        number=number,
        kind=kind,
        row=place,
        source=source,
        pet_id=pet_id,
        fields=tuple(fields.split()),
        before=_pet_of(before),
        after=_pet_of(after if found is None else found),
        intended=intended,
        seconds=seconds_between(intended, ended or ""),
        attempts=attempts,
        outcome=outcome,
        cause=cause or "",
        message=message or "",
        assigned_id=assigned,
        digest=digest,
    )


def _text(pet: Pet | None) -> str | None:
    return None if pet is None else _pet.encode(pet).decode()


def _pet_of(text: str | None) -> Pet | None:
    return None if text is None else _read_pet.decode(text)
