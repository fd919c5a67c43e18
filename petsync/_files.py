"""Atomic and private files: written whole or not at all, through no unexpected link."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os.path import lexists
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from petsync.errors import SheetError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "STATE",
    "check_state_folder",
    "create_file",
    "create_sheet_file",
    "landing",
    "make_folder",
    "make_private_folder",
    "make_state_folder",
    "must_be_ordinary",
    "no_link",
    "open_new",
    "open_private",
    "read_ordinary",
    "replace_file",
    "replace_sheet_file",
    "replacing",
    "try_lock",
    "write_private",
]


# How files get where they belong: whole, through which links, and readable for whom.
#
# A new file is for its owner alone to write, whatever the umask, and a copy of a file is read by
# nobody who may not read that one.
#
# A path that a person names may be a symbolic link, which is followed and stays. A name that
# petsync chooses (results, bases, backups, the state folder and all in it) is never followed out
# of its folder: whoever gave you that folder may have put a link there.


STATE = ".petsync"
"""The name that petsync chooses for a state folder."""
_PRIVATE = 0o600
_NEW = 0o644
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MOST = 16_000_000
_IS_LINK = "it is a symbolic link, which is not followed for a name that petsync chooses"


def landing(path: Path, *, follow: bool = True) -> Path:
    """The path with its symbolic links followed, so that these stay.

    With `follow` False it is the path itself. Raises OSError where something other than an
    ordinary file is there already.
    """
    try:
        mode = (path.stat() if follow else path.lstat()).st_mode
    except FileNotFoundError:
        return path.resolve() if follow else path
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, _IS_LINK)
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise OSError(errno.EINVAL, f"it is {kind}, no ordinary file")
    return path.resolve() if follow else path


def replace_file(
    path: Path,
    data: bytes,
    *,
    follow: bool = True,
    private: bool = False,
    like: Path | None = None,
) -> None:
    """Put `data` at `path` in one step; see `replacing`."""
    with replacing(path, follow=follow, private=private, like=like) as file:
        file.write(data)


@contextmanager
def replacing(
    path: Path, *, follow: bool = True, private: bool = False, like: Path | None = None
) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `path` in one step, once all of it is on the disk.

    It gets the mode and the owner that the file at `path` has, or those of a new file, which only
    its owner may write. A `private` one is for its owner alone; one with what the file `like` says
    is for those alone who may read that, whatever the umask. Raises OSError; what was there then
    stays.
    """
    target = landing(path, follow=follow)
    limit = _limit(like)
    try:
        before = target.stat()
    except FileNotFoundError:
        before = None
    # As long as it is written, nobody may read it who may not read the file that it replaces.
    mode = limit.mode & _NEW if before is None and not private else _PRIVATE
    with _beside(target, mode) as (new, file):
        yield file
        _finish(file)
        if before is not None:
            _take_after(new, before, private=private)
        if not private:
            _restrict(new, limit)
        new.replace(target)
    _settle(target.parent)


def create_file(path: Path, data: bytes, *, like: Path) -> bool:
    """Put `data` at `path`, where no file is yet, with the mode and the times of another file;
    whether it was done. A symbolic link counts as a file, wherever it leads. Raises OSError.
    """
    with _beside(path, _PRIVATE) as (new, file):
        file.write(data)
        _finish(file)
        shutil.copystat(like, new)
        done = _claim_name(new, path)
    _settle(path.parent)
    return done


class _Limit(NamedTuple):
    """The most that a file may allow, and the group that it holds for, None for any."""

    mode: int = 0o777
    group: int | None = None


def _limit(like: Path | None) -> _Limit:
    try:
        about = None if like is None else like.stat()
    except (OSError, ValueError):
        about = None
    if about is None or not stat.S_ISREG(about.st_mode):
        return _Limit()
    # The owner of a copy may write it, also where the original is for reading alone.
    return _Limit(about.st_mode & 0o777 | 0o600, about.st_gid)


def _restrict(new: Path, limit: _Limit) -> None:
    about = new.stat()
    allowed = limit.mode
    if limit.group not in (None, about.st_gid):
        allowed &= ~0o070
    if about.st_mode & 0o777 & ~allowed:
        new.chmod(about.st_mode & 0o777 & allowed)


@contextmanager
def _beside(target: Path, mode: int) -> Iterator[tuple[Path, IO[bytes]]]:
    """A new file in the same folder; it goes if it is not moved."""
    new = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield new, file
    finally:
        new.unlink(missing_ok=True)


def _finish(file: IO[bytes]) -> None:
    """Have all of it on the disk, and let go of it: Windows moves no file that is open."""
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _claim_name(new: Path, path: Path) -> bool:
    """Give the file its name, unless another one has it."""
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    except OSError:
        # The file system knows no second name of a file.
        if lexists(path):
            return False
        new.replace(path)
    return True


def _take_after(new: Path, before: os.stat_result, *, private: bool) -> None:
    """Give the file the mode of another, and its owner where that is allowed."""
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(new, before.st_uid, before.st_gid)
    if not private:
        new.chmod(before.st_mode & 0o777)


def _settle(folder: Path) -> None:
    """Have the folder's entries on the disk too, where the system can do that."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_private(path: Path, data: bytes, *, follow: bool = True) -> None:
    """Put `data` at `path`, readable by its owner alone, whole or not at all. Raises OSError."""
    replace_file(path, data, follow=follow, private=True)


def open_new(path: str | Path, flags: int) -> int:
    """A descriptor of the file, for `open`; where it makes the file, only its owner may write it.
    Raises OSError.
    """
    return os.open(path, flags, _NEW)


def open_private(path: str | Path, flags: int) -> int:
    """A descriptor of the file, which is made for its owner alone and is never a link's target.

    Raises OSError, which says so where it is a link.
    """
    try:
        return os.open(path, flags | os.O_CREAT | _NO_LINK, _PRIVATE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, _IS_LINK, str(path)) from None
        raise


def try_lock(path: Path) -> BaseFileLock | None:
    """Hold the lock file until it is released or this process dies; None where another holds it.

    The file is for its owner alone, and stays when it is released. Any thread may release it.
    Raises OSError, which says so where the path is a link.
    """
    # Only some commands lock anything.
    from filelock import FileLock, Timeout

    os.close(open_private(path, os.O_RDWR))
    lock = FileLock(path, blocking=False, thread_local=False, mode=_PRIVATE)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def no_link(path: Path) -> None:
    """Raise OSError where the path, a name that petsync chooses, is a symbolic link."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, _IS_LINK, str(path))


def must_be_ordinary(path: Path) -> None:
    """Raise OSError where something other than an ordinary file is there: a pipe would be waited
    for just to open it, and a device may never end. A path without a file is left to others.
    """
    with suppress(FileNotFoundError):
        _check_ordinary(path.stat().st_mode)


def read_ordinary(path: Path) -> bytes:
    """The content of a small file. Raises OSError, also for a device or a pipe, which may never
    end, and for a file of more than 16 MB.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        _check_ordinary(os.fstat(file.fileno()).st_mode)
        data = file.read(_MOST + 1)
    if len(data) > _MOST:
        raise OSError(errno.EFBIG, "it has more than 16 MB")
    return data


def _check_ordinary(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no ordinary file")


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def make_folder(path: Path) -> None:
    """See to it that the folder is there. In what is made of it, also above it, only its owner may
    make files, whatever the umask. Raises OSError.
    """
    _make_folder(path, 0o755)


def make_private_folder(path: Path) -> None:
    """See to it that the folder is there. What is made of it, also above it, is for its owner
    alone, whatever the umask. Raises OSError.
    """
    _make_folder(path, 0o700)


def _make_folder(path: Path, mode: int) -> None:
    try:
        path.mkdir(mode=mode)
    except FileNotFoundError:
        _make_folder(path.parent, mode)
        path.mkdir(mode=mode, exist_ok=True)
    except OSError:
        if not path.is_dir():
            raise


def make_state_folder(state: Path) -> None:
    """Make the state folder, for its owner alone, once `check_state_folder` allows it. Raises
    OSError.
    """
    check_state_folder(state)
    make_private_folder(state)


def check_state_folder(state: Path) -> None:
    """Raise OSError, which names it, where a symbolic link leads out of the state folder, or a
    pipe or a device is in it.

    `--state` may name a folder by a link; `.petsync`, which nobody has to name, may be none.
    """
    if state.name == STATE and state.is_symlink():
        raise OSError(errno.ELOOP, f"{_IS_LINK}. Name the folder that is meant with --state")
    place = os.path.abspath(state)  # noqa: PTH100 - Path.absolute keeps `..`
    if place in _without_links:
        return
    for name, mode in _strangers(state):
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, f"{name} in it is a symbolic link, which must not be there")
        raise OSError(errno.EINVAL, f"{name} in it is no ordinary file, and must not be there")
    if state.is_dir():
        _without_links.add(place)


_without_links: set[str] = set()
"""The state folders that this process has looked through: what a stranger left there was there
before it began.
"""


def _strangers(state: Path) -> Iterator[tuple[str, int]]:
    """What is neither a folder nor an ordinary file in the folder, with its mode."""
    for folder, folders, files in os.walk(state):
        for name in (*folders, *files):
            path = Path(folder, name)
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    yield str(path.relative_to(state)), mode


# A file is written whole or not at all.


def replace_sheet_file(
    path: Path, data: bytes, *, follow: bool = True, like: str | Path | None = None
) -> None:
    """Put `data` at `path` in one step, with the mode that the file had or a new one gets; where
    it holds what the sheet `like` says, for nobody who may not read that.

    Without `follow`, for a name that petsync chose, a symbolic link is an error. Once it returns,
    the file is on the disk, also if the power fails. Raises SheetError where it cannot be written;
    what was there is then untouched.
    """
    with _translate_errors(path):
        replace_file(path, data, follow=follow, like=None if like is None else Path(like))


def create_sheet_file(path: Path, data: bytes, *, like: Path) -> bool:
    """Put `data` at `path`, where no file and no link is yet, with the mode and the times of
    another file; whether it was done. Raises SheetError where it cannot be written.
    """
    with _translate_errors(path):
        return create_file(path, data, like=like)


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
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
