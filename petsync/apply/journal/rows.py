"""Entries as rows of the table `change`, and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from petsync.apply.journal.moment import iso, seconds_between
from petsync.apply.journal.seal import seal
from petsync.diff.change import Change
from petsync.diff.history import Entry
from petsync.diff.report import Result
from petsync.errors import PetsyncError
from petsync.model import Pet

__all__ = [
    "ENDED",
    "INTENDED",
    "REPEATED",
    "REPLACED",
    "Row",
    "begun_row",
    "done_row",
    "ended_row",
    "entries",
    "intended_row",
]

Row = tuple[Any, ...]

_ABOUT = "run, number, kind, pet_id, row, source, fields, before, after, intended, digest"
_TOLD = "ended, outcome, cause, message, assigned_id, found"
_ALL = f"{_ABOUT}, seal, attempts, {_TOLD}, outcome_seal"

INTENDED = f"""
INSERT INTO change ({_ABOUT}, seal, attempts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
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

_OF_RUN = f"SELECT {_ALL} FROM change WHERE run = ? ORDER BY number"  # noqa: S608 - of constants

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
_read_pet = msgspec.json.Decoder(Pet)


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
    return _ended(about, told)


def begun_row(run: str, entry: Entry) -> Row:
    """The values of INTENDED for an entry."""
    about = _about(run, entry)
    return (*about, seal(about))


def ended_row(run: str, ended: str, entry: Entry, found: Pet | None = None) -> Row:
    """The values of ENDED for an entry."""
    told = (ended, entry.outcome, entry.cause, entry.message, entry.assigned_id, _text(found))
    return _ended(_about(run, entry), told)


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
        raise _damaged("some change", lost[0])
    return map(_entry, connection.execute(_OF_RUN, (run,)))


def _ended(about: Row, told: Row) -> Row:
    return (*about, seal(about), *told, _told_seal(about, told))


def _told_seal(about: Row, told: Row) -> int:
    return seal((*about[:2], *told))


def _entry(row: Row) -> Entry:
    about, sealed, attempts, told, told_seal = row[:11], row[11], row[12], row[13:19], row[19]
    try:
        is_open = told_seal is None and not any(told)
        sound = sealed == seal(about) and (is_open or told_seal == _told_seal(about, told))
        if sound:
            return _of(about, attempts, told)
    except (ValueError, TypeError):
        pass
    raise _damaged(f"change {row[1]}", row[0])


def _damaged(what: str, run: object) -> PetsyncError:
    return PetsyncError(
        f"the journal is damaged: what it says of {what} of run {run} does not add up",
        hint="Look at that pet in the store itself. Nothing was changed in the journal.",
    )


def _of(about: Row, attempts: int, told: Row) -> Entry:
    _, number, kind, pet_id, place, source, fields, before, after, intended, digest = about
    ended, outcome, cause, message, assigned, found = told
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
