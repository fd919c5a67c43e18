"""What the standard profile asks of a pet, where the wire's reader is more tolerant.

The client's reader takes whatever any service may send. A server that did the same would let a
client's mistake pass without anybody noticing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Annotated
from xml.etree import ElementTree as ET

import msgspec

from petsync.errors import ResponseError
from petsync.model import MAX_ID, MIN_ID

__all__ = ["STATUSES", "check_json", "check_xml"]

STATUSES = frozenset({"available", "pending", "sold"})

Int64 = Annotated[int, msgspec.Meta(ge=MIN_ID, le=MAX_ID)]
_INTEGER = re.compile(r"\s*-?\d{1,19}\s*", re.ASCII)
_LEAVES = frozenset({"id", "name", "status"})
_KNOWN = _LEAVES | {"category", "photoUrls", "tags"}
_ITEMS = {
    "photoUrls": frozenset({"photoUrls", "photoUrl"}),
    "tags": frozenset({"tags", "tag"}),
}


class _Label(msgspec.Struct):
    id: Int64 | None = None
    name: str | None = None


class _Pet(msgspec.Struct, rename="camel"):
    """Fields that are not named here may be anything."""

    name: str
    photo_urls: list[str]
    id: Int64 | None = None
    category: _Label | None = None
    tags: list[_Label] | None = None
    status: str | None = None


_json = msgspec.json.Decoder(_Pet)


def check_json(content: bytes, statuses: Collection[str] | None = STATUSES) -> None:
    """Return if this is a pet with one of the statuses, or with any where they are None.

    Raises ResponseError or msgspec.DecodeError that names what is not as it should.
    """
    status = _json.decode(content).status
    if statuses is not None and status is not None and status not in statuses:
        raise ResponseError(f"{status!r} is no status")


def check_xml(content: bytes, statuses: Collection[str] | None = STATUSES) -> None:
    """The same for XML that the wire has read. Raises ResponseError."""
    root = ET.fromstring(content)  # noqa: S314  the wire has refused a DTD
    if _name(root) != "Pet":
        raise ResponseError(f"the root element is {_name(root)}, not Pet")
    children = _once(root, _KNOWN)
    for required in ("name", "photoUrls"):
        if required not in children:
            raise ResponseError(f"the element {required} is missing")
    _check_leaves(children)
    if statuses is not None and "status" in children and children["status"].text not in statuses:
        raise ResponseError(f"{children['status'].text!r} is no status")
    for label in _labels(children):
        _check_leaves(_once(label, _LEAVES - {"status"}))


def _labels(children: dict[str, ET.Element]) -> Iterator[ET.Element]:
    for url in _items(children, "photoUrls"):
        _check_leaf("photoUrls", url)
    labels = [*_items(children, "tags")]
    if "category" in children:
        labels.append(children["category"])
    for label in labels:
        if (label.text or "").strip():
            raise ResponseError(f"{_name(label)} is text, and should have an id and a name")
        yield label


def _items(children: dict[str, ET.Element], name: str) -> Iterable[ET.Element]:
    container = children.get(name, ())
    if not isinstance(container, tuple) and (container.text or "").strip():
        raise ResponseError(f"{name} is text, and should have elements")
    for item in container:
        if _name(item) not in _ITEMS[name]:
            raise ResponseError(f"{name} has the element {_name(item)}")
    return container


def _once(parent: ET.Element, names: frozenset[str]) -> dict[str, ET.Element]:
    found: dict[str, ET.Element] = {}
    for child in parent:
        if _name(child) in found and _name(child) in names:
            raise ResponseError(f"{_name(parent)} has the element {_name(child)} twice")
        found[_name(child)] = child
    return found


def _check_leaves(children: dict[str, ET.Element]) -> None:
    for name in _LEAVES & children.keys():
        _check_leaf(name, children[name])


def _check_leaf(name: str, element: ET.Element) -> None:
    if len(element):
        raise ResponseError(f"{name} has elements, and should be text")
    if name == "id" and not _INTEGER.fullmatch(element.text or ""):
        raise ResponseError(f"id is {(element.text or '')[:40]!r}, not an integer")


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]
