"""AppForm: all forms as one page, from signing in to the report."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ipywidgets

from petsync.errors import LockedError, MissingServiceError, SettingsError
from petsync.plan.plan import Plan
from petsync.plan.report import Report
from petsync.report import html
from petsync.report.document import Document, Note, Snippets
from petsync.store import Store, checked_store, connect
from petsync.widgets.app_config import take_config
from petsync.widgets.browse import BrowseForm, browse
from petsync.widgets.components import Heading, Steps, button, show
from petsync.widgets.form import Form
from petsync.widgets.login import ConnectForm, login, remember_store
from petsync.widgets.review import ReviewForm
from petsync.widgets.review import review as open_review
from petsync.widgets.review_view import ReportView
from petsync.widgets.runs import RunsForm
from petsync.widgets.sheet import SheetForm, open_sheet
from petsync.widgets.upload import UploadForm, upload_images

__all__ = ["AppForm", "app", "connect_app", "open_page"]


_STEPS = {
    "store": ("Choose the store", "ps.connect(url)"),
    "sign-in": ("Sign in", "store.sign_in(ps.auth.bearer(token))"),
    "sheet": ("Open a sheet", "plan = store.plan(sheet)"),
    "review": ("Review and apply", "report = store.apply(plan)"),
    "report": ("Report", "report.to_frame()"),
    "images": ("Images", "store.upload(store.pictures(folder))"),
    "catalogue": ("Catalogue", "store.find_by_status(status)"),
}
"""The title of each step, and the equivalent code."""
_BESIDE = frozenset(("images", "catalogue"))
_EMPTY = {
    "review": "There is no plan yet: open a sheet first.",
    "report": "Nothing has been applied yet: review a plan, and apply it.",
}
"""What a step without a form says."""
_RUNNING = "a run is still active"


def app(store: Store | None = None) -> AppForm:
    """Return all forms as one page: sign in, open a sheet, review, apply, see the report; also
    images and the catalogue. Without `store`, the page uses the store that PETSYNC_URL or
    petsync.toml names; if none is named, the user chooses a store on the page.
    """
    if store is None:
        return connect_app({})
    return AppForm(checked_store(store, "ps.widgets.app(store)"))


def connect_app(options: Mapping[str, Any]) -> AppForm:
    """Return the page for the store that `connect` finds with these options. If it finds none, the
    page asks for a store; if an option is wrong, it also shows the error.
    """
    try:
        return AppForm(connect(**options), owns=True)
    except MissingServiceError:
        return AppForm(options=options)
    except SettingsError as error:
        form = AppForm(options=options)
        form.fail(error)
        return form


@dataclass(slots=True)
class _Part:
    """One step: its box on the page, and its form, if it already has one."""

    box: ipywidgets.VBox = field(default_factory=ipywidgets.VBox)
    form: Form | None = None


class AppForm(Form):
    """The page. `current` is the key of the visible step. The work of a step continues while
    another step is visible. `options` are the options of `connect` for a store that the user
    chooses.
    """

    title = "petsync"
    level = 2

    def __init__(
        self,
        store: Store | None = None,
        *,
        owns: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.store = store
        self._options = options or {}
        self._owned = store if owns else None
        self._names = [name for name in _STEPS if name != "store" or store is None]
        self._parts: dict[str, _Part] = {}
        self._done: set[str] = set()
        self._runs: RunsForm | None = None

    def _iter_views(self) -> Iterator[Document]:
        """Yield the steps with the equivalent code."""
        address = "a store that you choose" if self.store is None else self.store.url
        steps = [_STEPS[name] for name in self._names]
        title = "In a live notebook this is a page. In plain Python:"
        yield Document("", [Note(f"For {address}."), Snippets(title, steps)])

    @property
    def current(self) -> str:
        """The key of the visible step."""
        return self.steps.current

    @property
    def forms(self) -> dict[str, Form]:
        """The form of each step that has been shown."""
        return {name: part.form for name, part in self._parts.items() if part.form is not None}

    def show_step(self, name: str) -> None:
        """Show this step, and move the focus to the heading of its form."""
        self.notice.clear()
        self.steps.current = name
        form = self._parts[name].form
        if form is not None:
            form.heading.focus()

    def close(self) -> None:
        """Stop the work of all steps, remove the page, and close the store if the page opened
        it.
        """
        # Close `work` first, because a step's form may report the end of its work while it closes.
        self.work.close()
        for form in (self._runs, *self.forms.values()):
            if form is not None:
                form.close()
        super().close()
        if self._owned is not None:
            self._owned.close()

    def _build_body(self) -> ipywidgets.Widget:
        self.steps = Steps(label="Steps")
        self._parts = {name: _Part() for name in self._names}
        if self.store is not None:
            self._make_runs()
        self._draw()
        self.steps.current = self._names[0]
        self._show()
        self.steps.observe(self.work.wrap_callback(lambda _: self._show_step()), "current")
        return ipywidgets.VBox([self.steps, *(part.box for part in self._parts.values())])

    def _draw(self) -> None:
        self.steps.steps = [
            {
                "key": name,
                "title": _STEPS[name][0],
                "done": name in self._done,
                "aside": name in _BESIDE,
                "disabled": self.store is None and name != "store",
            }
            for name in self._names
        ]

    def _show_step(self) -> None:
        self.notice.clear()
        self._show()

    def _make_runs(self) -> None:
        """Make the list of the store's earlier runs, and put it into the steps that show it."""
        self._runs = runs = RunsForm(self._require_store)
        runs.heading.level = self.level + 2
        runs.on_open(self._of_store(self._open_run))
        assert runs.widget is not None
        for name, words in _EMPTY.items():
            self._say(name, words)

    def _show(self) -> None:
        self._make(self.current)
        if self.current in _EMPTY and self._runs is not None:
            self._runs.reload()
        for name, part in self._parts.items():
            show(part.box, name == self.current)

    def _make(self, name: str) -> None:
        """Make the step's form only when the step is first shown, because a new form may send
        requests.
        """
        part, make = self._parts[name], self._makers.get(name)
        if part.form is None and make is not None:
            part.form = make()
            self._place(part.form)
            above = (self._runs.interrupted,) if name == "sheet" and self._runs else ()
            part.box.children = (*above, part.form.widget)

    def _place(self, form: Form) -> None:
        """Set the form's heading level and sign-in hint for this page."""
        form.heading.level = self.level + 1
        form.sign_in_hint = f"Sign in first: step {self._names.index('sign-in') + 1}, “Sign in”."

    @property
    def _makers(self) -> dict[str, Callable[[], Form]]:
        return {
            "store": self._build_connect_form,
            "sign-in": self._login,
            "sheet": self._sheet,
            "images": lambda: upload_images(self._require_store),
            "catalogue": lambda: browse(self._require_store),
        }

    @property
    def _require_store(self) -> Store:
        if self.store is None:
            raise SettingsError("no store is chosen yet", hint="Choose one in the first step.")
        return self.store

    def _build_connect_form(self) -> Form:
        form = ConnectForm(self._options)
        form.on_store(self.work.wrap_callback(self._take_store))
        return form

    def _take_store(self, store: Store) -> None:
        """Use the store for every step. No step keeps anything from the store used before."""
        form = self.forms["store"]
        assert isinstance(form, ConnectForm)
        former = self._owned
        is_same = former is not None and former.url == store.url
        is_running = any(each.is_running for each in self.forms.values())
        if is_same or is_running:
            self.work.start(asyncio.to_thread(store.close), lambda _: None)
        if is_running and not is_same:
            raise LockedError(_RUNNING, hint="Wait for it to end, or stop it, then choose a store.")
        if not is_same:
            left = [self._runs, *(self._leave(name) for name in self._names if name != "store")]
            self.store = self._owned = store
            self._make_runs()
            self._done.clear()
            if former is not None:
                self.work.start(asyncio.to_thread(_close_all, left, former), lambda _: None)
        self._end("store", "sign-in")
        form.confirm(self._require_store)

    def _leave(self, name: str) -> Form | None:
        """Empty the step, and return its form."""
        part = self._parts[name]
        form, part.form = part.form, None
        part.box.children = ()
        return form

    def _of_store(self, act: Callable[..., object]) -> Callable[..., None]:
        """Return the function as a callback that does nothing once another store was chosen: the
        work of a form of the former store may end later.
        """
        store = self.store
        return self.work.wrap_callback(
            lambda *values: act(*values) if self.store is store else None
        )

    def _login(self) -> Form:
        form = login(self._require_store)
        form.on_signed_in(self._of_store(lambda _: self._on_sign_in()))
        return form

    def _on_sign_in(self) -> None:
        """Continue, and repeat the requests that were refused before."""
        for form in self.forms.values():
            if form.forget_refusal():
                if isinstance(form, BrowseForm):
                    form.reload()
                elif isinstance(form, UploadForm):
                    form.find.click()
        chosen = self.forms.get("store")
        if isinstance(chosen, ConnectForm) and chosen.address:
            remember_store(chosen.address)
        self._end("sign-in", "sheet")

    def _sheet(self) -> Form:
        form = open_sheet(self._require_store)
        form.on_plan(self._of_store(self._open_review))
        return form

    def _open_review(self, plan: Plan) -> None:
        self._leave_review()
        sheet_form = self._parts["sheet"].form
        assert isinstance(sheet_form, SheetForm)
        form = open_review(
            plan,
            self._require_store,
            sheet=sheet_form.received,
            findings=sheet_form.sheet_findings,
        )
        self._take_review(form)
        self._done -= {"review", "report"}
        self._end("sheet", "review")

    def _open_run(self, past: ReportView, resumes: bool) -> None:
        """Show the report of an earlier run in the review, and resume the run if asked."""
        self._leave_review()
        form = ReviewForm(past.report.plan, self._require_store, past=past)
        self._take_review(form)
        self.show_step("review")
        if resumes:
            form.resume.click()

    def _leave_review(self) -> None:
        """Close the form of the review. Raises LockedError while its run is active."""
        form = self._parts["review"].form
        if form is not None and form.is_running:
            raise LockedError(
                _RUNNING,
                hint="Wait for it to end in “Review and apply”, or stop it there.",
            )
        if form is not None:
            form.close()

    def _take_review(self, form: ReviewForm) -> None:
        part = self._parts["review"]
        self._place(form)
        form.on_report(self._of_store(self._show_report))
        part.form = form
        part.box.remove_class("petsync-form")
        part.box.children = (form.widget,)

    def _show_report(self, report: Report) -> None:
        if self._runs is not None:
            self._runs.reload()
        again = button("Open another sheet")
        again.on_click(self.work.wrap_callback(lambda _: self.show_step("sheet")))
        review = self._parts["review"].form
        assert isinstance(review, ReviewForm)
        parts = review.changed, review.problems, review.files, review.facts
        self._fill_step("report", *(ipywidgets.HTML(part.value) for part in parts), again)
        self._done.add("report")
        if not report.stopped:
            self._done.add("review")
        self._draw()

    def _end(self, name: str, following: str) -> None:
        """Complete the step, and open the next one if the user is still on it."""
        self._done.add(name)
        self._draw()
        if self.current == name:
            self.show_step(following)

    def _say(self, name: str, words: str) -> None:
        self._fill_step(name, ipywidgets.HTML(html.element("p", html.text(words))))

    def _fill_step(self, name: str, *shown: ipywidgets.Widget) -> None:
        """Show the widgets under the step's title, and then the earlier runs, as a region, for a
        step without a form.
        """
        box = self._parts[name].box
        box.add_class("petsync-form")
        runs = () if self._runs is None else (self._runs.widget,)
        box.children = (Heading(text=_STEPS[name][0], level=self.level + 1), *shown, *runs)


def _close_all(forms: Iterable[Form | None], store: Store) -> None:
    for form in forms:
        if form is not None:
            form.close()
    store.close()


# The kernel's side of the page: the forms for the store in the command's options.


def open_page() -> AppForm:
    """Change to the folder and the umask with which petsync was started, and return the page."""
    config = take_config()
    os.chdir(config.folder)
    os.umask(config.umask)
    page = connect_app(config.options)
    page.level = page.heading.level = 1
    return page
