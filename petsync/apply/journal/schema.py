"""The journal file: its tables, checksums, checks of its integrity, and the lock of a store."""

from __future__ import annotations

import os
import platform
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from petsync._files import make_state_folder, must_be_ordinary, open_private, try_lock
from petsync.errors import LockedError, PetsyncError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "APPLICATION",
    "BEAT",
    "BUSY",
    "DAMAGE",
    "NAME",
    "NAMES",
    "PATIENCE",
    "TABLES",
    "VERSION",
    "Lock",
    "anew",
    "build_closed_error",
    "build_locked_error",
    "check_sound",
    "claim",
    "code_of",
    "connect",
    "empty",
    "is_used",
    "iso",
    "leave",
    "make",
    "mark_in_use",
    "of_sqlite",
    "read_lock",
    "reading",
    "renew",
    "seal",
    "seconds_between",
    "taken_over",
    "translate_errors",
    "translated_reading",
    "unwritable",
    "writing",
]


# The tables of a journal; docs/journal.md tells what each column means.


NAME = "journal.db"
APPLICATION = 0x70657473
"""SQLite's application_id of a journal: "pets"."""
VERSION = 3
"""SQLite's user_version of a journal; an older petsync refuses it and leaves it as it is."""
_READABLE = frozenset({2, VERSION})
"""Version 2 has one more table, `used`, which is always empty in it."""

TABLES = """
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    store TEXT NOT NULL,
    source TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    undoes TEXT NOT NULL,
    started TEXT NOT NULL,
    total INTEGER NOT NULL,
    options TEXT NOT NULL,
    seal INTEGER NOT NULL,
    plan BLOB,
    payload BLOB NOT NULL,
    body_seal INTEGER NOT NULL
);
CREATE UNIQUE INDEX run_once ON run (fingerprint) WHERE fingerprint <> '';
CREATE TABLE sitting (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    started TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '',
    stopped TEXT NOT NULL DEFAULT '',
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE change (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    pet_id INTEGER,
    row INTEGER,
    source TEXT NOT NULL,
    fields TEXT NOT NULL,
    before TEXT,
    after TEXT,
    intended TEXT NOT NULL,
    digest TEXT NOT NULL,
    seal INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    ended TEXT,
    outcome TEXT,
    cause TEXT,
    message TEXT,
    assigned_id INTEGER,
    found TEXT,
    outcome_seal INTEGER,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE attempt (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (run, number, attempt)
) WITHOUT ROWID;
CREATE TABLE known (
    run TEXT PRIMARY KEY,
    ids TEXT NOT NULL,
    seal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE lock (
    store TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    sitting INTEGER NOT NULL,
    claim TEXT NOT NULL,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    machine TEXT NOT NULL,
    born TEXT NOT NULL,
    since TEXT NOT NULL,
    heartbeat REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

NAMES = frozenset({"run", "sitting", "change", "attempt", "known", "lock", "meta"})


# What goes wrong with a journal, as petsync's errors.


DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise what SQLite and the file system say as a PetsyncError that names the journal."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise build_damaged_error(path, error) from None
    except sqlite3.Error as error:
        raise of_sqlite(path, error) from None
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from None


@contextmanager
def translated_reading(path: Path) -> Iterator[None]:
    """The same, for who only reads."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise build_damaged_error(path, error) from None
    except sqlite3.Error as error:
        # Text that is no text: Python's module says so, not SQLite.
        if code_of(error) in (0, *DAMAGE):
            raise build_damaged_error(path, error) from None
        raise _unreadable(path, str(error)) from None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None


def of_sqlite(path: Path, error: sqlite3.Error) -> PetsyncError:
    """The error as petsync's."""
    code = code_of(error)
    if code in DAMAGE:
        return build_damaged_error(path, error)
    return _busy(path) if code in BUSY else unwritable(path, str(error))


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 where Python's module itself raised."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def unwritable(path: Path, why: str) -> PetsyncError:
    """Nothing can be put on disk."""
    return PetsyncError(
        f"the journal {path} cannot be written: {why}",
        hint="Nothing is sent without it. Make room or put it back, or choose another folder with "
        "--state.",
    )


def anew(error: PetsyncError) -> PetsyncError:
    """The same error, to be raised once more."""
    return type(error)(error.message, hint=error.hint)


def build_closed_error(path: Path) -> PetsyncError:
    """Nobody writes any more."""
    return unwritable(path, "this run's sitting was closed")


def _unreadable(path: Path, why: str) -> PetsyncError:
    return PetsyncError(
        f"the journal {path} cannot be read: {why}",
        hint="See to it that nothing else keeps the file, and that this user may open it.",
    )


def _busy(path: Path) -> PetsyncError:
    return PetsyncError(
        f"the journal {path} cannot be written: another process keeps it locked",
        hint="Nothing is sent without it. End the program that has the file open, and go on with "
        "`petsync resume`.",
    )


def build_damaged_error(path: Path, why: object) -> PetsyncError:
    """The file is no sound database any more, or never was."""
    return PetsyncError(
        f"the journal {path} is damaged: {why}",
        hint="Nothing more is sent. `petsync runs`, once no run is at work, sets it aside and says "
        "what that means.",
    )


# The journal's file: made for this user alone, and connected to.


PATIENCE = 30.0
"""How many seconds a connection waits for another process's transaction."""


def make(path: Path) -> None:
    """See to it that there is a journal; its folder and file are for this user alone."""
    with translate_errors(path):
        make_state_folder(path.parent)
        # One that is there is opened by SQLite alone: to close it otherwise would drop the locks
        # that other connections of this process have on it.
        with suppress(FileExistsError):
            os.close(open_private(path, os.O_RDWR | os.O_EXCL))
        connection = connect(path)
        try:
            with writing(connection):
                if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                    _fill(connection)
        finally:
            connection.close()


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a journal that is there; it puts each transaction on disk before it says
    so. For one thread at a time. Raises OSError where the path is a pipe or a device.
    """
    must_be_ordinary(path)
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def empty() -> sqlite3.Connection:
    """A connection to a journal without a run, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _fill(connection)
    return connection


@contextmanager
def writing(
    connection: sqlite3.Connection, goes_on: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """One transaction: all of it or nothing. While others keep the file locked, `goes_on` says, as
    often as the connection's own patience ends, whether to wait on.
    """
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if code_of(error) not in BUSY or not goes_on():
                raise
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def reading(path: Path | None) -> Iterator[sqlite3.Connection]:
    """A connection of its own, so that any thread may read while another writes; to an empty
    journal if there is none.
    """
    with translated_reading(path or Path()):
        connection = empty() if path is None else connect(path)
        try:
            yield connection
        finally:
            connection.close()


def _fill(connection: sqlite3.Connection) -> None:
    for statement in TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


# Moments as a journal holds them: ISO 8601 in UTC, to the millisecond.


def iso(seconds: float) -> str:
    """Seconds since 1970 as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def seconds_between(earlier: str, later: str) -> float:
    """How long it took, 0.0 where one of the two is unknown or the clock was set back."""
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, round(passed.total_seconds(), 3))


# Lock: one run at a time on one store. It is a row of the journal, renewed by a heartbeat.


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


def read_lock(connection: sqlite3.Connection, store: str) -> Lock | None:
    """The lock on the store, whether its holder lives or not."""
    row = connection.execute("SELECT * FROM lock WHERE store = ?", (store,)).fetchone()
    names = Lock.__struct_fields__
    return None if row is None else Lock(**dict(zip(names, row, strict=True)))


def claim(connection: sqlite3.Connection, lock: Lock) -> Lock | None:
    """Take the store's lock, inside a transaction; the dead one that was in the way, if any.

    Raises LockedError where a living process has it.
    """
    other = read_lock(connection, lock.store)
    if other is not None and other.is_alive:
        raise build_locked_error(other)
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


def build_locked_error(other: Lock) -> LockedError:
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


# Seal: a checksum of what a row says, so that a disk's mistake is not taken for the truth.


_encoder = msgspec.json.Encoder()


def seal(values: tuple[Any, ...]) -> int:
    """CRC-32 of the values as a JSON array, bytes in base64."""
    return zlib.crc32(_encoder.encode(values))


# Whether a journal's file is in use, by this process or another.


def mark_in_use(path: Path) -> BaseFileLock:
    """The lock that marks a journal as written to, until it is released or its process dies.

    Each writer holds one file of its own, `journal.N.lock`, the first that nobody holds.
    """
    for number in count(1):
        if (lock := try_lock(path.with_suffix(f".{number}.lock"))) is not None:
            return lock
    raise AssertionError


def is_used(path: Path) -> bool:
    """Whether a writer of this process or another on this machine holds one of the files."""
    for file in path.parent.glob(f"{path.stem}.*.lock"):
        if (lock := try_lock(file)) is None:
            return True
        lock.release()
    return False


# Whether a file is a sound journal that this petsync may write to; one that is damaged is set
# aside, and any other is left as it is.


_SIDES = ("-wal", "-shm")


class _DatabaseFacts(msgspec.Struct, frozen=True):
    application: int
    version: int
    tables: frozenset[str]
    trouble: str

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever written to it."""
        return not (self.application or self.version or self.tables)


def check_sound(path: Path) -> bool:
    """Whether the file is a journal; False if nothing was ever written to it.

    Raises PetsyncError where it is another program's or a newer petsync's, of which not a byte is
    changed, where it is damaged, after it was set aside, and where it is a pipe or a device.
    """
    with translate_errors(path):
        for each in (path, *(_side(path, side) for side in _SIDES)):
            must_be_ordinary(each)
    seen = None if _side(path, "-wal").exists() else _inspect_file(path, "mode=ro&immutable=1")
    if seen is None or seen.trouble:
        # Now under lock and key: what looks like damage may be another process's checkpoint.
        seen = _inspect_file(path, "mode=ro")
    if seen.trouble:
        raise _set_aside(path, seen.trouble)
    if not seen.is_blank:
        _check_ours(path, seen)
    return not seen.is_blank


def _inspect_file(path: Path, how: str) -> _DatabaseFacts:
    """The file as it is, opened so that nothing is written to it; immutable, without even a log
    beside it.
    """
    try:
        return _read_header(f"{path.absolute().as_uri()}?{how}")
    except UnicodeDecodeError as error:
        return _DatabaseFacts(0, 0, frozenset(), str(error))
    except sqlite3.Error as error:
        if code_of(error) in (0, *DAMAGE):
            return _DatabaseFacts(0, 0, frozenset(), str(error))
        raise of_sqlite(path, error) from None


def _read_header(uri: str) -> _DatabaseFacts:
    with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = frozenset(name for (name,) in names)
        trouble = ""
        if application == APPLICATION and version in _READABLE:
            (told,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            missing = NAMES - tables
            trouble = f"it has no table {min(missing)}" if missing else told.replace("ok", "")
    return _DatabaseFacts(application, version, tables, trouble)


def _check_ours(path: Path, seen: _DatabaseFacts) -> None:
    if seen.application != APPLICATION:
        raise PetsyncError(
            f"{path} is another program's database, not a journal of petsync",
            hint="It was left as it is, and nothing was sent. Choose another folder with --state.",
        )
    if seen.version not in _READABLE:
        raise PetsyncError(
            f"the journal {path} has version {seen.version}, of a newer petsync; this one reads "
            f"{VERSION}",
            hint="It was left as it is, and nothing was sent. Use that petsync, or choose another "
            "folder with --state.",
        )


def _set_aside(path: Path, why: str) -> PetsyncError:
    """Move a damaged journal out of the way, with all that belongs to it; the error to raise."""
    what = f"the journal {path} is damaged ({' '.join(why.split())})"
    if is_used(path):
        return PetsyncError(
            f"{what}, and a process is still at work with it",
            hint="Nothing was sent, and the file was left where it is. Wait until that process "
            "has ended, and try again.",
        )
    try:
        aside = _move_aside(path)
    except OSError as error:
        return unwritable(path, f"it is damaged, and cannot be set aside: {error.strerror}")
    return PetsyncError(
        f"{what}; it was set aside as {aside}",
        hint="Nothing was sent. Runs that were not finished cannot be resumed: plan again from "
        "the sheet, and look at the plan before you apply it. Rows that add pets without an id may "
        "have been added already; the plan's notes name those whose like is there. The next run "
        "begins a new journal.",
    )


def _move_aside(path: Path) -> Path:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for number in range(1, 1000):
        name = f"damaged-{stamp}" + (f"-{number}" if number > 1 else "")
        aside = path.with_name(f"{path.stem}.{name}{path.suffix}")
        if any(_side(aside, side).exists() for side in ("", *_SIDES)):
            continue
        # Its sides go first: beside a new journal, SQLite would take them for that one's.
        for side in (*_SIDES, ""):
            if _side(path, side).exists():
                _side(path, side).rename(_side(aside, side))
        return aside
    raise FileExistsError(17, "there are too many damaged journals", str(path))


def _side(path: Path, side: str) -> Path:
    return path.with_name(path.name + side)
