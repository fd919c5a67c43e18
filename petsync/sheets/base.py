"""The base of an export, stored in a hidden worksheet or in the sidecar of a CSV file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from petsync._display import count, type_name
from petsync.errors import SheetError
from petsync.plan.change import Snapshot
from petsync.sheets.files import TEXT_SUFFIXES, Source
from petsync.sheets.load import load
from petsync.sheets.sidecar import BASE_NAME, BASE_TAB, read_sidecar_lines
from petsync.table.base import Base, ParcelError
from petsync.table.sheet import Sheet

if TYPE_CHECKING:
    from petsync.sheets.xlsx.package import Package

__all__ = [
    "BASE_NAME",
    "BASE_TAB",
    "BaseChoice",
    "base_notice",
    "choose_base",
    "find_base",
    "find_store",
]


BaseChoice = Base | Snapshot | Literal[False] | None
"""A base or a snapshot; False for no base; None for the base that the data itself has."""


def choose_base(data: Any, given: BaseChoice) -> Base | None:
    """Return the base for a file that is written from `data`. If `given` is None, the base comes
    from the data: a snapshot is itself the base, and a sheet may have one.

    Raises SheetError if `given` has another type, and if the data or `given` is a snapshot and one
    of its queries failed.
    """
    if isinstance(data, Snapshot):
        data.require_whole()
    if given is False:
        return None
    chosen = data if given is None else given
    if isinstance(chosen, Snapshot):
        return chosen.as_base()
    if isinstance(chosen, Base):
        return chosen
    if given is not None:
        raise SheetError(
            f"base is {type_name(given)}, not a Snapshot, a Base, False or None",
            hint="Leave it out, or give store.snapshot().",
        )
    return data.base if isinstance(data, Sheet) else None


def base_notice(base: Base) -> str:
    """Return the notice for users who open the base; plain ASCII."""
    store = base.store.encode("ascii", "replace").decode()
    return (
        f"# An export of {count(len(base), 'pet')} of {store}, taken at {base.taken_at[:19]} UTC. "
        "petsync needs this to distinguish your changes from changes in the store. Do not edit it."
    )


def find_base(source: Source) -> tuple[Base | None, str]:
    """Return the base of a file, None if it has none or the base cannot be used; and the reason why
    it cannot be used, else "". The reason begins in lower case, because it follows the file's name.
    """
    try:
        lines = (
            _read_base_lines(source)
            if source.kind == "workbook"
            else read_sidecar_lines(source.path)
        )
        return (None if lines is None else Base.from_lines(lines)), ""
    except (ParcelError, SheetError) as error:
        why = re.sub(rf"^{re.escape(str(source.path))}(?:, |: )", "", str(error))
        return None, f"the records of its export cannot be used: {why}"


def find_store(path: Path) -> str:
    """Return the address of the store whose export the file is; "" if it has no base that can be
    used. Raises SheetError if the file is not a readable workbook.
    """
    source = None if path.suffix.lower() in TEXT_SUFFIXES else load(path)
    try:
        lines = (
            read_sidecar_lines(path)
            if source is None or source.kind != "workbook"
            else _read_base_lines(source)
        )
        return "" if lines is None else Base.read_store(lines)
    except (ParcelError, SheetError):
        return ""


def _read_base_lines(source: Source) -> list[str] | None:
    # The modules for workbooks are loaded only for workbooks.
    from petsync.sheets.xlsx.package import Package
    from petsync.sheets.xlsx.survey import lines_of

    package = Package(source)
    lines = lines_of(package, BASE_TAB)
    if lines is None and _has_base_name(package):
        raise ParcelError(f"the worksheet {BASE_TAB!r} was deleted")
    return lines


def _has_base_name(package: Package) -> bool:
    book = package.elements(package.workbook)
    names = (each.get("name", "") for local, each in book if local == "definedName")
    return any(name.casefold() == BASE_NAME for name in names)
