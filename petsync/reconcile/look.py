"""Look: both sides of a job at one moment, and what follows for either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pandas as pd

from petsync.diff.agreed import Sight, sight_of
from petsync.diff.decide import Found
from petsync.diff.fields import normal
from petsync.diff.plan import Plan, PlanOptions
from petsync.diff.snapshot import Snapshot
from petsync.errors import ServiceError
from petsync.model import Pet
from petsync.reconcile.config.model import Job
from petsync.reconcile.sources import Source
from petsync.store import Store
from petsync.table.base import Base
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

__all__ = ["Look", "Looker"]


@dataclass(frozen=True, slots=True)
class Look:
    """Sheet and store beside each other: the `snapshot` is of the job's scope, `seen` has the pets
    outside of it too that rows name. `plan` is what the store is to take.
    """

    sheet: Sheet
    snapshot: Snapshot
    seen: Snapshot
    found: Found
    base: Base | None
    plan: Plan
    sight: Sight

    def next_base(self) -> Base:
        """What both sides agree on now, or did once."""
        return self.sight.base(self.seen, self.base)


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks at both sides of a job, or of one sheet of a folder. `elsewhere` are the pets that the
    folder's other sheets name: they are none of this one's.
    """

    job: Job
    source: Source
    store: Store
    elsewhere: frozenset[int] = field(default_factory=frozenset)

    def read(self) -> Sheet:
        """What the sheet says now."""
        return self.source.read(self.store)

    def snapshot(self) -> Snapshot:
        """The pets of the job's scope. Raises where the store did not list all of them."""
        snapshot = self.store.snapshot(statuses=self.job.statuses)
        if snapshot.coverage.failed:
            failed = snapshot.coverage.failed
            asked = ", ".join(query.asked for query in failed)
            raise ServiceError(
                f"the store did not list its pets of status {asked}: {failed[0].problem}",
                hint="Nothing was changed: what is not listed would look as if it were gone. The "
                "next round tries again.",
            )
        return replace(snapshot, frame=self._in_scope(snapshot.frame))

    def look(
        self, sheet: Sheet, snapshot: Snapshot, base: Base | None, *, may_delete: bool = True
    ) -> Look:
        """Both beside each other; ids that only the sheet knows are looked up."""
        sheet = self._with_known_statuses(sheet, snapshot)
        given = self._plan_base(sheet, snapshot, base)
        based = replace(sheet, base=given, base_refused="")
        compared = self.store.compared(based, snapshot)
        plan = compared.plan(
            self._options(base, may_delete),
            self.job.guard,
            profile=self.store.api.aio.session.profile,
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
        )
        seen = _with_found(snapshot, compared.found)
        return Look(
            sheet=sheet,
            snapshot=snapshot,
            seen=seen,
            found=compared.found,
            base=base,
            plan=plan,
            sight=sight_of(sheet, seen, plan.recognised),
        )

    def _with_known_statuses(self, sheet: Sheet, snapshot: Snapshot) -> Sheet:
        """The sheet, read again where the store uses statuses that nobody would expect."""
        usual = self.store.api.aio.session.profile.statuses
        used = frozenset(snapshot.frame["status"].dropna().unique())
        if used <= set(usual) or not sheet.problems:
            return sheet
        again = self.source.read(self.store, used)
        return again if again.digest == sheet.digest else sheet

    def _plan_base(self, sheet: Sheet, snapshot: Snapshot, base: Base | None) -> Base | None:
        """The base that the plan is made by: in push only of pets that no row names, so that every
        row is compared with the store alone; in pull none.
        """
        if base is None or self.job.mode == "pull":
            return None
        if self.job.mode != "push":
            return base
        named = sight_of(sheet, snapshot, {}).named
        return replace(base, frame=base.frame[~base.frame["id"].isin(named)])

    def _options(self, base: Base | None, may_delete: bool) -> PlanOptions:
        job = self.job
        # Before anything was agreed on, nobody can have taken anything out.
        deletes = job.delete_missing and may_delete and base is not None and job.mode != "pull"
        return PlanOptions(
            delete_missing=deletes,
            match_on=job.match_on,
            two_way=base is None or job.mode == "pull",
            on_conflict="sheet" if job.on_conflict == "sheet" else "store",
        )

    def _in_scope(self, frame: pd.DataFrame) -> pd.DataFrame:
        keep = ~frame["id"].isin(self.elsewhere)
        if self.job.tags:
            wanted = {normal(tag) for tag in self.job.tags}
            keep &= frame["tags"].map(lambda tags: any(normal(t.name) in wanted for t in tags))
        return frame if keep.all() else frame[keep.astype(bool)].reset_index(drop=True)


def _with_found(snapshot: Snapshot, found: Mapping[int, object]) -> Snapshot:
    pets = [pet for pet in found.values() if isinstance(pet, Pet)]
    if not pets:
        return snapshot
    frame = pd.concat([snapshot.frame, frame_from_pets(pets)], ignore_index=True)
    return replace(snapshot, frame=frame.sort_values("id", kind="stable", ignore_index=True))
