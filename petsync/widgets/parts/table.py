"""Table: one page of rows as a plain HTML table, in which rows can be ticked, chosen between, or
picked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import traitlets as t

from petsync.widgets.parts.part import Part

__all__ = ["Table"]


class Table(Part, script="table.js"):
    """A page of a table with its pager; whoever makes it fills `rows` when `page` changes.

    `columns` are dicts of `key`, `title` and, if it is no text, `kind`: "number", "change",
    "image", "link", "mark" or "choice". `rows` are dicts of `key` (unique text), `label` (what a
    screen reader calls the row), `cells` (by the column's key), and, if wanted, `tone` ("add",
    "update", "delete", "conflict", "problem", "done", "muted") and `fixed` (cannot be ticked).

    A cell is text, an id too (a browser rounds large numbers); for a "change" `{"before", "after"}`
    (either may be None); for an "image" `{"src", "alt"}` with a data: address; for a "link"
    `{"href", "text"}` (http and https only); for a "mark" `{"symbol", "text"}`; for a "choice"
    `{"options": [[value, title], …], "value", "label"}`. Whatever it holds is shown as text, never
    as HTML.

    A person changes `ticked` (keys, of this page's rows), `page`, and `chosen` (row key → column
    key → value), and sends `picked` by pressing a row's button, whose text is `pick`.
    """

    caption = t.Unicode("").tag(sync=True)
    empty = t.Unicode("There is nothing to show.").tag(sync=True)
    columns = t.List(t.Dict()).tag(sync=True)
    rows = t.List(t.Dict()).tag(sync=True)
    page = t.Int(0).tag(sync=True)
    pages = t.Int(1).tag(sync=True)
    total = t.Int(0).tag(sync=True)
    tickable = t.Bool(False).tag(sync=True)
    ticked = t.List(t.Unicode()).tag(sync=True)
    chosen = t.Dict().tag(sync=True)
    pick = t.Unicode("").tag(sync=True)
    disabled = t.Bool(False).tag(sync=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._on_pick: list[Callable[[str], object]] = []
        self.on_msg(self._heard)

    def on_pick(self, act: Callable[[str], object]) -> None:
        """Call the function with a row's key when its button is pressed."""
        self._on_pick.append(act)

    def focus(self, key: str, column: str) -> None:
        """Put the keyboard on the choice in this row and column, or else on the table."""
        self.send({"focus": f"choice {column} {key}"})

    def picked(self, key: str) -> None:
        """Do as if the row's button had been pressed."""
        for act in self._on_pick:
            act(key)

    def _heard(self, _: object, content: dict[str, Any], __: object) -> None:
        key = content.get("picked")
        if isinstance(key, str):
            self.picked(key)
