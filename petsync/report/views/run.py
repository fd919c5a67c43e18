"""The views of a run's report, and of past runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter

import msgspec

from petsync.plan.change import Add, Blocked, Change, Conflict, Delete, Update, job_of
from petsync.plan.fields import find_filled_columns
from petsync.plan.report import (
    OUTCOMES,
    Cause,
    Entry,
    Outcome,
    PastRun,
    Report,
    Result,
    find_undoing_runs,
)
from petsync.plan.uploads import UploadedFile
from petsync.report import words
from petsync.report.document import (
    Alert,
    Badge,
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
from petsync.report.plan import (
    ROW_KINDS,
    record_of_blocked,
    record_of_change,
    record_of_conflict,
    record_text,
)
from petsync.report.words import (
    BRIEF_CAUSES,
    ResultGroup,
    capital,
    count,
    first,
    format_timestamp,
    number,
    results_by_cause,
    sentences,
)

__all__ = [
    "describe_counts",
    "describe_undo",
    "group_details",
    "outcome_blocks",
    "outcome_kind",
    "outcome_record",
    "pet_view",
    "report_page_view",
    "report_view",
    "run_line",
    "run_view",
    "runs_view",
    "source_words",
    "state_badge",
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
"""The maximum numbers of rows that a page shows without JavaScript: for each outcome that may need
attention, and for each other outcome.
"""


def report_view(
    report: Report,
    *,
    limit: int | None = 20,
    is_listed: bool = False,
    has_undo: bool = True,
) -> Document:
    """Return the totals, and the first `limit` rows of each outcome and cause that needs
    attention; with `is_listed`, without the rows that the plan above it lists. If the user selected
    pets by their ids, all rows to which the plan has nothing to send are left out.
    """
    is_part = report.plan.selected_ids is not msgspec.UNSET
    where = "" if is_part else "The plan above lists them."
    listed = words.SHOWN_CAUSES if is_listed or is_part else ()
    blocks = _blocks(report, limit, listed, where, has_undo=has_undo)
    return Document(f"petsync run {report.run_id}", blocks)


def report_page_view(report: Report) -> Document:
    """Return the totals, what needs attention, and every change with its outcome, for a page."""
    return Document(f"petsync run {report.run_id}", _page_blocks(report))


def _blocks(
    report: Report, limit: int | None, listed: Collection[Cause], where: str, *, has_undo: bool
) -> Iterator[Block]:
    yield Facts(list(words.report_facts(report)))
    yield totals_table(report.counts, "Rows")
    yield from outcome_blocks(report, limit, listed=listed, where=where)
    yield Summary(words.report_summary(report))
    if has_undo and (undo := words.undo_hint(report)):
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
            advice="save the results as a workbook: "
            f"`petsync runs {report.run_id} --results results.xlsx`.",
            has_tools=True,
        )


def outcome_kind(outcome: Outcome) -> RowKind:
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
    """Return what was planned, with its outcome. `kind` is the index of the outcome in the kinds of
    the block; `clashes` are the plan's conflicts about single fields.
    """
    if isinstance(planned, Conflict):
        return msgspec.structs.replace(record_of_conflict(planned), kind=kind)
    if isinstance(planned, Blocked):
        return msgspec.structs.replace(record_of_blocked(planned), kind=kind)
    pet_id = result.pet_id if result.assigned_id is None else result.assigned_id
    shown_id = "" if pet_id is None else str(pet_id)
    record = Record(kind, shown_id, "", record_text(result.source))
    if planned is not None:
        record = record_of_change(planned, clashes.get(planned.row))
        record = msgspec.structs.replace(record, kind=kind, pet_id=shown_id or record.pet_id)
    if job := job_of(report.plan.raw_notes):
        result = words.with_terms(result, job)
    cause = words.describe_cause(
        result.outcome, result.cause, report.run_id, report.plan.undoes
    ).title
    if result.kind == "none":
        message = result.message or cause
    elif result.outcome == "applied" and not result.message:
        message, cause = _DONE_WORDS[result.kind], ""
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
    """Return the number of things with each outcome, and the total. `names` are other names for
    outcomes; on a page, the totals of the `linked` outcomes link to their rows.
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


def outcome_blocks(
    report: Report,
    limit: int | None,
    *,
    is_over: bool = False,
    listed: Collection[Cause] = (),
    where: str = "",
) -> Iterator[Block]:
    """Yield the reason if the run stopped early, and the results that need attention, by cause.
    With `is_over`, the actions to take are left out; the rows of the causes in `listed` are too,
    and `where` says what lists them.
    """
    yield from stop_alert(report.stopped)
    names = words.result_names(report.plan)
    for group in results_by_cause(report, limit, is_over=is_over):
        if group.cause in listed:
            yield Note(sentences(group.title, where))
        elif not group.is_plain:
            yield group_details(group, names, limit)


def stop_alert(stopped: str) -> Iterator[Alert]:
    """Yield the reason why a run stopped early, if it did."""
    if stopped:
        yield Alert(words.STOPPED_TITLE, stopped.splitlines())


def _cause_notes(group: ResultGroup) -> list[Note]:
    cure = group.text.cure
    return [Note(group.text.meaning, "quiet"), *([Note(cure)] if cure else [])]


def group_details(group: ResultGroup, names: Callable[[int], str], limit: int | None) -> Details:
    """Return a group of results with its meaning, what to do, and its listed rows."""
    listing = group.listing
    rows = [_row(result, names) for result in listing.shown]
    return Details(
        group.title,
        [*_cause_notes(group), Table(_COLUMNS, rows, more=format_more(listing.more))],
        is_open=group.cause not in BRIEF_CAUSES and len(rows) <= fold_limit(limit),
    )


def _row(result: Result, names: Callable[[int], str]) -> Row:
    cells = (
        result.source,
        "" if result.kind == "none" else result.kind,
        "" if result.pet_id is None else str(result.pet_id),
        names(result.number),
        capital(result.message),
    )
    return Row(cells, words.OUTCOME_MARK[result.outcome])


# Texts about past runs, for every output format.


_DONE_WORDS: Mapping[str, str] = {
    "add": "added",
    "update": "changed",
    "delete": "deleted",
    "upload": "image uploaded",
}
_OUTCOME_UNKNOWN = "started, and it is not known yet whether it was applied"


def source_words(past: PastRun) -> str:
    """Return the source of the run: a sheet, a folder, or the run that it undoes."""
    return f"undo of run {past.undoes}" if past.undoes else past.source


_STATES: Mapping[str, tuple[str, words.Mark]] = {
    "done": ("+", "applied"),
    "running": ("~", "warning"),
    "stopped": ("x", "blocked"),
}


def state_badge(past: PastRun) -> Badge:
    sign, mark = _STATES[past.state]
    return Badge(sign, capital(past.state), mark)


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


# Past runs: a list of them, one of them, and the changes of one pet.


_RUN_COLUMNS = (
    Column("Run", "name"),
    Column("Started", "value"),
    Column("What", "change"),
    Column("State", "value"),
    Column("Took", "value"),
    Column("Result", "below"),
)


def runs_view(runs: Sequence[PastRun], *, limit: int | None = 20) -> Document:
    """Return the first `limit` runs, each with its undo, and with its store if the runs have
    different stores.
    """
    if not runs:
        return Document("", [Summary("No runs are recorded.")])
    undone = find_undoing_runs(runs)
    has_store = len({run.store for run in runs}) > 1
    listing = first(runs, limit)
    rows = [_run_row(run, undone.get(run.run_id), has_store=has_store) for run in listing.shown]
    return Document("", [_runs_table(rows, format_more(listing.more))])


def run_view(
    run: PastRun,
    entries: Sequence[Entry],
    *,
    files: Sequence[UploadedFile] = (),
    limit: int | None = 20,
) -> Document:
    """Return a run, and the first `limit` of its files with their outcomes and the changes of their
    pets; for a run without files, its changes.
    """
    blocks: list[Block] = [_runs_table([_run_row(run, None, has_store=True)])]
    if files:
        by_number = {entry.number: entry for entry in entries}
        parts = [_file_blocks(file, by_number.get(n)) for n, file in enumerate(files[:limit])]
    else:
        parts = list(map(_entry_blocks, entries[:limit]))
    total = len(files or entries)
    inner = list(chain.from_iterable(parts))
    if more := format_more(total - len(parts)):
        inner.append(Note(more, "quiet"))
    if total:
        blocks.append(Details(count(total, "file" if files else "change"), inner))
    return Document("", blocks)


def pet_view(pet_id: int, entries: Sequence[tuple[PastRun, Entry]]) -> Document:
    """Return the changes to a pet that runs made or planned, with the values before and after."""
    if not entries:
        return Document("", [Summary(f"No recorded run changed pet {pet_id}.")])
    title = f"Pet {pet_id}: {count(len(entries), 'change')}, the newest first"
    groups = groupby(entries, key=itemgetter(0))
    parts = [_run_details(run, [entry for _, entry in group]) for run, group in groups]
    return Document(title, parts)


def _runs_table(rows: Sequence[Row], more: str = "") -> Table:
    return Table(_RUN_COLUMNS, rows, "grid", has_titles=True, more=more)


def _run_row(run: PastRun, undo: PastRun | None, *, has_store: bool) -> Row:
    store = f" on {run.store}" if has_store else ""
    result = f"{source_words(run)}{store}: {describe_counts(run)}"
    state = state_badge(run)
    cells = (
        run.run_id,
        format_timestamp(run.started),
        run.kind,
        state,
        words.duration(run.seconds),
        "; ".join(filter(None, (result, describe_undo(run, undo)))),
    )
    return Row(cells, state.mark)


def _run_details(run: PastRun, entries: Iterable[Entry]) -> Details:
    started, took = format_timestamp(run.started), words.duration(run.seconds)
    note = Note(f"{capital(run.kind)}, started {started}, took {took}, {run.state}", "quiet")
    inner = chain.from_iterable(map(_entry_blocks, entries))
    return Details(f"Run {run.run_id}: {source_words(run)}", [note, *inner])


def _entry_blocks(entry: Entry) -> list[Block]:
    """Return the change with its outcome: `Changed` or, with the reason, `Update, conflict: the pet
    is gone`.
    """
    if entry.outcome == "applied":
        outcome = _DONE_WORDS[entry.kind]
    else:
        outcome = f"{entry.kind}, {entry.outcome or _OUTCOME_UNKNOWN}"
    text = capital(": ".join(filter(None, (outcome, entry.message))))
    return [_outcome_note(text, entry.outcome), *_change_records(entry)]


def _file_blocks(file: UploadedFile, entry: Entry | None) -> list[Block]:
    """Return the change of the file's pet, with the outcome of the file: `7_2.png: image uploaded`
    or, with the reason, `7_2.png: failed: the pet is gone`.
    """
    name = ", ".join(filter(None, (file.source, file.file)))
    outcome = _DONE_WORDS["upload"] if file.outcome == "applied" else file.outcome
    text = ": ".join(filter(None, (name, outcome, file.message)))
    return [_outcome_note(text, file.outcome), *([] if entry is None else _change_records(entry))]


def _outcome_note(text: str, outcome: Outcome | None) -> Note:
    """Return the text, with a mark unless the outcome is `applied`."""
    if outcome == "applied":
        return Note(text)
    return Note(text, mark=words.OUTCOME_MARK[outcome or "unknown"])


def _change_records(entry: Entry) -> Iterator[Records]:
    """Yield the change that the run made or planned, if the journal has it."""
    if change := _find_change(entry):
        yield Records([record_of_change(change)], ROW_KINDS)


def _find_change(entry: Entry) -> Change | None:
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
