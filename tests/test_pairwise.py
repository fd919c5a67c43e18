"""Pairwise cases: they leave out no pair of choices."""

from __future__ import annotations

from itertools import combinations, product

from pairwise import pairwise

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
