"""The conflicts of a plan as lines: what the export, the sheet and the store say, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from petsync.diff.change import Clash, Conflict
from petsync.render import lines, words
from petsync.render.digest import Listing
from petsync.render.fit import fitted
from petsync.render.visible import quoted, shorten, visible, wrap

__all__ = ["conflict_lines"]

_INDENT = 6
_GAP = "  "
_LABEL = 12
_NAME = 30
"""`photo_urls` and a gap."""
_LINES = 3
"""So many lines a long value may take."""
_SIDES = ("exported", "sheet", "store")
_WINS: Mapping[words.Winner, Mapping[str, str]] = {
    "": {},
    "store": {"store": "store (stays)"},
    "sheet": {"sheet": "sheet (sent)"},
}


def conflict_lines(winner: words.Winner, listing: Listing[Conflict], width: int) -> Iterator[Text]:
    """The conflicts with this winner that are shown, under a heading that counts all of them."""
    if not listing.total:
        return
    yield from lines.heading(words.conflicts_title(listing.total, winner), width)
    table = _Columns(winner, listing.shown, width)
    is_headed = False
    for conflict in listing.shown:
        if not conflict.clashes:
            said = words.sentences(conflict.problem, conflict.suggestion)
            yield from lines.item("conflict", visible(f"{_place(conflict)} {said}"), width)
            continue
        yield from lines.item("conflict", visible(_both(conflict)), width)
        for clash in conflict.clashes:
            if not is_headed and table.has(clash):
                yield table.head
                is_headed = True
            yield from table.rows(clash)
    yield from lines.more(listing.more)


def _both(conflict: Conflict) -> str:
    """`Pets!B18 (pet 17, Bella)`."""
    name = f", {shorten(visible(conflict.name), _NAME)}" if conflict.name else ""
    pet = f"pet {conflict.pet_id}{name}"
    return f"{conflict.source} ({pet})" if conflict.source else pet


def _place(conflict: Conflict) -> str:
    """Where, and which pet, but for a row that names none."""
    if conflict.pet_id is not None or not conflict.source:
        return _both(conflict)
    name = shorten(visible(conflict.name), _NAME)
    return f"{conflict.source} ({name})" if name else conflict.source


class _Columns:
    """The columns in which the fields of several conflicts stand below each other."""

    def __init__(self, winner: words.Winner, shown: Sequence[Conflict], width: int) -> None:
        self._winner = winner
        self._room = width - _INDENT - _LABEL
        self._titles = [_WINS[winner].get(side, side) for side in _SIDES]
        most = (self._room - 2 * len(_GAP)) // 3
        values = [_values(clash) for conflict in shown for clash in conflict.clashes]
        short = [each for each in values if max(map(cell_len, each)) <= most]
        self._widths = [
            max(map(cell_len, column)) for column in zip(self._titles, *short, strict=True)
        ]

    def has(self, clash: Clash) -> bool:
        """Whether the field's values stand in the columns."""
        cells = zip(_values(clash), self._widths, strict=True)
        return all(cell_len(text) <= width for text, width in cells)

    @property
    def head(self) -> Text:
        """The titles of the columns."""
        return self._row("", [(title, "dim") for title in self._titles])

    def rows(self, clash: Clash) -> Iterator[Text]:
        """A field's three values, in a line where they fit, else below each other."""
        values = _values(clash)
        if self.has(clash):
            yield self._row(clash.column, list(zip(values, self._styles(), strict=True)))
            return
        column = max(map(len, self._titles)) + len(_GAP)
        room = self._room - column
        texts = fitted(values, _LINES * room)
        label = f"{clash.column:<{_LABEL}}"
        for title, text, style in zip(self._titles, texts, self._styles(), strict=True):
            side = title
            for line in wrap(text, room):
                head = " " * _INDENT + label
                yield Text.assemble(head, (f"{side:<{column}}", "dim"), (line, style))
                label, side = " " * _LABEL, ""

    def _styles(self) -> list[str]:
        return ["bold" if side == self._winner else "" for side in _SIDES]

    def _row(self, label: str, cells: Sequence[tuple[str, str]]) -> Text:
        line = Text(" " * _INDENT + f"{label:<{_LABEL}}")
        for (text, style), width in zip(cells, self._widths, strict=True):
            line.append(text, style)
            line.append(" " * (width - cell_len(text)) + _GAP)
        line.rstrip()
        return line


def _values(clash: Clash) -> list[str]:
    texts = (clash.base, clash.sheet, clash.store)
    # A list's items may stand on lines of their own; in a line the grammar has another mark.
    return [quoted(text.replace("\n", " | ")) for text in texts]
