"""A plan as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from petsync.diff.change import Blocked, Change, Conflict
from petsync.diff.plan import Plan
from petsync.render import markup, words
from petsync.render.digest import (
    Clashing,
    changes_by_kind,
    clashing,
    conflicts_by_winner,
    first,
)
from petsync.render.markup import cell, element
from petsync.render.plan_cells import what
from petsync.render.plan_top import alerts, facts
from petsync.render.records import Record, of_blocked, of_change, of_conflict

__all__ = ["plan_html"]

_CHANGE_COLUMNS = ("", "Id", "Pet", "What", "Where")
_BLOCKED_COLUMNS = ("", "Id", "Pet", "Problem", "Where")


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
            title, conflicts[winner], _CHANGE_COLUMNS, _conflict, fold_over=fold_over
        )
    change = partial(_change, held=clashing(plan))
    for kind in words.KINDS:
        title = f"{words.HEADING[kind]} {words.count(counts[kind], 'pet')}"
        yield markup.listing(title, changes[kind], _CHANGE_COLUMNS, change, fold_over=fold_over)
    title = words.blocked_title(blocked.total)
    yield markup.listing(title, blocked, _BLOCKED_COLUMNS, _blocked, fold_over=fold_over)
    yield markup.listing("Notes", notes, ("", "Note"), _note, fold_over=fold_over)
    more = [listing.more for listing in changes.values()]
    more += [listing.more for listing in conflicts.values()]
    if any((*more, blocked.more, notes.more)):
        yield element("p", markup.prose(words.where_to_see_all(plan)))


def _change(change: Change, held: Clashing) -> str:
    clash = held.get(change.row) if change.kind == "update" else None
    return _row(change.kind, of_change(change, clash))


def _conflict(conflict: Conflict) -> str:
    return _row("conflict", of_conflict(conflict))


def _blocked(row: Blocked) -> str:
    return _row("blocked", of_blocked(row))


def _row(kind: words.Mark, record: Record) -> str:
    return markup.row(
        kind,
        cell(record.pet_id, kind="ps-number"),
        markup.row_head(record.name) if record.name else cell(""),
        element("td", what(record), class_="ps-what"),
        cell(record.where, kind="ps-where"),
    )


def _note(note: str) -> str:
    return markup.row("note", element("td", markup.prose(note)))
