"""Plan files: JSON, readable only by the owner, written atomically."""

from __future__ import annotations

from pathlib import Path

from petsync._files import landing, write_atomically
from petsync.errors import PlanError
from petsync.plan.plan import Plan

__all__ = ["load_plan", "save_plan"]


def save_plan(plan: Plan, path: str | Path) -> Path:
    """Write the plan to a file that only its owner can read, and return the path.

    Raises PlanError if the file cannot be written.
    """
    write_atomically(Path(path), plan.to_json(), private=True, error=PlanError)
    return Path(path)


def load_plan(path: str | Path) -> Plan:
    """Return the plan in a file.

    Raises PlanError if the file cannot be read, was edited, or has no plan in the format of this
    version of petsync.
    """
    source = Path(path)
    try:
        if source.exists():
            landing(source)
        return Plan.from_json(source.read_bytes(), str(source))
    except OSError as error:
        raise PlanError(
            f"{source} cannot be read: {error.strerror}",
            hint="Make a plan with `petsync plan SHEET -o PLAN.json`.",
        ) from None
