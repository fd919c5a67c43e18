"""Read a file or a DataFrame as a sheet, with its findings."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack
from uuid import UUID

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync._collector import pause_collection
from petsync._display import quote
from petsync._options import reject_unknown, show_keywords
from petsync.errors import SettingsError, SheetError
from petsync.models import Pet, Tag, TagName, as_tag
from petsync.plan.change import Delete, LongChanges
from petsync.plan.fields import tag_key
from petsync.plan.match import pets_of
from petsync.plan.plan import Plan
from petsync.sheets import csv
from petsync.sheets.base import find_base
from petsync.sheets.files import Source, make_executor, must_not_be_address, reading_once
from petsync.sheets.grid import (
    MAX_CELL_LENGTHS,
    SHOWN_LENGTH,
    Bools,
    CellKind,
    Cells,
    Fault,
    Grid,
    is_longer,
)
from petsync.sheets.headers import (
    ACTION,
    Headers,
    Mapper,
    check_mapping,
    fold_header,
    own_results,
    present_headers,
)
from petsync.sheets.load import STDIN, load, load_unchanged
from petsync.sheets.records import add_tag_ids, frame_of_stream, read_records, take_values
from petsync.sheets.validate import columns
from petsync.sheets.validate.columns import (
    Numbers,
    note_renamed,
    note_separators,
    numbers,
    open_column,
    pet_ids,
    positions,
)
from petsync.sheets.validate.findings import Note, Notes, escaped_list
from petsync.sheets.validate.rows import (
    find_copies,
    note_non_data,
    note_repeated,
    note_suspects,
    note_worksheet,
)
from petsync.sheets.validate.rules import findings_rule
from petsync.sheets.xlsx.contents import find_plain, replace_texts
from petsync.table.arrow import TAG_IDS, ArrowTable, PetTable, are_same
from petsync.table.base import Base, base_of_frame
from petsync.table.cells import (
    CellError,
    escape_marker,
    format_photo_urls,
    format_tags,
    is_like_marker,
    normal_status,
    parse_id,
    parse_photo_urls,
    trim,
)
from petsync.table.columns import ADDING, CLEAR, CLEARED, COLUMNS, LISTS
from petsync.table.dtypes import text_column
from petsync.table.frame import (
    EXTRA,
    copy_frame,
    decode_fields,
    extra_of,
    integers,
    is_missing,
    list_values,
    plain_values,
    texts,
    unique_texts,
)
from petsync.table.lists import (
    Items,
    as_items,
    as_lists,
    count_items,
    find_bounds,
    flatten,
    lists_of,
    with_python_lists,
)
from petsync.table.options import STATUSES, ReadOptions, SheetKeywords
from petsync.table.rules import SheetRule, rule_code
from petsync.table.sheet import (
    FILE_ROWS,
    FRAME_NAME,
    Correction,
    RowLabels,
    Sheet,
    cell_address,
    frame_of,
    rows_of,
)

if TYPE_CHECKING:
    from petsync.sheets.validate.own import Checked, Observed

__all__ = [
    "Origin",
    "Peek",
    "apply_corrections",
    "as_edited",
    "find_named_again",
    "grid_from_frame",
    "peek",
    "read_file",
    "read_grid",
    "read_sheet",
    "read_source",
    "reading_sheet_once",
    "sheet_from_frame",
    "sheet_of",
    "validate_grid",
    "with_edits",
    "worksheet_of",
]


# Corrections: texts that replace cells while the file stays unchanged.


_MAX_SHOWN = 5
_CELL = re.compile(r"(?:'((?:[^']|'')+)'!|([^'!]+)!)?\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
_LINE = re.compile(r"line ([0-9]{1,9}), column ([0-9]{1,5})", re.IGNORECASE)
_RECORD = re.compile(r"row ([0-9]{1,9}), (.+)", re.DOTALL)


class _Place(NamedTuple):
    """The place of a cell: its row's number in the file, and its column's letters or number."""

    row: int
    column: str


class _CorrectionRefusedError(Exception):
    """A correction cannot be made; the message says why."""


def apply_corrections(grid: Grid, mapper: Mapper, corrections: Mapping[str, str]) -> Grid:
    """Return the grid with the given texts in its cells; its `corrections` list the changed cells.

    `corrections` maps addresses to texts, and also a column with a text (`status:reserved`), which
    stands for all its cells with this text; an address has priority. A cell becomes text, whatever
    its kind was; "" makes it blank. A text that is too long for a cell is a fault of its row.
    Raises SheetError if any correction cannot be made; the error lists the first five problems.
    """
    if not corrections:
        return grid
    editor = _GridEditor.of(grid, mapper)
    shared: dict[tuple[int, int], str] = {}
    texts: dict[tuple[int, int], str] = {}
    problems: list[str] = []
    for address, text in dict(corrections).items():
        try:
            if (cells := editor.find_equal(address)) is not None:
                known = shared
            else:
                known, cells = texts, [editor.find_cell(address)]
            new = editor.check_text(address, text)
            if any(known.setdefault(cell, new) != new for cell in cells):
                raise _CorrectionRefusedError(
                    f"{address}: this cell is corrected twice, to different texts"
                )
        except _CorrectionRefusedError as error:
            problems.append(str(error))
    if problems:
        raise _correction_error(mapper.source, problems, editor)
    new_texts = {**shared, **texts}
    limit = MAX_CELL_LENGTHS["workbook" if grid.tab else "text"]
    long = {cell: text for cell, text in new_texts.items() if is_longer(text, limit)}
    fitting = {cell: text for cell, text in new_texts.items() if cell not in long}
    return editor.with_long_texts(long, limit).correct_grid(fitting)


def _correction_error(source: str, problems: list[str], editor: _GridEditor) -> SheetError:
    more = f"; and {len(problems) - _MAX_SHOWN:,} more" if len(problems) > _MAX_SHOWN else ""
    return SheetError(
        f"{source}: a correction cannot be made: {'; '.join(problems[:_MAX_SHOWN])}{more}",
        hint=f"{editor.extent} Nothing was read.",
    )


@dataclass(frozen=True, slots=True)
class _GridEditor:
    """Finds and changes the cells of one grid. `names` maps the place of a column to its name,
    `rows` the number of a row to its position.
    """

    grid: Grid
    names: Mapping[str, str]
    rows: Mapping[int, int]

    @classmethod
    def of(cls, grid: Grid, mapper: Mapper) -> _GridEditor:
        headers = mapper.match(grid.header, grid.places)
        columns = {**headers.others, **headers.columns}
        return cls(
            grid,
            {
                grid.places[position]: name
                for name, position in sorted(columns.items(), key=lambda each: each[1])
            },
            {row: position for position, row in enumerate(grid.rows.tolist())},
        )

    @property
    def extent(self) -> str:
        """The rows and columns of the sheet in words, with the address of a cell as an example."""
        if not len(self.grid.rows):
            return "The sheet has no row below its header."
        first, last = int(self.grid.rows[0]), int(self.grid.rows[-1])
        places = list(self.names)
        example = self.grid.address(places[0], first)
        kind, columns = ("rows", "columns") if self.grid.tab else ("lines", "columns")
        return (
            f"The sheet's {kind} are {first} to {last}, its {columns} {', '.join(places[:12])}"
            f"{', …' if len(places) > 12 else ''}; write an address as in a finding: {example}."
        )

    def find_cell(self, address: object) -> tuple[int, int]:
        """Return the positions of the cell's row and column. Raises _CorrectionRefusedError."""
        place = self._place(address)
        if place.row == self.grid.header_row:
            raise _CorrectionRefusedError(
                f"{address}: this is a header; map it to a column instead"
            )
        position = self.rows.get(place.row)
        if place.column in self.grid.places and place.column not in self.names:
            raise _CorrectionRefusedError(f"{address}: its column has no header")
        if position is None or place.column not in self.names:
            raise _CorrectionRefusedError(
                f"{address}: there is no such cell, or its whole row is blank"
            )
        if position in self.grid.faults:
            rule = self.grid.faults[position].rule
            raise _CorrectionRefusedError(
                f"{address}: its row has the error {rule}; fix it in the file"
            )
        return position, list(self.grid.places).index(place.column)

    def find_equal(self, key: object) -> list[tuple[int, int]] | None:
        """Return the positions of the cells that a key such as `status:reserved` means; None if it
        is an address. Raises _CorrectionRefusedError if no cell has the text.
        """
        name, mark, text = str(key).partition(":")
        columns = {fold_header(each): place for place, each in self.names.items()}
        place = columns.get(fold_header(name))
        if not mark or place is None:
            return None
        at = list(self.grid.places).index(place)
        # Statuses are compared as in a file.
        normal = normal_status if self.names[place] == "status" else trim
        wanted = normal(text)
        values = self.grid.columns[at].text.to_pylist()
        rows = [row for row, value in enumerate(values) if normal(value or "") == wanted]
        cells = [(row, at) for row in rows if row not in self.grid.faults]
        if not cells:
            raise _CorrectionRefusedError(f"{key}: no cell of the column has this text")
        return cells

    def _place(self, address: object) -> _Place:
        if not isinstance(address, str):
            raise _CorrectionRefusedError(f"{address!r} is not an address of a cell")
        if not self.grid.header_row and (record := _RECORD.fullmatch(address.strip())):
            return _Place(int(record[1]), record[2])
        if not self.grid.tab:
            line = _LINE.fullmatch(address.strip())
            if line is None:
                raise _CorrectionRefusedError(f"{address!r} is not an address of a cell")
            return _Place(int(line[1]), str(int(line[2])))
        cell = _CELL.fullmatch(address.strip())
        if cell is None:
            raise _CorrectionRefusedError(f"{address!r} is not an address of a cell")
        tab = cell[1].replace("''", "'") if cell[1] else cell[2]
        if tab is not None and tab != self.grid.tab:
            raise _CorrectionRefusedError(
                f"{address}: petsync reads only the worksheet {self.grid.tab!r}"
            )
        return _Place(int(cell[4]), cell[3].upper())

    def check_text(self, address: str, text: object) -> str:
        """Return the text. Raises _CorrectionRefusedError if it is not valid Unicode text."""
        if not isinstance(text, str):
            raise _CorrectionRefusedError(f"{address}: {text!r} is not text; put it in quotes")
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise _CorrectionRefusedError(f"{address}: the text contains half of a surrogate pair")
        return text

    def with_long_texts(
        self, texts_by_cell: Mapping[tuple[int, int], str], limit: int
    ) -> _GridEditor:
        """Return the editor with a fault in the row of each text, which no cell can contain. The
        cells stay as they are, but the texts are corrections, so that the sheet can be read again.
        """
        faults, corrections = dict(self.grid.faults), [*self.grid.corrections]
        for (at, position), text in texts_by_cell.items():
            name = self.names[self.grid.places[position]]
            problem = f"The text has {len(text):,} characters; the cell can have {limit:,}."
            faults[at] = Fault("cell-long", text[:SHOWN_LENGTH], problem, name)
            corrections.append(self._correction(at, position, text))
        return replace(self, grid=replace(self.grid, faults=faults, corrections=corrections))

    def correct_grid(self, texts_by_cell: Mapping[tuple[int, int], str]) -> Grid:
        """Return the grid with these texts in its cells; a text that the cell already has is not a
        correction.
        """
        columns = list(self.grid.columns)
        corrections = [*self.grid.corrections]
        for position in sorted({column for _, column in texts_by_cell}):
            texts = {at: text for (at, column), text in texts_by_cell.items() if column == position}
            cells = columns[position]
            new = {at: text for at, text in texts.items() if not _has_text(cells, at, text)}
            corrections += (self._correction(at, position, text) for at, text in new.items())
            columns[position] = _replace_texts(cells, new)
        order = {name: at for at, name in enumerate(self.names.values())}
        corrections.sort(key=lambda each: (each.row, order[each.column]))
        return replace(self.grid, columns=columns, corrections=corrections).without_blank_rows()

    def _correction(self, at: int, position: int, text: str) -> Correction:
        place, row = self.grid.places[position], int(self.grid.rows[at])
        return Correction(
            address=self.grid.address(place, row),
            row=row,
            column=self.names[place],
            before=self.grid.columns[position].text[at].as_py(),
            after=text,
        )


def _has_text(cells: Cells, at: int, text: str) -> bool:
    is_text = cells.kinds is None or cells.kinds[at] == CellKind.TEXT
    return is_text and bool(cells.text[at].as_py() == text)


def _replace_texts(cells: Cells, texts: Mapping[int, str]) -> Cells:
    if not texts:
        return cells
    is_corrected = np.zeros(len(cells), dtype=bool)
    is_corrected[list(texts)] = True
    # Arrow needs the texts in the order of the cells.
    new = pa.array([texts[at] for at in sorted(texts)], pa.large_string())
    kinds = (
        None if cells.kinds is None else np.where(is_corrected, np.int8(CellKind.TEXT), cells.kinds)
    )
    return Cells(pc.replace_with_mask(cells.text, pa.array(is_corrected), new), kinds)


# read_sheet: a spreadsheet as a Sheet, with the address of every problem.


class Origin(NamedTuple):
    """The source of a grid: its name, and the SHA-256 of the file's bytes in hexadecimal, "" for a
    DataFrame.
    """

    name: str
    digest: str = ""


Table = pd.DataFrame | ArrowTable
"""A table in memory that is read as a sheet."""


@show_keywords(SheetKeywords, ReadOptions)
def read_sheet(path: str | Path | Table, **options: Unpack[SheetKeywords]) -> Sheet:
    """Read the sheet at `path`: a workbook (`.xlsx .xlsm .ods .xls .xlsb`), text (`.csv .tsv .txt
    .json .jsonl .ndjson`, also compressed, `.csv.gz .csv.zst`), a Parquet file, or standard input
    ("-"). Or check a DataFrame, or a table with the Arrow PyCapsule interface, such as one of
    polars or pyarrow.

    Without a `tab`, petsync reads the exported worksheet of a file with a base, else the first
    visible worksheet with a known header. Raises SheetError if the exported worksheet is hidden, or
    if it was deleted or renamed and its ids do not identify it.

    `mapping` maps headers that must exist in the file to columns, `defaults` headers that may be
    missing. A status must be one of `statuses`, of `known_statuses` or of the file's base; a
    difference only in case or in spaces around it is a warning. The text `clear` in a cell empties
    the field. If a CSV file has a byte order mark, `encoding` must agree with it. `corrections`
    maps addresses of cells, as in a finding (`Pets!C12`, `C12`, `line 12, column 3`, `row 12,
    status`), to texts, and
    `status:reserved` for all cells of that column with this text: petsync reads the texts instead
    of the cells, "" as a blank cell. The file does not change;
    the sheet, its plan and its report list the corrections.

    Problems of rows are the sheet's findings. Raises SheetError, with a hint, if the file cannot be
    read at all, a header of `mapping` is missing, or a correction cannot be made, and SettingsError
    for an unknown encoding.
    """
    reject_unknown(options, "read_sheet", SheetKeywords)
    return read_file(path, ReadOptions.of(options))


def read_file(path: str | Path | Table, options: ReadOptions) -> Sheet:
    """Return the file as a sheet. Raises SheetError and SettingsError as `read_sheet` does."""
    if not isinstance(path, str | Path):
        return _read_table(path, options)
    must_not_be_address(path)
    return read_source(load(Path(path), options.encoding), options)


def read_source(source: Source, options: ReadOptions) -> Sheet:
    """Return the loaded file as a sheet. Raises SheetError as `read_sheet` does."""
    with pause_collection(), make_executor(1, len(source.data)) as helper:
        digest = helper.submit(getattr, source, "digest")
        used_encoding, form = source.encoding, source.form
        columns = options.columns
        if options.tab and source.kind != "workbook":
            what = source.form or "a text file"
            raise SheetError(
                f"{source.path}: this is {what}, which has no worksheets",
                hint=f"Leave out the worksheet (--sheet {quote(options.tab)}, "
                f"in Python tab={options.tab!r}).",
            )
        base, base_refused = find_base(source)
        grid = read_grid(source, options.tab, columns, options.corrections, base)
        check_mapping(str(source.path), options.mapping, grid.header)
        elsewhere = _ids_elsewhere(source, columns, grid.tab)
        columns = present_headers(columns, grid.header)
        # A status that was exported is valid, even if the store does not use it any more.
        exported_statuses = () if base is None else base.rows["status"].dropna().unique()
        known = frozenset([*options.known_statuses, *exported_statuses])
        origin = Origin(str(source.path), digest.result())
        heads = grid.heads
        # Release the bytes, which may be many.
        del source, digest
        statuses = options.statuses, known
        sheet = validate_grid(
            grid,
            origin,
            columns,
            statuses,
            options.clear,
            base,
            rules=options.rules,
            any_status=options.any_status,
        )
    # Arrow keeps freed memory for itself, which the comparison would need in addition.
    del grid
    pa.default_memory_pool().release_unused()
    return replace(
        sheet,
        base=base,
        base_refused=base_refused,
        mapping=columns,
        encoding=used_encoding,
        form=form,
        ids_elsewhere=elsewhere,
        heads=heads,
        read_again=partial(_correct_file, options),
    )


def _correct_file(
    options: ReadOptions, sheet: Sheet, texts: Mapping[tuple[int, str], str]
) -> Sheet:
    """Return the sheet of the same file, read with its corrections and these texts in its cells."""
    if sheet.source == STDIN:
        raise SheetError(
            "standard input cannot be read again, so the frame of its sheet cannot be changed",
            hint=_PLAN_FRAME,
        )
    source = load_unchanged(sheet, "Read it again, and make the changes again.")
    corrections = {each.address: each.after for each in sheet.corrections} | {
        sheet.address(row, column): _with_marker(text, options.clear)
        for (row, column), text in texts.items()
    }
    return read_source(
        source,
        msgspec.structs.replace(options, tab=sheet.tab or None, corrections=corrections),
    )


def _with_marker(text: str, marker: str) -> str:
    """Return a cell's text with another marker of cleared cells than CLEAR."""
    if marker == CLEAR:
        return text
    if text == CLEAR and marker:
        return marker
    if text == CLEAR:
        raise SheetError(
            "the sheet was read without a text that empties a field, so no field can be emptied",
            hint=_PLAN_FRAME,
        )
    is_escaped = text.startswith("'") and is_like_marker(text, CLEAR)
    return escape_marker(text[1:] if is_escaped else text, marker)


def _read_table(table: Table, options: ReadOptions) -> Sheet:
    if options.corrections:
        raise SheetError(
            "a DataFrame has no file, so corrections do not apply to it",
            hint="Change the DataFrame itself.",
        )
    if given := [name for name in ("tab", "encoding") if getattr(options, name)]:
        raise SettingsError(
            f"{' and '.join(given)} cannot apply to a DataFrame, which has no file",
            hint="Leave the option out, or give the path of the file.",
        )
    # The copy shares its values with the user's DataFrame until one of them is changed.
    frame = copy_frame(table) if isinstance(table, pd.DataFrame) else frame_of_stream(table)

    return _read_frame(frame, options, {})


def _read_frame(
    frame: pd.DataFrame, options: ReadOptions, edits: Mapping[tuple[int, str], str]
) -> Sheet:
    sheet = sheet_from_frame(
        frame,
        mapping=options.mapping,
        defaults=options.defaults,
        statuses=options.statuses,
        known_statuses=options.known_statuses,
        rules=options.rules,
        edits=edits,
    )
    return replace(sheet, read_again=partial(_correct_frame, frame, options, edits))


def _correct_frame(
    frame: pd.DataFrame,
    options: ReadOptions,
    edits: Mapping[tuple[int, str], str],
    _: Sheet,
    texts: Mapping[tuple[int, str], str],
) -> Sheet:
    """Return the sheet of the same DataFrame, read with these texts and the earlier `edits`."""
    return _read_frame(frame, options, {**edits, **texts})


def worksheet_of(path: Path, base: Base, mapping: Mapping[str, str] | None = None) -> str | None:
    """Return the name of the base's worksheet in the file. None if the file or the base has no
    worksheet, or if the file was exported again with another worksheet. Raises SheetError if the
    file cannot be read, or if the worksheet is hidden or cannot be identified.
    """
    if not base.tab:
        return None
    source = load(path)
    if source.kind != "workbook":
        return None
    # calamine is loaded when a workbook is read.
    from petsync.sheets.xlsx import read
    from petsync.sheets.xlsx.package import Package

    names = {each.name.casefold() for each in Package(source).tabs}
    file_base = None if base.tab.casefold() in names else find_base(source)[0]
    if file_base is not None and file_base.tab not in ("", base.tab):
        return None
    return read.own_tab(source, Mapper.of(str(path), mapping), base)


def _ids_elsewhere(
    source: Source, mapping: Mapping[str, str], tab: str
) -> Mapping[str, frozenset[int] | None]:
    if source.kind != "workbook":
        return {}
    # calamine is loaded when a workbook is read.
    from petsync.sheets.xlsx import read

    return read.ids_elsewhere(source, Mapper.of(str(source.path), mapping), tab)


def validate_grid(
    grid: Grid,
    origin: Origin,
    mapping: Mapping[str, str] | None,
    statuses: tuple[Sequence[str], Collection[str]],
    clear: str = CLEAR,
    base: Base | None = None,
    *,
    rules: Sequence[SheetRule] = (),
    any_status: bool = False,
    observed: Observed | None = None,
) -> Sheet:
    """Return the sheet of a grid, with its findings. `statuses` is a pair: the usual statuses and
    the further valid ones; with `any_status`, all are valid. `base` is the base of the file,
    `rules` are the user's own. `observed` is filled if the grid is a part of a sheet.
    """
    headers = Mapper.of(origin.name, mapping).match(grid.header, grid.places)
    own = {rule_code(rule): findings_rule(rule) for rule in rules}
    notes = Notes(grid, {**headers.others, **headers.columns}, own)
    reading = _SheetReader(grid, headers, notes, clear, base, rules, observed)
    reading.validate(*statuses, any_status=any_status)
    sheet = reading.sheet(origin)
    if all(problem.rule != "unknown-status" for problem in sheet.problems):
        return sheet
    usual, known = statuses

    def validate_again(more: Collection[str]) -> Sheet:
        statuses = usual, {*known, *more}
        return validate_grid(grid, origin, mapping, statuses, clear, base, rules=rules)

    return replace(sheet, validate_again=validate_again)


def read_grid(
    source: Source,
    tab: str | None,
    mapping: Mapping[str, str] | None,
    corrections: Mapping[str, str] | None = None,
    base: Base | None = None,
) -> Grid:
    """Return the file's grid with the corrections, before validation. Without a `tab`, it is the
    grid of the worksheet of the file's `base`, else of the first visible worksheet with a known
    header.
    """
    mapper = Mapper.of(str(source.path), mapping)
    cell_texts = corrections or {}
    if source.kind != "workbook":
        read = _read_records if source.kind == "records" else csv.read_grid
        return apply_corrections(read(source, mapper), mapper, cell_texts)
    # calamine is loaded when a workbook is read.
    from petsync.sheets import exact
    from petsync.sheets.xlsx import read as xlsx
    from petsync.sheets.xlsx.package import Package

    grid = apply_corrections(xlsx.read_grid(source, mapper, tab, base=base), mapper, cell_texts)
    return exact.restore_texts(grid, Package(source), mapper)


def _read_records(source: Source, mapper: Mapper) -> Grid:
    frame, numbers = read_records(source)
    if not len(frame.columns):
        raise SheetError(
            f"{source.path}: the file has no records", hint="Check that it is the right file."
        )
    columns = ((str(name), mapper.mapping.get(fold_header(str(name)))) for name in frame)
    known = {name: column for name, column in columns if column is not None}
    frame, faults = take_values(frame, known)
    grid = grid_from_frame(frame, mapper, numbers, {})
    return replace(grid, faults={**grid.faults, **faults}).without_blank_rows()


class _Validated(NamedTuple):
    """One column: masks of its blank and of its cleared cells, its values, and its notes."""

    blank: Bools
    cleared: Bools
    values: Any
    notes: Notes


def _rows(frame: pd.DataFrame, keep: np.ndarray[Any, Any]) -> pd.DataFrame:
    return frame if len(keep) == len(frame) else frame.iloc[keep]


@dataclass(slots=True)
class _SheetReader:
    """Validates one grid and builds a sheet from it."""

    grid: Grid
    headers: Headers
    notes: Notes
    clear: str
    base: Base | None
    rules: Sequence[SheetRule] = ()
    observed: Observed | None = None
    values: dict[str, Any] = field(default_factory=dict)
    cleared: dict[str, Bools] = field(default_factory=dict)
    blank: dict[str, Bools] = field(default_factory=dict)
    repeats: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    checked: Checked | None = None

    def validate(
        self, statuses: Sequence[str], known: Collection[str], *, any_status: bool
    ) -> None:
        """Validate every cell, then the rows, then the whole sheet."""
        validators = {
            "id": lambda column: pet_ids(column, self.base),
            "name": lambda column: columns.names(column, self._exported_texts("name")),
            "status": lambda column: columns.statuses(
                column, statuses, known, is_any_valid=any_status
            ),
            "category": lambda column: columns.categories(
                column, self._exported_texts("category"), self.clear
            ),
            "category_id": numbers,
            "tags": columns.tags,
            "photo_urls": columns.photos,
            ACTION: columns.actions,
        }
        lists = [name for name in LISTS if name in self.headers.columns]
        others = [name for name in self.headers.columns if name not in LISTS]
        with make_executor(2, len(self.grid.rows) * len(self.headers.columns)) as threads:

            def start(names: Iterable[str]) -> dict[str, Future[_Validated]]:
                return {
                    name: threads.submit(self._validate_column, name, validators[name])
                    for name in names
                }

            # Most of the time, the lists take longest.
            validating = start(lists)
            separators, suspects = map(threads.submit, (self._separators, self._suspects))
            validating |= start(others)
            for name in self.headers.columns:
                validated = validating[name].result()
                self.blank[name], self.cleared[name] = validated.blank, validated.cleared
                self.values[name] = validated.values
                self.notes.take(validated.notes)
            self.notes.take(suspects.result())
            self.notes.take(separators.result())
        if ACTION not in self.values:
            self.values[ACTION] = texts(["merge"] * len(self.grid.rows))
        # The cells of a faulty row may be in the wrong columns, so drop the row's findings, except
        # those on its id.
        self.notes.forget(self.grid.faults, but="id")
        for at, fault in self.grid.faults.items():
            # By default, the note is on the column `id`: the id in such a row of a CSV file may be
            # another pet's.
            note = Note(fault.rule, fault.value, fault.problem, fault.suggestion)
            self.notes.add(at, fault.column, note)
        self._validate_rows()
        renamed = self._note_renamed()
        note_worksheet(self.grid, self.headers, self.notes, renamed)

    def _note_renamed(self) -> frozenset[int]:
        """Note the exported columns that have a different header now, if any row has the action
        `merge`.
        """
        is_open = np.asarray(self.values[ACTION] == "merge")
        if self.base is None or not is_open.any():
            return frozenset()
        return note_renamed(self.grid, self.headers, self.base, self.notes)

    def sheet(self, origin: Origin) -> Sheet:
        """Return the validated sheet."""
        blocked = self.notes.find_blocked()
        if self.checked is not None and self.checked.blocked is not None:
            blocked |= self.checked.blocked
        keep = np.flatnonzero(~blocked & ~self.repeats)
        index = pd.Index(self.grid.rows[keep], name="row")
        has_id = np.asarray(~self._ids().isna())
        ids = self._ids()[blocked & has_id].tolist()
        return Sheet(
            source=origin.name,
            tab=self.grid.tab,
            content=PetTable(frame=frame_of(_rows(self._frame(), keep).set_axis(index))),
            others=_rows(self._other_columns(), keep).set_axis(index),
            problems=self.notes.findings(self.clear),
            blocked=tuple(self.grid.rows[blocked].tolist()),
            blocked_ids=frozenset(ids),
            blocked_pets=dict(zip(self.grid.rows[blocked & has_id].tolist(), ids, strict=True)),
            blocked_names=self._names(positions(blocked)),
            unidentified=tuple(self.grid.rows[blocked & ~has_id].tolist()),
            columns={
                name: self.grid.places[position]
                for name, position in {**self.headers.others, **self.headers.columns}.items()
            },
            header_row=self.grid.header_row,
            labels=self.grid.labels,
            tabs=tuple(self.grid.tabs),
            files=tuple(self.grid.files),
            digest=origin.digest,
            corrections=tuple(self.grid.corrections),
            rules=() if self.checked is None else self.checked.results,
            given_rules=tuple(self.rules),
        )

    def _names(self, rows: Iterable[int]) -> dict[int, str]:
        """Return the names in the rows at these positions, by row number; a faulty row has none."""
        if "name" not in self.values:
            return {}
        names = ((at, self.values["name"][at]) for at in rows if at not in self.grid.faults)
        texts = ((at, name) for at, name in names if isinstance(name, str) and name.strip())
        return {int(self.grid.rows[at]): name for at, name in texts}

    def _validate_column(self, name: str, validate: Any) -> _Validated:
        cells, notes = self.grid.columns[self.headers.columns[name]], self._new_notes()
        is_number = name in ("id", "category_id")
        blank = cells.find_blank()
        column = open_column(name, cells, blank, self.clear, notes, special=not is_number)
        cleared, values = column.clear.copy(), validate(column)
        if name == "category" and self.grid.emptied:
            values[[*self.grid.emptied]] = ""
        return _Validated(blank, cleared, values, notes)

    def _new_notes(self) -> Notes:
        return Notes(self.grid, self.headers.columns)

    def _suspects(self) -> Notes:
        notes = self._new_notes()
        note_suspects(self.grid, self.headers, notes)
        return notes

    def _separators(self) -> Notes:
        columns, notes = self.headers.columns, self._new_notes()
        tags, photos = (
            self.grid.columns[columns[name]] if name in columns else None for name in LISTS
        )
        note_separators(tags, photos, self.clear, self.base, notes)
        return notes

    def _validate_rows(self) -> None:
        ignored = np.asarray(self.values[ACTION] == "ignore")
        ignored[list(self.grid.faults)] = False
        if "id" in self.cleared:
            note = Note("clear-refused", self.clear, "An id cannot be emptied.")
            self.notes.add_all(positions(self.cleared["id"]), "id", note)
        self._note_categories()
        self._note_incomplete_adds()
        non_data = note_non_data(self.grid, self.headers, self.notes)
        if ignored.any():
            self.notes.forget(set(positions(ignored)))
        columns = self.headers.columns
        self.repeats = find_copies(self.grid, columns, self._ids(), ~ignored, self.notes)
        without_id = (
            self._mask(self.blank, "id", missing=True) & ~ignored & ~self.notes.find_blocked()
        )
        note_repeated(self.grid, columns, without_id, ~ignored, self.notes)
        if self.observed is not None:
            self._observe(self.observed)
        if self.rules:
            active = ~ignored & ~self.repeats
            active[[*non_data, *self.grid.faults]] = False
            self._apply_rules(active)

    def _apply_rules(self, active: Bools) -> None:
        # Most sheets have no rules of the user's own.
        from petsync.sheets.validate.own import OwnRules

        own = OwnRules(
            grid=self.grid,
            headers=self.headers,
            values=self.values,
            blank=self.blank,
            cleared=self.cleared,
            active=active,
            frame=self._frame_of_check,
            notes=self.notes,
            observed=self.observed,
        )
        self.checked = own.apply(self.rules)

    def _observe(self, observed: Observed) -> None:
        """Record what is needed to find the rows of other parts that may have findings together
        with rows of this part.
        """
        # Most sheets are validated as a whole.
        from petsync.sheets.validate.own import hash_texts

        grid, columns = self.grid, self.headers.columns
        observed.ids = self._ids()
        observed.without_id = self._mask(self.blank, "id", missing=True)
        if "name" in columns:
            texts = (
                grid.columns[at].trim()
                for name, at in columns.items()
                if name not in ("id", ACTION)
            )
            observed.contents = hash_texts(texts, len(grid.rows))
        for position, header in enumerate(grid.header):
            if header.strip():
                continue
            filled = np.flatnonzero(~grid.columns[position].find_blank())
            if len(filled):
                observed.first_filled[position] = int(filled[0])

    def _frame_of_check(self, rows: Bools) -> pd.DataFrame:
        """Return these rows with all columns, for a check of the user; a blank cell is missing."""
        keep = np.flatnonzero(rows)
        others = self._other_columns()
        names = [name for name in others if name not in self.values]
        frame = pd.concat(
            [frame_of(self._frame()), others[names].where(others[names] != "")], axis="columns"
        )
        return with_python_lists(frame.iloc[keep].set_axis(self.grid.rows[keep], axis="index"))

    def _note_categories(self) -> None:
        clear_id = self._mask(self.cleared, "category_id")
        clear_name = self._mask(self.cleared, "category")
        # A cleared category beside a category_id is not a contradiction: people clear the category
        # and leave its id.
        id_only = clear_id & ~clear_name
        note = Note("category-contradiction", self.clear)
        self.notes.add_all(positions(id_only), "category_id", note)

    def _note_incomplete_adds(self) -> None:
        action = self.values[ACTION]
        without_id = self._mask(self.blank, "id", missing=True) & np.asarray(action == "merge")
        is_added = without_id | np.asarray(action.isin(ADDING))
        is_nameless = self._mask(self.blank, "name", missing=True)
        is_complete = np.ones(len(is_nameless), dtype=bool)
        is_complete[list(self.grid.faults)] = False
        self.notes.add_all(
            positions(is_added & is_nameless & is_complete),
            "name",
            Note("name-missing", ""),
        )
        # A blank or cleared status is a separate finding, unless the row already has an error.
        without_status = self._mask(self.blank, "status", missing=True) | self._mask(
            self.cleared, "status"
        )
        without_status &= is_added & is_complete & ~self.notes.find_blocked()
        if {"id", "status"} & self.headers.columns.keys():
            note = Note("status-missing", "")
            self.notes.add_all(positions(without_status), "status", note)
        elif without_status.any():
            problem = (
                "The sheet has no ids and no statuses, so the plan adds none of its rows as pets."
            )
            cure = "Add a column status with one of the store's statuses in each row."
            self.notes.add(-1, "", Note("status-missing", "", problem, cure))

    def _exported_texts(self, name: str) -> Container[str]:
        return () if self.base is None else _ExportedTexts(self.base, name)

    def _mask(self, masks: Mapping[str, Bools], name: str, *, missing: bool = False) -> Bools:
        return masks.get(name, np.full(len(self.grid.rows), missing))

    def _ids(self) -> Numbers:
        values: Any = self.values.get("id")
        if values is None:
            values = integers([None] * len(self.grid.rows))
        ids: Numbers = values
        return ids

    def _frame(self) -> pd.DataFrame:
        names = [name for name in COLUMNS if name in self.values]
        columns = {name: self.values[name] for name in (*names, ACTION)}
        return pd.DataFrame(columns, copy=False)

    def _other_columns(self) -> pd.DataFrame:
        columns = {
            trim(name): text_column(self.grid.columns[at].text)
            for name, at in self.headers.others.items()
        }
        return pd.DataFrame(columns, index=range(len(self.grid.rows)), copy=False)


class _ExportedTexts(Container[str]):
    """The texts of a column in a base, collected when the first text is looked up."""

    def __init__(self, base: Base, name: str) -> None:
        self._base, self._name = base, name

    def __contains__(self, text: object) -> bool:
        return text in self._texts

    @cached_property
    def _texts(self) -> set[str]:
        return unique_texts(self._base.rows, self._name)


# A DataFrame as a sheet: it is validated by the same rules as a file.


_MAX_LISTED = 12
_FLOAT64_DIGITS, _LIST_ITEM_DIGITS = 53, 24
"""The number of significant bits of a float64, and the number to assume for a float in a list."""
_PARSED_COLUMNS = ("id", "category_id", "tags", "photo_urls")
"""The columns in which a text of a DataFrame is parsed like the text of a cell."""


def sheet_from_frame(
    frame: pd.DataFrame,
    *,
    mapping: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    statuses: Sequence[str] = STATUSES,
    known_statuses: Collection[str] = (),
    first: int = 0,
    numbers: np.ndarray[Any, np.dtype[np.int64]] | None = None,
    files: Sequence[str] = (),
    source: str = FRAME_NAME,
    rules: Sequence[SheetRule] = (),
    observed: Observed | None = None,
    edits: Mapping[tuple[int, str], str] | None = None,
) -> Sheet:
    """Return the sheet of a DataFrame: a missing value means no change, an empty category or
    list empties the field.

    Rows are numbered from `first`, by position, or have the given `numbers`, which may be those of
    several `files`. `observed` is that of `validate_grid`. A named level of the index, except
    `row`, is a column, so a DataFrame indexed by id has ids. A list in `tags` contains `Tag` values
    or names; a text instead of a list is parsed as in a cell. In the frame of a sheet, "[clear]"
    empties the `category`; in any other DataFrame, it is an ordinary text in `name` and `category`.
    `mapping` maps headers that must exist to columns, `defaults` headers that may be missing.
    `rules` are the user's own. `edits` are texts to read instead of the values, by row and column.
    Errors name the `source`.

    A value that its column cannot have is a finding, which blocks its row. Raises SheetError if the
    columns are unknown, misspelled or ambiguous, or a header of `mapping` is missing.
    """
    columns = {**(defaults or {}), **(mapping or {})}
    mapper = Mapper.of(source, columns)
    # Only a user's own table is looked up by its labels.
    is_own = numbers is None and not first
    if numbers is None:
        numbers = np.arange(first, first + len(frame), dtype=np.int64)
    labels = RowLabels(frame.index) if is_own else {}
    grid = grid_from_frame(frame, mapper, numbers, labels, mapping)
    if edits:
        grid = _with_edits(grid, mapper, edits)
    known = statuses, known_statuses
    grid, origin = replace(grid, files=files), Origin(source)
    sheet = validate_grid(grid, origin, columns, known, rules=rules, observed=observed)
    is_ignored = (
        source == FRAME_NAME and base_of_frame(frame) is None and _has_unknown_fields(frame)
    )
    mapping = present_headers(columns, grid.header)
    return replace(sheet, mapping=mapping, has_unknown_fields=is_ignored)


def _with_edits(grid: Grid, mapper: Mapper, edits: Mapping[tuple[int, str], str]) -> Grid:
    """Return the grid of a DataFrame with these texts, by row and column."""
    editor = _GridEditor.of(grid, mapper)
    places = list(grid.places)
    columns = {name: places.index(place) for place, name in editor.names.items()}
    cells = {(editor.rows[row], columns[name]): text for (row, name), text in edits.items()}
    category = columns.get("category")
    emptied = [row for row in grid.emptied if (row, category) not in cells]
    return replace(editor.correct_grid(cells), corrections=[], emptied=emptied)


# The changes that a user has made to `sheet.frame`: they correct the cells.


_PLAN_FRAME = "Plan the DataFrame itself: store.plan(sheet.frame)."


def as_edited(sheet: Sheet) -> Sheet:
    """Return the sheet with the changes that a user has made to `frame`, as corrections of its
    cells. They are checked like the texts of a file. Rows and columns that the user has removed are
    left out.

    Raises SheetError if the frame has rows or columns that the sheet lacks, or values of a wrong
    type, if its index no longer has the numbers of the rows, or if the file has changed since it
    was read.
    """
    if not sheet.content.is_edited:
        return sheet
    if sheet.read_again is None:
        return replace(sheet.with_rows(as_lists(sheet.frame)), validate_again=None)
    now, before = sheet.content.frame, sheet.content.rows
    _check_structure(sheet, now, before)
    edited = with_edits(sheet, _find_edits(sheet, now, before))
    columns = [str(name) for name in before if name not in now]
    return _leave_out(edited, before.index.difference(now.index), columns)


def with_edits(sheet: Sheet, texts: Mapping[tuple[int, str], str]) -> Sheet:
    """Return the sheet, read again with its corrections and these texts, by row and column."""
    assert sheet.read_again is not None
    return replace(
        sheet.read_again(sheet, texts),
        base=sheet.base,
        base_refused=sheet.base_refused,
        mapping=sheet.mapping,
        ids_elsewhere=sheet.ids_elsewhere,
    )


def _leave_out(sheet: Sheet, rows: pd.Index[int], columns: Sequence[str]) -> Sheet:
    """Return the sheet without these rows and columns, even when it is read or validated again."""
    if not len(rows) and not columns:
        return sheet
    frame, others = sheet.content.rows, sheet.others
    frame = frame.drop(index=rows, columns=[*columns], errors="ignore")
    if ACTION in columns:
        frame = frame.assign(**{ACTION: texts(["merge"] * len(frame))})
    read, validate = sheet.read_again, sheet.validate_again
    return replace(
        sheet.with_rows(frame),
        others=others.drop(index=rows, errors="ignore"),
        read_again=read and partial(_leave_out_again, read, rows, columns),
        validate_again=validate and partial(_leave_out_again, validate, rows, columns),
    )


def _leave_out_again(
    read: Callable[..., Sheet], rows: pd.Index[int], columns: Sequence[str], *arguments: Any
) -> Sheet:
    return _leave_out(read(*arguments), rows, columns)


def _check_structure(sheet: Sheet, now: pd.DataFrame, before: pd.DataFrame) -> None:
    """Raise SheetError if a changed frame has rows or columns that the sheet lacks."""
    if not now.columns.is_unique:
        raise SheetError(
            f"{sheet.source}: sheet.frame has two columns with the same name: "
            f"{_quote_repeated(map(str, now.columns))}",
            hint="Rename one of them.",
        )
    if now.index.name != before.index.name or not now.index.is_unique:
        raise SheetError(
            f"{sheet.source}: the index of sheet.frame no longer has the numbers of the rows",
            hint=f"Keep the index. {_PLAN_FRAME}",
        )
    new_rows = now.index.difference(before.index)
    if len(new_rows):
        raise SheetError(
            f"{sheet.source}: sheet.frame has a row {new_rows[0]} that the sheet does not have",
            hint=f"Add the row to the source. {_PLAN_FRAME}",
        )
    known = Mapper.of(sheet.source, sheet.mapping).mapping
    new = (name for name in now if name not in before and name != ACTION)
    columns = (name for name in new if name == EXTRA or fold_header(str(name)) in known)
    new_column = next(columns, None)
    if new_column is None and ACTION in now and ACTION not in sheet.columns:
        is_same = ACTION in before and are_same(
            now[ACTION].array, before[ACTION].reindex(now.index).array
        )
        new_column = None if is_same else ACTION
    if new_column is not None:
        raise SheetError(
            f"{sheet.source}: sheet.frame has values in the column {new_column}, which the sheet "
            "does not have",
            hint=f"Add the column to the source. {_PLAN_FRAME}",
        )


def _find_edits(
    sheet: Sheet, now: pd.DataFrame, before: pd.DataFrame
) -> dict[tuple[int, str], str]:
    """Return the texts of the changed values of the frame, by row and column."""
    before = before.loc[now.index]
    shared = [str(name) for name in before if name in now]
    edited = [n for n in shared if not are_same(now[n].array, before[n].array)]
    new = [name for name in now if name not in before]
    if not edited and not new:
        return {}
    mapper, rows = Mapper.of(sheet.source, None), now.index.to_numpy(np.int64)
    # The other columns are needed to find a misspelled one.
    names = shared if new else edited
    labels = sheet.labels or {}
    grid = grid_from_frame(now[[*names, *new]], mapper, rows, labels, is_strict=True)
    old = grid_from_frame(before[names], mapper, rows, labels)
    found: dict[tuple[int, str], str] = {}
    for row, items in zip(rows.tolist(), now["tags"] if "tags" in names else (), strict=False):
        if any(each.extra is not None for each in _whole_tags(items)):
            raise SheetError(
                f"{sheet.source}: {sheet.address(row, 'tags')}: sheet.frame has a tag with fields "
                "that petsync does not know, and that a plan does not change",
                hint="Write names or ps.Tag(id, name) into tags.",
            )
    for name, cells, former in zip(names, grid.columns, old.columns, strict=False):
        different = np.flatnonzero(pc.not_equal(cells.text, former.text))
        for at in different.tolist():
            text = cells.text[at].as_py()
            if cells.kinds is not None and cells.kinds[at] not in _WRITABLE:
                raise SheetError(
                    f"{sheet.source}: {sheet.address(int(rows[at]), name)}: sheet.frame has "
                    f"{text}, {_KIND_NAMES[CellKind(cells.kinds[at])]}",
                    hint="Write the value as text.",
                )
            found[int(rows[at]), name] = _text_of_cell(sheet, name, text)
    return found


_WRITABLE = (CellKind.TEXT, CellKind.NUMBER)
_KIND_NAMES = {
    CellKind.DATE: "a date",
    CellKind.BOOLEAN: "a truth value",
    CellKind.ROUNDED: "a number whose type may have rounded it",
}


def _text_of_cell(sheet: Sheet, column: str, text: str) -> str:
    """Return the text of a cell for that of a value, which is escaped if it looks like CLEAR."""
    if column == "name" and not sheet.is_table and text.startswith("'"):
        # In a cell, as in the frame's category, this text is the marker.
        return text[1:] if is_like_marker(text, CLEAR) and text[1] != "'" else text
    if column != "photo_urls" or sheet.tab or "\n" not in text:
        return text
    # A line break in a cell of a CSV file would move the rows below it.
    as_line = partial(format_photo_urls, separator=" | ")
    return escaped_list(as_line, parse_photo_urls(text), " | ", CLEAR)


def grid_from_frame(
    frame: pd.DataFrame,
    mapper: Mapper,
    numbers: np.ndarray[Any, np.dtype[np.int64]],
    labels: Mapping[int, str],
    mapping: Mapping[str, str] | None = None,
    *,
    is_strict: bool = False,
) -> Grid:
    """Return the grid of a DataFrame whose rows have these numbers and labels. A value that its
    column cannot have is a fault of its row or, with `is_strict`, a SheetError. Raises SheetError
    as `sheet_from_frame` does.
    """

    def place(name: Any, position: int) -> str:
        row = cell_address("", "", int(numbers[position]), (), labels)
        return f"{owner}column {name} in {row}"

    base = base_of_frame(frame)
    frame = rows_of(frame)
    _check_names(mapper, (*frame.index.names, *frame.columns))
    frame = _with_index(frame, mapper)
    faults = {} if base is None else _find_unknown_edits(frame, base)
    if EXTRA in frame and _is_extra(frame[EXTRA]):
        frame = frame.drop(columns=EXTRA)
    ids = next((name for name in frame if fold_header(str(name)) == fold_header(TAG_IDS)), None)
    if ids is not None and mapper.mapping.get(fold_header(str(ids))) is None:
        frame = _without_tag_ids(frame, ids, mapper, numbers) if _has_lists(frame[ids]) else frame
    header = [str(name) for name in frame.columns]
    check_mapping(mapper.source, mapping or {}, header)
    if not mapper.score(header):
        below = frame.head(_SEARCHED_ROWS).to_numpy(dtype=object).tolist()
        texts = [["" if is_missing(value) else str(value) for value in row] for row in below]
        raise mapper.unusable_error([header, *texts])
    if len(set(header)) < len(header):
        raise SheetError(
            f"{_with_article(mapper.source)} has two columns with the same name: "
            f"{_quote_repeated(header)}",
            hint="Rename one of them.",
        )
    _check_columns(mapper, header)
    is_frame = mapper.source == FRAME_NAME
    owner = "the DataFrame's " if is_frame else f"{mapper.source}: the "
    column_of_header = {name: mapper.mapping.get(fold_header(name), "") for name in header}
    return Grid(
        tab="",
        header=header,
        header_row=0,
        rows=numbers,
        columns=[
            _cells(
                partial(place, name),
                column_of_header[str(name)],
                column,
                None if is_strict else faults,
            )
            for name, column in frame.items()
        ],
        places=header,
        emptied=_find_emptied(frame, column_of_header),
        labels=labels,
        faults=faults,
    )


def _with_article(source: str) -> str:
    return "the DataFrame" if source == FRAME_NAME else source


def _find_unknown_edits(frame: pd.DataFrame, base: Base) -> dict[int, Fault]:
    """Return an error for each row in which the fields that petsync does not know differ from those
    in the base. A missing value is not an edit, and neither is a tag of another pet.
    """
    if not _has_unknown_fields(frame):
        return {}
    ids = plain_values(frame["id"].array) if "id" in frame else [None] * len(frame)
    wanted = {each for each in ids if type(each) is int}
    pets = {pet.id: pet for pet in pets_of(wanted, base.rows)}
    known = count_items(base.rows["tags"].array)
    extra = frame[EXTRA].tolist() if EXTRA in frame else [None] * len(frame)
    tags = frame["tags"].tolist() if "tags" in frame else [None] * len(frame)
    faults: dict[int, Fault] = {}
    for at, (fields, items) in enumerate(zip(extra, tags, strict=True)):
        old = pets.get(ids[at]) or Pet()
        now = decode_fields(fields)
        own = {tag_key(tag): tag.extra for tag in old.tags}
        edited = [
            tag.extra
            for tag in map(as_tag, _whole_tags(items))
            if tag.extra
            and (own[tag_key(tag)] != tag.extra if tag_key(tag) in own else tag not in known)
        ]
        if now and now != extra_of(old):
            column = EXTRA
        elif edited:
            column, now = "tags", dict(edited[0])
        else:
            continue
        problem = "The row changes fields that petsync does not know, and a plan does not change."
        faults[at] = Fault("unknown-fields", ", ".join(map(str, now))[:40], problem, column)
    return faults


def _whole_tags(items: Any) -> list[Tag | TagName]:
    return [each for each in as_items(items) or () if isinstance(each, Tag | TagName)]


def _has_unknown_fields(frame: pd.DataFrame) -> bool:
    """Return true if a row of the DataFrame, or one of its tags, has fields that petsync does not
    know.
    """
    if EXTRA in frame and _is_extra(frame[EXTRA]) and frame[EXTRA].notna().any():
        return True
    tags = frame["tags"] if "tags" in frame and frame["tags"].dtype == object else ()
    return any(item.extra is not None for each in tags for item in _whole_tags(each))


def _is_extra(column: pd.Series[Any] | pd.DataFrame) -> bool:
    """Return true if the column has a service's additional fields, as petsync exports them, and not
    values of the user.
    """
    values = [] if isinstance(column, pd.DataFrame) else list_values(column)
    are_objects = (
        isinstance(value, dict) or (isinstance(value, str) and value.startswith("{"))
        for value in values
        if isinstance(value, dict) or not is_missing(value)
    )
    return isinstance(column, pd.Series) and all(are_objects)


def _without_tag_ids(
    frame: pd.DataFrame, ids: Any, mapper: Mapper, numbers: np.ndarray[Any, np.dtype[np.int64]]
) -> pd.DataFrame:
    """Return the frame without `ids`, the column of the tags' ids that a Parquet export has.

    The ids are ignored, because the names may have been edited. Only a tag without a name, or with
    the name of another tag of the same pet, gets its id from this column.
    """
    named = (name for name in frame if mapper.mapping.get(fold_header(str(name))) == "tags")
    tags = next(named, None)
    rest: pd.DataFrame = frame.drop(columns=ids)
    if tags is None:
        return rest

    def address(row: int) -> str:
        if mapper.source == FRAME_NAME:
            return cell_address("", "", row, (), RowLabels(frame.index))
        return f"{mapper.source}: {cell_address('', '', int(numbers[row]) % FILE_ROWS, (), {})}"

    rows = _find_unnamed(frame[tags])
    lists = list_values(frame[tags])
    numbered = add_tag_ids(lists, list_values(frame[ids]), address, rows)
    for row in rows:
        if lists[row] is not numbered[row]:
            counts = Counter(name for name in lists[row] if isinstance(name, str))
            lists[row] = [
                name if name and counts[name] == 1 else tag
                for name, tag in zip(lists[row], numbered[row], strict=True)
            ]
    rest[tags] = pd.Series(lists_of(lists), index=frame.index)
    return rest


def _find_unnamed(tags: pd.Series[Any]) -> list[int]:
    """Return the positions of the lists of tags that may have one without a name, or twice the same
    name.
    """
    try:
        names = _flat(pa.array(tags, pa.large_list(pa.large_string()), from_pandas=True))
    except (pa.ArrowException, TypeError, UnicodeError):
        return [*range(len(tags))]
    items = Items(names)
    is_blank = np.array(pc.equal(flatten(names), "").fill_null(fill_value=True))
    return np.flatnonzero(items.have_any(is_blank) | items.have_repeated()).tolist()


def _has_lists(column: pd.Series[Any] | pd.DataFrame) -> bool:
    """Return true if all values of a column are lists, or missing."""
    return isinstance(column, pd.Series) and all(
        isinstance(value, list | np.ndarray) or is_missing(value) for value in list_values(column)
    )


def _find_emptied(frame: pd.DataFrame, column_of_header: Mapping[str, str]) -> list[int]:
    """Return the positions of the rows whose category is an empty text."""
    columns = [
        frame[name] for name in frame.columns if column_of_header.get(str(name)) == "category"
    ]
    texts = (pair for column in columns for pair in enumerate(list_values(column)))
    return [position for position, text in texts if isinstance(text, str) and text == ""]


def _with_index(frame: pd.DataFrame, mapper: Mapper) -> pd.DataFrame:
    """Return the frame with the named levels of its index added as columns, except levels that
    already exist as columns or are named `row`. Raises SheetError if the index and a column both
    contain ids and the ids differ.
    """
    columns_by_name = {
        mapper.mapping.get(fold_header(str(name)), str(name)): name for name in frame.columns
    }
    levels = {
        name: frame.index.get_level_values(position)
        for position, name in enumerate(frame.index.names)
        if name is not None and str(name) != "row"
    }
    for name, values in levels.items():
        column = mapper.mapping.get(fold_header(str(name)), str(name))
        if (
            column == "id"
            and column in columns_by_name
            and not _are_equal(values, frame[columns_by_name[column]])
        ):
            raise SheetError(
                f"the DataFrame's index {name!r} and its column {columns_by_name[column]!r} have "
                "different ids",
                hint="Drop one of them: reset_index(drop=True) drops the index.",
            )
    new = {
        name: values
        for name, values in levels.items()
        if mapper.mapping.get(fold_header(str(name)), str(name)) not in columns_by_name
    }
    if not new:
        return frame
    # pandas refuses half of a surrogate pair in the dtype that it would choose.
    series = {name: pd.Series(values.array, dtype=values.dtype) for name, values in new.items()}
    index_columns = pd.DataFrame(series)
    return pd.concat([index_columns, frame.reset_index(drop=True)], axis=1)


def _are_equal(values: pd.Index[Any], column: pd.Series[Any] | pd.DataFrame) -> bool:
    return isinstance(column, pd.Series) and list(map(str, values)) == list(map(str, column))


def _check_names(mapper: Mapper, names: Iterable[Any]) -> None:
    """Raise SheetError for a name of a column that no file can contain."""
    for name in names:
        try:
            _check_encodable(str(name))
        except _WrongValueError as error:
            raise SheetError(
                f"{_with_article(mapper.source)} has a column whose name has {error}",
                hint="Rename it, or drop it.",
            ) from None


def _check_columns(mapper: Mapper, header: Sequence[str]) -> None:
    """Raise SheetError for misspelled columns, and for unknown ones if only the id is known."""
    known = {mapper.mapping[key] for name in header if (key := fold_header(name)) in mapper.mapping}
    unknown = [name for name in header if fold_header(name) not in mapper.mapping]
    misspelled = {name: near for name in unknown if (near := mapper.find_misspelled(name, known))}
    if misspelled:
        raise SheetError(
            f"{_with_article(mapper.source)} has columns that petsync does not recognise: "
            f"{_quote_names(misspelled)}",
            hint=". ".join(f"{name!r} may mean {near}" for name, near in misspelled.items())
            + ". Rename them, map them, or drop them.",
        )
    results = own_results(unknown)
    other_columns = [name for name in unknown if name not in results]
    if known == {"id"} and other_columns:
        suggestions = [
            f"{name!r} may mean {near}. "
            for name in other_columns
            if (near := mapper.nearest_column(name))
        ]
        raise SheetError(
            f"{_with_article(mapper.source)} has no known column except the ids; petsync does not "
            f"recognise {_quote_names(other_columns)}",
            hint=f"{''.join(suggestions)}Rename them, map them, or drop them.",
        )


def _quote_repeated(names: Iterable[str]) -> str:
    return _quote_names(name for name, uses in Counter(names).items() if uses > 1)


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(repr(name[:40]) for name in itertools.islice(names, _MAX_LISTED))


def _cells(
    place: Callable[[int], str],
    column_name: str,
    column: pd.Series[Any],
    faults: dict[int, Fault] | None,
) -> Cells:
    """Return the cells of a column. A value that the column cannot have becomes an empty cell, and
    one of the `faults`; without them, and in a column that is not petsync's, it is a SheetError.
    `place` names the column and the row at a position.
    """

    def text(position: int, value: Any) -> str:
        try:
            return _text(column_name, value, digits)
        except _WrongValueError as error:
            if faults is None or not column_name:
                raise SheetError(f"{place(position)} has {error}", hint=error.hint) from None
            problem = f"The cell has {error}."
            fault = Fault("wrong-value", _shown(value), problem, column_name, error.hint)
            faults.setdefault(position, fault)
            return ""

    if column_name in ("id", "category_id") and pd.api.types.is_integer_dtype(column.dtype):
        ids = pa.array(column.array, from_pandas=True).cast(pa.large_string())
        return Cells(_flat(ids).fill_null(""))
    values = list_values(column)
    if column_name in LISTS and any(isinstance(each, _ITEM_TYPES) for each in values):
        values = [_as_list(each) for each in values]
        column = pd.Series(lists_of(values), dtype=object)
    digits = _float_digits(column.dtype)
    types = _TEXT_TYPES | _LIST_TYPES if column_name in ("", *LISTS) else _TEXT_TYPES
    plain = _find_plain_cells(column_name, column) if {*map(type, values)} <= types else None
    if plain is not None:
        cells, is_plain = plain
        rows = np.flatnonzero(~is_plain)
        others = [text(row, _to_plain(values[row], digits)) for row in rows.tolist()]
        return Cells(replace_texts(cells, rows, others))
    values = [_to_plain(value, digits if column_name else None) for value in values]
    texts = pa.array(list(itertools.starmap(text, enumerate(values))), pa.large_string())
    if column_name == "" or all(value is None or type(value) in (str, list) for value in values):
        return Cells(texts)
    numbers = () if column_name in ("id", "category_id") else (int, float, Decimal)
    kinds = np.fromiter((_kind(value, numbers) for value in values), np.int8, len(values))
    return Cells(texts, kinds if kinds.any() else None)


_ITEM_TYPES = (Tag, TagName, np.ndarray)


def _as_list(value: Any) -> Any:
    """Return a single tag as a list, an array without dimensions as a list of its item, and any
    other value unchanged.
    """
    if isinstance(value, Tag | TagName):
        return [value]
    return as_items(value) if isinstance(value, np.ndarray) and value.ndim == 0 else value


_TEXT_TYPES = frozenset({str, type(None), float, type(pd.NA)})
"""The types of a text and of missing values."""
_LIST_TYPES = frozenset({list, np.ndarray})


def _find_plain_cells(name: str, column: pd.Series[Any]) -> tuple[Any, Any] | None:
    """Return the texts of the cells with these values, and a mask of the values for which they are
    certain. Return None if the values are neither texts nor lists of texts.
    """
    try:
        values = _flat(pa.array(column, from_pandas=True))
        if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
            is_text, kind = _is_text(values.type.value_type), pa.large_list(pa.large_string())
        else:
            is_text, kind = _is_text(values.type), pa.large_string()
    except (pa.ArrowException, TypeError, UnicodeError):
        return None
    if not is_text:
        return None
    cells = values.cast(kind)
    ids = _find_tag_ids(cells, column) if pa.types.is_large_list(kind) else None
    texts, is_plain = find_plain(cells, ids, "\n" if name == "photo_urls" else "; ")
    if pa.types.is_large_list(kind):
        is_plain &= np.array(pc.not_equal(pc.list_value_length(cells), 0).fill_null(True))
    return texts.fill_null(""), is_plain


def _find_tag_ids(cells: pa.LargeListArray, column: pd.Series[Any]) -> pa.LargeListArray | None:
    """Return the ids of the tags in a column with the names `cells`, None if no tag has an id."""
    if not isinstance(column.array, pd.arrays.NumpyExtensionArray):
        return None
    lists = (as_items(each) or () for each in column)
    ids = [item.id if isinstance(item, TagName) else None for each in lists for item in each]
    if ids.count(None) == len(ids):
        return None
    offsets = pa.array(find_bounds(cells))
    return pa.LargeListArray.from_arrays(offsets, pa.array(ids, pa.int64()))


def _flat(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class _WrongValueError(Exception):
    """A value that its column cannot have: the message describes it, `hint` says what to do."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


class _RoundedFloat(float):
    """A float that may have been rounded to this whole number."""


def _float_digits(dtype: Any) -> int:
    """Return the number of significant bits of a float of this type: 24 for float32; 53 if the type
    has no float.
    """
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow_digits(dtype.pyarrow_dtype)
    dtype = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))
    is_float = isinstance(dtype, np.dtype) and dtype.kind == "f"
    return min(np.finfo(dtype).nmant + 1, _FLOAT64_DIGITS) if is_float else _FLOAT64_DIGITS


def _arrow_digits(arrow: pa.DataType) -> int:
    """Return the number of significant bits of the narrowest float in an Arrow type or in the types
    of its fields; 53 if there is none.
    """
    if pa.types.is_floating(arrow):
        return _float_digits(np.dtype(arrow.to_pandas_dtype()))
    if pa.types.is_dictionary(arrow):
        return _arrow_digits(arrow.value_type)
    fields = (arrow.field(at).type for at in range(arrow.num_fields))
    return min(map(_arrow_digits, fields), default=_FLOAT64_DIGITS)


def _to_plain(value: Any, digits: int | None) -> Any:
    """Return the value as a plain Python object: None if it is missing, a list for an array. A
    float that needs more than `digits` bits becomes a _RoundedFloat, unless `digits` is None.
    """
    if type(value) is str or value is None:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, np.ndarray | np.generic) and digits is not None:
        digits = min(digits, _float_digits(value.dtype))
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if digits is not None and isinstance(value, float) and _is_rounded(value, digits):
        return _RoundedFloat(value)
    return None if is_missing(value) else value


def _is_rounded(value: float, digits: int) -> bool:
    return math.isfinite(value) and abs(value) >= 2**digits


def _kind(value: Any, numbers: tuple[type, ...]) -> CellKind:
    if isinstance(value, _RoundedFloat):
        return CellKind.ROUNDED
    if isinstance(value, bool):
        return CellKind.BOOLEAN
    if isinstance(value, dt.date):
        return CellKind.DATE
    return CellKind.NUMBER if isinstance(value, numbers) else CellKind.TEXT


def _text(column: str, value: Any, digits: int) -> str:
    """Return the value as the text of a cell. Raises _WrongValueError if it cannot have one."""
    if type(value) is str:
        if (value == "" and column in COLUMNS) or (value == CLEARED and column == "category"):
            return CLEAR
        if column in _PARSED_COLUMNS:
            return _check_encodable(value)
        return escape_marker(_check_encodable(value), CLEAR)
    if isinstance(value, list):
        return _text_of_list(column, value, digits)
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and not _is_rounded(value, _FLOAT64_DIGITS):
        return str(value) if isinstance(value, _RoundedFloat) else str(int(value))
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if column and not isinstance(value, int | float | Decimal | dt.date | UUID):
        raise _wrong_type(column, value)
    return escape_marker(_check_encodable(str(value)), CLEAR)


def _text_of_list(column: str, items: list[Any], digits: int) -> str:
    """Return the list as the text of a cell. Only a column that is not petsync's may have items of
    any type.
    """
    if column in LISTS:
        return _join_items(column, items, digits) if items else CLEAR
    if column:
        raise _wrong_type(column, items)
    are_texts = all(isinstance(each, str) or is_missing(each) for each in items)
    return _join_items("tags", items, digits) if are_texts else _check_encodable(str(items))


def _wrong_type(column: str, value: Any) -> _WrongValueError:
    return _WrongValueError(
        f"a value of the type {type(value).__name__}: {_shown(value)!r}",
        f"Make it {'a list or ' if column in LISTS else ''}text; a missing value means no change.",
    )


def _shown(value: object) -> str:
    """Return the beginning of a value's text; "…" if the value has none that can be encoded."""
    # An object of the user can raise any error.
    with suppress(Exception):
        text = str(value)[:40]
        text.encode()
        return text
    return "…"


def _join_items(column: str, items: Sequence[Any], digits: int) -> str:
    """Return the items as the text of a cell; missing items are left out."""
    present_items = [
        _item(item, digits) for item in items if isinstance(item, Tag) or not is_missing(item)
    ]
    kinds = (str,) if column == "photo_urls" else (str, Tag)
    for item in present_items:
        if not isinstance(item, kinds):
            raise _WrongValueError(
                f"a list with an item of the type {type(item).__name__}: {_shown(item)!r}",
                "Its items must be strings" + (", or ps.Tag." if Tag in kinds else "."),
            )
    if not present_items:
        return ""
    if column == "photo_urls":
        return escaped_list(
            format_photo_urls, [_check_encodable(url) for url in present_items], "\n", CLEAR
        )
    tags = [*map(as_tag, present_items)]
    return _check_encodable(escaped_list(format_tags, tags, "; ", CLEAR))


def _item(item: Any, digits: int) -> Any:
    """Return the item; a dict with the fields of a tag becomes a Tag with an exact id."""
    if isinstance(item, TagName):
        return item.tag
    if isinstance(item, dict) and item and item.keys() <= {"id", "name"}:
        name = None if is_missing(item.get("name")) else item["name"]
        if name is not None and not isinstance(name, str):
            raise _WrongValueError(
                f"a tag with the name {str(name)[:40]}, which is not text",
                "Make the tags' names texts.",
            )
        return Tag(_tag_id(item.get("id"), digits), name)
    return item


def _tag_id(number: Any, digits: int) -> int | None:
    """Return the id of a tag in a list, None if it is missing. Raises _WrongValueError if it is not
    an id, or is a float that may be rounded: a float in a list may have been a float32.
    """
    if number is None or type(number) is int:
        return number
    digits = min(digits, _float_digits(getattr(number, "dtype", None)), _LIST_ITEM_DIGITS)
    value = _to_plain(number, digits)
    if value is None:
        return None
    if isinstance(value, int | str | float | Decimal) and type(value) not in (bool, _RoundedFloat):
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        with suppress(CellError):
            return parse_id(text)
    raise _WrongValueError(
        f"a tag with the id {str(value)[:40]}, which is not an exact whole number",
        "Make the tags' ids whole numbers, or leave them out.",
    )


def _check_encodable(text: str) -> str:
    """Return the text. Raises _WrongValueError if it cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _WrongValueError(
            f"half of a surrogate pair at position {error.start + 1} of {text[:40]!r}",
            "It was probably read with a wrong encoding: read it again with the correct one.",
        ) from None
    return text


# peek: the headers of a spreadsheet, even if petsync recognises none of them.


_SEARCHED_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """The information that a user needs to map the columns of a file."""

    tab: str
    """The worksheet; "" for CSV."""
    tabs: tuple[str, ...]
    """All visible worksheets, without those that petsync added; () for CSV."""
    headers: tuple[str, ...]
    """The headers, in the order of their columns."""
    meant: Mapping[str, str] = field(default_factory=dict)
    """For each header that is or resembles the name of a petsync column, or is a common name for
    it: the name of this column.
    """


def peek(path: str | Path, *, tab: str | None = None, encoding: str | None = None) -> Peek:
    """Return the headers of the file; in a workbook, of the worksheet `tab`, else of the exported
    worksheet, else of the first visible one. The header is the row with the most known or similar
    headers among the first 20 rows, and if several rows have as many, the one with the most cells.
    Raises SheetError if the file cannot be read.
    """
    source = load(Path(path), encoding)
    mapper = Mapper.of(str(source.path), None)
    if source.kind != "workbook":
        records = _records if source.kind == "text" else _header_of_records
        return _make_peek(mapper, "", (), records(source, mapper))
    # calamine is loaded when a workbook is read.
    from petsync.sheets.xlsx import read

    name, tabs, rows = read.first_rows_of(source, tab, find_base(source)[0])
    return _make_peek(mapper, name, tabs, rows)


def _records(source: Source, mapper: Mapper) -> list[list[str]]:
    found = csv.records(source, csv.detect_dialect(source, mapper))
    return [record.cells or [] for record in itertools.islice(found, _SEARCHED_ROWS)]


def _header_of_records(source: Source, _: Mapper) -> list[list[str]]:
    return [[str(name) for name in read_records(source).frame.columns]]


def _make_peek(
    mapper: Mapper, tab: str, tabs: Sequence[str], rows: Sequence[Sequence[str]]
) -> Peek:
    filled_rows = [[trim(text) for text in row if trim(text)] for row in rows[:_SEARCHED_ROWS]]
    header_row = max(filled_rows, key=lambda row: (_count_known(mapper, row), len(row)), default=[])
    headers = tuple(dict.fromkeys(header_row))
    near = {text: name for text in headers if (name := mapper.nearest_column(text))}
    return Peek(tab=tab, tabs=tuple(tabs), headers=headers, meant=near)


def _count_known(mapper: Mapper, row: Sequence[str]) -> int:
    return len({name for text in row if (name := mapper.nearest_column(text))})


# The sheet that a plan was made from, if it is unchanged.


def sheet_of(plan: Plan, *, statuses: Sequence[str] = STATUSES, digest: str = "") -> Sheet | None:
    """Return the sheet of the plan, read with the plan's options; None if the file cannot be read
    or has changed since the plan was made. If the run of the plan has written into the file,
    `digest` is the SHA-256 of its new content.
    """
    with reading_sheet_once(plan):
        if _digest_of_sheet(plan) != (digest or plan.source_digest):
            return None
        corrections = {each.address: each.after for each in plan.corrections}
        sheet = _read_again(plan, statuses, corrections)
    if sheet is None or len(sheet.rows) + len(sheet.blocked) != plan.rows:
        return None
    return sheet


def find_named_again(plan: Plan, *, statuses: Sequence[str] = STATUSES) -> list[Pet]:
    """Return the pets that the plan deletes because no row named them, and that a row of its sheet
    names now. A file that cannot be read has none, and neither has the sheet of a plan folder.
    """
    changes = () if isinstance(plan.changes, LongChanges) else plan.changes
    missing = [
        each.before for each in changes if isinstance(each, Delete) and each.why == "missing"
    ]
    if not missing:
        return []
    with reading_sheet_once(plan):
        if _digest_of_sheet(plan) in ("", plan.source_digest):
            return []
        sheet = _read_again(plan, statuses, {})
    return [] if sheet is None else [pet for pet in missing if pet.id in sheet.named_ids]


@contextmanager
def reading_sheet_once(plan: Plan) -> Iterator[None]:
    """In the block, read the bytes of the plan's sheet only once, if it is a file that can be
    read.
    """
    with ExitStack() as stack:
        if plan.source != STDIN:
            with suppress(OSError, ValueError, SheetError):
                stack.enter_context(reading_once(Path(plan.source)))
        yield


def _digest_of_sheet(plan: Plan) -> str:
    """Return the SHA-256 of the plan's sheet as it is now, "" if the file cannot be read."""
    if plan.source == STDIN:
        return ""
    try:
        # A plan may come from an untrusted source; `load` does not read a device or a pipe.
        return load(Path(plan.source), plan.encoding or None).digest
    except (OSError, ValueError, SheetError):
        return ""


def _read_again(
    plan: Plan, statuses: Sequence[str], corrections: Mapping[str, str]
) -> Sheet | None:
    """Return the plan's sheet as it is now, None if it cannot be read."""
    try:
        return read_sheet(
            Path(plan.source),
            tab=plan.tab or None,
            defaults=plan.columns,
            encoding=plan.encoding or None,
            statuses=statuses,
            known_statuses=_statuses(plan),
            corrections=corrections,
        )
    except (OSError, ValueError, SheetError):
        return None


def _statuses(plan: Plan) -> frozenset[str]:
    pets = (pet for change in plan.changes for pet in (change.before, change.after))
    return frozenset(pet.status for pet in pets if pet is not None and pet.status)
