"""Fixtures of the browser tests: pages in Chromium that must report nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import Contexts, Opener
from chromium import open_chromium
from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield Chromium without a window."""
    with open_chromium() as chromium:
        yield chromium


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
