"""Rows that say the same: with one id they are one row, without an id as many pets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from petsync.sheets.grid import Bools, Cells, Grid
from petsync.sheets.headers import ACTION
from petsync.sheets.ids import Numbers
from petsync.sheets.notes import Note, Notes
from petsync.table.sheet import cell_address

__all__ = ["collapse", "note_repeated"]

_Rows = np.ndarray[Any, np.dtype[np.intp]]
_LISTED = 10


def collapse(
    grid: Grid, ours: Mapping[str, int], ids: Numbers, active: Bools, notes: Notes
) -> Bools:
    """Which rows only repeat another, word for word in our columns.

    `ours` are their positions, `ids` the rows' ids. Rows that are not `active` do not count.
    """
    columns = {name: grid.columns[position] for name, position in ours.items()}
    repeats = np.zeros(len(ids), dtype=bool)
    counted = active & ~np.asarray(ids.isna())
    series = pd.Series(ids)[counted]
    place = grid.places[ours["id"]] if "id" in ours else ""
    for number, group in series[series.duplicated(keep=False)].groupby(lambda at: ids[at]):
        rows = group.index.tolist()
        where = {at: cell_address(grid.tab, place, int(grid.rows[at])) for at in rows}
        _judge(columns, str(number), where, notes, repeats)
    return repeats


def note_repeated(
    grid: Grid, ours: Mapping[str, int], free: Bools, active: Bools, notes: Notes
) -> None:
    """Note rows without an id (`free`) that say what another `active` row says too: both count."""
    if "name" not in ours or not free.any():
        return
    rows = _alike(grid.columns[ours["name"]], free, active)
    if not len(rows):
        return
    said = [grid.columns[ours[name]] for name in ours if name not in ("id", ACTION)]
    for group in _groups([cells.take(rows) for cells in said]):
        _note_group(grid, ours, rows[group].tolist(), free, notes)


def _alike(names: Cells, free: Bools, active: Bools) -> _Rows:
    """The rows with a name that is there more than once, and once at least in a row of `free`."""
    codes = pc.dictionary_encode(names.trimmed()).indices.to_numpy(zero_copy_only=False)
    counts = np.bincount(codes[active], minlength=codes.max(initial=0) + 1)
    wanted = np.zeros(len(counts), dtype=bool)
    wanted[codes[free]] = True
    wanted &= counts > 1
    return np.flatnonzero(wanted[codes] & active & ~names.blank())


def _groups(columns: Sequence[Cells]) -> Iterator[_Rows]:
    """The positions, several each time, at which all columns say the same."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for cells in columns:
        codes = pc.dictionary_encode(cells.trimmed()).indices.to_numpy(zero_copy_only=False)
        pair = number * (codes.max(initial=0) + 1) + codes
        number = np.unique(pair, return_inverse=True)[1]
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    several = np.flatnonzero(np.diff(starts, append=len(order)) > 1)
    ends = np.append(starts, len(order))
    yield from (order[starts[n] : ends[n + 1]] for n in several.tolist())


def _note_group(
    grid: Grid, ours: Mapping[str, int], group: Sequence[int], free: Bools, notes: Notes
) -> None:
    known = next((at for at in group if not free[at]), group[0])
    row = cell_address(grid.tab, grid.places[ours["name"]], int(grid.rows[known]))
    also = "has no id either" if free[known] else "has an id"
    problem = f"The row says the same as {row}, which {also}; it stands for one more pet."
    again = (at for at in group if free[at] and at != known)
    notes.add_all(again, "name", Note("row-repeated", _name(grid, ours, known), problem))


def _name(grid: Grid, ours: Mapping[str, int], at: int) -> str:
    text: str = grid.columns[ours["name"]].text[at].as_py()
    return text


def _judge(
    columns: Mapping[str, Cells],
    number: str,
    where: Mapping[int, str],
    notes: Notes,
    repeats: Bools,
) -> None:
    said: dict[tuple[str, ...], int] = {}
    again: dict[int, int] = {}
    for at in where:
        first = said.setdefault(tuple(column.text[at].as_py() for column in columns.values()), at)
        if first != at:
            again[at] = first
    if len(said) > 1:
        differing = _differing(columns, said)
        problem = (
            f"The id {number} stands in {len(where)} rows that say different things "
            f"({', '.join(differing)}): {_listed(where.values())}."
        )
        notes.add_all(where, "id", Note("duplicate-id", number, problem))
        return
    for at, first in again.items():
        repeats[at] = True
        problem = f"The row is the same as {where[first]}, word for word; it is used once."
        notes.add(at, "id", Note("duplicate-row", number, problem))


def _differing(columns: Mapping[str, Cells], said: Iterable[tuple[str, ...]]) -> list[str]:
    """The columns in which these rows are not the same."""
    texts = zip(*said, strict=True)
    names = [name for name, cells in zip(columns, texts, strict=True) if len(set(cells)) > 1]
    return [name for name in names if name != "id"] or names


def _listed(places: Iterable[str]) -> str:
    shown = list(places)
    more = f", and {len(shown) - _LISTED:,} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more
