"""Store: the facade over one service, and the composition root of the house.

`connect(...)` gives a `Store`; its `aio` is the same, asynchronous.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd

import petsync.render  # noqa: F401 - plans, reports and sheets show themselves through it
from petsync import sheets
from petsync._loop import LoopThread, blocking
from petsync.apply import engine, journal
from petsync.apply.engine import ApplyOptions, Progress
from petsync.client import auth as auths
from petsync.client import loader
from petsync.client.api import Api, AsyncApi
from petsync.client.auth import Credentials
from petsync.client.lookup import Lookups, look_up
from petsync.client.retry import RetryPolicy
from petsync.client.session import Session
from petsync.client.target import ServiceTarget
from petsync.diff import arguments
from petsync.diff.compare import compare, unproved
from petsync.diff.guard import Guard
from petsync.diff.plan import Plan, PlanOptions
from petsync.diff.report import Report
from petsync.diff.snapshot import Snapshot
from petsync.errors import InterruptedRunError, PlanError, SettingsError, SheetError
from petsync.profile import ServiceProfile, profile_from
from petsync.samples import sample_data
from petsync.settings import Settings, read_toml, resolve
from petsync.table.columns import Column
from petsync.table.sheet import Sheet

__all__ = ["AsyncStore", "Store", "connect", "demo"]

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

    async def plan(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        *,
        delete_missing: bool = False,
        match_on: str | Iterable[Column] = (),
        strict: bool = False,
        two_way: bool = False,
        guard: Guard = _NO_GUARD,
        snapshot: Snapshot | None = None,
        on_progress: Callable[[Lookups], None] | None = None,
    ) -> Plan:
        """What would bring the store to what the sheet says. Sends nothing that changes anything.

        `sheet` may be a file or a DataFrame in the canonical columns too; a missing value in it
        says nothing. With `delete_missing` pets that no row names are deleted, within `guard`.

        A sheet that was exported carries what the store said then: what nobody edited since says
        nothing. `two_way` compares with the store alone. Raises PlanError where what it carries
        cannot be used, and FindingsError where `strict` and the sheet has findings.

        Ids that the snapshot lacks are looked up one by one; `on_progress` is told how many are.
        """
        limits = arguments.guard_of(guard)
        columns = arguments.match_columns(match_on)
        now = (
            await self.snapshot()
            if snapshot is None
            else arguments.checked_snapshot(snapshot, self._session.base_url)
        )
        read = await asyncio.to_thread(self.read, sheet, known_statuses=_statuses_of(now))
        if strict:
            arguments.no_findings(read)
        ids = unproved(read.frame, now.frame)
        return compare(
            now,
            read,
            found=await look_up(self.api, ids, on_progress=on_progress),
            created=_now(),
            options=PlanOptions(delete_missing=delete_missing, match_on=columns, two_way=two_way),
            guard=limits,
            profile=self._session.profile,
        )

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
                ServiceTarget(self.api),
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

    def _statuses(self, given: Sequence[str]) -> tuple[str, ...]:
        return tuple(given) or self._session.profile.statuses


class Store:
    """One service: loaders, plan and apply, and the eight operations as `api`.

    `aio` is the same, asynchronous. A store can be used in a `with` block, and closes itself.
    """

    def __init__(self, aio: AsyncStore, *, owned: ExitStack | None = None) -> None:
        self.aio = aio
        self._loop = LoopThread()
        self._owned = owned or ExitStack()
        self.api = Api(aio.api, self._loop)
        # A script that forgets to close its store leaves no connection and no noise behind.
        self._end = weakref.finalize(self, _close, aio, self._loop, self._owned)

    find_by_status = blocking(AsyncStore.find_by_status)
    find_by_tags = blocking(AsyncStore.find_by_tags)
    snapshot = blocking(AsyncStore.snapshot)
    plan = blocking(AsyncStore.plan)
    apply = blocking(AsyncStore.apply)

    @property
    def url(self) -> str:
        """The service's base URL."""
        return self.api.aio.session.base_url

    def read(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        *,
        tab: str | None = None,
        mapping: Mapping[str, str] | None = None,
    ) -> Sheet:
        """The sheet as it is read for this store."""
        return self.aio.read(sheet, tab=tab, mapping=mapping)

    def check(self, plan: Plan) -> None:
        """Raise PlanError where the plan is for another store, or was applied already."""
        self.aio.check(plan)

    def close(self) -> None:
        """Close the connections, and the embedded store of a `demo()`."""
        self._end.detach()
        _close(self.aio, self._loop, self._owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<petsync.Store {self.url} ({self.api.aio.session.profile.name})>"


def _close(aio: AsyncStore, loop: LoopThread, owned: ExitStack) -> None:
    loop.run(aio.close())
    loop.close()
    owned.close()


def connect(
    url: str | None = None,
    *,
    auth: Credentials | None = None,
    profile: str | ServiceProfile | None = None,
    state: str | Path | None = None,
    allow_http: Sequence[str] | None = None,
    timeout: float | None = None,
    environ: Mapping[str, str] | None = None,
    retry: RetryPolicy | None = None,
) -> Store:
    """A Store for the service at `url`; what is not given comes from PETSYNC_* and petsync.toml.

    `timeout` is in seconds; `environ` stands in for the process's environment. Nothing is sent
    yet. Raises SettingsError.
    """
    arguments = {
        "url": url,
        "profile": profile if isinstance(profile, str) else None,
        "state": state,
        "allow_http": allow_http,
        "timeout": timeout,
    }
    environment = os.environ if environ is None else environ
    settings = resolve(arguments, environment, read_toml(Path.cwd()))
    if settings.url is None:
        raise SettingsError(
            "no service is named",
            hint="Give its address (--url, PETSYNC_URL), or try `petsync demo`.",
        )
    session = Session(
        settings.url,
        credentials=_credentials(settings) if auth is None else auth,
        profile=(
            profile
            if isinstance(profile, ServiceProfile)
            else profile_from(settings.profile, settings.service)
        ),
        retry=retry or RetryPolicy(),
        timeout=settings.timeout,
        allow_http=settings.allow_http,
    )
    return Store(AsyncStore(session, settings))


def demo(*, state: str | Path | None = None, profile: str = "standard") -> Store:
    """A Store on an embedded pet store of its own, filled with the sample catalogue.

    It lives until the store is closed, and listens on this machine only.
    """
    from petsync.sandbox import Sandbox

    owned = ExitStack()
    box = owned.enter_context(Sandbox(profile=profile, seed=sample_data() / "store.json"))
    arguments: dict[str, Any] = {"url": box.url, "profile": profile, "state": state}
    settings = resolve(arguments, {}, {})
    session = Session(
        box.url,
        credentials=auths.bearer(box.token(), api_key=box.api_key),
        profile=profile_from(profile),
    )
    return Store(AsyncStore(session, settings), owned=owned)


def _credentials(settings: Settings) -> Credentials:
    if settings.token is not None:
        return auths.bearer(settings.token, api_key=settings.api_key)
    return auths.none() if settings.api_key is None else auths.api_key(settings.api_key)


def _stopped(report: Report) -> InterruptedRunError:
    done = sum(result.outcome == "applied" for result in report.results)
    error = InterruptedRunError(
        f"run {report.run_id} was stopped: {report.stopped.splitlines()[0]}",
        hint=f"{done} of {len(report.plan.changes)} changes were applied, and none is half done. "
        "A new plan from the result sheet, which has the new pets' ids, holds what is left.",
    )
    error.report = report
    return error


def _statuses_of(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(snapshot.frame["status"].dropna().unique())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
