"""AsyncStore: one service, asynchronous."""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import pandas as pd

import petsync.apply.planfile
import petsync.render  # noqa: F401 - plans, reports and sheets show themselves through it
from petsync.apply.options import ApplyOptions
from petsync.client import loader
from petsync.client.api import AsyncApi
from petsync.client.lookup import Found, Lookups, look_up
from petsync.client.session import Session
from petsync.diff import arguments
from petsync.diff.align import absent
from petsync.diff.compare import unproved
from petsync.diff.explain import Explanations
from petsync.diff.guard import Guard
from petsync.diff.history import Past
from petsync.diff.lineage import Match, identify, slots_of
from petsync.diff.plan import Plan, PlanOptions
from petsync.diff.progress import Progress
from petsync.diff.report import Report
from petsync.diff.since import must_have_columns
from petsync.diff.snapshot import Snapshot
from petsync.errors import PlanError, SettingsError
from petsync.settings import Settings
from petsync.store.compared import Compared
from petsync.store.edited import Edited
from petsync.store.past import History, runs_frame
from petsync.store.pictured import Pictured
from petsync.store.pictures import Gallery
from petsync.store.reading import Reader
from petsync.store.running import OnProgress, Runs
from petsync.store.signed import Signed, desk_at
from petsync.store.undone import Undoing
from petsync.table.columns import Column
from petsync.table.sheet import Sheet

__all__ = ["AsyncStore"]

_NO_GUARD = Guard()


class AsyncStore(Pictured, Edited, Signed):
    """One service, asynchronous: loaders, plan and apply, and the eight operations as `api`."""

    def __init__(self, session: Session, settings: Settings) -> None:
        self.api = AsyncApi(session)
        self.settings = settings
        self._session = session
        self._runs = Runs(self.api, settings.state)
        self._desk = desk_at(session, settings)
        self._gallery = Gallery(self.api, settings, self.read, self.snapshot)

    async def find_by_status(self, *statuses: str) -> pd.DataFrame:
        """The pets that have one of the statuses (the profile's, if none is given)."""
        return await loader.find_by_status(self.api, self._statuses(statuses))

    async def find_by_tags(self, *tags: str) -> pd.DataFrame:
        """The pets that carry at least one of the tags, each once."""
        return await loader.find_by_tags(self.api, tags)

    async def snapshot(self, *, statuses: Sequence[str] = ()) -> Snapshot:
        """The store's records now: the union of the status queries, sorted by id. A status whose
        query fails is in `coverage.failed`, and its pets are not there.
        """
        asked = (statuses,) if isinstance(statuses, str) else statuses
        return await loader.snapshot(self.api, self._statuses(asked))

    async def look_up(
        self, ids: Iterable[int], *, on_progress: Callable[[Lookups], None] | None = None
    ) -> dict[int, Found]:
        """What getPetById says of each id, whatever its status: the pet, None where there is none,
        or Unanswered. Raises ApiError where the store cannot be asked at all.
        """
        return await look_up(self.api, ids, on_progress=on_progress)

    async def plan(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        *,
        delete_missing: bool = False,
        match_on: str | Iterable[Column] = (),
        strict: bool = False,
        two_way: bool = False,
        on_conflict: Literal["store", "sheet"] = "store",
        guard: Guard = _NO_GUARD,
        snapshot: Snapshot | None = None,
        on_progress: Callable[[Lookups], None] | None = None,
    ) -> Plan:
        """What would bring the store to what the sheet says. Sends nothing that changes anything.

        `sheet` may be a file or a DataFrame in the canonical columns too; a missing value in it
        says nothing. With `delete_missing` pets that no row names are deleted, within `guard`.

        A sheet that was exported carries what the store said then: what nobody edited since says
        nothing. Of a field that both changed apart the store's value stays, or the sheet's is sent
        with `on_conflict="sheet"`; the conflict is listed in any case. `two_way` compares with the
        store alone. Raises PlanError where what the sheet carries cannot be used, GuardError where
        an export has lost its ids or a column's header, and FindingsError where `strict` and the
        sheet has findings.

        Ids that the snapshot lacks are looked up one by one; `on_progress` is told how many are.
        """
        asked = _asked(delete_missing, match_on, two_way, on_conflict, guard)
        compared = await self.compared(sheet, snapshot, strict=strict, on_progress=on_progress)
        if not two_way:
            must_have_columns(compared.sheet, matches_rows=bool(asked[0].match_on))
        return compared.plan(*asked, profile=self._session.profile, created=_now())

    async def why(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        pet_id: int | Iterable[int],
        *,
        delete_missing: bool = False,
        match_on: str | Iterable[Column] = (),
        strict: bool = False,
        two_way: bool = False,
        on_conflict: Literal["store", "sheet"] = "store",
        guard: Guard = _NO_GUARD,
        snapshot: Snapshot | None = None,
        on_progress: Callable[[Lookups], None] | None = None,
    ) -> Explanations:
        """Which values of export, sheet and store lead to what `plan` with these arguments does
        with the pet (or with each of several), and by which rules: an explanation for each row
        that is about it, or one if there is none. Raises what `plan` raises.
        """
        asked = _asked(delete_missing, match_on, two_way, on_conflict, guard)
        ids = arguments.pet_ids(pet_id)
        compared = await self.compared(
            sheet, snapshot, strict=strict, on_progress=on_progress, ids=ids
        )
        if not two_way:
            must_have_columns(compared.sheet, matches_rows=bool(asked[0].match_on))
        plan = compared.plan(*asked, profile=self._session.profile, created=_now())
        return compared.why(plan, ids)

    async def apply(
        self,
        plan: Plan,
        *,
        concurrency: int = 16,
        rate: float | None = None,
        verify: bool = False,
        recheck: Literal["each", "bulk"] = "each",
        max_failures: int | None = None,
        settle: float | None = None,
        progress: bool | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Report:
        """Carry out the plan and report on every row. The run is journalled below the state folder,
        before and after each request.

        `concurrency` changes at a time at most, fewer while the service is slow or refuses; `rate`
        is the most requests a second. Each pet is read again just before it is changed, or with
        `recheck="bulk"` all pets once at the beginning; `verify` reads each back afterwards. With
        more than `max_failures` failed changes the run stops. `settle` is how many seconds
        after its request an add without an id, that got no answer and is not there, is sent again:
        as long as an answer is waited for, if it is not given. A bar shows the progress in a
        terminal and in a notebook; not with `progress=False`, nor where `on_progress` is told.

        Raises GuardError, StalePlanError or LockedError before anything is sent, and
        InterruptedRunError with the `report` so far where the run was stopped: `resume` goes on.
        """
        options = ApplyOptions(
            concurrency=concurrency,
            rate=rate,
            verify=verify,
            recheck=_public(recheck),
            max_failures=max_failures,
            settle=self.settings.timeout if settle is None else settle,
        )
        arguments.checked_plan(plan).require_ok()
        self.check(plan)
        if plan.needs_count:
            # No file's own word is taken for the size of the store either.
            statuses = plan.coverage.statuses or self._statuses(())
            plan.require_ok(len(await self.snapshot(statuses=statuses)))
        with self._bar(len(plan.changes), "Applying", progress, on_progress) as step:
            return await self._runs.apply(plan, options, step)

    async def resume(
        self,
        run_id: str = "",
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        verify: bool | None = None,
        recheck: Literal["each", "bulk"] | None = None,
        max_failures: int | None = None,
        settle: float | None = None,
        progress: bool | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Report:
        """Finish a run that was stopped, killed, or that left failures: what it began and did not
        see end is found out from the store, what is left is sent, and what is done stays. The
        report is of the whole run.

        `run_id`, or the unique beginning of one, or "" for this store's newest run that has
        anything left. Options that are not given are as they were. Raises PlanError where there is
        no such run, LockedError while it is at work, and what `apply` raises.
        """
        given: dict[str, Any] = {
            "concurrency": concurrency,
            "rate": rate,
            "verify": verify,
            "recheck": None if recheck is None else _public(recheck),
            "max_failures": max_failures,
            "settle": settle,
        }
        past, plan = self.to_resume(arguments.run_name(run_id))
        with self._bar(len(plan.changes), "Resuming", progress, on_progress) as step:
            return await self._runs.resume(past, plan, given, step)

    def to_resume(self, run_id: str = "") -> tuple[Past, Plan]:
        """The run that `resume` would finish, and its plan. Raises PlanError."""
        return self._runs.to_resume(run_id)

    def unfinished(self, sheet: str | Path) -> Past | None:
        """The newest run of this sheet on this store, if it was stopped with something left that
        `resume` would do; None else.
        """
        return self._runs.unfinished(os.path.realpath(sheet))

    async def undo(
        self,
        run_id: str = "",
        *,
        guard: Guard = _NO_GUARD,
        on_progress: Callable[[Lookups], None] | None = None,
    ) -> Plan:
        """The plan that takes a run back, to be applied as every plan; sends nothing that changes
        anything. Pets that were changed since the run are kept, and listed as conflicts.

        `run_id`, or the unique beginning of one, or "" for this store's newest run that changed
        something and is not undone. Raises PlanError where there is none, LockedError while it is
        at work. `on_progress` is told how many pets that no query lists are looked up.
        """
        name = arguments.run_name(run_id)
        return await Undoing(self.api, self.history).plan(name, guard, on_progress)

    async def runs(self) -> pd.DataFrame:
        """The runs on this store, the newest first: id, kind, state, started (UTC), seconds,
        source, total, applied, skipped, conflict, failed, unknown, undoes.
        """
        return runs_frame(await asyncio.to_thread(self.history.runs, self._session.base_url))

    async def run(self, run_id: str) -> Report:
        """What became of every row of a run, as far as it has come. Raises PlanError where there is
        no such run on this store, and for uploads.
        """
        return await asyncio.to_thread(
            self.history.report, arguments.run_name(run_id), self._session.base_url
        )

    @property
    def history(self) -> History:
        """What the journal knows of the past."""
        return History(self.settings.state)

    def check(self, plan: Plan) -> None:
        """Raise PlanError where the plan is for another store, StalePlanError where it was applied
        already; `apply` does so too.
        """
        if plan.store != self._session.base_url:
            raise PlanError(
                f"the plan is for {plan.store}, and this store is {self._session.base_url}",
                hint="Apply it there, or make a plan for this store.",
            )
        self._runs.check_unused(plan)

    def read(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        *,
        tab: str | None = None,
        mapping: Mapping[str, str] | None = None,
        corrections: Mapping[str, str] | None = None,
        known_statuses: Collection[str] = (),
        encoding: str | None = None,
    ) -> Sheet:
        """The sheet as it is read for this store: with its statuses, and the columns that
        petsync.toml maps, or `mapping`, which comes first.

        `encoding` and `corrections`, texts by the address of a cell, are as in `read_sheet`. A
        Sheet with some corrections is read again from its file, with those that it has already;
        SheetError is raised where that has changed, and for the corrections of a DataFrame.
        """
        reader = Reader(statuses=self._session.profile.statuses, columns=self.settings.columns)
        return reader.read(sheet, tab, mapping, corrections, known_statuses, encoding)

    async def close(self, *, for_good: bool = False) -> None:
        """Close the connections, and end the sign-ins that wait for somebody. The next request
        opens other connections; `for_good`, it is an error.
        """
        await self._desk.close()
        await self._session.close(for_good=for_good)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def compared(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        snapshot: Snapshot | None = None,
        *,
        strict: bool = False,
        on_progress: Callable[[Lookups], None] | None = None,
        ids: Iterable[int] = (),
        with_undone: bool = False,
    ) -> Compared:
        """Store and sheet beside each other, with all that has to be looked up, and `ids` too: what
        plans come from. A row without an id whose pet an undo took away is a new one, unless
        `with_undone`. Raises as `plan`.
        """
        now = (
            await self.snapshot()
            if snapshot is None
            else arguments.checked_snapshot(snapshot, self._session.base_url)
        )
        read = await asyncio.to_thread(self.read, sheet, known_statuses=_statuses_of(now))
        if strict:
            arguments.no_findings(read)
        matches = await asyncio.to_thread(self._matches, read, now, with_undone=with_undone)
        known = {each.pet_id for match in matches.values() for each in match.records}
        named = [*ids, *sorted(each for each in known if each is not None)]
        lacking = unproved(read.frame, now.frame)
        renumbered = self.history.renumbered(self._session.base_url) if lacking else {}
        named += [renumbered[each].pet_id for each in lacking if each in renumbered]
        wanted = [*lacking, *absent(named, now.frame)]
        found = await look_up(self.api, wanted, on_progress=on_progress)
        base = read.base
        # Later than the snapshot: an upload is in the journal before the store has its photo.
        uploads = await asyncio.to_thread(self._gallery.added, read)
        is_gone = base is not None and any(found.get(each) is None for each in base.ids & {*found})
        undone = self.history.undone_adds(self._session.base_url) if is_gone else {}
        restored = {} if base is None else self.history.restored(self._session.base_url)
        return Compared(now, read, found, uploads, matches, undone, restored, renumbered)

    def _matches(self, sheet: Sheet, now: Snapshot, *, with_undone: bool) -> Mapping[int, Match]:
        """Which rows without an id earlier runs on this store know."""
        if not slots_of(sheet):
            return {}
        url = self._session.base_url
        records = self.history.row_records(url, sheet, with_undone=with_undone)
        return identify(sheet, records, now.frame)

    def _bar(
        self, total: int, text: str, progress: bool | None, on_progress: OnProgress
    ) -> AbstractContextManager[OnProgress]:
        # tqdm is loaded where something is shown.
        from petsync.render.bar import run_bar

        traffic = self._session.traffic
        return run_bar(total, text=text, show=progress, traffic=traffic, then=on_progress)

    def _statuses(self, given: Sequence[str]) -> tuple[str, ...]:
        return tuple(given) or self._session.profile.statuses


def _public(recheck: object) -> Literal["each", "bulk"]:
    """How pets are read again. Raises SettingsError for what is not to be had here."""
    if recheck == "each" or recheck == "bulk":
        return recheck
    raise SettingsError(f"recheck is {recheck!r}; it must be 'each' or 'bulk'")


def _asked(
    delete_missing: bool,
    match_on: str | Iterable[Column],
    two_way: bool,
    on_conflict: object,
    guard: object,
) -> tuple[PlanOptions, Guard]:
    options = PlanOptions(
        delete_missing=delete_missing,
        match_on=arguments.match_columns(match_on),
        two_way=two_way,
        on_conflict=arguments.winner(on_conflict),
    )
    return options, arguments.guard_of(guard)


def _statuses_of(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(snapshot.frame["status"].dropna().unique())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
