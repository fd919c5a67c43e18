"""A saved plan, and the sheet it was made from if that is still there as it was."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from petsync.errors import SheetError

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

    plan = load_plan(path)
    store.check(plan)
    source = Path(plan.source)
    try:
        content = source.read_bytes()
        if hashlib.sha256(content).hexdigest() != plan.source_digest:
            return plan, None
        sheet = store.aio.read(
            source, tab=_tab(plan), mapping=plan.columns, known_statuses=_statuses(plan)
        )
        return plan, sheet
    except (OSError, SheetError):
        return plan, None


def _tab(plan: Plan) -> str | None:
    """The worksheet, from the addresses of the rows: `Pets!C12`, `'My pets'!C12`."""
    rows = (*plan.changes, *plan.conflicts, *plan.blocked)
    source = next((row.source for row in rows if row.source), "")
    tab, mark, _ = source.rpartition("!")
    if not mark:
        return None
    return tab[1:-1].replace("''", "'") if tab.startswith("'") else tab


def _statuses(plan: Plan) -> frozenset[str]:
    return frozenset(
        pet.status
        for change in plan.changes
        for pet in (change.before, change.after)
        if pet is not None and pet.status
    )
