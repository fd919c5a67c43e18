"""SecretField: where a person types or pastes what must not be kept.

ipywidgets' Password has its text in the widget's state, which a notebook may save along. Here it
comes as a message, is in no state, and is gone once it was taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import traitlets as t

from petsync.settings import Secret
from petsync.widgets.parts.part import Part

__all__ = ["SecretField"]


class SecretField(Part, script="secret.js"):
    """A labelled field for a secret. `masked` shows dots in place of what is typed; `hint`, while
    it is empty, says what belongs there. `value` is what was typed so far; it is no trait, so that
    nothing saves it.
    """

    label = t.Unicode("").tag(sync=True)
    hint = t.Unicode("").tag(sync=True)
    masked = t.Bool(True).tag(sync=True)
    disabled = t.Bool(False).tag(sync=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._kept = Secret("")
        self._on_enter: list[Callable[[], object]] = []
        self.on_msg(self._heard)

    @property
    def value(self) -> str:
        """What was typed and not taken yet."""
        return self._kept.reveal()

    @value.setter
    def value(self, text: str) -> None:
        self._kept = Secret(text)

    def take(self) -> Secret:
        """What was typed; from here on the field is empty, in the browser too."""
        taken, self._kept = self._kept, Secret("")
        self.send({"clear": True})
        return taken

    def on_enter(self, act: Callable[[], object]) -> None:
        """Call the function when Enter is pressed in the field."""
        self._on_enter.append(act)

    def _heard(self, _: object, content: dict[str, Any], __: object) -> None:
        text = content.get("text")
        if isinstance(text, str):
            self._kept = Secret(text)
        if content.get("enter") is True:
            for act in self._on_enter:
                act()
