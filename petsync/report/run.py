"""A run and the list of runs as text and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from rich.text import Text

from petsync.plan.change import Add, Change, Delete, Update
from petsync.plan.fields import find_filled_columns
from petsync.plan.report import OUTCOMES, Entry, PastRun, Report, Result, find_undoing_runs
from petsync.plan.uploads import UploadedFile
from petsync.report import html, text, words
from petsync.report.html import element, table_cell
from petsync.report.plan import one_change
from petsync.report.words import (
    BRIEF_CAUSES,
    ResultGroup,
    count,
    format_timestamp,
    number,
    results_by_cause,
    shorten,
)
from petsync.table.cells import make_visible

__all__ = [
    "DONE_WORDS",
    "causes_html",
    "change_of_entry",
    "describe_counts",
    "describe_entry",
    "describe_file",
    "describe_undo",
    "outcome_lines",
    "pet_lines",
    "report_html",
    "report_lines",
    "run_details_lines",
    "run_line",
    "runs_lines",
    "source_words",
]


# A report as HTML.


_COLUMNS = ("", "Where", "Change", "Id", "Pet", "What happened")


def report_html(report: Report, *, limit: int | None = 20) -> str:
    """Return the report as HTML, with the first `limit` rows of each outcome and cause that needs
    attention.
    """
    return html.fragment(_parts(report, limit))


def _parts(report: Report, limit: int | None) -> Iterator[str]:
    yield html.summary(words.report_summary(report))
    yield html.facts([("run", report.run_id), *words.report_facts(report)])
    if report.stopped:
        yield html.alert(words.STOPPED_TITLE, map(html.text, report.stopped.splitlines()))
    yield _totals_html(report)
    yield from causes_html(report, limit)
    if undo := words.undo_hint(report):
        yield element("p", html.prose(undo), class_="ps-kept")


def causes_html(report: Report, limit: int | None, *, is_over: bool = False) -> Iterator[str]:
    """Yield the results that need attention, in a collapsible part for each cause. With `is_over`,
    the actions to take are left out.
    """
    row = partial(_row, names=words.result_names(report.plan))
    fold_over = html.fold_limit(limit)
    for group in results_by_cause(report, limit, is_over=is_over):
        if not group.is_plain:
            yield _group_html(group, map(row, group.listing.shown), fold_over)


def _group_html(group: ResultGroup, rows: Iterable[str], fold_over: int) -> str:
    inner = element("p", html.prose(group.text.meaning), class_="ps-kept")
    if group.text.cure:
        inner += element("p", html.prose(group.text.cure))
    inner += html.table(_COLUMNS, rows)
    if group.listing.more:
        inner += f"\n<p>... and {words.number(group.listing.more)} more</p>"
    is_open = group.cause not in BRIEF_CAUSES and len(group.listing.shown) <= fold_over
    return html.collapsible(group.title, inner, open_=is_open)


def _totals_html(report: Report) -> str:
    counts = report.counts
    rows = [(outcome, counts[outcome]) for outcome in OUTCOMES]
    lines = [_total(name, value) for name, value in (*rows, ("total", sum(counts.values())))]
    return html.table(("Outcome", "Rows"), lines, small=True)


def _total(name: str, value: int) -> str:
    number = element("td", words.number(value), class_="ps-number")
    return element("tr", html.row_head(name) + number)


def _row(result: Result, *, names: Sequence[str]) -> str:
    return html.row(
        words.OUTCOME_MARK[result.outcome],
        table_cell(result.source, kind="ps-where"),
        table_cell("" if result.kind == "none" else result.kind),
        table_cell("" if result.pet_id is None else str(result.pet_id), kind="ps-number"),
        table_cell(names[result.number] if result.number < len(names) else ""),
        table_cell(result.message),
    )


# A report as lines: the totals, the rows that need attention, and the summary.


_NAME = 30


def report_lines(report: Report, *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """Yield the report as lines, with the first `limit` rows of each outcome and cause that needs
    attention.
    """
    yield Text.assemble(("petsync run ", "bold"), (make_visible(report.run_id), "bold"))
    yield from text.facts(words.report_facts(report), width)
    yield text.BLANK
    yield from outcome_lines(report, limit=limit, width=width)
    yield text.BLANK
    yield from text.paragraph(words.report_summary(report), width, style="bold")
    if undo := words.undo_hint(report):
        yield from text.paragraph(undo, width, style="dim")


def outcome_lines(
    report: Report, *, limit: int | None, width: int, is_over: bool = False
) -> Iterator[Text]:
    """Yield the number of rows with each outcome, the reason if the run stopped early, and, by
    cause, the results that need attention. With `is_over`, the actions to take are left out.
    """
    yield from _totals_text(report)
    yield from _stop(report, width)
    names = words.result_names(report.plan)
    for group in results_by_cause(report, limit, is_over=is_over):
        if not group.is_plain:
            yield from _group_text(group, names, width)


def _totals_text(report: Report) -> Iterator[Text]:
    counts = report.counts
    totals = [
        *((outcome, counts[outcome]) for outcome in OUTCOMES),
        ("total", sum(counts.values())),
    ]
    column = max(len(words.number(value)) for _, value in totals)
    for name, value in totals:
        yield Text(f"  {name:<13}{words.number(value):>{column}}", _style(name, value))


def _style(name: str, value: int) -> str:
    if name == "total" or not value:
        return "bold" if name == "total" else "dim"
    return {"applied": "green", "unchanged": "", "not sent": "yellow"}.get(name, "red")


def _group_text(group: ResultGroup, names: Sequence[str], width: int) -> Iterator[Text]:
    yield from text.heading(group.title, width)
    yield from text.paragraph(group.text.meaning, width, indent=2, style="dim")
    if group.text.cure:
        yield from text.paragraph(group.text.cure, width, indent=2)
    for result in group.listing.shown:
        mark = words.OUTCOME_MARK[group.outcome]
        yield from text.item(mark, make_visible(_describe_result(result, names)), width)
    yield from text.more(group.listing.more)


def _describe_result(result: Result, names: Sequence[str]) -> str:
    """Format the result: `Pets!B18, update of pet 17 (Bella): the message`."""
    verb = "" if result.kind == "none" else result.kind
    pet = "" if result.pet_id is None else f"pet {result.pet_id}"
    name = shorten(make_visible(names[result.number]), _NAME) if result.number < len(names) else ""
    subject = f"{pet} ({name})" if pet and name else pet or name
    change = " of ".join(part for part in (verb, subject) if part)
    where = ", ".join(part for part in (result.source, change) if part)
    return ": ".join(part for part in (where, result.message) if part)


def _stop(report: Report, width: int) -> Iterator[Text]:
    if report.stopped:
        yield from text.heading(words.STOPPED_TITLE, width)
        for line in report.stopped.splitlines():
            yield from text.paragraph(make_visible(line), width, indent=2)


# The words of past runs, for every format.


DONE_WORDS: Mapping[str, str] = {
    "add": "added",
    "update": "changed",
    "delete": "deleted",
    "upload": "image uploaded",
}
_OUTCOME_UNKNOWN = "started, and it is not known yet whether it was applied"


def source_words(past: PastRun) -> str:
    """Return the source of the run: a sheet, a folder, or the run that it undoes."""
    return f"undo of run {past.undoes}" if past.undoes else make_visible(past.source)


def describe_counts(past: PastRun) -> str:
    """Format the counts: `12 of 14 changes applied, 1 not sent, 1 conflict`."""
    things = "image" if past.kind == "upload" else "change"
    applied = past.counts.get("applied", 0)
    others = [
        *((outcome, past.counts.get(outcome, 0)) for outcome in OUTCOMES if outcome != "applied"),
        ("open", past.open),
    ]
    others_text = "".join(f", {number(total)} {name}" for name, total in others if total > 0)
    return f"{number(applied)} of {count(past.total, things)} applied{others_text}"


def run_line(past: PastRun) -> str:
    """Format the run: `catalogue.xlsx, started 2026-11-21 09:24:56 UTC: 12 of 14 changes
    applied`.
    """
    return (
        f"{source_words(past)}, started {format_timestamp(past.started)}: {describe_counts(past)}"
    )


def describe_undo(past: PastRun, undo: PastRun | None) -> str:
    """Describe the undo: `undone by run 20261121-093017-6038`, or `undone in part by …`; "" if
    there was none.
    """
    if undo is None:
        return ""
    # One change undoes all images of a pet.
    applied = past.pets if past.kind == "upload" else past.counts.get("applied", 0)
    part = "" if undo.counts.get("applied", 0) >= applied else " in part"
    return f"undone{part} by run {undo.run_id}"


def describe_entry(entry: Entry) -> str:
    """Describe the outcome of a change: `changed` or, with the reason, `update, conflict: the pet
    is gone`.
    """
    if entry.outcome == "applied":
        text = DONE_WORDS[entry.kind]
    else:
        text = f"{entry.kind}, {entry.outcome or _OUTCOME_UNKNOWN}"
    return f"{text}: {make_visible(entry.message)}" if entry.message else text


def describe_file(file: UploadedFile) -> str:
    """Describe a file: `7_2.png: image uploaded` or, with the reason, `7_2.png: failed: the pet is
    gone`.
    """
    name = make_visible(f"{file.source}, {file.file}" if file.source else file.file)
    outcome = DONE_WORDS["upload"] if file.outcome == "applied" else file.outcome
    return ": ".join(filter(None, (name, outcome, make_visible(file.message))))


def change_of_entry(entry: Entry) -> Change | None:
    """Return the change that the run made or planned; None if the journal does not have it."""
    before, after = entry.before, entry.after
    pet_id = entry.pet_id if entry.assigned_id is None else entry.assigned_id
    if entry.kind == "add" and after is not None:
        pet = msgspec.structs.replace(after, id=pet_id)
        return Add(row=entry.row, source=entry.source, fields=find_filled_columns(pet), after=pet)
    if entry.kind == "delete" and before is not None:
        return Delete(row=entry.row, source=entry.source, before=before)
    if before is None or after is None or entry.kind in ("add", "delete"):
        return None
    fields = entry.fields or ("photo_urls",)
    return Update(row=entry.row, source=entry.source, fields=fields, before=before, after=after)


# Past runs as lines: a list of runs, one run, and the changes of one pet.


_INDENT = 4
_STATE = {"done": "green", "stopped": "red", "running": "yellow"}
_COLUMN_TITLES = f"  {'run':<20}  {'started':<23}  {'what':<6}  {'state':<7}  took"


def runs_lines(
    runs: Sequence[PastRun], *, limit: int | None = 20, width: int = 80
) -> Iterator[Text]:
    """Yield the first `limit` runs, each in two or more lines, with its store if the runs have
    different stores.
    """
    if not runs:
        yield Text("No runs are recorded.")
        return
    stores = list(dict.fromkeys(run.store for run in runs))
    undone = find_undoing_runs(runs)
    shown = runs if limit is None else runs[:limit]
    yield Text(_COLUMN_TITLES, "dim")
    for run in shown:
        yield _run_header(run)
        on = f" on {make_visible(run.store)}" if len(stores) > 1 else ""
        summary = f"{source_words(run)}{on}: {describe_counts(run)}"
        undo = describe_undo(run, undone.get(run.run_id))
        yield from text.paragraph("; ".join(filter(None, (summary, undo))), width, indent=_INDENT)
    yield from text.more(len(runs) - len(shown))


def pet_lines(
    pet_id: int, entries: Sequence[tuple[PastRun, Entry]], *, width: int = 80
) -> Iterator[Text]:
    """Yield the changes to a pet that runs made or planned, with the values before and after."""
    if not entries:
        yield Text(f"No recorded run changed pet {pet_id}.")
        return
    yield Text(f"Pet {pet_id}: {words.count(len(entries), 'change')}, the newest first", "bold")
    for run, entry in entries:
        yield text.BLANK
        yield _run_header(run)
        yield from text.paragraph(source_words(run), width, indent=_INDENT, style="dim")
        yield from _render_entry(entry, width)


def run_details_lines(
    run: PastRun,
    entries: Sequence[Entry],
    *,
    limit: int | None = 20,
    width: int = 80,
    files: Sequence[UploadedFile] = (),
) -> Iterator[Text]:
    """Yield a run, and the outcomes of the first `limit` of its changes or files."""
    yield Text(_COLUMN_TITLES, "dim")
    yield _run_header(run)
    summary = f"{source_words(run)} on {make_visible(run.store)}: {describe_counts(run)}"
    yield from text.paragraph(summary, width, indent=_INDENT)
    if files:
        yield from _files(files, {entry.number: entry for entry in entries}, limit, width)
        return
    shown = entries if limit is None else entries[:limit]
    for entry in shown:
        yield from _render_entry(entry, width)
    yield from text.more(len(entries) - len(shown))


def _files(
    files: Sequence[UploadedFile], entries: Mapping[int, Entry], limit: int | None, width: int
) -> Iterator[Text]:
    """Yield each file with its outcome and the change to its pet."""
    shown = files if limit is None else files[:limit]
    for index, file in enumerate(shown):
        style = "" if file.outcome == "applied" else text.STYLE["conflict"]
        description = describe_file(file)
        yield from text.paragraph(description, width, indent=_INDENT, style=style)
        entry = entries.get(index)
        change = None if entry is None else change_of_entry(entry)
        if change is not None:
            yield from one_change(change, width)
    yield from text.more(len(files) - len(shown))


def _run_header(run: PastRun) -> Text:
    started = words.format_timestamp(run.started)
    left = f"  {make_visible(run.run_id):<20}  {started:<23}  {run.kind:<6}  "
    state = (f"{run.state:<7}", _STATE[run.state])
    return Text.assemble((left, "bold"), state, f"  {words.duration(run.seconds)}")


def _render_entry(entry: Entry, width: int) -> Iterator[Text]:
    style = "" if entry.outcome == "applied" else text.STYLE["conflict"]
    yield from text.paragraph(describe_entry(entry), width, indent=_INDENT, style=style)
    change = change_of_entry(entry)
    if change is not None:
        yield from one_change(change, width)
