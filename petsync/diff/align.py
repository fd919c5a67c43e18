"""Which pet of the snapshot each row of a sheet is about, and in which units the two may differ.

Both are whole-column operations: at a million rows only the cells that are not plainly equal are
looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.diff.fields import folded, normal, same_photos, same_tags
from petsync.diff.units import COLUMNS_OF, UNITS, Unit
from petsync.table.columns import Column

__all__ = ["Mask", "Positions", "absent", "differences", "positions", "unproved"]

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]

_SPARSE = 4
"""Ids that are further apart than this, on average, are found by hashing."""
_BLOCK = 4_096
"""So many lists are compared at once: their items are still in the processor's cache then."""


def positions(ids: pd.Series[Any], pets: pd.DataFrame) -> Positions:
    """For each id its row in `pets`, -1 where it is missing or not there."""
    known = pets["id"].to_numpy(dtype=np.int64)
    given = ids.notna().to_numpy()
    if given.all():
        return _found(ids.to_numpy(dtype=np.int64), known)
    found = np.full(len(ids), -1, dtype=np.intp)
    found[given] = _found(ids[given].to_numpy(dtype=np.int64), known)
    return found


def unproved(rows: pd.DataFrame, pets: pd.DataFrame) -> list[int]:
    """The ids that rows name and the snapshot lacks: getPetById has to say whether they are."""
    if "id" not in rows:
        return []
    lacking = rows[["id", "action"]][positions(rows["id"], pets) < 0]
    named = lacking.loc[lacking["action"] != "ignore", "id"].dropna()
    return [int(identity) for identity in named.unique()]


def absent(ids: Iterable[int], pets: pd.DataFrame) -> list[int]:
    """Those of the ids that no pet has."""
    given = list(dict.fromkeys(ids))
    places = positions(pd.Series(given, dtype="Int64"), pets).tolist()
    return [identity for identity, place in zip(given, places, strict=True) if place < 0]


def differences(
    rows: pd.DataFrame, at: Positions, pets: pd.DataFrame, places: Positions
) -> dict[Unit, Mask]:
    """For each unit, which of the rows `at` say something else than the pets at the `places`
    beside them. Exact but for a category, of which name and id may contradict each other.
    """
    result: dict[Unit, Mask] = {}
    for unit in UNITS:
        masks = [
            _COMPARE[column](_taken(rows, column, at), pets[column], places)
            for column in COLUMNS_OF[unit]
            if column in rows
        ]
        result[unit] = np.logical_or.reduce(masks) if masks else np.zeros(len(at), dtype=bool)
    return result


def _found(ids: npt.NDArray[np.int64], known: npt.NDArray[np.int64]) -> Positions:
    low, high = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if high - low > _SPARSE * len(known):
        return pd.Index(known).get_indexer(pd.Index(ids))
    # Ids that a service gives out lie close together: a table from the lowest to the highest, and
    # one place more, for all that are outside.
    places = np.full(high - low + 2, -1, dtype=np.intp)
    places[known - low] = np.arange(len(known))
    return places[np.where((low <= ids) & (ids <= high), ids - low, high - low + 1)]


def _taken(rows: pd.DataFrame, column: Column, at: Positions) -> pd.Series[Any]:
    """The column at these rows; no copy where they follow each other."""
    if len(at) and at[-1] - at[0] + 1 == len(at):
        return rows[column].iloc[at[0] : at[-1] + 1]
    return rows[column].iloc[at]


def _texts(
    meaning: Callable[[str | None], str], *, clears: bool = False
) -> Callable[[pd.Series[Any], pd.Series[Any], Positions], Mask]:
    def compare(said: pd.Series[Any], old: pd.Series[Any], places: Positions) -> Mask:
        left, right = _arrow(said), _arrow(old).take(pa.array(places))
        unequal = pc.fill_null(pc.not_equal(left, right), fill_value=True)
        mask = _bools(pc.and_(pc.is_valid(left), unequal))
        where = np.flatnonzero(mask)
        pairs = zip(
            left.take(pa.array(where)).to_pylist(),
            right.take(pa.array(where)).to_pylist(),
            strict=True,
        )
        mask[where] = [
            meaning(one) != meaning(other) or (clears and not meaning(one)) for one, other in pairs
        ]
        return mask

    return compare


def _numbers(said: pd.Series[Any], old: pd.Series[Any], places: Positions) -> Mask:
    # An id of 0 is none, and a row without an id says nothing of it.
    left = said.to_numpy(dtype=np.int64, na_value=0)
    right = old.to_numpy(dtype=np.int64, na_value=0)[places]
    unequal: Mask = (left != 0) & (left != right)
    return unequal


def _lists(
    same: Callable[[Any, Any], bool],
) -> Callable[[pd.Series[Any], pd.Series[Any], Positions], Mask]:
    def compare(said: pd.Series[Any], old: pd.Series[Any], places: Positions) -> Mask:
        left, right = said.to_numpy(dtype=object), old.to_numpy(dtype=object)
        result = np.zeros(len(left), dtype=bool)
        for start, mine, theirs in _blocks(left, right, places):
            for n in np.flatnonzero(mine != theirs):
                one = mine[n]
                result[start + n] = isinstance(one, list) and not same(one, theirs[n])
        return result

    return compare


def _blocks(
    left: npt.NDArray[Any], right: npt.NDArray[Any], places: Positions
) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[Any]]]:
    for start in range(0, len(left), _BLOCK):
        end = start + _BLOCK
        yield start, left[start:end], right[places[start:end]]


def _arrow(texts: pd.Series[Any]) -> Any:
    array = pa.array(texts, from_pandas=True)
    return array.cast(pa.large_string()) if array.type != pa.large_string() else array


def _bools(mask: Any) -> Mask:
    return np.array(mask.to_numpy(zero_copy_only=False) if isinstance(mask, pa.Array) else mask)


_COMPARE: Mapping[Column, Callable[[pd.Series[Any], pd.Series[Any], Positions], Mask]] = {
    "name": _texts(normal),
    "status": _texts(folded),
    "category": _texts(normal, clears=True),
    "category_id": _numbers,
    "tags": _lists(same_tags),
    "photo_urls": _lists(same_photos),
}
