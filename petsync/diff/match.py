"""Rows without an id: which pet, if any, each of them means.

With `match_on` a row means the one pet that agrees with it in those columns. Without it, a row
means a pet only if that pet already is everything that the row says and no other row claims it:
so a sheet that was applied once does not add its pets a second time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.diff.align import Mask
from petsync.diff.fields import differing, key, normal
from petsync.diff.merge import Said, merged, said_pet
from petsync.diff.pairing import paired
from petsync.diff.rows import Row
from petsync.diff.units import UNITS, unit_key
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Pet
from petsync.table.columns import CLEARED, Column
from petsync.table.frame import pets_from_frame

__all__ = ["Candidates", "key_of", "names_among"]

_TRIMMED = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"


class Candidates:
    """The pets that no row claims by id, found by their name (or by the columns of `match_on`)."""

    def __init__(
        self, pets: pd.DataFrame, free: Mask, names: Collection[str], on: Sequence[Column]
    ) -> None:
        self._on = tuple(on) or ("name",)
        self._places: dict[tuple[object, ...], list[tuple[int, Pet]]] = defaultdict(list)
        wanted = free & names_among(pets["name"], names) if "name" in self._on else free
        places = np.flatnonzero(wanted)
        for place, pet in zip(places.tolist(), pets_from_frame(pets.iloc[places]), strict=True):
            self._places[_pet_key(pet, self._on)].append((place, pet))

    def agreeing(self, said: Said) -> list[tuple[int, Pet]]:
        """The pets that agree with the row in the columns to match on."""
        key = key_of(said, self._on)
        return [] if key is None else self._places.get(key, [])

    def identical(self, rows: Sequence[Row], vocabulary: Vocabulary) -> dict[int, tuple[int, Pet]]:
        """By row number, a pet that is all that the row says, and its place; none is given twice.

        As many rows as can have a pet get one, those that say most before those that say less,
        whatever order they stand in.
        """
        groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: (-len(row.said), _content(row))):
            key = key_of(row.said, self._on)
            if key is not None and key in self._places:
                groups[key].append(row)
        found: dict[int, tuple[int, Pet]] = {}
        for key, group in groups.items():
            found |= self._pairs(group, self._places[key], vocabulary)
        return found

    def _pairs(
        self, rows: Sequence[Row], pets: Sequence[tuple[int, Pet]], vocabulary: Vocabulary
    ) -> dict[int, tuple[int, Pet]]:
        def fits(row: int, place: int) -> bool:
            pet = pets[place][1]
            return not differing(merged(pet, rows[row].said, vocabulary), pet)

        kinds = [tuple(unit_key(pet, unit) for unit in UNITS) for _, pet in pets]
        places = paired([_content(row) for row in rows], kinds, fits)
        pairs = zip(rows, places, strict=True)
        return {row.number: pets[place] for row, place in pairs if place is not None}


def names_among(names: pd.Series[Any], wanted: Collection[str]) -> Mask:
    """Which of the names are, as they are compared, among those that are wanted."""
    array = pa.array(names, from_pandas=True)
    mask: Mask = np.array(pc.is_in(array, value_set=pa.array(sorted(wanted), array.type)))
    # A name that is not plain may be one of them after all.
    plain = pc.and_(pc.string_is_ascii(array), pc.equal(pc.ascii_trim(array, _TRIMMED), array))
    odd = np.flatnonzero(~np.array(pc.fill_null(plain, fill_value=True)))
    mask[odd] = [normal(name) in wanted for name in names.iloc[odd].tolist()]
    return mask


def _content(row: Row) -> str:
    """What the row says, for sorting and to tell rows apart that say the same."""
    return repr(sorted(row.said.items()))


def key_of(said: Said, on: Sequence[Column]) -> tuple[object, ...] | None:
    """What a row says in the columns to match on; None where it leaves one out."""
    if any(said.get(column) in (None, "", CLEARED) for column in on):
        return None
    return _pet_key(said_pet(said), on)


def _pet_key(pet: Pet, on: Sequence[Column]) -> tuple[object, ...]:
    return tuple(key(pet, column) for column in on)
