"""One field of a pet: its value, its text as a cell shows it, and what counts as the same."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping

import msgspec

from petsync.model import Pet, Tag
from petsync.table.cells import format_photo_urls, format_tags
from petsync.table.columns import COLUMNS, Column

__all__ = [
    "cell",
    "content",
    "differing",
    "folded",
    "key",
    "normal",
    "same",
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


def cell(pet: Pet | None, column: Column) -> str:
    """The field as a cell shows it; empty where there is no pet or no value."""
    return "" if pet is None else _CELLS[column](pet)


def differing(before: Pet, after: Pet) -> tuple[Column, ...]:
    """The columns in which two pets differ, in the table's order; `id` is no field."""
    return tuple(c for c in COLUMNS if c != "id" and not same(before, after, c))


def stated(pet: Pet) -> tuple[Column, ...]:
    """The columns in which the pet has anything, in the table's order; `id` is no field."""
    return tuple(column for column, has in _HAS.items() if has(pet))


def with_fields(pet: Pet, other: Pet, fields: Iterable[Column]) -> Pet:
    """The pet with these fields of the other one; a category's name and id come together."""
    names = {"category" if field == "category_id" else field for field in fields}
    return msgspec.structs.replace(pet, **{name: getattr(other, name) for name in names})


def same(one: Pet, other: Pet, column: Column) -> bool:
    """Whether two pets agree in a column: names trimmed and in NFC, status without regard to
    case, tags as a set, photo URLs as an ordered list in which each counts once (a sheet's are).
    """
    return key(one, column) == key(other, column)


def key(pet: Pet, column: Column) -> Hashable:
    """What two pets must share to agree in a column."""
    return _KEYS[column](pet)


def content(pet: Pet) -> Hashable:
    """What a service stores just as it was sent; it may fill in ids of tags and categories."""
    tags = frozenset(tag.name for tag in pet.tags)
    return key(pet, "name"), key(pet, "status"), key(pet, "category"), tags, pet.photo_urls


def tag_key(tag: Tag) -> tuple[int | None, str]:
    """What two tags must share to be the same."""
    return tag.id, normal(tag.name)


def _says(tag: Tag) -> bool:
    return tag.id is not None or bool(tag.name)


def _category_id(pet: Pet) -> int | None:
    return pet.category.id if pet.category else None


def _category(pet: Pet) -> str | None:
    return pet.category.name if pet.category else None


_KEYS: Mapping[Column, Callable[[Pet], Hashable]] = {
    "id": lambda pet: pet.id,
    "name": lambda pet: normal(pet.name),
    "status": lambda pet: folded(pet.status),
    "category": lambda pet: normal(_category(pet)),
    "category_id": _category_id,
    "tags": lambda pet: frozenset(map(tag_key, filter(_says, pet.tags))),
    "photo_urls": lambda pet: tuple(dict.fromkeys(pet.photo_urls)),
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
    "category_id": lambda pet: _category_id(pet) is not None,
    "tags": lambda pet: any(map(_says, pet.tags)),
    "photo_urls": lambda pet: pet.photo_urls,
}
