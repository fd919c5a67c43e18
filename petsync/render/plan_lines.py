"""A plan as lines: what it comes to, what it stands on, what would be sent, what would not, why."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from petsync.diff.change import Blocked
from petsync.diff.plan import Plan
from petsync.diff.released import release_of
from petsync.render import lines, words
from petsync.render.change_lines import change_lines
from petsync.render.conflict_lines import conflict_lines
from petsync.render.digest import (
    Listing,
    changes_by_kind,
    clashing,
    conflicts_by_winner,
    first,
)
from petsync.render.visible import shorten, visible

__all__ = ["plan_lines"]

_NAME = 30
_SCREEN = 20
"""From so many lines of details on the sum is said again below them, where a terminal stops."""


def plan_lines(plan: Plan, *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """The plan with the first `limit` rows of each sort, in lines of at most `width` cells; the
    sum of it comes first.
    """
    changes = changes_by_kind(plan, limit)
    conflicts = conflicts_by_winner(plan, limit)
    others = plan.notes[1:] if release_of(plan.notes) else plan.notes
    blocked, notes = first(plan.blocked, limit), first(others, limit)
    counts = {kind: listing.total for kind, listing in changes.items()}
    summary = list(lines.paragraph(words.plan_summary(plan, counts), width, style="bold"))
    yield from summary
    yield from _guard(plan, width)
    yield from _unanswered(plan, limit, width)
    yield lines.BLANK
    yield from lines.facts([*words.plan_facts(plan), *words.scope_facts(plan)], width)
    partial, told = clashing(plan), 0
    parts = (
        *(change_lines(kind, changes[kind], plan, partial, width) for kind in words.KINDS),
        *(conflict_lines(winner, conflicts[winner], width) for winner in words.WINNERS),
        _blocked(blocked, width),
        _notes(notes, width),
    )
    for part in parts:
        for line in part:
            told += 1
            yield line
    more = [each.more for each in changes.values()] + [each.more for each in conflicts.values()]
    if any((*more, blocked.more, notes.more)):
        yield lines.BLANK
        yield from lines.paragraph(words.where_to_see_all(plan), width, style="dim")
    if told > _SCREEN:
        yield lines.BLANK
        yield from summary
        yield from [] if plan.verdict.ok else lines.paragraph(words.REFUSED, width, style=_ALARM)


_ALARM = f"bold {lines.STYLE['blocked']}"


def _guard(plan: Plan, width: int) -> Iterator[Text]:
    if not plan.verdict.ok:
        yield from lines.heading(words.REFUSED, width, style=_ALARM)
        for refusal in plan.verdict.refusals:
            yield from lines.item("blocked", visible(refusal.problem), width)
            yield from lines.paragraph(visible(words.way_out(refusal)), width, indent=4)
    elif release := release_of(plan.notes):
        yield from lines.paragraph(release, width, style=f"bold {lines.STYLE['warning']}")
    elif plan.changes:
        yield Text(words.KEPT, "green")


def _unanswered(plan: Plan, limit: int | None, width: int) -> Iterator[Text]:
    failed = first(list(words.unanswered(plan)), limit)
    if failed.total:
        yield from lines.heading(words.UNANSWERED, width, style=_ALARM)
    for problem, then in failed.shown:
        yield from lines.item("blocked", problem, width)
        yield from lines.paragraph(then, width, indent=4)
    yield from lines.more(failed.more)


def _blocked(listing: Listing[Blocked], width: int) -> Iterator[Text]:
    if not listing.total:
        return
    yield from lines.heading(words.blocked_title(listing.total), width)
    for row in listing.shown:
        yield from lines.item("blocked", visible(f"{_place(row)}: {row.problem}"), width)
    yield from lines.more(listing.more)


def _place(row: Blocked) -> str:
    name = f", {shorten(visible(row.name), _NAME)}" if row.name else ""
    return row.source if row.pet_id is None else f"{row.source} (pet {row.pet_id}{name})"


def _notes(listing: Listing[str], width: int) -> Iterator[Text]:
    if listing.total:
        yield from lines.heading("Notes", width)
    for note in listing.shown:
        yield from lines.item("note", visible(note), width)
    yield from lines.more(listing.more)
