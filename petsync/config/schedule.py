"""The schedule of a job: when it was last due and when it is next due, in local time."""

from __future__ import annotations

from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

__all__ = ["is_overdue", "last_due", "next_due"]


_GRACE = timedelta(hours=1)
"""The delay after a scheduled time before a job counts as overdue."""


def last_due(schedule: str, now: datetime) -> datetime | None:
    """Return the last scheduled time at or before `now`, which has a time zone; None if there is
    none.

    `schedule` is a cron expression with five fields, in local time.
    """
    return _find_time(schedule, _wall(now) + timedelta(seconds=1), reverse=True)


def next_due(schedule: str, now: datetime) -> datetime | None:
    """Return the next scheduled time after `now`, which has a time zone; None if there is none."""
    return _find_time(schedule, _wall(now), reverse=False)


def is_overdue(schedule: str, since: datetime, now: datetime) -> bool:
    """Return true if a job that last began at `since` was due again an hour or more ago."""
    due = last_due(schedule, now - _GRACE)
    return due is not None and due > since


def _wall(time: datetime) -> datetime:
    """Return the local time without a zone, as cron reads it.

    On a day with 23 hours, the skipped hour still counts.
    """
    return time.astimezone().replace(tzinfo=None, microsecond=0)


def _find_time(schedule: str, start: datetime, *, reverse: bool) -> datetime | None:
    if not schedule:
        return None
    try:
        return next(CronSim(schedule, start, reverse=reverse)).astimezone()
    except (CronSimError, StopIteration):
        return None
