"""What is to change in a pet, field by field, in values that every format can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from petsync.diff.change import Change
from petsync.diff.fields import cell, normal
from petsync.model import Pet, Tag
from petsync.render.visible import quoted, shorten, visible
from petsync.render.words import count, number
from petsync.table.cells import format_tags
from petsync.table.columns import Column

__all__ = ["Detail", "details", "traits"]

_SHOWN_ITEMS = 12
_ITEM_WIDTH = 60
_APART = ",;"
"""What stands between a pet's traits, and between its tags."""


@dataclass(frozen=True, slots=True)
class Detail:
    """One field: from `before` to `after`, or, of a list, the items that are `gone` and `come`, or
    that it holds before and after in two `orders`, each with its number.

    All visible text, at its full length.
    """

    column: Column
    before: str = ""
    after: str = ""
    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()
    orders: tuple[tuple[str, ...], ...] = ()


def details(change: Change) -> Iterator[Detail]:
    """The fields of the change, one after the other; none for a delete."""
    if change.after is None:
        return
    for column in change.fields:
        yield _detail(change.before or Pet(), change.after, column)


def traits(pet: Pet) -> str:
    """What a pet is in a few words: `available; Dogs; tags: calm, shy; 2 photos`."""
    return "; ".join(_traits(pet))


def _traits(pet: Pet) -> Iterator[str]:
    if pet.status:
        yield shorten(_quoted(visible(pet.status), _APART), _ITEM_WIDTH)
    if pet.category:
        name = pet.category.name or f"category {pet.category.id}"
        yield shorten(_quoted(visible(name), _APART), _ITEM_WIDTH)
    if pet.tags:
        yield "tags: " + ", ".join(_some(_labels(pet.tags, apart=_APART)))
    if pet.photo_urls:
        yield count(len(pet.photo_urls), "photo")


def _detail(before: Pet, after: Pet, column: Column) -> Detail:
    if column == "tags":
        return _tags(before.tags, after.tags)
    if column == "photo_urls":
        return _photos(before.photo_urls, after.photo_urls)
    return Detail(column, quoted(cell(before, column)), quoted(cell(after, column)))


def _tags(before: Iterable[Tag], after: Iterable[Tag]) -> Detail:
    old, new = ({(tag.id, normal(tag.name)): tag for tag in tags} for tags in (before, after))
    gone = [tag for key, tag in old.items() if key not in new]
    come = [tag for key, tag in new.items() if key not in old]
    labels = _labels([*gone, *come], apart=" ")
    return Detail("tags", gone=labels[: len(gone)], come=labels[len(gone) :])


def _photos(before: tuple[str, ...], after: tuple[str, ...]) -> Detail:
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if not gone and not come:
        orders = (tuple(map(quoted, urls)) for urls in (before, after))
        return Detail("photo_urls", orders=tuple(_numbered(*orders)))
    return Detail("photo_urls", gone=tuple(map(quoted, gone)), come=tuple(map(quoted, come)))


def _numbered(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Both orders; of long lists from the first to the last item that stands elsewhere."""
    moved = [n for n, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    start, stop = 0, len(before)
    if moved and stop > _SHOWN_ITEMS:
        start, stop = moved[0], moved[-1] + 1
    for items in (before, after):
        shown = items[start : min(stop, start + _SHOWN_ITEMS)]
        more = stop - start - len(shown)
        yield (
            *(f"{n}. {item}" for n, item in enumerate(shown, start + 1)),
            *([f"and {number(more)} more"] if more else []),
        )


def _labels(tags: Iterable[Tag], *, apart: str) -> tuple[str, ...]:
    """The tags by name, quoted where that contains what sets them apart; with their id where the
    name alone would not tell two apart.
    """
    tags = list(tags)
    uses = Counter(normal(tag.name) for tag in tags)
    return tuple(
        _quoted(
            visible(tag.name if uses[normal(tag.name)] == 1 and tag.name else format_tags((tag,))),
            apart,
        )
        for tag in tags
    )


def _quoted(name: str, apart: str) -> str:
    is_clear = name[:1] == '"' or not any(sign in name for sign in apart)
    return name if is_clear else f'"{name}"'


def _some(items: tuple[str, ...]) -> list[str]:
    shown = [shorten(item, _ITEM_WIDTH) for item in items[:_SHOWN_ITEMS]]
    more = len(items) - len(shown)
    return [*shown, f"{number(more)} more"] if more else shown
