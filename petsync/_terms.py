"""The words of a message for the place where it is shown.

A message that names a way out names an option of a command and the argument in Python, in one of
these forms: `--scope all, in Python scope="all"`, `--scope all (in Python scope="all")`. Files keep
both. A shell shows the option, Python the argument; forms and rounds have terms of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["in_python", "in_shell", "replace_terms"]

_WORD = r"(?:'[^']*'(?:\"'\"'[^']*')*|(?!--)[^\s,()'`]+)"
_OPTION = rf"(?:`[^`]+`|--[a-z][\w-]*(?: {_WORD}){{0,2}}?)"
_NAME = r"[A-Za-z_]\w*(?:\.\w+)*"
_TEXT = r"\"[^\"]*\"|'(?:[^'\\]|\\.)*'"
_CALL = r"\((?:[^()]|\([^()]*\))*\)"
_VALUE = rf"(?:{_TEXT}|\[[^\]]*\]|\{{(?:{_TEXT}|[^}}])*\}}|[\w…]+(?:\.\w+)*(?:{_CALL})?)"
_ARGUMENT = rf"(?:`[^`]+`|{_NAME}(?:{_CALL})?(?:={_VALUE})?(?:, {_NAME}={_VALUE})*)"
_SHELL = (
    (rf"({_OPTION})(?: \(in Python[,:]? {_ARGUMENT}\)|, in Python {_ARGUMENT},?)", r"\1"),
    (rf" \(in Python[,:]? {_ARGUMENT}\)|; in Python {_ARGUMENT}(?=\.)", ""),
)
_PYTHON = (
    (
        rf"{_OPTION}(?: \(in Python[,:]? ({_ARGUMENT})\)|, in Python ({_ARGUMENT}),?)",
        r"\1\2",
    ),
    (rf"\(in Python[,:]? ({_ARGUMENT})\)", r"(\1)"),
    (rf"(?<=: )[^:;]*; in Python ({_ARGUMENT})(?=\.)", r"\1"),
    (r"--max-(add|update|delete)(?= \S+(?: %)? allows)", r"max_\1"),
)


def replace_terms(text: str, terms: Iterable[tuple[str, str]]) -> str:
    """Replace commands and options in a text by the terms of another front end. `terms` are regular
    expressions with their replacements.
    """
    for option, term in terms:
        text = re.sub(option, term, text)
    return text


def in_shell(text: str) -> str:
    """Return the text with the options of commands alone, for a terminal."""
    return replace_terms(text, _SHELL) if "in Python" in text else text


def in_python(text: str) -> str:
    """Return the text with the arguments alone, for a notebook, a traceback or a repr."""
    return replace_terms(text, _PYTHON) if "in Python" in text or "--max-" in text else text
