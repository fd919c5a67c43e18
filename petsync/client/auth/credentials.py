"""The credentials of requests, masked wherever they are shown, and the terms of their tokens."""

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
from petsync.models import READ, WRITE, Kept, Kind
from petsync.redact import Redactor, proxy_secrets
from petsync.settings import Secret, as_secret, without_scheme

__all__ = [
    "Credentials",
    "Grant",
    "Renew",
    "checked_token",
    "header_safe",
    "hide_other",
    "require_secret",
]


# Grant: the terms of a token, and the secrets that renew it.


_RENEW_EARLY_S = 60.0
_RENEW_SHARE = 0.2
_MAX_TIMESTAMP = 253_402_300_000.0
"""Seconds since 1970, shortly before the largest datetime: the end of the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The terms of a sign-in: its kind, storage, client, refresh token, scopes and times."""

    kind: Kind = "token"
    kept: Kept = "argument"
    client_id: str = ""
    client_secret: Secret | None = None
    refresh: Secret | None = None
    scopes: frozenset[str] | None = None
    """None if unknown."""
    issued: float = 0.0
    """Seconds since 1970, by this machine's clock."""
    expires: float | None = None
    """Seconds since 1970, by this machine's clock; None if no expiry is known."""
    is_doubtful: bool = False
    """True if the refresh token was sent and no response arrived: it may no longer be valid."""
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    """Identifies one sign-in through all its renewals."""

    @property
    def renews(self) -> bool:
        """True if the token can be renewed without the user."""
        return self.refresh is not None or self.client_secret is not None

    @property
    def until(self) -> datetime | None:
        """The time at which the token expires, in UTC; None if no expiry is known."""
        if self.expires is None:
            return None
        return datetime.fromtimestamp(min(max(self.expires, 0.0), _MAX_TIMESTAMP), UTC)

    def is_due(self, now: float) -> bool:
        """Return true if the token should be renewed now: a minute before it expires or, if its
        lifetime is under five minutes, after four fifths of it.

        A token with an unknown or zero lifetime is never due. Nor is a token whose last renewal got
        no response: a second use of the refresh token could end the sign-in while the access token
        still works.
        """
        if self.expires is None or self.expires <= self.issued or self.is_doubtful:
            return False
        return now >= self.expires - min(
            _RENEW_EARLY_S, _RENEW_SHARE * (self.expires - self.issued)
        )

    @property
    def pair(self) -> Secret | None:
        """The client's id and secret, encoded for a Basic header (RFC 6749, section 2.3.1); None
        without a secret.
        """
        if self.client_secret is None:
            return None
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret.reveal())}"
        return Secret(base64.b64encode(pair.encode()).decode())

    def is_over(self, now: float) -> bool:
        """Return true if the token has expired, by this machine's clock."""
        return self.expires is not None and now >= self.expires

    def secrets(self) -> tuple[Secret, ...]:
        values = (self.refresh, self.client_secret, self.pair)
        return tuple(each for each in values if each is not None)

    def with_terms(
        self,
        *,
        refresh: Secret | None,
        scopes: frozenset[str] | None,
        issued: float,
        expires: float | None,
    ) -> Grant:
        """Return the grant after a successful renewal, with these values."""
        return replace(
            self,
            refresh=refresh,
            scopes=scopes,
            issued=issued,
            expires=expires,
            is_doubtful=False,
        )

    def keep(self, kept: Kept) -> Grant:
        """Return the same grant, marked as stored in `kept`."""
        return replace(self, kept=kept)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except `kept` as plain values; the secrets are not masked."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {n: v.reveal() if isinstance(v, Secret) else v for n, v in values.items()}
        plain["scopes"] = None if self.scopes is None else sorted(self.scopes)
        return {name: value for name, value in plain.items() if name != "kept"}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], kept: Kept) -> Grant:
        """Return the grant that `to_dict` converted. Raises TypeError, KeyError or ValueError if
        the values are invalid.
        """
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


# Credentials of a request, masked everywhere.


Renew = Callable[[], str | Secret | Awaitable[str | Secret]]
"""A function that returns a new token. It is called in a thread unless it is async."""

_MAX_PAST = 48
_DOUBTFUL_PROBLEM = (
    "the last renewal got no response; petsync tries it once more when the service refuses the "
    "token"
)
_FAILED_PROBLEM = "the token's renewal got no response, and a second attempt failed"
_NO_GRANT = Grant()


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a request: a token, an API key, both or neither. The repr shows `***`."""

    token: Secret | None = None
    key: Secret | None = None
    """The API key."""
    renew: Renew | None = field(default=None, repr=False, compare=False)
    """A function that returns a new token after a 401."""
    past: tuple[Secret, ...] = field(default=(), repr=False, compare=False)
    """Earlier secrets, which `mask` masks too."""
    grant: Grant = field(default=_NO_GRANT, repr=False, compare=False)
    """The terms of the sign-in."""
    problem: str = field(default="", repr=False, compare=False)
    """A problem with the sign-in, as text for the user."""
    hint: str = field(default="", repr=False, compare=False)
    """What to do if the service refuses these credentials, if their source does not already
    determine it.
    """

    def __bool__(self) -> bool:
        return self.token is not None or self.key is not None or self.grant.renews

    @property
    def renews(self) -> bool:
        """True if the token can be renewed without the user."""
        return self.renew is not None or self.grant.renews

    @property
    def refused_hint(self) -> str:
        """What to do if the service refuses these credentials, with their source; "" if they were
        passed as an argument or are only in memory.
        """
        if self.hint:
            return self.hint
        if self.grant.kept == "environment":
            if self.grant.kind == "client credentials":
                return "Correct or unset PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET."
            name = "PETSYNC_API_KEY" if self.grant.kind == "api key" else "PETSYNC_TOKEN"
            return (
                f"The credentials come from {name} in the environment. Unset it to use the "
                "stored sign-in, or set it again."
            )
        if self.grant.kept == "file":
            return (
                "The token comes from a file. Omit --token-file (in Python auth) to use the "
                "stored sign-in, or put a new token into the file."
            )
        if self.grant.kept == "keyring":
            return (
                "The credentials come from the keyring. Sign in again: `petsync login`, in "
                "Python store.begin_sign_in(keep='keyring')."
            )
        return ""

    @property
    def lacks_write(self) -> bool:
        """True if the scopes of the token are known, and show that it must not change pets.

        Scopes without read:pets show nothing: the service may use other names for its scopes. With
        an API key, scopes show nothing either: the key may permit changes.
        """
        scopes = self.grant.scopes
        return self.key is None and scopes is not None and READ in scopes and WRITE not in scopes

    def with_token(self, token: Secret) -> Credentials:
        """Return these credentials with another token; `mask` also masks the current one."""
        return replace(self, token=token).with_masks_of(self)

    def with_grant(self, token: Secret, grant: Grant) -> Credentials:
        """Return these credentials with another token and its terms, and no problem."""
        return replace(self, token=token, grant=grant, problem="").with_masks_of(self)

    def with_key(self, key: Secret | None) -> Credentials:
        """Return these credentials with the API key, or unchanged if it is None."""
        return self if key is None else replace(self, key=key).with_masks_of(self)

    def with_failed_renewal(self, error: PetsyncError) -> Credentials:
        """Return these credentials after a failed renewal.

        If no response arrived, the refresh token may no longer be valid: it is used at most once
        more, when the service refuses the access token.
        """
        is_lost = isinstance(error, ApiError) and error.may_have_happened
        is_second = self.grant.is_doubtful and (is_lost or isinstance(error, AuthError))
        if self.grant.refresh is None or self.renew is not None or not (is_lost or is_second):
            return self
        grant = replace(
            self.grant, is_doubtful=True, refresh=None if is_second else self.grant.refresh
        )
        return replace(
            self, grant=grant, problem=_FAILED_PROBLEM if is_second else _DOUBTFUL_PROBLEM
        ).with_masks_of(self)

    def with_masks_of(self, others: Credentials) -> Credentials:
        """Return these credentials as the replacement for `others`: `mask` also masks the secrets
        of `others`.
        """
        old_secrets = (others.token, others.key, *others.grant.secrets())
        past = dict.fromkeys((*others.past, *(each for each in old_secrets if each is not None)))
        return replace(self, past=tuple(past)[-_MAX_PAST:])

    def mask(self, text: str) -> str:
        """Return the text with all current and earlier secrets masked, even encoded ones: services
        repeat the secrets that they receive.
        """
        secrets = (self.token, self.key, *self.grant.secrets(), *self.past, *proxy_secrets())
        return _redactor(frozenset(each for each in secrets if each))(text)


@lru_cache(maxsize=8)
def _redactor(secrets: frozenset[Secret]) -> Redactor:
    return Redactor(secrets)


def checked_token(token: object, what: str = "the token") -> Secret:
    """Return the token without surrounding spaces and without the word Bearer before it. Raises
    SettingsError, which does not show the token, if it is not valid in a header.
    """
    secret = require_secret(as_secret(token), what)
    return header_safe(Secret(without_scheme(secret.reveal())), what)


def hide_other(value: Any) -> Any:
    """Return credentials, a type or None unchanged, and only the type of any other value. The
    caller refuses such a value, and a verbose traceback would show it.
    """
    return value if value is None or isinstance(value, Credentials | type) else type(value)


def header_safe(value: object, what: str) -> Secret:
    """Return the secret without surrounding spaces. Raises SettingsError, which does not show the
    secret, if it is not valid in a header.
    """
    secret = require_secret(value, what)
    if not _fits_header(secret):
        raise SettingsError(
            f"{what} contains a character that is not allowed in a header",
            hint="Copy it again: it may contain only ASCII characters, without spaces.",
        )
    return secret


def require_secret(value: object, what: str) -> Secret:
    """Return the secret without surrounding spaces. Raises SettingsError if it is empty or not a
    Secret.
    """
    if not isinstance(value, Secret):
        kind = value if isinstance(value, type) else type(value)
        raise SettingsError(
            f"{what} is {kind.__name__}, not text",
            hint="Check where it comes from.",
        )
    secret = Secret(value.reveal().strip())
    if not secret:
        raise SettingsError(
            f"{what} is empty", hint="Enter it again, or check where it comes from."
        )
    return secret


def _fits_header(secret: Secret) -> bool:
    return all("!" <= character <= "~" for character in secret.reveal())
