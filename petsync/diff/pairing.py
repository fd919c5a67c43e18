"""Pairing: as many rows as possible with a pet of their own, whatever order they come in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

__all__ = ["paired"]


def paired(
    rows: Sequence[Hashable], pets: Sequence[Hashable], fits: Callable[[int, int], bool]
) -> list[int | None]:
    """For each row the place of its pet, None for none; no pet is given twice.

    Rows that are equal fit the same pets, and equal pets fit the same rows: `fits` is asked, by
    their places, for one of each kind. No other choice would leave fewer rows without a pet, and a
    row never loses its pet to a later one.
    """
    pairing = _Pairing(rows, pets, fits)
    for row in range(len(rows)):
        pairing.add(row)
    return pairing.result()


class _Pairing:
    def __init__(
        self,
        rows: Sequence[Hashable],
        pets: Sequence[Hashable],
        fits: Callable[[int, int], bool],
    ) -> None:
        self._rows, self._fits = rows, fits
        self._places: dict[Hashable, list[int]] = defaultdict(list)
        for place, pet in enumerate(pets):
            self._places[pet].append(place)
        self._held: dict[Hashable, dict[Hashable, list[int]]] = {
            kind: defaultdict(list) for kind in self._places
        }
        self._room = {kind: len(places) for kind, places in self._places.items()}
        self._choices: dict[Hashable, list[Hashable]] = {}
        self._lost: set[Hashable] = set()

    def add(self, row: int) -> None:
        """Give the row a pet, if need be by giving other rows others of theirs.

        Kinds of pets that a search in vain came by lead nowhere for good.
        """
        came: dict[Hashable, tuple[Hashable, Hashable | None]] = {}
        waiting: list[tuple[Hashable, Hashable | None]] = [(self._rows[row], None)]
        for said, through in waiting:
            for kind in self._choices_of(said, row):
                if kind in came or kind in self._lost:
                    continue
                came[kind] = (said, through)
                if self._room[kind]:
                    self._take(row, kind, came)
                    return
                waiting += [(holder, kind) for holder, held in self._held[kind].items() if held]
        self._lost.update(came)

    def result(self) -> list[int | None]:
        """The place of each row's pet; of equal ones the first to the first."""
        result: list[int | None] = [None] * len(self._rows)
        for kind, held in self._held.items():
            takers = sorted(row for rows in held.values() for row in rows)
            for row, place in zip(takers, self._places[kind], strict=False):
                result[row] = place
        return result

    def _choices_of(self, said: Hashable, row: int) -> list[Hashable]:
        if said not in self._choices:
            kinds = self._places.items()
            self._choices[said] = [kind for kind, (at, *_) in kinds if self._fits(row, at)]
        return self._choices[said]

    def _take(
        self, row: int, kind: Hashable, came: dict[Hashable, tuple[Hashable, Hashable | None]]
    ) -> None:
        """Let each row on the way move on by one kind, and the new one take what gets free."""
        self._room[kind] -= 1
        said, through = came[kind]
        while through is not None:
            self._held[kind][said].append(self._held[through][said].pop())
            kind = through
            said, through = came[kind]
        self._held[kind][said].append(row)
