"""The word that is meant by one that is nearly it."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection

__all__ = ["nearest"]

# Letters of the Cyrillic and Greek alphabets, in small, that look like Latin ones.
_ALIKE = dict(
    zip(
        "аеорсухіјѕԁһԛԝьӏгкмнтвαβεικνορτυχγωѵ",
        "aeopcyxijsdhqwblrkmhtbabeiknoptuxywv",
        strict=True,
    )
)


def nearest(word: str, choices: Collection[str]) -> tuple[str, str]:
    """Which of the choices a case-folded word may mean, and the reason where it looks the same;
    "" twice where it is near none of them.
    """
    plain = _plain(word)
    if plain in choices:
        return plain, _reason(word)
    near = difflib.get_close_matches(plain, choices, n=1)
    return (near[0], "") if near else ("", "")


def _plain(word: str) -> str:
    """The word with Latin letters in place of those that look like them, nothing unseen in it."""
    folded = unicodedata.normalize("NFKC", word)
    return "".join(_ALIKE.get(char, char) for char in folded if char.isprintable())


def _reason(word: str) -> str:
    strange = next((char for char in word if char in _ALIKE), "")
    if strange:
        name = unicodedata.name(strange).lower()
        return f"the '{strange}' in it is U+{ord(strange):04X}, {name}"
    return "there are characters in it that look the same or cannot be seen"
