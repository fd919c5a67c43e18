"""The marker that empties a field, `[clear]`, and texts that only look like it.

A text that is the marker, in whatever case and with spaces or apostrophes before it, is written
with an apostrophe before it; reading takes it away again. So a pet may be called "[clear]".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Bools, Cells
from petsync.sheets.octets import beginning_with
from petsync.table.cells import BLANKS

__all__ = ["escaped", "find"]

_BEFORE = bytes({char.encode()[0] for char in BLANKS + "'"})


def escaped(text: str, marker: str) -> str:
    """The text as it is written, so that `find` does not take it for the marker."""
    return f"'{text}" if marker and _core(text) == _core(marker) else text


def find(cells: Cells, marker: str) -> tuple[Bools, Cells]:
    """Where the cells are the marker, and the cells without the apostrophes of `escaped`."""
    found = np.zeros(len(cells), dtype=bool)
    bare: dict[int, str] = {}
    for at, text in _alike(cells.text, _core(marker)):
        if text.startswith("'"):
            bare[at] = text[1:]
        else:
            found[at] = True
    if not bare:
        return found, cells
    changed = np.zeros(len(cells), dtype=bool)
    changed[list(bare)] = True
    texts = pa.array(list(bare.values()), pa.large_string())
    return found, Cells(pc.replace_with_mask(cells.text, pa.array(changed), texts), cells.kinds)


def _alike(text: Any, core: str) -> Iterator[tuple[int, str]]:
    """The cells that are the marker, but for case, spaces and apostrophes around it."""
    if not core:
        return
    rows = np.arange(len(text))
    if core[0].isascii() and not core[0].isalpha():
        # No other character is this one in another case.
        rows = beginning_with(text, _BEFORE + core[0].encode())
    like = pc.match_substring(text.take(pa.array(rows)), core, ignore_case=True)
    for at in rows[np.asarray(like)].tolist():
        found = text[at].as_py()
        if _core(found) == core:
            yield at, found


def _core(text: str) -> str:
    return text.lstrip(BLANKS + "'").rstrip(BLANKS).casefold()
