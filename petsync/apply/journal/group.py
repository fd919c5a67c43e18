"""Group: what is written in one transaction, as few statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from petsync.apply.journal.moment import iso
from petsync.apply.journal.rows import (
    ENDED,
    INTENDED,
    REPEATED,
    REPLACED,
    Row,
    begun_row,
    done_row,
    ended_row,
    intended_row,
)
from petsync.apply.journal.seal import seal
from petsync.diff.change import Change
from petsync.diff.history import Entry
from petsync.diff.report import Result
from petsync.model import Pet

__all__ = ["Done", "Finish", "Image", "Intent", "Item", "Known", "Repeat", "execute"]


class Intent(msgspec.Struct, gc=False):
    """A change is about to be sent."""

    at: float
    number: int
    change: Change
    before: Pet | None
    after: Pet | None


class Repeat(msgspec.Struct, gc=False):
    """A change is about to be sent once more."""

    at: float
    number: int
    why: str


class Done(msgspec.Struct, gc=False):
    """What became of a change; `replaced` is the pet that a new one took the place of."""

    at: float
    result: Result
    after: Pet | None
    replaced: Pet | None = None


class Image(msgspec.Struct, gc=False):
    """An upload that is about to be sent, or what became of it."""

    at: float
    entry: Entry
    ended: bool


class Known(msgspec.Struct, gc=False):
    """The ids that were there before."""

    ids: list[int]


class Finish(msgspec.Struct, gc=False):
    """How the sitting ended."""

    at: float
    stopped: str


Item = Intent | Repeat | Done | Image | Known | Finish


def execute(connection: sqlite3.Connection, run: str, sitting: int, items: Iterable[Item]) -> None:
    """Write what a sitting handed over, in the order in which it came; neighbours of one kind
    together.
    """
    statement, rows = "", list[Row]()
    for item in items:
        needed, row = _statement(run, sitting, item)
        if needed != statement and rows:
            connection.executemany(statement, rows)
            rows = []
        statement = needed
        rows.append(row)
        if isinstance(item, Repeat):
            connection.executemany(statement, rows)
            statement, rows = _ONCE_MORE, [(run, item.number)]
    if rows:
        connection.executemany(statement, rows)


def _statement(run: str, sitting: int, item: Item) -> tuple[str, Row]:
    match item:
        case Intent():
            row = intended_row(run, item.at, item.number, item.change, item.before, item.after)
            return INTENDED, row
        case Done(replaced=None):
            return ENDED, done_row(run, item.at, item.result, item.after)
        case Done():
            return REPLACED, done_row(run, item.at, item.result, item.after, item.replaced)
        case Image():
            return _image(run, item.at, item.entry, ended=item.ended)
        case Repeat():
            return REPEATED, (iso(item.at), item.why, run, item.number)
        case Known():
            about = (run, msgspec.json.encode(item.ids).decode())
            return _KNOWN, (*about, seal(about))
        case Finish():
            return _FINISHED, (iso(item.at), item.stopped, run, sitting)


def _image(run: str, at: float, entry: Entry, *, ended: bool) -> tuple[str, Row]:
    if ended:
        return ENDED, ended_row(run, iso(at), entry, entry.after)
    return INTENDED, begun_row(run, msgspec.structs.replace(entry, intended=iso(at)))


_ONCE_MORE = "UPDATE change SET attempts = attempts + 1 WHERE run = ? AND number = ?"
_KNOWN = "INSERT OR REPLACE INTO known (run, ids, seal) VALUES (?, ?, ?)"
_FINISHED = "UPDATE sitting SET ended = ?, stopped = ? WHERE run = ? AND number = ?"
