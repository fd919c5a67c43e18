"""A job's lock: one round of it at a time, whatever starts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from petsync.errors import LockedError, PetsyncError
from petsync.reconcile.kept import Kept

__all__ = ["locked"]


@contextmanager
def locked(kept: Kept, job: str) -> Iterator[None]:
    """Hold the job's lock; a process that ends in any way gives it back.

    Raises LockedError where another has it, and PetsyncError where it cannot be made.
    """
    # filelock is loaded by those who reconcile.
    from filelock import FileLock, Timeout

    path = kept.lock(job)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, timeout=0)
        lock.acquire()
    except Timeout:
        raise LockedError(
            f"job {job} is at work already, in another process",
            hint="Wait until it has ended. A round that overlaps the one before it every night "
            "wants a longer schedule, or a job with fewer pets.",
        ) from None
    except OSError as error:
        raise PetsyncError(
            f"{path} cannot be locked: {error.strerror}",
            hint="Check free space and permission there; the state folder has to be writable.",
        ) from None
    try:
        yield
    finally:
        lock.release()
