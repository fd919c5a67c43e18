"""A part's XML as elements that know the bytes they stand in, so that these can be changed alone.

What is put in is ASCII, other characters as references: right in whatever encoding the part is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from xml.parsers import expat

from petsync.sheets.ooxml.markup import MAX_DEPTH, MAX_ELEMENTS, MarkupError

__all__ = ["Element", "Rows", "Splices", "outline", "start_tag", "whole", "xml_text"]

_TAG = re.compile(rb"<[^\"'>]*(?:\"[^\"]*\"[^\"'>]*|'[^']*'[^\"'>]*)*>")
_WHOLE = re.compile(r"\s*([0-9]{1,10})\s*", re.ASCII)
_SLASH = ord("/")
_ROW_DEPTH = 4
_SPECIAL = re.compile('[&<>"\x00-\x1f\x7f-\U0010ffff]')


@dataclass(slots=True, eq=False)
class Element:
    """One element: the bytes from `start` to `end`, its content from `inside` to `close`.

    An `empty` one (`<a/>`) has no end tag:
    `inside`, `close` and `end` are all behind it.
    """

    name: str
    attributes: Mapping[str, str]
    start: int
    inside: int = 0
    close: int = 0
    end: int = 0
    empty: bool = False
    pieces: list[str] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The character data directly in it, all pieces together."""
        return "".join(self.pieces)

    @property
    def local(self) -> str:
        """The name without its namespace's prefix."""
        return self.name.rpartition(":")[2]

    @property
    def prefix(self) -> str:
        """The namespace's prefix with its colon, "" without one."""
        return self.name[: -len(self.local)]

    def get(self, name: str) -> str:
        """An attribute by its local name, "" where it is not there."""
        if name in self.attributes:
            return self.attributes[name]
        ends = (value for key, value in self.attributes.items() if key.endswith(f":{name}"))
        return next(ends, "")

    def all(self, *path: str) -> Iterator[Element]:
        """The elements that a path of local names leads to."""
        for child in self.children:
            if child.local == path[0]:
                if len(path) == 1:
                    yield child
                else:
                    yield from child.all(*path[1:])

    def one(self, *path: str) -> Element | None:
        """The first of them."""
        return next(self.all(*path), None)

    def walk(self) -> Iterator[Element]:
        """The element and all below it, in order, however deep they are."""
        ahead = [self]
        while ahead:
            element = ahead.pop()
            yield element
            ahead.extend(reversed(element.children))


class Splices:
    """Bytes of a part that are replaced by other ones; all else stays."""

    def __init__(self) -> None:
        self._splices: list[tuple[int, int, int, str]] = []

    def __len__(self) -> int:
        return len(self._splices)

    def replace(self, start: int, end: int, text: str) -> None:
        """Put `text` for the bytes from `start` to `end`."""
        self._splices.append((start, end, len(self._splices), text))

    def insert(self, at: int, text: str) -> None:
        """Put `text` in; several at one place stand in the order in which they came."""
        self.replace(at, at, text)

    def append(self, element: Element, text: str, **attributes: str) -> None:
        """Put `text` behind the element's content, opening it where it is empty; set attributes."""
        if element.empty:
            opened = start_tag(element.name, {**element.attributes, **attributes})
            self.replace(element.start, element.end, f"{opened}{text}</{element.name}>")
            return
        self.insert(element.close, text)
        if attributes:
            self.retag(element, **attributes)

    def retag(self, element: Element, **attributes: str) -> None:
        """Set attributes of the element; its content stays."""
        merged = {**element.attributes, **attributes}
        self.replace(
            element.start, element.inside, start_tag(element.name, merged, empty=element.empty)
        )

    def applied(self, data: bytes) -> bytes:
        """The part with all of it."""
        return b"".join(self._pieces(data))

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        done = 0
        for start, end, _, text in sorted(self._splices):
            yield data[done:start]
            yield text.encode("ascii", "xmlcharrefreplace")
            done = end
        yield data[done:]


class Rows(Protocol):
    """Takes the rows of a worksheet one by one, so that they need not all be kept."""

    def wants(self, row: Element) -> bool:
        """Whether the cells of a row that begins are needed."""

    def take(self, root: Element, row: Element) -> None:
        """A row has ended; `root` has what stands before the rows."""


def outline(data: bytes, rows: Rows | None = None) -> Element:
    """The part's root element with all below it, but not the rows of a worksheet that are handed
    to `rows`; of the content of these rows' cells only formulas are told.

    Raises MarkupError where the part is not well-formed or has a DTD.
    """
    builder = _Builder(data, rows)
    builder.run()
    return builder.root


def start_tag(name: str, attributes: Mapping[str, str], *, empty: bool = False) -> str:
    """A start tag; `empty`: one that is its own end."""
    pairs = "".join(f' {key}="{xml_text(value)}"' for key, value in attributes.items())
    return f"<{name}{pairs}{'/' * empty}>"


def whole(text: str) -> int | None:
    """The whole number that an attribute holds, None where it holds something else."""
    match = _WHOLE.fullmatch(text)
    return int(match[1]) if match else None


def xml_text(text: str) -> str:
    """The text as ASCII that is the same in an attribute and in content."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


class _Builder:
    def __init__(self, data: bytes, rows: Rows | None) -> None:
        self._data = data
        self._rows = rows
        self._open = [Element("", {}, 0)]
        self._unwanted = self._within = self._count = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = _refuse
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    @property
    def root(self) -> Element:
        return self._open[0].children[0]

    def run(self) -> None:
        try:
            self._parser.Parse(self._data, True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise MarkupError(str(error)) from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._unwanted + self._within > MAX_DEPTH:
            raise MarkupError(f"it has elements {MAX_DEPTH} deep")
        if self._unwanted:
            self._unwanted += 1
            return
        if self._within or (self._rows is not None and self._is_in_cell()):
            self._within += 1
            if self._within == 1 and name.rpartition(":")[2] == "f":
                self._open[-1].children.append(Element(name, attributes, 0))
            return
        # Rows are handed on one by one; all else is kept.
        self._count += self._rows is None or len(self._open) < _ROW_DEPTH - 1
        if self._count > MAX_ELEMENTS:
            raise MarkupError(f"it has more than {MAX_ELEMENTS:,} elements")
        element = Element(name, attributes, self._parser.CurrentByteIndex)
        tag = _TAG.match(self._data, element.start)
        if tag is None:
            raise MarkupError("its encoding is not one in which tags can be found")
        element.inside = tag.end()
        element.empty = self._data[element.inside - 2] == _SLASH
        self._open[-1].children.append(element)
        self._open.append(element)
        if self._rows is not None and self._is_row(element) and not self._rows.wants(element):
            self._unwanted = 1

    def _characters(self, text: str) -> None:
        if not self._unwanted and not self._within:
            self._open[-1].pieces.append(text)

    def _end(self, _: str) -> None:
        if self._unwanted > 1:
            self._unwanted -= 1
            return
        if self._within:
            self._within -= 1
            return
        self._unwanted = 0
        element = self._open[-1]
        if element.empty:
            element.close = element.end = element.inside
        else:
            element.close = self._parser.CurrentByteIndex
            element.end = self._data.index(b">", element.close) + 1
        if self._rows is not None and self._is_row(element):
            self._rows.take(self.root, element)
            self._open[-2].children.clear()
        self._open.pop()

    def _is_in_cell(self) -> bool:
        return len(self._open) > _ROW_DEPTH and self._open[_ROW_DEPTH - 1].local == "row"

    def _is_row(self, element: Element) -> bool:
        return len(self._open) == _ROW_DEPTH and element.local == "row"


def _refuse(*_: object) -> None:
    raise MarkupError("it has a document type declaration")
