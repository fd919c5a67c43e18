"""Copies of one pet, in one answer or in two: equal ones are one, others are read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from petsync.client.api import AsyncApi
from petsync.client.lookup import look_up
from petsync.diff.snapshot import Unanswered
from petsync.errors import ResponseError
from petsync.model import Pet
from petsync.table.frame import frame_from_pets, without_duplicates

__all__ = ["settled"]


async def settled(api: AsyncApi, frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[int, ...]]:
    """The table with one row for each id, sorted by it and without rows that have none, and the
    ids of the pets whose copies differed, which are as getPetById says.

    Raises ResponseError for such a pet that cannot be read, and what look_up raises.
    """
    numbered = _numbered(frame)
    if _ascends(numbered["id"]):
        return numbered, ()
    differing = _differing(numbered)
    if differing:
        found = await look_up(api, differing)
        pets = [_read(pet_id, found[pet_id]) for pet_id in differing]
        others = numbered[~numbered["id"].isin(differing)]
        here = frame_from_pets([pet for pet in pets if pet is not None])
        numbered = pd.concat([others, here], ignore_index=True)
    return without_duplicates(numbered).sort_values("id", ignore_index=True), differing


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    missing = frame["id"].isna()
    return frame[~missing].reset_index(drop=True) if missing.any() else frame


def _ascends(ids: pd.Series[int]) -> bool:
    """Whether each id is above the one before, as nearly every service lists them."""
    numbers = ids.to_numpy(np.int64)
    return bool((numbers[1:] > numbers[:-1]).all())


def _differing(frame: pd.DataFrame) -> tuple[int, ...]:
    """The ids whose rows are not the same pet throughout, in order."""
    repeated = frame["id"].duplicated(keep=False)
    if not repeated.any():
        return ()
    copies = frame[repeated].sort_values("id", kind="stable")
    changes = {str(name): _changes(copies[name]) for name in copies}
    is_copy = ~changes.pop("id")
    unlike = np.logical_or.reduce([*changes.values()]) & is_copy
    return tuple(copies["id"].iloc[1:][unlike].unique().tolist())


def _changes(column: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Whether each value but the first differs from the one before it."""
    values = column.astype(object).where(column.notna(), None).to_numpy()
    changed: npt.NDArray[np.bool_] = values[1:] != values[:-1]
    return changed.astype(bool)


def _read(pet_id: int, found: Pet | Unanswered | None) -> Pet | None:
    if isinstance(found, Unanswered):
        raise ResponseError(
            f"pet {pet_id} came in copies that differ, and cannot be read by its id: "
            f"{found.problem}",
            pet_id=pet_id,
            hint="Which copy holds, nobody can say. Try again when the service answers.",
        )
    return found
