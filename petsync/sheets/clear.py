"""The marker that empties a field, `[clear]`, and texts that only look like it.

A text that is the marker, in whatever case and with spaces or apostrophes before it, is written
with an apostrophe before it; reading takes it away again. So a pet may be called "[clear]".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Bools, Cells
from petsync.table.cells import BLANKS, trim

__all__ = ["escaped", "find"]


def escaped(text: str, marker: str) -> str:
    """The text as it is written, so that `find` does not take it for the marker."""
    return f"'{text}" if marker and _core(text) == _core(marker) else text


def find(cells: Cells, marker: str) -> tuple[Bools, Cells]:
    """Where the cells are the marker, and the cells without the apostrophes of `escaped`."""
    found = np.zeros(len(cells), dtype=bool)
    core = _core(marker)
    like = pc.match_substring(cells.text, core, ignore_case=True) if core else None
    if like is None or not pc.any(like).as_py():
        return found, cells
    texts = cells.text.to_pylist()
    for at in np.flatnonzero(like.to_numpy(zero_copy_only=False)).tolist():
        if _core(texts[at]) != core:
            continue
        if texts[at].startswith("'"):
            texts[at] = texts[at][1:]
        else:
            found[at] = trim(texts[at]).casefold() == core
    return found, Cells(pa.array(texts, pa.large_string()), cells.kinds)


def _core(text: str) -> str:
    return text.lstrip(BLANKS + "'").rstrip(BLANKS).casefold()
