"""The canonical columns of a table of pets, and a sheet's actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

__all__ = [
    "ACTIONS",
    "ADDING",
    "CLEAR",
    "CLEARED",
    "COLUMNS",
    "COLUMNS_OF",
    "KIND_OF",
    "LISTS",
    "ORIGINAL_ROW",
    "UNITS",
    "Action",
    "Column",
    "Kind",
    "Unit",
]


Column = Literal["id", "name", "status", "category", "category_id", "tags", "photo_urls"]
COLUMNS: tuple[Column, ...] = get_args(Column)
"""The canonical columns: `id` and `category_id` are Int64, the text columns are `str`, and `tags`
and `photo_urls` are lists.
"""

LISTS: tuple[Literal["tags", "photo_urls"], ...] = ("tags", "photo_urls")
"""The columns of lists."""

Unit = Literal["name", "status", "category", "tags", "photo_urls"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""The parts of a pet that change as one: its fields."""
COLUMNS_OF: Mapping[Unit, tuple[Column, ...]] = {
    "name": ("name",),
    "status": ("status",),
    "category": ("category", "category_id"),
    "tags": ("tags",),
    "photo_urls": ("photo_urls",),
}

CLEAR = "[clear]"
"""A cell with this text empties the field."""

CLEARED = "\x1c\x1d\x1e\x1f"
"""In the `rows` of a sheet, this text in `category` removes the category and its id; an empty text
is the empty name of a category with an id. The text is only whitespace, so that no real category
has this name. The `frame` of a sheet, which users see, has CLEAR instead.
"""

Action = Literal["merge", "add", "add-another", "update", "delete", "ignore"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""The valid actions of a row. A blank cell means `merge`: add or update."""

ADDING: frozenset[str] = frozenset({"add", "add-another"})
"""The actions that only add pets. `add-another` may add a pet that equals an existing one."""

Kind = Literal["text", "number", "list", "cell", "truth"]
"""The type of a value in a rule: `cell` is a text of a cell that may also be read as a number."""
KIND_OF: Mapping[str, Kind] = {
    "id": "number",
    "category_id": "number",
    "tags": "list",
    "photo_urls": "list",
    "name": "text",
    "status": "text",
    "category": "text",
    "action": "text",
}
"""The types of petsync's columns in a rule. The sheet's other columns have cells."""
ORIGINAL_ROW = "original_row"
"""In a workbook of failed rows, the column that names the row from which a row was copied."""
