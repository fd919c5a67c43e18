"""The views of a round and of several rounds, for a terminal, a notebook and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from petsync.plan.change import Change
from petsync.plan.plan import Plan
from petsync.plan.report import OUTCOMES, Report, RoundReport
from petsync.plan.rounds import Difference, Round
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
    Snippets,
    Summary,
    Table,
    fold_limit,
    format_more,
)
from petsync.report.plan import ROW_KINDS, plan_alerts, record_of_change, record_of_sheet_change
from petsync.report.round import (
    KIND_NAMES,
    LEVELS,
    MARKS,
    STATUS_WORDS,
    Kind,
    advice_for_kind,
    by_kind,
    commands,
    commands_title,
    describe_sheet_result,
    describe_store_result,
    describe_written,
    facts,
    fields_of,
    format_open,
    format_planned,
    group_alike,
    group_sentence,
    headline,
    kind_meaning,
    open_counts,
    open_title,
    reason,
    side_facts,
    status_badge,
    store_facts,
)
from petsync.report.views.run import outcome_kind, outcome_record
from petsync.report.words import (
    Mark,
    clashes_by_row,
    count,
    duration,
    first,
    format_timestamp,
    number,
    sentences,
)

__all__ = [
    "past_rounds_view",
    "round_page_view",
    "round_view",
    "rounds_page_view",
    "rounds_view",
]


_MAX_ALIKE = 20
_MAX_ROWS = 1_000
"""The maximum number of rows of each kind on a page; the JSON of the round has all rows."""
_ID_LENGTH = 22
"""The length of the timestamp at the start of an id, which is enough to find a round."""
_DIFFERENCE_COLUMNS = (
    Column("Where", "where"),
    Column("Id", "id"),
    Column("Pet", "name"),
    Column("Field", "field"),
    Column("Problem"),
)
_ROUND_COLUMNS = (
    Column("Status", "value"),
    Column("Job", "head"),
    Column("To store", "value"),
    Column("To sheet", "value"),
    Column("Open", "extra"),
    Column("Took", "number"),
)
_OVERVIEW_COLUMNS = (Column("Status", "kind"), Column("Job", "head"), Column("Open"))
_STARTED = Column("Round (started, UTC)", "id")
_NO_ROUNDS = "No rounds were run."
_PLANNED_NOTE = "(in brackets: planned, not applied)"
_STORE_TITLE, _SHEET_TITLE = "Changes for the store", "Changes for the sheet"
_KINDS = [*ROW_KINDS, *map(outcome_kind, OUTCOMES)]
_SHOW_ALL_HINT = "To see everything: `--limit 0`, or as a page with `--report FILE.html`."


def round_view(round_report: RoundReport, *, limit: int | None = 20) -> Document:
    """Return the round with the first `limit` differences of each kind that it left."""
    return Document(f"petsync round of {round_report.round.name}", _blocks(round_report, limit))


def rounds_view(rounds: Sequence[RoundReport], *, limit: int | None = 5) -> Document:
    """Return a table of the rounds, and the first `limit` differences of each kind that each of
    them left.
    """
    return Document("", _rounds_blocks(rounds, limit))


def round_page_view(round_report: RoundReport) -> Document:
    """Return the round for a page: the status first, then the commands, the differences that it
    left, and the changes of both sides.
    """
    started = format_timestamp(round_report.round.started)
    title = f"petsync round, {started}"
    return Document(title, _page_blocks(round_report), status_badge(round_report.round))


def rounds_page_view(rounds: Sequence[RoundReport]) -> Document:
    """Return a table of the rounds, and the details of each of them, for a page."""
    if not rounds:
        return Document("", [Summary(_NO_ROUNDS)])
    rows = [Row((status_badge(r.round), r.round.name, format_open(r.round))) for r in rounds]
    parts = [
        Details(each.round.name, list(_page_blocks(each)), badge=status_badge(each.round))
        for each in rounds
    ]
    stores = Facts(list(store_facts(each.round for each in rounds)))
    return Document("", [Table(_OVERVIEW_COLUMNS, rows, "grid"), stores, *parts])


def past_rounds_view(rounds: Sequence[Round], *, limit: int | None = 20) -> Document:
    """Return a table of the first `limit` rounds, with the start of their ids."""
    shown = first(rounds, limit)
    table = _table(shown.shown, format_more(shown.more), has_start=True)
    return Document("", [table] if rounds else [Summary(_NO_ROUNDS)])


def _blocks(round_report: RoundReport, limit: int | None) -> Iterator[Block]:
    round_ = round_report.round
    yield Facts(list(facts(round_report)))
    yield Facts(list(side_facts(round_)))
    yield from _differences(round_report, limit)
    yield from _commands(round_)
    yield from _end(round_)
    yield from _files([round_report])


def _page_blocks(round_report: RoundReport) -> Iterator[Block]:
    round_ = round_report.round
    yield from _end(round_)
    if round_report.plan is not None or round_.drift:
        yield _tiles(round_)
    if commands := list(_commands(round_)):
        yield Details("What can be done", commands)
    yield Details("About this round", [Facts(list(facts(round_report)))])
    yield from _differences(round_report, _MAX_ROWS, is_page=True)
    if round_report.plan is not None:
        yield Details(_STORE_TITLE, list(_store_changes(round_report, round_report.plan)))
    if round_report.sheet:
        shown = first(round_report.sheet, _MAX_ROWS)
        records = list(map(record_of_sheet_change, shown.shown))
        note = Note(describe_sheet_result(round_report))
        yield Details(_SHEET_TITLE, [note, Records(records, ROW_KINDS, shown.more)])


def _tiles(round_: Round) -> Table:
    totals: list[tuple[int, str, Mark]] = [
        (round_.drift, "different at the start", "note"),
        (round_.to_store.total, "for the store", "update"),
        (round_.to_sheet.total, "for the sheet", "update"),
        (round_.applied, "applied", "applied"),
    ]
    totals += [
        (total, KIND_NAMES[kind][total != 1], MARKS[kind])
        for kind, total in open_counts(round_)
        if total
    ]
    rows = [Row((name, number(total)), mark) for total, name, mark in totals]
    return Table((Column("What", "head"), Column("Number", "number")), rows, "totals")


def _store_changes(round_report: RoundReport, plan: Plan) -> Iterator[Block]:
    if plan.verdict.ok:
        # The guard's refusal is at the top of the page, with the hint for this job.
        yield from plan_alerts(plan, _MAX_ROWS)
    yield Note(describe_store_result(round_report))
    if plan.changes:
        shown = first(plan.changes, _MAX_ROWS)
        records = list(_change_records(shown.shown, plan, round_report.report))
        yield Records(records, _KINDS, shown.more)


def _change_records(
    changes: Sequence[Change], plan: Plan, report: Report | None
) -> Iterator[Record]:
    """Yield the changes, each with its outcome if it was not applied or has a message."""
    results = {} if report is None else {result.number: result for result in report.results}
    clashes = clashes_by_row(plan)
    for n, change in enumerate(changes):
        result = results.get(n)
        if report is None or result is None or (result.outcome, result.message) == ("applied", ""):
            yield record_of_change(change, clashes.get(change.row))
        else:
            kind = len(ROW_KINDS) + OUTCOMES.index(result.outcome)
            yield outcome_record(result, change, kind, report, clashes)


def _rounds_blocks(rounds: Sequence[RoundReport], limit: int | None) -> Iterator[Block]:
    if not rounds:
        yield Summary(_NO_ROUNDS)
        return
    yield _table([round_report.round for round_report in rounds], "", has_start=False)
    yield Facts(list(store_facts(each.round for each in rounds)))
    for round_report in rounds:
        round_ = round_report.round
        if not round_.is_well or round_report.open:
            inner = [*_end(round_), *_differences(round_report, limit)]
            inner += [] if round_.is_well else _commands(round_)
            yield Details(round_.name, inner, is_open=False)
    if all(round_report.round.is_well for round_report in rounds):
        yield Note("No action is needed.")
    if any(round_report.round.dry_run and _is_long(round_report, limit) for round_report in rounds):
        yield Note(_SHOW_ALL_HINT, "quiet")
    yield from _files(rounds)


def _is_long(round_report: RoundReport, limit: int | None) -> bool:
    groups = by_kind(round_report.open).values()
    return limit is not None and any(len(differences) > limit for differences in groups)


def _table(rounds: Sequence[Round], more: str, *, has_start: bool) -> Table:
    columns = (_STARTED, *_ROUND_COLUMNS) if has_start else _ROUND_COLUMNS
    rows = [_row(round_, has_start=has_start) for round_ in rounds]
    is_planned = any(str(cell).startswith("(") for row in rows for cell in row.cells[-4:-2])
    note = _PLANNED_NOTE if is_planned else ""
    more = " ".join(filter(None, (more, note)))
    return Table(columns, rows, "grid", has_titles=True, more=more)


def _row(round_: Round, *, has_start: bool) -> Row:
    end = STATUS_WORDS[round_.status]
    cells = (
        *([round_.id[:_ID_LENGTH]] if has_start else []),
        f"{end.sign} {end.title}{' (dry run)' if round_.dry_run else ''}",
        round_.name,
        format_planned(round_, round_.to_store),
        format_planned(round_, round_.to_sheet),
        format_open(round_),
        duration(round_.seconds),
    )
    return Row(cells, LEVELS[end.level])


def _end(round_: Round) -> Iterator[Block]:
    """Yield how the round ended, and why."""
    level = STATUS_WORDS[round_.status].level
    yield Summary(headline(round_), None if round_.is_well else LEVELS[level])
    if why := reason(round_):
        title = "Note" if round_.is_well else "Why"
        yield Alert(title, why.splitlines(), is_refusal=level == "bad", has_paths=True)


def _differences(
    round_report: RoundReport, limit: int | None, *, is_page: bool = False
) -> Iterator[Details]:
    """Yield what the round left, by kind. A large group is a collapsed part of a page; elsewhere it
    is one sentence.
    """
    most_alike = _MAX_ALIKE if limit is None or is_page else limit
    for kind, differences in by_kind(round_report.open).items():
        large_groups, others = group_alike(differences, most_alike)
        table: list[Block] = [*_difference_table(kind, others, limit)]
        groups = [
            Details(group_sentence(*each), list(_difference_table(kind, each[1], limit)), False)
            if is_page
            else Note(f"{group_sentence(*each)}.", mark=MARKS[kind])
            for each in large_groups
        ]
        if is_page and kind == "waiting" and len(others) > _MAX_ALIKE:
            # Other parts of the page show these changes, too.
            table = [Details(count(len(others), "change"), table, is_open=False)]
        shown = first(others, limit).shown
        is_open = is_page or (kind != "note" and len(shown) <= fold_limit(limit))
        meaning = kind_meaning(kind, differences, round_report.round)
        yield Details(
            f"{open_title(kind, len(differences))}: {meaning}",
            [Note(advice_for_kind(kind, round_report.round), "quiet"), *groups, *table],
            is_open=is_open,
        )


def _difference_table(
    kind: Kind, differences: Sequence[Difference], limit: int | None
) -> Iterator[Table]:
    listing = first(differences, limit)
    rows = [_difference_row(kind, each) for each in listing.shown]
    if listing.total:
        yield Table(_DIFFERENCE_COLUMNS, rows, more=format_more(listing.more))


def _difference_row(kind: Kind, each: Difference) -> Row:
    what = (sentences(each.problem), sentences(each.hint))
    pet_id = "" if each.pet_id is None else str(each.pet_id)
    return Row((each.address, pet_id, each.name, fields_of(each), what), MARKS[kind])


def _commands(round_: Round) -> Iterator[Snippets]:
    if lines := [(command.purpose, command.line) for command in commands(round_)]:
        yield Snippets(commands_title(round_), lines)


def _files(rounds: Sequence[RoundReport]) -> Iterator[Snippets]:
    """Yield the changes written into sheets, the paths of their backups, and the reports."""
    for each in rounds:
        if each.round.backup:
            title = f"The sheet of {each.round.name}: {describe_written(each)}. Backup:"
            yield Snippets(title, [("", each.round.backup)])
    reports = first([each.round.report for each in rounds if each.round.report], _MAX_ALIKE)
    if reports.total:
        title = "Report:" if reports.total == 1 else "Reports:"
        yield Snippets(title, [("", path) for path in reports.shown], format_more(reports.more))
