"""The types of the options' values.

pydantic checks a value. A `Kind`, the metadata of its annotation, fills in variables, hides
secrets, and says what to write instead of an invalid value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic_core import CoreSchema, core_schema

from petsync._files import is_address
from petsync.errors import SettingsError
from petsync.models import MAX_ID, MIN_ID
from petsync.plan.guard import Limit
from petsync.settings import (
    MAPPED,
    Secret,
    checked_address,
    checked_encoding,
    column_named,
    find_nearest,
)

__all__ = [
    "FLAG",
    "VARIABLE",
    "AuthText",
    "BadValueError",
    "Clock",
    "ColumnName",
    "Database",
    "Duration",
    "Encoding",
    "FilePath",
    "Flag",
    "Header",
    "Hosts",
    "JobName",
    "Kind",
    "ListKind",
    "Listen",
    "Maximum",
    "Number",
    "PetIds",
    "Plain",
    "Plains",
    "Rate",
    "Seconds",
    "SecretText",
    "Secrets",
    "SheetPath",
    "Text",
    "Texts",
    "Url",
    "choice",
    "custom",
    "format_value",
    "whole_number",
]


VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"
"""The pattern of a variable in a value, as a regular expression."""
_LONGEST = 60


class BadValueError(ValueError):
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


def _nothing(_: object) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """A type of option values, as metadata of an annotation."""

    words: str
    """A description for users."""
    core: CoreSchema | None = field(default=None, repr=False)
    """What pydantic checks; None for the annotated type."""
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    """The JSON Schema, for editors; None for pydantic's."""
    must: str = ""
    """What a value must be, if not `words`."""
    instead: Callable[[Any], str] = _nothing
    """Returns what to write instead of an invalid value, as TOML; "" if that is not known."""
    advice: str = ""
    """A sentence to show if there is nothing to write instead."""
    hides: Literal["", "whole", "part", "address"] = ""
    """What is secret, and so must not be in the file or a message: the whole value, a part of it,
    or a password in a URL.
    """
    is_filled: bool = True
    """True if `${NAME}` in the value is replaced."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        inner = handler(source) if self.core is None else self.core
        return core_schema.with_info_wrap_validator_function(self._read, inner)

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        made = handler(core) if self.schema is None else dict(self.schema)
        takes_text = "enum" in made or "anyOf" in made or "pattern" in made
        if self.hides == "whole" or not self.is_filled or not takes_text:
            return made
        return {"anyOf": [made, {"type": "string", "pattern": VARIABLE}]}

    def _read(
        self,
        value: Any,
        check: core_schema.ValidatorFunctionWrapHandler,
        info: core_schema.ValidationInfo[Any],
    ) -> Any:
        """Return the value of the configuration. Raises a ValueError for an invalid value.

        A value that does not come from a file or a variable is returned unchanged.
        """
        if info.context is None:
            return value
        given = info.context.fill(value, self)
        return info.context.keep(self._check(given, check), self)

    def _check(self, value: Any, check: core_schema.ValidatorFunctionWrapHandler) -> Any:
        try:
            return check(value)
        except ValidationError as error:
            (wrong, *_) = error.errors(include_url=False, include_input=False)
            cause = wrong.get("ctx", {}).get("error")
            if cause is not None or (wrong["loc"] and self.core is None):
                raise
            must = self.must or self.words
            raise BadValueError(must, self.instead(value), advice=self.advice) from None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListKind(Kind):
    """A type of lists of values without duplicates."""

    least: int = 1
    is_filled: bool = False

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        least = {"minItems": self.least} if self.least else {}
        return {**handler(core), "uniqueItems": True, **least}

    def _check(self, value: Any, check: core_schema.ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, str):
            # A value with a variable is shown as written.
            raise BadValueError(self.words, f"[{format_value(value)}]", is_hidden=True)
        if not isinstance(value, list):
            raise BadValueError(self.words, f"[{value}]" if _is_number(value) else "")
        if len(value) < self.least:
            advice = "Write a value, or remove the line to use the default."
            raise BadValueError(f"{self.words}, and not empty", advice=advice)
        read = check(value)
        seen = set()
        for number, item in enumerate(read):
            if item in seen:
                raise BadValueError("there only once", advice="Remove the second one.", part=number)
            seen.add(item)
        return read


def custom(words: str, read: Callable[[Any], Any], schema: Mapping[str, Any], **more: Any) -> Kind:
    """Return a type whose values are read by a function, which may raise BadValueError."""
    return Kind(
        words=words, core=core_schema.no_info_plain_validator_function(read), schema=schema, **more
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadValueError("text", f'"{value}"' if _is_number(value) else "")
    if not value.strip():
        raise BadValueError("text that is not empty", advice="Write a value, or remove the line.")
    return value


def _database(value: object) -> str:
    """Return a database URL in which the end of the password is unambiguous.

    SQLAlchemy ends the password at the first @, and would treat the text after it as the host, and
    show it.
    """
    text = _text(value)
    behind = re.match(r"[^:/]*://[^:/@]*(?::[^@]*)?@([^?]*)", text)
    if behind is not None and "@" in behind[1]:
        raise BadValueError(
            "an address with one @, in front of the host",
            advice="Write an @ in the password as %40, in the variable that contains it.",
        )
    return text


def _encoding(value: object) -> str:
    try:
        return checked_encoding(_text(value))
    except SettingsError as error:
        raise BadValueError("the name of an encoding", advice=error.cure) from None


def _path(value: object) -> Path:
    text = _text(value)
    if "\n" in text or "\r" in text or "\t" in text:
        raise BadValueError(
            "a path without tabs and line breaks",
            advice="A \\ begins a special character in double quotes: write the path in single "
            "quotes.",
        )
    if is_address(text):
        raise BadValueError(
            "a path on this machine", advice="Only a sheet may have an address.", is_hidden=True
        )
    return Path(text)


def _sheet_path(value: object) -> Path | str:
    """Return the path of a sheet, or its address as str."""
    if not is_address(value):
        return _path(value)
    try:
        return checked_address(value)
    except SettingsError as error:
        raise BadValueError(
            "an address without user, password and query", advice=error.cure, is_hidden=True
        ) from None


def _number_meant(value: object, *, least: int, most: int | None) -> str:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII):
        value = int(value)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    return str(int(max(least, value if most is None else min(most, value))))


def _rate(value: object) -> float:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(?:/s)?", str(value), re.ASCII)
    if match is None or not float(match[1]) or isinstance(value, bool):
        raise BadValueError("a number of requests per second, more than 0", '"20/s"')
    return float(match[1])


def _duration(text: str) -> float:
    return float(int(text.strip()[:-1]) * _UNITS[text.strip()[-1]])


def _duration_meant(value: object) -> str:
    digits = re.match(r"\s*(\d{1,6})", str(value), re.ASCII)
    letter = re.search(r"[smhd]", str(value).casefold())
    return f'"{digits[1]}{letter[0] if letter else "h"}"' if digits else '"24h"'


def _clock(value: object) -> time:
    if isinstance(value, time):
        return value.replace(second=0, microsecond=0)
    match = re.fullmatch(r"\s*([01]?\d|2[0-3]):([0-5]\d)\s*", str(value), re.ASCII)
    if match is None:
        hour = re.match(r"\s*([01]?\d|2[0-3])(?!\d)", str(value), re.ASCII)
        raise BadValueError(
            "a time of day from 00:00 to 23:59", f'"{int(hour[1] if hour else 7):02}:00"'
        )
    return time(int(match[1]), int(match[2]))


def _limit(value: object) -> Limit:
    if isinstance(value, float) and 0 < value < 1:
        raise BadValueError('a number of pets, or a share such as "10%"', f'"{value * 100:g}%"')
    try:
        return Limit.parse(str(value), "")
    except SettingsError:
        digits = re.match(r"\s*(\d+)", str(value))
        meant = f'"{min(100, int(digits[1]))}%"' if digits else ""
        raise BadValueError('a number of pets, or a share up to "100%"', meant) from None


def _listen(value: object) -> str:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})", str(value), re.ASCII)
    if match is None or not 0 < int(match[2]) < 65_536:
        raise BadValueError('HOST:PORT, such as "127.0.0.1:9464"', '"127.0.0.1:9464"')
    return str(value)


def _url(value: object) -> str:
    from petsync.client.origin import checked_base

    try:
        return checked_base(_text(value), with_secret=False)
    except SettingsError as error:
        if "password" in error.problem:
            raise BadValueError(
                "an address without user and password", advice=_BARE_ADDRESS
            ) from None
        raise BadValueError("the base URL of a service") from None


def _job_meant(value: object) -> str:
    near = re.sub(r"[^A-Za-z0-9._-]+", "-", str(value)).strip("-.")[:64] or "catalogue"
    return f"[jobs.{near}]"


_FLAGS = {
    **dict.fromkeys(("yes", "on", "true", "1"), "true"),
    **dict.fromkeys(("no", "off", "false", "0"), "false"),
}
_BARE_ADDRESS = "Remove the user and the password from the address; set token, or PETSYNC_TOKEN."
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def whole_number(least: int, most: int | None = None) -> Kind:
    """Return the type of integers from `least` to `most`."""
    return Kind(
        words=f"a whole number from {least}" + (f" to {most}" if most is not None else ""),
        core=core_schema.int_schema(strict=True, ge=least, le=most),
        instead=partial(_number_meant, least=least, most=most),
    )


def choice(*values: str) -> Kind:
    """Return the type of a value that is one of these words."""
    *most, last = (f'"{value}"' for value in values)
    return Kind(
        words=f"{', '.join(most)} or {last}",
        core=core_schema.literal_schema([*values]),
        instead=lambda value: _quote(find_nearest(str(value), values)),
        advice="Choose one of these.",
    )


def _secret(value: object) -> Secret:
    return Secret(_text(value).strip())


def _masked_database(value: object) -> Secret:
    return Secret(_database(value))


def _column(value: object) -> str:
    column = column_named(value) if isinstance(value, str) else None
    if column is None:
        near = find_nearest(str(value), MAPPED)
        raise BadValueError(f"one of the columns {', '.join(MAPPED)}", _quote(near))
    return column


def _header(value: str) -> str:
    if not value.strip():
        raise BadValueError("a header that is not empty")
    return value


def _auth(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadValueError("text", is_hidden=True)
    if urlsplit(value).password:
        raise BadValueError(
            "an address without a password",
            advice="Remove the user and the password from it.",
            is_hidden=True,
        )
    return value


def format_value(value: object) -> str:
    """Return the value as TOML, shortened if it is long, or a phrase such as "a table"."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool | str | int | list):
        try:
            text = json.dumps(value, ensure_ascii=False)
        except TypeError:
            text = "a list"
        except ValueError:
            # Python writes no number of thousands of digits.
            text = "a very long number"
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _quote(text: str) -> str:
    return f'"{text}"' if text else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_STRING = {"type": "string", "minLength": 1}

FLAG = Kind(
    words="true or false",
    core=core_schema.bool_schema(strict=True),
    instead=lambda value: _FLAGS.get(str(value).casefold(), ""),
)
_PET_ID = Kind(
    words="id",
    core=core_schema.int_schema(strict=True, ge=MIN_ID, le=MAX_ID),
    must="a pet's id, a whole number",
    instead=lambda value: str(value) if re.fullmatch(r"\d{1,18}", str(value), re.ASCII) else "",
)
_SECONDS = Kind(
    words="seconds",
    core=core_schema.float_schema(strict=True, gt=0, allow_inf_nan=False),
    must="a number of seconds above 0",
    instead=lambda _: "30",
)

Text = Annotated[str, custom("text", _text, _STRING)]
Plain = Annotated[str, custom("text", _text, _STRING, is_filled=False)]
Flag = Annotated[bool, FLAG]
Seconds = Annotated[float, _SECONDS]
Number = Annotated[
    float,
    Kind(
        words="a number",
        core=core_schema.float_schema(strict=True, allow_inf_nan=False),
        instead=lambda value: (
            str(value) if re.fullmatch(r"-?\d{1,15}(\.\d{1,9})?", str(value)) else ""
        ),
    ),
]
Url = Annotated[str, custom("an address", _url, _STRING, hides="address")]
AuthText = Annotated[str, custom("an address", _auth, _STRING)]
Encoding = Annotated[str, custom("the name of an encoding", _encoding, _STRING)]
FilePath = Annotated[Path, custom("a path", _path, _STRING)]
SheetPath = Annotated[Path | str, custom("a path", _sheet_path, _STRING)]
ColumnName = Annotated[str, custom("a column", _column, _STRING)]
Rate = Annotated[
    float,
    custom(
        "requests per second",
        _rate,
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^[0-9]{1,6}(\.[0-9]{1,6})?(/s)?$"},
            ]
        },
    ),
]
Duration = Annotated[
    float,
    Kind(
        words="a duration, such as 15m",
        core=core_schema.no_info_after_validator_function(
            _duration, core_schema.str_schema(pattern=r"^\s*0*[1-9][0-9]{0,5}\s*[smhd]\s*$")
        ),
        must="a duration with its unit, s, m, h or d, such as 15m or 24h",
        instead=_duration_meant,
    ),
]
Clock = Annotated[
    time,
    custom(
        "a time of day",
        _clock,
        {"type": "string", "pattern": r"^\s*([01]?[0-9]|2[0-3]):[0-5][0-9]\s*$"},
    ),
]
Maximum = Annotated[
    Limit,
    custom(
        "a number of pets, or a share such as 10%",
        _limit,
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {
                    "type": "string",
                    "pattern": r"^\s*([0-9]{1,12}|[0-9]{1,12}(\.[0-9]{1,6})?\s*%)\s*$",
                },
            ]
        },
    ),
]
Listen = Annotated[
    str, custom("HOST:PORT", _listen, {"type": "string", "pattern": r"^[^\s/]+:[0-9]{1,5}$"})
]
SecretText = Annotated[
    Secret,
    custom("${NAME}", _secret, {"type": "string", "pattern": f"^{VARIABLE}$"}, hides="whole"),
]
Database = Annotated[Secret, custom("an SQLAlchemy URL", _masked_database, _STRING, hides="part")]
Texts = Annotated[tuple[Text, ...], ListKind(words="a list of text")]
Plains = Annotated[tuple[Plain, ...], ListKind(words="a list of text")]
Hosts = Annotated[tuple[Text, ...], ListKind(words="a list of hosts", least=0)]
PetIds = Annotated[tuple[Annotated[int, _PET_ID], ...], ListKind(words="a list of pets' ids")]
Secrets = Annotated[tuple[SecretText, ...], ListKind(words="a list of ${NAME}", hides="whole")]

# The names of tables, which are keys.
JobName = Annotated[
    str,
    Kind(
        words="letters, digits, dots, - and _, at most 64 characters, because files are named "
        "after it",
        core=core_schema.str_schema(pattern="^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$"),
        instead=_job_meant,
        is_filled=False,
    ),
]
Header = Annotated[str, AfterValidator(_header)]
