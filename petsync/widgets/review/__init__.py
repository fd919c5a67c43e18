"""`review`: a plan looked at, decided on, sent, stopped, gone on with and taken back, in a form."""

from __future__ import annotations

from petsync.diff import arguments
from petsync.diff.plan import Plan
from petsync.store import Store
from petsync.widgets.review.form import ReviewForm

__all__ = ["ReviewForm", "review"]


def review(plan: Plan, store: Store) -> ReviewForm:
    """A form in which a person looks a plan over, leaves changes out, settles conflicts, and sends
    it: `store.apply(plan)` for people. Raises PlanError for what is no plan.
    """
    return ReviewForm(arguments.checked_plan(plan), store)
