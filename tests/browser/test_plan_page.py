"""A plan's page in a browser: filters, paging, sorting, keyboard, and the page without scripts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import Opener, chip, everything, expect_status, plan_of, rows, status
from playwright.sync_api import Page, expect
from render_samples import BELLA, BLOCKED, UPDATE, hostile_plan, plan_with, replace

Show = Callable[..., Page]


def test_every_row_is_on_some_page(show: Show) -> None:
    """The pages together show each row once, and each page shows which rows it has."""
    page = show(plan_of(120))
    expect_status(page, "Showing 1\u201350 of 123")
    seen = rows(page).locator(".ps-where").all_inner_texts()
    for line in ("Showing 51\u2013100 of 123", "Showing 101\u2013123 of 123"):
        page.get_by_role("button", name="Next").first.click()
        expect_status(page, line)
        seen += rows(page).locator(".ps-where").all_inner_texts()
    assert len(seen) == 123
    assert {f"Pets!B{n}" for n in range(120) if n % 10 > 1} <= set(seen)


def test_pages_turn_no_further_than_the_ends(show: Show) -> None:
    """On the first and last page, the buttons without effect are marked disabled and keep the
    focus.
    """
    page = show(plan_of(120))
    previous = page.get_by_role("button", name="Previous").first
    expect(previous).to_have_attribute("aria-disabled", "true")
    previous.focus()
    page.keyboard.press("Enter")
    expect(previous).to_be_focused()
    page.get_by_role("button", name="Last").first.click()
    expect_status(page, "Showing 101\u2013123 of 123")
    expect(page.get_by_role("button", name="Next").first).to_have_attribute("aria-disabled", "true")
    page.get_by_role("spinbutton", name="Page").first.fill("99")
    page.keyboard.press("Enter")
    expect(page.get_by_role("spinbutton", name="Page").first).to_have_value("3")
    page.get_by_role("combobox", name="Rows per page").last.select_option("250")
    expect_status(page, "Showing 1\u2013123 of 123")


@pytest.mark.parametrize(("kind", "name"), [("adds", "Add"), ("deletes", "Delete")])
def test_a_kind_by_itself(show: Show, kind: str, name: str) -> None:
    """A ticked kind shows only its rows, as many as the plan's summary counts."""
    plan = plan_of(200)
    page = show(plan)
    total = getattr(plan.summary(), kind)
    chip(page, name).check()
    expect_status(page, f"Showing 1\u2013{total} of {total}, filtered from 203")
    assert set(rows(page).locator(".ps-badge").all_inner_texts()) == {
        f"{'+' if name == 'Add' else '-'}{name}"
    }


def test_several_kinds_together(show: Show) -> None:
    """Two ticked kinds show the rows of both; `Show all` shows everything again."""
    page = show(plan_of(40))
    chip(page, "Conflict").check()
    chip(page, "Needs fixing").check()
    expect_status(page, "Showing 1\u20133 of 3, filtered from 43")
    page.get_by_role("button", name="Show all").click()
    expect_status(page, "Showing 1\u201343 of 43")
    expect(page.get_by_role("button", name="Show all")).to_be_hidden()
    expect(page.get_by_label("Search")).to_be_focused()


def test_a_field_as_in_the_summary(show: Show) -> None:
    """Each field in the filter has the count of the plan's summary; a conflict is not a change."""
    plan = plan_of(120)
    page = show(plan)
    field = page.get_by_label("Changed field")
    fields = plan.summary().fields
    assert field.locator("option").all_inner_texts() == [
        "any",
        f"name ({fields['name']})",
        f"status ({fields['status']})",
        "category (0)",
        f"tags ({fields['tags']})",
        "photo_urls (0)",
    ]
    field.select_option("tags")
    expect_status(page, f"Showing 1\u2013{fields['tags']} of {fields['tags']}, filtered from 123")


def test_counts_follow_the_other_filters(show: Show) -> None:
    """The count of each kind is the number of its rows that match the other filters."""
    page = show(plan_of(120))
    page.get_by_label("Search").fill("Bella")
    expect_status(page, "Showing 1\u201321 of 21, filtered from 123")
    counts = page.locator(".ps-chip .ps-count").all_inner_texts()
    assert [int(count) for count in counts] == [1, 0, 4, 16, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zoe 62", ["Pets!B62"]),
        ("ZOË", ["Pets!A20", "Pets!A50", "Pets!A80", "Pets!A110", "Pets!B2", "Pets!B8"]),
        ("images.example/31", ["Pets!A31"]),
        ("pets!b47", ["Pets!B47"]),
        ("bellina", ["Pets!B18"]),
        ("no such status", ["Pets!C60"]),
    ],
)
def test_text_finds_rows(show: Show, text: str, expected: list[str]) -> None:
    """A search finds names, ids, values, cells and problems, without regard to case and accents."""
    page = show(plan_of(120))
    page.get_by_label("Search").fill(text)
    expect(status(page)).to_contain_text("filtered")
    found = rows(page).locator(".ps-where").all_inner_texts()
    assert found[: len(expected)] == expected


def test_what_was_found_stands_out(show: Show) -> None:
    """The words of the search are highlighted in the rows shown."""
    page = show(plan_of(120))
    found = """() => [...CSS.highlights.get("found")].map((range) => range.toString())"""
    assert page.evaluate(found) == []
    page.get_by_label("Search").fill("rex sold")
    expect_status(page, "Showing 1\u201316 of 16, filtered from 123")
    assert Counter(page.evaluate(found)) == {"Rex": 16 + 2 * 8, "sold": 16}


def test_nothing_found(show: Show) -> None:
    """If no row matches, the page shows this and the total number of rows."""
    page = show(plan_of(20))
    page.get_by_label("Search").fill("no pet is called this")
    expect_status(page, "No row matches; there are 23 in all.")
    expect(page.get_by_role("table", name="Row by row")).to_be_hidden()


def test_order(show: Show) -> None:
    """The first click on a header sorts by it, the second reverses the order, the third restores
    it.
    """
    page = show(plan_of(60))
    head = page.get_by_role("columnheader", name="Id")
    button = head.get_by_role("button")
    at_first = rows(page).locator(".ps-id").all_inner_texts()
    button.click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    ids = [int(text) for text in rows(page).locator(".ps-id").all_inner_texts() if text.isdigit()]
    assert ids == sorted(ids)
    assert len(ids) > 40
    button.click()
    expect(head).to_have_attribute("aria-sort", "descending")
    button.click()
    expect(head).not_to_have_attribute("aria-sort", re.compile(".*"))
    assert rows(page).locator(".ps-id").all_inner_texts() == at_first


def test_ids_are_exact(show: Show) -> None:
    """The largest ids are shown with all digits and sorted as numbers."""
    ids = (2**63 - 1, 9, 2**63 - 2, -5)
    changes = (replace(UPDATE, before=replace(BELLA, id=n)) for n in ids)
    page = show(plan_with(*changes))
    page.get_by_role("button", name="Id").click()
    assert rows(page).locator(".ps-id").all_inner_texts() == list(map(str, sorted(ids)))


def test_the_address_remembers(show: Show) -> None:
    """A reload shows the same rows again."""
    page = show(plan_of(300))
    chip(page, "Change").check()
    page.get_by_label("Changed field").select_option("status")
    page.get_by_role("button", name="Pet").click()
    page.get_by_role("button", name="Next").first.click()
    line = "Showing 51\u2013100 of 240, filtered from 303"
    expect_status(page, line)
    before = rows(page).all_inner_texts()
    page.reload()
    expect_status(page, line)
    assert rows(page).all_inner_texts() == before
    expect(chip(page, "Change")).to_be_checked()


def test_an_address_with_nonsense_is_harmless(show: Show) -> None:
    """The page ignores unknown values in its address."""
    page = show(plan_of(60))
    page.goto(f"{page.url}#kind=bogus,<b>&field=bogus&sort=__proto__&page=-7&size=9999999")
    page.reload()
    expect_status(page, "Showing 1\u201350 of 63")


def test_a_tile_leads_to_its_rows(show: Show) -> None:
    """Each number of the summary links to the rows that it counts."""
    page = show(plan_of(200))
    page.get_by_role("link", name="20 to delete").click()
    expect_status(page, "Showing 1\u201320 of 20, filtered from 203")
    expect(page.get_by_role("heading", name="Row by row")).to_be_focused()


def test_all_of_it_by_keyboard(show: Show) -> None:
    """A user without a mouse can skip to the rows, tick a kind, search, sort and turn the page; the
    focus is always visible.
    """
    page = show(plan_of(400))
    press = page.keyboard.press
    press("Tab")
    expect(page.get_by_role("link", name="Skip to the rows")).to_be_focused()
    press("Enter")
    expect(page.get_by_role("heading", name="Row by row")).to_be_focused()
    for _ in range(4):
        press("Tab")
        assert _is_outlined(page)
    expect(chip(page, "Change")).to_be_focused()
    press("Space")
    expect_status(page, "Showing 1\u201350 of 320, filtered from 403")
    press("Tab")
    press("Tab")
    expect(page.get_by_label("Changed field")).to_be_focused()
    page.keyboard.type("tags")
    expect_status(page, "Showing 1\u201350 of 80, filtered from 403")
    press("Tab")
    expect(page.get_by_label("Search")).to_be_focused()
    assert _is_outlined(page)
    page.keyboard.type("8")
    expect(status(page)).not_to_have_text("Showing 1\u201350 of 80, filtered from 403")
    for name in ("Show all", "First", "Previous"):
        press("Tab")
        expect(page.get_by_role("button", name=name).first).to_be_focused()
    press("Tab")
    expect(page.get_by_role("spinbutton", name="Page").first).to_be_focused()
    for name in ("Next", "Last"):
        press("Tab")
        expect(page.get_by_role("button", name=name).first).to_be_focused()
    press("Tab")
    press("Tab")
    expect(page.get_by_role("button", name="Kind")).to_be_focused()
    press("Tab")
    press("Enter")
    expect(page.get_by_role("columnheader", name="Id")).to_have_attribute("aria-sort", "ascending")


def _is_outlined(page: Page) -> bool:
    """Return true if the focused element, or the label around it, has an outline."""
    outlined: bool = page.evaluate(
        """() => [document.activeElement, document.activeElement.closest("label")].some((each) =>
            each && parseFloat(getComputedStyle(each).outlineWidth) >= 2 &&
            getComputedStyle(each).outlineStyle !== "none")"""
    )
    return outlined


@pytest.mark.parametrize("width", [1200, 400])
def test_roles_and_names(show: Show, width: int) -> None:
    """A screen reader finds headings, a search form, a table with header cells, and two
    navigations, at every width. Changes are described in words.
    """
    page = show(everything(), viewport={"width": width, "height": 800})
    assert page.get_by_role("main").count() == 1
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan for edited.xlsx")
    expect(page.get_by_role("search", name="Filter the rows")).to_be_visible()
    expect(page.get_by_role("group", name="Kind")).to_be_visible()
    assert page.get_by_role("navigation").count() == 2
    table = page.get_by_role("table", name="Row by row")
    assert table.get_by_role("columnheader", name="Kind").count() == 1
    row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Bella")).last
    assert row.get_by_role("cell").count() == 4
    words = table.inner_text()
    assert re.search(r"from\s*Bella\s*→\s*to\s*Bela", words)
    assert re.search(r"\+\s*added\s*good with kids", words)
    clash = table.get_by_role("table").first
    heads = [text.split() for text in clash.get_by_role("columnheader").all_inner_texts()]
    assert heads == [["Field"], ["Before"], ["Sheet"], ["Store", "stays"]]
    assert _nameless(page) == []


def _nameless(page: Page) -> list[str]:
    """Return the controls without an accessible name."""
    outline = page.locator("body").aria_snapshot()
    control = r"- (?:button|checkbox|combobox|searchbox|spinbutton|textbox|link)(?! \")"
    return [line for line in outline.splitlines() if re.search(control, line)]


@pytest.mark.parametrize("plan", [everything(), hostile_plan("<i>Zoë & 'Rex'</i>")], ids=["a", "b"])
def test_the_same_rows_without_a_script(show: Show, plan: object) -> None:
    """The script renders each row exactly as the page without scripts has it."""
    quiet = show(plan, java_script_enabled=False)
    lively = show(plan)
    expect(status(lively)).to_contain_text("Showing")
    static, made = (page.locator("#table > tbody").inner_html() for page in (quiet, lively))
    assert _normal(made) == _normal(static)


def _normal(html: str) -> str:
    return re.sub(r' id="kind=\w+"|\n', "", html)


def test_without_scripts_the_summary_remains(show: Show) -> None:
    """Without scripts the page shows the summary, guard, gaps, conflicts, notes, the first changes
    and where the rest is, and no control without effect.
    """
    page = show(plan_of(500, verdict=everything().verdict), java_script_enabled=False)
    text = page.locator("body").inner_text()
    for words in (
        "50 to add, 400 to change, 50 to delete",
        "The guard refuses this plan",
        "Look twice.",
        "matches several pets: 3, 8",
        "Bellina",
        "63 of 503",
        "petsync plan -o plan.xlsx",
    ):
        assert words in text
    assert rows(page).count() == 63
    assert page.locator("button:visible, input:visible, select:visible").count() == 0
    page.get_by_role("link", name="50 to delete").click()
    assert page.locator(":target .ps-badge").inner_text() == "-Delete"


def test_an_old_browser_keeps_the_first_rows(noisy: Opener) -> None:
    """In a browser that cannot run the script, the page is the same as without scripts."""
    quiet = noisy(everything(), java_script_enabled=False)
    old = noisy(everything())
    old.add_init_script("delete Intl.Segmenter")
    old.reload()
    assert noisy.unrest
    static, kept = (page.locator("#table > tbody").inner_html() for page in (quiet, old))
    assert kept == static
    expect(old.get_by_role("search")).to_be_hidden()


def test_a_plan_of_nothing(show: Show) -> None:
    """The page of a plan without rows is short and has no script."""
    page = show(plan_with(unchanged=7, rows=7))
    assert "In sync: all 7 rows agree with the store." in page.locator("main").inner_text()
    assert page.locator("script, table, form, .ps-skip").count() == 0


def test_all_rows_are_printed(show: Show) -> None:
    """A print has all rows that match the filters, at most 2,000, and the number of rows left out.
    Afterwards the screen is unchanged.
    """
    page = show(plan_of(2_600))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(rows(page)).to_have_count(2_000)
    expect_status(page, "Showing 2,000 of 2,603; 603 more are left out of this print")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(rows(page)).to_have_count(50)
    chip(page, "Delete").check()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect_status(page, "Showing 260 of 260, filtered from 2,603")
    expect(rows(page)).to_have_count(260)


def test_paper_has_every_row(show: Show, tmp_path: Path) -> None:
    """A print has the rows of all pages; afterwards the screen shows one page again."""
    page = show(plan_of(120))
    page.evaluate("""addEventListener("beforeprint", () => {
        window.printed = document.querySelectorAll("#table > tbody > tr").length;
    })""")
    page.pdf(path=tmp_path / "plan.pdf")
    assert page.evaluate("window.printed") == 123
    expect_status(page, "Showing 1\u201350 of 123")


def test_a_blocked_row_is_found_by_its_pet(show: Show) -> None:
    """A search for an id finds the blocked row that names this pet."""
    blocked = replace(BLOCKED, pet_id=987654, name="Mimi")
    page = show(plan_of(20, blocked=(blocked,)))
    page.get_by_role("searchbox").fill("987654")
    expect_status(page, "Showing 1\u20131 of 1, filtered from 23")
    expect(rows(page)).to_contain_text("Mimi")
