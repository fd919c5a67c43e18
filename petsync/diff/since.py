"""Since: the base that a sheet is compared by, if it carries one that can be used."""

from __future__ import annotations

from petsync.diff.agreed import named_ids
from petsync.diff.fields import normal
from petsync.errors import GuardError, PlanError
from petsync.table.base import Base
from petsync.table.sheet import Sheet

__all__ = ["base_of", "must_have_columns"]

_RENAMED = "header-renamed"


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


def must_have_columns(sheet: Sheet, *, matches_rows: bool = False) -> None:
    """Raise GuardError where an export has lost the header of a column, or all its ids: edits in
    the column would not be seen, and rows without their ids would be new pets. Where the plan
    `matches_rows` by other columns, it needs no ids.
    """
    lost = [each for each in sheet.problems if each.rule == _RENAMED]
    if matches_rows:
        lost = [each for each in lost if each.meant not in (None, "id")]
    if lost:
        is_id = any(each.meant in (None, "id") for each in lost)
        why = "rows without their ids would become new pets" if is_id else "edits would be missed"
        raise GuardError(
            f"{sheet.source}: " + " ".join(f"{each.address}: {each.problem}" for each in lost),
            hint=f"Nothing is planned: {why}. "
            + " ".join(dict.fromkeys(each.suggestion for each in lost)),
        )
    base, frame = sheet.base, sheet.frame
    if base is None or matches_rows or not len(base) or named_ids(sheet) or "name" not in frame:
        return
    rows = frame[frame["action"] == "merge"]
    names = {normal(name) for name in base.frame["name"].dropna()} - {""}
    like = [row for row, name in rows["name"].dropna().items() if normal(name) in names]
    if like:
        raise GuardError(
            f"the column id of {sheet.source} is empty, and had the ids of {len(base):,} pets when "
            f"it was exported; {sheet.address(int(str(like[0])), 'name')} has the name of one",
            hint="Nothing is planned: rows without their ids would become new pets. Put the ids "
            "back beside their rows, or export again. If such a row is another pet, write "
            "`add-another` in its action cell.",
        )
