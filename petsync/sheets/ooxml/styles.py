"""A workbook's styles: a cell's own style with another fill, all else of it the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from petsync.sheets.ooxml.outline import Element, Splices, outline, start_tag, whole

__all__ = ["Styles"]

# The sections that a style needs, in the order of the schema, with the least that they hold.
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
        return whole(self.attributes.get("fillId", "")) or 0


class Styles:
    """The cell formats of one `styles.xml`, and those that are added to them.

    A colour (RGB, six hexadecimal digits) that is put over a plain fill keeps that one as the
    fill's second colour, which nobody sees: so it can be taken away again. Raises MarkupError
    where the part is not well-formed.
    """

    def __init__(self, data: bytes) -> None:
        self._data = _completed(data)
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

    def painted(self, style: int, colour: str) -> int:
        """The style with a fill of that colour."""
        if (style, colour) not in self._paint:
            self._paint[style, colour] = self._painted(style, colour)
        return self._paint[style, colour]

    def stripped(self, style: int, *colours: str) -> int:
        """The style as it was before it got a fill of one of these colours."""
        fill = self._fill_of(style)
        if not self.is_painted(style, *colours):
            return style
        text = fill.back.get("rgb", "")
        beneath = {**fill.back, "rgb": _SHOWN + text[2:]} if text else dict(fill.back)
        is_known = text.startswith(_BENEATH) if text else "theme" in fill.back
        return self._filled(style, self._plain(beneath) if is_known else 0)

    def is_painted(self, style: int, *colours: str) -> bool:
        """Whether the style has a fill of one of these colours."""
        fill = self._fill_of(style)
        return fill.pattern == "solid" and fill.front.get("rgb", "")[2:] in colours

    def has_pattern(self, style: int) -> bool:
        """Whether the style has a fill that a colour would replace for good."""
        return self._fill_of(style).pattern not in ("", "none", "solid")

    def text(self, style: int, colour: str = "", *, wrapped: bool = False) -> int:
        """The style for a text beside a cell of `style`: with a colour, or without any fill."""
        old = self._formats[self._known(style)]
        attributes = {**old.attributes, "numFmtId": _TEXT, "applyNumberFormat": "1"}
        content = old.content
        if wrapped:
            attributes["applyAlignment"] = "1"
            content = _wrapped(old.content, f"<{self._root.prefix}alignment")
        plain = self._format_at(_Format({**attributes, "fillId": "0"}, content))
        return self.painted(plain, colour) if colour else plain

    def bytes(self) -> bytes:
        """The part with the styles that were asked for."""
        splices = Splices()
        formats, fills = self._formats[self._old[0] :], self._fills[self._old[1] :]
        if fills:
            texts = map(self._fill_text, fills)
            self._append(splices, "fills", "".join(texts), len(self._fills))
        if formats:
            texts = map(self._format_text, formats)
            self._append(splices, "cellXfs", "".join(texts), len(self._formats))
        return splices.applied(self._data)

    def _painted(self, style: int, colour: str) -> int:
        beneath = self._fill_of(style)
        back = {"indexed": "64"}
        if beneath.pattern == "solid" and beneath.front:
            text = beneath.front.get("rgb", "")
            back = {**beneath.front, "rgb": _BENEATH + text[2:]} if text else {**beneath.front}
        return self._filled(style, self._fill_at(_Fill("solid", {"rgb": _SHOWN + colour}, back)))

    def _filled(self, style: int, fill: int) -> int:
        old = self._formats[self._known(style)]
        attributes = {**old.attributes, "fillId": str(fill)}
        if fill:
            attributes["applyFill"] = "1"
        return self._format_at(_Format(attributes, old.content))

    def _plain(self, colour: Mapping[str, str]) -> int:
        """The fill of one colour; alpha, which spreadsheets pass over, does not count."""
        at = self._plain_places.get(_key(_opaque(colour)))
        return self._fill_at(_Fill("solid", colour, {"indexed": "64"})) if at is None else at

    def _known(self, style: int) -> int:
        return style if style < len(self._formats) else 0

    def _fill_of(self, style: int) -> _Fill:
        at = self._formats[self._known(style)].fill
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
            self._plain_places.setdefault(_key(_opaque(fill.front)), at)

    def _format_at(self, wanted: _Format) -> int:
        """Where the format is, or one that differs in nothing but whether a fill is applied."""
        for attributes in (dict(wanted.attributes), _applied(wanted)):
            at = self._places.get((_key(attributes), wanted.content))
            if at is not None:
                return at
        self._formats.append(wanted)
        self._note(wanted, len(self._formats) - 1)
        return len(self._formats) - 1

    def _note(self, each: _Format, at: int) -> None:
        for attributes in (dict(each.attributes), _applied(each)):
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


def _completed(data: bytes) -> bytes:
    """The part with the sections that a style refers to."""
    root, splices = outline(data), Splices()
    there = {each.local: each for each in root.children}
    names, missing = list(_SECTIONS), ""
    for at, name in enumerate(names):
        section = there.get(name)
        if name == "numFmts" or (section is not None and section.children):
            continue
        if section is not None:
            splices.replace(section.start, section.end, "")
        behind = [each for each in root.children if each.local not in names[: at + 1]]
        text = _SECTIONS[name].format(root.prefix)
        if behind and not root.empty:
            splices.insert(behind[0].start, text)
        else:
            missing += text
    if missing:
        splices.append(root, missing)
    return splices.applied(data) if len(splices) else data


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


def _wrapped(content: str, alignment: str) -> str:
    """The content of a format whose text is broken into lines."""
    if alignment not in content:
        return f'{alignment} wrapText="1"/>{content}'
    return _WRAP.sub("", content).replace(alignment, f'{alignment} wrapText="1"', 1)


def _opaque(colour: Mapping[str, str]) -> dict[str, str]:
    return {key: value[-6:] if key == "rgb" else value for key, value in colour.items()}


def _key(values: Mapping[str, str]) -> object:
    return frozenset(values.items())


def _fill_key(fill: _Fill) -> object:
    return fill.pattern, _key(fill.front), _key(fill.back)


def _applied(each: _Format) -> dict[str, str]:
    """The attributes; whether a fill is applied does not matter, since a fill always is."""
    return {key: value for key, value in each.attributes.items() if key != "applyFill"}
