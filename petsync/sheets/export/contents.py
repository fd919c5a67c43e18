"""What a workbook is made of, before it is laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from petsync.sheets.export.text import OUT
from petsync.table.base import Base

__all__ = ["GUIDE", "Contents"]

GUIDE = "How to use this sheet"
"""The worksheet that an export adds for its reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """`columns` are the texts of the columns of OUT, all of one length; `tab` is the worksheet's
    name, `file` the workbook's. `statuses` are the usual ones, `clear` empties a field, and
    `base` are the records that the workbook carries. `exact` is whether it also carries the exact
    texts of cells that LibreOffice would change.
    """

    columns: Sequence[Sequence[str]]
    tab: str
    file: str
    statuses: Sequence[str] = ()
    clear: str = ""
    base: Base | None = None
    exact: bool = True

    @property
    def rows(self) -> int:
        """How many rows there are below the header."""
        return len(self.columns[0])

    @property
    def by_name(self) -> Mapping[str, Sequence[str]]:
        """The texts by their column's name."""
        return dict(zip(OUT, self.columns, strict=True))
