"""Hostile names of pets, files and cells are text in every form: no script runs, no dialog opens,
and nothing is fetched from another host.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fronts import View
from PIL import Image
from playwright.sync_api import expect
from render_samples import HOSTILE

from petsync.models import Category, Pet, Tag
from petsync.sandbox import Sandbox

LONG = "x" * 10_000
NAMES = [
    *(name for name in HOSTILE if len(name) < 1_000),
    LONG,
    "<img src='https://evil.example/a.png' onerror=\"document.title='taken'\">",
    "<script>fetch('https://evil.example/')</script>",
    "</script><svg onload=alert(1)>",
    "<iframe src='https://evil.example/'></iframe><style>*{background:url(//evil.example)}</style>",
    "javascript:alert(1)",
    "\u202e\u2066drowssap\u202c",
    "$\\href{javascript:alert(1)}{x}$ [x](javascript:alert(1)) ![](https://evil.example/b.png)",
]


def _pets() -> list[Pet]:
    pets = []
    for n, name in enumerate(NAMES, 1):
        tags, category = (Tag(n, name),), Category(n, name)
        urls = (name, f"https://evil.example/{n}.png", "javascript:alert(1)", f"data:text/html,{n}")
        pet = Pet(
            id=n, name=name, status="available", category=category, tags=tags, photo_urls=urls
        )
        pets.append(pet)
    return pets


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    """Return a CSV file in which every cell is hostile and every row has a problem or a change."""
    file = tmp_path / "<img src=x onerror=alert(1)>.csv"
    lines = ["id,name,status,category,<script>alert(2)</script>"]
    for n, name in enumerate(NAMES, 1):
        cell = '"' + name.replace('"', '""').replace("\x00", "") + '"'
        lines.append(f"{n},New {n},{cell},{cell},{cell}")
        lines.append(f"{n + 500},{cell},available,,{cell}")
        lines.append(f"{n + 500},{cell},sold,,{cell}")
        lines.append(f"{n + 900},{cell},available,{cell},")
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


_PLAN = """
frame = store.snapshot().frame
frame["category"] = frame["category"] + "!"
plan = store.plan(frame, guard=ps.Guard(max_update=ps.Limit(1.0)))
review = ps.widgets.review(plan, store)
review
"""


@pytest.mark.parametrize("front", ["lab", "voila"])
def test_everything_is_text(
    open_in: Callable[..., View],
    signed_in: str,
    box: Sandbox,
    workbook: Path,
    tmp_path: Path,
    front: str,
) -> None:
    """Hostile names, tags, categories, addresses, cells and file names add no element to the page
    in any form, before and after a run.
    """
    box.reset(_pets())
    picture = tmp_path / "<img src=x onerror=alert(3)>.png"
    Image.new("RGB", (20, 20), "red").save(picture)
    view = open_in(
        front,
        signed_in,
        "browse = ps.widgets.browse(store)\nbrowse",
        "upload = ps.widgets.upload_images(store, 1)\nupload",
        f"upload.add_path({str(picture)!r})",
        f"sheet = ps.widgets.open_sheet(store, {str(workbook)!r})\nsheet",
        _PLAN,
        "plan",
        "report = store.apply(plan)\nreport",
        "undone = ps.widgets.review(store.undo(report.run_id), store)\nundone",
        "print('all cells ran')",
    )
    expect(view.root).to_contain_text("all cells ran")
    browse = view.root.get_by_role("region", name="Catalogue").first
    browse.get_by_role("button", name="Open <script>alert(1)</script> (1)").click()
    expect(
        view.root.get_by_text("<script>alert(1)</script>").locator("visible=true").first
    ).to_be_visible()
    expect(view.root.get_by_text(picture.name).locator("visible=true").first).to_be_visible()
    expect(view.root.get_by_role("region", name="Open a sheet")).to_contain_text("onerror")
    assert view.page.evaluate(_STRANGE) == []
    assert view.page.title() != "taken"
    # A long value is folded, and whole when it is unfolded.
    folded = view.root.locator("details.ps-long").first
    expect(folded).to_contain_text("10,000")


# Elements that no petsync form creates, and links other than http(s) and `#`.
_STRANGE = """() => [...document.querySelectorAll(
  ".petsync-form *, .petsync, .petsync *, .jp-OutputArea-output *")].filter((each) =>
  each.matches("script:not([type]), iframe, object, embed, svg[onload], link, base, form") ||
  [...each.attributes].some(({ name }) => name.startsWith("on")) ||
  (each.matches("img") && !each.src.startsWith("data:image/") && !each.src.startsWith("blob:")) ||
  (each.matches("a[href]") && !/^(https?:|#)/.test(each.getAttribute("href"))) ||
  /evil\\.example/.test(each.getAttribute("style") ?? ""),
).map((each) => each.outerHTML.slice(0, 200))"""
