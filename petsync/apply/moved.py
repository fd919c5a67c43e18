"""What became of a pet since a run left it: which fields moved, in data and in words."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from petsync.diff.fields import cell, differing, normal
from petsync.model import Category, Pet, Tag
from petsync.table.columns import Column

__all__ = ["contrast", "moved"]

_SHOWN = 40


def moved(now: Pet, left: Pet) -> tuple[Column, ...]:
    """The columns in which the pet is not as a run left it, in the table's order. Left is what was
    sent: that a service gave ids to tags or a category which came without one is no change.
    """
    return differing(now, _filled(left, now))


def _filled(pet: Pet, now: Pet) -> Pet:
    ids = {normal(tag.name): tag for tag in now.tags}
    tags = tuple(_tag(tag, ids.get(normal(tag.name))) for tag in pet.tags)
    return msgspec.structs.replace(pet, tags=tags, category=_category(pet.category, now.category))


def contrast(left: Pet, now: Pet, fields: Iterable[Column], *, whose: str) -> str:
    """`name is 'Maxi' (the run left 'Max')`; `whose` is `the run left` there."""
    said = (f"{field} is {_shown(now, field)} ({whose} {_shown(left, field)})" for field in fields)
    return ", ".join(said)


def _tag(tag: Tag, now: Tag | None) -> Tag:
    return tag if tag.id is not None or now is None else now


def _category(category: Category | None, now: Category | None) -> Category | None:
    if category is None or now is None or category.id is not None:
        return category
    return now if normal(category.name) == normal(now.name) else category


def _shown(pet: Pet, field: Column) -> str:
    text = " | ".join(cell(pet, field).splitlines())
    if not text:
        return "nothing"
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"
