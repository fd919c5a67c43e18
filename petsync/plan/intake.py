"""Changes of the store that a round writes into the sheet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from petsync._collector import pause_collection
from petsync.models import Pet
from petsync.plan import match
from petsync.plan.base import find_shared_pets, is_empty, missing_columns, with_pet_ids
from petsync.plan.change import Snapshot
from petsync.plan.compare import Decided, StayRule
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    cell,
    find_filled_columns,
    fold_status,
    ids_by_name,
    is_as_expected,
    known_id,
    normalize,
)
from petsync.plan.guard import NO_GUARD, Guard
from petsync.plan.lineage import Identity
from petsync.plan.match import Mask, Positions, Row, RowValues, build_pet, iter_rows
from petsync.plan.merge import Judge
from petsync.plan.notes import first_items
from petsync.plan.options import MergeOptions
from petsync.plan.plan import IdentifiedRow, Inbound, Lead, Removal, RowEdit, places_of
from petsync.plan.rounds import Difference
from petsync.table.base import Base
from petsync.table.cells import trim
from petsync.table.columns import ADDING, COLUMNS, Column
from petsync.table.frame import (
    has_action,
    has_id_in,
    is_blank,
    lacks_id,
    mask_rows,
    pets_at,
    pets_from_frame,
    plain_values,
)
from petsync.table.lists import count_items, have_items
from petsync.table.sheet import Sheet

__all__ = ["build_inbound", "explain_stay", "mask_in_scope"]


# Notes of a round on rows whose pets are not in the store: the reasons why these rows stay.


_OFF = "delete_missing is off"
_OUTDATED = "the base may be outdated"
_GONE = f"its pet is no longer in the store, and the row stays: {_OFF}"
_HELD = f"its pet is no longer in the store, and the row stays: {_OUTDATED}"
_LEFT = (
    "Remove the row, or set delete_missing in the job's settings, which removes such rows. In a "
    "two-way job, you can also empty the row's id cell: the row is then added as a new pet."
)
_HIDDEN = (
    "its pet is no longer in the store, and the row stays: it may have an edit in {}, whose header "
    "seems to have changed"
)
_SHOWN = (
    "Restore the column's header. If the sheet is to have no values in it, keep the column and "
    "leave it empty. Or remove the row."
)
_NEVER = "the store has no such pet, and a pull job sends nothing"
_UNSENT = "its action is `{}`, and a pull job sends nothing"
_UNANSWERED = "the store gave no answer about this pet"
_MAY_BE = "no row has its id, but {} may be the row of this pet"
_UNMATCHED = "the row has no id and matches no pet in the store; a pull job sends nothing"
_STAYS: Mapping[StayRule, str] = {
    "left-alone": "pets without a row are not deleted: {}",
    "not-exported": "another sheet may have its row",
    "uncovered": "no query that succeeded lists the pets of its status",
    "uncertain": "{} may be its row",
}
"""Why a pet whose row was removed stays in the store, by the rule of the plan's decision."""


def explain_stay(decided: Decided, pet_id: int, *, holds_deletes: bool) -> str:
    """Return the reason why a pet whose row was removed stays in the store, as the plan decided.
    With `holds_deletes`, nothing is deleted although the job asks for it.
    """
    rule = decided.find_stay_rule(pet_id)
    off = _OUTDATED if holds_deletes else _OFF
    detail = off if rule == "left-alone" else first_items(decided.rows.uncertain)
    return f"it stays in the store, because {_STAYS[rule].format(detail)}"


def _find_uncertain_rows(sheet: Sheet) -> list[str]:
    """Return the addresses of rows whose pet is unknown.

    These are blocked rows without a reliable id, and ignored rows without an id. Copied rows and
    rows in conflict prevent the deletes of a plan, but not a new row for a pet, which deletes
    nothing.
    """
    frame = sheet.rows
    ignored = frame.index[lacks_id(frame) & has_action(frame, "ignore")]
    return [sheet.address(row) for row in (*sheet.unidentified, *ignored.tolist())]


def _note(
    frame: pd.DataFrame,
    at: int,
    sheet: Sheet,
    problem: str,
    *,
    kind: Literal["note", "conflict"] = "note",
    hint: str = "",
) -> Difference:
    row, number = int(frame.index[at]), frame["id"].iloc[at]
    name = frame["name"].iloc[at] if "name" in frame else None
    return Difference(
        kind=kind,
        problem=problem,
        pet_id=None if pd.isna(number) else int(number),
        name="" if name is None or pd.isna(name) else str(name),
        row=row,
        address=sheet.address(row),
        hint=_LEFT if problem == _GONE else hint,
    )


# build_inbound: the values that a sheet takes from the store, field by field. Pure.
#
# In a `merge` the sheet takes a field if the store's value differs and the row's value is unedited
# since the base. If both sides edited it, the sheet's value stays, and the plan sends it or reports
# a conflict. The exceptions are tags and photos, which merge, and clashes that the store wins. If
# `store` leads, the sheet takes every field. A field that the store owns is taken like that in a
# merge, too; a field that the sheet owns, or nobody, is never taken. A new row lacks such fields,
# except the name.
#
# The plan's decisions tell which rows are in conflict, which rows have a deleted pet, and why a pet
# in no row stays in the store. A judge decides the fields again, because a run may have changed the
# store since the plan was made.
#
# A merge fills a blank cell only if the pet had no value in the base and has one now, or if the
# column was missing in the last round. Any other cell that is blank while the store has a value is
# blank on purpose. If the store leads, every blank cell in one of the table's columns is filled. A
# column that the sheet lacks is never added.


_DEFAULT_OPTIONS = MergeOptions()
_NOT_LOOKED_UP = "not-looked-up"


def build_inbound(
    sheet: Sheet,
    snapshot: Snapshot,
    base: Base | None,
    decided: Decided,
    *,
    lead: Lead,
    created: str,
    pet_ids: Mapping[int, int] | None = None,
    options: MergeOptions = _DEFAULT_OPTIONS,
    adds: Collection[int] | None = None,
    statuses: Sequence[str] = (),
    tags: Sequence[str] = (),
    unclear_names: Mapping[str, str] | None = None,
    candidates: Mapping[int, str] | None = None,
    guard: Guard = NO_GUARD,
) -> Inbound:
    """Return the changes that the sheet takes from the store's snapshot, judged by the guard.

    `base` has the last values on which both sides agreed, as the plan used it. `decided` is the
    plan of the changes for the store, with its decisions. Rows that it lists as conflicts without
    clashes, blocked rows, rows that name the same pet as another row, and rows with the action
    `ignore`, `add`, `add-another` or `delete` do not change, except adds whose row is in `pet_ids`.
    The snapshot must have every pet that a row names, including those that only getPetById
    returned. Any other named pet counts as deleted if the plan decided so (in a merge), or if its
    look-up did not fail and the base has it (if `store` leads).

    `pet_ids` has the pets of rows without an id, by row: pets that the plan recognised or that a
    run added. Only those pets in no row that are in `adds` become rows (None: all). Pets in
    `candidates` never do, because a row without an id may be theirs; each has the address of this
    row.
    """
    with pause_collection():
        intake = _IntakeInput(sheet, snapshot, base, lead, decided, pet_ids or {}, options)
        edits = tuple(intake.edits())
        removed, stay = intake.find_removed()
        added, notes = intake.find_added(
            statuses,
            tags,
            unclear_names or {},
            adds=adds,
            candidates=candidates or {},
            removed={each.row for each in removed},
        )
        return Inbound(
            created=created,
            store=snapshot.source,
            source=sheet.source,
            tab=sheet.tab,
            encoding=sheet.encoding,
            digest=sheet.digest,
            columns=dict(sheet.mapping),
            places=places_of(sheet.columns),
            lead=lead,
            rows=len(sheet.rows) + len(sheet.blocked),
            edits=edits,
            identified=tuple(intake.iter_identified()),
            added=tuple(added),
            blank=tuple(
                column
                for unit in UNITS
                if unit in options.unwritten_units and unit != "name"
                for column in COLUMNS_OF[unit]
            ),
            shared_tags=_find_shared_tags([*(each.pet for each in edits), *added], snapshot),
            removed=tuple(removed),
            notes=(*stay, *notes),
        ).with_verdict(guard)


def _find_shared_tags(pets: Iterable[Pet], snapshot: Snapshot) -> tuple[str, ...]:
    """Return the names of the pets' tags that the store has with several ids, in order."""
    names = {normalize(tag.name) for pet in pets for tag in pet.tags} - {""}
    if not names:
        return ()
    known = ((tag.name, tag.id) for tag in count_items(snapshot.rows["tags"].array))
    return tuple(
        sorted(name for name, ids in ids_by_name(known).items() if name in names and len(ids) > 1)
    )


class _IntakeInput:
    """A sheet, compared with the store and the base. In `rows`, a row without an id has the id of
    its pet if the pet is known.
    """

    def __init__(
        self,
        sheet: Sheet,
        snapshot: Snapshot,
        base: Base | None,
        lead: Lead,
        decided: Decided,
        pet_ids: Mapping[int, int],
        options: MergeOptions,
    ) -> None:
        self._sheet, self._decided, self._plan = sheet, decided, decided.plan
        self._pet_ids = pet_ids
        self._options = options
        self._base, self._leads = base, lead == "store"
        self._pets = snapshot.rows
        self._sheet_frame = self._pets if base is None else base.sheet_rows
        # The columns that were missing in the last round, and have values now.
        were_missing = frozenset[str]() if base is None else base.missing
        self._returned = were_missing and were_missing - missing_columns(sheet, base)[0]
        self._judge = Judge(
            snapshot.vocabulary, options.sheet_wins, base=base, owners=options.owners
        )
        self._written = [unit for unit in UNITS if unit not in options.unwritten_units]
        self.rows = with_pet_ids(sheet.rows, pet_ids)
        self._places = match.positions(self.rows["id"].array, self._pets)
        self._old = _positions(self.rows["id"].array, base)
        asks = has_action(self.rows, "merge", "update")
        adds = has_action(self.rows, *ADDING) & mask_rows(self.rows, pet_ids)
        self._shared = find_shared_pets(sheet, pet_ids)
        self._takes: Mask = (asks | adds) & ~mask_rows(self.rows, self._shared)
        if not self._leads:
            conflict_rows = [c.row for c in self._plan.conflicts if not c.clashes]
            self._takes = self._takes & ~mask_rows(self.rows, conflict_rows)

    def edits(self) -> Iterator[RowEdit]:
        """Yield the rows that take values, in the sheet's order."""
        at = np.flatnonzero(self._takes & (self._places >= 0))
        differs = match.differences(self.rows, at, self._pets, self._places[at])
        fills = {unit: self._mask_fillable(unit, at) for unit in self._written}
        wanted = {unit: differs[unit] | fills[unit] for unit in self._written}
        if not wanted:
            return
        some = np.flatnonzero(match.any_unit(wanted))
        current = pets_at(self._pets, self._places[at[some]])
        old = self._find_exported_pets(at[some])
        units = [tuple(unit for unit in wanted if wanted[unit][n]) for n in some.tolist()]
        lines = iter_rows(self.rows, at[some], self._places[at[some]], units)
        for row, pet, was in zip(lines, current, old, strict=True):
            fields = tuple(self._fields(row, pet, was))
            if fields:
                yield RowEdit(
                    row=row.number,
                    source=self._sheet.address(row.number, fields[0]),
                    fields=fields,
                    before=_texts(row.values, fields),
                    pet=pet,
                )

    def iter_identified(self) -> Iterator[IdentifiedRow]:
        """Yield the rows whose pet is in `pet_ids` and that lack its id or still have an add
        action. A row is omitted if another row names its pet.
        """
        own = self._sheet.rows
        known_rows = self._pet_ids.keys() - self._shared
        if not known_rows:
            return
        rows = own.loc[sorted(row for row in known_rows if row in own.index)]
        adds = has_action(rows, *ADDING).tolist()
        ids = plain_values(rows["id"].array) if "id" in own else [None] * len(rows)
        names = plain_values(rows["name"].array) if "name" in own else [None] * len(rows)
        actions = rows["action"].tolist()
        lines = zip(rows.index.tolist(), ids, names, actions, adds, strict=True)
        for row, own_id, name, action, was_add in lines:
            pet_id = self._pet_ids[row]
            lacks = own_id != pet_id
            if lacks or was_add:
                texts = {"id": "" if own_id is None else str(own_id), "action": str(action)}
                yield IdentifiedRow(
                    row=row,
                    source=self._sheet.address(row, "id" if lacks else "action"),
                    pet_id=pet_id,
                    lacks_id=lacks,
                    was_add=was_add,
                    name=name or "",
                    before=texts,
                )

    def find_removed(self) -> tuple[list[Removal], list[Difference]]:
        """Return the rows to remove, and notes on rows that stay although their pet is not in the
        store.
        """
        lacking = self._takes & (self._places < 0) & ~lacks_id(self.rows)
        is_removed = lacking & ~mask_rows(self.rows, self._unanswered)
        known = is_removed & (
            self._old >= 0 if self._leads else mask_rows(self.rows, self._plan.deleted_in_store)
        )
        missing, new = missing_columns(self._sheet, None if self._leads else self._base)
        goes = known & self._options.delete_missing
        names = ", ".join(column for column in COLUMNS if column in missing)
        hidden = [
            _note(self.rows, at, self._sheet, _HIDDEN.format(names), kind="conflict", hint=_SHOWN)
            for at in (np.flatnonzero(goes).tolist() if new and names else ())
        ]
        removed = [] if hidden else [_removal(row, self._sheet) for row in self._iter_rows(goes)]
        stay = known & (not self._options.delete_missing)
        notes = self._iter_row_notes(stay, is_removed & ~known, lacking & ~is_removed)
        return removed, [*hidden, *notes]

    def _iter_row_notes(
        self, removed: Mask, unknown: Mask, unanswered: Mask
    ) -> Iterator[Difference]:
        """Yield a note on each row whose pet is not in the store, and on each row with an action
        that is not carried out. In a merge, only rows whose pet is deleted get a note, because the
        plan reports the others.

        The masks have the rows whose pet is deleted, the other rows whose pet is not in the store,
        and the rows for which the store gave no answer.
        """
        gone = _HELD if self._options.holds_deletes else _GONE
        reasons: tuple[tuple[Mask, str], ...] = ((removed, gone),)
        if self._leads:
            asks = has_action(self.rows, "delete", *ADDING) & ~self._takes
            free = self._takes & lacks_id(self.rows)
            others = ((asks, _UNSENT), (free, _UNMATCHED), (unknown, _NEVER))
            reasons = (*reasons, *others, (unanswered, _UNANSWERED))
        why = {at: problem for mask, problem in reasons for at in np.flatnonzero(mask).tolist()}
        for at, problem in sorted(why.items()):
            problem = problem.format(self.rows["action"].iloc[at])
            yield _note(self.rows, at, self._sheet, problem)

    def find_added(
        self,
        statuses: Sequence[str],
        tags: Sequence[str],
        unclear_names: Mapping[str, str],
        *,
        adds: Collection[int] | None,
        candidates: Mapping[int, str],
        removed: Collection[int],
    ) -> tuple[list[Pet], list[Difference]]:
        """Return the pets that become rows, and notes on pets that remain without a row.

        Only `adds` become rows if they are given. A pet in `candidates`, or one that may belong to
        a row in conflict, gets a note, unless that row is `removed`.
        """
        is_lacking = ~self._mask_named()
        if adds is not None:
            is_lacking &= has_id_in(self._pets, adds)
        if not is_lacking.any():
            return [], []
        lacking = self._pets[is_lacking]
        lacking = lacking[mask_in_scope(lacking, statuses, tags)]
        old = _positions(lacking["id"].array, self._base) >= 0
        doubts = _find_uncertain_rows(self._sheet)
        names = {**unclear_names, **self._find_unmatched_names()}
        may_be = self._find_candidates(removed)
        added, notes = [], []
        for pet, was_there in zip(pets_from_frame(lacking), old.tolist(), strict=True):
            why = self._why_not_added(pet, was_there, doubts, names, may_be)
            if why is None and pet.id is not None and pet.id in candidates:
                why = _MAY_BE.format(candidates[pet.id])
            if why is None:
                added.append(pet)
            elif why:
                notes.append(
                    Difference(kind="note", problem=why, pet_id=pet.id, name=pet.name or "")
                )
        return added, notes

    def _why_not_added(
        self,
        pet: Pet,
        was_there: bool,
        doubts: Sequence[str],
        names: Mapping[str, str],
        may_be: Mapping[Identity | None, str],
    ) -> str | None:
        """Return the reason why a pet does not become a row, None if it does, "" if the plan
        reports it.
        """
        if pet.id in self._planned:
            return ""
        if doubts and (was_there or self._base is None):
            return _MAY_BE.format(f"{doubts[0]}, whose id is uncertain,")
        if normalize(pet.name) in names:
            row = names[normalize(pet.name)]
            return _MAY_BE.format(f"{row}, which has its name and no id,")
        if pet.id in may_be:
            return _MAY_BE.format(may_be[pet.id])
        if was_there and not self._leads:
            holds = self._options.holds_deletes
            why = explain_stay(self._decided, pet.id or 0, holds_deletes=holds)
            return f"its row was removed from the sheet, and {why}"
        return None

    @property
    def _unanswered(self) -> list[int | None]:
        """The rows for whose pets the store gave no answer."""
        return [c.row for c in self._plan.conflicts if c.rule == _NOT_LOOKED_UP]

    @cached_property
    def _planned(self) -> frozenset[int | None]:
        """The pets in no row that the plan reports."""
        conflicts = {c.pet_id for c in self._plan.conflicts if c.row is None}
        return frozenset(conflicts | {change.pet_id for change in self._plan.deletes})

    def _find_candidates(self, removed: Collection[int]) -> Mapping[Identity | None, str]:
        """Return the pets to which a row in conflict may belong, with that row's address. Rows that
        are removed are left out.
        """
        may_be = self._decided.rows.may_be.items()
        return {
            pet: self._sheet.address(row)
            for row, pets in may_be
            if row not in removed
            for pet in pets
        }

    def _mask_named(self) -> Mask:
        ids = [*self._sheet.blocked_ids, *self._pet_ids.values()]
        return match.mask_named(self._places, ids, self._pets)

    def _find_unmatched_names(self) -> dict[str, str]:
        """Return the names in rows whose pet is unknown, each with the address of such a row."""
        if "name" not in self.rows:
            return {}
        free = lacks_id(self.rows)
        names = plain_values(self.rows["name"].array[free])
        pairs = zip(names, self.rows.index[free].tolist(), strict=True)
        return {
            normalize(name): self._sheet.address(row, "name")
            for name, row in pairs
            if name is not None
        }

    def _mask_fillable(self, unit: Unit, at: Positions) -> Mask:
        """Return a mask of the rows with a blank cell of the unit that can be filled."""
        leads = self._leads_in(unit)
        masks = [
            self._mask_blank_beside(c, at, leads=leads) for c in COLUMNS_OF[unit] if c in self.rows
        ]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(at), dtype=bool)

    def _leads_in(self, unit: Unit) -> bool:
        """Return true if the store leads in this field."""
        return self._leads or self._options.owners.get(unit) == "store"

    def _mask_blank_beside(self, column: Column, at: Positions, *, leads: bool) -> Mask:
        blank = is_blank(self.rows[column].array)[at]
        some = np.flatnonzero(blank)
        if not len(some):
            return blank
        blank[some] = ~is_empty(self._pets[column].array.take(self._places[at[some]]))
        if not leads:
            blank &= self._old[at] >= 0
            some = np.flatnonzero(blank)
            if self._base is not None and column not in self._returned:
                blank[some] = is_empty(self._sheet_frame[column].array.take(self._old[at[some]]))
        return blank

    def _find_exported_pets(self, at: Positions) -> list[Pet | None]:
        old: list[Pet | None] = [None] * len(at)
        there = np.flatnonzero(self._old[at] >= 0)
        if not self._leads and self._base is not None:
            pets = pets_at(self._base.rows, self._old[at[there]])
            for n, pet in zip(there.tolist(), pets, strict=True):
                old[n] = pet
        return old

    def _fields(self, row: Row, current: Pet, old: Pet | None) -> Iterator[Column]:
        for unit in row.units:
            leads = self._leads_in(unit)
            if leads or self._judge.is_settled(
                unit, row.values, current, old, keeps_both=self._options.keeps_both
            ):
                for column in COLUMNS_OF[unit]:
                    if column in self.rows and self._differs(
                        column, row.values, current, old, leads=leads
                    ):
                        yield column

    def _differs(
        self, column: Column, values: RowValues, current: Pet, old: Pet | None, *, leads: bool
    ) -> bool:
        if column not in values or (column == "category_id" and known_id(values[column]) is None):
            last = None if old is None else self._judge.find_sheet_pet(old)
            fills = last is not None and (column in self._returned or not _has_text(column, last))
            return (leads or fills) and _has_text(column, current)
        return not is_as_expected(build_pet(values), current, column)

    def _iter_rows(self, mask: Mask) -> Iterator[Row]:
        at = np.flatnonzero(mask)
        return iter_rows(self.rows, at, self._places[at])


def _positions(ids: pd.api.extensions.ExtensionArray, base: Base | None) -> Positions:
    return np.full(len(ids), -1, dtype=np.intp) if base is None else match.positions(ids, base.rows)


def mask_in_scope(pets: pd.DataFrame, statuses: Sequence[str], tags: Sequence[str]) -> Mask:
    """Return a mask of the pets with one of the statuses and at least one of the tags; () for any
    status, or for any tags.
    """
    mask = np.ones(len(pets), dtype=bool)
    if statuses:
        wanted = {fold_status(status) for status in statuses}
        known = {each for each in pets["status"].dropna().unique() if fold_status(each) in wanted}
        mask &= pets["status"].isin(known).to_numpy(dtype=bool)
    if tags:
        names = {normalize(tag) for tag in tags} - {""}
        mask &= have_items(pets["tags"].array, lambda tag: normalize(tag.name) in names)
    return mask


def _has_text(column: Column, pet: Pet) -> bool:
    """Return true if the pet's cell is not blank. A text of only white space is blank."""
    return column in find_filled_columns(pet) and bool(trim(cell(pet, column)))


def _texts(values: RowValues, fields: Iterable[Column]) -> dict[Column, str]:
    pet = build_pet(values)
    return {column: cell(pet, column) for column in fields}


def _removal(row: Row, sheet: Sheet) -> Removal:
    return Removal(
        row=row.number,
        source=sheet.address(row.number),
        pet_id=row.pet_id or 0,
        name=row.values.get("name") or "",
        before=_texts(row.values, [c for c in COLUMNS if c in row.values]),
    )
