"""Credentials, masked everywhere: `bearer(token)`, `api_key(key)`, `none()`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from petsync.errors import SettingsError
from petsync.settings import Secret

__all__ = ["Credentials", "api_key", "bearer", "none"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request is authorised with; either part may be missing. Shows itself as `***`."""

    token: Secret | None = None
    key: Secret | None = None

    def __bool__(self) -> bool:
        return self.token is not None or self.key is not None

    def masked(self, text: bytes) -> bytes:
        """The text with every secret in it replaced: services echo what they were sent."""
        for secret in (self.token, self.key):
            if secret is not None:
                text = text.replace(secret.reveal().encode(), b"***")
        return text

    def masked_text(self, text: str) -> str:
        """The same for text, in whatever case: a host name loses its own."""
        for secret in (self.token, self.key):
            if secret is not None:
                text = re.sub(re.escape(secret.reveal()), "***", text, flags=re.IGNORECASE)
        return text


def bearer(token: str | Secret, *, api_key: str | Secret | None = None) -> Credentials:
    """An access token for `petstore_auth`, and the api key if the service wants one too."""
    return Credentials(
        _header_safe(token, "the token"),
        None if api_key is None else _header_safe(api_key, "the api key"),
    )


def api_key(key: str | Secret) -> Credentials:
    """The api key alone: enough for getPetById."""
    return Credentials(None, _header_safe(key, "the api key"))


def none() -> Credentials:
    """No credentials."""
    return Credentials()


def _header_safe(value: str | Secret, what: str) -> Secret:
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
