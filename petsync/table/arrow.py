"""Pets as an Arrow table: its schema, and the conversion from JSON, XML, pets and DataFrames.

The columns are those of the DataFrame, plus `tag_ids`. `extra` has the unknown fields of a pet as
JSON text: an object or, if its tags have unknown fields too, a list of two objects. The second one
has the fields of the tags, by the position of the tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy, deepcopy
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from petsync._collector import pause_collection
from petsync.errors import SettingsError
from petsync.models import Pet, Tag, TagName
from petsync.table.columns import COLUMNS, KIND_OF
from petsync.table.dtypes import TEXT, as_texts, text_column
from petsync.table.frame import (
    EXTRA,
    decode_fields,
    frame_from_pets,
    number_column,
    plain_values,
)
from petsync.table.lists import Items, ListArray, as_items, with_python_lists

__all__ = [
    "SCHEMA",
    "TAG_IDS",
    "ArrowTable",
    "PetTable",
    "are_same",
    "frame_from_table",
    "is_ascending",
    "list_items",
    "rows_from_pets",
    "rows_from_table",
    "sorted_by_id",
    "table_from_frame",
    "table_from_pets",
    "without_duplicates",
]

TAG_IDS = "tag_ids"
_TEXT = pa.large_string()
_NUMBER = pa.int64()
SCHEMA = pa.schema(
    [
        ("id", _NUMBER),
        ("name", _TEXT),
        ("status", _TEXT),
        ("category", _TEXT),
        ("category_id", _NUMBER),
        ("tags", pa.large_list(_TEXT)),
        (TAG_IDS, pa.large_list(_NUMBER)),
        ("photo_urls", pa.large_list(_TEXT)),
        (EXTRA, _TEXT),
    ]
)
"""The schema of a table of pets. A tag without a name has a null in `tags`, and a tag without an id
has a null in `tag_ids`.
"""

_TEXT_COLUMNS = tuple(name for name, kind in KIND_OF.items() if kind == "text")
_COLUMNS = pd.Index(COLUMNS)
"""The names of the columns of `rows_from_table`. As these DataFrames share them, pandas prepares
the search for a name only once.
"""


@runtime_checkable
class ArrowStream(Protocol):
    """A table whose pieces have the Arrow PyCapsule interface, such as a DataFrame of polars or a
    Table of pyarrow. A DataFrame of pandas has it, too.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object:
        """Return the capsule of the table's stream."""


@runtime_checkable
class ArrowArray(Protocol):
    """A record batch with the Arrow PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> tuple[object, object]:
        """Return the capsules of the schema and of the array."""


ArrowTable = ArrowStream | ArrowArray
"""A table with the Arrow PyCapsule interface, in one piece or in several."""


class PetTable:
    """Pets as an Arrow table or a DataFrame. A user may change `frame`; this changes nothing
    else.
    """

    def __init__(self, table: pa.Table | None = None, frame: pd.DataFrame | None = None) -> None:
        if (table is None) == (frame is None):
            raise TypeError("PetTable takes either a table or a frame")
        self._table = table
        # pandas 2 makes objects of the texts that a caller assigns.
        self._rows = None if frame is None else as_texts(frame, _TEXT_COLUMNS)
        self._frame: pd.DataFrame | None = None

    @property
    def table(self) -> pa.Table:
        """The pets as a table with SCHEMA. If they are in a DataFrame, each access converts it, and
        the columns that it lacks are null.
        """
        return table_from_frame(self.rows) if self._table is None else self._table

    @property
    def frame(self) -> pd.DataFrame:
        """A DataFrame of the pets with Python lists, which a user may change."""
        if self._frame is None:
            own = self.rows.copy() if self._table is None else rows_from_table(self._table)
            if EXTRA in own and self._table is None:
                own[EXTRA] = pd.Series(deepcopy([*own[EXTRA]]), own.index, dtype=object)
            self._frame = with_python_lists(own)
        return self._frame

    def with_frame(self, frame: pd.DataFrame) -> PetTable:
        """Return the same pets with a changed `frame`."""
        changed = copy(self)
        changed._frame = frame.copy()
        return changed

    @property
    def is_edited(self) -> bool:
        """True if a user has changed `frame`."""
        if self._frame is None:
            return False
        now, before = self._frame, self.rows
        if not (now.index.equals(before.index) and now.columns.equals(before.columns)):
            return True
        return not all(are_same(now[name].array, column.array) for name, column in before.items())

    @property
    def rows(self) -> pd.DataFrame:
        """The pets as a DataFrame for comparisons, which must not be changed. A column of lists may
        be a `ListArray`.
        """
        if self._rows is None:
            self._rows = rows_from_table(self.table)
        return self._rows

    def __len__(self) -> int:
        return len(self.rows if self._table is None else self._table)


def are_same(now: Any, before: Any) -> bool:
    """Return true if a user's column has the values of the column `before`."""
    if not isinstance(before, ListArray):
        # pandas 2 makes objects of texts.
        are_objects = isinstance(now, pd.arrays.NumpyExtensionArray) and before.dtype == TEXT
        if not isinstance(before, pd.arrays.NumpyExtensionArray) and not are_objects:
            return bool(before.equals(now))
        try:
            return plain_values(now) == plain_values(before)
        except (TypeError, ValueError):  # a value cannot be compared, for example an array
            return False
    values = now.tolist()
    if not all(each is None or isinstance(each, list) for each in values):
        return False
    try:
        items = Items.of(values, has_ids=before.items.ids is not None)
    except (pa.ArrowException, TypeError, AttributeError, SettingsError):
        return False  # an item is neither a tag nor a text
    is_missing = bool((items.are_missing() != before.isna()).any())
    return not is_missing and not items.differ(before.items).any()


def table_from_pets(pets: Iterable[Pet]) -> pa.Table:
    """Return the table of the pets, one row each, in order."""
    return table_from_frame(frame_from_pets(pets))


def without_duplicates(table: pa.Table) -> pa.Table:
    """Return the table without the rows whose id occurs again in a later row. Rows without an id
    are kept.
    """
    if not table["id"].null_count and is_ascending(table):
        return table
    ids = number_column(table["id"])
    repeated = ids.duplicated(keep="last") & ~ids.isna()
    return table.filter(pa.array(~repeated)) if repeated.any() else table


def is_ascending(table: pa.Table) -> bool:
    """Return true if each id is greater than the id before it."""
    ids = table["id"].to_numpy()
    return bool((ids[1:] > ids[:-1]).all())


def sorted_by_id(table: pa.Table) -> pa.Table:
    """Return the table sorted by id."""
    return table if is_ascending(table) else table.sort_by("id")


# To a DataFrame and back.


def frame_from_table(table: pa.Table) -> pd.DataFrame:
    """Return the DataFrame of a table: `id` and `category_id` are Int64, the texts `str`, `tags`
    lists of TagName, and `photo_urls` lists of str. If a pet has unknown fields, the column `extra`
    has a dict for each pet with such fields, else None.
    """
    with pause_collection():
        return with_python_lists(rows_from_table(table))


def rows_from_table(table: pa.Table) -> pd.DataFrame:
    """Return the DataFrame of `frame_from_table`, but with a `ListArray` for each column of lists.
    If a pet has unknown fields, `tags` still has Python lists.
    """
    with pause_collection():
        texts = [] if _is_null(table[EXTRA]) else table[EXTRA].to_pylist()
        columns: dict[str, Any] = {
            "id": number_column(table["id"]),
            "name": text_column(table["name"]),
            "status": text_column(table["status"]),
            "category": text_column(table["category"]),
            "category_id": number_column(table["category_id"]),
            "tags": ListArray(Items(_whole(table["tags"]), _whole(table[TAG_IDS]))),
            "photo_urls": ListArray(Items(_whole(table["photo_urls"]))),
        }
        if texts:
            columns["tags"] = columns["tags"].objects.copy()
            extra = _split_extra(texts, columns["tags"])
            if any(extra):
                columns[EXTRA] = pd.Series(extra, dtype=object)
        frame = pd.DataFrame(columns, copy=False)
        if EXTRA not in columns:
            frame.columns = _COLUMNS.view()
        return frame


def rows_from_pets(pets: Iterable[Pet]) -> pd.DataFrame:
    """Return the DataFrame of the pets, in the form of `rows_from_table`."""
    return rows_from_table(table_from_pets(pets))


def table_from_frame(frame: pd.DataFrame) -> pa.Table:
    """Return the table of a DataFrame with canonical columns. A missing column becomes null. A tag
    may be a TagName, a Tag or a text.
    """
    with pause_collection():
        columns = {
            name: pa.array(frame[name].array, SCHEMA.field(name).type, from_pandas=True)
            for name in ("id", "name", "status", "category", "category_id")
            if name in frame
        }
        items, tags = list_items(frame, "tags")
        if items is not None:
            columns["tags"], columns[TAG_IDS] = items.names, items.ids
        items, _ = list_items(frame, "photo_urls")
        if items is not None:
            columns["photo_urls"] = items.names
        columns[EXTRA] = pa.array(_extra_texts(frame, tags), _TEXT)
        missing = {name: pa.nulls(len(frame), SCHEMA.field(name).type) for name in SCHEMA.names}
        return pa.table({**missing, **columns}, schema=SCHEMA)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_null(column: pa.ChunkedArray) -> bool:
    is_null: bool = column.null_count == len(column)
    return is_null


def _split_extra(
    texts: list[str | None], tags: npt.NDArray[np.object_]
) -> list[dict[str, Any] | None]:
    """Return the unknown fields of each pet. Tags with unknown fields are replaced in `tags`."""
    extra: list[dict[str, Any] | None] = []
    for place, text in enumerate(texts):
        fields = text and msgspec.json.decode(text)
        # A list has the fields of the pet and, by position, the fields of its tags.
        fields, of_tags = fields if isinstance(fields, list) else (fields, {})
        for position, more in of_tags.items():
            tag = tags[place][int(position)]
            tags[place][int(position)] = Tag(tag.id, tag.name, more)
        extra.append(fields or None)
    return extra


def list_items(frame: pd.DataFrame, name: str) -> tuple[Items | None, list[Any]]:
    """Return the items of a column, None if the frame lacks the column; and the column's values if
    they are Python lists.
    """
    if name not in frame:
        return None, []
    column = frame[name].array
    if isinstance(column, ListArray):
        return column.items, []
    values = [*map(as_items, column)]
    return Items.of(values, has_ids=name == "tags"), values


def _tag_extra(tags: Sequence[Tag | str]) -> dict[str, Any]:
    """Return the unknown fields of the tags that have some, by position."""
    return {
        str(place): tag.extra
        for place, tag in enumerate(tags)
        if isinstance(tag, Tag | TagName) and tag.extra is not None
    }


def _extra_texts(frame: pd.DataFrame, tags: list[Any]) -> list[str | None]:
    """Return, as JSON, the unknown fields of each row and of its tags; None if there are none."""
    values = plain_values(frame[EXTRA].array) if EXTRA in frame else [None] * len(frame)
    fields: list[Any] = [decode_fields(each) for each in values]
    of_tags = [_tag_extra(each) if each else {} for each in tags]
    if any(of_tags):
        fields = [
            [each or {}, more] if more else each for each, more in zip(fields, of_tags, strict=True)
        ]
    return [msgspec.json.encode(each).decode() if each else None for each in fields]
