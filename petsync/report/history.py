"""Runs and rounds as pages and plots."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from statistics import median

from petsync.plan.report import PastRun, runs_of, undone_by
from petsync.plan.rounds import Counts, Round, Status, exit_code_of
from petsync.report import html, words
from petsync.report import round as said
from petsync.report import run as runs_words
from petsync.report.html import bdi, capital, document, element, prose, text
from petsync.report.plan import badge, line
from petsync.report.round import (
    STYLES,
    more,
    records_table,
    render_command,
    round_badge,
    section,
    two_columns,
)
from petsync.report.words import count, duration, moment, number
from petsync.table.cells import visible

__all__ = [
    "BOTTOM",
    "LEFT",
    "RIGHT",
    "TOP",
    "UNKNOWN",
    "WIDTH",
    "Column",
    "PlotArea",
    "RoundGroup",
    "about_column",
    "about_lengths",
    "ceiling",
    "columns_of",
    "date_labels",
    "extremes",
    "figure",
    "history_page",
    "in_time",
    "job_facts",
    "moment_of",
    "needy",
    "page_summary",
    "plots",
    "rounded_up",
    "shape",
    "short_duration",
    "short_number",
    "steps",
    "steps_in_time",
    "strip",
    "turns_of",
]


# A job's history as turns, one for each time that it was reconciled, and as the columns of a
# plot: a turn each, or a stretch of time each, with gaps where no round ran.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOGETHER = timedelta(hours=1)
_LATE = 1.6
"""So many usual pauses without a round are a gap."""
_WIDEST = 4
_LAST = 2_200
_HOUR = 3_600
_STEPS = [_HOUR * n for n in (1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 2_160, 8_760, 43_800)]


@dataclass(frozen=True, slots=True)
class RoundGroup:
    """The rounds of one job at one time: one, or one for each file of its folder."""

    rounds: tuple[Round, ...]
    at: datetime

    @property
    def worst(self) -> Round:
        """The round that a person should hear of first."""
        code = exit_code_of(each.exit_code for each in self.rounds)
        return next(each for each in self.rounds if each.exit_code == code)

    @property
    def is_well(self) -> bool:
        """Whether nobody has to look at any of the rounds."""
        return all(each.is_well for each in self.rounds)

    @property
    def seconds(self) -> float:
        """How long all of them took."""
        return sum(each.seconds for each in self.rounds)

    @property
    def drift(self) -> int:
        """How many rows and pets were not in agreement when they began."""
        return sum(each.drift for each in self.rounds)

    @property
    def end(self) -> datetime:
        """When the last one was over."""
        return self.at + timedelta(seconds=min(self.seconds, 1e8))


@dataclass(frozen=True, slots=True)
class Column:
    """One place of a plot: turns, or none if there is a gap of `missed` usual turns between two
    moments. `width` is in usual columns.
    """

    turns: tuple[RoundGroup, ...]
    since: datetime
    until: datetime
    missed: int = 0

    @property
    def width(self) -> int:
        """How many columns it takes."""
        return min(max(self.missed, 1), _WIDEST)

    @property
    def rounds(self) -> Iterator[Round]:
        """All its rounds."""
        return (each for turn in self.turns for each in turn.rounds)

    @property
    def worst(self) -> Round:
        """The round that a person should hear of first."""
        return RoundGroup(tuple(turn.worst for turn in self.turns), self.since).worst

    def count_made(self, side: str) -> Counts:
        """The changes of a side, `to_store` or `to_sheet`, in rounds that made any."""
        return _sum(getattr(each, side) for each in self.rounds if each.applied)

    def count_planned(self, side: str) -> int:
        """How many changes of that side were planned in rounds that made none."""
        return sum(getattr(each, side).total for each in self.rounds if not each.applied)

    def total(self, field: str) -> int:
        """The sum of a field of its rounds; of several turns the largest sum."""
        sums = (sum(getattr(each, field) for each in turn.rounds) for turn in self.turns)
        return max(sums, default=0)


def moment_of(text: str, otherwise: datetime = _EPOCH) -> datetime:
    """The moment that ISO 8601 says, in UTC; a text that says none, or one that no clock of a round
    can have shown, is `otherwise`.
    """
    try:
        given = datetime.fromisoformat(text)
        utc = given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return otherwise
    return utc if _EPOCH.year <= utc.year <= _LAST else otherwise


def turns_of(rounds: Iterable[Round]) -> list[RoundGroup]:
    """The turns of one job's rounds, the oldest first: a file's next round begins another one."""
    turns: list[RoundGroup] = []
    for each in rounds:
        last = turns[-1] if turns else None
        at = moment_of(each.started, last.at if last else _EPOCH)
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
        and (turn.at <= at <= turn.end + _TOGETHER)
    )


def columns_of(turns: Sequence[RoundGroup], now: datetime | None = None) -> list[Column]:
    """A column for each turn, and one for each gap between them, and up to now."""
    pause = _usual(turns)
    columns: list[Column] = []
    for turn, following in [*pairwise([*turns, None])]:
        assert turn is not None  # pairwise ends before the one None there is
        columns.append(Column((turn,), turn.at, turn.at))
        until = following.at if following else now
        if until is not None and (
            missed := _count_missed(turn.at, until, pause, is_over=following)
        ):
            columns.append(Column((), turn.at, until, missed))
    return columns


def _usual(turns: Sequence[RoundGroup]) -> timedelta:
    pauses = [(b.at - a.at).total_seconds() for a, b in pairwise(turns) if b.at > a.at]
    return timedelta(seconds=median(pauses) if pauses else 0)


def _count_missed(since: datetime, until: datetime, pause: timedelta, is_over: object) -> int:
    """How many usual turns were left out between two that there were, or since the last one."""
    if not pause or until - since < _LATE * pause:
        return 0
    return round((until - since) / pause) - bool(is_over)


def in_time(turns: Sequence[RoundGroup], most: int) -> list[Column]:
    """Columns of one length of time each, at most so many; those in a row that have no turn are
    one gap.
    """
    ordered = sorted(turns, key=lambda turn: turn.at)
    step = _step(ordered[-1].at - ordered[0].at, most)
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


def _step(span: timedelta, most: int) -> timedelta:
    needed = span.total_seconds() / (most - 1)
    return timedelta(seconds=next((n for n in _STEPS if n >= needed), needed))


def _sum(counts: Iterable[Counts]) -> Counts:
    every = list(counts)
    return Counts(
        add=sum(each.add for each in every),
        update=sum(each.update for each in every),
        delete=sum(each.delete for each in every),
    )


# What is said of a job's history: of each column of a plot, of a plot as a whole, of the job.


UNKNOWN: Sequence[Status] = ("error", "locked")
"""How rounds ended that may not have come as far as to compare both sides."""


def about_column(column: Column) -> str:
    """Lines on what happened there."""
    if not column.turns:
        missing = count(column.missed, "round")
        until = f" until {_day(column.until)}" if column.until > column.since else ""
        return f"No round after {_day(column.since)}{until}: about {missing} missing"
    return "\n".join(_lines(column))


def _lines(column: Column) -> Iterator[str]:
    rounds = list(column.rounds)
    if len(rounds) == 1:
        yield f"{moment(column.since)}: {said.headline(rounds[0])}"
    else:
        ends = Counter(said.ENDS[each.status].title for each in rounds)
        told = ", ".join(f"{number(total)} {title}" for title, total in ends.items())
        yield f"{_day(column.since)}: {count(len(rounds), 'round')}: {told}"
    for side, name in (("to_store", "store"), ("to_sheet", "sheet")):
        made, held = column.count_made(side), column.count_planned(side)
        parts = [said.format_counts(made)] if made.total else []
        parts += [f"{number(held)} planned and not made"] if held else []
        if parts:
            yield f"{name}: {', '.join(parts)}"
    if open_ := said.brief_of(said.left_open(each) for each in rounds):
        yield f"open: {open_}"
    took = duration(max(turn.seconds for turn in column.turns))
    yield f"drift {number(column.total('drift'))}, took {took}"


def _day(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M}"


def about_lengths(columns: Sequence[Column]) -> str:
    """What a column is that stands for a length of time."""
    hours = (columns[-1].until - columns[-1].since).total_seconds() / 3_600
    length = count(round(hours), "hour") if hours < 48 else count(round(hours / 24), "day")
    return f"Each column is {length}: changes are added up, of all else it shows the most."


def extremes(columns: Sequence[Column], what: str = "ends") -> str:
    """A plot in one sentence: its sum, or from where to where it goes; with how the rounds ended,
    also from when to when.
    """
    shown = [column for column in columns if column.turns]
    rounds = [each for column in shown for each in column.rounds]
    if not rounds:
        return "No round was made."
    if what != "ends":
        return f"{capital(_WHOLE[what](rounds))}."
    span = f"from {_day(shown[0].since)} to {_day(shown[-1].turns[-1].at)} UTC"
    return f"{count(len(rounds), 'round')} {span}: {_ends(rounds)}."


def _ends(rounds: Sequence[Round]) -> str:
    ends = Counter(said.ENDS[each.status].title for each in rounds)
    return ", ".join(f"{number(total)} {title}" for title, total in ends.most_common())


def _describe_changes(rounds: Sequence[Round]) -> str:
    made = [each for each in rounds if each.applied]
    store = sum(each.to_store.total for each in made)
    sheet = sum(each.to_sheet.total for each in made)
    most = max(rounds, key=lambda each: each.applied)
    peak = f", most on {most.started[:10]} ({number(most.applied)})" if most.applied else ""
    return f"{count(store, 'change')} for the store and {number(sheet)} for the sheet{peak}"


def _describe_open(rounds: Sequence[Round]) -> str:
    total = said.brief_of(said.left_open(each) for each in rounds)
    return f"added up, {total}" if total else "nothing was left open"


def _describe_drift(rounds: Sequence[Round]) -> str:
    known = [float(each.drift) for each in rounds if each.status not in UNKNOWN]
    return _from_to(known, lambda value: number(int(value))) if known else "not known"


def _took(rounds: Sequence[Round]) -> str:
    return _from_to([each.seconds for each in rounds], duration)


def _from_to(values: Sequence[float], say: Callable[[float], str]) -> str:
    middle = sorted(values)[len(values) // 2]
    if min(values) == max(values):
        return say(values[0])
    ends = f"from {say(min(values))} to {say(max(values))}"
    return f"{ends}, usually {say(middle)}, last {say(values[-1])}"


_WHOLE: Mapping[str, Callable[[Sequence[Round]], str]] = {
    "changes": _describe_changes,
    "open": _describe_open,
    "drift": _describe_drift,
    "took": _took,
}


def needy(turn: RoundGroup) -> list[Round]:
    """The rounds of a turn that somebody has to look at."""
    return [each for each in turn.rounds if not each.is_well]


def job_facts(
    turns: Sequence[RoundGroup], gap: Column | None, runs: Sequence[PastRun] = ()
) -> Iterator[tuple[str, str]]:
    """The job in a few lines: last round, last success, streak, and what people did besides."""
    last = turns[-1]
    files = f", {count(len(last.rounds), 'file')}" if last.rounds[0].part else ""
    yield "last round", f"{moment(last.at)}, took {duration(last.seconds)}{files}"
    good = next((turn for turn in reversed(turns) if turn.is_well), None)
    yield "last success", "none so far" if good is None else moment(good.at)
    yield "streak", _streak(turns)
    if open_ := said.brief_of(said.left_open(each) for each in last.rounds):
        yield "left open", open_
    if by_people := _by_people(turns, runs):
        yield "by people", by_people
    if gap is not None:
        yield "since then", f"no round ran: about {count(gap.missed, 'round')} missing"


def _by_people(turns: Sequence[RoundGroup], runs: Sequence[PastRun]) -> str:
    """Runs that no round made: a plan was released, or a run taken back. No plot has them."""
    rounds = [each for turn in turns for each in turn.rounds]
    made = {run for each in rounds for run in each.runs}
    found = [run for run in runs_of(runs, rounds) if run.run_id not in made]
    if not found:
        return ""
    arrived = count(sum(run.counts.get("applied", 0) for run in found), "change")
    last = f"the last {moment(found[0].started)}, {found[0].run_id}"
    return f"{count(len(found), 'run')} besides, {arrived} for the store; {last}"


def _streak(turns: Sequence[RoundGroup]) -> str:
    well, length = turns[-1].is_well, 0
    for turn in reversed(turns):
        if turn.is_well != well:
            break
        length += 1
    how = "that went well" if well else "that somebody has to look at"
    row = " in a row" if length > 1 else ""
    return f"{count(length, 'round')}{row} {how}, since {turns[-length].at:%Y-%m-%d}"


def page_summary(jobs: Mapping[str, Sequence[RoundGroup]], total: int) -> str:
    """One sentence on all jobs."""
    bad = [name for name, turns in jobs.items() if not turns[-1].is_well]
    rounds = count(total, "round")
    if not jobs:
        return "No round was made so far."
    if not bad:
        whose = "" if len(jobs) == 1 else f"s of all {number(len(jobs))} jobs"
        return f"The last round{whose} left nothing to look at. {rounds} so far."
    names = ", ".join(visible(name) for name in bad)
    return f"{names}: somebody has to look at the last round. {rounds} so far."


# The frame of a plot as SVG: axes, labels, gaps, and what is told of each column.
#
# A plot is drawn for a width of its own and grows and shrinks with the page. Colours and patterns
# are classes of `assets/history.css`: a style of its own would be against the page's policy.


WIDTH, LEFT, RIGHT, TOP = 520.0, 46.0, 10.0, 14.0
BOTTOM = 22.0
_FEWEST = 12
_LABELS = 6
_APART = 76.0
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class PlotArea:
    """Where the columns of a plot stand, the newest at the right."""

    def __init__(self, columns: Sequence[Column], width: float = WIDTH) -> None:
        self.columns = columns
        units = [column.width for column in columns]
        self.unit = (width - LEFT - RIGHT) / max(sum(units), _FEWEST)
        end = width - RIGHT
        starts = [end - left * self.unit for left in accumulate(reversed(units))]
        self.starts = starts[::-1]
        self.left, self.right = LEFT, end

    def places(self) -> Iterator[tuple[Column, float, float]]:
        """Each column with its left edge and its width."""
        for column, start in zip(self.columns, self.starts, strict=True):
            yield column, start, column.width * self.unit

    def gaps(self, height: float) -> str:
        """The columns where no round ran, hatched."""
        return "".join(
            shape("rect", x=x, y=TOP, width=wide, height=height, class_="ps-gap")
            for column, x, wide in self.places()
            if not column.turns
        )

    def draw_tooltips(self, height: float, say: Callable[[Column], str]) -> str:
        """Over everything, what a pointer is told of each column."""
        return "".join(
            element(
                "g",
                element("title", text(say(column)))
                + shape("rect", x=x, y=TOP, width=wide, height=height, class_="ps-hit"),
            )
            for column, x, wide in self.places()
        )

    def dates(self, y: float) -> str:
        """The moments below the columns."""
        last = self.right + _APART
        parts: list[str] = []
        for x, label in reversed(date_labels(self)):
            if last - x >= _APART or not parts:
                last = x
                anchor = "end" if x > self.right - _APART / 2 else "middle"
                place = self.right if anchor == "end" else max(x, self.left)
                parts.append(shape("text", label, x=place, y=y, text_anchor=anchor))
        return "".join(parts)


def shape(tag: str, inner: str = "", **attributes: str | float) -> str:
    """An element of SVG around text; numbers have one digit behind the point."""
    said = {name: v if isinstance(v, str) else f"{v:.1f}" for name, v in attributes.items()}
    return element(tag, text(inner), **said)


def date_labels(frame: PlotArea) -> list[tuple[float, str]]:
    """So many moments, the newest among them, as a reader needs to find one's way."""
    shown = [(x + wide / 2, column) for column, x, wide in frame.places() if column.turns]
    if not shown:
        return []
    span = shown[-1][1].since - shown[0][1].since
    step = max(len(shown) / _LABELS, 1)
    picked = [shown[-1 - round(n * step)] for n in range(_LABELS) if round(n * step) < len(shown)]
    named = {_date(column.since, span): x for x, column in picked}
    return sorted((x, label) for label, x in named.items())


def _date(moment: datetime, span: timedelta) -> str:
    if timedelta() < span < timedelta(hours=36):
        return f"{moment:%H:%M}"
    month = _MONTHS[moment.month - 1]
    return f"{moment.day} {month}" if span < timedelta(days=300) else f"{month} {moment.year}"


def figure(
    title: str, said: str, parts: Iterable[str], *, height: float, legend: str = "", name: str
) -> str:
    """A plot under its title (text), with what it shows in words for those who do not see it."""
    total = TOP + height + BOTTOM
    drawn = element(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {WIDTH:.0f} {total:.0f}",
        role="img",
        class_="ps-plot",
        aria_label=title,
        aria_describedby=f"{name}-said",
    )
    caption = element("figcaption", element("h3", text(title)) + legend)
    told = element("p", text(said), id=f"{name}-said", class_="ps-said")
    return element("figure", caption + drawn + told)


# How values become places in a plot: round steps, and a ceiling for the few that are far off.


_FAR_OFF = 8
_TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800)
_HOURS = (3_600, 7_200, 14_400, 21_600, 43_200, 86_400)


def ceiling(values: Iterable[float]) -> float:
    """How far an axis has to reach: as far as the largest value, unless a few are so far off that
    nothing could be seen of the others.
    """
    found = sorted(value for value in values if value > 0)
    if not found:
        return 0
    usual = found[(len(found) - 1) * 9 // 10]
    near = [value for value in found if value <= _FAR_OFF * usual]
    return 1.15 * near[-1] if len(near) < len(found) else near[-1]


def steps(top: float, most: int = 4) -> list[float]:
    """Round whole numbers from 0 up to `top` or a little less, at most `most` of them above 0."""
    needed = max(top / most, 1)
    size = 10 ** math.floor(math.log10(needed))
    step = next(n * size for n in (1, 2, 5, 10) if n * size >= needed)
    return [n * step for n in range(int(top / step + 1e-9) + 1)]


def steps_in_time(top: float, most: int = 4) -> list[float]:
    """Seconds that people count in, from 0 up to `top` or a little less."""
    needed = top / most
    days = [86_400 * step for step in steps(top / 86_400, most)]
    step = next((n for n in (*_TIMES, *_HOURS) if n >= needed), 0)
    return [n * step for n in range(int(top / step + 1e-9) + 1)] if step else days


def rounded_up(top: float, marks: Sequence[float]) -> float:
    """The first mark at or over `top`, so that an axis ends with one."""
    step = marks[1] if len(marks) > 1 else top
    return step * math.ceil(top / step - 1e-9) if step else top


_UNITS: Sequence[tuple[float, str]] = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def short_number(value: float) -> str:
    """`950`, `9,500`, `12k`, `1.5M`: at most five characters."""
    for size, unit in _UNITS:
        if value >= size:
            scaled = value / (1_000 if unit == "k" else size)
            return f"{scaled:.3g}{unit}" if scaled < 1_000 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}"


def short_duration(seconds: float) -> str:
    """`0.5 s`, `20 s`, `5 min`, `2 h`, `3 d`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


# The plots of a job's history: how its turns ended, what changed, what is open, drift, time.


_HEIGHT = 120.0
_CELL = 18.0
_LOW = 1.5
_CLOSE = 34.0
_SIDES = ("\u2191 store", "\u2193 sheet")
Stack = Sequence[tuple[str, float]]
"""Classes and values, the lowest first."""
_CHANGES: Mapping[str, str] = {
    "add": "added",
    "update": "changed",
    "delete": "deleted",
    "held": "planned, not made",
}
_OPEN: Mapping[str, tuple[str, str]] = {
    "conflict": ("conflicts", "conflicts"),
    "finding": ("findings", "errors in the sheet"),
    "failed": ("failed", "did not arrive"),
    "left": ("left", "other differences"),
}


def plots(columns: Sequence[Column], name: str) -> Iterator[str]:
    """The four of them; `name` keeps their ids apart from those of others on the page."""
    yield _changes(columns, f"{name}-changes")
    yield _open(columns, f"{name}-open")
    yield _line(
        "Differences found at the beginning",
        columns,
        lambda column: _unless(column, UNKNOWN, column.total("drift")),
        f"{name}-drift",
        (steps, short_number),
    )
    yield _line(
        "Duration",
        columns,
        lambda column: _unless(column, ("locked",), max(turn.seconds for turn in column.turns)),
        f"{name}-took",
        (steps_in_time, short_duration),
    )


def strip(columns: Sequence[Column], name: str) -> str:
    """How each turn ended: a shape and a sign for each, the newest at the right."""
    width = _CELL * max(len(columns), 1)
    drawn = (_mark(column, n * _CELL + _CELL / 2) for n, column in enumerate(columns))
    svg = element(
        "svg",
        "".join(drawn),
        viewBox=f"0 0 {width:.0f} {_CELL + 4:.0f}",
        width=f"{width:.0f}",
        height=f"{_CELL + 4:.0f}",
        preserveAspectRatio="xMaxYMid slice",
        role="img",
        class_="ps-strip",
        aria_label="How each round ended",
        aria_describedby=f"{name}-said",
    )
    seen = dict.fromkeys(column.worst.status for column in columns if column.turns)
    ends = [said.ENDS[status] for status in seen]
    legend = _legend(*((_key(_draw_sign(end, 7, 7, 5.6)), end.title) for end in ends))
    caption = element("figcaption", element("h3", "How each round ended") + legend)
    told = element("p", text(extremes(columns)), id=f"{name}-said", class_="ps-said")
    return element("figure", caption + svg + told, class_="ps-ends")


def _mark(column: Column, x: float) -> str:
    y, size = _CELL / 2 + 2, _CELL / 2 - 1.5
    if not column.turns:
        drawn = shape("path", d=f"M{x - 4:.1f} {y:.1f}h8", class_="ps-none-ran")
    else:
        drawn = _draw_sign(said.ENDS[column.worst.status], x, y, size)
    hit = shape("rect", x=x - _CELL / 2, y=0, width=_CELL, height=_CELL + 4, class_="ps-hit")
    return element("g", element("title", text(about_column(column))) + drawn + hit)


def _draw_sign(end: said.StatusWords, x: float, y: float, size: float) -> str:
    sign = shape("text", end.sign, x=x, y=y + size / 2, text_anchor="middle")
    return _shape(end.level, x, y, size) + sign


def _shape(level: str, x: float, y: float, size: float) -> str:
    """A circle where all is well, a triangle to look at, a square where it is bad."""
    if level == "well":
        return shape("circle", cx=x, cy=y, r=size, class_="ps-well")
    if level == "bad":
        return shape(
            "rect", x=x - size, y=y - size, width=2 * size, height=2 * size, class_="ps-bad"
        )
    d = f"M{x:.1f} {y - size - 1:.1f}l{size + 1:.1f} {2 * size + 1:.1f}h{-2 * size - 2:.1f}z"
    return shape("path", d=d, class_="ps-look")


def _legend(*entries: tuple[str, str]) -> str:
    """Drawn keys, and words."""
    items = (element("li", f"{key} {text(title)}".strip()) for key, title in entries)
    return element("ul", "".join(items), class_="ps-legend")


def _swatch(kind: str) -> str:
    """The key of a part of a bar."""
    drawn = shape("rect", x=1, y=1, width=12, height=12, class_=f"ps-bar ps-{kind}")
    return _key(drawn)


def _key(drawn: str) -> str:
    return element("svg", drawn, viewBox="0 0 14 14", class_="ps-key", aria_hidden="true")


def _changes(columns: Sequence[Column], name: str) -> str:
    up = [_stack(column, "to_store") for column in columns]
    down = [_stack(column, "to_sheet") for column in columns]
    used = [kind for kind in _CHANGES if any(dict(stack)[kind] for stack in (*up, *down))]
    sides = [
        side for side, stacks in zip(_SIDES, (up, down), strict=True) if any(map(_height, stacks))
    ]
    keys = [(_swatch(kind), _CHANGES[kind]) for kind in used]
    legend = _legend(*keys, *([("", " ".join(sides))] if sides else []))
    return _bars("Changes", columns, (up, down), name, legend)


def _stack(column: Column, side: str) -> Stack:
    made = column.count_made(side)
    held = column.count_planned(side)
    return [("add", made.add), ("update", made.update), ("delete", made.delete), ("held", held)]


def _open(columns: Sequence[Column], name: str) -> str:
    stacks = [
        [(kind, column.total(field)) for kind, (field, _) in _OPEN.items()] for column in columns
    ]
    used = [kind for kind in _OPEN if any(dict(stack)[kind] for stack in stacks)]
    legend = _legend(*((_swatch(kind), _OPEN[kind][1]) for kind in used))
    return _bars("Left open", columns, (stacks, []), name, legend)


def _height(stack: Stack) -> float:
    return sum(value for _, value in stack)


def _bars(
    title: str,
    columns: Sequence[Column],
    stacks: tuple[Sequence[Stack], Sequence[Stack]],
    name: str,
    legend: str,
) -> str:
    """Bars up, and down where the second stacks have anything, on one scale."""
    frame = PlotArea(columns)
    tops = [ceiling(map(_height, side)) for side in stacks]
    marks = steps(sum(tops)) if any(tops) else [0.0]
    tops = [rounded_up(top, marks) if top else 0 for top in tops]
    whole = sum(tops) or 1.0
    zero = TOP + _HEIGHT * (tops[0] / whole if sum(tops) else 1)
    scale = _HEIGHT / whole
    parts = [frame.gaps(_HEIGHT), _grid_plot(frame, zero, scale, tops, marks)]
    for side, top, sign in zip(stacks, tops, (-1, 1), strict=True):
        for stack, (_, x, wide) in zip(side, frame.places(), strict=False):
            parts.append(_bar(stack, (x, wide), zero, sign * scale, top))
        heights = map(_height, side)
        parts += _cuts(frame, heights, zero + sign * top * scale, top, (sign, short_number))
    parts += [frame.dates(TOP + _HEIGHT + 17), frame.draw_tooltips(_HEIGHT, about_column)]
    return figure(
        title,
        extremes(columns, name.rpartition("-")[2]),
        parts,
        height=_HEIGHT,
        legend=legend,
        name=name,
    )


def _grid_plot(
    frame: PlotArea, zero: float, scale: float, tops: Sequence[float], marks: Sequence[float]
) -> str:
    parts = [_rule(frame, zero, "0", kind="ps-zero")]
    step = marks[1] if len(marks) > 1 else sum(tops)
    for sign, top in zip((-1, 1), tops, strict=True):
        values = [n * step for n in range(1, round(top / step) + 1)] if step else []
        parts += [_rule(frame, zero + sign * v * scale, short_number(v)) for v in values]
    return "".join(parts)


def _rule(frame: PlotArea, y: float, label: str, kind: str = "ps-rule") -> str:
    line = shape("path", d=f"M{frame.left:.1f} {y:.1f}H{frame.right:.1f}", class_=kind)
    return line + shape("text", label, x=frame.left - 6, y=y + 4, text_anchor="end")


def _bar(stack: Stack, place: tuple[float, float], zero: float, scale: float, top: float) -> str:
    """The values on each other, away from the zero line; over the top it is cut, and says so."""
    x, wide = place
    gap = min(wide * 0.2, 3)
    parts: list[str] = []
    level = 0.0
    for kind, value in stack:
        end = min(level + value, top)
        if end > level:
            ends = sorted((zero + level * scale, zero + end * scale))
            tall = max(ends[1] - ends[0], _LOW)
            y = ends[1] - tall if scale < 0 else ends[0]
            width = max(min(wide - gap, 28), 0.6)
            left = x + (wide - width) / 2
            parts.append(
                shape("rect", x=left, y=y, width=width, height=tall, class_=f"ps-bar ps-{kind}")
            )
        level += value
    return "".join(parts)


def _cuts(
    frame: PlotArea,
    values: Iterable[float | None],
    y: float,
    top: float,
    how: tuple[int, Callable[[float], str]],
) -> Iterator[str]:
    """Where values are over the top, a mark that they go on; of those that stand close together the
    largest says how far.
    """
    sign, say = how
    found = [
        (x + wide / 2, value)
        for value, (_, x, wide) in zip(values, frame.places(), strict=False)
        if value is not None and value > top > 0
    ]
    for x, value in found:
        near = [(other, -place) for place, other in found if abs(place - x) < _CLOSE]
        inward = -8 * sign
        d = f"M{x - 8:.1f} {y + inward:.1f}l4 -4l4 4l4 -4l4 4"
        yield shape("path", d=d, class_="ps-cut")
        if (value, -x) == max(near):
            at = y - 3 if sign < 0 else y + 11
            yield shape("text", say(value), x=x, y=at, text_anchor="middle", class_="ps-far")


def _unless(column: Column, statuses: Sequence[str], value: float) -> float | None:
    """The value, unless no round of the column came as far as to know it."""
    known = any(each.status not in statuses for each in column.rounds)
    return value if known else None


def _line(
    title: str,
    columns: Sequence[Column],
    value: Callable[[Column], float | None],
    name: str,
    axis: tuple[Callable[[float], list[float]], Callable[[float], str]],
) -> str:
    frame = PlotArea(columns)
    values = [value(column) if column.turns else None for column in columns]
    top = ceiling(each for each in values if each is not None) or 1.0
    top = rounded_up(top, axis[0](top))
    zero, scale = TOP + _HEIGHT, _HEIGHT / top
    parts = [frame.gaps(_HEIGHT)]
    parts += [
        _rule(frame, zero - step * scale, axis[1](step), "ps-rule" if step else "ps-zero")
        for step in axis[0](top)
    ]
    points = [
        None if each is None else (x + wide / 2, zero - min(each, top) * scale)
        for each, (_, x, wide) in zip(values, frame.places(), strict=True)
    ]
    parts += [_run_plot(run, zero, dots=len(columns) <= 90) for run in _split_at_gaps(points)]
    parts += _cuts(frame, values, TOP, top, (-1, axis[1]))
    parts += [frame.dates(zero + 17), frame.draw_tooltips(_HEIGHT, about_column)]
    return figure(
        title, extremes(columns, name.rpartition("-")[2]), parts, height=_HEIGHT, name=name
    )


Point = tuple[float, float]


def _split_at_gaps(points: Iterable[Point | None]) -> Iterator[list[Point]]:
    run: list[Point] = []
    for point in [*points, None]:
        if point is not None:
            run.append(point)
        elif run:
            yield run
            run = []


def _run_plot(points: Sequence[Point], zero: float, *, dots: bool) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    area = f"M{path}L{points[-1][0]:.1f} {zero:.1f}H{points[0][0]:.1f}z"
    drawn = shape("path", d=area, class_="ps-area") + shape("path", d=f"M{path}", class_="ps-line")
    if dots or len(points) == 1:
        drawn += "".join(shape("circle", cx=x, cy=y, r=2.4, class_="ps-dot") for x, y in points)
    return drawn


# The history page: for each job how it stands and its trends, then the rounds and the runs.


_TURNS = 60
"""So many of a job's newest turns are drawn one by one."""
_COLUMNS = 90
_PARTS = 5
_ROUNDS = ("Status", "Took", "Job", "What", "Begun (UTC)")
_RUNS = ("State", "Took", "Run", "What", "Begun (UTC)")
_STATES: Mapping[str, tuple[str, str]] = {
    "done": ("+", "well"),
    "running": ("~", "look"),
    "stopped": ("x", "bad"),
}
# Browsers draw no pattern of a picture that is not displayed: this one is, with no size.
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
    """A whole HTML document that loads nothing. `rounds` are the oldest first, `runs` the newest
    first; of both the newest `limit` are listed, while the plots are of all. With `now`, a job that
    has not been run since is told of.
    """
    jobs = _by_job(rounds)
    title = "Reconciliation history"
    body = (
        '<main class="petsync ps-page">',
        _PATTERNS,
        *_head(jobs, title, rounds, now),
        *(_job(name, turns, n, now, runs) for n, (name, turns) in enumerate(jobs.items())),
        _listed_rounds(rounds, limit),
        _listed_runs(runs, limit),
        "</main>",
    )
    return document("\n".join(filter(None, body)), title, styles=(*STYLES, "history.css"))


def _by_job(rounds: Iterable[Round]) -> dict[str, list[RoundGroup]]:
    jobs: dict[str, list[Round]] = {}
    for each in rounds:
        jobs.setdefault(each.job, []).append(each)
    return {name: turns_of(found) for name, found in jobs.items()}


def _head(
    jobs: Mapping[str, Sequence[RoundGroup]],
    title: str,
    rounds: Sequence[Round],
    now: datetime | None,
) -> Iterator[str]:
    yield "<header>"
    made = f", made {words.moment(now)}" if now else ""
    yield element("p", f"petsync{made}", class_="ps-kicker")
    yield element("h1", text(title))
    yield html.summary(page_summary(jobs, len(rounds)))
    yield "</header>"
    if len(jobs) > 1:
        items = (_standing(name, turns) for name, turns in jobs.items())
        yield element("ul", "".join(items), class_="ps-jobs")


def _standing(name: str, turns: Sequence[RoundGroup]) -> str:
    worst = turns[-1].worst
    inner = f"{round_badge(worst)} {element('strong', bdi(name))} "
    inner += element("span", text(words.moment(turns[-1].at)[:16]), class_="ps-when")
    return element("li", inner)


def _job(
    name: str,
    turns: Sequence[RoundGroup],
    number: int,
    now: datetime | None,
    runs: Sequence[PastRun],
) -> str:
    anchor = f"job-{number}"
    columns = columns_of(turns[-_TURNS:], now)
    gap = columns[-1] if not columns[-1].turns else None
    head = element("h2", f"{bdi(name)} {round_badge(turns[-1].worst)}", id=anchor)
    parts = [
        head,
        two_columns(job_facts(turns, gap, runs)),
        *map(_needy, needy(turns[-1])[:_PARTS]),
        more(max(len(needy(turns[-1])) - _PARTS, 0)),
        strip(columns, f"{anchor}-ends"),
        _grid_html(columns, anchor),
        _whole(turns, anchor),
    ]
    return element(
        "section", "\n".join(filter(None, parts)), class_="ps-job", aria_labelledby=anchor
    )


def _needy(round_: Round) -> str:
    """A round that somebody has to look at, and what to type."""
    why = said.reason(round_)
    lines = [prose(line_) for line_ in why.splitlines()]
    lines += [
        f"{text(html.capital(purpose))}: {render_command(each)}"
        for purpose, each in _ways(round_)
        if each not in why
    ]
    kind = "ps-refused" if said.ENDS[round_.status].level == "bad" else ""
    whose = f"{round_.part}: " if round_.part else ""
    return html.alert(f"{whose}{said.headline(round_)}", lines, kind=kind)


def _ways(round_: Round) -> Iterator[said.Command]:
    """The way to release a plan; the report has the others."""
    for command in said.commands(round_):
        if round_.waiting and command.line.startswith("petsync apply"):
            yield command


def _grid_html(columns: Sequence[Column], name: str) -> str:
    return element("div", "".join(plots(columns, name)), class_="ps-plots")


def _whole(turns: Sequence[RoundGroup], name: str) -> str:
    """All turns, where they are too many to be drawn one by one."""
    if len(turns) <= _TURNS:
        return ""
    title = f"The whole time: {words.count(len(turns), 'round')} since {turns[0].at:%Y-%m-%d}"
    columns = in_time(turns, _COLUMNS)
    note = element("p", text(about_lengths(columns)), class_="ps-kept")
    return html.folding(title, note + _grid_html(columns, f"{name}-all"), open_=True)


def _listed_rounds(rounds: Sequence[Round], limit: int | None) -> str:
    newest = rounds[::-1][:limit]
    title = "Rounds"
    table = records_table(_ROUNDS, map(_round, newest), title) if newest else ""
    return section("rounds", title, table + more(len(rounds) - len(newest)) if table else "")


def _round(round_: Round) -> str:
    end = said.ENDS[round_.status]
    return line(
        end.level,
        badge(end.sign, end.title),
        words.duration(round_.seconds),
        round_.name,
        "".join(element("p", part) for part in _about(round_)),
        _format_start(round_.started),
    )


def _format_start(moment: str) -> str:
    """`2026-11-20 09:30`; a text that is none, as it is."""
    said_ = words.moment(moment)
    return said_[: -len(":00 UTC")] if said_.endswith(" UTC") else said_


def _about(round_: Round) -> Iterator[str]:
    sides = (("store", round_.to_store), ("sheet", round_.to_sheet))
    plans = [
        f"to {side} {said.format_planned(round_, counts)}" for side, counts in sides if counts.total
    ]
    made = f"; {words.number(round_.applied)} arrived" if plans else ""
    nothing = "" if round_.status in UNKNOWN else "nothing to change"
    open_ = said.brief(round_)
    if line_ := f"{', '.join(plans) or nothing}{made}{f'; open: {open_}' if open_ else ''}":
        yield text(line_)
    if not round_.is_well and (why := said.reason(round_)):
        yield prose(why)
    yield f"Round {render_command(visible(round_.id))}" + (
        f", report {render_command(visible(round_.report))}" if round_.report else ""
    )


def _listed_runs(runs: Sequence[PastRun], limit: int | None) -> str:
    undone = undone_by(runs)
    shown = runs[:limit]
    rows = (_run_html(each, undone.get(each.run_id)) for each in shown)
    table = records_table(_RUNS, rows, "Runs") if shown else ""
    note = element(
        "p", prose("`petsync runs RUN` tells what a run did, or a round found."), class_="ps-kept"
    )
    return section("runs", "Runs", note + table + more(len(runs) - len(shown)) if table else "")


def _run_html(run: PastRun, by: PastRun | None) -> str:
    sign, level = _STATES[run.state]
    sentence = f"{runs_words.what(run)}: {runs_words.comes_to(run)}"
    back = runs_words.taken_back(run, by)
    return line(
        level,
        badge(sign, html.capital(run.state)),
        words.duration(run.seconds),
        run.run_id,
        element("p", text("; ".join(filter(None, (sentence, back))))),
        _format_start(run.started),
    )
