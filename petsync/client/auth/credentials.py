"""Credentials: what authorises a request, masked wherever it is shown; and the grant of a token."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus

from petsync.errors import ApiError, AuthError, PetsyncError, SettingsError
from petsync.models import Kept, Kind
from petsync.redact import Redactor, proxy_secrets
from petsync.settings import Secret

__all__ = [
    "Credentials",
    "Grant",
    "Renew",
    "as_secret",
    "checked_token",
    "header_safe",
    "require_secret",
]


# Grant: what is known of a token beside itself, and with what a new one can be had.


_EARLY = 60.0
_SHARE = 0.2
_LAST = 253_402_300_000.0
"""The end of the year 9999: no datetime goes further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """How one signed in. `issued` and `expires` are seconds since 1970 by this machine's clock;
    `scopes` is None where they were not told. `name` marks one sign-in through all its renewals.
    `is_doubtful`: the refresh token was sent, and no answer came, so it may be spent.
    """

    kind: Kind = "token"
    kept: Kept = "argument"
    client_id: str = ""
    client_secret: Secret | None = None
    refresh: Secret | None = None
    scopes: frozenset[str] | None = None
    issued: float = 0.0
    expires: float | None = None
    is_doubtful: bool = False
    name: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def renews(self) -> bool:
        """Whether a new token can be had without a person."""
        return self.refresh is not None or self.client_secret is not None

    @property
    def until(self) -> datetime | None:
        """When the token ends, in UTC."""
        if self.expires is None:
            return None
        return datetime.fromtimestamp(min(max(self.expires, 0.0), _LAST), UTC)

    def is_due(self, now: float) -> bool:
        """Whether it is time for a new token: a minute before the present one ends, or when four
        fifths of a short life are over. One that came without any life in it is left to the
        service to judge, or every request would ask for another; and so is one whose renewal is
        in doubt, as a refresh token that comes twice ends the sign-in while the token still works.
        """
        if self.expires is None or self.expires <= self.issued or self.is_doubtful:
            return False
        return now >= self.expires - min(_EARLY, _SHARE * (self.expires - self.issued))

    @property
    def pair(self) -> Secret | None:
        """The client's id and secret, as a header has them (RFC 6749, section 2.3.1)."""
        if self.client_secret is None:
            return None
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret.reveal())}"
        return Secret(base64.b64encode(pair.encode()).decode())

    def is_over(self, now: float) -> bool:
        """Whether the token has ended, by this machine's clock."""
        return self.expires is not None and now >= self.expires

    def secrets(self) -> tuple[Secret, ...]:
        """What must not be seen of it."""
        kept = (self.refresh, self.client_secret, self.pair)
        return tuple(each for each in kept if each is not None)

    def with_terms(
        self,
        *,
        refresh: Secret | None,
        scopes: frozenset[str] | None,
        issued: float,
        expires: float | None,
    ) -> Grant:
        """The same sign-in on new terms."""
        return replace(
            self,
            refresh=refresh,
            scopes=scopes,
            issued=issued,
            expires=expires,
            is_doubtful=False,
        )

    def keep(self, kept: Kept) -> Grant:
        """The same, kept elsewhere."""
        return replace(self, kept=kept)

    def to_dict(self) -> dict[str, Any]:
        """It as plain values, secrets among them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {n: v.reveal() if isinstance(v, Secret) else v for n, v in values.items()}
        plain["scopes"] = None if self.scopes is None else sorted(self.scopes)
        return {name: value for name, value in plain.items() if name != "kept"}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], kept: Kept) -> Grant:
        """What `to_dict` made. Raises TypeError, KeyError or ValueError for anything else."""
        known = {each.name for each in fields(cls)} - {"kept"}
        values = {name: saved[name] for name in known}
        values["is_doubtful"] = bool(values["is_doubtful"])
        for name in ("client_secret", "refresh"):
            values[name] = None if values[name] is None else Secret(str(values[name]))
        if values["scopes"] is not None:
            values["scopes"] = frozenset(map(str, values["scopes"]))
        values["issued"] = float(values["issued"])
        values["expires"] = None if values["expires"] is None else float(values["expires"])
        return cls(kept=kept, **values)


# Credentials: what a request is authorised with, masked everywhere.


Renew = Callable[[], str | Secret | Awaitable[str | Secret]]
"""Gives a new token; it is called from a thread of its own if it is no async function."""

_REMEMBERED = 48
_OPEN = "the last renewal was not answered; it is tried once more when the token has ended"
_LOST = "its renewal was not answered, and tried once more in vain"
_UNKNOWN = Grant()


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request is authorised with; either part may be missing. Shows itself as `***`.

    `renew` gives a new token for one that a 401 refused; `past` are those that were renewed.
    `grant` is what is known of how one signed in, `problem` what a person should know of it.
    """

    token: Secret | None = None
    key: Secret | None = None
    renew: Renew | None = field(default=None, repr=False, compare=False)
    past: tuple[Secret, ...] = field(default=(), repr=False, compare=False)
    grant: Grant = field(default=_UNKNOWN, repr=False, compare=False)
    problem: str = field(default="", repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.token is not None or self.key is not None or self.grant.renews

    @property
    def renews(self) -> bool:
        """Whether a new token can be had without a person."""
        return self.renew is not None or self.grant.renews

    def with_token(self, token: Secret) -> Credentials:
        """These with another token; the present one stays masked."""
        return replace(self, token=token).after(self)

    def with_grant(self, token: Secret, grant: Grant) -> Credentials:
        """These with another token on other terms."""
        return replace(self, token=token, grant=grant, problem="").after(self)

    def with_failed_renewal(self, error: PetsyncError) -> Credentials:
        """These after a renewal that failed so. Where its answer was lost, the refresh token may
        be spent: it is sent once more at most, when the service refuses the present token.
        """
        lost = isinstance(error, ApiError) and error.may_have_happened
        again = self.grant.is_doubtful and (lost or isinstance(error, AuthError))
        if self.grant.refresh is None or self.renew is not None or not (lost or again):
            return self
        grant = replace(self.grant, is_doubtful=True, refresh=None if again else self.grant.refresh)
        return replace(self, grant=grant, problem=_LOST if again else _OPEN).after(self)

    def after(self, others: Credentials) -> Credentials:
        """These in the place of others, whose secrets stay masked."""
        gone = (others.token, others.key, *others.grant.secrets())
        past = dict.fromkeys((*others.past, *(each for each in gone if each is not None)))
        return replace(self, past=tuple(past)[-_REMEMBERED:])

    def mask(self, text: str) -> str:
        """The text with every secret in it replaced: services echo what they were sent, in
        whatever encoding.
        """
        kept = (self.token, self.key, *self.grant.secrets(), *self.past, *proxy_secrets())
        return _redactor(frozenset(each for each in kept if each))(text)


@lru_cache(maxsize=8)
def _redactor(secrets: frozenset[Secret]) -> Redactor:
    return Redactor(secrets)


def checked_token(token: object) -> Secret:
    """The token, if a header can carry it. Raises SettingsError, which does not show it."""
    return header_safe(as_secret(token), "the token")


def as_secret(value: Any) -> Any:
    """A text as a secret, before anything can go wrong; what is none stays for the checks."""
    return Secret(value) if isinstance(value, str) else value


def header_safe(value: object, what: str) -> Secret:
    """The secret, if a header can carry it. Raises SettingsError, which does not show it."""
    secret = require_secret(value, what)
    if not _fits_header(secret):
        raise SettingsError(
            f"{what} is empty or holds a character that no header can carry",
            hint="Copy it again, without line breaks and quotes.",
        )
    return secret


def require_secret(value: object, what: str) -> Secret:
    """The secret without the blanks around it. Raises SettingsError where there is none."""
    if not isinstance(value, Secret):
        raise SettingsError(
            f"{what} is {type(value).__name__}, not text",
            hint="Is the variable or the file that it comes from set?",
        )
    secret = Secret(value.reveal().strip())
    if not secret:
        raise SettingsError(
            f"{what} is empty or holds a character that no header can carry",
            hint="Copy it again, without line breaks and quotes.",
        )
    return secret


def _fits_header(secret: Secret) -> bool:
    return all("!" <= character <= "~" for character in secret.reveal())
