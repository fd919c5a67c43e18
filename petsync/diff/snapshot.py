"""Snapshot: the store's records at one moment, and what can be proved from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec
import pandas as pd

from petsync._show import as_html, as_text
from petsync.diff.fields import normal
from petsync.errors import SheetError

__all__ = ["Coverage", "Snapshot", "Unanswered"]


class Unanswered(msgspec.Struct, frozen=True):
    """A question that the service did not answer: the status or the id `asked` for, and what went
    wrong.
    """

    asked: str
    problem: str


class Coverage(msgspec.Struct, frozen=True):
    """Which status queries a snapshot is the union of, and which of those asked failed.

    The service cannot list everything: a pet whose status was not asked for, or whose query
    failed, may exist without being in the snapshot. So absence is proved by getPetById alone, and
    only a pet with one of `statuses`, those that were answered, can be missing from a sheet:
    `pet.status in coverage`, compared as statuses are, trimmed and without regard to case.
    """

    statuses: tuple[str, ...] = ()
    failed: tuple[Unanswered, ...] = ()

    def __contains__(self, status: object) -> bool:
        if not isinstance(status, str):
            return False
        return _compared(status) in map(_compared, self.statuses)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """The store's records: `frame` has the canonical columns, one row for each pet, sorted by id.

    `source` is the service's base URL, `taken_at` the moment (UTC) before the first query.
    `reread` are the ids of pets that the queries gave more than once, and differently, and that
    were read by their ids. A pet that a query gave unasked is there, and outside `coverage`.
    """

    frame: pd.DataFrame
    coverage: Coverage
    source: str
    taken_at: datetime
    reread: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.frame)

    def require_whole(self) -> None:
        """Raise SheetError where a query failed: a sheet made of the rest would lack pets."""
        if not self.coverage.failed:
            return
        asked = ", ".join(query.asked for query in self.coverage.failed)
        answered = ", ".join(self.coverage.statuses)
        raise SheetError(
            f"the pets of the status {asked} would be missing from the sheet: "
            f"{self.coverage.failed[0].problem}",
            hint="Try again when the store answers, or export by their names the statuses that it "
            f"does list: {answered} (--status, or snapshot(statuses=[…])).",
        )

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _compared(status: str) -> str:
    return normal(status).casefold()
