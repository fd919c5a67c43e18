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
from petsync.diff.merge import clears
from petsync.diff.report import Report
from petsync.diff.rows import Row, said_rows
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
    left = dict(_applied(report))
    moved = {*left}
    for row in _edited(sheet, report, sheet.base, sent):
        if row.number in report.plan.recognised and row.pet_id is not None:
            pets.setdefault(row.pet_id, Pet(id=row.pet_id))
        if row.action == "delete":
            pets.pop(row.pet_id, None)
        elif row.pet_id in pets:
            moved.add(row.pet_id)
            pets[row.pet_id] = _overlaid(pets[row.pet_id], _of(row, sent), left.get(row.pet_id))
    ordered = sorted(pets.values(), key=lambda pet: pet.id or 0)
    said = {pet_id: pet for pet_id, pet in sheet.base.said.items() if pet_id not in moved}
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
    frame = identified(sheet.frame, report.plan.recognised)
    stuck = {result.row for result in report.results if result.outcome != "applied"} - set(sent)
    settled = ~frame.index.isin(stuck) & (frame["action"] != "ignore").to_numpy(dtype=bool)
    rows = frame[settled]
    edited = _edited_since(rows, base)
    rows = rows[edited | (rows["action"] == "delete").to_numpy(dtype=bool)]
    yield from said_rows(rows, align.positions(rows["id"], base.frame))


def _edited_since(rows: pd.DataFrame, base: Base) -> align.Mask:
    """Which rows say anything that the base does not; rows that it lacks do."""
    places = align.positions(rows["id"], base.frame)
    result = places < 0
    at = np.flatnonzero(~result)
    masks = align.differences(rows, at, base.frame, places[at])
    result[at] = np.logical_or.reduce(list(masks.values()))
    return result


def identified(frame: pd.DataFrame, recognised: Mapping[int, int]) -> pd.DataFrame:
    """The rows, those that were recognised, or whose pets the store has under another id, with the
    ids of their pets.
    """
    ids = frame["id"] if "id" in frame else pd.Series(pd.NA, frame.index, dtype="Int64")
    known = pd.Series(recognised, dtype="Int64").reindex(frame.index)
    return frame.assign(id=known.fillna(ids))


def _overlaid(pet: Pet, said: Mapping[Column, Any], sent: Pet | None) -> Pet:
    """The pet with what a row says; a cell of a category that the row lacks is as it was sent."""
    new = {name: said[name] for name in ("name", "status") if name in said}
    new |= {name: tuple(said[name]) for name in ("tags", "photo_urls") if name in said}
    if "category" in said or "category_id" in said:
        old = (pet if sent is None else sent).category or Category()
        number, name = said.get("category_id", old.id), said.get("category", old.name)
        is_cleared = "category" in said and clears(said, pet.category)
        new["category"] = None if is_cleared else Category(number, name, old.extra)
    return msgspec.structs.replace(pet, **new)
