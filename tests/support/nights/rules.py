"""The allowed results of a merge of one field, written from the documents only.

A *candidate* is a value on which both sides may have agreed last: one if the last round finished,
several if a process was killed in between, none if the field was never reconciled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nights.reading import agree

__all__ = ["Outcome", "merge_tags", "outcomes"]

Outcome = tuple[Any, Any]
"""The values of the sheet and of the store after the merge."""


def outcomes(field: str, candidates: Iterable[Any], sheet: Any, store: Any) -> list[Outcome]:
    """Return every allowed result of a finished two-way round; a conflict changes nothing."""
    if agree(sheet, store):
        return [(store, store)]
    found: list[Outcome] = []
    known = list(candidates)
    for last in known:
        if sheet == last:
            found.append((store, store))
        elif store == last:
            found.append((sheet, sheet))
        elif field == "tags":
            both = merge_tags(last, sheet, store)
            found.append((both, both))
        elif field == "photo_urls":
            found += _merged_photos(last, sheet, store)
        else:
            found.append((sheet, store))
    if not known:
        found += [(sheet, store), (sheet, sheet), (store, store)]
    return found


def merge_tags(last: frozenset[str], sheet: frozenset[str], store: frozenset[str]) -> Any:
    """Return the store's tags without the sheet's removals, and with the sheet's additions."""
    return (store - (last - sheet)) | (sheet - last)


def _merged_photos(last: Sequence[str], sheet: Sequence[str], store: Sequence[str]) -> list[Any]:
    """Return the allowed lists: both sides' additions, no side's removals, in any order."""
    both = merge_tags(frozenset(last), frozenset(sheet), frozenset(store))
    return [(sheet, store), (_Any(both), _Any(both))]


class _Any:
    """Is equal to each list of exactly these addresses."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: Iterable[str]) -> None:
        self._items = Counter(items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and Counter(other) == self._items

    def __repr__(self) -> str:
        return f"any order of {sorted(self._items)}"
