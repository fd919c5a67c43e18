"""A plan's sentinels, looked at once more before anything is sent."""

from __future__ import annotations

from petsync.apply.target import Target
from petsync.diff.plan import Plan
from petsync.diff.sentinel import drifted
from petsync.errors import GuardError

__all__ = ["check_sentinels"]


async def check_sentinels(plan: Plan, target: Target) -> None:
    """Raise GuardError unless every sentinel is as it was when the plan was made."""
    problems = [
        drifted(pet, await target.get(pet.id)) for pet in plan.sentinels if pet.id is not None
    ]
    said = [problem for problem in problems if problem]
    if said:
        raise GuardError(
            "the guard refuses this plan: " + "; ".join(said),
            hint="Nothing was sent, and the plan is unused. Find out who changed these pets, then "
            "plan again.",
        )
