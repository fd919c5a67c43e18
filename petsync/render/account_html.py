"""An account as HTML."""

from __future__ import annotations

from petsync.render import markup
from petsync.render.account_words import account_facts, account_sentence
from petsync.wire.account import Account

__all__ = ["account_html"]


def account_html(account: Account) -> str:
    """Who one is, what one may do and for how long, and what to know of it."""
    warning = markup.alert(markup.capital(account.problem), []) if account.problem else ""
    rows = [_row(name, value) for name, value in account_facts(account)]
    body = markup.element("tbody", "\n".join(rows))
    table = markup.element("table", body, class_="ps-small")
    return markup.fragment([markup.summary(account_sentence(account)), warning, table])


def _row(name: str, value: str) -> str:
    return markup.element("tr", markup.row_head(name) + markup.cell(value))
