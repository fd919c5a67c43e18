"""Rows with the same id: the same word for word is one row, anything else blocks them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from petsync.sheets.grid import Bools, Cells, Grid
from petsync.sheets.ids import Numbers
from petsync.sheets.notes import Note, Notes
from petsync.table.sheet import cell_address

__all__ = ["collapse"]


def collapse(
    grid: Grid, ours: Sequence[int], ids: Numbers, active: Bools, place: str, notes: Notes
) -> Bools:
    """Which rows only repeat another, word for word in the columns `ours`.

    `ids` are the rows' ids, `place` is their column. Rows that are not `active` do not count.
    """
    columns = [grid.columns[position] for position in ours]
    repeats = np.zeros(len(ids), dtype=bool)
    counted = active & ~np.asarray(ids.isna())
    series = pd.Series(ids)[counted]
    for number, group in series[series.duplicated(keep=False)].groupby(lambda at: ids[at]):
        rows = group.index.tolist()
        where = {at: cell_address(grid.tab, place, int(grid.rows[at])) for at in rows}
        _judge(columns, str(number), where, notes, repeats)
    return repeats


def _judge(
    columns: Sequence[Cells], number: str, where: Mapping[int, str], notes: Notes, repeats: Bools
) -> None:
    said: dict[tuple[Any, ...], int] = {}
    again: dict[int, int] = {}
    for at in where:
        first = said.setdefault(tuple(column.text[at].as_py() for column in columns), at)
        if first != at:
            again[at] = first
    if len(said) > 1:
        listed = ", ".join(where.values())
        problem = f"The id {number} stands in several rows that say different things: {listed}."
        notes.add_all(where, "id", Note("duplicate-id", number, problem))
        return
    for at, first in again.items():
        repeats[at] = True
        problem = f"The row is the same as {where[first]}, word for word; it is used once."
        notes.add(at, "id", Note("duplicate-row", number, problem))
