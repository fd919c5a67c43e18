"""Differences between two texts or values, side by side and marked."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, takewhile

from rich.cells import cell_len, split_graphemes
from rich.text import Text

from petsync.models import Pet, Tag
from petsync.plan.change import Change
from petsync.plan.fields import cell, normal
from petsync.report.words import EMPTY, count, number, quote_text, shorten, wrap
from petsync.table.cells import (
    CellError,
    format_photo_urls,
    format_tags,
    parse_photo_urls,
    parse_tags,
    visible,
)
from petsync.table.columns import Column

__all__ = [
    "Cell",
    "Detail",
    "Piece",
    "SideBySide",
    "around",
    "compare_texts",
    "contrast",
    "details",
    "fit_texts",
    "fold_items",
    "items",
    "mark_differences",
    "traits",
]


# Two texts side by side, and which of their characters are not in the other.
#
# `assets/marks.js` does the same in the browser, where pages are made as they are turned.


Piece = tuple[str, bool]
"""A part of a text, and whether it is marked."""
_MOST_STEPS = 40_000
_SHARE = 2
"""Characters are marked inside a word of which at least one in so many stays."""
_CONTEXT = 24
_CUT = "..."


def mark_differences(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces, marked where they differ: by words, and inside a word that mostly
    stays by characters; whole where no word stays. The pieces of a text are together the text.
    """
    old, new = _words(before), _words(after)
    kept = _find_common_words(old, new)
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
    return _joined_pieces(left), _joined_pieces(right)


def around(before: str, after: str, longest: int) -> tuple[str, str]:
    """Both texts without most of what they begin and end with alike, if one is over `longest`
    characters; what differs stays.
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
    """The text as words and, between them, single characters as a person counts them."""
    signs = [text[start:end] for start, end, _ in split_graphemes(text)[0]]
    words: list[str] = []
    for is_word, group in groupby(signs, key=_is_word):
        parts = list(group)
        words += ["".join(parts)] if is_word else parts
    return words


def _is_word(sign: str) -> bool:
    return unicodedata.category(sign[0])[0] in "LN" or sign[0] == "_"


def _find_common_words(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places of the words that both have, in order: of most words that is possible."""
    head = _common_items(old, new)
    tail = _common_items(old[head:][::-1], new[head:][::-1])
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
    head = _common_items(old, new)
    tail = _common_items(old[head:][::-1], new[head:][::-1])
    if (head + tail) * _SHARE < max(len(old), len(new)):
        head = tail = 0
    return _parts(old, head, tail), _parts(new, head, tail)


def _parts(signs: Sequence[str], head: int, tail: int) -> list[Piece]:
    stop = len(signs) - tail
    parts = (signs[:head], False), (signs[head:stop], True), (signs[stop:], False)
    return [("".join(part), is_marked) for part, is_marked in parts]


def _common_items(one: Sequence[str], other: Sequence[str]) -> int:
    """With how many items both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _joined_pieces(pieces: list[Piece]) -> list[Piece]:
    """The pieces without empty ones, neighbours of one sort joined."""
    groups = groupby((piece for piece in pieces if piece[0]), key=lambda piece: piece[1])
    return [("".join(text for text, _ in group), is_marked) for is_marked, group in groups]


# A field before and after, as a cell shows it, with what differs marked.


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
        return _compare_lists(items(before), items(after), separator)
    return compare_texts(cell(before, column), cell(after, column))


def compare_texts(before: str, after: str) -> tuple[Pieces, Pieces]:
    """Both texts, with the words or characters that the other has not."""
    if max(len(before), len(after)) > _LONGEST or (
        max(before.count(" "), after.count(" ")) > _MOST_WORDS
    ):
        return [(before, True)], [(after, True)]
    return mark_differences(before, after)


def _compare_lists(
    before: Sequence[str], after: Sequence[str], separator: str
) -> tuple[Pieces, Pieces]:
    """Two lists with the items marked that the other has not; of lists of the same items, those
    that stand elsewhere.
    """
    both = set(before) & set(after)
    left, right = ({n for n, item in enumerate(items) if item in both} for items in (before, after))
    if len(left) == len(before) and len(right) == len(after) and len(before) <= _MOST_ITEMS:
        blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
        left = {n for block in blocks for n in range(block.a, block.a + block.size)}
        right = {n for block in blocks for n in range(block.b, block.b + block.size)}
    return _joined_items(before, left, separator), _joined_items(after, right, separator)


def _joined_items(items: Sequence[str], kept: set[int], separator: str) -> Pieces:
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


# What is to change in a pet, field by field, in values that every format can show.


_SHOWN_ITEMS = 12
_ITEM_WIDTH = 60
_APART = ",;"
"""What stands between a pet's traits, and between its tags."""


@dataclass(frozen=True, slots=True)
class Detail:
    """One field: from `before` to `after`, or, of a list, the items that are `gone` and `come`, or
    that it holds before and after in two `orders`, each with its number.

    All visible text, at its full length.
    """

    column: Column
    before: str = ""
    after: str = ""
    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()
    orders: tuple[tuple[str, ...], ...] = ()


def details(change: Change) -> Iterator[Detail]:
    """The fields of the change, one after the other; none for a delete."""
    if change.after is None:
        return
    for column in change.fields:
        yield _detail(change.before or Pet(), change.after, column)


def traits(pet: Pet) -> str:
    """What a pet is in a few words: `available; Dogs; tags: calm, shy; 2 photos`."""
    return "; ".join(_traits(pet))


def _traits(pet: Pet) -> Iterator[str]:
    if pet.status:
        yield shorten(_quote_name(visible(pet.status), _APART), _ITEM_WIDTH)
    if pet.category:
        name = pet.category.name or f"category {pet.category.id}"
        yield shorten(_quote_name(visible(name), _APART), _ITEM_WIDTH)
    if pet.tags:
        yield "tags: " + ", ".join(_some(_labels(pet.tags, apart=_APART)))
    if pet.photo_urls:
        yield count(len(pet.photo_urls), "photo")


def _detail(before: Pet, after: Pet, column: Column) -> Detail:
    if column == "tags":
        return _tags(before.tags, after.tags)
    if column == "photo_urls":
        return _photos(before.photo_urls, after.photo_urls)
    return Detail(column, quote_text(cell(before, column)), quote_text(cell(after, column)))


def _tags(before: Iterable[Tag], after: Iterable[Tag]) -> Detail:
    old, new = ({(tag.id, normal(tag.name)): tag for tag in tags} for tags in (before, after))
    gone = [tag for key, tag in old.items() if key not in new]
    come = [tag for key, tag in new.items() if key not in old]
    labels = _labels([*gone, *come], apart=" ")
    return Detail("tags", gone=labels[: len(gone)], come=labels[len(gone) :])


def _photos(before: tuple[str, ...], after: tuple[str, ...]) -> Detail:
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if not gone and not come:
        orders = (tuple(map(quote_text, urls)) for urls in (before, after))
        return Detail("photo_urls", orders=tuple(_number_items(*orders)))
    return Detail(
        "photo_urls", gone=tuple(map(quote_text, gone)), come=tuple(map(quote_text, come))
    )


def _number_items(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Both orders; of long lists from the first to the last item that stands elsewhere."""
    moved = [n for n, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    start, stop = 0, len(before)
    if moved and stop > _SHOWN_ITEMS:
        start, stop = moved[0], moved[-1] + 1
    for items in (before, after):
        shown = items[start : min(stop, start + _SHOWN_ITEMS)]
        more = stop - start - len(shown)
        yield (
            *(f"{n}. {item}" for n, item in enumerate(shown, start + 1)),
            *([f"and {number(more)} more"] if more else []),
        )


def _labels(tags: Iterable[Tag], *, apart: str) -> tuple[str, ...]:
    """The tags by name, quoted where that contains what sets them apart; with their id where the
    name alone would not tell two apart.
    """
    tags = list(tags)
    uses = Counter(normal(tag.name) for tag in tags)
    return tuple(
        _quote_name(
            visible(tag.name if uses[normal(tag.name)] == 1 and tag.name else format_tags((tag,))),
            apart,
        )
        for tag in tags
    )


def _quote_name(name: str, apart: str) -> str:
    is_clear = name[:1] == '"' or not any(sign in name for sign in apart)
    return name if is_clear else f'"{name}"'


def _some(items: tuple[str, ...]) -> list[str]:
    shown = [shorten(item, _ITEM_WIDTH) for item in items[:_SHOWN_ITEMS]]
    more = len(items) - len(shown)
    return [*shown, f"{number(more)} more"] if more else shown


# Texts that are compared, cut so that where they differ stays in sight.


_LEAD = 6
"""So many characters stay in front of a difference."""


def fit_texts(texts: Sequence[str], width: int) -> list[str]:
    """Each visible text in at most `width` cells; of those too long, first what all begin with
    alike is cut.
    """
    over = max((cell_len(text) for text in texts), default=0) - width
    if over <= 0:
        return list(texts)
    different = list(dict.fromkeys(texts))
    alike = _common_prefix(different) if len(different) > 1 else 0
    cut = min(over + len(_CUT), alike - _LEAD)
    return [shorten(_without_head(text, cut), width) for text in texts]


def _common_prefix(texts: Sequence[str]) -> int:
    """How many characters the texts begin with alike."""
    columns = zip(*texts, strict=False)
    differ = (n for n, column in enumerate(columns) if any(c != column[0] for c in column))
    return next(differ, min(map(len, texts)))


def _without_head(text: str, cut: int) -> str:
    return f"{_CUT}{text[cut:]}" if cut > len(_CUT) else text


# What several sides say of one field: side by side where it fits, else below each other.


Cell = Sequence[str]
"""What one side says, visible: the items of a list, or one text."""
_GAP = "  "
_LINES = 6
"""So many lines a long text or item takes, more or less."""
_HANGING = "  "
_MOST = 60
"""So many items of a list are shown; of longer ones first what all sides have is left out."""


def items(column: Column, text: str) -> list[str]:
    """The visible items of a list's cell, each as the cell's grammar writes it; of another column
    the one text. A cell that says nothing is `(empty)`.
    """
    try:
        if column == "tags":
            found = [format_tags((tag,)) for tag in parse_tags(text)]
        elif column == "photo_urls":
            found = [format_photo_urls((url,)) for url in parse_photo_urls(text)]
        else:
            return [quote_text(text)]
    except CellError:
        return [quote_text(text)]
    return [visible(item) if item[:1] == '"' else quote_text(item) for item in found] or [EMPTY]


def fold_items(cell: Cell, room: int) -> Iterator[str]:
    """The items in lines of at most so many cells; where one needs several of them, those after
    its first are indented if there are more items.
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
    """A table of fields, each with one cell for each of the titles, in at most `room` cells."""

    def __init__(self, titles: Sequence[str], rows: Iterable[Sequence[Cell]], room: int) -> None:
        self._titles, self._room = titles, room
        self._column = max(map(cell_len, titles)) + len(_GAP)
        self._widths = [cell_len(title) for title in titles]
        space = room - (len(titles) - 1) * len(_GAP)
        # The narrow ones first, so that one wide field does not keep the others out.
        shown = map(_without_common, rows)
        for needed in sorted(map(_measure_widths, shown), key=sum):
            widths = list(map(max, self._widths, needed))
            if sum(widths) <= space:
                self._widths = widths

    def fits(self, row: Sequence[Cell]) -> bool:
        """Whether the row's cells stand side by side."""
        return all(map(int.__ge__, self._widths, _measure_widths(_without_common(row))))

    @property
    def head(self) -> Text:
        """The titles, over cells that stand side by side."""
        return self._line(self._titles, ["dim"] * len(self._titles))

    def lines(self, row: Sequence[Cell], styles: Sequence[str]) -> Iterator[Text]:
        """The row: its cells side by side where they fit, else below each other behind their
        titles.
        """
        row = _without_common(row)
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
    """The cells with texts that are too long cut in front of where they differ."""
    most = _LINES * room - _LINES * len(_HANGING)
    long = list(dict.fromkeys(item for cell in row for item in cell if cell_len(item) > most))
    short = dict(zip(long, fit_texts(long, most), strict=True))
    return [[short.get(item, item) for item in cell] for cell in row]


def _without_common(row: Sequence[Cell]) -> list[Cell]:
    """The cells without what is too much of a long list: of what all sides have first."""
    if max(map(len, row)) <= _MOST:
        return list(row)
    lists = [set(cell) for cell in row if len(cell) > 1]
    common = set.intersection(*lists) if any(each != lists[0] for each in lists) else set()
    return [_few(cell, common) for cell in row]


def _few(cell: Cell, common: set[str]) -> Cell:
    if len(cell) == 1:
        return cell
    own = [item for item in cell if item not in common]
    shared, more = len(cell) - len(own), len(own) - _MOST
    return [
        *own[:_MOST],
        *([f"and {more:,} more"] if more > 0 else []),
        *([f"and {shared:,} that all of them have"] if shared else []),
    ]
