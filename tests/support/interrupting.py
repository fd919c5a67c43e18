"""Ctrl-C in the test process, exactly where a test waits."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from petsync._sync import _Promise

_WAITING = {"threading.py", "_base.py"}
"""Files of the standard library that wait for events and futures."""
_WAIT = _Promise.wait.__code__
"""The function of petsync that waits for the end of a task."""


def interrupt_in(function: str, then: Callable[[], object] = lambda: None) -> None:
    """Interrupt the main thread once it waits in this function, and call `then`. An earlier
    interrupt would hit the test itself.
    """

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        then()

    once_main_waits_in(function, press)


def once_main_waits_in(function: str, act: Callable[[], object]) -> None:
    """Call `act` from another thread once the main thread waits for an event or a future in this
    function.
    """
    main = threading.main_thread().ident
    assert main is not None

    def wait() -> None:
        while True:
            stack = [frame.f_code for frame, _ in traceback.walk_stack(sys._current_frames()[main])]
            callers = [
                each
                for each in stack
                if each is not _WAIT and Path(each.co_filename).name not in _WAITING
            ]
            if callers[0] is not stack[0] and function in [each.co_name for each in callers[:2]]:
                break
            time.sleep(0.005)
        act()

    threading.Thread(target=wait, daemon=True).start()
