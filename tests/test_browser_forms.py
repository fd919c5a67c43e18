"""Runs tests/browser/forms (JupyterLab and Voilà) in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest
from apart import run_apart

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOLDER = Path(__file__).parent / "browser" / "forms"


def test_forms_in_a_browser() -> None:
    """Every test in tests/browser/forms passes in Chromium."""
    run_apart(FOLDER, "--durations=10", timeout=900)
