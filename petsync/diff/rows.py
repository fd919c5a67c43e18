"""The rows of a sheet one by one, for those that have to be looked at closely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pandas as pd

from petsync.diff import align
from petsync.diff.merge import Said
from petsync.diff.units import UNITS, Unit
from petsync.table.columns import COLUMNS, Column

__all__ = ["Row", "said_rows"]


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row: its number, what is asked for, its pet's id, what it says in which column, its
    pet's place in the snapshot (-1 for none), and the units that may differ from that pet's.
    """

    number: int
    action: str
    pet_id: int | None
    said: Said
    place: int
    units: tuple[Unit, ...] = UNITS


def said_rows(
    frame: pd.DataFrame, places: align.Positions, units: Sequence[tuple[Unit, ...]] | None = None
) -> Iterator[Row]:
    """The rows of a sheet's frame, each with the place of its pet."""
    names: list[Column] = [c for c in COLUMNS if c in frame and c != "id"]
    columns = [_said(frame[c]) for c in names]
    ids = _said(frame["id"]) if "id" in frame else [None] * len(frame)
    cells = zip(*columns, strict=True) if columns else iter([()] * len(frame))
    given = units or [UNITS] * len(frame)
    heads = zip(frame.index.tolist(), frame["action"].tolist(), ids, strict=True)
    for head, values, place, may_differ in zip(heads, cells, places.tolist(), given, strict=True):
        pairs = zip(names, values, strict=True)
        said: dict[Column, Any] = {name: value for name, value in pairs if value is not None}
        yield Row(*head, said, place, may_differ)


def _said(column: pd.Series[Any]) -> list[Any]:
    """The values, None where the column says nothing."""
    if column.dtype == object:
        return [value if isinstance(value, list) else None for value in column.tolist()]
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if missing else value for value, missing in pairs]
