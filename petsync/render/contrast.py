"""A field before and after, as a cell shows it, with what differs marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher

from petsync.diff.fields import cell
from petsync.model import Pet
from petsync.render.marked import Piece, marked
from petsync.table.cells import format_photo_urls, format_tags
from petsync.table.columns import Column

__all__ = ["compared", "contrast"]

Pieces = Sequence[Piece]
_LONGEST = 1_000
_MOST_WORDS = 40
"""Texts longer than this, or of more words, are marked as a whole: a name is no essay."""
_MOST_ITEMS = 200

_ITEMS: Mapping[str, tuple[Callable[[Pet], Sequence[str]], str]] = {
    "tags": (lambda pet: [format_tags((tag,)) for tag in pet.tags], "; "),
    "photo_urls": (lambda pet: [format_photo_urls((url,)) for url in pet.photo_urls], "\n"),
}


def contrast(before: Pet | None, after: Pet, column: Column) -> tuple[Pieces, Pieces]:
    """What the column's cell says before and after; of a list, whole items are marked. Of a pet
    that is new nothing is marked.
    """
    if before is None:
        return [], [(cell(after, column), False)]
    if column in _ITEMS:
        items, separator = _ITEMS[column]
        return _listed(items(before), items(after), separator)
    return compared(cell(before, column), cell(after, column))


def compared(before: str, after: str) -> tuple[Pieces, Pieces]:
    """Both texts, with the words or characters that the other has not."""
    if max(len(before), len(after)) > _LONGEST or (
        max(before.count(" "), after.count(" ")) > _MOST_WORDS
    ):
        return [(before, True)], [(after, True)]
    return marked(before, after)


def _listed(before: Sequence[str], after: Sequence[str], separator: str) -> tuple[Pieces, Pieces]:
    """Two lists with the items marked that the other has not; of lists of the same items, those
    that stand elsewhere.
    """
    both = set(before) & set(after)
    left, right = ({n for n, item in enumerate(items) if item in both} for items in (before, after))
    if len(left) == len(before) and len(right) == len(after) and len(before) <= _MOST_ITEMS:
        blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
        left = {n for block in blocks for n in range(block.a, block.a + block.size)}
        right = {n for block in blocks for n in range(block.b, block.b + block.size)}
    return _joined(before, left, separator), _joined(after, right, separator)


def _joined(items: Sequence[str], kept: set[int], separator: str) -> Pieces:
    """The items with what separates them, unmarked neighbours as one piece."""
    pieces: list[Piece] = []
    for n, item in enumerate(items):
        if n:
            pieces.append((separator, False))
        pieces.append((item, n not in kept))
    merged: list[Piece] = []
    for text, is_marked in pieces:
        if merged and merged[-1][1] == is_marked:
            merged[-1] = merged[-1][0] + text, is_marked
        elif text:
            merged.append((text, is_marked))
    return merged
