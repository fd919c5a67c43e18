"""Form: the behaviour that all forms share."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import ipywidgets
import pytest

import petsync as ps
from petsync.errors import LockedError, PetsyncError
from petsync.report.document import Document, Note
from petsync.sheets.files import AS_ENCODED
from petsync.sheets.headers import mapping_hint
from petsync.widgets.components import Heading, in_form
from petsync.widgets.form import Form, is_live
from petsync.widgets.review import ReviewForm
from petsync.widgets.sheet import SheetForm, describe_sheet

_VIEW = "application/vnd.jupyter.widget-view+json"


SHOWN = "A form of a test\n\n{}\n\nand more"


class _Form(Form):
    title = "A form of a test"

    says = "as it stands"

    def _iter_views(self) -> list[Document]:
        return [Document("", [Note(self.says)]), Document("", [Note("and more")])]

    def _build_body(self) -> ipywidgets.Widget:
        self.go = ipywidgets.Button(description="Go")
        return ipywidgets.VBox([self.go])


@pytest.fixture
def form() -> Iterator[_Form]:
    """Yield a form with one button."""
    made = _Form()
    yield made
    made.close()


def test_without_a_kernel_it_is_html_and_text(form: _Form) -> None:
    """In a script or an executed notebook the form is text and HTML, its heading first, and creates
    no widget.
    """
    bundle = form._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == str(form) == SHOWN.format("as it stands")
    html = bundle["text/html"]
    parts = ("<h3>A form of a test</h3>", "<p>as it stands</p>", "<p>and more</p>")
    assert sorted(map(html.index, parts)) == list(map(html.index, parts))
    assert form._widget is None


def test_with_a_kernel_it_is_widgets_too(form: _Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a live notebook the front end gets the widgets."""
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: True)
    assert form._repr_mimebundle_()[_VIEW]["model_id"] == form.widget.model_id


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Simulate a live notebook; return the list of its outputs, each with its options."""
    shown: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for name in [name for name in os.environ if name.startswith("VOILA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: True)
    monkeypatch.setattr(
        "petsync.widgets.form.display", lambda data, **how: shown.append((data, how))
    )
    return shown


def test_a_notebook_keeps_it_beside_its_widgets(
    form: _Form, outputs: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    """In a live notebook the static view and the widgets are two outputs; without a kernel the
    static view is still shown.
    """
    form._ipython_display_()
    (kept, how), (live, _) = outputs
    assert kept["text/plain"] == SHOWN.format("as it stands")
    assert kept["text/html"].startswith('<div class="petsync-still">')
    assert "<p>as it stands</p>" in kept["text/html"]
    assert set(live) == {_VIEW, "text/plain"}
    assert live[_VIEW]["model_id"] == form.widget.model_id
    assert how["display_id"]


def test_what_is_kept_is_renewed(
    form: _Form, outputs: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    """After the form's state changes, the notebook's static view is updated in place, once per
    change.
    """
    form._ipython_display_()
    form.says = "as it stands then"

    async def nothing() -> None:
        pass

    for _ in range(2):
        form.work.start(nothing(), lambda _: None)
        assert form.work.wait()
        until = time.monotonic() + 60
        while form._still._is_due or len(outputs) < 3:
            assert time.monotonic() < until
            time.sleep(0.01)
    with form._still._lock:
        (_, first), _, (again, how) = outputs
    assert again["text/plain"] == SHOWN.format("as it stands then")
    assert how == {**first, "update": True}


@pytest.mark.parametrize("voila", [True, False])
def test_where_nothing_is_kept(form: _Form, monkeypatch: pytest.MonkeyPatch, voila: bool) -> None:
    """Without a live notebook, and on Voilà's page, the form is displayed as a single bundle."""
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: voila)
    if voila:
        monkeypatch.setenv("VOILA_KERNEL_ID", "1")
    with pytest.raises(NotImplementedError):
        form._ipython_display_()
    assert set(form._repr_mimebundle_()) >= {"text/plain", "text/html"}


def test_it_is_made_once(form: _Form) -> None:
    """A form that is shown twice is the same widget; its heading is first and its notice last."""
    box = form.widget
    assert box is form.widget
    assert (box.children[0], box.children[-1]) == (form.heading, form.notice)
    assert form.heading.text == "A form of a test"
    assert "petsync-form" in box._dom_classes


def test_a_field_is_there_before_anybody_looks(form: _Form) -> None:
    """A field is available before the form is shown; an unknown field is an AttributeError."""
    assert "go" not in vars(form)
    button = form.go
    assert button is form.go
    assert form.widget.children[1].children == (button,)
    with pytest.raises(AttributeError, match="'gone'"):
        form.gone  # type: ignore[attr-defined]  # noqa: B018


def test_a_look_from_outside_makes_no_widget(form: _Form) -> None:
    """Looking up a display method or copying the form creates no widget."""
    for name in ("_repr_png_", "__deepcopy__", "_ipython_canary_method_should_not_exist_"):
        assert not hasattr(form, name)
    assert form._widget is None


def test_a_closed_form_says_so(form: _Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed form has no widgets, but its static view is still shown."""
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: True)
    form.close()
    with pytest.raises(PetsyncError, match="this form is closed"):
        form.widget  # noqa: B018
    with pytest.raises(AttributeError):
        form.go  # noqa: B018
    assert form._repr_mimebundle_()["text/plain"] == SHOWN.format("as it stands")
    assert _VIEW not in form._repr_mimebundle_()


def test_closing_takes_every_widget_away(form: _Form) -> None:
    """Closing a form closes all its widgets in the kernel."""
    parts = [form.widget, form.go, form.go.layout, form.go.style, form.heading, form.notice]
    assert None not in [part.comm for part in parts]
    form.close()
    assert [part.comm for part in parts] == [None] * len(parts)
    assert form._widget is None


def test_an_error_is_reported_with_its_way_out(form: _Form) -> None:
    """A PetsyncError is shown with its message and hint."""

    def act() -> None:
        raise LockedError("another run is at work", hint="Wait for it.")

    form.work.wrap_callback(act)()
    assert (form.notice.text, form.notice.hint) == ("another run is at work", "Wait for it.")
    assert form.notice.tone == "problem"


def test_a_fault_is_reported_without_its_text(
    form: _Form, faults: list[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error is logged; the form shows its type, never its message."""

    def act() -> None:
        raise RuntimeError("hunter2")

    form.work.wrap_callback(act)()
    assert "(RuntimeError)" in form.notice.text
    assert "hunter2" not in form.notice.text + form.notice.hint
    assert [record.getMessage() for record in caplog.records] == ["a form failed with RuntimeError"]
    assert [type(error) for error in faults] == [RuntimeError]
    faults.clear()
    caplog.clear()


def test_work_ends_in_then(form: _Form) -> None:
    """The result of background work is passed to its `then` on the forms' thread, and the form is
    idle again.
    """
    ended: list[tuple[int, str]] = []

    async def seven() -> int:
        return 7

    form.work.start(seven(), lambda value: ended.append((value, threading.current_thread().name)))
    assert form.work.wait()
    assert ended == [(7, "petsync-forms")]
    assert not form.work.is_busy


def test_work_that_is_over_at_once(form: _Form) -> None:
    """Even if the work is very short, `then` runs after `start` has returned."""
    order: list[str] = []

    async def nothing() -> None:
        pass

    def press() -> None:
        task = form.work.start(nothing(), lambda _: order.append("ended"))
        task.done.result(60)
        order.append("returned")

    form.work.wrap_callback(press)()
    assert form.work.wait()
    assert order == ["returned", "ended"]


def test_a_closed_form_hears_nothing(form: _Form) -> None:
    """After a form is closed, results of its work and clicks are ignored."""
    calls: list[str] = []
    go_on = threading.Event()

    async def late() -> None:
        await asyncio.to_thread(go_on.wait, 60)

    form.work.start(late(), lambda _: calls.append("ended"))
    press = form.work.wrap_callback(lambda: calls.append("pressed"))
    form.close()
    go_on.set()
    press()
    assert form.work.wait()
    assert calls == []


def test_work_that_fails_is_reported(form: _Form) -> None:
    """A PetsyncError of the work is passed to `failed`; without `failed` the form shows it."""
    errors: list[PetsyncError] = []

    async def fails() -> None:
        raise LockedError("no")

    form.work.start(fails(), print, errors.append)
    form.work.start(fails(), print)
    assert form.work.wait()
    assert [error.message for error in errors] == ["no"]
    assert form.notice.text == "no"


def test_stopped_work_ends_in_silence(form: _Form) -> None:
    """Stopped work shows no message, and its clean-up is awaited."""
    begun, cleaned = threading.Event(), threading.Event()

    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    form.work.start(forever(), print)
    assert begun.wait(60)
    assert form.work.is_busy
    form.work.stop()
    assert form.work.wait()
    assert cleaned.is_set()
    assert form.notice.text == ""


def test_callbacks_come_one_at_a_time(form: _Form) -> None:
    """Callbacks of two threads never run at the same time."""
    inside, most = [0], [0]
    gate = threading.Barrier(2)

    def act() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.01)
        inside[0] -= 1

    def press() -> None:
        gate.wait(120)
        for _ in range(5):
            form.work.wrap_callback(act)()

    threads = [threading.Thread(target=press) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1]


def test_results_wait_until_the_form_is_built() -> None:
    """Work that ends while the form is built is handled when all its widgets exist. Results of
    other forms wait too, because they may belong to a part of this form.
    """
    handled: list[str] = []
    other = _Form()

    async def nothing() -> None:
        pass

    class Page(_Form):
        def _build_body(self) -> ipywidgets.Widget:
            task = self.work.start(nothing(), lambda _: handled.append("ended"))
            other.work.start(nothing(), lambda _: handled.append("ended"))
            task.done.result(60)
            # Without the lock, the results arrive now.
            threading.Event().wait(0.1)
            handled.append("built")
            return super()._build_body()

    page = Page()
    assert page.widget is not None
    assert page.work.wait()
    assert other.work.wait()
    assert handled == ["built", "ended", "ended"]
    page.close()
    other.close()


def test_results_wait_until_the_page_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a page, results and errors of work are handled when the browser has shown a heading;
    widgets that are made before could reach it in part.
    """
    monkeypatch.setenv("VOILA_BASE_URL", "/")
    monkeypatch.setattr(Heading, "shown", Future())
    handled: list[object] = []
    form = _Form()

    async def seven() -> int:
        return 7

    async def fails() -> None:
        raise LockedError("no")

    form.work.start(seven(), handled.append)
    form.work.start(fails(), print, lambda error: handled.append(error.message))
    assert not form.work.wait(0.2)
    assert handled == []
    form.heading._handle_custom_msg({"shown": True}, [])
    assert form.work.wait()
    assert sorted(map(str, handled)) == ["7", "no"]
    form.work.start(seven(), handled.append)
    assert form.work.wait()
    assert handled[2:] == [7]
    form.close()


def _shell(*, allows_input: bool) -> Callable[[], types.SimpleNamespace]:
    kernel = types.SimpleNamespace(_allow_stdin=allows_input)
    return lambda: types.SimpleNamespace(kernel=kernel)


@pytest.mark.parametrize(
    ("allows_input", "voila", "live"),
    [(True, False, True), (False, False, False), (False, True, True)],
)
def test_who_may_press_something(
    monkeypatch: pytest.MonkeyPatch, allows_input: bool, voila: bool, live: bool
) -> None:
    """A kernel that executes a notebook without input is not live; Voilà's kernel is."""
    import ipykernel  # noqa: F401 - as in a kernel

    for name in [name for name in os.environ if name.startswith("VOILA_")]:
        monkeypatch.delenv(name)
    if voila:
        monkeypatch.setenv("VOILA_KERNEL_ID", "1")
    monkeypatch.setattr("IPython.get_ipython", _shell(allows_input=allows_input))
    assert is_live() is live


_MESSAGES = (
    f"If a header was renamed, map it {mapping_hint('Tag (x)', 'tags')}.",
    "Map it (--column HEADER=COLUMN, in Python mapping={HEADER: COLUMN}).",
    'To send the row, plan with the whole store: --scope all (in Python scope="all").',
    "Compare only with the store (--two-way, in Python two_way=True): every filled cell counts.",
    "read it by its name (--sheet 'Tom (2)', in Python tab='Tom (2)').",
    "raise the limit (in Python max_delete=Limit(0.5), max_add=3) and plan again",
)
_IN_SHELL = re.compile(r"--[a-z]|in Python|mapping|tab=|`petsync")


@pytest.mark.parametrize("terms", [SheetForm.terms, ReviewForm.terms])
def test_messages_speak_the_language_of_forms(terms: tuple[tuple[str, str], ...]) -> None:
    """In a form, a message names neither an option of a command nor an argument of a function."""
    told = [in_form(message, terms) for message in _MESSAGES]
    assert [text for text in told if _IN_SHELL.search(text)] == []
    assert in_form(AS_ENCODED.format("cp1252"), SheetForm.terms).startswith("Choose its encoding.")


def test_a_note_on_pets_in_no_row_names_the_option_of_the_form() -> None:
    """A form says by its own option how the pets that are in no row are deleted."""
    note = (
        "1 pet of the store is in no row, pet 7 (Tom): nothing happens to it (--delete-missing, in "
        "Python delete_missing=True, would delete it)."
    )
    assert in_form(note, ReviewForm.terms) == (
        "1 pet of the store is in no row, pet 7 (Tom): nothing happens to it (“Delete the pets "
        "that are in no row of the sheet” among the options of the sheet deletes it)."
    )


def test_a_sheet_with_one_error_is_described(tmp_path: Path) -> None:
    """The message after a sheet is read counts its errors and warnings."""
    (tmp_path / "pets.csv").write_text("id,name\nx,Tom\n", "utf-8")
    sheet = ps.read_sheet(tmp_path / "pets.csv")
    assert describe_sheet(sheet) == "Read: 1 row; 1 error, which blocks 1 row; 0 warnings."
