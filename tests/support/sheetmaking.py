"""Small sheets for one test, and their findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl

from petsync.sheets import read_sheet
from petsync.table.sheet import Sheet


def workbook_of(rows: Sequence[Sequence[Any]]) -> openpyxl.Workbook:
    """Return a workbook with these rows on the sheet `Pets`; the first one is the header."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.active.title = "Pets"
    return book


def sheet_of(folder: Path, rows: Sequence[Sequence[Any]], **options: Any) -> Sheet:
    """Return these rows, read from a workbook."""
    path = folder / "pets.xlsx"
    workbook_of(rows).save(path)
    return read_sheet(path, **options)


def csv_of(folder: Path, text: str, **options: Any) -> Sheet:
    """Return this text, read from a CSV file."""
    path = folder / "pets.csv"
    path.write_bytes(text.encode())
    return read_sheet(path, **options)


def list_findings(sheet: Sheet) -> list[tuple[str, str]]:
    """Return the findings as address and rule, in their order."""
    return [(each.address, each.rule) for each in sheet.problems]
