"""The page: from signing in to the report, each step driven as a person does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import petsync as ps
from petsync.sandbox import Sandbox
from petsync.widgets.app import AppForm, app, connect_app
from petsync.widgets.browse import BrowseForm
from petsync.widgets.login import ConnectForm, LoginForm
from petsync.widgets.review import ReviewForm
from petsync.widgets.sheet import SheetForm
from petsync.widgets.upload import UploadForm

SHOP = [ps.Pet(id=n, name=f"Pet {n}", status="available", photo_urls=()) for n in range(1, 6)]
WITHOUT = ["PETSYNC_URL", "PETSYNC_TOKEN", "PETSYNC_API_KEY", "PETSYNC_PROFILE", "PETSYNC_STATE"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and nothing set in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in WITHOUT:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """A shop of five pets that asks for tokens."""
    with Sandbox(pets=SHOP) as running:
        yield running


@pytest.fixture
def store(box: Sandbox, here: Path) -> Iterator[ps.Store]:
    """Connected to the shop, without a token."""
    with ps.connect(box.url, environ={}, state=here / "state") as connected:
        yield connected


@pytest.fixture
def shown() -> Iterator[Callable[[AppForm], AppForm]]:
    """Shows pages, and closes them afterwards."""
    pages: list[AppForm] = []

    def show(page: AppForm) -> AppForm:
        pages.append(page)
        assert page.widget is not None
        return page

    yield show
    for page in pages:
        page.close()
        assert all(form.work.wait() for form in page.forms.values())


def until(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for it; what a step begins may end in another one."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def visible(page: AppForm) -> list[str]:
    """The steps whose part of the page is shown."""
    return [name for name, part in page._parts.items() if part.box.layout.display != "none"]


def states(page: AppForm, what: str) -> list[str]:
    """The steps that are done, or disabled."""
    return [step["key"] for step in page.steps.steps if step[what]]


def planned(page: AppForm, here: Path, text: str) -> None:
    """Open a sheet that says this, and compare it."""
    (here / "edited.csv").write_text(text, "utf-8")
    page.go("sheet")
    sheet = page.forms["sheet"]
    assert isinstance(sheet, SheetForm)
    sheet.open("edited.csv")
    until(lambda: sheet.sheet is not None and not sheet.work.is_busy)
    sheet.compare.click()
    until(lambda: page.current == "review" or page.notice.text)


def applied(page: AppForm) -> ReviewForm:
    """Send what the plan says; the run is under way."""
    review = page.forms["review"]
    assert isinstance(review, ReviewForm)
    review.apply.click()
    assert review.work.wait()
    review.sure.value = True
    review.send.click()
    return review


def test_from_sign_in_to_report(
    box: Sandbox, store: ps.Store, here: Path, shown: Callable[[AppForm], AppForm]
) -> None:
    """Each step leads to the next; at the end the store has what the sheet says."""
    page = shown(app(store))
    login = page.forms["sign-in"]
    assert isinstance(login, LoginForm)
    assert login.work.wait()
    assert (page.current, visible(page)) == ("sign-in", ["sign-in"])
    login.way.value = "token"
    login.token.value = box.token()
    login.go.click()
    until(lambda: visible(page) == ["sheet"])
    assert states(page, "done") == ["sign-in"]

    planned(page, here, "id,name\n1,Rex\n2,Mia\n")
    assert (visible(page), states(page, "done")) == (["review"], ["sign-in", "sheet"])
    review = applied(page)
    assert len(review.plan.changes) == 2
    until(lambda: "report" in states(page, "done"))
    assert states(page, "done") == ["sign-in", "sheet", "review", "report"]
    assert {store.api.get_pet_by_id(n).name for n in (1, 2)} == {"Rex", "Mia"}

    page.go("report")
    heading, told, files, again = page._parts["report"].box.children
    assert heading.text == "Report"
    assert review.report is not None
    assert review.report.run_id in told.value
    assert "Download edited.results.csv" in files.value
    again.click()
    assert page.current == "sheet"


def test_no_step_waits_for_the_sign_in(
    store: ps.Store, shown: Callable[[AppForm], AppForm]
) -> None:
    """A service that asks for no token needs no first step: each can be gone to."""
    page = shown(app(store))
    assert states(page, "disabled") == []
    for name in ("review", "report", "images", "catalogue", "sign-in"):
        page.steps.current = name
        assert visible(page) == [name]
    until(lambda: not any(form.work.is_busy for form in page.forms.values()))


def test_what_was_refused_is_asked_again(
    box: Sandbox, store: ps.Store, shown: Callable[[AppForm], AppForm]
) -> None:
    """Without a sign-in, catalogue and images say in which step to sign in; after it they read the
    store by themselves, and say that no more.
    """
    page = shown(app(store))
    page.go("catalogue")
    page.go("images")
    catalogue, images, login = (page.forms[name] for name in ("catalogue", "images", "sign-in"))
    assert isinstance(catalogue, BrowseForm)
    assert isinstance(images, UploadForm)
    assert isinstance(login, LoginForm)
    images.search.value = "Pet"
    until(lambda: catalogue.notice.text and images.notice.text)
    for form in (catalogue, images):
        assert form.work.wait()
        assert form.notice.hint == "Sign in first: step 1, “Sign in”."
    login.way.value = "token"
    login.token.value = box.token()
    login.go.click()
    until(lambda: catalogue.table.rows and images.pets.rows)
    assert (catalogue.notice.tone, images.notice.tone) == ("", "")


def test_a_run_is_not_replaced(
    box: Sandbox, here: Path, shown: Callable[[AppForm], AppForm]
) -> None:
    """While a run is under way another plan does not take its form away."""
    auth = ps.auth.bearer(box.token())
    with ps.connect(box.url, auth=auth, environ={}, state=here / "state") as store:
        page = shown(app(store))
        (here / "other.csv").write_text("id,name\n2,Mia\n", "utf-8")
        planned(page, here, "".join(("id,name\n", *(f"{n},New {n}\n" for n in range(1, 6)))))
        other = store.plan("other.csv")
        box.break_with("latency=2")
        review = applied(page)
        page.work.wrap_callback(page._open_review)(other)
        assert page.forms["review"] is review
        assert page.notice.text == "a run is still active"
        box.break_with(None)
        assert review.work.wait()
        planned(page, here, "id,name\n3,Tom\n")
        assert page.forms["review"] is not review
        page.close()


def test_asks_for_the_store(box: Sandbox, here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """Where no store is named the page asks; until then nothing else can be done."""
    page = shown(app())
    assert page.current == "store"
    assert states(page, "disabled") == [name for name in page._names if name != "store"]
    asking = page.forms["store"]
    assert isinstance(asking, ConnectForm)
    asking.go.click()
    assert asking.notice.text == "there is no address yet"
    asking.url.value = "no address"
    asking.go.click()
    assert asking.notice.tone == "problem"
    assert page.store is None
    asking.url.value = box.url
    asking.go.click()
    assert (page.current, states(page, "disabled")) == ("sign-in", [])
    assert page.store is not None
    assert page.store.url == box.url


def test_a_sample_store(here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """A sample store is a button away, and one is signed in there."""
    page = shown(app())
    asking = page.forms["store"]
    assert isinstance(asking, ConnectForm)
    asking.sample.click()
    until(lambda: page.current == "sheet")
    assert page.store is not None
    assert page.store.api.get_pet_by_id(1001).id == 1001


def test_what_is_wrong_with_the_settings(here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """A setting that cannot be is told on the page, which then asks for the store."""
    page = shown(connect_app({"url": "http://shop.example/v2", "profile": "unheard-of"}))
    assert page.current == "store"
    assert "unheard-of" in page.notice.text


def test_named_by_the_environment(
    box: Sandbox, here: Path, monkeypatch: pytest.MonkeyPatch, shown: Callable[[AppForm], AppForm]
) -> None:
    """PETSYNC_URL names the store, as everywhere."""
    monkeypatch.setenv("PETSYNC_URL", box.url)
    page = shown(app())
    assert page.store is not None
    assert (page.store.url, page.current) == (box.url, "sign-in")
    assert "store" not in page._names


def test_without_a_kernel(store: ps.Store) -> None:
    """The page is a list of its steps with what does the same, and makes no widget."""
    page = app(store)
    text, html = str(page), page.html()
    for said in (store.url, "Sign in", "store.apply(plan)", "Catalogue"):
        assert said in text
        assert said in html
    assert max(map(len, text.splitlines())) <= 80
    assert page._widget is None
    page.close()
