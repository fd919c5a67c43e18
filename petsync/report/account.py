"""An account as text and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from petsync.models import READ, WRITE, Account, Kept, Kind
from petsync.report import html, text
from petsync.report.words import moment
from petsync.table.cells import visible

__all__ = ["account_facts", "account_html", "account_lines", "account_sentence", "account_text"]


# What an account says, in words: the same in text and HTML.


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


# An account as HTML.


def account_html(account: Account) -> str:
    """Who one is, what one may do and for how long, and what to know of it."""
    warning = html.alert(html.capital(account.problem), []) if account.problem else ""
    rows = [_row(name, value) for name, value in account_facts(account)]
    body = html.element("tbody", "\n".join(rows))
    table = html.element("table", body, class_="ps-small")
    return html.fragment([html.summary(account_sentence(account)), warning, table])


def _row(name: str, value: str) -> str:
    return html.element("tr", html.row_head(name) + html.table_cell(value))


# An account as lines, and as text.


def account_lines(account: Account, *, width: int = 80) -> Iterator[Text]:
    """Who one is, what one may do and for how long, and what to know of it."""
    yield from text.paragraph(account_sentence(account), width, style="bold")
    yield from text.facts(account_facts(account), width)
    if account.problem:
        yield from text.item("warning", _sentence(account.problem), width)


def account_text(account: Account, *, width: int = 80) -> str:
    """The same as plain text."""
    return "\n".join(line.plain.rstrip() for line in account_lines(account, width=width))


def _sentence(problem: str) -> str:
    text = visible(problem)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
