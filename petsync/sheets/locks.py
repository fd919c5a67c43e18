"""Who has a spreadsheet open, by the lock files that spreadsheet programs put beside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from os.path import lexists
from pathlib import Path

from petsync.errors import SheetError

__all__ = ["must_be_closed"]

_LONGEST = 54


def must_be_closed(path: Path) -> None:
    """Raise SheetError where Excel or LibreOffice has the file open."""
    for program, lock, owner in _locks(path):
        by = f" ({owner})" if owner else ""
        raise SheetError(
            f"{path}: {program} has the file open{by}",
            hint=f"Close it there. If it is not open, delete {lock}, which a crash left behind.",
        )


def _locks(path: Path) -> Iterator[tuple[str, Path, str]]:
    """Each lock that is there: the program, the lock file, who made it."""
    for file in dict.fromkeys((path.absolute(), path.resolve())):
        excel = file.with_name(f"~${file.name}")
        office = file.with_name(f".~lock.{file.name}#")
        if lexists(excel):
            yield "Excel", excel, _excel_user(_read(excel))
        if lexists(office):
            yield "LibreOffice", office, _office_user(_read(office))


def _read(lock: Path) -> bytes:
    """The beginning of the lock file. Nothing else that has its name is read: a pipe would wait for
    ever.
    """
    try:
        if not stat.S_ISREG(lock.lstat().st_mode):
            return b""
        with open(lock, "rb", opener=_at_once) as file:
            return file.read(1024)
    except OSError:
        return b""


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting, where the system can do that."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _excel_user(data: bytes) -> str:
    """The name behind its length, as Excel writes it at the start."""
    length = data[0] if data else 0
    return _shown(data[1 : 1 + min(length, _LONGEST)])


def _office_user(data: bytes) -> str:
    """The first of the lock's comma-separated words."""
    return _shown(data.partition(b",")[0])


def _shown(name: bytes) -> str:
    text = name.decode("utf-8", "replace").strip()
    return text[:_LONGEST] if text.isprintable() else ""
