"""Faults of the sandbox: errors, delays, lost answers, throttling, and drift."""

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
    "Drift",
    "Faults",
    "Hit",
    "Injector",
    "Move",
    "Throttle",
    "do_and_drop",
    "do_and_show_a_page",
    "drift_of",
    "drop",
    "parse",
    "read_at_once",
    "show_a_page",
    "tear",
]


# Connections that end too early: before, after and in the middle of an answer.


TRANSPORT = "petsync.transport"
"""Where the server leaves the connection's transport, in the scope's `state`."""

_PAGE = HTMLResponse("<!doctype html><title>One moment</title><p>We will be back soon.")


async def read_at_once(receive: Receive) -> Receive:
    """The same request, which is whole already: it can be carried out after its client has gone.

    As the server sees it, nothing of a body can be read any more once the connection has ended.
    """
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return again


async def drop(scope: Scope, receive: Receive) -> None:
    """End the connection as a crashed server would: at once, without a word."""
    scope["state"][TRANSPORT].abort()
    await _wait_for_disconnect(receive)


async def do_and_drop(app: ASGIApp, scope: Scope, receive: Receive) -> None:
    """Carry the request out, then end the connection instead of answering."""

    async def swallow(_: Message) -> None:
        return

    await app(scope, receive, swallow)
    await drop(scope, receive)


async def do_and_show_a_page(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Carry the request out, then answer as something in between would: 200, and a web page."""

    async def swallow(_: Message) -> None:
        return

    await app(scope, receive, swallow)
    await _PAGE(scope, receive, send)


async def show_a_page(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in the service's place, as a portal that wants a sign-in does: 200, and a web page."""
    await read_at_once(receive)
    await _PAGE(scope, receive, send)


async def tear(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the headers and half of the body's first piece; nothing for an empty body."""
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
    await _wait_for_disconnect(receive)


async def _wait_for_disconnect(receive: Receive) -> None:
    """Until the server has noticed, which would otherwise answer in the handler's place."""
    while (await receive())["type"] != "http.disconnect":
        pass


# Answers that disagree with each other: pets listed twice, as they were, or on the move.


KEY = "petsync.drift"
"""The key of an affected request's Drift in the scope's `state`."""

Move = tuple[int, str]
"""A pet's id, and its new status, or "" if it is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How one answer is falsified: `twice` and `stale` are the shares of its pets that come a
    second time, as they are and under a name that is not theirs; `moves` are carried out behind
    it. The same pet is always hit by the same `seed`.
    """

    twice: float = 0.0
    stale: float = 0.0
    seed: int = 0
    moves: tuple[Move, ...] = ()

    def with_copies(self, bodies: list[bytes]) -> list[bytes]:
        """The pets with their copies, each behind its pet."""
        if not self.twice + self.stale:
            return bodies
        return [each for body in bodies for each in (body, *self._copies(body))]

    def move(self, connection: sqlite3.Connection) -> None:
        """Give the pets of `moves` that are there their new status."""
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


NONE = Drift()
"""An unchanged response."""


def drift_of(request: Request) -> Drift:
    """How the request's response is changed."""
    drift: Drift = request.scope.get("state", {}).get(KEY, NONE)
    return drift


def _as_it_was(pet: Pet) -> Pet:
    return msgspec.structs.replace(pet, name=f"{pet.name or ''} (as it was)".strip())


# Throttle: how many requests a second a service takes, counted in one of the two usual ways.


class Throttle:
    """Takes `rate` requests a second. Without `window` by a token bucket, which is full at first
    and holds `burst`; with it, `rate` × `window` in each window of so many seconds by the clock.
    """

    def __init__(self, rate: float, *, burst: float, window: float = 0.0) -> None:
        self._rate, self._burst, self._window = rate, burst, window
        self._tokens, self._seen = burst, -math.inf
        self._number, self._used = -math.inf, 0

    def takes(self, now: float) -> bool:
        """Whether a request that comes `now`, in seconds, is taken."""
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


# Faults on demand: slow, refused, dropped, torn and false answers, repeatable by a seed.
#
# A specification is a list such as `latency=0.05,429=0.02,drop_after=0.01,seed=7`:
#
# latency seconds that every request waits, from half of it to one and a half late the share that
# is done after its wait even if the client has gone away limit how many requests a second are
# taken, of all operations together; others get 429 burst how many more may come at once, after a
# pause (one second's) window count the limit anew every so many seconds, instead of evenly 429,
# 503 the share of requests that are refused so, before anything is done drop_before the share
# whose connection ends before anything is done drop_after the share whose connection ends after
# it was done, without an answer torn the share that is done and answered with half a body html
# the share that is done and answered with 200 and a web page portal the share that is not done,
# and answered with 200 and a web page twice of each list, the share of pets that are in it twice
# stale of each list, the share of pets that are in it twice, under two names moves what somebody
# else does behind the first list by status: pets that get another status, and pets that go, such
# as 7:sold+9: retry_after the seconds that a 429 says to wait (1) seed what decides which
# requests are hit (0) only operations that can be hit, such as addPet+updatePet (all) status
# statuses whose lists alone can be hit, such as sold+pending (all requests) first only the first
# so many requests can be hit (all)


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
    """A specification, read. Shares are from 0 to 1 and at most 1 together, those of whole answers
    and those of pets in a list each by themselves.
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
        """Whether a request for the operation, with this query, is one of those to be hit."""
        if operation not in self.only:
            return False
        if self.status is None:
            return True
        return operation == _BY_STATUS and not self.status.isdisjoint(_statuses(query))

    def throttle(self) -> Throttle | None:
        """What keeps the limit, if there is one."""
        if self.limit is None:
            return None
        burst = max(self.limit, 1.0) if self.burst is None else self.burst
        return Throttle(self.limit, burst=burst, window=self.window)

    def hit(self, number: int) -> Hit:
        """What happens to the request of this number (from 1): always the same."""
        digest = hashlib.blake2b(f"{self.seed}:{number}".encode(), digest_size=16).digest()
        wait, draw = (int.from_bytes(half) / 2**64 for half in (digest[:8], digest[8:]))
        drift = Drift(twice=self.twice, stale=self.stale, seed=self.seed)
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


@dataclass(frozen=True, slots=True)
class Hit:
    """What happens to one request: seconds to wait, the name of a share in Faults, if any, and
    what is false in a list.
    """

    wait: float = 0.0
    kind: str | None = None
    drift: Drift = NONE


class Injector:
    """Counts the requests that can be hit, and says what happens to each; `hits` is how many were
    hit, by the names of a specification.
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
        """What happens to the next request, which asks for `operation`."""
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
    """The faults of a specification. Raises SettingsError that names the item at fault."""
    values: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in spec.split(","))):
        key, sign, text = (part.strip() for part in item.partition("="))
        name = next((name for name, keyword in _NAMES.items() if keyword == key), key)
        if name not in _READERS or not sign or key in _NAMES:
            raise _item_error(item, f"it is not one of {_KNOWN}")
        if name in values:
            raise _item_error(item, "it is given twice")
        values[name] = _parse_value(item, name, text)
    faults = Faults(**values)
    for shares in (_SHARES, _COPIES):
        if sum(getattr(faults, share) for share in shares) > 1:
            raise _item_error(spec, "the shares are more than 1 together")
    if faults.limit is None and (faults.burst is not None or faults.window):
        raise _item_error(spec, "burst and window are of a limit, and there is none")
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
    if not 0 <= (value := _seconds(text)) <= 1:
        raise ValueError("a share is from 0 to 1")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 3600:
        raise ValueError("a number from 0 is needed")
    return value


def _positive(text: str) -> float:
    if not (value := _seconds(text)):
        raise ValueError("a number above 0 is needed")
    return value


def _burst(text: str) -> float:
    if (value := _seconds(text)) < 1:
        raise ValueError("a number from 1 is needed")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError("a whole number from 0 is needed")
    return int(text)


def _operations(text: str) -> frozenset[str]:
    names = frozenset(text.split("+"))
    if unknown := names - frozenset(OPERATIONS):
        raise ValueError(f"{min(unknown)!r} is no operation; there is {', '.join(OPERATIONS)}")
    return names


def _moves(text: str) -> tuple[Move, ...]:
    return tuple(map(_move, text.split("+")))


def _move(text: str) -> Move:
    parts = re.fullmatch(r"(-?\d{1,19}):(.*)", text.strip(), re.ASCII)
    if parts is None:
        raise ValueError("a pet's id and its new status are needed, such as 7:sold")
    return int(parts[1]), parts[2]


_READERS: dict[str, Callable[[str], Any]] = {
    "latency": _seconds,
    **dict.fromkeys((*_SHARES, *_COPIES), _share),
    "limit": _positive,
    "burst": _burst,
    "window": _positive,
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
