"""Past: what became of a plan that was used already, here or elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from petsync.diff.history import Past
from petsync.diff.plan import Plan
from petsync.store.past import History
from petsync.widgets.review.ended import Ended

__all__ = ["ended_run"]

_LOOK_AGAIN = 0.5


async def ended_run(
    history: History, plans: Sequence[Plan], at_work: Callable[[Past], object]
) -> Ended | None:
    """The run in which one of the plans was used, once nobody is at work on it any more;
    `at_work` is told of it for as long as somebody is. None where there was none.
    """
    while (run := await asyncio.to_thread(_used, history, plans)) is not None:
        if run.state != "running":
            return await asyncio.to_thread(_report, history, run.run_id)
        at_work(run)
        await asyncio.sleep(_LOOK_AGAIN)
    return None


def _used(history: History, plans: Sequence[Plan]) -> Past | None:
    with history.opened() as journal:
        runs = (journal.used_by(plan.fingerprint) for plan in plans)
        run = next((each for each in runs if each is not None), None)
        return None if run is None else journal.find(run)


def _report(history: History, run_id: str) -> Ended:
    return Ended(history.report(run_id))
