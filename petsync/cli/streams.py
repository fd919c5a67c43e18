"""The standard streams: a reader that goes away, a full disk."""

from __future__ import annotations

import errno
import logging
import os
import sys
from pathlib import Path
from typing import Any

from petsync.errors import PetsyncError

__all__ = ["lost", "of_output", "prepare"]

_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def prepare() -> None:
    """Make the streams fit to use: text that a terminal cannot show must not end a command.

    Raises PetsyncError where there is no standard output at all (`>&-`).
    """
    # What asyncio and aiohttp have to say of an end in the middle is nothing to a person.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    if sys.stdin is None:
        sys.stdin = _nowhere("r")
    is_closed = sys.stdout is None
    if is_closed:
        sys.stdout = _nowhere("w")
    if sys.stderr is None:
        sys.stderr = _nowhere("w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if is_closed:
        raise PetsyncError(
            "standard output is closed; nothing was done", hint="Use >/dev/null to hide it."
        )


def lost() -> OSError | None:
    """Why standard output cannot be written, None if it can. Streams that cannot be are turned
    off, so that the last flush of the process does not fail once more.
    """
    _flushed(sys.stderr)
    return _flushed(sys.stdout)


def of_output(error: BaseException) -> OSError | None:
    """The error itself where it can only have come from writing to a standard stream."""
    if not isinstance(error, OSError) or isinstance(error, PetsyncError):
        return None
    if error.filename is None and error.errno in _OUTPUT:
        return error
    return None


def _nowhere(mode: str) -> Any:
    return Path(os.devnull).open(mode, encoding="utf-8")


def _flushed(stream: Any) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None
