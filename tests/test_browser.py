"""Runs tests/browser in a separate process, because Playwright's event loop and those of other
tests conflict.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOLDER = Path(__file__).parent / "browser"


def test_pages_in_a_browser() -> None:
    """Every test in tests/browser passes in Chromium."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        # These plugins take seconds to load, and the tests there do not need them.
        *(f"-pno:{name}" for name in ("xdist", "nbval", "schemathesis")),
        "-o",
        "addopts=",
        "--maxfail=5",
        *(f"--ignore={FOLDER / name}" for name in ("forms", "site")),
    ]
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run([*command, FOLDER], env=own, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
