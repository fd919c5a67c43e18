"""Differences that a round left, those of which the same is said together."""

from __future__ import annotations

from collections.abc import Sequence

from petsync.diff.round import Open
from petsync.render.alike import alike
from petsync.render.markup import capital
from petsync.render.visible import shorten, visible
from petsync.render.words import number

__all__ = ["Gathered", "about", "gathered", "sentence"]

_NAMED = 3
_NAME = 30
Gathered = list[tuple[str, list[Open]]]
"""What is said, and of which differences."""


def gathered(found: Sequence[Open], most: int) -> tuple[Gathered, list[Open]]:
    """What is said of more than `most` of these differences, and those that stand by themselves.

    Only what the job's settings leave is gathered: of all else a person wants to see each.
    """
    groups = alike(found, lambda each: each.problem if each.kind == "note" else "")
    many = [(problem, group) for problem, group in groups if problem and len(group) > most]
    over = {problem for problem, _ in many}
    return many, [each for each in found if each.kind != "note" or each.problem not in over]


def sentence(problem: str, group: Sequence[Open]) -> str:
    """`Is in the store, and in no row: 1,241 of them, such as pet 7 (Rex), pet 8 (Tom)`."""
    such = ", ".join(about(each) for each in group[:_NAMED])
    said = capital(visible(problem)).rstrip(".")
    return f"{said}: {number(len(group))} of them, such as {such}"


def about(each: Open) -> str:
    """`pet 7 (Rex)`, or the name alone, or where it stands."""
    pet = "" if each.pet_id is None else f"pet {each.pet_id}"
    name = shorten(visible(each.name), _NAME)
    return f"{pet} ({name})" if pet and name else pet or name or visible(each.address)
