"""Letters that look like others: a Cyrillic е in a Latin name, told before it is sent."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

import pandas as pd

from petsync.diff.change import Change
from petsync.diff.fields import normal
from petsync.diff.remarks import some
from petsync.model import Pet

__all__ = ["strange_letters"]

_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH LATIN")
"""Scripts that have letters which look like those of another one."""
_WORD = re.compile(r"[^\W\d_]+")
_LOOKS = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03bf\u03bd\u03b1\u03c1\u0585\u057d",
    "aeopcyxijshdqwABEKMHOPCTYXIJSABEZHIKMNOPTYXovapou",
)
"""Cyrillic, Greek and Armenian letters, and the Latin ones that look the same."""


def strange_letters(changes: Iterable[Change], pets: pd.DataFrame) -> Iterator[str]:
    """A sentence on texts that are to be sent and mix scripts within a word, and one on those that
    look just like another text that the store uses in the same column.
    """
    mixed: dict[str, str] = {}
    whole: dict[tuple[str, str], str] = {}
    for change in changes:
        if change.after is None:
            continue
        before = {} if change.before is None else dict(_texts(change.before))
        for column, text in _texts(change.after):
            if text.isascii() or before.get(column) == text:
                continue
            if strange := _mixed(text):
                mixed.setdefault(f"{change.source}: {text!r}: {strange}", "")
            elif _looks(text).isascii():
                whole.setdefault((column, text), change.source)
    if mixed:
        yield (
            f"{some([*mixed])}. These letters look like others: if nobody meant them, type the "
            "text again."
        )
    known = _known(pets) if whole else {}
    twins = [
        f"{source}: {text!r} looks like {twin!r}"
        for (column, text), source in whole.items()
        if (twin := known.get((column.partition(" ")[0], _looks(text))))
    ]
    if twins:
        yield (
            f"{some(twins)}, which the store has, and is written in other letters. If nobody meant "
            "that, type the text again."
        )


def _texts(pet: Pet) -> Iterator[tuple[str, str]]:
    """The pet's texts by their columns; tags are told apart by their names."""
    yield "name", normal(pet.name)
    yield "status", normal(pet.status)
    if pet.category is not None:
        yield "category", normal(pet.category.name)
    yield from ((f"tags {normal(tag.name)}", normal(tag.name)) for tag in pet.tags)


def _mixed(text: str) -> str:
    """Which letter of a word is of another script than the rest; "" where none is."""
    for word in _WORD.findall(text):
        scripts = {letter: _script(letter) for letter in word}
        found = {script for script in scripts.values() if script}
        if len(found) > 1:
            most = max(found, key=lambda script: sum(scripts[each] == script for each in word))
            usual = "LATIN" if "LATIN" in found else most
            odd = [each for each in scripts if scripts[each] and scripts[each] != usual]
            return f"{odd[0]!r} is {unicodedata.name(odd[0], 'a letter of another script')}"
    return ""


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "")
    return next((script for script in _SCRIPTS if name.startswith(script)), "")


def _looks(text: str) -> str:
    return text.translate(_LOOKS)


def _known(pets: pd.DataFrame) -> dict[tuple[str, str], str]:
    """The store's own texts of Latin letters alone, by column and look."""
    known = {
        (column, text): text
        for column in ("name", "status", "category")
        for text in map(normal, pets[column].dropna().unique())
        if text.isascii()
    }
    tags = {normal(tag.name) for each in pets["tags"] for tag in each}
    return known | {("tags", name): name for name in tags if name.isascii()}
