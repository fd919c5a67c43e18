"""Grant: what is known of a token beside itself, and with what a new one can be had."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

from petsync.settings import Secret
from petsync.wire.account import Kept, Kind

__all__ = ["Grant"]

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

    def renewed(
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

    def saved(self) -> dict[str, Any]:
        """It as plain values, secrets among them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {n: v.reveal() if isinstance(v, Secret) else v for n, v in values.items()}
        plain["scopes"] = None if self.scopes is None else sorted(self.scopes)
        return {name: value for name, value in plain.items() if name != "kept"}

    @classmethod
    def restored(cls, saved: Mapping[str, Any], kept: Kept) -> Grant:
        """What `saved` made. Raises TypeError, KeyError or ValueError for anything else."""
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
