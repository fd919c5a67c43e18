"""Tokens, clients and codes of the sandbox."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar
from urllib.parse import unquote_plus, urlsplit

from starlette.datastructures import Headers

from petsync.sandbox.http import RefusedError
from petsync.sandbox.storage import Storage

__all__ = [
    "PUBLIC_CLIENT",
    "READ",
    "SCOPES",
    "WRITE",
    "AccessGuard",
    "AuthorizationRequest",
    "Code",
    "Codes",
    "Credentials",
    "Grant",
    "IssuedTokens",
    "OneTimeValues",
    "Requirement",
    "TokenBook",
    "authenticate",
    "equal_secrets",
    "is_challenge",
    "is_registered",
    "refuse_foreign_pages",
]


# Access and refresh tokens: random, and stored only as digests in the store's file.
#
# Source: RFC 6749; RFC 9700, section 4.14, for the rotation of refresh tokens.


_REFRESH_LIFETIME = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token grants, and to which client. `expires` is in seconds since the epoch; the tokens
    of one consent have the same `family`.
    """

    client_id: str
    scopes: frozenset[str]
    expires: float
    family: str


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """Newly issued tokens. `expires_in` is in seconds."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    expires_in: float
    scopes: frozenset[str]


class TokenBook:
    """The issued tokens. In a file that the user provides, they remain after the server stops.

    A token is looked up by its SHA-256, so the lookup time reveals nothing about any token.
    """

    def __init__(self, storage: Storage, *, lifetime: float) -> None:
        self._storage = storage
        self._lifetime = lifetime
        storage.load(_drop_expired)

    def find(self, token: str) -> Grant | None:
        """Return the grant of an access token; None if the token is unknown or has expired."""
        row = self._storage.reader.execute(
            "SELECT client_id, scopes, expires, family FROM token"
            " WHERE digest = ? AND kind = 'access' AND expires > ?",
            (_digest(token), time.time()),
        ).fetchone()
        return None if row is None else _grant(row)

    def is_refreshable(self, grant: Grant) -> bool:
        """Return true if the consent of this grant included a refresh token."""
        row = self._storage.reader.execute(
            "SELECT 1 FROM token WHERE family = ? AND kind = 'refresh' LIMIT 1", (grant.family,)
        )
        return row.fetchone() is not None

    async def issue(
        self,
        client_id: str,
        scopes: Iterable[str],
        *,
        refreshable: bool = False,
        expires_in: float | None = None,
        family: str | None = None,
    ) -> IssuedTokens:
        """Issue new tokens, and return them when they are stored."""
        grant = Grant(client_id, frozenset(scopes), 0.0, family or secrets.token_urlsafe(12))
        seconds = self._lifetime if expires_in is None else expires_in
        return await self._storage.write(
            lambda connection: _hand_out(connection, grant, seconds, refreshable=refreshable)
        )

    async def rotate(
        self, refresh_token: str, client_id: str, scopes: frozenset[str] | None
    ) -> IssuedTokens | None:
        """Return new tokens for a refresh token, which then is invalid; None if it is not valid for
        this client and these scopes. The scopes narrow only the access token.

        A second use is treated as theft of the refresh token: all tokens of the same consent are
        revoked.
        """
        digest = _digest(refresh_token)

        def job(connection: sqlite3.Connection) -> IssuedTokens | None:
            found = _find_refreshable(connection, digest)
            if found is None:
                return None
            grant, spent = found
            if spent:
                _end_family(connection, grant.family)
            wanted = grant.scopes if scopes is None else scopes
            if spent or grant.client_id != client_id or not wanted <= grant.scopes:
                return None
            connection.execute("UPDATE token SET spent = 1 WHERE digest = ?", (digest,))
            # The new refresh token keeps all scopes. Source: RFC 6749, section 6.
            return _hand_out(
                connection, grant, self._lifetime, refreshable=True, access_scopes=wanted
            )

        return await self._storage.write(job)

    async def revoke(self, token: str, client_id: str) -> None:
        """Revoke a token of this client and all tokens of the same consent."""
        digest = _digest(token)

        def job(connection: sqlite3.Connection) -> None:
            row = connection.execute(
                "SELECT family FROM token WHERE digest = ? AND client_id = ?", (digest, client_id)
            ).fetchone()
            if row is not None:
                _end_family(connection, row[0])

        await self._storage.write(job)

    async def end_family(self, family: str) -> None:
        """Revoke all tokens of one consent."""
        await self._storage.write(lambda connection: _end_family(connection, family))


def _drop_expired(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM token WHERE expires < ?", (time.time(),))


def _hand_out(
    connection: sqlite3.Connection,
    grant: Grant,
    seconds: float,
    *,
    refreshable: bool,
    access_scopes: frozenset[str] | None = None,
) -> IssuedTokens:
    now = time.time()
    scopes = grant.scopes if access_scopes is None else access_scopes
    access = _store(connection, "access", replace(grant, scopes=scopes), now + seconds)
    refresh = None
    if refreshable:
        refresh = _store(connection, "refresh", grant, now + _REFRESH_LIFETIME)
    return IssuedTokens(access, refresh, seconds, scopes)


def _store(connection: sqlite3.Connection, kind: str, grant: Grant, expires: float) -> str:
    token = secrets.token_urlsafe(32)
    row = (_digest(token), kind, grant.client_id, " ".join(sorted(grant.scopes)), expires)
    connection.execute(
        "INSERT INTO token (digest, kind, client_id, scopes, expires, family)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*row, grant.family),
    )
    return token


def _end_family(connection: sqlite3.Connection, family: str) -> None:
    connection.execute("DELETE FROM token WHERE family = ?", (family,))


def _find_refreshable(connection: sqlite3.Connection, digest: bytes) -> tuple[Grant, bool] | None:
    row = connection.execute(
        "SELECT client_id, scopes, expires, family, spent FROM token"
        " WHERE digest = ? AND kind = 'refresh' AND expires > ?",
        (digest, time.time()),
    ).fetchone()
    return None if row is None else (_grant(row[:4]), bool(row[4]))


def _grant(row: tuple[str, str, float, str]) -> Grant:
    client_id, scopes, expires, family = row
    return Grant(client_id, frozenset(scopes.split()), expires, family)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


# Permissions: the bearer token with its scopes, and the API key.
#
# Source: RFC 6750 for the challenges; openapi.json for the scheme's scopes.


WRITE = "write:pets"
READ = "read:pets"
SCOPES = {WRITE: "modify pets in your account", READ: "read your pets"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """The permission that an operation requires.

    `api_key` is `alone` if the key is enough without a token, and `right` if it is an optional
    parameter that must be correct if present.
    """

    scopes: frozenset[str]
    api_key: Literal["unused", "alone", "right"] = "unused"


@dataclass(frozen=True, slots=True)
class AccessGuard:
    """Admits or refuses a request."""

    tokens: TokenBook
    api_key: str = field(repr=False)

    def admit(self, headers: Headers, need: Requirement) -> None:
        """Check the request. Raises RefusedError: 401, or 403 if a scope is missing."""
        key = headers.get("api_key")
        is_right = key is not None and equal_secrets(key, self.api_key)
        if need.api_key == "alone" and is_right:
            return
        self._check_token(headers.get("authorization"), need)
        if need.api_key == "right" and key is not None and not is_right:
            raise _challenge(401, "the API key is wrong")

    def _check_token(self, authorization: str | None, need: Requirement) -> None:
        if authorization is None:
            raise _challenge(401, "an access token is needed")
        scheme, _, token = authorization.partition(" ")
        grant = self.tokens.find(token.strip()) if scheme.lower() == "bearer" else None
        if grant is None:
            raise _challenge(401, "the access token is unknown or has expired", "invalid_token")
        if not need.scopes <= grant.scopes:
            scopes = " ".join(sorted(need.scopes))
            raise _challenge(
                403,
                f"the access token does not have all required scopes: {scopes}",
                "insufficient_scope",
                scopes,
            )


def refuse_foreign_pages(headers: Headers, origin: str) -> None:
    """Raise RefusedError if the request comes from a page of another origin.

    Without tokens, a form on any web page could otherwise change the store.
    """
    given = headers.get("origin")
    if given not in (None, origin, f"http://{headers.get('host')}"):
        raise RefusedError(403, "pages of other origins cannot change this store")


def equal_secrets(first: str, second: str) -> bool:
    """Return true if two secrets are equal. They are compared in constant time."""
    digests = (hashlib.sha256(text.encode(errors="replace")).digest() for text in (first, second))
    return hmac.compare_digest(*digests)


def _challenge(status: int, message: str, error: str = "", scope: str = "") -> RefusedError:
    parts = {"realm": "petstore_auth", "error": error, "scope": scope}
    if error:
        parts["error_description"] = message
    value = ", ".join(f'{name}="{text}"' for name, text in parts.items() if text)
    return RefusedError(status, message, headers={"WWW-Authenticate": f"Bearer {value}"})


# The known OAuth clients, and their allowed redirect URIs.


PUBLIC_CLIENT = "petsync"
"""The client id of programs that cannot keep a secret. They can use every grant except
`client_credentials`.
"""

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of the sandbox; the secrets are random by default."""

    client_id: str = "sandbox"
    client_secret: str = field(repr=False, default_factory=lambda: secrets.token_urlsafe(24))
    api_key: str = field(repr=False, default_factory=lambda: f"special-{secrets.token_urlsafe(12)}")
    redirect_uris: tuple[str, ...] = ()


def authenticate(
    authorization: str | None, form: Mapping[str, str], known: Credentials
) -> tuple[str, bool] | None:
    """Return the requesting client, and whether it is authenticated; None for an unknown client or
    a wrong secret.

    Source: RFC 6749, section 2.3.1: HTTP Basic, or `client_id` and `client_secret` in the form.
    """
    if authorization is not None:
        client_id, secret = _basic(authorization)
    else:
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
    if client_id == PUBLIC_CLIENT and not secret:
        return client_id, False
    if equal_secrets(client_id, known.client_id) & equal_secrets(secret, known.client_secret):
        return client_id, True
    return None


def is_registered(redirect_uri: str, known: Credentials) -> bool:
    """Return true if a browser may be redirected to this URI: a registered one, or http on
    loopback at any port.

    Source: RFC 8252, section 7.3.
    """
    if redirect_uri in known.redirect_uris:
        return True
    try:
        parts = urlsplit(redirect_uri)
        port = parts.port
    except ValueError:
        return False
    is_plain = parts.scheme == "http" and not (parts.fragment or parts.username or parts.password)
    return is_plain and parts.hostname in _LOOPBACK and port != 0 and _is_clean(redirect_uri)


def _is_clean(text: str) -> bool:
    return text.isascii() and text.isprintable() and not set(text) & set(" \"'<>\\;,")


def _basic(authorization: str) -> tuple[str, str]:
    scheme, _, encoded = authorization.partition(" ")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    client_id, colon, secret = text.partition(":")
    if scheme.lower() != "basic" or not colon:
        return "", ""
    return unquote_plus(client_id), unquote_plus(secret)


# Authorization codes with PKCE, and the questions to the user that precede them.
#
# Both are only in memory, and are valid for ten minutes at most. Source: RFC 6749, section 4.1; RFC
# 7636.


T = TypeVar("T")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}", re.ASCII)
_MAX_VALUES = 1000


class OneTimeValues(Generic[T]):
    """Values that can each be taken once, by an unguessable key, within `seconds` seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: dict[str, tuple[float, T]] = {}

    def put(self, value: T) -> str:
        """Store the value, and return its key."""
        key = secrets.token_urlsafe(32)
        self.keep(key, value)
        return key

    def keep(self, key: str, value: T) -> None:
        """Store the value under a known key; the oldest value is dropped if there are too many."""
        if len(self._values) >= _MAX_VALUES:
            del self._values[next(iter(self._values))]
        self._values[key] = (time.monotonic() + self._seconds, value)

    def take(self, key: str) -> T | None:
        """Remove the value, and return it if it exists and is still valid."""
        until, value = self._values.pop(key, (0.0, None))
        return value if until > time.monotonic() else None


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """An authorization request that waits for the user's decision."""

    client_id: str
    redirect_uri: str
    scopes: frozenset[str]
    state: str | None
    challenge: str
    flow: str = "code"
    browser: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Code:
    """What an authorization code grants; `family` identifies the tokens of this consent."""

    request: AuthorizationRequest
    family: str

    def is_valid_for(self, client_id: str, redirect_uri: str, verifier: str) -> bool:
        """Return true if this client requested the code with this redirect URI, and the verifier
        matches the code challenge.
        """
        return (
            self.request.client_id == client_id
            and self.request.redirect_uri == redirect_uri
            and _VERIFIER.fullmatch(verifier) is not None
            and equal_secrets(_s256(verifier), self.request.challenge)
        )


class Codes:
    """The issued codes, and the open questions."""

    def __init__(self) -> None:
        self.questions: OneTimeValues[AuthorizationRequest] = OneTimeValues(600)
        self._codes: OneTimeValues[Code] = OneTimeValues(60)
        self._spent: OneTimeValues[str] = OneTimeValues(600)

    def grant(self, request: AuthorizationRequest) -> str:
        """Return a code for a request that the user has allowed."""
        return self._codes.put(Code(request, secrets.token_urlsafe(12)))

    def redeem(self, text: str) -> Code | None:
        """Return what the code grants, and invalidate the code; None if it is unknown, used or
        expired.
        """
        code = self._codes.take(text)
        if code is not None:
            self._spent.keep(text, code.family)
        return code

    def replayed_family(self, text: str) -> str | None:
        """Return the family of a code that was already used, but only for its first reuse;
        otherwise None.
        """
        return self._spent.take(text)


def is_challenge(text: str) -> bool:
    """Return true if the text can be the S256 code challenge of a verifier."""
    return _CHALLENGE.fullmatch(text) is not None


def _s256(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
