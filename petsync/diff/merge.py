"""What a row says, laid over a pet: fields that the row does not name stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from petsync.diff.fields import normal
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Category, Pet, Tag
from petsync.table.columns import Column

__all__ = ["contradiction", "merged", "nameless"]


def merged(pet: Pet, said: Mapping[Column, Any], vocabulary: Vocabulary) -> Pet:
    """The pet with what the row says; a value that means the same as the pet's is kept as it is."""
    new: dict[str, Any] = {}
    if "name" in said and normal(said["name"]) != normal(pet.name):
        new["name"] = said["name"]
    if "status" in said and _folded(said["status"]) != _folded(pet.status):
        new["status"] = said["status"] or None
    if "category" in said or "category_id" in said:
        new["category"] = _category(pet.category, said, vocabulary)
    if "tags" in said:
        new["tags"] = _tags(pet.tags, said["tags"], vocabulary)
    if "photo_urls" in said:
        new["photo_urls"] = tuple(said["photo_urls"])
    return msgspec.structs.replace(pet, **new) if new else pet


def contradiction(said: Mapping[Column, Any], vocabulary: Vocabulary) -> bool:
    """Whether a row gives a category's name with the id of another one.

    People change a category's name and leave the id beside it as it was; the name is meant.
    """
    name, number = said.get("category") or "", said.get("category_id")
    if not normal(name) or number is None or vocabulary.knows(Category(number, name)):
        return False
    return bool(vocabulary.category_named(name) or vocabulary.category_numbered(number))


def nameless(old: Category | None, said: Mapping[Column, Any], vocabulary: Vocabulary) -> bool:
    """Whether a row gives nothing but an id of a category that nobody has a name for."""
    number = said.get("category_id")
    if number is None or "category" in said or (old is not None and old.id == number):
        return False
    return vocabulary.category_numbered(number) is None


def _folded(text: str | None) -> str:
    return normal(text).casefold()


def _category(
    old: Category | None, said: Mapping[Column, Any], vocabulary: Vocabulary
) -> Category | None:
    name, number = said.get("category"), said.get("category_id")
    if name is None:
        return _numbered(old, number, vocabulary)
    if old is not None and (old.id, normal(old.name)) == (number, normal(name)):
        return old
    if not normal(name):
        return None
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


def _tags(old: tuple[Tag, ...], said: Iterable[Tag], vocabulary: Vocabulary) -> tuple[Tag, ...]:
    """The tags that are meant, those of the pet first and in its order, so that a tag that stays
    keeps its id and its unknown fields.
    """
    meant = [_tag(tag, old, vocabulary) for tag in said]
    kept = [tag for tag in old if tag in meant]
    fresh = dict.fromkeys(tag for tag in meant if tag not in kept)
    return (*kept, *fresh)


def _tag(said: Tag, old: tuple[Tag, ...], vocabulary: Vocabulary) -> Tag:
    meant = [tag for tag in old if _means(said, tag)]
    if meant:
        return next((tag for tag in meant if (tag.id, tag.name) == (said.id, said.name)), meant[0])
    if said.id is None and said.name:
        return vocabulary.tag_named(said.name) or said
    if said.id is not None and said.name is None:
        return vocabulary.tag_numbered(said.id) or said
    return said


def _means(said: Tag, tag: Tag) -> bool:
    """Whether the sheet's tag is this one: a part that the sheet leaves out is no difference."""
    by_id = said.id is None or said.id == tag.id
    by_name = said.name is None or normal(said.name) == normal(tag.name)
    return by_id and by_name and (said.id is not None or said.name is not None)
