"""Siblings: what was agreed on with another sheet, of rows that have come from there.

A row that is moved to another file, a file that has another name, a job that has another name: to
the base of its own, each is as new, and would count in every cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from petsync.diff.agreed import sight_of
from petsync.diff.round import Open
from petsync.errors import PetsyncError
from petsync.model import Pet
from petsync.reconcile.base import BaseFile
from petsync.reconcile.course import Course
from petsync.reconcile.footing import Footing, same_place
from petsync.reconcile.look import Look
from petsync.table.base import Base

__all__ = ["with_siblings"]


def with_siblings(course: Course, look: Look, footing: Footing, store: str) -> Footing:
    """The footing with the pets that its base lacks, that a row of the look tells otherwise than
    the store or that the store does not have any more, and on which this store and another sheet
    have agreed. A pet that has gone from both sides comes back by a row only if somebody says so.
    """
    if course.job.mode != "two-way":
        return footing
    base = footing.base
    own = frozenset() if base is None else frozenset(base.frame["id"])
    sight = look.sight
    pairs = [*zip(sight.rows, sight.ids, sight.places, strict=True)]
    # A row whose pet is gone counts as one, too: to this sheet's base it would be a new pet.
    wanted = {i for row, i, at in pairs if at < 0 or sight.differing.get(row)} - own
    # Which of a category's cells was edited, only a base tells.
    wanted |= sight.cells.keys() - own
    others = [*_others(course, store)] if wanted else []
    parts = _known(look, others, wanted)
    gone = {i: on for each in (*others, base) if each is not None for i, on in each.gone.items()}
    lost = gone.keys() & {i for _, i, at in pairs if at < 0} - own - {
        i for each in parts for i in each.ids
    }
    if lost and base is not None:
        # Nobody knows any more what was agreed on of it: in every field both sides have moved on.
        base = base.with_pets([Pet(id=i) for i in sorted(lost)])
        base = replace(base, gone={**base.gone, **{i: gone[i] for i in lost}})
        footing = replace(footing, base=base)
    if not parts:
        return footing
    count = sum(map(len, parts))
    first = base or replace(parts[0].without(parts[0].ids), taken_at=course.told.started)
    frames = [each.frame for each in (first, *parts) if len(each)]
    frame = pd.concat(frames, ignore_index=True).sort_values("id", kind="stable", ignore_index=True)
    said = {pet_id: pet for each in (*parts, first) for pet_id, pet in each.said.items()}
    unsure = {pet_id: units for each in (*parts, first) for pet_id, units in each.unsure.items()}
    merged = replace(first, frame=frame, said=said, unsure=unsure)
    rows = "1 row is new here, and is" if count == 1 else f"{count:,} rows are new here, and are"
    note = Open(kind="note", problem=f"{rows} compared by what was agreed on with another sheet")
    return replace(footing, base=merged, notes=(*footing.notes, note))


def _known(look: Look, others: Sequence[Base], wanted: set[int]) -> list[Base]:
    """What they have of the pets that are wanted: of each what its row still says, if any has
    that, else the newest.
    """
    parts: list[Base] = []
    for is_any in (False, True):
        for other in others:
            found = other.without(other.ids - wanted)
            if not is_any:
                seen = replace(look.seen, frame=found.said_frame)
                sight = sight_of(look.sheet, seen, look.settled, found)
                pairs = zip(sight.rows, sight.ids, strict=True)
                found = found.without({i for row, i in pairs if sight.differing.get(row)})
            wanted = wanted - found.ids
            parts += [found] if len(found) else []
    return parts


def _others(course: Course, store: str) -> Iterator[Base]:
    """The bases of the other sheets of the store, the newest first, and those before them."""
    own = course.owner.kept.base(course.job.name, course.told.part)
    found = []
    for path in own.parent.glob("*.base*"):
        if path.name.startswith(f"{own.name}") or ".damaged-" in path.name:
            continue
        try:
            base = BaseFile(path).load(set_aside=False).base
        except PetsyncError:
            continue
        if base is not None and same_place(base.store, store):
            found.append(base)
    yield from sorted(found, key=lambda base: base.taken_at, reverse=True)
