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
from petsync.plan.options import JOB_WINNER
from petsync.plan.report import OUTCOMES, Result, RoundReport
from petsync.plan.rounds import Counts, Difference, Mode, Round, Status
from petsync.report import html, words
from petsync.report import text as lines
from petsync.report.html import alert, bdi, capital, document, element, prose, table_cell, text
from petsync.report.plan import (
    alerts,
    badge,
    of_change,
    of_sheet_change,
    page_line,
    page_row,
    record_html,
)
from petsync.report.words import (
    Mark,
    clashes_by_row,
    count,
    duration,
    first,
    format_timestamp,
    group_by_text,
    number,
    sentences,
    shorten,
)
from petsync.table.cells import make_visible

__all__ = [
    "COMMANDS_TITLE",
    "KIND_NAMES",
    "LEVELS",
    "MARKS",
    "MODE_WORDS",
    "OPEN_FIELDS",
    "STATUS_WORDS",
    "STYLES",
    "Command",
    "DifferenceGroups",
    "Kind",
    "Level",
    "StatusWords",
    "by_kind",
    "commands",
    "cure_of_kind",
    "describe_sheet_result",
    "describe_store_result",
    "describe_written",
    "difference_html",
    "facts",
    "fields_of",
    "format_counts",
    "format_open",
    "format_open_total",
    "format_planned",
    "group_alike",
    "group_sentence",
    "headline",
    "is_from_query",
    "kind_meaning",
    "list_lines",
    "more_html",
    "open_counts",
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
    "side_facts",
    "subject_of",
    "two_columns",
]


# The words of rounds, for every format: status, open differences, commands.


Level = Literal["well", "look", "bad"]
LEVELS: Mapping[Level, Mark] = {"well": "applied", "look": "warning", "bad": "blocked"}
"""The mark of each level: `well` needs no action, `look` may need attention, `bad` needs
attention.
"""
Kind = Literal["conflict", "waiting", "failed", "finding", "drift", "note"]


class StatusWords(NamedTuple):
    """A status in words: its name, its importance, and its sign for a display without colours."""

    title: str
    level: Level
    sign: str


STATUS_WORDS: Mapping[Status, StatusWords] = {
    "in-sync": StatusWords("In sync", "well", "="),
    "done": StatusWords("Done", "well", "="),
    "drift": StatusWords("Differences", "look", "~"),
    "findings": StatusWords("Errors in the sheet", "look", "!"),
    "conflicts": StatusWords("Conflicts", "look", "!"),
    "waiting": StatusWords("Waiting for a person", "look", "?"),
    "locked": StatusWords("Skipped", "look", "-"),
    "failed-rows": StatusWords("Changes failed", "bad", "x"),
    "interrupted": StatusWords("Interrupted", "bad", "x"),
    "refused": StatusWords("Refused", "bad", "x"),
    "error": StatusWords("Failed", "bad", "x"),
}
MODE_WORDS: Mapping[Mode, str] = {
    "push": "push: the sheet's values are used",
    "pull": "pull: the store's values are used",
    "two-way": "two-way: both sides merge",
    "check": "check: nothing is changed",
}
COMMANDS_TITLE = "Commands, to be run in the folder of petsync.toml:"
KIND_NAMES: Mapping[Kind, tuple[str, str]] = {
    "conflict": ("conflict", "conflicts"),
    "waiting": ("difference waiting for release", "differences waiting for release"),
    "failed": ("change that was not applied", "changes that were not applied"),
    "finding": ("error in the sheet", "errors in the sheet"),
    "drift": ("difference", "differences"),
    "note": ("note", "notes"),
}
"""The names, singular and plural, of the differences that a round leaves; kinds that need attention
come first.
"""
MARKS: Mapping[Kind, Mark] = {
    "conflict": "conflict",
    "waiting": "warning",
    "failed": "blocked",
    "finding": "blocked",
    "drift": "update",
    "note": "note",
}
"""The mark of each kind of difference."""
_KIND_MEANING: Mapping[Kind, str] = {
    "conflict": "a decision is needed; until then both sides stay as they are",
    "waiting": "part of a plan over its guard's limits",
    "failed": "changes that failed or are not sent yet",
    "finding": "these rows are left out, the others are used",
    "drift": "between sheet and store",
    "note": "for information",
}
_KIND_CURE: Mapping[Kind, str] = {
    "conflict": "Do what the line says. If both sides changed a field, write the same value on "
    f"both sides, or set {JOB_WINNER} for the job; that option applies to fields, not to whole "
    "rows.",
    "waiting": "Look at the plan, and release it or fix the sheet: a plan that is not needed any "
    "more disappears.",
    "failed": "The next round tries again.",
    "finding": "Fix the cell; `petsync check` names each cell, with a suggestion.",
    "drift": "The next round handles this.",
    "note": "Nothing needs to be done.",
}
_KIND_OF_STATUS: Mapping[Status, Kind] = {
    "drift": "drift",
    "findings": "finding",
    "conflicts": "conflict",
    "failed-rows": "failed",
}
"""The kind of difference that causes a status."""
_RETRY_STATUSES: Sequence[Status] = ("error", "failed-rows", "interrupted", "locked")
"""Statuses that another try may fix."""
_CHECK_CURE = "The job has the mode check: only another job, or a person, can resolve differences."
_DRY_RUN_CURE = "A round without --dry-run makes the changes."
_WAITING_DRY_RUN_CURE = (
    "A round without --dry-run saves the plan as a file, and waits until a person releases it."
)
_REFUSED_CURE = (
    "Nothing is done, in this round or the next, until the reason for the refusal is fixed."
)
_QUERY_CURE = "Fix the data in the database that the query reads."


class Command(NamedTuple):
    """A command to enter, and its purpose."""

    purpose: str
    line: str


def headline(round_: Round) -> str:
    """Describe how the round ended, in one to three sentences."""
    dry_run_note = "This was a dry run: nothing was changed." if round_.dry_run else ""
    own_kind = _KIND_OF_STATUS.get(round_.status)
    others = format_open_total([[(kind, n) for kind, n in open_counts(round_) if kind != own_kind]])
    others_text = f"Besides: {others}" if others else ""
    return sentences(
        f"{STATUS_WORDS[round_.status].title}: {_describe_end(round_)}", others_text, dry_run_note
    )


def _describe_end(round_: Round) -> str:
    if round_.status == "done":
        changes = (
            f"{count(round_.applied, 'change')} made" if round_.applied else "nothing to change"
        )
        return f"{changes}, and sheet and store agree{_except_notes(round_.notes)}"
    differences = count(round_.unexplained, "difference")
    if round_.status == "drift" and round_.mode != "check" and not round_.dry_run:
        return f"{differences} appeared while the round was running"
    if round_.dry_run and round_.status == "waiting":
        return "the plan is over its limits, so a round would wait until it is released"
    texts = {
        "in-sync": f"sheet and store agree{_except_notes(round_.notes)}",
        "drift": f"{differences} between sheet and store",
        "findings": f"{count(round_.findings, 'error')} in the sheet "
        f"{'keeps' if round_.findings == 1 else 'keep'} rows from being used",
        "conflicts": f"{count(round_.conflicts, 'conflict')}, which "
        f"{'needs' if round_.conflicts == 1 else 'need'} a decision",
        "failed-rows": f"{count(round_.failed, 'change')} could not be applied",
        "waiting": "the plan is over its limits, and nothing is done until it is released",
        "refused": "nothing is done, and the plan cannot be released",
        "locked": "another round of this job was running, so this one did nothing",
        "interrupted": "it was interrupted, and the next round finishes what it started",
        "error": "the round could not be run",
    }
    return texts[round_.status]


def _except_notes(notes: int) -> str:
    return f", except for {_format_total('note', notes)}" if notes else ""


def reason(round_: Round) -> str:
    """Return the reason why the round ended this way, and a hint; "" if the headline and the
    differences already show it.
    """
    if round_.status in _KIND_OF_STATUS:
        return ""
    problem, hint = make_visible(round_.problem, keep="\n"), make_visible(round_.hint, keep="\n")
    return sentences(capital(problem), capital(hint))


def facts(round_report: RoundReport) -> Iterator[tuple[str, str]]:
    """Yield the facts of a round as printable text: mode, store, sheet, time, backup, id."""
    round_ = round_report.round
    mode = MODE_WORDS[round_.mode]
    yield "mode", f"{mode} (dry run)" if round_.dry_run else mode
    if round_.store:
        yield "store", f"{make_visible(round_.store)}{_size(round_.pets, 'pet')}"
    if round_.source:
        yield "sheet", f"{make_visible(round_.source)}{_size(round_.rows, 'row')}"
    yield "begun", f"{format_timestamp(round_.started)}, took {duration(round_.seconds)}"
    if round_.resumed:
        yield "resumed", f"{count(round_.resumed, 'run')} that an earlier round left unfinished"
    if round_.backup:
        yield "backup", f"{make_visible(round_.backup)}, the sheet before the round"
    yield "round", make_visible(round_.id)


def _size(total: int, noun: str) -> str:
    """Format a number in brackets: ` (1,240 pets)`; "" if the round ended before the number was
    known.
    """
    return f" ({count(total, noun)})" if total else ""


def format_counts(counts: Counts) -> str:
    """Format adds, updates and deletes: `+3 ~12 -1`, "0" for nothing."""
    parts = (("+", counts.add), ("~", counts.update), ("-", counts.delete))
    return " ".join(f"{sign}{number(n)}" for sign, n in parts if n) or "0"


def format_planned(round_: Round, counts: Counts) -> str:
    """Return the counts of one side of a round, in brackets if nothing was applied; "0" for a
    check.
    """
    round_report = format_counts(Counts() if round_.mode == "check" else counts)
    return round_report if round_report == "0" or round_.applied else f"({round_report})"


def side_facts(round_: Round) -> Iterator[tuple[str, str]]:
    """Yield the changes planned for each side, and the number that was applied."""
    yield "for the store", _describe_counts(round_.to_store)
    yield "for the sheet", _describe_counts(round_.to_sheet)
    if total := round_.to_store.total + round_.to_sheet.total:
        yield "arrived", f"{number(round_.applied)} of {number(total)}"


def _describe_counts(counts: Counts) -> str:
    if not counts.total:
        return "nothing"
    parts = (("to add", counts.add), ("to change", counts.update), ("to delete", counts.delete))
    return ", ".join(f"{number(total)} {what}" for what, total in parts if total)


OPEN_FIELDS: Mapping[Kind, str] = {
    "conflict": "conflicts",
    "finding": "findings",
    "failed": "failed",
    "drift": "unexplained",
}
"""The fields of a round with the numbers of differences that it left for the user or the next
round, by kind.
"""


def open_counts(round_: Round) -> Iterator[tuple[Kind, int]]:
    """Yield the number of differences of each kind that the round left for the user or the next
    round.
    """
    yield from ((kind, getattr(round_, field)) for kind, field in OPEN_FIELDS.items())


def format_open(round_: Round) -> str:
    """Format the open differences: `2 conflicts, 1 error in the sheet`; "" if nothing is open."""
    return format_open_total([open_counts(round_)])


def format_open_total(counts_of_rounds: Iterable[Iterable[tuple[Kind, int]]]) -> str:
    """Format the open differences of several rounds, added up."""
    totals = Counter[Kind]()
    for counts in counts_of_rounds:
        totals.update(dict(counts))
    return ", ".join(_format_total(kind, total) for kind, total in totals.items() if total)


def _format_total(kind: Kind, total: int) -> str:
    return f"{number(total)} {KIND_NAMES[kind][total != 1]}"


def open_title(kind: Kind, total: int) -> str:
    """Format a number of differences: `2 conflicts`."""
    return _format_total(kind, total)


def kind_meaning(kind: Kind) -> str:
    """Return the meaning of a kind of difference, as the continuation of its title."""
    return _KIND_MEANING[kind]


def fields_of(each: Difference) -> str:
    """Return the fields of the difference; "" if its problem already begins with them."""
    if each.fields and each.problem.startswith(f"{each.fields[0]}:"):
        return ""
    return ", ".join(each.fields)


def by_kind(differences: Sequence[Difference]) -> dict[Kind, list[Difference]]:
    """Return the differences by kind, those that need attention first; kinds without differences
    are left out.
    """
    groups: dict[Kind, list[Difference]] = {kind: [] for kind in KIND_NAMES}
    for each in differences:
        groups[each.kind].append(each)
    return {kind: members for kind, members in groups.items() if members}


def cure_of_kind(kind: Kind, round_: Round) -> str:
    """Return the cure for a kind of difference that this round left."""
    special_cases: tuple[tuple[Kind, bool, str], ...] = (
        ("drift", round_.mode == "check", _CHECK_CURE),
        ("drift", round_.status == "refused", _REFUSED_CURE),
        ("drift", round_.dry_run, _DRY_RUN_CURE),
        ("waiting", round_.dry_run, _WAITING_DRY_RUN_CURE),
        ("finding", is_from_query(round_), _QUERY_CURE),
    )
    return next(
        (cure for case_kind, applies, cure in special_cases if case_kind == kind and applies),
        _KIND_CURE[kind],
    )


def is_from_query(round_: Round) -> bool:
    """Return true if the rows come from a query instead of a file."""
    return round_.source == "query" or round_.source.startswith("query of ")


def describe_store_result(round_report: RoundReport) -> str:
    """Return the result of the plan for the store, in one sentence."""
    plan, report = round_report.plan, round_report.report
    if plan is None or not plan.changes:
        return "There was nothing to send to the store."
    if report is not None:
        # Rows without a change are listed separately.
        counts = Counter(each.outcome for each in report.results if each.kind != "none")
        counts_text = (f"{number(counts[o])} {o}" for o in OUTCOMES if counts[o] or o == "applied")
        return sentences(f"Sent by run {make_visible(report.run_id)}: {', '.join(counts_text)}")
    return "Nothing was sent" + (
        ": the plan waits for release." if round_report.round.waiting else "."
    )


def describe_sheet_result(round_report: RoundReport) -> str:
    """Return the result of the changes for the sheet, in one sentence."""
    if round_report.round.backup:
        backup = make_visible(round_report.round.backup)
        return (
            f"Written: {describe_written(round_report)}; the previous version of the sheet is in "
            f"{backup}."
        )
    if round_report.round.dry_run or round_report.round.mode == "check":
        return "Nothing was written."
    return "There is no backup: the sheet was not written, or it is new."


def describe_written(round_report: RoundReport) -> str:
    """Describe the changes that were written: `3 rows changed (4 cells that had another value), 1
    row new`.
    """
    kinds = Counter(change.kind for change in round_report.sheet)
    overwritten = sum(
        bool(old)
        for each in round_report.sheet
        if each.kind == "update"
        for old, _ in each.values.values()
    )
    results = () if round_report.report is None else round_report.report.results
    ids = sum(
        each.assigned_id is not None and each.row is not None and each.cause != "named-id"
        for each in results
    )
    cells = f" ({count(overwritten, 'cell')} that had another value)" if overwritten else ""
    parts = (
        (kinds["update"], f"changed{cells}"),
        (kinds["add"], "new"),
        (kinds["delete"], "removed"),
        (ids, "with the id of a new pet"),
    )
    counts = [f"{count(total, 'row')} {what}" for total, what in parts if total]
    return ", ".join(counts) or "ids of pets, in rows that had no id"


def commands(round_: Round) -> Iterator[Command]:
    """Yield the commands for the waiting plan, the sheet, the runs and the job."""
    if round_.waiting:
        yield Command(
            "look at the plan, and release it", f"petsync apply {_quote_argument(round_.waiting)}"
        )
    if round_.findings and round_.source and not is_from_query(round_):
        yield Command("every error in the sheet", f"petsync check {_quote_argument(round_.source)}")
    for run in round_.runs:
        yield Command("what a run did", f"petsync runs {_quote_argument(run)}")
        yield Command("undo it", f"petsync undo {_quote_argument(run)}")
    if round_.status in _RETRY_STATUSES:
        again = f"petsync reconcile --job {_quote_argument(round_.job)}"
        yield Command("run the job again", f"{again} --dry-run" if round_.dry_run else again)


def _quote_argument(text: str) -> str:
    return shlex.quote(make_visible(text))


# The parts of a round's HTML that a notebook's cell and a page share.


def round_badge(round_: Round) -> str:
    """Return the status of the round as a sign, words and a colour."""
    end = STATUS_WORDS[round_.status]
    return badge(end.sign, end.title, kind=f"ps-{end.level}")


def reason_cell(round_: Round) -> str:
    """Return an alert with the reason for the end of the round; "" if there is none."""
    lines = [prose(line) for line in reason(round_).splitlines()]
    if not lines:
        return ""
    kind = "ps-refused" if STATUS_WORDS[round_.status].level == "bad" else ""
    return alert("To know" if round_.is_well else "Why", lines, kind=kind)


def difference_html(each: Difference) -> str:
    """Return the problem of the difference, with its fields, and the hint."""
    fields_html = fields_of(each)
    fields_html = element("span", f"{text(fields_html)}:", class_="ps-field") if fields_html else ""
    what = f"{fields_html} {prose(words.sentences(capital(each.problem)))}".strip()
    cure = element("p", prose(each.hint), class_="ps-cure") if each.hint else ""
    return element("p", what) + cure


def render_command(line: str) -> str:
    """Return the command as code."""
    return element("code", text(line))


def more_html(total: int) -> str:
    """Return a paragraph with the number of items left out; "" for 0."""
    return element("p", f"... and {words.number(total)} more") if total else ""


# Open differences, grouped by equal problems.


_EXAMPLES = 3
_NAME = 30
DifferenceGroups = list[tuple[str, list[Difference]]]
"""Problems, each with its differences."""


def group_alike(
    differences: Sequence[Difference], limit: int
) -> tuple[DifferenceGroups, list[Difference]]:
    """Return the groups of more than `limit` differences with the same problem, and the other
    differences.

    Only notes, which follow from the job's settings, are grouped; other differences are shown one
    by one.
    """
    groups = group_by_text(differences, lambda each: each.problem if each.kind == "note" else "")
    large_groups = [(problem, group) for problem, group in groups if problem and len(group) > limit]
    grouped_problems = {problem for problem, _ in large_groups}
    return large_groups, [
        each for each in differences if each.kind != "note" or each.problem not in grouped_problems
    ]


def group_sentence(problem: str, group: Sequence[Difference]) -> str:
    """Describe a group: `Is in the store, and in no row: 1,241 of them, such as pet 7 (Rex), pet 8
    (Tom)`.
    """
    examples = ", ".join(subject_of(each) for each in group[:_EXAMPLES])
    text = capital(make_visible(problem)).rstrip(".")
    return f"{text}: {number(len(group))} of them, such as {examples}"


def subject_of(each: Difference) -> str:
    """Format the subject: `pet 7 (Rex)`; without an id the name, else the address."""
    pet = "" if each.pet_id is None else f"pet {each.pet_id}"
    name = shorten(make_visible(each.name), _NAME)
    return f"{pet} ({name})" if pet and name else pet or name or make_visible(each.address)


# A round's report as a page: the status first, then the actions, then the details.


STYLES = (html.FRAGMENT_STYLE, "plan.css", "round.css")
_MAX_ROWS = 1_000
"""The maximum number of rows of each kind on a page; the JSON beside it has all."""
_MAX_SINGLE = 20
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


def round_page(round_report: RoundReport) -> str:
    """Return the round as a complete HTML document that loads nothing and has no links."""
    title = f"{round_report.round.name}: {STATUS_WORDS[round_report.round.status].title}"
    body = ('<main class="petsync ps-page">', *_parts_page(round_report), "</main>")
    return document("\n".join(filter(None, body)), title, styles=STYLES)


def rounds_page(rounds: Sequence[RoundReport]) -> str:
    """Return several rounds, one below the other, as a complete HTML document; a single round as
    its own page.
    """
    if len(rounds) == 1:
        return round_page(rounds[0])
    parts = (
        part
        for n, round_report in enumerate(rounds)
        for part in _parts_page(round_report, f"round-{n}-")
    )
    inner = parts if rounds else (html.summary("No rounds were run."),)
    body = ('<main class="petsync ps-page">', *inner, "</main>")
    return document("\n".join(filter(None, body)), "petsync rounds", styles=STYLES)


def _parts_page(round_report: RoundReport, prefix: str = "") -> Iterator[str]:
    round_ = round_report.round
    yield "<header>"
    kicker = f"petsync round, {words.format_timestamp(round_.started)}"
    yield element("p", text(kicker), class_="ps-kicker")
    yield element("h1", f"{bdi(round_.name)} {round_badge(round_)}")
    yield html.summary(headline(round_))
    yield "</header>"
    yield reason_cell(round_)
    if round_report.plan is not None or round_.drift:
        yield element("ul", "".join(_tiles(round_)), class_="ps-tiles")
    yield section(f"{prefix}do", "What can be done", _commands_section(round_))
    yield section(f"{prefix}about", "About this round", two_columns(facts(round_report)))
    for kind, differences in by_kind(round_report.open).items():
        title = capital(open_title(kind, len(differences)))
        yield section(
            f"{prefix}open-{kind}", title, _differences_section(kind, differences, round_)
        )
    yield section(f"{prefix}store", "Changes for the store", _store_section(round_report))
    yield section(f"{prefix}sheet", "Changes for the sheet", _sheet_section(round_report))


def section(name: str, title: str, inner: str) -> str:
    """Return a section of a page under its heading (text); "" if it is empty."""
    if not inner:
        return ""
    head = element("h2", text(title), id=name)
    return element("section", head + inner, class_="ps-part", aria_labelledby=name)


def two_columns(facts: Iterable[tuple[str, str]]) -> str:
    """Return names and values (texts) side by side."""
    pairs = (
        element("div", element("dt", text(name)) + element("dd", bdi(value)))
        for name, value in facts
    )
    return element("dl", "".join(pairs), class_="ps-about")


def _tiles(round_: Round) -> Iterator[str]:
    yield _tile("note", round_.drift, "different at the start")
    yield _tile("update", round_.to_store.total, "for the store")
    yield _tile("update", round_.to_sheet.total, "for the sheet")
    yield _tile("add", round_.applied, "arrived")
    for kind, total in open_counts(round_):
        if total:
            yield _tile(MARKS[kind], total, KIND_NAMES[kind][total != 1])


def _tile(kind: str, total: int, name: str) -> str:
    inner = element("strong", words.number(total)) + text(f" {name}")
    return element("li", element("span", inner), class_=f"ps-{kind}" if total else "ps-none")


def _commands_section(round_: Round) -> str:
    round_commands = list(commands(round_))
    if not round_commands:
        return ""
    pairs = (
        element("div", element("dt", text(capital(purpose))) + element("dd", render_command(line_)))
        for purpose, line_ in round_commands
    )
    return element("p", text(COMMANDS_TITLE), class_="ps-kept") + element(
        "dl", "".join(pairs), class_="ps-about"
    )


def _differences_section(kind: Kind, differences: Sequence[Difference], round_: Round) -> str:
    intro = f"{capital(kind_meaning(kind))}. {cure_of_kind(kind, round_)}"
    large_groups, others = group_alike(differences, _MAX_SINGLE)
    parts = [
        element("p", prose(intro), class_="ps-kept"),
        *(
            html.collapsible(group_sentence(*alike), _differences_table(kind, alike[1]))
            for alike in large_groups
        ),
        _single_differences(kind, others),
    ]
    return "".join(parts)


def _single_differences(kind: Kind, differences: Sequence[Difference]) -> str:
    """Return the table of differences that are in no group. It is collapsed if many of them wait
    for release, because the sections below it also show these changes.
    """
    table = _differences_table(kind, differences) if differences else ""
    is_long = kind == "waiting" and len(differences) > _MAX_SINGLE
    return html.collapsible("One by one", table) if is_long else table


def _differences_table(kind: Kind, differences: Sequence[Difference]) -> str:
    listing = first(differences, _MAX_ROWS)
    rows = (_difference_row(kind, each) for each in listing.shown)
    table = records_table(_HEADS_PAGE, rows, open_title(kind, len(differences)))
    return table + more_html(listing.more)


def _difference_row(kind: Kind, each: Difference) -> str:
    badge_html = badge(words.SYMBOL[MARKS[kind]], _NAMES[kind])
    pet = "" if each.pet_id is None else str(each.pet_id)
    return page_line(MARKS[kind], badge_html, pet, each.name, difference_html(each), each.address)


def _store_section(round_report: RoundReport) -> str:
    plan = round_report.plan
    if plan is None:
        return ""
    results = () if round_report.report is None else round_report.report.results
    results_by_number = {result.number: result for result in results}
    conflicts = clashes_by_row(plan)
    listing = first(plan.changes, _MAX_ROWS)
    rows = (
        _change_row(c, conflicts.get(c.row), results_by_number.get(n))
        for n, c in enumerate(listing.shown)
    )
    # The guard's refusal is at the top of the page, with the hint for this job.
    alerts_html = alerts(plan) if plan.verdict.ok else ()
    inner = "".join(alerts_html) + element("p", prose(describe_store_result(round_report)))
    if not plan.changes:
        return inner
    return (
        inner + records_table(_HEADS_PAGE, rows, "Changes for the store") + more_html(listing.more)
    )


def _change_row(change: Change, conflict: Conflict | None, result: Result | None) -> str:
    """Return the change, with its result if that differs from the plan."""
    record = of_change(change, conflict if change.kind == "update" else None)
    if result is None or (result.outcome == "applied" and not result.message):
        return page_row(record)
    round_report = words.sentences(
        f"{result.outcome}: {result.message}" if result.message else result.outcome
    )
    mark = words.OUTCOME_MARK[result.outcome]
    content = record_html(record) + element(
        "p", prose(capital(round_report)), class_=f"ps-became ps-{mark}"
    )
    return page_row(record, content)


def _sheet_section(round_report: RoundReport) -> str:
    if not round_report.sheet:
        return ""
    listing = first(round_report.sheet, _MAX_ROWS)
    rows = (page_row(of_sheet_change(each)) for each in listing.shown)
    inner = element("p", text(describe_sheet_result(round_report)))
    return (
        inner + records_table(_HEADS_PAGE, rows, "Changes for the sheet") + more_html(listing.more)
    )


def records_table(heads: Sequence[str], rows: Iterable[str], caption: str) -> str:
    """Return a table of rows (`<tr>`). A narrow page shows it as cards, so its parts have explicit
    roles.
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


# Rounds as HTML fragments for a notebook's cell.


_OPEN = ("", "Id", "Pet", "Problem", "Where")
_ROUNDS = ("", "Status", "Job", "For the store", "For the sheet", "Difference", "Took")


def round_html(round_report: RoundReport, *, limit: int | None = 20) -> str:
    """Return the round as HTML, with the first `limit` of each kind of difference that it left."""
    return html.fragment(_parts_html(round_report, limit))


def rounds_html(rounds: Sequence[RoundReport], *, limit: int | None = 5) -> str:
    """Return a table of the rounds as HTML, and below it each round that needs attention."""
    return html.fragment(_rounds(rounds, limit))


def _parts_html(round_report: RoundReport, limit: int | None) -> Iterator[str]:
    round_ = round_report.round
    yield html.summary(f"{round_.name}. {headline(round_)}")
    yield reason_cell(round_)
    yield html.facts([*facts(round_report), *side_facts(round_)])
    for kind, differences in by_kind(round_report.open).items():
        yield _differences_html(kind, differences, round_, limit)
    for command in commands(round_):
        yield element("p", f"{text(capital(command.purpose))}: {render_command(command.line)}")


def _differences_html(
    kind: Kind, differences: Sequence[Difference], round_: Round, limit: int | None
) -> str:
    title = f"{open_title(kind, len(differences))}: {kind_meaning(kind)}"
    cure = element("p", prose(cure_of_kind(kind, round_)), class_="ps-kept")
    listing = first(differences, limit)
    table = html.table(_OPEN, map(partial(_difference_fragment_row, kind), listing.shown))
    is_open = len(listing.shown) <= html.fold_limit(limit) and kind != "note"
    return html.collapsible(title, cure + table + more_html(listing.more), open_=is_open)


def _difference_fragment_row(kind: Kind, each: Difference) -> str:
    return html.row(
        MARKS[kind],
        table_cell("" if each.pet_id is None else str(each.pet_id), kind="ps-number"),
        html.row_head(each.name) if each.name else table_cell(""),
        element("td", difference_html(each), class_="ps-what"),
        table_cell(each.address, kind="ps-where"),
    )


def _rounds(rounds: Sequence[RoundReport], limit: int | None) -> Iterator[str]:
    if not rounds:
        yield html.summary("No rounds were run.")
        return
    yield html.table(_ROUNDS, (_round(round_report.round) for round_report in rounds))
    for round_report in rounds:
        if not round_report.round.is_well:
            inner = "\n".join(filter(None, _parts_html(round_report, limit)))
            yield html.collapsible(round_report.round.name, inner)


def _round(round_: Round) -> str:
    end = STATUS_WORDS[round_.status]
    return html.row(
        LEVELS[end.level],
        table_cell(end.title),
        html.row_head(round_.name),
        table_cell(format_planned(round_, round_.to_store)),
        table_cell(format_planned(round_, round_.to_sheet)),
        table_cell(format_open(round_)),
        table_cell(words.duration(round_.seconds), kind="ps-number"),
    )


# Rounds as lines: one round with its differences, or a table of several rounds.


_MAX_FILES = 20
_JOB = 12
_ID = 22
"""The length of the timestamp in an id; the start of an id is enough to find a round."""
_HEADS_TEXT = ("status", "job", "to store", "to sheet", "took")
_PLANNED_NOTE = "(in brackets: planned, not applied)"
_SHOW_ALL_HINT = "To see everything: `--limit 0`, or as a page with `--report FILE.html`."
_NOTHING_OPEN = "No action is needed."


def round_lines(
    round_report: RoundReport, width: int = 80, *, limit: int | None = 20
) -> Iterator[Text]:
    """Yield the round as lines, with the first `limit` of each kind of difference that it left."""
    round_ = round_report.round
    yield Text(f"petsync round of {shorten(make_visible(round_.name), width - 17)}", "bold")
    yield from lines.facts(facts(round_report), width)
    yield lines.BLANK
    yield from lines.facts(side_facts(round_), width)
    yield from _difference_lines(round_report, limit, width)
    yield from _command_lines(round_, width)
    yield lines.BLANK
    yield from _end_lines(round_, width)
    yield from _file_lines([round_report], width)


def rounds_lines(
    rounds: Sequence[RoundReport], width: int = 80, *, limit: int | None = 5
) -> Iterator[Text]:
    """Yield a table of the rounds, and the first `limit` differences of each kind for each round.

    A command is always one line, however long it is.
    """
    yield from list_lines([round_report.round for round_report in rounds], width)
    for round_report in rounds:
        if round_report.round.is_well and not round_report.open:
            continue
        yield from lines.heading(make_visible(round_report.round.name), width)
        yield from _end_lines(round_report.round, width, indent=2)
        yield from _difference_lines(round_report, limit, width)
        if not round_report.round.is_well:
            yield from _command_lines(round_report.round, width)
    if rounds and all(round_report.round.is_well for round_report in rounds):
        yield lines.BLANK
        yield Text(_NOTHING_OPEN)
    if any(round_report.round.dry_run and _is_long(round_report, limit) for round_report in rounds):
        yield from lines.heading(_SHOW_ALL_HINT, width, style="dim")
    yield from _file_lines(rounds, width)


def _is_long(round_report: RoundReport, limit: int | None) -> bool:
    groups = by_kind(round_report.open).values()
    return limit is not None and any(len(differences) > limit for differences in groups)


def _file_lines(rounds: Sequence[RoundReport], width: int) -> Iterator[Text]:
    """Yield the changes written into sheets, the paths of their backups, and the reports."""
    for each in rounds:
        if each.round.backup:
            heading = f"The sheet of {make_visible(each.round.name)}: {describe_written(each)}. "
            yield from lines.heading(f"{heading}Backup:", width, style="")
            yield from lines.wrap_keeping_paths(make_visible(each.round.backup), width, indent=2)
    if pages := [each.round.report for each in rounds if each.round.report]:
        yield from lines.heading(f"Report{'' if len(pages) == 1 else 's'}:", width, style="")
    for page in pages[:_MAX_FILES]:
        yield from lines.wrap_keeping_paths(make_visible(page), width, indent=2)
    yield from lines.more(len(pages[_MAX_FILES:]))


def list_lines(
    rounds: Sequence[Round], width: int = 80, *, show_start: bool = False
) -> Iterator[Text]:
    """Yield a table of the rounds, one line each; with `show_start`, it has the start of each
    round, and the beginning of its id.
    """
    if not rounds:
        yield Text("No rounds were run.")
        return
    rows = [_cells(round_, show_start=show_start) for round_ in rounds]
    heads = (*(["round (started, UTC)"] if show_start else []), *_HEADS_TEXT)
    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    job = heads.index("job")
    spare = width - 2 * len(heads) - (sum(widths) - widths[job])
    widths[job] = min(widths[job], max(spare, _JOB))
    yield _line(heads, widths, "dim")
    for round_, row in zip(rounds, rows, strict=True):
        yield _line(row, widths, _style(round_))
    if any(cell.startswith("(") for row in rows for cell in row[-3:-1]):
        yield Text(f"  {_PLANNED_NOTE}", "dim")


def _cells(round_: Round, *, show_start: bool) -> tuple[str, ...]:
    end = STATUS_WORDS[round_.status]
    return (
        *([shorten(make_visible(round_.id[:_ID]), _ID)] if show_start else []),
        f"{end.sign} {end.title}{' (dry run)' if round_.dry_run else ''}",
        make_visible(round_.name),
        format_planned(round_, round_.to_store),
        format_planned(round_, round_.to_sheet),
        words.duration(round_.seconds),
    )


def _line(cells: Sequence[str], widths: Sequence[int], style: str) -> Text:
    short_cells = [shorten(text, width) for text, width in zip(cells, widths, strict=True)]
    padded = (t + " " * (w - cell_len(t)) for t, w in zip(short_cells, widths, strict=True))
    return Text(f"  {'  '.join(padded)}".rstrip(), style)


def _style(round_: Round) -> str:
    return lines.STYLE[LEVELS[STATUS_WORDS[round_.status].level]]


def _end_lines(round_: Round, width: int, *, indent: int = 0) -> Iterator[Text]:
    style = "bold" if round_.is_well else f"bold {_style(round_)}"
    yield from lines.paragraph(headline(round_), width, indent=indent, style=style)
    if reason_text := reason(round_):
        for line in reason_text.splitlines():
            yield from lines.wrap_keeping_paths(line, width, indent=indent)


def _difference_lines(round_report: RoundReport, limit: int | None, width: int) -> Iterator[Text]:
    for kind, differences in by_kind(round_report.open).items():
        title = f"{open_title(kind, len(differences))}: {kind_meaning(kind)}"
        yield from lines.heading(title, width)
        yield from lines.paragraph(
            cure_of_kind(kind, round_report.round), width, indent=2, style="dim"
        )
        large_groups, others = group_alike(differences, _MAX_FILES if limit is None else limit)
        for problem, group in large_groups:
            yield from lines.item(MARKS[kind], f"{group_sentence(problem, group)}.", width)
        listing = first(others, limit)
        for each in listing.shown:
            yield from lines.item(MARKS[kind], make_visible(_describe_difference(each)), width)
        yield from lines.more(listing.more)


def _describe_difference(each: Difference) -> str:
    """Format the difference: `Pets!B18, pet 17 (Bella), name: the problem. The cure`."""
    parts = [each.address, subject_of(each), fields_of(each)]
    place = ", ".join(dict.fromkeys(filter(None, parts)))
    return ": ".join(filter(None, (place, words.sentences(each.problem, each.hint))))


def _command_lines(round_: Round, width: int) -> Iterator[Text]:
    round_commands = list(commands(round_))
    if not round_commands:
        return
    yield from lines.heading(COMMANDS_TITLE, width, style="")
    for command in round_commands:
        yield Text(f"  {command.line}", "bold")
        yield from lines.paragraph(command.purpose, width, indent=6, style="dim")
