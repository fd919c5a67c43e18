"""Load many pets: look-ups of many ids, snapshots, and the find operations as DataFrames."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from petsync.client.api import AsyncApi, each_query
from petsync.errors import (
    ApiError,
    AuthError,
    NotFoundError,
    RateLimitedError,
    RedirectError,
    ResponseError,
    ServiceError,
    TransportError,
    UnavailableError,
)
from petsync.models import Pet
from petsync.plan.change import Coverage, FailedLookup, Snapshot
from petsync.protocol import operations
from petsync.protocol.operations import Call, Response, detect_media
from petsync.table.arrow import (
    SCHEMA,
    PetTable,
    frame_from_table,
    is_ascending,
    sorted_by_id,
    table_from_pets,
    without_duplicates,
)
from petsync.table.base import Base, frame_with_base
from petsync.table.buffers import TableWriter
from petsync.table.decode import ListReader, TableTarget

__all__ = [
    "Found",
    "Lookups",
    "by_status",
    "find_by_status",
    "find_by_tags",
    "into_target",
    "look_up",
    "new_table",
    "resolve_copies",
    "short_snapshot",
    "snapshot",
    "snapshot_of",
]


# look_up: getPetById for many ids, a few at a time.


Found = Pet | FailedLookup | None
"""The result of one look-up."""

_CONCURRENCY = 32
_REPORT_INTERVAL_S = 0.1
_MAX_FAILURES = 2 * _CONCURRENCY
"""The maximum number of consecutive failures: on average, two for each worker."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """The progress of a look-up of many ids."""

    done: int
    """The number of ids with a result, including failures."""
    total: int
    """The total number of ids."""


async def look_up(
    api: AsyncApi,
    ids: Iterable[int],
    *,
    on_progress: Callable[[Lookups], None] | None = None,
) -> dict[int, Found]:
    """Return the result of getPetById for each id, in the order of the ids: the pet, None for a
    404, or FailedLookup for any other failure.

    Each id is looked up once, up to 32 at a time. `on_progress` is called at the beginning, at most
    ten times per second, and at the end. When this returns or raises, no request is in flight.

    Raises errors that concern all ids: AuthError, RedirectError, UnavailableError, and
    TransportError if the service cannot be reached; also TransportError, ServiceError and
    RateLimitedError after 64 of them in a row.
    """
    wanted = list(dict.fromkeys(ids))
    run = _Lookup(api, wanted, on_progress)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_CONCURRENCY, len(wanted))):
                group.create_task(run.work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return {pet_id: run.found[pet_id] for pet_id in wanted}


class _Lookup:
    def __init__(
        self, api: AsyncApi, wanted: list[int], on_progress: Callable[[Lookups], None] | None
    ) -> None:
        self.found: dict[int, Found] = {}
        self._api, self._total, self._on_progress = api, len(wanted), on_progress
        # All workers share one iterator: a task for each id would take more time than its request.
        self._left = iter(wanted)
        self._in_a_row = 0
        self._reported_at = 0.0
        self._report()

    async def work(self) -> None:
        for pet_id in self._left:
            self.found[pet_id] = await self._fetch_pet(pet_id)
            self._report()

    async def _fetch_pet(self, pet_id: int) -> Found:
        pet: Pet | None = None
        try:
            pet = await self._api.get_pet_by_id(pet_id)
        except NotFoundError:
            pass
        except ApiError as error:
            self._count_failure(error)
            return FailedLookup(str(pet_id), error.problem)
        self._in_a_row = 0
        return pet

    def _count_failure(self, error: ApiError) -> None:
        """Count the failure; raise the error if it concerns the service, not only this pet."""
        limit = _failure_limit(error)
        self._in_a_row = self._in_a_row + 1 if limit else 0
        if limit and self._in_a_row >= limit:
            raise error

    def _report(self) -> None:
        done = len(self.found)
        if self._on_progress is None or not self._total:
            return
        now = asyncio.get_running_loop().time()
        if done in (0, self._total) or now - self._reported_at >= _REPORT_INTERVAL_S:
            self._reported_at = now
            self._on_progress(Lookups(done, self._total))


def _failure_limit(error: ApiError) -> int:
    """Return how many consecutive errors of this kind end the look-up; 0 for no limit.

    Without a connection, one error is enough, because the request has already been retried for
    several seconds. An error about a single pet has no limit: it shows that the service works.
    """
    if isinstance(error, AuthError | RedirectError | UnavailableError):
        return 1
    if isinstance(error, TransportError) and not error.may_have_happened:
        return 1
    failed = isinstance(error, TransportError | ServiceError | RateLimitedError)
    return _MAX_FAILURES if failed else 0


# Copies: a pet may be listed more than once, in one or several responses. Equal copies are merged.
# If copies differ, the pet is read again by its id.


async def resolve_copies(api: AsyncApi, table: pa.Table) -> tuple[pa.Table, tuple[int, ...]]:
    """Return the table with one row per id, sorted by id, and the ids of the pets that were read
    again because their copies differed.

    Rows without an id are left out, and so are pets that do not exist when they are read again.
    Raises ResponseError if a pet cannot be read again, and the errors of `look_up`.
    """
    numbered = table.filter(table["id"].is_valid()) if table["id"].null_count else table
    if is_ascending(numbered):
        return numbered, ()
    differing = _find_differing(numbered)
    if differing:
        found = await look_up(api, differing)
        pets = [_require_answer(pet_id, found[pet_id]) for pet_id in differing]
        is_other = pc.invert(pc.is_in(numbered["id"], pa.array(differing, pa.int64())))
        reread = table_from_pets([pet for pet in pets if pet is not None])
        numbered = pa.concat_tables([numbered.filter(is_other), reread])
    return sorted_by_id(without_duplicates(numbered)), differing


def _find_differing(table: pa.Table) -> tuple[int, ...]:
    """Return the ids whose rows differ, in ascending order."""
    repeated = pd.Series(table["id"].to_numpy()).duplicated(keep=False).to_numpy()
    if not repeated.any():
        return ()
    copies = frame_from_table(table.filter(pa.array(repeated))).sort_values("id", kind="stable")
    changes = {str(name): _changes(copies[name]) for name in copies}
    is_copy = ~changes.pop("id")
    unlike = np.logical_or.reduce([*changes.values()]) & is_copy
    return tuple(copies["id"].iloc[1:][unlike].unique().tolist())


def _changes(column: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask for all values except the first: true if the value differs from the previous
    one.
    """
    values = column.astype(object).where(column.notna(), None).to_numpy()
    changed: npt.NDArray[np.bool_] = values[1:] != values[:-1]
    return changed.astype(bool)


def _require_answer(pet_id: int, found: Pet | FailedLookup | None) -> Pet | None:
    if isinstance(found, FailedLookup):
        raise ResponseError(
            f"pet {pet_id} was listed in copies that differ, and cannot be read by its id: "
            f"{found.problem}",
            pet_id=pet_id,
            hint="petsync does not know which copy is right. Try again later.",
        )
    return found


# The status queries of a snapshot. Its coverage names the queries that failed.


TargetT = TypeVar("TargetT", bound=TableTarget)


class _LongListError(Exception):
    """A query lists more pets than the caller wants; `least` is the number that were read."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least


log = logging.getLogger(__name__)
_GENERAL_ERRORS = (AuthError, RateLimitedError, RedirectError, UnavailableError)


async def by_status(
    api: AsyncApi,
    statuses: Sequence[str],
    new_target: Callable[[], TargetT],
    most: int | None = None,
) -> tuple[list[TargetT], Coverage]:
    """Return the targets with the pets of the successful queries, including all copies of a pet,
    and the coverage. Each attempt of a query fills a new target.

    With `most`, the targets are TableWriters. If a query lists more pets than this, the rest of its
    list is not read, and _LongListError is raised.

    If a single query for all statuses fails, each status is queried separately. Raises the first
    error if no query succeeds. Errors that do not depend on the query are raised at once:
    AuthError, RateLimitedError, RedirectError, UnavailableError, and TransportError if the service
    cannot be reached.
    """
    queries = each_query(operations.find_pets_by_status, statuses, api.session.profile)
    queried = tuple(dict.fromkeys(statuses))
    if len(queries) > 1:
        return await _query_each(api, queried, None, new_target, most)
    try:
        return [await _query(api, queries[0], new_target, most)], Coverage(queried)
    except ApiError as error:
        if len(queried) == 1 or not _concerns_query(error):
            raise
        log.info("%s; querying each status separately", error.problem)
        first = error
    return await _query_each(api, queried, first, new_target, most)


async def _query(
    api: AsyncApi, call: Call[list[Pet]], new_target: Callable[[], TargetT], most: int | None
) -> TargetT:
    target = await api.session.send(into_target(call, new_target, most))
    if most is not None and isinstance(target, TableWriter) and len(target) > most:
        raise _LongListError(pc.count_distinct(target.to_table()["id"]).as_py())
    return target


async def _query_each(
    api: AsyncApi,
    statuses: Sequence[str],
    first: ApiError | None,
    new_target: Callable[[], TargetT],
    most: int | None,
) -> tuple[list[TargetT], Coverage]:
    answers: dict[str, TargetT] = {}
    failed: list[FailedLookup] = []
    for status in statuses:
        call = operations.find_pets_by_status([status], profile=api.session.profile)
        try:
            answers[status] = await _query(api, call, new_target, most)
        except ApiError as error:
            if not _concerns_query(error):
                raise
            first = first or error
            failed.append(FailedLookup(status, error.problem))
    if first is not None and not answers:
        raise first
    return list(answers.values()), Coverage(tuple(answers), tuple(failed))


class _TargetReader(ListReader, Generic[TargetT]):
    def __init__(self, head: Response, target: TargetT, most: int | None) -> None:
        super().__init__(lambda start: detect_media(replace(head, body=start)), target, most)
        self.target = target


def into_target(
    call: Call[list[Pet]], new_target: Callable[[], TargetT], most: int | None = None
) -> Call[TargetT]:
    """Return a call with the same request. Its result is a new target for each attempt, filled with
    the pets of the response, including all copies of a pet. With `most`, a response in JSON is read
    only until there are more pets than this.
    """

    def new_reader(head: Response) -> _TargetReader[TargetT]:
        return _TargetReader(head, new_target(), most)

    def read(response: Response) -> TargetT:
        reader = response.reader
        if not isinstance(reader, _TargetReader):
            reader = new_reader(response)
            reader.write(response.body)
        reader.finish()
        target: TargetT = reader.target
        return target

    return Call(call.request, read, new_reader)


def new_table() -> TableWriter:
    """Return an empty table that takes pets."""
    return TableWriter(SCHEMA)


def _concerns_query(error: ApiError) -> bool:
    if isinstance(error, TransportError):
        return error.may_have_happened
    return not isinstance(error, _GENERAL_ERRORS)


# The results of the find operations as DataFrames or a snapshot, without Pet objects for JSON.


async def find_by_status(api: AsyncApi, statuses: Sequence[str]) -> pd.DataFrame:
    """Return the pets with one of the statuses, in the canonical columns.

    If a pet is listed more than once, the last copy counts.
    """
    return await _load(api, operations.find_pets_by_status, statuses=(*statuses,))


async def find_by_tags(api: AsyncApi, tags: Sequence[str]) -> pd.DataFrame:
    """Return the pets with at least one of the tags, in the canonical columns. If a pet is listed
    more than once, the last copy counts.
    """
    return await _load(api, operations.find_pets_by_tags, tags=(*tags,))


async def snapshot(api: AsyncApi, statuses: Sequence[str]) -> Snapshot:
    """Return the pets with one of the statuses, sorted by id, as `resolve_copies` returns them.

    If the query for a status fails, the status is in `coverage.failed`, and its pets are missing.
    A pet whose status changes between two queries may also be missing: only getPetById shows that
    a pet does not exist. Raises the errors of `by_status` and `resolve_copies`.
    """
    return await _snapshot(api, statuses, None)


async def short_snapshot(api: AsyncApi, statuses: Sequence[str], most: int) -> Snapshot | int:
    """Return what `snapshot` returns, unless a query lists more than `most` pets. The rest of such
    a list is not read, and the result is the number of pets that were read. Raises the same errors.
    """
    try:
        return await _snapshot(api, statuses, most)
    except _LongListError as error:
        return error.least


async def snapshot_of(
    api: AsyncApi,
    ids: Iterable[int],
    *,
    least: int = 0,
    on_progress: Callable[[Lookups], None] | None = None,
) -> Snapshot:
    """Return the pets with these ids, each read by getPetById, sorted by id. `least` is the minimum
    number of pets in the store.

    `coverage.ids` has all the ids; those of failed look-ups are in `coverage.failed`. Raises the
    errors of `look_up`.
    """
    taken_at = datetime.now(UTC)
    found = await look_up(api, ids, on_progress=on_progress)
    pets = [each for each in found.values() if isinstance(each, Pet)]
    failed = tuple(each for each in found.values() if isinstance(each, FailedLookup))
    return Snapshot(
        pets=PetTable(sorted_by_id(table_from_pets(pets))),
        coverage=Coverage(failed=failed, ids=tuple(found)),
        source=api.session.base_url,
        taken_at=taken_at,
        left_out=max(least - len(pets), 0),
    )


async def _snapshot(api: AsyncApi, statuses: Sequence[str], most: int | None) -> Snapshot:
    taken_at = datetime.now(UTC)
    parts, coverage = await by_status(api, statuses, new_table, most)
    pets = pa.concat_tables([part.to_table() for part in parts])
    table, reread = await resolve_copies(api, pets)
    return Snapshot(
        pets=PetTable(table.combine_chunks()),
        coverage=coverage,
        source=api.session.base_url,
        taken_at=taken_at,
        reread=reread,
    )


async def _load(
    api: AsyncApi,
    make: Callable[..., Call[list[Pet]]],
    *,
    statuses: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
) -> pd.DataFrame:
    taken_at = datetime.now(UTC).isoformat(timespec="microseconds")
    calls = each_query(make, statuses or tags, api.session.profile)
    parts = [(await api.session.send(into_target(call, new_table))).to_table() for call in calls]
    pets = PetTable(table=without_duplicates(pa.concat_tables(parts)))
    base = Base(
        pets=pets,
        store=api.session.base_url,
        taken_at=taken_at,
        statuses=statuses,
        tags=tags,
    )
    return frame_with_base(base)
