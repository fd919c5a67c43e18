"""The journal file: tables, errors, connections, checksums and integrity, and the store's lock."""

from __future__ import annotations

import binascii
import errno
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

from petsync._files import make_state_folder, must_be_regular, open_private, try_lock
from petsync.errors import LockedError, PetsyncError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "APPLICATION",
    "BUSY",
    "DAMAGE",
    "HEARTBEAT_S",
    "LOCK_TIMEOUT_S",
    "NAME",
    "NAMES",
    "TABLES",
    "VERSION",
    "Lock",
    "body_checksum",
    "build_closed_error",
    "build_locked_error",
    "build_taken_over_error",
    "build_unwritable_error",
    "check_integrity",
    "claim_lock",
    "connect",
    "copy_error",
    "create_journal",
    "format_time",
    "get_sqlite_code",
    "is_used",
    "mark_in_use",
    "open_empty",
    "open_for_reading",
    "read_lock",
    "release_lock",
    "renew_lock",
    "row_checksum",
    "seconds_between",
    "transaction",
    "translate_errors",
    "translate_sqlite_error",
]


# The tables of a journal; docs/journal.md describes each column.


NAME = "journal.db"
APPLICATION = 0x70657473
"""The application_id of the SQLite file: "pets"."""
VERSION = 3
"""The user_version of the SQLite file. A petsync that does not know it refuses the file."""
_READABLE = frozenset({2, VERSION})
"""The versions that this petsync can use. Version 2 has another table, `used`, which is empty."""

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


# Errors of a journal.


DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def translate_errors(path: Path, *, reading: bool = False) -> Iterator[None]:
    """Convert errors of SQLite and the file system to PetsyncErrors with the journal's path."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise build_damaged_error(path, error) from None
    except sqlite3.Error as error:
        translate = _translate_read_error if reading else translate_sqlite_error
        raise translate(path, error) from None
    except OSError as error:
        build = _build_unreadable_error if reading else build_unwritable_error
        raise build(path, error.strerror or str(error), _CURES.get(error.errno or 0, "")) from None


_FREE = "Get the permission to read and write the folder and its files"
_MOVE = "Remove or rename what is there"
_CURES = {
    errno.EACCES: _FREE,
    errno.EPERM: _FREE,
    **dict.fromkeys((errno.ELOOP, errno.EINVAL, errno.ENOTDIR, errno.EISDIR), _MOVE),
    errno.ENAMETOOLONG: "Use a shorter name",
}
"""The way out of an error of the file system, besides another folder."""


def _translate_read_error(path: Path, error: sqlite3.Error) -> PetsyncError:
    # Code 0: the error is from Python's sqlite3 module, because a text is not UTF-8.
    if get_sqlite_code(error) in (0, *DAMAGE):
        return build_damaged_error(path, error)
    return _build_unreadable_error(path, str(error))


def translate_sqlite_error(path: Path, error: sqlite3.Error) -> PetsyncError:
    """Return the PetsyncError for an error of SQLite."""
    code = get_sqlite_code(error)
    if code in DAMAGE:
        return build_damaged_error(path, error)
    return _build_busy_error(path) if code in BUSY else build_unwritable_error(path, str(error))


def get_sqlite_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 if the error is from Python's sqlite3 module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def build_unwritable_error(path: Path, why: str, cure: str = "") -> PetsyncError:
    cure = cure or "Free disk space or restore the file"
    return PetsyncError(
        f"the journal {path} cannot be written: {why}",
        hint=f"petsync sends nothing without the journal. {cure}, or choose another folder "
        "(--state, in Python state=…).",
    )


def copy_error(error: PetsyncError) -> PetsyncError:
    """Return a copy of the error without its traceback."""
    return type(error)(error.problem, hint=error.cure)


def build_closed_error(path: Path) -> PetsyncError:
    """Return the error for a session that was closed."""
    return PetsyncError(f"the journal {path} cannot be written: the session of this run was closed")


def _build_unreadable_error(path: Path, why: str, cure: str = "") -> PetsyncError:
    hint = (
        "Make sure that no other program locks the file, that you may read and write it, and that "
        "the disk has free space."
    )
    if cure:
        hint = f"{cure}, or choose another folder (--state, in Python state=…)."
    return PetsyncError(f"the journal {path} cannot be read: {why}", hint=hint)


def _build_busy_error(path: Path) -> PetsyncError:
    return PetsyncError(
        f"the journal {path} cannot be written: another process keeps it locked",
        hint="petsync sends nothing without the journal. Close the program that has the file open, "
        "and try again; `petsync resume` finishes a run that was stopped.",
    )


def build_damaged_error(path: Path, why: object) -> PetsyncError:
    """Return the error for a file that is not a valid database."""
    return PetsyncError(
        f"the journal {path} is damaged: {why}",
        hint="Nothing more is sent. When no run is in progress, `petsync runs` renames the file "
        "and explains the consequences.",
    )


# The journal's file, created for this user only, and connections to it.


LOCK_TIMEOUT_S = 30.0
"""Seconds that a connection waits for another process's transaction."""


def create_journal(path: Path) -> None:
    """Create the journal if it is missing or empty. Only this user can access the file."""
    with translate_errors(path):
        make_state_folder(path.parent)
        # Do not open an existing file here: closing it would release the file locks of this
        # process's SQLite connections.
        with suppress(FileExistsError):
            os.close(open_private(path, os.O_RDWR | os.O_EXCL))
        connection = connect(path)
        try:
            with transaction(connection):
                if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                    _create_tables(connection)
        finally:
            connection.close()


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to an existing journal, for one thread at a time. A commit returns when
    the transaction is on disk. Raises sqlite3.Error, and OSError for a file that is not regular.
    """
    must_be_regular(path)
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def open_empty() -> sqlite3.Connection:
    """Return a connection to an empty journal in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _create_tables(connection)
    return connection


@contextmanager
def transaction(
    connection: sqlite3.Connection, keep_waiting: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Run one transaction. While another process locks the file, `keep_waiting` decides after each
    timeout of the connection whether to wait again.
    """
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if get_sqlite_code(error) not in BUSY or not keep_waiting():
                raise
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def open_for_reading(path: Path | None) -> Iterator[sqlite3.Connection]:
    """Yield a new connection to the journal, or to an empty one if `path` is None."""
    with translate_errors(path or Path(), reading=True):
        connection = open_empty() if path is None else connect(path)
        try:
            yield connection
        except (ValueError, msgspec.DecodeError) as error:
            if isinstance(error, PetsyncError | UnicodeDecodeError):
                raise
            # Most reads do not look at the checksums of the rows.
            raise _build_unreadable_error(
                path or Path(),
                f"a row in it is damaged: {error}",
                "The file was not changed. Rename it, plan again from the sheet, and read the plan "
                "before you apply it, because rows without an id may have been added already",
            ) from None
        finally:
            connection.close()


def _create_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


# Times in the journal: ISO 8601, in UTC, with milliseconds.


def format_time(seconds: float) -> str:
    """Return the text for a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def seconds_between(earlier: str, later: str) -> float:
    """Return the seconds between two times; 0.0 if one is unknown, or if the second is earlier."""
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, round(passed.total_seconds(), 3))


# Lock: a row of the journal that allows only one session at a time on a store. A heartbeat renews
# it.


HEARTBEAT_S = 2.0
"""Seconds between two heartbeats."""
_INTERRUPTED = """
UPDATE sitting SET ended = ?, stopped = 'interrupted' WHERE run = ? AND number = ? AND ended = ''
"""
_STALE_S = 20.0
"""Seconds without a heartbeat after which the holder counts as dead."""


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """The lock on a store, and the process, run and session that hold it."""

    store: str
    run: str
    session: int
    claim: str
    pid: int
    host: str
    machine: str
    """Distinguishes hosts with the same name; "" if unknown."""
    born: str
    """When the process started, to distinguish processes with the same pid; "" if unknown."""
    since: str
    heartbeat: float
    """Seconds since 1970."""

    @classmethod
    def for_this_process(cls, store: str, run: str, session: int) -> Lock:
        """Return a lock for this process, which `claim_lock` can take."""
        pid, now = os.getpid(), time.time()
        return cls(
            store=store,
            run=run,
            session=session,
            claim=secrets.token_hex(8),
            pid=pid,
            host=platform.node(),
            machine=_identify_machine(),
            born=_find_start_time(pid) or "",
            since=format_time(now),
            heartbeat=now,
        )

    @property
    def is_alive(self) -> bool:
        """False if the holder is known to have ended, or if its last heartbeat is too old."""
        if time.time() - self.heartbeat >= _STALE_S:
            return False
        return self.machine != _identify_machine() or _is_process_alive(self.pid, self.born)


def read_lock(connection: sqlite3.Connection, store: str) -> Lock | None:
    """Return the lock on the store, even if its holder is dead; None if there is none."""
    row = connection.execute("SELECT * FROM lock WHERE store = ?", (store,)).fetchone()
    names = Lock.__struct_fields__
    return None if row is None else Lock(**dict(zip(names, row, strict=True)))


def claim_lock(connection: sqlite3.Connection, lock: Lock) -> Lock | None:
    """Take the store's lock, and return the lock of a dead holder, if there was one. Must be called
    in a transaction. Raises LockedError if another process has the lock.
    """
    other = read_lock(connection, lock.store)
    if other is not None and other.is_alive:
        raise build_locked_error(other)
    row = msgspec.structs.astuple(lock)
    connection.execute("INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    return other


def renew_lock(connection: sqlite3.Connection, lock: Lock) -> bool:
    """Write a heartbeat. Return false if the lock was lost."""
    renewed = connection.execute(
        "UPDATE lock SET heartbeat = ? WHERE store = ? AND claim = ?",
        (time.time(), lock.store, lock.claim),
    )
    return renewed.rowcount == 1


def release_lock(connection: sqlite3.Connection, lock: Lock, now: str) -> None:
    """Release the lock, unless it was lost. A session without a recorded end is then marked as
    interrupted.
    """
    deleted = connection.execute(
        "DELETE FROM lock WHERE store = ? AND claim = ?", (lock.store, lock.claim)
    )
    if deleted.rowcount:
        connection.execute(_INTERRUPTED, (now, lock.run, lock.session))


def build_taken_over_error(lock: Lock, other: Lock | None) -> LockedError:
    """Return the error for a process that lost the lock because its heartbeat was too old."""
    owner = (
        "another process"
        if other is None
        else f"run {other.run} (process {other.pid} on {other.host})"
    )
    return LockedError(
        f"{owner} has taken over {lock.store} from run {lock.run}, which sent no heartbeat for "
        f"{_STALE_S:.0f} seconds",
        hint="This process sends nothing more. `petsync runs` shows which run is in progress; "
        f"`petsync resume {lock.run}` finishes this run afterwards.",
    )


def build_locked_error(other: Lock) -> LockedError:
    return LockedError(
        f"run {other.run} is working on {other.store}: process {other.pid} on {other.host}, since "
        f"{other.since}",
        hint="Wait until it has ended, or stop it with Ctrl-C and run "
        f"`petsync resume {other.run}`. petsync notices a killed process within "
        f"{_STALE_S:.0f} seconds.",
    )


@cache
def _identify_machine() -> str:
    """Return an identifier of this machine; "" if there is none. On Linux, it changes when the
    machine is restarted.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return "" if os.name == "nt" else f"{platform.node()} {os.name}"


def _is_process_alive(pid: int, born: str) -> bool:
    # On Windows, os.kill would end the process. Only the heartbeat counts there.
    if os.name == "nt":
        return True
    if Path("/proc/self/stat").exists():
        return _find_start_time(pid) in (born, "?")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _find_start_time(pid: int) -> str | None:
    """Return when the process started, in clock ticks since boot; None if the process does not
    exist, "?" if unknown.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return "?"
    # The process name, in parentheses, may contain anything. The state is the first field after it.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in b"ZX" else fields[19].decode()


# Checksum of a row, to detect disk errors.


_encoder = msgspec.json.Encoder()


def row_checksum(values: tuple[Any, ...]) -> int:
    """Return the CRC-32 of the values' JSON array, in which bytes are base64."""
    return zlib.crc32(_encoder.encode(values))


def body_checksum(values: tuple[Any, ...]) -> int:
    """Return the result of `row_checksum` for values that may have long bytes, of which only a part
    is encoded at a time.
    """
    checksum, separator = 0, b"["
    for value in values:
        checksum = zlib.crc32(separator, checksum)
        if isinstance(value, bytes):
            checksum = zlib.crc32(b'"', checksum)
            for first in range(0, len(value), _CHUNK):
                chunk = binascii.b2a_base64(value[first : first + _CHUNK], newline=False)
                checksum = zlib.crc32(chunk, checksum)
            checksum = zlib.crc32(b'"', checksum)
        else:
            checksum = zlib.crc32(_encoder.encode(value), checksum)
        separator = b","
    return zlib.crc32(b"]", checksum)


_CHUNK = 3 << 20
"""A number of bytes that base64 encodes without padding."""


# File locks that show whether a process is writing to a journal.


def mark_in_use(path: Path) -> BaseFileLock:
    """Return a lock that marks the journal as in use until it is released or the process ends. Each
    writer locks a different file: the first `journal.N.lock` that is not locked.
    """
    for number in count(1):
        if (lock := try_lock(path.with_suffix(f".{number}.lock"))) is not None:
            return lock
    raise AssertionError


def is_used(path: Path) -> bool:
    """Return true if a process on this machine has marked the journal as in use."""
    for file in path.parent.glob(f"{path.stem}.*.lock"):
        if (lock := try_lock(file)) is None:
            return True
        lock.release()
    return False


# Integrity: check that a file is a journal that this petsync can use. A damaged journal is renamed;
# another program's file is not changed.


_SIDES = ("-wal", "-shm")


class _DatabaseFacts(msgspec.Struct, frozen=True):
    application: int
    version: int
    tables: frozenset[str]
    problem: str

    @property
    def is_blank(self) -> bool:
        """True if the file has no tables and no application id."""
        return not (self.application or self.version or self.tables)


def check_integrity(path: Path, *, reading: bool) -> bool:
    """Return true if the file is a journal, false if it is an empty database.

    Raises PetsyncError if the file belongs to another program or a newer petsync, if it is damaged
    (it is then renamed, unless a process uses it), or if it is not a regular file. The message
    depends on `reading`.
    """
    with translate_errors(path, reading=reading):
        for each in (path, *(_side_file(path, side) for side in _SIDES)):
            must_be_regular(each)
    facts = (
        None if _side_file(path, "-wal").exists() else _inspect_file(path, "mode=ro&immutable=1")
    )
    if facts is None or facts.problem:
        # Check again with SQLite's locks: without them, a checkpoint in progress looks like damage.
        facts = _inspect_file(path, "mode=ro")
    if facts.problem:
        raise _move_damaged(path, facts.problem)
    if not facts.is_blank:
        _check_version(path, facts)
    return not facts.is_blank


def _inspect_file(path: Path, mode: str) -> _DatabaseFacts:
    """Open the file read-only, and return the facts about it."""
    try:
        return _read_header(f"{path.absolute().as_uri()}?{mode}")
    except UnicodeDecodeError as error:
        return _DatabaseFacts(0, 0, frozenset(), str(error))
    except sqlite3.Error as error:
        if get_sqlite_code(error) in (0, *DAMAGE):
            return _DatabaseFacts(0, 0, frozenset(), str(error))
        raise translate_sqlite_error(path, error) from None


def _read_header(uri: str) -> _DatabaseFacts:
    with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT_S)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = frozenset(name for (name,) in names)
        problem = ""
        if application == APPLICATION and version in _READABLE:
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            missing = NAMES - tables
            problem = f"it has no table {min(missing)}" if missing else result.replace("ok", "")
    return _DatabaseFacts(application, version, tables, problem)


def _check_version(path: Path, facts: _DatabaseFacts) -> None:
    if facts.application != APPLICATION:
        raise PetsyncError(
            f"{path} is another program's database, not a journal of petsync",
            hint="The file was not changed, and nothing was sent. Choose another folder (--state, "
            "in Python state=…).",
        )
    if facts.version not in _READABLE:
        raise PetsyncError(
            f"the journal {path} has version {facts.version}; this petsync can use versions "
            f"{min(_READABLE)} to {VERSION}",
            hint="The file was not changed, and nothing was sent. Use the petsync that wrote it, "
            "or choose another folder (--state, in Python state=…).",
        )


def _move_damaged(path: Path, reason: str) -> PetsyncError:
    """Rename a damaged journal, unless it is in use, and return the error to raise."""
    damage = f"the journal {path} is damaged ({' '.join(reason.split())})"
    if is_used(path):
        return PetsyncError(
            f"{damage}, and another process still uses it",
            hint="Nothing was sent, and the file was not renamed. Wait until that process has "
            "ended, and try again.",
        )
    try:
        new_path = _rename_damaged(path)
    except OSError as error:
        return build_unwritable_error(
            path, f"it is damaged, and cannot be renamed: {error.strerror}"
        )
    return PetsyncError(
        f"{damage}; it was renamed to {new_path}",
        hint="Nothing was sent. Unfinished runs cannot be resumed: plan again from the sheet, and "
        "read the plan before you apply it. Rows without an id may have been added already; the "
        "plan's notes name those that have similar pets in the store. The next run starts a new "
        "journal.",
    )


def _rename_damaged(path: Path) -> Path:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for number in range(1, 1000):
        name = f"damaged-{stamp}" + (f"-{number}" if number > 1 else "")
        new_path = path.with_name(f"{path.stem}.{name}{path.suffix}")
        if any(_side_file(new_path, side).exists() for side in ("", *_SIDES)):
            continue
        # Rename the WAL files first: otherwise SQLite could apply them to a new journal.
        for side in (*_SIDES, ""):
            if _side_file(path, side).exists():
                _side_file(path, side).rename(_side_file(new_path, side))
        return new_path
    raise FileExistsError(17, "there are too many damaged journals", str(path))


def _side_file(path: Path, side: str) -> Path:
    return path.with_name(path.name + side)
