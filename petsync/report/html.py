"""HTML: elements, pages, and inline assets."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TypeVar

from petsync.report.words import SYMBOL, Listing, Mark, number, shorten
from petsync.table.cells import visible

__all__ = [
    "FRAGMENT_STYLE",
    "alert",
    "asset",
    "bdi",
    "capital",
    "document",
    "element",
    "facts",
    "fold_over",
    "folding",
    "fragment",
    "listing",
    "page",
    "prose",
    "row",
    "row_head",
    "script",
    "source_hash",
    "style",
    "summary",
    "table",
    "table_cell",
    "text",
]


# Styles and scripts that a page carries inside itself, and the hashes that allow no others.


@cache
def asset(name: str) -> str:
    """The text of a file in the `assets` folder."""
    return "\n" + files(__package__).joinpath("assets", name).read_text("utf-8")


def style(name: str) -> str:
    """`<style>` with this asset."""
    return f"<style>{asset(name)}</style>"


def script(name: str) -> str:
    """`<script>` with this asset."""
    return f"<script>{asset(name)}</script>\n"


def source_hash(name: str) -> str:
    """What a content security policy calls the style or script of this asset."""
    digest = hashlib.sha256(asset(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


# HTML's building blocks: everything that comes in as text goes out escaped.


T = TypeVar("T")
FRAGMENT_STYLE = "fragment.css"
_LONGEST = 2_000
"""So many cells of one text are shown: a page is for reading."""
_MARK_TITLE = '<span class="ps-hidden">Sort</span>'


def text(value: str) -> str:
    """The text escaped, with what does not show as itself made visible, and not too long."""
    return escape(shorten(visible(value), _LONGEST))


def prose(value: str) -> str:
    """Text in which what stands between backticks is to be typed."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))


def capital(value: str) -> str:
    """The text as a sentence begins; a name such as updatePet stays as it is."""
    word = value.split(maxsplit=1)[:1]
    return value[:1].upper() + value[1:] if word == [each.lower() for each in word] else value


def element(tag: str, inner: str, **attributes: str) -> str:
    """`<tag>` around HTML; of an attribute's name a trailing `_` is dropped, others are `-`."""
    said = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(v)}"'
        for name, v in attributes.items()
        if v
    )
    return f"<{tag}{said}>{inner}</{tag}>"


def bdi(value: str) -> str:
    """Text whose direction does not touch what stands around it."""
    return f"<bdi>{text(value)}</bdi>"


def table_cell(value: str, *, kind: str = "") -> str:
    """A table's cell of text, with a class if one is given."""
    return element("td", bdi(value), class_=kind)


def row_head(value: str) -> str:
    """The cell of text that names its row."""
    return element("th", bdi(value), scope="row")


def table(
    columns: Sequence[str], rows: Iterable[str], *, small: bool = False, caption: str = ""
) -> str:
    """A table of rows (`<tr>`); a column without a title is one of symbols, and a caption (text)
    is for those who do not see the heading above it.
    """
    titles = (text(name) or _MARK_TITLE for name in columns)
    head = "".join(element("th", title, scope="col") for title in titles)
    body = "\n".join(rows)
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    if caption:
        inner = element("caption", text(caption), class_="ps-hidden") + inner
    return element("table", inner, class_="ps-small" if small else "")


def row(mark: Mark, *cells: str) -> str:
    """A row of cells behind its symbol, coloured by it."""
    symbol = element("td", text(SYMBOL[mark]), class_="ps-mark")
    return element("tr", symbol + "".join(cells), class_=f"ps-{mark}")


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values (text) in one line."""
    spans = (element("span", f"{text(name)}: {bdi(value)}") for name, value in pairs)
    return element("p", " ".join(spans), class_="ps-facts")


def summary(sentence: str) -> str:
    """The sentence (text) that sums it up."""
    return element("p", prose(sentence), class_="ps-sum")


def alert(title: str, lines: Iterable[str], *, kind: str = "") -> str:
    """What must not be overlooked: a title (text) and lines (HTML)."""
    inner = element("strong", text(title)) + "".join(element("p", line) for line in lines)
    return element("div", inner, class_=f"ps-alert {kind}".rstrip(), role="note")


def listing(
    title: str,
    things: Listing[T],
    columns: Sequence[str],
    row_of: Callable[[T], str],
    *,
    fold_over: int,
) -> str:
    """A part that folds, with a row for each thing that is shown; "" if there is none at all.

    It is folded where it has more than `fold_over` rows.
    """
    if not things.total:
        return ""
    inner = table(columns, map(row_of, things.shown))
    if things.more:
        inner += f"\n<p>... and {number(things.more)} more</p>"
    return folding(title, inner, open_=len(things.shown) <= fold_over)


def folding(title: str, inner: str, *, aside: str = "", open_: bool = False) -> str:
    """HTML that folds away under a title (text); `aside` (text) stands behind the title while it
    is folded.
    """
    start = "<details open>" if open_ else "<details>"
    behind = f" {element('span', bdi(aside), class_='ps-aside')}" if aside else ""
    return f"{start}<summary>{text(title)}{behind}</summary>\n{inner}\n</details>"


def fold_over(limit: int | None) -> int:
    """From how many rows on a part is folded: early in a notebook, hardly where all is wanted."""
    return 10 if limit is not None else 1_000


def fragment(parts: Iterable[str]) -> str:
    """The parts as one element that brings its own style along."""
    inner = "\n".join(part for part in parts if part)
    return f'{style(FRAGMENT_STYLE)}\n<div class="petsync">\n{inner}\n</div>'


# A page that stands alone: one file, light or dark as the reader likes it, nothing loaded.


_STYLE = "page.css"


def page(fragment: str, title: str) -> str:
    """A whole HTML document of a fragment (HTML) under a title (text).

    It has no scripts, loads nothing, and its content security policy forbids both.
    """
    return document(f"<main>\n<h1>{text(title)}</h1>\n{fragment}\n</main>", title)


def document(
    body: str, title: str, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()
) -> str:
    """A whole HTML document of a body (HTML) under a title (text), with styles and scripts of its
    own, by their names in the `assets` folder.

    It loads nothing; its content security policy allows these and a fragment's style by their
    hashes, and nothing else, and forbids scripts to make markup of text.
    """
    own = "\n".join(map(style, (_STYLE, *styles)))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{_meta(_policy(styles, scripts))}\n'
        f"<title>{text(title)}</title>\n{own}\n</head>\n<body>\n{body}\n"
        f"{''.join(map(script, scripts))}</body>\n</html>\n"
    )


def _meta(policy: str) -> str:
    return f"""<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">"""


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    known = dict.fromkeys((_STYLE, FRAGMENT_STYLE, *styles))
    rules = [
        "default-src 'none'",
        f"style-src {' '.join(map(source_hash, known))}",
        *([f"script-src {' '.join(map(source_hash, scripts))}"] if scripts else []),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(rules)
