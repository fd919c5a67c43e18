"""The table of the forms in a browser: it sorts and searches, and shows changes as the plan's page
does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from fronts import View, serious
from playwright.sync_api import Locator, expect

from petsync.models import Pet, Tag
from petsync.sandbox import Sandbox

_CALM, _SHY = Tag(1, "calm"), Tag(2, "shy")
_PLAN = """
frame = store.snapshot().frame
frame.at[0, "tags"] = [ps.Tag(1, "calm"), ps.Tag(None, "old")]
frame.at[1, "name"] = "Cat two"
form = ps.widgets.review(store.plan(frame, guard=ps.Guard(max_update=ps.Limit(1.0))), store)
form
"""


@pytest.fixture
def cats(box: Sandbox) -> list[Pet]:
    """Return the twelve pets of the store."""
    pets = [
        Pet(id=n, name=f"Cat {n}", status="sold" if n % 2 else "available", tags=(_CALM, _SHY))
        for n in range(1, 13)
    ]
    box.reset(pets)
    return pets


def _first(table: Locator) -> Locator:
    return table.get_by_role("rowheader").first


@pytest.mark.parametrize("front", ["lab", "voila"])
def test_a_table_is_sorted_and_searched(
    open_in: Callable[..., View], signed_in: str, cats: list[Pet], front: str
) -> None:
    """The title of a column sorts up, down and not at all; a search shows the rows that it finds,
    their number, and the words that it found. Both keep the focus.
    """
    view = open_in(front, signed_in, "form = ps.widgets.browse(store)\nform")
    form = view.root.get_by_role("region", name="Catalogue")
    table = form.locator(".ps-grid").first
    expect(table.get_by_role("status")).to_have_text(f"Showing 1\u201312 of {len(cats)}")
    title = table.get_by_role("columnheader", name="Name")
    button = title.get_by_role("button")
    for order, first in (("ascending", "Cat 1"), ("descending", "Cat 12"), (None, "Cat 1")):
        button.click()
        expect(_first(table)).to_have_text(first)
        if order is None:
            expect(title).not_to_have_attribute("aria-sort", re.compile("."))
        else:
            expect(title).to_have_attribute("aria-sort", order)
        expect(button).to_be_focused()
    search = table.get_by_role("searchbox", name="Search")
    search.fill("cat 1 SOLD")
    expect(table.get_by_role("status")).to_have_text("Showing 1\u20132 of 2, filtered from 12")
    expect(search).to_be_focused()
    assert view.page.evaluate("() => CSS.highlights.get('found').size") > 1
    search.fill("nobody")
    expect(table.get_by_role("status")).to_have_text("No row matches; there are 12 in all.")
    assert serious(view) == []


def test_advice_is_read_to_its_end(open_in: Callable[..., View], signed_in: str) -> None:
    """A message longer than 300 characters is not folded, in a notice and in a row: its end says
    what to do.
    """
    advice = "This row is in conflict. " * 15 + "Write its id."
    view = open_in(
        "voila",
        signed_in,
        "from petsync.widgets.components import Notice, Table\n"
        f"notice = Notice()\nnotice.warn('No', {advice!r})\nnotice",
        "Table(caption='Rows', columns=[{'key': 'what', 'title': 'What', 'kind': 'advice'}], "
        f"rows=[{{'key': '1', 'label': 'one', 'cells': {{'what': {advice!r}}}}}])",
    )
    shown = view.root.get_by_text("Write its id.")
    expect(shown).to_have_count(2)
    for each in shown.all():
        expect(each).to_be_visible()


def test_changes_look_as_on_the_plans_page(
    open_in: Callable[..., View], signed_in: str, cats: list[Pet]
) -> None:
    """Tags that come and go are marked one by one, a changed text where it differs; a table of few
    rows has no search.
    """
    view = open_in("voila", signed_in, _PLAN)
    changes = view.forms.locator(".ps-grid", has_text="Changes").first
    row = changes.get_by_role("row", name=re.compile("Cat 1"))
    expect(row.locator("ins")).to_have_text("+added old")
    expect(row.locator("del")).to_have_text("-removed shy")
    other = changes.get_by_role("row", name=re.compile("Cat 2"))
    expect(other.locator("del")).to_have_text("2")
    expect(other.locator("ins")).to_have_text("two")
    expect(other.locator(".ps-badge")).to_have_text("~Change")
    expect(changes.get_by_role("searchbox")).to_be_hidden()
    assert serious(view) == []


def test_a_narrow_table_is_a_list_of_cards(
    open_in: Callable[..., View], signed_in: str, cats: list[Pet]
) -> None:
    """On a narrow page nothing must be scrolled sideways, and a value has its column's title."""
    view = open_in("voila", signed_in, _PLAN, "ps.widgets.browse(store)")
    view.page.set_viewport_size({"width": 400, "height": 900})
    expect(view.root.get_by_role("button", name="Open Cat 1 (1)")).to_be_visible()
    scrolled = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).length"
    assert view.forms.locator(".ps-scroll").evaluate_all(scrolled) == 0
    title = "(cell) => getComputedStyle(cell, '::before').content"
    assert view.forms.locator("tbody .ps-cell").first.evaluate(title) == '"Status"'


def test_options_are_unfolded(
    open_in: Callable[..., View], signed_in: str, cats: list[Pet]
) -> None:
    """A button shows folded options, and hides them again."""
    view = open_in("voila", signed_in, "ps.widgets.upload_images(store, 1)")
    button = view.forms.get_by_role("button", name="Options")
    field = view.forms.get_by_label("Additional metadata")
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(field).to_be_hidden()
    button.click()
    expect(field).to_be_visible()
    expect(button).to_have_attribute("aria-expanded", "true")
    button.click()
    expect(field).to_be_hidden()
