"""Account: who the service says one is, and what that allows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from petsync import _show

__all__ = ["NOBODY", "READ", "WRITE", "Account", "Kept", "Kind"]

READ = "read:pets"
WRITE = "write:pets"

Kind = Literal["none", "token", "client credentials", "code", "implicit", "api key"]
"""How one signed in."""

Kept = Literal["none", "memory", "keyring", "environment", "file", "argument"]
"""Where the sign-in is kept, or came from; none where there is none."""

NOBODY = "nobody was signed in"
"""The problem of who signs out, and was not signed in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who one is at a service, as it last said; it holds no secret, and shows itself.

    `user` is "" and `scopes`, `can_read` and `can_write` are None where the service does not tell;
    `expires` (UTC) is None where it names no end. `renews`: a new token comes by itself.
    `api_key`: one is set. `problem` is what a person should know, "" if there is nothing.
    """

    url: str
    signed_in: bool = False
    kind: Kind = "none"
    user: str = ""
    client_id: str = ""
    scopes: frozenset[str] | None = None
    can_read: bool | None = None
    can_write: bool | None = None
    expires: datetime | None = None
    renews: bool = False
    kept: Kept = "none"
    api_key: bool = False
    problem: str = ""

    def __str__(self) -> str:
        return _show.as_text(self)

    def _repr_html_(self) -> str:
        return _show.as_html(self)

    def _repr_pretty_(self, printer: object, _: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]
