"""Pages opened in a real browser, which must keep quiet all the while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from petsync.diff.plan import Plan
from petsync.render.html import plan_page

CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class Opener:
    """Opens documents in contexts of its own and keeps what they say, ask and load."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.folder = folder
        self.unrest: list[str] = []
        self.contexts: list[BrowserContext] = []
        self._browser = browser

    def __call__(self, what: Plan | str, **options: object) -> Page:
        """A plan's page, or any document, opened from a file."""
        file = self.folder / f"{len(self.contexts)}.html"
        file.write_text(what if isinstance(what, str) else plan_page(what), encoding="utf-8")
        context = self._browser.new_context(**options)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.unrest.append(message.text))
        page.on("pageerror", lambda error: self.unrest.append(str(error)))
        page.on("dialog", lambda dialog: self.unrest.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self._asked(request.url, file.as_uri()))
        page.goto(file.as_uri())
        return page

    def _asked(self, url: str, own: str) -> None:
        if url.partition("#")[0] != own:
            self.unrest.append(f"request {url}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def noisy(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens documents that may say something."""
    opener = Opener(browser, tmp_path)
    yield opener
    for context in opener.contexts:
        context.close()


@pytest.fixture
def show(noisy: Opener) -> Iterator[Callable[..., Page]]:
    """Opens documents, and fails at the end if one of them said, asked or loaded anything."""
    yield noisy
    assert noisy.unrest == []
