"""A session's current credentials. They are renewed before the token expires, and after a 401."""

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
"""A function that renews a sign-in's credentials, and returns the new ones."""

_RENEW_HINT = "Check the function or the sign-in that renews the token."
_PAUSE_S = 15.0
"""Seconds after a failed renewal in which the old token is not renewed, except after a 401."""


@dataclass(frozen=True, slots=True)
class _Failure:
    why: str
    hint: str = _RENEW_HINT
    cause: str = ""
    """The message of petsync's error; "" without one."""


class CurrentCredentials:
    """The credentials of the next request, and their renewal.

    `age` grows with each renewal, even a failed one, and with each call of `replace`. A different
    `age` shows that the credentials may have changed.
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
        """Use other credentials from now on; they also mask the secrets of the current ones."""
        with self._lock:
            self.credentials = credentials.with_masks_of(self.credentials)
            self.age, self._failure, self._not_before = self.age + 1, None, 0.0

    async def ensure_fresh(self) -> None:
        """Get a missing token, or renew a token that is due, once for all callers.

        If a renewal fails, the old token stays in use. Raises AuthError if the request for a
        missing token fails.
        """
        if not self.is_due:
            return
        with self._lock:
            renewing = self._start() if self.is_due else None
        if renewing is None:
            return
        await asyncio.shield(asyncio.wrap_future(renewing))
        failure = self._failure
        if failure is not None and self.credentials.token is None:
            message = f"{failure.cause}, so there is no token"
            raise AuthError(
                message if failure.cause else f"there is no token; {failure.why}", hint=failure.hint
            )

    async def renew(self, age: int, refused: AuthError) -> None:
        """Renew the token after a request, sent when `age` had this value, was refused.

        Requests that were refused with the same token share one renewal, which continues if a
        caller is cancelled. Raises AuthError if the token cannot be renewed.
        """
        with self._lock:
            renewing = self._start_or_raise(refused) if self.age == age else None
        if renewing is not None:
            await asyncio.shield(asyncio.wrap_future(renewing))
        failure = self._failure
        if failure is not None:
            raise _extend_error(refused, failure.why, failure.hint)

    async def wait_for_renewal(self, seconds: float) -> None:
        """Wait up to `seconds` for a renewal in progress: if it were interrupted, its new refresh
        token would be lost. The user's `renew` function is not waited for.
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

    @property
    def is_due(self) -> bool:
        """True if `ensure_fresh` has something to do."""
        current = self.credentials
        if current.token is None:
            return current.renews
        return current.grant.is_due(time.time()) and time.monotonic() >= self._not_before

    def _start(self) -> Future[None] | None:
        """Return the renewal in progress or a new one; None if the token cannot be renewed."""
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
        what = "the request for a token" if before.token is None else "the token's renewal"
        new, failure = None, _Failure(f"{what} was cancelled")
        after = before
        try:
            new = await renewal()
            failure = _Failure(f"{what} returned the same token")
        except PetsyncError as error:
            message = before.mask(error.problem)
            source = before.refused_hint if _is_secret_wrong(error, before) else ""
            hint = source or error.cure or _RENEW_HINT
            failure = _Failure(f"{what} failed: {message}", hint, message)
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
        """Use the new credentials or, if there are none, `after`: the old ones after the failure.

        New credentials are also used if they have the old token, because they may have a new
        refresh token; but then the renewal counts as failed.
        """
        self._renewing = None
        if self.credentials is not before:
            return  # The user has signed in or out in the meantime.
        is_new = new is not None and new.token != before.token
        self.credentials = after if new is None else new.with_masks_of(before)
        self._not_before = 0.0 if is_new else time.monotonic() + _PAUSE_S
        self.age, self._failure = self.age + 1, None if is_new else failure


def build_still_refused_error(refused: AuthError) -> AuthError:
    """Return the error for a request that is refused although the token was just renewed."""
    return _extend_error(refused, "the token was just renewed", refused.cure)


def _is_secret_wrong(error: PetsyncError, credentials: Credentials) -> bool:
    """Return true if the service refused the secrets themselves, and they are not in the keyring:
    then only their source can be corrected. Other refusals have their own advice.
    """
    if not isinstance(error, AuthError) or credentials.grant.kept == "keyring":
        return False
    return error.status == 401 or error.service_message in ("invalid_client", "invalid_grant")


async def _call_renew(renew: Renew, current: Credentials) -> Credentials:
    """Call `renew`, in a thread if it may block, so that other requests continue."""
    token = renew() if inspect.iscoroutinefunction(renew) else await asyncio.to_thread(renew)
    return current.with_token(checked_token(await token if inspect.isawaitable(token) else token))


def _extend_error(refused: AuthError, why: str, hint: str) -> AuthError:
    return AuthError(
        f"{refused.problem}; {why}",
        operation=refused.operation,
        pet_id=refused.pet_id,
        status=refused.status,
        service_message=refused.service_message,
        hint=hint,
    )
