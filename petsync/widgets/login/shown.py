"""An account as the form shows it, as HTML and as text: what it lacks comes first."""

from __future__ import annotations

from dataclasses import replace

from petsync import _show
from petsync.errors import PetsyncError
from petsync.render import markup
from petsync.render.visible import visible, wrap
from petsync.widgets.login.words import Said, lack, until_here
from petsync.wire.account import READ, WRITE, Account

__all__ = ["account_html", "account_text", "untold_html", "untold_text"]

_WIDTH = 80
_UNTOLD = ("Who you are is not known yet: the service has not answered.", "")


def account_html(account: Account) -> str:
    """The account as an HTML fragment."""
    here = until_here(account)
    # They look as the account's own style says, which stands between them.
    before = _beside(_alert(lack(account)))
    after = _beside(markup.element("p", markup.text(here)) if here else "")
    return before + _show.as_html(_told_once(account)) + after


def account_text(account: Account) -> str:
    """The account as text of at most 80 columns."""
    here = until_here(account)
    aside = f"\n{_lines((here, ''))}".rstrip("\n") if here else ""
    return _lines(lack(account)) + _show.as_text(_told_once(account)) + aside


def untold_html(error: PetsyncError | None) -> str:
    """Why it is not known who one is, as an HTML fragment."""
    return markup.fragment([_alert(_said(error))])


def untold_text(error: PetsyncError | None) -> str:
    """The same as text."""
    return _lines(_said(error)).rstrip("\n")


def _told_once(account: Account) -> Account:
    """Without the problem that the form tells in words of its own."""
    known = (READ, WRITE, "api key")
    is_told = lack(account) is not None and any(word in account.problem for word in known)
    return replace(account, problem="") if is_told else account


def _said(error: PetsyncError | None) -> Said:
    return _UNTOLD if error is None else (error.message, error.hint)


def _alert(said: Said | None) -> str:
    if said is None:
        return ""
    what, hint = said
    lines = [markup.prose(hint)] if hint else []
    return markup.alert(what, lines, kind="ps-refused")


def _beside(inner: str) -> str:
    return f'<div class="petsync">{inner}</div>' if inner else ""


def _lines(said: Said | None) -> str:
    parts = () if said is None else said
    lines = (line for part in parts if part for line in wrap(visible(part), _WIDTH))
    return "".join(f"{line}\n" for line in lines)
