"""Chromium without a window: for the browser tests, and for the scripts that draw pictures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_PROGRAMS = ("chromium-headless-shell", "chromium")
"""The programs that can be used, the fastest first."""
_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--force-prefers-reduced-motion",  # Animations take a third of the time of the tests.
)


def find_chromium() -> str:
    """Return the path of Chromium. Raises FileNotFoundError if it is not installed."""
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        raise FileNotFoundError(
            "Chromium is missing: install it with `apt-get install chromium-headless-shell`, as "
            ".ci/run does."
        )
    return found


@contextmanager
def open_chromium(*options: str) -> Iterator[Browser]:
    """Yield a running Chromium with these further options."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=[*_OPTIONS, *options]
        )
        try:
            yield browser
        finally:
            browser.close()
