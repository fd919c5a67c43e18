"""Cron: the five fields of a schedule, checked, and as systemd writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from petsync.reconcile.config.kinds import Kind, MisfitError

__all__ = ["CRON", "on_calendar"]

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
    words = 'the five fields of cron, such as "0 2 * * *" for every night at two'
    if not isinstance(value, str):
        raise MisfitError(words, '"0 2 * * *"')
    fields = value.split()
    if len(fields) != 5:
        raise MisfitError(f"{words}; it has {_count(len(fields))}", f'"{_meant(value)}"')
    for number, field in enumerate(fields):
        _check(number, field)
    if next(_simulated(fields), None) is None:
        raise MisfitError(
            "a time that comes; this date never does",
            advice="The month does not have that day.",
        )
    return " ".join(fields)


def _count(number: int) -> str:
    return "1 field" if number == 1 else f"{number} fields"


def _meant(value: str) -> str:
    """The schedule that may be meant by what is none."""
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
    """Raise MisfitError where the field cannot be, or not every cron knows it (`L` and `#`)."""
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
        raise MisfitError(
            f"a schedule; field {number + 1}, the {name}, is {span}, or *, or such in a list, a "
            "range or a step",
            advice=f"In place of {field} write * for every {name}, or for example {example}.",
        )


_NAMES = {
    *(day.upper() for day in _DAYS),
    *["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
}


def _simulated(fields: list[str]) -> Iterator[datetime]:
    try:
        return CronSim(" ".join(fields), _NOW)
    except CronSimError:
        return iter(())


def on_calendar(schedule: str) -> tuple[str, ...]:
    """The same moments as systemd's `OnCalendar=` lines: two where cron means day of the month or
    day of the week, as systemd always means both.
    """
    cron = CronSim(schedule, _NOW)
    numbers = sorted({int(str(day)) % 7 for day in cron.weekdays})
    weekdays = "" if len(numbers) == 7 else ",".join(_DAYS[number] for number in numbers)
    months, days = _listed(cron.months, 3), _listed(cron.days, 2)
    clock = f"{_listed(cron.hours, 1)}:{_listed(cron.minutes, 0)}:00"
    every_day, these_days = f"*-{months}-* {clock}", f"*-{months}-{days} {clock}"
    if cron.day_and:
        return (f"{weekdays} {these_days}".strip(),)
    if not weekdays or days == "*":
        return (every_day,)
    return (these_days, f"{weekdays} {every_day}")


def _listed(values: Iterable[object], field: int) -> str:
    numbers = sorted(int(str(value)) for value in values)
    return "*" if numbers == [*_FIELDS[field][3]] else ",".join(f"{n:02}" for n in numbers)


CRON = Kind(
    "five fields of cron",
    {"type": "string", "pattern": r"^\s*([0-9A-Za-z*,/-]+\s+){4}[0-9A-Za-z*,/-]+\s*$"},
    _schedule,
)
