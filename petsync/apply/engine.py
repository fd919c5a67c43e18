"""The engine: a plan carried out against a Target, each change re-read, journalled, sent, settled.

The service has no ETag, so between the re-read and the request another client can still change
the pet; docs/safety.md states this race.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from petsync.apply.halt import Halt, HaltedError
from petsync.apply.options import ApplyOptions
from petsync.apply.present import Present
from petsync.apply.recorder import Recorder
from petsync.apply.resume import CUT, FRESH, Earlier
from petsync.apply.send import Sender, cause_of
from petsync.apply.settle import (
    absent,
    came_since,
    confirmed,
    is_unassigned,
    settle,
    statuses_of,
)
from petsync.apply.target import Target
from petsync.diff.change import Add, Change
from petsync.diff.plan import Plan
from petsync.diff.progress import Progress
from petsync.diff.report import Report, Result, result_of, without_request
from petsync.errors import ApiError, AuthError, LockedError, PetsyncError
from petsync.model import Pet

__all__ = ["ApplyOptions", "Progress", "run"]

_ROUNDS = 3
"""So often an add without an id, proved absent, is sent in one run."""
_CAME = "a pet that says just this has come since the plan; plan again to see"


async def run(
    plan: Plan,
    target: Target,
    recorder: Recorder,
    *,
    run_id: str,
    started: str,
    options: ApplyOptions,
    earlier: Earlier = FRESH,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Carry out the plan, or what `earlier` sittings left of it, and report on every row.

    A change's failure is its result. What stops the whole run (a refused token, a full disk, a
    cancellation) leaves the rest `skipped`, and `report.stopped` says why: the requests that are
    on their way may end first, within `grace`. A second cancellation cuts them off at once.
    """
    begun = time.monotonic()
    sender = Sender(
        target,
        recorder,
        Present(target, options.recheck),
        options.verify,
        begun=frozenset(earlier.open),
    )
    engine = _Engine(plan, sender, options, earlier, on_progress)
    stopped = await engine.run()
    return Report(
        run_id=run_id,
        plan=plan,
        started=started,
        seconds=round(earlier.seconds + time.monotonic() - begun, 3),
        results=(*engine.results(), *without_request(plan)),
        stopped=stopped,
    )


class _Engine:
    def __init__(
        self,
        plan: Plan,
        sender: Sender,
        options: ApplyOptions,
        earlier: Earlier,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._changes = plan.changes
        self._sender, self._options, self._on_progress = sender, options, on_progress
        self._target, self._recorder = sender.target, sender.recorder
        self._results: dict[int, Result] = dict(earlier.results)
        self._left = earlier.left
        self._failed_here: set[int] = set()
        self._lost_at = dict.fromkeys(earlier.lost, _now())
        self._counts = Counter(result.outcome for result in self._results.values())
        self._unknown_adds(earlier)
        self._halt = Halt(options.grace, sender.on_wire)

    async def run(self) -> str:
        """Work to the end or to a stop; why it stopped, "" if it did not."""
        await self._halt.ended(self._work())
        return self._halt.why

    def results(self) -> Iterator[Result]:
        """A result for each change; those that were not begun are skipped."""
        why = "not begun, as the run was stopped" if self._halt.why else "not begun"
        for number, change in enumerate(self._changes):
            result = self._results.get(number)
            if result is None and number in self._sender.on_wire:
                result = result_of(number, change, "unknown", "cut-off", CUT)
            known = result or self._left.get(number)
            yield known or result_of(number, change, "skipped", "not-begun", why)

    async def _work(self) -> None:
        try:
            await self._phases()
            await self._recorder.flush()
        except HaltedError:
            await self._flushed()
        except PetsyncError as error:
            self._halt.stop(str(error))
            await self._flushed()
        except Exception as error:  # noqa: BLE001 - a surprise must not lose the report
            self._halt.stop(f"unexpected: {error!r}")
            await self._flushed()

    async def _flushed(self) -> None:
        """What a stopped run knows is written too, as far as that is possible."""
        self._recorder.hurry()
        try:
            await self._recorder.flush()
        except PetsyncError as error:
            self._halt.stop(str(error))

    async def _phases(self) -> None:
        if any(map(is_unassigned, self._changes)):
            await self._remember()
        if lost := self._unsettled():
            await self._confirm(lost)
        await self._halt.soon(self._sender.present.read_all())
        await self._phase(lambda change: isinstance(change, Add) and not is_unassigned(change))
        await self._phase(is_unassigned)
        await self._phase(lambda change: change.kind == "update")
        await self._settle()
        if self._failures() > self._options.failures_before_deletes:
            self._hold_deletes()
        else:
            await self._phase(lambda change: change.kind == "delete")

    async def _phase(self, belongs: Callable[[Change], bool]) -> None:
        left = (
            (number, change)
            for number, change in enumerate(self._changes)
            if number not in self._results and belongs(change)
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(self._options.begun):
                self._halt.watch(group.create_task(self._worker(left)))
        self._halt.check()

    async def _worker(self, left: Iterable[tuple[int, Change]]) -> None:
        for number, change in left:
            if self._halt.why:
                return
            self._halt.at(number)
            await self._one(number, change)

    async def _one(self, number: int, change: Change) -> None:
        self._sender.refused.discard(number)
        try:
            result = await self._sender.send(number, change)
            if result.outcome == "unknown":
                # Its last attempt may have been long after its first one.
                self._lost_at[number] = _now()
            self._record(result)
        except PetsyncError as error:
            self._stop(number, change, error)
        except Exception as error:  # noqa: BLE001 - one change's surprise must not lose the report
            self._halt.stop(f"unexpected: {error!r}")
            result = result_of(number, change, "unknown", "unexpected", f"unexpected: {error!r}")
            self._results.setdefault(number, result)

    def _stop(self, number: int, change: Change, error: PetsyncError) -> None:
        """End the run after the changes under way; this one has the result that it can have."""
        self._halt.stop(str(error))
        if isinstance(error, LockedError):
            return
        if isinstance(error, ApiError) and error.may_have_happened:
            return
        self._sender.on_wire.discard(number)
        if isinstance(error, AuthError):
            with suppress(PetsyncError):
                self._record(result_of(number, change, "failed", cause_of(error), error.message))

    def _record(self, result: Result) -> None:
        before = self._results.get(result.number)
        if before == result:
            return
        self._results[result.number] = result
        self._counts[result.outcome] += 1
        if before is not None:
            self._counts[before.outcome] -= 1
        self._recorder.done(result, after=_landed(self._changes[result.number], result))
        self._tell(result)
        self._count_failure(result)

    def _count_failure(self, result: Result) -> None:
        """Stop where too many have failed in this sitting."""
        if result.outcome not in ("failed", "unknown"):
            self._failed_here.discard(result.number)
            return
        self._failed_here.add(result.number)
        most, failures = self._options.max_failures, len(self._failed_here)
        if most is not None and failures > most:
            self._halt.stop(
                f"{failures} changes failed or got no answer, and no more than {most} may "
                "(--max-failures)"
            )

    def _tell(self, result: Result) -> None:
        if self._on_progress is None:
            return
        problems = self._failures() + self._counts["conflict"]
        # What got no answer may have to be sent again: a bar is not to go back.
        done, total = len(self._results) - self._counts["unknown"], len(self._changes)
        self._on_progress(Progress(done, total, result, problems, self._target.traffic))

    def _failures(self) -> int:
        return self._counts["failed"] + self._counts["unknown"]

    def _hold_deletes(self) -> None:
        why = f"held back, as {self._failures()} earlier changes failed"
        for number, change in enumerate(self._changes):
            if change.kind == "delete" and number not in self._results:
                self._record(result_of(number, change, "skipped", "held-back", why))

    # Adds without an id ------------------------------------------------------------------------

    async def _remember(self) -> None:
        """Write down which pets there are before any without an id is added."""
        if self._recorder.known() is not None:
            return
        pets = await self._all()
        for number in came_since(self._changes, pets):
            change = self._changes[number]
            self._record(result_of(number, change, "conflict", "came-meanwhile", _CAME))
        ids = [pet.id for pet in pets if pet.id is not None]
        await self._halt.soon(self._recorder.keep_known(ids))

    async def _settle(self) -> None:
        """Find out what became of the adds without an id that got no answer. Those that are proved
        not to be there are sent again.
        """
        rounds = _ROUNDS
        while unknown := self._unsettled():
            await self._confirm(unknown)
            if not (unknown := self._unsettled()):
                return
            if (wait := self._wait(unknown)) > 0:
                await self._halt.soon(asyncio.sleep(wait))
                continue
            rounds -= 1
            for number in unknown:
                if rounds:
                    self._forget(number)
                else:
                    self._record(absent(self._results[number]))
            await self._phase(is_unassigned)

    def _forget(self, number: int) -> None:
        """The change is to be sent again."""
        self._counts[self._results.pop(number).outcome] -= 1

    def _unsettled(self) -> list[int]:
        return [
            number
            for number, result in self._results.items()
            if result.outcome == "unknown" and is_unassigned(self._changes[number])
        ]

    async def _confirm(self, unknown: list[int]) -> None:
        """Record those of them whose pets are there."""
        known = frozenset(self._recorder.known() or ())
        found = settle(unknown, self._changes, self._results, known, await self._all())
        for number, pet_id in found.items():
            self._record(confirmed(self._results[number], pet_id))

    def _wait(self, unknown: list[int]) -> float:
        """Seconds until a request that got no answer is no longer expected to come through."""
        settled = [
            self._lost_at[number] + self._options.settle - _now()
            for number in unknown
            if number not in self._sender.refused
        ]
        return max(settled, default=0.0)

    async def _all(self) -> list[Pet]:
        return await self._halt.soon(self._target.all(statuses_of(self._changes)))

    def _unknown_adds(self, earlier: Earlier) -> None:
        """What an earlier sitting began and did not see end, is unknown until it is settled."""
        for number in earlier.lost:
            self._results[number] = earlier.left[number]
            self._counts["unknown"] += 1


def _now() -> float:
    return asyncio.get_running_loop().time()


def _landed(change: Change, result: Result) -> Pet | None:
    """The pet that the service gave an id of its own, with that id."""
    if result.assigned_id is None or change.after is None:
        return None
    return msgspec.structs.replace(change.after, id=result.assigned_id)
