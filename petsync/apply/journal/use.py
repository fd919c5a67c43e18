"""Whether a journal's file is in use, by this process or another."""

from __future__ import annotations

import os
import threading
from collections import Counter
from importlib import import_module
from pathlib import Path

__all__ = ["begin_use", "end_use", "is_used"]

# Where SQLite's connections keep their shared lock (its file format, "The locking page").
_FIRST, _SIZE = 0x40000002, 510

_used: Counter[Path] = Counter()
_guard = threading.Lock()


def begin_use(path: Path) -> None:
    """A sitting of this process writes to it from now on."""
    with _guard:
        _used[path.absolute()] += 1


def end_use(path: Path) -> None:
    """It does no more."""
    with _guard:
        _used[path.absolute()] -= 1


def is_used(path: Path) -> bool:
    """Whether some connection is open, as far as that can be told."""
    with _guard:
        # Not to be opened then: closing it would drop the locks of this process's connections.
        if _used[path.absolute()] > 0:
            return True
    try:
        fcntl = import_module("fcntl")
        descriptor = os.open(path, os.O_RDWR)
    except ImportError:
        # On Windows, a file in use cannot be moved anyway.
        return False
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _SIZE, _FIRST)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
