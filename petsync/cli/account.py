"""An account as commands show it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from petsync.cli.context import Context
    from petsync.wire.account import Account

__all__ = ["print_account"]


def print_account(context: Context, account: Account) -> None:
    """Put the account on stdout: as text, or as the one JSON document."""
    if context.as_json:
        context.show_json(_document(account))
    else:
        context.show(str(account).encode(errors="backslashreplace"))


def _document(account: Account) -> dict[str, Any]:
    said = dataclasses.asdict(account)
    scopes = account.scopes
    return said | {"scopes": None if scopes is None else sorted(scopes)}
