"""The changes of a plan as lines: pet by pet, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from petsync.diff.change import Change, Conflict
from petsync.diff.plan import Plan
from petsync.render import lines, words
from petsync.render.detail import Detail, details, traits
from petsync.render.digest import Clashing, Listing
from petsync.render.fit import fitted
from petsync.render.marked import marked
from petsync.render.sides import folded

__all__ = ["change_lines", "one_change"]

_INDENT = 6
_ARROW = " -> "
_ITEMS = 12
_STYLES = (lines.GONE, lines.COME)


def change_lines(
    kind: words.Kind, listing: Listing[Change], plan: Plan, conflicts: Clashing, width: int
) -> Iterator[Text]:
    """The changes of one kind that are shown, under a heading that counts all of them, and where
    there are more the fields that they change.
    """
    if not listing.total:
        return
    yield from lines.heading(f"{words.HEADING[kind]} {words.count(listing.total, 'pet')}", width)
    if kind == "update" and listing.more:
        said = words.fields_changed(plan.summary())
        yield from lines.paragraph(said, width, indent=2, style="dim")
    numbers = _numbers(listing.shown)
    for number, change in zip(numbers, listing.shown, strict=True):
        yield from _change(number, change, width)
        if change.kind == "update" and change.row in conflicts:
            yield from _partly(conflicts[change.row], width)
    yield from lines.more(listing.more)


def one_change(change: Change, width: int) -> Iterator[Text]:
    """A change alone: the pet, and what differs in each field."""
    yield from _change(_numbers([change])[0], change, width)


def _numbers(changes: Sequence[Change]) -> list[str]:
    """The ids, aligned at the right."""
    numbers = ["new" if c.pet_id is None else str(c.pet_id) for c in changes]
    column = max(map(len, numbers), default=0)
    return [number.rjust(column) for number in numbers]


def _change(number: str, change: Change, width: int) -> Iterator[Text]:
    pet = words.pet_of(change)
    yield lines.spread(change.kind, number, words.name_of(pet), words.source_of(change), width)
    if change.kind == "update":
        for detail in details(change):
            yield from _detail(detail, width)
    elif said := traits(pet):
        yield from lines.paragraph(said, width, indent=_INDENT)


def _partly(conflict: Conflict, width: int) -> Iterator[Text]:
    text = words.held_back(conflict)
    yield from lines.paragraph(text, width, indent=_INDENT, style=lines.STYLE["conflict"])


def _detail(detail: Detail, width: int) -> Iterator[Text]:
    label = f"{detail.column}: "
    if detail.gone or detail.come:
        yield from lines.flow(
            label, _items(detail, width - _INDENT - len(label)), width, indent=_INDENT
        )
        return
    if detail.orders:
        yield from _orders(detail, width)
        return
    start = " " * _INDENT + label
    room = width - len(start)
    if cell_len(detail.before) + len(_ARROW) + cell_len(detail.after) <= room:
        old, new = _coloured(detail.before, detail.after)
        yield Text.assemble(start, old, _ARROW, new)
        return
    old, new = _coloured(*fitted([detail.before, detail.after], room))
    yield Text.assemble(start, old)
    yield Text.assemble(" " * (len(start) - len(_ARROW) + 1), _ARROW[1:], new)


def _orders(detail: Detail, width: int) -> Iterator[Text]:
    """Both orders, an address a line."""
    label = f"{detail.column}: "
    for side, style, order in zip(("before", "after"), _STYLES, detail.orders, strict=True):
        start = f"{' ' * _INDENT}{label}{side:<8}"
        for line in folded(order, width - len(start)):
            yield Text.assemble(start, (line, style))
            start = " " * len(start)
        label = " " * len(label)


def _coloured(before: str, after: str) -> tuple[Text, Text]:
    old, new = marked(before, after)
    return lines.styled(old, lines.GONE), lines.styled(new, lines.COME)


def _items(detail: Detail, room: int) -> Iterator[Text]:
    items = [
        *((f"+{item}", lines.COME) for item in detail.come),
        *((f"-{item}", lines.GONE) for item in detail.gone),
    ]
    shown = items[:_ITEMS]
    long = [item for item, _ in shown if cell_len(item) > room]
    short = dict(zip(long, fitted(long, room), strict=True))
    for item, style in shown:
        yield Text(short.get(item, item), style)
    if len(items) > _ITEMS:
        yield Text(f"and {words.number(len(items) - _ITEMS)} more")
