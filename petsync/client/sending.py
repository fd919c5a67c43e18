"""Sending: one call on its way, from its first attempt to its result."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from petsync.client.exchange import Exchange, OnSent
from petsync.client.flow import LONGEST_PAUSE, Flow
from petsync.client.renewal import Keyring, still_refused
from petsync.client.retry import RetryPolicy
from petsync.errors import (
    ApiError,
    AuthError,
    NotFoundError,
    RateLimitedError,
    ResponseError,
    ServiceError,
    TransportError,
    UnavailableError,
)
from petsync.wire.failure import error_for
from petsync.wire.message import Call, Response

__all__ = ["Again", "Hold", "Line", "Sending"]

T = TypeVar("T")
Again = Callable[[ApiError], Awaitable[None]]
Hold = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Line:
    """What every call needs that goes to one service on one event loop."""

    flow: Flow
    exchange: Exchange
    keyring: Keyring
    policy: RetryPolicy


class Sending(Generic[T]):
    """A call to one service. `patient`: attempts that found nobody listening do not count, as the
    breaker ends them.
    """

    __slots__ = (
        "_again",
        "_age",
        "_attempts",
        "_begun",
        "_call",
        "_held",
        "_hold",
        "_is_waited_for",
        "_last",
        "_line",
        "_on_sent",
        "_patient",
        "_uncertain",
    )

    def __init__(
        self,
        call: Call[T],
        line: Line,
        *,
        again: Again | None = None,
        on_sent: OnSent | None = None,
        hold: Hold | None = None,
        patient: bool = False,
    ) -> None:
        self._call, self._line = call, line
        self._again, self._on_sent, self._patient = again, on_sent, patient
        self._hold = hold
        self._age = self._attempts = 0
        self._held = self._begun = 0.0
        self._is_waited_for = self._uncertain = False

    async def result(self) -> T:
        """What the call reads of its answer. Raises ApiError."""
        try:
            return await self._authorised()
        except ApiError as error:
            if not self.goes_on(error):
                raise
            first = error
        # The time at the gate counts for all, and not against this one.
        self._begun = self._line.flow.now() - self._held
        try:
            return await self._line.policy.run(self, first)
        except NotFoundError:
            if self._call.request.operation == "deletePet" and self._uncertain:
                return self._call.read(Response(204, {}, b""))
            raise

    def goes_on(self, error: BaseException) -> bool:
        """As Repeated says."""
        return self._line.policy.repeats(self._call.request, error)

    def ends(self, wait: float) -> bool:
        """As Repeated says."""
        if _asked_for(self._last) > LONGEST_PAUSE:
            return True
        return self._attempts >= self._line.policy.attempts or wait > self._left()

    async def pause(self, seconds: float) -> None:
        """As Repeated says: the back-off, then a token of the budget."""
        await asyncio.sleep(seconds)
        if not await self._line.flow.budget.take(self._left()):
            raise self._last

    async def attempt(self) -> T:
        """As Repeated says."""
        await self._look(self._last)
        return await self._authorised()

    async def _authorised(self) -> T:
        """One attempt; after a 401, which surely did nothing, again with a renewed token."""
        is_new = False
        while True:
            try:
                return await self._once()
            except AuthError as error:
                if error.status != 401:
                    raise
                refused = error
            keyring = self._line.keyring
            is_current = self._age == keyring.age
            if is_current and is_new:
                raise still_refused(refused)
            await keyring.renew(self._age, refused)
            is_new = is_new or is_current
            await self._look(refused)

    async def _look(self, error: ApiError) -> None:
        if self._again is not None:
            await self._again(error)
        self._line.flow.counts.retries += 1

    async def _once(self) -> T:
        flow = self._line.flow
        await self._line.keyring.fresh()
        asked = flow.now()
        try:
            changes = self._call.request.method != "GET"
            await flow.enter(again=self._begun != 0.0, changes=changes)
        except UnavailableError as error:
            raise self._noted(error) from None
        begun = flow.now()
        self._held += begun - asked
        self._age = self._line.keyring.age
        try:
            if self._hold is not None:
                await self._hold()
            result = await self._read()
        except ApiError as error:
            wait = self._line.policy.common_wait(self._attempts + 1)
            flow.failed(self._call.request.operation, error, begun, wait)
            self._noted(error)
            raise
        else:
            flow.answered(self._call.request.operation, begun)
            return result
        finally:
            flow.leave()

    async def _read(self) -> T:
        line, request = self._line, self._call.request
        credentials = line.keyring.credentials
        line.flow.counts.requests += 1
        response = await line.exchange.answer(
            request, credentials, line.flow.carrier, self._on_sent
        )
        if not 200 <= response.status < 300:
            raise error_for(response, request, datetime.now(UTC), credentials.masked)
        try:
            return self._call.read(response)
        except ResponseError as error:
            # Its frames hold the answer.
            failure = error.with_traceback(None)
        failure.status = response.status
        failure.message = f"{request.operation}: {credentials.masked(failure.message)}"
        failure.args = (failure.message,)
        failure.may_have_happened = True
        raise failure from None

    def _noted(self, error: ApiError) -> ApiError:
        """The error, which now also says what is known of the attempts before."""
        request = self._call.request
        error.operation, error.pet_id = request.operation, request.pet_id
        gone = isinstance(error, TransportError) and not error.may_have_happened
        self._is_waited_for = gone and self._patient
        self._attempts += not (self._is_waited_for or isinstance(error, AuthError))
        self._uncertain = error.may_have_happened = self._uncertain or error.may_have_happened
        self._last = error
        return error

    def _left(self) -> float:
        """The seconds that may still pass, without those in which everything waits."""
        if self._is_waited_for:
            return math.inf
        spent = self._line.flow.now() - self._held - self._begun
        return self._line.policy.seconds - spent


def _asked_for(error: ApiError) -> float:
    seconds = error.retry_after if isinstance(error, RateLimitedError | ServiceError) else None
    return seconds or 0.0
