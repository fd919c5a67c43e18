"""What several sides say of one field: side by side where it fits, else below each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from petsync.render.fit import fitted
from petsync.render.visible import EMPTY, quoted, visible, wrap
from petsync.table.cells import (
    CellError,
    format_photo_urls,
    format_tags,
    parse_photo_urls,
    parse_tags,
)
from petsync.table.columns import Column

__all__ = ["Cell", "Sides", "folded", "items"]

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
            return [quoted(text)]
    except CellError:
        return [quoted(text)]
    return [visible(item) if item[:1] == '"' else quoted(item) for item in found] or [EMPTY]


def folded(cell: Cell, room: int) -> Iterator[str]:
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


class Sides:
    """A table of fields, each with one cell for each of the titles, in at most `room` cells."""

    def __init__(self, titles: Sequence[str], rows: Iterable[Sequence[Cell]], room: int) -> None:
        self._titles, self._room = titles, room
        self._column = max(map(cell_len, titles)) + len(_GAP)
        self._widths = [cell_len(title) for title in titles]
        space = room - (len(titles) - 1) * len(_GAP)
        # The narrow ones first, so that one wide field does not keep the others out.
        shown = map(_without_common, rows)
        for needed in sorted(map(_needed, shown), key=sum):
            widths = list(map(max, self._widths, needed))
            if sum(widths) <= space:
                self._widths = widths

    def fits(self, row: Sequence[Cell]) -> bool:
        """Whether the row's cells stand side by side."""
        return all(map(int.__ge__, self._widths, _needed(_without_common(row))))

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
        for title, cell, style in zip(self._titles, _shown(row, room), styles, strict=True):
            side = title
            for line in folded(cell, room):
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


def _needed(row: Sequence[Cell]) -> list[int]:
    return [max(map(cell_len, cell)) for cell in row]


def _shown(row: Sequence[Cell], room: int) -> list[Cell]:
    """The cells with texts that are too long cut in front of where they differ."""
    most = _LINES * room - _LINES * len(_HANGING)
    long = list(dict.fromkeys(item for cell in row for item in cell if cell_len(item) > most))
    short = dict(zip(long, fitted(long, most), strict=True))
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
