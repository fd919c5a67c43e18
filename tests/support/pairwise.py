"""Few cases in place of a full product: each pair of choices, or each choice, is in at least one
case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, combinations, product
from typing import Any, TypeVar
from zlib import crc32

import pytest
from times import times

_Test = TypeVar("_Test", bound=Callable[..., None])


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


def each_choice(test: _Test) -> _Test:
    """Return the test with a case for each choice of its `parametrize` marks, not for each
    combination. If PETSYNC_TIMES is 2 or more, the test has all combinations.

    The n-th case has the n-th choice of each mark; a mark with fewer choices begins again.
    """
    if times(1) > 1:
        return test
    every = vars(test)["pytestmark"]
    marks = [mark for mark in every if mark.name == "parametrize"]
    vars(test)["pytestmark"] = [mark for mark in every if mark.name != "parametrize"]
    names = [name for mark in marks for name in _listed(mark.args[0])]
    cases = [
        [value for mark in marks for value in _values(mark.args, number)]
        for number in range(max(len(mark.args[1]) for mark in marks))
    ]
    return pytest.mark.parametrize(names, cases)(test)


def choose_for_test(choices: Sequence[Any], request: pytest.FixtureRequest) -> Any:
    """Return one of the choices. It depends only on the name of the test and its parameters."""
    return choices[crc32(request.node.nodeid.encode()) % len(choices)]


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def _values(args: tuple[Any, ...], number: int) -> Sequence[Any]:
    names, choices = args
    value = [*choices][number % len(choices)]
    return [value] if isinstance(names, str) else value
