"""What people are to be told of the rounds: decided from them, what was told before, and the time.

Nothing here reads a clock or sends anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2s
from itertools import groupby

from petsync.diff.round import Open, Round
from petsync.diff.round_report import RoundReport
from petsync.reconcile.config.model import Event
from petsync.reconcile.notify.memory import Memory, Standing

__all__ = ["Notice", "decide", "is_new", "open_of"]

_FAILED = ("error", "failed-rows", "interrupted", "refused")
_TO_DECIDE = ("conflict", "finding", "drift")
_DIGITS = re.compile(r"\b(?![45]\d\d\b)\d+")
"""Numbers that change from night to night; 404 and 503 are part of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to tell: of `name`, after the round in `told`, and of `also` the same. `new` are
    the differences, as digests, that people have not heard of yet; `since` is when it began, 0
    where that is now.
    """

    event: Event
    name: str
    told: RoundReport
    also: tuple[str, ...] = ()
    others: tuple[RoundReport, ...] = ()
    since: float = 0.0
    new: frozenset[str] = frozenset()
    reason: str = ""


def decide(
    memory: Memory, rounds: Sequence[RoundReport], now: float, remind: float
) -> tuple[Notice, ...]:
    """What to tell of these rounds; `memory` is brought up to date in place."""
    real = [told for told in rounds if not told.round.dry_run]
    notices: list[Notice] = []
    for told in real:
        standing = memory.standings.setdefault(told.round.name, Standing(told.round.job))
        _count(standing, told.round)
        notices += _locked(standing, told, now, remind)
        if told.round.status != "locked":
            notices += _of(standing, told, now, remind)
    return tuple(_together([*notices, *_gone(memory, real)]))


def open_of(told: RoundReport) -> tuple[Open, ...]:
    """The differences of a round that a person has to decide on."""
    return tuple(each for each in told.open if each.kind in _TO_DECIDE)


def is_new(each: Open, new: frozenset[str]) -> bool:
    """Whether people have not heard of this difference yet."""
    return _key(each) in new


def _of(standing: Standing, told: RoundReport, now: float, remind: float) -> Iterator[Notice]:
    was_failing = bool(standing.failing)
    failures = [*_failure(standing, told, now, remind)]
    violations = [*_violation(standing, told, after_failure=was_failing)]
    # A failure's notice lists what is open too.
    said = [replace(failures[0], new=violations[0].new)] if failures and violations else failures
    yield from said or violations
    waits = [*_waiting(standing, told.round, told, now, remind)]
    yield from waits
    if said or violations or waits:
        standing.owed_since = standing.owed_since if standing.owed else now
        standing.owed = True
    elif told.round.is_well and standing.owed:
        standing.owed = False
        yield _notice("recovery", told, since=standing.owed_since)


def _count(standing: Standing, round_: Round) -> None:
    standing.status, standing.exit_code = round_.status, round_.exit_code
    standing.started = round_.started
    tally = standing.tally
    tally.rounds += 1
    tally.well += round_.is_well
    tally.applied += round_.applied
    tally.failed += round_.failed


def _locked(standing: Standing, told: RoundReport, now: float, remind: float) -> Iterator[Notice]:
    """A lock that is held is somebody at work, unless that takes longer than `remind`."""
    if told.round.status != "locked":
        standing.locked_since = standing.locked_told = 0.0
    elif not standing.locked_since:
        standing.locked_since = standing.locked_told = now
    elif now - standing.locked_told >= remind:
        standing.locked_told = now
        standing.owed_since = standing.owed_since if standing.owed else standing.locked_since
        standing.owed = True
        yield _notice("failure", told, since=standing.locked_since, reason="locked")


def _is_failing(round_: Round) -> bool:
    return round_.status in _FAILED or round_.failed > 0 or round_.exit_code in (1, 7, 64)


def _saw_both(round_: Round) -> bool:
    """Whether the round came so far that it knows the differences."""
    return round_.status not in ("error", "interrupted", "refused")


def _failure(standing: Standing, told: RoundReport, now: float, remind: float) -> Iterator[Notice]:
    if not _is_failing(told.round):
        standing.failing = ""
        return
    reason = _reason(told.round)
    is_new_one = reason != standing.failing
    if not standing.failing:
        standing.failing_since = now
    if is_new_one or now - standing.failing_told >= remind:
        since = 0.0 if standing.failing_since == now else standing.failing_since
        standing.failing, standing.failing_told = reason, now
        yield _notice("failure", told, since=since, reason=reason)


def _violation(standing: Standing, told: RoundReport, *, after_failure: bool) -> Iterator[Notice]:
    if not _saw_both(told.round):
        return
    keys = {_key(each) for each in open_of(told)}
    count = max(len(keys), told.round.conflicts + told.round.findings + told.round.left)
    new = keys.difference(standing.open)
    has_grown = bool(new) or count > standing.open_count
    is_first = not standing.is_violated or (after_failure and not _is_failing(told.round))
    standing.open, standing.open_count = tuple(sorted(keys)), count
    standing.is_violated = count > 0
    if count and (has_grown or is_first):
        yield _notice("violation", told, new=frozenset(new))


def _waiting(
    standing: Standing, round_: Round, told: RoundReport, now: float, remind: float
) -> Iterator[Notice]:
    if round_.status == "waiting":
        plan = _plan(told)
        is_first = plan != standing.waiting
        if is_first:
            standing.waiting, standing.waiting_since = plan, now
        if is_first or now - standing.waiting_told >= remind:
            standing.waiting_told = now
            since = 0.0 if is_first else standing.waiting_since
            yield _notice("waiting", told, since=since, reason=round_.name)
    elif _saw_both(round_):
        standing.waiting = ""


def _gone(memory: Memory, rounds: Sequence[RoundReport]) -> Iterator[Notice]:
    """Files that a folder's job does not have any more; what was told of them is over once all
    that it has are well.
    """
    for job, each in groupby(rounds, key=lambda told: told.round.job):
        of_job = list(each)
        present = {told.round.name for told in of_job}
        are_well = all(told.round.is_well for told in of_job)
        if job in present and not are_well:
            continue  # it did not come as far as its files
        absent = {n: s for n, s in memory.standings.items() if s.job == job and n not in present}
        for name, standing in absent.items():
            if are_well or not standing.owed:
                del memory.standings[name]
            if are_well and standing.owed:
                notice = _notice("recovery", of_job[0], since=standing.owed_since)
                yield replace(notice, name=name)


def _together(notices: Iterable[Notice]) -> Iterator[Notice]:
    """The same thing of several files of a job is told once."""
    found: dict[tuple[str, str, str], list[Notice]] = {}
    for each in notices:
        found.setdefault((each.event, each.told.round.job, each.reason), []).append(each)
    for first, *rest in found.values():
        yield replace(
            first,
            also=tuple(each.name for each in rest),
            others=tuple(each.told for each in rest),
            new=first.new.union(*(each.new for each in rest)),
            since=min((each.since for each in (first, *rest) if each.since), default=0.0),
        )


def _notice(
    event: Event,
    told: RoundReport,
    *,
    since: float = 0.0,
    new: frozenset[str] = frozenset(),
    reason: str = "",
) -> Notice:
    return Notice(event=event, name=told.round.name, told=told, since=since, new=new, reason=reason)


def _reason(round_: Round) -> str:
    return _digest(f"{round_.status} {round_.exit_code} {_DIGITS.sub('#', round_.problem)}")


def _plan(told: RoundReport) -> str:
    """What makes the plan that waits this one: another one may have the same file."""
    parts = sorted(_key(each) + each.problem for each in told.open if each.kind == "waiting")
    return _digest("\n".join((told.round.waiting, *parts)))


def _key(each: Open) -> str:
    """What makes it this difference, also when the row has moved meanwhile."""
    who = str(each.pet_id) if each.pet_id is not None else each.name or each.problem
    return _digest("\n".join((each.kind, who, *each.fields)))


def _digest(text: str) -> str:
    return blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
