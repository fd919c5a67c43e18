"""Loaders: the find operations as DataFrames, look-ups of many ids, queries of a snapshot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

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
from petsync.table.frame import frame_from_json, frame_from_pets, without_duplicates

__all__ = [
    "Found",
    "Lookups",
    "as_frame",
    "by_status",
    "find_by_status",
    "find_by_tags",
    "look_up",
    "resolve_copies",
    "snapshot",
]


# look_up: getPetById for many ids, a few at a time.


Found = Pet | FailedLookup | None
"""What becomes of one look-up."""

_CONCURRENCY = 32
_EVERY = 0.1
_IN_A_ROW = 2 * _CONCURRENCY
"""So many failures without an answer between them: no worker got through, twice."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """How far the look-ups are: how many ids are `done`, answered or not, of how many."""

    done: int
    total: int


async def look_up(
    api: AsyncApi,
    ids: Iterable[int],
    *,
    concurrency: int = _CONCURRENCY,
    on_progress: Callable[[Lookups], None] | None = None,
) -> dict[int, Found]:
    """What getPetById says of each id, in their order: the pet, None for a 404, or FailedLookup
    where no attempt brought an answer that can be read.

    Each id is asked for once, `concurrency` at a time. `on_progress` is called at the beginning,
    about ten times a second, and at the end. Raises what ends them all: AuthError, RedirectError,
    UnavailableError, TransportError for a service that cannot be reached; and TransportError,
    ServiceError or RateLimitedError where 64 in a row failed so. Nothing is under way any more
    when it returns, raises or was cancelled.
    """
    wanted = list(dict.fromkeys(ids))
    run = _Run(api, wanted, on_progress)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(wanted))):
                group.create_task(run.work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return {pet_id: run.found[pet_id] for pet_id in wanted}


class _Run:
    def __init__(
        self, api: AsyncApi, wanted: list[int], on_progress: Callable[[Lookups], None] | None
    ) -> None:
        self.found: dict[int, Found] = {}
        self._api, self._total, self._on_progress = api, len(wanted), on_progress
        # One iterator for all workers: a task for each id would cost more than its request.
        self._left = iter(wanted)
        self._in_a_row = 0
        self._told_at = 0.0
        self._tell()

    async def work(self) -> None:
        """Look up one id after the other until none is left."""
        for pet_id in self._left:
            self.found[pet_id] = await self._fetch_pet(pet_id)
            self._tell()

    async def _fetch_pet(self, pet_id: int) -> Found:
        pet: Pet | None = None
        try:
            pet = await self._api.get_pet_by_id(pet_id)
        except NotFoundError:
            pass
        except ApiError as error:
            self._bear(error)
            return FailedLookup(str(pet_id), error.message)
        self._in_a_row = 0
        return pet

    def _bear(self, error: ApiError) -> None:
        """Raise the error if it is the service's, and not this pet's."""
        most = _most_in_a_row(error)
        self._in_a_row = self._in_a_row + 1 if most else 0
        if most and self._in_a_row >= most:
            raise error

    def _tell(self) -> None:
        done = len(self.found)
        if self._on_progress is None or not self._total:
            return
        now = asyncio.get_running_loop().time()
        if done in (0, self._total) or now - self._told_at >= _EVERY:
            self._told_at = now
            self._on_progress(Lookups(done, self._total))


def _most_in_a_row(error: ApiError) -> int:
    """How many such errors, one after the other, end the look-ups; 0 for any number.

    A refused connection was tried again for seconds already, so the service is gone; an answer
    about the one pet, however wrong, shows that it is there.
    """
    if isinstance(error, AuthError | RedirectError | UnavailableError):
        return 1
    if isinstance(error, TransportError) and not error.may_have_happened:
        return 1
    failed = isinstance(error, TransportError | ServiceError | RateLimitedError)
    return _IN_A_ROW if failed else 0


# Copies of one pet, in one answer or in two: equal ones are one, others are read again.


async def resolve_copies(
    api: AsyncApi, frame: pd.DataFrame
) -> tuple[pd.DataFrame, tuple[int, ...]]:
    """The table with one row for each id, sorted by it and without rows that have none, and the
    ids of the pets whose copies differed, which are as getPetById says.

    Raises ResponseError for such a pet that cannot be read, and what look_up raises.
    """
    numbered = _drop_missing_ids(frame)
    if _ascends(numbered["id"]):
        return numbered, ()
    differing = _differing(numbered)
    if differing:
        found = await look_up(api, differing)
        pets = [_require_answer(pet_id, found[pet_id]) for pet_id in differing]
        others = numbered[~numbered["id"].isin(differing)]
        here = frame_from_pets([pet for pet in pets if pet is not None])
        numbered = pd.concat([others, here], ignore_index=True)
    return without_duplicates(numbered).sort_values("id", ignore_index=True), differing


def _drop_missing_ids(frame: pd.DataFrame) -> pd.DataFrame:
    missing = frame["id"].isna()
    return frame[~missing].reset_index(drop=True) if missing.any() else frame


def _ascends(ids: pd.Series[int]) -> bool:
    """Whether each id is above the one before, as nearly every service lists them."""
    numbers = ids.to_numpy(np.int64)
    return bool((numbers[1:] > numbers[:-1]).all())


def _differing(frame: pd.DataFrame) -> tuple[int, ...]:
    """The ids whose rows are not the same pet throughout, in order."""
    repeated = frame["id"].duplicated(keep=False)
    if not repeated.any():
        return ()
    copies = frame[repeated].sort_values("id", kind="stable")
    changes = {str(name): _changes(copies[name]) for name in copies}
    is_copy = ~changes.pop("id")
    unlike = np.logical_or.reduce([*changes.values()]) & is_copy
    return tuple(copies["id"].iloc[1:][unlike].unique().tolist())


def _changes(column: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Whether each value but the first differs from the one before it."""
    values = column.astype(object).where(column.notna(), None).to_numpy()
    changed: npt.NDArray[np.bool_] = values[1:] != values[:-1]
    return changed.astype(bool)


def _require_answer(pet_id: int, found: Pet | FailedLookup | None) -> Pet | None:
    if isinstance(found, FailedLookup):
        raise ResponseError(
            f"pet {pet_id} came in copies that differ, and cannot be read by its id: "
            f"{found.problem}",
            pet_id=pet_id,
            hint="Which copy holds, nobody can say. Try again when the service answers.",
        )
    return found


# The status queries of a snapshot, and what is covered where some of them fail.


log = logging.getLogger(__name__)
_ABOUT_ALL = (AuthError, RateLimitedError, RedirectError, UnavailableError)


async def by_status(api: AsyncApi, statuses: Sequence[str]) -> tuple[list[pd.DataFrame], Coverage]:
    """Each answered query's pets, with every copy of a pet, and what the answers cover.

    Where one query for all statuses fails, each is asked for by itself. Raises the first error if
    no status is answered, and at once an error that is not about the query: AuthError,
    RateLimitedError, RedirectError, UnavailableError, TransportError for a service that cannot be
    reached.
    """
    queries = each_query(operations.find_pets_by_status, statuses, api.session.profile)
    asked = tuple(dict.fromkeys(statuses))
    if len(queries) > 1:
        return await _each(api, asked, None)
    try:
        return [await api.session.send(as_frame(queries[0], copies=True))], Coverage(asked)
    except ApiError as error:
        if len(asked) == 1 or not _is_about_the_query(error):
            raise
        log.info("%s; asking for each status by itself", error.message)
        first = error
    return await _each(api, asked, first)


async def _each(
    api: AsyncApi, asked: Sequence[str], first: ApiError | None
) -> tuple[list[pd.DataFrame], Coverage]:
    answers: dict[str, pd.DataFrame] = {}
    failed: list[FailedLookup] = []
    for status in asked:
        call = operations.find_pets_by_status([status], profile=api.session.profile)
        try:
            answers[status] = await api.session.send(as_frame(call, copies=True))
        except ApiError as error:
            if not _is_about_the_query(error):
                raise
            first = first or error
            failed.append(FailedLookup(status, error.message))
    if first is not None and not answers:
        raise first
    return list(answers.values()), Coverage(tuple(answers), tuple(failed))


def as_frame(call: Call[list[Pet]], *, copies: bool = False) -> Call[pd.DataFrame]:
    """The same call, with its answer as a table: one row for each pet, or for each copy of it."""

    def read_frame(response: Response) -> pd.DataFrame:
        if detect_media(response) == "json":
            return frame_from_json(response.body, copies=copies)
        frame = frame_from_pets(call.read(response))
        return frame if copies else without_duplicates(frame)

    return Call(call.request, read_frame)


def _is_about_the_query(error: ApiError) -> bool:
    if isinstance(error, TransportError):
        return error.may_have_happened
    return not isinstance(error, _ABOUT_ALL)


# Loaders: the find operations' answers as DataFrames, straight from the bytes.


async def find_by_status(api: AsyncApi, statuses: Sequence[str]) -> pd.DataFrame:
    """The pets that have one of the statuses, in the canonical columns.

    Of a pet that came twice the last copy stays, as it was read last; `snapshot` asks again.
    """
    return await _load(api, operations.find_pets_by_status, statuses)


async def find_by_tags(api: AsyncApi, tags: Sequence[str]) -> pd.DataFrame:
    """The pets that carry at least one of the tags, in the canonical columns; of a pet that came
    twice the last copy.
    """
    return await _load(api, operations.find_pets_by_tags, tags)


async def snapshot(api: AsyncApi, statuses: Sequence[str]) -> Snapshot:
    """All pets that have one of the statuses, sorted by id. A pet without an id, which no later
    call could name, is left out.

    A status whose query fails for good is in `coverage.failed`, and its pets are not there; if no
    query is answered the first error is raised. A pet that came twice, and differently, is read by
    its id; it is left out where it is gone by then. A pet that moves, between two queries, from a
    status that is yet to be asked for to one that was, is seen by neither: only getPetById proves
    that a pet is not there.
    """
    taken_at = datetime.now(UTC)
    parts, coverage = await by_status(api, statuses)
    frame, reread = await resolve_copies(api, _concat(parts))
    return Snapshot(
        frame=frame,
        coverage=coverage,
        source=api.session.base_url,
        taken_at=taken_at,
        reread=reread,
    )


async def _load(
    api: AsyncApi, make: Callable[..., Call[list[Pet]]], values: Sequence[str]
) -> pd.DataFrame:
    asked = each_query(make, values, api.session.profile)
    parts = [await api.session.send(as_frame(call)) for call in asked]
    return parts[0] if len(parts) == 1 else without_duplicates(_concat(parts))


def _concat(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
