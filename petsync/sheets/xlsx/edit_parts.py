"""The parts of a workbook's copy, the positions of their XML elements, and the cell styles."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol
from xml.parsers import expat

from petsync.errors import SheetError
from petsync.sheets.files import Source
from petsync.sheets.xlsx.package import Package, part_key, resolve_target
from petsync.sheets.xlsx.xml import MAX_DEPTH, MAX_ELEMENTS, MarkupError

__all__ = [
    "Element",
    "Relation",
    "RowHandler",
    "Splices",
    "Styles",
    "WorkbookParts",
    "ascii_bytes",
    "outline",
    "parse_whole",
    "start_tag",
    "xml_text",
]


# A part's XML as elements with their byte positions, so that single elements can be changed.
#
# Inserted text is ASCII, with other characters as references, which is valid in any encoding.


_TAG = re.compile(rb"<[^\"'>]*(?:\"[^\"]*\"[^\"'>]*|'[^']*'[^\"'>]*)*>")
_WHOLE = re.compile(r"\s*([0-9]{1,10})\s*", re.ASCII)
_SLASH = ord("/")
_ROW_DEPTH = 4
_SPECIAL = re.compile('[&<>"\x00-\x1f\x7f-\U0010ffff]')


@dataclass(slots=True, eq=False)
class Element:
    """One element: the bytes from `start` to `end`, its content from `inside` to `close`.

    An `empty` element (`<a/>`) has no end tag: `inside`, `close` and `end` are all after it.
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
        """The character data directly in the element, joined."""
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
        """Return an attribute by its local name, "" if it is missing."""
        if name in self.attributes:
            return self.attributes[name]
        ends = (value for key, value in self.attributes.items() if key.endswith(f":{name}"))
        return next(ends, "")

    def all(self, *path: str) -> Iterator[Element]:
        """Yield the elements at a path of local names."""
        for child in self.children:
            if child.local == path[0]:
                if len(path) == 1:
                    yield child
                else:
                    yield from child.all(*path[1:])

    def one(self, *path: str) -> Element | None:
        """Return the first element at a path of local names, None if there is none."""
        return next(self.all(*path), None)

    def walk(self) -> Iterator[Element]:
        """Yield the element and all its descendants, in order."""
        ahead = [self]
        while ahead:
            element = ahead.pop()
            yield element
            ahead.extend(reversed(element.children))


class Splices:
    """Replacements of bytes in a part; all other bytes stay."""

    def __init__(self) -> None:
        self._splices: list[tuple[int, int, int, str | bytes]] = []

    def __len__(self) -> int:
        return len(self._splices)

    def replace(self, start: int, end: int, text: str | bytes) -> None:
        """Replace the bytes from `start` to `end` by `text`."""
        self._splices.append((start, end, len(self._splices), text))

    def insert(self, at: int, text: str | bytes) -> None:
        """Insert `text`; several texts at one position keep their order."""
        self.replace(at, at, text)

    def append(self, element: Element, text: str, **attributes: str) -> None:
        """Append `text` to the element's content, even if it has no end tag, and set attributes."""
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

    def apply(self, data: bytes) -> bytes:
        """Return the part with all replacements."""
        return b"".join(self._pieces(data))

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        done = 0
        for start, end, _, text in sorted(self._splices):
            yield data[done:start]
            yield ascii_bytes(text) if isinstance(text, str) else text
            done = end
        yield data[done:]


class RowHandler(Protocol):
    """Receives the rows of a worksheet one by one, so that not all are kept in memory."""

    def needs_cells(self, row: Element) -> bool:
        """Return true if the cells of a row are needed; called when the row starts."""

    def handle_row(self, root: Element, row: Element) -> None:
        """Receive a row that has ended; `root` has the elements before the rows."""


def outline(data: bytes, rows: RowHandler | None = None) -> Element:
    """Return the part's root element with all its descendants. With `rows`, rows are passed to it
    instead; the only elements in their cells are formulas.

    Raises MarkupError if the part is not well-formed, too large or has a DTD.
    """
    builder = _Builder(data, rows)
    builder.run()
    return builder.root


def start_tag(name: str, attributes: Mapping[str, str], *, empty: bool = False) -> str:
    """Return a start tag; with `empty`, an empty-element tag (`<a/>`)."""
    pairs = "".join(f' {key}="{xml_text(value)}"' for key, value in attributes.items())
    return f"<{name}{pairs}{'/' * empty}>"


def parse_whole(text: str) -> int | None:
    """Return the whole number in an attribute; None if the text is not one."""
    match = _WHOLE.fullmatch(text)
    return int(match[1]) if match else None


def ascii_bytes(text: str) -> bytes:
    """Return the markup with references for the other characters."""
    return text.encode("ascii", "xmlcharrefreplace")


def xml_text(text: str) -> str:
    """Return the text as escaped ASCII for attributes and content."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


class _Builder:
    def __init__(self, data: bytes, rows: RowHandler | None) -> None:
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
            raise MarkupError(f"its elements are nested more than {MAX_DEPTH} levels deep")
        if self._unwanted:
            self._unwanted += 1
            return
        if self._within or (self._rows is not None and self._is_in_cell()):
            self._within += 1
            if self._within == 1 and name.rpartition(":")[2] == "f":
                self._open[-1].children.append(Element(name, attributes, 0))
            return
        # Rows are passed on one by one; everything else is kept.
        self._count += self._rows is None or len(self._open) < _ROW_DEPTH - 1
        if self._count > MAX_ELEMENTS:
            raise MarkupError(f"it has more than {MAX_ELEMENTS:,} elements")
        element = Element(name, attributes, self._parser.CurrentByteIndex)
        tag = _TAG.match(self._data, element.start)
        if tag is None:
            raise MarkupError("its encoding is not supported")
        element.inside = tag.end()
        element.empty = self._data[element.inside - 2] == _SLASH
        self._open[-1].children.append(element)
        self._open.append(element)
        if self._rows is not None and self._is_row(element) and not self._rows.needs_cells(element):
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
            self._rows.handle_row(self.root, element)
            self._open[-2].children.clear()
        self._open.pop()

    def _is_in_cell(self) -> bool:
        return len(self._open) > _ROW_DEPTH and self._open[_ROW_DEPTH - 1].local == "row"

    def _is_row(self, element: Element) -> bool:
        return len(self._open) == _ROW_DEPTH and element.local == "row"


def _refuse(*_: object) -> None:
    raise MarkupError("it has a document type declaration")


# WorkbookParts: a copy of a workbook with changed, added and dropped parts; the others stay.


_CONTENT_TYPES = "[Content_Types].xml"
_ROOT = "_rels/.rels"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_STRICT = "http://purl.oclc.org/ooxml/officeDocument/relationships"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_STRICT_MAIN = "http://purl.oclc.org/ooxml/spreadsheetml/main"
_NORMAL = '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>'
_STYLES = "application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"
_MACROS = "application/vnd.ms-excel.sheet.macroEnabled.main+xml"
_PLAIN = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
_KEPT = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Relation(NamedTuple):
    """One relation of a part: its id, the last segment of its type, and the related part."""

    id: str
    kind: str
    target: str


class WorkbookParts:
    """The parts of the workbook's copy. Raises SheetError if a requested part is damaged."""

    def __init__(self, source: Source) -> None:
        self.package = Package(source)
        self._source = source
        self._new: dict[str, bytes] = {}
        self._names: dict[str, str] = {}
        self._dropped: set[str] = set()
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            self._there = {part_key(info.filename): info for info in archive.infolist()}

    @property
    def namespace(self) -> str:
        """The namespace of relations, which differs in a strict workbook."""
        return _STRICT if _STRICT.encode() in self.read(_ROOT) else _OFFICE

    def set_kind(self, suffix: str) -> bool:
        """Give the copy the content type of files with this suffix, because Excel does not open it
        otherwise. Return true if this removed macros.
        """
        before, after = (_MACROS, _PLAIN) if suffix.casefold() != ".xlsm" else (_PLAIN, _MACROS)
        types = self.read(_CONTENT_TYPES)
        if before.encode() not in types:
            return False
        self.put(_CONTENT_TYPES, types.replace(before.encode(), after.encode()))
        code = [
            each.target
            for each in self.relations(self.package.workbook)
            if each.kind == "vbaProject" and before == _MACROS
        ]
        for part in code:
            further = [each.target for each in self.relations(part)]
            self._drop([part, *further, _relations(part)], _relations(self.package.workbook))
        return bool(code)

    @property
    def main_namespace(self) -> str:
        """The namespace of worksheets and related parts."""
        return _STRICT_MAIN if self.namespace == _STRICT else _MAIN

    def names(self, ending: str) -> list[str]:
        """Return the names of the parts with this ending."""
        keys = [*self._there, *(self._new.keys() - self._there.keys())]
        return [key for key in keys if key.endswith(ending) and key not in self._dropped]

    def find_related(self, part: str, kind: str) -> str:
        """Return the related part of that kind; "" if there is none."""
        targets = (each.target for each in self.relations(part) if each.kind == kind)
        return next((target for target in targets if self._has(target)), "")

    def worksheet(self, tab: str) -> str:
        """Return the part of the worksheet with that name. Raises SheetError if two worksheets, or
        none, have that name.
        """
        if sum(each.name == tab for each in self.package.tabs) > 1:
            raise SheetError(
                f"{self._source.path}: two worksheets have the name {tab[:31]!r}",
                hint="Rename one of them.",
            )
        return self.package.tab(tab).part

    def styles(self) -> str:
        """Return the part with the styles, which is added if the workbook has none."""
        book = self.package.workbook
        name = self.find_related(book, "styles")
        if not name:
            data = f'<styleSheet xmlns="{self.main_namespace}">{_NORMAL}</styleSheet>'
            is_taken = self._has("xl/styles.xml")
            pattern = "xl/styles{}.xml" if is_taken else "xl/styles.xml"
            name = self.add(pattern, _STYLES, data.encode())
            self.relate(book, "styles", name)
        return name

    def read(self, name: str) -> bytes:
        """Return the bytes of the part in the copy."""
        return self._new[part_key(name)] if part_key(name) in self._new else self.package.part(name)

    def outline(self, name: str) -> Element:
        """Return the part's root element."""
        try:
            return outline(self.read(name))
        except MarkupError as error:
            raise SheetError(
                f"{self._source.path}: the workbook is damaged: {name}: {error}",
                hint="Save it again in Excel or LibreOffice, or restore it from a backup.",
            ) from None

    def put(self, name: str, data: bytes) -> None:
        """Replace the bytes of the part, or add the part."""
        self._new[part_key(name)] = data
        self._names[part_key(name)] = name
        self._dropped.discard(part_key(name))

    def relations(self, part: str) -> Iterator[Relation]:
        """Yield the relations of a part to other parts of the workbook."""
        name = _relations(part)
        for each in self.outline(name).all("Relationship") if self._has(name) else ():
            if each.get("TargetMode") != "External":
                target = resolve_target(posixpath.dirname(part), each.get("Target"))
                yield Relation(each.get("Id"), each.get("Type").rpartition("/")[2], target)

    def relate(self, part: str, kind: str, target: str) -> str:
        """Add a relation of a part to another one, and return the relation's id."""
        name = _relations(part)
        if not self._has(name):
            self.put(name, f'<Relationships xmlns="{_PACKAGE}/relationships"/>'.encode())
        root = self.outline(name)
        used_ids = {each.get("Id").casefold() for each in root.all("Relationship")}
        new_id = next(text for n in count(1) if (text := f"rId{n}").casefold() not in used_ids)
        attributes = {"Id": new_id, "Type": f"{self.namespace}/{kind}", "Target": f"/{target}"}
        self._append(name, root, "Relationship", attributes)
        return new_id

    def add(self, part: str, content_type: str, data: bytes) -> str:
        """Add a part, named like `part` with a free number for `{}`, and return its name."""
        name = next(each for n in count(1) if not self._has(each := part.format(n)))
        self.put(name, data)
        root = self.outline(_CONTENT_TYPES)
        suffix = name.rpartition(".")[2]
        if suffix == "xml":
            tag, attributes = "Override", {"PartName": f"/{name}"}
        else:
            tag, attributes = "Default", {"Extension": suffix}
        suffixes = {each.get("Extension").casefold() for each in root.all("Default")}
        if tag == "Override" or suffix not in suffixes:
            attributes["ContentType"] = content_type
            self._append(_CONTENT_TYPES, root, tag, attributes)
        return name

    def drop_signatures(self) -> bool:
        """Remove the digital signature and all references to it; return whether there was one."""
        signed = [
            info.filename for key, info in self._there.items() if key.startswith("_xmlsignatures/")
        ]
        if signed:
            self._drop(signed, _ROOT)
        return bool(signed)

    def drop_calculation_order(self) -> None:
        """Remove the calculation chain, which lists the cells with formulas."""
        part = self.find_related(self.package.workbook, "calcChain")
        if part:
            self._drop([part], _relations(self.package.workbook))

    def bytes(self) -> bytes:
        """Return the bytes of the copy."""
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as archive:
            for key, info in self._there.items():
                if key not in self._dropped:
                    archive.writestr(_copy_entry(info), self.read(info.filename.lstrip("/")))
            for key, name in self._names.items():
                if key not in self._there:
                    added = zipfile.ZipInfo(name)
                    archive.writestr(added, self._new[key], zipfile.ZIP_DEFLATED)
        return copy.getvalue()

    def _drop(self, names: Sequence[str], relations: str) -> None:
        dropped = {part_key(name) for name in names}
        self._dropped |= dropped
        folder = posixpath.dirname(posixpath.dirname(relations))
        for name, attribute in ((relations, "Target"), (_CONTENT_TYPES, "PartName")):
            root, splices = self.outline(name), Splices()
            for each in root.children:
                if part_key(resolve_target(folder, each.get(attribute))) in dropped:
                    splices.replace(each.start, each.end, "")
            self.put(name, splices.apply(self.read(name)))

    def _has(self, name: str) -> bool:
        key = part_key(name)
        return key not in self._dropped and (key in self._there or key in self._new)

    def _append(self, name: str, root: Element, local: str, attributes: dict[str, str]) -> None:
        splices = Splices()
        splices.append(root, start_tag(root.prefix + local, attributes, empty=True))
        self.put(name, splices.apply(self.read(name)))


def _relations(part: str) -> str:
    folder, name = posixpath.split(part)
    return posixpath.join(folder, "_rels", f"{name}.rels")


def _copy_entry(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return a copy of the entry without the extra fields of its archive."""
    fresh = zipfile.ZipInfo(info.filename, info.date_time)
    fresh.external_attr = info.external_attr
    fresh.compress_type = info.compress_type if info.compress_type in _KEPT else _KEPT[-1]
    return fresh


# A workbook's styles: a cell's style with another fill, otherwise unchanged.


# The sections that a style needs, in the order of the schema, with their minimum content.
_SECTIONS = {
    "numFmts": "",
    "fonts": '<{0}fonts count="1"><{0}font/></{0}fonts>',
    "fills": '<{0}fills count="2"><{0}fill><{0}patternFill patternType="none"/></{0}fill>'
    '<{0}fill><{0}patternFill patternType="gray125"/></{0}fill></{0}fills>',
    "borders": '<{0}borders count="1"><{0}border><{0}left/><{0}right/><{0}top/><{0}bottom/>'
    "<{0}diagonal/></{0}border></{0}borders>",
    "cellStyleXfs": '<{0}cellStyleXfs count="1"><{0}xf/></{0}cellStyleXfs>',
    "cellXfs": '<{0}cellXfs count="1"><{0}xf xfId="0"/></{0}cellXfs>',
}
_TEXT = "49"
_WRAP = re.compile(r"\swrapText\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_SHOWN, _BENEATH = "FF", "FE"


class _Fill(NamedTuple):
    """A fill by its pattern and the attributes of its two colours."""

    pattern: str
    front: Mapping[str, str]
    back: Mapping[str, str]


class _Format(NamedTuple):
    """One `xf`: its attributes, and the markup of its content."""

    attributes: Mapping[str, str]
    content: str

    @property
    def fill(self) -> int:
        return parse_whole(self.attributes.get("fillId", "")) or 0


class Styles:
    """The cell formats of one `styles.xml`, and the added ones.

    If a colour (RGB, six hexadecimal digits) replaces a plain fill, the old colour becomes the
    background colour of the new fill, which is not visible, so that it can be restored. Raises
    MarkupError if the part is not well-formed.
    """

    def __init__(self, data: bytes) -> None:
        self._data = _complete_sections(data)
        self._root = outline(self._data)
        self._formats = [self._format(each) for each in self._root.all("cellXfs", "xf")]
        self._fills = [_fill(each) for each in self._root.all("fills", "fill")]
        self._old = len(self._formats), len(self._fills)
        self._places: dict[object, int] = {}
        for at, each in enumerate(self._formats):
            self._note(each, at)
        self._fill_places: dict[object, int] = {}
        self._plain_places: dict[object, int] = {}
        for at, fill in enumerate(self._fills):
            self._note_fill(fill, at)
        self._paint: dict[tuple[int, str], int] = {}

    def paint(self, style: int, colour: str) -> int:
        """Return the style with a fill of that colour."""
        if (style, colour) not in self._paint:
            self._paint[style, colour] = self._make_painted(style, colour)
        return self._paint[style, colour]

    def strip_paint(self, style: int, *colours: str) -> int:
        """Return the style without its fill if this has one of these colours; the old fill is
        restored.
        """
        fill = self._fill_of(style)
        if not self.is_painted(style, *colours):
            return style
        text = fill.back.get("rgb", "")
        beneath = {**fill.back, "rgb": _SHOWN + text[2:]} if text else dict(fill.back)
        is_known = text.startswith(_BENEATH) if text else "theme" in fill.back
        return self._with_fill(style, self._plain_fill(beneath) if is_known else 0)

    def is_painted(self, style: int, *colours: str) -> bool:
        """Return true if the style has a fill of one of these colours."""
        fill = self._fill_of(style)
        return fill.pattern == "solid" and fill.front.get("rgb", "")[2:] in colours

    def has_pattern(self, style: int) -> bool:
        """Return true if the style has a fill that could not be restored after a colour replaced
        it.
        """
        return self._fill_of(style).pattern not in ("", "none", "solid")

    def text(self, style: int, colour: str = "", *, wrapped: bool = False) -> int:
        """Return the style for a text beside a cell of `style`: with a fill of the colour, or
        without a fill.
        """
        old = self._formats[self._known_style(style)]
        attributes = {**old.attributes, "numFmtId": _TEXT, "applyNumberFormat": "1"}
        content = old.content
        if wrapped:
            attributes["applyAlignment"] = "1"
            content = _wrap_text(old.content, f"<{self._root.prefix}alignment")
        plain = self._format_at(_Format({**attributes, "fillId": "0"}, content))
        return self.paint(plain, colour) if colour else plain

    def bytes(self) -> bytes:
        """Return the part with all added styles."""
        splices = Splices()
        formats, fills = self._formats[self._old[0] :], self._fills[self._old[1] :]
        if fills:
            texts = map(self._fill_text, fills)
            self._append(splices, "fills", "".join(texts), len(self._fills))
        if formats:
            texts = map(self._format_text, formats)
            self._append(splices, "cellXfs", "".join(texts), len(self._formats))
        return splices.apply(self._data)

    def _make_painted(self, style: int, colour: str) -> int:
        beneath = self._fill_of(style)
        back = {"indexed": "64"}
        if beneath.pattern == "solid" and beneath.front:
            text = beneath.front.get("rgb", "")
            back = {**beneath.front, "rgb": _BENEATH + text[2:]} if text else {**beneath.front}
        return self._with_fill(style, self._fill_at(_Fill("solid", {"rgb": _SHOWN + colour}, back)))

    def _with_fill(self, style: int, fill: int) -> int:
        old = self._formats[self._known_style(style)]
        attributes = {**old.attributes, "fillId": str(fill)}
        if fill:
            attributes["applyFill"] = "1"
        return self._format_at(_Format(attributes, old.content))

    def _plain_fill(self, colour: Mapping[str, str]) -> int:
        """Return the index of the solid fill with this colour; alpha is ignored, as in spreadsheet
        programs.
        """
        at = self._plain_places.get(_key(_without_alpha(colour)))
        return self._fill_at(_Fill("solid", colour, {"indexed": "64"})) if at is None else at

    def _known_style(self, style: int) -> int:
        return style if style < len(self._formats) else 0

    def _fill_of(self, style: int) -> _Fill:
        at = self._formats[self._known_style(style)].fill
        return self._fills[at] if at < len(self._fills) else _Fill("", {}, {})

    def _fill_at(self, fill: _Fill) -> int:
        at = self._fill_places.get(_fill_key(fill))
        if at is None:
            at = len(self._fills)
            self._fills.append(fill)
            self._note_fill(fill, at)
        return at

    def _note_fill(self, fill: _Fill, at: int) -> None:
        self._fill_places.setdefault(_fill_key(fill), at)
        if fill.pattern == "solid":
            self._plain_places.setdefault(_key(_without_alpha(fill.front)), at)

    def _format_at(self, wanted: _Format) -> int:
        """Return the index of the format, or of a format that differs only in whether a fill is
        applied.
        """
        for attributes in (dict(wanted.attributes), _comparable_attributes(wanted)):
            at = self._places.get((_key(attributes), wanted.content))
            if at is not None:
                return at
        self._formats.append(wanted)
        self._note(wanted, len(self._formats) - 1)
        return len(self._formats) - 1

    def _note(self, each: _Format, at: int) -> None:
        for attributes in (dict(each.attributes), _comparable_attributes(each)):
            self._places.setdefault((_key(attributes), each.content), at)

    def _format(self, element: Element) -> _Format:
        content = self._data[element.inside : element.close].decode("utf-8", "replace")
        return _Format(dict(element.attributes), content)

    def _append(self, splices: Splices, section: str, text: str, count: int) -> None:
        element = self._root.one(section)
        if element is not None:
            splices.append(element, text, count=str(count))

    def _format_text(self, each: _Format) -> str:
        name = f"{self._root.prefix}xf"
        return f"{start_tag(name, each.attributes)}{each.content}</{name}>"

    def _fill_text(self, fill: _Fill) -> str:
        prefix = self._root.prefix
        colours = (("fgColor", fill.front), ("bgColor", fill.back))
        inner = "".join(start_tag(prefix + name, pairs, empty=True) for name, pairs in colours)
        tag = start_tag(f"{prefix}patternFill", {"patternType": fill.pattern})
        return f"<{prefix}fill>{tag}{inner}</{prefix}patternFill></{prefix}fill>"


def _complete_sections(data: bytes) -> bytes:
    """Return the part, completed with the sections to which a style refers."""
    root, splices = outline(data), Splices()
    existing = {each.local: each for each in root.children}
    names, missing = list(_SECTIONS), ""
    for at, name in enumerate(names):
        section = existing.get(name)
        if name == "numFmts" or (section is not None and section.children):
            continue
        if section is not None:
            splices.replace(section.start, section.end, "")
        following = [each for each in root.children if each.local not in names[: at + 1]]
        text = _SECTIONS[name].format(root.prefix)
        if following and not root.empty:
            splices.insert(following[0].start, text)
        else:
            missing += text
    if missing:
        splices.append(root, missing)
    return splices.apply(data) if len(splices) else data


def _fill(element: Element) -> _Fill:
    pattern = element.one("patternFill")
    if pattern is None:
        return _Fill("gradient", {}, {})
    front, back = pattern.one("fgColor"), pattern.one("bgColor")
    return _Fill(
        pattern.get("patternType"),
        dict(front.attributes) if front else {},
        dict(back.attributes) if back else {},
    )


def _wrap_text(content: str, alignment: str) -> str:
    """Return the content of a format with wrapped text."""
    if alignment not in content:
        return f'{alignment} wrapText="1"/>{content}'
    return _WRAP.sub("", content).replace(alignment, f'{alignment} wrapText="1"', 1)


def _without_alpha(colour: Mapping[str, str]) -> dict[str, str]:
    return {key: value[-6:] if key == "rgb" else value for key, value in colour.items()}


def _key(values: Mapping[str, str]) -> object:
    return frozenset(values.items())


def _fill_key(fill: _Fill) -> object:
    return fill.pattern, _key(fill.front), _key(fill.back)


def _comparable_attributes(each: _Format) -> dict[str, str]:
    """Return the attributes without the flag for an applied fill, because a fill is always
    applied.
    """
    return {key: value for key, value in each.attributes.items() if key != "applyFill"}
