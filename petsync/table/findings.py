"""Findings: a sheet's problems as a DataFrame that shows itself by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from petsync._show import as_html, as_text

if TYPE_CHECKING:
    from petsync.table.sheet import Finding

__all__ = ["FIELDS", "Findings"]

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
