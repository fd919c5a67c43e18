"""The columns of text: `name`, `status`, `category` and `action`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Bools
from petsync.sheets.judge import clear
from petsync.sheets.judge.column import (
    NBSP,
    Column,
    Verdict,
    judge_texts,
    note_damage,
    nulled,
    positions,
)
from petsync.sheets.judge.lists import program_tags
from petsync.sheets.judge.notes import Note
from petsync.sheets.judge.octets import beginning_with
from petsync.sheets.judge.placeholders import are_missing_values, are_placeholders
from petsync.sheets.judge.spelling import nearest
from petsync.table.cells import normal_status, parse_tags, trim
from petsync.table.columns import ACTIONS, CLEARED

__all__ = ["actions", "categories", "names", "statuses", "words"]

_LONG = 255
_RECORD = r"^\s*(?:Category\(|[\[({]\s*['\"]|\[\s*(?:Category\(|\{))"
_NUMBERED = r"^\s*-?[0-9]+:\s*\S"
_RECORD_BEGINS = b"C[({-0123456789 \t\r\n"
_IF_IT_IS_ONE = "If the store has this one too, name it in petsync.toml ([service], statuses)."
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
    """A column of free text as typed, as a `str` array; CLEARED where the cell empties it."""
    note_damage(column)
    kept = column.cells.text
    if not column.says.all():
        kept = nulled(kept, column.says)
    if column.clear.any():
        kept = pc.if_else(pa.array(column.clear), pa.scalar(CLEARED, pa.large_string()), kept)
    return pd.array(kept, dtype=pd.StringDtype(na_value=np.nan))


def categories(column: Column, exported: Collection[str], marker: str) -> Any:
    """The categories' names as typed; those that were `exported` are meant so."""
    _note_placeholders(column, are_placeholders(column.cells.trimmed()), exported)
    _note_records(column, exported)
    for at, text in clear.bare(column.cells, marker):
        if text not in exported:
            column.note(at, "placeholder-text", suggestion=f"Write {marker} to empty the field.")
    return words(column)


def names(column: Column, exported: Collection[str]) -> Any:
    """The names as typed; those that were `exported` are meant so. The clear marker is refused."""
    hint = "Leave the cell blank to say nothing, or write the name."
    _note_placeholders(column, are_missing_values(column.cells.trimmed()), exported, hint)
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
        same = (each for each in offered if normal_status(each) == normal)
        meant = typed if typed in known or typed in usual else next(same, None)
        has_spaces = NBSP in text.replace(typed, "")
        spaces = [Note("no-break-space", text, "", "", meant, True)] if has_spaces else []
        if meant is None:
            return Verdict(None, [*spaces, _unknown(text, normal, offered)])
        return Verdict(meant, [*spaces, *_respelled(typed if spaces else text, meant)])

    said = judge_texts(column, judge)
    said[column.clear] = ""
    return said


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
        return Verdict("merge", [Note("unknown-action", text, "", hint, meant or None)])

    return judge_texts(column, judge, otherwise="merge")


def _note_placeholders(
    column: Column, found: Bools, exported: Collection[str], hint: str = ""
) -> None:
    for at in positions(found & column.says):
        if column.cells.text[at].as_py() not in exported:
            column.note(at, "placeholder-text", suggestion=hint, meant="")


def _note_records(column: Column, exported: Collection[str]) -> None:
    """Note categories as a program writes them, and numbers before names."""
    rows = beginning_with(column.cells.text, _RECORD_BEGINS)
    rows = rows[column.says[rows]]
    texts = column.cells.text.take(pa.array(rows))
    for rule, pattern in (("category-text", _RECORD), ("category-numbered", _NUMBERED)):
        for at in rows[positions(pc.match_substring_regex(texts, pattern))].tolist():
            text = trim(column.cells.text[at].as_py())
            if text in exported:
                continue
            found = program_tags(text) if rule == "category-text" else parse_tags(text)
            meant = (found[0].name or None) if found and len(found) == 1 else None
            column.note(at, rule, suggestion=f"Write {meant}." if meant else "", meant=meant)


def _respelled(text: str, status: str) -> list[Note]:
    if text == status:
        return []
    problem = f"The status has capital letters or spaces around it; it is read as {status}."
    return [Note("status-spelling", text, problem, f"Write {status}.", status, True)]


def _unknown(text: str, normal: str, offered: Sequence[str]) -> Note:
    folded = {normal_status(each): each for each in offered}
    near, why = nearest(normal, folded)
    listed = f"The statuses are {', '.join(offered)}."
    if not near:
        return Note("unknown-status", text, suggestion=f"{listed} {_IF_IT_IS_ONE}")
    meant = f"Write {folded[near]} if that is meant{f': {why}' if why else ''}."
    return Note("unknown-status", text, "", f"{meant} {listed}", folded[near])
