"""Compare a snapshot with a sheet. The result is a plan. The comparison is a pure function: the
same input gives the same plan.
"""

from __future__ import annotations

import heapq
import itertools
import math
import operator
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
import pandas as pd

from petsync._collector import pause_collection
from petsync._display import count, quote
from petsync.errors import GuardError, PlanError
from petsync.models import Pet
from petsync.plan import match
from petsync.plan.base import categories_of, restore_missing_columns
from petsync.plan.change import Add, Blocked, Change, Conflict, Delete, Snapshot, Update
from petsync.plan.decide import SHARED, Decisions, SheetComparison
from petsync.plan.drift import iter_drift_notes
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    Usage,
    Vocabulary,
    content,
    find_filled_columns,
    fold_status,
    has_lost_accents,
    is_as_expected,
    key,
    normalize,
    photo_keys,
    unit_content,
    unit_key,
)
from petsync.plan.guard import NO_GUARD, Guard, Verdict
from petsync.plan.lineage import (
    Match,
    Slot,
    VacantId,
    actions_of,
    find_lost_rows,
    find_source_rows,
    read_row_pets,
    slots_of,
)
from petsync.plan.match import Alignment, folded_among, folded_forms, names_among, pets_of
from petsync.plan.notes import first_items
from petsync.plan.options import PlanOptions
from petsync.plan.plan import Plan, notes_of, refuse_changed_sentinels
from petsync.profile import STANDARD, ServiceProfile
from petsync.table.arrow import list_items
from petsync.table.base import Base, SourceRow
from petsync.table.columns import ADDING, COLUMNS, LISTS, ORIGINAL_ROW, Column
from petsync.table.frame import (
    find_rows,
    has_action,
    has_id_in,
    ids_of,
    is_blank,
    join_rows,
    lacks_id,
    mask_rows,
    pets_at,
    pets_from_frame,
    plain_values,
    select,
    unique_texts,
    values_at,
)
from petsync.table.lists import Items, ListArray, count_items
from petsync.table.sheet import FRAME_NAME, Finding, Sheet

__all__ = [
    "Decided",
    "IdExchange",
    "MissingPets",
    "ShiftedColumns",
    "appearance",
    "base_of",
    "blocked_row",
    "compare",
    "describe_exchanged",
    "describe_namesakes",
    "describe_strange_letters",
    "find_exchanged",
    "find_open_rows",
    "find_refusal",
    "find_shifted",
    "find_twins",
    "find_unproved_ids",
    "find_unread_tabs",
    "has_ids",
    "options_for",
]


# Rows with the values of another pet: their ids were moved without the other columns, or are lost.


_COMPARED: tuple[Unit, ...] = ("status", "category", "tags", "photo_urls")
"""The columns, besides the name, in which pets are compared."""
_NEAR = 10
"""The number of pets of the same name with which each row of a large sheet is compared."""
_MAX_TWIN_PAIRS = 100_000
"""The maximum number of pairs of a row and a pet of its name, up to which more are compared."""
_MAX_COMPARED = 100
"""The maximum number of pets with which an add is compared: those that agree with it most."""
_MIN_EXCHANGED = 2
"""The minimum number of rows that count as evidence. A single row may be intended; ids are
exchanged in pairs.
"""
_MIN_DIFFERING = 2
"""The minimum number of units in which a row with another pet's values differs from the pet with
its id: the name and one more.
"""


class IdExchange(NamedTuple):
    """A row with the values of another pet."""

    row: int
    """The row's number."""
    pet_id: int
    """The id in the row."""
    was: str
    """The previous name of the pet with this id."""
    other: int
    """The id of the pet whose values the row has."""
    name: str
    """The name of that pet."""


def find_exchanged(
    sheet: Sheet, before: pd.DataFrame | None, rows: Collection[int]
) -> tuple[IdExchange, ...]:
    """Return the exchanges among these `rows`.

    In an exchange, all values of a row are those that another pet had `before`, and the row of that
    pet has other values now. Returns an empty tuple if there is only one exchange.
    """
    found = _find_others(sheet, before, rows) if len(rows) >= _MIN_EXCHANGED else []
    return tuple(found) if len(found) >= _MIN_EXCHANGED else ()


def _find_others(
    sheet: Sheet,
    before: pd.DataFrame | None,
    rows: Collection[int],
    unnamed: pd.DataFrame | None = None,
) -> list[IdExchange]:
    """Return the rows with the values that another pet had `before`, if the row of that pet has
    other values now.

    If `unnamed` is given, the pets that no row names, return instead the rows with the values of
    one of these pets, if no other pet had these values, and the row differs in at least two units
    from the pet with its id.
    """
    frame = sheet.rows
    if before is None or not rows or not {"id", "name"} <= {*frame.columns}:
        return []
    at, places = _find_merged(frame, find_rows(frame, rows), before)
    masks = match.differences(frame, at, before, places)
    is_renamed = masks["name"]
    if unnamed is not None:
        is_renamed &= np.sum([*masks.values()], axis=0) >= _MIN_DIFFERING
    at, places = at[is_renamed], places[is_renamed]
    if not len(at):
        return []
    renamed = frame.iloc[at]
    others = _find_changed(frame, renamed["name"], before) if unnamed is None else unnamed
    found = find_twins(renamed, others)
    if unnamed is not None and (found >= 0).any():
        found[find_twins(renamed, before, is_sole=True) < 0] = -1
    return [
        _build_exchanged(frame, int(row), before.iloc[own], others.iloc[place])
        for row, own, place in zip(at, places, found, strict=True)
        if place >= 0
    ]


def _find_merged(
    frame: pd.DataFrame, at: match.Positions, pets: pd.DataFrame
) -> tuple[match.Positions, match.Positions]:
    """Return the rows among `at` that may update one of the pets, and these pets' positions."""
    places = match.positions(frame["id"].array.take(at), pets)
    is_merged = ~has_action(frame, "ignore", "delete", *ADDING, at=at) & (places >= 0)
    return at[is_merged], places[is_merged]


def _find_changed(frame: pd.DataFrame, names: pd.Series[Any], pets: pd.DataFrame) -> pd.DataFrame:
    """Return the pets with these names whose rows have other values."""
    wanted = frozenset(normalize(None if pd.isna(name) else name) for name in names) - {""}
    is_named = names_among(pets["name"], wanted)
    ids = plain_values(pets["id"].array[is_named])
    at, places = _find_merged(frame, np.flatnonzero(has_id_in(frame, ids)), pets)
    at, places = at[is_named[places]], places[is_named[places]]
    masks = match.differences(frame, at, pets, places)
    return pets.iloc[places[match.any_unit(masks)]]


def _find_misplaced(
    changes: Sequence[Change],
    sheet: Sheet,
    pets: pd.DataFrame,
    base: Base | None,
    *,
    is_all: bool,
    renamed_rows: Collection[int],
) -> list[Conflict]:
    """Return the conflicts of misplaced rows.

    All values of a misplaced row are the earlier values of a pet that no row names. Applying it
    would overwrite one pet, and duplicate the other or delete it as missing. If there is such a
    row, other rows that seem to have exchanged their ids are conflicts too. An add without an id
    that has the earlier values of exactly one pet is a conflict if the row with this pet's id has
    another name, and that row is a conflict too.

    Without a base, the values of misplaced rows may be intended: unless the sheet must list all
    pets (`is_all`), they are conflicts only if there is such an add.

    `renamed_rows` have other names than their pets, which are not sent.
    """
    renamed = [
        each
        for each in changes
        if isinstance(each, Update)
        and len({*each.fields, *(["name"] if each.row in renamed_rows else ())}) >= _MIN_DIFFERING
        and ("name" in each.fields or each.row in renamed_rows)
    ]
    merged = _select_merged(renamed, sheet)
    updates = {each.row: each for each in merged if each.row is not None}
    if not updates or "id" not in sheet.rows:
        return []
    before = pets
    if base is not None:
        new = select(pets, match.positions(pets["id"].array, base.rows) < 0)
        before = join_rows([base.sheet_rows, new])
    taken_ids = {*ids_of(sheet.rows), *sheet.blocked_ids}
    unnamed = pets if base is None else base.sheet_rows
    unnamed_twins = _find_others(
        sheet, before, updates, select(unnamed, ~has_id_in(unnamed, taken_ids))
    )
    exchanges = [*_find_others(sheet, before, updates), *unnamed_twins] if unnamed_twins else []
    owners = {each.before.id or 0: row for row, each in updates.items()}
    adds = [each.row for each in _open_adds(changes, sheet)]
    at = find_twins(sheet.rows.loc[adds], before, is_sole=True).tolist()
    ids = [int(before["id"].iloc[n]) if n >= 0 else 0 for n in at]
    pairs = {row: i for row, i in zip(adds, ids, strict=True) if row and i in owners}
    if not pairs and base is None and not is_all:
        return []
    by_row = {each.row: each for each in exchanges}
    conflicts = {c.row or 0: c for c in _iter_misplaced(sheet, [*by_row.values()], owners)}
    for row, pet_id in pairs.items():
        owner = owners[pet_id]
        conflicts[row] = _build_displaced(sheet, row, pet_id, owner, has_id=False)
        other = _build_displaced(sheet, owner, pet_id, row, has_id=True)
        conflicts.setdefault(owner, other)
    return [conflicts[row] for row in sorted(conflicts)]


def _iter_misplaced(
    sheet: Sheet, exchanges: Sequence[IdExchange], owners: Mapping[int, int]
) -> Iterator[Conflict]:
    """Yield the conflicts of rows with the values of other pets, and of the rows from which these
    pets' ids are to be moved. `owners` has, by id, the rows of updates that change the name.
    """
    cells: dict[int, list[str]] = defaultdict(list)
    for each in exchanges:
        cells[each.other].append(sheet.address(each.row, "id"))
    is_named = has_id_in(sheet.rows, cells)
    ids = plain_values(sheet.rows["id"].array[is_named])
    named = dict(zip(ids, sheet.rows.index[is_named].tolist(), strict=True))
    moved_rows = {each.row for each in exchanges}
    for each in exchanges:
        there = cells[each.other]
        cell = "the id cell" if len(there) == 1 else f"only one of {first_items(there)}"
        owner = named.get(each.other)
        if owner is None or owner in moved_rows:
            way = f"Write {each.other} into {cell}"
        elif owner == owners.get(each.other):
            way = f"Move the id {each.other} from {sheet.address(owner, 'id')} into {cell}"
            yield _build_displaced(sheet, owner, each.other, each.row, has_id=True)
        else:
            way = f"Write the values of pet {each.pet_id} into the row again"
        was = f" of {each.was!r}" if each.was else ""
        yield Conflict(
            row=each.row,
            source=sheet.address(each.row),
            pet_id=each.other,
            name=each.name,
            rule="misplaced-id",
            problem=f"has the id {each.pet_id}{was}, and the earlier values of pet {each.other}: "
            "ids seem to have been moved without their rows",
            suggestion=f"{way}. If pet {each.pet_id} is to get these values, write `update` in the "
            "action column.",
        )


def _collect_ids(sheet: Sheet, conflicts: Iterable[Conflict]) -> frozenset[int]:
    """Return the ids that the sheet has in the rows of these conflicts."""
    rows = [each.row for each in conflicts]
    if not rows or "id" not in sheet.rows:
        return frozenset()
    is_conflict = mask_rows(sheet.rows, rows)
    found = plain_values(sheet.rows["id"].array[is_conflict])
    return frozenset(each for each in found if each is not None)


def _build_displaced(sheet: Sheet, row: int, pet_id: int, other: int, *, has_id: bool) -> Conflict:
    """Return the conflict of a `row` without an id that has a pet's earlier values or, if `has_id`,
    of a `row` with the pet's id and another name. `other` is the second row of the pair.
    """
    there = sheet.address(other, "id")
    problem = f"has no id, but has the earlier values of pet {pet_id}, whose id is at {there}"
    way = f"Move the id here from {there}, or write `add-another` in the action column for another"
    if has_id:
        problem = (
            f"has the id {pet_id} and another name, and the row at {there} has the pet's earlier "
            "values"
        )
        way = f"Move the id to {there}, or write `update` in the action column to rename the"
    return Conflict(
        row=row,
        source=sheet.address(row),
        pet_id=pet_id,
        name=str(sheet.rows.at[row, "name"]),
        rule="misplaced-id",
        problem=problem,
        suggestion=f"{way} pet.",
    )


def describe_exchanged(exchanges: Sequence[IdExchange], sheet: Sheet) -> Iterator[str]:
    """Yield a sentence on the rows with the values that other pets had before."""
    pairs = [
        f"{sheet.address(each.row)} has the id {each.pet_id} (earlier {each.was!r}) and the values "
        f"of pet {each.other} ({each.name!r})"
        for each in exchanges
    ]
    if pairs:
        yield (
            f"{first_items(pairs)}: these rows have the earlier values of other pets, as if the "
            "ids had been moved without their rows. If this is not intended, move the ids back."
        )


def find_twins(rows: pd.DataFrame, pets: pd.DataFrame, *, is_sole: bool = False) -> match.Positions:
    """Return, for each row, the position of a pet with the same name that no value of the row
    contradicts; -1 if there is none. If `is_sole`, the position is also -1 if there is, or may be,
    more than one such pet.
    """
    result = np.full(len(rows), -1, dtype=np.intp)
    if "name" not in rows or not len(rows) or not len(pets):
        return result
    named = [normalize(None if pd.isna(name) else name) for name in rows["name"]]
    limit = max(_NEAR, _MAX_TWIN_PAIRS // len(rows))
    near = _by_name(pets, frozenset(filter(None, named)), limit)
    pairs = [(n, place) for n, name in enumerate(named) for place in near.get(name, ())]
    if not pairs:
        return result
    at, places = (np.array(each, dtype=np.intp) for each in zip(*pairs, strict=True))
    lines = rows.iloc[at].reset_index(drop=True)
    masks = match.differences(lines, np.arange(len(lines)), pets, places)
    same = ~match.any_unit(masks)
    # The first match of each row overwrites the others.
    result[at[same][::-1]] = places[same][::-1]
    if is_sole:
        result[np.bincount(at[same], minlength=len(rows)) > 1] = -1
        result[[len(near.get(name, ())) >= limit for name in named]] = -1
    return result


def _by_name(pets: pd.DataFrame, wanted: Collection[str], limit: int) -> dict[str, list[int]]:
    """Return, by name, the positions of the pets with these names; at most `limit` of each name."""
    places: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(names_among(pets["name"], wanted)).tolist():
        found = places[normalize(pets["name"].iloc[place])]
        if len(found) < limit:
            found.append(place)
    return places


def _build_exchanged(
    frame: pd.DataFrame, row: int, own: pd.Series[Any], other: pd.Series[Any]
) -> IdExchange:
    return IdExchange(
        int(frame.index[row]), int(own["id"]), own["name"] or "", int(other["id"]), other["name"]
    )


def has_ids(sheet: Sheet) -> bool:
    """Return true if a row of the sheet has an id, even if it is unreadable."""
    named = not lacks_id(sheet.rows).all()
    return (
        named
        or sheet.agreeing > 0
        or bool(sheet.blocked_ids)
        or any(p.column == "id" and not p.is_own for p in sheet.problems)
    )


def _find_lookalikes(
    changes: Sequence[Change],
    sheet: Sheet,
    pets: pd.DataFrame,
    identical: Mapping[int, int],
    taken_ids: Collection[int | None],
) -> list[Conflict]:
    """Return the conflicts of the adds that look like one of the `pets`, or like several.

    No row names these `pets`, and other conflicts name those in `taken_ids`. This is for a sheet
    without ids, whose rows may all belong to pets of the store. A row looks like a pet with the
    same name, or the same photos, if at least half of its other values agree. A row with the action
    `add` or `add-another` never looks like a pet.

    If most rows belong to pets, a row also looks like a pet with the same name if it differs from
    it in at most one column, the same column in all rows. A row belongs to a pet if it is
    `identical` to it, or if it differs in this way from the only pet with its name.
    """
    adds = _open_adds(changes, sheet)
    if not adds or pets.empty:
        return []
    by_name, by_photos = _index_pets(pets, adds)
    pairs: list[tuple[Add, Pet, Sequence[Column]]] = []
    for add in adds:
        near = by_name.find_near(normalize(add.after.name), add.after)
        if add.after.photo_urls:
            near = [*near, *by_photos.find_near(photo_keys(add.after.photo_urls), add.after)]
        compared = [(add, pet, _find_agreeing_columns(add.after, pet)) for pet in near]
        alike = [pair for pair in compared if _is_like(add.after, pair[2])]
        pairs += heapq.nlargest(_NEAR, alike, key=lambda pair: len(pair[2]))
    rows = {add.row for add, _, _ in pairs}
    edited = _edited_in_one_column(adds, by_name, len(find_open_rows(sheet)), identical)
    pairs += [(add, pet, ("name",)) for add, pet in edited if add.row not in rows]

    def describe(add: Add, pet: Pet, columns: str) -> str:
        why = "" if add.row in rows else ", and most rows have the name of a pet"
        return f"{_describe_lookalike(pet, columns)}{why}"

    return _build_lookalikes(pairs, describe, lambda _: _GIVE_IDS, taken_ids)


def _edited_in_one_column(
    adds: Sequence[Add],
    by_name: _Pets,
    total: int,
    identical: Mapping[int, int],
) -> Iterator[tuple[Add, Pet]]:
    """Yield the adds that differ from a pet of the same name in at most one column, each with that
    pet. Yields them only if most of the `total` rows belong to pets: the `identical` rows, and the
    rows of these adds whose name only one pet has.
    """
    pairs = [
        (add, pet)
        for add in adds
        for pet in by_name.find_near(normalize(add.after.name), add.after)
    ]
    differing = [_find_differing_columns(add.after, pet) for add, pet in pairs]
    for column in _COMPARED:
        near = [pair for pair, others in zip(pairs, differing, strict=True) if others <= {column}]
        ids = {pet.id for add, pet in near if len(by_name.get(normalize(add.after.name))) == 1}
        count = len(ids) + len(identical)
        if ids and count >= _MIN_EXCHANGED and 2 * count > total:
            yield from near


def _find_differing_columns(row_pet: Pet, pet: Pet) -> set[Column]:
    """Return the columns, except the name, in which the pet differs from the row."""
    return {*find_filled_columns(row_pet)} - {
        "name",
        "category_id",
        *_find_agreeing_columns(row_pet, pet),
    }


def _find_renamed(
    changes: Sequence[Change],
    sheet: Sheet,
    pets: pd.DataFrame,
    identical: Mapping[int, int],
    taken_ids: Collection[int | None],
) -> list[Conflict]:
    """Return the conflicts of the adds whose pet may be one of the `pets` under another name.

    No row names these `pets`, and other conflicts name those in `taken_ids`. Like
    `_find_lookalikes`, this is for a sheet without ids. The row of such an add has a pet's values
    except for the name. If at least half of the rows are `identical` to pets, the pet's id must
    also be between the ids of the nearest identical rows above and below. In other sheets, exactly
    one pet must have all values of the row except the name, one of these values must not be the
    status, and the sheet must have all columns that petsync writes, except the id.
    """
    adds = _open_adds(changes, sheet)
    is_whole = {*COLUMNS} - {"id"} <= {*sheet.rows}
    is_table = len(identical) >= _MIN_EXCHANGED and 2 * len(identical) >= len(find_open_rows(sheet))
    if not adds or pets.empty or not (is_table or is_whole):
        return []
    known = sorted(identical.items()) if is_table else []
    rows = [row for row, _ in known]
    listed = pets_from_frame(pets)
    by_look: dict[tuple[Unit, ...], dict[Hashable, list[Pet]]] = {}
    ids_by_status = {
        status: sorted(pet.id or 0 for pet in of_status)
        for status, of_status in _group_by_content(listed, ("status",)).items()
    }
    pairs: list[tuple[Add, Pet, Sequence[Column]]] = []
    for add in adds:
        at = bisect_left(rows, add.row or 0)
        above = known[at - 1][1] if at else None
        below = known[at][1] if at < len(known) else None
        columns = (
            tuple(c for c in _COMPARED if c in find_filled_columns(add.after))
            if known
            else _COMPARED
        )
        if not any(c in find_filled_columns(add.after) for c in _COMPARED[0 if known else 1 :]):
            continue
        if columns not in by_look:
            by_look[columns] = _group_by_content(listed, columns)
        like = by_look[columns].get(content(add.after, columns), [])
        if known:
            of_status = ids_by_status.get(content(add.after, ("status",)), ())
            like = [pet for pet in like if _is_between(above, below, pet.id or 0, of_status)]
        if known or len(like) == 1:
            filled = [c for c in columns if c in find_filled_columns(add.after)]
            pairs += [(add, pet, filled) for pet in like[:_NEAR]]
    return _build_lookalikes(
        pairs,
        lambda _, pet, columns: _describe_lookalike(pet, columns),
        lambda _: _GIVE_IDS,
        taken_ids,
    )


def _find_copied(
    changes: Sequence[Change],
    sheet: Sheet,
    pets: pd.DataFrame,
    conflicts_so_far: Collection[Conflict],
    named_ids: Collection[int | None],
) -> list[Conflict]:
    """Return the conflicts of the adds whose pets the store may have.

    Like `_find_lookalikes`, this is for a sheet without ids. There are none unless most rows are in
    `conflicts_so_far`, because they look like pets. An add is a conflict if it agrees with one of
    the `pets`, which no row names, in all its values except the name, or in the name, ignoring
    case. Without the name, each pet is assigned to at most one row. If there are several pets, the
    first choice is one with the row's name, then one whose name is the beginning of the row's name.
    Other conflicts name the pets in `named_ids`.
    """
    if len(conflicts_so_far) < _MIN_EXCHANGED or 2 * len(conflicts_so_far) <= len(
        find_open_rows(sheet)
    ):
        return []
    taken_ids = {each.pet_id for each in conflicts_so_far}
    listed = pets_from_frame(pets)
    free = [pet for pet in listed if pet.id not in taken_ids]
    by_look: dict[tuple[Unit, ...], dict[Hashable, list[Pet]]] = {}
    by_name: dict[str, list[Pet]] = defaultdict(list)
    for pet in listed:
        by_name[fold_status(pet.name)].append(pet)
    conflicts: list[Conflict] = []
    for add in _open_adds(changes, sheet):
        columns = tuple(c for c in _COMPARED if c in find_filled_columns(add.after))
        if columns not in by_look:
            by_look[columns] = _group_by_content(free, columns)
        name = fold_status(add.after.name)
        namesakes = by_name.get(name, [])
        like = by_look[columns].get(content(add.after, columns), [])
        near = [pet for pet in (*namesakes, *like) if pet.id not in taken_ids] or namesakes
        if near:
            pet = min(
                near,
                key=lambda pet: (
                    pet.id in named_ids,
                    *_likeness(name, fold_status(pet.name), pet.id or 0),
                ),
            )
            agreeing = _find_agreeing_columns(add.after, pet) or ("name",)
            is_shared = pet.id in taken_ids or pet.id in named_ids
            why = ", and most rows look like pets" + (SHARED if is_shared else "")
            taken_ids.add(pet.id)
            conflicts.append(_build_lookalike_conflict(add, pet, agreeing, why))
    return conflicts


def _likeness(name: str, other: str, pet_id: int) -> tuple[bool, bool, int]:
    """Return a sort key that is lowest for the pet with the most similar name; of several such
    pets, for the one with the lowest id.
    """
    return name != other, not (other and name.startswith(other)), pet_id


def _is_between(above: int | None, below: int | None, pet_id: int, ids: Sequence[int]) -> bool:
    """Return true if the id is between the ids `above` and `below`. If `below` is None, return true
    if the id is the first of the sorted `ids` after `above`. If `above` is None, return true if it
    is the last one before `below`.
    """
    if above is not None and below is not None:
        return above < pet_id < below
    if above is not None:
        at = bisect_right(ids, above)
        return at < len(ids) and ids[at] == pet_id
    at = 0 if below is None else bisect_left(ids, below)
    return at > 0 and ids[at - 1] == pet_id


def _group_by_content(pets: Iterable[Pet], columns: Sequence[Unit]) -> dict[Hashable, list[Pet]]:
    found: dict[Hashable, list[Pet]] = defaultdict(list)
    for pet in pets:
        found[content(pet, columns)].append(pet)
    return found


def _find_added_since(
    changes: Sequence[Change], sheet: Sheet, pets: pd.DataFrame, base: Base
) -> list[Conflict]:
    """Return the conflicts of the adds that look like a new pet of the store.

    New pets are those of the `pets` that the base lacks. No row names these `pets`. This is for an
    exported sheet: another user may have added the row's pet already.

    The row of such an add has the pet's name, and at least half of its other values agree, not only
    the status. If only pets with certain tags were exported, there are no conflicts, because the
    base does not show which pets are new.
    """
    adds = _open_adds(changes, sheet)
    if not adds or base.tags:
        return []
    new = pets[match.positions(pets["id"].array, base.rows) < 0]
    since = "was added to the store since the export"
    if base.source_rows:
        since = "is in no row of this workbook"
    by_name, _ = _index_pets(new, adds)
    pairs = [
        (add, pet, agreeing)
        for add in adds
        for pet in by_name.find_near(normalize(add.after.name), add.after)
        if _is_like(add.after, agreeing := _find_agreeing_columns(add.after, pet))
        and not {*agreeing} <= {"name", "status"}
    ]
    return _build_lookalikes(
        pairs,
        lambda _, pet, columns: (
            f"has no id, and looks like pet {pet.id}, which {since}: they agree in {columns}"
        ),
        lambda pet: (
            f"Write the id {pet.id} into the row if it is that pet, or `add-another` in "
            "the action column to add another one."
        ),
    )


def _find_renumbered(
    changes: Sequence[Change],
    sheet: Sheet,
    pets: pd.DataFrame,
    unnamed: match.Mask,
    displaced: Collection[int],
) -> list[Conflict]:
    """Return the conflicts of the adds with an unknown id that look like a pet without a row: their
    ids may have been renumbered, or moved without their rows.

    `unnamed` is a mask of the `pets` that are in no row; `displaced` are the ids of misplaced rows.
    A row looks like one of these pets if it has the same name and all its values agree. If the pet
    is the only one with the row's name, or with the row's photos, which no other add has, half of
    the row's other values are enough, unless the status is the only one.
    """
    numbered = [each for each in changes if isinstance(each, Add) and (each.pet_id or 0) >= 1]
    adds = _select_merged(numbered, sheet)
    free_pets = select(pets, unnamed | has_id_in(pets, displaced)) if adds else pets[:0]
    if free_pets.empty:
        return []
    free = {*ids_of(free_pets)}
    counts = Counter(photo_keys(add.after.photo_urls) for add in adds)
    # Most adds resemble none of these few pets, and need no search among all pets.
    free_by_name, free_by_photos = _index_pets(free_pets, adds)
    adds = [
        add
        for add in adds
        if free_by_name.get(normalize(add.after.name))
        or free_by_photos.get(photo_keys(add.after.photo_urls))
    ]
    by_name, by_photos = _index_pets(pets, adds)
    pairs: list[tuple[Add, Pet, tuple[Column, ...]]] = []
    for add in adds:
        photos = photo_keys(add.after.photo_urls)
        name = normalize(add.after.name)
        named = by_name.get(name)
        shown = by_photos.get(photos) if photos and counts[photos] == 1 else []
        sole = [near[0] for near in (named, shown) if len(near) == 1]
        for pet in [*sole, *(free_by_name.find_near(name, add.after) if len(named) > 1 else [])]:
            agreeing = _find_agreeing_columns(add.after, pet)
            is_half = pet in sole and _is_like(add.after, agreeing)
            is_same = normalize(pet.name) == name and not _find_differing_columns(add.after, pet)
            if pet.id in free and (is_same or (is_half and not {*agreeing} <= {"name", "status"})):
                pairs.append((add, pet, agreeing))
    places = dict.fromkeys(displaced, "whose id is in another row")
    return _build_lookalikes(
        pairs,
        lambda add, pet, columns: (
            f"has the id {add.pet_id}, which no pet has, and looks like pet {pet.id} ({pet.name}), "
            f"{places.get(pet.id or 0, 'which is in no row')}: they agree in {columns}"
        ),
        lambda pet: (
            f"Write the id {pet.id} into the row if it is that pet, or `add` in the action "
            "column to add another one."
        ),
    )


def _build_lookalikes(
    pairs: Iterable[tuple[Add, Pet, Sequence[Column]]],
    problem: Callable[[Add, Pet, str], str],
    suggestion: Callable[[Pet], str],
    taken_ids: Collection[int | None] = frozenset(),
) -> list[Conflict]:
    """Return the conflicts of the adds in the pairs.

    Each add names the pet that agrees with it in most columns. The add that agrees in most columns
    is assigned first, and a pet is named twice only if no other one is left. Other conflicts name
    the pets in `taken_ids`.
    """
    conflicts: dict[int | None, Conflict] = {}
    used_ids = {*taken_ids}
    ranked = sorted(pairs, key=lambda pair: (-len(pair[2]), pair[0].row or 0))
    for also in ("", SHARED):
        for add, pet, agreeing in ranked:
            if add.row not in conflicts and (also or pet.id not in used_ids):
                used_ids.add(pet.id)
                why = problem(add, pet, ", ".join(agreeing)) + also
                conflicts[add.row] = _build_lookalike(add, pet, why, suggestion(pet))
    return sorted(conflicts.values(), key=lambda each: each.row or 0)


def _note_namesakes(changes: list[Change], pets: pd.DataFrame, sheet: Sheet) -> list[Change]:
    """Return the changes, with a `namesake` in adds whose pet may already exist.

    No row names these `pets`. The namesake is the first of them with the name of the add.
    """
    proper = [
        each
        for each in changes
        if isinstance(each, Add) and (each.pet_id is None or each.pet_id >= 1)
    ]
    adds = _select_merged(proper, sheet)
    if not adds or pets.empty:
        return changes
    there: dict[str, int] = {}
    named = pets[names_among(pets["name"], {normalize(add.after.name) for add in adds})]
    for name, number in zip(named["name"].tolist(), named["id"].tolist(), strict=True):
        there.setdefault(normalize(name), int(number))
    ids = {id(add): there.get(normalize(add.after.name)) for add in adds}
    return [
        msgspec.structs.replace(each, namesake=number)
        if isinstance(each, Add) and (number := ids.get(id(each))) is not None
        else each
        for each in changes
    ]


def _find_namesakes(changes: Iterable[Change], compared: SheetComparison) -> list[int]:
    """Return the sorted ids of all known pets with the name of an add without an id."""
    names = {
        normalize(each.after.name)
        for each in changes
        if isinstance(each, Add) and each.pet_id is None
    }
    if not names:
        return []
    pets = compared.snapshot.known_pets
    found = {
        pet.id
        for pet in compared.found.values()
        if isinstance(pet, Pet) and pet.id is not None and normalize(pet.name) in names
    }
    return sorted(found.union(ids_of(select(pets, names_among(pets["name"], names)))))


def describe_namesakes(changes: Iterable[Change]) -> Iterator[str]:
    """Yield a sentence on the adds with the name of a pet that is in no row."""
    pairs = [
        f"{each.source} ({each.after.name}) = pet {each.namesake}?"
        for each in changes
        if isinstance(each, Add) and each.namesake is not None
    ]
    if pairs:
        yield (
            f"{first_items(pairs)}: these rows have no id, or one that no pet has, and each has "
            "the name of a pet that is in no row. If they are the same pets, give the rows the "
            "pets' ids; otherwise new pets are added."
        )


def _describe_missing_rows(changes: Iterable[Change], compared: SheetComparison) -> Iterator[str]:
    """Yield a sentence on the new rows without an id, if as many rows of the last run are gone:
    they may be the same pets with other values.
    """
    sheet = compared.sheet
    new = [
        each
        for each in changes
        if isinstance(each, Add)
        and each.row is not None
        and each.pet_id is None
        and each.namesake is None
    ]
    pets = {
        pet.id
        for pet in pets_of(
            [each.pet_id or 0 for each in compared.missing_rows], compared.snapshot.rows
        )
    }
    gone = [each for each in compared.missing_rows if each.pet_id in pets]
    if new and len(new) == len(gone) and find_open_rows(sheet).issuperset(each.row for each in new):
        rows = [f"{sheet.address(each.row or 0)} ({each.after.name})" for each in new]
        ids = [f"{each.pet_id} ({each.row_pet.name!r})" for each in gone]
        yield (
            f"{first_items(rows)}: new, and the rows of as many pets have gone since the last run: "
            f"{first_items(ids)}. If they are the same pets with other values, give the rows the "
            "pets' ids; otherwise new pets are added."
        )


def find_open_rows(sheet: Sheet) -> frozenset[int]:
    """Return the rows whose action leaves open whether their pets exist."""
    frame = sheet.rows
    return frozenset(frame.index[has_action(frame, "merge")].tolist())


def _open_adds(changes: Iterable[Change], sheet: Sheet) -> list[Add]:
    """Return the adds whose row has no id and whose pet may exist."""
    without_id = [each for each in changes if isinstance(each, Add) and each.pet_id is None]
    return _select_merged(without_id, sheet)


_AddOrUpdate = TypeVar("_AddOrUpdate", Add, Update)


def _select_merged(changes: Sequence[_AddOrUpdate], sheet: Sheet) -> list[_AddOrUpdate]:
    """Return the changes whose row leaves open whether its pet exists: its action is `merge`."""
    if not changes:
        return []
    at = find_rows(sheet.rows, [each.row for each in changes if each.row is not None])
    there: pd.DataFrame = sheet.rows[["action"]].iloc[at]
    merged = {*there.index[has_action(there, "merge")].tolist()}
    return [each for each in changes if each.row in merged]


def _index_pets(pets: pd.DataFrame, adds: Sequence[Add]) -> tuple[_Pets, _Pets]:
    """Return the pets by name and by photos, for the names and photos of the adds."""
    names = {normalize(add.after.name) for add in adds}
    photos = {photo_keys(add.after.photo_urls) for add in adds if add.after.photo_urls}
    wanted = names_among(pets["name"], names)
    if photos:
        # Most pets lack the first photo of each add: compare whole lists only for the other pets.
        first = {each[0] for each in photos}
        column = pets["photo_urls"].array
        places = np.flatnonzero(_have_photos(column, first))
        lists = column.take(places).tolist()
        are_same = [photo_keys(each or ()) in photos for each in lists]
        wanted[places[np.array(are_same, dtype=bool)]] = True
    found = pets_from_frame(pets[wanted]) if wanted.any() else []
    by_name = _Pets((normalize(pet.name), pet) for pet in found)
    return by_name, _Pets((photo_keys(pet.photo_urls), pet) for pet in found)


class _Pets:
    """Pets by a key, such as their name."""

    def __init__(self, pairs: Iterable[tuple[Hashable, Pet]]) -> None:
        self._pets: dict[Hashable, list[Pet]] = defaultdict(list)
        for key_, pet in pairs:
            self._pets[key_].append(pet)
        self._codes: dict[Hashable, list[tuple[dict[Hashable, int], match.Positions]]] = {}

    def get(self, key_: Hashable) -> Sequence[Pet]:
        """Return the pets with this key."""
        return self._pets.get(key_, ())

    def find_near(self, key_: Hashable, row_pet: Pet) -> Sequence[Pet]:
        """Return the pets with this key; of very many, those that agree with the row's pet most."""
        pets = self.get(key_)
        if len(pets) <= _MAX_COMPARED:
            return pets
        if key_ not in self._codes:
            self._codes[key_] = [_number_contents(pets, unit) for unit in _COMPARED]
        filled = find_filled_columns(row_pet)
        agreeing = np.zeros(len(pets), np.int8)
        for unit, (numbers, codes) in zip(_COMPARED, self._codes[key_], strict=True):
            if not {*COLUMNS_OF[unit]}.isdisjoint(filled):
                agreeing += codes == numbers.get(unit_content(row_pet, unit), -1)
        return [pets[at] for at in np.argsort(-agreeing, kind="stable")[:_MAX_COMPARED].tolist()]


def _number_contents(
    pets: Sequence[Pet], unit: Unit
) -> tuple[dict[Hashable, int], match.Positions]:
    """Return a number for each content of the unit, and the numbers of the pets."""
    numbers: dict[Hashable, int] = {}
    codes = [numbers.setdefault(unit_content(pet, unit), len(numbers)) for pet in pets]
    return numbers, np.array(codes, np.intp)


def _find_agreeing_columns(row_pet: Pet, pet: Pet) -> tuple[Column, ...]:
    """Return the columns in which the pet agrees with the row."""
    return tuple(
        c
        for c in find_filled_columns(row_pet)
        if c != "category_id" and is_as_expected(row_pet, pet, c)
    )


def _is_like(row_pet: Pet, agreeing: Collection[Column]) -> bool:
    others = [c for c in find_filled_columns(row_pet) if c not in ("name", "category_id")]
    return 2 * sum(c in agreeing for c in others) >= len(others)


def _build_lookalike_conflict(
    add: Add, pet: Pet, agreeing: Sequence[Column], why: str = ""
) -> Conflict:
    problem = f"{_describe_lookalike(pet, ', '.join(agreeing))}{why}"
    return _build_lookalike(add, pet, problem, _GIVE_IDS)


def _describe_lookalike(pet: Pet, columns: str) -> str:
    return (
        f"has no id, like every row of the sheet, and looks like pet {pet.id} ({pet.name}): they "
        f"agree in {columns}"
    )


_GIVE_IDS = "Give the rows their ids, or write `add` in the action column to add another pet."


def _build_lookalike(add: Add, pet: Pet, problem: str, suggestion: str) -> Conflict:
    return Conflict(
        row=add.row,
        source=add.source,
        pet_id=pet.id,
        name=add.after.name or "",
        rule="looks-alike",
        problem=problem,
        suggestion=suggestion,
    )


# Notes on letters that look like others, such as a Cyrillic е in a Latin name.


_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH LATIN")
"""Scripts with letters that look like those of another script."""
_FIRST_FOREIGN = "\u0370"
"""The first letter of a script other than Latin."""
_WORD = re.compile(r"[^\W\d_]+")
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03bf\u03bd\u03b1\u03c1\u0585\u057d",
    "aeopcyxijshdqwABEKMHOPCTYXIJSABEZHIKMNOPTYXovapou",
)
"""Cyrillic, Greek and Armenian letters, and the Latin ones that look the same."""


def describe_strange_letters(
    changes: Iterable[Change], pets: pd.DataFrame, usage: Usage | None = None
) -> Iterator[str]:
    """Yield a sentence on texts to send that mix scripts within a word, and one on texts that look
    like another text of the store in the same column.
    """
    mixed, whole = _find_foreign_texts(changes)
    if mixed:
        yield (
            f"{first_items(mixed)}. These letters look like others: if this is not intended, "
            "type the text again."
        )
    known = _collect_known_texts(pets, usage) if whole else {}
    similar = [
        f"{source}: {text!r} looks like the store's {twin!r}"
        for (column, text, looks), source in whole.items()
        if (twin := known.get((column, looks)))
    ]
    if similar:
        yield (
            f"{first_items(similar)}. The text has letters of another script: if this is not "
            "intended, type the text again."
        )


def describe_lost_accents(changes: Iterable[Change]) -> Iterator[str]:
    """Yield a sentence on names that only lose their accents, if there are several."""
    found = [
        f"{each.source}: {each.before.name!r} becomes {each.after.name!r}"
        for each in changes
        if isinstance(each, Update)
        and "name" in each.fields
        and has_lost_accents(each.after.name, each.before.name)
    ]
    if len(found) >= _MIN_EXCHANGED:
        yield (
            f"{first_items(found)}. A program may have written the sheet in an encoding that lacks "
            "these letters: if this is not intended, save CSV files as UTF-8."
        )


def _find_foreign_texts(
    changes: Iterable[Change],
) -> tuple[list[str], dict[tuple[Unit, str, str], str]]:
    """Return sentences on the texts to send that mix scripts within a word, and the sources of the
    texts that look like ASCII ones, by column, text and appearance.
    """
    mixed: dict[str, str] = {}
    whole: dict[tuple[Unit, str, str], str] = {}
    for change in changes:
        if change.after is None:
            continue
        for column, raw in _texts(change.after):
            if raw is None or raw.isascii() or max(raw) < _FIRST_FOREIGN:
                continue
            # An update does not change the other columns.
            if change.before and column not in change.fields:
                continue
            text = normalize(raw)
            if text.isascii() or _has_text(change.before, column, raw):
                continue
            if strange := _find_mixed_script(text):
                mixed.setdefault(f"{change.source}: {text!r}: {strange}", "")
            elif (looks := appearance(text)).isascii():
                whole.setdefault((column, text, looks), change.source)
    return [*mixed], whole


def _texts(pet: Pet) -> list[tuple[Unit, str | None]]:
    """Return the pet's name, status, category name and tag names, each with its column."""
    texts: list[tuple[Unit, str | None]] = [("name", pet.name), ("status", pet.status)]
    if pet.category is not None:
        texts.append(("category", pet.category.name))
    texts += [("tags", tag.name) for tag in pet.tags]
    return texts


def _has_text(pet: Pet | None, column: Unit, text: str) -> bool:
    """Return true if the pet has this text in the column; in any of its tags."""
    return pet is not None and any(
        other == column and (own == text or normalize(own) == normalize(text))
        for other, own in _texts(pet)
    )


def _find_mixed_script(text: str) -> str:
    """Return the first letter that is not in the main script of its word, with its Unicode name;
    "" if there is none. The main script is Latin if the word has a Latin letter.
    """
    words = (word for word in _WORD.findall(text) if not word.isascii())
    return next(filter(None, map(_find_odd_letter, words)), "")


@lru_cache(maxsize=4096)
def _find_odd_letter(word: str) -> str:
    scripts = {letter: _script(letter) for letter in word}
    found = {script for script in scripts.values() if script}
    if len(found) < 2:
        return ""
    most = max(found, key=lambda script: sum(scripts[each] == script for each in word))
    usual = "LATIN" if "LATIN" in found else most
    odd = [each for each in scripts if scripts[each] and scripts[each] != usual]
    return f"{odd[0]!r} is {unicodedata.name(odd[0], 'a letter of another script')}"


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "")
    return next((script for script in _SCRIPTS if name.startswith(script)), "")


def _have_photos(column: pd.api.extensions.ExtensionArray, wanted: Collection[str]) -> match.Mask:
    """Return a mask of the lists whose first URL may be one of these."""
    if isinstance(column, ListArray):
        bounds = column.items.bounds()
        filled = np.flatnonzero(np.diff(bounds))
        result = np.zeros(len(column), dtype=bool)
        result[filled] = names_among(pd.Series(column.items.texts), wanted, bounds[filled])
        return result
    lists = column.to_numpy(dtype=object).tolist()
    return np.array([bool(each) and normalize(each[0]) in wanted for each in lists], dtype=bool)


def appearance(text: str) -> str:
    """Return the text with Latin letters in place of those that look the same."""
    return text.translate(_LOOKALIKES)


def _collect_known_texts(pets: pd.DataFrame, usage: Usage | None) -> dict[tuple[str, str], str]:
    """Return the store's ASCII texts, by column and appearance, which for ASCII is the text
    itself.
    """
    vocabulary = Vocabulary(pets, usage)
    texts: dict[str, Iterable[str | None]] = {
        "name": pets["name"].dropna().unique(),
        "status": pets["status"].dropna().unique(),
        "category": (category.name for category in vocabulary.used_categories),
        "tags": (tag.name for tag in vocabulary.used_tags),
    }
    return {
        (column, text): text
        for column, found in texts.items()
        for text in map(normalize, found)
        if text.isascii()
    }


# Pets that no row names: they are deleted only if this is requested and no doubt remains.


_WHICH = (
    "If they are one pet, give the row its id. Otherwise, write `add-another` in the row's action "
    "column; a row with the pet's id and the action `delete` deletes the pet."
)
_WHICH_BELOW = (
    "If they are one pet, give the row its id. Otherwise, leave the id blank, and write "
    "`add-another` in the row's action column."
)


StayRule = Literal["left-alone", "not-exported", "uncovered", "uncertain"]
"""The rule of a pet that no row names and that stays."""


@dataclass(frozen=True, slots=True)
class MissingPets:
    """The results for the pets that no row names."""

    deletes: list[Delete]
    """The pets to delete."""
    conflicts: list[Conflict]
    """The conflicts of these pets, and of the adds whose pet may be one of them."""
    notes: list[str]
    """The notes for the user."""
    staying: Mapping[StayRule, match.Positions] = field(default_factory=dict)
    """The positions in the snapshot of the pets that stay without a conflict, by rule."""
    may_be: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The pets to which a row in conflict may belong, by row."""


def _find_missing(
    compared: SheetComparison,
    decisions: Decisions,
    below: Sequence[Add],
    options: PlanOptions,
    base: Base | None,
) -> MissingPets:
    """Return the deletes, conflicts and notes for the pets that no row names; none if the snapshot
    is narrow.

    A pet that changed since the export is a conflict. An add without an id, or with an id below 1
    (`below` has these adds), that resembles one of these pets has probably lost its id: both become
    conflicts. Without `options.delete_missing`, only the adds become conflicts, or nothing does if
    there is no base either.

    No pet is deleted if there are uncertain rows, because these rows may refer to any pet. These
    pets are not deleted either:

    - pets with a status that the snapshot does not cover;
    - pets outside of the caller's scope, which are conflicts if they changed;
    - pets that were not exported, because they were never in the sheet. A note counts them,
      except those to which a row in conflict may belong;
    - pets that have, or may have, a row in another worksheet.
    """
    snapshot, sheet, changes = compared.snapshot, compared.sheet, decisions.changes
    uncertain = [*decisions.uncertain, *(each.source for each in below)]
    elsewhere = sheet.ids_elsewhere
    in_doubt = {pet_id for pets in decisions.may_be.values() for pet_id in pets}
    places = np.flatnonzero(~decisions.sides.named)
    if snapshot.coverage.is_narrow:
        return MissingPets([], [], [])
    if base is None and not options.delete_missing:
        staying: dict[StayRule, match.Positions] = {"left-alone": places}
        return MissingPets([], [], _note_left_alone(len(places) + snapshot.unnamed), staying)
    places, old, new = _split_exported(snapshot, places, base)
    never_exported = values_at(snapshot.rows["id"].array, new)
    never = _note_never_exported(
        sum(each not in in_doubt for each in never_exported) + snapshot.unexported
    )
    adds = _select_merged(
        [each for each in changes if isinstance(each, Add) and (each.pet_id or 0) < 1], sheet
    )
    pairs = _pair_lost_ids(snapshot, places, adds)
    order = snapshot.rows["id"] if base is None else base.order
    pairs += _pair_renamed(
        snapshot, places, adds, sheet, order, pairs, is_deleted=options.delete_missing
    )
    conflicts, may_be = [*_iter_lost_id_conflicts(pairs)], _find_pets_by_row(pairs)
    if not options.delete_missing:
        total = len(places) + snapshot.unnamed
        few = [] if base is None or total > _MOST_NAMED else places.tolist()
        # Nobody expects the other pets in a workbook of failed rows.
        is_whole = base is None or not base.source_rows
        left = [*_note_left_alone(total, pets_at(snapshot.rows, few)), *never]
        notes = left if is_whole else []
        staying = {"left-alone": places, "not-exported": new}
        return MissingPets([], conflicts, notes, staying, may_be)
    if uncertain:
        note = (
            f"No missing pet is deleted: {first_items(uncertain)} may refer to any of them. "
            "Correct these rows, or give them their ids, first."
        )
        staying = {"uncertain": places, "not-exported": new}
        return MissingPets([], conflicts, [note], staying, may_be)
    paired_ids = {pet.id for pet, _ in pairs}
    conflicts += _iter_delete_conflicts(pairs)
    if paired_ids:
        sure = ~has_id_in(snapshot.rows, paired_ids)[places]
        places, old = places[sure], old[sure]
    statuses = snapshot.rows["status"].iloc[places]
    known = [status for status in statuses.dropna().unique() if status in snapshot.coverage]
    beyond = has_id_in(snapshot.rows, compared.outside)[places]
    covered = statuses.isin(known).to_numpy(dtype=bool) | beyond
    staying = {"uncovered": places[~covered], "not-exported": new}
    places, old, beyond = places[covered], old[covered], beyond[covered]
    pets = pets_at(snapshot.rows, places)
    fields: list[tuple[Column, ...]] = [()] * len(pets)
    lost = set[int | None]()
    if base is not None:
        # The user did not see the store's changes in a column that the sheet lacks.
        shown = restore_missing_columns(base).rows
        before = pets_at(shown, match.positions(base.rows["id"].array.take(old), shown))
        find_moved = decisions.judge.find_moved_columns
        unwatched = {column for unit in options.never_units for column in COLUMNS_OF[unit]}
        fields = [
            tuple(c for c in find_moved(new_pet, old_pet) if c not in unwatched)
            for old_pet, new_pet in zip(before, pets, strict=True)
        ]
        lost = {old_pet.id for old_pet in before if old_pet == Pet(id=old_pet.id)}
    unsure = {} if base is None else base.unsure_units
    doubts = [[unit for unit in UNITS if unit in unsure.get(pet.id or 0, ())] for pet in pets]
    moved = [
        _build_removed_conflict(pet, each, units, is_lost=pet.id in lost)
        for pet, each, units in zip(pets, fields, doubts, strict=True)
        if each or units
    ]
    held = [bool(each or units) for each, units in zip(fields, doubts, strict=True)]
    sure = ~beyond & ~np.array(held, dtype=bool)
    deleted = [pets[at] for at in np.flatnonzero(sure).tolist()]
    there = {pet.id: tab for pet in deleted if (tab := _find_worksheet(pet.id, elsewhere))}
    moved += [
        _build_worksheet_conflict(pet, there[pet.id], elsewhere)
        for pet in deleted
        if pet.id in there
    ]
    deleted = [pet for pet in deleted if pet.id not in there]
    deletes = [Delete(row=None, source="", before=pet, why="missing") for pet in deleted]
    notes = [
        *never,
        *_describe_uncovered(len(staying["uncovered"])),
        *_note_renames(deletes, changes),
    ]
    return MissingPets(deletes, [*conflicts, *moved], notes, staying, may_be)


def _split_exported(
    snapshot: Snapshot, places: match.Positions, base: Base | None
) -> tuple[match.Positions, match.Positions, match.Positions]:
    """Return the positions of the exported pets in the snapshot, their positions in the base, and
    the positions of the other pets in the snapshot.
    """
    if base is None:
        return places, places, places[:0]
    old = match.positions(snapshot.rows["id"].array.take(places), base.rows)
    there = old >= 0
    return places[there], old[there], places[~there]


def _build_removed_conflict(
    pet: Pet, fields: Sequence[Column], unsure_units: Sequence[Unit], *, is_lost: bool
) -> Conflict:
    """Return the conflict of a pet whose row is removed. The store changed `fields` since the
    export, or may have changed `unsure_units`. If the row `is_lost`, the base has no agreed values
    of the pet.
    """
    if is_lost:
        what = "its row may have moved, or be missing because the sheet is an older copy"
    elif fields:
        what = f"the store changed its {', '.join(fields)} since the sheet was exported"
    else:
        units = ", ".join(unsure_units)
        what = f"its row was in conflict: the store's {units} may be newer than the row's"
    return Conflict(
        row=None,
        source="",
        pet_id=pet.id,
        name=pet.name or "",
        rule="removed-changed",
        problem=f"is no longer in any row, but {what}",
        suggestion="Export again, and remove its row there if the pet is still to be deleted.",
    )


def _find_worksheet(
    pet_id: int | None, elsewhere: Mapping[str, frozenset[int] | None]
) -> str | None:
    """Return the worksheet that has a row of the pet, else a worksheet that may have such a row,
    else None.
    """
    sure = (tab for tab, ids in elsewhere.items() if ids is not None and pet_id in ids)
    return next(sure, next((tab for tab, ids in elsewhere.items() if ids is None), None))


def _build_worksheet_conflict(
    pet: Pet, tab: str, elsewhere: Mapping[str, frozenset[int] | None]
) -> Conflict:
    has = "has its row"
    if elsewhere[tab] is None:
        has = "may have its row: that worksheet could not be read"
    return Conflict(
        row=None,
        source="",
        pet_id=pet.id,
        name=pet.name or "",
        rule="other-worksheet",
        problem=f"is in no row of the worksheet that is read, but the worksheet {tab!r} {has}. "
        "The pet is not deleted",
        suggestion="To delete it, remove its row there too, or hide that worksheet. If that is "
        'the worksheet to read, name it: --sheet NAME, in Python tab="NAME".',
    )


_MOST_NAMED = 5
"""The most pets whose rows were removed that a note names; it counts more."""


def _note_left_alone(count: int, removed: Sequence[Pet] = ()) -> list[str]:
    """Return a note on the pets of the store that are in no row. `removed` has them if they were
    exported, so that their rows were removed.
    """
    if not count:
        return []
    pets = "1 pet of the store is" if count == 1 else f"{count:,} pets of the store are"
    them = "it" if count == 1 else "them"
    way = f"--delete-missing, in Python delete_missing=True, would delete {them}"
    names = [f"pet {pet.id}{f' ({pet.name})' if pet.name else ''}" for pet in removed]
    named = f", {first_items(names)}" if names else ""
    return [f"{pets} in no row{named}: nothing happens to {them} ({way})."]


def _note_never_exported(count: int) -> list[str]:
    if not count:
        return []
    these = "1 pet of the store was" if count == 1 else f"{count:,} pets of the store were"
    return [f"{these} not in the export, so nothing happens to {'it' if count == 1 else 'them'}."]


def _describe_uncovered(count: int) -> list[str]:
    if not count:
        return []
    one = count == 1
    pets = "1 pet of the store is" if one else f"{count:,} pets of the store are"
    status = "its status" if one else "their statuses"
    why = f"no query that succeeded asks for {status}"
    return [f"{pets} in no row and not deleted: {why}."]


def _pair_lost_ids(
    snapshot: Snapshot, places: match.Positions, adds: Sequence[Add]
) -> list[tuple[Pet, Add]]:
    """Return pairs of a pet in no row and an add that may be meant for it: both have the same name
    or the same photos.
    """
    if not adds:
        return []
    names, photos = defaultdict[str, list[Add]](list), defaultdict[Hashable, list[Add]](list)
    for add in adds:
        names[normalize(add.after.name)].append(add)
        if add.after.photo_urls:
            photos[photo_keys(add.after.photo_urls)].append(add)
    found = []
    for pet in pets_at(snapshot.rows, places):
        near = [*names[normalize(pet.name)], *photos[photo_keys(pet.photo_urls)]]
        found += [(pet, add) for add in {id(each): each for each in near}.values()]
    return found


def _pair_renamed(
    snapshot: Snapshot,
    places: match.Positions,
    adds: Sequence[Add],
    sheet: Sheet,
    order: pd.Series[Any],
    known: Sequence[tuple[Pet, Add]],
    *,
    is_deleted: bool,
) -> list[tuple[Pet, Add]]:
    """Return pairs of a pet in no row and an add that may be meant for it under another name. The
    `known` pairs are omitted.
    """
    if not adds or snapshot.unnamed:  # These are more than `find_lost_rows` compares.
        return []
    by_row = {add.row: add for add in adds if add.row is not None}
    row_pets = {row: add.after for row, add in by_row.items()}
    pets = {pet.id or 0: pet for pet in pets_at(snapshot.rows, places)}
    pairs = {(pet.id, add.row) for pet, add in known}
    return [
        (pets[pet_id], by_row[row])
        for pet_id, row in find_lost_rows(
            sheet, row_pets, pets, order.tolist(), is_deleted=is_deleted
        )
        if (pet_id, row) not in pairs
    ]


def _iter_lost_id_conflicts(pairs: Sequence[tuple[Pet, Add]]) -> Iterator[Conflict]:
    """Yield a conflict for each add whose pet may be one that is in no row."""
    found: dict[int | None, list[Pet]] = defaultdict(list)
    adds = {add.row: add for _, add in pairs}
    for pet, add in pairs:
        found[add.row].append(pet)
    for row, pets in found.items():
        add, them = adds[row], first_items([f"{pet.id} ({pet.name})" for pet in pets])
        those = f"pet {them}, which is" if len(pets) == 1 else f"pets {them}, which are"
        has = "no id" if add.pet_id is None else f"the id {add.pet_id}, which no pet has"
        yield Conflict(
            row=row,
            source=add.source,
            pet_id=pets[0].id,
            name=add.after.name or "",
            rule="lost-id",
            problem=f"has {has}, and resembles {those} in no row",
            suggestion=_WHICH if add.pet_id is None else _WHICH_BELOW,
        )


def _find_pets_by_row(pairs: Sequence[tuple[Pet, Add]]) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for pet, add in pairs:
        if add.row is not None and pet.id is not None:
            found[add.row] = (*found.get(add.row, ()), pet.id)
    return found


def _iter_delete_conflicts(pairs: Sequence[tuple[Pet, Add]]) -> Iterator[Conflict]:
    """Yield a conflict for each pet that is not deleted because a row may be its row."""
    found: dict[int | None, list[Add]] = defaultdict(list)
    pets = {pet.id: pet for pet, _ in pairs}
    for pet, add in pairs:
        found[pet.id].append(add)
    for pet_id, adds in found.items():
        rows = first_items([f"{add.source} ({add.after.name})" for add in adds])
        those = "a row that would add a pet" if len(adds) == 1 else "rows that would add pets"
        yield Conflict(
            row=None,
            source="",
            pet_id=pet_id,
            name=pets[pet_id].name or "",
            rule="lost-id",
            problem=f"is in no row, and resembles {those}: {rows}",
            suggestion=_WHICH,
        )


def _note_renames(deletes: Sequence[Delete], changes: Sequence[Change]) -> Iterator[str]:
    """Yield a note on each deleted pet for which a similar pet is added: its row has probably lost
    its id.
    """
    for pet, add in _pair_alike([delete.before for delete in deletes], changes):
        yield (
            f"Pet {pet.id} ({pet.name}) would be deleted, and {add.source} ({add.after.name}) "
            f"would add a similar pet. If they are the same pet, give the row the id {pet.id}, and "
            "no action."
        )


def _pair_alike(pets: Iterable[Pet], changes: Sequence[Change]) -> Iterator[tuple[Pet, Add]]:
    """Yield pets, each with an add of the same name or the same photos."""
    adds = [change for change in changes if isinstance(change, Add)]
    by_name = {normalize(add.after.name): add for add in adds}
    by_photos = {key(add.after, "photo_urls"): add for add in adds if add.after.photo_urls}
    for pet in pets:
        add = by_name.get(normalize(pet.name)) or by_photos.get(key(pet, "photo_urls"))
        if add is not None:
            yield pet, add


# Columns that were sorted or shifted without their rows, according to the sheet's base.


_MIN_SHIFTED = 3
"""The minimum number of edits that do not count as a deliberate exchange: two rows may exchange a
value on purpose.
"""
_REACH = 3
"""The maximum number of rows by which a column is shifted."""
_PART = 0.8
"""The minimum share of the edits that an exchange or a shift must explain."""
_BITS = 9.0
"""The improbability, in bits, above which agreeing edits do not count as chance."""
_RARE = 3.0
"""The minimum entropy of a column's values, in bits, for an exchange in any order to count as
evidence.
"""

_STRAY = 0.05
"""The maximum share of the rows of a sorted block that may have other edits."""
_MIN_SORTED = 5
"""The minimum number of edits that prove an order."""
_SURE = 12.0
"""The improbability, in bits, required of a block of rows. It is above `_BITS`, because many blocks
are tried.
"""
_RUNS = 2000
"""The maximum number of blocks of rows to try."""
_PASSES = 20
"""The maximum number of passes over the rows."""
_FIRST_ROWS = 100
"""The number of rows that are read first, to see if the column may be sorted."""
_PIECE, _SAMPLE = 1 << 17, 1_000
"""The number of texts to search together, and of those that show whether most values are
repeated.
"""


class _Column(NamedTuple):
    """A unit of the exported rows, in the order of the sheet, as numbers: equal keys have the same
    number, and the numbers of texts are in the order of the texts.
    """

    keys: match.Positions
    """The keys at the export."""
    before: match.Positions
    """The texts at the export."""
    after: match.Positions
    """The texts after the edits."""
    edited: match.Positions
    """The positions of the edited rows."""
    new: match.Positions
    """The keys of the edited rows after the edits."""


class ShiftedColumns(tuple[Column, ...]):
    """The shifted columns, with a note."""

    note: str = ""
    """The note that names the first cell of each column, "" if there are none."""


def find_shifted(
    changes: Iterable[Change],
    sheet: Sheet,
    base: Base | None,
    unedited: Mapping[Unit, Collection[int]] = MappingProxyType({}),
) -> ShiftedColumns:
    """Return the columns in which updates give rows the values that other rows had at the export.

    Sorting only the column (all rows or some) has this effect, and so does inserting or deleting
    cells. `unedited` has, by unit, rows whose updates send an exported value.
    """
    updates = [each for each in changes if isinstance(each, Update) and each.row is not None]
    if base is None or len(updates) < _MIN_SHIFTED or "id" not in sheet.rows:
        return ShiftedColumns()
    at = match.positions(sheet.rows["id"].array, base.rows)
    exported = np.flatnonzero(at >= 0)
    at, new = at[exported], len(at) - len(exported)
    places = _find_places(sheet.rows, [each.row or 0 for each in updates], exported)
    found: list[Column] = []
    addresses: list[str] = []
    for unit in UNITS:
        edits = {
            place: update.after
            for place, update in zip(places, updates, strict=True)
            if place >= 0 and not {*COLUMNS_OF[unit]}.isdisjoint(update.fields)
            if update.row not in unedited.get(unit, ())
        }
        if len(edits) < _MIN_SHIFTED:
            continue
        blanks = np.zeros(len(exported), dtype=bool)
        if unit in sheet.rows:
            blanks = is_blank(sheet.rows[unit].array)[exported]
        enough = _MIN_SHIFTED - int(blanks.sum())
        if enough > 0:
            may_be_sorted = _may_be_sorted(base.rows, at, unit, edits)
            least = len(edits) if may_be_sorted else enough
            known = _count_known([*edits.values()], base.rows, unit, least)
            if known < enough and (len(edits) - known > new or not may_be_sorted):
                continue
        column, blank = _read_unit(base.rows, at, unit, edits)
        # A value with another spelling has not moved.
        others = column.edited[column.after[column.edited] != column.before[column.edited]]
        if (
            _is_moved(column.edited, column.new, column.keys)
            or _is_moved(others, column.after[others], column.before)
            or _is_sorted(column, new)
        ):
            moved = column.edited[np.isin(column.new, column.keys)]
            first = int(moved[0]) if len(moved) else int(column.edited.min())
        else:
            start = _find_rearranged(column.before, np.where(blanks, blank, column.after))
            if start is None:
                continue
            first = start
        row = int(sheet.rows.index[exported[first]])
        found += [column for column in COLUMNS_OF[unit] if column in sheet.rows]
        addresses.append(f"{sheet.address(row, unit)} ({unit})")
    return _build_shifted(found, addresses)


def _find_places(frame: pd.DataFrame, rows: Sequence[int], exported: match.Positions) -> list[int]:
    """Return, for each of these row numbers, the position of the row among the `exported` ones, -1
    if it is none of them.
    """
    at = find_rows(frame, rows)
    at = at[np.isin(at, exported, assume_unique=True)]
    numbers = frame.index[at].tolist()
    places = dict(zip(numbers, np.searchsorted(exported, at).tolist(), strict=True))
    return [places.get(row, -1) for row in rows]


def _count_known(pets: Sequence[Pet], frame: pd.DataFrame, unit: Unit, enough: int) -> int:
    """Return how many of the pets may have the value of a pet in the frame in this unit: only such
    a value may have moved. The number may be too low if it is `enough` or more.
    """
    parts = [_parts(pet, unit) for pet in pets]
    forms = [None if each is None else [*map(folded_forms, each)] for each in parts]
    wanted = {form for each in forms for pair in each or () for form in pair}
    items = _items(frame, unit)
    texts = frame[unit] if items is None else pd.Series(items.texts)
    known, count, size = {""}, 0, 0
    for start in range(0, max(len(texts), 1), _PIECE):
        some = texts.iloc[start : start + _PIECE]
        first = some.iloc[:_SAMPLE]
        if 2 * first.nunique() < len(first):
            some = pd.Series(some.unique())
        there = some[folded_among(some, wanted)].dropna().unique()
        known.update(form for text in there for form in folded_forms(text))
        if len(known) > size:
            size = len(known)
            count = sum(
                each is None or not any(known.isdisjoint(pair) for pair in each) for each in forms
            )
        if count >= enough:
            break
    return count


def _parts(pet: Pet, unit: Unit) -> list[str] | None:
    """Return the texts that a pet needs to have the same value; None if this is not known, because
    a tag has no name, or a text may be several items.
    """
    if unit == "tags":
        names = [tag.name or "" for tag in pet.tags]
        return None if any(";" in name or not name for name in names) else names
    if unit == "photo_urls":
        return None if any("\n" in url for url in pet.photo_urls) else [*pet.photo_urls]
    if unit == "category":
        return [(pet.category.name if pet.category else None) or ""]
    return [getattr(pet, unit) or ""]


def _may_be_sorted(
    frame: pd.DataFrame, at: match.Positions, unit: Unit, edits: Mapping[int, Pet]
) -> bool:
    """Return false if the first rows already show that the edited column is not sorted."""
    pets = enumerate(pets_at(frame, at[:_FIRST_ROWS]))
    texts = [_text(edits.get(place, pet), unit) for place, pet in pets]
    return any(
        all(itertools.starmap(compare, itertools.pairwise(texts)))
        for compare in (operator.le, operator.ge)
    )


def _read_unit(
    frame: pd.DataFrame, at: match.Positions, unit: Unit, edits: Mapping[int, Pet]
) -> tuple[_Column, int]:
    """Return the unit of the pets at these positions, before and after the edits; and the number of
    an empty text. The key and the text of each distinct value are computed only once.
    """
    columns = [_encode(frame, name, at) for name in COLUMNS_OF[unit]]
    values = columns[0]
    for more in columns[1:]:
        values, _ = pd.factorize(values * (int(more.max(initial=0)) + 1) + more)
    places = np.zeros(int(values.max(initial=-1)) + 1, dtype=np.intp)
    places[values] = at
    pets = [*pets_at(frame[[*COLUMNS_OF[unit]]], places), *edits.values()]
    numbers: dict[Hashable, int] = {}
    keys = np.array([numbers.setdefault(unit_key(pet, unit), len(numbers)) for pet in pets])
    texts = [_text(pet, unit) for pet in pets]
    order = {text: number for number, text in enumerate(sorted({*texts, ""}))}
    ranks = np.array([order[text] for text in texts])
    edited = np.array([*edits])
    after = ranks[values]
    after[edited] = ranks[len(places) :]
    column = _Column(keys[values], ranks[values], after, edited, keys[len(places) :])
    return column, order[""]


def _encode(frame: pd.DataFrame, name: Column, at: match.Positions) -> match.Positions:
    """Return a number for each value at these positions, from 0 on; equal values have the same
    number.
    """
    items = _items(frame, name)
    if items is not None:
        return items.take(at).encode()
    column = pd.Series(frame[name].array.take(at))
    numbers: match.Positions = pd.factorize(column, use_na_sentinel=False)[0]
    return numbers


def _items(frame: pd.DataFrame, name: Column) -> Items | None:
    """Return the lists of a column; None for a column of single values."""
    return list_items(frame, name)[0] if name in LISTS else None


def _build_shifted(found: Sequence[Column], places: Sequence[str]) -> ShiftedColumns:
    result = ShiftedColumns(found)
    if places:
        result.note = (
            f"From {', '.join(places)} on, cells have the exported values of other rows: the "
            "column was sorted or shifted without its rows. Undo this in the sheet; if it is "
            "intended, --allow-shifted (in Python allow_shifted=True) allows it."
        )
    return result


def _find_moved_rows(
    sheet: Sheet,
    conflicts: Sequence[Conflict],
    exchanges: Sequence[IdExchange],
    before: pd.DataFrame,
) -> set[int]:
    """Return the rows in conflict because of misplaced ids, and those of the exchanges with the
    values that only one pet had `before`.
    """
    moved = {each.row for each in conflicts if each.row and each.rule == "misplaced-id"}
    if not exchanges:
        return moved
    rows = sheet.rows.loc[[each.row for each in exchanges]]
    sole = find_twins(rows, before, is_sole=True) >= 0
    return moved.union(rows.index[sole].tolist())


def _with_moved_ids(
    shifted: ShiftedColumns, moved: set[int], changes: Sequence[Change]
) -> ShiftedColumns:
    """Return the shifted columns, with `id` if at least half of the rows that differ seem to have
    `moved` away from their ids.
    """
    others = {each.row for each in changes if each.row is not None} - moved
    return shifted if len(moved) < max(_MIN_SHIFTED, len(others)) else _with_ids(shifted)


def _with_ids(shifted: ShiftedColumns) -> ShiftedColumns:
    result = ShiftedColumns(("id", *shifted))
    result.note = shifted.note
    return result


def _is_moved(edited: match.Positions, new: match.Positions, was: match.Positions) -> bool:
    """Return true if the edits are values of other rows, and too many to be a coincidence."""
    if len(edited) < _MIN_SHIFTED:
        return False
    bits = _bits(was)
    if len(edited) * bits < _BITS:
        return False
    return (bits >= _RARE and _is_exchanged(was[edited], new)) or _is_shift(edited, new, was)


def _bits(values: match.Positions) -> float:
    """Return the collision entropy of a column's values, in bits: 3 for 8 equally frequent
    values.
    """
    return -math.log2(((np.bincount(values) / len(values)) ** 2).sum())


def _is_exchanged(before: match.Positions, after: match.Positions) -> bool:
    """Return true if the edited rows have exchanged their values."""
    return int(np.minimum(*_count_both(before, after)).sum()) >= _PART * len(after)


def _count_both(
    one: match.Positions, other: match.Positions
) -> tuple[match.Positions, match.Positions]:
    """Return how often each value occurs in both columns."""
    size = int(max(one.max(initial=0), other.max(initial=0))) + 1
    return np.bincount(one, minlength=size), np.bincount(other, minlength=size)


def _is_shift(edited: match.Positions, new: match.Positions, was: match.Positions) -> bool:
    """Return true if the edited rows have the values of rows at a constant distance, or at the same
    distance from the other end.

    The unedited rows next to them must fit, too.
    """
    size = len(was)
    shifts = [(1, step) for step in range(-_REACH, _REACH + 1) if step]
    turns = [(-1, size - 1 + step) for step in range(-_REACH, _REACH + 1)]
    for sign, start in (*shifts, *turns):
        matching = _are_equal(was, start + sign * edited, new)
        if matching.sum() < _PART * len(edited):
            continue
        if _improbability(matching, edited, new, was) < _BITS:
            continue
        some = edited[matching]
        beside = np.unique(np.concatenate([some - 1, some + 1]))
        quiet = np.setdiff1d(beside[(beside >= 0) & (beside < size)], edited)
        along = _are_equal(was, start + sign * quiet, was[quiet])
        # The rows next to both ends of the shifted range do not fit.
        if along.sum() + 2 >= _PART * len(quiet):
            return True
    return False


def _are_equal(
    was: match.Positions, places: match.Positions, values: match.Positions
) -> match.Mask:
    """Return a mask of the values that the column has at these places, which may not exist."""
    mask: match.Mask = (places >= 0) & (places < len(was))
    mask[mask] = was[places[mask]] == values[mask]
    return mask


def _improbability(
    matching: match.Mask, edited: match.Positions, new: match.Positions, was: match.Positions
) -> float:
    """Return how improbable it is that these edits match by chance, in bits: the negative binary
    logarithm of the probability. The frequency of each value is taken from the column and the other
    edits.
    """
    share = np.add(*_count_both(was, new))
    total = share.sum() - 1
    others = total - share[was[edited[matching]]]
    bits = np.log2(others / np.minimum(share[new[matching]] - 1, others)).sum()
    return float(bits) - _log2_choices(len(edited), len(edited) - int(matching.sum()))


def _is_sorted(column: _Column, others: int) -> bool:
    """Return true if the whole column is sorted now, was not sorted in this direction before, and
    has the same values, with too many edits for a coincidence.

    Up to `others` values may come from rows that were not exported.
    """
    had, has = _count_both(column.keys[column.edited], column.new)
    if np.maximum(has - had, 0).sum() > others:
        return False
    before, after = np.diff(column.before), np.diff(column.after)
    is_sorted_now = any(
        compare(after, 0).all() and not compare(before, 0).all()
        for compare in (np.less_equal, np.greater_equal)
    )
    return is_sorted_now and len(column.edited) * _bits(column.keys) >= _BITS


def _find_rearranged(was: match.Positions, now: match.Positions) -> int | None:
    """Return the position of the first row of a block of rows with the same values in another
    order; None if there is no such block. The new order is sorted or reversed, or neighbours are
    swapped. Other edits may be outside the block, and a few inside it. The first block spans all
    edits. A block that fails the test is split at its widest gap. The largest blocks are tried
    first.
    """
    codes, _ = pd.factorize(np.concatenate([was, now]))
    before, after = codes[: len(was)], codes[len(was) :]
    edited = np.flatnonzero(before != after)
    bounds = np.flatnonzero(np.diff(after, prepend=-1, append=-1))
    # Cheap tests that exclude most blocks: new values, and the value whose count changes most.
    new = np.cumsum(np.append(0, after > before.max(initial=-1)))
    size = int(codes.max(initial=0)) + 1
    most = np.abs(np.bincount(before, minlength=size) - np.bincount(after, minlength=size)).argmax()
    drift = np.cumsum(np.append(0, (before == most).astype(np.intp) - (after == most)))
    room = _PASSES * len(was)
    runs = [(-len(edited), 0)]
    for tried in range(1, _RUNS):
        if not runs or room < 0:
            break
        size, start = heapq.heappop(runs)
        at = edited[start : start - size]
        if len(at) < _MIN_SORTED:
            break
        room -= len(at)
        # The first and the last edit may be unrelated.
        for first, last in ((0, -1), (1, -1), (0, -2), (1, -2)):
            run = slice(int(at[first]), int(at[last]) + 1)
            strays = _STRAY * (run.stop - run.start)
            if (
                len(at) > strays
                and new[run.stop] - new[run.start] <= strays
                and abs(drift[run.stop] - drift[run.start]) <= strays
                and not _is_longer(bounds, edited, run)
            ):
                room -= run.stop - run.start
                if room >= 0 and _order_improbability(before[run], after[run]) >= _SURE + math.log2(
                    tried
                ):
                    return run.start
        half = int(np.argmax(np.diff(at))) + 1
        heapq.heappush(runs, (-half, start))
        heapq.heappush(runs, (half - len(at), start + half))
    return None


def _is_longer(bounds: match.Positions, edited: match.Positions, run: slice) -> bool:
    """Return true if the edits at either end of a block of rows (`run`) continue beyond it, for
    example because cells were filled down. `bounds` are the rows in which the column's value
    changes.
    """
    first = bounds[np.searchsorted(bounds, run.start, "right") - 1]
    end = bounds[np.searchsorted(bounds, run.stop - 1, "right")]
    outer, inner = ((first, end), (run.start, run.stop))
    return bool(np.ptp(np.searchsorted(edited, outer)) > np.ptp(np.searchsorted(edited, inner)))


def _order_improbability(before: match.Positions, after: match.Positions) -> float:
    """Return the improbability, in bits, that chance puts these values into an order that programs
    produce: the negative binary logarithm of the probability. The share of edited rows and the
    frequency of new values are taken from these rows.
    """
    count = len(before)
    values, both = np.unique(np.concatenate((before, after)), return_inverse=True)
    before, after = both[:count], both[count:]
    had, has = (np.bincount(each, minlength=len(values)) for each in (before, after))
    if np.abs(had - has).sum() > 2 * _STRAY * count:
        return 0.0
    edited = before != after
    place = np.bincount(after, np.arange(count), len(values)) / np.maximum(has, 1)
    order = np.argsort(place, kind="stable")
    pairs, even = before.copy(), count // 2 * 2
    pairs[0:even:2], pairs[1:even:2] = before[1:even:2], before[0:even:2]
    targets = (
        (np.repeat(order, had[order]), math.lgamma(len(values) + 1) / math.log(2)),
        (before[::-1], 0.0),
        (pairs, 0.0),
    )
    rate = (edited.sum() + 1) / (count + 2)
    counts = np.bincount(after[edited], minlength=len(values)) / edited.sum()
    best = 0.0
    for target, choices in targets:
        is_matching = target == after
        misses = count - int(is_matching.sum())
        moved = edited & is_matching
        if misses > _STRAY * count or moved.sum() < _PART * edited.sum():
            continue
        chance = rate * counts[after[moved]] / (1 - counts[before[moved]])
        bits = -math.log2(1 - rate) * (is_matching & ~edited).sum() - np.log2(chance).sum()
        best = max(best, float(bits) - choices - _log2_choices(count, misses))
    return best


def _log2_choices(count: int, some: int) -> float:
    """Return the binary logarithm of the number of ways to choose `some` items from `count`
    items.
    """
    ways = math.lgamma(count + 1) - math.lgamma(some + 1) - math.lgamma(count - some + 1)
    return ways / math.log(2)


def _text(pet: Pet, unit: Unit) -> str:
    """Return the text of the unit's cell, as programs sort it."""
    if unit == "category":
        text = pet.category.name if pet.category else ""
    elif unit == "tags":
        text = "; ".join(tag.name or "" for tag in pet.tags)
    elif unit == "photo_urls":
        text = "\n".join(pet.photo_urls)
    else:
        text = normalize(getattr(pet, unit))
    return (text or "").casefold()


# The base for the comparison of a sheet, if the sheet has a usable one.


_RENAMED = "header-renamed"


def base_of(sheet: Sheet, store: str, *, two_way: bool) -> Base | None:
    """Return the base for the comparison of the sheet, None if it has none or `two_way` is set.

    Raises PlanError if the base in the sheet cannot be trusted or comes from another store, unless
    `two_way` is set.
    """
    if two_way:
        return None
    if sheet.base_refused:
        raise _refuse_base(sheet)
    if sheet.base is not None and sheet.base.store != store:
        raise PlanError(
            f"{sheet.source} was exported from {sheet.base.store}, and this store is {store}",
            hint=(
                "Name the other store, or compare only with this store (--two-way, in Python "
                "two_way=True): every filled cell then overrides the store."
            ),
        )
    return sheet.base


def options_for(sheet: Sheet, options: PlanOptions) -> PlanOptions:
    """Return the options for a plan of the sheet. A workbook of failed rows has the owners and the
    `match_on` of its run, which `options` can replace.

    Raises PlanError for such a workbook if missing pets are to be deleted: it has only a few rows
    of its sheet.
    """
    base = sheet.base
    if base is None or not base.source_rows:
        return options
    if options.delete_missing:
        raise PlanError(
            f"{sheet.source} has only the rows of a run that failed, so --delete-missing (in "
            "Python delete_missing=True) cannot apply to it",
            hint="Leave it out. To delete the pets that are missing in the original sheet, plan "
            "that sheet.",
        )
    own: dict[str, Any] = {"owners": {**base.owners, **options.owners}}
    if options.scope != "rows" and not options.match_on:
        own["match_on"] = base.match_on
    return msgspec.structs.replace(options, **own)


def find_refusal(sheet: Sheet, *, matches_rows: bool = False) -> PlanError | None:
    """Return the error for an export for which no plan is made, whatever its rows are; None if a
    plan is made.

    It is a PlanError if the base cannot be trusted. It is a GuardError if the sheet has lost the
    header of a column, or all its ids although a row has the name of an exported pet: edits in the
    column would be ignored, and rows without their ids would be new pets. If the plan
    `matches_rows` by other columns, it needs no ids.
    """
    if sheet.base_refused:
        return _refuse_base(sheet)
    renamed = [each for each in sheet.problems if each.rule == _RENAMED]
    if matches_rows:
        renamed = [each for each in renamed if each.meant not in (None, "id")]
    if renamed:
        is_id = any(each.meant in (None, "id") for each in renamed)
        why = "rows without their ids would become new pets" if is_id else "edits would be missed"
        return GuardError(
            f"{sheet.source}: " + " ".join(f"{each.address}: {each.problem}" for each in renamed),
            hint=f"Nothing is planned: {why}. "
            + " ".join(dict.fromkeys(each.suggestion for each in renamed)),
        )
    base, frame = sheet.base, sheet.rows
    has_source_rows = base is not None and bool(base.source_rows)
    if has_source_rows and ORIGINAL_ROW not in sheet.others and slots_of(sheet):
        return GuardError(
            f"{sheet.source} has lost the column {ORIGINAL_ROW!r}, which names the row from which "
            "each failed row was copied",
            hint="Nothing is planned: a later plan of the original sheet could add pets twice. Put "
            "the column back, or write the workbook again (`petsync runs RUN --failed FILE.xlsx`).",
        )
    if base is None or matches_rows or not len(base) or sheet.has_ids or "name" not in frame:
        return None
    rows = select(frame, has_action(frame, "merge"))
    names = {normalize(name) for name in unique_texts(base.rows, "name")} - {""}
    like = [row for row, name in rows["name"].dropna().items() if normalize(name) in names]
    if not like:
        return None
    return GuardError(
        f"{sheet.source} has no ids, but had the ids of {count(len(base), 'pet')} when it was "
        f"exported; {sheet.address(int(str(like[0])), 'name')} has the name of one of these pets",
        hint="Nothing is planned: rows without their ids would become new pets. Put the ids "
        "back into their rows, or export again. If a row with the name of an exported pet is "
        "to be a new pet, write `add-another` in its action cell.",
    )


def _refuse_base(sheet: Sheet) -> PlanError:
    return PlanError(
        f"{sheet.source}: {sheet.base_refused}",
        hint="Export again and move your edits there; or compare only with the store (--two-way, "
        "in Python two_way=True): every filled cell then overrides the store.",
    )


# The comparison of a snapshot with a sheet. A pure function: the same input gives the same plan.


_ORDER = {"add": 0, "update": 2, "delete": 3}
_CORRECTED = 200
_DEFAULT_OPTIONS = PlanOptions()

find_unproved_ids = match.find_unproved_ids


@dataclass(frozen=True)
class Decided:
    """A plan, with the decisions on the rows and on the pets in no row that led to it."""

    plan: Plan
    rows: Decisions
    missing: MissingPets
    gaps: tuple[str, ...] = ()
    """Sentences on what may be different in a plan of the whole store, because the snapshot is
    narrow.
    """

    def find_stay_rule(self, pet_id: int) -> StayRule:
        """Return the rule of a pet that no row names and that stays."""
        # The other pets are outside of the queries or of the caller's scope.
        return self._stay_rules.get(pet_id, "uncovered")

    @cached_property
    def _stay_rules(self) -> Mapping[int, StayRule]:
        ids = self.rows.sides.pets["id"].array
        staying = reversed([*self.missing.staying.items()])  # the first rule of a pet counts
        return {pet_id: rule for rule, places in staying for pet_id in ids.take(places).tolist()}


def compare(
    compared: SheetComparison,
    *,
    created: str,
    options: PlanOptions = _DEFAULT_OPTIONS,
    guard: Guard = NO_GUARD,
    profile: ServiceProfile = STANDARD,
) -> Decided:
    """Return the plan that changes the store to agree with the sheet, and its decisions.

    `created` is the time, ISO 8601. `compared.found` must have the result of getPetById for every
    id of `find_unproved_ids(sheet.rows, snapshot.rows)`. Without exported values, a cell that
    lists other photos does not remove photos that uploads added.

    The sheet's base shows which values were edited since the export. Raises PlanError if the base
    cannot be used, unless `options.two_way` is set.
    """
    with pause_collection():
        base = base_of(compared.sheet, compared.snapshot.source, two_way=options.two_way)
        decisions = Decisions(compared, options, profile, base)
        plan, missing = _build_plan(compared, decisions, created, options, guard, profile, base)
        vacant = _find_vacant_ids(plan, compared, decisions)
        gaps, uncovered = tuple[str, ...](), tuple[str, ...]()
        if compared.snapshot.coverage.is_narrow:
            gaps = (*_iter_gaps(plan, compared.sheet, decisions),)
            uncovered = (_describe_unread(compared.snapshot), *gaps)
        plan = msgspec.structs.replace(plan, vacant=vacant, uncovered=uncovered)
        return Decided(plan, decisions, missing, gaps)


def _build_plan(
    compared: SheetComparison,
    decisions: Decisions,
    created: str,
    options: PlanOptions,
    guard: Guard,
    profile: ServiceProfile,
    base: Base | None,
) -> tuple[Plan, MissingPets]:
    snapshot, sheet = compared.snapshot, compared.sheet
    decisions.decide()
    renamed_rows = frozenset(decisions.remarks.unsent_values.get("name", ()))
    misplaced = _find_misplaced(
        decisions.changes,
        sheet,
        snapshot.rows,
        base,
        is_all=options.delete_missing,
        renamed_rows=renamed_rows,
    )
    displaced = _collect_ids(sheet, misplaced)
    decisions.hold(misplaced)
    unnamed = select(snapshot.rows, ~decisions.sides.named)
    if not options.match_on and not has_ids(sheet):
        remarks = decisions.remarks
        identical = {row: remarks.recognised[row] for row in remarks.identical}
        named_ids = {each.pet_id for each in decisions.conflicts}
        alike = _find_lookalikes(decisions.changes, sheet, unnamed, identical, named_ids)
        decisions.hold(alike)
        named_ids |= {each.pet_id for each in alike}
        renamed = _find_renamed(decisions.changes, sheet, unnamed, identical, named_ids)
        decisions.hold(renamed)
        alike += renamed
        decisions.hold(_find_copied(decisions.changes, sheet, unnamed, alike, named_ids))
    elif (
        not options.match_on
        and base is not None
        and (not base.statuses or {*snapshot.coverage.statuses} <= {*base.statuses})
    ):
        decisions.hold(_find_added_since(decisions.changes, sheet, unnamed, base))
    is_unnamed = ~decisions.sides.named
    decisions.hold(_find_renumbered(decisions.changes, sheet, snapshot.rows, is_unnamed, displaced))
    decisions.hold_twins()
    decisions.changes = _note_namesakes(decisions.changes, unnamed, sheet)
    below = [
        each for each in decisions.changes if isinstance(each, Add) and _is_below_one(each.pet_id)
    ]
    missing_pets = _find_missing(compared, decisions, below, options, base)
    lost_rows = {each.row for each in missing_pets.conflicts}
    decisions.hold(_build_below_one_conflict(each) for each in below if each.row not in lost_rows)
    decisions.hold(missing_pets.conflicts, missing_pets.may_be)
    decided, conflicts = decisions.changes, tuple(decisions.conflicts)
    changes: list[Change] = sorted([*decided, *missing_pets.deletes], key=_order)
    moved = find_shifted(decided, sheet, base, decisions.unedited)
    before = snapshot.rows if base is None else base.sheet_rows
    edited = _find_edited_columns(decided, conflicts)
    edited |= {row: edited[row] | {"name"} for row in edited.keys() & renamed_rows}
    renamed_now = [row for row, columns in edited.items() if "name" in columns]
    exchanges = find_exchanged(sheet, before, renamed_now)
    moved_ids = _find_moved_rows(sheet, conflicts, exchanges, before)
    rest = moved
    if {*moved} - {"name"} and exchanges:
        # Exchanged ids look like several columns that were moved in the same way.
        others = [each for each in decided if each.row not in moved_ids]
        rest = find_shifted(others, sheet, base, decisions.unedited)
    if len(rest) < len(moved):
        moved = _with_ids(rest)
    else:
        if moved:
            exchanges = ()
            moved_ids = _find_moved_rows(sheet, conflicts, (), before)
        moved = _with_moved_ids(moved, moved_ids, decided)
    watched = pets_of(guard.sentinels, snapshot.rows)
    plan = Plan(
        created=created,
        store=snapshot.source,
        profile=profile.name,
        source=sheet.source,
        tab=sheet.tab,
        places={name: at for name, at in sheet.columns.items() if name in COLUMNS},
        files=sheet.files or msgspec.UNSET,
        labels=_select_labels(sheet, (*changes, *conflicts)) or msgspec.UNSET,
        source_digest=sheet.digest,
        columns=dict(sheet.mapping),
        encoding=sheet.encoding,
        base="" if base is None else base.taken_at,
        options=options,
        guard=guard,
        changes=tuple(changes),
        conflicts=conflicts,
        blocked=_collect_blocked_rows(sheet, decisions.sides),
        unchanged=decisions.unchanged + sheet.agreeing,
        recognised=decisions.remarks.recognised,
        categories=categories_of(sheet, changes, conflicts),
        slots=_build_slots(sheet, decided, decisions, compared.matches),
        older=tuple(sorted(decisions.remarks.older)),
        deleted_in_store=tuple(sorted(decisions.remarks.deleted_in_store)),
        undone=decisions.remarks.undone
        | {row: each.run for row, each in decisions.remarks.restored.items()},
        ignored=decisions.sides.ignored,
        rows=len(sheet.rows) + len(sheet.blocked) + sheet.agreeing,
        pets=len(snapshot),
        capacity=profile.capacity,
        raw_notes=(
            *_note_missing_base(sheet, options, changes),
            *_note_unknown_fields(sheet),
            *_note_lost_columns(sheet, base, edited.values()),
            *_iter_warning_notes(sheet),
            *_iter_list_notes(sheet),
            *_iter_unread(sheet, snapshot.rows),
            *decisions.notes(),
            *missing_pets.notes,
            *describe_namesakes(decided),
            *_describe_missing_rows(decided, compared),
            *([moved.note] if moved.note else ()),
            *describe_exchanged(exchanges, sheet),
            *describe_strange_letters(decided, snapshot.rows, snapshot.usage),
            *describe_lost_accents(decided),
            *notes_of(conflicts),
            *_iter_added_notes(conflicts),
            *iter_drift_notes(
                sheet.store_rules,
                snapshot.rows,
                changes,
                is_partial=snapshot.left_out > 0 or snapshot.coverage.is_narrow,
            ),
            *_iter_correction_notes(sheet),
        ),
        coverage=snapshot.coverage,
        sentinels=watched,
        verdict=Verdict(tuple(refuse_changed_sentinels(watched, base))),
        corrections=sheet.corrections,
        shifted=tuple(moved),
        moved_ids=(
            tuple(sorted(moved_ids.union(each.row for each in exchanges)))
            if "id" in moved
            else msgspec.UNSET
        ),
        warnings=(*_iter_header_warnings(sheet),) or msgspec.UNSET,
        source_rows=_select_source_rows(sheet, decided, decisions.remarks.recognised),
        namesakes=(*_find_namesakes(decided, compared),) or msgspec.UNSET,
    )
    return plan.with_verdict(), missing_pets


def _select_labels(sheet: Sheet, parts: Iterable[Change | Conflict]) -> dict[int, str]:
    if not sheet.labels:
        return {}
    rows = {each.row for each in parts if each.row is not None}
    return {row: sheet.labels[row] for row in sorted(rows)}


def _describe_unread(snapshot: Snapshot) -> str:
    least = count(len(snapshot), "pet")
    return (
        f"The pets that no row names were not read, and are not counted: the store has {least} or "
        "more."
    )


def _iter_gaps(plan: Plan, sheet: Sheet, decisions: Decisions) -> Iterator[str]:
    """Yield a sentence on each part of the plan that depends on pets that were not read, because
    the snapshot is narrow.
    """
    if decisions.unanswered:
        places = [sheet.address(row, "id") for row in decisions.unanswered]
        yield (
            f"{first_items(places)}: held back, because these rows depend on pets that no row "
            "names."
        )
    if decisions.unread_categories:
        places = [sheet.address(row, "category_id") for row in decisions.unread_categories]
        yield f"{first_items(places)}: not compared with the categories of the pets in no row."
    adds = [each.source for each in _select_merged(plan.adds, sheet)]
    if plan.base and (below := [c for c in plan.conflicts if c.rule == "id-below-one"]):
        open_rows = find_open_rows(sheet)
        adds += [each.source for each in below if each.row in open_rows]
    if adds:
        yield (
            f"{first_items(adds)}: not compared with the pets in no row, which may be the same "
            "pets under other ids."
        )
    if misplaced := [each.source for each in plan.conflicts if each.rule == "misplaced-id"]:
        yield f"{first_items(misplaced)}: compared only with the export, to find misplaced ids."
    _, foreign = _find_foreign_texts(plan.changes)
    if foreign:
        texts = [f"{source}: {text!r}" for (_, text, _), source in foreign.items()]
        yield (
            f"{first_items(texts)}: not compared with the texts of the other pets, which may look "
            "the same in other letters."
        )
    if tabs := find_unread_tabs(sheet):
        yield f"Worksheets without known headers, not searched for pets: {first_items(tabs)}."
    if failed := [each.query for each in plan.coverage.failed]:
        yield f"Pets that could not be looked up: {first_items(failed)}."


def find_unread_tabs(sheet: Sheet) -> list[str]:
    """Return the other worksheets without a known header that may have rows of pets."""
    return [tab for tab, head in sheet.heads.items() if any(len(row) > 1 for row in head)]


def _is_below_one(pet_id: int | None) -> bool:
    return pet_id is not None and pet_id < 1


def _build_below_one_conflict(add: Add) -> Conflict:
    """Return the conflict of an add whose pet a service may store under another id. The next plan
    would then add the pet again.
    """
    return Conflict(
        row=add.row,
        source=add.source,
        pet_id=add.pet_id,
        name=add.after.name or "",
        rule="id-below-one",
        problem=f"has the id {add.pet_id}, which no pet has, and a service may replace an id below "
        "1 with another one",
        suggestion="Leave the id blank if it is a new pet, or give the id of its pet.",
    )


def _build_slots(
    sheet: Sheet, changes: Iterable[Change], decisions: Decisions, matches: Mapping[int, Match]
) -> dict[int, Slot]:
    """Return the slots of the rows without an id that match a pet, add a pet, or are in conflict
    because they may be the row of a pet. A row that adds a pet is omitted if it has no neighbour
    with an id and no action. A slot includes the values if the row matches a pet or may be the row
    of a pet, unless an earlier run recorded them, and if the row adds a pet without some of them.
    """
    remarks = decisions.remarks
    here = (sheet.source, sheet.tab)
    identities = {
        row
        for row, record in remarks.known.items()
        if not matches[row].is_edited and (record.source, record.tab) == here
    }
    places = slots_of(sheet)
    conflict_rows = decisions.may_be.keys() & places.keys() - remarks.recognised.keys()
    withheld = {*decisions.withheld}
    row_pets = read_row_pets(
        sheet,
        (remarks.recognised.keys() - identities) | conflict_rows | (withheld & places.keys()),
        decisions.vocabulary,
    )
    added = {change.row for change in changes if isinstance(change, Add)}
    actions = actions_of(sheet, places)
    slots = {}
    for row, place in places.items():
        is_known = place != (None, None) or bool(actions[row]) or row in withheld
        if row in remarks.recognised or row in conflict_rows or (row in added and is_known):
            record = remarks.known.get(row)
            slots[row] = Slot(
                above=place[0],
                below=place[1],
                row_pet=row_pets.get(row),
                run="" if record is None else record.run_id,
                on="" if record is None else record.on,
                action=actions[row],
                may_be=decisions.may_be[row] if row in conflict_rows else (),
                fixed_in=(record.fixed_in if record is not None else "") or msgspec.UNSET,
            )
    return slots


def _select_source_rows(
    sheet: Sheet, changes: Iterable[Change], recognised: Collection[int]
) -> Mapping[int, SourceRow] | msgspec.UnsetType:
    """Return where the rows with a change or a recognised pet are from, if the sheet is a workbook
    of failed rows.
    """
    changed = {change.row for change in changes}
    found = {
        row: origin
        for row, origin in find_source_rows(sheet).items()
        if row in changed or row in recognised
    }
    return found or msgspec.UNSET


def _find_vacant_ids(
    plan: Plan, compared: SheetComparison, decisions: Decisions
) -> tuple[VacantId, ...]:
    """Return the rows whose id no pet has, if the plan adds pets to which the service assigns ids.
    Rows with a change are omitted, because the change has the id.
    """
    if not any(add.pet_id is None for add in plan.adds):
        return ()
    sheet = compared.sheet
    changed = {change.row for change in plan.changes}
    ids = sheet.rows["id"].dropna() if "id" in sheet.rows else pd.Series(dtype="Int64")
    ids_by_row = {**dict(zip(ids.index.tolist(), ids.tolist(), strict=True)), **sheet.blocked_pets}
    places = match.positions_of(ids_by_row.values(), decisions.sides.pets)
    lacking = {
        row: pet_id
        for (row, pet_id), place in zip(ids_by_row.items(), places.tolist(), strict=True)
        if place < 0 and row not in changed and not isinstance(compared.found.get(pet_id), Pet)
    }
    named = [row for row in lacking if row not in sheet.blocked_pets]
    row_pets = read_row_pets(sheet, named, decisions.vocabulary)
    actions = actions_of(sheet, named)
    return tuple(
        VacantId(
            pet_id=pet_id,
            row=row,
            source=sheet.address(row, "id"),
            row_pet=row_pets.get(row),
            action=actions.get(row, ""),
        )
        for row, pet_id in sorted(lacking.items())
    )


def _find_edited_columns(
    changes: Iterable[Change], conflicts: Iterable[Conflict]
) -> dict[int, frozenset[Column]]:
    """Return, by row, the columns in which the row differs from its pet. Clashes count, whichever
    side wins.
    """
    edited: dict[int, frozenset[Column]] = {}
    for each in changes:
        if isinstance(each, Update) and each.row is not None:
            edited[each.row] = frozenset(each.fields)
    for conflict in conflicts:
        units = {clash.column for clash in conflict.clashes}
        if conflict.row is not None and units:
            columns = {c for unit in UNITS if unit in units for c in COLUMNS_OF[unit]}
            edited[conflict.row] = edited.get(conflict.row, frozenset()) | columns
    return edited


def _note_missing_base(
    sheet: Sheet, options: PlanOptions, changes: Iterable[Change]
) -> Iterator[str]:
    """Yield a note if a plan changes or deletes pets by a DataFrame that has no base, unless the
    user asked for a two-way plan: old values in it would undo the changes of others.
    """
    is_frame = sheet.source == FRAME_NAME and sheet.base is None
    if is_frame and not options.two_way and any(each.kind != "add" for each in changes):
        yield (
            "The DataFrame does not carry the values with which it was read, so each value that "
            "differs from the store's counts as an edit, even an old one: check that no change "
            "reverts the changes of others. A DataFrame of store.pets() carries them, but pandas "
            "drops them in concat and merge: copy them (`new.attrs = pets.attrs`), or plan with "
            "two_way=True if every value is intended."
        )


def _note_unknown_fields(sheet: Sheet) -> Iterator[str]:
    if sheet.has_unknown_fields:
        yield (
            "The DataFrame has fields that petsync does not know, in the column extra or in its "
            "tags: a plan does not compare or change them."
        )


def _note_lost_columns(
    sheet: Sheet, base: Base | None, edited: Iterable[frozenset[Column]]
) -> Iterator[str]:
    """Yield a note on the columns that an export has lost, probably because a header was
    renamed. A part of a DataFrame's columns is often selected on purpose, and a workbook of failed
    rows has only the columns of its sheet.
    """
    if base is not None and base.source_rows and ORIGINAL_ROW in sheet.others:
        return
    absent = [column for column in COLUMNS if base is not None and column not in sheet.rows]
    own = ", ".join(repr(str(name)) for name in sheet.others.columns)
    is_frame = sheet.source == FRAME_NAME
    if absent and (own or not is_frame):
        unused = f" Columns that are not used: {own}." if own else ""
        way = "(--column HEADER=COLUMN, in Python mapping={HEADER: COLUMN})"
        hint = f" If a header was renamed, map it {way}." if own else ""
        which = "column" if len(absent) == 1 else "columns"
        sent = frozenset[Column]().union(*edited)
        unsent = [column for column in absent if column != "id" and column not in sent]
        stay = f"; the plan keeps the store's {', '.join(unsent)}" if unsent else ""
        if "category_id" in absent and "category_id" in sent:
            stay += "; an edited category also changes category_id"
        if "category" in absent and "category" in sent:
            stay += "; an edited category_id also changes category"
        what = "DataFrame" if is_frame else "sheet"
        of = "with which it was read" if is_frame else "of its export"
        yield f"The {what} lacks the {which} {', '.join(absent)} {of}{stay}.{unused}{hint}"


def _iter_added_notes(conflicts: Sequence[Conflict]) -> Iterator[str]:
    """Yield a note with the advice if several rows are in conflict with rows that were added
    before. Rows that need other advice do not count.
    """
    places = [
        each.source
        for each in conflicts
        if each.rule in ("added-before", "added-claimed") and "`add-another`" in each.suggestion
    ]
    if len(places) > 1:
        yield (
            f"{len(places):,} rows may be rows that were added before: {first_items(places)}. If "
            "all of them are new pets, write `add-another` in their action cells."
        )


def _iter_warning_notes(sheet: Sheet) -> Iterator[str]:
    """Yield notes on the sheet's warnings; warnings about headers are given in full, because the
    whole column is ignored.
    """
    warnings = [finding for finding in sheet.problems if finding.severity == "warning"]
    yield from _iter_header_warnings(sheet)
    damaged = [f"{w.address} {w.value!r}" for w in warnings if w.rule == "damaged-characters"]
    if damaged:
        yield (
            f"{first_items(damaged)}: some program seems to have read this text in a wrong "
            "encoding. The plan sends the text as shown here: correct it first."
        )
    rest = [
        warning.address
        for warning in warnings
        if not warning.rule.startswith("header") and warning.rule != "damaged-characters"
    ]
    if rest:
        cells = "1 cell was" if len(rest) == 1 else f"{len(rest):,} cells were"
        yield (
            f"{cells} read with a warning: {first_items(rest)}. `petsync check` (in Python "
            "sheet.findings) lists them."
        )
    if sheet.unlisted:
        rows = count(sheet.unlisted, "further row")
        yield f"Not listed: the warnings of {rows} in agreement with the store."


def _iter_list_notes(sheet: Sheet) -> Iterator[str]:
    """Yield a note if cells of a file have the text of a Python list."""
    if sheet.source != FRAME_NAME and any(each.rule == "list-text" for each in sheet.problems):
        yield (
            "Cells have the text of a Python list. If pandas wrote the file (to_csv, to_excel), "
            "write it again with ps.write_sheet(frame, FILE)."
        )


def _iter_header_warnings(sheet: Sheet) -> Iterator[str]:
    for finding in sheet.problems:
        if finding.severity == "warning" and finding.rule.startswith("header"):
            yield f"{finding.address}: {_describe_finding(finding)}"


_WHOLE = re.compile(r"[0-9]{1,19}(?:\.0+)?")


def _iter_unread(sheet: Sheet, pets: pd.DataFrame) -> Iterator[str]:
    """Yield a note on each other worksheet without a known header in which most rows are similar to
    rows of pets: they have an id and a text that is not a category or tag, or a name and a status.
    """
    if not find_unread_tabs(sheet):
        return
    ids, names = {*ids_of(pets)}, {normalize(name) for name in unique_texts(pets, "name")} - {""}
    statuses = {fold_status(each) for each in unique_texts(pets, "status")}
    kinds = {fold_status(each) for each in unique_texts(pets, "category")} | statuses
    kinds |= {fold_status(tag.name) for tag in count_items(pets["tags"].array)}

    def is_pet(texts: Sequence[str]) -> bool:
        first, *rest = texts
        words = {fold_status(text) for text in rest if not _WHOLE.fullmatch(text)}
        has_id = bool(_WHOLE.fullmatch(first)) and int(first.partition(".")[0]) in ids
        if has_id and words - kinds:
            return True
        return any(text in names for text in texts) and bool(words & statuses)

    for tab, head in sheet.heads.items():
        filled = [[normalize(cell) for cell in row if normalize(cell)] for row in head]
        rows = [row for row in filled if row]
        found = sum(map(is_pet, rows))
        # The first row may have unknown headers.
        if found and 2 * found >= len(rows) - 1:
            yield (
                f"Another visible worksheet, {tab!r}, is not read: it has no header that petsync "
                "recognises, but has rows that look like pets. To use them, give it headers and "
                f"read it by its name (--sheet {quote(tab)}, in Python tab={tab!r})."
            )


def _iter_correction_notes(sheet: Sheet) -> Iterator[str]:
    """Yield a note on each corrected cell, up to a maximum number, and a note on the number of the
    remaining cells.
    """
    rest = len(sheet.corrections) - _CORRECTED
    for each in sheet.corrections[:_CORRECTED]:
        after = f"'{each.after[:60]}'" if each.after else "a blank cell"
        yield f"{each.address}: corrected to {after}; the file has '{each.before[:60]}'."
    if rest > 0:
        yield f"{rest:,} further cells were corrected as well; plan.corrections lists them all."


def _order(change: Change) -> int:
    """Return the sort key of a change.

    Adds come first. Those with an id come before those without one, because the service could
    assign the same id.
    """
    is_unnumbered = change.kind == "add" and change.pet_id is None
    return _ORDER[change.kind] + is_unnumbered


def _collect_blocked_rows(sheet: Sheet, sides: Alignment) -> tuple[Blocked, ...]:
    errors = sheet.errors_by_row
    names = sides.names(sheet.blocked_pets.values())
    return tuple(blocked_row(sheet, row, errors[row], names) for row in sheet.blocked)


def blocked_row(
    sheet: Sheet, row: int, errors: Sequence[Finding], names: Mapping[int, str]
) -> Blocked:
    """Return the blocked row at its first error's address, with all errors and the advice."""
    texts = [_describe_finding(finding) for finding in errors]
    rest = [
        f"{finding.address}: {text}" for finding, text in zip(errors[1:], texts[1:], strict=True)
    ]
    source = errors[0].address if errors else sheet.address(row)
    pet_id = sheet.blocked_pets.get(row)
    known, own = "" if pet_id is None else names.get(pet_id, ""), sheet.blocked_names.get(row, "")
    # Of several rows with one id, not all are rows of this pet.
    is_repeated = any(finding.rule == "duplicate-id" for finding in errors)
    return Blocked(
        row=row,
        source=source,
        problem="; ".join([*texts[:1], *rest]),
        pet_id=pet_id,
        name=(own or known) if is_repeated else (known or own),
    )


def _describe_finding(finding: Finding) -> str:
    is_named = any(form.format(finding.value) in finding.problem for form in ("'{}'", "({})"))
    value = f"{finding.value[:60]!r}: " if finding.value.strip() and not is_named else ""
    return f"{value}{finding.problem} {finding.suggestion}".rstrip()
