"""The documentation site in Chromium: what the search finds, and what axe finds on each page.

`tests/test_site.py` builds the site and runs this file, with the folder in `PETSYNC_SITE`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from browsing import Contexts
from chromium import find_faults
from playwright.sync_api import Page, expect
from serving import serve

expect.set_options(timeout=30_000)

SITE = Path(os.environ["PETSYNC_SITE"])
QUESTIONS = {
    "add a pet": "sheets.html",
    "backup": "reconcile.html",
    "certificate": "security.html",
    "conflict": "plan.html",
    "crash": "reliability.html",
    "cron": "deploy/cron.html",
    "csv": "sheets.html",
    "delete a pet": "sheets.html",
    "docker": "deploy/container.html",
    "dry run": "reconcile.html",
    "duplicate": "findings.html",
    "email": "notifications.html",
    "error": "causes.html",
    "excel": "sheets.html",
    "exit code": "reconcile.html",
    "google sheets": "sheets.html",
    "history": "history.html",
    "install": "tour.html",
    "jupyter": "forms.html",
    "lost zeros": "findings.html",
    "memory": "scale.html",
    "pandas": "python.html",
    "password": "sign-in.html",
    "photo": "images.html",
    "preview": "plan.html",
    "proxy": "security.html",
    "restore": "undo.html",
    "schedule": "deploy/index.html",
    "slack": "notifications.html",
    "slow": "performance.html",
    "timeout": "python.html",
    "token": "sign-in.html",
    "two-way": "reconcile.html",
    "undo": "undo.html",
    "upload": "images.html",
}
"""What users type, and the page with the answer."""
KINDS = (
    "404.html",
    "changelog.html",
    "cli.html",
    "deploy/index.html",
    "findings.html",
    "index.html",
    "notebooks/01_tour.html",
    "notebooks/03_round_trip.html",
    "python.html",
    "reference/api/store.html",
    "tour.html",
)
"""A page of each kind: text, wide tables, code, pictures, outputs of notebooks, signatures."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of the site."""
    with serve(SITE) as served:
        yield served


@pytest.fixture(scope="module")
def searching(address: str, contexts: Contexts) -> Iterator[Page]:
    """Yield the front page with an open search."""
    page = contexts().new_page()
    page.goto(address)
    page.get_by_role("textbox", name="Search").click()
    yield page
    page.close()


@pytest.mark.parametrize("question", QUESTIONS)
def test_search_answers(searching: Page, address: str, question: str) -> None:
    """The page with the answer is among the first three that the search shows."""
    box = searching.get_by_role("textbox", name="Search")
    meta = searching.locator(".md-search-result__meta")
    box.fill("")
    box.press("Backspace")
    expect(meta).to_have_text("Type to start searching")
    box.fill(question)
    box.press("End")  # starts one search; a key for each letter would also show those of "sl"
    expect(searching.locator(".md-search-result__list")).to_be_visible()
    links = searching.locator(".md-search-result__item > a")
    answer = links.locator(f"xpath=self::*[contains(@href, '/{QUESTIONS[question]}')]").first
    expect(answer).to_be_visible()
    found = links.evaluate_all("all => all.map((each) => each.href)")
    pages = dict.fromkeys(urlsplit(link).path.removeprefix("/") for link in found)
    assert QUESTIONS[question] in [*pages][:3]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
@pytest.mark.parametrize("name", KINDS)
def test_axe_finds_nothing(
    contexts: Contexts, address: str, name: str, scheme: str, width: int
) -> None:
    """axe finds nothing serious or critical, contrast included, and the page asks no other host for
    anything.
    """
    page = contexts(color_scheme=scheme, reduced_motion="reduce").new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(address + name)
    found = find_faults(page)
    page.close()
    assert found == []
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
