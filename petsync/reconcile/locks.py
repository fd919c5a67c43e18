"""Locks of a job: one round at a time, also across machines."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from petsync._files import make_private_folder
from petsync.errors import LockedError, PetsyncError
from petsync.reconcile.state import StatePaths

__all__ = ["Place", "lock_job", "place_of", "turn", "turn_of"]


# Places: what tells stores apart, however their addresses are written.


class Place(NamedTuple):
    """A store's: not the letters' case, and no port that goes without saying."""

    scheme: str
    host: str
    port: int | None
    path: str


def place_of(url: str) -> Place:
    """Where the store of this address is."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return Place(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))


# The machine's own folder for locks: jobs that keep their state apart still meet there.


_LOG = logging.getLogger(__name__)


def turn_of(store: str) -> Path | None:
    """Held by the job of this user that sends to a store, whatever its state folder; None where
    there is no folder for it that nobody else can write.
    """
    folder = _folder()
    if folder is None:
        return None
    digest = hashlib.sha256(repr(tuple(place_of(store))).encode()).hexdigest()[:16]
    return folder / f"store.{digest}.lock"


def _folder() -> Path | None:
    """`petsync-UID` in the temporary folder, which others may write as well: so it has to be a
    folder, no link to one, this user's, and closed to everybody else.
    """
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = "the temporary folder"
    try:
        path = Path(tempfile.gettempdir()) / ("petsync" if user is None else f"petsync-{user}")
        folder = str(path)
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        _LOG.warning("%s: %s. %s", folder, error.strerror or error, _ALONE)
        return None
    is_own = user is None or (found.st_uid == user and not found.st_mode & 0o077)
    if stat.S_ISDIR(found.st_mode) and is_own:
        return path
    _LOG.warning("%s is not a folder of this user's alone. %s", folder, _ALONE)
    return None


_ALONE = (
    "Jobs of this machine that send to the same store take turns only where they share a state "
    "folder."
)


# A job's lock: one round of it at a time, whatever starts them.


_PATIENCE = 600.0
"""Seconds in which jobs of one store that start together wait for each other."""


@contextmanager
def lock_job(paths: StatePaths, job: str) -> Iterator[None]:
    """Hold the job's lock; a process that ends in any way gives it back.

    Raises LockedError where another has it, and PetsyncError where it cannot be made.
    """
    with _hold(paths.lock(job), 0.0) as is_ours:
        if not is_ours:
            raise LockedError(
                f"job {job} is at work already, in another process",
                hint="Wait until it has ended. A round that overlaps the one before it every night "
                "wants a longer schedule, or a job with fewer pets.",
            )
        yield


@contextmanager
def turn(paths: StatePaths, store: str, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold the store's turn among jobs that send to it: schedules like to start all at once. Those
    of this user on this machine wait for each other even if they keep their state apart. Raises as
    `locked`, after this many seconds.
    """
    with ExitStack() as stack:
        for path in filter(None, (paths.turn(store), turn_of(store))):
            if not stack.enter_context(_hold(path, patience)):
                raise LockedError(
                    f"another job has been at work on {store} for {patience / 60:g} minutes",
                    hint="`petsync runs` shows what is at work. The next round tries again.",
                )
        yield


@contextmanager
def _hold(path: Path, seconds: float) -> Iterator[bool]:
    """Whether the lock could be had in that time; then it is held meanwhile."""
    # filelock is loaded by those who reconcile.
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
            hint="Check free space and permission there.",
        ) from None
    try:
        yield True
    finally:
        lock.release()
