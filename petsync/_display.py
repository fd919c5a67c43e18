"""Generic functions that display values and read and write plan files.

`petsync.report` displays values, and `petsync.apply` reads and writes plan files. The types are in
lower layers and must not import these packages; their `_repr_html_`, `__str__`, `save` and `load`
call the functions of this module, which import them when they are first called.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar

__all__ = [
    "Where",
    "as_file",
    "as_html",
    "as_text",
    "complete_commands",
    "count",
    "explain_assignment",
    "from_file",
    "in_terms_of_job",
    "quote",
    "type_name",
    "with_options",
]


Where = str | Path
"""The path of a file that exists, or that will be written."""

_FILES = "petsync.apply.planfile"
_REPORT = "petsync.report"


def as_html(value: object) -> str:
    """Return the value as an HTML fragment, with its text escaped."""
    shown: str = import_module(_REPORT).view_of(value).html(value)
    return shown


def as_text(value: object) -> str:
    """Return the value as plain text for a width of 80 columns, without colour."""
    shown: str = import_module(_REPORT).view_of(value).text(value)
    return shown


def quote(word: object) -> str:
    """Return the word, quoted for the user's shell. A path is never read as an option."""
    text = str(word)
    if isinstance(word, Path) and text.startswith("-"):
        text = os.path.join(os.curdir, text)  # noqa: PTH118 - Path() removes the dot
    if os.name != "nt":
        return shlex.quote(text)
    # Imported here, because only Windows needs it.
    from subprocess import list2cmdline

    return list2cmdline([text])


_COMMAND = re.compile(r"`(petsync [a-z]+[^`]*)`")


def complete_commands(text: str, complete: Callable[[str], str]) -> str:
    """Return the message with each command, such as `petsync undo RUN`, replaced by the result of
    `complete`.
    """
    return _COMMAND.sub(lambda match: f"`{complete(match[1])}`", text)


_PLAN_AGAIN = re.compile(r"\b[Pp]lan again\b(?: from the sheet)?")


def in_terms_of_job(text: str, job: str) -> str:
    """Return the text with the command that runs the job, in place of the advice to plan again."""

    def replacement(advice: re.Match[str]) -> str:
        verb = "Run" if advice[0][0] == "P" else "run"
        return f"{verb} `petsync reconcile --job {quote(job)}`"

    return _PLAN_AGAIN.sub(replacement, text)


def with_options(line: str, words: Sequence[str]) -> str:
    """Return a command with the options that it lacks. `words` are options, each followed by its
    value.
    """
    given = line.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    missing = (quote(word) for pair in pairs if pair[0] not in given for word in pair)
    return " ".join((line, *missing))


def count(value: int, noun: str) -> str:
    """Format a number with its noun: `1 pet`, `1,200 pets`."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def type_name(value: object) -> str:
    """Return the name of the value's type with its article, such as `an int`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


T = TypeVar("T")


def explain_assignment(advice: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator for a frozen dataclass: any assignment to an attribute raises a
    FrozenInstanceError that names the attribute; for `frame`, its message ends with the advice.
    Without the decorator, the error of a dataclass with slots does not name the attribute.
    """

    def refuse(_: object, name: str, _value: object) -> NoReturn:
        hint = f": {advice}" if name == "frame" else ""
        raise FrozenInstanceError(f"cannot assign to {name!r}{hint}")

    def decorate(kind: type[T]) -> type[T]:
        type.__setattr__(kind, "__setattr__", refuse)
        return kind

    return decorate


def as_file(plan: object, path: Where) -> Where:
    """Write a plan to the path atomically, and return the path."""
    saved: Where = import_module(_FILES).save_plan(plan, path)
    return saved


def from_file(path: Where) -> Any:
    """Return the plan in a file."""
    return import_module(_FILES).load_plan(path)
