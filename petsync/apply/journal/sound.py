"""Whether a file is a sound journal that this petsync may write to; one that is damaged is set
aside, and any other is left as it is.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from petsync._file import must_be_ordinary
from petsync.apply.journal.database import PATIENCE
from petsync.apply.journal.schema import APPLICATION, NAMES, VERSION
from petsync.apply.journal.trouble import (
    DAMAGE,
    code_of,
    of_sqlite,
    translated,
    unwritable,
)
from petsync.apply.journal.use import is_used
from petsync.errors import PetsyncError

__all__ = ["check_sound"]

_SIDES = ("-wal", "-shm")


class _Seen(msgspec.Struct, frozen=True):
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
    with translated(path):
        for each in (path, *(_side(path, side) for side in _SIDES)):
            must_be_ordinary(each)
    seen = None if _side(path, "-wal").exists() else _looked(path, "mode=ro&immutable=1")
    if seen is None or seen.trouble:
        # Now under lock and key: what looks like damage may be another process's checkpoint.
        seen = _looked(path, "mode=ro")
    if seen.trouble:
        raise _set_aside(path, seen.trouble)
    if not seen.is_blank:
        _check_ours(path, seen)
    return not seen.is_blank


def _looked(path: Path, how: str) -> _Seen:
    """The file as it is, opened so that nothing is written to it; immutable, without even a log
    beside it.
    """
    try:
        return _asked(f"{path.absolute().as_uri()}?{how}")
    except UnicodeDecodeError as error:
        return _Seen(0, 0, frozenset(), str(error))
    except sqlite3.Error as error:
        if code_of(error) in (0, *DAMAGE):
            return _Seen(0, 0, frozenset(), str(error))
        raise of_sqlite(path, error) from None


def _asked(uri: str) -> _Seen:
    with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = frozenset(name for (name,) in names)
        trouble = ""
        if (application, version) == (APPLICATION, VERSION):
            (told,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            missing = NAMES - tables
            trouble = f"it has no table {min(missing)}" if missing else told.replace("ok", "")
    return _Seen(application, version, tables, trouble)


def _check_ours(path: Path, seen: _Seen) -> None:
    if seen.application != APPLICATION:
        raise PetsyncError(
            f"{path} is another program's database, not a journal of petsync",
            hint="It was left as it is, and nothing was sent. Choose another folder with --state.",
        )
    if seen.version != VERSION:
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
        aside = _moved(path)
    except OSError as error:
        return unwritable(path, f"it is damaged, and cannot be set aside: {error.strerror}")
    return PetsyncError(
        f"{what}; it was set aside as {aside}",
        hint="Nothing was sent. Runs that were not finished cannot be resumed: plan again from "
        "the sheet, and look at the plan before you apply it. Rows that add pets without an id may "
        "have been added already; the plan's notes name those whose like is there. The next run "
        "begins a new journal.",
    )


def _moved(path: Path) -> Path:
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
