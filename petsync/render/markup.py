"""HTML's building blocks: everything that comes in as text goes out escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeVar

from petsync.render.digest import Listing
from petsync.render.visible import shorten, visible
from petsync.render.words import SYMBOL, Mark, number

__all__ = [
    "alert",
    "bdi",
    "cell",
    "element",
    "facts",
    "fold_over",
    "folding",
    "fragment",
    "listing",
    "row",
    "row_head",
    "summary",
    "table",
    "text",
]

T = TypeVar("T")
_LONGEST = 2_000
"""So many cells of one text are shown: a page is for reading."""
_MARK_TITLE = '<span class="ps-hidden">Sort</span>'

# `.petsync.petsync` outweighs JupyterLab, which aligns every cell of an output to the right.
_STYLE = """<style>
.petsync {
  --ps-line: var(--jp-border-color1, color-mix(in srgb, currentColor 25%, transparent));
  --ps-soft: color-mix(in srgb, currentColor 5%, transparent);
  --ps-add: var(--jp-success-color1, #2e8540);
  --ps-update: var(--jp-warn-color1, #c77700);
  --ps-delete: var(--jp-error-color1, #c9362c);
  --ps-conflict: #9a5fd0;
  --ps-note: var(--jp-info-color1, #1976a8);
  color: var(--jp-content-font-color1, inherit);
  font-family: var(--jp-content-font-family, system-ui, sans-serif);
  font-size: var(--jp-content-font-size1, 14px);
  line-height: 1.45;
  max-width: 76rem;
}
.petsync p { margin: .3em 0; }
.petsync .ps-sum { font-size: 1.15em; font-weight: 600; }
.petsync .ps-facts { opacity: .8; }
.petsync .ps-facts span { margin-right: 1.4em; }
.petsync .ps-alert { border-left: 4px solid var(--ps-delete); padding: .3em .8em;
  background: color-mix(in srgb, var(--ps-delete) 9%, transparent); }
.petsync details { margin: .5em 0; }
.petsync summary { cursor: pointer; font-weight: 600; padding: .25em 0; }
.petsync table { border-collapse: collapse; table-layout: auto; width: 100%;
  margin: .2em 0 .6em; font-size: inherit; }
.petsync table.ps-small { width: auto; }
.petsync.petsync th, .petsync.petsync td { text-align: left; vertical-align: top; }
.petsync th, .petsync td { padding: .3em .7em;
  border-bottom: 1px solid var(--ps-line); overflow-wrap: anywhere; white-space: normal; }
.petsync thead th { font-size: .85em; opacity: .75; font-weight: 600; white-space: nowrap; }
.petsync tbody tr:nth-child(even) { background: var(--ps-soft); }
.petsync tbody th { font-weight: 600; min-width: 7em; }
.petsync tbody th.ps-number { min-width: 0; }
.petsync .ps-mark { font-family: var(--jp-code-font-family, monospace); font-weight: 700;
  width: 1em; border-left: 4px solid var(--ps-note); }
.petsync.petsync .ps-number { text-align: right; }
.petsync .ps-number { width: 1%; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.petsync .ps-small .ps-number { width: auto; }
.petsync .ps-where { width: 1%; white-space: nowrap; opacity: .8; }
.petsync .ps-place { min-width: 9em; opacity: .8; }
.petsync .ps-value { min-width: 7em; }
.petsync .ps-aside { font-weight: 400; opacity: .7; margin-left: .5em; }
.petsync details[open] > summary > .ps-aside { display: none; }
.petsync tr.ps-add .ps-mark, .petsync tr.ps-applied .ps-mark { border-left-color: var(--ps-add); }
.petsync tr.ps-update .ps-mark, .petsync tr.ps-warning .ps-mark {
  border-left-color: var(--ps-update); }
.petsync tr.ps-delete .ps-mark, .petsync tr.ps-blocked .ps-mark {
  border-left-color: var(--ps-delete); }
.petsync tr.ps-conflict .ps-mark { border-left-color: var(--ps-conflict); }
.petsync del, .petsync ins { padding: 0 .25em; border-radius: 3px; margin-right: .2em; }
.petsync del { background: color-mix(in srgb, var(--ps-delete) 16%, transparent); }
.petsync ins { background: color-mix(in srgb, var(--ps-add) 20%, transparent);
  text-decoration: none; }
.petsync .ps-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); }
.petsync .ps-field { opacity: .8; }
</style>
"""


def text(value: str) -> str:
    """The text escaped, with what does not show as itself made visible, and not too long."""
    return escape(shorten(visible(value), _LONGEST))


def element(tag: str, inner: str, **attributes: str) -> str:
    """`<tag>` around HTML; a trailing `_` of an attribute's name is dropped."""
    said = "".join(f' {name.rstrip("_")}="{escape(v)}"' for name, v in attributes.items() if v)
    return f"<{tag}{said}>{inner}</{tag}>"


def bdi(value: str) -> str:
    """Text whose direction does not touch what stands around it."""
    return f"<bdi>{text(value)}</bdi>"


def cell(value: str, *, kind: str = "") -> str:
    """A table's cell of text, with a class if one is given."""
    return element("td", bdi(value), class_=kind)


def row_head(value: str) -> str:
    """The cell of text that names its row."""
    return element("th", bdi(value), scope="row")


def table(columns: Sequence[str], rows: Iterable[str], *, small: bool = False) -> str:
    """A table of rows (`<tr>`); a column without a title is one of symbols."""
    titles = (text(name) or _MARK_TITLE for name in columns)
    head = "".join(element("th", title, scope="col") for title in titles)
    body = "\n".join(rows)
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
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
    return element("p", text(sentence), class_="ps-sum")


def alert(title: str, sentences: Iterable[str]) -> str:
    """What must not be overlooked: a title and sentences, all text."""
    lines = "".join(element("p", text(sentence)) for sentence in sentences)
    return element(
        "div", f"{element('strong', text(title))}{lines}", class_="ps-alert", role="note"
    )


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
    return f'{_STYLE}<div class="petsync">\n{inner}\n</div>'
