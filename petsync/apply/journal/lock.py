"""Lock: one run at a time on one store. It is a row of the journal, renewed by a heartbeat."""

from __future__ import annotations

import os
import platform
import secrets
import sqlite3
import time
from functools import cache
from pathlib import Path

import msgspec

from petsync.apply.journal.moment import iso
from petsync.errors import LockedError

__all__ = ["BEAT", "Lock", "claim", "held", "leave", "renew", "taken_over"]

BEAT = 2.0
"""Seconds between two heartbeats."""
_INTERRUPTED = """
UPDATE sitting SET ended = ?, stopped = 'interrupted' WHERE run = ? AND number = ? AND ended = ''
"""
_STALE = 20.0
"""After so many seconds without one, a holder counts as dead, whatever else is known of it."""


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """Who is at work on a store: a sitting of a run, in a process of a host. `machine` tells hosts
    of one name apart, and `born` processes of one number; both may be "". `heartbeat` is in
    seconds since 1970.
    """

    store: str
    run: str
    sitting: int
    claim: str
    pid: int
    host: str
    machine: str
    born: str
    since: str
    heartbeat: float

    @classmethod
    def mine(cls, store: str, run: str, sitting: int) -> Lock:
        """A lock for this process, from now on."""
        pid, now = os.getpid(), time.time()
        return cls(
            store=store,
            run=run,
            sitting=sitting,
            claim=secrets.token_hex(8),
            pid=pid,
            host=platform.node(),
            machine=_machine(),
            born=_born(pid) or "",
            since=iso(now),
            heartbeat=now,
        )

    @property
    def is_alive(self) -> bool:
        """Whether its holder may still be at work: False only where it surely is not, or has not
        been heard of for long.
        """
        if time.time() - self.heartbeat >= _STALE:
            return False
        return self.machine != _machine() or _lives(self.pid, self.born)


def held(connection: sqlite3.Connection, store: str) -> Lock | None:
    """The lock on the store, whether its holder lives or not."""
    row = connection.execute("SELECT * FROM lock WHERE store = ?", (store,)).fetchone()
    names = Lock.__struct_fields__
    return None if row is None else Lock(**dict(zip(names, row, strict=True)))


def claim(connection: sqlite3.Connection, lock: Lock) -> Lock | None:
    """Take the store's lock, inside a transaction; the dead one that was in the way, if any.

    Raises LockedError where a living process has it.
    """
    other = held(connection, lock.store)
    if other is not None and other.is_alive:
        raise _locked(other)
    row = msgspec.structs.astuple(lock)
    connection.execute("INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    return other


def renew(connection: sqlite3.Connection, lock: Lock) -> bool:
    """Give a sign of life; False where the lock is another's by now."""
    renewed = connection.execute(
        "UPDATE lock SET heartbeat = ? WHERE store = ? AND claim = ?",
        (time.time(), lock.store, lock.claim),
    )
    return renewed.rowcount == 1


def leave(connection: sqlite3.Connection, lock: Lock, now: str) -> None:
    """Give the lock back, if it is still this holder's; a sitting that did not say how it ended was
    interrupted.
    """
    mine = connection.execute(
        "DELETE FROM lock WHERE store = ? AND claim = ?", (lock.store, lock.claim)
    )
    if mine.rowcount:
        connection.execute(_INTERRUPTED, (now, lock.run, lock.sitting))


def taken_over(lock: Lock, by: Lock | None) -> LockedError:
    """The error of a holder that was silent for so long that it counted as dead."""
    who = "somebody" if by is None else f"run {by.run} (process {by.pid} on {by.host})"
    return LockedError(
        f"{who} has taken over {lock.store} from run {lock.run}, which gave no sign of life for "
        f"{_STALE:.0f} seconds",
        hint="Nothing more is sent from here. `petsync runs` shows what is at work; "
        f"`petsync resume {lock.run}` finishes this run afterwards.",
    )


def _locked(other: Lock) -> LockedError:
    return LockedError(
        f"run {other.run} is at work on {other.store}: process {other.pid} on {other.host}, since "
        f"{other.since}",
        hint="Wait until it has ended, or stop it with Ctrl-C and go on with "
        f"`petsync resume {other.run}`. A process that was killed is noticed within "
        f"{_STALE:.0f} seconds.",
    )


@cache
def _machine() -> str:
    """What tells this machine, since it was started, from all others; "" where nothing does."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return "" if os.name == "nt" else f"{platform.node()} {os.name}"


def _lives(pid: int, born: str) -> bool:
    # On Windows, os.kill would end the process that it asks for.
    if os.name == "nt":
        return True
    if Path("/proc/self/stat").exists():
        return _born(pid) in (born, "?")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _born(pid: int) -> str | None:
    """When the process began, in the kernel's ticks; None where it is gone, "?" if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return "?"
    # The name, in parentheses, may hold anything; the state and the rest follow its end.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in b"ZX" else fields[19].decode()
