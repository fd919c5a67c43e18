"""Heading: what a form is called, for the eye and for a screen reader."""

from __future__ import annotations

import traitlets as t

from petsync.widgets.parts.part import Part

__all__ = ["Heading"]


class Heading(Part, script="heading.js"):
    """A heading of `level` 1 to 6, which names the form around it as a region of the page."""

    text = t.Unicode("").tag(sync=True)
    level = t.Int(3).tag(sync=True)

    def focus(self) -> None:
        """Have the browser go on from here: what was focused has been taken away."""
        self.send({"focus": True})
