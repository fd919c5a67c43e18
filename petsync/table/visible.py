"""Text from outside made safe to show: what steers, turns or hides is named in brackets.

A pet may be called anything: `A[NUL]b`, `[NBSP]2038`, `avail[U+200B]able` are said in a form that
a person finds in any list of characters, and that moves no cursor.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["visible"]

# Joiners belong to the spelling of emoji and of several scripts; among Latin letters they hide.
_JOINER = re.compile(r"(?<=[\u0600-\U0010ffff])[\u200c\u200d](?=[\u0600-\U0010ffff])")
_HARMLESS = frozenset(("Cn", "Co"))
"""Unassigned in this Python's Unicode (a new emoji, say), and private use."""
_NAMES = {
    "\0": "NUL",
    "\t": "tab",
    "\n": "line break",
    "\r": "CR",
    "\x1b": "ESC",
    "\u00a0": "NBSP",
}


def visible(text: str, *, keep: str = "") -> str:
    """The text with every character named that does not show as itself, but those of `keep`."""
    if text.isprintable():
        return text
    joiners = {match.start() for match in _JOINER.finditer(text)}
    return "".join(
        char if n in joiners or char in keep else _shown(char) for n, char in enumerate(text)
    )


def _shown(char: str) -> str:
    if char.isprintable() or char == "\u3000" or unicodedata.category(char) in _HARMLESS:
        return char
    return f"[{_NAMES.get(char) or f'U+{ord(char):04X}'}]"
