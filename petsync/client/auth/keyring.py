"""The sign-in to a service, stored in the system's keyring and shared between processes."""

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

from petsync._extras import needs_extra
from petsync._files import (
    make_state_folder,
    must_not_be_link,
    open_private,
    read_regular,
    try_lock,
    write_atomically,
)
from petsync._json import decoder_of
from petsync.client.auth.credentials import Credentials, Grant
from petsync.errors import (
    ApiError,
    AuthError,
    LockedError,
    MissingExtraError,
    PetsyncError,
    SettingsError,
    TransportError,
)
from petsync.settings import Secret
from petsync.trust import note_address

__all__ = ["CredentialStore", "SecretStore"]


# SecretStore: access to the system's keyring. The library `keyring` is imported on first use.


T = TypeVar("T")
_SERVICE = "petsync"
_KEYRING_TIMEOUT_S = 60.0
_INSTEAD = (
    "Set PETSYNC_TOKEN, or PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET. In a notebook or a script, "
    "you can also sign in without storing anything."
)
_HINT = f"{_INSTEAD} Or install a keyring for this system."


class SecretStore:
    """Stores secrets by name. Each access may block for up to a minute, for example while the
    keyring asks the user to unlock it. Raises SettingsError if the keyring cannot be used.
    """

    def get(self, name: str) -> Secret | None:
        found = _call_keyring(lambda ring: ring.get_password(_SERVICE, name), "read")
        return None if found is None else Secret(str(found))

    def put(self, name: str, secret: Secret) -> None:
        """Store the secret, and read it back: some keyrings report success but store nothing."""
        _call_keyring(lambda ring: ring.set_password(_SERVICE, name, secret.reveal()), "write")
        if self.get(name) != secret:
            raise SettingsError("the system's keyring did not store the sign-in", hint=_HINT)

    def remove(self, name: str) -> None:
        """Delete the secret, if it exists."""
        if self.get(name) is not None:
            _call_keyring(lambda ring: ring.delete_password(_SERVICE, name), "write")


def _call_keyring(call: Callable[[Any], T], action: str) -> T:
    """Call the keyring in a daemon thread, because it may wait for a password forever."""
    result: Future[T | SettingsError] = Future()
    threading.Thread(
        target=lambda: result.set_result(_try_call(call, action)),
        name="petsync-keyring",
        daemon=True,
    ).start()
    try:
        found = result.result(_KEYRING_TIMEOUT_S)
    except TimeoutError:
        found = SettingsError(
            "the system's keyring does not answer",
            hint=f"It may be waiting for its password. You can also sign in without it: {_INSTEAD}",
        )
    if isinstance(found, SettingsError):
        raise found
    return found


def _try_call(call: Callable[[Any], T], action: str) -> T | SettingsError:
    """Call the keyring. Return errors instead of raising them: their tracebacks contain the
    secret.
    """
    try:
        with needs_extra(
            "keyring", "a stored sign-in", instead=f"Or sign in without it: {_INSTEAD}"
        ):
            import keyring
            import keyring.errors
    except MissingExtraError as error:
        return error
    try:
        ring = keyring.get_keyring()
        if "plaintext" in type(ring).__name__.lower():
            return SettingsError("the keyring of this machine is a plain-text file", hint=_HINT)
        return call(ring)
    except keyring.errors.NoKeyringError:
        return SettingsError("this machine has no keyring", hint=_HINT)
    except keyring.errors.KeyringLocked:
        return SettingsError(
            "the system's keyring is locked",
            hint=f"Unlock it and try again, or sign in without it: {_INSTEAD}",
        )
    except Exception as error:  # noqa: BLE001 - each backend raises errors of its own
        # The message may contain the secret.
        return SettingsError(
            f"the system's keyring failed to {action} the sign-in ({type(error).__name__})",
            hint=_HINT,
        )


# CredentialStore: the sign-in to one service, in the keyring. All processes with the same state
# folder share it.
#
# An index file in that folder lists, without secrets, the services with a stored sign-in. For other
# services, `load` does not use the keyring, so it need not be unlocked. A lock file prevents two
# processes from renewing at the same time: a refresh token that is sent twice may end the sign-in.


_INDEX = "sign-in.json"
_LOCK = "sign-in.lock"
_LOCK_TIMEOUT_S = 90.0
_LOCK_INTERVAL_S = 0.05
_FORMAT = 1
_AGAIN = "Sign in again: `petsync login`, in Python store.begin_sign_in(keep='keyring')."
Renew = Callable[[Credentials], Awaitable[Credentials]]


class CredentialStore:
    """The stored sign-in to the service at `url`, shared through a state folder. The methods raise
    SettingsError if it cannot be read or stored, and LockedError if the lock is not released in
    time.
    """

    def __init__(self, state: Path, url: str) -> None:
        self._state, self._url = state, url
        self._keyring = SecretStore()

    def load(self) -> Credentials | None:
        """Return the stored credentials; None if the index has no entry.

        If they cannot be read, the result has no secrets, and its `problem` gives the reason.
        """
        try:
            name = self._name()
            if name is None:
                return None
            found = self._read(name)
        except SettingsError as error:
            return _build_empty(f"the sign-in in the keyring cannot be used: {error.problem}")
        return found or _build_empty("the keyring no longer contains the stored sign-in")

    def has_entry(self) -> bool:
        """Return true if the index has an entry for the service. Does not use the keyring."""
        return self._name() is not None

    async def check(self) -> None:
        """Raise SettingsError if petsync cannot use the keyring or write to the state folder."""
        self._create_lock_file()
        await asyncio.to_thread(self._keyring.get, f"{self._url} is there a keyring?")

    async def put(self, credentials: Credentials) -> None:
        """Store these credentials and replace the stored ones."""
        async with self._hold_lock():
            index = self._read_index()
            name = index.get(self._url, "")
            if name.rpartition(" ")[0] != self._url:
                name = self._new_name()
            await self._write(name, credentials)
            self._write_index({**index, self._url: name})
        await asyncio.to_thread(note_address, self._state, self._url, is_sign_in=True)

    async def forget(self, current: Credentials) -> None:
        """Delete the stored sign-in, unless another sign-in has replaced `current`."""
        async with self._hold_lock():
            index, name = self._read_index(), self._name()
            if name is None:
                return
            packed = await asyncio.to_thread(self._keyring.get, name)
            stored = None if packed is None else _decode(packed)
            if stored is None or stored.grant.name == current.grant.name:
                await asyncio.to_thread(self._keyring.remove, name)
                self._write_index({url: other for url, other in index.items() if url != self._url})

    async def renew(self, current: Credentials, renew: Renew) -> Credentials:
        """Return new credentials to replace `current`: those that another process has stored, or
        else the result of `renew`, which is also stored.

        After a newer sign-in in another process, the result is not stored. Raises AuthError if the
        stored sign-in was deleted or can no longer be renewed, TransportError while its refresh
        token must not be sent, and the errors of `renew`.
        """
        async with self._hold_lock():
            name = self._name()
            stored = None if name is None else await asyncio.to_thread(self._read, name)
            if name is None or stored is None:
                raise AuthError("sign-in: the stored sign-in no longer exists", hint=_AGAIN)
            if stored.grant.name != current.grant.name:
                # A newer sign-in was stored: this process keeps the renewed one in memory.
                own = replace(current, grant=current.grant.keep("memory"))
                return await renew(own)
            if stored.token != current.token and _is_usable(stored):
                return stored
            _check_certain(stored, current)
            return await self._store_renewed(name, await self._run_renewal(name, stored, renew))

    async def _run_renewal(self, name: str, stored: Credentials, renew: Renew) -> Credentials:
        """Return the result of `renew`. If it gets no response, store what that means for the
        refresh token.
        """
        try:
            return await renew(stored)
        except ApiError as error:
            doubtful = stored.with_failed_renewal(error)
            if doubtful is not stored:
                with contextlib.suppress(SettingsError):
                    await self._write(name, doubtful)
            raise

    async def _store_renewed(self, name: str, new: Credentials) -> Credentials:
        """Store the new credentials, and return them. If they cannot be stored, this process keeps
        them in memory, and the old entry is removed, because its refresh token is no longer valid.
        """
        try:
            await self._write(name, new)
        except SettingsError as error:
            await self._abandon_entry(name)
            problem = (
                f"the renewed sign-in could not be stored ({error.problem}); it ends when petsync "
                "exits"
            )
            return replace(new, grant=new.grant.keep("memory"), problem=problem)
        return new

    async def _abandon_entry(self, name: str) -> None:
        """Make other processes ignore the entry, even if the keyring cannot delete it."""
        with contextlib.suppress(SettingsError):
            self._write_index({**self._read_index(), self._url: self._new_name()})
        with contextlib.suppress(SettingsError):
            await asyncio.to_thread(self._keyring.remove, name)

    def _new_name(self) -> str:
        return f"{self._url} {secrets.token_hex(6)}"

    async def _write(self, name: str, credentials: Credentials) -> None:
        await asyncio.to_thread(self._keyring.put, name, _pack(credentials))

    def _read(self, name: str) -> Credentials | None:
        packed = self._keyring.get(name)
        return None if packed is None else _unpack(packed)

    def _name(self) -> str | None:
        """Return the name of the keyring entry; None if the index has none.

        Raises SettingsError if the entry belongs to another address: with a manipulated index,
        petsync would otherwise send one service's token to another.
        """
        name = self._read_index().get(self._url)
        if name is not None and name.rpartition(" ")[0] != self._url:
            raise SettingsError(
                f"{self._state / _INDEX} lists a sign-in for another address under {self._url}",
                hint=f"Find out who changed this file, and delete it. {_AGAIN}",
            )
        return name

    def _read_index(self) -> dict[str, str]:
        path = self._state / _INDEX
        try:
            must_not_be_link(path)
            return decoder_of(dict[str, str]).decode(read_regular(path))
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise SettingsError(
                f"{path} cannot be read: {why}",
                hint="It only lists the stored sign-ins: delete it, and sign in again.",
            ) from None

    def _write_index(self, index: Mapping[str, str]) -> None:
        try:
            data = msgspec.json.encode(index) + b"\n"
            write_atomically(self._state / _INDEX, data, follow=False, private=True)
        except OSError as error:
            raise _build_unwritable_error(self._state, error) from None

    @asynccontextmanager
    async def _hold_lock(self) -> AsyncIterator[None]:
        """Hold a lock that excludes other tasks, threads and processes."""
        until = time.monotonic() + _LOCK_TIMEOUT_S
        while (lock := try_lock(self._create_lock_file())) is None:
            if time.monotonic() > until:
                raise LockedError(
                    "another process has been using the stored sign-in for too long",
                    hint="It may be waiting for the keyring's password. End it, or try again "
                    "later.",
                )
            await asyncio.sleep(_LOCK_INTERVAL_S)
        try:
            yield
        finally:
            lock.release()

    def _create_lock_file(self) -> Path:
        path = self._state / _LOCK
        try:
            make_state_folder(self._state)
            os.close(open_private(path, os.O_RDWR))
        except OSError as error:
            raise _build_unwritable_error(self._state, error) from None
        return path


def _is_usable(stored: Credentials) -> bool:
    """Return true if these credentials can be used without a renewal."""
    now = time.time()
    is_over = stored.grant.is_doubtful and stored.grant.is_over(now)
    return not stored.grant.is_due(now) and not is_over


def _check_certain(stored: Credentials, current: Credentials) -> None:
    """Raise AuthError if the stored sign-in cannot be renewed, and TransportError if its last
    renewal got no response and the current token, although due, has not expired yet.
    """
    now = time.time()
    if not stored.grant.renews:
        raise AuthError("sign-in: an earlier renewal failed", hint=_AGAIN)
    if stored.grant.is_doubtful and current.grant.is_due(now) and not current.grant.is_over(now):
        raise TransportError(
            "sign-in: the last renewal got no response", may_have_happened=True, hint=_AGAIN
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
        raise SettingsError(
            "the keyring entry is damaged, or from another version of petsync", hint=_AGAIN
        )
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


def _build_empty(problem: str) -> Credentials:
    return Credentials(grant=Grant(kind="none", kept="keyring"), problem=problem)


def _build_unwritable_error(state: Path, error: OSError) -> PetsyncError:
    return SettingsError(
        f"petsync cannot write to the folder {state}: {error.strerror}",
        hint="Name another one: --state, in Python ps.connect(…, state=…). In Python, "
        "keep='memory' stores no sign-in.",
    )
