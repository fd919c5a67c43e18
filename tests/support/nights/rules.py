"""What may become of a field when both sides are merged, by the documents, and written anew.

A *candidate* is a value that both sides may have agreed on last: one, where the last round came to
its end; several, where a process was killed in between; none for what was never reconciled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nights.reading import agree

__all__ = ["Outcome", "merge_tags", "outcomes"]

Outcome = tuple[Any, Any]
"""What the sheet and the store say afterwards."""


def outcomes(field: str, candidates: Iterable[Any], sheet: Any, store: Any) -> list[Outcome]:
    """Everything that a finished two-way round may make of a field; conflicts stay as they are."""
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
    """The store's, without what the sheet took away and with what it added."""
    return (store - (last - sheet)) | (sheet - last)


def _merged_photos(last: Sequence[str], sheet: Sequence[str], store: Sequence[str]) -> list[Any]:
    """A list with what both added and without what one took out; in whatever order."""
    both = merge_tags(frozenset(last), frozenset(sheet), frozenset(store))
    return [(sheet, store), (_Any(both), _Any(both))]


class _Any:
    """Equal to each list of just these addresses."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: Iterable[str]) -> None:
        self._items = Counter(items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and Counter(other) == self._items

    def __repr__(self) -> str:
        return f"any order of {sorted(self._items)}"
