"""The sheet that a plan was made from, if it is still there as it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from petsync.diff.plan import Plan
from petsync.errors import SheetError
from petsync.sheets.read import STATUSES, read_sheet
from petsync.sheets.source import load
from petsync.table.sheet import Sheet

__all__ = ["sheet_of"]


def sheet_of(plan: Plan, *, statuses: Sequence[str] = STATUSES, digest: str = "") -> Sheet | None:
    """The sheet of the plan, read as it was then; None where it is gone or was changed since.
    `digest` is its SHA-256 if its run has written into it.
    """
    source = Path(plan.source)
    try:
        # A plan may come from anybody: a device or a pipe that it names is not read.
        if load(source, plan.encoding or None).digest != (digest or plan.source_digest):
            return None
        sheet = read_sheet(
            source,
            tab=plan.tab or None,
            defaults=plan.columns,
            encoding=plan.encoding or None,
            statuses=statuses,
            known_statuses=_statuses(plan),
            corrections={each.address: each.after for each in plan.corrections},
        )
    except (OSError, ValueError, SheetError):
        return None
    return sheet if len(sheet.frame) + len(sheet.blocked) == plan.rows else None


def _statuses(plan: Plan) -> frozenset[str]:
    pets = (pet for change in plan.changes for pet in (change.before, change.after))
    return frozenset(pet.status for pet in pets if pet is not None and pet.status)
