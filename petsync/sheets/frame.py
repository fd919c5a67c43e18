"""A DataFrame as a sheet: a table edited in pandas is judged by the same rules as a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from petsync.errors import SheetError
from petsync.model import Tag
from petsync.sheets.grid import Cells, Grid
from petsync.sheets.headers import Mapper
from petsync.sheets.judge.clear import escaped, escaped_list
from petsync.sheets.read import CLEAR, STATUSES, Origin, judged
from petsync.table.cells import format_photo_urls, format_tags
from petsync.table.columns import COLUMNS
from petsync.table.frame import EXTRA
from petsync.table.sheet import Sheet

__all__ = ["sheet_from_frame"]

_NAME = "DataFrame"


def sheet_from_frame(
    frame: pd.DataFrame,
    *,
    mapping: Mapping[str, str] | None = None,
    statuses: Sequence[str] = STATUSES,
    known_statuses: Collection[str] = (),
    first: int = 0,
) -> Sheet:
    """What a DataFrame says: a missing value nothing, an empty text or list "make it empty".

    Rows are numbered from `first`, by position. A list in `tags` holds `Tag` values or names; a
    text in place of a list is read as a cell's is. The text "[clear]" is a text. Raises SheetError
    where no column is one of petsync's.
    """
    header = [str(name) for name in frame.columns if name != EXTRA]
    mapper = Mapper.of(_NAME, mapping)
    if not mapper.score(header):
        raise mapper.unusable([header])
    if len(set(header)) < len(header):
        raise SheetError("the DataFrame has two columns of one name", hint="Rename one of them.")
    columns = [_cells(str(name), frame[name]) for name in frame.columns if name != EXTRA]
    grid = Grid(
        tab="",
        header=header,
        header_row=0,
        rows=np.arange(first, first + len(frame), dtype=np.int64),
        columns=columns,
        places=header,
    )
    return judged(grid, Origin(_NAME), mapping, (statuses, known_statuses))


def _cells(name: str, column: pd.Series[Any]) -> Cells:
    shown = [_text(name, value) for value in column.tolist()]
    return Cells(pa.array(shown, pa.large_string()))


def _text(name: str, value: Any) -> str:
    """The value as a cell would show it."""
    if isinstance(value, list | tuple):
        return _joined(name, value) if value else CLEAR
    if _is_missing(value):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if value == "" and name in COLUMNS:
        return CLEAR
    return escaped(_written(name, str(value)), CLEAR)


def _joined(name: str, items: Sequence[Any]) -> str:
    """The items as a cell would show them; missing ones say nothing."""
    given = [item for item in items if isinstance(item, Tag) or not _is_missing(item)]
    kinds = (str,) if name == "photo_urls" else (str, Tag)
    for item in given:
        if name in COLUMNS and not isinstance(item, kinds):
            raise SheetError(
                f"the DataFrame's column {name} has a list with a {type(item).__name__} in it: "
                f"{str(item)[:40]!r}",
                hint="Its items are texts" + (", or ps.Tag." if Tag in kinds else "."),
            )
    if not given:
        return ""
    if name == "photo_urls":
        return escaped_list(format_photo_urls, [_written(name, url) for url in given], "\n", CLEAR)
    tags = [item if isinstance(item, Tag) else Tag(None, str(item)) for item in given]
    return _written(name, escaped_list(format_tags, tags, "; ", CLEAR))


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or value != value


def _written(name: str, text: str) -> str:
    """The text itself. Raises SheetError for what no file and no service can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SheetError(
            f"the DataFrame's column {name} has half a character at position {error.start + 1} of "
            f"{text[:40]!r}",
            hint="Where the text was read, an encoding was wrong: read it again.",
        ) from None
    return text
