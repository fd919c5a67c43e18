"""Runs a command with a fault at a counted event; petsync itself has no part in it.

`EVENT` names the kind, its number, `before` or `after`, and the action: `kill`, or `lock` with the
lock files that a spreadsheet program leaves, all separated by tabs. With `request 3 after kill`,
the process is killed when the answer to its third request arrives.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

from petsync.cli import main as petsync
from petsync.client.transport import AiohttpTransport

__all__ = ["EVENTS", "main"]

EVENTS = {"request": 30, "write": 30, "commit": 12}
"""The kinds of event, and the highest number that may be drawn for each: a request to the service,
a file replaced or flushed to disk, a transaction of the journal.
"""


def main(args: Sequence[str]) -> None:
    """Run the command with the actions at the events of `EVENT`, one per line."""
    for line in os.environ["EVENT"].splitlines():
        event, number, when, what, *paths = line.split("\t")
        _count(event, int(number), _happening(what, paths), is_after=when == "after")
    petsync(args)


def _happening(what: str, paths: Sequence[str]) -> Callable[[], None]:
    def happen() -> None:
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        for path in paths:
            Path(path).write_bytes(b"\x05Maria")

    return happen


def _count(event: str, number: int, happen: Callable[[], None], *, is_after: bool) -> None:
    """Call `happen` before or after the event with that number."""
    seen, lock = itertools.count(1), threading.Lock()

    def comes(*, after: bool) -> None:
        if after == is_after:
            with lock:
                is_now = next(seen) == number
            if is_now:
                happen()

    if event == "request":
        carry = AiohttpTransport.send

        @wraps(carry)
        async def carried(*args: Any, **options: Any) -> Any:
            comes(after=False)
            answer = await carry(*args, **options)
            comes(after=True)
            return answer

        AiohttpTransport.send = carried  # type: ignore[method-assign]
    elif event == "write":
        for name in ("replace", "rename", "fsync"):
            setattr(os, name, _counted(getattr(os, name), comes))
    else:
        connect = sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
                run = super().execute
                return (_counted(run, comes) if sql == "COMMIT" else run)(sql, *parameters)

        sqlite3.connect = partial(connect, factory=Connection)  # type: ignore[assignment]


def _counted(call: Callable[..., Any], comes: Callable[..., None]) -> Callable[..., Any]:
    @wraps(call)
    def counted(*args: Any, **options: Any) -> Any:
        comes(after=False)
        result = call(*args, **options)
        comes(after=True)
        return result

    return counted
