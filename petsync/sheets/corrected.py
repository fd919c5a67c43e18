"""write_corrected: a copy of the user's own sheet with its corrections in their cells."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from os.path import lexists
from pathlib import Path

import numpy as np

from petsync.errors import SheetError
from petsync.sheets.files import Source, must_be_closed
from petsync.sheets.grid import CellKind, Cells, Grid
from petsync.sheets.read import read_grid
from petsync.sheets.results import (
    apart,
    as_path,
    as_sheet,
    create_backup,
    fitting,
    load_unchanged,
    sidecar_lines,
    write_file,
)
from petsync.table.sheet import Sheet

__all__ = ["corrected_source", "texts", "write_corrected"]


def write_corrected(
    sheet: Sheet, path: str | Path, *, moment: dt.datetime | None = None
) -> Path | None:
    """Write to `path` a copy of the sheet's file with its corrections in their cells, so that it
    reads as the sheet does without any. All else stays: of a workbook every other cell, of a CSV
    file every byte of the other rows; the base that the sheet carries goes with it.

    A file that is at `path` is kept as `write_back` keeps one, under its name and the `moment`, and
    the path of that backup is returned; None where there was none. Raises SheetError, and writes
    nothing, where `path` is the sheet itself, the file has changed since it was read, the file at
    `path` is open in Excel or LibreOffice, a correction would replace a formula on which other
    cells hang, or the copy would not read as the sheet does.
    """
    sheet, path = as_sheet(sheet), as_path(path)
    source = load_unchanged(sheet, "Read it again.")
    apart(path, source)
    fitting(path, source)
    copy = corrected_source(source, sheet, path.suffix)
    backup = None
    if lexists(path) and path.is_file():
        must_be_closed(path)
        file = path.resolve()
        backup = create_backup(file, file.read_bytes(), moment or dt.datetime.now(dt.UTC))
    write_file(path, source, copy.data, sidecar_lines(source))
    return backup


def corrected_source(source: Source, sheet: Sheet, suffix: str = "") -> Source:
    """The sheet's file as it would be with the corrections. Raises SheetError where it would not
    read as the sheet does.
    """
    if source.kind == "text":
        # What only CSV needs is loaded for CSV.
        from petsync.sheets.csv import edit_csv

        data = edit_csv(source, sheet, texts(sheet), ())
    else:
        from petsync.sheets.xlsx.edit import patch_workbook

        over = {(each.row, each.column) for each in sheet.corrections}
        data = patch_workbook(
            source, sheet, texts(sheet), (), suffix=suffix, over=over, strict=True
        )
    copy = replace(source, data=data)
    _must_agree(source, copy, sheet)
    return copy


def texts(sheet: Sheet) -> Mapping[int, Mapping[str, str]]:
    """The corrections' texts by row and column."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for each in sheet.corrections:
        found[each.row][each.column] = each.after
    return found


def _must_agree(source: Source, copy: Source, sheet: Sheet) -> None:
    """Raise SheetError where the copy says something else than the sheet."""
    tab = sheet.tab or None
    given = {each.address: each.after for each in sheet.corrections}
    before = read_grid(source, tab, sheet.mapping, given)
    after = read_grid(copy, tab, sheet.mapping)
    if not _is_same(before, after):
        raise SheetError(
            f"{source.path}: with these corrections in its cells the file would be read otherwise",
            hint="Nothing was written. Correct the cells in the program that the file is from.",
        )


def _is_same(one: Grid, other: Grid) -> bool:
    # A text of several lines in a CSV file moves the rows below it, so numbers may differ.
    return (
        list(one.header) == list(other.header)
        and len(one.rows) == len(other.rows)
        and one.faults.keys() == other.faults.keys()
        and all(map(_are_same, one.columns, other.columns))
    )


def _are_same(one: Cells, other: Cells) -> bool:
    return bool(one.text.equals(other.text)) and bool((_kinds(one) == _kinds(other)).all())


def _kinds(cells: Cells) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.full(len(cells), CellKind.TEXT, dtype=np.int8) if cells.kinds is None else cells.kinds
