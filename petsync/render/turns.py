"""A job's history as turns, one for each time that it was reconciled, and as the columns of a plot:
a turn each, or a stretch of time each, with gaps where no round ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

from petsync.diff.round import Counts, Round, exit_code_of

__all__ = ["Column", "Turn", "columns_of", "in_time", "moment_of", "turns_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOGETHER = timedelta(hours=1)
_LATE = 1.6
"""So many usual pauses without a round are a gap."""
_WIDEST = 4
_LAST = 2_200
_HOUR = 3_600
_STEPS = [_HOUR * n for n in (1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 2_160, 8_760, 43_800)]


@dataclass(frozen=True, slots=True)
class Turn:
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
    """One place of a plot: turns, or none where there is a gap of `missed` usual turns between two
    moments. `width` is in usual columns.
    """

    turns: tuple[Turn, ...]
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
        return Turn(tuple(turn.worst for turn in self.turns), self.since).worst

    def made(self, side: str) -> Counts:
        """The changes of a side, `to_store` or `to_sheet`, in rounds that made any."""
        return _sum(getattr(each, side) for each in self.rounds if each.applied)

    def planned(self, side: str) -> int:
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


def turns_of(rounds: Iterable[Round]) -> list[Turn]:
    """The turns of one job's rounds, the oldest first: a file's next round begins another one."""
    turns: list[Turn] = []
    for each in rounds:
        last = turns[-1] if turns else None
        at = moment_of(each.started, last.at if last else _EPOCH)
        if last is None or not _is_together(last, each, at):
            turns.append(Turn((each,), at))
        else:
            turns[-1] = Turn((*last.rounds, each), last.at)
    return turns


def _is_together(turn: Turn, round_: Round, at: datetime) -> bool:
    parts = {each.part for each in turn.rounds}
    return (
        "" not in parts | {round_.part}
        and round_.part not in parts
        and (turn.at <= at <= turn.end + _TOGETHER)
    )


def columns_of(turns: Sequence[Turn], now: datetime | None = None) -> list[Column]:
    """A column for each turn, and one for each gap between them, and up to now."""
    pause = _usual(turns)
    columns: list[Column] = []
    for turn, following in [*pairwise([*turns, None])]:
        assert turn is not None  # pairwise ends before the one None there is
        columns.append(Column((turn,), turn.at, turn.at))
        until = following.at if following else now
        if until is not None and (missed := _missed(turn.at, until, pause, is_over=following)):
            columns.append(Column((), turn.at, until, missed))
    return columns


def _usual(turns: Sequence[Turn]) -> timedelta:
    pauses = [(b.at - a.at).total_seconds() for a, b in pairwise(turns) if b.at > a.at]
    return timedelta(seconds=median(pauses) if pauses else 0)


def _missed(since: datetime, until: datetime, pause: timedelta, is_over: object) -> int:
    """How many usual turns were left out between two that there were, or since the last one."""
    if not pause or until - since < _LATE * pause:
        return 0
    return round((until - since) / pause) - bool(is_over)


def in_time(turns: Sequence[Turn], most: int) -> list[Column]:
    """Columns of one length of time each, at most so many; those in a row that have no turn are
    one gap.
    """
    ordered = sorted(turns, key=lambda turn: turn.at)
    step = _step(ordered[-1].at - ordered[0].at, most)
    columns: list[Column] = []
    for number, group in _grouped(ordered, step):
        start = _EPOCH + number * step
        if columns and start > columns[-1].until:
            missed = round((start - columns[-1].until) / step)
            columns.append(Column((), columns[-1].until, start, missed))
        columns.append(Column(tuple(group), start, start + step))
    return columns


def _grouped(turns: Sequence[Turn], step: timedelta) -> Iterator[tuple[int, list[Turn]]]:
    groups: dict[int, list[Turn]] = {}
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
