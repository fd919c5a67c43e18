"""Runs: a plan applied, or an earlier run resumed, under a journal that holds the store's lock."""

from __future__ import annotations

import asyncio
import os.path
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from petsync._loop import in_thread
from petsync.apply import engine
from petsync.apply.engine import ApplyOptions
from petsync.apply.journal import Journal, Sitting, row_payload
from petsync.apply.resume import (
    FRESH,
    Earlier,
    earlier,
    has_more,
    has_unknown,
    superseded,
    undone,
)
from petsync.apply.watch import check_sentinels
from petsync.client.api import AsyncApi
from petsync.client.session import Session
from petsync.client.target import ServiceTarget
from petsync.diff.history import Past
from petsync.diff.lineage import added_for
from petsync.diff.plan import Plan
from petsync.diff.progress import Progress
from petsync.diff.report import Report
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
            _check_not_undone(past, undone_by(journal.runs(past.store)))
            if not has_more(past):
                return await in_thread(partial(journal.report, past.run_id))
            target = ServiceTarget(self.api)
            await check_sentinels(plan, target)
            sitting = await in_thread(partial(journal.resume, past.run_id))
            # Only now, under the lock, nobody else writes to it any more.
            before = earlier(plan, journal.entries(past.run_id), past.seconds)
            before = _taken_up(plan, past, before, journal, sitting)
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
                    hint=_open_in_undone(runs, undone)
                    or f"`petsync runs` lists the runs of {journal.path}.",
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


def _check_not_undone(past: Past, undone_by: Mapping[str, Past]) -> None:
    """Raise PlanError for a run that was undone, unless something of it is to be found out."""
    by = undone_by.get(past.run_id)
    if by is not None and not has_unknown(past):
        raise PlanError(
            f"run {past.run_id} was undone by run {by.run_id}, and nothing of it is sent any more",
            hint="Plan again from its sheet to make its changes after all.",
        )


def _taken_up(
    plan: Plan, past: Past, before: Earlier, journal: Journal, sitting: Sitting
) -> Earlier:
    """What a resumed run begins with once it is known what else was done since: its undo, or
    another run of its sheet. The journal has the results that this alone decides.
    """
    by = undone_by(journal.runs(past.store)).get(past.run_id)
    if by is not None:
        before, known = undone(plan, before, by.run_id)
    elif (later := journal.later_run(past.run_id)) is not None:
        added = added_for(plan.changes, plan.tab, later.added, skip=before.results)
        before, known = superseded(plan, before, later.run_id, added)
    else:
        return before
    for result in known:
        sitting.done(result)
    return before


def _open_in_undone(runs: Sequence[Past], undone: Mapping[str, Past]) -> str:
    """How to find out what became of changes of a run that was undone, "" where all is known."""
    past = next((run for run in runs if run.run_id in undone and has_unknown(run)), None)
    if past is None or past.kind == "upload":
        return ""
    number = past.open + past.counts.get("unknown", 0)
    changes = "1 change" if number == 1 else f"{number:,} changes"
    return (
        f"Run {past.run_id} was undone, and nobody knows what became of {changes} of it: `petsync "
        f"resume {past.run_id}` finds that out, and sends nothing."
    )


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
