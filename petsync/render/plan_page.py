"""A plan as a page of its own: the summary first, then every row, to filter and to turn pages.

What the page's script needs stands in it as JSON; without scripts the first rows of each kind are
there all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from petsync.diff.plan import Plan
from petsync.render import markup, words
from petsync.render.markup import bdi, element, prose, text
from petsync.render.page import document
from petsync.render.plan_cells import NAMES, page_row
from petsync.render.plan_tools import head, pager, tools
from petsync.render.plan_top import alerts, facts
from petsync.render.records import KINDS, UNITS, Record, records

__all__ = ["plan_page"]

_STATIC = 20
_NOTES = 100
_TILES = {
    "conflict": ("conflict", "conflicts"),
    "blocked": ("row blocked", "rows blocked"),
    "add": ("to add", "to add"),
    "update": ("to change", "to change"),
    "delete": ("to delete", "to delete"),
}
# In a `<script>` only these can end it or begin something else; JSON has another spelling for them.
_SAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def plan_page(plan: Plan) -> str:
    """The plan as a whole HTML document that loads nothing, however many rows it has."""
    rows = list(records(plan))
    title = f"Undo of {plan.source}" if plan.undoes else f"Plan for {plan.source}"
    counts: Counter[str] = Counter(KINDS[row.kind] for row in rows)
    body = "\n".join(
        [
            element("a", "Skip to the rows", class_="ps-skip", href="#rows") if rows else "",
            '<main class="petsync ps-page">',
            *_top(plan, title, counts),
            *(_details(rows) if rows else ()),
            "</main>",
            *([_data(rows)] if rows else ()),
        ]
    )
    scripts = ("marks.js", "rows.js", "plan.js") if rows else ()
    return document(body, title, styles=(markup.FRAGMENT_STYLE, "plan.css"), scripts=scripts)


def _top(plan: Plan, title: str, counts: Counter[str]) -> Iterator[str]:
    yield "<header>"
    yield element("p", "petsync plan", class_="ps-kicker")
    yield element("h1", bdi(title))
    yield markup.summary(words.plan_summary(plan, counts))
    yield "</header>"
    yield element("ul", "".join(_tiles(counts)), class_="ps-tiles")
    yield from alerts(plan)
    yield _facts(plan)
    if plan.notes:
        yield _notes(plan.notes)


def _tiles(counts: Counter[str]) -> Iterator[str]:
    """How many of each kind; each leads to its rows."""
    for kind in KINDS:
        total = counts[kind]
        if not total and kind in ("conflict", "blocked"):
            continue
        inner = element("strong", words.number(total)) + f" {_TILES[kind][total != 1]}"
        inner = element("a", inner, href=f"#kind={kind}") if total else element("span", inner)
        yield element("li", inner, class_=f"ps-{kind}")


def _facts(plan: Plan) -> str:
    pairs = (
        element("div", element("dt", text(name)) + element("dd", bdi(value)))
        for name, value in facts(plan)
    )
    return element("dl", "".join(pairs), class_="ps-about")


def _notes(notes: Sequence[str]) -> str:
    items = [element("li", prose(note)) for note in notes[:_NOTES]]
    if len(notes) > _NOTES:
        items.append(element("li", f"and {words.number(len(notes) - _NOTES)} more"))
    inner = element("h2", "Notes", id="notes") + element("ul", "".join(items))
    return element("section", inner, class_="ps-notes", aria_labelledby="notes")


def _details(rows: Sequence[Record]) -> Iterator[str]:
    shown = list(_first(rows))
    yield '<section aria-labelledby="rows" class="ps-rows">'
    yield element("h2", "Row by row", id="rows", tabindex="-1")
    yield tools()
    yield _without_script(len(shown), len(rows))
    yield pager("above")
    yield '<table role="table" aria-labelledby="rows" id="table" class="ps-table">'
    yield head()
    yield f'<tbody role="rowgroup">{_static_rows(shown)}</tbody></table>'
    yield pager("below")
    yield "</section>"


def _first(rows: Iterable[Record]) -> Iterator[Record]:
    seen: Counter[int] = Counter()
    for row in rows:
        seen[row.kind] += 1
        if seen[row.kind] <= _STATIC:
            yield row


def _static_rows(shown: Sequence[Record]) -> str:
    """The rows; the first of each kind is where its tile leads to."""
    firsts = {row.kind: n for n, row in reversed(list(enumerate(shown)))}
    lines = [page_row(row) for row in shown]
    for kind, n in firsts.items():
        lines[n] = lines[n].replace("<tr ", f'<tr id="kind={KINDS[kind]}" ', 1)
    return "\n".join(lines)


def _without_script(shown: int, total: int) -> str:
    some = (
        f"These are the first rows of each kind, {words.number(shown)} of {words.number(total)}. "
        "The rest needs JavaScript, which this page runs without a network; or save the plan as "
        "a workbook: petsync plan -o plan.xlsx."
    )
    every = "To filter and sort the rows needs JavaScript, which this page runs without a network."
    return element("noscript", element("p", text(every if shown == total else some)))


def _data(rows: Sequence[Record]) -> str:
    about = {
        "kinds": [[kind, words.SYMBOL[kind], NAMES[kind]] for kind in KINDS],
        "units": UNITS,
        "rows": rows,
    }
    body = msgspec.json.encode(about).decode().translate(_SAFE)
    return f'<script type="application/json" id="data">{body}</script>'
