"""Kinds: what the value of an option may be, how it is read, and its JSON Schema."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import Any

from petsync.diff.guard import Limit
from petsync.errors import SettingsError
from petsync.model import MAX_ID, MIN_ID
from petsync.settings import checked_encoding, nearest

__all__ = ["VARIABLE", "Kind", "MisfitError", "choice", "choices", "whole"]

VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"
"""How a value of the environment is written, as a regular expression."""


class MisfitError(ValueError):
    """A value that cannot be: what it `must` be, and what to write `instead`, as in TOML.

    `advice` is a whole sentence, where what to write instead is not known; `part` is the item of
    a list that is wrong, None where it is all of it. `is_hidden`: it may be a secret.
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
class Kind:
    """A kind of values: `words` for people, `schema` for editors, and `read`, which gives the value
    that a Configuration holds or raises MisfitError.

    `hides` says what must not stand in the file, nor in a message: the "whole" value, a "part" of
    it, or a password in an "address" that is no secret otherwise. `is_filled`: whether `${NAME}`
    in it is replaced.
    """

    words: str
    schema: Mapping[str, Any] = field(repr=False)
    read: Callable[[Any], Any] = field(repr=False)
    hides: str = ""
    is_filled: bool = True

    @property
    def is_masked(self) -> bool:
        """Whether the value is a Secret."""
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
    """An address of which it is clear where its password ends: SQLAlchemy ends it at the first @,
    and would take and show the rest of it for the host.
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
            "a path, and no tab or line break is in one",
            advice="A \\ begins such a mark in double quotes: write the path in single quotes.",
        )
    return Path(text)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    meant = {"yes": "true", "on": "true", "true": "true", "1": "true"}
    unmeant = {"no": "false", "off": "false", "false": "false", "0": "false"}
    raise MisfitError("true or false", {**meant, **unmeant}.get(str(value).casefold(), ""))


def whole(least: int, most: int | None = None) -> Kind:
    """Whole numbers from `least` to `most`."""
    words = f"a whole number from {least}" + (f" to {most}" if most is not None else "")

    def read(value: object) -> int:
        if type(value) is int and least <= value and (most is None or value <= most):
            return value
        raise MisfitError(words, _number_meant(value, least, most))

    limits = {"minimum": least} | ({"maximum": most} if most is not None else {})
    return Kind(words, {"type": "integer", **limits}, read)


def _number_meant(value: object, least: int, most: int | None) -> str:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII):
        value = int(value)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    return str(int(max(least, value if most is None else min(most, value))))


def choice(*values: str) -> Kind:
    """One of these words."""
    *most, last = (f'"{value}"' for value in values)
    words = f"{', '.join(most)} or {last}"

    def read(value: object) -> str:
        if value in values and isinstance(value, str):
            return value
        near = nearest(str(value), values)
        raise MisfitError(words, _quoted(near), advice="" if near else "Choose one of these.")

    return Kind(words, {"enum": list(values)}, read)


def choices(values: tuple[str, ...], *, least: int = 0) -> Kind:
    """A list of these words, each once."""
    of = choice(*values)
    return _listed(of, f"a list of {', '.join(values)}", least)


def _listed(of: Kind, words: str, least: int = 1) -> Kind:
    """A list of values of a kind, each once."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise MisfitError(words, f"[{value}]" if _is_number(value) else "")
        if len(value) < least:
            raise MisfitError(f"{words}, and not empty", advice="Leave the line out for all.")
        read = tuple(_item(of, number, item) for number, item in enumerate(value))
        for number, item in enumerate(read):
            if item in read[:number]:
                raise MisfitError("there once", advice="Take the second one out.", part=number)
        return read

    schema = {"type": "array", "items": dict(of.schema), "uniqueItems": True}
    return Kind(words, schema | ({"minItems": least} if least else {}), read, of.hides)


def _item(of: Kind, number: int, item: object) -> Any:
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


_BARE_ADDRESS = "Take user and password out of the address; say token, or set PETSYNC_TOKEN."
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
        "letters, digits, - and _, at most 64, as files are named after it",
        advice=f"Write [jobs.{near}].",
    )


def _quoted(text: str) -> str:
    return f'"{text}"' if text else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_STRING = {"type": "string", "minLength": 1}

TEXT = Kind("text", _STRING, _text)
PLAIN = Kind("text", _STRING, _text, is_filled=False)
JOB_NAME = Kind("a name", {"pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$"}, _job_name)
URL = Kind("an address", _STRING, _url, "address")
ENCODING = Kind("the name of an encoding", _STRING, _encoding)
PATH = Kind("a path", _STRING, _path)
FLAG = Kind("true or false", {"type": "boolean"}, _flag)
TEXTS = _listed(TEXT, "a list of text")
HOSTS = _listed(TEXT, "a list of hosts", 0)
SECONDS = Kind("seconds", {"type": "number", "exclusiveMinimum": 0}, _seconds)
RATE = Kind(
    "requests a second",
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": r"^[0-9]{1,6}(\.[0-9]{1,6})?(/s)?$"},
        ]
    },
    _rate,
)
DURATION = Kind(
    "a time, such as 15m",
    {"type": "string", "pattern": r"^\s*0*[1-9][0-9]{0,5}\s*[smhd]\s*$"},
    _duration,
)
CLOCK = Kind(
    "a time of day",
    {"type": "string", "pattern": r"^\s*([01]?[0-9]|2[0-3]):[0-5][0-9]\s*$"},
    _clock,
)
LIMIT = Kind(
    "a number of pets, or a share such as 10%",
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^\s*([0-9]{1,12}|[0-9]{1,12}(\.[0-9]{1,6})?\s*%)\s*$"},
        ]
    },
    _limit,
)
IDS = _listed(
    Kind("id", {"type": "integer", "minimum": MIN_ID, "maximum": MAX_ID}, _pet_id),
    "a list of pets' ids",
)
LISTEN = Kind("HOST:PORT", {"type": "string", "pattern": r"^[^\s/]+:[0-9]{1,5}$"}, _listen)
SECRET = Kind("${NAME}", {"type": "string", "pattern": f"^{VARIABLE}$"}, _text, "whole")
SECRETS = _listed(SECRET, "a list of ${NAME}", 1)
DATABASE = Kind("an SQLAlchemy address", _STRING, _database, "part")
