"""A saved plan, and the sheet it was made from if that is still there as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from petsync.diff.plan import Plan
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = ["of_plan"]


def of_plan(store: Store, path: Path) -> tuple[Plan, Sheet | None]:
    """The plan in the file, and its sheet; None where results can no longer be written into it.

    Raises PlanError, for a plan too that is for another store or was applied already.
    """
    from petsync.apply.planfile import load_plan
    from petsync.sheets.planned import sheet_of

    plan = load_plan(path)
    store.check(plan)
    return plan, sheet_of(plan, statuses=store.api.aio.session.profile.statuses)
