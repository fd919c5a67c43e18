"""The canonical columns of a table of pets, and a sheet's actions."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["ACTIONS", "ADDING", "CLEAR", "CLEARED", "COLUMNS", "Action", "Column"]


Column = Literal["id", "name", "status", "category", "category_id", "tags", "photo_urls"]
COLUMNS: tuple[Column, ...] = get_args(Column)
"""The canonical columns: `id` and `category_id` are Int64, the text columns are `str`, and `tags`
and `photo_urls` are lists.
"""

CLEAR = "[clear]"
"""The text of a cell that empties its field."""

CLEARED = "\x1c\x1d\x1e\x1f"
"""The text in `category` of a sheet's `rows` if the cell removes the category and its id. (An empty
text there is the empty name of a category with an id.) No file and no service uses this text: it is
whitespace, and is compared as an empty text. Users never see it: a sheet's `frame` has CLEAR
instead.
"""

Action = Literal["merge", "add", "add-another", "update", "delete", "ignore"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""The actions that a sheet may give for a row; a blank cell is `merge`: add or update."""

ADDING: frozenset[str] = frozenset({"add", "add-another"})
"""The actions that add a pet and change none; `add-another` may add a pet that equals another
one.
"""
