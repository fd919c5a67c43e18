"""Worksheets that no person sees, in which a workbook carries lines of plain ASCII."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from petsync.errors import SheetError
from petsync.sheets.ooxml.survey import survey

if TYPE_CHECKING:
    from petsync.sheets.ooxml.archive import Package

__all__ = ["lines_of"]


def lines_of(package: Package, name: str) -> list[str] | None:
    """The first column of the worksheet of that name; None where there is none.

    It is the same where somebody had it shown.

    Raises SheetError where it is damaged.
    """
    tab = next((tab for tab in package.tabs if tab.name == name), None)
    if tab is None:
        return None
    where = f"{package.path}, sheet {name!r}"
    data = package.text_part(tab.part)
    # A cell far away would make calamine hold a huge rectangle.
    survey(data, where)
    return [str(row[0]) for row in _rows(package.alone(data), where) if row]


def _rows(workbook: io.BytesIO, where: str) -> list[list[Any]]:
    # calamine is loaded when a workbook is read.
    from python_calamine import load_workbook

    try:
        return load_workbook(workbook).get_sheet_by_index(0).to_python()
    except BaseException as error:
        # A panic in calamine derives from BaseException; it is a damaged file like the others.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise SheetError(f"{where}: the worksheet is damaged") from None
        raise
