"""A file is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from petsync import _file
from petsync.errors import SheetError

__all__ = ["create", "replace"]


def replace(
    path: Path, data: bytes, *, follow: bool = True, like: str | Path | None = None
) -> None:
    """Put `data` at `path` in one step, with the mode that the file had or a new one gets; where
    it holds what the sheet `like` says, for nobody who may not read that.

    Without `follow`, for a name that petsync chose, a symbolic link is an error. Once it returns,
    the file is on the disk, also if the power fails. Raises SheetError where it cannot be written;
    what was there is then untouched.
    """
    with _told(path):
        _file.replace(path, data, follow=follow, like=None if like is None else Path(like))


def create(path: Path, data: bytes, *, like: Path) -> bool:
    """Put `data` at `path`, where no file and no link is yet, with the mode and the times of
    another file; whether it was done. Raises SheetError where it cannot be written.
    """
    with _told(path):
        return _file.create(path, data, like=like)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        # A name with a NUL in it is a ValueError.
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SheetError(
            f"{path}: the file cannot be written: {why}", hint=_way_out(path)
        ) from None


def _way_out(target: Path) -> str:
    try:
        os.lstat(target)
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        return "Give it another, shorter name."
    if target.is_dir():
        return "This is a folder; name a file in it."
    if target.exists() and not target.is_file():
        return "Name a file, or a new one."
    if not target.parent.is_dir():
        return f"There is no folder {target.parent}; make it first."
    if target.is_symlink():
        return "Remove the link, or name another file."
    return "Close it where another program has it open, and check permission and free space."
