"""RoundReport: all that there is to tell of a round."""

from __future__ import annotations

import msgspec

from petsync.diff.plan import Plan
from petsync.diff.report import Report
from petsync.diff.round import Open, Round

__all__ = ["RoundReport"]


class RoundReport(msgspec.Struct, frozen=True, kw_only=True):
    """A round, every difference that it left, what was planned for the store and what became of it.

    `plan` is None where the round ended before it was made, `report` where nothing was sent.
    """

    round: Round
    open: tuple[Open, ...] = ()
    plan: Plan | None = None
    report: Report | None = None
