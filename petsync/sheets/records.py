"""Read records (JSON, JSON Lines, Parquet) as a DataFrame with the number of each row."""

from __future__ import annotations

import codecs
import datetime as dt
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import is_list_like, is_object_dtype

from petsync._display import count, type_name
from petsync._json import decoder_of
from petsync.errors import SettingsError, SheetError
from petsync.models import Pet, Tag, TagName
from petsync.sheets.files import MAX_LINE, MAX_SIZE, PARQUET, Source
from petsync.sheets.grid import Fault
from petsync.sheets.headers import fold_header
from petsync.table.arrow import TAG_IDS, ArrowTable, frame_from_table, table_from_frame
from petsync.table.cells import CellError, parse_id
from petsync.table.columns import COLUMNS, LISTS
from petsync.table.frame import EXTRA, decode_tag_fields, is_missing, list_values
from petsync.table.frame import pets_from_frame as pets_of_frame
from petsync.table.lists import as_items, lists_of
from petsync.table.sheet import RowLabels, cell_address

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = [
    "CATEGORY_ID",
    "Records",
    "add_tag_ids",
    "frame_of_stream",
    "frame_of_table",
    "iter_objects",
    "pets_from_frame",
    "read_records",
    "suggest_collect",
    "take_values",
    "with_flat_category",
    "with_index_columns",
    "with_tag_ids",
]


T = TypeVar("T")


class Records(NamedTuple):
    """Rows with values instead of the texts of cells."""

    frame: pd.DataFrame
    numbers: npt.NDArray[np.int64]
    """The number of each row: of a list, its position from 1; of JSON Lines, its line."""


_BRACKET = b"["
_OBJECTS = "Write a list of objects, with the columns as keys."
_PLAN = re.compile(rb'\{\s*"fingerprint"\s*:')


def read_records(source: Source) -> Records:
    """Return the rows of the source. Raises SheetError if it is damaged or is not a table."""
    if source.data.startswith(PARQUET):
        return _read_parquet(source)
    data = source.data.removeprefix(codecs.BOM_UTF8)
    start = data[:4096].lstrip()
    if _PLAN.match(start):
        raise SheetError(
            f"{source.path} is a saved plan, not a sheet",
            hint=f"`petsync apply {source.path}` applies it.",
        )
    # The content decides, because both kinds of files are named .json.
    if start.startswith(_BRACKET):
        rows = _read_list(source, data)
        numbers: Sequence[int] = range(1, len(rows) + 1)
    else:
        numbered = [*iter_objects(str(source.path), io.BytesIO(data))]
        numbers, rows = [number for number, _ in numbered], [row for _, row in numbered]
    rows = [with_flat_category(row) for row in rows]
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = {key: [row.get(key) for row in rows] for key in keys}
    frame = pd.DataFrame(columns, index=range(len(rows)), dtype=object)
    return Records(frame, np.array(numbers, np.int64))


def _read_list(source: Source, data: bytes) -> list[dict[str, Any]]:
    try:
        rows = decoder_of(list[Any]).decode(data)
        if _may_repeat_keys(data, rows):
            for number, text in enumerate(decoder_of(list[msgspec.Raw]).decode(data), 1):
                _check_keys(f"{source.path}: item {number} of the list", bytes(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SheetError(
            f"{source.path}: the file is not valid JSON: {error}",
            hint="Get it again from its source; the program that wrote it may have been stopped.",
        ) from None
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise SheetError(
                f"{source.path}: item {number} of the list is not an object: {str(row)[:40]!r}",
                hint=_OBJECTS,
            )
    return rows


def iter_objects(
    path: str, file: BinaryIO, kind: Any = Any
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSON Lines, with values of this type, and the numbers of their lines.
    Raises SheetError for a line that is not an object.
    """
    decoder = decoder_of(dict[str, kind])
    for number, line in enumerate(_iter_lines(file), 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
            if _may_repeat_keys(line, [row]):
                _check_keys(f"{path}: line {number}", line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SheetError(
                f"{path}: line {number} is not a JSON object: {error}",
                hint="Write an object into each line, with the columns as keys.",
            ) from None
        yield number, row


def _may_repeat_keys(data: bytes, rows: Iterable[Any]) -> bool:
    """Return false if the rows, decoded from `data`, have all its keys. A decoder drops a repeated
    key, with its quotation marks; of the other texts, only an escaped mark changes their number.
    """
    marks = sum(_encode(row).count(b'"') for row in rows)
    return marks != data.count(b'"') or b"\\u0022" in data


_encode = msgspec.json.Encoder().encode


def _check_keys(place: str, data: bytes) -> None:
    """Raise SheetError if an object in this JSON text has a key twice: one value would be lost."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        repeated = _first_repeated(key for key, _ in pairs)
        if repeated is not None:
            raise SheetError(
                f"{place} has a key twice: {repeated!r}",
                hint="Remove one of the two, or rename it: only one of its values could be read.",
            )

    # No number is needed, and one of thousands of digits is an error for `int`.
    json.loads(data, object_pairs_hook=check, parse_int=str)


def _iter_lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE + 1):
        yield line


CATEGORY_ID = "category_id"
"""The key of the id of a category that a service has as an object."""


def with_flat_category(row: dict[str, Any]) -> dict[str, Any]:
    """Return the object of a pet as a service has it with the category's name and id as two values;
    another object unchanged.
    """
    name = next((key for key in row if fold_header(key) == "category"), None)
    if name is None or not isinstance(row[name], Mapping):
        return row
    category = row[name]
    flat = {**row, name: category.get("name")}
    return flat if CATEGORY_ID in row else {**flat, CATEGORY_ID: category.get("id")}


# Values that no cell can have are problems of their rows.


_TYPE_NAMES = {dict: "an object", list: "a list", bool: "true or false", bytes: "bytes"}
_SCALARS = (str, bool, int, float, Decimal, dt.date, UUID)


def take_values(
    frame: pd.DataFrame, columns: Mapping[str, str]
) -> tuple[pd.DataFrame, dict[int, Fault]]:
    """Return the frame without the values that its columns cannot have, and a fault for each row
    that had one, by position. `columns` maps headers to canonical columns. A tag with an id becomes
    a `Tag`.
    """
    faults: dict[int, Fault] = {}
    changed: dict[str, list[Any]] = {}
    for header, column in columns.items():
        if not _may_have_others(frame[header].dtype):
            continue
        values = list_values(frame[header])
        for at, value in enumerate(values):
            try:
                values[at] = _take_value(column, value)
            except _WrongValueError as error:
                values[at] = None
                shown = msgspec.json.encode(value, enc_hook=str).decode()[:_SHOWN]
                faults.setdefault(at, Fault("wrong-value", shown, str(error), column))
        changed[header] = values
    new = {header: pd.Series(each, frame.index, object) for header, each in changed.items()}
    return frame.assign(**new) if new else frame, faults


_SHOWN = 200


class _WrongValueError(Exception):
    """A value that its column cannot have; the message says why."""


def _may_have_others(dtype: Any) -> bool:
    """Return true if a column with this dtype may have values that are not scalars."""
    if isinstance(dtype, pd.ArrowDtype):
        kind = dtype.pyarrow_dtype
        is_scalar = pa.types.is_large_string(kind) or pa.types.is_integer(kind)
        return not (is_scalar or pa.types.is_floating(kind))
    return bool(pd.api.types.is_object_dtype(dtype))


def _take_value(column: str, value: Any) -> Any:
    if isinstance(value, _SCALARS) or value is None or value is pd.NA:
        return value
    if column not in LISTS or not isinstance(value, list):
        what = _TYPE_NAMES.get(type(value), f"a value of the type {type(value).__name__}")
        meant = "a list or text" if column in LISTS else "text or a number"
        raise _WrongValueError(f"The value is {what}, where petsync needs {meant}.")
    # A missing name stays in its place beside the tag's id.
    return [None if item is None else _take_item(column, item) for item in value]


def _take_item(column: str, item: Any) -> str | Tag:
    if isinstance(item, str):
        return item
    if column == "tags" and isinstance(item, dict) and {"id", "name"} & item.keys():
        number, name = item.get("id"), item.get("name")
        if name is None or isinstance(name, str):
            return name if number is None and name else Tag(_tag_id(number), name)
    what = _TYPE_NAMES.get(type(item), "a number")
    meant = "texts, or objects with id and name" if column == "tags" else "texts"
    raise _WrongValueError(f"The list has {what} as an item, where petsync needs {meant}.")


def _tag_id(number: Any) -> int | None:
    if number is None or type(number) is int:
        return number
    if isinstance(number, float) and number.is_integer() and abs(number) < _EXACT:
        return int(number)
    if isinstance(number, str):
        with suppress(CellError):
            return parse_id(number)
    raise _WrongValueError(f"The id {number} of a tag is not an exact whole number.")


_EXACT = 2.0**53


# Parquet, and Arrow tables: each value has its exact type.


def _read_parquet(source: Source) -> Records:
    # pyarrow.parquet is loaded only for Parquet files.
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(source.data))
        names = file.schema_arrow.names
        table = None if _first_repeated(names) is not None else _read_table(source, file)
    except (pa.ArrowException, OSError) as error:
        raise SheetError(
            f"{source.path}: the Parquet file cannot be read: {str(error).splitlines()[0]}",
            hint="It is damaged, incomplete or encrypted: get it again from its source.",
        ) from None
    if table is None:
        raise SheetError(
            f"{source.path}: two columns have the same name: {_first_repeated(names)!r}",
            hint="Rename one of them.",
        )
    if {"kind", "fields", "json"} <= {*names}:
        raise SheetError(
            f"{source.path} is a saved plan, not a sheet",
            hint=f"`petsync apply {source.path}` applies it.",
        )
    frame = frame_of_table(table)
    return Records(frame, np.arange(1, len(frame) + 1, dtype=np.int64))


def _read_table(source: Source, file: pq.ParquetFile) -> pa.Table:
    """Return all rows of the file. Raises SheetError if they become too large: a value that is
    repeated takes little space in the file.
    """
    batches, size = [], 0
    for batch in file.iter_batches(_BATCH_ROWS):
        batches.append(batch)
        size += batch.nbytes
        if size > MAX_SIZE:
            raise SheetError(
                f"{source.path}: the unpacked rows have more than {MAX_SIZE / 1e9:,.1f} GB, the "
                "limit for a sheet",
                hint="Put the file into a folder, and name the folder: it is then compared in "
                "parts.",
            )
    return pa.Table.from_batches(batches, file.schema_arrow)


_BATCH_ROWS = 1 << 12


def frame_of_stream(stream: ArrowTable) -> pd.DataFrame:
    """Return a table with the Arrow PyCapsule interface as a DataFrame with the same exact values.
    Raises SheetError if it is not a table.
    """
    return _read_stream(stream, frame_of_table)


def pets_from_frame(frame: pd.DataFrame | ArrowTable) -> list[Pet]:
    """Return the pets in a DataFrame, or in a table with the Arrow PyCapsule interface, such as one
    of polars or pyarrow: one for each row. Missing columns count as empty, and a named level of the
    index as a column. Tags are lists of Tag values or names.

    Raises SheetError for another value, for a table without a column of pets, and for values of
    another type than those of its column.
    """
    if isinstance(frame, pd.DataFrame):
        frame = with_index_columns(frame)
        _check_columns("the DataFrame", frame)
        try:
            return _pets_of_rows(with_tag_ids(frame))
        except (pa.ArrowException, TypeError, OverflowError, SettingsError) as error:
            raise SheetError(
                f"the DataFrame has a value of another type than its column: {error}",
                hint="Correct it, or read the DataFrame as a sheet: ps.read_sheet(…).findings "
                "names the value.",
            ) from None
    if not isinstance(frame, ArrowTable):
        raise SheetError(
            f"{type_name(frame)} is not a table of pets",
            hint=suggest_collect(frame) or "Pass a DataFrame, or a table of polars or pyarrow.",
        )
    return _read_stream(frame, _pets_of_table)


def with_index_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the levels of its index that are named like a column of pets as
    columns, unless it has such a column; or the frame itself.
    """
    named = [name for name in frame.index.names if name in COLUMNS and name not in frame]
    return frame.reset_index(level=named) if named else frame


def with_tag_ids(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the ids of its column `tag_ids`, which a Parquet export has, and with
    the unknown fields of tags in `extra`, in its tags, and without this column; or the frame
    itself, without such a column. Raises SheetError as `add_tag_ids` does.
    """
    if not {"tags", TAG_IDS} <= {*frame.columns}:
        return frame
    labels = RowLabels(frame.index)

    def address(row: int) -> str:
        return cell_address("", "", row, (), labels)

    ids = list_values(frame[TAG_IDS])
    lists = add_tag_ids(list_values(frame["tags"]), ids, address)
    if EXTRA in frame:
        for row, fields in enumerate(map(decode_tag_fields, list_values(frame[EXTRA]))):
            if fields and _are_lists(lists[row], ids[row]):
                lists[row] = _with_tag_fields(lists[row], _without_missing(ids[row]), fields)
    tags = pd.Series(lists_of(lists), frame.index, dtype=object)
    return frame.drop(columns=TAG_IDS).assign(tags=tags)


def _with_tag_fields(
    tags: Sequence[Any], ids: Sequence[Any], fields: Mapping[int, dict[str, Any]]
) -> list[Any]:
    """Return the tags with their unknown fields, which are given by the position of the tag beside
    `ids`. If the tags were edited, the fields stay with the id.
    """
    result = [*tags]
    for position, own in fields.items():
        number = ids[position] if position < len(ids) else None
        places = [n for n, tag in enumerate(tags) if isinstance(tag, Tag) and tag.id == number]
        place = position if position in places else next(iter(places), None)
        if place is not None and (number is not None or len(tags) == len(ids)):
            result[place] = Tag(tags[place].id, tags[place].name, own)
    return result


def add_tag_ids(
    tags: list[Any],
    ids: list[Any],
    address: Callable[[int], str] = "row {}".format,
    rows: Iterable[int] | None = None,
) -> list[Any]:
    """Return the lists of tags with a `Tag` instead of each name, in all `rows` (None: in all that
    have both lists), with its id from the list of `ids` beside it. Tags and other values stay.

    An id has the name beside which it is in most rows. In a list whose names were edited, the other
    names have no id. Raises SheetError, with the `address` of the row, if it is unknown which ids
    the tags without a name have, and for an id that is not an exact whole number.
    """
    tags = [as_items(each) if isinstance(each, np.ndarray) else each for each in tags]
    places = [
        n for n in (range(len(tags)) if rows is None else rows) if _are_lists(tags[n], ids[n])
    ]
    if not places:
        return tags
    numbers = {n: _without_missing(each) for n, each in enumerate(ids) if _are_lists(tags[n], each)}
    name_of = _find_names(tags, numbers)
    result = [*tags]
    for row in places:
        names, own = tags[row], numbers[row]
        is_aligned = len(names) == len(own) and all(
            number is None or not _is_name(name) or _is_tag_of(number, name, names, name_of)
            for name, number in zip(names, own, strict=True)
        )
        where = partial(address, row)
        found = own if is_aligned else _match_ids(names, own, name_of, where)
        result[row] = [
            Tag(_exact_id(number, where), name) if _is_name(name) else name
            for name, number in zip(names, found, strict=True)
        ]
    return result


def _is_tag_of(
    number: Any, name: str | None, names: Sequence[Any], name_of: Mapping[Any, str | None]
) -> bool:
    """Return true if a name and the id beside it may still be one tag. A tag without a name may
    have an id that has a name in other lists, unless that name is in this list, too.
    """
    usual = name_of[number]
    return usual == (name or "") or (not name and (usual is None or usual not in names))


def _is_name(item: Any) -> bool:
    """Return true for a name, or None for a tag without a name, but not for a whole tag."""
    return item is None or (isinstance(item, str) and not isinstance(item, TagName))


def _are_lists(*values: Any) -> bool:
    return all(isinstance(value, list | tuple | np.ndarray) for value in values)


def _without_missing(ids: Any) -> list[Any]:
    """Return the ids, None for a missing one, and a Decimal for a narrow float that may be rounded:
    `_tag_id` refuses it.
    """
    is_narrow = isinstance(ids, np.ndarray) and ids.dtype in (np.float16, np.float32)
    limit = 2.0 ** (np.finfo(ids.dtype).nmant + 1) if is_narrow else math.inf
    values = as_items(ids) or []
    return [
        None
        if each is pd.NA or each != each
        else Decimal(each)
        if isinstance(each, float) and abs(each) >= limit
        else each
        for each in values
    ]


def _exact_id(number: Any, address: Callable[[], str]) -> int | None:
    try:
        return _tag_id(number)
    except _WrongValueError as error:
        raise SheetError(
            f"{address()} has a wrong value in {TAG_IDS}: {error}",
            hint="Make the ids whole numbers. If pandas has read them from a Parquet file, read it "
            'with pd.read_parquet(path, dtype_backend="pyarrow"), which rounds no id.',
        ) from None


def _find_names(tags: Sequence[Any], numbers: Mapping[int, Sequence[Any]]) -> dict[Any, str | None]:
    """Return the name that each id has in most lists, "" for a tag without a name; None if it has
    several names equally often.
    """
    pairs = Counter(
        (number, name or "")
        for row, own in numbers.items()
        if len(tags[row]) == len(own)
        for name, number in zip(tags[row], own, strict=True)
        if number is not None and _is_name(name)
    )
    names: dict[Any, str | None] = {}
    for (number, name), times in pairs.most_common():
        if number not in names:
            names[number] = name
        elif names[number] is not None and pairs[number, names[number] or ""] == times:
            names[number] = None
    return names


def _match_ids(
    names: Sequence[Any],
    ids: Sequence[Any],
    name_of: Mapping[Any, str | None],
    address: Callable[[], str],
) -> list[Any]:
    """Return the id of each name, None if it has none, in a list whose names may have been edited.
    Tags without a name keep the ids beside them if no name of the list has one of these.
    """
    free = [number for number in ids if number is not None]
    found: list[Any] = [None] * len(names)
    for place, name in enumerate(names):
        number = next((n for n in free if _is_name(name) and name and name_of.get(n) == name), None)
        if number is not None:
            found[place] = number
            free.remove(number)
    nameless = [place for place, name in enumerate(names) if _is_name(name) and not name]
    in_place = {place: ids[place] for place in nameless} if len(names) == len(ids) else {}
    if in_place and all(
        number is None or (number in free and _is_tag_of(number, None, names, name_of))
        for number in in_place.values()
    ):
        return [in_place.get(place, number) for place, number in enumerate(found)]
    free = [number for number in free if name_of.get(number, "") == ""]
    if nameless and free and len(nameless) != len(free):
        raise SheetError(
            f"{address()} has {count(len(nameless), 'tag')} without a name, and "
            f"{count(len(free), 'id')} in {TAG_IDS} that may belong to them",
            hint=f"Write an id for each tag into {TAG_IDS}, or make each tag without a name a "
            "ps.Tag with its id.",
        )
    for place, number in zip(nameless, free, strict=False):
        found[place] = number
    return found


def _pets_of_table(table: pa.Table) -> list[Pet]:
    frame = with_tag_ids(frame_of_table(table))
    _check_columns("the table", frame)
    return _pets_of_rows(frame)


def _pets_of_rows(frame: pd.DataFrame) -> list[Pet]:
    """Return the pets in a DataFrame whose lists may be arrays, and whose tags may be names."""
    return pets_of_frame(frame_from_table(table_from_frame(frame)))


def _first_repeated(names: Iterable[Any]) -> Any:
    """Return the first name that is repeated, or None."""
    return next((name for name, uses in Counter(names).items() if uses > 1), None)


def _check_repeated(what: str, frame: pd.DataFrame) -> None:
    repeated = _first_repeated(name for name in frame.columns if name in (*COLUMNS, TAG_IDS))
    if repeated is not None:
        raise SheetError(
            f"{what} has two columns with the same name: {repeated!r}", hint="Rename one of them."
        )


def _check_columns(what: str, frame: pd.DataFrame) -> None:
    _check_repeated(what, frame)
    if len(frame) and not any(name in frame for name in COLUMNS):
        raise SheetError(
            f"{what} has no column of pets", hint=f"Its columns may be {', '.join(COLUMNS)}."
        )
    for name in LISTS:
        if name in frame and any(isinstance(value, str) for value in list_values(frame[name])):
            raise SheetError(
                f"the column {name} of {what} has texts instead of lists",
                hint="Read it as a sheet, which has lists: ps.read_sheet(…).frame.",
            )
    check_values(what, frame)


def check_values(what: str, frame: pd.DataFrame) -> None:
    """Raise SheetError for a repeated column, and for the first value of a canonical column that is
    not a text, a number or missing or, in a column of lists, a list of texts or tags: neither a
    file nor a pet can contain it.
    """
    _check_repeated(what, frame)
    for name in COLUMNS:
        if name not in frame or not is_object_dtype(frame[name].dtype):
            continue
        for position, value in enumerate(list_values(frame[name])):
            if problem := _find_problem(name, value):
                row = cell_address("", "", position, (), RowLabels(frame.index))
                hint = "Make it a list of texts or tags." if name in LISTS else _MAKE_SCALAR
                raise SheetError(
                    f"the column {name} of {what} has {problem} in {row}",
                    hint=_READ_AGAIN if problem == _HALF else hint,
                )


_MAKE_SCALAR = "Make it text or a number."
_HALF = "half of a surrogate pair"
_READ_AGAIN = "It was probably read with a wrong encoding: read it again with the correct one."


def _find_problem(column: str, value: Any) -> str:
    """Describe what is wrong with a value of a column; "" if nothing is."""
    if isinstance(value, str):
        return "" if _is_encodable(value) else _HALF
    if column not in LISTS:
        return type_name(value) if is_list_like(value) else ""
    items = as_items(value)
    if items is None:
        return "" if is_missing(value) else f"{type_name(value)} instead of a list"
    kinds = (str, Tag) if column == "tags" else (str,)
    wrong = (each for each in items if each is not None and not isinstance(each, kinds))
    texts = (each.name if isinstance(each, Tag) else each for each in items)
    halves = (_HALF for text in texts if isinstance(text, str) and not _is_encodable(text))
    return next(chain((f"a list with {type_name(each)}" for each in wrong), halves), "")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_stream(stream: ArrowTable, read: Callable[[pa.Table], T]) -> T:
    try:
        return read(pa.table(stream))
    except SheetError:
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        if not isinstance(stream, ArrowTable) or isinstance(stream, pd.Series):
            raise SheetError(
                f"{type_name(stream)} is not a table",
                hint=suggest_collect(stream)
                or "Give the path of a file, a DataFrame or an Arrow table, with named columns.",
            ) from None
        raise SheetError(
            f"{type_name(stream)} is not a table that petsync can read: {error}",
            hint=suggest_collect(stream)
            or "Pass a table with named columns, with standard Arrow types: cast others, such as "
            "polars' Int128. Or make it a pandas DataFrame.",
        ) from None


def suggest_collect(value: object) -> str:
    """Return the advice for a query that has no rows yet, such as a LazyFrame of polars; "" for
    other values.
    """
    is_lazy = callable(getattr(value, "collect", None))
    return f"Pass its rows: call collect() of the {type(value).__name__}." if is_lazy else ""


def frame_of_table(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame with the same exact values."""
    columns = [_plain_column(column) for column in table.columns]
    table = pa.table(columns, names=table.column_names)
    names = [*table.column_names]
    at = next((n for n, name in enumerate(names) if fold_header(name) == "category"), None)
    if at is not None and pa.types.is_struct(table.schema.field(at).type):
        table = _with_flat_categories(table, at)
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    return frame


def _with_flat_categories(table: pa.Table, at: int) -> pa.Table:
    """Return the table with the fields `name` and `id` of a column of structs as two columns."""
    name, column = table.column_names[at], table.column(at).combine_chunks()
    fields = {}
    for field in column.type.names:
        values = _plain_column(pa.chunked_array([column.field(field)]))
        fields[field] = pc.if_else(column.is_valid(), values, pa.scalar(None, values.type))
    table = table.set_column(at, name, fields.get("name", pa.nulls(len(table))))
    if "id" in fields and CATEGORY_ID not in table.column_names:
        table = table.append_column(CATEGORY_ID, fields["id"])
    return table


def _plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column with values instead of dictionaries and views."""
    if not pa.types.is_dictionary(column.type):
        return column.cast(_plain_type(column.type))
    kind = _plain_type(column.type.value_type)
    chunks = [each.dictionary.cast(kind).take(each.indices) for each in column.chunks]
    return pa.chunked_array(chunks, kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind) or pa.types.is_string(kind):
        return pa.large_string()
    is_list = (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )
    return pa.large_list(_plain_type(kind.value_type)) if is_list else kind
