"""A plan as HTML."""

from __future__ import annotations

from collections.abc import Iterator

from petsync.diff.change import Blocked, Change, Conflict
from petsync.diff.plan import Plan
from petsync.render import markup, words
from petsync.render.digest import changes_by_kind, conflicts_by_winner, first
from petsync.render.markup import cell, element
from petsync.render.plan_cells import what
from petsync.render.plan_top import alerts, facts
from petsync.render.records import Record, of_blocked, of_change, of_conflict

__all__ = ["plan_html"]

_CHANGE_COLUMNS = ("", "Id", "Pet", "What", "Where")
_CONFLICT_COLUMNS = ("", "Id", "What", "Where")


def plan_html(plan: Plan, *, limit: int | None = 20) -> str:
    """The plan with the first `limit` rows of each sort (all where it is None)."""
    return markup.fragment(_parts(plan, limit))


def _parts(plan: Plan, limit: int | None) -> Iterator[str]:
    fold_over = markup.fold_over(limit)
    changes = changes_by_kind(plan, limit)
    conflicts = conflicts_by_winner(plan, limit)
    blocked, notes = first(plan.blocked, limit), first(plan.notes, limit)
    counts = {kind: listing.total for kind, listing in changes.items()}
    yield markup.summary(words.plan_summary(plan, counts))
    yield from alerts(plan)
    yield markup.facts(facts(plan))
    for winner in words.WINNERS:
        title = words.conflicts_title(conflicts[winner].total, winner)
        yield markup.listing(
            title, conflicts[winner], _CONFLICT_COLUMNS, _conflict, fold_over=fold_over
        )
    for kind in words.KINDS:
        title = f"{words.HEADING[kind]} {words.count(counts[kind], 'pet')}"
        yield markup.listing(title, changes[kind], _CHANGE_COLUMNS, _change, fold_over=fold_over)
    title = words.blocked_title(blocked.total)
    yield markup.listing(title, blocked, ("", "Problem", "Where"), _blocked, fold_over=fold_over)
    yield markup.listing("Notes", notes, ("", "Note"), _note, fold_over=fold_over)
    more = [listing.more for listing in changes.values()]
    more += [listing.more for listing in conflicts.values()]
    if any((*more, blocked.more, notes.more)):
        yield element("p", markup.prose(words.WHERE_TO_SEE_ALL))


def _change(change: Change) -> str:
    record = of_change(change)
    return markup.row(
        change.kind,
        cell(record.pet_id, kind="ps-number"),
        markup.row_head(record.name),
        *_rest(record),
    )


def _conflict(conflict: Conflict) -> str:
    record = of_conflict(conflict)
    return markup.row("conflict", cell(record.pet_id, kind="ps-number"), *_rest(record))


def _blocked(row: Blocked) -> str:
    return markup.row("blocked", *_rest(of_blocked(row)))


def _rest(record: Record) -> tuple[str, str]:
    return element("td", what(record), class_="ps-what"), cell(record.where, kind="ps-where")


def _note(note: str) -> str:
    return markup.row("note", element("td", markup.prose(note)))
