"""The journal's file: made, opened, and looked at before anything is changed in it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from petsync.apply.journal.schema import APPLICATION, TABLES, VERSION
from petsync.apply.journal.trouble import translated

__all__ = ["connect", "create", "reading", "writing"]

_PATIENCE = 30.0
"""How many seconds a connection waits for another process's transaction."""


def create(path: Path) -> None:
    """See to it that there is a journal; its folder and file are for this user alone."""
    with translated(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = connect(path)
        try:
            with writing(connection):
                if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                    _fill(connection)
        finally:
            connection.close()


def _fill(connection: sqlite3.Connection) -> None:
    for statement in TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def connect(path: Path) -> sqlite3.Connection:
    """A connection that puts each transaction on disk before it says so."""
    connection = sqlite3.connect(
        path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction: all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
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
    with translated(path or Path()):
        connection = _empty() if path is None else connect(path)
        try:
            yield connection
        finally:
            connection.close()


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _fill(connection)
    return connection
