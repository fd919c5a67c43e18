"""Group: what is written in one transaction, as few statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from petsync.apply.journal.moment import iso
from petsync.apply.journal.rows import ENDED, INTENDED, REPEATED, done_row, image_row, intended_row
from petsync.diff.change import Change
from petsync.diff.history import Entry
from petsync.diff.report import Result
from petsync.model import Pet

__all__ = ["Done", "Finish", "Group", "Image", "Intent", "Item", "Known", "Repeat"]


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
    """What became of a change."""

    at: float
    result: Result
    after: Pet | None


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


class Group:
    """The items of one sitting, in the order in which they came."""

    def __init__(self, run: str, sitting: int) -> None:
        self._run, self._sitting = run, sitting

    def write(self, connection: sqlite3.Connection, items: Iterable[Item]) -> None:
        """Execute them; neighbours of one kind together."""
        statement, rows = "", list[tuple[Any, ...]]()
        for item in items:
            needed, row = self._statement(item)
            if needed != statement and rows:
                connection.executemany(statement, rows)
                rows = []
            statement = needed
            rows.append(row)
            if isinstance(item, Repeat):
                connection.executemany(statement, rows)
                statement, rows = _ONCE_MORE, [(self._run, item.number)]
        if rows:
            connection.executemany(statement, rows)

    def _statement(self, item: Item) -> tuple[str, tuple[Any, ...]]:
        match item:
            case Intent(at, number, change, before, after):
                return INTENDED, intended_row(self._run, at, number, change, before, after)
            case Done(at, result, after):
                return ENDED, done_row(self._run, at, result, after)
            case Image(at, entry, ended):
                return ENDED if ended else INTENDED, image_row(self._run, at, entry, ended=ended)
            case Repeat(at, number, why):
                return REPEATED, (iso(at), why, self._run, number)
            case Known(ids):
                return _KNOWN, (self._run, msgspec.json.encode(ids).decode())
            case Finish(at, stopped):
                return _FINISHED, (iso(at), stopped, self._run, self._sitting)


_ONCE_MORE = "UPDATE change SET attempts = attempts + 1 WHERE run = ? AND number = ?"
_KNOWN = "INSERT OR REPLACE INTO known (run, ids) VALUES (?, ?)"
_FINISHED = "UPDATE sitting SET ended = ?, stopped = ? WHERE run = ? AND number = ?"
