"""The rows of a sheet one by one, for those that have to be looked at closely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from petsync.diff import align
from petsync.table.columns import COLUMNS, Column

__all__ = ["Row", "said_rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its number, what is asked for, and what it says in which column."""

    number: int
    action: str
    pet_id: int | None
    said: Mapping[Column, Any]
    place: int
    """Its pet's place in the snapshot, -1 for none."""


def said_rows(frame: pd.DataFrame, places: align.Positions) -> Iterator[Row]:
    """The rows of a sheet's frame, each with the place of its pet."""
    said_columns: list[Column] = [c for c in COLUMNS if c in frame and c != "id"]
    columns = [_said(frame[c]) for c in said_columns]
    ids = _said(frame["id"]) if "id" in frame else [None] * len(frame)
    numbers, actions = frame.index.tolist(), frame["action"].tolist()
    for n, (number, action, pet_id) in enumerate(zip(numbers, actions, ids, strict=True)):
        cells = ((name, values[n]) for name, values in zip(said_columns, columns, strict=True))
        said: dict[Column, Any] = {name: value for name, value in cells if value is not None}
        yield Row(number, action, pet_id, said, int(places[n]))


def _said(column: pd.Series[Any]) -> list[Any]:
    """The values, None where the column says nothing."""
    if column.dtype == object:
        return [value if isinstance(value, list) else None for value in column]
    values = column.astype(object).where(column.notna(), None)
    return list(values)
