"""Who may do what: the bearer token with its scopes, and the api key.

Source: RFC 6750 for the challenges; interface.md, "Authentication", for the scheme's scopes.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Literal

from starlette.datastructures import Headers

from petsync.sandbox.refusal import RefusedError
from petsync.sandbox.tokens import TokenBook

__all__ = ["READ", "SCOPES", "WRITE", "Guard", "Need", "refuse_foreign_pages", "same"]

WRITE = "write:pets"
READ = "read:pets"
SCOPES = {WRITE: "modify pets in your account", READ: "read your pets"}


@dataclass(frozen=True, slots=True)
class Need:
    """What an operation asks for.

    `api_key` is `alone` where the key suffices without a token, `right` where it is an optional
    parameter that must not be wrong.
    """

    scopes: frozenset[str]
    api_key: Literal["unused", "alone", "right"] = "unused"


@dataclass(frozen=True, slots=True)
class Guard:
    """Admits or refuses a request."""

    tokens: TokenBook
    api_key: str = field(repr=False)

    def admit(self, headers: Headers, need: Need) -> None:
        """Return if the request may go on. Raises RefusedError: 401, or 403 for lack of a scope."""
        key = headers.get("api_key")
        is_right = key is not None and same(key, self.api_key)
        if need.api_key == "alone" and is_right:
            return
        self._check_token(headers.get("authorization"), need)
        if need.api_key == "right" and key is not None and not is_right:
            raise _challenge(401, "the api key is wrong")

    def _check_token(self, authorization: str | None, need: Need) -> None:
        if authorization is None:
            raise _challenge(401, "an access token is needed")
        scheme, _, token = authorization.partition(" ")
        grant = self.tokens.find(token.strip()) if scheme.lower() == "bearer" else None
        if grant is None:
            raise _challenge(401, "the access token is unknown or has expired", "invalid_token")
        if not need.scopes <= grant.scopes:
            scopes = " ".join(sorted(need.scopes))
            raise _challenge(
                403, f"the access token lacks a scope: {scopes}", "insufficient_scope", scopes
            )


def refuse_foreign_pages(headers: Headers, origin: str) -> None:
    """Return if the request does not come from a page of another origin. Raises RefusedError.

    Where no token is asked for, a form on any web page could otherwise change the store.
    """
    given = headers.get("origin")
    if given not in (None, origin, f"http://{headers.get('host')}"):
        raise RefusedError(403, "pages of other origins may change nothing here")


def same(given: str, kept: str) -> bool:
    """Whether two secrets are equal, in a time that tells nothing of either."""
    digests = (hashlib.sha256(text.encode(errors="replace")).digest() for text in (given, kept))
    return hmac.compare_digest(*digests)


def _challenge(status: int, message: str, error: str = "", scope: str = "") -> RefusedError:
    parts = {"realm": "petstore_auth", "error": error, "scope": scope}
    if error:
        parts["error_description"] = message
    said = ", ".join(f'{name}="{text}"' for name, text in parts.items() if text)
    return RefusedError(status, message, headers={"WWW-Authenticate": f"Bearer {said}"})
