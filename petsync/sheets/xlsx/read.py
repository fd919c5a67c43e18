"""Read a workbook: values through calamine, and the rest from the XML."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from python_calamine import CalamineSheet, load_workbook

from petsync.errors import SheetError
from petsync.sheets.files import Source
from petsync.sheets.grid import CellKind, Cells, Grid, letter
from petsync.sheets.headers import Mapper
from petsync.sheets.xlsx.contents import GUIDE
from petsync.sheets.xlsx.package import MAX_SEARCHED, Package, Tab
from petsync.sheets.xlsx.survey import (
    Survey,
    extent,
    is_irregular,
    survey,
    translate_damage,
    view,
)
from petsync.sheets.xlsx.xml import first_rows
from petsync.table.base import Base

__all__ = [
    "cells_of",
    "first_rows_of",
    "format_value",
    "halves",
    "ids_elsewhere",
    "own_tab",
    "read_grid",
]


# A large worksheet as two smaller ones, which are parsed on two cores at the same time.


_TABLE, _ROW, _END_OF_DATA = b"<sheetData", b"<row ", b"</sheetData>"


def halves(data: bytes, least: int) -> tuple[bytes, ...]:
    """Return the worksheet's part, or two parts with the first and the second half of its rows, if
    it has at least `least` bytes and the start of a row can be found for certain.

    Each cell must have its reference, which `extent` checks, because the second half does not start
    in the first row.
    """
    # Text in a comment or in CDATA that looks like a tag is not a tag.
    if len(data) < least or (b"!" in data and b"<!" in data):
        return (data,)
    first, end = data.find(_ROW, data.find(_TABLE)), data.rfind(_END_OF_DATA)
    middle = data.find(_ROW, (first + end) // 2, end)
    if not 0 < first < middle:
        return (data,)
    return data[:middle] + data[end:], data[:first] + data[middle:]


# Reading XLSX: calamine reads the values, and a survey of the XML finds what calamine does not
# report.


_KINDS = {str: CellKind.TEXT, float: CellKind.NUMBER, int: CellKind.NUMBER, bool: CellKind.BOOLEAN}
LARGE = 1 << 23
_TOGETHER = 1000
_TOP = 20
_TAB_HEAD, _TABS, _SEVERAL = 1 << 16, 20, 2
"""The number of bytes that are searched in each of the other worksheets, the number of these
worksheets, and the number of petsync's headers that one of them must have.
"""
_EXACT = 2.0**53
_MAX_TABS, _LISTED = 200, 5
_ID = re.compile(r"0*([0-9]{1,19})(?:\.0+)?")


def read_grid(
    source: Source,
    mapper: Mapper,
    tab: str | None,
    *,
    base: Base | None = None,
    large: int = LARGE,
) -> Grid:
    """Return the grid of the worksheet `tab`, else of the worksheet of the file's `base`, else of
    the first visible one with a known header.

    A worksheet of at least `large` bytes is parsed in two halves at the same time. Raises
    SheetError if the workbook cannot be read, the worksheet does not exist or has no known header,
    or the worksheet of the base is hidden or cannot be identified.
    """
    package = Package(source)
    if tab is not None:
        return _read_tab(package, package.tab(tab), mapper, large)
    own_tab = _find_base_tab(package, mapper, base)
    candidates = (
        [own_tab]
        if own_tab
        else [each for each in package.tabs if each.visible] or package.tabs[:1]
    )
    failure: SheetError | None = None
    read_parts: set[str] = set()
    searched = 0
    for each in candidates:
        if each.part.casefold() in read_parts:
            continue  # Another worksheet has the same part, in which no header was found.
        read_parts.add(each.part.casefold())
        searched += package.size(each)
        if failure is not None and searched > MAX_SEARCHED:
            raise SheetError(
                f"{package.path}: none of the first {len(read_parts) - 1} sheets has a header that "
                "petsync recognises, and together they are too large to search further sheets",
                hint='Specify the worksheet with the pets: --sheet NAME, in Python tab="NAME".',
            )
        try:
            grid = _read_tab(package, each, mapper, large)
            elsewhere, heads = _other_tabs(package, each, mapper)
            return replace(grid, elsewhere=elsewhere, heads=heads)
        except _NoHeaderError as error:
            failure = failure or error
    raise failure or mapper.unusable_error([])


def own_tab(source: Source, mapper: Mapper, base: Base | None) -> str | None:
    """Return the name of the base's worksheet; None if there is no base, or if it does not name a
    worksheet. Raises SheetError if that worksheet is hidden, or if it is missing and cannot be
    identified by its ids.
    """
    own = _find_base_tab(Package(source), mapper, base)
    return None if own is None else own.name


def ids_elsewhere(source: Source, mapper: Mapper, tab: str) -> Mapping[str, frozenset[int] | None]:
    """Return the ids in each of the other visible worksheets with a column for ids, by the
    worksheet's name; None if the worksheet is too large or cannot be read.
    """
    package = Package(source)
    chosen = package.tab(tab).part
    ids_by_tab: dict[str, frozenset[int] | None] = {}
    searched = 0
    for each in _with_ids(package, mapper):
        if each.part == chosen:
            continue
        searched += package.size(each)
        ids_by_tab[each.name] = (
            None if searched > MAX_SEARCHED else _ids_or_none(package, each, mapper)
        )
    return ids_by_tab


def first_rows_of(
    source: Source, tab: str | None, base: Base | None = None
) -> tuple[str, list[str], list[list[str]]]:
    """Return a worksheet's name, the names of all visible ones without petsync's own, and the texts
    of the worksheet's first rows.

    Without `tab`, the worksheet is that of the file's `base`, else the first visible one. Raises
    SheetError if the worksheet cannot be read.
    """
    package = Package(source)
    visible_tabs = [each for each in package.tabs if _is_user_tab(each)] or package.tabs[:1]
    base_tabs = [each for each in visible_tabs if base is not None and each.name == base.tab]
    chosen = (base_tabs or visible_tabs)[0] if tab is None else package.tab(tab)
    where = f"{package.path}, sheet {chosen.name!r}"
    sheets = _open_tab(package, chosen, where, LARGE).sheets
    rows = [
        [format_value(value) for value in row]
        for row in itertools.islice(_rows_of_sheets(sheets), _TOP)
    ]
    return chosen.name, [each.name for each in visible_tabs], rows


class _NoHeaderError(SheetError):
    pass


class _WorksheetData(NamedTuple):
    """The data of an opened worksheet."""

    data: bytes
    surveyed: Survey
    sheets: Sequence[CalamineSheet]
    """The values, in one part or in two consecutive ones."""


def _read_tab(package: Package, tab: Tab, mapper: Mapper, large: int) -> Grid:
    where = f"{package.path}, sheet {tab.name!r}"
    data, surveyed, sheets = _open_tab(package, tab, where, large)
    top, first_column = sheets[0].start or (0, 0)
    rows = _rows_of_sheets(sheets)
    first = list(itertools.islice(rows, 20))
    head = [
        _widen_row([format_value(value) for value in row], surveyed, first_column) for row in first
    ]
    at = mapper.header_row(head)
    if at is None:
        numbers = range(top + 1, top + 1 + len(head))
        error = mapper.unusable_error(head, f", sheet {tab.name!r}", numbers=numbers)
        raise _NoHeaderError(error.message, hint=error.hint)
    header_row, header = top + 1 + at, head[at]
    body = _columns(itertools.chain(first[at + 1 :], rows), len(first[at]))
    columns = _complete_columns(body, len(header), header_row + 1, first_column, surveyed)
    seen = view(data)
    return Grid(
        tab=tab.name,
        header=header,
        header_row=header_row,
        rows=np.arange(header_row + 1, header_row + 1 + len(columns[0]), dtype=np.int64),
        columns=columns,
        places=[letter(first_column + n) for n in range(len(header))],
        merged=surveyed.merged,
        hidden=[row for row in surveyed.hidden if row > header_row],
        hidden_columns=[
            letter(n)
            for n in range(first_column, first_column + len(header))
            if any(n in span for span in seen.hidden)
        ],
        filtered=seen.filtered,
        tabs=[each.name for each in package.tabs if each is not tab and _is_user_tab(each)],
        since_1904=package.since_1904,
    ).without_blank_rows()


def _find_base_tab(package: Package, mapper: Mapper, base: Base | None) -> Tab | None:
    """Return the worksheet of the base: the one whose name is recorded in the base. If that name no
    longer exists, the worksheet may have been renamed: then return the only worksheet with ids, if
    it has all ids of the base. Return None if the base names no worksheet.
    """
    if base is None or not base.tab:
        return None
    is_there = any(each.name.casefold() == base.tab.casefold() for each in package.tabs)
    if is_there and (named := package.tab(base.tab)).visible:
        return named
    having = [] if is_there else _with_ids(package, mapper)
    if len({each.part for each in having}) == 1 and package.size(having[0]) <= MAX_SEARCHED:
        ids = _ids_or_none(package, having[0], mapper)
        if ids is not None and base.ids - base.unnumbered <= ids:
            return having[0]
    why, cure = "no longer exists", "If you renamed it, give it its old name again"
    if is_there:
        why, cure = "is hidden", "Show it again"
    names = [repr(each.name) for each in package.tabs if _is_user_tab(each)]
    more = ", …" if len(names) > _LISTED else ""
    others = f"The visible worksheets are {', '.join(names[:_LISTED])}{more}. " if names else ""
    raise SheetError(
        f"{package.path}: the worksheet {base.tab!r}, which petsync wrote or read before, {why}",
        hint=f"{others}{cure}; or specify the worksheet to read: --sheet NAME, in Python "
        f'tab="NAME".',
    )


def _with_ids(package: Package, mapper: Mapper) -> list[Tab]:
    """Return the visible tabs with a header for ids in their first rows, each part once. If there
    are very many, the last ones are included without a check.
    """
    other_tabs = list({each.part: each for each in package.tabs if _is_user_tab(each)}.values())
    heads = [first_rows(package.head(each, _TAB_HEAD), _TOP) for each in other_tabs[:_MAX_TABS]]
    text_numbers = {at for rows in heads for row in rows for at in row if isinstance(at, int)}
    texts = package.shared_texts(text_numbers) if text_numbers else {}
    matching = [
        tab
        for tab, rows in zip(other_tabs, heads, strict=False)
        if any(
            mapper.is_id(texts.get(at, "") if isinstance(at, int) else at)
            for row in rows
            for at in row
        )
    ]
    return matching + other_tabs[_MAX_TABS:]


def _ids_or_none(package: Package, tab: Tab, mapper: Mapper) -> frozenset[int] | None:
    """Return the numbers below a header for ids; None if the tab cannot be read."""
    try:
        sheets = _open_tab(package, tab, f"{package.path}, sheet {tab.name!r}", LARGE).sheets
        rows = [[*row] for row in itertools.islice(_rows_of_sheets(sheets), _TOP)]
        columns = {n for row in rows for n, at in enumerate(row) if mapper.is_id(format_value(at))}
        texts = (format_value(row[n]) for row in _rows_of_sheets(sheets) for n in columns)
        return frozenset(int(each[1]) for text in texts if (each := _ID.fullmatch(text.strip())))
    except SheetError:
        return None


def _other_tabs(
    package: Package, chosen: Tab, mapper: Mapper
) -> tuple[list[str], dict[str, list[list[str]]]]:
    """Return the names of the other visible tabs that have several petsync headers in their first
    rows; and, by name, the first rows of the tabs without such headers.
    """
    others = {
        tab.part: tab for tab in package.tabs if _is_user_tab(tab) and tab.part != chosen.part
    }
    tabs = [*itertools.islice(others.values(), _TABS)]
    cut = [first_rows(package.head(tab, _TAB_HEAD), _TOP) for tab in tabs]
    text_numbers = {at for rows in cut for row in rows for at in row if isinstance(at, int)}
    texts = package.shared_texts(text_numbers) if text_numbers else {}
    tab_names: list[str] = []
    heads: dict[str, list[list[str]]] = {}
    for tab, rows in zip(tabs, cut, strict=True):
        if _has_headers(rows[:-1], texts, mapper):
            tab_names.append(tab.name)
        elif not _has_headers(rows, texts, mapper):
            complete = rows if package.size(tab) < _TAB_HEAD else rows[:-1]
            heads[tab.name] = [_texts_of(row, texts) for row in complete]
    return tab_names, heads


def _texts_of(row: Sequence[str | int], texts: Mapping[int, str]) -> list[str]:
    return [texts.get(cell, "") if isinstance(cell, int) else cell for cell in row]


def _has_headers(
    rows: Sequence[Sequence[str | int]], texts: Mapping[int, str], mapper: Mapper
) -> bool:
    """Return true if one of the rows has several headers of petsync."""
    return any(mapper.score(_texts_of(row, texts)) >= _SEVERAL for row in rows)


def _is_user_tab(tab: Tab) -> bool:
    """Return true if the tab is visible and was not added by petsync."""
    return tab.visible and tab.name != GUIDE and not tab.name.startswith("petsync ")


def _open_tab(package: Package, tab: Tab, where: str, large: int) -> _WorksheetData:
    """Open a worksheet. Unpacking and calamine release the interpreter lock, so they run in other
    threads. calamine reads the cells only after a check that none is too far away.
    """
    with ThreadPoolExecutor(2) as pool:
        texts = pool.submit(package.texts)
        data = package.worksheet(tab)
        cells_extent = extent(data)
        irregular = is_irregular(cells_extent)
        surveyed = survey(data, where, irregular=True) if irregular else None
        shared = texts.result()

        is_cut = cells_extent is not None and cells_extent.ordered and not irregular
        parts = halves(data, large) if is_cut else (data,)
        futures = [pool.submit(_sheet, package, part, shared, where) for part in parts]
        surveyed = surveyed or survey(data, where, irregular=False)
        if surveyed.unread:
            sheets = [_sheet(package, surveyed.make_readable(data), shared, where)]
        else:
            sheets = [each.result() for each in futures]
        if not _are_consecutive(sheets):
            sheets = [_sheet(package, data, shared, where)]
        return _WorksheetData(data, surveyed, sheets)


def _sheet(package: Package, data: bytes, texts: Mapping[str, bytes], where: str) -> CalamineSheet:
    with translate_damage(where):
        return load_workbook(package.extract_sheet(data, texts)).get_sheet_by_index(0)


def _are_consecutive(sheets: Sequence[CalamineSheet]) -> bool:
    """Return true if the parts have the same columns and are consecutive."""
    if len(sheets) == 1:
        return True
    ends = [(sheet.start, sheet.end) for sheet in sheets]
    if any(start is None or end is None for start, end in ends):
        return False
    columns = {(start[1], end[1]) for start, end in ends if start and end}
    (_, before), (after, _) = ends
    return len(columns) == 1 and bool(before and after and before[0] < after[0])


def _rows_of_sheets(sheets: Sequence[CalamineSheet]) -> Iterator[list[Any]]:
    """Yield the rows from the first one with a value, including the blank rows between the
    parts.
    """
    done = (sheets[0].start or (0, 0))[0]
    for sheet in sheets:
        # calamine also returns the rows above a part, as blank rows.
        yield from itertools.islice(sheet.iter_rows(), done, None)
        done = (sheet.end or (0, 0))[0] + 1


def _widen_row(row: list[str], surveyed: Survey, first_column: int) -> list[str]:
    """Return the row, extended with blank cells for the cells to its right that calamine does not
    return.
    """
    last = max((column for _, column in surveyed.special), default=0)
    return row + [""] * (last - first_column + 1 - len(row))


def _columns(rows: Iterator[list[Any]], width: int) -> list[Cells]:
    """Return the columns of rows, transposed in small groups that fit into the processor's
    cache.
    """
    parts: list[list[Cells]] = [[] for _ in range(width)]
    while some := list(itertools.islice(rows, _TOGETHER)):
        for part, values in zip(parts, zip(*some, strict=True), strict=True):
            part.append(cells_of(values))
    return [Cells.concat(part) for part in parts]


def _complete_columns(
    columns: Sequence[Cells], width: int, first_row: int, first_column: int, surveyed: Survey
) -> list[Cells]:
    """Return the columns, completed with the cells that calamine does not report."""
    special: list[dict[int, tuple[CellKind, str]]] = [{} for _ in range(width)]
    for (row, column), cell in sorted(surveyed.special.items()):
        if row >= first_row and column >= first_column:
            special[column - first_column][row - first_row] = cell
    height = max([len(columns[0]), *(position + 1 for cells in special for position in cells)])
    blank = Cells(pa.array([""] * height, pa.large_string()))
    added = [blank.part(0, 0)] * (width - len(columns))
    return [
        _with(Cells.concat([cells, blank.part(len(cells), height)]), marks)
        for cells, marks in zip([*columns, *added], special, strict=True)
    ]


def _with(cells: Cells, special: dict[int, tuple[CellKind, str]]) -> Cells:
    if not special:
        return cells
    marked = np.zeros(len(cells), dtype=bool)
    marked[list(special)] = True
    kinds = np.zeros(len(cells), dtype=np.int8) if cells.kinds is None else cells.kinds
    kinds[marked] = [kind for kind, _ in special.values()]
    texts = pa.array([text for _, text in special.values()], pa.large_string())
    return Cells(pc.replace_with_mask(cells.text, pa.array(marked), texts), kinds)


def cells_of(values: Sequence[Any]) -> Cells:
    """Return the cells of one column from calamine's values."""
    whole = _whole_numbers(values) if type(values[0]) is float else None
    if whole is not None:
        texts = pa.array(whole).cast(pa.large_string())
        return Cells(texts, np.full(len(whole), CellKind.NUMBER, dtype=np.int8))
    try:
        return Cells(pa.array(values, pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        pass
    texts = [value if type(value) is str else format_value(value) for value in values]
    kinds = np.array([_KINDS.get(type(value), CellKind.DATE) for value in values], dtype=np.int8)
    return Cells(pa.array(texts, pa.large_string()), kinds)


def _whole_numbers(values: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Return the numbers if all are exact and without a fraction; else None."""
    if set(map(type, values)) != {float}:
        return None
    numbers = np.array(values)
    if not (np.abs(numbers) < _EXACT).all():
        return None
    whole = numbers.astype(np.int64)
    return whole if (whole == numbers).all() else None


def format_value(value: Any) -> str:
    """Return a value of calamine as text, whatever the cell's number format: a whole number without
    a decimal point, TRUE or FALSE, a date in ISO 8601.
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    return value if isinstance(value, str) else str(value)
