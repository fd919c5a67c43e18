"""An account as the form shows it, as HTML and as text: what it lacks comes first."""

from __future__ import annotations

from petsync import _show
from petsync.errors import PetsyncError
from petsync.render import markup
from petsync.render.visible import visible, wrap
from petsync.widgets.login.words import Said, lack
from petsync.wire.account import Account

__all__ = ["account_html", "account_text", "untold_html", "untold_text"]

_WIDTH = 80
_UNTOLD = ("Who you are is not known yet: the service has not answered.", "")


def account_html(account: Account) -> str:
    """The account as an HTML fragment."""
    said = lack(account)
    return _alert(said) + _show.as_html(account)


def account_text(account: Account) -> str:
    """The account as text of at most 80 columns."""
    return _lines(lack(account)) + _show.as_text(account)


def untold_html(error: PetsyncError | None) -> str:
    """Why it is not known who one is, as an HTML fragment."""
    return _alert(_said(error))


def untold_text(error: PetsyncError | None) -> str:
    """The same as text."""
    return _lines(_said(error)).rstrip("\n")


def _said(error: PetsyncError | None) -> Said:
    return _UNTOLD if error is None else (error.message, error.hint)


def _alert(said: Said | None) -> str:
    if said is None:
        return ""
    what, hint = said
    lines = [markup.prose(hint)] if hint else []
    return markup.fragment([markup.alert(what, lines, kind="ps-refused")])


def _lines(said: Said | None) -> str:
    parts = () if said is None else (f"! {said[0]}", said[1])
    lines = (line for part in parts if part for line in wrap(visible(part), _WIDTH))
    return "".join(f"{line}\n" for line in lines)
