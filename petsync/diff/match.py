"""Rows without an id: which pet, if any, each of them means.

With `match_on` a row means the one pet that agrees with it in those columns. Without it, a row
means a pet only if that pet already is everything that the row says and no other row claims it:
so a sheet that was applied once does not add its pets a second time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from petsync.diff.fields import differing, key, normal
from petsync.diff.merge import merged
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Category, Pet
from petsync.table.columns import Column
from petsync.table.frame import pets_from_frame

__all__ = ["Candidates", "key_of"]

Said = Mapping[Column, Any]


class Candidates:
    """The pets that no row claims by id, found by their name (or by the columns of `match_on`)."""

    def __init__(
        self, pets: pd.DataFrame, free: Iterable[int], names: set[str], on: Sequence[Column]
    ) -> None:
        self._on = tuple(on) or ("name",)
        self._places: dict[tuple[object, ...], list[tuple[int, Pet]]] = defaultdict(list)
        places = list(free)
        unclaimed = pets.iloc[places]
        if "name" in self._on:
            wanted = unclaimed["name"].map(normal).isin(names).to_numpy(dtype=bool)
            unclaimed = unclaimed[wanted]
            places = [place for place, is_wanted in zip(places, wanted, strict=True) if is_wanted]
        for place, pet in zip(places, pets_from_frame(unclaimed), strict=True):
            self._places[_pet_key(pet, self._on)].append((place, pet))

    def agreeing(self, said: Said) -> list[tuple[int, Pet]]:
        """The pets that agree with the row in the columns to match on."""
        key = key_of(said, self._on)
        return [] if key is None else self._places.get(key, [])

    def take_identical(self, said: Said, vocabulary: Vocabulary) -> tuple[int, Pet] | None:
        """The first pet that is all that the row says; it is then no candidate any more."""
        places = self.agreeing(said)
        for n, (_, pet) in enumerate(places):
            if not differing(pet, merged(pet, said, vocabulary)):
                return places.pop(n)
        return None


def key_of(said: Said, on: Sequence[Column]) -> tuple[object, ...] | None:
    """What a row says in the columns to match on; None where it leaves one out."""
    if any(said.get(column) in (None, "") for column in on):
        return None
    return _pet_key(_as_pet(said), on)


def _as_pet(said: Said) -> Pet:
    return Pet(
        name=said.get("name"),
        status=said.get("status"),
        category=Category(said.get("category_id"), said.get("category")),
        tags=tuple(said.get("tags") or ()),
        photo_urls=tuple(said.get("photo_urls") or ()),
    )


def _pet_key(pet: Pet, on: Sequence[Column]) -> tuple[object, ...]:
    return tuple(key(pet, column) for column in on)
