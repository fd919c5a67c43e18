"""Look: both sides of a job at one moment, and what follows for either."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec
import numpy as np
import pandas as pd

from petsync.diff.advance import identified
from petsync.diff.agreed import Sight, named_ids, sight_of
from petsync.diff.fields import normal
from petsync.diff.guard import Verdict
from petsync.diff.inbound import inbound
from petsync.diff.intake import Inbound
from petsync.diff.known import pets_of
from petsync.diff.lineage import Match, RowRecord, doubted, without_base
from petsync.diff.match import names_among
from petsync.diff.plan import Plan, PlanOptions
from petsync.diff.round import Counts
from petsync.diff.settled import remembered
from petsync.diff.snapshot import Snapshot, Unanswered
from petsync.diff.unknown import with_unknown
from petsync.diff.vocabulary import Vocabulary
from petsync.errors import ServiceError
from petsync.model import Pet
from petsync.reconcile.config.model import Job
from petsync.reconcile.sources import Source
from petsync.store import Store
from petsync.table.base import Base
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.sheet import Sheet

__all__ = ["Look", "Looker", "sight_beside"]


@dataclass(frozen=True, slots=True)
class Look:
    """Sheet and store beside each other: the `snapshot` is of the job's scope, `seen` has the pets
    outside of it too that rows name. `plan` is what the store is to take, `inbound` what the sheet
    is, None where nothing is ever written to it. What was agreed on of pets that are `elsewhere`
    stays, for the sheet that has their rows now; pets that are `claimed` are in no row here, and
    not missing either. `settled` are the pets of rows without an id.
    `silence`: why the store answered for none of the pets that were looked up, "" where it did.
    `records`: by pet, how the run that added it knew a row that has no id. `begun`: where nobody
    knows whether a run added a row's pet, the row's address by the name that it had then.
    """

    sheet: Sheet
    snapshot: Snapshot
    seen: Snapshot
    base: Base | None
    plan: Plan
    settled: Mapping[int, int]
    sight: Sight
    inbound: Inbound | None = None
    elsewhere: frozenset[int] = frozenset()
    claimed: frozenset[int] = frozenset()
    silence: str = ""
    records: Mapping[int, RowRecord] = field(default_factory=dict)
    begun: Mapping[str, str] = field(default_factory=dict)

    def must_have_answers(self) -> None:
        """Raise ServiceError where the store answered for no pet that was looked up: that is an
        outage, and nothing that a person could decide.
        """
        if self.silence:
            raise ServiceError(
                f"the store answered for none of the pets that were looked up: {self.silence}",
                hint="Nothing was changed: what is not answered for would look as if it were gone. "
                "The next round tries again.",
            )

    def next_base(self) -> Base:
        """What both sides agree on now, or did once."""
        fills = self.inbound is not None
        return self.sight.base(self.seen, self.base, self.elsewhere, fills=fills)


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks at both sides of a job, or of one sheet of a folder. `elsewhere` are the pets that the
    folder's other sheets name: they are none of this one's. What no sheet of a folder names is a
    matter of its first one.
    """

    job: Job
    source: Source
    store: Store
    elsewhere: frozenset[int] = field(default_factory=frozenset)
    is_first: bool = True

    def read(self) -> Sheet:
        """What the sheet says now."""
        return self.source.read(self.store)

    def snapshot(self) -> Snapshot:
        """The pets of the job's scope. Raises where the store did not list all of them."""
        snapshot = self._listed(self.job.statuses)
        keep = ~snapshot.frame["id"].isin(self.elsewhere)
        if self.job.tags:
            wanted = {normal(tag) for tag in self.job.tags}
            lists = snapshot.frame["tags"].tolist()
            keep &= np.array(
                [any(normal(tag.name) in wanted for tag in tags) for tags in lists], bool
            )
        return replace(snapshot, frame=snapshot.frame[keep].reset_index(drop=True))

    def _listed(self, statuses: Sequence[str]) -> Snapshot:
        snapshot = self.store.snapshot(statuses=statuses)
        failed = snapshot.coverage.failed
        if failed:
            asked = ", ".join(query.asked for query in failed)
            raise ServiceError(
                f"the store did not list its pets of status {asked}: {failed[0].problem}",
                hint="Nothing was changed: what is not listed would look as if it were gone. The "
                "next round tries again.",
            )
        return snapshot

    def look(
        self,
        sheet: Sheet,
        snapshot: Snapshot,
        base: Base | None,
        *,
        may_delete: bool = True,
        claimed: frozenset[int] = frozenset(),
    ) -> Look:
        """Both beside each other; ids that only the sheet knows are looked up. Pets that another
        sheet has `claimed` are not missing.
        """
        sheet = self._with_known_statuses(sheet, snapshot, base)
        own = None if base is None else base.without(self.elsewhere)
        meant = {} if own is None else remembered(sheet, own, snapshot.frame)
        rows = replace(sheet, frame=identified(sheet.frame, meant) if meant else sheet.frame)
        near = self._with_namesakes(rows, snapshot)
        # In two-way an undo is a change of the store, which its rows do not take back.
        compared = self.store.compared(
            replace(rows, base=None, base_refused=""),
            near,
            with_undone=self.job.mode == "two-way",
        )
        there = _with(near, [pet for pet in compared.found.values() if isinstance(pet, Pet)])
        missing = None if own is None else own.without(claimed - named_ids(rows))
        given = self._whole(self._plan_base(rows, snapshot, near, missing), rows, there, {})
        if self.job.mode == "push":
            # Every row is compared with the store alone.
            compared = replace(compared, matches=without_base(compared.matches))
        if self.job.mode == "two-way":
            numbered = frozenset[int]() if own is None else own.ids - own.unnumbered
            close = doubted(compared.matches, rows, Vocabulary(there.frame), numbered)
            compared = replace(compared, matches=close)
        doubts = self._doubts(rows, own, there, compared.matches)
        compared = replace(compared, matches={**compared.matches, **doubts})
        plan = replace(compared, sheet=replace(compared.sheet, base=given)).plan(
            self._options(base, may_delete),
            self.job.guard,
            profile=self.store.api.aio.session.profile,
            created=_now(),
        )
        settled = {**meant, **plan.recognised}
        look = Look(
            sheet=sheet,
            snapshot=snapshot,
            seen=there,
            base=base,
            plan=plan,
            settled=settled,
            sight=sight_beside(plan, sheet, there, settled, base),
            elsewhere=self.elsewhere | claimed if self.job.mode == "two-way" else frozenset(),
            claimed=claimed,
            silence=_silence(compared.found.values()),
            records={
                pet_id: compared.matches[row].record
                for row, pet_id in plan.recognised.items()
                if row in compared.matches and compared.matches[row].kind == "certain"
            },
            begun={
                normal(record.said.name): sheet.address(row)
                for row, match in compared.matches.items()
                for record in match.records
                if record.state == "unknown"
            },
        )
        if self.job.mode in ("push", "check"):
            return look
        return replace(look, inbound=self.inbound(look, plan, {}, may_delete=may_delete))

    def inbound(
        self, look: Look, plan: Plan, added: Mapping[int, int], *, may_delete: bool
    ) -> Inbound:
        """What the sheet of a look is to take, beside the plan. `added` are the pets, by row, that
        a run of that plan added without an id.
        """
        job = self.job
        settled = {**look.settled, **added}
        return inbound(
            look.sheet,
            look.seen,
            self._whole(look.base, look.sheet, look.seen, settled),
            lead="store" if job.mode == "pull" else "merge",
            created=_now(),
            plan=plan,
            settled=settled,
            on_conflict=job.on_conflict,
            delete_missing=job.delete_missing and may_delete and look.base is not None,
            # Nobody can tell which of several sheets a new pet belongs into.
            adds=job.folder is None,
            statuses=job.statuses,
            tags=job.tags,
            begun=look.begun,
            guard=job.guard,
        )

    def numbered(self, look: Look, settled: Mapping[int, int]) -> Inbound:
        """The ids that rows of a sheet that leads are to get, beside a look at it."""
        whole = self.inbound(look, look.plan, settled, may_delete=False)
        ids = tuple(each for each in whole.identified if each.lacks_id)
        return msgspec.structs.replace(
            whole, edits=(), added=(), removed=(), notes=(), identified=ids, verdict=Verdict()
        )

    def to_sheet(self, look: Look) -> Counts:
        """What the sheet is to take: rows without an id are to get that of their pet, which may
        have to be added first.
        """
        counts = Counts() if look.inbound is None else look.inbound.touched
        if look.inbound is None and not self.takes_ids(look.sheet):
            return counts
        adds = [each for each in look.plan.adds if each.pet_id is None and self.job.mode != "pull"]
        known = look.settled if look.inbound is None else {}
        return msgspec.structs.replace(counts, update=counts.update + len(adds) + len(known))

    def takes_ids(self, sheet: Sheet) -> bool:
        """Whether a sheet that leads is a file with a column for ids."""
        return self.job.mode == "push" and self.source.path is not None and "id" in sheet.columns

    def _doubts(
        self, sheet: Sheet, base: Base | None, seen: Snapshot, matches: Mapping[int, Match]
    ) -> dict[int, Match]:
        """The rows without an id of which nothing is known, while a pet that was added from such a
        row is in none: each may be that pet's, and would add it a second time.
        """
        if base is None or self.job.match_on or not self._numbers(sheet):
            return {}
        known = {each.record.pet_id for each in matches.values() if each.kind == "certain"}
        lost = base.unnumbered & {*seen.frame["id"]} - named_ids(sheet) - known
        if not lost:
            return {}
        records = tuple(
            RowRecord(
                run_id="",
                on=base.taken_at[:10],
                source=sheet.source,
                row=0,
                said=pet,
                pet_id=pet.id,
                is_added=False,
            )
            for pet in pets_of(sorted(lost), base.frame)
        )
        frame = sheet.frame
        lacking = frame["id"].isna() if "id" in frame else pd.Series(True, frame.index)
        rows = frame.index[lacking & (frame["action"] == "merge")].tolist()
        free = [row for row in rows if row not in matches or matches[row].kind == "other"]
        return {row: Match("doubt", records, is_edited=True) for row in free} if records else {}

    def _numbers(self, sheet: Sheet) -> bool:
        """Whether rows without an id get that of their pet."""
        return self.job.mode == "two-way" or self.takes_ids(sheet)

    def _with_known_statuses(self, sheet: Sheet, snapshot: Snapshot, base: Base | None) -> Sheet:
        """The sheet, read again where unusual statuses are used, or were when both agreed."""
        usual = self.store.api.aio.session.profile.statuses
        frames = [snapshot.frame] if base is None else [snapshot.frame, base.frame]
        used = frozenset[str]().union(*(each["status"].dropna().unique() for each in frames))
        if used <= set(usual) or not sheet.problems:
            return sheet
        again = self.source.read(self.store, used)
        return again if again.digest == sheet.digest else sheet

    def _with_namesakes(self, sheet: Sheet, snapshot: Snapshot) -> Snapshot:
        """The snapshot with pets outside of the scope that rows without an id may mean."""
        lacking = sheet.frame["id"].isna() if "id" in sheet.frame else slice(None)
        rows = sheet.frame[lacking]
        if rows.empty or "name" not in rows or not (self.job.statuses or self.job.tags):
            return snapshot
        whole = self._listed(())
        frame = whole.frame[~whole.frame["id"].isin({*snapshot.frame["id"], *self.elsewhere})]
        if not self.job.match_on or "name" in self.job.match_on:
            names = {normal(name) for name in rows["name"].dropna()}
            frame = frame[names_among(frame["name"], names)]
        return _with(snapshot, pets_from_frame(frame))

    def _whole(
        self, base: Base | None, sheet: Sheet, seen: Snapshot, settled: Mapping[int, int]
    ) -> Base | None:
        """The base; where both sides merge, with the pets too of which nobody knows the past. The
        guard looks after sentinels.
        """
        if self.job.mode != "two-way":
            return base
        return with_unknown(base, sheet, seen, settled, self.job.guard.sentinels)

    def _plan_base(
        self, sheet: Sheet, snapshot: Snapshot, near: Snapshot, base: Base | None
    ) -> Base | None:
        """The base that the plan is made by: in push only of pets that no row names, so that every
        row is compared with the store alone; in pull none. Pets outside of the scope that no row
        names were not taken out of the sheet.
        """
        if base is None or self.job.mode == "pull":
            return None
        named = base.frame["id"].isin(named_ids(sheet))
        keep = ~named if self.job.mode == "push" else named | ~named
        if near is not snapshot:
            outside = near.frame["id"][~near.frame["id"].isin(snapshot.frame["id"])]
            keep &= named | ~base.frame["id"].isin(outside)
        return replace(base, frame=base.frame[keep].reset_index(drop=True))

    def _options(self, base: Base | None, may_delete: bool) -> PlanOptions:
        job = self.job
        # Before anything was agreed on, nobody can have taken anything out.
        deletes = job.delete_missing and may_delete and base is not None and job.mode != "pull"
        return PlanOptions(
            delete_missing=deletes,
            match_on=job.match_on,
            two_way=job.mode == "pull" or (base is None and job.mode != "two-way"),
            on_conflict="sheet" if job.on_conflict == "sheet" else "store",
        )


def sight_beside(
    plan: Plan, sheet: Sheet, seen: Snapshot, settled: Mapping[int, int], base: Base | None
) -> Sight:
    """The sheet beside the pets that were seen. A category is unclear that the plan holds for the
    number beside its name.
    """
    unclear = [each.row for each in plan.conflicts if each.rule == "no-category-name"]
    return sight_of(sheet, seen, settled, base, unclear)


def _silence(found: Collection[Pet | Unanswered | None]) -> str:
    """Why there is no answer at all, "" where there is one or nothing was asked."""
    unanswered = [each for each in found if isinstance(each, Unanswered)]
    if not unanswered or len(unanswered) < len(found):
        return ""
    return f"{unanswered[0].asked}: {unanswered[0].problem}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _with(snapshot: Snapshot, pets: Sequence[Pet]) -> Snapshot:
    if not pets:
        return snapshot
    frame = pd.concat([snapshot.frame, frame_from_pets(pets)], ignore_index=True)
    return replace(snapshot, frame=frame.sort_values("id", kind="stable", ignore_index=True))
