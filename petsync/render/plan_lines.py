"""A plan as lines: what would be sent, what would not and why, and the sum of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from petsync.diff.change import Blocked, Change, Conflict
from petsync.diff.plan import Plan
from petsync.render import lines, words
from petsync.render.detail import Detail, details, traits
from petsync.render.digest import Listing, changes_by_kind, first
from petsync.render.visible import shorten, visible

__all__ = ["plan_lines"]

_INDENT = 6
_ARROW = " -> "
_CUT = "..."
_ITEMS = 12
_LEAD = 6
"""So many characters stay in front of a difference."""


def plan_lines(plan: Plan, *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """The plan with the first `limit` rows of each sort, in lines of at most `width` cells."""
    changes = changes_by_kind(plan, limit)
    conflicts, blocked = first(plan.conflicts, limit), first(plan.blocked, limit)
    notes = first(plan.notes, limit)
    yield Text("petsync plan", "bold")
    yield from lines.facts(words.plan_facts(plan), width)
    for kind in words.KINDS:
        yield from _changes(kind, changes[kind], width)
    yield from _conflicts(conflicts, width)
    yield from _blocked(blocked, width)
    yield from _notes(notes, width)
    left_out = [*(listing.more for listing in changes.values()), conflicts.more, blocked.more]
    if any((*left_out, notes.more)):
        yield lines.BLANK
        yield from lines.paragraph(words.WHERE_TO_SEE_ALL, width, style="dim")
    yield from _guard(plan, width)
    yield lines.BLANK
    counts = {kind: listing.total for kind, listing in changes.items()}
    yield from lines.paragraph(words.plan_summary(plan, counts), width, style="bold")


def _changes(kind: words.Kind, listing: Listing[Change], width: int) -> Iterator[Text]:
    if not listing.total:
        return
    yield from lines.heading(f"{words.HEADING[kind]} {words.count(listing.total, 'pet')}", width)
    numbers = _numbers(listing.shown)
    for number, change in zip(numbers, listing.shown, strict=True):
        yield from _change(number, change, width)
    yield from lines.more(listing.more)


def _numbers(changes: Sequence[Change]) -> list[str]:
    """The ids, aligned at the right."""
    numbers = ["new" if c.pet_id is None else str(c.pet_id) for c in changes]
    column = max(map(len, numbers))
    return [number.rjust(column) for number in numbers]


def _change(number: str, change: Change, width: int) -> Iterator[Text]:
    pet = words.pet_of(change)
    yield lines.spread(change.kind, number, words.name_of(pet), words.source_of(change), width)
    if change.kind == "update":
        for detail in details(change):
            yield from _detail(detail, width)
    elif said := traits(pet):
        yield from lines.paragraph(said, width, indent=_INDENT)


def _detail(detail: Detail, width: int) -> Iterator[Text]:
    label = f"{detail.column}: "
    if not (detail.gone or detail.come):
        room = width - _INDENT - len(label) - len(_ARROW)
        before, after = _both(detail.before, detail.after, room)
        yield Text(f"{' ' * _INDENT}{label}{before}{_ARROW}{after}")
        return
    items = [*(f"+{item}" for item in detail.come), *(f"-{item}" for item in detail.gone)]
    shown = [shorten(item, width - _INDENT - len(label)) for item in items[:_ITEMS]]
    if len(items) > len(shown):
        shown.append(f"and {words.number(len(items) - len(shown))} more")
    yield from lines.paragraph(label + " ".join(shown), width, indent=_INDENT)


def _both(before: str, after: str, room: int) -> tuple[str, str]:
    """Two visible texts that share the room; what a short one leaves over the other gets.

    If they are too long, what they begin with alike is cut first, so that the difference stays.
    """
    over = cell_len(before) + cell_len(after) - room
    if over > 0:
        cut = min(over // 2 + len(_CUT) + 1, _alike(before, after) - _LEAD)
        before, after = _without_head(before, cut), _without_head(after, cut)
    left = shorten(before, max(room // 2, room - cell_len(after)))
    return left, shorten(after, room - cell_len(left))


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _without_head(text: str, cut: int) -> str:
    return f"{_CUT}{text[cut:]}" if cut > len(_CUT) else text


def _conflicts(listing: Listing[Conflict], width: int) -> Iterator[Text]:
    if not listing.total:
        return
    yield from lines.heading(words.conflicts_title(listing.total), width)
    for conflict in listing.shown:
        said = words.sentences(conflict.problem, conflict.suggestion)
        yield from lines.item("conflict", visible(f"{_place(conflict)} {said}"), width)
    yield from lines.more(listing.more)


def _place(conflict: Conflict) -> str:
    pet = f"pet {conflict.pet_id}"
    if not conflict.source:
        return pet
    told = conflict.pet_id is None or pet in conflict.problem
    return conflict.source if told else f"{conflict.source} ({pet})"


def _blocked(listing: Listing[Blocked], width: int) -> Iterator[Text]:
    if not listing.total:
        return
    yield from lines.heading(words.blocked_title(listing.total), width)
    for row in listing.shown:
        yield from lines.item("blocked", visible(f"{row.source}: {row.problem}"), width)
    yield from lines.more(listing.more)


def _notes(listing: Listing[str], width: int) -> Iterator[Text]:
    if listing.total:
        yield from lines.heading("Notes", width)
    for note in listing.shown:
        yield from lines.item("note", visible(note), width)
    yield from lines.more(listing.more)


def _guard(plan: Plan, width: int) -> Iterator[Text]:
    if not plan.verdict.ok:
        yield from lines.heading(words.REFUSED, width)
        for refusal in plan.verdict.refusals:
            yield from lines.item("conflict", visible(str(refusal)), width)
    elif plan.changes:
        yield lines.BLANK
        yield Text(words.KEPT)
