"""Two texts side by side, and which of their characters are not in the other.

`assets/marks.js` does the same in the browser, where pages are made as they are turned.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import groupby, takewhile

from rich.cells import split_graphemes

__all__ = ["Piece", "around", "marked"]

Piece = tuple[str, bool]
"""A part of a text, and whether it is marked."""
_MOST_STEPS = 40_000
_SHARE = 2
"""Characters are marked inside a word of which at least one in so many stays."""
_CONTEXT = 24
_CUT = "..."


def marked(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces, marked where they differ: by words, and inside a word that mostly
    stays by characters; whole where no word stays. The pieces of a text are together the text.
    """
    old, new = _words(before), _words(after)
    kept = _kept(old, new)
    if not any(_is_word(old[i]) for i, _ in kept):
        # Brackets and spaces alone that stay would only scatter the marks.
        kept = []
    left: list[Piece] = []
    right: list[Piece] = []
    at = (0, 0)
    for i, j in [*kept, (len(old), len(new))]:
        gone, come = _inside("".join(old[at[0] : i]), "".join(new[at[1] : j]))
        left += [*gone, ("".join(old[i : i + 1]), False)]
        right += [*come, ("".join(new[j : j + 1]), False)]
        at = i + 1, j + 1
    return _joined(left), _joined(right)


def around(before: str, after: str, longest: int) -> tuple[str, str]:
    """Both texts without most of what they begin and end with alike, if one is over `longest`
    characters; what differs stays.
    """
    if max(len(before), len(after)) <= longest:
        return before, after
    head = _alike(before, after)
    tail = _alike(before[head:][::-1], after[head:][::-1])
    start, stop = max(head - _CONTEXT, 0), max(tail - _CONTEXT, 0)
    return _window(before, start, stop), _window(after, start, stop)


def _window(text: str, start: int, stop: int) -> str:
    start = start if start > len(_CUT) else 0
    stop = stop if stop > len(_CUT) else 0
    middle = text[start : len(text) - stop]
    return f"{_CUT if start else ''}{middle}{_CUT if stop else ''}"


def _words(text: str) -> list[str]:
    """The text as words and, between them, single characters as a person counts them."""
    signs = [text[start:end] for start, end, _ in split_graphemes(text)[0]]
    words: list[str] = []
    for is_word, group in groupby(signs, key=_is_word):
        parts = list(group)
        words += ["".join(parts)] if is_word else parts
    return words


def _is_word(sign: str) -> bool:
    return unicodedata.category(sign[0])[0] in "LN" or sign[0] == "_"


def _kept(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places of the words that both have, in order: of most words that is possible."""
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    rows, columns = len(old) - head - tail, len(new) - head - tail
    middle = []
    if rows * columns <= _MOST_STEPS:
        middle = _common(old[head : head + rows], new[head : head + columns])
    return [
        *((n, n) for n in range(head)),
        *((head + i, head + j) for i, j in middle),
        *((len(old) - n, len(new) - n) for n in range(tail, 0, -1)),
    ]


def _common(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """A longest common subsequence, as places; of several the one with the earliest words."""
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            same = old[i] == new[j]
            best[i][j] = best[i + 1][j + 1] + 1 if same else max(best[i + 1][j], best[i][j + 1])
    found, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _inside(gone: str, come: str) -> tuple[list[Piece], list[Piece]]:
    """What replaces what, in pieces: what both begin and end with is left unmarked if it is most
    of them.
    """
    old, new = ([text[a:b] for a, b, _ in split_graphemes(text)[0]] for text in (gone, come))
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    if (head + tail) * _SHARE < max(len(old), len(new)):
        head = tail = 0
    return _parts(old, head, tail), _parts(new, head, tail)


def _parts(signs: Sequence[str], head: int, tail: int) -> list[Piece]:
    stop = len(signs) - tail
    parts = (signs[:head], False), (signs[head:stop], True), (signs[stop:], False)
    return [("".join(part), is_marked) for part, is_marked in parts]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """With how many items both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _joined(pieces: list[Piece]) -> list[Piece]:
    """The pieces without empty ones, neighbours of one sort joined."""
    groups = groupby((piece for piece in pieces if piece[0]), key=lambda piece: piece[1])
    return [("".join(text for text, _ in group), is_marked) for is_marked, group in groups]
