"""A part whose worker is killed when it computes the part for the first time."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def square(task: tuple[int, str]) -> int:
    """Return the square; for the first time that the folder lacks the number, kill the process."""
    number, folder = task
    marker = Path(folder, str(number))
    if number % 5 == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number
