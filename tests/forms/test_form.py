"""Form: what holds for every form, whatever it is for."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets
import pytest

from petsync.errors import LockedError, PetsyncError
from petsync.widgets.form import Form, is_live

_VIEW = "application/vnd.jupyter.widget-view+json"


class _Form(Form):
    title = "A form of a test"

    def html(self) -> str:
        return "<p>as it stands</p>"

    says = "as it stands"

    def text(self) -> str:
        return self.says

    def _body(self) -> ipywidgets.Widget:
        self.go = ipywidgets.Button(description="Go")
        return ipywidgets.VBox([self.go])


@pytest.fixture
def form() -> Iterator[_Form]:
    """A form with one button."""
    made = _Form()
    yield made
    made.close()


def test_without_a_kernel_it_is_html_and_text(form: _Form) -> None:
    """In a script or an executed notebook the form has no widget at all."""
    bundle = form._repr_mimebundle_()
    assert bundle == {"text/plain": "as it stands", "text/html": "<p>as it stands</p>"}
    assert str(form) == "as it stands"
    assert form._widget is None


def test_with_a_kernel_it_is_widgets_too(form: _Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody can press something, the front end gets the widgets."""
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: True)
    assert form._repr_mimebundle_()[_VIEW]["model_id"] == form.widget.model_id


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """A live notebook: what is displayed in it, each with how."""
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
    """Live, the form as it stands and its widgets are two outputs: without a kernel the one is
    still there to be shown.
    """
    form._ipython_display_()
    (kept, how), (live, _) = outputs
    assert kept["text/plain"] == "as it stands"
    assert kept["text/html"].startswith('<div class="petsync-still">')
    assert "<p>as it stands</p>" in kept["text/html"]
    assert set(live) == {_VIEW, "text/plain"}
    assert live[_VIEW]["model_id"] == form.widget.model_id
    assert how["display_id"]


def test_what_is_kept_is_renewed(
    form: _Form, outputs: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    """After something came of the form, what the notebook keeps says so, in the same place; and
    not a second time where nothing changed.
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
    assert again["text/plain"] == "as it stands then"
    assert how == {**first, "update": True}


@pytest.mark.parametrize("voila", [True, False])
def test_where_nothing_is_kept(form: _Form, monkeypatch: pytest.MonkeyPatch, voila: bool) -> None:
    """Without a live notebook, and on Voilà's page, IPython is sent to the one bundle."""
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: voila)
    if voila:
        monkeypatch.setenv("VOILA_KERNEL_ID", "1")
    with pytest.raises(NotImplementedError):
        form._ipython_display_()
    assert set(form._repr_mimebundle_()) >= {"text/plain", "text/html"}


def test_it_is_made_once(form: _Form) -> None:
    """Shown twice, the form is the same; its heading comes first and its notice last."""
    box = form.widget
    assert box is form.widget
    assert (box.children[0], box.children[-1]) == (form.heading, form.notice)
    assert form.heading.text == "A form of a test"
    assert "petsync-form" in box._dom_classes


def test_a_field_is_there_before_anybody_looks(form: _Form) -> None:
    """A script asks for a button by its name at once; what no form has is no attribute of it."""
    assert "go" not in vars(form)
    button = form.go
    assert button is form.go
    assert form.widget.children[1].children == (button,)
    with pytest.raises(AttributeError, match="'gone'"):
        form.gone  # type: ignore[attr-defined]  # noqa: B018


def test_a_look_from_outside_makes_no_widget(form: _Form) -> None:
    """Whoever only asks for how the form is shown, or copies it, makes no widget."""
    for name in ("_repr_png_", "__deepcopy__", "_ipython_canary_method_should_not_exist_"):
        assert not hasattr(form, name)
    assert form._widget is None


def test_a_closed_form_says_so(form: _Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a closed form there are no widgets any more, but how it stood can be seen."""
    monkeypatch.setattr("petsync.widgets.form.is_live", lambda: True)
    form.close()
    with pytest.raises(PetsyncError, match="this form is closed"):
        form.widget  # noqa: B018
    with pytest.raises(AttributeError):
        form.go  # noqa: B018
    assert form._repr_mimebundle_()["text/plain"] == "as it stands"
    assert _VIEW not in form._repr_mimebundle_()


def test_closing_takes_every_widget_away(form: _Form) -> None:
    """No widget of a closed form is left in the kernel."""
    parts = [form.widget, form.go, form.go.layout, form.go.style, form.heading, form.notice]
    assert None not in [part.comm for part in parts]
    form.close()
    assert [part.comm for part in parts] == [None] * len(parts)
    assert form._widget is None


def test_an_error_is_told_with_its_way_out(form: _Form) -> None:
    """A PetsyncError is shown as it says itself."""

    def act() -> None:
        raise LockedError("another run is at work", hint="Wait for it.")

    form.work.wrap_callback(act)()
    assert (form.notice.text, form.notice.hint) == ("another run is at work", "Wait for it.")
    assert form.notice.tone == "problem"


def test_a_fault_is_told_without_what_it_says(
    form: _Form, faults: list[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """An error that is none of petsync's is logged; a person sees its kind, never its words."""

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
    """What was begun ends in its `then`, on another thread, and the form is idle again."""
    ended: list[tuple[int, str]] = []

    async def seven() -> int:
        return 7

    form.work.start(seven(), lambda value: ended.append((value, threading.current_thread().name)))
    assert form.work.wait()
    assert ended == [(7, "petsync-forms")]
    assert not form.work.is_busy


def test_work_that_is_over_at_once(form: _Form) -> None:
    """However short it is, its end comes after `start` has returned."""
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
    """What ends after a form was closed is not dealt with any more, nor is what is pressed."""
    told: list[str] = []
    go_on = threading.Event()

    async def late() -> None:
        await asyncio.to_thread(go_on.wait, 60)

    form.work.start(late(), lambda _: told.append("ended"))
    press = form.work.wrap_callback(lambda: told.append("pressed"))
    form.close()
    go_on.set()
    press()
    assert form.work.wait()
    assert told == []


def test_work_that_fails_is_told(form: _Form) -> None:
    """A PetsyncError goes to `failed`; without one the form shows it."""
    told: list[PetsyncError] = []

    async def fails() -> None:
        raise LockedError("no")

    form.work.start(fails(), print, told.append)
    form.work.start(fails(), print)
    assert form.work.wait()
    assert [error.message for error in told] == ["no"]
    assert form.notice.text == "no"


def test_stopped_work_ends_in_silence(form: _Form) -> None:
    """What is stopped with nothing to tell says nothing, and its end is waited for."""
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
    """Two threads' callbacks never run at once."""
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
    """A kernel that runs a notebook through takes no input and has nobody looking; Voilà's has."""
    import ipykernel  # noqa: F401 - as in a kernel

    for name in [name for name in os.environ if name.startswith("VOILA_")]:
        monkeypatch.delenv(name)
    if voila:
        monkeypatch.setenv("VOILA_KERNEL_ID", "1")
    monkeypatch.setattr("IPython.get_ipython", _shell(allows_input=allows_input))
    assert is_live() is live
