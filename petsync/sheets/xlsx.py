"""XLSX in: the values through calamine, what calamine cannot tell through a survey of the XML."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from python_calamine import load_workbook

from petsync.errors import SheetError
from petsync.sheets.archive import Package, Tab
from petsync.sheets.grid import Cells, Grid, Kind, letter
from petsync.sheets.headers import Mapper
from petsync.sheets.order import misplaced
from petsync.sheets.source import Source
from petsync.sheets.survey import Survey, survey
from petsync.sheets.view import view

__all__ = ["read"]

_KINDS = {str: Kind.TEXT, float: Kind.NUMBER, int: Kind.NUMBER, bool: Kind.BOOLEAN}
_Rows = list[list[Any]]


def read(source: Source, mapper: Mapper, tab: str | None) -> Grid:
    """The grid of the named tab, else of the first visible one with a header that we know.

    Raises SheetError where the workbook cannot be read or no such tab is there.
    """
    package = Package(source)
    if tab is not None:
        return _known(package, package.tab(tab), mapper)
    seen = [each for each in package.tabs if each.visible] or package.tabs[:1]
    failure: SheetError | None = None
    for each in seen:
        try:
            return _known(package, each, mapper)
        except _NoHeaderError as error:
            failure = failure or error
    raise failure or mapper.unusable([])


class _NoHeaderError(SheetError):
    pass


def _known(package: Package, tab: Tab, mapper: Mapper) -> Grid:
    where = f"{package.path}, sheet {tab.name!r}"
    data = package.worksheet(tab)
    surveyed = survey(data, where)
    first_row, first_column, rows = _values(package.alone(data), where)
    _check_places(data, surveyed, rows, where)
    _extend(rows, first_row, first_column, surveyed)
    head = [[_shown(value) for value in row] for row in rows[:20]]
    at = mapper.header_row(head)
    if at is None:
        error = mapper.unusable(head, f", sheet {tab.name!r}")
        raise _NoHeaderError(error.message, hint=error.hint)
    header_row = first_row + at
    seen = view(data)
    return Grid(
        tab=tab.name,
        header=head[at],
        header_row=header_row,
        rows=np.arange(header_row + 1, first_row + len(rows), dtype=np.int64),
        columns=list(_columns(rows[at + 1 :], header_row + 1, first_column, surveyed, head[at])),
        places=[letter(first_column + n) for n in range(len(head[at]))],
        merged=surveyed.merged,
        hidden=[row for row in surveyed.hidden if row > header_row],
        hidden_columns=[
            letter(n)
            for n in range(first_column, first_column + len(head[at]))
            if any(n in span for span in seen.hidden)
        ],
        filtered=seen.filtered,
    ).without_blank_rows()


def _values(workbook: io.BytesIO, where: str) -> tuple[int, int, _Rows]:
    """The number of the first row (from 1) and column (from 0), and the rows from there on."""
    try:
        sheet = load_workbook(workbook).get_sheet_by_index(0)
        start = sheet.start or (0, 0)
        return start[0] + 1, start[1], sheet.to_python()
    except BaseException as error:
        # A panic in calamine derives from BaseException; it is a damaged file like the others.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise SheetError(
                f"{where}: the worksheet is damaged: {error}",
                hint="Save the workbook again, or take it from a backup.",
            ) from None
        raise


def _check_places(data: bytes, surveyed: Survey, rows: _Rows, where: str) -> None:
    """Refuse a sheet in which a cell took another one's place; one that was walked has none."""
    if surveyed.cells or data.count(b"</c>") <= sum(len(row) - row.count("") for row in rows):
        return
    place = misplaced(data)
    if place:
        raise SheetError(
            f"{where}: the worksheet is damaged: the cell {place} stands where another one should",
            hint="Open it in Excel or LibreOffice, see whether all is there, and save it again.",
        )


def _extend(rows: _Rows, first_row: int, first_column: int, surveyed: Survey) -> None:
    """Make room for the cells that calamine took for blank, at the edges of the table."""
    if not surveyed.special or not rows:
        return
    width = max(len(rows[0]), max(column for _, column in surveyed.special) - first_column + 1)
    height = max(row for row, _ in surveyed.special) - first_row + 1
    rows.extend([] for _ in range(height - len(rows)))
    for row in rows:
        row.extend([""] * (width - len(row)))


def _columns(
    rows: Sequence[Sequence[Any]],
    first_row: int,
    first_column: int,
    surveyed: Survey,
    header: Sequence[str],
) -> Iterator[Cells]:
    columns = list(zip(*rows, strict=True)) or [()] * len(header)
    special: dict[int, dict[int, tuple[Kind, str]]] = {}
    for (row, column), cell in surveyed.special.items():
        if row >= first_row and column >= first_column:
            special.setdefault(column - first_column, {})[row - first_row] = cell
    for n, values in enumerate(columns):
        yield _cells(values, special.get(n, {}))


def _cells(values: Sequence[Any], special: dict[int, tuple[Kind, str]]) -> Cells:
    if not special:
        try:
            return Cells(pa.array(values, pa.large_string()))
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            pass
    texts = [value if type(value) is str else _shown(value) for value in values]
    kinds = np.array([_KINDS.get(type(value), Kind.DATE) for value in values], dtype=np.int8)
    for at, (kind, text) in special.items():
        texts[at], kinds[at] = text, kind
    return Cells(pa.array(texts, pa.large_string()), kinds)


def _shown(value: Any) -> str:
    """A value as a person sees it in the cell; whole numbers without a decimal point."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    return value if isinstance(value, str) else str(value)
