"""Few cases in place of a full product: they leave out no pair of choices, or no choice."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from pairwise import each_choice, pairwise
from times import times

CHOICES = ("abc", (True, False), (1, 2, 3, 4), (None, "x"))


def test_each_pair_of_choices_is_in_a_case() -> None:
    """Each pair of choices is in a case, each case is there once, and there are fewer cases than in
    the full product.
    """
    cases = pairwise(*CHOICES)
    for one, other in combinations(range(len(CHOICES)), 2):
        met = {(case[one], case[other]) for case in cases}
        assert met == {*product(CHOICES[one], CHOICES[other])}
    assert len({*cases}) == len(cases) < 3 * 4 * 2


def test_what_stands_together_is_met_as_a_whole() -> None:
    """Choices that are `together` occur in every combination, even where that is the whole
    product.
    """
    cases = pairwise(*CHOICES, together=[(1, 2, 3)])
    assert {case[1:] for case in cases} == {*product(*CHOICES[1:])}
    assert {*pairwise(*CHOICES, together=[(0, 1, 2, 3)])} == {*product(*CHOICES)}


@each_choice
@pytest.mark.parametrize("one", ["a", "b", "c"])
@pytest.mark.parametrize(("two", "three"), [(1, True), (2, False)])
def _both(one: str, two: int, three: bool) -> None:
    """A test of two choices."""


def test_each_choice_is_in_a_case() -> None:
    """Each choice of each mark is in a case, with the values of its own names; only if more random
    cases run, all combinations do.
    """
    marks = vars(_both)["pytestmark"]
    if times(1) > 1:
        assert len(marks) == 2
        return
    (mark,) = marks
    names, cases = mark.args
    rows = [dict(zip(names, case, strict=True)) for case in cases]
    assert [row["one"] for row in rows] == ["a", "b", "c"]
    assert [(row["two"], row["three"]) for row in rows] == [(1, True), (2, False), (1, True)]
