"""The digest: once a day a line for each job, also when all is well."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta

from petsync.diff.round import exit_code_of
from petsync.reconcile.config.model import Configuration, Job
from petsync.reconcile.notify.memory import Memory, Standing, Tally
from petsync.reconcile.notify.plain import plain
from petsync.reconcile.schedule import is_overdue, next_due
from petsync.render.words import count

__all__ = ["day_due", "digest_lines", "digested"]

_DAYS = 7
_JUMP = timedelta(days=2)


def day_due(memory: Memory, at: dt.time, now: datetime) -> str:
    """The day whose digest is to be sent now, "" if none is; `at` and the day are local.

    A day has one digest, also where the clock is set back; where it had been years ahead, its
    days do not count.
    """
    local = now.astimezone()
    day = local.date() if local.time() >= at else local.date() - timedelta(days=1)
    sent = [date.fromisoformat(each) for each in memory.digests]
    if not sent:
        return day.isoformat() if day == local.date() else ""
    is_due = day not in sent and (day > min(sent) or min(sent) - day > _JUMP)
    return day.isoformat() if is_due else ""


def digested(memory: Memory, day: str, now: datetime) -> None:
    """Remember that this day has its digest, and count anew from here."""
    memory.digests = (*memory.digests, day)[-_DAYS:]
    memory.digested = now.timestamp()
    for standing in memory.standings.values():
        standing.tally = Tally()


def digest_lines(memory: Memory, config: Configuration, now: datetime) -> tuple[str, ...]:
    """A line for each job that is on, and for whatever else is not well."""
    known = {job.name for job in config.jobs}
    others = [s for n, s in memory.standings.items() if s.job not in known and s.owed]
    lines = [_line(job, _of(memory, job.name), now) for job in config.jobs if job.enabled]
    lines += [f"{plain(each.job)}: {each.status}" for each in others]
    return tuple(lines) or ("No job is on.",)


def _of(memory: Memory, job: str) -> tuple[Standing, ...]:
    return tuple(each for each in memory.standings.values() if each.job == job)


def _line(job: Job, standings: Sequence[Standing], now: datetime) -> str:
    return "; ".join((f"{job.name}: {_status(standings)}", *_facts(job, standings, now)))


def _status(standings: Sequence[Standing]) -> str:
    """How the last round ended; of a folder's files, the one that a person should hear of first."""
    if not standings:
        return "no round yet"
    worst = exit_code_of(each.exit_code for each in standings)
    first = next(each for each in standings if each.exit_code == worst)
    files = f" ({count(len(standings), 'sheet')})" if len(standings) > 1 else ""
    return f"{first.status}{files}"


def _facts(job: Job, standings: Sequence[Standing], now: datetime) -> Iterator[str]:
    if not standings:
        yield from _time(job, standings, now)
        return
    tallies = [each.tally for each in standings]
    rounds, well = (sum(getattr(t, n) for t in tallies) for n in ("rounds", "well"))
    yield f"{count(rounds, 'round')}, {well} well"
    if applied := sum(each.applied for each in tallies):
        yield count(applied, "change")
    if failed := sum(each.failed for each in tallies):
        yield f"{failed} failed"
    if left := sum(each.open_count for each in standings):
        yield f"{left} to decide"
    if waiting := sum(bool(each.waiting) for each in standings):
        yield f"{count(waiting, 'plan')} waiting"
    yield from _time(job, standings, now)


def _time(job: Job, standings: Sequence[Standing], now: datetime) -> Iterator[str]:
    if standings:
        last = max(datetime.fromisoformat(each.started) for each in standings)
        yield f"last began {last.astimezone():%Y-%m-%d %H:%M}"
        if is_overdue(job.schedule, last, now):
            yield f"OVERDUE by its schedule ({job.schedule})"
            return
    due = next_due(job.schedule, now)
    if due is not None:
        yield f"next due {due:%Y-%m-%d %H:%M}"
