"""How much work something does, counted: the same on each machine, and under any load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """The lines of Python that `work` executes, and the functions of C that they call, in this
    thread. What a single call of C does (a regular expression, a sort) counts as one step.
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


def growth(work: Callable[[int], object], size: int, *, times: int = 4) -> float:
    """How many times as much work a size `times` as large takes: about `times` where the work is
    linear, about its square where it is quadratic, and 1 where the size does not matter.
    """
    work(size)  # What is imported or cached at first use is not to count.
    return steps(lambda: work(size * times)) / steps(lambda: work(size))
