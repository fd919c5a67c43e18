"""Sides: the rows of a sheet beside the pets that they are about, in the store and in the base.

All that is in agreement is told apart by whole columns here; what is left over comes out row by
row, with the units in which it may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from petsync.diff import align
from petsync.diff.known import pet_of
from petsync.diff.rows import Row, said_rows
from petsync.diff.units import UNITS, Unit
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.columns import ADDING
from petsync.table.frame import pets_from_frame
from petsync.table.sheet import Sheet

__all__ = ["Sides"]

_UNITS_OF = tuple(
    tuple(unit for n, unit in enumerate(UNITS) if bits >> n & 1) for bits in range(1 << len(UNITS))
)
Bits = npt.NDArray[np.uint8]


class Sides:
    """A sheet aligned with a snapshot's `pets` and with its base.

    `named`: which pets rows mean. `ignored` and `unchanged`: numbers of rows. `older`: the
    numbers of the rows that say what was exported while the store says something newer.
    """

    def __init__(self, sheet: Sheet, pets: pd.DataFrame, base: Base | None) -> None:
        self.pets, self._frame, self._base = pets, sheet.frame, base
        self._said = pets if base is None else base.said_frame
        action = sheet.frame["action"]
        self.active = (action != "ignore").to_numpy(dtype=bool)
        self._deletes = (action == "delete").to_numpy(dtype=bool)
        self._adds = action.isin(ADDING).to_numpy(dtype=bool)
        self._places = _places(self._frame, pets)
        self.named = self._named(sheet)
        self.ignored = int((~self.active).sum())
        self.older: list[int] = []
        at, bits = self._left_over()
        self.unchanged = int(self.active.sum()) - len(at)
        self._at, self._bits = at, bits

    def rows(self) -> Iterator[Row]:
        """The rows that may be anything but in agreement with their pet, in the sheet's order."""
        units = [_UNITS_OF[bits] for bits in self._bits.tolist()]
        return said_rows(self._frame.iloc[self._at], self._places[self._at], units)

    def pet(self, place: int) -> Pet:
        """The pet of the snapshot at a place."""
        known = self._near.get(place)
        return pets_from_frame(self.pets.iloc[[place]])[0] if known is None else known

    def exported(self, pet_id: int | None) -> Pet | None:
        """The pet as it was exported, None where that is not known."""
        if pet_id is None or self._base is None:
            return None
        if pet_id in self._of_base:
            return self._of_base[pet_id]
        return pet_of(pet_id, self._base.frame)

    def names(self, ids: Iterable[int]) -> dict[int, str]:
        """What the store calls the pets of these ids, those that are in the snapshot."""
        given = pd.Series(list(dict.fromkeys(ids)), dtype="Int64")
        places = align.positions(given, self.pets)
        there = self.pets.iloc[places[places >= 0]]
        named = there[there["name"].notna()]
        return dict(zip(named["id"].tolist(), named["name"].tolist(), strict=True))

    def _named(self, sheet: Sheet) -> align.Mask:
        blocked = pd.Series(sorted(sheet.blocked_ids), dtype="Int64")
        places = np.concatenate([self._places, align.positions(blocked, self.pets)])
        named = np.zeros(len(self.pets), dtype=bool)
        named[places[places >= 0]] = True
        return named

    def _left_over(self) -> tuple[align.Positions, Bits]:
        compared = self.active & ~self._deletes & (self._places >= 0)
        others = np.flatnonzero(self.active & ~compared)
        at, bits = self._differing(np.flatnonzero(compared))
        everywhere = np.concatenate([at, others])
        all_bits = np.concatenate([bits, np.full(len(others), len(_UNITS_OF) - 1, np.uint8)])
        order = np.argsort(everywhere, kind="stable")
        return everywhere[order], all_bits[order]

    def _differing(self, at: align.Positions) -> tuple[align.Positions, Bits]:
        """Of the rows `at`, those that differ from their pet in what they may have edited."""
        bits = _bits(align.differences(self._frame, at, self.pets, self._places[at]))
        at, bits = at[bits > 0], bits[bits > 0]
        edited = (bits & self._edited(at)) > 0
        self.older = self._frame.index[at[~edited]].tolist()
        return at[edited], bits[edited]

    def _edited(self, at: align.Positions) -> Bits:
        """In which units the rows say something else than the base; all, where it lacks them."""
        result = np.full(len(at), len(_UNITS_OF) - 1, np.uint8)
        if self._base is None or not len(at):
            return result
        places = align.positions(self._frame["id"].iloc[at], self._said)
        # A row that is to add its pet says all that it says, whatever was exported.
        there = (places >= 0) & ~self._adds[at]
        result[there] = _bits(align.differences(self._frame, at[there], self._said, places[there]))
        return result

    @cached_property
    def _near(self) -> Mapping[int, Pet]:
        """The pets of all rows that are left over, made in one go."""
        places = np.unique(self._places[self._at])
        places = places[places >= 0]
        pets = pets_from_frame(self.pets.iloc[places])
        return dict(zip(places.tolist(), pets, strict=True))

    @cached_property
    def _of_base(self) -> Mapping[int, Pet | None]:
        """The base's pets of all rows that are left over; None where it lacks them."""
        if self._base is None or "id" not in self._frame:
            return {}
        ids = self._frame["id"].iloc[self._at].dropna()
        places = align.positions(ids, self._base.frame)
        pets = pets_from_frame(self._base.frame.iloc[places[places >= 0]])
        return {**dict.fromkeys(ids.tolist()), **{int(pet.id or 0): pet for pet in pets}}


def _places(frame: pd.DataFrame, pets: pd.DataFrame) -> align.Positions:
    if "id" not in frame:
        return np.full(len(frame), -1, dtype=np.intp)
    return align.positions(frame["id"], pets)


def _bits(masks: Mapping[Unit, align.Mask]) -> Bits:
    """A bit for each unit."""
    result = np.zeros(len(masks["name"]), dtype=np.uint8)
    for n, unit in enumerate(UNITS):
        result |= masks[unit].astype(np.uint8) << n
    return result
