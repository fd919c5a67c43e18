"""What goes wrong with a journal, as petsync's errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from petsync.errors import PetsyncError

__all__ = ["DAMAGE", "busy", "code_of", "damaged", "translated", "unwritable"]

DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite and the file system say as a PetsyncError that names the journal."""
    try:
        yield
    except sqlite3.Error as error:
        raise of_sqlite(path, error) from None
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from None


def of_sqlite(path: Path, error: sqlite3.Error) -> PetsyncError:
    """The error as petsync's."""
    code = code_of(error)
    if code in DAMAGE:
        return damaged(path, error)
    return busy(path) if code in _BUSY else unwritable(path, str(error))


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 where Python's module itself raised."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def unwritable(path: Path, why: str) -> PetsyncError:
    """Nothing can be put on disk."""
    return PetsyncError(
        f"the journal {path} cannot be written: {why}",
        hint="Nothing is sent without it. Make room, or choose another folder with --state.",
    )


def busy(path: Path) -> PetsyncError:
    """Another process keeps the file to itself."""
    return PetsyncError(
        f"the journal {path} cannot be written: another process keeps it locked",
        hint="Nothing is sent without it. End the program that has the file open, and go on with "
        "`petsync resume`.",
    )


def damaged(path: Path, why: object) -> PetsyncError:
    """The file is no sound database any more."""
    return PetsyncError(
        f"the journal {path} is damaged: {why}",
        hint="Nothing more is sent. `petsync runs` looks at it and says what is to be done.",
    )
