"""Pets of a table, by their ids."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from petsync.diff import align
from petsync.model import Pet
from petsync.table.frame import pets_from_frame

__all__ = ["pet_of", "pets_of"]


def pets_of(ids: Iterable[int], frame: pd.DataFrame) -> tuple[Pet, ...]:
    """The pets of these ids, those that are there, each once."""
    places = align.positions(pd.Series(list(dict.fromkeys(ids)), dtype="Int64"), frame)
    return tuple(pets_from_frame(frame.iloc[places[places >= 0]]))


def pet_of(pet_id: int, frame: pd.DataFrame) -> Pet | None:
    """The pet of this id, None where it is not there."""
    return next(iter(pets_of((pet_id,), frame)), None)
