"""What travels in the path, the query and a form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from urllib.parse import parse_qsl, unquote_plus

from petsync.model import MAX_ID, MIN_ID
from petsync.sandbox.refusal import Original, RefusedError

__all__ = ["array", "form", "once", "pet_id"]

_BAD_ID = Original(
    "RESTEASY003870: Unable to extract parameter from http request: "
    'javax.ws.rs.PathParam("petId") value is {1}'
)
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)


def array(query: bytes, name: str, *, first_only: bool) -> list[str]:
    """The values of an array parameter, in csv and multi form alike; [] if it is not given.

    Values are decoded before they are separated: clients and proxies escape commas, and every
    known server takes `a%2Cb` for two values. Raises RefusedError for bytes that are no UTF-8.
    """
    given = [raw for key, raw in _pairs(query) if key == name]
    if first_only:
        given = given[:1]
    return [item for raw in given for item in _decoded(raw).split(",")]


def form(body: bytes, *, single: Collection[str] = ()) -> dict[str, str]:
    """The first value of each field of an urlencoded form.

    Raises RefusedError for anything else, and where a field of `single` repeats itself.
    """
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise RefusedError(400, "the form cannot be read as urlencoded UTF-8") from None
    once(pairs, single)
    return dict(reversed(pairs))


def once(pairs: Iterable[tuple[str, object]], single: Collection[str]) -> None:
    """Return if no field of `single` is among the pairs twice. Raises RefusedError."""
    counts = Counter(name for name, _ in pairs if name in single)
    for name, count in counts.items():
        if count > 1:
            raise RefusedError(400, f"{name} is given {count} times")


def pet_id(text: str, *, refused_with: int) -> int:
    """The int64 that a path names. Raises RefusedError with the given status for anything else."""
    if _INTEGER.fullmatch(text) and MIN_ID <= (number := int(text)) <= MAX_ID:
        return number
    said = f"{text[:40]!r} is no pet id: an id is a 64-bit integer"
    raise RefusedError(refused_with, said, original=_BAD_ID)


def _pairs(query: bytes) -> list[tuple[str, str]]:
    parts = (pair.partition("=") for pair in query.decode("latin-1").split("&"))
    return [(unquote_plus(key), raw) for key, _, raw in parts]


def _decoded(raw: str) -> str:
    try:
        return unquote_plus(raw.encode("latin-1").decode(), errors="strict")
    except UnicodeDecodeError:
        raise RefusedError(400, "the query is not UTF-8") from None
