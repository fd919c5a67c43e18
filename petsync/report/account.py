"""An account as text and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from petsync.models import READ, WRITE, Account, Kept, Kind
from petsync.report import html, text
from petsync.report.words import format_timestamp
from petsync.table.cells import make_visible

__all__ = ["account_facts", "account_html", "account_lines", "account_sentence", "account_text"]


# The facts of an account in words, for text and HTML.


_KIND_WORDS: Mapping[Kind, str] = {
    "none": "not signed in",
    "token": "a token",
    "client credentials": "a client's id and secret",
    "code": "a browser",
    "implicit": "a browser (implicit)",
    "api key": "an api key",
}
_STORAGE_WORDS: Mapping[Kept, str] = {
    "none": "nowhere",
    "memory": "in memory, until petsync ends",
    "keyring": "in the system's keyring",
    "environment": "in the environment (PETSYNC_…)",
    "file": "in a file that another program renews",
    "argument": "in the script, or where the script reads it from",
}
_SCOPE_WORDS: Mapping[str, str] = {READ: "read pets", WRITE: "change pets"}


def account_sentence(account: Account) -> str:
    """Return one sentence: whether the user is signed in, and the user's name."""
    if not account.signed_in:
        return "You are not signed in."
    if account.user:
        return f"You are signed in as {make_visible(account.user)}."
    return "You are signed in; the service does not report the user name."


def account_facts(account: Account) -> Iterator[tuple[str, str]]:
    """Yield the account's facts as names and values, as printable text."""
    yield "at", make_visible(account.url)
    if account.signed_in:
        program = (
            f", for the program {make_visible(account.client_id)}" if account.client_id else ""
        )
        yield "by", f"{_KIND_WORDS[account.kind]}{program}"
    yield "may", _describe_scopes(account)
    if others := (account.scopes or frozenset()) - _SCOPE_WORDS.keys():
        yield "and", make_visible(", ".join(sorted(others)))
    if account.signed_in:
        yield "until", _describe_expiry(account)
        yield "kept", _STORAGE_WORDS[account.kept]
        if account.kind != "api key" and account.api_key:
            yield "besides", "an api key"


def _describe_scopes(account: Account) -> str:
    permissions = {READ: account.can_read, WRITE: account.can_write}
    phrases = [
        _SCOPE_WORDS[scope] if is_allowed else f"not {_SCOPE_WORDS[scope]}"
        for scope, is_allowed in permissions.items()
        if is_allowed is not None
    ]
    unknown = [
        _SCOPE_WORDS[scope] for scope, is_allowed in permissions.items() if is_allowed is None
    ]
    if unknown and account.signed_in:
        phrases.append(f"perhaps {' and '.join(unknown)} (not reported by the service)")
    return ", ".join(phrases) or "the service does not say"


def _describe_expiry(account: Account) -> str:
    if account.expires is None:
        return "renewed when it ends" if account.renews else "not reported by the service"
    renewal = ", then renewed automatically" if account.renews else ""
    return f"{format_timestamp(account.expires)}{renewal}"


# An account as HTML.


def account_html(account: Account) -> str:
    """Return the account as HTML: the user, the permissions, their expiry, and a warning if there
    is one.
    """
    warning = html.alert(html.capital(account.problem), []) if account.problem else ""
    rows = [_row(name, value) for name, value in account_facts(account)]
    body = html.element("tbody", "\n".join(rows))
    table = html.element("table", body, class_="ps-small")
    return html.fragment([html.summary(account_sentence(account)), warning, table])


def _row(name: str, value: str) -> str:
    return html.element("tr", html.row_head(name) + html.table_cell(value))


# An account as lines, and as text.


def account_lines(account: Account, *, width: int = 80) -> Iterator[Text]:
    """Yield the account as lines: the user, the permissions, their expiry, and a warning if there
    is one.
    """
    yield from text.paragraph(account_sentence(account), width, style="bold")
    yield from text.facts(account_facts(account), width)
    if account.problem:
        yield from text.item("warning", _sentence(account.problem), width)


def account_text(account: Account, *, width: int = 80) -> str:
    """Return the account's lines as plain text."""
    return "\n".join(line.plain.rstrip() for line in account_lines(account, width=width))


def _sentence(problem: str) -> str:
    text = make_visible(problem)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
