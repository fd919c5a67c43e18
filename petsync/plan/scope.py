"""Decide which pets of the store a plan must read: the store's lists, or only single pets."""

from __future__ import annotations

from collections.abc import Iterable

from petsync.plan.compare import find_unread_tabs
from petsync.plan.fields import fold_status
from petsync.plan.match import find_unproved_ids
from petsync.plan.options import PlanOptions
from petsync.table.arrow import SCHEMA, PetTable
from petsync.table.frame import has_action, lacks_id, unique_texts
from petsync.table.sheet import Sheet

__all__ = ["find_ids_to_read", "has_unlisted_status", "longest_list", "needs_all"]


_PETS_A_LOOKUP = 40
"""The number of listed pets that cost as much as one look-up (benchmarks/narrow.py)."""
_SHORT_LIST = 2_000
"""The number of pets that are always listed, because a list costs little until then."""
_MAX_LOOKUPS = 1_000
"""The maximum number of pets that `auto` looks up, to spare the service more requests."""


def find_ids_to_read(sheet: Sheet, others: Iterable[int] = ()) -> list[int]:
    """Return the ids that the rows name, except rows with the action `ignore`, and the `others`,
    each once.
    """
    nobody = PetTable(SCHEMA.empty_table()).rows
    named = find_unproved_ids(sheet.rows, nobody)
    return [*dict.fromkeys([*named, *sorted(sheet.blocked_ids), *others])]


def longest_list(ids: int) -> int | None:
    """Return the number of pets up to which it is cheaper to list all pets than to look up this
    number of ids; None if it always is.
    """
    return None if ids > _MAX_LOOKUPS else max(_SHORT_LIST, _PETS_A_LOOKUP * ids)


def needs_all(sheet: Sheet, options: PlanOptions) -> bool:
    """Return true if the sheet itself shows that its plan depends on pets that no row names."""
    return (
        options.delete_missing
        or bool(options.match_on)
        or bool(sheet.store_rules)
        or _has_row_without_id(sheet)
        or any(each.rule == "unknown-status" for each in sheet.problems)
        or bool(find_unread_tabs(sheet))
    )


def has_unlisted_status(pets: PetTable, statuses: Iterable[str]) -> bool:
    """Return true if a pet has none of these statuses, so that the store's lists lack it."""
    listed = {fold_status(each) for each in statuses}
    found = unique_texts(pets.rows, "status")
    has_none = bool(pets.rows["status"].isna().any())
    return has_none or not {fold_status(each) for each in found} <= listed


def _has_row_without_id(sheet: Sheet) -> bool:
    frame = sheet.rows
    return bool((lacks_id(frame) & ~has_action(frame, "ignore")).any())
