"""A command under bad conditions: little disk space, no superuser rights, or short timeouts.

`WORSE` has the conditions, such as `disk=200000 patience=2 stale=2 weak=1`.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Sequence
from typing import NoReturn

from crash import doomed

from petsync.apply.journal import schema, writer
from petsync.cli import main as petsync
from petsync.client.throttle import Breaker

__all__ = ["main"]


def main(args: Sequence[str]) -> NoReturn:
    """Run the command under these conditions."""
    for word in os.environ["WORSE"].split():
        name, _, value = word.partition("=")
        _CONDITIONS[name](float(value))
    if "DOOM" in os.environ:
        doomed.main(args)
    petsync(args)


def _disk(size: float) -> None:
    """Limit the size of each file, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))


def _patience(seconds: float) -> None:
    """Wait this many seconds for a missing service, after a few failures, instead of a minute."""
    defaults = Breaker.__init__.__kwdefaults__
    assert {"failures", "patience", "never_reached_s"} <= set(defaults)
    defaults.update(failures=4, patience=seconds, never_reached_s=seconds)


def _stale(seconds: float) -> None:
    """Count a process as dead after this many seconds without a heartbeat, instead of twenty."""
    assert schema._STALE_S == 20.0
    assert writer.HEARTBEAT_S == schema.HEARTBEAT_S == 2.0
    assert writer._STANDSTILL_S == 5.0
    schema._STALE_S, schema.HEARTBEAT_S, writer.HEARTBEAT_S = seconds, seconds / 10, seconds / 10
    writer._STANDSTILL_S = seconds / 4


def _weak(_: float) -> None:
    """Give up the superuser's right to read and write all files."""

    class Header(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    class Rights(ctypes.Structure):
        _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "kept"))

    if os.geteuid() == 0:
        header, none = Header(0x20080522, 0), (Rights * 2)()
        assert ctypes.CDLL(None).capset(ctypes.byref(header), ctypes.byref(none)) == 0


_CONDITIONS = {"disk": _disk, "patience": _patience, "stale": _stale, "weak": _weak}
