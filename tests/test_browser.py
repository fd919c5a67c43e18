"""Runs tests/browser in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest
from apart import run_apart

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOLDER = Path(__file__).parent / "browser"


def test_pages_in_a_browser() -> None:
    """Every test in tests/browser passes in Chromium."""
    others = (f"--ignore={FOLDER / name}" for name in ("forms", "site"))
    run_apart(FOLDER, *others, timeout=400)
