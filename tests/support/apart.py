"""Runs the tests of a folder in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_apart(folder: Path, *options: str, timeout: float, **environment: str) -> None:
    """Run the tests of a folder in a process of its own, because Playwright's event loop and those
    of other tests conflict. Raises AssertionError with the output if one of them fails.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "--maxfail=5"]
    # These plugins take seconds to load, and the tests there do not need them.
    command += [f"-pno:{name}" for name in ("xdist", "nbval", "schemathesis")]
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, *options, folder],
        env=own | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
