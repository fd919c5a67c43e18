"""look_up: getPetById for many ids, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from petsync.client.api import AsyncApi
from petsync.diff.snapshot import Unanswered
from petsync.errors import (
    ApiError,
    AuthError,
    NotFoundError,
    RateLimitedError,
    RedirectError,
    ServiceError,
    TransportError,
    UnavailableError,
)
from petsync.model import Pet

__all__ = ["Found", "Lookups", "look_up"]

Found = Pet | Unanswered | None
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
    """What getPetById says of each id, in their order: the pet, None for a 404, or Unanswered
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
            self.found[pet_id] = await self._found(pet_id)
            self._tell()

    async def _found(self, pet_id: int) -> Found:
        pet: Pet | None = None
        try:
            pet = await self._api.get_pet_by_id(pet_id)
        except NotFoundError:
            pass
        except ApiError as error:
            self._bear(error)
            return Unanswered(str(pet_id), error.message)
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
