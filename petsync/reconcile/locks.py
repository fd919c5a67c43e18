"""Locks: a job runs one round at a time, and jobs of one machine that send to the same store take
turns.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from petsync._files import make_private_folder
from petsync.errors import LockedError, PetsyncError
from petsync.reconcile.state import StatePaths
from petsync.settings import place_of

__all__ = ["find_store_lock", "lock_job", "lock_store"]


# The user's folder for locks on this machine, which jobs with different state folders share.


_LOG = logging.getLogger(__name__)


def find_store_lock(store: str) -> Path | None:
    """Return the path of the lock file of a store for all jobs of this user, whatever their state
    folder. Returns None if there is no safe folder for it.
    """
    folder = _folder()
    if folder is None:
        return None
    digest = hashlib.sha256(repr(tuple(place_of(store))).encode()).hexdigest()[:16]
    return folder / f"store.{digest}.lock"


def _folder() -> Path | None:
    """Return `petsync-UID` in the temporary folder, None if it is not safe.

    Other users can write to the temporary folder too. So `petsync-UID` must be a real folder that
    this user owns and nobody else can access.
    """
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = "the temporary folder"
    try:
        path = Path(tempfile.gettempdir()) / ("petsync" if user is None else f"petsync-{user}")
        folder = str(path)
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        _LOG.warning("%s: %s. %s", folder, error.strerror or error, _SEPARATE_STATE)
        return None
    is_own = user is None or (found.st_uid == user and not found.st_mode & 0o077)
    if stat.S_ISDIR(found.st_mode) and is_own:
        return path
    _LOG.warning("%s is not a folder that only this user can access. %s", folder, _SEPARATE_STATE)
    return None


_SEPARATE_STATE = (
    "Jobs on this machine that send to the same store take turns only if they share a state folder."
)


# The lock of a job: one round at a time, whichever process starts it.


_TIMEOUT_S = 600.0
"""How many seconds a job waits for other jobs of the same store."""


@contextmanager
def lock_job(paths: StatePaths, job: str) -> Iterator[None]:
    """Hold the job's lock; the operating system releases it if the process is killed.

    Raises LockedError if another process holds it, and PetsyncError if it cannot be created.
    """
    with _hold(paths.lock(job), 0.0) as is_ours:
        if not is_ours:
            raise LockedError(
                f"job {job} is already running in another process",
                hint="Wait until it has ended. If rounds of this job often overlap, run it less "
                "often.",
            )
        yield


@contextmanager
def lock_store(paths: StatePaths, store: str, *, timeout_s: float = _TIMEOUT_S) -> Iterator[None]:
    """Hold the locks of a store, so that jobs that send to it run one after another.

    Jobs of this user on this machine wait for each other even if their state folders differ. Raises
    LockedError if a lock is not free within `timeout_s`, and PetsyncError if it cannot be created.
    """
    with ExitStack() as stack:
        for path in filter(None, (paths.store_lock(store), find_store_lock(store))):
            if not stack.enter_context(_hold(path, timeout_s)):
                raise LockedError(
                    f"other jobs have been using {store} for {timeout_s / 60:g} minutes",
                    hint="`petsync runs` shows what is running. The next round tries again.",
                )
        yield


@contextmanager
def _hold(path: Path, seconds: float) -> Iterator[bool]:
    """Yield true if the lock was acquired within `seconds`; release it at the end."""
    # Imported here, because only a reconciliation needs it.
    from filelock import FileLock, Timeout

    try:
        make_private_folder(path.parent)
        lock = FileLock(path, timeout=seconds, mode=0o600)
        lock.acquire(poll_interval=0.2)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise PetsyncError(
            f"{path} cannot be locked: {error.strerror}",
            hint="Check free space and permissions there.",
        ) from None
    try:
        yield True
    finally:
        lock.release()
