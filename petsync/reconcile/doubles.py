"""Doubles: pets that are in the store twice, or are to be, with nothing to tell them apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from petsync.diff.change import Add
from petsync.diff.fields import content
from petsync.diff.plan import Plan
from petsync.diff.report import Report
from petsync.diff.round import Open
from petsync.diff.snapshot import Snapshot
from petsync.table.frame import pets_from_frame

__all__ = ["came", "copies"]


def copies(plan: Plan) -> Iterator[Open]:
    """A note on each row without an id that is to be one more of what the store has already."""
    for change in plan.adds:
        if change.alike:
            yield Open(
                kind="note",
                problem="has no id, and says just what a pet of the store says that another row "
                "means: it is one more of it",
                name=change.after.name or "",
                row=change.row,
                address=change.source,
                hint="If the row is a copy that nobody meant, take it out, and the new pet out of "
                "the store.",
            )


def came(report: Report | None, before: Snapshot, after: Snapshot) -> Iterator[Open]:
    """The pets that came while the run was at work, and that are just what it has added: somebody
    else did the same.
    """
    added = {} if report is None else _added(report)
    if not added:
        return
    known = [*before.frame["id"], *added.values()]
    new = after.frame[~after.frame["id"].isin(known)]
    for pet in pets_from_frame(new):
        if content(pet) in added:
            yield Open(
                kind="drift",
                problem=f"came while this round was at work, and is just what pet "
                f"{added[content(pet)]} is, which the round added: somebody else added it as well",
                pet_id=pet.id,
                name=pet.name or "",
                hint="Delete one of the two in the store. Jobs that send to one store take turns "
                "where they share a state folder, or run as one user of one machine.",
            )


def _added(report: Report) -> dict[Hashable, int]:
    """The pets that a run has added, by what they are."""
    return {
        content(change.after): result.assigned_id
        for result in report.results
        if result.kind == "add"
        and result.assigned_id is not None
        and isinstance(change := report.plan.changes[result.number], Add)
    }
