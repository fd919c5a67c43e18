"""Credentials: what a request is authorised with, masked everywhere."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from petsync.client.grant import Grant
from petsync.settings import Secret

__all__ = ["Credentials", "Renew"]

Renew = Callable[[], str | Secret | Awaitable[str | Secret]]
"""Gives a new token; it is called from a thread of its own if it is no async function."""

_REMEMBERED = 48
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

    def after(self, others: Credentials) -> Credentials:
        """These in the place of others, whose secrets stay masked."""
        gone = (others.token, others.key, *others.grant.secrets())
        past = dict.fromkeys((*others.past, *(each for each in gone if each is not None)))
        return replace(self, past=tuple(past)[-_REMEMBERED:])

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
        kept = (self.token, self.key, *self.grant.secrets(), *self.past)
        return sorted((each.reveal() for each in kept if each is not None), key=len, reverse=True)
