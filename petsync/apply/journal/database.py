"""The journal's file: made for this user alone, and connected to."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from petsync._file import make_state_folder, must_be_ordinary, open_private
from petsync.apply.journal.schema import APPLICATION, TABLES, VERSION
from petsync.apply.journal.trouble import BUSY, code_of, translated, translated_reading

__all__ = ["PATIENCE", "connect", "empty", "make", "reading", "writing"]

PATIENCE = 30.0
"""How many seconds a connection waits for another process's transaction."""


def make(path: Path) -> None:
    """See to it that there is a journal; its folder and file are for this user alone."""
    with translated(path):
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
