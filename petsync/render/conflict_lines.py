"""The conflicts of a plan as lines: what the export, the sheet and the store say, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from petsync.diff.change import Clash, Conflict
from petsync.render import lines, words
from petsync.render.digest import Listing
from petsync.render.sides import Cell, Sides, items
from petsync.render.visible import shorten, visible

__all__ = ["conflict_lines"]

_INDENT = 6
_LABEL = 12
_NAME = 30
"""`photo_urls` and a gap."""
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
    titles = [_WINS[winner].get(side, side) for side in _SIDES]
    styles = ["bold" if side == winner else "" for side in _SIDES]
    clashes = (_values(clash) for conflict in listing.shown for clash in conflict.clashes)
    table = Sides(titles, clashes, width - _INDENT - _LABEL)
    is_headed = False
    for conflict in listing.shown:
        if not conflict.clashes:
            said = words.sentences(conflict.problem, conflict.suggestion)
            yield from lines.item("conflict", visible(f"{_place(conflict)} {said}"), width)
            continue
        yield from lines.item("conflict", visible(_both(conflict)), width)
        for clash in conflict.clashes:
            values = _values(clash)
            if not is_headed and table.fits(values):
                yield Text.assemble(" " * (_INDENT + _LABEL), table.head)
                is_headed = True
            for n, line in enumerate(table.lines(values, styles)):
                label = clash.column if n == 0 else ""
                yield Text.assemble(f"{' ' * _INDENT}{label:<{_LABEL}}", line)
            if clash.refused:
                why = f"The sheet's value is not sent: {visible(clash.refused)}."
                yield from lines.paragraph(why, width, indent=_INDENT + _LABEL)
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


def _values(clash: Clash) -> list[Cell]:
    return [items(clash.column, text) for text in (clash.base, clash.sheet, clash.store)]
