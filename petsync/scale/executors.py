"""Run the pure functions of parts on several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from petsync.errors import PetsyncError

__all__ = ["run_parts"]

T = TypeVar("T")
R = TypeVar("R")

_ATTEMPTS = 3
"""How often a part is computed if the worker dies."""


def run_parts(
    function: Callable[[T], R], parts: Sequence[T], executor: Executor | None = None
) -> Iterator[R]:
    """Yield the results of a pure function for each part, in order.

    Without an executor, processes on this machine compute the parts, one for each processor. If one
    of them dies, its parts are computed again by new processes. Raises PetsyncError if processes
    die repeatedly, and the errors of the function.
    """
    if executor is not None:
        yield from executor.map(function, parts)
        return
    done = 0
    for _ in range(_ATTEMPTS):
        workers = min(len(os.sched_getaffinity(0)), len(parts) - done)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max(workers, 1), context) as pool:
            try:
                for result in pool.map(function, parts[done:]):
                    done += 1
                    yield result
            except BrokenProcessPool:
                continue
            return
    raise PetsyncError(
        "the processes that compare the parts were ended repeatedly",
        hint="They may need more memory than the machine has: use more parts.",
    )
