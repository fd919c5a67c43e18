"""A session's current credentials, and their renewal: before the token expires, and after a 401."""

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

__all__ = ["CurrentCredentials", "Renewer", "build_still_refused_error"]


Renewer = Callable[[Credentials], Awaitable[Credentials]]
"""A function that returns new credentials for renewable ones."""

_RENEW_HINT = "Check the function or the sign-in that renews the token."
_PAUSE_S = 15.0
"""The seconds between a failed renewal and the next one, while the token is still valid."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The reason why a renewal failed, and a hint."""

    why: str
    hint: str = _RENEW_HINT


class CurrentCredentials:
    """The current credentials, and their renewal.

    `credentials` are those of the next request. `age` counts the renewals, including failed ones,
    and the calls of `replace`: a caller can compare it with an earlier value to see whether the
    credentials may have changed.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.renewer: Renewer | None = None
        self.age = 0
        self._failure: _Failure | None = None
        self._not_before = 0.0
        self._lock = threading.Lock()
        self._renewing: tuple[Future[None], asyncio.Task[None]] | None = None

    def replace(self, credentials: Credentials) -> None:
        """Use other credentials from now on; the secrets of the current ones stay masked."""
        with self._lock:
            self.credentials = credentials.with_past_of(self.credentials)
            self.age, self._failure, self._not_before = self.age + 1, None, 0.0

    async def ensure_fresh(self) -> None:
        """Renew a token that is due, once for all callers. If the renewal fails, return, and let
        the service decide about the old token. Raises AuthError if the renewal fails and there is
        no old token.
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
        """Renew the token after a refused request, which was sent at this `age`.

        One renewal serves all such requests on all loops, and continues if its caller is cancelled.
        Raises AuthError if it fails, and `refused` if the token cannot be renewed.
        """
        with self._lock:
            renewing = self._start_or_raise(refused) if self.age == age else None
        if renewing is not None:
            await asyncio.shield(asyncio.wrap_future(renewing))
        failure = self._failure
        if failure is not None:
            raise _extend_error(refused, failure.why, failure.hint)

    async def wait_for_renewal(self, seconds: float) -> None:
        """Wait up to `seconds` for a renewal in progress, because an interrupted one may have used
        up the refresh token. Do not wait for a function of the caller.
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
            raise _extend_error(refused, problem, "Sign in again.") if problem else refused
        return started

    def _is_due(self) -> bool:
        current = self.credentials
        if not (current.token is None or current.grant.is_due(time.time())):
            return False
        return current.token is None or time.monotonic() >= self._not_before

    def _start(self) -> Future[None] | None:
        """Return the running renewal, which is started if necessary; None if the token cannot be
        renewed.
        """
        if self._renewing is None:
            renewal = self._choose_renewal(self.credentials)
            if renewal is None:
                return None
            done: Future[None] = Future()
            done.set_running_or_notify_cancel()
            task = asyncio.create_task(self._renew(self.credentials, renewal, done))
            self._renewing = done, task
        return self._renewing[0]

    def _choose_renewal(self, current: Credentials) -> Callable[[], Awaitable[Credentials]] | None:
        renew, renewer = current.renew, self.renewer
        if renew is not None:
            return lambda: _call_renew(renew, current)
        if current.grant.renews and renewer is not None:
            return lambda: renewer(current)
        return None

    async def _renew(
        self, before: Credentials, renewal: Callable[[], Awaitable[Credentials]], done: Future[None]
    ) -> None:
        what = "the request for one" if before.token is None else "its renewal"
        new, failure = None, _Failure(f"{what} was cancelled")
        after = before
        try:
            new = await renewal()
            failure = _Failure(f"{what} returned the same token")
        except PetsyncError as error:
            message = before.mask(error.message)
            failure = _Failure(f"{what} failed: {message}", error.hint or _RENEW_HINT)
            after = before.with_failed_renewal(error)
        except Exception as error:  # noqa: BLE001 - a caller's function may raise anything
            # The message may contain a secret that petsync does not know.
            failure = _Failure(f"{what} failed: {type(error).__name__}")
        finally:
            with self._lock:
                self._finish_renewal(before, new, failure, after)
            done.set_result(None)

    def _finish_renewal(
        self, before: Credentials, new: Credentials | None, failure: _Failure, after: Credentials
    ) -> None:
        """Store the new credentials or, if there are none, `after`, the updated old ones. Record
        `failure` unless the token is a new one; credentials with the old token may have a new
        refresh token.
        """
        self._renewing = None
        if self.credentials is not before:
            return  # The user has signed in or out in the meantime.
        is_new = new is not None and new.token != before.token
        self.credentials = after if new is None else new.with_past_of(before)
        self._not_before = 0.0 if is_new else time.monotonic() + _PAUSE_S
        self.age, self._failure = self.age + 1, None if is_new else failure


def build_still_refused_error(refused: AuthError) -> AuthError:
    """Return the error for a new token that is refused."""
    return _extend_error(refused, "the token was just renewed", refused.hint)


async def _call_renew(renew: Renew, current: Credentials) -> Credentials:
    """Call `renew`; a blocking function runs in a thread, so that other requests continue."""
    token = renew() if inspect.iscoroutinefunction(renew) else await asyncio.to_thread(renew)
    return current.with_token(checked_token(await token if inspect.isawaitable(token) else token))


def _extend_error(refused: AuthError, why: str, hint: str) -> AuthError:
    return AuthError(
        f"{refused.message}; {why}",
        operation=refused.operation,
        pet_id=refused.pet_id,
        status=refused.status,
        service_message=refused.service_message,
        hint=hint,
    )
