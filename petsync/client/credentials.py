"""Credentials: what a request is authorised with, masked everywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from petsync.client.grant import Grant
from petsync.errors import ApiError, AuthError, PetsyncError, SettingsError
from petsync.redact import Redactor, proxy_secrets
from petsync.settings import Secret

__all__ = ["Credentials", "Renew", "checked_token", "filled", "header_safe", "masked"]

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

    def renewed(self, token: Secret) -> Credentials:
        """These with another token; the present one stays masked."""
        return replace(self, token=token).after(self)

    def granted(self, token: Secret, grant: Grant) -> Credentials:
        """These with another token on other terms."""
        return replace(self, token=token, grant=grant, problem="").after(self)

    def doubted(self, error: PetsyncError) -> Credentials:
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

    def masked(self, text: str) -> str:
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
    return header_safe(masked(token), "the token")


def masked(value: Any) -> Any:
    """A text as a secret, before anything can go wrong; what is none stays for the checks."""
    return Secret(value) if isinstance(value, str) else value


def header_safe(value: object, what: str) -> Secret:
    secret = filled(value, what)
    if not _fits_header(secret):
        raise SettingsError(
            f"{what} is empty or holds a character that no header can carry",
            hint="Copy it again, without line breaks and quotes.",
        )
    return secret


def filled(value: object, what: str) -> Secret:
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
