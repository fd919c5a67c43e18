"""write_corrected: write a copy of a sheet with its corrections in the cells."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from petsync.errors import SheetError
from petsync.sheets.files import Source
from petsync.sheets.grid import CellEdits, CellKind, Cells, Grid
from petsync.sheets.load import load_unchanged
from petsync.sheets.read import as_edited, read_grid
from petsync.sheets.results import (
    as_path,
    as_sheet,
    as_workbook,
    back_up,
    check_other_path,
    check_suffix,
    sidecar_lines,
    writable_corrections,
    write_file,
)
from petsync.table.sheet import Sheet

__all__ = ["corrected_source", "correction_texts", "write_corrected"]


def write_corrected(
    sheet: Sheet, path: str | Path, *, now: dt.datetime | None = None
) -> Path | None:
    """Write to `path` a copy of the sheet's file with the corrections in its cells. The copy has
    the same values as the sheet, and can be read without the corrections.

    The other cells and the base stay unchanged. A digital signature is left out, and so are
    macros unless the copy is an `.xlsm`. An existing file at `path` gets a backup, as in
    `write_back`. Return the path of the backup, or None if there was no file.

    Raises SheetError if `path` is the sheet itself or names another kind of file, the sheet's file
    has changed since it was read, the file at `path` is open in Excel or LibreOffice, a correction
    would replace a formula that other cells share, would change other cells or is too long for a
    cell, or the copy cannot be written.
    """
    sheet, path = as_sheet(sheet), as_path(path)
    source = load_unchanged(sheet, "Read it again.")
    check_other_path(path, source)
    check_suffix(path, source)
    sheet = as_edited(sheet)
    written = {(each.row, each.column) for each in writable_corrections(sheet)}
    for each in sheet.corrections:
        if (each.row, each.column) not in written:
            raise SheetError(
                f"{sheet.source}: {each.address}: the text of {len(each.after):,} characters is "
                "too long for a cell",
                hint="Nothing was written. Shorten the text.",
            )
    copy = corrected_source(source, sheet, path.suffix)
    backup = back_up(path, now)
    write_file(path, copy, copy.data, sidecar_lines(copy))
    return backup


def corrected_source(source: Source, sheet: Sheet, suffix: str = "") -> Source:
    """Return the sheet's file with the corrections in its cells. Raises SheetError if a correction
    would replace a formula that other cells share, or would change other cells.
    """
    if source.kind == "records":
        return as_workbook(source, sheet)[0]
    if source.kind == "text":
        # The modules for CSV are loaded only for CSV.
        from petsync.sheets.csv import edit_csv

        data = edit_csv(source, sheet, CellEdits(correction_texts(sheet)), ())
    else:
        from petsync.sheets.xlsx.edit import patch_workbook

        formula_cells = {(each.row, each.column) for each in sheet.corrections}
        data = patch_workbook(
            source,
            sheet,
            CellEdits(correction_texts(sheet)),
            (),
            suffix=suffix,
            replaceable=formula_cells,
            strict=True,
        )
    copy = replace(source, data=data)
    _check_agreement(source, copy, sheet)
    return copy


def correction_texts(sheet: Sheet) -> Mapping[int, Mapping[str, str]]:
    """Return the texts of the corrections, by row and column."""
    texts: dict[int, dict[str, str]] = defaultdict(dict)
    for each in writable_corrections(sheet):
        texts[each.row][each.column] = each.after
    return texts


def _check_agreement(source: Source, copy: Source, sheet: Sheet) -> None:
    """Raise SheetError if the cells of the copy differ from those of the corrected sheet."""
    tab = sheet.tab or None
    corrections = {each.address: each.after for each in writable_corrections(sheet)}
    before = read_grid(source, tab, sheet.mapping, corrections)
    after = read_grid(copy, tab, sheet.mapping)
    if not _are_equal_grids(before, after):
        raise SheetError(
            f"{source.path}: these corrections would also change other cells of the file",
            hint="Nothing was written. Correct the cells in the program that made the file.",
        )


def _are_equal_grids(grid: Grid, other: Grid) -> bool:
    # In a CSV file a text of several lines moves the rows below it, so row numbers may differ.
    return (
        list(grid.header) == list(other.header)
        and len(grid.rows) == len(other.rows)
        and grid.faults.keys() == other.faults.keys()
        and all(map(_are_equal_cells, grid.columns, other.columns))
    )


def _are_equal_cells(cells: Cells, other: Cells) -> bool:
    return bool(cells.text.equals(other.text)) and bool((_kinds(cells) == _kinds(other)).all())


def _kinds(cells: Cells) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.full(len(cells), CellKind.TEXT, dtype=np.int8) if cells.kinds is None else cells.kinds
