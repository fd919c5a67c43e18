"""Pets as an Arrow table: its schema, and the conversion from JSON, XML, pets and DataFrames.

The columns are those of the DataFrame, plus `tag_ids`. `extra` has the unknown fields of a pet as
JSON text: an object or, if its tags have unknown fields too, a list of two objects. The second one
has the fields of the tags, by the position of the tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from xml.parsers import expat

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from petsync._sync import no_collection
from petsync.models import Pet, Tag
from petsync.protocol import json, xml
from petsync.table.frame import (
    EXTRA,
    frame_from_pets,
    number_column,
    plain_values,
    text_column,
)
from petsync.table.lists import Items, ListArray, with_python_lists

__all__ = [
    "SCHEMA",
    "TAG_IDS",
    "PetTable",
    "frame_from_json",
    "frame_from_table",
    "is_ascending",
    "list_items",
    "rows_from_pets",
    "rows_from_table",
    "sorted_by_id",
    "table_from_frame",
    "table_from_json",
    "table_from_pets",
    "table_from_xml",
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


class PetTable:
    """Pets as an Arrow table or a DataFrame. After the first use of `frame`, this DataFrame
    replaces the table, because a user may change it.
    """

    def __init__(self, table: pa.Table | None = None, frame: pd.DataFrame | None = None) -> None:
        if (table is None) == (frame is None):
            raise TypeError("PetTable takes either a table or a frame")
        self._table, self._frame = table, frame
        self._before: pd.DataFrame | None = None

    @property
    def table(self) -> pa.Table:
        """The pets as a table with SCHEMA. If they are in a DataFrame, each access converts it, and
        the columns that it lacks are null.
        """
        return table_from_frame(self.rows) if self._table is None else self._table

    @property
    def frame(self) -> pd.DataFrame:
        """The pets as a DataFrame with Python lists, which a user may change."""
        rows = self.rows
        if self._before is None:
            self._before = rows.copy()
        self._frame, self._table = with_python_lists(rows), None
        return self._frame

    @property
    def is_edited(self) -> bool:
        """True if `frame` may have been changed since its first use; False if it certainly was
        not.
        """
        if self._before is None or self._frame is None:
            return False
        now, before = self._frame, self._before
        if not (now.index.equals(before.index) and now.columns.equals(before.columns)):
            return True
        return not all(_are_same(now[name].array, column.array) for name, column in before.items())

    @property
    def rows(self) -> pd.DataFrame:
        """The pets as a DataFrame for comparisons, which must not be changed. Before the first use
        of `frame`, a column of lists may be a `ListArray`.
        """
        if self._frame is None:
            self._frame = rows_from_table(self.table)
        return self._frame

    def __len__(self) -> int:
        return len(self.rows if self._table is None else self._table)


def _are_same(now: Any, before: Any) -> bool:
    """Return true if a column certainly has the values of `before`. If `before` has Python objects,
    this is never certain, because a user may have changed the objects themselves.
    """
    if not isinstance(before, ListArray):
        return before.dtype != object and bool(before.equals(now))
    values = now.tolist()
    if not all(each is None or isinstance(each, list) for each in values):
        return False
    try:
        items = Items.of(values, has_ids=before.items.ids is not None)
    except (pa.ArrowException, TypeError):
        return False  # an item is neither a tag nor a text
    is_missing = bool((items.are_missing() != before.isna()).any())
    return not is_missing and not items.differ(before.items).any()


# From JSON, XML and pets.


def table_from_json(body: bytes, *, copies: bool = False) -> pa.Table:
    """Return the table of a JSON list of pets. If an id occurs several times, only the last pet
    with this id becomes a row; with `copies` each pet becomes a row.

    Raises ResponseError if the body is not a list of pets.
    """
    with no_collection():
        table = _read_json(body)
        if table is None:
            table = table_from_pets(json.decode_pets_carefully(body))
    return table if copies else without_duplicates(table)


def table_from_xml(body: bytes, *, copies: bool = False) -> pa.Table:
    """Return the table of an XML list of pets, as `table_from_json` does for JSON."""
    with no_collection():
        table = _read_xml(body)
        if table is None:
            table = table_from_pets(xml.decode_pets(body))
    return table if copies else without_duplicates(table)


def frame_from_json(body: bytes, *, copies: bool = False) -> pd.DataFrame:
    """Return the result of `table_from_json` as a DataFrame."""
    return frame_from_table(table_from_json(body, copies=copies))


def table_from_pets(pets: Iterable[Pet]) -> pa.Table:
    """Return the table of the pets, one row each, in order."""
    return table_from_frame(frame_from_pets(pets))


def without_duplicates(table: pa.Table) -> pa.Table:
    """Return the table without the rows whose id occurs again in a later row. Rows without an id
    are kept.
    """
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


# JSON to Arrow with Arrow's own reader, for lists of pets that have only known fields.


_LABEL = pa.struct([("id", _NUMBER), ("name", pa.string())])
_PET = pa.schema(
    [
        ("id", _NUMBER),
        ("name", pa.string()),
        ("status", pa.string()),
        ("category", _LABEL),
        ("tags", pa.list_(_LABEL)),
        ("photoUrls", pa.list_(pa.string())),
    ]
)
_AT_ONCE = 100_000
"""The number of pets that are read at once."""
_BLOCK_BYTES = 1 << 22


def _read_json(body: bytes) -> pa.Table | None:
    """Return the table of a JSON list of pets. None if Arrow's reader does not suffice, for example
    because a pet has an unknown field.
    """
    parts = json.split_list(body)
    if parts is None:
        return None
    # A line break in JSON is white space between values.
    has_breaks = b"\n" in body or b"\r" in body
    options = ParseOptions(
        explicit_schema=_PET, unexpected_field_behavior="error", newlines_in_values=has_breaks
    )
    tables: list[pa.Table] = []
    while parts:
        part = _read_part(parts[:_AT_ONCE], options)
        if part is None:
            return None
        tables.append(part)
        # Free the memory of these parts before the next table needs some.
        del parts[:_AT_ONCE]
    return _join(tables)


def _read_part(pets: list[msgspec.Raw], options: ParseOptions) -> pa.Table | None:
    lines = b"\n".join(pets)
    if not _are_objects(pets if options.newlines_in_values else lines):
        return None
    try:
        read = read_json(pa.BufferReader(lines), ReadOptions(block_size=_BLOCK_BYTES), options)
        read.validate(full=True)
    except pa.ArrowInvalid:
        return None
    has_nulls = any(
        chunk.values.null_count for name in ("tags", "photoUrls") for chunk in read[name].chunks
    )
    return None if has_nulls or len(read) != len(pets) else _with_schema(read)


def _join(tables: list[pa.Table]) -> pa.Table:
    """Return one table with the rows of all tables. Empties `tables`: to save memory, the parts of
    a column are freed before the next column is joined.
    """
    if not tables:
        return SCHEMA.empty_table()
    columns: list[pa.Array] = []
    by_name = [[chunk for table in tables for chunk in table[name].chunks] for name in SCHEMA.names]
    tables.clear()
    for chunks in by_name:
        columns.append(pa.concat_arrays(chunks))
        chunks.clear()
        pa.default_memory_pool().release_unused()
    return pa.table(columns, schema=SCHEMA)


def _are_objects(pets: bytes | list[msgspec.Raw]) -> bool:
    """Return true if each value, or each line, starts with `{`. Arrow's reader crashes at a
    `null`.
    """
    if isinstance(pets, list):
        return all(memoryview(pet)[0] == ord("{") for pet in pets)
    characters = np.frombuffer(pets, np.uint8)
    starts = np.flatnonzero(characters[:-1] == ord("\n")) + 1
    return pets[:1] == b"{" and bool((characters[starts] == ord("{")).all())


def _with_schema(read: pa.Table) -> pa.Table:
    categories = read["category"]
    columns = {
        **{name: read[name] for name in ("id", "name", "status")},
        "category": pc.struct_field(categories, "name"),
        "category_id": pc.struct_field(categories, "id"),
        "tags": _each_list(read["tags"], "name"),
        TAG_IDS: _each_list(read["tags"], "id"),
        "photo_urls": _each_list(read["photoUrls"]),
        EXTRA: pa.nulls(len(read), _TEXT),
    }
    return pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA)


def _each_list(column: pa.ChunkedArray, field: str = "") -> pa.ChunkedArray:
    """Return the lists, with each item replaced by its `field` if one is given. A missing list
    becomes empty.
    """
    return pa.chunked_array(
        [
            pa.ListArray.from_arrays(
                chunk.offsets, chunk.values.field(field) if field else chunk.values
            )
            for chunk in column.chunks
        ]
    )


# XML to Arrow, for lists of pets whose elements are all known and plain: without attributes,
# namespaces, comments, CDATA and document type.
#
# The parser of the careful decoder checks that the document is well-formed. Then each angle bracket
# must start or end a tag, and NumPy finds the elements of many pets at once.


_XML_BLOCK_BYTES = 1 << 20
_XML_START = re.compile(
    rb"""(?:<\?xml\s+version=["']1\.0["'](?:\s+encoding=["']utf-8["'])?"""
    rb"""(?:\s+standalone=["'](?:yes|no)["'])?\s*\?>)?\s*<(?!html>)[a-z][\w.-]*>\s*(?=<(pet)>)""",
    re.IGNORECASE,
)
_XML_END = re.compile(rb"\s*</[\w.-]+>\s*")
_XML_TAG = re.compile(r"<(/?)(\w+)\s*(/?)>")
_XML_REFERENCE = re.compile("&(?:#x([0-9a-fA-F]+)|#0*([0-9]+)|(lt|gt|amp|quot|apos));")
_XML_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

_KIND_NAMES = [
    ["Pet", "pet"],
    ["id"],
    ["name"],
    ["status"],
    ["category", "Category"],
    ["photoUrls", "photoUrl"],
    ["tags", "tag", "Tag"],
    ["item"],
]
"""The names of each kind of elements. An array and its items can have the same name."""
_PET_KIND, _ID, _NAME, _STATUS, _CATEGORY, _PHOTO, _TAG, _ITEM = range(1, 9)
_XML_KINDS = {name: kind for kind, names in enumerate(_KIND_NAMES, 1) for name in names}
_XML_NAMES = list(_XML_KINDS)


def _path(kind: int, outer: int = 0, inner: int = 0) -> int:
    """Return the number for elements of a kind; for level 2 with the kind of the element around
    them, for level 3 with the kinds of both.
    """
    return kind + (outer << 4) + (inner << 8)


_IS_PATH = np.zeros(1 << 12, bool)
_IS_PATH[[_PET_KIND, _ID, _NAME, _STATUS, _CATEGORY, _PHOTO, _TAG]] = True
_IS_PATH[[_path(_ID, _CATEGORY), _path(_NAME, _CATEGORY), _path(_PHOTO, _PHOTO)]] = True
_IS_PATH[[_path(_TAG, _TAG), _path(_ID, _TAG), _path(_NAME, _TAG)]] = True
_IS_PATH[[_path(_ID, _TAG, _TAG), _path(_NAME, _TAG, _TAG)]] = True


class _UncertainError(Exception):
    """The document needs the careful decoder."""


def _read_xml(body: bytes) -> pa.Table | None:
    """Return the table of an XML list of pets. None if the document needs the careful decoder."""
    start = _XML_START.match(body)
    if start is None:
        return None
    try:
        expat.ParserCreate().Parse(body, True)
        blocks = _split_pets(body, start.end(), b"</%b>" % start[1])
        return _join([_XmlBlock(block).to_table() for block in blocks])
    except (expat.ExpatError, pa.ArrowInvalid, _UncertainError):
        return None


def _split_pets(body: bytes, start: int, closing: bytes) -> Iterator[bytes]:
    """Yield the document from `start` on, in blocks of whole pets."""
    while not _XML_END.fullmatch(body, start):
        end = body.rfind(closing, start, start + _XML_BLOCK_BYTES)
        if end < 0:
            end = body.find(closing, start)
        if end < 0:
            raise _UncertainError
        end += len(closing)
        yield body[start:end].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        start = end


class _XmlBlock:
    """Some pets without the element around them. The arrays have a value for each element, in the
    order of the start tags; the children of a pet have level 1.
    """

    def __init__(self, block: bytes) -> None:
        raw = np.frombuffer(block, np.uint8)
        bounds = np.flatnonzero((raw == ord("<")) | (raw == ord(">")))
        count = len(bounds)
        bounds[1::2] += 1
        # The even pieces are tags, the odd ones the texts after them; the last piece is empty.
        offsets = pa.py_buffer(np.append(bounds, [len(raw), len(raw)]))
        self._pieces = pa.LargeStringArray.from_buffers(count + 1, offsets, pa.py_buffer(block))
        tags = self._pieces.take(pa.array(np.arange(0, count, 2))).dictionary_encode()
        parts = [_split_tag(tag) for tag in tags.dictionary.to_pylist()]
        names, steps = np.array(parts).T[:, tags.indices.to_numpy()]
        starts = np.flatnonzero(steps >= 0)
        self._text = np.where(steps[starts] > 0, 2 * starts + 1, count)
        """The piece with the text of the element."""
        self._name, self._level = names[starts], (np.cumsum(steps) - steps)[starts]
        self._find_paths()

    def _find_paths(self) -> None:
        level, places = self._level, np.arange(len(self._level))
        kinds = np.array([*_XML_KINDS.values()])[self._name]
        outer = np.maximum.accumulate(np.where(level == 1, places, 0))
        inner = np.maximum.accumulate(np.where(level == 2, places, 0))
        is_item = (level == 2) & (kinds == _ITEM)
        kinds[is_item] = kinds[outer[is_item]]
        path = kinds + (kinds[outer] << 4) * (level > 1) + (kinds[inner] << 8) * (level > 2)
        is_pet = level == 0
        if level.max() > 3 or not _IS_PATH[path].all() or (is_pet != (kinds == _PET_KIND)).any():
            raise _UncertainError
        self._outer, self._path = outer, path
        self._pet = np.cumsum(is_pet) - 1
        """The number of the pet."""

    def to_table(self) -> pa.Table:
        """Return the table of the pets. Raises an error if this needs the careful decoder."""
        pet = self._pet
        is_photo, is_tag = self._find_items()
        tag = np.cumsum(is_tag) - 1
        if (np.diff(pet[self._path == _CATEGORY]) == 0).any():
            raise _UncertainError
        tag_names = self._texts(tag, _path(_NAME, _TAG), _path(_NAME, _TAG, _TAG))
        tag_ids = self._texts(tag, _path(_ID, _TAG), _path(_ID, _TAG, _TAG))
        columns = {
            "id": _integers(self._texts(pet, _ID)),
            "name": self._texts(pet, _NAME),
            "status": self._texts(pet, _STATUS),
            "category": self._texts(pet, _path(_NAME, _CATEGORY)),
            "category_id": _integers(self._texts(pet, _path(_ID, _CATEGORY))),
            "tags": self._lists(is_tag, tag_names),
            TAG_IDS: self._lists(is_tag, _integers(tag_ids)),
            "photo_urls": self._lists(is_photo, self._texts_at(pa.array(self._text[is_photo]))),
            EXTRA: pa.nulls(pet[-1] + 1, _TEXT),
        }
        return pa.table(columns, schema=SCHEMA)

    def _find_items(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return a mask of the photo URLs, and one of the tags. Without an element around the items
        of an array, each item looks like an array.
        """
        path, outer = self._path, self._outer
        for array in (_PHOTO, _TAG):
            # The careful decoder reads the items of one name before those of another name.
            if len(np.unique(self._name[path == array])) > 1:
                raise _UncertainError
        is_photo, is_tag = path == _path(_PHOTO, _PHOTO), path == _path(_TAG, _TAG)
        has_child, has_tag = np.zeros((2, len(path)), bool)
        has_child[outer[self._level == 2]] = True
        has_tag[outer[is_tag]] = True
        childless = np.flatnonzero(((path == _PHOTO) | (path == _TAG)) & ~has_child)
        texts = self._texts_at(pa.array(self._text[childless])).to_pylist()
        filled = childless[np.array([bool(text.strip()) for text in texts], bool)]
        tags = outer[(path == _path(_ID, _TAG)) | (path == _path(_NAME, _TAG))]
        if (path[filled] == _TAG).any() or has_tag[tags].any():
            raise _UncertainError
        is_photo[filled] = is_tag[tags] = True
        return is_photo, is_tag

    def _texts(self, owner: npt.NDArray[np.int64], *paths: int) -> pa.Array:
        """Return for each owner the text of its element with one of the paths, or null. `owner` has
        the number of the owner of each element.
        """
        found = np.flatnonzero(np.isin(self._path, paths))
        owners = owner[found]
        if (np.diff(owners) == 0).any():
            raise _UncertainError
        places = np.full(owner[-1] + 1, -1)
        places[owners] = self._text[found]
        return self._texts_at(pa.array(places, mask=places < 0))

    def _texts_at(self, places: pa.Array) -> pa.Array:
        """Return the texts in these pieces, with each reference replaced by its character."""
        texts = self._pieces.take(places)
        has_reference = pc.match_substring(texts, "&")
        some = texts.filter(has_reference).to_pylist()
        if not some:
            return texts
        # XML has no NUL.
        plain = _XML_REFERENCE.sub(_character, "\0".join(some)).split("\0")
        return pc.replace_with_mask(texts, has_reference.fill_null(False), pa.array(plain, _TEXT))

    def _lists(self, is_item: npt.NDArray[np.bool_], items: pa.Array) -> pa.Array:
        ends = np.cumsum(np.bincount(self._pet[is_item], minlength=self._pet[-1] + 1))
        return pa.LargeListArray.from_arrays(pa.array(np.append(0, ends)), items)


def _split_tag(tag: str) -> tuple[int, int]:
    """Return the number of the tag's name, and 1 for a start tag, -1 for an end tag, 0 for both."""
    found = _XML_TAG.fullmatch(tag)
    if found is None or found[2] not in _XML_KINDS:
        raise _UncertainError
    return _XML_NAMES.index(found[2]), -1 if found[1] else 0 if found[3] else 1


def _character(reference: re.Match[str]) -> str:
    if name := reference[3]:
        return _XML_CHARACTERS[name]
    return chr(int(reference[1], 16) if reference[1] else int(reference[2]))


def _integers(texts: pa.Array) -> pa.Array:
    """Return the texts as int64. Raises an error unless each is the usual text of its number."""
    numbers = texts.cast(_NUMBER)
    if not numbers.cast(_TEXT).equals(texts):
        raise _UncertainError
    return numbers


# To a DataFrame and back.


def frame_from_table(table: pa.Table) -> pd.DataFrame:
    """Return the DataFrame of a table: `id` and `category_id` are Int64, the texts `str`, `tags`
    lists of Tag, and `photo_urls` lists of str. If a pet has unknown fields, the column `extra` has
    a dict for each pet with such fields, else None.
    """
    with no_collection():
        return with_python_lists(rows_from_table(table))


def rows_from_table(table: pa.Table) -> pd.DataFrame:
    """Return the DataFrame of `frame_from_table`, but with a `ListArray` for each column of lists.
    If a pet has unknown fields, `tags` still has Python lists.
    """
    with no_collection():
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
            columns["tags"] = columns["tags"].objects
            extra = _split_extra(texts, columns["tags"])
            if any(extra):
                columns[EXTRA] = pd.Series(extra, dtype=object)
        return pd.DataFrame(columns, copy=False)


def rows_from_pets(pets: Iterable[Pet]) -> pd.DataFrame:
    """Return the DataFrame of the pets, in the form of `rows_from_table`."""
    return rows_from_table(table_from_pets(pets))


def table_from_frame(frame: pd.DataFrame) -> pa.Table:
    """Return the table of a DataFrame with canonical columns. A missing column becomes null. A tag
    may be a Tag or a name.
    """
    with no_collection():
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
    values = [
        list(each) if isinstance(each, list | tuple | np.ndarray) else None for each in column
    ]
    return Items.of(values, has_ids=name == "tags"), values


def _tag_extra(tags: Sequence[Tag | str]) -> dict[str, Any]:
    """Return the unknown fields of the tags that have some, by position."""
    return {
        str(place): tag.extra
        for place, tag in enumerate(tags)
        if isinstance(tag, Tag) and tag.extra is not None
    }


def _extra_texts(frame: pd.DataFrame, tags: list[Any]) -> list[str | None]:
    """Return, as JSON, the unknown fields of each row and of its tags; None if there are none."""
    values = plain_values(frame[EXTRA].array) if EXTRA in frame else [None] * len(frame)
    fields: list[Any] = [each if isinstance(each, dict) else None for each in values]
    of_tags = [_tag_extra(each) if each else {} for each in tags]
    if any(of_tags):
        fields = [
            [each or {}, more] if more else each for each, more in zip(fields, of_tags, strict=True)
        ]
    return [msgspec.json.encode(each).decode() if each else None for each in fields]
