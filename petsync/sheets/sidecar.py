"""The sidecar: the file beside a CSV file that contains the base of its export; and the names that
the base has in a workbook.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from petsync._files import write_atomically
from petsync.errors import SheetError
from petsync.table.base import ParcelError

__all__ = [
    "BASE_NAME",
    "BASE_TAB",
    "INTERRUPTED",
    "read_sidecar",
    "read_sidecar_lines",
    "read_unchecked_lines",
    "sidecar_digest",
    "sidecar_path",
    "write_with_sidecar",
]


BASE_TAB = "petsync base"
"""The worksheet that contains the base."""

BASE_NAME = "petsync_base"
"""A defined name in a workbook with a base. It stays if somebody deletes the worksheet."""

_SUFFIX = ".petsync-base"
_MAX_BYTES = 1 << 30
_UNFINISHED = "petsync-base unfinished"
_UNREADABLE_LINE = "petsync-base could not be read"
INTERRUPTED = "the last write of the file was interrupted"
"""The reason why the base is refused after an interrupted export or write-back."""


def sidecar_path(path: Path) -> Path:
    """Return the path of the sidecar of the file at `path`: `catalogue.csv.petsync-base`. Symbolic
    links are followed, so a file has the same sidecar under each of its paths.
    """
    file = Path(os.path.realpath(path))
    return file.with_name(file.name + _SUFFIX)


def read_sidecar_lines(path: Path) -> list[str] | None:
    """Return the lines of the sidecar, None if there is none.

    Raises ParcelError if the sidecar cannot be read, or if the last write of the file was
    interrupted.
    """
    sidecar = sidecar_path(path)
    try:
        lines = read_sidecar(sidecar).decode("ascii").splitlines()
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


def read_unchecked_lines(path: Path) -> list[str] | None:
    """Return the lines of the sidecar for a copy of the file, None if there is none.

    They are not checked. If the sidecar is invalid or cannot be read, the base is refused when the
    copy is read.
    """
    try:
        return read_sidecar(sidecar_path(path)).decode("ascii", "replace").splitlines()
    except FileNotFoundError:
        return None
    except OSError:
        return [_UNREADABLE_LINE]


def write_with_sidecar(
    path: Path,
    data: bytes,
    lines: Sequence[str] | None,
    *,
    follow: bool = True,
    like: Path | None = None,
) -> None:
    """Write the file, and its sidecar with the lines; without lines, remove the sidecar. With
    `like`, users who cannot read the file at that path cannot read the new files either.

    Even after an interruption, the file is never beside the sidecar of another export: until both
    are written, the sidecar is marked as unfinished. Raises SheetError if a file cannot be written;
    if this is the sidecar, the mark stays, and the error says whether the file was written.
    """
    sidecar = sidecar_path(path)
    if lines is None and not _is_there(sidecar):
        write_atomically(path, data, follow=follow, like=like, error=SheetError)
        return
    previous = _read_if_there(sidecar)
    mark = f"{_UNFINISHED}\n".encode()
    write_atomically(sidecar, mark, follow=False, like=like, error=SheetError)
    try:
        if path.is_file():
            # The sidecar gets the permissions of the file.
            sidecar.chmod(path.stat().st_mode & 0o777)
        write_atomically(path, data, follow=follow, like=like, error=SheetError)
    except SheetError as problem:
        # The file has not changed, so its sidecar stays valid.
        _restore(sidecar, previous, f"{problem.problem}, and")
        raise
    new = None if lines is None else "".join(f"{line}\n" for line in lines).encode()
    _restore(sidecar, new, f"{path} was written, but")


def _is_there(sidecar: Path) -> bool:
    # A file with the longest possible name cannot have a sidecar.
    return os.path.lexists(sidecar)


def read_sidecar(sidecar: Path) -> bytes:
    """Return the bytes of the sidecar. Raises OSError if it cannot be read, or if it is a link, a
    pipe or too large, because somebody else may have put it there.
    """
    status = sidecar.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size > _MAX_BYTES:
        raise OSError(errno.EFBIG, "it is larger than 1 GiB")
    return sidecar.read_bytes()


def sidecar_digest(path: Path) -> str:
    """Return the SHA-256 of the bytes of the sidecar of the file at `path`, in hexadecimal; "" if
    it has none or it cannot be read.
    """
    try:
        return hashlib.sha256(read_sidecar(sidecar_path(path))).hexdigest()
    except OSError:
        return ""


def _read_if_there(sidecar: Path) -> bytes | None:
    try:
        return read_sidecar(sidecar)
    except OSError:
        return None


def _restore(sidecar: Path, content: bytes | None, before: str) -> None:
    """Write the sidecar, or remove it. The error of a failure begins with the text `before`."""
    if content is None:
        try:
            sidecar.unlink(missing_ok=True)
        except OSError as error:
            raise SheetError(
                f"{before} {sidecar} cannot be removed: {error.strerror}",
                hint="Delete it: it contains no base.",
            ) from None
        return
    try:
        write_atomically(sidecar, content, follow=False, error=SheetError)
    except SheetError as error:
        raise SheetError(
            f"{before} {error.problem}",
            hint=f"{error.cure} Then export again, and move your edits there: without this file, "
            "they cannot be distinguished from changes in the store.",
        ) from None
