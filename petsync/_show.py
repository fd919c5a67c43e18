"""How a value shows itself: two generic functions that `render` fills in, type by type.

The values live below `render` in the house and must not import it; this lets their
`_repr_html_` and `__str__` reach it all the same.
"""

from __future__ import annotations

from functools import singledispatch
from html import escape

__all__ = ["as_html", "as_text"]


@singledispatch
def as_html(value: object) -> str:
    """The value as an HTML fragment, escaped."""
    return f"<pre>{escape(as_text(value))}</pre>"


@singledispatch
def as_text(value: object) -> str:
    """The value as plain text of at most 80 columns, without colour."""
    return f"<petsync.{type(value).__name__}>"
