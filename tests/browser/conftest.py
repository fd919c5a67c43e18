"""Pages opened in a real browser, which must keep quiet all the while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import Contexts, Opener
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> Contexts:
    """What the tabs of all tests are opened in."""
    return Contexts(browser)


@pytest.fixture
def noisy(contexts: Contexts, tmp_path: Path) -> Iterator[Opener]:
    """Opens documents that may say something."""
    opener = Opener(contexts, tmp_path)
    yield opener
    for page in opener.pages:
        page.close()


@pytest.fixture
def show(noisy: Opener) -> Iterator[Callable[..., Page]]:
    """Opens documents, and fails at the end if one of them said, asked or loaded anything."""
    yield noisy
    assert noisy.unrest == []
