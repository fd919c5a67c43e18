"""The sign-in for a service, stored in the system keyring and shared between processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from petsync._files import (
    make_state_folder,
    no_link,
    open_private,
    read_ordinary,
    try_lock,
    write_private,
)
from petsync.client.auth.credentials import Credentials, Grant
from petsync.errors import (
    ApiError,
    AuthError,
    LockedError,
    PetsyncError,
    SettingsError,
    TransportError,
)
from petsync.settings import Secret

__all__ = ["CredentialStore", "SecretStore"]


# SecretStore: the system's keyring, which is loaded when it is used, and whose failures are said in
# plain words.


T = TypeVar("T")
_SERVICE = "petsync"
_KEYRING_TIMEOUT = 60.0
_WAY_OUT = (
    "Set PETSYNC_TOKEN, or PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET; or install a keyring for "
    "this system. A form or a script can also sign in without keeping it."
)


class SecretStore:
    """Keeps secrets under names. Each call may block, while the keyring asks its owner to unlock
    it, for a minute at most. Raises SettingsError.
    """

    def get(self, name: str) -> Secret | None:
        """What is kept under the name."""
        found = _ask_keyring(lambda ring: ring.get_password(_SERVICE, name), "read")
        return None if found is None else Secret(str(found))

    def put(self, name: str, secret: Secret) -> None:
        """Keep it under the name; it is read back, as there are keyrings that keep nothing."""
        _ask_keyring(lambda ring: ring.set_password(_SERVICE, name, secret.reveal()), "write")
        if self.get(name) != secret:
            raise SettingsError("the system's keyring keeps nothing", hint=_WAY_OUT)

    def remove(self, name: str) -> None:
        """Keep nothing under the name; it is no error if nothing was."""
        if self.get(name) is not None:
            _ask_keyring(lambda ring: ring.delete_password(_SERVICE, name), "write")


def _ask_keyring(question: Callable[[Any], T], what: str) -> T:
    """The answer of the keyring. A thread of its own, which does not keep the process, waits for
    it: a keyring that waits for a password nobody types never returns.
    """
    answer: Future[T | SettingsError] = Future()
    threading.Thread(
        target=lambda: answer.set_result(_caught(question, what)),
        name="petsync-keyring",
        daemon=True,
    ).start()
    try:
        found = answer.result(_KEYRING_TIMEOUT)
    except TimeoutError:
        found = SettingsError(
            "the system's keyring does not answer",
            hint=f"Does it wait to be unlocked? {_WAY_OUT}",
        )
    if isinstance(found, SettingsError):
        raise found
    return found


def _caught(question: Callable[[Any], T], what: str) -> T | SettingsError:
    """An error is returned, not raised: its frames hold what was to be kept."""
    try:
        import keyring
        import keyring.errors
    except ImportError:
        return SettingsError("there is no keyring support on this machine", hint=_WAY_OUT)
    try:
        ring = keyring.get_keyring()
        if "plaintext" in type(ring).__name__.lower():
            return SettingsError(
                "the keyring of this machine is a file that everybody can read", hint=_WAY_OUT
            )
        return question(ring)
    except keyring.errors.NoKeyringError:
        return SettingsError("this machine has no keyring", hint=_WAY_OUT)
    except keyring.errors.KeyringLocked:
        return SettingsError(
            "the system's keyring is locked", hint=f"Unlock it and try again. {_WAY_OUT}"
        )
    except Exception as error:  # noqa: BLE001 - each backend raises errors of its own
        # What it says may hold what was to be kept.
        return SettingsError(
            f"the system's keyring cannot be used to {what} ({type(error).__name__})", hint=_WAY_OUT
        )


# CredentialStore: the sign-in for one service, in the keyring. All processes with the same state
# folder share it.
#
# A file there says, without any secret, for which services there is one: a keyring is not asked,
# and asks nobody to unlock it, for the others. A lock beside it keeps two processes from renewing
# at once: a refresh token works once, and one that comes twice ends the sign-in of all.


_MARKS = "sign-in.json"
_LOCK = "sign-in.lock"
_LOCK_TIMEOUT = 90.0
_STEP = 0.05
_FORMAT = 1
_AGAIN = "Sign in again: `petsync login`, or store.begin_sign_in(keep='keyring')."
Renew = Callable[[Credentials], Awaitable[Credentials]]


class CredentialStore:
    """The sign-in at `url` that is kept, by way of a state folder. Raises SettingsError."""

    def __init__(self, state: Path, url: str, safe: SecretStore | None = None) -> None:
        self._state, self._url = state, url
        self._safe = safe or SecretStore()

    def load(self) -> Credentials | None:
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
        self._made_lock()
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
            there = None if packed is None else _decode(packed)
            if there is None or there.grant.name == mine.grant.name:
                await asyncio.to_thread(self._safe.remove, name)
                self._mark({url: other for url, other in marks.items() if url != self._url})

    async def renew(self, mine: Credentials, renew: Renew) -> Credentials:
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
            return await self._store_renewed(name, await self._run_renewal(name, there, renew))

    async def _run_renewal(self, name: str, there: Credentials, renew: Renew) -> Credentials:
        """What `renew` gives. Where its answer is lost, whoever comes next is to know."""
        try:
            return await renew(there)
        except ApiError as error:
            doubted = there.with_failed_renewal(error)
            if doubted is not there:
                with contextlib.suppress(SettingsError):
                    await self._write(name, doubted)
            raise

    async def _store_renewed(self, name: str, new: Credentials) -> Credentials:
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
        await asyncio.to_thread(self._safe.put, name, _pack(credentials))

    def _read(self, name: str) -> Credentials | None:
        packed = self._safe.get(name)
        return None if packed is None else _unpack(packed)

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
        until = time.monotonic() + _LOCK_TIMEOUT
        while (lock := try_lock(self._made_lock())) is None:
            if time.monotonic() > until:
                raise LockedError(
                    "another process is signing in, and does not end",
                    hint="Does it wait for the keyring to be unlocked?",
                )
            await asyncio.sleep(_STEP)
        try:
            yield
        finally:
            lock.release()

    def _made_lock(self) -> Path:
        path = self._state / _LOCK
        try:
            make_state_folder(self._state)
            os.close(open_private(path, os.O_RDWR))
        except OSError as error:
            raise _unwritable(self._state, error) from None
        return path


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


def _pack(credentials: Credentials) -> Secret:
    saved = {
        "format": _FORMAT,
        "token": None if credentials.token is None else credentials.token.reveal(),
        "key": None if credentials.key is None else credentials.key.reveal(),
        "grant": credentials.grant.to_dict(),
    }
    return Secret(msgspec.json.encode(saved).decode())


def _unpack(packed: Secret) -> Credentials:
    found = _decode(packed)
    if found is None:
        raise SettingsError("what the keyring keeps is not of this version of petsync", hint=_AGAIN)
    return found


def _decode(packed: Secret) -> Credentials | None:
    try:
        saved = msgspec.json.decode(packed.reveal())
        if saved["format"] != _FORMAT:
            return None
        token, key = (None if saved[n] is None else Secret(saved[n]) for n in ("token", "key"))
        return Credentials(token, key, grant=Grant.from_dict(saved["grant"], "keyring"))
    except (msgspec.DecodeError, TypeError, KeyError, ValueError):
        return None


def _without(problem: str) -> Credentials:
    return Credentials(grant=Grant(kind="none", kept="keyring"), problem=problem)


def _unwritable(state: Path, error: OSError) -> PetsyncError:
    return SettingsError(
        f"the folder {state} cannot be written: {error.strerror}",
        hint="Name another one with --state, or sign in with keep='memory'.",
    )
