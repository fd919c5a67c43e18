"""Sheets and snapshots at addresses, such as s3://bucket/pets: petsync compares temporary copies of
their files, and writes them from such copies. fsspec reads and writes the files.
"""

from __future__ import annotations

import asyncio
import errno
import posixpath
import re
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from petsync._extras import needs_extra
from petsync._files import has_wildcards, temporary_path
from petsync.errors import PetsyncError, SettingsError, SheetError
from petsync.scale.executors import LocalProcesses
from petsync.scale.parts import BASE_FOLDER, MANIFEST, PartFolder
from petsync.scale.sheets import choose_files
from petsync.scale.snapshot import not_empty_error
from petsync.settings import find_nearest, hide_userinfo
from petsync.sheets.files import KIND_OF_PART, changed_error
from petsync.sheets.sidecar import sidecar_path

__all__ = ["Copies", "make_copies", "write_to"]

_THREADS = 8
"""The number of files that are copied at the same time, unless the caller's executor copies them.
"""
_VERSION = frozenset(
    (
        *("size", "etag", "lastmodified", "last_modified", "mtime", "modified", "updated"),
        *("created", "generation", "versionid", "version_id", "md5hash", "content_md5"),
    )
)
"""The names, in lower case, of the details by which file systems identify the version of a file."""
_LONGEST_REASON = 300


class _Copy(NamedTuple):
    address: str
    target: Path

    @classmethod
    def of(cls, address: str, name: str, folder: Path) -> _Copy:
        """Return the copy of a file from an address to a folder. Raises SheetError for a name that
        would be in another folder, such as one with a backslash on Windows.
        """
        target = folder / name
        if target.parent != folder or target.name != name:
            raise SheetError(
                f"{address}/{name}: this machine cannot have a file of this name",
                hint="Rename the file.",
            )
        return cls(f"{address}/{name}", target)


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of files, made by an executor in a temporary folder."""

    _folder: Path
    _executor: Executor
    _copy_file: Callable[[_Copy], None]
    _addresses: dict[str, str] = field(default_factory=dict)
    """The address of each folder of copies."""

    def copy_sheet(self, address: str) -> Path:
        """Copy the files of a sheet, and its base, and return the path of the copy. Raises
        SheetError if there is no such sheet, or if it cannot be read, and SettingsError if the file
        system is unknown or not installed.
        """
        files, path = _connect(address)
        folder, _, name = address.rpartition("/")
        is_file = False
        with _explain_errors(address):
            if has_wildcards(address):
                names = _list_names(files, path.rpartition("/")[0])
                is_file = name in names
                own = [name] if is_file else [each for each in names if fnmatchcase(each, name)]
            elif _is_folder(files, path):
                folder, own = address, (names := _list_names(files, path))
            else:
                is_file, own, names = True, [name], _list_with_sidecar(files, path)
        shown = [PurePosixPath(each) for each in sorted(own) if not each.startswith(".")]
        chosen, _ = choose_files(address, shown)
        target = self._make_folder(folder)
        copies = [_Copy.of(folder, each.name, target) for each in chosen]
        bases = {sidecar_path(each.target).name for each in copies}.intersection(names)
        copies += [_Copy.of(folder, each, target) for each in bases]
        if not is_file and BASE_FOLDER in names:
            (target / BASE_FOLDER).mkdir()
            copies += _find_parts(f"{folder}/{BASE_FOLDER}", target / BASE_FOLDER)
        self._run(copies)
        return copies[0].target if is_file else target

    def copy_snapshot(self, address: str) -> Path:
        """Copy a folder of parts, and return the path of the copy. Raises the errors of
        `copy_sheet`.
        """
        target = self._make_folder(address)
        self._run(_find_parts(address, target))
        return target

    def with_addresses(self, text: str) -> str:
        """Return the text with addresses in place of the paths of copies."""
        for path, address in self._addresses.items():
            text = text.replace(path, address)
        return text

    def _make_folder(self, address: str) -> Path:
        folder = self._folder / f"copy-{len(self._addresses)}"
        folder.mkdir()
        self._addresses[str(folder)] = address
        return folder

    def _run(self, copies: Sequence[_Copy]) -> None:
        for _ in self._executor.map(self._copy_file, copies):
            pass


@contextmanager
def make_copies(executor: Executor | None) -> Iterator[Copies]:
    """Yield copies, which are removed at the end. In the block, the messages of errors name the
    addresses. The executor makes the copies; without one, or with processes, threads do, until the
    block ends.
    """
    ended = threading.Event()
    with (
        # A worker may still write into the folder.
        tempfile.TemporaryDirectory(prefix="petsync-", ignore_cleanup_errors=True) as folder,
        ThreadPoolExecutor(_THREADS) as threads,
    ):
        copies = Copies(Path(folder), threads, partial(_copy_file, ended=ended))
        if executor is not None and not isinstance(executor, LocalProcesses):
            copies = Copies(Path(folder), executor, _copy_file)
        try:
            yield copies
        except PetsyncError as error:
            error.problem = copies.with_addresses(error.problem)
            error.cure = copies.with_addresses(error.cure)
            error.args = (error.problem,)
            raise
        finally:
            ended.set()
            threads.shutdown(wait=False, cancel_futures=True)


async def write_to(address: str, make: Callable[[Path], Awaitable[PartFolder]]) -> PartFolder:
    """Write a folder to an address, the manifest last. `make` makes the folder at a path on this
    machine; return its result. Raises SheetError if there are files already, or if the files cannot
    be written, and SettingsError if the file system is unknown or not installed.
    """
    await asyncio.to_thread(_must_be_empty, address)
    with tempfile.TemporaryDirectory(prefix="petsync-") as temporary:
        folder = Path(temporary, "folder")
        made = await make(folder)
        await asyncio.to_thread(_write_files, folder, address)
    return made


def _must_be_empty(address: str) -> None:
    if address.startswith(("http://", "https://")):
        raise SettingsError(
            f"{address}: petsync does not write to a web server", hint="Name another folder."
        )
    files, path = _connect(address)
    names: list[str] = []
    with _explain_errors(address), suppress(FileNotFoundError):
        names = _list_names(files, path)
    if names:
        raise not_empty_error(address)


def _write_files(folder: Path, address: str) -> None:
    """Write the files of the folder, the base's files first: the base of an incomplete export
    cannot be used.
    """
    files, path = _connect(address)
    names = [each.relative_to(folder) for each in folder.rglob("*") if each.is_file()]
    for _, group in groupby(sorted(names, key=_write_order), _write_order):
        some = [*group]
        with _explain_errors(address, "written"):
            files.put(
                [str(folder / each) for each in some],
                [f"{path}/{each.as_posix()}" for each in some],
            )


def _write_order(name: Path) -> tuple[bool, bool]:
    return name.name == MANIFEST, BASE_FOLDER not in name.parts


def _copy_file(copy: _Copy, ended: threading.Event | None = None) -> None:
    """Copy a file, or stop once `ended` is set. A worker may do it again after another one died."""

    def stop(*_: object, **__: object) -> None:
        if ended is not None and ended.is_set():
            raise InterruptedError("the copy was stopped")

    files, path = _connect(copy.address)
    callback = import_module("fsspec.callbacks").Callback(hooks={"stop": stop})
    new = temporary_path(copy.target)
    with _explain_errors(copy.address):
        before = files.info(path)
        files.get_file(path, str(new), callback=callback)
        _forget(files)
        after = files.info(path)
        is_whole = before.get("size") in (None, new.stat().st_size)
        if not is_whole or _read_version(before) != _read_version(after):
            raise changed_error(copy.address)
        new.replace(copy.target)


def _read_version(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key.casefold() in _VERSION}


def _find_parts(address: str, target: Path) -> list[_Copy]:
    """Return the files of a folder of parts to copy into the folder `target`."""
    files, path = _connect(address)
    with _explain_errors(address):
        names = _list_names(files, path)
    own = [name for name in names if name == MANIFEST or name.endswith(".parquet")]
    return [_Copy.of(address, name, target) for name in own]


def _list_names(files: Any, path: str) -> list[str]:
    """Return the names in a folder. Raises FileNotFoundError if it does not exist."""
    names = [posixpath.basename(each["name"]) for each in files.ls(path, detail=True)]
    return [name for name in names if name]


def _list_with_sidecar(files: Any, path: str) -> list[str]:
    """Return the names of a file and of the file with its base, if there is one."""
    names = [PurePosixPath(path).name]
    if KIND_OF_PART.get(PurePosixPath(path).suffix.casefold()) == "CSV":
        base = sidecar_path(Path(names[0])).name
        with suppress(FileNotFoundError):
            files.info(f"{path.rpartition('/')[0]}/{base}")
            names.append(base)
    return names


def _is_folder(files: Any, path: str) -> bool:
    """Return true for a folder. Raises FileNotFoundError if there is neither a file nor a
    folder.
    """
    if files.info(path)["type"] == "directory":
        return True
    # A web server has no folders, but may list files.
    return PurePosixPath(path).suffix.casefold() not in KIND_OF_PART and bool(files.isdir(path))


def _connect(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    with needs_extra("remote", address):
        fsspec = import_module("fsspec")
    protocol = address.partition("://")[0]
    known = fsspec.available_protocols()
    if protocol not in known or "::" in address:
        near = find_nearest(protocol, known)
        raise SettingsError(
            f"{address}: fsspec knows no file system {protocol}://"
            if protocol not in known
            else f"{address}: petsync cannot use an address in another one",
            hint=f"Did you mean {near}://?"
            if near and near != protocol
            else "Addresses are, for example, s3://bucket/pets and gs://bucket/pets.",
        )
    options = {"auto_mkdir": True} if protocol in ("file", "local") else {}
    with _explain_errors(address):
        files, path = fsspec.url_to_fs(address, **options)
        _forget(files)
    return files, path


def _forget(files: Any) -> None:
    """Make the file system read folders again: another program may have written meanwhile."""
    files.invalidate_cache()
    # Some file systems, such as that of web servers, have a cache that this does not empty.
    files.dircache.clear()


@contextmanager
def _explain_errors(address: str, done: str = "read") -> Iterator[None]:
    """In the block, raise PetsyncErrors in place of the errors of a file system. `done` is what
    cannot be done.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, PetsyncError):
            raise
        raise _as_petsync_error(error, address, done) from None


def _as_petsync_error(error: Exception, address: str, done: str) -> PetsyncError:
    protocol = address.partition("://")[0]
    # The error of a web server that cannot be reached has the reason as its cause.
    cause = error.__cause__ if isinstance(error, FileNotFoundError) else None
    text = (error.strerror if isinstance(error, OSError) else None) or str(cause or error)
    reason = text.strip().splitlines()[0][:_LONGEST_REASON] if text.strip() else ""
    # A server may redirect to an address with a secret.
    reason = re.sub(r"https?://\S+", lambda found: str(hide_userinfo(found[0])), reason)
    credentials = (
        f"Check the credentials: {protocol}:// takes them from the environment and its own "
        "configuration files."
    )
    if done == "written":
        credentials += " Remove what was written before the error, or name another folder."
    if isinstance(error, ImportError):
        package = _find_package(protocol)
        return SettingsError(
            f"{address} needs a package that is not installed: {reason or type(error).__name__}",
            hint=f"Install it: pip install {package or 'PACKAGE'}.",
        )
    if isinstance(error, FileNotFoundError) and done == "read":
        # Other texts are the path alone.
        why = f" ({reason})" if " " in reason and address.rpartition("/")[2] not in reason else ""
        return SheetError(
            f"{address}: there is no such file or folder{why}",
            hint="Check all names, including the bucket's, and your permission to read.",
        )
    if isinstance(error, PermissionError):
        return SheetError(
            f"{address}: you do not have permission{f' ({reason})' if reason else ''}",
            hint=credentials,
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return SheetError(
            f"{address} cannot be {done}: {reason}",
            hint=f"Temporary files are in {tempfile.gettempdir()}: set TMPDIR to another folder.",
        )
    return SheetError(
        f"{address} cannot be {done}: {reason or type(error).__name__}",
        hint=f"Check the address and the connection. {credentials}",
    )


def _find_package(protocol: str) -> str:
    """Return the package with the file system of a protocol; "" if it is unknown."""
    known = import_module("fsspec.registry").known_implementations
    package = str(known.get(protocol, {}).get("class", "")).partition(".")[0]
    return "" if package == "fsspec" else package
