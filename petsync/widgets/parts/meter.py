"""Meter: how far something is, for the eye and for a screen reader."""

from __future__ import annotations

import traitlets as t

from petsync.widgets.parts.part import Part

__all__ = ["Meter"]


class Meter(Part, script="meter.js"):
    """A labelled progress bar: `done` of `total` (0 while that is not known), and what `text` says
    beside it. Without `shown` it takes no room.
    """

    label = t.Unicode("").tag(sync=True)
    text = t.Unicode("").tag(sync=True)
    done = t.Float(0.0).tag(sync=True)
    total = t.Float(0.0).tag(sync=True)
    shown = t.Bool(False).tag(sync=True)
