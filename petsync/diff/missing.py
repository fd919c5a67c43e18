"""Pets that no row names: deletes, where they are asked for and provable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from petsync.diff import align
from petsync.diff.change import Add, Change, Conflict, Delete
from petsync.diff.fields import differing, key, normal, photo_keys
from petsync.diff.plan import PlanOptions
from petsync.diff.remarks import some
from petsync.diff.snapshot import Snapshot
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import pets_from_frame

__all__ = ["Missing", "missing"]

_WHICH = (
    "If they are one pet, give the row its id. Else write `add-another` in the row's action "
    "column; a row with the pet's id and `delete` deletes it."
)
_WHICH_BELOW = (
    "If they are one pet, give the row its id. Else leave the id blank, and write `add-another` in "
    "the row's action column."
)


@dataclass(frozen=True, slots=True)
class Missing:
    """What becomes of the pets that no row names. `held` are the rows whose adds are conflicts."""

    deletes: list[Delete]
    conflicts: list[Conflict]
    notes: list[str]
    held: frozenset[int] = frozenset()


def missing(
    snapshot: Snapshot,
    named: align.Mask,
    uncertain: Sequence[str],
    changes: Sequence[Change],
    options: PlanOptions,
    base: Base | None = None,
    *,
    open_rows: Collection[int] = (),
) -> Missing:
    """The deletes of the pets that are not `named`, the pets among them that changed since the
    sheet was exported, which are conflicts, and notes. An add without an id, or with one below 1,
    that is like such a pet is one pet with it that has lost its id, more likely: both are held.

    A row that is `uncertain` may mean any of them, so then none is deleted; nor is a pet whose
    status is outside what the snapshot covers. `open_rows` say nothing of whether their pets are
    new. A pet that was not exported was never in the sheet, so it is not missing from it.
    """
    places = np.flatnonzero(~named)
    if base is None and not options.delete_missing:
        return Missing([], [], _left_alone(len(places)))
    places, old, new = _exported(snapshot, places, base)
    never = _never_exported(new)
    pairs = _lost_ids(snapshot, places, changes, open_rows)
    conflicts = [*_conflicts(pairs)]
    held = frozenset(add.row for _, add in pairs if add.row is not None)
    if not options.delete_missing:
        return Missing([], conflicts, [*_left_alone(len(places)), *never], held)
    if uncertain:
        note = (
            f"No missing pet is deleted: {some(uncertain)} may be about any of them. Correct these "
            "rows, or give them their ids, first."
        )
        return Missing([], conflicts, [note], held)
    kept = {pet.id for pet, _ in pairs}
    sure = ~snapshot.frame["id"].iloc[places].isin(kept).to_numpy(dtype=bool)
    conflicts += _held_deletes(pairs)
    places, old = places[sure], old[sure]
    statuses = snapshot.frame["status"].iloc[places]
    known = [status for status in statuses.dropna().unique() if status in snapshot.coverage]
    covered = statuses.isin(known).to_numpy(dtype=bool)
    pets = pets_from_frame(snapshot.frame.iloc[places[covered]])
    gone, moved = pets, []
    if base is not None:
        before = pets_from_frame(base.frame.iloc[old[covered]])
        fields = [differing(was, now) for was, now in zip(before, pets, strict=True)]
        gone = [pet for pet, each in zip(pets, fields, strict=True) if not each]
        moved = [_moved(pet, each) for pet, each in zip(pets, fields, strict=True) if each]
    deletes = [Delete(row=None, source="", before=pet, why="missing") for pet in gone]
    notes = [*never, *_uncovered(int((~covered).sum())), *_renames(deletes, changes)]
    return Missing(deletes, [*conflicts, *moved], notes, held)


def _exported(
    snapshot: Snapshot, places: align.Positions, base: Base | None
) -> tuple[align.Positions, align.Positions, int]:
    """Of the places, those of pets that were exported; these pets' places in the base; and how
    many were not.
    """
    if base is None:
        return places, places, 0
    old = align.positions(snapshot.frame["id"].iloc[places], base.frame)
    there = old >= 0
    return places[there], old[there], int((~there).sum())


def _moved(pet: Pet, fields: Sequence[Column]) -> Conflict:
    return Conflict(
        row=None,
        source="",
        pet_id=pet.id,
        name=pet.name or "",
        rule="removed-changed",
        problem=f"is in no row any more, but the store changed its {', '.join(fields)} since "
        "the sheet was exported",
        suggestion="Export afresh, and take its row out there if it is still to go.",
    )


def _left_alone(count: int) -> list[str]:
    if not count:
        return []
    pets = "1 pet of the store is" if count == 1 else f"{count:,} pets of the store are"
    them = "it" if count == 1 else "them"
    return [f"{pets} in no row: nothing happens to {them} (--delete-missing would delete {them})."]


def _never_exported(count: int) -> list[str]:
    if not count:
        return []
    these = "1 pet of the store was" if count == 1 else f"{count:,} pets of the store were"
    return [f"{these} not in the export, so nothing happens to {'it' if count == 1 else 'them'}."]


def _uncovered(count: int) -> list[str]:
    if not count:
        return []
    one = count == 1
    pets = "1 pet of the store is" if one else f"{count:,} pets of the store are"
    status, them = ("its status", "it") if one else ("their statuses", "them")
    why = f"no query that succeeded asks for {status}, so nothing is proved of {them}"
    return [f"{pets} in no row and not deleted: {why}."]


def _lost_ids(
    snapshot: Snapshot,
    places: align.Positions,
    changes: Sequence[Change],
    open_rows: Collection[int],
) -> list[tuple[Pet, Add]]:
    """The pets in no row, each with the adds that may be it: of its name or photos."""
    adds = [
        each
        for each in changes
        if isinstance(each, Add) and (each.pet_id or 0) < 1 and each.row in open_rows
    ]
    if not adds:
        return []
    names, photos = defaultdict[str, list[Add]](list), defaultdict[Hashable, list[Add]](list)
    for add in adds:
        names[normal(add.after.name)].append(add)
        if add.after.photo_urls:
            photos[photo_keys(add.after.photo_urls)].append(add)
    found = []
    for pet in pets_from_frame(snapshot.frame.iloc[places]):
        near = [*names[normal(pet.name)], *photos[photo_keys(pet.photo_urls)]]
        found += [(pet, add) for add in {id(each): each for each in near}.values()]
    return found


def _conflicts(pairs: Sequence[tuple[Pet, Add]]) -> Iterator[Conflict]:
    """One for each add that may be a pet in no row."""
    found: dict[int | None, list[Pet]] = defaultdict(list)
    adds = {add.row: add for _, add in pairs}
    for pet, add in pairs:
        found[add.row].append(pet)
    for row, pets in found.items():
        add, them = adds[row], some([f"{pet.id} ({pet.name})" for pet in pets])
        has = "no id" if add.pet_id is None else f"the id {add.pet_id}, which no pet has"
        yield Conflict(
            row=row,
            source=add.source,
            pet_id=pets[0].id,
            name=add.after.name or "",
            rule="lost-id",
            problem=f"has {has}, and is like pet {them}, in no row any more",
            suggestion=_WHICH if add.pet_id is None else _WHICH_BELOW,
        )


def _held_deletes(pairs: Sequence[tuple[Pet, Add]]) -> Iterator[Conflict]:
    """One for each pet that is not deleted, because a row may be it."""
    found: dict[int | None, list[Add]] = defaultdict(list)
    pets = {pet.id: pet for pet, _ in pairs}
    for pet, add in pairs:
        found[pet.id].append(add)
    for pet_id, adds in found.items():
        rows = some([f"{add.source} ({add.after.name})" for add in adds])
        yield Conflict(
            row=None,
            source="",
            pet_id=pet_id,
            name=pets[pet_id].name or "",
            rule="lost-id",
            problem=f"is in no row any more, and a row without an id is like it: {rows}",
            suggestion=_WHICH,
        )


def _renames(deletes: Sequence[Delete], changes: Sequence[Change]) -> Iterator[str]:
    """A pet that goes while one just like it comes is more likely one pet that lost its id."""
    for pet, add in _alike([delete.before for delete in deletes], changes):
        yield (
            f"Pet {pet.id} ({pet.name}) would be deleted and {add.source} ({add.after.name}) "
            "added, and they are alike. If they are one pet, give the row its id."
        )


def _alike(pets: Iterable[Pet], changes: Sequence[Change]) -> Iterator[tuple[Pet, Add]]:
    """Pets, each with an add of the same name or the same photos."""
    adds = [change for change in changes if isinstance(change, Add)]
    by_name = {normal(add.after.name): add for add in adds}
    by_photos = {key(add.after, "photo_urls"): add for add in adds if add.after.photo_urls}
    for pet in pets:
        add = by_name.get(normal(pet.name)) or by_photos.get(key(pet, "photo_urls"))
        if add is not None:
            yield pet, add
