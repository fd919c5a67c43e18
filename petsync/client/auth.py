"""Credentials, masked everywhere: `bearer(token)`, `api_key(key)`, `from_file(path)`, `none()`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from petsync.errors import SettingsError
from petsync.settings import Secret

__all__ = ["Credentials", "Renew", "api_key", "bearer", "checked_token", "from_file", "none"]

Renew = Callable[[], str | Secret | Awaitable[str | Secret]]
"""Gives a new token; it is called from a thread of its own if it is no async function."""

_REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request is authorised with; either part may be missing. Shows itself as `***`.

    `renew` gives a new token for one that a 401 refused; `past` are those that were renewed.
    """

    token: Secret | None = None
    key: Secret | None = None
    renew: Renew | None = field(default=None, repr=False, compare=False)
    past: tuple[Secret, ...] = field(default=(), repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.token is not None or self.key is not None

    def renewed(self, token: Secret) -> Credentials:
        """These with another token; the present one stays masked."""
        past = (*self.past, self.token) if self.token is not None else self.past
        return replace(self, token=token, past=past[-_REMEMBERED:])

    def masked(self, text: bytes) -> bytes:
        """The text with every secret in it replaced: services echo what they were sent."""
        for secret in self._secrets():
            text = text.replace(secret.encode(), b"***")
        return text

    def masked_text(self, text: str) -> str:
        """The same for text, in whatever case: a host name loses its own."""
        for secret in self._secrets():
            text = re.sub(re.escape(secret), "***", text, flags=re.IGNORECASE)
        return text

    def _secrets(self) -> list[str]:
        """The longest first, as a token may begin as another does."""
        kept = (self.token, self.key, *self.past)
        return sorted((each.reveal() for each in kept if each is not None), key=len, reverse=True)


def bearer(
    token: str | Secret, *, api_key: str | Secret | None = None, renew: Renew | None = None
) -> Credentials:
    """An access token for `petstore_auth`, and the api key if the service wants one too.

    `renew` takes no arguments and returns a new token, or awaits one. It is called when the
    service answers 401, once however many requests were refused, and they are sent again.
    """
    if renew is not None and not callable(renew):
        raise SettingsError(
            f"renew is {type(renew).__name__}, not a function that gives a new token",
            hint="For example renew=lambda: log_in(user, password).",
        )
    key = None if api_key is None else _header_safe(api_key, "the api key")
    return Credentials(checked_token(token), key, renew)


def from_file(path: str | Path, *, api_key: str | Secret | None = None) -> Credentials:
    """The access token that is in the file, which another program keeps fresh: after a 401 it is
    read again. Raises SettingsError where there is none.
    """
    file = Path(path)
    return bearer(_read(file), api_key=api_key, renew=lambda: _read(file))


def api_key(key: str | Secret) -> Credentials:
    """The api key alone: enough for getPetById."""
    return Credentials(None, _header_safe(key, "the api key"))


def none() -> Credentials:
    """No credentials."""
    return Credentials()


def checked_token(token: object) -> Secret:
    """The token, if a header can carry it. Raises SettingsError, which does not show it."""
    return _header_safe(token, "the token")


def _read(file: Path) -> Secret:
    try:
        return _header_safe(file.read_text("utf-8-sig"), f"the token in {file}")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(
            f"the token's file {file} cannot be read: {why}",
            hint="It holds the access token and nothing else.",
        ) from None


def _header_safe(value: object, what: str) -> Secret:
    text = _text(value, what).strip()
    if not text or not all("!" <= character <= "~" for character in text):
        raise SettingsError(
            f"{what} is empty or holds a character that no header can carry",
            hint="Copy it again, without line breaks and quotes.",
        )
    return Secret(text)


def _text(value: object, what: str) -> str:
    text = value.reveal() if isinstance(value, Secret) else value
    if not isinstance(text, str):
        raise SettingsError(
            f"{what} is {type(text).__name__}, not text",
            hint="Is the variable or the file that it comes from set?",
        )
    return text
