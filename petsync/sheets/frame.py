"""A DataFrame as a sheet: a table edited in pandas is judged by the same rules as a file."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa

from petsync.errors import SheetError
from petsync.model import Tag
from petsync.sheets.grid import Cells, Grid, Kind
from petsync.sheets.headers import OURS, RESULTS, Mapper, loose, named, present
from petsync.sheets.judge.clear import escaped, escaped_list
from petsync.sheets.read import STATUSES, Origin, judged
from petsync.table.cells import format_photo_urls, format_tags
from petsync.table.columns import CLEAR, CLEARED, COLUMNS
from petsync.table.frame import EXTRA
from petsync.table.sheet import Sheet

__all__ = ["sheet_from_frame"]

_NAME = "DataFrame"
_LISTED = 12
_NO_TEXTS = ("id", "category_id", "tags", "photo_urls")
"""Columns in which a text is read as a cell's is."""


def sheet_from_frame(
    frame: pd.DataFrame,
    *,
    mapping: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    statuses: Sequence[str] = STATUSES,
    known_statuses: Collection[str] = (),
    first: int = 0,
) -> Sheet:
    """What a DataFrame says: a missing value nothing, an empty text or list "make it empty".

    Rows are numbered from `first`, by position. A named level of the index is a column, so that a
    frame that is indexed by id has an id. A list in `tags` holds `Tag` values or names; a text in
    place of a list is read as a cell's is. The text "[clear]" is a text in `name` and `category`,
    and a plan holds a row that would write it into the store. `mapping` gives our column for
    headers of the frame's own, which must be there; `defaults` for those that may be there.

    Raises SheetError where no column is one of petsync's, where a header is a misspelling of one,
    where nothing but the id is known and other columns are there, and for values that no cell of
    the column can hold.
    """
    columns = {**(defaults or {}), **(mapping or {})}
    mapper = Mapper.of(_NAME, columns)
    frame = _with_index(frame, mapper)
    header = [str(name) for name in frame.columns if name != EXTRA]
    named(_NAME, mapping or {}, header)
    if not mapper.score(header):
        raise mapper.unusable([header])
    if len(set(header)) < len(header):
        raise SheetError("the DataFrame has two columns of one name", hint="Rename one of them.")
    _must_be_known(mapper, header)
    meant = {name: mapper.mapping.get(loose(name), "") for name in header}
    grid = Grid(
        tab="",
        header=header,
        header_row=0,
        rows=np.arange(first, first + len(frame), dtype=np.int64),
        columns=[
            _cells(str(name), meant[str(name)], frame[name])
            for name in frame.columns
            if name != EXTRA
        ],
        places=header,
        emptied=_emptied(frame, meant),
    )
    sheet = judged(grid, Origin(_NAME), columns, (statuses, known_statuses))
    return replace(sheet, mapping=present(columns, header))


def _emptied(frame: pd.DataFrame, meant: Mapping[str, str]) -> list[int]:
    """The positions of the rows with an empty text for a category."""
    columns = [frame[name] for name in frame.columns if meant.get(str(name)) == "category"]
    texts = (pair for column in columns for pair in enumerate(column.tolist()))
    return [at for at, text in texts if isinstance(text, str) and text == ""]


def _with_index(frame: pd.DataFrame, mapper: Mapper) -> pd.DataFrame:
    """The frame with the named levels of its index as columns; one that is a column too is left
    out, but for an id that says something else there.
    """
    there = {mapper.mapping.get(loose(str(name)), str(name)): name for name in frame.columns}
    levels = {
        name: frame.index.get_level_values(at)
        for at, name in enumerate(frame.index.names)
        if name is not None and str(name) not in RESULTS
    }
    for name, values in levels.items():
        ours = mapper.mapping.get(loose(str(name)), str(name))
        if ours == "id" and ours in there and not _are_equal(values, frame[there[ours]]):
            raise SheetError(
                f"the DataFrame's index {name!r} and its column {there[ours]!r} hold different ids",
                hint="Drop one of them: reset_index(drop=True) drops the index.",
            )
    new = {
        name: values
        for name, values in levels.items()
        if mapper.mapping.get(loose(str(name)), str(name)) not in there
    }
    if not new:
        return frame
    added = pd.DataFrame({name: values.array for name, values in new.items()})
    return pd.concat([added, frame.reset_index(drop=True)], axis=1)


def _are_equal(values: pd.Index[Any], column: pd.Series[Any] | pd.DataFrame) -> bool:
    return isinstance(column, pd.Series) and list(map(str, values)) == list(map(str, column))


def _must_be_known(mapper: Mapper, header: Sequence[str]) -> None:
    """Raise SheetError where a column of the frame can only be there by mistake."""
    known = {mapper.mapping[key] for name in header if (key := loose(name)) in mapper.mapping}
    unknown = [name for name in header if loose(name) not in mapper.mapping]
    similar = {name: near for name in unknown if (near := mapper.misspelt(name, known))}
    if similar:
        raise SheetError(
            f"the DataFrame has columns that petsync does not know: {_quoted(similar)}",
            hint=". ".join(f"{name!r} may mean {near}" for name, near in similar.items())
            + ". Rename them, map them, or drop them.",
        )
    own = [name for name in unknown if name.removeprefix(OURS) not in RESULTS]
    if known == {"id"} and own:
        meant = [f"{name!r} may mean {near}. " for name in own if (near := mapper.nearest(name))]
        raise SheetError(
            "no column of the DataFrame says anything of a pet but its id; petsync does not know "
            f"{_quoted(own)}",
            hint=f"{''.join(meant)}Rename them, map them, or drop them.",
        )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name[:40]) for name in itertools.islice(names, _LISTED))


def _cells(name: str, ours: str, column: pd.Series[Any]) -> Cells:
    values = [_plain(value) for value in column.tolist()]
    shown = pa.array([_text(name, ours, value) for value in values], pa.large_string())
    if ours == "" or all(value is None or type(value) in (str, list) for value in values):
        return Cells(shown)
    numbers = () if ours in ("id", "category_id") else (int, float, Decimal)
    kinds = np.fromiter((_kind(value, numbers) for value in values), np.int8, len(values))
    return Cells(shown, kinds if kinds.any() else None)


def _plain(value: Any) -> Any:
    """The value as one of Python's own: None where it is missing, a list for an array."""
    if type(value) is str or value is None:
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    elif isinstance(value, np.generic):
        value = value.item()
    return None if _is_missing(value) else value


def _kind(value: Any, numbers: tuple[type, ...]) -> Kind:
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, dt.date):
        return Kind.DATE
    return Kind.NUMBER if isinstance(value, numbers) else Kind.TEXT


def _text(name: str, ours: str, value: Any) -> str:
    """The value as a cell would show it."""
    if type(value) is str:
        if (value == "" and ours in COLUMNS) or (value == CLEARED and ours == "category"):
            return CLEAR
        if ours in _NO_TEXTS:
            return _written(name, value)
        return escaped(_written(name, value), CLEAR)
    if isinstance(value, list):
        return _joined(name, ours, value) if value else CLEAR
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if ours and not isinstance(value, int | float | Decimal | dt.date | UUID):
        raise SheetError(
            f"the DataFrame's column {name} has a {type(value).__name__}: {str(value)[:40]!r}",
            hint="Make it a text; a missing value says nothing.",
        )
    return escaped(_written(name, str(value)), CLEAR)


def _joined(name: str, ours: str, items: Sequence[Any]) -> str:
    """The items as a cell would show them; missing ones say nothing."""
    given = [_item(item) for item in items if isinstance(item, Tag) or not _is_missing(item)]
    kinds = (str,) if ours == "photo_urls" else (str, Tag)
    for item in given:
        if ours and not isinstance(item, kinds):
            raise SheetError(
                f"the DataFrame's column {name} has a list with a {type(item).__name__} in it: "
                f"{str(item)[:40]!r}",
                hint="Its items are texts" + (", or ps.Tag." if Tag in kinds else "."),
            )
    if not given:
        return ""
    if ours == "photo_urls":
        return escaped_list(format_photo_urls, [_written(name, url) for url in given], "\n", CLEAR)
    tags = [item if isinstance(item, Tag) else Tag(None, str(item)) for item in given]
    return _written(name, escaped_list(format_tags, tags, "; ", CLEAR))


def _item(item: Any) -> Any:
    """The item; a Tag for its fields, as a Parquet export has them."""
    if isinstance(item, dict) and item and item.keys() <= {"id", "name"}:
        number, name = item.get("id"), item.get("name")
        return Tag(None if number is None else int(number), name)
    return item


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
