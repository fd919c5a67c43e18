"""Agreed: in what a sheet and a store differ now, and the base that follows from it.

The base has both sides. Its frame is what the store had when both agreed; its `said` is what the
sheet said then, where that is another text: a row may say a category's new name beside the number
of the old one, and a column that is missing keeps what it said before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from petsync.diff import align
from petsync.diff.advance import identified
from petsync.diff.fields import equal, known_id, normal, tag_key, with_fields
from petsync.diff.judge import Judge
from petsync.diff.known import pets_of
from petsync.diff.merge import Said
from petsync.diff.rows import said_rows
from petsync.diff.snapshot import Snapshot
from petsync.diff.units import COLUMNS_OF, UNITS, Unit, changed_columns
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Category, Pet, Tag
from petsync.table.base import Base
from petsync.table.columns import CLEARED, COLUMNS, Column
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.sheet import Sheet

__all__ = [
    "Sight",
    "as_exported",
    "category_cells",
    "is_blank",
    "is_empty",
    "is_other",
    "missing_columns",
    "named_ids",
    "said_category",
    "sight_of",
    "with_category",
    "with_columns",
    "with_missing",
]


_REMEMBERED = timedelta(days=90)
"""How long a pet is remembered that has gone from both sides."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The rows of a sheet beside the pets that they are about.

    `rows` are their numbers, `ids` their pets' ids and `places` these pets' places in the snapshot
    (-1 where it is not there); `differing` has the units in which a row says something else than
    its pet. `named` are all pets that rows mean, blocked rows too. `frame` has the rows themselves;
    `cells`: by pet, the category's cells of the rows that mean its category and spell it otherwise.
    `voiced` are the columns that say anything, `headers` those that petsync does not use.
    `unnumbered` are the pets of rows that lack their id; `has_unknown`: there are more such rows,
    whose pet is not known.
    """

    rows: tuple[int, ...]
    ids: tuple[int, ...]
    places: tuple[int, ...]
    differing: Mapping[int, tuple[Unit, ...]]
    named: frozenset[int]
    frame: pd.DataFrame
    cells: Mapping[int, Category]
    voiced: frozenset[str]
    headers: tuple[str, ...]
    unnumbered: frozenset[int]
    has_unknown: bool

    def columns(self, row: int) -> tuple[Column, ...]:
        """The columns of the units in which a row differs."""
        return tuple(c for unit in self.differing.get(row, ()) for c in COLUMNS_OF[unit])

    def base(
        self,
        snapshot: Snapshot,
        old: Base | None,
        elsewhere: frozenset[int] = frozenset(),
        *,
        fills: bool = False,
    ) -> Base:
        """What both sides agree on now, or did once.

        Of a pet that is on both sides, units that agree, or of which the sheet says nothing, are
        as the store has them; those that differ stay as they were in `old`, and a pet that differs
        and was not there is left out. A pet of `old` that is on one side alone, or in another
        sheet (`elsewhere`), stays as it was. Where the round `fills` blank cells, one that is
        still to be filled stays as it was, too.
        """
        pairs = [each for each in zip(self.rows, self.places, strict=True) if each[1] >= 0]
        blank = self._unfilled(snapshot, old) if fills and old is not None else {}
        units = {row: (*self.differing.get(row, ()), *blank.get(row, ())) for row, _ in pairs}
        agreeing = [place for row, place in pairs if not units[row]]
        mixed = {place: units[row] for row, place in pairs if units[row]}
        parts = [
            snapshot.frame.iloc[sorted(set(agreeing))],
            *_mixed(snapshot, mixed, _returned(old)),
        ]
        if old is not None:
            parts.append(self._one_sided(snapshot, old, elsewhere))
        kept = [part for part in parts if len(part)] or parts[:1]
        frame = kept[0] if len(kept) == 1 else pd.concat(kept, ignore_index=True)
        known = frozenset[str]() if old is None or old.columns is None else old.columns
        missing = known - self.voiced - {"id"}
        renamed = old is not None and bool(missing - ({*self.frame.columns} - {"action"}))
        base = Base(
            frame=frame.sort_values("id", kind="stable").reset_index(drop=True),
            store=snapshot.source,
            taken_at=snapshot.taken_at.isoformat(timespec="microseconds"),
            columns=self.voiced | missing,
            missing=missing,
            headers=old.headers if renamed and old is not None else self.headers,
            unnumbered=self._unnumbered(old),
        )
        return replace(
            base,
            said=self._said(base, old),
            gone=self._gone(base, snapshot, old),
            unsure=self._unsure(base, old),
        )

    def _gone(self, base: Base, snapshot: Snapshot, old: Base | None) -> dict[int, str]:
        """The pets that have gone from both sides, for a while: their rows may come back."""
        if old is None:
            return {}
        oldest = (snapshot.taken_at - _REMEMBERED).isoformat(timespec="microseconds")
        there = {*snapshot.frame["id"].tolist()}
        # A row that names such a pet again brings it into the base, and it is gone all the same.
        gone = {**dict.fromkeys(old.ids - base.ids, base.taken_at), **old.gone}
        return {i: on for i, on in gone.items() if i not in there and on >= oldest}

    def _unsure(self, base: Base, old: Base | None) -> dict[int, tuple[str, ...]]:
        """What was unsure before and differs still, or is on one side alone, or whose column is
        missing.
        """
        missing = {unit for unit in UNITS if base.missing.intersection(COLUMNS_OF[unit])}
        before = {} if old is None else {i: u for i, u in old.unsure.items() if i in base.ids}
        pairs = zip(self.rows, self.ids, self.places, strict=True)
        rows = {pet_id: row for row, pet_id, at in pairs if at >= 0 and pet_id in before}
        differing = {pet_id: self.differing.get(row, ()) for pet_id, row in rows.items()}
        left = {
            pet_id: tuple(u for u in units if u in missing or u in differing.get(pet_id, units))
            for pet_id, units in before.items()
        }
        return {pet_id: units for pet_id, units in left.items() if units}

    def _unnumbered(self, old: Base | None) -> frozenset[int]:
        """The pets whose rows lack their id; those of before too while a row may be theirs."""
        before = frozenset[int]() if old is None or not self.has_unknown else old.unnumbered
        return self.unnumbered | (before - self.named)

    def _unfilled(self, snapshot: Snapshot, old: Base) -> dict[int, tuple[Unit, ...]]:
        """By row, the units that say nothing and had nothing, and of which the store has something
        by now.
        """
        said = old.said_frame
        before = align.positions(self.frame["id"], said)
        places = np.array(self.places, dtype=np.intp)
        at = np.flatnonzero((places >= 0) & (before >= 0))
        found: dict[int, tuple[Unit, ...]] = {}
        for unit in UNITS:
            columns = [column for column in COLUMNS_OF[unit] if column in self.frame]
            some = at if columns else at[:0]
            for column in columns:
                some = some[is_blank(self.frame[column].iloc[some])]
            for column in columns:
                some = some[is_empty(said[column].iloc[before[some]])]
            if columns:
                now = [is_empty(snapshot.frame[c].iloc[places[some]]) for c in columns]
                some = some[~np.logical_and.reduce(now)]
            for n in some.tolist():
                found[self.rows[n]] = (*found.get(self.rows[n], ()), unit)
        return found

    def _said(self, base: Base, old: Base | None) -> dict[int, Pet]:
        """The pets as the sheet says them, or last said them, where that differs from the base."""
        rows = dict(zip(self.ids, self.rows, strict=True))
        seen = {i for i, place in zip(self.ids, self.places, strict=True) if place >= 0}
        before = {} if old is None else self._before(base, old)
        wanted = [*self.cells, *before, *(old.said if old is not None else ())]
        said: dict[int, Pet] = {}
        for pet in pets_of(wanted, base.frame):
            pet_id = pet.id or 0
            then = before.get(pet_id) or (old.said.get(pet_id) if old is not None else None)
            if pet_id not in seen:
                new = pet if then is None else then
            else:
                new = self._as_said(pet, rows[pet_id], then, base.missing)
            if is_other(pet, new):
                said[pet_id] = new
        return said

    def _as_said(self, pet: Pet, row: int, then: Pet | None, missing: Collection[str]) -> Pet:
        """A pet of the base as its row says it; `then` is how the sheet last said it."""
        if "category" in self.differing.get(row, ()):
            pet = pet if then is None else with_fields(pet, then, ("category",))
        elif (cells := self.cells.get(pet.id or 0)) is not None:
            pet = with_category(pet, cells)
        return pet if then is None else with_columns(pet, then, missing)

    def _before(self, base: Base, old: Base) -> dict[int, Pet]:
        """The pets as the sheet said them before columns of it were missing, where the base has
        something else by now.
        """
        if not base.missing:
            return {}
        said = old.said_frame
        places = align.positions(said["id"], base.frame)
        at = np.flatnonzero(places >= 0)
        masks = align.differences(said, at, base.frame, places[at])
        units = [unit for unit in UNITS if {*COLUMNS_OF[unit]} & base.missing]
        some = at[np.logical_or.reduce([masks[unit] for unit in units])]
        return {pet.id or 0: pet for pet in pets_from_frame(said.iloc[some])}

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


def as_exported(base: Base) -> Base:
    """The base that a sheet carries, with the columns in which the export said anything."""
    if base.columns is not None:
        return base
    said = {c for c in COLUMNS if c == "id" or not is_empty(base.frame[c]).all()}
    return replace(base, columns=frozenset(said))


def missing_columns(sheet: Sheet, base: Base | None) -> tuple[frozenset[str], tuple[str, ...]]:
    """The columns in which the sheet has said something before and says nothing now, but for `id`,
    and the headers that have come since: one of them may be the new name of such a column.
    """
    if base is None or base.columns is None:
        return frozenset(), ()
    missing = base.columns - _voiced(sheet) - {"id"}
    new = [str(header) for header in sheet.others.columns if str(header) not in base.headers]
    return missing, tuple(new) if missing - {*sheet.columns} else ()


def with_missing(base: Base | None, sheet: Sheet) -> Base | None:
    """The base that knows which of its columns the sheet lacks now: what arrives from here on is
    not what the sheet says in them.
    """
    missing, _ = missing_columns(sheet, base)
    return base if base is None else replace(base, missing=base.missing | missing)


def category_cells(pet: Pet) -> Category:
    """A pet's category, one without anything where it has none."""
    return pet.category or Category()


def is_other(pet: Pet, said: Pet) -> bool:
    """Whether a sheet says anything of a pet otherwise, ids that were assigned since among it."""
    return not all(equal(pet, said, column) for column in COLUMNS)


def with_category(pet: Pet, cells: Category) -> Pet:
    """The pet with a category of these cells; a cell that is None stays as it is, and beside a name
    that is cleared no number counts. An empty name beside a number is one.
    """
    is_nameless = cells.name is not None and not normal(cells.name)
    if cells.name == CLEARED or (is_nameless and known_id(cells.id) is None):
        return msgspec.structs.replace(pet, category=None)
    old = category_cells(pet)
    number = old.id if cells.id is None else cells.id
    name = old.name if cells.name is None else cells.name
    if (number, name) == (old.id, old.name):
        return pet
    return msgspec.structs.replace(pet, category=Category(number, name))


def with_columns(pet: Pet, other: Pet, columns: Collection[str]) -> Pet:
    """The pet with these columns of the other one; of a category each cell by itself."""
    plain = [c for c in COLUMNS if c in columns and c not in COLUMNS_OF["category"]]
    cells = category_cells(other)
    name = cells.name if "category" in columns else None
    number = cells.id if "category_id" in columns else None
    return with_category(with_fields(pet, other, plain), Category(number, name))


def is_blank(column: pd.Series[Any]) -> align.Mask:
    """Which cells of a sheet say nothing."""
    if column.dtype != object:
        return column.isna().to_numpy(dtype=bool, copy=True)
    return np.array([not isinstance(value, list) for value in column.tolist()], dtype=bool)


def is_empty(column: pd.Series[Any]) -> align.Mask:
    """Where a pet has nothing in a column: an id of 0 is none, and a tag without name and id is
    none, either.
    """
    if column.dtype == object:
        return np.array([not any(map(_has_text, value or ())) for value in column], dtype=bool)
    nothing = 0 if column.name == "category_id" else ""
    gone: align.Mask = column.isna().to_numpy(dtype=bool)
    return gone | (column == nothing).fillna(value=False).to_numpy(dtype=bool)


def _has_text(item: Tag | str) -> bool:
    return bool(normal(item)) if isinstance(item, str) else tag_key(item) != (None, "")


def sight_of(
    sheet: Sheet,
    snapshot: Snapshot,
    recognised: Mapping[int, int],
    base: Base | None = None,
    unclear: Collection[int | None] = (),
) -> Sight:
    """The sheet beside the snapshot; `recognised` are the pets of rows without an id. Rows that ask
    for a deletion say nothing of their pet. By the `base` it is known which cell of a category was
    edited, and so which category a row means that names one and gives the number of another; rows
    whose category is `unclear` agree on none.
    """
    frame = identified(sheet.frame, recognised)
    named = frozenset([*frame["id"].dropna().tolist(), *sheet.blocked_ids])
    lacking = sheet.frame["id"].isna() if "id" in sheet.frame else pd.Series(True, frame.index)
    told = frame[frame["id"].notna() & (frame["action"] != "delete")]
    places = align.positions(told["id"], snapshot.frame)
    at = np.flatnonzero(places >= 0)
    masks = {**align.differences(told, at, snapshot.frame, places[at])}
    is_unclear = told.index[at].isin([row for row in unclear if row is not None])
    masks["category"], cells = _exact(
        masks["category"], told.iloc[at], places[at], snapshot, base, is_unclear
    )
    rows = told.index.tolist()
    differing = {
        rows[place]: tuple(unit for unit in UNITS if masks[unit][n])
        for n, place in enumerate(at.tolist())
        if any(masks[unit][n] for unit in UNITS)
    }
    ids = tuple(int(each) for each in told["id"].tolist())
    return Sight(
        rows=tuple(rows),
        ids=ids,
        places=tuple(places.tolist()),
        differing=differing,
        named=named,
        frame=told,
        cells=cells,
        voiced=_voiced(sheet),
        headers=tuple(map(str, sheet.others.columns)),
        unnumbered=frozenset(frame["id"][lacking].dropna().tolist()),
        has_unknown=bool(sheet.unidentified) or bool(frame["id"].isna().any()),
    )


def _voiced(sheet: Sheet) -> frozenset[str]:
    """The columns in which a row says anything; all that are there where no row can be used."""
    frame = sheet.frame
    there = [column for column in COLUMNS if column in frame and column != "id"]
    said = {c for c in there if frame.empty or not is_blank(frame[c]).all()}
    ids = {"id"} if named_ids(sheet) else set()
    return frozenset({*said, *ids, *({"action"} & {*sheet.columns})})


def _exact(
    mask: align.Mask,
    rows: pd.DataFrame,
    places: align.Positions,
    snapshot: Snapshot,
    base: Base | None,
    unclear: align.Mask,
) -> tuple[align.Mask, dict[int, Category]]:
    """Of the rows that may say another category than their pet, those that do: a cell that empties
    it agrees with a pet that has none, and a name counts before the id beside it, unless the id
    alone was edited or it is unclear which of them counts. Then the cells of the others, by pet.
    """
    some = np.flatnonzero(mask)
    if not len(some):
        return mask, {}
    vocabulary = Vocabulary(snapshot.frame)
    pets = pets_from_frame(snapshot.frame.iloc[places[some]])
    lines = [*said_rows(rows.iloc[some], places[some])]
    judge = Judge(vocabulary, base=base)
    ids = [pet.id or 0 for pet in pets]
    known = {} if base is None else {pet.id: pet for pet in pets_of(ids, base.frame)}
    result = mask.copy()
    result[some] = [
        bool(
            changed_columns(judge.meant_category(row.said, pet, known.get(pet.id)), pet, "category")
        )
        for row, pet in zip(lines, pets, strict=True)
    ]
    result |= mask & unclear
    agree = zip(lines, pets, result[some].tolist(), strict=True)
    return result, {
        pet.id or 0: said_category(row.said) for row, pet, differs in agree if not differs
    }


def said_category(said: Said) -> Category:
    """The category's cells as a row says them; None for one that says nothing."""
    return Category(said.get("category_id"), said.get("category"))


def _returned(old: Base | None) -> Base | None:
    """The base in which units that said nothing are as the sheet said them before: what comes back
    and differs is still to be compared by that.
    """
    if old is None or not old.missing or old.columns is None:
        return old
    known = {unit: {*COLUMNS_OF[unit]} & old.columns for unit in UNITS}
    units = [unit for unit in UNITS if known[unit] and known[unit] <= old.missing]
    pets = pets_of(old.said, old.frame)
    return old.with_pets([with_fields(pet, old.said[pet.id or 0], units) for pet in pets])


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
