"""Files: a place where files are dropped or picked; they come in pieces, however large they are.

ipywidgets' own FileUpload sends a file as one message, which Jupyter drops without a word above
10 MiB.
"""

from __future__ import annotations

import traitlets as t

from petsync.widgets.parts.part import Part

__all__ = ["Files"]


class Files(Part, script="files.js"):
    """A labelled place for files. `accept` is as HTML has it (".xlsx,.csv" or "image/*"); a file
    larger than `most_bytes` is not taken, and its sender told so.
    """

    label = t.Unicode("Files").tag(sync=True)
    hint = t.Unicode("").tag(sync=True)
    accept = t.Unicode("").tag(sync=True)
    multiple = t.Bool(False).tag(sync=True)
    most_bytes = t.Int(0).tag(sync=True)
    disabled = t.Bool(False).tag(sync=True)
