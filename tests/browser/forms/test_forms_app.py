"""`petsync app`: the whole workflow on one page, for a user who has only the link."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pytest
from fronts import View, Watch, serious
from jupyters import House
from outside import Outside
from playwright.sync_api import Browser, expect

import petsync as ps
from petsync.sandbox import Sandbox

_LINK = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+")


@pytest.fixture
def link(house: House, box: Sandbox, tmp_path: Path) -> Iterator[str]:
    """Yield the address that `petsync app` prints."""
    process, log = house.run(
        ["petsync.cli", "app", "--no-browser", "--url", box.url], tmp_path / "work"
    )
    until = time.monotonic() + 120
    while not (found := _LINK.search(log.read_text("utf-8"))):
        assert process.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < until, log.read_text("utf-8")
        time.sleep(0.1)
    yield found.group()
    house.end(process)


@pytest.fixture
def workbook(box: Sandbox, tmp_path: Path) -> Path:
    """Return an exported workbook in which three pets are set to sold."""
    file = tmp_path / "work" / "pets.xlsx"
    file.parent.mkdir(exist_ok=True)
    with ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path) as store:
        ps.write_sheet(store.snapshot(), file)
    book = openpyxl.load_workbook(file)
    sheet = book.worksheets[0]
    column = [str(cell.value).lower() for cell in sheet[1]].index("status") + 1
    for row in (2, 3, 4):
        sheet.cell(row, column).value = "sold"
    book.save(file)
    return file


def test_the_whole_job_on_one_page(
    browser: Browser, watch: Watch, outside: Outside, workbook: Path, link: str, box: Sandbox
) -> None:
    """A user signs in, opens a sheet, reviews the plan, reloads the page, which keeps sign-in and
    plan, applies it and sees the report on one page.
    Without the token in the link access is refused, and no other host receives a request.
    """
    context = watch.over(browser.new_context(viewport={"width": 1100, "height": 1000}))
    stranger = browser.new_context()
    before = stranger.new_page()
    answer = before.goto(link.partition("?")[0])
    assert answer is not None
    assert answer.status in (401, 403) or "login" in before.url
    stranger.close()
    watch.asked.clear()
    watch.unrest.clear()
    outside.asked.clear()

    page = context.new_page()
    page.goto(link)
    view = View(page, page.locator("body"), "app")
    form = page.get_by_role("region", name="Sign in")
    form.get_by_label("How").select_option(label="An access token that I have")
    form.get_by_label("Access token").fill(box.token())
    form.get_by_role("button", name="Sign in", exact=True).click()
    assert "token=" not in page.url
    expect(page.get_by_role("heading", level=1)).to_have_text("petsync")

    sheet = page.get_by_role("region", name="Open a sheet")
    sheet.get_by_label("Or its path").fill(workbook.name)
    sheet.get_by_role("button", name="Open", exact=True).click()
    sheet.get_by_role("button", name="Compare with the store").click()
    review = page.get_by_role("region", name="Review the plan")
    expect(review).to_contain_text("3 changes will be sent")
    assert serious(view) == []
    page.reload()
    expect(review).to_contain_text("3 changes will be sent")
    assert "token" not in page.url
    assert box.token() not in page.content()
    review.get_by_role("button", name=re.compile("^Apply")).click()
    # The form scrolls to its heading when it asks, and a press before that could miss the button.
    expect(review.get_by_role("heading").first).to_be_focused()
    review.get_by_role("button", name="Send 3 changes").click()
    expect(page.get_by_role("button", name=re.compile("^Undo")).first).to_be_visible()
    assert sum(pet.status == "sold" for pet in box.pets()[:3]) > 0
    results = page.get_by_role("link", name="Download pets.results.xlsx").first
    expect(results).to_have_css("text-decoration-line", "underline")
    with page.expect_download() as download:
        results.click()
    assert download.value.suggested_filename == "pets.results.xlsx"
    assert serious(view) == []
    context.close()
    assert watch.asked == []
    assert watch.unrest == []
