"""The apply engine: re-read each pet, journal the intent, send the change, record the outcome.

The service has no ETag, so between the re-read and the request another client can still change
the pet; docs/safety.md states this race.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, defaultdict
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Container,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Literal, Protocol, Self, TypeVar

import msgspec

from petsync.errors import (
    ApiError,
    AuthError,
    DuplicateError,
    GuardError,
    InvalidInputError,
    LockedError,
    NotFoundError,
    PetsyncError,
    RateLimitedError,
    ResponseError,
    ServiceError,
    SettingsError,
    TransportError,
    UnavailableError,
)
from petsync.models import MAX_ID, ApiResponse, Pet
from petsync.plan.change import Add, Change, Delete, Update
from petsync.plan.fields import content, differing, normal, same, with_fields
from petsync.plan.lineage import RowRecord, added_for, find_alike
from petsync.plan.plan import Plan, describe_drift
from petsync.plan.report import (
    Cause,
    Entry,
    Outcome,
    PastRun,
    Progress,
    Report,
    Result,
    result_of,
    without_request,
)
from petsync.protocol.operations import Traffic
from petsync.table.columns import COLUMNS, Column

__all__ = [
    "CUT",
    "FRESH",
    "Again",
    "ApplyOptions",
    "Claims",
    "EarlierResults",
    "Precheck",
    "Progress",
    "Recheck",
    "Recorder",
    "Sender",
    "StoppedError",
    "Stopper",
    "Target",
    "UnsentError",
    "came_since",
    "cause_of",
    "check_sentinels",
    "earlier",
    "given_up",
    "has_more",
    "has_unknown",
    "is_unassigned",
    "mark_absent",
    "mark_confirmed",
    "mismatch",
    "refuse_drifted",
    "result_in",
    "run",
    "settle",
    "settle_superseded",
    "statuses_of",
]


# Adds that got no answer, resolved by comparing the store before and after: never sent again
# before it is proved that their pets are not there.


def is_unassigned(change: Change) -> bool:
    """Whether the change adds a pet whose id the service is to choose."""
    return isinstance(change, Add) and change.pet_id is None


def statuses_of(changes: Iterable[Change]) -> list[str]:
    """The statuses that pets without an id are to have: in their lists they must be looked for."""
    wanted = (c.after.status for c in changes if isinstance(c, Add) and is_unassigned(c))
    return list(dict.fromkeys(status for status in wanted if status))


def came_since(changes: Sequence[Change], pets: Iterable[Pet]) -> dict[int, int | None]:
    """The adds, by their numbers, of which the store has more pets that say just the same than the
    plan knew: each with the pet that is taken for its own, None where that cannot be told.

    It may be that add's own pet, from a run that this one knows nothing of, or a pet of a status
    that the plan did not ask for. No pet is taken for two adds.
    """
    adds = _find_unassigned(changes)
    if not adds:
        return {}
    named = {change.pet_id for change in changes}
    there: dict[Hashable, list[int]] = defaultdict(list)
    for pet in pets:
        if pet.id is not None:
            there[content(pet)].append(pet.id)
    met: dict[int, int | None] = {}
    for number, add in adds.items():
        ids = there[content(add.after)]
        if len(ids) <= add.alike:
            continue
        if add.alike:
            met[number] = None
        elif free := [pet_id for pet_id in ids if pet_id not in named]:
            met[number] = free[0]
            ids.remove(free[0])
    return met


def _find_unassigned(changes: Sequence[Change]) -> dict[int, Add]:
    numbered = enumerate(changes)
    return {n: c for n, c in numbered if isinstance(c, Add) and is_unassigned(c)}


def settle(
    unknown: Iterable[int],
    changes: Sequence[Change],
    results: Mapping[int, Result],
    known: Collection[int],
    now: Iterable[Pet],
) -> dict[int, int]:
    """The ids of the pets of those unknown adds that happened, by their numbers.

    A pet that is new, is what an unknown add wanted, and is no other add's, is that add's pet.
    """
    arrivals = _arrivals(now, _taken_ids(changes, results).union(known))
    found: dict[int, int] = {}
    for number in unknown:
        change = changes[number]
        ids = arrivals[content(change.after)] if change.after is not None else []
        if ids:
            found[number] = ids.pop(0)
    return found


def find_edited(
    unknown: Iterable[int],
    changes: Sequence[Change],
    results: Mapping[int, Result],
    known: Collection[int],
    now: Iterable[Pet],
) -> dict[int, Pet]:
    """Of those unknown adds that `settle` does not find, each with a new pet that is no other add's
    and may be its own, edited since.
    """
    theirs = _taken_ids(changes, results).union(known)
    adds = {number: after for number in unknown if (after := changes[number].after) is not None}
    return find_alike(adds, (pet for pet in now if pet.id is not None and pet.id not in theirs))


def _taken_ids(changes: Sequence[Change], results: Mapping[int, Result]) -> set[int | None]:
    """The ids of the pets that adds have, or name."""
    theirs = {result.assigned_id for result in results.values()}
    theirs.update(change.pet_id for change in changes if isinstance(change, Add))
    return theirs


def mark_confirmed(result: Result, pet_id: int) -> Result:
    """The result of an unknown add whose pet was found."""
    return msgspec.structs.replace(
        result,
        outcome="applied",
        cause="confirmed",
        message="confirmed by comparing the store before and after",
        assigned_id=pet_id,
    )


def mark_absent(result: Result) -> Result:
    """The result of an unknown add of which the store has no pet."""
    said = result.message.rstrip(".?!; ")
    message = f"{said}; the store does not have it, so nothing was added"
    return msgspec.structs.replace(result, outcome="failed", message=message)


def _arrivals(now: Iterable[Pet], known: Collection[int | None]) -> dict[Hashable, list[int]]:
    arrivals: dict[Hashable, list[int]] = defaultdict(list)
    for pet in now:
        if pet.id is not None and pet.id not in known:
            arrivals[content(pet)].append(pet.id)
    for ids in arrivals.values():
        ids.sort()
    return arrivals


# Ids that a service assigned to new pets: whose pet has each of them.
#
# Some services give out an id twice: the highest id plus one, without a lock. The later of two
# pets then replaces the earlier one, so an answer with an id does not prove that the pet is
# stored.


class Claims:
    """The adds without an id that were assigned one, by their numbers in the plan.

    `is_shared`: whether the service is known to give out an id more than once. `there`: the pets
    by id that were in the store when this process began its work, and those that it added under
    an id of the sheet. `refusal`: why no further add without an id may be sent, "" where it may.
    """

    def __init__(self, changes: Sequence[Change], *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.there: dict[int, Pet] = {}
        self.refusal = ""
        self._changes = changes
        self._ids: dict[int, int] = {}
        self._holders: defaultdict[int, list[int]] = defaultdict(list)
        self._unproved: set[int] = set()

    def remember(self, number: int, pet_id: int, *, is_proved: bool) -> None:
        """Note an assignment of an earlier process."""
        self._assign(number, pet_id)
        if not is_proved:
            self._unproved.add(number)

    def check_room(self, highest: Pet | None) -> None:
        """Refuse further adds where a pet has the highest id there is: the service may replace a
        pet. `highest` is the pet of that id.
        """
        if highest is not None:
            self.is_shared = True
            self.there[MAX_ID] = highest
            self.refusal = (
                f"not sent: pet {MAX_ID} ({highest.name!r}) has the highest id there is, and a "
                "service that gives a new pet the highest id plus one would replace a pet. Give "
                "the row an id of its own"
            )

    def refuse(self) -> None:
        """Refuse further adds: one was given the id of a pet that was there, or the highest."""
        self.is_shared = True
        self.refusal = (
            "not sent: the service gave another new pet the id of a pet that was there, or the "
            "highest id there is. Give the row an id of its own"
        )

    @property
    def has_assigned(self) -> bool:
        """Whether the service has given an add of the run an id of its own."""
        return bool(self._ids)

    def take(self, number: int, pet_id: int) -> Literal["own", "shared", "known"]:
        """Note which id the service assigned to an add: `shared` where it assigned that id in this
        run before, `known` where a pet had it before.
        """
        if pet_id in self.there:
            self.refuse()
            return "known"
        if pet_id == MAX_ID:
            self.refuse()
        is_shared = bool(self.holders(pet_id))
        self.is_shared = self.is_shared or is_shared
        self._assign(number, pet_id)
        self._unproved.add(number)
        return "shared" if is_shared else "own"

    def id_of(self, number: int) -> int:
        """The id that the service assigned to the add."""
        return self._ids[number]

    def holders(self, pet_id: int) -> list[int]:
        """The adds that were assigned this id, in the order in which that became known."""
        return [*self._holders.get(pet_id, ())]

    def drop(self, number: int) -> int:
        """Forget the assignment of an add whose pet is not stored; the id that it had."""
        self._unproved.discard(number)
        pet_id = self._ids.pop(number)
        self._holders[pet_id].remove(number)
        return pet_id

    def prove(self, number: int) -> None:
        """The add's pet is stored under its id."""
        self._unproved.discard(number)

    def to_prove(self, *, everything: bool) -> dict[int, list[int]]:
        """The adds whose pets have to be read, by their ids: those of ids that were assigned twice,
        all of this process where ids are shared, and with `everything` those of earlier ones too.
        """
        return {
            pet_id: [*numbers]
            for pet_id, numbers in self._holders.items()
            if numbers
            and (
                everything
                or len(numbers) > 1
                or (self.is_shared and not self._unproved.isdisjoint(numbers))
            )
        }

    def _assign(self, number: int, pet_id: int) -> None:
        if number in self._ids:
            self._holders[self._ids[number]].remove(number)
        self._ids[number] = pet_id
        self._holders[pet_id].append(number)

    def is_stored(self, numbers: Collection[int], pet: Pet | None) -> bool:
        """Whether the pet is what one of the adds sent."""
        return pet is not None and any(True for _ in self._exact(numbers, pet))

    def find_lost(self, found: Mapping[int, Pet | None]) -> dict[int, int]:
        """The adds whose pets are not stored, with the ids that they were assigned; `found` has
        the present pets of the ids of `to_prove`.
        """
        wanted = {
            content(c.after) for c in self._changes if isinstance(c, Add) and c.pet_id is None
        }
        lost: dict[int, int] = {}
        for pet_id, pet in found.items():
            numbers = self.holders(pet_id)
            owner = self._owner(numbers, pet, wanted)
            is_anothers = pet is not None and content(pet) in wanted
            for number in numbers:
                is_open = self.is_shared and number in self._unproved
                if number != owner and (is_open or is_anothers or len(numbers) > 1):
                    lost[number] = pet_id
        return lost

    def _owner(
        self, numbers: Sequence[int], pet: Pet | None, wanted: Collection[object]
    ) -> int | None:
        if pet is None:
            return None
        exact = list(self._exact(numbers, pet))
        if exact:
            return exact[-1]
        if content(pet) in wanted:
            return None
        # A service may store a pet otherwise than it was sent; its name tells whose it is.
        near = {
            number: len(differing(after, pet))
            for number, after in self._iter_unassigned(numbers)
            if normal(after.name) == normal(pet.name)
        }
        return min(near, key=near.__getitem__) if near else None

    def _exact(self, numbers: Collection[int], pet: Pet) -> Iterator[int]:
        return (
            number for number, after in self._iter_unassigned(numbers) if not differing(after, pet)
        )

    def _iter_unassigned(self, numbers: Collection[int]) -> Iterator[tuple[int, Pet]]:
        for number in numbers:
            change = self._changes[number]
            if isinstance(change, Add) and is_unassigned(change):
                yield number, change.after


# Stopper: how a run ends before its end, at once for what waits and in peace for what was sent.


T = TypeVar("T")


class StoppedError(Exception):
    """The run was stopped while something was waited for."""


class Stopper:
    """`why` the run is to stop, "" while it is not. Requests on the wire have `grace` seconds from
    then on; whatever else is under way is cancelled at once.
    """

    def __init__(self, grace: float, on_wire: AbstractSet[int]) -> None:
        self.why = ""
        self._grace, self._on_wire = grace, on_wire
        self._workers: dict[asyncio.Task[Any], int | None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def stop(self, why: str) -> None:
        """Stop for this reason, unless there was one before."""
        if self.why:
            return
        self.why = why
        self._timer = asyncio.get_running_loop().call_later(self._grace, self._end, ())
        self._end(self._on_wire)

    def interrupt(self) -> None:
        """Stop as somebody wants it; a second time, without any grace."""
        if self.why:
            self._end(())
        else:
            self.stop("interrupted")

    async def run_to_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Return when the work has ended. Whoever cancels this meanwhile interrupts it."""
        task = asyncio.ensure_future(work)
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if not task.cancelled():
                    self.interrupt()
        task.result()

    def check(self) -> None:
        """Raise StoppedError where the run is to stop."""
        if self.why:
            raise StoppedError

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Cancel this task with the run; it says what it is at by `at`."""
        self._workers[task] = None
        task.add_done_callback(self._forget)

    def at(self, number: int) -> None:
        """The current task is at the change of this number now."""
        task = asyncio.current_task()
        if task is not None:
            self._workers[task] = number

    async def soon(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of something that changes nothing in the store, cancelled when the run is
        stopped. Raises StoppedError then.
        """
        if self.why:
            work.close()
            raise StoppedError
        task = asyncio.ensure_future(work)
        self.watch(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self.why:
                raise StoppedError from None
            raise

    def _end(self, spared: AbstractSet[int] | tuple[()]) -> None:
        current = asyncio.current_task()
        for task, number in list(self._workers.items()):
            if task is not current and (number is None or number not in spared):
                task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._workers[task]
        if not self._workers and self._timer is not None:
            self._timer.cancel()


# ApplyOptions: how a plan is carried out.


Recheck = Literal["each", "bulk", "none"]
"""How pets are read again before they are changed: one by one just before, all at once at the
beginning, or (for measurements only) not at all.
"""

_MOST = 128
_AHEAD = 16


class ApplyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is applied: `concurrency` changes at a time; with `verify` every changed pet is
    read back; with more than `failures_before_deletes` failures before them, deletes are held back,
    and with more than `max_failures` the run stops. `recheck`: how pets are read again; `rate`: the
    most requests a second.

    Times are in seconds. A stopped run waits `grace` for the requests that are on their way. An add
    without an id that got no answer is taken for not made once the store does not have it and
    `settle` has passed since the last attempt, or, after a crash, since the run was resumed: a
    request may come through late. Raises SettingsError for what makes no sense.
    """

    concurrency: int = 16
    rate: float | None = None
    verify: bool = False
    recheck: Recheck = "each"
    max_failures: int | None = None
    failures_before_deletes: int = 0
    grace: float = 1.5
    settle: float = 30.0

    def __post_init__(self) -> None:
        if type(self.concurrency) is not int or not 1 <= self.concurrency <= _MOST:
            raise SettingsError(f"concurrency is {self.concurrency!r}; it must be 1 to {_MOST}")
        if self.rate is not None and not (_is_number(self.rate) and self.rate > 0):
            text = f"rate is {self.rate!r}; it must be a number of requests a second above 0"
            raise SettingsError(text)
        if self.recheck not in ("each", "bulk", "none"):
            raise SettingsError(f"recheck is {self.recheck!r}; it must be 'each' or 'bulk'")
        most = self.max_failures
        if most is not None and (type(most) is not int or most < 0):
            raise SettingsError(f"max_failures is {most!r}; it must be a whole number from 0")
        if not (_is_number(self.settle) and self.settle >= 0):
            raise SettingsError(f"settle is {self.settle!r}; it must be seconds from 0")

    @classmethod
    def of(cls, saved: Mapping[str, Any], **given: Any) -> Self:
        """The options as a journal has them, those that are given (not None) in their place."""
        known = {name: saved[name] for name in cls.__struct_fields__ if name in saved}
        return cls(**{**known, **{n: value for n, value in given.items() if value is not None}})

    @property
    def at_a_time(self) -> int:
        """Changes at a time: few under a rate, so that a pet is sent soon after it was read."""
        if self.rate is None:
            return self.concurrency
        return min(self.concurrency, max(1, int(self.rate / 4)))

    @property
    def begun(self) -> int:
        """Changes that are begun at a time. Where no pet is read just before it is sent, these are
        some more than are sent, so that their intents reach the disk while others are on the wire.
        """
        if self.recheck == "each" or self.rate is not None:
            return self.at_a_time
        return self.at_a_time + _AHEAD


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


# Target: what the engine needs of a store. The client is one; tests have their own.


Again = Callable[[ApiError], Awaitable[None]]
"""Awaited before a request is sent once more, with the error of the attempt before; what it raises
ends the attempts.
"""


class Target(Protocol):
    """A store, one pet at a time. Errors are those of petsync.errors; each call retries what is
    safe to repeat by itself, and an error's `may_have_happened` is honest. Time passes between
    two attempts, so a change takes `again`, which looks whether it still is to be sent.
    UnavailableError says that the service has been failing for too long to go on.
    """

    @property
    def traffic(self) -> Traffic:
        """How the requests go just now."""

    @property
    def assigns_unique_ids(self) -> bool:
        """Whether each id that the service assigns to a new pet is that pet's alone."""

    async def get(self, pet_id: int) -> Pet | None:
        """The pet as it is now, None if there is none."""

    async def add(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """Add the pet, once; the answer carries its id."""

    async def replace(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """Replace the whole pet of that id."""

    async def rename(
        self, pet_id: int, *, name: str | None, status: str | None, again: Again | None = None
    ) -> None:
        """Change name and status only, by the form operation; None is left out."""

    async def delete(self, pet_id: int, *, again: Again | None = None) -> None:
        """Delete the pet."""

    async def upload(
        self,
        pet_id: int,
        content: bytes,
        *,
        filename: str,
        metadata: str | None = None,
        again: Again | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> ApiResponse:
        """Upload an image; repeated only where the service surely did nothing with it. `on_sent`
        is told how many bytes of `content` have gone out, all in all, in this attempt.
        """

    async def all(self, statuses: Collection[str] = ()) -> list[Pet]:
        """Every pet that the service's queries list; also those of `statuses`, if there are any
        that it is not asked for anyway.
        """


# What a pet is like just before its change, and whether the change may then be sent.


class UnsentError(Exception):
    """The change is not sent; says what becomes of it instead."""

    def __init__(self, outcome: Outcome, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.outcome, self.cause, self.message = outcome, cause, message


@dataclass(slots=True)
class Precheck:
    """Reads pets again. `pets` are those of one reading at the beginning, by id."""

    target: Target
    recheck: Recheck = "each"
    pets: Mapping[int | None, Pet] = field(default_factory=dict)

    async def read_all(self) -> None:
        """Read all pets at once, where that is how they are read again."""
        if self.recheck == "bulk":
            self.pets = {pet.id: pet for pet in await self.target.all()}

    async def prepare(self, change: Change) -> tuple[Pet | None, Pet | None]:
        """The pet as it shall be and as it is. Raises UnsentError where nothing is to be sent."""
        if change.pet_id is None:
            return change.after, None
        now = await self._now(change, change.pet_id)
        if isinstance(change, Add):
            return _addable(change, now), None
        if isinstance(change, Update):
            return _merge_update(change, now), now
        _check_deletable(change, now)
        return None, now

    async def _now(self, change: Change, pet_id: int) -> Pet | None:
        if self.recheck == "none":
            return change.before
        # That a pet is in no list does not prove that it is not there.
        known = None if isinstance(change, Add) else self.pets.get(pet_id)
        return known or await self.target.get(pet_id)


def mismatch(now: Pet | None, wanted: Pet | None) -> str | None:
    """How the store's pet is not what was wanted; None where it is."""
    if now is None or wanted is None:
        return None if now is wanted else ("is gone" if now is None else "is still there")
    wrong = [column for column in COLUMNS if column != "id" and not same(wanted, now, column)]
    return f"differs in {', '.join(wrong)}" if wrong else None


def _addable(change: Add, now: Pet | None) -> Pet:
    if now is None:
        return change.after
    if differing(change.after, now):
        why = "the store has another pet with this id now"
        raise UnsentError("conflict", "came-meanwhile", why)
    raise UnsentError("unchanged", "already-so", "the pet is there already, just so")


def _merge_update(change: Update, now: Pet | None) -> Pet:
    """The present pet with the planned fields; others' changes to other fields stay."""
    if now is None:
        raise UnsentError("conflict", "gone", "the pet is gone")
    moved = [field for field in change.fields if not same(change.before, now, field)]
    if moved and all(same(change.after, now, field) for field in change.fields):
        raise UnsentError("unchanged", "already-so", "the pet is so already")
    if moved:
        raise _build_moved_error(moved)
    return with_fields(now, change.after, change.fields)


def _check_deletable(change: Delete, now: Pet | None) -> None:
    if now is None:
        raise UnsentError("unchanged", "already-gone", "the pet is gone already")
    if moved := differing(change.before, now):
        raise _build_moved_error(moved)


def _build_moved_error(fields: Iterable[str]) -> UnsentError:
    why = f"changed in the store since the plan: {', '.join(fields)}"
    return UnsentError("conflict", "changed-since", why)


# Recorder: where the engine writes what it is about to do, and what became of it.


class Recorder(Protocol):
    """One run's part of a journal, while it is at work. What is handed over is kept in order.

    Everything raises PetsyncError where the journal cannot be written, and LockedError where
    another process has taken over: then nothing more may be sent.
    """

    async def intend(
        self, number: int, change: Change, *, before: Pet | None, after: Pet | None
    ) -> None:
        """Return when it is on disk that this change is about to be sent, `before` being the pet as
        it is and `after` as it is to be. Intended anew, it counts as one more attempt.
        """

    def repeats(self, number: int, why: str) -> None:
        """The change's request is about to be sent once more, as the last attempt ended so."""

    def done(
        self, result: Result, *, after: Pet | None = None, replaced: Pet | None = None
    ) -> None:
        """What became of a change; on disk soon, and in any case before a later intent is. `after`
        is the pet as the service then said it is, where it said so, and `replaced` the pet that a
        new one took the place of.
        """

    async def keep_known(self, ids: Iterable[int]) -> None:
        """Return when it is on disk which pets there were before one without an id was added."""

    def get_known_ids(self) -> Collection[int] | None:
        """The ids of `keep_known`, None where it was never called in this run."""

    async def hold(self) -> None:
        """Return when it is sure that no other process has taken over this run."""

    def hurry(self) -> None:
        """From now on, wait no longer than a moment for others that keep the journal locked."""

    async def flush(self) -> None:
        """Return when all that was handed over is on disk."""


# What earlier sittings of a run left behind: what is done, and what was begun.


CUT = "under way when the run was stopped; `petsync resume` finds out what became of it"
_NEVER_SENT = frozenset({"undone", "replanned"})
_REPLANNED = "not sent: what is left of the run is planned again from the sheet as it is now"
_READ_AGAIN = frozenset({"not-as-sent", "unverified"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierResults:
    """`results` are final, `left` those of changes that are to be tried again. `open` are the
    changes that were begun and have no final result, and `lost` those of them that add a pet
    without an id, and of which nobody knows whether they did. `shared` are adds whose assigned id
    another add was assigned too, and `unverified` changes that the service took and that could not
    be read back as they were sent, each with the pet's id. `held` are changes that are never sent
    again, each with its result where the store shows that it was not made. With `is_given_up`
    nothing at all is sent; with `is_replanned` another plan sends what is left, so that only adds
    without an id are waited for. `seconds` is how long the run took so far.
    """

    results: Mapping[int, Result] = field(default_factory=dict)
    left: Mapping[int, Result] = field(default_factory=dict)
    open: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    shared: Mapping[int, int] = field(default_factory=dict)
    unverified: Mapping[int, int] = field(default_factory=dict)
    held: Mapping[int, Result] = field(default_factory=dict)
    is_given_up: bool = False
    is_replanned: bool = False
    seconds: float = 0.0


FRESH = EarlierResults()
"""A run's first sitting."""


def earlier(plan: Plan, entries: Iterable[Entry], seconds: float) -> EarlierResults:
    """What a resumed run begins with. Final are applied, unchanged, conflict, and what is never
    sent; all else is left to be done.
    """
    entries = list(entries)
    twice = _assigned_twice(entries)
    shared: dict[int, int] = {}
    unverified: dict[int, int] = {}
    results: dict[int, Result] = {}
    left: dict[int, Result] = {}
    began: set[int] = set()
    lost: set[int] = set()
    for entry in entries:
        change = plan.changes[entry.number]
        if is_unassigned(change) and entry.assigned_id in twice and entry.cause != "overwrote":
            shared[entry.number] = entry.assigned_id or 0
            told = result_in(entry, change)
            left[entry.number] = msgspec.structs.replace(told, outcome="unknown", cause="same-id")
            continue
        if _is_final(entry):
            results[entry.number] = result_in(entry, change)
            continue
        if entry.cause == "not-begun":
            continue
        if entry.outcome != "not sent":
            left[entry.number] = result_in(entry, change)
        if entry.intended:
            began.add(entry.number)
            pet_id = entry.pet_id if entry.assigned_id is None else entry.assigned_id
            if entry.cause in _READ_AGAIN and pet_id is not None:
                unverified[entry.number] = pet_id
            elif is_unassigned(change) and entry.outcome in (None, "unknown"):
                lost.add(entry.number)
                if entry.cause == "may-be-there":
                    cut_off = result_of(entry.number, change, "unknown", "cut-off", CUT)
                    left[entry.number] = cut_off
    return EarlierResults(
        results=results,
        left=left,
        open=frozenset(began),
        lost=frozenset(lost),
        shared=shared,
        unverified=unverified,
        seconds=seconds,
    )


def has_more(past: PastRun) -> bool:
    """Whether a run can be resumed: it ended early, or some of its changes failed."""
    trouble = past.counts.get("failed", 0) + past.counts.get("unknown", 0)
    return past.state != "done" or bool(past.open or trouble)


def has_unknown(past: PastRun) -> bool:
    """Whether nobody knows yet what became of some changes of a run."""
    return bool(past.open or past.counts.get("unknown"))


def given_up(
    plan: Plan, before: EarlierResults, by: str = ""
) -> tuple[EarlierResults, list[Result]]:
    """What the resume of a run begins with that run `by` has taken back, or of which another plan
    makes what is left, and the results that it knows at once: nothing is sent, and what is unknown
    is found out.
    """
    cause: Cause = "undone" if by else "replanned"
    why = f"not sent: run {by} took this run back" if by else _REPLANNED
    results = {**before.results}
    known: list[Result] = []
    held = {**before.held}
    for number, change in enumerate(plan.changes):
        left = before.left.get(number)
        if number in results or number in held:
            continue
        over = result_of(number, change, "not sent", cause, why)
        if left is None:
            results[number] = over
            known.append(over)
        elif left.outcome == "failed" and number not in before.unverified:
            results[number] = left
        else:
            held[number] = over
    before = replace(before, results=results, held=held)
    return replace(before, is_given_up=True, is_replanned=not by), known


def settle_superseded(
    plan: Plan, before: EarlierResults, later: str, added: Mapping[int, int]
) -> tuple[EarlierResults, list[Result]]:
    """What the resume of a run begins with once the run `later` of its sheet has begun, and the
    results that it knows at once: rows without an id that this run has not come to are left to the
    later one. `added` are the pets that later runs made of such rows, by the numbers of this plan's
    adds; none of them is added again.
    """
    why = f"run {later} of the same sheet has begun since: resume that one, or plan again"
    known: list[Result] = []
    held: dict[int, Result] = {}
    unclear = before.lost.union(before.shared, before.unverified)
    for number, change in enumerate(plan.changes):
        if number in before.results or not is_unassigned(change):
            continue
        over = result_of(number, change, "conflict", "superseded", why)
        if number in added:
            pet_id = added[number]
            there = f"run {later}, or one before it, added this row as {pet_id}"
            over = result_of(number, change, "unchanged", "already-so", there, pet_id)
        if number not in unclear:
            known.append(over)
        elif number in added:
            held[number] = over
    results = {**before.results, **{result.number: result for result in known}}
    return replace(before, results=results, held=held), known


def settle_overruled(
    plan: Plan, before: EarlierResults, later: Iterable[tuple[str, Entry]]
) -> tuple[EarlierResults, list[Result]]:
    """What the resume of a run begins with once `later` runs have changed its pets, and the results
    that it knows at once: a change that such a run, or its undo, has left otherwise is older, and
    is not sent. `later` are the changes of these runs, each with its run, the newest first.
    """
    newest: dict[tuple[int, Column | None], tuple[str, Pet | None]] = {}
    for run, entry in later:
        pet_id = entry.pet_id if entry.assigned_id is None else entry.assigned_id
        if pet_id is None or entry.kind == "upload":
            continue
        columns = entry.fields if entry.kind == "update" else COLUMNS
        for column in (*columns, None):
            newest.setdefault((pet_id, column), (run, entry.after))
    known: list[Result] = []
    for number, change in enumerate(plan.changes):
        pet_id = change.pet_id
        if pet_id is None or number in before.results or number in before.unverified:
            continue
        for column in change.fields if change.kind == "update" else (None,):
            run, pet = newest.get((pet_id, column), ("", None))
            if run and not _is_left(change, pet, column):
                why = f"run {run} has changed this pet since: plan again"
                known.append(result_of(number, change, "conflict", "superseded", why))
                break
    results = {**before.results, **{result.number: result for result in known}}
    return replace(before, results=results), known


def _is_left(change: Change, pet: Pet | None, column: Column | None) -> bool:
    """Whether a later run left the pet as the change would, or has deleted it."""
    if pet is None or change.after is None:
        return pet is None and not isinstance(change, Add)
    return all(same(change.after, pet, each) for each in ((column,) if column else COLUMNS))


def settle_overtaken(
    plan: Plan, records: Sequence[RowRecord]
) -> tuple[EarlierResults, list[Result]]:
    """What a run begins with whose plan is older than other runs of its sheet, and the results
    that it knows at once. `records` are the rows that those runs added: from the plan's file, or
    from a copy of it.

    A row that one of them added with the same values, from the plan's file, is unchanged. A row
    that may be one of them is a conflict.
    """
    adds = {
        n: each
        for n, each in enumerate(plan.changes)
        if isinstance(each, Add) and each.pet_id is None
    }
    of_tab = [each for each in records if each.tab == plan.tab]
    same = {each.row: each for each in of_tab if each.digest and each.digest == plan.source_digest}
    found = {n: same[each.row] for n, each in adds.items() if each.row in same}
    unedited = {each.pet_id for each in same.values()}
    edited = [each for each in of_tab if each.pet_id not in unedited]
    by_pet = {each.pet_id: each for each in edited}
    added = added_for(plan.changes, plan.tab, edited, skip=found)
    found |= {number: by_pet[pet_id] for number, pet_id in added.items()}
    used = {each.pet_id for each in found.values()}
    unclear = (r for r in edited if r.pet_id not in used and is_of_file(plan, r))
    other = next(unclear, None)
    known: dict[int, Result] = {}
    for number, change in adds.items():
        record = found.get(number, other)
        if record is None:
            continue
        is_this = number in found and is_of_file(plan, record)
        which = "this row" if is_this else "a row of this sheet"
        why = f"run {record.run_id} has added {which} as {record.pet_id} since this plan was made"
        is_same = record.pet_id in unedited or content(record.said) == content(change.after)
        if is_this and is_same:
            known[number] = result_of(number, change, "unchanged", "already-so", why, record.pet_id)
        else:
            known[number] = result_of(
                number, change, "conflict", "superseded", f"{why}: plan again"
            )
    return replace(FRESH, results=known), list(known.values())


def is_of_file(plan: Plan, record: RowRecord) -> bool:
    """Whether the record is of the file that the plan was made from, as it was or edited."""
    digest = plan.source_digest
    is_there = os.path.realpath(record.source) == os.path.realpath(plan.source)
    return bool(digest and record.digest) and (record.digest == digest or is_there)


def _is_final(entry: Entry) -> bool:
    if entry.outcome == "not sent":
        return entry.cause in _NEVER_SENT
    # A pet that took another's place is in the store: sent again, it would be there twice.
    return entry.outcome in ("applied", "unchanged", "conflict") or entry.cause == "overwrote"


def _assigned_twice(entries: Iterable[Entry]) -> frozenset[int]:
    """The ids of which two adds say that the service assigned it to them, or that one says so."""
    given = [e for e in entries if e.pet_id is None and e.assigned_id is not None]
    counts = Counter(entry.assigned_id for entry in given)
    told = {entry.assigned_id for entry in given if entry.cause == "same-id"}
    return frozenset(i for i, count in counts.items() if i is not None and (count > 1 or i in told))


def result_in(entry: Entry, change: Change) -> Result:
    """What a journal's entry says of a change; one without an outcome was cut off."""
    if entry.outcome is None:
        return result_of(entry.number, change, "unknown", "cut-off", CUT)
    told = (entry.outcome, entry.cause, entry.message)
    return result_of(entry.number, change, *told, entry.assigned_id)


# One change: re-read and compare, journal the intent, send, and find out what became of it.


_FORM_FIELDS = frozenset({"name", "status"})
_CONFIRMED = "confirmed by reading it back"
_STILL_OTHER = "sent, but in the store it is still otherwise; plan again to see"
_TRIES = 3
"""So often an add whose pet is proved absent is sent: the client repeats no add by itself."""
_WAIT = 0.2
_GATEWAY = frozenset({502, 504})
"""What a gateway answers while the service behind it may still be at work."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Carries out single changes. AuthError, UnavailableError and what the recorder raises stop the
    run. `on_wire` are the changes whose request may be on its way just now; `refused` those that
    the service itself answered with a failure, so that nothing comes of them later; `begun` those
    that an earlier sitting began: what they find done already, they have done. `unverified` are
    those of them that the service took and that were not read back as they were sent; `repeated`
    are changes that were sent more than once.
    """

    target: Target
    recorder: Recorder
    present: Precheck
    verify: bool = False
    begun: Container[int] = ()
    unverified: Container[int] = ()
    on_wire: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)

    async def send(self, number: int, change: Change) -> Result:
        """What became of the change; never sends anything that the pet's present state forbids.
        Cancelled while its request may be on its way, its number stays in `on_wire`.
        """
        try:
            wanted, now = await self.present.prepare(change)
        except UnsentError as reason:
            return self._build_unsent_result(number, change, reason)
        except (AuthError, UnavailableError):
            raise
        except ApiError as error:
            return result_of(number, change, "failed", cause_of(error), error.message)
        await self.recorder.intend(number, change, before=now, after=wanted)
        self.on_wire.add(number)
        result = await self._result(number, change, wanted, now)
        self.on_wire.discard(number)
        return result

    def _build_unsent_result(self, number: int, change: Change, reason: UnsentError) -> Result:
        if reason.cause.startswith("already-") and number in self.begun:
            return result_of(number, change, "applied", "confirmed", _CONFIRMED)
        if reason.outcome == "conflict" and number in self.unverified:
            return result_of(number, change, "conflict", "not-as-sent", _STILL_OTHER)
        return result_of(number, change, reason.outcome, reason.cause, reason.message)

    async def find_out(self, number: int, change: Change) -> Result | None:
        """What became of a change whose request may have been sent, by its pet's id; None where the
        pet is as it was before. Nothing is sent.
        """
        try:
            await self.present.prepare(change)
        except UnsentError as reason:
            return self._build_unsent_result(number, change, reason)
        except (AuthError, UnavailableError):
            raise
        except ApiError as error:
            return result_of(number, change, "unknown", cause_of(error), error.message)
        return None

    async def verify_again(self, number: int, change: Change, pet_id: int) -> Result | None:
        """The result of a change that was not read back as it was sent, after one more look; None
        where the pet still cannot be read. Nothing is sent.
        """
        try:
            now = await self.target.get(pet_id)
        except (AuthError, UnavailableError):
            raise
        except ApiError:
            return None
        assigned = pet_id if pet_id != change.pet_id else None
        wanted = change.after
        if wanted is not None and isinstance(change, Update) and now is not None:
            wanted = with_fields(now, wanted, change.fields)
        if mismatch(now, wanted) is None:
            return result_of(number, change, "applied", "confirmed", _CONFIRMED, assigned)
        wrong = f"sent, but read back it {mismatch(now, wanted)}; plan again to see"
        # What is still otherwise in a later run is for a person to decide.
        outcome: Outcome = "conflict" if number in self.unverified else "failed"
        return result_of(number, change, outcome, "not-as-sent", wrong, assigned)

    async def _result(
        self, number: int, change: Change, wanted: Pet | None, now: Pet | None
    ) -> Result:
        again = self._again(number, change, wanted, now)
        renewals = _TRIES
        left = _TRIES if isinstance(change, Add) and change.pet_id is not None else 1
        while True:
            left -= 1
            try:
                answer = await self._request(change, wanted, again)
                return await self._after_answer(number, change, wanted, answer)
            except UnsentError as reason:
                return result_of(number, change, reason.outcome, reason.cause, reason.message)
            except _NewerError as newer:
                renewals -= 1
                if not renewals:
                    return result_of(
                        number, change, "failed", cause_of(newer.error), newer.error.message
                    )
                left += 1
                self.repeated.add(number)
                now, wanted = newer.pet, _merge_newer(change, newer.pet)
                await self.recorder.intend(number, change, before=now, after=wanted)
                again = self._again(number, change, wanted, now)
                continue
            except (AuthError, UnavailableError):
                raise
            except ApiError as error:
                result = await self._after_error(number, change, wanted, now, error)
                is_lost = result.outcome == "failed" and error.may_have_happened
                if not (is_lost and left):
                    return result
                self.recorder.repeats(number, error.message)
            self.repeated.add(number)
            await asyncio.sleep(_WAIT * (_TRIES - left))

    async def _request(self, change: Change, wanted: Pet | None, again: Again) -> Pet | None:
        if wanted is None:
            assert change.pet_id is not None
            await self.target.delete(change.pet_id, again=again)
            return None
        if isinstance(change, Add):
            return await self.target.add(wanted, again=again)
        if _fits_form(change, wanted) and wanted.id is not None:
            name, status = wanted.name, wanted.status
            await self.target.rename(wanted.id, name=name, status=status, again=again)
            return None
        return await self.target.replace(wanted, again=again)

    def _again(self, number: int, change: Change, wanted: Pet | None, before: Pet | None) -> Again:
        """The look at the pet before a request is repeated: meanwhile the first attempt may have
        come through, and others may have changed the pet.
        """
        pet_id = change.pet_id

        async def look(error: ApiError) -> None:
            if pet_id is not None:
                now = await self.target.get(pet_id)
                if mismatch(now, wanted) is None:
                    raise UnsentError("applied", "confirmed", _CONFIRMED)
                if mismatch(now, before) is not None:
                    why = "changed in the store between two attempts"
                    raise UnsentError("conflict", "changed-since", why)
                if isinstance(change, Update) and now is not None and now != before:
                    raise _NewerError(now, error)
            self.recorder.repeats(number, error.message)

        return look

    async def _after_answer(
        self, number: int, change: Change, wanted: Pet | None, answer: Pet | None
    ) -> Result:
        assigned = answer.id if isinstance(change, Add) and answer is not None else None
        if assigned == change.pet_id:
            assigned = None
        elif change.pet_id is not None and assigned is not None:
            why = f"the service gave it the id {assigned} in place of {change.pet_id}"
            return result_of(number, change, "applied", "another-id", why, assigned)
        if self.verify or _is_otherwise(answer, wanted):
            pet_id = change.pet_id if change.pet_id is not None else assigned
            try:
                wrong = await self._wrong(pet_id, wanted)
            except ApiError as error:
                why = f"sent, but reading it back failed: {error.message}"
                return result_of(number, change, "unknown", "unverified", why, assigned)
            if wrong is not None:
                return result_of(number, change, "failed", "not-as-sent", wrong, assigned)
        return result_of(number, change, "applied", "", "", assigned)

    async def _wrong(self, pet_id: int | None, wanted: Pet | None) -> str | None:
        if pet_id is None:
            return "the service did not say which id it gave"
        wrong = mismatch(await self.target.get(pet_id), wanted)
        return None if wrong is None else f"sent, but read back it {wrong}"

    async def _after_error(
        self,
        number: int,
        change: Change,
        wanted: Pet | None,
        before: Pet | None,
        error: ApiError,
    ) -> Result:
        cause = cause_of(error)
        if error.may_have_happened and change.pet_id is not None:
            settled = await self._check_outcome(change.pet_id, wanted, before, error)
            return result_of(number, change, *settled)
        if error.may_have_happened:
            if (error.status or 0) >= 400 and error.status not in _GATEWAY:
                self.refused.add(number)
            return result_of(number, change, "unknown", cause, error.message)
        if isinstance(error, DuplicateError):
            why = "a pet with this id came in between"
            return result_of(number, change, "conflict", "came-meanwhile", why)
        if isinstance(error, NotFoundError):
            if wanted is None:
                gone = UnsentError("unchanged", "already-gone", "the pet is gone already")
                return self._build_unsent_result(number, change, gone)
            return result_of(number, change, "conflict", "gone", "the pet is gone")
        return result_of(number, change, "failed", cause, error.message)

    async def _check_outcome(
        self, pet_id: int, wanted: Pet | None, before: Pet | None, error: ApiError
    ) -> tuple[Outcome, Cause, str]:
        """No answer came for a pet whose id is known: the store itself says what happened."""
        cause = cause_of(error)
        try:
            now = await self.target.get(pet_id)
        except (AuthError, UnavailableError) as stopping:
            stopping.may_have_happened = True
            raise
        except ApiError:
            return "unknown", cause, error.message
        if mismatch(now, wanted) is None:
            return "applied", "confirmed", _CONFIRMED
        if mismatch(now, before) is None:
            return "failed", cause, error.message
        return "unknown", cause, f"{error.message}; the pet is otherwise now"


class _NewerError(Exception):
    """Before a request is repeated, the pet is as it was in all that is compared, and newer in what
    is not: fields that petsync does not know.
    """

    def __init__(self, pet: Pet, error: ApiError) -> None:
        super().__init__(error.message)
        self.pet, self.error = pet, error


def _merge_newer(change: Change, now: Pet) -> Pet:
    return now if change.after is None else with_fields(now, change.after, change.fields)


def _is_otherwise(answer: Pet | None, wanted: Pet | None) -> bool:
    """Whether the service's answer to a write shows another pet than was sent. Then only reading
    the pet back tells what is stored: an answer may also leave something out.
    """
    return answer is not None and mismatch(answer, wanted) is not None


def _fits_form(change: Change, wanted: Pet) -> bool:
    """Whether the form operation can do it: it leaves out what is empty, and can clear nothing."""
    if not (_FORM_FIELDS.issuperset(change.fields) and wanted.name):
        return False
    return bool(wanted.status) or "status" not in change.fields


def cause_of(error: ApiError) -> Cause:
    """The stable code of what went wrong with a request."""
    return next((cause for kind, cause in _CAUSES if isinstance(error, kind)), "unexpected")


_CAUSES: tuple[tuple[type[ApiError], Cause], ...] = (
    (AuthError, "no-permission"),
    (RateLimitedError, "too-many"),
    (ServiceError, "service-error"),
    (ResponseError, "bad-answer"),
    (InvalidInputError, "refused"),
    (TransportError, "no-answer"),
    (UnavailableError, "no-answer"),
    (ApiError, "refused"),
)


# The engine: a plan carried out against a Target, each change re-read, journalled, sent, settled.
#
# The service has no ETag, so between the re-read and the request another client can still change
# the pet; docs/safety.md states this race.


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
    earlier: EarlierResults = FRESH,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Carry out the plan, or what `earlier` sittings left of it, and report on every row.

    A change's failure is its result. What stops the whole run (a refused token, a full disk, a
    cancellation) leaves the rest `not sent`, and `report.stopped` says why: the requests that are
    on their way may end first, within `grace`. A second cancellation cuts them off at once.
    """
    begun = time.monotonic()
    sender = Sender(
        target,
        recorder,
        Precheck(target, "each" if earlier.is_given_up else options.recheck),
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
        earlier: EarlierResults,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._changes = plan.changes
        self._named_ids = {each.pet_id: each.source for each in plan.vacant}
        self._sender, self._options, self._on_progress = sender, options, on_progress
        self._target, self._recorder = sender.target, sender.recorder
        self._results: dict[int, Result] = dict(earlier.results)
        self._left, self._held = earlier.left, earlier.held
        self._is_given_up, self._is_replanned = earlier.is_given_up, earlier.is_replanned
        self._failed_here: set[int] = set()
        self._lost_at = dict.fromkeys(earlier.lost, _now())
        self._counts = Counter(result.outcome for result in self._results.values())
        self._claims = Claims(plan.changes, is_shared=not sender.target.assigns_unique_ids)
        self._alone = asyncio.Lock()
        self._resent: Counter[int] = Counter()
        self._lost_ids: dict[int, int] = {}
        self._edited: dict[int, Pet] = {}
        self._unread: set[int] = set()
        self._take_up(earlier)
        self._halt = Stopper(options.grace, sender.on_wire)

    async def run(self) -> str:
        """Work to the end or to a stop; why it stopped, "" if it did not."""
        await self._halt.run_to_end(self._work())
        return self._halt.why

    def results(self) -> Iterator[Result]:
        """A result for each change; those that were not begun are `not sent`."""
        why = "not begun, as the run was stopped" if self._halt.why else "not begun"
        for number, change in enumerate(self._changes):
            result = self._results.get(number)
            if result is None and number in self._sender.on_wire:
                result = result_of(number, change, "unknown", "cut-off", CUT)
            known = result or self._left.get(number)
            yield known or result_of(number, change, "not sent", "not-begun", why)

    async def _work(self) -> None:
        try:
            await self._phases()
            await self._recorder.flush()
        except StoppedError:
            await self._flush_rest()
        except PetsyncError as error:
            self._halt.stop(str(error))
            await self._flush_rest()
        except Exception as error:  # noqa: BLE001 - a surprise must not lose the report
            self._halt.stop(f"unexpected: {error!r}")
            await self._flush_rest()

    async def _flush_rest(self) -> None:
        """What a stopped run knows is written too, as far as that is possible."""
        self._recorder.hurry()
        try:
            await self._recorder.flush()
        except PetsyncError as error:
            self._halt.stop(str(error))

    async def _phases(self) -> None:
        if self._is_given_up:
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
                self._record(await self._send_change(number, change))
        except PetsyncError as error:
            self._stop(number, change, error)
        except Exception as error:  # noqa: BLE001 - one change's surprise must not lose the report
            self._halt.stop(f"unexpected: {error!r}")
            result = result_of(number, change, "unknown", "unexpected", f"unexpected: {error!r}")
            self._results.setdefault(number, result)

    async def _send_change(self, number: int, change: Change) -> Result:
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
                self._record(result_of(number, change, "not sent", "not-begun", _NOT_SENT))
        if isinstance(error, AuthError):
            with suppress(PetsyncError):
                self._record(result_of(number, change, "failed", cause_of(error), error.message))

    def _is_fresh(self, number: int) -> bool:
        """Whether no earlier attempt of the change can have reached the service."""
        sender = self._sender
        return number not in sender.begun and number not in sender.repeated | self._resent.keys()

    def _record(self, result: Result) -> None:
        result = self._with_named_id(result)
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
        after = self._edited.get(result.number) or _build_landed_pet(change, result)
        self._recorder.done(result, after=after, replaced=replaced)
        self._tell(result)
        self._count_failure(result)

    def _with_named_id(self, result: Result) -> Result:
        """The result; one that says so where the service assigned an id that another row names."""
        rows = self._named_ids.get(result.assigned_id or 0)
        if rows is None or result.pet_id is not None or result.cause not in ("", "confirmed"):
            return result
        why = (
            f"the service gave it the id {result.assigned_id}, which {rows} names: the next plan "
            "holds both rows. Take that row out, or its id if it is a new pet"
        )
        return msgspec.structs.replace(result, cause="named-id", message=why)

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
                "(--max-failures, in Python max_failures)"
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
                self._record(result_of(number, change, "not sent", "held-back", why))

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
        if self._recorder.get_known_ids() is None:
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
        for number, pet_id in self._find_arrived(left, pets).items():
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
            self._record(result_of(number, change, "unchanged", "already-so", why, pet_id))

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
                    self._record(self._claim_id(change, await self._send_change(number, change)))
                    return
        self._record(self._claim_id(change, await self._send_change(number, change)))

    def _is_alone(self) -> bool:
        return self._claims.is_shared or not self._claims.has_assigned

    def _claim_id(self, change: Change, result: Result) -> Result:
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
                    self._record(self._dispute_id(other, pet_id))
            return self._dispute_id(number, pet_id)
        if number in self._lost_ids and result.outcome == "applied":
            old = self._lost_ids[number]
            again = f"added again: the service had given its first id {old} to another pet too"
            return msgspec.structs.replace(result, message=again)
        return result

    def _dispute_id(self, number: int, pet_id: int) -> Result:
        why = f"the service gave it the id {pet_id}, and gave that to another new pet too"
        return result_of(number, self._changes[number], "unknown", "same-id", why, pet_id)

    async def _settle(self) -> None:
        """Find out what became of the adds without an id that got no answer, and whose pet has an
        id that may have been given twice. Those that are proved not to be there are sent again.
        """
        while self._find_unsettled() or self._claims.to_prove(everything=False):
            pets = await self._all()
            lost = await self._prove(pets)
            self._confirm(pets)
            unknown = [number for number in self._find_unsettled() if number not in lost]
            if not lost and (wait := self._wait(unknown)) > 0:
                await self._halt.soon(asyncio.sleep(wait))
                continue
            edited = {} if lost else self._hold_edited(unknown, pets)
            for number in lost or [number for number in unknown if number not in edited]:
                self._resent[number] += 1
                if self._resent[number] < _ROUNDS:
                    self._repeat(number)
                elif number in unknown:
                    self._record(mark_absent(self._results[number]))
            await self._phase(is_unassigned)

    async def _prove(self, listed: Iterable[Pet]) -> set[int]:
        """Find out which adds have the id that the service gave them; those that have not, and are
        not stored.
        """
        groups = self._claims.to_prove(everything=bool(self._find_unsettled()))
        pets = {pet.id: pet for pet in listed}
        found: dict[int, Pet | None] = {}
        for pet_id, numbers in groups.items():
            found[pet_id] = pets.get(pet_id)
            if not self._claims.is_stored(numbers, found[pet_id]):
                # That a list lacks a pet, or has it otherwise, does not prove it.
                found[pet_id] = await self._halt.soon(self._target.get(pet_id))
        lost = self._claims.find_lost(found)
        for number in (number for numbers in groups.values() for number in numbers):
            if number in lost:
                self._lose(number)
                continue
            self._claims.prove(number)
            if _is_disputed(self._results[number]):
                self._record(mark_confirmed(self._results[number], self._claims.id_of(number)))
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
        """Find out what became of the changes of a run that is given up. Nothing is sent: what was
        not made once no request can arrive any more has its result from `held`.
        """
        await self._verify_again()
        unread: set[int] = set()
        while left := self._unknown_left() - unread:
            unassigned = [n for n in left if is_unassigned(self._changes[n])]
            pets = await self._all() if unassigned else []
            if unassigned:
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
            adds = [n for n in left if is_unassigned(self._changes[n])]
            if (wait := self._wait(adds if self._is_replanned else [*left])) > 0:
                await self._halt.soon(asyncio.sleep(wait))
                continue
            for number in left.difference(self._hold_edited(adds, pets)):
                self._repeat(number)

    def _unknown_left(self) -> set[int]:
        """The held changes of which it can still be found out whether they were made."""
        unknown = {n for n in self._held if self._results[n].outcome == "unknown"}
        return unknown - self._unread - self._edited.keys()

    def _find_unsettled(self) -> list[int]:
        return [
            number
            for number, result in self._results.items()
            if result.outcome == "unknown"
            and result.assigned_id is None
            and number not in self._edited
            and is_unassigned(self._changes[number])
        ]

    def _confirm(self, pets: Iterable[Pet]) -> None:
        """Record those of the adds without an answer whose pets are there."""
        for number, pet_id in self._find_arrived(self._find_unsettled(), pets).items():
            self._confirm_one(self._results[number], pet_id)

    def _confirm_one(self, result: Result, pet_id: int) -> None:
        self._claims.remember(result.number, pet_id, is_proved=True)
        self._record(mark_confirmed(result, pet_id))

    def _find_arrived(self, numbers: Iterable[int], pets: Iterable[Pet]) -> dict[int, int]:
        """The pets of these adds that were not there before the run, by the adds' numbers."""
        known = frozenset(self._recorder.get_known_ids() or ())
        return settle(numbers, self._changes, self._results, known, pets)

    def _hold_edited(self, numbers: Iterable[int], pets: Iterable[Pet]) -> Collection[int]:
        """Those of the adds without an answer that are not sent again, as a new pet may be theirs,
        edited since: a person has to say whether it is.
        """
        known = frozenset(self._recorder.get_known_ids() or ())
        found = find_edited(numbers, self._changes, self._results, known, pets)
        self._edited |= found
        for number, pet in found.items():
            why = (
                f"no answer came, and pet {pet.id} ({pet.name}) is new and like it: it may be this "
                "row's pet, edited since. Nothing is sent again"
            )
            change = self._changes[number]
            self._record(result_of(number, change, "unknown", "may-be-there", why))
        return found

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

    def _take_up(self, earlier: EarlierResults) -> None:
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
            if earlier.is_given_up or isinstance(self._changes[number], Add)
        }
        self._unread |= unread
        held = earlier.held if earlier.is_given_up else ()
        self._lost_at |= dict.fromkeys(held, _now())
        for number in earlier.lost.union(earlier.shared, unread, held):
            self._results[number] = earlier.left[number]
            self._counts[earlier.left[number].outcome] += 1


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_disputed(result: Result) -> bool:
    """Whether another add was given the same id, and it is not known yet whose pet it is."""
    return result.outcome == "unknown" and result.cause == "same-id"


def _build_landed_pet(change: Change, result: Result) -> Pet | None:
    """The pet that the service gave an id of its own, with that id."""
    if result.assigned_id is None or change.after is None:
        return None
    return msgspec.structs.replace(change.after, id=result.assigned_id)


# A plan's sentinels, looked at once more before anything is sent.


async def check_sentinels(plan: Plan, target: Target) -> None:
    """Raise GuardError unless every sentinel is as it was when the plan was made."""
    ids = [pet.id for pet in plan.sentinels if pet.id is not None]
    refuse_drifted(plan, {pet_id: await target.get(pet_id) for pet_id in ids})


def refuse_drifted(plan: Plan, now: Mapping[int, Pet | None]) -> None:
    """Raise GuardError unless every sentinel of which it is known how it is `now` is as it was."""
    said = [
        problem
        for pet in plan.sentinels
        if pet.id is not None and pet.id in now and (problem := describe_drift(pet, now[pet.id]))
    ]
    if said:
        raise GuardError(
            "the guard refuses this plan: " + "; ".join(said),
            hint="Nothing was sent, and the plan is unused. Find out who changed these pets, then "
            "plan again.",
        )
