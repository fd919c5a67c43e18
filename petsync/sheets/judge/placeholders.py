"""Texts that people write where they have nothing to say."""

from __future__ import annotations

from petsync.table.cells import trim

__all__ = ["LONGEST", "is_placeholder"]

_PLACEHOLDERS = frozenset(("-", "--", "---", "–", "—", "n/a", "none", "null", "?", "??", "tbd"))
LONGEST = max(len(text.encode()) for text in _PLACEHOLDERS)
"""So many bytes of UTF-8 the longest has."""


def is_placeholder(text: str) -> bool:
    """Whether the text stands for "nothing" or "not known", as far as people go."""
    return trim(text).casefold() in _PLACEHOLDERS
