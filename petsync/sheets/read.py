"""read_sheet: a spreadsheet becomes what it says, with every problem at its address."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from petsync.sheets.base import find
from petsync.sheets.corrections import corrected
from petsync.sheets.delimited import csv
from petsync.sheets.grid import Bools, Grid
from petsync.sheets.headers import ACTION, Headers, Mapper, named, present
from petsync.sheets.judge import lists, words
from petsync.sheets.judge.column import open_column, positions
from petsync.sheets.judge.duplicates import collapse, note_repeated
from petsync.sheets.judge.ids import Numbers, numbers, pet_ids
from petsync.sheets.judge.notes import Note, Notes
from petsync.sheets.judge.ranges import note_worksheet
from petsync.sheets.judge.renamed import note_renamed
from petsync.sheets.judge.separators import note_separators
from petsync.sheets.judge.strays import note_strays
from petsync.sheets.judge.suspects import note_suspects
from petsync.sheets.source import Source, load
from petsync.table.base import Base
from petsync.table.cells import trim
from petsync.table.columns import ADDING, CLEAR, COLUMNS
from petsync.table.frame import integers, no_collection, texts
from petsync.table.sheet import Sheet

__all__ = ["Origin", "judged", "read_grid", "read_sheet"]

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
    """What the spreadsheet at `path` says: CSV (`.csv .tsv .txt`) or a workbook (`.xlsx .xlsm`).

    `tab` is the worksheet, by default the first one with a header that petsync knows. `mapping`
    gives our column for each header of the file's own, which must be there; `defaults` does so for
    headers that may be there. A status is one of `statuses`, or one of `known_statuses` or of the
    file's own base, as it is spelt there. A cell with the text `clear` empties its field.
    `encoding` is that of a CSV file, by default UTF-8; a byte order mark must fit it.
    `corrections` are texts by the address of a cell, as findings have it (`Pets!C12` or `C12`,
    `line 12, column 3`): that cell is read as this text, "" as a blank one, and everything is
    judged so. The file stays as it is; the sheet keeps them, and plan and report tell of them.

    The rows' problems, all of them, are the sheet's findings; SheetError is raised where the
    file as a whole cannot be read, and names the way out.
    """
    with no_collection():
        source = load(Path(path), encoding)
        used = source.encoding
        columns = {**(defaults or {}), **(mapping or {})}
        grid = read_grid(source, tab, columns, corrections)
        named(str(source.path), mapping or {}, grid.header)
        columns = present(columns, grid.header)
        base, refused = find(source)
        # A status that was exported is one, although the store has moved on from it.
        exported = () if base is None else base.frame["status"].dropna().unique()
        known = frozenset([*known_statuses, *exported])
        origin = Origin(str(source.path), source.digest)
        # The bytes are not needed any more, and a large file has many.
        del source
        sheet = judged(grid, origin, columns, (statuses, known), clear, base)
    return replace(sheet, base=base, base_refused=refused, mapping=columns, encoding=used)


def judged(
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
        return judged(grid, origin, mapping, (usual, {*known, *more}), clear, base)

    return replace(sheet, rejudge=rejudge)


def read_grid(
    source: Source,
    tab: str | None,
    mapping: Mapping[str, str] | None,
    corrections: Mapping[str, str] | None = None,
) -> Grid:
    """The file's grid with the corrections in it, before anything is judged."""
    mapper = Mapper.of(str(source.path), mapping)
    given = corrections or {}
    if source.kind == "text":
        return corrected(csv.read(source, mapper), mapper, given)
    # calamine is loaded when a workbook is read.
    from petsync.sheets.export import exact
    from petsync.sheets.ooxml import xlsx
    from petsync.sheets.ooxml.archive import Package

    grid = corrected(xlsx.read(source, mapper, tab), mapper, given)
    return exact.restored(grid, Package(source), mapper)


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
            "name": lambda column: words.names(column, self._exported("name")),
            "status": lambda column: words.statuses(column, usual, known),
            "category": lambda column: words.categories(
                column, self._exported("category"), self.clear
            ),
            "category_id": numbers,
            "tags": lists.tags,
            "photo_urls": lists.photos,
            ACTION: words.actions,
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
        blocked = self.notes.blocked()
        keep = np.flatnonzero(~blocked & ~self.repeats)
        index = pd.Index(self.grid.rows[keep], name="row")
        named = np.asarray(~self._ids().isna())
        ids = self._ids()[blocked & named].tolist()
        return Sheet(
            source=origin.name,
            tab=self.grid.tab,
            frame=_rows(self._frame(), keep).set_axis(index),
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
        free = self._mask(self.blank, "id", missing=True) & ~ignored & ~self.notes.blocked()
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
        silent &= added & whole & ~self.notes.blocked()
        if {"id", "status"} & self.headers.ours.keys():
            note = Note("status-missing", "")
            self.notes.add_all(positions(silent), "status", note)
        elif silent.any():
            problem = (
                "The rows are new pets without an id, and the sheet has no column of statuses."
            )
            self.notes.add(-1, "", Note("status-missing", "", problem))

    def _exported(self, name: str) -> Collection[str]:
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
