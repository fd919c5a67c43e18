"""Requests to end: Ctrl-C, SIGTERM, and a terminal that closes.

It imports little, as nothing else handles a signal until it is loaded.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

__all__ = ["ignore_signals", "interruptible", "leave", "loading", "settle", "stopping"]

_INTERRUPTED = 130
_LATER = 0.01
"""The seconds after which an interrupt that could not be raised is tried again."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile Ctrl-C, SIGTERM and a terminal that closes raise KeyboardInterrupt in the main
    thread; in an import or a callback, where it would be lost, as soon as that is over.
    """
    # What is ignored already, as by nohup, stays ignored.
    fresh = (_end, signal.SIG_DFL, signal.default_int_handler)
    unraisable, sys.unraisablehook = sys.unraisablehook, _unraisable
    try:
        with _handle_signals([n for n in _names() if signal.getsignal(n) in fresh], _interrupt):
            yield
    finally:
        sys.unraisablehook = unraisable


@contextmanager
def loading() -> Iterator[None]:
    """Meanwhile a request to end ends the process at once, with 130. In the middle of an import it
    would come out as anything, or be lost; and nothing has been begun yet.
    """
    ignored = (signal.SIG_IGN, None)
    with _handle_signals([n for n in _names() if signal.getsignal(n) not in ignored], _end):
        yield


@contextmanager
def stopping(text: str) -> Iterator[None]:
    """Meanwhile the first Ctrl-C says this on a terminal, before it does what it always does."""
    told = False

    def tell(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if not told and sys.stderr.isatty():
            os.write(2, f"\n{text}\n".encode())
        told = True
        _interrupt(number, frame)

    is_ours = signal.getsignal(signal.SIGINT) is _interrupt
    with _handle_signals([signal.SIGINT] if is_ours else [], tell):
        yield


@contextmanager
def ignore_signals() -> Iterator[None]:
    """Meanwhile a request to end does nothing: it has come already, and the way out is short."""
    with _handle_signals([n for n in _names() if callable(signal.getsignal(n))], lambda *_: None):
        yield


_hurried: int | None = None
"""The exit code of a command that somebody has ended, and waits for."""


def leave() -> None:
    """End the process at once if somebody has ended its command: to take apart all that is loaded
    takes Python seconds on a busy machine. To be called last, when all else is closed.
    """
    if _hurried is not None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(_hurried)


def settle(code: int, *, hurried: bool = False) -> None:
    """From now on a request to end ends the process at once with this code: the command is over,
    and an exception while Python shuts down would show as a traceback. `hurried`: somebody has
    ended it, and waits.
    """
    global _hurried
    _hurried = code if hurried else None

    def end(_: int, __: FrameType | None) -> None:
        os._exit(code)

    if threading.current_thread() is threading.main_thread():
        for name in _names():
            if callable(signal.getsignal(name)):
                signal.signal(name, end)


def _names() -> list[signal.Signals]:
    """The requests to end that the system has."""
    return [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]


@contextmanager
def _handle_signals(
    names: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Meanwhile these signals are handled so; where the thread may say, which is the main one. What
    somebody else has set meanwhile stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = {name: signal.getsignal(name) for name in names} if is_main else {}
    try:
        for name in before:
            signal.signal(name, handler)
        yield
    finally:
        for name, was in before.items():
            if signal.getsignal(name) is handler:
                signal.signal(name, was)


def _end(_: int, __: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"\nInterrupted before anything was begun.\n")
    os._exit(_INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number == getattr(signal, "SIGHUP", None):
        # A terminal that closes says so twice, by the kernel and by the shell; the second must
        # not cut off the changes that are being finished.
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "setitimer") and _is_importing(frame):
        _interrupt_later()
    else:
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: an exception would leave half of it behind."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _interrupt_later() -> None:
    """Interrupt again in a moment, in the way that is then in force."""

    def again(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)

    signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, _LATER)


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """An interrupt that came in a callback, which cannot raise it, is delivered again."""
    if issubclass(lost.exc_type, KeyboardInterrupt) and hasattr(signal, "setitimer"):
        _interrupt_later()
    else:
        sys.__unraisablehook__(lost)
