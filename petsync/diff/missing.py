"""Pets that no row names: deletes, where they are asked for and provable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from petsync.diff.change import Add, Change, Conflict, Delete
from petsync.diff.fields import differing, normal
from petsync.diff.plan import PlanOptions
from petsync.diff.remarks import some
from petsync.diff.snapshot import Snapshot
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import pets_from_frame

__all__ = ["missing"]


def missing(
    snapshot: Snapshot,
    named: Collection[int],
    uncertain: Sequence[str],
    changes: Sequence[Change],
    options: PlanOptions,
    base: Base | None = None,
) -> tuple[list[Delete], list[Conflict], list[str]]:
    """The deletes of the pets at the places that are not `named`, the pets among them that changed
    since the sheet was exported, which are conflicts, and notes.

    A row that is `uncertain` may mean any of them, so then none is deleted. A pet that was not
    exported was never in the sheet, so it is not missing from it.
    """
    places = [place for place in range(len(snapshot)) if place not in named]
    if not options.delete_missing and base is None:
        return [], [], _left_alone(len(places))
    pets = pets_from_frame(snapshot.frame.iloc[places])
    gone, conflicts, notes = _since_export(pets, base)
    if not options.delete_missing:
        return [], [], [*_left_alone(len(gone)), *notes, *_lost_ids(pets, base, changes)]
    if uncertain:
        note = (
            f"No missing pet is deleted: {some(uncertain)} may be about any of them. Correct these "
            "rows, or give them their ids, first."
        )
        return [], [], [note]
    deletes = [Delete(row=None, source="", before=pet, why="missing") for pet in gone]
    return deletes, conflicts, [*notes, *_renames(deletes, changes)]


def _since_export(
    pets: Sequence[Pet], base: Base | None
) -> tuple[list[Pet], list[Conflict], list[str]]:
    """Of pets that no row names: those that are as exported, those that are not, and a note on
    those that were never in the sheet.
    """
    if base is None:
        return list(pets), [], []
    old = {pet.id: pet for pet in pets_from_frame(base.frame)}
    moved = {pet.id: differing(old[pet.id], pet) for pet in pets if pet.id in old}
    conflicts = [_moved(pet, moved[pet.id]) for pet in pets if moved.get(pet.id)]
    new = sum(pet.id not in old for pet in pets)
    these = "1 pet of the store was" if new == 1 else f"{new:,} pets of the store were"
    note = f"{these} not in the export, so nothing happens to {'it' if new == 1 else 'them'}."
    gone = [pet for pet in pets if pet.id in moved and not moved[pet.id]]
    return gone, conflicts, [note] if new else []


def _moved(pet: Pet, fields: Sequence[Column]) -> Conflict:
    return Conflict(
        row=None,
        source="",
        pet_id=pet.id,
        problem=f"is in no row any more, but the store changed its {', '.join(fields)} since "
        "the sheet was exported",
        suggestion="Export afresh, and take its row out there if it is still to go.",
    )


def _left_alone(count: int) -> list[str]:
    if not count:
        return []
    pets = "1 pet of the store is" if count == 1 else f"{count:,} pets of the store are"
    return [f"{pets} in no row: nothing happens to them (--delete-missing would delete them)."]


def _lost_ids(pets: Sequence[Pet], base: Base | None, changes: Sequence[Change]) -> Iterator[str]:
    """An exported pet that is in no row, and one just like it that is to be added."""
    exported = set() if base is None else {int(pet_id) for pet_id in base.frame["id"]}
    missed = [pet for pet in pets if pet.id in exported]
    for pet, add in _alike(missed, changes):
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
    by_photos = {add.after.photo_urls: add for add in adds if add.after.photo_urls}
    for pet in pets:
        add = by_name.get(normal(pet.name)) or by_photos.get(pet.photo_urls)
        if add is not None:
            yield pet, add
