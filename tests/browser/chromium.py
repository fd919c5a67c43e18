"""Chromium without a window, for the browser tests and for the scripts that draw pictures; and the
accessibility faults of its pages.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

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


def find_faults(page: Page, within: str | None = None, **options: Any) -> list[str]:
    """Return the serious and critical findings of axe on a page, or in the elements that match the
    selector `within`, as text. `options` are axe's own.
    """
    context = within and {"include": [[within]]}
    # Without this option, axe also describes each element that passes, in most of its time.
    found = Axe().run(page, context=context, options={"resultTypes": ["violations"], **options})
    return [
        f"{wrong['impact']} {wrong['id']}: {wrong['help']}: {node['html'][:200]} "
        f"{node.get('failureSummary', '')[:300]}"
        for wrong in found.response["violations"]
        if wrong["impact"] in ("serious", "critical")
        for node in wrong["nodes"]
    ]
