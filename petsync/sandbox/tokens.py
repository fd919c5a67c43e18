"""Access and refresh tokens: random, kept as digests only, in the store's file.

Source: RFC 6749; RFC 9700, section 4.14, for the rotation of refresh tokens.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from petsync.sandbox.storage import Storage

__all__ = ["Grant", "Issued", "TokenBook"]

_REFRESH_LIFETIME = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token stands for; `expires` is in seconds since the epoch."""

    client_id: str
    scopes: frozenset[str]
    expires: float
    family: str


@dataclass(frozen=True, slots=True)
class Issued:
    """Tokens as they are handed out, once. `expires_in` is in seconds."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    expires_in: float
    scopes: frozenset[str]


class TokenBook:
    """All valid tokens. They outlive the server on a file of the user's.

    A token is looked up by its SHA-256: how long that takes says nothing about any token.
    """

    def __init__(self, storage: Storage, *, lifetime: float) -> None:
        self._storage = storage
        self._lifetime = lifetime
        self._live: dict[bytes, Grant] = {}
        storage.load(self._restore)

    def find(self, token: str) -> Grant | None:
        """The grant of an access token that has not expired."""
        grant = self._live.get(_digest(token))
        return grant if grant is not None and grant.expires > time.time() else None

    def is_refreshable(self, grant: Grant) -> bool:
        """Whether the consent that the grant goes back to gave a refresh token."""
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
    ) -> Issued:
        """New tokens, stored when this returns."""
        grant = Grant(client_id, frozenset(scopes), 0.0, family or secrets.token_urlsafe(12))
        seconds = self._lifetime if expires_in is None else expires_in
        return await self._storage.write(
            lambda connection: self._hand_out(connection, grant, seconds, refreshable=refreshable)
        )

    async def rotate(
        self, refresh_token: str, client_id: str, scopes: frozenset[str] | None
    ) -> Issued | None:
        """New tokens for a refresh token, which is spent by it; None where it is not valid.

        A token that comes a second time has been stolen from one of its two bearers: all tokens
        that go back to the same consent end.
        """
        digest = _digest(refresh_token)

        def job(connection: sqlite3.Connection) -> Issued | None:
            found = _refreshable(connection, digest)
            if found is None:
                return None
            grant, spent = found
            if spent:
                self._end_family(connection, grant.family)
            wanted = grant.scopes if scopes is None else scopes
            if spent or grant.client_id != client_id or not wanted <= grant.scopes:
                return None
            connection.execute("UPDATE token SET spent = 1 WHERE digest = ?", (digest,))
            narrowed = Grant(client_id, wanted, 0.0, grant.family)
            return self._hand_out(connection, narrowed, self._lifetime, refreshable=True)

        return await self._storage.write(job)

    async def revoke(self, token: str, client_id: str) -> None:
        """End a token of this client's and all that go back to the same consent."""
        digest = _digest(token)

        def job(connection: sqlite3.Connection) -> None:
            row = connection.execute(
                "SELECT family FROM token WHERE digest = ? AND client_id = ?", (digest, client_id)
            ).fetchone()
            if row is not None:
                self._end_family(connection, row[0])

        await self._storage.write(job)

    async def end_family(self, family: str) -> None:
        """End all tokens that go back to one consent."""
        await self._storage.write(lambda connection: self._end_family(connection, family))

    def _restore(self, connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM token WHERE expires < ?", (time.time(),))
        rows = connection.execute(
            "SELECT digest, client_id, scopes, expires, family FROM token WHERE kind = 'access'"
        )
        self._live = {bytes(row[0]): _grant(row[1:]) for row in rows}

    def _hand_out(
        self, connection: sqlite3.Connection, grant: Grant, seconds: float, *, refreshable: bool
    ) -> Issued:
        now = time.time()
        access = self._store(connection, "access", grant, now + seconds)
        refresh = None
        if refreshable:
            refresh = self._store(connection, "refresh", grant, now + _REFRESH_LIFETIME)
        return Issued(access, refresh, seconds, grant.scopes)

    def _store(
        self, connection: sqlite3.Connection, kind: str, grant: Grant, expires: float
    ) -> str:
        token = secrets.token_urlsafe(32)
        row = (_digest(token), kind, grant.client_id, " ".join(sorted(grant.scopes)), expires)
        connection.execute(
            "INSERT INTO token (digest, kind, client_id, scopes, expires, family)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*row, grant.family),
        )
        if kind == "access":
            self._live[row[0]] = Grant(grant.client_id, grant.scopes, expires, grant.family)
        return token

    def _end_family(self, connection: sqlite3.Connection, family: str) -> None:
        connection.execute("DELETE FROM token WHERE family = ?", (family,))
        self._live = {key: kept for key, kept in self._live.items() if kept.family != family}


def _refreshable(connection: sqlite3.Connection, digest: bytes) -> tuple[Grant, bool] | None:
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
