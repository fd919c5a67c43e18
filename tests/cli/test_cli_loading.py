"""Signals during the imports, and the end of the process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest
from crash import signalled

from petsync.cli.signals import announcing_stop, exiting_on_signal, interruptible
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_and_says_so(number: signal.Signals) -> None:
    """A signal during an import ends the process with 130 and one line."""
    code = (
        "from petsync.cli.signals import exiting_on_signal\n"
        "import sys, time\n"
        "with exiting_on_signal():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(3600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, output = process.communicate(timeout=120)
    assert (process.returncode, output.strip()) == (130, "Interrupted before anything was started.")


def test_handlers_come_back() -> None:
    """After the block, the previous handler of Ctrl-C is restored."""
    before = signal.getsignal(signal.SIGINT)
    with exiting_on_signal():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_commands_module_is_imported(number: signal.Signals) -> None:
    """A signal during the import of a command's module ends the process with 130 and one line."""
    code = (
        "import signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'petsync.cli.plan':\n"
        f"            signal.raise_signal({int(number)})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['petsync', 'plan', '--help']\n"
        "from petsync.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "Interrupted before anything was started."


def test_nothing_is_imported_before_signals_are_handled() -> None:
    """Before `main`, the console script and `python -m petsync` import only the two packages."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "from petsync.cli import main\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    output = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    assert output.decode().split() == ["__future__", "petsync", "petsync.cli"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_point_of_the_start(number: signal.Signals, tmp_path: Path) -> None:
    """A signal anywhere between the first line of `main` and the first thread ends the process with
    130 and without a traceback.
    """
    (tmp_path / "sheet.csv").write_text("name,status\nRex,available\n")
    folder = tmp_path / "said"
    folder.mkdir()
    program = [sys.executable, signalled.__file__, str(folder), "3001", str(int(number))]
    command = ["apply", "sheet.csv", "--yes", "--url", "http://127.0.0.1:9", "--state", "state"]
    env = {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE")}
    subprocess.run([*program, *command], cwd=tmp_path, env=env, capture_output=True, timeout=120)
    ends = {path: path.read_text().split(maxsplit=1) for path in folder.glob("*.end")}
    assert len(ends) > 20
    wrong = {
        place: (code, text)
        for path, (code, place) in ends.items()
        for text in [path.with_suffix(".said").read_text()]
        if code != "130" or "Traceback" in text
    }
    assert not wrong, Counter(code for code, _ in wrong.values())


LOADED = """
import os, sys
from petsync.cli import main

class Heavy:
    def __del__(self):
        os.write(1, b"taken apart")

kept = Heavy()
main()
"""


@pytest.mark.parametrize("is_ended", [True, False])
def test_who_has_ended_a_command_does_not_wait_for_python(tmp_path: Path, is_ended: bool) -> None:
    """A command that is done, or was interrupted, exits with its whole output, and without the
    interpreter's visit of every object.
    """
    (tmp_path / "sheet.csv").write_text("name,status\nRex,available\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        words = ["plan", "sheet.csv", "--url", url] if is_ended else ["check", "sheet.csv"]
        program = [sys.executable, "-c", LOADED, *words]
        with subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE) as running:
            if is_ended:
                silent.settimeout(60)
                connection, _ = silent.accept()
                running.send_signal(signal.SIGINT)
                connection.close()
            output, _ = running.communicate(timeout=60)
    assert running.returncode == (130 if is_ended else 0)
    assert b"taken apart" not in output
    assert output.endswith(b"\n") is not is_ended


COUNTED = """
import atexit, gc
from petsync.cli import main

kinds = []
default = gc.get_threshold()
gc.callbacks.append(lambda kind, _: kinds.append(kind) if gc.get_threshold() != default else None)
atexit.register(lambda: print("collections:", len(kinds)))
main()
"""


def test_no_garbage_is_collected_while_a_command_loads(tmp_path: Path, box: Sandbox) -> None:
    """The garbage collector never visits the objects of a command that reads a store and plans."""
    (tmp_path / "sheet.csv").write_text("name,status\nNero,available\n")
    program = [sys.executable, "-c", COUNTED, "plan", "sheet.csv", "--url", box.url]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert "1 to add" in done.stdout
    assert done.stdout.endswith("\ncollections: 0\n")


@pytest.mark.parametrize("times", [2, 3])
def test_an_interrupt_during_the_announcement_of_another_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Interrupts that come while the first one is announced interrupt once more afterwards."""

    printed = list[bytes]()

    def write(_: int, data: bytes) -> int:
        printed.append(data)
        for _ in range(times - 1 if len(printed) == 1 else 0):
            signal.raise_signal(signal.SIGINT)
        return len(data)

    interrupts = 0
    monkeypatch.setattr(sys, "stderr", Mock(isatty=lambda: True))
    monkeypatch.setattr(os, "write", write)
    with interruptible(), announcing_stop("Stopping"):
        for wait in (lambda: signal.raise_signal(signal.SIGINT), lambda: time.sleep(10)):
            try:
                wait()
            except KeyboardInterrupt:
                interrupts += 1
    assert interrupts == 2
    assert printed == [b"\nStopping\n"]


def test_large_blocks_are_mapped() -> None:
    """A command returns freed columns to the system, even after larger ones were freed."""
    code = (
        "import ctypes\n"
        "from petsync.cli.entry import main\n"
        "class Info(ctypes.Structure):\n"
        "    _fields_ = [(str(n), ctypes.c_size_t) for n in range(10)]\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.mallinfo2.restype = Info\n"
        "libc.malloc.restype = ctypes.c_void_p\n"
        "try:\n"
        "    main(['--version'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "libc.free(ctypes.c_void_p(libc.malloc(30 << 20)))\n"
        "before = getattr(libc.mallinfo2(), '3')\n"
        "libc.malloc(3 << 20)\n"
        "print(getattr(libc.mallinfo2(), '3') - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1"
