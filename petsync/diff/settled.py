"""The base once something has arrived: what a run sent, and what a sheet took, is agreed on.

Else whoever takes an edit back, before both sides were looked at again, would seem to have changed
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd

from petsync.diff.agreed import named_ids
from petsync.diff.change import Add, Delete, Update
from petsync.diff.fields import normal, same, with_fields
from petsync.diff.intake import Inbound
from petsync.diff.known import pets_of
from petsync.diff.match import Candidates
from petsync.diff.report import Report
from petsync.diff.rows import said_rows
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

__all__ = ["SETTLED", "remembered", "with_inbound", "with_report"]

SETTLED = frozenset({"already-so", "already-gone"})
"""Causes of results whose change was there before it was sent."""
_MERGING = ("tags", "photo_urls")
Moves = Mapping[int, Pet | None]
"""Pets by their ids as they are now; None for one that is gone."""


def with_report(base: Base | None, report: Report) -> Base:
    """The base with all that a run of the job's own plan brought about."""
    start = base or _empty(report.plan.store, report.started)
    ids = [change.pet_id for change in report.plan.changes if change.pet_id is not None]
    old = {pet.id: pet for pet in pets_of(ids, start.frame)}
    return _moved(start, dict(_sent(report, old)))


def with_inbound(base: Base, inbound: Inbound) -> Base:
    """The base with all that a sheet took. A pet that the base lacks is not known as a whole."""
    old = {pet.id: pet for pet in pets_of([e.pet.id or 0 for e in inbound.edits], base.frame)}
    moves: dict[int, Pet | None] = {
        edit.pet.id: with_fields(old[edit.pet.id], edit.pet, edit.fields)
        for edit in inbound.edits
        if edit.pet.id is not None and edit.pet.id in old
    }
    moves |= {pet.id: pet for pet in inbound.added if pet.id is not None}
    moves |= {gone.pet_id: None for gone in inbound.removed}
    return replace(_moved(base, moves), taken_at=inbound.created)


def remembered(sheet: Sheet, base: Base, pets: pd.DataFrame) -> dict[int, int]:
    """The pets of rows without an id, by row: of those that say what a pet of the base was that no
    other row names. They meant it at the last round, whatever the store has made of it since.
    """
    frame = sheet.frame
    lacking = frame["id"].isna() if "id" in frame else pd.Series(True, frame.index)
    rows = frame[lacking & (frame["action"] == "merge")]
    if rows.empty or "name" not in rows:
        return {}
    free = ~base.frame["id"].isin(named_ids(sheet)).to_numpy(dtype=bool)
    names = {normal(name) for name in rows["name"].dropna()}
    known = Candidates(base.frame, free, names, ())
    lines = list(said_rows(rows, np.full(len(rows), -1, dtype=np.intp)))
    found = known.identical(lines, Vocabulary(pets))
    return {row: pet.id for row, (_, pet) in found.items() if pet.id is not None}


def _sent(report: Report, old: Mapping[int | None, Pet]) -> Iterator[tuple[int, Pet | None]]:
    for result in report.results:
        if result.kind == "none" or not (result.outcome == "applied" or result.cause in SETTLED):
            continue
        change = report.plan.changes[result.number]
        pet_id = change.pet_id if result.assigned_id is None else result.assigned_id
        if pet_id is None:
            continue
        if isinstance(change, Delete):
            yield pet_id, None
        elif isinstance(change, Add) or pet_id not in old:
            yield pet_id, msgspec.structs.replace(change.after, id=pet_id)
        else:
            yield pet_id, with_fields(old[pet_id], change.after, _said(change, old[pet_id]))


def _said(change: Update, old: Pet) -> Iterator[Column]:
    """The fields in which the change is what the row says. Tags and photos that both sides had
    changed were merged: the sheet says that only once it was written, and they merge again.
    """
    for column in change.fields:
        if column not in _MERGING or same(old, change.before, column):
            yield column


def _moved(base: Base, moves: Moves) -> Base:
    if not moves:
        return base
    stays = base.frame[~base.frame["id"].isin(list(moves))]
    made = frame_from_pets([pet for pet in moves.values() if pet is not None])
    parts = [part for part in (stays, made) if len(part)] or [stays]
    frame = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
    return replace(base, frame=frame.sort_values("id", kind="stable", ignore_index=True))


def _empty(store: str, moment: str) -> Base:
    return Base(frame=frame_from_pets([]), store=store, taken_at=moment)
