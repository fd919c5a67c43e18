"""Texts that people write where they have nothing to say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Bools
from petsync.table.cells import trim

__all__ = ["are_missing_values", "are_placeholders", "is_placeholder"]

_SIGNS = ("-", "--", "---", "–", "—", ".", "..", "...", "…", "_", "?", "??", "???")
_PROGRAMS = ("none", "null", "nil", "nan", "nat", "<na>", "undefined", "\\n", "#na")
_WORDS = ("n/a", "n.a.", "k.a.", "tbd", "tba", "todo", "empty", "blank", "leer", "keine", "vide")
_PLACEHOLDERS = frozenset(
    (*_SIGNS, *_PROGRAMS, *_WORDS, *(f"({word})" for word in (*_PROGRAMS, *_WORDS)))
)
_WRITTEN = pa.array(
    ["nan", "NaN", "None", "NULL", "<NA>", "NaT", "(null)", "undefined", "\\N"], pa.large_string()
)
"""What programs write for a missing value, to the letter: a pet may well be called Null or N/A."""
_SET = pa.array(sorted(_PLACEHOLDERS), pa.large_string())


def is_placeholder(text: str) -> bool:
    """Whether the text stands for "nothing" or "not known", as far as people go."""
    return trim(text).casefold() in _PLACEHOLDERS


def are_placeholders(trimmed: Any) -> Bools:
    """Which texts of an Arrow array do."""
    found: Bools = np.asarray(pc.is_in(pc.utf8_lower(trimmed), value_set=_SET))
    return found


def are_missing_values(trimmed: Any) -> Bools:
    """Which texts of an Arrow array are what a program writes for a missing value."""
    found: Bools = np.asarray(pc.is_in(trimmed, value_set=_WRITTEN))
    return found
