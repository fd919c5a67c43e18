"""Arguments of plan and apply, checked before anything is asked for or sent."""

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
    """The columns to match on; one name alone will do. Raises SettingsError."""
    names = (match_on,) if isinstance(match_on, str) else tuple(match_on)
    known: dict[str, Column] = {name: name for name in COLUMNS if name != "id"}
    for name in names:
        if name not in known:
            raise SettingsError(
                f"match_on: {name!r} is no column to match on",
                hint=f"These are: {', '.join(known)}.",
            )
    return tuple(known[name] for name in names)


def winner(on_conflict: object) -> Literal["store", "sheet"]:
    """Whose value wins. Raises SettingsError for anybody else."""
    if on_conflict == "store" or on_conflict == "sheet":
        return on_conflict
    raise SettingsError(f"on_conflict is {on_conflict!r}; it must be 'store' or 'sheet'")


def run_name(value: object) -> str:
    """The id of a run, or the beginning of one; a report will do. Raises PlanError."""
    name = getattr(value, "run_id", value)
    if isinstance(name, str):
        return name
    raise PlanError(
        f"{value!r} names no run", hint="Give the id of a run as text, as report.run_id has it."
    )


def pet_ids(value: object) -> tuple[int, ...]:
    """One id or several. Raises SettingsError for what is no id."""
    many = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    ids = tuple(value) if many and isinstance(value, Iterable) else (value,)
    for each in ids:
        if type(each) is not int or not MIN_ID <= each <= MAX_ID:
            raise SettingsError(f"{each!r} is no pet's id: a whole number of 64 bits")
    return ids


def guard_of(guard: object) -> Guard:
    """The guard itself. Raises SettingsError for anything else."""
    if not isinstance(guard, Guard):
        raise SettingsError(
            f"guard is {guard!r}, not a Guard", hint="Leave it out, or give Guard(…)."
        )
    return guard


def checked_snapshot(snapshot: object, url: str) -> Snapshot:
    """The snapshot itself. Raises PlanError where it is none, or is of another store."""
    if not isinstance(snapshot, Snapshot):
        kind = type(snapshot).__name__
        raise PlanError(f"snapshot is a {kind}, not a Snapshot", hint="store.snapshot() gives one.")
    if snapshot.source != url:
        raise PlanError(f"the snapshot is of {snapshot.source}, and this store is {url}")
    return snapshot


def no_findings(sheet: Sheet) -> None:
    """Raise FindingsError where the sheet has an error or a warning."""
    if sheet.problems:
        first, warnings = sheet.problems[0], len(sheet.problems) - sheet.errors
        counts = f"{_count(sheet.errors, 'error')} and {_count(warnings, 'warning')}"
        raise FindingsError(
            f"{sheet.source}: {counts}, the first at {first.address}: {first.problem}",
            hint="Nothing was planned, as strict was asked for. `petsync check` lists them all.",
        )


def checked_plan(plan: object) -> Plan:
    """The plan itself. Raises PlanError for anything else."""
    if not isinstance(plan, Plan):
        kind = type(plan).__name__
        raise PlanError(
            f"a {kind} is no plan", hint="store.plan(…) makes one, load_plan reads one."
        )
    return plan


def checked_pictures(pictures: object) -> Pictures:
    """The pictures themselves. Raises PlanError for anything else."""
    if not isinstance(pictures, Pictures):
        kind = type(pictures).__name__
        raise PlanError(
            f"a {kind} is no list of pictures",
            hint="store.pictures(…) looks at a folder or a sheet, and gives one.",
        )
    return pictures


def folder_of(source: object, **of_sheets: object) -> str:
    """The folder that is named. Raises SettingsError for options that belong to a sheet, or where
    a sheet is named and no column of it.
    """
    for name, value in of_sheets.items():
        if value is not None:
            raise SettingsError(
                f"{name} belongs to a sheet's column of files", hint="Say which one (--column)."
            )
    if isinstance(source, Sheet) or str(source).lower().endswith(_SHEETS):
        raise SettingsError(
            "of a sheet, the column that names the files is needed",
            hint="Say which one (--column), or name a folder of pictures.",
        )
    return str(source)


_SHEETS = (".xlsx", ".xlsm", ".csv", ".tsv", ".txt", ".ods", ".xls")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
