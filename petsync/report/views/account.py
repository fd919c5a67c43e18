"""The view of an account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from petsync.models import READ, WRITE, Account, Kept, Kind
from petsync.report.document import Alert, Block, Document, Facts, Summary
from petsync.report.words import format_timestamp

__all__ = ["account_view"]


_KIND_WORDS: Mapping[Kind, str] = {
    "none": "not signed in",
    "token": "a token",
    "client credentials": "a client's id and secret",
    "code": "a browser",
    "implicit": "a browser (implicit)",
    "api key": "an API key",
}
_STORAGE_WORDS: Mapping[Kept, str] = {
    "none": "nowhere",
    "memory": "in memory, until petsync ends",
    "keyring": "in the system's keyring",
    "environment": "in the environment (PETSYNC_…)",
    "job": "in the variables of a job in petsync.toml",
    "file": "in a file that another program renews",
    "argument": "in the script, or where the script reads it from",
}
_SCOPE_WORDS: Mapping[str, str] = {READ: "read pets", WRITE: "change pets"}


def account_view(account: Account) -> Document:
    """Return the user, the permissions, when the sign-in expires, and a warning if there is one."""
    blocks: list[Block] = [Summary(_describe_user(account)), Facts(tuple(_facts(account)))]
    if account.problem:
        blocks.append(Alert(account.problem))
    return Document("", blocks)


def _describe_user(account: Account) -> str:
    if account.is_open:
        return "This store asks for no sign-in."
    if not account.signed_in:
        return "You are not signed in."
    if account.user:
        return f"You are signed in as {account.user}."
    return "You are signed in; the service does not report the user name."


def _facts(account: Account) -> Iterator[tuple[str, str]]:
    yield "service", account.url
    if account.signed_in:
        program = f", for the program {account.client_id}" if account.client_id else ""
        yield "signed in with", f"{_KIND_WORDS[account.kind]}{program}"
    yield "permissions", _describe_scopes(account)
    if others := (account.scopes or frozenset()) - _SCOPE_WORDS.keys():
        yield "other scopes", ", ".join(sorted(others))
    if account.signed_in:
        yield "expires", _describe_expiry(account)
        yield "stored", _STORAGE_WORDS[account.kept]
        if account.kind != "api key" and account.api_key:
            yield "also used", "an API key"


def _describe_scopes(account: Account) -> str:
    permissions = {READ: account.can_read, WRITE: account.can_write}
    phrases = [
        f"{'can' if is_allowed else 'cannot'} {_SCOPE_WORDS[scope]}"
        for scope, is_allowed in permissions.items()
        if is_allowed is not None
    ]
    unknown = [
        _SCOPE_WORDS[scope] for scope, is_allowed in permissions.items() if is_allowed is None
    ]
    if unknown and account.signed_in:
        phrases.append(f"perhaps {' and '.join(unknown)} (not reported by the service)")
    return ", ".join(phrases) or "not reported by the service"


def _describe_expiry(account: Account) -> str:
    if account.expires is None:
        return "renewed when it expires" if account.renews else "not reported by the service"
    renewal = ", then renewed automatically" if account.renews else ""
    return f"{format_timestamp(account.expires)}{renewal}"
