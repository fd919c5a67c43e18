"""The standard streams and signals: a reader that goes away, a full disk, a request to end."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from petsync.errors import PetsyncError

__all__ = ["interruptible", "loading", "lost", "of_output", "prepare", "stopping"]

_INTERRUPTED = 130
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


def of_output(error: Exception) -> OSError | None:
    """The error itself where it can only have come from writing to a standard stream."""
    if not isinstance(error, OSError) or isinstance(error, PetsyncError):
        return None
    if error.filename is None and error.errno in _OUTPUT:
        return error
    return None


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile SIGTERM, and a terminal that is closed, are what Ctrl-C is."""
    # What is ignored already, as by nohup, stays ignored.
    names = (signal.SIGTERM, signal.SIGHUP)
    with _handled([n for n in names if signal.getsignal(n) is signal.SIG_DFL], _interrupt):
        yield


@contextmanager
def loading() -> Iterator[None]:
    """Meanwhile a request to end ends the process at once, with 130. In the middle of an import it
    would come out as anything, or be lost; and nothing has been begun yet.
    """
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with _handled([n for n in names if signal.getsignal(n) not in (signal.SIG_IGN, None)], _end):
        yield


@contextmanager
def stopping(text: str) -> Iterator[None]:
    """Meanwhile the first Ctrl-C says this on a terminal, before it does what it always does."""

    def told(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.default_int_handler)
        if sys.stderr.isatty():
            os.write(2, f"\n{text}\n".encode())
        signal.default_int_handler(number, frame)

    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with _handled([signal.SIGINT] if is_default else [], told):
        yield


@contextmanager
def _handled(
    names: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Meanwhile these signals are handled so; where the thread may say, which is the main one."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {name: signal.getsignal(name) for name in names} if is_main else {}
    for name in before:
        signal.signal(name, handler)
    try:
        yield
    finally:
        for name, was in before.items():
            signal.signal(name, was)


def _end(_: int, __: FrameType | None) -> None:
    os.write(2, b"\nInterrupted before anything was begun.\n")
    os._exit(_INTERRUPTED)


def _interrupt(number: int, _: FrameType | None) -> None:
    if number == signal.SIGHUP:
        # A terminal that closes says so twice, by the kernel and by the shell; the second must
        # not cut off the changes that are being finished.
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _nowhere(mode: str) -> Any:
    return Path(os.devnull).open(mode, encoding="utf-8")


def _flushed(stream: Any) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None
