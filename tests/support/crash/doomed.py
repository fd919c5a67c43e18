"""A command that kills itself exactly at a named place; petsync contains no code for this.

`DOOM` names the place, the kind of change, and its number among this kind: `intended form 2`.
`STORE` is the service's database file, which shows whether a request has been carried out. With
`SIGN=STOP` the command stops there until it gets SIGCONT, but not while it writes its journal,
because SQLite would then block other writers.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, NoReturn

from petsync.apply.journal import Journal, RunSession, schema, writer
from petsync.cli import main as petsync
from petsync.client.target import ServiceTarget

__all__ = ["AROUND", "CHANGES", "KINDS", "main"]

KINDS = ("given", "assigned", "form", "put", "delete")
"""An add with an id, an add without one, an update by form, an update by PUT, a delete."""

CHANGES = ("about-to-intend", "intended", "sent", "answered", "told", "written")
"""The steps of each change in order: before the intent is recorded; the intent is on disk; the
request has been carried out; the response has arrived; the outcome is recorded; it is on disk.
"""

AROUND = {
    "begin": (Journal, "begin"),
    "resume": (Journal, "resume"),
    "known": (RunSession, "record_known_ids"),
    "finish": (RunSession, "finish"),
    "close": (RunSession, "close"),
}
"""Calls that happen once in a run: `before-begin` is the place before the call, `after-begin` the
place after it.
"""

_WRITES = threading.Lock()
_FORM = frozenset({"name", "status"})
_METHODS = {"add": "assigned", "replace": "put", "update_with_form": "form", "delete": "delete"}


def main(args: Sequence[str]) -> NoReturn:
    """Run the command up to the place."""
    place, kind, number = os.environ["DOOM"].split()
    writer.transaction = _one_at_a_time
    when, _, what = place.partition("-")
    if what in AROUND:
        _once(*AROUND[what], before=when == "before")
    else:
        _change(place, kind, itertools.count(1), int(number))
    petsync(args)


def _die() -> None:
    if os.environ.get("SIGN") != "STOP":
        os.kill(os.getpid(), signal.SIGKILL)
    with _WRITES:
        os.kill(os.getpid(), signal.SIGSTOP)
        # Another thread may receive the signal a moment later.
        time.sleep(0.1)


@contextmanager
def _one_at_a_time(*args: Any) -> Iterator[None]:
    with _WRITES, schema.transaction(*args):
        yield


def _once(owner: type, name: str, *, before: bool) -> None:
    method = getattr(owner, name)
    if asyncio.iscoroutinefunction(method):

        @wraps(method)
        async def awaited(*args: Any, **more: Any) -> None:
            if not before:
                await method(*args, **more)
            _die()

        setattr(owner, name, awaited)
        return

    @wraps(method)
    def called(*args: Any, **more: Any) -> None:
        if not before:
            method(*args, **more)
        _die()

    setattr(owner, name, called)


def _change(place: str, kind: str, seen: itertools.count[int], number: int) -> None:
    def is_it(what: Any, fields: Sequence[str] = ()) -> bool:
        return _kind(what, fields) == kind and next(seen) == number

    if place in ("about-to-intend", "intended"):
        _intend(is_it, before=place == "about-to-intend")
    elif place in ("told", "written"):
        _done(is_it, written=place == "written")
    else:
        for name in _METHODS:
            _request(name, kind, seen, number, answered=place == "answered")


def _kind(what: Any, fields: Sequence[str]) -> str:
    if what.kind == "add":
        return "assigned" if what.pet_id is None else "given"
    if what.kind == "update":
        return "form" if _FORM.issuperset(fields) else "put"
    return str(what.kind)


def _intend(is_it: Callable[..., bool], *, before: bool) -> None:
    intend = RunSession.record_intent

    async def doomed(self: RunSession, number: int, change: Any, **more: Any) -> None:
        is_now = is_it(change, change.fields)
        if is_now and before:
            _die()
        await intend(self, number, change, **more)
        if is_now:
            _die()

    RunSession.record_intent = doomed  # type: ignore[method-assign]


def _done(is_it: Callable[..., bool], *, written: bool) -> None:
    done = RunSession.record_result
    waiting: list[asyncio.Task[None]] = []

    async def die_later(self: RunSession) -> None:
        await self.flush()
        _die()

    def doomed(self: RunSession, result: Any, **more: Any) -> None:
        is_now = is_it(result, result.fields)
        done(self, result, **more)
        if is_now and written:
            waiting.append(asyncio.ensure_future(die_later(self)))
        elif is_now:
            _die()

    RunSession.record_result = doomed  # type: ignore[method-assign]


def _request(
    name: str, kind: str, seen: itertools.count[int], number: int, *, answered: bool
) -> None:
    method = getattr(ServiceTarget, name)

    @wraps(method)
    async def doomed(self: ServiceTarget, what: Any, *args: Any, **more: Any) -> Any:
        mine = "given" if name == "add" and what.id is not None else _METHODS[name]
        if mine != kind or next(seen) != number:
            return await method(self, what, *args, **more)
        before = _writes()
        asked = asyncio.ensure_future(method(self, what, *args, **more))
        for _ in range(10_000):
            await asyncio.sleep(0.001)
            if _writes() > before:
                break
        if answered:
            await asked
        _die()
        return await asked

    setattr(ServiceTarget, name, doomed)


def _writes() -> int:
    with closing(sqlite3.connect(os.environ["STORE"])) as connection:
        return int(connection.execute("SELECT count(*) FROM written").fetchone()[0])
