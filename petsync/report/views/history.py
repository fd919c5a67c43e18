"""The view of a history: the state and the plots of each job, then the rounds and the runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from petsync.plan.report import PastRun, find_undoing_runs
from petsync.plan.rounds import Round
from petsync.report.document import (
    Alert,
    Block,
    Column,
    Details,
    Document,
    Facts,
    Figures,
    Note,
    Row,
    Snippets,
    Summary,
    Table,
    format_more,
)
from petsync.report.history import (
    UNCOMPARED,
    RoundGroup,
    describe_period_length,
    group_into_turns,
    job_facts,
    page_summary,
    periods_by_time,
    periods_by_turn,
    rounds_to_look_at,
)
from petsync.report.plots import draw_plots, draw_status_strip
from petsync.report.round import (
    STATUS_WORDS,
    commands,
    commands_title,
    format_open,
    format_planned,
    headline,
    reason,
    status_badge,
)
from petsync.report.views.run import describe_counts, describe_undo, source_words, state_badge
from petsync.report.words import count, duration, format_timestamp, number

__all__ = ["history_view"]


_MAX_TURNS = 60
"""The number of a job's newest turns that are drawn one by one."""
_MAX_PERIODS = 90
_MAX_ALERTS = 5
_JOB_COLUMNS = (Column("Status", "kind"), Column("Job", "head"), Column("Last round", "value"))


def history_view(
    rounds: Sequence[Round],
    runs: Sequence[PastRun],
    *,
    now: datetime | None = None,
    limit: int | None = 100,
) -> Document:
    """Return the history for a page.

    `rounds` are given from the oldest to the newest, `runs` from the newest to the oldest. The
    newest `limit` of each are listed; the plots include all rounds. With `now`, the page shows
    which jobs have not run for longer than their usual pause.
    """
    made_at = f", made {format_timestamp(now)}" if now else ""
    return Document(f"petsync{made_at}", _blocks(rounds, runs, now, limit))


def _blocks(
    rounds: Sequence[Round], runs: Sequence[PastRun], now: datetime | None, limit: int | None
) -> Iterator[Block]:
    jobs = _by_job(rounds)
    yield Summary(page_summary(jobs, len(rounds)))
    if len(jobs) > 1:
        yield Table(_JOB_COLUMNS, [_job_row(*job) for job in jobs.items()], "grid")
    for n, (name, turns) in enumerate(jobs.items()):
        inner = list(_job_blocks(turns, f"job-{n}", now, runs))
        yield Details(name, inner, badge=status_badge(turns[-1].worst))
    if rounds:
        shown = rounds[::-1][:limit]
        yield Details("Rounds", [_table("Job", map(_round_row, shown), len(rounds) - len(shown))])
    if runs:
        undone = find_undoing_runs(runs)
        rows = (_run_row(run, undone.get(run.run_id)) for run in runs[:limit])
        note = Note("`petsync runs RUN` shows what a run did, or what a round found.", "quiet")
        left_out = 0 if limit is None else max(len(runs) - limit, 0)
        yield Details("Runs", [note, _table("Run", rows, left_out)])


def _by_job(rounds: Iterable[Round]) -> dict[str, list[RoundGroup]]:
    jobs: dict[str, list[Round]] = {}
    for each in rounds:
        jobs.setdefault(each.job, []).append(each)
    return {name: group_into_turns(job_rounds) for name, job_rounds in jobs.items()}


def _job_row(name: str, turns: Sequence[RoundGroup]) -> Row:
    last = turns[-1]
    return Row((status_badge(last.worst), name, _format_start(format_timestamp(last.at))))


def _job_blocks(
    turns: Sequence[RoundGroup], name: str, now: datetime | None, runs: Sequence[PastRun]
) -> Iterator[Block]:
    periods = periods_by_turn(turns[-_MAX_TURNS:], now)
    gap = periods[-1] if not periods[-1].turns else None
    yield Facts(list(job_facts(turns, gap, runs)))
    bad_rounds = rounds_to_look_at(turns[-1])
    for round_ in bad_rounds[:_MAX_ALERTS]:
        yield from _round_alert(round_)
    if more := format_more(max(len(bad_rounds) - _MAX_ALERTS, 0)):
        yield Note(more)
    yield Figures([draw_status_strip(periods, f"{name}-ends")])
    yield Figures(list(draw_plots(periods, name)))
    if len(turns) > _MAX_TURNS:
        periods = periods_by_time(turns, _MAX_PERIODS)
        yield Details(
            f"The entire period: {count(len(turns), 'round')} since {turns[0].at:%Y-%m-%d}",
            [
                Note(describe_period_length(periods), "quiet"),
                Figures(list(draw_plots(periods, f"{name}-all"))),
            ],
        )


def _round_alert(round_: Round) -> Iterator[Block]:
    """Yield an alert for a round that needs attention, and the command that releases its plan; the
    round's report has the other commands.
    """
    why = reason(round_)
    part = f"File {round_.part}: " if round_.part else ""
    is_refusal = STATUS_WORDS[round_.status].level == "bad"
    yield Alert(f"{part}{headline(round_)}", why.splitlines(), is_refusal)
    releases = [
        (command.purpose, command.line)
        for command in commands(round_)
        if round_.waiting and command.line.startswith("petsync apply") and command.line not in why
    ]
    if releases:
        yield Snippets(commands_title(round_), releases)


def _table(things: str, rows: Iterable[Row], left_out: int) -> Table:
    columns = (
        Column("Status", "kind"),
        Column("Took", "id"),
        Column(things, "name"),
        Column("What"),
        Column("Started (UTC)", "where"),
    )
    return Table(columns, list(rows), more=format_more(left_out))


def _round_row(round_: Round) -> Row:
    status = status_badge(round_)
    what = [*_describe_changes(round_)]
    if not round_.is_well and (why := reason(round_)):
        what += why.splitlines()
    report = f", report `{round_.report}`" if round_.report else ""
    what.append(f"Round `{round_.id}`{report}")
    started = _format_start(format_timestamp(round_.started))
    return Row((status, duration(round_.seconds), round_.name, what, started), status.mark)


def _describe_changes(round_: Round) -> Iterator[str]:
    sides = (("store", round_.to_store), ("sheet", round_.to_sheet))
    plans = [f"to {side} {format_planned(round_, made)}" for side, made in sides if made.total]
    arrived = f"; {number(round_.applied)} applied" if plans else ""
    nothing = "" if round_.status in UNCOMPARED else "nothing to change"
    open_ = format_open(round_)
    if line := f"{', '.join(plans) or nothing}{arrived}{f'; open: {open_}' if open_ else ''}":
        yield line


def _run_row(run: PastRun, undo: PastRun | None) -> Row:
    status = state_badge(run)
    sentence = f"{source_words(run)}: {describe_counts(run)}"
    what = "; ".join(filter(None, (sentence, describe_undo(run, undo))))
    started = _format_start(format_timestamp(run.started))
    return Row((status, duration(run.seconds), run.run_id, what, started), status.mark)


def _format_start(label: str) -> str:
    """Return the time without seconds: `2026-11-20 09:30`; a text that is not a time is returned
    unchanged.
    """
    return label[: -len(":00 UTC")] if label.endswith(" UTC") else label
