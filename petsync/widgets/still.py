"""Still: a form's HTML and text beside its widgets, which a notebook keeps when the kernel is gone.

JupyterLab shows an output's widgets even where there are none any more, so the two are outputs of
their own; `parts.css` hides this one for as long as the widgets are there.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable

from IPython.display import display

from petsync.render import markup

__all__ = ["Still"]

_A_WHILE = 0.3
# Without a kernel the output of the widgets is a line of text that says so in Jupyter's words.
_STYLE = """<style>
.jp-OutputArea-child:has(.petsync-still) + .jp-OutputArea-child
  > .jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none; }
</style>"""
_HOW = "<p>This is kept from when the form was last used. Run the cell to use it again.</p>"
log = logging.getLogger("petsync.widgets")


class Still:
    """One form's still output, the same wherever the form is shown."""

    def __init__(self, html: Callable[[], str], text: Callable[[], str]) -> None:
        self._html, self._text = html, text
        self._id = f"petsync-{uuid.uuid4().hex}"
        self._shown: dict[str, str] | None = None
        self._is_due = self._is_over = False
        self._lock = threading.Lock()

    def show(self) -> None:
        """Show the form as it stands, as an output of the running cell."""
        with self._lock:
            self._shown = self._made()
            self._display(update=False)

    def renew(self) -> None:
        """Show soon how the form stands by then, where it is shown at all. Returns at once."""
        if self._shown is None or self._is_due or self._is_over:
            return
        self._is_due = True
        timer = threading.Timer(_A_WHILE, self._renew)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Leave it as it is."""
        self._is_over = True

    def _renew(self) -> None:
        self._is_due = False
        try:
            with self._lock:
                made = self._made()
                if made != self._shown and not self._is_over:
                    self._shown = made
                    self._display(update=True)
        except Exception as error:  # noqa: BLE001 - the form itself is not touched by it
            log.debug("a form's still output was not renewed: %s", type(error).__name__)

    def _display(self, *, update: bool) -> None:
        how = {"raw": True, "display_id": self._id, **({"update": True} if update else {})}
        display(self._shown, **how)  # type: ignore[no-untyped-call]

    def _made(self) -> dict[str, str]:
        shown = markup.element("div", _STYLE + self._html() + _HOW, class_="petsync-still")
        return {"text/html": shown, "text/plain": self._text()}
