"""Files of which the same is said, together: what is said of all of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

__all__ = ["alike", "beyond"]

T = TypeVar("T")


def alike(things: Iterable[T], said: Callable[[T], str]) -> list[tuple[str, list[T]]]:
    """What is said, with the things of which it is: the most first, otherwise in their order."""
    groups: dict[str, list[T]] = {}
    for thing in things:
        groups.setdefault(said(thing), []).append(thing)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def beyond(groups: Sequence[tuple[str, list[T]]], limit: int | None) -> int:
    """How many things are in the groups behind the first `limit`."""
    return 0 if limit is None else sum(len(things) for _, things in groups[limit:])
