"""The views of a run's report, and past runs as lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from rich.text import Text

from petsync.plan.change import Add, Blocked, Change, Conflict, Delete, Update
from petsync.plan.fields import find_filled_columns
from petsync.plan.report import OUTCOMES, Entry, Outcome, PastRun, Report, Result, find_undoing_runs
from petsync.plan.uploads import UploadedFile
from petsync.report import text, words
from petsync.report.document import (
    Alert,
    Block,
    Column,
    Details,
    Document,
    Facts,
    Note,
    Record,
    Records,
    Row,
    RowKind,
    Summary,
    Table,
    fold_limit,
    format_more,
)
from petsync.report.plan import ROW_KINDS, of_blocked, of_change, of_conflict, record_text
from petsync.report.words import (
    BRIEF_CAUSES,
    ResultGroup,
    capital,
    count,
    format_timestamp,
    number,
    results_by_cause,
    sentences,
)
from petsync.table.cells import make_visible

__all__ = [
    "DONE_WORDS",
    "change_of_entry",
    "describe_counts",
    "describe_entry",
    "describe_file",
    "describe_undo",
    "outcome_blocks",
    "outcome_kind",
    "outcome_record",
    "pet_lines",
    "report_page_view",
    "report_view",
    "run_details_lines",
    "run_line",
    "runs_lines",
    "source_words",
    "stop_alert",
    "totals_table",
]


# A report.


_COLUMNS = (
    Column("Where", "where"),
    Column("Change", "change"),
    Column("Id", "id"),
    Column("Pet", "name"),
    Column("What happened"),
)
_FIRST, _FIRST_DONE = 1_000, 20
"""The number of rows that a page shows without its script: of outcomes that need attention, and of
others.
"""
_ADVICE = "save the results as a workbook: `petsync apply --results results.xlsx`."


def report_view(report: Report, *, limit: int | None = 20) -> Document:
    """Return the totals, and the first `limit` rows of each outcome and cause that needs
    attention.
    """
    return Document(f"petsync run {report.run_id}", _blocks(report, limit))


def report_page_view(report: Report) -> Document:
    """Return the totals, what needs attention, and every change with its outcome, for a page."""
    return Document(f"petsync run {report.run_id}", _page_blocks(report))


def _blocks(report: Report, limit: int | None) -> Iterator[Block]:
    yield Facts(list(words.report_facts(report)))
    yield totals_table(report.counts, "Rows")
    yield from outcome_blocks(report, limit)
    yield Summary(words.report_summary(report))
    if undo := words.undo_hint(report):
        yield Note(undo, "quiet")


def _page_blocks(report: Report) -> Iterator[Block]:
    kinds = [outcome for outcome in words.RANK if any(r.outcome == outcome for r in report.results)]
    yield Summary(words.report_summary(report))
    yield from stop_alert(report.stopped)
    yield totals_table(report.counts, "Rows", linked=kinds)
    yield Facts(list(words.report_facts(report)))
    if undo := words.undo_hint(report):
        yield Note(undo, "quiet")
    for group in results_by_cause(report, 0):
        if not group.is_plain:
            yield Details(group.title, _cause_notes(group))
    if kinds:
        rows = sorted(report.results, key=lambda result: kinds.index(result.outcome))
        plan = report.plan
        planned = dict(enumerate((*plan.changes, *plan.open_conflicts, *plan.blocked)))
        clashes = words.clashes_by_row(plan)
        records = [
            outcome_record(
                result, planned.get(result.number), kinds.index(result.outcome), report, clashes
            )
            for result in rows
        ]
        yield Records(
            records,
            list(map(outcome_kind, kinds)),
            kind_title="Outcome",
            advice=_ADVICE,
            has_tools=True,
        )


def outcome_kind(outcome: Outcome) -> RowKind:
    """Return the kind of a page's rows with this outcome."""
    first = _FIRST_DONE if outcome in ("applied", "unchanged") else _FIRST
    return RowKind(_kind_name(outcome), capital(outcome), words.OUTCOME_MARK[outcome], first)


def _kind_name(outcome: Outcome) -> str:
    return outcome.replace(" ", "-")


def outcome_record(
    result: Result,
    planned: Change | Conflict | Blocked | None,
    kind: int,
    report: Report,
    clashes: words.ClashesByRow,
) -> Record:
    """Return what was planned and what became of it. `kind` is the position of the outcome;
    `clashes` has the conflicts of single fields of the planned changes.
    """
    if isinstance(planned, Conflict):
        return msgspec.structs.replace(of_conflict(planned), kind=kind)
    if isinstance(planned, Blocked):
        return msgspec.structs.replace(of_blocked(planned), kind=kind)
    pet_id = result.pet_id if result.assigned_id is None else result.assigned_id
    shown_id = "" if pet_id is None else str(pet_id)
    record = Record(kind, shown_id, "", record_text(result.source))
    if planned is not None:
        record = of_change(planned, clashes.get(planned.row))
        record = msgspec.structs.replace(record, kind=kind, pet_id=shown_id or record.pet_id)
    cause = words.describe_cause(
        result.outcome, result.cause, report.run_id, report.plan.undoes
    ).title
    if result.kind == "none":
        message = result.message or cause
    elif result.outcome == "applied" and not result.message:
        message, cause = DONE_WORDS[result.kind], ""
    else:
        message = f"{result.kind}: {result.message or cause}"
    return msgspec.structs.replace(
        record,
        message=record_text(sentences(capital(message), record.message)),
        cure=f"{capital(cause)}." if cause and result.message else "",
    )


def totals_table(
    counts: Mapping[Outcome, int],
    things: str,
    names: Mapping[Outcome, str] | None = None,
    *,
    linked: Collection[Outcome] = (),
) -> Table:
    """Return the number of things with each outcome, and their sum. `names` has other words for
    outcomes; `linked` has the outcomes of which a page has the rows.
    """
    names = names or {}
    columns = (Column("Outcome", "head"), Column(things, "number"))
    rows = [
        Row(
            (names.get(outcome, outcome), number(total)),
            words.OUTCOME_MARK[outcome],
            "" if total else "quiet",
            _kind_name(outcome) if outcome in linked else "",
        )
        for outcome, total in counts.items()
    ]
    total = Row(("total", number(sum(counts.values()))), tone="strong")
    return Table(columns, [*rows, total], "totals")


def outcome_blocks(report: Report, limit: int | None, *, is_over: bool = False) -> Iterator[Block]:
    """Yield the reason if the run stopped early, and, by cause, the results that need attention.
    With `is_over`, the actions to take are left out.
    """
    yield from stop_alert(report.stopped)
    names = words.result_names(report.plan)
    for group in results_by_cause(report, limit, is_over=is_over):
        if not group.is_plain:
            yield _group_details(group, names, limit)


def stop_alert(stopped: str) -> Iterator[Alert]:
    """Yield the reason why a run stopped early, if it did."""
    if stopped:
        yield Alert(words.STOPPED_TITLE, stopped.splitlines())


def _cause_notes(group: ResultGroup) -> list[Note]:
    cure = group.text.cure
    return [Note(group.text.meaning, "quiet"), *([Note(cure)] if cure else [])]


def _group_details(group: ResultGroup, names: Sequence[str], limit: int | None) -> Details:
    listing = group.listing
    rows = [_row(result, names) for result in listing.shown]
    return Details(
        group.title,
        [*_cause_notes(group), Table(_COLUMNS, rows, more=format_more(listing.more))],
        is_open=group.cause not in BRIEF_CAUSES and len(rows) <= fold_limit(limit),
    )


def _row(result: Result, names: Sequence[str]) -> Row:
    cells = (
        result.source,
        "" if result.kind == "none" else result.kind,
        "" if result.pet_id is None else str(result.pet_id),
        names[result.number] if result.number < len(names) else "",
        capital(result.message),
    )
    return Row(cells, words.OUTCOME_MARK[result.outcome])


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
            yield from text.record_lines(Records([of_change(change)], ROW_KINDS), width)
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
        yield from text.record_lines(Records([of_change(change)], ROW_KINDS), width)
