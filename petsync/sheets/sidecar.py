"""The sidecar: the file beside a CSV that holds the base of its export."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from petsync import _files
from petsync.errors import SheetError
from petsync.table.base import ParcelError

__all__ = ["INTERRUPTED", "beside", "content", "lines_beside", "write_with"]


_SUFFIX = ".petsync-base"
_MOST = 1 << 30
_UNFINISHED = "petsync-base unfinished"
INTERRUPTED = "the export was interrupted"
"""Why a base is refused that an export did not finish."""


def beside(path: Path) -> Path:
    """Where the sidecar of the file at `path` is: `catalogue.csv.petsync-base`. Links are followed,
    so that a file has one sidecar whatever way leads to it.
    """
    file = Path(os.path.realpath(path))
    return file.with_name(file.name + _SUFFIX)


def lines_beside(path: Path) -> list[str] | None:
    """The lines of the sidecar, None where there is none.

    Raises ParcelError where it cannot be read or its export was not finished.
    """
    sidecar = beside(path)
    try:
        lines = content(sidecar).decode("ascii").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise ParcelError(f"{sidecar.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ParcelError("they were changed") from None
    if _UNFINISHED in lines:
        raise ParcelError(INTERRUPTED)
    return lines


def write_with(
    path: Path,
    data: bytes,
    lines: Sequence[str] | None,
    *,
    follow: bool = True,
    like: Path | None = None,
) -> None:
    """Write the file, and its sidecar with the lines; without lines no sidecar stays. Where it is
    a copy of the sheet `like`, nobody may read it who may not read that.

    Whenever it is interrupted, the file is never beside a sidecar of another export: until all
    is written the sidecar says that it is unfinished. Raises SheetError as `atomic.replace`.
    """
    sidecar = beside(path)
    if lines is None and not _is_there(sidecar):
        _files.replace_sheet_file(path, data, follow=follow, like=like)
        return
    before = _earlier(sidecar)
    _files.replace_sheet_file(sidecar, f"{_UNFINISHED}\n".encode(), follow=False, like=like)
    try:
        if path.is_file():
            # Whoever may not read the file may not read its sidecar either.
            sidecar.chmod(path.stat().st_mode & 0o777)
        _files.replace_sheet_file(path, data, follow=follow, like=like)
    except SheetError:
        # The file is as it was, so what was said of it still holds.
        _restore(sidecar, before)
        raise
    _restore(sidecar, None if lines is None else "".join(f"{line}\n" for line in lines).encode())


def _is_there(sidecar: Path) -> bool:
    # Beside a file of the longest possible name there cannot be one.
    return os.path.lexists(sidecar)


def content(sidecar: Path) -> bytes:
    """The bytes of the sidecar. Raises OSError, also where it is a link, a pipe or too large: a
    stranger may have put it there.
    """
    about = sidecar.lstat()
    if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST:
        raise OSError(errno.EINVAL, "it is no ordinary file")
    return sidecar.read_bytes()


def _earlier(sidecar: Path) -> bytes | None:
    try:
        return content(sidecar)
    except OSError:
        return None


def _restore(sidecar: Path, content: bytes | None) -> None:
    if content is not None:
        _files.replace_sheet_file(sidecar, content, follow=False)
        return
    try:
        sidecar.unlink(missing_ok=True)
    except OSError as error:
        raise SheetError(
            f"{sidecar}: the old base cannot be removed: {error.strerror}",
            hint="Delete it: it belongs to an older export.",
        ) from None
