"""A command that sends itself a signal at a given point; petsync contains no code for this.

Points are calls of Python functions. As a program (`signalled.py FOLDER STEP SIGN ARGS…`) it forks
at every STEP-th call of the main thread, until another thread starts: the fork gets the signal, and
its output and exit code are written below FOLDER. As `main` it gets the signal itself, at call
number `POINT` of a function of petsync.apply in any thread.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

__all__ = ["main"]


def main(args: Sequence[str]) -> NoReturn:
    """Run the command, with the signal at its point."""
    import petsync.cli

    home = str(Path(petsync.cli.__file__).parents[1] / "apply")
    point, sign = int(os.environ["POINT"]), int(os.environ["SIGN"])
    calls = itertools.count(1)

    def trace(frame: FrameType, _: str, __: object) -> None:
        if frame.f_code.co_filename.startswith(home) and next(calls) == point:
            os.kill(os.getpid(), sign)

    threading.settrace(trace)
    sys.settrace(trace)
    petsync.cli.main(args)


def _fork_at_points(folder: str, step: int, sign: int) -> None:
    """Trace the main thread and fork at its points: for SIGINT from the first call of petsync's
    `main`, for other signals once a handler is installed.
    """
    calls = itertools.count(1)
    is_started = False

    def trace(frame: FrameType, _: str, __: object) -> None:
        nonlocal is_started
        if not is_started and signal.getsignal(sign) is not signal.SIG_DFL:
            names = frame.f_globals.get("__name__"), frame.f_code.co_name
            is_started = sign != signal.SIGINT or names == ("petsync.cli", "main")
        if frame.f_code is threading.Thread.start.__code__:
            sys.settrace(None)
            return
        if not is_started or next(calls) % step:
            return
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
            Path(folder, f"{child}.end").write_text(f"{code} {place}")
            return
        sys.settrace(None)
        output = os.open(f"{folder}/{os.getpid()}.said", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.kill(os.getpid(), sign)

    sys.settrace(trace)


if __name__ == "__main__":
    _folder, _step, _sign = sys.argv[1:4]
    sys.argv = ["petsync", *sys.argv[4:]]
    _fork_at_points(_folder, int(_step), int(_sign))
    from petsync.cli import main as petsync

    petsync()
