"""Form: what a person fills in. With a live kernel it is widgets, else HTML and text."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import ipywidgets
from IPython.display import display

from petsync.errors import AuthError, PetsyncError
from petsync.widgets.parts.heading import Heading
from petsync.widgets.parts.notice import Notice
from petsync.widgets.still import Still
from petsync.widgets.work import Work

__all__ = ["Form", "is_live"]

_VIEW = "application/vnd.jupyter.widget-view+json"


class Form(ABC):
    """A form as the last value of a cell shows itself.

    Its widgets are made when they are first asked for, so that a notebook that runs without
    anybody looking (nbconvert, papermill, nbval) has none, and stores no widget's value: it has
    the form's HTML and text. `widget` are the widgets, to be put together with others.
    """

    title = ""
    """The heading, also what a screen reader calls the form."""
    level = 3
    """The heading's level in the page."""
    sign_in_hint = ""
    """Where to sign in, if there is a place for that at hand."""
    _begun = _is_closed = False

    def __init__(self) -> None:
        self.heading = Heading(text=self.title, level=self.level)
        self.notice = Notice()
        self._still = Still(self.html, self.text)
        self.work = Work(self.fail, self.renew)
        self._refused = ""
        self._widget: ipywidgets.Widget | None = None

    @abstractmethod
    def html(self) -> str:
        """The form as it stands, as an HTML fragment without anything to press."""

    @abstractmethod
    def text(self) -> str:
        """The same as plain text of at most 80 columns."""

    @abstractmethod
    def _body(self) -> ipywidgets.Widget:
        """The form's widgets below its heading; called once."""

    @property
    def widget(self) -> ipywidgets.Widget:
        """The form's widgets."""
        if self._is_closed:
            raise PetsyncError("this form was closed", hint="Make a new one.")
        if self._widget is None:
            self._begun = True
            box = ipywidgets.VBox([self.heading, self._body(), self.notice])
            box.add_class("petsync-form")
            self._widget = box
        return self._widget

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """A field or button, by its name, also before anybody has looked at the form."""
            if name.startswith("_") or self._begun or "_widget" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            assert self.widget is not None
            return getattr(self, name)

    def tell(self, text: str, hint: str = "") -> None:
        """Say it to the person, who also hears it."""
        self.notice.say(text, hint)

    def fail(self, error: BaseException) -> None:
        """Say what went wrong, and what to do about it."""
        if isinstance(error, AuthError) and error.status == 401:
            self._refused = error.message
            self.notice.warn(error.message, self.sign_in_hint or error.hint)
        elif isinstance(error, PetsyncError):
            self.notice.warn(error.message, error.hint)
        else:
            # What an unknown error says may hold a secret.
            self.notice.warn(
                f"This form met a fault of petsync itself ({type(error).__name__})",
                "Nothing is lost; the kernel's log has the details.",
            )

    def forget_refusal(self) -> bool:
        """Whether the last that was told is that one is not signed in; it is told no more."""
        refused, self._refused = self._refused, ""
        if not refused or self.notice.text != refused:
            return False
        self.notice.clear()
        return True

    def renew(self) -> None:
        """Have a notebook keep the form as it stands now. Returns at once."""
        self._still.renew()

    def close(self) -> None:
        """Stop what is under way, and take the widgets away."""
        self._still.close()
        self.work.close()
        for part in (self._widget, self.heading, self.notice):
            if part is not None:
                _close(part)
        self._widget = None
        self._begun = self._is_closed = True

    def __str__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": self.text(), "text/html": self.html()}
        if is_live() and not self._is_closed:
            bundle[_VIEW] = self._view()
        return bundle

    def _ipython_display_(self) -> None:
        """Two outputs where a notebook is live: what it keeps, and the widgets."""
        if self._is_closed or not is_live() or _is_page():
            raise NotImplementedError  # so that IPython goes on with the one bundle
        self._still.show()
        plain = f"{self.title}: a form, once this cell is run"
        display({_VIEW: self._view(), "text/plain": plain}, raw=True)  # type: ignore[no-untyped-call]

    def _view(self) -> dict[str, Any]:
        return {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}


def is_live() -> bool:
    """Whether somebody may be looking who can press something: a kernel that was started to run a
    whole notebook takes no input. Voilà is the exception, which runs it before somebody looks.
    """
    if "ipykernel" not in sys.modules:
        return False
    if _is_page():
        return True
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return kernel is not None and bool(getattr(kernel, "_allow_stdin", True))


def _is_page() -> bool:
    """Whether this kernel is Voilà's, whose page nobody saves."""
    return any(name.startswith("VOILA_") for name in os.environ)


def _close(widget: ipywidgets.Widget) -> None:
    for child in getattr(widget, "children", ()):
        _close(child)
    for part in (getattr(widget, "style", None), getattr(widget, "layout", None), widget):
        if part is not None:
            part.close()
