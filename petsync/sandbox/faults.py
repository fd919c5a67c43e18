"""Faults on demand: slow, refused, dropped, torn and false answers, repeatable by a seed.

A specification is a list such as `latency=0.05,429=0.02,drop_after=0.01,seed=7`:

    latency        seconds that every request waits, from half of it to one and a half
    late           the share that is done after its wait even if the client has gone away
    limit          how many requests a second are taken, of all operations together; others get 429
    burst          how many more may come at once, after a pause (one second's)
    window         count the limit anew every so many seconds, instead of evenly
    429, 503       the share of requests that are refused so, before anything is done
    drop_before    the share whose connection ends before anything is done
    drop_after     the share whose connection ends after it was done, without an answer
    torn           the share that is done and answered with half a body
    html           the share that is done and answered with 200 and a web page
    portal         the share that is not done, and answered with 200 and a web page
    twice          of each list, the share of pets that are in it twice
    stale          of each list, the share of pets that are in it twice, under two names
    moves          what somebody else does behind the first list by status: pets that get another
                   status, and pets that go, such as 7:sold+9:
    retry_after    the seconds that a 429 says to wait (1)
    seed           what decides which requests are hit (0)
    only           operations that can be hit, such as addPet+updatePet (all)
    status         statuses whose lists alone can be hit, such as sold+pending (all requests)
    first          only the first so many requests can be hit (all)
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from petsync.errors import SettingsError
from petsync.sandbox.drift import NONE, Drift, Move
from petsync.sandbox.parameters import array
from petsync.sandbox.refusal import RefusedError
from petsync.sandbox.throttle import Throttle

__all__ = ["OPERATIONS", "Faults", "Hit", "Injector", "parse"]

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
        """The seconds that a 429 says to wait."""
        return 1 if self._faults is None else self._faults.retry_after

    def set(self, faults: Faults | None) -> None:
        """Begin anew with other faults, or with none."""
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
    given: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in spec.split(","))):
        key, sign, text = (part.strip() for part in item.partition("="))
        name = next((name for name, said in _NAMES.items() if said == key), key)
        if name not in _READERS or not sign or key in _NAMES:
            raise _refused(item, f"it is not one of {_KNOWN}")
        if name in given:
            raise _refused(item, "it is given twice")
        given[name] = _read(item, name, text)
    faults = Faults(**given)
    for shares in (_SHARES, _COPIES):
        if sum(getattr(faults, share) for share in shares) > 1:
            raise _refused(spec, "the shares are more than 1 together")
    if faults.limit is None and (faults.burst is not None or faults.window):
        raise _refused(spec, "burst and window are of a limit, and there is none")
    return faults


def _statuses(query: bytes) -> list[str]:
    try:
        return array(query, "status", first_only=False)
    except RefusedError:
        return []


def _read(item: str, name: str, text: str) -> Any:
    try:
        return _READERS[name](text)
    except ValueError as error:
        raise _refused(item, str(error)) from None


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


def _refused(item: str, why: str) -> SettingsError:
    return SettingsError(
        f"faults: {item!r}: {why}", hint="An example: latency=0.05,429=0.02,drop_after=0.01,seed=7"
    )
