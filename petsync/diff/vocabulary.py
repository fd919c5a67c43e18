"""Vocabulary: the categories and tags that a store uses, to complete what a sheet only names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from petsync.diff.fields import known_id, normal, spelling
from petsync.model import Category, Tag

__all__ = ["Vocabulary"]

T = TypeVar("T", Category, Tag)


@dataclass(frozen=True)
class Vocabulary:
    """What the pets of `frame` use; counted when it is first asked for.

    Where a name stands with several ids (or an id with several names) the most frequent one is
    meant, and among equals the lowest.
    """

    frame: pd.DataFrame

    def tag_named(self, name: str) -> Tag | None:
        """The tag that the store knows by this name."""
        return self._tags[0].get(normal(name))

    def tag_numbered(self, identity: int) -> Tag | None:
        """The tag that the store knows by this id."""
        return self._tags[1].get(identity)

    def category_named(self, name: str) -> Category | None:
        """The category that the store knows by this name."""
        return self._categories[0].get(normal(name))

    def category_numbered(self, identity: int) -> Category | None:
        """The category that the store knows by this id."""
        return self._categories[1].get(identity)

    def category_spelled(self, name: str) -> Category | None:
        """The category that the store knows by this name in another spelling: capitals, the width
        of letters and spaces between words do not count.
        """
        return self._spellings.get(spelling(name))

    def tag_spelled(self, name: str) -> Tag | None:
        """The tag that the store knows by this name in another spelling, as of categories."""
        return self._tag_spellings.get(spelling(name))

    @property
    def categories(self) -> list[str]:
        """The names of the categories that the store uses."""
        return sorted({c.name for c in self._used_categories if c.name})

    def knows(self, category: Category) -> bool:
        """Whether the store uses this very pair of name and id."""
        return (normal(category.name), known_id(category.id)) in self._pairs

    @cached_property
    def _tags(self) -> tuple[Mapping[str, Tag], Mapping[int, Tag]]:
        return _by_use(Counter(tag for tags in self.frame["tags"] for tag in tags))

    @cached_property
    def _categories(self) -> tuple[Mapping[str, Category], Mapping[int, Category]]:
        return _by_use(self._used_categories)

    @cached_property
    def _spellings(self) -> Mapping[str, Category]:
        return _by_spelling(self._categories[0])

    @cached_property
    def _tag_spellings(self) -> Mapping[str, Tag]:
        return _by_spelling(self._tags[0])

    @cached_property
    def _pairs(self) -> frozenset[tuple[str, int | None]]:
        return frozenset((normal(c.name), known_id(c.id)) for c in self._used_categories)

    @cached_property
    def _used_categories(self) -> Counter[Category]:
        """The categories, each as often as a pet has it."""
        numbers = self.frame["category_id"]
        table = pa.table(
            {
                "number": pa.array(numbers.to_numpy(np.int64, na_value=0), mask=numbers.isna()),
                "name": pa.array(self.frame["category"], from_pandas=True),
            }
        )
        counts = table.group_by(["number", "name"]).aggregate([([], "count_all")])
        rows = zip(*(column.to_pylist() for column in counts.columns), strict=True)
        return Counter(
            {
                Category(number, name): count
                for number, name, count in rows
                if number is not None or name is not None
            }
        )


def _by_spelling(named: Mapping[str, T]) -> dict[str, T]:
    """The things by the form that the spellings of their names have in common, the most used one of
    each.
    """
    found: dict[str, T] = {}
    for name, thing in named.items():
        found.setdefault(spelling(name), thing)
    return found


def _by_use(counts: Counter[T]) -> tuple[dict[str, T], dict[int, T]]:
    """The things by name and by id, the most used one of each."""
    named: dict[str, T] = {}
    numbered: dict[int, T] = {}
    for thing in sorted(counts, key=lambda t: (-counts[t], not t.id, t.id or 0, t.name or "")):
        if thing.name:
            named.setdefault(normal(thing.name), thing)
        if known_id(thing.id) is not None and thing.id is not None:
            numbered.setdefault(thing.id, thing)
    return named, numbered
