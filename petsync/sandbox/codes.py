"""Authorization codes with PKCE, and the questions to the user that lead to them.

Both live in memory for a few minutes at most. Source: RFC 6749, section 4.1; RFC 7636.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from petsync.sandbox.access import same

__all__ = ["Asked", "Code", "Codes", "Once", "is_challenge"]

T = TypeVar("T")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}", re.ASCII)
_MOST = 1000


class Once(Generic[T]):
    """Values that can each be taken once, by an unguessable key, for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: dict[str, tuple[float, T]] = {}

    def put(self, value: T) -> str:
        """The key; the oldest value makes room where there are too many."""
        if len(self._kept) >= _MOST:
            del self._kept[next(iter(self._kept))]
        key = secrets.token_urlsafe(32)
        self.keep(key, value)
        return key

    def keep(self, key: str, value: T) -> None:
        """The same, under a key that there is already."""
        self._kept[key] = (time.monotonic() + self._seconds, value)

    def take(self, key: str) -> T | None:
        """The value, if it is there and still valid."""
        until, value = self._kept.pop(key, (0.0, None))
        return value if until > time.monotonic() else None


@dataclass(frozen=True, slots=True)
class Asked:
    """An authorization request that waits for the user's word."""

    client_id: str
    redirect_uri: str
    scopes: frozenset[str]
    state: str | None
    challenge: str
    flow: str = "code"
    browser: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for; `family` marks the tokens that it leads to."""

    asked: Asked
    family: str

    def opens_for(self, client_id: str, redirect_uri: str, verifier: str) -> bool:
        """Whether the one who brings the code is the one who asked for it."""
        return (
            self.asked.client_id == client_id
            and self.asked.redirect_uri == redirect_uri
            and _VERIFIER.fullmatch(verifier) is not None
            and same(_s256(verifier), self.asked.challenge)
        )


class Codes:
    """The codes that were handed out, and the questions that are open."""

    def __init__(self) -> None:
        self.questions: Once[Asked] = Once(600)
        self._codes: Once[Code] = Once(60)
        self._spent: Once[str] = Once(600)

    def grant(self, asked: Asked) -> str:
        """A code for a request that the user has allowed."""
        return self._codes.put(Code(asked, secrets.token_urlsafe(12)))

    def redeem(self, text: str) -> Code | None:
        """What the code stands for; it is spent by this."""
        code = self._codes.take(text)
        if code is not None:
            self._spent.keep(text, code.family)
        return code

    def replayed(self, text: str) -> str | None:
        """The family of a code that was spent before."""
        return self._spent.take(text)


def is_challenge(text: str) -> bool:
    """Whether this can be the S256 of a verifier."""
    return _CHALLENGE.fullmatch(text) is not None


def _s256(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
