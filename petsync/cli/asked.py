"""Secrets that a person types, or a pipe hands over. None is ever an argument: those show in the
list of processes, and in the shell's history.
"""

from __future__ import annotations

import getpass
import sys

from petsync.errors import SettingsError
from petsync.settings import Secret

__all__ = ["ask", "ask_secret", "is_interactive"]

_MOST = 64 * 1024
_WAY_OUT = "Type it when asked for it, or hand it over on standard input, as a line of its own."


def is_interactive() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin.isatty()


def ask_secret(what: str) -> Secret:
    """What is typed without being shown; or standard input's next line, where it is no terminal.

    Raises SettingsError where there is none.
    """
    prompt = f"{_capital(what)} (it does not show): "
    try:
        text = getpass.getpass(prompt, sys.stderr) if is_interactive() else _line()
    except EOFError:
        text = ""
    if not text.strip():
        raise SettingsError(f"no {what} was given", hint=_WAY_OUT)
    return Secret(text.strip())


def ask(what: str) -> str:
    """The same for what is no secret, and shows."""
    if is_interactive():
        sys.stderr.write(f"{_capital(what)}: ")
        sys.stderr.flush()
    text = _line().strip()
    if not text:
        raise SettingsError(f"no {what} was given", hint=_WAY_OUT)
    return text


def _line() -> str:
    return sys.stdin.readline(_MOST)


def _capital(what: str) -> str:
    return what[:1].upper() + what[1:]
