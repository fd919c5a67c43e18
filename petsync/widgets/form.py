"""Form: what a person fills in. With a live kernel it is widgets, else HTML and text."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from typing import Any

import ipywidgets

from petsync.errors import PetsyncError
from petsync.widgets.parts.heading import Heading
from petsync.widgets.parts.notice import Notice
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

    def __init__(self) -> None:
        self.heading = Heading(text=self.title, level=self.level)
        self.notice = Notice()
        self.work = Work(self.fail)
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
        if self._widget is None:
            box = ipywidgets.VBox([self.heading, self._body(), self.notice])
            box.add_class("petsync-form")
            self._widget = box
        return self._widget

    def tell(self, text: str, hint: str = "") -> None:
        """Say it to the person, who also hears it."""
        self.notice.say(text, hint)

    def fail(self, error: BaseException) -> None:
        """Say what went wrong, and what to do about it."""
        if isinstance(error, PetsyncError):
            self.notice.warn(error.message, error.hint)
        else:
            # What an unknown error says may hold a secret.
            self.notice.warn(
                f"This form met a fault of petsync itself ({type(error).__name__})",
                "Nothing is lost; the kernel's log has the details.",
            )

    def close(self) -> None:
        """Stop what is under way, and take the widgets away."""
        self.work.close()
        for part in (self._widget, self.heading, self.notice):
            if part is not None:
                _close(part)
        self._widget = None

    def __str__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": self.text(), "text/html": self.html()}
        if is_live():
            model = self.widget.model_id
            bundle[_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": model}
        return bundle


def is_live() -> bool:
    """Whether somebody may be looking who can press something: a kernel that was started to run a
    whole notebook takes no input. Voilà is the exception, which runs it before somebody looks.
    """
    if "ipykernel" not in sys.modules:
        return False
    if any(name.startswith("VOILA_") for name in os.environ):
        return True
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return kernel is not None and bool(getattr(kernel, "_allow_stdin", True))


def _close(widget: ipywidgets.Widget) -> None:
    for child in getattr(widget, "children", ()):
        _close(child)
    for part in (getattr(widget, "style", None), getattr(widget, "layout", None), widget):
        if part is not None:
            part.close()
