"""A job's schedule: when it was due last, and when it will be next, in this machine's time."""

from __future__ import annotations

from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

__all__ = ["is_overdue", "last_due", "next_due"]


_GRACE = timedelta(hours=1)
"""So long after its time a job may begin, or still be at work, before it counts as overdue."""


def last_due(schedule: str, now: datetime) -> datetime | None:
    """The last time until `now`, which has a zone, at which the five fields say so; None where
    there is none.
    """
    return _find_time(schedule, _wall(now) + timedelta(seconds=1), reverse=True)


def next_due(schedule: str, now: datetime) -> datetime | None:
    """The next time after `now`, which has a zone; None where there is none."""
    return _find_time(schedule, _wall(now), reverse=False)


def is_overdue(schedule: str, since: datetime, now: datetime) -> bool:
    """Whether a job that began last at `since` should have begun again an hour ago or more."""
    due = last_due(schedule, now - _GRACE)
    return due is not None and due > since


def _wall(moment: datetime) -> datetime:
    """The clock on the wall: cron knows no zone, and a day with 23 hours has one 2 o'clock."""
    return moment.astimezone().replace(tzinfo=None, microsecond=0)


def _find_time(schedule: str, start: datetime, *, reverse: bool) -> datetime | None:
    if not schedule:
        return None
    try:
        return next(CronSim(schedule, start, reverse=reverse)).astimezone()
    except (CronSimError, StopIteration):
        return None
