"""The base: the last values on which sheet and store agreed. Runs and rounds update it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.models import Category, Pet, Tag
from petsync.plan import match
from petsync.plan.change import Add, Change, Conflict, Delete, Snapshot, Update
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    Vocabulary,
    category_cells,
    changed_columns,
    equal,
    has_value,
    is_as_expected,
    normalize,
    tag_key,
    update_fields,
    with_category,
    with_columns,
    with_fields,
)
from petsync.plan.match import Candidates, Row, RowValues, clears, iter_rows, pets_of
from petsync.plan.merge import Judge
from petsync.plan.plan import Inbound, RowEdit
from petsync.plan.report import Report
from petsync.table.arrow import SCHEMA, PetTable, rows_from_pets
from petsync.table.base import Base, pets_by_id
from petsync.table.columns import CLEARED, COLUMNS, LISTS, Column
from petsync.table.frame import (
    find_rows,
    frame_from_pets,
    has_action,
    has_id_in,
    ids_of,
    is_blank,
    join_rows,
    lacks_id,
    mask_rows,
    pets_at,
    plain_values,
    select,
    unique_texts,
    values_at,
)
from petsync.table.lists import ListArray, have_items
from petsync.table.sheet import Sheet

__all__ = [
    "RowComparison",
    "SentRun",
    "advance_base",
    "as_exported",
    "categories_of",
    "compare_rows",
    "continue_base",
    "find_changed_units",
    "find_remembered",
    "find_shared_pets",
    "is_empty",
    "is_from_runs",
    "is_other",
    "missing_columns",
    "read_category",
    "restore_missing_columns",
    "with_inbound",
    "with_missing",
    "with_newer_cells",
    "with_pet_ids",
    "with_report",
    "with_sent_changes",
    "with_unknown",
    "with_values_of",
]


# The base of a result sheet: a value that a run applied is no longer an edit.
#
# Otherwise a cell that the user sets back to its exported value would look unedited, and have no
# effect.


def advance_base(sheet: Sheet, report: Report) -> Base | None:
    """Return the base of the sheet after the run, None if the sheet has no base.

    The base takes the values of the rows with which the store agrees after the run; if a row is
    partly in conflict, only its sent fields. Edits in fields that are not sent, because of their
    owner, and all other edits in the sheet remain edits.
    """
    base = sheet.base
    if base is None:
        return None
    moved = {
        pet_id: None if change.after is None else msgspec.structs.replace(change.after, id=pet_id)
        for pet_id, change in _iter_sent_changes(report)
    }
    categories = {
        pet_id: change.after.category
        for pet_id, change in _iter_sent_changes(report)
        if change.after is not None and _changes_category(change)
    }
    deleted = {pet_id for pet_id, pet in moved.items() if pet is None}
    sent = _find_partly_sent(report)
    unsent = {c for unit in report.plan.options.unsent_units for c in COLUMNS_OF[unit]}
    rows = [*_iter_agreed_rows(sheet, report, base, sent)]
    # The base's other pets do not change.
    wanted = {*moved, *base.sheet_pets, *(row.pet_id or 0 for row in rows)}
    old = {pet.id or 0: pet for pet in pets_of(wanted - deleted, base.rows)}
    pets = {pet_id: pet for pet_id, pet in moved.items() if pet is not None} | old
    before = {pet.id: pet for pet in pets_of(wanted, base.sheet_rows)}
    sheet_pets = {i: pet for i, pet in base.sheet_pets.items() if _is_agreed(pets, moved, i)}
    own = Judge(Vocabulary(base.rows), sheet_wins=True)
    judge = replace(own, base=base)
    for row in rows:
        pet_id = row.pet_id or 0
        if row.action == "delete":
            pets.pop(pet_id, None)
            continue
        if row.number in report.plan.recognised:
            pets.setdefault(pet_id, Pet(id=pet_id))
        if pet_id in pets:
            values, pet = _select_sent_values(row, sent, unsent), pets[pet_id]
            # The row's values, also those of a column that was missing in the last round.
            agreed = own.judge(values, pet, pet, [u for u in UNITS if u != "category"]).after
            agreed = judge.judge(values, agreed, pet, ("category",)).after
            if pet_id in categories:
                agreed = msgspec.structs.replace(agreed, category=categories[pet_id])
            pets[pet_id] = agreed
            sheet_pets.pop(pet_id, None)
            last = before.get(pet_id, pet)
            absent = base.missing - {*row.values} - {*COLUMNS_OF["category"]}
            row_pet = with_columns(_build_row_pet(agreed, values, last), last, absent)
            if is_other(agreed, row_pet):
                sheet_pets[pet_id] = row_pet
    unsure = {i: units for i, units in base.unsure_units.items() if i not in moved}
    return replace(
        base.without(wanted - pets.keys()).with_pets([*pets.values()]),
        sheet_pets=sheet_pets,
        unsure_units=unsure,
        tab=sheet.tab,
    )


def _build_row_pet(agreed: Pet, values: RowValues, last: Pet) -> Pet:
    """Return the agreed pet with the category cells of its row; `last` has the sheet's earlier
    values. The number beside a cleared category does not count.
    """
    category = None
    if not clears(values, last.category):
        old, cells = last.category or Category(), _fill_category(read_category(values), last)
        same = (cells.id, cells.name) == (old.id, old.name)
        category = last.category if same else Category(cells.id, cells.name, old.extra)
    return msgspec.structs.replace(agreed, category=category)


def _is_agreed(pets: Mapping[int, Pet], moved: Mapping[int, Pet | None], pet_id: int) -> bool:
    if pet_id not in moved:
        return True
    old, new = pets.get(pet_id), moved[pet_id]
    return old is not None and all(
        new is not None and equal(old, new, column) for column in COLUMNS_OF["category"]
    )


def _find_partly_sent(report: Report) -> dict[int | None, frozenset[str]]:
    """Return, by row, the sent fields of rows that are in conflict in other fields."""
    stuck = {result.row for result in report.results if result.kind == "none"}
    sent = (each for each in report.results if each.kind == "update" and each.is_in_store)
    return {result.row: frozenset(result.fields) for result in sent if result.row in stuck}


def _select_sent_values(
    row: Row, sent: Mapping[int | None, frozenset[str]], unsent: Collection[Column]
) -> Mapping[Column, Any]:
    fields = sent.get(row.number)
    values = {c: value for c, value in row.values.items() if c not in unsent}
    return {c: value for c, value in values.items() if fields is None or c in fields}


def _iter_agreed_rows(
    sheet: Sheet, report: Report, base: Base, sent: Mapping[int | None, frozenset[str]]
) -> Iterator[Row]:
    """Yield the rows that may have been edited and now agree with the store, at least in the sent
    fields.
    """
    added = {
        each.row: each.assigned_id
        for each in report.results
        if each.row is not None and each.assigned_id is not None and each.is_in_store
    }
    frame = with_pet_ids(sheet.rows, {**report.plan.recognised, **added})
    stuck = {result.row for result in report.results if not result.is_in_store} - set(sent)
    is_done = ~mask_rows(frame, stuck) & ~has_action(frame, "ignore")
    rows = select(frame, is_done)
    edited = match.any_unit(match.edited_units(rows, np.arange(len(rows)), base))
    rows = select(rows, edited | has_action(rows, "delete"))
    yield from iter_rows(rows, places=match.positions(rows["id"].array, base.rows))


def with_pet_ids(frame: pd.DataFrame, recognised: Mapping[int, int]) -> pd.DataFrame:
    """Return the rows with the ids of their pets.

    `recognised` has the ids for rows without one, and for rows whose pets have another id in the
    store.
    """
    if "id" not in frame:
        frame = frame.assign(id=pd.Series(pd.NA, frame.index, dtype="Int64"))
    if not recognised:
        return frame
    known = pd.Series(recognised, dtype="Int64").reindex(frame.index)
    return frame.assign(id=known.fillna(frame["id"]))


# Agreement: the current differences between a sheet and a store, and the new base.
#
# The base has the values of both sides. `frame` has the store's values when both last agreed.
# `sheet_pets` has the sheet's values at that time, if they differ: a row may have a category's new
# name beside the id of the old one, and a missing column keeps its last values.


_REMEMBERED = timedelta(days=90)
"""The time for which the base remembers a pet that disappeared from both sheet and store."""


@dataclass(frozen=True, slots=True)
class RowComparison:
    """The rows of a sheet, compared with their pets."""

    rows: tuple[int, ...]
    """The rows' numbers."""
    ids: tuple[int, ...]
    """The ids of the rows' pets."""
    places: tuple[int, ...]
    """The positions of these pets in the snapshot, -1 for a pet that is not in it."""
    differing: Mapping[int, tuple[Unit, ...]]
    """The units in which a row differs from its pet, by row number."""
    named: frozenset[int]
    """The ids of all pets that rows name, including blocked rows."""
    frame: pd.DataFrame
    """The rows, with the ids of their pets."""
    cells: Mapping[int, Category]
    """By pet id, the category cells of rows that name the pet's category but write it
    differently.
    """
    filled_columns: frozenset[str]
    """The columns with values."""
    headers: tuple[str, ...]
    """The headers that petsync does not use."""
    unnumbered: frozenset[int]
    """The ids of the pets whose rows have no id."""
    has_unknown: bool
    """True if the pet of some row is unknown."""
    tab: str
    """The worksheet."""

    def columns(self, row: int) -> tuple[Column, ...]:
        """Return the columns of the units in which a row differs."""
        return tuple(c for unit in self.differing.get(row, ()) for c in COLUMNS_OF[unit])

    def base(
        self,
        snapshot: Snapshot,
        old: Base | None,
        elsewhere: frozenset[int] = frozenset(),
        *,
        fills: Collection[Unit] = (),
        divergent: Collection[Unit] = (),
    ) -> Base:
        """Return the last values on which sheet and store agree.

        Units that agree or are blank in the sheet get the store's values. Units that differ keep
        their values from `old`, and a pet that differs and is not in `old` is omitted. A pet of
        `old` that only the sheet or the store has, or that is in another sheet (`elsewhere`),
        stays. If the round `fills` blank cells of a unit, blank units keep their values from `old`,
        because the round might not write the store's new values into the sheet. A pet that differs
        only in units in which both sides are `divergent` and is not in `old` has no value there.
        """
        before = None if old is None else restore_missing_columns(old)
        blank = {} if before is None else self._find_unseen_units(snapshot, before, fills)
        units = {
            row: (*self.differing.get(row, ()), *blank.get(row, ()))
            for row in {*self.differing, *blank}
        }
        pairs = zip(self.rows, self.places, strict=True) if units else ()
        mixed = {place: units[row] for row, place in pairs if place >= 0 and units.get(row)}
        # Two rows may have one pet, but the base has each pet once.
        places, rows = np.array(self.places, np.intp), snapshot.rows
        agreeing = np.setdiff1d(places[places >= 0], np.array([*mixed], np.intp))
        parts = [
            rows if len(agreeing) == len(rows) else rows.iloc[agreeing],
            *_build_mixed_pets(snapshot, mixed, before, divergent),
        ]
        if old is not None:
            parts.append(self._select_one_sided(snapshot, old, elsewhere))
        frame = join_rows(parts)
        known = frozenset[str]() if old is None or old.columns is None else old.columns
        missing = known - self.filled_columns - {"id"}
        renamed = old is not None and bool(missing - ({*self.frame.columns} - {"action"}))
        base = Base(
            pets=PetTable(snapshot.pets.table) if frame is rows else pets_by_id(frame),
            store=snapshot.source,
            taken_at=snapshot.taken_at.isoformat(timespec="microseconds"),
            columns=self.filled_columns | missing,
            missing=missing,
            headers=old.headers if renamed and old is not None else self.headers,
            unnumbered=self._find_unnumbered(old),
            tab=self.tab,
        )
        return replace(
            base,
            sheet_pets=self._collect_sheet_pets(base, old),
            missing_since=self._find_missing_since(base, snapshot, old),
            unsure_units=self._find_unsure_units(base, old),
        )

    def _find_missing_since(
        self, base: Base, snapshot: Snapshot, old: Base | None
    ) -> dict[int, str]:
        """Return the ids of the pets that recently disappeared from both sheet and store, each with
        the time. Their rows may return.
        """
        if old is None:
            return {}
        oldest = (snapshot.taken_at - _REMEMBERED).isoformat(timespec="microseconds")
        # If a row names such a pet again, the base has the pet, but the store still lacks it.
        since = {**dict.fromkeys(old.ids - base.ids, base.taken_at), **old.missing_since}
        there = {*ids_of(snapshot.rows)} if since else set()
        return {i: on for i, on in since.items() if i not in there and on >= oldest}

    def _find_unsure_units(self, base: Base, old: Base | None) -> dict[int, tuple[str, ...]]:
        """Return the units of `old` that remain uncertain: they differ, or cannot be compared."""
        missing = {unit for unit in UNITS if base.missing.intersection(COLUMNS_OF[unit])}
        before = {} if old is None else {i: u for i, u in old.unsure_units.items() if i in base.ids}
        pairs = zip(self.rows, self.ids, self.places, strict=True) if before else ()
        rows = {pet_id: row for row, pet_id, at in pairs if at >= 0 and pet_id in before}
        differing = {pet_id: self.differing.get(row, ()) for pet_id, row in rows.items()}
        units_left = {
            pet_id: tuple(u for u in units if u in missing or u in differing.get(pet_id, units))
            for pet_id, units in before.items()
        }
        return {pet_id: units for pet_id, units in units_left.items() if units}

    def _find_unnumbered(self, old: Base | None) -> frozenset[int]:
        """Return the ids of the pets whose rows have no id. Ids in `old` stay as long as the pet of
        some row is unknown.
        """
        before = frozenset[int]() if old is None or not self.has_unknown else old.unnumbered
        return self.unnumbered | (before - self.named)

    def _find_unseen_units(
        self, snapshot: Snapshot, base: Base, fills: Collection[Unit]
    ) -> dict[int, tuple[Unit, ...]]:
        """Return, by row, the units of `fills` that are blank in the sheet and whose value in the
        store differs from the base: the sheet does not have the store's value.
        """
        frame = base.rows
        before, places = (
            match.positions(self.frame["id"].array, frame),
            np.array(self.places, np.intp),
        )
        blank: dict[Unit, match.Mask] = {}
        for unit in fills:
            masks = [is_blank(self.frame[c].array) for c in COLUMNS_OF[unit] if c in self.frame]
            if masks:
                blank[unit] = np.logical_and.reduce(masks) & (places >= 0) & (before >= 0)
        if not any(mask.any() for mask in blank.values()):
            return {}
        at = np.flatnonzero(match.any_unit(blank))
        different = match.find_different_units(frame, before[at], snapshot.rows, places[at])
        found: dict[int, tuple[Unit, ...]] = {}
        for unit, mask in blank.items():
            for n in at[different[unit] & mask[at]].tolist():
                found[self.rows[n]] = (*found.get(self.rows[n], ()), unit)
        return found

    def _collect_sheet_pets(self, base: Base, old: Base | None) -> dict[int, Pet]:
        """Return the pets as the sheet has or last had them, if they differ from the base."""
        before = {} if old is None else self._find_pets_before(base, old)
        wanted = [*self.cells, *before, *(old.sheet_pets if old is not None else ())]
        if not wanted:
            return {}
        rows = dict(zip(self.ids, self.rows, strict=True))
        seen = {i for i, place in zip(self.ids, self.places, strict=True) if place >= 0}
        found: dict[int, Pet] = {}
        for pet in pets_of(wanted, base.rows):
            pet_id = pet.id or 0
            last = before.get(pet_id) or (old.sheet_pets.get(pet_id) if old is not None else None)
            if pet_id not in seen:
                new = pet if last is None else last
            else:
                new = self._build_sheet_pet(pet, rows[pet_id], last, base)
            if is_other(pet, new):
                found[pet_id] = new
        return found

    def _build_sheet_pet(self, pet: Pet, row: int, last: Pet | None, base: Base) -> Pet:
        """Return a pet of the base with its values in the sheet. `last` has the sheet's previous
        values: they are used for a category that differs from the store's, and for missing columns.
        """
        if "category" in self.differing.get(row, ()):
            pet = pet if last is None else with_fields(pet, last, ("category",))
        elif (cells := self.cells.get(pet.id or 0)) is not None:
            pet = _with_cells(pet, cells, None)
        return pet if last is None else _with_missing_columns(pet, last, base)

    def _find_pets_before(self, base: Base, old: Base) -> dict[int, Pet]:
        """Return the pets as the sheet had them before columns went missing, if they differ from
        the base in these columns.
        """
        if not base.missing:
            return {}
        sheet_frame = old.sheet_rows
        places = match.positions(sheet_frame["id"].array, base.rows)
        at = np.flatnonzero(places >= 0)
        masks = match.find_different_units(sheet_frame, at, base.rows, places[at])
        units = [unit for unit in UNITS if {*COLUMNS_OF[unit]} & base.missing]
        some = at[np.logical_or.reduce([masks[unit] for unit in units])]
        return {pet.id or 0: pet for pet in pets_at(sheet_frame, some)}

    def _select_one_sided(
        self, snapshot: Snapshot, old: Base, elsewhere: frozenset[int]
    ) -> pd.DataFrame:
        present = {i for i, place in zip(self.ids, self.places, strict=True) if place >= 0}
        # For a removed row, the sheet did not have the store's changes in a missing column either.
        frame = restore_missing_columns(old).rows
        others = old.ids - present
        there = {*ids_of(snapshot.rows), *self.named, *elsewhere} if others else set()
        return select(frame, has_id_in(frame, others & there))


def with_ids_by_name(sheet: Sheet, base: Base) -> Sheet:
    """Return the sheet with ids filled in by name: a row without an id gets the id of the base's
    pet with the same name.

    A name counts only if exactly one such row and exactly one pet without a row have it. The row's
    values can then be compared with the sheet's earlier values. The row may still belong to another
    pet.
    """
    frame = sheet.rows
    lacking = lacks_id(frame)
    if "name" not in frame or not lacking.any():
        return sheet
    named = sheet.named_ids
    rows = frame["name"][lacking].dropna().map(normalize)
    pets = base.sheet_rows[~has_id_in(base.sheet_rows, named)]
    names = pets["name"].dropna().map(normalize)
    rows, names = (each[~each.duplicated(keep=False) & (each != "")] for each in (rows, names))
    ids = dict(zip(names.tolist(), pets["id"].loc[names.index].tolist(), strict=True))
    pairs = zip(rows.index.tolist(), rows.tolist(), strict=True)
    found = {row: ids[name] for row, name in pairs if name in ids}
    return sheet.with_rows(with_pet_ids(sheet.content.rows, found)) if found else sheet


def find_shared_pets(sheet: Sheet, pet_ids: Mapping[int, int]) -> set[int]:
    """Return the rows that share a pet: each row whose pet in `pet_ids` is also named by another
    row, and that other row.

    It is unknown which of them is the pet's row.
    """
    if not pet_ids:
        return set()
    frame = sheet.rows
    ids = plain_values(frame["id"].array) if "id" in frame else [None] * len(frame)
    named = [*zip(frame.index.tolist(), ids, strict=True), *sheet.blocked_pets.items()]
    wanted = {pet_id: row for row, pet_id in pet_ids.items()}
    pairs = [(row, wanted[i]) for row, i in named if i in wanted and wanted[i] != row]
    return {row for pair in pairs for row in pair}


def as_exported(base: Base) -> Base:
    """Return the base. If its `columns` are unknown, they become those with values in the export,
    and `id`.
    """
    if base.columns is not None:
        return base
    columns = {c for c in COLUMNS if c == "id" or not is_empty(base.rows[c].array).all()}
    return replace(base, columns=frozenset(columns))


def missing_columns(sheet: Sheet, base: Base | None) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the columns, except `id`, that lost all their values; and, if the header of such a
    column is gone, the new headers.

    A new header may be the new name of such a column.
    """
    if base is None or base.columns is None:
        return frozenset(), ()
    missing = base.columns - sheet.filled_columns - {"id"}
    new = [str(header) for header in sheet.others.columns if str(header) not in base.headers]
    return missing, tuple(new) if missing - {*sheet.columns} else ()


def with_missing(base: Base | None, sheet: Sheet) -> Base | None:
    """Return the base with the worksheet that was read, and with `missing` extended by the columns
    that have no values now. The sheet does not have the store's later changes in these columns.
    """
    missing, _ = missing_columns(sheet, base)
    return base if base is None else replace(base, missing=base.missing | missing, tab=sheet.tab)


def is_other(pet: Pet, row_pet: Pet) -> bool:
    """Return true if the sheet's values (`row_pet`) differ from the base's pet in any column.
    Ids are compared too.
    """
    return not all(equal(pet, row_pet, column) for column in COLUMNS)


def is_empty(column: pd.api.extensions.ExtensionArray) -> match.Mask:
    """Return a mask of the pets without a value in a column.

    An id of 0 is not a value, and neither is a tag without name and id, or a text of only white
    space.
    """
    if isinstance(column, ListArray):
        return column.items.are_blank()
    if isinstance(column, pd.arrays.NumpyExtensionArray):
        return ~have_items(column, _has_text)
    if isinstance(column, pd.arrays.IntegerArray):
        return np.asarray(column.to_numpy(dtype=np.int64, na_value=0) == 0, dtype=bool)
    texts = pa.array(column, from_pandas=True)
    is_none = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(texts), ""), fill_value=True)
    return np.asarray(is_none.to_numpy(zero_copy_only=False), dtype=bool)


def _has_text(item: Tag | str) -> bool:
    return bool(normalize(item)) if isinstance(item, str) else tag_key(item) != (None, "")


def compare_rows(
    sheet: Sheet,
    snapshot: Snapshot,
    recognised: Mapping[int, int],
    base: Base | None = None,
    unclear: Collection[int | None] = (),
) -> RowComparison:
    """Return the comparison of the sheet with the snapshot.

    `recognised` has the pets of rows without an id. Rows with the action `delete` are not compared,
    and neither are recognised rows whose pet another row names, too. The `base` shows which cell of
    a category was edited. This decides the category of a row that has the name of one category and
    the id of another. The category of a row in `unclear` counts as different if any of its cells
    differs.
    """
    sheet_rows = sheet.rows
    frame = with_pet_ids(sheet_rows, recognised)
    numbers = frame["id"].array
    has_pet = ~numbers.isna()
    named = frozenset([*ids_of(frame), *sheet.blocked_ids])
    lacks_own_id = lacks_id(sheet_rows)
    shared = find_shared_pets(sheet, recognised) & recognised.keys()
    is_compared = has_pet & ~has_action(frame, "delete")
    if shared:
        is_compared &= ~mask_rows(frame, shared)
    rows_now = select(frame, is_compared)
    places = match.positions(rows_now["id"].array, snapshot.rows)
    at = np.flatnonzero(places >= 0)
    masks = {**match.differences(rows_now, at, snapshot.rows, places[at])}
    is_unclear = mask_rows(rows_now, unclear)[at]
    masks["category"], cells = _find_category_differences(
        masks["category"],
        rows_now if len(at) == len(rows_now) else rows_now.iloc[at],
        places[at],
        snapshot,
        base,
        is_unclear,
    )
    rows = rows_now.index.tolist()
    differs = np.logical_or.reduce([masks[unit] for unit in UNITS])
    differing = {
        rows[at[n]]: tuple(unit for unit in UNITS if masks[unit][n])
        for n in np.flatnonzero(differs).tolist()
    }
    ids = tuple(ids_of(rows_now))
    return RowComparison(
        rows=tuple(rows),
        ids=ids,
        places=tuple(places.tolist()),
        differing=differing,
        named=named,
        frame=rows_now,
        cells=cells,
        filled_columns=sheet.filled_columns,
        headers=tuple(map(str, sheet.others.columns)),
        unnumbered=frozenset(numbers[lacks_own_id & has_pet].tolist()),
        has_unknown=bool(sheet.unidentified) or not has_pet.all(),
        tab=sheet.tab,
    )


def _find_category_differences(
    mask: match.Mask,
    rows: pd.DataFrame,
    places: match.Positions,
    snapshot: Snapshot,
    base: Base | None,
    unclear: match.Mask,
) -> tuple[match.Mask, dict[int, Category]]:
    """Return a mask of the rows whose category really differs, and the other rows' category cells.

    `mask` has the rows whose category may differ. The cells are keyed by pet id. A cell that
    clears the category agrees with a pet without one. A name takes precedence over the id beside
    it, unless only the id was edited or it is `unclear` which one counts.
    """
    some = np.flatnonzero(mask)
    if not len(some):
        return mask, {}
    vocabulary = snapshot.vocabulary
    pets = pets_at(snapshot.rows, places[some])
    lines = [*iter_rows(rows, some, places[some])]
    judge = Judge(vocabulary, base=base)
    ids = [pet.id or 0 for pet in pets]
    known = {} if base is None else {pet.id: pet for pet in pets_of(ids, base.rows)}
    result = mask.copy()
    result[some] = [
        bool(
            changed_columns(
                judge.resolve_category(row.values, pet, known.get(pet.id)), pet, "category"
            )
        )
        for row, pet in zip(lines, pets, strict=True)
    ]
    result |= mask & unclear
    agree = zip(lines, pets, result[some].tolist(), strict=True)
    return result, {
        pet.id or 0: read_category(row.values) for row, pet, differs in agree if not differs
    }


def read_category(values: RowValues) -> Category:
    """Return the category cells of a row; a blank cell is None."""
    return Category(values.get("category_id"), values.get("category"))


def with_values_of(base: Base, snapshot: Snapshot, units: Collection[Unit]) -> Base:
    """Return the base with the snapshot's values of the units, for the pets that are in both."""
    if not units:
        return base
    now = {pet.id: pet for pet in pets_of(base.ids, snapshot.rows)}
    old = pets_of(filter(None, now), base.rows)
    return base.with_pets([with_fields(pet, now[pet.id], units) for pet in old])


def restore_missing_columns(old: Base) -> Base:
    """Return the base with the sheet's last values in the missing columns.

    A column that returns is compared with these values.
    """
    if not old.missing or old.columns is None:
        return old
    pairs = [(pet, old.sheet_pets[pet.id or 0]) for pet in pets_of(old.sheet_pets, old.rows)]
    return old.with_pets([_with_missing_columns(pet, last, old) for pet, last in pairs])


def with_blank_columns(base: Base, pets: Sequence[Pet]) -> Base:
    """Return the base for these pets, whose rows are new in the sheet: the sheet's values in the
    missing columns are blank.
    """
    if not base.missing:
        return base
    new = {pet.id or 0: _with_missing_columns(pet, Pet(id=pet.id), base) for pet in pets}
    return replace(base, sheet_pets={**new, **base.sheet_pets})


def _with_missing_columns(pet: Pet, last: Pet, base: Base, back: Collection[str] = ()) -> Pet:
    """Return the pet with the sheet's `last` values in the base's missing columns, except those in
    `back`, which have returned.

    If only one column of a category is missing, only this one gets its last value.
    """
    missing = base.missing.difference(back)
    columns = base.columns or frozenset(COLUMNS)
    known = {unit: columns.intersection(COLUMNS_OF[unit]) for unit in UNITS}
    units = [unit for unit in UNITS if known[unit] and known[unit] <= missing]
    rest = missing.difference(*(COLUMNS_OF[unit] for unit in units))
    return with_columns(with_fields(pet, last, units), last, rest)


def _build_mixed_pets(
    snapshot: Snapshot,
    mixed: Mapping[int, tuple[Unit, ...]],
    old: Base | None,
    divergent: Collection[Unit],
) -> list[pd.DataFrame]:
    """Return a frame of the pets, with the base's values in the units that differ. A pet that the
    base lacks has no values there if all these units are in `divergent`; other such pets are
    omitted. The list is empty if no pet is left.
    """
    if not mixed or (old is None and not divergent):
        return []
    pets = pets_at(snapshot.rows, list(mixed))
    ids = [pet.id for pet in pets]
    known = {} if old is None else {pet.id: pet for pet in pets_of(filter(None, ids), old.rows)}
    mixed_pets = [
        with_fields(pet, known.get(pet.id) or Pet(id=pet.id), units)
        for pet, units in zip(pets, mixed.values(), strict=True)
        if pet.id in known or {*divergent}.issuperset(units)
    ]
    return [rows_from_pets(mixed_pets)] if mixed_pets else []


# The base after a transfer: both sides agree on what a run sent, and on what a sheet took from the
# store.
#
# Otherwise a user who reverts an edit before the next comparison would seem to have changed
# nothing.


_T = TypeVar("_T")
Moves = Mapping[int, tuple[Pet, Pet] | None]
"""By pet id, the base's pet and the sheet's values as a pet, both after the transfer; None for a
removed pet. The sheet's values change only in cells that were sent or written.
"""


def categories_of(
    sheet: Sheet, changes: Iterable[Change], conflicts: Iterable[Conflict]
) -> dict[int, Category]:
    """Return, by row, the category cells, if they differ from the category after the row's change.

    A conflict with clashes counts as a change. A blank cell is None.
    """
    pets: dict[int | None, Pet | None] = {each.row: each.after for each in changes}
    # Include conflicts: their rows' cells are then known, whatever the user decides.
    pets |= {each.row: each.after for each in conflicts if each.clashes}
    sent = {row: category_cells(pet) for row, pet in pets.items() if row is not None and pet}
    frame = sheet.rows
    at = find_rows(frame, sent)
    ids, names = (
        values_at(frame[name].array, at) if name in frame else [None] * len(at)
        for name in ("category_id", "category")
    )
    return {
        row: Category(number, name)
        for row, number, name in zip(frame.index[at].tolist(), ids, names, strict=True)
        if (number, name) != (sent[row].id, sent[row].name)
    }


def with_report(base: Base | None, report: Report) -> Base:
    """Return the base with the results of a run.

    The sheet has not been written yet: it has the values from which the run's plan was made.
    """
    start = base or _build_empty_base(report.plan.store, report.started)
    # A plan that merges leaves values of the store that the sheet does not have.
    sends_all = base is None and report.plan.options.two_way
    ids = [change.pet_id for change in report.plan.changes if change.pet_id is not None]
    old = {pet.id: pet for pet in pets_of(ids, start.rows)}
    moves: dict[int, tuple[Pet, Pet] | None] = {}
    cells: dict[int, Category] = {}
    clashes_by_row = {conflict.row: conflict.clashes for conflict in report.plan.conflicts}
    for pet_id, change in _iter_sent_changes(report):
        before = old.get(pet_id)
        clashes = {clash.column for clash in clashes_by_row.get(change.row, ())}
        clashes |= report.plan.options.unsent_units
        is_agreed = False
        if before is None and isinstance(change, Update):
            is_agreed = sends_all
            before = _build_agreed_pet(change, clashes) if is_agreed else Pet(id=pet_id)
        moves[pet_id] = _apply_sent_change(
            change, pet_id, before, start.sheet_pets.get(pet_id, before), start
        )
        # The two sides disagree on the cells of a clashing category.
        if _changes_category(change) or (is_agreed and "category" not in clashes):
            cells[pet_id] = _cells_of(change, report.plan.categories)
    added = [each.assigned_id for each in report.results if each.is_in_store]
    return replace(
        _with_sent_pets(start, moves, cells),
        unnumbered=start.unnumbered.union(filter(None, added)),
        missing_since={
            **start.missing_since,
            **{i: report.started for i, pets in moves.items() if pets is None},
        },
    )


def _build_agreed_pet(change: Update, clashes: Collection[Column]) -> Pet:
    """Return the values on which both sides agree for a pet before its first change, which sends
    every value of its row that differs. These are the store's values, except in clashing fields.
    """
    columns = [column for unit in UNITS if unit in clashes for column in COLUMNS_OF[unit]]
    return with_fields(change.before, Pet(id=change.pet_id), columns)


def with_sent_changes(snapshot: Snapshot, report: Report) -> Snapshot:
    """Return the snapshot with the changes that the store has after the run."""
    pets: dict[int, Pet | None] = {}
    for pet_id, change in _iter_sent_changes(report):
        pets[pet_id] = (
            update_fields(change.before, change.before, change.after, change.fields)
            if isinstance(change, Update)
            else change.after and msgspec.structs.replace(change.after, id=pet_id)
        )
    rest = select(snapshot.rows, ~has_id_in(snapshot.rows, pets))
    there = rows_from_pets([pet for pet in pets.values() if pet is not None])
    frame = join_rows([rest, there]).sort_values("id", kind="stable", ignore_index=True)
    whole = None if snapshot.whole is None else with_sent_changes(snapshot.whole, report)
    return replace(snapshot, pets=PetTable(frame=frame), whole=whole)


def with_inbound(base: Base, inbound: Inbound) -> Base:
    """Return the base with the changes that a sheet took from the store.

    Edits of pets that the base lacks are omitted, because only part of each pet is known.
    """
    ids = [*(e.pet.id or 0 for e in inbound.edits), *(pet.id or 0 for pet in inbound.added)]
    old = {pet.id: pet for pet in pets_of(ids, base.rows)}
    last = {pet_id: base.sheet_pets.get(pet_id or 0, pet) for pet_id, pet in old.items()}
    moves: dict[int, tuple[Pet, Pet] | None] = {
        edit.pet.id: (
            with_fields(old[edit.pet.id], edit.pet, edit.fields),
            with_fields(last[edit.pet.id], edit.pet, edit.fields),
        )
        for edit in inbound.edits
        if edit.pet.id is not None and edit.pet.id in old
    }
    moves |= {
        pet.id: (
            pet,
            _with_missing_columns(pet, last.get(pet.id, Pet(id=pet.id)), base, inbound.places),
        )
        for pet in inbound.added
        if pet.id is not None
    }
    moves |= {removal.pet_id: None for removal in inbound.removed}
    cells = {
        pet_id: _merge_category_edit(last[pet_id], edit, base.missing)
        for edit in inbound.edits
        if (pet_id := edit.pet.id or 0) in old and {"category", "category_id"} & {*edit.fields}
    }
    numbered = {each.pet_id for each in inbound.identified if each.lacks_id}
    return replace(
        _with_sent_pets(base, moves, cells),
        taken_at=inbound.created,
        unnumbered=base.unnumbered - numbered,
        missing_since={
            **base.missing_since,
            **{each.pet_id: inbound.created for each in inbound.removed},
        },
    )


def find_remembered(sheet: Sheet, base: Base, pets: pd.DataFrame) -> dict[int, int]:
    """Return, by row, the ids of the pets to which rows without an id belong.

    Such a row has the values of a pet in the base, and no row names this pet by its id. It was
    this pet's row in the last round, even if the pet has changed in the store since.
    """
    frame = sheet.rows
    is_open = lacks_id(frame) & has_action(frame, "merge")
    if "name" not in frame or not is_open.any():
        return {}
    rows = frame[is_open]
    names = {normalize(name) for name in unique_texts(rows, "name")}
    lines = list(iter_rows(rows))
    vocabulary = Vocabulary(pets)
    found: dict[int, int] = {}
    # A row may have the sheet's last values, or the values on which both sides agreed.
    for before in (base.sheet_rows, base.rows):
        free = ~has_id_in(before, {*sheet.named_ids, *found.values()})
        rest = [line for line in lines if line.number not in found]
        known = Candidates(before, free, names, ()).find_identical(rest, vocabulary)
        found |= {row: pet.id for row, (_, pet) in known.items() if pet.id is not None}
    return found


def _changes_category(change: Change) -> bool:
    return isinstance(change, Add) or (
        isinstance(change, Update) and bool({"category", "category_id"} & {*change.fields})
    )


def _cells_of(change: Change, categories: Mapping[int, Category]) -> Category:
    """Return the category cells of a change's row: those in its plan's `categories`, else those of
    the sent pet.
    """
    sent = Category() if change.after is None else category_cells(change.after)
    return sent if change.row is None else categories.get(change.row, sent)


def _merge_category_edit(before: Pet, edit: RowEdit, missing: Collection[str]) -> Category:
    """Return the category cells of a row after an inbound edit.

    A cell outside of the edit already has the new value or stays blank, unless its column is
    missing.
    """
    old, new = category_cells(before), category_cells(edit.pet)
    stay = {*missing} - {*edit.fields}
    return Category(
        old.id if "category_id" in stay else new.id, old.name if "category" in stay else new.name
    )


def _iter_sent_changes(report: Report) -> Iterator[tuple[int, Change]]:
    """Yield the changes that the store has after the run, each with its pet's id."""
    for result in report.results:
        if result.kind == "none" or not result.is_in_store:
            continue
        change = report.plan.changes[result.number]
        pet_id = change.pet_id if result.assigned_id is None else result.assigned_id
        if pet_id is not None:
            yield pet_id, change


def _apply_sent_change(
    change: Change, pet_id: int, old: Pet | None, last: Pet | None, base: Base
) -> tuple[Pet, Pet] | None:
    """Return the agreed pet, and the sheet's values as a pet, after a change reached the store;
    None for a delete. `old` and `last` are these two before the change.
    """
    if isinstance(change, Delete):
        return None
    if isinstance(change, Update) and old is not None and last is not None:
        return _apply_update(change, old), _apply_update(change, last)
    pet = msgspec.structs.replace(change.after, id=pet_id)
    return pet, _with_missing_columns(pet, last or Pet(id=pet_id), base, change.fields)


def _apply_update(change: Update, old: Pet) -> Pet:
    """Return `old`, a pet of the base or a row's values, with the values that a change took from
    its row.

    Tags and photos that both sides had changed were merged, but the sheet gets the result only when
    it is written. `old` therefore gets only what the change itself added and removed.
    """
    merged = [c for c in change.fields if c in LISTS and not is_as_expected(old, change.before, c)]
    sent = with_fields(old, change.after, [c for c in change.fields if c not in merged])
    before, after = change.before, change.after
    if "tags" in merged:
        tags = _merge_items(old.tags, before.tags, after.tags, lambda tag: normalize(tag.name))
        sent = msgspec.structs.replace(sent, tags=tags)
    if "photo_urls" in merged:
        urls = _merge_items(old.photo_urls, before.photo_urls, after.photo_urls, normalize)
        sent = msgspec.structs.replace(sent, photo_urls=urls)
    return sent


def _merge_items(
    items: Sequence[_T], before: Sequence[_T], after: Sequence[_T], key: Callable[[_T], str]
) -> tuple[_T, ...]:
    """Return the items, except items that are only in `before`, and the items that are only in
    `after`.
    """
    were, are, there = ({key(each) for each in some} for some in (before, after, items))
    stay = (each for each in items if key(each) not in were - are)
    return (*stay, *(each for each in after if key(each) not in were | there))


def _with_sent_pets(base: Base, moves: Moves, categories: Mapping[int, Category]) -> Base:
    """Return the base with the pets of `moves`, and with the category cells in `categories`, by pet
    id.
    """
    if not moves:
        return base
    removed_ids = [pet_id for pet_id, pets in moves.items() if pets is None]
    both = {pet_id: pets for pet_id, pets in moves.items() if pets is not None}
    sheet_pets = {pet_id: pet for pet_id, pet in base.sheet_pets.items() if pet_id not in moves}
    old = {pet.id or 0: pet for pet in pets_of(both, base.rows)}
    before = {**old, **base.sheet_pets}
    for pet_id, (pet, row_pet) in both.items():
        if pet_id in categories:
            row_pet = _with_cells(row_pet, categories[pet_id], before.get(pet_id))
        elif pet_id in base.sheet_pets and is_as_expected(pet, old[pet_id], "category"):
            row_pet = with_fields(row_pet, base.sheet_pets[pet_id], ["category"])
        if is_other(pet, row_pet):
            sheet_pets[pet_id] = row_pet
    return replace(
        base.without(removed_ids).with_pets([pet for pet, _ in both.values()]),
        sheet_pets=sheet_pets,
    )


def _with_cells(pet: Pet, cells: Category, before: Pet | None) -> Pet:
    """Return the pet with the category cells of its row.

    `before` has the row's earlier values. A blank cell counts as its earlier value. The id beside a
    cleared name stays.
    """
    cells = _fill_category(cells, before)
    if cells.name == CLEARED and cells.id is not None:
        return msgspec.structs.replace(pet, category=cells)
    pet = with_category(pet, cells)
    if before is None or cells.id is not None or pet.category is None:
        return pet
    # The id's cell was blank before and is still to be filled.
    blank = msgspec.structs.replace(pet.category, id=None)
    return msgspec.structs.replace(pet, category=blank)


def _fill_category(cells: Category, before: Pet | None) -> Category:
    """Return a category's cells, with the earlier value for a blank one."""
    if before is None:
        return cells
    old = category_cells(before)
    number = old.id if cells.id is None else cells.id
    return Category(number, old.name if cells.name is None else cells.name)


def _build_empty_base(store: str, taken_at: str) -> Base:
    none = frozenset[str]()
    return Base(pets=PetTable(SCHEMA.empty_table()), store=store, taken_at=taken_at, columns=none)


# Continuation: the base of a sheet that was applied before, updated with what its runs sent.
#
# The file still has the base of its export. Both sides agree on what its runs have sent since, so
# the next edit of a cell is compared with the sent value.
#
# A cell with the value from before a run may have been set back, or the file may be an older copy.
# The other sent cells decide. A cell with a sent value is evidence of the newer file, and one with
# an earlier value is evidence of an older file. If there is more evidence of an older file, cells
# with earlier values clash.


class SentRun(NamedTuple):
    """The changes that a run sent from a worksheet."""

    run: str
    """The run's id."""
    source: str
    """The sheet's file."""
    tab: str
    """The worksheet."""
    sent: tuple[Change, ...]
    """The changes that the run applied, or that the store had already."""
    unseen: tuple[Update, ...] = ()
    """The updates whose start is recorded, but whose end is not."""
    categories: Mapping[int, Category] = {}
    """See `Plan.categories`."""
    held: frozenset[tuple[int, str]] = frozenset()
    """The units that clashed with the store and were not sent, each with its pet's id."""


def _update_row_pet(row_pet: Pet, change: Update, run: SentRun) -> Pet:
    """Return the values of the change's row at this run; `row_pet` has its values before.

    The category's cells may differ from the sent category.
    """
    pet = _apply_update(change, row_pet)
    if not _changes_category(change):
        return pet
    return _with_cells(pet, _cells_of(change, run.categories), row_pet)


class _Cell(NamedTuple):
    """A unit of a pet, with the values that runs sent for it."""

    states: list[tuple[int, Pet]]
    """A pair of the run's number and the row's values at this run, for each run that sent the unit.
    The first pair has the number 0 and the row's values at the export.
    """
    is_seen: bool = True
    """True if the end of the last sent change was recorded."""

    @property
    def last(self) -> int:
        """The number of the last run that sent the unit."""
        return self.states[-1][0]

    def at(self, number: int) -> int:
        """Return the number of the last run that sent the unit, up to the run with this number."""
        return max(n for n, _ in self.states if n <= number)


def continue_base(
    sheet: Sheet,
    base: Base,
    own: Sequence[SentRun],
    copies: Sequence[SentRun],
    current: pd.DataFrame | None = None,
    vocabulary: Vocabulary | None = None,
) -> Base:
    """Return the sheet's base after its `own` runs, which are ordered from the oldest.

    A cell is uncertain if its value may be older than the last value that an own run, or a run of
    one of the sheet's `copies`, sent for the cell. `current` has the store's pets: an update
    without a recorded end counts if the store's pet has its values. `vocabulary` is that of the
    whole store, if `current` has only a part of it. For a pet that no row names, the sent values
    count only if other rows show that the sheet is not older than the run.
    """
    if not own and not copies:
        return base
    return _SheetAfterRuns(sheet, base, own, copies, current, vocabulary).build_base(copies)


def is_from_runs(
    sheet: Sheet,
    base: Base,
    runs: Sequence[SentRun],
    current: pd.DataFrame | None = None,
    vocabulary: Vocabulary | None = None,
) -> bool:
    """Return true if more of the sent cells have a sent value than the exported value. The sheet is
    then the one that the runs applied, or a copy of it.
    """
    beside = _SheetAfterRuns(sheet, base, runs, [], current, vocabulary)
    return bool(runs) and beside.newer[0] > beside.older[0]


class _SheetAfterRuns:
    """A sheet, compared with the values that its runs sent."""

    def __init__(
        self,
        sheet: Sheet,
        base: Base,
        own: Sequence[SentRun],
        copies: Sequence[SentRun],
        current: pd.DataFrame | None,
        vocabulary: Vocabulary | None,
    ) -> None:
        wanted = {c.pet_id or 0 for run in (*own, *copies) for c in (*run.sent, *run.unseen)}
        self._rows = _rows_of(sheet, wanted)
        unseen = [change.pet_id or 0 for run in own for change in run.unseen]
        self._current = {} if current is None else {pet.id: pet for pet in pets_of(unseen, current)}
        known = Vocabulary(base.rows if current is None else current)
        self._judge = Judge(known if vocabulary is None else vocabulary)
        self._base = self._with_added(base, [*copies, *own])
        self._old = {pet.id or 0: pet for pet in pets_of(wanted, self._base.rows)}
        self._first = {
            pet_id: self._base.sheet_pets.get(pet_id, old) for pet_id, old in self._old.items()
        }
        self._new, self._row_pets = dict(self._old), dict(self._first)
        self._cells: dict[tuple[int, Unit], _Cell] = {}
        self._held: dict[tuple[int, str], int] = {}
        for number, run in enumerate(own, 1):
            self._take(number, run)
            self._held |= dict.fromkeys(run.held, number)
        self.older, self.newer = self._count_evidence(own)

    def build_base(self, copies: Sequence[SentRun]) -> Base:
        """Return the base after the runs. Cells that may be older are uncertain."""
        sides, unsure = dict[tuple[int, Unit], tuple[Pet, Pet]](), dict(self._base.unsure_units)
        for (pet_id, unit), cell in self._cells.items():
            row = self._rows.get(pet_id)
            if row is None and not self._is_shown(cell):
                continue
            sides[pet_id, unit] = self._new[pet_id], cell.states[-1][1]
            unsure[pet_id] = tuple(each for each in unsure.get(pet_id, ()) if each != unit)
            if row is not None and self._is_doubtful(row, unit, cell):
                unsure[pet_id] = (*unsure[pet_id], unit)
        for (pet_id, unit), both, is_reverted in (
            each for run in copies for each in self._iter_sent_cells(run)
        ):
            sides[pet_id, unit] = both
            rest = (each for each in unsure.get(pet_id, ()) if each != unit)
            unsure[pet_id] = (*rest, unit) if is_reverted else (*rest,)
        unsure_units = {pet_id: units for pet_id, units in unsure.items() if units}
        return replace(_with_units(self._base, sides), unsure_units=unsure_units)

    def _with_added(self, base: Base, runs: Iterable[SentRun]) -> Base:
        """Return the base with the pets that the runs added, if their rows have ids."""
        new = self._rows.keys() - base.ids
        added = {
            change.after.id or 0: (change.after, _cells_of(change, run.categories))
            for run in runs
            for change in run.sent
            if isinstance(change, Add) and change.after.id in new
        }
        moves = {pet_id: (pet, pet) for pet_id, (pet, _) in added.items()}
        return _with_sent_pets(base, moves, {pet_id: cells for pet_id, (_, cells) in added.items()})

    def _take(self, number: int, run: SentRun) -> None:
        unseen = (
            each for change in run.unseen if (each := self._select_arrived(change)) is not None
        )
        pairs = [*((change, True) for change in run.sent), *((change, False) for change in unseen)]
        for change, is_seen in pairs:
            pet_id = change.pet_id or 0
            if not isinstance(change, Update) or pet_id not in self._old:
                continue
            before = self._new[pet_id]
            after = self._new[pet_id] = _apply_update(change, before)
            row_pet = _update_row_pet(self._row_pets[pet_id], change, run)
            self._row_pets[pet_id] = row_pet
            for unit in UNITS:
                if changed_columns(before, after, unit):
                    known = self._cells.get((pet_id, unit), _Cell([(0, self._first[pet_id])]))
                    self._cells[pet_id, unit] = _Cell([*known.states, (number, row_pet)], is_seen)

    def _select_arrived(self, change: Update) -> Update | None:
        """Return the update, limited to the fields in which the store's pet has the update's
        values; None if there are none.
        """
        pet = self._current.get(change.pet_id)
        if pet is None:
            return None
        fields = tuple(each for each in change.fields if is_as_expected(change.after, pet, each))
        return msgspec.structs.replace(change, fields=fields) if fields else None

    def _count_evidence(self, own: Sequence[SentRun]) -> tuple[list[int], list[int]]:
        """Return two lists: for each run, the number of cells that indicate an older sheet, and the
        number of cells that indicate a newer one. For each cell that this or a later run sent, a
        value from before the run counts as older, and a later value as newer. The row of a deleted
        pet counts as newer if its action is still `delete`, else as older.
        """
        older, newer = [0] * len(own), [0] * len(own)
        for (pet_id, unit), cell in self._cells.items():
            row = self._rows.get(pet_id)
            found = [] if row is None else self._find_matching_runs(row, unit, cell)
            for number in range(cell.last if found else 0):
                if not any(each > number for each in found):
                    older[number] += cell.at(number) in found
                elif cell.at(number) not in found:
                    newer[number] += 1
        for last, run in enumerate(own, 1):
            for change in run.sent:
                row = self._rows.get(change.pet_id or 0)
                if isinstance(change, Delete) and change.row is not None and row is not None:
                    counts = newer if row.action == "delete" else older
                    counts[:last] = [count + 1 for count in counts[:last]]
        return older, newer

    def _find_matching_runs(self, row: Row, unit: Unit, cell: _Cell) -> list[int]:
        """Return the numbers of the runs at which the unit had the row's current value; 0 is the
        export.
        """
        return [
            number for number, pet in cell.states if _has_same_values(self._judge, row, unit, pet)
        ]

    def _is_doubtful(self, row: Row, unit: Unit, cell: _Cell) -> bool:
        """Return true if the cell differs from the last sent value and may be older."""
        found = self._find_matching_runs(row, unit, cell)
        if not has_value(row.values, unit) or cell.last in found:
            return False
        if found and self._held.get((row.pet_id or 0, unit), 0) > cell.last:
            return True
        return not cell.is_seen or any(
            self.older[number] > self.newer[number] for number in range(cell.last)
        )

    def _is_shown(self, cell: _Cell) -> bool:
        """Return true if other rows show that the sheet is not older than the runs that sent the
        cell.
        """
        return cell.is_seen and all(
            self.newer[number] >= max(1, self.older[number]) for number in range(cell.last)
        )

    def _iter_sent_cells(
        self, run: SentRun
    ) -> Iterator[tuple[tuple[int, Unit], tuple[Pet, Pet], bool]]:
        """Yield the cells for which a copy's run sent a value and that have this value, or their
        exported one, each with the sent pet and the copy's values; the flag is true for the
        exported value. Yields none unless at least one cell has the sent value, and at least as
        many cells have the sent value as the exported value.
        """
        found, reverted = list[tuple[tuple[int, Unit], tuple[Pet, Pet], bool]](), 0
        for change in run.sent:
            pet_id = change.pet_id or 0
            row, old = self._rows.get(pet_id), self._old.get(pet_id)
            if not isinstance(change, Update) or row is None or old is None:
                continue
            first = self._first[pet_id]
            after, row_pet = _apply_update(change, old), _update_row_pet(first, change, run)
            for unit in UNITS:
                if (pet_id, unit) in self._cells or not changed_columns(old, after, unit):
                    continue
                is_reverted = _has_same_values(self._judge, row, unit, first)
                if is_reverted or _has_same_values(self._judge, row, unit, row_pet):
                    found.append(((pet_id, unit), (after, row_pet), is_reverted))
                    reverted += is_reverted
        return iter(found if 2 * reverted <= len(found) and reverted < len(found) else ())


def with_newer_cells(older: Base, base: Base, sheet: Sheet) -> Base:
    """Return the older base with the newer base's values for the units in which the sheet has
    these values.

    A column that was copied into a backup is as new as the newer base.
    """
    units, judge = find_changed_units(older, base), Judge(Vocabulary(base.rows))
    was, last, new = (
        {pet.id: pet for pet in pets_of(units, frame)}
        for frame in (older.sheet_rows, base.sheet_rows, base.rows)
    )
    sides = {
        (pet_id, unit): (new[pet_id], last[pet_id])
        for pet_id, row in _rows_of(sheet, units).items()
        for unit in units[pet_id]
        if _has_same_values(judge, row, unit, last[pet_id])
        and not _has_same_values(judge, row, unit, was[pet_id])
    }
    return _with_units(older, sides)


def find_changed_units(older: Base, newer: Base) -> dict[int, tuple[Unit, ...]]:
    """Return, by pet id, the units in which the sheet's values differ between the two bases."""
    frame, newer_frame = older.sheet_rows, newer.sheet_rows
    places = match.positions(frame["id"].array, newer_frame)
    at = np.flatnonzero(places >= 0)
    ids = values_at(frame["id"].array, at)
    found: dict[int, tuple[Unit, ...]] = {}
    for unit, mask in match.find_different_units(frame, at, newer_frame, places[at]).items():
        for n in np.flatnonzero(mask):
            found[ids[n]] = (*found.get(ids[n], ()), unit)
    return found


def _rows_of(sheet: Sheet, ids: Collection[int]) -> dict[int, Row]:
    """Return the rows of these pets, by pet id."""
    is_named = has_id_in(sheet.rows, ids)
    return {row.pet_id or 0: row for row in iter_rows(sheet.rows, is_named)}


def _has_same_values(judge: Judge, row: Row, unit: Unit, pet: Pet) -> bool:
    """Return true if the row has a value of the unit, and it is the pet's value."""
    return has_value(row.values, unit) and not judge.edits(row.values, pet, (unit,))


def _with_units(base: Base, sides: Mapping[tuple[int, Unit], tuple[Pet, Pet]]) -> Base:
    """Return the base with new values for the units in `sides`, each with two pets: one with the
    store's value, and one with the sheet's.
    """
    ids = {pet_id for pet_id, _ in sides}
    pets = {pet.id or 0: pet for pet in pets_of(ids, base.rows)}
    sheet_pets = {pet_id: base.sheet_pets.get(pet_id, pet) for pet_id, pet in pets.items()}
    for (pet_id, unit), (pet, row_pet) in sides.items():
        pets[pet_id] = with_fields(pets[pet_id], pet, COLUMNS_OF[unit])
        sheet_pets[pet_id] = with_fields(sheet_pets[pet_id], row_pet, COLUMNS_OF[unit])
    others = {pet_id: pet for pet_id, pet in sheet_pets.items() if is_other(pets[pet_id], pet)}
    stored = {pet_id: pet for pet_id, pet in base.sheet_pets.items() if pet_id not in ids}
    return (
        replace(base.with_pets([*pets.values()]), sheet_pets={**stored, **others}) if ids else base
    )


# Unknown pets: pets of the sheet that the base lacks.


def with_unknown(
    base: Base | None,
    sheet: Sheet,
    snapshot: Snapshot,
    pet_ids: Mapping[int, int],
    leave: Collection[int] = (),
) -> Base:
    """Return the base with the pets that both sheet and store have and that the base lacks, except
    those in `leave`.

    An added pet has the store's values where the sheet agrees or is blank, and no value in the
    other fields. Both sides then seem to have edited these fields: texts are in conflict, and tags
    and photos are merged. `pet_ids` has, by row, the pets of rows without an id.
    """
    known = {*leave} if base is None else {*leave, *base.ids}
    if base is not None and {*sheet.named_ids, *pet_ids.values()} <= known:
        return base
    sight = compare_rows(sheet, snapshot, pet_ids)
    pairs = zip(sight.rows, sight.ids, sight.places, strict=True)
    places = {place: row for row, pet_id, place in pairs if place >= 0 and pet_id not in known}
    pets = pets_at(snapshot.rows, list(places))
    rows = places.values()
    updated = [
        with_fields(pet, Pet(id=pet.id), sight.differing.get(row, ()))
        for pet, row in zip(pets, rows, strict=True)
    ]
    if base is None:
        taken_at = snapshot.taken_at.isoformat(timespec="microseconds")
        return Base(
            pets=PetTable(frame=frame_from_pets(updated)), store=snapshot.source, taken_at=taken_at
        )
    return base.with_pets(updated) if updated else base
