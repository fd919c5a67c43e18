"""Which pet of the snapshot each row of a sheet is about, and which pairs may differ at all.

Both are whole-column operations: at a million rows only the rows that are left over are looked
at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from petsync.diff.fields import normal
from petsync.model import Tag
from petsync.table.columns import Column

__all__ = ["may_differ", "positions", "unproved"]

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]


def positions(ids: pd.Series[Any], pets: pd.DataFrame) -> Positions:
    """For each id its row in `pets`, -1 where it is missing or not there."""
    known = pd.Index(pets["id"].to_numpy(dtype=np.int64))
    given = ids.notna().to_numpy()
    found = np.full(len(ids), -1, dtype=np.intp)
    found[given] = known.get_indexer(ids[given].to_numpy(dtype=np.int64))
    return found


def unproved(rows: pd.DataFrame, pets: pd.DataFrame) -> list[int]:
    """The ids that rows name and the snapshot lacks: getPetById has to say whether they are."""
    if "id" not in rows:
        return []
    named = rows.loc[rows["action"] != "ignore", "id"].dropna()
    absent = named[positions(named, pets) < 0]
    return [int(identity) for identity in absent.unique()]


def may_differ(rows: pd.DataFrame, pets: pd.DataFrame) -> Mask:
    """Which rows say anything that the pet at the same place does not; a few say so wrongly."""
    different = np.zeros(len(rows), dtype=bool)
    for column, compare in _COMPARE.items():
        if column in rows:
            different |= compare(rows[column], pets[column])
    return different


def _texts(said: pd.Series[Any], old: pd.Series[Any]) -> Mask:
    left, right = said.to_numpy(dtype=object), old.to_numpy(dtype=object)
    unequal = np.flatnonzero(said.notna().to_numpy() & (left != right))
    result = np.zeros(len(left), dtype=bool)
    for n in unequal:
        result[n] = normal(left[n]) != normal(right[n] if isinstance(right[n], str) else "")
    return result


def _numbers(said: pd.Series[Any], old: pd.Series[Any]) -> Mask:
    equal = (said == old.set_axis(said.index)).fillna(False).to_numpy(dtype=bool)
    unequal: Mask = said.notna().to_numpy() & ~equal
    return unequal


def _tags(said: pd.Series[Any], old: pd.Series[Any]) -> Mask:
    return _pairs(said, old, _other_tags)


def _photos(said: pd.Series[Any], old: pd.Series[Any]) -> Mask:
    return _pairs(said, old, lambda left, right: left != right)


def _pairs(said: pd.Series[Any], old: pd.Series[Any], other: Callable[[Any, Any], bool]) -> Mask:
    pairs = zip(said.tolist(), old.tolist(), strict=True)
    return np.fromiter(
        (isinstance(left, list) and other(left, right) for left, right in pairs),
        dtype=bool,
        count=len(said),
    )


def _other_tags(said: Sequence[Tag], old: Sequence[Tag]) -> bool:
    if said == old:
        return False
    if len(said) != len(old):
        return True
    return any(
        left.name != right.name or (left.id is not None and left.id != right.id)
        for left, right in zip(said, old, strict=True)
    )


_COMPARE: dict[Column, Callable[[pd.Series[Any], pd.Series[Any]], Mask]] = {
    "name": _texts,
    "status": _texts,
    "category": _texts,
    "category_id": _numbers,
    "tags": _tags,
    "photo_urls": _photos,
}
