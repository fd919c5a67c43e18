"""What is said of a job's history: of each column of a plot, of a plot as a whole, of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from petsync.diff.history import Past
from petsync.diff.round import Round, Status
from petsync.diff.standing import runs_of
from petsync.render import round_words as said
from petsync.render.markup import capital
from petsync.render.turns import Column, Turn
from petsync.render.visible import visible
from petsync.render.words import count, duration, moment, number

__all__ = [
    "UNKNOWN",
    "about_column",
    "about_lengths",
    "extremes",
    "job_facts",
    "needy",
    "page_summary",
]

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
        made, held = column.made(side), column.planned(side)
        parts = [said.counted(made)] if made.total else []
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


def _changed(rounds: Sequence[Round]) -> str:
    made = [each for each in rounds if each.applied]
    store = sum(each.to_store.total for each in made)
    sheet = sum(each.to_sheet.total for each in made)
    most = max(rounds, key=lambda each: each.applied)
    peak = f", most on {most.started[:10]} ({number(most.applied)})" if most.applied else ""
    return f"{count(store, 'change')} for the store and {number(sheet)} for the sheet{peak}"


def _opened(rounds: Sequence[Round]) -> str:
    total = said.brief_of(said.left_open(each) for each in rounds)
    return f"added up, {total}" if total else "nothing was left open"


def _found(rounds: Sequence[Round]) -> str:
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
    "changes": _changed,
    "open": _opened,
    "drift": _found,
    "took": _took,
}


def needy(turn: Turn) -> list[Round]:
    """The rounds of a turn that somebody has to look at."""
    return [each for each in turn.rounds if not each.is_well]


def job_facts(
    turns: Sequence[Turn], gap: Column | None, runs: Sequence[Past] = ()
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


def _by_people(turns: Sequence[Turn], runs: Sequence[Past]) -> str:
    """Runs that no round made: a plan was released, or a run taken back. No plot has them."""
    rounds = [each for turn in turns for each in turn.rounds]
    made = {run for each in rounds for run in each.runs}
    found = [run for run in runs_of(runs, rounds) if run.run_id not in made]
    if not found:
        return ""
    arrived = count(sum(run.counts.get("applied", 0) for run in found), "change")
    last = f"the last {moment(found[0].started)}, {found[0].run_id}"
    return f"{count(len(found), 'run')} besides, {arrived} for the store; {last}"


def _streak(turns: Sequence[Turn]) -> str:
    well, length = turns[-1].is_well, 0
    for turn in reversed(turns):
        if turn.is_well != well:
            break
        length += 1
    how = "that went well" if well else "that somebody has to look at"
    row = " in a row" if length > 1 else ""
    return f"{count(length, 'round')}{row} {how}, since {turns[-length].at:%Y-%m-%d}"


def page_summary(jobs: Mapping[str, Sequence[Turn]], total: int) -> str:
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
