"""A plan as a file: JSON, readable by its owner alone, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from petsync._files import landing, write_private
from petsync.errors import PlanError
from petsync.plan.plan import Plan

__all__ = ["load_plan", "save_plan"]


def save_plan(plan: Plan, path: str | Path) -> Path:
    """The path of the plan's file, of mode 0600. Raises PlanError where it cannot be written."""
    try:
        write_private(Path(path), plan.to_json())
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from None
    return Path(path)


def load_plan(path: str | Path) -> Plan:
    """The plan in a file. Raises PlanError where there is none, or it was changed by hand."""
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
