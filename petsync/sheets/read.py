"""Read a sheet: a file or a DataFrame as pets, with findings."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.errors import SheetError
from petsync.models import Tag
from petsync.plan.plan import Plan
from petsync.sheets import csv
from petsync.sheets.base import find
from petsync.sheets.files import Source, load
from petsync.sheets.grid import Bools, CellKind, Cells, Grid
from petsync.sheets.headers import (
    ACTION,
    Headers,
    Mapper,
    check_mapping,
    loose,
    own_results,
    present_headers,
)
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
    collapse,
    note_repeated,
    note_strays,
    note_suspects,
    note_worksheet,
)
from petsync.table.base import Base
from petsync.table.cells import (
    CellError,
    escape_marker,
    format_photo_urls,
    format_tags,
    parse_id,
    trim,
)
from petsync.table.columns import ADDING, CLEAR, CLEARED, COLUMNS
from petsync.table.frame import EXTRA, integers, no_collection, texts
from petsync.table.sheet import Correction, Sheet, cell_address, frame_of, rows_of

__all__ = [
    "Origin",
    "Peek",
    "apply_corrections",
    "peek",
    "read_grid",
    "read_sheet",
    "sheet_from_frame",
    "sheet_of",
    "validate_grid",
    "worksheet_of",
]


# Corrections: cells that are read as somebody says, while the file stays as it is.


_LONGEST = {"workbook": 32_767, "text": 131_072}
"""The most characters of a cell that spreadsheet programs, and that CSV readers, take."""
_SHOWN = 5
_CELL = re.compile(r"(?:'((?:[^']|'')+)'!|([^'!]+)!)?\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
_LINE = re.compile(r"line ([0-9]{1,9}), column ([0-9]{1,5})", re.IGNORECASE)


class _Place(NamedTuple):
    """Where a cell is: its row's number in the file, and its column's letters or number."""

    row: int
    column: str


class _RefusedError(Exception):
    """Why one correction cannot be made."""


def apply_corrections(grid: Grid, mapper: Mapper, corrections: Mapping[str, str]) -> Grid:
    """The grid with the texts by address in its cells, and what was changed as its corrections.

    A cell becomes text, whatever it held; "" makes it blank. Raises SheetError, which names all of
    them, where addresses are not of cells below the header, or what is given is no text.
    """
    if not corrections:
        return grid
    desk = _GridEditor.of(grid, mapper)
    wanted: dict[tuple[int, int], str] = {}
    refused: list[str] = []
    for address, text in dict(corrections).items():
        try:
            at = desk.find_cell(address)
            if wanted.setdefault(at, desk.check_text(address, text)) != text:
                raise _RefusedError(f"{address}: this cell is corrected twice, to different texts")
        except _RefusedError as error:
            refused.append(str(error))
    if refused:
        raise _correction_error(mapper.source, refused, desk)
    return desk.correct_grid(wanted)


def _correction_error(source: str, refused: list[str], desk: _GridEditor) -> SheetError:
    more = f"; and {len(refused) - _SHOWN:,} more" if len(refused) > _SHOWN else ""
    return SheetError(
        f"{source}: a correction cannot be made: {'; '.join(refused[:_SHOWN])}{more}",
        hint=f"{desk.extent} Nothing was read.",
    )


@dataclass(frozen=True, slots=True)
class _GridEditor:
    """Finds and changes the cells of one grid; `names` are the columns' by their places."""

    grid: Grid
    names: Mapping[str, str]
    rows: Mapping[int, int]

    @classmethod
    def of(cls, grid: Grid, mapper: Mapper) -> _GridEditor:
        headers = mapper.match(grid.header, grid.places)
        named = {**headers.others, **headers.ours}
        return cls(
            grid,
            {grid.places[at]: name for name, at in sorted(named.items(), key=lambda each: each[1])},
            {row: at for at, row in enumerate(grid.rows.tolist())},
        )

    @property
    def extent(self) -> str:
        """Which cells there are, with one as an example."""
        if not len(self.grid.rows):
            return "The sheet has no row below its header."
        first, last = int(self.grid.rows[0]), int(self.grid.rows[-1])
        places = list(self.names)
        like = cell_address(self.grid.tab, places[0], first)
        kind, columns = ("rows", "columns") if self.grid.tab else ("lines", "columns")
        return (
            f"Its {kind} are {first} to {last}, its {columns} {', '.join(places[:12])}"
            f"{', …' if len(places) > 12 else ''}; a cell is named as in a finding: {like}."
        )

    def find_cell(self, address: object) -> tuple[int, int]:
        """The position of the row and of the column. Raises _RefusedError."""
        place = self._place(address)
        if place.row == self.grid.header_row:
            raise _RefusedError(f"{address}: this is the header; map its columns instead")
        at = self.rows.get(place.row)
        if at is None or place.column not in self.names:
            raise _RefusedError(f"{address}: there is no such cell, or its whole row is blank")
        if at in self.grid.faults:
            raise _RefusedError(
                f"{address}: its row cannot be split into cells; fix it in the file"
            )
        return at, list(self.grid.places).index(place.column)

    def _place(self, address: object) -> _Place:
        if not isinstance(address, str):
            raise _RefusedError(f"{address!r} is no address of a cell")
        if not self.grid.tab:
            line = _LINE.fullmatch(address.strip())
            if line is None:
                raise _RefusedError(f"{address!r} is no address of a cell")
            return _Place(int(line[1]), str(int(line[2])))
        cell = _CELL.fullmatch(address.strip())
        if cell is None:
            raise _RefusedError(f"{address!r} is no address of a cell")
        tab = cell[1].replace("''", "'") if cell[1] else cell[2]
        if tab is not None and tab != self.grid.tab:
            raise _RefusedError(f"{address}: the worksheet that is read is {self.grid.tab!r}")
        return _Place(int(cell[4]), cell[3].upper())

    def check_text(self, address: str, text: object) -> str:
        """The text. Raises _RefusedError for what no cell can hold."""
        if not isinstance(text, str):
            raise _RefusedError(f"{address}: {text!r} is no text; put it in quotes")
        longest = _LONGEST["workbook" if self.grid.tab else "text"]
        if len(text) > longest:
            raise _RefusedError(f"{address}: a cell holds no more than {longest:,} characters")
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise _RefusedError(f"{address}: the text has half a character in it")
        return text

    def correct_grid(self, wanted: Mapping[tuple[int, int], str]) -> Grid:
        """The grid with these texts; those that stand there already are no corrections."""
        columns = list(self.grid.columns)
        done: list[Correction] = []
        for position in sorted({column for _, column in wanted}):
            texts = {at: text for (at, column), text in wanted.items() if column == position}
            cells = columns[position]
            new = {at: text for at, text in texts.items() if not _is(cells, at, text)}
            done += (self._correction(at, position, text) for at, text in new.items())
            columns[position] = _with(cells, new)
        order = {name: at for at, name in enumerate(self.names.values())}
        done.sort(key=lambda each: (each.row, order[each.column]))
        return replace(self.grid, columns=columns, corrections=done).without_blank_rows()

    def _correction(self, at: int, position: int, text: str) -> Correction:
        place, row = self.grid.places[position], int(self.grid.rows[at])
        return Correction(
            address=cell_address(self.grid.tab, place, row),
            row=row,
            column=self.names[place],
            before=self.grid.columns[position].text[at].as_py(),
            after=text,
        )


def _is(cells: Cells, at: int, text: str) -> bool:
    is_text = cells.kinds is None or cells.kinds[at] == CellKind.TEXT
    return is_text and bool(cells.text[at].as_py() == text)


def _with(cells: Cells, texts: Mapping[int, str]) -> Cells:
    if not texts:
        return cells
    marked = np.zeros(len(cells), dtype=bool)
    marked[list(texts)] = True
    # Arrow takes them in the order of the cells.
    new = pa.array([texts[at] for at in sorted(texts)], pa.large_string())
    kinds = None if cells.kinds is None else np.where(marked, np.int8(CellKind.TEXT), cells.kinds)
    return Cells(pc.replace_with_mask(cells.text, pa.array(marked), new), kinds)


# read_sheet: a spreadsheet becomes what it says, with every problem at its address.


STATUSES = ("available", "pending", "sold")


class Origin(NamedTuple):
    """The file that a grid is of: its name, and the SHA-256 of its bytes, in hexadecimal."""

    name: str
    digest: str = ""


def read_sheet(
    path: str | Path,
    *,
    tab: str | None = None,
    mapping: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    statuses: Sequence[str] = STATUSES,
    known_statuses: Collection[str] = (),
    clear: str = CLEAR,
    corrections: Mapping[str, str] | None = None,
    encoding: str | None = None,
) -> Sheet:
    """Read the spreadsheet at `path`: CSV (`.csv .tsv .txt`) or a workbook (`.xlsx .xlsm`).

    `tab` is the worksheet, by default the exported one, else the first with a known header. If the
    exported worksheet was renamed and it is not certain which one it is, SheetError is raised.
    `mapping` gives the column for each header of the file, which must exist; `defaults` does so for
    headers that may be missing. A status must be one of `statuses`, of `known_statuses` or of the
    file's base, in the spelling there. A cell with the text `clear` empties its field. `encoding`
    is that of a CSV file, by default UTF-8; a byte order mark must fit it. `corrections` gives
    texts by the address of a cell, as in a finding (`Pets!C12` or `C12`, `line 12, column 3`):
    petsync reads the cell as this text, "" as a blank cell, and checks the sheet with it. The file
    does not change; sheet, plan and report list the corrections.

    Problems of rows are the sheet's findings. Raises SheetError, with a way out, if the file cannot
    be read at all.
    """
    with no_collection():
        source = load(Path(path), encoding)
        used = source.encoding
        columns = {**(defaults or {}), **(mapping or {})}
        base, refused = find(source)
        grid = read_grid(source, tab, columns, corrections, base)
        check_mapping(str(source.path), mapping or {}, grid.header)
        elsewhere = _ids_elsewhere(source, columns, grid.tab)
        columns = present_headers(columns, grid.header)
        # A status that was exported is one, although the store has moved on from it.
        exported = () if base is None else base.frame["status"].dropna().unique()
        known = frozenset([*known_statuses, *exported])
        origin = Origin(str(source.path), source.digest)
        heads = grid.heads
        # The bytes are not needed any more, and a large file has many.
        del source
        sheet = validate_grid(grid, origin, columns, (statuses, known), clear, base)
    return replace(
        sheet,
        base=base,
        base_refused=refused,
        mapping=columns,
        encoding=used,
        ids_elsewhere=elsewhere,
        heads=heads,
    )


def worksheet_of(path: Path, base: Base, mapping: Mapping[str, str] | None = None) -> str | None:
    """The worksheet that the base is of; None where the file or the base has none, and where it is
    not there and the file, which was exported since, carries a base of another one. Raises
    SheetError where the file cannot be read, or it is not certain which one it is.
    """
    if not base.tab:
        return None
    source = load(path)
    if source.kind == "text":
        return None
    # calamine is loaded when a workbook is read.
    from petsync.sheets.xlsx import read
    from petsync.sheets.xlsx.package import Package

    names = {each.name.casefold() for each in Package(source).tabs}
    carried = None if base.tab.casefold() in names else find(source)[0]
    if carried is not None and carried.tab not in ("", base.tab):
        return None
    return read.own_tab(source, Mapper.of(str(path), mapping), base)


def _ids_elsewhere(
    source: Source, mapping: Mapping[str, str], tab: str
) -> Mapping[str, frozenset[int] | None]:
    if source.kind == "text":
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
) -> Sheet:
    """What a grid says; `statuses` are the usual and the known ones, `base` is its file's."""
    headers = Mapper.of(origin.name, mapping).match(grid.header, grid.places)
    reading = _Reading(grid, headers, Notes(grid, {**headers.others, **headers.ours}), clear, base)
    reading.judge(*statuses)
    sheet = reading.sheet(origin)
    if all(problem.rule != "unknown-status" for problem in sheet.problems):
        return sheet
    usual, known = statuses

    def rejudge(more: Collection[str]) -> Sheet:
        return validate_grid(grid, origin, mapping, (usual, {*known, *more}), clear, base)

    return replace(sheet, rejudge=rejudge)


def read_grid(
    source: Source,
    tab: str | None,
    mapping: Mapping[str, str] | None,
    corrections: Mapping[str, str] | None = None,
    base: Base | None = None,
) -> Grid:
    """The file's grid with the corrections in it, before anything is judged. Without a `tab` it is
    that of the worksheet that the file's `base` is of.
    """
    mapper = Mapper.of(str(source.path), mapping)
    given = corrections or {}
    if source.kind == "text":
        return apply_corrections(csv.read_grid(source, mapper), mapper, given)
    # calamine is loaded when a workbook is read.
    from petsync.sheets import exact
    from petsync.sheets.xlsx import read
    from petsync.sheets.xlsx.package import Package

    grid = apply_corrections(read.read_grid(source, mapper, tab, base=base), mapper, given)
    return exact.restore_texts(grid, Package(source), mapper)


def _rows(frame: pd.DataFrame, keep: np.ndarray[Any, Any]) -> pd.DataFrame:
    return frame if len(keep) == len(frame) else frame.iloc[keep]


@dataclass(slots=True)
class _Reading:
    """One sheet on its way from cells to values."""

    grid: Grid
    headers: Headers
    notes: Notes
    clear: str
    base: Base | None
    values: dict[str, Any] = field(default_factory=dict)
    cleared: dict[str, Bools] = field(default_factory=dict)
    blank: dict[str, Bools] = field(default_factory=dict)
    repeats: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def judge(self, usual: Sequence[str], known: Collection[str]) -> None:
        """Judge every cell, then what only whole rows and the whole sheet show."""
        judges = {
            "id": lambda column: pet_ids(column, () if self.base is None else self.base.ids),
            "name": lambda column: columns.names(column, self._exported_texts("name")),
            "status": lambda column: columns.statuses(column, usual, known),
            "category": lambda column: columns.categories(
                column, self._exported_texts("category"), self.clear
            ),
            "category_id": numbers,
            "tags": columns.tags,
            "photo_urls": columns.photos,
            ACTION: columns.actions,
        }
        # The lists take the most memory, so what takes some for a while comes before them.
        further = self._cell_notes()
        for name in self.headers.ours:
            self._open(name, judges[name])
        self.values.setdefault(ACTION, texts(["merge"] * len(self.grid.rows)))
        self.notes.take(further)
        # Its cells may be in wrong columns, so nothing else is said of such a row.
        self.notes.forget(self.grid.faults, but="id")
        for at, fault in self.grid.faults.items():
            # On the id, because it may be another row's: nothing is known to be missing then.
            self.notes.add(at, "id", Note(fault.rule, fault.value, fault.problem))
        self._judge_rows()
        renamed = self._note_renamed()
        note_worksheet(self.grid, self.headers, self.notes, renamed)

    def _note_renamed(self) -> frozenset[int]:
        """Note the columns of the export that have another header; rows that all add need none."""
        is_open = np.asarray(self.values[ACTION] == "merge")
        if self.base is None or not is_open.any():
            return frozenset()
        return note_renamed(self.grid, self.headers, self.base, self.notes)

    def sheet(self, origin: Origin) -> Sheet:
        """The result."""
        blocked = self.notes.find_blocked()
        keep = np.flatnonzero(~blocked & ~self.repeats)
        index = pd.Index(self.grid.rows[keep], name="row")
        named = np.asarray(~self._ids().isna())
        ids = self._ids()[blocked & named].tolist()
        return Sheet(
            source=origin.name,
            tab=self.grid.tab,
            frame=frame_of(_rows(self._frame(), keep).set_axis(index)),
            others=_rows(self._others(), keep).set_axis(index),
            problems=self.notes.findings(self.clear),
            blocked=tuple(self.grid.rows[blocked].tolist()),
            blocked_ids=frozenset(ids),
            blocked_pets=dict(zip(self.grid.rows[blocked & named].tolist(), ids, strict=True)),
            unidentified=tuple(self.grid.rows[blocked & ~named].tolist()),
            columns={
                name: self.grid.places[at]
                for name, at in {**self.headers.others, **self.headers.ours}.items()
            },
            header_row=self.grid.header_row,
            tabs=tuple(self.grid.tabs),
            digest=origin.digest,
            corrections=tuple(self.grid.corrections),
        )

    def _open(self, name: str, judge: Any) -> None:
        cells = self.grid.columns[self.headers.ours[name]]
        is_number = name in ("id", "category_id")
        self.blank[name] = blank = cells.blank()
        column = open_column(name, cells, blank, self.clear, self.notes, special=not is_number)
        self.cleared[name] = column.clear.copy()
        self.values[name] = judge(column)
        if name == "category" and self.grid.emptied:
            self.values[name][[*self.grid.emptied]] = ""

    def _cell_notes(self) -> Notes:
        ours = self.headers.ours
        notes = Notes(self.grid, ours)
        tags, photos = (
            self.grid.columns[ours[name]] if name in ours else None
            for name in ("tags", "photo_urls")
        )
        note_suspects(self.grid, self.headers, notes)
        note_separators(tags, photos, self.clear, self.base, notes)
        return notes

    def _judge_rows(self) -> None:
        ignored = np.asarray(self.values[ACTION] == "ignore")
        ignored[list(self.grid.faults)] = False
        if "id" in self.cleared:
            note = Note("clear-refused", self.clear, "An id cannot be emptied.")
            self.notes.add_all(positions(self.cleared["id"]), "id", note)
        self._note_categories()
        self._note_nameless()
        note_strays(self.grid, self.headers, self.notes)
        if ignored.any():
            self.notes.forget(set(positions(ignored)))
        ours = self.headers.ours
        self.repeats = collapse(self.grid, ours, self._ids(), ~ignored, self.notes)
        free = self._mask(self.blank, "id", missing=True) & ~ignored & ~self.notes.find_blocked()
        note_repeated(self.grid, ours, free, ~ignored, self.notes)

    def _note_categories(self) -> None:
        clear_id = self._mask(self.cleared, "category_id")
        clear_name = self._mask(self.cleared, "category")
        # The other way round the name is meant: people clear it and leave the id beside it.
        alone = clear_id & ~clear_name
        note = Note("category-contradiction", self.clear)
        self.notes.add_all(positions(alone), "category_id", note)

    def _note_nameless(self) -> None:
        action = self.values[ACTION]
        unnamed = self._mask(self.blank, "id", missing=True) & np.asarray(action == "merge")
        added = unnamed | np.asarray(action.isin(ADDING))
        nameless = self._mask(self.blank, "name", missing=True)
        whole = np.ones(len(nameless), dtype=bool)
        whole[list(self.grid.faults)] = False
        self.notes.add_all(positions(added & nameless & whole), "name", Note("name-missing", ""))
        # Where nothing at all is said, a finding of its own tells.
        silent = self._mask(self.blank, "status", missing=True) | self._mask(self.cleared, "status")
        silent &= added & whole & ~self.notes.find_blocked()
        if {"id", "status"} & self.headers.ours.keys():
            note = Note("status-missing", "")
            self.notes.add_all(positions(silent), "status", note)
        elif silent.any():
            problem = (
                "The rows are new pets without an id, and the sheet has no column of statuses."
            )
            self.notes.add(-1, "", Note("status-missing", "", problem))

    def _exported_texts(self, name: str) -> Collection[str]:
        """The texts of a column that the file's own export has."""
        return () if self.base is None else frozenset(self.base.frame[name].dropna().unique())

    def _mask(self, masks: Mapping[str, Bools], name: str, *, missing: bool = False) -> Bools:
        return masks.get(name, np.full(len(self.grid.rows), missing))

    def _ids(self) -> Numbers:
        ids: Numbers = self.values.get("id", integers([None] * len(self.grid.rows)))
        return ids

    def _frame(self) -> pd.DataFrame:
        names = [name for name in COLUMNS if name in self.values]
        columns = {name: self.values[name] for name in (*names, ACTION)}
        return pd.DataFrame(columns, copy=False)

    def _others(self) -> pd.DataFrame:
        columns = {
            trim(name): pd.array(self.grid.columns[at].text, dtype=pd.StringDtype(na_value=np.nan))
            for name, at in self.headers.others.items()
        }
        return pd.DataFrame(columns, index=range(len(self.grid.rows)), copy=False)


# A DataFrame as a sheet: a table edited in pandas is judged by the same rules as a file.


_NAME = "DataFrame"
_LISTED = 12
_DIGITS, _LIST_DIGITS = 53, 24
"""The binary digits of a float64, and those that a float in a list is trusted to have."""
_NO_TEXTS = ("id", "category_id", "tags", "photo_urls")
"""Columns in which a text is read as a cell's is."""


def sheet_from_frame(
    frame: pd.DataFrame,
    *,
    mapping: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    statuses: Sequence[str] = STATUSES,
    known_statuses: Collection[str] = (),
    first: int = 0,
) -> Sheet:
    """What a DataFrame says: a missing value nothing, an empty text or list "make it empty".

    Rows are numbered from `first`, by position. A named level of the index is a column, so that a
    frame that is indexed by id has an id. A list in `tags` holds `Tag` values or names; a text in
    place of a list is read as a cell's is. The frame of a sheet means what the sheet does:
    "[clear]" empties its `category`. In any other DataFrame "[clear]" is a text in `name` and
    `category`, and a plan holds a row that would write it into the store. `mapping` gives our
    column for headers of the frame's own, which must be there; `defaults` for those that may be
    there.

    Raises SheetError where no column is one of petsync's, where a header is a misspelling of one,
    where nothing but the id is known and other columns are there, and for values that no cell of
    the column can hold.
    """
    columns = {**(defaults or {}), **(mapping or {})}
    mapper = Mapper.of(_NAME, columns)
    frame = _with_index(rows_of(frame), mapper)
    if EXTRA in frame and _is_extra(frame[EXTRA]):
        frame = frame.drop(columns=EXTRA)
    header = [str(name) for name in frame.columns]
    check_mapping(_NAME, mapping or {}, header)
    if not mapper.score(header):
        raise mapper.unusable([header])
    if len(set(header)) < len(header):
        raise SheetError("the DataFrame has two columns of one name", hint="Rename one of them.")
    _must_be_known(mapper, header)
    meant = {name: mapper.mapping.get(loose(name), "") for name in header}
    grid = Grid(
        tab="",
        header=header,
        header_row=0,
        rows=np.arange(first, first + len(frame), dtype=np.int64),
        columns=[_cells(str(name), meant[str(name)], frame[name]) for name in frame.columns],
        places=header,
        emptied=_find_emptied(frame, meant),
    )
    sheet = validate_grid(grid, Origin(_NAME), columns, (statuses, known_statuses))
    return replace(sheet, mapping=present_headers(columns, header))


def _is_extra(column: pd.Series[Any] | pd.DataFrame) -> bool:
    """Whether the column has what services say beside our fields, as petsync reads and exports
    them, and not somebody's own values, such as ids.
    """
    values = [] if isinstance(column, pd.DataFrame) else column.tolist()
    are_ours = (
        isinstance(value, dict) or (isinstance(value, str) and value.startswith("{"))
        for value in values
        if isinstance(value, dict) or not _is_missing(value)
    )
    return isinstance(column, pd.Series) and all(are_ours)


def _find_emptied(frame: pd.DataFrame, meant: Mapping[str, str]) -> list[int]:
    """The positions of the rows with an empty text for a category."""
    columns = [frame[name] for name in frame.columns if meant.get(str(name)) == "category"]
    texts = (pair for column in columns for pair in enumerate(column.tolist()))
    return [at for at, text in texts if isinstance(text, str) and text == ""]


def _with_index(frame: pd.DataFrame, mapper: Mapper) -> pd.DataFrame:
    """The frame with the named levels of its index as columns; one that is a column too is left
    out, but for an id that says something else there.
    """
    there = {mapper.mapping.get(loose(str(name)), str(name)): name for name in frame.columns}
    levels = {
        name: frame.index.get_level_values(at)
        for at, name in enumerate(frame.index.names)
        if name is not None and str(name) != "row"
    }
    for name, values in levels.items():
        ours = mapper.mapping.get(loose(str(name)), str(name))
        if ours == "id" and ours in there and not _are_equal(values, frame[there[ours]]):
            raise SheetError(
                f"the DataFrame's index {name!r} and its column {there[ours]!r} hold different ids",
                hint="Drop one of them: reset_index(drop=True) drops the index.",
            )
    new = {
        name: values
        for name, values in levels.items()
        if mapper.mapping.get(loose(str(name)), str(name)) not in there
    }
    if not new:
        return frame
    added = pd.DataFrame({name: values.array for name, values in new.items()})
    return pd.concat([added, frame.reset_index(drop=True)], axis=1)


def _are_equal(values: pd.Index[Any], column: pd.Series[Any] | pd.DataFrame) -> bool:
    return isinstance(column, pd.Series) and list(map(str, values)) == list(map(str, column))


def _must_be_known(mapper: Mapper, header: Sequence[str]) -> None:
    """Raise SheetError where a column of the frame can only be there by mistake."""
    known = {mapper.mapping[key] for name in header if (key := loose(name)) in mapper.mapping}
    unknown = [name for name in header if loose(name) not in mapper.mapping]
    similar = {name: near for name in unknown if (near := mapper.misspelt(name, known))}
    if similar:
        raise SheetError(
            f"the DataFrame has columns that petsync does not know: {_quote_names(similar)}",
            hint=". ".join(f"{name!r} may mean {near}" for name, near in similar.items())
            + ". Rename them, map them, or drop them.",
        )
    results = own_results(unknown)
    own = [name for name in unknown if name not in results]
    if known == {"id"} and own:
        meant = [f"{name!r} may mean {near}. " for name in own if (near := mapper.nearest(name))]
        raise SheetError(
            "no column of the DataFrame says anything of a pet but its id; petsync does not know "
            f"{_quote_names(own)}",
            hint=f"{''.join(meant)}Rename them, map them, or drop them.",
        )


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(repr(name[:40]) for name in itertools.islice(names, _LISTED))


def _cells(name: str, ours: str, column: pd.Series[Any]) -> Cells:
    digits = _float_digits(column.dtype)
    values = [_plain(value, digits if ours else None) for value in column.tolist()]
    shown = pa.array([_text(name, ours, value, digits) for value in values], pa.large_string())
    if ours == "" or all(value is None or type(value) in (str, list) for value in values):
        return Cells(shown)
    numbers = () if ours in ("id", "category_id") else (int, float, Decimal)
    kinds = np.fromiter((_kind(value, numbers) for value in values), np.int8, len(values))
    return Cells(shown, kinds if kinds.any() else None)


class _RoundedFloat(float):
    """A float that its type may have rounded to this whole number."""


def _float_digits(dtype: Any) -> int:
    """The binary digits of the narrowest float in values of this type: 24 for float32."""
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow_digits(dtype.pyarrow_dtype)
    dtype = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))
    is_float = isinstance(dtype, np.dtype) and dtype.kind == "f"
    return min(np.finfo(dtype).nmant + 1, _DIGITS) if is_float else _DIGITS


def _arrow_digits(arrow: pa.DataType) -> int:
    """The same for a type of Arrow, of whose fields one may be such a float."""
    if pa.types.is_floating(arrow):
        return _float_digits(np.dtype(arrow.to_pandas_dtype()))
    if pa.types.is_dictionary(arrow):
        return _arrow_digits(arrow.value_type)
    fields = (arrow.field(at).type for at in range(arrow.num_fields))
    return min(map(_arrow_digits, fields), default=_DIGITS)


def _plain(value: Any, digits: int | None) -> Any:
    """The value as one of Python's own: None where it is missing, a list for an array. A float
    beyond what so many binary digits hold exactly is _RoundedFloat.
    """
    if type(value) is str or value is None:
        return value
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
    return None if _is_missing(value) else value


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


def _text(name: str, ours: str, value: Any, digits: int) -> str:
    """The value as a cell would show it."""
    if type(value) is str:
        if (value == "" and ours in COLUMNS) or (value == CLEARED and ours == "category"):
            return CLEAR
        if ours in _NO_TEXTS:
            return _check_encodable(name, value)
        return escape_marker(_check_encodable(name, value), CLEAR)
    if isinstance(value, list):
        return _join_items(name, ours, value, digits) if value else CLEAR
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and not _is_rounded(value, _DIGITS):
        return str(value) if isinstance(value, _RoundedFloat) else str(int(value))
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if ours and not isinstance(value, int | float | Decimal | dt.date | UUID):
        raise SheetError(
            f"the DataFrame's column {name} has a {type(value).__name__}: {str(value)[:40]!r}",
            hint="Make it a text; a missing value says nothing.",
        )
    return escape_marker(_check_encodable(name, str(value)), CLEAR)


def _join_items(name: str, ours: str, items: Sequence[Any], digits: int) -> str:
    """The items as a cell would show them; missing ones say nothing."""
    given = [
        _item(name, item, digits)
        for item in items
        if isinstance(item, Tag) or not _is_missing(item)
    ]
    kinds = (str,) if ours == "photo_urls" else (str, Tag)
    for item in given:
        if ours and not isinstance(item, kinds):
            raise SheetError(
                f"the DataFrame's column {name} has a list with a {type(item).__name__} in it: "
                f"{str(item)[:40]!r}",
                hint="Its items are texts" + (", or ps.Tag." if Tag in kinds else "."),
            )
    if not given:
        return ""
    if ours == "photo_urls":
        return escaped_list(
            format_photo_urls, [_check_encodable(name, url) for url in given], "\n", CLEAR
        )
    tags = [item if isinstance(item, Tag) else Tag(None, str(item)) for item in given]
    return _check_encodable(name, escaped_list(format_tags, tags, "; ", CLEAR))


def _item(name: str, item: Any, digits: int) -> Any:
    """The item; a Tag for its fields, as a Parquet export has them."""
    if isinstance(item, Tag):
        exact = item.id is None or type(item.id) is int
        return item if exact else Tag(_tag_id(name, item.id, digits), item.name)
    if isinstance(item, dict) and item and item.keys() <= {"id", "name"}:
        return Tag(_tag_id(name, item.get("id"), digits), item.get("name"))
    return item


def _tag_id(name: str, number: Any, digits: int) -> int | None:
    """The id of a tag in a list, None where it is missing. Raises SheetError for what is none, and
    for a float that may be rounded: of one in a list, it is not known whether it was a float32.
    """
    if number is None or type(number) is int:
        return number
    digits = min(digits, _float_digits(getattr(number, "dtype", None)), _LIST_DIGITS)
    value = _plain(number, digits)
    if value is None:
        return None
    if isinstance(value, int | str | float | Decimal) and type(value) not in (bool, _RoundedFloat):
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        with suppress(CellError):
            return parse_id(text)
    raise SheetError(
        f"the DataFrame's column {name} has a tag with the id {str(value)[:40]}, which is no exact "
        "whole number",
        hint="Make the tags' ids whole numbers, or leave them out.",
    )


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or value != value


def _check_encodable(name: str, text: str) -> str:
    """The text itself. Raises SheetError for what no file and no service can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SheetError(
            f"the DataFrame's column {name} has half a character at position {error.start + 1} of "
            f"{text[:40]!r}",
            hint="Where the text was read, an encoding was wrong: read it again.",
        ) from None
    return text


# peek: the headers of a spreadsheet, also where petsync knows none of them.


_SEARCHED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """What a person has to know to say what the columns mean: the worksheet (`tab`, "" for CSV),
    all worksheets that are to be seen, the headers in their order, and for those that are nearly
    one of petsync's columns, or usual names of one, which that is.
    """

    tab: str
    tabs: tuple[str, ...]
    headers: tuple[str, ...]
    meant: Mapping[str, str] = field(default_factory=dict)


def peek(path: str | Path, *, tab: str | None = None, encoding: str | None = None) -> Peek:
    """The headers of the file, or of the worksheet `tab`, else of the one that its base names, else
    of its first one: the row with the most of petsync's columns or of near misses of them, else the
    one with the most cells. Raises SheetError where the file cannot be read.
    """
    source = load(Path(path), encoding)
    mapper = Mapper.of(str(source.path), None)
    if source.kind == "text":
        return _make_peek(mapper, "", (), _records(source, mapper))
    # calamine is loaded when a workbook is read.
    from petsync.sheets.xlsx import read

    name, tabs, rows = read.top(source, tab, find(source)[0])
    return _make_peek(mapper, name, tabs, rows)


def _records(source: Source, mapper: Mapper) -> list[list[str]]:
    found = csv.records(source, csv.sniff(source, mapper))
    return [record.cells or [] for record in itertools.islice(found, _SEARCHED)]


def _make_peek(
    mapper: Mapper, tab: str, tabs: Sequence[str], rows: Sequence[Sequence[str]]
) -> Peek:
    filled = [[trim(text) for text in row if trim(text)] for row in rows[:_SEARCHED]]
    best = max(filled, key=lambda row: (_count_known(mapper, row), len(row)), default=[])
    headers = tuple(dict.fromkeys(best))
    near = {text: name for text in headers if (name := mapper.nearest(text))}
    return Peek(tab=tab, tabs=tuple(tabs), headers=headers, meant=near)


def _count_known(mapper: Mapper, row: Sequence[str]) -> int:
    return len({name for text in row if (name := mapper.nearest(text))})


# The sheet that a plan was made from, if it is still there as it was.


def sheet_of(plan: Plan, *, statuses: Sequence[str] = STATUSES, digest: str = "") -> Sheet | None:
    """The sheet of the plan, read as it was then; None where it is gone or was changed since.
    `digest` is its SHA-256 if its run has written into it.
    """
    source = Path(plan.source)
    try:
        # A plan may come from anybody: a device or a pipe that it names is not read.
        if load(source, plan.encoding or None).digest != (digest or plan.source_digest):
            return None
        sheet = read_sheet(
            source,
            tab=plan.tab or None,
            defaults=plan.columns,
            encoding=plan.encoding or None,
            statuses=statuses,
            known_statuses=_statuses(plan),
            corrections={each.address: each.after for each in plan.corrections},
        )
    except (OSError, ValueError, SheetError):
        return None
    return sheet if len(sheet.rows) + len(sheet.blocked) == plan.rows else None


def _statuses(plan: Plan) -> frozenset[str]:
    pets = (pet for change in plan.changes for pet in (change.before, change.after))
    return frozenset(pet.status for pet in pets if pet is not None and pet.status)
