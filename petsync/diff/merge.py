"""What a row says, laid over a pet: fields that the row does not name stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from petsync.diff.fields import folded, known_id, normal
from petsync.diff.photos import meant_photos
from petsync.diff.tags import meant_tags
from petsync.diff.units import UNITS, Unit, says
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Category, Pet
from petsync.table.columns import CLEARED, Column

__all__ = ["Said", "clears", "contradiction", "laid_over", "merged", "nameless", "said_pet"]

Said = Mapping[Column, Any]


def merged(pet: Pet, said: Said, vocabulary: Vocabulary) -> Pet:
    """The pet with what the row says; a value that means the same as the pet's is kept as it is."""
    new = {
        unit: _MEANT[unit](getattr(pet, unit), said, vocabulary)
        for unit in UNITS
        if says(said, unit)
    }
    return msgspec.structs.replace(pet, **new) if new else pet


def said_pet(said: Said) -> Pet:
    """A pet that has just what a row says."""
    name = said.get("category")
    return Pet(
        name=said.get("name"),
        status=said.get("status"),
        category=Category(said.get("category_id"), "" if name == CLEARED else name),
        tags=tuple(said.get("tags") or ()),
        photo_urls=tuple(said.get("photo_urls") or ()),
    )


def laid_over(pet: Pet, unit: Unit, said: Said, vocabulary: Vocabulary) -> Pet:
    """The pet with what the row says of one unit."""
    old = getattr(pet, unit)
    new = _MEANT[unit](old, said, vocabulary)
    return pet if new is old else msgspec.structs.replace(pet, **{unit: new})


def clears(said: Said, old: Category | None) -> bool:
    """Whether a row takes the category away: CLEARED does, and so does an empty name, unless the
    category is called just that, and the row gives no other id.
    """
    name = said.get("category")
    if name is None or normal(name):
        return False
    if name == CLEARED or old is None or old.name != name:
        return True
    return known_id(said.get("category_id")) not in (None, known_id(old.id))


def contradiction(said: Said, vocabulary: Vocabulary) -> bool:
    """Whether a row gives a category's name with the id of another one.

    People change a category's name and leave the id beside it as it was; the name is meant.
    """
    name, number = said.get("category") or "", known_id(said.get("category_id"))
    if not normal(name) or number is None:
        return False
    named = vocabulary.category_named(name)
    if (named is not None and named.id == number) or vocabulary.knows(Category(number, name)):
        return False
    return bool(named or vocabulary.category_numbered(number))


def nameless(old: Category | None, said: Said, vocabulary: Vocabulary) -> bool:
    """Whether a row gives nothing but an id of a category that nobody has a name for."""
    number = known_id(said.get("category_id"))
    if number is None or "category" in said or (old is not None and old.id == number):
        return False
    return vocabulary.category_numbered(number) is None


def _name(old: str | None, said: Said, _: Vocabulary) -> Any:
    return old if normal(said["name"]) == normal(old) else said["name"]


def _status(old: str | None, said: Said, _: Vocabulary) -> Any:
    return old if folded(said["status"]) == folded(old) else said["status"] or None


def _tags(old: Any, said: Said, vocabulary: Vocabulary) -> Any:
    return meant_tags(old, said["tags"], vocabulary)


def _photos(old: Any, said: Said, _: Vocabulary) -> Any:
    return meant_photos(old, said["photo_urls"])


def _category(old: Category | None, said: Said, vocabulary: Vocabulary) -> Category | None:
    name, number = said.get("category"), known_id(said.get("category_id"))
    if clears(said, old):
        return None
    if name is None or not normal(name):
        return _numbered(old, number, vocabulary)
    if old is not None and (known_id(old.id), normal(old.name)) == (number, normal(name)):
        return old
    if number is None or contradiction(said, vocabulary):
        return _named(old, name, vocabulary)
    return Category(number, name)


def _numbered(old: Category | None, number: int | None, vocabulary: Vocabulary) -> Category | None:
    if number is None or (old is not None and old.id == number):
        return old
    return vocabulary.category_numbered(number) or Category(number)


def _named(old: Category | None, name: str, vocabulary: Vocabulary) -> Category:
    if old is not None and normal(old.name) == normal(name):
        return old
    return vocabulary.category_named(name) or Category(None, name)


_MEANT: Mapping[Unit, Callable[[Any, Said, Vocabulary], Any]] = {
    "name": _name,
    "status": _status,
    "category": _category,
    "tags": _tags,
    "photo_urls": _photos,
}
