"""The work of a function, counted: the same on each machine and under any load."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """Return the number of lines of Python that `work` executes, and of C functions that they call,
    in this thread. One call of a C function, such as a regular expression or a sort, counts as one
    step.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return count


def list_openings(work: Callable[[], object], folder: Path) -> list[str]:
    """Return the names of the files in the folder that `work` opens, once for each time, sorted."""
    names: list[str] | None = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        # The interpreter keeps the hook.
        if names is not None and event == "open" and isinstance(arguments[0], str | Path):
            path = Path(arguments[0])
            if path.parent == folder:
                names.append(path.name)

    sys.addaudithook(note)
    work()
    found, names = sorted(names), None
    return found


def count_threads(work: Callable[[], object]) -> int:
    """Return how many threads `work` starts."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += 1
        sys.setprofile(None)

    threading.setprofile(note)
    try:
        work()
    finally:
        threading.setprofile(None)
    return count


def growth(work: Callable[[int], object], size: int, *, times: int = 4) -> float:
    """Return the ratio of the work for a size `times` as large: about `times` if the work is
    linear, its square if it is quadratic, and 1 if the size does not matter.
    """
    work(size)  # Imports and caches of the first use do not count.
    return steps(lambda: work(size * times)) / steps(lambda: work(size))
