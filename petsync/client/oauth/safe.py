"""Safe: the system's keyring, which is loaded when it is used, and whose failures are said in
plain words.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from petsync.errors import SettingsError
from petsync.settings import Secret

__all__ = ["Safe"]

T = TypeVar("T")
_SERVICE = "petsync"
_PATIENCE = 60.0
_WAY_OUT = (
    "Set PETSYNC_TOKEN, or PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET; or install a keyring for "
    "this system. A form or a script can also sign in without keeping it."
)


class Safe:
    """Keeps secrets under names. Each call may block, while the keyring asks its owner to unlock
    it, for a minute at most. Raises SettingsError.
    """

    def get(self, name: str) -> Secret | None:
        """What is kept under the name."""
        found = _asked(lambda ring: ring.get_password(_SERVICE, name), "read")
        return None if found is None else Secret(str(found))

    def put(self, name: str, secret: Secret) -> None:
        """Keep it under the name; it is read back, as there are keyrings that keep nothing."""
        _asked(lambda ring: ring.set_password(_SERVICE, name, secret.reveal()), "write")
        if self.get(name) != secret:
            raise SettingsError("the system's keyring keeps nothing", hint=_WAY_OUT)

    def remove(self, name: str) -> None:
        """Keep nothing under the name; it is no error if nothing was."""
        if self.get(name) is not None:
            _asked(lambda ring: ring.delete_password(_SERVICE, name), "write")


def _asked(question: Callable[[Any], T], what: str) -> T:
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
        found = answer.result(_PATIENCE)
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
