"""Storage of the sandbox: pets in SQLite, the writer, and the initial pets."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from petsync._files import open_private, try_lock
from petsync.errors import InvalidInputError, ResponseError, SettingsError
from petsync.models import MAX_ID, Pet
from petsync.protocol import json, xml

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "Order",
    "Selection",
    "Storage",
    "Writer",
    "batches",
    "by_status",
    "by_tags",
    "enforce_capacity",
    "fill_storage",
    "find",
    "find_unwritable",
    "insert_pets",
    "is_xml",
    "next_id",
    "put_pet",
    "read_all",
    "read_pets",
    "remove",
    "replace_all",
    "save",
]


# Pets in the store's file: the JSON of each, and the columns for searches.


BATCH = 1000
_SEQUENCE = 2**31 - 1
_SUSPECT = re.compile(rb"\\[ubf]|\xef\xbf[\xbe\xbf]")


@dataclass(frozen=True, slots=True)
class Selection:
    """A query for pets, in the order in which they are sent."""

    sql: str
    values: tuple[str, ...] = ()


Order = Literal["id", "arrived"]
"""The order of a list: by id, or in the order in which the pets were added."""


def by_status(statuses: Sequence[str], order: Order = "id") -> Selection:
    """Return the query for the pets with these statuses."""
    if len(statuses) == 1:
        return _of("SELECT body, xml, id FROM pet WHERE status IN (?)", statuses, order)
    # The plus prevents the use of the index: SQLite reads the pets in `order`, and does not sort.
    return _of("SELECT body, xml, id FROM pet WHERE +status IN (?)", statuses, order)


def by_tags(names: Sequence[str], *, once_per_tag: bool, order: Order = "id") -> Selection:
    """Return the query for the pets with any of these tags: each pet once, or once per matching
    tag.
    """
    joined = "SELECT body, xml, id FROM tag JOIN pet ON id = pet_id WHERE name IN (?)"
    listed = "SELECT body, xml, id FROM pet WHERE id IN (SELECT pet_id FROM tag WHERE name IN (?))"
    return _of(joined if once_per_tag else listed, names, order)


def batches(connection: sqlite3.Connection, selection: Selection) -> Iterator[list[bytes]]:
    """Yield the selected pets' JSON in lists of `BATCH` pets; the last list may be shorter."""
    cursor = connection.execute(selection.sql, selection.values)
    while rows := cursor.fetchmany(BATCH):
        yield [row[0] for row in rows]


def find_unwritable(connection: sqlite3.Connection, selection: Selection) -> int | None:
    """Return the id of the first selected pet that XML cannot represent; None if there is none."""
    if connection.execute("SELECT 1 FROM pet WHERE xml = 0 LIMIT 1").fetchone() is None:
        return None
    rows = connection.execute(selection.sql, selection.values)
    return next((number for _, is_fine, number in rows if not is_fine), None)


def find(connection: sqlite3.Connection, number: int) -> bytes | None:
    """Return a pet's JSON, None if there is no such pet."""
    row = connection.execute("SELECT body FROM pet WHERE id = ?", (number,)).fetchone()
    return None if row is None else bytes(row[0])


def read_all(connection: sqlite3.Connection) -> list[Pet]:
    """Return every pet, sorted by id."""
    rows = connection.execute("SELECT body FROM pet ORDER BY id")
    return json.decode_pets(b"[" + b",".join(row[0] for row in rows) + b"]")


def save(connection: sqlite3.Connection, pet: Pet, nulls: Collection[str] = frozenset()) -> bytes:
    """Store the pet, new or existing, and return its JSON. The pet must have an id.

    The JSON omits the lists named in `nulls`.
    """
    body = json.encode_pet(pet)
    if nulls:
        plain = msgspec.json.decode(body)
        body = msgspec.json.encode({k: value for k, value in plain.items() if k not in nulls})
    changed = connection.execute(
        "UPDATE pet SET status = ?, xml = ?, body = ? WHERE id = ?",
        (pet.status, is_xml(pet, body), body, pet.id),
    )
    if changed.rowcount:
        connection.execute("DELETE FROM tag WHERE pet_id = ?", (pet.id,))
    else:
        connection.execute(
            "INSERT INTO pet (id, status, xml, body, arrived)"
            " VALUES (?, ?, ?, ?, (SELECT coalesce(max(arrived), 0) + 1 FROM pet))",
            (pet.id, pet.status, is_xml(pet, body), body),
        )
    tags = [(pet.id, tag.name) for tag in pet.tags if tag.name is not None]
    connection.executemany("INSERT INTO tag (pet_id, name) VALUES (?, ?)", tags)
    return body


def insert_pets(connection: sqlite3.Connection, pets: Sequence[Pet]) -> None:
    """Insert pets with ids into an empty store, several times as fast as one by one."""
    bodies = ((place, pet, json.encode_pet(pet)) for place, pet in enumerate(pets, 1))
    connection.executemany(
        "INSERT INTO pet (id, status, xml, body, arrived) VALUES (?, ?, ?, ?, ?)",
        ((pet.id, pet.status, is_xml(pet, body), body, place) for place, pet, body in bodies),
    )
    connection.executemany(
        "INSERT INTO tag (pet_id, name) VALUES (?, ?)",
        ((pet.id, tag.name) for pet in pets for tag in pet.tags if tag.name is not None),
    )


def put_pet(connection: sqlite3.Connection, pet: Pet, *, reuse: bool) -> Pet:
    """Store a pet, new or as a replacement, and return it; a pet without an id gets one."""
    if pet.id is None:
        pet = msgspec.structs.replace(pet, id=next_id(connection, reuse=reuse))
    save(connection, pet)
    return pet


def enforce_capacity(connection: sqlite3.Connection, capacity: int | None) -> None:
    """Remove the pet that was added first, if the store has more pets than its capacity."""
    if capacity is None:
        return
    (count,) = connection.execute("SELECT count(*) FROM pet").fetchone()
    if count > capacity:
        oldest = connection.execute("SELECT id FROM pet ORDER BY arrived LIMIT 1").fetchone()
        remove(connection, oldest[0])


def remove(connection: sqlite3.Connection, number: int) -> bool:
    """Remove a pet, and return whether it existed. Its id, if below 2^31, counts as used for
    `next_id` without `reuse`.
    """
    if not connection.execute("DELETE FROM pet WHERE id = ?", (number,)).rowcount:
        return False
    connection.execute("DELETE FROM tag WHERE pet_id = ?", (number,))
    if number <= _SEQUENCE:
        _raise_counter(connection, "highest", number)
    return True


def next_id(connection: sqlite3.Connection, *, reuse: bool) -> int:
    """Return the id for a pet without one: the highest id plus one.

    With `reuse`, only existing ids count, and the id after 2^63-1 is 2^63-1 again. Otherwise, ids
    of removed pets count too, but ids from 2^31 on do not. If the highest id that counts is 2^31-1,
    the result is the lowest free id that was not assigned in this way before.
    """
    limit = MAX_ID if reuse else _SEQUENCE
    row = connection.execute("SELECT max(id) FROM pet WHERE id <= ?", (limit,)).fetchone()
    highest = max(0, row[0] or 0, 0 if reuse else _counter(connection, "highest"))
    if reuse or highest < limit:
        return min(highest + 1, limit)
    number = _gap(connection, _counter(connection, "gap") + 1)
    _raise_counter(connection, "gap", number)
    return number


def replace_all(connection: sqlite3.Connection, pets: Iterable[Pet]) -> None:
    """Replace all pets and images with these pets; pets without an id get one."""
    for table in ("pet", "tag", "counter", "image"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608  the names are constants
    for pet in pets:
        put_pet(connection, pet, reuse=False)


def is_xml(pet: Pet, body: bytes) -> bool:
    """Return true if XML can represent the pet. `body` is its JSON."""
    labels = (pet, *pet.tags, *(() if pet.category is None else (pet.category,)))
    if not _SUSPECT.search(body) and all(value.extra is None for value in labels):
        return True
    try:
        xml.encode_pet(pet)
    except InvalidInputError:
        return False
    return True


def _of(sql: str, values: Sequence[str], order: Order) -> Selection:
    distinct = tuple(dict.fromkeys(values))
    marks = f"({','.join('?' * len(distinct))})"
    return Selection(f"{sql.replace('(?)', marks)} ORDER BY {order}", distinct)


def _gap(connection: sqlite3.Connection, start: int) -> int:
    for (used,) in connection.execute("SELECT id FROM pet WHERE id >= ? ORDER BY id", (start,)):
        if used != start:
            break
        start += 1
    return start


def _counter(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT value FROM counter WHERE name = ?", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def _raise_counter(connection: sqlite3.Connection, name: str, value: int) -> None:
    connection.execute(
        "INSERT INTO counter VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
        (name, value),
    )


# Group commit: concurrent writes reach the disk together.


T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
Waiting = tuple[Job, "asyncio.Future[Any]"]
_BATCH = 500


class Writer:
    """The only writer of the store. It runs jobs one after another, and commits them in batches.

    A job must not raise an exception after it has written anything. An sqlite3.Error or a
    MemoryError rolls back the whole batch, and each job of the batch fails with this error. With
    `in_thread`, the commit does not block the event loop.
    """

    def __init__(self, connection: sqlite3.Connection, *, in_thread: bool) -> None:
        self._connection = connection
        self._queue: list[Waiting] = []
        self._flushing: asyncio.Task[None] | None = None
        self._thread = (
            ThreadPoolExecutor(1, thread_name_prefix="petsync-sandbox-commit")
            if in_thread
            else None
        )

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run `job`, and return its result after the commit."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.append((job, future))
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush())
        return await future

    def close(self) -> None:
        """Wait for an active commit."""
        if self._thread is not None:
            self._thread.shutdown()

    async def _flush(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue[:_BATCH], self._queue[_BATCH:]
                await self._transact(batch)
        finally:
            self._flushing = None

    async def _transact(self, batch: list[Waiting]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [_attempt(job, self._connection) for job, _ in batch]
            await self._commit()
        except (sqlite3.Error, MemoryError) as error:
            if self._connection.in_transaction:
                self._connection.rollback()
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            _settle(future, result)

    async def _commit(self) -> None:
        if self._thread is None:
            self._connection.commit()
        else:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._connection.commit)


def _attempt(job: Job, connection: sqlite3.Connection) -> Any:
    try:
        return job(connection)
    except (sqlite3.Error, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  it is raised again where the job's result is awaited
        return error


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


# The store's file: SQLite in WAL mode, one writer with group commit, and snapshots to read from.
#
# Guarantee: a response is sent after its transaction is committed, so a killed process loses
# nothing that it confirmed. With a file given by the user (`durable`), SQLite runs with
# synchronous=FULL, so the commit has also reached the disk: after a power loss, nothing confirmed
# is lost either, if the disk flushes reliably. The temporary file of a `Sandbox` without `db` is
# not flushed.


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
    """The open file of a sandbox's store. Raises SettingsError if the file is not a sandbox's
    store, or if it cannot be used.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._side_path = path.with_name(f"{path.name}.lock")
        self._lock = self._acquire_lock() if durable else None
        try:
            self._writing = self._open(durable=durable)
        except BaseException:
            self._unlock()
            raise
        self.reader = self.connect()
        self.writer = Writer(self._writing, in_thread=durable)
        self._idle: list[sqlite3.Connection] = []

    def connect(self) -> sqlite3.Connection:
        """Return a separate read-only connection for any thread; the caller closes it."""
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("PRAGMA query_only = 1")
        return connection

    def write(self, job: Callable[[sqlite3.Connection], T]) -> Awaitable[T]:
        """Run `job`, and return its result after the commit (see Writer)."""
        return self.writer.run(job)

    def load(self, job: Callable[[sqlite3.Connection], None]) -> None:
        """Run a job in a separate transaction. The server must not have started."""
        with self._writing:
            self._writing.execute("BEGIN IMMEDIATE")
            job(self._writing)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection with a snapshot of the store."""
        connection = self._idle.pop() if self._idle else self.connect()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("ROLLBACK")
            self._idle.append(connection)

    def close(self) -> None:
        """Release the file. The storage cannot be used after that."""
        self.writer.close()
        for connection in (*self._idle, self.reader, self._writing):
            connection.close()
        self._unlock()

    def _acquire_lock(self) -> BaseFileLock:
        """Acquire the lock file beside the store, which only one server at a time can lock."""
        try:
            lock = try_lock(self._side_path)
        except OSError as error:
            raise self._file_error(f"cannot be opened: {error.strerror}") from None
        if lock is None:
            raise self._file_error("is in use by another server")
        return lock

    def _unlock(self) -> None:
        if self._lock is not None:
            # Delete the lock file before the lock is released: filelock does not accept a lock on a
            # deleted file.
            self._side_path.unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def _open(self, *, durable: bool) -> sqlite3.Connection:
        try:
            with suppress(FileExistsError):
                os.close(open_private(self.path.resolve(), os.O_RDWR | os.O_EXCL))
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        except OSError as error:
            raise self._file_error(f"cannot be opened: {error.strerror}") from None
        except sqlite3.Error as error:
            raise self._file_error(f"cannot be opened: {error}") from None
        try:
            self._prepare(connection, durable=durable)
        except sqlite3.Error as error:
            connection.close()
            raise self._file_error(f"cannot be used: {error}") from None
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
        """Check, before any change, that the file is a sandbox's store; any other file stays
        unchanged.
        """
        owner, version = (_pragma(connection, p) for p in ("application_id", "user_version"))
        with closing(connection.execute("SELECT count(*) FROM sqlite_schema")) as cursor:
            tables = cursor.fetchone()[0]
        if owner != _OURS and (owner or tables):
            raise self._file_error("is an SQLite database, but not a sandbox's store")
        if version > _VERSION:
            raise self._file_error(
                f"was written by a newer version of petsync (its format has version {version})"
            )
        health = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if health != "ok":
            raise self._file_error(f"is damaged: {health}")

    def _file_error(self, reason: str) -> SettingsError:
        return SettingsError(
            f"{self.path} {reason}", hint="Choose another file, or a path where no file exists."
        )


def _remember_arrival(connection: sqlite3.Connection) -> None:
    """Upgrade a file from version 1 to 2; its pets count as added in the order of their ids."""
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


# The initial pets of an empty store.


def read_pets(path: Path | None, pets: Sequence[Pet] = ()) -> list[Pet]:
    """Return the pets of a JSON file and the given ones. Raises SettingsError if the file cannot be
    read, if it is not a list of pets, or if two pets have the same id.
    """
    found = [*(_from_file(path) if path is not None else ()), *pets]
    counts = Counter(pet.id for pet in found if pet.id is not None)
    if twice := [number for number, count in counts.items() if count > 1]:
        raise SettingsError(
            f"{path or 'pets'}: {counts[twice[0]]} pets have the id {twice[0]}",
            hint="Give each pet a different id, or none.",
        )
    return found


def fill_storage(storage: Storage, pets: Sequence[Pet]) -> None:
    """Insert the pets if the store is empty; otherwise change nothing."""

    def job(connection: sqlite3.Connection) -> None:
        if connection.execute("SELECT 1 FROM pet LIMIT 1").fetchone() is None:
            insert_pets(connection, [pet for pet in pets if pet.id is not None])
            for pet in pets:
                if pet.id is None:
                    put_pet(connection, pet, reuse=False)

    storage.load(job)


def _from_file(path: Path) -> list[Pet]:
    try:
        return json.decode_pets(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except ResponseError as error:
        raise SettingsError(
            f"{path} is not a list of pets: {error.problem}",
            hint='A seed file is JSON such as [{"name": "Rex", "photoUrls": []}].',
        ) from None
