"""Tables whose keys are free, or listed elsewhere: `[service]`, `[columns]` and `[auth]`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from petsync.errors import SettingsError
from petsync.profile import STANDARD, ServiceProfile, profile_from
from petsync.reconcile.config.kinds import MisfitError
from petsync.settings import AUTH as _AUTH
from petsync.settings import MAPPED, column_named, nearest

__all__ = ["AUTH", "COLUMN", "SERVICE", "Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """The entries of such a table: `words` for people, `schema` of the whole table, the `keys` it
    may have (none where any will do), and `read`, which takes key and value or raises MisfitError.
    """

    words: str
    schema: Mapping[str, Any] = field(repr=False)
    keys: Collection[str]
    read: Callable[[str, Any], Any] = field(repr=False)


def _column(header: str, value: object) -> str:
    if not header.strip():
        raise MisfitError("a header's column, and the header is empty")
    column = column_named(value) if isinstance(value, str) else None
    if column is None:
        near = nearest(str(value), MAPPED)
        raise MisfitError(f"one of the columns {', '.join(MAPPED)}", f'"{near}"' if near else "")
    return column


def _auth(_: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MisfitError("text", is_hidden=True)
    if urlsplit(value).password:
        raise MisfitError(
            "an address without a password", advice="Take both out of it.", is_hidden=True
        )
    return value


def _service(key: str, value: object) -> object:
    try:
        profile_from(STANDARD.name, {key: value})
    except SettingsError as error:
        options = get_args(_HINTS[key]) if get_origin(_HINTS[key]) is Literal else ()
        near = nearest(str(value), [str(option) for option in options])
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
