"""Pets that no row names: deletes, where they are asked for and provable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from petsync.diff import align
from petsync.diff.change import Add, Change, Conflict, Delete
from petsync.diff.fields import differing, key, normal
from petsync.diff.plan import PlanOptions
from petsync.diff.remarks import some
from petsync.diff.snapshot import Snapshot
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import pets_from_frame

__all__ = ["Missing", "missing"]


@dataclass(frozen=True, slots=True)
class Missing:
    """What becomes of the pets that no row names."""

    deletes: list[Delete]
    conflicts: list[Conflict]
    notes: list[str]


def missing(
    snapshot: Snapshot,
    named: align.Mask,
    uncertain: Sequence[str],
    changes: Sequence[Change],
    options: PlanOptions,
    base: Base | None = None,
) -> Missing:
    """The deletes of the pets that are not `named`, the pets among them that changed since the
    sheet was exported, which are conflicts, and notes.

    A row that is `uncertain` may mean any of them, so then none is deleted; nor is a pet whose
    status is outside what the snapshot covers. A pet that was not exported was never in the
    sheet, so it is not missing from it.
    """
    places = np.flatnonzero(~named)
    if base is None and not options.delete_missing:
        return Missing([], [], _left_alone(len(places)))
    places, old, new = _exported(snapshot, places, base)
    never = _never_exported(new)
    if not options.delete_missing:
        lost = _lost_ids(pets_from_frame(snapshot.frame.iloc[places]), base, changes)
        return Missing([], [], [*_left_alone(len(places)), *never, *lost])
    if uncertain:
        note = (
            f"No missing pet is deleted: {some(uncertain)} may be about any of them. Correct these "
            "rows, or give them their ids, first."
        )
        return Missing([], [], [note])
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
    return Missing(deletes, moved, notes)


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


def _lost_ids(pets: Sequence[Pet], base: Base | None, changes: Sequence[Change]) -> Iterator[str]:
    """An exported pet that is in no row, and one just like it that is to be added."""
    for pet, add in _alike(pets if base is not None else (), changes):
        yield (
            f"{add.source} ({add.after.name}) would be added, and pet {pet.id} ({pet.name}), which "
            "is like it, is in no row any more. If they are one pet, give the row its id."
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
