"""annotate_sheet: write a copy of a sheet with its findings marked in the cells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from petsync._files import write_atomically
from petsync.errors import SheetError
from petsync.sheets.corrected import corrected_source
from petsync.sheets.load import load_unchanged
from petsync.sheets.read import as_edited
from petsync.sheets.results import (
    as_path,
    as_sheet,
    as_workbook,
    back_up,
    check_other_path,
)
from petsync.table.sheet import Sheet

__all__ = ["AnnotatedCopy", "annotate_sheet"]


_WORKBOOKS = (".xlsx", ".xlsm")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedCopy:
    """The result of `annotate_sheet`."""

    path: Path
    cells: int
    """The number of marked cells."""
    lost: tuple[str, ...] = ()
    """Sentences about what the copy does not keep, and about marks that may not be visible."""
    backup: Path | None = None
    """The backup of a file that was at `path` before."""


def annotate_sheet(sheet: Sheet, path: str | Path) -> AnnotatedCopy:
    """Write to `path` a copy of the sheet's workbook with the findings marked in the cells.

    A cell with an error is red, and one with only warnings is yellow; a comment has the problem and
    the fix. Other parts of the workbook stay unchanged, including charts, macros and comments of
    users; `lost` of the result names the exceptions, such as macros in an `.xlsx`. Earlier marks of
    petsync are replaced. The copy of a CSV file is a workbook with its cells as text; each record
    is in the row with the number of its first line. The copy has the sheet's corrections. An
    existing file at `path` gets a backup, as in `write_back`.

    Raises SheetError if the file has changed since it was read, `path` is the sheet itself or not a
    workbook, the file at `path` is open in Excel or LibreOffice, or the copy cannot be written.
    """
    sheet, path = as_sheet(sheet), as_path(path)
    source = load_unchanged(sheet, "Check it again.")
    check_other_path(path, source)
    sheet = as_edited(sheet)
    if source.kind == "records":
        source, sheet = as_workbook(source, sheet)
    if sheet.corrections:
        source = corrected_source(source, sheet)
    if path.suffix.casefold() not in _WORKBOOKS:
        raise SheetError(
            f"{path}: colours and comments need a workbook",
            hint=f"Give the copy a name that ends in {' or '.join(_WORKBOOKS)}.",
        )
    # openpyxl and the modules for workbooks are loaded only when a workbook is written.
    from petsync.sheets.xlsx.annotate import TAB, annotate_workbook, convert_to_workbook

    if source.kind == "text":
        source, tab = convert_to_workbook(source, sheet), TAB
    else:
        tab = sheet.tab
    annotated = annotate_workbook(source, tab, sheet.problems, path.suffix)
    backup = back_up(path)
    write_atomically(path, annotated.data, like=sheet.source, error=SheetError)
    lost = (
        f"The copy of {source.form} has its cells only." if source.form else "",
        *annotated.lost,
    )
    return AnnotatedCopy(
        path=path, cells=annotated.cells, lost=tuple(filter(None, lost)), backup=backup
    )
