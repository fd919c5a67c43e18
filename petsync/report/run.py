"""A run and the list of runs as text and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from rich.text import Text

from petsync.plan.change import Add, Change, Delete, Update
from petsync.plan.fields import find_filled_columns
from petsync.plan.report import OUTCOMES, Entry, PastRun, Report, Result, undone_by
from petsync.plan.uploads import UploadedFile
from petsync.report import html, text, words
from petsync.report.html import element, table_cell
from petsync.report.plan import one_change
from petsync.report.words import (
    QUIET,
    ResultGroup,
    count,
    moment,
    number,
    results_by_cause,
    shorten,
)
from petsync.table.cells import visible

__all__ = [
    "DID",
    "as_change",
    "causes_html",
    "comes_to",
    "deeds_lines",
    "describe_entry",
    "of_file",
    "outcome_lines",
    "pet_lines",
    "report_html",
    "report_lines",
    "run_line",
    "runs_lines",
    "taken_back",
    "what",
]


# A report as HTML.


_COLUMNS = ("", "Where", "Change", "Id", "Pet", "What happened")


def report_html(report: Report, *, limit: int | None = 20) -> str:
    """The report with the first `limit` rows of each outcome that needs a person."""
    return html.fragment(_parts(report, limit))


def _parts(report: Report, limit: int | None) -> Iterator[str]:
    yield html.summary(words.report_summary(report))
    yield html.facts([("run", report.run_id), *words.report_facts(report)])
    if report.stopped:
        yield html.alert(words.STOPPED, map(html.text, report.stopped.splitlines()))
    yield _totals_html(report)
    yield from causes_html(report, limit)
    if back := words.way_back(report):
        yield element("p", html.prose(back), class_="ps-kept")


def causes_html(report: Report, limit: int | None, *, is_over: bool = False) -> Iterator[str]:
    """The results that need a person by their causes, each a part that folds. With `is_over` no
    cures are named.
    """
    row = partial(_row, names=words.named_in(report.plan))
    fold_over = html.fold_over(limit)
    for group in results_by_cause(report, limit, is_over=is_over):
        if not group.is_plain:
            yield _group_html(group, map(row, group.listing.shown), fold_over)


def _group_html(group: ResultGroup, rows: Iterable[str], fold_over: int) -> str:
    inner = element("p", html.prose(group.told.meaning), class_="ps-kept")
    if group.told.cure:
        inner += element("p", html.prose(group.told.cure))
    inner += html.table(_COLUMNS, rows)
    if group.listing.more:
        inner += f"\n<p>... and {words.number(group.listing.more)} more</p>"
    is_open = group.cause not in QUIET and len(group.listing.shown) <= fold_over
    return html.folding(group.title, inner, open_=is_open)


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


# A report as lines: the totals, the rows that need a person, and the sum of it.


_NAME = 30


def report_lines(report: Report, *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """The report with the first `limit` rows of each outcome that needs a person."""
    yield Text.assemble(("petsync run ", "bold"), (visible(report.run_id), "bold"))
    yield from text.facts(words.report_facts(report), width)
    yield text.BLANK
    yield from outcome_lines(report, limit=limit, width=width)
    yield text.BLANK
    yield from text.paragraph(words.report_summary(report), width, style="bold")
    if back := words.way_back(report):
        yield from text.paragraph(back, width, style="dim")


def outcome_lines(
    report: Report, *, limit: int | None, width: int, is_over: bool = False
) -> Iterator[Text]:
    """How many rows had each outcome, those that need a person by their causes, and why the run
    stopped early. With `is_over` no cures are named.
    """
    yield from _totals_text(report)
    yield from _stop(report, width)
    names = words.named_in(report.plan)
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
    yield from text.paragraph(group.told.meaning, width, indent=2, style="dim")
    if group.told.cure:
        yield from text.paragraph(group.told.cure, width, indent=2)
    for result in group.listing.shown:
        mark = words.OUTCOME_MARK[group.outcome]
        yield from text.item(mark, visible(_describe_result(result, names)), width)
    yield from text.more(group.listing.more)


def _describe_result(result: Result, names: Sequence[str]) -> str:
    """`Pets!B18, update of pet 17 (Bella): what became of it`."""
    verb = "" if result.kind == "none" else result.kind
    pet = "" if result.pet_id is None else f"pet {result.pet_id}"
    name = shorten(visible(names[result.number]), _NAME) if result.number < len(names) else ""
    who = f"{pet} ({name})" if pet and name else pet or name
    about = " of ".join(part for part in (verb, who) if part)
    where = ", ".join(part for part in (result.source, about) if part)
    return ": ".join(part for part in (where, result.message) if part)


def _stop(report: Report, width: int) -> Iterator[Text]:
    if report.stopped:
        yield from text.heading(words.STOPPED, width)
        for line in report.stopped.splitlines():
            yield from text.paragraph(visible(line), width, indent=2)


# What is said of past runs, whatever the format.


DID: Mapping[str, str] = {
    "add": "added",
    "update": "changed",
    "delete": "deleted",
    "upload": "image uploaded",
}
_OPEN = "begun, and nobody knows yet whether it was done"


def what(past: PastRun) -> str:
    """What the run was made from: a sheet, a folder, or the run that it took back."""
    return f"undo of run {past.undoes}" if past.undoes else visible(past.source)


def comes_to(past: PastRun) -> str:
    """`12 of 14 changes applied, 1 not sent, 1 conflict`."""
    things = "image" if past.kind == "upload" else "change"
    applied = past.counts.get("applied", 0)
    others = [
        *((outcome, past.counts.get(outcome, 0)) for outcome in OUTCOMES if outcome != "applied"),
        ("open", past.open),
    ]
    rest = "".join(f", {number(total)} {name}" for name, total in others if total > 0)
    return f"{number(applied)} of {count(past.total, things)} applied{rest}"


def run_line(past: PastRun) -> str:
    """`catalogue.xlsx, begun 2026-11-21 09:24:56 UTC: 12 of 14 changes applied`."""
    return f"{what(past)}, begun {moment(past.started)}: {comes_to(past)}"


def taken_back(past: PastRun, by: PastRun | None) -> str:
    """`undone by run 20261121-093017-6038`, or in part; "" for a run that stands."""
    if by is None:
        return ""
    # All images of a pet are taken back by one change.
    done = past.pets if past.kind == "upload" else past.counts.get("applied", 0)
    part = "" if by.counts.get("applied", 0) >= done else " in part"
    return f"undone{part} by run {by.run_id}"


def describe_entry(entry: Entry) -> str:
    """What became of a change: `changed`, or why not: `update, conflict: the pet is gone`."""
    if entry.outcome == "applied":
        said = DID[entry.kind]
    else:
        said = f"{entry.kind}, {entry.outcome or _OPEN}"
    return f"{said}: {visible(entry.message)}" if entry.message else said


def of_file(file: UploadedFile) -> str:
    """`7_2.png: image uploaded`, or why not: `7_2.png: failed: the pet is gone`."""
    name = visible(f"{file.source}, {file.file}" if file.source else file.file)
    outcome = DID["upload"] if file.outcome == "applied" else file.outcome
    return ": ".join(filter(None, (name, outcome, visible(file.message))))


def as_change(entry: Entry) -> Change | None:
    """What the run did, or meant to do, to the pet; None if the journal does not say it."""
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


# Past runs as lines: a list of them, and all that they did to one pet.


_INDENT = 4
_STATE = {"done": "green", "stopped": "red", "running": "yellow"}
_HEAD = f"  {'run':<20}  {'begun':<23}  {'what':<6}  {'state':<7}  took"


def runs_lines(
    runs: Sequence[PastRun], *, limit: int | None = 20, width: int = 80
) -> Iterator[Text]:
    """The first `limit` runs, two lines or more each, and their stores if there are several."""
    if not runs:
        yield Text("No run is known.")
        return
    stores = list(dict.fromkeys(run.store for run in runs))
    undone = undone_by(runs)
    shown = runs if limit is None else runs[:limit]
    yield Text(_HEAD, "dim")
    for run in shown:
        yield _head(run)
        on = f" on {visible(run.store)}" if len(stores) > 1 else ""
        said = f"{what(run)}{on}: {comes_to(run)}"
        back = taken_back(run, undone.get(run.run_id))
        yield from text.paragraph("; ".join(filter(None, (said, back))), width, indent=_INDENT)
    yield from text.more(len(runs) - len(shown))


def pet_lines(
    pet_id: int, deeds: Sequence[tuple[PastRun, Entry]], *, width: int = 80
) -> Iterator[Text]:
    """All that the runs did, or meant to do, to a pet, before and after, in their order."""
    if not deeds:
        yield Text(f"No run that is known did anything to pet {pet_id}.")
        return
    yield Text(f"Pet {pet_id}: {words.count(len(deeds), 'change')}, the newest first", "bold")
    for run, entry in deeds:
        yield text.BLANK
        yield _head(run)
        yield from text.paragraph(what(run), width, indent=_INDENT, style="dim")
        yield from _render_entry(entry, width)


def deeds_lines(
    run: PastRun,
    entries: Sequence[Entry],
    *,
    limit: int | None = 20,
    width: int = 80,
    files: Sequence[UploadedFile] = (),
) -> Iterator[Text]:
    """A run, and what became of the first `limit` of its changes, or of its files."""
    yield Text(_HEAD, "dim")
    yield _head(run)
    said = f"{what(run)} on {visible(run.store)}: {comes_to(run)}"
    yield from text.paragraph(said, width, indent=_INDENT)
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
    """Each file with what became of it, and of its pet."""
    shown = files if limit is None else files[:limit]
    for index, file in enumerate(shown):
        style = "" if file.outcome == "applied" else text.STYLE["conflict"]
        told = of_file(file)
        yield from text.paragraph(told, width, indent=_INDENT, style=style)
        entry = entries.get(index)
        change = None if entry is None else as_change(entry)
        if change is not None:
            yield from one_change(change, width)
    yield from text.more(len(files) - len(shown))


def _head(run: PastRun) -> Text:
    left = f"  {visible(run.run_id):<20}  {words.moment(run.started):<23}  {run.kind:<6}  "
    state = (f"{run.state:<7}", _STATE[run.state])
    return Text.assemble((left, "bold"), state, f"  {words.duration(run.seconds)}")


def _render_entry(entry: Entry, width: int) -> Iterator[Text]:
    style = "" if entry.outcome == "applied" else text.STYLE["conflict"]
    yield from text.paragraph(describe_entry(entry), width, indent=_INDENT, style=style)
    change = as_change(entry)
    if change is not None:
        yield from one_change(change, width)
