"""Run the pure functions of parts on several processes."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self, TypeVar

from petsync._extras import needs_extra
from petsync.errors import PetsyncError, SettingsError

__all__ = ["LocalProcesses", "Workers", "connect_dask"]

T = TypeVar("T")
R = TypeVar("R")

_CONNECT_S = 30
_ATTEMPTS = 3
"""The maximum number of times that a part is computed if its worker dies."""
_UNITS = {"MB": 10**6, "MIB": 2**20, "GB": 10**9, "GIB": 2**30}
_PROCESS_BYTES, _FACTOR = 250 * 2**20, 20
"""The bytes that a process needs without a part, and the number of bytes for each byte of an
uncompressed part.
"""
_MIN_BYTES = 4 * 2**20
"""The minimum size of a side, in bytes, for which other processes are faster than this one:
starting a process takes most of a second.
"""


class LocalProcesses(Executor):
    """Processes on this machine that together need at most `memory`, such as "2GiB", to compare
    parts. `Workers` starts them.

    Raises SettingsError if `memory` is not a size.
    """

    def __init__(self, memory: str) -> None:
        self._memory = memory
        given = memory if isinstance(memory, str) else ""
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([MG]i?B)", given, re.IGNORECASE)
        if match is None:
            raise SettingsError(
                f"--memory {memory} (in Python memory={memory!r}) is not a size",
                hint="Write, for example, 2GiB or 500MB.",
            )
        self._bytes = float(match[1]) * _UNITS[match[2].upper()]

    def count(self, size: int, parts: int) -> int:
        """Return how many processes fit, for `parts` that have `size` bytes in all. Raises
        SettingsError if none does.
        """
        found = int(self._bytes / (_PROCESS_BYTES + _FACTOR * size / parts))
        if found:
            return min(found, _count_processors())
        room = self._bytes - _PROCESS_BYTES
        raise SettingsError(
            f"not even one of the {parts:,} parts fits into {self._memory} of memory",
            hint="Allow more memory, or export to more parts: in Python "
            f"store.export_to(…, partitions={-int(-_FACTOR * size // room)})."
            if room > 0
            else f"A process needs more than {_PROCESS_BYTES >> 20} MiB.",
        )


class Workers:
    """Computes parts with the given executor. Without one, it starts a process for each processor
    or, if `size`, the bytes of the larger side, is small, uses this process. It is a context
    manager: at the end of the block, the processes that it started end.

    If the executor is `LocalProcesses`, `size` and `parts` limit the number of the processes.

    The processes do not import the caller's `__main__`: a script that applies a plan before it
    compares a folder would be run again.
    """

    def __init__(self, executor: Executor | None, size: int = 0, parts: int = 1) -> None:
        self._executor, self._count = executor, _count_processors()
        if isinstance(executor, LocalProcesses):
            self._executor, self._count = None, executor.count(size, parts)
        self._own: ProcessPoolExecutor | None = None
        self.start_early(size)

    def start_early(self, size: int) -> None:
        """Start the processes if they are needed for a side of this many bytes, so that they are
        ready when the caller has prepared the parts.
        """
        self._is_small = size < _MIN_BYTES
        if self._executor is None and not self._is_small:
            with suppress(BrokenProcessPool):
                self._get_own().map(_load, range(self._count))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._own is not None:
            self._own.shutdown(cancel_futures=True)

    @property
    def has_workers(self) -> bool:
        """Whether other processes or threads compute the parts."""
        return self._executor is not None or not self._is_small

    def run(
        self, function: Callable[[T], R], parts: Sequence[T], *, groups: int | None = None
    ) -> Iterator[R]:
        """Yield the results of a pure function for each part, in order. With `groups`, a process
        gets one group of parts at a time, with one copy of the function, and returns the results of
        the whole group together.

        If a process of this machine dies, new processes compute its parts again. Raises
        PetsyncError if processes die repeatedly, and the errors of the function.
        """
        size = 1 if groups is None else -(-len(parts) // groups)
        if self._executor is not None:
            yield from self._executor.map(function, parts, chunksize=size)
            return
        if self._is_small:
            yield from map(function, parts)
            return
        done = 0
        for _ in range(_ATTEMPTS):
            try:
                for result in self._get_own().map(function, parts[done:], chunksize=size):
                    done += 1
                    yield result
            except BrokenProcessPool:
                # Wait until the other processes have ended too.
                self._get_own().shutdown()
                self._own = None
                continue
            return
        raise PetsyncError(
            "the processes that compare the parts of the sheet were ended repeatedly",
            hint="They may need more memory than the machine has: export again with more "
            "partitions.",
        )

    def _get_own(self) -> ProcessPoolExecutor:
        if self._own is None:
            self._own = ProcessPoolExecutor(self._count, _Context(), initializer=_begin)
        return self._own


class _Process(SpawnProcess):
    def start(self) -> None:
        """Start the process as if the caller had no `__main__`."""
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    Process = _Process


def _begin() -> None:
    """Prepare a process: Ctrl-C is for the caller, which then ends the processes. If the caller is
    killed, they end too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_caller, daemon=True).start()


def _end_with_caller() -> None:
    if (caller := parent_process()) is not None:
        caller.join()
        os._exit(1)


@contextmanager
def connect_dask(address: str) -> Iterator[Executor]:
    """Yield an executor that computes on the workers of a Dask cluster. `address` is that of the
    scheduler, such as tcp://scheduler:8786, or a path of its scheduler file.

    Raises MissingExtraError if the package `distributed` is missing, SettingsError if the cluster
    cannot be reached.
    """
    with needs_extra("dask", "a Dask cluster"):
        distributed = import_module("distributed")
    is_address = "://" in address
    if not is_address and not Path(address).is_file():
        raise SettingsError(
            f"{address!r} is neither the address of a Dask scheduler nor its scheduler file",
            hint="An address looks like tcp://scheduler:8786.",
        )
    target = {"address": address} if is_address else {"scheduler_file": address}
    try:
        client = distributed.Client(**target, set_as_default=False, timeout=_CONNECT_S)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"the Dask scheduler at {address} cannot be reached: {error}",
            hint="Check that it is running, with the same version of Dask.",
        ) from None
    with client:
        yield client.get_executor(retries=_ATTEMPTS - 1, pure=False)


def _count_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load(_: int) -> None:
    """Import what the parts need."""
    import_module("petsync.scale.reduce")
