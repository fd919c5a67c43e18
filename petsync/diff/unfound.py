"""Rows of a sheet that stand for no pet, and why they stay: notes of a round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from petsync.diff.align import Mask
from petsync.diff.round import Open
from petsync.table.columns import ADDING
from petsync.table.sheet import Sheet

__all__ = ["Rows", "told_rows", "uncertain"]

_GONE = "its pet is gone from the store, and the row stays, as deleting was not asked for"
_LEFT = (
    "Take the row out, or set delete_missing in the job's settings, which takes out such rows; in "
    "a job that sends, the row with its id emptied is added as a new pet."
)
_NEVER = "the store has no such pet, and it is not sent, as the store leads"
_UNSENT = "its action is `{}`, which is not sent, as the store leads"
_UNTOLD = "the store did not say whether it has this pet"
_NAMELESS = "the row has no id and means no pet that the store has; it is not sent"


class Rows(NamedTuple):
    """The rows of a sheet: which take from the store, and of these: `left`, whose pet was there
    once and that stay; `never`, whose pet the store has not; `unknown`, of which it did not tell.
    """

    frame: pd.DataFrame
    takes: Mask
    left: Mask
    never: Mask
    unknown: Mask


def told_rows(rows: Rows, sheet: Sheet, *, leads: bool) -> Iterator[Open]:
    """A note on each row that has no pet and stays. In a merge the plan tells of all but those
    whose pet is gone.
    """
    action = rows.frame["action"]
    asks = action.isin(("delete", *ADDING)).to_numpy() & ~rows.takes
    free = rows.takes & rows.frame["id"].isna().to_numpy()
    told: tuple[tuple[Mask, str], ...] = ((rows.left, _GONE),)
    if leads:
        others = ((asks, _UNSENT), (free, _NAMELESS), (rows.never, _NEVER), (rows.unknown, _UNTOLD))
        told = (*told, *others)
    why = {at: problem for mask, problem in told for at in np.flatnonzero(mask).tolist()}
    for at, problem in sorted(why.items()):
        yield _note(rows.frame, at, sheet, problem.format(action.iloc[at]))


def uncertain(sheet: Sheet) -> list[str]:
    """The addresses of rows of which nobody can tell whose they are: blocked ones with no id that
    can be trusted, and ignored ones without any.
    """
    frame = sheet.frame
    lacking = frame["id"].isna() if "id" in frame else pd.Series(data=True, index=frame.index)
    ignored = frame.index[(lacking & (frame["action"] == "ignore")).to_numpy(dtype=bool)]
    return [sheet.address(row) for row in (*sheet.unidentified, *ignored.tolist())]


def _note(frame: pd.DataFrame, at: int, sheet: Sheet, problem: str) -> Open:
    row, number = int(frame.index[at]), frame["id"].iloc[at]
    name = frame["name"].iloc[at] if "name" in frame else None
    return Open(
        kind="note",
        problem=problem,
        pet_id=None if pd.isna(number) else int(number),
        name="" if name is None or pd.isna(name) else str(name),
        row=row,
        address=sheet.address(row),
        hint=_LEFT if problem == _GONE else "",
    )
