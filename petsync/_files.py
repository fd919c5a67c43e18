"""Atomic and private files: written completely or not at all, and never through an unexpected
link.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os.path import lexists
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, NamedTuple, TypeGuard

from petsync._display import type_name
from petsync.errors import PetsyncError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "EDITABLE",
    "MAX_WHOLE",
    "PACKED",
    "READABLE",
    "STATE",
    "check_name",
    "check_state_folder",
    "checked_path",
    "ending_of",
    "find_target",
    "has_wildcards",
    "is_address",
    "is_byproduct",
    "is_in_parts",
    "list_files",
    "make_folder",
    "make_private_folder",
    "make_state_folder",
    "must_be_regular",
    "must_not_be_link",
    "open_own",
    "open_private",
    "read_regular",
    "real_path",
    "temporary_path",
    "try_lock",
    "user_folder",
    "write_atomically",
]


# The names of sheets.


EDITABLE = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm")
"""The endings of the sheets that petsync can write into."""
PACKED = (".gz", ".zst")
"""The endings of compressed files."""
READABLE = (
    *EDITABLE,
    *(".ods", ".xls", ".xlsb", ".parquet", ".json", ".jsonl", ".ndjson"),
    *(
        text + packed
        for text in (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
        for packed in PACKED
    ),
)
"""The endings of the files that are read as sheets."""


def checked_path(path: object, example: str, error: type[PetsyncError]) -> Path:
    """Return the path. Raises `error` for a value of another type, with the example."""
    if not isinstance(path, str | os.PathLike):
        raise error(f"{type_name(path)} is not a path", hint=f'Pass a name, such as "{example}".')
    return Path(path)


def ending_of(path: str | PurePath) -> str:
    """Return the ending of a file's name in lower case, "" if it has none: `.xlsx`, or for a
    compressed file `.csv.gz`.
    """
    suffixes = [suffix.casefold() for suffix in PurePath(path).suffixes[-2:]]
    return "".join(suffixes if suffixes and suffixes[-1] in PACKED else suffixes[-1:])


_BYPRODUCT = re.compile(r"\.(backup-\d{8}-\d{6}(-\d+)?|results(-\d+)?)$")


def is_byproduct(path: PurePath) -> bool:
    """Return true for the name of a file that is made beside a sheet: petsync's backup or results,
    or the lock of a spreadsheet program.
    """
    return path.name.startswith("~$") or _BYPRODUCT.search(path.stem) is not None


# Sheets in several files, which are compared in parts.


_WILDCARDS = frozenset("*?[")
# A drive, such as C:, has one letter.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_address(path: object) -> TypeGuard[str]:
    """Return true for an address of a file system that fsspec knows, such as s3://bucket/pets."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def real_path(path: str | Path) -> str:
    """Return the path that identifies a file: without links. An address is returned unchanged."""
    return path.rstrip("/") if is_address(path) else os.path.realpath(path)


MAX_WHOLE = 1 << 26
"""The size in bytes up to which a Parquet file is read as a whole."""


def is_folder(path: Path) -> bool:
    """Return true for a folder, and false for a path that the system refuses, such as a name that
    is too long: reading it raises the error.
    """
    with suppress(OSError):
        return path.is_dir()
    return False


def is_file(path: Path) -> bool:
    """Return true for a regular file, and false for a path that the system refuses."""
    with suppress(OSError):
        return path.is_file()
    return False


def is_in_parts(path: str | Path) -> bool:
    """Return true for a folder, a pattern of files, a Parquet file of more than MAX_WHOLE bytes,
    and an address.
    """
    if is_address(path):
        return True
    path = Path(path)
    if is_folder(path):
        return True
    if path.suffix.casefold() == ".parquet" and is_file(path):
        return path.stat().st_size > MAX_WHOLE
    return has_wildcards(path) and not lexists(path)


def has_wildcards(path: str | Path) -> bool:
    """Return true if the name of the path may be a pattern."""
    return not _WILDCARDS.isdisjoint(Path(path).name)


def list_files(path: Path) -> list[Path]:
    """Return the files of a folder, or the files that a pattern matches, without hidden ones; for
    another path, the path itself if it exists. Raises OSError.
    """
    if path.is_dir():
        there = [*path.iterdir()]
    else:
        there = [path] if path.exists() else [*path.parent.glob(path.name)]
    return sorted(each for each in there if not each.name.startswith("."))


# Only the owner can write to a new file, whatever the umask, and only users who can read a file can
# read its copy.
#
# A path from the user may be a symbolic link, which is followed and not replaced. A link at a path
# that petsync chooses (results, bases, backups, the state folder and its content) is never
# followed: the author of the folder may have put it there.


STATE = ".petsync"
"""The name of the default state folder."""
_PRIVATE = 0o600
_NEW = 0o644
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MAX_BYTES = 16_000_000
_NOT_ON_WINDOWS = re.compile(
    r"""[<>:"|?*\x00-\x1f]|[. ]$|^(con|prn|aux|nul|(com|lpt)[0-9\xb9\xb2\xb3]) *(\.|$)""",
    re.IGNORECASE,
)
"""Names of devices; characters that are refused or, as the colon, address another stream of the
file; and dots and spaces at the end, which Windows removes.
"""
_IS_LINK = "it is a symbolic link, which petsync does not follow here"


def find_target(path: Path, *, follow: bool = True) -> Path:
    """Return the file to replace: the target of the path's symbolic links, so that the links stay.

    Without `follow`, return the path itself. Raises OSError if the path exists and is not a
    regular file.
    """
    try:
        mode = (path.stat() if follow else path.lstat()).st_mode
    except FileNotFoundError:
        return path.resolve() if follow else path
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, _IS_LINK)
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")
    return path.resolve() if follow else path


def write_atomically(
    path: Path,
    content: bytes | Callable[[IO[bytes]], object],
    *,
    follow: bool = True,
    private: bool = False,
    new: bool = False,
    like: str | Path | None = None,
    error: type[PetsyncError] | None = None,
) -> None:
    """Write a file completely to disk, then give it the name `path` in one step. `content` is its
    bytes, or a function that writes them into the open file.

    The file gets the mode and the owner of the file that it replaces; if there is none, only its
    owner can write to it. Only the owner can read a `private` file; with `like`, only users who can
    read that file can read the new one, whatever the umask. Without `follow`, a symbolic link is an
    error.

    A `new` file replaces nothing. Unless it is private, it gets the mode and the timestamps of the
    file `like`, if given, but not the rights of its group if the new file has another group. If the
    path exists, FileExistsError is raised; a symbolic link counts as existing, even if its target
    is missing.

    Raises OSError, or `error` with the path and a hint, if the file cannot be written; the old file
    then stays.
    """
    try:
        check_name(path)
        target = path if new else find_target(path, follow=follow)
        before, limit = None if new else _status(target), _limit(like)
        # During the write, only users who can read the replaced file, or the file `like` of a copy,
        # may read the new one.
        is_copy = new and like is not None and not private
        mode = _PRIVATE if private or is_copy or before is not None else limit.mode & _NEW
        with _open_temporary(target, mode) as (temporary, file):
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            _flush_and_close(file)
            if before is not None:
                _copy_owner(temporary, before, private=private)
            elif is_copy and like is not None:
                shutil.copystat(like, temporary)
            if not private:
                _restrict(temporary, limit)
            if new:
                _claim_name(temporary, target)
            else:
                temporary.replace(target)
        _flush_folder(target.parent)
    except OSError as problem:
        if error is None or (new and isinstance(problem, FileExistsError)):
            raise
        reason = problem.strerror or str(problem)
        raise error(
            f"{path} cannot be written: {reason}", hint=_suggest_remedy(path, problem)
        ) from None


def check_name(path: Path) -> None:
    """Raise OSError if the path contains a character that no file name can have, or on Windows a
    name that would be a device or another file.
    """
    try:
        is_name = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise OSError(errno.EINVAL, "the name has a character that no file name can have")
    names = [name for name in path.parts[bool(path.anchor) :] if name != os.pardir]
    if os.name == "nt" and any(map(_NOT_ON_WINDOWS.search, names)):
        raise OSError(errno.EINVAL, "Windows reserves this name, or a character in it")


def _suggest_remedy(path: Path, problem: OSError) -> str:
    if problem.errno == errno.ELOOP:
        return "Remove the link, or name another file."
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError):
        return "Give it another, shorter name."
    with suppress(PermissionError):
        if path.is_dir():
            return "This is a folder; name a file in it."
        if path.exists() and not path.is_file():
            return "Name an existing regular file, or a new file."
        there = next((each for each in path.parents if each.exists()), path.parent)
        if not there.is_dir():
            return f"{there} is not a folder; name another one."
        if there != path.parent:
            return f"There is no folder {path.parent}; create it first."
        if path.is_symlink():
            return "Remove the link, or name another file."
    return "Close other programs that have it open, and check permissions and free space."


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


class _Limit(NamedTuple):
    """The most permissive mode that a new file may have, and the group to which the mode's group
    bits apply (None: any group).
    """

    mode: int = 0o777
    group: int | None = None


def _limit(like: str | Path | None) -> _Limit:
    try:
        about = None if like is None else Path(like).stat()
    except (OSError, ValueError):
        about = None
    if about is None or not stat.S_ISREG(about.st_mode):
        return _Limit()
    # The owner of a copy may write to it, even if the original is read-only.
    return _Limit(about.st_mode & 0o777 | 0o600, about.st_gid)


def _restrict(new: Path, limit: _Limit) -> None:
    about = new.stat()
    allowed = limit.mode
    if limit.group not in (None, about.st_gid):
        allowed &= ~0o070
    if about.st_mode & 0o777 & ~allowed:
        new.chmod(about.st_mode & 0o777 & allowed)


def temporary_path(target: Path) -> Path:
    """Return an unused path in the target's folder, for the file that is to replace it."""
    # A character has up to 4 bytes, and a name up to 255.
    return target.with_name(f".{target.name[:50]}.{secrets.token_hex(6)}.tmp")


@contextmanager
def _open_temporary(target: Path, mode: int) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yield a new file in the target's folder, as its path and the open file, and remove it at the
    end unless it was moved.
    """
    new = temporary_path(target)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield new, file
    finally:
        new.unlink(missing_ok=True)


def _flush_and_close(file: IO[bytes]) -> None:
    """Flush the file to disk, and close it: Windows cannot move an open file."""
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _claim_name(new: Path, path: Path) -> None:
    """Give the file `new` the name `path`. Raises FileExistsError if a file of that name exists."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no hard links.
        if lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        new.replace(path)


def _copy_owner(new: Path, before: os.stat_result, *, private: bool) -> None:
    """Give the new file the owner of the file `before`, if permitted, and unless `private` its
    mode.
    """
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(new, before.st_uid, before.st_gid)
    if not private:
        new.chmod(before.st_mode & 0o777)


def _flush_folder(folder: Path) -> None:
    """Flush the folder's entries to disk, if the system supports it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_private(path: str | Path, flags: int) -> int:
    """Return a descriptor of the file, which is created if it is missing. Only the owner can access
    a created file.

    Raises OSError if the file cannot be opened, or is a symbolic link (except on Windows).
    """
    try:
        return os.open(path, flags | os.O_CREAT | _NO_LINK, _PRIVATE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, _IS_LINK, str(path)) from None
        raise


def open_own(name: str, flags: int) -> int:
    """Open the file, as the `opener` argument of `open`. Only the owner can write to a new file,
    whatever the umask.
    """
    return os.open(name, flags, _NEW)


def try_lock(path: Path) -> BaseFileLock | None:
    """Lock the file and return the lock, which lasts until it is released or this process ends;
    return None if it is already locked.

    The file is created if it is missing, and stays after the release. Any thread may release the
    lock. Raises OSError.
    """
    # Import filelock only for commands that lock something.
    from filelock import FileLock, Timeout

    os.close(open_private(path, os.O_RDWR))
    lock = FileLock(path, blocking=False, thread_local=False, mode=_PRIVATE)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def must_not_be_link(path: Path) -> None:
    """Raise OSError if the path is a symbolic link."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, _IS_LINK, str(path))


def must_be_regular(path: Path) -> None:
    """Raise OSError if the path is not a regular file: opening a pipe may block, and the content of
    a device may never end. A missing file is not an error.
    """
    with suppress(FileNotFoundError):
        _check_regular(path.stat().st_mode)


def read_regular(path: Path) -> bytes:
    """Return the content of a file of at most 16 MB. Raises OSError if the file cannot be read, is
    larger, or is a device or a pipe.
    """
    check_name(path)
    with open(path, "rb", opener=_without_waiting) as file:
        _check_regular(os.fstat(file.fileno()).st_mode)
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise OSError(errno.EFBIG, "it is larger than 16 MB")
    return data


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def user_folder(variable: str, on_windows: str, default: str) -> Path:
    """Return the absolute path in the environment variable (on Windows `on_windows`, elsewhere
    `variable`), or else `default` in the home folder. Raises RuntimeError if the user has no home
    folder.
    """
    given = Path(os.environ.get(on_windows if os.name == "nt" else variable, ""))
    # As the XDG specification requires, ignore a relative path.
    return given if given.is_absolute() else Path.home() / default


def make_folder(path: Path) -> None:
    """Create the folder and its parents if they are missing. Only the owner can write to the
    created folders, whatever the umask. Raises OSError.
    """
    _make_folder(path, 0o755)


def make_private_folder(path: Path) -> None:
    """Create the folder and its parents if they are missing. Only the owner can access the created
    folders, whatever the umask. Raises OSError.
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
    """Check the state folder, and create it if it is missing. Only the owner can access a created
    folder. Raises OSError.
    """
    check_state_folder(state)
    make_private_folder(state)


def check_state_folder(state: Path) -> None:
    """Raise OSError if the state folder is a file, or contains anything but folders and regular
    files, such as a symbolic link.

    The state folder itself may be a link, unless its name is `.petsync`.
    """
    if state.name == STATE and state.is_symlink():
        raise OSError(
            errno.ELOOP, f"{_IS_LINK}. Name the intended folder: --state, in Python state=…"
        )
    if is_file(state):
        raise OSError(errno.ENOTDIR, "it is a file, not a folder")
    place = os.path.abspath(state)  # noqa: PTH100 - Path.absolute keeps `..`
    if place in _without_links:
        return
    for name, mode in _iter_special_files(state):
        if stat.S_ISLNK(mode):
            raise OSError(
                errno.ELOOP,
                f"{name} in the state folder is a symbolic link, which must not be there",
            )
        raise OSError(
            errno.EINVAL, f"{name} in the state folder is not a regular file, and must not be there"
        )
    if state.is_dir():
        _without_links.add(place)


_without_links: set[str] = set()
"""The state folders that this process has checked. One check is enough, because only files from
before the start of the process are a risk.
"""


def _iter_special_files(state: Path) -> Iterator[tuple[str, int]]:
    """Yield everything in the folder that is neither a folder nor a regular file, with its
    mode.
    """
    for folder, folders, files in os.walk(state):
        for name in (*folders, *files):
            path = Path(folder, name)
            with suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    yield str(path.relative_to(state)), mode
