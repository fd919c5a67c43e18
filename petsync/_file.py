"""Where a file that is written whole really goes: never in the place of a device or a pipe."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

__all__ = ["landing"]


def landing(path: Path) -> Path:
    """The path with its symbolic links followed, so that these stay.

    Raises OSError where something other than an ordinary file is there already.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path.resolve()
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise OSError(errno.EINVAL, f"it is {kind}, no ordinary file")
    return path.resolve()
