"""The boxes in which comments are shown: shapes in a VML part, searched as text.

Excel itself writes VML that is not well-formed XML, so no parser can be used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from petsync.sheets.marks.layout import Box

__all__ = ["Cell", "highest_block", "new_shapes", "resized", "with_boxes", "without_boxes"]

Cell = tuple[int, int]
"""A cell by row and column, both from 0, as VML counts them."""

_NAMESPACES = {
    "v": "urn:schemas-microsoft-com:vml",
    "o": "urn:schemas-microsoft-com:office:office",
    "x": "urn:schemas-microsoft-com:office:excel",
}
_BLOCK = 1024
# Whatever prefix a program gives to the namespaces.
_P = rb"(?:[\w.-]+:)?"
# A shape that has no end ends where the next one begins: each byte is looked at once.
_SHAPE = re.compile(rb"<%bshape\s[^<]*(?:<(?!/?%bshape[\s>])[^<]*)*</%bshape\s*>" % (_P, _P, _P))
_NOTE = re.compile(rb"ObjectType\s*=\s*[\"']Note[\"']")
_ROW = re.compile(rb"<%bRow\s*>\s*([0-9]{1,9})\s*<" % _P)
_COLUMN = re.compile(rb"<%bColumn\s*>\s*([0-9]{1,9})\s*<" % _P)
_ANCHOR = re.compile(rb"(<%bAnchor\s*>)([0-9,\s]+)(?=</%bAnchor)" % (_P, _P))
_BLOCKS = re.compile(rb"<%bidmap\s[^<>]*?\bdata\s*=\s*[\"']([0-9,\s]*)[\"']" % _P)
_HEIGHT = re.compile(rb"(?<![\w-])(height:\s*)([0-9]+(?:\.[0-9]+)?)(px|pt)")
_LINE = {b"px": 15, b"pt": 11.25}
_ROOT = re.compile(rb"<xml\b[^<>]*>")
_TYPE = (
    '<v:shapetype id="_x0000_t202" coordsize="21600,21600" o:spt="202" '
    'path="m,l,21600r21600,l21600,xe"><v:stroke joinstyle="miter"/>'
    '<v:path gradientshapeok="t" o:connecttype="rect"/></v:shapetype>'
)
_NOTE_SHAPE = (
    '<v:shape id="_x0000_s{id}" type="#_x0000_t202" style="position:absolute;z-index:{z};'
    'visibility:hidden" fillcolor="#ffffe1" o:insetmode="auto">'
    '<v:fill color2="#ffffe1"/><v:shadow on="t" color="black" obscured="t"/>'
    '<v:path o:connecttype="none"/><v:textbox style="mso-direction-alt:auto">'
    '<div style="text-align:left"></div></v:textbox><x:ClientData ObjectType="Note">'
    "<x:MoveWithCells/><x:SizeWithCells/><x:Anchor>{anchor}</x:Anchor>"
    "<x:AutoFill>False</x:AutoFill><x:Row>{row}</x:Row><x:Column>{column}</x:Column>"
    "</x:ClientData></v:shape>"
)


def new_shapes() -> bytes:
    """The part of a worksheet that has no shapes yet."""
    names = "".join(f' xmlns:{prefix}="{name}"' for prefix, name in _NAMESPACES.items())
    return f"<xml{names}></xml>".encode()


def highest_block(data: bytes) -> int:
    """The highest number of the blocks of 1,024 ids that a part has for its shapes."""
    numbers = re.findall(rb"\b[0-9]{1,9}\b", b",".join(_BLOCKS.findall(data)))
    return max(map(int, numbers), default=0)


def without_boxes(data: bytes, cells: Collection[Cell]) -> bytes:
    """The part without the boxes of the comments on these cells."""
    return _each_note(data, lambda shape, cell: b"" if cell in cells else shape)


def resized(data: bytes, lines: Mapping[Cell, int], taller: Callable[[Box, int], Box]) -> bytes:
    """The part with the boxes on these cells made larger by so many lines, or smaller."""

    def size(shape: bytes, cell: Cell) -> bytes:
        more = lines.get(cell, 0)
        if not more:
            return shape
        if _ANCHOR.search(shape):
            return _ANCHOR.sub(lambda match: match[1] + _anchored(match[2], more, taller), shape)
        return _HEIGHT.sub(lambda match: _heightened(match, more), shape, count=1)

    return _each_note(data, size)


def with_boxes(data: bytes, boxes: Iterable[tuple[Cell, Box]], block: int) -> bytes:
    """The part with hidden boxes at these cells; their ids begin with those of a free block."""
    shapes = []
    for n, ((row, column), box) in enumerate(boxes, 1):
        anchor = ", ".join(map(str, box))
        shapes.append(
            _NOTE_SHAPE.format(id=block * _BLOCK + n, z=n, anchor=anchor, row=row, column=column)
        )
    if not shapes:
        return data
    head = "" if b'"_x0000_t202"' in data.replace(b"#_x0000_t202", b"") else _TYPE
    blocks = ",".join(str(block + n) for n in range(len(shapes) // _BLOCK + 1))
    data = _with_blocks(_opened(data), blocks)
    before, end, behind = data.rpartition(b"</xml") if b"</xml" in data else (data, b"", b"")
    return before + head.encode() + "".join(shapes).encode() + end + behind


def _each_note(data: bytes, change: Callable[[bytes, Cell], bytes]) -> bytes:
    def changed(match: re.Match[bytes]) -> bytes:
        row, column = _ROW.search(match[0]), _COLUMN.search(match[0])
        if row is None or column is None or not _NOTE.search(match[0]):
            return match[0]
        return change(match[0], (int(row[1]), int(column[1])))

    return _SHAPE.sub(changed, data)


def _anchored(text: bytes, more: int, taller: Callable[[Box, int], Box]) -> bytes:
    try:
        a, b, c, d, e, f, g, h = map(int, text.split(b","))
    except ValueError:
        return text
    return ", ".join(map(str, taller((a, b, c, d, e, f, g, h), more))).encode()


def _heightened(match: re.Match[bytes], more: int) -> bytes:
    """A box without an anchor, as openpyxl writes it, is as high as its style says."""
    height = max(float(match[2]) + more * _LINE[match[3]], 0)
    return match[1] + f"{height:g}".encode() + match[3]


def _opened(data: bytes) -> bytes:
    """The part with a root that has an end tag, and all of the namespaces."""
    root = _ROOT.search(data)
    if root is None:
        return new_shapes()
    tag = root[0].removesuffix(b">").removesuffix(b"/")
    for prefix, name in _NAMESPACES.items():
        if f"xmlns:{prefix}=".encode() not in tag:
            tag += f' xmlns:{prefix}="{name}"'.encode()
    end = b"></xml>" if root[0].endswith(b"/>") else b">"
    return data[: root.start()] + tag + end + data[root.end() :]


def _with_blocks(data: bytes, blocks: str) -> bytes:
    found = _BLOCKS.search(data)
    if found is not None:
        listed = b",".join(filter(None, (found[1].strip(b", "), blocks.encode())))
        return data[: found.start(1)] + listed + data[found.end(1) :]
    root = _ROOT.search(data)
    at = root.end() if root else 0
    layout = f'<o:shapelayout v:ext="edit"><o:idmap v:ext="edit" data="{blocks}"/></o:shapelayout>'
    return data[:at] + layout.encode() + data[at:]
