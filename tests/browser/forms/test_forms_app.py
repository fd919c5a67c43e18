"""`petsync app`: the whole workflow on one page, for a user who has only the link."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import openpyxl
import psutil
import pytest
from fronts import View, Watch, serious
from jupyters import House
from outside import Outside
from playwright.sync_api import Browser, expect

import petsync as ps
from petsync.samples import sample_data
from petsync.sandbox import Sandbox

# Keeps the limits that scripts set, in milliseconds, in a list.
_RECORD_LIMITS = """{
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    window.limits = [];
    AbortSignal.timeout = (limit) => { window.limits.push(limit); return timeout(limit); };
}"""
_LINK = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+")


@contextmanager
def serve_app(
    house: House, folder: Path, *options: str
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run `petsync app` in the folder; yield its link, and a function that kills the server."""
    process, log = house.run(["petsync.cli", *options, "app", "--no-browser"], folder)
    until = time.monotonic() + 120
    while not (found := _LINK.search(log.read_text("utf-8"))):
        assert process.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < until, log.read_text("utf-8")
        time.sleep(0.1)
    kernels = psutil.Process(process.pid)

    def kill() -> None:
        several = [*kernels.children(recursive=True), kernels]
        kernels.kill()
        process.wait()
        for each in several:
            with suppress(psutil.NoSuchProcess):
                each.kill()

    try:
        yield found.group(), kill
    finally:
        if process.poll() is None:
            house.end(process)


@pytest.fixture
def link(house: House, box: Sandbox, tmp_path: Path) -> Iterator[str]:
    """Yield the address that `petsync app` prints."""
    with serve_app(house, tmp_path / "work", "--url", box.url) as (found, _):
        yield found


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
    plan, applies it and sees the report on one page. Another tab offers the run, its results and
    its undo.
    Without the token in the link access is refused, and no other host receives a request. A widget
    has a minute to start, so that none stays blank on a busy machine.
    """
    context = watch.over(browser.new_context(viewport={"width": 1100, "height": 1000}))
    context.add_init_script(_RECORD_LIMITS)
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
    limits = page.evaluate("window.limits")
    assert limits
    assert min(limits) >= 60_000
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

    # Another tab has another kernel, which knows the run from the journal.
    page = context.new_page()
    page.goto(link)
    page.get_by_role("button", name="Report", exact=True).click()
    page.get_by_role("button", name=re.compile("^Open run")).click()
    earlier = page.get_by_role("region", name=re.compile("^Run "))
    expect(earlier).to_contain_text("were changed")
    expect(earlier.get_by_role("button", name=re.compile("^Undo"))).to_be_visible()
    expect(earlier.get_by_role("link", name="Download pets.results.xlsx")).to_be_visible()
    assert serious(View(page, page.locator("body"), "app")) == []
    context.close()
    assert watch.asked == []
    assert watch.unrest == []


def test_the_server_ends(browser: Browser, house: House, tmp_path: Path, watch: Watch) -> None:
    """Enter in the address uses a store; Enter on another address replaces it in every step. When
    the server has ended, the page says so at once, shows the command that starts it again and its
    folder, and no button can be pressed.
    """
    folder = tmp_path / "a shop"
    with (
        Sandbox(seed=sample_data() / "store.json", auth=False) as one,
        Sandbox(auth=False) as two,
        serve_app(house, folder, "--allow-http", "shop.example") as (link, kill),
    ):
        context = browser.new_context(viewport={"width": 1100, "height": 1000})
        page = context.new_page()
        page.goto(link)
        address = page.get_by_role("region", name="Choose the store").get_by_label("Address")
        address.fill(one.url)
        address.press("Enter")
        page.get_by_role("button", name="Continue without signing in").click()
        page.get_by_role("button", name="Catalogue").click()
        expect(page.get_by_role("region", name="Catalogue")).to_contain_text("1001")
        page.get_by_role("button", name="Choose the store").click()
        address.fill(two.url)
        address.press("Enter")
        expect(page.get_by_role("region", name="Sign in")).to_contain_text(two.url)
        page.get_by_role("button", name="Catalogue").click()
        catalogue = page.get_by_role("region", name="Catalogue")
        expect(catalogue.get_by_role("button", name="Read again")).to_be_visible()
        expect(catalogue).not_to_contain_text("1001")

        view = View(page, page.locator("body"), "app")
        kill()
        told = page.get_by_role("alert").filter(has_text="petsync has ended")
        expect(told).to_contain_text("petsync app --no-browser --allow-http shop.example")
        expect(told).to_contain_text(str(folder))
        assert page.locator("button:enabled, input:enabled, select:enabled").count() == 0
        assert serious(view, "body") == []
        context.close()
