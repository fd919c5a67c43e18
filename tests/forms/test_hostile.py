"""Hostile names of pets, files and cells are text in every form, plan and report.
tests/browser/forms/test_forms_hostile.py tests the forms in a browser too.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import ipywidgets
import pytest
from PIL import Image
from render_samples import HOSTILE
from rendering import plan_page

import petsync as ps
from petsync.models import Category, Pet, Tag
from petsync.sandbox import Sandbox
from petsync.store import Store
from petsync.widgets.form import Form

pytestmark = pytest.mark.slow

LONG = "x" * 10_000
NAMES = [
    *HOSTILE,
    LONG,
    "<img src='https://evil.example/a.png' onerror=alert(1)>",
    "</h3></div><script src=//evil.example></script>",
    "&lt;b&gt;<b>bold</b>&#60;script&#62;",
    "\u202e\u2066drowssap\u202c",
]
FORMS = ("login", "browse", "upload", "sheet", "review", "undo", "app")
_OURS = """
    a bdi br caption code dd del details div dl dt em h2 h3 h4 h5 ins li nav ol p section small
    span strong style summary table tbody td th thead tr ul
"""
OURS = frozenset(_OURS.split())


class _Markup(HTMLParser):
    """The elements, attributes and style sheets of an HTML fragment."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.styles: list[str] = []
        self._in = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        self._in = tag

    def handle_data(self, data: str) -> None:
        if self._in == "style":
            self.styles.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in = ""


def strange(html: str) -> set[str]:
    """Return the elements, attributes and styles of the HTML that petsync never writes."""
    found = _Markup(html)
    wrong = {f"<{tag}>" for tag in found.tags - OURS}
    for name, value in found.attributes:
        if name.startswith("on") or name in ("src", "srcset", "srcdoc", "action", "formaction"):
            wrong.add(f"{name}={value[:60]}")
        if name == "href" and not value.startswith(("http://", "https://", "#")):
            wrong.add(f"{name}={value[:60]}")
        if name == "style" and ("url(" in value or "evil" in value):
            wrong.add(f"{name}={value[:60]}")
    return wrong | {style[:60] for style in found.styles if "evil" in style or "@import" in style}


def widgets_of(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    """Yield the widget and all its descendants."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from widgets_of(child)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """Yield a pet store with hostile names."""
    pets = [
        Pet(
            id=n,
            name=name,
            status="available",
            category=Category(n, name),
            tags=(Tag(n, name),),
            photo_urls=(name, "javascript:alert(1)", "data:text/html,<script>alert(1)</script>"),
        )
        for n, name in enumerate(NAMES, 1)
    ]
    with Sandbox(pets=pets) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def store(box: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a signed-in connection to the store."""
    state = tmp_path_factory.mktemp("state")
    with ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=state) as connected:
        yield connected


@pytest.fixture(scope="module")
def plan(store: Store) -> ps.types.Plan:
    """Return a plan that updates every pet."""
    frame = store.snapshot().frame
    frame["category"] = [f"{name}!" for name in frame["category"]]
    return store.plan(frame, guard=ps.Guard(max_update=ps.Limit(1.0)))


@pytest.fixture(scope="module")
def report(store: Store, plan: ps.types.Plan) -> ps.types.Report:
    """Apply the plan, and return its report."""
    return store.apply(plan)


@pytest.fixture
def forms(
    store: Store, plan: ps.types.Plan, report: ps.types.Report, tmp_path: Path
) -> Iterator[dict[str, Form]]:
    """Yield every form, each with hostile names."""
    sheet = tmp_path / "<img src=x onerror=alert(1)>.csv"
    rows = [
        '{0},"{1}",{1},"{1}","{1}"'.format(n, name.replace('"', '""').replace("\x00", ""))
        for n, name in enumerate(HOSTILE[:4], 1)
    ]
    sheet.write_text("\n".join(["id,name,status,category,<b>x</b>", *rows]), encoding="utf-8")
    picture = tmp_path / "<svg onload=alert(1)>.png"
    Image.new("RGB", (9, 9)).save(picture)
    made: dict[str, Form] = {
        "login": ps.widgets.login(store),
        "browse": ps.widgets.browse(store),
        "upload": ps.widgets.upload_images(store, 2),
        "sheet": ps.widgets.open_sheet(store, sheet),
        "review": ps.widgets.review(plan, store),
        "undo": ps.widgets.review(store.undo(report.run_id), store),
        "app": ps.widgets.app(store),
    }
    for form in made.values():
        assert form.widget is not None
    made["upload"].add_path(str(picture))  # type: ignore[attr-defined]
    for form in made.values():
        assert form.work.wait()
    yield made
    for form in made.values():
        form.close()


def test_the_check_finds_what_it_looks_for() -> None:
    """The check itself detects foreign elements, handlers, addresses and styles."""
    for html in (
        "<script>x</script>",
        "<p onclick=x>",
        "<a href='javascript:x'>",
        "<img src=x>",
        "<p style='background: url(x)'>",
        "<style>@import 'x'</style>",
    ):
        assert strange(html), html
    assert not strange("<p class='x'>&lt;script&gt; <a href='https://shop.example'>x</a></p>")


@pytest.mark.parametrize("name", FORMS)
def test_widgets_hold_no_foreign_markup(forms: dict[str, Form], name: str) -> None:
    """Each HTML widget has only petsync's own markup, and no label allows HTML."""
    seen = 0
    for widget in widgets_of(forms[name].widget):
        assert not getattr(widget, "description_allow_html", False)
        assert not isinstance(widget, ipywidgets.HTMLMath)
        if isinstance(widget, ipywidgets.HTML):
            seen += 1
            assert strange(widget.value) == set(), widget.value
    assert seen or name == "browse"


@pytest.mark.parametrize("name", FORMS)
def test_a_saved_form_holds_no_foreign_markup(forms: dict[str, Form], name: str) -> None:
    """The form's HTML has only petsync's own elements, and its text has no control characters."""
    assert strange(forms[name].html()) == set()
    text = forms[name].text()
    assert not [char for char in text if char < " " and char != "\n"]
    assert not set("\u202e\u2066\u200b") & set(text)


def test_plan_and_report_hold_no_foreign_markup(
    plan: ps.types.Plan, report: ps.types.Report
) -> None:
    """The HTML of plan and report has only petsync's own markup, and a plan's page has only its own
    scripts.
    """
    for shown in (plan._repr_html_(), report._repr_html_()):
        assert strange(shown) == set()
    page = plan_page(plan)
    assert page.count("<script") == 4
    assert "<img" not in page
    assert "<svg" not in page
