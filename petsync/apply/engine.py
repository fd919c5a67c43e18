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

from petsync.apply.assigned import Claims
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
from petsync.errors import ApiError, AuthError, LockedError, PetsyncError, UnavailableError
from petsync.model import MAX_ID, Pet

__all__ = ["ApplyOptions", "Progress", "run"]

_ROUNDS = 3
"""So often an add without an id, proved absent, is sent in one run."""
_NO_SUCH_IDS = (400, 404, 422)
"""Answers of a service whose ids do not go up to the highest there is."""
_NOT_SENT = "not begun, as the service is not available"
_CAME = "the store has more pets that say just this than the plan knew; plan again to see"
_THERE = "the store has a pet already that says just this: {}"


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
        Present(target, "each" if earlier.is_undone else options.recheck),
        options.verify,
        begun=frozenset(earlier.open),
        unverified=frozenset(earlier.unverified),
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
        self._left, self._held = earlier.left, earlier.held
        self._is_undone = earlier.is_undone
        self._failed_here: set[int] = set()
        self._lost_at = dict.fromkeys(earlier.lost, _now())
        self._counts = Counter(result.outcome for result in self._results.values())
        self._claims = Claims(plan.changes, is_shared=not sender.target.assigns_unique_ids)
        self._alone = asyncio.Lock()
        self._resent: Counter[int] = Counter()
        self._lost_ids: dict[int, int] = {}
        self._unread: set[int] = set()
        self._take_up(earlier)
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
        if self._is_undone:
            await self._find_out()
            return
        if any(map(is_unassigned, self._changes)):
            await self._remember()
        await self._verify_again()
        await self._halt.soon(self._sender.present.read_all())
        await self._phase(lambda change: isinstance(change, Add) and not is_unassigned(change))
        await self._phase(is_unassigned)
        await self._phase(lambda change: change.kind == "update")
        await self._settle()
        await self._verify_again()
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
            if is_unassigned(change):
                await self._add(number, change)
            else:
                self._record(await self._sent(number, change))
        except PetsyncError as error:
            self._stop(number, change, error)
        except Exception as error:  # noqa: BLE001 - one change's surprise must not lose the report
            self._halt.stop(f"unexpected: {error!r}")
            result = result_of(number, change, "unknown", "unexpected", f"unexpected: {error!r}")
            self._results.setdefault(number, result)

    async def _sent(self, number: int, change: Change) -> Result:
        result = await self._sender.send(number, change)
        if result.outcome == "unknown":
            # Its last attempt may have been long after its first one.
            self._lost_at[number] = _now()
        return result

    def _stop(self, number: int, change: Change, error: PetsyncError) -> None:
        """End the run after the changes under way; this one has the result that it can have."""
        self._halt.stop(str(error))
        if isinstance(error, LockedError):
            return
        if isinstance(error, ApiError) and error.may_have_happened:
            return
        self._sender.on_wire.discard(number)
        if isinstance(error, UnavailableError) and self._is_fresh(number):
            # The journal has its intent: without this nobody would know whether it was sent.
            with suppress(PetsyncError):
                self._record(result_of(number, change, "skipped", "not-begun", _NOT_SENT))
        if isinstance(error, AuthError):
            with suppress(PetsyncError):
                self._record(result_of(number, change, "failed", cause_of(error), error.message))

    def _is_fresh(self, number: int) -> bool:
        """Whether no earlier attempt of the change can have reached the service."""
        sender = self._sender
        return number not in sender.begun and number not in sender.repeated | self._resent.keys()

    def _record(self, result: Result) -> None:
        before = self._results.get(result.number)
        if before == result:
            return
        self._results[result.number] = result
        if result.cause == "unverified":
            self._unread.add(result.number)
        self._counts[result.outcome] += 1
        if before is not None:
            self._counts[before.outcome] -= 1
        change = self._changes[result.number]
        replaced = None
        if result.cause == "overwrote" and result.assigned_id is not None:
            replaced = self._claims.there.get(result.assigned_id)
        elif isinstance(change, Add) and change.pet_id is not None and result.outcome == "applied":
            self._claims.there[change.pet_id] = change.after
        self._recorder.done(result, after=_landed(change, result), replaced=replaced)
        self._tell(result)
        self._count_failure(result)

    def _count_failure(self, result: Result) -> None:
        """Stop where too many have failed in this sitting."""
        if result.outcome not in ("failed", "unknown") or _is_disputed(result):
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
        """Write down which pets there are before any without an id is added. What an earlier
        process left of such adds is looked for among them.
        """
        if not self._unassigned_left():
            return
        pets = await self._all()
        self._claims.there = {pet.id: pet for pet in pets if pet.id is not None}
        self._claims.check_room(self._claims.there.get(MAX_ID) or await self._highest())
        if self._recorder.known() is None:
            for number, pet_id in came_since(self._changes, pets).items():
                if number not in self._results:
                    self._meet(number, pet_id)
            await self._halt.soon(self._recorder.keep_known(self._claims.there))
            return
        for number in await self._prove(pets):
            self._repeat(number)
        self._confirm(pets)
        left = [
            n for n, c in enumerate(self._changes) if is_unassigned(c) and n not in self._results
        ]
        for number, pet_id in self._arrived(left, pets).items():
            if number in self._sender.begun:
                self._confirm_one(self._left[number], pet_id)
            else:
                self._meet(number, pet_id)

    async def _highest(self) -> Pet | None:
        """The pet of the highest id there is, which no list may have."""
        try:
            return await self._halt.soon(self._target.get(MAX_ID))
        except ApiError as error:
            if error.status in _NO_SUCH_IDS:
                return None
            raise

    def _unassigned_left(self) -> bool:
        """Whether an add without an id is not settled yet."""
        for number, change in enumerate(self._changes):
            result = self._results.get(number)
            if is_unassigned(change) and (result is None or result.outcome == "unknown"):
                return True
        return False

    def _meet(self, number: int, pet_id: int | None) -> None:
        """Do not send an add: its pet is there, or nobody can tell."""
        change = self._changes[number]
        if pet_id is None:
            self._record(result_of(number, change, "conflict", "came-meanwhile", _CAME))
        else:
            why = _THERE.format(pet_id)
            self._record(result_of(number, change, "skipped", "already-so", why, pet_id))

    async def _add(self, number: int, change: Change) -> None:
        """Add a pet without an id; alone, where the service is known to give out an id twice, and
        until it has given one of its own.
        """
        if self._is_alone():
            async with self._alone:
                if self._halt.why:
                    return
                if self._claims.refusal:
                    why = self._claims.refusal
                    self._record(result_of(number, change, "failed", "unsafe-id", why))
                    return
                if self._is_alone():
                    self._record(self._claimed(change, await self._sent(number, change)))
                    return
        self._record(self._claimed(change, await self._sent(number, change)))

    def _is_alone(self) -> bool:
        return self._claims.is_shared or not self._claims.has_assigned

    def _claimed(self, change: Change, result: Result) -> Result:
        """The result, once it is noted which id the service gave."""
        number, pet_id = result.number, result.assigned_id
        if pet_id is None:
            return result
        fate = self._claims.take(number, pet_id)
        if fate == "known":
            name = self._claims.there[pet_id].name
            why = (
                f"the service gave it the id {pet_id} of pet {name!r}, which was there and is gone "
                "now: `petsync undo` of this run puts that pet back"
            )
            return result_of(number, change, "failed", "overwrote", why, pet_id)
        if fate == "shared":
            for other in self._claims.holders(pet_id):
                if other != number:
                    self._record(self._disputed(other, pet_id))
            return self._disputed(number, pet_id)
        if number in self._lost_ids and result.outcome == "applied":
            old = self._lost_ids[number]
            again = f"added again: the service had given its first id {old} to another pet too"
            return msgspec.structs.replace(result, message=again)
        return result

    def _disputed(self, number: int, pet_id: int) -> Result:
        why = f"the service gave it the id {pet_id}, and gave that to another new pet too"
        return result_of(number, self._changes[number], "unknown", "same-id", why, pet_id)

    async def _settle(self) -> None:
        """Find out what became of the adds without an id that got no answer, and whose pet has an
        id that may have been given twice. Those that are proved not to be there are sent again.
        """
        while self._unsettled() or self._claims.to_prove(everything=False):
            pets = await self._all()
            lost = await self._prove(pets)
            self._confirm(pets)
            unknown = [number for number in self._unsettled() if number not in lost]
            if not lost and (wait := self._wait(unknown)) > 0:
                await self._halt.soon(asyncio.sleep(wait))
                continue
            for number in lost or unknown:
                self._resent[number] += 1
                if self._resent[number] < _ROUNDS:
                    self._repeat(number)
                elif number in unknown:
                    self._record(absent(self._results[number]))
            await self._phase(is_unassigned)

    async def _prove(self, listed: Iterable[Pet]) -> set[int]:
        """Find out which adds have the id that the service gave them; those that have not, and are
        not stored.
        """
        groups = self._claims.to_prove(everything=bool(self._unsettled()))
        pets = {pet.id: pet for pet in listed}
        found: dict[int, Pet | None] = {}
        for pet_id, numbers in groups.items():
            found[pet_id] = pets.get(pet_id)
            if not self._claims.is_stored(numbers, found[pet_id]):
                # That a list lacks a pet, or has it otherwise, does not prove it.
                found[pet_id] = await self._halt.soon(self._target.get(pet_id))
        lost = self._claims.lost(found)
        for number in (number for numbers in groups.values() for number in numbers):
            if number in lost:
                self._lose(number)
                continue
            self._claims.prove(number)
            if _is_disputed(self._results[number]):
                self._record(confirmed(self._results[number], self._claims.id_of(number)))
        return set(lost)

    def _lose(self, number: int) -> None:
        """Note that an add's pet is not stored: another has its id, or it is gone."""
        self._lost_ids[number] = pet_id = self._claims.drop(number)
        why = f"the service gave it the id {pet_id}, which another pet has now: it is not stored"
        change = self._changes[number]
        self._record(result_of(number, change, "failed", "same-id", why))

    def _repeat(self, number: int) -> None:
        """Have the change, which was not made, sent again, if it may be."""
        if number in self._held:
            self._record(self._held[number])
        else:
            self._counts[self._results.pop(number).outcome] -= 1

    async def _find_out(self) -> None:
        """Find out what became of the changes of a run that was undone. Nothing is sent: what was
        not made once no request can arrive any more has its result from `held`.
        """
        await self._verify_again()
        unread: set[int] = set()
        while left := self._unknown_left() - unread:
            unassigned = [n for n in left if is_unassigned(self._changes[n])]
            if unassigned:
                pets = await self._all()
                for number in await self._prove(pets):
                    self._repeat(number)
                self._confirm(pets)
            for number in left.difference(unassigned):
                change = self._changes[number]
                result = await self._halt.soon(self._sender.find_out(number, change))
                if result is not None:
                    self._record(result)
                    unread.add(number)
            left = self._unknown_left() - unread
            if (wait := self._wait([*left])) > 0:
                await self._halt.soon(asyncio.sleep(wait))
                continue
            for number in left:
                self._repeat(number)

    def _unknown_left(self) -> set[int]:
        """The held changes of which it can still be found out whether they were made."""
        unknown = {n for n in self._held if self._results[n].outcome == "unknown"}
        return unknown - self._unread

    def _unsettled(self) -> list[int]:
        return [
            number
            for number, result in self._results.items()
            if result.outcome == "unknown"
            and result.assigned_id is None
            and is_unassigned(self._changes[number])
        ]

    def _confirm(self, pets: Iterable[Pet]) -> None:
        """Record those of the adds without an answer whose pets are there."""
        for number, pet_id in self._arrived(self._unsettled(), pets).items():
            self._confirm_one(self._results[number], pet_id)

    def _confirm_one(self, result: Result, pet_id: int) -> None:
        self._claims.remember(result.number, pet_id, is_proved=True)
        self._record(confirmed(result, pet_id))

    def _arrived(self, numbers: Iterable[int], pets: Iterable[Pet]) -> dict[int, int]:
        """The pets of these adds that were not there before the run, by the adds' numbers."""
        known = frozenset(self._recorder.known() or ())
        return settle(numbers, self._changes, self._results, known, pets)

    async def _verify_again(self) -> None:
        """Read back once more what could not be read back as it was sent."""
        here = {n: r for n, r in self._results.items() if n in self._unread}
        ids = {n: r.pet_id if r.assigned_id is None else r.assigned_id for n, r in here.items()}
        for number, pet_id in ids.items():
            change = self._changes[number]
            if pet_id is None:
                continue
            result = await self._halt.soon(self._sender.verify_again(number, change, pet_id))
            if result is not None:
                self._unread.discard(number)
                self._record(result)

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

    def _take_up(self, earlier: Earlier) -> None:
        """Note what an earlier process left: adds without an id that it began and did not see end,
        or whose id another add was given too, are unknown until that is settled; what it could not
        read back as it was sent is read again, and an add of that kind is never sent again.
        """
        for number, result in earlier.results.items():
            if result.cause == "overwrote":
                self._claims.refuse()
            elif is_unassigned(self._changes[number]) and result.assigned_id is not None:
                self._claims.remember(number, result.assigned_id, is_proved=True)
        for number, pet_id in earlier.shared.items():
            self._claims.is_shared = True
            self._claims.remember(number, pet_id, is_proved=False)
        unread = {
            number
            for number in earlier.unverified
            if earlier.is_undone or isinstance(self._changes[number], Add)
        }
        self._unread |= unread
        held = earlier.held if earlier.is_undone else ()
        self._lost_at |= dict.fromkeys(held, _now())
        for number in earlier.lost.union(earlier.shared, unread, held):
            self._results[number] = earlier.left[number]
            self._counts[earlier.left[number].outcome] += 1


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_disputed(result: Result) -> bool:
    """Whether another add was given the same id, and it is not known yet whose pet it is."""
    return result.outcome == "unknown" and result.cause == "same-id"


def _landed(change: Change, result: Result) -> Pet | None:
    """The pet that the service gave an id of its own, with that id."""
    if result.assigned_id is None or change.after is None:
        return None
    return msgspec.structs.replace(change.after, id=result.assigned_id)
