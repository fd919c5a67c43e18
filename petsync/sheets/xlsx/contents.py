"""Contents of an exported workbook, before it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pandas as pd

from petsync.errors import SheetError
from petsync.models import Tag
from petsync.sheets.headers import ACTION
from petsync.sheets.validate.findings import escaped_list
from petsync.table.base import Base
from petsync.table.cells import escape_marker, format_photo_urls, format_tags
from petsync.table.columns import CLEARED, COLUMNS
from petsync.table.frame import plain_values

__all__ = ["GUIDE", "OUT", "Contents", "cell_texts"]


# A table's rows as the texts of cells.


OUT = (*COLUMNS, ACTION)
"""The columns of a sheet that is written, in their order."""


def cell_texts(
    frame: pd.DataFrame,
    *,
    marker: str,
    empty: str = "",
    separator: Literal["\n", " | "] = "\n",
) -> list[list[str]]:
    """Return the columns of OUT, each a list with a text for each row, "" for a missing value.

    An empty text or list is written as `empty`. Raises SheetError if an id is not an integer.
    """
    addresses = partial(format_photo_urls, separator=separator)
    forms: dict[str, Callable[[Any], str]] = {
        "id": _number,
        "category": lambda value: marker if value == CLEARED else escape_marker(str(value), marker),
        "category_id": _number,
        "tags": lambda value: escaped_list(_tags, value, "; ", marker),
        "photo_urls": lambda value: escaped_list(addresses, value, separator, marker),
        ACTION: lambda value: "" if value == "merge" else str(value),
    }

    def column(name: str) -> Iterable[str]:
        form = forms.get(name, lambda value: escape_marker(str(value), marker))
        values, missing = _values(frame, name)
        for value, is_missing in zip(values, missing, strict=True):
            if is_missing:
                yield ""
            else:
                yield form(value) if value == 0 or value else empty

    return [list(column(name)) for name in OUT]


def _values(frame: pd.DataFrame, name: str) -> tuple[Sequence[Any], Sequence[bool]]:
    if name not in frame:
        return [None] * len(frame), [True] * len(frame)
    values = plain_values(frame[name].array)
    return values, [value is None for value in values]


def _number(value: Any) -> str:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number != value:
        raise SheetError(
            f"the table has the id {value!r}, which is not a whole number",
            hint="Make the column Int64: frame['id'] = frame['id'].astype('Int64').",
        )
    return str(number)


def _tags(tags: Iterable[Tag | str]) -> str:
    return format_tags(map(_tag, tags))


def _tag(tag: Tag | str) -> Tag:
    return Tag(None, tag) if isinstance(tag, str) else tag


# Contents: the values of a workbook, before it is formatted.


GUIDE = "How to use this sheet"
"""The name of the worksheet with instructions that an export adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The values of a workbook."""

    columns: Sequence[Sequence[str]]
    """The texts of the columns of OUT, all of the same length."""
    tab: str
    """The worksheet's name."""
    file: str
    """The workbook's file name."""
    statuses: Sequence[str] = ()
    """The usual statuses."""
    clear: str = ""
    """The marker that empties a field."""
    base: Base | None = None
    """The base that is written into the workbook; None for no base."""
    exact: bool = True
    """Whether the workbook also has the exact texts of cells that LibreOffice would change."""

    @property
    def rows(self) -> int:
        """The number of rows below the header."""
        return len(self.columns[0])

    @property
    def by_name(self) -> Mapping[str, Sequence[str]]:
        """The texts by their column's name."""
        return dict(zip(OUT, self.columns, strict=True))
