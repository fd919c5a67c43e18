"""Helpers of the browser tests: tabs, plans of any size, and parts of a plan's page."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from render_samples import (
    ADD,
    BELLA,
    BLOCKED,
    CALM,
    CLASHING,
    CONFLICT,
    DELETE,
    KIDS,
    MISSING,
    OVER,
    SILENT,
    UPDATE,
    hostile_plan,
    plan_with,
    replace,
)
from rendering import plan_page

from petsync.plan.change import Change, Coverage
from petsync.plan.guard import Refusal, Verdict
from petsync.plan.plan import Plan


class Contexts:
    """The contexts of a browser, one for each set of options. A new context costs as much as a
    page.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._made: dict[str, BrowserContext] = {}

    def __call__(self, **options: object) -> BrowserContext:
        """Return the context with these options."""
        key = repr(sorted(options.items()))
        if key not in self._made:
            self._made[key] = self._browser.new_context(**options)
        return self._made[key]


class Opener:
    """Opens each document in a new tab and records its messages, dialogs, errors and requests."""

    def __init__(self, contexts: Contexts, folder: Path) -> None:
        self.folder = folder
        self.unrest: list[str] = []
        self.pages: list[Page] = []
        self._contexts = contexts

    def __call__(self, what: Plan | str, **options: object) -> Page:
        """Open a plan's page, or any document, from a file, and return its tab."""
        file = self.folder / f"{len(self.pages)}.html"
        file.write_text(what if isinstance(what, str) else plan_page(what), encoding="utf-8")
        page = self._contexts(**options).new_page()
        self.pages.append(page)
        page.on("console", lambda message: self.unrest.append(message.text))
        page.on("pageerror", lambda error: self.unrest.append(str(error)))
        page.on("dialog", lambda dialog: self.unrest.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self._asked(request.url, file.as_uri()))
        page.goto(file.as_uri())
        return page

    def _asked(self, url: str, own: str) -> None:
        if url.partition("#")[0] != own:
            self.unrest.append(f"request {url}")


NAMES = ("Bella", "Rex", "Zoë", "小雪", "O'Malley", "Ænima")


def change(n: int) -> Change:
    """Return change number n: of each ten, one add, one delete and eight updates of different
    fields.
    """
    name = f"{NAMES[n % len(NAMES)]} {n}"
    pet = replace(BELLA, id=n, name=name, photo_urls=(f"https://images.example/{n}.jpg",))
    if n % 10 == 0:
        return replace(ADD, row=n, source=f"Pets!A{n}", after=replace(pet, id=None))
    if n % 10 == 1:
        return replace(DELETE, row=n, source=f"Pets!A{n}", before=pet)
    after, fields = replace(pet, status="sold"), ["status"]
    if n % 10 > 5:
        after, fields = replace(after, name=f"{name}x"), ["name", *fields]
    if n % 10 > 7:
        after, fields = replace(after, tags=(CALM, KIDS)), [*fields, "tags"]
    values = {"before": pet, "after": after, "fields": tuple(fields)}
    return replace(UPDATE, row=n, source=f"Pets!B{n}", **values)


def plan_of(size: int, **more: object) -> Plan:
    """Return a plan of this many changes, with two conflicts and a blocked row."""
    order = {"add": 0, "update": 1, "delete": 2}
    changes = sorted((change(n) for n in range(size)), key=lambda each: order[each.kind])
    rest = {"conflicts": (CONFLICT, CLASHING), "blocked": (BLOCKED,), "raw_notes": ("Look twice.",)}
    return plan_with(*changes, **{**rest, **more})


def everything() -> Plan:
    """Return a small plan with one of everything that a page can show."""
    sentinel = Refusal("sentinel", "pet 1 is not in the store any more")
    return plan_with(
        ADD,
        UPDATE,
        replace(UPDATE, fields=("name",), after=replace(BELLA, name="")),
        DELETE,
        MISSING,
        conflicts=(CONFLICT, CLASHING, replace(CLASHING, winner="sheet")),
        blocked=(BLOCKED,),
        raw_notes=("Pet 100 (Tom) would be deleted. See `petsync check`.",),
        verdict=Verdict((OVER, sentinel)),
        coverage=Coverage(("available",), (SILENT,)),
        left_out=3,
    )


def together(names: Iterable[str], source: str) -> Plan:
    """Return one plan with the content of the hostile plans of all these names."""
    plans = [hostile_plan(name) for name in names]
    kept = ("changes", "conflicts", "blocked", "raw_notes")
    parts = {kind: tuple(chain.from_iterable(getattr(p, kind) for p in plans)) for kind in kept}
    coverage = Coverage((), tuple(chain.from_iterable(p.coverage.failed for p in plans)))
    refusals = tuple(chain.from_iterable(p.verdict.refusals for p in plans))
    return replace(hostile_plan(source), **parts, coverage=coverage, verdict=Verdict(refusals))


def status(page: Page) -> Locator:
    """Return the element that shows how many rows the page shows."""
    return page.get_by_role("status")


def rows(page: Page) -> Locator:
    """Return the rows of the page's table, without its header."""
    return page.locator("#table > tbody > tr")


def expect_status(page: Page, text: str) -> None:
    """Wait until the page's status has this text."""
    expect(status(page)).to_have_text(text)


def chip(page: Page, kind: str) -> Locator:
    """Return the checkbox of the filter for this kind."""
    return page.get_by_role("checkbox", name=kind)
