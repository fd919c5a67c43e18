"""Faults of the sandbox: errors, delays, lost responses, throttling, and drift."""

from __future__ import annotations

import hashlib
import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from petsync.errors import SettingsError
from petsync.models import Pet
from petsync.protocol import json
from petsync.sandbox import storage
from petsync.sandbox.http import RefusedError, array

__all__ = [
    "KEY",
    "NONE",
    "OPERATIONS",
    "TRANSPORT",
    "Faults",
    "Hit",
    "Injector",
    "Move",
    "ResponseDrift",
    "Throttle",
    "drift_of",
    "drop",
    "handle_and_drop",
    "handle_and_show_page",
    "handle_and_truncate",
    "parse",
    "read_at_once",
    "show_page",
    "wait_for_disconnect",
]


# Connections that end too early: before a request is carried out, after it, or during the response.


TRANSPORT = "petsync.transport"
"""The key of the connection's transport in the scope's `state`."""

_PAGE = HTMLResponse("<!doctype html><title>One moment</title><p>We will be back soon.")


async def read_at_once(receive: Receive) -> Receive:
    """Read the complete request, and return a `receive` for it, which also works after its client
    has disconnected. The server's `receive` provides no body after that.
    """
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return again


async def drop(scope: Scope, receive: Receive) -> None:
    """End the connection at once without a response, as a crashed server does."""
    scope["state"][TRANSPORT].abort()
    await wait_for_disconnect(receive)


async def _discard(_: Message) -> None:
    """Send nothing."""


async def handle_and_drop(app: ASGIApp, scope: Scope, receive: Receive) -> None:
    """Carry out the request, then end the connection without a response."""
    await app(scope, receive, _discard)
    await drop(scope, receive)


async def handle_and_show_page(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Carry out the request, then respond as a gateway might: with 200 and a web page."""
    await app(scope, receive, _discard)
    await _PAGE(scope, receive, send)


async def show_page(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond instead of the service, as a sign-in portal does: with 200 and a web page."""
    await read_at_once(receive)
    await _PAGE(scope, receive, send)


async def handle_and_truncate(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Carry out the request, send the headers and half of the body's first piece, and end the
    connection. If that piece is empty, send nothing.
    """
    messages: list[Message] = []

    async def hold(message: Message) -> None:
        if len(messages) < 2:
            messages.append(message)

    await app(scope, receive, hold)
    start, body = messages
    piece = body.get("body", b"")
    if piece:
        await send(start)
        await send({**body, "body": piece[: len(piece) // 2], "more_body": True})
        scope["state"][TRANSPORT].close()
    else:
        scope["state"][TRANSPORT].abort()
    await wait_for_disconnect(receive)


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the server has detected the disconnect. If the application returned before, the
    server would send a response itself.
    """
    while (await receive())["type"] != "http.disconnect":
        pass


# Inconsistent responses: pets that are listed twice, have an old name, or change meanwhile.


KEY = "petsync.drift"
"""The key of the request's Drift in the scope's `state`."""

Move = tuple[int, str]
"""A pet's id, and its new status, or "" if it is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseDrift:
    """The changes of one response. `twice` is the share of its pets that are repeated unchanged,
    and `stale` the share of its pets that are repeated with a wrong name; `moves` are carried out
    after the response's snapshot is taken. The same `seed` always affects the same pets.
    """

    twice: float = 0.0
    stale: float = 0.0
    seed: int = 0
    moves: tuple[Move, ...] = ()

    def with_copies(self, bodies: list[bytes]) -> list[bytes]:
        """Return the pets, each followed by its copies."""
        if not self.twice + self.stale:
            return bodies
        return [each for body in bodies for each in (body, *self._copies(body))]

    def move(self, connection: sqlite3.Connection) -> None:
        """Set the status of the existing pets in `moves`, or remove them."""
        for number, status in self.moves:
            body = storage.find(connection, number)
            if body is not None and status:
                pet = json.decode_pet(body)
                storage.save(connection, msgspec.structs.replace(pet, status=status))
            elif body is not None:
                storage.remove(connection, number)

    def _copies(self, body: bytes) -> Iterator[bytes]:
        digest = hashlib.blake2b(b"%d:%b" % (self.seed, body), digest_size=8).digest()
        draw = int.from_bytes(digest) / 2**64
        if draw < self.twice:
            yield body
        elif draw < self.twice + self.stale:
            yield json.encode_pet(_as_it_was(json.decode_pet(body)))


NONE = ResponseDrift()
"""No changes of the response."""


def drift_of(request: Request) -> ResponseDrift:
    """Return the changes of the response to this request."""
    drift: ResponseDrift = request.scope.get("state", {}).get(KEY, NONE)
    return drift


def _as_it_was(pet: Pet) -> Pet:
    return msgspec.structs.replace(pet, name=f"{pet.name or ''} (as it was)".strip())


# Throttle: a rate limit, as a token bucket or in fixed windows.


class Throttle:
    """Accepts `rate` requests per second. Without `window`, it uses a token bucket of the size
    `burst`, which is full at first; otherwise it accepts `rate` × `window` requests in each window
    of `window` seconds.
    """

    def __init__(self, rate: float, *, burst: float, window: float = 0.0) -> None:
        self._rate, self._burst, self._window = rate, burst, window
        self._tokens, self._seen = burst, -math.inf
        self._number, self._used = -math.inf, 0

    def takes(self, now: float) -> bool:
        """Return true if a request at the time `now`, in seconds, is accepted."""
        return self._in_window(now) if self._window else self._from_bucket(now)

    def _from_bucket(self, now: float) -> bool:
        saved = self._tokens + (now - self._seen) * self._rate
        self._tokens, self._seen = min(self._burst, saved), now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _in_window(self, now: float) -> bool:
        number = math.floor(now / self._window)
        if number != self._number:
            self._number, self._used = number, 0
        self._used += 1
        return self._used <= self._rate * self._window


# Faults on demand: slow, refused, dropped, torn and wrong responses, reproducible with a seed.
#
# A specification is a list such as `latency=0.05,429=0.02,drop_after=0.01,seed=7`:
#
# latency      seconds that each request waits (50 to 150 % of it)
# late         share of requests carried out after the wait even if the client has disconnected
# limit        accepted requests per second, of all operations together; others get 429
# burst        size of the token bucket of `limit` (one second's requests)
# window       count `limit` in windows of this many seconds, instead of a bucket
# 429, 503     share of requests refused with this status, and not carried out
# drop_before  share of requests whose connection ends before they are carried out
# drop_after   share of requests carried out, whose connection ends without a response
# torn         share of requests carried out, whose response has half a body
# html         share of requests carried out, whose response is 200 and a web page
# portal       share of requests not carried out, whose response is 200 and a web page
# twice        share of pets that a list contains twice
# stale        share of pets that a list contains twice, the second time with a wrong name
# moves        changes by another client after the first list by status: new statuses, and deletes
#              (no status), such as 7:sold+9:
# retry_after  seconds in the Retry-After of a 429 (1)
# seed         decides which requests are hit (0)
# only         operations that can be hit, such as addPet+updatePet (all)
# status       only lists by these statuses can be hit, such as sold+pending (all requests)
# first        number of requests, from the first, that can be hit (all)


OPERATIONS = (
    "addPet",
    "updatePet",
    "deletePet",
    "findPetsByStatus",
    "findPetsByTags",
    "getPetById",
    "updatePetWithForm",
    "uploadFile",
)
_BY_STATUS = "findPetsByStatus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """A parsed specification of faults. Shares are from 0 to 1; the shares of requests add up to at
    most 1, and so do the shares of pets in a list.
    """

    latency: float = 0.0
    too_many: float = 0.0
    unavailable: float = 0.0
    drop_before: float = 0.0
    drop_after: float = 0.0
    torn: float = 0.0
    html: float = 0.0
    portal: float = 0.0
    late: float = 0.0
    limit: float | None = None
    burst: float | None = None
    window: float = 0.0
    twice: float = 0.0
    stale: float = 0.0
    moves: tuple[Move, ...] = ()
    retry_after: int = 1
    seed: int = 0
    only: frozenset[str] = frozenset(OPERATIONS)
    status: frozenset[str] | None = None
    first: int | None = None

    def can_hit(self, operation: str, query: bytes) -> bool:
        """Return true if a request for the operation, with this query, can be hit."""
        if operation not in self.only:
            return False
        if self.status is None:
            return True
        return operation == _BY_STATUS and not self.status.isdisjoint(_statuses(query))

    def throttle(self) -> Throttle | None:
        """Return a throttle for `limit`; None if there is no limit."""
        if self.limit is None:
            return None
        burst = max(self.limit, 1.0) if self.burst is None else self.burst
        return Throttle(self.limit, burst=burst, window=self.window)

    def hit(self, number: int) -> Hit:
        """Return the faults of the request with this number (from 1). They depend only on the
        number and the seed.
        """
        digest = hashlib.blake2b(f"{self.seed}:{number}".encode(), digest_size=16).digest()
        wait, draw = (int.from_bytes(half) / 2**64 for half in (digest[:8], digest[8:]))
        drift = ResponseDrift(twice=self.twice, stale=self.stale, seed=self.seed)
        return Hit(self.latency * (0.5 + wait), self._kind(draw), drift)

    def _kind(self, draw: float) -> str | None:
        for kind in _SHARES:
            draw -= getattr(self, kind)
            if draw < 0:
                return kind
        return None


_SHARES = ("too_many", "unavailable", "drop_before", "drop_after", "torn", "html", "late", "portal")
_COPIES = ("twice", "stale")
_NAMES = {"too_many": "429", "unavailable": "503"}
_MAX_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Hit:
    """The faults of one request: the seconds to wait, the name of a share in Faults (if any), and
    the changes of a list.
    """

    wait: float = 0.0
    kind: str | None = None
    drift: ResponseDrift = NONE


class Injector:
    """Counts the requests that can be hit, and returns the faults of each. `hits` is the number of
    requests that were hit, by the name of the fault in a specification.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self.set(faults)

    @property
    def retry_after(self) -> int:
        """The seconds in the Retry-After of a 429."""
        return 1 if self._faults is None else self._faults.retry_after

    def set(self, faults: Faults | None) -> None:
        """Start again with other faults, or with none."""
        self._faults, self._seen = faults, 0
        self.hits: Counter[str] = Counter()
        self._moves = () if faults is None else faults.moves
        self._throttle = None if faults is None else faults.throttle()

    def next(self, operation: str, query: bytes = b"") -> Hit:
        """Return the faults of the next request, which is for `operation`."""
        faults = self._faults
        if faults is None or not faults.can_hit(operation, query):
            return _NO_HIT
        if self._throttle is not None and not self._throttle.takes(time.monotonic()):
            self.hits["limit"] += 1
            return Hit(faults.latency, "too_many")
        self._seen += 1
        if faults.first is not None and self._seen > faults.first:
            return _NO_HIT
        hit = faults.hit(self._seen)
        if hit.kind is not None:
            self.hits[_NAMES.get(hit.kind, hit.kind)] += 1
        if operation == _BY_STATUS and hit.kind is None and self._moves:
            hit = replace(hit, drift=replace(hit.drift, moves=self._moves))
            self._moves = ()
        return hit


_NO_HIT = Hit()


def parse(spec: str) -> Faults:
    """Return the faults of a specification. Raises SettingsError if it is invalid."""
    if not isinstance(spec, str):
        raise _item_error(spec, "it is not a text")
    values: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in spec.split(","))):
        key, sign, text = (part.strip() for part in item.partition("="))
        name = next((name for name, keyword in _NAMES.items() if keyword == key), key)
        if name not in _READERS or key in _NAMES:
            raise _item_error(item, f"it is not one of {_KNOWN}")
        if not sign:
            raise _item_error(item, "a = and a value are missing")
        if name in values:
            raise _item_error(item, "it is given twice")
        values[name] = _parse_value(item, name, text)
    faults = Faults(**values)
    for shares in (_SHARES, _COPIES):
        if sum(getattr(faults, share) for share in shares) > 1:
            raise _item_error(spec, "the shares add up to more than 1")
    if faults.limit is None and (faults.burst is not None or faults.window):
        raise _item_error(spec, "burst and window need a limit")
    return faults


def _statuses(query: bytes) -> list[str]:
    try:
        return array(query, "status", first_only=False)
    except RefusedError:
        return []


def _parse_value(item: str, name: str, text: str) -> Any:
    try:
        return _READERS[name](text)
    except ValueError as error:
        raise _item_error(item, str(error)) from None


def _share(text: str) -> float:
    if (value := _number(text)) > 1:
        raise ValueError("a share must be between 0 and 1")
    return value


def _seconds(text: str) -> float:
    if (value := _number(text)) >= _MAX_SECONDS:
        raise ValueError(f"a number of seconds below {_MAX_SECONDS} is required")
    return value


def _positive_seconds(text: str) -> float:
    return _positive(_seconds(text))


def _rate(text: str) -> float:
    return _positive(_number(text))


def _burst(text: str) -> float:
    if (value := _number(text)) < 1:
        raise ValueError("a number of at least 1 is required")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError("a number of at least 0 is required")
    return value


def _positive(value: float) -> float:
    if not value:
        raise ValueError("a number above 0 is required")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError("a whole number of at least 0 is required")
    return int(text)


def _operations(text: str) -> frozenset[str]:
    names = frozenset(text.split("+"))
    if unknown := names - frozenset(OPERATIONS):
        raise ValueError(f"{min(unknown)!r} is not one of {', '.join(OPERATIONS)}")
    return names


def _moves(text: str) -> tuple[Move, ...]:
    return tuple(map(_move, text.split("+")))


def _move(text: str) -> Move:
    parts = re.fullmatch(r"(-?\d{1,19}):(.*)", text.strip(), re.ASCII)
    if parts is None:
        raise ValueError("a change is ID:STATUS, such as 7:sold, or ID: for a delete")
    return int(parts[1]), parts[2]


_READERS: dict[str, Callable[[str], Any]] = {
    "latency": _seconds,
    **dict.fromkeys((*_SHARES, *_COPIES), _share),
    "limit": _rate,
    "burst": _burst,
    "window": _positive_seconds,
    "moves": _moves,
    "retry_after": _count,
    "seed": _count,
    "only": _operations,
    "status": lambda text: frozenset(text.split("+")),
    "first": _count,
}
_KNOWN = ", ".join(
    {"too_many": "429", "unavailable": "503"}.get(f.name, f.name) for f in fields(Faults)
)


def _item_error(item: str, why: str) -> SettingsError:
    return SettingsError(
        f"faults: {item!r}: {why}", hint="An example: latency=0.05,429=0.02,drop_after=0.01,seed=7"
    )
