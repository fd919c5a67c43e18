"""Which row of which sheet became which pet: what a run writes down of rows without an id."""

from __future__ import annotations

import os.path
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from petsync.apply.journal.run import read_plan
from petsync.diff.change import Add, Update
from petsync.diff.lineage import Renumbered, Restored, RowRecord
from petsync.diff.plan import Plan
from petsync.errors import PlanError
from petsync.model import Pet

__all__ = [
    "LaterRun",
    "RunSheet",
    "later_run",
    "renumbered",
    "restored",
    "row_payload",
    "row_records",
    "sheet_of_run",
    "undone_adds",
]


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """A row without an id: its place, its pet if it was known, what it says if that is news, the
    run by which it is known, with that run's local date, and its action; "" for `merge`.
    """

    row: int
    above: int | None = None
    below: int | None = None
    pet_id: int | None = None
    said: Pet | None = None
    run: str = ""
    on: str = ""
    action: str = ""


class _Rows(msgspec.Struct, frozen=True):
    """The rows without an id of a plan's sheet. `seen` is when the plan was made, if it has the pet
    of every such row or adds it; else "".
    """

    tab: str = ""
    digest: str = ""
    base: str = ""
    rows: list[_Row] = []
    seen: str = ""


class LaterRun(NamedTuple):
    """The newest later run of a sheet, and the rows of that sheet whose pets are known since."""

    run_id: str
    added: Sequence[RowRecord]


class _About(NamedTuple):
    """The sheet of a run, when the run began, and when it saw all of the sheet's rows."""

    source: str
    digest: str
    base: str
    started: str
    seen: str


class RunSheet(NamedTuple):
    """The sheet of a run on a store: its path, the SHA-256 of its bytes, and the pets that the run
    knows of its rows without an id.
    """

    run_id: str
    store: str
    started: str
    source: str
    digest: str
    known: frozenset[int] = frozenset()

    def is_of(self, source: str, digest: str) -> bool:
        """Whether a run of that sheet is one of this sheet."""
        is_same = digest == self.digest or os.path.realpath(source) == os.path.realpath(self.source)
        return bool(digest and self.digest) and is_same

    def may_have_left(self, record: RowRecord) -> bool:
        """Whether the record may be of a row that this run left: its pet came from elsewhere."""
        is_new = record.state == "added" and record.pet_id not in self.known
        return is_new and self.is_of(record.source, record.digest)


def row_payload(plan: Plan) -> bytes:
    """What a run is begun with beside its plan, so that the rows of its sheet are known later; b""
    where all have ids.
    """
    says = {each.row: each.after for each in plan.changes if isinstance(each, Update)}
    adds = {each.row for each in plan.changes if isinstance(each, Add) and each.pet_id is None}
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
        )
        for row, slot in plan.slots.items()
    ]
    if not rows and not adds:
        return b""
    seen = plan.created if _knows_all_rows(plan) else ""
    kept = _Rows(tab=plan.tab, digest=plan.source_digest, base=plan.base, rows=rows, seen=seen)
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
    took away are there only `with_undone`, and those of which a run knew that nothing was added
    are not there.
    """
    found: list[RowRecord] = []
    buried: dict[int, list[RowRecord]] = {}
    undone: set[str] = set()
    known: dict[int | None, Pet] = {}
    added: set[tuple[str, int | None]] = set()
    for run, kind, source, undoes, started, payload in connection.execute(_RUNS, (store,)):
        if kind == "undo":
            deleted, restored = _pets(connection, run, "delete"), _pets(connection, run, "add")
            if deleted:
                undone.add(undoes)
            for pet_id in deleted:
                buried[pet_id] = [each for each in found if each.pet_id == pet_id]
            if not with_undone:
                found = [each for each in found if each.pet_id not in deleted]
                for pet_id in restored:
                    found += buried.pop(pet_id, [])
            continue
        kept = _kept(payload)
        on = datetime.fromisoformat(started).astimezone().date().isoformat()
        records = list(
            _of_run(
                connection,
                run,
                _About(source, kept.digest, kept.base, started, kept.seen),
                on,
                kept,
                known,
            )
        )
        known |= {each.pet_id: each.said for each in records}
        added |= {(run, each.pet_id) for each in records if each.run_id == run and each.is_added}
        found += [
            each
            if each.is_added or (each.run_id, each.pet_id) not in added
            else msgspec.structs.replace(each, is_added=True)
            for each in records
        ]
    return [each for each in reversed(found) if each.state != "unsent" or each.run_id not in undone]


def sheet_of_run(connection: sqlite3.Connection, run_id: str) -> RunSheet | None:
    """The sheet of a run; None where there is no such run, or nothing is known of its rows."""
    row = connection.execute(_ONE, (run_id,)).fetchone()
    if row is None:
        return None
    store, source, started, payload = row
    kept = _kept(payload)
    known = {each.pet_id for each in kept.rows if each.pet_id is not None}
    known.update(each[0] for each in connection.execute(_ASSIGNED, (run_id,)))
    return RunSheet(run_id, store, started, source, kept.digest, frozenset(known))


def undone_adds(connection: sqlite3.Connection, store: str) -> dict[int, str]:
    """The pets that undos on the store took away, and that no later run brought back: by id, the
    run that was undone.
    """
    gone: dict[int, str] = {}
    for run, kind, _, undoes, _, _ in connection.execute(_RUNS, (store,)).fetchall():
        if kind == "undo":
            gone |= dict.fromkeys(_pets(connection, run, "delete"), undoes)
        for pet_id in _pets(connection, run, "add"):
            gone.pop(pet_id, None)
    return gone


def restored(connection: sqlite3.Connection, store: str) -> dict[int, Restored]:
    """The pets that undos on the store changed, as the newest undo left each."""
    return {
        int(pet_id): Restored(undoes, run, _read_pet.decode(after))
        for run, undoes, pet_id, after in connection.execute(_RESTORED, (store,))
    }


def renumbered(connection: sqlite3.Connection, store: str) -> dict[int, Renumbered]:
    """The pets to which the store gave another id than they were added with, by that one; of two
    the later.
    """
    return {
        int(pet_id): Renumbered(
            int(assigned),
            datetime.fromisoformat(started).astimezone().date().isoformat(),
            source,
            _read_pet.decode(after).name or "",
        )
        for pet_id, assigned, started, source, after in connection.execute(_RENUMBERED, (store,))
    }


def later_run(connection: sqlite3.Connection, run: RunSheet) -> str | None:
    """The newest run of the same sheet that began after this one, where this one has rows without
    an id; None where there is none.
    """
    if not run.digest:
        return None
    runs = connection.execute(_SINCE, (run.store, run.started, run.run_id)).fetchall()
    for other, source, payload in reversed(runs):
        # Where all rows have ids, only the plan knows the digest.
        if run.is_of(source, _kept(payload).digest or _digest(connection, other)):
            return str(other)
    return None


def _digest(connection: sqlite3.Connection, run_id: str) -> str:
    try:
        return read_plan(connection, run_id).source_digest
    except PlanError:
        return ""


def _of_run(
    connection: sqlite3.Connection,
    run: str,
    about: _About,
    on: str,
    kept: _Rows,
    known: dict[int | None, Pet],
) -> Iterator[RowRecord]:
    rows = {each.row: each for each in kept.rows}
    begun = set()
    for number, row, cell, after, outcome, cause, assigned in connection.execute(_ADDS, (run,)):
        if cause == "not-begun":
            continue
        begun.add(number)
        state = _state(outcome, cause, assigned)
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
            pet_id=assigned if state == "added" else None,
            state=state,
            source=about.source,
            digest=about.digest,
            base=about.base,
            written=about.started,
            seen=about.seen,
            action=place.action,
        )
    for each in kept.rows:
        said = each.said or known.get(each.pet_id)
        if each.pet_id is None or said is None:
            continue
        yield RowRecord(
            run_id=each.run or run,
            on=each.on or on,
            tab=kept.tab,
            row=each.row,
            above=each.above,
            below=each.below,
            said=msgspec.structs.replace(said, id=None),
            pet_id=each.pet_id,
            is_added=False,
            source=about.source,
            digest=about.digest,
            base=about.base,
            written=about.started,
            seen=about.seen,
            action=each.action,
        )
    yield from _unsent(connection, run, on, rows, begun, kept.tab, about)


def _unsent(
    connection: sqlite3.Connection,
    run: str,
    on: str,
    rows: dict[int, _Row],
    begun: set[int],
    tab: str,
    about: _About,
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


def _state(
    outcome: str | None, cause: str | None, assigned: int | None
) -> Literal["added", "unknown", ""]:
    """What is known of an add without an id, "" where nothing was added."""
    if assigned is not None and (outcome == "applied" or cause in _STORED):
        return "added"
    return "unknown" if outcome in (None, "unknown") else ""


def _kept(payload: bytes) -> _Rows:
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


_STORED = frozenset({"not-as-sent", "unverified"})
"""Causes of results whose pet is stored all the same."""
_read_pet = msgspec.json.Decoder(Pet)

_RUNS = """
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
_ADDS = """
SELECT number, row, source, after, outcome, cause, assigned_id FROM change
WHERE run = ? AND kind = 'add' AND pet_id IS NULL ORDER BY number
"""
_DONE = """
SELECT pet_id FROM change WHERE run = ? AND kind = ? AND outcome = 'applied'
AND pet_id IS NOT NULL
"""
_RESTORED = """
SELECT run.id, undoes, pet_id, after FROM run JOIN change ON change.run = run.id
WHERE store = ? AND run.kind = 'undo' AND change.kind = 'update' AND outcome = 'applied'
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
