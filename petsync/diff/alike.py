"""Rows that say what another pet is: ids that were sorted without their rows, or are lost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from petsync.diff import align
from petsync.diff.change import Add, Change, Conflict
from petsync.diff.fields import folded, key, normal, photo_keys, same, stated
from petsync.diff.match import names_among
from petsync.diff.remarks import some
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.columns import ADDING, COLUMNS, Column
from petsync.table.frame import pets_from_frame
from petsync.table.sheet import Sheet

__all__ = [
    "Exchanged",
    "come_since",
    "exchanged",
    "exchanged_note",
    "has_ids",
    "in_a_copy",
    "looking_alike",
    "namesakes",
    "namesakes_note",
    "open_rows",
    "renamed",
    "twins",
    "under_other_ids",
]

_LOOKS: tuple[Column, ...] = ("status", "category", "tags", "photo_urls")
"""The columns beside the name in which pets are compared."""
_NEAR = 10
"""A row is held against so many pets of its name at the most."""
_MOST = 100
"""An add without an id is held against so many pets at the most."""
_LEAST = 2
"""One row alone is what a person writes; identities go astray in pairs."""


class Exchanged(NamedTuple):
    """A row that says of its pet what pet `other` was: its number, and both their ids and names."""

    row: int
    pet_id: int
    was: str
    other: int
    name: str


def exchanged(
    sheet: Sheet, before: pd.DataFrame | None, rows: Collection[int]
) -> tuple[Exchanged, ...]:
    """Those of the `rows` that say, in all that they say, what another pet was `before`, whose own
    row says something else by now; none where it is one alone.
    """
    frame = sheet.frame
    if before is None or len(rows) < _LEAST or not {"id", "name"} <= {*frame.columns}:
        return ()
    places = align.positions(frame["id"], before)
    acts = frame["action"].isin(("ignore", "delete", *ADDING)).to_numpy()
    at = np.flatnonzero(~acts & (places >= 0))
    masks = align.differences(frame, at, before, places[at])
    renamed = at[masks["name"] & frame.index[at].isin(list(rows))]
    others = before.iloc[places[at[np.logical_or.reduce([*masks.values()])]]]
    found = twins(frame.iloc[renamed], others)
    some = [(int(row), place) for row, place in zip(renamed, found, strict=True) if place >= 0]
    if len(some) < _LEAST:
        return ()
    return tuple(_told(frame, row, before.iloc[places[row]], others.iloc[p]) for row, p in some)


def exchanged_note(
    edited: Mapping[int, Collection[Column]], sheet: Sheet, before: pd.DataFrame
) -> Iterator[str]:
    """A sentence on the rows that say what other pets were `before`; `edited` are the columns in
    which rows say something else than their pets, by row.
    """
    rows = [row for row, columns in edited.items() if "name" in columns]
    pairs = [
        f"{sheet.address(each.row)} gives {each.name!r}, which was pet {each.other}, the id "
        f"{each.pet_id}, which was {each.was!r}"
        for each in exchanged(sheet, before, rows)
    ]
    if pairs:
        yield (
            f"{some(pairs)}: these rows say what other pets were, as if the ids had been moved "
            "without their rows. Where that was not meant, put the ids back."
        )


def twins(rows: pd.DataFrame, pets: pd.DataFrame) -> align.Positions:
    """For each row the place of a pet that has its name, and of which it says nothing else in any
    other column; -1 where there is none.
    """
    result = np.full(len(rows), -1, dtype=np.intp)
    if "name" not in rows or not len(rows) or not len(pets):
        return result
    named = [normal(None if pd.isna(name) else name) for name in rows["name"]]
    near = _by_name(pets, frozenset(filter(None, named)))
    pairs = [(n, place) for n, name in enumerate(named) for place in near.get(name, ())]
    if not pairs:
        return result
    at, places = (np.array(each, dtype=np.intp) for each in zip(*pairs, strict=True))
    said = rows.iloc[at].reset_index(drop=True)
    masks = align.differences(said, np.arange(len(said)), pets, places)
    same = ~np.logical_or.reduce([*masks.values()])
    # The first one of each row is what stays.
    result[at[same][::-1]] = places[same][::-1]
    return result


def _by_name(pets: pd.DataFrame, wanted: Collection[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(names_among(pets["name"], wanted)).tolist():
        found = places[normal(pets["name"].iloc[place])]
        if len(found) < _NEAR:
            found.append(place)
    return places


def _told(frame: pd.DataFrame, row: int, own: pd.Series[Any], other: pd.Series[Any]) -> Exchanged:
    return Exchanged(
        int(frame.index[row]), int(own["id"]), own["name"] or "", int(other["id"]), other["name"]
    )


def has_ids(sheet: Sheet) -> bool:
    """Whether any row of the sheet names its pet by an id, or means to."""
    frame = sheet.frame
    named = "id" in frame and bool(frame["id"].notna().any())
    return named or bool(sheet.blocked_ids) or any(p.column == "id" for p in sheet.problems)


def looking_alike(
    changes: Iterable[Change], sheet: Sheet, pets: pd.DataFrame, identical: Mapping[int, int]
) -> tuple[list[Change], list[Conflict]]:
    """The changes without the adds that look like one of the `pets`, which no row names; and these
    as conflicts. For a sheet without ids: its rows may all be pets that the store has.

    A row looks like a pet of its name, or of its photos, if half of what else it says agrees. One
    with the action `add` says that it is another one. Where most rows are `identical` to pets, or
    have the name of one pet each and differ from it in one column at the most, the same column in
    all rows, that name is enough.
    """
    changes = list(changes)
    adds = [each for each in changes if isinstance(each, Add) and _is_open(each, sheet)]
    if not adds or pets.empty:
        return changes, []
    by_name, by_photos = _indexed(pets, adds)
    conflicts: dict[int | None, Conflict] = {}
    for add in adds:
        near = [
            *by_name.get(normal(add.after.name), ()),
            *(by_photos.get(photo_keys(add.after.photo_urls), ()) if add.after.photo_urls else ()),
        ]
        pairs = [(pet, _agreeing(add.after, pet)) for pet in near[:_MOST]]
        like = [(pet, agreeing) for pet, agreeing in pairs if _is_like(add.after, agreeing)]
        if like:
            pet, agreeing = max(like, key=lambda pair: len(pair[1]))
            conflicts[add.row] = _look_alike(add, pet, agreeing)
    for add, pet in _edited_in_one_column(adds, by_name, len(open_rows(sheet)), identical):
        why = ", and most rows have the name of a pet"
        conflicts.setdefault(add.row, _look_alike(add, pet, ("name",), why))
    kept = [each for each in changes if not (isinstance(each, Add) and each.row in conflicts)]
    return kept, [*conflicts.values()]


def _edited_in_one_column(
    adds: Sequence[Add],
    by_name: Mapping[str, Sequence[Pet]],
    total: int,
    identical: Mapping[int, int],
) -> Iterator[tuple[Add, Pet]]:
    """The adds that differ from a pet of their name in one column alone, each with that pet, where
    that makes most of the `total` rows pets: by the names that one pet has, and as `identical`.
    """
    pairs = [(add, pet) for add in adds for pet in by_name.get(normal(add.after.name), ())[:_MOST]]
    differing = [_differing(add.after, pet) for add, pet in pairs]
    for column in _LOOKS:
        near = [pair for pair, others in zip(pairs, differing, strict=True) if others <= {column}]
        ids = {pet.id for add, pet in near if len(by_name[normal(add.after.name)]) == 1}
        count = len(ids) + len(identical)
        if ids and count >= _LEAST and 2 * count > total:
            yield from near


def _differing(said: Pet, pet: Pet) -> set[Column]:
    """The columns beside the name in which the pet is not what is said."""
    return {*stated(said)} - {"name", "category_id", *_agreeing(said, pet)}


def renamed(
    changes: Iterable[Change], sheet: Sheet, pets: pd.DataFrame, identical: Mapping[int, int]
) -> tuple[list[Change], list[Conflict]]:
    """The changes without the adds that may be one of the `pets`, which no row names, under another
    name; and these as conflicts. For a sheet without ids, as `looking_alike`.

    Such a row says what a pet is but for the name, and stands between rows that are `identical` to
    the pets before and after it, in a sheet of which most rows are. In any other, it is all that
    one pet alone is, and the sheet has all columns of petsync's own tables but the id.
    """
    changes = list(changes)
    adds = [each for each in changes if isinstance(each, Add) and _is_open(each, sheet)]
    is_whole = {*COLUMNS} - {"id"} <= {*sheet.frame}
    is_table = len(identical) >= _LEAST and 2 * len(identical) >= len(open_rows(sheet))
    if not adds or pets.empty or not (is_table or is_whole):
        return changes, []
    known = sorted(identical.items()) if is_table else []
    rows = [row for row, _ in known]
    listed = pets_from_frame(pets)
    by_look: dict[tuple[Column, ...], dict[Hashable, list[Pet]]] = {}
    ids_by_status = {
        status: sorted(pet.id or 0 for pet in of_status)
        for status, of_status in _by_look(listed, ("status",)).items()
    }
    conflicts: dict[int | None, Conflict] = {}
    for add in adds:
        at = bisect_left(rows, add.row or 0)
        above = known[at - 1][1] if at else None
        below = known[at][1] if at < len(known) else None
        columns = tuple(c for c in _LOOKS if c in stated(add.after)) if known else _LOOKS
        if not any(c in stated(add.after) for c in _LOOKS[0 if known else 1 :]):
            continue
        if columns not in by_look:
            by_look[columns] = _by_look(listed, columns)
        like = by_look[columns].get(_look(add.after, columns), [])
        if known:
            of_status = ids_by_status.get(_look(add.after, ("status",)), ())
            like = [pet for pet in like if _is_between(above, below, pet.id or 0, of_status)]
        if like and (known or len(like) == 1):
            conflicts[add.row] = _look_alike(
                add, like[0], [c for c in columns if c in stated(add.after)]
            )
    kept = [each for each in changes if not (isinstance(each, Add) and each.row in conflicts)]
    return kept, [*conflicts.values()]


def in_a_copy(
    changes: Iterable[Change], sheet: Sheet, pets: pd.DataFrame, held: Collection[Conflict]
) -> tuple[list[Change], list[Conflict]]:
    """The changes without the adds that may be one of the `pets`, which no row names, in a sheet
    without ids of which most rows are `held`, as they look like pets; and these as conflicts.

    Such a row says what such a pet is but for the name, or has its name in capitals. Each pet is
    one row at the most: first the one of its name, in capitals or with more letters behind it.
    """
    changes = list(changes)
    if len(held) < _LEAST or 2 * len(held) <= len(open_rows(sheet)):
        return changes, []
    taken = {each.pet_id for each in held}
    free = {pet.id: pet for pet in pets_from_frame(pets[~pets["id"].isin(taken)])}
    by_look: dict[tuple[Column, ...], dict[Hashable, list[Pet]]] = {}
    by_name: dict[str, list[Pet]] = defaultdict(list)
    for pet in free.values():
        by_name[folded(pet.name)].append(pet)
    conflicts: list[Conflict] = []
    for add in changes:
        if not isinstance(add, Add) or not _is_open(add, sheet):
            continue
        columns = tuple(c for c in _LOOKS if c in stated(add.after))
        if columns not in by_look:
            by_look[columns] = _by_look(free.values(), columns)
        name = folded(add.after.name)
        like = by_look[columns].get(_look(add.after, columns), [])
        near = [pet for pet in (*by_name.get(name, ()), *like) if pet.id not in taken]
        if near:
            pet = min(near, key=lambda pet: _likeness(name, folded(pet.name), pet.id or 0))
            taken.add(pet.id)
            agreeing = _agreeing(add.after, pet) or ("name",)
            why = ", and most rows look like pets"
            conflicts.append(_look_alike(add, pet, agreeing, why))
    rows = {each.row for each in conflicts}
    return [each for each in changes if not (isinstance(each, Add) and each.row in rows)], conflicts


def _likeness(name: str, other: str, pet_id: int) -> tuple[bool, bool, int]:
    """What is least for the pet whose name is most like the name; then for the lowest id."""
    return name != other, not (other and name.startswith(other)), pet_id


def _is_between(above: int | None, below: int | None, pet_id: int, ids: Sequence[int]) -> bool:
    """Whether the id is between the two; where one is missing, whether it is the nearest of the
    `ids`, which are in order, to the other.
    """
    if above is not None and below is not None:
        return above < pet_id < below
    if above is not None:
        at = bisect_right(ids, above)
        return at < len(ids) and ids[at] == pet_id
    at = 0 if below is None else bisect_left(ids, below)
    return at > 0 and ids[at - 1] == pet_id


def _by_look(pets: Iterable[Pet], columns: Sequence[Column]) -> dict[Hashable, list[Pet]]:
    found: dict[Hashable, list[Pet]] = defaultdict(list)
    for pet in pets:
        found[_look(pet, columns)].append(pet)
    return found


def _look(pet: Pet, columns: Sequence[Column]) -> Hashable:
    """What a pet is in these columns, without the ids that a service may assign."""
    tags = frozenset(normal(tag.name) for tag in pet.tags)
    return tuple(tags if column == "tags" else key(pet, column) for column in columns)


def come_since(
    changes: Iterable[Change], sheet: Sheet, pets: pd.DataFrame, base: Base
) -> tuple[list[Change], list[Conflict]]:
    """The changes without the adds that look like one of the `pets`, which no row names, that came
    to the store since the export; and these as conflicts. For an exported sheet: somebody else may
    have added the row already.

    Such a row has the name of the pet and agrees with it in half of what else it says, in more than
    the status. Each pet is one row at the most, the one that agrees in most. A base of a part of
    the store does not show which pets came since.
    """
    changes = list(changes)
    adds = [each for each in changes if isinstance(each, Add) and _is_open(each, sheet)]
    if not adds or base.tags:
        return changes, []
    new = pets[align.positions(pets["id"], base.frame) < 0]
    by_name, _ = _indexed(new, adds)
    pairs = [
        (add, pet, agreeing)
        for add in adds
        for pet in by_name.get(normal(add.after.name), ())[:_MOST]
        if _is_like(add.after, agreeing := _agreeing(add.after, pet))
        and not {*agreeing} <= {"name", "status"}
    ]
    return _held_once(
        changes,
        pairs,
        lambda _, pet, columns: (
            f"has no id, and looks like pet {pet.id}, which came since the "
            f"export: they agree in {columns}"
        ),
        lambda pet: (
            f"Write the id {pet.id} into the row if it is that pet, or `add-another` in "
            "the action column to add another one."
        ),
    )


def under_other_ids(
    changes: Iterable[Change], sheet: Sheet, pets: pd.DataFrame, unnamed: align.Mask
) -> tuple[list[Change], list[Conflict]]:
    """The changes without the adds under an id of their own that look like one of the `pets` of the
    store that are `unnamed`, so in no row; and these as conflicts: the ids may be numbered anew.

    Such a row says all that a pet of its name is. If no other pet has that name, or the photos of
    the row, it is enough that they agree in half of what else the row says, in more than the
    status. Each pet is one row at the most, the one that agrees in most.
    """
    changes = list(changes)
    adds = [each for each in changes if isinstance(each, Add) and _has_new_id(each, sheet)]
    if not adds or not unnamed.any():
        return changes, []
    by_name, by_photos = _indexed(pets, adds)
    given = Counter(photo_keys(add.after.photo_urls) for add in adds)
    free = {*pets["id"][unnamed].tolist()}
    pairs: list[tuple[Add, Pet, tuple[Column, ...]]] = []
    for add in adds:
        photos = photo_keys(add.after.photo_urls)
        named = by_name.get(normal(add.after.name), [])
        shown = by_photos.get(photos, []) if photos and given[photos] == 1 else []
        sole = [near[0] for near in (named, shown) if len(near) == 1]
        for pet in [*sole, *named[: _MOST if len(named) > 1 else 0]]:
            agreeing = _agreeing(add.after, pet)
            is_half = pet in sole and _is_like(add.after, agreeing)
            is_same = pet in named and not _differing(add.after, pet)
            if pet.id in free and (is_same or (is_half and not {*agreeing} <= {"name", "status"})):
                pairs.append((add, pet, agreeing))
    return _held_once(
        changes,
        pairs,
        lambda add, pet, columns: (
            f"has the id {add.pet_id}, which no pet has, and looks like pet "
            f"{pet.id} ({pet.name}), which is in no row: they agree in {columns}"
        ),
        lambda pet: (
            f"Write the id {pet.id} into the row if it is that pet, or `add` in the action "
            "column to add another one."
        ),
    )


def _held_once(
    changes: Sequence[Change],
    pairs: Iterable[tuple[Add, Pet, Sequence[Column]]],
    problem: Callable[[Add, Pet, str], str],
    suggestion: Callable[[Pet], str],
) -> tuple[list[Change], list[Conflict]]:
    """The changes without the adds of the pairs, and conflicts of these: each pet has one row at
    the most, the one that agrees in most columns.
    """
    conflicts: dict[int | None, Conflict] = {}
    taken: set[int | None] = set()
    for add, pet, agreeing in sorted(pairs, key=lambda pair: -len(pair[2])):
        if add.row not in conflicts and pet.id not in taken:
            taken.add(pet.id)
            why = problem(add, pet, ", ".join(agreeing))
            conflicts[add.row] = _held(add, pet, why, suggestion(pet))
    kept = [each for each in changes if not (isinstance(each, Add) and each.row in conflicts)]
    return kept, sorted(conflicts.values(), key=lambda each: each.row or 0)


def namesakes(changes: Iterable[Change], pets: pd.DataFrame, sheet: Sheet) -> list[Change]:
    """The changes, the adds whose rows leave open that their pet is there told of the first of the
    `pets`, which no row names, that has their name.
    """
    changes = list(changes)
    adds = [
        each
        for each in changes
        if isinstance(each, Add) and (_is_open(each, sheet) or _has_new_id(each, sheet))
    ]
    if not adds or pets.empty:
        return changes
    there: dict[str, int] = {}
    named = pets[names_among(pets["name"], {normal(add.after.name) for add in adds})]
    for name, number in zip(named["name"].tolist(), named["id"].tolist(), strict=True):
        there.setdefault(normal(name), int(number))
    told = {id(add): there.get(normal(add.after.name)) for add in adds}
    return [
        msgspec.structs.replace(each, namesake=number)
        if isinstance(each, Add) and (number := told.get(id(each))) is not None
        else each
        for each in changes
    ]


def namesakes_note(changes: Iterable[Change]) -> Iterator[str]:
    """A sentence on the adds that have the name of a pet that is in no row."""
    pairs = [
        f"{each.source} ({each.after.name}) = pet {each.namesake}?"
        for each in changes
        if isinstance(each, Add) and each.namesake is not None
    ]
    if pairs:
        yield (
            f"{some(pairs)}: these rows have no id, or one that no pet has, and the store has pets "
            "of their names that are in no row. Where they are the same pets, give the rows their "
            "ids; else new ones are added."
        )


def open_rows(sheet: Sheet) -> frozenset[int]:
    """The rows that do not say whether their pets are there."""
    frame = sheet.frame
    return frozenset(frame.index[(frame["action"] == "merge").to_numpy(dtype=bool)].tolist())


def _is_open(add: Add, sheet: Sheet) -> bool:
    """Whether the row of an add has no id, and leaves open that its pet may be there."""
    return add.pet_id is None and _is_merged(add, sheet)


def _has_new_id(add: Add, sheet: Sheet) -> bool:
    """Whether the row of an add has an id that no pet has, and leaves open that its pet is there
    under another one.
    """
    return (add.pet_id or 0) >= 1 and _is_merged(add, sheet)


def _is_merged(add: Add, sheet: Sheet) -> bool:
    return add.row in sheet.frame.index and bool(sheet.frame.at[add.row, "action"] == "merge")


def _indexed(
    pets: pd.DataFrame, adds: Sequence[Add]
) -> tuple[dict[str, list[Pet]], dict[tuple[str, ...], list[Pet]]]:
    """The pets by their names and by their photos, those that any add has."""
    names = {normal(add.after.name) for add in adds}
    photos = {photo_keys(add.after.photo_urls) for add in adds if add.after.photo_urls}
    wanted = names_among(pets["name"], names)
    if photos:
        wanted |= np.array([photo_keys(each) in photos for each in pets["photo_urls"]], dtype=bool)
    by_name: dict[str, list[Pet]] = defaultdict(list)
    by_photos: dict[tuple[str, ...], list[Pet]] = defaultdict(list)
    for pet in pets_from_frame(pets[wanted]):
        by_name[normal(pet.name)].append(pet)
        by_photos[photo_keys(pet.photo_urls)].append(pet)
    return by_name, by_photos


def _agreeing(said: Pet, pet: Pet) -> tuple[Column, ...]:
    """The columns in which the pet is what is said."""
    return tuple(c for c in stated(said) if c != "category_id" and same(said, pet, c))


def _is_like(said: Pet, agreeing: Collection[Column]) -> bool:
    others = [c for c in stated(said) if c not in ("name", "category_id")]
    return 2 * sum(c in agreeing for c in others) >= len(others)


def _look_alike(add: Add, pet: Pet, agreeing: Sequence[Column], why: str = "") -> Conflict:
    return _held(
        add,
        pet,
        f"has no id, as no row of the sheet has, and looks like pet {pet.id} ({pet.name}): they "
        f"agree in {', '.join(agreeing)}{why}",
        "Give the rows their ids, or write `add` in the action column to add another pet.",
    )


def _held(add: Add, pet: Pet, problem: str, suggestion: str) -> Conflict:
    return Conflict(
        row=add.row,
        source=add.source,
        pet_id=pet.id,
        name=add.after.name or "",
        rule="looks-alike",
        problem=problem,
        suggestion=suggestion,
    )
