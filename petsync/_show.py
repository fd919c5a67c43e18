"""How a value shows itself, and becomes a file: generic functions that higher parts of the house
fill in, type by type.

The values live below `render` and `apply` and must not import them; this lets their
`_repr_html_`, `__str__`, `save` and `load` reach them all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Where", "as_file", "as_html", "as_text", "from_file", "of_file"]

Where = str | Path
"""Where a file is, or is to be."""

T = TypeVar("T")
_FILES = "petsync.apply.planfile"

of_file: dict[type, Callable[[Where], Any]] = {}
"""For each type that can be read from a file, what reads it."""


@singledispatch
def as_html(value: object) -> str:
    """The value as an HTML fragment, escaped."""
    return f"<pre>{escape(as_text(value))}</pre>"


@singledispatch
def as_text(value: object) -> str:
    """The value as plain text of at most 80 columns, without colour."""
    return f"<petsync.{type(value).__name__}>"


@singledispatch
def as_file(value: object, path: Where) -> Path:
    """Write the value to the path, whole or not at all; the path itself."""
    # What writes it may not have been imported yet.
    import_module(_FILES)
    write = as_file.dispatch(type(value))
    if write is as_file.dispatch(object):
        raise TypeError(f"a {type(value).__name__} cannot be saved to {path}")
    saved: Path = write(value, path)
    return saved


def from_file(kind: type[T], path: Where) -> T:
    """The value of that type in a file."""
    import_module(_FILES)
    value: T = of_file[kind](path)
    return value
