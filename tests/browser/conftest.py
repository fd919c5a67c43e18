"""Fixtures of the browser tests: pages in Chromium that must report nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import Contexts, Opener
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# Animations take a third of the time.
OPTIONS += ["--force-prefers-reduced-motion"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield Chromium without a window."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> Contexts:
    """Return the browser contexts that all tests share."""
    return Contexts(browser)


@pytest.fixture
def noisy(contexts: Contexts, tmp_path: Path) -> Iterator[Opener]:
    """Yield an opener of documents that may report something."""
    opener = Opener(contexts, tmp_path)
    yield opener
    for page in opener.pages:
        page.close()


@pytest.fixture
def show(noisy: Opener) -> Iterator[Callable[..., Page]]:
    """Yield an opener; fail at the end if a document reported, asked or loaded anything."""
    yield noisy
    assert noisy.unrest == []
