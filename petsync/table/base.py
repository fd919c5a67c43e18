"""Base: the store's records at the moment at which a sheet was exported."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

__all__ = ["Base"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Base:
    """What the store said when a sheet was exported: to it, sheet and store are both compared.

    `frame` has the canonical columns (and `extra`), one row for each pet that the sheet was
    given, sorted by id; `store` is the service's base URL, `taken_at` the moment, ISO 8601 in UTC.
    """

    frame: pd.DataFrame
    store: str
    taken_at: str

    def __len__(self) -> int:
        return len(self.frame)
