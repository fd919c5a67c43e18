"""The view of a rehearsal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import pandas as pd

from petsync.plan.rehearsal import FaultCounts, LeftoverChange, Rehearsal, Why
from petsync.report import words
from petsync.report.document import (
    Alert,
    Block,
    Column,
    Details,
    Document,
    Facts,
    Note,
    Records,
    Row,
    Summary,
    Table,
    fold_limit,
    format_more,
)
from petsync.report.plan import ROW_KINDS, record_of_change
from petsync.report.views.run import outcome_blocks, totals_table
from petsync.report.words import count, first, number

__all__ = ["rehearsal_view"]


_REFUSED_TITLE = "The guard refuses this plan: `petsync apply` would send none of it"
_NO_STATUS = "(no status)"
_OK_OUTCOMES = ("applied", "")
_REASON_WORDS: Mapping[Why, str] = {
    "not-applied": "not applied on the copy:",
    "left-out": "left out of this plan:",
    "new": "new since the first plan:",
    "not-settled": "applied, but sheet and store still differ:",
}
_STATUS_COLUMNS = ("before", "added", "deleted", "moved_in", "moved_out", "after")
_UNEXPECTED_COLUMNS = (
    Column("Where", "where"),
    Column("Id", "id"),
    Column("Pet", "name"),
    Column("What differs"),
)
_LEFT_COLUMNS = (
    Column("Where", "where"),
    Column("Change", "change"),
    Column("Id", "id"),
    Column("Pet", "name"),
    Column("Why"),
)


def rehearsal_view(rehearsal: Rehearsal, *, limit: int | None = 20) -> Document:
    """Return the outcomes, the store afterwards and a second plan, with the first `limit` rows of
    each kind.
    """
    return Document("petsync rehearsal: nothing was sent to the store", _blocks(rehearsal, limit))


def _blocks(rehearsal: Rehearsal, limit: int | None) -> Iterator[Block]:
    plan, report = rehearsal.plan, rehearsal.report
    yield Facts(list(_facts(rehearsal)))
    if not plan.verdict.ok:
        refusals = list(map(words.describe_refusal, plan.verdict.refusals))
        yield Alert(_REFUSED_TITLE, refusals, is_refusal=True)
    yield Details("What would happen to the rows", [totals_table(report.counts, "Rows")])
    yield from outcome_blocks(report, limit, is_over=True)
    yield Details("How the store would look, by status", [_statuses(rehearsal)])
    yield from _new_pets(rehearsal, limit)
    yield from _iter_unexpected(rehearsal, limit)
    yield Details(
        "A second plan from the same sheet",
        [Note(_describe_second_plan(rehearsal)), *_leftovers(rehearsal, limit)],
    )
    if rehearsal.notes:
        yield Details("Notes", [Note(note, mark="note") for note in rehearsal.notes])
    summary = f"Rehearsed: {words.format_outcomes(report)}. {_describe_end(rehearsal)}"
    yield Summary(summary, "applied" if rehearsal.ok else None)


def _facts(rehearsal: Rehearsal) -> Iterator[tuple[str, str]]:
    plan = rehearsal.plan
    pets = count(len(rehearsal.before), "pet")
    yield "store", plan.store
    yield "copied", f"{pets}, read at {words.format_timestamp(rehearsal.taken_at)}"
    yield words.origin(plan)
    yield "tried", f"on the copy, on this machine (profile {rehearsal.profile})"
    if rehearsal.broken is not None:
        yield "faults", rehearsal.broken.faults
        yield "affected", _describe_faults(rehearsal.broken)


def _statuses(rehearsal: Rehearsal) -> Table:
    """Return the number of pets with each status before and after, and the changes in between."""
    table = rehearsal.by_status()[list(_STATUS_COLUMNS)]
    rows = [
        Row((str(status) or _NO_STATUS, *_format_counts(counts)))
        for status, *counts in table.itertuples()
    ]
    total = Row(("all", *_format_counts(table.sum().tolist())), tone="strong")
    titles = [column.replace("_", " ").capitalize() for column in _STATUS_COLUMNS]
    columns = [Column("Status", "head"), *(Column(title, "number") for title in titles)]
    return Table(columns, [*rows, total], "grid", has_titles=True)


def _format_counts(counts: list[int]) -> list[str]:
    """Return the numbers as text. Between the first and the last, a 0 is ""."""
    return [number(n) if n or at in (0, len(counts) - 1) else "" for at, n in enumerate(counts)]


def _new_pets(rehearsal: Rehearsal, limit: int | None) -> Iterator[Details]:
    listing = first(rehearsal.assigned_ids(), limit)
    rows = [
        msgspec.structs.replace(record_of_change(change), pet_id=str(pet_id), fields=())
        for change, pet_id in listing.shown
    ]
    pets = count(listing.total, "new pet")
    title = f"{pets}, with the ids that the copy assigned: the store may assign others"
    if listing.total:
        records = Records(rows, ROW_KINDS, listing.more)
        yield Details(title, [records], is_open=len(rows) <= fold_limit(limit))


def _iter_unexpected(rehearsal: Rehearsal, limit: int | None) -> Iterator[Block]:
    """Yield the values that differ from the plan although their changes were applied, and the
    number of pets that differ because their changes were not applied.
    """
    frame = rehearsal.unexpected
    is_ok = frame["outcome"].isin(_OK_OUTCOMES)
    differing = frame[is_ok]
    rows = [
        Row(
            (str(row.source), _format_id(row.id), str(row.name), _describe_difference(row)),
            "conflict",
        )
        for row in differing[:limit].itertuples()
    ]
    title = f"Different from the plan, although no change failed: {number(len(differing))}"
    table = Table(_UNEXPECTED_COLUMNS, rows, more=format_more(len(differing) - len(rows)))
    if len(differing):
        yield Details(title, [table], is_open=len(rows) <= fold_limit(limit))
    if total := len(frame[~is_ok][["id", "source"]].drop_duplicates()):
        verb, reason = ("is", "its change was") if total == 1 else ("are", "their changes were")
        yield Note(
            f"{count(total, 'pet')} {verb} different from the plan, because {reason} not applied."
        )


def _format_id(pet_id: object) -> str:
    return "" if pet_id is pd.NA else str(pet_id)


def _leftovers(rehearsal: Rehearsal, limit: int | None) -> Iterator[Details]:
    """Yield the changes of a second plan by reason, at most `limit` for each reason."""
    groups: dict[Why, list[LeftoverChange]] = {}
    for leftover in rehearsal.remaining_changes():
        groups.setdefault(leftover.why, []).append(leftover)
    for why, group in groups.items():
        listing = first(group, limit)
        title = f"{count(listing.total, 'change')}, {_REASON_WORDS[why]}"
        table = Table(
            _LEFT_COLUMNS, list(map(_left_row, listing.shown)), more=format_more(listing.more)
        )
        yield Details(title, [table], is_open=len(listing.shown) <= fold_limit(limit))


def _left_row(leftover: LeftoverChange) -> Row:
    change = leftover.change
    pet_id = "" if change.pet_id is None else str(change.pet_id)
    name = words.name_of(words.pet_of(change))
    cells = (words.source_of(change), change.kind, pet_id, name, leftover.message)
    return Row(cells, change.kind)


def _describe_second_plan(rehearsal: Rehearsal) -> str:
    again = rehearsal.again
    if again is None:
        return f"There is none: {rehearsal.why_not_again}."
    if again.changes:
        changes = count(len(again.changes), "change")
        return f"It would still have {changes}."
    if again.in_sync:
        return "It would be empty: sheet and store would be in sync."
    open_counts = [
        *([count(n, "conflict")] if (n := len(again.open_conflicts)) else []),
        *([f"{count(n, 'row')} to fix"] if (n := len(again.blocked)) else []),
    ]
    return f"It would send nothing more; to be decided: {' and '.join(open_counts)}."


def _describe_end(rehearsal: Rehearsal) -> str:
    if not rehearsal.plan.verdict.ok:
        return "But the guard refuses this plan: `petsync apply` would send nothing."
    if rehearsal.stopped:
        return "The run stopped early."
    again = rehearsal.again
    if again is None:
        result = "is as planned" if rehearsal.ok else "differs from the plan"
        return f"The copy {result}."
    if again.changes:
        return f"A second plan would still have {count(len(again.changes), 'change')}."
    return "A second plan would " + ("be empty." if again.in_sync else "send nothing more.")


def _describe_faults(broken: FaultCounts) -> str:
    total = sum(broken.hits.values())
    kinds = ", ".join(f"{kind}: {number(n)}" for kind, n in sorted(broken.hits.items()))
    share = f"{number(total)} of {count(broken.requests, 'request')}"
    return f"{share} ({kinds})" if kinds else share


def _describe_difference(row: object) -> str:
    column, expected, actual, reason = (
        str(getattr(row, name)) for name in ("column", "expected", "found", "why")
    )
    label = f"{column}: " if column else ""
    difference = (
        f"{label}expected {_quote_value(expected, column)}, found {_quote_value(actual, column)}"
    )
    return f"{difference} ({reason})" if reason else difference


def _quote_value(text: str, column: str) -> str:
    if not column:
        return text
    return f"'{text}'" if text else "nothing"
