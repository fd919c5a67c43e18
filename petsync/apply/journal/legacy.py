"""Journals of earlier petsync, version 1: a file of JSON lines for each run.

`runs/ID.jsonl` has a line for the plan, and one for each intent and each result; a crash may have
torn the last one. `used/FINGERPRINT` names the run that a plan was used in. They are read once
into the database, and stay as they are.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from petsync.apply.journal import rows
from petsync.apply.journal.rows import Run, insert_run, insert_used, packed, used_by
from petsync.apply.journal.schema import iso
from petsync.models import Pet
from petsync.plan.plan import PLAN_FORMAT, Plan
from petsync.plan.report import Entry

__all__ = ["has_old", "migrate"]


_DONE = "migrated"


class _Header(msgspec.Struct, frozen=True, tag="plan"):
    run_id: str
    started: str
    fingerprint: str
    plan: msgspec.Raw


class _Intent(msgspec.Struct, frozen=True, tag="intent"):
    number: int
    before: msgspec.Raw = msgspec.Raw(b"null")


class _Done(msgspec.Struct, frozen=True, tag="result"):
    result: _Result


class _Result(msgspec.Struct, frozen=True):
    number: int
    outcome: Literal["applied", "skipped", "conflict", "failed", "unknown"]
    kind: Literal["add", "update", "delete"] = "update"
    row: int | None = None
    source: str = ""
    pet_id: int | None = None
    message: str = ""
    assigned_id: int | None = None
    fields: tuple[str, ...] = ()


class _Change(msgspec.Struct, frozen=True):
    kind: Literal["add", "update", "delete"]
    row: int | None = None
    source: str = ""
    fields: tuple[str, ...] = ()
    before: msgspec.Raw = msgspec.Raw(b"null")
    after: msgspec.Raw = msgspec.Raw(b"null")


class _Plan(msgspec.Struct, frozen=True):
    store: str
    format: int = 0
    source: str = ""
    changes: tuple[_Change, ...] = ()


_Line = _Header | _Intent | _Done
_line = msgspec.json.Decoder(_Line)


def has_old(state: Path) -> bool:
    """Whether an earlier petsync has left journals there."""
    return (state / "runs").is_dir() or (state / "used").is_dir()


def migrate(state: Path, connection: sqlite3.Connection) -> None:
    """Take over what earlier petsync wrote, unless that was done; inside a transaction."""
    if connection.execute("SELECT 1 FROM meta WHERE name = ?", (_DONE,)).fetchone():
        return
    for path in sorted((state / "runs").glob("*.jsonl")):
        _take(connection, path)
    for path in sorted((state / "used").glob("*")):
        run = path.read_text("utf-8", errors="replace").strip() or "?"
        if used_by(connection, path.name) is None:
            insert_used(connection, path.name, run)
    connection.execute("INSERT INTO meta VALUES (?, ?)", (_DONE, iso(time.time())))


def _take(connection: sqlite3.Connection, path: Path) -> None:
    lines = _lines(path)
    header = next(lines, None)
    if not isinstance(header, _Header):
        return
    twice = "SELECT 1 FROM run WHERE id = ? OR fingerprint = ?"
    if connection.execute(twice, (header.run_id, header.fingerprint)).fetchone():
        return
    plan = _plan_of(header.plan)
    entries, ended = _entries(plan, header.started, lines), iso(path.stat().st_mtime)
    _insert(connection, header, plan)
    finished = sum(entry.outcome is not None for entry in entries) >= len(plan.changes)
    connection.execute(
        "INSERT INTO sitting VALUES (?, 1, ?, ?, ?, 0, '')",
        (header.run_id, header.started, ended, "" if finished else "interrupted"),
    )
    for entry in entries:
        if entry.intended:
            connection.execute(rows.INTENDED, rows.begun_row(header.run_id, entry))
        if entry.outcome:
            connection.execute(rows.ENDED, rows.ended_row(header.run_id, ended, entry))


def _plan_of(raw: msgspec.Raw) -> _Plan:
    try:
        return msgspec.json.decode(raw, type=_Plan)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Plan("")


def _insert(connection: sqlite3.Connection, header: _Header, plan: _Plan) -> None:
    """The run's row; a plan that this petsync cannot read is kept as it is."""
    run = Run(
        id=header.run_id,
        kind="apply",
        store=plan.store,
        source=plan.source,
        fingerprint=header.fingerprint,
        undoes="",
        started=header.started,
        total=len(plan.changes),
        options="{}",
    )
    body = bytes(header.plan)
    if _is_present(body):
        insert_run(connection, run, plan=packed([body]))
    else:
        insert_run(connection, run, payload=body)


def _lines(path: Path) -> Iterator[_Line]:
    """The lines up to the first that cannot be read: a torn one is the last."""
    for line in filter(None, path.read_bytes().split(b"\n")):
        try:
            yield _line.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return


def _entries(plan: _Plan, started: str, lines: Iterator[_Line]) -> list[Entry]:
    found: dict[int, Entry] = {}
    for line in lines:
        if isinstance(line, _Header):
            break
        number = line.number if isinstance(line, _Intent) else line.result.number
        if not 0 <= number < len(plan.changes):
            continue
        if isinstance(line, _Intent):
            found[line.number] = _begun(line, plan.changes[line.number], started)
        else:
            result = line.result
            known = found.get(result.number) or _untouched(result)
            found[result.number] = msgspec.structs.replace(
                known,
                outcome=result.outcome,
                message=result.message,
                assigned_id=result.assigned_id,
            )
    return [found[number] for number in sorted(found)]


def _begun(intent: _Intent, change: _Change, started: str) -> Entry:
    before, after = _pet(intent.before), _pet(change.after)
    of = before or after
    return Entry(
        number=intent.number,
        kind=change.kind,
        row=change.row,
        source=change.source,
        pet_id=None if of is None else of.id,
        fields=change.fields,  # type: ignore[arg-type]
        before=before,
        after=after,
        intended=started,
        attempts=1,
    )


def _untouched(result: _Result) -> Entry:
    return Entry(
        number=result.number,
        kind=result.kind,
        row=result.row,
        source=result.source,
        pet_id=result.pet_id,
        fields=result.fields,  # type: ignore[arg-type]
    )


def _pet(raw: msgspec.Raw) -> Pet | None:
    try:
        return msgspec.json.decode(raw, type=Pet | None)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_present(body: bytes) -> bool:
    """Whether this petsync can read the plan."""
    try:
        return msgspec.json.decode(body, type=Plan).format == PLAN_FORMAT
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
