"""Link: an address to be opened in another tab, or copied, that must not be kept."""

from __future__ import annotations

from typing import Any

import traitlets as t

from petsync.widgets.parts.part import Part

__all__ = ["Link"]


class Link(Part, script="link.js"):
    """A link whose text is `label`, with a field to copy its address from. The address (http or
    https) comes as a message and is in no widget's state: it may be good for one person, once.
    Without one it takes no room.
    """

    label = t.Unicode("").tag(sync=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.url = ""
        self.on_msg(self._heard)

    def show(self, url: str) -> None:
        """Lead to the address, and put the keyboard on it."""
        self.url = url
        self.send({"url": url, "focus": True})

    def clear(self) -> None:
        """Lead nowhere."""
        self.url = ""
        self.send({"url": ""})

    def _heard(self, _: object, content: dict[str, Any], __: object) -> None:
        # A page that was loaded again knows no address.
        if content.get("ready") is True:
            self.send({"url": self.url})
