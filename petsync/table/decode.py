"""Lists of pets in JSON or XML as Arrow tables.

The usual lists become columns without a Python object for each pet. The careful decoders of
`petsync.protocol` read all others, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, Protocol
from xml.parsers import expat

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from petsync._collector import pause_collection
from petsync.errors import ResponseError
from petsync.protocol import json, xml
from petsync.table.arrow import (
    SCHEMA,
    TAG_IDS,
    frame_from_table,
    table_from_pets,
    without_duplicates,
)
from petsync.table.buffers import TableWriter
from petsync.table.frame import EXTRA

__all__ = ["ListReader", "TableTarget", "frame_from_json", "table_from_json", "table_from_xml"]

_TEXT = pa.large_string()
_NUMBER = pa.int64()
_AT_ONCE = 1 << 21
"""The number of bytes of JSON that are decoded together."""
_AT_ONCE_OF_SOME = 1 << 16
"""The same for a list of which only some pets are needed."""


def table_from_json(body: bytes, *, copies: bool = False) -> pa.Table:
    """Return the table of a JSON list of pets. If an id occurs several times, only the last pet
    with this id becomes a row; with `copies` each pet becomes a row.

    Raises ResponseError if the body is not a list of pets.
    """
    target = TableWriter(SCHEMA)
    reader = ListReader(lambda _: "json", target)
    for start in range(0, len(body), _AT_ONCE):
        reader.write(body[start : start + _AT_ONCE])
    reader.finish()
    table = target.to_table()
    return table if copies else without_duplicates(table)


def table_from_xml(body: bytes, *, copies: bool = False) -> pa.Table:
    """Return the table of an XML list of pets, as `table_from_json` does for JSON."""
    with pause_collection():
        table = _read_xml(body)
        if table is None:
            table = table_from_pets(xml.decode_pets(body))
    return table if copies else without_duplicates(table)


def frame_from_json(body: bytes, *, copies: bool = False) -> pd.DataFrame:
    """Return the result of `table_from_json` as a DataFrame."""
    return frame_from_table(table_from_json(body, copies=copies))


class TableTarget(Protocol):
    """Takes the rows of tables."""

    def write(self, table: pa.Table, /) -> object:
        """Take the rows of a table with the columns of SCHEMA. Its texts and lists may have offsets
        of 32 bits.
        """
        ...


class ListReader:
    """Reads a list of pets while it arrives. A long JSON list is decoded in blocks of whole pets,
    so that it is never in memory as a whole; a list in XML is decoded at the end.

    `find_media` returns the format of the list. It gets the beginning of the list, and may raise
    ResponseError. `target` takes the pets, with all copies of a pet. With `most`, the reader is
    full, and takes nothing more, once a list in JSON has more pets than this.
    """

    def __init__(
        self,
        find_media: Callable[[bytes], Literal["json", "xml"]],
        target: TableTarget,
        most: int | None = None,
    ) -> None:
        self._find_media, self._target, self._most = find_media, target, most
        self._pieces: list[bytes] = []
        self._at_once = _AT_ONCE if most is None else _AT_ONCE_OF_SOME
        self._size, self._least = 0, self._at_once
        self._media: Literal["json", "xml", ""] = ""
        self._pets, self._offset = 0, 0
        self._failure: ResponseError | None = None

    @property
    def is_full(self) -> bool:
        """True if the list has more pets than are needed."""
        return self._most is not None and self._pets > self._most

    def write(self, piece: bytes) -> None:
        """Take the next piece of the list. Errors are raised by `finish`."""
        if self._failure is not None or self.is_full:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= self._least and self._media != "xml":
            try:
                self._read_block()
            except ResponseError as error:
                self._failure = error.with_traceback(None)
                self._pieces.clear()

    def finish(self) -> None:
        """Decode the remaining pets of the list, unless the reader is full. Raises ResponseError if
        the pieces are not a list of pets.
        """
        if self._failure is not None:
            raise self._failure
        if self.is_full:
            return
        rest = b"".join(self._pieces)
        self._pieces.clear()
        is_xml = self._get_media(rest) == "xml"
        self._target.write(table_from_xml(rest, copies=True) if is_xml else self._read_pets(rest))

    def _get_media(self, start: bytes) -> Literal["json", "xml"]:
        self._media = self._media or self._find_media(start)
        return self._media

    def _read_block(self) -> None:
        """Decode all whole pets that have arrived, except the last one."""
        body = b"".join(self._pieces)
        self._pieces[:] = [body]
        if self._get_media(body) == "xml":
            return
        for end, start in _find_ends(body):
            block = body[:end] + b"]"
            if (pets := json.split_list(block)) is not None:
                self._target.write(self._read_pets(block, pets))
                self._pets += len(pets)
                self._offset += start - 1
                self._pieces[:] = [b"[", body[start:]]
                self._size, self._least = len(body) - start, self._at_once
                return
        self._least = 2 * self._size

    def _read_pets(self, body: bytes, pets: list[msgspec.Raw] | None = None) -> pa.Table:
        """Return the table of a list of pets, with all copies of a pet."""
        with pause_collection():
            table = _read_json(body, json.split_list(body) if pets is None else pets)
            if table is None:
                careful = json.decode_pets_carefully(body, before=self._pets, offset=self._offset)
                table = table_from_pets(careful)
        return table


_TAILS = (1 << 12, 1 << 16, 1 << 20)
_JSON_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|(\})\s*,\s*(?=\{)|[{}\[\]]', re.DOTALL)
_OPEN_TEXT = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def _find_ends(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield positions in an incomplete list where a pet probably ends, each with the start of the
    next pet.

    Only the end of the body is read, so it is unknown whether this part starts within a text. After
    a wrong guess, the body up to the position is not a list of whole values.
    """
    for size in _TAILS:
        tail = body[-size:]
        text = _OPEN_TEXT.match(tail)
        for start in (0, text.end() if text else 0):
            found = _find_end(tail, start)
            if found is not None:
                before = len(body) - len(tail)
                yield before + found[0], before + found[1]


def _find_end(tail: bytes, start: int) -> tuple[int, int] | None:
    """Return the last position between two objects that have the fewest brackets around them, and
    the start of the second one.
    """
    depth = least = 0
    found: tuple[int, int] | None = None
    for token in _JSON_TOKEN.finditer(tail, start):
        character = tail[token.start()]
        if character in b"{[":
            depth += 1
        elif character in b"}]":
            depth -= 1
            if depth < least:
                least, found = depth, None
            if depth == least and token[1]:
                found = token.end(1), token.end()
    return found


# JSON to Arrow with Arrow's reader, for lists of pets that have only known fields.


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
_BLOCK_BYTES = 1 << 19


def _read_json(body: bytes, pets: list[msgspec.Raw] | None) -> pa.Table | None:
    """Return the table of a JSON list with these values. None if Arrow's reader does not suffice,
    for example because a pet has an unknown field.
    """
    if pets is None:
        return None
    if not pets:
        return SCHEMA.empty_table()
    # A line break in JSON is white space between values.
    has_breaks = b"\n" in body or b"\r" in body
    options = ParseOptions(
        explicit_schema=_PET, unexpected_field_behavior="error", newlines_in_values=has_breaks
    )
    lines = b"\n".join(pets)
    if not _are_objects(pets if has_breaks else lines):
        return None
    try:
        reading = ReadOptions(block_size=_BLOCK_BYTES)
        read = read_json(pa.BufferReader(lines), reading, options)
        read.validate(full=True)
    except pa.ArrowInvalid:
        return None
    has_nulls = any(
        chunk.values.null_count for name in ("tags", "photoUrls") for chunk in read[name].chunks
    )
    return None if has_nulls or len(read) != len(pets) else _pet_columns(read)


def _are_objects(pets: bytes | list[msgspec.Raw]) -> bool:
    """Return true if each value, or each line, starts with `{`. Arrow's reader crashes at a
    `null`.
    """
    if isinstance(pets, list):
        return all(memoryview(pet)[0] == ord("{") for pet in pets)
    characters = np.frombuffer(pets, np.uint8)
    starts = np.flatnonzero(characters[:-1] == ord("\n")) + 1
    return pets[:1] == b"{" and bool((characters[starts] == ord("{")).all())


def _pet_columns(read: pa.Table) -> pa.Table:
    """Return a table with the columns of SCHEMA. Its texts and lists have offsets of 32 bits."""
    categories = read["category"]
    columns = {
        **{name: read[name] for name in ("id", "name", "status")},
        "category": pc.struct_field(categories, "name"),
        "category_id": pc.struct_field(categories, "id"),
        "tags": _each_list(read["tags"], "name"),
        TAG_IDS: _each_list(read["tags"], "id"),
        "photo_urls": _each_list(read["photoUrls"]),
        EXTRA: pa.nulls(len(read), pa.string()),
    }
    return pa.table({name: columns[name] for name in SCHEMA.names})


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
# must start or end a tag, and NumPy finds the elements of many pets together.


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
        table = TableWriter(SCHEMA)
        for block in blocks:
            table.write(_XmlBlock(block).to_table())
        return table.to_table()
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
