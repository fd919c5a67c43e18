"""What an account says, in words: the same in text and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from petsync.render.visible import visible
from petsync.render.words import moment
from petsync.wire.account import READ, WRITE, Account, Kept, Kind

__all__ = ["account_facts", "account_sentence"]

_KIND: Mapping[Kind, str] = {
    "none": "not signed in",
    "token": "a token",
    "client credentials": "a client's id and secret",
    "code": "a browser",
    "implicit": "a browser (implicit)",
    "api key": "an api key",
}
_KEPT: Mapping[Kept, str] = {
    "none": "nowhere",
    "memory": "in memory, until petsync ends",
    "keyring": "in the system's keyring",
    "environment": "in the environment (PETSYNC_…)",
    "file": "in a file that another program keeps fresh",
    "argument": "in the script, or whatever it reads it from",
}
_MAY: Mapping[str, str] = {READ: "read pets", WRITE: "change pets"}


def account_sentence(account: Account) -> str:
    """Who one is, in one sentence."""
    if not account.signed_in:
        return "You are not signed in."
    if account.user:
        return f"You are signed in as {visible(account.user)}."
    return "You are signed in; the service does not say as whom."


def account_facts(account: Account) -> Iterator[tuple[str, str]]:
    """Names and values, in visible text."""
    yield "at", visible(account.url)
    if account.signed_in:
        by = f", for the program {visible(account.client_id)}" if account.client_id else ""
        yield "by", f"{_KIND[account.kind]}{by}"
    yield "may", _may(account)
    if others := (account.scopes or frozenset()) - _MAY.keys():
        yield "and", visible(", ".join(sorted(others)))
    if account.signed_in:
        yield "until", _until(account)
        yield "kept", _KEPT[account.kept]
        if account.kind != "api key" and account.api_key:
            yield "besides", "an api key"


def _may(account: Account) -> str:
    can = {READ: account.can_read, WRITE: account.can_write}
    said = [
        _MAY[scope] if may else f"not {_MAY[scope]}"
        for scope, may in can.items()
        if may is not None
    ]
    unsaid = [_MAY[scope] for scope, may in can.items() if may is None]
    if unsaid and account.signed_in:
        said.append(f"perhaps {' and '.join(unsaid)} (the service does not say)")
    return ", ".join(said) or "the service does not say"


def _until(account: Account) -> str:
    if account.expires is None:
        return "renewed when it ends" if account.renews else "the service does not say"
    by_itself = ", then renewed by itself" if account.renews else ""
    return f"{moment(account.expires)}{by_itself}"
