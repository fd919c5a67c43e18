"""The apply engine: for each change, read the pet again, record the intent in the journal, send the
change, and record the outcome.

The service has no ETag: between the last read and the request, another client can still change the
pet. docs/safety.md describes this race.
"""

from __future__ import annotations

import asyncio
import logging
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
from itertools import chain
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from petsync._display import count
from petsync._files import real_path
from petsync._sync import run_to_end
from petsync.apply.options import ApplyOptions, Recheck
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
    TransportError,
    UnavailableError,
)
from petsync.models import MAX_ID, ApiResponse, Pet
from petsync.plan.change import Add, Change, Delete, Tally, Update
from petsync.plan.fields import (
    COLUMNS_OF,
    content,
    differing_columns,
    is_as_expected,
    normalize,
    update_fields,
    with_fields,
)
from petsync.plan.lineage import RowRecord, find_added_pets, find_alike
from petsync.plan.plan import Plan, describe_drift
from petsync.plan.report import (
    NOT_STARTED,
    Cause,
    Entry,
    Outcome,
    PastRun,
    Progress,
    Report,
    Result,
    RunResults,
    collect_results,
    find_undoing_runs,
    is_resumable,
    result_of,
)
from petsync.protocol.operations import Traffic
from petsync.table.columns import COLUMNS, Column
from petsync.table.sheet import FRAME_NAME

__all__ = [
    "CUT_OFF",
    "NO_EARLIER_RESULTS",
    "BeforeRetry",
    "Claims",
    "EarlierResults",
    "Precheck",
    "Progress",
    "Recorder",
    "Sender",
    "StoppedError",
    "Stopper",
    "Target",
    "UnsentError",
    "build_earlier_results",
    "build_result",
    "cause_of",
    "check_sentinels",
    "describe_mismatch",
    "find_unexpected_pets",
    "find_unfinished",
    "give_up",
    "has_unknown",
    "is_unassigned",
    "mark_absent",
    "mark_confirmed",
    "match_unknown_adds",
    "refuse_drifted",
    "run",
    "settle_superseded",
    "statuses_of",
]


# Adds without an id that got no response. A comparison of the store before and after the run shows
# whether the pets were added. Such an add is sent again only if its pet is not in the store.


def is_unassigned(change: Change) -> bool:
    """Return true if the change adds a pet whose id the service assigns."""
    return isinstance(change, Add) and change.pet_id is None


def statuses_of(changes: Iterable[Change]) -> list[str]:
    """Return the statuses of the pets that are added without an id: `Target.all` must also read the
    lists of these statuses.
    """
    wanted = (c.after.status for c in changes if isinstance(c, Add) and is_unassigned(c))
    return list(dict.fromkeys(status for status in wanted if status))


def find_unexpected_pets(changes: Sequence[Change], pets: Iterable[Pet]) -> dict[int, int | None]:
    """Return the adds without an id for which the store has more pets with the same values than
    when the plan was made.

    The result maps the number of the add to the id of the pet that counts as its pet, or to None if
    that is ambiguous. Another run may have added this pet, or the plan did not query its status.
    """
    adds = _find_unassigned(changes)
    if not adds:
        return {}
    named_ids = {change.pet_id for change in changes}
    ids_by_content: dict[Hashable, list[int]] = defaultdict(list)
    for pet in pets:
        if pet.id is not None:
            ids_by_content[content(pet)].append(pet.id)
    matches: dict[int, int | None] = {}
    for number, add in adds.items():
        ids = ids_by_content[content(add.after)]
        if len(ids) <= add.alike:
            continue
        if add.alike:
            matches[number] = None
        elif free := [pet_id for pet_id in ids if pet_id not in named_ids]:
            matches[number] = free[0]
            ids.remove(free[0])
    return matches


def find_namesakes(
    names: Mapping[int, str], pets: Iterable[Pet], known: Container[int | None]
) -> dict[int, int]:
    """Return the adds whose name a pet has that is not `known`, with the id of the first such pet,
    by the add's number. `names` are the normalized names of the adds.
    """
    if not names:
        return {}
    wanted, ids = {*names.values()}, dict[str, int]()
    for pet in pets:
        name = normalize(pet.name)
        if name in wanted and pet.id is not None and pet.id not in known:
            ids.setdefault(name, pet.id)
    return {number: ids[name] for number, name in names.items() if name in ids}


def _find_unassigned(changes: Sequence[Change]) -> dict[int, Add]:
    numbered = enumerate(changes)
    return {n: c for n, c in numbered if isinstance(c, Add) and is_unassigned(c)}


def match_unknown_adds(
    unknown: Iterable[int],
    changes: Sequence[Change],
    results: RunResults,
    known: Collection[int],
    pets: Iterable[Pet],
) -> dict[int, int]:
    """Return the ids of the pets that adds with an unknown outcome have added, by number.

    A new pet with the values of the add counts as its pet, unless another add has its id.
    """
    new_ids = _group_new_pets(pets, _find_claimed_ids(changes, results).union(known))
    found: dict[int, int] = {}
    for number in unknown:
        change = changes[number]
        ids = new_ids[content(change.after)] if change.after is not None else []
        if ids:
            found[number] = ids.pop(0)
    return found


def find_edited(
    unknown: Iterable[int],
    changes: Sequence[Change],
    results: RunResults,
    known: Collection[int],
    pets: Iterable[Pet],
) -> dict[int, Pet]:
    """Return the new pets that adds with an unknown outcome may have added, by number, although
    their values differ: they may have been edited since. No other add has their ids.
    """
    claimed_ids = _find_claimed_ids(changes, results).union(known)
    adds = {number: after for number in unknown if (after := changes[number].after) is not None}
    return find_alike(
        adds, (pet for pet in pets if pet.id is not None and pet.id not in claimed_ids)
    )


def _find_claimed_ids(changes: Iterable[Change], results: RunResults) -> set[int | None]:
    """Return the ids that the service assigned to adds, and those that the plan has for adds."""
    return {*results.assigned_ids, *(c.pet_id for c in changes if isinstance(c, Add))}


def mark_confirmed(result: Result, pet_id: int) -> Result:
    """Return the result of an add without a response whose pet was found in the store."""
    return msgspec.structs.replace(
        result,
        outcome="applied",
        cause="confirmed",
        message="confirmed by comparing the store before and after",
        assigned_id=pet_id,
    )


def mark_absent(result: Result) -> Result:
    """Return the result of an add without a response whose pet is not in the store."""
    reason = result.message.rstrip(".?!; ")
    message = f"{reason}; the store does not have the pet, so it was not added"
    return msgspec.structs.replace(result, outcome="failed", message=message)


def _group_new_pets(
    pets: Iterable[Pet], known: Collection[int | None]
) -> dict[Hashable, list[int]]:
    ids_by_content: dict[Hashable, list[int]] = defaultdict(list)
    for pet in pets:
        if pet.id is not None and pet.id not in known:
            ids_by_content[content(pet)].append(pet.id)
    for ids in ids_by_content.values():
        ids.sort()
    return ids_by_content


# Claims: which add got which id from the service.
#
# Some services give a new pet the highest id plus one, without a lock, so two pets can get the same
# id. The later pet then replaces the earlier one: a response with an id does not prove that the pet
# is stored.


class Claims:
    """The ids that the service assigned to adds without an id. Adds are identified by their number
    in the plan.

    `is_shared` is true if the service may assign an id more than once. `initial_pets` has the pets
    that were in the store when this process started, and those that it added with an id from the
    plan, by id. `refusal` is the reason why no further add without an id may be sent, or "".
    """

    def __init__(self, changes: Sequence[Change], *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.initial_pets: dict[int, Pet] = {}
        self.refusal = ""
        self._changes = changes
        self._ids: dict[int, int] = {}
        self._holders: defaultdict[int, list[int]] = defaultdict(list)
        self._unproved: set[int] = set()

    def restore(self, number: int, pet_id: int, *, is_proved: bool) -> None:
        """Record an id from an earlier process, or one that was found in the store. `is_proved` is
        true if the add's pet is known to be stored with the id.
        """
        self._assign(number, pet_id)
        if not is_proved:
            self._unproved.add(number)

    def check_room(self, highest: Pet | None) -> None:
        """Refuse further adds if there is a pet with the highest possible id: the next new pet
        could replace another pet.
        """
        if highest is not None:
            self.is_shared = True
            self.initial_pets[MAX_ID] = highest
            self.refusal = (
                f"not sent: pet {MAX_ID} ({highest.name!r}) has the highest possible id, and a "
                "service that gives a new pet the highest id plus one would replace a pet. Give "
                "the row an id"
            )

    def refuse_adds(self) -> None:
        """Refuse further adds, because the service has assigned the id of an existing pet, or the
        highest possible id.
        """
        self.is_shared = True
        self.refusal = (
            "not sent: the service gave another new pet the id of an existing pet, or the highest "
            "possible id. Give the row an id"
        )

    @property
    def has_assigned(self) -> bool:
        """True if the service has assigned an id to an add of this run."""
        return bool(self._ids)

    def record_assignment(self, number: int, pet_id: int) -> Literal["own", "shared", "known"]:
        """Record the id that the service assigned to an add. Return "known" if an existing pet had
        it (it is then not recorded), "shared" if another add of this run has it too, else "own".

        After a known id or the highest possible id, further adds are refused.
        """
        if pet_id in self.initial_pets:
            self.refuse_adds()
            return "known"
        if pet_id == MAX_ID:
            self.refuse_adds()
        is_shared = bool(self.find_holders(pet_id))
        self.is_shared = self.is_shared or is_shared
        self._assign(number, pet_id)
        self._unproved.add(number)
        return "shared" if is_shared else "own"

    def id_of(self, number: int) -> int:
        return self._ids[number]

    def find_holders(self, pet_id: int) -> list[int]:
        """Return the adds that got this id, in the order in which the ids were recorded."""
        return [*self._holders.get(pet_id, ())]

    def drop(self, number: int) -> int:
        """Remove the id of an add whose pet is not stored, and return it."""
        self._unproved.discard(number)
        pet_id = self._ids.pop(number)
        self._holders[pet_id].remove(number)
        return pet_id

    def mark_proved(self, number: int) -> None:
        """Record that the add's pet is stored with its id."""
        self._unproved.discard(number)

    def find_unproved(self, *, everything: bool) -> dict[int, list[int]]:
        """Return the adds whose pets must be read to see whether they are stored, by assigned id.

        These are the adds that share an id and, if `is_shared` is true, those that are not yet
        confirmed. With `everything`, they are all adds with an assigned id.
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
        """Return true if the pet has the values of one of the adds."""
        return pet is not None and any(True for _ in self._find_exact(numbers, pet))

    def find_lost(self, found: Mapping[int, Pet | None]) -> dict[int, int]:
        """Return the assigned ids of the adds whose pets are not stored, by number. `found` has the
        current pets with the ids from `find_unproved`.
        """
        wanted_contents = {
            content(c.after) for c in self._changes if isinstance(c, Add) and c.pet_id is None
        }
        lost: dict[int, int] = {}
        for pet_id, pet in found.items():
            numbers = self.find_holders(pet_id)
            owner = self._find_owner(numbers, pet, wanted_contents)
            is_of_another = pet is not None and content(pet) in wanted_contents
            for number in numbers:
                is_unproved = self.is_shared and number in self._unproved
                if number != owner and (is_unproved or is_of_another or len(numbers) > 1):
                    lost[number] = pet_id
        return lost

    def _find_owner(
        self, numbers: Sequence[int], pet: Pet | None, wanted_contents: Collection[object]
    ) -> int | None:
        if pet is None:
            return None
        exact = list(self._find_exact(numbers, pet))
        if exact:
            return exact[-1]
        if content(pet) in wanted_contents:
            return None
        # A service may store other values than those sent: then the name identifies the pet.
        similar = {
            number: len(differing_columns(after, pet))
            for number, after in self._iter_unassigned(numbers)
            if normalize(after.name) == normalize(pet.name)
        }
        return min(similar, key=similar.__getitem__) if similar else None

    def _find_exact(self, numbers: Collection[int], pet: Pet) -> Iterator[int]:
        return (
            number
            for number, after in self._iter_unassigned(numbers)
            if not differing_columns(after, pet)
        )

    def _iter_unassigned(self, numbers: Collection[int]) -> Iterator[tuple[int, Pet]]:
        for number in numbers:
            change = self._changes[number]
            if isinstance(change, Add) and is_unassigned(change):
                yield number, change.after


# Stopper: stops a run early. Requests in flight get time to end; all other work is cancelled at
# once.


T = TypeVar("T")


class StoppedError(Exception):
    """The run is stopping, so the current work must not continue."""


class Stopper:
    """Stops the tasks of a run. `reason` is why the run stops, or "" if it is not stopping.

    The changes in `on_wire` have `grace` seconds to end; all other work is cancelled at once.
    """

    def __init__(self, grace: float, on_wire: AbstractSet[int]) -> None:
        self.reason = ""
        self._grace, self._on_wire = grace, on_wire
        self._workers: dict[asyncio.Task[Any], int | None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def stop(self, why: str) -> None:
        """Stop for the reason `why`, unless the run is already stopping."""
        if self.reason:
            return
        self.reason = why
        self._timer = asyncio.get_running_loop().call_later(self._grace, self._end, ())
        self._end(self._on_wire)

    def interrupt(self) -> None:
        """Stop because the user asked for it. A second call cancels the requests in flight too."""
        if self.reason:
            self._end(())
        else:
            self.stop("interrupted")

    def report(self, listener: Callable[[T], object], step: T) -> None:
        """Call the user's function with a step of the run. If it raises KeyboardInterrupt, the run
        stops; this does not cancel the requests in flight, however often it happens.
        """
        try:
            listener(step)
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            self.stop("interrupted")

    def check(self) -> None:
        """Raise StoppedError if the run is stopping."""
        if self.reason:
            raise StoppedError

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Cancel this task when the run stops. The task calls `set_current` for each change."""
        self._workers[task] = None
        task.add_done_callback(self._forget)

    def set_current(self, number: int) -> None:
        """Record that the current task works on the change with this number."""
        task = asyncio.current_task()
        if task is not None:
            self._workers[task] = number

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work that changes nothing in the store. If the run stops, cancel the
        work and raise StoppedError.
        """
        if self.reason:
            work.close()
            raise StoppedError
        task = asyncio.ensure_future(work)
        self.watch(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self.reason:
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


_LOG = logging.getLogger(__name__)


# Target: what the engine needs from a store. petsync.client.target implements it.


BeforeRetry = Callable[[ApiError], Awaitable[None]]
"""A function that is awaited before a request is sent again, with the error of the last attempt. If
it raises an exception, the request is not sent again.
"""


class Target(Protocol):
    """Access to a store, one pet at a time.

    The methods raise ApiError, whose `may_have_happened` is reliable, and repeat requests if that
    is safe. The store may change between two attempts, so the methods that change a pet take
    `before_retry`, which checks whether the request must still be sent.
    """

    @property
    def traffic(self) -> Traffic:
        """The request counts, and the current state of the requests."""

    @property
    def assigns_unique_ids(self) -> bool:
        """True if the service never assigns an id twice."""

    async def get(self, pet_id: int) -> Pet | None:
        """Return the current pet; None if there is none."""

    async def add(self, pet: Pet, *, before_retry: BeforeRetry | None = None) -> Pet:
        """Add the pet, at most once, and return it from the response, with its id."""

    async def replace(self, pet: Pet, *, before_retry: BeforeRetry | None = None) -> Pet:
        """Replace the pet with the same id."""

    async def update_with_form(
        self,
        pet_id: int,
        *,
        name: str | None,
        status: str | None,
        before_retry: BeforeRetry | None = None,
    ) -> None:
        """Change name and status with updatePetWithForm. A value of None is not sent."""

    async def delete(self, pet_id: int, *, before_retry: BeforeRetry | None = None) -> None:
        """Delete the pet."""

    async def upload(
        self,
        pet_id: int,
        content: bytes,
        *,
        filename: str,
        metadata: str | None = None,
        before_retry: BeforeRetry | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> ApiResponse:
        """Upload an image. The request is repeated only if the service did not process the last
        attempt. `on_sent` gets the number of bytes of `content` that the attempt has sent so far.
        """

    async def list_pets(self, statuses: Collection[str] = ()) -> list[Pet]:
        """Return all pets with one of the profile's statuses or of `statuses`."""


# Precheck: reads a pet just before its change, and decides whether the change may be sent.


class UnsentError(Exception):
    """The change is not sent. The attributes describe its result."""

    def __init__(self, outcome: Outcome, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.outcome, self.cause, self.message = outcome, cause, message


@dataclass(slots=True)
class Precheck:
    """Reads pets again before they are changed."""

    target: Target
    recheck: Recheck = "each"
    pets: Mapping[int | None, Pet] = field(default_factory=dict)
    """The pets that were read at the start, by id."""
    unsent: Container[Column] = ()
    """The columns that the run does not change, because of their owner. The store may change them
    at any time: in an add or an update they are not compared.
    """

    async def read_all(self) -> None:
        """Read all pets, if `recheck` is "bulk"."""
        if self.recheck == "bulk":
            self.pets = {pet.id: pet for pet in await self.target.list_pets()}

    async def prepare(self, change: Change) -> tuple[Pet | None, Pet | None]:
        """Read the pet, and return the pet to send (None for a delete) and the current pet (None
        for an add). Raises UnsentError if the change must not be sent.
        """
        if change.pet_id is None:
            return change.after, None
        now = await self._read_current(change, change.pet_id)
        if isinstance(change, Add):
            return self._check_addable(change, now), None
        if isinstance(change, Update):
            return _merge_update(change, now), now
        _check_deletable(change, now)
        return None, now

    def describe_mismatch(self, change: Change, now: Pet | None, wanted: Pet | None) -> str | None:
        """Return how the current pet differs from the one that the change should find or leave, in
        words; None if it does not.
        """
        # A delete also loses the values that the run does not change.
        return describe_mismatch(now, wanted, () if isinstance(change, Delete) else self.unsent)

    def _check_addable(self, change: Add, current: Pet | None) -> Pet:
        if current is None:
            return change.after
        if describe_mismatch(current, change.after, self.unsent):
            why = "the store has another pet with this id now"
            raise UnsentError("conflict", "came-meanwhile", why)
        raise UnsentError("unchanged", "already-so", "the pet already exists with these values")

    async def _read_current(self, change: Change, pet_id: int) -> Pet | None:
        if self.recheck == "none":
            return change.before
        # A pet that is in no list may still exist.
        known = None if isinstance(change, Add) else self.pets.get(pet_id)
        return known or await self.target.get(pet_id)


_GONE = "the pet no longer exists"


def describe_mismatch(
    now: Pet | None, wanted: Pet | None, unsent: Container[Column] = ()
) -> str | None:
    """Return how the current pet differs from the wanted one, in words; None if it does not. The
    columns in `unsent` are not compared.
    """
    if now is None or wanted is None:
        return None if now is wanted else ("is gone" if now is None else "is still there")
    wrong = [column for column in differing_columns(wanted, now) if column not in unsent]
    return f"differs in {', '.join(wrong)}" if wrong else None


def _merge_update(change: Update, current: Pet | None) -> Pet:
    """Return the current pet with the planned values of the changed fields. Raises UnsentError if
    the change must not be sent.
    """
    if current is None:
        raise UnsentError("conflict", "gone", _GONE)
    changed = [
        field for field in change.fields if not is_as_expected(change.before, current, field)
    ]
    if changed and all(is_as_expected(change.after, current, field) for field in change.fields):
        raise UnsentError("unchanged", "already-so", "the pet already has these values")
    if changed:
        raise _build_changed_error(changed)
    return update_fields(current, change.before, change.after, change.fields)


def _check_deletable(change: Delete, current: Pet | None) -> None:
    if current is None:
        raise UnsentError("unchanged", "already-gone", "the pet was already deleted")
    if changed := differing_columns(change.before, current):
        raise _build_changed_error(changed)


def _build_changed_error(fields: Iterable[str]) -> UnsentError:
    why = f"changed in the store since the plan: {', '.join(fields)}"
    return UnsentError("conflict", "changed-since", why)


# Recorder: where the engine records intents and results. The journal implements it.


class Recorder(Protocol):
    """The journal of a run in progress. It writes the records in the order of the calls.

    Its methods raise PetsyncError if the journal cannot be written, and LockedError if another
    process has taken over the run: then nothing more may be sent.
    """

    async def record_intent(
        self, number: int, change: Change, *, before: Pet | None, after: Pet | None
    ) -> None:
        """Record that this change is about to be sent, and wait until the record is on disk.

        `before` is the current pet, `after` the pet to send. A second intent for the same change
        counts as another attempt.
        """

    def record_retry(self, number: int, why: str) -> None:
        """Record that the change's request is sent again; `why` is how the last attempt ended."""

    def record_result(
        self, result: Result, *, after: Pet | None = None, replaced: Pet | None = None
    ) -> None:
        """Record the result of a change. The record is on disk soon, and before any later intent.

        For an add, `after` is the pet with the id that the service assigned or, if the outcome is
        unknown, a pet in the store that may be the added one. `replaced` is the pet that the added
        pet replaced.
        """

    async def record_known_ids(self, ids: Iterable[int]) -> None:
        """Record the ids of the pets that exist before the first add without an id, and wait until
        they are on disk.
        """

    def get_known_ids(self) -> Collection[int] | None:
        """Return the ids that `record_known_ids` recorded in this run; None if it was not
        called.
        """

    def stop_waiting(self) -> None:
        """From now on, do not wait long for other processes that lock the journal."""

    async def flush(self) -> None:
        """Wait until all records are on disk."""


# EarlierResults: what a resumed run knows about its changes from earlier processes.


CUT_OFF = "under way when the run was stopped; `petsync resume` determines its outcome"
_NEVER_SENT = frozenset({"undone", "replanned"})
_REPLANNED = "not sent: the remaining changes are planned again from the current sheet"
_READ_AGAIN = frozenset({"not-as-sent", "unverified"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierResults:
    """The results of a run's earlier processes, by the number of the change."""

    results: Mapping[int, Result] = field(default_factory=dict)
    """Final results."""
    retryable: Mapping[int, Result] = field(default_factory=dict)
    """Results of changes that are tried again."""
    unfinished: frozenset[int] = frozenset()
    """Changes that were started and have no final result."""
    uncertain: frozenset[int] = frozenset()
    """The changes in `unfinished` that add a pet without an id and may have happened."""
    shared: Mapping[int, int] = field(default_factory=dict)
    """The ids that the service assigned to more than one add, by the number of the add."""
    unverified: Mapping[int, int] = field(default_factory=dict)
    """The pet ids of changes that the service accepted, but that reading the pet back did not
    confirm.
    """
    unsendable: Mapping[int, Result] = field(default_factory=dict)
    """The results of changes that are never sent again, to be used if they were not made."""
    is_given_up: bool = False
    """If true, nothing is sent."""
    is_replanned: bool = False
    """If true, another plan sends the remaining changes, and this run waits only for adds without
    an id that the service may still process.
    """
    seconds: float = 0.0
    """The duration of the run so far."""


NO_EARLIER_RESULTS = EarlierResults()
"""The earlier results of a new run."""


def build_earlier_results(
    plan: Plan, read_entries: Callable[[], Iterable[Entry]], seconds: float
) -> EarlierResults:
    """Return the results with which a resumed run starts. `read_entries` returns the entries of its
    journal, and `seconds` is the duration of the run so far.
    """
    shared_ids = _find_shared_ids(read_entries())
    shared: dict[int, int] = {}
    unverified: dict[int, int] = {}
    results = RunResults(plan.changes)
    retryable: dict[int, Result] = {}
    started: set[int] = set()
    uncertain: set[int] = set()
    for entry in read_entries():
        change = plan.changes[entry.number]
        if is_unassigned(change) and entry.assigned_id in shared_ids and entry.cause != "overwrote":
            shared[entry.number] = entry.assigned_id or 0
            result = build_result(entry, change)
            retryable[entry.number] = msgspec.structs.replace(
                result, outcome="unknown", cause="same-id"
            )
            continue
        if _is_final(entry):
            results[entry.number] = build_result(entry, change)
            continue
        if entry.cause == "not-begun":
            continue
        if entry.outcome != "not sent":
            retryable[entry.number] = build_result(entry, change)
        if entry.intended:
            started.add(entry.number)
            pet_id = entry.pet_id if entry.assigned_id is None else entry.assigned_id
            if entry.cause in _READ_AGAIN and pet_id is not None:
                unverified[entry.number] = pet_id
            elif is_unassigned(change) and entry.outcome in (None, "unknown"):
                uncertain.add(entry.number)
                if entry.cause == "may-be-there":
                    cut_off = result_of(entry.number, change, "unknown", "cut-off", CUT_OFF)
                    retryable[entry.number] = cut_off
    return EarlierResults(
        results=results,
        retryable=retryable,
        unfinished=frozenset(started),
        uncertain=frozenset(uncertain),
        shared=shared,
        unverified=unverified,
        seconds=seconds,
    )


def find_unfinished(runs: Sequence[PastRun], *, with_running: bool = False) -> Iterator[PastRun]:
    """Yield the runs, the newest first, that have something left to resume: they are not undone,
    and later runs of the same sheet have not made as many changes as they left. Runs on which a
    process works are included only with `with_running`.
    """
    undone = find_undoing_runs(runs)
    made = Counter[tuple[str, str]]()
    for run in runs:
        if run.kind == "upload" or run.run_id in undone:
            continue
        sheet, counts = (run.store, run.source), run.counts
        if is_resumable(run) and (with_running or run.state != "running"):
            left = counts.get("not sent", 0) + counts.get("failed", 0)
            if has_unknown(run) or left > made[sheet] or not made[sheet]:
                yield run
        # All DataFrames have the same source.
        if run.kind == "apply" and run.source != FRAME_NAME:
            made[sheet] += counts.get("applied", 0) + counts.get("unchanged", 0)


def has_unknown(past: PastRun) -> bool:
    """Return true if some changes of the run have an unknown outcome."""
    return bool(past.open or past.counts.get("unknown"))


def give_up(
    plan: Plan, earlier: EarlierResults, undone_by: str = ""
) -> tuple[EarlierResults, list[Result]]:
    """Return the earlier results of a run that sends no more changes, and the new results among
    them.

    The reason is that run `undone_by` has undone this run or, if it is "", that another plan sends
    the remaining changes. Unknown outcomes are still determined.
    """
    cause: Cause = "undone" if undone_by else "replanned"
    why = f"not sent: run {undone_by} undid this run" if undone_by else _REPLANNED
    results = RunResults(plan.changes, earlier.results)
    decided: list[Result] = []
    held = {**earlier.unsendable}
    for number, change in enumerate(plan.changes):
        left = earlier.retryable.get(number)
        if number in results or number in held:
            continue
        result = result_of(number, change, "not sent", cause, why)
        if left is None:
            results[number] = result
            decided.append(result)
        elif left.outcome == "failed" and number not in earlier.unverified:
            results[number] = left
        else:
            held[number] = result
    earlier = replace(earlier, results=results, unsendable=held)
    return replace(earlier, is_given_up=True, is_replanned=not undone_by), decided


def settle_superseded(
    plan: Plan, earlier: EarlierResults, later: str, added: Mapping[int, int]
) -> tuple[EarlierResults, list[Result]]:
    """Return the earlier results of a run, and the new results among them, after a `later` run of
    the same sheet.

    Adds without an id that this run has not sent are left to the later run. `added` has the ids of
    the pets that later runs added for the same rows, by the number of the add in this plan: they
    are not added again.
    """
    why = f"run {later} of the same sheet was started later: resume that run, or plan again"
    decided: list[Result] = []
    held: dict[int, Result] = {}
    uncertain = earlier.uncertain.union(earlier.shared, earlier.unverified)
    for number, change in enumerate(plan.changes):
        if number in earlier.results or not is_unassigned(change):
            continue
        result = result_of(number, change, "conflict", "superseded", why)
        if number in added:
            pet_id = added[number]
            already = f"run {later}, or one before it, added this row as pet {pet_id}"
            result = result_of(number, change, "unchanged", "already-so", already, pet_id)
        if number not in uncertain:
            decided.append(result)
        elif number in added:
            held[number] = result
    results = RunResults(plan.changes, earlier.results)
    results.update({result.number: result for result in decided})
    return replace(earlier, results=results, unsendable=held), decided


def settle_overruled(
    plan: Plan, earlier: EarlierResults, later: Iterable[tuple[str, Entry]]
) -> tuple[EarlierResults, list[Result]]:
    """Return the earlier results of a run, and the new results among them, after `later` runs.

    A change is not sent if a later run gave its pet other values. `later` has the changes of these
    runs, each with its run's id, the newest first.
    """
    newest: dict[tuple[int, Column | None], tuple[str, Pet | None]] = {}
    for run, entry in later:
        pet_id = entry.pet_id if entry.assigned_id is None else entry.assigned_id
        if pet_id is None or entry.kind == "upload":
            continue
        columns = entry.fields if entry.kind == "update" else COLUMNS
        for column in (*columns, None):
            newest.setdefault((pet_id, column), (run, entry.after))
    decided: list[Result] = []
    for number, change in enumerate(plan.changes):
        pet_id = change.pet_id
        if pet_id is None or number in earlier.results or number in earlier.unverified:
            continue
        for column in change.fields if change.kind == "update" else (None,):
            run, pet = newest.get((pet_id, column), ("", None))
            if run and not _agrees_with(change, pet, column):
                why = f"run {run} has changed this pet since: plan again"
                decided.append(result_of(number, change, "conflict", "superseded", why))
                break
    results = RunResults(plan.changes, earlier.results)
    results.update({result.number: result for result in decided})
    return replace(earlier, results=results), decided


def _agrees_with(change: Change, pet: Pet | None, column: Column | None) -> bool:
    """Return true if the change agrees with `pet`, the pet after a later run: it has the values of
    the change or, unless the change is an add, was deleted.
    """
    if pet is None or change.after is None:
        return pet is None and not isinstance(change, Add)
    differing = differing_columns(change.after, pet)
    return not differing if column is None else column not in differing


def settle_overtaken(
    plan: Plan, earlier: EarlierResults, records: Sequence[RowRecord]
) -> tuple[EarlierResults, list[Result]]:
    """Return the earlier results of a run, and the new results among them, if other runs of the
    same sheet have worked since its plan was made.

    `records` are the rows that those runs added, or may have added, from the plan's file or a copy
    of it. If a run added a row of the plan's file with the same values, the row is unchanged. Any
    other row that may have been added is a conflict.
    """
    adds = {
        n: each
        for n, each in enumerate(plan.changes)
        if isinstance(each, Add) and each.pet_id is None
    }
    tab_records = [each for each in records if each.tab == plan.tab and each.state == "added"]
    unchanged = {
        each.row: each for each in tab_records if each.digest and each.digest == plan.source_digest
    }
    found = {n: unchanged[each.row] for n, each in adds.items() if each.row in unchanged}
    unedited = {each.pet_id for each in unchanged.values()}
    edited = [each for each in tab_records if each.pet_id not in unedited]
    by_pet = {each.pet_id: each for each in edited}
    added = find_added_pets(plan.changes, plan.tab, edited, skip=found)
    found |= {number: by_pet[pet_id] for number, pet_id in added.items()}
    used = {each.pet_id for each in found.values()}
    uncertain = (r for r in edited if r.pet_id not in used and is_of_file(plan, r))
    unknown = (r for r in records if r.tab == plan.tab and r.state == "unknown")
    other = next(chain(unknown, uncertain), None)
    decided: dict[int, Result] = {}
    for number, change in adds.items():
        record = found.get(number, other)
        if record is None:
            continue
        if record.state == "unknown":
            why = (
                f"run {record.run_id} may have added a row of this sheet since this plan was made: "
                f"`{record.resume}` determines it; then plan again"
            )
            decided[number] = result_of(number, change, "conflict", "superseded", why)
            continue
        is_this = number in found and is_of_file(plan, record)
        what = "this row" if is_this else "a row of this sheet"
        why = (
            f"run {record.run_id} has added {what} as pet {record.pet_id} since this plan was made"
        )
        is_same = record.pet_id in unedited or content(record.row_pet) == content(change.after)
        if is_this and is_same:
            decided[number] = result_of(
                number, change, "unchanged", "already-so", why, record.pet_id
            )
        else:
            decided[number] = result_of(
                number, change, "conflict", "superseded", f"{why}: plan again"
            )
    known = earlier.uncertain.union(earlier.shared, earlier.unverified, earlier.results)
    new = [result for number, result in decided.items() if number not in known]
    results = RunResults(plan.changes, earlier.results)
    results.update({result.number: result for result in new})
    return replace(earlier, results=results), new


def is_of_file(plan: Plan, record: RowRecord) -> bool:
    """Return true if the record is about the plan's file, even if the file was edited since."""
    digest = plan.source_digest
    is_there = real_path(record.source) == real_path(plan.source)
    return bool(digest and record.digest) and (record.digest == digest or is_there)


def _is_final(entry: Entry) -> bool:
    if entry.outcome == "not sent":
        return entry.cause in _NEVER_SENT
    # A pet that replaced another pet is in the store: a second request would add it twice.
    return entry.outcome in ("applied", "unchanged", "conflict") or entry.cause == "overwrote"


def _find_shared_ids(entries: Iterable[Entry]) -> frozenset[int]:
    """Return the ids that the service assigned to more than one add.

    Several entries have such an id, or one entry with the id has the cause "same-id".
    """
    assigned = [
        (each.assigned_id, each.cause)
        for each in entries
        if each.pet_id is None and each.assigned_id is not None
    ]
    counts = Counter(assigned_id for assigned_id, _ in assigned)
    disputed = {assigned_id for assigned_id, cause in assigned if cause == "same-id"}
    return frozenset(i for i, count in counts.items() if count > 1 or i in disputed)


def build_result(entry: Entry, change: Change) -> Result:
    """Return the result of a change from its journal entry; without an outcome, it is unknown."""
    if entry.outcome is None:
        return result_of(entry.number, change, "unknown", "cut-off", CUT_OFF)
    details = (entry.outcome, entry.cause, entry.message)
    return result_of(entry.number, change, *details, entry.assigned_id)


# Sender: sends one change, as the module's docstring describes.


_FORM_FIELDS = frozenset({"name", "status"})
_CONFIRMED = "confirmed by reading it back"
_STILL_DIFFERENT = "sent, but the store still has other values; plan again to check"
_MAX_ATTEMPTS = 3
"""The maximum number of times that an add with an id is sent. It is sent again if no response
arrived and the pet is not in the store; the HTTP client itself does not repeat it in this case.
"""
_RETRY_WAIT_S = 0.2
_GATEWAY_STATUSES = frozenset({502, 504, *range(520, 600)})
"""The statuses with which a gateway responds while the service may still process the request; those
from 520 on are of single products, such as 524 of Cloudflare after a timeout.
"""


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends single changes. AuthError, UnavailableError and the recorder's errors are raised, to
    stop the run; other errors become the result of the change.
    """

    target: Target
    recorder: Recorder
    precheck: Precheck
    verify: bool = False
    started_earlier: Container[int] = ()
    """The changes that an earlier process of the run started. If the pet already has the wanted
    values, such a change counts as applied.
    """
    unverified: Container[int] = ()
    """The changes of an earlier process that the service accepted, but that reading the pet back
    did not confirm.
    """
    on_wire: set[int] = field(default_factory=set)
    """The changes whose request may be in flight."""
    refused: set[int] = field(default_factory=set)
    """The changes to which the service itself responded with an error: it has finished processing
    them.
    """
    repeated: set[int] = field(default_factory=set)
    """The changes that this sender sent more than once, besides retries of the HTTP client."""
    has_intent: asyncio.Event = field(default_factory=asyncio.Event)
    """Set before the first intent is recorded. Until then, nothing was sent."""

    async def send(self, number: int, change: Change) -> Result:
        """Read the pet, send the change if this is still right, and return the result.

        If the call is cancelled while the request may be in flight, the number of the change stays
        in `on_wire`.
        """
        prepared = await self._prepare(number, change, on_error="failed")
        if isinstance(prepared, Result):
            return prepared
        wanted, now = prepared
        self.has_intent.set()
        await self.recorder.record_intent(number, change, before=now, after=wanted)
        self.on_wire.add(number)
        result = await self._send_with_retries(number, change, wanted, now)
        self.on_wire.discard(number)
        return result

    async def _prepare(
        self, number: int, change: Change, *, on_error: Outcome
    ) -> tuple[Pet | None, Pet | None] | Result:
        """Return the pets from `precheck`, or a result if the change must not be sent. If the pet
        cannot be read, the outcome is `on_error`.
        """
        try:
            return await self.precheck.prepare(change)
        except UnsentError as reason:
            return self._build_unsent_result(number, change, reason)
        except (AuthError, UnavailableError):
            raise
        except ApiError as error:
            return result_of(number, change, on_error, cause_of(error), error.problem)

    def _build_unsent_result(self, number: int, change: Change, reason: UnsentError) -> Result:
        if reason.cause.startswith("already-") and number in self.started_earlier:
            return result_of(number, change, "applied", "confirmed", _CONFIRMED)
        if reason.outcome == "conflict" and number in self.unverified:
            return result_of(number, change, "conflict", "not-as-sent", _STILL_DIFFERENT)
        return result_of(number, change, reason.outcome, reason.cause, reason.message)

    async def find_out(self, number: int, change: Change) -> Result | None:
        """Return the result of a change that may have been sent, from the pet in the store; None if
        the change was not made. Sends no change.
        """
        prepared = await self._prepare(number, change, on_error="unknown")
        return prepared if isinstance(prepared, Result) else None

    async def verify_again(self, number: int, change: Change, pet_id: int) -> Result | None:
        """Read the pet of a change that was sent, but that reading the pet back did not confirm.
        Return the result; None if the pet still cannot be read. Sends no change.
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
        difference = self.precheck.describe_mismatch(change, now, wanted)
        if difference is None:
            return result_of(number, change, "applied", "confirmed", _CONFIRMED, assigned)
        wrong = f"sent, but when read back, the pet {difference}; plan again to check"
        # If the pet still differs after a resume, the user must decide.
        outcome: Outcome = "conflict" if number in self.unverified else "failed"
        return result_of(number, change, outcome, "not-as-sent", wrong, assigned)

    async def _send_with_retries(
        self, number: int, change: Change, wanted: Pet | None, now: Pet | None
    ) -> Result:
        before_retry = self._build_retry_check(number, change, wanted, now)
        renewals = _MAX_ATTEMPTS
        left = _MAX_ATTEMPTS if isinstance(change, Add) and change.pet_id is not None else 1
        while True:
            left -= 1
            try:
                response = await self._request(change, wanted, before_retry)
                return await self._handle_response(number, change, wanted, response)
            except UnsentError as reason:
                return result_of(number, change, reason.outcome, reason.cause, reason.message)
            except _NewerError as newer:
                renewals -= 1
                if not renewals:
                    return result_of(
                        number, change, "failed", cause_of(newer.error), newer.error.problem
                    )
                left += 1
                self.repeated.add(number)
                now, wanted = newer.pet, newer.wanted
                await self.recorder.record_intent(number, change, before=now, after=wanted)
                before_retry = self._build_retry_check(number, change, wanted, now)
                continue
            except (AuthError, UnavailableError):
                raise
            except ApiError as error:
                # An earlier request may have been processed since the pet was read.
                error.may_have_happened = error.may_have_happened or number in self.repeated
                result = await self._handle_error(number, change, wanted, now, error)
                is_lost = result.outcome == "failed" and error.may_have_happened
                if not (is_lost and left):
                    return result
                self.recorder.record_retry(number, error.problem)
            self.repeated.add(number)
            await asyncio.sleep(_RETRY_WAIT_S * (_MAX_ATTEMPTS - left))

    async def _request(
        self, change: Change, wanted: Pet | None, before_retry: BeforeRetry
    ) -> Pet | None:
        if wanted is None:
            assert change.pet_id is not None
            await self.target.delete(change.pet_id, before_retry=before_retry)
            return None
        if isinstance(change, Add):
            return await self.target.add(wanted, before_retry=before_retry)
        if _fits_form(change, wanted) and wanted.id is not None:
            name, status = wanted.name, wanted.status
            await self.target.update_with_form(
                wanted.id, name=name, status=status, before_retry=before_retry
            )
            return None
        return await self.target.replace(wanted, before_retry=before_retry)

    def _build_retry_check(
        self, number: int, change: Change, wanted: Pet | None, before: Pet | None
    ) -> BeforeRetry:
        """Return a function that reads the pet before the request is repeated: an earlier attempt
        may have been processed, or another client may have changed the pet.
        """
        pet_id = change.pet_id

        async def check(error: ApiError) -> None:
            if pet_id is not None:
                now = await self.target.get(pet_id)
                if self.precheck.describe_mismatch(change, now, wanted) is None:
                    raise UnsentError("applied", "confirmed", _CONFIRMED)
                if now is None and before is not None:
                    raise UnsentError("conflict", "gone", _GONE)
                if self.precheck.describe_mismatch(change, now, before) is not None:
                    why = "changed in the store between two attempts"
                    raise UnsentError("conflict", "changed-since", why)
                if isinstance(change, Update) and now is not None and now != before:
                    merged = update_fields(now, change.before, change.after, change.fields)
                    raise _NewerError(now, merged, error)
            self.recorder.record_retry(number, error.problem)

        return check

    async def _handle_response(
        self, number: int, change: Change, wanted: Pet | None, response: Pet | None
    ) -> Result:
        assigned = response.id if isinstance(change, Add) and response is not None else None
        if assigned == change.pet_id:
            assigned = None
        elif change.pet_id is not None and assigned is not None:
            why = f"the service gave the pet the id {assigned} instead of {change.pet_id}"
            return result_of(number, change, "applied", "another-id", why, assigned)
        if self.verify or self._differs(change, response, wanted):
            pet_id = change.pet_id if change.pet_id is not None else assigned
            try:
                wrong = await self._describe_mismatch(change, pet_id, wanted)
            except ApiError as error:
                why = f"sent, but reading it back failed: {error.problem}"
                return result_of(number, change, "unknown", "unverified", why, assigned)
            if wrong is not None:
                return result_of(number, change, "failed", "not-as-sent", wrong, assigned)
        return result_of(number, change, "applied", "", "", assigned)

    def _differs(self, change: Change, response: Pet | None, wanted: Pet | None) -> bool:
        """Return true if the pet in the response differs from the pet that was sent. Only reading
        the pet shows what was stored, because the response may be incomplete.
        """
        if response is None:
            return False
        return self.precheck.describe_mismatch(change, response, wanted) is not None

    async def _describe_mismatch(
        self, change: Change, pet_id: int | None, wanted: Pet | None
    ) -> str | None:
        if pet_id is None:
            return "the service did not return the assigned id"
        wrong = self.precheck.describe_mismatch(change, await self.target.get(pet_id), wanted)
        return None if wrong is None else f"sent, but when read back, the pet {wrong}"

    async def _handle_error(
        self,
        number: int,
        change: Change,
        wanted: Pet | None,
        before: Pet | None,
        error: ApiError,
    ) -> Result:
        cause = cause_of(error)
        if error.may_have_happened and change.pet_id is not None:
            outcome = await self._check_outcome(change, change.pet_id, wanted, before, error)
            return result_of(number, change, *outcome)
        if error.may_have_happened:
            if _is_of_service(error):
                self.refused.add(number)
            return result_of(number, change, "unknown", cause, error.problem)
        is_add = isinstance(change, Add)
        if isinstance(error, DuplicateError) and is_add and change.pet_id is not None:
            why = "a pet with this id was added in the meantime"
            return result_of(number, change, "conflict", "came-meanwhile", why)
        if isinstance(error, NotFoundError) and not is_add:
            if wanted is None:
                gone = UnsentError("unchanged", "already-gone", "the pet was already deleted")
                return self._build_unsent_result(number, change, gone)
            return result_of(number, change, "conflict", "gone", _GONE)
        return result_of(number, change, "failed", cause, error.problem)

    async def _check_outcome(
        self,
        change: Change,
        pet_id: int,
        wanted: Pet | None,
        before: Pet | None,
        error: ApiError,
    ) -> tuple[Outcome, Cause, str]:
        """Return the outcome of a request without a usable response, from the pet in the store."""
        cause = cause_of(error)
        try:
            now = await self.target.get(pet_id)
        except (AuthError, UnavailableError) as stopping:
            stopping.may_have_happened = True
            raise
        except ApiError:
            return "unknown", cause, error.problem
        if self.precheck.describe_mismatch(change, now, wanted) is None:
            return "applied", "confirmed", _CONFIRMED
        if self.precheck.describe_mismatch(change, now, before) is None:
            return "failed", cause, error.problem
        state = "no longer exists" if now is None else "has other values now"
        return "unknown", cause, f"{error.problem}; the pet {state}"


class _NewerError(Exception):
    """Before a retry, the pet has changed, but only in fields that petsync does not compare."""

    def __init__(self, pet: Pet, wanted: Pet, error: ApiError) -> None:
        super().__init__(error.problem)
        self.pet, self.wanted, self.error = pet, wanted, error


def _fits_form(change: Change, wanted: Pet) -> bool:
    """Return true if updatePetWithForm can make the change: it changes only name and status, and
    cannot clear them.
    """
    if not (_FORM_FIELDS.issuperset(change.fields) and wanted.name):
        return False
    return bool(wanted.status) or "status" not in change.fields


def _is_of_service(error: ApiError) -> bool:
    """Return true if the service itself responded with the error: it then no longer processes the
    request. A 503 without a message of the service and without Retry-After may be one of a gateway.
    """
    if isinstance(error, ServiceError) and error.status == 503:
        is_message = bool(error.service_message) and not error.is_page
        return is_message or error.retry_after is not None
    return (error.status or 0) >= 400 and error.status not in _GATEWAY_STATUSES


def cause_of(error: ApiError) -> Cause:
    """Return the cause for the error of a request."""
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


# The engine: applies a plan to a Target.


_MAX_SENDS = 3
"""The maximum number of times that one process sends an add without an id. It is sent again if its
pet is not in the store.
"""
_NO_SUCH_IDS = (400, 404, 422)
"""The statuses with which a service may reject the highest 64-bit id."""
_NOT_SENT = "not started, because the service is not available"
_UNEXPECTED = (
    "the store has more pets with these values than when the plan was made; plan again to check"
)
_NAMESAKE = (
    "pet {} with this name was added to the store since the plan was made: plan again, with "
    "`add-another` in the row's action column if the row is another pet"
)
_ALREADY_THERE = "the store already has a pet with these values: {}"


async def run(
    plan: Plan,
    target: Target,
    recorder: Recorder,
    *,
    run_id: str,
    started: str,
    options: ApplyOptions,
    earlier: EarlierResults = NO_EARLIER_RESULTS,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Apply the plan, or the changes that `earlier` processes left, and return the report.

    A failed change does not stop the run, unless more than `options.max_failures` fail. If the run
    is stopped, for example by a refused token, a full disk or a cancellation, the other changes are
    `not sent`, and `report.stopped` is the reason. Requests in flight then have `options.grace`
    seconds to end; a second cancellation cancels them at once. Raises AuthError if the service
    refuses access before this process has recorded its first intent: it has then sent no change.
    """
    start = time.monotonic()
    unsent = [column for unit in plan.options.unsent_units for column in COLUMNS_OF[unit]]
    if unsent:
        # A request names values that are not to change: they must be those of this moment.
        options = msgspec.structs.replace(options, recheck="each")
    recheck = options.recheck
    if earlier.is_given_up or (recheck == "bulk" and plan.coverage.is_narrow):
        recheck = "each"  # The store's lists would be more pets than the plan has.
    sender = Sender(
        target,
        recorder,
        Precheck(target, recheck, unsent=unsent),
        options.verify,
        started_earlier=frozenset(earlier.unfinished),
        unverified=frozenset(earlier.unverified),
    )
    engine = _Engine(plan, sender, options, earlier, on_progress)
    stopped = await engine.run()
    if engine.refusal is not None and not sender.has_intent.is_set():
        raise engine.refusal
    return Report(
        run_id=run_id,
        plan=plan,
        started=started,
        seconds=round(earlier.seconds + time.monotonic() - start, 3),
        results=collect_results(plan, engine.results(), stopped),
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
        self._changes, self._tally = plan.changes, Tally.of(plan.changes)
        self._namesakes, self._slots = plan.namesakes or (), plan.slots
        self._named_ids = {each.pet_id: each.source for each in plan.vacant}
        self._sender, self._options, self._on_progress = sender, options, on_progress
        self._target, self._recorder = sender.target, sender.recorder
        self._results = RunResults(plan.changes, earlier.results)
        self._retryable, self._unsendable = earlier.retryable, earlier.unsendable
        self._is_given_up, self._is_replanned = earlier.is_given_up, earlier.is_replanned
        self._failed_here: set[int] = set()
        self._unknown_since = dict.fromkeys(earlier.uncertain, _now())
        self._counts = self._results.count_outcomes()
        self._claims = Claims(plan.changes, is_shared=not sender.target.assigns_unique_ids)
        self._add_lock = asyncio.Lock()
        self._resend_counts: Counter[int] = Counter()
        self._lost_ids: dict[int, int] = {}
        self._edited: dict[int, Pet] = {}
        self._unread: set[int] = set()
        self._adopt_earlier(earlier)
        self._stopper = Stopper(options.grace, sender.on_wire)
        self.refusal: AuthError | None = None
        """The error with which the service refused access, which stopped the run; else None."""

    async def run(self) -> str:
        """Run until the end or a stop; return the reason for the stop, or ""."""
        await run_to_end(self._run_guarded(), self._stopper.interrupt)
        return self._stopper.reason

    def results(self) -> RunResults:
        """Return the results of the changes that were started in this process or an earlier one."""
        for number in self._sender.on_wire.difference(self._results):
            change = self._changes[number]
            self._results[number] = result_of(number, change, "unknown", "cut-off", CUT_OFF)
        for number, result in self._retryable.items():
            self._results.setdefault(number, result)
        return self._results

    async def _run_guarded(self) -> None:
        try:
            await self._run_phases()
            await self._recorder.flush()
        except StoppedError:
            await self._flush_rest()
        except PetsyncError as error:
            self._stop_run(error)
            await self._flush_rest()
        except Exception as error:  # noqa: BLE001 - the report must survive any error
            self._stopper.stop(f"unexpected: {error!r}")
            await self._flush_rest()

    async def _flush_rest(self) -> None:
        """Wait until the records of a stopped run are on disk, if that is possible."""
        self._recorder.stop_waiting()
        try:
            await self._recorder.flush()
        except PetsyncError as error:
            self._stopper.stop(error.text)

    async def _run_phases(self) -> None:
        if self._is_given_up:
            await self._resolve_unknown()
            return
        if self._tally.unassigned:
            await self._record_known_pets()
        await self._verify_again()
        await self._stopper.wait_for(self._sender.precheck.read_all())
        kinds = self._tally.kinds
        if kinds["add"] > self._tally.unassigned:
            await self._run_phase(lambda c: isinstance(c, Add) and not is_unassigned(c))
        if self._tally.unassigned:
            await self._run_phase(is_unassigned)
        if kinds["update"]:
            await self._run_phase(lambda change: change.kind == "update")
        await self._resolve_adds()
        await self._verify_again()
        if self._failures() > self._options.failures_before_deletes:
            self._hold_deletes()
        elif kinds["delete"]:
            await self._run_phase(lambda change: change.kind == "delete")

    async def _run_phase(self, belongs: Callable[[Change], bool]) -> None:
        left = (
            (number, change)
            for number, change in enumerate(self._changes)
            if number not in self._results and belongs(change)
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(self._options.max_started):
                self._stopper.watch(group.create_task(self._worker(left)))
        self._stopper.check()

    async def _worker(self, left: Iterable[tuple[int, Change]]) -> None:
        for number, change in left:
            if self._stopper.reason:
                return
            self._stopper.set_current(number)
            await self._carry_out(number, change)

    async def _carry_out(self, number: int, change: Change) -> None:
        self._sender.refused.discard(number)
        try:
            if is_unassigned(change):
                await self._add(number, change)
            else:
                self._record(await self._send_change(number, change))
        except asyncio.CancelledError:
            if number not in self._sender.on_wire:
                self._record_unsent(number, change)
            raise
        except PetsyncError as error:
            self._stop(number, change, error)
        except Exception as error:  # noqa: BLE001 - the report must survive an error of one change
            self._stopper.stop(f"unexpected: {error!r}")
            result = result_of(number, change, "unknown", "unexpected", f"unexpected: {error!r}")
            self._results.setdefault(number, result)

    async def _send_change(self, number: int, change: Change) -> Result:
        result = await self._sender.send(number, change)
        if result.outcome == "unknown":
            # Count from the end of the last attempt, which may be long after the first one.
            self._unknown_since[number] = _now()
        return result

    def _stop_run(self, error: PetsyncError) -> None:
        if isinstance(error, AuthError) and not self._stopper.reason:
            self.refusal = error
        self._stopper.stop(error.text)

    def _stop(self, number: int, change: Change, error: PetsyncError) -> None:
        """Stop the run because of the error; record the result of this change if it is known."""
        self._stop_run(error)
        if isinstance(error, LockedError) or number in self._sender.repeated:
            return
        if isinstance(error, ApiError) and error.may_have_happened:
            return
        self._sender.on_wire.discard(number)
        if isinstance(error, UnavailableError) and self._is_first_attempt(number):
            # The journal may have the intent: record that the change was not sent.
            with suppress(PetsyncError):
                self._record(result_of(number, change, "not sent", "not-begun", _NOT_SENT))
        if isinstance(error, AuthError):
            with suppress(PetsyncError):
                self._record(result_of(number, change, "failed", cause_of(error), error.problem))

    def _record_unsent(self, number: int, change: Change) -> None:
        """Record that a change was cancelled before its request: the journal may have its intent,
        which without a result would mean that the request may have been sent.
        """
        if number in self._results or not self._is_first_attempt(number):
            return
        self._results[number] = result_of(number, change, "not sent", "not-begun", NOT_STARTED)
        with suppress(PetsyncError):
            self._recorder.record_result(self._results[number])

    def _is_first_attempt(self, number: int) -> bool:
        """Return true if this is the first attempt to send the change, in any process."""
        return number not in self._sender.started_earlier and number not in self._resend_counts

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
            replaced = self._claims.initial_pets.get(result.assigned_id)
        elif isinstance(change, Add) and change.pet_id is not None and result.outcome == "applied":
            self._claims.initial_pets[change.pet_id] = change.after
        after = self._edited.get(result.number) or _build_landed_pet(change, result)
        self._recorder.record_result(result, after=after, replaced=replaced)
        self._report_progress(result)
        self._count_failure(result)

    def _with_named_id(self, result: Result) -> Result:
        """Return the result, with another cause and message if the service assigned an id that
        another row has.
        """
        rows = self._named_ids.get(result.assigned_id or 0)
        if rows is None or result.pet_id is not None or result.cause not in ("", "confirmed"):
            return result
        why = (
            f"the service gave the pet the id {result.assigned_id}, which is also in {rows}: the "
            "next plan holds back both rows. Remove that row, or only its id if it is a new pet"
        )
        return msgspec.structs.replace(result, cause="named-id", message=why)

    def _count_failure(self, result: Result) -> None:
        """Stop the run if too many changes have failed in this process."""
        if result.outcome not in ("failed", "unknown") or _is_disputed(result):
            self._failed_here.discard(result.number)
            return
        self._failed_here.add(result.number)
        most, failures = self._options.max_failures, len(self._failed_here)
        if most is not None and failures > most:
            self._stopper.stop(
                f"{count(failures, 'change')} failed or got no answer, and the limit is {most} "
                "(--max-failures, in Python max_failures)"
            )

    def _report_progress(self, result: Result) -> None:
        if self._on_progress is None:
            return
        problems = self._failures() + self._counts["conflict"]
        # Changes with an unknown outcome may be sent again: count them later, so that the progress
        # does not go back.
        done, total = len(self._results) - self._counts["unknown"], len(self._changes)
        step = Progress(done, total, result, problems, self._target.traffic)
        self._stopper.report(self._on_progress, step)

    def _failures(self) -> int:
        return self._counts["failed"] + self._counts["unknown"]

    def _hold_deletes(self) -> None:
        why = (
            f"held back, because {self._failures()} of the earlier changes failed or got no answer"
        )
        for number, change in enumerate(self._changes):
            if change.kind == "delete" and number not in self._results:
                self._record(result_of(number, change, "not sent", "held-back", why))

    # Adds without an id ------------------------------------------------------------------------

    async def _record_known_pets(self) -> None:
        """Before the first add without an id, record which pets the store has. If an earlier
        process has recorded them, look for the pets that it added instead.
        """
        if not self._has_open_adds():
            return
        pets = await self._read_all_pets()
        self._claims.initial_pets = {pet.id: pet for pet in pets if pet.id is not None}
        self._claims.check_room(self._claims.initial_pets.get(MAX_ID) or await self._read_highest())
        known = self._recorder.get_known_ids()
        if known is None:
            for number, pet_id in find_unexpected_pets(self._changes, pets).items():
                if number not in self._results:
                    self._skip_add(number, pet_id)
            self._hold_namesakes(pets, self._namesakes)
            await self._stopper.wait_for(self._recorder.record_known_ids(self._claims.initial_pets))
            return
        for number in await self._prove_ids(pets):
            self._reset_result(number)
        self._confirm(pets)
        left = [
            n for n, c in enumerate(self._changes) if is_unassigned(c) and n not in self._results
        ]
        for number, pet_id in self._find_arrived(left, pets).items():
            if number in self._sender.started_earlier:
                self._confirm_one(self._retryable[number], pet_id)
            else:
                self._skip_add(number, pet_id)
        self._hold_namesakes(pets, known)

    def _hold_namesakes(self, pets: Iterable[Pet], known: Iterable[int]) -> None:
        """Record a conflict for each add without an id whose name a new pet has: the pet may be the
        row's, added from an edited copy of the sheet. Pets of other changes, and those that this
        run has added, are not new.
        """
        names, old = dict[int, str](), {None, *known, *self._results.assigned_ids}
        for number, change in enumerate(self._changes):
            old.add(change.pet_id)
            if number in self._results or not isinstance(change, Add) or change.pet_id is not None:
                continue
            if not self._is_another(change):
                names[number] = normalize(change.after.name)
        for number, pet_id in find_namesakes(names, pets, old).items():
            why = _NAMESAKE.format(pet_id)
            change = self._changes[number]
            self._record(result_of(number, change, "conflict", "came-meanwhile", why))

    def _is_another(self, add: Add) -> bool:
        """Return true if the action of the add's row is `add-another`."""
        slot = None if add.row is None else self._slots.get(add.row)
        return slot is not None and slot.action == "add-another"

    async def _read_highest(self) -> Pet | None:
        """Return the pet with the highest possible id, None if there is none. It is read by its id,
        because the lists may not contain it.
        """
        try:
            return await self._stopper.wait_for(self._target.get(MAX_ID))
        except ApiError as error:
            if error.status in _NO_SUCH_IDS:
                return None
            raise

    def _has_open_adds(self) -> bool:
        """Return true if an add without an id has no result yet, or an unknown outcome."""
        for number, change in enumerate(self._changes):
            result = self._results.get(number)
            if is_unassigned(change) and (result is None or result.outcome == "unknown"):
                return True
        return False

    def _skip_add(self, number: int, pet_id: int | None) -> None:
        """Record the result of an add that is not sent, because its pet exists (`pet_id`) or may
        exist (None).
        """
        change = self._changes[number]
        if pet_id is None:
            self._record(result_of(number, change, "conflict", "came-meanwhile", _UNEXPECTED))
        else:
            why = _ALREADY_THERE.format(pet_id)
            self._record(result_of(number, change, "unchanged", "already-so", why, pet_id))

    async def _add(self, number: int, change: Change) -> None:
        """Add a pet without an id. These adds are sent one at a time until the service has assigned
        the first id, and afterwards too if it may assign an id twice.
        """
        if self._must_add_alone():
            async with self._add_lock:
                if self._stopper.reason:
                    return
                if self._claims.refusal:
                    why = self._claims.refusal
                    self._record(result_of(number, change, "failed", "unsafe-id", why))
                    return
                if self._must_add_alone():
                    self._record(self._claim_id(change, await self._send_change(number, change)))
                    return
        self._record(self._claim_id(change, await self._send_change(number, change)))

    def _must_add_alone(self) -> bool:
        return self._claims.is_shared or not self._claims.has_assigned

    def _claim_id(self, change: Change, result: Result) -> Result:
        """Record the id that the service assigned, and return the result of the add."""
        number, pet_id = result.number, result.assigned_id
        if pet_id is None:
            return result
        assignment = self._claims.record_assignment(number, pet_id)
        if assignment == "known":
            name = self._claims.initial_pets[pet_id].name
            why = (
                f"the service gave the pet the id {pet_id} of pet {name!r}, which existed before "
                "and no longer exists: `petsync undo` of this run restores that pet"
            )
            return result_of(number, change, "failed", "overwrote", why, pet_id)
        if assignment == "shared":
            for other in self._claims.find_holders(pet_id):
                if other != number:
                    self._record(self._dispute_id(other, pet_id))
            return self._dispute_id(number, pet_id)
        if number in self._lost_ids and result.outcome == "applied":
            first_id = self._lost_ids[number]
            message = f"added again: the pet was not stored under its first id {first_id}"
            return msgspec.structs.replace(result, message=message)
        return result

    def _dispute_id(self, number: int, pet_id: int) -> Result:
        why = f"the service gave the id {pet_id} to this pet and to another new pet"
        return result_of(number, self._changes[number], "unknown", "same-id", why, pet_id)

    async def _resolve_adds(self) -> None:
        """Determine the outcome of adds without an id that got no response, or an id that another
        add may have too. If their pets are not in the store, send them again.
        """
        while self._find_unsettled() or self._claims.find_unproved(everything=False):
            pets = await self._read_all_pets()
            lost = await self._prove_ids(pets)
            self._confirm(pets)
            unknown = [number for number in self._find_unsettled() if number not in lost]
            if not lost and (wait := self._seconds_to_wait(unknown)) > 0:
                await self._wait(wait)
                continue
            edited = {} if lost else self._hold_edited(unknown, pets)
            for number in lost or [number for number in unknown if number not in edited]:
                self._resend_counts[number] += 1
                if self._resend_counts[number] < _MAX_SENDS:
                    self._reset_result(number)
                elif number in unknown:
                    self._record(mark_absent(self._results[number]))
            await self._run_phase(is_unassigned)

    async def _prove_ids(self, listed: Iterable[Pet]) -> set[int]:
        """Return the adds whose pets are not stored with their assigned ids, and record for the
        other adds that their pets are stored.
        """
        groups = self._claims.find_unproved(everything=bool(self._find_unsettled()))
        pets = {pet.id: pet for pet in listed}
        found: dict[int, Pet | None] = {}
        for pet_id, numbers in groups.items():
            found[pet_id] = pets.get(pet_id)
            if not self._claims.is_stored(numbers, found[pet_id]):
                # A list may be incomplete or out of date: read the pet itself.
                found[pet_id] = await self._stopper.wait_for(self._target.get(pet_id))
        lost = self._claims.find_lost(found)
        for number in (number for numbers in groups.values() for number in numbers):
            if number in lost:
                self._mark_lost(number, found[lost[number]])
                continue
            self._claims.mark_proved(number)
            if _is_disputed(self._results[number]):
                self._record(mark_confirmed(self._results[number], self._claims.id_of(number)))
        return set(lost)

    def _mark_lost(self, number: int, pet: Pet | None) -> None:
        """Record that the add's pet is not stored. `pet` has the id now; None if no pet has it."""
        self._lost_ids[number] = pet_id = self._claims.drop(number)
        holder = "no pet" if pet is None else "another pet"
        why = (
            f"the service gave the pet the id {pet_id}, which {holder} has now, so the pet is not "
            "stored"
        )
        change = self._changes[number]
        self._record(result_of(number, change, "failed", "same-id", why))

    def _reset_result(self, number: int) -> None:
        """Remove the result of a change that was not made, so that it is sent again. If it must not
        be sent again, record its final result instead.
        """
        if number in self._unsendable:
            self._record(self._unsendable[number])
        else:
            self._counts[self._results.pop(number).outcome] -= 1

    async def _resolve_unknown(self) -> None:
        """Determine the unknown outcomes of a run that sends no more changes. A change that was not
        made gets its result from `_unsendable`, after the `settle` seconds.
        """
        await self._verify_again()
        unread: set[int] = set()
        while left := self._find_unknown() - unread:
            unassigned = [n for n in left if is_unassigned(self._changes[n])]
            pets = await self._read_all_pets() if unassigned else []
            if unassigned:
                for number in await self._prove_ids(pets):
                    self._reset_result(number)
                self._confirm(pets)
            for number in left.difference(unassigned):
                change = self._changes[number]
                result = await self._stopper.wait_for(self._sender.find_out(number, change))
                if result is not None:
                    self._record(result)
                    unread.add(number)
            left = self._find_unknown() - unread
            adds = [n for n in left if is_unassigned(self._changes[n])]
            if (wait := self._seconds_to_wait(adds if self._is_replanned else [*left])) > 0:
                await self._wait(wait)
                continue
            for number in left.difference(self._hold_edited(adds, pets)):
                self._reset_result(number)

    def _find_unknown(self) -> set[int]:
        """Return the changes in `_unsendable` whose unknown outcome can still be determined."""
        unknown = {n for n in self._unsendable if self._results[n].outcome == "unknown"}
        return unknown - self._unread - self._edited.keys()

    def _find_unsettled(self) -> list[int]:
        return [
            number
            for number in self._results.find("unknown")
            if self._results[number].assigned_id is None
            and number not in self._edited
            and is_unassigned(self._changes[number])
        ]

    def _confirm(self, pets: Iterable[Pet]) -> None:
        """Record which adds without a response have their pets in the store."""
        for number, pet_id in self._find_arrived(self._find_unsettled(), pets).items():
            self._confirm_one(self._results[number], pet_id)

    def _confirm_one(self, result: Result, pet_id: int) -> None:
        self._claims.restore(result.number, pet_id, is_proved=True)
        self._record(mark_confirmed(result, pet_id))

    def _find_arrived(self, numbers: Iterable[int], pets: Iterable[Pet]) -> dict[int, int]:
        """Return the ids of new pets in the store that belong to these adds, by number."""
        known = frozenset(self._recorder.get_known_ids() or ())
        return match_unknown_adds(numbers, self._changes, self._results, known, pets)

    def _hold_edited(self, numbers: Iterable[int], pets: Iterable[Pet]) -> Collection[int]:
        """Return the adds without a response whose pets may be in the store with other values, and
        record this. They are not sent again: the user must decide.
        """
        known = frozenset(self._recorder.get_known_ids() or ())
        found = find_edited(numbers, self._changes, self._results, known, pets)
        self._edited |= found
        for number, pet in found.items():
            why = (
                f"there was no response, and pet {pet.id} ({pet.name}) is new and similar: it may "
                "be this row's pet, edited since. The row is not sent again"
            )
            change = self._changes[number]
            self._record(result_of(number, change, "unknown", "may-be-there", why))
        return found

    async def _verify_again(self) -> None:
        """Read the pets of the changes in `_unread` again: reading them back did not confirm these
        changes.
        """
        results = {n: self._results[n] for n in sorted(self._unread) if n in self._results}
        ids = {n: r.pet_id if r.assigned_id is None else r.assigned_id for n, r in results.items()}
        for number, pet_id in ids.items():
            change = self._changes[number]
            if pet_id is None:
                continue
            result = await self._stopper.wait_for(self._sender.verify_again(number, change, pet_id))
            if result is not None:
                self._unread.discard(number)
                self._record(result)

    async def _wait(self, seconds: float) -> None:
        _LOG.info("waiting %.1f s: the service may still process earlier requests", seconds)
        await self._stopper.wait_for(asyncio.sleep(seconds))

    def _seconds_to_wait(self, unknown: list[int]) -> float:
        """Return the seconds until these changes, which got no response, count as not made."""
        waits = [
            self._unknown_since[number] + self._options.settle - _now()
            for number in unknown
            if number not in self._sender.refused
        ]
        return max(waits, default=0.0)

    async def _read_all_pets(self) -> list[Pet]:
        return await self._stopper.wait_for(self._target.list_pets(statuses_of(self._changes)))

    def _adopt_earlier(self, earlier: EarlierResults) -> None:
        """Take over the state of the run's earlier processes.

        The outcome of an add without an id is unknown if it was started and has no result, or if
        the service assigned its id to another add too. If reading back did not confirm an add, its
        pet is read again first; in a run that sends no more changes, this applies to all changes.
        """
        for number, result in earlier.results.items():
            if result.cause == "overwrote":
                self._claims.refuse_adds()
            elif is_unassigned(self._changes[number]) and result.assigned_id is not None:
                self._claims.restore(number, result.assigned_id, is_proved=True)
        for number, pet_id in earlier.shared.items():
            self._claims.is_shared = True
            self._claims.restore(number, pet_id, is_proved=False)
        unread = {
            number
            for number in earlier.unverified
            if earlier.is_given_up or isinstance(self._changes[number], Add)
        }
        self._unread |= unread
        held = earlier.unsendable if earlier.is_given_up else ()
        self._unknown_since |= dict.fromkeys(held, _now())
        for number in earlier.uncertain.union(earlier.shared, unread, held):
            self._results[number] = earlier.retryable[number]
            self._counts[earlier.retryable[number].outcome] += 1


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_disputed(result: Result) -> bool:
    """Return true if another add got the same id, and it is not known whose pet is stored."""
    return result.outcome == "unknown" and result.cause == "same-id"


def _build_landed_pet(change: Change, result: Result) -> Pet | None:
    """Return the pet to add with its assigned id; None if the service assigned none."""
    if result.assigned_id is None or change.after is None:
        return None
    return msgspec.structs.replace(change.after, id=result.assigned_id)


# The sentinels of a plan: they are checked before anything is sent.


async def check_sentinels(plan: Plan, target: Target) -> None:
    """Raise GuardError if a sentinel has changed since the plan was made."""
    ids = [pet.id for pet in plan.sentinels if pet.id is not None]
    refuse_drifted(plan, {pet_id: await target.get(pet_id) for pet_id in ids})


def refuse_drifted(plan: Plan, now: Mapping[int, Pet | None]) -> None:
    """Raise GuardError if a sentinel differs from the current pet in `now`."""
    drifts = [
        problem
        for pet in plan.sentinels
        if pet.id is not None and pet.id in now and (problem := describe_drift(pet, now[pet.id]))
    ]
    if drifts:
        raise GuardError(
            "the guard refuses this plan: " + "; ".join(drifts),
            hint="This attempt sent nothing. Find out who changed these pets, then plan again.",
        )
