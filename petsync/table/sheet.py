"""Sheet: a spreadsheet read, as what it says; Finding: one problem in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from petsync._show import as_html, as_text

__all__ = ["Finding", "Sheet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem: where (`Pets!C12`, or `line 12, column 3`), what, and the suggestion.

    An `error` blocks its row from the plan; a `warning` does not. `rule` is a stable code.
    """

    address: str
    row: int
    column: str
    severity: Literal["error", "warning"]
    rule: str
    value: str
    problem: str
    suggestion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sheet:
    """What a spreadsheet says.

    `frame`: the rows that can be used, indexed by their row number in the file (int64, named
    `row`; for CSV the line at which the record starts). It has the canonical columns that the
    file has, with the table's dtypes, plus `action` (str, always there). A missing value says
    nothing; an empty text or an empty list says "make it empty".
    `others`: the file's further columns as text, indexed alike.
    `blocked`: the row numbers that an error keeps out of `frame`; `blocked_ids`: the ids that
    such rows name, which a plan neither changes nor deletes.
    `columns`: for each column of `frame` (and `action`) the letter (XLSX) or number (CSV) of the
    column in the file. `tab` is the worksheet's name, "" for CSV.
    """

    source: str
    tab: str
    frame: pd.DataFrame
    others: pd.DataFrame
    problems: tuple[Finding, ...] = ()
    blocked: tuple[int, ...] = ()
    blocked_ids: frozenset[int] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""

    @property
    def findings(self) -> pd.DataFrame:
        """The problems, one a row, with the fields of `Finding` as columns."""
        names = list(Finding.__slots__)
        rows = [[getattr(problem, name) for name in names] for problem in self.problems]
        return pd.DataFrame(rows, columns=names)

    @property
    def errors(self) -> int:
        """How many findings block their row."""
        return sum(problem.severity == "error" for problem in self.problems)

    def address(self, row: int, column: str = "id") -> str:
        """Where a cell stands in the file: `Pets!C12`, or `line 12, column 3`."""
        place = self.columns.get(column, "")
        if self.tab:
            return f"{self.tab}!{place or 'A'}{row}"
        return f"line {row}, column {place}" if place else f"line {row}"

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
