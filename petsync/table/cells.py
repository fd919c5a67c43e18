"""The grammar of cells: a text in a spreadsheet, and the value that it stands for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from petsync.models import MAX_ID, MIN_ID, Tag

__all__ = [
    "BLANKS",
    "BRACKETS",
    "LISTED",
    "TAG_SEPARATOR",
    "URL_SEPARATOR",
    "CellError",
    "escape_marker",
    "format_photo_urls",
    "format_tags",
    "has_separator",
    "is_like_marker",
    "marker_core",
    "marker_word",
    "normal_status",
    "parse_id",
    "parse_photo_urls",
    "parse_tags",
    "photo_items",
    "strip_brackets",
    "tag_items",
    "trim",
    "visible",
]


# The grammar of cells: a text in a spreadsheet, and the value it stands for.
#
# Tags are separated by `;`, photo addresses by a line break or a `|` with space around it. An
# item that contains its separator, a double quote or outer whitespace is double-quoted as in CSV.
# What is formatted parses back to the same value, whatever characters it is made of.
#
# An item that holds what people and programs use as a separator or as a list is quoted too, so
# that such a text without quotes can be told from one that is meant.


_INVISIBLE = "\u200b\u2060\ufeff"
BLANKS = _INVISIBLE + "".join(c for c in map(chr, range(0x3001)) if c.isspace())
"""What is trimmed around ids, statuses, tags and addresses: whitespace of every kind, NBSP too,
and the invisible marks that programs leave at the edges of text."""

_BREAK = r"(?:<br\s*/?>|&#(?:1[03]|x0*[ad])(?:;|$)|_x000[ad]_|\\[rn])"
"""A line break as HTML, XML and programming languages write it."""
TAG_SEPARATOR = re.compile(
    r"[\r\n\t\v\f\x85\u2028\u2029|\uff5c\u00a6\uff1b\uff0c\u3001\u060c\u061b]"
    rf"|(?<![0-9]),|,(?![0-9])|{_BREAK}",
    re.IGNORECASE,
)
"""What people write between tags in place of a semicolon; a comma between digits is a decimal."""
_BETWEEN_URLS = r",;\s\uff1b\uff0c\u3001"
_BARS = r"|\uff5c\u00a6"
# A run of them is looked at from its beginning only, or a long one would take for ever.
URL_SEPARATOR = re.compile(
    rf"(?<!\s)\s*[{_BARS}]\s*|(?:<br\s*/?>)+|{_BREAK}+(?=https?://|$)|[,;]\s+"
    rf"|(?<![{_BETWEEN_URLS}])[{_BETWEEN_URLS}]+(?=https?://|$)"
    r"|&(?:amp;)?(?=https?://)|(?<=\w)(?=https?://)",
    re.IGNORECASE,
)
_WIDE_MARKS = frozenset("\uff5c\u00a6\uff1b\uff0c\u3001")
"""What people write between addresses, or nothing at all; an address may hold another one behind
a character that is no letter and no digit."""
_GAP = f"[{re.escape(BLANKS)}]*"
# Arrow's expressions are others: nothing may refer back or look around here.
LISTED = re.compile(
    rf"\[{_GAP}(?:(?:Tag|Category)\(|['\"{{\[\]]|None\b|nan\b|\({_GAP}['\"0-9-])"
    rf"|\({_GAP}(?:(?:Tag|Category)\(|['\")]|(?:None|nan){_GAP},)"
    rf"|[\[(]{_GAP}-?[0-9]+{_GAP},{_GAP}['\"]"
    rf"|\{{{_GAP}(?:(?:Tag|Category)\(|['\"}}])"
    rf"|Tag\(|[A-Za-z_][A-Za-z0-9_.]*\({_GAP}[\[{{]"
    rf"|(?:set|frozenset|tuple|list|dict|deque|array)\({_GAP}\)"
    r"|<[A-Za-z_]*Array>|<[A-Za-z_. ]* at 0x"
)
"""How the text begins that a program writes for a list: `[Tag(7, 'shy')]`, `('shy',)`, `set()`."""

_TAG_END = re.compile(";")
_URL_END = re.compile(r"\r\n|\r|\n|(?<!\S)\|(?!\S)")
_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"')
_BLANK = re.compile(f"[{re.escape(BLANKS)}]*")
_OPENED = re.compile(r"[\[{]|\([^)]*$")
"""How an item begins with which a cell might look like a list in brackets."""
_PREFIX = re.compile(r"(-?[0-9]+)?:")
_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
_FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]+")
_SCIENTIFIC = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]*)?E[+-]?[0-9]+", re.IGNORECASE)


class CellError(ValueError):
    """A text that is not of its column's grammar: `problem`, the `position` of the character
    (from 0) and the stable code of the `rule` that it breaks.
    """

    def __init__(self, problem: str, *, position: int = 0, rule: str = "cell-unreadable") -> None:
        super().__init__(f"{problem} (at character {position + 1})")
        self.problem = problem
        self.position = position
        self.rule = rule


def trim(text: str) -> str:
    """The text without the whitespace around it."""
    return text.strip(BLANKS)


def normal_status(text: str) -> str:
    """A status as it is compared: trimmed and case-folded."""
    return trim(text).casefold()


def parse_id(text: str) -> int:
    """The int64 that a trimmed text names: digits, or digits and `.0`.

    Raises CellError with the rule `id-scientific`, `id-fraction`, `id-not-a-number` or
    `id-out-of-range`.
    """
    text = trim(text)
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise _no_id(text)
    digits = whole[1].lstrip("+-0") or "0"
    number = int(digits) if len(digits) <= 19 else MAX_ID + 1
    number = -number if whole[1].startswith("-") else number
    if not MIN_ID <= number <= MAX_ID:
        raise CellError(
            f"{text[:40]} is outside the range of ids (64 bits)", rule="id-out-of-range"
        )
    return number


def _no_id(text: str) -> CellError:
    if _SCIENTIFIC.fullmatch(text):
        return CellError("the id is in scientific notation", rule="id-scientific")
    if _FRACTION.fullmatch(text):
        return CellError("the id has a fraction", rule="id-fraction")
    return CellError("the id is not a whole number", rule="id-not-a-number")


def format_tags(tags: Iterable[Tag]) -> str:
    """The tags as one cell: each `name`, `id:name`, or `5:` where a tag has an id alone.

    A name that starts with a colon, or with digits and a colon, gets a colon before it; an empty
    name is `""`. A tag's `extra` fields are not part of a cell.
    """
    return "; ".join(map(_format_tag, tags))


def parse_tags(text: str) -> tuple[Tag, ...]:
    """The tags that a cell names, in their order, duplicates too; empty items are passed over.

    Raises CellError if a quote is not closed, text follows a closing quote, or a tag's id is
    outside int64.
    """
    if '"' not in text and ":" not in text:
        return tuple(Tag(None, item) for part in text.split(";") if (item := trim(part)))
    return tuple(_itemised_tags(text))


def format_photo_urls(urls: Iterable[str], *, separator: Literal["\n", " | "] = "\n") -> str:
    """The addresses as one cell, with `separator` between them; an empty one is `""`."""
    return separator.join(_quote(url) if _is_quoted_url(url) else url for url in urls)


def parse_photo_urls(text: str) -> tuple[str, ...]:
    """The addresses that a cell names, in their order; empty items are passed over.

    Raises CellError if a quote is not closed or text follows a closing quote.
    """
    if '"' not in text:
        return tuple(item for part in _URL_END.split(text) if (item := trim(part)))
    return tuple(item.content for item in _items(text, _URL_END))


def has_separator(url: str) -> bool:
    """Whether a photo's address without quotes looks like several."""
    # Most addresses have none of it, and the expression is slow.
    is_doubtful = "|" in url or "," in url or ";" in url or "<" in url or url[-1:] == "_"
    is_doubtful = is_doubtful or url.find("://", 6) >= 0
    is_doubtful = is_doubtful or not (url.isascii() or _WIDE_MARKS.isdisjoint(url))
    return is_doubtful and URL_SEPARATOR.search(url) is not None


def strip_brackets(text: str) -> str | None:
    """What stands in the brackets that enclose a text, None if none do: `[calm; shy]`."""
    inner = text[1:-1]
    if text[:1] + text[-1:] not in ("[]", "{}", "()") or any(char in inner for char in "[]{}()"):
        return None
    return inner


def tag_items(text: str) -> Iterator[tuple[Tag, str]]:
    """Each tag that a cell names, with its text where it is not quoted, else "".

    Raises CellError as `parse_tags` does.
    """
    items = _items(text, _TAG_END, lead=_PREFIX)
    for tag, item in zip(_itemised_tags(text), items, strict=True):
        yield tag, "" if item.quoted else item.content


def photo_items(text: str) -> Iterator[tuple[str, bool]]:
    """Each address that a cell names, and whether it is quoted.

    Raises CellError as `parse_photo_urls` does.
    """
    return ((item.content, item.quoted) for item in _items(text, _URL_END))


def _format_tag(tag: Tag) -> str:
    number = "" if tag.id is None else str(tag.id)
    if not tag.name:
        empty = "" if tag.name is None else '""'
        return f"{number}:{empty}" if number or tag.name is None else empty
    item = tag.name
    if number or _PREFIX.match(tag.name):
        item = f"{number}:{tag.name}"
    return _quote(item) if _needs_quotes(tag.name, _TAG_END, TAG_SEPARATOR) else item


def _is_quoted_url(url: str) -> bool:
    return _needs_quotes(url, _URL_END) or has_separator(url)


def _needs_quotes(item: str, *patterns: re.Pattern[str]) -> bool:
    if not item or '"' in item or item != trim(item) or LISTED.match(item) or _OPENED.match(item):
        return True
    return any(pattern.search(item) for pattern in patterns)


def _quote(item: str) -> str:
    return '"' + item.replace('"', '""') + '"'


def _itemised_tags(text: str) -> Iterator[Tag]:
    for item in _items(text, _TAG_END, lead=_PREFIX):
        if item.lead is None:
            yield _tag(item.content, item.position, quoted=item.quoted)
        else:
            yield Tag(_tag_id(item.lead[1], item.position), item.content)


def _tag(content: str, position: int, *, quoted: bool = False) -> Tag:
    prefix = _PREFIX.match(content)
    if prefix is None:
        return Tag(None, content)
    name = content[prefix.end() :]
    return Tag(_tag_id(prefix[1], position), (name if quoted else trim(name)) or None)


def _tag_id(digits: str | None, position: int) -> int | None:
    if not digits:
        return None
    try:
        return parse_id(digits)
    except CellError as error:
        raise CellError(error.problem, position=position) from None


class _Item(NamedTuple):
    content: str
    position: int
    quoted: bool = False
    lead: re.Match[str] | None = None


def _items(
    text: str, end: re.Pattern[str], *, lead: re.Pattern[str] | None = None
) -> Iterator[_Item]:
    """The items of a text; `lead` may stand before an item's quote."""
    position = 0
    while (start := _skip(text, position)) < len(text):
        before = lead and lead.match(text, start)
        opening = _skip(text, before.end()) if before else start
        if not text.startswith('"', opening):
            before, opening = None, start
        quoted = _quoted_at(text, opening)
        after = quoted.end() if quoted else start
        stop = end.search(text, after)
        rest = trim(text[after : stop.start() if stop else len(text)])
        if quoted and rest:
            raise CellError("text follows a closing quote", position=after)
        if quoted:
            yield _Item(quoted[1].replace('""', '"'), start, quoted=True, lead=before)
        elif rest:
            yield _Item(rest, start)
        position = stop.end() if stop else len(text)


def _skip(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _quoted_at(text: str, start: int) -> re.Match[str] | None:
    if not text.startswith('"', start):
        return None
    match = _QUOTED.match(text, start)
    if match is None:
        raise CellError("a quote is opened and never closed", position=start)
    return match


# The marker that empties a field, `[clear]`, and texts that only look like it.
#
# A text that is the marker or is like it, in whatever case and with spaces or apostrophes before
# it, is written with an apostrophe before it; reading takes it away again. So a pet may be called
# "[clear]".


BRACKETS = "[](){}<>［］（）｛｝＜＞【】〔〕〖〗〈〉《》「」『』⟦⟧⟨⟩‹›«»"


def escape_marker(text: str, marker: str) -> str:
    """The text as a cell has it, so that it is not taken for the marker."""
    return f"'{text}" if marker and is_like_marker(text, marker) else text


def is_like_marker(text: str, marker: str) -> bool:
    """Whether the text is the marker, or its word in other brackets or behind or before one:
    `[ clear ]`, `(clear)`, `clear]`.
    """
    found, core = marker_core(text), marker_core(marker)
    if found == core:
        return True
    inner = marker_word(core)
    has_bracket = found[:1] in BRACKETS or found[-1:] in BRACKETS
    return bool(inner) and has_bracket and found.strip(BRACKETS + BLANKS) == inner


def marker_word(core: str) -> str:
    """The word of a marker that stands in brackets, "" of another one."""
    inner = core.strip(BRACKETS + BLANKS)
    return inner if core[:1] in BRACKETS and core[-1:] in BRACKETS else ""


def marker_core(text: str) -> str:
    """The text as it is compared with the marker: without case, spaces and apostrophes."""
    return text.lstrip(BLANKS + "'").rstrip(BLANKS).casefold()


# Text from outside made safe to show: what steers, turns or hides is named in brackets.
#
# A pet may be called anything: `A[NUL]b`, `[NBSP]2038`, `avail[U+200B]able` are said in a form
# that a person finds in any list of characters, and that moves no cursor.


# Joiners belong to the spelling of emoji and of several scripts; among Latin letters they hide.
_JOINER = re.compile(r"(?<=[\u0600-\U0010ffff])[\u200c\u200d](?=[\u0600-\U0010ffff])")
_HARMLESS = frozenset(("Cn", "Co"))
"""Unassigned in this Python's Unicode (a new emoji, say), and private use."""
_NAMES = {
    "\0": "NUL",
    "\t": "tab",
    "\n": "line break",
    "\r": "CR",
    "\x1b": "ESC",
    "\u00a0": "NBSP",
}


def visible(text: str, *, keep: str = "") -> str:
    """The text with every character named that does not show as itself, but those of `keep`."""
    if text.isprintable():
        return text
    joiners = {match.start() for match in _JOINER.finditer(text)}
    return "".join(
        char if n in joiners or char in keep else _show_char(char) for n, char in enumerate(text)
    )


def _show_char(char: str) -> str:
    if char.isprintable() or char == "\u3000" or unicodedata.category(char) in _HARMLESS:
        return char
    return f"[{_NAMES.get(char) or f'U+{ord(char):04X}'}]"
