"""Text in Markdown that stays text: no name becomes a link, an image, HTML, a mention, a table's
edge or a fence, in CommonMark, on GitHub or in a chat.

Backslashes would not do: what turns `@team`, `#12` or an address into links there looks at the
finished text. Inside code spans nothing does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from petsync.render.visible import shorten, visible

__all__ = ["code", "prose", "table"]

_PLAIN = re.compile(
    r"""["'(]*(?:[^\W\d_]+(?:['-][^\W\d_]+)*|[0-9]{1,3}(?:,[0-9]{3})*|[0-9]{1,6}"""
    r"""|[0-9]{4}(?:-[0-9]{2}){2}|[0-9]{2}(?::[0-9]{2}){2}|%)["')]*[.,;:!?]*""",
)
_COMMIT = re.compile(r"[0-9a-f]{7,40}\W*", re.IGNORECASE)
_NUMBERED = re.compile(r"[0-9]+[.)]+")
_LONGEST = 300


def code(text: str, width: int = _LONGEST, *, in_table: bool = True) -> str:
    """The text as a code span, shortened to `width` cells; "" for no text."""
    shown = shorten(visible(text), width)
    if not shown:
        return ""
    ticks = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (ticks + 1)
    is_edgy = shown[0] == "`" or shown[-1] == "`" or (shown[0] == shown[-1] == " ")
    pad = " " if is_edgy and shown.strip(" ") else ""
    return fence + pad + (_without_edges(shown) if in_table else shown) + pad + fence


def prose(text: str, *, in_table: bool = True) -> str:
    """A sentence: its plain words as they are, and whatever else is in it as code spans."""
    words = shorten(visible(text), _LONGEST).split(" ")
    flagged = [(word, _is_plain(word, is_first=n == 0)) for n, word in enumerate(words)]
    return " ".join(
        part
        for is_plain, group in groupby(flagged, key=lambda pair: pair[1])
        for part in _said(" ".join(word for word, _ in group), is_plain, in_table)
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; titles and cells are Markdown already."""
    yield _line(titles)
    yield _line(["---"] * len(titles))
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _said(words: str, is_plain: bool, in_table: bool) -> list[str]:
    return [words] if is_plain else [code(words, in_table=in_table)]


def _is_plain(word: str, *, is_first: bool) -> bool:
    if _COMMIT.fullmatch(word) or (is_first and _NUMBERED.fullmatch(word)):
        return False
    return _PLAIN.fullmatch(word) is not None


def _without_edges(shown: str) -> str:
    r"""The text with its bars escaped as tables want it. Where a backslash stands before one,
    readers of Markdown disagree on `\\|`, and the bar is named.
    """
    return shown.replace("\\|", "\\[U+007C]").replace("|", "\\|")
