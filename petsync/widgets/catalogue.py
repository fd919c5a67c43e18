"""Catalogue: a snapshot that a person looks through, by text, status and tags."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from petsync.diff.snapshot import Snapshot
from petsync.model import Pet, Tag
from petsync.table.cells import format_tags
from petsync.table.frame import pets_from_frame

__all__ = ["COLUMNS", "Catalogue", "Places", "row_of", "tags_text"]

Places = npt.NDArray[np.int64]
COLUMNS: list[dict[str, Any]] = [
    {"key": "name", "title": "Name"},
    {"key": "id", "title": "Id"},
    {"key": "status", "title": "Status"},
    {"key": "category", "title": "Category"},
    {"key": "tags", "title": "Tags"},
    {"key": "photos", "title": "Pictures", "kind": "number"},
]
"""A parts.table.Table's columns for pets."""


class Catalogue:
    """The pets of a snapshot, by their places in it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def __len__(self) -> int:
        return len(self.snapshot)

    def find(
        self,
        text: str = "",
        *,
        statuses: Collection[str] = (),
        tags: Collection[str] = (),
        names_only: bool = False,
    ) -> Places:
        """The places of the pets that have one of the statuses, one of the tags, and every word of
        the text: in the name (or, but for `names_only`, category, tags or status), or as the id. A
        pet whose id is the text comes first.
        """
        mask = np.ones(len(self), dtype=bool)
        if statuses:
            mask &= self.snapshot.frame["status"].isin(list(statuses)).to_numpy()
        if tags:
            wanted = frozenset(tags)
            mask &= np.array([not wanted.isdisjoint(names) for names in self._tags], dtype=bool)
        texts = self._names if names_only else self._texts
        for word in _folded(text).split():
            mask &= np.array([word in each for each in texts], dtype=bool) | self._has_id(word)
        found = np.flatnonzero(mask)
        first = self._has_id(text.strip())[found]
        return np.concatenate([found[first], found[~first]])

    def pets(self, places: Places) -> list[Pet]:
        """The pets at these places."""
        return pets_from_frame(self.snapshot.frame.iloc[places])

    def pet(self, pet_id: int) -> Pet | None:
        """The pet of this id, None where the snapshot has none."""
        found = self.pets(np.flatnonzero(self._has_id(str(pet_id))))
        return found[0] if found else None

    @cached_property
    def statuses(self) -> Sequence[str]:
        """The statuses that pets have, the most frequent first."""
        return [name for name, _ in Counter(self._column("status")).most_common() if name]

    @cached_property
    def tags(self) -> Sequence[str]:
        """The tags that pets carry, the most frequent first."""
        counts = Counter(name for names in self._tags for name in names)
        return [name for name, _ in counts.most_common() if name]

    @cached_property
    def categories(self) -> Sequence[str]:
        """The categories that pets are in, the most frequent first."""
        return [name for name, _ in Counter(self._column("category")).most_common() if name]

    @cached_property
    def _tags(self) -> list[frozenset[str]]:
        return [
            frozenset(tag.name for tag in tags if tag.name) for tags in self.snapshot.frame["tags"]
        ]

    @cached_property
    def _names(self) -> list[str]:
        return [_folded(name) for name in self._column("name")]

    @cached_property
    def _texts(self) -> list[str]:
        columns = zip(
            self._names,
            self._column("category"),
            self._column("status"),
            self._tags,
            strict=True,
        )
        return [
            _folded("\n".join((name, category, status, *sorted(tags))))
            for name, category, status, tags in columns
        ]

    def _has_id(self, word: str) -> npt.NDArray[np.bool_]:
        ids = self.snapshot.frame["id"]
        digits = word.removeprefix("-")
        # Longer ones are no ids, and more than the column can be compared with.
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            return np.zeros(len(self), dtype=bool)
        number = int(word)
        if not -(2**63) <= number < 2**63:
            return np.zeros(len(self), dtype=bool)
        return (ids == number).fillna(False).to_numpy(dtype=bool)

    def _column(self, name: str) -> list[str]:
        values: list[str] = self.snapshot.frame[name].fillna("").tolist()
        return values


def row_of(pet: Pet) -> dict[str, Any]:
    """The pet as a row of a parts.table.Table."""
    cells = {
        "name": pet.name or "",
        "id": str(pet.id),
        "status": pet.status or "",
        "category": (pet.category.name or "") if pet.category else "",
        "tags": tags_text(pet),
        "photos": len(pet.photo_urls),
    }
    return {"key": str(pet.id), "label": f"{pet.name or 'pet'} ({pet.id})", "cells": cells}


def tags_text(pet: Pet) -> str:
    """The pet's tags as a cell has them, without ids where the names alone mean the same: what is
    said of a tag by its name keeps the pet's own id.
    """
    names = [tag.name for tag in pet.tags]
    if all(names) and len(set(map(_folded, filter(None, names)))) == len(names):
        return format_tags(Tag(None, name) for name in names)
    return format_tags(pet.tags)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()
