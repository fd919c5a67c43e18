"""The engine: a plan carried out against a Target, each change re-read, journalled, sent, settled.

The service has no ETag, so between the re-read and the request another client can still change
the pet; docs/safety.md states this race.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from petsync.apply.journal import Done, Journal
from petsync.apply.send import Sender, result_of
from petsync.apply.settle import remember, settle
from petsync.apply.target import Target
from petsync.diff.change import Change
from petsync.diff.plan import Plan
from petsync.diff.report import Outcome, Report, Result
from petsync.errors import ApiError, PetsyncError

__all__ = ["ApplyOptions", "Progress", "run"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: `done` of `total` changes, and the last one's result."""

    done: int
    total: int
    last: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """How a plan is applied: `concurrency` changes at a time; with `verify` every changed pet is
    read back; with more than `failures_before_deletes` failures before them, deletes are held back.
    """

    concurrency: int = 16
    verify: bool = False
    failures_before_deletes: int = 0


async def run(
    plan: Plan,
    target: Target,
    journal: Journal,
    *,
    run_id: str,
    started: str,
    options: ApplyOptions,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Carry out the plan and report on every row of it.

    A change's failure is its result. What stops the whole run (a refused token, a full disk, a
    cancellation) leaves the rest `skipped`, and `report.stopped` says why: the changes that are
    under way are finished first. A second cancellation ends those too.
    """
    begun = time.monotonic()
    engine = _Engine(plan, Sender(target, journal, options.verify), options, on_progress)
    stopped = await engine.run()
    return Report(
        run_id=run_id,
        plan=plan,
        started=started,
        seconds=round(time.monotonic() - begun, 3),
        results=(*engine.results(), *_without_request(plan)),
        stopped=stopped,
    )


class _Engine:
    def __init__(
        self,
        plan: Plan,
        sender: Sender,
        options: ApplyOptions,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._changes = plan.changes
        self._sender, self._options, self._on_progress = sender, options, on_progress
        self._results: dict[int, Result] = {}
        self._stopped = ""
        self._told = 0
        self._before = remember((), ())

    async def run(self) -> str:
        """Work to the end or to a stop; why it stopped, "" if it did not."""
        work = asyncio.ensure_future(self._phases())
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stopped = self._stopped or "interrupted"
            await self._wind_down(work)
        except PetsyncError as error:
            self._stopped = str(error)
        return self._stopped

    def results(self) -> Iterator[Result]:
        """A result for each change; those that were not begun are skipped."""
        why = f"not begun: {self._stopped.splitlines()[0]}" if self._stopped else "not begun"
        for number, change in enumerate(self._changes):
            yield self._results.get(number) or result_of(number, change, "skipped", why)

    async def _wind_down(self, work: asyncio.Future[None]) -> None:
        """Wait for the changes under way; cancelled once more, end them as they are."""
        try:
            await work
        except asyncio.CancelledError:
            pass
        except PetsyncError as error:
            self._stopped = str(error)

    async def _phases(self) -> None:
        unassigned = any(c.kind == "add" and c.pet_id is None for c in self._changes)
        if unassigned:
            self._before = remember(await self._sender.target.all(), self._changes)
        await self._phase(lambda change: change.kind == "add" and change.pet_id is not None)
        await self._phase(lambda change: change.kind == "add" and change.pet_id is None)
        await self._phase(lambda change: change.kind == "update")
        if unassigned and any(r.outcome == "unknown" for r in self._results.values()):
            now = await self._sender.target.all()
            for result in settle(list(self._results.values()), self._changes, self._before, now):
                await self._record(result)
        if self._failures() > self._options.failures_before_deletes:
            self._hold_deletes()
        else:
            await self._phase(lambda change: change.kind == "delete")

    async def _phase(self, belongs: Callable[[Change], bool]) -> None:
        changes = ((n, c) for n, c in enumerate(self._changes) if belongs(c))
        async with asyncio.TaskGroup() as group:
            for _ in range(self._options.concurrency):
                group.create_task(self._worker(changes))

    async def _worker(self, changes: Iterator[tuple[int, Change]]) -> None:
        for number, change in changes:
            if self._stopped:
                return
            try:
                result = await self._outcome(number, change)
                await self._record(result)
                self._tell(result)
            except PetsyncError as error:
                is_open = isinstance(error, ApiError) and error.may_have_happened
                self._stop(number, change, str(error), "unknown" if is_open else "failed")
            except Exception as error:  # noqa: BLE001 - one change's surprise must not lose the report
                self._stop(number, change, f"unexpected: {error!r}", "unknown")

    async def _outcome(self, number: int, change: Change) -> Result:
        if self._before.came_since_the_plan(change):
            why = "a pet that says just this has come since the plan; plan again to see"
            return result_of(number, change, "conflict", why)
        return await self._sender.send(number, change)

    def _stop(self, number: int, change: Change, why: str, outcome: Outcome) -> None:
        """End the run after the changes under way; this one keeps the result that it has."""
        self._stopped = self._stopped or why
        message = why.splitlines()[0]
        self._results.setdefault(number, result_of(number, change, outcome, message))

    async def _record(self, result: Result) -> None:
        if self._results.get(result.number) != result:
            self._results[result.number] = result
            await self._sender.journal.write(Done(result=result))

    def _tell(self, result: Result) -> None:
        self._told += 1
        if self._on_progress is not None:
            self._on_progress(Progress(self._told, len(self._changes), result))

    def _failures(self) -> int:
        return sum(result.outcome in ("failed", "unknown") for result in self._results.values())

    def _hold_deletes(self) -> None:
        why = f"held back, as {self._failures()} earlier changes failed"
        for number, change in enumerate(self._changes):
            if change.kind == "delete":
                self._results[number] = result_of(number, change, "skipped", why)


def _without_request(plan: Plan) -> Iterator[Result]:
    """Results for the rows that were no change: conflicts, and rows that errors block."""
    number = len(plan.changes)
    for conflict in plan.open_conflicts:
        yield Result(
            number=number,
            kind="none",
            row=conflict.row,
            source=conflict.source,
            pet_id=conflict.pet_id,
            outcome="conflict",
            message=f"{conflict.subject} {conflict.problem}. {conflict.suggestion}",
        )
        number += 1
    for blocked in plan.blocked:
        yield Result(
            number=number,
            kind="none",
            row=blocked.row,
            source=blocked.source,
            pet_id=blocked.pet_id,
            outcome="failed",
            message=blocked.problem,
        )
        number += 1
