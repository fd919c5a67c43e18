"""Entries as rows of the table `change`, and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from petsync.apply.journal.moment import iso, seconds_between
from petsync.diff.change import Change
from petsync.diff.history import Entry
from petsync.diff.report import Result
from petsync.model import Pet

__all__ = [
    "ENDED",
    "INTENDED",
    "REPEATED",
    "done_row",
    "entries",
    "image_row",
    "intended_row",
    "uploads",
]

_ENTRY = (
    "number, kind, pet_id, row, source, fields, before, after, intended, ended, attempts, outcome, "
    "cause, message, assigned_id, digest"
)

INTENDED = """
INSERT INTO change (run, number, kind, pet_id, row, source, fields, before, after, intended, digest,
                    attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (run, number) DO UPDATE SET
    pet_id = coalesce(excluded.pet_id, pet_id), before = excluded.before, after = excluded.after,
    intended = excluded.intended, ended = '', attempts = attempts + 1, outcome = NULL, cause = '',
    message = '', digest = excluded.digest
"""
"""A change is about to be sent, for the first time or anew."""

ENDED = """
INSERT INTO change (run, number, kind, pet_id, row, source, fields, after, ended, outcome, cause,
                    message, assigned_id, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, number) DO UPDATE SET
    after = coalesce(excluded.after, after), ended = excluded.ended, outcome = excluded.outcome,
    cause = excluded.cause, message = excluded.message,
    assigned_id = coalesce(excluded.assigned_id, assigned_id)
"""
"""What became of a change; it takes the place of what was said of it before."""

REPEATED = """
INSERT INTO attempt (run, number, attempt, at, why)
SELECT run, number, attempts + 1, ?, ? FROM change WHERE run = ? AND number = ?
"""

_UPLOADS = f"""
SELECT {_ENTRY} FROM change WHERE digest <> '' AND outcome = 'applied' AND pet_id IS NOT NULL
AND run IN (SELECT id FROM run WHERE store = ?) ORDER BY run
"""

_pet = msgspec.json.Encoder()
_read_pet = msgspec.json.Decoder(Pet)


def intended_row(
    run: str, at: float, number: int, change: Change, before: Pet | None, after: Pet | None
) -> tuple[Any, ...]:
    """The values of INTENDED for a change of a plan."""
    return (
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


def done_row(run: str, at: float, result: Result, after: Pet | None) -> tuple[Any, ...]:
    """The values of ENDED for a result."""
    return (
        run,
        result.number,
        result.kind,
        result.pet_id,
        result.row,
        result.source,
        " ".join(result.fields),
        _text(after),
        iso(at),
        result.outcome,
        result.cause,
        result.message,
        result.assigned_id,
        "",
    )


def image_row(run: str, at: float, entry: Entry, *, ended: bool) -> tuple[Any, ...]:
    """The values of INTENDED, or of ENDED, for an upload."""
    about = (run, entry.number, entry.kind, entry.pet_id, entry.row, entry.source)
    fields, after = " ".join(entry.fields), _text(entry.after)
    if not ended:
        return (*about, fields, _text(entry.before), after, iso(at), entry.digest)
    told = (entry.outcome, entry.cause, entry.message, entry.assigned_id, entry.digest)
    return (*about, fields, after, iso(at), *told)


def entries(connection: sqlite3.Connection, run: str) -> Iterator[Entry]:
    """What the run knows of each change, by number."""
    rows = connection.execute(f"SELECT {_ENTRY} FROM change WHERE run = ? ORDER BY number", (run,))
    return map(_entry, rows)


def uploads(connection: sqlite3.Connection, store: str) -> Iterator[Entry]:
    """Every upload to the store that was applied, the older ones first."""
    rows = connection.execute(_UPLOADS, (store,))
    return map(_entry, rows)


def _entry(row: tuple[Any, ...]) -> Entry:
    number, kind, pet_id, place, source, fields, before, after, intended, ended, *rest = row
    attempts, outcome, cause, message, assigned, digest = rest
    return Entry(
        number=number,
        kind=kind,
        row=place,
        source=source,
        pet_id=pet_id,
        fields=tuple(fields.split()),
        before=_pet_of(before),
        after=_pet_of(after),
        intended=intended,
        seconds=seconds_between(intended, ended),
        attempts=attempts,
        outcome=outcome,
        cause=cause,
        message=message,
        assigned_id=assigned,
        digest=digest,
    )


def _text(pet: Pet | None) -> str | None:
    return None if pet is None else _pet.encode(pet).decode()


def _pet_of(text: str | None) -> Pet | None:
    return None if text is None else _read_pet.decode(text)
