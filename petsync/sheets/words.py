"""The columns of text: `name`, `status`, `category` and `action`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.column import NBSP, Column, Verdict, judge_each, note_damage, nulled, positions
from petsync.sheets.grid import Bools
from petsync.sheets.notes import Note
from petsync.table.cells import normal_status, trim
from petsync.table.columns import ACTIONS
from petsync.table.frame import texts

__all__ = ["actions", "names", "statuses", "words"]

_LONG = 255
_MEANT = {
    "remove": "delete",
    "del": "delete",
    "new": "add",
    "create": "add",
    "insert": "add",
    "change": "update",
    "edit": "update",
    "modify": "update",
    "upsert": "merge",
    "skip": "ignore",
    "none": "ignore",
}


def words(column: Column) -> Any:
    """A column of free text as typed, as a `str` array; "" where the cell empties the field."""
    note_damage(column)
    kept = nulled(column.cells.text, column.says)
    kept = pc.if_else(pa.array(column.clear), pa.scalar("", pa.large_string()), kept)
    return pd.array(kept, dtype=pd.StringDtype(na_value=np.nan))


def names(column: Column) -> Any:
    """The names as typed; the clear marker is refused."""
    for at in positions(column.clear):
        column.note(at, "clear-refused", "A name cannot be emptied.")
    for at in positions(pc.greater(pc.utf8_length(column.cells.text), _LONG)):
        column.note(at, "name-long")
    column.clear[:] = False
    return words(column)


def statuses(column: Column, usual: Sequence[str], known: Collection[str]) -> Any:
    """The statuses, trimmed and in small letters; one that the store has is kept as typed."""
    offered = [*usual, *sorted(set(known) - set(usual))]

    def judge(text: str) -> Verdict:
        if text in known:
            return Verdict(text)
        typed, normal = trim(text), normal_status(text)
        spaces = [Note("no-break-space", text)] if NBSP in text.replace(typed, "") else []
        if typed in known or typed in usual:
            return Verdict(typed, spaces or _respelled(text, typed))
        meant = next((each for each in offered if normal_status(each) == normal), None)
        if meant is not None:
            return Verdict(meant, [*spaces, *_respelled(typed if spaces else text, meant)])
        return Verdict(None, [*spaces, _unknown(text, normal, offered)])

    return _with_cleared(column, judge_each(column, judge))


def actions(column: Column) -> Any:
    """What each row asks for: one of ACTIONS, `merge` where the cell is blank."""
    for at in positions(column.clear):
        column.note(at, "unknown-action")

    def judge(text: str) -> Verdict:
        action = normal_status(text)
        if action in ACTIONS:
            return Verdict(action)
        near = difflib.get_close_matches(action, ACTIONS, n=1)
        meant = _MEANT.get(action) or "".join(near)
        hint = f"Write {meant} if that is meant." if meant else ""
        return Verdict("merge", [Note("unknown-action", text, suggestion=hint)])

    return texts([value or "merge" for value in judge_each(column, judge)])


def _with_cleared(column: Column, values: list[Any]) -> Any:
    cleared: Bools = column.clear
    for at in positions(cleared):
        values[at] = ""
    return texts(values)


def _respelled(text: str, status: str) -> list[Note]:
    meant = f"It is read as {status}; write {status}."
    return [] if text == status else [Note("status-spelling", text, suggestion=meant)]


def _unknown(text: str, normal: str, offered: Sequence[str]) -> Note:
    folded = {normal_status(each): each for each in offered}
    near = difflib.get_close_matches(normal, folded, n=1)
    listed = f"The statuses are {', '.join(offered)}."
    hint = f"Write {folded[near[0]]} if that is meant. {listed}" if near else listed
    return Note("unknown-status", text, suggestion=hint)
