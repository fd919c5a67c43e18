"""Runs and rounds as pages and plots."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from statistics import median

from petsync.plan.report import PastRun, find_undoing_runs, runs_of
from petsync.plan.rounds import Counts, Round, Status, exit_code_of
from petsync.report import html, words
from petsync.report import round as round_view
from petsync.report.html import (
    badge,
    bdi,
    document,
    element,
    page_line,
    prose,
    text,
    two_columns,
)
from petsync.report.round import (
    more_html,
    records_table,
    render_command,
    round_badge,
    section,
)
from petsync.report.views import run as run_view
from petsync.report.words import capital, count, duration, format_timestamp, number
from petsync.table.cells import make_visible

__all__ = [
    "BOTTOM",
    "LEFT",
    "RIGHT",
    "TOP",
    "UNCOMPARED",
    "WIDTH",
    "Column",
    "PlotArea",
    "RoundGroup",
    "axis_limit",
    "columns_by_time",
    "columns_by_turn",
    "date_labels",
    "describe_column",
    "describe_column_length",
    "figure",
    "group_into_turns",
    "history_page",
    "job_facts",
    "page_summary",
    "parse_timestamp",
    "plots",
    "round_up_to_mark",
    "rounds_to_look_at",
    "short_duration",
    "short_number",
    "status_strip",
    "steps",
    "steps_in_time",
    "summarize_plot",
    "svg_element",
]


# A job's history as turns, one for each time that it was reconciled, and as columns of a plot, one
# for each turn or for each period, with gaps for missing rounds.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAME_TURN = timedelta(hours=1)
_GAP_FACTOR = 1.6
"""A pause that is longer than the usual one by this factor is a gap."""
_MAX_GAP_WIDTH = 4
_MAX_YEAR = 2_200
_HOUR = 3_600
_STEPS = [_HOUR * n for n in (1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 2_160, 8_760, 43_800)]


@dataclass(frozen=True, slots=True)
class RoundGroup:
    """The rounds of one turn of a job: one round, or one for each file of its folder."""

    rounds: tuple[Round, ...]
    at: datetime

    @property
    def worst(self) -> Round:
        """The round with the most urgent exit code."""
        code = exit_code_of(each.exit_code for each in self.rounds)
        return next(each for each in self.rounds if each.exit_code == code)

    @property
    def is_well(self) -> bool:
        """True if no round needs attention."""
        return all(each.is_well for each in self.rounds)

    @property
    def seconds(self) -> float:
        """The duration of all rounds, in seconds."""
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
class Column:
    """One column of a plot, with its turns; a gap has none."""

    turns: tuple[RoundGroup, ...]
    since: datetime
    until: datetime
    missed: int = 0
    """The approximate number of missing turns, or of periods without a turn, in a gap."""

    @property
    def width(self) -> int:
        """The width, as a multiple of a normal column's width."""
        return min(max(self.missed, 1), _MAX_GAP_WIDTH)

    @property
    def rounds(self) -> Iterator[Round]:
        """All rounds of the column."""
        return (each for turn in self.turns for each in turn.rounds)

    @property
    def worst(self) -> Round:
        """The round with the most urgent exit code."""
        return RoundGroup(tuple(turn.worst for turn in self.turns), self.since).worst

    def count_made(self, side: str) -> Counts:
        """Return the changes of a side, `to_store` or `to_sheet`, in rounds that applied
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
    time outside the possible range.
    """
    try:
        given = datetime.fromisoformat(text)
        utc = given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return otherwise
    return utc if _EPOCH.year <= utc.year <= _MAX_YEAR else otherwise


def group_into_turns(rounds: Iterable[Round]) -> list[RoundGroup]:
    """Return the turns of one job's rounds, the oldest first; a new turn starts with the next round
    of the same file, or after an hour without a round.
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


def columns_by_turn(turns: Sequence[RoundGroup], now: datetime | None = None) -> list[Column]:
    """Return a column for each turn, and one for each gap, including the one before `now`."""
    pause = _usual_pause(turns)
    columns: list[Column] = []
    for turn, following in [*pairwise([*turns, None])]:
        assert turn is not None  # only the last item is None
        columns.append(Column((turn,), turn.at, turn.at))
        until = following.at if following else now
        if until is not None and (
            missed := _count_missed(turn.at, until, pause, is_over=following)
        ):
            columns.append(Column((), turn.at, until, missed))
    return columns


def _usual_pause(turns: Sequence[RoundGroup]) -> timedelta:
    pauses = [(b.at - a.at).total_seconds() for a, b in pairwise(turns) if b.at > a.at]
    return timedelta(seconds=median(pauses) if pauses else 0)


def _count_missed(since: datetime, until: datetime, pause: timedelta, is_over: object) -> int:
    """Return how many turns are missing, at the usual pause, between two turns or since the last
    one.
    """
    if not pause or until - since < _GAP_FACTOR * pause:
        return 0
    return round((until - since) / pause) - bool(is_over)


def columns_by_time(turns: Sequence[RoundGroup], limit: int) -> list[Column]:
    """Return at most `limit` columns, each for a period of the same length; consecutive periods
    without a turn are one gap.
    """
    ordered = sorted(turns, key=lambda turn: turn.at)
    step = _column_length(ordered[-1].at - ordered[0].at, limit)
    columns: list[Column] = []
    for index, group in _group_turns(ordered, step):
        start = _EPOCH + index * step
        if columns and start > columns[-1].until:
            missed = round((start - columns[-1].until) / step)
            columns.append(Column((), columns[-1].until, start, missed))
        columns.append(Column(tuple(group), start, start + step))
    return columns


def _group_turns(
    turns: Sequence[RoundGroup], step: timedelta
) -> Iterator[tuple[int, list[RoundGroup]]]:
    groups: dict[int, list[RoundGroup]] = {}
    for turn in turns:
        groups.setdefault((turn.at - _EPOCH) // step, []).append(turn)
    yield from groups.items()


def _column_length(span: timedelta, limit: int) -> timedelta:
    needed = span.total_seconds() / (limit - 1)
    return timedelta(seconds=next((n for n in _STEPS if n >= needed), needed))


def _sum(counts: Iterable[Counts]) -> Counts:
    all_counts = list(counts)
    return Counts(
        add=sum(each.add for each in all_counts),
        update=sum(each.update for each in all_counts),
        delete=sum(each.delete for each in all_counts),
    )


# The words of a job's history: for each column of a plot, for a plot, and for the job.


UNCOMPARED: Sequence[Status] = ("error", "locked")
"""Statuses of rounds that may have ended before they compared both sides."""


def describe_column(column: Column) -> str:
    """Return the tooltip of a column: its rounds, then their changes, open differences, drift and
    duration. For several turns, changes are added up, and other values are the maximum.
    """
    if not column.turns:
        missing = count(column.missed, "round")
        until = f" until {_format_minute(column.until)}" if column.until > column.since else ""
        return f"No round after {_format_minute(column.since)}{until}: about {missing} missing"
    return "\n".join(_column_lines(column))


def _column_lines(column: Column) -> Iterator[str]:
    rounds = list(column.rounds)
    if len(rounds) == 1:
        yield f"{format_timestamp(column.since)}: {round_view.headline(rounds[0])}"
    else:
        ends = Counter(round_view.STATUS_WORDS[each.status].title for each in rounds)
        endings = ", ".join(f"{number(total)} {title}" for title, total in ends.items())
        yield f"{_format_minute(column.since)}: {count(len(rounds), 'round')}: {endings}"
    for side, name in (("to_store", "store"), ("to_sheet", "sheet")):
        made_counts, planned = column.count_made(side), column.count_planned(side)
        parts = [round_view.format_counts(made_counts)] if made_counts.total else []
        parts += [f"{number(planned)} planned and not made"] if planned else []
        if parts:
            yield f"{name}: {', '.join(parts)}"
    open_counts = [(kind, column.total(field)) for kind, field in round_view.OPEN_FIELDS.items()]
    if open_ := round_view.format_open_total([open_counts]):
        yield f"open: {open_}"
    seconds_text = duration(max(turn.seconds for turn in column.turns))
    yield f"drift {number(column.total('drift'))}, took {seconds_text}"


def _format_minute(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M}"


def describe_column_length(columns: Sequence[Column]) -> str:
    """Return one sentence on the period that each column covers."""
    hours = (columns[-1].until - columns[-1].since).total_seconds() / 3_600
    length = count(round(hours), "hour") if hours < 48 else count(round(hours / 24), "day")
    return f"Each column covers {length}: changes are added up, other values are the maximum."


def summarize_plot(columns: Sequence[Column], what: str = "ends") -> str:
    """Return a plot in one sentence: its sum or range; for `ends` the number of rounds by status,
    and the period.
    """
    shown = [column for column in columns if column.turns]
    rounds = [each for column in shown for each in column.rounds]
    if not rounds:
        return "No rounds were run."
    if what != "ends":
        return f"{capital(_SUMMARIES[what](rounds))}."
    span = f"from {_format_minute(shown[0].since)} to {_format_minute(shown[-1].turns[-1].at)} UTC"
    return f"{count(len(rounds), 'round')} {span}: {_format_endings(rounds)}."


def _format_endings(rounds: Sequence[Round]) -> str:
    ends = Counter(round_view.STATUS_WORDS[each.status].title for each in rounds)
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
    total = round_view.format_open_total(round_view.open_counts(each) for each in rounds)
    return f"added up, {total}" if total else "nothing was left open"


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
    """Return the rounds of a turn that need attention."""
    return [each for each in turn.rounds if not each.is_well]


def job_facts(
    turns: Sequence[RoundGroup], gap: Column | None, runs: Sequence[PastRun] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the job's facts: last round, last success, streak, open differences, and manual
    runs.
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
    if open_ := round_view.format_open_total(round_view.open_counts(each) for each in last.rounds):
        yield "left open", open_
    if manual_runs := _describe_manual_runs(turns, runs):
        yield "by people", manual_runs
    if gap is not None:
        yield "since then", f"no round ran: about {count(gap.missed, 'round')} missing"


def _describe_manual_runs(turns: Sequence[RoundGroup], runs: Sequence[PastRun]) -> str:
    """Return the runs outside of rounds, such as a released plan or an undo, in words. No plot
    shows them.
    """
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
    """Return one or two sentences on all jobs."""
    jobs_to_look_at = [name for name, turns in jobs.items() if not turns[-1].is_well]
    rounds = count(total, "round")
    if not jobs:
        return "No round so far."
    if not jobs_to_look_at:
        owner = "" if len(jobs) == 1 else f"s of all {number(len(jobs))} jobs"
        return f"No problems in the last round{owner}. {rounds} so far."
    names = ", ".join(make_visible(name) for name in jobs_to_look_at)
    return f"Look at the last round of: {names}. {rounds} so far."


# The frame of a plot as SVG: axes, labels, gaps and tooltips.
#
# A plot is drawn for a fixed width and scales with the page. Colours and patterns are classes of
# `assets/history.css`, because the page's content security policy forbids inline styles.


WIDTH, LEFT, RIGHT, TOP = 520.0, 46.0, 10.0, 14.0
BOTTOM = 22.0
_MIN_COLUMNS = 12
_LABELS = 6
_LABEL_DISTANCE = 76.0
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class PlotArea:
    """The positions of a plot's columns, the newest at the right."""

    def __init__(self, columns: Sequence[Column], width: float = WIDTH) -> None:
        self.columns = columns
        units = [column.width for column in columns]
        self.unit = (width - LEFT - RIGHT) / max(sum(units), _MIN_COLUMNS)
        end = width - RIGHT
        starts = [end - left * self.unit for left in accumulate(reversed(units))]
        self.starts = starts[::-1]
        self.left, self.right = LEFT, end

    def places(self) -> Iterator[tuple[Column, float, float]]:
        """Yield each column with its left edge and its width."""
        for column, start in zip(self.columns, self.starts, strict=True):
            yield column, start, column.width * self.unit

    def gaps(self, height: float) -> str:
        """Return the hatched columns for gaps."""
        return "".join(
            svg_element("rect", x=x, y=TOP, width=wide, height=height, class_="ps-gap")
            for column, x, wide in self.places()
            if not column.turns
        )

    def draw_tooltips(self, height: float, say: Callable[[Column], str]) -> str:
        """Return transparent columns with tooltips, to be drawn on top of everything else."""
        return "".join(
            element(
                "g",
                element("title", text(say(column)))
                + svg_element("rect", x=x, y=TOP, width=wide, height=height, class_="ps-hit"),
            )
            for column, x, wide in self.places()
        )

    def dates(self, y: float) -> str:
        """Return the dates or times below the columns."""
        last = self.right + _LABEL_DISTANCE
        parts: list[str] = []
        for x, label in reversed(date_labels(self)):
            if last - x >= _LABEL_DISTANCE or not parts:
                last = x
                anchor = "end" if x > self.right - _LABEL_DISTANCE / 2 else "middle"
                place = self.right if anchor == "end" else max(x, self.left)
                parts.append(svg_element("text", label, x=place, y=y, text_anchor=anchor))
        return "".join(parts)


def svg_element(tag: str, inner: str = "", **attributes: str | float) -> str:
    """Return an SVG element around text; numbers have one decimal."""
    formatted = {name: v if isinstance(v, str) else f"{v:.1f}" for name, v in attributes.items()}
    return element(tag, text(inner), **formatted)


def date_labels(frame: PlotArea) -> list[tuple[float, str]]:
    """Return positions and labels of a few columns, including the newest."""
    shown = [(x + wide / 2, column) for column, x, wide in frame.places() if column.turns]
    if not shown:
        return []
    span = shown[-1][1].since - shown[0][1].since
    step = max(len(shown) / _LABELS, 1)
    selected = [shown[-1 - round(n * step)] for n in range(_LABELS) if round(n * step) < len(shown)]
    x_of_label = {_date(column.since, span): x for x, column in selected}
    return sorted((x, label) for label, x in x_of_label.items())


def _date(time: datetime, span: timedelta) -> str:
    if timedelta() < span < timedelta(hours=36):
        return f"{time:%H:%M}"
    month = _MONTHS[time.month - 1]
    return f"{time.day} {month}" if span < timedelta(days=300) else f"{month} {time.year}"


def figure(
    title: str,
    description: str,
    parts: Iterable[str],
    *,
    height: float,
    legend: str = "",
    name: str,
) -> str:
    """Return a plot under its title (text), with a description in words for readers who cannot see
    it.
    """
    total = TOP + height + BOTTOM
    svg = element(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {WIDTH:.0f} {total:.0f}",
        role="img",
        class_="ps-plot",
        aria_label=title,
        aria_describedby=f"{name}-said",
    )
    caption = element("figcaption", element("h3", text(title)) + legend)
    paragraph = element("p", text(description), id=f"{name}-said", class_="ps-said")
    return element("figure", caption + svg + paragraph)


# Axes of a plot: ticks at round numbers, and a limit for outliers.


_OUTLIER_FACTOR = 8
_TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800)
_HOURS = (3_600, 7_200, 14_400, 21_600, 43_200, 86_400)


def axis_limit(values: Iterable[float]) -> float:
    """Return the end of an axis: the largest value, or a smaller limit if a few outliers would make
    the other values invisible.
    """
    positive = sorted(value for value in values if value > 0)
    if not positive:
        return 0
    typical = positive[(len(positive) - 1) * 9 // 10]
    usual_values = [value for value in positive if value <= _OUTLIER_FACTOR * typical]
    return 1.15 * usual_values[-1] if len(usual_values) < len(positive) else usual_values[-1]


def steps(top: float, limit: int = 4) -> list[float]:
    """Return the ticks of an axis: round numbers (integers) from 0 up to `top` or a little less, at
    most `limit` of them above 0.
    """
    needed = max(top / limit, 1)
    size = 10 ** math.floor(math.log10(needed))
    step = next(n * size for n in (1, 2, 5, 10) if n * size >= needed)
    return [n * step for n in range(int(top / step + 1e-9) + 1)]


def steps_in_time(top: float, limit: int = 4) -> list[float]:
    """Return common durations in seconds, from 0 up to `top` or a little less."""
    needed = top / limit
    days = [86_400 * step for step in steps(top / 86_400, limit)]
    step = next((n for n in (*_TIMES, *_HOURS) if n >= needed), 0)
    return [n * step for n in range(int(top / step + 1e-9) + 1)] if step else days


def round_up_to_mark(top: float, marks: Sequence[float]) -> float:
    """Return the first tick at or above `top`, because an axis ends with a tick."""
    step = marks[1] if len(marks) > 1 else top
    return step * math.ceil(top / step - 1e-9) if step else top


_UNITS: Sequence[tuple[float, str]] = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def short_number(value: float) -> str:
    """Format a number in at most five characters: `950`, `9,500`, `12k`, `1.5M`."""
    for size, unit in _UNITS:
        if value >= size:
            scaled = value / (1_000 if unit == "k" else size)
            return f"{scaled:.3g}{unit}" if scaled < 1_000 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}"


def short_duration(seconds: float) -> str:
    """Format a duration: `0.5 s`, `20 s`, `5 min`, `2 h`, `3 d`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


# The plots of a job's history: status, changes, open differences, drift and duration.


_HEIGHT = 120.0
_CELL = 18.0
_MIN_BAR_HEIGHT = 1.5
_MARK_DISTANCE = 34.0
_SIDES = ("\u2191 store", "\u2193 sheet")
Stack = Sequence[tuple[str, float]]
"""The parts of a stacked bar, the lowest first: the CSS class and the value of each."""
_CHANGES: Mapping[str, str] = {
    "add": "added",
    "update": "changed",
    "delete": "deleted",
    "held": "planned, not made",
}
_OPEN: Mapping[str, tuple[str, str]] = {
    "conflict": ("conflicts", "conflicts"),
    "finding": ("findings", "errors in the sheet"),
    "failed": ("failed", "not applied"),
    "left": ("unexplained", "other differences"),
}


def plots(columns: Sequence[Column], name: str) -> Iterator[str]:
    """Yield the four plots of a job; `name` makes their ids unique on the page."""
    yield _changes_plot(columns, f"{name}-changes")
    yield _open_plot(columns, f"{name}-open")
    yield _line_plot(
        "Differences at the start of each round",
        columns,
        lambda column: _known_value(column, UNCOMPARED, column.total("drift")),
        f"{name}-drift",
        (steps, short_number),
    )
    yield _line_plot(
        "Duration",
        columns,
        lambda column: _known_value(
            column, ("locked",), max(turn.seconds for turn in column.turns)
        ),
        f"{name}-took",
        (steps_in_time, short_duration),
    )


def status_strip(columns: Sequence[Column], name: str) -> str:
    """Return the status of each turn as a shape and a sign, the newest at the right."""
    width = _CELL * max(len(columns), 1)
    marks = (_mark(column, n * _CELL + _CELL / 2) for n, column in enumerate(columns))
    svg = element(
        "svg",
        "".join(marks),
        viewBox=f"0 0 {width:.0f} {_CELL + 4:.0f}",
        width=f"{width:.0f}",
        height=f"{_CELL + 4:.0f}",
        preserveAspectRatio="xMaxYMid slice",
        role="img",
        class_="ps-strip",
        aria_label="How each round ended",
        aria_describedby=f"{name}-said",
    )
    statuses = dict.fromkeys(column.worst.status for column in columns if column.turns)
    ends = [round_view.STATUS_WORDS[status] for status in statuses]
    legend = _legend(*((_key(_draw_sign(end, 7, 7, 5.6)), end.title) for end in ends))
    caption = element("figcaption", element("h3", "How each round ended") + legend)
    paragraph = element("p", text(summarize_plot(columns)), id=f"{name}-said", class_="ps-said")
    return element("figure", caption + svg + paragraph, class_="ps-ends")


def _mark(column: Column, x: float) -> str:
    y, size = _CELL / 2 + 2, _CELL / 2 - 1.5
    if not column.turns:
        sign = svg_element("path", d=f"M{x - 4:.1f} {y:.1f}h8", class_="ps-none-ran")
    else:
        sign = _draw_sign(round_view.STATUS_WORDS[column.worst.status], x, y, size)
    hit = svg_element("rect", x=x - _CELL / 2, y=0, width=_CELL, height=_CELL + 4, class_="ps-hit")
    return element("g", element("title", text(describe_column(column))) + sign + hit)


def _draw_sign(end: round_view.StatusWords, x: float, y: float, size: float) -> str:
    sign = svg_element("text", end.sign, x=x, y=y + size / 2, text_anchor="middle")
    return _status_shape(end.level, x, y, size) + sign


def _status_shape(level: str, x: float, y: float, size: float) -> str:
    """Return a circle if all is well, a triangle for a warning, a square for a problem."""
    if level == "well":
        return svg_element("circle", cx=x, cy=y, r=size, class_="ps-well")
    if level == "bad":
        return svg_element(
            "rect", x=x - size, y=y - size, width=2 * size, height=2 * size, class_="ps-bad"
        )
    d = f"M{x:.1f} {y - size - 1:.1f}l{size + 1:.1f} {2 * size + 1:.1f}h{-2 * size - 2:.1f}z"
    return svg_element("path", d=d, class_="ps-look")


def _legend(*entries: tuple[str, str]) -> str:
    """Return a legend of keys (SVG) and titles (text)."""
    items = (element("li", f"{key} {text(title)}".strip()) for key, title in entries)
    return element("ul", "".join(items), class_="ps-legend")


def _swatch(kind: str) -> str:
    """Return the legend's key for a kind of change."""
    rectangle = svg_element("rect", x=1, y=1, width=12, height=12, class_=f"ps-bar ps-{kind}")
    return _key(rectangle)


def _key(inner: str) -> str:
    return element("svg", inner, viewBox="0 0 14 14", class_="ps-key", aria_hidden="true")


def _changes_plot(columns: Sequence[Column], name: str) -> str:
    up = [_stack(column, "to_store") for column in columns]
    down = [_stack(column, "to_sheet") for column in columns]
    used_kinds = [kind for kind in _CHANGES if any(dict(stack)[kind] for stack in (*up, *down))]
    sides = [
        side for side, stacks in zip(_SIDES, (up, down), strict=True) if any(map(_height, stacks))
    ]
    keys = [(_swatch(kind), _CHANGES[kind]) for kind in used_kinds]
    legend = _legend(*keys, *([("", " ".join(sides))] if sides else []))
    return _bar_plot("Changes", columns, (up, down), name, legend)


def _stack(column: Column, side: str) -> Stack:
    made_counts = column.count_made(side)
    planned = column.count_planned(side)
    return [
        ("add", made_counts.add),
        ("update", made_counts.update),
        ("delete", made_counts.delete),
        ("held", planned),
    ]


def _open_plot(columns: Sequence[Column], name: str) -> str:
    stacks = [
        [(kind, column.total(field)) for kind, (field, _) in _OPEN.items()] for column in columns
    ]
    used_kinds = [kind for kind in _OPEN if any(dict(stack)[kind] for stack in stacks)]
    legend = _legend(*((_swatch(kind), _OPEN[kind][1]) for kind in used_kinds))
    return _bar_plot("Left open", columns, (stacks, []), name, legend)


def _height(stack: Stack) -> float:
    return sum(value for _, value in stack)


def _bar_plot(
    title: str,
    columns: Sequence[Column],
    stacks: tuple[Sequence[Stack], Sequence[Stack]],
    name: str,
    legend: str,
) -> str:
    """Return a bar plot with the first stacks upwards and the second ones downwards, on one
    scale.
    """
    frame = PlotArea(columns)
    tops = [axis_limit(map(_height, side)) for side in stacks]
    marks = steps(sum(tops)) if any(tops) else [0.0]
    tops = [round_up_to_mark(top, marks) if top else 0 for top in tops]
    whole = sum(tops) or 1.0
    zero = TOP + _HEIGHT * (tops[0] / whole if sum(tops) else 1)
    scale = _HEIGHT / whole
    parts = [frame.gaps(_HEIGHT), _grid_plot(frame, zero, scale, tops, marks)]
    for side, top, sign in zip(stacks, tops, (-1, 1), strict=True):
        for stack, (_, x, wide) in zip(side, frame.places(), strict=False):
            parts.append(_bar(stack, (x, wide), zero, sign * scale, top))
        heights = map(_height, side)
        parts += _cut_marks(frame, heights, zero + sign * top * scale, top, (sign, short_number))
    parts += [frame.dates(TOP + _HEIGHT + 17), frame.draw_tooltips(_HEIGHT, describe_column)]
    return figure(
        title,
        summarize_plot(columns, name.rpartition("-")[2]),
        parts,
        height=_HEIGHT,
        legend=legend,
        name=name,
    )


def _grid_plot(
    frame: PlotArea, zero: float, scale: float, tops: Sequence[float], marks: Sequence[float]
) -> str:
    parts = [_grid_line(frame, zero, "0", kind="ps-zero")]
    step = marks[1] if len(marks) > 1 else sum(tops)
    for sign, top in zip((-1, 1), tops, strict=True):
        values = [n * step for n in range(1, round(top / step) + 1)] if step else []
        parts += [_grid_line(frame, zero + sign * v * scale, short_number(v)) for v in values]
    return "".join(parts)


def _grid_line(frame: PlotArea, y: float, label: str, kind: str = "ps-rule") -> str:
    line = svg_element("path", d=f"M{frame.left:.1f} {y:.1f}H{frame.right:.1f}", class_=kind)
    return line + svg_element("text", label, x=frame.left - 6, y=y + 4, text_anchor="end")


def _bar(stack: Stack, place: tuple[float, float], zero: float, scale: float, top: float) -> str:
    """Return a stacked bar that starts at the zero line and is cut at the limit of the axis."""
    x, wide = place
    gap = min(wide * 0.2, 3)
    parts: list[str] = []
    level = 0.0
    for kind, value in stack:
        end = min(level + value, top)
        if end > level:
            ends = sorted((zero + level * scale, zero + end * scale))
            bar_height = max(ends[1] - ends[0], _MIN_BAR_HEIGHT)
            y = ends[1] - bar_height if scale < 0 else ends[0]
            width = max(min(wide - gap, 28), 0.6)
            left = x + (wide - width) / 2
            parts.append(
                svg_element(
                    "rect", x=left, y=y, width=width, height=bar_height, class_=f"ps-bar ps-{kind}"
                )
            )
        level += value
    return "".join(parts)


def _cut_marks(
    frame: PlotArea,
    values: Iterable[float | None],
    y: float,
    top: float,
    formatting: tuple[int, Callable[[float], str]],
) -> Iterator[str]:
    """Yield a mark for each value that exceeds the limit of the axis. Of marks that are close
    together, only the one with the largest value has a label.
    """
    sign, format_value = formatting
    cut_values = [
        (x + wide / 2, value)
        for value, (_, x, wide) in zip(values, frame.places(), strict=False)
        if value is not None and value > top > 0
    ]
    for x, value in cut_values:
        neighbours = [
            (other, -place) for place, other in cut_values if abs(place - x) < _MARK_DISTANCE
        ]
        offset = -8 * sign
        d = f"M{x - 8:.1f} {y + offset:.1f}l4 -4l4 4l4 -4l4 4"
        yield svg_element("path", d=d, class_="ps-cut")
        if (value, -x) == max(neighbours):
            label_y = y - 3 if sign < 0 else y + 11
            yield svg_element(
                "text", format_value(value), x=x, y=label_y, text_anchor="middle", class_="ps-far"
            )


def _known_value(column: Column, statuses: Sequence[str], value: float) -> float | None:
    """Return the value; None if all rounds of the column ended before it was known."""
    is_known = any(each.status not in statuses for each in column.rounds)
    return value if is_known else None


def _line_plot(
    title: str,
    columns: Sequence[Column],
    value: Callable[[Column], float | None],
    name: str,
    axis: tuple[Callable[[float], list[float]], Callable[[float], str]],
) -> str:
    frame = PlotArea(columns)
    values = [value(column) if column.turns else None for column in columns]
    top = axis_limit(each for each in values if each is not None) or 1.0
    top = round_up_to_mark(top, axis[0](top))
    zero, scale = TOP + _HEIGHT, _HEIGHT / top
    parts = [frame.gaps(_HEIGHT)]
    parts += [
        _grid_line(frame, zero - step * scale, axis[1](step), "ps-rule" if step else "ps-zero")
        for step in axis[0](top)
    ]
    points = [
        None if each is None else (x + wide / 2, zero - min(each, top) * scale)
        for each, (_, x, wide) in zip(values, frame.places(), strict=True)
    ]
    parts += [_line_segment(run, zero, dots=len(columns) <= 90) for run in _split_at_gaps(points)]
    parts += _cut_marks(frame, values, TOP, top, (-1, axis[1]))
    parts += [frame.dates(zero + 17), frame.draw_tooltips(_HEIGHT, describe_column)]
    return figure(
        title, summarize_plot(columns, name.rpartition("-")[2]), parts, height=_HEIGHT, name=name
    )


Point = tuple[float, float]


def _split_at_gaps(points: Iterable[Point | None]) -> Iterator[list[Point]]:
    segment: list[Point] = []
    for point in [*points, None]:
        if point is not None:
            segment.append(point)
        elif segment:
            yield segment
            segment = []


def _line_segment(points: Sequence[Point], zero: float, *, dots: bool) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    area = f"M{path}L{points[-1][0]:.1f} {zero:.1f}H{points[0][0]:.1f}z"
    parts = svg_element("path", d=area, class_="ps-area") + svg_element(
        "path", d=f"M{path}", class_="ps-line"
    )
    if dots or len(points) == 1:
        parts += "".join(
            svg_element("circle", cx=x, cy=y, r=2.4, class_="ps-dot") for x, y in points
        )
    return parts


# The history page: for each job its state and trends, then the rounds and the runs.


_MAX_TURNS = 60
"""The number of a job's newest turns that are drawn one by one."""
_MAX_COLUMNS = 90
_MAX_ALERTS = 5
_ROUNDS = ("Status", "Took", "Job", "What", "Begun (UTC)")
_RUNS = ("State", "Took", "Run", "What", "Begun (UTC)")
_STATES: Mapping[str, tuple[str, str]] = {
    "done": ("+", "well"),
    "running": ("~", "look"),
    "stopped": ("x", "bad"),
}
# Browsers ignore the patterns of an image that is not displayed, so this image is displayed with
# size 0.
_PATTERNS = "".join(
    [
        '<svg width="0" height="0" aria-hidden="true" class="ps-patterns"><defs>',
        *(
            f'<pattern id="ps-{name}" width="{size}" height="{size}" '
            f'patternUnits="userSpaceOnUse" patternTransform="rotate({angle})">'
            f'<rect width="{size}" height="{size}" class="ps-ground ps-{name}"/>'
            f'<path d="M0 0v{size}" class="ps-hatch ps-{name}"/></pattern>'
            for name, size, angle in (("changed", 5, 45), ("deleted", 3, 90), ("gap", 6, -45))
        ),
        "</defs></svg>",
    ]
)


def history_page(
    rounds: Sequence[Round],
    runs: Sequence[PastRun],
    *,
    now: datetime | None = None,
    limit: int | None = 100,
) -> str:
    """Return the history as a complete HTML document that loads nothing.

    `rounds` has the oldest first, `runs` the newest first; the newest `limit` of both are listed,
    and the plots show all. With `now`, the page shows which jobs have not run for longer than
    their usual pause.
    """
    jobs = _by_job(rounds)
    title = "Reconciliation history"
    body = (
        '<main class="petsync ps-page">',
        _PATTERNS,
        *_page_header(jobs, title, rounds, now),
        *(_job_section(name, turns, n, now, runs) for n, (name, turns) in enumerate(jobs.items())),
        _rounds_section(rounds, limit),
        _runs_section(runs, limit),
        "</main>",
    )
    return document("\n".join(filter(None, body)), title, styles=("history.css",))


def _by_job(rounds: Iterable[Round]) -> dict[str, list[RoundGroup]]:
    jobs: dict[str, list[Round]] = {}
    for each in rounds:
        jobs.setdefault(each.job, []).append(each)
    return {name: group_into_turns(job_rounds) for name, job_rounds in jobs.items()}


def _page_header(
    jobs: Mapping[str, Sequence[RoundGroup]],
    title: str,
    rounds: Sequence[Round],
    now: datetime | None,
) -> Iterator[str]:
    yield "<header>"
    made_at = f", made {words.format_timestamp(now)}" if now else ""
    yield element("p", f"petsync{made_at}", class_="ps-kicker")
    yield element("h1", text(title))
    yield html.summary(page_summary(jobs, len(rounds)))
    yield "</header>"
    if len(jobs) > 1:
        items = (_job_item(name, turns) for name, turns in jobs.items())
        yield element("ul", "".join(items), class_="ps-jobs")


def _job_item(name: str, turns: Sequence[RoundGroup]) -> str:
    worst = turns[-1].worst
    inner = f"{round_badge(worst)} {element('strong', bdi(name))} "
    inner += element("span", text(words.format_timestamp(turns[-1].at)[:16]), class_="ps-when")
    return element("li", inner)


def _job_section(
    name: str,
    turns: Sequence[RoundGroup],
    number: int,
    now: datetime | None,
    runs: Sequence[PastRun],
) -> str:
    anchor = f"job-{number}"
    columns = columns_by_turn(turns[-_MAX_TURNS:], now)
    gap = columns[-1] if not columns[-1].turns else None
    head = element("h2", f"{bdi(name)} {round_badge(turns[-1].worst)}", id=anchor)
    parts = [
        head,
        two_columns(job_facts(turns, gap, runs)),
        *map(_round_alert, rounds_to_look_at(turns[-1])[:_MAX_ALERTS]),
        more_html(max(len(rounds_to_look_at(turns[-1])) - _MAX_ALERTS, 0)),
        status_strip(columns, f"{anchor}-ends"),
        _grid_html(columns, anchor),
        _whole_history(turns, anchor),
    ]
    return element(
        "section", "\n".join(filter(None, parts)), class_="ps-job", aria_labelledby=anchor
    )


def _round_alert(round_: Round) -> str:
    """Return an alert for a round that needs attention, with the commands to enter."""
    reason = round_view.reason(round_)
    lines = [prose(line_) for line_ in reason.splitlines()]
    lines += [
        f"{text(capital(purpose))}: {render_command(each)}"
        for purpose, each in _release_commands(round_)
        if each not in reason
    ]
    kind = "ps-refused" if round_view.STATUS_WORDS[round_.status].level == "bad" else ""
    part = f"{round_.part}: " if round_.part else ""
    return html.alert(f"{part}{round_view.headline(round_)}", lines, kind=kind)


def _release_commands(round_: Round) -> Iterator[round_view.Command]:
    """Yield the command that releases a plan; the round's report has the other commands."""
    for command in round_view.commands(round_):
        if round_.waiting and command.line.startswith("petsync apply"):
            yield command


def _grid_html(columns: Sequence[Column], name: str) -> str:
    return element("div", "".join(plots(columns, name)), class_="ps-plots")


def _whole_history(turns: Sequence[RoundGroup], name: str) -> str:
    """Return plots of all turns by period, if there are too many to draw them one by one; else
    "".
    """
    if len(turns) <= _MAX_TURNS:
        return ""
    title = f"The entire period: {words.count(len(turns), 'round')} since {turns[0].at:%Y-%m-%d}"
    columns = columns_by_time(turns, _MAX_COLUMNS)
    note = element("p", text(describe_column_length(columns)), class_="ps-kept")
    return html.collapsible(title, note + _grid_html(columns, f"{name}-all"), open_=True)


def _rounds_section(rounds: Sequence[Round], limit: int | None) -> str:
    newest = rounds[::-1][:limit]
    title = "Rounds"
    table = records_table(_ROUNDS, map(_round_row, newest), title) if newest else ""
    return section("rounds", title, table + more_html(len(rounds) - len(newest)) if table else "")


def _round_row(round_: Round) -> str:
    end = round_view.STATUS_WORDS[round_.status]
    return page_line(
        end.level,
        badge(end.sign, end.title),
        words.duration(round_.seconds),
        round_.name,
        "".join(element("p", part) for part in _round_paragraphs(round_)),
        _format_start(round_.started),
    )


def _format_start(started: str) -> str:
    """Return the time without seconds: `2026-11-20 09:30`; a text that is not a time is returned
    unchanged.
    """
    label = words.format_timestamp(started)
    return label[: -len(":00 UTC")] if label.endswith(" UTC") else label


def _round_paragraphs(round_: Round) -> Iterator[str]:
    sides = (("store", round_.to_store), ("sheet", round_.to_sheet))
    plans = [
        f"to {side} {round_view.format_planned(round_, counts)}"
        for side, counts in sides
        if counts.total
    ]
    arrived = f"; {words.number(round_.applied)} applied" if plans else ""
    nothing = "" if round_.status in UNCOMPARED else "nothing to change"
    open_ = round_view.format_open(round_)
    if line_ := f"{', '.join(plans) or nothing}{arrived}{f'; open: {open_}' if open_ else ''}":
        yield text(line_)
    if not round_.is_well and (reason := round_view.reason(round_)):
        yield prose(reason)
    yield f"Round {render_command(make_visible(round_.id))}" + (
        f", report {render_command(make_visible(round_.report))}" if round_.report else ""
    )


def _runs_section(runs: Sequence[PastRun], limit: int | None) -> str:
    undone = find_undoing_runs(runs)
    shown = runs[:limit]
    rows = (_run_row(each, undone.get(each.run_id)) for each in shown)
    table = records_table(_RUNS, rows, "Runs") if shown else ""
    note = element(
        "p",
        prose("`petsync runs RUN` shows what a run did, or what a round found."),
        class_="ps-kept",
    )
    return section(
        "runs", "Runs", note + table + more_html(len(runs) - len(shown)) if table else ""
    )


def _run_row(run: PastRun, undo: PastRun | None) -> str:
    sign, level = _STATES[run.state]
    sentence = f"{run_view.source_words(run)}: {run_view.describe_counts(run)}"
    undo_text = run_view.describe_undo(run, undo)
    return page_line(
        level,
        badge(sign, capital(run.state)),
        words.duration(run.seconds),
        run.run_id,
        element("p", text("; ".join(filter(None, (sentence, undo_text))))),
        _format_start(run.started),
    )
