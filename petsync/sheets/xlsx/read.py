"""Read a workbook: values through calamine, and everything else from the XML."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
    View,
    extent,
    is_irregular,
    survey,
    translate_damage,
    view,
)
from petsync.sheets.xlsx.xml import first_rows, has_only_tags
from petsync.table.base import Base
from petsync.table.sheet import cell_address

__all__ = [
    "blocks",
    "cells_of",
    "first_rows_of",
    "format_value",
    "ids_elsewhere",
    "own_tab",
    "read_grid",
]


# A large worksheet in blocks of rows, which are parsed on two cores at the same time.


_TABLE, _ROW, _END_OF_DATA = b"<sheetData", b"<row ", b"</sheetData>"
_BLOCK_START, _BLOCK_END = b"<worksheet><sheetData>", b"</sheetData></worksheet>"


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    """Yield the worksheet's part as several parts with about `size` bytes of rows each; as a single
    part if it is not certain where a row starts.

    The rows must be in order, and each cell must have its reference: see `extent`.
    """
    end = data.rfind(_END_OF_DATA) if has_only_tags(data) else -1
    view, start, done = memoryview(data), b"", 0
    at = data.find(_ROW, data.find(_TABLE))
    while 0 < at < end and (at := data.find(_ROW, at + size, end)) > 0:
        yield b"".join([start, view[done:at], _BLOCK_END])
        start, done = _BLOCK_START, at
    yield b"".join([start, view[done:]]) if done else data


# Reading XLSX: calamine reads the values, and a survey of the XML finds what calamine does not
# report.


_KINDS = {str: CellKind.TEXT, float: CellKind.NUMBER, int: CellKind.NUMBER, bool: CellKind.BOOLEAN}
_BLOCK, _AHEAD = 1 << 21, 3
"""The number of bytes of a block, and the number of blocks that are being parsed or are waiting to
be used.
"""
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
    block: int = _BLOCK,
) -> Grid:
    """Return the grid of the worksheet `tab`, else of the worksheet of the file's `base`, else of
    the first visible one with a known header.

    A larger worksheet is parsed in blocks of about `block` bytes. Raises SheetError if the workbook
    cannot be read, the worksheet does not exist or has no known header, or the worksheet of the
    base is hidden or cannot be identified.
    """
    package = Package(source)
    if tab is not None:
        return _read_tab(package, package.tab(tab), mapper, block)
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
            grid = _read_tab(package, each, mapper, block)
            others, heads = _other_tabs(package, each, mapper)
            first = _compare_copies(package, others, grid, mapper, block)
            elsewhere = [name for name in others if first.get(name) != ""]
            copies = {name: address for name, address in first.items() if address}
            return replace(grid, elsewhere=elsewhere, copies=copies, heads=heads)
        except _NoHeaderError as error:
            failure = failure or error
    raise failure or mapper.unusable_error([])


def own_tab(source: Source, mapper: Mapper, base: Base | None) -> str | None:
    """Return the name of the base's worksheet; None if there is no base, or if the base names no
    worksheet. Raises SheetError if that worksheet is hidden, or if it is missing and cannot be
    identified by its ids.
    """
    own = _find_base_tab(Package(source), mapper, base)
    return None if own is None else own.name


def ids_elsewhere(source: Source, mapper: Mapper, tab: str) -> Mapping[str, frozenset[int] | None]:
    """Return the ids in the other visible worksheets that have an id column, by the name of the
    worksheet; None for a worksheet that is too large or cannot be read.
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
    """Return a worksheet's name, the names of the visible worksheets that petsync did not add, and
    the texts of the worksheet's first rows.

    Without `tab`, the worksheet is that of the file's `base`, else the first visible one. Raises
    SheetError if the worksheet cannot be read.
    """
    package = Package(source)
    visible_tabs = [each for each in package.tabs if _is_user_tab(each)] or package.tabs[:1]
    base_tabs = [each for each in visible_tabs if base is not None and each.name == base.tab]
    chosen = (base_tabs or visible_tabs)[0] if tab is None else package.tab(tab)
    where = f"{package.path}, sheet {chosen.name!r}"
    with _open_tab(package, chosen, where) as worksheet:
        head = _read_head(worksheet.blocks)
    return chosen.name, [each.name for each in visible_tabs], head.rows


class _NoHeaderError(SheetError):
    pass


class _Block(NamedTuple):
    """Consecutive rows of a worksheet, of the same width."""

    top: int
    """The first row, counted from 0."""
    left: int
    """The first column, counted from 0."""
    rows: Iterator[list[Any]]
    """The values of calamine, which can be read once."""


class _Worksheet(NamedTuple):
    """A worksheet that is being read."""

    surveyed: Survey
    view: View
    blocks: Iterator[_Block]
    """The rows from the first one with a value to the last one, without the blank rows between two
    blocks.
    """


def _read_tab(package: Package, tab: Tab, mapper: Mapper, block: int) -> Grid:
    where = f"{package.path}, sheet {tab.name!r}"
    with _open_tab(package, tab, where, block) as (surveyed, seen, worksheet_blocks):
        head = _read_head(worksheet_blocks)
        at = mapper.header_row(head.rows)
        if at is None:
            numbers = range(head.top + 1, head.top + 1 + len(head.rows))
            error = mapper.unusable_error(head.rows, f", sheet {tab.name!r}", numbers=numbers)
            raise _NoHeaderError(error.problem, hint=error.cure)
        header_row = head.top + 1 + at
        below = _columns_below(header_row, head.blocks)
    first_column = min([head.left, *below])
    header = [""] * (head.left - first_column) + head.rows[at]
    last_column = max([*below, *(column for _, column in surveyed.special)], default=0)
    width = max(len(header), last_column + 1 - first_column)
    span = range(first_column, first_column + width)
    columns = _complete_columns(below, span, header_row, surveyed)
    return Grid(
        tab=tab.name,
        header=header + [""] * (width - len(header)),
        header_row=header_row,
        rows=np.arange(header_row + 1, header_row + 1 + len(columns[0]), dtype=np.int64),
        columns=columns,
        places=[letter(n) for n in span],
        merged=surveyed.merged,
        hidden=[row for row in surveyed.hidden if row > header_row],
        hidden_columns=[letter(n) for n in span if any(n in part for part in seen.hidden)],
        filtered=seen.filtered,
        tabs=[each.name for each in package.tabs if each is not tab and _is_user_tab(each)],
        since_1904=package.since_1904,
    ).without_blank_rows()


def _find_base_tab(package: Package, mapper: Mapper, base: Base | None) -> Tab | None:
    """Return the worksheet that the base names; None if the base names none. If no worksheet has
    this name, it may have been renamed: then return the only worksheet with ids, if it has all ids
    of the base. Raises SheetError if the worksheet is hidden or cannot be identified.
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
    """Return the visible tabs with an id header in their first rows, each part once. If there are
    very many tabs, the last ones are included without a check.
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
    """Return the numbers in the columns with an id header; None if the tab cannot be read."""
    try:
        with _open_tab(package, tab, f"{package.path}, sheet {tab.name!r}") as worksheet:
            head = _read_head(worksheet.blocks)
            cells = ((head.left + n, text) for row in head.rows for n, text in enumerate(row))
            places = {column for column, text in cells if mapper.is_id(text)}
            texts = [
                format_value(row[n - block.left])
                for block in head.blocks
                for row in block.rows
                for n in places
                if 0 <= n - block.left < len(row)
            ]
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


def _compare_copies(
    package: Package, names: Iterable[str], grid: Grid, mapper: Mapper, block: int
) -> dict[str, str]:
    """Return, by name, the address of the first cell of petsync's columns in which a copy of the
    worksheet differs from it; "" if none does. Other and large worksheets are left out.
    """
    found = {}
    for tab in map(package.tab, names):
        if package.size(tab) > MAX_SEARCHED:
            continue
        try:
            other = _read_tab(package, tab, mapper, block)
            first = _find_difference(grid, other, mapper)
        except SheetError:
            continue
        if first is not None:
            found[tab.name] = first
    return found


def _find_difference(grid: Grid, copy: Grid, mapper: Mapper) -> str | None:
    """Return the address of the copy's first cell that differs, "" if none does; None if less than
    half of the rows are equal or the headers differ, so that it is no copy.
    """
    header, other = (mapper.match(each.header, each.places).columns for each in (grid, copy))
    is_empty = not (len(grid.rows) and len(copy.rows))
    if is_empty or header != other or grid.header_row != copy.header_row:
        return None
    first, last = grid.header_row + 1, max(int(each.rows[-1]) for each in (grid, copy)) + 1
    differs = []
    for position in header.values():
        sides = []
        for each in (grid, copy):
            texts = np.full(last - first, "", dtype=object)
            texts[each.rows - first] = each.columns[position].trim().to_numpy(zero_copy_only=False)
            sides.append(texts)
        differs.append(sides[0] != sides[1])
    rows = np.logical_or.reduce(differs)
    if 2 * int(rows.sum()) > len(grid.rows):
        return None
    if not rows.any():
        return ""
    at = int(np.argmax(rows))
    place = next(
        copy.places[position]
        for position, mask in zip(header.values(), differs, strict=True)
        if mask[at]
    )
    return cell_address(copy.tab, place, first + at)


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


@contextmanager
def _open_tab(package: Package, tab: Tab, where: str, block: int = _BLOCK) -> Iterator[_Worksheet]:
    """Open a worksheet; its blocks can be read until the end of the context. Decompression and
    calamine release the GIL, so they run in other threads. calamine reads the cells only after a
    check that none is too far away.
    """
    with ThreadPoolExecutor(2) as pool:
        future_texts = pool.submit(package.texts)
        data = package.worksheet(tab)
        cells_extent = extent(data)
        is_ordered = cells_extent is not None and cells_extent.ordered
        irregular = is_irregular(data, cells_extent)
        surveyed = survey(data, where, irregular=True) if irregular else None
        texts = future_texts.result()
        package.check_texts(data)

        def parse(part: bytes) -> CalamineSheet:
            with translate_damage(where):
                return load_workbook(package.extract_sheet(part, texts)).get_sheet_by_index(0)

        def start(data: bytes) -> Iterator[CalamineSheet]:
            size = _block_size(len(data), texts, block)
            return _map_ahead(pool, parse, blocks(data, size) if is_ordered else iter([data]))

        sheets = start(data)
        surveyed = surveyed or survey(data, where, irregular=False)
        if surveyed.unread:
            sheets = start(surveyed.make_readable(data))
        seen = view(data)
        del data
        yield _Worksheet(surveyed, seen, (_block_of(sheet) for sheet in sheets if sheet.start))


def _block_size(size: int, texts: Mapping[str, bytes], block: int) -> int:
    """Return the size of the blocks of a worksheet. All shared strings are parsed with each block,
    so blocks are larger if the strings are large, up to half of the worksheet.
    """
    shared = sum(map(len, texts.values()))
    return max(block, min(shared, size // 2 + 1))


def _map_ahead(
    pool: ThreadPoolExecutor, parse: Callable[[bytes], CalamineSheet], parts: Iterator[bytes]
) -> Iterator[CalamineSheet]:
    """Start to parse the first parts, and return the sheets in order. When a sheet is taken, the
    next part is started.
    """
    pending = deque(pool.submit(parse, part) for part in itertools.islice(parts, _AHEAD))

    def take() -> Iterator[CalamineSheet]:
        while pending:
            sheet = pending.popleft().result()
            pending.extend(pool.submit(parse, part) for part in itertools.islice(parts, 1))
            yield sheet

    return take()


def _block_of(sheet: CalamineSheet) -> _Block:
    top, left = sheet.start or (0, 0)
    # `iter_rows` makes one row at a time, but also returns the rows above, as blank rows.
    rows = (
        itertools.islice(sheet.iter_rows(), top, None)
        if top <= sheet.height
        else iter(sheet.to_python(skip_empty_area=True))
    )
    return _Block(top, left, rows)


class _Head(NamedTuple):
    """The first rows of a worksheet."""

    top: int
    """The first row, counted from 0."""
    left: int
    """The column of the first text in each list of `rows`, counted from 0."""
    rows: list[list[str]]
    blocks: Iterator[_Block]
    """The worksheet's blocks, including the first rows."""


def _read_head(worksheet_blocks: Iterator[_Block]) -> _Head:
    """Return up to 20 rows as texts, starting with the first row that has a value."""
    opened: list[_Block] = []
    values: dict[int, tuple[int, list[Any]]] = {}
    for block in worksheet_blocks:
        first = list(itertools.islice(block.rows, _TOP))
        opened.append(block._replace(rows=itertools.chain(first, block.rows)))
        values |= {block.top + n: (block.left, row) for n, row in enumerate(first)}
        if max(values) - min(values) >= _TOP - 1:
            break
    top = min(values, default=0)
    left = min((block.left for block in opened), default=0)
    last = min(max(values, default=-1), top + _TOP - 1)
    rows = [values.get(row, (left, [])) for row in range(top, last + 1)]
    texts = [[""] * (start - left) + [*map(format_value, row)] for start, row in rows]
    return _Head(top, left, texts, itertools.chain(opened, worksheet_blocks))


@dataclass(slots=True)
class _Column:
    """The cells of one column, which is read from top to bottom."""

    parts: list[Cells] = field(default_factory=list)
    height: int = 0

    def add(self, at: int, values: Sequence[Any]) -> None:
        """Add values at this position, below blank cells."""
        self.extend(at)
        self.parts.append(cells_of(values))
        self.height = at + len(values)

    def extend(self, height: int) -> None:
        """Add blank cells up to this height."""
        if height > self.height:
            blank = pa.repeat(pa.scalar("", pa.large_string()), height - self.height)
            self.parts.append(Cells(blank))
            self.height = height


def _columns_below(row: int, worksheet_blocks: Iterator[_Block]) -> dict[int, _Column]:
    """Return the columns of the worksheet, from 0, with the cells below this row. Rows are
    transposed in small groups that fit into the processor's cache.
    """
    columns: defaultdict[int, _Column] = defaultdict(_Column)
    for block in worksheet_blocks:
        at = max(block.top - row, 0)
        rows = itertools.islice(block.rows, max(row - block.top, 0), None)
        while some := list(itertools.islice(rows, _TOGETHER)):
            for column, values in enumerate(zip(*some, strict=True), block.left):
                columns[column].add(at, values)
            at += len(some)
    return columns


def _complete_columns(
    columns: dict[int, _Column], span: range, header_row: int, surveyed: Survey
) -> list[Cells]:
    """Return the columns of the span, completed with the cells that calamine does not report."""
    special: dict[int, dict[int, tuple[CellKind, str]]] = {n: {} for n in span}
    for (row, column), cell in sorted(surveyed.special.items()):
        if row > header_row and column in special:
            special[column][row - header_row - 1] = cell
    positions = (position for cells in special.values() for position in cells)
    heights = [column.height for column in columns.values()]
    height = max([*heights, *(position + 1 for position in positions)], default=0)
    return [_join(columns.pop(n, _Column()), height, special[n]) for n in span]


def _join(column: _Column, height: int, special: dict[int, tuple[CellKind, str]]) -> Cells:
    column.extend(height)
    return _with(Cells.concat(column.parts), special)


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
