"""Commands as processes that a test can kill: a new Python, or a fork of a loaded one."""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Nursery", "Running"]

MAIN = "petsync.cli:main"


class Running:
    """One process; `out` and `err` are the files of its output."""

    def __init__(self, pid: int, out: Path, err: Path) -> None:
        self.pid, self.out, self.err = pid, out, err
        self.code: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        """Record the exit code when the process has ended; `-9` if it was killed."""
        self.code = code
        self._ended.set()

    def ended(self, seconds: float) -> bool:
        """Return true if the process ends within this time."""
        return self._ended.wait(seconds)

    @property
    def is_alive(self) -> bool:
        """True unless the process is known to have ended."""
        return not self._ended.is_set()

    def signal(self, sign: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sign)

    def kill(self) -> int:
        """Kill the process unless it has ended, and return its exit code."""
        self.signal(signal.SIGKILL)
        return self.wait(120)

    def wait(self, seconds: float) -> int:
        """Return the exit code; AssertionError with the output if the process does not end in
        time.
        """
        if not self._ended.wait(seconds):
            # SIGABRT makes the process write the stack of each thread.
            self.signal(signal.SIGABRT)
            self._ended.wait(5)
            self.signal(signal.SIGKILL)
            raise AssertionError(f"not ended after {seconds} s:\n{self.output()}")
        assert self.code is not None
        return self.code

    def until(self, holds: Callable[[], bool], seconds: float = 120.0) -> bool:
        """Return true if the condition becomes true before the process ends; checked every 2 ms."""
        limit = time.monotonic() + seconds
        while self.is_alive and time.monotonic() < limit:
            if holds():
                return True
            time.sleep(0.002)
        return holds()

    def output(self) -> str:
        """Return the end of each output file so far."""
        texts = [(path, path.read_text("utf-8", "replace")) for path in self._streams()]
        # The output of an aborted process ends with a long list of modules.
        ends = [(path, text.partition("\nExtension modules:")[0][-2000:]) for path, text in texts]
        return "\n".join(f"[{path.name}] {end}" for path, end in ends)

    def json(self) -> Any:
        """Return the only JSON document on its standard output."""
        return json.loads(self.out.read_bytes())

    def _streams(self) -> list[Path]:
        return [path for path in (self.out, self.err) if path.exists()]


class Nursery:
    """Starts commands; a context manager that leaves no process running. Forked commands have the
    modules `loaded` imported.
    """

    def __init__(self, *loaded: str) -> None:
        self._keys = itertools.count()
        self._born: dict[int, tuple[queue.Queue[Running], Path, Path]] = {}
        self._fresh: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        here = Path(__file__).parent
        self._program = subprocess.Popen(
            [sys.executable, str(here / "nursery.py"), *loaded],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_environment(), "PYTHONPATH": os.pathsep.join((str(here.parent), *_paths()))},
        )
        assert self._program.stdout is not None
        assert self._program.stdout.readline() == b'{"ready": true}\n'
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait(20)
        self._thread.join()
        self._program.stdout.close()
        for process in self._fresh:
            process.kill()
            process.wait()

    def __call__(
        self,
        *args: object,
        folder: Path,
        call: str = MAIN,
        env: Mapping[str, str] | None = None,
        fresh: bool = False,
        stdin: str = "",
    ) -> Running:
        """Start a command in `folder`: as a new Python process if `fresh`, else as a fork that
        reads `stdin`.
        """
        key = next(self._keys)
        logs = folder / "logs"
        logs.mkdir(exist_ok=True)
        out, err = (logs / f"{key:03}-{args[0]}.{name}" for name in ("out", "err"))
        words = [str(arg) for arg in args]
        if fresh:
            return self._started(words, folder, out, err, env or {})
        given = Path(os.devnull)
        if stdin:
            given = out.with_suffix(".in")
            given.write_text(stdin, "utf-8")
        return self.forked(words, folder, env or {}, given, out, err, call=call)

    def forked(
        self,
        words: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        given: Path,
        out: Path,
        err: Path,
        *,
        call: str = MAIN,
    ) -> Running:
        """Fork a command that reads from and writes to these files or named pipes."""
        key = next(self._keys)
        asked = {"key": key, "args": [*words], "folder": str(folder), "call": call}
        ends = {"given": str(given), "out": str(out), "err": str(err)}
        return self._forked(key, {**asked, **ends, "env": dict(env)})

    def _started(
        self, words: Sequence[str], folder: Path, out: Path, err: Path, env: Mapping[str, str]
    ) -> Running:
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                [sys.executable, "-m", "petsync.cli", *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                env={**_environment(), **env},
                start_new_session=True,
            )
        self._fresh.append(process)
        running = Running(process.pid, out, err)
        threading.Thread(target=lambda: running.end(process.wait()), daemon=True).start()
        return running

    def _forked(self, key: int, asked: Mapping[str, Any]) -> Running:
        born: queue.Queue[Running] = queue.Queue()
        self._born[key] = (born, Path(asked["out"]), Path(asked["err"]))
        assert self._program.stdin is not None
        with self._lock:
            self._program.stdin.write(json.dumps(asked).encode() + b"\n")
            self._program.stdin.flush()
        return born.get(timeout=20)

    def _listen(self) -> None:
        assert self._program.stdout is not None
        running: dict[int, Running] = {}
        for line in self._program.stdout:
            output = json.loads(line)
            if "key" in output:
                born, out, err = self._born.pop(output["key"])
                running[output["pid"]] = Running(output["pid"], out, err)
                born.put(running[output["pid"]])
            else:
                running.pop(output["pid"]).end(output["code"])


def _environment() -> dict[str, str]:
    ours = ("PETSYNC_", "COVERAGE", "PYTEST")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PYTHONFAULTHANDLER": "1"}


def _paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
