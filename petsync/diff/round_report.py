"""RoundReport: all that there is to tell of a round."""

from __future__ import annotations

import msgspec

from petsync._show import as_html, as_text
from petsync.diff.plan import Plan
from petsync.diff.report import Report
from petsync.diff.round import Open, Round, SheetChange

__all__ = ["RoundReport"]


class RoundReport(msgspec.Struct, frozen=True, kw_only=True):
    """A round, every difference that it left, what was planned for either side, and what became of
    it.

    `plan` is what the store was to take, None where the round ended before it was made; `report`
    is None where nothing was sent. `sheet` is what the sheet was to take.
    """

    round: Round
    open: tuple[Open, ...] = ()
    plan: Plan | None = None
    report: Report | None = None
    sheet: tuple[SheetChange, ...] = ()

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
