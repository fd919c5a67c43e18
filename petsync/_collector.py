"""Pauses of Python's garbage collector, which all threads share."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["pause_collection"]


class _Pauses:
    """The pauses of the garbage collector in all threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_enabled = False


_pauses = _Pauses()


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause the garbage collector: it would repeatedly traverse millions of new objects, none of
    them in a cycle. It runs again after the last of several overlapping pauses.
    """
    with _pauses.lock:
        if not _pauses.count:
            _pauses.was_enabled = gc.isenabled()
            gc.disable()
        _pauses.count += 1
    try:
        yield
    finally:
        with _pauses.lock:
            _pauses.count -= 1
            if not _pauses.count and _pauses.was_enabled:
                gc.enable()
