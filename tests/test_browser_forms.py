"""Runs tests/browser/forms (JupyterLab and Voilà) in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest
from apart import run_apart

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOLDER = Path(__file__).parent / "browser" / "forms"
FIRST_DAY = FOLDER / "test_forms_first_day.py"


def test_forms_in_a_browser() -> None:
    """Every test in tests/browser/forms passes in Chromium."""
    run_apart(FOLDER, f"--ignore={FIRST_DAY}", "--durations=10", timeout=900)


def test_first_days() -> None:
    """The steps of docs/first-day work as their pages show them."""
    run_apart(FIRST_DAY, timeout=900)
