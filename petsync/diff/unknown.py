"""Unknown: pets of which nobody knows what both sides last agreed on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from petsync.diff.agreed import sight_of
from petsync.diff.fields import with_fields
from petsync.diff.snapshot import Snapshot
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.sheet import Sheet

__all__ = ["with_unknown"]


def with_unknown(
    base: Base | None,
    sheet: Sheet,
    snapshot: Snapshot,
    settled: Mapping[int, int],
    leave: Collection[int] = (),
) -> Base:
    """The base, and besides it the pets of the sheet that it lacks, but for those to `leave`: as
    the store has them where the sheet agrees, or says nothing, and with nothing in the fields in
    which it does not. To such a field both sides have something of their own, so that texts
    are in conflict, and tags and photos are joined: neither side is taken for newer. `settled`
    are the pets of rows without an id.
    """
    sight = sight_of(sheet, snapshot, settled)
    known = {*leave} if base is None else {*leave, *base.frame["id"].tolist()}
    pairs = zip(sight.rows, sight.ids, sight.places, strict=True)
    places = {place: row for row, pet_id, place in pairs if place >= 0 and pet_id not in known}
    pets = pets_from_frame(snapshot.frame.iloc[list(places)])
    rows = places.values()
    made = [
        with_fields(pet, Pet(id=pet.id), sight.differing.get(row, ()))
        for pet, row in zip(pets, rows, strict=True)
    ]
    if base is None:
        moment = snapshot.taken_at.isoformat(timespec="microseconds")
        return Base(frame=frame_from_pets(made), store=snapshot.source, taken_at=moment)
    return base.with_pets(made) if made else base
