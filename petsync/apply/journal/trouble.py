"""What goes wrong with a journal, as petsync's errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from petsync.errors import PetsyncError

__all__ = [
    "BUSY",
    "DAMAGE",
    "anew",
    "closed",
    "code_of",
    "of_sqlite",
    "translated",
    "translated_reading",
    "unwritable",
]

DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite and the file system say as a PetsyncError that names the journal."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise damaged(path, error) from None
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
        raise damaged(path, error) from None
    except sqlite3.Error as error:
        # Text that is no text: Python's module says so, not SQLite.
        if code_of(error) in (0, *DAMAGE):
            raise damaged(path, error) from None
        raise _unreadable(path, str(error)) from None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None


def of_sqlite(path: Path, error: sqlite3.Error) -> PetsyncError:
    """The error as petsync's."""
    code = code_of(error)
    if code in DAMAGE:
        return damaged(path, error)
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


def closed(path: Path) -> PetsyncError:
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


def damaged(path: Path, why: object) -> PetsyncError:
    """The file is no sound database any more, or never was."""
    return PetsyncError(
        f"the journal {path} is damaged: {why}",
        hint="Nothing more is sent. `petsync runs`, once no run is at work, sets it aside and says "
        "what that means.",
    )
