"""Rows that say the same: with one id they are one row, without an id as many pets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from petsync.sheets.grid import Bools, Cells, Grid
from petsync.sheets.headers import ACTION
from petsync.sheets.judge.ids import Numbers
from petsync.sheets.judge.notes import Note, Notes
from petsync.table.sheet import cell_address

__all__ = ["collapse", "note_repeated"]

_Rows = np.ndarray[Any, np.dtype[np.intp]]
_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_LISTED = 10


def collapse(
    grid: Grid, ours: Mapping[str, int], ids: Numbers, active: Bools, notes: Notes
) -> Bools:
    """Which rows only repeat another, word for word in our columns.

    `ours` are their positions, `ids` the rows' ids. Rows that are not `active` do not count.
    """
    repeats = np.zeros(len(ids), dtype=bool)
    given = np.flatnonzero(active & ~np.asarray(ids.isna()))
    numbers = ids[given].to_numpy(dtype=np.int64)
    several = pd.Series(numbers).duplicated(keep=False).to_numpy()
    rows, numbers = given[several], numbers[several]
    if not len(rows):
        return repeats
    place = grid.places[ours["id"]]
    codes = {name: _codes(grid.columns[at].take(rows).text) for name, at in ours.items()}
    same = _combined(list(codes.values()))
    for group in _groups(numbers):
        where = {
            at: cell_address(grid.tab, place, int(grid.rows[at])) for at in rows[group].tolist()
        }
        number = str(numbers[group[0]])
        if (same[group] == same[group[0]]).all():
            _note_copies(number, where, notes, repeats)
        else:
            _note_differing(number, where, _differing(codes, group), notes)
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
    for group in _groups(_combined([_codes(cells.take(rows).trimmed()) for cells in said])):
        _note_group(grid, ours, rows[group].tolist(), free, notes)


def _alike(names: Cells, free: Bools, active: Bools) -> _Rows:
    """The rows with a name that is there more than once, and once at least in a row of `free`."""
    codes = pc.dictionary_encode(names.trimmed()).indices.to_numpy(zero_copy_only=False)
    counts = np.bincount(codes[active], minlength=codes.max(initial=0) + 1)
    wanted = np.zeros(len(counts), dtype=bool)
    wanted[codes[free]] = True
    wanted &= counts > 1
    return np.flatnonzero(wanted[codes] & active & ~names.blank())


def _codes(text: Any) -> _Numbers:
    """A number for each cell of an Arrow array, the same for the same text."""
    codes: _Numbers = pc.dictionary_encode(text).indices.to_numpy().astype(np.int64)
    return codes


def _combined(columns: Sequence[_Numbers]) -> _Numbers:
    """A number for each row, the same for rows that have the same in every column."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for codes in columns:
        pair = number * (codes.max(initial=0) + 1) + codes
        number = np.unique(pair, return_inverse=True)[1]
    return number


def _groups(numbers: _Numbers) -> Iterator[_Rows]:
    """The positions of each number that is there several times, in the order of the numbers."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    ends = np.append(starts[1:], len(order))
    for n in np.flatnonzero(ends - starts > 1).tolist():
        yield order[starts[n] : ends[n]]


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


def _note_differing(
    number: str, where: Mapping[int, str], differing: Sequence[str], notes: Notes
) -> None:
    problem = (
        f"The id {number} stands in {len(where)} rows that say different things "
        f"({', '.join(differing)}): {_listed(where.values())}."
    )
    notes.add_all(where, "id", Note("duplicate-id", number, problem))


def _note_copies(number: str, where: Mapping[int, str], notes: Notes, repeats: Bools) -> None:
    first, *again = where
    problem = f"The row is the same as {where[first]}, word for word; it is used once."
    repeats[again] = True
    notes.add_all(again, "id", Note("duplicate-row", number, problem))


def _differing(codes: Mapping[str, _Numbers], group: _Rows) -> list[str]:
    """The columns in which these rows are not the same."""
    names = [name for name, each in codes.items() if (each[group] != each[group[0]]).any()]
    return [name for name in names if name != "id"] or names


def _listed(places: Iterable[str]) -> str:
    shown = list(places)
    more = f", and {len(shown) - _LISTED:,} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more
