"""A process that has petsync loaded and forks commands, which saves their loading time.

A fork runs the same `main` as the console script, in its own session, and can be stopped and killed
like any process. Run as a program, this module also loads its arguments, reads one JSON object per
line from standard input, and reports on standard output each started process and each exit code.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from petsync.report.document import Document
from petsync.report.html import document_page

LOADED = (
    "petsync.apply.planfile",
    *(f"petsync.cli.{name}" for name in ("account", "entry", "plan", "reconcile", "run", "runs")),
    *(f"petsync.cli.{name}" for name in ("tools", "upload")),
    "petsync.report.json",
    "petsync.report.progress",
    "petsync.report.text",
    "petsync.sandbox.app",
    "petsync.store",
    "pyarrow.parquet",
)


def main() -> None:
    """Fork the requested commands until standard input ends, then kill the forks that still run."""
    for name in (*LOADED, *sys.argv[1:]):
        import_module(name)
    # The first page loads jinja2 and compiles the templates.
    document_page(Document("", ()), "")
    gc.freeze()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: set[int] = set()
    _say({"ready": True})
    waiting = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            _reap(living)
        if 0 in ready:
            more = os.read(0, 65536)
            if not more:
                break
            *lines, waiting = (waiting + more).split(b"\n")
            for line in lines:
                _fork(json.loads(line), living, reading, writing)
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def _fork(asked: dict[str, Any], living: set[int], *pipes: int) -> None:
    if pid := os.fork():
        living.add(pid)
        _say({"key": asked["key"], "pid": pid})
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for pipe in pipes:
        os.close(pipe)
    _become(asked)


def _become(asked: dict[str, Any]) -> NoReturn:
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.update(asked["env"])
    given = os.open(asked["given"], os.O_RDONLY)
    out, err = (os.open(asked[name], os.O_WRONLY | os.O_CREAT, 0o600) for name in ("out", "err"))
    for place, descriptor in enumerate((given, out, err)):
        os.dup2(descriptor, place)
        os.close(descriptor)
    # The inherited stream objects have wrong information on the new files, such as whether they can
    # seek.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    module, _, name = asked["call"].partition(":")
    code: str | int | None = 0
    try:
        getattr(import_module(module), name)(asked["args"])
    except SystemExit as end:
        code = end.code
    _exit(code)


def run_script(args: Sequence[str]) -> None:
    """Run a Python file, with warnings as errors."""
    warnings.simplefilter("error")
    runpy.run_path(args[0], run_name="__main__")


def _exit(code: str | int | None) -> NoReturn:
    """End the process as the interpreter does, but without visiting the objects that it shares with
    the other forks: the system would copy all their memory.
    """
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # Files and sockets that nobody has closed are reported.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _reap(living: set[int]) -> None:
    while living:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        living.discard(pid)
        _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
