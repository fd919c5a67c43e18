"""The grammar of cells: how text in a spreadsheet represents a value."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from petsync.models import MAX_ID, MIN_ID, Tag

__all__ = [
    "BLANKS",
    "BRACKETS",
    "LIST_LITERAL",
    "TAG_SEPARATOR",
    "URL_SEPARATOR",
    "CellError",
    "escape_marker",
    "format_photo_urls",
    "format_tags",
    "has_separator",
    "is_like_marker",
    "make_visible",
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
]


# Tags are separated by `;`, photo URLs by a line break or a `|` with space around it. An item that
# contains its separator, a double quote or outer whitespace is double-quoted as in CSV. A formatted
# value parses back to the same value, whatever characters it has.
#
# An item that contains another common separator, or looks like a list, is quoted too. Then petsync
# can treat such an item without quotes as a mistake.


_INVISIBLE = "\u200b\u2060\ufeff"
BLANKS = _INVISIBLE + "".join(c for c in map(chr, range(0x3001)) if c.isspace())
"""The characters that are trimmed around ids, statuses, tags and URLs: all whitespace, including
NBSP, and the invisible characters that programs leave at the edges of text."""

_BREAK = r"(?:<br\s*/?>|&#(?:1[03]|x0*[ad])(?:;|$)|_x000[ad]_|\\[rn])"
"""A line break as HTML, XML and programming languages write it."""
TAG_SEPARATOR = re.compile(
    r"[\r\n\t\v\f\x85\u2028\u2029|\uff5c\u00a6\uff1b\uff0c\u3001\u060c\u061b]"
    rf"|(?<![0-9]),|,(?![0-9])|{_BREAK}",
    re.IGNORECASE,
)
"""Matches what people write between tags instead of a semicolon. It does not match a comma between
digits, which may be a decimal comma.
"""
_BETWEEN_URLS = r",;\s\uff1b\uff0c\u3001"
_BARS = r"|\uff5c\u00a6"
# A run of separators matches only from its start: otherwise matching a long run would be very slow.
# A URL that follows a letter or a digit lacks a separator. After most other characters, it may be
# part of the URL before it.
URL_SEPARATOR = re.compile(
    rf"(?<!\s)\s*[{_BARS}]\s*|(?:<br\s*/?>)+|{_BREAK}+(?=https?://|$)|[,;]\s+"
    rf"|(?<![{_BETWEEN_URLS}])[{_BETWEEN_URLS}]+(?=https?://|$)"
    r"|&(?:amp;)?(?=https?://)|(?<=\w)(?=https?://)",
    re.IGNORECASE,
)
_WIDE_SEPARATORS = frozenset("\uff5c\u00a6\uff1b\uff0c\u3001")
"""The non-ASCII separators in URL_SEPARATOR."""
_OPTIONAL_BLANKS = f"[{re.escape(BLANKS)}]*"
# Arrow uses this expression too: its regular expressions have no backreferences and no lookaround.
LIST_LITERAL = re.compile(
    rf"\[{_OPTIONAL_BLANKS}(?:(?:Tag|Category)\(|['\"{{\[\]]|None\b|nan\b|\({_OPTIONAL_BLANKS}['\"0-9-])"
    rf"|\({_OPTIONAL_BLANKS}(?:(?:Tag|Category)\(|['\")]|(?:None|nan){_OPTIONAL_BLANKS},)"
    rf"|[\[(]{_OPTIONAL_BLANKS}-?[0-9]+{_OPTIONAL_BLANKS},{_OPTIONAL_BLANKS}['\"]"
    rf"|\{{{_OPTIONAL_BLANKS}(?:(?:Tag|Category)\(|['\"}}])"
    rf"|Tag\(|[A-Za-z_][A-Za-z0-9_.]*\({_OPTIONAL_BLANKS}[\[{{]"
    rf"|(?:set|frozenset|tuple|list|dict|deque|array)\({_OPTIONAL_BLANKS}\)"
    r"|<[A-Za-z_]*Array>|<[A-Za-z_. ]* at 0x"
)
"""The start of a list as a program writes it: `[Tag(7, 'shy')]`, `('shy',)`, `set()`."""

_TAG_END = re.compile(";")
_URL_END = re.compile(r"\r\n|\r|\n|(?<!\S)\|(?!\S)")
_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"')
_BLANK = re.compile(f"[{re.escape(BLANKS)}]*")
_LIST_START = re.compile(r"[\[{]|\([^)]*$")
"""The start of an item that would make a cell look like a list in brackets."""
_PREFIX = re.compile(r"(-?[0-9]+)?:")
_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
_FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]+")
_SCIENTIFIC = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]*)?E[+-]?[0-9]+", re.IGNORECASE)


class CellError(ValueError):
    """A text does not follow the grammar of its column. `problem` says what is wrong, `position` is
    the index of the character, and `rule` is the stable code of the broken rule.
    """

    def __init__(self, problem: str, *, position: int = 0, rule: str = "cell-unreadable") -> None:
        super().__init__(f"{problem} (at character {position + 1})")
        self.problem = problem
        self.position = position
        self.rule = rule


def trim(text: str) -> str:
    """Return the text without BLANKS around it."""
    return text.strip(BLANKS)


def normal_status(text: str) -> str:
    """Return the status for comparisons: trimmed and case-folded."""
    return trim(text).casefold()


def parse_id(text: str) -> int:
    """Return the integer (64 bits) in a text. The digits may have a sign before them, zeros as
    decimals after them (`7.0`), and BLANKS around them.

    Raises CellError with the rule `id-scientific`, `id-fraction`, `id-not-a-number` or
    `id-out-of-range`.
    """
    text = trim(text)
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise _id_error(text)
    digits = whole[1].lstrip("+-0") or "0"
    number = int(digits) if len(digits) <= 19 else MAX_ID + 1
    number = -number if whole[1].startswith("-") else number
    if not MIN_ID <= number <= MAX_ID:
        raise CellError(
            f"{text[:40]} is outside the range of ids (64 bits)", rule="id-out-of-range"
        )
    return number


def _id_error(text: str) -> CellError:
    if _SCIENTIFIC.fullmatch(text):
        return CellError("the id is in scientific notation", rule="id-scientific")
    if _FRACTION.fullmatch(text):
        return CellError("the id has a fraction", rule="id-fraction")
    return CellError("the id is not a whole number", rule="id-not-a-number")


def format_tags(tags: Iterable[Tag]) -> str:
    """Return the tags as one cell: each is `name`, `id:name`, `id:` for a tag without a name, or
    `:` for a tag without id and name.

    A name that starts with a colon, or with digits and a colon, gets a colon before it; an empty
    name is `""`. A tag's `extra` fields are not part of a cell.
    """
    return "; ".join(map(_format_tag, tags))


def parse_tags(text: str) -> tuple[Tag, ...]:
    """Return the tags in a cell, in order, including duplicates. Empty items without quotes are
    ignored.

    Raises CellError if a quote is not closed, text follows a closing quote, or a tag's id is
    outside int64.
    """
    if '"' not in text and ":" not in text:
        return tuple(Tag(None, item) for part in text.split(";") if (item := trim(part)))
    return tuple(_parse_items(text))


def format_photo_urls(urls: Iterable[str], *, separator: Literal["\n", " | "] = "\n") -> str:
    """Return the URLs as one cell, with `separator` between them; an empty one is `""`."""
    return separator.join(_quote(url) if _is_quoted_url(url) else url for url in urls)


def parse_photo_urls(text: str) -> tuple[str, ...]:
    """Return the URLs in a cell, in order. Empty items without quotes are ignored.

    Raises CellError if a quote is not closed or text follows a closing quote.
    """
    if '"' not in text:
        return tuple(item for part in _URL_END.split(text) if (item := trim(part)))
    return tuple(item.content for item in _items(text, _URL_END))


def has_separator(url: str) -> bool:
    """Return true if a photo URL without quotes looks like several URLs."""
    # Most URLs have none of these characters, and the expression is slow.
    may_match = "|" in url or "," in url or ";" in url or "<" in url or url[-1:] == "_"
    may_match = may_match or url.find("://", 6) >= 0
    may_match = may_match or not (url.isascii() or _WIDE_SEPARATORS.isdisjoint(url))
    return may_match and URL_SEPARATOR.search(url) is not None


def strip_brackets(text: str) -> str | None:
    """Return the text between enclosing brackets, as in `[calm; shy]`; None if the text has no
    enclosing brackets, or further brackets between them.
    """
    inner = text[1:-1]
    if text[:1] + text[-1:] not in ("[]", "{}", "()") or any(char in inner for char in "[]{}()"):
        return None
    return inner


def tag_items(text: str) -> Iterator[tuple[Tag, str]]:
    """Yield each tag in a cell, with its text if it is not quoted, else "".

    Raises CellError as `parse_tags` does.
    """
    items = _items(text, _TAG_END, prefix=_PREFIX)
    for tag, item in zip(_parse_items(text), items, strict=True):
        yield tag, "" if item.is_quoted else item.content


def photo_items(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each URL in a cell, and whether it is quoted.

    Raises CellError as `parse_photo_urls` does.
    """
    return ((item.content, item.is_quoted) for item in _items(text, _URL_END))


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
    if (
        not item
        or '"' in item
        or item != trim(item)
        or LIST_LITERAL.match(item)
        or _LIST_START.match(item)
    ):
        return True
    return any(pattern.search(item) for pattern in patterns)


def _quote(item: str) -> str:
    return '"' + item.replace('"', '""') + '"'


def _parse_items(text: str) -> Iterator[Tag]:
    for item in _items(text, _TAG_END, prefix=_PREFIX):
        if item.prefix is None:
            yield _tag(item.content, item.position, is_quoted=item.is_quoted)
        else:
            yield Tag(_tag_id(item.prefix[1], item.position), item.content)


def _tag(content: str, position: int, *, is_quoted: bool = False) -> Tag:
    prefix = _PREFIX.match(content)
    if prefix is None:
        return Tag(None, content)
    name = content[prefix.end() :]
    return Tag(_tag_id(prefix[1], position), (name if is_quoted else trim(name)) or None)


def _tag_id(digits: str | None, position: int) -> int | None:
    if not digits:
        return None
    try:
        return parse_id(digits)
    except CellError as error:
        raise CellError(error.problem, position=position, rule=error.rule) from None


class _Item(NamedTuple):
    content: str
    position: int
    is_quoted: bool = False
    prefix: re.Match[str] | None = None


def _items(
    text: str, end: re.Pattern[str], *, prefix: re.Pattern[str] | None = None
) -> Iterator[_Item]:
    """Yield the items of a text; `prefix` matches what may precede an item's quote."""
    position = 0
    while (start := _skip(text, position)) < len(text):
        prefix_match = prefix and prefix.match(text, start)
        opening = _skip(text, prefix_match.end()) if prefix_match else start
        if not text.startswith('"', opening):
            prefix_match, opening = None, start
        quoted = _match_quoted(text, opening)
        after = quoted.end() if quoted else start
        stop = end.search(text, after)
        content = trim(text[after : stop.start() if stop else len(text)])
        if quoted and content:
            raise CellError("text follows a closing quote", position=after)
        if quoted:
            yield _Item(quoted[1].replace('""', '"'), start, is_quoted=True, prefix=prefix_match)
        elif content:
            yield _Item(content, start)
        position = stop.end() if stop else len(text)


def _skip(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _match_quoted(text: str, start: int) -> re.Match[str] | None:
    if not text.startswith('"', start):
        return None
    match = _QUOTED.match(text, start)
    if match is None:
        raise CellError("a quote is opened and never closed", position=start)
    return match


# The marker that empties a field, `[clear]`, and texts that only look like it.
#
# A value that equals or resembles the marker is written with an apostrophe before it. Reading the
# cell removes this apostrophe. So a pet may be called "[clear]".


BRACKETS = "[](){}<>［］（）｛｝＜＞【】〔〕〖〗〈〉《》「」『』⟦⟧⟨⟩‹›«»"


def escape_marker(text: str, marker: str) -> str:
    """Return the text for a cell, escaped if it could be read as the marker."""
    return f"'{text}" if marker and is_like_marker(text, marker) else text


def is_like_marker(text: str, marker: str) -> bool:
    """Return true if the text is the marker, or its word in other brackets or with only one
    bracket: `[ clear ]`, `(clear)`, `clear]`.
    """
    text_core, core = marker_core(text), marker_core(marker)
    if text_core == core:
        return True
    word = marker_word(core)
    has_bracket = text_core[:1] in BRACKETS or text_core[-1:] in BRACKETS
    return bool(word) and has_bracket and text_core.strip(BRACKETS + BLANKS) == word


def marker_word(core: str) -> str:
    """Return the word inside the brackets of a marker; "" for a marker without brackets."""
    word = core.strip(BRACKETS + BLANKS)
    return word if core[:1] in BRACKETS and core[-1:] in BRACKETS else ""


def marker_core(text: str) -> str:
    """Return the text for a comparison with the marker: case-folded, without outer spaces and
    leading apostrophes.
    """
    return text.lstrip(BLANKS + "'").rstrip(BLANKS).casefold()


# Safe display of text from outside: control, direction and invisible characters are named in
# brackets, as in `A[NUL]b`, `[NBSP]2038` and `avail[U+200B]able`. Readers can see them and look
# them up, and they cannot control a terminal.


# Joiners are part of emoji and of several scripts; between Latin letters they are invisible. The
# pattern is compiled when it is first used: that takes milliseconds.
_JOINER = r"(?<=[\u0600-\U0010ffff])[\u200c\u200d](?=[\u0600-\U0010ffff])"
_SHOWN_CATEGORIES = frozenset(("Cn", "Co"))
"""Unicode categories of characters that are shown: unassigned in this Python's Unicode version
(such as a new emoji), and private use.
"""
_CHARACTER_NAMES = {
    "\0": "NUL",
    "\t": "tab",
    "\n": "line break",
    "\r": "CR",
    "\x1b": "ESC",
    "\u00a0": "NBSP",
}


def make_visible(text: str, *, keep: str = "") -> str:
    """Return the text with each character that is not visible replaced by its name, except those in
    `keep`.
    """
    if text.isprintable():
        return text
    joiners = {match.start() for match in re.finditer(_JOINER, text)}
    return "".join(
        char if n in joiners or char in keep else _show_char(char) for n, char in enumerate(text)
    )


def _show_char(char: str) -> str:
    if char.isprintable() or char == "\u3000" or unicodedata.category(char) in _SHOWN_CATEGORIES:
        return char
    return f"[{_CHARACTER_NAMES.get(char) or f'U+{ord(char):04X}'}]"
