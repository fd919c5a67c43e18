"""An account as lines, and as text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from petsync.render import lines
from petsync.render.account_words import account_facts, account_sentence
from petsync.render.visible import visible
from petsync.wire.account import Account

__all__ = ["account_lines", "account_text"]


def account_lines(account: Account, *, width: int = 80) -> Iterator[Text]:
    """Who one is, what one may do and for how long, and what to know of it."""
    yield from lines.paragraph(account_sentence(account), width, style="bold")
    yield from lines.facts(account_facts(account), width)
    if account.problem:
        yield from lines.item("warning", _sentence(account.problem), width)


def account_text(account: Account, *, width: int = 80) -> str:
    """The same as plain text."""
    return "\n".join(line.plain.rstrip() for line in account_lines(account, width=width))


def _sentence(problem: str) -> str:
    text = visible(problem)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
