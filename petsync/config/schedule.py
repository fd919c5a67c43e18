"""The schedule of a job, a cron expression: its check, and when the job is due, in local time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated

from cronsim import CronSim, CronSimError

from petsync.config.values import BadValueError, custom

__all__ = ["Cron", "is_overdue", "last_due", "next_due", "on_calendar"]


_GRACE = timedelta(hours=1)
"""The delay after a scheduled time before a job counts as overdue."""
_CHANGE = timedelta(hours=3)
"""More than a change of the clock to or from daylight saving time."""


def last_due(schedule: str, now: datetime) -> datetime | None:
    """Return the last scheduled time at or before `now`, which has a time zone; None if there is
    none.

    `schedule` is a cron expression with five fields, in local time.
    """
    times = _iter_times(schedule, _as_local(now + _CHANGE), reverse=True)
    return next((time for time in times if time <= now), None)


def next_due(schedule: str, now: datetime) -> datetime | None:
    """Return the next scheduled time after `now`, which has a time zone; None if there is none."""
    times = _iter_times(schedule, _as_local(now - _CHANGE), reverse=False)
    return next((time for time in times if time > now), None)


def is_overdue(schedule: str, since: datetime, now: datetime) -> bool:
    """Return true if a job that last began at `since` was due again an hour or more ago."""
    due = last_due(schedule, now - _GRACE)
    return due is not None and due > since


def _as_local(time: datetime) -> datetime:
    """Return the local time without a zone, as cron reads it."""
    return time.astimezone().replace(tzinfo=None, microsecond=0)


def _iter_times(schedule: str, start: datetime, *, reverse: bool) -> Iterator[datetime]:
    """Yield the scheduled times from `start`. A time in the hour that the change to daylight saving
    time skips is an hour later; one in the hour that is repeated is in the first of the two.
    """
    with suppress(CronSimError):
        for time in CronSim(schedule, start, reverse=reverse) if schedule else ():
            yield datetime.fromtimestamp(time.timestamp(), UTC).astimezone()


# Check the five fields of a schedule, and convert them for systemd.


_FIELDS = (
    ("minute", "0 to 59", "*/15", range(60)),
    ("hour", "0 to 23", "2", range(24)),
    ("day of the month", "1 to 31", "1", range(1, 32)),
    ("month", "1 to 12 or JAN to DEC", "*/3", range(1, 13)),
    ("day of the week", "0 to 7 or SUN to SAT", "1-5", range(7)),
)
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@nightly": "0 2 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _schedule(value: object) -> str:
    words = 'a cron expression with five fields, such as "0 2 * * *" for every night at two'
    if not isinstance(value, str):
        raise BadValueError(words, '"0 2 * * *"')
    fields = value.split()
    if len(fields) != 5:
        raise BadValueError(
            f"{words}; it has {_count(len(fields))}", f'"{_suggest_schedule(value)}"'
        )
    for number, part in enumerate(fields):
        _check(number, part)
    if next(_next_times(fields), None) is None:
        raise BadValueError(
            "a schedule that can occur; this date never occurs",
            advice="The month does not have that day.",
        )
    return " ".join(fields)


def _count(number: int) -> str:
    return "1 field" if number == 1 else f"{number} fields"


def _suggest_schedule(value: str) -> str:
    """Return a schedule to suggest for an invalid value: the one that was probably meant, or daily
    at 02:00.
    """
    text = value.strip().casefold()
    if text in _NICKNAMES:
        return _NICKNAMES[text]
    if clock := re.fullmatch(r"(\d{1,2}):(\d{2})", text):
        return f"{int(clock[2])} {int(clock[1])} * * *"
    if every := re.fullmatch(r"(?:every )?(\d{1,2}) ?m\w*", text):
        return f"*/{int(every[1])} * * * *"
    if every := re.fullmatch(r"(?:every )?(\d{1,2}) ?h\w*", text):
        return f"0 */{int(every[1])} * * *"
    return "0 2 * * *"


def _check(number: int, field: str) -> None:
    """Raise BadValueError if the field is invalid, or if some versions of cron do not support it
    (`L` and `#`).
    """
    fields = [*"*****"]
    fields[number] = field
    name, span, example, _ = _FIELDS[number]
    is_known = re.fullmatch(r"[0-9A-Za-z*,/-]+", field) is not None
    names = set(re.findall(r"[A-Za-z]+", field.upper()))
    try:
        CronSim(" ".join(fields), _NOW)
    except (CronSimError, ValueError):
        is_known = False
    if not is_known or names & {"L", "LW"} or any(name.endswith("L") for name in names - _NAMES):
        raise BadValueError(
            f"a schedule; field {number + 1}, the {name}, is {span}, or *, or a list, a range or a "
            "step of these",
            advice=f"In place of {field} write * for every {name}, or for example {example}.",
        )


_NAMES = {
    *(day.upper() for day in _DAYS),
    *["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
}


def _next_times(fields: list[str]) -> Iterator[datetime]:
    try:
        return CronSim(" ".join(fields), _NOW)
    except CronSimError:
        return iter(())


def on_calendar(schedule: str) -> tuple[str, ...]:
    """Return the schedule as systemd's `OnCalendar=` values.

    There are two values if the schedule limits both the days of the month and those of the week,
    and neither field begins with `*`: cron then runs if either matches, and systemd only if both
    match.
    """
    cron = CronSim(schedule, _NOW)
    numbers = sorted({int(str(day)) % 7 for day in cron.weekdays})
    weekdays = "" if len(numbers) == 7 else ",".join(_DAYS[number] for number in numbers)
    months, days = _format_field(cron.months, 3), _format_field(cron.days, 2)
    clock = f"{_format_field(cron.hours, 1)}:{_format_field(cron.minutes, 0)}:00"
    every_day, these_days = f"*-{months}-* {clock}", f"*-{months}-{days} {clock}"
    if cron.day_and:
        return (f"{weekdays} {these_days}".strip(),)
    if not weekdays or days == "*":
        return (every_day,)
    return (these_days, f"{weekdays} {every_day}")


def _format_field(values: Iterable[object], field: int) -> str:
    numbers = sorted(int(str(value)) for value in values)
    return "*" if numbers == [*_FIELDS[field][3]] else ",".join(f"{n:02}" for n in numbers)


Cron = Annotated[
    str,
    custom(
        "a cron expression with five fields",
        _schedule,
        {"type": "string", "pattern": r"^\s*([0-9A-Za-z*,/-]+\s+){4}[0-9A-Za-z*,/-]+\s*$"},
    ),
]
