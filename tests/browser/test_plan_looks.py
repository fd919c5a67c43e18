"""The appearance of a plan's page and of HTML fragments: both colour schemes, any width, print."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
from browsing import chip, everything, plan_of, rows, together
from chromium import find_faults
from playwright.sync_api import Page, expect
from render_samples import HOSTILE, finding, sheet_with, small_report
from rendering import plan_html, plan_page

from petsync import Pet, connect
from petsync.rehearsal import rehearse
from petsync.report.document import Document
from petsync.report.html import document_page
from petsync.report.views.rehearsal import rehearsal_view
from petsync.report.views.run import report_page_view
from petsync.report.views.sheet import sheet_view
from petsync.sandbox import Sandbox

Show = Callable[..., Page]


def _rehearsal() -> str:
    """Return the page of a rehearsal with every kind of change, a conflict and a failure."""
    pets = [Pet(id=n, name=f"Pet {n}", status=("available", "sold")[n % 2]) for n in range(1, 13)]
    rows = pd.DataFrame(
        {
            "id": [1, 2, 3, 99, None],
            "name": ["Rex", "", "", "Nobody", "New"],
            "status": ["", "pending", "", "", "available"],
            "action": ["merge", "merge", "delete", "update", "add"],
        }
    )
    with Sandbox(pets=pets, auth=False) as box, connect(box.url) as store:
        plan = store.plan(rows, max_delete=5, max_update=5)
        rehearsal = rehearse(store, plan, faults="503=1,only=deletePet")
    return document_page(rehearsal_view(rehearsal), "Rehearsal")


DOCUMENTS = {
    "plan": plan_page(everything()),
    "fragment": document_page(Document("", []), "Cell").replace(
        "</main>", f"</main>{plan_html(everything())}"
    ),
    "report": document_page(report_page_view(small_report()), "Report"),
    "sheet": document_page(sheet_view(sheet_with(finding("unknown-status", 4))), "Sheet"),
    "rehearsal": _rehearsal(),
}
CONTRASTS = """() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((n) => top[n] * top[3] + under[n] * (1 - top[3]));
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    return over(rgba(getComputedStyle(element).backgroundColor), behind(element.parentElement));
  };
  const light = (rgb) => rgb.map((part) => part / 255).reduce((sum, part, n) => sum +
    [0.2126, 0.7152, 0.0722][n] *
    (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4), 0);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = {};
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility() ||
        element.closest(".ps-hidden, script, style")) continue;
    const back = behind(element);
    const [one, other] = [over(rgba(getComputedStyle(element).color), back), back].map(light);
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const name = `${element.tagName} ${element.className} ${texts.currentNode.data.slice(0, 20)}`;
    found[name] = Math.min(ratio, found[name] ?? ratio);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_contrast(show: Show, name: str, scheme: str) -> None:
    """Every text has a contrast of at least 4.5 to its background in both schemes."""
    page = show(DOCUMENTS[name], color_scheme=scheme, reduced_motion="reduce")
    for details in page.locator("details:not([open]) > summary").all():
        details.click()
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 10
    assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_scheme_is_followed(show: Show, scheme: str) -> None:
    """The page follows the reader's light or dark scheme; in print it is always light."""
    page = show(DOCUMENTS["plan"], color_scheme=scheme)
    brightness = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] * 1"
    assert (page.evaluate(brightness) < 60) == (scheme == "dark")
    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate(brightness) == 255
    contrasts = page.evaluate(CONTRASTS)
    assert min(contrasts.values()) >= 4.5


def test_on_paper_there_is_nothing_to_click(show: Show) -> None:
    """A printed page has its rows and no controls."""
    page = show(plan_of(30))
    chip(page, "Change").check()
    page.emulate_media(media="print")
    expect(page.get_by_role("search")).to_be_hidden()
    expect(page.get_by_role("button", name="Show all")).to_be_hidden()
    assert page.get_by_role("navigation").count() == 0
    assert rows(page).count() == 24


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_page_scrolls_sideways(show: Show, name: str) -> None:
    """At any width the page is not wider than the window."""
    page = show(DOCUMENTS[name])
    for width in (320, 400, 700, 1000):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_nor_with_names_without_end(show: Show) -> None:
    """Very long and hostile names do not make the page wider than the window."""
    page = show(together(HOSTILE, "a" * 5_000))
    for width in (320, 400, 1000):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_nothing_moves_for_who_wants_no_motion(show: Show) -> None:
    """Nothing is animated if the reader asks for less motion."""
    page = show(DOCUMENTS["plan"], reduced_motion="reduce")
    moving = """() => [...document.querySelectorAll("*")].filter((each) =>
        !/^0s(, 0s)*$/.test(getComputedStyle(each).transitionDuration) ||
        getComputedStyle(each).animationName !== "none").length"""
    assert page.evaluate(moving) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "sheet", "rehearsal"])
def test_axe_finds_nothing(show: Show, name: str, scheme: str) -> None:
    """axe finds nothing serious or critical on the pages of a report, of findings and of a
    rehearsal, in a wide and in a narrow window.
    """
    page = show(DOCUMENTS[name], color_scheme=scheme, reduced_motion="reduce")
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        assert find_faults(page) == []
