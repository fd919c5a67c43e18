"""A round's report as a page of its own: how it ended first, then what to do, then all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from petsync.diff.change import Change, Conflict
from petsync.diff.report import Result
from petsync.diff.round import Open, Round
from petsync.diff.round_report import RoundReport
from petsync.render import markup, words
from petsync.render import round_words as said
from petsync.render.digest import clashing, first
from petsync.render.markup import bdi, capital, element, prose, text
from petsync.render.page import document
from petsync.render.plan_cells import badge, line, page_row, what
from petsync.render.plan_top import alerts
from petsync.render.records import of_change, of_sheet_change
from petsync.render.round_cells import more, open_said, reason, round_badge, typed
from petsync.render.round_opens import gathered, sentence

__all__ = ["STYLES", "records_table", "round_page", "rounds_page", "section", "two_columns"]

STYLES = (markup.FRAGMENT_STYLE, "plan.css", "round.css")
_MOST = 1_000
"""So many rows of each sort a page has; the JSON beside it has all."""
_ALIKE = 20
_HEADS = ("Kind", "Id", "Pet", "What", "Where")
_COLUMNS = ("ps-kind", "ps-id", "ps-name", "ps-what", "ps-where")
_NAMES: Mapping[said.Kind, str] = {
    "conflict": "Conflict",
    "waiting": "Waits",
    "failed": "Failed",
    "finding": "Error",
    "drift": "Differs",
    "note": "Left",
}


def round_page(told: RoundReport) -> str:
    """The round as a whole HTML document that loads nothing and leads nowhere."""
    title = f"{told.round.name}: {said.ENDS[told.round.status].title}"
    body = ('<main class="petsync ps-page">', *_parts(told), "</main>")
    return document("\n".join(filter(None, body)), title, styles=STYLES)


def rounds_page(rounds: Sequence[RoundReport]) -> str:
    """Several rounds, one below the other, as such a document; of one, its own page."""
    if len(rounds) == 1:
        return round_page(rounds[0])
    parts = (part for n, told in enumerate(rounds) for part in _parts(told, f"round-{n}-"))
    inner = parts if rounds else (markup.summary("No round was made."),)
    body = ('<main class="petsync ps-page">', *inner, "</main>")
    return document("\n".join(filter(None, body)), "petsync rounds", styles=STYLES)


def _parts(told: RoundReport, prefix: str = "") -> Iterator[str]:
    round_ = told.round
    yield "<header>"
    kicker = f"petsync round, {words.moment(round_.started)}"
    yield element("p", text(kicker), class_="ps-kicker")
    yield element("h1", f"{bdi(round_.name)} {round_badge(round_)}")
    yield markup.summary(said.headline(round_))
    yield "</header>"
    yield reason(round_)
    if told.plan is not None or round_.drift:
        yield element("ul", "".join(_tiles(round_)), class_="ps-tiles")
    yield section(f"{prefix}do", "What can be done", _commands(round_))
    yield section(f"{prefix}about", "About this round", two_columns(said.facts(told)))
    for kind, found in said.by_kind(told.open).items():
        title = capital(said.open_title(kind, len(found)))
        yield section(f"{prefix}open-{kind}", title, _opens(kind, found, round_))
    yield section(f"{prefix}store", "What the store was to take", _for_store(told))
    yield section(f"{prefix}sheet", "What the sheet was to take", _for_sheet(told))


def section(name: str, title: str, inner: str) -> str:
    """A part of a page under its heading (text); "" where there is nothing in it."""
    if not inner:
        return ""
    head = element("h2", text(title), id=name)
    return element("section", head + inner, class_="ps-part", aria_labelledby=name)


def two_columns(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values (texts) side by side."""
    pairs = (
        element("div", element("dt", text(name)) + element("dd", bdi(value)))
        for name, value in facts
    )
    return element("dl", "".join(pairs), class_="ps-about")


def _tiles(round_: Round) -> Iterator[str]:
    yield _tile("note", round_.drift, "not in agreement at first")
    yield _tile("update", round_.to_store.total, "for the store")
    yield _tile("update", round_.to_sheet.total, "for the sheet")
    yield _tile("add", round_.applied, "arrived")
    for kind, total in said.left_open(round_):
        if total:
            yield _tile(said.MARKS[kind], total, said.LEFT[kind][total != 1])


def _tile(kind: str, total: int, name: str) -> str:
    inner = element("strong", words.number(total)) + text(f" {name}")
    return element("li", element("span", inner), class_=f"ps-{kind}" if total else "ps-none")


def _commands(round_: Round) -> str:
    found = list(said.commands(round_))
    if not found:
        return ""
    pairs = (
        element("div", element("dt", text(capital(purpose))) + element("dd", typed(line_)))
        for purpose, line_ in found
    )
    return element("p", text(said.TYPED), class_="ps-kept") + element(
        "dl", "".join(pairs), class_="ps-about"
    )


def _opens(kind: said.Kind, found: Sequence[Open], round_: Round) -> str:
    about = f"{capital(said.kept_title(kind))}. {said.way_out(kind, round_)}"
    many, few = gathered(found, _ALIKE)
    parts = [
        element("p", prose(about), class_="ps-kept"),
        *(markup.folding(sentence(*alike), _listed(kind, alike[1])) for alike in many),
        _few(kind, few),
    ]
    return "".join(parts)


def _few(kind: said.Kind, found: Sequence[Open]) -> str:
    """Those that stand by themselves. What waits is part of the plans below, and folded here."""
    listed = _listed(kind, found) if found else ""
    is_long = kind == "waiting" and len(found) > _ALIKE
    return markup.folding("One by one", listed) if is_long else listed


def _listed(kind: said.Kind, found: Sequence[Open]) -> str:
    listing = first(found, _MOST)
    rows = (_open(kind, each) for each in listing.shown)
    table = records_table(_HEADS, rows, said.open_title(kind, len(found)))
    return table + more(listing.more)


def _open(kind: said.Kind, each: Open) -> str:
    shown = badge(words.SYMBOL[said.MARKS[kind]], _NAMES[kind])
    pet = "" if each.pet_id is None else str(each.pet_id)
    return line(said.MARKS[kind], shown, pet, each.name, open_said(each), each.address)


def _for_store(told: RoundReport) -> str:
    plan = told.plan
    if plan is None:
        return ""
    results = () if told.report is None else told.report.results
    became = {result.number: result for result in results}
    held = clashing(plan)
    listing = first(plan.changes, _MOST)
    rows = (_change(c, held.get(c.row), became.get(n)) for n, c in enumerate(listing.shown))
    # What a guard refuses stands at the top, with the way out that this job has.
    told_first = alerts(plan) if plan.verdict.ok else ()
    inner = "".join(told_first) + element("p", prose(said.store_said(told)))
    if not plan.changes:
        return inner
    return inner + records_table(_HEADS, rows, "Changes for the store") + more(listing.more)


def _change(change: Change, held: Conflict | None, became: Result | None) -> str:
    """The change, and below it what became of it where that is not what was planned."""
    record = of_change(change, held if change.kind == "update" else None)
    if became is None or (became.outcome == "applied" and not became.message):
        return page_row(record)
    told = words.sentences(
        f"{became.outcome}: {became.message}" if became.message else became.outcome
    )
    mark = words.OUTCOME_MARK[became.outcome]
    said_ = what(record) + element("p", prose(capital(told)), class_=f"ps-became ps-{mark}")
    return page_row(record, said_)


def _for_sheet(told: RoundReport) -> str:
    if not told.sheet:
        return ""
    listing = first(told.sheet, _MOST)
    rows = (page_row(of_sheet_change(each)) for each in listing.shown)
    inner = element("p", text(said.sheet_said(told)))
    return inner + records_table(_HEADS, rows, "Changes for the sheet") + more(listing.more)


def records_table(heads: Sequence[str], rows: Iterable[str], caption: str) -> str:
    """A table of rows (`<tr>`) that becomes cards where it is narrow, which is why its parts name
    their roles.
    """
    titles = "".join(
        element("th", text(head), scope="col", role="columnheader", class_=kind)
        for head, kind in zip(heads, _COLUMNS, strict=True)
    )
    return (
        '<table class="ps-table" role="table">'
        + element("caption", text(caption), class_="ps-hidden")
        + f'<thead role="rowgroup"><tr role="row">{titles}</tr></thead>\n'
        + f'<tbody role="rowgroup">\n{"".join(rows)}</tbody></table>'
    )
