"""The configuration: jobs, their options, and the types of the options' values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from cronsim import CronSim, CronSimError

from petsync.errors import SettingsError
from petsync.models import MAX_ID, MIN_ID
from petsync.plan.guard import Guard, Limit
from petsync.plan.options import MergeOptions
from petsync.plan.rounds import MODES, Mode
from petsync.profile import STANDARD, ServiceProfile, profile_from
from petsync.settings import AUTH as _AUTH
from petsync.settings import (
    MAPPED,
    HiddenEnvironment,
    Secret,
    checked_encoding,
    column_named,
    find_nearest,
)
from petsync.table.columns import COLUMNS, Column

__all__ = [
    "AUTH",
    "COLUMN",
    "CRON",
    "EVENTS",
    "GUARD",
    "INHERITED",
    "JOB",
    "OPTIONS",
    "REST",
    "SERVICE",
    "TABLES",
    "TOP",
    "VARIABLE",
    "Configuration",
    "Entry",
    "Event",
    "Job",
    "JobSchedule",
    "Log",
    "Metrics",
    "MisfitError",
    "Notify",
    "Option",
    "Reports",
    "Table",
    "TableName",
    "Timetable",
    "ValueType",
    "choice",
    "choices",
    "on_calendar",
    "options_of",
    "whole_number",
]


# Value types: what is valid, how it is read, and the JSON Schema.


VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"
"""The pattern of a variable in a value, as a regular expression."""


class MisfitError(ValueError):
    """A value is invalid: `must` says what it must be, and `instead` what to write, as TOML.

    `advice` is a sentence to show if there is no `instead`. `part` is the index of the invalid item
    of a list, None if the whole value is invalid. `is_hidden`: the value may be a secret.
    """

    def __init__(
        self,
        must: str,
        instead: str = "",
        *,
        advice: str = "",
        part: int | None = None,
        is_hidden: bool = False,
    ) -> None:
        super().__init__(must)
        self.must, self.instead, self.advice, self.part = must, instead, advice, part
        self.is_hidden = is_hidden


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type of option values."""

    words: str
    """A description for users."""
    schema: Mapping[str, Any] = field(repr=False)
    """The JSON Schema, for editors."""
    read: Callable[[Any], Any] = field(repr=False)
    """Returns the value for the Configuration, or raises MisfitError."""
    hides: str = ""
    """What is secret, and so must not be in the file or a message.

    "whole" means the value, "part" a part of it, "address" a password in a URL, and "" nothing.
    """
    is_filled: bool = True
    """True if `${NAME}` in the value is replaced."""

    @property
    def is_masked(self) -> bool:
        """True if the value becomes a Secret."""
        return self.hides in ("whole", "part")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise MisfitError("text", f'"{value}"' if _is_number(value) else "")
    if not value.strip():
        raise MisfitError(
            "text that is not empty", advice="Leave the line out for the usual value."
        )
    return value


def _database(value: object) -> str:
    """Return a database URL in which the end of the password is unambiguous.

    SQLAlchemy ends the password at the first @, and would treat the rest as the host, and show it.
    """
    text = _text(value)
    behind = re.match(r"[^:/]*://[^:/@]*(?::[^@]*)?@([^?]*)", text)
    if behind is not None and "@" in behind[1]:
        raise MisfitError(
            "an address with one @, in front of the host",
            advice="Write an @ in the password as %40, in the variable that holds it.",
        )
    return text


def _encoding(value: object) -> str:
    try:
        return checked_encoding(_text(value))
    except SettingsError as error:
        raise MisfitError("the name of an encoding", advice=error.hint) from None


def _path(value: object) -> Path:
    text = _text(value)
    if "\n" in text or "\r" in text or "\t" in text:
        raise MisfitError(
            "a path without tabs and line breaks",
            advice="A \\ begins a special character in double quotes: write the path in single "
            "quotes.",
        )
    return Path(text)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    meant = {"yes": "true", "on": "true", "true": "true", "1": "true"}
    unmeant = {"no": "false", "off": "false", "false": "false", "0": "false"}
    raise MisfitError("true or false", {**meant, **unmeant}.get(str(value).casefold(), ""))


def whole_number(least: int, most: int | None = None) -> ValueType:
    """Return the type of integers from `least` to `most`."""
    words = f"a whole number from {least}" + (f" to {most}" if most is not None else "")

    def read(value: object) -> int:
        if type(value) is int and least <= value and (most is None or value <= most):
            return value
        raise MisfitError(words, _number_meant(value, least, most))

    limits = {"minimum": least} | ({"maximum": most} if most is not None else {})
    return ValueType(words, {"type": "integer", **limits}, read)


def _number_meant(value: object, least: int, most: int | None) -> str:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII):
        value = int(value)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    return str(int(max(least, value if most is None else min(most, value))))


def choice(*values: str) -> ValueType:
    """Return the type of a value that is one of these words."""
    *most, last = (f'"{value}"' for value in values)
    words = f"{', '.join(most)} or {last}"

    def read(value: object) -> str:
        if value in values and isinstance(value, str):
            return value
        near = find_nearest(str(value), values)
        raise MisfitError(words, _quote(near), advice="" if near else "Choose one of these.")

    return ValueType(words, {"enum": list(values)}, read)


def choices(values: tuple[str, ...], *, least: int = 0) -> ValueType:
    """Return the type of lists of these words without duplicates."""
    of = choice(*values)
    return _list_of(of, f"a list of {', '.join(values)}", least)


def _list_of(of: ValueType, words: str, least: int = 1) -> ValueType:
    """Return the type of lists of values of the type `of`, without duplicates."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise MisfitError(words, f"[{value}]" if _is_number(value) else "")
        if len(value) < least:
            raise MisfitError(
                f"{words}, and not empty", advice="Leave the line out for the default."
            )
        read = tuple(_item(of, number, item) for number, item in enumerate(value))
        for number, item in enumerate(read):
            if item in read[:number]:
                raise MisfitError("there once", advice="Take the second one out.", part=number)
        return read

    schema = {"type": "array", "items": dict(of.schema), "uniqueItems": True}
    return ValueType(words, schema | ({"minItems": least} if least else {}), read, of.hides)


def _item(of: ValueType, number: int, item: object) -> Any:
    try:
        return of.read(item)
    except MisfitError as wrong:
        raise MisfitError(wrong.must, wrong.instead, advice=wrong.advice, part=number) from None


def _seconds(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, int | float) and is_number and math.isfinite(value) and value > 0:
        return float(value)
    raise MisfitError("a number of seconds above 0", "30")


def _rate(value: object) -> float:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(?:/s)?", str(value), re.ASCII)
    if match is None or not float(match[1]) or isinstance(value, bool):
        raise MisfitError('a number of requests a second above 0, such as 20 or "20/s"', '"20/s"')
    return float(match[1])


_BARE_ADDRESS = "Remove user and password from the address; set token, or PETSYNC_TOKEN."
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _duration(value: object) -> float:
    match = re.fullmatch(r"\s*(\d{1,6})\s*([smhd])\s*", str(value), re.ASCII)
    if match is None or not int(match[1]):
        digits = re.match(r"\s*(\d{1,6})", str(value), re.ASCII)
        letter = re.search(r"[smhd]", str(value).casefold())
        meant = f'"{digits[1]}{letter[0] if letter else "h"}"' if digits else '"24h"'
        raise MisfitError("a time with its unit, s, m, h or d, such as 15m or 24h", meant)
    return float(int(match[1]) * _UNITS[match[2]])


def _clock(value: object) -> time:
    if isinstance(value, time):
        return value.replace(second=0, microsecond=0)
    match = re.fullmatch(r"\s*([01]?\d|2[0-3]):([0-5]\d)\s*", str(value), re.ASCII)
    if match is None:
        hour = re.match(r"\s*([01]?\d|2[0-3])(?!\d)", str(value), re.ASCII)
        raise MisfitError(
            "a time of day from 00:00 to 23:59", f'"{int(hour[1] if hour else 7):02}:00"'
        )
    return time(int(match[1]), int(match[2]))


def _limit(value: object) -> Limit:
    if isinstance(value, float) and 0 < value < 1:
        raise MisfitError('a number of pets, or a share such as "10%"', f'"{value * 100:g}%"')
    try:
        return Limit.parse(str(value), "")
    except SettingsError:
        digits = re.search(r"\d+", str(value))
        meant = f'"{min(100, int(digits[0]))}%"' if digits else '"10%"'
        raise MisfitError('a number of pets, or a share up to "100%"', meant) from None


def _pet_id(value: object) -> int:
    if type(value) is int and MIN_ID <= value <= MAX_ID:
        return value
    is_digits = isinstance(value, str) and re.fullmatch(r"\d{1,18}", value, re.ASCII)
    raise MisfitError("a pet's id, a whole number", str(value) if is_digits else "")


def _listen(value: object) -> str:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})", str(value), re.ASCII)
    if match is None or not 0 < int(match[2]) < 65_536:
        raise MisfitError('HOST:PORT, such as "127.0.0.1:9464"', '"127.0.0.1:9464"')
    return str(value)


def _url(value: object) -> str:
    from petsync.client.origin import checked_base

    try:
        return checked_base(_text(value), with_secret=False)
    except SettingsError as error:
        if "password" in error.message:
            raise MisfitError("without", advice=_BARE_ADDRESS) from None
        raise MisfitError("the base URL of a service", '"https://shop.example/v2"') from None


def _job_name(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", value, re.ASCII):
        return value
    near = re.sub(r"[^A-Za-z0-9._-]+", "-", value).strip("-.")[:64] or "catalogue"
    raise MisfitError(
        "letters, digits, dots, - and _, at most 64 characters, because files are named after it",
        advice=f"Write [jobs.{near}].",
    )


def _quote(text: str) -> str:
    return f'"{text}"' if text else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_STRING = {"type": "string", "minLength": 1}

TEXT = ValueType("text", _STRING, _text)
PLAIN = ValueType("text", _STRING, _text, is_filled=False)
JOB_NAME = ValueType("a name", {"pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$"}, _job_name)
URL = ValueType("an address", _STRING, _url, "address")
ENCODING = ValueType("the name of an encoding", _STRING, _encoding)
PATH = ValueType("a path", _STRING, _path)
FLAG = ValueType("true or false", {"type": "boolean"}, _flag)
TEXTS = _list_of(TEXT, "a list of text")
HOSTS = _list_of(TEXT, "a list of hosts", 0)
SECONDS = ValueType("seconds", {"type": "number", "exclusiveMinimum": 0}, _seconds)
RATE = ValueType(
    "requests a second",
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": r"^[0-9]{1,6}(\.[0-9]{1,6})?(/s)?$"},
        ]
    },
    _rate,
)
DURATION = ValueType(
    "a time, such as 15m",
    {"type": "string", "pattern": r"^\s*0*[1-9][0-9]{0,5}\s*[smhd]\s*$"},
    _duration,
)
CLOCK = ValueType(
    "a time of day",
    {"type": "string", "pattern": r"^\s*([01]?[0-9]|2[0-3]):[0-5][0-9]\s*$"},
    _clock,
)
LIMIT = ValueType(
    "a number of pets, or a share such as 10%",
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^\s*([0-9]{1,12}|[0-9]{1,12}(\.[0-9]{1,6})?\s*%)\s*$"},
        ]
    },
    _limit,
)
IDS = _list_of(
    ValueType("id", {"type": "integer", "minimum": MIN_ID, "maximum": MAX_ID}, _pet_id),
    "a list of pets' ids",
)
LISTEN = ValueType("HOST:PORT", {"type": "string", "pattern": r"^[^\s/]+:[0-9]{1,5}$"}, _listen)
SECRET = ValueType("${NAME}", {"type": "string", "pattern": f"^{VARIABLE}$"}, _text, "whole")
SECRETS = _list_of(SECRET, "a list of ${NAME}", 1)
DATABASE = ValueType("an SQLAlchemy URL", _STRING, _database, "part")


# Cron: check the five fields of a schedule, and convert them for systemd.


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
        raise MisfitError(words, '"0 2 * * *"')
    fields = value.split()
    if len(fields) != 5:
        raise MisfitError(f"{words}; it has {_count(len(fields))}", f'"{_suggest_schedule(value)}"')
    for number, part in enumerate(fields):
        _check(number, part)
    if next(_next_times(fields), None) is None:
        raise MisfitError(
            "a schedule that can occur; this date never occurs",
            advice="The month does not have that day.",
        )
    return " ".join(fields)


def _count(number: int) -> str:
    return "1 field" if number == 1 else f"{number} fields"


def _suggest_schedule(value: str) -> str:
    """Return the schedule that an invalid value may mean."""
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
    """Raise MisfitError if the field is invalid, or if some versions of cron do not support it
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
        raise MisfitError(
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


CRON = ValueType(
    "a cron expression with five fields",
    {"type": "string", "pattern": r"^\s*([0-9A-Za-z*,/-]+\s+){4}[0-9A-Za-z*,/-]+\s*$"},
    _schedule,
)


# Tables with free keys, or with keys from other modules: `[service]`, `[columns]` and `[auth]`.


@dataclass(frozen=True, slots=True)
class Entry:
    """The type of the entries in a table with free keys, or with keys from other modules."""

    words: str
    """A description for users."""
    schema: Mapping[str, Any] = field(repr=False)
    """The JSON Schema of the whole table."""
    keys: Collection[str]
    """The allowed keys; empty if any key is allowed."""
    read: Callable[[str, Any], Any] = field(repr=False)
    """Takes key and value, and returns the value or raises MisfitError."""


def _column(header: str, value: object) -> str:
    if not header.strip():
        raise MisfitError("the column of a header that is not empty")
    column = column_named(value) if isinstance(value, str) else None
    if column is None:
        near = find_nearest(str(value), MAPPED)
        raise MisfitError(f"one of the columns {', '.join(MAPPED)}", f'"{near}"' if near else "")
    return column


def _auth(_: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MisfitError("text", is_hidden=True)
    if urlsplit(value).password:
        raise MisfitError(
            "an address without a password",
            advice="Remove user and password from it.",
            is_hidden=True,
        )
    return value


def _service(key: str, value: object) -> object:
    try:
        profile_from(STANDARD.name, {key: value})
    except SettingsError as error:
        options = get_args(_HINTS[key]) if get_origin(_HINTS[key]) is Literal else ()
        near = find_nearest(str(value), [str(option) for option in options])
        must = error.message.partition("and must be ")[2]
        raise MisfitError(must, f'"{near}"' if near else "") from None
    return value


_HINTS = {name: hint for name, hint in get_type_hints(ServiceProfile).items() if name != "name"}


def _service_schema(hint: Any) -> Mapping[str, Any]:
    if get_origin(hint) is tuple:
        return {"type": "array", "items": {"type": "string"}}
    if hint == int | None:
        return {"type": "integer", "minimum": 0}
    if get_args(hint):
        return {"enum": list(get_args(hint))}
    if hint is int:
        return {"type": "integer", "minimum": 1}
    return {"type": {bool: "boolean", str: "string"}[hint]}


COLUMN = Entry("a table", {"additionalProperties": {"type": "string", "minLength": 1}}, (), _column)
AUTH = Entry(
    "a table",
    {
        "properties": {name: {"type": "string", "minLength": 1} for name in _AUTH},
        "additionalProperties": False,
    },
    _AUTH,
    _auth,
)
SERVICE = Entry(
    "a table",
    {
        "properties": {name: _service_schema(hint) for name, hint in _HINTS.items()},
        "additionalProperties": False,
    },
    tuple(_HINTS),
    _service,
)


# The configuration as values: checked, with absolute paths and resolved secrets.


Event = Literal["failure", "violation", "recovery", "waiting", "digest"]
EVENTS: tuple[Event, ...] = ("failure", "violation", "recovery", "waiting", "digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One `[jobs.NAME]`. Exactly one of `sheet`, `folder` and `query` is given."""

    name: str
    line: int = 1
    """The line of the job's header in the file."""
    mode: Mode
    enabled: bool = True
    sheet: Path | None = None
    tab: str | None = None
    encoding: str | None = None
    folder: Path | None = None
    """A folder whose `files` are sheets; each is reconciled by itself."""
    files: str = "*"
    """A pattern for file names."""
    query: str = ""
    """An SQL query to `database`."""
    database: Secret | None = None
    """An SQLAlchemy URL."""
    url: str = ""
    profile: str = "standard"
    service: Mapping[str, Any] = field(default_factory=dict)
    auth: Mapping[str, str] = field(default_factory=dict)
    allow_http: tuple[str, ...] = ()
    timeout: float = 30.0
    """Seconds to wait for a response."""
    token: Secret | None = None
    api_key: Secret | None = None
    client_id: str = ""
    client_secret: Secret | None = None
    statuses: tuple[str, ...] = ()
    """The statuses of the job's scope; () for all."""
    tags: tuple[str, ...] = ()
    """The tags of the job's scope; () for all."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns of petsync, each by its header in the sheet."""
    delete_missing: bool = False
    match_on: tuple[Column, ...] = ()
    on_conflict: Literal["ask", "store", "sheet"] = "ask"
    strict: bool = False
    guard: Guard = field(default_factory=Guard)
    concurrency: int = 16
    rate: float | None = None
    """The maximum number of requests per second."""
    verify: bool = True
    max_failures: int | None = None
    schedule: str = ""
    """A cron expression with five fields, "" if there is no schedule."""

    @property
    def merging(self) -> MergeOptions:
        """The options for the comparison of sheet and store."""
        return MergeOptions(
            delete_missing=self.delete_missing,
            match_on=self.match_on,
            on_conflict=self.on_conflict,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """`[notify]`: which notices are sent, and where."""

    urls: tuple[Secret, ...] = ()
    """Apprise URLs."""
    on: tuple[Event, ...] = EVENTS
    digest: time = time(7, 0)
    """The local time of day from which the digest is sent."""
    remind: float = 86_400.0
    """Seconds after which a notice about a continuing problem is repeated."""
    templates: Mapping[Event, tuple[str, str]] = field(default_factory=dict)
    """Title and body by event, for `string.Template`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """`[report]`: the folder of the reports, and how many are kept."""

    folder: Path
    keep: int | None = 90
    """How many reports of each job are kept; None for all."""
    is_private: bool = False
    """True if the folder is the default one, in the state folder; then only the owner can read its
    files.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """`[log]`: the format, level and destination of the log."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] | None = None
    """The configured level, None if there is none; see `least`."""
    file: Path | None = None
    """The log file, None for standard error."""

    @property
    def least(self) -> str:
        """The lowest level that is logged.

        The default for text on standard error is "warning": its readers see the results of rounds
        anyway.
        """
        is_for_people = self.format == "text" and self.file is None
        return self.level or ("warning" if is_for_people else "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """`[metrics]`: the file and the address for metrics."""

    textfile: Path | None = None
    """The file for Prometheus' node_exporter."""
    listen: str = ""
    """The address, such as `127.0.0.1:9464`, at which `petsync reconcile --every` serves
    metrics.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A whole petsync.toml; all paths are absolute."""

    path: Path
    state: Path
    jobs: tuple[Job, ...] = ()
    notify: Notify = field(default_factory=Notify)
    report: Reports
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    tracing: bool = False
    secrets: tuple[Secret, ...] = ()
    """All values that must never be shown anywhere."""
    in_addresses: Mapping[str, str] = field(
        default_factory=lambda: HiddenEnvironment({}), repr=False
    )
    """The values of variables in services' URLs, by `${NAME}`."""


class JobSchedule(NamedTuple):
    """When a job runs: `schedule` is "" if it has none."""

    name: str
    schedule: str
    enabled: bool


class Timetable(NamedTuple):
    """When the jobs of a petsync.toml run."""

    path: Path
    jobs: tuple[JobSchedule, ...]


# Option and Table: the definition of an option and of a table of petsync.toml.


TableName = Literal[
    "", "jobs", "guard", "notify", "templates", "report", "log", "metrics", "tracing"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of one table.

    `kind` is None if the option is a table with free entries (`entry`).
    """

    table: TableName
    name: str
    meaning: str
    kind: ValueType | None = None
    entry: Entry | None = None
    default: str = ""
    """The default as TOML, or a phrase if the default is not a value."""
    example: str = ""
    """An example of a value, as TOML."""
    is_required: bool = False
    also: tuple[str, ...] = ()
    """Wrong names that users may try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of petsync.toml."""

    name: TableName
    header: str
    """The header in TOML."""
    meaning: str
    within: TableName = ""
    """The name of the enclosing table, "" for the top level."""
    names: ValueType | None = None
    """The type of the tables' names, if there can be several such tables with names."""


# The options of a job, and of its guard.


_SCOPE = "The scope of the job in the store: pets with one of these"

JOB: tuple[Option, ...] = (
    Option(
        table="jobs",
        name="mode",
        kind=choice(*MODES),
        meaning="Which side leads. `push`: the sheet. `pull`: the store; nothing is sent to it. "
        "`two-way`: both are merged. `check`: nothing is changed, differences are reported.",
        is_required=True,
        example='"two-way"',
        also=("direction", "type"),
    ),
    Option(
        table="jobs",
        name="sheet",
        kind=PATH,
        meaning="The spreadsheet: .xlsx, .xlsm, .csv, .tsv or .txt. A job has exactly one of "
        "`sheet`, `folder`, `query` and `query_file`.",
        example='"catalogue.xlsx"',
        also=("file", "path", "workbook", "source", "spreadsheet", "csv", "excel"),
    ),
    Option(
        table="jobs",
        name="tab",
        kind=TEXT,
        meaning="The worksheet to read; only with `sheet` or `folder`.",
        default="that of the last round or of the export, else the first",
        example='"Pets"',
        also=("worksheet", "sheet_name"),
    ),
    Option(
        table="jobs",
        name="encoding",
        kind=ENCODING,
        meaning="The encoding of CSV files without a byte order mark; only with `sheet` or "
        "`folder`.",
        default="utf-8",
        example='"cp1252"',
        also=("charset", "codepage"),
    ),
    Option(
        table="jobs",
        name="folder",
        kind=PATH,
        meaning="A folder. Each sheet in it is reconciled by itself.",
        example='"inbox"',
        also=("dir", "directory"),
    ),
    Option(
        table="jobs",
        name="files",
        kind=TEXT,
        meaning="The pattern that a file name in the folder must match.",
        default='"*"',
        example='"*.csv"',
        also=("pattern", "glob"),
    ),
    Option(
        table="jobs",
        name="query",
        kind=TEXT,
        meaning="An SQL query to the `database`; its rows are the sheet. Only in push and check.",
        example='"SELECT id, name, status FROM pets"',
        also=("sql", "select"),
    ),
    Option(
        table="jobs",
        name="query_file",
        kind=PATH,
        meaning="A file with an SQL query.",
        example='"pets.sql"',
        also=("sql_file",),
    ),
    Option(
        table="jobs",
        name="database",
        kind=DATABASE,
        meaning="The SQLAlchemy URL of the database. Take a password in it from the environment.",
        example='"${CATALOGUE_DB}"',
        also=("db", "dsn", "connection"),
    ),
    Option(
        table="jobs",
        name="enabled",
        kind=FLAG,
        meaning="Whether the job runs when `--job` does not name it.",
        default="true",
        example="false",
        also=("active", "disabled"),
    ),
    Option(
        table="jobs",
        name="token",
        kind=SECRET,
        meaning="An access token.",
        default="`PETSYNC_TOKEN`",
        example='"${SHOP_TOKEN}"',
        also=("access_token", "bearer"),
    ),
    Option(
        table="jobs",
        name="api_key",
        kind=SECRET,
        meaning="An API key.",
        default="`PETSYNC_API_KEY`",
        example='"${SHOP_API_KEY}"',
        also=("apikey", "key"),
    ),
    Option(
        table="jobs",
        name="client_id",
        kind=TEXT,
        meaning="The client id with which this job signs in; needs `client_secret`.",
        default="`PETSYNC_CLIENT_ID`",
        example='"nightly"',
    ),
    Option(
        table="jobs",
        name="client_secret",
        kind=SECRET,
        meaning="The secret of `client_id`.",
        default="`PETSYNC_CLIENT_SECRET`",
        example='"${SHOP_CLIENT_SECRET}"',
        also=("secret", "password"),
    ),
    Option(
        table="jobs",
        name="statuses",
        kind=TEXTS,
        meaning=f"{_SCOPE} statuses.",
        default="all",
        example='["available", "pending"]',
        also=("status", "scope"),
    ),
    Option(
        table="jobs",
        name="tags",
        kind=TEXTS,
        meaning=f"{_SCOPE} tags.",
        default="all",
        example='["shop"]',
        also=("tag",),
    ),
    Option(
        table="jobs",
        name="delete_missing",
        kind=FLAG,
        meaning="Whether to delete what is missing on the other side: in the store (push, two-way) "
        "and in the sheet (pull, two-way).",
        default="false",
        example="true",
        also=("delete", "deletes", "prune"),
    ),
    Option(
        table="jobs",
        name="match_on",
        kind=choices(tuple(column for column in COLUMNS if column != "id"), least=1),
        meaning="The columns by which to find the pet of a row without an id.",
        default="none",
        example='["name"]',
        also=("match", "match_by"),
    ),
    Option(
        table="jobs",
        name="on_conflict",
        kind=choice("ask", "store", "sheet"),
        meaning="Which value to use for a field that both sides changed; only in two-way. `ask`: "
        "keep both until a person decides. `store`, `sheet`: the value of that side.",
        default='"ask"',
        example='"store"',
        also=("conflict", "conflicts", "winner"),
    ),
    Option(
        table="jobs",
        name="strict",
        kind=FLAG,
        meaning="Whether an error in the sheet stops the job; if not, only its row is left out.",
        default="false",
        example="true",
    ),
    Option(
        table="jobs",
        name="concurrency",
        kind=whole_number(1, 128),
        meaning="The maximum number of changes at the same time.",
        default="16",
        example="4",
        also=("threads", "workers", "parallel"),
    ),
    Option(
        table="jobs",
        name="rate",
        kind=RATE,
        meaning="The maximum number of requests per second.",
        default="no limit",
        example='"20/s"',
        also=("rate_limit", "max_rate"),
    ),
    Option(
        table="jobs",
        name="verify",
        kind=FLAG,
        meaning="Whether to read each changed pet again and compare.",
        default="true",
        example="false",
    ),
    Option(
        table="jobs",
        name="max_failures",
        kind=whole_number(0),
        meaning="Stop the round after more failed changes than this; the next round does the rest.",
        default="no limit",
        example="20",
    ),
    Option(
        table="jobs",
        name="schedule",
        kind=CRON,
        meaning="When the job is due: a cron expression with five fields, in local time. "
        "`--every`, "
        "`petsync config schedule` and the history use it.",
        default="none",
        example='"0 2 * * *"',
        also=("cron", "every", "interval", "when", "at"),
    ),
)
"""The options that only a job has. A job also has the options of INHERITED."""

GUARD: tuple[Option, ...] = (
    Option(
        table="guard",
        name="max_delete",
        kind=LIMIT,
        meaning="The maximum number of deletions.",
        default='"10%"',
        example="25",
        also=("max_deletes", "delete"),
    ),
    Option(
        table="guard",
        name="max_update",
        kind=LIMIT,
        meaning="The maximum number of changed pets.",
        default='"30%"',
        example='"50%"',
        also=("max_updates", "update", "max_change"),
    ),
    Option(
        table="guard",
        name="max_add",
        kind=LIMIT,
        meaning="The maximum number of new pets.",
        default="50%, at least 100; no limit in an empty store or sheet",
        example="500",
        also=("max_adds", "add"),
    ),
    Option(
        table="guard",
        name="allow_empty",
        kind=FLAG,
        meaning="Whether to accept an empty sheet, or a plan that deletes everything.",
        default="false",
        example="true",
    ),
    Option(
        table="guard",
        name="sentinels",
        kind=IDS,
        meaning="Pets that must exist and must not change; otherwise the round does nothing.",
        default="none",
        example="[1001]",
        also=("sentinel",),
    ),
)


# The options at the top of petsync.toml, and those that concern all jobs together.


TOP: tuple[Option, ...] = (
    Option(
        table="",
        name="url",
        kind=URL,
        meaning="The service's address.",
        example='"https://shop.example/v2"',
        also=("address", "service_url", "server", "host", "endpoint", "base_url"),
    ),
    Option(
        table="",
        name="profile",
        kind=choice("standard", "live"),
        meaning="How the service behaves (profiles.md).",
        default='"standard"',
        example='"live"',
    ),
    Option(
        table="",
        name="state",
        kind=PATH,
        meaning="The state folder: the journal, and in `reconcile/` the values both sides last "
        "agreed on, the history and the waiting plans.",
        default='".petsync"',
        example='"/var/lib/petsync"',
        also=("state_dir", "state_folder"),
    ),
    Option(
        table="",
        name="allow_http",
        kind=HOSTS,
        meaning="Hosts that may receive a token over plain http.",
        default="[]",
        example='["shop.internal"]',
    ),
    Option(
        table="",
        name="timeout",
        kind=SECONDS,
        meaning="How many seconds to wait for an answer.",
        default="30.0",
        example="60",
    ),
    Option(
        table="",
        name="service",
        entry=SERVICE,
        meaning="Fields of the profile with values of your own (profiles.md).",
        example='{ statuses = ["available", "pending", "sold", "adopted"] }',
    ),
    Option(
        table="",
        name="columns",
        entry=COLUMN,
        meaning="The column that each of your own headers stands for.",
        example='{ Tiername = "name" }',
        also=("mapping", "headers"),
    ),
    Option(
        table="",
        name="auth",
        entry=AUTH,
        meaning="Where to sign in, if the service does not publish it (sign-in.md).",
        example='{ token_url = "https://login.example/token" }',
    ),
)

REST: tuple[Option, ...] = (
    Option(
        table="notify",
        name="urls",
        kind=SECRETS,
        meaning="Where to send notices: apprise URLs (notifications.md). They contain secrets, so "
        "take them from variables.",
        default="none",
        example='["${PETSYNC_NOTIFY}"]',
        also=("url", "to", "targets", "apprise"),
    ),
    Option(
        table="notify",
        name="on",
        kind=choices(EVENTS),
        meaning="The events to send notices about.",
        default='["failure", "violation", "recovery", "waiting", "digest"]',
        example='["failure", "recovery", "waiting"]',
        also=("events", "when"),
    ),
    Option(
        table="notify",
        name="digest",
        kind=CLOCK,
        meaning="The time of day from which the daily digest is sent.",
        default='"07:00"',
        example='"06:30"',
    ),
    Option(
        table="notify",
        name="remind",
        kind=DURATION,
        meaning="The time after which to repeat a notice about a problem that continues.",
        default='"24h"',
        example='"12h"',
        also=("repeat", "reminder"),
    ),
    Option(
        table="templates",
        name="title",
        kind=PLAIN,
        meaning="The title. It may contain placeholders such as `$job` and `$status` "
        "(notifications.md).",
        default="petsync's own",
        example='"petsync: $job $status"',
        also=("subject",),
    ),
    Option(
        table="templates",
        name="body",
        kind=PLAIN,
        meaning="The text. It may contain the same placeholders.",
        default="petsync's own",
        example='"$problem"',
        also=("text", "message"),
    ),
    Option(
        table="report",
        name="folder",
        kind=PATH,
        meaning="The folder for the reports, as HTML and JSON.",
        default="`reconcile/reports` in the state folder",
        example='"reports"',
        also=("path", "dir", "directory"),
    ),
    Option(
        table="report",
        name="keep",
        kind=whole_number(0),
        meaning="How many reports of each job to keep; 0 for all.",
        default="90",
        example="30",
    ),
    Option(
        table="log",
        name="format",
        kind=choice("text", "json"),
        meaning="Text lines or JSON lines.",
        default='"text"',
        example='"json"',
    ),
    Option(
        table="log",
        name="level",
        kind=choice("debug", "info", "warning", "error"),
        meaning='The lowest level that is logged: by default `"warning"` for text on standard '
        'error without `-v` and `--every`, otherwise `"info"`.',
        default='"info" or "warning"',
        example='"warning"',
    ),
    Option(
        table="log",
        name="file",
        kind=PATH,
        meaning="The log file; without it, standard error.",
        default="none",
        example='"petsync.log"',
        also=("path", "filename"),
    ),
    Option(
        table="metrics",
        name="textfile",
        kind=PATH,
        meaning="The file for node_exporter's textfile collector; its name ends in .prom.",
        default="none",
        example='"petsync.prom"',
        also=("file", "path"),
    ),
    Option(
        table="metrics",
        name="listen",
        kind=LISTEN,
        meaning="The address at which `petsync reconcile --every` serves metrics.",
        default="nowhere",
        example='"127.0.0.1:9464"',
        also=("port", "address", "bind"),
    ),
    Option(
        table="metrics",
        name="public",
        kind=FLAG,
        meaning="Whether `listen` may be an address that other machines can reach. Anybody who "
        "reaches it can read the metrics.",
        default="false",
        example="true",
    ),
    Option(
        table="tracing",
        name="enabled",
        kind=FLAG,
        meaning="Whether to send spans.",
        default="false",
        example="true",
        also=("enable", "on"),
    ),
)


# Every option of petsync.toml, once, with its check and its documentation.
#
# The checks, the JSON Schema, the tables of docs/config.md and the example that `petsync init`
# writes are all made from this table.


TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="",
            header="",
            meaning="Every command reads these options. They are also the defaults of each job.",
        ),
        Table(
            name="jobs",
            header="jobs.NAME",
            meaning="A job: one source of rows, and how to keep it in agreement with the store.",
            names=JOB_NAME,
        ),
        Table(
            name="guard",
            header="jobs.NAME.guard",
            meaning="The limits of one round, on each side. A plan that exceeds a limit waits for "
            "a "
            "person.",
            within="jobs",
        ),
        Table(name="notify", header="notify", meaning="Who is notified, and of what."),
        Table(
            name="templates",
            header="notify.templates.EVENT",
            meaning="Your own text for a notice.",
            within="notify",
            names=choice(*EVENTS),
        ),
        Table(name="report", header="report", meaning="The report of each round."),
        Table(name="log", header="log", meaning="The log."),
        Table(name="metrics", header="metrics", meaning="Metrics for Prometheus."),
        Table(
            name="tracing",
            header="tracing",
            meaning="OpenTelemetry spans, configured by the standard `OTEL_*` variables.",
        ),
    )
}

INHERITED: Mapping[str, str] = {
    "url": "the top's",
    "profile": "the top's",
    "allow_http": "the top's",
    "timeout": "the top's",
    "service": "added to the top-level ones",
    "columns": "added to the top-level ones",
    "auth": "the top's",
}
"""Top-level options that a job may override, with the text for the job's default."""

_OWN = tuple(
    replace(option, table="jobs", default=INHERITED[option.name])
    for option in TOP
    if option.name in INHERITED
)

OPTIONS: tuple[Option, ...] = (*TOP, *JOB, *_OWN, *GUARD, *REST)


def options_of(table: str) -> dict[str, Option]:
    """Return the options of a table by name."""
    return {option.name: option for option in OPTIONS if option.table == table}
