"""Vault: the sign-in for one service that is kept in the keyring, and shared by all processes that
use the same state folder.

A file there says, without any secret, for which services there is one: a keyring is not asked, and
asks nobody to unlock it, for the others. A lock beside it keeps two processes from renewing at
once: a refresh token works once, and one that comes twice ends the sign-in of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from petsync._file import (
    make_state_folder,
    no_link,
    open_private,
    read_ordinary,
    write_private,
)
from petsync.client.credentials import Credentials
from petsync.client.grant import Grant
from petsync.client.oauth.safe import Safe
from petsync.errors import (
    ApiError,
    AuthError,
    LockedError,
    PetsyncError,
    SettingsError,
    TransportError,
)
from petsync.settings import Secret

__all__ = ["Vault"]

_MARKS = "sign-in.json"
_LOCK = "sign-in.lock"
_PATIENCE = 90.0
_STEP = 0.05
_FORMAT = 1
_AGAIN = "Sign in again: `petsync login`, or store.begin_sign_in(keep='keyring')."
Renew = Callable[[Credentials], Awaitable[Credentials]]


class Vault:
    """The sign-in at `url` that is kept, by way of a state folder. Raises SettingsError."""

    def __init__(self, state: Path, url: str, safe: Safe | None = None) -> None:
        self._state, self._url = state, url
        self._safe = safe or Safe()

    def kept(self) -> Credentials | None:
        """What is kept; without secrets, and with a `problem`, where it cannot be had. None where
        nothing is said to be there.
        """
        try:
            name = self._name()
            if name is None:
                return None
            found = self._read(name)
        except SettingsError as error:
            return _without(f"the sign-in in the keyring cannot be used: {error.message}")
        return found or _without("the keyring has lost the sign-in that was kept there")

    def has_mark(self) -> bool:
        """Whether the state folder says that there is a sign-in; the keyring is not asked."""
        return self._name() is not None

    async def check(self) -> None:
        """Return if something could be kept. Raises SettingsError."""
        os.close(self._opened())
        await asyncio.to_thread(self._safe.get, f"{self._url} is there a keyring?")

    async def put(self, credentials: Credentials) -> None:
        """Keep these, in the place of others."""
        async with self._alone():
            marks = self._marks()
            name = marks.get(self._url, "")
            if name.rpartition(" ")[0] != self._url:
                name = self._new_name()
            await self._write(name, credentials)
            self._mark({**marks, self._url: name})

    async def forget(self, mine: Credentials) -> None:
        """Keep nothing, unless somebody has signed in anew in the place of these."""
        async with self._alone():
            marks, name = self._marks(), self._name()
            if name is None:
                return
            packed = await asyncio.to_thread(self._safe.get, name)
            there = None if packed is None else _restored(packed)
            if there is None or there.grant.name == mine.grant.name:
                await asyncio.to_thread(self._safe.remove, name)
                self._mark({url: other for url, other in marks.items() if url != self._url})

    async def renewed(self, mine: Credentials, renew: Renew) -> Credentials:
        """New credentials for these: those that another process got meanwhile, or what `renew`
        gives, which is then kept. Raises AuthError where somebody signed out.
        """
        async with self._alone():
            name = self._name()
            there = None if name is None else await asyncio.to_thread(self._read, name)
            if name is None or there is None:
                raise AuthError("sign-in: it was ended elsewhere", hint=_AGAIN)
            if there.grant.name != mine.grant.name:
                # Somebody else signed in here: who works goes on as who they are.
                own = replace(mine, grant=mine.grant.keep("memory"))
                return await renew(own)
            if there.token != mine.token and _works(there):
                return there
            _check_certain(there, mine)
            return await self._written(name, await self._answered(name, there, renew))

    async def _answered(self, name: str, there: Credentials, renew: Renew) -> Credentials:
        """What `renew` gives. Where its answer is lost, whoever comes next is to know."""
        try:
            return await renew(there)
        except ApiError as error:
            doubted = there.doubted(error)
            if doubted is not there:
                with contextlib.suppress(SettingsError):
                    await self._write(name, doubted)
            raise

    async def _written(self, name: str, new: Credentials) -> Credentials:
        """These, which are good even where they cannot be kept: then for this process alone, as
        what is still in the keyring is spent, and must not be sent by anybody.
        """
        try:
            await self._write(name, new)
        except SettingsError as error:
            await self._given_up(name)
            said = f"the renewed sign-in could not be kept ({error.message}); it ends with petsync"
            return replace(new, grant=new.grant.keep("memory"), problem=said)
        return new

    async def _given_up(self, name: str) -> None:
        """Let others find nothing, even where the keyring does not let go of the entry."""
        with contextlib.suppress(SettingsError):
            self._mark({**self._marks(), self._url: self._new_name()})
        with contextlib.suppress(SettingsError):
            await asyncio.to_thread(self._safe.remove, name)

    def _new_name(self) -> str:
        return f"{self._url} {secrets.token_hex(6)}"

    async def _write(self, name: str, credentials: Credentials) -> None:
        await asyncio.to_thread(self._safe.put, name, _packed(credentials))

    def _read(self, name: str) -> Credentials | None:
        packed = self._safe.get(name)
        return None if packed is None else _unpacked(packed)

    def _name(self) -> str | None:
        """The entry's name in the keyring. Raises SettingsError for one of another address: whoever
        can write the state folder could name it, and have its token sent here.
        """
        name = self._marks().get(self._url)
        if name is not None and name.rpartition(" ")[0] != self._url:
            raise SettingsError(
                f"{self._state / _MARKS} names a sign-in of another address for {self._url}",
                hint=f"Who wrote that file? Delete it. {_AGAIN}",
            )
        return name

    def _marks(self) -> dict[str, str]:
        path = self._state / _MARKS
        why = "it is a symbolic link" if path.is_symlink() else "it is damaged"
        try:
            no_link(path)
            return msgspec.json.decode(read_ordinary(path), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            raise SettingsError(
                f"{path} cannot be read: {why}",
                hint="It only says which sign-ins are kept: delete it, and sign in again.",
            ) from None

    def _mark(self, marks: Mapping[str, str]) -> None:
        try:
            write_private(self._state / _MARKS, msgspec.json.encode(marks) + b"\n", follow=False)
        except OSError as error:
            raise _unwritable(self._state, error) from None

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """While this lasts, no other task, thread or process is in here."""
        import fcntl

        lock = self._opened()
        try:
            until = time.monotonic() + _PATIENCE
            while not _locked(fcntl, lock):
                if time.monotonic() > until:
                    raise LockedError(
                        "another process is signing in, and does not end",
                        hint="Does it wait for the keyring to be unlocked?",
                    )
                await asyncio.sleep(_STEP)
            yield
        finally:
            os.close(lock)

    def _opened(self) -> int:
        try:
            make_state_folder(self._state)
            return open_private(self._state / _LOCK, os.O_RDWR)
        except OSError as error:
            raise _unwritable(self._state, error) from None


def _works(there: Credentials) -> bool:
    """Whether what another process got meanwhile is to be used as it is."""
    now = time.time()
    is_over = there.grant.is_doubtful and there.grant.is_over(now)
    return not there.grant.is_due(now) and not is_over


def _check_certain(there: Credentials, mine: Credentials) -> None:
    """Return if the refresh token that is kept may be sent: one whose answer was lost is not,
    while the present token still works. Raises AuthError and TransportError.
    """
    now = time.time()
    if not there.grant.renews:
        raise AuthError("sign-in: it was renewed in vain elsewhere", hint=_AGAIN)
    if there.grant.is_doubtful and mine.grant.is_due(now) and not mine.grant.is_over(now):
        raise TransportError(
            "sign-in: its renewal was not answered", may_have_happened=True, hint=_AGAIN
        )


def _locked(fcntl: Any, lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _packed(credentials: Credentials) -> Secret:
    saved = {
        "format": _FORMAT,
        "token": None if credentials.token is None else credentials.token.reveal(),
        "key": None if credentials.key is None else credentials.key.reveal(),
        "grant": credentials.grant.saved(),
    }
    return Secret(msgspec.json.encode(saved).decode())


def _unpacked(packed: Secret) -> Credentials:
    found = _restored(packed)
    if found is None:
        raise SettingsError("what the keyring keeps is not of this version of petsync", hint=_AGAIN)
    return found


def _restored(packed: Secret) -> Credentials | None:
    try:
        saved = msgspec.json.decode(packed.reveal())
        if saved["format"] != _FORMAT:
            return None
        token, key = (None if saved[n] is None else Secret(saved[n]) for n in ("token", "key"))
        return Credentials(token, key, grant=Grant.restored(saved["grant"], "keyring"))
    except (msgspec.DecodeError, TypeError, KeyError, ValueError):
        return None


def _without(problem: str) -> Credentials:
    return Credentials(grant=Grant(kind="none", kept="keyring"), problem=problem)


def _unwritable(state: Path, error: OSError) -> PetsyncError:
    return SettingsError(
        f"the folder {state} cannot be written: {error.strerror}",
        hint="Name another one with --state, or sign in with keep='memory'.",
    )
