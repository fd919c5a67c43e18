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
from petsync.table.cells import make_visible

__all__ = [
    "FRAGMENT_STYLE",
    "alert",
    "asset",
    "bdi",
    "capital",
    "collapsible",
    "document",
    "element",
    "facts",
    "fold_limit",
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


# Inline styles and scripts of a page, and the hashes that allow only these.


@cache
def asset(name: str) -> str:
    """Return the text of a file in the `assets` folder."""
    return "\n" + files(__package__).joinpath("assets", name).read_text("utf-8")


def style(name: str) -> str:
    """Return `<style>` with this asset."""
    return f"<style>{asset(name)}</style>"


def script(name: str) -> str:
    """Return `<script>` with this asset."""
    return f"<script>{asset(name)}</script>\n"


def source_hash(name: str) -> str:
    """Return the hash that allows this asset's style or script in a content security policy."""
    digest = hashlib.sha256(asset(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


# HTML elements: every text is escaped.


T = TypeVar("T")
FRAGMENT_STYLE = "fragment.css"
_MAX_TEXT_CELLS = 2_000
"""The maximum number of cells of one text that are shown."""
_MARK_TITLE = '<span class="ps-hidden">Sort</span>'


def text(value: str) -> str:
    """Return the escaped text, shortened, with invisible characters made visible."""
    return escape(shorten(make_visible(value), _MAX_TEXT_CELLS))


def prose(value: str) -> str:
    """Return the escaped text, with `<code>` around parts between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))


def capital(value: str) -> str:
    """Return the text with a capital first letter; a name such as updatePet stays as it is."""
    word = value.split(maxsplit=1)[:1]
    return value[:1].upper() + value[1:] if word == [each.lower() for each in word] else value


def element(tag: str, inner: str, **attributes: str) -> str:
    """Return `<tag>` around HTML. In attribute names, a trailing `_` is removed and any other `_`
    becomes `-`. An attribute with an empty value is omitted.
    """
    attribute_text = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(v)}"'
        for name, v in attributes.items()
        if v
    )
    return f"<{tag}{attribute_text}>{inner}</{tag}>"


def bdi(value: str) -> str:
    """Return the text, isolated so that its direction does not affect the text around it."""
    return f"<bdi>{text(value)}</bdi>"


def table_cell(value: str, *, kind: str = "") -> str:
    """Return a table cell with text, with the class `kind` if given."""
    return element("td", bdi(value), class_=kind)


def row_head(value: str) -> str:
    """Return the header cell of a row."""
    return element("th", bdi(value), scope="row")


def table(
    columns: Sequence[str], rows: Iterable[str], *, small: bool = False, caption: str = ""
) -> str:
    """Return a table of rows (`<tr>`). A column without a title is for symbols; a caption (text) is
    for screen readers.
    """
    titles = (text(name) or _MARK_TITLE for name in columns)
    head = "".join(element("th", title, scope="col") for title in titles)
    body = "\n".join(rows)
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    if caption:
        inner = element("caption", text(caption), class_="ps-hidden") + inner
    return element("table", inner, class_="ps-small" if small else "")


def row(mark: Mark, *cells: str) -> str:
    """Return a table row: the symbol of `mark`, then the cells, in the mark's colour."""
    symbol = element("td", text(SYMBOL[mark]), class_="ps-mark")
    return element("tr", symbol + "".join(cells), class_=f"ps-{mark}")


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and values (text) in one line."""
    spans = (element("span", f"{text(name)}: {bdi(value)}") for name, value in pairs)
    return element("p", " ".join(spans), class_="ps-facts")


def summary(sentence: str) -> str:
    """Return the summary sentence (text) of a view."""
    return element("p", prose(sentence), class_="ps-sum")


def alert(title: str, lines: Iterable[str], *, kind: str = "") -> str:
    """Return an alert: a title (text) and lines (HTML)."""
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
    """Return a collapsible part with a row for each shown item; "" if there are no items. It
    is collapsed if it has more than `fold_over` rows.
    """
    if not things.total:
        return ""
    inner = table(columns, map(row_of, things.shown))
    if things.more:
        inner += f"\n<p>... and {number(things.more)} more</p>"
    return collapsible(title, inner, open_=len(things.shown) <= fold_over)


def collapsible(title: str, inner: str, *, aside: str = "", open_: bool = False) -> str:
    """Return a collapsible part under a title (text); `aside` (text) follows the title while it is
    collapsed.
    """
    start = "<details open>" if open_ else "<details>"
    aside_html = f" {element('span', bdi(aside), class_='ps-aside')}" if aside else ""
    return f"{start}<summary>{text(title)}{aside_html}</summary>\n{inner}\n</details>"


def fold_limit(limit: int | None) -> int:
    """Return the number of rows above which a part is collapsed: 10 if there is a `limit`, else
    1,000.
    """
    return 10 if limit is not None else 1_000


def fragment(parts: Iterable[str]) -> str:
    """Return the parts as one element with its own style."""
    inner = "\n".join(part for part in parts if part)
    return f'{style(FRAGMENT_STYLE)}\n<div class="petsync">\n{inner}\n</div>'


# A standalone page: one file, light or dark as the reader prefers, which loads nothing.


_STYLE = "page.css"


def page(fragment: str, title: str) -> str:
    """Return a complete HTML document with a fragment (HTML) under a title (text).

    It has no scripts and loads nothing; its content security policy forbids both.
    """
    return document(f"<main>\n<h1>{text(title)}</h1>\n{fragment}\n</main>", title)


def document(
    body: str, title: str, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()
) -> str:
    """Return a complete HTML document with a body (HTML) and a title (text); `styles` and `scripts`
    are names in the `assets` folder.

    It loads nothing. Its content security policy allows only these styles and scripts, and the
    style of fragments, by their hashes, and prevents scripts from turning text into markup.
    """
    style_tags = "\n".join(map(style, (_STYLE, *styles)))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{_meta(_policy(styles, scripts))}\n'
        f"<title>{text(title)}</title>\n{style_tags}\n</head>\n<body>\n{body}\n"
        f"{''.join(map(script, scripts))}</body>\n</html>\n"
    )


def _meta(policy: str) -> str:
    return f"""<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">"""


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    style_names = dict.fromkeys((_STYLE, FRAGMENT_STYLE, *styles))
    rules = [
        "default-src 'none'",
        f"style-src {' '.join(map(source_hash, style_names))}",
        *([f"script-src {' '.join(map(source_hash, scripts))}"] if scripts else []),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(rules)
