"""One field of a pet: its value, its text as a cell shows it, and what counts as the same.

This module has the only definition of "the same"; plan, precheck, verify, resume, undo and
reconcile use it. Text is compared trimmed and in NFC, a status without regard to case, tags as a
set, photo addresses as an ordered list in which each counts once. The id 0 of a tag or category is
no id: services return it where none was sent. Where the expected value leaves out an id, the
service may have assigned any: so `same` has a direction, from what is expected to what is found.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping

import msgspec

from petsync.diff.pairing import paired
from petsync.model import Category, Pet, Tag
from petsync.table.cells import format_photo_urls, format_tags
from petsync.table.columns import COLUMNS, Column

__all__ = [
    "cell",
    "content",
    "differing",
    "equal",
    "folded",
    "key",
    "known_id",
    "matches",
    "normal",
    "photo_keys",
    "same",
    "same_photos",
    "same_tags",
    "spelling",
    "stated",
    "tag_key",
    "with_fields",
]


def normal(text: str | None) -> str:
    """Text as it is compared: in NFC, without outer white space; missing text is empty."""
    if not text:
        return ""
    return (text if text.isascii() else unicodedata.normalize("NFC", text)).strip()


def folded(text: str | None) -> str:
    """A status as it is compared: normal, without regard to case."""
    return normal(text).casefold()


def spelling(text: str) -> str:
    """Text in a form that all its spellings have: NFKC, case-folded, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def known_id(number: int | None) -> int | None:
    """The id of a tag or category; None for 0, which services return where none was sent."""
    return number or None


def cell(pet: Pet | None, column: Column) -> str:
    """The field as a cell shows it; empty where there is no pet or no value."""
    return "" if pet is None else _CELLS[column](pet)


def differing(expected: Pet, found: Pet) -> tuple[Column, ...]:
    """The columns in which a pet is not the same as expected, in the table's order; `id` is no
    field.
    """
    return tuple(c for c in COLUMNS if c != "id" and not same(expected, found, c))


def stated(pet: Pet) -> tuple[Column, ...]:
    """The columns in which the pet has anything, in the table's order; `id` is no field."""
    return tuple(column for column, has in _HAS.items() if has(pet))


def with_fields(pet: Pet, other: Pet, fields: Iterable[Column]) -> Pet:
    """The pet with these fields of the other one; a category's name and id come together."""
    names = {"category" if field == "category_id" else field for field in fields}
    return msgspec.structs.replace(pet, **{name: getattr(other, name) for name in names})


def same(expected: Pet, found: Pet, column: Column) -> bool:
    """Whether a pet is as expected in a column. An id that the expected pet leaves out of a tag or
    a category with a name may be any: the service assigns it.
    """
    if equal(expected, found, column):
        return True
    if column == "tags":
        return same_tags(expected.tags, found.tags)
    return column == "category_id" and _is_assigned(expected.category, found.category)


def equal(one: Pet, other: Pet, column: Column) -> bool:
    """Whether two pets are the same in a column with all ids: for pets that a service returned,
    which leave nothing open. Equal pets are the same in both directions.
    """
    return key(one, column) == key(other, column)


def key(pet: Pet, column: Column) -> Hashable:
    """What two pets must share to be equal in a column."""
    return _KEYS[column](pet)


def content(pet: Pet) -> Hashable:
    """What two pets share wherever one is the same as the other: everything but the pet's id and
    the ids of tags and category, which a service may assign.
    """
    tags = frozenset(filter(None, (normal(tag.name) for tag in pet.tags)))
    texts = (key(pet, "name"), key(pet, "status"), key(pet, "category"))
    return *texts, tags, key(pet, "photo_urls")


def same_tags(expected: Iterable[Tag], found: Iterable[Tag]) -> bool:
    """Whether tags are as expected, as sets: each expected tag is found, and each tag that is
    found beyond the expected ones is one whose id or name the expectation left out.
    """
    wanted, there = _tag_keys(expected), _tag_keys(found)
    if wanted == there:
        return True
    loose, rest = [*(wanted - there)], [*(there - wanted)]
    if not all(any(_fits(one, other) for other in there) for one in loose):
        return False
    return None not in paired(rest, loose, lambda n, place: _fits(loose[place], rest[n]))


def same_photos(expected: Iterable[str], found: Iterable[str]) -> bool:
    """Whether photo addresses are as expected: the same ones in the same order, each once."""
    return photo_keys(expected) == photo_keys(found)


def tag_key(tag: Tag) -> tuple[int | None, str]:
    """What two tags must share to be equal."""
    return known_id(tag.id), normal(tag.name)


def matches(expected: Tag, found: Tag) -> bool:
    """Whether a tag is the expected one; a part that the expected tag leaves out may be any."""
    one = tag_key(expected)
    return one != _NO_TAG and _fits(one, tag_key(found))


_TagKey = tuple[int | None, str]
_NO_TAG: _TagKey = (None, "")
"""The key of a tag that says nothing."""


def _tag_keys(tags: Iterable[Tag]) -> frozenset[_TagKey]:
    return frozenset(map(tag_key, tags)) - {_NO_TAG}


def _fits(expected: _TagKey, found: _TagKey) -> bool:
    return expected[0] in (None, found[0]) and expected[1] in ("", found[1])


def photo_keys(urls: Iterable[str]) -> tuple[str, ...]:
    """Photo addresses as they are compared: normal, each once, in their order."""
    return tuple(dict.fromkeys(map(normal, urls)))


def _is_assigned(expected: Category | None, found: Category | None) -> bool:
    """Whether the expected category leaves out the id of the category that is found."""
    if expected is None or found is None or known_id(expected.id) is not None:
        return False
    return bool(normal(expected.name)) and normal(expected.name) == normal(found.name)


def _category_id(pet: Pet) -> int | None:
    return pet.category.id if pet.category else None


def _category(pet: Pet) -> str | None:
    return pet.category.name if pet.category else None


_KEYS: Mapping[Column, Callable[[Pet], Hashable]] = {
    "id": lambda pet: pet.id,
    "name": lambda pet: normal(pet.name),
    "status": lambda pet: folded(pet.status),
    "category": lambda pet: normal(_category(pet)),
    "category_id": lambda pet: known_id(_category_id(pet)),
    "tags": lambda pet: _tag_keys(pet.tags),
    "photo_urls": lambda pet: photo_keys(pet.photo_urls),
}

_CELLS: Mapping[Column, Callable[[Pet], str]] = {
    "id": lambda pet: "" if pet.id is None else str(pet.id),
    "name": lambda pet: pet.name or "",
    "status": lambda pet: pet.status or "",
    "category": lambda pet: _category(pet) or "",
    "category_id": lambda pet: "" if (number := _category_id(pet)) is None else str(number),
    "tags": lambda pet: format_tags(pet.tags),
    "photo_urls": lambda pet: format_photo_urls(pet.photo_urls),
}

_HAS: Mapping[Column, Callable[[Pet], object]] = {
    "name": lambda pet: normal(pet.name),
    "status": lambda pet: normal(pet.status),
    "category": lambda pet: normal(_category(pet)),
    "category_id": lambda pet: known_id(_category_id(pet)) is not None,
    "tags": lambda pet: _tag_keys(pet.tags),
    "photo_urls": lambda pet: pet.photo_urls,
}
