"""Differences between two texts or values, side by side and marked."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, takewhile

from rich.cells import cell_len, split_graphemes
from rich.text import Text

from petsync.models import Pet
from petsync.plan.fields import cell
from petsync.report.document import UNITS, Field, Value
from petsync.report.words import EMPTY, count, number, quote_text, shorten, wrap
from petsync.table.cells import (
    CellError,
    format_photo_urls,
    format_tags,
    make_visible,
    parse_photo_urls,
    parse_tags,
)
from petsync.table.columns import Column

__all__ = [
    "Cell",
    "Piece",
    "SideBySide",
    "compare_cells",
    "compare_texts",
    "describe_traits",
    "fit_texts",
    "fold_items",
    "items",
    "limit_items",
    "mark_differences",
    "quote_item",
    "shorten_common",
    "split_items",
]


# Differences between two texts, by words and characters.
#
# `assets/table.js` does the same in the browser.


Piece = tuple[str, bool]
"""A part of a text, and whether it is marked."""
_MAX_STEPS = 40_000
_MIN_SHARE = 2
"""Single characters of a word are marked only if at least one character in this many is
unchanged.
"""
_CONTEXT = 24
_CUT = "..."


def mark_differences(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return both texts in pieces, marked where they differ: whole words, or only characters if
    most of the word is unchanged. Texts without a common word are compared as if they were one
    word. Joining the pieces of a text gives the text again.
    """
    old, new = _words(before), _words(after)
    common = _find_common_words(old, new)
    if not any(_is_word(old[i]) for i, _ in common):
        # If the texts have only brackets and spaces in common, mark the whole texts: many short
        # marks would be hard to read.
        common = []
    left: list[Piece] = []
    right: list[Piece] = []
    position = (0, 0)
    for i, j in [*common, (len(old), len(new))]:
        removed, added = _mark_inside("".join(old[position[0] : i]), "".join(new[position[1] : j]))
        left += [*removed, ("".join(old[i : i + 1]), False)]
        right += [*added, ("".join(new[j : j + 1]), False)]
        position = i + 1, j + 1
    return _joined_pieces(left), _joined_pieces(right)


def shorten_common(before: str, after: str, longest: int) -> tuple[str, str]:
    """Return both texts. If one is over `longest` characters, most of their common start and end is
    left out; the part that differs stays.
    """
    if max(len(before), len(after)) <= longest:
        return before, after
    head = _common_items(before, after)
    tail = _common_items(before[head:][::-1], after[head:][::-1])
    start, stop = max(head - _CONTEXT, 0), max(tail - _CONTEXT, 0)
    return _window(before, start, stop), _window(after, start, stop)


def _window(text: str, start: int, stop: int) -> str:
    start = start if start > len(_CUT) else 0
    stop = stop if stop > len(_CUT) else 0
    middle = text[start : len(text) - stop]
    return f"{_CUT if start else ''}{middle}{_CUT if stop else ''}"


def _words(text: str) -> list[str]:
    """Return the text as words and, between them, single graphemes."""
    signs = [text[start:end] for start, end, _ in split_graphemes(text)[0]]
    words: list[str] = []
    for is_word, group in groupby(signs, key=_is_word):
        parts = list(group)
        words += ["".join(parts)] if is_word else parts
    return words


def _is_word(sign: str) -> bool:
    return unicodedata.category(sign[0])[0] in "LN" or sign[0] == "_"


def _find_common_words(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the words that both texts have in the same order, as pairs of positions."""
    head = _common_items(old, new)
    tail = _common_items(old[head:][::-1], new[head:][::-1])
    rows, columns = len(old) - head - tail, len(new) - head - tail
    middle = []
    if rows * columns <= _MAX_STEPS:
        middle = _longest_common(old[head : head + rows], new[head : head + columns])
    return [
        *((n, n) for n in range(head)),
        *((head + i, head + j) for i, j in middle),
        *((len(old) - n, len(new) - n) for n in range(tail, 0, -1)),
    ]


def _longest_common(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return a longest common subsequence, as pairs of positions."""
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            same = old[i] == new[j]
            best[i][j] = best[i + 1][j + 1] + 1 if same else max(best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _mark_inside(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return both parts in pieces. A common start and end are not marked if they make up at least
    half of the longer part.
    """
    old, new = ([text[a:b] for a, b, _ in split_graphemes(text)[0]] for text in (before, after))
    head = _common_items(old, new)
    tail = _common_items(old[head:][::-1], new[head:][::-1])
    if (head + tail) * _MIN_SHARE < max(len(old), len(new)):
        head = tail = 0
    return _parts(old, head, tail), _parts(new, head, tail)


def _parts(signs: Sequence[str], head: int, tail: int) -> list[Piece]:
    stop = len(signs) - tail
    parts = (signs[:head], False), (signs[head:stop], True), (signs[stop:], False)
    return [("".join(part), is_marked) for part, is_marked in parts]


def _common_items(first: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal items at the start of both sequences."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, other, strict=False))
    )


def _joined_pieces(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces without empty ones, with equally marked neighbours joined."""
    groups = groupby((piece for piece in pieces if piece[0]), key=lambda piece: piece[1])
    return [("".join(text for text, _ in group), is_marked) for is_marked, group in groups]


# The cell of a field before and after a change, with the differences marked.


Pieces = Sequence[Piece]
_MAX_LENGTH = 1_000
_MAX_WORDS = 40
"""Texts that are longer than `_MAX_LENGTH`, or have more words, are marked as a whole."""
_MAX_COMPARED_ITEMS = 200

_ITEMS: Mapping[str, tuple[Callable[[Pet], Sequence[str]], str]] = {
    "tags": (lambda pet: [format_tags((tag,)) for tag in pet.tags], "; "),
    "photo_urls": (lambda pet: [format_photo_urls((url,)) for url in pet.photo_urls], "\n"),
}


def compare_cells(before: Pet | None, after: Pet, column: Column) -> tuple[Pieces, Pieces]:
    """Return the column's cell before and after the change, with the differences marked; in a list,
    whole items are marked. For a new pet nothing is marked.
    """
    if before is None:
        return [], [(cell(after, column), False)]
    if column in _ITEMS:
        items, separator = _ITEMS[column]
        return _compare_lists(items(before), items(after), separator)
    return compare_texts(cell(before, column), cell(after, column))


def compare_texts(before: str, after: str) -> tuple[Pieces, Pieces]:
    """Return both texts with their differences marked; a long text is marked as a whole."""
    if max(len(before), len(after)) > _MAX_LENGTH or (
        max(before.count(" "), after.count(" ")) > _MAX_WORDS
    ):
        return [(before, True)], [(after, True)]
    return mark_differences(before, after)


def _compare_lists(
    before: Sequence[str], after: Sequence[str], separator: str
) -> tuple[Pieces, Pieces]:
    """Return both lists with their differences marked: the items that only one list has; or, if
    both have the same items, the moved items.
    """
    both = set(before) & set(after)
    left, right = ({n for n, item in enumerate(items) if item in both} for items in (before, after))
    if len(left) == len(before) and len(right) == len(after) and len(before) <= _MAX_COMPARED_ITEMS:
        blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
        left = {n for block in blocks for n in range(block.a, block.a + block.size)}
        right = {n for block in blocks for n in range(block.b, block.b + block.size)}
    return _joined_items(before, left, separator), _joined_items(after, right, separator)


def _joined_items(items: Sequence[str], unmarked: set[int], separator: str) -> Pieces:
    """Return the items with their separators; equally marked neighbours are one piece."""
    pieces: list[Piece] = []
    for n, item in enumerate(items):
        if n:
            pieces.append((separator, False))
        pieces.append((item, n not in unmarked))
    return _joined_pieces(pieces)


# The fields of a new or a removed pet, in one line.


_SHOWN_ITEMS = 12
_ITEM_WIDTH = 60
_SEPARATORS = ",;"


def describe_traits(fields: Iterable[Field]) -> str:
    """Describe a pet by the fields of its record: `available; category: Dogs (1); 2 photos`."""
    return "; ".join(_trait(UNITS[field[0]], field[1]) for field in fields)


def _trait(unit: Column, value: Value) -> str:
    if isinstance(value, str):
        text = shorten(quote_item(value, _SEPARATORS), _ITEM_WIDTH)
        # Without the label, the category's id could be read as a count.
        return f"category: {text}" if unit == "category" else text
    named, total = split_items(value)
    if unit == "photo_urls":
        return count(total, "photo")
    shown = [shorten(quote_item(name, _SEPARATORS), _ITEM_WIDTH) for name in named[:_SHOWN_ITEMS]]
    more = total - len(shown)
    return "tags: " + ", ".join([*shown, *([f"{number(more)} more"] if more else [])])


def split_items(value: Value) -> tuple[list[str], int]:
    """Return the items of a record's value, and the number of all items."""
    named = [item for item in value if isinstance(item, str)]
    return named, len(named) + sum(item for item in value if isinstance(item, int))


def quote_item(item: str, separators: str) -> str:
    """Return the item, quoted if it contains a separator."""
    is_unambiguous = item[:1] == '"' or not any(sign in item for sign in separators)
    return item if is_unambiguous else f'"{item}"'


# Several texts, shortened so that their differences stay visible.


_CONTEXT_BEFORE = 6
"""The number of characters that stay before a difference."""


def fit_texts(texts: Sequence[str], width: int) -> list[str]:
    """Return each printable text in at most `width` cells; if one is too long, the common start of
    all texts is cut first.
    """
    excess = max((cell_len(text) for text in texts), default=0) - width
    if excess <= 0:
        return list(texts)
    distinct = list(dict.fromkeys(texts))
    common_length = _common_prefix(distinct) if len(distinct) > 1 else 0
    cut_length = min(excess + len(_CUT), common_length - _CONTEXT_BEFORE)
    return [shorten(_cut_start(text, cut_length), width) for text in texts]


def _common_prefix(texts: Sequence[str]) -> int:
    """Return the length of the common start of all texts."""
    columns = zip(*texts, strict=False)
    differences = (n for n, column in enumerate(columns) if any(c != column[0] for c in column))
    return next(differences, min(map(len, texts)))


def _cut_start(text: str, cut: int) -> str:
    return f"{_CUT}{text[cut:]}" if cut > len(_CUT) else text


# The values of one field on several sides: side by side if they fit, else one below the other.


Cell = Sequence[str]
"""A field's value on one side, such as the sheet, as printable text: the items of a list, or one
text.
"""
_GAP = "  "
_LINES = 6
"""The approximate maximum number of lines of a text or item."""
_HANGING = "  "
_MAX_ITEMS = 60
"""The maximum number of items of a list that are shown; of longer lists, common items are left out
first.
"""


def items(column: Column, text: str) -> list[str]:
    """Return the items of a cell with tags or photo URLs as printable texts, each written as in the
    cell; for another column, or a cell that cannot be read, the cell's text. An empty cell is
    `(empty)`.
    """
    try:
        if column == "tags":
            texts = [format_tags((tag,)) for tag in parse_tags(text)]
        elif column == "photo_urls":
            texts = [format_photo_urls((url,)) for url in parse_photo_urls(text)]
        else:
            return [quote_text(text)]
    except CellError:
        return [quote_text(text)]
    return [make_visible(item) if item[:1] == '"' else quote_text(item) for item in texts] or [
        EMPTY
    ]


def fold_items(cell: Cell, room: int) -> Iterator[str]:
    """Yield the items in lines of at most `room` cells. If there are several items, an item's lines
    after the first are indented.
    """
    hanging = _HANGING if len(cell) > 1 else ""
    for item in cell:
        if cell_len(item) <= room:
            yield item
            continue
        first = wrap(item, room)[0]
        yield first
        rest = item[len(first) :].removeprefix(" ")
        for line in wrap(rest, room - len(hanging)):
            yield hanging + line


class SideBySide:
    """A table with a row for each field and a column for each title, at most `room` cells wide."""

    def __init__(self, titles: Sequence[str], rows: Iterable[Sequence[Cell]], room: int) -> None:
        self._titles, self._room = titles, room
        self._column = max(map(cell_len, titles)) + len(_GAP)
        self._widths = [cell_len(title) for title in titles]
        space = room - (len(titles) - 1) * len(_GAP)
        # Begin with the narrowest rows: one wide field must not exclude the others.
        shown = map(limit_items, rows)
        for needed in sorted(map(_measure_widths, shown), key=sum):
            widths = list(map(max, self._widths, needed))
            if sum(widths) <= space:
                self._widths = widths

    def fits(self, row: Sequence[Cell]) -> bool:
        """Return true if the row's cells fit side by side."""
        return all(map(int.__ge__, self._widths, _measure_widths(limit_items(row))))

    @property
    def head(self) -> Text:
        """The line of titles above cells that are side by side."""
        return self._line(self._titles, ["dim"] * len(self._titles))

    def lines(self, row: Sequence[Cell], styles: Sequence[str]) -> Iterator[Text]:
        """Yield the row's cells side by side if they fit, else one below the other after their
        titles.
        """
        row = limit_items(row)
        if self.fits(row):
            for texts in itertools.zip_longest(*row, fillvalue=""):
                yield self._line(texts, styles)
            return
        room = self._room - self._column
        for title, value, style in zip(
            self._titles, _shorten_cells(row, room), styles, strict=True
        ):
            side = title
            for line in fold_items(value, room):
                pad = " " * (self._column - cell_len(side))
                yield Text.assemble((side + pad, "dim"), (line, style))
                side = ""

    def _line(self, texts: Sequence[str], styles: Sequence[str]) -> Text:
        line = Text()
        for text, style, width in zip(texts, styles, self._widths, strict=True):
            line.append(text, style)
            line.append(" " * (width - cell_len(text)) + _GAP)
        line.rstrip()
        return line


def _measure_widths(row: Sequence[Cell]) -> list[int]:
    return [max(map(cell_len, cell)) for cell in row]


def _shorten_cells(row: Sequence[Cell], room: int) -> list[Cell]:
    """Return the cells with long texts shortened, so that their differences stay visible."""
    limit = _LINES * room - _LINES * len(_HANGING)
    long = list(dict.fromkeys(item for cell in row for item in cell if cell_len(item) > limit))
    short = dict(zip(long, fit_texts(long, limit), strict=True))
    return [[short.get(item, item) for item in cell] for cell in row]


def limit_items(row: Sequence[Cell]) -> list[Cell]:
    """Return the cells with long lists shortened; items that all lists have are left out first."""
    if max(map(len, row)) <= _MAX_ITEMS:
        return list(row)
    lists = [set(cell) for cell in row if len(cell) > 1]
    common = set.intersection(*lists) if any(each != lists[0] for each in lists) else set()
    return [_without(cell, common) for cell in row]


def _without(cell: Cell, common: set[str]) -> Cell:
    if len(cell) == 1:
        return cell
    others = [item for item in cell if item not in common]
    shared, more = len(cell) - len(others), len(others) - _MAX_ITEMS
    return [
        *others[:_MAX_ITEMS],
        *([f"and {more:,} more"] if more > 0 else []),
        *([f"and {shared:,} that all sides have"] if shared else []),
    ]
