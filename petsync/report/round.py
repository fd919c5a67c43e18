"""A round as text, HTML and cells."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from petsync.plan.change import Change, Conflict
from petsync.plan.report import OUTCOMES, Result, RoundReport
from petsync.plan.rounds import Counts, Difference, Mode, Round, Status
from petsync.report import html, words
from petsync.report import text as lines
from petsync.report.html import alert, bdi, capital, document, element, prose, table_cell, text
from petsync.report.plan import alerts, badge, line, of_change, of_sheet_change, page_row, what
from petsync.report.words import (
    Mark,
    alike,
    clashing,
    count,
    duration,
    first,
    moment,
    number,
    sentences,
    shorten,
)
from petsync.table.cells import visible

__all__ = [
    "ENDS",
    "LEFT",
    "LEVELS",
    "MARKS",
    "MODES",
    "STYLES",
    "TYPED",
    "Command",
    "Gathered",
    "Kind",
    "Level",
    "StatusWords",
    "about",
    "brief",
    "brief_of",
    "by_kind",
    "commands",
    "describe_written",
    "facts",
    "fields_of",
    "format_counts",
    "format_planned",
    "gather_alike",
    "headline",
    "is_of_query",
    "kept_title",
    "left_open",
    "list_lines",
    "more",
    "open_said",
    "open_title",
    "reason",
    "reason_cell",
    "records_table",
    "render_command",
    "round_badge",
    "round_html",
    "round_lines",
    "round_page",
    "rounds_html",
    "rounds_lines",
    "rounds_page",
    "section",
    "sentence",
    "sheet_said",
    "sides_said",
    "store_said",
    "two_columns",
    "way_out",
]


# What is said of rounds, whatever the format: how they ended, what they left, and what to type.


Level = Literal["well", "look", "bad"]
LEVELS: Mapping[Level, Mark] = {"well": "applied", "look": "warning", "bad": "blocked"}
"""How much a person has to do with it, and the mark that says so."""
Kind = Literal["conflict", "waiting", "failed", "finding", "drift", "note"]


class StatusWords(NamedTuple):
    """A status in words: its name, how much it matters, and its sign where there is no colour."""

    title: str
    level: Level
    sign: str


ENDS: Mapping[Status, StatusWords] = {
    "in-sync": StatusWords("In sync", "well", "="),
    "done": StatusWords("Done", "well", "="),
    "drift": StatusWords("Differences", "look", "~"),
    "findings": StatusWords("Errors in the sheet", "look", "!"),
    "conflicts": StatusWords("Conflicts", "look", "!"),
    "waiting": StatusWords("Waiting for a person", "look", "?"),
    "locked": StatusWords("Not its turn", "look", "-"),
    "failed-rows": StatusWords("Changes failed", "bad", "x"),
    "interrupted": StatusWords("Interrupted", "bad", "x"),
    "refused": StatusWords("Refused", "bad", "x"),
    "error": StatusWords("Failed", "bad", "x"),
}
MODES: Mapping[Mode, str] = {
    "push": "push: the sheet leads",
    "pull": "pull: the store leads",
    "two-way": "two-way: both sides merge",
    "check": "check: nothing is changed",
}
TYPED = "To be typed in the folder of petsync.toml:"
LEFT: Mapping[Kind, tuple[str, str]] = {
    "conflict": ("conflict", "conflicts"),
    "waiting": ("difference that waits", "differences that wait"),
    "failed": ("change that did not arrive", "changes that did not arrive"),
    "finding": ("error in the sheet", "errors in the sheet"),
    "drift": ("difference", "differences"),
    "note": ("note", "notes"),
}
"""What a round leaves, what needs a person first."""
MARKS: Mapping[Kind, Mark] = {
    "conflict": "conflict",
    "waiting": "warning",
    "failed": "blocked",
    "finding": "blocked",
    "drift": "update",
    "note": "note",
}
"""The mark of each kind of difference."""
_KEPT: Mapping[Kind, str] = {
    "conflict": "a person has to decide; until then both sides stay as they are",
    "waiting": "part of a plan over its guard's limits",
    "failed": "sent, or meant to be sent",
    "finding": "these rows are kept out, the others are not",
    "drift": "between sheet and store",
    "note": "what is left as it is, mostly as the job's settings say",
}
_WAYS: Mapping[Kind, str] = {
    "conflict": "Do what the line says. Where both sides changed a field, write the same on both, "
    "or set on_conflict for the job; it decides fields, not whole rows.",
    "waiting": "Look at the plan, and release it or fix the sheet: a plan whose reason is gone "
    "goes away by itself.",
    "failed": "The next round tries again.",
    "finding": "Fix the cell; `petsync check` names each with a suggestion.",
    "drift": "The next round takes it up.",
    "note": "Nothing is to be done, unless it should be otherwise.",
}
_COUNTED: Mapping[Status, Kind] = {
    "drift": "drift",
    "findings": "finding",
    "conflicts": "conflict",
    "failed-rows": "failed",
}
"""How a round ends by the number of what it left."""
_AGAIN: Sequence[Status] = ("error", "failed-rows", "interrupted", "locked")
"""What another try may fix."""
_SETTLED = "The job is of the mode check: nothing changes them but another job, or a person."
_REHEARSED = "A round without --dry-run does it."
_HELD = "A round without --dry-run keeps the plan as a file, and waits until a person releases it."
_REFUSED = "Nothing of it is done, in this round or the next, until what refuses it is fixed."
_QUERIED = "Fix it where the query finds it."


class Command(NamedTuple):
    """What can be typed, and what for."""

    purpose: str
    line: str


def headline(round_: Round) -> str:
    """How the round ended, in one sentence or two."""
    rest = "This was a dry run: nothing was changed." if round_.dry_run else ""
    own = _COUNTED.get(round_.status)
    others = brief_of([[(kind, n) for kind, n in left_open(round_) if kind != own]])
    besides = f"Besides: {others}" if others else ""
    return sentences(f"{ENDS[round_.status].title}: {_ended_words(round_)}", besides, rest)


def _ended_words(round_: Round) -> str:
    if round_.status == "done":
        arrived = (
            f"{count(round_.applied, 'change')} made" if round_.applied else "nothing to change"
        )
        return f"{arrived}, and sheet and store agree{_but(round_.notes)}"
    differences = count(round_.left, "difference")
    if round_.status == "drift" and round_.mode != "check" and not round_.dry_run:
        return f"{differences} came up while the round was at work"
    if round_.dry_run and round_.status == "waiting":
        return "the plan is over its limits, so a round would wait until somebody releases it"
    said = {
        "in-sync": f"sheet and store agree{_but(round_.notes)}",
        "drift": f"{differences} between sheet and store",
        "findings": f"{count(round_.findings, 'row')} of the sheet cannot be used as "
        f"{'it stands' if round_.findings == 1 else 'they stand'}",
        "conflicts": f"{count(round_.conflicts, 'conflict')}, which a person has to decide",
        "failed-rows": f"{count(round_.failed, 'change')} did not arrive",
        "waiting": "the plan is over its limits, and nothing is done until somebody releases it",
        "refused": "nothing is done, and nobody can release it",
        "locked": "another round of this job was at work, so that this one did nothing",
        "interrupted": "it was cut off, and the next round finishes what it began",
        "error": "the round could not be done",
    }
    return said[round_.status]


def _but(notes: int) -> str:
    return f", but for {_format_total('note', notes)}" if notes else ""


def reason(round_: Round) -> str:
    """Why it ended so, and the way out; "" if the headline and what is open say it."""
    if round_.status in _COUNTED:
        return ""
    problem, hint = visible(round_.problem, keep="\n"), visible(round_.hint, keep="\n")
    return sentences(capital(problem), capital(hint))


def facts(told: RoundReport) -> Iterator[tuple[str, str]]:
    """What was reconciled, how, and when; visible."""
    round_ = told.round
    mode = MODES[round_.mode]
    yield "mode", f"{mode} (dry run)" if round_.dry_run else mode
    if round_.store:
        yield "store", f"{visible(round_.store)}{_size(round_.pets, 'pet')}"
    if round_.source:
        yield "sheet", f"{visible(round_.source)}{_size(round_.rows, 'row')}"
    yield "begun", f"{moment(round_.started)}, took {duration(round_.seconds)}"
    if round_.resumed:
        yield "resumed", f"{count(round_.resumed, 'run')} that an earlier round had left"
    if round_.backup:
        yield "backup", f"{visible(round_.backup)}, the sheet as it was"
    yield "round", visible(round_.id)


def _size(total: int, noun: str) -> str:
    """` (1,240 pets)`; nothing if a round did not come as far as to know."""
    return f" ({count(total, noun)})" if total else ""


def format_counts(counts: Counts) -> str:
    """`+3 ~12 -1`, "0" for nothing: adds, updates, deletes."""
    parts = (("+", counts.add), ("~", counts.update), ("-", counts.delete))
    return " ".join(f"{sign}{number(n)}" for sign, n in parts if n) or "0"


def format_planned(round_: Round, counts: Counts) -> str:
    """The same of one side of a round, in brackets where nothing of it was made. A check is never
    to change anything.
    """
    told = format_counts(Counts() if round_.mode == "check" else counts)
    return told if told == "0" or round_.applied else f"({told})"


def sides_said(round_: Round) -> Iterator[tuple[str, str]]:
    """What was planned for either side, and how much arrived."""
    yield "for the store", _describe_counts(round_.to_store)
    yield "for the sheet", _describe_counts(round_.to_sheet)
    if total := round_.to_store.total + round_.to_sheet.total:
        yield "arrived", f"{number(round_.applied)} of {number(total)}"


def _describe_counts(counts: Counts) -> str:
    if not counts.total:
        return "nothing"
    parts = (("to add", counts.add), ("to change", counts.update), ("to delete", counts.delete))
    return ", ".join(f"{number(total)} {what}" for what, total in parts if total)


def left_open(round_: Round) -> Iterator[tuple[Kind, int]]:
    """How many of each kind the round left for a person or the next round."""
    yield "conflict", round_.conflicts
    yield "finding", round_.findings
    yield "failed", round_.failed
    yield "drift", round_.left


def brief(round_: Round) -> str:
    """`2 conflicts, 1 error in the sheet`; "" if nothing is open."""
    return brief_of([left_open(round_)])


def brief_of(lefts: Iterable[Iterable[tuple[Kind, int]]]) -> str:
    """The same of several rounds, added up."""
    totals = Counter[Kind]()
    for left in lefts:
        totals.update(dict(left))
    return ", ".join(_format_total(kind, total) for kind, total in totals.items() if total)


def _format_total(kind: Kind, total: int) -> str:
    return f"{number(total)} {LEFT[kind][total != 1]}"


def open_title(kind: Kind, total: int) -> str:
    """`2 conflicts`."""
    return _format_total(kind, total)


def kept_title(kind: Kind) -> str:
    """Why such a difference stands, to go on from its title."""
    return _KEPT[kind]


def fields_of(each: Difference) -> str:
    """The fields that it is about, "" if what is said of it begins with them anyhow."""
    if each.fields and each.problem.startswith(f"{each.fields[0]}:"):
        return ""
    return ", ".join(each.fields)


def by_kind(opens: Sequence[Difference]) -> dict[Kind, list[Difference]]:
    """The differences by their kinds, what needs a person first; only kinds that there are."""
    groups: dict[Kind, list[Difference]] = {kind: [] for kind in LEFT}
    for each in opens:
        groups[each.kind].append(each)
    return {kind: found for kind, found in groups.items() if found}


def way_out(kind: Kind, round_: Round) -> str:
    """What can be done about a kind of difference that this round left."""
    own: tuple[tuple[Kind, bool, str], ...] = (
        ("drift", round_.mode == "check", _SETTLED),
        ("drift", round_.status == "refused", _REFUSED),
        ("drift", round_.dry_run, _REHEARSED),
        ("waiting", round_.dry_run, _HELD),
        ("finding", is_of_query(round_), _QUERIED),
    )
    return next((said for of, holds, said in own if of == kind and holds), _WAYS[kind])


def is_of_query(round_: Round) -> bool:
    """Whether its rows are no file's."""
    return round_.source == "query" or round_.source.startswith("query of ")


def store_said(told: RoundReport) -> str:
    """What became of the plan for the store as a whole."""
    plan, report = told.plan, told.report
    if plan is None or not plan.changes:
        return "The store was to take nothing."
    if report is not None:
        # Rows of which nothing was to be sent are told by themselves.
        became = Counter(each.outcome for each in report.results if each.kind != "none")
        told_ = (f"{number(became[o])} {o}" for o in OUTCOMES if became[o] or o == "applied")
        return sentences(f"Sent by run {visible(report.run_id)}: {', '.join(told_)}")
    return "Nothing of it was sent" + (": the plan waits." if told.round.waiting else ".")


def sheet_said(told: RoundReport) -> str:
    """What became of the sheet's changes as a whole."""
    if told.round.backup:
        backup = visible(told.round.backup)
        return f"Written: {describe_written(told)}; as it was before, the sheet is {backup}."
    if told.round.dry_run or told.round.mode == "check":
        return "Nothing was written."
    return "The sheet that was there is in no backup: it was not written, or it is new."


def describe_written(told: RoundReport) -> str:
    """What the sheet took: `3 rows change (4 cells that said something else), 1 row is new`."""
    kinds = Counter(change.kind for change in told.sheet)
    over = sum(
        bool(old) for each in told.sheet if each.kind == "update" for old, _ in each.values.values()
    )
    results = () if told.report is None else told.report.results
    ids = sum(
        each.assigned_id is not None and each.row is not None and each.cause != "named-id"
        for each in results
    )
    cells = f" ({count(over, 'cell')} that said something else)" if over else ""
    parts = (
        (kinds["update"], f"changed{cells}"),
        (kinds["add"], "new"),
        (kinds["delete"], "taken out"),
        (ids, "with the id of a new pet"),
    )
    said = [f"{count(total, 'row')} {what}" for total, what in parts if total]
    return ", ".join(said) or "ids of pets that rows lacked"


def commands(round_: Round) -> Iterator[Command]:
    """What a person can type now: for the plan that waits, the sheet, the runs, the job."""
    if round_.waiting:
        yield Command(
            "look at the plan, and release it", f"petsync apply {_quote_argument(round_.waiting)}"
        )
    if round_.findings and round_.source and not is_of_query(round_):
        yield Command("every error in the sheet", f"petsync check {_quote_argument(round_.source)}")
    for run in round_.runs:
        yield Command("what a run did", f"petsync runs {_quote_argument(run)}")
        yield Command("take it back", f"petsync undo {_quote_argument(run)}")
    if round_.status in _AGAIN:
        again = f"petsync reconcile --job {_quote_argument(round_.job)}"
        yield Command("the job once more", f"{again} --dry-run" if round_.dry_run else again)


def _quote_argument(text: str) -> str:
    return shlex.quote(visible(text))


# The parts of a round's HTML that a notebook's cell and a page have in common.


def round_badge(round_: Round) -> str:
    """How the round ended: a sign and words, and a colour besides."""
    end = ENDS[round_.status]
    return badge(end.sign, end.title, kind=f"ps-{end.level}")


def reason_cell(round_: Round) -> str:
    """Why it ended so, where there is anything to say."""
    lines = [prose(line) for line in reason(round_).splitlines()]
    if not lines:
        return ""
    kind = "ps-refused" if ENDS[round_.status].level == "bad" else ""
    return alert("To know" if round_.is_well else "Why", lines, kind=kind)


def open_said(each: Difference) -> str:
    """What is the matter with it, in which fields, and the way out."""
    named = fields_of(each)
    fields = element("span", f"{text(named)}:", class_="ps-field") if named else ""
    what = f"{fields} {prose(words.sentences(capital(each.problem)))}".strip()
    way = element("p", prose(each.hint), class_="ps-cure") if each.hint else ""
    return element("p", what) + way


def render_command(line: str) -> str:
    """What is to be typed."""
    return element("code", text(line))


def more(total: int) -> str:
    """How many were left out, if any were."""
    return element("p", f"... and {words.number(total)} more") if total else ""


# Differences that a round left, those of which the same is said together.


_NAMED = 3
_NAME = 30
Gathered = list[tuple[str, list[Difference]]]
"""What is said, and of which differences."""


def gather_alike(found: Sequence[Difference], most: int) -> tuple[Gathered, list[Difference]]:
    """What is said of more than `most` of these differences, and those that stand by themselves.

    Only what the job's settings leave is gathered: of all else a person wants to see each.
    """
    groups = alike(found, lambda each: each.problem if each.kind == "note" else "")
    many = [(problem, group) for problem, group in groups if problem and len(group) > most]
    over = {problem for problem, _ in many}
    return many, [each for each in found if each.kind != "note" or each.problem not in over]


def sentence(problem: str, group: Sequence[Difference]) -> str:
    """`Is in the store, and in no row: 1,241 of them, such as pet 7 (Rex), pet 8 (Tom)`."""
    such = ", ".join(about(each) for each in group[:_NAMED])
    said = capital(visible(problem)).rstrip(".")
    return f"{said}: {number(len(group))} of them, such as {such}"


def about(each: Difference) -> str:
    """`pet 7 (Rex)`, or the name alone, or where it stands."""
    pet = "" if each.pet_id is None else f"pet {each.pet_id}"
    name = shorten(visible(each.name), _NAME)
    return f"{pet} ({name})" if pet and name else pet or name or visible(each.address)


# A round's report as a page of its own: how it ended first, then what to do, then all of it.


STYLES = (html.FRAGMENT_STYLE, "plan.css", "round.css")
_MOST = 1_000
"""So many rows of each sort a page has; the JSON beside it has all."""
_ALIKE = 20
_HEADS_PAGE = ("Kind", "Id", "Pet", "What", "Where")
_COLUMNS = ("ps-kind", "ps-id", "ps-name", "ps-what", "ps-where")
_NAMES: Mapping[Kind, str] = {
    "conflict": "Conflict",
    "waiting": "Waits",
    "failed": "Failed",
    "finding": "Error",
    "drift": "Differs",
    "note": "Left",
}


def round_page(told: RoundReport) -> str:
    """The round as a whole HTML document that loads nothing and leads nowhere."""
    title = f"{told.round.name}: {ENDS[told.round.status].title}"
    body = ('<main class="petsync ps-page">', *_parts_page(told), "</main>")
    return document("\n".join(filter(None, body)), title, styles=STYLES)


def rounds_page(rounds: Sequence[RoundReport]) -> str:
    """Several rounds, one below the other, as such a document; of one, its own page."""
    if len(rounds) == 1:
        return round_page(rounds[0])
    parts = (part for n, told in enumerate(rounds) for part in _parts_page(told, f"round-{n}-"))
    inner = parts if rounds else (html.summary("No round was made."),)
    body = ('<main class="petsync ps-page">', *inner, "</main>")
    return document("\n".join(filter(None, body)), "petsync rounds", styles=STYLES)


def _parts_page(told: RoundReport, prefix: str = "") -> Iterator[str]:
    round_ = told.round
    yield "<header>"
    kicker = f"petsync round, {words.moment(round_.started)}"
    yield element("p", text(kicker), class_="ps-kicker")
    yield element("h1", f"{bdi(round_.name)} {round_badge(round_)}")
    yield html.summary(headline(round_))
    yield "</header>"
    yield reason_cell(round_)
    if told.plan is not None or round_.drift:
        yield element("ul", "".join(_tiles(round_)), class_="ps-tiles")
    yield section(f"{prefix}do", "What can be done", _commands_page(round_))
    yield section(f"{prefix}about", "About this round", two_columns(facts(told)))
    for kind, found in by_kind(told.open).items():
        title = capital(open_title(kind, len(found)))
        yield section(f"{prefix}open-{kind}", title, _opens_page(kind, found, round_))
    yield section(f"{prefix}store", "What the store was to take", _for_store(told))
    yield section(f"{prefix}sheet", "What the sheet was to take", _for_sheet(told))


def section(name: str, title: str, inner: str) -> str:
    """A part of a page under its heading (text); "" if there is nothing in it."""
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
    for kind, total in left_open(round_):
        if total:
            yield _tile(MARKS[kind], total, LEFT[kind][total != 1])


def _tile(kind: str, total: int, name: str) -> str:
    inner = element("strong", words.number(total)) + text(f" {name}")
    return element("li", element("span", inner), class_=f"ps-{kind}" if total else "ps-none")


def _commands_page(round_: Round) -> str:
    found = list(commands(round_))
    if not found:
        return ""
    pairs = (
        element("div", element("dt", text(capital(purpose))) + element("dd", render_command(line_)))
        for purpose, line_ in found
    )
    return element("p", text(TYPED), class_="ps-kept") + element(
        "dl", "".join(pairs), class_="ps-about"
    )


def _opens_page(kind: Kind, found: Sequence[Difference], round_: Round) -> str:
    about = f"{capital(kept_title(kind))}. {way_out(kind, round_)}"
    many, few = gather_alike(found, _ALIKE)
    parts = [
        element("p", prose(about), class_="ps-kept"),
        *(html.folding(sentence(*alike), _render_open_table(kind, alike[1])) for alike in many),
        _few(kind, few),
    ]
    return "".join(parts)


def _few(kind: Kind, found: Sequence[Difference]) -> str:
    """Those that stand by themselves. What waits is part of the plans below, and folded here."""
    listed = _render_open_table(kind, found) if found else ""
    is_long = kind == "waiting" and len(found) > _ALIKE
    return html.folding("One by one", listed) if is_long else listed


def _render_open_table(kind: Kind, found: Sequence[Difference]) -> str:
    listing = first(found, _MOST)
    rows = (_open_page(kind, each) for each in listing.shown)
    table = records_table(_HEADS_PAGE, rows, open_title(kind, len(found)))
    return table + more(listing.more)


def _open_page(kind: Kind, each: Difference) -> str:
    shown = badge(words.SYMBOL[MARKS[kind]], _NAMES[kind])
    pet = "" if each.pet_id is None else str(each.pet_id)
    return line(MARKS[kind], shown, pet, each.name, open_said(each), each.address)


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
    inner = "".join(told_first) + element("p", prose(store_said(told)))
    if not plan.changes:
        return inner
    return inner + records_table(_HEADS_PAGE, rows, "Changes for the store") + more(listing.more)


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
    inner = element("p", text(sheet_said(told)))
    return inner + records_table(_HEADS_PAGE, rows, "Changes for the sheet") + more(listing.more)


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


# Rounds as HTML: fragments for a notebook's cell, and the page that a round leaves behind.


_OPEN = ("", "Id", "Pet", "What is the matter", "Where")
_ROUNDS = ("", "Status", "Job", "For the store", "For the sheet", "Difference", "Took")


def round_html(told: RoundReport, *, limit: int | None = 20) -> str:
    """The round with the first `limit` of each kind of difference that it left."""
    return html.fragment(_parts_html(told, limit))


def rounds_html(rounds: Sequence[RoundReport], *, limit: int | None = 5) -> str:
    """A table of the rounds, and below it each that needs a person."""
    return html.fragment(_rounds(rounds, limit))


def _parts_html(told: RoundReport, limit: int | None) -> Iterator[str]:
    round_ = told.round
    yield html.summary(f"{round_.name}. {headline(round_)}")
    yield reason_cell(round_)
    yield html.facts([*facts(told), *sides_said(round_)])
    for kind, found in by_kind(told.open).items():
        yield _opens_html(kind, found, round_, limit)
    for command in commands(round_):
        yield element("p", f"{text(capital(command.purpose))}: {render_command(command.line)}")


def _opens_html(kind: Kind, found: Sequence[Difference], round_: Round, limit: int | None) -> str:
    title = f"{open_title(kind, len(found))}: {kept_title(kind)}"
    way = element("p", prose(way_out(kind, round_)), class_="ps-kept")
    listing = first(found, limit)
    table = html.table(_OPEN, map(partial(_open_html, kind), listing.shown))
    is_open = len(listing.shown) <= html.fold_over(limit) and kind != "note"
    return html.folding(title, way + table + more(listing.more), open_=is_open)


def _open_html(kind: Kind, each: Difference) -> str:
    return html.row(
        MARKS[kind],
        table_cell("" if each.pet_id is None else str(each.pet_id), kind="ps-number"),
        html.row_head(each.name) if each.name else table_cell(""),
        element("td", open_said(each), class_="ps-what"),
        table_cell(each.address, kind="ps-where"),
    )


def _rounds(rounds: Sequence[RoundReport], limit: int | None) -> Iterator[str]:
    if not rounds:
        yield html.summary("No round was made.")
        return
    yield html.table(_ROUNDS, (_round(told.round) for told in rounds))
    for told in rounds:
        if not told.round.is_well:
            inner = "\n".join(filter(None, _parts_html(told, limit)))
            yield html.folding(told.round.name, inner)


def _round(round_: Round) -> str:
    end = ENDS[round_.status]
    return html.row(
        LEVELS[end.level],
        table_cell(end.title),
        html.row_head(round_.name),
        table_cell(format_planned(round_, round_.to_store)),
        table_cell(format_planned(round_, round_.to_sheet)),
        table_cell(brief(round_)),
        table_cell(words.duration(round_.seconds), kind="ps-number"),
    )


# Rounds as lines: one with all that it left, and several as a table with what needs a person.


_FEW = 20
_JOB = 12
_ID = 22
"""Of an id, the moment: rounds are found by their beginning."""
_HEADS_TEXT = ("status", "job", "to store", "to sheet", "took")
_UNMADE = "(in brackets: planned, and not made)"
_ALL = "All of it: `--limit 0`, or as a page with `--report FILE.html`."
_WELL = "Nothing needs a person."


def round_lines(told: RoundReport, width: int = 80, *, limit: int | None = 20) -> Iterator[Text]:
    """The round, and the first `limit` of each kind of difference that it left."""
    round_ = told.round
    yield Text(f"petsync round of {shorten(visible(round_.name), width - 17)}", "bold")
    yield from lines.facts(facts(told), width)
    yield lines.BLANK
    yield from lines.facts(sides_said(round_), width)
    yield from _opens_text(told, limit, width)
    yield from _commands_text(round_, width)
    yield lines.BLANK
    yield from _ended_text(round_, width)
    yield from _render_files([told], width)


def rounds_lines(
    rounds: Sequence[RoundReport], width: int = 80, *, limit: int | None = 5
) -> Iterator[Text]:
    """A table of the rounds, and of each that left anything the first `limit` of each kind.

    A command to be typed is one line, however long it is.
    """
    yield from list_lines([told.round for told in rounds], width)
    for told in rounds:
        if told.round.is_well and not told.open:
            continue
        yield from lines.heading(visible(told.round.name), width)
        yield from _ended_text(told.round, width, indent=2)
        yield from _opens_text(told, limit, width)
        if not told.round.is_well:
            yield from _commands_text(told.round, width)
    if rounds and all(told.round.is_well for told in rounds):
        yield lines.BLANK
        yield Text(_WELL)
    if any(told.round.dry_run and _is_long(told, limit) for told in rounds):
        yield from lines.heading(_ALL, width, style="dim")
    yield from _render_files(rounds, width)


def _is_long(told: RoundReport, limit: int | None) -> bool:
    groups = by_kind(told.open).values()
    return limit is not None and any(len(found) > limit for found in groups)


def _render_files(rounds: Sequence[RoundReport], width: int) -> Iterator[Text]:
    """What was written into sheets, where they are as they were before, and the reports."""
    for told in rounds:
        if told.round.backup:
            taken = (
                f"The sheet of {visible(told.round.name)}: {describe_written(told)}. Before it was:"
            )
            yield from lines.heading(taken, width, style="")
            yield from lines.wrap_keeping_paths(visible(told.round.backup), width, indent=2)
    if pages := [told.round.report for told in rounds if told.round.report]:
        yield from lines.heading(f"Report{'' if len(pages) == 1 else 's'}:", width, style="")
    for page in pages[:_FEW]:
        yield from lines.wrap_keeping_paths(visible(page), width, indent=2)
    yield from lines.more(len(pages[_FEW:]))


def list_lines(rounds: Sequence[Round], width: int = 80, *, begun: bool = False) -> Iterator[Text]:
    """A table of the rounds, a line each; with `begun`, with the moment at which each began, and
    the beginning of its id.
    """
    if not rounds:
        yield Text("No round was made.")
        return
    rows = [_cells(round_, begun=begun) for round_ in rounds]
    heads = (*(["round (begun, UTC)"] if begun else []), *_HEADS_TEXT)
    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    job = heads.index("job")
    spare = width - 2 * len(heads) - (sum(widths) - widths[job])
    widths[job] = min(widths[job], max(spare, _JOB))
    yield _line(heads, widths, "dim")
    for round_, row in zip(rounds, rows, strict=True):
        yield _line(row, widths, _style(round_))
    if any(cell.startswith("(") for row in rows for cell in row[-3:-1]):
        yield Text(f"  {_UNMADE}", "dim")


def _cells(round_: Round, *, begun: bool) -> tuple[str, ...]:
    end = ENDS[round_.status]
    return (
        *([shorten(visible(round_.id[:_ID]), _ID)] if begun else []),
        f"{end.sign} {end.title}{' (dry run)' if round_.dry_run else ''}",
        visible(round_.name),
        format_planned(round_, round_.to_store),
        format_planned(round_, round_.to_sheet),
        words.duration(round_.seconds),
    )


def _line(cells: Sequence[str], widths: Sequence[int], style: str) -> Text:
    fitted = [shorten(text, width) for text, width in zip(cells, widths, strict=True)]
    padded = (t + " " * (w - cell_len(t)) for t, w in zip(fitted, widths, strict=True))
    return Text(f"  {'  '.join(padded)}".rstrip(), style)


def _style(round_: Round) -> str:
    return lines.STYLE[LEVELS[ENDS[round_.status].level]]


def _ended_text(round_: Round, width: int, *, indent: int = 0) -> Iterator[Text]:
    style = "bold" if round_.is_well else f"bold {_style(round_)}"
    yield from lines.paragraph(headline(round_), width, indent=indent, style=style)
    if why := reason(round_):
        for line in why.splitlines():
            yield from lines.wrap_keeping_paths(line, width, indent=indent)


def _opens_text(told: RoundReport, limit: int | None, width: int) -> Iterator[Text]:
    for kind, found in by_kind(told.open).items():
        title = f"{open_title(kind, len(found))}: {kept_title(kind)}"
        yield from lines.heading(title, width)
        yield from lines.paragraph(way_out(kind, told.round), width, indent=2, style="dim")
        many, few = gather_alike(found, _FEW if limit is None else limit)
        for problem, group in many:
            yield from lines.item(MARKS[kind], f"{sentence(problem, group)}.", width)
        listing = first(few, limit)
        for each in listing.shown:
            yield from lines.item(MARKS[kind], visible(_describe_open(each)), width)
        yield from lines.more(listing.more)


def _describe_open(each: Difference) -> str:
    """`Pets!B18, pet 17 (Bella), name: what is the matter. What to do`."""
    whole = [each.address, about(each), fields_of(each)]
    place = ", ".join(dict.fromkeys(filter(None, whole)))
    return ": ".join(filter(None, (place, words.sentences(each.problem, each.hint))))


def _commands_text(round_: Round, width: int) -> Iterator[Text]:
    found = list(commands(round_))
    if not found:
        return
    yield from lines.heading(TYPED, width, style="")
    for command in found:
        yield Text(f"  {command.line}", "bold")
        yield from lines.paragraph(command.purpose, width, indent=6, style="dim")
