"""What the token endpoint answers: a token with its terms, or why there is none.

Source: RFC 6749, sections 5.1 and 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from petsync.client.credentials import Credentials
from petsync.client.grant import Grant
from petsync.client.oauth.said import Said
from petsync.errors import AuthError, ResponseError
from petsync.settings import Secret

__all__ = ["Refused", "credentials_in", "granted", "refusal", "scopes_of"]

_CENTURY = 100 * 365.25 * 24 * 3600
_WHY = {
    "invalid_client": (
        "the service does not know this client id, or its secret is wrong",
        "Check the client id and the secret with whoever gave them to you.",
    ),
    "invalid_grant": (
        "the service does not take this sign-in any more",
        "Sign in again; a sign-in can be used once, and for a short time.",
    ),
    "unauthorized_client": (
        "this client may not sign in this way",
        "Choose another way to sign in, or ask whoever runs the service.",
    ),
    "unsupported_grant_type": (
        "the service does not offer this way to sign in",
        "Choose another way to sign in.",
    ),
    "invalid_scope": (
        "the service does not give these permissions",
        "Ask for read:pets alone, or ask whoever runs the service.",
    ),
    "access_denied": (
        "it was declined in the browser",
        "Begin again, and choose Allow, if that was not meant.",
    ),
    "server_error": ("the service failed", "Try again in a moment."),
    "temporarily_unavailable": ("the service is too busy just now", "Try again in a moment."),
}
_OTHER = ("the service refuses", "Begin again; if it stays so, ask whoever runs the service.")


@dataclass(frozen=True, slots=True)
class Refused:
    """An error code of the protocol, and the service's words for it."""

    code: str
    words: str = ""

    def error(self, status: int | None = None) -> AuthError:
        """The error for a person."""
        why, hint = _WHY.get(self.code, _OTHER)
        code = _plain(self.code, 40)
        said = f" ({code}: {self.words})" if self.words else f" ({code})" if code else ""
        return AuthError(f"sign-in: {why}{said}", status=status, service_message=code, hint=hint)


def refusal(values: Mapping[str, Any], secrets: Credentials) -> Refused:
    """The refusal in an answer, without any secret that it echoes."""
    words = secrets.masked(_text(values, "error_description"))
    return Refused(secrets.masked(_text(values, "error")), _plain(words, 200))


def credentials_in(said: Said, asked: Credentials, now: float) -> Credentials:
    """The credentials that the answer gives; what it does not say is as `asked` has it.

    Raises AuthError for a refusal, ResponseError for what is neither.
    """
    if said.json is None:
        raise _unusable(f"it sends no JSON ({said.status})")
    if "error" in said.json or said.status >= 400:
        raise refusal(said.json, asked).error(said.status)
    return granted(said.json, asked, now)


def granted(values: Mapping[str, Any], asked: Credentials, now: float) -> Credentials:
    """The credentials with the token that is among the values. Raises ResponseError."""
    token = _secret(values, "access_token")
    if token is None:
        raise _unusable("it sends no token")
    kind = asked.masked(_text(values, "token_type")) or "bearer"
    if kind.lower() != "bearer":
        raise _unusable(f"it sends a token of the type {_plain(kind, 40)}")
    return asked.granted(token, _terms(values, asked.grant, now))


def scopes_of(values: Mapping[str, Any]) -> frozenset[str] | None:
    """The scopes that are named; None where none are."""
    text = values.get("scope")
    if isinstance(text, list):
        return frozenset(each for each in text if isinstance(each, str))
    return frozenset(text.split()) if isinstance(text, str) and text.strip() else None


def _terms(values: Mapping[str, Any], asked: Grant, now: float) -> Grant:
    told = scopes_of(values)
    life = _seconds(values.get("expires_in"))
    return asked.renewed(
        refresh=_secret(values, "refresh_token") or asked.refresh,
        scopes=asked.scopes if told is None else told,
        issued=now,
        expires=None if life is None else now + life,
    )


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else min(max(number, 0.0), _CENTURY)


def _secret(values: Mapping[str, Any], name: str) -> Secret | None:
    """A token that a header can carry."""
    text = values.get(name)
    fits = isinstance(text, str) and text and all("!" <= each <= "~" for each in text)
    return Secret(str(text)) if fits else None


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    return value if isinstance(value, str) else ""


def _plain(text: str, most: int) -> str:
    """The service's words in one line, without what could play tricks with it."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= most else words[: most - 1] + "…"


def _unusable(why: str) -> ResponseError:
    return ResponseError(
        f"sign-in: the service answers what cannot be used: {why}",
        hint="Is token_url under [auth] in petsync.toml right?",
    )
