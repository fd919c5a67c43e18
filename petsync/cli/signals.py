"""Signals that end a command: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal.

This module imports little, because no signal is handled until it is loaded.
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

__all__ = [
    "announcing_stop",
    "exit_if_interrupted",
    "exiting_on_signal",
    "finish",
    "ignore_signals",
    "interruptible",
]

_INTERRUPTED = 130
_RETRY_S = 0.01
"""Seconds until another attempt to raise an interrupt that could not be raised."""


@contextmanager
def interruptible() -> Iterator[None]:
    """In the block, make Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread.
    During an import or a callback, in which the exception would be lost, raise it right afterwards.
    """
    # Signals that are already ignored, for example by nohup, stay ignored.
    default_handlers = (_end_process, signal.SIG_DFL, signal.default_int_handler)
    unraisable, sys.unraisablehook = sys.unraisablehook, _handle_unraisable
    try:
        with _handle_signals(
            [n for n in _stop_signals() if signal.getsignal(n) in default_handlers], _interrupt
        ):
            yield
    finally:
        sys.unraisablehook = unraisable


@contextmanager
def exiting_on_signal() -> Iterator[None]:
    """In the block, make a signal end the process at once, with exit code 130: during an import, an
    exception could be changed or lost, and nothing has been started yet.
    """
    ignored = (signal.SIG_IGN, None)
    with _handle_signals(
        [n for n in _stop_signals() if signal.getsignal(n) not in ignored], _end_process
    ):
        yield


@contextmanager
def announcing_stop(text: str) -> Iterator[None]:
    """In the block, print this text on a terminal at the first Ctrl-C, before the interrupt."""
    is_announced = is_busy = False

    def announce(number: int, frame: FrameType | None) -> None:
        nonlocal is_announced, is_busy
        if is_busy and hasattr(signal, "setitimer"):
            # Two exceptions from one handler would arrive as one, so raise the second interrupt
            # later.
            _interrupt_later()
            return
        is_busy, is_first, is_announced = True, not is_announced, True
        try:
            if is_first and sys.stderr.isatty():
                os.write(2, f"\n{text}\n".encode())
            _interrupt(number, frame)
        finally:
            is_busy = False

    is_interruptible = signal.getsignal(signal.SIGINT) is _interrupt
    with _handle_signals([signal.SIGINT] if is_interruptible else [], announce):
        yield


@contextmanager
def ignore_signals() -> Iterator[None]:
    """In the block, ignore signals: the command is already ending."""
    with _handle_signals(
        [n for n in _stop_signals() if callable(signal.getsignal(n))], lambda *_: None
    ):
        yield


_early_exit_code: int | None = None
"""The exit code of an interrupted command, whose process must end without delay."""


def exit_if_interrupted() -> None:
    """End the process at once if its command was interrupted, because Python's shutdown takes
    seconds on a busy machine. Call it last, when everything else is closed.
    """
    if _early_exit_code is not None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(_early_exit_code)


def finish(code: int, *, is_interrupted: bool = False) -> None:
    """From now on, make a signal end the process at once with this code: the command is over, and
    an exception during Python's shutdown would print a traceback. With `is_interrupted`,
    `exit_if_interrupted` then ends the process.
    """
    global _early_exit_code
    _early_exit_code = code if is_interrupted else None

    def end_process(_: int, __: FrameType | None) -> None:
        os._exit(code)

    if threading.current_thread() is threading.main_thread():
        for name in _stop_signals():
            if callable(signal.getsignal(name)):
                signal.signal(name, end_process)


def _stop_signals() -> list[signal.Signals]:
    """Return the signals that end a command and that the system has."""
    # Windows sends SIGBREAK when the console is closed, and for Ctrl-Break.
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


@contextmanager
def _handle_signals(
    names: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Handle these signals in the block, if this is the main thread. If other code sets a handler
    in the meantime, that handler stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = {name: signal.getsignal(name) for name in names} if is_main else {}
    try:
        for name in before:
            signal.signal(name, handler)
        yield
    finally:
        for name, previous in before.items():
            if signal.getsignal(name) is handler:
                signal.signal(name, previous)


def _end_process(_: int, __: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"\nInterrupted before anything was started.\n")
    os._exit(_INTERRUPTED)


_is_interrupted = False
"""Whether an interrupt was raised in this process."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _is_interrupted
    if number == getattr(signal, "SIGHUP", None):
        # A closed terminal sends SIGHUP twice, from the kernel and from the shell; the second one
        # must not interrupt the changes in flight.
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "setitimer") and _is_importing(frame):
        _interrupt_later()
    else:
        _is_interrupted = True
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Return true if a module is being imported: an exception would leave it incomplete."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _interrupt_later() -> None:
    """Interrupt again shortly, with the handler that is then set."""

    def interrupt_again(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)

    signal.signal(signal.SIGALRM, interrupt_again)
    signal.setitimer(signal.ITIMER_REAL, _RETRY_S)


def _handle_unraisable(args: sys.UnraisableHookArgs) -> None:
    """Deliver an interrupt again if it came in a callback, from which no exception can
    propagate.
    """
    if issubclass(args.exc_type, KeyboardInterrupt) and hasattr(signal, "setitimer"):
        _interrupt_later()
    elif not _is_interrupted:
        # After an interrupt, an object that is only half built can fail in its `__del__`.
        sys.__unraisablehook__(args)
