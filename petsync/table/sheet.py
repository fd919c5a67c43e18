"""Sheet: a validated spreadsheet; Finding: a problem in it; Correction: a corrected cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync._display import as_html, as_text, explain_assignment, type_name
from petsync.errors import SheetError
from petsync.table.arrow import PetTable
from petsync.table.base import Base, carry_base
from petsync.table.cells import escape_marker, is_like_marker, marker_core, marker_word
from petsync.table.columns import CLEAR, CLEARED, COLUMNS
from petsync.table.dtypes import TEXT
from petsync.table.frame import FEW, ids_of, is_blank, lacks_id, plain_values, texts
from petsync.table.rules import RULE_PREFIX, RuleResult, SheetRule

__all__ = [
    "FILE_ROWS",
    "FINDING_FIELDS",
    "FRAME_NAME",
    "Correction",
    "Finding",
    "Findings",
    "RowLabels",
    "Sheet",
    "Suggestion",
    "blocked_rows_of",
    "cell_address",
    "frame_of",
    "rows_of",
]


# Correction: a text that is read instead of a cell's text in the file; Suggestion: a possible
# correction.


class Correction(msgspec.Struct, frozen=True):
    """A cell that was read as `after`, while the file has `before`. `address`, `row` and `column`
    are as in a finding. In `before`, a number or a date has no number format (`2026-05-01`), and an
    error is its text (`#N/A`); "" is a blank cell.
    """

    address: str
    row: int
    column: str
    before: str
    after: str


class Suggestion(msgspec.Struct, frozen=True):
    """A suggested correction of a cell: `after` instead of `before`, which has at most 200
    characters of the cell's text.

    `rule` is the rule of the finding. If `is_sure`, petsync already reads the cell as `after`;
    otherwise `after` is a guess that the user must confirm.
    """

    address: str
    row: int
    column: str
    before: str
    after: str
    rule: str
    is_sure: bool


# Findings: a sheet's problems as a DataFrame, which is displayed grouped by rule.


FINDING_FIELDS = ("address", "row", "column", "severity", "rule", "value", "problem", "suggestion")
_DTYPES = {name: np.dtype("int64") if name == "row" else TEXT for name in FINDING_FIELDS}


class Findings(pd.DataFrame):
    """A table with one problem in each row: `row` is int64; `address, column, severity, rule,
    value, problem, suggestion` are str, even if there are no rows.

    A notebook and a terminal show the table, or a selection of its rows, grouped by rule, the most
    frequent first. Without one of these columns, and as `pd.DataFrame(findings)`, it is shown like
    any other DataFrame.
    """

    @classmethod
    def of(cls, problems: Iterable[Finding]) -> Findings:
        """Return the findings as a table, in order."""
        rows = list(problems)
        columns: Mapping[str, Any] = {
            name: np.fromiter((each.row for each in rows), np.int64, len(rows))
            if name == "row"
            else texts([getattr(each, name) for each in rows])
            for name in FINDING_FIELDS
        }
        return cls(columns)

    @property
    def _constructor(self) -> Callable[..., Findings]:
        return Findings

    @property
    def is_whole(self) -> bool:
        """True if the table can be shown by rule: it has all columns, with their dtypes and without
        missing values. A derived table, such as `describe()`, may have the same columns with other
        content.
        """
        if not (self.columns.is_unique and set(FINDING_FIELDS) <= set(self.columns)):
            return False
        fields = pd.DataFrame(self)[list(FINDING_FIELDS)]
        return fields.dtypes.to_dict() == _DTYPES and not fields.isna().any(axis=None)

    def __repr__(self) -> str:
        return as_text(self) if self.is_whole else super().__repr__()

    def _repr_html_(self) -> str:
        if self.is_whole:
            return as_html(self)
        plain = pd.DataFrame(self)
        return plain.to_html(max_rows=60, max_cols=20, show_dimensions=True, notebook=True)


# Sheet: a spreadsheet that was read and validated; Finding: one problem in it.


FRAME_NAME = "DataFrame"
"""The source of a sheet that is a DataFrame of a user."""
FILE_ROWS = 1 << 32
"""In a sheet of several files, the number of a row is its number in its file, plus this number for
each file before it.
"""
_ROW = "row"
_MAX_LABEL = 40
_CLEAR_WORD = marker_word(marker_core(CLEAR))
_PLAIN_TAB = re.compile(r"\w+")


class RowLabels(Mapping[int, str]):
    """The labels of a DataFrame's rows by position, with the names of their levels: `id 1006`, or
    `index 17` without a name; empty if the labels are the positions.
    """

    def __init__(self, index: pd.Index[Any]) -> None:
        self._index = index[:0] if index.equals(pd.RangeIndex(len(index))) else index

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._index)))

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self._index):
            raise KeyError(row)
        label, names = self._index[row], self._index.names
        values = label if isinstance(self._index, pd.MultiIndex) else (label,)
        # The index of a sheet's frame is named `row`, and has the rows of its file.
        levels = ("index" if name in (None, _ROW) else str(name) for name in names)
        parts = (f"{name} {_cut(value)}" for name, value in zip(levels, values, strict=True))
        return ", ".join(parts)


def _cut(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…"


def cell_address(
    tab: str,
    place: str,
    row: int,
    files: Sequence[str] = (),
    labels: Mapping[int, str] | None = None,
) -> str:
    """Return the address of a cell: for Excel `Pets!C12` or `'My pets'!C12`; for CSV (`tab` is "")
    `line 12, column 3`; for a DataFrame or records, whose columns have names, `row 12, status`. If
    `place` is "", return the address of the row: `Pets!A12` or `line 12`. In a sheet of several
    `files`, the address begins with the name of the file: `a.csv, line 12, column 3`.

    `labels` are those of a DataFrame's rows, and follow the position: `row 3 (id 1006), status`.
    For records they are empty, and for a file with cells None.
    """
    number, own_row = divmod(row, FILE_ROWS)
    if 0 <= number < len(files):
        return f"{files[number]}, {cell_address(tab, place, own_row, (), labels)}"
    if labels is not None or (not tab and place and not place.isdigit()):
        where = f"row {row} ({labels[row]})" if labels and row in labels else f"row {row}"
        return f"{where}, {place}" if place else where
    if not tab:
        return f"line {row}, column {place}" if place else f"line {row}"
    return f"{_quote_tab(tab)}!{place or 'A'}{row}"


@lru_cache
def _quote_tab(tab: str) -> str:
    return tab if _PLAIN_TAB.fullmatch(tab) else "'" + tab.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem in a sheet. `address` is the cell's, such as `Pets!C12` or `line 12, column 3`;
    `suggestion` says how to fix the problem, if petsync knows.
    """

    address: str
    row: int
    column: str
    severity: Literal["error", "warning"]
    """An `error` keeps its row out of the plan; a `warning` does not."""
    rule: str
    """A stable code."""
    value: str
    problem: str
    suggestion: str = ""
    meant: str | None = None
    """The text that the cell should probably have; None if it is not known."""
    is_sure: bool = False
    """Whether the cell is already read as `meant`."""

    @property
    def is_own(self) -> bool:
        """True for a finding of one of the user's own rules."""
        return self.rule.startswith(RULE_PREFIX)


_BLOCKED = "petsync blocked rows"


def blocked_rows_of(frame: pd.DataFrame) -> list[int | None]:
    """Return the ids of the blocked rows of the sheet whose `frame` this is; None for a row without
    a readable id.
    """
    found = frame.attrs.get(_BLOCKED)
    return found if isinstance(found, list) else []


@explain_assignment("change its values, or use sheet.with_frame(frame)")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sheet:
    """A spreadsheet that was read and validated."""

    source: str
    tab: str
    """The worksheet's name; "" for CSV or a DataFrame."""
    content: PetTable
    """The rows of `frame`."""
    others: pd.DataFrame
    """The file's other columns as text, with the index of `frame`."""
    problems: tuple[Finding, ...] = ()
    blocked: tuple[int, ...] = ()
    """The numbers of the rows that are not in `frame` because of an error."""
    blocked_ids: frozenset[int] = frozenset()
    """The ids in blocked rows; a plan neither changes nor deletes their pets. A row whose id cannot
    be trusted has an error finding in the column `id`: the row may belong to any pet.
    """
    blocked_pets: Mapping[int, int] = field(default_factory=dict)
    """The ids of blocked rows, by row number."""
    blocked_names: Mapping[int, str] = field(default_factory=dict)
    """The names in blocked rows, by row number."""
    unidentified: tuple[int, ...] = ()
    """The blocked rows whose id is missing or cannot be read."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """For each column of `frame` and of `others`, the letter (XLSX), number (CSV) or name
    (DataFrame) of the column in the source.
    """
    header_row: int = 1
    """The row of the headers; 0 for a DataFrame."""
    labels: Mapping[int, str] | None = None
    """The labels of a DataFrame's rows, see `cell_address`."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """The given mapping from headers to columns, without headers that the file does not have."""
    encoding: str = ""
    """The encoding that the caller gave for a CSV file, unless the file has the byte order mark of
    UTF-8; else "".
    """
    form: str = ""
    """The format of a file into which petsync cannot write, such as "a Parquet file"; "" for other
    files, and for a DataFrame.
    """
    tabs: tuple[str, ...] = ()
    """The other visible worksheets that petsync did not add. They are not part of the sheet."""
    digest: str = ""
    """The SHA-256 of the file's bytes, in hexadecimal; of several files, the SHA-256 of their names
    and digests; "" for a DataFrame.
    """
    files: tuple[str, ...] = ()
    """The names of the files of a sheet in several files, see FILE_ROWS."""
    base: Base | None = None
    """The store's records when the sheet was exported, if the sheet has them."""
    base_refused: str = ""
    """The reason why the sheet's base cannot be used; "" if it can, or if there is no base."""
    ids_elsewhere: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    """The ids in each other worksheet that has a column of ids, by the worksheet's name; None if
    they were not read, for example because the worksheet is too large.
    """
    heads: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict, repr=False)
    """The first rows of other worksheets in which petsync found no known headers, by the
    worksheet's name. Empty if the caller named the worksheet to read.
    """
    corrections: tuple[Correction, ...] = ()
    """The cells for which a correction was read instead of the file's text."""
    has_unknown_fields: bool = False
    """True for a DataFrame that has fields that petsync does not know, but not the values with
    which it was read: it is unknown whether they were edited.
    """
    agreeing: int = 0
    """The number of rows that are not in `frame` because they agree with their pets."""
    unlisted: int = 0
    """The number of these rows that have warnings, which are not in `problems`."""
    rules: tuple[RuleResult, ...] = ()
    """The result of each rule of your own: the rows that it looked at, and those that break it."""
    given_rules: tuple[SheetRule, ...] = field(default=(), repr=False)
    """The rules themselves."""
    validate_again: Callable[[Collection[str]], Sheet] | None = field(default=None, repr=False)
    """Validates the same cells again with further known statuses; None if no status is unknown."""
    read_again: Callable[[Sheet, Mapping[tuple[int, str], str]], Sheet] | None = field(
        default=None, repr=False
    )
    """Reads the source of the given sheet again, with its corrections and with these texts in its
    cells, by row number and column; None if that is not possible.
    """
    _rows: list[pd.DataFrame] = field(default_factory=list, init=False, repr=False)
    _named_ids: list[frozenset[int]] = field(default_factory=list, init=False, repr=False)
    _filled_columns: list[frozenset[str]] = field(default_factory=list, init=False, repr=False)

    @property
    def frame(self) -> pd.DataFrame:
        """The rows that can be used, indexed by their row number in the file (int64, named `row`;
        for CSV the line at which the record starts).

        The frame has the canonical columns that the file has, with the dtypes of
        `frame_from_pets`, plus `action` (str, always present). A missing value means no change; an
        empty list empties the field. In `category`, the text "[clear]" removes the category. So
        does an empty text, unless the pet's category has an empty name. A name that looks like
        "[clear]" has an apostrophe before it, as in a cell. The frame carries the sheet's base.

        A change of a value in the frame is a correction of its cell: a plan of the sheet checks and
        sends it, and the results of the run are written with it. A row that is removed from the
        frame is not in the plan. The frame also carries the ids of the blocked rows, which are not
        in it.
        """
        frame, base = self.content.frame, self.base
        if self.blocked:
            frame.attrs.setdefault(_BLOCKED, [*map(self.blocked_pets.get, self.blocked)])
        # Without the sheet's other columns, the rows of failed rows are not recognised.
        return frame if base is None or base.source_rows else carry_base(frame, base)

    def with_frame(self, frame: pd.DataFrame) -> Sheet:
        """Return the sheet with another `frame`. Its values count like those that were changed in
        `frame` itself. Raises SheetError for another value than a DataFrame.
        """
        if not isinstance(frame, pd.DataFrame):
            raise SheetError(
                f"{type_name(frame)} is not a DataFrame",
                hint="Pass a changed copy of sheet.frame, which has its rows and columns.",
            )
        return replace(self, content=self.content.with_frame(frame))

    def with_rows(self, rows: pd.DataFrame) -> Sheet:
        """Return the sheet with other rows, in the form of `content.rows`, which count as those of
        the source.
        """
        return replace(self, content=PetTable(frame=rows))

    @property
    def rows(self) -> pd.DataFrame:
        """The frame for comparisons, which must not be changed. Its `category` has CLEARED instead
        of CLEAR, and names without the escaping apostrophe. See also `PetTable.rows`.
        """
        frame = self.content.rows
        if not self._rows or self._rows[0] is not frame:
            # Cached, because a comparison reads this property many times.
            self._rows[:] = [frame, rows_of(frame)]
        return self._rows[1]

    @property
    def named_ids(self) -> frozenset[int]:
        """The ids in the rows, including blocked rows."""
        if not self._named_ids:
            self._named_ids.append(frozenset([*ids_of(self.content.rows), *self.blocked_ids]))
        return self._named_ids[0]

    @property
    def has_ids(self) -> bool:
        """True if a row has an id, including blocked rows."""
        rows = self.content.rows
        return bool(self.blocked_ids) or not lacks_id(rows).all()

    @property
    def filled_columns(self) -> frozenset[str]:
        """The columns with values, or all existing columns if no row is usable; `id` if any row,
        even a blocked one, has an id; and `action` if the file has this column.
        """
        if not self._filled_columns:
            frame = self.rows
            there = [column for column in COLUMNS if column in frame and column != "id"]
            filled = {c for c in there if frame.empty or not is_blank(frame[c].array).all()}
            ids = {"id"} if self.has_ids else set()
            columns = frozenset({*filled, *ids, *({"action"} & {*self.columns})})
            self._filled_columns.append(columns)
        return self._filled_columns[0]

    @property
    def is_table(self) -> bool:
        """True if the sheet has values instead of cells: a DataFrame, or a file of records."""
        return self.header_row == 0

    @property
    def is_frame(self) -> bool:
        """True if the sheet comes from a DataFrame instead of a file."""
        return self.source == FRAME_NAME and not self.digest

    def with_statuses(self, statuses: Collection[str]) -> Sheet:
        """Return the sheet, validated with these further known statuses, such as the statuses of a
        store.
        """
        if self.validate_again is None:
            return self
        sheet = self.validate_again(statuses)
        return replace(
            sheet,
            source=self.source,
            mapping=self.mapping,
            base=self.base,
            base_refused=self.base_refused,
            encoding=self.encoding,
            form=self.form,
            ids_elsewhere=self.ids_elsewhere,
            heads=self.heads,
            agreeing=self.agreeing,
            unlisted=self.unlisted,
            has_unknown_fields=self.has_unknown_fields,
            read_again=self.read_again,
        )

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """The suggested corrections, at most one for each cell."""
        chosen: dict[str, Finding] = {}
        for problem in self.problems:
            if problem.meant is not None and problem.row != self.header_row:
                current = chosen.setdefault(problem.address, problem)
                is_worse = current.severity == "warning" and problem.severity == "error"
                if is_worse or (current.is_sure and not problem.is_sure):
                    chosen[problem.address] = problem
        return tuple(map(_suggestion, chosen.values()))

    def suggested_corrections(self, *, guesses: bool = False) -> dict[str, str]:
        """Return the suggested corrections by address, for `read_sheet`: the sure ones, and with
        `guesses` also those that the user must confirm.
        """
        return {each.address: each.after for each in self.suggestions if each.is_sure or guesses}

    @property
    def findings(self) -> Findings:
        """The problems as a DataFrame, one in each row."""
        return Findings.of(self.problems)

    @property
    def store_rules(self) -> tuple[SheetRule, ...]:
        """The rules that a comparison applies to the store's pets."""
        return tuple(r for r in self.given_rules if r.enabled and r.applies_to == "store")

    @property
    def errors_by_row(self) -> dict[int, list[Finding]]:
        """The errors of each blocked row. A row without an error of its own is blocked by an error
        in the header.
        """
        errors: dict[int, list[Finding]] = {row: [] for row in self.blocked}
        at_header = []
        for finding in self.problems:
            if finding.severity == "error" and finding.row in errors:
                errors[finding.row].append(finding)
            elif finding.severity == "error" and finding.row == self.header_row:
                at_header.append(finding)
        return {row: own or at_header for row, own in errors.items()}

    @property
    def errors(self) -> int:
        """The number of findings that block their row."""
        return sum(problem.severity == "error" for problem in self.problems)

    def address(self, row: int, column: str = "id") -> str:
        """Return the address of a cell, such as `Pets!C12` or `line 12, column 3`."""
        return cell_address(self.tab, self.columns.get(column, ""), row, self.files, self.labels)

    def __len__(self) -> int:
        return len(self.content)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def rows_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a DataFrame for comparisons, see `Sheet.rows`. The `frame` of a sheet is
    recognised by an index or a column named `row`. Other DataFrames contain values instead of texts
    of cells, and are returned unchanged.
    """
    is_sheet_frame = _ROW in frame.index.names or _ROW in frame.columns
    return _change_categories(frame, _row_text) if is_sheet_frame else frame


def frame_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of a sheet with these rows, with `category` as the text of its cells."""
    return _change_categories(rows, _cell_text)


def _change_categories(frame: pd.DataFrame, convert: Callable[[str], str]) -> pd.DataFrame:
    """Return the frame with `convert` applied to categories that are the marker or look like it."""
    column = frame.get("category")
    if not isinstance(column, pd.Series):
        return frame
    cells = ((position, column.iat[position]) for position in _find_marker_like(column))
    changed = {
        position: new
        for position, old in cells
        if isinstance(old, str) and (new := convert(old)) != old
    }
    if not changed:
        return frame
    column = column.copy()
    column.iloc[list(changed)] = list(changed.values())
    return frame.assign(category=column)


def _find_marker_like(column: pd.Series[Any]) -> Iterable[int]:
    """Return the positions of the texts that may be the marker or look like it."""
    if not isinstance(column.dtype, pd.StringDtype):
        return range(len(column))
    if len(column) <= FEW:  # Arrow's calls cost several times as much as a loop.
        return [
            at
            for at, cell in enumerate(plain_values(column.array))
            if cell is not None and (_CLEAR_WORD in cell.lower() or cell == CLEARED)
        ]
    array = pa.array(column, from_pandas=True)
    # This is several times as fast as case-insensitive matching. The word is ASCII, and no
    # non-ASCII letter changes case to one of its letters.
    has_word = pc.match_substring(pc.ascii_lower(array), _CLEAR_WORD)
    is_suspect = pc.or_(has_word, pc.equal(array, CLEARED))
    positions: list[int] = pc.indices_nonzero(is_suspect).tolist()
    return positions


def _cell_text(name: str) -> str:
    return CLEAR if name == CLEARED else escape_marker(name, CLEAR)


def _row_text(text: str) -> str:
    if not is_like_marker(text, CLEAR):
        return text
    if text.startswith("'"):
        return text[1:]
    return CLEARED if marker_core(text) == CLEAR else text


def _suggestion(finding: Finding) -> Suggestion:
    return Suggestion(
        address=finding.address,
        row=finding.row,
        column=finding.column,
        before=finding.value,
        after=finding.meant or "",
        rule=finding.rule,
        is_sure=finding.is_sure,
    )
