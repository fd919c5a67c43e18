"""Since: the base that a sheet is compared by, if it carries one that can be used."""

from __future__ import annotations

from petsync.errors import PlanError
from petsync.table.base import Base
from petsync.table.sheet import Sheet

__all__ = ["base_of"]


def base_of(sheet: Sheet, store: str, *, two_way: bool) -> Base | None:
    """The base that the sheet is compared by. Raises PlanError where it carries one that cannot
    be trusted, or that is another store's, unless `two_way`, which does without.
    """
    if two_way:
        return None
    if sheet.base_refused:
        raise PlanError(
            f"{sheet.source}: {sheet.base_refused}",
            hint="Export afresh and move your edits there; or compare with the store alone "
            "(--two-way, two_way=True): every filled cell then overrules the store.",
        )
    if sheet.base is not None and sheet.base.store != store:
        raise PlanError(
            f"{sheet.source} was exported from {sheet.base.store}, and this store is {store}",
            hint="Name the other store, or compare with this one alone (--two-way, two_way=True): "
            "every filled cell then overrules the store.",
        )
    return sheet.base
