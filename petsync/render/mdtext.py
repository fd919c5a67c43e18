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
_EDGES = re.compile(r"""(["'(]*)(.*?)([)"'.,;:!?]*)""", re.DOTALL)
_TYPED = re.compile(r"""((?:^|(?<= ))["'(]*`[^`]+`[)"'.,;:!?]*(?= |$))""")
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
    """A sentence: its plain words as they are, and whatever else is in it as code spans; what
    stands between backticks in it is one, and brackets and marks around stay outside.
    """
    pieces = _TYPED.split(shorten(visible(text), _LONGEST))
    return "".join(
        _span(piece, in_table) if n % 2 else " ".join(_worded(piece, in_table, is_first=n == 0))
        for n, piece in enumerate(pieces)
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; titles and cells are Markdown already."""
    yield _line(titles)
    yield _line(["---"] * len(titles))
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _worded(text: str, in_table: bool, *, is_first: bool) -> Iterator[str]:
    """The words of the text, and in one span those behind each other that are not plain."""
    words = text.split(" ")
    flagged = [
        (word, _is_plain(word, is_first=is_first and n == 0)) for n, word in enumerate(words)
    ]
    for is_plain, group in groupby(flagged, key=lambda pair: pair[1]):
        run = [word for word, _ in group]
        if is_plain:
            yield " ".join(run)
            continue
        start = 0
        for n, word in enumerate(run, 1):
            if n == len(run) or _around(word)[2] or _around(run[n])[0]:
                yield _span(" ".join(run[start:n]), in_table)
                start = n


def _span(text: str, in_table: bool) -> str:
    """The text as a code span, but for what stands around it as in any sentence."""
    lead, core, trail = _around(text)
    if len(core) > 2 and core[0] == core[-1] == "`" and "`" not in core[1:-1]:
        core = core[1:-1]
    return f"{lead}{code(core, in_table=in_table)}{trail}"


def _around(text: str) -> tuple[str, str, str]:
    """Quotes and brackets in front of the text, the text, and they and marks behind it."""
    found = _EDGES.fullmatch(text)
    lead, core, trail = found.groups() if found else ("", text, "")
    if not core:
        return "", text, ""
    # A bracket that closes one inside belongs to the text.
    kept = trail.index(")") + 1 if ")" in trail and "(" in core else 0
    return lead, core + trail[:kept], trail[kept:]


def _is_plain(word: str, *, is_first: bool) -> bool:
    if _COMMIT.fullmatch(word) or (is_first and _NUMBERED.fullmatch(word)):
        return False
    return not word or _PLAIN.fullmatch(word) is not None


def _without_edges(shown: str) -> str:
    r"""The text with its bars escaped as tables want it. Where a backslash stands before one,
    readers of Markdown disagree on `\\|`, and the bar is named.
    """
    return shown.replace("\\|", "\\[U+007C]").replace("|", "\\|")
