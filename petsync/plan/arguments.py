"""Checks of the arguments of functions, made before any request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from petsync._display import count, type_name
from petsync._files import READABLE, is_address
from petsync.errors import FindingsError, PlanError, SettingsError
from petsync.models import as_int64
from petsync.plan.change import Snapshot
from petsync.plan.plan import Plan
from petsync.table.sheet import Sheet

if TYPE_CHECKING:
    from petsync.plan.uploads import Pictures

__all__ = [
    "checked_pictures",
    "checked_plan",
    "checked_snapshot",
    "folder_of",
    "must_have_no_findings",
    "pet_id",
    "pet_ids",
    "run_name",
]


def run_name(value: object) -> str:
    """Return the id of a run from a string or a report. A string may be a prefix of the id, or
    "last". Raises PlanError for other values.
    """
    name = getattr(value, "run_id", value)
    if isinstance(name, str):
        return name
    raise PlanError(
        f"{value!r} is not the id of a run",
        hint="Give the id of a run as text, such as report.run_id.",
    )


def pet_ids(value: object) -> tuple[int, ...]:
    """Return one or several ids as a tuple of `int`; integers of numpy are ids too. Raises
    SettingsError for an invalid id.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return (_as_id(value),)
    return tuple(map(_as_id, value))


def _as_id(value: object) -> int:
    number = as_int64(value)
    if number is None:
        raise SettingsError(
            f"{value!r} is not a pet id; pet ids are 64-bit integers",
            hint="Give the number, such as 7; int(…) makes one from text or a float.",
        )
    return number


def pet_id(value: object) -> int:
    """Return the id of one pet. Raises SettingsError for an invalid id, or for several."""
    ids = pet_ids(value)
    if len(ids) != 1:
        raise SettingsError(
            f"{len(ids)} ids are given, where one pet is needed", hint="Call it for each id."
        )
    return ids[0]


def checked_snapshot(snapshot: object, url: str) -> Snapshot:
    """Return the snapshot. Raises PlanError if it is not a Snapshot, or is from another store."""
    if not isinstance(snapshot, Snapshot):
        raise PlanError(
            f"snapshot is {type_name(snapshot)}, not a Snapshot",
            hint="store.snapshot() returns a Snapshot.",
        )
    if snapshot.source != url:
        raise PlanError(f"the snapshot is from {snapshot.source}, but this store is {url}")
    return snapshot


def must_have_no_findings(sheet: Sheet) -> None:
    """Raise FindingsError if the sheet has an error or a warning."""
    if sheet.problems:
        first, warnings = sheet.problems[0], len(sheet.problems) - sheet.errors
        counts = f"{count(sheet.errors, 'error')} and {count(warnings, 'warning')}"
        raise FindingsError(
            f"{sheet.source}: {counts}, the first at {first.address}: {first.problem}",
            hint="Nothing was changed, because strict is set. `petsync check` (in Python, "
            "sheet.findings) lists all of them.",
        )


def checked_plan(plan: object) -> Plan:
    """Return the plan. Raises PlanError if it is not a Plan."""
    if not isinstance(plan, Plan):
        raise PlanError(
            f"{type_name(plan)} is not a plan",
            hint="store.plan(…) makes a plan, and load_plan(…) reads one from a file.",
        )
    return plan


def checked_pictures(pictures: object) -> Pictures:
    """Return `pictures`. Raises PlanError if it is not a Pictures object."""
    # Most runs upload no pictures.
    from petsync.plan.uploads import Pictures

    if not isinstance(pictures, Pictures):
        raise PlanError(
            f"{type_name(pictures)} is not a Pictures object",
            hint="store.pictures(…) and store.pictures_of(…) return a Pictures object.",
        )
    return pictures


def folder_of(source: object, **of_sheets: object) -> str:
    """Return the folder that `source` names. Raises SettingsError if an option is valid only for a
    sheet, or if `source` is a sheet, which needs a column.
    """
    for name, value in of_sheets.items():
        if value is not None:
            raise SettingsError(
                f"{name} is valid only if a column of a sheet names the files",
                hint="Name the column (--column, in Python column=…), or leave the option out.",
            )
    if not isinstance(source, Sheet | str) and not hasattr(source, "__fspath__"):
        raise SettingsError(
            f"{type_name(source)} is neither a folder nor a sheet",
            hint='Give the name of a folder of pictures, such as "pictures".',
        )
    is_file = str(source).lower().endswith(READABLE) and not is_address(str(source))
    if isinstance(source, Sheet) or is_file:
        raise SettingsError(
            "for a sheet, the column that names the files is required",
            hint="Name the column (--column, in Python column=…), or name a folder of pictures.",
        )
    return str(source)
