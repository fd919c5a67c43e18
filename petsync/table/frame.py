"""Pets as a DataFrame and back, without loss."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.types as types

from petsync._collector import pause_collection
from petsync._display import type_name
from petsync._json import decoder_of
from petsync.errors import SheetError
from petsync.models import Category, Pet, Tag, as_tag
from petsync.table.columns import COLUMNS, LISTS
from petsync.table.dtypes import text_column
from petsync.table.lists import ListArray, lists_of, names_of_tags, without_names

__all__ = [
    "EXTRA",
    "FEW",
    "Mask",
    "copy_frame",
    "decode_fields",
    "decode_tag_fields",
    "extra_of",
    "find_rows",
    "frame_from_pets",
    "has_action",
    "has_id_in",
    "ids_of",
    "integers",
    "is_blank",
    "join_rows",
    "lacks_id",
    "list_values",
    "mask_rows",
    "number_column",
    "pets_at",
    "pets_from_frame",
    "plain_values",
    "select",
    "texts",
    "unique_texts",
    "values_at",
]

Mask = npt.NDArray[np.bool_]
FEW = 200
"""For at most this many values, a loop is faster than a call of pandas or Arrow."""


# Columns and dtypes: `id` and `category_id` Int64; `name`, `status` and `category` TEXT, missing
# where the pet has none; `tags` a list of `TagName` and `photo_urls` a list of text, in object
# columns or, for comparisons, as a `ListArray`. If a pet has unknown fields, an eighth column,
# `extra`, has a dict of them for each such pet, else None. Its key `(category)` has the category's
# unknown fields; the unknown fields of a tag are in the TagName.


EXTRA = "extra"
_CATEGORY_EXTRA = "(category)"
_COPIES_ON_WRITE = int(pd.__version__.partition(".")[0]) >= 3
_MAY_BE_MISSING = (float, type(pd.NA), type(pd.NaT))


def frame_from_pets(pets: Iterable[Pet]) -> pd.DataFrame:
    """Return the pets as a DataFrame: one row each, in order, with a RangeIndex. Raises SheetError
    for another value than pets.
    """
    with pause_collection():
        given: Any = pets
        found: list[Any] = list(given) if isinstance(given, Iterable) else [None]
        if not {*map(type, found)} <= {Pet}:
            raise SheetError(
                f"{type_name(given)} is not a list of pets",
                hint="Give a list of ps.Pet. store.pets() returns all pets as a DataFrame.",
            )
        return _frame(found)


def pets_from_frame(frame: pd.DataFrame) -> list[Pet]:
    """Return the pets in a DataFrame, one for each row. Missing columns count as empty."""
    return _pets(frame, plain_values, len(frame))


def pets_at(frame: pd.DataFrame, places: Sequence[int] | npt.NDArray[np.intp]) -> list[Pet]:
    """Return the pets in these rows of a DataFrame. The rows are counted from 0."""
    # This is several times as fast as selecting the rows of the DataFrame.
    positions = np.asarray(places, dtype=np.intp)
    if positions.size == 0:
        return []
    return _pets(frame, lambda column: values_at(column, positions), len(positions))


def texts(values: Sequence[str | None]) -> Any:
    """Return the values, each a text or None, as an array of dtype TEXT."""
    return text_column(pa.array(values, pa.large_string()))


def integers(values: Sequence[int | None]) -> pd.api.extensions.ExtensionArray:
    """Return the values, each an integer or None, as an Int64 array, exact to 2^63-1."""
    return number_column(pa.array(values, pa.int64()))


def number_column(array: pa.Array | pa.ChunkedArray) -> pd.api.extensions.ExtensionArray:
    """Return an Arrow array of int64 as an Int64 array."""
    values = array.fill_null(0) if array.null_count else array
    return pd.arrays.IntegerArray(np.array(values), np.array(array.is_null(), dtype=bool))


def _frame(pets: Sequence[Pet]) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "id": integers([pet.id for pet in pets]),
        "name": texts([pet.name for pet in pets]),
        "status": texts([pet.status for pet in pets]),
        "category": texts([c.name if (c := pet.category) else None for pet in pets]),
        "category_id": integers([c.id if (c := pet.category) else None for pet in pets]),
        "tags": lists_of([names_of_tags(pet.tags) for pet in pets]),
        "photo_urls": lists_of([list(pet.photo_urls) for pet in pets]),
    }
    extra = [extra_of(pet) for pet in pets]
    if any(extra):
        columns[EXTRA] = pd.Series(extra, dtype=object)
    return pd.DataFrame(columns, copy=False)


def decode_fields(value: Any) -> dict[str, Any] | None:
    """Return the unknown fields of a pet from a value in the column `extra`: a dict, or the JSON
    text that a Parquet export has. None for other values.
    """
    if isinstance(value, str) and value.startswith(("{", "[{")):
        with suppress(msgspec.DecodeError):
            value = msgspec.json.decode(value)
            value = value[0] if isinstance(value, list) else value
    return value if isinstance(value, dict) and value else None


def decode_tag_fields(value: Any) -> dict[int, dict[str, Any]]:
    """Return the unknown fields of the tags of a pet, by the position of the tag, from the JSON
    text in the column `extra` of a Parquet export. Other values have none.
    """
    if not (isinstance(value, str) and value.startswith("[{")):
        return {}
    with suppress(msgspec.DecodeError):
        return decoder_of(tuple[dict[str, Any], dict[int, dict[str, Any]]]).decode(value)[1]
    return {}


def extra_of(pet: Pet) -> dict[str, Any] | None:
    """Return the value of the column `extra` of a pet."""
    of_category = pet.category.extra if pet.category else None
    if of_category is None:
        return dict(pet.extra) if pet.extra else None
    return {**(pet.extra or {}), _CATEGORY_EXTRA: dict(of_category)}


def _pets(
    frame: pd.DataFrame,
    values_of: Callable[[pd.api.extensions.ExtensionArray], list[Any]],
    size: int,
) -> list[Pet]:
    values = [
        values_of(frame[name].array) if name in frame else [None] * size
        for name in (*COLUMNS, EXTRA)
    ]
    return [_pet(*row) for row in zip(*values, strict=True)]


# Select rows by id and action.


def ids_of(frame: pd.DataFrame) -> list[int]:
    """Return the ids in the column `id`, in order, without missing ones; [] without the column."""
    if "id" not in frame:
        return []
    return [each for each in plain_values(frame["id"].array) if each is not None]


def lacks_id(frame: pd.DataFrame) -> Mask:
    """Return a mask of the rows without an id."""
    if "id" not in frame:
        return np.ones(len(frame), dtype=bool)
    return np.asarray(frame["id"].array.isna(), dtype=bool)


def has_id_in(frame: pd.DataFrame, ids: Collection[int | None]) -> Mask:
    """Return a mask of the rows whose id is in `ids`. Rows without an id are never in the mask."""
    if "id" not in frame or not ids:
        return np.zeros(len(frame), dtype=bool)
    if len(frame) <= FEW:
        wanted = {*ids} - {None}
        return np.array([each in wanted for each in plain_values(frame["id"].array)], dtype=bool)
    known = [each for each in ids if each is not None]
    return frame["id"].isin(known).to_numpy(dtype=bool)


def has_action(
    frame: pd.DataFrame, *actions: str, at: Mask | npt.NDArray[np.intp] | None = None
) -> Mask:
    """Return a mask of the rows with one of these actions; with `at`, of the rows in this mask or
    at these positions.
    """
    column = frame["action"].array if at is None else frame["action"].array[at]
    if len(column) <= FEW:
        return np.array([each in actions for each in plain_values(column)], bool)
    return np.asarray(pd.Series(column, copy=False).isin(actions), dtype=bool)


def find_rows(frame: pd.DataFrame, rows: Iterable[int | None]) -> npt.NDArray[np.intp]:
    """Return the positions of these row numbers in the index of a sheet's frame, in ascending
    order, without those that the index lacks.
    """
    wanted = np.array([row for row in rows if row is not None], dtype=np.int64)
    if not len(wanted):
        return wanted.astype(np.intp)
    if not frame.index.is_monotonic_increasing or not frame.index.is_unique or not len(frame):
        return np.flatnonzero(frame.index.isin(wanted))
    # An increasing index is searched without a hash table.
    numbers, wanted = frame.index.to_numpy(), np.unique(wanted)
    places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    found: npt.NDArray[np.intp] = places[numbers[places] == wanted]
    return found


def mask_rows(frame: pd.DataFrame, rows: Iterable[int | None]) -> Mask:
    """Return a mask of the rows of a sheet's frame that have these numbers in its index."""
    mask = np.zeros(len(frame), dtype=bool)
    mask[find_rows(frame, rows)] = True
    return mask


def is_blank(column: pd.api.extensions.ExtensionArray) -> Mask:
    """Return a mask of the missing values in a column of a sheet."""
    if not isinstance(column, pd.arrays.NumpyExtensionArray):
        return np.array(column.isna(), dtype=bool)
    return np.array([not isinstance(value, list) for value in column.tolist()], dtype=bool)


def unique_texts(frame: pd.DataFrame, column: str) -> set[str]:
    """Return the different texts in a column; an empty set if the frame lacks the column."""
    if column not in frame:
        return set()
    array = pa.array(frame[column].array, from_pandas=True)
    values = array if len(array) <= FEW else array.unique()
    return {each for each in values.to_pylist() if each is not None}


def select(frame: pd.DataFrame, mask: Mask) -> pd.DataFrame:
    """Return the rows in the mask; if these are all rows, the DataFrame itself."""
    if mask.all():
        return frame
    return frame[mask] if mask.any() else frame.iloc[:0]


def join_rows(parts: Sequence[pd.DataFrame], *, ignore_index: bool = True) -> pd.DataFrame:
    """Return the rows of all parts, with a new index or with theirs. If only one part has rows,
    return that part itself.
    """
    # pandas 2 ignores the dtype of a part without values.
    filled = [part for part in parts if len(part)] or [*parts[:1]]
    if len(filled) == 1:
        return filled[0]
    for name in LISTS:
        if len({type(part[name].array) for part in filled if name in part}) > 1:
            filled = [part.astype({name: object}) if name in part else part for part in filled]
    return pd.concat(filled, ignore_index=ignore_index)


def plain_values(column: pd.api.extensions.ExtensionArray) -> list[Any]:
    """Return the values of a column as Python values, None for a missing one, with a Tag instead of
    each `TagName` in a list.
    """
    is_plain = isinstance(column, ListArray | pd.arrays.NumpyExtensionArray)
    is_few = len(column) <= FEW
    if isinstance(column, pd.arrays.ArrowStringArray) or (is_few and not is_plain):
        found: list[Any] = pa.array(column, from_pandas=True).to_pylist()
        return found
    values: list[Any] = (column.to_numpy() if is_plain else column).tolist()
    if is_plain and not isinstance(column, ListArray):
        values = [without_names(each) for each in values]
    if is_few and not any(each is None or isinstance(each, _MAY_BE_MISSING) for each in values):
        return values
    missing = column.isna()
    if not missing.any():
        return values
    return [
        None if is_missing else value
        for value, is_missing in zip(values, missing.tolist(), strict=True)
    ]


def copy_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy that a later change of the frame does not affect."""
    return frame.copy(deep=not _COPIES_ON_WRITE)


def values_at(
    column: pd.api.extensions.ExtensionArray,
    places: npt.NDArray[np.intp],
    values_of: Callable[[pd.api.extensions.ExtensionArray], list[Any]] = plain_values,
) -> list[Any]:
    """Return the values at these positions, as `values_of` returns those of a column."""
    if len(column) > FEW:
        return values_of(column.take(places))
    # A column of lists keeps its Python lists.
    values = values_of(column)
    return [values[place] for place in places.tolist()]


def is_missing(value: Any) -> bool:
    """Return true if a value of a DataFrame is missing."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    differs = value != value
    # An array, a Series or a DataFrame differs item by item.
    return isinstance(differs, bool | np.bool_) and bool(differs)


def list_values(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column as `column.tolist()` does, but several times as fast for texts,
    integers, and lists of these in Arrow.
    """
    dtype: Any = column.dtype
    if isinstance(column.array, pd.arrays.ArrowExtensionArray):
        array = pa.array(column.array)
        kind = array.type
        if types.is_list(kind) or types.is_large_list(kind):
            kind = kind.value_type
        if types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind):
            values: list[Any] = array.to_pylist()
            missing = dtype.na_value
            return [missing if each is None else each for each in values]
    found: list[Any] = column.tolist()
    return found


def _pet(
    identity: int | None,
    name: str | None,
    status: str | None,
    category: str | None,
    category_id: int | None,
    tags: Sequence[Tag | str] | None,
    photo_urls: Sequence[str] | None,
    extra: Mapping[str, Any] | None,
) -> Pet:
    fields = dict(extra) if extra else {}
    of_category = fields.pop(_CATEGORY_EXTRA, None) if fields else None
    has_category = category is not None or category_id is not None or of_category is not None
    return Pet(
        id=identity,
        name=name,
        status=status,
        category=Category(category_id, category, of_category) if has_category else None,
        tags=tuple(map(as_tag, tags)) if tags else (),
        photo_urls=tuple(photo_urls) if photo_urls else (),
        extra=fields or None,
    )
