"""The exact texts of the cells that LibreOffice changes when it saves a workbook.

Few workbooks have any: of these a hidden worksheet holds the texts, by column and id. A cell
whose text is just what LibreOffice makes of its own reads as that: what a program mangled is no
edit. Nothing else is ever read from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from petsync.errors import SheetError
from petsync.sheets.export.resaved import FRAGILE, resaved
from petsync.sheets.grid import Cells, Grid
from petsync.sheets.headers import Mapper
from petsync.sheets.ooxml.hidden import lines_of
from petsync.table.parcel import ParcelError, pack, unpack

if TYPE_CHECKING:
    from petsync.sheets.ooxml.archive import Package

__all__ = ["TAB", "exact_lines", "lines_without", "restored"]

TAB = "petsync texts"
"""The worksheet that holds them."""

_Texts = dict[str, list[tuple[str, str]]]
"""By column: the id, as a text, and the cell's text."""


def exact_lines(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of the worksheet; [] where no text is in danger."""
    found = {name: _fragile(columns["id"], texts) for name, texts in columns.items()}
    kept = {name: texts for name, texts in found.items() if texts}
    return pack(msgspec.json.encode(kept)) if kept else []


def restored(grid: Grid, package: Package, mapper: Mapper) -> Grid:
    """The grid with the exact texts, as far as the workbook has them."""
    kept = _kept(package)
    if not kept or not grid.columns:
        return grid
    ours = mapper.match(grid.header, grid.places).ours
    ids = _ids(grid, ours)
    columns = list(grid.columns)
    for name, texts in kept.items():
        if name in ours:
            columns[ours[name]] = _with_exact(columns[ours[name]], ids, texts)
    return replace(grid, columns=columns)


def lines_without(package: Package, edited: Collection[tuple[str, str]]) -> list[str] | None:
    """The worksheet's lines without the cells that were edited, by id and column: what was exact
    there is no more. None where none of them is in it.
    """
    kept = _kept(package)
    left = {
        name: [pair for pair in texts if (pair[0], name) not in edited]
        for name, texts in kept.items()
    }
    return None if left == kept else pack(msgspec.json.encode(left))


def _fragile(ids: Sequence[str], texts: Sequence[str]) -> list[tuple[str, str]]:
    together = "\0".join(texts)
    if "\r" not in together and "_x" not in together:
        return []
    risky = [FRAGILE.search(text) is not None for text in texts]
    found = list(zip(compress(ids, risky), compress(texts, risky), strict=True))
    # Where a row says by itself what would become of another one's text, neither is touched.
    said = set(zip(ids, texts, strict=True))
    return [
        (number, text)
        for number, text in found
        if (forms := resaved(text)) and not any((number, form) in said for form in forms)
    ]


def _kept(package: Package) -> _Texts:
    try:
        lines = lines_of(package, TAB)
        return msgspec.json.decode(unpack(lines), type=_Texts) if lines else {}
    except (ParcelError, SheetError, msgspec.DecodeError, UnicodeDecodeError):
        # The cells are then read as they stand, and a plan shows what differs.
        return {}


def _ids(grid: Grid, ours: Mapping[str, int]) -> list[str]:
    if "id" not in ours:
        return [""] * len(grid.rows)
    ids: list[str] = grid.columns[ours["id"]].trimmed().to_pylist()
    return ids


def _with_exact(cells: Cells, ids: Sequence[str], texts: Sequence[tuple[str, str]]) -> Cells:
    forms = {(number, form): text for number, text in texts for form in resaved(text)}
    found: list[str] = cells.text.to_pylist()
    exact = [forms.get((number, text), text) for number, text in zip(ids, found, strict=True)]
    return Cells(pa.array(exact, pa.large_string()), cells.kinds)
