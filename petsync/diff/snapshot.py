"""Snapshot: the store's records at one moment, and what can be proved from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from petsync._show import as_html, as_text

__all__ = ["Coverage", "Snapshot"]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which status queries a snapshot is the union of.

    The service cannot list everything: a pet whose status was not asked for may exist without
    being in the snapshot, so absence is proved by getPetById alone.
    """

    statuses: tuple[str, ...]

    def __contains__(self, status: object) -> bool:
        return status in self.statuses


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """The store's records: `frame` has the canonical columns, one row for each pet, sorted by id.

    `source` is the service's base URL, `taken_at` the moment (UTC) before the first query.
    """

    frame: pd.DataFrame
    coverage: Coverage
    source: str
    taken_at: datetime

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
