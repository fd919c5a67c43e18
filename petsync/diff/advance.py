"""The base of a result sheet: what a run made true is no edit any more.

Else a cell that a person sets back to what it was exported with would look as if nobody had
edited it, and would say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from petsync.diff import align
from petsync.diff.change import Add, Delete
from petsync.diff.fields import equal
from petsync.diff.merge import clears
from petsync.diff.report import Report
from petsync.diff.rows import Row, said_rows
from petsync.diff.units import COLUMNS_OF
from petsync.model import Category, Pet
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.sheet import Sheet

__all__ = ["advanced", "identified"]


def advanced(sheet: Sheet, report: Report) -> Base | None:
    """The base for the sheet after the run, None where it has none.

    Of each row that was applied, or that the store agreed with, the base says what the row says;
    for every other row it stays, so that its edits are edits still. A row that was recognised
    counts as one with its pet's id.
    """
    if sheet.base is None:
        return None
    pets = {pet.id: pet for pet in pets_from_frame(sheet.base.frame)}
    for pet_id, pet in _applied(report):
        if pet is None:
            pets.pop(pet_id, None)
        else:
            pets[pet_id] = pets.get(pet_id, pet)
    sent = _partly_applied(report)
    moved = {*dict(_applied(report))}
    regrouped = _regrouped(report)
    before = {pet.id: pet for pet in pets_from_frame(sheet.base.said_frame)}
    said = {pet_id: pet for pet_id, pet in sheet.base.said.items() if pet_id not in moved}
    for row in _edited(sheet, report, sheet.base, sent):
        if row.number in report.plan.recognised and row.pet_id is not None:
            pets.setdefault(row.pet_id, Pet(id=row.pet_id))
        if row.action == "delete":
            pets.pop(row.pet_id, None)
        elif row.pet_id is not None and row.pet_id in pets:
            cells = _of(row, sent)
            last = before.get(row.pet_id, pets[row.pet_id])
            agreed = _overlaid(pets[row.pet_id], cells, last, regrouped)
            pets[row.pet_id] = agreed
            said.pop(row.pet_id, None)
            spelled = msgspec.structs.replace(agreed, category=_spelled(cells, last))
            if not all(equal(agreed, spelled, column) for column in COLUMNS_OF["category"]):
                said[row.pet_id] = spelled
    ordered = sorted(pets.values(), key=lambda pet: pet.id or 0)
    return replace(sheet.base, frame=frame_from_pets(ordered), said=said)


def _applied(report: Report) -> Iterator[tuple[int | None, Pet | None]]:
    """The pets that the run left, by id; None for those that it deleted."""
    for result in report.results:
        if result.outcome != "applied" or result.kind == "none":
            continue
        change = report.plan.changes[result.number]
        if isinstance(change, Delete):
            yield change.pet_id, None
        elif isinstance(change, Add) and result.assigned_id is not None:
            pet_id = result.assigned_id
            yield pet_id, msgspec.structs.replace(change.after, id=pet_id)
        else:
            yield change.pet_id, change.after


def _regrouped(report: Report) -> dict[int | None, Category | None]:
    """The categories that the run sent, by the ids of the pets."""
    changes = report.plan.changes
    columns = {*COLUMNS_OF["category"]}
    return {
        change.pet_id if result.assigned_id is None else result.assigned_id: change.after.category
        for result in report.results
        if result.outcome == "applied" and result.kind != "none"
        if not isinstance(change := changes[result.number], Delete)
        if isinstance(change, Add) or columns & {*change.fields}
    }


def _partly_applied(report: Report) -> dict[int | None, frozenset[str]]:
    """The fields that were applied of rows that are in conflict in others."""
    stuck = {result.row for result in report.results if result.kind == "none"}
    applied = (r for r in report.results if r.outcome == "applied" and r.kind == "update")
    return {result.row: frozenset(result.fields) for result in applied if result.row in stuck}


def _of(row: Row, sent: Mapping[int | None, frozenset[str]]) -> Mapping[Column, Any]:
    fields = sent.get(row.number)
    return {c: value for c, value in row.said.items() if fields is None or c in fields}


def _edited(
    sheet: Sheet, report: Report, base: Base, sent: Mapping[int | None, frozenset[str]]
) -> Iterator[Row]:
    """The rows that may have been edited, and are settled now, at least in what was sent."""
    added = {
        each.row: each.assigned_id
        for each in report.results
        if each.row is not None and each.assigned_id is not None and each.outcome == "applied"
    }
    frame = identified(sheet.frame, {**report.plan.recognised, **added})
    stuck = {result.row for result in report.results if result.outcome != "applied"} - set(sent)
    settled = ~frame.index.isin(stuck) & (frame["action"] != "ignore").to_numpy(dtype=bool)
    rows = frame[settled]
    edited = _edited_since(rows, base)
    rows = rows[edited | (rows["action"] == "delete").to_numpy(dtype=bool)]
    yield from said_rows(rows, align.positions(rows["id"], base.frame))


def _edited_since(rows: pd.DataFrame, base: Base) -> align.Mask:
    """Which rows say anything that the base does not; rows that it lacks do."""
    said = base.said_frame
    places = align.positions(rows["id"], said)
    result = places < 0
    at = np.flatnonzero(~result)
    masks = align.differences(rows, at, said, places[at])
    result[at] = np.logical_or.reduce(list(masks.values()))
    return result


def identified(frame: pd.DataFrame, recognised: Mapping[int, int]) -> pd.DataFrame:
    """The rows, those that were recognised, or whose pets the store has under another id, with the
    ids of their pets.
    """
    ids = frame["id"] if "id" in frame else pd.Series(pd.NA, frame.index, dtype="Int64")
    known = pd.Series(recognised, dtype="Int64").reindex(frame.index)
    return frame.assign(id=known.fillna(ids))


def _overlaid(
    pet: Pet,
    said: Mapping[Column, Any],
    last: Pet,
    regrouped: Mapping[int | None, Category | None],
) -> Pet:
    """The pet with what a row says; with the category as it was sent, or as the row says it where
    it says another one than it `last` did.
    """
    new = {name: said[name] for name in ("name", "status") if name in said}
    new |= {name: tuple(said[name]) for name in ("tags", "photo_urls") if name in said}
    if pet.id in regrouped:
        new["category"] = regrouped[pet.id]
    elif _spelled(said, last) != last.category:
        new["category"] = _spelled(said, pet)
    return msgspec.structs.replace(pet, **new)


def _spelled(said: Mapping[Column, Any], last: Pet) -> Category | None:
    """The category as a row says it: a cell that says nothing counts as what it `last` said."""
    if "category" in said and clears(said, last.category):
        return None
    old = last.category or Category()
    number, name = said.get("category_id", old.id), said.get("category", old.name)
    if (number, name) == (old.id, old.name):
        return last.category
    return Category(number, name, old.extra)
