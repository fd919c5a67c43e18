"""The views of a plan, and of the changes from the store for a sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

import msgspec

from petsync.plan.change import Change, release_of
from petsync.plan.plan import Inbound, Plan
from petsync.report import words
from petsync.report.document import (
    Alert,
    Block,
    Column,
    Details,
    Document,
    Facts,
    MappedRecords,
    Note,
    Record,
    Records,
    Row,
    RowKind,
    Summary,
    Table,
    fold_limit,
)
from petsync.report.plan import (
    KINDS,
    NOTE_KINDS,
    RELEASED,
    ROW_KINDS,
    plan_alerts,
    record_of_blocked,
    record_of_change,
    record_of_conflict,
    record_of_note,
    record_of_sheet_change,
    records,
)
from petsync.report.words import (
    Listing,
    changes_by_kind,
    clashes_by_row,
    conflicts_by_winner,
    first,
    number,
)

__all__ = ["inbound_view", "plan_page_view", "plan_title", "plan_view"]


T = TypeVar("T")


_MAX_OPEN = 20
"""The maximum number of rows of an open part, if the plan is shown with a limit."""
_MAX_NOTES = 100
"""The maximum number of notes, and of failed queries, on a page."""
_TILES = {
    "conflict": ("conflict", "conflicts"),
    "blocked": ("row needs fixing", "rows need fixing"),
    "add": ("to add", "to add"),
    "update": ("to change", "to change"),
    "delete": ("to delete", "to delete"),
}
_SEE_ALL_INBOUND = (
    "To see all of them: `petsync apply` with `--limit 0`; the report of the round has them, too."
)


def plan_view(
    plan: Plan,
    *,
    limit: int | None = 20,
    has_fingerprint: bool = False,
) -> Document:
    """Return the plan with the first `limit` rows of each kind; None shows all rows. If the user
    selected pets by their ids, conflicts and errors of other rows are only counted.
    """
    return Document("", _blocks(plan, limit, has_fingerprint=has_fingerprint))


def plan_page_view(plan: Plan) -> Document:
    """Return the plan with every row, for a page."""
    return Document("petsync plan", _page_blocks(plan))


def plan_title(plan: Plan) -> str:
    """Return the title of a plan's page."""
    return f"Undo of {plan.source}" if plan.undoes else f"Plan for {plan.source}"


def inbound_view(inbound: Inbound, *, limit: int | None = 20) -> Document:
    """Return the numbers of rows that are added, changed and removed in the sheet, and the first
    `limit` changes.
    """
    return Document(f"For the sheet {inbound.source}", _inbound_blocks(inbound, limit))


def _blocks(plan: Plan, limit: int | None, *, has_fingerprint: bool) -> Iterator[Block]:
    shown = plan if plan.selected_ids is msgspec.UNSET else _select_held(plan, plan.selected_ids)
    changes, conflicts = changes_by_kind(plan, limit), conflicts_by_winner(shown, limit)
    blocked, notes = first(shown.blocked, limit), first(_notes(plan), limit)
    yield Summary(words.plan_summary(plan, {kind: each.total for kind, each in changes.items()}))
    yield from plan_alerts(plan, limit)
    fingerprint = [("fingerprint", plan.fingerprint)] if has_fingerprint else []
    yield Facts([*words.plan_facts(plan), *words.scope_facts(plan), *fingerprint])
    clashes = clashes_by_row(plan)

    def record_change(change: Change) -> Record:
        return record_of_change(change, clashes.get(change.row))

    for kind in words.KINDS:
        title = f"{words.HEADING[kind]} {words.count(changes[kind].total, 'pet')}"
        is_long = kind == "update" and changes[kind].more
        note = words.format_changed_fields(plan.summary()) if is_long else ""
        yield from _part(plan, title, changes[kind], record_change, limit, note)
    for winner in words.WINNERS:
        title = words.conflicts_title(conflicts[winner].total, winner)
        note = words.describe_choice(plan, winner)
        yield from _part(
            plan, title, conflicts[winner], record_of_conflict, limit, note, is_urgent=True
        )
    title = words.format_need_fixing(blocked.total)
    yield from _part(plan, title, blocked, record_of_blocked, limit)
    if others := _count_others(plan, shown):
        yield Note(others, "quiet")
    yield from _notes_part(plan, notes, limit, is_open=False)
    left_out = [each.more for each in changes.values()]
    left_out += [each.more for each in conflicts.values()]
    if any((*left_out, blocked.more, notes.more)):
        yield Note(words.where_to_see_all(plan), "quiet")


def _select_held(plan: Plan, ids: Collection[int]) -> Plan:
    """Return the plan with the conflicts and errors of these pets, to show it."""
    only = frozenset(ids)
    return msgspec.structs.replace(
        plan,
        conflicts=tuple(each for each in plan.conflicts if each.pet_id in only),
        blocked=tuple(each for each in plan.blocked if each.pet_id in only),
    )


def _count_others(plan: Plan, shown: Plan) -> str:
    """Count the conflicts and errors that are not shown, as a sentence; "" if there are none."""
    conflicts = len(plan.conflicts) - len(shown.conflicts)
    blocked = len(plan.blocked) - len(shown.blocked)
    parts = [
        *([words.count(conflicts, "conflict")] if conflicts else []),
        *([words.format_need_fixing(blocked)] if blocked else []),
    ]
    return f"Not selected: {', '.join(parts)}." if parts else ""


def _advice(plan: Plan) -> str:
    if release_of(plan.raw_notes):
        return (
            "open the report of the round, or use `petsync apply` with `--limit 0` on the same "
            "file."
        )
    command = f"petsync undo {plan.undoes}" if plan.undoes else "petsync plan"
    return f"save the plan as a workbook: `{command} -o plan.xlsx`."


def _part(
    plan: Plan,
    title: str,
    listing: Listing[T],
    make: Callable[[T], Record],
    limit: int | None,
    note: str = "",
    *,
    kinds: Sequence[RowKind] = ROW_KINDS,
    is_open: bool = True,
    is_urgent: bool = False,
) -> Iterator[Details]:
    """Yield a part with these rows; nothing if there are none."""
    if listing.total:
        rows = MappedRecords(listing.shown, make)
        yield Details(
            title,
            [
                *([Note(note, "quiet")] if note else []),
                Records(rows, kinds, listing.more, advice=_advice(plan)),
            ],
            is_open=is_open and listing.total <= (fold_limit(None) if limit is None else _MAX_OPEN),
            is_urgent=is_urgent,
        )


def _notes(plan: Plan) -> Sequence[str]:
    """Return the plan's notes, without the note about a release and the warnings, which
    `plan_alerts` shows.
    """
    notes = plan.raw_notes[1:] if plan.verdict.ok and release_of(plan.raw_notes) else plan.raw_notes
    if not plan.warnings:
        return notes
    return tuple(note for note in notes if note not in plan.warnings)


def _notes_part(
    plan: Plan, notes: Listing[str], limit: int | None, *, is_open: bool = True
) -> Iterator[Details]:
    title = words.count(notes.total, "note")
    yield from _part(plan, title, notes, record_of_note, limit, kinds=NOTE_KINDS, is_open=is_open)


def _page_blocks(plan: Plan) -> Iterator[Block]:
    rows = list(records(plan))
    counts = Counter[str](KINDS[row.kind] for row in rows)
    yield Summary(words.plan_summary(plan, counts))
    yield Table((Column("What", "head"), Column("Rows", "number")), _tiles(counts), "totals")
    yield from plan_alerts(plan, _MAX_NOTES)
    yield Facts([*words.plan_facts(plan), *words.scope_facts(plan)])
    yield from _notes_part(plan, first(_notes(plan), _MAX_NOTES), None)
    if rows:
        yield Records(rows, ROW_KINDS, advice=_advice(plan), has_tools=True)


def _tiles(counts: Counter[str]) -> list[Row]:
    return [
        Row(
            (_TILES[kind][counts[kind] != 1], number(counts[kind])),
            kind,
            "",
            kind * (counts[kind] > 0),
        )
        for kind in KINDS
        if counts[kind] or kind not in ("conflict", "blocked")
    ]


def _inbound_blocks(inbound: Inbound, limit: int | None) -> Iterator[Block]:
    counts, changes = inbound.counts, first(inbound.changes, limit)
    yield Note(f"from {inbound.store}")
    if release := release_of([note.problem for note in inbound.notes[:1]]):
        yield Alert(RELEASED, [release])
    title = f"Rows: {counts.update:,} changed, {counts.add:,} added, {counts.delete:,} removed."
    rows = MappedRecords(changes.shown, record_of_sheet_change)
    yield Details(title, [Records(rows, ROW_KINDS, changes.more)])
    if changes.more:
        yield Note(_SEE_ALL_INBOUND, "quiet")
