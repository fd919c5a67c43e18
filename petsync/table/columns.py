"""The canonical columns (design: "The table"), and a sheet's actions."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["ACTIONS", "ADDING", "CLEAR", "CLEARED", "COLUMNS", "Action", "Column"]


Column = Literal["id", "name", "status", "category", "category_id", "tags", "photo_urls"]
COLUMNS: tuple[Column, ...] = get_args(Column)
"""`id` and `category_id` are Int64, the text columns `str`, `tags` and `photo_urls` lists."""

CLEAR = "[clear]"
"""The text of a cell that empties its field."""

CLEARED = "\x1c\x1d\x1e\x1f"
"""What a sheet's `rows` have in `category` where the cell takes the category away, with its id. An
empty text there is the name of a category that has an id alone, if the pet has that name. No
file and no service means this text: it is white space, and compared as an empty text. A user
never sees it: a sheet's `frame` has CLEAR in its place.
"""

Action = Literal["merge", "add", "add-another", "update", "delete", "ignore"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""What a sheet may ask for a row; a blank cell is `merge`: add or update."""

ADDING: frozenset[str] = frozenset({"add", "add-another"})
"""The actions that add a pet and change none; `add-another` adds one that says just what another
says.
"""
