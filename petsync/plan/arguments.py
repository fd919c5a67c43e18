"""The checks of arguments of plan and apply, made before any request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from petsync.errors import FindingsError, PlanError, SettingsError
from petsync.models import MAX_ID, MIN_ID
from petsync.plan.change import Snapshot
from petsync.plan.guard import Guard
from petsync.plan.plan import Plan
from petsync.plan.uploads import Pictures
from petsync.table.columns import COLUMNS, Column
from petsync.table.sheet import Sheet

__all__ = [
    "checked_pictures",
    "checked_plan",
    "checked_snapshot",
    "folder_of",
    "guard_of",
    "match_columns",
    "no_findings",
    "pet_ids",
    "run_name",
    "winner",
]


def match_columns(match_on: str | Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns to match on, from one name or several names. Raises SettingsError."""
    names = (match_on,) if isinstance(match_on, str) else tuple(match_on)
    known: dict[str, Column] = {name: name for name in COLUMNS if name != "id"}
    for name in names:
        if name not in known:
            raise SettingsError(
                f"match_on: {name!r} is not a column to match on",
                hint=f"Valid columns: {', '.join(known)}.",
            )
    return tuple(known[name] for name in names)


def winner(on_conflict: object) -> Literal["store", "sheet"]:
    """Return the winning side. Raises SettingsError if it is neither "store" nor "sheet"."""
    if on_conflict == "store" or on_conflict == "sheet":
        return on_conflict
    raise SettingsError(f"on_conflict is {on_conflict!r}; it must be 'store' or 'sheet'")


def run_name(value: object) -> str:
    """Return the id of a run, or a prefix of it, from a string or a report. Raises PlanError."""
    name = getattr(value, "run_id", value)
    if isinstance(name, str):
        return name
    raise PlanError(
        f"{value!r} is not the id of a run",
        hint="Give the id of a run as text, such as report.run_id.",
    )


def pet_ids(value: object) -> tuple[int, ...]:
    """Return one id or several as a tuple. Raises SettingsError for an invalid id."""
    many = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    ids = tuple(value) if many and isinstance(value, Iterable) else (value,)
    for each in ids:
        if type(each) is not int or not MIN_ID <= each <= MAX_ID:
            raise SettingsError(f"{each!r} is not a pet's id, which is a 64-bit integer")
    return ids


def guard_of(guard: object) -> Guard:
    """Return the guard. Raises SettingsError if it is not a Guard."""
    if not isinstance(guard, Guard):
        raise SettingsError(
            f"guard is {guard!r}, not a Guard", hint="Leave it out, or give Guard(…)."
        )
    return guard


def checked_snapshot(snapshot: object, url: str) -> Snapshot:
    """Return the snapshot. Raises PlanError if it is not a Snapshot, or if it is a snapshot of
    another store.
    """
    if not isinstance(snapshot, Snapshot):
        kind = type(snapshot).__name__
        raise PlanError(f"snapshot is a {kind}, not a Snapshot", hint="store.snapshot() gives one.")
    if snapshot.source != url:
        raise PlanError(f"the snapshot is of {snapshot.source}, and this store is {url}")
    return snapshot


def no_findings(sheet: Sheet) -> None:
    """Raise FindingsError if the sheet has an error or a warning."""
    if sheet.problems:
        first, warnings = sheet.problems[0], len(sheet.problems) - sheet.errors
        counts = f"{_count(sheet.errors, 'error')} and {_count(warnings, 'warning')}"
        raise FindingsError(
            f"{sheet.source}: {counts}, the first at {first.address}: {first.problem}",
            hint="Nothing was planned, because strict is set. `petsync check` lists them all.",
        )


def checked_plan(plan: object) -> Plan:
    """Return the plan. Raises PlanError if it is not a Plan."""
    if not isinstance(plan, Plan):
        kind = type(plan).__name__
        raise PlanError(
            f"a {kind} is not a plan", hint="store.plan(…) makes one, load_plan reads one."
        )
    return plan


def checked_pictures(pictures: object) -> Pictures:
    """Return `pictures`. Raises PlanError if it is not a Pictures object."""
    if not isinstance(pictures, Pictures):
        kind = type(pictures).__name__
        raise PlanError(
            f"a {kind} is not a list of pictures",
            hint="store.pictures(…) reads a folder or a sheet, and returns one.",
        )
    return pictures


def folder_of(source: object, **of_sheets: object) -> str:
    """Return the folder that `source` names. Raises SettingsError for an option that is valid only
    for a sheet, and for a sheet without a column.
    """
    for name, value in of_sheets.items():
        if value is not None:
            raise SettingsError(
                f"{name} is valid only with a sheet's column of files",
                hint="Name the one to use (--column).",
            )
    if isinstance(source, Sheet) or str(source).lower().endswith(_SHEETS):
        raise SettingsError(
            "a sheet needs the column that names the files",
            hint="Name the one to use (--column), or name a folder of pictures.",
        )
    return str(source)


_SHEETS = (".xlsx", ".xlsm", ".csv", ".tsv", ".txt", ".ods", ".xls")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
