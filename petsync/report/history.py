"""A job's history as turns and as the periods of a plot, and the texts about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

from petsync.plan.report import PastRun, runs_of
from petsync.plan.rounds import Counts, Round, Status, exit_code_of
from petsync.report import round as round_words
from petsync.report.words import capital, count, duration, format_timestamp, number
from petsync.table.cells import make_visible

__all__ = [
    "UNCOMPARED",
    "Period",
    "RoundGroup",
    "describe_period",
    "describe_period_length",
    "group_into_turns",
    "job_facts",
    "page_summary",
    "parse_timestamp",
    "periods_by_time",
    "periods_by_turn",
    "rounds_to_look_at",
    "summarize_plot",
]


# A turn is one execution of a job: one round, or a round for each file if the job has a folder. A
# period is a column of a plot: a turn, a span of time, or a gap where rounds are missing.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAME_TURN = timedelta(hours=1)
_GAP_FACTOR = 1.6
"""If a pause is at least this many times as long as usual, turns are missing in it."""
_MAX_GAP_WIDTH = 4
_MAX_YEAR = 2_200
_HOUR = 3_600
_STEPS = [_HOUR * n for n in (1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 2_160, 8_760, 43_800)]


@dataclass(frozen=True, slots=True)
class RoundGroup:
    """A turn of a job: one round, or the rounds of the files in its folder."""

    rounds: tuple[Round, ...]
    at: datetime

    @property
    def worst(self) -> Round:
        """The round with the most urgent exit code."""
        code = exit_code_of(each.exit_code for each in self.rounds)
        return next(each for each in self.rounds if each.exit_code == code)

    @property
    def is_well(self) -> bool:
        return all(each.is_well for each in self.rounds)

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.rounds)

    @property
    def drift(self) -> int:
        """The number of rows and pets that differed when the rounds began."""
        return sum(each.drift for each in self.rounds)

    @property
    def end(self) -> datetime:
        """The approximate time at which the last round ended: the start of the turn plus the
        duration of all rounds.
        """
        return self.at + timedelta(seconds=min(self.seconds, 1e8))


@dataclass(frozen=True, slots=True)
class Period:
    """One column of a plot: a turn, a span of time with its turns, or a gap without turns."""

    turns: tuple[RoundGroup, ...]
    since: datetime
    until: datetime
    missed: int = 0
    """The approximate number of turns that are missing in a gap."""
    columns: int = 1
    """The number of normal columns that its time would fill."""

    @property
    def width(self) -> int:
        """The width of its column, in widths of a normal column, from 1 to 4."""
        return min(max(self.columns, 1), _MAX_GAP_WIDTH)

    @property
    def rounds(self) -> Iterator[Round]:
        return (each for turn in self.turns for each in turn.rounds)

    @property
    def worst(self) -> Round:
        """The round with the most urgent exit code."""
        return RoundGroup(tuple(turn.worst for turn in self.turns), self.since).worst

    def count_made(self, side: str) -> Counts:
        """Return the changes planned for a side, `to_store` or `to_sheet`, in rounds that applied
        changes.
        """
        return _sum(getattr(each, side) for each in self.rounds if each.applied)

    def count_planned(self, side: str) -> int:
        """Return the number of changes planned for a side, `to_store` or `to_sheet`, in rounds that
        applied no changes.
        """
        return sum(getattr(each, side).total for each in self.rounds if not each.applied)

    def total(self, field: str) -> int:
        """Return the sum of a field over the rounds of a turn; for several turns, the largest
        sum.
        """
        sums = (sum(getattr(each, field) for each in turn.rounds) for turn in self.turns)
        return max(sums, default=0)


def parse_timestamp(text: str, otherwise: datetime = _EPOCH) -> datetime:
    """Return the time in an ISO 8601 string, in UTC; `otherwise` for any other string, and for a
    time outside the years 1970 to 2200.
    """
    try:
        given = datetime.fromisoformat(text)
        utc = given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return otherwise
    return utc if _EPOCH.year <= utc.year <= _MAX_YEAR else otherwise


def group_into_turns(rounds: Iterable[Round]) -> list[RoundGroup]:
    """Group the rounds of one job, given from the oldest to the newest, into turns. Rounds of
    different files belong to one turn, unless the second starts more than about an hour after the
    first ended.
    """
    turns: list[RoundGroup] = []
    for each in rounds:
        last = turns[-1] if turns else None
        at = parse_timestamp(each.started, last.at if last else _EPOCH)
        if last is None or not _is_together(last, each, at):
            turns.append(RoundGroup((each,), at))
        else:
            turns[-1] = RoundGroup((*last.rounds, each), last.at)
    return turns


def _is_together(turn: RoundGroup, round_: Round, at: datetime) -> bool:
    parts = {each.part for each in turn.rounds}
    return (
        "" not in parts | {round_.part}
        and round_.part not in parts
        and (turn.at <= at <= turn.end + _SAME_TURN)
    )


def periods_by_turn(turns: Sequence[RoundGroup], now: datetime | None = None) -> list[Period]:
    """Return a period for each turn and each gap. With `now`, a gap can follow the last turn."""
    pause = _usual_pause(turns)
    periods: list[Period] = []
    for turn, following in [*pairwise([*turns, None])]:
        assert turn is not None  # only the last item is None
        periods.append(Period((turn,), turn.at, turn.at))
        until = following.at if following else now
        if until is not None and (
            missed := _count_missed(turn.at, until, pause, is_over=following)
        ):
            periods.append(Period((), turn.at, until, missed, columns=missed))
    return periods


def _usual_pause(turns: Sequence[RoundGroup]) -> timedelta:
    pauses = [(b.at - a.at).total_seconds() for a, b in pairwise(turns) if b.at > a.at]
    return timedelta(seconds=median(pauses) if pauses else 0)


def _count_missed(since: datetime, until: datetime, pause: timedelta, is_over: object) -> int:
    """Estimate from the usual pause how many turns are missing between two turns, or since the last
    turn.
    """
    if not pause or until - since < _GAP_FACTOR * pause:
        return 0
    return round((until - since) / pause) - bool(is_over)


def periods_by_time(turns: Sequence[RoundGroup], limit: int) -> list[Period]:
    """Return at most `limit` periods. They have the same length, but consecutive periods without a
    turn are merged into one gap.
    """
    ordered = sorted(turns, key=lambda turn: turn.at)
    step, pause = _period_length(ordered[-1].at - ordered[0].at, limit), _usual_pause(ordered)
    periods: list[Period] = []
    for index, group in _group_turns(ordered, step):
        start = _EPOCH + index * step
        if periods and start > periods[-1].until:
            missed = _count_missed(periods[-1].turns[-1].at, group[0].at, pause, is_over=True)
            columns = round((start - periods[-1].until) / step)
            periods.append(Period((), periods[-1].until, start, missed, columns))
        periods.append(Period(tuple(group), start, start + step))
    return periods


def _group_turns(
    turns: Sequence[RoundGroup], step: timedelta
) -> Iterator[tuple[int, list[RoundGroup]]]:
    groups: dict[int, list[RoundGroup]] = {}
    for turn in turns:
        groups.setdefault((turn.at - _EPOCH) // step, []).append(turn)
    yield from groups.items()


def _period_length(span: timedelta, limit: int) -> timedelta:
    needed = span.total_seconds() / (limit - 1)
    return timedelta(seconds=next((n for n in _STEPS if n >= needed), needed))


def _sum(counts: Iterable[Counts]) -> Counts:
    all_counts = list(counts)
    return Counts(
        add=sum(each.add for each in all_counts),
        update=sum(each.update for each in all_counts),
        delete=sum(each.delete for each in all_counts),
    )


# Texts about a job's history: about the periods of a plot, a plot, and the job.


UNCOMPARED: Sequence[Status] = ("error", "locked")
"""Statuses of rounds that may have ended before they compared both sides."""


def describe_period(period: Period) -> str:
    """Return the tooltip of a period. For several turns, changes are added up, and other values are
    the maximum.
    """
    if not period.turns:
        until = f" until {_format_minute(period.until)}" if period.until > period.since else ""
        missing = f": about {count(period.missed, 'round')} missing" if period.missed else ""
        return f"No round after {_format_minute(period.since)}{until}{missing}"
    return "\n".join(_period_lines(period))


def _period_lines(period: Period) -> Iterator[str]:
    rounds = list(period.rounds)
    if len(rounds) == 1:
        yield f"{format_timestamp(period.since)}: {round_words.headline(rounds[0])}"
    else:
        ends = Counter(round_words.STATUS_WORDS[each.status].title for each in rounds)
        endings = ", ".join(f"{number(total)} {title}" for title, total in ends.items())
        yield f"{_format_minute(period.since)}: {count(len(rounds), 'round')}: {endings}"
    for side, name in (("to_store", "store"), ("to_sheet", "sheet")):
        made_counts, planned = period.count_made(side), period.count_planned(side)
        parts = [round_words.format_counts(made_counts)] if made_counts.total else []
        parts += [f"{number(planned)} planned and not made"] if planned else []
        if parts:
            yield f"{name}: {', '.join(parts)}"
    open_counts = [(kind, period.total(field)) for kind, field in round_words.OPEN_FIELDS.items()]
    if open_ := round_words.format_open_total([open_counts]):
        yield f"open: {open_}"
    seconds_text = duration(max(turn.seconds for turn in period.turns))
    yield f"drift {number(period.total('drift'))}, took {seconds_text}"


def _format_minute(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M}"


def describe_period_length(periods: Sequence[Period]) -> str:
    """Return a sentence about the time that each column covers."""
    hours = (periods[-1].until - periods[-1].since).total_seconds() / 3_600
    length = count(round(hours), "hour") if hours < 48 else count(round(hours / 24), "day")
    return f"Each column covers {length}: changes are added up, other values are the maximum."


def summarize_plot(periods: Sequence[Period], what: str = "ends") -> str:
    """Describe a plot in one sentence. `what` is `changes`, `open`, `drift` or `took`; `ends` is
    the plot of the statuses.
    """
    shown = [period for period in periods if period.turns]
    rounds = [each for period in shown for each in period.rounds]
    if not rounds:
        return "No rounds were run."
    if what != "ends":
        return f"{capital(_SUMMARIES[what](rounds))}."
    span = f"from {_format_minute(shown[0].since)} to {_format_minute(shown[-1].turns[-1].at)} UTC"
    return f"{count(len(rounds), 'round')} {span}: {_format_endings(rounds)}."


def _format_endings(rounds: Sequence[Round]) -> str:
    ends = Counter(round_words.STATUS_WORDS[each.status].title for each in rounds)
    return ", ".join(f"{number(total)} {title}" for title, total in ends.most_common())


def _describe_changes(rounds: Sequence[Round]) -> str:
    changed_rounds = [each for each in rounds if each.applied]
    store = sum(each.to_store.total for each in changed_rounds)
    sheet = sum(each.to_sheet.total for each in changed_rounds)
    peak_round = max(rounds, key=lambda each: each.applied)
    peak = (
        f", most on {peak_round.started[:10]} ({number(peak_round.applied)})"
        if peak_round.applied
        else ""
    )
    return f"{count(store, 'change')} for the store and {number(sheet)} for the sheet{peak}"


def _describe_open(rounds: Sequence[Round]) -> str:
    total = round_words.format_open_total(round_words.open_counts(each) for each in rounds)
    return f"{total}, added up over all rounds" if total else "nothing was left open"


def _describe_drift(rounds: Sequence[Round]) -> str:
    known = [float(each.drift) for each in rounds if each.status not in UNCOMPARED]
    return _describe_range(known, lambda value: number(int(value))) if known else "not known"


def _describe_duration(rounds: Sequence[Round]) -> str:
    return _describe_range([each.seconds for each in rounds], duration)


def _describe_range(values: Sequence[float], format_value: Callable[[float], str]) -> str:
    median_value = sorted(values)[len(values) // 2]
    if min(values) == max(values):
        return format_value(values[0])
    extent = f"from {format_value(min(values))} to {format_value(max(values))}"
    return f"{extent}, usually {format_value(median_value)}, last {format_value(values[-1])}"


_SUMMARIES: Mapping[str, Callable[[Sequence[Round]], str]] = {
    "changes": _describe_changes,
    "open": _describe_open,
    "drift": _describe_drift,
    "took": _describe_duration,
}


def rounds_to_look_at(turn: RoundGroup) -> list[Round]:
    return [each for each in turn.rounds if not each.is_well]


def job_facts(
    turns: Sequence[RoundGroup], gap: Period | None, runs: Sequence[PastRun] = ()
) -> Iterator[tuple[str, str]]:
    """Yield facts about the job: names and values. `gap` is the gap after the last round, if there
    is one.
    """
    last = turns[-1]
    files = f", {count(len(last.rounds), 'file')}" if last.rounds[0].part else ""
    yield "last round", f"{format_timestamp(last.at)}, took {duration(last.seconds)}{files}"
    last_success = next((turn for turn in reversed(turns) if turn.is_well), None)
    yield (
        "last success",
        "none so far" if last_success is None else format_timestamp(last_success.at),
    )
    yield "streak", _streak(turns)
    if open_ := round_words.format_open_total(
        round_words.open_counts(each) for each in last.rounds
    ):
        yield "left open", open_
    if manual_runs := _describe_manual_runs(turns, runs):
        yield "manual runs", manual_runs
    if gap is not None:
        yield "missing", f"about {count(gap.missed, 'round')} since the last one"


def _describe_manual_runs(turns: Sequence[RoundGroup], runs: Sequence[PastRun]) -> str:
    """Describe the runs outside rounds, such as a released plan or an undo. No plot shows them."""
    rounds = [each for turn in turns for each in turn.rounds]
    run_ids = {run for each in rounds for run in each.runs}
    manual_runs = [run for run in runs_of(runs, rounds) if run.run_id not in run_ids]
    if not manual_runs:
        return ""
    changes = count(sum(run.counts.get("applied", 0) for run in manual_runs), "change")
    last = f"the last {format_timestamp(manual_runs[0].started)}, {manual_runs[0].run_id}"
    return f"{count(len(manual_runs), 'run')} outside rounds, {changes} for the store; {last}"


def _streak(turns: Sequence[RoundGroup]) -> str:
    was_well, length = turns[-1].is_well, 0
    for turn in reversed(turns):
        if turn.is_well != was_well:
            break
        length += 1
    need = "needs" if length == 1 else "need"
    description = "that went well" if was_well else f"that {need} attention"
    row = " in a row" if length > 1 else ""
    return f"{count(length, 'round')}{row} {description}, since {turns[-length].at:%Y-%m-%d}"


def page_summary(jobs: Mapping[str, Sequence[RoundGroup]], total: int) -> str:
    """Summarize all jobs in one or two sentences."""
    jobs_to_look_at = [name for name, turns in jobs.items() if not turns[-1].is_well]
    rounds = count(total, "round")
    if not jobs:
        return "No round so far."
    if not jobs_to_look_at:
        owner = "" if len(jobs) == 1 else f"s of all {number(len(jobs))} jobs"
        return f"No problems in the last round{owner}. {rounds} so far."
    names = ", ".join(make_visible(name) for name in jobs_to_look_at)
    return f"Look at the last round of: {names}. {rounds} so far."
