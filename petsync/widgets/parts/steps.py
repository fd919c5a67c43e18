"""Steps: where one is on a page of several, and the way to the others."""

from __future__ import annotations

import traitlets as t

from petsync.widgets.parts.part import Part

__all__ = ["Steps"]


class Steps(Part, script="steps.js"):
    """Numbered steps, of which one is shown.

    `steps` are dicts of `key`, `title`, and if so `done`, `disabled`, or `aside` (it is beside
    the steps, and has no number). A person changes `current`, the key of the step shown.
    """

    label = t.Unicode("Steps").tag(sync=True)
    steps = t.List(t.Dict()).tag(sync=True)
    current = t.Unicode("").tag(sync=True)
