"""A file is written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from petsync._file import landing
from petsync.errors import SheetError

__all__ = ["create", "replace"]


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step, with the mode that the file had or a new one gets.

    Once it returns, the file is on the disk, also if the power fails. Raises SheetError where it
    cannot be written; what was there is then untouched.
    """
    with _told(path):
        target = landing(path)
        with _beside(target, data) as new:
            if target.exists():
                _like(new, target)
            new.replace(target)
        _settle(target.parent)


def create(path: Path, data: bytes, *, like: Path) -> bool:
    """Put `data` at `path`, where no file is yet, with the mode and the times of another file;
    whether it was done.

    Raises SheetError where it cannot be written.
    """
    with _told(path):
        with _beside(path, data) as new:
            shutil.copystat(like, new)
            done = _placed(new, path)
        _settle(path.parent)
        return done


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


@contextmanager
def _beside(target: Path, data: bytes) -> Iterator[Path]:
    """A new file in the same folder with the data, on the disk; it goes if it is not moved."""
    new = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.tmp")
    try:
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)


def _placed(new: Path, path: Path) -> bool:
    """Give the file its name, unless another one has it."""
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    except OSError:
        # The file system knows no second name of a file.
        if path.exists():
            return False
        new.replace(path)
    return True


def _like(new: Path, old: Path) -> None:
    """Give the file the mode of another, and its owner where that is allowed."""
    about = old.stat()
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(new, about.st_uid, about.st_gid)
    new.chmod(about.st_mode & 0o777)


def _settle(folder: Path) -> None:
    """Have the folder's entry on the disk too, where the system can do that."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
    return "Close it where another program has it open, and check permission and free space."
