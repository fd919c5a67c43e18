"""The views of a round and of several rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from petsync.plan.report import RoundReport
from petsync.plan.rounds import Difference, Round
from petsync.report.document import (
    Alert,
    Block,
    Column,
    Details,
    Document,
    Facts,
    Note,
    Row,
    Snippets,
    Summary,
    Table,
    fold_limit,
    format_more,
)
from petsync.report.round import (
    COMMANDS_TITLE,
    LEVELS,
    MARKS,
    STATUS_WORDS,
    Kind,
    by_kind,
    commands,
    cure_of_kind,
    describe_written,
    facts,
    fields_of,
    format_open,
    format_planned,
    group_alike,
    group_sentence,
    headline,
    kind_meaning,
    open_title,
    reason,
    side_facts,
)
from petsync.report.words import duration, first, sentences

__all__ = ["past_rounds_view", "round_view", "rounds_view"]


_MAX_ALIKE = 20
_ID_LENGTH = 22
"""The length of the timestamp in an id; the start of an id is enough to find a round."""
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
_STARTED = Column("Round (started, UTC)", "value")
_NO_ROUNDS = "No rounds were run."
_PLANNED_NOTE = "(in brackets: planned, not applied)"
_SHOW_ALL_HINT = "To see everything: `--limit 0`, or as a page with `--report FILE.html`."


def round_view(round_report: RoundReport, *, limit: int | None = 20) -> Document:
    """Return the round with the first `limit` of each kind of difference that it left."""
    return Document(f"petsync round of {round_report.round.name}", _blocks(round_report, limit))


def rounds_view(rounds: Sequence[RoundReport], *, limit: int | None = 5) -> Document:
    """Return a table of the rounds, and the first `limit` differences of each kind for each round
    that has any.
    """
    return Document("", _rounds_blocks(rounds, limit))


def past_rounds_view(rounds: Sequence[Round], *, limit: int | None = 20) -> Document:
    """Return a table of the first `limit` rounds, with the start of each and the beginning of its
    id.
    """
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


def _rounds_blocks(rounds: Sequence[RoundReport], limit: int | None) -> Iterator[Block]:
    if not rounds:
        yield Summary(_NO_ROUNDS)
        return
    yield _table([round_report.round for round_report in rounds], "", has_start=False)
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
        title = "To know" if round_.is_well else "Why"
        yield Alert(title, why.splitlines(), is_refusal=level == "bad", has_paths=True)


def _differences(round_report: RoundReport, limit: int | None) -> Iterator[Details]:
    for kind, differences in by_kind(round_report.open).items():
        large_groups, others = group_alike(differences, _MAX_ALIKE if limit is None else limit)
        listing = first(others, limit)
        rows = [_difference_row(kind, each) for each in listing.shown]
        more = format_more(listing.more)
        table = [Table(_DIFFERENCE_COLUMNS, rows, more=more)] if rows or more else []
        yield Details(
            f"{open_title(kind, len(differences))}: {kind_meaning(kind)}",
            [
                Note(cure_of_kind(kind, round_report.round), "quiet"),
                *(Note(f"{group_sentence(*each)}.", mark=MARKS[kind]) for each in large_groups),
                *table,
            ],
            is_open=len(rows) <= fold_limit(limit) and kind != "note",
        )


def _difference_row(kind: Kind, each: Difference) -> Row:
    what = (sentences(each.problem), sentences(each.hint))
    pet_id = "" if each.pet_id is None else str(each.pet_id)
    return Row((each.address, pet_id, each.name, fields_of(each), what), MARKS[kind])


def _commands(round_: Round) -> Iterator[Snippets]:
    if lines := [(command.purpose, command.line) for command in commands(round_)]:
        yield Snippets(COMMANDS_TITLE, lines)


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
