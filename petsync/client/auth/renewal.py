"""Keyring: the credentials that a session uses now, and their renewal: before the token ends, and
after a 401.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from petsync.client.auth.credentials import Credentials, Renew, checked_token
from petsync.errors import AuthError, PetsyncError

__all__ = ["Keyring", "Renewer", "still_refused"]


Renewer = Callable[[Credentials], Awaitable[Credentials]]
"""Gives new credentials for those that a sign-in can renew."""

_LOOK = "What renews the token needs a look."
_PAUSE = 15.0
"""So many seconds pass after a renewal that failed, while the token is still good."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why no new token came, and what to do about it."""

    why: str
    hint: str = _LOOK


class Keyring:
    """`credentials` are those that the next request is to carry. `age` counts the renewals, those
    that failed too: whoever remembers it knows whether there was one since.
    """

    def __init__(self, credentials: Credentials, renewer: Renewer | None = None) -> None:
        self.credentials = credentials
        self.renewer = renewer
        self.age = 0
        self._failure: _Failure | None = None
        self._not_before = 0.0
        self._lock = threading.Lock()
        self._renewing: tuple[Future[None], asyncio.Task[None]] | None = None

    def replace(self, credentials: Credentials) -> None:
        """Use others from here on; what the present ones hold stays masked."""
        with self._lock:
            self.credentials = credentials.after(self.credentials)
            self.age, self._failure, self._not_before = self.age + 1, None, 0.0

    async def fresh(self) -> None:
        """Return when the token has time before it, or a new one cannot be had: then the service
        has the word. Like `renew`, it renews once for all. Raises AuthError where there is no
        token yet, and none comes.
        """
        with self._lock:
            renewing = self._start() if self._is_due() else None
        if renewing is None:
            return
        await asyncio.shield(asyncio.wrap_future(renewing))
        failure = self._failure
        if failure is not None and self.credentials.token is None:
            raise AuthError(f"there is no token yet; {failure.why}", hint=failure.hint)

    async def renew(self, age: int, refused: AuthError) -> None:
        """Return when a request that was refused may be sent once more; it was sent when the
        keyring was of this `age`. One renewal is made for all such requests, whatever loop they
        are on, and outlives the one that began it. Raises AuthError where it fails, and `refused`
        where there is no way to renew.
        """
        with self._lock:
            renewing = self._start_or_raise(refused) if self.age == age else None
        if renewing is not None:
            await asyncio.shield(asyncio.wrap_future(renewing))
        failure = self._failure
        if failure is not None:
            raise _also(refused, failure.why, failure.hint)

    async def wait_for_renewal(self, seconds: float) -> None:
        """Return when no renewal of a sign-in is under way, at most so many seconds later: one
        that is broken off may have spent what the next one needs.
        """
        renewing = self._renewing
        if renewing is not None and self.credentials.renew is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.shield(asyncio.wrap_future(renewing[0]))

    def _start_or_raise(self, refused: AuthError) -> Future[None]:
        started = self._start()
        if started is None:
            problem = self.credentials.problem
            raise _also(refused, problem, "Sign in again.") if problem else refused
        return started

    def _is_due(self) -> bool:
        mine = self.credentials
        if not (mine.token is None or mine.grant.is_due(time.time())):
            return False
        return mine.token is None or time.monotonic() >= self._not_before

    def _start(self) -> Future[None] | None:
        """The renewal, under way; None where there is no way to renew."""
        if self._renewing is None:
            how = self._how(self.credentials)
            if how is None:
                return None
            done: Future[None] = Future()
            done.set_running_or_notify_cancel()
            work = asyncio.create_task(self._renew(self.credentials, how, done))
            self._renewing = done, work
        return self._renewing[0]

    def _how(self, mine: Credentials) -> Callable[[], Awaitable[Credentials]] | None:
        renew, renewer = mine.renew, self.renewer
        if renew is not None:
            return lambda: _call_renew(renew, mine)
        if mine.grant.renews and renewer is not None:
            return lambda: renewer(mine)
        return None

    async def _renew(
        self, before: Credentials, how: Callable[[], Awaitable[Credentials]], done: Future[None]
    ) -> None:
        new, failure = None, _Failure("its renewal was cancelled")
        after = before
        try:
            new = await how()
            failure = _Failure("its renewal brought it once more")
        except PetsyncError as error:
            said = before.mask(error.message)
            failure = _Failure(f"its renewal failed: {said}", error.hint or _LOOK)
            after = before.with_failed_renewal(error)
        except Exception as error:  # noqa: BLE001 - a caller's function may raise anything
            # What it says may hold a secret that nobody here knows.
            failure = _Failure(f"its renewal failed: {type(error).__name__}")
        finally:
            with self._lock:
                self._finish_renewal(before, new, failure, after)
            done.set_result(None)

    def _finish_renewal(
        self, before: Credentials, new: Credentials | None, failure: _Failure, after: Credentials
    ) -> None:
        """`failure` counts where there are no new credentials, or these are the old ones; `after`
        are the old ones then.
        """
        self._renewing = None
        if self.credentials is not before:
            return  # Somebody signed in meanwhile, or out.
        is_new = new is not None and new.token != before.token
        self.credentials = new.after(before) if new is not None and is_new else after
        self._not_before = 0.0 if is_new else time.monotonic() + _PAUSE
        self.age, self._failure = self.age + 1, None if is_new else failure


def still_refused(refused: AuthError) -> AuthError:
    """The error for a token that is refused although it is a new one."""
    return _also(refused, "the token is a new one, just renewed", refused.hint)


async def _call_renew(renew: Renew, mine: Credentials) -> Credentials:
    """A function that blocks must not hold up the other requests."""
    made = renew() if inspect.iscoroutinefunction(renew) else await asyncio.to_thread(renew)
    return mine.with_token(checked_token(await made if inspect.isawaitable(made) else made))


def _also(refused: AuthError, why: str, hint: str) -> AuthError:
    return AuthError(
        f"{refused.message}; {why}",
        operation=refused.operation,
        pet_id=refused.pet_id,
        status=refused.status,
        service_message=refused.service_message,
        hint=hint,
    )
