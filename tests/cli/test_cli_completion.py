"""Completion: the script for each shell, and the Tab key in bash."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pexpect
import pytest
from commands import PROGRAM, Shell

pytestmark = pytest.mark.slow

_PROMPT = "ready> "


@pytest.mark.parametrize(
    ("name", "registers"),
    [
        ("bash", "complete -o nosort -F"),
        ("zsh", "#compdef petsync"),
        ("fish", "complete --no-files"),
    ],
)
def test_script_is_printed(shell: Shell, name: str, registers: str) -> None:
    """Each shell's script registers itself for petsync and contains no path of this machine."""
    done = shell("completion", name)
    assert (done.code, done.err) == (0, "")
    assert registers in done.out
    assert "_PETSYNC_COMPLETE" in done.out
    assert sys.prefix not in done.out
    as_json = json.loads(shell("completion", name, "--json").out)
    assert as_json == {"shell": name, "script": done.out.strip()}


def test_unknown_shell_is_a_usage_error(shell: Shell) -> None:
    """An unknown shell is refused, and the error names the known ones."""
    done = shell("completion", "tcsh")
    assert done.code == 64
    assert all(name in done.err for name in ("bash", "zsh", "fish"))


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[pexpect.spawn[str]]:
    """Yield a bash that has evaluated the script, in a folder with a sheet."""
    program = tmp_path / "bin" / "petsync"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n', "utf-8")
    program.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "catalogue of 2026.xlsx").touch()
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb"}
    env.update(PS1=_PROMPT, INPUTRC=os.devnull, HISTFILE=os.devnull)
    arguments = ["--norc", "--noprofile", "-i"]
    running: pexpect.spawn[str] = pexpect.spawn(
        "bash", arguments, cwd=str(folder), env=env, encoding="utf-8", timeout=20
    )
    running.expect_exact(_PROMPT)
    for line in ("bind 'set enable-bracketed-paste off'", 'eval "$(petsync completion bash)"'):
        running.sendline(line)
        running.expect_exact(_PROMPT)
    yield running
    running.close(force=True)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("petsync unde\t", None),
        ("petsync und\t", "petsync undo "),
        ("petsync plan --delete-m\t", "petsync plan --delete-missing "),
        ("petsync plan cata\t", "petsync plan catalogue\\ of\\ 2026.xlsx "),
        ("petsync completion fi\t", "petsync completion fish "),
    ],
    ids=["nothing", "command", "option", "file", "choice"],
)
def test_bash_completes(bash: pexpect.spawn[str], typed: str, completed: str | None) -> None:
    """Tab completes commands, options, choices, and files where a command takes a sheet."""
    shown = completed or typed.rstrip("\t")
    bash.send(typed)
    bash.expect_exact(shown)
    bash.send("#")
    bash.expect_exact("#")
    assert not (bash.before or "").strip("\a")


def _ask(**words: str) -> dict[str, str]:
    return {**os.environ, "_PETSYNC_COMPLETE": "bash_complete", **words}


@pytest.mark.parametrize("words", [{}, {"COMP_WORDS": "petsync --json runs ", "COMP_CWORD": "x"}])
def test_errors_stay_out_of_the_line(words: dict[str, str]) -> None:
    """A completion that fails prints nothing, also with --json."""
    done = subprocess.run(PROGRAM, env=_ask(**words), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_interrupted_completion() -> None:
    """Ctrl-C during a completion ends it with code 130, and nothing is printed."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:  # A full pipe keeps the completion from ending.
            os.write(writing, b"x")
    os.set_blocking(writing, True)
    words = {"COMP_WORDS": "petsync pl", "COMP_CWORD": "1"}
    with subprocess.Popen(
        PROGRAM, env=_ask(**words), stdout=writing, stderr=subprocess.PIPE
    ) as one:
        os.close(writing)
        stderr = Path(f"/proc/{one.pid}/fd/2")
        deadline = time.monotonic() + 120
        while stderr.readlink() != Path(os.devnull):
            assert one.poll() is None
            assert time.monotonic() < deadline, "the completion can print errors"
        one.send_signal(signal.SIGINT)
        os.close(reading)
        assert one.stderr is not None
        assert one.stderr.read() == b""
    assert one.returncode == 130


def test_asking_loads_nothing_heavy() -> None:
    """Completion loads neither pandas nor the client nor the server."""
    code = (
        "import sys\n"
        "from petsync.cli import main\n"
        "try:\n main([])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    asked = {"_PETSYNC_COMPLETE": "bash_complete", "COMP_WORDS": "petsync pl", "COMP_CWORD": "1"}
    program = [sys.executable, "-c", code]
    done = subprocess.run(
        program, env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "plain,plan\n"
    heavy = {"pandas", "numpy", "httpx", "aiohttp", "openpyxl", "starlette", "rich", "keyring"}
    heavy |= {"pydantic"}
    assert not set(done.stderr.split()) & heavy
