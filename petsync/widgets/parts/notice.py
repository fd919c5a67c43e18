"""Notice: what a form says to a person, also to one who only hears it."""

from __future__ import annotations

import traitlets as t

from petsync.widgets.parts.part import Part

__all__ = ["Notice"]


class Notice(Part, script="notice.js"):
    """A line that is read aloud when it changes. `tone` is "" (told politely), "done" or "problem"
    (told at once); `text` says what is, `hint` what to do about it. Empty, it takes no room.
    """

    text = t.Unicode("").tag(sync=True)
    hint = t.Unicode("").tag(sync=True)
    tone = t.Enum(("", "done", "problem"), "").tag(sync=True)

    def say(self, text: str, hint: str = "", *, done: bool = False) -> None:
        """Tell how things are."""
        self._show(text, hint, "done" if done else "")

    def warn(self, text: str, hint: str = "") -> None:
        """Tell what is wrong."""
        self._show(text, hint, "problem")

    def clear(self) -> None:
        """Say nothing."""
        self._show("", "", "")

    def _show(self, text: str, hint: str, tone: str) -> None:
        with self.hold_sync():
            self.text, self.hint, self.tone = text, hint, tone
