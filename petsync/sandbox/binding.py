"""How the original server turns a body into a pet: known fields only, and hardly a refusal.

The `live` profile reads bodies as Jackson and JAXB bind them to the server's classes. A property
that the class does not have is dropped. A label (a category or a tag) without an id gets 0. In
JSON a number or a truth value in a text field becomes text; in XML an id that is no number counts
as absent.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree import ElementTree as ET

import msgspec
from msgspec import UNSET, UnsetType

from petsync.errors import ResponseError
from petsync.model import MAX_ID, MIN_ID, Category, Pet, Tag
from petsync.wire import xml

__all__ = ["LISTS", "Bound", "bind_json", "bind_xml"]

LISTS = frozenset({"photoUrls", "tags"})

_NULL = msgspec.Raw(b"null")
_INTEGER = re.compile(r"\s*[+-]?\d{1,19}\s*", re.ASCII)


class Bound(NamedTuple):
    """A pet, and those of its lists that were null: they are stored and answered as absent."""

    pet: Pet
    nulls: frozenset[str] = frozenset()


class _Label(msgspec.Struct):
    id: msgspec.Raw = _NULL
    name: msgspec.Raw = _NULL


class _Pet(msgspec.Struct, rename="camel"):
    id: msgspec.Raw = _NULL
    category: _Label | None = None
    name: msgspec.Raw = _NULL
    photo_urls: list[msgspec.Raw] | UnsetType | None = UNSET
    tags: list[_Label | None] | UnsetType | None = UNSET
    status: msgspec.Raw = _NULL


_pet = msgspec.json.Decoder(_Pet)
_text = msgspec.json.Decoder(str)


def bind_json(content: bytes) -> Bound:
    """The pet in a JSON body; its id is None where the server assigns one.

    Raises msgspec.ValidationError for a value of the wrong type, and msgspec.DecodeError for
    text that is not JSON.
    """
    found = _pet.decode(content)
    tags = found.tags or []
    pet = Pet(
        id=_assignable(_number(found.id)),
        name=_text_of(found.name),
        photo_urls=tuple(t for raw in found.photo_urls or [] if (t := _text_of(raw)) is not None),
        category=None if found.category is None else Category(*_label(found.category)),
        tags=tuple(Tag(*_label(tag)) for tag in tags if tag is not None),
        status=_text_of(found.status),
    )
    lists = {"photoUrls": found.photo_urls, "tags": found.tags}
    return Bound(pet, frozenset(name for name, value in lists.items() if value is None))


def bind_xml(content: bytes) -> Bound:
    """The pet in an XML body. Raises ResponseError for text that is not XML, or another root."""
    root = xml.parse(content)
    if root.tag != "Pet":
        raise ResponseError("the answer is not whole XML: the root element is not Pet")
    category = root.find("category")
    pet = Pet(
        id=_assignable(_integer(root.findtext("id"))),
        name=root.findtext("name"),
        photo_urls=tuple(item.text or "" for item in root.iterfind("photoUrls/photoUrl")),
        category=None if category is None else Category(*_label_in(category)),
        tags=tuple(Tag(*_label_in(tag)) for tag in root.iterfind("tags/tag")),
        status=root.findtext("status"),
    )
    return Bound(pet)


def _label(found: _Label) -> tuple[int, str | None]:
    return _number(found.id), _text_of(found.name)


def _label_in(element: ET.Element) -> tuple[int, str | None]:
    return _integer(element.findtext("id")), element.findtext("name")


def _assignable(number: int) -> int | None:
    """An id below 1 counts as none."""
    return number if number > 0 else None


def _number(raw: msgspec.Raw) -> int:
    """The int64 that a JSON value stands for: absent and null are 0, text may be a number."""
    value = msgspec.json.decode(raw)
    if value is None or value == "":
        return 0
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise msgspec.ValidationError("an id is not a number")
    number = int(value)
    if not MIN_ID <= number <= MAX_ID:
        raise msgspec.ValidationError("an id is outside int64")
    return number


def _text_of(raw: msgspec.Raw) -> str | None:
    """The text that a JSON value stands for: numbers and truth values as they are written."""
    content = bytes(raw)
    if content[:1] == b'"':
        return _text.decode(content)
    if content[:1] in b"{[":
        raise msgspec.ValidationError("an object or a list stands where text was expected")
    return None if content == b"null" else content.decode()


def _integer(text: str | None) -> int:
    """The int64 in an XML element; anything else is passed over, which leaves 0."""
    number = int(text) if text and _INTEGER.fullmatch(text) else 0
    return number if MIN_ID <= number <= MAX_ID else 0
