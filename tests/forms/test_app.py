"""The page with all steps, from the sign-in to the report."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import petsync as ps
from petsync.errors import PlanError
from petsync.sandbox import Sandbox
from petsync.widgets.app import AppForm, app, connect_app
from petsync.widgets.app_config import AppConfig
from petsync.widgets.browse import BrowseForm
from petsync.widgets.login import ConnectForm, LoginForm, remember_store, remembered_stores
from petsync.widgets.review import ReviewForm
from petsync.widgets.sheet import SheetForm
from petsync.widgets.upload import UploadForm
from petsync.widgets.webapp import serve

SHOP = [ps.Pet(id=n, name=f"Pet {n}", status="available", photo_urls=()) for n in range(1, 6)]
WITHOUT = ["PETSYNC_URL", "PETSYNC_TOKEN", "PETSYNC_API_KEY", "PETSYNC_PROFILE", "PETSYNC_STATE"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder without petsync settings in the environment, and return it."""
    monkeypatch.chdir(tmp_path)
    for name in WITHOUT:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """Yield a store of five pets that requires tokens."""
    with Sandbox(pets=SHOP) as running:
        yield running


@pytest.fixture
def store(box: Sandbox, here: Path) -> Iterator[ps.Store]:
    """Yield a connection to the store without a token."""
    with ps.connect(box.url, environ={}, state=here / "state") as connected:
        yield connected


@pytest.fixture
def shown() -> Iterator[Callable[[AppForm], AppForm]]:
    """Yield a function that shows a page; close the pages afterwards."""
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
    """Wait until the condition is true; a step's work may start another step."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def make_visible(page: AppForm) -> list[str]:
    """Return the steps whose part of the page is visible."""
    return [name for name, part in page._parts.items() if part.box.layout.display != "none"]


def states(page: AppForm, what: str) -> list[str]:
    """Return the steps that have this state, such as done or disabled."""
    return [step["key"] for step in page.steps.steps if step[what]]


def planned(page: AppForm, here: Path, text: str) -> None:
    """Open a sheet with this text and compare it with the store."""
    (here / "edited.csv").write_text(text, "utf-8")
    page.show_step("sheet")
    sheet = page.forms["sheet"]
    assert isinstance(sheet, SheetForm)
    sheet.open("edited.csv")
    until(lambda: sheet.sheet is not None and not sheet.work.is_busy)
    sheet.compare.click()
    until(lambda: make_visible(page) == ["review"] or page.notice.text)


def applied(page: AppForm) -> ReviewForm:
    """Send the plan; return the form with its running run."""
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
    """Each step leads to the next, and at the end the store agrees with the sheet."""
    page = shown(app(store))
    login = page.forms["sign-in"]
    assert isinstance(login, LoginForm)
    assert login.work.wait()
    assert (page.current, make_visible(page)) == ("sign-in", ["sign-in"])
    login.way.value = "token"
    login.token.value = box.token()
    login.go.click()
    until(lambda: make_visible(page) == ["sheet"])
    assert states(page, "done") == ["sign-in"]

    planned(page, here, "id,name\n1,Rex\n2,Mia\n")
    assert (make_visible(page), states(page, "done")) == (["review"], ["sign-in", "sheet"])
    review = applied(page)
    assert len(review.plan.changes) == 2
    until(lambda: "report" in states(page, "done"))
    assert states(page, "done") == ["sign-in", "sheet", "review", "report"]
    assert {store.api.get_pet_by_id(n).name for n in (1, 2)} == {"Rex", "Mia"}

    page.show_step("report")
    heading, changed, problems, files, facts, again, _ = page._parts["report"].box.children
    assert heading.text == "Report"
    assert review.report is not None
    assert "2 pets were changed." in changed.value
    assert problems.value == ""
    assert review.report.run_id in facts.value
    assert "Download edited.results.csv" in files.value
    again.click()
    assert page.current == "sheet"


def test_no_step_waits_for_the_sign_in(
    store: ps.Store, shown: Callable[[AppForm], AppForm]
) -> None:
    """No step needs the sign-in first: each step can be opened."""
    page = shown(app(store))
    assert states(page, "disabled") == []
    for name in ("review", "report", "images", "catalogue", "sign-in"):
        page.steps.current = name
        assert make_visible(page) == [name]
    until(lambda: not any(form.work.is_busy for form in page.forms.values()))


def test_what_was_refused_is_asked_again(
    box: Sandbox, store: ps.Store, shown: Callable[[AppForm], AppForm]
) -> None:
    """Without a sign-in, catalogue and images show the step in which to sign in. After it they load
    their data by themselves and clear this message.
    """
    page = shown(app(store))
    page.show_step("catalogue")
    page.show_step("images")
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
    """Another plan does not replace the form of an active run."""
    auth = ps.auth.bearer(box.token())
    with ps.connect(box.url, auth=auth, environ={}, state=here / "state") as store:
        page = shown(app(store))
        (here / "other.csv").write_text("id,name\n2,Mia\n", "utf-8")
        planned(page, here, "".join(("id,name\n", *(f"{n},New {n}\n" for n in range(1, 6)))))
        other = store.plan("other.csv")
        box.set_faults("latency=2")
        review = applied(page)
        page.work.wrap_callback(page._open_review)(other)
        assert page.forms["review"] is review
        assert page.notice.text == "a run is still active"
        box.set_faults(None)
        assert review.work.wait()
        planned(page, here, "id,name\n3,Tom\n")
        assert page.forms["review"] is not review
        page.close()


def test_asks_for_the_store(box: Sandbox, here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """If no store is named, the page asks for it, and the other steps are disabled until then."""
    page = shown(app())
    assert page.current == "store"
    assert states(page, "disabled") == [name for name in page._names if name != "store"]
    asking = page.forms["store"]
    assert isinstance(asking, ConnectForm)
    asking.go.click()
    assert asking.notice.text == "there is no address yet"
    asking.url.value = "no address"
    asking.go.click()
    assert asking.work.wait()
    assert asking.notice.tone == "problem"
    assert page.store is None
    asking.url.value = box.url
    asking.go.click()
    assert asking.work.wait()
    assert (page.current, states(page, "disabled")) == ("sign-in", [])
    assert page.store is not None
    assert page.store.url == box.url


def test_a_store_without_a_sign_in(here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """Enter in the address uses the store. If it needs no sign-in, the page says so and continues,
    and the next page offers its address.
    """
    with Sandbox(pets=SHOP, auth=False) as box:
        page = shown(app())
        asking = page.forms["store"]
        assert isinstance(asking, ConnectForm)
        assert asking.url.value == ""
        asking.url.value = box.url
        asking.url._handle_custom_msg({"event": "submit"}, [])
        until(lambda: "sign-in" in page.forms)
        assert remembered_stores() == []
        login = page.forms["sign-in"]
        assert isinstance(login, LoginForm)
        assert login.work.wait()
        assert "asks for no sign-in" in login.html()
        assert login.go_on.layout.display != "none"
        login.go_on.click()
        assert page.current == "sheet"
        again = shown(app()).forms["store"]
        assert isinstance(again, ConnectForm)
        assert (again.url.value, again.url.options) == (box.url, (box.url,))


def choose_store(page: AppForm, url: str) -> ConnectForm:
    """Enter the address in the first step, press Enter, and wait for what the page says."""
    page.show_step("store")
    asking = page.forms["store"]
    assert isinstance(asking, ConnectForm)
    asking.notice.clear()
    asking.url.value = url
    asking.url._handle_custom_msg({"event": "submit"}, [])
    until(lambda: (asking.notice.text or page.notice.text) and not asking.work.is_busy)
    return asking


def opened_run(page: AppForm, run_id: str) -> ReviewForm:
    """Open a run from the list of earlier runs, and return the form with its report."""
    runs = page._runs
    assert runs is not None
    page.show_step("report")
    until(lambda: any(row["key"] == run_id for row in runs.table.rows))
    before = page.forms.get("review")
    runs.table.press(run_id)
    until(lambda: page.forms.get("review") is not before and make_visible(page) == ["review"])
    review = page.forms["review"]
    assert isinstance(review, ReviewForm)
    assert review.work.wait()
    return review


def test_earlier_runs_after_a_reload(
    store: ps.Store, box: Sandbox, here: Path, shown: Callable[[AppForm], AppForm]
) -> None:
    """A new page lists the runs at its store, in the review and in the report: the user opens one,
    sees what it changed and what needs a person, gets its results, and undoes it.
    """
    store.sign_in(ps.auth.bearer(box.token()))
    (here / "edited.csv").write_text("id,name\n1,Rex\n99,Gone\n", "utf-8")
    report = store.apply(store.plan("edited.csv"))
    page = shown(app(store))
    review = opened_run(page, report.run_id)
    assert (page.current, make_visible(page)) == ("review", ["review"])
    assert review.heading.text == f"Run {report.run_id}"
    assert "1 was changed" in review.changed.value or "1 pet was changed" in review.changed.value
    assert "Download edited.results.csv" in review.files.value
    assert not (here / "edited.results.csv").exists()
    assert (review.resume.layout.display, review.undo.layout.display) == ("none", None)
    review.undo.click()
    assert review.work.wait()
    assert review.plan.undoes == report.run_id
    review = applied(page)
    assert review.work.wait()
    until(lambda: "review" in states(page, "done"))
    assert {pet.name for pet in box.pets()} == {pet.name for pet in SHOP}
    runs = page._runs
    assert runs is not None
    until(lambda: len(runs.runs) == 2)
    assert "undone by run" in str([row["cells"]["result"] for row in runs.table.rows])
    again = opened_run(page, runs.runs[0].run_id)
    assert "Download" in again.files.value


def test_an_interrupted_run_comes_first(
    store: ps.Store, box: Sandbox, here: Path, shown: Callable[[AppForm], AppForm]
) -> None:
    """A run that was stopped is named above the sheet, with its sheet and what is left. One press
    resumes it, and then it is no longer offered.
    """
    store.sign_in(ps.auth.bearer(box.token()))
    first = shown(app(store))
    planned(first, here, "".join(("id,name\n", *(f"{n},New {n}\n" for n in range(1, 6)))))
    box.set_faults("latency=0.3")
    review = applied(first)
    until(lambda: review.meter.done)
    review.stop.click()
    assert review.work.wait()
    box.set_faults(None)
    assert review.report is not None
    run_id = review.report.run_id
    page = shown(app(store))
    until(lambda: make_visible(page) == ["sheet"])
    runs = page._runs
    assert runs is not None
    until(lambda: runs.unfinished is not None)
    assert runs.unfinished is not None
    until(lambda: page._parts["sheet"].box.children)
    assert page._parts["sheet"].box.children[0] is runs.interrupted
    assert runs.interrupted.layout.display is None
    assert run_id in runs.message.value
    assert runs.resume.description.startswith("Resume (")
    runs.resume.click()
    until(lambda: "report" in states(page, "done"))
    assert page.current == "review"
    assert [pet.name for pet in box.pets()] == [f"New {n}" for n in range(1, 6)]
    until(lambda: runs.unfinished is None)
    assert runs.interrupted.layout.display == "none"


def test_another_store_replaces_every_part(here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """When another store is chosen, no step keeps anything of the former store: its plan is gone,
    and work of it that ends later is ignored. The same address again keeps the plan.
    """
    other = [ps.Pet(id=n, name=f"Other {n}", status="sold", photo_urls=()) for n in range(1, 6)]
    with Sandbox(pets=SHOP, auth=False) as one, Sandbox(pets=other, auth=False) as two:
        page = shown(app())
        choose_store(page, one.url)
        first = page.store
        assert first is not None
        page.show_step("catalogue")
        planned(page, here, "id,name\n1,Rex\n")
        former = page.forms
        late = former["review"]
        assert isinstance(late, ReviewForm)
        asking = choose_store(page, one.url)
        assert (page.store, page.forms["review"]) == (first, late)

        assert choose_store(page, two.url) is asking
        assert asking.notice.text == f"Using the store at {two.url}"
        assert (page.current, states(page, "done")) == ("sign-in", ["store"])
        assert set(page.forms) == {"store", "sign-in"}
        for name in ("sheet", "images", "catalogue", "review", "report"):
            page.show_step(name)
        assert "review" not in page.forms
        for form in page.forms.values():
            assert getattr(form, "store", page.store) is page.store
        for act in late._report_callbacks:
            act(None)  # type: ignore[arg-type]
        sheet = former["sheet"]
        assert isinstance(sheet, SheetForm)
        for act in sheet._on_plan:
            act(late.plan)
        assert "review" not in page.forms
        with pytest.raises(PlanError):
            page.store.apply(late.plan)
        assert [pet.name for pet in two.pets()] == [pet.name for pet in other]


def test_a_running_run_keeps_its_store(here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """Another store cannot be chosen while a run is active: the page says so, and keeps its store
    and its plan.
    """
    with Sandbox(pets=SHOP, auth=False) as one, Sandbox(pets=SHOP, auth=False) as two:
        page = shown(app())
        choose_store(page, one.url)
        planned(page, here, "".join(("id,name\n", *(f"{n},New {n}\n" for n in range(1, 6)))))
        one.set_faults("latency=1")
        review = applied(page)
        choose_store(page, two.url)
        assert page.notice.text == "a run is still active"
        assert page.store is not None
        assert (page.store.url, page.forms["review"]) == (one.url, review)
        one.set_faults(None)
        assert review.work.wait()
        assert [pet.name for pet in one.pets()] == [f"New {n}" for n in range(1, 6)]
        assert {pet.name for pet in two.pets()} == {pet.name for pet in SHOP}


def test_a_store_with_a_sign_in_needs_it(
    store: ps.Store, shown: Callable[[AppForm], AppForm]
) -> None:
    """The button that continues without a sign-in is hidden if the store refuses to answer."""
    login = shown(app(store)).forms["sign-in"]
    assert isinstance(login, LoginForm)
    assert login.work.wait()
    assert login.go_on.layout.display == "none"


def test_remembered_stores(here: Path) -> None:
    """The addresses used before are offered, the last one first, and each once."""
    for url in ("https://a.example/v2", "https://b.example/v2", "https://a.example/v2"):
        remember_store(url)
    assert remembered_stores() == ["https://a.example/v2", "https://b.example/v2"]


def test_a_chosen_store_has_the_options_of_the_page(
    here: Path, shown: Callable[[AppForm], AppForm]
) -> None:
    """The options with which the page was started also count for a store that the user chooses."""
    page = shown(connect_app({"url": None, "allow_http": ["shop.example"], "state": "kept"}))
    asking = page.forms["store"]
    assert isinstance(asking, ConnectForm)
    asking.url.value = "http://shop.example/v2"
    asking.go.click()
    assert asking.work.wait()
    assert page.store is not None
    assert page.store.aio.settings.state == Path("kept").absolute()
    page.store.api.aio.session.require_safe_address()


def test_a_sample_store(here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """The button for a sample store connects to it and signs in."""
    page = shown(app())
    asking = page.forms["store"]
    assert isinstance(asking, ConnectForm)
    asking.sample.click()
    until(lambda: make_visible(page) == ["sheet"])
    assert page.store is not None
    assert page.store.api.get_pet_by_id(1001).id == 1001


def test_no_settings_are_no_error(here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """Without any settings the page asks for a store, and shows no error."""
    page = shown(app())
    assert (page.current, page.notice.text) == ("store", "")


def test_what_is_wrong_with_the_settings(here: Path, shown: Callable[[AppForm], AppForm]) -> None:
    """An invalid setting is reported on the page, which then asks for the store."""
    page = shown(connect_app({"url": "http://shop.example/v2", "profile": "unheard-of"}))
    assert page.current == "store"
    assert "unheard-of" in page.notice.text


def test_named_by_the_environment(
    box: Sandbox, here: Path, monkeypatch: pytest.MonkeyPatch, shown: Callable[[AppForm], AppForm]
) -> None:
    """PETSYNC_URL names the store."""
    monkeypatch.setenv("PETSYNC_URL", box.url)
    page = shown(app())
    assert page.store is not None
    assert (page.store.url, page.current) == (box.url, "sign-in")
    assert "store" not in page._names


@pytest.mark.slow
@pytest.mark.parametrize("former", [None, "tok-former"])
def test_the_environment_is_as_before_when_the_page_ends(
    here: Path, monkeypatch: pytest.MonkeyPatch, former: str | None
) -> None:
    """The kernels get the token by the environment, which is as before when the page ends. The page
    leaves no connection open.
    """
    if former is not None:
        monkeypatch.setenv("PETSYNC_TOKEN", former)
    before = dict(os.environ)
    during: list[str] = []

    def end(link: str) -> None:
        assert link.startswith("http://127.0.0.1:")
        during.append(os.environ["PETSYNC_TOKEN"])
        raise KeyboardInterrupt

    serve(0, AppConfig(str(here)), token="tok-given", on_ready=end)
    assert during == ["tok-given"]
    assert dict(os.environ) == before
    # A socket that is still open causes a warning, which is an error.
    gc.collect()


def test_without_a_kernel(store: ps.Store) -> None:
    """Without a kernel the page is a list of its steps with the equivalent code, and creates no
    widget.
    """
    page = app(store)
    text, html = str(page), page.html()
    for phrase in (store.url, "Sign in", "store.apply(plan)", "Catalogue"):
        assert phrase in text
        assert phrase in html
    assert max(map(len, text.splitlines())) <= 80
    assert page._widget is None
    page.close()
