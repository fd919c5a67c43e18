"""Sheet: what a spreadsheet says; Finding: a problem in it; Correction: a cell read otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync._display import as_html, as_text
from petsync.table.base import Base
from petsync.table.cells import escape_marker, is_like_marker, marker_core, marker_word
from petsync.table.columns import CLEAR, CLEARED

__all__ = [
    "FIELDS",
    "Correction",
    "Finding",
    "Findings",
    "Sheet",
    "Suggestion",
    "cell_address",
    "frame_of",
    "rows_of",
]


# Correction: a cell read as another text than the file has; Suggestion: one that can be made.


class Correction(msgspec.Struct, frozen=True):
    """A cell that was read as `after`, while the file says `before`. `address`, `row` and `column`
    are as a finding has them. What a spreadsheet program shows for a number, a date or an error is
    its text here; "" is a blank cell.
    """

    address: str
    row: int
    column: str
    before: str
    after: str


class Suggestion(msgspec.Struct, frozen=True):
    """What a cell with findings may be meant to hold: `after`, in place of `before` (of which the
    first 200 characters are given).

    It `is_sure` where the cell is read as that already, and only its spelling changes; else it is a
    guess, which a person has to confirm. `rule` is the finding's.
    """

    address: str
    row: int
    column: str
    before: str
    after: str
    rule: str
    is_sure: bool


# Findings: a sheet's problems as a DataFrame that shows itself by rule.


FIELDS = ("address", "row", "column", "severity", "rule", "value", "problem", "suggestion")
_DTYPES = {name: "int64" if name == "row" else "str" for name in FIELDS}


class Findings(pd.DataFrame):
    """One problem a row: `row` is int64, the other columns `address, column, severity, rule,
    value, problem, suggestion` are str, even where there is no row at all.

    It shows itself by rule, the most frequent first, in a notebook and in a terminal, and so do
    its selections of rows. With other columns it shows itself as any DataFrame does;
    `pd.DataFrame(findings)` does so too.
    """

    @classmethod
    def of(cls, problems: Iterable[Finding]) -> Findings:
        """The findings as a table, in their order."""
        rows = list(problems)
        columns: Mapping[str, Any] = {
            name: np.fromiter((each.row for each in rows), np.int64, len(rows))
            if name == "row"
            else pd.array([getattr(each, name) for each in rows], dtype="str")
            for name in FIELDS
        }
        return cls(columns)

    @property
    def _constructor(self) -> Callable[..., Findings]:
        return Findings

    @property
    def is_whole(self) -> bool:
        """Whether all is there that it takes to show the findings by rule: a table that was made
        from this one, such as its `describe()`, may have the same columns and other things in them.
        """
        if not (self.columns.is_unique and set(FIELDS) <= set(self.columns)):
            return False
        said = pd.DataFrame(self)[list(FIELDS)]
        return said.dtypes.map(str).to_dict() == _DTYPES and not said.isna().any(axis=None)

    def __repr__(self) -> str:
        return as_text(self) if self.is_whole else super().__repr__()

    def _repr_html_(self) -> str:
        if self.is_whole:
            return as_html(self)
        plain = pd.DataFrame(self)
        return plain.to_html(max_rows=60, max_cols=20, show_dimensions=True, notebook=True)


# Sheet: a spreadsheet read, as what it says; Finding: one problem in it.


_ROW = "row"
_WORD = marker_word(marker_core(CLEAR))
_PLAIN_TAB = re.compile(r"\w+")


def cell_address(tab: str, place: str, row: int) -> str:
    """A cell's address as its program writes it: `Pets!C12`, `'My pets'!C12`, or for CSV (where
    `tab` is "") `line 12, column 3`; in a DataFrame, whose columns have names, `row 12, status`.
    """
    if not tab and place and not place.isdigit():
        return f"row {row}, {place}"
    if not tab:
        return f"line {row}, column {place}" if place else f"line {row}"
    return f"{_quote_tab(tab)}!{place or 'A'}{row}"


@lru_cache
def _quote_tab(tab: str) -> str:
    return tab if _PLAIN_TAB.fullmatch(tab) else "'" + tab.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem: where (`Pets!C12`, or `line 12, column 3`), what, and the suggestion.

    An `error` blocks its row from the plan; a `warning` does not. `rule` is a stable code.
    `meant` is the text that the cell may be meant to hold, None if that cannot be told; it
    `is_sure` where the cell is read as that already.
    """

    address: str
    row: int
    column: str
    severity: Literal["error", "warning"]
    rule: str
    value: str
    problem: str
    suggestion: str = ""
    meant: str | None = None
    is_sure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sheet:
    """What a spreadsheet says.

    `frame`: the rows that can be used, indexed by their row number in the file (int64, named
    `row`; for CSV the line at which the record starts). It has the canonical columns that the
    file has, with the table's dtypes, plus `action` (str, always there). A missing value says
    nothing; an empty text or an empty list says "make it empty". In `category` the text "[clear]"
    does so, and a name that looks like it has an apostrophe before it, as in a cell; an empty text
    there leaves a category alone that has that name.
    `others`: the file's further columns as text, indexed alike.
    `blocked`: the row numbers that an error keeps out of `frame`; `blocked_ids`: the ids that
    such rows name, which a plan neither changes nor deletes. A row whose id is given but cannot
    be trusted has an error finding in the column `id`: any pet may be meant.
    `blocked_pets` gives the id by the row.
    `unidentified`: the blocked rows that name no id at all, or none that can be trusted.
    `columns`: for each column of `frame` and of `others` the letter (XLSX) or number (CSV) of the
    column in the file; `header_row`: the row of the headers, 0 in a DataFrame; `mapping`: our
    column for headers that were named to the reader and are there; `encoding` is that of a CSV
    file where one was named, else "". `tab` is the worksheet's name, "" for CSV; `tabs` are the
    other worksheets that a person sees, and that are not read; `ids_elsewhere` are the ids in
    those of them that have a column for ids, by the worksheet's name, None if it could not be
    read, and `heads` the first rows of those that have no known header, if none was chosen;
    `digest` is the SHA-256 of the file's bytes, in hexadecimal.
    `base`: the store's records as they were when the sheet was exported, if it carries them;
    `base_refused`: why those that it carries cannot be trusted, "" if they can or are not there.
    `corrections`: the cells that were read as somebody said, and not as the file says.
    `rejudge`: judges the same cells again with further known statuses; None if no status is
    unknown.
    """

    source: str
    tab: str
    frame: pd.DataFrame
    others: pd.DataFrame
    problems: tuple[Finding, ...] = ()
    blocked: tuple[int, ...] = ()
    blocked_ids: frozenset[int] = frozenset()
    blocked_pets: Mapping[int, int] = field(default_factory=dict)
    unidentified: tuple[int, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    header_row: int = 1
    mapping: Mapping[str, str] = field(default_factory=dict)
    encoding: str = ""
    tabs: tuple[str, ...] = ()
    digest: str = ""
    base: Base | None = None
    base_refused: str = ""
    ids_elsewhere: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    heads: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict, repr=False)
    corrections: tuple[Correction, ...] = ()
    rejudge: Callable[[Collection[str]], Sheet] | None = field(default=None, repr=False)

    @property
    def rows(self) -> pd.DataFrame:
        """The frame as petsync compares it: with CLEARED, and names without an apostrophe."""
        return rows_of(self.frame)

    @property
    def is_table(self) -> bool:
        """Whether it is a DataFrame's, and not a file's."""
        return self.header_row == 0

    def knowing(self, statuses: Collection[str]) -> Sheet:
        """The sheet as it reads where these statuses are known too: those that a store has."""
        if self.rejudge is None:
            return self
        again = self.rejudge(statuses)
        return replace(
            again,
            source=self.source,
            mapping=self.mapping,
            base=self.base,
            base_refused=self.base_refused,
            encoding=self.encoding,
            ids_elsewhere=self.ids_elsewhere,
            heads=self.heads,
        )

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """What can be corrected, a cell each, in the file's order; a cell that has a guess is no
        sure one, and an error's suggestion comes before a warning's.
        """
        chosen: dict[str, Finding] = {}
        for problem in self.problems:
            if problem.meant is not None and problem.row != self.header_row:
                there = chosen.setdefault(problem.address, problem)
                is_worse = there.severity == "warning" and problem.severity == "error"
                if is_worse or (there.is_sure and not problem.is_sure):
                    chosen[problem.address] = problem
        return tuple(map(_suggestion, chosen.values()))

    def suggested(self, *, guesses: bool = False) -> dict[str, str]:
        """The suggested corrections by address, as `read_sheet` takes them: those that are sure,
        and with `guesses` those that a person has to confirm.
        """
        return {each.address: each.after for each in self.suggestions if each.is_sure or guesses}

    @property
    def findings(self) -> Findings:
        """The problems, one a row, with the fields of `Finding` as columns: a DataFrame."""
        return Findings.of(self.problems)

    @property
    def errors(self) -> int:
        """How many findings block their row."""
        return sum(problem.severity == "error" for problem in self.problems)

    def address(self, row: int, column: str = "id") -> str:
        """Where a cell stands in the file: `Pets!C12`, or `line 12, column 3`."""
        return cell_address(self.tab, self.columns.get(column, ""), row)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def rows_of(frame: pd.DataFrame) -> pd.DataFrame:
    """A DataFrame's rows as petsync compares them. The `frame` of a sheet is known by its row
    numbers, an index or a column named `row`; every other DataFrame has names and no cells.
    """
    is_of_sheet = _ROW in frame.index.names or _ROW in frame.columns
    return _change_categories(frame, _meaning) if is_of_sheet else frame


def frame_of(rows: pd.DataFrame) -> pd.DataFrame:
    """The frame of a sheet with these rows: readable, and read the same from a file."""
    return _change_categories(rows, _cell)


def _change_categories(frame: pd.DataFrame, form: Callable[[str], str]) -> pd.DataFrame:
    """The frame with this form of the categories that empty the field or look as if they did."""
    column = frame.get("category")
    if not isinstance(column, pd.Series):
        return frame
    texts = ((at, column.iat[at]) for at in _suspects(column))
    changed = {at: new for at, old in texts if isinstance(old, str) and (new := form(old)) != old}
    if not changed:
        return frame
    column = column.copy()
    column.iloc[list(changed)] = list(changed.values())
    return frame.assign(category=column)


def _suspects(column: pd.Series[Any]) -> Iterable[int]:
    """The positions of the texts that may be the marker or be like it."""
    if not isinstance(column.dtype, pd.StringDtype):
        return range(len(column))
    texts = pa.array(column, from_pandas=True)
    # Several times as fast as to ignore the case. The word is ASCII, and no letter of it is the
    # other case of one that is not.
    has_word = pc.match_substring(pc.ascii_lower(texts), _WORD)
    found = pc.or_(has_word, pc.equal(texts, CLEARED))
    at: list[int] = pc.indices_nonzero(found).tolist()
    return at


def _cell(name: str) -> str:
    return CLEAR if name == CLEARED else escape_marker(name, CLEAR)


def _meaning(text: str) -> str:
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
