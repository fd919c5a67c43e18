"""A request to end while petsync is still being imported."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from petsync.cli.streams import loading


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_and_says_so(number: signal.Signals) -> None:
    """In the middle of an import an exception would come out as anything, or not at all."""
    code = (
        "from petsync.cli.streams import loading\n"
        "import sys, time\n"
        "with loading():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said.strip()) == (130, "Interrupted before anything was begun.")


def test_handlers_come_back() -> None:
    """What was to happen on Ctrl-C before happens again."""
    before = signal.getsignal(signal.SIGINT)
    with loading():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
