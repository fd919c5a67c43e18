"""A job's lock: one round of it at a time, whatever starts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from petsync._file import make_private_folder
from petsync.errors import LockedError, PetsyncError
from petsync.reconcile.kept import Kept
from petsync.reconcile.machine import turn_of

__all__ = ["locked", "turn"]


_PATIENCE = 600.0
"""Seconds in which jobs of one store that start together wait for each other."""


@contextmanager
def locked(kept: Kept, job: str) -> Iterator[None]:
    """Hold the job's lock; a process that ends in any way gives it back.

    Raises LockedError where another has it, and PetsyncError where it cannot be made.
    """
    with _held(kept.lock(job), 0.0) as is_ours:
        if not is_ours:
            raise LockedError(
                f"job {job} is at work already, in another process",
                hint="Wait until it has ended. A round that overlaps the one before it every night "
                "wants a longer schedule, or a job with fewer pets.",
            )
        yield


@contextmanager
def turn(kept: Kept, store: str, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold the store's turn among jobs that send to it: schedules like to start all at once. Those
    of this user on this machine wait for each other even if they keep their state apart. Raises as
    `locked`, after this many seconds.
    """
    with ExitStack() as held:
        for path in filter(None, (kept.turn(store), turn_of(store))):
            if not held.enter_context(_held(path, patience)):
                raise LockedError(
                    f"another job has been at work on {store} for {patience / 60:g} minutes",
                    hint="`petsync runs` shows what is at work. The next round tries again.",
                )
        yield


@contextmanager
def _held(path: Path, seconds: float) -> Iterator[bool]:
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
