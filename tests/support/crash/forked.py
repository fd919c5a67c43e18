"""Commands as forks of a process that has petsync loaded, with the interface of Popen."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from crash.running import Nursery

__all__ = ["Forked", "nursery"]

PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
_MODES = {"stdin": "w", "stdout": "r", "stderr": "r"}


@cache
def nursery() -> Nursery:
    """Return the starter of this process; conftest.py ends it."""
    return Nursery()


class Forked:
    """A running command with the streams, waiting and signals of `subprocess.Popen`."""

    def __init__(
        self,
        args: list[str],
        *,
        cwd: Path | str = ".",
        env: Mapping[str, str] | None = None,
        **streams: int | IO[Any],
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.args = args
        ends = {name: self._end(name, streams.get(name, DEVNULL)) for name in _MODES}
        self._running = nursery().forked(args, Path(cwd).resolve(), env or {}, *ends.values())
        self.pid = self._running.pid
        opened = {name: self._open_stream(name, end) for name, end in ends.items()}
        self.stdin, self.stdout, self.stderr = opened.values()

    def _end(self, name: str, wanted: int | IO[Any]) -> Path:
        """Return the file that the command opens: a named pipe, the null device or the given
        file.
        """
        if not isinstance(wanted, int):
            return Path(wanted.name)
        if wanted == DEVNULL:
            return Path(os.devnull)
        assert wanted == PIPE
        path = Path(self._folder.name, name)
        os.mkfifo(path)
        return path

    def _open_stream(self, name: str, end: Path) -> IO[str] | None:
        """Return this end of a pipe after the command has opened the other; None for other
        files.
        """
        return end.open(_MODES[name], encoding="utf-8") if end.name == name else None

    @property
    def returncode(self) -> int | None:
        """The exit code; None while the command runs."""
        return self._running.code

    def poll(self) -> int | None:
        """Return the exit code; None while the command runs."""
        return self._running.code

    def wait(self, timeout: float = 60.0) -> int:
        """Wait, and return the exit code. Raises TimeoutExpired."""
        if not self._running.ended(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self._running.code is not None
        return self._running.code

    def communicate(self, text: str = "", timeout: float = 60.0) -> tuple[str, str]:
        """Send this text to the command; return its whole output."""
        output = {"stdout": "", "stderr": ""}

        def read(name: str) -> None:
            stream = getattr(self, name)
            output[name] = stream.read() if stream else ""

        readers = [threading.Thread(target=read, args=[name], daemon=True) for name in output]
        for reader in readers:
            reader.start()
        if self.stdin:
            self.stdin.write(text)
            self.stdin.close()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return output["stdout"], output["stderr"]

    def send_signal(self, sign: int) -> None:
        """Send a signal, unless the command has ended."""
        self._running.signal(sign)

    def kill(self) -> None:
        """Kill the command."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()
        self.wait()
        self._folder.cleanup()
