"""AsyncStore: one service, asynchronous."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import pandas as pd

import petsync.apply.planfile
import petsync.render  # noqa: F401 - plans, reports and sheets show themselves through it
from petsync import sheets
from petsync.apply import engine, journal
from petsync.apply.engine import ApplyOptions, Progress
from petsync.apply.watch import check_sentinels
from petsync.client import loader
from petsync.client.api import AsyncApi
from petsync.client.lookup import Found, Lookups, look_up
from petsync.client.session import Session
from petsync.client.target import ServiceTarget
from petsync.diff import arguments
from petsync.diff.align import absent
from petsync.diff.compare import unproved
from petsync.diff.explain import Explanations
from petsync.diff.guard import Guard
from petsync.diff.plan import Plan, PlanOptions
from petsync.diff.report import Report
from petsync.diff.snapshot import Snapshot
from petsync.errors import InterruptedRunError, PlanError, SheetError
from petsync.settings import Settings
from petsync.store.compared import Compared
from petsync.table.columns import Column
from petsync.table.sheet import Sheet

__all__ = ["AsyncStore"]

_NO_GUARD = Guard()


class AsyncStore:
    """One service, asynchronous: loaders, plan and apply, and the eight operations as `api`."""

    def __init__(self, session: Session, settings: Settings) -> None:
        self.api = AsyncApi(session)
        self.settings = settings
        self._session = session

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
        store alone. Raises PlanError where what the sheet carries cannot be used, and
        FindingsError where `strict` and the sheet has findings.

        Ids that the snapshot lacks are looked up one by one; `on_progress` is told how many are.
        """
        asked = _asked(delete_missing, match_on, two_way, on_conflict, guard)
        compared = await self._compared(sheet, snapshot, strict=strict, on_progress=on_progress)
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
        compared = await self._compared(
            sheet, snapshot, strict=strict, on_progress=on_progress, ids=ids
        )
        plan = compared.plan(*asked, profile=self._session.profile, created=_now())
        return compared.why(plan, ids)

    async def apply(
        self,
        plan: Plan,
        *,
        concurrency: int = 16,
        rate: float | None = None,
        verify: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Report:
        """Carry out the plan and report on every row.

        Raises GuardError or StalePlanError before anything is sent, and InterruptedRunError with
        the `report` so far where the run was stopped. `rate` is in requests a second.
        """
        arguments.checked_plan(plan).require_ok()
        arguments.checked_pace(concurrency, rate)
        self.check(plan)
        target = ServiceTarget(self.api)
        await check_sentinels(plan, target)
        run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        started = _now()
        record = journal.begin(self.settings.state, run_id, started, plan)
        if rate is not None:
            # Few at a time, so that a pet is sent soon after it was read again.
            concurrency = min(concurrency, max(1, int(rate / 4)))
        self._session.pace.rate = rate
        try:
            report = await engine.run(
                plan,
                target,
                record,
                run_id=run_id,
                started=started,
                options=ApplyOptions(concurrency=concurrency, verify=verify),
                on_progress=on_progress,
            )
        finally:
            self._session.pace.rate = None
            await record.close()
        if report.stopped:
            raise _stopped(report)
        return report

    def check(self, plan: Plan) -> None:
        """Raise PlanError where the plan is for another store, StalePlanError where it was applied
        already; `apply` does so too.
        """
        if plan.store != self._session.base_url:
            raise PlanError(
                f"the plan is for {plan.store}, and this store is {self._session.base_url}",
                hint="Apply it there, or make a plan for this store.",
            )
        journal.check_unused(self.settings.state, plan)

    def read(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        *,
        tab: str | None = None,
        mapping: Mapping[str, str] | None = None,
        known_statuses: Collection[str] = (),
    ) -> Sheet:
        """The sheet as it is read for this store: with its statuses, and the columns that
        petsync.toml maps, or `mapping`, which comes first.
        """
        if isinstance(sheet, Sheet):
            return sheet
        statuses = self._session.profile.statuses
        known = known_statuses
        if isinstance(sheet, pd.DataFrame):
            return sheets.sheet_from_frame(sheet, statuses=statuses, known_statuses=known)
        if not isinstance(sheet, str | Path):
            raise SheetError(
                f"a {type(sheet).__name__} is no sheet",
                hint="Give the path of a file, a DataFrame, or what read_sheet returns.",
            )
        columns = {**self.settings.columns, **(mapping or {})}
        return sheets.read_sheet(
            sheet, tab=tab, mapping=columns, statuses=statuses, known_statuses=known
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _compared(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        snapshot: Snapshot | None,
        *,
        strict: bool,
        on_progress: Callable[[Lookups], None] | None,
        ids: Iterable[int] = (),
    ) -> Compared:
        """Store and sheet beside each other, with all that has to be looked up; `ids` too."""
        now = (
            await self.snapshot()
            if snapshot is None
            else arguments.checked_snapshot(snapshot, self._session.base_url)
        )
        read = await asyncio.to_thread(self.read, sheet, known_statuses=_statuses_of(now))
        if strict:
            arguments.no_findings(read)
        wanted = [*unproved(read.frame, now.frame), *absent(ids, now.frame)]
        return Compared(now, read, await look_up(self.api, wanted, on_progress=on_progress))

    def _statuses(self, given: Sequence[str]) -> tuple[str, ...]:
        return tuple(given) or self._session.profile.statuses


def _stopped(report: Report) -> InterruptedRunError:
    done = sum(result.outcome == "applied" for result in report.results)
    error = InterruptedRunError(
        f"run {report.run_id} was stopped: {report.stopped.splitlines()[0]}",
        hint=f"{done} of {len(report.plan.changes)} changes were applied, and none is half done. "
        "A new plan from the result sheet, which has the new pets' ids, holds what is left.",
    )
    error.report = report
    return error


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
