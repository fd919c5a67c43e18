"""The store's file: SQLite in WAL mode, one writer with group commit, and snapshots to read from.

What holds: an answer is sent after its transaction is committed. A killed process loses nothing
that was answered. With a file given by the user (`durable`), SQLite runs with synchronous=FULL,
so the commit has also reached the disk: a power loss takes nothing answered either, as far as the
disk keeps its word. The temporary file of a `Sandbox` without `db` is not flushed.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from petsync._file import open_private
from petsync.errors import SettingsError
from petsync.sandbox.writer import Writer

__all__ = ["Storage"]

T = TypeVar("T")
_OURS = 0x50657453
_VERSION = 2
_SCHEMA = """
CREATE TABLE pet (
    id INTEGER PRIMARY KEY,
    status TEXT,
    xml INTEGER NOT NULL,
    body BLOB NOT NULL,
    arrived INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX pet_by_arrival ON pet (arrived);
CREATE INDEX pet_by_status ON pet (status, id);
CREATE INDEX pet_not_xml ON pet (id) WHERE xml = 0;
CREATE TABLE tag (pet_id INTEGER NOT NULL, name TEXT NOT NULL);
CREATE INDEX tag_by_name ON tag (name, pet_id);
CREATE INDEX tag_by_pet ON tag (pet_id);
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE image (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    pet_id INTEGER NOT NULL,
    media TEXT NOT NULL,
    metadata TEXT,
    content BLOB NOT NULL
);
CREATE TABLE token (
    digest BLOB PRIMARY KEY,
    kind TEXT NOT NULL,
    client_id TEXT NOT NULL,
    scopes TEXT NOT NULL,
    expires REAL NOT NULL,
    family TEXT NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX token_by_family ON token (family);
"""


class Storage:
    """The open file. Raises SettingsError where the path holds anything but a sandbox's store."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._beside = path.with_name(f"{path.name}.lock")
        self._lock = self._locked() if durable else None
        try:
            self._writing = self._opened(durable=durable)
        except BaseException:
            self._unlock()
            raise
        self.reader = self.connect()
        self.writer = Writer(self._writing, in_thread=durable)
        self._idle: list[sqlite3.Connection] = []

    def connect(self) -> sqlite3.Connection:
        """A connection of one's own to read from, in any thread; the caller closes it."""
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("PRAGMA query_only = 1")
        return connection

    def write(self, job: Callable[[sqlite3.Connection], T]) -> Awaitable[T]:
        """What `job` returns, once it is committed (see Writer)."""
        return self.writer.run(job)

    def load(self, job: Callable[[sqlite3.Connection], None]) -> None:
        """Run a job before the server starts, in a transaction of its own."""
        with self._writing:
            self._writing.execute("BEGIN IMMEDIATE")
            job(self._writing)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one moment of the store for as long as it is held."""
        connection = self._idle.pop() if self._idle else self.connect()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("ROLLBACK")
            self._idle.append(connection)

    def close(self) -> None:
        """Release the file; nothing can be asked afterwards."""
        self.writer.close()
        for connection in (*self._idle, self.reader, self._writing):
            connection.close()
        self._unlock()

    def _locked(self) -> int:
        """Hold the file beside the store's that one server at a time can hold."""
        try:
            lock = open_private(self._beside, os.O_RDWR)
        except OSError as error:
            raise self._refused(f"cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that ends takes its file away: what was opened before that protects nothing.
            if self._beside.stat().st_ino == os.fstat(lock).st_ino:
                return lock
        except FileNotFoundError:
            pass
        except OSError:
            os.close(lock)
            raise self._refused("is in use: another server keeps its pets there") from None
        os.close(lock)
        return self._locked()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._beside.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def _opened(self, *, durable: bool) -> sqlite3.Connection:
        try:
            with suppress(FileExistsError):
                os.close(open_private(self.path.resolve(), os.O_RDWR | os.O_EXCL))
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        except OSError as error:
            raise self._refused(f"cannot be opened: {error.strerror}") from None
        except sqlite3.Error as error:
            raise self._refused(f"cannot be opened: {error}") from None
        try:
            self._prepare(connection, durable=durable)
        except sqlite3.Error as error:
            connection.close()
            raise self._refused(f"cannot be used: {error}") from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection, *, durable: bool) -> None:
        connection.execute("PRAGMA busy_timeout = 10000")
        self._recognise(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        if not _pragma(connection, "application_id"):
            connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {_OURS};"
                f"PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        elif _pragma(connection, "user_version") == 1:
            _remember_arrival(connection)

    def _recognise(self, connection: sqlite3.Connection) -> None:
        """Before anything is changed: a file that is not ours stays as it is."""
        owner, version = (_pragma(connection, p) for p in ("application_id", "user_version"))
        with closing(connection.execute("SELECT count(*) FROM sqlite_schema")) as cursor:
            tables = cursor.fetchone()[0]
        if owner != _OURS and (owner or tables):
            raise self._refused("is an SQLite database, but not a sandbox's store")
        if version > _VERSION:
            raise self._refused(f"was written by a newer version (its format is {version})")
        health = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if health != "ok":
            raise self._refused(f"is damaged: {health}")

    def _refused(self, why: str) -> SettingsError:
        return SettingsError(
            f"{self.path} {why}", hint="Give another file, or a path where there is none yet."
        )


def _remember_arrival(connection: sqlite3.Connection) -> None:
    """Bring a file of version 1 to version 2: its pets arrived in the order of their ids."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ALTER TABLE pet ADD COLUMN arrived INTEGER NOT NULL DEFAULT 0")
        rows = connection.execute("SELECT id FROM pet ORDER BY id").fetchall()
        numbered = ((place, number) for place, (number,) in enumerate(rows, 1))
        connection.executemany("UPDATE pet SET arrived = ? WHERE id = ?", numbered)
        connection.execute("CREATE INDEX pet_by_arrival ON pet (arrived)")
        connection.execute("PRAGMA user_version = 2")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
