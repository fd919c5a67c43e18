"""How far a worksheet's ranges reach down: they follow rows that are added behind the last one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from petsync.sheets.grid import letter
from petsync.sheets.ooxml.outline import Element, Splices, whole, xml_text
from petsync.sheets.ooxml.parts import Parts
from petsync.sheets.ooxml.worksheet import Worksheet, corners

__all__ = ["Reach", "name_ranges", "stretch_ranges", "stretch_tables", "totalled"]

_RULES = ("dataValidation", "conditionalFormatting", "ignoredError", "protectedRange")
_END = re.compile(r"(?P<column>\$?[A-Z]{1,3})(?P<row>\$?[0-9]+)\Z")
_FILTER, _PRINTED = "_xlnm._FilterDatabase", "_xlnm.Print_Area"


class Reach(NamedTuple):
    """Ranges that end in one of the rows from `last` to before `end` are to end in `end`; a filter
    whose last column stands before the columns `free` (from 0) is to have these too. A filter that
    begins in the row `header` has the rows of the table, also where it ended before a person's
    own last ones.
    """

    last: int
    end: int
    free: tuple[int, ...] = ()
    header: int = 0

    def row(self, bottom: int) -> int:
        """The row in which a range ends that ended in the row `bottom`."""
        return self.end if self.last <= bottom < self.end else bottom

    def stretched(self, reference: str) -> str:
        """One range, or several with spaces between them, as they are to be."""
        return " ".join(map(self._one, reference.split()))

    def filtered(self, reference: str) -> str:
        """The range of a filter."""
        area = corners(reference)
        if area is None:
            return reference
        top, left, bottom, right = area
        if self.free and right + 1 == min(self.free):
            right = max(self.free)
        is_short = top == self.header and bottom < self.last < self.end
        end = self.end if is_short else self.row(bottom)
        return f"{letter(left)}{top}:{letter(right)}{end}"

    def _one(self, reference: str) -> str:
        area = corners(reference)
        if area is None or self.row(area[2]) == area[2]:
            return reference
        top, left, _, right = area
        return f"{letter(left)}{top}:{letter(right)}{self.end}"


def stretch_ranges(worksheet: Worksheet, reach: Reach) -> str:
    """Have filter, drop-downs and formats of the worksheet reach so far; the filter's new range,
    "" where it has none or it stays.
    """
    splices = worksheet.splices
    for each in worksheet.root.walk():
        if each.local in _RULES and each.get("sqref"):
            _retag(splices, each, "sqref", reach.stretched)
        elif each.local == "sqref" and each.text:
            # What newer programs keep in an extension.
            splices.replace(each.inside, each.close, xml_text(reach.stretched(each.text)))
    own = worksheet.root.one("autoFilter")
    return "" if own is None else _retag(splices, own, "ref", reach.filtered)


def stretch_tables(parts: Parts, part: str, reach: Reach) -> None:
    """Have the worksheet's tables reach so far."""
    for name in _tables(parts, part):
        root, splices = parts.outline(name), Splices()
        # The filter first: it stands in the table's own tag's content.
        own = root.one("autoFilter")
        if own is not None:
            _retag(splices, own, "ref", reach.stretched)
        _retag(splices, root, "ref", reach.stretched)
        parts.put(name, splices.applied(parts.read(name)))


def totalled(parts: Parts, part: str, reach: Reach) -> str:
    """The name of a table whose row of totals stands where rows are to be added, "" for none."""
    for name in _tables(parts, part):
        root = parts.outline(name)
        area = corners(root.get("ref"))
        if area and whole(root.get("totalsRowCount")) and reach.row(area[2]) != area[2]:
            return root.get("displayName") or root.get("name")
    return ""


def name_ranges(parts: Parts, part: str, reach: Reach, filtered: str) -> None:
    """Have the hidden name of the filter's range say the same as the filter, and what is printed
    reach as far.
    """
    book = parts.package.workbook
    root, splices = parts.outline(book), Splices()
    targets = {each.id: each.target.casefold() for each in parts.relations(book)}
    listed = [targets.get(each.get("id"), "") for each in root.all("sheets", "sheet")]
    for each in root.all("definedNames", "definedName"):
        at = whole(each.get("localSheetId"))
        if at is None or listed[at : at + 1] != [part.casefold()]:
            continue
        named = each.text
        if each.get("name") == _FILTER and filtered:
            _, _, bottom, right = corners(filtered) or (0, 0, 0, 0)
            named = _END.sub(f"${letter(right)}${bottom}", named)
        elif each.get("name") == _PRINTED:
            named = _ended(named, reach)
        if named != each.text:
            splices.replace(each.inside, each.close, xml_text(named))
    if len(splices):
        parts.put(book, splices.applied(parts.read(book)))


def _ended(text: str, reach: Reach) -> str:
    def end(match: re.Match[str]) -> str:
        mark, row = ("$" if "$" in match["row"] else ""), int(match["row"].lstrip("$"))
        return f"{match['column']}{mark}{reach.row(row)}"

    return _END.sub(end, text)


def _retag(splices: Splices, element: Element, name: str, form: Callable[[str], str]) -> str:
    """Set a range anew; the new one, "" where it stays."""
    before = element.get(name)
    after = form(before) if before else before
    if after == before:
        return ""
    splices.retag(element, **{name: after})
    return after


def _tables(parts: Parts, part: str) -> Iterator[str]:
    for each in list(parts.relations(part)):
        if each.kind == "table":
            yield each.target
