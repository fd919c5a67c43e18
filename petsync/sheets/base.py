"""The base of an export in its file: a very hidden worksheet, or the sidecar of a CSV."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from petsync.errors import SheetError
from petsync.plan.change import Snapshot
from petsync.sheets.files import Source
from petsync.sheets.sidecar import lines_beside
from petsync.sheets.xlsx.survey import lines_of
from petsync.table.base import Base, ParcelError
from petsync.table.sheet import Sheet

if TYPE_CHECKING:
    from petsync.sheets.xlsx.package import Package

__all__ = ["NAME", "TAB", "Given", "base_of", "choose_base", "find", "notice"]


TAB = "petsync base"
"""The worksheet that holds it."""

NAME = "petsync_base"
"""The name that a workbook with a base has, and keeps where somebody deletes that worksheet."""

Given = Base | Snapshot | Literal[False] | None
"""What a caller may say: this base, none, or None for the one that the data has by itself."""


def base_of(snapshot: Snapshot) -> Base:
    """The snapshot as a base. Raises SheetError where a query of it failed."""
    snapshot.require_whole()
    return Base(
        frame=snapshot.frame,
        store=snapshot.source,
        taken_at=snapshot.taken_at.isoformat(timespec="seconds"),
        statuses=snapshot.coverage.statuses,
    )


def choose_base(data: Any, given: Given) -> Base | None:
    """The base that a file of `data` gets: the given one, else a snapshot itself, else a sheet's.

    Raises TypeError where `given` is something else, and SheetError for data that is a snapshot of
    which a query failed.
    """
    if isinstance(data, Snapshot):
        data.require_whole()
    if given is False:
        return None
    chosen = data if given is None else given
    if isinstance(chosen, Snapshot):
        return base_of(chosen)
    if isinstance(chosen, Base):
        return chosen
    if given is not None:
        raise TypeError(f"a base is a Base, a Snapshot or False, not {type(given)}")
    return data.base if isinstance(data, Sheet) else None


def notice(base: Base) -> str:
    """What a person who opens it is told; plain ASCII."""
    store = base.store.encode("ascii", "replace").decode()
    return (
        f"# {len(base):,} pets of {store} as they were at {base.taken_at}, when they were "
        "exported. petsync tells by it your changes from those that others make meanwhile. "
        "Leave it as it is."
    )


def find(source: Source) -> tuple[Base | None, str]:
    """The base that a file carries, and why it is refused: "" where it is not, or not there.

    The reason begins small, to stand behind the file's name.
    """
    try:
        lines = lines_beside(source.path) if source.kind == "text" else _worksheet(source)
        return (None if lines is None else Base.from_lines(lines)), ""
    except (ParcelError, SheetError) as error:
        why = re.sub(rf"^{re.escape(str(source.path))}(?:, |: )", "", str(error))
        return None, f"the records of its export cannot be used: {why}"


def _worksheet(source: Source) -> list[str] | None:
    # calamine is loaded when a workbook is read.
    from petsync.sheets.xlsx.package import Package

    package = Package(source)
    lines = lines_of(package, TAB)
    if lines is None and _is_named(package):
        raise ParcelError(f"the worksheet {TAB!r} was deleted")
    return lines


def _is_named(package: Package) -> bool:
    book = package.elements(package.workbook)
    names = (each.get("name", "") for local, each in book if local == "definedName")
    return any(name.casefold() == NAME for name in names)
