"""Small sheets for one test, and their findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa

from petsync.models import as_tag
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


def with_whole_tags(values: Iterable[Any]) -> list[Any]:
    """Return the lists of a column with each tag as a Tag: a name in a table equals another one
    with any id.
    """
    return [[as_tag(item) for item in each] if isinstance(each, list) else each for each in values]


def assert_same_frames(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Assert that two tables have the same values, with the ids of their tags."""
    exact = [
        frame.assign(tags=pd.Series(with_whole_tags(frame["tags"]), frame.index, dtype=object))
        if "tags" in frame
        else frame
        for frame in (one, other)
    ]
    pd.testing.assert_frame_equal(*exact)


class Stream:
    """A table of another library: it has only the Arrow PyCapsule interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)
