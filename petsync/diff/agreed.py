"""Agreed: in what a sheet and a store differ now, and the base that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from petsync.diff import align
from petsync.diff.advance import identified
from petsync.diff.fields import with_fields
from petsync.diff.merge import laid_over
from petsync.diff.rows import said_rows
from petsync.diff.snapshot import Snapshot
from petsync.diff.units import COLUMNS_OF, UNITS, Unit, changed_columns
from petsync.diff.vocabulary import Vocabulary
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.sheet import Sheet

__all__ = ["Sight", "named_ids", "sight_of"]


@dataclass(frozen=True, slots=True)
class Sight:
    """The rows of a sheet beside the pets that they are about.

    `rows` are their numbers, `ids` their pets' ids and `places` these pets' places in the snapshot
    (-1 where it is not there); `differing` has the units in which a row says something else than
    its pet. `named` are all pets that rows mean, blocked rows too.
    """

    rows: tuple[int, ...]
    ids: tuple[int, ...]
    places: tuple[int, ...]
    differing: Mapping[int, tuple[Unit, ...]]
    named: frozenset[int]

    def columns(self, row: int) -> tuple[Column, ...]:
        """The columns of the units in which a row differs."""
        return tuple(c for unit in self.differing.get(row, ()) for c in COLUMNS_OF[unit])

    def base(
        self, snapshot: Snapshot, old: Base | None, elsewhere: frozenset[int] = frozenset()
    ) -> Base:
        """What both sides agree on now, or did once.

        Of a pet that is on both sides, units that agree, or of which the sheet says nothing, are
        as the store has them; those that differ stay as they were in `old`, and a pet that differs
        and was not there is left out. A pet of `old` that is on one side alone, or in another
        sheet (`elsewhere`), stays as it was.
        """
        pairs = [each for each in zip(self.rows, self.places, strict=True) if each[1] >= 0]
        agreeing = [place for row, place in pairs if not self.differing.get(row)]
        mixed = {place: self.differing[row] for row, place in pairs if self.differing.get(row)}
        parts = [snapshot.frame.iloc[sorted(set(agreeing))], *_mixed(snapshot, mixed, old)]
        if old is not None:
            parts.append(self._one_sided(snapshot, old, elsewhere))
        kept = [part for part in parts if len(part)] or parts[:1]
        frame = kept[0] if len(kept) == 1 else pd.concat(kept, ignore_index=True)
        return Base(
            frame=frame.sort_values("id", kind="stable").reset_index(drop=True),
            store=snapshot.source,
            taken_at=snapshot.taken_at.isoformat(timespec="microseconds"),
        )

    def _one_sided(self, snapshot: Snapshot, old: Base, elsewhere: frozenset[int]) -> pd.DataFrame:
        settled = {i for i, place in zip(self.ids, self.places, strict=True) if place >= 0}
        there = {*snapshot.frame["id"].tolist(), *self.named, *elsewhere}
        ids = old.frame["id"].tolist()
        keep = [i not in settled and i in there for i in ids]
        return old.frame[np.array(keep, dtype=bool)]


def named_ids(sheet: Sheet) -> frozenset[int]:
    """The ids that rows give, blocked ones too."""
    known = sheet.frame["id"].dropna().tolist() if "id" in sheet.frame else []
    return frozenset([*known, *sheet.blocked_ids])


def sight_of(sheet: Sheet, snapshot: Snapshot, recognised: Mapping[int, int]) -> Sight:
    """The sheet beside the snapshot; `recognised` are the pets of rows without an id. Rows that ask
    for a deletion say nothing of their pet.
    """
    frame = identified(sheet.frame, recognised)
    named = frozenset([*frame["id"].dropna().tolist(), *sheet.blocked_ids])
    told = frame[frame["id"].notna() & (frame["action"] != "delete")]
    places = align.positions(told["id"], snapshot.frame)
    at = np.flatnonzero(places >= 0)
    masks = {**align.differences(told, at, snapshot.frame, places[at])}
    masks["category"] = _exact(masks["category"], told.iloc[at], places[at], snapshot)
    rows = told.index.tolist()
    differing = {
        rows[place]: tuple(unit for unit in UNITS if masks[unit][n])
        for n, place in enumerate(at.tolist())
        if any(masks[unit][n] for unit in UNITS)
    }
    ids = tuple(int(each) for each in told["id"].tolist())
    return Sight(tuple(rows), ids, tuple(places.tolist()), differing, named)


def _exact(
    mask: align.Mask, rows: pd.DataFrame, places: align.Positions, snapshot: Snapshot
) -> align.Mask:
    """Of the rows that may say another category than their pet, those that do: a cell that empties
    it agrees with a pet that has none, and a name counts before the id beside it.
    """
    some = np.flatnonzero(mask)
    if not len(some):
        return mask
    vocabulary = Vocabulary(snapshot.frame)
    pets = pets_from_frame(snapshot.frame.iloc[places[some]])
    lines = said_rows(rows.iloc[some], places[some])
    result = mask.copy()
    result[some] = [
        bool(changed_columns(laid_over(pet, "category", row.said, vocabulary), pet, "category"))
        for row, pet in zip(lines, pets, strict=True)
    ]
    return result


def _mixed(
    snapshot: Snapshot, mixed: Mapping[int, tuple[Unit, ...]], old: Base | None
) -> list[pd.DataFrame]:
    """The pets that differ, with the units in which they do as they were."""
    if old is None or not mixed:
        return []
    pets = pets_from_frame(snapshot.frame.iloc[list(mixed)])
    ids = pd.Series([pet.id for pet in pets], dtype="Int64")
    places = align.positions(ids, old.frame)
    before = iter(pets_from_frame(old.frame.iloc[places[places >= 0]]))
    made = [
        with_fields(pet, next(before), units)
        for pet, units, place in zip(pets, mixed.values(), places.tolist(), strict=True)
        if place >= 0
    ]
    return [frame_from_pets(made)] if made else []
