"""Keyring: the credentials that a session uses now, and their renewal after a 401."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import Future

from petsync.client.auth import Credentials, Renew, checked_token
from petsync.errors import AuthError, PetsyncError
from petsync.settings import Secret

__all__ = ["Keyring", "still_refused"]


class Keyring:
    """`credentials` are those that the next request is to carry. `age` counts the renewals, those
    that failed too: whoever remembers it knows whether there was one since.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.age = 0
        self._failure = ""
        self._lock = threading.Lock()
        self._renewing: tuple[Future[None], asyncio.Task[None]] | None = None

    async def renew(self, age: int, refused: AuthError) -> None:
        """Return when a request that was refused may be sent once more; it was sent when the
        keyring was of this `age`. One renewal is made for all such requests, whatever loop they
        are on, and outlives the one that began it. Raises AuthError where it fails, and `refused`
        where there is no way to renew.
        """
        with self._lock:
            renewing = self._begun(refused) if self.age == age else None
        if renewing is not None:
            await asyncio.shield(asyncio.wrap_future(renewing))
        if self._failure:
            raise _also(refused, self._failure, "What renews the token needs a look.")

    def _begun(self, refused: AuthError) -> Future[None]:
        if self.credentials.renew is None:
            raise refused
        if self._renewing is None:
            done: Future[None] = Future()
            done.set_running_or_notify_cancel()
            work = asyncio.create_task(self._renew(self.credentials.renew, done))
            self._renewing = done, work
        return self._renewing[0]

    async def _renew(self, renew: Renew, done: Future[None]) -> None:
        token, failure = None, "its renewal was cancelled"
        try:
            token = await _called(renew)
            failure = "" if token != self.credentials.token else "its renewal brought it once more"
        except PetsyncError as error:
            failure = f"its renewal failed: {self.credentials.masked_text(error.message)}"
        except Exception as error:  # noqa: BLE001 - a caller's function may raise anything
            # What it says may hold a secret that nobody here knows.
            failure = f"its renewal failed: {type(error).__name__}"
        finally:
            with self._lock:
                if token is not None and not failure:
                    self.credentials = self.credentials.renewed(token)
                self.age, self._failure, self._renewing = self.age + 1, failure, None
            done.set_result(None)


def still_refused(refused: AuthError) -> AuthError:
    """The error for a token that is refused although it is a new one."""
    return _also(refused, "the token is a new one, just renewed", refused.hint)


async def _called(renew: Renew) -> Secret:
    """A function that blocks must not hold up the other requests."""
    made = renew() if inspect.iscoroutinefunction(renew) else await asyncio.to_thread(renew)
    return checked_token(await made if inspect.isawaitable(made) else made)


def _also(refused: AuthError, why: str, hint: str) -> AuthError:
    return AuthError(
        f"{refused.message}; {why}",
        operation=refused.operation,
        pet_id=refused.pet_id,
        status=refused.status,
        service_message=refused.service_message,
        hint=hint,
    )
