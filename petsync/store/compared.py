"""Compared: a snapshot and a sheet beside each other, from which plans and their reasons come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from petsync.diff.compare import compare
from petsync.diff.decide import Found
from petsync.diff.explain import Explanations
from petsync.diff.guard import Guard
from petsync.diff.lineage import Match, Renumbered, Restored
from petsync.diff.plan import Plan, PlanOptions
from petsync.diff.snapshot import Snapshot
from petsync.diff.uploads import Uploads
from petsync.diff.why import explain
from petsync.profile import ServiceProfile
from petsync.table.sheet import Sheet

__all__ = ["Compared"]


@dataclass(frozen=True, slots=True)
class Compared:
    """The store's records, the sheet, what getPetById says of the ids that only it names, which
    photos uploads added, which rows without an id earlier runs know, which pets undos took
    away, by the run that was undone, which ones undos changed, as these left them, and to which
    ones the store gave another id than they were added with.
    """

    snapshot: Snapshot
    sheet: Sheet
    found: Found
    uploads: Uploads = field(default_factory=Uploads)
    matches: Mapping[int, Match] = field(default_factory=dict)
    undone: Mapping[int, str] = field(default_factory=dict)
    restored: Mapping[int, Restored] = field(default_factory=dict)
    renumbered: Mapping[int, Renumbered] = field(default_factory=dict)

    def plan(
        self, options: PlanOptions, guard: Guard, *, profile: ServiceProfile, created: str
    ) -> Plan:
        """The plan that brings the store to what the sheet says."""
        return compare(
            self.snapshot,
            self.sheet,
            found=self.found,
            created=created,
            options=options,
            guard=guard,
            profile=profile,
            uploads=self.uploads,
            matches=self.matches,
            undone=self.undone,
            restored=self.restored,
            renumbered=self.renumbered,
        )

    def why(self, plan: Plan, pet_ids: Iterable[int]) -> Explanations:
        """Why the plan does with the pets what it does."""
        return explain(
            plan,
            self.snapshot,
            self.sheet,
            self.found,
            pet_ids,
            uploads=self.uploads,
            matches=self.matches,
        )
