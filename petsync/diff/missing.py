"""Pets that no row names: deletes, where they are asked for and provable."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from petsync.diff.change import Add, Change, Delete
from petsync.diff.fields import normal
from petsync.diff.plan import PlanOptions
from petsync.diff.snapshot import Snapshot
from petsync.table.frame import pets_from_frame

__all__ = ["missing"]


def missing(
    snapshot: Snapshot,
    named: Collection[int],
    uncertain: Sequence[str],
    changes: Sequence[Change],
    options: PlanOptions,
) -> tuple[list[Delete], list[str]]:
    """The deletes of the pets at the places that are not `named`, and notes on them.

    A row that is `uncertain` may mean any of them, so then none is deleted.
    """
    if not options.delete_missing:
        return [], _left_alone(len(snapshot) - len(named))
    if uncertain:
        more = f" and {len(uncertain) - 5} more" if len(uncertain) > 5 else ""
        note = (
            f"No missing pet is deleted: {', '.join(uncertain[:5])}{more} cannot be told to be "
            "about another pet. Correct these rows, or give them their ids, first."
        )
        return [], [note]
    places = [place for place in range(len(snapshot)) if place not in named]
    pets = pets_from_frame(snapshot.frame.iloc[places])
    deletes = [Delete(row=None, source="", before=pet, why="missing") for pet in pets]
    return deletes, list(_renames(deletes, changes))


def _left_alone(count: int) -> list[str]:
    if not count:
        return []
    pets = "1 pet of the store is" if count == 1 else f"{count:,} pets of the store are"
    return [f"{pets} in no row: nothing happens to them (--delete-missing would delete them)."]


def _renames(deletes: Sequence[Delete], changes: Sequence[Change]) -> Iterator[str]:
    """A pet that goes while one just like it comes is more likely one pet that lost its id."""
    adds = [change for change in changes if isinstance(change, Add)]
    by_name = {normal(add.after.name): add for add in adds}
    by_photos = {add.after.photo_urls: add for add in adds if add.after.photo_urls}
    for delete in deletes:
        pet = delete.before
        add = by_name.get(normal(pet.name)) or by_photos.get(pet.photo_urls)
        if add is not None:
            yield (
                f"Pet {pet.id} ({pet.name}) would be deleted and {add.source} ({add.after.name}) "
                "added, and they are alike. If they are one pet, give the row its id."
            )
