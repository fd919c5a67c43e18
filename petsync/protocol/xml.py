"""Pets as XML, read in all known shapes and written in a given shape.

The default shape is that of sandbox/openapi.json: a root element `Pet`, in which `photoUrls`
contains `photoUrls` elements and `tags` contains `tags` elements. A document type declaration is
refused before it is read, so no entity is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree as ET

from petsync.errors import InvalidInputError, ResponseError
from petsync.models import MAX_ID, MIN_ID, ApiResponse, Category, Pet, Tag

__all__ = [
    "Shape",
    "decode_api_response",
    "decode_pet",
    "decode_pets",
    "detect_shape",
    "encode_api_response",
    "encode_pet",
    "encode_pets",
    "parse",
]


# Compiled when it is first used: that takes milliseconds.
_ILLEGAL = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_PHOTO_ITEMS = frozenset({"photoUrls", "photoUrl", "item"})
_TAG_ITEMS = frozenset({"tags", "tag", "Tag", "item"})
_PET_ITEMS = frozenset({"pet", "item"})
_LIST_ROOT = re.compile("pet|list|array|items|collection|set")
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Shape:
    """The element names that differ between services: of each array and its items, the category,
    and the root of a list. If an array's name is empty, no element encloses its items.
    """

    photo_item: str = "photoUrls"
    tag_item: str = "tags"
    list_root: str = "Pets"
    photo_array: str = "photoUrls"
    tag_array: str = "tags"
    category: str = "category"


STANDARD_SHAPE = Shape()


_OPEN = rb"<(?:\w+:)?(%b)(?:\s[^<>/]*)?>\s*"
_ITEM = rb"<(?:\w+:)?(%b)[\s/>]"
_PHOTOS = re.compile(_OPEN % b"photoUrls?" + _ITEM % b"photoUrls?|item")
_PHOTO = re.compile(_OPEN % b"photoUrls?" + rb"[^<\s]")
_TAGS = re.compile(_OPEN % b"[Tt]ags?" + _ITEM % b"tags?|Tag|item")
_TAG = re.compile(_OPEN % b"[Tt]ags?" + _ITEM % b"id|name")
_CATEGORY = re.compile(_OPEN % b"[Cc]ategory")


def detect_shape(body: bytes, known: Shape = STANDARD_SHAPE) -> Shape:
    """Return `known` with the element names that occur in the document. The names of an array are
    recognised only if it has an item.
    """
    shape = known
    if photos := _PHOTOS.search(body):
        array, item = photos[1].decode(), photos[2].decode()
        shape = replace(shape, photo_array=array, photo_item=item)
    elif photo := _PHOTO.search(body):
        shape = replace(shape, photo_array="", photo_item=photo[1].decode())
    if tags := _TAGS.search(body):
        array, item = tags[1].decode(), tags[2].decode()
        shape = replace(shape, tag_array=array, tag_item=item)
    elif tag := _TAG.search(body):
        shape = replace(shape, tag_array="", tag_item=tag[1].decode())
    if category := _CATEGORY.search(body):
        shape = replace(shape, category=category[1].decode())
    return shape


def encode_pet(pet: Pet, shape: Shape = STANDARD_SHAPE) -> bytes:
    """Encode one pet. Raises InvalidInputError for a character or a field name that XML cannot
    represent.
    """
    return _document(_pet_element(pet, shape))


def encode_pets(pets: Sequence[Pet], shape: Shape = STANDARD_SHAPE) -> bytes:
    """Encode a list of pets, in the root element `shape.list_root`. Raises InvalidInputError as
    `encode_pet` does.
    """
    root = ET.Element(shape.list_root)
    root.extend(_pet_element(pet, shape) for pet in pets)
    return _document(root)


def encode_api_response(answer: ApiResponse, root_name: str = "ApiResponse") -> bytes:
    root = ET.Element(root_name)
    _leaf(root, "code", answer.code)
    _leaf(root, "type", answer.type)
    _leaf(root, "message", answer.message)
    return _document(root)


def decode_pet(body: bytes) -> Pet:
    """Decode one pet, in any known shape. Raises ResponseError if the XML is not a pet."""
    root = parse(body)
    if _local_name(root).lower() != "pet":
        raise ResponseError(f"the XML is {_format_tag(root)}, not a Pet")
    return _read_pet(root, "the pet")


def decode_pets(body: bytes) -> list[Pet]:
    """Decode a list of pets. The root element may have any name, but that of an empty list must
    look like a list, such as `Pets`.

    Raises ResponseError if the XML is not a list of pets.
    """
    root = parse(body)
    items = list(root)
    if not items and not _LIST_ROOT.search(_local_name(root).lower()):
        raise ResponseError(f"a list of pets was expected, not {_format_tag(root)}")
    for item in items:
        if _local_name(item).lower() not in _PET_ITEMS:
            raise ResponseError(f"the list contains {_format_tag(item)}, where a Pet was expected")
    return [_read_pet(item, f"pet {n} of the list") for n, item in enumerate(items, 1)]


def decode_api_response(body: bytes) -> ApiResponse:
    """Decode an ApiResponse; the live service omits `code`. Raises ResponseError."""
    root = parse(body)
    code = root.findtext("code")
    return ApiResponse(
        code=None if code is None else _number(code, "code"),
        type=root.findtext("type"),
        message=root.findtext("message"),
    )


def _pet_element(pet: Pet, shape: Shape) -> ET.Element:
    root = ET.Element("Pet")
    _leaf(root, "id", pet.id)
    if pet.category is not None:
        _label(root, shape.category, pet.category)
    _leaf(root, "name", pet.name)
    photos = ET.SubElement(root, shape.photo_array) if shape.photo_array else root
    for url in pet.photo_urls:
        _leaf(photos, shape.photo_item, url)
    tags = ET.SubElement(root, shape.tag_array) if shape.tag_array else root
    for tag in pet.tags:
        _label(tags, shape.tag_item, tag)
    _leaf(root, "status", pet.status)
    _extra(root, pet.extra)
    return root


def _label(parent: ET.Element, name: str, thing: Category | Tag) -> None:
    element = ET.SubElement(parent, name)
    _leaf(element, "id", thing.id)
    _leaf(element, "name", thing.name)
    _extra(element, thing.extra)


def _extra(parent: ET.Element, fields: Mapping[str, Any] | None) -> None:
    for name, value in (fields or {}).items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                _extra(_child(parent, name), item)
            else:
                _leaf(parent, name, item)


def _leaf(parent: ET.Element, name: str, value: object) -> None:
    if value is None:
        return
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if illegal := re.search(_ILLEGAL, text):
        raise InvalidInputError(
            f"{name} has the character U+{ord(illegal.group()):04X}, which XML cannot represent",
            hint="Send it as JSON, or remove the character.",
        )
    _child(parent, name).text = text


def _child(parent: ET.Element, name: str) -> ET.Element:
    if not _NAME.match(name):
        raise InvalidInputError(
            f"the field {name!r} cannot be an XML element", hint="Send the pet as JSON."
        )
    return ET.SubElement(parent, name)


def _document(root: ET.Element) -> bytes:
    # XML parsers read a plain carriage return as a line feed. Here it occurs only in text.
    text = ET.tostring(root, encoding="unicode").replace("\r", "&#13;")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + text.encode()


class _NoDoctype(ET.TreeBuilder):
    def doctype(self, *_: str | None) -> None:
        raise ResponseError("the XML has a document type declaration, which is refused")


def parse(body: bytes) -> ET.Element:
    """Parse the document, and return its root. Raises ResponseError for invalid XML, a document
    type declaration and a web page.
    """
    parser = ET.XMLParser(target=_NoDoctype())
    try:
        parser.feed(body)
        root = parser.close()
    except (ET.ParseError, ValueError, LookupError) as error:
        if isinstance(error, ResponseError):
            raise
        raise ResponseError(f"the response is not valid XML: {error}") from None
    assert isinstance(root, ET.Element)
    if _local_name(root).lower() == "html":
        raise ResponseError("the XML is a web page, not pets")
    return root


def _read_pet(element: ET.Element, where: str) -> Pet:
    fields: dict[str, list[ET.Element]] = {}
    for child in element:
        fields.setdefault(_local_name(child), []).append(child)
    identity = _number(_text(fields.pop("id", [])), f"{where}: id")
    if identity is not None:
        where = f"{where} (id {identity})"
    categories = fields.pop("category", []) + fields.pop("Category", [])
    photos = fields.pop("photoUrls", []) + fields.pop("photoUrl", [])
    tags = fields.pop("tags", []) + fields.pop("tag", []) + fields.pop("Tag", [])
    return Pet(
        id=identity,
        name=_text(fields.pop("name", [])),
        photo_urls=tuple(item.text or "" for item in _unwrap(photos, _PHOTO_ITEMS)),
        category=Category(*_read_label(categories[0], where)) if categories else None,
        tags=tuple(Tag(*_read_label(item, where)) for item in _unwrap(tags, _TAG_ITEMS)),
        status=_text(fields.pop("status", [])),
        extra=_read_extra(fields),
    )


def _unwrap(elements: Iterable[ET.Element], names: frozenset[str]) -> Iterable[ET.Element]:
    """Yield the items of an array, whether or not an element encloses them."""
    for element in elements:
        children = list(element)
        if children and all(_local_name(child) in names for child in children):
            yield from children
        elif children or (element.text or "").strip():
            yield element


def _read_label(
    element: ET.Element, where: str
) -> tuple[int | None, str | None, dict[str, Any] | None]:
    fields: dict[str, list[ET.Element]] = {}
    for child in element:
        fields.setdefault(_local_name(child), []).append(child)
    number = _number(_text(fields.pop("id", [])), f"{where}: {_local_name(element)} id")
    return number, _text(fields.pop("name", [])), _read_extra(fields)


def _read_extra(fields: Mapping[str, list[ET.Element]], depth: int = 0) -> dict[str, Any] | None:
    if depth > _MAX_DEPTH:
        raise ResponseError(f"the XML has elements nested more than {_MAX_DEPTH} deep")
    values = {name: [_value(item, depth) for item in items] for name, items in fields.items()}
    return {name: items[0] if len(items) == 1 else items for name, items in values.items()} or None


def _value(element: ET.Element, depth: int) -> Any:
    if not len(element):
        return element.text or ""
    fields: dict[str, list[ET.Element]] = {}
    for child in element:
        fields.setdefault(_local_name(child), []).append(child)
    return _read_extra(fields, depth + 1)


def _format_tag(element: ET.Element) -> str:
    return f"<{_local_name(element)[:40]}>"


def _local_name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(elements: Sequence[ET.Element]) -> str | None:
    return (elements[0].text or "") if elements else None


def _number(text: str | None, where: str) -> int | None:
    digits = (text or "").strip()
    if not digits:
        return None
    plain = digits.removeprefix("-")
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 19):
        raise ResponseError(f"{where} is {digits[:40]!r}, not an integer")
    number = int(digits)
    if not MIN_ID <= number <= MAX_ID:
        raise ResponseError(f"{where} is {number}, outside int64")
    return number
