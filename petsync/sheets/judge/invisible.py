"""Characters that cannot be seen and that make texts different which look the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np

from petsync.sheets.judge.octets import octets

__all__ = ["named", "unseen"]

# Control characters, soft hyphen, direction marks, zero-width ones, fillers and tag characters.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0001\U000e0020-\U000e007f]"
)
_LEADS = {
    chr(n).encode()[:2]
    for span in (
        (0x80, 0xA0),
        (0xAD, 0xAE),
        (0x61C, 0x61D),
        (0x115F, 0x1161),
        (0x17B4, 0x17B6),
        (0x180E, 0x180F),
        (0x200B, 0x2010),
        (0x202A, 0x202F),
        (0x2060, 0x2070),
        (0x3164, 0x3165),
        (0xFEFF, 0xFF00),
        (0xFFA0, 0xFFA1),
        (0xFFF9, 0xFFFC),
        (0xE0001, 0xE0080),
    )
    for n in range(*span)
}
_PAIRS = np.zeros((256, 256), dtype=bool)
"""The bytes with which such characters begin in UTF-8; of one byte, whatever follows it."""
_PAIRS[[*range(9), 11, 12, *range(14, 32), 127]] = True
_PAIRS[tuple(zip(*_LEADS, strict=True))] = True
_GENERAL = np.zeros(256, dtype=bool)
_GENERAL[[*range(0x8B, 0x90), *range(0xAA, 0xAF)]] = True
_JOINERS = "\u200c\u200d"
_MARKS = "\u061c\u200e\u200f"
_FLAG = "\U0001f3f4"


def unseen(text: Any) -> Iterator[tuple[int, str]]:
    """Which cells of an Arrow array have such characters, and which: `(position, characters)`."""
    seen = octets(text)
    places = seen.places(lambda data: (data < ord(" ")) | (data > ord("~")))
    places = places[_PAIRS[seen.data[places], seen.following(places)]]
    # Quotation marks and dashes, which are frequent, share their first two bytes with these.
    is_general = (seen.data[places] == 0xE2) & (seen.following(places) == 0x80)
    places = places[~is_general | _GENERAL[seen.following(places, by=2)]]
    for at in seen.rows(places).tolist():
        found = "".join(dict.fromkeys(_unspelt(text[at].as_py())))
        if found:
            yield at, found


def named(characters: str) -> str:
    """`U+200B (zero width space), U+00AD (soft hyphen)`."""
    return ", ".join(map(_name, characters))


def _name(character: str) -> str:
    name = unicodedata.name(character, "control character").lower()
    return f"U+{ord(character):04X} ({name})"


def _unspelt(text: str) -> Iterator[str]:
    """The unseen characters that are no part of the spelling."""
    from_right = any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)
    for found in _UNSEEN.finditer(text):
        char, at = found[0], found.start()
        if char in _JOINERS and _is_joined(text, at):
            continue
        if char in _MARKS and from_right:
            continue
        if char >= "\U000e0020" and _FLAG in text[:at]:
            continue
        yield char


def _is_joined(text: str, at: int) -> bool:
    """Whether a joiner stands between characters of emoji, or of a script that has joiners."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return before >= "\u0600" and after >= "\u0600"
