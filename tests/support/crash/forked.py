"""Commands as processes that are forked from one which has petsync loaded, used as Popen is."""

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
    """The one of this process; conftest.py ends it."""
    return Nursery()


class Forked:
    """A command that runs, with the streams, waiting and signals of `subprocess.Popen`."""

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
        opened = {name: self._opened(name, end) for name, end in ends.items()}
        self.stdin, self.stdout, self.stderr = opened.values()

    def _end(self, name: str, wanted: int | IO[Any]) -> Path:
        """What the command opens: a pipe with a name, nothing, or the given file."""
        if not isinstance(wanted, int):
            return Path(wanted.name)
        if wanted == DEVNULL:
            return Path(os.devnull)
        assert wanted == PIPE
        path = Path(self._folder.name, name)
        os.mkfifo(path)
        return path

    def _opened(self, name: str, end: Path) -> IO[str] | None:
        """Our end of a pipe, once the command has opened the other."""
        return end.open(_MODES[name], encoding="utf-8") if end.name == name else None

    @property
    def returncode(self) -> int | None:
        """How it ended, None while it runs."""
        return self._running.code

    def poll(self) -> int | None:
        """The same."""
        return self._running.code

    def wait(self, timeout: float = 60.0) -> int:
        """How it ended, or TimeoutExpired."""
        if not self._running.ended(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self._running.code is not None
        return self._running.code

    def communicate(self, text: str = "", timeout: float = 60.0) -> tuple[str, str]:
        """All that it says, after it was told this."""
        said = {"stdout": "", "stderr": ""}

        def read(name: str) -> None:
            stream = getattr(self, name)
            said[name] = stream.read() if stream else ""

        readers = [threading.Thread(target=read, args=[name], daemon=True) for name in said]
        for reader in readers:
            reader.start()
        if self.stdin:
            self.stdin.write(text)
            self.stdin.close()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return said["stdout"], said["stderr"]

    def send_signal(self, sign: int) -> None:
        """Send a signal, unless it has ended."""
        self._running.signal(sign)

    def kill(self) -> None:
        """End it at once."""
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
