"""Rows that say just what another pet is: ids that were sorted or moved without their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from petsync.diff import align
from petsync.diff.fields import normal
from petsync.diff.match import names_among
from petsync.table.base import Base
from petsync.table.columns import ADDING
from petsync.table.sheet import Sheet

__all__ = ["Exchanged", "exchanged", "twins"]

_NEAR = 10
"""A row is held against so many pets of its name at the most."""
_LEAST = 2
"""One row alone is what a person writes; identities go astray in pairs."""


class Exchanged(NamedTuple):
    """A row that says of its pet what pet `other` was: its number, and both their ids and names."""

    row: int
    pet_id: int
    was: str
    other: int
    name: str


def exchanged(sheet: Sheet, base: Base | None, rows: Collection[int]) -> tuple[Exchanged, ...]:
    """Those of the `rows` that say, in all that they say, what both sides agreed on for another
    pet, whose own row says something else by now; none where it is one alone.
    """
    frame = sheet.frame
    if base is None or len(rows) < _LEAST or not {"id", "name"} <= {*frame.columns}:
        return ()
    before = base.said_frame
    places = align.positions(frame["id"], before)
    acts = frame["action"].isin(("ignore", "delete", *ADDING)).to_numpy()
    at = np.flatnonzero(~acts & (places >= 0))
    masks = align.differences(frame, at, before, places[at])
    renamed = at[masks["name"] & frame.index[at].isin(list(rows))]
    others = before.iloc[places[at[np.logical_or.reduce([*masks.values()])]]]
    found = twins(frame.iloc[renamed], others)
    some = [(int(row), place) for row, place in zip(renamed, found, strict=True) if place >= 0]
    if len(some) < _LEAST:
        return ()
    return tuple(_told(frame, row, before.iloc[places[row]], others.iloc[p]) for row, p in some)


def twins(rows: pd.DataFrame, pets: pd.DataFrame) -> align.Positions:
    """For each row the place of a pet that has its name, and of which it says nothing else in any
    other column; -1 where there is none.
    """
    result = np.full(len(rows), -1, dtype=np.intp)
    if "name" not in rows or not len(rows) or not len(pets):
        return result
    named = [normal(None if pd.isna(name) else name) for name in rows["name"]]
    near = _by_name(pets, frozenset(filter(None, named)))
    pairs = [(n, place) for n, name in enumerate(named) for place in near.get(name, ())]
    if not pairs:
        return result
    at, places = (np.array(each, dtype=np.intp) for each in zip(*pairs, strict=True))
    said = rows.iloc[at].reset_index(drop=True)
    masks = align.differences(said, np.arange(len(said)), pets, places)
    same = ~np.logical_or.reduce([*masks.values()])
    # The first one of each row is what stays.
    result[at[same][::-1]] = places[same][::-1]
    return result


def _by_name(pets: pd.DataFrame, wanted: Collection[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(names_among(pets["name"], wanted)).tolist():
        found = places[normal(pets["name"].iloc[place])]
        if len(found) < _NEAR:
            found.append(place)
    return places


def _told(frame: pd.DataFrame, row: int, own: pd.Series[Any], other: pd.Series[Any]) -> Exchanged:
    return Exchanged(
        int(frame.index[row]), int(own["id"]), own["name"] or "", int(other["id"]), other["name"]
    )
