"""Few cases in place of a full product: each pair of choices is in at least one case."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, combinations, product
from typing import Any


def pairwise(
    *choices: Collection[Any], together: Sequence[tuple[int, ...]] = ()
) -> list[tuple[Any, ...]]:
    """Return cases of the product so that each pair of two choices is in one, and each combination
    of the choices at the places that are `together`.
    """
    places = [*combinations(range(len(choices)), 2), *together]
    ordered = [[*each] for each in choices]

    def met(case: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        return ((some, tuple(case[place] for place in some)) for some in places)

    every = {case: frozenset(met(case)) for case in product(*(range(len(c)) for c in ordered))}
    missing = {*chain.from_iterable(every.values())}
    found = []
    while missing:
        best = max(every, key=lambda case: len(missing & every[case]))
        missing -= every[best]
        found.append(tuple(each[n] for each, n in zip(ordered, best, strict=True)))
    return found
