"""Surprises: the pets that a run did not leave as its plan had said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from petsync.diff.change import Add, Change, Delete, Update
from petsync.diff.fields import cell, differing
from petsync.diff.report import Report, Result
from petsync.model import Pet

__all__ = ["surprises"]

Pets = Mapping[int, Pet]
_NAMES = ["id", "name", "source", "kind", "column", "expected", "found", "outcome", "why"]
_IN_THE_STORE, _NOT_THERE = "in the store", "not there"
_UNPLANNED = "the plan does not name it"
_UNKNOWN_FIELDS = "(unknown fields)"


class _Surprise(NamedTuple):
    id: int | None
    name: str
    source: str
    kind: str
    column: str
    expected: str
    found: str
    outcome: str
    why: str


def surprises(report: Report, before: Pets, after: Pets) -> pd.DataFrame:
    """Where `after` is not what the report's plan makes of `before`, one row a column: id, name,
    source, kind, column, expected, found, outcome, why. Pets that the plan does not name must be
    untouched; of these `outcome` is "".
    """
    changes = report.plan.changes
    touched: set[int] = set()
    rows: list[_Surprise] = []
    for result in report.results[: len(changes)]:
        change = changes[result.number]
        pet_id = change.pet_id if result.assigned_id is None else result.assigned_id
        if pet_id is not None:
            touched.add(pet_id)
        now = None if pet_id is None else after.get(pet_id)
        rows += _of_change(change, result, pet_id, _wanted(change, pet_id, before), now)
    rows += _of_others(before, after, touched)
    # As objects first: beside a missing one, pandas would round an id to a float.
    frame = pd.DataFrame(rows, columns=_NAMES, dtype=object)
    return frame.astype({"id": "Int64"}).infer_objects()


def _wanted(change: Change, pet_id: int | None, before: Pets) -> Pet | None:
    if isinstance(change, Delete):
        return None
    if isinstance(change, Add):
        return msgspec.structs.replace(change.after, id=pet_id)
    # What others changed meanwhile in other fields stays.
    return _overlaid(before.get(change.before.id or 0, change.before), change)


def _overlaid(now: Pet, change: Update) -> Pet:
    names = {"category" if column == "category_id" else column for column in change.fields}
    new: dict[str, Any] = {name: getattr(change.after, name) for name in names}
    return msgspec.structs.replace(now, **new)


def _of_change(
    change: Change, result: Result, pet_id: int | None, wanted: Pet | None, now: Pet | None
) -> Iterator[_Surprise]:
    pet = change.after or change.before
    for column, expected, found in _apart(wanted, now):
        name = (pet.name or "") if pet else ""
        about = pet_id, name, change.source, change.kind
        yield _Surprise(*about, column, expected, found, result.outcome, result.message)


def _of_others(before: Pets, after: Pets, touched: set[int]) -> Iterator[_Surprise]:
    others = (before.keys() | after.keys()) - touched
    for pet_id in sorted(each for each in others if before.get(each) != after.get(each)):
        old, now = before.get(pet_id), after.get(pet_id)
        name = (now or old or Pet()).name or ""
        # Even what counts as equal elsewhere, such as blanks around a name, must not change here.
        apart = [*_apart(old, now)] or [("", _exact(old), _exact(now))]
        for column, expected, found in apart:
            yield _Surprise(pet_id, name, "", "none", column, expected, found, "", _UNPLANNED)


def _apart(wanted: Pet | None, now: Pet | None) -> Iterator[tuple[str, str, str]]:
    """Column, expected and found, for each column; no column where the pet is there or is not."""
    if wanted is None or now is None:
        if now is not wanted:
            found = _NOT_THERE if now is None else _IN_THE_STORE
            yield "", _NOT_THERE if wanted is None else _IN_THE_STORE, found
        return
    for column in differing(wanted, now):
        yield column, cell(wanted, column), cell(now, column)
    if wanted.extra != now.extra:
        yield _UNKNOWN_FIELDS, _exact(wanted.extra), _exact(now.extra)


def _exact(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
