"""Form: the base of all forms, with a static view for notebooks without a kernel."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import ipywidgets
from IPython.display import display

from petsync._sync import LoopThread, Task
from petsync.errors import AuthError, PetsyncError
from petsync.report import html
from petsync.report.document import Document
from petsync.report.text import plain_text
from petsync.widgets.components import Heading, Notice, in_form

__all__ = ["Form", "StaticView", "Work", "is_live", "on_enter"]


# Work: a form's background work, on a loop thread that all forms share.
#
# A widget's callback may run on any thread or loop, depending on the ipykernel, and must never
# block. Slow work runs here as a coroutine, and a function receives its result.


R = TypeVar("R")
log = logging.getLogger("petsync.widgets")
_LOOP = LoopThread("petsync-forms")
_ONE_AT_A_TIME = threading.RLock()
"""Held while a form is built and while a callback runs. All forms share it: a callback of one form
may call another form, and with a lock for each form two threads could wait for each other.
"""
_SHOWN_TIMEOUT_S = 30.0


async def _hold_until_shown(work: Coroutine[Any, Any, R]) -> R:
    """Do the work, and hold its result or error until a browser shows the page: it gets only a part
    of the widgets that are made while it connects to the kernel, and then shows an error instead.
    """

    async def hold() -> None:
        await asyncio.wait([asyncio.wrap_future(Heading.shown)], timeout=_SHOWN_TIMEOUT_S)

    try:
        result = await work
    except Exception:
        await hold()
        raise
    await hold()
    return result


class Work:
    """The background work of one form. `failed` gets each error without a handler: a PetsyncError
    is for the user; any other error is a bug in petsync, and is logged. `on_handled` is called
    after each handled result or error of the work.

    Callbacks and results of all forms are handled one at a time, on whatever thread they arrive.
    Those that arrive while a form is built wait until it is complete.
    """

    def __init__(
        self, failed: Callable[[BaseException], None], on_handled: Callable[[], None] = lambda: None
    ) -> None:
        self._failed, self._dealt = failed, on_handled
        self._tasks: set[Task[Any]] = set()
        self._idle = threading.Condition()
        self._is_closed = False

    def wrap_callback(self, act: Callable[..., object]) -> Callable[..., None]:
        """Return the function as a widget's callback, which reports errors, and does nothing after
        `close`.
        """

        def callback(*arguments: Any) -> None:
            try:
                with _ONE_AT_A_TIME:
                    if not self._is_closed:
                        act(*arguments)
            except Exception as error:  # noqa: BLE001 - ipywidgets would swallow it
                self._tell(error)

        return callback

    def on_clicks(self, acts: Mapping[ipywidgets.Button, Callable[[], object]]) -> None:
        """Call each function when its button is pressed."""
        for button, act in acts.items():
            button.on_click(self.wrap_callback(lambda _, act=act: act()))

    def start(
        self,
        work: Coroutine[Any, Any, R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None = None,
    ) -> Task[R]:
        """Start the work, and return its task at once. `then` gets the result, `failed` the
        PetsyncError.

        `cancel()` on the task stops it as Ctrl-C does: a run ends between two changes and raises
        InterruptedRunError; other work ends without a message.
        """
        is_early = _is_page() and not Heading.shown.done()
        task = _LOOP.start(_hold_until_shown(work) if is_early else work)
        self._tasks.add(task)
        starter = threading.get_ident()

        async def later(done: Future[R]) -> None:
            self._finish(task, done, then, failed)

        def finish(done: Future[R]) -> None:
            # The work may have ended already; the callback must run after `start` has returned.
            if threading.get_ident() == starter:
                _LOOP.start(later(done))
            else:
                self._finish(task, done, then, failed)

        task.done.add_done_callback(finish)
        return task

    @property
    def is_busy(self) -> bool:
        """Whether any work is active."""
        return bool(self._tasks)

    def stop(self) -> None:
        """Stop all work. Returns at once."""
        for task in list(self._tasks):
            task.cancel()

    def close(self) -> None:
        """Stop all work, and wait until no callback is running. After that, no callback or `then`
        function is called, because their widgets no longer exist.
        """
        with _ONE_AT_A_TIME:
            self._is_closed = True
        self.stop()

    def wait(self, seconds: float = 60.0) -> bool:
        """Wait up to `seconds` for the work, and return whether all of it has ended. For scripts
        and tests; a callback must not wait.
        """
        with self._idle:
            return self._idle.wait_for(lambda: not self._tasks, seconds)

    def _finish(
        self,
        task: Task[R],
        done: Future[R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None,
    ) -> None:
        try:
            self._handle(done, then, failed)
            self._dealt()
        except Exception as error:  # noqa: BLE001 - nobody else would see it
            self._tell(error)
        finally:
            with self._idle:
                self._tasks.discard(task)
                self._idle.notify_all()

    def _handle(
        self,
        done: Future[R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None,
    ) -> None:
        error = done.exception()
        with _ONE_AT_A_TIME:
            if error is None:
                if not self._is_closed:
                    then(done.result())
            elif isinstance(error, PetsyncError) and self._is_closed:
                pass  # no user can see it
            elif isinstance(error, PetsyncError) and failed is not None:
                failed(error)
            elif not isinstance(error, KeyboardInterrupt):
                self._tell(error)

    def _tell(self, error: BaseException) -> None:
        if not isinstance(error, PetsyncError):
            log.error("a form failed with %s", type(error).__name__, exc_info=error)
        with _ONE_AT_A_TIME:
            self._failed(error)


# The Enter key in a field: it does the same as the button beside the field.


_SUBMIT_DELAY_S = 0.2


def on_enter(field: ipywidgets.Text, work: Work, act: Callable[[], object]) -> None:
    """Call the function when Enter is pressed in the field, not when it loses the focus."""

    def submit(_: object, content: dict[str, Any], __: object) -> None:
        # The browser sends the key first, and then the final text.
        if content.get("event") == "submit":
            work.start(asyncio.sleep(_SUBMIT_DELAY_S), lambda _: act())

    field.on_msg(work.wrap_callback(submit))


# StaticView: a form's HTML and text, which a notebook still shows when the kernel no longer runs.
#
# JupyterLab prefers an output's widgets even if they no longer exist, so the static view is a
# separate output; `parts.css` hides it while the widgets exist.


_UPDATE_DELAY_S = 0.3
# Without a kernel, Jupyter shows a line of text in place of the widgets; this hides it.
_STYLE = """<style>
.jp-OutputArea-child:has(.petsync-still) + .jp-OutputArea-child
  > .jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none; }
</style>"""
_HOW = "<p>This is the last state of the form. Run the cell to use it again.</p>"


class StaticView:
    """One form's static output, the same wherever the form is shown."""

    def __init__(self, html: Callable[[], str], text: Callable[[], str]) -> None:
        self._html, self._text = html, text
        self._id = f"petsync-{uuid.uuid4().hex}"
        self._shown: dict[str, str] | None = None
        self._is_due = self._is_over = False
        self._lock = threading.Lock()

    def show(self) -> None:
        """Show the form's current state as an output of the running cell."""
        with self._lock:
            self._shown = self._render()
            self._display(update=False)

    def renew(self) -> None:
        """Update the displayed state soon, if it is displayed. Returns at once."""
        if self._shown is None or self._is_due or self._is_over:
            return
        self._is_due = True
        timer = threading.Timer(_UPDATE_DELAY_S, self._renew)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Stop updating the output."""
        self._is_over = True

    def _renew(self) -> None:
        self._is_due = False
        try:
            with self._lock:
                made = self._render()
                if made != self._shown and not self._is_over:
                    self._shown = made
                    self._display(update=True)
        except Exception as error:  # noqa: BLE001 - the form itself still works
            log.debug("a form's static output was not updated: %s", type(error).__name__)

    def _display(self, *, update: bool) -> None:
        options = {"raw": True, "display_id": self._id, **({"update": True} if update else {})}
        display(self._shown, **options)  # type: ignore[no-untyped-call]

    def _render(self) -> dict[str, str]:
        shown = html.element("div", _STYLE + self._html() + _HOW, class_="petsync-still")
        return {"text/html": shown, "text/plain": self._text()}


# Form: widgets with a live kernel, else HTML and text.


_VIEW = "application/vnd.jupyter.widget-view+json"


class Form(ABC):
    """A form; as the last value of a cell, it is displayed.

    Its widgets are created on first use. A notebook that runs without a user (nbconvert,
    papermill, nbval) therefore creates no widgets and stores only the form's HTML and text,
    without widget values. `widget` contains the widgets, to combine with others.
    """

    title = ""
    """The heading, which screen readers read too."""
    level = 3
    """The heading's level in the page."""
    sign_in_hint = ""
    """Where to sign in, if the page has a place for that."""
    terms: ClassVar[tuple[tuple[str, str], ...]] = (
        (r": `petsync login`, in Python store\.begin_sign_in\([^)]*\)", ""),
        (r'plan with the whole store: --scope all \(in Python scope="all"\)', "plan a whole sheet"),
    )
    """Parts of messages that name commands, options and arguments, as regular expressions, and the
    texts that replace them in the form.
    """
    _is_started = _is_closed = False

    def __init__(self) -> None:
        self.heading = Heading(text=self.title, level=self.level)
        self.notice = Notice()
        self._still = StaticView(self.html, self.text)
        self.work = Work(self.fail, self.renew)
        self._refused = ""
        self._widget: ipywidgets.Widget | None = None

    def html(self) -> str:
        """The form's current state as an HTML fragment without controls."""
        heading = html.element(f"h{self.level}", html.text(self.heading.text))
        return "\n".join([heading, *map(html.document_html, self._iter_views())])

    def text(self) -> str:
        """The form's current state as plain text of at most 80 columns; only lines with URLs, paths
        or commands can be longer.
        """
        return "\n\n".join([self.heading.text, *map(plain_text, self._iter_views())])

    @abstractmethod
    def _iter_views(self) -> Iterable[Document]:
        """Return the form's current state below its heading."""

    @abstractmethod
    def _build_body(self) -> ipywidgets.Widget:
        """Make the form's widgets below its heading; called once."""

    @property
    def widget(self) -> ipywidgets.Widget:
        """The form's widgets. Raises PetsyncError if the form is closed."""
        with _ONE_AT_A_TIME:
            if self._is_closed:
                raise PetsyncError("this form is closed", hint="Make a new one.")
            if self._widget is None:
                self._is_started = True
                box = ipywidgets.VBox([self.heading, self._build_body(), self.notice])
                box.add_class("petsync-form")
                self._widget = box
            return self._widget

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return a field or button by its name, even before the form is shown."""
            if name.startswith("_") or self._is_started or "_widget" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            assert self.widget is not None
            return getattr(self, name)

    def tell(self, text: str, hint: str = "") -> None:
        """Show a message, which screen readers announce."""
        self.notice.say(text, hint)

    def in_form(self, text: str) -> str:
        """Return the text with the form's controls in place of commands and options."""
        return in_form(text, self.terms)

    def fail(self, error: BaseException) -> None:
        """Show an error, and what to do."""
        if isinstance(error, PetsyncError):
            message, hint = self.in_form(error.problem), self.in_form(error.cure)
            if isinstance(error, AuthError) and error.status == 401:
                self._refused, hint = message, self.sign_in_hint or hint
            self.notice.warn(message, hint)
        else:
            # The message of an unknown error may contain a secret.
            self.notice.warn(
                f"This form failed because of a bug in petsync ({type(error).__name__})",
                "The kernel's log has the details.",
            )

    def forget_refusal(self) -> bool:
        """Return whether the notice shows that a request was refused with 401; if so, clear the
        notice.
        """
        refused, self._refused = self._refused, ""
        if not refused or self.notice.text != refused:
            return False
        self.notice.clear()
        return True

    @property
    def is_running(self) -> bool:
        """Whether a run or an upload is active, which closing the form would stop."""
        return False

    def renew(self) -> None:
        """Save the form's current state in the notebook. Returns at once."""
        self._still.renew()

    def close(self) -> None:
        """Stop the work, and remove the widgets."""
        self._still.close()
        self.work.close()
        for part in (self._widget, self.heading, self.notice):
            if part is not None:
                _close(part)
        self._widget = None
        self._is_started = self._is_closed = True

    def __str__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": self.text(), "text/html": self.html()}
        if is_live() and not self._is_closed:
            bundle[_VIEW] = self._view()
        return bundle

    def _ipython_display_(self) -> None:
        """Display two outputs in a live notebook: the static view, and the widgets."""
        if self._is_closed or not is_live() or _is_page():
            raise NotImplementedError  # IPython then shows the MIME bundle
        self._still.show()
        plain = f"{self.title}: run this cell to show the form"
        display({_VIEW: self._view(), "text/plain": plain}, raw=True)  # type: ignore[no-untyped-call]

    def _view(self) -> dict[str, Any]:
        return {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}


def is_live() -> bool:
    """Whether a user may be present: the kernel accepts input, or it is a kernel of Voilà, which
    runs the notebook before the user sees the page.
    """
    if "ipykernel" not in sys.modules:
        return False
    if _is_page():
        return True
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return kernel is not None and bool(getattr(kernel, "_allow_stdin", True))


def _is_page() -> bool:
    """Whether this kernel is Voilà's, whose page is never saved."""
    return any(name.startswith("VOILA_") for name in os.environ)


def _close(widget: ipywidgets.Widget) -> None:
    for child in getattr(widget, "children", ()):
        _close(child)
    for part in (getattr(widget, "style", None), getattr(widget, "layout", None), widget):
        if part is not None:
            part.close()
