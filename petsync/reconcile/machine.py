"""The machine's own folder for locks: jobs that keep their state apart still meet there."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from pathlib import Path

from petsync.reconcile.place import place_of

__all__ = ["turn_of"]

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
