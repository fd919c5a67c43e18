"""How a value shows itself, by generic functions that `render` fills in, type by type; and how a
plan becomes a file.

The values live below `render` and `apply` and must not import them; this lets their
`_repr_html_`, `__str__`, `save` and `load` reach them all the same.
"""

from __future__ import annotations

from functools import singledispatch
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Where", "as_file", "as_html", "as_text", "from_file"]


Where = str | Path
"""Where a file is, or is to be."""

_FILES = "petsync.apply.planfile"


@singledispatch
def as_html(value: object) -> str:
    """The value as an HTML fragment, escaped."""
    return f"<pre>{escape(as_text(value))}</pre>"


@singledispatch
def as_text(value: object) -> str:
    """The value as plain text of at most 80 columns, without colour."""
    return f"<petsync.{type(value).__name__}>"


def as_file(plan: object, path: Where) -> Where:
    """Write a plan to the path, whole or not at all; the path itself."""
    saved: Where = import_module(_FILES).save_plan(plan, path)
    return saved


def from_file(path: Where) -> Any:
    """The plan in a file."""
    return import_module(_FILES).load_plan(path)
