"""`review`: a plan looked at, decided on, sent, stopped, gone on with and taken back, in a form."""

from __future__ import annotations

from petsync.diff import arguments
from petsync.diff.plan import Plan
from petsync.store import Store
from petsync.table.sheet import Sheet
from petsync.widgets.review.form import ReviewForm

__all__ = ["ReviewForm", "review"]


def review(plan: Plan, store: Store, *, sheet: Sheet | None = None) -> ReviewForm:
    """A form in which a person looks a plan over, leaves changes out, settles conflicts, and sends
    it: `store.apply(plan)` for people. Raises PlanError for what is no plan.

    The new ids are written into the plan's sheet unless a person takes the tick away, and there is
    a file with the results to download. `sheet` is the plan's sheet where that is a copy that was
    sent to this machine, into which nothing is written.
    """
    return ReviewForm(arguments.checked_plan(plan), store, sheet=sheet)
