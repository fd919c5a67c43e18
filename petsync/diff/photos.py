"""Photo URLs: two sides' edits of one ordered list as one. Compared trimmed and in NFC."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from petsync.diff.fields import normal, photo_keys, same_photos

__all__ = ["kept_photos", "meant_photos", "merged_photos"]

Urls = tuple[str, ...]


def meant_photos(old: Urls, said: Iterable[str]) -> Urls:
    """The list that is said, with the pet's own spelling of each address that the pet has."""
    said = tuple(said)
    return old if same_photos(old, said) else _spelled(photo_keys(said), old, said)


def merged_photos(base: Iterable[str], sheet: Iterable[str], store: Iterable[str]) -> Urls | None:
    """The list with what both sides took out, put in and moved; None where both moved the same
    items apart.

    One side's order holds: the store's, unless the sheet alone moved something. What the other
    side put in stands behind the item that it follows there, and behind what the first side put in
    at the same place.
    """
    sides = tuple(base), tuple(sheet), tuple(store)
    old, mine, theirs = map(photo_keys, sides)
    common = set(old) & set(mine) & set(theirs)
    was, here, there = ([u for u in side if u in common] for side in (old, mine, theirs))
    if here in (was, there):
        merged = _joined(old, theirs, mine)
    elif there == was:
        merged = _joined(old, mine, theirs)
    else:
        return None
    return _spelled(merged, sides[2], sides[1])


def kept_photos(sheet: Iterable[str], store: Iterable[str], kept: Collection[str]) -> Urls:
    """The sheet's list with those of the store's items that are to be kept, each behind the item
    that it follows there.
    """
    sides = tuple(store), tuple(sheet)
    theirs, mine = map(photo_keys, sides)
    held = frozenset(map(normal, kept))
    old = tuple(url for url in theirs if url in mine or url not in held)
    return _spelled(_joined(old, mine, theirs), *sides)


def _spelled(keys: Iterable[str], first: Iterable[str], other: Iterable[str]) -> Urls:
    """The addresses as the first list spells them, else as the other one does."""
    spelling: dict[str, str] = {}
    for url in (*first, *other):
        spelling.setdefault(normal(url), url)
    return tuple(spelling[key] for key in keys)


def _joined(old: Urls, first: Urls, other: Urls) -> Urls:
    """`first` without what `other` took out of `old`, and with what it put in."""
    had, left = set(old), set(other)
    result = [url for url in first if url in left or url not in had]
    there = set(result)
    for n, url in enumerate(other):
        if url in had or url in there:
            continue
        result.insert(_place(result, other[:n], had | left, there), url)
        there.add(url)
    return tuple(result)


def _place(result: Sequence[str], before: Sequence[str], known: set[str], there: set[str]) -> int:
    """Where the item goes that follows `before`: behind the last of these that is there, and
    behind what follows that and is not `known` to the other side.
    """
    leader = next((url for url in reversed(before) if url in there), None)
    place = 0 if leader is None else result.index(leader) + 1
    while place < len(result) and result[place] not in known:
        place += 1
    return place
