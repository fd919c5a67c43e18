"""Where a file that is written whole really goes: never in the place of a device or a pipe."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["landing", "write_private"]


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


def write_private(path: Path, data: bytes) -> None:
    """Put `data` at `path`, readable by its owner alone, whole or not at all. Raises OSError."""
    target = landing(path)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
