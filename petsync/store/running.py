"""Runs: a plan applied, or an earlier run resumed, under a journal that holds the store's lock."""

from __future__ import annotations

import asyncio
import os.path
import secrets
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from petsync._loop import in_thread
from petsync.apply import engine
from petsync.apply.engine import ApplyOptions
from petsync.apply.journal import Journal, Sitting, row_payload
from petsync.apply.resume import FRESH, Earlier, earlier, has_more
from petsync.apply.watch import check_sentinels
from petsync.client.api import AsyncApi
from petsync.client.session import Session
from petsync.client.target import ServiceTarget
from petsync.diff.history import Past
from petsync.diff.plan import Plan
from petsync.diff.progress import Progress
from petsync.diff.report import Report, result_of
from petsync.diff.standing import undone_by
from petsync.errors import InterruptedRunError, PetsyncError, PlanError, StalePlanError

__all__ = ["OnProgress", "Runs"]

OnProgress = Callable[[Progress], None] | None


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one store; `state` is the folder that their journal is in."""

    api: AsyncApi
    state: Path

    @property
    def session(self) -> Session:
        """The connections to the store."""
        return self.api.session

    def check_unused(self, plan: Plan) -> None:
        """Raise StalePlanError where a run has begun with this very plan."""
        with closing(Journal.open(self.state, create=False)) as journal:
            used = journal.used_by(plan.fingerprint)
        if used is not None:
            again = "make a new plan from the sheet: it holds what is still to be done"
            if plan.undoes:
                again = f"`petsync undo {plan.undoes}` again shows what is left"
            raise StalePlanError(
                f"this plan was applied already, in run {used}",
                hint=f"`petsync resume {used}` finishes that run, if it was stopped. Else {again}.",
            )

    async def apply(self, plan: Plan, options: ApplyOptions, on_progress: OnProgress) -> Report:
        """The report of a plan's first sitting. Raises as AsyncStore.apply."""
        target = ServiceTarget(self.api)
        await check_sentinels(plan, target)
        now = datetime.now(UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        with closing(await in_thread(partial(Journal.open, self.state, create=True))) as journal:
            await asyncio.sleep(0)  # cancelled until now, no run is begun
            begin = partial(
                journal.begin,
                run_id,
                kind="undo" if plan.undoes else "apply",
                store=plan.store,
                source=plan.source,
                started=now.isoformat(timespec="microseconds"),
                total=len(plan.changes),
                plan=plan,
                payload=row_payload(plan),
                fingerprint=plan.fingerprint,
                undoes=plan.undoes,
                options=msgspec.to_builtins(options),
            )
            sitting = await in_thread(begin)
            started = now.isoformat(timespec="microseconds")
            return await self._sit(plan, target, sitting, started, options, FRESH, on_progress)

    async def resume(
        self, past: Past, plan: Plan, given: Mapping[str, Any], on_progress: OnProgress
    ) -> Report:
        """The report of a run after one more sitting; if nothing was left, as it is. Run and plan
        are those of `to_resume`; options that are given (not None) hold in place of what they were.
        Raises as AsyncStore.resume.
        """
        with closing(await in_thread(partial(Journal.open, self.state, create=False))) as journal:
            if not has_more(past):
                return await in_thread(partial(journal.report, past.run_id))
            target = ServiceTarget(self.api)
            await check_sentinels(plan, target)
            sitting = await in_thread(partial(journal.resume, past.run_id))
            # Only now, under the lock, nobody else writes to it any more.
            before = earlier(plan, journal.entries(past.run_id), past.seconds)
            before = _superseded(plan, before, journal.later_run(past.run_id), sitting)
            asked = ApplyOptions.of(journal.options(past.run_id), **given)
            return await self._sit(plan, target, sitting, past.started, asked, before, on_progress)

    def to_resume(self, run_id: str) -> tuple[Past, Plan]:
        """The run that `resume` would finish, and its plan; `run_id` may be "" for the newest run
        that has anything left.
        """
        with closing(Journal.open(self.state, create=False)) as journal:
            past = self.past(journal, run_id)
            return past, journal.plan(past.run_id)

    def unfinished(self, sheet: str) -> Past | None:
        """The newest run of the sheet (its real path), if it was stopped with something left."""
        with closing(Journal.open(self.state, create=False)) as journal:
            runs = journal.runs(self.session.base_url)
        own = (p for p in runs if p.kind == "apply" and os.path.realpath(p.source) == sheet)
        past = next(own, None)
        if past is None or past.state != "stopped" or not has_more(past):
            return None
        return None if past.run_id in undone_by(runs) else past

    def past(self, journal: Journal, run_id: str) -> Past:
        """The run that is to be resumed; unless it is named, none that was undone. Raises PlanError
        where there is none.
        """
        store = self.session.base_url
        if not run_id:
            runs = journal.runs(store)
            undone = undone_by(runs)
            left = (
                run
                for run in runs
                if run.kind != "upload" and has_more(run) and run.run_id not in undone
            )
            past = next(left, None)
            if past is None:
                raise PlanError(
                    f"no run on {store} is to be resumed",
                    hint=f"`petsync runs` lists the runs of {journal.path}.",
                )
            return past
        past = journal.find(run_id)
        if past.kind == "upload":
            raise PlanError(
                f"run {past.run_id} uploaded images",
                hint="`petsync upload` with the same folder or sheet does what is left of it.",
            )
        if past.store != store:
            raise PlanError(
                f"run {past.run_id} was on {past.store}, and this store is {store}",
                hint=f"Resume it there: --url {past.store}",
            )
        return past

    async def _sit(
        self,
        plan: Plan,
        target: ServiceTarget,
        sitting: Sitting,
        started: str,
        options: ApplyOptions,
        before: Earlier,
        on_progress: OnProgress,
    ) -> Report:
        session = self.session
        most = session.gate.most
        target.hold = sitting.hold
        session.pace.rate, session.gate.most = options.rate, options.at_a_time
        try:
            report = await engine.run(
                plan,
                target,
                sitting,
                run_id=sitting.run_id,
                started=started,
                options=options,
                earlier=before,
                on_progress=on_progress,
            )
            report = await _written(sitting, report)
        finally:
            session.pace.rate, session.gate.most = None, most
            with suppress(PetsyncError):
                await sitting.close()
        if report.stopped:
            raise _stopped(report)
        return report


def _superseded(plan: Plan, before: Earlier, later: str | None, sitting: Sitting) -> Earlier:
    """What a run begins with once a later run of its sheet may have added its new pets: the rows
    that neither of its processes came to are left to a new plan.
    """
    if later is None:
        return before
    why = f"run {later} of the same sheet has begun since; plan again to see what is left"
    results = {
        number: result_of(number, change, "conflict", "came-meanwhile", why)
        for number, change in enumerate(plan.changes)
        if change.kind == "add" and change.pet_id is None
        if number not in before.results and number not in before.open
    }
    for result in results.values():
        sitting.done(result)
    return replace(before, results={**before.results, **results})


async def _written(sitting: Sitting, report: Report) -> Report:
    """The report, once the journal has the run's end; stopped, where it cannot take it."""
    try:
        await sitting.finish(stopped=report.stopped)
    except PetsyncError as error:
        return msgspec.structs.replace(report, stopped=report.stopped or str(error))
    return report


def _stopped(report: Report) -> InterruptedRunError:
    done = sum(result.outcome == "applied" for result in report.results)
    error = InterruptedRunError(
        f"run {report.run_id} was stopped: {report.stopped.splitlines()[0]}",
        hint=f"{done:,} of {len(report.plan.changes):,} changes were applied. "
        f"`petsync resume {report.run_id}`, or store.resume() in Python, does the rest, and finds "
        "out what became of requests that were on their way.",
    )
    error.report = report
    return error
