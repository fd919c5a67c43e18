"""Pets as an Arrow table: its schema, and the ways from JSON, pets and a DataFrame and back.

The columns are those of the DataFrame, with the ids of the tags in a column of their own, as
`category_id` is beside `category`. `extra` has the unknown fields of a pet as JSON text: an object,
or, if its tags have unknown fields too, a list of this object and of an object with the fields of
the tags by their positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.models import Pet, Tag
from petsync.protocol import json
from petsync.table.frame import (
    EXTRA,
    FEW,
    frame_from_pets,
    no_collection,
    number_column,
    plain_values,
    shared_tag,
    text_column,
)

__all__ = [
    "SCHEMA",
    "TAG_IDS",
    "PetTable",
    "frame_from_json",
    "frame_from_table",
    "sorted_by_id",
    "table_from_frame",
    "table_from_json",
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
"""The schema of a table of pets. Only the items of `tags` and `tag_ids` may be null: a tag may lack
its name or its id.
"""
_Lists = pa.LargeListArray


class PetTable:
    """Pets as an Arrow table or, from its first use on, as a DataFrame, which a user may change."""

    def __init__(self, table: pa.Table | None = None, frame: pd.DataFrame | None = None) -> None:
        if (table is None) == (frame is None):
            raise TypeError("PetTable takes either a table or a frame")
        self._table, self._frame = table, frame

    @property
    def table(self) -> pa.Table:
        """The pets in the columns of SCHEMA; once `frame` has been used, each access converts it. A
        column that the frame lacks is null.
        """
        return table_from_frame(self.frame) if self._table is None else self._table

    @property
    def frame(self) -> pd.DataFrame:
        """The pets in the canonical columns, and `extra` if a pet has unknown fields."""
        if self._frame is None:
            self._frame, self._table = frame_from_table(self.table), None
        return self._frame

    def __len__(self) -> int:
        return len(self.frame if self._table is None else self._table)


# From JSON and pets.


def table_from_json(body: bytes, *, copies: bool = False) -> pa.Table:
    """Return the table of a JSON list of pets. A pet that occurs several times becomes one row,
    from its last occurrence; with `copies` each occurrence becomes a row.

    Raises a ResponseError that names the first pet that cannot be read.
    """
    with no_collection():
        parts = json.map_rows(body, _arrays)
        table = table_from_pets(json.decode_pets_carefully(body)) if parts is None else _join(parts)
    return table if copies else without_duplicates(table)


def frame_from_json(body: bytes, *, copies: bool = False) -> pd.DataFrame:
    """Return the result of `table_from_json` as a DataFrame."""
    return frame_from_table(table_from_json(body, copies=copies))


def table_from_pets(pets: Iterable[Pet]) -> pa.Table:
    """Return the table of the pets, one row each, in order."""
    return table_from_frame(frame_from_pets(pets))


def without_duplicates(table: pa.Table) -> pa.Table:
    """Return the table with one row for each id, the last one; all rows without an id are kept."""
    ids = number_column(table["id"])
    repeated = ids.duplicated(keep="last") & ~ids.isna()
    return table.filter(pa.array(~repeated)) if repeated.any() else table


def sorted_by_id(table: pa.Table) -> pa.Table:
    """Return the table sorted by id; the table itself if its ids are ascending already."""
    ids = table["id"].to_numpy()
    return table if (ids[1:] >= ids[:-1]).all() else table.sort_by("id")


def _arrays(pets: list[json.PetRow]) -> list[pa.Array]:
    """Return the columns of SCHEMA without `extra`."""
    tags = [pet.tags for pet in pets]
    flat = [*chain.from_iterable(tags)]
    places = _offsets(tags)
    urls = [pet.photo_urls for pet in pets]
    categories = [pet.category for pet in pets]
    return [
        pa.array([pet.id for pet in pets], _NUMBER),
        pa.array([pet.name for pet in pets], _TEXT),
        pa.array([pet.status for pet in pets], _TEXT),
        pa.array([each.name if each else None for each in categories], _TEXT),
        pa.array([each.id if each else None for each in categories], _NUMBER),
        _Lists.from_arrays(places, pa.array([tag.name for tag in flat], _TEXT)),
        _Lists.from_arrays(places, pa.array([tag.id for tag in flat], _NUMBER)),
        _Lists.from_arrays(_offsets(urls), pa.array([*chain.from_iterable(urls)], _TEXT)),
    ]


def _offsets(lists: Sequence[Sequence[object]]) -> pa.Array:
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), out=offsets[1:])
    return pa.array(offsets)


def _join(parts: list[list[pa.Array]]) -> pa.Table:
    """Return the table of the parts' columns. Each column's parts are freed when it is made."""
    if not parts:
        return SCHEMA.empty_table()
    columns: list[pa.Array] = []
    by_column = [list(column) for column in zip(*parts, strict=True)]
    parts.clear()
    for column in by_column:
        columns.append(pa.concat_arrays(column))
        column.clear()
    columns.append(pa.nulls(len(columns[0]), _TEXT))
    return pa.table(columns, schema=SCHEMA)


# To a DataFrame and back.


def frame_from_table(table: pa.Table) -> pd.DataFrame:
    """Return the DataFrame of a table: `id` and `category_id` Int64, the texts `str`, without a
    copy of the text; `tags` lists of Tag and `photo_urls` lists of text. If a pet has unknown
    fields, the column `extra` has them as dicts, None elsewhere.
    """
    with no_collection():
        texts = [] if _is_null(table[EXTRA]) else table[EXTRA].to_pylist()
        columns: dict[str, Any] = {
            "id": number_column(table["id"]),
            "name": text_column(table["name"]),
            "status": text_column(table["status"]),
            "category": text_column(table["category"]),
            "category_id": number_column(table["category_id"]),
            "tags": _objects(_tag_lists(table["tags"], table[TAG_IDS])),
            "photo_urls": _objects(_split(table["photo_urls"], _items(table["photo_urls"]))),
        }
        extra = _split_extra(texts, columns["tags"])
        if any(extra):
            columns[EXTRA] = pd.Series(extra, dtype=object)
        return pd.DataFrame(columns, copy=False)


def table_from_frame(frame: pd.DataFrame) -> pa.Table:
    """Return the table of a DataFrame with canonical columns. A column that it lacks is null. A tag
    can be a Tag or a name.
    """
    with no_collection():
        columns = {
            name: pa.array(frame[name].array, SCHEMA.field(name).type, from_pandas=True)
            for name in ("id", "name", "status", "category", "category_id")
            if name in frame
        }
        tags = _list_values(frame, "tags")
        if tags is not None:
            columns["tags"] = _lists(tags, _tag_name, _TEXT)
            columns[TAG_IDS] = _lists(tags, _tag_id, _NUMBER)
        urls = _list_values(frame, "photo_urls")
        if urls is not None:
            columns["photo_urls"] = _lists(urls, lambda url: url, _TEXT)
        columns[EXTRA] = pa.array(_extra_texts(frame, tags), _TEXT)
        missing = {name: pa.nulls(len(frame), SCHEMA.field(name).type) for name in SCHEMA.names}
        return pa.table({**missing, **columns}, schema=SCHEMA)


def _is_null(column: pa.ChunkedArray) -> bool:
    is_null: bool = column.null_count == len(column)
    return is_null


def _items(column: pa.ChunkedArray) -> list[Any]:
    """Return the items of all lists, in order."""
    items: list[Any] = pc.list_flatten(column).to_pylist()
    return items


def _split(column: pa.ChunkedArray, items: list[Any]) -> list[list[Any] | None]:
    """Return the items as lists of the lengths in the column, None for a missing list."""
    lengths = pc.list_value_length(column)
    ends = np.cumsum(np.array(lengths.fill_null(0))).tolist()
    lists: list[list[Any] | None] = [
        items[start:end] for start, end in zip([0, *ends], ends, strict=False)
    ]
    if lengths.null_count:
        for place in np.flatnonzero(np.array(lengths.is_null())).tolist():
            lists[place] = None
    return lists


def _tag_lists(names: pa.ChunkedArray, ids: pa.ChunkedArray) -> list[list[Tag] | None]:
    """Return the tags of each pet. Equal tags are one object."""
    flat_names, flat_ids = pc.list_flatten(names), pc.list_flatten(ids)
    if len(flat_names) <= FEW:
        pairs = zip(flat_ids.to_pylist(), flat_names.to_pylist(), strict=True)
        return _split(names, [shared_tag(Tag(*pair)) for pair in pairs])
    coded_names, coded_ids = _encode(flat_names), _encode(flat_ids)
    kinds = len(coded_ids.dictionary) + 1
    codes = _codes(coded_names) * kinds + _codes(coded_ids)
    places, kinds_of_tags = pd.factorize(codes)
    known_names, known_ids = coded_names.dictionary.to_pylist(), coded_ids.dictionary.to_pylist()
    known_names.append(None)
    known_ids.append(None)
    tags = np.empty(len(kinds_of_tags), dtype=object)
    for place, code in enumerate(kinds_of_tags.tolist()):
        name, number = divmod(code, kinds)
        tags[place] = shared_tag(Tag(known_ids[number], known_names[name]))
    return _split(names, tags[places].tolist())


def _encode(column: pa.ChunkedArray) -> pa.DictionaryArray:
    return column.combine_chunks().dictionary_encode()


def _codes(encoded: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """Return the positions in the dictionary; its length for a missing value."""
    return np.array(encoded.indices.cast(pa.int64()).fill_null(len(encoded.dictionary)))


def _objects(values: list[Any]) -> npt.NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _split_extra(
    texts: list[str | None], lists: npt.NDArray[np.object_]
) -> list[dict[str, Any] | None]:
    """Return the unknown fields of each pet, and give the tags in `lists` theirs."""
    extra: list[dict[str, Any] | None] = []
    for place, text in enumerate(texts):
        fields = text and msgspec.json.decode(text)
        # A list has the pet's fields and, by position, those of its tags.
        fields, of_tags = fields if isinstance(fields, list) else (fields, {})
        for position, more in of_tags.items():
            tag = lists[place][int(position)]
            lists[place][int(position)] = Tag(tag.id, tag.name, more)
        extra.append(fields or None)
    return extra


def _list_values(frame: pd.DataFrame, name: str) -> list[Any] | None:
    """Return the lists in a column, None for a missing one; None without the column."""
    if name not in frame:
        return None
    return [
        list(each) if isinstance(each, list | tuple | np.ndarray) else None
        for each in frame[name].array
    ]


def _lists(values: list[Any], convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    offsets = _offsets([each or () for each in values])
    items = pa.array([convert(item) for each in values if each for item in each], kind)
    lists = _Lists.from_arrays(offsets, items)
    if None not in values:
        return lists
    is_missing = pa.array([each is None for each in values])
    return _Lists.from_arrays(offsets, items, mask=is_missing)


def _tag_name(tag: Tag | str | None) -> str | None:
    return tag.name if isinstance(tag, Tag) else tag


def _tag_id(tag: Tag | str | None) -> int | None:
    return tag.id if isinstance(tag, Tag) else None


def _tag_extra(tags: Sequence[Tag | str]) -> dict[str, Any]:
    """Return the unknown fields of the tags by position, without tags that have none."""
    return {
        str(place): tag.extra
        for place, tag in enumerate(tags)
        if isinstance(tag, Tag) and tag.extra is not None
    }


def _extra_texts(frame: pd.DataFrame, tags: list[Any] | None) -> list[str | None]:
    """Return the unknown fields of each row, with those of its tags, as JSON; None for none."""
    values = plain_values(frame[EXTRA].array) if EXTRA in frame else [None] * len(frame)
    fields: list[Any] = [each if isinstance(each, dict) else None for each in values]
    of_tags = [_tag_extra(each) if each else {} for each in tags or ()]
    if any(of_tags):
        fields = [
            [each or {}, more] if more else each for each, more in zip(fields, of_tags, strict=True)
        ]
    return [msgspec.json.encode(each).decode() if each else None for each in fields]
