"""A copy of a workbook in the making: parts changed, added and dropped, all others as they are."""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from petsync.errors import SheetError
from petsync.sheets.ooxml.archive import Package, part_key, resolved
from petsync.sheets.ooxml.markup import MarkupError
from petsync.sheets.ooxml.outline import Element, Splices, outline, start_tag
from petsync.sheets.source import Source

__all__ = ["Parts", "Relation"]

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
    """One relation of a part: its id, the last word of its type, the part it leads to."""

    id: str
    kind: str
    target: str


class Parts:
    """The parts of the workbook as the copy will have them. Raises SheetError where a part that
    is asked for is damaged.
    """

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
        """The namespace of relations, which a strict workbook has another of."""
        return _STRICT if _STRICT.encode() in self.read(_ROOT) else _OFFICE

    def suit(self, suffix: str) -> bool:
        """Make the copy of the kind that the suffix of its name tells, or no Excel would open it;
        whether the macros had to go for that.
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
        """The namespace of worksheets and what belongs to them."""
        return _STRICT_MAIN if self.namespace == _STRICT else _MAIN

    def names(self, ending: str) -> list[str]:
        """The parts whose name ends so."""
        keys = [*self._there, *(self._new.keys() - self._there.keys())]
        return [key for key in keys if key.endswith(ending) and key not in self._dropped]

    def related(self, part: str, kind: str) -> str:
        """The part of that kind that a part is related to, "" where there is none."""
        targets = (each.target for each in self.relations(part) if each.kind == kind)
        return next((target for target in targets if self._has(target)), "")

    def worksheet(self, tab: str) -> str:
        """The part of the worksheet with that name. Raises SheetError where two have it."""
        if sum(each.name == tab for each in self.package.tabs) > 1:
            raise SheetError(
                f"{self._source.path}: two worksheets have the name {tab[:31]!r}",
                hint="Rename one of them.",
            )
        return self.package.tab(tab).part

    def styles(self) -> str:
        """The part with the styles; a new one where the workbook has none."""
        book = self.package.workbook
        name = self.related(book, "styles")
        if not name:
            data = f'<styleSheet xmlns="{self.main_namespace}">{_NORMAL}</styleSheet>'
            is_taken = self._has("xl/styles.xml")
            wanted = "xl/styles{}.xml" if is_taken else "xl/styles.xml"
            name = self.add(wanted, _STYLES, data.encode())
            self.relate(book, "styles", name)
        return name

    def read(self, name: str) -> bytes:
        """The part as the copy has it."""
        return self._new[part_key(name)] if part_key(name) in self._new else self.package.part(name)

    def outline(self, name: str) -> Element:
        """The part's elements."""
        try:
            return outline(self.read(name))
        except MarkupError as error:
            raise SheetError(
                f"{self._source.path}: the workbook is damaged: {name}: {error}",
                hint="Save the workbook again, or take it from a backup.",
            ) from None

    def put(self, name: str, data: bytes) -> None:
        """Have these bytes in the part."""
        self._new[part_key(name)] = data
        self._names[part_key(name)] = name
        self._dropped.discard(part_key(name))

    def relations(self, part: str) -> Iterator[Relation]:
        """The relations of a part to other parts of the workbook."""
        name = _relations(part)
        for each in self.outline(name).all("Relationship") if self._has(name) else ():
            if each.get("TargetMode") != "External":
                target = resolved(posixpath.dirname(part), each.get("Target"))
                yield Relation(each.get("Id"), each.get("Type").rpartition("/")[2], target)

    def relate(self, part: str, kind: str, target: str) -> str:
        """Relate a part to another one; the relation's id is returned."""
        name = _relations(part)
        if not self._has(name):
            self.put(name, f'<Relationships xmlns="{_PACKAGE}/relationships"/>'.encode())
        root = self.outline(name)
        taken = {each.get("Id").casefold() for each in root.all("Relationship")}
        free = next(text for n in count(1) if (text := f"rId{n}").casefold() not in taken)
        attributes = {"Id": free, "Type": f"{self.namespace}/{kind}", "Target": f"/{target}"}
        self._append(name, root, "Relationship", attributes)
        return free

    def add(self, part: str, content_type: str, data: bytes) -> str:
        """A new part, named like `part` with a free number in place of `{}`; its name."""
        name = next(each for n in count(1) if not self._has(each := part.format(n)))
        self.put(name, data)
        root = self.outline(_CONTENT_TYPES)
        suffix = name.rpartition(".")[2]
        if suffix == "xml":
            tag, attributes = "Override", {"PartName": f"/{name}"}
        else:
            tag, attributes = "Default", {"Extension": suffix}
        known = {each.get("Extension").casefold() for each in root.all("Default")}
        if tag == "Override" or suffix not in known:
            attributes["ContentType"] = content_type
            self._append(_CONTENT_TYPES, root, tag, attributes)
        return name

    def drop_signatures(self) -> bool:
        """Leave out the digital signature, with all that refers to it; whether there is one."""
        signed = [
            info.filename for key, info in self._there.items() if key.startswith("_xmlsignatures/")
        ]
        if signed:
            self._drop(signed, _ROOT)
        return bool(signed)

    def drop_calculation_order(self) -> None:
        """Leave out the list of the cells that have formulas."""
        listed = self.related(self.package.workbook, "calcChain")
        if listed:
            self._drop([listed], _relations(self.package.workbook))

    def bytes(self) -> bytes:
        """The copy."""
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as archive:
            for key, info in self._there.items():
                if key not in self._dropped:
                    archive.writestr(_fresh(info), self.read(info.filename.lstrip("/")))
            for key, name in self._names.items():
                if key not in self._there:
                    added = zipfile.ZipInfo(name)
                    archive.writestr(added, self._new[key], zipfile.ZIP_DEFLATED)
        return copy.getvalue()

    def _drop(self, names: Sequence[str], relations: str) -> None:
        gone = {part_key(name) for name in names}
        self._dropped |= gone
        folder = posixpath.dirname(posixpath.dirname(relations))
        for name, attribute in ((relations, "Target"), (_CONTENT_TYPES, "PartName")):
            root, splices = self.outline(name), Splices()
            for each in root.children:
                if part_key(resolved(folder, each.get(attribute))) in gone:
                    splices.replace(each.start, each.end, "")
            self.put(name, splices.applied(self.read(name)))

    def _has(self, name: str) -> bool:
        key = part_key(name)
        return key not in self._dropped and (key in self._there or key in self._new)

    def _append(self, name: str, root: Element, local: str, attributes: dict[str, str]) -> None:
        splices = Splices()
        splices.append(root, start_tag(root.prefix + local, attributes, empty=True))
        self.put(name, splices.applied(self.read(name)))


def _relations(part: str) -> str:
    folder, name = posixpath.split(part)
    return posixpath.join(folder, "_rels", f"{name}.rels")


def _fresh(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The entry without what its archive added to it."""
    fresh = zipfile.ZipInfo(info.filename, info.date_time)
    fresh.external_attr = info.external_attr
    fresh.compress_type = info.compress_type if info.compress_type in _KEPT else _KEPT[-1]
    return fresh
