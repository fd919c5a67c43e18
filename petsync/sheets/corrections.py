"""Corrections: cells that are read as somebody says, while the file stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.errors import SheetError
from petsync.sheets.grid import Cells, Grid, Kind
from petsync.sheets.headers import Mapper
from petsync.table.correction import Correction
from petsync.table.sheet import cell_address

__all__ = ["corrected"]

_LONGEST = {"workbook": 32_767, "text": 131_072}
"""The most characters of a cell that spreadsheet programs, and that CSV readers, take."""
_SHOWN = 5
_CELL = re.compile(r"(?:'((?:[^']|'')+)'!|([^'!]+)!)?\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
_LINE = re.compile(r"line ([0-9]{1,9}), column ([0-9]{1,5})", re.IGNORECASE)


class _Place(NamedTuple):
    """Where a cell is: its row's number in the file, and its column's letters or number."""

    row: int
    column: str


class _RefusedError(Exception):
    """Why one correction cannot be made."""


def corrected(grid: Grid, mapper: Mapper, corrections: Mapping[str, str]) -> Grid:
    """The grid with the texts by address in its cells, and what was changed as its corrections.

    A cell becomes text, whatever it held; "" makes it blank. Raises SheetError, which names all of
    them, where addresses are not of cells below the header, or what is given is no text.
    """
    if not corrections:
        return grid
    desk = _Desk.of(grid, mapper)
    wanted: dict[tuple[int, int], str] = {}
    refused: list[str] = []
    for address, text in dict(corrections).items():
        try:
            at = desk.found(address)
            if wanted.setdefault(at, desk.checked(address, text)) != text:
                raise _RefusedError(f"{address}: this cell is corrected twice, to different texts")
        except _RefusedError as error:
            refused.append(str(error))
    if refused:
        raise _told(mapper.source, refused, desk)
    return desk.corrected(wanted)


def _told(source: str, refused: list[str], desk: _Desk) -> SheetError:
    more = f"; and {len(refused) - _SHOWN:,} more" if len(refused) > _SHOWN else ""
    return SheetError(
        f"{source}: a correction cannot be made: {'; '.join(refused[:_SHOWN])}{more}",
        hint=f"{desk.extent} Nothing was read.",
    )


@dataclass(frozen=True, slots=True)
class _Desk:
    """Finds and changes the cells of one grid; `names` are the columns' by their places."""

    grid: Grid
    names: Mapping[str, str]
    rows: Mapping[int, int]

    @classmethod
    def of(cls, grid: Grid, mapper: Mapper) -> _Desk:
        headers = mapper.match(grid.header, grid.places)
        named = {**headers.others, **headers.ours}
        return cls(
            grid,
            {grid.places[at]: name for name, at in sorted(named.items(), key=lambda each: each[1])},
            {row: at for at, row in enumerate(grid.rows.tolist())},
        )

    @property
    def extent(self) -> str:
        """Which cells there are, with one as an example."""
        if not len(self.grid.rows):
            return "The sheet has no row below its header."
        first, last = int(self.grid.rows[0]), int(self.grid.rows[-1])
        places = list(self.names)
        like = cell_address(self.grid.tab, places[0], first)
        kind, columns = ("rows", "columns") if self.grid.tab else ("lines", "columns")
        return (
            f"Its {kind} are {first} to {last}, its {columns} {', '.join(places[:12])}"
            f"{', …' if len(places) > 12 else ''}; a cell is named as in a finding: {like}."
        )

    def found(self, address: object) -> tuple[int, int]:
        """The position of the row and of the column. Raises _RefusedError."""
        place = self._place(address)
        if place.row == self.grid.header_row:
            raise _RefusedError(f"{address}: this is the header; map its columns instead")
        at = self.rows.get(place.row)
        if at is None or place.column not in self.names:
            raise _RefusedError(f"{address}: there is no such cell, or its whole row is blank")
        if at in self.grid.faults:
            raise _RefusedError(
                f"{address}: its row cannot be taken apart into cells; mend it in the file"
            )
        return at, list(self.grid.places).index(place.column)

    def _place(self, address: object) -> _Place:
        if not isinstance(address, str):
            raise _RefusedError(f"{address!r} is no address of a cell")
        if not self.grid.tab:
            line = _LINE.fullmatch(address.strip())
            if line is None:
                raise _RefusedError(f"{address!r} is no address of a cell")
            return _Place(int(line[1]), str(int(line[2])))
        cell = _CELL.fullmatch(address.strip())
        if cell is None:
            raise _RefusedError(f"{address!r} is no address of a cell")
        tab = cell[1].replace("''", "'") if cell[1] else cell[2]
        if tab is not None and tab != self.grid.tab:
            raise _RefusedError(f"{address}: the worksheet that is read is {self.grid.tab!r}")
        return _Place(int(cell[4]), cell[3].upper())

    def checked(self, address: str, text: object) -> str:
        """The text. Raises _RefusedError for what no cell can hold."""
        if not isinstance(text, str):
            raise _RefusedError(f"{address}: {text!r} is no text; put it in quotes")
        longest = _LONGEST["workbook" if self.grid.tab else "text"]
        if len(text) > longest:
            raise _RefusedError(f"{address}: a cell holds no more than {longest:,} characters")
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise _RefusedError(f"{address}: the text has half a character in it")
        return text

    def corrected(self, wanted: Mapping[tuple[int, int], str]) -> Grid:
        """The grid with these texts; those that stand there already are no corrections."""
        columns = list(self.grid.columns)
        done: list[Correction] = []
        for position in sorted({column for _, column in wanted}):
            texts = {at: text for (at, column), text in wanted.items() if column == position}
            cells = columns[position]
            new = {at: text for at, text in texts.items() if not _is(cells, at, text)}
            done += (self._correction(at, position, text) for at, text in new.items())
            columns[position] = _with(cells, new)
        order = {name: at for at, name in enumerate(self.names.values())}
        done.sort(key=lambda each: (each.row, order[each.column]))
        return replace(self.grid, columns=columns, corrections=done).without_blank_rows()

    def _correction(self, at: int, position: int, text: str) -> Correction:
        place, row = self.grid.places[position], int(self.grid.rows[at])
        return Correction(
            address=cell_address(self.grid.tab, place, row),
            row=row,
            column=self.names[place],
            before=self.grid.columns[position].text[at].as_py(),
            after=text,
        )


def _is(cells: Cells, at: int, text: str) -> bool:
    is_text = cells.kinds is None or cells.kinds[at] == Kind.TEXT
    return is_text and bool(cells.text[at].as_py() == text)


def _with(cells: Cells, texts: Mapping[int, str]) -> Cells:
    if not texts:
        return cells
    marked = np.zeros(len(cells), dtype=bool)
    marked[list(texts)] = True
    # Arrow takes them in the order of the cells.
    new = pa.array([texts[at] for at in sorted(texts)], pa.large_string())
    kinds = None if cells.kinds is None else np.where(marked, np.int8(Kind.TEXT), cells.kinds)
    return Cells(pc.replace_with_mask(cells.text, pa.array(marked), new), kinds)
